"""Shapes: what is read, what is refused and why, and what is equal."""

import json
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
import shapely

from tocsin.errors import ShapeError
from tocsin.geometry.shape import (
    Kind,
    Shape,
    disc,
    from_geojson,
    from_wkb,
    globe_disc,
    polygon_from_wkt,
    read_geometries,
    read_wkb,
    read_wkt,
)

SQUARE = "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))"
WITH_HOLE = "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 1, 2 2, 1 1))"


def test_forms_agree():
    text = (
        "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 1, 2 2, 1 1)), ((9 9, 10 9, 9 10, 9 9)))"
    )
    geometry = shapely.from_wkt(text)
    collection = json.loads(shapely.to_geojson(geometry))
    shapes = [
        polygon_from_wkt(text),
        from_wkb(geometry.wkb),
        from_wkb(shapely.to_wkb(shapely.set_srid(geometry, 4326), include_srid=True)),
        from_geojson(shapely.to_geojson(geometry)),
        from_geojson(collection),
        from_geojson({"type": "Feature", "properties": {}, "geometry": collection}),
        *read_geometries([geometry]),
        *read_wkt([text]),
    ]
    assert len(set(shapes)) == 1
    assert sorted(shapes[0].lengths) == [4, 4, 5]
    assert shapes[0].bounds == (0, 10, 0, 10)
    assert repr(shapes[0]) == "<closed polygon with 3 rings and 10 vertices>"


def test_equal_if_edges_are():
    square = polygon_from_wkt(SQUARE)
    assert square == polygon_from_wkt("POLYGON ((4 4, 4 0, 0 0, 0 4, 4 4))")
    assert square == polygon_from_wkt("MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)))")
    assert square == polygon_from_wkt("POLYGON Z ((0 0 7, 4 0 7, 4 4 7, 0 4 7, 0 0 7))")
    assert square == polygon_from_wkt("POLYGON ((-0.0 0, 4 -0.0, 4 4, 0 4, -0.0 0))")
    assert square != polygon_from_wkt(WITH_HOLE)
    assert square != square.with_edge(False)
    assert square == square.with_edge(False).with_edge(True)
    assert disc(0, 0, 1) == disc(-0.0, 0.0, 1.0)
    assert disc(0, 0, 1) != globe_disc(0, 0, 1)
    assert len({disc(0, 0, 1), disc(0, 0, 1, False), globe_disc(0, 0, 1)}) == 3


@pytest.mark.parametrize(
    "shape", [polygon_from_wkt(WITH_HOLE, False), disc(1, 2, 3), globe_disc(179, 2, 3e6, False)]
)
def test_bytes(shape):
    assert Shape.from_bytes(shape.to_bytes()) == shape
    assert pickle.loads(pickle.dumps(shape)) == shape
    with pytest.raises(ShapeError, match="these bytes are not a shape"):
        Shape.from_bytes(shape.to_bytes()[:-1])
    for data in (b"", b"\x09" + shape.to_bytes()[1:], shape.to_bytes()[:9]):
        with pytest.raises(ShapeError, match="these bytes are not a shape"):
            Shape.from_bytes(data)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("POLYGON ((0 0, 1 1, 1 0, 0 1, 0 0))", r"not valid: Self-inters[a-z]*\[0.5 0.5\]; "),
        ("POLYGON ((0 0, 4 0, 4 4, 0 0), (9 9, 9 8, 8 8, 9 9))", r"not valid: Hole lies outside"),
        ("POINT (1 2)", "a shape is a Polygon or MultiPolygon, got a Point"),
        ("LINESTRING (1 2, 3 4)", "got a LineString"),
        (f"GEOMETRYCOLLECTION ({SQUARE})", "got a GeometryCollection; give each"),
        ("POLYGON EMPTY", "a shape needs vertices, got an empty Polygon"),
        ("POLYGON ((0 0, 1 nan, 1 0, 0 0))", r"must be finite, got \(1.0, nan\)"),
        ("POLYGON ((0 0, 1e999 1, 1 0, 0 0))", r"must be finite, got \(inf, 1.0\)"),
        ("POLYGON ((0 0, 1 1", "this is not well-known text: ParseException.*\n  in: POLYGON"),
        ("POLYGON ((0 0, 1 1, 1 0))", "this is not well-known text: .*form a closed linestring"),
        ("", "this is not well-known text"),
        (None, "this is not well-known text\n  in: None"),
        (7, r"this is not well-known text: [^\n]*\n  in: 7"),
    ],
)  # fmt: skip
def test_refused(text, message):
    with pytest.raises(ShapeError, match=message):
        polygon_from_wkt(text)
    with pytest.raises(ShapeError, match=message) as caught:
        read_wkt([SQUARE, WITH_HOLE, text, SQUARE])
    assert caught.value.row == 2


def test_other_forms_refused():
    with pytest.raises(ShapeError, match="this is not well-known bytes: ParseException"):
        from_wkb(b"abc")
    with pytest.raises(ShapeError, match="this is not GeoJSON"):
        from_geojson("{}")
    with pytest.raises(ShapeError, match="got a Point"):
        from_geojson({"type": "Point", "coordinates": [1, 2]})
    with pytest.raises(ShapeError, match="this is no geometry of shapely: POLYGON") as caught:
        read_geometries([shapely.box(0, 0, 1, 1), SQUARE])
    assert caught.value.row == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: disc(math.nan, 0, 1), "the x of a shape must be finite, got nan"),
        (lambda: disc(0, 0, -1), "the radius must be finite and not negative, got -1"),
        (lambda: disc(0, 0, math.inf), "the radius must be finite"),
        (lambda: globe_disc(181, 0, 1), "a longitude is from -180 to 180, got 181"),
        (lambda: globe_disc(48.8, 102.3, 1), "a latitude is .* got 102.3; are longitude and lat"),
        (lambda: globe_disc(0, 0, math.nan), "the distance in metres must be finite"),
    ],
)
def test_discs_refused(make, message):
    with pytest.raises(ShapeError, match=message):
        make()


def test_boxes():
    assert disc(1, 2, 0.5).bounds == (
        math.nextafter(0.5, -1), math.nextafter(1.5, 2), math.nextafter(1.5, 1),
        math.nextafter(2.5, 3),
    )  # fmt: skip
    assert disc(1e308, 0, 1.7e308).bounds[1] == np.finfo(float).max
    (box,) = globe_disc(0, 0, 111_195).boxes  # a degree
    assert np.allclose(box, (-1, 1, -1, 1), atol=1e-5)
    east, west = sorted(globe_disc(179.5, 0, 111_195).boxes, reverse=True)
    assert np.allclose(east, (178.5, 180, -1, 1), atol=1e-5)
    assert np.allclose(west, (-180, -179.5, -1, 1), atol=1e-5)
    assert globe_disc(179.5, 0, 111_195).bounds[:2] == (-180, 180)
    assert sorted(globe_disc(-179.5, 0, 111_195).boxes)[0][0] == -180
    assert globe_disc(10, 89.9, 50_000).boxes[0][:2] == (-180, 180)
    assert globe_disc(10, 20, 2e7).boxes == [(-180, 180, -90, 90)]


def test_none_at_all():
    assert read_wkt([]) == read_wkb([]) == read_geometries([]) == []


def test_shapely_is_optional():
    """What reads polygons says how to install it; all else works without it."""
    code = f"""if True:
        import sys
        sys.modules["shapely"] = None
        from tocsin.errors import ShapeError
        from tocsin.geometry.shape import Shape, disc, polygon_from_wkt
        from tocsin.geometry.table import build_table
        shape = Shape.from_bytes({polygon_from_wkt(SQUARE).to_bytes()!r})
        assert build_table([shape, disc(0, 0, 1)]).size == 2
        try:
            polygon_from_wkt("POLYGON EMPTY")
        except ShapeError as error:
            assert "pip install 'tocsin[shapes]'" in str(error)
            print(shape.bounds)
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "(0.0, 4.0, 0.0, 4.0)\n"


def test_kinds_are_what_stores_have():
    assert [kind.value for kind in Kind] == [0, 1, 2]
