"""Rasters over the box of each polygon: most points need no edge, the others a few.

There are two of them. The fine one has two bits for each cell, its *class*: no edge touches it, and
it is outside or inside as a whole; or some edge does. Four times four of its cells are a cell of
the coarse one, which knows the edges that touch it, and one of its four sides that no edge touches:
there, all points are outside, or all are inside. So the straight way from a point of the cell to
that side decides, and only these edges can cross it. If edges touch all four sides, the way goes
right through further cells, up to a side that is free, and their edges count, too. The outermost
sides of the raster are free.

Coordinates are mapped to cells by `(x - x_low) * scale`, for points and for vertices alike. So the
error is a few 2**-53 of the number of columns, and `_MARGIN` is far more: "touches" means that an
edge is closer than that. Therefore the raster decides nothing that rounding could change. A polygon
that is too narrow for its distance from 0, or so large that differences overflow, has one cell with
all its edges.

One grid over all shapes was tried instead, whose cells list the shapes that cover them and those
whose edges cross them, as in Kipf's adaptive cell trie: one look-up per point, and no index over
boxes. With the workloads of `benchmarks.shapes`, on a busy machine: 246 countries took 14 to 17 ms
instead of 26 with boxes and rasters; 5,000 stars 124 to 195 ms, and 140; 100,000 polygons 176 to
218 ms, and 120, with two to three times the memory. So rasters it is: they work under any index and
beside any other condition. Other things that were measured, on 5,000 stars: without the fine raster
44 ns per test instead of 23; without loading ahead, 80 instead of 44.
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

# The head of a shape, in `heads`: a cache line of floats, which hold the integers, too.
X_LOW = 0  # of a polygon, the corner of its raster; of a disc, its centre
Y_LOW = 1
X_SCALE = 2  # cells in a unit of x, 0 if there is one cell; of a disc, its radius
Y_SCALE = 3
SIZE = 4  # columns of the fine raster, and as many rows; or what disc it is
CELL = 5  # where its coarse cells begin, row by row
LIST = 6  # where its lists begin
VERTEX = 7  # where its vertices begin
HEAD = 8  # numbers in a head

DISC = 0.0  # in place of a size
GLOBE_DISC = -1.0

FINE = 2  # shift: fine columns in a coarse one
PACKED = 2  # shift: classes in a byte
CLASS = 2 * FINE - PACKED  # shift: bytes of classes for a coarse cell; they are in the same order

OUTSIDE, INSIDE, MIXED = 0, 1, 2  # classes

# A coarse cell, or the first number of a list. A cell without edges is 0 or FROM_INSIDE. If its
# edges are a few neighbours, the number of the first one is in the cell. Otherwise it is ~begin of
# its list, where the numbers of the edges follow.
VERTICAL = 1  # the way to the free side
BACKWARD = 2  # it goes left or down
FROM_INSIDE = 4  # the free side is inside
COUNT = 3  # shift: the number of edges
FIRST = 6  # shift: the first edge, if there is no list
FEW = 7  # edges that need no list; a mask
_FIRST_STOP = 1 << 25  # vertices that such a cell can number

_MARGIN = 1e-9  # of a cell; 2**-50 * _MOST_SIZE is 1e-12
_BORDER = 2.0**-10  # of the width, around the box
_LEAST_BORDER = 1e-6  # of a cell: where less is left by rounding, there is no raster
_SMALLEST, _LARGEST = 1e-280, 1e280  # width of a box with a raster

_CELLS_PER_VERTEX = 6
_LEAST_SIZE, _MOST_SIZE = 4, 1024

_TO_COARSE, _TO_FINE = 2.0**-FINE, 2.0**FINE

# A raster whose lists, or cells counted edge by edge, have more edges than this is halved.
_ENTRIES_PER_EDGE = 16
_NO_ROOM, _TOO_LONG = -1, -2  # in place of where lists end

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
    if not n:
        none = np.empty(0, np.int32)
        return {"heads": np.empty(0), "classes": none, "cells": none, "lists": none}
    begin, stop = starts[rings[:-1]], starts[rings[1:]]
    heads = place_rasters(kinds, begin, stop, points.reshape(-1, 2))
    size = np.maximum(heads[:, SIZE], 0).astype(np.int64) >> FINE
    heads[:, CELL] = np.cumsum(size**2) - size**2
    most, vertices = int(size.max()), int((stop - begin).max())
    scratch = (
        np.zeros(most**2 + 1, np.int32),
        np.zeros(most**2, np.uint8),
        np.zeros((most << FINE) ** 2, np.uint8),
        np.zeros(((most << FINE) + 1) ** 2, np.uint8),
        np.full(vertices, -1, np.int32),
        np.zeros(2 * vertices),
    )
    cells = np.zeros(int((size**2).sum()), np.int32)
    classes = np.zeros(len(cells) << CLASS, np.uint8)
    lists = np.zeros(len(points) // 2 + vertices + 64, np.int32)
    entries = np.zeros(4 * vertices + 64, np.int32)
    state = np.zeros(2, np.int64)  # the next shape, and where its lists begin
    flat = heads.ravel()
    while True:
        missing = rasterize(
            rings, starts, points, flat, classes, cells, lists, entries, *scratch, state
        )
        if missing == 0:
            break
        if missing == 1:
            entries = np.zeros(2 * len(entries), np.int32)
        else:
            lists = np.concatenate([lists, np.zeros_like(lists)])
    return {"heads": flat, "classes": classes, "cells": cells, "lists": lists[: state[1]].copy()}


def place_rasters(
    kinds: np.ndarray, begin: np.ndarray, stop: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """Return the heads of shapes, with the size of each polygon's raster and where it is."""
    heads: np.ndarray = np.zeros((len(kinds), HEAD))
    heads[:, VERTEX] = begin
    is_polygon = kinds == Kind.POLYGON
    low, high = np.minimum.reduceat(points, begin), np.maximum.reduceat(points, begin)
    size = np.ceil(np.sqrt(_CELLS_PER_VERTEX * (stop - begin)))
    size = np.clip(size, _LEAST_SIZE, _MOST_SIZE)[:, None] * 2**FINE
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        width = high - low
        corner = low - width * _BORDER
        scale = size / (width * (1 + 2 * _BORDER))
        first, last = (low - corner) * scale, (high - corner) * scale
    fits = (width >= _SMALLEST) & (width <= _LARGEST)
    fits &= (first >= _LEAST_BORDER) & (last <= size - _LEAST_BORDER)
    has_raster = fits.all(axis=1) & is_polygon
    heads[has_raster, X_LOW:X_SCALE] = corner[has_raster]
    heads[has_raster, X_SCALE:SIZE] = scale[has_raster]
    heads[is_polygon, SIZE] = 2**FINE
    heads[has_raster, SIZE] = size[has_raster, 0]
    discs = np.flatnonzero(~is_polygon)
    heads[discs, X_LOW:X_SCALE] = points[begin[discs]]
    heads[discs, X_SCALE] = points[begin[discs] + 1, 0]
    heads[discs, SIZE] = np.where(kinds[discs] == Kind.DISC, DISC, GLOBE_DISC)
    return heads


@kernel
def rasterize(
    rings: Int64s,
    starts: Int64s,
    points: Float64s,
    heads: Float64Out,
    classes: UInt8Out,
    cells: Int32Out,
    lists: Int32Out,
    entries: Int32Out,
    counts: Int32Out,
    sides: UInt8Out,
    marks: UInt8Out,
    parity: UInt8Out,
    seen: Int32Out,
    places: Float64Out,
    state: Int64Out,
) -> int:
    """Write classes, cells and lists, from shape `state[0]` on.

    Return 0, or what has no room for the next shape: 1 for `entries`, 2 for `lists`.
    """
    shape = state[0]
    while shape < rings.shape[0] - 1:
        head = HEAD * shape
        fine, first_cell = np.int64(heads[head + SIZE]), np.int64(heads[head + CELL])
        size = fine >> FINE
        first_ring, stop_ring = rings[shape], rings[shape + 1]
        vertex, begin = starts[first_ring], state[1]
        edges = starts[stop_ring] - vertex  # and a few more: one of each ring is none
        heads[head + LIST] = begin
        if fine <= 0 or heads[head + X_SCALE] == 0.0:
            if begin + edges > lists.shape[0]:
                return 2
            if fine > 0:
                state[1] = list_all(starts, first_ring, stop_ring, lists, begin)
                cells[first_cell] = ~np.int32(0)
                classes[first_cell << CLASS] = MIXED
            shape += 1
            state[0] = shape
            continue
        clear(counts, size * size + 1)
        clear(sides, size * size)
        x_low, y_low = heads[head + X_LOW], heads[head + Y_LOW]
        x_scale, y_scale = heads[head + X_SCALE] * _TO_COARSE, heads[head + Y_SCALE] * _TO_COARSE
        for i in range(edges):
            places[2 * i] = (points[2 * (vertex + i)] - x_low) * x_scale
            places[2 * i + 1] = (points[2 * (vertex + i) + 1] - y_low) * y_scale
        for ring in range(first_ring, stop_ring):
            for i in range(starts[ring] - vertex, starts[ring + 1] - vertex - 1):
                seen[i] = -1
                count_cells(places, i, size, counts)
                mark_sides(places, i, size, sides)
        total = 0
        for i in range(size * size + 1):
            count = counts[i]
            counts[i] = total
            total += count
        limit = _ENTRIES_PER_EDGE * edges
        if total > limit:
            shrink(heads, head)
            continue
        if total > entries.shape[0]:
            return 1
        for ring in range(first_ring, stop_ring):
            for i in range(starts[ring] - vertex, starts[ring + 1] - vertex - 1):
                fill_cells(places, i, size, counts, entries)
        # Now counts[i] is where the entries of cell i end.
        for i in range(2 * edges):
            places[i] *= _TO_FINE
        clear(marks, fine * fine)
        clear(parity, (fine + 1) * (fine + 1))
        for ring in range(first_ring, stop_ring):
            for i in range(starts[ring] - vertex, starts[ring + 1] - vertex - 1):
                mark_cells(places, i, fine, marks)
                toggle_corners(places, i, fine, parity)
        for i in range((fine + 1) * (fine + 1)):
            if i % (fine + 1) != 0:
                parity[i] ^= parity[i - 1]
        at = write_lists(
            size, first_cell, begin, limit, counts, entries, sides, parity, seen, cells, lists
        )
        if at == _TOO_LONG:
            shrink(heads, head)
            continue
        if at == _NO_ROOM:
            return 2
        write_classes(fine, marks, parity, classes, first_cell << CLASS)
        shape += 1
        state[0], state[1] = shape, at
    return 0


@bare_step
def clear(array, stop):
    """Set the first elements of an array to 0."""
    for i in range(stop):
        array[i] = 0


@bare_step
def shrink(heads, head):
    """Halve the raster of a shape; one that would have a single cell has all edges in it."""
    size = np.int64(heads[head + SIZE]) >> FINE
    half = size // 2 if size > 1 else 1
    heads[head + SIZE] = half << FINE
    for axis in range(2):
        if half == 1:
            heads[head + X_LOW + axis] = heads[head + X_SCALE + axis] = 0.0
        else:
            heads[head + X_SCALE + axis] *= half / size


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
    return min(max(np.int64(np.floor(place)), 0), size - 1)


@bare_step
def row_range(places, i, size):
    """Return the first and the last row that edge i touches."""
    v, to_v = places[2 * i + 1], places[2 * i + 3]
    return cell_of(min(v, to_v) - _MARGIN, size), cell_of(max(v, to_v) + _MARGIN, size)


@bare_step
def column_range(places, i, low, high, size):
    """Return the first and the last column that edge i touches where v is from `low` to `high`."""
    begin, end = clip_edge(places, i, low - _MARGIN, high + _MARGIN)
    return cell_of(begin - _MARGIN, size), cell_of(end + _MARGIN, size)


@bare_step
def mark_cells(places, i, size, marks):
    """Mark the cells that edge i touches."""
    first_row, last_row = row_range(places, i, size)
    for row in range(first_row, last_row + 1):
        first, last = column_range(places, i, row, row + 1, size)
        for column in range(first, last + 1):
            marks[row * size + column] = 1


@bare_step
def write_classes(size, marks, parity, classes, at):
    """Write the classes of the fine cells, from byte `at` on."""
    for row in range(size):
        for column in range(size):
            cell = row * size + column
            own = np.uint8(MIXED) if marks[cell] != 0 else parity[cell + row]
            classes[at + (cell >> PACKED)] |= own << np.uint8(2 * (cell & 3))


@bare_step
def count_cells(places, i, size, counts):
    """Count edge i in the cells that it touches."""
    first_row, last_row = row_range(places, i, size)
    for row in range(first_row, last_row + 1):
        first, last = column_range(places, i, row, row + 1, size)
        for column in range(first, last + 1):
            counts[row * size + column] += 1


@bare_step
def fill_cells(places, i, size, ends, entries):
    """Write edge i to the entries of the cells that it touches."""
    first_row, last_row = row_range(places, i, size)
    for row in range(first_row, last_row + 1):
        first, last = column_range(places, i, row, row + 1, size)
        for column in range(first, last + 1):
            cell = row * size + column
            entries[ends[cell]] = i
            ends[cell] += 1


@bare_step
def mark_sides(places, i, size, sides):
    """Mark the sides between cells that edge i touches."""
    first_row, last_row = row_range(places, i, size)
    for row in range(first_row, last_row + 1):
        first, last = column_range(places, i, row, row + 1, size)
        for column in range(first, last):
            sides[row * size + column] |= _RIGHT
            sides[row * size + column + 1] |= _LEFT
    for row in range(first_row, last_row):
        first, last = column_range(places, i, row + 1, row + 1, size)
        for column in range(first, last + 1):
            sides[row * size + column] |= _TOP
            sides[(row + 1) * size + column] |= _BOTTOM


@bare_step
def toggle_corners(places, i, size, parity):
    """Toggle, in each line of corners that edge i crosses, the first corner right of it."""
    u, v = places[2 * i], places[2 * i + 1]
    to_u, to_v = places[2 * i + 2], places[2 * i + 3]
    if v > to_v:
        u, v, to_u, to_v = to_u, to_v, u, v
    line = np.int64(np.ceil(v))
    while line < to_v:
        crossing = u + (line - v) / (to_v - v) * (to_u - u)
        parity[line * (size + 1) + cell_of(crossing, size) + 1] ^= 1
        line += 1


@bare_step
def write_lists(size, first_cell, begin, limit, ends, entries, sides, parity, seen, cells, lists):
    """Write the cells of a shape and their lists; return where these end, or why they cannot be."""
    at = begin
    for cell in range(size * size):
        row, column = cell // size, cell % size
        line = (size << FINE) + 1
        corner = (row << FINE) * line + (column << FINE)
        first = np.int64(ends[cell - 1]) if cell > 0 else 0
        last, flags = cell, 0
        if sides[cell] & _LEFT == 0:
            flags = BACKWARD
        elif sides[cell] & _BOTTOM == 0:
            flags = VERTICAL | BACKWARD
        elif sides[cell] & _RIGHT == 0:
            corner += 1 << FINE
        elif sides[cell] & _TOP == 0:
            flags = VERTICAL
            corner += line << FINE
        else:
            while sides[last] & _RIGHT != 0:
                last += 1
            corner += (last + 1 - cell) << FINE
        if first == ends[cell]:
            flags = 0
        if parity[corner] != 0:
            flags |= FROM_INSIDE
        start, are_neighbours = at, True
        for j in range(first, ends[last]):
            edge = entries[j]
            if seen[edge] != cell:
                seen[edge] = cell
                if at - begin > limit:
                    return _TOO_LONG
                if at + 1 >= lists.shape[0]:
                    return _NO_ROOM
                at += 1
                lists[at] = edge
                if at > start + 1 and lists[at - 1] + 1 != edge:
                    are_neighbours = False
        count = at - start
        if count == 0:
            cells[first_cell + cell] = flags
        elif are_neighbours and count <= FEW and lists[start + 1] < _FIRST_STOP:
            cells[first_cell + cell] = lists[start + 1] << FIRST | count << COUNT | flags
            at = start
        else:
            cells[first_cell + cell] = ~np.int32(start - begin)
            lists[start] = count << COUNT | flags
            at += 1
    return at
