"""Which types can be combined, and to what result: Spark's coercions and the digits of decimals.

The rules are those of Spark 4 with ANSI types, except that text is never converted to a number
implicitly, nor a number to text: Spark would cast, with surprising results. A text literal that is
combined with a time is a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tocsin.model.terms.tree import Term, is_null, natural_decimal
from tocsin.model.terms.types import (
    BIGINT,
    DOUBLE,
    INT,
    MAX_DIGITS,
    NULL,
    STRING,
    TIMESTAMP,
    Type,
    decimal_type,
)

Resolved = tuple[tuple[Term, ...], Type] | Term
# Whether an argument is written as a literal: True, False, or None if the parser does not
# distinguish 5L from CAST(5 AS BIGINT). Spark gives integer literals beside decimals few digits.
Written = Sequence[bool | None]

_MIN_SCALE = 6  # decimal places that Spark keeps when a result has too many digits


class TermError(ValueError):
    """The arguments do not fit the function; the reader adds the position."""


class TermBuilder(Protocol):
    """What functions use to build terms; see `building.Builder`."""

    def cast(self, term: Term, type_: Type) -> Term:
        """Return a term cast to a type."""

    def make(self, function: str, arguments: Sequence[Term], written: Written = ()) -> Term:
        """Return a function of terms."""


def describe(term: Term) -> str:
    """Return a term and its type for a message."""
    return f"{term.sql} is {_ARTICLES.get(term.type.name, 'a ' + str(term.type))}"


_ARTICLES = {
    "int": "an integer (int)",
    "bigint": "an integer (bigint)",
    "double": "a number (double)",
    "string": "a text",
    "boolean": "a flag (boolean)",
    "timestamp": "a time (timestamp)",
    "date": "a date",
    "null": "NULL",
}


def bounded(digits: int, scale: int) -> Type:
    """Return a decimal type; beyond 38 digits it loses decimal places, but keeps up to six.

    This is the result of arithmetic: Spark's `adjustPrecisionScale`.
    """
    if digits <= MAX_DIGITS:
        return decimal_type(digits, scale)
    kept = max(MAX_DIGITS - (digits - scale), min(scale, _MIN_SCALE))
    return decimal_type(MAX_DIGITS, kept)


def wider_decimal(a: Type, b: Type) -> Type:
    """Return the decimal type that holds two others; beyond 38 digits it loses decimal places."""
    scale = max(a.scale, b.scale)
    digits = max(a.digits - a.scale, b.digits - b.scale) + scale
    if digits <= MAX_DIGITS:
        return decimal_type(digits, scale)
    return decimal_type(MAX_DIGITS, max(0, scale - (digits - MAX_DIGITS)))


def decimal_of(type_: Type) -> Type:
    """Return the decimal type that holds all values of an exact type."""
    return {"int": decimal_type(10, 0), "bigint": decimal_type(20, 0)}.get(type_.name, type_)


def wider(a: Type, b: Type) -> Type | None:
    """Return the type that two types have in common, or None if they have none."""
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    if a.is_number and b.is_number:
        if DOUBLE in (a, b):
            return DOUBLE
        if a.is_integral and b.is_integral:
            return BIGINT
        return wider_decimal(decimal_of(a), decimal_of(b))
    return TIMESTAMP if a.is_time and b.is_time else None


def unify(build: TermBuilder, terms: Sequence[Term], what: str) -> tuple[Term, ...]:
    """Return terms cast to the type that they have in common."""
    for term in terms:
        if term.type.is_nested:
            raise TermError(f"{what} does not take a {term.type}; use one of its fields or values")
    terms = cast_times(build, terms)
    common = terms[0].type
    for term in terms[1:]:
        found = wider(common, term.type)
        if found is None:
            first = next(t for t in terms if t.type != NULL)
            raise TermError(
                f"{what} needs values of one type, but {describe(first)} and {describe(term)}; "
                "cast one of them"
            )
        common = found
    return tuple(build.cast(term, common) for term in terms)


def cast_times(build: TermBuilder, terms: Sequence[Term]) -> Sequence[Term]:
    """Return terms, with text literals cast to a time if a time is among the terms."""
    times = [t.type for t in terms if t.type.is_time]
    if not times or not any(_is_text(t) for t in terms):
        return terms
    time = TIMESTAMP if TIMESTAMP in times else times[0]
    return [parse_literal(build, t, time) if _is_text(t) else t for t in terms]


def parse_literal(build: TermBuilder, term: Term, type_: Type) -> Term:
    """Return a text literal as a time; raise a TermError if it is not one."""
    parsed = build.cast(term, type_)
    if is_null(parsed):
        raise TermError(
            f"{term.value!r} is not a {type_}; expected ISO 8601 such as '2024-05-01 12:30:00', a "
            "zone only after seconds"
        )
    return parsed


def _is_text(term: Term) -> bool:
    return term.function == "literal" and term.type == STRING


def promote(
    build: TermBuilder, left: Term, right: Term, written: Written, what: str
) -> tuple[Term, Term]:
    """Return two numbers as the same of int, bigint and double, or both as decimals."""
    for term in (left, right):
        if not term.type.is_number and term.type != NULL:
            advice = ""
            if term.type.is_time:
                advice = "; use date_add, datediff or unix_timestamp"
            elif term.type == STRING:
                advice = "; cast it"
            raise TermError(f"{what} needs numbers, but {describe(term)}{advice}")
    if NULL in (left.type, right.type):
        other = right.type if left.type == NULL else left.type
        other = DOUBLE if other == NULL else other
        return build.cast(left, other), build.cast(right, other)
    types = (left.type, right.type)
    if DOUBLE in types:
        return build.cast(left, DOUBLE), build.cast(right, DOUBLE)
    if left.type.is_integral and right.type.is_integral:
        common = BIGINT if BIGINT in types else INT
        return build.cast(left, common), build.cast(right, common)
    flags = tuple(written) or (False, False)
    return as_decimal(build, left, flags[0], what), as_decimal(build, right, flags[1], what)


def as_decimal(build: TermBuilder, term: Term, is_written: bool | None, what: str) -> Term:
    """Return an exact number as a decimal; a literal gets as few digits as it needs."""
    if not term.type.is_integral:
        return term
    if is_written is None:
        raise TermError(
            f"{what} with a decimal is not clear for {term.sql}: Spark reads 5L and "
            f"CAST(5 AS BIGINT) differently; write {term.value}"
        )
    if is_written and term.function == "literal" and term.value is not None:
        return build.cast(term, decimal_type(*natural_decimal(term.value)))
    return build.cast(term, decimal_of(term.type))
