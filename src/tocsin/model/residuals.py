"""Residuals: what conjunctions test besides predicates on keys, whether a point is in a shape.

A conjunction with a shape has the shape's bounding box as two ordinary intervals, by which indexes
find it, and a *residual*, which a filter evaluates after accept: the two attributes of the point, a
shape, and whether the point must be outside of it. The residuals of a segment are rows of 23 bytes
in the order of rules; rules without shapes cost nothing. A residual knows its conjunction as the
n-th of its rule, since each part of a segment numbers conjunctions anew. The shapes are in one
table, and equal ones have one number.

A coordinate is a number, an integer or a decimal, as Spark casts it to a double.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tocsin.geometry.shape import Shape
from tocsin.geometry.table import (
    STORED,
    ShapeTable,
    build_table,
    concatenate,
    restore,
    shape_at,
    take,
)
from tocsin.jit import Int32s, UInt8s, bare_step, freeze, freeze_fields
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.decimals import MAX_DIGITS, digits_of
from tocsin.model.encoding import SEAM
from tocsin.model.keys import to_number
from tocsin.model.schema import Kind, Schema
from tocsin.model.validation import (
    check_dtype,
    check_lengths,
    check_within,
    require,
    typed_arrays,
)

FLOAT = 255  # the scale of a number
_UNUSED = 8  # a table may have an eighth of unused shapes; chosen


class Coordinate(NamedTuple):
    """An attribute as a coordinate of points."""

    attribute: int
    scale: int  # the digits after the point of a decimal, 0 of an integer, FLOAT of a number


class Residual(NamedTuple):
    """A test of one conjunction."""

    x: Coordinate
    y: Coordinate
    shape: Shape
    negated: bool


class ShapeTests(NamedTuple):
    """Residuals as arrays, m of them."""

    x: Int32s  # [m] attribute
    y: Int32s  # [m]
    x_scale: UInt8s  # [m] see `Coordinate`
    y_scale: UInt8s  # [m]
    shape: Int32s  # [m] its number in the table
    negated: UInt8s  # [m] whether the point must be outside


@dataclass(frozen=True, eq=False)
class Residuals:
    """The residuals of rules."""

    rule: np.ndarray  # int32 [m] position of the rule, ascending
    conjunction: np.ndarray  # int32 [m] which one of the rule's, ascending within a rule
    tests: ShapeTests  # [m]
    shapes: ShapeTable

    @property
    def size(self) -> int:
        """The number of residuals."""
        return len(self.rule)

    def take(self, rows: np.ndarray) -> Residuals:
        """Return the residuals at these rows; most of the shapes are theirs."""
        tests, shapes = ShapeTests(*(each[rows] for each in self.tests)), self.shapes
        used = np.unique(tests.shape)
        if 2 * len(used) < shapes.size:  # otherwise building them anew costs more than it saves
            shapes = take(shapes, used)
            tests = tests._replace(shape=freeze(np.searchsorted(used, tests.shape), np.int32))
        return Residuals(
            freeze(self.rule[rows], np.int32),
            freeze(self.conjunction[rows], np.int32),
            _freeze_tests(tests),
            shapes,
        )

    def of_rules(self, positions: np.ndarray) -> Residuals | None:
        """Return the residuals of the rules at these positions; None if there are none."""
        keep = np.isin(self.rule, positions)
        if keep.all():
            return self
        return self.take(np.flatnonzero(keep)) if keep.any() else None

    def of_rule(self, position: int) -> Residuals:
        """Return the same for another rule; these must be of one."""
        return replace(self, rule=freeze(np.full(self.size, position), np.int32))

    def rows_of(self, c: Conjunctions) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the residuals of conjunctions, and where each conjunction's begin.

        The offsets have one element more than there are conjunctions. Those of a rule are all
        there, or none.
        """
        number = np.searchsorted(c.rule, self.rule) + self.conjunction
        rows = np.flatnonzero(number < c.size)
        rows = rows[c.rule[number[rows]] == self.rule[rows]]
        counts = np.bincount(number[rows], minlength=c.size)
        return rows, np.concatenate([[0], np.cumsum(counts)])

    def of_conjunction(self, position: int, number: int) -> list[Residual]:
        """Return the residuals of the n-th conjunction of a rule."""
        first, stop = np.searchsorted(self.rule, np.array([position, position + 1], np.int32))
        return [self.at(row) for row in range(first, stop) if self.conjunction[row] == number]

    def renumber(self, numbers: np.ndarray) -> Residuals:
        """Return the same with new numbers of attributes, by the old ones."""
        x, y = numbers[self.tests.x], numbers[self.tests.y]
        return replace(self, tests=_freeze_tests(self.tests._replace(x=x, y=y)))

    def at(self, row: int) -> Residual:
        """Return the residual in a row."""
        x, y, x_scale, y_scale, shape, negated = (int(each[row]) for each in self.tests)
        return Residual(
            Coordinate(x, x_scale), Coordinate(y, y_scale), shape_at(self.shapes, shape),
            bool(negated),
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [self.rule, self.conjunction, *self.tests, *self.shapes]
        return sum(each.nbytes for each in arrays)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name, to be stored."""
        own = {"rule": self.rule, "conjunction": self.conjunction}
        shapes = {f"shapes.{name}": getattr(self.shapes, name) for name in STORED}
        return own | self.tests._asdict() | shapes


def _freeze_tests(tests: ShapeTests) -> ShapeTests:
    return freeze_fields(ShapeTests, **tests._asdict())


def coordinate_of(attribute: int, kind: Kind) -> Coordinate | None:
    """Return an attribute as a coordinate; None if its kind has no numbers."""
    digits = digits_of(kind)
    scale = {"number": FLOAT, "integer": 0}.get(kind, None if digits is None else digits.scale)
    return None if scale is None else Coordinate(attribute, scale)


def build_residuals(rules: Sequence[tuple[int, Sequence[Sequence[Residual]]]]) -> Residuals | None:
    """Return the residuals of rules, given as a position and a list for each conjunction.

    None if there are none.
    """
    rows = [
        (position, number, residual)
        for position, conjunctions in rules
        for number, residuals in enumerate(conjunctions)
        for residual in residuals
    ]
    if not rows:
        return None
    numbers: dict[Shape, int] = {}
    for *_, residual in rows:
        numbers.setdefault(residual.shape, len(numbers))
    tests = freeze_fields(
        ShapeTests,
        x=[r.x.attribute for *_, r in rows],
        y=[r.y.attribute for *_, r in rows],
        x_scale=[r.x.scale for *_, r in rows],
        y_scale=[r.y.scale for *_, r in rows],
        shape=[numbers[r.shape] for *_, r in rows],
        negated=[r.negated for *_, r in rows],
    )
    return Residuals(
        freeze(np.array([position for position, *_ in rows]), np.int32),
        freeze(np.array([number for _, number, _ in rows]), np.int32),
        tests,
        build_table(list(numbers)),
    )


def concatenate_residuals(
    parts: Sequence[Residuals | None], is_united: bool = True
) -> Residuals | None:
    """Return the residuals of successive rules; None if there are none.

    If `is_united`, equal shapes get one number, for which each is compared.
    """
    present = [part for part in parts if part is not None]
    if len(present) <= 1:
        return present[0] if present else None
    tables = [part.shapes for part in present]
    starts = np.cumsum([0, *(table.size for table in tables)])
    shapes = concatenate(tables)
    numbers = np.arange(shapes.size)
    if is_united:
        first, numbers = find_distinct(shapes)
        if _UNUSED * (shapes.size - len(first)) > shapes.size:
            shapes = take(shapes, first)
        else:  # drawing all rasters again would cost more than it saves
            numbers = first[numbers]
    columns = {
        name: np.concatenate([getattr(part.tests, name) for part in present])
        for name in ShapeTests._fields
    }
    columns["shape"] = numbers[
        np.concatenate([part.tests.shape + by for part, by in zip(present, starts)])
    ]
    return Residuals(
        freeze(np.concatenate([part.rule for part in present]), np.int32),
        freeze(np.concatenate([part.conjunction for part in present]), np.int32),
        freeze_fields(ShapeTests, **columns),
        shapes,
    )


def find_distinct(table: ShapeTable) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of equal shapes, and for each shape which of these it is."""
    numbers: dict[Shape, int] = {}
    first: list[int] = []
    number_of: list[int] = []
    for number in range(table.size):
        own = numbers.setdefault(shape_at(table, number), len(numbers))
        if own == len(first):
            first.append(number)
        number_of.append(own)
    return np.array(first, np.int64), np.array(number_of, np.int64)


def read_residuals(arrays: Mapping[str, np.ndarray]) -> Residuals:
    """Return residuals from stored arrays; see `Residuals.arrays`. Raise if one is missing."""
    for name in ("rule", "conjunction"):
        require(name in arrays, f"array {name!r} is missing")
        check_dtype(name, arrays[name], "int32")
    for name in STORED:
        require(f"shapes.{name}" in arrays, f"array 'shapes.{name}' is missing")
    shapes = restore(**{name: arrays[f"shapes.{name}"] for name in STORED})
    return Residuals(
        freeze(arrays["rule"], np.int32),
        freeze(arrays["conjunction"], np.int32),
        freeze_fields(ShapeTests, **typed_arrays(ShapeTests, arrays)),
        shapes,
    )


def validate(residuals: Residuals, attributes: int) -> None:
    """Raise a StoreError unless the arrays have all properties that kernels rely on."""
    tests, m = residuals.tests, residuals.size
    require(m > 0 and len(residuals.conjunction) == m, "residuals must be there, all of one length")
    check_lengths(tests, m, *ShapeTests._fields)
    check_within("x", tests.x, 0, attributes)
    check_within("y", tests.y, 0, attributes)
    for scales in (tests.x_scale, tests.y_scale):
        check_within("scale", scales[scales != FLOAT], 0, MAX_DIGITS + 1)
    check_within("negated", tests.negated, 0, 2)
    check_within("conjunction", residuals.conjunction, 0, 2**31)
    check_within("shape", tests.shape, 0, residuals.shapes.size)
    number = residuals.rule.astype(np.int64) * 2**31 + residuals.conjunction
    require(bool((number[1:] >= number[:-1]).all()), "residuals must be in the order of rules")


def check_scales(residuals: Residuals, schema: Schema) -> None:
    """Raise a StoreError unless the attributes of points have the kinds that residuals expect."""
    tests = residuals.tests
    pairs = [(tests.x, tests.x_scale), (tests.y, tests.y_scale)]
    for attribute, scale in np.unique(np.concatenate([np.column_stack(p) for p in pairs]), axis=0):
        kind = schema.kind(int(attribute))
        require(
            coordinate_of(int(attribute), kind) == (attribute, scale),
            f"{schema.name(int(attribute))!r} is a {kind}, which is not what shapes were built for",
        )


@bare_step
def to_coordinate(key, scale):
    """Return the coordinate of a key; see `Coordinate`."""
    if scale == FLOAT:
        return to_number(key, 1)
    unit = 1.0
    for _ in range(scale):
        unit *= 10.0
    return np.float64(key - (key <= SEAM + 1)) / unit
