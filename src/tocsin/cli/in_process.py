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
import pyarrow.types as t

from tocsin.cli.job import Job, Outcome
from tocsin.cli.output import Tally
from tocsin.cli.progress import Bar
from tocsin.engine.rules import Rules
from tocsin.engine.threads import thread_count
from tocsin.errors import EventError, RuleError, suggest
from tocsin.files.events import open_events
from tocsin.files.paths import list_data_files, naming_rows
from tocsin.files.writer import FileWriter, can_be_written
from tocsin.model.arrow import decode, decoded_type
from tocsin.model.event_tables import is_sparse
from tocsin.model.schema import Schema

_EVENTS = 1 << 14  # events per match; chosen: all pairs of a match are in memory
_ROWS = 1 << 15  # rows per write; chosen: the rows are in memory as text


def match_files(job: Job, folder: Path, bar: Bar) -> Outcome:
    """Match and write the output, which is in `folder` until it is complete."""
    files = list_data_files(job.events)
    size = sum(file.stat().st_size for file in files)
    start = time.perf_counter()
    bar.step("reading rules")
    opened = Rules.open(job.rules, job.version) if job.rules.is_dir() else None
    known = Schema({}) if opened is None else opened.schema
    events = open_events(files, job.format, job.declared, known, bar.advance)
    rules = job.read_rules(events.schema) if opened is None else opened
    matcher = _Matcher(job, rules, events.schema)
    tally = Tally()
    count = 0
    bar.step("matching", size)
    with FileWriter(folder / "whole", job.out_format, matcher.schema) as writer:
        for file in files:
            before = 0  # rows of this file that are written
            for batch in _split(events.batches(file, matcher.needed)):
                with naming_rows(functools.partial(_name_row, file, before)):
                    for rows in matcher.match(batch, tally):
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


class _Matcher:
    """Matches events, and lays out the result in the columns of the output.

    `needed` are the columns of the events that are kept or tested.
    """

    def __init__(self, job: Job, rules: Rules, events: pa.Schema):
        self._job = job
        self._rules = rules
        self._threads = thread_count(job.threads)
        rules.count(events.empty_table())  # raises if a column is missing or has a wrong type
        self._kept = _kept_columns(job.keep, events)
        self._payload = _payload_columns(rules, job.payload)
        self._added = _added_columns(rules, job)
        kept = [pa.field(name, events.field(name).type) for name in self._kept]
        self.schema = pa.schema([*kept, *self._added, *self._payload])
        _check_names(self._kept, self.schema.names)
        unfit = [f for f in self.schema if not can_be_written(f.type, job.out_format)]
        job.refuse_columns({f.name: str(f.type) for f in unfit})
        attributes = {name.lower() for name in rules.tested()}
        tested = {f.name for f in events if f.name.lower() in attributes or is_sparse(f.type)}
        self.needed = {*self._kept, *tested}

    def match(self, events: pa.RecordBatch, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the output for events, and tally their matches."""
        job, rules = self._job, self._rules
        kept = [events.column(name) for name in self._kept]
        if job.how == "count":
            counts = pa.array(rules.count(events, threads=self._threads))
            tally.add_counts(counts)
            yield self._rows([*kept, counts])
            return
        if job.k is None:
            matches = rules.match(events, threads=self._threads)
        else:
            matches = rules.top(events, job.k, threads=self._threads)
        ids = matches.ids().cast(_id_type(rules))
        tally.add_rules(ids)
        added = [ids] if matches.scores is None else [ids, pa.array(matches.scores)]
        if job.output == "lists":
            offsets = pa.array(matches.offsets, pa.int32())
            lists = zip(self._added, added, strict=True)
            yield self._rows([*kept, *(_lists(offsets, values, f) for f, values in lists)])
            return
        payload = matches.payload(self._payload)
        added += [decode(column) for column in payload.columns]
        positions = pa.array(matches.events)
        for start in range(0, len(positions), _ROWS):
            part = positions.slice(start, _ROWS)
            columns = [column.take(part) for column in kept]
            yield self._rows([*columns, *(values.slice(start, _ROWS) for values in added)])

    def _rows(self, columns: list[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _kept_columns(keep: list[str] | None, events: pa.Schema) -> list[str]:
    if keep is None:
        return list(events.names)
    known = {name.lower(): name for name in events.names}
    kept: list[str] = []
    for name in keep:
        if name.lower() not in known:
            raise EventError(
                f"keep: the events have no column {name!r}{suggest(name, events.names)}"
            )
        if known[name.lower()] in kept:
            raise RuleError(f"keep names the column {known[name.lower()]!r} twice")
        kept.append(known[name.lower()])
    return kept


def _payload_columns(rules: Rules, names: list[str]) -> pa.Schema:
    known = rules.payload_schema
    for i, name in enumerate(names):
        if name not in known.names:
            raise RuleError(
                f"the rules have no payload column {name!r}{suggest(name, known.names)}"
            )
        if name in names[:i]:
            raise RuleError(f"payload names the column {name!r} twice")
    return pa.schema([(name, decoded_type(known.field(name).type)) for name in names])


def _id_type(rules: Rules) -> pa.DataType:
    is_integer = rules.id_type is not None and t.is_integer(rules.id_type)
    return pa.int64() if is_integer else pa.string()


def _added_columns(rules: Rules, job: Job) -> list[pa.Field]:
    if job.how == "count":
        return [pa.field("matches", pa.int64(), nullable=False)]
    columns = {"rule": _id_type(rules)} | ({"score": pa.float64()} if job.how == "top" else {})
    if job.output == "rows":
        return [pa.field(name, type_, nullable=False) for name, type_ in columns.items()]
    elements = {n: pa.field("element", type_, nullable=False) for n, type_ in columns.items()}
    return [pa.field(f"{n}s", pa.list_(each), nullable=False) for n, each in elements.items()]


def _lists(offsets: pa.Array, values: pa.Array, field: pa.Field) -> pa.Array:
    return pa.ListArray.from_arrays(offsets, values, field.type)


def _check_names(kept: list[str], names: list[str]) -> None:
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if first.setdefault(name.lower(), i) < i:
            raise EventError(
                f"the kept column {name!r} has the name of a column that matching adds; rename "
                "it, or leave it out of --keep"
                if first[name.lower()] < len(kept)
                else f"the payload column {name!r} has the name of a column that matching adds"
            )
