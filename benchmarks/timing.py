"""Timing and checking that the benchmarks share: one core, the best of several, all in turn."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np

clock = time.perf_counter


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def touch(nbytes: int) -> float:
    """Write to memory, release it, and return the seconds.

    A virtual machine may give free memory back to its host after some seconds, and getting it
    again takes many times longer than matching does. What is to be measured in fresh memory, ours
    and a peer's alike, is measured after this: the pages are new, but the machine has them.
    """
    memory = np.empty(nbytes, np.uint8)
    start = clock()
    memory[::4096] = 1
    return clock() - start


def alone() -> None:
    """Hold this process to one core, and every library's pool to one thread."""
    for pool in ("POLARS_MAX", "RAYON_NUM", "OMP_NUM", "OPENBLAS_NUM", "TOKIO_WORKER"):
        os.environ[f"{pool}_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


# ------------------------------------------------------------ checking


@numba.njit("uint64(int64[::1], int64[::1], int64)")
def hashed(events, rules, first):
    """Return the sum of a hash of each pair: no order, and no two pairs are alike."""
    total = np.uint64(0)
    for i in range(events.shape[0]):
        z = (np.uint64(events[i] + first) << np.uint64(32)) + np.uint64(rules[i])
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        total += z ^ (z >> np.uint64(31))
    return total


@dataclass
class Digest:
    """The number of pairs, and the sum of their hashes."""

    pairs: int = 0
    total: int = 0

    def add(self, pairs: Iterable[tuple[Any, Any]], first: int = 0) -> None:
        for events, rules in pairs:
            for at in range(0, len(events), 1 << 22):
                part = slice(at, at + (1 << 22))
                both = (np.ascontiguousarray(a[part], np.int64) for a in (events, rules))
                self.total = (self.total + int(hashed(*both, first))) % 2**64
            self.pairs += len(events)


def check(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"{what}: {found} instead of {expected}")


def runs_as_pairs(offsets: np.ndarray, rules: np.ndarray) -> Iterator[tuple[Any, Any]]:
    """Yield events and rules of ids with offsets, some thousands of events at a time."""
    step = max(1, (len(offsets) - 1) * (1 << 22) // max(1, len(rules)))
    for first in range(0, len(offsets) - 1, step):
        some = offsets[first : first + step + 1]
        numbers = np.arange(first, first + len(some) - 1)
        yield np.repeat(numbers, np.diff(some)), rules[some[0] : some[-1]]


# ------------------------------------------------------------ timing


@dataclass
class Runner:
    """Something to be timed; `once` returns the seconds of taking the events and of the rest."""

    name: str
    once: Callable[[], tuple[float, float]]
    taken: tuple[float, float] = (0.0, float("inf"))
    room: int = field(default=0, kw_only=True)  # bytes of fresh memory that it will take

    @property
    def seconds(self) -> float:
        return sum(self.taken)

    def run(self) -> None:
        """Run once more, and keep the best."""
        touch(self.room)
        self.taken = min(self.taken, self.once(), key=sum)


def in_turn(runners: Sequence[Runner], most: int = 6) -> None:
    """Run each as often as five seconds allow, one after the other and then again.

    What takes less than five, three times at least: memory is sometimes slow. What is quick runs
    twice each time: the first finds the caches full of what ran before.
    """
    for done in range(1, most + 1):
        for runner in runners:
            seldom = done <= 3 and runner.seconds < 5
            if seldom or runner.seconds * done < 5 or runner.seconds == float("inf"):
                runner.run()
                if runner.seconds < 0.5:
                    runner.run()


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    start = clock()
    result = call()
    seconds = clock() - start
    del result
    return 0.0, seconds


def timed_blocks(blocks: Callable[[], Iterator[Any]]) -> tuple[float, float]:
    start = clock()
    for _ in blocks():
        pass
    return 0.0, clock() - start


def never() -> tuple[float, float]:
    return 0.0, float("inf")


def seconds_expected(run: Callable[[int], float], points: int, limit: float) -> tuple[float, int]:
    """Return what all points would take, from runs with few, and how many it is estimated from.

    A bound that is low enough will do. Else a line through two runs tells what every run costs
    from what every point does, and the longer the runs the better.
    """
    few, more = max(min(points, 64), points // 100), max(min(points, 64), points // 10)
    run(few)  # the first has to warm up
    took = run(few)
    if took * points / few <= limit:
        return took * points / few, few
    fewer = max(1, few // 4)
    rough = on_a_line((fewer, run(fewer)), (few, took), points)
    if rough > 2 * limit or more == few:
        return rough, few
    return on_a_line((few, took), (more, run(more)), points), more


def on_a_line(one: tuple[int, float], other: tuple[int, float], points: int) -> float:
    slope = max(0.0, (other[1] - one[1]) / (other[0] - one[0]))
    return other[1] + slope * (points - other[0])


def one_at_a_time(call: Callable[[Any], Any], events: Sequence[Any]) -> np.ndarray:
    """Return the seconds that each of the events takes alone."""
    for event in events[:100]:
        call(event)
    took = np.empty(len(events))
    for i, event in enumerate(events):
        start = clock()
        call(event)
        took[i] = clock() - start
    return took


def versions(names: str) -> str:
    found = []
    for name in names.split():
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} (not installed)")
    return ", ".join(found)
