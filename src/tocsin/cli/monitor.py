"""`tocsin monitor`: run a file of positions through a monitor, and list what happened.

The file is read in blocks, in its order. Each block is an update, so its rows may be in any order;
a row that is older than one of its object in an earlier block is late, and is counted.
"""

from __future__ import annotations

import contextlib
import os
import time as clock
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tocsin.cli.options import LocalPath, join_values, split_names
from tocsin.cli.output_file import check_not_input, check_out, check_rules, temporary_folder
from tocsin.errors import MonitorError, TocsinError
from tocsin.files.paths import FORMATS, detect_format, list_data_files
from tocsin.files.rules import read_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.cli.progress import Bar
    from tocsin.engine.version import Version

_PATH = LocalPath()
_ROWS = 1 << 16  # positions of an update; chosen: larger ones are not faster
_SHOWN = 20  # events that are listed
_EVENTS = ("enter", "leave", "dwell", "lost")
_LATE = "late: there is a newer row of the same object before it; sort the positions by time"
_DOUBLED = "doubled: there is another row of the same object and time"


def _number_or_text(ctx: Any, param: Any, value: str | None) -> Any:
    """Return a duration or a margin: a number if the text is one."""
    for kind in (int, float):
        with contextlib.suppress(TypeError, ValueError):
            return kind(value)  # type: ignore[arg-type]
    return value


def _duration(name: str, help: str) -> Callable[[Any], Any]:
    return click.option(name, callback=_number_or_text, metavar="DURATION", help=help)


@click.command()
@click.option("--rules", "source", type=_PATH, required=True, help="A rule store or a file.")
@click.option("--version", type=int, help="Version of the rule store. Default: the current one.")
@click.option("--positions", type=_PATH, required=True, help="A file or a folder of files.")
@click.option("--key", default="object", show_default=True, help="The column of objects.")
@click.option("--time", default="t", show_default=True, help="The column of times.")
@click.option(
    "--position",
    multiple=True,
    default=("x", "y"),
    callback=split_names,
    metavar="X,Y",
    help="Columns that are coordinates. Default: x,y.",
)
@_duration("--dwell", 'Report who is inside for so long, as in "15 min"; or a payload column.')
@click.option(
    "--margin",
    callback=_number_or_text,
    default="0",
    metavar="DISTANCE",
    help="How far beyond an edge an object may go without leaving; or a payload column.",
)
@_duration("--min-stay", "How long an object is inside before it enters.")
@_duration("--min-away", "How long an object is outside before it leaves.")
@_duration("--lost-after", "How long an object is silent before it is lost.")
@_duration("--delay", "How much later than others positions may come.")
@click.option("--removed", metavar="COLUMN", help="A column of flags: true removes the object.")
@click.option(
    "--keep",
    multiple=True,
    callback=split_names,
    metavar="A,B",
    help="Columns of the positions that events carry.",
)
@click.option(
    "--payload",
    multiple=True,
    callback=split_names,
    metavar="A,B",
    help="Payload columns of the rules that events carry.",
)
@click.option(
    "--schema",
    multiple=True,
    callback=join_values,
    help="Kinds of columns that should not be inferred: t=time,code=category.",
)
@click.option(
    "--out",
    "--output",
    type=_PATH,
    help="A .parquet, .csv or .jsonl file for the events. Default: the first ones are listed.",
)
@click.option("--overwrite", is_flag=True, help="Replace the output file if it exists.")
def monitor(
    source: Path,
    version: int | None,
    positions: Path,
    schema: str | None,
    out: Path | None,
    overwrite: bool,
    **options: Any,
) -> None:
    """Report what objects enter, leave and dwell in.

    Rules and positions are CSV, JSON lines or Parquet files. Rules can also be a rule store.
    Durations have a unit (s, min, h, d) if times are timestamps, and none if they are numbers.
    """
    if version is not None and not source.is_dir():
        raise click.UsageError("--version is for a rule store; a file of rules has none.")
    if out is not None:
        check_out(out, overwrite)
    format = detect_format(positions)
    check_rules(source)
    if out is not None:
        check_not_input(out, positions, source)
    from tocsin.cli.progress import show_progress

    columns = {name: options.pop(name) or () for name in ("position", "keep", "payload")}
    start = clock.perf_counter()
    with show_progress() as bar:
        bar.step("reading rules")
        run = Run(source, version, positions, format, schema, options | columns, bar)
        if out is None:
            for _ in run.events():
                pass
        else:
            _write(run, out)
    _print_summary(run, clock.perf_counter() - start, out)


class Run:
    """A monitor over files of positions, and what has happened so far."""

    def __init__(
        self,
        source: Path,
        version: int | None,
        positions: Path,
        format: str,
        schema: str | None,
        options: dict[str, Any],
        bar: Bar,
    ):
        from tocsin.files.events import open_events
        from tocsin.model.schema import Schema
        from tocsin.moving.monitor import Monitor

        self._files, self._bar = list_data_files(positions), bar
        declared = read_schema(schema) if schema is not None else Schema({})
        rules, known = None, Schema({})
        self._number: int | None = None  # of the version, if the rules are from a store
        if source.is_dir():
            rules, self._number = _open_store(source, version)
            known = rules.schema
        self._positions = open_events(self._files, format, declared, known, bar.advance)
        columns = self._positions.schema
        _check_times(columns, options["time"])
        if rules is None:
            from tocsin.cli.job import read_rules

            rules = read_rules(source, columns, declared, "auto", {}).snapshot()
        self._columns = _needed_columns(rules, columns, options)
        self.monitor = Monitor(rules, **options)
        # The types of events are known before the first one; and columns that are not there.
        self.schema = self.monitor.update(columns.empty_table()).schema
        self.first: list[pa.Table] = []  # the events that are listed
        self.counts: Counter[str] = Counter()  # of events, by kind
        self.rejected: Counter[str] = Counter()  # of rows, by reason

    def events(self) -> Iterator[pa.Table]:
        """Yield the events of each block of positions."""
        import pyarrow as pa

        self._bar.step("watching", sum(file.stat().st_size for file in self._files))
        for file in self._files:
            for batch in self._positions.batches(file, self._columns):
                for first in range(0, batch.num_rows, _ROWS):
                    rows = batch.slice(first, _ROWS)
                    events = self.monitor.update(pa.Table.from_batches([rows]))
                    self._count(events)
                    yield events

    def _count(self, events: pa.Table) -> None:
        import pyarrow as pa

        self.rejected.update(self.monitor.rejected.column("reason").to_pylist())
        for pair in events.column("event").value_counts().to_pylist():
            self.counts[pair["values"]] += pair["counts"]
        room = _SHOWN - sum(table.num_rows for table in self.first)
        if room and len(events):
            # A copy, because a slice would keep all events in memory.
            self.first.append(events.take(pa.array(range(min(room, len(events))))))

    def numbered(self, events: pa.Table) -> pa.Table:
        """Return events with the version of the store, if the rules are from one."""
        import pyarrow as pa

        if self._number is None:
            return events
        number = pa.array([self._number] * len(events), pa.int64())
        place = events.schema.get_field_index("rules_version")
        return events.set_column(place, "rules_version", number)


def _open_store(source: Path, version: int | None) -> tuple[Version, int]:
    from tocsin.engine.store_folder import StoreFolder

    rules, origin = StoreFolder(source).open(version)
    return rules, origin.version


def _check_times(columns: pa.Schema, name: str) -> None:
    """Raise if the column of times was read as something else."""
    import pyarrow.types as t

    for field in columns:
        is_time = (
            t.is_timestamp(field.type) or t.is_integer(field.type) or t.is_floating(field.type)
        )
        if field.name.lower() == name.lower() and not is_time:
            raise MonitorError(
                f"the times in column {field.name!r} were read as {field.type}; give --schema "
                f"{field.name}=time to read them as times"
            )


def _needed_columns(rules: Version, columns: pa.Schema, options: dict[str, Any]) -> set[str]:
    """Return the columns to read; warn of those that rules test and that are not there."""
    from tocsin.engine.result import tested_columns

    own = [options["key"], options["time"], options["removed"], *options["keep"]]
    wanted = {name.lower() for name in own if name is not None}
    present = tested_columns(rules, columns)
    missing = {name.lower() for name in rules.tested()} - {name.lower() for name in present}
    if missing:
        names = ", ".join(sorted(missing))
        click.echo(f"warning: the positions lack {names}, which rules test: null there", err=True)
    return {field.name for field in columns if field.name.lower() in wanted} | present


def _write(run: Run, out: Path) -> None:
    """Write all events to a file."""
    from tocsin.files.writer import FileWriter, can_be_written

    format = FORMATS[out.suffix]
    for field in run.schema:
        if not can_be_written(field.type, format):
            raise TocsinError(
                f"{out}: CSV cannot hold column {field.name!r}, which is of type {field.type}; "
                "write .jsonl or .parquet"
            )
    with temporary_folder(out) as folder:
        with FileWriter(folder / "whole", format, run.schema) as writer:
            for events in run.events():
                for batch in run.numbered(events).cast(run.schema).to_batches():
                    writer.write(batch)
        os.replace(folder / "whole", out)


# ------------------------------------------------------------ summary


def _print_summary(run: Run, seconds: float, out: Path | None) -> None:
    from tocsin.cli.show import show_table

    counters = run.monitor.counters
    if out is None and run.first:
        _show_events(run)
        hidden = counters["events"] - sum(map(len, run.first))
        if hidden:
            click.echo(f"... and {_count(hidden, 'more event')}; --out writes all")
    click.echo(
        f"{_count(counters['rows'], 'position')} of {_count(counters['objects'], 'object')}, "
        f"{_count(counters['events'], 'event')} "
        f"in {seconds:.1f} s ({counters['rows'] / seconds:,.0f} positions per second)"
        + ("" if out is None else f": {out}")
    )
    if run.counts:
        show_table(["event", "count"], [(e, run.counts[e]) for e in _EVENTS if run.counts[e]])
    ignored = [(_LATE, counters["late"]), (_DOUBLED, counters["doubled"])]
    ignored += [(f"rejected: {reason}", n) for reason, n in run.rejected.most_common()]
    ignored = [line for line in ignored if line[1]]
    if ignored:
        show_table(["positions without effect", "rows"], ignored)


def _show_events(run: Run) -> None:
    """Print the first events, without columns that are null in all of them."""
    import pyarrow as pa

    from tocsin.cli.show import show_table

    events = run.numbered(pa.concat_tables(run.first))
    shown = [name for name in events.column_names if events.column(name).null_count < len(events)]
    columns = [_texts(events.column(name).combine_chunks()) for name in shown]
    show_table(shown, zip(*columns, strict=True))


def _texts(column: pa.Array) -> list[str]:
    import pyarrow.compute as pc
    import pyarrow.types as t

    from tocsin.files.formatting import to_texts

    if t.is_nested(column.type):
        return ["" if value is None else str(value) for value in column.to_pylist()]
    texts = to_texts(column)
    if t.is_timestamp(column.type):
        texts = pc.replace_substring_regex(texts, r"\.0+(Z?)$", r"\1")
    return ["" if text is None else text for text in texts.to_pylist()]


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"
