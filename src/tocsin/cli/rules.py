"""`tocsin rules`: make a rule store, change it, look into it. Every change is a version."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tocsin.cli.files import add_file, as_id, joined, json_option, read_schema

if TYPE_CHECKING:
    from tocsin.engine.rules import Rules

_STORE = click.argument("store", type=click.Path(path_type=Path))
_FILE = click.Path(path_type=Path)
_AT_VERSION = click.option("--version", type=int, help="Version to read. Default: the current one.")
_WEIGHTS = json_option("--weights", help="How much attributes count, as in '{\"x\": 0.4}'.")
_PAYLOAD = json_option("--payload", help="Columns of your own, likewise.")


def _index_options(ctx: Any, param: Any, values: Sequence[str]) -> dict[str, Any]:
    """Return options by name; a value is a number, true, false, none, or else a text."""
    found: dict[str, Any] = {}
    for each in values:
        name, equals, text = each.partition("=")
        if not equals:
            raise click.BadParameter(f"{each!r} must be NAME=VALUE, as in fan_out=8")
        try:
            found[name] = None if text == "none" else json.loads(text)
        except ValueError:
            found[name] = text
    return found


@click.group()
def rules() -> None:
    """Create, change and inspect a rule store.

    A store is a folder. Every change publishes a numbered version, which never changes; streams
    that use the store pick it up in their next micro-batch.
    """


# ------------------------------------------------------------ change


@rules.command()
@_STORE
@click.option(
    "--schema",
    required=True,
    multiple=True,
    callback=joined,
    help="The events' attributes: x=number,tier=category (or integer, flag, time), or a file of "
    "events that has them as columns.",
)
@click.option("--rules", "source", type=_FILE, help="A file of rules to begin with.")
@click.option("--index", default="auto", show_default=True, help="Which index holds the rules.")
@click.option(
    "--index-option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_index_options,
    help="What to vary about that index; may be repeated.",
)
def create(
    store: Path, schema: str, source: Path | None, index: str, options: dict[str, Any]
) -> None:
    """Make a store, without rules or with those of a file."""
    from tocsin.engine.rules import Rules
    from tocsin.engine.store_folder import StoreFolder
    from tocsin.errors import StoreError

    if StoreFolder(store).numbers():
        raise StoreError(f"a rule store already exists at {store}")
    made = Rules(read_schema(schema), index, options)
    if source is not None:
        add_file(made, source)
    click.echo(f"version {made.save(store)}: {_counted(len(made))}")


@rules.command()
@_STORE
@click.argument("id", required=False)
@click.argument("where", required=False)
@_WEIGHTS
@_PAYLOAD
@click.option("--from", "source", type=_FILE, help="Add all rules of a file instead of one.")
def add(
    store: Path,
    id: str | None,
    where: str | None,
    weights: dict[str, float] | None,
    payload: dict[str, Any] | None,
    source: Path | None,
) -> None:
    """Add a rule, or all rules of a file (CSV, JSON lines, Parquet).

    WHERE is a condition, as in "x BETWEEN 3 AND 8 AND tier = 'gold'".
    """
    if source is not None:
        if (id, weights, payload) != (None, None, None):
            raise click.UsageError("--from FILE goes without ID, WHERE, --weights and --payload.")
        _publish(store, lambda rules: add_file(rules, source))
    elif id is None or where is None:
        raise click.UsageError("Give ID and WHERE, or --from FILE.")
    else:
        _publish(store, lambda rules: rules.add(as_id(id, rules), where, weights, payload))


@rules.command()
@_STORE
@click.argument("id")
@click.argument("where")
@_WEIGHTS
@_PAYLOAD
def replace(
    store: Path,
    id: str,
    where: str,
    weights: dict[str, float] | None,
    payload: dict[str, Any] | None,
) -> None:
    """Give a rule a new condition; weights and payload stay unless they are given."""
    _publish(store, lambda rules: rules.replace(as_id(id, rules), where, weights, payload))


@rules.command()
@_STORE
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def remove(store: Path, ids: tuple[str, ...]) -> None:
    """Remove rules: all that are named, or none if one is unknown."""
    _publish(store, lambda rules: rules.remove_many([as_id(id, rules) for id in ids]))


@rules.command()
@_STORE
def merge(store: Path) -> None:
    """Merge all rules into one index. This also happens automatically."""
    _publish(store, lambda rules: rules.merge())


@rules.command()
@_STORE
@click.option("--keep", type=click.IntRange(min=1), required=True, help="How many to keep.")
def prune(store: Path, keep: int) -> None:
    """Delete old versions and keep the last --keep.

    Versions that a stream may still need stay; `tocsin rules streams` lists them.
    """
    from tocsin.engine.store import RuleStore

    opened = RuleStore(store)
    gone = opened.prune(keep)
    click.echo(f"deleted versions: {_listed(gone)}")
    pinned = [version.number for version in opened.versions()][:-keep]
    if pinned:
        click.echo(f"kept for streams: {_listed(pinned)}")


@rules.command()
@_STORE
@click.argument("query")
@click.argument("batch", type=click.IntRange(min=0), required=False)
@click.option("--all", "all_", is_flag=True, help="Release all batches of the stream.")
def unpin(store: Path, query: str, batch: int | None, all_: bool) -> None:
    """Release a micro-batch of a stream from the version that it is pinned to.

    When it is repeated, it uses the current version. QUERY is Spark's id of the streaming query, as
    `tocsin rules streams` lists it. Stop the stream first, so that no batch sees two versions.
    """
    from tocsin.engine.store import RuleStore

    if all_ != (batch is None):
        raise click.UsageError("Give BATCH, or --all.")
    RuleStore(store).unpin(query, batch)
    click.echo(f"released {'all batches' if all_ else f'batch {batch}'} of {query}")


def _listed(versions: list[int]) -> str:
    return ", ".join(map(str, versions)) or "none"


def _publish(store: Path, change: Callable[[Rules], None]) -> None:
    from tocsin.engine.store import RuleStore

    count = 0

    def changed(rules: Rules) -> None:
        nonlocal count
        change(rules)
        count = len(rules)

    number = RuleStore(store).publish(changed)
    click.echo(f"version {number}: {_counted(count)}")


def _counted(count: int) -> str:
    return f"{count:,} rule{'s' * (count != 1)}"


# ------------------------------------------------------------ look


@rules.command("list")
@_STORE
@_AT_VERSION
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True)
def list_(store: Path, version: int | None, limit: int) -> None:
    """List rules, in the order of addition."""
    from tocsin.cli.show import show_table
    from tocsin.engine.rules import Rules

    opened = Rules.open(store, version)
    first = [opened[id] for id in itertools.islice(opened, limit)]
    if first:
        rows = [(str(r.id), r.where, _json(r.payload) if r.payload else "") for r in first]
        show_table(["id", "condition", "payload"], rows)
    more = len(opened) - len(first)
    if more:
        click.echo(f"and {more:,} more" if first else _counted(more))
    elif not first:
        click.echo("no rules yet")


@rules.command()
@_STORE
@click.argument("id")
@_AT_VERSION
def show(store: Path, id: str, version: int | None) -> None:
    """Show all of one rule."""
    from tocsin.engine.rules import Rules

    opened = Rules.open(store, version)
    rule = opened[as_id(id, opened)]
    click.echo(f"id         {rule.id}")
    click.echo(f"condition  {rule.where}")
    if rule.weights:
        click.echo(f"weights    {_json(rule.weights)}")
    if rule.payload:
        click.echo(f"payload    {_json(rule.payload)}")


@rules.command()
@_STORE
def versions(store: Path) -> None:
    """List the versions that there are."""
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
    """List the streams that use the rules live, and the versions that they need."""
    from tocsin.cli.show import show_table
    from tocsin.engine.store import RuleStore

    rows = [
        (
            s.query,
            s.batch,
            f"{s.used:%Y-%m-%d %H:%M:%S} UTC",
            s.version,
            _listed(list(s.pinned)),
            ", ".join(s.missing),
        )
        for s in RuleStore(store).streams()
    ]
    if rows:
        heads = ["query", "batch", "used", "version", "pinned versions", "missing columns"]
        show_table(heads, rows)
    else:
        click.echo("no streams yet")


@rules.command()
@_STORE
@click.argument("old", type=int)
@click.argument("new", type=int, required=False)
def diff(store: Path, old: int, new: int | None) -> None:
    """Tell what changed from version OLD to version NEW, or to the current one."""
    from tocsin.engine.store import RuleStore

    click.echo(str(RuleStore(store).diff(old, new)))


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, default=str)
