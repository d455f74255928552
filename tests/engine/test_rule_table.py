"""Rules as a table, rules made equal to a table, and older versions published again."""

import warnings

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin

SCHEMA = {"x": "number", "n": "integer", "tier": "category", "t": "time"}


def all_kinds():
    rules = tocsin.Rules(SCHEMA, point=("x", "n"))
    rules.add("plain", "x > 1 AND tier = 'it''s'")
    rules.add("weights", "x > 1 OR n + 1 = 3", weights={"x": 0.5})
    rules.add("score", "x > 1", score=4.9)
    rules.add("payload", "x > 1", payload={"team": "red", "limits": [1, 2]})
    rules.add("likely", "x > 1", at_least=0.25)
    boxes = [
        {
            "id": "box",
            "x_low": 0.1,
            "x_high": 1e300,
            "n_low": None,
            "n_high": -(2**63),
        },
        {"id": "open", "x_low": None, "x_high": None, "n_low": None, "n_high": None},
    ]
    rules.add_many(boxes)
    rules.add_many([{"id": "shape", "shape": "POLYGON((0 0, 0.1 3, 4.7 1, 0 0))"}])
    rules.add("gone", "x > 1")
    rules.snapshot()
    rules.remove("gone")
    rules.add("late", "t > '2024-01-01' AND x <> 7")
    return rules


def place_of(rules, id_):
    segment, place = rules.snapshot().locate(id_)
    return int(segment.positions[place])


def same(rules, others):
    return [rules[id_] for id_ in rules] == [others[id_] for id_ in others]


def test_a_table_has_all_that_a_rule_is():
    rules = all_kinds()
    table = rules.to_arrow()
    assert table.column_names == [
        "id", "where", "weights", "score", "at_least", "team", "limits",
    ]  # fmt: skip
    again = tocsin.Rules(SCHEMA, point=("x", "n"))
    again.add_many(table)
    assert same(again, rules)
    assert again.to_arrow().equals(table)
    events = [{"x": x, "n": n} for x in (0.1, 1.0, 2.0, None) for n in (-(2**63), 1, 2, None)]
    assert sorted(again.match(events)) == sorted(rules.match(events))


def test_columns_that_no_rule_needs_are_left_out():
    rules = tocsin.Rules({"x": "number"})
    assert rules.to_arrow().column_names == ["id", "where"]
    rules.add(7, "x > 1")
    assert rules.to_arrow().to_pylist() == [{"id": 7, "where": "x > 1"}]
    rules.merge()
    assert rules.to_arrow().to_pylist() == [{"id": 7, "where": "x > 1"}]


def test_sync_changes_only_what_differs():
    rules = all_kinds()
    before = rules.snapshot()
    rules.sync(rules.to_arrow())
    assert rules.snapshot().positions().tolist() == before.positions().tolist()
    rows = rules.to_arrow().to_pylist(maps_as_pydicts="strict")
    wanted = [row for row in rows if row["id"] not in ("box", "late")]
    wanted[0]["where"] = "x > 2"
    wanted[2]["score"] = 5.0
    wanted[3]["team"] = "blue"
    wanted.append({"id": "new", "where": "x = 1"})
    rules.sync(wanted)
    kept = ["weights", "likely", "open", "shape"]
    assert list(rules) == [*kept, "plain", "score", "payload", "new"]
    assert (rules["plain"].where, rules["score"].score) == ("x > 2", 5.0)
    assert rules["payload"].payload == {"team": "blue", "limits": [1, 2]}
    assert set(kept) < set(before)


def test_sync_with_nothing_and_from_nothing():
    rules = all_kinds()
    table = rules.to_arrow()
    rules.sync(table.slice(0, 0))
    assert len(rules) == 0
    rules.sync(table)
    assert rules.to_arrow().equals(table)
    rules.sync(pa.table({"id": ["a"], "x_low": [1.0], "x_high": [2.0]}))
    assert [(r, rules[r].where) for r in rules] == [("a", "x BETWEEN 1 AND 2")]


def test_a_table_that_is_wrong_changes_nothing():
    rules = all_kinds()
    before = rules.to_arrow()
    for wrong, message in (
        ([{"id": "a", "where": "y > 1"}], "y"),
        ([{"id": "a", "where": "x > 1"}, {"id": "a", "where": "x > 2"}], "a"),
        ([{"id": "payload", "where": "x > 1", "team": 5}], "team"),
        ([{"id": 5, "where": "x > 1"}], "ids"),
    ):
        with pytest.raises(tocsin.TocsinError, match=message):
            rules.sync(wrong)
        assert rules.to_arrow().equals(before)


def test_a_condition_that_never_holds_is_reported_once():
    rules = tocsin.Rules({"x": "number"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rules.sync([{"id": "a", "where": "x > 1 AND x < 0"}])
    assert [w.category for w in caught] == [tocsin.ConditionWarning]


TEXT, NUMBER = pa.string(), pa.float64()
RULE = st.fixed_dictionaries(
    {
        "where": st.sampled_from(["x > 1", "x > 2", "x > 1 OR x < 0"]),
        "score": st.sampled_from([None, 1.0]),
        "team": st.sampled_from([None, "red", "blue"]),
        "limit": st.sampled_from([None, 0.5, float("nan")]),
    }
)
TABLES = st.dictionaries(st.sampled_from("abcdef"), RULE, max_size=6)


@given(st.lists(TABLES, max_size=4))
def test_any_tables_one_after_another(tables):
    rules = tocsin.Rules({"x": "number"})
    schema = pa.schema({"id": TEXT, "where": TEXT, "score": NUMBER, "team": TEXT, "limit": NUMBER})
    before = {}
    for wanted in tables:
        rows = [{"id": id_} | rule for id_, rule in wanted.items()]
        places = {id_: place_of(rules, id_) for id_ in rules}
        rules.sync(pa.Table.from_pylist(rows, schema))
        found = {row["id"]: row for row in rules.to_arrow().to_pylist()}
        assert found.keys() == wanted.keys()
        for id_, rule in wanted.items():
            for name, value in rule.items():
                own = found[id_].get(name)
                assert own == value or (own != own and value != value)
            if repr(before.get(id_)) == repr(rule):
                assert place_of(rules, id_) == places[id_], "it was equal, and moved"
        before = wanted


# ------------------------------------------------------------ stores


def test_a_store_is_synced_and_rolled_back(tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", {"x": "number"})
    assert store.sync([{"id": i, "where": f"x > {i}"} for i in range(3)], "Ada", "first") == 2
    assert store.sync([{"id": i, "where": f"x > {i}"} for i in range(3)]) == 2
    assert store.sync([{"id": 1, "where": "x > 1"}, {"id": 2, "where": "x > 7"}]) == 3
    diff = store.diff(2)
    assert (diff.added, diff.removed, diff.changed) == ([], [0], [2])
    assert store.rollback(2) == 4
    assert store.rollback(4) == 4
    assert list(store.rules()) == [0, 1, 2]
    assert store.rules()[2].where == "x > 2"
    assert str(store.diff(2)).splitlines()[-1] == "no difference"
    diff = store.diff(3)
    assert (diff.added, diff.removed, diff.changed) == ([0], [], [2])
    assert store.versions()[-1].message == "back to version 2"
    store.add(9, "x > 9")
    assert store.diff(3).added == [0, 9]
    with pytest.raises(tocsin.StoreError, match="has no version 77"):
        store.rollback(77)


def test_a_version_that_was_rolled_back_to_outlives_its_pruning(tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", {"x": "number"})
    for i in range(5):
        store.add(i, f"x > {i}")
    store.rollback(3, author="Ada", message="too many")
    store.prune(1)
    assert list(tocsin.open(tmp_path / "store")) == [0, 1]
    assert (store.versions()[0].author, store.versions()[0].message) == ("Ada", "too many")


def test_a_rollback_is_repeated_if_others_are_faster(tmp_path, monkeypatch):
    store = tocsin.RuleStore.create(tmp_path / "store", {"x": "number"})
    store.add("a", "x > 1")
    other = tocsin.RuleStore(tmp_path / "store")
    read_latest = type(store._folder.versions).read_latest
    late = iter([True])

    def read_early(self):
        found = read_latest(self)
        if next(late, False):
            other.add("b", "x > 2")
        return found

    monkeypatch.setattr(type(store._folder.versions), "read_latest", read_early)
    assert store.rollback(1) == 4
    assert list(store.rules()) == []
