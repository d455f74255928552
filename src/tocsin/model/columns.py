"""One Arrow column to keys, without a Python loop; nulls by the validity bitmap."""

from __future__ import annotations

import functools
import zoneinfo
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.errors import EventError
from tocsin.jit import Float64s, Int64Out, Int64s, UInt8s, kernel
from tocsin.model import line
from tocsin.model.arrow import is_text, plain, refusing
from tocsin.model.categories import Categories
from tocsin.model.line import NAN, NULL, OTHER, SEAM
from tocsin.model.schema import ARTICLE, RANGE, RANGE_KINDS, Kind, Schema

_TABLES = 64  # tables of dictionaries that are remembered
_DAY = 86_400_000_000  # microseconds


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


class Coder:
    """Gives texts their category codes, remembering the tables it has made for one run.

    Distinct values that are few are looked up one by one; many are found by Arrow in the
    values that rules mention, which are handed to it once.
    """

    def __init__(self, categories: Categories):
        self.categories = categories
        # By where all of a dictionary lies: its letters alone do not tell an empty text from
        # null. The dictionary is kept, so that no other can take its place in memory.
        self._tables: dict[tuple[Any, ...], tuple[pa.Array, np.ndarray]] = {}

    @functools.cached_property
    def _mentioned(self) -> pa.Array:
        return self.categories.to_arrow()

    def write(self, array: pa.Array, out: np.ndarray) -> None:
        """Write the keys of texts; those that no rule mentions share one."""
        if t.is_run_end_encoded(array.type):
            array = plain(array)
        if not t.is_dictionary(array.type):
            array = array.dictionary_encode()
            table = self._table(array.dictionary)
        else:
            # The same dictionary comes with every block of a column.
            dictionary = array.dictionary
            places = [None if b is None else (b.address, b.size) for b in dictionary.buffers()]
            key = (dictionary.type, dictionary.offset, len(dictionary), *places)
            known = self._tables.get(key)  # once: another thread may clear them
            if known is None:
                if len(self._tables) >= _TABLES:
                    self._tables.clear()
                known = self._tables[key] = dictionary, self._table(dictionary)
            table = known[1]
        if not len(table):
            out[:] = NULL
            return
        indices = array.indices
        np.take(table, np.asarray(indices.fill_null(0)), out=out, mode="clip")
        if indices.null_count:
            out[np.asarray(indices.is_null())] = NULL

    def _table(self, distinct: pa.Array) -> np.ndarray:
        if len(distinct) < 4096 or len(distinct) * 16 < len(self.categories):
            get = self.categories.get
            found = [NULL if d is None else get(d, OTHER) for d in distinct.to_pylist()]
            return np.array(found, np.int64)
        table = np.full(len(distinct), OTHER, np.int64)
        places = pc.index_in(distinct.cast(pa.large_string()), value_set=self._mentioned)
        hit = np.asarray(places.is_valid())
        table[hit] = np.asarray(places.drop_null()) + 1
        if distinct.null_count:
            table[np.asarray(distinct.is_null())] = NULL
        return table


def is_range(type_: pa.DataType) -> bool:
    """Tell whether a column has ranges: a struct of low and high."""
    return t.is_struct(type_) and {f.name for f in type_} == set(RANGE)


def range_keys(
    array: pa.StructArray, kind: Kind, schema: Schema, coder: Coder, out: np.ndarray, name: str
) -> np.ndarray:
    """Write the keys of ranges' low ends, and return those of their high ends."""
    parts = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
    high = np.empty_like(out)
    for end, keys in (("low", out), ("high", high)):
        column_keys(parts[end], kind, schema, coder, keys, name)
    return high


def bad_range(kind: Kind, low: np.ndarray, high: np.ndarray) -> tuple[int, str] | None:
    """Return the first place where two keys are not the ends of a range, and why not."""
    for bad, why in (
        ((low == NULL) != (high == NULL), "the range has only one end"),
        ((high == NAN) & (kind == "number"), "the range ends in NaN"),
        (low > high, "the range's low end is above its high end"),
    ):
        if bad.any():
            return int(np.argmax(bad)), why
    return None


def column_keys(
    array: pa.Array, kind: Kind, schema: Schema, coder: Coder, out: np.ndarray, name: str
) -> None:
    """Write the keys of an Arrow array of any type that fits the kind."""
    if t.is_null(array.type):
        out[:] = NULL
        return
    with refusing(EventError, f"attribute {name!r}"):
        if kind == "category":
            check_type(array.type, kind, name)
            coder.write(array, out)
            return
        array = plain(array)
        check_type(array.type, kind, name)
        if kind == "number":
            number_keys(_values(array, np.float64), out)
        elif kind == "flag":
            out[:] = np.asarray(array.cast(pa.uint8()).fill_null(0))
        elif kind == "time":
            integer_keys(_microseconds(array, schema), out)
        else:
            # Spark has no unsigned integers: what exceeds 64 bits with a sign is refused.
            signed = array.cast(pa.int64()) if t.is_uint64(array.type) else array
            integer_keys(_values(signed, np.int64), out)
    if array.null_count:
        put_nulls(np.frombuffer(array.buffers()[0], np.uint8), array.offset, out)


def check_type(type_: pa.DataType, kind: Kind, name: str) -> None:
    """Raise if a column of this Arrow type cannot be an attribute of this kind."""
    if is_range(type_):
        if kind not in RANGE_KINDS:
            raise EventError(
                f"attribute {name!r} is {ARTICLE[kind]}, but the events have ranges (low and "
                "high); only integers, numbers and times can have them"
            )
        for end in RANGE:
            check_type(type_.field(end).type, kind, f"{name}.{end}")
        return
    if t.is_dictionary(type_) or t.is_run_end_encoded(type_):
        type_ = type_.value_type
    text = is_text(type_)
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
    elif t.is_struct(type_):
        cause = "a range is a struct of low and high"
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


def _microseconds(array: pa.Array, schema: Schema) -> np.ndarray:
    """Return microseconds since 1970 UTC, whatever stands where it is null."""
    if t.is_date(array.type):
        array = array.cast(pa.timestamp("us"))
    zone, unit = array.type.tz, array.type.unit
    # Only the number counts from here on: a zone that this machine does not know is no matter.
    numbers = _values(array, np.int64)
    if unit == "ns":
        # What is not a whole microsecond is dropped, as Spark does.
        numbers = numbers // 1000
    elif unit != "us":
        too_far = pa.Array.from_buffers(
            pa.timestamp(unit), len(array), array.buffers(), array.null_count, array.offset
        )
        numbers = _values(too_far.cast(pa.timestamp("us")), np.int64)
    if zone is None and schema.timezone != "UTC":
        numbers = numbers - _offsets(numbers, schema.zone)
    return numbers


def _offsets(local: np.ndarray, zone: zoneinfo.ZoneInfo) -> np.ndarray:
    """Return by how many microseconds a zone is ahead of UTC at local times.

    In a gap it is the offset before it, in an overlap the earlier, as `line.time_key` has it.
    Arrow's own conversion knows only the changes that the time zone files list, which end in 2037
    or, in files of the slim format, long before, and not the rule that holds after them. So days
    are looked up once each, and the times of a day on which the clocks change one by one.
    """
    days, of_day = np.unique(local // _DAY, return_inverse=True)
    by_day = [_offset_of_day(zone, day) for day in days.tolist()]
    offsets = np.array([0 if each is None else each for each in by_day], np.int64)[of_day]
    changing = np.flatnonzero(np.array([each is None for each in by_day], bool)[of_day])
    for i in changing.tolist():
        offsets[i] = line.offset_at(int(local[i]), zone)
    return offsets


@functools.lru_cache(maxsize=1 << 16)
def _offset_of_day(zone: zoneinfo.ZoneInfo, day: int) -> int | None:
    """Return the offset that a zone has on a day since 1970, None if it changes on that day."""
    first = line.offset_at(day * _DAY, zone)
    return first if line.offset_at(day * _DAY + _DAY - 1, zone) == first else None
