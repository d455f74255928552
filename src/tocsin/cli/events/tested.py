"""Read the columns that rules test from files of events, for `lint` and `rules tune`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from tocsin.cli.events import open_events
from tocsin.cli.files import detect_format, list_data_files, reading
from tocsin.cli.progress import show_progress
from tocsin.engine.rules import TUNING_EVENTS, Rules
from tocsin.errors import EventError
from tocsin.model.event_tables import is_sparse


def read_tested_columns(path: Path, rules: Rules) -> pa.Table:
    """Return the columns of events that rules test."""
    format = detect_format(path)  # first: it raises if there is no such file
    files = list_data_files(path)
    tested = {name.lower() for name in rules.tested()}
    with reading(path, EventError), show_progress() as bar:
        bar.step("reading events", sum(file.stat().st_size for file in files))
        events = open_events(files, format, rules.schema, bar.advance)
        needed = {f.name for f in events.schema if f.name.lower() in tested or is_sparse(f.type)}
        schema = pa.schema([field for field in events.schema if field.name in needed])
        batches = [batch for file in files for batch in events.batches(file, needed)]
        return pa.Table.from_batches(batches, schema)


def draw_sample(path: Path, rules: Rules) -> pa.Table:
    """Return the columns that rules test, of at most `TUNING_EVENTS` events drawn at random."""
    events = read_tested_columns(path, rules)
    if len(events) <= TUNING_EVENTS:
        return events
    rows = np.random.default_rng(0).choice(len(events), TUNING_EVENTS, replace=False)
    return events.take(np.sort(rows))
