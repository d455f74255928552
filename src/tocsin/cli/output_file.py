"""The file that a command writes: checks before it starts, and a folder until it is complete."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from tocsin.errors import TocsinError
from tocsin.files.rules import check_format

_OUT_SUFFIXES = (".parquet", ".csv", ".jsonl")


def check_out(out: Path, overwrite: bool) -> None:
    """Raise unless a file can be written under this name."""
    if out.suffix not in _OUT_SUFFIXES:
        raise TocsinError(f"{out}: the name of the output must end in {', '.join(_OUT_SUFFIXES)}")
    if out.is_dir():
        raise TocsinError(f"{out} is a folder; the output must be a file")
    if out.exists() and not overwrite:
        raise TocsinError(f"{out} exists already; --overwrite replaces it")
    if not out.parent.is_dir():
        raise TocsinError(f"{out}: there is no folder {out.parent}")


def check_not_input(out: Path, *inputs: Path | str) -> None:
    """Raise if the output would replace an input."""
    for each in inputs:
        if isinstance(each, str):  # a URL
            continue
        if out.exists() and (out.samefile(each) or each in out.parents):
            raise TocsinError(f"{out} is an input, so it cannot be the output; name another file")


def check_rules(source: Path | str) -> None:
    """Raise unless a path is a rule store or a file of a known format."""
    if isinstance(source, str) or source.is_dir():
        from tocsin.engine.store import RuleStore

        RuleStore(source)
    else:
        check_format(source)


@contextlib.contextmanager
def temporary_folder(out: Path) -> Iterator[Path]:
    """Yield a folder next to the output and remove it; system errors about it become ours."""
    try:
        with (
            _exit_when_ended(),
            tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder,
        ):
            yield Path(folder)
    except OSError as error:
        if error.filename is not None and f".{out.name}." not in str(error.filename):
            raise  # about another file
        raise TocsinError(f"{out} cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def _exit_when_ended() -> Iterator[None]:
    """Exit if SIGTERM or SIGHUP ends the process, which otherwise would not remove its folder."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # Python allows it only there
    for number in numbers:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
