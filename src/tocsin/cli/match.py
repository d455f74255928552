"""`tocsin match`: match files of events against rules, and write one file.

It runs in this process, or on Spark with `--spark`. Arguments are checked before any events are
read and before Spark starts, which takes seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tocsin.cli.options import (
    LocalPath,
    StorePath,
    index_option,
    index_options_option,
    join_values,
    split_names,
)
from tocsin.cli.output_file import check_not_input, check_out, check_rules, temporary_folder
from tocsin.engine.request import HOW, OUTPUTS, MatchRequest
from tocsin.errors import RuleError
from tocsin.files.paths import detect_format, is_store
from tocsin.files.rules import read_schema

if TYPE_CHECKING:
    from tocsin.cli.job import Outcome

_PATH = LocalPath()
_BUSIEST = 5  # rules in the summary


@click.command()
@click.option("--rules", "source", type=StorePath(), required=True, help="A rule store or a file.")
@click.option("--version", type=int, help="Version of the rule store. Default: the current one.")
@click.option("--events", type=_PATH, required=True, help="A file or a folder of files.")
@click.option("--out", type=_PATH, required=True, help="A .parquet, .csv or .jsonl file.")
@click.option(
    "--how",
    type=click.Choice(HOW),
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
    type=click.Choice(OUTPUTS),
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
    source: Path | str,
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
    try:
        request = MatchRequest(how, k, keep, output, payload=payload or ())
    except RuleError as error:
        raise click.UsageError(str(error)) from None
    if spark and threads is not None:
        raise click.UsageError("--threads is for one process; --spark uses all cores.")
    if is_store(source) and (index != "auto" or options):
        raise click.UsageError(
            "--index and --index-option are for a file of rules; a store has its own index."
        )
    if version is not None and not is_store(source):
        raise click.UsageError("--version is for a rule store; a file of rules has none.")
    check_out(out, overwrite)
    events_format = detect_format(events)
    check_rules(source)
    check_not_input(out, events, source)
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
        request=request,
        index_name=index,
        index_options=options,
        threads=threads,
    )
    if spark:
        from tocsin.cli.on_spark import import_spark, match_files

        import_spark()
    else:
        from tocsin.cli.in_process import match_files
    with temporary_folder(out) as folder, show_progress() as bar:
        outcome = match_files(job, folder, bar)
    _print_summary(outcome, out)


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
