"""Coding: bounds cut the key line of an attribute into pieces, and predicates become codes.

The code of a key is the number of cuts up to it. Cuts are where some predicate starts or stops
holding, so whether a predicate holds depends on the code alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tocsin.index.keyed.layout import CODES
from tocsin.index.plane import sort_distinct
from tocsin.jit import Int32s, Int64Out, Int64s, UInt8Out, UInt16Out, bare_step, kernel
from tocsin.model.conjunctions import Conjunctions, expand_ranges
from tocsin.model.encoding import HIGHEST, LOWEST, NULL
from tocsin.model.facts import AROUND, EXACT, NOTHING, Facts, facts_of

_SMALL_SET = 8  # points; chosen: each point of a set of at most this size is a key with an entry
_POINTS = 32  # points of a set that can be part of a key set, at most; chosen
_SPARSE, _SPARSE_ANYWAY = 4, 64  # keys in a table of codes for each cut, and besides; chosen
_EVENTS_TO_RULES = 2.0  # assumed: an event has twice the share of attributes that a rule tests


class CodedPredicates(NamedTuple):
    """Predicates in codes, row by row, and the cuts of the attributes."""

    attribute: np.ndarray  # [rows] local numbers
    low: np.ndarray  # [rows] code of the least key that satisfies it, 0 if null does
    high: np.ndarray  # [rows] code of the greatest
    exact: np.ndarray  # [rows] whether a key satisfies it exactly if its code is from low to high
    testable: np.ndarray  # [rows] whether lanes can test it: no complement, a 16-bit attribute
    small_set: np.ndarray  # [rows] whether it is a small set, and each point has its own code
    points: np.ndarray  # [rows] whether it is a set of at most 32 points, each with its own code
    ways: np.ndarray  # [rows] how many codes satisfy it; 0 if it cannot be part of a key set
    bound_share: np.ndarray  # [rows] estimated share of events within its bounds
    share: np.ndarray  # [rows] the same, but for a set of points: of events that have one of them
    selectivity: np.ndarray  # [rows] the share as a single key; infinite if it cannot be one
    presence: np.ndarray  # [attributes] estimated share of events that have the attribute
    cut_offsets: np.ndarray  # [attributes + 1]
    cuts: np.ndarray

    @property
    def codes(self) -> np.ndarray:
        """How many codes each attribute has, and 1 for entries without a key."""
        return np.append(np.diff(self.cut_offsets) + 1, 1)


def number_attributes(c: Conjunctions, width: int) -> np.ndarray:
    """Return a local number for each attribute of a schema of `width`, -1 if no rule tests it.

    The attributes tested most have the lowest numbers, which fit 16 bits.
    """
    tests = np.bincount(c.attribute, minlength=width)
    by_frequency = np.argsort(-tests, kind="stable")[: np.count_nonzero(tests)]
    local = np.full(width, -1, np.int32)
    local[by_frequency] = np.arange(len(by_frequency))
    return local


def code_predicates(c: Conjunctions, local: np.ndarray) -> CodedPredicates:
    """Cut the lines of all attributes, and code the predicates."""
    attribute, attributes = local[c.attribute], int(local.max(initial=-1)) + 1
    facts = facts_of(c)
    set_size = c.high - c.low
    is_set = facts.worth == AROUND
    points, small_set = is_set & (set_size <= _POINTS), is_set & (set_size <= _SMALL_SET)
    cut_offsets, cuts, separate = find_cuts(c, attribute, attributes, facts, points, small_set)

    low, high = np.empty(len(attribute), np.uint16), np.empty(len(attribute), np.uint16)
    exact = np.empty(len(attribute), bool)
    code_bounds(
        attribute, facts.low, facts.high, cut_offsets, cuts, low, high, exact.view(np.uint8)
    )
    exact &= facts.worth == EXACT
    small_set &= np.diff(cut_offsets)[attribute] < CODES  # otherwise cuts may have been left out
    points &= separate[attribute]
    bounded = facts.worth != NOTHING
    ways = np.where(is_set | ~bounded, 0, high.astype(np.int64) - low + 1)
    ways[points] = set_size[points]

    tests = np.bincount(attribute, minlength=attributes)
    presence = np.minimum(1.0, _EVENTS_TO_RULES * tests / max(c.size, 1))
    bound_share, share = estimate_shares(c, attribute, low, high, points, cut_offsets, cuts)
    absent = np.where(low == 0, 1 - presence[attribute], 0.0)
    bound_share, share = (
        np.where(bounded, np.minimum(presence[attribute] * each + absent, 1.0), 1.0)
        for each in (bound_share, share)
    )
    selectivity = np.where(small_set, share, bound_share)
    selectivity[(low == 0) | ~bounded] = np.inf
    return CodedPredicates(
        attribute=attribute,
        low=low,
        high=high,
        exact=exact,
        testable=bounded & (attribute < CODES),
        small_set=small_set,
        points=points,
        ways=ways,
        bound_share=bound_share,
        share=share,
        selectivity=selectivity,
        presence=presence,
        cut_offsets=cut_offsets,
        cuts=cuts,
    )


def estimate_shares(
    c: Conjunctions,
    attribute: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    points: np.ndarray,
    cut_offsets: np.ndarray,
    cuts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate the share of events in the bounds of each row, and of those with one of its points.

    Half of the events are assumed to be spread evenly over the codes of an attribute, and half like
    the codes in the rules: people write rules about frequent values.
    """
    rows = np.flatnonzero(points)
    row_of_point = np.repeat(rows, (c.high - c.low)[rows])
    code: np.ndarray = np.empty(len(row_of_point), np.int64)
    given = c.points[expand_ranges(c.low[rows], c.high[rows])]
    code_points(attribute[row_of_point], given, cut_offsets, cuts, code)
    first = cut_offsets[:-1] + np.arange(len(cut_offsets) - 1)  # there is one more code than cuts
    codes = np.diff(cut_offsets) + 1
    size = int(codes.sum())
    single = np.flatnonzero(low == high)
    mentioned = np.bincount(first[attribute[row_of_point]] + code, minlength=size)
    mentioned += np.bincount(first[attribute[single]] + low[single], minlength=size)
    owner = np.repeat(np.arange(len(codes)), codes)
    mentions = np.bincount(owner, mentioned, minlength=len(codes))
    share = 1.0 / codes[owner]
    has = mentions[owner] > 0
    share[has] += mentioned[has] / mentions[owner[has]]
    share[has] /= 2
    upto = np.concatenate([[0.0], np.cumsum(share)])
    begin = first[attribute]
    bound_share = upto[begin + high + 1] - upto[begin + low]
    point_share = bound_share.copy()
    of_point = share[first[attribute[row_of_point]] + code]
    point_share[rows] = np.bincount(row_of_point, of_point, minlength=len(attribute))[rows]
    return bound_share, point_share


def find_cuts(
    c: Conjunctions,
    attribute: np.ndarray,
    attributes: int,
    facts: Facts,
    points: np.ndarray,
    small_set: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cuts of all attributes: offsets, and keys that ascend within an attribute.

    The points of sets are cuts too, so that each can be a key. All sets of `points` have cuts, or
    only the small ones if there are not enough codes. If there are still more cuts than codes, they
    are thinned out evenly. The third array says for each attribute whether all sets of `points`
    have their cuts.
    """
    cut_offsets: np.ndarray = np.zeros(attributes + 1, np.int64)
    separate = np.ones(attributes, bool)
    cuts = [np.empty(0, np.int64)]
    ends, starts, stops = _gather_all_ends(c, attribute, attributes, facts, points)
    fewer: Any = None
    for a in range(attributes):
        own = _distinct(ends[starts[a] : stops[a]])
        if len(own) > CODES:
            separate[a] = False
            fewer = fewer or _gather_all_ends(c, attribute, attributes, facts, small_set)
            own = _distinct(fewer[0][fewer[1][a] : fewer[2][a]])
        if len(own) > CODES:
            own = own[np.linspace(0, len(own) - 1, CODES).astype(np.int64)]
        cuts.append(own)
        cut_offsets[a + 1] = cut_offsets[a] + len(own)
    return cut_offsets, np.concatenate(cuts), separate


def _distinct(keys: np.ndarray) -> np.ndarray:
    """Return the distinct keys, ascending."""
    if len(keys):
        low, high = int(keys.min()), int(keys.max())
        if high - low < len(keys):  # faster than sorting; true for most points of sets
            present: np.ndarray = np.zeros(high - low + 1, bool)
            present[keys - low] = True
            return np.flatnonzero(present) + low
    return sort_distinct(keys)


def _gather_all_ends(
    c: Conjunctions, attribute: np.ndarray, attributes: int, facts: Facts, sets: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ends of predicates and of the points of sets, and each attribute's first and last.

    They are in no order.
    """
    points = c.points[expand_ranges(c.low[sets], c.high[sets])]
    point_attribute = np.repeat(attribute[sets], (c.high - c.low)[sets])
    predicates = np.bincount(attribute, minlength=attributes)
    predicates += np.bincount(point_attribute, minlength=attributes)
    starts = 2 * (np.cumsum(predicates) - predicates)  # each has at most two ends
    ends, cursor = np.empty(2 * int(predicates.sum()), np.int64), starts.copy()
    gather_ends(attribute, facts.low, facts.high, cursor, ends)
    gather_ends(point_attribute, points, points, cursor, ends)
    return ends, starts, cursor


def tabulate_codes(coded: CodedPredicates) -> tuple[np.ndarray, np.ndarray]:
    """Return where the table of an attribute's codes starts, -1 if it has none, and the tables.

    An attribute whose cuts are close together, such as categories or months, has a table, which is
    faster than a bisection. A cut between null and all values is not in the table.
    """
    offsets, cuts = coded.cut_offsets, coded.cuts
    start: np.ndarray = np.full(len(offsets) - 1, -1, np.int64)
    first = first_cuts(offsets, cuts)
    has_cuts = np.flatnonzero(first < offsets[1:])
    extent = key_distances(cuts[first[has_cuts]], cuts[offsets[has_cuts + 1] - 1])
    is_small = extent <= _SPARSE * np.diff(offsets)[has_cuts] + _SPARSE_ANYWAY
    tables = [np.empty(0, np.int64)]
    size = 0
    for a, above in zip(has_cuts[is_small].tolist(), extent[is_small].tolist(), strict=True):
        own = cuts[offsets[a] : offsets[a + 1]]
        # The key below the first cut represents all lower keys. The last key may be HIGHEST, so
        # that a range of keys would have no end.
        keys = np.arange(above + 2) + (cuts[first[a]] - 1)
        tables.append(np.searchsorted(own, keys, "right"))
        start[a] = size
        size += len(tables[-1])
    return start, np.concatenate(tables)


def key_distances(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return how far keys are above others, none of them greater.

    A signed difference could overflow, and floats would round the keys of large integers.
    """
    return np.asarray(high.view(np.uint64) - low.view(np.uint64))


def first_cuts(offsets: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Return the place of each attribute's first cut that is not between null and all values."""
    begin = offsets[:-1]
    is_null_cut = (begin < offsets[1:]) & (np.append(cuts, NULL)[begin] == LOWEST)
    return np.asarray(begin + is_null_cut)


@kernel
def gather_ends(
    attribute: Int32s, low: Int64s, high: Int64s, cursor: Int64Out, ends: Int64Out
) -> None:
    """Write, at each attribute's cursor, where its predicates start and stop holding."""
    for row in range(attribute.shape[0]):
        a = attribute[row]
        at = cursor[a]
        if low[row] > NULL:
            ends[at] = low[row]
            at += 1
        if high[row] < HIGHEST:
            ends[at] = high[row] + 1
            at += 1
        cursor[a] = at


@bare_step
def count_cuts(cuts, begin, end, key):
    """Return how many cuts of an attribute, `begin` to `end`, are not above a key: its code."""
    low, length = np.uint64(begin), np.uint64(end - begin)
    while length > 0:
        half = (length + np.uint64(1)) >> np.uint64(1)
        low += half if cuts[low + half - np.uint64(1)] <= key else np.uint64(0)
        length -= half
    return np.uint16(low - np.uint64(begin))


@kernel
def code_bounds(
    attribute: Int32s,
    low: Int64s,
    high: Int64s,
    cut_offsets: Int64s,
    cuts: Int64s,
    low_code: UInt16Out,
    high_code: UInt16Out,
    exact: UInt8Out,
) -> None:
    """Write the codes of bounds, and whether both bounds are cuts."""
    for row in range(attribute.shape[0]):
        begin, end = cut_offsets[attribute[row]], cut_offsets[attribute[row] + 1]
        first = count_cuts(cuts, begin, end, low[row])
        last = count_cuts(cuts, begin, end, high[row])
        low_code[row], high_code[row] = first, last
        exact[row] = (low[row] <= NULL or (first > 0 and cuts[begin + first - 1] == low[row])) and (
            high[row] == HIGHEST or (begin + last < end and cuts[begin + last] == high[row] + 1)
        )


@kernel
def code_points(
    attribute: Int32s, points: Int64s, cut_offsets: Int64s, cuts: Int64s, code: Int64Out
) -> None:
    """Write the codes of points."""
    for i in range(points.shape[0]):
        a = attribute[i]
        code[i] = count_cuts(cuts, cut_offsets[a], cut_offsets[a + 1], points[i])
