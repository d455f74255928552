"""Rules that test terms: how they are shared, undone, merged, stored and computed."""

import datetime
import threading

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tocsin.errors import ConditionError, EventError, RuleError
from tocsin.model import attributes as attributes_module

SCHEMA = {
    "n": "integer",
    "x": "number",
    "name": "category",
    "lit": "flag",
    "ts": "time",
    "loc": "struct<lat: number, label: category>",
    "tags": "map<string, category>",
}
NOON = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
EVENTS = [
    {"n": 7, "x": 30.0, "name": "ABCDE", "lit": True, "ts": NOON, "tags": {"a": "1"}},
    {"n": -7, "x": 1.0, "name": "abc", "lit": False, "loc": {"lat": 40.5, "label": "ny"}},
    {"n": None, "x": float("nan"), "name": None, "lit": None, "ts": None},
    {},
]
CONDITIONS = {
    "hour": "hour(ts) = 12",
    "speed": "x * 3.6 > 100",
    "lower": "lower(name) IN ('abc', 'abcde')",
    "prefix": "name LIKE 'ABC%'",
    "suffix": "name LIKE '%bc'",
    "not prefix": "name NOT LIKE 'ABC%'",
    "inside": "name LIKE '%BC%'",
    "columns": "n > x",
    "not columns": "NOT n > x",
    "struct": "loc.lat BETWEEN 40 AND 41 AND loc.label = 'ny'",
    "map": "tags['a'] = '1'",
    "flag": "coalesce(lit, TRUE)",
    "null": "hour(ts) IS NULL",
    "mixed": "n % 4 = 3 AND x > 5",
    "constant": "x > 100 / 3.6",
}
EXPECTED = [
    {"hour", "speed", "lower", "prefix", "inside", "not columns", "map", "flag", "mixed",
     "constant"},
    {"lower", "suffix", "not prefix", "not columns", "struct", "null"},
    {"speed", "flag", "null", "constant"},
    {"flag", "null"},
]  # fmt: skip


def to_table(events):
    types = [
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("name", pa.dictionary(pa.int8(), pa.string())),
        ("lit", pa.bool_()),
        ("ts", pa.timestamp("ms", "UTC")),
        ("loc", pa.struct([("lat", pa.float64()), ("label", pa.string())])),
        ("tags", pa.map_(pa.string(), pa.string())),
    ]
    columns = {}
    for name, type_ in types:
        values = [event.get(name) for event in events]
        if name == "tags":
            values = [None if v is None else list(v.items()) for v in values]
        columns[name] = pa.array(values, type_)
    return pa.table(columns)


def make_rules(conditions=CONDITIONS, schema=SCHEMA, **kwargs):
    rules = tocsin.Rules(schema, **kwargs)
    for id_, where in conditions.items():
        rules.add(id_, where)
    return rules


def matched(rules, events):
    matches = rules.match(events)
    found = [set() for _ in range(len(matches.offsets) - 1)]
    for event, id_ in zip(matches.events.tolist(), matches.ids().to_pylist(), strict=True):
        found[event].add(id_)
    return found


def terms_of(rules):
    return {term.sql for term in rules.snapshot().attributes.terms.values()}


@pytest.mark.parametrize("form", ["dicts", "table", "chunks", "slice"])
def test_every_form_of_events(form):
    events = EVENTS
    if form != "dicts":
        events = to_table(EVENTS)
    if form == "chunks":
        events = pa.concat_tables([events.slice(0, 1), events.slice(1, 0), events.slice(1)])
    if form == "slice":
        events = pa.concat_tables([events, events, events]).combine_chunks().slice(3, 4)
        assert matched(make_rules(), events) == [EXPECTED[i] for i in (3, 0, 1, 2)]
        return
    assert matched(make_rules(), events) == EXPECTED


@pytest.mark.parametrize("event", range(len(EVENTS)))
def test_one_event(event):
    assert matched(make_rules(), EVENTS[event]) == [EXPECTED[event]]


def test_many_attributes_in_dicts():
    schema = SCHEMA | {f"a{i}": "integer" for i in range(20)}
    rules = make_rules(CONDITIONS | {f"a{i}": f"a{i} = {i}" for i in range(20)}, schema)
    events = [event | {"a3": 3} for event in EVENTS]
    assert matched(rules, events) == [each | {"a3"} for each in EXPECTED]


def test_sparse_attributes_in_maps():
    rules = tocsin.Rules({"x": "number", "y": "number", "z": "number"})
    rules.add("sum", "x + y > 5")
    rules.add("z", "z > 1")
    column = pa.array(
        [
            [("X", 2.0), ("y", 4.0), ("z", 2.0)],
            [("x", 9.0)],
            None,
            [("x", 1.0), ("x", 3.0), ("y", 3.0)],
        ],
        pa.map_(pa.string(), pa.float64()),
    )
    assert matched(rules, pa.table({"values": column})) == [{"sum", "z"}, set(), set(), {"sum"}]
    with_column = pa.table({"values": column, "y": [4.0, 0.0, 9.0, 0.0]})
    assert matched(rules, with_column) == [{"sum", "z"}, {"sum"}, set(), set()]


def test_threads_give_the_same():
    rules, table = make_rules(), pa.concat_tables([to_table(EVENTS)] * 2_000)
    one, two = rules.match(table, threads=1), rules.match(table, threads=2)
    assert np.array_equal(one.offsets, two.offsets)
    assert one.ids() == two.ids()
    assert np.array_equal(rules.count(table, threads=2), np.diff(one.offsets))


def test_a_range_cannot_be_computed_with():
    rules = make_rules({"a": "x * 2 > 5", "b": "n > 3"})
    with pytest.raises(EventError, match=r"event 1.*'x' is a range.*not defined for ranges"):
        rules.match([{"x": 1.0}, {"x": {"low": 1, "high": 2}}])
    ranges = pa.array([{"low": 1.0, "high": 2.0}])
    with pytest.raises(EventError, match=r"'x' is a range.*x \* 2"):
        rules.match(pa.table({"x": ranges, "n": [1]}))
    # Other attributes may have ranges.
    assert matched(rules, {"x": 9.0, "n": {"low": 1, "high": 9}}) == [{"a", "b"}]


def test_wrong_columns():
    rules = make_rules({"a": "x * 2 > 5"})
    with pytest.raises(EventError, match="no column 'x', which a rule tests"):
        rules.match(pa.table({"y": [1.0]}))
    with pytest.raises(EventError, match="attribute 'x' is a number, but"):
        rules.match(pa.table({"x": ["1"]}))
    with pytest.raises(EventError, match="event 0: attribute 'x' is a number, but"):
        rules.match({"x": "1"})


# ------------------------------------------------------------ identity


def test_terms_are_shared():
    rules = tocsin.Rules(SCHEMA)
    for i, where in enumerate(["HOUR(ts) > 3", "hour(TS) > 4", "hour( `ts` ) IN (1, 2)"]):
        rules.add(i, where)
    assert terms_of(rules) == {"hour(ts)"}
    rules.add(3, "tags['a'] = 'x' OR tags['A'] = 'x'")
    assert terms_of(rules) == {"hour(ts)", "tags['a']", "tags['A']"}
    rules.add(4, "n * 2 > 1 OR n * 2.0 > 1")
    assert len(terms_of(rules)) == 5


def test_prefixes_of_one_length_share_a_term():
    rules = tocsin.Rules(SCHEMA)
    rules.add_many([{"id": i, "where": f"name LIKE '{i:03}%'"} for i in range(500)])
    assert terms_of(rules) == {"left(name, 3)"}
    assert rules.match({"name": "0421"}).ids().to_pylist() == [42]


def test_plain_columns_are_not_terms():
    rules = make_rules({"a": "(x) > 5", "b": "name LIKE 'abc'", "c": "(lit)"})
    assert terms_of(rules) == set()
    assert rules.tested() == ["x", "name", "lit"]


def test_tested_are_the_columns():
    rules = make_rules({"a": "x + n > 5 AND hour(ts) = 3", "b": "loc.lat > 1"})
    assert set(rules.tested()) == {"x", "n", "ts", "loc"}


def test_a_literal_within_a_term_is_not_shared():
    rules = tocsin.Rules(SCHEMA)
    rules.add_many(
        [{"id": i, "where": f"x * {i} > 10 AND n IN ({i}, {i + 1})"} for i in range(1, 6)]
    )
    assert len(terms_of(rules)) == 5
    assert rules.match({"x": 3.0, "n": 4}).ids().to_pylist() == [4]


def test_decimals_of_many_digits():
    rules = tocsin.Rules({"n": "integer"})
    for i, where in enumerate(
        ["n * 3.6 > 100", "n * 3.6 = 108.0", "n * 3.6 <> 108", "n * 3.6 < -5e0"]
    ):
        rules.add(i, where)
    events = [{"n": n} for n in (27, 28, 30, -2, 2**63 - 1, -(2**63), None)]
    expected = [{2}, {0, 2}, {0, 1}, {2, 3}, {0, 2}, {2, 3}, set()]
    assert matched(rules, events) == expected
    with pytest.raises(ConditionError, match="too large for a comparison"):
        rules.add(9, "n * 3.6 > 100000000000000000")


# ------------------------------------------------------------ changes


def test_a_failed_add_takes_its_terms_back():
    rules = make_rules({"a": "hour(ts) = 1"})
    before = terms_of(rules)
    for where in ["minute(ts) = 1 AND unknown = 2", "minute(ts) = 1 AND x > 'a'"]:
        with pytest.raises(ConditionError):
            rules.add("b", where)
        assert terms_of(rules) == before
    with pytest.raises(RuleError):
        rules.add("b", "minute(ts) = 1", weights={"x": -1})
    assert terms_of(rules) == before
    # The numbers of terms that were taken back are used again, for other terms.
    rules.add("b", "length(name) = 1")
    rules.add("c", "minute(ts) = 0")
    assert matched(rules, {"name": "n", "ts": NOON}) == [{"b", "c"}]


def test_a_merge_drops_unused_terms():
    rules = make_rules()
    for id_ in list(CONDITIONS):
        if id_ not in ("speed", "map"):
            rules.remove(id_)
    held = rules.snapshot()
    rules.merge()
    assert terms_of(rules) == {"(x * 3.6e0)", "tags['a']"}
    rules.add("hour", CONDITIONS["hour"])
    expected = [each & {"speed", "map", "hour"} for each in EXPECTED]
    assert matched(rules, EVENTS) == expected
    assert matched(held, EVENTS) == [each & {"speed", "map"} for each in EXPECTED]
    for id_ in list(rules):
        rules.remove(id_)
    rules.merge()
    assert terms_of(rules) == set()
    assert matched(rules, EVENTS) == [set()] * 4


def test_a_failed_merge_changes_nothing(monkeypatch):
    rules = make_rules()
    rules.remove("hour")
    monkeypatch.setattr("tocsin.engine.draft.build_parts", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rules.merge()
    assert matched(rules, EVENTS) == [each - {"hour"} for each in EXPECTED]


def test_columns_and_terms_in_any_order():
    schema = tocsin.Schema({"x": "number"})
    rules = tocsin.Rules(schema)
    rules.add("a", "x + 1 > 5")
    schema.add("y", "number")
    rules.add("b", "y > 1 AND x + 1 > 5")
    other = tocsin.Rules(schema)
    other.add("c", "y * 2 = 4")
    assert matched(rules, {"x": 5.0, "y": 2.0}) == [{"a", "b"}]
    assert matched(other, {"y": 2.0}) == [{"c"}]
    assert list(schema) == ["x", "y"]


def test_copies_are_independent():
    rules = make_rules({"a": "hour(ts) = 12"})
    copy = rules.copy()
    copy.add("b", "length(name) = 3")
    rules.add("b", "upper(name) = 'ABC'")
    assert terms_of(rules) == {"hour(ts)", "upper(name)"}
    assert terms_of(copy) == {"hour(ts)", "length(name)"}
    assert matched(rules, EVENTS[1]) == matched(copy, EVENTS[1]) == [{"b"}]


def test_the_number_of_terms_is_bounded(monkeypatch):
    monkeypatch.setattr(attributes_module, "MAX_TERMS", 3)
    rules = make_rules({i: f"x * {i} > 1" for i in range(2, 5)})
    with pytest.raises(ConditionError, match="already test 3 different terms"):
        rules.add(9, "x * 9 > 1")
    rules.add(10, "x * 3 > 7")


def test_another_thread_adds_terms():
    rules, stop = make_rules(), threading.Event()
    table, errors = to_table(EVENTS), []

    def change():
        try:
            for i in range(150):
                rules.add(f"new {i}", f"n * {i} = -1 AND x + {i} > 1e9")
                if i % 40 == 39:
                    rules.remove(f"new {i - 1}")
                    rules.merge()
        except Exception as error:  # shown by the assertion below
            errors.append(error)
        finally:
            stop.set()

    thread = threading.Thread(target=change)
    thread.start()
    while not stop.is_set():
        assert matched(rules, table) == EXPECTED
    thread.join()
    assert not errors
    assert len(rules) == len(CONDITIONS) + 147


# ------------------------------------------------------------ store, explain, weights


def test_a_store_keeps_terms(tmp_path):
    rules = make_rules()
    rules.save(tmp_path / "store")
    opened = tocsin.open(tmp_path / "store")
    assert matched(opened, EVENTS) == matched(opened, to_table(EVENTS)) == EXPECTED
    assert terms_of(opened) == terms_of(rules)
    assert opened.schema == rules.schema
    opened.add("minute", "minute(ts) = 0 AND hour(ts) = 12")
    opened.save(tmp_path / "store")
    again = tocsin.open(tmp_path / "store")
    assert matched(again, EVENTS)[0] == EXPECTED[0] | {"minute"}
    assert matched(tocsin.open(tmp_path / "store", version=1), EVENTS) == EXPECTED


def test_explain_shows_the_value_of_a_term():
    rules = make_rules({"a": "hour(ts) BETWEEN 8 AND 10 AND n > x"})
    for event in ({"ts": NOON, "n": 3, "x": 1.5}, pa.table({"ts": [NOON], "n": [3], "x": [1.5]})):
        explanation = rules.explain(event, "a")
        by_name = {test.attribute: test for test in explanation.predicates}
        assert by_name["hour(ts)"].value == 12
        assert by_name["hour(ts)"].off == 2
        assert by_name["(CAST(n AS DOUBLE) > x)"].holds is True
        assert "hour(ts) BETWEEN 8 AND 10" in str(explanation)


def test_weights_of_terms():
    rules = tocsin.Rules(SCHEMA)
    rules.add("a", "hour(ts) = 12 AND n > 1", weights={"hour(ts)": 5})
    rules.add("b", "n > 1")
    best = rules.top({"ts": NOON, "n": 2}, 2)
    assert best.ids().to_pylist() == ["a", "b"]
    assert best.scores.tolist() == [6, 1]
    weighted = rules.top({"ts": NOON, "n": 2}, 2, weights={"hour(ts)": 2})
    assert weighted.scores.tolist() == [11, 1]
    assert rules["a"].weights == {"hour(ts)": 5}


def test_any_and_all_patterns():
    rules = tocsin.Rules({"name": "category", "n": "integer"})
    rules.add("any", "name LIKE ANY ('A%', '%Z', 'x')")
    rules.add("not any", "name NOT LIKE ANY ('A%', 'B%')")
    rules.add("all", "name LIKE ALL ('A%', '%Z')")
    rules.add("not all", "name NOT LIKE ALL ('A%', '%Z')")
    rules.add("negated", "NOT (name LIKE ANY ('A%', '%Z'))")
    rules.add("array", "name LIKE ANY(ARRAY['A%', '%Q'])")
    rules.add("some", "name ILIKE SOME ('a_') AND n & 4 = 4")
    rules.add("null", "name LIKE ANY ('A%', NULL)")
    events = [{"name": name, "n": n} for name in ("AZ", "BZ", "C", None) for n in (5, 1)]
    always = {"any", "not any", "all", "array", "null"}
    assert matched(rules, events) == [
        *(always | {"some"}, always, {"any", "not any"}, {"any", "not any"}),
        *({"not any", "not all", "negated"},) * 2,
        *(set(), set()),
    ]
    assert terms_of(rules) >= {"left(name, 1)", "right(name, 1)"}
    with pytest.raises(ConditionError, match="is a subquery"):
        rules.add("query", "name LIKE ANY (SELECT 'a')")
    with pytest.raises(ConditionError, match="join several LIKE"):
        rules.add("none", "name LIKE ANY ()")
