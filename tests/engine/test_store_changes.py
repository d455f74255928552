"""What counts as a change of a store, and what its versions say about it."""

import json

import pyarrow as pa
import pytest

import tocsin
from tests.engine.test_store import reseal

SCHEMA = {"x": "number", "tier": "category"}


@pytest.fixture
def store(tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", SCHEMA)
    rows = [
        {"id": "a", "where": "x > 1", "weights": None, "team": None, "at_least": None},
        {"id": "b", "where": "x > 2", "weights": {"x": 2.0}, "team": "red", "at_least": 0.5},
        {"id": "c", "where": "x > 3 AND tier = 'k'", "weights": None, "team": "red"},
    ]
    types = [
        *[("id", pa.string()), ("where", pa.string())],
        *[("weights", pa.map_(pa.string(), pa.float64())), ("team", pa.string())],
        ("at_least", pa.float64()),
    ]
    store.add_many(pa.Table.from_pylist(rows, pa.schema(types)))
    return store


SAME = {
    "nothing": lambda rules: None,
    "condition": lambda rules: rules.replace("a", "x > 1"),
    "all of a rule": lambda rules: rules.replace("b", "x > 2", {"x": 2}, {"team": "red"}, 0.5),
    "defaults": lambda rules: rules.replace("a", "x > 1", {"x": 1.0}, {"team": None}, 0),
    "merge": tocsin.Rules.merge,
}
OTHER = {
    "condition": lambda rules: rules.replace("a", "x >= 1"),
    "order of tests": lambda rules: rules.replace("c", "tier = 'k' AND x > 3"),
    "weights": lambda rules: rules.replace("a", "x > 1", {"x": 2.0}),
    "no weights": lambda rules: rules.replace("b", "x > 2", {}),
    "payload": lambda rules: rules.replace("a", "x > 1", payload={"team": "blue"}),
    "another payload": lambda rules: rules.replace("a", "x > 1", payload={"rank": 1}),
    "no payload": lambda rules: rules.replace("b", "x > 2", payload={}),
    "threshold": lambda rules: rules.replace("a", "x > 1", at_least=0.5),
    "no threshold": lambda rules: rules.replace("b", "x > 2", at_least=0),
    "a rule": lambda rules: rules.add("d", "x > 4"),
    "one rule less": lambda rules: rules.remove("c"),
    "an attribute": lambda rules: rules.schema.add("y", "number"),
}


@pytest.mark.parametrize("removed", [False, True], ids=["", "after a removal"])
@pytest.mark.parametrize("change", SAME)
def test_no_change_publishes_nothing(store, change, removed):
    if removed and change != "merge":
        store.add("d", "x > 5")
        store.remove("d")
    number, files = store.version, sorted(store.path.rglob("*"))
    with store.change() as rules:
        SAME[change](rules)
    assert store.publish(SAME[change]) == number
    assert tocsin.open(store.path).save(store.path) == number
    assert store.version == number
    assert sorted(store.path.rglob("*")) == files
    assert list(store.rules()) == ["a", "b", "c"]


@pytest.mark.parametrize("change", OTHER)
def test_each_change_publishes_a_version(store, change):
    assert store.publish(OTHER[change]) == 3
    rules = store.rules(2)
    OTHER[change](rules)
    assert {id_: store.rules()[id_] for id_ in store.rules()} == {id_: rules[id_] for id_ in rules}
    assert store.rules().schema == rules.schema


def test_a_rule_that_was_not_sealed_yet_is_replaced_by_the_same():
    rules = tocsin.Rules(SCHEMA)
    rules.add("a", "x > 1", {"x": 1.0}, {"team": None, "rank": 1})
    rules.add("b", "x > 1")
    rules.replace("a", "x > 1")
    assert list(rules) == ["a", "b"]
    rules.replace("a", "x > 1", {"x": 3.0})
    assert list(rules) == ["b", "a"]


def test_an_unchanged_writer_is_told_of_others(store):
    mine = tocsin.open(store.path)
    store.add("d", "x > 4")
    with pytest.raises(tocsin.StoreConflictError):
        mine.save(store.path)


# ------------------------------------------------------------ author and message


def test_author_and_message(store):
    store.publish(lambda rules: rules.remove("a"), author="Ada", message="sold out")
    with store.change(author="Grace", message="two\nlines") as rules:
        rules.add("d", "x > 4")
    rules = tocsin.open(store.path)
    rules.add("e", "x > 5")
    rules.save(store.path, message="only a message")
    assert [(v.number, v.author, v.message) for v in store.versions()][2:] == [
        (3, "Ada", "sold out"),
        (4, "Grace", "two\nlines"),
        (5, None, "only a message"),
    ]
    assert str(store.diff(2)).splitlines() == [
        *["version 3 by Ada: sold out", "version 4 by Grace: two", "lines"],
        *["version 5: only a message", "2 added: d, e", "1 removed: a"],
    ]
    assert [v.number for v in store.diff(3, 4).versions] == [4]
    assert str(store.diff(4, 4)) == "no difference"


def test_they_must_be_texts(store):
    for given in ({"author": 5}, {"message": b"why"}, {"message": "\ud800"}):
        with pytest.raises(tocsin.StoreError, match=f"{next(iter(given))} must be a text"):
            store.publish(lambda rules: rules.remove("a"), **given)
    path = store.path / "versions" / "00000002.json"
    reseal(path, lambda content: content.update(author=5))
    with pytest.raises(tocsin.StoreError, match="'author' and 'message' must be texts"):
        tocsin.open(store.path)


def test_a_version_that_has_none(store):
    """As earlier releases wrote them."""
    path = store.path / "versions" / "00000002.json"

    def remove(content):
        for name in ("author", "message", "history"):
            del content[name]

    reseal(path, remove)
    assert [(v.author, v.message) for v in store.versions()] == [(None, None)] * 2
    assert store.remove("a") == 3
    assert json.loads(path.read_bytes()[:-66]).keys().isdisjoint({"author", "history"})


# ------------------------------------------------------------ differences


def test_a_difference_shows_rules_before_and_after(store):
    store.replace("b", "x > 2", {"x": 3.0}, {"team": "blue"}, 0.7)
    store.replace("a", "x > 1 OR tier = 'm'")
    with store.change() as rules:
        rules.remove("c")
        rules.add("c", "x > 3 AND tier = 'k'", payload={"team": "red"})
    diff = store.diff(2)
    assert (diff.added, diff.removed, diff.changed) == ([], [], ["b", "a", "c"])
    assert str(diff).splitlines() == [
        "3 changed: b, a, c",
        '  b weights: {"x": 2.0} -> {"x": 3.0}',
        '  b payload: {"team": "red"} -> {"team": "blue"}',
        "  b at_least: 0.5 -> 0.7",
        "  a: x > 1 -> x > 1 OR tier = 'm'",
        "  c: removed and added again",
    ]
    assert (diff.before["a"].where, diff.after["a"].where) == ("x > 1", "x > 1 OR tier = 'm'")
    assert str(store.diff(5, 2)).splitlines()[1] == "  a: x > 1 OR tier = 'm' -> x > 1"


def test_a_difference_shows_only_so_much(store):
    conditions = " OR ".join(f"tier = '{i}'" for i in range(200))
    with store.change() as rules:
        for i in range(12):
            rules.add(f"new {i}", "x > 5")
    with store.change() as rules:
        for i in range(12):
            rules.replace(f"new {i}", conditions)
    lines = str(store.diff(3)).splitlines()
    assert lines[0].endswith("new 9, ...")
    assert len(lines) == 11
    assert len(lines[1]) < 300
