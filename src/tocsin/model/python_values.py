"""Encodes single Python values as keys: those in dicts."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np

from tocsin.errors import EventError
from tocsin.model import encoding
from tocsin.model.categories import Categories
from tocsin.model.columns import find_bad_range
from tocsin.model.decimals import decimal_key, digits_of
from tocsin.model.event_densities import (
    Density,
    density_of_dict,
    read_usual_density,
    write_density_keys,
)
from tocsin.model.schema import ARTICLE, RANGE, Kind, Schema, can_be_range, has_range_fields


class ValueEncoder:
    """Encodes values of the attributes of a schema. Messages name the event and the attribute."""

    def __init__(self, schema: Schema, categories: Categories):
        self._schema = schema
        self._categories = categories

    def key(self, attribute: int, value: Any, number: int) -> int:
        """Return the key of a value; raise if it is not of the attribute's kind."""
        return self.key_of_kind(
            self._schema.kind(attribute), value, number, self._schema.name(attribute)
        )

    def key_of_kind(self, kind: Kind, value: Any, number: int, name: str) -> int:
        """Return the key of a value; raise if it is not of the kind."""
        if isinstance(value, np.generic):
            if isinstance(value, np.datetime64):
                value = value.astype("datetime64[us]")
            value = value.item()
            if value is None:  # NumPy's NaT
                return encoding.NULL
        if kind == "number" and type(value) in (float, int):
            try:
                return encoding.number_key(float(value))
            except OverflowError:
                raise EventError(
                    f"event {number}: attribute {name!r} is a 64-bit "
                    "number, and the event's integer is too large for one"
                ) from None
        if kind == "category" and isinstance(value, str):
            return self._categories.get(value, encoding.OTHER)
        if kind == "flag" and isinstance(value, bool):
            return int(value)
        if kind == "integer" and type(value) is int:
            if not -(2**63) <= value < 2**63:
                raise EventError(
                    f"event {number}: attribute {name!r} is a 64-bit "
                    f"integer, and {value} does not fit"
                )
            return encoding.integer_key(value)
        if kind == "time" and isinstance(value, datetime.date):
            if value != value:  # pandas' NaT
                return encoding.NULL
            return encoding.integer_key(encoding.to_microseconds(value, self._schema.zone))
        advice = _advice(kind, value)
        digits = digits_of(kind)
        if digits is not None and type(value) in (int, float, decimal.Decimal):
            try:
                return decimal_key(value, digits)
            except ValueError as error:
                advice = f", {error}"
        raise EventError(
            f"event {number}: attribute {name!r} is {ARTICLE[kind]}, "
            f"but the event has {type(value).__name__} {value!r}" + advice
        )

    def range_keys(
        self, attribute: int, value: dict[str, Any], number: int
    ) -> tuple[int, int, Density | None]:
        """Return the keys of the ends of a range, and its density if it is not uniform."""
        usual = read_usual_density(value) if self._schema.kind(attribute) == "number" else None
        if usual is not None:
            return usual
        kind, name = self._schema.kind(attribute), self._schema.name(attribute)
        place = f"event {number}: attribute {name!r}"
        reason = (
            f"the attribute is {ARTICLE[kind]}, and only integers, decimals, numbers and times "
            "have ranges"
            if not can_be_range(kind)
            else "a range is a dict of low and high, also with mean and deviation, or with edges "
            "and weights"
        )
        if can_be_range(kind) and set(value) == set(RANGE):
            low, high = (
                encoding.NULL if value[end] is None else self.key(attribute, value[end], number)
                for end in RANGE
            )
            if encoding.NULL < low <= high < encoding.NAN:  # arrays take longer
                return low, high, None
            bad = find_bad_range(kind, np.array([low]), np.array([high]))
            if bad is None:
                return low, high, None
            reason = bad[1]
        elif can_be_range(kind) and has_range_fields(value):
            reason = f"the attribute is {ARTICLE[kind]}, and only numbers have densities"
            if kind == "number":
                try:
                    array = density_of_dict(value)
                except ValueError as error:
                    reason = str(error)
                else:
                    keys = np.empty(1, np.int64)
                    high_keys, d = write_density_keys(array, keys, lambda _: place)
                    density = None
                    if len(d.indices):
                        density = Density(
                            float(d.low[0]), float(d.high[0]), float(d.mean[0]),
                            float(d.deviation[0]), d.edge.tolist(), d.below.tolist(),
                        )  # fmt: skip
                    return int(keys[0]), int(high_keys[0]), density
        raise EventError(f"{place}: {reason}; got {value!r}")


def _advice(kind: Kind, value: Any) -> str:
    if isinstance(value, list | tuple | np.ndarray):
        return "; a dict is one event: for columns use a table, as in pyarrow.table(...)"
    if kind == "time" and isinstance(value, str):
        return "; parse it first, as in datetime.fromisoformat(...)"
    if kind == "integer" and isinstance(value, float):
        return "; declare the attribute as a number, or give an int"
    return ""
