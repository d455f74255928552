"""Computes the terms that rules test from the columns of events, block by block.

The columns are those of a table, entries of its maps, or values of dicts. They are read as plain
columns are, with the same errors, and normalised to the Arrow types that terms are evaluated on.
A term cannot be computed from a range.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.errors import EventError
from tocsin.model import encoding
from tocsin.model.arrow import translate_errors
from tocsin.model.attributes import is_wide
from tocsin.model.columns import CategoryEncoder, check_column_type, is_range, write_keys
from tocsin.model.decimal_columns import saturated_integers
from tocsin.model.decimals import digits_of
from tocsin.model.schema import Kind, Schema
from tocsin.model.terms import Term, Type, arrow_type, as_source, evaluate

Column = Callable[[int, int], pa.Array]  # the rows from `start` up to `stop`


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
        array = self._columns[name](start, stop)
        self.check_type(name, array.type)
        with translate_errors(EventError, f"attribute {name!r}"):
            return as_source(array, self.sources[name], self._schema.zone)

    def compute_dicts(
        self,
        dicts: Sequence[Mapping[str, Any]],
        start: int,
        stop: int,
        check: Callable[[int, Any, int], int],
    ) -> list[tuple[int, pa.Array]]:
        """Return the same for dicts; `check(attribute, value, event)` returns the key of a value.

        It raises if the value is not of the attribute's kind.
        """
        places = {name.lower(): name for name in self.sources}
        values: dict[str, list[Any]] = {name: [None] * (stop - start) for name in self.sources}
        for number in range(start, stop):
            for name, value in dicts[number].items():
                source = places.get(name.lower()) if isinstance(name, str) else None
                if source is not None:  # the last of several spellings of a name counts
                    values[source][number - start] = value

        def column(name: str) -> pa.Array:
            type_, attribute = self.sources[name], self._schema.find(name)
            converted: list[Any] = []
            for number, value in enumerate(values[name], start):
                if value is None or attribute is None:
                    converted.append(self._convert_nested(value))
                    continue
                if isinstance(value, Mapping):
                    raise self._range_error(name).with_place(f"event {number}")
                converted.append(self._convert(attribute, value, check(attribute, value, number)))
            with translate_errors(EventError, f"attribute {name!r}"):
                array = pa.array(converted, arrow_type(type_))
                return as_source(array, type_, self._schema.zone)

        return self._evaluate(column, stop - start)

    def _convert(self, attribute: int, value: Any, key: int) -> Any:
        """Return a value of an event as Arrow takes it, given its key."""
        if key == encoding.NULL:
            return None
        if self._schema.kind(attribute) == "time":
            return encoding.integer_value(key)
        return value.item() if isinstance(value, np.generic) else value

    def _convert_nested(self, value: Any) -> Any:
        """Return a value of a struct or a map; times without a zone are in the schema's zone."""
        if isinstance(value, Mapping):
            return {name: self._convert_nested(each) for name, each in value.items()}
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, datetime.date):
            return encoding.to_microseconds(value, self._schema.zone)
        return value

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
        if attribute in self._wide:
            _write_saturated_keys(array, kind, out)
        else:
            write_keys(array, kind, self._schema, encoder, out, name)


def _write_saturated_keys(array: pa.Array, kind: Kind, out: np.ndarray) -> None:
    """Write the keys of decimals of more digits than the kind has."""
    digits = digits_of(kind)
    assert digits is not None
    out[:] = saturated_integers(array, digits)
    if array.null_count:
        out[np.asarray(array.is_null())] = encoding.NULL
