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
    CLOSED,
    COLUMNS,
    COUNT,
    FRAME,
    FROM_INSIDE,
    HEAD,
    KIND,
    LIST,
    ROWS,
    VERTEX,
    VERTICAL,
)
from tocsin.geometry.shape import EARTH_RADIUS, Kind
from tocsin.geometry.table import ShapeTable
from tocsin.jit import Float64s, Int64s, UInt8Out, bare_step, kernel

_DISC, _GLOBE_DISC = int(Kind.DISC), int(Kind.GLOBE_DISC)
_MAX = float(np.finfo(np.float64).max)
_ON_EDGE = 2  # beside 0 and 1 for outside and inside


@kernel
def are_inside(table: ShapeTable, shapes: Int64s, x: Float64s, y: Float64s, out: UInt8Out) -> None:
    """Write whether each point is in the shape with the number beside it."""
    for i in range(shapes.shape[0]):
        out[i] = is_inside(table, shapes[i], x[i], y[i])


@bare_step
def is_inside(table, shape, x, y):
    """Return whether a point is in a shape of a table."""
    heads, frames = table.heads, table.frames
    head, frame = HEAD * shape, FRAME * shape
    columns = heads[head + COLUMNS]
    if columns == 0:
        return is_in_disc(
            heads[head + KIND], heads[head + CLOSED],
            frames[frame], frames[frame + 1], frames[frame + 2], x, y,
        )  # fmt: skip
    u = (x - frames[frame]) * frames[frame + 2]
    v = (y - frames[frame + 1]) * frames[frame + 3]
    if not (u >= 0.0 and v >= 0.0 and u < columns and v < heads[head + ROWS]):  # NaN, too
        return False
    cell = table.cells[heads[head + CELL] + np.int64(v) * columns + np.int64(u)]
    if cell < 2:
        return cell == 1
    begin = heads[head + LIST] + cell - 2
    side = side_of_edges(table.lists, begin, table.points, heads[head + VERTEX], x, y)
    return side == 1 or (side == _ON_EDGE and heads[head + CLOSED] != 0)


@bare_step
def side_of_edges(lists, begin, points, vertex, x, y):
    """Return 0 if a point is outside, 1 if it is inside, 2 if it is on an edge.

    Edges are those of the list of the point's cell; what crosses the way to the free side counts.
    """
    flags = lists[begin]
    turn = np.int64(flags & VERTICAL)  # then x and y change places
    if turn != 0:
        x, y = y, x
    backward = flags & BACKWARD != 0
    is_in = flags & FROM_INSIDE != 0
    for i in range(begin + 1, begin + 1 + (flags >> COUNT)):
        at = 2 * (vertex + lists[i])
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
def is_in_disc(kind, closed, center_x, center_y, radius, x, y):
    """Return whether a point is in a disc."""
    if kind == _GLOBE_DISC:
        if not (abs(x) <= 180.0 and abs(y) <= 90.0):
            return False
        distance = great_circle(center_x, center_y, x, y)
        return distance < radius or (closed != 0 and distance == radius)
    if not (abs(x) <= _MAX and abs(y) <= _MAX):
        return False
    side = circle_side(x, y, center_x, center_y, radius)
    return side < 0 or (closed != 0 and side == 0)


@bare_step
def great_circle(lon, lat, to_lon, to_lat):
    """Return the distance of two points on the globe in metres, by haversine."""
    to_radians = math.pi / 180.0
    phi, to_phi = lat * to_radians, to_lat * to_radians
    north = math.sin((to_lat - lat) * to_radians / 2.0)
    east = math.sin((to_lon - lon) * to_radians / 2.0)
    square = north * north + math.cos(phi) * math.cos(to_phi) * (east * east)
    return 2.0 * EARTH_RADIUS * math.asin(math.sqrt(min(square, 1.0)))
