"""The progress bar of `tocsin match`; it is shown only if stderr is a terminal.

In this process the bar counts bytes. On Spark it counts tasks. Spark Connect has no API for their
number, so we read it from Spark's own console bar: the JVM's stderr is redirected to a file, which
also keeps its start-up messages off the terminal, and a thread reads the latest numbers from that
file. If a later Spark draws its bar differently, ours shows only the time.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_INTERVAL = 0.2  # seconds between two reads of Spark's bar; chosen
_SPARK_BAR = re.compile(rb"\[Stage \d+:[^\]]*\((\d+) \+ \d+\) / (\d+)\]")


class Bar:
    """A progress bar that shows one step at a time; it is invisible if `progress` is None."""

    def __init__(self, progress: Any = None):
        self._progress = progress
        self._line = progress and progress.add_task("", total=None, tasks="")

    @property
    def is_visible(self) -> bool:
        """Whether the bar is on a terminal."""
        return self._progress is not None

    def step(self, name: str, total: int | None = None) -> None:
        """Begin a step; `total` is the amount of work, None if unknown."""
        if self._progress:
            self._progress.reset(self._line, total=total, description=name, tasks="")

    def advance(self, amount: int) -> None:
        """Add to the amount of work that is done."""
        if self._progress:
            self._progress.advance(self._line, amount)

    def show_tasks(self, done: int, total: int) -> None:
        """Show how many of Spark's tasks are done."""
        if self._progress:
            text = f"{done} of {total} tasks"
            self._progress.update(self._line, completed=done, total=total, tasks=text)


@contextlib.contextmanager
def show_progress() -> Iterator[Bar]:
    """Yield a bar, which is shown if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield Bar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    # A descriptor of its own, because stderr is redirected while Spark starts.
    with open(os.dup(2), "w") as terminal:
        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[tasks]}"),
            TimeElapsedColumn(),
            console=Console(file=terminal),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with progress:
            yield Bar(progress)


# ------------------------------------------------------------ Spark's tasks


@contextlib.contextmanager
def redirect_stderr(path: Path) -> Iterator[None]:
    """Redirect stderr to a file; processes started meanwhile, such as the JVM, keep that file."""
    sys.stderr.flush()
    own = os.dup(2)
    try:
        with open(path, "ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)


@contextlib.contextmanager
def follow_spark(log: Path, bar: Bar) -> Iterator[Callable[[str], None]]:
    """Show Spark's tasks in a bar; yields a function that begins a step.

    `log` is the file that Spark writes its own bar to.
    """
    if not bar.is_visible:
        yield bar.step
        return
    since = 0
    done = threading.Event()

    def step(name: str) -> None:
        nonlocal since
        since = log.stat().st_size if log.exists() else 0
        bar.step(name)

    def follow() -> None:
        while not done.wait(_INTERVAL):
            tasks = read_latest_tasks(log, since)
            if tasks:
                bar.show_tasks(*tasks)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield step
    finally:
        done.set()
        follower.join()


def read_latest_tasks(log: Path, since: int) -> tuple[int, int] | None:
    """Return the numbers of finished and of all tasks in Spark's latest bar after byte `since`."""
    if not log.exists():
        return None
    with open(log, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(since, end - 4096))
        bars = _SPARK_BAR.findall(file.read())
    return (int(bars[-1][0]), int(bars[-1][1])) if bars else None
