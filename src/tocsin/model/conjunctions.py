"""Conjunctions as compressed rows: the predicates that indexes are built from and accept tests.

There is one row per predicate (21 bytes: attribute, kind, low, high). The rows of a conjunction
are adjacent and ordered by attribute. The conjunctions of a rule are adjacent, and rules are in
the order of addition. The points of all sets are in one array. There are weights only if some rule
has weights, and scores only if some rule has a score of its own. A rule that tests two attributes
takes 54 bytes; other attributes cost nothing.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tocsin.jit import Float64s, Int32s, Int64s, UInt8s, freeze, freeze_fields
from tocsin.model.predicates import INTERVAL, NOT_SET, Predicate
from tocsin.model.validation import check_lengths, check_offsets, check_within, require

# Elements that functions of NumPy get at once if they hold the interpreter's lock, such as `repeat`
# and `bincount`. Chosen: it takes less than a millisecond, and another thread can then run.
AT_ONCE = 2**16

NO_SCORES = freeze(np.empty(0), np.float64)


class Conjunctions(NamedTuple):
    """Conjunctions as arrays; n of them, r rows."""

    offsets: Int64s  # [n + 1] the rows of conjunction c are offsets[c] to offsets[c + 1]
    attribute: Int32s  # [r] number in the schema, ascending within a conjunction
    kind: UInt8s  # [r] of the predicate: INTERVAL, SET or NOT_SET
    low: Int64s  # [r] lowest key of an interval; first point of a set
    high: Int64s  # [r] highest key of an interval; for a set, one after its last point
    points: Int64s  # keys of all sets, ascending within a set
    weight: Float64s  # [r] the rule's weight for the attribute; [0] if all are 1
    rule: Int32s  # [n] position of the rule, ascending
    score: Float64s = NO_SCORES  # [n] the rule's own score, NaN without; [0] if no rule has one

    @property
    def size(self) -> int:
        """The number of conjunctions."""
        return self.rule.shape[0]

    def count_tests(self) -> np.ndarray:
        """Return how many rows test each attribute, up to the last that is tested."""
        counts = np.zeros(int(self.attribute.max(initial=-1)) + 1, np.int64)
        for at in range(0, len(self.attribute), AT_ONCE):
            counts += np.bincount(self.attribute[at : at + AT_ONCE], minlength=len(counts))
        return counts

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        return sum(array.nbytes for array in self)

    def rule_span(self, position: int) -> tuple[int, int]:
        """Return the first conjunction of a rule, and one after its last."""
        # The same dtype, so that NumPy does not convert all of `rule` first.
        ends = np.array([position, position + 1], self.rule.dtype)
        first, last = np.searchsorted(self.rule, ends)
        return int(first), int(last)

    def with_scores(self, positions: np.ndarray, score: np.ndarray) -> Conjunctions:
        """Return the conjunctions with the scores of their rules, which are at `positions`."""
        # Clipped: a store that was tampered with may name other rules, and is checked later.
        places = np.minimum(np.searchsorted(positions, self.rule), len(positions) - 1)
        return self._replace(score=scores(score[places]))

    def validate(self, attributes: int) -> None:
        """Raise a StoreError unless the arrays have all properties that kernels rely on.

        `attributes` is the number of attributes in the schema. Bounds can be any keys, in order.
        """
        n, rows = len(self.rule), len(self.attribute)
        check_offsets("offsets", self.offsets, n, rows)
        check_lengths(self, rows, "kind", "low", "high")
        check_within("attribute", self.attribute, 0, attributes)
        check_within("kind", self.kind, INTERVAL, NOT_SET + 1)
        does_not_ascend = self.attribute[1:] <= self.attribute[:-1]
        starts = self.offsets[(self.offsets > 0) & (self.offsets < rows)]
        does_not_ascend[starts - 1] = False
        repeated = np.flatnonzero(does_not_ascend) + 1
        require(
            np.array_equal(self.attribute[repeated], self.attribute[repeated - 1])
            and bool((self.kind[repeated - 1] == INTERVAL).all())
            and bool((self.kind[repeated] == NOT_SET).all()),
            "the attributes of a conjunction must ascend, but a complement may follow an interval",
        )
        require(bool((self.low <= self.high).all()), "no 'low' may be above its 'high'")
        sets = np.flatnonzero(self.kind != INTERVAL)
        low, ends = self.low[sets], np.concatenate([[0], self.high[sets]])
        require(
            np.array_equal(low, ends[:-1])
            and bool((ends[1:] > low).all())
            and ends[-1] == len(self.points),
            f"sets must divide the {len(self.points):,} points in order, and none may be empty",
        )
        ascends = self.points[1:] > self.points[:-1]
        ascends[low[1:] - 1] = True
        require(bool(ascends.all()), "the points of a set must ascend")
        require(len(self.weight) in (0, rows), "'weight' must have one element per row, or none")
        require(
            bool(np.isfinite(self.weight).all()) and self.weight.min(initial=0.0) >= 0,
            "weights must be finite and not negative",
        )
        check_within("rule", self.rule, 0, 2**31)
        require(bool((self.rule[1:] >= self.rule[:-1]).all()), "'rule' must ascend")


def scores(score: np.ndarray) -> np.ndarray:
    """Return scores, NaN for none, or an empty array if there is none among them."""
    return NO_SCORES if np.isnan(score).all() else freeze(score, np.float64)


def concatenate_scores(parts: Sequence[tuple[np.ndarray, int]]) -> np.ndarray:
    """Return scores, one part after another; a part has its scores or none, and its size."""
    if not any(len(score) for score, _ in parts):
        return NO_SCORES
    return scores(
        np.concatenate([score if len(score) else np.full(size, np.nan) for score, size in parts])
    )


def concatenate(parts: Sequence[Conjunctions]) -> Conjunctions:
    """Return all conjunctions of the parts, in order."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return ConjunctionBuilder().build()
    row_offsets = np.cumsum([0, *(p.offsets[-1] for p in parts)])
    point_offsets = np.cumsum([0, *(p.points.shape[0] for p in parts)])
    has_weights = any(p.weight.shape[0] for p in parts)

    def shift(part: Conjunctions, bounds: np.ndarray, by: int) -> np.ndarray:
        return bounds if by == 0 else np.where(part.kind != INTERVAL, bounds + by, bounds)

    return freeze_fields(
        Conjunctions,
        offsets=np.concatenate(
            [parts[0].offsets[:1]] + [p.offsets[1:] + by for p, by in zip(parts, row_offsets)]
        ),
        attribute=np.concatenate([p.attribute for p in parts]),
        kind=np.concatenate([p.kind for p in parts]),
        low=np.concatenate([shift(p, p.low, int(by)) for p, by in zip(parts, point_offsets)]),
        high=np.concatenate([shift(p, p.high, int(by)) for p, by in zip(parts, point_offsets)]),
        points=np.concatenate([p.points for p in parts]),
        weight=np.concatenate(
            [p.weight if p.weight.shape[0] else np.ones(p.kind.shape[0]) for p in parts]
        )
        if has_weights
        else [],
        rule=np.concatenate([p.rule for p in parts]),
        score=concatenate_scores([(p.score, p.size) for p in parts]),
    )


def select(c: Conjunctions, mask: np.ndarray) -> Conjunctions:
    """Return the conjunctions where `mask` is true, and only the points that they use."""
    return c if mask.all() else take(c, np.flatnonzero(mask))


def take(c: Conjunctions, numbers: np.ndarray) -> Conjunctions:
    """Return the conjunctions with these numbers, in this order, and only their points."""
    first, stop = c.offsets[numbers], c.offsets[numbers + 1]
    rows = expand_ranges(first, stop)
    kind = c.kind[rows]
    low, high = c.low[rows], c.high[rows]
    sets = np.flatnonzero(kind != INTERVAL)
    points, sizes = c.points[expand_ranges(low[sets], high[sets])], high[sets] - low[sets]
    high[sets] = np.cumsum(sizes)
    low[sets] = high[sets] - sizes
    return freeze_fields(
        Conjunctions,
        offsets=np.concatenate([[0], np.cumsum(stop - first)]),
        attribute=c.attribute[rows],
        kind=kind,
        low=low,
        high=high,
        points=points,
        weight=c.weight[rows] if c.weight.shape[0] else c.weight,
        rule=c.rule[numbers],
        score=scores(c.score[numbers]) if c.score.shape[0] else c.score,
    )


def expand_ranges(first: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the numbers in several ranges, one range after another.

    >>> expand_ranges(np.array([3, 8]), np.array([5, 11])).tolist()
    [3, 4, 8, 9, 10]
    """
    if len(first) > AT_ONCE:
        pairs = ((first[at : at + AT_ONCE], stop[at : at + AT_ONCE])
                 for at in range(0, len(first), AT_ONCE))  # fmt: skip
        return np.concatenate([expand_ranges(*pair) for pair in pairs])
    sizes = stop - first
    ends = np.cumsum(sizes)
    return np.arange(int(sizes.sum())) + np.repeat(first - (ends - sizes), sizes)


class ConjunctionBuilder:
    """Builds conjunctions, one rule at a time."""

    def __init__(self) -> None:
        self._offsets = array("q", [0])
        self._attribute = array("i")
        self._kind = array("B")
        self._low = array("q")
        self._high = array("q")
        self._points = array("q")
        self._weight = array("d")
        self._rule = array("i")
        self._score = array("d")
        self._has_weights = self._has_scores = False

    def add(
        self,
        rule: int,
        conjunctions: Sequence[Sequence[tuple[int, Predicate]]],
        weights: Mapping[int, float] | None = None,
        score: float | None = None,
    ) -> None:
        """Append the conjunctions of a rule. `weights` are by attribute; the default is 1."""
        self._has_weights |= bool(weights)
        self._has_scores |= score is not None
        for conjunction in conjunctions:
            self._rule.append(rule)
            self._score.append(math.nan if score is None else score)
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
            self._offsets.append(len(self._attribute))

    def sizes(self) -> list[int]:
        """Return the lengths of all arrays, for `truncate`."""
        return [len(each) for each in vars(self).values() if isinstance(each, array)]

    def truncate(self, sizes: list[int]) -> None:
        """Remove everything that was added after `sizes` was called."""
        arrays = [each for each in vars(self).values() if isinstance(each, array)]
        for each, size in zip(arrays, sizes, strict=True):
            del each[size:]

    def build(self) -> Conjunctions:
        """Return the conjunctions that were added."""
        return Conjunctions(
            _copy(self._offsets, np.int64),
            _copy(self._attribute, np.int32),
            _copy(self._kind, np.uint8),
            _copy(self._low, np.int64),
            _copy(self._high, np.int64),
            _copy(self._points, np.int64),
            _copy(self._weight if self._has_weights else array("d"), np.float64),
            _copy(self._rule, np.int32),
            scores(_copy(self._score, np.float64)) if self._has_scores else NO_SCORES,
        )


def _copy(values: array[Any], dtype: Any) -> np.ndarray:
    """Return a read-only copy; it takes a tenth of the time of `freeze`, for a few values."""
    return np.frombuffer(values.tobytes(), dtype)
