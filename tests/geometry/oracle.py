"""Whether a point is in a shape, by fractions; and shapes and points that are hard to tell."""

import itertools
import math
from fractions import Fraction

import numpy as np
import shapely

from tocsin.geometry.rasters import SIZE, X_SCALE
from tocsin.geometry.shape import Shape, read_geometries

OUTSIDE, INSIDE, ON_EDGE = 0, 1, 2
MAX = np.finfo(float).max


def rings_of(shape: Shape) -> list[list[tuple[float, float]]]:
    points = iter(shape.points.tolist())
    return [[tuple(next(points)) for _ in range(length)] for length in shape.lengths]


def place_in_rings(rings, x: float, y: float) -> int:
    """Return where a point is, by exact arithmetic: a ray to the right crosses the rings."""
    x, y = Fraction(x), Fraction(y)
    is_inside = False
    for ring in rings:
        for (ax, ay), (bx, by) in itertools.pairwise(ring):
            low, high = min(ay, by), max(ay, by)
            if not low <= y <= high or x > max(ax, bx):
                continue
            if x < min(ax, bx):
                is_inside ^= y < high
                continue
            ax, ay, bx, by = map(Fraction, (ax, ay, bx, by))
            if ay == by:
                if min(ax, bx) <= x:
                    return ON_EDGE
                continue
            crossing = ax + (y - ay) / (by - ay) * (bx - ax)
            if crossing == x:
                return ON_EDGE
            if crossing > x and y < high:
                is_inside = not is_inside
    return INSIDE if is_inside else OUTSIDE


def answers(shape: Shape, points) -> list[bool]:
    """Return whether points are in a shape."""
    rings, edge = rings_of(shape), (ON_EDGE if shape.closed else INSIDE)
    return [
        math.isfinite(x) and math.isfinite(y) and place_in_rings(rings, x, y) in (INSIDE, edge)
        for x, y in points
    ]


def is_in_rings(shape: Shape, x: float, y: float) -> bool:
    return answers(shape, [(x, y)])[0]


# ------------------------------------------------------------ shapes

# Where and how large: usual, whole numbers, narrow for their place, huge, subnormal, flat; and such
# that products underflow.
FAMILIES = (
    "plain", "whole", "narrow", "few ulps", "huge", "subnormal", "flat", "far apart", "underflow",
)  # fmt: skip


def star(rng: np.random.Generator, vertices: int, family: str):
    """Return a ring of vertices around a centre, in the order of their angles."""
    angle = np.sort(rng.random(vertices)) * 2 * np.pi
    radius = rng.uniform(0.2, 1, vertices)
    ring = np.column_stack([np.cos(angle), np.sin(angle)]) * radius[:, None]
    match family:
        case "whole":
            ring = np.round(6 * ring)
        case "narrow":
            ring = 1e6 + 1e-8 * ring
        case "few ulps":
            ring = 1 + np.round(20 * ring) * 2.0**-52
        case "huge":
            ring = MAX * ring
        case "subnormal":
            ring = 1e-320 * ring
        case "flat":
            ring = ring * (1e6, 1e-9) + (0, 3)
        case "underflow":
            ring = ring * (1, 2.0**-1026)
        case "far apart":
            ring = np.sign(ring) * 2.0 ** rng.uniform(-1000, 1000, ring.shape)
    return shapely.Polygon(ring)


def random_shape(rng: np.random.Generator, family: str, most: int = 40) -> Shape:
    """Return a valid polygon; some have holes, several parts, or both."""
    while True:
        with np.errstate(all="ignore"):
            polygon = star(rng, int(rng.integers(3, most)), family)
            if not polygon.is_valid or polygon.is_empty:
                continue
            if family in ("plain", "whole") and rng.random() < 0.5:
                hole = star(rng, int(rng.integers(3, 9)), family)
                hole = shapely.transform(hole, np.round if family == "whole" else lambda p: p / 3)
                island = shapely.transform(hole, lambda p: p / 8 + (8, 8))
                if not hole.is_valid:
                    continue
                polygon = polygon.difference(hole).union(island)
                if not polygon.is_valid:
                    continue
        if polygon.geom_type in ("Polygon", "MultiPolygon") and not polygon.is_empty:
            return read_geometries([polygon])[0].with_edge(bool(rng.random() < 0.5))


def nasty_points(rng: np.random.Generator, shape: Shape, head: np.ndarray, n: int):
    """Return n points on and by vertices, edges and the sides of cells, or anywhere."""
    vertices = shape.points
    x_low, x_high, y_low, y_high = shape.bounds
    low, high = np.array([x_low, y_low]), np.array([x_high, y_high])
    part = rng.random((n, 1))
    first = rng.integers(len(vertices) - 1, size=n)
    kind = rng.integers(7, size=n)[:, None]
    where = rng.random((n, 2))
    points = low * (1 - where) + high * where
    corner = points
    if head[X_SCALE]:
        corner = head[:2] + rng.integers(0, int(head[SIZE]) + 1, (n, 2)) / head[2:4]
    mixed = np.column_stack([rng.choice(vertices[:, 0], n), rng.choice(vertices[:, 1], n)])
    on_edge = vertices[first] * (1 - part) + vertices[first + 1] * part
    middle = vertices[first] / 2 + vertices[first + 1] / 2
    side = np.where(rng.random((n, 2)) < 0.5, corner, points)
    for number, choice in enumerate((vertices[first], mixed, on_edge, middle, corner, side)):
        points = np.where(kind == number, choice, points)
    step = rng.integers(-1, 2, (n, 2))
    above, below = np.nextafter(points, np.inf), np.nextafter(points, -np.inf)
    points = np.where(step == 0, points, np.where(step > 0, above, below))
    nowhere = rng.random((n, 2)) < 0.002
    points[nowhere] = rng.choice([np.nan, np.inf, -np.inf, MAX, -0.0], int(nowhere.sum()))
    return points
