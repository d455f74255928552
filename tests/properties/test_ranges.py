"""Events with ranges: every way of asking, under every index, gives what the oracle says."""

import math
from datetime import UTC, datetime
from itertools import combinations, product
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests import generate, naive
from tests.properties import test_meaning
from tests.properties.test_meaning import pairs, some_rules
from tocsin.index.registry import INDEXES

RANDOMS = st.randoms(use_true_random=False)
KINDS = ("integer", "number", "time", "decimal(9,2)", "decimal(18,6)")


def made(rules, index):
    engine = test_meaning.made(rules, index=index)
    engine.merge()
    assert index in ("auto", *(part.index for part in engine.plan().parts))
    return engine


def range_of(rng, kind):
    """A range between two values, or null."""
    values = [generate.value(rng, kind) for _ in range(2)]
    if rng.random() < 0.3:
        values[1] = values[0]
    if any(v is None or v != v for v in values):
        return None
    if kind == "integer" and rng.random() < 0.5:
        return naive.Range(values[0], min(values[0] + rng.randint(0, 3), 2**63 - 1))
    return naive.Range(min(values), max(values))


def events_of(rng, mixed):
    """Events, and which attributes have ranges; if not `mixed`, these have nothing else."""
    ranged = [a for a, kind in generate.SCHEMA.items() if kind in KINDS and rng.random() < 0.6]
    events = [generate.event(rng) for _ in range(rng.randint(1, 5))]
    for event in events:
        for attribute in ranged:
            if not mixed or rng.random() < 0.6:
                event[attribute] = range_of(rng, generate.SCHEMA[attribute])
    return events, ranged


def given_as(value):
    return {"low": value.low, "high": value.high} if isinstance(value, naive.Range) else value


def as_dicts(events, names=tuple(generate.SCHEMA)):
    return [{a: given_as(e[a]) for a in names} for e in events]


def arrow_type(attribute, ranged):
    plain = generate.arrow_table([]).schema.field(attribute).type
    return pa.struct([("high", plain), ("low", plain)]) if attribute in ranged else plain


def as_table(events, ranged, names=tuple(generate.SCHEMA)):
    schema = pa.schema([(a, arrow_type(a, ranged)) for a in names])
    return pa.Table.from_pylist(as_dicts(events, names), schema=schema)


def as_map(events, names, type_):
    """Sparse: a map for each event, with what is not null."""
    entries = [
        [(a, given_as(e[a])) for a in names if e[a] is not None] or None for e in events
    ]  # fmt: skip
    return pa.array(entries, pa.map_(pa.string(), type_))


def check(engine, rules, events, ways):
    expected = naive.matches(rules, events)
    for given_events in ways:
        found = pairs(engine.match(given_events))
        assert set(found) == expected
        assert len(found) == len(expected)
        blocks = [pair for block in engine.match_blocks(given_events) for pair in pairs(block)]
        assert blocks == found
        assert engine.count(given_events).tolist() == [
            sum(1 for e, _ in expected if e == n) for n in range(len(events))
        ]


@pytest.mark.parametrize("index", ["auto", *INDEXES])
@given(rng=RANDOMS)
def test_match(index, rng):
    rules = some_rules(rng)
    engine = made(rules, index)
    events, ranged = events_of(rng, mixed=False)
    apart = [a for a in ranged if generate.SCHEMA[a] == "number"]
    names = [a for a in generate.SCHEMA if a not in apart]
    sparse = as_table(events, ranged, names).append_column(
        "also", as_map(events, apart, arrow_type("price", ["price"]))
    )
    check(engine, rules, events, [as_dicts(events), as_table(events, ranged), sparse])
    mixed, _ = events_of(rng, mixed=True)
    check(engine, rules, mixed, [as_dicts(mixed)])
    for number, event in enumerate(mixed):
        alone = {rule for _, rule in pairs(engine.match(as_dicts([event])[0]))}
        assert alone == {r for n, r in naive.matches(rules, mixed) if n == number}


@pytest.mark.parametrize("index", ["auto", *INDEXES])
@given(rng=RANDOMS, k=st.integers(1, 4))
def test_top(index, rng, k):
    rules = some_rules(rng, weighted=True)
    events, _ = events_of(rng, mixed=True)
    order = list(generate.SCHEMA)
    engine = made(rules, index)
    own = [{a: rng.choice((0.0, 0.5, 2.0)) for a in rng.sample(order, 2)} for _ in events]
    for given_weights, each in ((None, [None] * len(events)), (own, own)):
        top = engine.top(as_dicts(events), k, weights=given_weights)
        for number, event in enumerate(events):
            expected = naive.top(rules, event, k, each[number], order)
            span = slice(top.offsets[number], top.offsets[number + 1])
            found = zip(top.rules[span].tolist(), top.scores[span].tolist(), strict=True)
            assert [*found] == expected


@given(RANDOMS)
def test_explain(rng):
    (rule,) = some_rules(rng, most=1)
    events, _ = events_of(rng, mixed=True)
    (event,) = as_dicts(events[:1])
    explanation = made([rule], "auto").explain(event, rule.id)
    assert explanation.matched == naive.holds(rule.where, events[0])
    by_conjunction = [
        all(t.holds is True for t in explanation.predicates if t.conjunction == c)
        for c in range(explanation.conjunctions)
    ]
    assert any(by_conjunction) == explanation.matched
    for test in explanation.predicates:
        assert test.value == event[test.attribute] or test.value != test.value
        assert test.off is None or test.holds is False


def test_every_small_set_and_every_small_range():
    sets = [c for size in range(1, 6) for c in combinations(range(5), size)]
    # Each beside each, as the points of all sets lie in one array.
    leaves = [leaf for a, b in product(sets, sets) for leaf in (("NOT IN", a), ("IN", b))]
    engine = tocsin.Rules({"n": "integer"}, index="grid")
    for number, (operator, points) in enumerate(leaves):
        engine.add(number, f"n {operator} ({', '.join(map(str, points))})")
    engine.merge()
    ranges = [(low, high) for low in range(-1, 6) for high in range(low, 7)]
    found = engine.match([{"n": {"low": low, "high": high}} for low, high in ranges])
    assert set(pairs(found)) == {
        (event, number)
        for event, (low, high) in enumerate(ranges)
        for number, (operator, points) in enumerate(leaves)
        if any((n in points) == (operator == "IN") for n in range(low, high + 1))
    }


def test_removed_rules_and_rules_added_later():
    rng = Random(4)
    rules = [naive.Rule(n, generate.condition(rng, 1)) for n in range(300)]
    engine = made(rules[:200], "grid")
    for rule in rules[200:]:
        engine.add(rule.id, naive.sql(rule.where))
    for rule in rules[::3]:
        engine.remove(rule.id)
    left = [r for r in rules if r.id % 3]
    events = [e for _ in range(20) for e in events_of(rng, mixed=True)[0]]
    check(engine, left, events, [as_dicts(events)])


def test_many_columns_that_are_mostly_null():
    """Such events are compressed into rows, with their ranges."""
    names = [f"a{i}" for i in range(100)]
    engine = tocsin.Rules(dict.fromkeys(names, "integer"))
    for i, name in enumerate(names):
        engine.add(i, f"{name} BETWEEN 5 AND 6")
    columns = {
        name: [{"low": row, "high": row + 2} if row == i % 10 else None for row in range(10)]
        for i, name in enumerate(names)
    }
    found = engine.match(pa.table(columns)).by_rule()
    assert {i: rows.tolist() for i, rows in found.items() if len(rows)} == {
        i: [i % 10] for i in range(100) if 3 <= i % 10 <= 6
    }


def test_the_ends_of_the_line():
    """All integers are a range, and more than 63 bits wide."""
    engine = tocsin.Rules({"n": "integer", "x": "number"})
    engine.add("not", "n NOT IN (-9223372036854775808, 9223372036854775807)")
    engine.add("in", "n IN (-9223372036854775808, 5)")
    engine.add("null", "n IS NULL")
    engine.add("high", "x = CAST('Infinity' AS DOUBLE)")
    engine.add("nan", "x > 5")

    def found(event):
        return set(engine.match(event).ids().to_pylist())

    widest = {"low": -(2**63), "high": 2**63 - 1}
    assert found({"n": widest, "x": {"low": 1, "high": math.inf}}) == {"not", "in", "high", "nan"}
    assert found({"n": {"low": 2**63 - 1, "high": 2**63 - 1}}) == set()
    assert found({"n": {"low": None, "high": None}, "x": {"low": 1, "high": 5}}) == {"null"}


def test_a_range_of_one_value_is_that_value():
    """So the index is asked as it is for values."""
    engine = tocsin.Rules({"x": "number"}, index="intervals")
    engine.add("a", "x BETWEEN 3 AND 5")
    engine.merge()
    table = pa.table({"x": [{"low": 4.0, "high": 4.0}]})
    assert len(engine.match(table)) == 1
    (segment,) = engine.snapshot().segments
    before = segment.nbytes
    assert len(engine.match(pa.table({"x": [{"low": 1.0, "high": 4.0}]}))) == 1
    assert segment.nbytes > before  # exhaustive search was made


def test_what_explain_prints():
    engine = tocsin.Rules({"x": "number", "t": "time"})
    engine.add("r", "x BETWEEN 3 AND 5 AND t >= TIMESTAMP '2024-05-01'")
    day = datetime(2024, 4, 30, tzinfo=UTC)
    event = {"x": {"low": 5.5, "high": 9}, "t": {"low": datetime(2024, 1, 1), "high": day}}
    (x, t) = engine.explain(event, "r").predicates
    assert (x.holds, x.off, x.value) == (False, 0.5, {"low": 5.5, "high": 9})
    assert t.off.days == -1
    assert "x is 5.5 to 9, above by 0.5" in str(x)
    (x, _) = engine.explain({"x": {"low": None, "high": None}}, "r").predicates
    assert (x.holds, x.value) == (None, None)


TYPES = {"x": "number", "n": "integer", "tier": "category", "active": "flag"}


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"x": {"low": 5.0, "high": 3.0}}, "event 1: attribute 'x': the range's low end is above"),
        ({"n": {"low": 5, "high": None}}, "event 1: attribute 'n': the range has only one end"),
        ({"n": {"low": None, "high": 5}}, "event 1: attribute 'n': the range has only one end"),
        ({"x": {"low": 1.0, "high": math.nan}}, "event 1: attribute 'x': the range ends in NaN"),
        ({"x": {"low": 1.0, "up": 2.0}}, "a (range|struct)"),
        ({"n": {"low": 1.5, "high": 2.5}}, "integer"),
        ({"tier": {"low": "a", "high": "b"}}, "'tier'.* a category.*ranges"),
        ({"active": {"low": False, "high": True}}, "'active'.* a flag.*ranges"),
    ],
)
def test_what_is_no_range(event, words):
    engine = tocsin.Rules(TYPES)
    engine.add("r", "x > 1 AND n > 1 AND tier = 'a' AND active")
    with pytest.raises(tocsin.EventError, match=words):
        engine.match([{}, event])
    ((name, value),) = event.items()
    empty = {n: pa.nulls(2, pa.int64() if n == "n" else pa.null()) for n in TYPES if n != name}
    with pytest.raises(tocsin.EventError, match=words):
        engine.match(pa.table({**empty, name: [None, value]}))
    map_ = pa.array([[], [(name, value)]], pa.map_(pa.string(), pa.array([value]).type))
    with pytest.raises(tocsin.EventError, match=words):
        engine.match(pa.table({"also": map_}))


def test_a_schema_of_columns_with_ranges():
    def ends(low, high):
        return pa.struct([("low", low), ("high", high)])

    schema = tocsin.Schema(
        pa.schema(
            [
                ("x", ends(pa.float64(), pa.float64())),
                ("n", ends(pa.int32(), pa.int64())),
                ("mixed", ends(pa.int32(), pa.float32())),
                ("t", ends(pa.timestamp("us"), pa.date32())),
                ("texts", ends(pa.string(), pa.string())),
                ("three", pa.struct([("low", pa.int64()), ("high", pa.int64()), ("x", pa.int8())])),
            ]
        )
    )
    kinds = {name: schema.kind(name) for name in schema}
    assert kinds == {"x": "number", "n": "integer", "mixed": "number", "t": "time"}
