"""Conjunctions in compressed rows: what an index stores and accept reads.

In memory: a row per predicate (21 bytes: attribute, kind, low, high), rows of a
conjunction together and ordered by attribute, conjunctions of a rule together and
rules in the order of addition. Points of sets lie in one array beside; a weight
per row is kept only where some rule has weights. A rule that tests two attributes
takes 54 bytes; what it does not test costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64s, Int32s, Int64s, UInt8s, freeze_fields
from tocsin.model.predicates import INTERVAL, NOT_SET, Predicate
from tocsin.model.validation import check_lengths, check_offsets, check_within, require


class Conjunctions(NamedTuple):
    """Conjunctions as arrays; n of them, r rows."""

    offsets: Int64s  # [n + 1] the rows of conjunction c are offsets[c] to offsets[c + 1]
    attribute: Int32s  # [r] number in the schema, ascending within a conjunction
    kind: UInt8s  # [r] INTERVAL, SET or NOT_SET
    low: Int64s  # [r] lowest key; for a set where its points start
    high: Int64s  # [r] highest key; for a set where its points end
    points: Int64s  # sets' keys, ascending within a set
    weight: Float64s  # [r] the rule's weight of the attribute; [0] if all are 1
    rule: Int32s  # [n] position of the rule, ascending

    @property
    def size(self) -> int:
        """How many conjunctions there are."""
        return self.rule.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self)

    def of_rule(self, position: int) -> tuple[int, int]:
        """Return the first conjunction of a rule and the one after its last."""
        # Of the same type: otherwise NumPy would convert all of `rule` first.
        ends = np.array([position, position + 1], self.rule.dtype)
        first, last = np.searchsorted(self.rule, ends)
        return int(first), int(last)

    def validate(self, attributes: int) -> None:
        """Raise a StoreError unless all is as kernels, and builders of indexes, rely on.

        `attributes` is how many the schema has. Bounds may be any keys, in order.
        """
        n, rows = len(self.rule), len(self.attribute)
        check_offsets("offsets", self.offsets, n, rows)
        check_lengths(self, rows, "kind", "low", "high")
        check_within("attribute", self.attribute, 0, attributes)
        check_within("kind", self.kind, INTERVAL, NOT_SET + 1)
        not_above = self.attribute[1:] <= self.attribute[:-1]
        begins = self.offsets[(self.offsets > 0) & (self.offsets < rows)]
        not_above[begins - 1] = False
        again = np.flatnonzero(not_above) + 1
        require(
            np.array_equal(self.attribute[again], self.attribute[again - 1])
            and bool((self.kind[again - 1] == INTERVAL).all())
            and bool((self.kind[again] == NOT_SET).all()),
            "the attributes of a conjunction must ascend, but for a complement beside an interval",
        )
        require(bool((self.low <= self.high).all()), "no 'low' may be above its 'high'")
        sets = np.flatnonzero(self.kind != INTERVAL)
        low, ends = self.low[sets], np.concatenate([[0], self.high[sets]])
        require(
            np.array_equal(low, ends[:-1])
            and bool((ends[1:] > low).all())
            and ends[-1] == len(self.points),
            f"sets must share out the {len(self.points):,} points in order, and none is empty",
        )
        ascends = self.points[1:] > self.points[:-1]
        ascends[low[1:] - 1] = True
        require(bool(ascends.all()), "the points of a set must ascend")
        require(len(self.weight) in (0, rows), "'weight' must have one element a row, or none")
        require(
            bool(np.isfinite(self.weight).all()) and self.weight.min(initial=0.0) >= 0,
            "weights must be finite and not negative",
        )
        check_within("rule", self.rule, 0, 2**31)
        require(bool((self.rule[1:] >= self.rule[:-1]).all()), "'rule' must ascend")


def conjunctions(*arrays: np.ndarray) -> Conjunctions:
    """Return conjunctions over arrays in the order of the fields."""
    return freeze_fields(Conjunctions, **dict(zip(Conjunctions._fields, arrays, strict=True)))


def joined(parts: Sequence[Conjunctions]) -> Conjunctions:
    """Return the conjunctions of all parts, in order."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Builder().build()
    rows = np.cumsum([0, *(p.offsets[-1] for p in parts)])
    starts = np.cumsum([0, *(p.points.shape[0] for p in parts)])
    weighted = any(p.weight.shape[0] for p in parts)

    def moved(part: Conjunctions, bounds: np.ndarray, start: int) -> np.ndarray:
        return bounds if start == 0 else np.where(part.kind != INTERVAL, bounds + start, bounds)

    return conjunctions(
        np.concatenate([parts[0].offsets[:1]] + [p.offsets[1:] + r for p, r in zip(parts, rows)]),
        np.concatenate([p.attribute for p in parts]),
        np.concatenate([p.kind for p in parts]),
        np.concatenate([moved(p, p.low, int(s)) for p, s in zip(parts, starts)]),
        np.concatenate([moved(p, p.high, int(s)) for p, s in zip(parts, starts)]),
        np.concatenate([p.points for p in parts]),
        np.concatenate([p.weight if p.weight.shape[0] else np.ones(p.kind.shape[0]) for p in parts])
        if weighted
        else np.empty(0),
        np.concatenate([p.rule for p in parts]),
    )


def kept(part: Conjunctions, keep: np.ndarray) -> Conjunctions:
    """Return the conjunctions for which `keep` is true; points nobody uses are dropped."""
    return part if keep.all() else taken(part, np.flatnonzero(keep))


def taken(part: Conjunctions, numbers: np.ndarray) -> Conjunctions:
    """Return the conjunctions of these numbers, in their order, and the points that they use."""
    first, stop = part.offsets[numbers], part.offsets[numbers + 1]
    offsets = np.concatenate([[0], np.cumsum(stop - first)])
    rows = ranges(first, stop)
    kind = part.kind[rows]
    low, high = part.low[rows], part.high[rows]
    sets = np.flatnonzero(kind != INTERVAL)
    picked, sizes = ranges(low[sets], high[sets]), high[sets] - low[sets]
    high[sets] = np.cumsum(sizes)
    low[sets] = high[sets] - sizes
    return conjunctions(
        offsets,
        part.attribute[rows],
        kind,
        low,
        high,
        part.points[picked],
        part.weight[rows] if part.weight.shape[0] else part.weight,
        part.rule[numbers],
    )


def ranges(first: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the numbers of several ranges, one range after another."""
    sizes = stop - first
    ends = np.cumsum(sizes)
    return np.arange(int(sizes.sum())) + np.repeat(first - (ends - sizes), sizes)


class Builder:
    """Collects conjunctions one rule at a time."""

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._attribute: list[int] = []
        self._kind: list[int] = []
        self._low: list[int] = []
        self._high: list[int] = []
        self._points: list[int] = []
        self._weight: list[float] = []
        self._rule: list[int] = []
        self._weighted = False

    def add(
        self,
        rule: int,
        bound: Sequence[Sequence[tuple[int, Predicate]]],
        weights: Mapping[int, float] | None = None,
    ) -> None:
        """Append a rule's conjunctions; `weights` by attribute, 1 where it has none."""
        self._weighted |= bool(weights)
        for conjunction in bound:
            self._rule.append(rule)
            self._counts.append(len(conjunction))
            for attribute, (kind, low, high, points) in conjunction:
                if kind != INTERVAL:
                    low = len(self._points)
                    self._points.extend(points)
                    high = len(self._points)
                self._attribute.append(attribute)
                self._kind.append(kind)
                self._low.append(low)
                self._high.append(high)
                self._weight.append(weights.get(attribute, 1.0) if weights else 1.0)

    def sizes(self) -> list[int]:
        """Return how much was added; see `cut`."""
        return [len(each) for each in vars(self).values() if isinstance(each, list)]

    def cut(self, sizes: list[int]) -> None:
        """Forget what was added since it had these sizes."""
        lists = [each for each in vars(self).values() if isinstance(each, list)]
        for each, size in zip(lists, sizes, strict=True):
            del each[size:]

    def build(self) -> Conjunctions:
        """Return what was added."""
        return conjunctions(
            np.concatenate([[0], np.cumsum(self._counts, dtype=np.int64)]),
            np.array(self._attribute, np.int32),
            np.array(self._kind, np.uint8),
            np.array(self._low, np.int64),
            np.array(self._high, np.int64),
            np.array(self._points, np.int64),
            np.array(self._weight if self._weighted else [], np.float64),
            np.array(self._rule, np.int32),
        )
