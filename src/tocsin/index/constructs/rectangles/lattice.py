"""The lattice under rectangles: how two axes are cut, where boxes lie on it, and which L fits.

The *fitted* lattice: cell 0 of an axis and its last one are the *rim*, for events and ends outside
the domain. Between them the domain is cut into equal cells, or is one cell for each whole number.
An event lies in a cell, and a box is the cells that it meets.

The *published* lattice is that of the paper (2.1): its lines are the whole numbers, and a box is
the closed rectangle between two lines of each axis. An event is on a line or between two. One more
line on each side of the domain makes a rim here, too. Ends that are not whole numbers are moved
outwards to the nearest, as the paper proposes (2), and so is one end of a side without length;
accept then checks the box. A domain of more than 2,048 whole numbers is cut to the 2,048 around the
median end: what is beyond lies in the rim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tocsin.index.constructs.decomposition import Sides
from tocsin.index.constructs.lattice import find_cell
from tocsin.index.plane import (
    EXACT_INTEGERS,
    Boxes,
    compute_scale,
    measure_sides,
    to_keys,
    to_values,
)
from tocsin.jit import Float64s, Int64Out, Int64s, UInt8s, freeze_fields, kernel, step
from tocsin.model.encoding import HIGHEST, NULL
from tocsin.model.keys import to_number

MOST_ACROSS = 1 << 11  # cells of one axis besides its rim. Chosen: 4 million in all
_CELLS = 8  # to the median side of boxes, if cells are not whole numbers. Chosen: as for intervals
_LENGTHS = (1, 2, 4, 8, 16)  # that sides are chosen from; the paper's best are 8 and 16 (3.2)
_FAR = EXACT_INTEGERS / 2  # from 0, at most: so that floats can tell lines apart
# Entries in lists, a box. Chosen: then the paper's boxes, of 1 to 40 by 1 to 20 cells, have Lx = 8
# and Ly = 2, with 23 runs to look at; the paper's 16 and 8 have 233.
_ENTRIES = 26
_LEAST_ENTRIES = 1 << 20  # that are always allowed. Chosen: 4 MiB
_CONSTRUCTS = 16  # possible ones for each of these. Chosen: an offset has the bytes of an entry

FIRST, LAST, INNER_FIRST, INNER_LAST = range(4)  # columns of `find_spans`


class Lattice(NamedTuple):
    """How two axes are cut."""

    first: Int64s  # [2] the lowest key of the domain
    last: Int64s  # [2] the highest
    origin: Float64s  # [2] cell = 1 + (value - origin) * scale
    scale: Float64s  # [2]
    cells: Int64s  # [2] with the rim
    whole: UInt8s  # [2] whether a cell is one whole number, or lies between two
    published: UInt8s  # [1] whether lines are the whole numbers


@step
def find_cell_or_rim(key, is_float, first, last, origin, scale, cells):
    """Return the cell of a key: 0 below the domain, the last one above it, in between as usual."""
    if key < first:
        return np.int64(0)
    if key > last:
        return cells - 1
    return 1 + find_cell(key, is_float, first, last, origin, scale, cells - 2)


@step
def find_place(key, is_float, first, last, origin, scale, cells, published):
    """Return the cell of a key, and 1 if it is on the line before it, on the published lattice."""
    if published == 0:
        return find_cell_or_rim(key, is_float, first, last, origin, scale, cells), np.int64(0)
    if key < first:
        return np.int64(0), np.int64(0)
    if key > last:
        return cells - 1, np.int64(0)
    value = to_number(key, is_float)
    line = np.floor(value)  # before the subtraction, which rounds
    found = 1 + np.int64(line - origin)
    return min(max(found, np.int64(0)), cells - 1), np.int64(value == line)


@step
def count_kinds(longest):
    """Return how many lengths a side can have: log2(L) + 1."""
    kinds = np.int64(0)
    while longest >> kinds > 0:
        kinds += 1
    return kinds


def count_constructs(longest: Sequence[int] | np.ndarray, cells: np.ndarray) -> int:
    """Return how many constructs are possible."""
    return int(longest[0]).bit_length() * int(longest[1]).bit_length() * int(cells.prod())


def fit_lattice(
    boxes: Boxes, longest: Sides | None, published: bool
) -> tuple[Lattice, np.ndarray, Sides]:
    """Return a lattice, the spans of boxes on it, and the longest sides of constructs.

    Until the lists fit, the lattice gets coarser, or is cut to a smaller domain if published.
    """
    most = MOST_ACROSS
    while True:
        lattice = cut_whole_numbers(boxes, most) if published else cut_axes(boxes, most)
        spans = find_spans(lattice, boxes)
        sides = longest or _choose_sides(spans, lattice)
        if sides is not None:
            return lattice, spans, sides
        if most == 1:
            return lattice, spans, (1, 1)
        most = max(min(most, int(lattice.cells.max()) - 2) // 2, 1)


def count_runs_if_whole(boxes: Boxes) -> int | None:
    """Return how many runs a cover would have on a lattice of whole numbers; None if none fits."""
    lattice = cut_axes(boxes, MOST_ACROSS)
    if boxes.floats.any() or not lattice.whole.all() or not boxes.exact.all():
        return None
    spans = find_spans(lattice, boxes)
    sides = _choose_sides(spans, lattice)
    if sides is None or (spans[:, :, FIRST] == 0).any():
        return None  # open ends are in the rim, where nothing is proven
    return _count_runs(sides)


def cut_axes(boxes: Boxes, most: int) -> Lattice:
    """Return a lattice: of whole numbers if they are at most `most`, else a few cells to a box."""
    begin, end = np.empty(2), np.empty(2)
    first, last = np.empty(2, np.int64), np.empty(2, np.int64)
    whole, cells, scale = np.zeros(2, np.uint8), np.ones(2, np.int64), np.zeros(2)
    for axis, is_float in enumerate(boxes.floats.astype(bool).tolist()):
        begin[axis], end[axis], side = measure_sides(boxes, axis)
        ends = np.array([begin[axis], end[axis]])
        first[axis], last[axis] = to_keys(ends, is_float)
        extent = end[axis] - begin[axis]
        if not is_float and extent < most and np.abs(ends).max() < EXACT_INTEGERS:
            whole[axis], cells[axis], scale[axis] = 1, int(extent) + 1, 1.0
            continue
        middle = float(np.median(side)) if boxes.size else 1.0
        if middle < 0.5:
            wanted = min(_CELLS / max(middle, 1e-6), 2 * boxes.size**0.5 + 1, most)
            cells[axis] = max(int(wanted), 1)
        scale[axis] = compute_scale(cells[axis], begin[axis], end[axis])
    return freeze_fields(
        Lattice,
        first=first,
        last=last,
        origin=begin,
        scale=scale,
        cells=cells + 2,
        whole=whole,
        published=[0],
    )


def cut_whole_numbers(boxes: Boxes, most: int) -> Lattice:
    """Return the published lattice, with lines at whole numbers that are at most `most` apart."""
    origin, end = np.empty(2), np.empty(2)
    first, last = np.empty(2, np.int64), np.empty(2, np.int64)
    for axis, is_float in enumerate(boxes.floats.astype(bool).tolist()):
        begin, stop, _ = measure_sides(boxes, axis)
        low, high = np.clip(np.floor([begin, np.ceil(stop)]), -_FAR, _FAR)
        if high - low > most:
            own = slice(axis * boxes.size, (axis + 1) * boxes.size)
            ends = to_values(np.concatenate([boxes.low[own], boxes.high[own]]), is_float)
            middle = np.floor(np.median(np.clip(ends, low, high)))
            low = np.clip(middle - most // 2, low, high - most)
            high = low + most
        origin[axis], end[axis] = low, high
        first[axis], last[axis] = to_keys(np.array([low, high]), is_float)
    return freeze_fields(
        Lattice,
        first=first,
        last=last,
        origin=origin,
        scale=np.ones(2),
        cells=end - origin + 2,
        whole=np.ones(2),
        published=[1],
    )


def find_spans(lattice: Lattice, boxes: Boxes) -> np.ndarray:
    """Return the cells of boxes, [box, axis, column]: FIRST to LAST are those that it meets,
    INNER_FIRST to INNER_LAST those that it covers whole: none if the last is before the first.
    """
    spans = np.empty((boxes.size, 2, 4), np.int64)
    write = write_closed_spans if lattice.published[0] else write_spans
    write(lattice, boxes, spans.reshape(-1))
    return spans


@kernel
def write_spans(g: Lattice, b: Boxes, spans: Int64Out) -> None:
    """Write the cells of each box; see `find_spans`."""
    low, high, floats, size = b.low, b.high, b.floats, b.exact.shape[0]
    first, last, origin, scale, cells = g.first, g.last, g.origin, g.scale, g.cells
    whole = g.whole
    for i in range(size):
        for axis in range(2):
            at, place = axis * size + i, 8 * i + 4 * axis
            f, s, e, o = floats[axis], scale[axis], cells[axis], origin[axis]
            a = find_cell_or_rim(low[at], f, first[axis], last[axis], o, s, e)
            z = find_cell_or_rim(high[at], f, first[axis], last[axis], o, s, e)
            spans[place + FIRST], spans[place + LAST] = a, z
            end_cells = np.int64(0 if whole[axis] != 0 else 1)
            spans[place + INNER_FIRST] = a + (1 if a == 0 else end_cells)
            spans[place + INNER_LAST] = z - (1 if z == e - 1 else end_cells)


@kernel
def write_closed_spans(g: Lattice, b: Boxes, spans: Int64Out) -> None:
    """Write the cells between the lines of each box on the published lattice; see `find_spans`.

    If an end had to be moved, no cell is covered whole.
    """
    low, high, floats, size = b.low, b.high, b.floats, b.exact.shape[0]
    first, last, origin, scale, cells = g.first, g.last, g.origin, g.scale, g.cells
    for i in range(size):
        for axis in range(2):
            at, place = axis * size + i, 8 * i + 4 * axis
            f, s, e, o = floats[axis], scale[axis], cells[axis], origin[axis]
            a, begins = find_place(low[at], f, first[axis], last[axis], o, s, e, 1)
            z, ends = find_place(high[at], f, first[axis], last[axis], o, s, e, 1)
            # A side up to line z consists of the cells before it.
            z = max(z - 1 if ends != 0 else z, a)
            # What has no bound contains all of the rim, with null.
            exact = begins != 0 or low[at] == NULL
            exact &= (ends != 0 and low[at] < high[at]) or high[at] == HIGHEST
            spans[place + FIRST], spans[place + LAST] = a, z
            spans[place + INNER_FIRST], spans[place + INNER_LAST] = a, z if exact else a - 1


def _choose_sides(spans: np.ndarray, lattice: Lattice) -> Sides | None:
    """Return the longest sides of which lists and offsets fit.

    Of these the ones with the fewest runs to look at, and of several then those with the fewest
    entries.
    """
    budget = max(_LEAST_ENTRIES, _ENTRIES * len(spans))
    side = spans[:, :, LAST] - spans[:, :, FIRST] + 1
    pieces = [{n: _count_pieces(side[:, axis], n) for n in _LENGTHS} for axis in (0, 1)]
    entries = {(x, y): float(pieces[0][x] @ pieces[1][y]) for x in _LENGTHS for y in _LENGTHS}
    fit = [
        sides
        for sides, count in entries.items()
        if count <= budget and count_constructs(sides, lattice.cells) <= _CONSTRUCTS * budget
    ]
    return min(fit, key=lambda sides: (_count_runs(sides), entries[sides]), default=None)


def _count_pieces(side: np.ndarray, longest: int) -> np.ndarray:
    """Return how many pieces sides of so many cells have."""
    remnant = side % longest
    digits = sum((remnant >> bit) & 1 for bit in range(longest.bit_length()))
    return np.asarray(side // longest + digits, np.float64)


def _count_runs(sides: Sides) -> int:
    """Return how many runs the cover of a cell has; see `find_cover_runs`."""
    x, y = sides
    return 2 * x * y - x - y + 1
