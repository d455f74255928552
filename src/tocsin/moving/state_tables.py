"""The state of a tracker as tables, and a tracker from such tables.

A table has a row for each object: its key, its record without the places in memory, how many stays
it has, and its safe region if the monitor has such. The stays follow in a second table, and the
last reports in tables of their own, one for each schema that came. Nothing refers to a slot, so
what was read does not depend on the holes that forgotten objects left. A *delta* has the objects
that changed since an earlier state, and the keys of those that were forgotten.

Kernels trust what `build_tracker` builds, so it checks all that they rely on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import MonitorError
from tocsin.model.arrow import combine_chunks, is_text, values_of
from tocsin.moving.objects import (
    COUNT,
    DUE,
    LAST,
    LONG_AGO,
    NEVER,
    POSITION,
    RANK,
    ROW,
    RULE,
    START,
    STAY,
    TIMER,
    WORDS,
    Objects,
)
from tocsin.moving.options import MonitorOptions
from tocsin.moving.positions import to_times
from tocsin.moving.regions.tracked import COLUMNS
from tocsin.moving.rule_changes import JudgedRules
from tocsin.moving.tracker import Tracker

# The columns of objects after the key, and of stays.
_OBJECTS = pa.schema(
    [
        ("last", pa.int64()),
        ("timer", pa.int64()),
        ("due", pa.int64()),
        ("rank", pa.int64()),
        ("late", pa.int32()),
        ("doubled", pa.int32()),
        ("stays", pa.int32()),
    ]
)
_STAYS = pa.schema(
    [("rule", pa.int32()), ("flags", pa.uint8()), ("since", pa.int64()), ("away", pa.int64())]
)
_FLAGS = 8  # different flags of a stay
_SHIFT = 32  # of flags, above the rule's position


class StateTables(NamedTuple):
    """The state of all objects, or of those of a delta."""

    objects: pa.Table  # the key, and the columns above
    stays: pa.Table
    reports: list[pa.Table]  # the first column is the row of the object
    forgotten: pa.Array  # keys; none are among the objects


class Totals(NamedTuple):
    """What is not the state of an object."""

    key_type: pa.DataType | None
    time_type: pa.DataType | None
    kept: pa.Schema
    clock: int | None
    counts: dict[str, int]
    regions: dict[str, Any] | None = None  # what their columns mean


def totals_of(tracker: Tracker) -> Totals:
    """Return what a tracker knows besides its objects and rules."""
    return Totals(
        tracker.key_type,
        tracker.time_type,
        tracker.kept,
        tracker.clock,
        dict(tracker.counts),
        None if tracker.regions is None else tracker.regions.describe(),
    )


def tables_of(tracker: Tracker, slots: np.ndarray, forgotten: pa.Array) -> StateTables:
    """Return the state of the objects at slots."""
    objects = tracker.objects
    assert objects is not None
    records = objects.records.reshape(-1, WORDS)[slots]
    counts = records[:, COUNT]
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    places = np.repeat(records[:, START] // STAY - (ends - counts), counts) + np.arange(total)
    pool = objects.pool[: len(objects.pool) // STAY * STAY].reshape(-1, STAY)[places]
    columns = {
        "last": records[:, LAST],
        "timer": records[:, TIMER],
        "due": records[:, DUE],
        "rank": records[:, RANK],
        "late": tracker.late[slots],
        "doubled": tracker.doubled[slots],
        "stays": counts.astype(np.int32),
    }
    if tracker.regions is not None:
        columns |= tracker.regions.columns(slots)
    return StateTables(
        pa.table({"key": objects.keys(slots)} | columns),
        pa.table(
            [
                (pool[:, RULE] & POSITION).astype(np.int32),
                (pool[:, RULE] >> _SHIFT).astype(np.uint8),
                pool[:, RULE + 1],
                pool[:, RULE + 2],
            ],
            schema=_STAYS,
        ),
        _reports_of(tracker, records[:, ROW]),
        forgotten,
    )


def _reports_of(tracker: Tracker, rows: np.ndarray) -> list[pa.Table]:
    """Return the reports at rows of the log, with the place of each in `rows`."""
    owner = np.full(tracker.reports.rows, -1, np.int32)
    owner[rows] = np.arange(len(rows), dtype=np.int32)
    in_order = np.flatnonzero(owner >= 0)  # as they lie in memory
    by_schema: dict[pa.Schema, list[pa.Table]] = {}
    for table, places in tracker.reports.take(in_order):
        owners = pa.array(owner[in_order[places]])
        names = ["", *table.column_names]  # names may repeat
        own = pa.Table.from_arrays([owners, *table.columns], names)
        by_schema.setdefault(table.schema, []).append(own)
    return [pa.concat_tables(tables).combine_chunks() for tables in by_schema.values()]


# ------------------------------------------------------------ back


def build_tracker(
    options: MonitorOptions, totals: Totals, judged: JudgedRules, chain: Sequence[StateTables]
) -> Tracker:
    """Return the tracker of a state and the deltas that follow it; raise unless they are valid."""
    tracker = Tracker(options)
    tracker.judged = judged
    _check_types(totals)
    tracker.key_type, tracker.time_type = totals.key_type, totals.time_type
    tracker.clock, tracker.counts = totals.clock, tracker.counts | totals.counts
    names = [name.lower() for name in totals.kept.names]
    if names == [name.lower() for name in options.keep]:
        tracker.kept = totals.kept  # otherwise the next positions say of what types they are
    if totals.key_type is None:
        require(not any(len(each.objects) for each in chain), "it has objects, and no type of keys")
        return tracker
    objects = tracker.objects = Objects(not t.is_integer(totals.key_type))
    for tables in chain:
        _check_tables(tables, objects.word_type, tracker.regions is not None)
    table, stays, reports = _join(chain, objects.has_texts)
    n = len(table)
    column = {name: _values(table, name) for name in _OBJECTS.names}
    _check_objects(column)
    records = np.empty((n, WORDS), np.int64)
    for word, name in ((LAST, "last"), (TIMER, "timer"), (DUE, "due"), (RANK, "rank")):
        records[:, word] = column[name]
    records[:, COUNT] = column["stays"]
    pool = np.empty((len(stays), STAY), np.int64)
    rules = _values(stays, "rule")
    _check_stays(rules, column["stays"], _values(stays, "flags"), judged)
    pool[:, RULE] = rules | (_values(stays, "flags").astype(np.int64) << _SHIFT)
    pool[:, RULE + 1], pool[:, RULE + 2] = _values(stays, "since"), _values(stays, "away")
    combine_chunks(table.column("key")).cast(totals.key_type)
    for words in (column["last"], pool[:, RULE + 1]):
        if totals.time_type is not None and len(words):
            to_times(np.array([words.min(), words.max()]), totals.time_type)
    seen = np.zeros(n, np.int64)
    for owners, report in reports:
        seen += np.bincount(owners, minlength=n)
        records[owners, ROW] = tracker.reports.rows + np.arange(len(owners))
        tracker.reports.append(report, owners.astype(np.int32))
    require(bool((seen == 1).all()), "each object must have one last report")
    objects.fill(combine_chunks(table.column("key")), records, pool)
    tracker.late, tracker.doubled = column["late"].copy(), column["doubled"].copy()
    if tracker.regions is not None:
        require(totals.regions is not None, "nothing says what its regions mean")
        own = {name: _values(table, name) for name in COLUMNS.names}
        tracker.regions.restore(totals.regions or {}, own)
    return tracker


def _join(
    chain: Sequence[StateTables], has_texts: bool
) -> tuple[pa.Table, pa.Table, list[tuple[np.ndarray, pa.Table]]]:
    """Return the objects of a state and its deltas by rank, their stays, and their reports."""
    rows = _latest_rows(chain, has_texts)
    objects = pa.concat_tables([each.objects for each in chain])
    stays = pa.concat_tables([each.stays for each in chain])
    rank = _values(objects, "rank")
    rows = rows[np.argsort(rank[rows], kind="stable")]
    place = np.full(len(objects), -1)
    place[rows] = np.arange(len(rows))
    reports, start = [], 0
    for each in chain:
        for table in each.reports:
            owners = place[_values(table, 0) + start]
            table = table.select(range(1, table.num_columns))
            if (owners < 0).any():
                table, owners = table.filter(pa.array(owners >= 0)), owners[owners >= 0]
            if len(owners):
                reports.append((owners, table.combine_chunks()))
        start += len(each.objects)
    if len(rows) < len(objects) or (rows[1:] < rows[:-1]).any():
        counts = _values(objects, "stays")
        begin = np.cumsum(counts) - counts
        counts = counts[rows]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        places = np.repeat(begin[rows] - (ends - counts), counts) + np.arange(total)
        objects, stays = objects.take(pa.array(rows)), stays.take(pa.array(places))
    return objects, stays, reports


def _latest_rows(chain: Sequence[StateTables], has_texts: bool) -> np.ndarray:
    """Return which rows of the objects of a state and its deltas are the latest of their keys."""
    if len(chain) == 1:
        return np.arange(len(chain[0].objects))
    finder, start = Objects(has_texts), 0
    latest = np.empty(0, np.int64)
    for each in chain:
        keys = combine_chunks(each.objects.column("key"))
        slots = finder.assign(keys, np.ones(len(keys), np.uint8))
        finder.records.reshape(-1, WORDS)[slots, RANK] = slots  # without one it would be forgotten
        latest = np.concatenate([latest, np.full(finder.slots - len(latest), -1)])
        gone = finder.find(each.forgotten)
        latest[gone[gone >= 0]] = -1
        rows = start + np.arange(len(keys))
        latest[slots] = rows
        require(bool((latest[slots] == rows).all()), "a key is there twice")
        start += len(keys)
    return latest[latest >= 0]


# ------------------------------------------------------------ checks


def require(holds: bool, message: str) -> None:
    """Raise unless `holds` is true; the message says what must hold."""
    if not holds:
        raise MonitorError(message)


def _check_types(totals: Totals) -> None:
    key, time = totals.key_type, totals.time_type
    require(key is None or t.is_integer(key) or is_text(key), f"keys cannot be of type {key}")
    is_time = time is None or t.is_timestamp(time) or t.is_integer(time) or time == pa.float64()
    require(is_time and (key is None or time is not None), f"times cannot be of type {time}")


def _check_tables(tables: StateTables, key_type: pa.DataType, has_regions: bool) -> None:
    """Raise unless tables have the columns that they must have, and fit together."""
    objects, stays, reports, forgotten = tables
    expected = pa.schema([("key", key_type), *_OBJECTS, *(COLUMNS if has_regions else ())])
    require(objects.schema == expected, "the columns of its objects are others")
    require(stays.schema == _STAYS, "the columns of its stays are others")
    require(forgotten.type == key_type and not forgotten.null_count, "forgotten keys must be keys")
    for table in (objects, stays):
        require(not any(column.null_count for column in table.columns), "a value is null")
    counts = _values(objects, "stays")
    require(bool((counts >= 0).all()) and int(counts.sum()) == len(stays), "stays are missing")
    for report in reports:
        owners = report.column(0) if report.num_columns > 1 else None
        require(
            owners is not None and owners.type == pa.int32() and not owners.null_count,
            "reports must begin with the rows of their objects",
        )
        own = _values(report, 0)
        require(bool(((own >= 0) & (own < len(objects))).all()), "a report is of no object")


def _check_objects(column: dict[str, np.ndarray]) -> None:
    rank = column["rank"]
    require(bool((rank[1:] > rank[:-1]).all()), "two objects have the same rank")
    require(not len(rank) or (rank[0] >= 0 and rank[-1] < 1 << 62), "a rank is out of range")
    last = column["last"]
    require(bool(((last != LONG_AGO) & (last != NEVER)).all()), "an object has no last time")
    for name in ("late", "doubled"):
        require(bool((column[name] >= 0).all()), f"a number of {name} rows is negative")


def _check_stays(
    rules: np.ndarray, counts: np.ndarray, flags: np.ndarray, judged: JudgedRules
) -> None:
    """Raise unless stays are of rules that there are, and in their order."""
    positions = judged.to_list().positions
    is_rule = np.zeros(int(positions.max(initial=-1)) + 2, bool)
    is_rule[positions] = True
    is_known = bool(((rules >= 0) & (rules < len(is_rule))).all()) and bool(is_rule[rules].all())
    require(is_known, "an object is in a rule that there is not")
    require(bool((flags < _FLAGS).all()), "a stay has unknown flags")
    begins = np.zeros(len(rules) + 1, bool)
    begins[np.cumsum(counts)] = True
    require(
        bool((begins[1:-1] | (rules[1:] > rules[:-1])).all()),
        "the stays of an object are not in the order of rules",
    )


def _values(table: pa.Table, column: Any) -> np.ndarray:
    return values_of(combine_chunks(table.column(column)))
