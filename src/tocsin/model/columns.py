"""Encodes Arrow columns as keys, without a Python loop over the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import EventError
from tocsin.jit import Float64s, Int64Out, Int64s, UInt8s, kernel
from tocsin.model.arrow import decode, is_list, is_text, translate_errors, values_of
from tocsin.model.categories import Categories
from tocsin.model.decimal_columns import unscaled_integers
from tocsin.model.decimals import digits_of
from tocsin.model.encoding import NAN, NULL, OTHER, SEAM
from tocsin.model.local_times import microseconds
from tocsin.model.schema import (
    ARTICLE,
    HISTOGRAM,
    RANGE,
    Kind,
    Schema,
    can_be_range,
    has_range_fields,
)

_MAX_TABLES = 64  # dictionaries whose codes are cached, chosen


@kernel
def write_number_keys(values: Float64s, out: Int64Out) -> None:
    """Write the keys of floats: order-preserving bits, -0 as 0, one NaN."""
    bits = values.view(np.int64)
    for i in range(values.shape[0]):
        key = bits[i] if bits[i] >= 0 else NULL - bits[i]
        out[i] = key if values[i] == values[i] else NAN


@kernel
def write_integer_keys(values: Int64s, out: Int64Out) -> None:
    """Write the keys of integers: the integers themselves, plus one up to the seam."""
    for i in range(values.shape[0]):
        out[i] = values[i] + np.int64(values[i] <= SEAM)


@kernel
def write_nulls(bitmap: UInt8s, first: int, out: Int64Out) -> None:
    """Write NULL where the bit of an Arrow validity bitmap is not set."""
    for i in range(out.shape[0]):
        bit = first + i
        if (bitmap[bit >> 3] >> (bit & 7)) & 1 == 0:
            out[i] = NULL


class CategoryEncoder:
    """Encodes texts as category codes, and caches the codes of Arrow dictionaries for one run."""

    def __init__(self, categories: Categories):
        self.categories = categories
        # The key is the address of all of a dictionary's buffers: its text data alone does not
        # distinguish an empty text from null. Keeping the dictionary keeps its memory in use.
        self._tables: dict[tuple[Any, ...], tuple[pa.Array, np.ndarray]] = {}

    def write(self, array: pa.Array, out: np.ndarray) -> None:
        """Write the keys of texts; those that no rule mentions share `OTHER`."""
        if t.is_run_end_encoded(array.type):
            array = decode(array)
        if not t.is_dictionary(array.type):
            self._write_texts(array, out)
            return
        # All blocks of a column have the same dictionary.
        dictionary = array.dictionary
        buffers = [None if b is None else (b.address, b.size) for b in dictionary.buffers()]
        key = (dictionary.type, dictionary.offset, len(dictionary), *buffers)
        known = self._tables.get(key)  # once: another thread may clear them
        if known is None:
            if len(self._tables) >= _MAX_TABLES:
                self._tables.clear()
            codes = np.empty(len(dictionary), np.int64)
            self._write_texts(dictionary, codes)
            known = self._tables[key] = dictionary, codes
        _take_codes(known[1], array.indices, out)

    def _write_texts(self, array: pa.Array, out: np.ndarray) -> None:
        """Write the keys of a plain array of texts, or of nulls."""
        if t.is_null(array.type):
            out[:] = NULL
            return
        table = self.categories.table(len(array))
        if table is not None:
            table.write(array, out)
            if array.null_count:
                write_nulls(np.frombuffer(array.buffers()[0], np.uint8), array.offset, out)
            return
        get = self.categories.get
        encoded = decode(array).dictionary_encode()
        codes = [get(text, OTHER) for text in encoded.dictionary.to_pylist()]
        _take_codes(np.array(codes, np.int64), encoded.indices, out)


def _take_codes(codes: np.ndarray, indices: pa.Array, out: np.ndarray) -> None:
    """Write the codes of the values of a dictionary array."""
    if not len(codes):
        out[:] = NULL
        return
    np.take(codes, np.asarray(indices.fill_null(0)), out=out, mode="clip")
    if indices.null_count:
        out[np.asarray(indices.is_null())] = NULL


def is_range(type_: pa.DataType) -> bool:
    """Return whether a column has ranges: structs of low and high, perhaps with a density."""
    return t.is_struct(type_) and has_range_fields(f.name for f in type_)


def has_densities(type_: pa.DataType) -> bool:
    """Return whether a column has ranges with a density of their own."""
    return is_range(type_) and {f.name for f in type_} != set(RANGE)


def write_range_keys(
    array: pa.StructArray,
    kind: Kind,
    schema: Schema,
    encoder: CategoryEncoder,
    out: np.ndarray,
    name: str,
) -> np.ndarray:
    """Write the keys of the low ends of ranges, and return the keys of the high ends."""
    ends = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
    high = np.empty_like(out)
    for end, keys in (("low", out), ("high", high)):
        write_keys(ends[end], kind, schema, encoder, keys, name)
    return high


def find_bad_range(kind: Kind, low: np.ndarray, high: np.ndarray) -> tuple[int, str] | None:
    """Return the index of the first pair of keys that is not a range and the reason, or None."""
    for bad, reason in (
        ((low == NULL) != (high == NULL), "the range has only one end"),
        ((high == NAN) & (kind == "number"), "the range ends in NaN"),
        (low > high, "the range's low end is above its high end"),
    ):
        if bad.any():
            return int(np.argmax(bad)), reason
    return None


def write_keys(
    array: pa.Array,
    kind: Kind,
    schema: Schema,
    encoder: CategoryEncoder,
    out: np.ndarray,
    name: str,
) -> None:
    """Write the keys of an Arrow array of any type that the kind accepts."""
    if t.is_null(array.type):
        out[:] = NULL
        return
    with translate_errors(EventError, f"attribute {name!r}"):
        if kind == "category":
            check_column_type(array.type, kind, name)
            encoder.write(array, out)
            return
        array = decode(array)
        check_column_type(array.type, kind, name)
        if kind == "number":
            write_number_keys(values_of(array).astype(np.float64, copy=False), out)
        elif kind == "flag":
            out[:] = np.asarray(array.cast(pa.uint8()).fill_null(0))
        elif kind == "time":
            write_integer_keys(microseconds(array, schema.zone), out)
        elif (digits := digits_of(kind)) is not None:
            out[:] = unscaled_integers(array, digits, name)
        else:
            # Spark has no unsigned integers: casting rejects those above bigint.
            signed = array.cast(pa.int64()) if t.is_uint64(array.type) else array
            write_integer_keys(values_of(signed).astype(np.int64, copy=False), out)
    if array.null_count:
        write_nulls(np.frombuffer(array.buffers()[0], np.uint8), array.offset, out)


_USUAL_TYPES: dict[Kind, int] = {
    "number": pa.float64().id,
    "integer": pa.int64().id,
    "category": pa.string().id,
    "flag": pa.bool_().id,
    "time": pa.timestamp("us").id,
}


def check_column_type(type_: pa.DataType, kind: Kind, name: str) -> None:
    """Raise an EventError if a column of this type cannot be an attribute of this kind."""
    if _USUAL_TYPES.get(kind) == type_.id:  # a table of one row takes microseconds
        return
    if is_range(type_):
        if not can_be_range(kind):
            raise EventError(
                f"attribute {name!r} is {ARTICLE[kind]}, but the events have ranges (low and "
                "high); only integers, decimals, numbers and times can have ranges"
            )
        if has_densities(type_):
            _check_densities(type_, kind, name)
            return
        for end in RANGE:
            check_column_type(type_.field(end).type, kind, f"{name}.{end}")
        return
    if t.is_dictionary(type_) or t.is_run_end_encoded(type_):
        type_ = type_.value_type
    text = is_text(type_)
    is_number = t.is_floating(type_) or t.is_integer(type_)
    fits = {
        "number": is_number,
        "integer": t.is_integer(type_),
        "flag": t.is_boolean(type_),
        "time": t.is_timestamp(type_) or t.is_date(type_),
        "category": text,
    }.get(kind, is_number or t.is_decimal(type_))
    if fits or t.is_null(type_):
        return
    if t.is_decimal(type_) and kind in ("number", "integer"):
        cause = (
            f"cast it to {'double' if kind == 'number' else 'bigint'}, or declare the attribute as "
            f"decimal({type_.precision},{type_.scale})"
        )
    elif t.is_floating(type_) and kind == "integer":
        cause = (
            "declare it as a number, or cast it (pandas makes an integer column with missing "
            "values float64 unless its dtype is 'Int64')"
        )
    elif t.is_struct(type_):
        cause = (
            "a range is a struct of low and high, also with mean and deviation, or with edges and "
            "weights"
        )
    elif text:
        cause = "cast or parse the texts first"
    else:
        cause = "cast the column, or declare the attribute as what it is"
    raise EventError(
        f"attribute {name!r} is {ARTICLE[kind]}, but the events' column is of type {type_}; {cause}"
    )


def _check_densities(type_: pa.StructType, kind: Kind, name: str) -> None:
    """Raise unless the fields of a density are numbers, edges and weights lists of numbers."""
    if kind != "number":
        raise EventError(
            f"attribute {name!r} is {ARTICLE[kind]}, but the events have densities; only numbers "
            "have these: declare the attribute as a number, or give low and high alone"
        )
    for field in type_:
        are_lists = is_list(field.type)
        item = field.type.value_type if are_lists else field.type
        is_number = t.is_floating(item) or t.is_integer(item) or t.is_null(item)
        if not is_number or (are_lists != (field.name in HISTOGRAM) and not t.is_null(item)):
            what = "a list of numbers" if field.name in HISTOGRAM else "a number"
            raise EventError(
                f"attribute {name!r}: {field.name!r} must be {what}, got type {field.type}"
            )
