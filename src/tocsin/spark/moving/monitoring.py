"""Plan a monitor over a DataFrame: `tocsin.spark.monitor`."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

from tocsin.engine.version import Version
from tocsin.errors import MonitorError, suggest
from tocsin.moving.bucket_states import put_token
from tocsin.moving.options import MonitorOptions
from tocsin.moving.state_files import open_states
from tocsin.moving.tracker import Tracker
from tocsin.spark.columns import EventColumns, find_needed_columns, is_collated
from tocsin.spark.kernels import kernels_of
from tocsin.spark.matching import prepare_rules, to_spark
from tocsin.spark.moving.replay import replay
from tocsin.spark.moving.result import EventLayout
from tocsin.spark.moving.rows import BUCKET, DIGEST
from tocsin.spark.moving.stream import StateSource, follow
from tocsin.spark.operators import (
    check_frame,
    in_workers,
    name_columns,
    quote_column,
    quote_columns,
    select,
)
from tocsin.spark.types import arrow_schema, check_types, to_arrow

_USUAL_BUCKETS = 200  # where Spark chooses the number of partitions itself
_TIMES = st.TimestampType | st.TimestampNTZType | st.IntegralType | st.FloatType | st.DoubleType


def monitor(
    positions: Any,
    rules: Any,
    key: str = "object",
    time: str = "t",
    position: Sequence[str] = ("x", "y"),
    dwell: Any = None,
    margin: float | str = 0.0,
    min_stay: Any = None,
    min_away: Any = None,
    lost_after: Any = None,
    delay: Any = None,
    removed: str | None = None,
    keep: Sequence[str] = (),
    payload: Sequence[str] = (),
    safe_regions: str | None = None,
    rect_by: str = "area",
    rect_reach: float | None = None,
    region: str | None = None,
    state: str | os.PathLike[str] | None = None,
    buckets: int | None = None,
    start_from: str | None = None,
) -> Any:
    """Return what changes as objects move through fences: a DataFrame of events.

    Parameters
    ----------
    positions
        A DataFrame, batch or streaming. A batch is replayed as history: all rows of an object in
        the order of time, as `tocsin.Monitor` would in one update.
    rules
        The fences: a `Rules` or a `Version`, which do not change, or the path of a rule store. With
        a store, a batch query uses the version that is current at the call, and a stream uses the
        current version in each micro-batch.
    key, time, position, dwell, margin, min_stay, min_away, lost_after, delay
        As in `tocsin.Monitor`.
    removed, keep, payload, safe_regions, rect_by, rect_reach
        As in `tocsin.Monitor`.
    region
        The name of a column of safe regions that the events of a stream get, and with it rows with
        the events "region", for an object that has a new one, and "ask", for one to be asked.
    state
        The folder where a stream keeps who is inside what, which all workers and the caller can
        reach under this path. A batch needs none.
    buckets
        Into how many parts objects are divided by the hash of their keys, each of which is the work
        of one task; by default as many as `spark.sql.shuffle.partitions`. A stream keeps to it.
    start_from
        The id of another query, to begin with its state instead of none.

    The columns of the result are those of `Monitor.update`. A stream is exactly-once with any sink.
    docs/monitor.md says what differs on Spark: timers and changed rules reach a bucket of objects
    with its next row, and rows without a key or a time are only counted.
    """
    options = MonitorOptions(
        key, time, position, dwell, margin, min_stay, min_away, lost_after, delay, removed, keep,
        payload, safe_regions, rect_by, rect_reach,
    )  # fmt: skip
    check_frame(positions, "positions", "tocsin.Monitor", MonitorError)
    columns = EventColumns(positions.schema)
    key_field = _find(columns, "key", key)
    time_field = _find(columns, "time", time)
    _check_key(key_field)
    if not isinstance(time_field.dataType, _TIMES):
        raise MonitorError(
            f"times in {time!r} must be timestamps or numbers, got "
            f"{time_field.dataType.simpleString()}; cast them to timestamp"
        )
    kept = [_find(columns, "keep", name) for name in options.keep]
    if region is not None and safe_regions is None:
        raise MonitorError('region names a column of safe regions; set safe_regions="rect", too')
    if region is not None and not positions.isStreaming:
        raise MonitorError("region is for a stream; history has nobody to tell where to be silent")
    axes = [_find(columns, "position", name) for name in options.position if safe_regions]
    flags = [] if removed is None else [_find(columns, "removed", removed)]
    options = replace(
        options,
        key=key_field.name,
        time=time_field.name,
        keep=[f.name for f in kept],
        removed=flags[0].name if flags else None,
    )
    for field in flags:
        if not isinstance(field.dataType, st.BooleanType):
            type_ = field.dataType.simpleString()
            raise MonitorError(f"column {field.name!r} must be of type boolean, got {type_}")
    source, version = prepare_rules(rules, positions, columns, "auto", None, None)
    needed = find_needed_columns(version, columns, live=True)
    # In the order of the DataFrame: of rows of equal time, the least by all columns counts.
    selected = {f.name for f in [key_field, time_field, *axes, *kept, *flags]} | set(needed)
    fields = [f for f in columns.fields if f.name in selected]
    check_types(fields, "leave it out of keep")
    schema = _event_schema(options, version, fields, kept, region)
    arrow = arrow_schema(schema, positions.sparkSession)
    layout = EventLayout(arrow, tuple(options.payload), region)
    count = _count_buckets(buckets, positions.sparkSession)
    # As Spark divides rows by the key. By the bucket, it would hash it again.
    hashed = f"pmod(hash({quote_column(key_field.name)}), {count})"
    by_name = {**quote_columns(f.name for f in fields), BUCKET: hashed}
    by_key, by_time = key_field.name, time_field.name
    if positions.isStreaming:
        found = _state_source(state, start_from, count, key_field, options)
        job = functools.partial(follow, source, options, layout, found)
        by_name[DIGEST] = f"xxhash64({', '.join(map(_hashable, fields))})"
    elif start_from is not None:
        raise MonitorError("start_from is for a stream; a batch begins without a state")
    else:
        job = functools.partial(replay, source, options, layout)
    names = {name: f"c{i}" for i, name in enumerate(by_name)}
    rows = select(positions, {names[name]: sql for name, sql in by_name.items()})
    rows = rows.repartition(count, names[by_key])
    if not positions.isStreaming:
        rows = rows.sortWithinPartitions(names[BUCKET], names[by_time], names[by_key])
    named = functools.partial(name_columns, list(by_name), job)
    return rows.mapInArrow(in_workers(named, kernels_of(version, "all", "tocsin.moving")), schema)


def _state_source(
    state: Any, start_from: str | None, buckets: int, key: st.StructField, options: MonitorOptions
) -> StateSource:
    """Return where the state of a stream is; the folder gets a token that workers look for."""
    if not isinstance(state, str | os.PathLike) or not str(state):
        raise MonitorError(
            "a stream keeps a state: state takes the path of a folder that this process and all "
            f"workers can reach, or a URL such as s3://bucket/folder; got {state!r}"
        )
    folder = open_states(state)
    settings = {"buckets": str(buckets), "key": key.dataType.simpleString()} | options.describe()
    return StateSource(folder.locate(), put_token(folder), tuple(settings.items()), start_from)


def _hashable(field: st.StructField) -> str:
    """Return SQL for what `xxhash64` takes that tells the values of a column apart, and nulls."""
    column = quote_column(field.name)
    if any(word in field.dataType.simpleString() for word in ("map<", "variant")):
        return f"to_json(struct({column}))"
    return f"{column}, isnull({column})"


def _find(columns: EventColumns, parameter: str, name: str) -> st.StructField:
    field = columns.find(name)
    if field is None:
        known = [f.name for f in columns.fields]
        raise MonitorError(
            f"{parameter}: the positions have no column {name!r}{suggest(name, known)}; they have "
            f"{', '.join(known)}"
        )
    return field


def _check_key(field: st.StructField) -> None:
    type_ = field.dataType
    if is_collated(type_):
        raise MonitorError(
            f"keys in {field.name!r} are of type {type_.simpleString()}, and objects are told "
            "apart byte by byte; cast them to string"
        )
    if not isinstance(type_, st.StringType | st.IntegralType):
        raise MonitorError(
            f"keys in {field.name!r} must be strings or integers, got {type_.simpleString()}"
        )


def _event_schema(
    options: MonitorOptions,
    version: Version,
    fields: list[st.StructField],
    kept: list[st.StructField],
    region: str | None,
) -> st.StructType:
    """Return the columns of events: those of a monitor that is given no rows, which checks all."""
    arrow = pa.schema([(f.name, to_arrow(f.dataType)) for f in fields])
    tracker = Tracker(options)
    tracker.region_column = region
    events = tracker.update(arrow.empty_table(), version, None).schema
    own = len(events) - len(kept) - len(options.payload)
    of_rules = [to_spark(field) for field in events]
    of_rules[own : own + len(kept)] = kept
    return st.StructType([st.StructField(f.name, f.dataType) for f in of_rules])


def _count_buckets(buckets: Any, session: Any) -> int:
    if buckets is None:
        tasks = session.conf.get("spark.sql.shuffle.partitions")
        return int(tasks) if tasks.isdigit() else _USUAL_BUCKETS
    if not isinstance(buckets, int) or isinstance(buckets, bool) or buckets < 1:
        raise MonitorError(f"buckets must be a whole number, 1 or more; got {buckets!r}")
    return buckets
