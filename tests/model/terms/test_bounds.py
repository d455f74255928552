"""No term raises, and none grows: every function over nasty values and constants."""

import functools
import math
import os
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.model.terms.columns import constant, evaluate, read
from tests.model.terms.test_reading import SAMPLES
from tocsin.errors import ConditionError
from tocsin.model import terms
from tocsin.model.terms import evaluation
from tocsin.model.terms.building import Builder
from tocsin.model.terms.coercion import TermError
from tocsin.model.terms.functions.function import Function
from tocsin.model.terms.functions.table import FUNCTIONS
from tocsin.model.terms.functions.texts import MAX_GROWN, MAX_GROWTH
from tocsin.model.terms.tree import Term, column, has_literal, literal
from tocsin.model.terms.types import DATE, INT, Type, decimal_type

SEED = 20240501
TRIES = 5000 if os.environ.get("TOCSIN_PROFILE") == "long" else 100
LONG = 100_000  # characters
ROWS = 30  # events: the longest list of values, and null
TEXTS = [
    *(
        "",
        " ",
        "a",
        "ab",
        "%",
        "_",
        "\x7f",
        "ŉ",
        "ΐ" * 50,
        "😀",
        "'",
        "\\",
        "\n",
        "9" * 39,
        "1e1000000000",
    ),
    *("-1e-2147483649", "0x1p99999", "nan", "2024-02-30", "+999999-12-31", "24:00", "a" * LONG),
    *("%a_" * 30, "1" * LONG, "0" * LONG + "x", "1" * LONG + "x", "5e99999999999999999999"),
]
INTS = [0, 1, -1, 7, 30, 31, 32, 63, 64, 400, -400, 2**31 - 1, -(2**31), -100_000_000, LONG]
BIGINTS = [*INTS, 2**53, 2**63 - 1, -(2**63), 10**18]
DOUBLES = [0.0, -0.0, 0.5, 2.675, -1e15, 5e-324, 1.8e308, -1.8e308, 2.0**63, 1e22]
DOUBLES += [math.nan, math.inf, -math.inf]
TIMES = [0, -1, 2**63 - 1, -(2**63), 10**15, -(10**17), 253_402_300_799_999_999]
DAYS = [0, -1, 2**31 - 1, -(2**31), 106_751_991, -106_751_992, 2_932_896]
DECIMALS = [Type("decimal", 10, 2), decimal_type(38, 0), decimal_type(38, 38), decimal_type(18, 6)]
VALUES: dict[str, list[Any]] = {
    "int": INTS,
    "bigint": BIGINTS,
    "double": DOUBLES,
    "string": TEXTS,
    "boolean": [True, False],
    "timestamp": TIMES,
    "date": DAYS,
}
TYPES = [*map(terms.source_type, ("integer", "number", "category", "flag", "time")), INT, DATE]
TYPES += DECIMALS
ZONES = [ZoneInfo("UTC"), ZoneInfo("America/Havana"), ZoneInfo("Pacific/Apia")]


def values_of(type_: Type) -> list[Any]:
    if type_.name != "decimal":
        return VALUES[type_.name]
    return [
        Decimal((sign, digits, -type_.scale))
        for sign, digits in (
            (0, (0,)),
            (1, (5,)),
            (0, (9,) * type_.digits),
            (1, (9,) * type_.digits),
        )
    ]


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a function raises is raised: elsewhere it is null."""

    def fail(self: Any, term: Term, *_: Any) -> Any:
        raise AssertionError(f"{term!r} has raised")

    monkeypatch.setattr(evaluation._Evaluator, "_part", fail)
    for name, function in FUNCTIONS.items():
        monkeypatch.setitem(FUNCTIONS, name, function._replace(compute=report(function)))


class Raised(BaseException):
    """A function has raised; it is not caught where exceptions are."""


def report(function: Function) -> Any:
    def compute(call: Any, *arguments: Any) -> Any:
        try:
            return function.compute(call, *arguments)
        except Exception as error:
            raise Raised(f"{call.term.sql[:500]}: {error!r}") from error

    return compute


class Terms:
    """Makes random terms."""

    def __init__(self, rng: Random):
        self._rng = rng

    def call(self, name: str, depth: int) -> Term | None:
        """Return a function of random arguments, or None if it does not take them."""
        rng, build = self._rng, Builder(self._rng.choice(ZONES))
        if name == "cast":
            argument, type_ = self._operand(rng.choice(TYPES), depth), rng.choice(TYPES)
            return self._accept(lambda: build.cast(argument, type_))
        sample = read(SAMPLES[name])
        types = [argument.type for argument in sample.arguments]
        types += [types[-1]] * rng.choice([0, 0, 0, 1])
        if rng.random() < 0.3:
            types = [rng.choice(TYPES)] * len(types)
        arguments = []
        for i, type_ in enumerate(types):
            is_constant = i < len(sample.arguments) and sample.arguments[i].is_constant
            type_ = type_ if type_ in TYPES else rng.choice(TYPES)
            if is_constant and rng.random() < 0.8:
                arguments.append(self._constant(type_))
            else:
                arguments.append(self._operand(type_, depth))
        if name == "date_trunc":
            arguments[0] = sample.arguments[0]
        return self._accept(lambda: build.make(name, arguments))

    def _accept(self, make: Callable[[], Term]) -> Term | None:
        try:
            return make()
        except TermError:
            return None

    def _operand(self, type_: Type, depth: int) -> Term:
        form = self._rng.random()
        if form < 0.3 and depth:
            name = self._rng.choice(["replace", "concat", "upper", *FUNCTIONS])
            found = self.call(name, depth - 1)
            if found is not None and not found.type.is_nested:
                return found
        return self._constant(type_) if form > 0.7 else column(str(TYPES.index(type_)), type_)

    def _constant(self, type_: Type) -> Term:
        values = [v for v in values_of(type_) if has_literal(v, type_)]
        return literal(self._rng.choice(values), type_)


@functools.cache
def source(name: str) -> pa.Array:
    """Return a column of all values of its type, and null."""
    type_ = TYPES[int(name)]
    values = values_of(type_)
    assert len(values) < ROWS
    return pa.array(
        [values[i % len(values)] for i in range(ROWS - 1)] + [None], terms.arrow_type(type_)
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_raises_or_grows(name: str) -> None:
    rng = Random(f"{SEED} {name}")
    generator, computed = Terms(rng), 0
    for _ in range(TRIES * (20 if name == "cast" else 1)):
        term = generator.call(name, 2)
        if term is not None:
            computed += 1
            check(term, rng.choice(ZONES))
    assert computed >= TRIES / 20


def check(term: Term, zone: ZoneInfo) -> None:
    (found,) = terms.evaluate([term], source, ROWS, zone)
    assert found.type == terms.arrow_type(term.type)
    if term.type.name == "string":
        # Upper case may have three times as many bytes.
        most = 3 * np.maximum(MAX_GROWN, MAX_GROWTH * text_bytes(term))
        assert (pc.fill_null(pc.binary_length(found), 0).to_numpy() <= most).all()


def text_bytes(term: Term) -> Any:
    """Return how many bytes the texts have that a term is made of, for each event."""
    if term.type.name == "string" and term.function == "column":
        return pc.fill_null(pc.binary_length(source(term.value)), 0).to_numpy()
    if term.function == "literal":
        return len(term.value.encode()) if isinstance(term.value, str) else 0
    return sum((text_bytes(a) for a in term.arguments), 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("round(12345, -100000000)", 0),
        ("round(-2147483648, -2147483648)", 0),
        ("round(1.5e0, 2147483647)", 1.5),
        ("round(1.5e300, -2147483648)", 0.0),
        ("round(1.5, 2147483647)", Decimal("1.5")),
        ("CAST('1e1000000000' AS DECIMAL(38, 0))", None),
        ("CAST('1e-1000000000' AS DECIMAL(38, 0))", 0),
        (f"CAST('{'1' * 5000}' || '' AS BIGINT)", None),
        (f"CAST('{'0' * 5000}7' AS BIGINT)", 7),
    ],
)
def test_extreme_constants(text: str, value: object) -> None:
    assert constant(text) == value


def test_texts_grow_up_to_a_limit() -> None:
    nested = "name"
    for _ in range(7):
        nested = f"replace({nested}, 'a', 'aaaaaaaaaaaaaaaa')"
    assert len(nested) < 250
    assert evaluate(nested, name=["a" * 10, "b", None]) == [None, "b", None]
    grown = "replace(name, 'a', 'aaaaaaaaaaaaaaaa')"
    assert evaluate(f"length({grown})", name=["a" * LONG, "a"]) == [16 * LONG, 16]
    assert evaluate(f"length(replace({grown}, 'a', 'aa'))", name=["a" * LONG]) == [None]
    assert evaluate(f"length(replace({grown}, 'a', 'aa'))", name=["a" * 128]) == [MAX_GROWN]
    assert evaluate("length(replace(name, 'aa', 'a'))", name=["a" * LONG]) == [LONG // 2]
    assert evaluate("length(name || name || name)", name=["é" * LONG]) == [3 * LONG]
    repeated = "concat(" + ", ".join(["replace(name, 'b', 'bbbbb')"] * 40) + ")"
    assert evaluate(f"length({repeated})", name=["b" * 100, "a" * 100]) == [None, MAX_GROWN - 96]


@pytest.mark.parametrize(
    "text",
    [
        "name RLIKE '((ab){10}a){96}'",
        "name RLIKE '(ab|c){700}'",
        f"name RLIKE '{'a' * 2001}'",
        f"name LIKE '{'%a_' * 700}'",
    ],
)
def test_long_patterns_are_refused(text: str) -> None:
    with pytest.raises(ConditionError, match="counted as often as they are repeated"):
        read(text)


def test_stored_patterns_are_never_refused() -> None:
    stored = ["rlike", ["column", "name", "string"], ["literal", "a" * 3000, "string"]]
    assert terms.from_json(stored).arguments[1].value == "a" * 3000
