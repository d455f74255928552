"""`tocsin state`: the states that streaming monitors keep."""

from __future__ import annotations

from pathlib import Path

import click

from tocsin.cli.options import StorePath

_STATE = click.argument("folder", metavar="STATE", type=StorePath())


@click.group()
def state() -> None:
    """Inspect the states that streaming monitors keep, or delete some.

    STATE is the folder or the URL that a query was given as `state`.
    """


@state.command("list")
@_STATE
def list_(folder: Path | str) -> None:
    """List the queries that have states in a folder."""
    from tocsin.cli.show import show_table
    from tocsin.moving.bucket_states import queries
    from tocsin.moving.state_files import open_states

    rows = [
        (
            info.query,
            info.buckets,
            info.batch,
            f"{info.used:%Y-%m-%d %H:%M:%S} UTC",
            info.objects,
            info.states,
            info.bytes,
        )
        for info in queries(open_states(folder))
    ]
    if rows:
        show_table(["query", "buckets", "batch", "used", "objects", "states", "bytes"], rows)
    else:
        click.echo("no states yet")


@state.command()
@_STATE
@click.argument("query")
@click.argument("batch", type=click.IntRange(min=0))
def drop(folder: Path | str, query: str, batch: int) -> None:
    """Delete the states of micro-batch BATCH of a query, and of later ones.

    The query must not run. When it runs again it repeats these batches, if they are in its
    checkpoint, and delivers their events again. Batch 0 deletes all that there is of the query.
    """
    from tocsin.moving.bucket_states import BucketStates
    from tocsin.moving.state_files import open_states

    count = BucketStates(open_states(folder), query).drop(batch)
    click.echo(f"deleted {count:,} state{'s' * (count != 1)}")
