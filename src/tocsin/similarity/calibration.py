"""Measures what the steps of joins cost on this machine (`tocsin calibrate`).

Each method's time is linear in a few numbers of a join (`costs.price`). Joins of different sizes
are measured, and the unit costs are those that fit them best. The estimators of Grid-join are
polynomials, and as many joins are measured as they have coefficients (thesis, 4.3.5).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from tocsin.similarity import grid_costs
from tocsin.similarity.blocks import BlockJoin
from tocsin.similarity.cells import CellJoin
from tocsin.similarity.closeness import Closeness, read_closeness
from tocsin.similarity.costs import QUICK, Shares, count_steps
from tocsin.similarity.exhaustive import ExhaustiveJoin
from tocsin.similarity.grid_join import GridJoin
from tocsin.similarity.output import Output, collect_pairs, count_pairs

# The thesis' points for loading. Those for processing are within the same ranges, and on either
# side of where a circle is as large as a cell.
SIZES, EPSILONS, COUNTS = (10, 100, 200), (0.001, 0.01, 0.02), (50_000, 100_000)
SMALL_CIRCLES = (10, 50, 100), (0.001, 0.003, 0.005)
LARGE_CIRCLES = (100, 150, 200), (0.01, 0.015, 0.02)
_LOOKED_UP = 20_000  # points
_REPETITIONS = 3


def calibrate(shrink: int = 1) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield costs, step by step, with a word on what was measured; an n-th of the points is used.

    The last one has all.
    """
    costs: dict[str, Any] = {}
    for method in _CASES:
        costs[method] = _measure_method(method, shrink)
        yield method, costs
    costs["pair"] = _measure_pair(shrink)
    yield "pairs", costs
    costs["grid"] = _measure_grid(shrink)
    yield "grid", costs


def time_best(run: Callable[[], Any], prepare: Callable[[], Any] = lambda: None) -> float:
    """Return the shortest of some times of a run, in seconds, each after it was prepared."""
    best = np.inf
    for _ in range(_REPETITIONS):
        prepare()
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def fit(numbers: list[list[float]], seconds: list[float]) -> list[float]:
    """Return non-negative unit costs whose relative errors are least.

    A cost that would be negative is 0, and the others are fitted again.
    """
    table, times = np.array(numbers), np.array(seconds)
    weighted = table / times[:, None]
    kept = np.ones(table.shape[1], bool)
    while True:
        scale = np.abs(weighted[:, kept]).max(axis=0)
        found, *_ = np.linalg.lstsq(weighted[:, kept] / scale, np.ones(len(times)), rcond=None)
        costs = np.zeros(table.shape[1])
        costs[kept] = found / scale
        if (costs >= 0).all() or kept.sum() == 1:
            return costs.clip(0).tolist()
        kept[costs.argmin()] = False


def _points(n: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((n, d))


# Dimensions and epsilons, each with few and with many points.
_CASES: dict[str, tuple[list[tuple[int, float]], tuple[int, int]]] = {
    "exhaustive": ([(2, 0.001), (8, 0.001), (32, 0.001)], (200, 2_000)),
    "cells": (
        [
            (2, 0.002),
            (2, 0.01),
            (3, 0.02),
            (3, 0.05),
            (4, 0.06),
            (4, 0.1),
            (6, 0.15),
            (9, 0.3),
            (16, 0.5),
        ],
        (5_000, 50_000),
    ),
    "blocks": (
        [(2, 0.01), (4, 0.06), (6, 0.15), (9, 0.3), (16, 0.5), (32, 0.9)],
        (2_000, 30_000),
    ),
}
_METHODS: dict[str, Any] = {
    "exhaustive": ExhaustiveJoin,
    "cells": CellJoin,
    "blocks": BlockJoin,
}


def _measure_method(method: str, shrink: int) -> list[float]:
    steps, seconds = [], []
    cases, sizes = _CASES[method]
    for (d, epsilon), size in product(cases, sizes):
        n, closeness = size // shrink + 20, read_closeness(epsilon, "l2", False)
        arguments = _points(n, d, 0), _points(n, d, 1), closeness
        steps.append(count_steps(method, Shares(*arguments, *QUICK), same=False))
        seconds.append(time_best(partial(_count, method, *arguments)))
    return fit(steps, seconds)


def _count(method: str, a: np.ndarray, b: np.ndarray, closeness: Closeness) -> int:
    return count_pairs(_METHODS[method](a, b, closeness, same=False))


def _measure_pair(shrink: int) -> float:
    """Return what it costs to write a pair, besides finding it."""
    n = 200_000 // shrink + 100
    a, b, closeness = _points(n, 2, 0), _points(n, 2, 1), read_closeness(0.005, "l2", False)
    counted = time_best(lambda: count_pairs(CellJoin(a, b, closeness, False)))
    written = time_best(lambda: collect_pairs(CellJoin(a, b, closeness, False)))
    return max(written - counted, 0.0) / count_pairs(CellJoin(a, b, closeness, False))


def _measure_grid(shrink: int) -> dict[str, Any]:
    looked_up = _LOOKED_UP // shrink + 100
    phases = {
        (n, epsilon, m): time_phases(n, epsilon, m, looked_up)
        for n, epsilon, m in product(SIZES, EPSILONS, [m // shrink for m in COUNTS])
    }
    numbers = [grid_costs.terms(*point).tolist() for point in phases]
    load = fit(numbers, [seconds for _, seconds, _ in phases.values()])
    initialise = np.polyfit([n for n, _, _ in phases], [p[0] for p in phases.values()], 2)
    process = []
    for sizes, epsilons in (SMALL_CIRCLES, LARGE_CIRCLES):
        numbers, seconds = [], []
        for n, epsilon, m in product(sizes, epsilons, [m // shrink for m in COUNTS]):
            numbers.append(grid_costs.terms(1 / n, epsilon, m).tolist())
            seconds.append(time_phases(n, epsilon, m, looked_up)[2] / looked_up)
        process.append(fit(numbers, seconds))
    m = COUNTS[0] // shrink
    wide, narrow = (time_phases(50, 0.005, m, looked_up, d)[2] for d in (10, 3))
    compared = looked_up * m * (1 / 50 + 0.01) ** 2
    points = _points(m, 2, 0)
    closeness = read_closeness(1e-6, "l2", False)
    sorting, without = (
        time_best(partial(GridJoin, points, points, closeness, True, 10, z_sort))
        for z_sort in (True, False)
    )
    return {
        "initialise": initialise.tolist(),
        "load": load,
        "process": process,
        "dimension": max((wide - narrow) / 7, 0.0) / compared,
        "sort": max(sorting - without, 0.0) / m,
    }


def time_phases(n: int, epsilon: float, m: int, k: int, d: int = 2) -> tuple[float, float, float]:
    """Return the seconds to initialise a grid, to load m circles, and to process k points."""
    closeness = read_closeness(epsilon, "l2", False)
    a, b = _points(k, d, 0), _points(m, d, 1)
    search = _Phases(a, b, closeness, n)
    return (
        time_best(search.initialise),
        time_best(search.load, prepare=search.initialise),
        time_best(search.process),
    )


class _Phases(GridJoin):
    """A Grid-join with the set to look up on the left, whichever is smaller."""

    def __init__(self, a: np.ndarray, b: np.ndarray, closeness: Closeness, size: int):
        super().__init__(b, b, closeness, False, size)
        self._a, self._rows = self._sort(a, True)

    def process(self) -> None:
        self.state[:] = 0
        room = 1 << 22
        out = Output(np.empty(room, np.int64), np.empty(room, np.int64), self.state)
        while not self.fill(out):
            self.state[0] = 0
