"""`tocsin explain` and `tocsin plan`: why a rule matches an event, and which index holds what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tocsin.cli.files import as_id, joined, json_option, open_rules, typed


@click.command()
@click.option(
    "--rules",
    "source",
    type=click.Path(path_type=Path),
    required=True,
    help="A rule store, or a file of rules.",
)
@click.argument("id")
@json_option("--event", required=True, help="As in '{\"x\": 3}'.")
@json_option("--weights", help="The event's weights, as in '{\"x\": 0.5}'.")
@click.option("--version", type=int, help="An older version of the store.")
@click.option(
    "--schema",
    multiple=True,
    callback=joined,
    help="For a file: x=number,tier=category, or a file of events.",
)
def explain(
    source: Path,
    id: str,
    event: dict[str, Any],
    weights: dict[str, Any] | None,
    version: int | None,
    schema: str | None,
) -> None:
    """Tell why a rule matches an event, or why not, predicate by predicate."""
    rules = open_rules(source, schema, version)
    values = {name: typed(name, value, rules.schema) for name, value in event.items()}
    click.echo(str(rules.explain(values, as_id(id, rules), weights)))


@click.command()
@click.option(
    "--rules", "store", type=click.Path(path_type=Path), required=True, help="A rule store."
)
def plan(store: Path) -> None:
    """Tell which index holds which rules, and why."""
    from tocsin.engine.rules import Rules

    click.echo(str(Rules.open(store).plan()))
