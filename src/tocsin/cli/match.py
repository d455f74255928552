"""`tocsin match`: files of events against rules, on a local Spark, into one file.

What can be known to be wrong is told before Spark starts, which takes seconds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tocsin.cli.files import FORMATS, add_file, format_of, names, read_schema
from tocsin.errors import EventError, TocsinError

if TYPE_CHECKING:
    from tocsin.cli.output import Tally
    from tocsin.engine.rules import Rules
    from tocsin.model.schema import Schema

_PATH = click.Path(path_type=Path)
_OUT = (".parquet", ".csv", ".jsonl")
_BUSIEST = 5


@click.command()
@click.option("--rules", "source", type=_PATH, required=True, help="A rule store, or a file.")
@click.option("--events", type=_PATH, required=True, help="A file, or a folder of files.")
@click.option("--out", type=_PATH, required=True, help="A file: .parquet, .csv or .jsonl.")
@click.option(
    "--how",
    type=click.Choice(["all", "top", "count"]),
    default="all",
    show_default=True,
    help="All matches, the k most relevant of each event, or how many.",
)
@click.option("--k", type=click.IntRange(min=1), help="For --how top: how many of each event.")
@click.option("--keep", callback=names, metavar="A,B", help="Which columns of events; all if not.")
@click.option(
    "--output",
    type=click.Choice(["rows", "lists"]),
    default="rows",
    show_default=True,
    help="A row for each match, or one for each event with a list of its rules.",
)
@click.option("--payload", callback=names, metavar="A,B", help="Columns of the rules to add.")
@click.option(
    "--schema",
    help="What columns of events are, where it should not be guessed: x=number,code=category.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT if it is there.")
def match(
    source: Path,
    events: Path,
    out: Path,
    how: str,
    k: int | None,
    keep: list[str] | None,
    output: str,
    payload: list[str] | None,
    schema: str | None,
    overwrite: bool,
) -> None:
    """Find the rules that events satisfy.

    Rules and events are CSV, JSON lines or Parquet, by suffix; rules may also be a rule store.
    """
    if (how == "top") != (k is not None):
        raise click.UsageError("--how top and --k go together.")
    if payload and (how == "count" or output == "lists"):
        raise click.UsageError("--payload goes with a row for each match: --output rows.")
    from tocsin.cli.output import join_parts, tally
    from tocsin.cli.progress import shown
    from tocsin.model.schema import Schema

    out_format = _checked_out(out, overwrite)
    events_format = format_of(events)
    _check_rules(source)
    declared = read_schema(schema) if schema is not None else Schema({})
    tocsin_spark = _imported()
    files = tocsin_spark.files
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
        log, parts = Path(folder) / "spark.log", Path(folder) / "parts"
        with shown(log) as say:
            say("starting Spark")
            spark = _session(tocsin_spark, log)
            start = time.perf_counter()
            say("reading events")
            frame = files.read_files(spark, events, events_format, declared)
            rules = source if source.is_dir() else _rules_of(source, frame.schema, declared)
            frame, rows = files.counted(frame)
            found = tocsin_spark.match(
                frame, rules, how=how, k=k, keep=keep, output=output, payload=payload or ()
            )
            if out_format == "csv":
                _check_flat(files.nested(found), out)
            say("matching")
            files.write_files(found, parts, out_format)
            say(f"writing {out.name}")
            join_parts(parts, out_format, found.columns, out)
            seconds = time.perf_counter() - start
            column = "matches" if how == "count" else "rule" if output == "rows" else "rules"
            tallied = tally(parts, out_format, found.columns, column, dict(found.dtypes)[column])
    _summarize(rows.get["rows"], tallied, seconds, out)


# ------------------------------------------------------------ before


def _checked_out(out: Path, overwrite: bool) -> str:
    if out.suffix not in _OUT:
        raise TocsinError(f"{out}: the output's name must end in {', '.join(_OUT)}")
    if out.is_dir():
        raise TocsinError(f"{out} is a folder; the output is one file")
    if out.exists() and not overwrite:
        raise TocsinError(f"{out} exists already; --overwrite replaces it")
    if not out.parent.is_dir():
        raise TocsinError(f"{out}: there is no folder {out.parent}")
    return FORMATS[out.suffix]


def _check_rules(source: Path) -> None:
    if source.is_dir():
        from tocsin.engine.store import RuleStore

        RuleStore(source)
    else:
        format_of(source)


def _imported() -> Any:
    try:
        import tocsin.spark.files
    except ModuleNotFoundError as error:
        raise TocsinError(
            f"tocsin match runs on Spark, and {error.name} is not installed; "
            "pip install 'tocsin[spark]'"
        ) from None
    return tocsin.spark


def _session(tocsin_spark: Any, log: Path) -> Any:
    from tocsin.cli.progress import stderr_into

    settings = {
        # Errors come as exceptions; the log would say them again, as pages of Java.
        "spark.log.level": "OFF",
        # Small tasks: the bar moves, and the last core does not keep the others waiting.
        "spark.sql.files.maxPartitionBytes": "8m",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
    }
    try:
        with stderr_into(log), tocsin_spark.files.telling("Spark did not start"):
            spark = tocsin_spark.session(config=settings)
            for name, value in tocsin_spark.files.SETTINGS.items():
                spark.conf.set(name, value)  # also where a session was running already
            return spark
    except TocsinError as error:
        said = log.read_text(errors="replace").strip().splitlines()[-3:]
        raise TocsinError("\n  ".join([f"{error}; it needs Java 17 or newer", *said])) from None


def _rules_of(source: Path, columns: Any, declared: Schema) -> Rules:
    """Return the rules of a file over the events' columns, and what their maps are to hold."""
    from tocsin.engine.rules import Rules
    from tocsin.model.schema import Schema

    schema = Schema(columns)
    for name in declared:
        if name not in schema:
            schema.add(name, declared.kind(name))
    rules = Rules(schema)
    add_file(rules, source)
    return rules


def _check_flat(columns: dict[str, str], out: Path) -> None:
    for name, type_ in columns.items():
        raise EventError(
            f"{out}: CSV cannot hold column {name!r}, which is of type {type_}; write .jsonl or "
            ".parquet, or leave it out (--keep names the events' columns to keep, --output rows "
            "gives no lists)"
        )


# ------------------------------------------------------------ after


def _summarize(events: int, tallied: Tally, seconds: float, out: Path) -> None:
    from tocsin.cli.show import show_table

    rate = events / seconds
    click.echo(
        f"{_counted(events, 'event')}, {_counted(tallied.matches, 'match', 'es')} "
        f"in {seconds:.1f} s "
        f"({rate:,.{0 if rate >= 10 else 1}f} events a second): {out}"
    )
    busiest = tallied.by_rule.most_common(_BUSIEST)
    if busiest:
        show_table(["busiest rules", "matches"], [(str(rule), n) for rule, n in busiest])


def _counted(n: int, what: str, plural: str = "s") -> str:
    return f"{n:,} {what}{plural * (n != 1)}"
