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
from experiments.measuring import LEAST_ROUNDS
from experiments.similarity_cases import COUNTED_LISTS, skewed
from experiments.verdicts import Finding, at_least, at_most, main, spread
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
        shrink=200, small=[10, 55, 100], large=[100, 550, 1000],
        epsilons=[0.001, 0.01, 0.02], across=[10, 70, 130, 190], near=[70, 75, 80],
    ),
    "full": dict(
        shrink=1, small=list(range(10, 101, 10)), large=list(range(100, 1001, 100)),
        epsilons=[0.001, 0.003, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.0175, 0.02],
        across=list(range(10, 191, 10)), near=list(range(70, 81)),
    ),
}  # fmt: skip
_LOOKED_UP = 20_000  # points, as in `tocsin calibrate`
_WIDE = [0.03, 0.05, 0.1]  # epsilons beyond those that the estimators are calibrated with
_LOAD, _PROCESS = 1, 2  # rows of phases
EQUATIONS, FITTED, MEASURED = "18 equations", "fitted (Tocsin)", "measured"
Point = tuple[int, float, int, int]  # grid size n, epsilon, circles m, points k
Rounds = dict[str, np.ndarray]  # what was found in each round, by the point of a sweep
_BOTH = (
    "Both estimators are calibrated from the same joins, those of the thesis: n of 10, 100, 200; "
    "epsilon of 0.001, 0.01, 0.02; 50,000 and 100,000 circles (for processing, points on either "
    "side of circles as large as a cell). One solves 18 equations, as in the thesis. The other is "
    "Tocsin's: coefficients are not negative, and have the least relative errors. All joins, those "
    f"for calibration included, take turns in {LEAST_ROUNDS} rounds; a time is the shortest of "
    "three calls, and the estimators are calibrated from the medians of the rounds."
)


# ------------------------------------------------------------ measuring and calibrating


def _calibration_points(size: str) -> tuple[list[Point], list[list[Point]]]:
    """Return the thesis' points for loading, and those for both cases of processing."""
    counts = [m // SIZES[size]["shrink"] for m in COUNTS]
    k = _LOOKED_UP // SIZES[size]["shrink"]
    loads = [(*point, k) for point in product(GRID_SIZES, EPSILONS, counts)]
    branches = [
        [(*point, k) for point in product(sizes, epsilons, counts)]
        for sizes, epsilons in (SMALL_CIRCLES, LARGE_CIRCLES)
    ]
    return loads, branches


def _judged_points(size: str) -> tuple[list[Point], list[Point]]:
    """Return points at which loading is judged, in the calibrated range and beyond it."""
    s = SIZES[size]
    m, k = 75_000 // s["shrink"], _LOOKED_UP // s["shrink"]
    inside = [(150, e, m, k) for e in s["epsilons"]]
    beyond = [(150, e, m, k) for e in _WIDE]
    beyond += [(20, 0.05, m, k), (20, 0.1, m, k), (400, 0.01, m, k), (150, 0.01, 4 * m, k)]
    return inside, beyond


def _total_points(size: str) -> dict[int, Point]:
    """Return the points at which the whole join is judged, by grid size."""
    s = SIZES[size]
    m, k = 20_000 // s["shrink"], 10_000 // s["shrink"]
    return {n: (n, 0.001, m, k) for n in sorted({*s["across"], *s["near"]})}


@functools.cache
def measure_all(size: str) -> dict[Point, np.ndarray]:
    """Measure all points of this chapter's figures, [phases, rounds] each."""
    loads, branches = _calibration_points(size)
    inside, beyond = _judged_points(size)
    points = [*loads, *branches[0], *branches[1], *inside, *beyond, *_total_points(size).values()]
    return measure_phases(list(dict.fromkeys(points)))


def measure_phases(points: list[Point]) -> dict[Point, np.ndarray]:
    """Return the seconds of each phase in each round, of points that take turns."""
    rounds = [[time_phases(*point) for point in points] for _ in range(LEAST_ROUNDS)]
    return dict(zip(points, np.transpose(rounds, (1, 2, 0)), strict=True))


def solve(numbers: list[list[float]], seconds: list[float]) -> list[float]:
    """Return the coefficients that give exactly the measured seconds."""
    table = np.array(numbers)
    scale = np.abs(table).max(axis=0)
    return (np.linalg.solve(table / scale, np.array(seconds)) / scale).tolist()


@functools.cache
def calibrate(size: str) -> dict[str, dict[str, Any]]:
    """Return costs, found in both ways."""
    medians = {point: np.median(times, axis=1) for point, times in measure_all(size).items()}
    loads, branches = _calibration_points(size)
    sizes = [n for n, *_ in loads]
    initialise = np.polyfit(sizes, [medians[point][0] for point in loads], 2).tolist()
    numbers = [grid_costs.terms(n, epsilon, m).tolist() for n, epsilon, m, _ in loads]
    processing = [
        (
            [grid_costs.terms(1 / n, epsilon, m).tolist() for n, epsilon, m, _ in own],
            [medians[point][_PROCESS] / point[-1] for point in own],
        )
        for own in branches
    ]
    costs = {}
    for name, find in ((EQUATIONS, solve), (FITTED, fit)):
        costs[name] = {
            "initialise": initialise,
            "load": find(numbers, [medians[point][_LOAD] for point in loads]),
            "process": [find(*branch) for branch in processing],
            "dimension": 0.0,
            "sort": 0.0,  # not among the measured phases
        }
    return costs


def errors(estimated: float | np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Return relative errors, in per cent."""
    return 100 * np.abs(estimated / measured - 1)


# ------------------------------------------------------------ Figs. 4.7 and 4.8


_INITIALISED = 9  # rounds; they take little time


def initialising(size: str) -> Finding:
    s = SIZES[size]
    rng = np.random.default_rng(0)
    points, closeness = rng.random((10, 2)), read_closeness(0.001, "l2", False)
    sizes = sorted({*s["small"], *s["large"]})
    joins = {n: GridJoin(points, points, closeness, False, n) for n in sizes}
    rounds: dict[str, dict[int, list[float]]] = {
        name: {n: [] for n in sizes} for name in ("as shipped", MEASURED)
    }
    for _ in range(_INITIALISED):
        for n in sizes:
            rounds["as shipped"][n].append(time_best(joins[n].initialise))
            rounds[MEASURED][n].append(time_best(lambda n=n: np.full((4, n * n), 0)))
    seconds = {
        name: {n: np.array(times) for n, times in own.items()} for name, own in rounds.items()
    }
    # Three points calibrate a polynomial of degree two; the others judge it.
    chosen = [s["small"][0], s["large"][0], s["large"][-1]]
    curves = np.polyfit(chosen, [seconds[MEASURED][n] for n in chosen], 2)  # [3, rounds]
    estimated = {n: curves[0] * n**2 + curves[1] * n + curves[2] for n in sizes}
    picture, axes = drawing.panels(
        2, "Initialising the grid (thesis, 4.7-4.8)", 4.4,
        f"n x n cells of four numbers; the polynomial goes through n = {chosen[0]}, {chosen[1]} "
        f"and {chosen[2]}; {_INITIALISED} rounds",
    )  # fmt: skip
    found: dict[str, Rounds] = {}
    for ax, name in zip(axes, ("small", "large")):
        found[name] = {
            f"n = {n}": errors(estimated[n], seconds[MEASURED][n])
            for n in s[name]
            if n not in chosen
        }
        series = {
            MEASURED: [1e6 * seconds[MEASURED][n] for n in s[name]],
            "polynomial": [1e6 * np.maximum(estimated[n], 1e-9) for n in s[name]],
            "as shipped": [1e6 * seconds["as shipped"][n] for n in s[name]],
        }
        title = f"n from {s[name][0]} to {s[name][-1]}"
        drawing.lines(ax, title, ("grid size n", s[name]), "microseconds", series, powers=False)
    middle = {name: np.median(list(own.values()), axis=0) for name, own in found.items()}
    first, last = s["large"][0], s["large"][-1]
    return Finding(
        "join-initialising",
        "The cost of initialising a grid",
        "thesis, Figs. 4.7-4.8",
        "A polynomial of degree two over the grid size n estimates the time to initialise n x n "
        "cells very well, above all for large n.",
        "The polynomial goes through three measured points and is judged at the others, round by "
        "round; a time is the shortest of three calls. Measured "
        "is writing the four numbers of each cell. `as shipped` is what Grid-join really does: "
        "`np.zeros` leaves it to the operating system to clear pages when they are first written, "
        "so large grids are initialised while loading. The thesis gives no number for \"very "
        "well\"; we take 20%.",
        [
            main(
                at_most(
                    "the polynomial estimates the time within 20%, for every n",
                    found["small"] | found["large"],
                    20,
                    "%",
                )
            ),
            at_most("n from 100 to 1000, within 10%", found["large"], 10, "%"),
            at_most(
                "large n are estimated better (median error, over that of small n)",
                middle["large"] / middle["small"],
                1,
            ),
            at_least(
                f"as shipped, the time is proportional to the cells, too (growth from n = {first} "
                f"to n = {last}, over that of the cells)",
                seconds["as shipped"][last]
                / seconds["as shipped"][first]
                / ((last / first) ** 2),
                0.5,
                "",
            ),
        ],
        picture,
        differs="four numbers are written for each cell; the thesis does not say what is, nor "
        "which n calibrated its polynomial",
    )  # fmt: skip


# ------------------------------------------------------------ Fig. 4.9


class Judged(NamedTuple):
    """Measured and estimated seconds, for some problems."""

    measured: dict[str, np.ndarray]  # in each round
    estimated: dict[str, dict[str, float]]

    def errors(self, name: str) -> Rounds:
        """Return the errors of an estimator, in per cent."""
        return {
            problem: errors(self.estimated[name][problem], times)
            for problem, times in self.measured.items()
        }


def judge_uniform(size: str, points: list[Point]) -> tuple[Judged, Judged]:
    """Measure and estimate loading and whole joins."""
    times = measure_all(size)
    names = {point: f"n = {point[0]}, epsilon {point[1]}, m = {point[2]:,}" for point in points}
    estimated = {
        name: {
            names[n, e, m, k]: grid_costs.estimate(grid_costs.Problem(k, m, e, 2), n, own)
            for n, e, m, k in points
        }
        for name, own in calibrate(size).items()
    }
    return (
        Judged(
            {names[point]: times[point][_LOAD] for point in points},
            {name: {at: c.load for at, c in own.items()} for name, own in estimated.items()},
        ),
        Judged(
            {names[point]: times[point].sum(axis=0) for point in points},
            {name: {at: c.total for at, c in own.items()} for name, own in estimated.items()},
        ),
    )


def judge_skewed(size: str) -> Judged:
    """Measure and estimate whole joins of skewed points, without sorting."""
    s, costs = SIZES[size], calibrate(size)
    a, b = skewed(75_000 // s["shrink"], 2)
    measured: dict[str, np.ndarray] = {}
    estimated: dict[str, dict[str, float]] = {name: {} for name in costs}
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

        at = f"n = {n}, epsilon {epsilon}"
        measured[at] = np.array([time_best(run) for _ in range(LEAST_ROUNDS)])
        problem = grid_costs.describe(a, b, box, closeness.reach)
        for name, own in costs.items():
            estimated[name][at] = grid_costs.estimate(problem, n, own).total
    return Judged(measured, estimated)


def loading(size: str) -> Finding:
    s = SIZES[size]
    m = 75_000 // s["shrink"]
    inside_points, beyond_points = _judged_points(size)
    inside, inside_total = judge_uniform(size, inside_points)
    beyond, beyond_total = judge_uniform(size, beyond_points)
    clusters = judge_skewed(size)
    picture, axes = drawing.panels(
        2, "Loading circles into the grid (thesis, 4.9)", 4.4,
        f"n = 150, {m:,} circles; calibrated with n of 10 to 200, epsilon of 0.001 to 0.02, 50,000 "
        "and 100,000 circles",
    )  # fmt: skip
    for ax, title, judged, xs in (
        (axes[0], "calibrated range", [inside], s["epsilons"]),
        (axes[1], "and beyond it", [inside, beyond], s["epsilons"] + _WIDE),
    ):
        is_inside = len(judged) == 1
        series: dict[str, list[Any]] = {}
        for name in (MEASURED, EQUATIONS, FITTED):
            values: list[Any] = []
            for each in judged:
                values += (each.measured if name == MEASURED else each.estimated[name]).values()
            # On a logarithmic scale, an estimate below 0 is at its bottom.
            least = 0.0 if is_inside else 1e-5
            series[name] = [1000 * np.maximum(v, least) for v in values[: len(xs)]]
        x = ("epsilon, in thousandths", [1000 * e for e in xs])
        drawing.lines(ax, title, x, "milliseconds", series, powers=False, zero=is_inside)
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
            main(
                at_most(
                    f"{EQUATIONS}: error at every epsilon in the range",
                    inside.errors(EQUATIONS),
                    3,
                    "%",
                )
            ),
            at_most(
                f"{FITTED}: error at every epsilon in the range", inside.errors(FITTED), 3, "%"
            ),
            *(
                at_most(f"{name}: {what}", judged.errors(name), limit, "%")
                for what, judged, limit in (
                    ("error of all phases in the range", inside_total, 10),
                    ("error beyond the range", beyond, 50),
                    ("error of all phases beyond the range", beyond_total, 50),
                    ("error of all phases, skewed", clusters, 50),
                )
                for name in (EQUATIONS, FITTED)
            ),
        ],
        picture,
        differs=COUNTED_LISTS,
    )


# ------------------------------------------------------------ Figs. 4.10 and 4.11


def total(size: str) -> Finding:
    s, costs = SIZES[size], calibrate(size)
    points = _total_points(size)
    _, epsilon, m, k = next(iter(points.values()))
    problem = grid_costs.Problem(k, m, epsilon, 2)
    measured = {n: measure_all(size)[point].sum(axis=0) for n, point in points.items()}
    estimated = {
        name: {n: grid_costs.estimate(problem, n, own).total for n in points}
        for name, own in costs.items()
    }
    sizes = np.array(list(points))
    optima = sizes[np.argmin(list(measured.values()), axis=0)]  # in each round
    optimum = min(measured, key=lambda n: float(np.median(measured[n])))
    most = upper_bound(20_000, epsilon)
    chosen = {
        name: grid_costs.find_minimum(
            lambda n, own=own: grid_costs.estimate(problem, n, own).total, 1, most
        )
        for name, own in costs.items()
    }
    # The sizes that are compared take turns once more.
    again = measure_phases([(n, epsilon, m, k) for n in dict.fromkeys([optimum, *chosen.values()])])
    seconds = {point[0]: times.sum(axis=0) for point, times in again.items()}
    picture, axes = drawing.panels(
        2, "The whole join over the grid size (thesis, 4.10-4.11)", 4.4,
        f"epsilon {epsilon}, m = {m:,}, k = {k:,}, uniform; all phases but sorting; the thesis' "
        "optimum: n = 74 estimated, 73 measured",
    )  # fmt: skip
    for ax, xs in zip(axes, (s["across"], s["near"])):
        series: dict[str, list[Any]] = {MEASURED: [1000 * measured[n] for n in xs]}
        series |= {name: [1000 * max(own[n], 0) for n in xs] for name, own in estimated.items()}
        title = f"n from {xs[0]} to {xs[-1]}"
        drawing.lines(ax, title, ("grid size n", xs), "milliseconds", series, powers=False,
                      zero=True)  # fmt: skip
    choices = "; ".join(f"{name}: {n}" for name, n in chosen.items())
    factors = {name: np.maximum(chosen[name] / optima, optima / chosen[name]) for name in costs}
    middle = (1 + most) / 2
    return Finding(
        "join-grid-size",
        "The cost of a Grid-join over the grid size",
        "thesis, Figs. 4.10-4.11",
        "The estimated optimum of the grid size is 74, the measured one 73, and the times at both "
        "are almost equal. The optimum is closer to 1 than to the upper bound of the grid size.",
        f"{_BOTH} The sum of all phases but sorting, which does not depend on n. Grid sizes found "
        f"by bisection in [1, {most}]: {choices}. Fastest of the measured sizes: {spread(optima)}.",
        [
            main(
                at_most(
                    f"{EQUATIONS}: the estimated optimum is the measured one (one over the other)",
                    factors[EQUATIONS],
                    1.2,
                )
            ),
            at_most(f"{FITTED}: the same", factors[FITTED], 1.2),
            at_most(
                f"the optimum is closer to 1 than to the upper bound, {most} (over {middle:g})",
                optima / middle,
                1,
            ),
            *(
                check
                for name in costs
                for check in (
                    at_most(
                        f"{name}: the estimated optimum loses",
                        100 * (seconds[chosen[name]] / seconds[optimum] - 1),
                        5,
                        "%",
                    ),
                    at_most(
                        f"{name}: error at every n",
                        {f"n = {n}": errors(estimated[name][n], measured[n]) for n in points},
                        10,
                        "%",
                    ),
                )
            ),
        ],
        picture,
        differs=f"{COUNTED_LISTS}; the epsilon is among those of the calibration; sorting is left "
        "out",
    )  # fmt: skip


FIGURES = {
    "join-initialising": initialising,
    "join-loading": loading,
    "join-grid-size": total,
}
