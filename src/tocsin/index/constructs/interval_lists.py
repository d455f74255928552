"""The lists of intervals on a lattice: by construct, and by the cells in which they begin and end.

An interval is in these lists:

* The cells strictly between those of its ends are decomposed into constructs; it is in the list of
  each, a *piece*.
* In the cell of its low end it is among the *starts*, sorted by the low end, and in the cell of its
  high end among the *ends*, sorted by the high end. Those that contain a value of the cell stand
  together, at the front of the starts and at the back of the ends.
* If both ends are in one cell, it is in that cell's list *inside*, with both ends, and is tested.

So the value of an event finds an interval in exactly one list, and nothing is left to be tested by
others. `intervals` has these lists over the keys of one attribute, and `counting` over the ranks
of every attribute.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tocsin.index.constructs.lattice import Levels, find_cells
from tocsin.jit import (
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    freeze_fields,
    kernel,
    step,
)
from tocsin.model.validation import check_lengths, check_numbers, check_offsets, require


class IntervalLists(NamedTuple):
    """Lists over c cells and p constructs; the i-th list of `start` is start[i] to start[i + 1]."""

    start: Int32s  # [c + 1] where a cell's starts begin
    start_id: Int32s
    start_key: Int64s  # low ends, ascending within a cell
    end: Int32s  # [c + 1] where a cell's ends begin
    end_id: Int32s
    end_key: Int64s  # high ends, ascending within a cell
    inside: Int32s  # [c + 1]
    inside_id: Int32s
    inside_low: Int64s
    inside_high: Int64s
    piece: Int64s  # [p + 1] where a construct's list begins
    piece_id: Int32s


@step
def count_at_most(sorted_keys, begin, stop, key):
    """Return how many of the ascending keys from `begin` to `stop` are at most `key`."""
    low, size = begin, stop - begin
    while size > 0:
        half = (size + 1) >> 1
        # Without a branch: the CPU cannot predict which way it goes.
        low += half * np.int64(sorted_keys[low + half - 1] <= key)
        size -= half
    return low - begin


@step
def count_less(sorted_keys, begin, stop, key):
    """Return how many of the ascending keys from `begin` to `stop` are less than `key`."""
    low, size = begin, stop - begin
    while size > 0:
        half = (size + 1) >> 1
        low += half * np.int64(sorted_keys[low + half - 1] < key)
        size -= half
    return low - begin


def build_lists(
    levels: Levels,
    level: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    ids: np.ndarray,
    logarithmic: bool,
) -> IntervalLists:
    """Return the lists of intervals, each on its level; `ids` is what to write for each."""
    n = len(low)
    first, last = np.empty(n, np.int64), np.empty(n, np.int64)
    find_cells(levels, level, low, high, first, last)
    cells, several = int(levels.cells[-1]), first < last
    by_low, by_high = np.argsort(low, kind="stable"), np.argsort(high, kind="stable")
    start, starting = _group_by_cell(first, by_low[several[by_low]], cells)
    end, ending = _group_by_cell(last, by_high[several[by_high]], cells)
    inside, within = _group_by_cell(first, by_low[~several[by_low]], cells)
    piece = np.zeros(int(levels.constructs[-1]) + 1, np.int64)
    decompose_intervals(levels, level, first, last, logarithmic, ids, piece, np.empty(0, np.int32))
    piece = np.cumsum(piece) - piece
    piece_id = np.empty(int(piece[-1]), np.int32)
    decompose_intervals(levels, level, first, last, logarithmic, ids, piece[:-1].copy(), piece_id)
    return freeze_fields(
        IntervalLists,
        start=start,
        start_id=ids[starting],
        start_key=low[starting],
        end=end,
        end_id=ids[ending],
        end_key=high[ending],
        inside=inside,
        inside_id=ids[within],
        inside_low=low[within],
        inside_high=high[within],
        piece=piece,
        piece_id=piece_id,
    )


def _group_by_cell(
    cell: np.ndarray, intervals: np.ndarray, cells: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return where each cell's list begins, and the intervals cell by cell, else in their order."""
    grouped = intervals[np.argsort(cell[intervals], kind="stable")]
    return np.searchsorted(cell[grouped], np.arange(cells + 1)), grouped


@kernel
def decompose_intervals(
    g: Levels,
    level: Int32s,
    first: Int64s,
    last: Int64s,
    logarithmic: bool,
    ids: Int32s,
    piece: Int64Out,
    piece_id: Int32Out,
) -> None:
    """Decompose what lies between the cells of intervals' ends, as `decompose_interval` does.

    Count each construct's entries in `piece`, or, if `piece_id` has places, write them where
    `piece` says, and move it on.
    """
    cells, constructs, longest, per_cell = g.cells, g.constructs, g.longest, g.per_cell
    fill = piece_id.shape[0] > 0
    for i in range(level.shape[0]):
        v = level[i]
        a, b = first[i] + 1 - cells[v], last[i] - cells[v]
        while a < b:
            length = min(longest[v], b - a)
            kind = length - 1
            if logarithmic:
                kind = np.int64(0)
                while 2 << kind <= length:
                    kind += 1
                length = np.int64(1) << kind
            construct = constructs[v] + a * per_cell[v] + kind
            if fill:
                piece_id[piece[construct]] = ids[i]
            piece[construct] += 1
            a += length


def check_lists(g: Any, n: int, proven: bool) -> None:
    """Raise unless the levels of a layout have cells and constructs, and these lists of numbers.

    For layouts that have the fields of `IntervalLists`, and of `Levels` up to `constructs`.
    """
    levels = len(g.first)
    check_lengths(g, levels, "last", "origin", "scale")
    cells = len(g.start) - 1
    check_offsets("cells", g.cells, levels, cells)
    require(bool((g.cells[1:] > g.cells[:-1]).all()), "each level must have a cell")
    check_offsets("constructs", g.constructs, levels, len(g.piece) - 1)
    check_lengths(g, len(g.start_id), "start_key")
    check_lengths(g, len(g.end_id), "end_key")
    check_lengths(g, len(g.inside_id), "inside_low", "inside_high")
    for name, count in (
        ("start", cells), ("end", cells), ("inside", cells), ("piece", len(g.piece) - 1)
    ):  # fmt: skip
        ids = getattr(g, f"{name}_id")
        check_offsets(name, getattr(g, name), count, len(ids))
        check_numbers(f"{name}_id", ids, n, proven)
