"""Entries: each conjunction under its key, the predicate that the fewest events should satisfy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tocsin.index.keyed.coding import CodedPredicates, code_points
from tocsin.index.keyed.key_sets import KeySets
from tocsin.jit import Float64s, Int32s, Int64Out, Int64s, UInt16s, freeze_fields, kernel
from tocsin.model.conjunctions import Conjunctions, expand_ranges

_ABOUT_EQUAL = 1.5  # chosen: predicates within this factor of the best selectivity count as equal


class Entries(NamedTuple):
    """e entries; a conjunction has one, or one for each point if its key is a small set."""

    conjunction: Int64s  # [e]
    attribute: Int32s  # [e] of the key; without a key the number after the last attribute
    low: Int64s  # [e] codes of the key
    high: Int64s


class OtherPredicates(NamedTuple):
    """What lanes test besides the keys of n conjunctions, the most selective predicate first.

    A set is tested by the interval around it.
    """

    offsets: Int64s  # [n + 1]
    attribute: Int32s
    low: UInt16s
    high: UInt16s


def choose_keys(offsets: np.ndarray, coded: CodedPredicates) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each conjunction's key, -1 if it has none, and all rows by selectivity."""
    rows = np.arange(len(coded.attribute))
    sort_by_selectivity(offsets, coded.attribute, coded.selectivity, rows)
    key = np.full(len(offsets) - 1, -1)
    tested = np.diff(offsets) > 0
    best = rows[offsets[:-1][tested]]
    key[tested] = np.where(np.isfinite(coded.selectivity[best]), best, -1)
    return key, rows


@kernel
def sort_by_selectivity(
    offsets: Int64s, attribute: Int32s, selectivity: Float64s, rows: Int64Out
) -> None:
    """Order the rows within each conjunction, the most selective first.

    Among those that are about equal, the one on the rarest attribute comes first, so that rules
    over the same attributes have keys on the same attribute and are stored together.
    """
    for i in range(offsets.shape[0] - 1):
        for at in range(offsets[i], offsets[i + 1]):
            least = selectivity[rows[at]]
            for other in range(at + 1, offsets[i + 1]):
                least = min(least, selectivity[rows[other]])
            best = -1
            for other in range(at, offsets[i + 1]):
                row = rows[other]
                if selectivity[row] <= _ABOUT_EQUAL * least and (
                    best < 0 or attribute[row] > attribute[rows[best]]
                ):
                    best = other
            chosen = rows[best]
            for other in range(best, at, -1):
                rows[other] = rows[other - 1]
            rows[at] = chosen


def make_entries(
    c: Conjunctions, coded: CodedPredicates, key: np.ndarray, single: np.ndarray
) -> Entries:
    """Return the entries of conjunctions with a `single` key or none, given the rows of keys."""
    small_set = _values_at(coded.small_set, key, False) & single
    sets = key[small_set]
    copies = single.astype(np.int64)
    copies[small_set] = c.high[sets] - c.low[sets]
    conjunction = np.repeat(np.arange(c.size), copies)
    no_attribute = np.int32(len(coded.presence))
    attribute = _values_at(coded.attribute, key, no_attribute)[conjunction]
    low = _values_at(coded.low, key, 0)[conjunction]
    high = _values_at(coded.high, key, 0)[conjunction]
    points = c.points[expand_ranges(c.low[sets], c.high[sets])]
    is_point = small_set[conjunction]
    code: np.ndarray = np.empty(len(points), np.int64)
    code_points(attribute[is_point], points, coded.cut_offsets, coded.cuts, code)
    low[is_point] = high[is_point] = code
    return freeze_fields(Entries, conjunction=conjunction, attribute=attribute, low=low, high=high)


class KeyRows(NamedTuple):
    """Which of r predicates are keys, alone or in a key set."""

    is_key: np.ndarray  # [r]
    multiplied: np.ndarray  # [r] whether each point of the set has an entry of its own


def find_key_rows(
    offsets: np.ndarray, coded: CodedPredicates, key: np.ndarray, sets: KeySets
) -> KeyRows:
    """Return which rows are keys; `key` has the row of each single key."""
    owner = np.repeat(np.arange(len(key)), np.diff(offsets))
    in_set = np.zeros((len(sets.attributes) + 1, len(coded.presence)), bool)
    for number, attributes in enumerate(sets.attributes):
        in_set[number, list(attributes)] = True
    is_key = in_set[sets.number[owner], coded.attribute] & (coded.ways > 0)
    multiplied = is_key & coded.points
    single = key[(key >= 0) & (sets.number < 0)]
    is_key[single] = True
    multiplied[single] = coded.small_set[single]
    return KeyRows(is_key, multiplied)


def find_proven(offsets: np.ndarray, coded: CodedPredicates, keys: KeyRows) -> np.ndarray:
    """Return for each conjunction whether codes prove it, so that nothing is left to accept."""
    rows_proven = coded.exact & (coded.testable | keys.is_key) | keys.multiplied
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    proven = np.ones(len(offsets) - 1, bool)
    proven[owner[~rows_proven]] = False
    return proven


def gather_others(
    offsets: np.ndarray, coded: CodedPredicates, keys: KeyRows, rows: np.ndarray
) -> OtherPredicates:
    """Return what lanes test besides the keys; `rows` are sorted by selectivity."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    tested = (coded.testable & ~keys.is_key)[rows]
    others, owner = rows[tested], owner[tested]
    counts = np.bincount(owner, minlength=len(offsets) - 1)
    return freeze_fields(
        OtherPredicates,
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        attribute=coded.attribute[others],
        low=coded.low[others],
        high=coded.high[others],
    )


def _values_at(values: np.ndarray, rows: np.ndarray, default: Any) -> np.ndarray:
    """Return the values at rows, and a default where the row is -1."""
    found = np.full(len(rows), default)
    found[rows >= 0] = values[rows[rows >= 0]]
    return found
