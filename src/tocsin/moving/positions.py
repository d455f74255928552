"""Reads a batch of positions: who, when, and the columns that rules may test.

Rows without a key or a time are refused, each with a reason. Of an object's rows of equal time the
least by all columns comes first, so the result does not depend on the order of the batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.errors import EventError, MonitorError, suggest
from tocsin.model.arrow import decode, is_text, to_python, translate_errors, values_of
from tocsin.model.encoding import NULL
from tocsin.model.event_tables import is_pandas, is_sparse, to_table
from tocsin.model.schema import Schema
from tocsin.moving.objects import sort_slots
from tocsin.moving.options import MonitorOptions

_ON_SPARK = "use tocsin.spark.monitor"
_EXTREMES = (-(2**63), 2**63 - 1)  # words that mean no time
_MEANINGS = {"key": "objects", "time": "times", "removed": "flags"}  # of parameters


class Positions(NamedTuple):
    """A batch of n positions."""

    keys: pa.Array  # int64 or large text
    times: np.ndarray  # int64 words, in the order of times
    is_valid: np.ndarray  # uint8, whether a row has a key and a time
    removed: np.ndarray  # uint8, whether a row removes its object; empty without such a column
    reports: pa.Table  # the columns that rules may test, and those to keep
    key_type: pa.DataType  # as it was given
    time_type: pa.DataType | None  # None if there are no times, also none before
    rejected: pa.Table  # rows that are not valid, with the column `reason`


def read_positions(
    source: Any,
    options: MonitorOptions,
    schema: Schema,
    has_text_keys: bool | None,
    time_type: pa.DataType | None,
) -> Positions:
    """Read positions in any supported form; the types are those of earlier ones, if there are."""
    table = _to_table(source, options, schema)
    keys, key_type = _read_keys(_column(table, options.key, "key"), options.key, has_text_keys)
    column = _column(table, options.time, "time")
    times, time_type, has_time = _read_times(column, f"times in {options.time!r}", time_type)
    has_key = np.asarray(keys.is_valid())
    is_valid = has_key & has_time
    removed = np.empty(0, np.uint8)
    if options.removed is not None and _has_column(table, options.removed):
        flags = decode(_column(table, options.removed, "removed"))
        if not t.is_boolean(flags.type) and not t.is_null(flags.type):
            raise MonitorError(f"column {options.removed!r} must be flags, got {flags.type}")
        removed = np.asarray(flags.cast(pa.bool_()).fill_null(False)).astype(np.uint8)
    reasons = {
        True: f"the time {options.time!r} is missing or not finite",
        False: f"the key {options.key!r} is missing",
    }
    bad = np.flatnonzero(~is_valid)
    rejected = _take_rows(table, bad).append_column(
        "reason", pa.array([reasons[has] for has in has_key[bad].tolist()], pa.string())
    )
    reports = _read_reports(table, options, schema)
    return Positions(
        keys, times, is_valid.astype(np.uint8), removed, reports, key_type, time_type, rejected
    )


def times_of(array: pa.Array, time_type: pa.DataType) -> np.ndarray:
    """Return times of a type as words."""
    values = values_of(array)
    if t.is_floating(time_type):
        bits = (values.astype(np.float64) + 0.0).view(np.int64)
        return np.where(bits >= 0, bits, NULL - bits)
    return values.astype(np.int64)


def to_times(words: np.ndarray, time_type: pa.DataType) -> pa.Array:
    """Return words as times of a type."""
    if t.is_floating(time_type):
        bits = np.where(words >= 0, words, NULL - words)
        return pa.array(bits.view(np.float64)).cast(time_type, safe=False)
    return pa.array(words).cast(time_type)


def read_time(value: Any, time_type: pa.DataType | None, what: str) -> tuple[int, pa.DataType]:
    """Return a single time as a word, and its type."""
    with translate_errors(MonitorError, f"{what} is no time"):
        array = value if isinstance(value, pa.Array) else pa.array([value])
    words, type_, is_time = _read_times(pa.chunked_array([array]), what, time_type)
    if not is_time.all() or type_ is None:
        raise MonitorError(f"{what} must be a time, got {value!r}")
    return int(words[0]), type_


def order_rows(positions: Positions, slots: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return rows by slot and time, with the least of those of equal time first."""
    in_time = positions.times[rows]
    if (in_time[1:] < in_time[:-1]).any():
        rows = rows[np.argsort(in_time, kind="stable")]
    order = np.empty(len(rows), np.int32)
    highest = int(slots.max(initial=0))
    sort_slots(slots, rows, highest, order, np.empty(len(rows), np.int32))
    return sort_doubled(positions.reports, slots, positions.times, order)


def sort_doubled(
    reports: pa.Table, slots: np.ndarray, times: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """Return the order of rows, by slot and time, with the least of those of equal time first."""
    by_slot = slots[order]
    same = by_slot[1:] == by_slot[:-1]
    if same.any():
        same &= times[order[1:]] == times[order[:-1]]
    if not same.any():
        return order
    follows = np.concatenate([[False], same])
    in_run = follows | np.concatenate([same, [False]])
    places = np.flatnonzero(in_run)
    runs = np.cumsum(~follows)[places]
    rows = order[places]
    keys = [runs]
    for column in reports.take(pa.array(rows)).columns:
        keys += _sort_keys(decode(column))
    order = order.copy()
    order[places] = rows[np.lexsort((rows, *reversed(keys)))]
    return order


# ------------------------------------------------------------ tables


def _to_table(source: Any, options: MonitorOptions, schema: Schema) -> pa.Table:
    if isinstance(source, Mapping):
        source = [source]
    if isinstance(source, list | tuple):
        return _table_of_dicts(source, options, schema)
    names = None
    if is_pandas(source):
        names = [*schema, *schema.nested_names(), options.key, options.time, *options.keep]
        names += [options.removed] if options.removed else []
    return to_table(source, names, "positions", _ON_SPARK)


def _table_of_dicts(rows: Sequence[Any], options: MonitorOptions, schema: Schema) -> pa.Table:
    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise EventError(f"position {number} must be a dict, got {type(row).__name__}")
        names |= dict.fromkeys(map(str, row))
    if not rows:
        own = [options.key, options.time, *options.keep, *filter(None, [options.removed])]
        names = dict.fromkeys(own)
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        attribute = schema.find(name)
        if attribute is not None and any(isinstance(value, dict) for value in values):
            values = [_to_range(value) for value in values]
        elif attribute is not None and schema.kind(attribute) == "number":
            with translate_errors(EventError, f"attribute {name!r}"):
                columns[name] = pa.array(values, pa.float64())
            continue
        # pandas has NaT and NaN for missing keys and times, also in dicts.
        is_own = name.lower() in (options.key.lower(), options.time.lower())
        with translate_errors(EventError, f"column {name!r}"):
            columns[name] = pa.array(values, from_pandas=is_own or None)
    return pa.table(columns)


def _to_range(value: Any) -> Any:
    return value if value is None or isinstance(value, dict) else {"low": value, "high": value}


def _has_column(table: pa.Table, name: str) -> bool:
    return any(n.lower() == name.lower() for n in table.column_names)


def _column(table: pa.Table, name: str, parameter: str) -> pa.ChunkedArray:
    """Return a column by its name, as Spark finds it."""
    found = [n for n in table.column_names if n.lower() == name.lower()]
    if len(found) > 1:
        found = [n for n in found if n == name]
    if len(found) != 1:
        columns = ", ".join(table.column_names) or "no columns"
        if len([n for n in table.column_names if n.lower() == name.lower()]) > 1:
            raise MonitorError(f"the positions have several columns {name!r}: {columns}")
        raise MonitorError(
            f"the positions have no column {name!r}{suggest(name, table.column_names)}; they have "
            f"{columns}; {parameter} names the column of {_MEANINGS[parameter]}"
        )
    return table.column(found[0])


def _read_keys(
    column: pa.ChunkedArray, name: str, has_texts: bool | None
) -> tuple[pa.Array, pa.DataType]:
    keys = decode(column)
    type_ = keys.type
    if t.is_null(type_):
        keys = keys.cast(pa.large_string() if has_texts else pa.int64())
    elif is_text(type_):
        keys = keys.cast(pa.large_string())
    elif t.is_integer(type_) or t.is_floating(type_):
        # pandas has integers with nulls as floats.
        with translate_errors(MonitorError, f"keys in {name!r} must be texts or whole numbers"):
            keys = pc.if_else(pc.is_nan(keys), None, keys) if t.is_floating(type_) else keys
            keys = keys.cast(pa.int64())
            type_ = pa.int64() if t.is_floating(type_) else type_
    else:
        raise MonitorError(f"keys in {name!r} must be texts or integers, got {type_}")
    if has_texts is not None and is_text(keys.type) != has_texts:
        raise MonitorError(
            f"keys in {name!r} were {'texts' if has_texts else 'integers'} so far, got {type_}; "
            "cast them"
        )
    return keys, keys.type if t.is_null(type_) else type_


def _read_times(
    column: pa.ChunkedArray, what: str, known: pa.DataType | None
) -> tuple[np.ndarray, pa.DataType | None, np.ndarray]:
    """Return times as words, their type if it is known, and which of them are times."""
    array = decode(column)
    type_ = array.type
    if t.is_null(type_):
        return np.zeros(len(array), np.int64), known, np.zeros(len(array), bool)
    if not (t.is_timestamp(type_) or t.is_integer(type_) or t.is_floating(type_)):
        advice = "parse with pandas.to_datetime" if is_text(type_) else "cast to timestamp"
        raise MonitorError(
            f"{what}: expected timestamps or numbers, got {type_}; {advice}, for example"
        )
    if t.is_floating(type_):
        type_, array = pa.float64(), array.cast(pa.float64())
    if t.is_uint64(type_):
        with translate_errors(MonitorError, what):
            array = array.cast(pa.int64())
    if known is not None and known != type_:
        is_zoned = t.is_timestamp(type_) and type_.tz is not None
        was_zoned = t.is_timestamp(known) and known.tz is not None
        if t.is_timestamp(known) != t.is_timestamp(type_) or is_zoned != was_zoned:
            zones = "; a time has a zone either always or never" * (is_zoned != was_zoned)
            raise MonitorError(f"{what}: times were of type {known} so far, got {type_}{zones}")
        with translate_errors(MonitorError, f"{what}: times were of type {known} so far"):
            array = array.cast(known)
        type_ = known
    is_time = np.asarray(array.is_valid())
    if t.is_floating(type_):
        is_time &= np.isfinite(values_of(array))
    words = times_of(array, type_)
    for extreme in _EXTREMES:
        is_time &= words != extreme
    return words, type_, is_time


def _read_reports(table: pa.Table, options: MonitorOptions, schema: Schema) -> pa.Table:
    """Return the columns that rules may test, and those to keep; NaN positions are null."""
    known = {name.lower() for name in (*schema, *schema.nested_names())}
    kept = {name.lower() for name in options.keep}
    # The flag is one of the columns that decide which of several rows of equal time counts.
    flag = {options.removed.lower()} if options.removed else set()
    v_max = {options.v_max.lower()} if isinstance(options.v_max, str) else set()
    for option, wanted in (("keep", kept), ("v_max", v_max)):
        missing = wanted - {name.lower() for name in table.column_names}
        if missing:
            name = min(missing)
            known_names = suggest(name, table.column_names)
            raise MonitorError(f"{option}: the positions have no column {name!r}{known_names}")
    positions = {name.lower() for name in options.position}
    columns: dict[str, pa.Array] = {}
    speeds: dict[str, pa.Array] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name.lower() in known | kept | flag or is_sparse(column.type):
            array = decode(column)
            if name.lower() in positions and t.is_floating(array.type):
                values = values_of(array)
                if np.isnan(values).any():
                    array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
            columns[name] = _storable(array, name)
        elif name.lower() in v_max:
            speeds[name] = _storable(decode(column), name)
    # Last, so that which of several rows of equal time counts does not depend on it.
    columns |= speeds
    if not columns:  # a table without columns has no number of rows
        columns[""] = pa.nulls(table.num_rows)
    return pa.table(columns)


# ------------------------------------------------------------ types


def _take_rows(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Return rows of a table, without columns of types that have no such operation."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        with contextlib.suppress(MonitorError):
            columns[name] = _storable(decode(column) if len(rows) else column, name).take(rows)
    return pa.table(columns)


def _storable(array: Any, name: str) -> Any:
    """Return a column such that rows can be taken from it, or raise if there is no such type.

    Texts within lists and structs of polars are views, which Arrow cannot take from.
    """
    type_ = _without_views(array.type)
    what = f"column {name!r} cannot be kept, because it is of type {array.type}; cast it"
    with translate_errors(MonitorError, what):
        array = array if type_ == array.type else array.cast(type_)
        # Raises now what would otherwise be raised when the state is half changed.
        array.slice(0, 0).cast(type_).take(pa.array([], pa.int64()))
        pa.array([], type_)
    return array


def _without_views(type_: pa.DataType) -> pa.DataType:
    """Return the type without views of texts and bytes at any depth."""
    if t.is_string_view(type_):
        return pa.large_string()
    if t.is_binary_view(type_):
        return pa.large_binary()
    if not t.is_nested(type_) or t.is_union(type_):
        return type_
    fields = [type_.field(i) for i in range(type_.num_fields)]
    plain = [field.with_type(_without_views(field.type)) for field in fields]
    if plain == fields:
        return type_
    if t.is_struct(type_):
        return pa.struct(plain)
    if t.is_map(type_):
        key, value = _without_views(type_.key_type), _without_views(type_.item_type)
        return pa.map_(key, value, type_.keys_sorted)
    if t.is_fixed_size_list(type_):
        return pa.list_(plain[0], type_.list_size)
    return pa.large_list(plain[0]) if t.is_large_list(type_) else pa.list_(plain[0])


# ------------------------------------------------------------ order


def _sort_keys(column: pa.Array) -> list[np.ndarray]:
    """Return numbers that order the values of a column, the most significant first.

    Null is lowest, and NaN highest.
    """
    keys = [np.asarray(column.is_valid())]
    if t.is_floating(column.type):
        keys.append(np.asarray(pc.is_nan(column).fill_null(False)))
    try:
        ranks = pc.rank(column, tiebreaker="dense")
    except pa.ArrowNotImplementedError:
        values = [_sort_key(to_python(value)) for value in column]
        places = {value: place for place, value in enumerate(sorted(set(values)))}
        ranks = [places[value] for value in values]
    return [*keys, np.asarray(ranks)]


def _sort_key(value: Any) -> tuple[Any, ...]:
    """Return a key that orders values of one type: null lowest, NaN highest, texts by bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float) and value != value:
        return (2,)
    if isinstance(value, str):
        return 1, value.encode()
    if isinstance(value, Mapping):
        return (1, *(_sort_key(each) for each in value.values()))
    if isinstance(value, Iterable):
        parts = [_sort_key(each) for each in value]
        return (1, *parts)
    return 1, value
