"""Generates random conditions and events full of edge cases.

Everything is drawn from a `random.Random`. A fixed seed repeats a run, and Hypothesis drives the
same code through `st.randoms()`. Literals and values come from the same small pools, so that a
value often equals a literal, or is just above or below it.
"""

import math
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from tests.naive import (
    And,
    Between,
    Compare,
    Condition,
    Constant,
    Flag,
    In,
    Is,
    IsNull,
    Literal,
    Not,
    NullSafe,
    Or,
    Outside,
    conjunction_count,
)

SCHEMA = {
    "visits": "integer",
    "stock": "integer",
    "price": "number",
    "ratio": "number",
    "tier": "category",
    "city": "category",
    "active": "flag",
    "premium": "flag",
    "seen": "time",
    "born": "time",
    "fee": "decimal(9,2)",
    "rate": "decimal(18,6)",
}

MAX_CONJUNCTIONS = 64
SMALLEST, LARGEST = -(2**63), 2**63 - 1  # of an integer

_INTEGERS = [
    *(-1, 0, 1, 4, 5, 6),
    # Doubles are 2 apart here: 2**53 + 1 is rounded in a comparison with a double.
    *(2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1),
    # Below 2**63 they are 1024 apart: 2**63 - 512 is the first integer that rounds up to it.
    *(LARGEST, LARGEST - 1, 2**63 - 512, 2**63 - 513, SMALLEST, SMALLEST + 1),
]
_BEYOND = [2**63, SMALLEST - 1, 10**20]
# At most 17 decimal places, which leaves 21 of Spark's 38 digits for 10**20. Spark rounds lists
# that need more digits; `test_spark_is_the_judge` has a test for them.
_DECIMALS = [
    *map(Decimal, ("-0.0", "0.1", "0.5", "5.0", "5.5", "-1.0", "5", "6.00000000000000001")),
    *map(Decimal, ("9007199254740992.5", "9007199254740993.0", "9223372036854775807.0")),
]
_BEYOND_DECIMALS = [
    *map(Decimal, ("9223372036854775807.5", "9223372036854775808.0", "-9223372036854775808.5")),
]
# Of decimal attributes. Beyond 15 digits, several decimals are equal to one double.
_PRICES = {
    "decimal(9,2)": [
        *("-0.01", "0", "0.01", "0.10", "0.50", "4.99", "5", "5.50", "6", "9.99", "10"),
        *("9999999.99", "-9999999.99"),
    ],
    "decimal(18,6)": [
        *("0", "0.000001", "-0.000001", "0.1", "5", "5.5", "6", "123456789012.345678"),
        *("123456789012.345679", "999999999999.999999", "-999999999999.999999"),
    ],
}
_EXACT_PRICES = [
    *map(Decimal, ("0.005", "4.994", "9.99", "9.990", "9.999", "9.9999999", "-0.011", "5.01")),
    *map(Decimal, ("9999999.99", "9999999.995", "10000000.0", "-9999999.999", "0.0000005")),
    *map(Decimal, ("123456789012.345678", "123456789012.3456785", "999999999999.9999995")),
]
_DOUBLE_PRICES = [
    *(9.99, 0.01, 4.99, 1e-6, 9999999.99, 9999999.995, 123456789012.345678, 1e12, -1e12),
    *(math.nextafter(9.99, 0.0), math.nextafter(9.99, 10.0), 999999999999.999999),
]
_DOUBLES = [
    *(-0.0, 0.0, 0.1, 0.5, 5.0, 5.5, 6.0, -1.0),
    *(math.nextafter(0.1, 1.0), math.nextafter(5.0, 0.0), math.nextafter(5.0, 6.0)),
    *(5e-324, 1.7976931348623157e308, -1.7976931348623157e308),
    *(2.0**53, 2.0**53 + 2, 2.0**63, 2.0**63 - 1024, -(2.0**63)),
    *(math.nan, math.inf, -math.inf),
]
_CATEGORIES = [
    "gold",
    "Gold",
    "black",
    "gold ",
    "",
    "it's",
    'a "b"',
    "back\\slash",
    "Zürich",
    "NULL",
]
_UNSEEN = ["silver", "its", "GOLD", "back\\\\slash", "🔔"]  # in no condition
_DATES = [date(2024, 5, 1), date(1970, 1, 1), date(1582, 10, 10)]
_TIMES = [
    datetime(2024, 5, 1, 12, 30, tzinfo=UTC),
    datetime(2024, 5, 1, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1582, 10, 10, tzinfo=UTC),  # skipped by the switch from the Julian calendar
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]
_MICROSECOND = timedelta(microseconds=1)


# --- conditions ---------------------------------------------------------------------------------


def condition(rng: Random, depth: int = 3) -> Condition:
    """Return a condition with at most `depth` levels above its leaves and 64 conjunctions."""
    while True:
        node = _node(rng, depth)
        if conjunction_count(node) <= MAX_CONJUNCTIONS:
            return node


def _node(rng: Random, depth: int) -> Condition:
    if depth == 0 or rng.random() < 0.2:
        return _leaf(rng)
    shape = rng.random()
    if shape < 0.2:
        return Not(_node(rng, depth - 1))
    # Mostly two, because few conditions with more branches stay below the limit.
    parts = tuple(_node(rng, depth - 1) for _ in range(rng.choice((2, 2, 2, 3))))
    return And(parts) if shape < 0.55 else Or(parts)


def _leaf(rng: Random) -> Condition:
    if rng.random() < 0.02:
        return Constant(rng.choice((True, False, None)))
    attribute = rng.choice(sorted(SCHEMA))
    kind = SCHEMA[attribute]
    forms = ["compare", "compare", "in", "null", "null-safe"]
    if kind != "category":
        forms += ["compare", "between"]
    if kind == "flag":
        forms += ["flag", "flag", "is"]
    leaf: Condition
    match rng.choice(forms):
        case "compare":
            leaf = _comparison(rng, attribute, kind)
        case "between":
            # Not beyond bigint, where the two comparisons would be `Outside`.
            beyond = kind != "integer"
            low, high = _literal(rng, kind, beyond), _literal(rng, kind, beyond)
            leaf = Between(attribute, low, high)
        case "in":
            # Spark uses a set for more than ten literals: other code with the same meaning.
            size = rng.choice((1, 2, 3, 4, 12))
            leaf = In(attribute, tuple(_literal(rng, kind) for _ in range(size)))
        case "null":
            leaf = IsNull(attribute)
        case "null-safe":
            leaf = NullSafe(attribute, _literal(rng, kind))
        case "flag":
            leaf = Flag(attribute)
        case _:
            leaf = Is(attribute, rng.random() < 0.5)
    return Not(leaf) if rng.random() < 0.25 else leaf


def _comparison(rng: Random, attribute: str, kind: str) -> Condition:
    equality, order = ("=", "<>"), ("<", "<=", ">=", ">")
    operator = rng.choice(equality if kind == "category" else equality + order)
    literal = _literal(rng, kind)
    exact = isinstance(literal, int | Decimal)
    if kind == "integer" and operator in order and exact and not SMALLEST <= literal <= LARGEST:
        return Outside(attribute, operator, literal)
    return Compare(attribute, operator, literal)


def _literal(rng: Random, kind: str, beyond: bool = True) -> Literal:
    if rng.random() < 0.06:
        return None
    match kind:
        case "integer" | "number":
            pool: list[Any] = rng.choice((_INTEGERS, _INTEGERS, _DECIMALS, _DOUBLES))
            if pool is not _DOUBLES and beyond and rng.random() < 0.15:
                pool = _BEYOND if pool is _INTEGERS else _BEYOND_DECIMALS
            return rng.choice(pool)
        case "category":
            return rng.choice(_CATEGORIES)
        case "flag":
            return rng.random() < 0.5
        case "time":
            if rng.random() < 0.25:
                return rng.choice(_DATES)
            return _near(rng, rng.choice(_TIMES))
        case _ if kind in _PRICES:
            pools: tuple[list[Any], ...] = (_EXACT_PRICES, _DOUBLE_PRICES, _INTEGERS, _BEYOND)
            return rng.choice(rng.choice((*pools[:2], *pools, _DECIMALS, _DOUBLES)))
    raise ValueError(f"not a kind: {kind!r}")


def _near(rng: Random, moment: datetime) -> datetime:
    """Return the time or one a microsecond off, if the calendar has it."""
    step = rng.choice((timedelta(), timedelta(), _MICROSECOND, -_MICROSECOND))
    try:
        return moment + step
    except OverflowError:
        return moment


# --- events -------------------------------------------------------------------------------------


def event(rng: Random) -> dict[str, Any]:
    """Return an event with an entry for every attribute; None is null."""
    return {attribute: value(rng, kind) for attribute, kind in SCHEMA.items()}


def value(rng: Random, kind: str) -> Any:
    """Return a value of a kind; one in eight is null."""
    if rng.random() < 0.125:
        return None
    match kind:
        case "integer":
            return rng.choice(_INTEGERS)
        case "number":
            number = rng.choice(_DOUBLES + _DOUBLES + [float(x) for x in _INTEGERS])
            step = rng.random()
            if step < 0.1:
                return math.nextafter(number, math.inf)
            return math.nextafter(number, -math.inf) if step < 0.2 else number
        case "category":
            return rng.choice(_CATEGORIES + _CATEGORIES + _UNSEEN)
        case "flag":
            return rng.random() < 0.5
        case "time":
            return _near(rng, rng.choice(_TIMES))
        case _ if kind in _PRICES:
            return Decimal(rng.choice(_PRICES[kind])).quantize(_unit(kind))
    raise ValueError(f"not a kind: {kind!r}")


def _unit(kind: str) -> Decimal:
    """Return the least positive value of a decimal kind."""
    return Decimal(1).scaleb(-int(kind[:-1].split(",")[1]))


_ARROW = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "category": pa.string(),
    "flag": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"),
    "decimal(9,2)": pa.decimal128(9, 2),
    "decimal(18,6)": pa.decimal128(18, 6),
}


def arrow_table(events: Iterable[dict[str, Any]]) -> pa.Table:
    """Return events as a table with a column for every attribute."""
    schema = pa.schema([(attribute, _ARROW[kind]) for attribute, kind in SCHEMA.items()])
    return pa.Table.from_pylist(list(events), schema=schema)
