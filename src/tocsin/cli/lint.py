"""`tocsin lint`: rules that are redundant, never or always hold, or do not fit the data."""

from __future__ import annotations

import collections
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tocsin.cli.options import LocalPath, StorePath, join_values, split_names
from tocsin.errors import ConditionWarning
from tocsin.files.paths import is_store, list_data_files
from tocsin.files.rules import open_rules

if TYPE_CHECKING:
    import pyarrow as pa


@click.command()
@click.argument("source", type=StorePath(), metavar="RULES")
@click.option(
    "--schema",
    multiple=True,
    callback=join_values,
    help="For a file: x=number,tier=category, or a file of events. Default: that of --events.",
)
@click.option(
    "--events", type=LocalPath(), help="Events, to find predicates that none can satisfy."
)
@click.option(
    "--same",
    multiple=True,
    callback=split_names,
    metavar="A,B",
    help="Payload columns in which a rule must be the same to make another one redundant.",
)
@click.option("--version", type=int, help="An older version of the store.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines instead of a table.")
def lint(
    source: Path | str,
    schema: str | None,
    events: Path | None,
    same: list[str] | None,
    version: int | None,
    as_json: bool,
) -> None:
    """Find duplicate, covered, impossible and always true rules.

    RULES is a rule store or a file of rules. Exits with code 1 if there are findings.
    """
    if events is not None and schema is None and not is_store(source):
        schema = str(events if events.is_file() else list_data_files(events)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConditionWarning)  # these are findings
        rules = open_rules(source, schema, version)
    from tocsin.cli.tested import read_tested_columns

    data = None if events is None else read_tested_columns(events, rules)
    found = rules.lint(data, same or [])
    if as_json:
        _print_json(found)
    elif len(found):
        from tocsin.cli.show import show_table

        columns = [["" if v is None else v for v in c.to_pylist()] for c in found.columns]
        # Ids are names, not counts: 1234, not 1,234.
        columns[0], columns[2] = list(map(str, columns[0])), list(map(str, columns[2]))
        show_table(found.column_names, zip(*columns, strict=True))
    click.echo(_summary(len(rules), found.column("finding").to_pylist()), err=as_json)
    if len(found):
        sys.exit(1)


def _print_json(found: pa.Table) -> None:
    from tocsin.files.formatting import to_json_lines

    for batch in found.combine_chunks().to_batches():
        click.echo(to_json_lines(found.column_names, batch.columns).to_pybytes(), nl=False)


def _summary(rules: int, findings: list[Any]) -> str:
    counts = collections.Counter(findings)
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.most_common())
    return f"{rules:,} rule{'s' * (rules != 1)}: {listed or 'no findings'}"
