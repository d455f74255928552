"""Normalises event columns to the Arrow types in which terms are computed."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import EventError
from tocsin.model.arrow import decode, is_text, translate_errors
from tocsin.model.local_times import microseconds
from tocsin.model.terms.arrays import from_values, validity
from tocsin.model.terms.types import Type, arrow_type


def as_source(array: Any, type_: Type, zone: datetime.tzinfo) -> pa.Array:
    """Return a column of any Arrow type that fits, in the Arrow type of a source type.

    Values are those that attributes have: a timestamp without a zone is local time in `zone`,
    nanoseconds are cut off, and integers are read as doubles where numbers are expected. Raises an
    EventError for columns of another type, and for integers beyond bigint.
    """
    with translate_errors(EventError, f"a column cannot be read as {type_}"):
        return _convert(array, type_, zone)


def _convert(array: Any, type_: Type, zone: datetime.tzinfo) -> pa.Array:
    target = arrow_type(type_)
    if isinstance(array, pa.Array) and array.type == target and not type_.is_nested:
        return array
    array = decode(array)
    found = array.type
    if t.is_null(found):
        return pa.nulls(len(array), target)
    name = type_.name
    if name == "struct" and t.is_struct(found):
        return _convert_struct(array, type_, zone)
    if name == "map" and t.is_map(found):
        return _convert_map(array, type_, zone)
    if name == "timestamp" and (t.is_timestamp(found) or t.is_date(found)):
        return from_values(microseconds(array, zone), target, validity(array))
    if (
        (name == "bigint" and t.is_integer(found))
        or (name == "double" and (t.is_floating(found) or t.is_integer(found)))
        or (name == "string" and is_text(found))
        or (name == "boolean" and t.is_boolean(found))
        or (name == "date" and t.is_date(found))
        or (name == "decimal" and (t.is_decimal(found) or t.is_integer(found)))
    ):
        if found == target:
            return array
        if t.is_integer(found) and name == "decimal":
            array = array.cast(pa.decimal128(20, 0))
        # Integers beyond 2**53 become the nearest double; all other casts are checked.
        return array.cast(target, safe=name != "double")
    raise EventError(f"the events' column is of type {found}, but {type_} is expected")


def _convert_struct(array: pa.StructArray, type_: Type, zone: datetime.tzinfo) -> pa.Array:
    names = [field.name.lower() for field in array.type]
    children = array.flatten()  # with the offset and the nulls of the structs
    converted = []
    for name, each in type_.fields:
        if names.count(name.lower()) != 1:
            raise EventError(f"the events' structs have no field {name!r}, or several")
        converted.append(_convert(children[names.index(name.lower())], each, zone))
    valid = validity(array)
    mask = None if valid is None else pa.array(~valid.to_numpy(zero_copy_only=False))
    fields = list(arrow_type(type_))
    return pa.StructArray.from_arrays(converted, fields=fields, mask=mask)


def _convert_map(array: pa.MapArray, type_: Type, zone: datetime.tzinfo) -> pa.Array:
    assert type_.item is not None
    target = arrow_type(type_)
    if array.type.equals(target):
        return array
    if not is_text(array.type.key_type):
        raise EventError(f"the keys of the events' maps are of type {array.type.key_type}")
    keys = _convert(array.keys, Type("string"), zone)
    items = _convert(array.items, type_.item, zone)
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
    entries = pa.StructArray.from_arrays(
        [keys, items], fields=[target.key_field, target.item_field]
    )
    valid = validity(array)
    bitmap = (
        None
        if valid is None
        else from_values(np.zeros(len(array), np.int8), pa.int8(), valid).buffers()[0]
    )
    return pa.Array.from_buffers(
        target, len(array), [bitmap, pa.py_buffer(offsets)], children=[entries]
    )
