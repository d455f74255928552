"""The data of chapter 4 of the thesis, and the joins that its figures compare.

A time covers everything: sorting, building and writing all pairs. Only RSJ has its trees built in
advance, as in the thesis. All joins of a case must find the same pairs: their number and the sum of
their hashes are compared.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.image_features import load_features, load_weather
from experiments.rtree_join import RTreeJoin, build_tree
from tocsin.similarity.blocks import BlockJoin
from tocsin.similarity.cells import CellJoin
from tocsin.similarity.closeness import read_closeness
from tocsin.similarity.ego import EgoJoin, EgoStarJoin
from tocsin.similarity.grid_join import GridJoin
from tocsin.similarity.output import Search, collect_pairs

SIZES = {
    "tiny": dict(shrink=250, seconds=0.0),
    "full": dict(shrink=1, seconds=0.2),  # repetitions of a join take so long together
}
RSJ, RESTRICTED, EGO, STAR, GRID, UNSORTED = (
    "RSJ", "RSJ, restricted", "EGO", "EGO*", "Grid", "Grid, unsorted",
)  # fmt: skip
CELLS, BLOCKS = "cells (Tocsin)", "blocks (Tocsin)"
SHIPPED = (CELLS, BLOCKS)
# Fewer than in the thesis (68,000 to 200,000): the time of EGO-join is quadratic.
_SKEWED, _NINE = 50_000, 25_000  # points of each set, 4-D skewed and 9-D
_SAMPLE = 256  # points, to find an epsilon for a selectivity
_ROUNDS = 3

Prepared = Callable[[float], Search]


@dataclass(frozen=True)
class Case:
    """Two sets (or one, for a self-join), and what to compare."""

    title: str
    a: np.ndarray
    b: np.ndarray | None
    epsilons: tuple[float, ...]
    methods: tuple[str, ...]

    def prepare(self, method: str) -> Prepared:
        """Return a function that sets up a join for an epsilon; that is part of its time."""
        same = self.b is None
        a, b = self.a, self.a if self.b is None else self.b
        if method in (RSJ, RESTRICTED):
            trees = build_tree(a), build_tree(b)
            return lambda epsilon: RTreeJoin(
                *trees, read_closeness(epsilon, "l2", False), same, method == RESTRICTED
            )
        joins: dict[str, Any] = {
            EGO: EgoJoin,
            STAR: EgoStarJoin,
            GRID: GridJoin,
            UNSORTED: functools.partial(GridJoin, z_sort=False),
            CELLS: CellJoin,
            BLOCKS: BlockJoin,
        }
        return lambda epsilon: joins[method](a, b, read_closeness(epsilon, "l2", False), same)


@dataclass(frozen=True)
class Measured:
    """The seconds of all methods and the selectivity, for each epsilon."""

    case: Case
    seconds: dict[str, list[float]]
    selectivity: list[float]  # pairs per point of a; in a self-join each point has itself

    def ratios(self, slow: str, fast: str) -> list[float]:
        """Return how many times as fast `fast` is as `slow`, for each epsilon."""
        both = zip(self.seconds[slow], self.seconds[fast], strict=True)
        return [a / b for a, b in both]


def digest(left: np.ndarray, right: np.ndarray) -> tuple[int, int]:
    """Return the number of pairs and the sum of their hashes, in any order."""
    mixed = left.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= right.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0x94D049BB133111EB)
    return len(left), int((mixed ^ (mixed >> np.uint64(29))).sum())


def measure(case: Case, seconds: float) -> Measured:
    """Time all methods of a case in turns; raise if they find other pairs."""
    prepared = {method: case.prepare(method) for method in case.methods}
    few = Case(case.title, case.a[:50], None if case.b is None else case.b[:50], (), ())
    for method in case.methods:  # loads the kernels
        collect_pairs(few.prepare(method)(case.epsilons[0]))
    times: dict[str, list[float]] = {method: [] for method in case.methods}
    selectivity = []
    for epsilon in case.epsilons:
        expected, best = None, dict.fromkeys(case.methods, float("inf"))
        spent = dict.fromkeys(case.methods, 0.0)
        for done in range(_ROUNDS):
            for method, set_up in prepared.items():
                if done and spent[method] > seconds:
                    continue
                start = time.perf_counter()
                pairs = collect_pairs(set_up(epsilon))
                elapsed = time.perf_counter() - start
                spent[method] += elapsed
                best[method] = min(best[method], elapsed)
                if done:
                    continue
                found = digest(*pairs)
                expected = expected or found
                if found != expected:
                    raise AssertionError(f"{case.title}: {method} finds other pairs")
        assert expected is not None
        for method in case.methods:
            times[method].append(best[method])
        each = expected[0] / len(case.a)
        selectivity.append(each if case.b is not None else 1 + 2 * each)
    return Measured(case, times, selectivity)


# ------------------------------------------------------------ data


def uniform(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    return rng.random((n, d)), rng.random((n, d))


def skewed(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of five clusters, normal with a standard deviation of 0.05.

    Coordinates outside of the unit cube are drawn again.
    """
    rng = np.random.default_rng(4)
    centres = rng.random((5, d))

    def draw() -> np.ndarray:
        own = centres[rng.integers(0, 5, n)]
        points = own + rng.normal(0, 0.05, (n, d))
        while (outside := (points < 0) | (points > 1)).any():
            points[outside] = own[outside] + rng.normal(0, 0.05, int(outside.sum()))
        return points

    return draw(), draw()


def epsilons_for(
    a: np.ndarray, b: np.ndarray | None, selectivities: tuple[float, ...]
) -> tuple[float, ...]:
    """Return the epsilons of selectivities, from the distances of a sample of points to all."""
    others = a if b is None else b
    rows = a[np.random.default_rng(1).choice(len(a), min(_SAMPLE, len(a)), replace=False)]
    most = min(int(max(selectivities) * len(rows)), len(rows) * len(others) - 1)
    nearest = np.empty(0)
    for row in rows:
        gaps = ((others - row) ** 2).sum(axis=1)
        nearest = np.sort(np.concatenate([nearest, gaps]))[: most + 1]
    places = [min(max(int(s * len(rows)), 1), most) for s in selectivities]
    return tuple(float(np.sqrt(nearest[at])) for at in places)


@functools.cache
def run_case(name: str, size: str) -> Measured:
    """Measure a case by its name, once."""
    return measure(make_case(name, size), SIZES[size]["seconds"])


def make_case(name: str, size: str) -> Case:
    """Return a case with the thesis' sizes, or fewer points and about the same selectivity."""
    shrink = SIZES[size]["shrink"]
    few = (0.1, 1.0, 10.0, 40.0)
    most = (EGO, STAR, GRID, *SHIPPED)
    if name in ("4-D uniform", "4-D uniform, 200,000"):
        n = (200_000 if "200" in name else 100_000) // shrink
        epsilons = (0.03, 0.05, 0.07, 0.09) if "200" in name else (0.02, 0.04, 0.06, 0.08, 0.1)
        # Fewer points need a larger epsilon for the same selectivity.
        wider = tuple(e * shrink**0.25 for e in epsilons)
        methods = (
            most[1:] if "200" in name else (RSJ, RESTRICTED, EGO, STAR, GRID, UNSORTED, *SHIPPED)
        )
        return Case(f"4-D uniform, {n:,} x {n:,}", *uniform(n, 4), wider, methods)
    if name == "4-D skewed":
        a, b = skewed(_SKEWED // shrink, 4)
        return Case(f"4-D skewed, {len(a):,} x {len(b):,}", a, b, epsilons_for(a, b, few), most)
    if name == "9-D uniform":
        a, b = uniform(_NINE // shrink, 9)
        epsilons = epsilons_for(a, b, few[:3])
        return Case(
            f"9-D uniform, {len(a):,} x {len(b):,}", a, b, epsilons, (RSJ, RESTRICTED, *most)
        )
    if name == "9-D skewed":
        a, b = skewed(_NINE // shrink, 9)
        epsilons = epsilons_for(a, b, few)
        return Case(f"9-D skewed, {len(a):,} x {len(b):,}", a, b, epsilons, most)
    return _make_real(name, shrink, most)


def _make_real(name: str, shrink: int, methods: tuple[str, ...]) -> Case:
    """Return a self-join of real data."""
    if name == "4-D weather":
        points = load_weather()[::shrink]
    else:
        moments, histograms = load_features(shrink)
        d = int(name.split("-")[0])
        points = np.ascontiguousarray((moments if d <= 9 else histograms)[:, :d])
    if points.shape[1] > 9:
        methods = tuple(m for m in methods if m != GRID)
        points = points[::2]  # EGO-join takes long
    epsilons = epsilons_for(points, None, (2.0, 5.0, 20.0, 60.0))
    return Case(f"{name}, {len(points):,} with itself", points, None, epsilons, methods)
