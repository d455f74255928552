"""Whatever the condition and the event, every way of asking gives what the oracle says."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests import generate, naive
from tocsin.engine.explain import condition_text
from tocsin.model.categories import Categories
from tocsin.model.condition import ConditionReader

RANDOMS = st.randoms(use_true_random=False)


def some_rules(rng, most=8, weighted=False):
    rules = []
    for number in range(rng.randint(1, most)):
        where = generate.condition(rng, rng.choice((0, 1, 1, 2)))
        tested = sorted(attributes(where))
        weights = {}
        if weighted and tested and rng.random() < 0.7:
            names = rng.sample(tested, rng.randint(1, len(tested)))
            weights = {a: rng.choice((0.0, 0.1, 0.25, 1.0, 3.0)) for a in names}
        has_score = weighted and not weights and rng.random() < 0.5
        score = rng.choice((0.0, 0.3, 1.0, 2.5)) if has_score else None
        rules.append(naive.Rule(number, where, weights, score))
    return rules


def attributes(node):
    parts = getattr(node, "parts", None) or [p for p in (getattr(node, "part", None),) if p]
    own = {node.attribute} if hasattr(node, "attribute") else set()
    return own.union(*(attributes(p) for p in parts))


def made(rules, rng=None, index="auto"):
    engine = tocsin.Rules(generate.SCHEMA, index=index)
    for rule in rules:
        where = naive.sql(rule.where, rng)
        engine.add(rule.id, where, weights=rule.weights or None, score=rule.score)
    return engine


def pairs(matches):
    table = matches.to_arrow()
    return list(zip(table["event"].to_pylist(), table["rule"].to_pylist(), strict=True))


@given(RANDOMS)
def test_match(rng):
    rules = some_rules(rng)
    events = [generate.event(rng) for _ in range(rng.randint(1, 6))]
    expected = naive.matches(rules, events)
    engine = made(rules, rng)
    table = generate.arrow_table(events)
    found = pairs(engine.match(table))
    assert set(found) == expected
    assert len(found) == len(expected)
    assert set(pairs(engine.match(events))) == expected
    assert engine.count(table).tolist() == [
        sum(1 for e, _ in expected if e == n) for n in range(len(events))
    ]
    blocks = [pair for block in engine.match_blocks(table) for pair in pairs(block)]
    assert blocks == found
    for number, event in enumerate(events):
        assert {(number, r) for _, r in pairs(engine.match(event))} == {
            pair for pair in expected if pair[0] == number
        }


@given(RANDOMS)
def test_explain(rng):
    (rule,) = some_rules(rng, most=1)
    event = generate.event(rng)
    explanation = made([rule], rng).explain(event, rule.id)
    assert explanation.matched == (naive.truth(rule.where, event) is True)
    by_conjunction = [
        all(t.holds is True for t in explanation.predicates if t.conjunction == c)
        for c in range(explanation.conjunctions)
    ]
    assert any(by_conjunction) == explanation.matched
    for test in explanation.predicates:
        assert test.value == event.get(test.attribute) or test.value != test.value
        assert (test.off is None) or test.holds is False
    assert str(rule.id) in str(explanation)


@given(RANDOMS, st.integers(1, 4))
def test_top(rng, k):
    rules = some_rules(rng, weighted=True)
    events = [generate.event(rng) for _ in range(rng.randint(1, 4))]
    order = list(generate.SCHEMA)
    engine = made(rules)
    common = {a: rng.choice((0.0, 0.5, 2.0)) for a in rng.sample(order, 3)}
    own = [{a: rng.choice((0.0, 0.5, 2.0)) for a in rng.sample(order, 2)} for _ in events]
    table = generate.arrow_table(events)
    maps = pa.array([list(w.items()) for w in own], pa.map_(pa.string(), pa.float64()))
    nothing, same = [None] * len(events), [common] * len(events)
    for given_weights, each in ((None, nothing), (common, same), (own, own), (maps, own)):
        top = engine.top(table, k, weights=given_weights)
        for number, event in enumerate(events):
            expected = naive.top(rules, event, k, each[number], order)
            span = slice(top.offsets[number], top.offsets[number + 1])
            assert [*zip(top.rules[span].tolist(), top.scores[span].tolist(), strict=True)] == [
                (rule, score) for rule, score in expected
            ]


@given(RANDOMS)
def test_what_is_written_reads_the_same(rng):
    """The text made from a conjunction, read again, gives the same conjunction."""
    engine = tocsin.Rules(generate.SCHEMA)
    where = generate.condition(rng, rng.choice((0, 0, 1)))
    engine.add("given", naive.sql(where, rng))
    (live,) = engine.snapshot().segments
    segment = live.segment
    c = segment.parts[0].conjunctions
    if c.size != 1:
        return
    segment.metadata = segment.metadata._replace(where=pa.nulls(1, pa.large_string()))
    text = condition_text(segment, 0, engine._draft.attributes, engine._draft.categories)
    again = tocsin.Rules(generate.SCHEMA)
    again.add("written", text)
    events = [generate.event(rng) for _ in range(20)]
    assert again.count(events).tolist() == engine.count(events).tolist(), text


@given(RANDOMS)
def test_a_shape_is_shared_without_changing_the_meaning(rng):
    """ConditionReader read one after the other give what each gives when read alone."""
    schema = tocsin.Schema(generate.SCHEMA)
    together = ConditionReader(schema)
    categories = Categories()
    for _ in range(4):
        text = naive.sql(generate.condition(rng, 1), rng)
        alone = ConditionReader(schema).read(text, categories.copy(len(categories)))
        assert together.read(text, categories) == alone
        assert (
            together.read(text, categories)[0] == ConditionReader(schema).read(text, categories)[0]
        )


_ELEMENTS = {
    "visits": ["1", "-5", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
               "-5819204377310644129", "-5819204377310644128", "1.5", "2.0", "-3.", "0" * 39 + "1",
               "0.0000000000000000001", "1e3", "NULL", "- 7", ".5", "(4)", "2L", "3 + 4", "'x'"],
    "price": ["1", "-5", "0", "-0", "1.5", "-2.25", "0.1", "100000000000000000000", "1e3", "-1e-3",
              "NULL", ".5", "1.5D", "2 * 3", "'x'"],
    "tier": ["'a'", "'b c'", "'it, is'", "'5'", "'`'", "''", "'it''s'", "NULL", "5", "r'a'"],
    "seen": ["'2024-05-01'", "'2024-05-01 12:30'", "'noon'", "DATE '2024-05-02'", "NULL", "5",
             "CAST('2024-05-03' AS DATE)"],
}  # fmt: skip
_FORMS = ["{} IN ({})", "{} NOT IN ({})", "NOT {} IN ({})", "{} = {}", "{} <> {}", "{} <=> {}"]


def _fill(rng, attribute, form):
    """Return a test of an attribute; most lists are plain and of one type."""
    pool = _ELEMENTS[attribute][: rng.choice((3, 3, 8, 30))]
    size = rng.randint(1, 12) if "IN" in form else 1
    comma = rng.choice((", ", ",", " , ", ",\n"))
    return form.format(attribute, comma.join(rng.choice(pool) for _ in range(size)))


def _read(read, text, categories):
    size = len(categories)
    try:
        return read(text, categories)
    except tocsin.ConditionError as error:
        categories.truncate(size)
        return str(error)


@given(RANDOMS)
def test_texts_that_differ_in_literals_mean_what_each_means_alone(rng):
    """Lists of any length, fixed literals and errors, read through a shared shape or not."""
    together = ConditionReader(tocsin.Schema(generate.SCHEMA))
    categories, alone_categories = Categories(), Categories()
    tests = [(rng.choice(sorted(_ELEMENTS)), rng.choice(_FORMS)) for _ in range(rng.randint(1, 3))]
    junction = rng.choice((" AND ", " OR "))
    for _ in range(8):
        text = junction.join(_fill(rng, *test) for test in tests)
        alone = ConditionReader(tocsin.Schema(generate.SCHEMA))._read_unshared
        expected = _read(alone, text, alone_categories)
        assert _read(together.read, text, categories) == expected, text
        assert list(categories) == list(alone_categories)


def test_numbers_of_events_are_right_across_blocks():
    """More events than one block and more matches than one buffer."""
    rules = tocsin.Rules({"n": "integer", "m": "integer"})
    rules.add("all", "n >= 0")
    rules.add("even", "n >= 0 AND m = 0")
    rules.add("either", "n = 70000 OR m = 0")
    n = np.arange(200_000)
    table = pa.table({"n": n, "m": n % 2})
    matches = rules.match(table).by_rule()
    assert np.array_equal(matches["all"], n)
    assert np.array_equal(matches["even"], n[::2])
    assert np.array_equal(matches["either"], n[::2])
    counts = rules.count(table)
    assert np.array_equal(counts, 1 + 2 * (n % 2 == 0))
    starts = [block.first for block in rules.match_blocks(table)]
    assert starts == sorted(set(starts))
    assert len(starts) > 2
    assert np.array_equal(rules.top(table, 1).rules, np.where(n % 2 == 0, 1, 0))
