"""What a terminal shows while Spark works: how many of its tasks are done.

Spark tells that to no one but its own console bar, unless one asks its context, which Spark
Connect does not have. So its JVM gets a file for its stderr, which keeps the start-up chatter
off the terminal, and is told to draw the bar; a thread reads the bar's latest numbers there
and draws ours. Should the bar look different one day, ours shows the time and no tasks.
Nothing is drawn where stderr is not a terminal.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

_EVERY = 0.2  # seconds
_BAR = re.compile(rb"\[Stage \d+:[^\]]*\((\d+) \+ \d+\) / (\d+)\]")


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
def shown(log: Path) -> Iterator[Callable[[str], None]]:
    """Show what is being done; gives a function to be told so. `log` is where Spark writes."""
    if not sys.stderr.isatty():
        yield lambda doing: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    # Of its own, since stderr is led elsewhere while Spark starts.
    with open(os.dup(2), "w") as terminal:
        bar = Progress(
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
        line = bar.add_task("", total=None, tasks="")
        since = 0
        done = threading.Event()

        def say(doing: str) -> None:
            nonlocal since
            since = log.stat().st_size if log.exists() else 0
            bar.reset(line, total=None, description=doing, tasks="")

        def follow() -> None:
            while not done.wait(_EVERY):
                tasks = latest_tasks(log, since)
                if tasks:
                    words = f"{tasks[0]} of {tasks[1]} tasks"
                    bar.update(line, completed=tasks[0], total=tasks[1], tasks=words)

        follower = threading.Thread(target=follow, daemon=True)
        with bar:
            follower.start()
            try:
                yield say
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
