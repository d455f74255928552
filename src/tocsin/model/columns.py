"""One Arrow column to keys, without a Python loop; nulls by the validity bitmap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.errors import EventError
from tocsin.jit import Float64s, Int64Out, Int64s, UInt8s, kernel
from tocsin.model.line import NAN, NULL, OTHER, SEAM
from tocsin.model.schema import ARTICLE, Kind, Schema


@kernel
def number_keys(values: Float64s, out: Int64Out) -> None:
    """Write the keys of floats: order-preserving bits, -0 as 0, one NaN."""
    bits = values.view(np.int64)
    for i in range(values.shape[0]):
        key = bits[i] if bits[i] >= 0 else NULL - bits[i]
        out[i] = key if values[i] == values[i] else NAN


@kernel
def integer_keys(values: Int64s, out: Int64Out) -> None:
    """Write the keys of integers: themselves, one higher up to the seam."""
    for i in range(values.shape[0]):
        out[i] = values[i] + np.int64(values[i] <= SEAM)


@kernel
def put_nulls(bitmap: UInt8s, first: int, out: Int64Out) -> None:
    """Write NULL where the bit of an Arrow validity bitmap is not set."""
    for i in range(out.shape[0]):
        bit = first + i
        if (bitmap[bit >> 3] >> (bit & 7)) & 1 == 0:
            out[i] = NULL


def column_keys(
    array: pa.Array, kind: Kind, schema: Schema, codes: dict[str, int], out: np.ndarray, name: str
) -> None:
    """Write the keys of an Arrow array of any type that fits the kind."""
    if t.is_null(array.type):
        out[:] = NULL
        return
    if t.is_dictionary(array.type) and kind != "category":
        array = array.dictionary_decode()
    check_type(array.type, kind, name)
    if kind == "category":
        category_keys(array, codes, out)
        return
    if kind == "number":
        number_keys(_values(array, np.float64), out)
    elif kind == "flag":
        out[:] = np.asarray(array.cast(pa.uint8()).fill_null(0))
    elif kind == "time":
        integer_keys(_values(_microseconds(array, schema, name), np.int64), out)
    else:
        if t.is_uint64(array.type):
            array = _cast(array, pa.int64(), name, "exceeds the 64-bit integers that Spark has")
        integer_keys(_values(array, np.int64), out)
    if array.null_count:
        bitmap = np.frombuffer(array.buffers()[0], np.uint8)
        put_nulls(bitmap, array.offset, out)


def category_keys(array: pa.Array, codes: dict[str, int], out: np.ndarray) -> None:
    """Write the codes of texts; texts that no rule mentions share one."""
    if not t.is_dictionary(array.type):
        array = array.dictionary_encode()
    distinct = array.dictionary
    if len(distinct) * 16 < len(codes) or len(distinct) < 4096:
        # Few distinct values: look each up rather than hash all that rules mention.
        found = [NULL if d is None else codes.get(d, OTHER) for d in distinct.to_pylist()]
        table = np.array(found, np.int64)
    else:
        known = pa.array(list(codes), pa.large_string())
        places = pc.index_in(distinct.cast(pa.large_string()), value_set=known)
        numbers = np.fromiter(codes.values(), np.int64, len(codes))
        table = np.where(
            np.asarray(places.is_valid()), numbers[np.asarray(places.fill_null(0))], OTHER
        )
        if distinct.null_count:
            table[np.asarray(distinct.is_null())] = NULL
    if not len(table):
        out[:] = NULL
        return
    indices = array.indices
    np.take(table, np.asarray(indices.fill_null(0)), out=out, mode="clip")
    if indices.null_count:
        out[np.asarray(indices.is_null())] = NULL


def check_type(type_: pa.DataType, kind: Kind, name: str) -> None:
    """Raise if a column of this Arrow type cannot be an attribute of this kind."""
    if t.is_dictionary(type_):
        type_ = type_.value_type
    text = t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_)
    fits = {
        "number": t.is_floating(type_) or t.is_integer(type_),
        "integer": t.is_integer(type_),
        "flag": t.is_boolean(type_),
        "time": t.is_timestamp(type_) or t.is_date(type_),
        "category": text,
    }[kind]
    if fits or t.is_null(type_):
        return
    if t.is_decimal(type_):
        cause = "cast decimals to double or bigint first"
    elif t.is_floating(type_) and kind == "integer":
        cause = (
            "declare it as a number, or cast it (pandas makes an integer column with missing "
            "values float64 unless its dtype is 'Int64')"
        )
    elif text:
        cause = "cast or parse the texts first"
    else:
        cause = "cast the column, or declare the attribute as what it is"
    raise EventError(
        f"attribute {name!r} is {ARTICLE[kind]}, but the events' column is of type {type_}; {cause}"
    )


def _values(array: pa.Array, dtype: Any) -> np.ndarray:
    """Return an array's values as they lie in memory, whatever stands where it is null."""
    raw = np.dtype(np.int64 if t.is_timestamp(array.type) else array.type.to_pandas_dtype())
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), dtype)
    values = np.frombuffer(data, raw, len(array), array.offset * raw.itemsize)
    return values.astype(dtype, copy=False)


def _microseconds(array: pa.Array, schema: Schema, name: str) -> pa.Array:
    type_ = array.type
    if t.is_date(type_):
        array, type_ = array.cast(pa.timestamp("us")), pa.timestamp("us")
    if type_.unit == "ns":
        # Casting would refuse what is not a whole microsecond; Spark drops the rest.
        floored = pc.floor_temporal(array, unit="microsecond")
        array = floored.cast(pa.timestamp("us", type_.tz))
    elif type_.unit != "us":
        too_far = "is further from 1970 than microseconds reach"
        array = _cast(array, pa.timestamp("us", type_.tz), name, too_far)
    if type_.tz is None and schema.timezone != "UTC":
        array = pc.assume_timezone(
            array, schema.timezone, ambiguous="earliest", nonexistent="latest"
        )
    return array


def _cast(array: pa.Array, type_: pa.DataType, name: str, trouble: str) -> pa.Array:
    try:
        return array.cast(type_)
    except pa.ArrowInvalid as error:
        raise EventError(f"attribute {name!r}: a value of the events {trouble} ({error})") from None
