"""Read blocks of JSON lines with Arrow, several times as fast as with Python's json.

Arrow is used only if its result is the same as Python's. Otherwise functions return None, and
Python reads the block. Arrow crashes on a line that is null, and on lists nested ten thousand deep
(seen in pyarrow 26), so it is not given blocks that may have them.
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
from tocsin.cli.events.types import TIME, has_decimals, list_type

_NULL_AFTER_OBJECT = re.compile(rb"\}\s*null")
_MAX_BRACKETS = 1000  # in a line, which limits its depth; chosen


class _UnsureError(Exception):
    """The result may differ from Python's."""


def infer_block(lines: Sequence[bytes], known: dict[str, Any]) -> dict[str, Any] | None:
    """Return the type of a block's objects; `known` is the type of the blocks before it."""
    try:
        text_fields = [(n, _to_arrow_type(x)) for n, x in known.items() if _has_text(x)]
        table = _parse(lines, pa.schema(text_fields), "infer")
        if any(_has_time(f.type) for f in table.schema):
            fields = [(f.name, _times_to_text(f.type)) for f in table.schema]
            table = _parse(lines, pa.schema(fields), "ignore")
        columns = zip(table.column_names, table.columns, strict=True)
        return {name: _infer_type(column.combine_chunks()) for name, column in columns}
    except (_UnsureError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def read_block(lines: Sequence[bytes], fields: Sequence[pa.Field]) -> pa.RecordBatch | None:
    """Return the values of fields with known types."""
    try:
        schema = pa.schema([(f.name, _times_to_text(f.type)) for f in fields])
        table = _parse(lines, schema, "ignore")
        if any(has_decimals(f.type) for f in fields):
            table.validate(full=True)  # raises for too many digits, which Arrow accepts
        arrays = [_parse_times(table.column(f.name).combine_chunks(), f.type) for f in fields]
        return pa.RecordBatch.from_arrays(arrays, [f.name for f in fields])
    except (_UnsureError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _parse(lines: Sequence[bytes], schema: pa.Schema, unexpected: str) -> pa.Table:
    data = b"".join(lines)
    data.decode()  # raises if it is not UTF-8; Arrow would accept any bytes
    rows = sum(map(bool, map(bytes.strip, lines)))
    is_safe = (
        all(line.lstrip()[:1] in (b"{", b"") for line in lines)
        and all(line.count(b"[") + line.count(b"{") < _MAX_BRACKETS for line in lines)
        and not _NULL_AFTER_OBJECT.search(data)
    )
    if not is_safe or not rows:
        raise _UnsureError
    table = pyarrow.json.read_json(
        io.BytesIO(data),
        pyarrow.json.ReadOptions(block_size=len(data) + 1),
        pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
    )
    if table.num_rows != rows:  # an object on several lines, or several on one
        raise _UnsureError
    table.validate()  # raises for lists of only nulls, which Arrow reads wrongly
    return table


# ------------------------------------------------------------ types


def _infer_type(array: pa.Array) -> Any:
    type_ = array.type
    if t.is_struct(type_):
        fields = zip(type_, array.flatten(), strict=True)
        return {field.name: _infer_type(values) for field, values in fields}
    if t.is_list(type_):
        return ListOf(_infer_type(array.flatten()))
    if t.is_string(type_):
        return infer_texts(array.drop_null())
    if t.is_floating(type_) and pc.any(pc.greater_equal(pc.abs(array), 2.0**63)).as_py():
        raise _UnsureError  # it may be an integer in the file
    return type_


def _has_text(known: Any) -> bool:
    if isinstance(known, dict):
        return any(map(_has_text, known.values()))
    if isinstance(known, ListOf):
        return _has_text(known.item)
    return bool(t.is_timestamp(known) or t.is_string(known))


def _to_arrow_type(known: Any) -> pa.DataType:
    """Return the Arrow type as which values of a type are read."""
    if isinstance(known, dict):
        return pa.struct([(name, _to_arrow_type(field)) for name, field in known.items()])
    if isinstance(known, ListOf):
        return pa.list_(_to_arrow_type(known.item))
    return _times_to_text(known)


def _has_time(type_: pa.DataType) -> bool:
    return _times_to_text(type_) != type_


def _times_to_text(type_: pa.DataType) -> pa.DataType:
    """Return a type with strings instead of times, because Arrow accepts other formats of times."""
    if t.is_struct(type_):
        return pa.struct([(f.name, _times_to_text(f.type)) for f in type_])
    if t.is_list(type_):
        return list_type(_times_to_text(type_.value_type))
    return pa.string() if t.is_timestamp(type_) else type_


# ------------------------------------------------------------ values


def _parse_times(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return an array in a type; strings become times where the type has times."""
    if array.type == type_:
        return array
    if t.is_struct(type_):
        fields = zip(array.flatten(), type_, strict=True)
        children = [_parse_times(child, field.type) for child, field in fields]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())
    if t.is_list(type_):
        lengths = pc.list_value_length(array).fill_null(0)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        items = _parse_times(array.flatten(), type_.value_type)
        mask = array.is_null()
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type_, mask=mask)
    if not fits(array.drop_null(), TIME):
        raise _UnsureError
    return parse(array, TIME)
