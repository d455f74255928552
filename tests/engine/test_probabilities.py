"""Rules with a threshold: they match events that satisfy them with at least that probability."""

import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests import naive
from tests.engine.rooms import DENSITY, UNIT
from tests.engine.uncertain_oracle import (
    EPOCH,
    UNCERTAIN,
    Histogram,
    Normal,
    Uniform,
    probability,
)
from tests.properties.test_meaning import pairs
from tocsin.engine.probabilities.checks import measure_work
from tocsin.engine.probabilities.ranges import scales_of, uncertainty_of
from tocsin.engine.probabilities.unions import MAX_WORK, union_work
from tocsin.index.registry import INDEXES
from tocsin.model.events import Events
from tocsin.model.keys import write_lines

RANDOMS = st.randoms(use_true_random=False)
SCHEMA = {
    "x": "number",
    "y": "number",
    "n": "integer",
    "price": "decimal(9,2)",
    "at": "time",
    "tier": "category",
    "live": "flag",
}
THRESHOLDS = [1e-6, 0.1, 0.25, 0.3, 0.5, 0.5, 0.75, 0.8, 0.99, 1.0]
CLOSE = 1e-9  # of a probability to a threshold: the oracle is exact, and the library is not


def literal(rng, kind):
    match kind:
        case "number":
            return rng.choice([rng.randint(0, 10), rng.randint(0, 20) / 2])
        case "integer":
            return rng.randint(0, 10)
        case "decimal(9,2)":
            return (Decimal(rng.randint(0, 20)) / 20).quantize(Decimal("0.01"))
        case "time":
            return EPOCH + timedelta(hours=rng.randint(0, 24))
        case "category":
            return rng.choice("abcd")
        case "flag":
            return rng.random() < 0.5


def leaf(rng):
    attribute = rng.choice(sorted(SCHEMA))
    kind = SCHEMA[attribute]
    shape = rng.random()
    if kind == "flag":
        return naive.Flag(attribute)
    if shape < 0.1:
        return naive.IsNull(attribute)
    if shape < 0.35:
        return naive.In(attribute, tuple(literal(rng, kind) for _ in range(rng.randint(1, 4))))
    if kind != "category" and shape < 0.6:
        return naive.Between(attribute, literal(rng, kind), literal(rng, kind))
    operators = ("=", "<>") if kind == "category" else ("<", "<=", "=", "<>", ">=", ">")
    return naive.Compare(attribute, rng.choice(operators), literal(rng, kind))


def condition(rng, depth=3):
    while True:
        node = branch(rng, depth)
        if naive.conjunction_count(node) <= 100:
            return node


def branch(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        node = leaf(rng)
        return naive.Not(node) if rng.random() < 0.25 else node
    if rng.random() < 0.2:
        return naive.Not(branch(rng, depth - 1))
    parts = tuple(branch(rng, depth - 1) for _ in range(rng.choice((2, 2, 3))))
    return rng.choice((naive.And, naive.Or))(parts)


def uncertain(rng, kind):
    low, high = sorted([literal(rng, kind), literal(rng, kind)])
    if kind != "number":
        return Uniform(low, high)
    if rng.random() < 0.4:
        return Uniform(float(low), float(high))
    low, high = float(low), float(high) + 0.5
    if rng.random() < 0.5:
        return Normal(low, high, rng.uniform(low - 1, high + 1), rng.choice([0.5, 1.0, 4.0]))
    weights = [rng.randint(0, 3) for _ in range(rng.choice((1, 2, 4)))]
    weights[rng.randrange(len(weights))] += 1
    edges = np.linspace(low, high, len(weights) + 1).tolist()
    total = 2 ** math.ceil(math.log2(sum(weights)))  # so that weights are exact
    weights[0] += total - sum(weights)
    return Histogram(tuple(edges), tuple(w / total for w in weights))


def event(rng, most=3):
    """An event in which up to three values are uncertain."""
    values = {a: None if rng.random() < 0.1 else literal(rng, k) for a, k in SCHEMA.items()}
    for attribute in rng.sample(["x", "y", "n", "price", "at"], rng.randint(0, most)):
        values[attribute] = uncertain(rng, SCHEMA[attribute])
    values["x"] = float(values["x"]) if isinstance(values["x"], int) else values["x"]
    values["y"] = float(values["y"]) if isinstance(values["y"], int) else values["y"]
    return values


def given_as(value):
    return value.given() if isinstance(value, UNCERTAIN) else value


def as_dicts(events):
    return [{a: given_as(v) for a, v in e.items()} for e in events]


PLAIN = {
    "n": pa.int64(),
    "price": pa.decimal128(9, 2),
    "at": pa.timestamp("us", tz="UTC"),
}
COLUMNS = (
    {"x": DENSITY, "y": DENSITY}
    | {name: pa.struct([("low", type_), ("high", type_)]) for name, type_ in PLAIN.items()}
    | {"tier": pa.string(), "live": pa.bool_()}
)


def in_column(value, type_):
    if not pa.types.is_struct(type_) or isinstance(value, UNCERTAIN) or value is None:
        return given_as(value)
    return {"low": value, "high": value}


def as_table(events):
    """A table: columns of ranges and densities, in which a value is a range of one."""
    columns = {
        name: pa.array([in_column(e[name], type_) for e in events], type_)
        for name, type_ in COLUMNS.items()
    }
    return pa.table(columns)


def as_maps(events):
    """A table in which the numbers are entries of a map."""
    entries = [
        [(a, in_column(e[a], DENSITY)) for a in ("x", "y") if e[a] is not None] for e in events
    ]
    maps = pa.array(entries, pa.map_(pa.string(), DENSITY))
    return as_table(events).drop_columns(["x", "y"]).append_column("also", maps)


def made(rules, index="auto"):
    engine = tocsin.Rules(SCHEMA, index=index)
    for number, (where, at_least) in enumerate(rules):
        engine.add(number, naive.sql(where), at_least=at_least)
    engine.merge()
    return engine


# ------------------------------------------------------------ against the oracle


def to_ranges(value):
    """The range of an uncertain value, as the oracle for rules without thresholds knows it."""
    if isinstance(value, Uniform):
        return naive.Range(value.low, value.high)
    if isinstance(value, Normal):
        return naive.Range(value.low, value.high)
    used = [i for i, weight in enumerate(value.weights) if weight]
    return naive.Range(value.edges[used[0]], value.edges[used[-1] + 1])


def expected_pairs(rules, events):
    """All pairs that must match, and those that are too close to a threshold to tell."""
    matching, close = set(), set()
    for e, values in enumerate(events):
        ranges = {a: to_ranges(v) if isinstance(v, UNCERTAIN) else v for a, v in values.items()}
        for r, (where, at_least) in enumerate(rules):
            if at_least is None:
                if naive.holds(where, ranges):
                    matching.add((e, r))
                continue
            p = probability(where, values)
            if abs(p - at_least) < CLOSE:
                close.add((e, r))
            elif p >= at_least:
                matching.add((e, r))
    return matching, close


@pytest.mark.parametrize("index", ["auto", *INDEXES])
@given(rng=RANDOMS)
def test_match(index, rng):
    rules = [
        (condition(rng, rng.choice((0, 1, 2, 3))), rng.choice([None, *THRESHOLDS]))
        for _ in range(rng.randint(1, 4))
    ]
    events = [event(rng) for _ in range(rng.randint(1, 3))]
    engine = made(rules, index)
    matching, close = expected_pairs(rules, events)
    inputs = [as_dicts(events), as_table(events)] + [as_maps(events)] * (index == "auto")
    for given_events in inputs:
        found = pairs(engine.match(given_events))
        assert set(found) - close == matching
        assert len(found) == len(set(found))
        assert [p for block in engine.match_blocks(given_events) for p in pairs(block)] == found
        counts = engine.count(given_events).tolist()
        assert counts == [sum(1 for e, _ in found if e == n) for n in range(len(events))]
        assert set(pairs(engine.top(given_events, len(rules)))) == set(found)


@given(RANDOMS)
def test_probability_in_explain(rng):
    where, values = condition(rng), event(rng)
    rules = made([(where, 0.5)])
    (given_event,) = as_dicts([values])
    explanation = rules.explain(given_event, 0)
    p = probability(where, values)
    assert explanation.probability == pytest.approx(p, abs=CLOSE)
    assert 0 <= explanation.probability <= 1
    assert explanation.at_least == 0.5
    assert explanation.matched == (explanation.probability >= 0.5)
    assert explanation.matched == (len(rules.match(given_event)) == 1)
    for test in explanation.predicates:
        assert 0 <= test.probability <= 1
        if test.holds is not True:
            assert test.probability == 0


@given(RANDOMS)
def test_values_without_uncertainty_match_as_without_thresholds(rng):
    wheres = [condition(rng, 2) for _ in range(4)]
    events = as_dicts([event(rng, most=0) for _ in range(4)])
    expected = pairs(made([(where, None) for where in wheres]).match(events))
    certain = made([(where, rng.choice(THRESHOLDS)) for where in wheres])
    assert pairs(certain.match(events)) == expected
    # The same as ranges of one value, in a block that has other ranges.
    others = [{"x": {"low": 1, "high": 2}}]
    assert [p for p in pairs(certain.match([*events, *others])) if p[0] < 4] == expected


@given(RANDOMS)
def test_a_higher_threshold_matches_less(rng):
    where, values = condition(rng), event(rng)
    thresholds = sorted({rng.random() or 1.0 for _ in range(10)})
    rules = made([(where, each) for each in thresholds])
    (given_event,) = as_dicts([values])
    found = sorted(rule for _, rule in pairs(rules.match(given_event)))
    assert found == list(range(len(found)))
    explained = rules.explain(given_event, 0).probability
    assert found == [i for i, each in enumerate(thresholds) if explained >= each]


# ------------------------------------------------------------ known probabilities


@pytest.mark.parametrize(
    ("where", "value", "p"),
    [
        ("x < 0.5", UNIT, 0.5),
        ("x <= 0.5", UNIT, 0.5),
        ("x > 0.5", UNIT, 0.5),
        ("x >= 0.5", UNIT, 0.5),
        ("x < 0.1", UNIT, 0.1),
        ("NOT x < 0.1", UNIT, 0.9),
        ("x = 0.5", UNIT, 0.0),
        ("x IN (0.25, 0.5)", UNIT, 0.0),
        ("x <> 0.5", UNIT, 1.0),
        ("x < 0.3 OR x >= 0.3", UNIT, 1.0),
        ("x < 0.3 OR x > 0.3", UNIT, 1.0),
        ("x <= 0", UNIT, 0.0),
        ("x >= 1", UNIT, 0.0),
        ("x IS NOT NULL", UNIT, 1.0),
        ("x IS NULL", UNIT, 0.0),
        ("x BETWEEN 22 AND 27", {"low": 20, "high": 30}, 0.5),
        ("x < 20 OR x < 25", {"low": 15, "high": 35}, 0.5),
        ("x > 0.7 AND x < 0.9 OR x BETWEEN 0.8 AND 1", UNIT, 0.3),
        ("x < 3", {"low": -1.7e308, "high": 1.7e308}, 0.5),
        ("x > 0", {"low": -3, "high": 3, "mean": 0, "deviation": 1}, 0.5),
        ("x < 15", {"edges": [10, 20, 30], "weights": [0.5, 0.5]}, 0.25),
        ("x < 25", {"edges": [0, 10, 20, 30], "weights": [0.0, 0.5, 0.5]}, 0.75),
        ("n <= 3", {"low": 1, "high": 6}, 0.5),
        ("n = 3", {"low": 1, "high": 6}, 1 / 6),
        ("n IN (1, 3, 5, 9)", {"low": 1, "high": 6}, 0.5),
        ("n NOT IN (1, 3, 5, 9)", {"low": 1, "high": 6}, 0.5),
        ("n > 2 AND n <> 4", {"low": 1, "high": 6}, 0.5),
        ("n >= 0", {"low": -(2**63), "high": 2**63 - 1}, 0.5),
        ("price = 0.01", {"low": Decimal("0.00"), "high": Decimal("0.03")}, 0.25),
        ("at < '2024-01-01 12:00'", {"low": EPOCH, "high": EPOCH + timedelta(days=1)}, 0.5),
    ],
)
def test_known_probabilities(where, value, p):
    """At exactly the threshold a rule matches."""
    attribute = where.removeprefix("NOT ").split()[0]
    rules = tocsin.Rules(SCHEMA)
    rules.add("exactly", where, at_least=p or 1e-300)
    rules.add("more", where, at_least=min(1.0, p + 1e-9))
    found = rules.match({attribute: value}).ids().to_pylist()
    assert found == {0.0: [], 1.0: ["exactly", "more"]}.get(p, ["exactly"])
    explained = rules.explain({attribute: value}, "exactly").probability
    assert explained == pytest.approx(p, abs=1e-12)


def test_attributes_are_independent():
    rules = tocsin.Rules(SCHEMA)
    rules.add("and", "x < 0.5 AND y < 0.5", at_least=0.25)
    rules.add("or", "x < 0.5 OR y < 0.5", at_least=0.75)
    rules.add("not", "NOT (x < 0.5 AND y < 0.5)", at_least=0.75)
    rules.add("xor", "(x < 0.5 AND y >= 0.5) OR (x >= 0.5 AND y < 0.5)", at_least=0.5)
    rules.add("never", "x < 0.5 AND y < 0.5", at_least=0.26)
    found = rules.match({"x": UNIT, "y": UNIT}).ids().to_pylist()
    assert sorted(found) == ["and", "not", "or", "xor"]


@pytest.mark.parametrize("seed", range(3))
def test_many_conjunctions(seed):
    """More than a word of them, over one, two and three attributes."""
    rng = Random(seed)
    names = ["x", "y", "n"][: seed + 1]
    boxes = []
    for _ in range(90):
        tests = [(a, rng.randint(0, 12)) for a in rng.sample(names, rng.randint(1, len(names)))]
        boxes.append(naive.And(tuple(naive.Between(a, low, low + 1) for a, low in tests)))
    where = naive.Or(tuple(rng.sample(boxes, 90 if seed == 0 else 30)))
    if seed == 0:  # duplicates, so that there are 90 conjunctions of few bounds
        assert naive.conjunction_count(where) == 90
    values = {"x": Uniform(1.25, 9.5), "y": Normal(0.0, 9.0, 4.0, 2.0), "n": Uniform(0, 11)}
    rules = made([(where, 0.5)])
    explained = rules.explain(as_dicts([values])[0], 0).probability
    assert explained == pytest.approx(probability(where, values), abs=CLOSE)
    assert len(rules.match(as_dicts([values]))) == (explained >= 0.5)


# ------------------------------------------------------------ too much work


def test_one_of_many_attributes_is_little_work():
    names = [f"a{i}" for i in range(40)]
    rules = tocsin.Rules(dict.fromkeys(names, "number"))
    rules.add("any", " OR ".join(f"{name} > 0.9" for name in names), at_least=0.9)
    p = rules.explain(dict.fromkeys(names, UNIT), "any").probability
    assert p == pytest.approx(1 - 0.9**40, abs=1e-12)


def entangled(attributes):
    """A condition whose states double with each attribute, after the first half of them."""
    half = attributes // 2
    return " OR ".join(f"(a{i} > 0.5 AND a{i + half} > 0.5)" for i in range(half))


def test_a_rule_that_takes_too_much_work_is_refused():
    rules = tocsin.Rules({f"a{i}": "number" for i in range(60)} | {"x": "number"})
    rules.add("few", entangled(20), at_least=0.5)
    words = r"at_least requires the probability that one of 30 conjunctions .* too many ways"
    with pytest.raises(tocsin.RuleError, match=f"^rule 'many': {words}"):
        rules.add("many", entangled(60), at_least=0.5)
    rules.add("many", entangled(60))
    with pytest.raises(tocsin.RuleError, match=f"^rule 'many': {words}"):
        rules.replace("many", entangled(60), at_least=0.5)
    table = [
        {"id": 1, "where": "x > 1", "at_least": 0.5},
        {"id": 2, "where": entangled(60), "at_least": None},
        {"id": 3, "where": entangled(60), "at_least": 0.5},
    ]
    more = tocsin.Rules(rules.schema)
    with pytest.raises(tocsin.RuleError, match=rf"^row 2 \(rule 3\): {words}"):
        more.add_many(table)
    assert len(more) == 0
    more.add_many(table[:2])
    assert len(more) == 2


def test_categories_and_terms_do_not_count_as_work():
    """They have one value, whatever the event."""
    schema = {f"a{i}": "category" for i in range(30)} | {f"b{i}": "flag" for i in range(30)}
    rules = tocsin.Rules(schema | {"x": "number"})
    where = " OR ".join(f"(a{i} = 'k' AND b{i} AND x > {i})" for i in range(30))
    rules.add("r", where, at_least=0.5)
    hit = {"a3": "k", "b3": True, "x": {"low": 2.0, "high": 4.0}}
    assert len(rules.match([hit, hit | {"b3": False}, hit | {"a2": "k", "b2": True}])) == 2


@given(RANDOMS)
def test_no_event_takes_more_work_than_the_check_has_measured(rng):
    """The check must measure an upper bound: a rule that was added is never refused later."""
    where, values = condition(rng), event(rng, most=5)
    rules = made([(where, 0.5)])
    version = rules.snapshot()
    conjunctions = version.segments[0].segment.conjunctions_of(0)
    if conjunctions.size < 2:
        return
    used = range(len(SCHEMA))
    keys = Events.read(as_dicts([values]), version.attributes, used, version.categories).keys(0, 1)
    line, last = np.empty(len(SCHEMA), np.int64), np.empty(len(SCHEMA), np.int64)
    write_lines(keys, 0, line, last)
    uncertainty = uncertainty_of(scales_of(version.attributes), None)
    spent = union_work(conjunctions, uncertainty, line, last, MAX_WORK)
    assert spent <= measure_work(conjunctions, version.attributes)


def test_a_store_that_was_changed_cannot_take_for_ever(monkeypatch):
    rules = tocsin.Rules({f"a{i}": "number" for i in range(20)})
    rules.add("r", entangled(20), at_least=0.5)
    monkeypatch.setattr("tocsin.engine.filters.MAX_WORK", 1000)
    with pytest.raises(tocsin.RuleError, match="too many ways"):
        rules.match({f"a{i}": UNIT for i in range(20)})


def test_fractions_of_the_oracle():
    """The oracle itself, on what is known."""
    below = naive.Compare("x", "<", 0.25)
    assert probability(below, {"x": Uniform(0.0, 1.0)}) == 0.25
    assert probability(below, {"x": Histogram((0.0, 0.5, 1.0), (1.0, 0.0))}) == 0.5
    assert probability(naive.Compare("n", "=", 3), {"n": Uniform(1, 6)}) == float(Fraction(1, 6))
