"""Stores that earlier Tocsins wrote: every format that was ever written can be read and changed.

`stores/format-<n>` were written by the last commit of each format, with the index whose arrays the
next format changed; all hold the same rules.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import tocsin
from tests.engine.test_store import used_files
from tocsin.engine.segment_files import FORMAT
from tocsin.index.registry import INDEXES

STORES = sorted((Path(__file__).parent / "stores").iterdir())
NAMES = {1: "exhaustive", 2: "grid", 3: "counting", 4: "bestar", 5: "keyed", 6: "keyed"}

EVENTS = [
    {"x": 3.0, "n": 3, "c": "gold"},
    {"x": 6.0, "n": 2, "c": "black"},
    {"x": 8.25, "n": 1},
    {"x": None, "n": None, "c": "silver"},
]
FIRST = [
    *[(0, "box-2"), (0, "box-3"), (0, "either")],
    *[(1, "box-5"), (1, "box-6"), (1, "gold"), (1, "either")],
    *[(2, "box-8")],
    *[(3, "either")],
]
SECOND = [
    *[(0, "box-2")],
    *[(1, "box-5"), (1, "box-6"), (1, "gold"), (1, "either")],
    *[(2, "box-8"), (2, "either")],
]


@pytest.fixture(params=STORES, ids=lambda path: path.name)
def old(request, tmp_path):
    path = tmp_path / "store"
    shutil.copytree(request.param, path)
    return path, int(request.param.name.rpartition("-")[2])


def test_there_is_one_of_each_format():
    assert [path.name for path in STORES] == [f"format-{n}" for n in range(1, FORMAT)]


@pytest.mark.parametrize("verify", [True, False])
def test_it_opens(old, verify):
    path, number = old
    first = tocsin.Rules.open(path, 1, verify=verify)
    assert list(first.match(EVENTS).sorted()) == FIRST
    assert first.plan().parts[0].index == NAMES[number]
    assert first.plan().parts[0].why == ("it was chosen" if number == 1 else "it was asked for")
    rules = tocsin.Rules.open(path, verify=verify)
    assert list(rules.match(EVENTS).sorted()) == SECOND
    assert rules.count(EVENTS).tolist() == [1, 4, 2, 0]
    assert rules["gold"].weights == {"c": 0.6, "x": 0.4}
    assert rules["late"].payload == {"team": "night"}
    assert rules.explain(EVENTS[1], "gold").matched
    assert len(rules) == 15


def test_it_can_be_changed_and_is_then_of_the_current_format(old):
    path, _ = old
    store = tocsin.RuleStore(path)
    assert store.remove("box-2") == 3
    assert store.merge() == 4
    assert list(store.rules().match(EVENTS).sorted()) == SECOND[1:]
    assert list(store.rules(1).match(EVENTS).sorted()) == FIRST
    manifests = [f for f in used_files(store) if f.name == "manifest.json"]
    assert {json.loads(f.read_bytes())["format"] for f in manifests} == {FORMAT}


def test_damage_is_still_refused(old):
    path, _ = old
    store = tocsin.RuleStore(path)
    for file in used_files(store):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(tocsin.StoreError):
            tocsin.open(path)
        file.write_bytes(whole)
    assert list(tocsin.open(path).match(EVENTS).sorted()) == SECOND


# ------------------------------------------------------------ indexes of another version


@pytest.fixture
def events():
    rng = np.random.default_rng(5)
    return [{"x": float(rng.uniform(0, 50)), "n": int(rng.integers(5))} for _ in range(50)]


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_of_another_version_is_built_again(tmp_path, monkeypatch, name, events):
    rules = tocsin.Rules({"x": "number", "n": "integer"}, index=name)
    for i in range(60):
        rules.add(i, f"x BETWEEN {i} AND {i + 5} AND n <> {i % 4}")
    rules.merge()
    expected = list(rules.match(events).sorted())
    monkeypatch.setattr(INDEXES[name], "version", 99)
    rules.save(tmp_path / "store")
    monkeypatch.undo()
    monkeypatch.setattr(INDEXES[name], "from_arrays", None)  # not to be called
    for verify in (True, False):
        opened = tocsin.Rules.open(tmp_path / "store", verify=verify)
        assert list(opened.match(events).sorted()) == expected
        assert opened.plan().parts[0].index == name


def test_an_index_that_is_no_more_has_others_in_its_place(tmp_path, monkeypatch, events):
    rules = tocsin.Rules({"x": "number", "n": "integer"}, index="counting")
    for i in range(60):
        rules.add(i, f"x BETWEEN {i} AND {i + 5} AND n <> {i % 4}")
    rules.merge()
    expected = list(rules.match(events).sorted())
    monkeypatch.setattr(INDEXES["counting"], "name", "abacus")
    rules.save(tmp_path / "store")
    monkeypatch.undo()
    opened = tocsin.open(tmp_path / "store")
    assert list(opened.match(events).sorted()) == expected
    assert opened.plan().parts[0].index != "counting"
