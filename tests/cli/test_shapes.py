"""GeoJSON files as rules on the command line."""

import json

import pytest

from tests.cli.commands import run, run_failing, run_ok

TRIANGLE = {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 4], [0, 0]]]}
SQUARES = {
    "type": "MultiPolygon",
    "coordinates": [
        [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]],
        [[[5, 5], [6, 5], [6, 6], [5, 6], [5, 5]]],
    ],
}


def write(path, *features, **content):
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features, **content}))
    return path


def feature(geometry, properties=None, **more):
    return {"type": "Feature", "geometry": geometry, "properties": properties, **more}


@pytest.fixture
def zones(tmp_path):
    return write(
        tmp_path / "zones.geojson",
        feature(TRIANGLE, {"name": "A", "n": 3}, id="a"),
        feature(SQUARES, {"id": "b", "name": None}),
        feature(TRIANGLE, id="c"),
    )


@pytest.fixture
def events(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("lon,lat\n0.2,0.2\n3,3\n5.5,5.5\n")
    return path


def test_match(zones, events, tmp_path):
    out = tmp_path / "out.csv"
    run_ok("match", "--rules", zones, "--events", events, "--out", out, "--payload", "name")
    assert sorted(out.read_text().splitlines()) == [
        "0.2,0.2,a,A", "0.2,0.2,b,", "0.2,0.2,c,", "5.5,5.5,b,", "lon,lat,rule,name",
    ]  # fmt: skip


def test_a_store(zones, events, tmp_path):
    store = tmp_path / "store"
    schema = ("--schema", "u=number,v=number")
    run_ok("rules", "create", store, *schema, "--rules", zones, "--point", "u, v")
    explained = run_ok("explain", "--rules", store, "b", "--event", '{"u": 5, "v": 3}')
    assert "the point is (5, 3), 2 outside" in explained
    assert "ST_Point(u, v)" in run_ok("rules", "show", store, "a")
    more = write(tmp_path / "more.geojson", feature(SQUARES, id="d"))
    run_ok("rules", "add", store, "--from", more)
    assert run_ok("rules", "diff", store, 1) == "1 added: d\n"
    assert "duplicate" in run("lint", store).stdout
    run_ok("rules", "add", store, "e", "NOT ST_DWithin(ST_Point(u, v), ST_Point(1, 2), 3)")
    assert run_ok("rules", "check", store) == "5 rules: 0 errors, 0 warnings\n"


def test_what_is_wrong_with_a_file(tmp_path):
    path = tmp_path / "zones.geojson"
    crossing = {"type": "Polygon", "coordinates": [[[0, 0], [4, 4], [0, 4], [4, 0], [0, 0]]]}
    schema = ("--schema", "lon=number,lat=number")
    for features, message in {
        (1,): "feature 1: it is not a GeoJSON feature",
        (json.dumps(feature(TRIANGLE)),): "feature 1: it has no id",
        (json.dumps(feature(TRIANGLE, id=1)), json.dumps(feature(None, id=2))): "the shape is null",
        (json.dumps(feature(TRIANGLE, id=1)), json.dumps(feature(crossing, id=2))):
            "feature 2 (rule 2): the Polygon is not valid: Self-intersection[2 2]",
        (json.dumps(feature({"type": "Point", "coordinates": [1, 2]}, id="p")),): "got a Point",
    }.items():  # fmt: skip
        write(path, *[json.loads(each) if isinstance(each, str) else each for each in features])
        assert message in run_failing("lint", path, *schema)
    write(path, feature(TRIANGLE, id=1))
    failed = run_failing("lint", path, "--schema", "a=number,b=number")
    assert "it is not known which attributes are the point" in failed
    path.write_text(json.dumps(TRIANGLE))
    assert "must be a GeoJSON FeatureCollection" in run_failing("lint", path, *schema)
    path.write_text("{")
    assert "not JSON" in run_failing("lint", path, *schema)
