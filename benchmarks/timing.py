"""Time and check calls: on one core, the best of several repetitions, taking turns."""

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

import tocsin
from tocsin import jit

clock = time.perf_counter


def log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def compile_kernels(size: str) -> None:
    """Compile what matching calls before it is measured; at size tiny, first calls do.

    Compiling all takes minutes if the cache has none of them, and tiny figures mean nothing.
    """
    if size != "tiny":
        tocsin.Rules({"x": "number"})  # imports all kernels
        jit.compile_all(("tocsin.model", "tocsin.index", "tocsin.engine"))


def touch_memory(nbytes: int) -> float:
    """Write to memory, release it, and return the seconds.

    A virtual machine may return free memory to its host after some seconds, and getting it back
    takes many times longer than matching. So calls that need new memory, Tocsin's and a peer's, are
    measured after this call: the pages are new to the process, but the machine has them.
    """
    memory = np.empty(nbytes, np.uint8)
    start = clock()
    memory[::4096] = 1
    return clock() - start


def use_one_core() -> None:
    """Pin this process to one core, and limit all thread pools to one thread."""
    for pool in ("POLARS_MAX", "RAYON_NUM", "OMP_NUM", "OPENBLAS_NUM", "TOKIO_WORKER"):
        os.environ[f"{pool}_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


# ------------------------------------------------------------ checking


@numba.njit("uint64(int64[::1], int64[::1], int64)")
def hash_pairs(events, rules, first):
    """Return the sum of the hashes of all pairs, which does not depend on their order."""
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
            for start in range(0, len(events), 1 << 22):
                part = slice(start, start + (1 << 22))
                both = (np.ascontiguousarray(a[part], np.int64) for a in (events, rules))
                self.total = (self.total + int(hash_pairs(*both, first))) % 2**64
            self.pairs += len(events)


def check(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"{what}: {found} instead of {expected}")


def runs_as_pairs(offsets: np.ndarray, rules: np.ndarray) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of events and rules from ids with offsets, about four million at a time."""
    step = max(1, (len(offsets) - 1) * (1 << 22) // max(1, len(rules)))
    for first in range(0, len(offsets) - 1, step):
        block = offsets[first : first + step + 1]
        events = np.arange(first, first + len(block) - 1)
        yield np.repeat(events, np.diff(block)), rules[block[0] : block[-1]]


# ------------------------------------------------------------ timing


@dataclass
class Runner:
    """A call to time; `once` returns the seconds for loading the events and for the rest."""

    name: str
    once: Callable[[], tuple[float, float]]
    best: tuple[float, float] = (0.0, float("inf"))
    room: int = field(default=0, kw_only=True)  # bytes of new memory that it needs

    @property
    def seconds(self) -> float:
        return sum(self.best)

    def run(self) -> None:
        """Run once more, and keep the best time."""
        touch_memory(self.room)
        self.best = min(self.best, self.once(), key=sum)


def run_in_turns(runners: Sequence[Runner], most: int = 6) -> None:
    """Run all runners in turns, each as often as five seconds allow.

    Runners that take less than five seconds run at least three times, because memory is sometimes
    slow. Fast ones run twice per turn, because the first run finds the caches of another runner.
    """
    for turn in range(1, most + 1):
        for runner in runners:
            is_early = turn <= 3 and runner.seconds < 5
            if is_early or runner.seconds * turn < 5 or runner.seconds == float("inf"):
                runner.run()
                if runner.seconds < 0.5:
                    runner.run()


def time_call(call: Callable[[], Any]) -> tuple[float, float]:
    start = clock()
    result = call()
    seconds = clock() - start
    del result
    return 0.0, seconds


def time_blocks(blocks: Callable[[], Iterator[Any]]) -> tuple[float, float]:
    start = clock()
    for _ in blocks():
        pass
    return 0.0, clock() - start


def never_run() -> tuple[float, float]:
    return 0.0, float("inf")


def estimate_seconds(run: Callable[[int], float], points: int, limit: float) -> tuple[float, int]:
    """Return the estimated seconds for all points, and the number of points it is based on.

    If a proportional estimate is within the limit, it is returned: it is an upper bound. Otherwise
    a line through two runs separates the cost of a run from the cost of a point.
    """
    few, more = max(min(points, 64), points // 100), max(min(points, 64), points // 10)
    run(few)  # warm up
    seconds = run(few)
    if seconds * points / few <= limit:
        return seconds * points / few, few
    fewer = max(1, few // 4)
    rough = extrapolate((fewer, run(fewer)), (few, seconds), points)
    if rough > 2 * limit or more == few:
        return rough, few
    return extrapolate((few, seconds), (more, run(more)), points), more


def extrapolate(one: tuple[int, float], other: tuple[int, float], points: int) -> float:
    slope = max(0.0, (other[1] - one[1]) / (other[0] - one[0]))
    return other[1] + slope * (points - other[0])


def time_each(call: Callable[[Any], Any], events: Sequence[Any]) -> np.ndarray:
    """Return the seconds of one call per event."""
    for event in events[:100]:
        call(event)
    seconds = np.empty(len(events))
    for i, event in enumerate(events):
        start = clock()
        call(event)
        seconds[i] = clock() - start
    return seconds


def package_versions(names: str) -> str:
    versions = []
    for name in names.split():
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"{name} (not installed)")
    return ", ".join(versions)
