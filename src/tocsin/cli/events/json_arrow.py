"""Blocks of JSON lines, read by Arrow: several times as fast as by Python's json.

Arrow is asked where it gives what Python would; None says that Python has to look. It crashes on
a line that is null, and on lists nested ten thousand deep (seen in pyarrow 26), so it gets no
block that may have them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.types as t

from tocsin.cli.events.json_types import ListOf, infer_texts
from tocsin.cli.events.text_values import fits, parse
from tocsin.cli.events.types import TIME, list_type

_NULL_AFTER_OBJECT = re.compile(rb"\}\s*null")
_BRACKETS = 1000  # in a line, which bounds how deep it is


class _UnsureError(Exception):
    """Python has to look."""


def infer_block(lines: Sequence[bytes], known: dict[str, Any]) -> dict[str, Any] | None:
    """Return the type of a block's objects; `known` is that of what came before."""
    try:
        texts = [(n, _read_type(x)) for n, x in known.items() if _has_text(x)]
        table = _parsed(lines, pa.schema(texts), "infer")
        if any(_has_time(f.type) for f in table.schema):
            read_as = [(f.name, _without_times(f.type)) for f in table.schema]
            table = _parsed(lines, pa.schema(read_as), "ignore")
        columns = zip(table.column_names, table.columns, strict=True)
        return {name: _type_of(column.combine_chunks()) for name, column in columns}
    except (_UnsureError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def read_block(lines: Sequence[bytes], fields: Sequence[pa.Field]) -> pa.RecordBatch | None:
    """Return the values of fields whose types are known."""
    try:
        schema = pa.schema([(f.name, _without_times(f.type)) for f in fields])
        table = _parsed(lines, schema, "ignore")
        arrays = [_timed(table.column(f.name).combine_chunks(), f.type) for f in fields]
        return pa.RecordBatch.from_arrays(arrays, [f.name for f in fields])
    except (_UnsureError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _parsed(lines: Sequence[bytes], schema: pa.Schema, unexpected: str) -> pa.Table:
    data = b"".join(lines)
    data.decode()  # Arrow takes any bytes for a text
    rows = sum(map(bool, map(bytes.strip, lines)))
    is_safe = (
        all(line.lstrip()[:1] in (b"{", b"") for line in lines)
        and all(line.count(b"[") + line.count(b"{") < _BRACKETS for line in lines)
        and not _NULL_AFTER_OBJECT.search(data)
    )
    if not is_safe or not rows:
        raise _UnsureError
    table = pyarrow.json.read_json(
        io.BytesIO(data),
        pyarrow.json.ReadOptions(block_size=len(data) + 1),
        pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
    )
    if table.num_rows != rows:  # an object over several lines, or several in one
        raise _UnsureError
    table.validate()  # lists of nulls alone, [null], are not
    return table


# ------------------------------------------------------------ types


def _type_of(array: pa.Array) -> Any:
    type_ = array.type
    if t.is_struct(type_):
        fields = zip(type_, array.flatten(), strict=True)
        return {field.name: _type_of(values) for field, values in fields}
    if t.is_list(type_):
        return ListOf(_type_of(array.flatten()))
    if t.is_string(type_):
        return infer_texts(array.drop_null())
    if t.is_floating(type_) and pc.any(pc.greater_equal(pc.abs(array), 2.0**63)).as_py():
        raise _UnsureError  # it may have been an integer
    return type_


def _has_text(known: Any) -> bool:
    if isinstance(known, dict):
        return any(map(_has_text, known.values()))
    if isinstance(known, ListOf):
        return _has_text(known.item)
    return bool(t.is_timestamp(known) or t.is_string(known))


def _read_type(known: Any) -> pa.DataType:
    """Return the Arrow type to read a type as."""
    if isinstance(known, dict):
        return pa.struct([(name, _read_type(field)) for name, field in known.items()])
    if isinstance(known, ListOf):
        return pa.list_(_read_type(known.item))
    return _without_times(known)


def _has_time(type_: pa.DataType) -> bool:
    return _without_times(type_) != type_


def _without_times(type_: pa.DataType) -> pa.DataType:
    """Return a type with texts for times: what a time is we know better than Arrow."""
    if t.is_struct(type_):
        return pa.struct([(f.name, _without_times(f.type)) for f in type_])
    if t.is_list(type_):
        return list_type(_without_times(type_.value_type))
    return pa.string() if t.is_timestamp(type_) else type_


# ------------------------------------------------------------ values


def _timed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return an array with times for the texts that are to be times."""
    if array.type == type_:
        return array
    if t.is_struct(type_):
        children = [_timed(part, f.type) for part, f in zip(array.flatten(), type_, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())
    if t.is_list(type_):
        lengths = pc.list_value_length(array).fill_null(0)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        items = _timed(array.flatten(), type_.value_type)
        mask = array.is_null()
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type_, mask=mask)
    if not fits(array.drop_null(), TIME):
        raise _UnsureError
    return parse(array, TIME)
