"""The step between accept and finish for shapes: keep what is in its shape, or outside of it.

A part that has residuals has one of them for most conjunctions, so they are compressed rows: 8
bytes per conjunction and 19 per residual, beside the table of shapes. For an event without
candidates nothing is read. Otherwise its keys are loaded as accept loads them, and each residual
decodes two of them, which costs a few nanoseconds, and tests the point (`geometry.inside`).

An event that has a range in place of a coordinate could be on either side of an edge. So the test
is unknown, and neither it nor its NOT holds.
"""

from __future__ import annotations

from tocsin.geometry.distance import distance_to_edge
from tocsin.geometry.inside import is_inside
from tocsin.geometry.table import ShapeTable
from tocsin.jit import Float64Out, Int32Out, Int64Out, Int64s, UInt8Out, kernel
from tocsin.model.encoding import NULL
from tocsin.model.keys import EventBatch, blank, load, unload
from tocsin.model.residuals import ShapeTests, to_coordinate

OUTSIDE, INSIDE, UNKNOWN = range(3)


@kernel
def keep_located(
    tests: ShapeTests,
    rows: Int64s,
    shapes: ShapeTable,
    batch: EventBatch,
    offsets: Int64Out,
    accepted: Int32Out,
) -> None:
    """Compact accepted conjunctions in place to those all of whose residuals hold.

    Those of conjunction c are rows[c] to rows[c + 1]. The attributes of a point are not null, since
    accept has tested them.
    """
    x_of, y_of, x_scale, y_scale = tests.x, tests.y, tests.x_scale, tests.y_scale
    shape_of, negated = tests.shape, tests.negated
    keys = batch.keys
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key, columns_high = keys.attribute, keys.key, keys.columns_high
    key_high = keys.key_high
    has_ranges = columns_high.shape[0] + key_high.shape[0] > 0
    values, highs = blank(batch.width), blank(batch.width)
    start = offsets[0]
    kept = start
    for i in range(batch.stop - batch.first):
        event, stop = batch.first + i, offsets[i + 1]
        if start < stop:
            load(columns, column_attribute, sparse, attribute, key, event, values)
            if has_ranges:
                load(columns_high, column_attribute, sparse, attribute, key_high, event, highs)
            for at in range(start, stop):
                conjunction = accepted[at]
                holds = True
                for row in range(rows[conjunction], rows[conjunction + 1]):
                    a, b = x_of[row], y_of[row]
                    if has_ranges and (values[a] != highs[a] or values[b] != highs[b]):
                        holds = False
                        break
                    x = to_coordinate(values[a], x_scale[row])
                    y = to_coordinate(values[b], y_scale[row])
                    if is_inside(shapes, shape_of[row], x, y) == (negated[row] != 0):
                        holds = False
                        break
                accepted[kept] = conjunction
                kept += holds
            unload(sparse, attribute, event, values)
            if has_ranges:
                unload(sparse, attribute, event, highs)
        start = stop
        offsets[i + 1] = kept


@kernel
def locate(
    tests: ShapeTests,
    shapes: ShapeTable,
    line: Int64s,
    last: Int64s,
    where: UInt8Out,
    distance: Float64Out,
) -> None:
    """Write for each residual where the point of an event is, and how far from the edge.

    `line` are the event's keys by attribute, and `last` the high ends of its ranges.
    """
    for row in range(where.shape[0]):
        a, b = tests.x[row], tests.y[row]
        where[row] = UNKNOWN
        if line[a] != NULL and line[b] != NULL and line[a] == last[a] and line[b] == last[b]:
            x = to_coordinate(line[a], tests.x_scale[row])
            y = to_coordinate(line[b], tests.y_scale[row])
            where[row] = INSIDE if is_inside(shapes, tests.shape[row], x, y) else OUTSIDE
            distance[row] = distance_to_edge(shapes, tests.shape[row], x, y)
