"""Margins: whether an object is close enough to a rule that it is in to stay in it.

A rule is widened by widening what each conjunction allows for a position attribute: to all values
that are at most `margin` away from an allowed one. An interval grows at both ends, a set becomes
intervals, and so does its complement; null is away from everything. Other attributes, and terms
over positions, are tested as they are.

Distances are those of the values, not of rounded differences: for floats the error of the
difference is known exactly (Knuth's two-sum), and integers are subtracted as such.

A shape is widened to all points whose distance from it is at most the margin, in the unit of the
coordinates, in metres for discs on the globe. Its bounding box is widened as above, so that this
does not reach over the date line. Outside of a shape is widened to what is just inside.

Only rules that an object is in, and no longer matches, are tested, one conjunction after the other.
A range in place of a coordinate is tested as it is, and a rule with `at_least` holds for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tocsin.engine.version import Version
from tocsin.geometry.distance import distance_to_edge, is_within
from tocsin.geometry.inside import is_inside
from tocsin.geometry.table import ShapeTable, build_table
from tocsin.index.accept import holds, holds_within
from tocsin.jit import (
    Float64s,
    Int32s,
    Int64s,
    UInt8Out,
    UInt8s,
    bare_step,
    freeze,
    freeze_fields,
    kernel,
    step,
)
from tocsin.model.conjunctions import ConjunctionBuilder, Conjunctions, concatenate, take
from tocsin.model.encoding import NULL, SEAM, number_key
from tocsin.model.keys import Keys, blank, load, to_number, unload
from tocsin.model.predicates import INTERVAL, NOT_SET
from tocsin.model.residuals import (
    Residuals,
    ShapeTests,
    concatenate_residuals,
    to_coordinate,
)

_LEAST_NUMBER, _GREATEST_NUMBER = number_key(-np.inf), number_key(np.inf)
AS_IS, INTEGER, FLOAT = range(3)  # how an attribute is widened


class Widened(NamedTuple):
    """The conjunctions of rules, and how far they are widened."""

    uncertain: UInt8s  # [n] whether the rule requires a probability, and thus has none for a range
    near: UInt8s  # [attributes] AS_IS, INTEGER or FLOAT
    margin: Float64s  # [1] of all rules, or [positions]
    offsets: Int64s  # these, to `rule`, are those of `Conjunctions`; no rules without a margin
    attribute: Int32s
    kind: UInt8s
    low: Int64s
    high: Int64s
    points: Int64s
    rule: Int32s
    residual_rows: Int64s  # [n + 1] the tests of shapes of each conjunction; [0] without any
    tests: ShapeTests
    shapes: ShapeTable


@bare_step
def are_close(key, other, how, margin):
    """Return whether the values of two keys are at most a margin apart."""
    if key == other:
        return True
    if how == INTEGER:
        if other == NULL:
            return False
        a, b = key - (key <= SEAM + 1), other - (other <= SEAM + 1)
        distance = np.uint64(max(a, b)) - np.uint64(min(a, b))
        return margin >= 2.0**64 or distance <= np.uint64(margin)
    if other < _LEAST_NUMBER or other > _GREATEST_NUMBER:
        return False
    a, b = to_number(max(key, other), 1), to_number(min(key, other), 1)
    distance = a - b
    if distance != margin:
        return distance < margin
    rounded = distance - a
    error = (a - (distance - rounded)) - (b + rounded)  # of the rounded difference
    return error <= 0.0


@bare_step
def is_near_complement(floor, ceiling, low, high, points, key, how, margin):
    """Return whether a value from `floor` to `ceiling` that is no point is within a margin."""
    nearest = min(max(key, floor), ceiling)
    first, stop = low, high
    while first < stop:  # the first point >= nearest
        middle = (first + stop) >> 1
        if points[middle] < nearest:
            first = middle + 1
        else:
            stop = middle
    above, below, at = nearest, nearest, first
    while at < high and points[at] == above:
        above += 1
        at += 1
    if above > nearest and above > ceiling:
        above = np.int64(NULL)
    at = first
    if at < high and points[at] == below:
        while at >= low and points[at] == below:
            below -= 1
            at -= 1
        if below < floor:
            below = np.int64(NULL)
    return are_close(key, above, how, margin) or are_close(key, below, how, margin)


@bare_step
def is_near(kind, low, high, points, key, how, margin):
    """Return whether a value that satisfies an interval or a set is within a margin."""
    if kind == INTERVAL:
        return are_close(key, min(max(key, low), high), how, margin)
    first, stop = low, high
    while first < stop:  # the first point >= key
        middle = (first + stop) >> 1
        if points[middle] < key:
            first = middle + 1
        else:
            stop = middle
    return (first < high and are_close(key, points[first], how, margin)) or (
        first > low and are_close(key, points[first - 1], how, margin)
    )


@step
def holds_widened(w, position, line, line_high, has_high):
    """Return whether a widened rule holds for the keys of a row."""
    offsets, attribute, kind, low, high = w.offsets, w.attribute, w.kind, w.low, w.high
    points, rules, near = w.points, w.rule, w.near
    margin = w.margin[position] if w.margin.shape[0] > 1 else w.margin[0]
    first, stop = 0, rules.shape[0]
    while first < stop:
        middle = (first + stop) >> 1
        if rules[middle] < position:
            first = middle + 1
        else:
            stop = middle
    while first < rules.shape[0] and rules[first] == position:
        true, row = True, offsets[first]
        while true and row < offsets[first + 1]:
            a = attribute[row]
            key, how = line[a], near[a]
            if has_high and line_high[a] != key:
                true = not w.uncertain[first] and holds_within(
                    kind[row], low[row], high[row], points, key, line_high[a]
                )
            elif how == AS_IS or key == NULL:
                true = holds(kind[row], low[row], high[row], points, key)
            elif kind[row] == NOT_SET:
                true = is_near_complement(
                    np.int64(NULL + 1), np.int64(2**63 - 1), low[row], high[row], points, key, how,
                    margin,
                )  # fmt: skip
            elif row + 1 < offsets[first + 1] and attribute[row + 1] == a:
                true = is_near_complement(
                    low[row], high[row], low[row + 1], high[row + 1], points, key, how, margin
                )
                row += 1
            else:
                true = is_near(kind[row], low[row], high[row], points, key, how, margin)
            row += 1
        if true and w.residual_rows.shape[0] > 0:
            row, stop_row = w.residual_rows[first], w.residual_rows[first + 1]
            while true and row < stop_row:
                true = is_located(w, row, line, line_high, has_high, margin)
                row += 1
        if true:
            return True
        first += 1
    return False


@bare_step
def is_located(w, row, line, line_high, has_high, margin):
    """Return whether the point of a row is in a shape that is widened, or outside of one."""
    tests, shapes, near = w.tests, w.shapes, w.near
    a, b, shape = tests.x[row], tests.y[row], tests.shape[row]
    if has_high and (line[a] != line_high[a] or line[b] != line_high[b]):
        return False
    x = to_coordinate(line[a], tests.x_scale[row])
    y = to_coordinate(line[b], tests.y_scale[row])
    is_near = near[a] != AS_IS and near[b] != AS_IS
    if tests.negated[row] == 0:
        if is_near:
            return is_within(shapes, shape, x, y, margin)
        return is_inside(shapes, shape, x, y)
    if not is_inside(shapes, shape, x, y):
        return True
    return is_near and distance_to_edge(shapes, shape, x, y) <= margin


@kernel
def keep_widened(w: Widened, keys: Keys, rows: Int64s, positions: Int64s, out: UInt8Out) -> None:
    """Write for pairs of a row of keys and a rule whether the widened rule holds."""
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key, columns_high = keys.attribute, keys.key, keys.columns_high
    key_high = keys.key_high
    has_high = columns_high.shape[0] + key_high.shape[0] > 0
    line, high = blank(w.near.shape[0]), blank(w.near.shape[0])
    for i in range(rows.shape[0]):
        row = rows[i]
        load(columns, column_attribute, sparse, attribute, key, row, line)
        if has_high:
            load(columns_high, column_attribute, sparse, attribute, key_high, row, high)
        out[i] = holds_widened(w, positions[i], line, high, has_high)
        unload(sparse, attribute, row, line)
        unload(sparse, attribute, row, high)


def nothing_widened() -> Widened:
    """Return no rules, for monitors without a margin."""
    nothing = ConjunctionBuilder().build()._asdict()
    return Widened(
        uncertain=freeze(np.empty(0), np.uint8),
        near=freeze(np.zeros(1), np.uint8),
        margin=freeze(np.zeros(1), np.float64),
        **{name: nothing[name] for name in Widened._fields if name in nothing},
        **_locations(nothing["offsets"], None),
    )


def _locations(rows: np.ndarray, residuals: Residuals | None) -> dict[str, Any]:
    """Return the fields of `Widened` about shapes."""
    if residuals is None:
        empty: dict[str, Any] = {name: [] for name in ShapeTests._fields}
        none = freeze(np.empty(0), np.int64)
        tests, shapes = freeze_fields(ShapeTests, **empty), build_table([])
        return {"residual_rows": none, "tests": tests, "shapes": shapes}
    return {
        "residual_rows": freeze(rows, np.int64),
        "tests": residuals.tests,
        "shapes": residuals.shapes,
    }


def widen(version: Version, near: Mapping[str, int], margin: np.ndarray) -> Widened:
    """Return the rules of a version, and those of its segments that were removed.

    `near` are the position columns with how they are widened.
    """
    parts = [part.conjunctions for live in version.segments for part in live.segment.parts]
    c: Conjunctions = concatenate([part._replace(weight=part.weight[:0]) for part in parts])
    if len(parts) > 1 and (c.rule[1:] < c.rule[:-1]).any():
        c = take(c, np.argsort(c.rule, kind="stable"))
    attributes = version.attributes
    how = [near.get(attributes.name(a).lower(), AS_IS) for a in range(version.attribute_count)]
    for a in attributes.terms:
        if a < len(how):
            how[a] = AS_IS
    rules = [live.segment for live in version.segments if live.segment.has_thresholds]
    required = [s.positions[s.metadata.at_least > 0] for s in rules]
    uncertain = np.isin(c.rule, np.concatenate([np.empty(0, np.int32), *required]))
    same = {n: getattr(c, n) for n in Widened._fields if hasattr(c, n)}
    located = [live.segment.residuals for live in version.segments]
    residuals = concatenate_residuals(located, is_united=False)
    offsets = c.offsets if residuals is None else residuals.rows_of(c)[1]
    return Widened(
        uncertain=freeze(uncertain, np.uint8),
        near=freeze(np.array(how), np.uint8),
        margin=freeze(margin, np.float64),
        **same,
        **_locations(offsets, residuals),
    )
