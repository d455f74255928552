"""`tocsin match`: files of events against rules, into one file.

In this process, or on Spark with `--spark`. Whatever can be checked beforehand is checked before
anything is read or Spark starts, which takes seconds.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tocsin.cli.files import format_of, joined, names, read_schema
from tocsin.errors import TocsinError

if TYPE_CHECKING:
    from tocsin.cli.job import Outcome

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
@click.option(
    "--keep",
    multiple=True,
    callback=names,
    metavar="A,B",
    help="Event columns to keep. Default: all.",
)
@click.option(
    "--output",
    type=click.Choice(["rows", "lists"]),
    default="rows",
    show_default=True,
    help="A row for each match, or one for each event with a list of its rules.",
)
@click.option(
    "--payload", multiple=True, callback=names, metavar="A,B", help="Columns of the rules to add."
)
@click.option(
    "--schema",
    multiple=True,
    callback=joined,
    help="Kinds of event columns, instead of the inferred ones: x=number,code=category.",
)
@click.option("--overwrite", is_flag=True, help="Replace the output file if it exists.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="How many threads match. Default: $TOCSIN_THREADS, or one for each core.",
)
@click.option("--spark", is_flag=True, help="Use a local Spark session with all cores.")
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
    threads: int | None,
    spark: bool,
) -> None:
    """Find the rules that events satisfy.

    Rules and events are CSV, JSON lines or Parquet, by suffix; rules may also be a rule store.
    """
    if (how == "top") != (k is not None):
        raise click.UsageError("--how top and --k go together.")
    if payload and (how == "count" or output == "lists"):
        raise click.UsageError("--payload goes with a row for each match: --output rows.")
    if spark and threads is not None:
        raise click.UsageError("--threads is for one process; --spark uses all cores.")
    _check_out(out, overwrite)
    events_format = format_of(events)
    _check_rules(source)
    _check_apart(out, events, source)
    from tocsin.cli.job import Job
    from tocsin.cli.progress import shown
    from tocsin.model.schema import Schema

    declared = read_schema(schema) if schema is not None else Schema({})
    job = Job(
        rules=source,
        events=events,
        format=events_format,
        declared=declared,
        out=out,
        how=how,
        k=k,
        keep=keep,
        output=output,
        payload=payload or [],
        threads=threads,
    )
    if spark:
        from tocsin.cli.on_spark import import_spark, match_files

        import_spark()
    else:
        from tocsin.cli.in_process import match_files
    with _writing(out) as folder, shown() as bar:
        outcome = match_files(job, folder, bar)
    _summarize(outcome, out)


@contextlib.contextmanager
def _writing(out: Path) -> Iterator[Path]:
    """Give a folder beside the output, which is gone afterwards; what the system says is ours."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
            yield Path(folder)
    except OSError as error:
        if error.filename is not None and f".{out.name}." not in str(error.filename):
            raise  # about another file
        raise TocsinError(f"{out} cannot be written: {error.strerror or error}") from None


# ------------------------------------------------------------ before


def _check_out(out: Path, overwrite: bool) -> None:
    if out.suffix not in _OUT:
        raise TocsinError(f"{out}: the output's name must end in {', '.join(_OUT)}")
    if out.is_dir():
        raise TocsinError(f"{out} is a folder; the output is one file")
    if out.exists() and not overwrite:
        raise TocsinError(f"{out} exists already; --overwrite replaces it")
    if not out.parent.is_dir():
        raise TocsinError(f"{out}: there is no folder {out.parent}")


def _check_apart(out: Path, *inputs: Path) -> None:
    """Raise if the output would replace what is read."""
    for each in inputs:
        if out.exists() and (out.samefile(each) or each in out.parents):
            raise TocsinError(f"{out} is read from, so it cannot be the output; name another file")


def _check_rules(source: Path) -> None:
    if source.is_dir():
        from tocsin.engine.store import RuleStore

        RuleStore(source)
    else:
        format_of(source)


# ------------------------------------------------------------ after


def _summarize(outcome: Outcome, out: Path) -> None:
    from tocsin.cli.show import show_table

    rate = outcome.events / outcome.seconds
    click.echo(
        f"{_counted(outcome.events, 'event')}, {_counted(outcome.matches, 'match', 'es')} "
        f"in {outcome.seconds:.1f} s "
        f"({rate:,.{0 if rate >= 10 else 1}f} events a second): {out}"
    )
    busiest = outcome.by_rule.most_common(_BUSIEST)
    if busiest:
        show_table(["busiest rules", "matches"], [(str(rule), n) for rule, n in busiest])


def _counted(n: int, what: str, plural: str = "s") -> str:
    return f"{n:,} {what}{plural * (n != 1)}"
