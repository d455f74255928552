"""A raster over the box of each polygon: most points need no edge, the others a few.

A cell that no edge touches is outside or inside as a whole. Any other has a list of the edges that
touch it, and one of its four sides that no edge touches: there, all points are outside, or all are
inside. So the straight way from a point of the cell to that side decides: only edges of the list
can cross it. If edges touch all four sides, the way goes right through further cells, up to a side
that is free, and the list has their edges, too. The cells' outermost sides are free.

Coordinates are mapped to cells by `(x - x_low) * scale`, for points and for vertices alike. So the
error is a few 2**-53 of the number of columns, and `_MARGIN` is far more: "touches" means that an
edge is closer than that. Therefore the raster decides nothing that rounding could change. A polygon
that is too narrow for its distance from 0, or so large that differences overflow, has one cell with
all its edges.
"""

from __future__ import annotations

import numpy as np

from tocsin.geometry.shape import Kind
from tocsin.jit import (
    Float64Out,
    Float64s,
    Int32Out,
    Int64Out,
    Int64s,
    UInt8Out,
    bare_step,
    kernel,
)

# The head of a shape, in `heads`.
KIND = 0
CLOSED = 1
COLUMNS = 2  # 0 for a disc
ROWS = 3
CELL = 4  # where its cells begin, row by row: 0 outside, 1 inside, otherwise 2 + where its list is
LIST = 5  # where its lists begin
VERTEX = 6  # where its vertices begin
STOP = 7  # and end
HEAD = 8  # numbers in a head

# Of a polygon: x and y of the raster's corner, and cells in a unit of x and of y. Of a disc, its
# centre, its radius and 0.
FRAME = 4

# A list begins with a number of these, then come the first vertices of its edges.
VERTICAL = 1  # the way to the free side
BACKWARD = 2  # it goes left or down
FROM_INSIDE = 4  # the free side is inside
COUNT = 3  # shift: the number of edges

_MARGIN = 1e-9  # of a cell; 2**-50 * _MOST_COLUMNS is 1e-12
_BORDER = 2.0**-10  # of the width, around the box
_LEAST_BORDER = 1e-6  # of a cell: where less is left by rounding, there is no raster
_SMALLEST, _LARGEST = 1e-280, 1e280  # width of a box with a raster

_CELLS_PER_VERTEX = 4
_LEAST_COLUMNS, _MOST_COLUMNS = 4, 1024

_LEFT, _RIGHT, _BOTTOM, _TOP = 1, 2, 4, 8  # sides that an edge touches


def build_rasters(
    kinds: np.ndarray,
    closed: np.ndarray,
    rings: np.ndarray,
    starts: np.ndarray,
    points: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the derived arrays of a `ShapeTable`, from the stored ones."""
    n = len(kinds)
    heads, frames = np.zeros((n, HEAD), np.int64), np.zeros((n, FRAME))
    if not n:
        none = np.empty(0, np.int32)
        return {"heads": heads.ravel(), "frames": frames.ravel(), "cells": none, "lists": none}
    begin, stop = starts[rings[:-1]], starts[rings[1:]]
    heads[:, KIND], heads[:, CLOSED] = kinds, closed
    heads[:, VERTEX], heads[:, STOP] = begin, stop
    is_polygon = kinds == Kind.POLYGON
    _place(points.reshape(-1, 2), is_polygon, heads, frames)
    cells = heads[:, COLUMNS] * heads[:, ROWS]
    heads[:, CELL] = np.cumsum(cells) - cells
    most = int(cells.max())
    scratch = (
        np.zeros(most + 1, np.int32),
        np.zeros(most, np.uint8),
        np.zeros(int(((heads[:, COLUMNS] + 1) * (heads[:, ROWS] + 1)).max()), np.uint8),
        np.full(int((stop - begin).max()), -1, np.int32),
        np.zeros(2 * int((stop - begin).max())),
    )
    out = np.zeros(int(cells.sum()), np.int32)
    lists = np.zeros(2 * len(points) + 8 * n, np.int32)
    entries = np.zeros(4 * int((stop - begin).max()) + 64, np.int32)
    state = np.zeros(2, np.int64)  # the next shape, and where its lists begin
    flat_heads, flat_frames = heads.ravel(), frames.ravel()
    while True:
        missing = rasterize(
            rings, starts, points, flat_heads, flat_frames, out, lists, entries, *scratch, state
        )
        if missing == 0:
            break
        if missing == 1:
            entries = np.zeros(2 * len(entries), np.int32)
        else:
            lists = np.concatenate([lists, np.zeros_like(lists)])
    return {
        "heads": flat_heads,
        "frames": flat_frames,
        "cells": out,
        "lists": lists[: state[1]].copy(),
    }


def _place(
    points: np.ndarray, is_polygon: np.ndarray, heads: np.ndarray, frames: np.ndarray
) -> None:
    """Choose the columns and rows of each polygon, and where they are."""
    begin = heads[:, VERTEX]
    low, high = np.minimum.reduceat(points, begin), np.maximum.reduceat(points, begin)
    vertices = heads[:, STOP] - begin
    columns = np.ceil(np.sqrt(_CELLS_PER_VERTEX * vertices))
    columns = np.clip(columns, _LEAST_COLUMNS, _MOST_COLUMNS)[:, None]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        width = high - low
        corner = low - width * _BORDER
        scale = columns / (width * (1 + 2 * _BORDER))
        first, last = (low - corner) * scale, (high - corner) * scale
    fits = (width >= _SMALLEST) & (width <= _LARGEST)
    fits &= (first >= _LEAST_BORDER) & (last <= columns - _LEAST_BORDER)
    has_raster = fits.all(axis=1) & is_polygon
    frames[has_raster, :2], frames[has_raster, 2:] = corner[has_raster], scale[has_raster]
    heads[is_polygon, COLUMNS] = heads[is_polygon, ROWS] = 1
    heads[has_raster, COLUMNS] = heads[has_raster, ROWS] = columns[has_raster, 0]
    discs = np.flatnonzero(~is_polygon)
    frames[discs, :2] = points[begin[discs]]
    frames[discs, 2] = points[begin[discs] + 1, 0]


@kernel
def rasterize(
    rings: Int64s,
    starts: Int64s,
    points: Float64s,
    heads: Int64Out,
    frames: Float64s,
    cells: Int32Out,
    lists: Int32Out,
    entries: Int32Out,
    counts: Int32Out,
    sides: UInt8Out,
    parity: UInt8Out,
    seen: Int32Out,
    places: Float64Out,
    state: Int64Out,
) -> int:
    """Write cells and lists, from shape `state[0]` on.

    Return 0, or what has no room for the next shape: 1 for `entries`, 2 for `lists`.
    """
    for shape in range(state[0], rings.shape[0] - 1):
        state[0] = shape
        head = HEAD * shape
        columns, rows = heads[head + COLUMNS], heads[head + ROWS]
        first_ring, stop_ring = rings[shape], rings[shape + 1]
        vertex, begin = heads[head + VERTEX], state[1]
        heads[head + LIST] = begin
        if columns == 0:
            continue
        if frames[FRAME * shape + 2] == 0.0:
            if begin + heads[head + STOP] - vertex > lists.shape[0]:
                return 2
            state[1] = list_all(starts, first_ring, stop_ring, lists, begin)
            cells[heads[head + CELL]] = 2
            continue
        size = columns * rows
        for i in range(size):
            counts[i] = 0
            sides[i] = 0
        counts[size] = 0
        for i in range((columns + 1) * (rows + 1)):
            parity[i] = 0
        x_low, y_low = frames[FRAME * shape], frames[FRAME * shape + 1]
        x_scale, y_scale = frames[FRAME * shape + 2], frames[FRAME * shape + 3]
        for i in range(heads[head + STOP] - vertex):
            places[2 * i] = (points[2 * (vertex + i)] - x_low) * x_scale
            places[2 * i + 1] = (points[2 * (vertex + i) + 1] - y_low) * y_scale
        for ring in range(first_ring, stop_ring):
            for i in range(starts[ring] - vertex, starts[ring + 1] - vertex - 1):
                seen[i] = -1
                count_cells(places, i, columns, rows, counts)
                mark_sides(places, i, columns, rows, sides)
                toggle_corners(places, i, columns, rows, parity)
        for i in range((columns + 1) * (rows + 1)):
            if i % (columns + 1) != 0:
                parity[i] ^= parity[i - 1]
        total = 0
        for i in range(size + 1):
            count = counts[i]
            counts[i] = total
            total += count
        if total > entries.shape[0]:
            return 1
        for ring in range(first_ring, stop_ring):
            for i in range(starts[ring] - vertex, starts[ring + 1] - vertex - 1):
                fill_cells(places, i, columns, rows, counts, entries)
        # Now counts[i] is where the entries of cell i end.
        stop = write_lists(
            columns, rows, heads[head + CELL], begin, counts, entries, sides, parity, seen,
            cells, lists,
        )  # fmt: skip
        if stop < 0:
            return 2
        state[1] = stop
    state[0] = rings.shape[0] - 1
    return 0


@bare_step
def list_all(starts, first_ring, stop_ring, lists, begin):
    """Write the list of all edges; return where it ends."""
    vertex = starts[first_ring]
    at = begin + 1
    for ring in range(first_ring, stop_ring):
        for i in range(starts[ring], starts[ring + 1] - 1):
            lists[at] = i - vertex
            at += 1
    lists[begin] = (at - begin - 1) << COUNT
    return at


@bare_step
def clip_edge(places, i, low, high):
    """Return the range of u of the part of edge i whose v is from `low` to `high`."""
    u, v = places[2 * i], places[2 * i + 1]
    to_u, to_v = places[2 * i + 2], places[2 * i + 3]
    if v > to_v:
        u, v, to_u, to_v = to_u, to_v, u, v
    begin, end = u, to_u
    if v < low:
        begin = u + min((low - v) / (to_v - v), 1.0) * (to_u - u)
    if to_v > high:
        end = u + max((high - v) / (to_v - v), 0.0) * (to_u - u)
    return min(begin, end), max(begin, end)


@bare_step
def cell_of(place, size):
    """Return the column or row of a place, the nearest one if it is outside."""
    return min(max(np.int64(math_floor(place)), 0), size - 1)


@bare_step
def math_floor(place):
    """Return the greatest integer that is not above a float."""
    return np.floor(place)


@bare_step
def row_range(places, i, rows):
    """Return the first and the last row that edge i touches."""
    v, to_v = places[2 * i + 1], places[2 * i + 3]
    return cell_of(min(v, to_v) - _MARGIN, rows), cell_of(max(v, to_v) + _MARGIN, rows)


@bare_step
def column_range(places, i, low, high, columns):
    """Return the first and the last column that edge i touches where v is from `low` to `high`."""
    begin, end = clip_edge(places, i, low - _MARGIN, high + _MARGIN)
    return cell_of(begin - _MARGIN, columns), cell_of(end + _MARGIN, columns)


@bare_step
def count_cells(places, i, columns, rows, counts):
    """Count edge i in the cells that it touches."""
    first_row, last_row = row_range(places, i, rows)
    for row in range(first_row, last_row + 1):
        first, last = column_range(places, i, row, row + 1, columns)
        for column in range(first, last + 1):
            counts[row * columns + column] += 1


@bare_step
def fill_cells(places, i, columns, rows, ends, entries):
    """Write edge i to the entries of the cells that it touches."""
    first_row, last_row = row_range(places, i, rows)
    for row in range(first_row, last_row + 1):
        first, last = column_range(places, i, row, row + 1, columns)
        for column in range(first, last + 1):
            cell = row * columns + column
            entries[ends[cell]] = i
            ends[cell] += 1


@bare_step
def mark_sides(places, i, columns, rows, sides):
    """Mark the sides between cells that edge i touches."""
    first_row, last_row = row_range(places, i, rows)
    for row in range(first_row, last_row + 1):
        first, last = column_range(places, i, row, row + 1, columns)
        for column in range(first, last):
            sides[row * columns + column] |= _RIGHT
            sides[row * columns + column + 1] |= _LEFT
    for row in range(first_row, last_row):
        first, last = column_range(places, i, row + 1, row + 1, columns)
        for column in range(first, last + 1):
            sides[row * columns + column] |= _TOP
            sides[(row + 1) * columns + column] |= _BOTTOM


@bare_step
def toggle_corners(places, i, columns, rows, parity):
    """Toggle, in each line of corners that edge i crosses, the first corner right of it."""
    u, v = places[2 * i], places[2 * i + 1]
    to_u, to_v = places[2 * i + 2], places[2 * i + 3]
    if v > to_v:
        u, v, to_u, to_v = to_u, to_v, u, v
    line = np.int64(np.ceil(v))
    while line < to_v:
        crossing = u + (line - v) / (to_v - v) * (to_u - u)
        parity[line * (columns + 1) + cell_of(crossing, columns) + 1] ^= 1
        line += 1


@bare_step
def write_lists(columns, rows, first_cell, begin, ends, entries, sides, parity, seen, cells, lists):
    """Write the cells of a shape and their lists; return where these end, -1 if they do not fit."""
    at = begin
    for row in range(rows):
        for column in range(columns):
            cell = row * columns + column
            corner = row * (columns + 1) + column
            first = np.int64(ends[cell - 1]) if cell > 0 else 0
            if first == ends[cell]:
                cells[first_cell + cell] = parity[corner]
                continue
            if at >= lists.shape[0]:
                return -1
            last, flags = cell, 0
            if sides[cell] & _LEFT == 0:
                flags = BACKWARD
            elif sides[cell] & _BOTTOM == 0:
                flags = VERTICAL | BACKWARD
            elif sides[cell] & _RIGHT == 0:
                corner += 1
            elif sides[cell] & _TOP == 0:
                flags = VERTICAL
                corner += columns + 1
            else:
                while sides[last] & _RIGHT != 0:
                    last += 1
                corner += last + 1 - cell
            if parity[corner] != 0:
                flags |= FROM_INSIDE
            cells[first_cell + cell] = 2 + at - begin
            start = at
            at += 1
            for j in range(first, ends[last]):
                edge = entries[j]
                if seen[edge] != cell:
                    seen[edge] = cell
                    if at >= lists.shape[0]:
                        return -1
                    lists[at] = edge
                    at += 1
            lists[start] = ((at - start - 1) << COUNT) | flags
    return at
