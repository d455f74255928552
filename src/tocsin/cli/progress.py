"""What a terminal shows while files are matched: a bar. Nothing where stderr is not a terminal.

In this process the bar counts bytes. Spark tells how many of its tasks are done to no one but its
own console bar, unless one asks its context, which Spark Connect does not have. So its JVM gets a
file for its stderr, which keeps the start-up chatter off the terminal, and is told to draw the
bar; a thread reads the bar's latest numbers there and draws ours. Should the bar look different
one day, ours shows the time and no tasks.
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

_EVERY = 0.2  # seconds
_BAR = re.compile(rb"\[Stage \d+:[^\]]*\((\d+) \+ \d+\) / (\d+)\]")


class Bar:
    """A bar that shows one step of the work after the other; none if `drawn` is None."""

    def __init__(self, drawn: Any = None):
        self._drawn = drawn
        self._line = drawn and drawn.add_task("", total=None, tasks="")

    @property
    def is_drawn(self) -> bool:
        """Whether anybody sees it."""
        return self._drawn is not None

    def step(self, doing: str, total: int | None = None) -> None:
        """Begin a step; `total` is what there is to advance, None if nobody knows."""
        if self._drawn:
            self._drawn.reset(self._line, total=total, description=doing, tasks="")

    def advance(self, amount: int) -> None:
        """Say how much more is done."""
        if self._drawn:
            self._drawn.advance(self._line, amount)

    def show_tasks(self, done: int, total: int) -> None:
        """Say how many of Spark's tasks are done."""
        if self._drawn:
            words = f"{done} of {total} tasks"
            self._drawn.update(self._line, completed=done, total=total, tasks=words)


@contextlib.contextmanager
def shown() -> Iterator[Bar]:
    """Show a bar."""
    if not sys.stderr.isatty():
        yield Bar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    # Of its own, since stderr is led elsewhere while Spark starts.
    with open(os.dup(2), "w") as terminal:
        drawn = Progress(
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
        with drawn:
            yield Bar(drawn)


# ------------------------------------------------------------ Spark's tasks


@contextlib.contextmanager
def stderr_into(path: Path) -> Iterator[None]:
    """Let processes that are started meanwhile, such as Spark's JVM, write stderr to a file."""
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
def following_spark(log: Path, bar: Bar) -> Iterator[Callable[[str], None]]:
    """Let a bar show Spark's tasks; gives a function that begins a step.

    `log` is where Spark writes.
    """
    if not bar.is_drawn:
        yield bar.step
        return
    since = 0
    done = threading.Event()

    def step(doing: str) -> None:
        nonlocal since
        since = log.stat().st_size if log.exists() else 0
        bar.step(doing)

    def follow() -> None:
        while not done.wait(_EVERY):
            tasks = latest_tasks(log, since)
            if tasks:
                bar.show_tasks(*tasks)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        yield step
    finally:
        done.set()
        follower.join()


def latest_tasks(log: Path, since: int) -> tuple[int, int] | None:
    """Return tasks done and tasks in all, as Spark's bar last had them after byte `since`."""
    if not log.exists():
        return None
    with open(log, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(since, end - 4096))
        bars = _BAR.findall(file.read())
    return (int(bars[-1][0]), int(bars[-1][1])) if bars else None
