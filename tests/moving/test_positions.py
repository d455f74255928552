"""Positions as users have them: pandas, polars, columns of all types, and rows that are refused."""

import datetime
import itertools
import math
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tocsin

DAY = datetime.datetime(2024, 5, 1)


def watch(**options):
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add("low", "x < 5")
    return tocsin.Monitor(rules, **options)


def kinds(events):
    return [(e["object"], e["event"]) for e in events.to_pylist()]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, None])
def test_rows_that_are_rejected(make):
    times = [DAY, None, DAY, DAY]
    columns = {"object": ["a", "b", None, "c"], "t": times, "x": [1.0, 1.0, 1.0, None]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    monitor = watch()
    assert kinds(monitor.update(rows if make is None else make(columns))) == [("a", "enter")]
    reasons = monitor.rejected.column("reason").to_pylist()
    assert reasons == ["the time 't' is missing or not finite", "the key 'object' is missing"]
    assert monitor.rejected.column("x").to_pylist() == [1.0, 1.0]


def test_dicts_from_pandas():
    frame = pd.DataFrame({"object": ["a", "b", None], "t": [pd.Timestamp(DAY), pd.NaT, pd.NaT]})
    frame["x"] = [1.0, math.nan, 1.0]
    monitor = watch()
    assert kinds(monitor.update(frame.to_dict("records"))) == [("a", "enter")]
    assert len(monitor.rejected) == 2


KEPT = {
    "text": ["a", None],
    "bytes": [b"a", None],
    "decimal": [Decimal("1.5"), None],
    "duration": [datetime.timedelta(1), None],
    "clock": [datetime.time(1), None],
    "nothing": [None, None],
    "struct": [{"a": "x", "b": 1}, None],
    "list": [["a", "bb"], ["c"]],
    "deep": [[{"a": ["x"]}], None],
}
ARROW = {
    "map": pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string_view())),
    "fixed list": pa.array([["a"], None], pa.list_(pa.string_view(), 1)),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3]), None]),
    "half": pa.array(np.array([1, 2], np.float16)),
    "uuid": pa.array([uuid.uuid4().bytes] * 2, pa.uuid()),
    "runs": pa.RunEndEncodedArray.from_arrays([2], ["a"]),
    "dictionary": pa.StructArray.from_arrays([pa.array(["a", "b"]).dictionary_encode()], ["d"]),
}


@pytest.mark.parametrize("name", [*KEPT, *ARROW])
def test_columns_of_any_type_are_kept(name):
    base = {"object": ["a", "b"], "t": [1, 2], "x": [1.0, 2.0]}
    if name in KEPT:
        table = pl.DataFrame(base | {"kept": KEPT[name]}).to_arrow()
    else:
        table = pa.table(base | {"kept": ARROW[name]})
    for rows in (table, pa.concat_tables([table, table])):  # also doubled, which compares them
        monitor = watch(keep=["kept"], lost_after=10)
        entered = monitor.update(rows)
        lost = monitor.advance(100)
        assert kinds(lost)[1::2] == [("a", "lost"), ("b", "lost")]
        expected = table.column("kept").to_pylist()
        if name != "uuid":  # extension types are kept as what they are stored as
            assert entered.column("kept").to_pylist() == expected
            assert lost.column("kept").to_pylist()[::2] == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
        pa.ListArray.from_arrays([0, 1], pa.RunEndEncodedArray.from_arrays([1], ["a"])),
    ],
)
def test_types_that_cannot_be_kept_are_refused_before_anything_changes(column):
    monitor = watch(keep=["kept"])
    rows = pa.table({"object": ["a"], "t": [1], "x": [1.0], "kept": column})
    with pytest.raises(tocsin.TocsinError, match=r"column 'kept' cannot be kept.*; cast it"):
        monitor.update(rows)
    assert kinds(monitor.update(rows.set_column(3, "kept", [["text"]]))) == [("a", "enter")]
    assert "kept" not in watch_rejected(rows).column_names


def watch_rejected(rows):
    monitor = watch()
    monitor.update(rows.set_column(0, "object", [pa.nulls(1)]))
    return monitor.rejected


VALUES = {
    "float": [None, -math.inf, -0.0, 0.0, 1.5, math.inf, math.nan],
    "integer": [None, -(2**63), 0, 2**63 - 1],
    "text": [None, "", "Z", "a", "\ufffd", "\U0001f69a"],
    "flag": [None, False, True],
    "list": [None, [], [1], [1, 2], [2]],
}


def place(name, value):
    """Return where a value is in the list of its column; zeros are equal."""
    values = [str(each) for each in VALUES[name]]
    return values.index(str(value).replace("-0.0", "0.0"))


@pytest.mark.parametrize("names", list(itertools.permutations(VALUES, 2)))
def test_the_least_of_rows_of_equal_time_counts(names):
    """Values of a column are in ascending order above."""
    rows = list(itertools.product(*(VALUES[name] for name in names)))
    pairs = list(itertools.product(range(len(rows)), repeat=2))
    chosen = [rows[i] for pair in pairs for i in pair]
    table = pa.table(
        {
            "object": np.repeat(np.arange(len(pairs)), 2),
            "t": np.zeros(2 * len(pairs), np.int64),
            "x": np.ones(2 * len(pairs)),
        }
        | {name: [row[i] for row in chosen] for i, name in enumerate(names)}
    )
    events = watch(keep=list(names)).update(table)
    for (first, second), event in zip(pairs, events.to_pylist(), strict=True):
        keys = [list(map(place, names, rows[i])) for i in (first, second)]
        expected = rows[first] if keys[0] <= keys[1] else rows[second]
        assert str([event[name] for name in names]) == str(list(expected))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"id": 1, "t": 1}, "no column 'object'; they have id, t; key names the column of objects"),
        ({"object": 1, "time": 1}, "they have object, time; time names the column of times"),
        (
            {"object": 1, "t": "2024-05-01"},
            "expected timestamps or numbers, got string; parse with",
        ),
        ({"object": 1, "t": DAY.date()}, r"got date32\[day\]; cast to timestamp"),
        ({"object": 1.5, "t": 1}, "keys in 'object' must be texts or whole numbers"),
        ({"object": b"a", "t": 1}, "keys in 'object' must be texts or integers, got binary"),
    ],
)
def test_errors_say_what_to_do(rows, message):
    with pytest.raises(tocsin.TocsinError, match=message):
        watch().update(rows)


def test_times_of_another_type():
    monitor = watch()
    monitor.update({"object": "a", "t": DAY, "x": 1.0})
    zoned = DAY.replace(tzinfo=datetime.UTC)
    for change in (
        lambda: monitor.advance(zoned),
        lambda: monitor.update({"object": "a", "t": zoned}),
    ):
        with pytest.raises(tocsin.TocsinError, match="a time has a zone either always or never"):
            change()
    with pytest.raises(
        tocsin.TocsinError, match=r"now: times were of type timestamp\[us\] so far, got int64"
    ):
        monitor.advance(5)


def test_margin_needs_coordinates():
    monitor = watch(position=["lon", "lat"], margin=1.0)
    with pytest.raises(tocsin.TocsinError, match=r"'lon' is no attribute of the rules; name those"):
        monitor.update({"object": "a", "t": 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dwell": "15"}, "'15' is neither a duration such as '15 min' nor a payload column"),
        ({"dwell": "1h30m"}, "neither a duration such as '15 min' nor a payload column"),
        ({"dwell": "waits"}, "payload column of the rules; did you mean 'wait'"),
        ({"dwell": "bad"}, "rule 'r': dwell must be a duration such as '90 s'"),
        ({"dwell": "number"}, "rule 'r': dwell is -5, but|rule 'r': dwell must be 0 or more"),
        ({"margin": "5"}, "'5' is neither a number nor a payload column"),
        ({"margin": "number"}, "rule 'r': margin must be a number, 0 or more, got -5"),
        ({"margin": "wait"}, "rule 'r': margin must be a number, 0 or more, got '15 min'"),
        ({"keep": ["x", "X"]}, "keep: events have a column 'X' already"),
        ({"keep": ["time"]}, "keep: events have a column 'time' already; leave it out"),
        ({"payload": ["Reason"]}, "payload: events have a column 'Reason' already"),
        ({"keep": ["wait"], "payload": ["wait"]}, "payload: events have a column 'wait' already"),
    ],
)
def test_options_that_do_not_fit(options, message):
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add("r", "x < 5", payload={"wait": "15 min", "bad": "abc", "number": -5})
    with pytest.raises(tocsin.TocsinError, match=message):
        tocsin.Monitor(rules, **options).update({"object": "a", "t": DAY, "x": 1.0, "wait": 1})


def test_a_store_in_place_of_its_path(tmp_path):
    store = tocsin.RuleStore.create(tmp_path / "store", {"x": "number"})
    store.add("low", "x < 5")
    events = tocsin.Monitor(store).update({"object": "a", "t": 1, "x": 1.0})
    assert events.column("rules_version").to_pylist() == [2]


def test_unsigned_times():
    rows = pa.table({"object": [1], "t": pa.array([2**63 + 5], pa.uint64()), "x": [1.0]})
    monitor = watch()
    with pytest.raises(tocsin.TocsinError, match=r"times in 't': Integer value .* not in range"):
        monitor.update(rows)
    assert len(monitor.update(rows.set_column(1, "t", [pa.array([5], pa.uint64())]))) == 1


def test_an_empty_list_with_columns_to_keep():
    monitor = watch(keep=["note"], removed="gone", dwell=1)
    assert len(monitor.update([])) == 0
    monitor.update([{"object": "a", "t": 1, "x": 1.0, "note": "n"}, {"object": "b", "t": 3}])
    assert monitor.update([]).schema.field("note").type == pa.string()
