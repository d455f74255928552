"""The command `tocsin`: its subcommands, loaded when named, and how errors are told.

`tocsin --help` imports the modules below for their first lines, so these import Arrow,
Numba and Spark only inside their commands.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Iterator
from traceback import walk_tb
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

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the program; what it cannot print is one message and exit code 1, too."""
        with _standard_streams():
            return super().main(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what is wrong with its input is one message and exit code 1."""
        try:
            return super().invoke(ctx)
        except TocsinError as error:
            message = str(error)
        except OSError as error:
            # With a file's name it is about a file; stdout has none.
            if error.filename is None:
                raise
            message = f"{error.filename}: {error.strerror}"
        click.echo(f"error: {message}", err=True)
        return ctx.exit(1)


@contextlib.contextmanager
def _standard_streams() -> Iterator[None]:
    """Make sure that there are stdout and stderr, and that what was printed has arrived."""
    if sys.stderr is None:  # closed, and nobody to tell
        sys.stderr = _open_nowhere(2)
    if sys.stdout is None:
        # The next file to be opened would be in its place, and get what is printed.
        sys.stdout = _open_nowhere(1)
        _fail("stdout is closed; to discard the output, redirect it to /dev/null")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        _drop(sys.stdout)
        if error.errno == errno.EPIPE:  # whoever read has read enough
            sys.exit(1)
        where = "cannot write to stdout: " if _is_print(error) else ""
        _fail(f"{where}{error.strerror or error}")


def _is_print(error: OSError) -> bool:
    *_, (frame, _) = walk_tb(error.__traceback__)
    module = str(frame.f_globals["__name__"])
    return module == __name__ or module.startswith(("click.", "rich."))


def _open_nowhere(descriptor: int) -> Any:
    """Open a standard stream that was closed, so that no other file takes its number."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != descriptor:
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    return open(descriptor, "w")


def _drop(stream: Any) -> None:
    """Send what is still to be written to a stream nowhere; at exit Python would try again."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _fail(message: str) -> None:
    try:
        click.echo(f"error: {message}", err=True)
    except OSError:
        _drop(sys.stderr)
    sys.exit(1)


@click.group(cls=Commands)
@click.version_option(__version__, message="%(prog)s %(version)s")
def tocsin() -> None:
    """Standing queries: keep rules, and find those that events satisfy."""
