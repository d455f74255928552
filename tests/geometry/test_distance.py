"""How far points are from edges, against shapely, mpmath and sampled edges."""

import math

import mpmath
import numpy as np
import pytest
import shapely

from tests.geometry.oracle import star
from tests.geometry.test_inside import ask
from tocsin.geometry.distance import are_within, edge_boxes, write_distances
from tocsin.geometry.shape import EARTH_RADIUS, Shape, disc, globe_disc, read_geometries
from tocsin.geometry.table import ShapeTable, build_table

GLOBE_DISCS = [
    globe_disc(2.35, 48.86, 500),
    globe_disc(179.9, 10, 50_000),
    globe_disc(-180, -70, 1e6),
    globe_disc(0, 89.9, 50_000),
    globe_disc(10, -89, 1e6),
    globe_disc(0, 0, 1.9e7),
    globe_disc(5, 5, 0),
]


def distances(table: ShapeTable, number: int, points) -> np.ndarray:
    x, y = np.array(points, float).reshape(-1, 2).T.copy()
    out = np.empty(len(x))
    write_distances(table, np.full(len(x), number), x, y, out)
    return out


def within(table: ShapeTable, number: int, points, margin: float) -> np.ndarray:
    x, y = np.array(points, float).reshape(-1, 2).T.copy()
    out = np.empty(len(x), np.uint8)
    are_within(table, np.full(len(x), number), x, y, margin, out)
    return out.astype(bool)


@pytest.fixture(scope="module")
def polygons():
    rng = np.random.default_rng(0)
    found = [star(rng, int(rng.integers(3, 200)), "plain") for _ in range(60)]
    polygons = [polygon for polygon in found if polygon.is_valid]
    return polygons, build_table(read_geometries(polygons))


def test_polygons(polygons):
    rng = np.random.default_rng(1)
    for number, polygon in enumerate(polygons[0]):
        points = rng.uniform(-1.3, 1.3, (200, 2))
        expected = shapely.distance(polygon.boundary, shapely.points(points))
        assert np.allclose(distances(polygons[1], number, points), expected, rtol=0, atol=1e-14)


def test_within_a_margin(polygons):
    rng = np.random.default_rng(2)
    for number in range(len(polygons[0])):
        points = rng.uniform(-1.5, 1.5, (200, 2))
        inside = ask(polygons[1], number, points)
        distance = distances(polygons[1], number, points)
        for margin in (0.0, 1e-3, 0.1, 3.0, distance[0], math.inf):
            expected = inside | (distance <= margin)
            assert np.array_equal(within(polygons[1], number, points, margin), expected)


def test_discs():
    table = build_table([disc(1, 2, 5)])
    points = [(1, 2), (4, 6), (1, 12), (-9, 2)]
    assert distances(table, 0, points).tolist() == [5, 0, 5, 5]
    assert within(table, 0, points, 0).tolist() == [True, True, False, False]
    assert within(table, 0, points, 5).all()


def test_no_point_is_near():
    table = build_table(
        [disc(0, 0, 1), globe_disc(0, 0, 1), *read_geometries([shapely.box(0, 0, 1, 1)])]
    )
    for number in range(3):
        for value in (math.nan, math.inf):
            assert not math.isfinite(distances(table, number, [(value, 0)])[0])
            assert not within(table, number, [(value, 0), (0, value)], 1e300).any()


def test_huge_and_tiny_coordinates():
    for scale in (2.0**1023, 2.0**-1060, 1e-200, 1e200):
        ring = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]) * scale
        shape = Shape(GLOBE_DISCS[0].kind.POLYGON, True, (5,), ring.tobytes())
        table = build_table([shape])
        points = np.array([(0.5, 0.25), (0.0, 0.5), (1.5, 0.5), (-0.75, -1.0)]) * scale
        assert distances(table, 0, points) / scale == pytest.approx([0.25, 0, 0.5, 1.25])


def great_circle(lon, lat, to_lon, to_lat) -> float:
    """Return the distance by the cosine of the angle, with 60 digits."""
    with mpmath.workdps(60):
        lon, lat, to_lon, to_lat = (mpmath.radians(v) for v in (lon, lat, to_lon, to_lat))
        cosine = mpmath.sin(lat) * mpmath.sin(to_lat)
        cosine += mpmath.cos(lat) * mpmath.cos(to_lat) * mpmath.cos(to_lon - lon)
        return float(EARTH_RADIUS * mpmath.acos(cosine))


def test_the_globe():
    rng = np.random.default_rng(3)
    for shape in GLOBE_DISCS:
        (lon, lat), (metres, _) = shape.points.tolist()
        table = build_table([shape])
        points = np.column_stack([rng.uniform(-180, 180, 60), rng.uniform(-90, 90, 60)])
        points[:30] = (lon, lat) + rng.normal(0, 1, (30, 2)) * (metres + 1) / 111_195
        points = np.clip(points, (-180, -90), (180, 90))
        exact = np.array([great_circle(lon, lat, *point) for point in points.tolist()])
        assert np.allclose(distances(table, 0, points), abs(exact - metres), rtol=1e-9, atol=1e-3)
        clear = abs(exact - metres) > 1e-3 + 1e-9 * metres
        assert np.array_equal(ask(table, 0, points)[clear], (exact < metres)[clear])


def test_beyond_the_globe():
    table = build_table([globe_disc(179.5, 0, 200_000)])
    assert ask(table, 0, [(180, 0), (-180, 0), (-179.5, 0)]).all()
    assert not ask(table, 0, [(180.5, 0), (-180.5, 0), (179.5, 90.5)]).any()


def in_boxes(boxes, points) -> np.ndarray:
    x, y = np.array(points).T
    inside = (x[:, None] >= boxes[:, 0]) & (x[:, None] <= boxes[:, 1])
    inside &= (y[:, None] >= boxes[:, 2]) & (y[:, None] <= boxes[:, 3])
    return inside.any(axis=1)


def test_boxes_of_edges(polygons):
    for number, polygon in enumerate(polygons[0]):
        boxes = edge_boxes(polygons[1], number)
        along = np.linspace(0, 1, 1000)
        points = shapely.line_interpolate_point(polygon.boundary, along, normalized=True)
        assert in_boxes(boxes, shapely.get_coordinates(points)).all()
        area = ((boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])).sum()
        assert area < polygon.envelope.area  # it is not just everywhere
    flat = build_table(read_geometries([shapely.Polygon([(1, 1), (1, 1 + 1e-15), (2, 1)])]))
    assert edge_boxes(flat, 0).tolist() == [[1, 2, 1, 1 + 4 * 2.0**-52 + 2.0**-52]]


@pytest.mark.parametrize("shape", [disc(1, 2, 3), disc(0, 0, 1e-200), disc(0, 0, 0), *GLOBE_DISCS])
def test_boxes_of_discs(shape):
    (x, y), (radius, _) = shape.points.tolist()
    angle = np.linspace(0, 2 * np.pi, 2000)
    if shape.kind == shape.kind.DISC:
        points = np.column_stack([x + radius * np.cos(angle), y + radius * np.sin(angle)])
    else:
        points = destinations(x, y, radius, angle)
    boxes = edge_boxes(build_table([shape]), 0)
    assert in_boxes(boxes, points).all()
    assert len(boxes) < 2 * 16 * 16 / 2


def destinations(lon, lat, metres, bearing) -> np.ndarray:
    """Return the points at a distance in some directions."""
    phi, delta = math.radians(lat), metres / EARTH_RADIUS
    sine = math.sin(phi) * math.cos(delta) + math.cos(phi) * math.sin(delta) * np.cos(bearing)
    east = np.sin(bearing) * math.sin(delta) * math.cos(phi)
    turn = np.degrees(np.arctan2(east, math.cos(delta) - math.sin(phi) * sine))
    return np.column_stack([(lon + turn + 180) % 360 - 180, np.degrees(np.arcsin(sine))])


def test_points_in_a_disc_are_in_its_boxes():
    rng = np.random.default_rng(6)
    for shape in GLOBE_DISCS:
        (lon, lat), (metres, _) = shape.points.tolist()
        reach = rng.random(3000) * metres
        points = np.concatenate([destinations(lon, lat, m, rng.random(1) * 7) for m in reach])
        points = points[ask(build_table([shape]), 0, points)]
        assert len(points) > 100 or metres == 0
        boxes = np.array(shape.boxes)
        assert in_boxes(boxes, points).all()
