"""How far a point is from the edge of a shape, and where that edge is.

Distances are in the unit of the coordinates, in metres for discs on the globe. They are floats:
rounding takes about 1e-15 of the longer of the distance and the nearest edge. Whether a point is
inside is for `inside.py` to say: a point that is just outside may be at distance 0.
"""

from __future__ import annotations

import math

import numpy as np

from tocsin.geometry.inside import great_circle, is_inside
from tocsin.geometry.rasters import (
    CELL,
    CLASS,
    COUNT,
    FEW,
    FINE,
    FIRST,
    GLOBE_DISC,
    HEAD,
    LIST,
    MIXED,
    PACKED,
    SIZE,
    VERTEX,
    X_LOW,
    X_SCALE,
    Y_LOW,
    Y_SCALE,
)
from tocsin.geometry.shape import EARTH_RADIUS, Kind
from tocsin.geometry.table import ShapeTable, shape_at
from tocsin.jit import Float64Out, Float64s, Int64s, UInt8Out, bare_step, kernel

_SPARE = 1e-6  # of a cell: more than rounding takes from a place
_DISC_CELLS = 16  # columns and rows for the edge of a disc
_LARGE = 1e300  # beyond it, differences may overflow


@kernel
def write_distances(
    table: ShapeTable, shapes: Int64s, x: Float64s, y: Float64s, out: Float64Out
) -> None:
    """Write how far each point is from the edge of the shape with the number beside it."""
    for i in range(shapes.shape[0]):
        out[i] = distance_to_edge(table, shapes[i], x[i], y[i])


@kernel
def are_within(
    table: ShapeTable, shapes: Int64s, x: Float64s, y: Float64s, margin: float, out: UInt8Out
) -> None:
    """Write whether each point is in the shape with the number beside it, or close to it."""
    for i in range(shapes.shape[0]):
        out[i] = is_within(table, shapes[i], x[i], y[i], margin)


@bare_step
def distance_to_edge(table, shape, x, y):
    """Return how far a point is from the nearest edge of a shape; NaN or infinity for no point."""
    heads, points, starts = table.heads, table.points, table.starts
    if heads[HEAD * shape + SIZE] <= 0.0:
        return abs(distance_to_center(heads, shape, x, y) - heads[HEAD * shape + X_SCALE])
    least = math.inf
    for ring in range(table.rings[shape], table.rings[shape + 1]):
        for i in range(starts[ring], starts[ring + 1] - 1):
            distance = distance_to_segment(
                points[2 * i], points[2 * i + 1], points[2 * i + 2], points[2 * i + 3], x, y
            )
            if not distance >= least:  # NaN, too
                least = distance
    return least


@bare_step
def is_within(table, shape, x, y, margin):
    """Return whether a point is in a shape, or at most `margin` from its edge."""
    if is_inside(table, shape, x, y):
        return True
    if not (abs(x) < math.inf and abs(y) < math.inf):
        return False
    heads, points, lists = table.heads, table.points, table.lists
    head, fine = HEAD * shape, np.int64(heads[HEAD * shape + SIZE])
    if fine <= 0:
        return distance_to_center(heads, shape, x, y) - heads[head + X_SCALE] <= margin
    first_cell, vertex = np.int64(heads[head + CELL]), np.int64(heads[head + VERTEX])
    first_column, last_column = cells_near(
        x, margin, heads[head + X_LOW], heads[head + X_SCALE], fine
    )
    first_row, last_row = cells_near(y, margin, heads[head + Y_LOW], heads[head + Y_SCALE], fine)
    for row in range(first_row, last_row + 1):
        for column in range(first_column, last_column + 1):
            edges = np.int64(table.cells[first_cell + row * (fine >> FINE) + column])
            count, begin = edges >> COUNT & FEW, edges >> FIRST
            if edges < 0:
                begin = np.int64(heads[head + LIST]) + ~edges
                count = np.int64(lists[begin]) >> COUNT
            for j in range(count):
                i = vertex + (begin + j if edges >= 0 else np.int64(lists[begin + 1 + j]))
                distance = distance_to_segment(
                    points[2 * i], points[2 * i + 1], points[2 * i + 2], points[2 * i + 3], x, y
                )
                if distance <= margin:
                    return True
    return False


@bare_step
def cells_near(value, margin, low, scale, size):
    """Return the first and the last coarse column or row that are up to `margin` from a place."""
    if scale == 0.0:
        return 0, 0
    begin = (value - margin - low) * scale - _SPARE
    end = (value + margin - low) * scale + _SPARE
    if begin >= size or end < 0.0:
        return 0, -1
    return np.int64(max(begin, 0.0)) >> FINE, np.int64(min(end, size - 1.0)) >> FINE


@bare_step
def distance_to_center(heads, shape, x, y):
    """Return how far a point is from the centre of a disc."""
    center_x, center_y = heads[HEAD * shape + X_LOW], heads[HEAD * shape + Y_LOW]
    if heads[HEAD * shape + SIZE] == GLOBE_DISC:
        return great_circle(center_x, center_y, x, y)
    return math.hypot(x - center_x, y - center_y)


@bare_step
def distance_to_segment(ax, ay, bx, by, x, y):
    """Return how far a point is from a segment."""
    unit = 1.0
    if max(abs(ax), abs(ay), abs(bx), abs(by), abs(x), abs(y)) > _LARGE:
        unit = 4.0  # a power of 2: exact
        ax, ay, bx, by, x, y = ax / 4, ay / 4, bx / 4, by / 4, x / 4, y / 4
    dx, dy, to_x, to_y = bx - ax, by - ay, x - ax, y - ay
    scale = max(abs(dx), abs(dy), abs(to_x), abs(to_y))
    if scale == 0.0:
        return 0.0
    dx, dy, to_x, to_y = dx / scale, dy / scale, to_x / scale, to_y / scale
    length = dx * dx + dy * dy
    part = 0.0
    if length > 0.0:
        part = min(max((to_x * dx + to_y * dy) / length, 0.0), 1.0)
    return math.hypot(to_x - part * dx, to_y - part * dy) * scale * unit


def edge_boxes(table: ShapeTable, shape: int) -> np.ndarray:
    """Return boxes that hold the edge of a shape: rows of x_low, x_high, y_low and y_high.

    For a polygon, they are the cells of its raster that edges touch. A point outside of them all
    is outside or inside as every point that it can reach without entering one.
    """
    head = table.heads[HEAD * shape :][:HEAD]
    x_low, y_low, x_scale, y_scale = head[:SIZE].tolist()
    fine, first_class = int(head[SIZE]), int(head[CELL]) << CLASS
    if fine <= 0:
        return _disc_boxes(table, shape)
    if x_scale == 0.0:
        return np.array(shape_at(table, shape).boxes)
    packed = table.classes[first_class : first_class + (fine**2 >> PACKED)]
    classes = (packed[:, None] >> np.arange(0, 8, 2, dtype=np.uint8) & 3).ravel()
    row, column = np.divmod(np.flatnonzero(classes == MIXED), fine)
    low = [x_low + (column - _SPARE) / x_scale, y_low + (row - _SPARE) / y_scale]
    high = [x_low + (column + 1 + _SPARE) / x_scale, y_low + (row + 1 + _SPARE) / y_scale]
    return _outward(low[0], high[0], low[1], high[1])


def _disc_boxes(table: ShapeTable, shape: int) -> np.ndarray:
    """Return the cells over a disc's boxes that its edge may cross."""
    disc = shape_at(table, shape)
    radius = disc.points[1, 0]
    found = []
    for x_low, x_high, y_low, y_high in disc.boxes:
        x, y = (
            np.linspace(x_low, x_high, _DISC_CELLS + 1),
            np.linspace(y_low, y_high, _DISC_CELLS + 1),
        )
        left, bottom = (grid.ravel() for grid in np.meshgrid(x[:-1], y[:-1]))
        right, top = (grid.ravel() for grid in np.meshgrid(x[1:], y[1:]))
        middle_x, middle_y = left + (right - left) / 2, bottom + (top - bottom) / 2
        half_x, half_y = (right - left) / 2, (top - bottom) / 2
        if disc.kind == Kind.GLOBE_DISC:
            # From the middle along the parallel, then along a meridian: no shorter than straight.
            degree = math.pi / 180 * EARTH_RADIUS
            reach = (half_x * np.cos(np.radians(middle_y)) + half_y) * degree
        else:
            reach = np.hypot(half_x, half_y)
        distance = np.empty(len(left))
        write_center_distances(table, shape, middle_x, middle_y, distance)
        near = np.abs(distance - radius) <= reach * (1 + _SPARE) + radius * 1e-12
        found.append(_outward(left[near], right[near], bottom[near], top[near]))
    return np.concatenate(found)


@kernel
def write_center_distances(
    table: ShapeTable, shape: int, x: Float64s, y: Float64s, out: Float64Out
) -> None:
    """Write how far points are from the centre of a disc."""
    for i in range(out.shape[0]):
        out[i] = distance_to_center(table.heads, shape, x[i], y[i])


def _outward(
    x_low: np.ndarray, x_high: np.ndarray, y_low: np.ndarray, y_high: np.ndarray
) -> np.ndarray:
    """Return boxes, rounded outward."""
    low, high = np.stack([x_low, y_low]), np.stack([x_high, y_high])
    for _ in range(2):
        low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    return np.column_stack([low[0], high[0], low[1], high[1]])
