"""Runs for the figures on covering: methods, sizes, and the machine's warm-up.

All methods get the same commands, seed by seed, and must forward the same rules. Each run of a seed
is a round: ratios are those of runs with the same commands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.covering_peers import NumpyCover, RTreeCover, Scan
from benchmarks.covering_workloads import (
    Command,
    Run,
    TimedCover,
    check_same_decisions,
    make_commands,
    run,
)

KD, Z, NAIVE, OWN_NAIVE = "k-d tree", "Z-curve", "naive", "naive, widest first (Tocsin)"
NUMPY, RTREE = "NumPy", "rtree"

METHODS: dict[str, Callable[[int], Any]] = {
    KD: lambda d: TimedCover(d, "kd"),
    Z: lambda d: TimedCover(d, "z"),
    NAIVE: lambda d: TimedCover(d, Scan),
    OWN_NAIVE: lambda d: TimedCover(d, "naive"),
    NUMPY: NumpyCover,
    RTREE: RTreeCover,
}

HOW = (
    "Commands are those of V-A: a subscribe of a box each of whose sides is a random segment, or, "
    "with probability p, an unsubscribe of a rule chosen at random. They are generated "
    "beforehand. Searches are compiled by Numba, except those of NumPy and rtree. All methods get "
    "the same commands, and all forward the same rules. The relation graph and the ids are in "
    "Python, which takes the same time for every method; so times inside the index, without that, "
    "are given beside total times."
)
# What is not as in the paper.
IN_PYTHON = "ids and the relation graph are in Python"
KD_SEARCH = "the k-d tree also prunes by the corners of points"
CHOSEN = (
    f"{KD_SEARCH}, and the Z-curve jumps from key to key rather than go through cells, where the "
    "paper omits its details; limits of buckets and bits of cells are our choice"
)
FIRST_SEED = 100


@dataclass(frozen=True)
class Size:
    seeds: int
    commands: int  # of figures 8 and 9
    marks: tuple[int, ...]  # of figures 10 to 12
    few: int  # commands of slow peers, and of sweeps that are ours


SIZES = {
    "full": Size(3, 60_000, tuple(range(10_000, 100_001, 10_000)), 20_000),
    "tiny": Size(2, 600, (200, 400, 600), 300),
}


@functools.cache
def warm_up(d: int) -> None:
    """Compile all kernels, also those that only large sets need."""
    commands = make_commands(1_500, d, 0.3, 0)
    for method in (KD, Z, NAIVE, OWN_NAIVE):
        run(commands, METHODS[method](d), k=2)


def run_all(
    commands: list[Command], d: int, methods: tuple[str, ...], **options: Any
) -> dict[str, Run]:
    """Run each method; raise unless they forward the same rules."""
    warm_up(d)
    runs: dict[str, Run] = {}
    for name in methods:
        runs[name] = run(commands, METHODS[name](d), **options)
        check_same_decisions(name, runs[name], runs[methods[0]])
    return runs
