"""Matching large batches on two threads instead of one.

    python -m benchmarks.threads [--size tiny|full] [--only W2,W5,B,T20,T1000] [--out FILE]

The workloads are those of `benchmarks.range_workloads` and `benchmarks.boolean_workloads`, and
rules that each compute a term of their own (T). One and two threads take turns; their results are
compared, including the order. `tiny` only shows that the benchmark runs; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin
from benchmarks.boolean_workloads import World, family
from benchmarks.range_workloads import WORKLOADS, point_table
from benchmarks.tables import Section, format_time, show, write
from benchmarks.timing import compile_kernels, log, package_versions, time_call, touch_memory

THREADS = 2
TARGET = 1.7  # speed-up with two threads
REPETITIONS = 5
SIZES: dict[str, dict[str, tuple[int, int]]] = {  # events, rules
    "tiny": {"W2": (10_000, 500), "W5": (10_000, 1_000), "B": (3_000, 1_000),
             "T20": (40_000, 20), "T1000": (10_000, 100)},
    "full": {"W2": (1_000_000, 25_000), "W5": (1_000_000, 256_000), "B": (20_000, 1_000_000),
             "T20": (40_000, 20), "T1000": (40_000, 1_000)},
}  # fmt: skip


def measure(section: Section, task: str, run: Callable[[int], Any], room: int = 0) -> None:
    """Time `run(threads)`, taking turns; `room` is the size of a result in bytes."""
    check(task, run(1), run(THREADS))
    times: dict[int, list[float]] = {1: [], THREADS: []}
    for _ in range(REPETITIONS):
        for threads, seconds in times.items():
            touch_memory(room)
            seconds.append(time_call(lambda threads=threads: run(threads))[1])
    ratios = [one / several for one, several in zip(*times.values(), strict=True)]
    one, several = (median(seconds) for seconds in times.values())
    section.add_row(
        task, format_time(one), format_time(several), f"{one / several:.2f} x",
        f"{min(ratios):.2f} to {max(ratios):.2f}", f"at least {TARGET} x", one / several >= TARGET,
    )  # fmt: skip


def check(task: str, one: Any, several: Any) -> None:
    """Raise unless two results are equal, including their order."""
    if isinstance(one, np.ndarray):
        assert np.array_equal(one, several), task
        return
    assert np.array_equal(one.offsets, several.offsets), task
    assert np.array_equal(one.rules, several.rules), task
    if one.scores is not None:
        assert np.array_equal(one.scores, several.scores), task
    assert one.counters == several.counters, task


def measure_ranges(section: Section, name: str, events: int, rules_count: int) -> None:
    workload = WORKLOADS[name](events, rules_count)
    rules = tocsin.Rules(workload.schema)
    rules.add_many(workload.rule_table())
    points = point_table(workload.points)
    task = f"{name}, {events:,} events x {rules_count:,} rules"
    pairs = int(rules.count(points).sum())
    measure(section, f"{task}: count", lambda t: rules.count(points, threads=t), 8 * events)
    if pairs < 1 << 28:  # W5 has thousands of matches per event
        room = 8 * events + 4 * pairs
        measure(section, f"{task}: match", lambda t: rules.match(points, threads=t), room)


def measure_boolean(section: Section, name: str, events: int, rules_count: int) -> None:
    world = World(family(name, zipf=False))
    rules = tocsin.Rules(world.schema)
    rules.add_many(world.rule_table(world.rules(rules_count, weighted=True)))
    table = world.event_table(world.events(events))
    task = f"{name}, {events:,} events x {rules_count:,} rules"
    room = 4 * int(rules.count(table).sum())
    measure(section, f"{task}: match", lambda t: rules.match(table, threads=t), room)
    measure(section, f"{task}: top 5", lambda t: rules.top(table, 5, threads=t))


def measure_terms(section: Section, events: int, rules_count: int) -> None:
    """Rules such as `text LIKE '%abc%def%'`, over words of eight letters."""
    rng = np.random.default_rng(1)
    letters = rng.choice(list("abcdefgh"), (max(5_000, rules_count), 8))
    words = np.array(["".join(word) for word in letters])
    rules = tocsin.Rules({"text": "category"})
    for i, word in enumerate(words[:rules_count].tolist()):
        rules.add(i, f"text LIKE '%{word[:3]}%{word[5:]}%'")
    table = pa.table({"text": rng.choice(words, events)})
    task = f"LIKE, {events:,} events x {rules_count:,} rules"
    measure(section, f"{task}: match", lambda t: rules.match(table, threads=t))
    measure(section, f"{task}: count", lambda t: rules.count(table, threads=t))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, help="also write the table as Markdown")
    parser.add_argument("--only", help="comma-separated: W2, W5, B, T20, T1000")
    arguments = parser.parse_args()
    sizes = SIZES[arguments.size]
    compile_kernels(arguments.size)
    section = Section(
        "Two threads instead of one", "task", "one thread", "two threads", "speed-up", "range",
        "target", "met",
    )  # fmt: skip
    for name in arguments.only.split(",") if arguments.only else sizes:
        log(name)
        if name.startswith("T"):
            measure_terms(section, *sizes[name])
        else:
            (measure_ranges if name in WORKLOADS else measure_boolean)(section, name, *sizes[name])
        gc.collect()
    show(f"Threads, size {arguments.size}", [section])
    if arguments.out:
        head = [
            "# Benchmark: threads",
            "",
            "Generated by `make bench` (benchmarks/threads.py). The workloads are those of",
            "[benchmarks-range.md](benchmarks-range.md) and",
            "[benchmarks-boolean.md](benchmarks-boolean.md), with more events, and rules that each",
            "test a text by a LIKE of their own. Events are Arrow",
            f"tables. Times are medians of {REPETITIONS} repetitions, in which one and two threads",
            "take turns; the range shows the lowest and the highest speed-up of a repetition.",
            "Matches, their order and the counters are the same with one thread and with two.",
            "",
            f"Size {arguments.size}; {platform.machine()}, {len(os.sched_getaffinity(0))} cores,",
            f"Python {platform.python_version()}, {package_versions('numpy numba pyarrow')}.",
        ]
        write(arguments.out, head, [section])


if __name__ == "__main__":
    main()
