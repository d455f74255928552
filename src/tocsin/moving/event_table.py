"""The events of an update as an Arrow table, in the order in which they are reported."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.result import id_type
from tocsin.engine.version import Version
from tocsin.jit import Int32Out, Int64Out, Int64s, UInt8Out, field_types, kernel
from tocsin.moving.objects import Objects
from tocsin.moving.positions import to_times
from tocsin.moving.regions.region import REGION_TYPE
from tocsin.moving.regions.tracked import Regions
from tocsin.moving.reports import Reports
from tocsin.moving.rule_changes import Changes, JudgedRules
from tocsin.moving.transitions import (
    EVENT,
    LOST,
    REGION,
    RULE_REMOVED,
    SLOT,
    SOURCE,
    TIME,
    WHAT,
    WHEN_SINCE,
    WHICH,
    WHO,
)

EVENT_NAMES = pa.array(["enter", "leave", "dwell", "lost", "region", "ask"])
REASONS = pa.array(
    [None, "lost", "rule added", "rule changed", "rule removed", "object removed"], pa.string()
)


class Outcome(NamedTuple):
    """What became of an update, and what its events refer to."""

    events: np.ndarray  # [8 n] see `transitions`
    objects: Objects
    judged: JudgedRules  # the rules by their positions in events
    version: Version
    changes: Changes | None
    batch: pa.Table | None  # the rows that events refer to
    reports: Reports
    regions: Regions | None  # if events have a column of regions


def schema_of(
    version: Version,
    key_type: pa.DataType,
    time_type: pa.DataType,
    kept: pa.Schema,
    payload: pa.Schema,
    region: str | None = None,
) -> pa.Schema:
    """Return the columns of events; `kept` and `payload` are those of the user.

    `region` is the name of a column of safe regions, if there is one.
    """
    return pa.schema(
        [
            ("object", key_type),
            ("rule", id_type(version)),
            ("event", pa.string()),
            ("time", time_type),
            ("since", time_type),
            ("reason", pa.string()),
            ("rules_version", pa.int64()),
            *([] if region is None else [(region, REGION_TYPE)]),
            *kept,
            *payload,
        ]
    )


def build_table(outcome: Outcome, schema: pa.Schema, kept: int, number: int | None) -> pa.Table:
    """Return the events in the columns of a schema; `kept` of them come before the payload."""
    n = len(outcome.events) // EVENT
    columns_of = Columns(*(np.empty(n, dtype) for dtype in field_types(Columns).values()))
    write_columns(outcome.events, sort_events(outcome.events), columns_of)
    time, since, slot, rule, what, source = columns_of
    columns: list[pa.Array] = [
        outcome.objects.keys(slot),
        _rules(rule, what, outcome),
        EVENT_NAMES.take(pa.array(what & 15)),
        to_times(time, schema.field("time").type),
        to_times(since, schema.field("since").type),
        REASONS.take(pa.array(what >> 4)) if what.max(initial=0) > 15 else pa.nulls(n, pa.string()),
        pa.nulls(n, pa.int64()) if number is None else pa.array(np.full(n, number)),
    ]
    if outcome.regions is not None:
        columns.append(outcome.regions.to_arrow(slot, what & 15 == REGION))
    own = len(columns)
    columns += _kept_columns(source, outcome, list(schema)[own : own + kept])
    payload = pa.schema(list(schema)[own + kept :])
    if len(payload):
        has_rule = (what & 15 < LOST) & (what >> 4 != RULE_REMOVED >> 4)
        positions = outcome.judged.positions_in(outcome.version, rule[has_rule])
        has_rule[has_rule] = positions >= 0
        table = outcome.version.directory.payload_at(positions[positions >= 0], payload)
        rows = pa.array(np.cumsum(has_rule) - 1, mask=~has_rule)
        columns += table.combine_chunks().take(rows).columns
    return pa.table(
        [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def sort_events(events: np.ndarray) -> np.ndarray:
    """Return the order by time, object and rule; events of one rule and time stay as they are."""
    disorder = find_disorder(events)
    order = np.arange(len(events) // EVENT)
    if disorder != _NONE:
        scratch = np.empty((2, len(order)), np.int64)
        for word in (TIME,) if disorder == _TIMES else (WHICH, WHO, TIME):
            sort_by_word(events, word, order, *scratch)
    return order


@kernel
def sort_by_word(
    events: Int64s, word: int, order: Int64Out, keys: Int64Out, scratch: Int64Out
) -> None:
    """Sort an order of events by one of their words; a stable sort by 11 bits at a time."""
    n = order.shape[0]
    least = most = events[order[0] * EVENT + word]
    for i in range(n):
        keys[i] = events[i * EVENT + word]
        least, most = min(least, keys[i]), max(most, keys[i])
    span = np.uint64(most) - np.uint64(least)  # of all integers, if need be
    for i in range(n):
        keys[i] = np.int64(np.uint64(keys[i]) - np.uint64(least))
    counts = np.zeros(2049, np.int64)
    shift = np.uint64(0)
    while shift < 64 and span >> shift > 0:
        for i in range(2049):
            counts[i] = 0
        for i in range(n):
            counts[np.int64((np.uint64(keys[i]) >> shift) & np.uint64(2047)) + 1] += 1
        for i in range(2048):
            counts[i + 1] += counts[i]
        for i in range(n):
            digit = np.int64((np.uint64(keys[order[i]]) >> shift) & np.uint64(2047))
            scratch[counts[digit]] = order[i]
            counts[digit] += 1
        for i in range(n):
            order[i] = scratch[i]
        shift += np.uint64(11)


class Columns(NamedTuple):
    """Events in columns; see `transitions`."""

    time: Int64Out
    since: Int64Out
    slot: Int32Out
    rule: Int32Out
    what: UInt8Out
    source: Int64Out


@kernel
def write_columns(events: Int64s, order: Int64s, columns: Columns) -> None:
    """Write events in an order as columns, in one pass: strides of a record are slow to read."""
    time, since, slot = columns.time, columns.since, columns.slot
    rule, what, source = columns.rule, columns.what, columns.source
    for i in range(order.shape[0]):
        base = order[i] * EVENT
        time[i], since[i], slot[i] = (
            events[base + TIME],
            events[base + WHEN_SINCE],
            events[base + SLOT],
        )
        rule[i], what[i], source[i] = (
            events[base + WHICH],
            events[base + WHAT],
            events[base + SOURCE],
        )


_NONE, _TIMES, _ALL = range(3)


@kernel
def find_disorder(events: Int64s) -> int:
    """Return whether events are in order, need to be sorted by time alone, or by all."""
    is_sorted = True
    for base in range(EVENT, events.shape[0], EVENT):
        before = base - EVENT
        time, last_time = events[base + TIME], events[before + TIME]
        who, last_who = events[base + WHO], events[before + WHO]
        if who < last_who:
            return 2
        if who == last_who and (
            time < last_time
            or (time == last_time and events[base + WHICH] < events[before + WHICH])
        ):
            return 2
        is_sorted &= time >= last_time
    return 0 if is_sorted else 1


def _rules(positions: np.ndarray, what: np.ndarray, outcome: Outcome) -> pa.Array:
    """Return the ids of the rules of events; null for events without one."""
    is_removed = what >> 4 == RULE_REMOVED >> 4
    has_rule = what & 15 < LOST
    is_here = has_rule & ~is_removed
    if is_here.all() and len(outcome.version):
        return outcome.judged.ids_at(positions)
    ids = outcome.judged.ids_at(positions[is_here])
    parts = [ids]
    place = np.cumsum(is_here) - 1
    if outcome.changes is not None and is_removed.any():
        removed = outcome.changes.removed
        rows = np.searchsorted(removed.positions, positions[is_removed])
        gone = removed.ids.take(pa.array(rows))
        place[is_removed] = len(ids) + np.arange(len(gone))
        parts.append(gone)
    if len(parts) > 1:
        type_ = pa.int64() if all(t.is_integer(part.type) for part in parts) else pa.large_string()
        parts = [part.cast(type_) for part in parts]
    return pa.concat_arrays(parts).take(pa.array(place, mask=~has_rule))


def _kept_columns(sources: np.ndarray, outcome: Outcome, fields: list[pa.Field]) -> list[pa.Array]:
    """Return the user's columns of the rows that events come from."""
    if not fields:
        return []
    names = [field.name for field in fields]
    parts: list[pa.Table] = []
    places: list[np.ndarray] = []
    in_batch = np.flatnonzero(sources >= 0)
    if len(in_batch):
        assert outcome.batch is not None
        parts.append(_select(outcome.batch, names).take(pa.array(sources[in_batch])))
        places.append(in_batch)
    earlier = np.flatnonzero(sources < -1)
    for table, own in outcome.reports.take(-2 - sources[earlier]):
        parts.append(_select(table, names))
        places.append(earlier[own])
    if not parts:
        return [pa.nulls(0, field.type) for field in fields]
    schema = pa.schema(fields)
    table = pa.concat_tables([part.cast(schema) for part in parts]).combine_chunks()
    back = np.empty(len(sources), np.int64)
    back[np.concatenate(places)] = np.arange(len(sources))
    return [column.combine_chunks() for column in table.take(pa.array(back)).columns]


def _select(table: pa.Table, names: list[str]) -> pa.Table:
    by_name = {name.lower(): name for name in table.column_names}
    return pa.table(
        {
            name: table.column(by_name[name.lower()])
            if name.lower() in by_name
            else pa.nulls(table.num_rows)
            for name in names
        }
    )
