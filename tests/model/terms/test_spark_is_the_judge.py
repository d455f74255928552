"""Spark SQL is the judge of terms: every value of every random term must be the one it computes."""

import contextlib
import os
from collections.abc import Iterator
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
import sqlglot
from pyspark.sql import SparkSession

from tests.model.terms.events import KINDS, MAP, STRUCT, TEXTS, ZONES, table
from tests.model.terms.expressions import DAY_PARTS, UNITS, Both, Generator, call, quote, same
from tests.model.terms.patterns import LIKES, REGEXES, regex, short_text
from tocsin.errors import ConditionError
from tocsin.model import terms

LONG = os.environ.get("TOCSIN_PROFILE") == "long"
SEED = 20240501
CHUNKS = 25 if LONG else 3  # each in a time zone of its own
CHUNK = 200  # terms to a Spark query; beyond this, planning grows faster than linearly
ROWS = 300
TYPES = ["bigint", "int", "double", "decimal", "string", "boolean", "timestamp", "date"]

# It computes m + (n + 1) as (m + n) + 1, which may overflow where the expression as written does
# not. Tocsin computes what is written.
REORDERING = "org.apache.spark.sql.catalyst.optimizer.ReorderAssociativeOperator"
# Only speed; see tests/engine/test_spark_is_the_judge.py.
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.optimizer.excludedRules": (
        f"{REORDERING},org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    ),
}
SOURCES = {name: (name, terms.source_type(kind)) for name, kind in KINDS.items()}
SOURCES |= {"loc": ("loc", terms.nested_type(STRUCT)), "tags": ("tags", terms.nested_type(MAP))}


@pytest.fixture(scope="module")
def judge(spark: SparkSession) -> Iterator[SparkSession]:
    settings = QUICK | {"spark.sql.session.timeZone": "UTC"}
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, setting in QUICK.items():
        spark.conf.set(key, setting)
    yield spark
    for key, setting in before.items():
        if setting is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, setting)


def read(text: str, zone: str) -> terms.Term:
    return terms.read_term(sqlglot.parse_one(text, dialect="spark"), SOURCES, ZoneInfo(zone))


def ask_spark(spark: SparkSession, events: pa.Table, texts: list[str], zone: str) -> pa.Table:
    spark.conf.set("spark.sql.session.timeZone", zone)
    number = pa.array(range(events.num_rows), pa.int64())
    frame = spark.createDataFrame(events.append_column("event_number", number))
    columns = [f"({text}) AS c{i}" for i, text in enumerate(texts)]
    return frame.selectExpr("event_number", *columns).toArrow().sort_by("event_number")


def ask_tocsin(events: pa.Table, found: list[terms.Term], zone: str) -> list[pa.Array]:
    def column(name: str) -> pa.Array:
        return terms.as_source(events[name], SOURCES[name][1], ZoneInfo(zone))

    return terms.evaluate(found, column, events.num_rows, ZoneInfo(zone))


def plain(column: Any) -> list[Any]:
    """Values that can be compared: times as numbers, doubles as texts, with one zero."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    values = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [None if v is None else repr(v + 0.0) for v in values]
    return values


def name_of(type_: pa.DataType) -> str:
    return str(type_).removeprefix("large_").partition("[")[0]


def compare(
    events: pa.Table,
    both: list[Both],
    found: list[terms.Term],
    spark: pa.Table,
    zone: str,
    cut: int = 7,
) -> list[str]:
    """Return a line for each term that differs."""
    answers = ask_tocsin(events, found, zone)
    again = terms.evaluate(
        [terms.from_json(terms.to_json(term)) for term in found],
        lambda name: terms.as_source(events.slice(cut)[name], SOURCES[name][1], ZoneInfo(zone)),
        events.num_rows - cut,
        ZoneInfo(zone),
    )
    lines = []
    for i, (text, term, answer, part) in enumerate(zip(both, found, answers, again, strict=True)):
        assert answer.type == terms.arrow_type(term.type), text.tocsin
        assert part.equals(answer.slice(cut)) or plain(part) == plain(answer.slice(cut)), (
            text.tocsin
        )
        expected = spark[f"c{i}"]
        if name_of(expected.type) != name_of(answer.type):
            lines.append(f"{text.tocsin}\n  is {answer.type}, for Spark {expected.type}")
            continue
        ours, theirs = plain(answer), plain(expected)
        wrong = [row for row in range(len(ours)) if ours[row] != theirs[row]]
        if wrong:
            row = wrong[0]
            event = {name: events[name][row].as_py() for name in term.columns}
            lines.append(
                f"{text.tocsin}\n  {text.spark}\n  {term.sql}\n  in {zone}, {len(wrong)} events, "
                f"first {row}: {event}\n  Tocsin {ours[row]!r}, Spark {theirs[row]!r}"
            )
    return lines


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_terms_are_what_spark_computes(judge: SparkSession, chunk: int) -> None:
    rng = Random(SEED + chunk)
    zone = ZONES[chunk % len(ZONES)]
    events = table(rng, ROWS)
    generator = Generator(rng)
    both: list[Both] = []
    found: list[terms.Term] = []
    refused = 0
    while len(both) < CHUNK:
        text = generator.of(rng.choice(TYPES), rng.choice([1, 1, 2, 2, 3]))
        try:
            term = read(text.tocsin, zone)
        except ConditionError:
            refused += 1
            continue
        assert read(term.sql, zone) == term
        both.append(text)
        found.append(term)
    assert refused < CHUNK / 10
    spark = ask_spark(judge, events, [text.spark for text in both], zone)
    lines = compare(events, both, found, spark, zone)
    if lines:
        lines.sort(key=len)
        pytest.fail(f"{len(lines)} terms differ\n" + "\n".join(lines[:8]), pytrace=False)


def test_quick_settings_do_not_change_the_meaning(judge: SparkSession) -> None:
    rng = Random(SEED - 1)
    events, generator = table(rng, ROWS), Generator(rng)
    both: list[Both] = []
    found: list[terms.Term] = []
    while len(both) < 60:
        text = generator.of(rng.choice(TYPES), 2)
        with contextlib.suppress(ConditionError):
            found.append(read(text.tocsin, ZONES[0]))
            both.append(text)
    for key in QUICK:
        judge.conf.unset(key)
    judge.conf.set("spark.sql.optimizer.excludedRules", REORDERING)
    try:
        spark = ask_spark(judge, events, [text.spark for text in both], ZONES[0])
    finally:
        for key, setting in QUICK.items():
            judge.conf.set(key, setting)
    lines = compare(events, both, found, spark, ZONES[0])
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("zone", ["UTC", "America/Havana", "Europe/Berlin", "America/St_Johns"])
def test_times_at_the_ends_and_in_repeated_midnights(judge: SparkSession, zone: str) -> None:
    """Spark has these as integers: it does not read them from Arrow or Python."""
    day = 86_400_000_000
    seconds = (1_446_350_400, 1_604_203_200, 1_793_505_600)  # in Havana
    seconds += (544_595_460, 952_041_600)  # the end of a gap in St John's, a leap day
    firsts = [second * 1_000_000 for second in seconds]
    near = [t + d for t in firsts for d in (-1, 0, 1_800_000_000, 5_400_000_000, day, 20 * day)]
    ends = [2**63 - 1, 2**63 - 3_600_000_000, 2**63 - day, 2**53, -(10**17)]
    first = [-(2**63), -(2**63) + 3_600_000_000]  # the units of date_trunc start before
    parts = [f"{part}(ts)" for part in (*DAY_PARTS, "hour", "minute", "second", "unix_timestamp")]
    parts += ["CAST(ts AS STRING)", "CAST(to_date(ts) AS STRING)", "CAST(ts AS DOUBLE)"]
    parts += ["datediff(ts, DATE '1970-01-01')", "datediff(date_sub(ts, -2147483648), ts)"]
    starts = [f"unix_micros(date_trunc('{unit}', ts))" for unit in UNITS]
    judge.conf.set("spark.sql.session.timeZone", zone)
    for micros, texts in ((near + ends, parts + starts), (first, parts)):
        instants = pa.array(micros, pa.int64())
        numbered = pa.table({"number": range(len(micros)), "ts": instants})
        frame = judge.createDataFrame(numbered).selectExpr("number", "timestamp_micros(ts) AS ts")
        columns = [f"{text} AS c{i}" for i, text in enumerate(texts)]
        spark = frame.selectExpr("number", *columns).toArrow().sort_by("number")
        events = pa.table({"ts": instants.view(pa.timestamp("us", "UTC"))})
        found = [read(text, zone) for text in texts]
        lines = compare(events, [same(text) for text in texts], found, spark, zone, cut=1)
        assert not lines, "\n".join(lines)


@pytest.mark.parametrize(
    "type_", ["double", "int", "bigint", "boolean", "decimal(38,0)", "decimal(20,10)", "date"]
)
def test_casts_of_odd_texts(judge: SparkSession, type_: str) -> None:
    odd = ["-nan", "+nan", "-NaN", "NAN", "\x7f1", "1\x7f", "\x001 ", "0x1p3", "-0X1.8P-1d", "0xp1"]
    odd += ["0x.8p1f", "0x1.p0", "0x1", "0x1p99999", "-0x1p-99999999999", "1e99999999999", "1df"]
    odd += ["1e2147483648", "0e2147483647", "0e2147483648", "0.0e-2147483647", "1e-2147483647"]
    odd += ["9" * 38, "9" * 39, "-" + "9" * 38, "0." + "9" * 50, "1" * 5000, "0" * 5000 + "1"]
    odd += ["\u00a01", "\u20031", "1\x85", "+infinity", "-INF", "infd", "\x7ftrue", "\x7f2024"]
    events = pa.table({"name": list(dict.fromkeys(odd + TEXTS))})
    text = same(f"try_cast(name AS {type_})")
    spark = ask_spark(judge, events, [text.spark], "UTC")
    lines = compare(events, [text], [read(text.tocsin, "UTC")], spark, "UTC")
    assert not lines, "\n".join(lines)


def test_patterns_match_what_they_match_in_spark(judge: SparkSession) -> None:
    more = ["x\r\ny", "ab\n\n", "aa", "bb", "ac", "0", "a1", "  ", "\n", "\r\n", "\u2029", "ABC\n"]
    events = pa.table({"name": [*TEXTS, *more, None]})
    both = [
        *(call("(name RLIKE {})", same(quote(pattern))) for pattern in REGEXES),
        *(call("(name LIKE {})", same(quote(pattern))) for pattern in LIKES),
        *(call("(name ILIKE {})", same(quote(pattern))) for pattern in LIKES),
    ]
    spark = ask_spark(judge, events, [text.spark for text in both], "UTC")
    lines = compare(events, both, [read(text.tocsin, "UTC") for text in both], spark, "UTC")
    assert not lines, "\n".join(lines)


def test_random_regular_expressions_match_what_they_match_in_java(judge: SparkSession) -> None:
    rng = Random(SEED)
    events = pa.table({"name": [short_text(rng) for _ in range(1000)]})
    both: list[Both] = []
    found: list[terms.Term] = []
    refused = 0
    while len(both) < (3000 if LONG else 200):
        text = same(f"(name RLIKE {quote(regex(rng, 2))})")
        try:
            found.append(read(text.tocsin, "UTC"))
        except ConditionError:
            refused += 1
            continue
        both.append(text)
    assert refused < len(both) / 2
    for start in range(0, len(both), CHUNK):
        part = slice(start, start + CHUNK)
        spark = ask_spark(judge, events, [text.spark for text in both[part]], "UTC")
        lines = compare(events, both[part], found[part], spark, "UTC")
        assert not lines, "\n".join(sorted(lines, key=len)[:8])


def test_the_judge_has_its_default_settings(judge: SparkSession) -> None:
    assert judge.conf.get("spark.sql.ansi.enabled") == "true"
    assert len(TEXTS) == len(set(TEXTS))
