"""Lattices over one attribute: equal cells, in levels for intervals of different lengths.

A *level* is one lattice over the whole domain. Intervals of very different lengths lie on levels of
their own, each with about eight cells to an interval: on one lattice the short ones would crowd
into few cells, or the long ones into many lists. An event looks at its cell on each level.

How the domain is cut does not matter for being right. Keys become cells by one monotone function
(`find_cell`), the same for events and for bounds, clamped at the domain's ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.plane import compute_scale, find_domain, to_keys, to_values
from tocsin.jit import (
    Float64s,
    Int32s,
    Int64Out,
    Int64s,
    UInt8s,
    freeze_fields,
    kernel,
    step,
)
from tocsin.model.keys import NARROW, number

_CELLS = 8  # to a level's median interval. Chosen: then about 2 in 9 that it meets are end cells
_LONG = 64  # cells: longer intervals go to a coarser level. Chosen: 8 times the median
MOST_LEVELS = 6  # chosen: enough for lengths that differ by 8**5, the next level having _LONG ones
_PIECES = 16  # that an interval has at most, on average. Chosen: 64 bytes of lists


class Level(NamedTuple):
    """What a level is to be."""

    begin: float  # of the domain
    end: float
    cells: int
    longest: int  # construct, in cells: L


class Levels(NamedTuple):
    """v levels as arrays; cells and constructs are numbered through all of them."""

    floats: UInt8s  # [1] whether keys are those of floats
    first: Int64s  # [v] the lowest key of the domain
    last: Int64s  # [v] the highest
    origin: Float64s  # [v] cell = (value - origin) * scale
    scale: Float64s  # [v]
    cells: Int64s  # [v + 1] the cells of a level are cells[i] to cells[i + 1]
    constructs: Int64s  # [v + 1] and its constructs are constructs[i] to constructs[i + 1]
    longest: Int64s  # [v] L
    per_cell: Int64s  # [v] constructs that start in a cell: L, or log2(L) + 1 if logarithmic


@step
def find_cell(key, is_float, first, last, origin, scale, cells):
    """Return the cell of a key on a level: monotone, and clamped at the domain's ends."""
    if key < first:
        return np.int64(0)
    if key > last:
        return cells - 1
    found = np.int64((number(key, is_float) - origin) * scale)
    return min(max(found, np.int64(0)), cells - 1)


@kernel
def find_cells(
    g: Levels, level: Int32s, low: Int64s, high: Int64s, first: Int64Out, last: Int64Out
) -> None:
    """Write the cells in which intervals begin and end, each on its level."""
    is_float, least, greatest, origin, scale = g.floats[0], g.first, g.last, g.origin, g.scale
    cells = g.cells
    for i in range(level.shape[0]):
        v = level[i]
        count = cells[v + 1] - cells[v]
        first[i] = cells[v] + find_cell(
            low[i], is_float, least[v], greatest[v], origin[v], scale[v], count
        )
        last[i] = cells[v] + find_cell(
            high[i], is_float, least[v], greatest[v], origin[v], scale[v], count
        )


def choose_levels(
    low: np.ndarray, high: np.ndarray, is_float: bool, longest: int | None
) -> tuple[list[Level], np.ndarray]:
    """Return levels for intervals, the finest first, and the level of each interval.

    Unless `longest` is given, L is the least for which intervals have at most 16 pieces on average:
    most often 1.
    """
    n = len(low)
    begin, end = find_domain(low, high, is_float)
    side = np.ones(n)
    if end - begin >= NARROW:
        side = np.clip(to_values(high, is_float), begin, end)
        side = (side - np.clip(to_values(low, is_float), begin, end)) / (end - begin)
    level = np.zeros(n, np.int32)
    rest = np.arange(n)
    levels: list[Level] = []
    while True:
        share = side[rest]
        middle = max(float(np.median(share)) if len(rest) else 1.0, 1e-12)
        cells = int(min(max(_CELLS / middle, 1), 2 * len(rest) + 1)) if middle < 0.5 else 1
        long = share * cells > _LONG
        # A few may stay: what they cost is little beside the others.
        if (share * cells)[long].sum() < len(rest) or len(levels) + 1 == MOST_LEVELS:
            long[:] = False
        pieces = float((share[~long] * cells).mean()) if len(rest) else 0.0
        chosen = longest or 1 << max(int(np.ceil(np.log2(max(pieces / _PIECES, 1)))), 0)
        level[rest] = len(levels)
        levels.append(Level(begin=begin, end=end, cells=cells, longest=chosen))
        rest = rest[long]
        if not len(rest):
            return levels, level


def build_levels(levels: list[Level], is_float: bool, logarithmic: bool) -> Levels:
    """Return levels as arrays, with simple or logarithmic constructs."""
    begin, end = np.array([v.begin for v in levels]), np.array([v.end for v in levels])
    cells = np.array([v.cells for v in levels])
    per_cell = np.array([v.longest.bit_length() if logarithmic else v.longest for v in levels])
    return freeze_fields(
        Levels,
        floats=[is_float],
        first=to_keys(begin, is_float),
        last=to_keys(end, is_float),
        origin=begin,
        scale=compute_scale(cells, begin, end),
        cells=np.concatenate([[0], np.cumsum(cells)]),
        constructs=np.concatenate([[0], np.cumsum(cells * per_cell)]),
        longest=np.array([v.longest for v in levels]),
        per_cell=per_cell,
    )


def assign_levels(g: Levels, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return for further intervals the finest level on which each is not long."""
    is_float = bool(g.floats[0])
    level = np.full(len(low), len(g.first) - 1, np.int32)
    for v in range(len(g.first) - 2, -1, -1):
        cells = g.cells[v + 1] - g.cells[v]
        end = g.origin[v] + (cells / g.scale[v] if g.scale[v] > 0 else 0.0)
        side = np.clip(to_values(high, is_float), g.origin[v], end)
        side -= np.clip(to_values(low, is_float), g.origin[v], end)
        level[side * g.scale[v] <= _LONG] = v
    return level
