"""Tables of shapes: their forms, their errors, and what becomes of them."""

import json

import numpy as np
import pyarrow as pa
import pytest
import shapely

import tocsin
from tests.shapes.test_conditions import matched, pairs

SQUARE, TRIANGLE = "POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))", "POLYGON((0 0, 4 0, 0 4, 0 0))"
EVENTS = [{"x": x, "y": y} for x in (-1, 0, 1, 3, 4) for y in (0, 1, 3, 4, 5)]


def xy(**options):
    return tocsin.Rules({"x": "number", "y": "number", "tier": "category"}, **options)


def expected():
    rules = xy()
    for number, wkt in enumerate((SQUARE, TRIANGLE)):
        rules.add(number, f"ST_Covers(ST_GeomFromText('{wkt}'), ST_Point(x, y))")
    return pairs(rules.match(EVENTS))


def columns():
    shapes = shapely.from_wkt([SQUARE, TRIANGLE])
    return {
        "well-known text": pa.array([SQUARE, TRIANGLE]),
        "large text": pa.array([SQUARE, TRIANGLE], pa.large_string()),
        "dictionary": pa.array([SQUARE, TRIANGLE]).dictionary_encode(),
        "well-known bytes": pa.array(shapely.to_wkb(shapes)),
        "large bytes": pa.array(shapely.to_wkb(shapes), pa.large_binary()),
        "GeoJSON": pa.array(shapely.to_geojson(shapes)),
        "both texts": pa.array([SQUARE, shapely.to_geojson(shapes[1])]),
        "chunks": pa.chunked_array([[SQUARE], [TRIANGLE]]),
    }


@pytest.mark.parametrize("form", columns())
def test_forms(form):
    rules = xy(point=("x", "y"))
    rules.add_many(pa.table({"id": [0, 1], "shape": columns()[form], "team": ["a", "b"]}))
    assert pairs(rules.match(EVENTS)) == expected()
    assert rules[1].payload == {"team": "b"}


def test_rows_of_python_values():
    dicts = [json.loads(shapely.to_geojson(shapely.from_wkt(SQUARE))), shapely.from_wkt(TRIANGLE)]
    rules = xy()
    rules.add_many([{"id": n, "shape": shape} for n, shape in enumerate(dicts)])
    assert pairs(rules.match(EVENTS)) == expected()


def test_a_frame_of_geopandas():
    geopandas = pytest.importorskip("geopandas")
    frame = geopandas.GeoDataFrame({"id": [0, 1], "area": shapely.from_wkt([SQUARE, TRIANGLE])})
    rules = xy()
    rules.add_many(frame.set_geometry("area"))
    assert pairs(rules.match(EVENTS)) == expected()


@pytest.mark.parametrize("kinds", [("integer", "number"), ("decimal(9,3)", "integer")])
def test_other_kinds(kinds):
    rules = tocsin.Rules(dict(zip("yx", kinds, strict=True)))  # y comes first
    small = "POLYGON((0.2 0.2, 0.8 0.2, 0.2 0.8, 0.2 0.2))"
    with pytest.warns(tocsin.ConditionWarning) if kinds[1] == "integer" else _nothing():
        rules.add_many(pa.table({"id": [0, 1, 2], "shape": [SQUARE, TRIANGLE, small]}))
    assert pairs(rules.match(EVENTS)) == expected()


class _nothing:  # noqa: N801
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def test_weights_and_scores():
    rules = xy()
    weights = [{"x": 3.0}, None]
    maps = pa.array([list((w or {}).items()) for w in weights], pa.map_(pa.string(), pa.float64()))
    rules.add_many(pa.table({"id": [0, 1], "shape": [SQUARE, TRIANGLE], "weights": maps}))
    rules.add_many(pa.table({"id": [2], "shape": [TRIANGLE], "score": [9.0]}))
    for _ in range(2):
        found = rules.top({"x": 1, "y": 1}, k=3)
        assert [(r, s) for _, r, s in found] == [(2, 9.0), (0, 4.0), (1, 2.0)]
        rules.merge()
    wrong = pa.array([[("tier", 2.0)]], maps.type)
    with pytest.raises(tocsin.RuleError, match=r"row 0 \(rule 3\).*tier"):
        rules.add_many(pa.table({"id": [3], "shape": [SQUARE], "weights": wrong}))


def test_equal_shapes_are_stored_once():
    rules = xy()
    turned = "POLYGON((4 4, 0 4, 0 0, 4 0, 4 4))"
    rules.add_many(pa.table({"id": range(100), "shape": [SQUARE, turned] * 50}))
    rules.add_many(pa.table({"id": range(100, 200), "shape": [SQUARE, TRIANGLE] * 50}))
    rules.merge()
    assert rules.snapshot().segments[0].segment.residuals.shapes.size == 2
    assert rules.count({"x": 1, "y": 1}).tolist() == [200]


def test_a_column_beside_another_form_is_payload_unless_there_is_a_point():
    table = pa.table({"id": [0], "where": ["x > 3"], "shape": ["round"]})
    rules = xy()
    rules.add_many(table)
    assert rules[0].payload == {"shape": "round"}
    with pytest.raises(tocsin.RuleError, match=r"mixes two forms of rules: 'where' .* 'shape'"):
        xy(point=("x", "y")).add_many(table)


def test_which_attributes_are_the_point():
    for names in (("lon", "lat"), ("longitude", "LATITUDE"), ("x", "y")):
        rules = tocsin.Rules(dict.fromkeys([*names, "u", "v"], "number"))
        rules.add_many([{"id": "a", "shape": SQUARE}])
        assert matched(rules, dict.fromkeys(names, 1.0)) == ["a"]
    both = dict.fromkeys(["lon", "lat", "x", "y"], "number")
    for schema in (both, {"x": "number"}, {"x": "number", "y": "category"}):
        with pytest.raises(tocsin.RuleError, match="not known which attributes are the point"):
            tocsin.Rules(schema).add_many([{"id": "a", "shape": SQUARE}])
    rules = tocsin.Rules({"loc": "struct<lon: double, lat: double>"}, point=("loc.lon", "loc.lat"))
    rules.add_many([{"id": "a", "shape": SQUARE}])
    events = pa.table({"loc": [{"lon": 1.0, "lat": 1.0}, {"lon": 9.0, "lat": 1.0}]})
    assert pairs(rules.match(events)) == [(0, "a")]
    for wrong in (("x", "z"), ("x",), "xy", ("x", "x"), ("x", "tier"), ("x", 3), ("x", "y +")):
        with pytest.raises(tocsin.RuleError, match="point"):
            xy(point=wrong)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([SQUARE, None], r"row 1 \(rule 1\): the shape is null"),
        (
            [SQUARE, "POLYGON((0 0, 4 4, 0 4, 4 0, 0 0))"],
            r"row 1 \(rule 1\): .* not valid: Self-in",
        ),
        ([SQUARE, "{}"], r"row 1 \(rule 1\): this is not GeoJSON"),
        ([SQUARE, "POINT(1 2)"], r"row 1 \(rule 1\): .* got a Point"),
        ([b"", b"x"], r"row 0 \(rule 0\): this is not well-known bytes"),
        ([1, 2], "must be well-known text, well-known bytes or GeoJSON"),
    ],
)
def test_errors(column, message):
    rules = xy()
    with pytest.raises(tocsin.TocsinError, match=message):
        rules.add_many(pa.table({"id": [0, 1], "shape": column}))
    assert len(rules) == 0


def test_an_empty_table():
    rules = xy()
    rules.add_many(pa.table({"id": pa.array([], pa.int64()), "shape": pa.array([], pa.string())}))
    assert len(rules) == 0


def test_sync_and_export():
    rules = xy()
    table = pa.table({"id": [0, 1], "shape": [SQUARE, TRIANGLE]})
    rules.add_many(table)
    before = rules.snapshot().positions().tolist()
    rules.sync(rules.to_arrow())
    rules.sync(table)
    assert rules.snapshot().positions().tolist() == before
    rules.sync(pa.table({"id": [0, 1], "shape": [SQUARE, SQUARE]}))
    assert np.bincount(rules.match(EVENTS).rules.astype(int) % 3).sum() == 2 * sum(
        rule == 0 for _, rule in expected()
    )
