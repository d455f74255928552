"""Shelves and runs: entries under one attribute or two, sorted by width and by low end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.keyed.coding import CodedPredicates
from tocsin.index.keyed.entries import Entries, OtherPredicates
from tocsin.index.keyed.key_sets import ENTRY_COST
from tocsin.index.posting_lists import check_entries
from tocsin.jit import freeze_fields

# What an event pays, in nanoseconds. Only their ratios matter.
_RUN_COST = 30.0  # for another run, besides its entries; chosen
# For another shelf. Chosen higher than the cost of its runs, because events have both attributes
# and still find nothing more often than if attributes were independent.
_SHELF_COST = 100.0
_MIN_PAIR_ENTRIES = 16  # on a shelf of two attributes: two blocks; chosen
_WIDTHS = 9  # classes: ranges of at most 1, 4, 16, ..., 4**8 codes, which are all


class Shelves(NamedTuple):
    """s shelves: one for each of a attributes, one for entries without a key, then pairs."""

    number: np.ndarray  # [e] the shelf of each entry
    attribute: np.ndarray  # [s] the attribute of a shelf's keys, a if they have none
    pair_start: np.ndarray  # [a] see `Layout`
    pair_shelf: np.ndarray


class Runs(NamedTuple):
    """r runs of entries, which are sorted."""

    offsets: np.ndarray  # [s + 1] runs of a shelf
    attribute: np.ndarray  # [r] of their keys
    start: np.ndarray  # [r + 1] the first entry of each


def assign_shelves(entries: Entries, coded: CodedPredicates, required: np.ndarray) -> Shelves:
    """Return the shelf of each entry; `required` is the second attribute an event must have, or -1.

    An entry is on the shelf of its key's attribute, or, where that is crowded, on a shelf for
    those that require the same second attribute; events without it never look there.
    """
    attributes = len(coded.presence)
    number, second = entries.attribute.astype(np.int64), required[entries.conjunction]
    pairable = np.flatnonzero((number < attributes) & (second >= 0))
    pairs, pair = np.unique(number[pairable] * attributes + second[pairable], return_inverse=True)
    first, presence = pairs // attributes, coded.presence[pairs % attributes]
    size = np.bincount(pair)
    share = (entries.high - entries.low + 1.0) / coded.codes[entries.attribute]
    visited = np.bincount(pair, share[pairable])  # by an event with the first attribute
    saved, spent = ENTRY_COST * visited * (1 - presence), _SHELF_COST * presence
    worthwhile = (size >= _MIN_PAIR_ENTRIES) & (saved > spent)
    # An attribute with pairs has a slot for every other attribute, so it must have as many entries.
    paired = np.bincount(first[worthwhile], size[worthwhile], minlength=attributes)
    worthwhile &= paired[first] >= attributes

    pair_start: np.ndarray = np.full(attributes, -1, np.int64)
    with_pairs = np.unique(first[worthwhile])
    pair_start[with_pairs] = np.arange(len(with_pairs)) * attributes
    check_entries(len(with_pairs) * attributes)
    shelf = np.where(worthwhile, attributes + np.cumsum(worthwhile), -1)  # of each pair
    pair_shelf: np.ndarray = np.full(len(with_pairs) * attributes, -1, np.int64)
    places = pair_start[first] + pairs % attributes
    pair_shelf[places[worthwhile]] = shelf[worthwhile]
    number[pairable] = np.where(shelf[pair] < 0, number[pairable], shelf[pair])
    attribute = np.append(np.arange(attributes + 1), first[worthwhile])
    return Shelves(number=number, attribute=attribute, pair_start=pair_start, pair_shelf=pair_shelf)


def find_second(others: OtherPredicates) -> tuple[np.ndarray, np.ndarray]:
    """Return each conjunction's second attribute, -1 if none, and the same if events must have it.

    Events need not have it if the predicate holds for null.
    """
    has_second = np.diff(others.offsets) > 0
    at = others.offsets[:-1][has_second]
    second = np.full(len(has_second), -1)
    second[has_second] = others.attribute[at]
    required = np.full(len(has_second), -1)
    required[has_second] = np.where(others.low[at] > 0, others.attribute[at], -1)
    return second, required


def sort_into_runs(
    entries: Entries, others: OtherPredicates, coded: CodedPredicates
) -> tuple[Entries, Shelves, Runs]:
    """Return the entries sorted by shelf, by width class, and by where their ranges begin.

    Within these, they are sorted by second attribute and number of predicates, so that fewer blocks
    have a lane that passes, and fewer rows of a block are empty.
    """
    second, required = find_second(others)
    shelves = assign_shelves(entries, coded, required)
    width = entries.high - entries.low
    group = shelves.number * _WIDTHS + np.ceil(np.log2(width + 1) / 2).astype(np.int64)
    group = join_classes(group, width, coded.codes[shelves.attribute])[group]
    tests = np.diff(others.offsets)
    alike = (second + 1) << 4 | np.maximum(15 - tests, 0)
    order = np.argsort(group << 36 | entries.low << 20 | alike[entries.conjunction], kind="stable")
    group = group[order]
    start = np.flatnonzero(np.diff(group, prepend=-1))
    runs = Runs(
        offsets=np.searchsorted(group[start], np.arange(len(shelves.attribute) + 1) * _WIDTHS),
        attribute=shelves.attribute[group[start] // _WIDTHS],
        start=np.append(start, len(order)),
    )
    sorted_fields = {name: field[order] for name, field in entries._asdict().items()}
    return freeze_fields(Entries, **sorted_fields), shelves, runs


def join_classes(group: np.ndarray, width: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return for each group, a width class of a shelf, the group that its entries go to.

    A separate class costs an event another run. Joining it with a wider class costs entries that
    are looked at without a match. `codes` is how many codes the attribute of each shelf has.
    """
    shelves = len(codes)
    sizes = np.bincount(group, minlength=shelves * _WIDTHS).reshape(-1, _WIDTHS)
    widest: np.ndarray = np.zeros(shelves * _WIDTHS, np.int64)
    np.maximum.at(widest, group, width)
    widest = widest.reshape(-1, _WIDTHS)
    into = np.tile(np.arange(_WIDTHS), (shelves, 1))
    held = np.zeros(shelves, np.int64)  # entries of the current class, and of those joined to it
    for narrow in range(_WIDTHS - 1):
        held += sizes[:, narrow]
        wide = np.where(sizes[:, narrow + 1] > 0, widest[:, narrow + 1], widest[:, narrow])
        in_vain = held * (wide - widest[:, narrow]) / codes
        join = ENTRY_COST * in_vain < _RUN_COST
        into[:, : narrow + 1][join[:, None] & (into[:, : narrow + 1] == narrow)] = narrow + 1
        widest[:, narrow + 1] = np.where(join, wide, widest[:, narrow + 1])
        held[~join] = 0
    return (into + np.arange(shelves)[:, None] * _WIDTHS).reshape(-1)
