"""The step between accept and finish for shapes: keep what is in its shape, or outside of it.

The residuals of a part are compressed rows, 8 bytes per conjunction and 8 per residual, beside the
table of shapes. For an event without candidates nothing is read. Otherwise its keys are loaded as
accept loads them, and two of them are decoded. All points and shapes of a batch are tested in
groups (`geometry.inside.locate_points`), 20 nanoseconds or more each, since a large table is not in
the cache.

An event that has a range in place of a coordinate could be on either side of an edge. So the test
is unknown, and neither it nor its NOT holds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.geometry.distance import distance_to_edge
from tocsin.geometry.inside import is_inside, locate_points
from tocsin.geometry.table import ShapeTable
from tocsin.jit import (
    Float64Out,
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8Out,
    UInt8s,
    freeze_fields,
    kernel,
    prefetch,
    step,
)
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import NULL
from tocsin.model.keys import EventBatch, blank, load, unload
from tocsin.model.residuals import Residuals, ShapeTests, to_coordinate

_POINT = 33  # shift of a point's number; below it are 32 bits of the shape's, and one
_REST = (1 << _POINT) - 1
_GROUP = 512  # points that are tested together, chosen: their coordinates stay in the L1 cache
_AHEAD = 8  # conjunctions whose rows are prefetched; chosen, as in `finish`
OUTSIDE, INSIDE, UNKNOWN = range(3)


class PartTests(NamedTuple):
    """The residuals of a part with n conjunctions, m of them about p points."""

    rows: Int64s  # [n + 1] those of conjunction c are rows[c] to rows[c + 1]
    code: Int64s  # [m] the number of the point, that of the shape, and whether it is negated
    x: Int32s  # [p] attribute
    y: Int32s  # [p]
    x_scale: UInt8s  # [p] see `Coordinate`
    y_scale: UInt8s  # [p]


def arrange(residuals: Residuals, c: Conjunctions) -> PartTests:
    """Return the residuals of the conjunctions of a part."""
    own, rows = residuals.rows_of(c)
    tests = residuals.tests
    columns = [each[own] for each in (tests.x, tests.y, tests.x_scale, tests.y_scale)]
    points, number = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    shape = tests.shape[own].astype(np.int64)
    code = (number.reshape(-1).astype(np.int64) << _POINT) | (shape << 1) | tests.negated[own]
    x, y, x_scale, y_scale = points.T
    return freeze_fields(
        PartTests, rows=rows, code=code, x=x, y=y, x_scale=x_scale, y_scale=y_scale
    )


@kernel
def keep_located(
    tests: PartTests,
    shapes: ShapeTable,
    batch: EventBatch,
    offsets: Int64Out,
    accepted: Int32Out,
) -> None:
    """Compact accepted conjunctions in place to those all of whose residuals hold.

    The attributes of a point are not null, since accept has tested them.
    """
    rows, code = tests.rows, tests.code
    x_of, y_of, x_scale, y_scale = tests.x, tests.y, tests.x_scale, tests.y_scale
    keys = batch.keys
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key, columns_high = keys.attribute, keys.key, keys.columns_high
    key_high = keys.key_high
    has_ranges = columns_high.shape[0] + key_high.shape[0] > 0
    values, highs = blank(batch.width), blank(batch.width)
    x_column, y_column = find_columns(column_attribute, x_of), find_columns(column_attribute, y_of)
    has_lines = has_ranges or sparse.shape[0] > 0
    events, begin = batch.stop - batch.first, offsets[0]
    end = offsets[events]
    total = end - begin
    fails = np.zeros(total, np.uint8)
    size = min(total, _GROUP)
    number, x, y = np.empty(size, np.int64), np.empty(size), np.empty(size)
    owner, negated = np.empty(size, np.int64), np.empty(size, np.uint8)
    found = np.empty(size, np.uint8)
    count = 0
    for i in range(events):
        event, start, stop = batch.first + i, offsets[i], offsets[i + 1]
        if start == stop:
            continue
        if has_lines:
            load(columns, column_attribute, sparse, attribute, key, event, values)
        if has_ranges:
            load(columns_high, column_attribute, sparse, attribute, key_high, event, highs)
        latest, is_known, own_x, own_y = np.int64(-1), False, 0.0, 0.0
        for at in range(start, stop):
            if at + 2 * _AHEAD < end:
                prefetch(rows, np.int64(accepted[at + 2 * _AHEAD]))
                prefetch(code, rows[accepted[at + _AHEAD]])
            conjunction = accepted[at]
            for row in range(rows[conjunction], rows[conjunction + 1]):
                point = code[row] >> _POINT
                if point != latest:
                    a, b, latest = x_of[point], y_of[point], point
                    if has_lines:
                        x_key, y_key = values[a], values[b]
                    else:
                        x_key, y_key = (
                            columns[x_column[point], event],
                            columns[y_column[point], event],
                        )
                    own_x = to_coordinate(x_key, x_scale[point])
                    own_y = to_coordinate(y_key, y_scale[point])
                    is_known = True
                    if has_ranges:
                        is_known = x_key == highs[a] and y_key == highs[b]
                if not is_known:
                    fails[at - begin] = 1
                    break
                if count == size:
                    mark_failures(shapes, number, x, y, count, negated, owner, found, fails)
                    count = 0
                number[count], x[count], y[count] = (code[row] & _REST) >> 1, own_x, own_y
                owner[count], negated[count] = at - begin, code[row] & 1
                count += 1
        if has_lines:
            unload(sparse, attribute, event, values)
        if has_ranges:
            unload(sparse, attribute, event, highs)
    mark_failures(shapes, number, x, y, count, negated, owner, found, fails)

    start, kept = begin, begin
    for i in range(events):
        stop = offsets[i + 1]
        for at in range(start, stop):
            accepted[kept] = accepted[at]
            kept += 1 - np.int64(fails[at - begin])
        start = stop
        offsets[i + 1] = kept


@step
def find_columns(column_attribute, attributes):
    """Return the columns of attributes; 0 if there is none, since then no event is tested."""
    columns = np.zeros(attributes.shape[0], np.int64)
    for i in range(attributes.shape[0]):
        for c in range(column_attribute.shape[0]):
            if column_attribute[c] == attributes[i]:
                columns[i] = c
    return columns


@step
def mark_failures(shapes, number, x, y, count, negated, owner, found, fails):
    """Mark the owners of tests that do not hold; the first `count` points are tested."""
    locate_points(shapes, number, x, y, count, found)
    for i in range(count):
        fails[owner[i]] |= np.uint8(found[i] == negated[i])


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
