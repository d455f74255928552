"""Estimates the pairs, the seconds and the memory of a join before it runs.

Numbers come from small samples of both sets: the share of pairs that are close, of those in
neighbouring cells, and of the blocks that a point cannot exclude. Times are linear in these
numbers, with unit costs that were measured (`unit_costs`). Grid-join has the cost model of the
thesis (`grid_costs`). EGO-join and EGO*-join are not priced: they compare about as many points as
`blocks` does, one by one, and so are never the cheapest.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.errors import SimilarityWarning
from tocsin.similarity import grid_costs, unit_costs
from tocsin.similarity.blocks import BlockJoin, build_tree, sort_into_blocks
from tocsin.similarity.cells import box_around, make_grid
from tocsin.similarity.closeness import L1, L2, LINF, Closeness
from tocsin.similarity.lanes import FAN, RUN
from tocsin.similarity.output import count_pairs
from tocsin.similarity.sampling import draw

QUICK = 128, 2048  # points of a and of b, to choose a method; chosen: takes three milliseconds
_THOROUGH = 2048, 1 << 16  # to estimate the number of pairs
_FEW = 1_000_000  # pairs of points, which take less time than an estimate
PRICED = "exhaustive", "cells", "blocks", "grid"  # methods
_USUAL = 100  # pairs per point; more are "unlikely" to be meant (thesis, 4.4.1)


@dataclass(frozen=True)
class Estimate:
    """What a join is expected to find and to take."""

    method: str  # the cheapest
    seconds: float
    pairs: float
    nbytes: float  # of the working memory and the pairs
    selectivity: float  # pairs per point of a
    seconds_by_method: dict[str, float]

    def __str__(self) -> str:
        by_method = ", ".join(f"{name} {s:.3g} s" for name, s in self.seconds_by_method.items())
        return (
            f"about {self.pairs:,.0f} pairs ({self.selectivity:.3g} per point of a) in "
            f"{self.seconds:.3g} s and {self.nbytes / 1e6:,.0f} MB with {self.method} ({by_method})"
        )


class Shares:
    """What samples tell about a join of `a` and `b`."""

    def __init__(self, a: np.ndarray, b: np.ndarray, closeness: Closeness, rows: int, columns: int):
        self.n, self.m, self.d = len(a), len(b), a.shape[1]
        self._a, self._b = draw(a, rows, seed=1), draw(b, columns, seed=2)
        self._closeness = closeness
        self._box = box_around(self._a, self._b)
        self._whole = a, b
        # Another seed for each set: in a self-join few points meet themselves.
        compared = len(self._a) * len(self._b)
        search = BlockJoin(self._a, self._b, closeness, same=False)
        self.pairs = self.n * self.m * count_pairs(search) / compared

    def candidates(self) -> tuple[int, float]:
        """Return the dimensions of a grid of cells, and how many points are in neighbouring ones.

        A cell and its neighbours are three wide. So these are about the points that differ by less
        than one and a half cells in every dimension.
        """
        grid, _ = make_grid(self._box, self._closeness.reach)
        a, b = (
            (0.5 * points[:, grid.dimension] - grid.half_low) * grid.inverse
            for points in (self._a, self._b)
        )
        near = count_pairs(BlockJoin(a, b, Closeness(1.5, LINF, 1.5, 1.5), same=False))
        return len(grid.dimension), self.m * near / (len(a) * len(b))

    def visited(self) -> float:
        """Return how many nodes and blocks a point visits in a tree of blocks of `b`.

        The share of blocks that a point cannot exclude falls with the number of blocks, about as a
        power of it: it is measured for two trees over samples, and extrapolated.
        """
        blocks = max(self.m / FAN, 1.0)
        shares, sizes = [], []
        for part in (8, 1):
            points = np.ascontiguousarray(self._b[::part])
            shares.append(self._share_visited(points))
            sizes.append(max(len(points) / FAN, 1.0))
        if blocks <= sizes[1] or sizes[1] <= sizes[0]:
            share = shares[1]
        else:
            slope = math.log(shares[1] / shares[0]) / math.log(sizes[1] / sizes[0])
            share = shares[1] * (blocks / sizes[1]) ** min(slope, 0.0)
        share = max(share, 1 / blocks)
        # Each block is reached through nodes whose boxes are larger, so that more are visited.
        upper = min(share * 4, 1.0) * blocks / FAN
        return share * blocks + upper + 1

    def _share_visited(self, points: np.ndarray) -> float:
        tree = build_tree(points, sort_into_blocks(points))
        count = -(-len(points) // FAN)
        nodes = -(-count // FAN)
        lows, highs = (
            boxes[: nodes * self.d * FAN].reshape(nodes, self.d, FAN).transpose(0, 2, 1)
            .reshape(-1, self.d)[:count]
            for boxes in (tree.low, tree.high)
        )  # fmt: skip
        gaps = np.zeros((len(self._a), count))
        for k in range(self.d):
            own = self._a[:, k, None]
            difference = np.maximum(np.maximum(lows[None, :, k] - own, own - highs[None, :, k]), 0)
            if self._closeness.metric == L2:
                gaps += difference * difference
            elif self._closeness.metric == L1:
                gaps += difference
            else:
                np.maximum(gaps, difference, out=gaps)
        return max(float((gaps < self._closeness.bound).mean()), 0.5 / gaps.size)

    @property
    def problem(self) -> grid_costs.Problem:
        """The problem that Grid-join would solve, with the smaller set in the grid."""
        a, b = self._whole
        if len(a) < len(b):
            a, b = b, a
        return grid_costs.describe(a, b, self._box, self._closeness.reach)


def count_steps(method: str, shares: Shares, same: bool) -> list[float]:
    """Return how often each step of a method is done, in the order of its unit costs."""
    n, m, d = shares.n, shares.m, shares.d
    half = 0.5 if same else 1.0
    if method == "exhaustive":
        return [1.0, half * n * m, half * n * m * d]
    if method == "cells":
        dimensions, candidates = shares.candidates()
        runs = 3 ** (dimensions - 1)
        compared = half * n * (runs + candidates / RUN)
        return [1.0, half * (n + m), half * n * runs, compared, compared * d]
    return count_block_steps(shares, same, shares.visited())


def count_block_steps(shares: Shares, same: bool, visited: float) -> list[float]:
    """Return the same for blocks, of which a point visits so many."""
    n, m, d = shares.n, shares.m, shares.d
    half = 0.5 if same else 1.0
    visits = half * n * visited
    return [1.0, half * (n + m) * d * math.log2(max(m, 2)), visits, visits * d]


def price(method: str, shares: Shares, same: bool) -> float:
    """Return the seconds that a method would take."""
    if method == "grid":
        problem = shares.problem
        phases = grid_costs.estimate(problem, grid_costs.find_size(problem))
        return phases.total_of_self_join if same else phases.total
    costs: dict[str, Any] = unit_costs.load()
    writing = (0.5 if same else 1.0) * shares.pairs * costs["pair"]
    return float(np.dot(count_steps(method, shares, same), costs[method])) + writing


def least_price(method: str, shares: Shares, same: bool) -> float:
    """Return a lower bound of a method's price, for which nothing is sampled."""
    costs: dict[str, Any] = unit_costs.load()
    if method == "grid":
        return float(costs["grid"]["sort"]) * (0.5 if same else 1.0) * (shares.n + shares.m)
    if method == "blocks":  # as each point visits a block at least
        return float(np.dot(count_block_steps(shares, same, visited=1.0), costs["blocks"]))
    return 0.0


def choose_method(a: np.ndarray, b: np.ndarray, closeness: Closeness, same: bool) -> str:
    """Return the cheapest method."""
    if len(a) * len(b) <= _FEW:
        return "blocks"
    seconds: dict[str, float] = {}
    with np.errstate(over="ignore"):  # gaps of points far apart
        shares = Shares(a, b, closeness, *QUICK)
        for method in PRICED:
            if least_price(method, shares, same) < min(seconds.values(), default=math.inf):
                seconds[method] = price(method, shares, same)
    return min(seconds, key=seconds.__getitem__)


def estimate_join(a: np.ndarray, b: np.ndarray, closeness: Closeness) -> Estimate:
    """Estimate a join; warn if epsilon cannot be meant."""
    with np.errstate(over="ignore"):  # gaps of points far apart
        shares = Shares(a, b, closeness, *_THOROUGH)
        quick = Shares(a, b, closeness, *QUICK)
        seconds = {method: price(method, quick, same=False) for method in PRICED}
    method = min(seconds, key=seconds.__getitem__)
    selectivity = shares.pairs / len(a)
    working = {
        "exhaustive": 0,
        "cells": 8.0 * len(b) * a.shape[1] + 32.0 * (len(a) + len(b)),
        "blocks": 8.0 * (len(a) + 2 * len(b)) * a.shape[1] + 8.0 * (len(a) + len(b)),
        "grid": 8.0 * (len(a) + len(b)) * (a.shape[1] + 2),
    }[method]
    nbytes = working + 16 * shares.pairs
    if selectivity > _USUAL or selectivity < 1 / _USUAL:
        with np.errstate(over="ignore"):
            usual = find_epsilon(a, b, closeness)
        many = "more than can be meant" if selectivity > _USUAL else "hardly any"
        advice = f"; epsilon {usual:.3g} would give about one" if math.isfinite(usual) else ""
        warnings.warn(
            f"epsilon {closeness.epsilon:.6g} gives about {selectivity:.3g} pairs per point of a, "
            f"{many}{advice}",
            SimilarityWarning,
            stacklevel=3,
        )
    return Estimate(method, seconds[method], shares.pairs, nbytes, selectivity, seconds)


def find_epsilon(a: np.ndarray, b: np.ndarray, closeness: Closeness) -> float:
    """Return the epsilon that would give about one pair per point of `a`, from a sample.

    The distance to the nearest of m' sampled points is the epsilon of one pair per point of m'
    points. To reach those of all m points, it is extrapolated by the number of dimensions that
    the data fill, which distances to the nearest of m' and of m' / 16 points tell.
    """
    rows, columns = draw(a, QUICK[0], seed=1), draw(b, 16 * QUICK[1], seed=2)
    few = columns[::16]
    far, near = (
        float(np.median(_nearest(rows, points, closeness.metric))) for points in (few, columns)
    )
    if near <= 0 or far <= near or len(b) <= len(columns):
        return near
    slope = math.log(far / near) / math.log(len(columns) / len(few))
    return near * (len(columns) / len(b)) ** slope


def _nearest(a: np.ndarray, b: np.ndarray, metric: int) -> np.ndarray:
    """Return the distance from each point to the nearest other one that is not equal to it."""
    nearest = np.full(len(a), np.inf)
    b = np.ascontiguousarray(b)
    for i, point in enumerate(a):
        differences = np.abs(b - point)
        if metric == L2:
            distances = np.sqrt((differences * differences).sum(axis=1))
        elif metric == L1:
            distances = differences.sum(axis=1)
        else:
            distances = differences.max(axis=1)
        positive = distances[distances > 0]
        if len(positive):
            nearest[i] = positive.min()
    return nearest
