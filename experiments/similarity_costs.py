"""The cost model of Grid-join: Kalashnikov, Efficient querying of evolving data, section 4.3.

Estimators are calibrated twice from the same measurements: as in the thesis, by solving as many
equations as there are coefficients, and as Tocsin does, by fitting coefficients that are not
negative.
"""

from __future__ import annotations

import functools
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from experiments import drawing
from experiments.similarity_cases import skewed
from experiments.verdicts import Finding, at_least, at_most
from tocsin.similarity import grid_costs
from tocsin.similarity.calibration import (
    COUNTS,
    EPSILONS,
    LARGE_CIRCLES,
    SMALL_CIRCLES,
    fit,
    time_best,
    time_phases,
)
from tocsin.similarity.calibration import (
    SIZES as GRID_SIZES,
)
from tocsin.similarity.cells import box_around
from tocsin.similarity.closeness import read_closeness
from tocsin.similarity.grid_join import GridJoin, upper_bound
from tocsin.similarity.output import count_pairs

SIZES: dict[str, dict[str, Any]] = {
    "tiny": dict(
        shrink=200, rounds=1, small=[10, 55, 100], large=[100, 550, 1000],
        epsilons=[0.001, 0.01, 0.02], across=[10, 70, 130, 190], near=[70, 75, 80],
    ),
    "full": dict(
        shrink=1, rounds=3, small=list(range(10, 101, 10)), large=list(range(100, 1001, 100)),
        epsilons=[0.001, 0.003, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.0175, 0.02],
        across=list(range(10, 191, 10)), near=list(range(70, 81)),
    ),
}  # fmt: skip
_LOOKED_UP = 20_000  # points, as in `tocsin calibrate`
EQUATIONS, FITTED, MEASURED = "18 equations", "fitted (Tocsin)", "measured"
Phases = tuple[float, float, float]  # seconds to initialise, to load, to process
_BOTH = (
    "Both estimators are calibrated from the same joins, those of the thesis: n of 10, 100, 200; "
    "epsilon of 0.001, 0.01, 0.02; 50,000 and 100,000 circles (for processing, points on either "
    "side of circles as large as a cell). One solves 18 equations, as in the thesis. The other is "
    "Tocsin's: coefficients are not negative, and have the least relative errors."
)


def measure_phases(n: int, epsilon: float, m: int, k: int, rounds: int) -> Phases:
    """Return the least seconds of each phase, over several rounds."""
    found = [time_phases(n, epsilon, m, k) for _ in range(rounds)]
    initialise, load, process = (min(each) for each in zip(*found, strict=True))
    return initialise, load, process


def solve(numbers: list[list[float]], seconds: list[float]) -> list[float]:
    """Return the coefficients that give exactly the measured seconds."""
    table = np.array(numbers)
    scale = np.abs(table).max(axis=0)
    return (np.linalg.solve(table / scale, np.array(seconds)) / scale).tolist()


@functools.cache
def calibrate(size: str) -> dict[str, dict[str, Any]]:
    """Measure the thesis' calibration points; return costs, found in both ways."""
    s = SIZES[size]
    counts = [m // s["shrink"] for m in COUNTS]
    k = _LOOKED_UP // s["shrink"]
    points = list(product(GRID_SIZES, EPSILONS, counts))
    loads = [measure_phases(*point, k, s["rounds"]) for point in points]
    numbers = [grid_costs.terms(*point).tolist() for point in points]
    initialise = np.polyfit([n for n, _, _ in points], [p[0] for p in loads], 2).tolist()
    branches = []
    for sizes, epsilons in (SMALL_CIRCLES, LARGE_CIRCLES):
        own = list(product(sizes, epsilons, counts))
        branches.append(
            (
                [grid_costs.terms(1 / n, epsilon, m).tolist() for n, epsilon, m in own],
                [measure_phases(*point, k, s["rounds"])[2] / k for point in own],
            )
        )
    costs = {}
    for name, find in ((EQUATIONS, solve), (FITTED, fit)):
        costs[name] = {
            "initialise": initialise,
            "load": find(numbers, [p[1] for p in loads]),
            "process": [find(*branch) for branch in branches],
            "dimension": 0.0,
            "sort": 0.0,  # not among the measured phases
        }
    return costs


def errors(estimated: list[float], measured: list[float]) -> list[float]:
    """Return relative errors, in per cent."""
    return [100 * abs(e / m - 1) for e, m in zip(estimated, measured, strict=True)]


# ------------------------------------------------------------ Figs. 4.7 and 4.8


def initialising(size: str) -> Finding:
    s = SIZES[size]
    rng = np.random.default_rng(0)
    points, closeness = rng.random((10, 2)), read_closeness(0.001, "l2", False)
    seconds: dict[str, dict[int, float]] = {"as shipped": {}, MEASURED: {}}
    for n in sorted({*s["small"], *s["large"]}):
        join = GridJoin(points, points, closeness, False, n)
        rounds = range(3 * s["rounds"])
        seconds["as shipped"][n] = min(time_best(join.initialise) for _ in rounds)
        seconds[MEASURED][n] = min(time_best(lambda n=n: np.full((4, n * n), 0)) for _ in rounds)
    # Three points calibrate a polynomial of degree two; the others judge it.
    chosen = [s["small"][0], s["large"][0], s["large"][-1]]
    curve = np.polyfit(chosen, [seconds[MEASURED][n] for n in chosen], 2)
    picture, axes = drawing.panels(2, "Initialising the grid (thesis, 4.7-4.8)")
    found = {}
    for ax, name in zip(axes, ("small", "large")):
        sizes = s[name]
        measured = [seconds[MEASURED][n] for n in sizes]
        estimated = np.polyval(curve, sizes).tolist()
        judged = [i for i, n in enumerate(sizes) if n not in chosen]
        own = errors([estimated[i] for i in judged], [measured[i] for i in judged])
        found[name] = float(np.median(own))
        series = {
            MEASURED: [1e6 * t for t in measured],
            "polynomial": [1e6 * max(t, 1e-9) for t in estimated],
            "as shipped": [1e6 * seconds["as shipped"][n] for n in sizes],
        }
        title = f"n from {sizes[0]} to {sizes[-1]}"
        x = ("grid size n", sizes)
        drawing.lines(ax, title, x, "microseconds", series, powers=False)
    last = s["large"][-1]
    return Finding(
        "join-initialising",
        "The cost of initialising a grid",
        "thesis, Figs. 4.7-4.8",
        "A polynomial of degree two over the grid size n estimates the time to initialise n x n "
        "cells very well, above all for large n.",
        "The polynomial goes through three measured points and is judged at the others. Measured "
        "is writing the four numbers of each cell. `as shipped` is what Grid-join really does: "
        "`np.zeros` leaves it to the operating system to clear pages when they are first written, "
        "so large grids are initialised while loading.",
        [
            at_most("n from 10 to 100: median error", found["small"], 20, "%"),
            at_most("n from 100 to 1000: median error", found["large"], 10, "%"),
            at_most("large n are estimated better", found["large"] / found["small"], 1),
            at_least(
                f"as shipped, the time is proportional to the cells, too (growth from n = 100 to "
                f"n = {last}, relative to 100)",
                seconds["as shipped"][last] / seconds["as shipped"][s["large"][0]] / 100,
                0.5,
                "",
            ),
        ],
        picture,
    )


# ------------------------------------------------------------ Fig. 4.9


class Judged(NamedTuple):
    """Measured and estimated seconds of loading, for some problems."""

    measured: list[float]
    estimated: dict[str, list[float]]

    def worst(self, name: str) -> float:
        """Return the greatest error, in per cent."""
        return max(errors(self.estimated[name], self.measured))

    def median(self, name: str) -> float:
        """Return the median error, in per cent."""
        return float(np.median(errors(self.estimated[name], self.measured)))


def judge_uniform(size: str, points: list[tuple[int, float, int]]) -> tuple[Judged, Judged]:
    """Measure and estimate loading and whole joins, by n, epsilon and m."""
    s, k = SIZES[size], _LOOKED_UP // SIZES[size]["shrink"]
    measured = [measure_phases(*point, k, s["rounds"]) for point in points]
    estimated = {
        name: [grid_costs.estimate(grid_costs.Problem(k, m, e, 2), n, own) for n, e, m in points]
        for name, own in calibrate(size).items()
    }
    return (
        Judged([p[1] for p in measured], {k: [c.load for c in v] for k, v in estimated.items()}),
        Judged([sum(p) for p in measured], {k: [c.total for c in v] for k, v in estimated.items()}),
    )


def judge_skewed(size: str) -> Judged:
    """Measure and estimate whole joins of skewed points, without sorting."""
    s, costs = SIZES[size], calibrate(size)
    a, b = skewed(75_000 // s["shrink"], 2)
    measured: list[float] = []
    estimated: dict[str, list[float]] = {name: [] for name in costs}
    for n, epsilon in product((50, 150), (0.002, 0.005, 0.01)):
        # The estimators are for circles relative to the domain.
        box = box_around(a, b)
        side = float(np.sqrt(np.prod(2 * box[1])))
        closeness = read_closeness(epsilon * side, "l2", False)
        join = GridJoin(a, b, closeness, False, n)

        def run(join: GridJoin = join) -> None:
            join.initialise()
            join.load()
            join.state[:] = 0
            count_pairs(join)

        measured.append(min(time_best(run) for _ in range(s["rounds"])))
        problem = grid_costs.describe(a, b, box, closeness.reach)
        for name, own in costs.items():
            estimated[name].append(grid_costs.estimate(problem, n, own).total)
    return Judged(measured, estimated)


def loading(size: str) -> Finding:
    s = SIZES[size]
    m = 75_000 // s["shrink"]
    wide = [0.03, 0.05, 0.1]
    beyond = [(150, e, m) for e in wide]
    beyond += [(20, 0.05, m), (20, 0.1, m), (400, 0.01, m), (150, 0.01, 4 * m)]
    inside, inside_total = judge_uniform(size, [(150, e, m) for e in s["epsilons"]])
    outside, outside_total = judge_uniform(size, beyond)
    clusters = judge_skewed(size)
    picture, axes = drawing.panels(2, "Loading circles into the grid (thesis, 4.9)", 4.4)
    epsilons = s["epsilons"] + wide
    for ax, title, judged, xs in (
        (axes[0], f"calibrated range: n = 150, m = {m:,}", inside, s["epsilons"]),
        (axes[1], "and beyond it", None, epsilons),
    ):
        series = {}
        for name in (MEASURED, EQUATIONS, FITTED):
            values = inside.measured if name == MEASURED else inside.estimated[name]
            if judged is None:
                more = outside.measured if name == MEASURED else outside.estimated[name]
                values = values + more[: len(wide)]
            # On a logarithmic scale, an estimate below 0 is at its bottom.
            series[name] = [1000 * max(v, 1e-5 if judged is None else 0.0) for v in values]
        ticks = {"powers": False, "zero": judged is not None}
        x = ("epsilon, in thousandths", [1000 * e for e in xs])
        drawing.lines(ax, title, x, "milliseconds", series, **ticks)
    return Finding(
        "join-loading",
        "The cost of loading a grid",
        "thesis, Fig. 4.9",
        "A polynomial with 18 coefficients, found by solving 18 equations, estimates the time to "
        "load circles within 3%.",
        f"{_BOTH} Beyond the range: epsilon of 0.03 to 0.1, n of 20 and 400, and {4 * m:,} "
        "circles. "
        "Skewed: five clusters, all phases together (without sorting), n of 50 and 150, with the "
        "density from a sample as Tocsin estimates it.",
        [
            at_most(f"{EQUATIONS}: greatest error in the range", inside.worst(EQUATIONS), 3, "%"),
            at_most(f"{FITTED}: greatest error in the range", inside.worst(FITTED), 3, "%"),
            at_most(f"{EQUATIONS}: median error in the range", inside.median(EQUATIONS), 10, "%"),
            at_most(f"{FITTED}: median error in the range", inside.median(FITTED), 10, "%"),
            *(
                at_most(f"{name}: {what}", judged.worst(name), limit, "%")
                for what, judged, limit in (
                    ("greatest error of all phases in the range", inside_total, 10),
                    ("greatest error beyond the range", outside, 50),
                    ("greatest error of all phases beyond the range", outside_total, 50),
                    ("greatest error of all phases, skewed", clusters, 50),
                )
                for name in (EQUATIONS, FITTED)
            ),
        ],
        picture,
    )


# ------------------------------------------------------------ Figs. 4.10 and 4.11


def total(size: str) -> Finding:
    s, costs = SIZES[size], calibrate(size)
    m, k, epsilon = 20_000 // s["shrink"], 10_000 // s["shrink"], 0.001
    problem = grid_costs.Problem(k, m, epsilon, 2)
    sizes = sorted({*s["across"], *s["near"]})
    measured = {n: sum(measure_phases(n, epsilon, m, k, s["rounds"])) for n in sizes}
    estimated = {
        name: {n: grid_costs.estimate(problem, n, own).total for n in sizes}
        for name, own in costs.items()
    }
    optimum = min(measured, key=measured.__getitem__)
    most = upper_bound(20_000, epsilon)
    chosen, lost, apart = {}, {}, {}
    for name, own in costs.items():
        best = grid_costs.find_minimum(
            lambda n, own=own: grid_costs.estimate(problem, n, own).total, 1, most
        )
        chosen[name] = best
        seconds = sum(measure_phases(best, epsilon, m, k, s["rounds"]))
        lost[name] = 100 * (seconds / measured[optimum] - 1)
        pairs = [estimated[name][n] for n in sizes], list(measured.values())
        apart[name] = float(np.median(errors(*pairs)))
    picture, axes = drawing.panels(2, "The whole join over the grid size (thesis, 4.10-4.11)", 4.4)
    for ax, xs in zip(axes, (s["across"], s["near"])):
        series = {MEASURED: [1000 * measured[n] for n in xs]}
        series |= {name: [1000 * max(own[n], 0) for n in xs] for name, own in estimated.items()}
        title = f"epsilon {epsilon}, m = {m:,}, k = {k:,}"
        drawing.lines(ax, title, ("grid size n", xs), "milliseconds", series, powers=False,
                      zero=True)  # fmt: skip
    choices = "; ".join(f"{name}: {n}" for name, n in chosen.items())
    return Finding(
        "join-grid-size",
        "The cost of a Grid-join over the grid size",
        "thesis, Figs. 4.10-4.11",
        "The estimated optimum of the grid size is 74, the measured one 73, and the times at both "
        "are almost equal.",
        f"{_BOTH} The sum of all phases but sorting, which does not depend on n. Grid sizes found "
        f"by bisection in [1, {most}]: {choices}. Fastest of the measured sizes: {optimum}.",
        [
            *(
                check
                for name in costs
                for check in (
                    at_most(f"{name}: the estimated optimum loses", lost[name], 5, "%"),
                    at_most(
                        f"{name}: the estimated optimum over the measured one, or the reverse",
                        max(chosen[name] / optimum, optimum / chosen[name]),
                        1.2,
                    ),
                    at_most(f"{name}: median error over n", apart[name], 10, "%"),
                )
            ),
        ],
        picture,
    )


FIGURES = {
    "join-initialising": initialising,
    "join-loading": loading,
    "join-grid-size": total,
}
