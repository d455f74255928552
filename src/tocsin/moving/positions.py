"""Reads a batch of positions: who, when, and the columns that rules may test.

Rows without a key or a time are refused, each with a reason. Of an object's rows of equal time the
least by all columns comes first, so the result does not depend on the order of the batch.
"""

from __future__ import annotations

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
    time_type: pa.DataType
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
    times, time_type, has_time = _read_times(column, options.time, time_type)
    has_key = np.asarray(keys.is_valid())
    is_valid = has_key & has_time
    removed = np.empty(0, np.uint8)
    if options.removed is not None and _has_column(table, options.removed):
        flags = decode(_column(table, options.removed, "removed"))
        if not t.is_boolean(flags.type) and not t.is_null(flags.type):
            raise MonitorError(f"column {options.removed!r} must be flags, got {flags.type}")
        removed = np.asarray(flags.cast(pa.bool_()).fill_null(False)).astype(np.uint8)
    rejected = table.slice(0, 0).append_column("reason", pa.array([], pa.string()))
    if not is_valid.all():
        bad = np.flatnonzero(~is_valid)
        reasons = np.where(
            has_key[bad],
            f"the time {options.time!r} is missing or not finite",
            f"the key {options.key!r} is missing",
        )
        rejected = table.take(pa.array(bad)).append_column("reason", pa.array(reasons, pa.string()))
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
    if not is_time.all():
        raise MonitorError(f"{what} must be a time, got {value!r}")
    return int(words[0]), type_


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
    values = _sort_keys(reports.take(pa.array(rows)))
    keyed = sorted(range(len(rows)), key=lambda i: (int(runs[i]), values[i], int(rows[i])))
    order = order.copy()
    order[places] = rows[keyed]
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
        names = dict.fromkeys([options.key, options.time, *filter(None, [options.removed])])
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
        with translate_errors(EventError, f"column {name!r}"):
            columns[name] = pa.array(values)
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
    column: pa.ChunkedArray, name: str, known: pa.DataType | None
) -> tuple[np.ndarray, pa.DataType, np.ndarray]:
    """Return times as words, their type, and which of them are times."""
    array = decode(column)
    type_ = array.type
    if t.is_null(type_):
        type_ = known or pa.timestamp("us")
        return np.zeros(len(array), np.int64), type_, np.zeros(len(array), bool)
    if not (t.is_timestamp(type_) or t.is_integer(type_) or t.is_floating(type_)):
        raise MonitorError(
            f"times in {name!r} must be timestamps or numbers, got {type_}; parse them, for "
            "example with pandas.to_datetime"
        )
    if t.is_floating(type_):
        type_, array = pa.float64(), array.cast(pa.float64())
    if known is not None and known != type_:
        is_zoned = t.is_timestamp(type_) and type_.tz is not None
        was_zoned = t.is_timestamp(known) and known.tz is not None
        if t.is_timestamp(known) != t.is_timestamp(type_) or is_zoned != was_zoned:
            raise MonitorError(
                f"times in {name!r} were of type {known} so far, got {type_}; cast them"
            )
        with translate_errors(MonitorError, f"times in {name!r} were of type {known} so far"):
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
    missing = kept - {name.lower() for name in table.column_names}
    if missing:
        name = min(missing)
        raise MonitorError(
            f"keep: the positions have no column {name!r}{suggest(name, table.column_names)}"
        )
    positions = {name.lower() for name in options.position}
    columns: dict[str, pa.Array] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name.lower() in known | kept | flag or is_sparse(column.type):
            array = decode(column)
            if name.lower() in positions and t.is_floating(array.type):
                values = values_of(array)
                if np.isnan(values).any():
                    array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
            columns[name] = array
    if not columns:  # a table without columns has no number of rows
        columns[""] = pa.nulls(table.num_rows)
    return pa.table(columns)


# ------------------------------------------------------------ order


def _sort_keys(table: pa.Table) -> list[Any]:
    columns = [[_sort_key(to_python(value)) for value in column] for column in table.columns]
    return list(zip(*columns, strict=True))


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
