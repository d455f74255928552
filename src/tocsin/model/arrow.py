"""Arrow as it comes in, made plain: fewer types to know of, and errors that are ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.errors import TocsinError


def is_text(type_: pa.DataType) -> bool:
    """Tell whether a type is text, in any of Arrow's three layouts."""
    return t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_)


def plain(array: Any) -> pa.Array:
    """Return one array, decoded: no chunks, dictionaries, runs or views.

    Arrow can neither filter nor join views and runs, and joins dictionaries only if they fit.
    """
    if isinstance(array, pa.ChunkedArray):
        array = combined(array)
    if t.is_dictionary(array.type):
        array = array.dictionary_decode()
    elif t.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if t.is_string_view(array.type):
        return array.cast(pa.large_string())
    if t.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array


def combined(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, copied only if it has several chunks."""
    if column.num_chunks == 1:
        return column.chunk(0)
    try:
        return column.combine_chunks()
    except pa.ArrowException:
        # Dictionaries cannot always be made one: those that hold nulls, or too many values for
        # the type of the indices.
        return pa.chunked_array([plain(chunk) for chunk in column.chunks]).combine_chunks()


def python_value(scalar: pa.Scalar) -> Any:
    """Return a value as Python has it; where it has none, as Arrow accepts it back.

    So times outside of the years 1 to 9999, or in a zone that this machine does not know, are
    integers, and structs with two fields of one name are lists of pairs.
    """
    try:
        return scalar.as_py()
    except (KeyError, ValueError, OverflowError):
        if t.is_struct(scalar.type):
            fields = [(f.name, python_value(scalar[i])) for i, f in enumerate(scalar.type)]
            return dict(fields) if len(dict(fields)) == len(fields) else fields
        if t.is_map(scalar.type):
            return [(python_value(each[0]), python_value(each[1])) for each in scalar.values]
        if isinstance(scalar, pa.ListScalar):
            return [python_value(each) for each in scalar.values]
        value = scalar.value  # of a dictionary's entry, a scalar again
        return python_value(value) if isinstance(value, pa.Scalar) else value


@contextlib.contextmanager
def refusing(error: type[TocsinError], what: str) -> Iterator[None]:
    """Turn what Arrow or a conversion raises into an error of ours that starts with `what`."""
    try:
        yield
    except TocsinError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError) as other:
        raise error(f"{what}: {other}") from None
