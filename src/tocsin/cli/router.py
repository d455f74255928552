"""`tocsin router`: one router of a tree, over NATS."""

from __future__ import annotations

import asyncio
import signal

import click

from tocsin.cli.options import join_values, split_names
from tocsin.files.rules import read_schema


@click.command(short_help="Route subscriptions and notifications, over NATS.")
@click.argument("name")
@click.option(
    "--neighbour",
    "neighbours",
    multiple=True,
    callback=split_names,
    metavar="NAME",
    help="A router that this one is linked with; can be repeated.",
)
@click.option(
    "--schema",
    required=True,
    multiple=True,
    callback=join_values,
    help="Attributes and their kinds, as in x=number,tier=category, or a file of events whose "
    "columns they are. All routers need the same.",
)
@click.option(
    "--nats", "url", default="nats://127.0.0.1:4222", show_default=True, help="The NATS server."
)
def router(name: str, neighbours: list[str] | None, schema: str, url: str) -> None:
    """Run a router until it is interrupted (SIGINT or SIGTERM).

    Routers must be linked as a tree, and each link is given to both of its routers. Clients
    connect with tocsin.routing.RouterClient.
    """
    from tocsin.routing.languages import Conditions
    from tocsin.routing.nats_router import RouterProcess

    process = RouterProcess(name, neighbours or [], Conditions(read_schema(schema)), click.echo)

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await process.run(url, stop)

    asyncio.run(run())
    click.echo(f"router {name} has stopped")
