"""Rules with shapes in stores: what is kept, and what is refused."""

import json

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.engine.untrusted import Changed
from tests.shapes.test_conditions import OPEN, SQUARE, pairs
from tocsin.engine import segment_files

EVENTS = pa.table({"x": [1.0, 3.5, 4.0, 9.0], "y": [1.0, 2.0, 4.0, 9.0], "speed": [9.0] * 4})


def fences():
    rules = tocsin.Rules({"x": "number", "y": "number", "speed": "number"})
    rules.add("square", SQUARE)
    rules.add("fast", f"NOT {OPEN} AND speed > 3")
    rules.add("disc", "ST_DWithin(ST_Point(x, y), ST_Point(1, 1), 1)")
    rules.merge()
    rules.add("plain", "x > 3")
    return rules


def formats(path):
    manifests = path.glob("segments/*/manifest.json")
    return sorted(json.loads(each.read_text())["format"] for each in manifests)


def test_only_segments_with_shapes_have_the_new_format(tmp_path, monkeypatch):
    fences().save(tmp_path)
    assert formats(tmp_path) == [segment_files.FORMAT, segment_files.FORMAT_WITH_SHAPES] == [7, 10]
    monkeypatch.setattr(segment_files, "FORMAT_WITH_SHAPES", 9)
    with pytest.raises(tocsin.StoreError, match=r"is of format 10, .* upgrade"):
        tocsin.open(tmp_path)


def test_changes_of_a_store(tmp_path):
    fences().save(tmp_path)
    store = tocsin.RuleStore(tmp_path)
    before = pairs(store.rules().match(EVENTS))
    store.add("again", SQUARE)
    store.replace("disc", payload={"team": "a"})
    rules = store.rules()
    assert pairs(rules.match(EVENTS)) == sorted(
        before + [(e, "again") for e, r in before if r == "square"]
    )
    store.replace("square", SQUARE.replace("4 4, 0 4", "4 4"))
    assert "square: ST_Covers(ST_GeomFromText('POLYGON((0 0" in str(store.diff(3))
    store.merge()
    store.remove_many(["square", "fast", "disc", "again"])
    store.merge()
    assert formats(tmp_path)[0] == 7
    assert store.rules().snapshot().segments[0].segment.residuals is None


def test_a_store_keeps_its_point(tmp_path):
    store = tocsin.RuleStore.create(
        tmp_path / "store", {"u": "number", "v": "number"}, point=("u", "v")
    )
    store.add_many([{"id": "a", "shape": "POLYGON((0 0, 4 0, 0 4, 0 0))"}])
    assert pairs(store.rules().copy().match({"u": 1, "v": 1})) == [(0, "a")]
    store.rules().merge()
    assert store.rules()["a"].where.endswith("ST_Point(u, v))")


WRONG = {
    "rule": (2, 77, "a residual is of no conjunction"),
    "conjunction": (0, 1, "a residual is of no conjunction"),
    "x": (0, 2, "must exclude points without coordinates"),
    "y": (0, 99, "'y' must be at least 0 and less than 3"),
    "x_scale": (0, 30, "'scale' must be"),
    "y_scale": (0, 0, "'y' is a number, which is not what shapes were built for"),
    "shape": (0, 3, "'shape' must be at least 0 and less than 3"),
    "negated": (0, 2, "'negated' must be"),
    "shapes.kinds": (0, 7, "'kinds' must be at most"),
    "shapes.rings": (1, 9, "'rings' must be"),
    "shapes.starts": (1, 900, "'starts' must be"),
    "shapes.points": (0, np.nan, "'points' must be finite"),
}


@pytest.mark.parametrize("name", WRONG)
def test_stores_that_someone_has_changed_are_refused(tmp_path, name):
    fences().save(tmp_path / "store")
    for number in range(2):
        changed = Changed(tmp_path / "store", tmp_path / "changed", number)
        if f"residuals.{name}" in changed.manifest["arrays"]:
            break
    place, value, message = WRONG[name]
    with changed.arrays() as arrays:
        arrays(f"residuals.{name}")[place] = value
    changed.describe_files()
    changed.seal()
    with pytest.raises(tocsin.StoreError, match=message):
        tocsin.open(changed.path)


def test_a_store_without_an_array_is_refused(tmp_path):
    fences().save(tmp_path / "store")
    changed = Changed(tmp_path / "store", tmp_path / "changed")
    del changed.manifest["arrays"]["residuals.shapes.points"]
    changed.seal()
    with pytest.raises(tocsin.StoreError, match=r"array 'shapes.points' is missing"):
        tocsin.open(changed.path)
