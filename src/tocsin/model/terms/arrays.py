"""Conversions between Arrow and NumPy: values without nulls, and arrays with given nulls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.model.arrow import values_of

Value = Any  # an Arrow array, or a scalar if it is constant


def plain(value: Value) -> Any:
    """Return the NumPy values of an array of numbers, or the Python number of a scalar."""
    if isinstance(value, pa.Array):
        return values_of(value)
    return value.value if t.is_temporal(value.type) else value.as_py()


def validity(*arguments: Value | None) -> pa.Array | None:
    """Return where no array is null, or None if there are no nulls."""
    valid = None
    for argument in arguments:
        if isinstance(argument, pa.Array) and argument.null_count:
            each = pc.is_valid(argument)
            valid = each if valid is None else pc.and_(valid, each)
    return valid


def from_values(
    values: np.ndarray, type_: pa.DataType, valid: pa.Array | None = None, length: int = -1
) -> pa.Array:
    """Return an array of NumPy values, taken as the Arrow type, without a copy."""
    bitmap = None
    if valid is not None:
        if valid.offset:
            valid = pa.concat_arrays([valid, pa.array([], pa.bool_())])
        if valid.offset:
            valid = pa.array(np.asarray(valid.to_numpy(zero_copy_only=False)))
        bitmap = valid.buffers()[1]
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(type_, len(values) if length < 0 else length, [bitmap, data])


def replace_values(array: pa.Array, values: np.ndarray, type_: pa.DataType) -> pa.Array:
    """Return an array of values with the nulls of another array."""
    return from_values(values, type_, validity(array))


def null_where(array: pa.Array, is_bad: np.ndarray | pa.Array) -> pa.Array:
    """Return an array with nulls at further places."""
    if isinstance(is_bad, np.ndarray):
        if not is_bad.any():
            return array
        is_bad = pa.array(is_bad)
    return pc.if_else(is_bad, pa.scalar(None, array.type), array)


def map_distinct(array: pa.Array, function: Callable[[Any], Any], type_: pa.DataType) -> pa.Array:
    """Apply a Python function to the values of an array, once for each distinct value.

    The function is not called for null, which stays null. Slow for many distinct values.
    """
    encoded = array.dictionary_encode()
    results = [None if v is None else function(v) for v in encoded.dictionary.to_pylist()]
    return pa.array(results, type_).take(encoded.indices)


def map_where(
    array: pa.Array, rows: np.ndarray, function: Callable[[Any], Any], fast: pa.Array
) -> pa.Array:
    """Return `fast`, but in some rows the result of a Python function of `array`."""
    if not len(rows):
        return fast
    slow = map_distinct(array.take(pa.array(rows)), function, fast.type)
    mask = np.zeros(len(array), bool)
    mask[rows] = True
    return pc.replace_with_mask(fast, pa.array(mask), slow)


def start_at_zero(texts: pa.Array) -> pa.Array:
    """Return texts (large_string) whose first offset is 0, unless the array is a slice.

    Other offsets are valid, and casting a slice produces them. But ascii_lower and ascii_upper then
    return texts outside of their own memory (seen in Arrow 26).
    """
    if texts.offset or not len(texts):
        return texts
    bitmap, offsets_buffer, data = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, len(texts) + 1)
    first = int(offsets[0])
    if not first:
        return texts
    buffers = [bitmap, pa.py_buffer(offsets - first), data.slice(first, int(offsets[-1]) - first)]
    return pa.Array.from_buffers(texts.type, len(texts), buffers, texts.null_count)
