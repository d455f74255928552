"""`tocsin match`: match files of events against rules, and write one file.

It runs in this process, or on Spark with `--spark`. Arguments are checked before any events are
read and before Spark starts, which takes seconds.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tocsin.cli.options import (
    LocalPath,
    index_option,
    index_options_option,
    join_values,
    split_names,
)
from tocsin.errors import TocsinError
from tocsin.files.paths import detect_format
from tocsin.files.rules import read_schema

if TYPE_CHECKING:
    from tocsin.cli.job import Outcome

_PATH = LocalPath()
_OUT_SUFFIXES = (".parquet", ".csv", ".jsonl")
_BUSIEST = 5  # rules in the summary


@click.command()
@click.option("--rules", "source", type=_PATH, required=True, help="A rule store or a file.")
@click.option("--version", type=int, help="Version of the rule store. Default: the current one.")
@click.option("--events", type=_PATH, required=True, help="A file or a folder of files.")
@click.option("--out", type=_PATH, required=True, help="A .parquet, .csv or .jsonl file.")
@click.option(
    "--how",
    type=click.Choice(["all", "top", "count"]),
    default="all",
    show_default=True,
    help="All matches of each event, its k best ones, or their number.",
)
@click.option(
    "--k", type=click.IntRange(min=1), help="With --how top: the number of matches per event."
)
@click.option(
    "--keep",
    multiple=True,
    callback=split_names,
    metavar="A,B",
    help="Columns of the events to keep. Default: all.",
)
@click.option(
    "--output",
    type=click.Choice(["rows", "lists"]),
    default="rows",
    show_default=True,
    help="A row per match, or a row per event with a list of its rules.",
)
@click.option(
    "--payload",
    multiple=True,
    callback=split_names,
    metavar="A,B",
    help="Payload columns of the rules to add.",
)
@click.option(
    "--schema",
    multiple=True,
    callback=join_values,
    help="Kinds of event columns that should not be inferred: x=number,code=category.",
)
@index_option
@index_options_option
@click.option("--overwrite", is_flag=True, help="Replace the output file if it exists.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Number of threads. Default: $TOCSIN_THREADS, or one per core.",
)
@click.option("--spark", is_flag=True, help="Use a local Spark session with all cores.")
def match(
    source: Path,
    version: int | None,
    events: Path,
    out: Path,
    how: str,
    k: int | None,
    keep: list[str] | None,
    output: str,
    payload: list[str] | None,
    schema: str | None,
    index: str,
    options: dict[str, Any],
    overwrite: bool,
    threads: int | None,
    spark: bool,
) -> None:
    """Find the rules that events satisfy.

    Rules and events are CSV, JSON lines or Parquet files. Rules can also be a rule store.
    """
    if (how == "top") != (k is not None):
        raise click.UsageError("--how top and --k go together.")
    if payload and (how == "count" or output == "lists"):
        raise click.UsageError("--payload needs a row per match: --output rows.")
    if spark and threads is not None:
        raise click.UsageError("--threads is for one process; --spark uses all cores.")
    if source.is_dir() and (index != "auto" or options):
        raise click.UsageError(
            "--index and --index-option are for a file of rules; a store has its own index."
        )
    if version is not None and not source.is_dir():
        raise click.UsageError("--version is for a rule store; a file of rules has none.")
    _check_out(out, overwrite)
    events_format = detect_format(events)
    _check_rules(source)
    _check_not_input(out, events, source)
    from tocsin.cli.job import Job
    from tocsin.cli.progress import show_progress
    from tocsin.model.schema import Schema

    declared = read_schema(schema) if schema is not None else Schema({})
    job = Job(
        rules=source,
        version=version,
        events=events,
        format=events_format,
        declared=declared,
        out=out,
        how=how,
        k=k,
        keep=keep,
        output=output,
        payload=payload or [],
        index_name=index,
        index_options=options,
        threads=threads,
    )
    if spark:
        from tocsin.cli.on_spark import import_spark, match_files

        import_spark()
    else:
        from tocsin.cli.in_process import match_files
    with _temporary_folder(out) as folder, show_progress() as bar:
        outcome = match_files(job, folder, bar)
    _print_summary(outcome, out)


@contextlib.contextmanager
def _temporary_folder(out: Path) -> Iterator[Path]:
    """Yield a folder next to the output and remove it; system errors about it become ours."""
    try:
        with (
            _exit_when_ended(),
            tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder,
        ):
            yield Path(folder)
    except OSError as error:
        if error.filename is not None and f".{out.name}." not in str(error.filename):
            raise  # about another file
        raise TocsinError(f"{out} cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def _exit_when_ended() -> Iterator[None]:
    """Exit if SIGTERM or SIGHUP ends the process, which otherwise would not remove its folder."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # Python allows it only there
    for number in numbers:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


# ------------------------------------------------------------ checks


def _check_out(out: Path, overwrite: bool) -> None:
    if out.suffix not in _OUT_SUFFIXES:
        raise TocsinError(f"{out}: the name of the output must end in {', '.join(_OUT_SUFFIXES)}")
    if out.is_dir():
        raise TocsinError(f"{out} is a folder; the output must be a file")
    if out.exists() and not overwrite:
        raise TocsinError(f"{out} exists already; --overwrite replaces it")
    if not out.parent.is_dir():
        raise TocsinError(f"{out}: there is no folder {out.parent}")


def _check_not_input(out: Path, *inputs: Path) -> None:
    """Raise if the output would replace an input."""
    for each in inputs:
        if out.exists() and (out.samefile(each) or each in out.parents):
            raise TocsinError(f"{out} is an input, so it cannot be the output; name another file")


def _check_rules(source: Path) -> None:
    if source.is_dir():
        from tocsin.engine.store import RuleStore

        RuleStore(source)
    else:
        detect_format(source)


# ------------------------------------------------------------ summary


def _print_summary(outcome: Outcome, out: Path) -> None:
    from tocsin.cli.show import show_table

    rate = outcome.events / outcome.seconds
    click.echo(
        f"{_count(outcome.events, 'event')}, {_count(outcome.matches, 'match', 'es')} "
        f"in {outcome.seconds:.1f} s "
        f"({rate:,.{0 if rate >= 10 else 1}f} events per second): {out}"
    )
    busiest = outcome.by_rule.most_common(_BUSIEST)
    if busiest:
        show_table(["busiest rules", "matches"], [(str(rule), n) for rule, n in busiest])


def _count(n: int, noun: str, plural: str = "s") -> str:
    return f"{n:,} {noun}{plural * (n != 1)}"
