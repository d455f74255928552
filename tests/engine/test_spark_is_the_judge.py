"""Spark SQL is the judge of meaning: conditions must be true for us where they are true for it.

5,000 random conditions meet 2,000 random events, and every one of the ten million answers is
compared. The plain oracle of `tests/naive.py` stands trial as well, because other tests rely on
it where there is no Spark.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tocsin
from tests import generate, naive
from tests.engine import test_decimals

SEED = 20240501
CONDITIONS = 5_000
EVENTS = 2_000
CHUNK = 250  # conditions to a Spark query; beyond this, planning grows faster than linearly

# Only speed: 5,000 expressions are run once on few rows, so compiling them or looking for what
# they share costs far more than it saves, and the optimizer is a slow place to evaluate rows in.
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    ),
}


@dataclass(frozen=True)
class Case:
    """Conditions (as trees and as texts) and events (as dicts and as a table)."""

    conditions: list[naive.Condition]
    texts: list[str]
    events: list[dict[str, Any]]
    table: pa.Table


@pytest.fixture(scope="module")
def case() -> Case:
    rng = Random(SEED)
    conditions = [generate.condition(rng, depth=3) for _ in range(CONDITIONS)]
    texts = [naive.sql(condition, rng) for condition in conditions]
    events = [generate.event(rng) for _ in range(EVENTS)]
    return Case(conditions, texts, events, generate.arrow_table(events))


@pytest.fixture(scope="module")
def judged(spark: SparkSession, case: Case) -> Iterator[np.ndarray]:
    """Spark's answers: bool[event, condition]."""
    before = {key: spark.conf.get(key, None) for key in QUICK}
    for key, setting in QUICK.items():
        spark.conf.set(key, setting)
    yield ask_spark(spark, case.table, case.texts)
    for key, setting in before.items():
        if setting is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, setting)


def ask_spark(spark: SparkSession, table: pa.Table, texts: list[str]) -> np.ndarray:
    """Where each condition is true as a WHERE would have it: bool[event, condition]."""
    number = pa.array(range(table.num_rows), pa.int64())
    events = spark.createDataFrame(table.append_column("event_number", number))
    blocks = []
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        columns = [f"coalesce(({text}), false) AS c{i}" for i, text in enumerate(chunk)]
        answers = events.selectExpr("event_number", *columns).toArrow().sort_by("event_number")
        assert answers["event_number"].to_pylist() == number.to_pylist()
        blocks.append(np.column_stack([answers[f"c{i}"].to_numpy() for i in range(len(chunk))]))
    return np.concatenate(blocks, axis=1)


def ask_tocsin(table: pa.Table, texts: list[str]) -> np.ndarray:
    """Where each condition matches, all of them being rules of one set: bool[event, condition]."""
    rules = tocsin.Rules(generate.SCHEMA)
    rules.add_many(pa.table({"id": range(len(texts)), "where": texts}))
    assert len(rules) == len(texts)
    events, positions = rules.match(table).pairs()
    answers = np.zeros((table.num_rows, len(texts)), bool)
    answers[events, positions] = True
    assert len(events) == answers.sum(), "a pair came twice"
    return answers


def compare(case: Case, spark: np.ndarray, other: np.ndarray, name: str) -> None:
    """Fail with the first few answers that differ, those of short conditions first."""
    assert spark.shape == other.shape
    wrong = np.argwhere(spark != other)
    if not len(wrong):
        return
    lines = [f"{len(wrong)} of {spark.size} answers differ, in {len(set(wrong[:, 1]))} conditions"]
    for event, condition in sorted(wrong.tolist(), key=lambda w: len(case.texts[w[1]]))[:5]:
        tested = attributes(case.conditions[condition])
        seen = {key: value for key, value in case.events[event].items() if key in tested}
        lines += [
            f"condition {condition}: {case.texts[condition]!r}",
            f"  plainly: {naive.sql(case.conditions[condition])}",
            f"  event {event}: {seen}",
            f"  Spark says {spark[event, condition]}, {name} says {other[event, condition]}",
        ]
    pytest.fail("\n".join(lines), pytrace=False)


def leaves(node: naive.Condition) -> Iterator[naive.Leaf]:
    match node:
        case naive.And(parts) | naive.Or(parts):
            for part in parts:
                yield from leaves(part)
        case naive.Not(part):
            yield from leaves(part)
        case _:
            yield node


def attributes(node: naive.Condition) -> set[str]:
    return {leaf.attribute for leaf in leaves(node) if not isinstance(leaf, naive.Constant)}


def test_tocsin_agrees_with_spark(case: Case, judged: np.ndarray) -> None:
    answered = ask_tocsin(case.table, case.texts)
    compare(case, judged, answered, "Tocsin")


def test_tocsin_agrees_with_spark_on_one_rule_at_a_time(case: Case, judged: np.ndarray) -> None:
    # Alone, a rule leaves most attributes unused, perhaps all of them.
    constants = ["TRUE", "FALSE", "NULL", "NOT NULL", "NOT FALSE AND TRUE"]
    for text, expected in zip(constants, [True, False, False, False, True], strict=True):
        assert (ask_tocsin(case.table, [text]) == expected).all(), text
    some = 300
    answered = np.concatenate([ask_tocsin(case.table, [t]) for t in case.texts[:some]], axis=1)
    compare(case, judged[:, :some], answered, "Tocsin")


def test_naive_agrees_with_spark(case: Case, judged: np.ndarray) -> None:
    # Plain Python is slow: every condition, but only some of the events.
    some = 100
    rules = [naive.Rule(i, condition) for i, condition in enumerate(case.conditions)]
    answered = np.zeros((some, CONDITIONS), bool)
    for pair in naive.matches(rules, case.events[:some]):
        answered[pair] = True
    compare(case, judged[:some], answered, "the naive oracle")


def test_quick_settings_do_not_change_the_meaning(
    spark: SparkSession, case: Case, judged: np.ndarray
) -> None:
    some = 100
    for key in QUICK:
        spark.conf.unset(key)
    try:
        answered = ask_spark(spark, case.table, case.texts[:some])
    finally:
        for key, setting in QUICK.items():
            spark.conf.set(key, setting)
    compare(case, judged[:, :some], answered, "Spark by default")


def test_the_case_is_worth_judging(spark: SparkSession, case: Case, judged: np.ndarray) -> None:
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert judged.shape == (EVENTS, CONDITIONS) == (len(case.events), len(case.texts))
    assert case.table.num_rows == EVENTS
    assert len(set(case.texts)) > 0.9 * CONDITIONS

    true_for = judged.sum(axis=0)
    assert ((true_for > 0) & (true_for < EVENTS)).mean() > 0.7
    assert 0.2 < judged.mean() < 0.8
    counts = [naive.conjunction_count(condition) for condition in case.conditions]
    assert max(counts) > 32
    assert sum(count > 4 for count in counts) > CONDITIONS / 10

    forms: Counter[tuple[str, str]] = Counter()
    for condition in case.conditions:
        for leaf in leaves(condition):
            if not isinstance(leaf, naive.Constant):
                form = leaf.operator if isinstance(leaf, naive.Compare) else type(leaf).__name__
                forms[generate.SCHEMA[leaf.attribute], form] += 1
    everywhere = {"=", "<>", "In", "IsNull", "NullSafe"}
    ordered = everywhere | {"<", "<=", ">=", ">", "Between"}
    with_order = "integer", "number", "time", "decimal(9,2)", "decimal(18,6)"
    expected = {(kind, form) for kind in with_order for form in ordered}
    expected |= {("integer", "Outside")}
    expected |= {("category", form) for form in everywhere}
    expected |= {("flag", form) for form in ordered | {"Flag", "Is"}}
    assert set(forms) == expected
    assert min(forms.values()) > 50

    spellings = [re.sub(r"\s+", " ", text.upper()) for text in case.texts]
    for word in (
        *("<", "<=", "=", "==", "<>", "!=", ">=", ">", "<=>", " AND ", " OR ", "NOT ", "!("),
        *(" BETWEEN ", " NOT BETWEEN ", " IN", " NOT IN", " IS NULL", " IS NOT NULL"),
        *(" IS TRUE", " IS NOT TRUE", " IS FALSE", " IS NOT FALSE", " IS DISTINCT FROM "),
        *(" IS NOT DISTINCT FROM ", "CAST('NAN' AS DOUBLE)", "CAST('-INFINITY' AS DOUBLE)"),
        *("TIMESTAMP '", "DATE '", "9223372036854775808", "-9223372036854775809"),
    ):
        assert sum(word in text for text in spellings) > 10, word
    mirrored = re.compile(r"(NULL|TRUE|FALSE|[0-9][D.]?|'|\") ?(<|<=|=|==|<>|!=|>=|>|<=>) ?`?[A-Z]")
    assert sum(bool(mirrored.search(text)) for text in spellings) > 1_000

    for attribute, kind in generate.SCHEMA.items():
        column = case.table[attribute]
        assert 0 < column.null_count < EVENTS / 4
        if kind == "number":
            numbers = column.drop_null().to_numpy()
            assert np.isnan(numbers).any()
            assert np.isposinf(numbers).any()
            assert np.isneginf(numbers).any()
            assert (np.signbit(numbers) & (numbers == 0)).any()
        if kind == "integer":
            integers = set(column.to_pylist())
            assert {generate.SMALLEST, generate.LARGEST, 2**53, 2**53 + 1} <= integers


PECULIAR = {
    "an integer ordered against an exact literal outside of bigint: constant, also for null": [
        "visits < 9223372036854775808",
        "visits <= 9223372036854775807.5",
        "visits > -9223372036854775809",
        "visits >= 9223372036854775808",
        "NOT visits >= 9223372036854775808",
        "9223372036854775808 > visits",
        "visits BETWEEN -9223372036854775809 AND 9223372036854775808",
        "visits BETWEEN 0 AND 9223372036854775808",
        "visits NOT BETWEEN 9223372036854775808 AND 9223372036854775809",
    ],
    "more than 38 digits: decimals are rounded": [
        "visits = 0.00000000000000000001",
        "visits IN (5.000000000000000001, 100000000000000000000)",
        "visits NOT IN (5.000000000000000001, 100000000000000000000)",
    ],
}


AGREED, REFUSED = PECULIAR.values()


@pytest.mark.parametrize("text", AGREED)
def test_where_spark_is_peculiar_we_agree(spark: SparkSession, text: str) -> None:
    values = [None, generate.SMALLEST, -1, 0, 1, 5, generate.LARGEST]
    table = generate.arrow_table([{"visits": value} for value in values])
    expected = ask_spark(spark, table, [text])[:, 0].tolist()
    answered = ask_tocsin(table, [text])[:, 0].tolist()
    assert dict(zip(values, answered, strict=True)) == dict(zip(values, expected, strict=True))


def test_constants_of_all_types_with_decimals(spark: SparkSession) -> None:
    texts = [*test_decimals.EXACT, *test_decimals.DOUBLES]
    expected = ask_spark(spark, test_decimals.EVENTS, texts)
    for column, text in enumerate(texts):
        events = np.flatnonzero(expected[:, column]).tolist()
        assert test_decimals.matched(text) == events, text


@pytest.mark.parametrize("text", REFUSED)
def test_where_spark_rounds_we_refuse(text: str) -> None:
    table = generate.arrow_table([{"visits": 5}])
    with pytest.raises(tocsin.ConditionError, match="decimal places"):
        ask_tocsin(table, [text])
