"""Key sets: the few combinations of attributes under whose codes conjunctions are filed.

A predicate that few codes satisfy is a *point predicate*, whatever its form: `=`, a short IN, IS
NULL, a flag, a narrow range. A conjunction can be filed under any set of attributes on which it has
point predicates, with an entry for each combination of their codes.

Sets are chosen greedily, as in facility location: each step adds the set that saves most if every
conjunction is filed where it costs least so far. Another set costs every event a probe, so rules of
thousands of different signatures share a few sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tocsin.index.keyed.coding import CodedPredicates
from tocsin.model.conjunctions import expand_ranges

ENTRY_COST = 0.8  # nanoseconds to look at an entry: 6 for a block of eight, see the package
PROBE_COST = 10.0  # nanoseconds to look up a key set; chosen
# Nanoseconds that an additional entry costs events that do not look at it. Chosen: 200 for a
# million entries, which displace 25 MB from the caches.
_MEMORY_COST = 0.0002
_ACCEPT_COST = 20.0  # nanoseconds to evaluate a candidate that is not proven
_MOST_MULTIPLIED = 0.25  # share of an attribute's codes; chosen: more is hardly selective
SET_SIZE = 3  # attributes of a key set, at most
_MOST_SETS = 16
_MOST_ATTRIBUTES = 12  # attributes considered for sets; chosen: 298 sets are tried
_SAMPLE = 2048  # conjunctions from which sets are chosen; chosen
# Limits for the number of entries per conjunction. Between them, the number is such that all
# entries together take about 30 MB.
_FEW, _MANY, _ALL = 4, 96, 1 << 20


class KeySets(NamedTuple):
    """k sets of attributes, and n conjunctions."""

    attributes: list[tuple[int, ...]]  # [k] local numbers
    number: np.ndarray  # [n] the set that a conjunction is filed under, -1: none


class Points(NamedTuple):
    """The point predicates of n conjunctions on some attributes."""

    attributes: np.ndarray  # [m]
    share: np.ndarray  # [n, m] share of the events that satisfy it
    bound_share: np.ndarray  # [n, m] share of the events within its bounds
    is_set: np.ndarray  # [n, m] whether it is not equivalent to its bounds
    ways: np.ndarray  # [n, m] number of codes; more than `bound` if there is no such predicate
    within: np.ndarray  # [n] share of the events within all bounds of the conjunction
    sets: np.ndarray  # [n] number of predicates that are not equivalent to their bounds
    bound: int  # the most entries of a conjunction

    def costs(self, columns: Sequence[int]) -> np.ndarray:
        """Return what conjunctions under a set cost, in entries that an event looks at.

        The cost is infinite if a conjunction cannot be filed there.
        """
        n = len(self.within)
        share, ways, bounds = (np.ones(n, np.float32) for _ in range(3))
        left = self.sets.copy()
        for column in columns:
            share *= self.share[:, column]
            ways *= self.ways[:, column]
            bounds *= self.bound_share[:, column]
            left -= self.is_set[:, column]
        # Some of the events that find an entry also satisfy all its bounds.
        unproven = np.where(left > 0, share * self.within / bounds, 0)
        costs = share + _ACCEPT_COST / ENTRY_COST * unproven
        costs += _MEMORY_COST / ENTRY_COST * (ways - 1)
        costs[ways > self.bound] = np.inf
        return costs


def choose_key_sets(offsets: np.ndarray, coded: CodedPredicates, factor: float = 1.0) -> KeySets:
    """Choose key sets for conjunctions that each represent `factor` similar ones.

    Sets are chosen by a sample, since most often there are none.
    """
    n = len(offsets) - 1
    number: np.ndarray = np.full(n, -1)
    bound = int(np.clip(_ALL / max(n * factor, 1), _FEW, _MANY))
    sets = _choose(*_draw(offsets, coded), n * factor, bound)
    if not sets:
        return KeySets([], number)
    attributes = np.unique(np.concatenate(sets))
    points = _gather_points(offsets, coded, attributes, bound)
    best = single_key_costs(offsets, coded)
    for i, each in enumerate(sets):
        costs = points.costs(np.searchsorted(attributes, each).tolist())
        number[costs < best] = i
        best = np.minimum(best, costs)
    # Later sets may have taken over all that an earlier one had.
    used = np.flatnonzero(np.bincount(number[number >= 0], minlength=len(sets)))
    renumbered = np.full(len(sets) + 1, -1)
    renumbered[used] = np.arange(len(used))
    return KeySets([sets[i] for i in used], renumbered[number])


def _draw(offsets: np.ndarray, coded: CodedPredicates) -> tuple[np.ndarray, CodedPredicates]:
    """Return a sample of the conjunctions, or all if there are few: their rows, renumbered."""
    n = len(offsets) - 1
    if n <= _SAMPLE:
        return offsets, coded
    drawn = np.random.default_rng(0).integers(0, n, _SAMPLE)
    first, stop = offsets[drawn], offsets[drawn + 1]
    rows = expand_ranges(first, stop)
    names = ("attribute", "points", "ways", "bound_share", "share", "selectivity")
    fields = {name: getattr(coded, name)[rows] for name in names}
    return np.append(0, np.cumsum(stop - first)), coded._replace(**fields)


def single_key_costs(offsets: np.ndarray, coded: CodedPredicates) -> np.ndarray:
    """Return what each conjunction costs under a single key, in entries."""
    tested = np.diff(offsets) > 0
    visited = np.ones(len(offsets) - 1)
    if tested.any():
        selectivity = np.minimum(coded.selectivity, 1.0)
        visited[tested] = np.minimum.reduceat(selectivity, offsets[:-1][tested])
    # One set may be the key itself; the others are left to accept.
    unproven = np.where(reduce_rows(np.add, coded.points, offsets) > 1, 1.0, 0.0)
    unproven *= reduce_rows(np.multiply, coded.bound_share, offsets)
    return visited + _ACCEPT_COST / ENTRY_COST * unproven


def reduce_rows(function: np.ufunc, values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the sum or product of the rows of each conjunction."""
    padded = np.append(values, function.identity)
    reduced = function.reduceat(padded, offsets[:-1], dtype=np.float64)
    reduced[np.diff(offsets) == 0] = function.identity
    return np.asarray(reduced)


def _find_usable(coded: CodedPredicates, bound: int) -> np.ndarray:
    """Return which rows can be part of a key set."""
    most = np.maximum(_MOST_MULTIPLIED * coded.codes[coded.attribute], 1)
    return (coded.ways > 0) & (coded.ways <= np.minimum(most, bound))


def _useful_attributes(coded: CodedPredicates, bound: int) -> np.ndarray:
    """Return the attributes with the most selective point predicates, all in all."""
    rows = np.flatnonzero(_find_usable(coded, bound))
    excluded = np.bincount(
        coded.attribute[rows], 1 - coded.share[rows], minlength=len(coded.presence)
    )
    best = np.argsort(-excluded, kind="stable")[:_MOST_ATTRIBUTES]
    return best[excluded[best] > 0]


def _gather_points(
    offsets: np.ndarray, coded: CodedPredicates, attributes: np.ndarray, bound: int
) -> Points:
    n, m = len(offsets) - 1, len(attributes)
    column = np.full(len(coded.presence), -1)
    column[attributes] = np.arange(m)
    rows = np.flatnonzero(_find_usable(coded, bound) & (column[coded.attribute] >= 0))
    owner = np.searchsorted(offsets, rows, "right") - 1
    at = column[coded.attribute[rows]]

    def spread(values: np.ndarray, default: float) -> np.ndarray:
        table: np.ndarray = np.full((n, m), default, np.float32)
        table[owner, at] = values[rows]
        return table

    within = reduce_rows(np.multiply, coded.bound_share, offsets)
    return Points(
        attributes=attributes,
        share=spread(coded.share, 1.0),
        bound_share=spread(np.maximum(coded.bound_share, 1e-9), 1.0),
        is_set=spread(coded.points, 0.0),
        ways=spread(coded.ways, bound + 1.0),
        within=within.astype(np.float32),
        sets=reduce_rows(np.add, coded.points, offsets).astype(np.float32),
        bound=bound,
    )


def _choose(
    offsets: np.ndarray, coded: CodedPredicates, represented: float, bound: int
) -> list[tuple[int, ...]]:
    """Return the chosen sets of attributes, for conjunctions that represent so many."""
    attributes = _useful_attributes(coded, bound)
    points = _gather_points(offsets, coded, attributes, bound)
    least = single_key_costs(offsets, coded)
    factor = represented / max(len(least), 1)
    sets: list[tuple[int, ...]] = []
    all_costs = []
    for size in range(1, SET_SIZE + 1):
        for each in combinations(range(len(attributes)), size):
            own = points.costs(each)
            if (own < least).any():
                sets.append(tuple(attributes[list(each)].tolist()))
                all_costs.append(own)
    chosen: list[tuple[int, ...]] = []
    if not sets:
        return chosen
    costs = np.array(all_costs, np.float32)
    least = least.astype(np.float32)
    while len(chosen) < _MOST_SETS:
        totals = np.minimum(costs, least).sum(axis=1, dtype=np.float64)
        best = int(totals.argmin())
        saved = factor * ENTRY_COST * (float(least.sum(dtype=np.float64)) - totals[best])
        if saved <= PROBE_COST:
            break
        least = np.minimum(least, costs[best])
        chosen.append(sets[best])
    return chosen
