"""`tocsin explain` and `tocsin plan`: why a rule matches an event, and which index holds what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tocsin.cli.options import StorePath, join_values, json_option
from tocsin.errors import suggest
from tocsin.files.paths import naming_rows
from tocsin.files.rules import open_rules, parse_id

_RULES = click.option(
    "--rules", "source", type=StorePath(), required=True, help="A rule store, or a file of rules."
)
_SCHEMA = click.option(
    "--schema",
    multiple=True,
    callback=join_values,
    help="For a file: x=number,tier=category, or a file of events.",
)


@click.command()
@_RULES
@click.argument("id")
@json_option("--event", required=True, help="The event, as in '{\"x\": 3}'.")
@json_option("--weights", help="The event's weights, as in '{\"x\": 0.5}'.")
@click.option("--version", type=int, help="An older version of the store.")
@_SCHEMA
def explain(
    source: Path | str,
    id: str,
    event: dict[str, Any],
    weights: dict[str, Any] | None,
    version: int | None,
    schema: str | None,
) -> None:
    """Show why a rule matches an event or not, predicate by predicate."""
    from tocsin.model.json_values import parse_value

    rules = open_rules(source, schema, version)
    for name in event:
        if name.lower() not in rules.schema.sources():
            hint = suggest(name, rules.schema)
            click.echo(f"attribute {name!r} is not in the schema{hint}", err=True)
    values = {name: parse_value(name, value, rules.schema) for name, value in event.items()}
    with naming_rows(lambda row: "the event"):
        explanation = rules.explain(values, parse_id(id, rules), weights)
    click.echo(str(explanation))


@click.command()
@_RULES
@_SCHEMA
def plan(source: Path | str, schema: str | None) -> None:
    """Show which index holds which rules, and why."""
    click.echo(str(open_rules(source, schema).plan()))
