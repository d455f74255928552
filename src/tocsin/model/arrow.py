"""Reads Arrow input: plain arrays, the values in their buffers, and Arrow's errors as ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.errors import TocsinError


def is_text(type_: pa.DataType) -> bool:
    """Return whether a type is text, in any of Arrow's three layouts."""
    return t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_)


def is_list(type_: pa.DataType) -> bool:
    """Return whether a type is a list, in any of Arrow's layouts that Tocsin reads."""
    return t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_)


def decode(array: Any) -> pa.Array:
    """Return a column as one plain array, without chunks, dictionaries, runs or views.

    Arrow cannot filter or concatenate views and runs, and not all dictionaries can be unified.
    """
    if isinstance(array, pa.ChunkedArray):
        array = combine_chunks(array)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if t.is_dictionary(array.type):
        if t.is_string_view(array.type.value_type):  # Arrow cannot take from views
            values = array.dictionary.cast(pa.large_string())
            array = pa.DictionaryArray.from_arrays(array.indices, values)
        array = array.dictionary_decode()
    elif t.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if t.is_string_view(array.type):
        return array.cast(pa.large_string())
    if t.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array


def decoded_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of the array that `decode` returns for a column of a type."""
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    if t.is_dictionary(type_) or t.is_run_end_encoded(type_):
        type_ = type_.value_type
    if t.is_string_view(type_):
        return pa.large_string()
    return pa.large_binary() if t.is_binary_view(type_) else type_


def combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, copied only if it has several chunks."""
    if column.num_chunks == 1:
        return column.chunk(0)
    try:
        return column.combine_chunks()
    except pa.ArrowException:
        # Arrow cannot unify dictionaries with nulls, or with too many values for the index type.
        return pa.chunked_array([decode(chunk) for chunk in column.chunks]).combine_chunks()


def values_of(array: pa.Array) -> np.ndarray:
    """Return the values in the buffer of numbers or times; arbitrary where the array is null."""
    type_ = array.type
    dtype: np.dtype = np.dtype(np.int64)
    if t.is_date32(type_):
        dtype = np.dtype(np.int32)
    elif not t.is_timestamp(type_):
        dtype = np.dtype(type_.to_pandas_dtype())
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def to_python(scalar: pa.Scalar) -> Any:
    """Return the Python value of a scalar, or a substitute that Arrow accepts back.

    Times outside of the years 1 to 9999 or in an unknown time zone become integers. Structs with
    two fields of the same name become lists of pairs.
    """
    try:
        return scalar.as_py()
    except (KeyError, ValueError, OverflowError):
        if t.is_struct(scalar.type):
            fields = [(f.name, to_python(scalar[i])) for i, f in enumerate(scalar.type)]
            return dict(fields) if len(dict(fields)) == len(fields) else fields
        if t.is_map(scalar.type):
            return [(to_python(each[0]), to_python(each[1])) for each in scalar.values]
        if isinstance(scalar, pa.ListScalar):
            return [to_python(each) for each in scalar.values]
        value = scalar.value  # for a dictionary, again a scalar
        return to_python(value) if isinstance(value, pa.Scalar) else value


def is_spark(source: Any) -> bool:
    """Return whether an object is Spark's, Classic or Connect, without importing pyspark."""
    return any(base.__module__.partition(".")[0] == "pyspark" for base in type(source).__mro__)


def refuse_spark(source: Any, error: type[TocsinError], name: str, advice: str) -> None:
    """Raise if a source is a DataFrame of Spark, which may be larger than this process.

    Its rows would be collected without a word: PySpark exports them as an Arrow stream, and pandas
    on Spark also as NumPy arrays.
    """
    if is_spark(source):
        raise error(
            f"{name} must not be a Spark {type(source).__name__}, because all of its rows would be "
            f"collected in this process; {advice}"
        )


@contextlib.contextmanager
def translate_errors(error: type[TocsinError], what: str) -> Iterator[None]:
    """Reraise errors of Arrow and of conversions as `error`; the message starts with `what`."""
    try:
        yield
    except TocsinError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError) as other:
        raise error(f"{what}: {other}") from None
