"""`tocsin rules`: create, change and inspect a rule store; every change publishes a version."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tocsin.cli.files import add_file, parse_id, read_schema
from tocsin.cli.options import (
    LocalPath,
    index_option,
    index_options_option,
    join_values,
    json_option,
)

if TYPE_CHECKING:
    from tocsin.engine.rules import Rules

_STORE = click.argument("store", type=LocalPath())
_VERSION = click.option("--version", type=int, help="Version to read. Default: the current one.")
_WEIGHTS = json_option("--weights", help="Weights of attributes, as in '{\"x\": 0.4}'.")
_PAYLOAD = json_option("--payload", help='Your own data about the rule, as in \'{"team": "red"}\'.')
_AT_LEAST = click.option(
    "--at-least",
    type=float,
    help="Probability with which an event must satisfy the rule, if its values are uncertain.",
)


@click.group()
def rules() -> None:
    """Create, change and inspect a rule store.

    A store is a folder. Every change publishes a numbered version. Streams that use the store pick
    it up in their next micro-batch.
    """


# ------------------------------------------------------------ change


@rules.command()
@_STORE
@click.option(
    "--schema",
    required=True,
    multiple=True,
    callback=join_values,
    help="Attributes and their kinds (number, integer, category, flag, time), as in "
    "x=number,tier=category, or a file of events whose columns they are.",
)
@click.option("--rules", "source", type=LocalPath(), help="A file of rules to add.")
@index_option
@index_options_option
def create(
    store: Path, schema: str, source: Path | None, index: str, options: dict[str, Any]
) -> None:
    """Create a store that is empty or has the rules of a file."""
    from tocsin.engine.rules import Rules
    from tocsin.engine.store_folder import StoreFolder
    from tocsin.errors import StoreError

    if StoreFolder(store).numbers():
        raise StoreError(f"a rule store already exists at {store}")
    new_rules = Rules(read_schema(schema), index, options)
    if source is not None:
        add_file(new_rules, source)
    click.echo(f"version {new_rules.save(store)}: {_count_rules(len(new_rules))}")


@rules.command()
@_STORE
@click.argument("id", required=False)
@click.argument("where", required=False)
@_WEIGHTS
@_PAYLOAD
@_AT_LEAST
@click.option("--from", "source", type=LocalPath(), help="Add all rules of a file.")
def add(
    store: Path,
    id: str | None,
    where: str | None,
    weights: dict[str, float] | None,
    payload: dict[str, Any] | None,
    at_least: float | None,
    source: Path | None,
) -> None:
    """Add a rule, or all rules of a CSV, JSON lines or Parquet file.

    WHERE is a condition, as in "x BETWEEN 3 AND 8 AND tier = 'gold'".
    """
    if source is not None:
        if any(given is not None for given in (id, weights, payload, at_least)):
            raise click.UsageError(
                "--from FILE excludes ID, WHERE, --weights, --payload and --at-least."
            )
        _publish(store, lambda rules: add_file(rules, source))
    elif id is None or where is None:
        raise click.UsageError("Give ID and WHERE, or --from FILE.")
    else:
        _publish(
            store, lambda rules: rules.add(parse_id(id, rules), where, weights, payload, at_least)
        )


@rules.command()
@_STORE
@click.argument("id")
@click.argument("where")
@_WEIGHTS
@_PAYLOAD
@_AT_LEAST
def replace(
    store: Path,
    id: str,
    where: str,
    weights: dict[str, float] | None,
    payload: dict[str, Any] | None,
    at_least: float | None,
) -> None:
    """Replace the condition of a rule; weights, payload and --at-least stay unless given.

    --at-least 0 removes it.
    """
    _publish(
        store, lambda rules: rules.replace(parse_id(id, rules), where, weights, payload, at_least)
    )


@rules.command()
@_STORE
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def remove(store: Path, ids: tuple[str, ...]) -> None:
    """Remove rules: all of them, or none if one does not exist."""
    _publish(store, lambda rules: rules.remove_many([parse_id(id, rules) for id in ids]))


@rules.command()
@_STORE
def merge(store: Path) -> None:
    """Merge all rules into one index. This also happens automatically."""
    _publish(store, lambda rules: rules.merge())


@rules.command()
@_STORE
@click.option(
    "--events", type=LocalPath(), required=True, help="A file or a folder of files of events."
)
def tune(store: Path, events: Path) -> None:
    """Tune the index to events like those expected.

    An index that was chosen automatically is chosen again. Of more than 20,000 events, a random
    sample is used. Tuning lasts until the next merge.
    """
    from tocsin.cli.events.tested import draw_sample
    from tocsin.engine.store import RuleStore
    from tocsin.errors import EventError

    opened = RuleStore(store)
    sample = draw_sample(events, opened.rules())
    if not len(sample):
        raise EventError(f"{events} has no events to tune to")
    number = opened.tune(sample)
    click.echo(f"version {number}: tuned to {len(sample):,} event{'s' * (len(sample) != 1)}")
    click.echo(str(opened.rules().plan()))


@rules.command()
@_STORE
@click.option(
    "--keep", type=click.IntRange(min=1), required=True, help="Number of versions to keep."
)
def prune(store: Path, keep: int) -> None:
    """Delete old versions.

    The last --keep versions stay, and those that a stream may still need. `tocsin rules streams`
    lists the latter.
    """
    from tocsin.engine.store import RuleStore

    opened = RuleStore(store)
    deleted = opened.prune(keep)
    click.echo(f"deleted versions: {_list_numbers(deleted)}")
    pinned = [version.number for version in opened.versions()][:-keep]
    if pinned:
        click.echo(f"kept for streams: {_list_numbers(pinned)}")


@rules.command()
@_STORE
@click.argument("query")
@click.argument("batch", type=click.IntRange(min=0), required=False)
@click.option("--all", "all_", is_flag=True, help="Release all batches of the stream.")
def unpin(store: Path, query: str, batch: int | None, all_: bool) -> None:
    """Release a micro-batch of a stream from the version that it is pinned to.

    If Spark repeats the micro-batch, it uses the current version. QUERY is Spark's id of the
    streaming query, which `tocsin rules streams` lists. Stop the stream first, so that no
    micro-batch uses two versions.
    """
    from tocsin.engine.store import RuleStore

    if all_ != (batch is None):
        raise click.UsageError("Give BATCH, or --all.")
    RuleStore(store).unpin(query, batch)
    click.echo(f"released {'all batches' if all_ else f'batch {batch}'} of {query}")


def _list_numbers(versions: list[int]) -> str:
    return ", ".join(map(str, versions)) or "none"


def _publish(store: Path, change: Callable[[Rules], None]) -> None:
    from tocsin.engine.store import RuleStore

    count = 0

    def change_and_count(rules: Rules) -> None:
        nonlocal count
        change(rules)
        count = len(rules)

    number = RuleStore(store).publish(change_and_count)
    click.echo(f"version {number}: {_count_rules(count)}")


def _count_rules(count: int) -> str:
    return f"{count:,} rule{'s' * (count != 1)}"


# ------------------------------------------------------------ inspect


@rules.command()
@click.argument("source", type=LocalPath(), metavar="FILE")
@click.option(
    "--schema",
    multiple=True,
    callback=join_values,
    help="Of a file's rules: x=number,tier=category, or a file of events.",
)
@click.pass_context
def check(ctx: click.Context, source: Path, schema: str | None) -> None:
    """List all errors in a file of rules, and all conditions that never hold.

    FILE can also be a rule store: its rules have no errors, but may never hold. The exit code is 1
    if there are errors.
    """
    from tocsin.cli import checking

    report = checking.check(source, schema)
    for finding in report.findings:
        click.echo(finding)
    click.echo(report.summary())
    if report.errors:
        ctx.exit(1)


@rules.command("list")
@_STORE
@_VERSION
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True)
def list_(store: Path, version: int | None, limit: int) -> None:
    """List the rules in the order in which they were added."""
    from tocsin.cli.show import show_table
    from tocsin.engine.rules import Rules

    opened = Rules.open(store, version)
    first = [opened[id] for id in itertools.islice(opened, limit)]
    if first:
        rows = [(str(r.id), r.where, _to_json(r.payload) if r.payload else "") for r in first]
        show_table(["id", "condition", "payload"], rows)
    more = len(opened) - len(first)
    if more:
        click.echo(f"and {more:,} more" if first else _count_rules(more))
    elif not first:
        click.echo("no rules yet")


@rules.command()
@_STORE
@click.argument("id")
@_VERSION
def show(store: Path, id: str, version: int | None) -> None:
    """Show one rule."""
    from tocsin.engine.rules import Rules

    opened = Rules.open(store, version)
    rule = opened[parse_id(id, opened)]
    click.echo(f"id         {rule.id}")
    click.echo(f"condition  {rule.where}")
    if rule.at_least is not None:
        click.echo(f"at least   {rule.at_least}")
    if rule.weights:
        click.echo(f"weights    {_to_json(rule.weights)}")
    if rule.payload:
        click.echo(f"payload    {_to_json(rule.payload)}")


@rules.command()
@_STORE
def versions(store: Path) -> None:
    """List the versions."""
    from tocsin.cli.show import show_table
    from tocsin.engine.store import RuleStore

    rows = [
        (v.number, f"{v.created:%Y-%m-%d %H:%M:%S} UTC", v.rules, len(v.segments))
        for v in RuleStore(store).versions()
    ]
    show_table(["version", "published", "rules", "segments"], rows)


@rules.command()
@_STORE
def streams(store: Path) -> None:
    """List the streams that use the store, and the versions that they need."""
    from tocsin.cli.show import show_table
    from tocsin.engine.store import RuleStore

    rows = [
        (
            s.query,
            s.batch,
            f"{s.used:%Y-%m-%d %H:%M:%S} UTC",
            s.version,
            _list_numbers(list(s.pinned)),
            ", ".join(s.missing),
        )
        for s in RuleStore(store).streams()
    ]
    if rows:
        headings = ["query", "batch", "used", "version", "pinned versions", "missing columns"]
        show_table(headings, rows)
    else:
        click.echo("no streams yet")


@rules.command()
@_STORE
@click.argument("old", type=int)
@click.argument("new", type=int, required=False)
def diff(store: Path, old: int, new: int | None) -> None:
    """Show what changed from version OLD to version NEW (default: the current one)."""
    from tocsin.engine.store import RuleStore

    click.echo(str(RuleStore(store).diff(old, new)))


def _to_json(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, default=str)
