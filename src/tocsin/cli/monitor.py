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
from click.core import ParameterSource

from tocsin.cli.options import LocalPath, StorePath, join_values, split_names
from tocsin.cli.output_file import check_not_input, check_out, check_rules, temporary_folder
from tocsin.errors import MonitorError, TocsinError, suggest
from tocsin.files.paths import FORMATS, detect_format, is_store, list_data_files
from tocsin.files.rules import read_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.cli.progress import Bar
    from tocsin.engine.version import Version

_PATH = LocalPath()
_DEFAULT = ParameterSource.DEFAULT
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
@click.option("--rules", "source", type=StorePath(), required=True, help="A rule store or a file.")
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
@click.option(
    "--state", type=_PATH, help="A folder: go on from what is saved there, and save at the end."
)
@click.pass_context
def monitor(
    context: click.Context,
    /,
    source: Path | str,
    version: int | None,
    positions: Path,
    schema: str | None,
    out: Path | None,
    overwrite: bool,
    state: Path | None,
    **options: Any,
) -> None:
    """Report what objects enter, leave and dwell in.

    Rules and positions are CSV, JSON lines or Parquet files. Rules can also be a rule store.
    Durations have a unit (s, min, h, d) if times are timestamps, and none if they are numbers.
    """
    if version is not None and not is_store(source):
        raise click.UsageError("--version is for a rule store; a file of rules has none.")
    if out is not None:
        check_out(out, overwrite)
    format = detect_format(positions)
    check_rules(source)
    if out is not None:
        check_not_input(out, positions, source)
    from tocsin.cli.progress import show_progress

    options |= {name: options[name] or () for name in ("position", "keep", "payload")}
    given = {name for name in options if context.get_parameter_source(name) is not _DEFAULT}
    start = clock.perf_counter()
    with show_progress() as bar:
        bar.step("reading rules")
        run = Run(source, version, positions, format, schema, bar)
        run.open(state, options, given)
        if out is None:
            for _ in run.events():
                pass
        else:
            _write(run, out)
        if state is not None:
            # Last, so that a run that fails can be repeated.
            bar.step("saving the state")
            run.monitor.save(state)
    _print_summary(run, clock.perf_counter() - start, out)


class Run:
    """A monitor over files of positions, and what has happened so far."""

    def __init__(
        self,
        source: Path | str,
        version: int | None,
        positions: Path,
        format: str,
        schema: str | None,
        bar: Bar,
    ):
        from tocsin.cli.job import read_rules
        from tocsin.files.events import open_events
        from tocsin.model.schema import Schema

        self._files, self._bar = list_data_files(positions), bar
        declared = read_schema(schema) if schema is not None else Schema({})
        rules, known = None, Schema({})
        self._number: int | None = None  # of the version, if the rules are from a store
        if is_store(source):
            rules, self._number = _open_store(source, version)
            known = rules.schema
        self._positions = open_events(self._files, format, declared, known, bar.advance)
        if rules is None:
            columns = self._positions.schema
            rules = read_rules(source, columns, declared, "auto", {}).snapshot()
        self._rules = rules
        self.first: list[pa.Table] = []  # the events that are listed
        self.counts: Counter[str] = Counter()  # of events, by kind
        self.rejected: Counter[str] = Counter()  # of rows, by reason

    def open(self, state: Path | None, options: dict[str, Any], given: set[str]) -> None:
        """Begin with a new monitor, or with a saved one whose options are those that are given."""
        from tocsin.moving.monitor import Monitor
        from tocsin.moving.options import MonitorOptions

        is_new = (
            state is None or not state.exists() or (state.is_dir() and not any(state.iterdir()))
        )
        if state is not None and not is_new:
            self.monitor = Monitor.open(state, self._rules)
            _check_options(self.monitor.options, MonitorOptions(**options), given, state)
        else:
            self.monitor = Monitor(self._rules, **options)
        self._before = self.monitor.counters
        columns, options = self._positions.schema, vars(self.monitor.options)
        _check_columns(columns, options["time"], options["removed"])
        self._columns = _needed_columns(self._rules, columns, options, state is not None)
        # Rules may have changed since the state was saved; and these are the types of events.
        self._changes = self.monitor.update(columns.empty_table())
        self.schema = self._changes.schema

    def counter(self, name: str) -> int:
        """Return a counter of the monitor, without what was counted before this run."""
        return int(self.monitor.counters[name] - self._before[name])

    def events(self) -> Iterator[pa.Table]:
        """Yield the events of each block of positions."""
        import pyarrow as pa

        self._bar.step("watching", sum(file.stat().st_size for file in self._files))
        self._count(self._changes)
        yield self._changes
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


def _open_store(source: Path | str, version: int | None) -> tuple[Version, int]:
    from tocsin.engine.store_folder import StoreFolder

    rules, origin = StoreFolder(source).open(version)
    return rules, origin.version


def _check_options(saved: Any, now: Any, given: set[str], state: Path) -> None:
    """Raise if an option that is given differs from the saved one."""
    was, is_ = (vars(options) | options.describe() for options in (saved, now))
    for name in sorted(given):
        if was[name] != is_[name]:
            raise MonitorError(
                f"the state in {state} was saved with {name} = {getattr(saved, name)!r}, but now "
                f"it is {getattr(now, name)!r}; give what was saved, or another folder"
            )


def _check_columns(columns: pa.Schema, name: str, removed: str | None) -> None:
    """Raise if the column of times was read as something else, or that of flags is missing."""
    import pyarrow.types as t

    if removed is not None and removed.lower() not in map(str.lower, columns.names):
        raise MonitorError(
            f"removed: the positions have no column {removed!r}{suggest(removed, columns.names)}"
        )

    for field in columns:
        is_time = (
            t.is_timestamp(field.type) or t.is_integer(field.type) or t.is_floating(field.type)
        )
        if field.name.lower() == name.lower() and not is_time:
            raise MonitorError(
                f"the times in column {field.name!r} were read as {field.type}; give --schema "
                f"{field.name}=time to read them as times"
            )


def _needed_columns(
    rules: Version, columns: pa.Schema, options: dict[str, Any], all_of_schema: bool
) -> set[str]:
    """Return the columns to read; warn of those that rules test and that are not there.

    A state has all columns of the schema: rules of a later run may test any of them.
    """
    from tocsin.engine.result import tested_columns

    own = [options["key"], options["time"], options["removed"], *options["keep"]]
    if all_of_schema:
        own += [*rules.schema, *rules.schema.nested_names()]
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

    rows, events = run.counter("rows"), run.counter("events")
    if out is None and run.first:
        _show_events(run)
        hidden = events - sum(map(len, run.first))
        if hidden:
            click.echo(f"... and {_count(hidden, 'more event')}; --out writes all")
    click.echo(
        f"{_count(rows, 'position')}, {_count(events, 'event')} "
        f"in {seconds:.1f} s ({rows / seconds:,.0f} positions per second), "
        f"{_count(len(run.monitor), 'object')}" + ("" if out is None else f": {out}")
    )
    if run.counts:
        show_table(["event", "count"], [(e, run.counts[e]) for e in _EVENTS if run.counts[e]])
    ignored = [(_LATE, run.counter("late")), (_DOUBLED, run.counter("doubled"))]
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
