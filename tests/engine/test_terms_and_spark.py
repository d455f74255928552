"""Spark is the judge of conditions over terms: functions, patterns, decimals and nested fields.

Conditions are written twice, since an error in Spark is null here: `try_add(a, b)` for `a + b`. The
quick profile has 600 conditions, the long one 5,000; each meets 2,000 events.
"""

import os
from random import Random

import numpy as np
import pytest

import tocsin
from tests.model.terms.events import KINDS, MAP, STRUCT, ZONES, table
from tests.model.terms.expressions import Both, Generator, call, same
from tests.model.terms.test_spark_is_the_judge import ask_spark, judge  # noqa: F401  (a fixture)
from tocsin.errors import ConditionError
from tocsin.model.terms import nested_type

LONG = os.environ.get("TOCSIN_PROFILE") == "long"
SEED = 7
CHUNKS = 25 if LONG else 3  # each in a time zone of its own
CHUNK = 200  # conditions, which test fewer terms than a version can have
EVENTS = 2_000
NUMBERS = ["0", "1", "5", "-7", "100", "2.5", "0.05", "-99.99", "1e3", "3.6e0", "12345678901"]
TEXTS = ["'a'", "'abc'", "'ABC'", "''", "'straße'", "'12'", "'2024'"]
TIMES = ["TIMESTAMP '2024-03-31 02:30:00'", "TIMESTAMP '1970-01-01 00:00:00'", "DATE '2024-02-29'"]
PATTERNS = ["'a%'", "'%c'", "'ABC'", "'%b%'", "'a_c'", "'%'", "'st%e'", "''"]
CONSTANTS = {
    **dict.fromkeys(["bigint", "int", "double", "decimal"], NUMBERS),
    "timestamp": TIMES,
    "date": [*TIMES, "'2024-02-29'", "'2024-02-29 12:30:00'"],
    "string": TEXTS,
    "boolean": ["TRUE", "FALSE"],
}


class Conditions:
    """Draws conditions."""

    def __init__(self, rng: Random):
        self.rng = rng
        self.terms = Generator(rng)

    def draw(self, depth: int) -> Both:
        """Return a condition whose tree has at most so many levels of AND and OR."""
        if depth == 0 or self.rng.random() < 0.4:
            return self.leaf()
        parts = [self.draw(depth - 1) for _ in range(2)]
        pattern = self.rng.choice(["({} AND {})", "({} OR {})", "(NOT ({} AND {}))"])
        return call(pattern, *parts)

    def leaf(self) -> Both:
        rng = self.rng
        type_ = rng.choice(list(CONSTANTS))
        term = self.terms.of(type_, rng.choice([0, 1, 1, 2]))
        if rng.random() < 0.1:
            return call(rng.choice(["({} IS NULL)", "({} IS NOT NULL)"]), term)
        if type_ == "boolean" and rng.random() < 0.7:
            return call(rng.choice(["({})", "(NOT {})", "({} IS TRUE)"]), term)
        if type_ == "string" and rng.random() < 0.4:
            word = rng.choice(["LIKE", "NOT LIKE", "ILIKE"])
            return call(f"({{}} {word} {{}})", term, same(rng.choice(PATTERNS)))
        constants = [same(rng.choice(CONSTANTS[type_])) for _ in range(3)]
        ordered = ["<", "<=", ">", ">="] if type_ not in ("string", "boolean") else []
        operator = rng.choice(["=", "<>", "IN", "<=>", *ordered, *ordered])
        if operator == "IN":
            return call("({} IN ({}, {}, {}))", term, *constants)
        if ordered and rng.random() < 0.2:
            return call("({} BETWEEN {} AND {})", term, *constants[:2])
        return call(f"({{}} {operator} {{}})", term, constants[0])


def make_schema(zone):
    schema = tocsin.Schema(dict(KINDS), timezone=zone)
    schema.nested |= {"loc": ("loc", nested_type(STRUCT)), "tags": ("tags", nested_type(MAP))}
    return schema


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_conditions_over_terms_are_what_spark_says(judge, chunk):  # noqa: F811
    rng = Random(SEED + chunk)
    zone = ZONES[chunk % len(ZONES)]
    events = table(rng, EVENTS)
    conditions, texts, refused = Conditions(rng), [], 0
    rules = tocsin.Rules(make_schema(zone))
    while len(texts) < CHUNK:
        both = conditions.draw(rng.choice([0, 1, 1, 2]))
        try:
            rules.add(len(texts), both.tocsin)
        except ConditionError:
            refused += 1
            continue
        texts.append(both)
    assert refused < CHUNK / 2  # tests of constants
    compare(judge, rules, texts, events, zone)
    compare(judge, all_at_once(texts, zone), texts, events, zone)


@pytest.mark.parametrize("zone", ["UTC", "America/Sao_Paulo"])
def test_a_list_is_cast_to_one_type(judge, zone):  # noqa: F811
    events = table(Random(SEED), EVENTS)
    lists = [
        "to_date(ts) IN ('2024-02-29 12:30:00', '2024-03-31')",
        "to_date(ts) IN ('2024-02-29 12:30:00', DATE '2024-03-31')",
        "to_date(ts) IN ('2024-02-29 12:30:00', TIMESTAMP '2024-03-31 00:00:00')",
        "to_date(ts) NOT IN ('2024-02-29 12:30:00', TIMESTAMP '2024-03-31 00:00:00')",
        "to_date(ts) IN ('2024-02-29', TIMESTAMP '2024-03-31 02:30:00', NULL)",
        "ts IN ('2024-02-29 12:30:00', DATE '2024-02-29', '2024-02-29')",
    ]
    texts = list(map(same, lists))
    compare(judge, all_at_once(texts, zone), texts, events, zone)


def all_at_once(texts, zone):
    rules = tocsin.Rules(make_schema(zone))
    rules.add_many([{"id": i, "where": text.tocsin} for i, text in enumerate(texts)])
    return rules


def compare(judge, rules, texts, events, zone):  # noqa: F811
    """Fail unless rules match where Spark says that their texts are true."""
    spark = ask_spark(judge, events, [f"coalesce({t.spark}, false)" for t in texts], zone)
    expected = np.column_stack([spark[f"c{i}"].to_numpy() for i in range(len(texts))])
    answers = np.zeros(expected.shape, bool)
    matches = rules.match(events)
    answers[matches.events, np.array(matches.ids())] = True
    wrong = np.argwhere(answers != expected)
    lines = [
        f"{texts[c].tocsin}\n  {texts[c].spark}\n  in {zone}, event {e}: Spark says "
        f"{expected[e, c]}\n  {rules.explain(events.slice(e, 1), int(c))}"
        for e, c in {int(c): (int(e), int(c)) for e, c in wrong[::-1]}.values()
    ]
    shown = "\n".join(sorted(lines, key=len)[:6])
    assert not lines, f"{len(lines)} conditions differ\n{shown}"
