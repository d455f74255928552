"""Builds terms: checks arguments, inserts casts, and folds constants."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from tocsin.errors import shorten
from tocsin.model.terms.coercion import TermError, Written, describe
from tocsin.model.terms.evaluation import evaluate_constant
from tocsin.model.terms.functions.casts import cast_advice
from tocsin.model.terms.functions.table import FUNCTIONS
from tocsin.model.terms.regex import translate_regex
from tocsin.model.terms.tree import Term, has_literal, is_null, literal
from tocsin.model.terms.types import NULL, STRING, Type

_MAX_DEPTH = 100  # functions within functions, chosen: far from Python's limit of recursion


# Chosen: RE2 takes at most about 5 nanoseconds for each of these and each byte of a text.
_PATTERNS = ("like", "rlike", "split", "array_contains")
_MAX_PATTERN = 2000  # characters, wildcards and sets, as often as they are repeated


def _check_size(function: str, pattern: Term) -> None:
    """Raise if a pattern is so long that one text may take long to match."""
    if pattern.value is None:
        return
    size = len(pattern.value) if function == "like" else translate_regex(pattern.value).size
    if size > _MAX_PATTERN:
        raise TermError(
            f"the pattern {shorten(pattern.value, 60)!r} of {function.upper()} has {size:,} "
            f"characters, counted as often as they are repeated; it can have {_MAX_PATTERN:,}"
        )


class Builder:
    """Builds typed terms; folds constants if it has a time zone."""

    def __init__(self, zone: datetime.tzinfo | None):
        self._zone = zone

    def make(self, function: str, arguments: Sequence[Term], written: Written = ()) -> Term:
        """Return a function of terms, or the literal that it is."""
        entry = FUNCTIONS[function]
        if not entry.least <= len(arguments) <= entry.most:
            takes = f"{entry.least}" if entry.least == entry.most else f"at least {entry.least}"
            raise TermError(
                f"{function} takes {takes} arguments ({entry.arguments}), got {len(arguments)}"
            )
        resolved = entry.resolve(self, arguments, written)
        if isinstance(resolved, Term):
            return resolved
        # Not of stored rules: what was accepted once is accepted for ever.
        if function in _PATTERNS and self._zone is not None:
            _check_size(function, resolved[0][1])
        return self._fold(Term(function, tuple(resolved[0]), None, resolved[1]), entry.is_strict)

    def cast(self, term: Term, type_: Type) -> Term:
        """Return a term cast to a type; raise a TermError for casts that are not supported."""
        if term.type == type_:
            return term
        if term.type == NULL:
            return literal(None, type_)
        advice = cast_advice(term.type, type_)
        if advice is not None:
            raise TermError(f"{describe(term)}, and a cast to {type_} is not supported; {advice}")
        return self._fold(Term("cast", (term,), None, type_), True)

    def field(self, term: Term, name: str) -> Term:
        """Return a field of a struct, or the value under a key of a map."""
        if term.type.name == "map":
            return self.item(term, name)
        if term.type.name != "struct":
            raise TermError(f"{describe(term)}, so it has no field {name!r}")
        for declared, type_ in term.type.fields:
            if declared.lower() == name.lower():
                return Term("field", (term,), declared, type_)
        fields = ", ".join(declared for declared, _ in term.type.fields)
        raise TermError(
            f"{term.sql} has no field {name!r} that a condition can test, only {fields}"
        )

    def item(self, term: Term, key: str) -> Term:
        """Return the value under a key of a map, or a field of a struct."""
        if term.type.name == "struct":
            return self.field(term, key)
        if term.type.name != "map" or term.type.item is None:
            raise TermError(f"{describe(term)}, which has no values under keys")
        return Term("item", (term, literal(key, STRING)), None, term.type.item)

    def _fold(self, term: Term, is_strict: bool) -> Term:
        if term.depth > _MAX_DEPTH:
            raise TermError(f"the expression is nested deeper than {_MAX_DEPTH} functions")
        if term.type == NULL or (is_strict and any(is_null(a) for a in term.arguments)):
            return literal(None, term.type)
        if self._zone is None or not all(a.function == "literal" for a in term.arguments):
            return term
        value = evaluate_constant(term, self._zone)
        return literal(value, term.type) if has_literal(value, term.type) else term
