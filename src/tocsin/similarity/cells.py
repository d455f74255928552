"""Join over epsilon cells: the method for few dimensions.

A grid over up to four dimensions has cells a little wider than epsilon, so that close points are in
the same cell or in neighbours. It is not materialised: memory follows the points. Both sets are
sorted by the number of their cell, which is lexicographic. In the last dimension a cell and its two
neighbours are therefore one run of points. In the others there are 3^(k-1) neighbours. A directory
has the first point of each cell or, if there are many more cells than points, of each group of
cells. As the cells of `a` come in order, so do its entries for each neighbour. There is neither a
hash table nor a binary search.

In memory: for each point its coordinates, its number and its cell, 8 (d + 2) bytes, and 16 bytes
for each occupied cell. A point costs 3^(k-1) runs and a comparison of eight points at once for
every eight in a run. Sorting takes two to three passes over the cell numbers.

The runs are what the epsilon grid order (thesis, 4.2.1) is in few dimensions: where every
sequence is a run, the recursion has nothing to prune.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from tocsin.jit import (
    Float64Out,
    Float64s,
    Int32Out,
    Int32s,
    Int64s,
    bare_step,
    freeze_fields,
    kernel,
)
from tocsin.similarity.closeness import Closeness
from tocsin.similarity.lanes import RUN, close_in_run, count_bits, write_lanes
from tocsin.similarity.output import COUNTING, LEAST_ROOM, OWN, WRITTEN, Output

MOST_DIMENSIONS = 4  # of the grid; chosen: 27 runs for a point, with five there would be 81
# Cells are numbered with at most so many bits. Chosen: three passes of sorting; a cluster in a
# millionth of the domain still has thousands of cells.
_MOST_BITS = 31
# Wider than the reach by this share, so that rounding puts no pair two cells apart: a quotient of
# at most 2^31 is off by 3 * 2^-53 of itself, under 1e-6.
_MARGIN = 1e-5
_CELLS_PER_POINT = 4  # of a directory, at most; chosen
_DIGIT = 11  # bits of a pass of sorting: 2,048 counters fit the first-level cache


class Box(NamedTuple):
    """A box, by halves: they do not overflow."""

    half_low: np.ndarray  # [d] half of the low corner
    half_span: np.ndarray  # [d] half of the sides


class Grid(NamedTuple):
    """Cells over k dimensions."""

    dimension: Int64s  # [k] which they are
    half_low: Float64s  # [k] half of the lowest coordinate: differences of halves do not overflow
    inverse: Float64s  # [k] one over half the width of a cell
    stride: Int64s  # [k] between the numbers of neighbours


class Side(NamedTuple):
    """n points sorted by their cells, of which m are occupied."""

    number: Int32s  # [n + RUN] in the order given
    cell: Int32s  # [m + 1] then a larger number than any
    start: Int32s  # [m + 1] its first point


class Directory(NamedTuple):
    """Where to look for a cell among those that are occupied."""

    first: Int32s  # [cells >> shift] the first occupied cell from there on
    point: Int32s  # [cells >> shift] and its first point
    shift: Int64s  # [1]


class CellJoin:
    """Joins the runs of neighbouring cells."""

    def __init__(self, a: np.ndarray, b: np.ndarray, closeness: Closeness, same: bool):
        self._d, self._closeness, self._same = a.shape[1], closeness, same
        grid, cells = make_grid(box_around(a, b), closeness.reach)
        self._a = sort_by_cell(a, grid, cells)
        self._b = self._a if same else sort_by_cell(b, grid, cells)
        self._directory = make_directory(self._b, cells)
        self._rows, self._columns = np.empty(a.size), np.empty(self._d * len(self._b.number))
        gather_rows(a.reshape(-1), self._d, self._a.number, self._rows)
        gather_columns(b.reshape(-1), self._d, self._b.number, self._columns)
        stride = grid.stride.tolist()[:-1]
        steps = product((-1, 0, 1), repeat=len(stride))
        offsets = [sum(s * n for s, n in zip(step, stride, strict=True)) for step in steps]
        self._offsets = np.array([o for o in offsets if o >= 0 or not same], np.int64)
        self.state: np.ndarray = np.zeros(OWN + 3, np.int64)

    def fill(self, out: Output) -> bool:
        """Write pairs; return whether these were the last ones."""
        return bool(
            join_runs(
                self._a, self._rows, self._b, self._columns, self._directory, self._offsets,
                self._d, self._closeness.bound, self._closeness.metric, self._same, out,
            )
        )  # fmt: skip


def make_grid(box: Box, reach: float) -> tuple[Grid, int]:
    """Return a grid over the dimensions with most cells, and the number of its cells."""
    half_low, half_span = box
    half_width, counts = count_cells(half_span, reach, 2.0**_MOST_BITS)
    chosen = np.sort(np.argsort(-counts, kind="stable")[:MOST_DIMENSIONS])
    # A dimension of one cell separates nothing, and would triple the runs.
    chosen = chosen[counts[chosen] >= 1] if (counts >= 1).any() else chosen[:1]
    counts, half_span, half_width = counts[chosen], half_span[chosen], half_width[chosen]
    while np.log2(counts + 4).sum() > _MOST_BITS:
        counts[counts.argmax()] /= 2
    half_width = np.maximum(half_width, half_span / counts.clip(1))
    inverse = 1 / half_width
    # The last cell as `number_cells` computes it, since rounding may put it past `counts`. A cell
    # at either end, so that neighbours of the outermost are not cells of the next row.
    cells = np.floor(half_span * inverse).astype(np.int64) + 3
    stride = np.append(np.cumprod(cells[:0:-1])[::-1], 1)
    grid = freeze_fields(
        Grid,
        dimension=chosen,
        half_low=half_low[chosen],
        inverse=inverse,
        stride=stride,
    )
    return grid, int(np.prod(cells))


def box_around(a: np.ndarray, b: np.ndarray) -> Box:
    """Return the box around all points."""
    low, high = np.full(a.shape[1], np.inf), np.full(a.shape[1], -np.inf)
    for points in (a, b):
        extend_box(points.reshape(-1), low, high)
    return Box(0.5 * low, 0.5 * high - 0.5 * low)


def count_cells(half_span: np.ndarray, reach: float, most: float) -> tuple[np.ndarray, np.ndarray]:
    """Return half the width of cells in each dimension, and how many there are, at most `most`."""
    half_width = np.full(len(half_span), 0.5 * reach * (1 + _MARGIN))
    with np.errstate(over="ignore"):
        counts = np.minimum(half_span / half_width, most)
    return np.maximum(half_width, half_span / counts.clip(1)), counts


def sort_by_cell(points: np.ndarray, grid: Grid, cells: int) -> Side:
    """Return points sorted by their cells."""
    n = len(points)
    cell, number, spare_cell, spare = (np.empty(n + RUN, np.int32) for _ in range(4))
    number_cells(points.reshape(-1), points.shape[1], grid, cell, number)
    for shift in range(0, cells.bit_length(), _DIGIT):
        sort_by_digit(cell, number, shift, spare_cell, spare)
        cell, number, spare_cell, spare = spare_cell, spare, cell, number
    m = find_occupied(cell, spare_cell, spare)
    return freeze_fields(Side, number=number, cell=spare_cell[: m + 1], start=spare[: m + 1])


def make_directory(side: Side, cells: int) -> Directory:
    """Return a directory of the occupied cells."""
    shift = (cells // (_CELLS_PER_POINT * len(side.number))).bit_length()
    first = np.empty((cells >> shift) + 4, np.int32)
    fill_directory(side.cell, shift, first)
    return freeze_fields(Directory, first=first, point=side.start[first], shift=[shift])


@kernel
def extend_box(points: Float64s, low: Float64Out, high: Float64Out) -> None:
    """Extend a box by points; NumPy takes ten times as long for few dimensions.

    Every other point has a box of its own, so that a comparison need not wait for the last one.
    """
    d = low.shape[0]
    for k in range(d):
        low_0, high_0, low_1, high_1 = low[k], high[k], low[k], high[k]
        for at in range(k, points.shape[0] - d, 2 * d):
            low_0, high_0 = min(low_0, points[at]), max(high_0, points[at])
            low_1, high_1 = min(low_1, points[at + d]), max(high_1, points[at + d])
        last = points[points.shape[0] - d + k]
        low[k], high[k] = min(low_0, low_1, last), max(high_0, high_1, last)


@kernel
def number_cells(points: Float64s, d: int, grid: Grid, cell: Int32Out, number: Int32Out) -> None:
    """Write the cell and the number of each point."""
    for i in range(points.shape[0] // d):
        of_point = 0
        for k in range(grid.dimension.shape[0]):
            half = 0.5 * points[i * d + grid.dimension[k]] - grid.half_low[k]
            of_point += (np.int64(half * grid.inverse[k]) + 1) * grid.stride[k]
        cell[i], number[i] = of_point, i


@kernel
def sort_by_digit(
    cell: Int32s, number: Int32s, shift: int, cell_out: Int32Out, number_out: Int32Out
) -> None:
    """Write points sorted by one digit of their cells; equal ones keep their order."""
    mask = (1 << _DIGIT) - 1
    first = np.zeros(mask + 2, np.int64)
    for i in range(cell.shape[0] - RUN):
        first[((cell[i] >> shift) & mask) + 1] += 1
    for digit in range(mask):
        first[digit + 1] += first[digit]
    for i in range(cell.shape[0] - RUN):
        digit = (cell[i] >> shift) & mask
        at = first[digit]
        first[digit] = at + 1
        cell_out[at], number_out[at] = cell[i], number[i]


@kernel
def find_occupied(cell: Int32s, occupied: Int32Out, start: Int32Out) -> int:
    """Write the cells and where each starts, then the end; return how many.

    A cell of many points is repeated, so that there is room for the pairs of eight points with a
    cell's.
    """
    m, n = 0, cell.shape[0] - RUN
    for i in range(n):
        if i == 0 or cell[i] != cell[i - 1] or i - start[m - 1] == LEAST_ROOM // RUN:
            occupied[m], start[m] = cell[i], i
            m += 1
    occupied[m], start[m] = 0x7FFFFFFF, n
    return m


@kernel
def fill_directory(occupied: Int32s, shift: int, directory: Int32Out) -> None:
    """Write the first occupied cell that is not before each directory entry's first cell."""
    at = 0
    for entry in range(directory.shape[0]):
        while occupied[at] < entry << shift and occupied[at] != 0x7FFFFFFF:
            at += 1
        directory[entry] = at


@kernel
def gather_rows(points: Float64s, d: int, number: Int32s, out: Float64Out) -> None:
    """Write points in their order, row by row."""
    for i in range(number.shape[0] - RUN):
        for k in range(d):
            out[i * d + k] = points[np.int64(number[i]) * d + k]


@kernel
def gather_columns(points: Float64s, d: int, number: Int32s, out: Float64Out) -> None:
    """Write points in their order, column by column; each ends with infinite coordinates."""
    stride = number.shape[0]
    for i in range(stride - RUN):
        for k in range(d):
            out[k * stride + i] = points[np.int64(number[i]) * d + k]
    for i in range(stride - RUN, stride):
        for k in range(d):
            out[k * stride + i] = np.inf


@bare_step
def find_run(directory, b, low):
    """Return the first point of three cells, and the one after the last, if entries have many."""
    shift = directory.shift[0]
    begin, end = directory.first[low >> shift], directory.first[(low + 3) >> shift]
    while b.cell[begin] < low:
        begin += 1
    while b.cell[end] < low + 3:
        end += 1
    return np.int64(b.start[begin]), np.int64(b.start[end])


@kernel
def join_runs(
    a: Side,
    rows: Float64s,
    b: Side,
    columns: Float64s,
    directory: Directory,
    offsets: Int64s,
    d: int,
    bound: float,
    metric: int,
    same: bool,
    out: Output,
) -> bool:
    """Write the pairs of close points.

    Eight points of a run are compared with all points of a cell before the next eight: whether they
    are close cannot be predicted, but the loop over the points can be.
    """
    left, right, state = out
    n, counting = state[WRITTEN], state[COUNTING] != 0
    capacity = left.shape[0]
    stride = columns.shape[0] // d
    shift, point, number = directory.shift[0], directory.point, b.number
    resumed_o, resumed_j = state[OWN + 1], state[OWN + 2]
    for group in range(state[OWN], a.cell.shape[0] - 1):
        for o in range(resumed_o, offsets.shape[0]):
            low = np.int64(a.cell[group]) + offsets[o] - 1
            begin, stop = np.int64(point[low >> shift]), np.int64(point[(low + 3) >> shift])
            if shift:
                begin, stop = find_run(directory, b, low)
            # Of the own cell and those beside it, only later points count.
            first = np.int64(a.start[group]) if same and o == 0 else begin
            for j in range(max(first, resumed_j), stop, RUN):
                if not counting and n + LEAST_ROOM > capacity:
                    state[WRITTEN], state[OWN] = n, group
                    state[OWN + 1], state[OWN + 2] = o, j
                    return False
                inside = (np.uint64(1) << np.uint64(min(int(stop) - j, RUN))) - np.uint64(1)
                for i in range(a.start[group], a.start[group + 1]):
                    bits = close_in_run(rows, i * d, columns, j, stride, d, bound, metric) & inside
                    if same:
                        earlier = np.uint64(max(min(i + 1 - j, RUN), 0))
                        bits = bits >> earlier << earlier
                    if counting:
                        n += count_bits(bits)
                    elif bits:
                        x = np.int64(a.number[i])
                        n = write_lanes(x, number, j, bits, same, left, right, n)
            resumed_j = -1
        resumed_o = 0
    state[WRITTEN], state[OWN] = n, a.cell.shape[0] - 1
    return True
