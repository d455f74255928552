"""Whether points are in shapes, against exact arithmetic."""

import os
from fractions import Fraction

import numpy as np
import pytest
import shapely
from hypothesis import example, given
from hypothesis import strategies as st

from tests.geometry.oracle import (
    FAMILIES,
    MAX,
    answers,
    nasty_points,
    place_in_rings,
    random_shape,
    rings_of,
)
from tocsin.geometry.inside import are_inside
from tocsin.geometry.rasters import HEAD
from tocsin.geometry.shape import Shape, disc, polygon_from_wkt
from tocsin.geometry.table import ShapeTable, build_table

# Shapes of each family, and points of each: 10**7 points in the long profile.
SHAPES, POINTS = (1120, 1000) if os.environ.get("TOCSIN_PROFILE") == "long" else (25, 250)


def ask(table: ShapeTable, shapes, points) -> np.ndarray:
    """Return whether each point is in the shape with the number beside it."""
    x, y = np.array(points, float).reshape(-1, 2).T.copy()
    out = np.empty(len(x), np.uint8)
    are_inside(table, np.broadcast_to(shapes, len(x)).astype(np.int64), x, y, out)
    return out.astype(bool)


def contains(shape: Shape, x: float, y: float) -> bool:
    return bool(ask(build_table([shape]), 0, [(x, y)])[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_nasty_points(family):
    rng = np.random.default_rng(FAMILIES.index(family))
    shapes = [random_shape(rng, family) for _ in range(SHAPES)]
    table = build_table(shapes)
    for number, shape in enumerate(shapes):
        points = nasty_points(rng, shape, table.heads[HEAD * number :], POINTS)
        assert ask(table, number, points).tolist() == answers(shape, points.tolist()), shape


def test_families_reach_all_cases():
    """Otherwise the test above would test less than it says."""
    rng = np.random.default_rng(0)
    places, rasters = set(), set()
    for family in FAMILIES:
        shape = random_shape(rng, family)
        table = build_table([shape])
        rasters.add(bool(table.heads[2]))
        points = nasty_points(rng, shape, table.heads, 300)
        rings = rings_of(shape)
        finite = points[np.isfinite(points).all(axis=1)].tolist()
        places |= {place_in_rings(rings, x, y) for x, y in finite}
    assert places == {0, 1, 2}
    assert rasters == {False, True}


finite = st.floats(allow_nan=False, allow_infinity=False)
small = st.integers(-3, 3).map(float)
tiny = st.integers(-3, 3).map(lambda n: n * 5e-324)
coordinate = st.one_of(small, finite, tiny, st.sampled_from([MAX, -MAX, 0.1, 0.3]))


@given(st.lists(st.tuples(coordinate, coordinate), min_size=3, max_size=9), st.data())
@example([(0.0, 0.0), (4.0, 0.0), (0.0, 4.0)], None)
def test_any_ring(vertices, data):
    """Rings that cross themselves, too: an untrusted store may have them."""
    ring = [*vertices, vertices[0]]
    coordinates = (np.array(ring) + 0.0).tobytes()
    points = [(2.0, 2.0), (1.0, 1.0), (0.0, 0.0)]
    if data is not None:
        on_axes = st.tuples(
            st.sampled_from([x for x, _ in ring]), st.sampled_from([y for _, y in ring])
        )
        points = data.draw(st.lists(st.one_of(on_axes, st.tuples(coordinate, coordinate))))
    for closed in (False, True):
        shape = Shape(
            polygon_from_wkt("POLYGON ((0 0, 1 0, 0 1, 0 0))").kind,
            closed,
            (len(ring),),
            coordinates,
        )
        assert ask(build_table([shape]), 0, points).tolist() == answers(shape, points)


@given(
    coordinate, coordinate, coordinate.map(abs), st.tuples(coordinate, coordinate), st.booleans()
)
@example(0.0, 0.0, 5.0, (3.0, 4.0), False)
@example(0.0, 0.0, 5.0, (3.0, 4.0), True)
@example(0.1, 0.1, 0.0, (0.1, 0.1), True)
@example(MAX, 0.0, MAX, (-MAX, 0.0), True)
@example(5e-324, 0.0, 5e-324, (1e-323, 0.0), True)
def test_discs(x, y, radius, point, closed):
    px, py = map(Fraction, point)
    difference = (px - Fraction(x)) ** 2 + (py - Fraction(y)) ** 2 - Fraction(radius) ** 2
    expected = difference < 0 or (closed and difference == 0)
    assert contains(disc(x, y, radius, closed), *point) == expected


def test_points_by_circles():
    rng = np.random.default_rng(1)
    for scale in (1.0, 1e-170, 1e160, 2.0**-1070):
        x, y, radius = rng.random(3) * scale
        angle = rng.random(2000) * 7
        points = np.column_stack([x + radius * np.cos(angle), y + radius * np.sin(angle)])
        shape = disc(x, y, radius)
        exact = [
            (Fraction(px) - Fraction(x)) ** 2 + (Fraction(py) - Fraction(y)) ** 2
            <= Fraction(radius) ** 2
            for px, py in points.tolist()
        ]
        assert ask(build_table([shape]), 0, points).tolist() == exact
        assert 100 < sum(exact) < 2000


@pytest.mark.parametrize("closed", [True, False])
def test_holes_and_parts(closed):
    shape = polygon_from_wkt(
        "MULTIPOLYGON (((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 1 8, 8 8, 8 1, 1 1)),"
        " ((3 3, 6 3, 6 6, 3 6, 3 3)), ((9 9, 12 9, 12 12, 9 9)))",
        closed,
    )
    table = build_table([shape])
    inside = [(0.5, 5.0), (4.0, 4.0), (10.5, 9.5)]
    outside = [(2.0, 2.0), (13.0, 1.0), (9.5, 11.0), (9.0, 9.5)]
    on_edge = [(0.0, 0.0), (1.0, 4.0), (8.0, 8.0), (3.0, 3.0), (4.5, 6.0), (9.0, 9.0), (11.0, 11.0)]
    assert ask(table, 0, inside).all()
    assert not ask(table, 0, outside).any()
    assert (ask(table, 0, on_edge) == closed).all()


def test_no_coordinates():
    shapes = [polygon_from_wkt("POLYGON ((0 0, 1 0, 0 1, 0 0))"), disc(0, 0, 1)]
    table = build_table(shapes)
    for number in range(len(shapes)):
        for value in (np.nan, np.inf, -np.inf):
            assert not ask(table, number, [(value, 0.1), (0.1, value), (value, value)]).any()


def test_differences_from_shapely_are_its_rounding():
    """Where shapely disagrees, fractions agree with us: its products overflow or underflow."""
    rng, different = np.random.default_rng(5), set()
    for family in FAMILIES:
        for _ in range(25):
            shape = random_shape(rng, family)
            rings = rings_of(shape)
            if len(rings) > 1:
                continue
            table, polygon = build_table([shape]), shapely.Polygon(rings[0])
            points = nasty_points(rng, shape, table.heads, 200)
            points = points[np.isfinite(points).all(axis=1)]
            test = shapely.covers if shape.closed else shapely.contains
            with np.errstate(all="ignore"):
                theirs = test(polygon, shapely.points(points))
            ours = ask(table, 0, points)
            where = ours != theirs
            assert ours[where].tolist() == answers(shape, points[where].tolist())
            if where.any():
                different.add(family)
    assert different == {"huge", "subnormal", "far apart", "underflow"}
