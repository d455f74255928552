"""The command `tocsin`: subcommands, which are imported when they are used, and error messages.

`tocsin --help` imports all modules of commands to show their first lines. So that it is quick,
they import Arrow, Numba and Spark inside their commands.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from traceback import walk_tb
from typing import Any

import click

from tocsin import __version__
from tocsin.errors import ConditionWarning, EventWarning, TocsinError

COMMANDS = {
    "rules": "tocsin.cli.rules:rules",
    "match": "tocsin.cli.match:match",
    "monitor": "tocsin.cli.monitor:monitor",
    "lint": "tocsin.cli.lint:lint",
    "explain": "tocsin.cli.explain:explain",
    "plan": "tocsin.cli.explain:plan",
    "state": "tocsin.cli.state:state",
    "router": "tocsin.cli.router:router",
    "calibrate": "tocsin.cli.calibrate:calibrate",
    "demo": "tocsin.cli.demo.command:demo",
}


class Commands(click.Group):
    """A group that imports its commands when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the program; if it cannot print, that is one message and exit code 1."""
        with _standard_streams():
            return super().main(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error in its input is one message and exit code 1."""
        try:
            with _print_warnings():
                return super().invoke(ctx)
        except TocsinError as error:
            message = str(error)
        except OSError as error:
            # Only errors about files have a file name; those about stdout have none.
            if error.filename is None:
                raise
            message = f"{error.filename}: {error.strerror}"
        click.echo(f"error: {message}", err=True)
        return ctx.exit(1)


@contextlib.contextmanager
def _print_warnings() -> Iterator[None]:
    """Print each warning about conditions on stderr, without a place in the source."""
    show = warnings.showwarning

    def print_warning(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, ConditionWarning | EventWarning):
            click.echo(f"warning: {message}", err=True)
        else:
            show(message, category, *place)

    with warnings.catch_warnings():
        warnings.simplefilter("always", ConditionWarning)
        warnings.simplefilter("always", EventWarning)
        warnings.showwarning = print_warning  # type: ignore[assignment]
        yield


@contextlib.contextmanager
def _standard_streams() -> Iterator[None]:
    """Make sure that stdout and stderr are open, and that all output is written."""
    if sys.stderr is None:  # closed: messages are lost
        sys.stderr = _open_null(2)
    if sys.stdout is None:
        # Otherwise the next file to be opened would get its descriptor, and with it the output.
        sys.stdout = _open_null(1)
        _fail("stdout is closed; to discard the output, redirect it to /dev/null")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        _discard(sys.stdout)
        if error.errno == errno.EPIPE:  # the reader has closed the pipe
            sys.exit(1)
        prefix = "cannot write to stdout: " if _is_from_printing(error) else ""
        _fail(f"{prefix}{error.strerror or error}")


def _is_from_printing(error: OSError) -> bool:
    *_, (frame, _) = walk_tb(error.__traceback__)
    module = str(frame.f_globals["__name__"])
    return module == __name__ or module.startswith(("click.", "rich."))


def _open_null(descriptor: int) -> Any:
    """Open the null device as a closed standard stream, so that no other file gets its number."""
    null = os.open(os.devnull, os.O_WRONLY)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
    return open(descriptor, "w")


def _discard(stream: Any) -> None:
    """Discard the buffered output of a stream; Python would try to write it again at exit."""
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _fail(message: str) -> None:
    try:
        click.echo(f"error: {message}", err=True)
    except OSError:
        _discard(sys.stderr)
    sys.exit(1)


@click.group(cls=Commands)
@click.version_option(__version__, message="%(prog)s %(version)s")
def tocsin() -> None:
    """Keep rules, and find the rules that events satisfy."""
