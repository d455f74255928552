"""Covering: microseconds per subscribe and unsubscribe, against what a user would write instead.

    python -m benchmarks.covering [--size tiny|full] [--out FILE]

All on one core, in turns. Commands are made before: random boxes, of which 15% are unsubscribed at
random (Shen, Tirthapura and Aluru, V-A). All methods must forward the same rules. `tiny` only shows
that the benchmark runs.
"""

from __future__ import annotations

import argparse
import functools
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.covering_peers import NumpyCover, RTreeCover
from benchmarks.covering_rules import measure_lint, measure_nested
from benchmarks.covering_workloads import Run, check_same_decisions, make_commands, run, uniform
from benchmarks.tables import Section, show, write
from benchmarks.timing import (
    Runner,
    check,
    clock,
    log,
    package_versions,
    run_in_turns,
    use_one_core,
)
from tocsin.covering import CoverIndex

SIZES = {"tiny": (300, 600), "full": (10_000, 100_000)}
ATTRIBUTES = (3, 5, 8)
P = 0.15
POINTS = {"tiny": 50, "full": 2_000}  # of searches alone
FEWER = {"R*-tree": 200}  # points of a slow peer
TARGET_MICROSECONDS = {5: 50.0}  # a command with the k-d tree, by attributes
TARGET_RATIO = {8: 10.0}  # k-d over naive at the largest size, by attributes

METHODS: dict[str, Callable[[int], Any]] = {
    "k-d tree": lambda d: CoverIndex(d, "kd"),
    "Z-curve": lambda d: CoverIndex(d, "z"),
    "naive": lambda d: CoverIndex(d, "naive"),
    "NumPy": NumpyCover,
    "R*-tree": RTreeCover,
}
NOTES = (
    "Naive is Tocsin's: compiled, widest boxes first, 128 at a time with vector instructions.\n"
    "NumPy compares the columns of one array. The R*-tree is that of the package rtree, over\n"
    "points of twice as many dimensions, with its best nodes (16 or 100); it cannot stop at the\n"
    "first result."
)


def warm_up() -> None:
    """Compile all kernels."""
    for d in ATTRIBUTES:
        commands = make_commands(1_500, d, 0.3, 0)
        for name in ("k-d tree", "Z-curve", "naive"):
            run(commands, METHODS[name](d))


# ------------------------------------------------------------ commands


def measure_commands(sizes: tuple[int, ...]) -> Section:
    section = Section(
        "Microseconds per command",
        "attributes, commands", *METHODS, "naive / k-d", "forwarded", "target", "met",
        note=f"p = {P:.0%}, k = 1: reading the box, the relation graph and the index. The best of\n"
        f"up to three runs. {NOTES}\n"
        f"It runs the first {sizes[0]:,} commands only: its time per command grows with the rules.",
    )  # fmt: skip
    for d in ATTRIBUTES:
        for n in sizes:
            commands = make_commands(n, d, P, 1)
            names = [name for name in METHODS if name != "R*-tree" or n == sizes[0]]
            runs: dict[str, Run] = {}

            def once(name: str, d: int, commands: Any, runs: dict[str, Run]) -> tuple[float, float]:
                runs[name] = run(commands, METHODS[name](d))
                return 0.0, runs[name].seconds[-1]

            runners = {
                name: Runner(name, functools.partial(once, name, d, commands, runs))
                for name in names
            }
            log(f"{d} attributes, {n:,} commands")
            run_in_turns([runners[name] for name in names], most=3)
            for name in names:
                check_same_decisions(name, runs[name], runs["k-d tree"])
            micros = {name: 1e6 * runners[name].seconds / n for name in names}
            last = runs["k-d tree"]
            target, met = "", None
            if d in TARGET_MICROSECONDS:
                limit = TARGET_MICROSECONDS[d]
                target, met = f"k-d: below {limit:g}", micros["k-d tree"] < limit
            if d in TARGET_RATIO and n == sizes[-1]:
                least = TARGET_RATIO[d]
                target = f"naive / k-d: at least {least:g}"
                met = micros["naive"] / micros["k-d tree"] >= least
            section.add_row(
                f"{d}, {n:,}",
                *(f"{micros[name]:.1f}" if name in micros else "" for name in METHODS),
                f"{micros['naive'] / micros['k-d tree']:.1f}",
                f"{last.forwarded[-1] / last.rules[-1]:.0%}", target, met,
            )  # fmt: skip
    return section


# ------------------------------------------------------------ searches alone


def measure_searches(commands: int, points: int) -> Section:
    section = Section(
        f"Microseconds per search, after {commands:,} commands",
        "attributes, rules", *METHODS, "naive / k-d", "covered", "target", "met",
        note="`index.covering(point, 1)` for points of new random boxes: what a command has\n"
        f"besides is the same for all methods. {NOTES}\n"
        f"It is grown by insertion, and searched with {FEWER['R*-tree']} points at most.",
    )  # fmt: skip
    for d in ATTRIBUTES:
        left = {id: (low, high) for id, low, high in make_commands(commands, d, P, 1) if low}
        for id, low, _ in make_commands(commands, d, P, 1):
            if low is None:
                del left[id]
        boxes = list(zip(*uniform(points, d, np.random.default_rng(2)), strict=True))
        micros: dict[str, float] = {}
        expected: list[bool] = []
        for name, make in METHODS.items():
            log(f"{d} attributes, {len(left):,} rules: {name}")
            cover = make(d)
            for id, box in left.items():
                cover.index.add(id, cover.read(*box))
            prepared = [cover.read(*box) for box in boxes[: FEWER.get(name)]]
            found = [bool(cover.index.covering(point, 1)) for point in prepared]
            expected = expected or found
            check(f"{name} covers", found, expected[: len(found)])
            runner = Runner(name, functools.partial(search_all, cover.index.covering, prepared))
            run_in_turns([runner], most=3)
            micros[name] = 1e6 * runner.seconds / len(prepared)
        ratio = micros["naive"] / micros["k-d tree"]
        least = TARGET_RATIO.get(d)
        section.add_row(
            f"{d}, {len(left):,}", *(f"{micros[name]:.1f}" for name in METHODS), f"{ratio:.1f}",
            f"{np.mean(expected):.0%}", f"naive / k-d: at least {least:g}" if least else "",
            ratio >= least if least else None,
        )  # fmt: skip
    return section


def search_all(covering: Callable[[Any, int], list[Any]], points: list[Any]) -> tuple[float, float]:
    start = clock()
    for point in points:
        covering(point, 1)
    return 0.0, clock() - start


# ------------------------------------------------------------ targets


def summarize(sections: list[Section]) -> Section:
    """Return the targets that are missed, by whom and by how much."""
    summary = Section("Targets", "where", "target", "measured", "met")
    for section in sections:
        place = {heading: i for i, heading in enumerate(section.headings)}
        if "target" not in place:
            continue
        for row in section.rows:
            target = row[place["target"]]
            if target:
                heading = "naive / k-d" if target.startswith("naive") else section.headings[1]
                measured = row[place[heading]]
                summary.add_row(f"{section.title}; {row[0]}", target, measured, row[place["met"]])
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    arguments = parser.parse_args()
    lint = measure_lint(arguments.size)
    use_one_core()
    warm_up()
    sizes = SIZES[arguments.size]
    sections = [
        measure_commands(sizes),
        measure_searches(sizes[-1], POINTS[arguments.size]),
        lint,
        measure_nested(arguments.size),
    ]
    sections = [summarize(sections), *sections]
    show("Covering", sections)
    if arguments.out:
        head = [
            "# Benchmark: covering",
            "",
            "Generated by `python -m benchmarks.covering --out docs/benchmarks-covering.md`. One",
            "core unless it says all, the best of several repetitions in turns. Commands are made",
            "before: subscribes of random boxes, each side a random segment, and unsubscribes at",
            "random, as in Shen, Tirthapura and Aluru, V-A. Kernels are compiled before. All",
            "methods forward the same rules.",
            "",
            f"{platform.machine()}, Python {platform.python_version()}, "
            f"{package_versions('numpy numba rtree duckdb')}.",
        ]
        write(arguments.out, head, sections)


if __name__ == "__main__":
    main()
