"""What workers do with a batch DataFrame: replay the history of one bucket after the other.

Spark sorts the rows of a partition by bucket and time, so no row is late, and a bucket's rows need
not be in memory together. They reach the tracker in parts, and a part ends between two times: rows
of equal time are doubled, and a timer that is due at the time of a row comes before it, only if
they are in one update. So the events are those of a `Monitor` that is given all rows at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tocsin.errors import MonitorError
from tocsin.moving.options import MonitorOptions
from tocsin.moving.tracker import Tracker
from tocsin.spark.moving.result import EventLayout
from tocsin.spark.moving.rows import log_rejected, select_valid, split_buckets
from tocsin.spark.worker import RuleSource, micro_batch, open_rules

_ROWS = 1 << 16  # of an update; chosen: an update takes about a millisecond, however few rows


def replay(
    source: RuleSource,
    options: MonitorOptions,
    layout: EventLayout,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the events of rows that are sorted by bucket and time."""
    if micro_batch()[0]:
        raise MonitorError(
            "a monitor inside of foreachBatch would begin without a state in each micro-batch; "
            "monitor the stream, and use foreachBatch on its events"
        )
    version = open_rules(source)
    number = None if source.archive else source.version
    rejected = 0

    def valid() -> Iterator[pa.RecordBatch]:
        nonlocal rejected
        for rows in batches:
            kept = select_valid(rows, options.key, options.time)
            rejected += rows.num_rows - kept.num_rows
            yield kept

    for _, runs in itertools.groupby(split_buckets(valid()), lambda run: run[0]):
        tracker = Tracker(options, threads=1)
        for rows in cut_between_times((rows for _, rows in runs), options.time):
            events = tracker.update(rows, version, number)
            yield from layout.lay_out(events, version, source)
    if rejected:
        log_rejected("a partition", options.key, options.time, rejected)


def cut_between_times(
    runs: Iterable[pa.RecordBatch], time: str, least: int = _ROWS
) -> Iterator[pa.Table]:
    """Yield sorted rows in tables of about so many rows, none with a time of the one before."""
    pending: list[pa.RecordBatch] = []
    latest = None
    for rows in runs:
        times = rows.column(time).to_numpy(zero_copy_only=False)
        before, latest = latest, times[-1]
        pending.append(rows)
        if sum(part.num_rows for part in pending) < least or before == latest:
            continue
        first = int(times.searchsorted(latest))
        ready = [*pending[:-1], rows.slice(0, first)]
        pending = [rows.slice(first)]
        if any(part.num_rows for part in ready):
            yield pa.Table.from_batches(ready)
    if pending:
        yield pa.Table.from_batches(pending)
