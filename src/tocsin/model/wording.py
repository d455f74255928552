"""Writes predicates as SQL, and computes how far a value is from satisfying one.

Reading the SQL again gives the same predicate, except for times outside of the years 1 to 9999,
which have no literal.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable
from typing import Any

from tocsin.model import encoding
from tocsin.model.categories import Categories
from tocsin.model.decimals import decimal_value, is_decimal
from tocsin.model.predicates import ALWAYS, INTERVAL, IS_NULL, NOT_NULL, NOT_SET, Predicate
from tocsin.model.schema import Kind
from tocsin.model.terms.tree import quote_text


def predicate_text(operand: str, kind: Kind, predicate: Predicate, categories: Categories) -> str:
    """Return a predicate as SQL; `operand` is what it tests, as SQL.

    >>> predicate_text("n", "integer", Predicate(INTERVAL, 3, 8), Categories())
    'n BETWEEN 3 AND 8'
    """
    if predicate == ALWAYS:
        return f"({operand} IS NULL OR {operand} IS NOT NULL)"
    if predicate == IS_NULL:
        return f"{operand} IS NULL"
    if predicate == NOT_NULL:
        return f"{operand} IS NOT NULL"
    if predicate.kind != INTERVAL:
        return _set_text(operand, kind, predicate, categories)
    low, high = predicate.low, predicate.high
    if kind == "category":
        return _list_text(operand, "IN", _literals(kind, range(low, high + 1), categories))
    if low == high:
        return f"{operand} = {_literal(kind, low)}"
    lower = _bound(kind, low, False) if low > encoding.LOWEST else None
    upper = _bound(kind, high, True) if high < encoding.HIGHEST else None
    if lower and upper and lower[0] == ">=" and upper[0] == "<=":
        return f"{operand} BETWEEN {lower[1]} AND {upper[1]}"
    return " AND ".join(
        f"{operand} {operator} {bound}" for operator, bound in filter(None, (lower, upper))
    )


def _set_text(operand: str, kind: Kind, predicate: Predicate, categories: Categories) -> str:
    points = [p for p in predicate.points if p != encoding.NULL]
    values = _literals(kind, points, categories)
    if predicate.kind != NOT_SET:
        return _list_text(operand, "IN", values)
    if encoding.NULL in predicate.points:
        return _list_text(operand, "NOT IN", values)
    return " AND ".join(f"NOT {operand} <=> {value}" for value in values)


def _list_text(operand: str, operator: str, values: list[str]) -> str:
    if len(values) == 1:
        return f"{operand} {'=' if operator == 'IN' else '<>'} {values[0]}"
    return f"{operand} {operator} ({', '.join(values)})"


def _bound(kind: Kind, key: int, is_high: bool) -> tuple[str, str]:
    """Return the operator and the literal of a bound, inclusive or exclusive.

    It is exclusive if that is shorter (x > 5, not x >= 5.000000000000001), or if the key has no
    literal (above the last time, below NaN).
    """
    inclusive, exclusive = ("<=", "<") if is_high else (">=", ">")
    beyond = key + 1 if is_high else key - 1
    if not _has_literal(kind, key):
        return exclusive, _literal(kind, beyond)
    inside = _literal(kind, key)
    if kind == "number" and _has_literal(kind, beyond):
        outside = _literal(kind, beyond)
        if len(outside) < len(inside):
            return exclusive, outside
    return inclusive, inside


def _has_literal(kind: Kind, key: int) -> bool:
    if kind == "time":
        return encoding.to_datetime(encoding.integer_value(key)) is not None
    return kind != "number" or key == encoding.NAN or not math.isnan(encoding.number_value(key))


def _literals(kind: Kind, keys: Iterable[int], categories: Categories) -> list[str]:
    if kind == "category":
        return [quote_text(str(categories.text(key))) for key in keys]
    return [_literal(kind, key) for key in keys]


def _literal(kind: Kind, key: int) -> str:
    value = value_of(kind, key)
    if kind == "flag":
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(sep=' ')}Z'"
    if isinstance(value, float):
        if math.isnan(value):
            return "CAST('NaN' AS DOUBLE)"
        if math.isinf(value):
            return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
        text = repr(value)
        return text.removesuffix(".0") if abs(value) < 1e15 else text
    return f"{value:f}" if isinstance(value, decimal.Decimal) else str(value)


def value_of(kind: Kind, key: int) -> Any:
    """Return the value of a key, of any kind but a category."""
    if key == encoding.NULL:
        return None
    if kind == "number":
        return encoding.number_value(key)
    if kind == "flag":
        return bool(key)
    if is_decimal(kind):
        return decimal_value(key, kind)
    value = encoding.integer_value(key)
    if kind == "time":
        return encoding.to_datetime(value) or value
    return value


def off_by(kind: Kind, predicate: Predicate, key: int) -> Any:
    """Return how far a value is from satisfying a predicate, or None if there is no distance.

    The distance is a number, or a timedelta for times. It is positive if the value is too high. It
    is 0 for a number that equals an exclusive bound.
    """
    if key == encoding.NULL or kind in ("category", "flag") or predicate.kind == NOT_SET:
        return None
    if predicate == IS_NULL:
        return None
    if predicate.kind == INTERVAL:
        nearest = min(max(key, predicate.low), predicate.high)
    else:
        nearest = min(predicate.points, key=lambda point: abs(point - key))
    if nearest == key:
        return None
    if kind == "integer":
        return encoding.integer_value(key) - encoding.integer_value(nearest)
    if is_decimal(kind):
        return decimal_value(key - nearest, kind)
    if kind == "time":
        try:
            return datetime.timedelta(microseconds=key - nearest)
        except OverflowError:
            return None
    if predicate.kind == INTERVAL and _bound(kind, nearest, key > nearest)[0] in ("<", ">"):
        nearest += 1 if key > nearest else -1
    distance = encoding.number_value(key) - encoding.number_value(nearest)
    return None if math.isnan(distance) else distance
