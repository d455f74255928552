"""The data of chapter 4 of the thesis, and the joins that its figures compare.

A time covers everything: sorting, building and writing all pairs. Only RSJ has its trees built in
advance, as in the thesis. Joins take turns in rounds. All joins of a case must find the same pairs:
their number and the sum of their hashes are compared.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments.image_features import load_features, load_weather
from experiments.measuring import LEAST_ROUNDS
from experiments.rtree_join import RTreeJoin, build_tree
from tocsin.similarity.blocks import BlockJoin
from tocsin.similarity.cells import CellJoin
from tocsin.similarity.closeness import read_closeness
from tocsin.similarity.ego import EgoJoin, EgoStarJoin
from tocsin.similarity.grid_join import GridJoin
from tocsin.similarity.output import Search, collect_pairs

SHRINK = {"tiny": 250, "full": 1}  # how many times as few points there are
RSJ, RESTRICTED, EGO, STAR, GRID, UNSORTED = (
    "RSJ", "RSJ, restricted", "EGO", "EGO*", "Grid", "Grid, unsorted",
)  # fmt: skip
CELLS, BLOCKS = "cells (Tocsin)", "blocks (Tocsin)"
SHIPPED = (CELLS, BLOCKS)
# Fewer than in the thesis (68,000 to 200,000): the time of EGO-join is quadratic.
_SKEWED, _NINE = 50_000, 15_000  # points of each set, 4-D skewed and 9-D
SAMPLE = 256  # points, to find an epsilon for a selectivity
COUNTED_LISTS = "Grid's lists are counted first, and never grow"

Prepared = Callable[[float], Search]


@dataclass(frozen=True)
class Case:
    """Two sets (or one, for a self-join), and what to compare."""

    title: str
    a: np.ndarray
    b: np.ndarray | None
    epsilons: tuple[float, ...]
    methods: tuple[str, ...]
    few: Mapping[str, int] = field(default_factory=dict)  # epsilons of methods that are slow

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
    """The seconds of all methods in each round and the selectivity, for each epsilon."""

    case: Case
    seconds: dict[str, list[np.ndarray]]
    selectivity: list[float]  # pairs per point of a; in a self-join each point has itself

    def ratios(self, slow: str, fast: str, part: slice = slice(None)) -> dict[str, np.ndarray]:
        """Return how many times as fast `fast` is as `slow`, for each epsilon, round by round."""
        name = self.case.title.split(",")[0]
        each = zip(self.case.epsilons, self.seconds[slow], self.seconds[fast])
        return {
            f"{slow} over {fast}, {name}, epsilon {epsilon:.3g}": a / b
            for epsilon, a, b in list(each)[part]
        }


def digest(left: np.ndarray, right: np.ndarray) -> tuple[int, int]:
    """Return the number of pairs and the sum of their hashes, in any order."""
    mixed = left.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= right.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0x94D049BB133111EB)
    return len(left), int((mixed ^ (mixed >> np.uint64(29))).sum())


def measure(case: Case) -> Measured:
    """Time all methods of a case in turns; raise if they find other pairs."""
    prepared = {method: case.prepare(method) for method in case.methods}
    small = Case(case.title, case.a[:50], None if case.b is None else case.b[:50], (), ())
    for method in case.methods:  # loads the kernels
        collect_pairs(small.prepare(method)(case.epsilons[0]))
    times: dict[str, list[np.ndarray]] = {method: [] for method in case.methods}
    selectivity = []
    for i, epsilon in enumerate(case.epsilons):
        expected = None
        rounds: dict[str, list[float]] = {
            method: [] for method in case.methods if i < case.few.get(method, len(case.epsilons))
        }
        for done in range(LEAST_ROUNDS):
            for method in rounds:
                start = time.perf_counter()
                pairs = collect_pairs(prepared[method](epsilon))
                rounds[method].append(time.perf_counter() - start)
                if done:
                    continue
                found = digest(*pairs)
                expected = expected or found
                if found != expected:
                    raise AssertionError(f"{case.title}: {method} finds other pairs")
        assert expected is not None
        for method, seconds in rounds.items():
            times[method].append(np.array(seconds))
        each = expected[0] / len(case.a)
        selectivity.append(each if case.b is not None else 1 + 2 * each)
    return Measured(case, times, selectivity)


# ------------------------------------------------------------ data


def uniform(n: int, d: int, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
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
    a: np.ndarray, b: np.ndarray | None, selectivities: tuple[float, ...], sample: int = SAMPLE
) -> tuple[float, ...]:
    """Return the epsilons of selectivities, from the distances of a sample of points to all."""
    others = a if b is None else b
    rows = a[np.random.default_rng(1).choice(len(a), min(sample, len(a)), replace=False)]
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
    return measure(make_case(name, SHRINK[size]))


def make_case(name: str, shrink: int) -> Case:
    """Return a case with the thesis' sizes, or fewer points and about the same selectivity."""
    few = (0.1, 2.0, 40.0)  # pairs per point
    most = (EGO, STAR, GRID, *SHIPPED)
    if name in ("4-D uniform", "4-D uniform, 200,000"):
        n = (200_000 if "200" in name else 100_000) // shrink
        epsilons = (0.03, 0.05, 0.08) if "200" in name else (0.02, 0.05, 0.1)
        # Fewer points need a larger epsilon for the same selectivity.
        wider = tuple(e * shrink**0.25 for e in epsilons)
        methods = (
            most[1:] if "200" in name else (RSJ, RESTRICTED, EGO, STAR, GRID, UNSORTED, *SHIPPED)
        )
        return Case(f"4-D uniform, {n:,} x {n:,}", *uniform(n, 4), wider, methods, {UNSORTED: 2})
    if name == "4-D skewed":
        a, b = skewed(_SKEWED // shrink, 4)
        return Case(f"4-D skewed, {len(a):,} x {len(b):,}", a, b, epsilons_for(a, b, few), most)
    if name == "9-D uniform":
        a, b = uniform(_NINE // shrink, 9)
        epsilons = epsilons_for(a, b, (0.1, 1.0, 10.0))
        return Case(f"9-D uniform, {len(a):,} x {len(b):,}", a, b, epsilons, (RSJ, *most))
    if name == "9-D skewed":
        a, b = skewed(_NINE // shrink, 9)
        epsilons = epsilons_for(a, b, few)
        return Case(f"9-D skewed, {len(a):,} x {len(b):,}", a, b, epsilons, most)
    return _make_real(name, shrink, most)


def _make_real(name: str, shrink: int, methods: tuple[str, ...]) -> Case:
    """Return a self-join of real data."""
    d = int(name.split("-")[0])
    if name == "4-D weather":
        points = load_weather()[::shrink]
    else:
        moments, histograms = load_features(shrink)
        points = np.ascontiguousarray((moments if d <= 9 else histograms)[:, :d])
    if d > 9:
        methods = tuple(m for m in methods if m != GRID)
        points = points[::3]  # EGO-join takes long
    epsilons = epsilons_for(points, None, (2.0, 10.0, 60.0))
    return Case(f"{name}, {len(points):,} with itself", points, None, epsilons, methods)
