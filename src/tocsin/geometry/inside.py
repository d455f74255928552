"""Whether a point is in a shape: exact for polygons and discs in the plane.

For polygons and discs the answer is that of exact arithmetic on the coordinates as they are, for
every pair of floats. NaN and infinities are in no shape.

For discs on a globe, the distance is what `great_circle` returns, rounding included: haversine on
a sphere, in float64, so about 1e-15 of the distance, and up to 0.1 m near the opposite side of the
globe. A point is in the disc if that is less than its radius, or equal to it if the disc is closed.
So `explain`, which shows the distance, and a match agree. Longitudes beyond 180 degrees and
latitudes beyond 90 are in none.
"""

from __future__ import annotations

import math

import numpy as np

from tocsin.geometry.exact import circle_side, orientation
from tocsin.geometry.rasters import (
    BACKWARD,
    CELL,
    CLASS,
    COUNT,
    FEW,
    FINE,
    FIRST,
    FROM_INSIDE,
    GLOBE_DISC,
    HEAD,
    INSIDE,
    LIST,
    MIXED,
    OUTSIDE,
    PACKED,
    SIZE,
    VERTEX,
    VERTICAL,
    X_LOW,
    X_SCALE,
    Y_LOW,
    Y_SCALE,
)
from tocsin.geometry.shape import EARTH_RADIUS
from tocsin.geometry.table import ShapeTable
from tocsin.jit import Float64s, Int64s, UInt8Out, bare_step, kernel, prefetch, step

_MAX = float(np.finfo(np.float64).max)
_ON_EDGE = 2  # beside 0 and 1 for outside and inside
_NOWHERE, _DISC = -1, -(1 << 40)  # in place of a place, and of what is in a cell
_ROW = 20  # shift: more than columns need
_COLUMN = (1 << _ROW) - 1
_GROUP = 128  # points


@kernel
def are_inside(table: ShapeTable, shapes: Int64s, x: Float64s, y: Float64s, out: UInt8Out) -> None:
    """Write whether each point is in the shape with the number beside it."""
    locate_points(table, shapes, x, y, shapes.shape[0], out)


@step
def locate_points(table, shapes, x, y, count, out):
    """Write whether each of the first `count` points is in the shape with the number beside it.

    Steps are taken for groups of points, so that the processor loads what several of them need at
    once. This is two to five times faster than `is_inside` for each if the table is large.
    """
    heads, classes, cells, lists = table.heads, table.classes, table.cells, table.lists
    points, closed = table.points, table.closed
    found, mixed = np.empty(_GROUP, np.int64), np.empty(_GROUP, np.int64)
    packed = np.empty(_GROUP, np.int64)
    for begin in range(0, count, _GROUP):
        size = min(_GROUP, count - begin)
        for i in range(size):
            prefetch(heads, HEAD * shapes[begin + i])
        for i in range(size):
            shape = shapes[begin + i]
            place = find_place(heads, shape, x[begin + i], y[begin + i])
            found[i] = place
            packed[i] = find_class(heads, shape, max(place, np.int64(0)))
            prefetch(classes, packed[i] >> PACKED)
        others = 0
        for i in range(size):
            place = found[i]
            own = MIXED if place == _DISC else OUTSIDE
            if place >= 0:
                own = unpack_class(classes, packed[i])
            out[begin + i] = own == INSIDE
            mixed[others] = i
            others += own == MIXED
        for j in range(others):
            i = mixed[j]
            if found[i] >= 0:
                found[i] = find_cell(heads, shapes[begin + i], found[i])
                prefetch(cells, found[i])
        for j in range(others):
            i = mixed[j]
            if found[i] >= 0:
                edges = np.int64(cells[found[i]])
                found[i] = edges
                if edges >= 0:
                    vertex = np.int64(heads[HEAD * shapes[begin + i] + VERTEX]) + (edges >> FIRST)
                    prefetch(points, 2 * vertex)
        for j in range(others):
            i = mixed[j]
            shape, edges = shapes[begin + i], found[i]
            if edges == _DISC:
                out[begin + i] = is_in_disc(heads, closed, shape, x[begin + i], y[begin + i])
            else:
                out[begin + i] = is_in_cell(
                    heads, lists, points, closed, shape, edges, x[begin + i], y[begin + i]
                )


@bare_step
def is_inside(table, shape, x, y):
    """Return whether a point is in a shape of a table."""
    place = find_place(table.heads, shape, x, y)
    if place < 0:
        return place == _DISC and is_in_disc(table.heads, table.closed, shape, x, y)
    own = unpack_class(table.classes, find_class(table.heads, shape, place))
    if own != MIXED:
        return own == INSIDE
    edges = np.int64(table.cells[find_cell(table.heads, shape, place)])
    return is_in_cell(table.heads, table.lists, table.points, table.closed, shape, edges, x, y)


@bare_step
def find_place(heads, shape, x, y):
    """Return the row and column of a point's fine cell in one number; or `_NOWHERE` or `_DISC`."""
    head = HEAD * shape
    size = heads[head + SIZE]
    u = (x - heads[head + X_LOW]) * heads[head + X_SCALE]
    v = (y - heads[head + Y_LOW]) * heads[head + Y_SCALE]
    if u >= 0.0 and v >= 0.0 and u < size and v < size:
        return np.int64(v) << _ROW | np.int64(u)
    return _DISC if size <= 0.0 else _NOWHERE  # NaN is nowhere


@bare_step
def find_class(heads, shape, place):
    """Return the number of a fine cell among all of them."""
    head = HEAD * shape
    cell = (place >> _ROW) * np.int64(heads[head + SIZE]) + (place & _COLUMN)
    return (np.int64(heads[head + CELL]) << (CLASS + PACKED)) + cell


@bare_step
def unpack_class(classes, cell):
    """Return the class of a fine cell."""
    return np.int64(classes[cell >> PACKED]) >> (2 * (cell & 3)) & 3


@bare_step
def find_cell(heads, shape, place):
    """Return the number of the coarse cell that has a fine cell."""
    head = HEAD * shape
    row, column = place >> (_ROW + FINE), (place & _COLUMN) >> FINE
    return np.int64(heads[head + CELL]) + row * (np.int64(heads[head + SIZE]) >> FINE) + column


@bare_step
def is_in_cell(heads, lists, points, closed, shape, edges, x, y):
    """Return whether a point is in a polygon; `edges` is the number in the point's cell."""
    if edges >= 0 and edges >> COUNT == 0:
        return edges != 0
    head = HEAD * shape
    side = side_of_edges(
        lists, np.int64(heads[head + LIST]), edges, points, np.int64(heads[head + VERTEX]), x, y
    )
    return side == 1 or (side == _ON_EDGE and closed[shape] != 0)


@bare_step
def side_of_edges(lists, first_list, edges, points, vertex, x, y):
    """Return 0 if a point is outside, 1 if it is inside, 2 if it is on an edge.

    Of the edges of its cell, those count that cross the way to the free side.
    """
    if edges >= 0:
        flags, count = edges, edges >> COUNT & FEW
        begin = edges >> FIRST
    else:
        begin = first_list + ~edges
        flags = np.int64(lists[begin])
        count = flags >> COUNT
    turn = flags & VERTICAL  # then x and y change places
    if turn != 0:
        x, y = y, x
    backward = flags & BACKWARD != 0
    is_in = flags & FROM_INSIDE != 0
    for i in range(count):
        edge = begin + i if edges >= 0 else np.int64(lists[begin + 1 + i])
        at = 2 * (vertex + edge)
        ax, ay = points[at + turn], points[at + 1 - turn]
        bx, by = points[at + 2 + turn], points[at + 3 - turn]
        if (ay > y) != (by > y):
            side = orientation(ax, ay, bx, by, x, y)
            if side == 0:
                return _ON_EDGE
            # Left of an edge that goes up: the edge is right of the point.
            is_in ^= ((side > 0) == (by > ay)) != backward
        elif (ay == y or by == y) and touches(ax, ay, bx, by, x, y):
            return _ON_EDGE
    return 1 if is_in else 0


@bare_step
def touches(ax, ay, bx, by, x, y):
    """Return whether a point is on an edge that is level, or that has an end at its height."""
    if ay == by:
        return min(ax, bx) <= x <= max(ax, bx)
    return (ay == y and ax == x) or (by == y and bx == x)


@bare_step
def is_in_disc(heads, closed, shape, x, y):
    """Return whether a point is in a disc."""
    head = HEAD * shape
    center_x, center_y, radius = heads[head + X_LOW], heads[head + Y_LOW], heads[head + X_SCALE]
    if heads[head + SIZE] == GLOBE_DISC:
        if not (abs(x) <= 180.0 and abs(y) <= 90.0):
            return False
        distance = great_circle(center_x, center_y, x, y)
        return distance < radius or (closed[shape] != 0 and distance == radius)
    if not (abs(x) <= _MAX and abs(y) <= _MAX):
        return False
    side = circle_side(x, y, center_x, center_y, radius)
    return side < 0 or (closed[shape] != 0 and side == 0)


@bare_step
def great_circle(lon, lat, to_lon, to_lat):
    """Return the distance of two points on the globe in metres, by haversine."""
    to_radians = math.pi / 180.0
    phi, to_phi = lat * to_radians, to_lat * to_radians
    north = math.sin((to_lat - lat) * to_radians / 2.0)
    east = math.sin((to_lon - lon) * to_radians / 2.0)
    square = north * north + math.cos(phi) * math.cos(to_phi) * (east * east)
    return 2.0 * EARTH_RADIUS * math.asin(math.sqrt(min(square, 1.0)))
