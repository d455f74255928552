"""Grid-join (thesis, 4.2.2): points of one set look up circles around the points of the other.

A regular grid lies over two dimensions. A point of the smaller set, `b`, is listed in the cells
that the circle of radius epsilon around it meets. In two dimensions there are two lists: *full* of
the circles that cover the cell, whose points are all close, and *part* of the others, which are
compared. With more dimensions, all are compared. A point of `a` looks at the lists of its cell
(Fig. 4.6). Both sets are sorted in Z-order first, so that lists are in the cache.

Departures: a cell's lists are consecutive in one array, counted before they are filled, instead of
a growing array each. The domain is the box around the points. For other metrics the circle is what
they call one. A self-join compares each pair once: a point skips the entries of its lists that do
not have a larger number.

In memory: 8 bytes per cell and list, and 4 bytes per entry; in a self-join, 4 bytes per point for
the entries that a point is compared with. The size of the grid is found by the cost model
(`grid_costs`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tocsin.jit import (
    Float64s,
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    bare_step,
    freeze_fields,
    kernel,
)
from tocsin.similarity.blocks import gather_rows
from tocsin.similarity.cells import box_around
from tocsin.similarity.closeness import L1, L2, Closeness, gap_of
from tocsin.similarity.grid_costs import choose_size
from tocsin.similarity.output import COUNTING, OWN, WRITTEN, Output

_Z_BITS = 16  # of a coordinate in Z-order
# The box of a cell is widened by so much of the domain, since rounding may put a point into a cell
# beside its own: a quotient is off by 3 * 2^-53 of itself.
_SLACK = 1e-12


class Lists(NamedTuple):
    """The lists of n * n cells."""

    start: Int64s  # [n * n + 1]
    entry: Int32s  # rows of b, in Z-order


class Plane(NamedTuple):
    """n * n cells over two dimensions."""

    dimension: Int64s  # [2]
    half_low: Float64s  # [2] half of the lowest coordinate
    half_width: Float64s  # [2] half the width of a cell
    half_slack: Float64s  # [2] by which boxes of cells are widened
    size: Int64s  # [1] n


class GridJoin:
    """Looks up the points of one set in a grid of circles around those of the other."""

    def __init__(
        self,
        a: np.ndarray,
        b: np.ndarray,
        closeness: Closeness,
        same: bool,
        size: int | None = None,
        z_sort: bool = True,
    ):
        if a.shape[1] == 1:  # a second coordinate of 0 does not change any gap
            a, b = (np.column_stack([points, np.zeros(len(points))]) for points in (a, b))
        self._closeness, self._same, self._d = closeness, same, a.shape[1]
        self._swapped = len(a) < len(b)
        if self._swapped:
            a, b = b, a
        self._plane = make_plane(a, b, size or choose_size(a, b, closeness.reach))
        self._a, self._rows = self._sort(a, z_sort)
        self._b, self._other = (self._a, self._rows) if same else self._sort(b, z_sort)
        self.state: np.ndarray = np.zeros(OWN + 2, np.int64)
        self.initialise()
        self.load()

    def _sort(self, points: np.ndarray, z_sort: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of points in Z-order, and their coordinates."""
        order = np.arange(len(points))
        if z_sort:
            codes: np.ndarray = np.empty(len(points), np.int64)
            interleave(points.reshape(-1), self._d, self._plane, codes)
            order = np.argsort(codes, kind="stable")
        rows = np.empty(points.size)
        gather_rows(points.reshape(-1), self._d, order, rows)
        return order, rows

    def initialise(self) -> None:
        """Make empty lists for all cells; the first phase of the cost model."""
        cells = int(self._plane.size[0]) ** 2
        self._counts: np.ndarray = np.zeros((2, cells), np.int64)
        self._starts: np.ndarray = np.zeros((2, cells + 1), np.int64)

    def load(self) -> None:
        """List all circles; the second phase."""
        closeness, starts = self._closeness, self._starts
        arguments = self._other, self._d, self._plane, closeness.reach, closeness.bound
        nothing: np.ndarray = np.empty(0, np.int32)
        list_circles(*arguments, closeness.metric, *self._counts, nothing, nothing)
        np.cumsum(self._counts, axis=1, out=starts[:, 1:])
        entries = [np.empty(int(start[-1]), np.int32) for start in starts]
        self._counts[:] = starts[:, :-1]  # now where to write the next entry
        list_circles(*arguments, closeness.metric, *self._counts, *entries)
        self._part, self._full = (
            freeze_fields(Lists, start=start, entry=entry)
            for start, entry in zip(starts, entries, strict=True)
        )

    def fill(self, out: Output) -> bool:
        """Write pairs; return whether these were the last ones."""
        if self._swapped:
            out = Output(out.right, out.left, out.state)
        return bool(
            look_up_points(
                self._rows, self._a, self._other, self._b, self._d, self._plane, self._part,
                self._full, self._closeness.bound, self._closeness.metric, self._same, out,
            )
        )  # fmt: skip


def upper_bound(m: int, epsilon: float) -> int:
    """Return the largest grid size that is worth considering for m circles (4.3.2).

    Epsilon is relative to the domain. Circles are taken as squares of the same area; with a finer
    grid, the lists of a cell would have less than one entry on average.

    >>> upper_bound(20_000, 0.001)
    189
    """
    q = math.sqrt(math.pi) * epsilon
    bound = 4 * q * m if q > 1 / (2 * math.sqrt(m)) else 1 / (1 / math.sqrt(m) - q)
    return max(1, math.ceil(bound))


def make_plane(a: np.ndarray, b: np.ndarray, size: int) -> Plane:
    """Return a grid over the first two dimensions."""
    half_low, half_span = box_around(a, b)
    dimension = np.arange(2)
    # The smallest normal number, if all points have one coordinate in common.
    half_span = np.maximum(half_span[dimension], np.finfo(float).tiny * size)
    return freeze_fields(
        Plane,
        dimension=dimension,
        half_low=half_low[dimension],
        half_width=half_span / size,
        half_slack=_SLACK * half_span + _SLACK * np.abs(half_low[dimension]),
        size=[size],
    )


@bare_step
def cell_of(half: float, plane: Plane, axis: int, size: int) -> int:
    """Return the cell of half a coordinate; those beyond the domain are in the outermost."""
    return int(min(max((half - plane.half_low[axis]) / plane.half_width[axis], 0.0), size - 1.0))


@kernel
def interleave(points: Float64s, d: int, plane: Plane, codes: Int64Out) -> None:
    """Write the Z-order code of each point, from the bits of its two coordinates."""
    size = plane.size[0]
    scale = float(1 << _Z_BITS) / size
    for i in range(codes.shape[0]):
        code = 0
        for axis in range(2):
            half = 0.5 * points[i * d + plane.dimension[axis]] - plane.half_low[axis]
            place = min(int(half / plane.half_width[axis] * scale), (1 << _Z_BITS) - 1)
            for bit in range(_Z_BITS):
                code |= ((place >> bit) & 1) << (2 * bit + axis)
        codes[i] = code


@bare_step
def classify(x, y, i, j, plane, reach, bound, metric):
    """Return 2 if the circle around a point covers a cell, 1 if it meets the cell, otherwise 0.

    The point is given by half its coordinates.
    """
    near_x, far_x = edges(x, i, plane, 0)
    near_y, far_y = edges(y, j, plane, 1)
    if metric == L2:
        if near_x * near_x + near_y * near_y > reach * reach * (1 + _SLACK):
            return 0
        return 2 if (far_x * far_x + far_y * far_y) * (1 + _SLACK) < bound else 1
    if metric == L1:
        if near_x + near_y > reach * (1 + _SLACK):
            return 0
        return 2 if (far_x + far_y) * (1 + _SLACK) < bound else 1
    if max(near_x, near_y) > reach * (1 + _SLACK):
        return 0
    return 2 if max(far_x, far_y) * (1 + _SLACK) < bound else 1


@bare_step
def edges(x, cell, plane, axis):
    """Return the least and the greatest distance of a coordinate (its half) from a cell."""
    slack = plane.half_slack[axis]
    low = plane.half_low[axis] + cell * plane.half_width[axis] - slack
    high = plane.half_low[axis] + (cell + 1) * plane.half_width[axis] + slack
    return 2 * max(low - x, x - high, 0.0), 2 * max(x - low, high - x)


@kernel
def list_circles(
    b: Float64s,
    d: int,
    plane: Plane,
    reach: float,
    bound: float,
    metric: int,
    part_cursor: Int64Out,
    full_cursor: Int64Out,
    part: Int32Out,
    full: Int32Out,
) -> None:
    """Move the cursors of cells past their circles, and write the circles if there is room."""
    size = plane.size[0]
    writing = part.shape[0] + full.shape[0] > 0
    for row in range(b.shape[0] // d):
        x = 0.5 * b[row * d + plane.dimension[0]]
        y = 0.5 * b[row * d + plane.dimension[1]]
        first_j = cell_of(y - 0.5 * reach, plane, 1, size)
        last_j = cell_of(y + 0.5 * reach, plane, 1, size)
        for i in range(
            cell_of(x - 0.5 * reach, plane, 0, size), cell_of(x + 0.5 * reach, plane, 0, size) + 1
        ):
            for j in range(first_j, last_j + 1):
                how = classify(x, y, i, j, plane, reach, bound, metric)
                cell = i * size + j
                if how == 2 and d == 2:
                    if writing:
                        full[full_cursor[cell]] = row
                    full_cursor[cell] += 1
                elif how > 0:
                    if writing:
                        part[part_cursor[cell]] = row
                    part_cursor[cell] += 1


@bare_step
def copy_later(lists, cell, numbers, x, later, n):
    """Append the entries of a cell whose numbers are above x to n others; return how many.

    About half of the entries qualify, in an unpredictable order, so the loop is branch-free: with
    `if numbers[j] <= x: continue` in the loop over entries, self-joins of 2 to 9 dimensions took
    1.2 to 1.5 times as long.
    """
    for at in range(lists.start[cell], lists.start[cell + 1]):
        j = lists.entry[at]
        later[n] = j
        n += numbers[j] > x
    return n


@kernel
def look_up_points(
    a: Float64s,
    numbers_a: Int64s,
    b: Float64s,
    numbers_b: Int64s,
    d: int,
    plane: Plane,
    part: Lists,
    full: Lists,
    bound: float,
    metric: int,
    same: bool,
    out: Output,
) -> bool:
    """Write the pairs of close points; the state is a row of a and a place in its lists."""
    left, right, state = out
    n, counting = state[WRITTEN], state[COUNTING] != 0
    capacity, size = left.shape[0], plane.size[0]
    resumed = state[OWN + 1]
    later = np.empty(numbers_b.shape[0] if same else 0, np.int32)
    for i in range(state[OWN], numbers_a.shape[0]):
        x = numbers_a[i]
        cell = cell_of(0.5 * a[i * d + plane.dimension[0]], plane, 0, size) * size + cell_of(
            0.5 * a[i * d + plane.dimension[1]], plane, 1, size
        )
        compared = part.start[cell + 1] - part.start[cell]
        covered = full.start[cell + 1] - full.start[cell]
        if same:
            compared = copy_later(part, cell, numbers_b, x, later, 0)
            covered = copy_later(full, cell, numbers_b, x, later, compared) - compared
        for at in range(resumed, compared + covered):
            if not counting and n == capacity:
                state[WRITTEN], state[OWN], state[OWN + 1] = n, i, at
                return False
            if at < compared:
                j = np.int64(later[at] if same else part.entry[part.start[cell] + at])
                if gap_of(a, i * d, b, j * d, d, metric) >= bound:
                    continue
            else:
                j = np.int64(later[at] if same else full.entry[full.start[cell] + at - compared])
            if not counting:
                left[n], right[n] = x, numbers_b[j]
            n += 1
        resumed = 0
    state[WRITTEN], state[OWN] = n, numbers_a.shape[0]
    return True
