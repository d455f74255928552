"""Predicates back into words: the SQL a person would write, and how far a value is off.

What is written here, read again, gives the same predicate; but for times outside of the
years 1 to 9999, which have no literal.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from typing import Any

from sqlglot.dialects.spark import Spark

from tocsin.model import line
from tocsin.model.categories import Categories
from tocsin.model.predicates import ALWAYS, INTERVAL, IS_NULL, NOT_NULL, NOT_SET, Predicate
from tocsin.model.schema import Kind


def predicate_text(name: str, kind: Kind, predicate: Predicate, categories: Categories) -> str:
    """Return a predicate as SQL.

    >>> predicate_text("n", "integer", Predicate(INTERVAL, 3, 8), Categories())
    'n BETWEEN 3 AND 8'
    """
    if not name.isidentifier() or not name.isascii() or name.upper() in Spark.Tokenizer.KEYWORDS:
        name = "`" + name.replace("`", "``") + "`"
    if predicate == ALWAYS:
        return f"({name} IS NULL OR {name} IS NOT NULL)"
    if predicate == IS_NULL:
        return f"{name} IS NULL"
    if predicate == NOT_NULL:
        return f"{name} IS NOT NULL"
    if predicate.kind != INTERVAL:
        return _set_text(name, kind, predicate, categories)
    low, high = predicate.low, predicate.high
    if kind == "category":
        return _list(name, "IN", _literals(kind, range(low, high + 1), categories))
    if low == high:
        return f"{name} = {_literal(kind, low)}"
    lower = _end(kind, low, False) if low > line.LOWEST else None
    upper = _end(kind, high, True) if high < line.HIGHEST else None
    if lower and upper and lower[0] == ">=" and upper[0] == "<=":
        return f"{name} BETWEEN {lower[1]} AND {upper[1]}"
    return " AND ".join(
        f"{name} {operator} {bound}" for operator, bound in filter(None, (lower, upper))
    )


def _set_text(name: str, kind: Kind, predicate: Predicate, categories: Categories) -> str:
    points = [p for p in predicate.points if p != line.NULL]
    values = _literals(kind, points, categories)
    if predicate.kind != NOT_SET:
        return _list(name, "IN", values)
    if line.NULL in predicate.points:
        return _list(name, "NOT IN", values)
    return " AND ".join(f"NOT {name} <=> {value}" for value in values)


def _list(name: str, operator: str, values: list[str]) -> str:
    if len(values) == 1:
        return f"{name} {'=' if operator == 'IN' else '<>'} {values[0]}"
    return f"{name} {operator} ({', '.join(values)})"


def _end(kind: Kind, key: int, upper: bool) -> tuple[str, str]:
    """Return operator and bound, in the closed or the open spelling.

    The open one if it is shorter (x > 5, not x >= 5.000000000000001), or if the closed one has
    no literal (above the last time, below NaN).
    """
    closed, opened = ("<=", "<") if upper else (">=", ">")
    beyond = key + 1 if upper else key - 1
    if not _has_literal(kind, key):
        return opened, _literal(kind, beyond)
    inside = _literal(kind, key)
    if kind == "number" and _has_literal(kind, beyond):
        outside = _literal(kind, beyond)
        if len(outside) < len(inside):
            return opened, outside
    return closed, inside


def _has_literal(kind: Kind, key: int) -> bool:
    if kind == "time":
        return line.time_value(line.integer_value(key)) is not None
    return kind != "number" or key == line.NAN or not math.isnan(line.number_value(key))


def _literals(kind: Kind, keys: Iterable[int], categories: Categories) -> list[str]:
    if kind == "category":
        return [_quoted(str(categories.text(key))) for key in keys]
    return [_literal(kind, key) for key in keys]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


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
    return str(value)


def value_of(kind: Kind, key: int) -> Any:
    """Return the value a key stands for, of any kind but a category."""
    if key == line.NULL:
        return None
    if kind == "number":
        return line.number_value(key)
    if kind == "flag":
        return bool(key)
    value = line.integer_value(key)
    if kind == "time":
        return line.time_value(value) or value
    return value


def off_by(kind: Kind, predicate: Predicate, key: int) -> Any:
    """Return how far a value lies from what a predicate allows; None where that says nothing.

    A number, or a timedelta for times; positive if the value is too high. 0 for a number that
    misses only since the end is open.
    """
    if key == line.NULL or kind in ("category", "flag") or predicate.kind == NOT_SET:
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
        return line.integer_value(key) - line.integer_value(nearest)
    if kind == "time":
        try:
            return datetime.timedelta(microseconds=key - nearest)
        except OverflowError:
            return None
    if predicate.kind == INTERVAL and _end(kind, nearest, key > nearest)[0] in ("<", ">"):
        nearest += 1 if key > nearest else -1
    distance = line.number_value(key) - line.number_value(nearest)
    return None if math.isnan(distance) else distance
