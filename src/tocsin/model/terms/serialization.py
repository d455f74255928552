"""Terms as plain JSON values, for rule stores.

A term is a list: `["column", name, type]`, `["literal", value, type]`, `["field", name, term]`,
`["item", key, term]`, `["cast", type, term]`, or a function's name and its arguments. Decimals are
strings, and so are doubles that JSON cannot represent. Result types of functions are not stored,
but derived again.
"""

from __future__ import annotations

import decimal
import math
from typing import Any

from tocsin.errors import is_unicode
from tocsin.model.terms.building import Builder
from tocsin.model.terms.functions.table import FUNCTIONS
from tocsin.model.terms.tree import Term, column, has_literal, literal
from tocsin.model.terms.types import Type, type_from_json, type_to_json

EVALUATOR_VERSION = 2  # increased when a stored term would get another value

_RANGES = {"int": 2**31, "bigint": 2**63, "timestamp": 2**63, "date": 2**31}


def to_json(term: Term) -> Any:
    """Return a term as plain lists, texts and numbers."""
    if term.function == "column":
        return ["column", term.value, type_to_json(term.type)]
    if term.function == "literal":
        return ["literal", _value_to_json(term.value), type_to_json(term.type)]
    if term.function == "field":
        return ["field", term.value, to_json(term.arguments[0])]
    if term.function == "item":
        return ["item", term.arguments[1].value, to_json(term.arguments[0])]
    if term.function == "cast":
        return ["cast", type_to_json(term.type), to_json(term.arguments[0])]
    return [term.function, *(to_json(a) for a in term.arguments)]


def from_json(obj: Any) -> Term:
    """Return the term that `to_json` wrote; raise a ValueError for anything else."""
    try:
        return _read(obj)
    except RecursionError:
        raise ValueError("a stored term is nested too deeply") from None


def _value_to_json(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _read(obj: Any) -> Term:
    if not isinstance(obj, list) or not obj or not isinstance(obj[0], str):
        raise ValueError(f"{obj!r} is not a term")
    function, *rest = obj
    build = Builder(None)
    if function in ("column", "literal", "field", "item", "cast"):
        if len(rest) != 2:
            raise ValueError(f"{obj!r} is not a term")
        first, second = rest
        if function == "literal":
            type_ = type_from_json(second)
            return literal(_read_value(first, type_), type_)
        if function == "cast":
            argument, type_ = _read(second), type_from_json(first)
            return _same(build.cast(argument, type_), function, (argument,))
        if not isinstance(first, str) or not is_unicode(first):
            raise ValueError(f"{first!r} is not a name")
        if function == "column":
            return column(first, type_from_json(second))
        argument = _read(second)
        if function == "item":
            item = build.item(argument, first)
            return _same(item, function, (argument, *item.arguments[1:]))
        field = build.field(argument, first)
        if field.value != first:
            raise ValueError(f"{argument.sql} has no field {first!r}")
        return _same(field, function, (argument,))
    if function not in FUNCTIONS:
        raise ValueError(f"there is no function {function!r}")
    arguments = tuple(_read(each) for each in rest)
    return _same(build.make(function, arguments), function, arguments)


def _same(term: Term, function: str, arguments: tuple[Term, ...]) -> Term:
    """Return a term if it is the function of these arguments as they are."""
    if term.function != function or term.arguments != arguments:
        raise ValueError(f"{function} does not take {', '.join(str(a.type) for a in arguments)}")
    return term


def _read_value(value: Any, type_: Type) -> Any:
    if value is None:
        return None
    name = type_.name
    is_valid = False
    if name == "decimal" and isinstance(value, str):
        try:
            number = decimal.Decimal(value)
        except decimal.InvalidOperation:
            raise ValueError(f"{value!r} is not a decimal") from None
        if number.is_finite():
            scale, digits = -int(number.as_tuple().exponent), len(number.as_tuple().digits)
            if scale == type_.scale and max(digits, scale) <= type_.digits:
                return number
    elif name == "double":
        if value in ("nan", "inf", "-inf"):
            return float(value)
        is_valid = isinstance(value, float) and math.isfinite(value)
    elif name == "string":
        is_valid = isinstance(value, str) and is_unicode(value)
    elif name == "boolean":
        is_valid = isinstance(value, bool)
    elif name in _RANGES and isinstance(value, int) and not isinstance(value, bool):
        is_valid = -_RANGES[name] <= value < _RANGES[name] and has_literal(value, type_)
    if not is_valid:
        raise ValueError(f"{value!r} is not a {type_}")
    return value
