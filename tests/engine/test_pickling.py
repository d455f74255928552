"""Rules, versions and stores can be sent to other processes."""

import copy
import os
import pickle
import subprocess
import sys
import tempfile

import pytest

import tocsin
from tests.engine import test_plan

SCHEMA = {"x": "number", "name": "category", "loc": "struct<lat: double>"}
EVENTS = [{"x": 6.0, "name": "Kim", "loc": {"lat": 41.0}}, {"x": {"low": 1, "high": 3}}]


@pytest.fixture
def rules():
    rules = tocsin.Rules(SCHEMA)
    rows = [("a", "x > 5"), ("b", "lower(name) = 'kim' AND loc.lat > 40"), ("c", "x < 9")]
    rules.add_many([{"id": id_, "where": where} for id_, where in rows])
    rules.replace("c", "x < 8", {"x": 2.0}, {"team": "red"}, at_least=0.5)
    rules.add("gone", "x > 0")
    rules.remove("gone")
    return rules


def check_same(found, expected, events):
    assert list(found) == list(expected)
    assert [found[i] for i in found] == [expected[i] for i in expected]
    assert found.schema == expected.schema
    assert list(found.match(events)) == list(expected.match(events))
    assert found.top(events).scores.tolist() == expected.top(events).scores.tolist()
    assert [p.index for p in found.plan().parts][:1] == [p.index for p in expected.plan().parts][:1]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_rules_and_versions(rules, protocol, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for original in (rules, rules.snapshot()):
        found = pickle.loads(pickle.dumps(original, protocol))
        assert type(found) is type(original)
        check_same(found, original, EVENTS)
    assert os.listdir(tmp_path) == []
    found = pickle.loads(pickle.dumps(rules, protocol))
    found.add("d", "upper(name) = 'KIM'")
    found.remove("a")
    assert list(found.match(EVENTS[0]).ids().to_pylist()) == ["b", "c", "d"]
    assert list(rules) == ["a", "b", "c"]


def test_rules_that_are_empty_or_have_many_parts(rules):
    empty = pickle.loads(pickle.dumps(tocsin.Rules(SCHEMA, "ntree", {"fan_out": 4})))
    assert (len(empty), empty.version) == (0, None)
    empty.add("a", "x > 1")
    assert len(empty.match({"x": 2})) == 1
    many = test_plan.of_several_shapes(1000)
    assert len(many.plan().parts) > 1
    check_same(pickle.loads(pickle.dumps(many)), many, test_plan.shaped_events(30))


def test_a_copy_of_rules_is_independent(rules):
    for found in (copy.copy(rules), copy.deepcopy(rules)):
        found.remove("a")
    assert "a" in rules


def test_another_process(rules, tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    (tmp_path / "pickle").write_bytes(pickle.dumps((rules, rules.snapshot(), store)))
    code = (
        "import pickle, sys\n"
        "rules, version, store = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print([len(each.match({'x': 6.0})) for each in (rules, version)], store.add('a', 'x > 1'))"
    )
    command = [sys.executable, "-c", code, tmp_path / "pickle"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == "[2, 2] 2\n"
    assert list(store.rules()) == ["a"]


def test_a_store_is_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tocsin.RuleStore.create("store", SCHEMA)
    data = pickle.dumps(tocsin.RuleStore("store"))
    assert len(data) < 200
    monkeypatch.chdir("/")
    assert pickle.loads(data).path == tmp_path / "store"


# ------------------------------------------------------------ rules of a store


@pytest.fixture
def path(rules, tmp_path):
    rules.save(tmp_path / "store")
    return tmp_path / "store"


def test_rules_know_the_version_that_they_come_from(path):
    mine, yours = pickle.loads(pickle.dumps([tocsin.open(path), tocsin.open(path)]))
    assert mine.version == 1
    assert mine.save(path) == 1, "nothing has changed"
    yours.add("yours", "x > 1")
    assert yours.save(path) == 2
    mine.add("mine", "x > 1")
    with pytest.raises(tocsin.StoreConflictError, match=r"is now at version 2, .* at version 1"):
        pickle.loads(pickle.dumps(mine)).save(path)


def test_what_is_stored_is_not_written_again(path):
    before = {*path.glob("segments/*"), *path.glob("parts/*")}
    opened = tocsin.open(path)
    opened.add("d", "x > 3 AND name = 'Lee'")
    opened.remove("a")
    found = pickle.loads(pickle.dumps(opened))
    assert found.save(path) == 2
    check_same(tocsin.open(path), opened, EVENTS)
    new = {*path.glob("segments/*"), *path.glob("parts/*")} - before
    assert sorted(file.parent.name for file in new) == ["parts", "parts", "segments"]
