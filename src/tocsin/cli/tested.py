"""Read the columns that rules test from files of events, for `lint` and `rules tune`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from tocsin.cli.progress import show_progress
from tocsin.engine.rules import TUNING_EVENTS, Rules
from tocsin.errors import EventError
from tocsin.files.events import open_events
from tocsin.files.paths import detect_format, list_data_files, reading
from tocsin.model.event_tables import is_sparse
from tocsin.model.schema import Schema


def read_tested_columns(path: Path, rules: Rules) -> pa.Table:
    """Return the columns of events that rules test."""
    with _open_tested(path, rules) as (schema, batches):
        return pa.Table.from_batches(batches, schema)


def draw_sample(path: Path, rules: Rules) -> pa.Table:
    """Return the columns that rules test, of at most `TUNING_EVENTS` events drawn at random.

    Each event gets a random number, and those with the least numbers are kept, so that no more
    events than twice the sample are in memory besides a batch.
    """
    rng = np.random.default_rng(0)
    with _open_tested(path, rules) as (schema, batches):
        kept, drawn = schema.empty_table(), np.empty(0)
        for batch in batches:
            kept = pa.concat_tables([kept, pa.Table.from_batches([batch], schema)])
            drawn = np.concatenate([drawn, rng.random(len(batch))])
            if len(drawn) > 2 * TUNING_EVENTS:
                kept, drawn = _keep_least(kept, drawn)
    return _keep_least(kept, drawn)[0]


def _keep_least(events: pa.Table, drawn: np.ndarray) -> tuple[pa.Table, np.ndarray]:
    """Return as many events as tuning needs, those with the least numbers, in their order."""
    if len(drawn) <= TUNING_EVENTS:
        return events, drawn
    rows = np.sort(np.argpartition(drawn, TUNING_EVENTS)[:TUNING_EVENTS])
    return events.take(rows), drawn[rows]


@contextlib.contextmanager
def _open_tested(path: Path, rules: Rules) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Yield the columns of events that rules test, batch by batch."""
    format = detect_format(path)  # first: it raises if there is no such file
    files = list_data_files(path)
    tested = {name.lower() for name in rules.tested()}
    kinds = {name: rules.schema.kind(name) for name in rules.schema if name.lower() in tested}
    declared = Schema(kinds)
    with reading(path, EventError), show_progress() as bar:
        bar.step("reading events", sum(file.stat().st_size for file in files))
        events = open_events(files, format, declared, Schema({}), bar.advance)
        needed = {f.name for f in events.schema if f.name.lower() in tested or is_sparse(f.type)}
        schema = pa.schema([field for field in events.schema if field.name in needed])
        yield schema, (batch for file in files for batch in events.batches(file, needed))
