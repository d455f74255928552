"""A single dict is read as a list of dicts is: with the same matches, and the same messages."""

import datetime
import decimal
import math
import random
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tocsin
from tocsin.model import event_lines

SCHEMA = {
    "x": "number", "n": "integer", "tier": "category", "ok": "flag", "at": "time",
    "price": "decimal(12,2)", "City": "category", "y": "number",
}  # fmt: skip
UTC = datetime.UTC
SEAM = -5_819_204_377_310_644_129
BERLIN = datetime.timezone(datetime.timedelta(hours=2))


class OddZone(datetime.tzinfo):
    def utcoffset(self, moment):
        raise RuntimeError("no offset")


VALUES = {
    "x": [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, -math.nan, 5e-324, -5e-324, 2, -3,
          10**400, 2**70, True, np.float64(1.5), np.float32(-1.5), np.int64(2), "1.5", [1.5],
          decimal.Decimal(1), {"low": 1, "high": 2.5}, {"low": -2.0, "high": -1.0},
          {"low": None, "high": None}, {"low": 1.0, "high": None}, {"low": 2.0, "high": 1.0},
          {"low": 1.5, "high": 1.5}, {"low": math.nan, "high": math.nan},
          {"low": 0.0, "high": math.nan}, {"low": 0.0, "high": math.inf}, {"low": 1.0}, {},
          {"low": 0.0, "high": 1.0, "more": 2}, {"low": 1.0, "high": "2"},
          {"low": 0.0, "high": 2.0, "mean": 1.0, "deviation": 0.5}, {1: 2, 3: 4},
          {"edges": [0.0, 1.0, 2.0], "weights": [0.5, 0.5]}, {"low": np.float64(0), "high": 2}],
    "n": [0, 7, -7, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, SEAM - 1, SEAM, SEAM + 1, 1.0, True,
          np.int32(7), np.uint64(2**63), "7", {"low": 5, "high": 9}, {"low": 5, "high": 5.5},
          {"low": 2**63, "high": 2**64}],
    "tier": ["gold", "", "\ud800", "unknown", np.str_("gold"), 3, b"gold", True,
             {"low": "a", "high": "b"}],
    "ok": [True, False, np.bool_(True), 1, "true", {"low": False, "high": True}],
    "at": [datetime.datetime(2024, 5, 1, tzinfo=UTC), datetime.datetime(2024, 5, 1),
           datetime.datetime(2024, 5, 1, 1, 2, 3, 4, tzinfo=BERLIN), datetime.date(2024, 5, 1),
           datetime.datetime.min, datetime.datetime.max.replace(tzinfo=UTC), pd.NaT,
           datetime.datetime(1, 1, 1, tzinfo=UTC), datetime.datetime(2024, 5, 1, tzinfo=OddZone()),
           pd.Timestamp("2024-05-01"), np.datetime64("2024-05-01"), np.datetime64("NaT"),
           "2024-05-01", 5,
           {"low": datetime.date(2024, 1, 1), "high": datetime.datetime(2024, 6, 1, tzinfo=UTC)}],
    "price": [decimal.Decimal("9.99"), decimal.Decimal("9.999"), decimal.Decimal("1E+400"), 9.99,
              9.999, 10, decimal.Decimal("NaN"), decimal.Decimal("-0"), math.nan, 10**12, True,
              "9.99", {"low": 1, "high": decimal.Decimal("20.5")}],
}  # fmt: skip
VALUES["City"], VALUES["y"] = VALUES["tier"], VALUES["x"]


def all_rules(at_least=None, index="auto"):
    conditions = [
        "x > 1", "x < 0", "x = 0", "x IS NULL", "x >= double('NaN')", "x BETWEEN 1 AND 2 AND y > 0",
        "n = 7", "n < -5", "n > 9223372036854775806", "n IS NULL OR tier = 'gold'", "City = ''",
        "tier <> 'gold'", "tier IS NULL", "ok", "NOT ok", "ok IS NULL", "at > '2024-04-30'",
        "at < '1900-01-01'", "at IS NULL", "price < 10", "price = 9.99", "price IS NULL",
        "City IS NOT NULL", "y <= -1.5 OR n IN (0, 5)",
    ]  # fmt: skip
    rules = tocsin.Rules(tocsin.Schema(SCHEMA, "America/New_York"), index=index)
    for number, where in enumerate(conditions):
        if number == 12:
            rules.merge()
        numeric = "x" in where.split()[0] and at_least
        rules.add(number, where, at_least=at_least if numeric else None)
    return rules


def answer(ask, events):
    """Return what a question finds, or its error."""
    try:
        found = ask(events)
    except Exception as error:
        return type(error), str(error)
    if isinstance(found, np.ndarray):
        return found.dtype, found.tolist()
    scores = None if found.scores is None else found.scores.tolist()
    return sorted(found.rules.tolist()), found.offsets.tolist(), scores


def assert_alike(rules, event):
    for ask in (rules.match, rules.count, rules.top):
        assert answer(ask, event) == answer(ask, [event]), event


@pytest.mark.parametrize("at_least", [None, 0.5])
@pytest.mark.parametrize("name", VALUES)
def test_each_value(name, at_least):
    rules = all_rules(at_least)
    for value in [None, *VALUES[name]]:
        assert_alike(rules, {name: value})
        assert_alike(rules, {"y": 1.0, name: value, "tier": "gold"})


@pytest.mark.parametrize("index", ["auto", "exhaustive", "keyed", "bestar"])
def test_events_of_all_kinds(index):
    rng = random.Random(5)
    rules = all_rules(index=index)
    for _ in range(400):
        names = rng.sample(list(SCHEMA), rng.randint(0, len(SCHEMA)))
        event = {}
        for name in rng.choices(names, k=len(names)) if names else ():
            spelled = rng.choice((name, name, name.upper(), name.lower()))
            event[spelled] = rng.choice([None, *VALUES[name]])
        event |= rng.choice(({}, {5: 1.0, None: 2}, {"other": object()}, {"x": 1.0}))
        assert_alike(rules, event)


def test_the_last_spelling_counts():
    rules = all_rules()
    spread = {"low": 0.0, "high": 5.0}
    for event in (
        {"x": 1.5, "X": -1.0}, {"X": -1.0, "x": 1.5}, {"x": 1.5, "X": None},
        {"x": spread, "X": -1.0}, {"X": -1.0, "x": spread}, {"x": spread, "X": None},
        {"x": "wrong", "X": 1.0},
    ):  # fmt: skip
        assert_alike(rules, event)
        assert_alike(all_rules(), event)


def test_usual_events_are_read_here():
    reader = all_rules().snapshot()._lines
    usual = {
        "x": 1.5, "N": 7, "tier": "gold", "ok": True, "price": decimal.Decimal("9.99"), "y": -2,
        "at": datetime.datetime(2024, 5, 1, tzinfo=UTC), "city": None, "other": [1],
    }  # fmt: skip
    assert reader.read(usual, with_ranges=False) is not None
    assert reader.read(usual | {"x": {"low": 1, "high": 2}}, with_ranges=True).has_ranges
    assert reader.read(usual | {"x": {"low": 1, "high": 2}}, with_ranges=False) is None
    assert reader.read(usual | {"x": {"low": 1, "high": 1}}, with_ranges=True).has_ranges is False
    assert reader.read(usual | {"x": "wrong"}, with_ranges=True) is None


def test_many_spellings_are_not_remembered(monkeypatch):
    monkeypatch.setattr(event_lines, "_MOST_SPELLINGS", 3)
    rules = all_rules()
    for event in ({"a": 1, "b": 2, "c": 3, "x": 2.0}, {"X": {"low": 0, "high": 5}, "x": -1.0}):
        assert_alike(rules, event)
    assert len(rules.snapshot()._lines._columns) == 3


def test_what_is_null_in_the_next_event():
    rules = all_rules()
    full = {"x": 1.5, "n": 7, "tier": "gold", "ok": True, "price": 9.99}
    for event in (full, {}, {"x": {"low": 1.0, "high": 3.0}}, {"x": 2.0}, {"tier": "gold"}):
        assert_alike(rules, event)


def test_a_match_within_a_match():
    """Reading an event may run code of the user, here a time zone's."""
    rules = all_rules()
    found = []

    class Zone(datetime.tzinfo):
        def utcoffset(self, moment):
            found.append(rules.match({"x": -5.0, "n": -9, "tier": "other"}).rules.tolist())
            return datetime.timedelta(0)

    event = {"x": 1.5, "n": 7, "at": datetime.datetime(2024, 5, 1, tzinfo=Zone()), "tier": "gold"}
    plain = event | {"at": datetime.datetime(2024, 5, 1, tzinfo=UTC)}
    expected = rules.match([plain]).rules.tolist()
    assert rules.match(event).rules.tolist() == expected
    inner = rules.match([{"x": -5.0, "n": -9, "tier": "other"}]).rules.tolist()
    assert found
    assert all(each == inner for each in found)


def test_callers_on_several_threads():
    rules = all_rules()
    events = [{"x": float(i), "n": i, "tier": "gold" if i % 2 else None} for i in range(-20, 20)]
    expected = [rules.match([event]).rules.tolist() for event in events]
    wrong = []

    def ask():
        for _ in range(20):
            for event, rows in zip(events, expected, strict=True):
                if rules.match(event).rules.tolist() != rows:
                    wrong.append(event)

    callers = [threading.Thread(target=ask) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


def test_changes_between_events():
    """A version reads what its own rules test."""
    rules = all_rules()
    event = {"x": 1.5, "n": 7, "late": 3.0}
    assert_alike(rules, event)
    before = rules.snapshot()
    expected = before.match(event).rules.tolist()
    rules.schema.add("late", "number")
    rules.add(100, "late > 2 AND x > 1")
    assert_alike(rules, event)
    assert len(rules.match(event)) == len(expected) + 1
    assert before.match(event).rules.tolist() == expected
    rules.remove(100)
    rules.add(101, "tier = 'new'")
    assert_alike(rules, event | {"tier": "new"})
    rules.add(102, "x * 2 = 3")
    assert_alike(rules, event)


ARROW = {
    "x": [1.5, -0.0, math.nan, -math.inf, None, 0.5], "n": [7, -(2**63), SEAM, 2**63 - 1, None, 0],
    "tier": ["gold", "", None, "other", "gold", "é"], "ok": [True, False, None, True, False, True],
    "price": [decimal.Decimal("9.99"), decimal.Decimal(-1), None, decimal.Decimal(10), None, None],
    "City": ["", None, "x", "gold", "y", "z"], "y": [2.0, -2.0, 1.0, None, 0.5, -1.5],
    "at": [datetime.datetime(2024, 5, 1, tzinfo=UTC), None, datetime.datetime(1, 1, 1, tzinfo=UTC),
           datetime.datetime(1899, 1, 1, 1, 2, 3, 4, tzinfo=UTC), None, None],
}  # fmt: skip
TYPES = {
    "x": pa.float64(), "n": pa.int64(), "tier": pa.string(), "ok": pa.bool_(), "City": pa.string(),
    "price": pa.decimal128(12, 2), "y": pa.float64(), "at": pa.timestamp("us", "UTC"),
}  # fmt: skip
FAR = pa.array([2**62] * 6, pa.int64()).cast(pa.timestamp("us", "UTC"))


def test_tables_of_one_row():
    """They are read as the same rows of a longer table."""
    rules = all_rules()
    table = pa.table({name: pa.array(ARROW[name], type_) for name, type_ in TYPES.items()})
    assert rules.snapshot()._lines.read_row(table[:1]) is not None
    at = table.column_names.index("at")
    others = [
        table.set_column(at, "at", FAR), table.append_column("AT", FAR),
        table.append_column("other", FAR), table.rename_columns([n.upper() for n in TYPES]),
        table.set_column(0, "x", table["x"].cast(pa.float32())),
        table.set_column(5, "price", table["price"].cast(pa.decimal128(30, 4))),
        table.set_column(5, "price", table["price"].cast(pa.decimal128(4, 2))),
        table.set_column(at, "at", table["at"].cast(pa.timestamp("us"))),
        table.set_column(at, "at", pa.array([None] * 6, pa.timestamp("ns", "UTC"))),
        table.set_column(0, "x", pa.array([{"low": 0.0, "high": 2.0}] * 6)),
    ]  # fmt: skip
    for each in (table, *others):
        for row in range(len(each)):
            pair = pa.concat_tables([each[row : row + 1]] * 2)
            for ask in (rules.match, rules.top):
                single, double = ask(each[row : row + 1]), ask(pair)
                half = len(double) // 2
                assert single.rules.tolist() == double.rules[:half].tolist()
                assert single.offsets.tolist() == double.offsets[:2].tolist()
            counts = rules.count(each[row : row + 1])
            assert counts.tolist() == rules.count(pair)[:1].tolist()


def test_tables_of_one_row_that_are_wrong():
    rules = all_rules()
    table = pa.table({name: pa.array(ARROW[name], type_) for name, type_ in TYPES.items()})[:1]
    for wrong, message in (
        (table.drop_columns(["x"]), "the events have no column 'x'"),
        (table.append_column("x", pa.array([1.0])), "the events have 2 columns for attribute 'x'"),
        (table.set_column(0, "x", pa.array(["1"])), "attribute 'x' is a number"),
    ):
        with pytest.raises(tocsin.EventError, match=message):
            rules.match(wrong)


def test_a_row_without_rules():
    rules = tocsin.Rules(SCHEMA)
    assert rules.match(pa.table({"other": [1]})).offsets.tolist() == [0, 0]
