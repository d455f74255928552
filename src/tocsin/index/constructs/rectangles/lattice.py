"""The lattice under rectangles: how two axes are cut, where boxes lie on it, and which L fits.

Cell 0 of an axis and its last one are the *rim*: events and ends outside the domain. Between them
the domain is cut into equal cells, or is one cell for each whole number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.constructs.decomposition import find_cover_runs
from tocsin.index.constructs.lattice import find_cell
from tocsin.index.plane import EXACT_INTEGERS, Boxes, compute_scale, measure_sides, to_keys
from tocsin.jit import Float64s, Int64Out, Int64s, UInt8s, freeze_fields, kernel, step

MOST_ACROSS = 1 << 11  # cells of one axis besides its rim. Chosen: 4 million in all
_CELLS = 8  # to the median side of boxes, if cells are not whole numbers. Chosen: as for intervals
_LENGTHS = (1, 2, 4, 8, 16)  # that L is chosen from; the paper's best are 8 and 16 (3.2)
# Entries in lists, a box. Chosen: then the paper's boxes, of 1 to 40 by 1 to 20 cells, have L = 4.
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
    whole: UInt8s  # [2] whether a cell is one whole number


@step
def find_cell_or_rim(key, is_float, first, last, origin, scale, cells):
    """Return the cell of a key: 0 below the domain, the last one above it, in between as usual."""
    if key < first:
        return np.int64(0)
    if key > last:
        return cells - 1
    return 1 + find_cell(key, is_float, first, last, origin, scale, cells - 2)


@step
def count_kinds(longest):
    """Return how many lengths a side can have: log2(L) + 1."""
    kinds = np.int64(0)
    while longest >> kinds > 0:
        kinds += 1
    return kinds


def fit_lattice(boxes: Boxes, longest: int | None) -> tuple[Lattice, np.ndarray, int]:
    """Return a lattice, coarser until the lists fit, the spans of boxes on it, and L."""
    most = MOST_ACROSS
    while True:
        lattice = cut_axes(boxes, most)
        spans = find_spans(lattice, boxes)
        length = longest or _choose_length(spans, lattice)
        if length is not None:
            return lattice, spans, length
        if most == 1:
            return lattice, spans, 1
        most = max(min(most, int(lattice.cells.max()) - 2) // 2, 1)


def count_runs_if_whole(boxes: Boxes) -> int | None:
    """Return how many runs a cover would have on a lattice of whole numbers; None if none fits."""
    lattice = cut_axes(boxes, MOST_ACROSS)
    if boxes.floats.any() or not lattice.whole.all() or not boxes.exact.all():
        return None
    spans = find_spans(lattice, boxes)
    length = _choose_length(spans, lattice)
    if length is None or (spans[:, :, FIRST] == 0).any():
        return None  # open ends are in the rim, where nothing is proven
    return len(find_cover_runs(length, 1).run_x)


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
    )


def find_spans(lattice: Lattice, boxes: Boxes) -> np.ndarray:
    """Return the cells of boxes, [box, axis, column]: FIRST to LAST are those that it meets,
    INNER_FIRST to INNER_LAST those that it covers whole: none if the last is before the first.
    """
    spans = np.empty((boxes.size, 2, 4), np.int64)
    write_spans(lattice, boxes, spans.reshape(-1))
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


def _choose_length(spans: np.ndarray, lattice: Lattice) -> int | None:
    """Return the least L whose lists and offsets fit; a larger one has more runs to look at."""
    cells = int(lattice.cells.prod())
    budget = max(_LEAST_ENTRIES, _ENTRIES * len(spans))
    side = spans[:, :, LAST] - spans[:, :, FIRST] + 1
    for longest in _LENGTHS:
        entries = np.ones(len(side))
        for axis in (0, 1):
            remnant = side[:, axis] % longest
            digits = sum((remnant >> bit) & 1 for bit in range(longest.bit_length()))
            entries *= side[:, axis] // longest + digits
        constructs = cells * longest.bit_length() ** 2
        if entries.sum() <= budget and constructs <= _CONSTRUCTS * budget:
            return longest
    return None
