"""Values that terms are computed from: read as plain columns are, in dicts as in tables."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tocsin.errors import EventError
from tocsin.model.terms.functions.table import FUNCTIONS

SCHEMA = {
    "x": "number",
    "p": "decimal(10,2)",
    "loc": "struct<lat: number, n: integer, q: decimal(5,1), at: time, lit: flag, name: category>",
    "nums": "map<string, number>",
}


def count(where, events, **kwargs):
    """Return how many events satisfy a condition."""
    rules = tocsin.Rules(tocsin.Schema(SCHEMA, **kwargs))
    rules.add("rule", where)
    return len(rules.match(events))


@pytest.mark.parametrize(
    "values",
    [
        [5.5, 5.25, None],
        pa.array([5.5, 5.25, None], pa.float32()),
        pa.array([6, 5, None], pa.int8()),
        pa.array([5.5, 5.25, None]).dictionary_encode(),
        pa.array([5.5, 5.25, 1, None], pa.float64())[0:2],
        pa.array([decimal.Decimal("5.500000"), None], pa.decimal128(18, 6)),
        pa.array([decimal.Decimal("5.500000"), None], pa.decimal256(50, 6)),
        pa.nulls(2),
    ],
)
def test_decimals_are_read_from_what_plain_columns_are(values):
    table = pa.table({"p": values})
    expected = 0 if table["p"].null_count == len(table) else 1
    for events in (table, table.to_pylist()):
        assert count("p > 5.25", events) == count("p * 2 > 10.5", events) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (5.505, "more than 2 digits after the point"),
        (decimal.Decimal("5.505"), "more than 2 digits after the point"),
        (10**8, "too many digits"),
        (1e8, "too many digits"),
        (-1e8, "too many digits"),
        (float("nan"), "not a finite number"),
    ],
)
def test_what_is_no_such_decimal(value, words):
    for where in ("p > 1", "p * 2 > 1"):
        for events in ([{"p": value}], pa.table({"p": [value]})):
            with pytest.raises(EventError, match=rf"attribute 'p' is a decimal\(10,2\).*{words}"):
                count(where, events)


@pytest.mark.parametrize("value", [2**53 + 1, 2**64, np.float32(3), np.int8(3)])
def test_integers_are_numbers(value):
    for event in ({"x": value}, {"loc": {"lat": value}}, {"nums": {"a": value}}):
        (name,) = event
        term = {"x": "x * 2", "loc": "loc.lat", "nums": "nums['a']"}[name]
        assert count(f"{term} > 2", event) == 1


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"loc": {"n": 1.5}}, "attribute 'loc.n' is an integer, but the event has float 1.5"),
        ({"loc": {"n": True}}, "attribute 'loc.n' is an integer, but the event has bool"),
        ({"loc": {"n": 2**63}}, "attribute 'loc.n' is a 64-bit integer"),
        ({"loc": {"lat": "5"}}, "attribute 'loc.lat' is a number, but the event has str '5'"),
        ({"loc": {"lat": True}}, "attribute 'loc.lat' is a number, but the event has bool True"),
        ({"loc": {"lat": {"low": 1, "high": 2}}}, "attribute 'loc.lat' is a number"),
        ({"loc": {"q": 2.55}}, "more than 1 digits after the point"),
        ({"loc": {"at": "2024-05-01"}}, "attribute 'loc.at' is a time.*parse it first"),
        ({"loc": {"lit": 1}}, "attribute 'loc.lit' is a flag, but the event has int 1"),
        ({"loc": {"name": 5}}, "attribute 'loc.name' is a category, but the event has int 5"),
        ({"loc": 5}, "'loc' must be a dict, got 5"),
        ({"loc": "low"}, "'loc' must be a dict, got 'low'"),
        ({"nums": [1]}, r"'nums' must be a dict, got \[1\]"),
        ({"nums": {1: 2.0}}, "the keys of 'nums' must be texts, got 1"),
        ({"nums": {"a": "x"}}, r"""attribute "nums\['a'\]" is a number, but the event has str"""),
    ],
)
def test_what_does_not_fit_a_struct_or_a_map(event, words):
    """Arrow would cut off fractions, and take a flag for a number."""
    (name,) = event
    where = "loc.lat > 1 OR loc.n > 1" if name == "loc" else "nums['a'] > 1"
    with pytest.raises(EventError, match=f"event 1: .*{words}"):
        count(where, [{}, event])


def test_what_fits_a_struct_or_a_map():
    at = datetime.datetime(2024, 5, 1, 12)
    for where, event in (
        ("loc.q = 2.5", {"loc": {"q": 2.5}}),
        ("hour(loc.at) = 12", {"loc": {"at": at}}),
        ("hour(loc.at) = 12", {"loc": {"at": np.datetime64(at)}}),
        ("unix_seconds(loc.at) = 1714557600", {"loc": {"at": at}}),
        ("loc.lit", {"loc": {"lit": np.bool_(True)}}),
        ("nums['a'] = 1", {"nums": [("a", 1), ("a", 2)]}),  # what Arrow makes of a map
        ("nums['a'] IS NULL", {"nums": {}}),
        ("loc.n IS NULL", {"loc": {}}),
    ):
        assert count(where, event, timezone="Europe/Berlin") == 1, where


def test_names_of_fields_are_case_insensitive():
    absent = dict.fromkeys(("N", "q", "At", "lit", "name"))
    event = {"loc": {"LAT": 2.0, **absent}}
    assert count("loc.lat = 2", event) == count("loc.lat = 2", pa.Table.from_pylist([event])) == 1
    assert count("loc.lat = 2", {"loc": {"lat": 3.0, "LAT": 2.0}}) == 1


@pytest.mark.parametrize("where", ["x > 1", "x * 2 > 2"])
def test_the_last_of_several_maps_counts(where):
    def table(*columns):
        maps = [pa.array([[("x", v)]], pa.map_(pa.string(), type_)) for type_, v in columns]
        return pa.table(maps, [f"map {i}" for i in range(len(maps))])

    number, whole, text = pa.float64(), pa.int64(), pa.string()
    assert count(where, table((number, 0.5), (whole, 3))) == 1
    assert count(where, table((whole, 3), (number, 0.5))) == 0
    assert count(where, table((number, 1.5), (whole, None))) == 0
    with pytest.raises(EventError, match="map column 'map 1': attribute 'x' is a number"):
        count(where, table((number, 1.5), (text, "q")))


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_the_first_and_the_last_time(zone):
    ends = pa.array([-(2**63), 2**63 - 1], pa.int64()).view(pa.timestamp("us", "UTC"))
    rules = tocsin.Rules(tocsin.Schema({"ts": "time"}, timezone=zone))
    rules.add("minutes", "minute(ts) >= 0")
    rules.add("text", "CAST(ts AS string) IS NOT NULL")
    assert rules.count(pa.table({"ts": ends})).tolist() == [2, 2]


def test_a_column_is_named_in_errors():
    table = pa.table({"loc": [5]})
    with pytest.raises(EventError, match="attribute 'loc': the events' column is of type int64"):
        count("loc.lat > 1", table)


def test_the_first_of_several_entries_counts():
    table = pa.table(
        {"nums": pa.array([[("a", 1.0), ("a", 2.0)]], pa.map_(pa.string(), pa.float64()))}
    )
    assert count("nums['a'] = 1", table) == count("nums['a'] = 1", table.to_pylist()) == 1


@pytest.mark.parametrize("index", ["auto", "bestar"])
def test_no_events(index):
    rules = tocsin.Rules(SCHEMA, index=index)
    rules.add("rule", "x * 2 > 1 AND loc.lat > 1")
    for events in ([], pa.table({"x": pa.array([], pa.float64()), "loc": pa.nulls(0)})):
        assert len(rules.match(events)) == len(rules.count(events)) == len(rules.top(events)) == 0
        rules.plan(events)
        rules.tune(events)


def test_types_of_structs_and_maps():
    assert repr(tocsin.Schema({"loc": "struct<name: varchar(20)>"})) == (
        "Schema(loc: struct<name: string>)"
    )
    for deep in ("struct<a: " * 5000 + "int" + ">" * 5000, "map<string, " * 5000 + "int"):
        with pytest.raises(tocsin.SchemaError, match="nested too deeply"):
            tocsin.Schema({"loc": deep})
    struct = pa.struct({"lat": pa.float64()})
    for names in (["loc", "loc"], ["loc", "LOC"]):
        with pytest.raises(tocsin.SchemaError, match="is declared"):
            tocsin.Schema(pa.schema([(name, struct) for name in names]))


def test_what_raises_is_null_for_that_event_alone(monkeypatch):
    def compute(call, numbers):
        values = numbers.to_pylist()
        if 3 in values or None in values:
            raise ArithmeticError
        return pa.array([abs(v) for v in values], pa.int64())

    function = FUNCTIONS["abs"]._replace(compute=compute)
    monkeypatch.setitem(FUNCTIONS, "abs", function)
    rules = tocsin.Rules({"n": "integer", "ts": "time"})
    rules.add("abs", "abs(n) >= 0")
    rules.add("nested", "abs(abs(n) + 1) > 5")
    rules.add("null", "abs(n) IS NULL")
    rules.add("plain", "n = 3")
    values = [-7, 3, 0, None, 5, 3, 2]
    found = rules.match(pa.table({"n": pa.array(values, pa.int64()), "ts": pa.nulls(7)})).by_rule()
    found = {rule: sorted(events) for rule, events in found.items()}
    assert found == {"abs": [0, 2, 4, 6], "nested": [0, 4], "null": [1, 3, 5], "plain": [1, 5]}


def test_rules_with_extreme_constants_stop_no_match():
    rules = tocsin.Rules({"n": "integer", "x": "number", "name": "category", "ts": "time"})
    rules.add("integer", "round(n, -100000000) = 0")
    rules.add("number", "round(x, 2147483647) = 1.5")
    rules.add("late", "date_add(ts, 2147483647) > DATE '2024-01-01'")
    rules.add("early", "date_sub(ts, 2147483647) < DATE '2024-01-01'")
    rules.add("digits", "CAST(name AS BIGINT) IS NULL")
    event = {"n": 5, "x": 1.5, "name": "1" * 5000, "ts": datetime.datetime(1970, 1, 1)}
    assert {rule for _, rule in rules.match(event)} == {
        "integer",
        "number",
        "late",
        "early",
        "digits",
    }
