"""`tocsin rules`: create, change and inspect a rule store; every change publishes a version."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tocsin.cli.options import (
    LocalPath,
    StorePath,
    index_option,
    index_options_option,
    join_values,
    json_option,
)
from tocsin.files.rules import add_file, parse_id, read_schema

if TYPE_CHECKING:
    from tocsin.engine.rules import Rules

_STORE = click.argument("store", type=StorePath())
_VERSION = click.option("--version", type=int, help="Version to read. Default: the current one.")
_WEIGHTS = json_option("--weights", help="Weights of attributes, as in '{\"x\": 0.4}'.")
_SCORE = click.option(
    "--score", type=float, help="The rule's score for every event, in place of weights; a bid."
)
_PAYLOAD = json_option("--payload", help='Your own data about the rule, as in \'{"team": "red"}\'.')
_AT_LEAST = click.option(
    "--at-least",
    type=float,
    help="Probability with which an event must satisfy the rule, if its values are uncertain.",
)


def _signed(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the author and the message of a version."""
    author = click.option("--author", help="Who makes the change, for `rules versions`.")
    message = click.option("-m", "--message", help="Why, for `rules versions` and `rules diff`.")
    return author(message(command))


@click.group()
def rules() -> None:
    """Create, change and inspect a rule store.

    A store is a folder, or in a bucket (s3://bucket/folder, gs:// or az://). Every change publishes
    a numbered version. Streams that use the store pick it up in their next micro-batch.
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
@click.option(
    "--point",
    metavar="X,Y",
    help="The attributes that shapes are about. Default: lon and lat, longitude and latitude, or x "
    "and y.",
)
@index_option
@index_options_option
@_signed
def create(
    store: Path | str,
    schema: str,
    source: Path | None,
    point: str | None,
    index: str,
    options: dict[str, Any],
    author: str | None,
    message: str | None,
) -> None:
    """Create a store that is empty or has the rules of a file."""
    from tocsin.engine.rules import Rules
    from tocsin.engine.store_folder import StoreFolder
    from tocsin.errors import StoreError

    if StoreFolder(store).versions.find_latest() is not None:
        raise StoreError(f"a rule store already exists at {store}")
    names: Any = None if point is None else tuple(map(str.strip, point.split(",")))
    new_rules = Rules(read_schema(schema), index, options, names)
    if source is not None:
        add_file(new_rules, source)
    number = new_rules.save(store, author, message)
    click.echo(f"version {number}: {_count_rules(len(new_rules))}")


@rules.command()
@_STORE
@click.argument("id", required=False)
@click.argument("where", required=False)
@_WEIGHTS
@_SCORE
@_PAYLOAD
@_AT_LEAST
@click.option("--from", "source", type=LocalPath(), help="Add all rules of a file.")
@_signed
def add(
    store: Path | str,
    id: str | None,
    where: str | None,
    source: Path | None,
    author: str | None,
    message: str | None,
    **settings: Any,
) -> None:
    """Add a rule, or all rules of a CSV, JSON lines, Parquet or GeoJSON file.

    WHERE is a condition, as in "x BETWEEN 3 AND 8 AND tier = 'gold'".
    """
    if source is not None:
        if any(given is not None for given in (id, *settings.values())):
            raise click.UsageError(
                "--from FILE excludes ID, WHERE, --weights, --score, --payload and --at-least."
            )
        _publish(store, lambda rules: add_file(rules, source), author, message)
    elif id is None or where is None:
        raise click.UsageError("Give ID and WHERE, or --from FILE.")
    else:
        _publish(
            store,
            lambda rules: rules.add(parse_id(id, rules), where, **settings),
            author,
            message,
        )


@rules.command()
@_STORE
@click.argument("id")
@click.argument("where", required=False)
@_WEIGHTS
@_SCORE
@_PAYLOAD
@_AT_LEAST
@_signed
def replace(
    store: Path | str,
    id: str,
    where: str | None,
    author: str | None,
    message: str | None,
    **settings: Any,
) -> None:
    """Change a rule; what is not given stays.

    --at-least 0 removes it; --weights '{}' removes weights and score.
    """
    if all(given is None for given in (where, *settings.values())):
        raise click.UsageError("Give WHERE, --weights, --score, --payload or --at-least.")
    _publish(
        store,
        lambda rules: rules.replace(parse_id(id, rules), where, **settings),
        author,
        message,
    )


@rules.command()
@_STORE
@click.argument("source", type=LocalPath(), metavar="FILE")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@_signed
def sync(
    store: Path | str, source: Path, dry_run: bool, author: str | None, message: str | None
) -> None:
    """Make the rules of a store those of a file, in one version.

    Rules that are not in FILE are removed, those that differ are replaced, and equal ones stay as
    they are. `rules export` writes such a file.
    """
    from tocsin.engine.difference import compare
    from tocsin.engine.store import RuleStore
    from tocsin.files.rules import sync_file

    opened = RuleStore(store)
    if dry_run:
        copy = opened.rules()
        before = copy.snapshot()
        sync_file(copy, source)
        click.echo(str(compare(before, copy.snapshot(), [])))
        return
    was = opened.version
    number = opened.publish(lambda rules: sync_file(rules, source), author, message)
    click.echo(f"version {number}")
    click.echo(str(opened.diff(was, number)))


@rules.command()
@_STORE
@click.argument("version", type=int)
@_signed
def rollback(store: Path | str, version: int, author: str | None, message: str | None) -> None:
    """Publish the rules of VERSION again, as the next version."""
    from tocsin.engine.store import RuleStore

    number = RuleStore(store).rollback(version, author, message)
    click.echo(f"version {number}: the rules of version {version}")


@rules.command()
@_STORE
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_signed
def remove(store: Path | str, ids: tuple[str, ...], **signed: str | None) -> None:
    """Remove rules: all of them, or none if one does not exist."""
    _publish(store, lambda rules: rules.remove_many([parse_id(id, rules) for id in ids]), **signed)


@rules.command()
@_STORE
@_signed
def merge(store: Path | str, **signed: str | None) -> None:
    """Merge all rules into one index. This also happens automatically."""
    _publish(store, lambda rules: rules.merge(), **signed)


@rules.command()
@_STORE
@click.option(
    "--events", type=LocalPath(), required=True, help="A file or a folder of files of events."
)
@_signed
def tune(store: Path | str, events: Path, **signed: str | None) -> None:
    """Tune the index to events like those expected.

    An index that was chosen automatically is chosen again. Of more than 20,000 events, a random
    sample is used. Tuning lasts until the next merge.
    """
    from tocsin.cli.tested import draw_sample
    from tocsin.engine.store import RuleStore
    from tocsin.errors import EventError

    opened = RuleStore(store)
    sample = draw_sample(events, opened.rules())
    if not len(sample):
        raise EventError(f"{events} has no events to tune to")
    number = opened.publish(lambda rules: rules.tune(sample), **signed)
    click.echo(f"version {number}: tuned to {len(sample):,} event{'s' * (len(sample) != 1)}")
    click.echo(str(opened.rules().plan()))


@rules.command()
@_STORE
@click.option(
    "--keep", type=click.IntRange(min=1), required=True, help="Number of versions to keep."
)
def prune(store: Path | str, keep: int) -> None:
    """Delete old versions.

    The last --keep versions stay, and those that a stream may still need. `tocsin rules streams`
    lists the latter. Files of writers that failed are deleted after an hour.
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
def unpin(store: Path | str, query: str, batch: int | None, all_: bool) -> None:
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


def _publish(
    store: Path | str,
    change: Callable[[Rules], None],
    author: str | None = None,
    message: str | None = None,
) -> None:
    from tocsin.engine.store import RuleStore

    opened = RuleStore(store)
    before, count = opened.version, 0

    def change_and_count(rules: Rules) -> None:
        nonlocal count
        change(rules)
        count = len(rules)

    number = opened.publish(change_and_count, author, message)
    unchanged = ", no change" if number == before else ""
    click.echo(f"version {number}: {_count_rules(count)}{unchanged}")


def _count_rules(count: int) -> str:
    return f"{count:,} rule{'s' * (count != 1)}"


# ------------------------------------------------------------ inspect


@rules.command()
@click.argument("source", type=StorePath(), metavar="FILE")
@click.option(
    "--schema",
    multiple=True,
    callback=join_values,
    help="Of a file's rules: x=number,tier=category, or a file of events.",
)
@click.pass_context
def check(ctx: click.Context, source: Path | str, schema: str | None) -> None:
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
@click.option(
    "--limit", type=click.IntRange(min=0), help="Rules to list. Default: 20; with --json, all."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per rule.")
def list_(store: Path | str, version: int | None, limit: int | None, as_json: bool) -> None:
    """List the rules in the order in which they were added."""
    from tocsin.cli.show import show_table
    from tocsin.engine.rules import Rules

    opened = Rules.open(store, version)
    if as_json:
        for id in itertools.islice(opened, limit):
            rule = dataclasses.asdict(opened[id])
            click.echo(_to_json({k: v for k, v in rule.items() if v not in (None, {})}))
        return
    first = [opened[id] for id in itertools.islice(opened, 20 if limit is None else limit)]
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
def show(store: Path | str, id: str, version: int | None) -> None:
    """Show one rule."""
    from tocsin.engine.rules import Rules

    opened = Rules.open(store, version)
    rule = opened[parse_id(id, opened)]
    click.echo(f"id         {rule.id}")
    click.echo(f"condition  {rule.where}")
    if rule.at_least is not None:
        click.echo(f"at least   {rule.at_least}")
    if rule.score is not None:
        click.echo(f"score      {rule.score}")
    if rule.weights:
        click.echo(f"weights    {_to_json(rule.weights)}")
    if rule.payload:
        click.echo(f"payload    {_to_json(rule.payload)}")


@rules.command()
@_STORE
def versions(store: Path | str) -> None:
    """List the versions."""
    from tocsin.cli.show import show_table
    from tocsin.engine.store import RuleStore

    listed = RuleStore(store).versions()
    rows: list[tuple[Any, ...]] = [
        (v.number, f"{v.created:%Y-%m-%d %H:%M:%S} UTC", v.rules, len(v.segments)) for v in listed
    ]
    headings = ["version", "published", "rules", "segments"]
    for name in ("author", "message"):
        texts = [(getattr(version, name) or "").partition("\n")[0] for version in listed]
        if any(texts):
            headings.append(name)
            rows = [(*row, text) for row, text in zip(rows, texts, strict=True)]
    show_table(headings, rows)


@rules.command()
@_STORE
def streams(store: Path | str) -> None:
    """List the streams that use the store, and the versions that they need."""
    from tocsin.cli.show import show_table
    from tocsin.engine.store import RuleStore

    rows = [
        (
            s.query,
            s.name,
            s.batch,
            f"{s.used:%Y-%m-%d %H:%M:%S} UTC",
            s.version,
            _list_numbers(list(s.pinned)),
            ", ".join(s.missing),
        )
        for s in RuleStore(store).streams()
    ]
    if rows:
        headings = [
            "query",
            "name",
            "batch",
            "used",
            "version",
            "pinned versions",
            "missing columns",
        ]
        show_table(headings, rows)
    else:
        click.echo("no streams yet")


@rules.command()
@_STORE
@click.argument("out", type=LocalPath(), metavar="FILE")
@_VERSION
def export(store: Path | str, out: Path, version: int | None) -> None:
    """Write the rules to FILE (.csv, .jsonl or .parquet), which `sync` and `add --from` read.

    In .jsonl, each rule is a line, so that the file can be kept under version control.
    """
    from tocsin.engine.rules import Rules
    from tocsin.files.rules import write_rules

    opened = Rules.open(store, version)
    write_rules(opened, out)
    click.echo(f"{_count_rules(len(opened))} of version {opened.version}")


@rules.command()
@_STORE
@click.argument("old", type=int)
@click.argument("new", type=int, required=False)
def diff(store: Path | str, old: int, new: int | None) -> None:
    """Show what changed from version OLD to version NEW (default: the current one).

    A rule that changed is shown as it was and as it is now.
    """
    from tocsin.engine.store import RuleStore

    click.echo(str(RuleStore(store).diff(old, new)))


def _to_json(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, default=str)
