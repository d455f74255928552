"""The command `tocsin`: its subcommands, loaded when named, and how errors are told.

`tocsin --help` imports the modules below for their first lines, so these import Arrow,
Numba and Spark only inside their commands.
"""

from __future__ import annotations

import importlib
from typing import Any

import click

from tocsin import __version__
from tocsin.errors import TocsinError

COMMANDS = {
    "rules": "tocsin.cli.rules:rules",
    "match": "tocsin.cli.match:match",
    "explain": "tocsin.cli.explain:explain",
    "plan": "tocsin.cli.explain:plan",
    "demo": "tocsin.cli.demo.command:demo",
}


class Commands(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which help shows them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what is wrong with its input is one message and exit code 1."""
        try:
            return super().invoke(ctx)
        except TocsinError as error:
            message = str(error)
        except OSError as error:
            # With a file's name it is about a file; a closed pipe has none and is click's to treat.
            if error.filename is None:
                raise
            message = f"{error.filename}: {error.strerror}"
        click.echo(f"error: {message}", err=True)
        return ctx.exit(1)


@click.group(cls=Commands)
@click.version_option(__version__, message="%(prog)s %(version)s")
def tocsin() -> None:
    """Standing queries: keep rules, and find those that events satisfy."""
