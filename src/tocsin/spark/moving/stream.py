"""What workers do with a stream: in each micro-batch, change the state of a bucket by its rows.

A worker reads the newest state before the micro-batch, lets the rows happen, writes the state after
it unless there is one, and only then yields events. Whoever repeats this, after a crash or as a
speculative twin, finds the same state before, takes the same rows in the same order and the same
version of the rules (`spark/worker.py`), and so yields the same events. Nothing else needs to be
exactly once, and any sink of Spark's is. `moving/bucket_states.py` keeps the states.

Spark knows nothing of the states. So no watermark reaches a worker, and no micro-batch runs without
data: timers and changed rules reach a bucket with its next row.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.engine.store_folder import StoreFolder
from tocsin.errors import MonitorError
from tocsin.moving.bucket_states import BucketStates, check_token, identity_of
from tocsin.moving.options import MonitorOptions
from tocsin.moving.rule_changes import JudgedRules
from tocsin.moving.state_files import open_states
from tocsin.spark.moving.result import EventLayout
from tocsin.spark.moving.rows import BUCKET, DIGEST, log_rejected, select_valid
from tocsin.spark.worker import (
    RuleSource,
    micro_batch,
    open_rules,
    report_missing,
    resolve_version,
    unpin_advice,
)


class StateSource(NamedTuple):
    """Where workers find the states, and what these depend on."""

    folder: str
    token: str  # which the folder has
    settings: tuple[tuple[str, str], ...]
    start_from: str | None  # another query


def follow(
    source: RuleSource,
    options: MonitorOptions,
    layout: EventLayout,
    state: StateSource,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the events of the rows of a micro-batch, bucket after bucket."""
    parts = [rows for rows in batches if rows.num_rows]
    if not parts:
        return
    query, batch = micro_batch()
    if not query or not batch:
        raise MonitorError("states are those of a streaming query, but this task belongs to none")
    check_token(open_states(state.folder), state.token)
    states = _open_states(state, query)
    current = resolve_version(source)
    version = open_rules(current)
    number = None if current.archive else current.version
    if source.version is None:
        report_missing(version, parts[0].schema, source)
    for bucket, rows in gather(parts):
        valid = select_valid(rows, options.key, options.time)
        rejected = len(rows) - len(valid)
        if rejected:
            _report_rejected(query, options.key, options.time)
        if not len(valid):
            continue
        positions, digest = put_in_order(valid, options.time, rejected)
        tracker = states.read(bucket, int(batch), options)
        tracker.threads, tracker.region_column = 1, layout.region
        rules = _describe_rules(current)
        identity = identity_of(digest, states.previous_identity(tracker), rules, options)
        try:
            table = tracker.update(positions, version, number)
            events = list(layout.lay_out(table, version, current))
        except MonitorError as error:
            advice = f"; {unpin_advice(current, query, batch)}" if source.version is None else ""
            raise MonitorError(f"{error}{advice}") from error
        tracker.counts["rows"] += rejected
        tracker.counts["rejected"] += rejected
        states.write(bucket, int(batch), tracker, identity)
        yield from events


@functools.lru_cache(maxsize=4)
def _open_states(state: StateSource, query: str) -> BucketStates:
    """Return the states of a query; the settings are compared once per worker process."""
    states = BucketStates(open_states(state.folder), query, state.start_from)
    states.settle(dict(state.settings))
    return states


@functools.lru_cache(maxsize=64)
def _report_rejected(query: str, key: str, time: str) -> None:
    """Log that rows are rejected, once per stream and worker process."""
    log_rejected(f"stream {query}", key, time)


@functools.lru_cache(maxsize=4)
def _describe_rules(source: RuleSource) -> str:
    """Return what tells a version from others, in all processes and after an upgrade."""
    if not source.archive:
        assert source.version is not None
        return f"{StoreFolder(source.path).versions.read(source.version).store} {source.version}"
    rules = JudgedRules(open_rules(source)).to_list()
    texts = "\0".join(map(repr, rules.ids.to_pylist()))
    return hashlib.sha256(rules.fingerprints.tobytes() + texts.encode()).hexdigest()


# ------------------------------------------------------------ rows


def gather(parts: Sequence[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each bucket, without the column of buckets."""
    rows = pa.Table.from_batches(parts)
    buckets = np.asarray(rows.column(BUCKET))
    rows = rows.drop_columns([BUCKET])
    found = np.unique(buckets)
    for bucket in found.tolist():
        yield bucket, rows.filter(pa.array(buckets == bucket)) if len(found) > 1 else rows


def put_in_order(rows: pa.Table, time: str, rejected: int) -> tuple[pa.Table, str]:
    """Return rows by time and then digest, and a digest of all, and of how many were rejected.

    Only rows that are equal in all columns have the same place, but for chance.
    """
    rows = rows.combine_chunks()
    digests = np.asarray(rows.column(DIGEST))
    order = np.lexsort((digests, rows.column(time).to_numpy()))
    total = hashlib.sha256(digests[order].tobytes())
    total.update(str(rejected).encode())
    return rows.drop_columns([DIGEST]).take(pa.array(order)), total.hexdigest()
