"""What a function of terms is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tocsin.model.terms.coercion import Resolved, TermBuilder, TermError, describe, parse_literal
from tocsin.model.terms.tree import Term
from tocsin.model.terms.types import DATE, INT, NULL, STRING, TIMESTAMP, Type

MANY = 1 << 30


class Function(NamedTuple):
    """A function or operator: its syntax, its arguments and result, and how it is computed.

    `resolve` takes a builder, the arguments and their spelling. It returns either the arguments,
    cast to the types that `compute` takes, and the type of the result, or a whole term. `compute`
    takes the call, and for each argument an Arrow array, or a scalar if the argument is constant.
    At least one is an array: the first that is not constant, or else the first of all.
    """

    name: str
    arguments: str  # as documented
    result: str
    note: str
    least: int  # arguments
    most: int
    resolve: Callable[[TermBuilder, Sequence[Term], Any], Resolved]
    compute: Callable[..., Any]
    is_strict: bool = True  # NULL if an argument is written as NULL; in arrays, `compute` decides
    aliases: tuple[str, ...] = ()


def need(term: Term, type_: Type, what: str) -> Term:
    """Return a term if it has a type; raise a TermError otherwise."""
    if term.type == type_:
        return term
    if term.type == NULL:
        return Term("literal", (), None, type_)
    noun = {"string": "a text", "boolean": "a flag", "int": "an integer"}.get(type_.name, type_)
    advice = ""
    if type_ == STRING and term.type.is_number:
        advice = "; cast it to string"
    raise TermError(f"{what} needs {noun}, but {describe(term)}{advice}")


def need_number(term: Term, what: str) -> Term:
    """Return a term if it is a number; NULL counts as a double."""
    if term.type == NULL:
        return Term("literal", (), None, Type("double"))
    if not term.type.is_number:
        raise TermError(f"{what} needs a number, but {describe(term)}")
    return term


def need_date(build: TermBuilder, term: Term, what: str) -> Term:
    """Return a time or a text as a date."""
    if term.type == STRING and term.function == "literal":
        return parse_literal(build, term, DATE)
    if term.type not in (DATE, TIMESTAMP, STRING, NULL):
        raise TermError(f"{what} needs a time, but {describe(term)}")
    return build.cast(term, DATE)


def need_timestamp(build: TermBuilder, term: Term, what: str) -> Term:
    """Return a time or a text as a timestamp."""
    if term.type == STRING and term.function == "literal":
        return parse_literal(build, term, TIMESTAMP)
    if term.type not in (DATE, TIMESTAMP, STRING, NULL):
        raise TermError(f"{what} needs a time, but {describe(term)}")
    return build.cast(term, TIMESTAMP)


def need_literal(term: Term, type_: Type, what: str) -> Term:
    """Return a term if it is a literal of a type; raise a TermError otherwise."""
    if term.function != "literal":
        raise TermError(f"{what} must be a constant, but it is {term.sql}")
    return need(term, type_, what)


def need_int(term: Term, what: str) -> Term:
    """Return a term if it is an int literal."""
    return need_literal(term, INT, what)
