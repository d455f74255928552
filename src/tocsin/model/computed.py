"""Computes the terms that rules test from the columns of events, block by block.

The columns are those of a table, entries of its maps, or values of dicts. They are read as plain
columns are, with the same errors, and normalised to the Arrow types that terms are evaluated on.
A term cannot be computed from a range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import EventError
from tocsin.model import encoding
from tocsin.model.arrow import decode, translate_errors, values_of
from tocsin.model.attributes import is_wide
from tocsin.model.columns import CategoryEncoder, check_column_type, is_range, write_keys
from tocsin.model.decimal_columns import saturated_integers, unscaled_integers
from tocsin.model.decimals import decimal_value, digits_of, is_decimal
from tocsin.model.schema import Kind, Schema
from tocsin.model.terms import Term, Type, arrow_type, as_source, evaluate
from tocsin.model.terms.arrays import from_values, validity

_FAR_DAYS = 100_000_000  # from 1970: 273,000 years, within the range of timestamps
Column = Callable[[int, int], pa.Array]  # the rows from `start` up to `stop`
FindKey = Callable[[Kind, Any, int, str], int]  # of a kind, a value, its event and its name


class ComputedColumns:
    """The terms that rules test, for the events of one call."""

    def __init__(self, terms: Mapping[int, Term], schema: Schema):
        self.attributes = list(terms)
        self._terms = list(terms.values())
        self._wide = {attribute for attribute, term in terms.items() if is_wide(term)}
        self._schema = schema
        by_name = dict(schema.sources().values()) if terms else {}
        names = dict.fromkeys(name for term in self._terms for name in term.columns)
        self.sources: dict[str, Type] = {name: by_name[name] for name in names}
        self._columns: dict[str, Column] = {}

    def bind(self, name: str, column: Column) -> None:
        """Read a source by a function of the first row and one after the last."""
        self._columns[name] = column

    def check_type(self, name: str, type_: pa.DataType) -> None:
        """Raise if a source cannot be read from a column of this type."""
        kind = self.sources[name].kind
        if is_range(type_) and kind is not None:
            raise self._range_error(name)
        if kind is not None:
            check_column_type(type_, kind, name)

    def _range_error(self, name: str) -> EventError:
        term = next(term for term in self._terms if name in term.columns)
        return EventError(
            f"attribute {name!r} is a range (low and high) in the events, but a rule tests "
            f"{term.sql}, which is not defined for ranges"
        )

    def compute(self, start: int, stop: int) -> list[tuple[int, pa.Array]]:
        """Return each attribute with its values, for the events from `start` up to `stop`."""
        return self._evaluate(lambda name: self._read(name, start, stop), stop - start)

    def _read(self, name: str, start: int, stop: int) -> pa.Array:
        if name not in self._columns:  # of an empty list, which may be of dicts
            return pa.nulls(stop - start, arrow_type(self.sources[name]))
        return self.normalise(name, self._columns[name](start, stop))

    def normalise(self, name: str, array: pa.Array) -> pa.Array:
        """Return values of a source in the Arrow type that terms are evaluated on."""
        self.check_type(name, array.type)
        type_ = self.sources[name]
        if type_.kind is not None and is_decimal(type_.kind):
            return _to_decimals(array, type_.kind, name)
        try:
            return as_source(array, type_, self._schema.zone)
        except EventError as error:
            raise error.with_place(f"attribute {name!r}") from None

    def compute_dicts(
        self, dicts: Sequence[Mapping[str, Any]], start: int, stop: int, find_key: FindKey
    ) -> list[tuple[int, pa.Array]]:
        """Return the same for dicts; `find_key` raises if a value is not of its kind."""
        places = {name.lower(): name for name in self.sources}
        values: dict[str, list[Any]] = {name: [None] * (stop - start) for name in self.sources}
        for number in range(start, stop):
            for name, value in dicts[number].items():
                source = places.get(name.lower()) if isinstance(name, str) else None
                if source is not None:  # the last of several spellings of a name counts
                    values[source][number - start] = value

        def column(name: str) -> pa.Array:
            type_ = self.sources[name]
            converted: list[Any] = []
            for number, value in enumerate(values[name], start):
                if isinstance(value, Mapping) and not type_.is_nested:
                    raise self._range_error(name).with_place(f"event {number}")
                converted.append(_to_arrow_value(value, type_, number, name, find_key))
            with translate_errors(EventError, f"attribute {name!r}"):
                array = pa.array(converted, arrow_type(type_))
            return self.normalise(name, array)

        return self._evaluate(column, stop - start)

    def _evaluate(
        self, column: Callable[[str], pa.Array], length: int
    ) -> list[tuple[int, pa.Array]]:
        cache: dict[str, pa.Array] = {}

        def read(name: str) -> pa.Array:
            if name not in cache:
                cache[name] = column(name)
            return cache[name]

        arrays = evaluate(self._terms, read, length, self._schema.zone)
        return list(zip(self.attributes, arrays, strict=True))

    def write(
        self, attribute: int, array: pa.Array, encoder: CategoryEncoder, out: np.ndarray
    ) -> None:
        """Write the keys of an attribute's values."""
        kind, name = self._schema.kind(attribute), self._schema.name(attribute)
        if t.is_date(array.type):
            array = _clip_dates(array)
        if attribute in self._wide:
            _write_saturated_keys(array, kind, out)
        else:
            write_keys(array, kind, self._schema, encoder, out, name)


def _clip_dates(dates: pa.Array) -> pa.Array:
    """Return dates of which each has a timestamp; constants are not as far away."""
    days = np.clip(values_of(dates), -_FAR_DAYS, _FAR_DAYS)
    return from_values(days, dates.type, validity(dates))


def _to_arrow_value(value: Any, type_: Type, number: int, name: str, find_key: FindKey) -> Any:
    """Return a value of event `number` as Arrow takes it; raise if it is not of the type."""
    if value is None:
        return None
    if type_.is_nested:
        entries = _entries_of(value, number, name)
        if type_.item is not None:
            item = type_.item
            return [
                (key, _to_arrow_value(each, item, number, f"{name}[{key!r}]", find_key))
                for key, each in entries
            ]
        # Names are case-insensitive, and the last of several spellings counts.
        fields = {key.lower(): each for key, each in entries}
        return {
            field: _to_arrow_value(
                fields.get(field.lower()), each, number, f"{name}.{field}", find_key
            )
            for field, each in type_.fields
        }
    kind = type_.kind
    if kind is None:  # a decimal of many digits
        return value
    key = find_key(kind, value, number, name)
    if key == encoding.NULL:
        return None
    if kind == "time":
        return encoding.integer_value(key)
    if is_decimal(kind):
        return decimal_value(key, kind)
    if kind == "number":
        return float(value)
    return value.item() if isinstance(value, np.generic) else value


def _entries_of(value: Any, number: int, name: str) -> list[tuple[str, Any]]:
    """Return the entries of a struct or a map of event `number`; Arrow's maps are such lists."""
    entries = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(entries, list) or not all(
        isinstance(entry, tuple) and len(entry) == 2 for entry in entries
    ):
        raise EventError(f"event {number}: {name!r} must be a dict, got {value!r}")
    for key, _ in entries:
        if not isinstance(key, str):
            raise EventError(f"event {number}: the keys of {name!r} must be texts, got {key!r}")
    return entries


def _to_decimals(array: pa.Array, kind: Kind, name: str) -> pa.Array:
    """Return decimals, integers or floats as decimals of a kind, read as plain columns are."""
    digits = digits_of(kind)
    assert digits is not None
    target = pa.decimal128(*digits)
    if array.type == target:
        return array
    array = decode(array)
    if t.is_null(array.type):
        return pa.nulls(len(array), target)
    with translate_errors(EventError, f"attribute {name!r}"):
        keys = unscaled_integers(array, digits, name)
    unscaled = pa.array(keys, mask=np.asarray(array.is_null())).cast(pa.decimal128(19, 0))
    return pa.Array.from_buffers(target, len(unscaled), unscaled.buffers())


def _write_saturated_keys(array: pa.Array, kind: Kind, out: np.ndarray) -> None:
    """Write the keys of decimals of more digits than the kind has."""
    digits = digits_of(kind)
    assert digits is not None
    out[:] = saturated_integers(array, digits)
    if array.null_count:
        out[np.asarray(array.is_null())] = encoding.NULL
