"""Input that is plausible and hard: nothing is lost, answers are right, errors are ours."""

import datetime
import decimal
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tocsin

SCHEMA = {"x": "number", "n": "integer", "c": "category", "f": "flag", "t": "time"}
MAP = pa.map_(pa.string(), pa.float64())


def rules_of(**conditions):
    rules = tocsin.Rules(SCHEMA)
    for id_, where in conditions.items():
        rules.add(id_, where)
    return rules


# ------------------------------------------------------------ nothing is lost


def test_payload_in_every_layout_survives():
    rules = tocsin.Rules(SCHEMA)
    frame = pl.DataFrame({"id": ["a", "b", "c"], "where": ["x > 1"] * 3, "team": ["t", "u", "v"]})
    rules.add_many(frame)
    rules.remove("b")
    rules.add("d", "x > 1", payload={"team": "w"})
    assert set(rules.match({"x": 3}).by_rule()) == {"a", "c", "d"}
    for number, values in enumerate(
        [
            pa.array(["p", "q"]).dictionary_encode(),
            pa.array(["p", "q"], pa.large_string()),
            pa.array(["p", "q"], pa.string_view()),
            pa.RunEndEncodedArray.from_arrays([1, 2], ["p", "q"]),
        ]
    ):
        ids = [f"{number}p", f"{number}q"]
        rules.add_many(pa.table({"id": ids, "where": ["x > 1"] * 2, "team": values}))
        rules.remove(ids[0])
    rules.merge()
    assert [rules[i].payload["team"] for i in rules] == ["t", "v", "w", "q", "q", "q", "q"]


def test_categorical_payload_of_two_tables():
    rules = tocsin.Rules(SCHEMA)
    for part in range(3):
        frame = pd.DataFrame({"id": range(part * 100, part * 100 + 100)})
        frame["where"] = "x > 1"
        frame["team"] = pd.Categorical([f"t{i}" for i in frame["id"]])
        rules.add_many(frame)
    assert rules[250].payload == {"team": "t250"}


@pytest.mark.parametrize("state", ["pending", "recent", "base"])
def test_integers_of_a_payload_that_would_become_doubles(state):
    """They are refused when they come, not when somebody looks."""
    rules = tocsin.Rules(SCHEMA)
    rules.add("a", "x > 1", payload={"size": 2**60})
    rules.add("b", "x > 1", payload={"rank": 1.5})
    if state != "pending":
        rules.match({"x": 5})
    if state == "base":
        rules.merge()
    table = pa.table({"id": ["c"], "where": ["x > 1"], "size": [1.5]})
    for call in (
        lambda: rules.add("c", "x > 1", payload={"size": 1.5}),
        lambda: rules.replace("b", "x > 1", payload={"size": 1.5}),
        lambda: rules.add_many(table),
        lambda: rules.add("c", "x > 1", payload={"rank": 2**60}),
        lambda: rules.add_many(
            table.rename_columns(["id", "where", "rank"]).set_column(2, "rank", pa.array([2**60]))
        ),
    ):
        with pytest.raises(tocsin.RuleError, match=r"payload column '(size|rank)' holds .* so far"):
            call()
        found = rules.match({"x": 5})
        assert found.payload(rules.payload_schema).to_pylist() == [
            {"size": 2**60, "rank": None},
            {"size": None, "rank": 1.5},
        ]
    rules.replace("a", "x > 1", payload={"rank": 2**53})
    assert rules["a"].payload == {"rank": 2.0**53}


YEAR_11476 = 300_000_000_000_000_000  # microseconds since 1970
TIME = pa.timestamp("us")


@pytest.mark.parametrize("state", ["recent", "base"])
@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([YEAR_11476], TIME), YEAR_11476),
        (pa.array([-YEAR_11476], pa.timestamp("us", "UTC")), -YEAR_11476),
        (pa.array([5], pa.timestamp("us", "No/Where")), 5),
        (pa.array([2**31 - 1], pa.date32()), 2**31 - 1),
        (pa.array([2**62], pa.duration("s")), 2**62),
        (pa.array([YEAR_11476], TIME).dictionary_encode(), YEAR_11476),
        (pa.array([[YEAR_11476, None]], pa.list_(TIME)), [YEAR_11476, None]),
        (pa.array([[YEAR_11476]], pa.list_(TIME, 1)), [YEAR_11476]),
        (pa.array([{"k": [{"m": YEAR_11476}]}], pa.struct({"k": pa.list_(pa.struct({"m": TIME}))})),
         {"k": [{"m": YEAR_11476}]}),
        (pa.array([[("k", YEAR_11476), ("m", None)]], pa.map_(pa.string(), TIME)),
         [("k", YEAR_11476), ("m", None)]),
        (pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["k", "k"]),
         [("k", 1), ("k", 2)]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)  # fmt: skip
def test_payload_that_python_cannot_hold(array, expected, state):
    """It is shown as Arrow takes it back, and kept as it is."""
    rules = rules_of(b="x > 9") if state == "recent" else tocsin.Rules(SCHEMA)
    rules.merge()
    rules.add_many(pa.table({"id": ["a"], "where": ["x > 1"], "p": array}))
    assert rules.plan().parts[-1].role == state
    (before,) = rules.match({"x": 5}).payload(rules.payload_schema).column("p").chunks
    assert rules["a"].payload == {"p": expected}
    rules.replace("a", "x > 2")
    assert rules["a"].payload == {"p": expected}
    (after,) = rules.match({"x": 5}).payload(rules.payload_schema).column("p").chunks
    assert after.equals(before)


def test_times_in_a_dictionary_that_python_cannot_hold_are_explained():
    rules = rules_of(a="t IS NULL")
    event = pa.table({"t": pa.array([YEAR_11476], TIME).dictionary_encode()})
    assert rules.explain(event, "a").predicates[0].value == YEAR_11476


def test_payload_that_cannot_be_kept_is_refused():
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    rules = rules_of(a="x > 1")
    with pytest.raises(tocsin.RuleError, match="payload column 'u' cannot be stored"):
        rules.add_many(pa.table({"id": ["b"], "where": ["x > 1"], "u": union}))
    assert list(rules) == ["a"]


def test_payload_is_copied():
    rules = tocsin.Rules(SCHEMA)
    payload = {"a": 1}
    rules.add("b", "x > 1", payload=payload)
    payload["a"] = "changed"
    assert rules["b"].payload == {"a": 1}


def test_integers_and_floats_in_one_payload_column():
    rules = tocsin.Rules(SCHEMA)
    rules.add("a", "x > 1", payload={"p": 1})
    rules.add("b", "x > 1", payload={"p": 1.5})
    rules.add_many(pa.table({"id": ["c"], "where": ["x > 1"], "p": pa.array([2], pa.int32())}))
    rules.merge()
    assert [rules[i].payload["p"] for i in "abc"] == [1, 1.5, 2]


def test_a_refused_rule_leaves_no_code_behind():
    rules = rules_of(a="c = 'known'")
    for i in range(50):
        with pytest.raises(tocsin.TocsinError):
            rules.add(f"b{i}", f"c = 'u{i}'", weights={"x": 1})
        with pytest.raises(tocsin.TocsinError):
            rules.add_many(pa.table({"id": ["y", "z"], "where": [f"c = 'v{i}'", "c ="]}))
    assert list(rules._draft.categories) == ["known"]


def test_ids_start_anew_when_all_rules_are_gone():
    rules = rules_of(a="x > 1")
    rules.remove("a")
    rules.merge()
    rules.add(5, "x > 1")
    assert list(rules.match({"x": 2})) == [(0, 5)]


# ------------------------------------------------------------ answers are right


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_local_times_mean_the_same_everywhere(zone):
    """In the gap and the overlap of a change of clocks: dict, table, box and text agree."""
    schema = tocsin.Schema({"t": "time"}, timezone=zone)
    quarter = datetime.timedelta(minutes=15)
    days = [datetime.datetime(2024, m, d) for m, d in ((3, 10), (3, 31), (4, 7), (10, 6), (10, 27))]
    days.append(datetime.datetime(2024, 11, 3))
    moments = [day + i * quarter for day in days for i in range(20)]
    texts, boxes = tocsin.Rules(schema), tocsin.Rules(schema)
    texts.add_many(pa.table({"id": range(len(moments)), "where": [f"t = '{m}'" for m in moments]}))
    boxes.add_many(pa.table({"id": range(len(moments)), "t_low": moments, "t_high": moments}))
    dicts = [{"t": m} for m in moments]
    for rules in (texts, boxes):
        for events in (dicts, pa.table({"t": moments})):
            found = set(rules.match(events))
            assert found == set(texts.match(dicts))
            assert {(i, i) for i in range(len(moments))} <= found


def test_decimals_are_negated_exactly():
    rules = rules_of(a="n <= -9223372036854775806.000000000000000001")
    lowest = [{"n": -9223372036854775806}, {"n": -9223372036854775807}]
    assert rules.count(lowest).tolist() == [0, 1]


def test_nan_equals_nan_among_constants():
    assert len(rules_of(a="CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE)").match({})) == 1
    assert len(rules_of(a="CAST('NaN' AS DOUBLE) > 5").match({})) == 1


def test_many_distinct_values_where_rules_mention_none():
    rules = rules_of(a="c IS NULL", b="c IS NOT NULL")
    table = pa.table({"c": [*map(str, range(5000)), None]})
    assert rules.count(table).tolist() == [1] * 5001
    assert rules.match(table).by_rule()["a"].tolist() == [5000]


def test_the_last_of_several_spellings_counts():
    rules = rules_of(a="x > 1")
    twice = pa.table({"m": pa.array([[("x", 5.0), ("X", 0.0)]], MAP)})
    for event in ({"x": 5.0, "X": 0.0}, twice):
        assert len(rules.match(event)) == 0
        assert rules.explain(event, "a").predicates[0].value == 0.0
    turned = pa.table({"m": pa.array([[("X", 0.0), ("x", 5.0)]], MAP)})
    for event in ({"X": 0.0, "x": 5.0}, turned):
        assert len(rules.match(event)) == 1


def test_the_last_spelling_counts_if_it_is_null():
    rules = rules_of(r="x > 5")
    event = {"x": 7, "X": None}
    assert not len(rules.match(event))
    assert not len(rules.match([event] * 3))
    assert not len(rules.match(pa.table({"m": pa.array([list(event.items())], MAP)})))
    assert len(rules.match({"X": None, "x": 7}))
    assert "x is missing" in str(rules.explain(event, "r"))


def test_dictionaries_that_come_and_go():
    """A block over chunks with dictionaries of their own has one that lives no longer than it."""
    letters = [chr(97 + i) for i in range(26)]
    rules = rules_of(**{f"r{v}": f"c = '{v}'" for v in letters})
    turns = [letters[i % 26 :] + letters[: i % 26] for i in range(60)]
    chunks = [
        pa.DictionaryArray.from_arrays(np.arange(33_000, dtype=np.int8) % 26, pa.array(turn))
        for turn in turns
    ]
    found = rules.match(pa.table({"c": pa.chunked_array(chunks)}))
    assert len(found) == 60 * 33_000
    ids = np.array(found.ids().to_pylist())
    assert (
        ids == np.char.add("r", np.concatenate([np.array(c.to_pylist()) for c in chunks]))
    ).all()


def test_events_need_not_have_what_only_removed_rules_tested():
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add("r", "y > 1")
    rules.add("s", "y > 2 AND x > 0")
    rules.merge()
    events = pa.table({"x": [2.0]})
    with pytest.raises(tocsin.EventError, match="no column 'y'"):
        rules.match(events)
    rules.replace("r", "x > 1")
    rules.remove_many(["s"])
    assert rules.tested() == ["x"]
    assert rules.match(events).ids().to_pylist() == ["r"]
    twin = rules.copy()
    twin.add("t", "y > 1")
    assert twin.tested() == ["x", "y"]
    assert rules.tested() == ["x"]


def test_explain_needs_only_what_its_rule_tests():
    rules = rules_of(a="x > 1", b="n > 1")
    assert rules.explain(pa.table({"x": [2.0]}), "a").matched


def test_names_that_are_words_of_sql_are_written_in_backquotes():
    names = ["and", "not", "null", "case", "between", "select", "two words", "a`b", "ä"]
    rules = tocsin.Rules(dict.fromkeys(names, "integer"))
    rules.add_many(pa.table({"id": [1]} | {f"{n}_low": [5] for n in names}))
    rules.add(2, rules[1].where)
    assert rules.match([dict.fromkeys(names, 5), dict.fromkeys(names, 4)]).offsets.tolist() == [
        0, 2, 2,
    ]  # fmt: skip


def test_rules_from_polars_in_every_form():
    rules = tocsin.Rules(SCHEMA)
    rules.add_many(pl.DataFrame({"id": ["t"], "where": ["x > 1"]}))
    rules.add_many(pl.DataFrame({"id": ["b"], "x_low": [1.5], "c_low": ["k"], "c_high": ["k"]}))
    rules.add_many(pl.DataFrame({"id": ["l"], "attribute": ["x"], "low": [1.5]}))
    frame = pl.DataFrame({"x": [2.0, 0.0], "c": ["k", "k"]})
    assert set(rules.match(frame)) == {(0, "t"), (0, "b"), (0, "l")}


def test_ids_come_back_in_the_type_they_had():
    for type_ in (pa.int32(), pa.int64(), pa.uint8(), pa.string(), pa.large_string()):
        rules = tocsin.Rules(SCHEMA)
        ids = pa.array([1, 2]).cast(type_)
        rules.add_many(pa.table({"id": ids, "where": ["x > 1"] * 2}))
        found = rules.match({"x": 2}).to_arrow()["rule"]
        assert found.type == type_
        assert sorted(found.to_pylist()) == ids.to_pylist()
    assert rules.match({"x": 0}).to_arrow().num_rows == 0


def test_bursts_do_not_ask_for_the_whole_memory():
    rules = tocsin.Rules({"n": "integer"})
    rules.add_many(pa.table({"id": np.arange(50_000), "n_low": np.ones(50_000, int)}))
    events = pa.table({"n": (np.arange(100_000) < 30).astype(int)})
    assert len(rules.match(events)) == 30 * 50_000


def test_top_of_more_than_there_are():
    rules = rules_of(a="x > 1", b="x > 2")
    table = pa.table({"x": np.arange(100_000) % 4.0})
    top = rules.top(table, k=2**62)
    assert np.array_equal(np.diff(top.offsets), [0, 0, 1, 2] * 25_000)
    many = tocsin.Rules({"x": "number"})
    many.add_many(pa.table({"id": np.arange(3000), "x_low": np.zeros(3000)}))
    assert np.array_equal(many.top({"x": 1}, 2500).rules, np.arange(2500))


# ------------------------------------------------------------ errors are ours

RULES = rules_of(a="x > 1", b="n > 1", c="c = 'k'", t="t > '2024'")
FAR = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
BAD_TEXT = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
)


def events(**columns):
    good = {"x": [1.0], "n": [1], "c": ["k"], "t": pa.array([0], pa.timestamp("us"))}
    return pa.table(good | columns)


BROKEN = {
    "number too large": lambda: RULES.match({"x": 10**400}),
    "two pandas columns": lambda: RULES.match(
        pd.DataFrame([[1.0, 2.0, 1, "k"]], columns=["x", "x", "n", "c"])
    ),
    "pandas integer too large": lambda: RULES.match(pd.DataFrame({"x": [2**70], "n": [1]})),
    "an array as events": lambda: RULES.match(pa.array([1])),
    "date too far": lambda: RULES.match(events(t=FAR)),
    "unsigned too large": lambda: RULES.match(events(n=pa.array([2**63], pa.uint64()))),
    "seconds too far": lambda: RULES.match(events(t=pa.array([2**62], pa.timestamp("s")))),
    "invalid text": lambda: RULES.match(events(c=BAD_TEXT)),
    "payload too large": lambda: RULES.add("z", "x > 1", payload={"p": 2**70}),
    "payload of no type": lambda: RULES.add("z", "x > 1", payload={"p": object()}),
    "payload not Unicode": lambda: RULES.add("z", "x > 1", payload={"p": "\ud800"}),
    "id not Unicode": lambda: RULES.add("\ud800", "x > 1"),
    "condition not Unicode": lambda: RULES.add("z", "c = '\ud800'"),
    "id too large": lambda: RULES.add_many([{"id": 2**70, "where": "x > 1"}]),
    "column name not a text": lambda: RULES.add_many([{5: 1}]),
    "weights of two kinds": lambda: RULES.add_many(
        [{"id": "y", "where": "x > 1", "weights": {"x": 1}},
         {"id": "z", "where": "x > 1", "weights": 5}]
    ),
    "attribute null in dictionary": lambda: RULES.add_many(
        pa.table({"id": ["z"], "low": [1.0],
                  "attribute": pa.DictionaryArray.from_arrays([0], pa.array([None, "x"]))})
    ),
    "date above time": lambda: RULES.add_many(
        pa.table({"id": ["z"], "t_low": [datetime.date(2024, 1, 2)],
                  "t_high": [datetime.datetime(2024, 1, 1)]})
    ),
    "unsigned bound": lambda: RULES.add_many(
        pa.table({"id": ["z"], "n_low": pa.array([2**63], pa.uint64())})
    ),
    "one bound twice": lambda: RULES.add_many(
        pa.table({"id": ["z"], "x_low": [1.0], "X_LOW": [2.0]})
    ),
    "decimal bound": lambda: RULES.add_many(pa.table({"id": ["z"], "x_low": [decimal.Decimal(1)]})),
    "weight too large": lambda: RULES.add("z", "x > 1", weights={"x": 10**400}),
    "event weight named 1": lambda: RULES.top({"x": 1}, weights={1: 2.0}),
    "event weights of text": lambda: RULES.top(
        {"x": 1}, weights=pa.array([[("x", "much")]], pa.map_(pa.string(), pa.string()))
    ),
    "event weights by number": lambda: RULES.top(
        {"x": 1}, weights=pa.array([[(1, 1.0)]], pa.map_(pa.int64(), pa.float64()))
    ),
    "event weights unknown": lambda: RULES.top({"x": 1}, weights=pa.array([[("y", 1.0)]], MAP)),
    "decimal cast": lambda: RULES.add("z", "x > CAST('1e500' AS DECIMAL(10, 2))"),
    "decimal of letters": lambda: RULES.add("z", "x > CAST(5 AS DECIMAL(a, b))"),
    "underscore": lambda: RULES.add("z", "x > CAST('1_0' AS DOUBLE)"),
    "timezone is a folder": lambda: tocsin.Schema(SCHEMA, timezone="America"),
    "a type is no schema": lambda: tocsin.Schema(pa.int64()),
    "index is a list": lambda: tocsin.Rules(SCHEMA, index=["grid"]),
    "several ids as one text": lambda: RULES.remove_many("ab"),
    "look up too large": lambda: RULES["a" * 3 + "\ud800"],
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_errors_are_ours(case):
    before = list(RULES), list(RULES._draft.categories), RULES.payload_schema
    with pytest.raises(tocsin.TocsinError) as caught:
        BROKEN[case]()
    assert len(str(caught.value)) > 20
    assert (list(RULES), list(RULES._draft.categories), RULES.payload_schema) == before


def test_look_ups_of_odd_ids():
    rules = tocsin.Rules(SCHEMA)
    rules.add_many(pa.table({"id": [1, 2], "where": ["x > 1"] * 2}))
    assert np.int64(1) in rules
    assert rules[np.int64(2)].id == 2
    for odd in (2**70, "1", None, 1.0, [], True):
        assert odd not in rules
        with pytest.raises(tocsin.UnknownRuleError):
            rules.remove(odd)
    texts = rules_of(a="x > 1")
    texts.merge()
    assert "\ud800" not in texts
    texts.remove("a")
    with pytest.raises(tocsin.UnknownRuleError) as caught:
        texts["a"]
    assert "did you mean" not in str(caught.value)


def test_long_rows_name_their_own_attribute():
    rules = tocsin.Rules({"x": "number", "y": "number"})
    table = pa.table(
        {"id": [1, 2], "attribute": ["x", "y"], "low": [1.0, float("nan")], "high": [2.0, 3.0]}
    )
    with pytest.raises(tocsin.RuleError, match=r"row 1 \(rule 2\): a bound of y is NaN"):
        rules.add_many(table)


def test_an_impossible_box_may_have_weights():
    rules = tocsin.Rules({"n": "integer"})
    weights = pa.array([[("n", 2.0)], [("n", 3.0)]], MAP)
    table = pa.table({"id": [1, 2], "n_low": [2.3, 2.0], "n_high": [2.7, 2.0], "weights": weights})
    rules.add_many(table)
    assert list(rules.top({"n": 2}, 5)) == [(0, 2, 3.0)]
    for bad in ([("m", 1.0)], [("n", -1.0)]):
        broken = table.set_column(3, "weights", pa.array([[], bad], MAP)).set_column(
            0, "id", [[3, 4]]
        )
        with pytest.raises(tocsin.TocsinError):
            rules.add_many(broken)


def test_empty_lists_and_comments():
    rules = tocsin.Rules(SCHEMA)
    rules.add_many([])
    rules.add("a", "x > 5 /* it's */ AND c = 'a''b' -- isn't it")
    assert len(rules.match({"x": 6, "c": "a'b"})) == 1
    with pytest.raises(tocsin.ConditionError) as caught:
        rules.add("b", "-- c")
    assert str(caught.value).count("-- c") == 1


# ------------------------------------------------------------ forms of events


def test_a_pandas_frame_of_which_no_column_is_tested():
    rules = rules_of(all="TRUE", none="FALSE")
    rules.add_many([{"id": "open", "x_low": None, "x_high": None}])
    for frame in (
        pd.DataFrame({"other": [1, 2, 3]}),
        pd.DataFrame({"mixed": [1, "a", object()]}),
        pd.DataFrame(index=range(3)),
        pd.DataFrame({"x": [1.0, 2.0, 3.0]}),
    ):
        assert rules.count(frame).tolist() == [2, 2, 2]
        assert rules.match(frame).offsets.tolist() == [0, 2, 4, 6]
        assert rules.top(frame, 1).offsets.tolist() == [0, 1, 2, 3]
        assert sum(len(block) for block in rules.match_blocks(frame)) == 6
    assert rules.count(pd.DataFrame({"other": []})).tolist() == []


def test_a_pandas_frame_that_lacks_a_column_is_told_what_it_has():
    rules = rules_of(a="x > 1")
    with pytest.raises(tocsin.EventError, match=r"no column 'x'.*; they have 'y', '5'"):
        rules.match(pd.DataFrame({"y": [1], 5: [2]}))
    with pytest.raises(tocsin.EventError, match="they have no columns"):
        rules.match(pd.DataFrame())


ZONES = [
    "America/New_York", "America/Sao_Paulo", "Africa/Casablanca", "Africa/Cairo", "Asia/Tokyo",
    "Asia/Tehran", "Australia/Lord_Howe", "Europe/Berlin", "Europe/Dublin", "Pacific/Apia",
    "America/St_Johns", "Antarctica/Troll",
]  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
def test_naive_times_are_read_in_the_zone_in_every_century(zone):
    """Arrow columns give what dicts give, summer time after the last change listed included."""
    rng = np.random.default_rng(7)
    year = 365.25 * 86400e6
    moments = np.concatenate(
        [
            rng.uniform(-1900 * year, 8000 * year, 300),
            rng.uniform(-80 * year, 130 * year, 600),
            # Around the changes of one year: hours apart, also within gaps and overlaps.
            np.arange(80 * year, 81 * year, 3600e6 * 0.75),
        ]
    ).astype(np.int64)
    rules = tocsin.Rules(tocsin.Schema({"t": "time"}, timezone=zone))
    start = datetime.datetime(1970, 1, 1)
    times = [start + datetime.timedelta(microseconds=int(m)) for m in moments]
    utc = [t.replace(tzinfo=zoneinfo.ZoneInfo(zone)).astimezone(datetime.UTC) for t in times]
    rules.add_many(
        pa.table(
            {
                "id": np.arange(len(utc)),
                "t_low": pa.array(utc, pa.timestamp("us", "UTC")),
                "t_high": pa.array(utc, pa.timestamp("us", "UTC")),
            }
        )
    )
    in_arrow = rules.match(pa.table({"t": pa.array(moments, pa.timestamp("us"))}))
    in_dicts = rules.match([{"t": time} for time in times])
    assert set(in_arrow) == set(in_dicts)
    assert set(in_arrow) >= {(i, i) for i in range(len(times))}


def test_naive_times_beyond_pythons_years():
    schema = tocsin.Schema({"t": "time"}, timezone="Europe/Berlin")
    rules = tocsin.Rules(schema)
    # 400 years have a whole number of weeks: 4 July of year 12345 is as that of 2745.
    cycle = 146_097 * 86_400_000_000
    july = (datetime.datetime(2745, 7, 4) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(
        microseconds=1
    )
    hours = np.array([2, 1], np.int64) * 3_600_000_000  # summer, winter
    naive = np.array([july, july + 180 * 86_400_000_000], np.int64)
    utc = naive - hours
    table = {"id": [0, 1, 2, 3]}
    bounds = np.concatenate([utc, utc + 24 * cycle])
    for end in ("t_low", "t_high"):
        table[end] = pa.array(bounds, pa.timestamp("us", "UTC"))
    rules.add_many(pa.table(table))
    events = pa.array(np.concatenate([naive, naive + 24 * cycle]), pa.timestamp("us"))
    assert set(rules.match(pa.table({"t": events}))) == {(i, i) for i in range(4)}


def test_times_beyond_year_9999_are_explained():
    rules = rules_of(a="t > TIMESTAMP '2024-01-01 00:00:00Z'", b="t < TIMESTAMP '2024-01-01'")
    far = 2**62
    moments = pa.timestamp("us", "UTC")
    ends = pa.struct([("low", moments), ("high", moments)])
    for events in (
        pa.table({"t": pa.array([far], moments)}),
        pa.table({"t": pa.array([far // 1_000_000], pa.timestamp("s"))}),
        pa.table({"t": pa.array([{"low": far, "high": far + 1}], ends)}),
        pa.table({"m": pa.array([[("t", far)]], pa.map_(pa.string(), moments))}),
    ):
        assert rules.explain(events, "a").matched
        explanation = rules.explain(events, "b")
        assert not explanation.matched
        assert "t is 4611686018427" in str(explanation)
    turned = pa.table({"t": pa.array([{"low": far + 1, "high": far}], ends)})
    with pytest.raises(tocsin.EventError, match=r"low end is above its high end; got.*4611686"):
        rules.match(turned)


def test_dictionaries_without_letters():
    """They share an address in memory, and are not the same."""
    rules = rules_of(a="c = ''", b="c IS NULL", c="c <> 'k'")
    two = tocsin.Rules({"c": "category", "d": "category"})
    two.add("empty", "d = ''")
    two.add("null", "c IS NULL")
    indices = pa.array([0, 0], pa.int8())

    def column(values):
        return pa.DictionaryArray.from_arrays(indices, pa.array(values, pa.string()))

    for first, second in ((column([None]), column([""])), (column([""]), column([None]))):
        found = two.match(pa.table({"c": first, "d": second}))
        expected = {
            (row, name)
            for row in range(2)
            for name, holds in (
                ("empty", second[0].as_py() == ""),
                ("null", first[0].as_py() is None),
            )
            if holds
        }
        assert set(found) == expected
    chunks = pa.chunked_array([column([None]), column([""]), column(["", None]).take([1, 0])])
    assert list(rules.match(pa.table({"c": chunks})).sorted()) == [
        (0, "b"), (1, "b"), (2, "a"), (2, "c"), (3, "a"), (3, "c"), (4, "a"), (4, "c"), (5, "a"),
        (5, "c"),
    ]  # fmt: skip


def test_dictionaries_too_large_to_be_one():
    """Together they have more values than the type of their indices can count."""
    rules = rules_of(a="c = 'v150'", b="c IS NULL")
    chunks = [
        pa.DictionaryArray.from_arrays(
            pa.array([*range(100), None], pa.int8()),
            pa.array([f"v{100 * k + i}" for i in range(100)]),
        )
        for k in range(3)
    ]
    found = rules.match(pa.table({"c": pa.chunked_array(chunks)}))
    assert list(found) == [(100, "b"), (151, "a"), (201, "b"), (302, "b")]
    ids = pa.chunked_array([chunk.slice(0, 100) for chunk in chunks])
    rules.add_many(pa.table({"id": ids, "where": ["x > 1"] * 300, "team": ids}))
    assert rules["v250"].payload == {"team": "v250"}


def test_ids_as_arrow_and_numpy_have_them():
    rules = rules_of(a="x > 1", b="x > 2")
    found = rules.match({"x": 5}).sorted().ids()
    assert rules.explain({"x": 5}, found[1]).rule == "b"
    assert found[0] in rules
    assert rules[found[0]].where == "x > 1"
    rules.replace(found[0], "x > 3")
    rules.remove_many([found[0], np.str_("b")])
    assert len(rules) == 0
    rules.merge()
    rules.add(pa.scalar(7), "x > 1")
    assert list(rules.match({"x": 5})) == [(0, 7)]
