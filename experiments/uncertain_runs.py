"""Simulations for the figures of section 5.7: policies over bandwidths, arrival rates and seeds.

Each seed is a round: all policies meet the same walks and queries, and ratios are taken seed by
seed. Seeds that were used to explore readings of the thesis and policies of our own are others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.uncertain import simulate

GLB, LIMITED, LOC, MAX, MEE, MIN = (
    "Glb_RR", "Glb_RR, limited", "Loc_RR", "MaxUnc", "MinExpEntropy", "MinMin",
)  # fmt: skip
SCORE, DISTINCT = "expected score (Tocsin)", "MinMin, distinct (Tocsin)"
_NAMES = {
    GLB: "glb_rr", LIMITED: "glb_rr", LOC: "loc_rr", MAX: "maxunc", MEE: "minexpentropy",
    MIN: "minmin", SCORE: "expected_score", DISTINCT: "minmin_distinct",
}  # fmt: skip
ALL = tuple(_NAMES)
THESIS = (GLB, LOC, MAX, MEE, MIN)
QUERIED = (LOC, MAX, MEE, MIN)  # those that refresh sensors of the query

FIRST_SEED = 1000
TINY = 1e-9  # of what is divided or drawn on a logarithmic scale

BANDWIDTHS = (200, 250, 300, 350, 400, 450, 500, 550, 600)  # the thesis mentions 200
RATES = (5, 10, 15, 20, 25, 30, 35, 40, 45)
TARGET = -0.06


@dataclass
class Sweep:
    """Measures of policies at some values of a parameter, for some seeds."""

    parameter: str
    xs: tuple[float, ...]
    seeds: int
    seconds: float
    results: dict[str, dict[str, np.ndarray]]  # by policy and measure, [len(xs), seeds]

    def get(self, policy: str, measure: str) -> np.ndarray:
        return self.results[policy][measure]

    def median(self, policy: str, measure: str) -> np.ndarray:
        return np.median(self.get(policy, measure), axis=1)

    def at(self, x: float) -> int:
        """Return the place of the nearest value of the parameter."""
        return int(np.argmin([abs(x - each) for each in self.xs]))


@dataclass(frozen=True)
class Size:
    seeds: int
    options: dict[str, Any]
    points: Callable[[tuple[float, ...]], tuple[float, ...]]


SIZES = {
    "full": Size(6, {"duration": 25.0, "warm_up": 20.0}, lambda xs: xs),
    "tiny": Size(
        2,
        {"duration": 1.5, "warm_up": 0.5, "sensors": 60, "subset": 10},
        lambda xs: (xs[0], xs[3], xs[-1]) if len(xs) > 3 else xs,
    ),
}


_GOALS: dict[str, dict[str, Any]] = {
    "target": {"target": TARGET, "max_updates": None},
    "target, five updates": {"target": TARGET, "ends": "time"},
}


@functools.cache
def sweep(kind: str, size: str) -> Sweep:
    """Run all policies over `bandwidth`, over `arrival_rate`, or over bandwidth with a target."""
    parameter = "arrival_rate" if kind == "arrival_rate" else "bandwidth"
    xs = SIZES[size].points(RATES if kind == "arrival_rate" else BANDWIDTHS)
    goal = _GOALS.get(kind, {})
    # Glb_RR refreshes the database "using the available bandwidth" (5.6): queries request nothing,
    # and the network is never idle.
    every = {"max_updates": 0, "idle_refresh": True} | ({"ends": "time"} if goal else {})
    options = {name: goal | (every if name == GLB else {}) for name in ALL}
    return run(parameter, xs, {name: (_NAMES[name], o) for name, o in options.items()}, size)


def run(
    parameter: str, xs: tuple[float, ...], cases: dict[str, tuple[str, dict[str, Any]]], size: str
) -> Sweep:
    """Simulate each case at each value of a parameter, with the same worlds for all cases."""
    chosen = SIZES[size]
    found: dict[str, dict[str, list[list[float]]]] = {name: {} for name in cases}
    for x in xs:
        rows: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
        for seed in range(FIRST_SEED, FIRST_SEED + chosen.seeds):
            for name, (policy, options) in cases.items():
                result = simulate(
                    policy, seed=seed, **(chosen.options | {parameter: float(x)} | options)
                )
                rows[name].append(result.to_dict())
        for name, dicts in rows.items():
            for measure in dicts[0]:
                found[name].setdefault(measure, []).append([d[measure] for d in dicts])
    results = {
        name: {measure: np.array(values) for measure, values in measures.items()}
        for name, measures in found.items()
    }
    return Sweep(parameter, xs, chosen.seeds, chosen.options["duration"], results)


# ------------------------------------------------------------ comparisons

Seeds = dict[str, np.ndarray]  # what was found with each seed, by the point of a sweep


def ratios(s: Sweep, worse: tuple[str, ...], better: tuple[str, ...], measure: str) -> Seeds:
    """Return how many times as large a measure is with some policies as with others."""
    return {
        f"{a} over {b} at {x:g}": size_of(s.get(a, measure)[i]) / size_of(s.get(b, measure)[i])
        for a in worse
        for b in better
        for i, x in enumerate(s.xs)
    }


def differences(s: Sweep, better: tuple[str, ...], worse: tuple[str, ...], measure: str) -> Seeds:
    """Return how much larger a measure is with some policies than with others."""
    return {
        f"{a} over {b} at {x:g}": s.get(a, measure)[i] - s.get(b, measure)[i]
        for a in better
        for b in worse
        for i, x in enumerate(s.xs)
    }


def size_of(values: np.ndarray) -> np.ndarray:
    """Return absolute values that can be divided by."""
    return np.maximum(np.abs(values), TINY)
