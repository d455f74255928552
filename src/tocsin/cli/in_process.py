"""Match files of events in this process: read, match and write, batch by batch.

The file is written to a temporary folder and renamed when it is complete. So at any time there is
no file, the old file or the complete new one. Rows are in the order of the events, and files in the
order of their names.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from tocsin.cli.job import Job, Outcome
from tocsin.cli.output import Tally
from tocsin.cli.progress import Bar
from tocsin.engine.result import ResultBuilder, TypeSystem, tested_columns
from tocsin.engine.rules import Rules
from tocsin.engine.threads import thread_count
from tocsin.files.events import open_events
from tocsin.files.paths import is_store, list_data_files, naming_rows
from tocsin.files.writer import FileWriter, can_be_written
from tocsin.model.arrow import decoded_type
from tocsin.model.schema import Schema

_EVENTS = 1 << 14  # events per match; chosen: all pairs of a match are in memory


def match_files(job: Job, folder: Path, bar: Bar) -> Outcome:
    """Match and write the output, which is in `folder` until it is complete."""
    files = list_data_files(job.events)
    size = sum(file.stat().st_size for file in files)
    start = time.perf_counter()
    bar.step("reading rules")
    opened = Rules.open(job.rules, job.version) if is_store(job.rules) else None
    known = Schema({}) if opened is None else opened.schema
    events = open_events(files, job.format, job.declared, known, bar.advance)
    rules = job.read_rules(events.schema) if opened is None else opened
    version = rules.snapshot()
    version.count(events.schema.empty_table())  # raises if a column is missing or has a wrong type
    result = ResultBuilder.plan(job.request, version, events.schema, _FILE_TYPES)
    unfit = [f for f in result.schema if not can_be_written(f.type, job.out_format)]
    job.refuse_columns({f.name: str(f.type) for f in unfit})
    needed = {*result.kept.names, *tested_columns(version, events.schema)}
    matched = job.request.columns_added()[0]
    threads = thread_count(job.threads)
    tally = Tally()
    count = 0
    bar.step("matching", size)
    with FileWriter(folder / "whole", job.out_format, result.schema) as writer:
        for file in files:
            before = 0  # rows of this file that are written
            for batch in _split(events.batches(file, needed)):
                with naming_rows(functools.partial(_name_row, file, before)):
                    for rows in result.build(version, batch, threads=threads):
                        tally.add(matched, rows.column(matched))
                        writer.write(rows)
                before += batch.num_rows
            count += before
    os.replace(folder / "whole", job.out)
    return Outcome(count, tally.matches, tally.by_rule, time.perf_counter() - start)


def _split(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches that are small enough to be matched at once."""
    for batch in batches:
        for first in range(0, batch.num_rows, _EVENTS):
            yield batch.slice(first, _EVENTS)


def _name_row(file: Path, before: int, row: int) -> str:
    return f"{file}: row {before + row + 1}"


def _type_name(type_: pa.DataType) -> str:
    return str(decoded_type(type_))


_FILE_TYPES = TypeSystem(decoded_type, _type_name)
