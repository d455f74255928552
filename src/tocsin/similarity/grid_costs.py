"""The cost model of Grid-join (thesis, 4.3), and the grid size that it finds cheapest.

The cost of a join is the sum of three estimators: of initialising the grid, a polynomial of the
grid size n; of loading m circles, a polynomial of n, epsilon and m; and of processing k points, a
polynomial of the width of a cell c = 1 / n, epsilon and m, times k, of which there are two, since
the lengths of lists follow different formulas for circles larger and smaller than a cell. Their
degrees are two in n, c and epsilon, and one in m. The coefficients are found by measuring as many
joins as there are (`calibration`). Lengths are relative to the domain.

The grid size is found by bisection (4.3.7.1). It needs a cost that first falls and then rises
("concave downwards" in the thesis).

Departures: coefficients are not negative, and are fitted by least squares of relative errors. The
18 equations of the thesis have an exact solution, which is useless outside of the range where it
was measured: at an epsilon of 0.1, five times the largest measured, its estimate of all phases is
off by a factor of more than 100 (the experiment `join-loading`). Sorting in Z-order is an estimator
of its own, linear in k + m. In more than two dimensions, comparing the entries of lists costs a
constant more for each. If points are not uniform, m is the number of uniform points as dense as `b`
is around points of `a`, from a sample.

The model is calibrated with joins of two sets. A self-join sorts its one set once, compares each
pair once and writes half as many pairs, so these phases are estimated at half. For processing this
is slightly too low, because skipped entries are still read. The grid size is chosen as for two
sets; it may be slightly too fine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tocsin.similarity import unit_costs
from tocsin.similarity.cells import Box, box_around
from tocsin.similarity.sampling import draw

_DENSITY = 16  # cells along each side, in which densities are compared; chosen
_SAMPLE = 1024  # points of each set for this


class Problem(NamedTuple):
    """What the cost of a Grid-join depends on, besides the grid size."""

    k: int  # points that are looked up
    m: int  # circles
    epsilon: float  # relative to the domain
    d: int
    density: float = 1.0  # of circles around the points, relative to uniform ones


class GridCosts(NamedTuple):
    """The estimators, in seconds; they print as numbers."""

    initialise: float
    sort: float
    load: float
    process: float

    @property
    def total(self) -> float:
        """The sum of all phases."""
        return sum(self)

    @property
    def total_of_self_join(self) -> float:
        """The same if both sets are one, with half of the sorting and of the processing."""
        return self.initialise + 0.5 * self.sort + self.load + 0.5 * self.process


def terms(x: float, epsilon: float, m: float) -> np.ndarray:
    """Return the 18 terms of a polynomial: degree two in x and epsilon, one in m."""
    powers = [x**i * epsilon**j for i in range(3) for j in range(3)]
    return np.array([*powers, *(m * power for power in powers)])


def is_large(n: int, epsilon: float) -> bool:
    """Return whether a circle, taken as a square, is at least as large as a cell."""
    return math.sqrt(math.pi) * epsilon >= 1 / n


def estimate(problem: Problem, n: int, costs: dict[str, Any] | None = None) -> GridCosts:
    """Estimate the phases of a join with n * n cells."""
    costs = costs or unit_costs.load()["grid"]
    k, m, epsilon, d, density = problem
    load = float(terms(n, epsilon, m) @ costs["load"])
    dense = m * density
    process = float(terms(1 / n, epsilon, dense) @ costs["process"][is_large(n, epsilon)])
    # Entries that are compared: circles that meet a cell.
    compared = dense * min((1 / n + 2 * epsilon) ** 2, 1.0)
    process += costs["dimension"] * max(d - 2, 0) * compared
    a, b, c = costs["initialise"]
    initialise = max(a * n * n + b * n + c, 0.0)
    return GridCosts(initialise, costs["sort"] * (k + m), load, k * process)


def find_minimum(cost: Callable[[int], float], low: int, high: int) -> int:
    """Return the leftmost minimum of a function that falls, then rises (4.3.7.1)."""
    while high - low >= 2:
        middle = (low + high) // 2
        if cost(middle - 1) <= cost(middle + 1):
            high = middle
        else:
            low = middle
    return low if cost(low) <= cost(high) else high


def find_size(problem: Problem) -> int:
    """Return the grid size with the lowest estimated cost."""
    from tocsin.similarity.grid_join import upper_bound

    costs = unit_costs.load()["grid"]
    most = upper_bound(problem.m, problem.epsilon)
    # Cells and entries take no more memory than a few times the points.
    most = min(most, 2 * math.isqrt(problem.m) + 1, int(2 / problem.epsilon) + 1)
    return find_minimum(lambda n: estimate(problem, n, costs).total, 1, max(most, 1))


def describe(a: np.ndarray, b: np.ndarray, box: Box, reach: float) -> Problem:
    """Return the problem of looking up `a` in a grid over `b`, which are about in the box."""
    half_low, half_span = box
    half_sides = half_span[:2].clip(np.finfo(float).tiny)
    # A domain of unit area: circles in a flat one are as large as in a square of its area.
    half_side = math.sqrt(float(half_sides[0])) * math.sqrt(float(half_sides[-1]))
    epsilon = min(max(0.5 * reach / half_side, 1e-9), 1.0)
    places = []
    for points in (draw(a, _SAMPLE), draw(b, _SAMPLE)):
        scaled = (0.5 * points[:, :2] - half_low[:2]) / half_span[:2].clip(np.finfo(float).tiny)
        # The box may be that of another sample: points beyond it count for its outermost cells.
        cells = (scaled * _DENSITY).clip(0, _DENSITY - 1).astype(np.int64)
        flat = cells[:, 0] * _DENSITY + cells[:, -1]
        places.append(np.bincount(flat, minlength=_DENSITY**2) / len(points))
    density = float((places[0] * places[1]).sum()) * _DENSITY**2
    return Problem(len(a), len(b), epsilon, a.shape[1], max(density, 1e-3))


def choose_size(a: np.ndarray, b: np.ndarray, reach: float) -> int:
    """Return the grid size for looking up `a` in a grid over `b`."""
    return find_size(describe(a, b, box_around(a, b), reach))
