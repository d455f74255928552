"""Infer the types of JSON values as Spark does: values of different types become strings.

A type is an Arrow type, a dict of the types of an object's fields, or a `ListOf` the type of a
list's items. `NULL` is a type that is not known yet. `MIXED` is a string type for values that are
not all strings in the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from tocsin.cli.events.text_values import fits
from tocsin.cli.events.types import TIME, list_type, merge_numbers


class ListOf(NamedTuple):
    """The type of a list."""

    item: Any


NULL = pa.null()
MIXED = pa.large_string()
_INT64 = range(-(2**63), 2**63)
_MAX_DIGITS = 38  # of a decimal128


def infer_type(values: Iterable[Any]) -> Any:
    """Return the common type of values that Python's json returned."""
    by_type: dict[type, list[Any]] = {}
    for value in values:
        by_type.setdefault(type(value), []).append(value)
    merged = NULL
    for python_type, group in by_type.items():
        merged = merge(merged, _INFER[python_type](group))
    return merged


def _infer_integers(values: list[int]) -> pa.DataType:
    low, high = min(values), max(values)
    if low in _INT64 and high in _INT64:
        return pa.int64()
    merged = NULL
    for value in {v for v in values if v not in _INT64}:
        digits = len(str(abs(value)))
        type_ = pa.decimal128(digits, 0) if digits <= _MAX_DIGITS else pa.float64()
        merged = merge(merged, type_)
    return merge(merged, pa.int64()) if any(v in _INT64 for v in values) else merged


def infer_texts(texts: pa.Array) -> pa.DataType:
    """Return the type of strings: a time, a string, or `NULL` if all are empty."""
    texts = texts.filter(pa.compute.not_equal(texts, ""))
    if not len(texts):
        return NULL
    # Test the first one alone: if it is no time, which is common, the rest need not be tested.
    return TIME if fits(texts.slice(0, 1), TIME) and fits(texts, TIME) else pa.string()


def _infer_objects(values: list[dict[str, Any]]) -> dict[str, Any]:
    fields: dict[str, list[Any]] = {}
    for value in values:
        for name, field in value.items():
            fields.setdefault(name, []).append(field)
    return {name: infer_type(field_values) for name, field_values in fields.items()}


_INFER: dict[type, Any] = {
    type(None): lambda values: NULL,
    bool: lambda values: pa.bool_(),
    int: _infer_integers,
    float: lambda values: pa.float64(),
    str: lambda values: infer_texts(pa.array(values, pa.string())),
    dict: _infer_objects,
    list: lambda values: ListOf(infer_type(itertools.chain.from_iterable(values))),
}


def merge(one: Any, other: Any) -> Any:
    """Return the common type of values of two types."""
    if one == other or _is_null(other):
        return one
    if _is_null(one):
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return {n: merge(one.get(n, NULL), other.get(n, NULL)) for n in {**one, **other}}
    if isinstance(one, ListOf) and isinstance(other, ListOf):
        return ListOf(merge(one.item, other.item))
    if not isinstance(one, pa.DataType) or not isinstance(other, pa.DataType):
        return MIXED
    if {one, other} == {pa.string(), TIME}:
        return pa.string()
    return merge_numbers(one, other) or MIXED


def has_mixed(type_: Any) -> bool:
    """Return whether a type is or contains `MIXED`."""
    if isinstance(type_, dict):
        return any(map(has_mixed, type_.values()))
    return has_mixed(type_.item) if isinstance(type_, ListOf) else type_ == MIXED


def _is_null(type_: Any) -> bool:
    return isinstance(type_, pa.DataType) and pa.types.is_null(type_)


def arrow_type(type_: Any) -> pa.DataType | None:
    """Return the Arrow type of a type, None if it has no fields; `NULL` becomes a string.

    Fields are in the order of their names; fields without a name are left out.
    """
    if isinstance(type_, dict):
        types = {n: arrow_type(type_[n]) for n in sorted(type_, key=_java_sort_key) if n}
        fields = [(name, type_) for name, type_ in types.items() if type_ is not None]
        return pa.struct(fields) if fields else None
    if isinstance(type_, ListOf):
        item = arrow_type(type_.item)
        return None if item is None else list_type(item)
    return pa.string() if _is_null(type_) or type_ == MIXED else type_


def _java_sort_key(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
