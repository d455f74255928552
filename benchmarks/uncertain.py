"""Queries over uncertain values: how fast, and how exact, against what a user would write instead.

    python -m benchmarks.uncertain [--size tiny|full] [--out FILE]

All on one core, in turns. Readings are made before; a time is that of one query. Errors are the
largest of all probabilities against a reference: the same integral by NumPy, with 32 nodes between
breakpoints (6 for 10,000 readings) and products as sums of logarithms. `tiny` only shows that the
benchmark runs.
"""

from __future__ import annotations

import argparse
import math
import platform
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import Section, show, write
from benchmarks.timing import Runner, log, package_versions, run_in_turns, time_call, use_one_core
from tocsin import uncertain
from tocsin.jit import Float64Out, Float64s, kernel
from tocsin.uncertain import Readings

SIZES = {"tiny": (100,), "full": (100, 1_000, 10_000)}
TARGETS = {100: 0.3, 1_000: 10.0, 10_000: 150.0}  # milliseconds, for uniform readings
SLOWER = 10  # times that, for others
MOST_EXACT = 1e-10
GRID = 4_096  # nodes of the integral that people write
SAMPLES = 10_000  # of a simulation
FEW = 1_000  # readings; for more, a reference takes minutes unless they are uniform
VALUES = 16  # that a refresh may find


# ------------------------------------------------------------ readings


def make_readings(n: int, family: str, is_hard: bool = False) -> Readings:
    """Return readings that all may be the minimum, the maximum or nearest to the middle.

    Hard ones all begin where the answer is still open; otherwise it is nearly decided where a few
    of them have begun.
    """
    rng = np.random.default_rng(n)
    ids = np.arange(n)
    spread = 0.2 / math.sqrt(n) if is_hard else 0.5
    low, high = spread * rng.random(n), 1 + spread * rng.random(n)
    if family == "uniform":
        return Readings.uniform(ids, low, high)
    if family == "normal":
        return Readings.normal(ids, 0.4 + 0.2 * rng.random(n), 0.3, low, high)
    shares = np.sort(rng.random((n, 3)), axis=1)
    edges = np.column_stack([low, 0.5 + 0.4 * shares, high])
    return Readings.histogram(ids, edges, rng.dirichlet(np.full(4, 4.0), n))


QUERIES: dict[str, Callable[[Readings], Any]] = {
    "minimum": uncertain.minimum,
    "maximum": uncertain.maximum,
    "nearest": lambda readings: uncertain.nearest(readings, 0.5),
}


# ------------------------------------------------------------ what a user would write


def tabulate(readings: Readings, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return densities and survivals [readings, x]."""
    from scipy.special import ndtr

    d = readings.densities
    low, high = d.low[:, None], d.high[:, None]
    inside = (x >= low) & (x <= high)
    if (d.family == 2).all():
        mean, deviation = d.mean[:, None], d.deviation[:, None]
        whole = ndtr((high - mean) / deviation) - ndtr((low - mean) / deviation)
        z = (x - mean) / deviation
        density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) / deviation / whole
        above = (ndtr((high - mean) / deviation) - ndtr(z)) / whole
        return density * inside, np.where(inside, above, x < low)
    if (d.family == 3).all():
        edges, below = d.edge.reshape(len(readings), -1), d.below.reshape(len(readings), -1)
        density, above = np.zeros((len(readings), len(x))), np.ones((len(readings), len(x)))
        for i in range(len(readings)):
            above[i] = 1 - np.interp(x, edges[i], below[i])
            steps = np.diff(below[i]) / np.diff(edges[i])
            at = np.searchsorted(edges[i], x, "right") - 1
            density[i] = np.where(inside[i], steps[at.clip(0, len(steps) - 1)], 0)
        return density, above
    density = inside / (high - low)
    return density, np.clip((high - x) / (high - low), 0, 1)


def integrate_minimum(readings: Readings, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the probabilities of the minimum by nodes and weights."""
    density, above = tabulate(readings, x)
    above = np.maximum(above, 1e-300)
    product = np.exp(np.log(above).sum(axis=0))
    return (density / above * product * weight).sum(axis=1)


def integrate_on_grid(readings: Readings) -> np.ndarray:
    """Integrate as people do: the trapezoidal rule on a regular grid."""
    x = np.linspace(readings.low.min(), readings.high.min(), GRID)
    weight = np.full(GRID, x[1] - x[0])
    weight[[0, -1]] /= 2
    return integrate_minimum(readings, x, weight)


def refer(readings: Readings) -> np.ndarray:
    """Return the reference."""
    bottom, top = readings.low.min(), readings.high.min()
    ends = np.concatenate([readings.low, readings.high, readings.densities.edge])
    breaks = np.unique(np.append(ends[(ends >= bottom) & (ends <= top)], [bottom, top]))
    # Long intervals are cut: with many readings the product falls fast from the bottom on.
    pieces = np.exp2(-np.arange(64) / 2) * (top - bottom) + bottom
    breaks = np.unique(np.concatenate([breaks, pieces]))
    # Where the product is below 1e-30, nothing is added.
    _, above = tabulate(readings, pieces)
    is_left = np.log(np.maximum(above, 1e-300)).sum(axis=0) > math.log(1e-30)
    breaks = breaks[breaks <= pieces[max(int(is_left.argmax()) - 1, 0)]]
    # Intervals between many readings are narrow.
    node, weight = np.polynomial.legendre.leggauss(32 if len(readings) <= 1_000 else 6)
    total = np.zeros(len(readings))
    step = max(2_000_000 // (len(node) * len(readings)), 1)  # intervals at a time
    for first in range(0, len(breaks) - 1, step):
        a, b = breaks[first : first + step + 1][:-1], breaks[first : first + step + 1][1:]
        x = (0.5 * (a + b)[:, None] + 0.5 * (b - a)[:, None] * node).reshape(-1)
        w = (0.5 * (b - a)[:, None] * weight).reshape(-1)
        total += integrate_minimum(readings, x, w)
    return total


def simulate(readings: Readings) -> np.ndarray:
    """Draw uniform values, and count which is the smallest."""
    rng = np.random.default_rng(0)
    values = readings.low + rng.random((SAMPLES, len(readings))) * (readings.high - readings.low)
    return np.bincount(values.argmin(axis=1), minlength=len(readings)) / SAMPLES


@kernel
def loop_as_published(
    low: Float64s, high: Float64s, node: Float64s, weight: Float64s, out: Float64Out
) -> None:
    """Fig. 5.6: three loops, over objects, intervals and the other objects.

    Objects are ordered by their low ends. The integral of an interval takes eight nodes.
    """
    n, f = low.shape[0], high.min()
    for i in range(n):
        for j in range(i, n):
            a, b = low[j], (low[j + 1] if j + 1 < n else f)
            for m in range(node.shape[0]):
                x = a + (b - a) * node[m]
                product = weight[m] * (b - a) / (high[i] - low[i])
                for k in range(j + 1):
                    if k != i:
                        product *= (high[k] - x) / (high[k] - low[k])
                out[i] += product


def run_as_published(readings: Readings) -> np.ndarray:
    order = np.argsort(readings.low)
    node, weight = np.polynomial.legendre.leggauss(8)
    out = np.zeros(len(readings))
    sides = readings.low[order], readings.high[order]
    loop_as_published(*sides, 0.5 + 0.5 * node, 0.5 * weight, out)
    found = np.empty(len(readings))
    found[order] = out
    return found


def probabilities(answer: uncertain.Answer, n: int) -> np.ndarray:
    found = np.zeros(n)
    found[answer.positions] = answer.probabilities
    return found


# ------------------------------------------------------------ sums


def add_exactly(n: int, x: float) -> float:
    """Return the density at x of the sum of n values that are uniform in [0, 1] (Irwin-Hall)."""
    at = Fraction(x)
    total = sum(
        (-1) ** k * math.comb(n, k) * (at - k) ** (n - 1) for k in range(math.floor(at) + 1)
    )
    return float(total / math.factorial(n - 1))


def convolve_repeatedly(readings: Readings) -> tuple[np.ndarray, np.ndarray]:
    """Add values one after the other, each as a histogram of 64 cells (Equation 5.4)."""
    from scipy.signal import fftconvolve

    cells = 64
    density = np.full(cells, 1.0)
    for _ in range(len(readings) - 1):
        density = fftconvolve(density, np.full(cells, 1.0)) / cells
    # The middle of cell k of n values is (k + n / 2) / 64.
    return (np.arange(len(density)) + len(readings) / 2) / cells, density


# ------------------------------------------------------------ measuring


def measure_queries(n: int, is_hard: bool) -> Section:
    section = Section(
        f"{n:,} readings, all of which may be the answer"
        + (", and begin close together" if is_hard else ""),
        "query", "readings", "Tocsin", "error", "target", "met",
        note="Milliseconds."
        + (
            " The answer is open where the last one begins, so that every density counts in as\n"
            "many intervals as there are readings."
            if is_hard
            else ""
        ),
    )  # fmt: skip
    for family in ("uniform", "normal", "histogram"):
        readings = make_readings(n, family, is_hard)
        limit = TARGETS[n] * (1 if family == "uniform" else SLOWER)
        for name, query in QUERIES.items():
            log(f"{n:,} {family}: {name}")
            runner = Runner(name, lambda query=query, r=readings: time_call(lambda: query(r)))
            found = probabilities(query(readings), n)
            error = abs(found.sum() - 1)
            can_refer = family == "uniform" or n <= FEW
            if name == "minimum" and can_refer:
                error = max(error, float(np.abs(found - refer(readings)).max()))
            elif name == "maximum" and can_refer:
                mirrored = probabilities(query(mirror(readings)), n)
                error = max(error, float(np.abs(mirrored - refer(readings)).max()))
            run_in_turns([runner], most=40 if n <= FEW else 5)
            met = runner.seconds * 1e3 <= limit and error < MOST_EXACT
            section.add_row(
                f"{name}, {family}", f"{n:,}", f"{runner.seconds * 1e3:.3g}", f"{error:.0e}",
                f"at most {limit:g}, error below 1e-10", met,
            )  # fmt: skip
    return section


def mirror(readings: Readings) -> Readings:
    from tocsin.uncertain.extremes import mirror as mirror_densities

    return Readings(readings.ids, mirror_densities(readings.densities))


def measure_peers(sizes: tuple[int, ...]) -> Section:
    section = Section(
        "The minimum of uniform readings, by others",
        "readings", "Tocsin", "error", "thesis' loop", "error ", "NumPy on a grid", "error  ",
        "simulation", "error   ",
        note=f"Milliseconds. The thesis' loop (Fig. 5.6) is compiled, with eight nodes per\n"
        f"interval; the grid has {GRID:,} nodes; the simulation draws {SAMPLES:,} samples.",
    )  # fmt: skip
    for n in sizes:
        log(f"{n:,}: peers")
        readings = make_readings(n, "uniform")
        expected = refer(readings)
        ways: dict[str, Callable[[Readings], np.ndarray]] = {
            "Tocsin": lambda r: probabilities(uncertain.minimum(r), len(r)),
            "thesis": run_as_published,
            "grid": integrate_on_grid,
            "simulation": simulate,
        }
        cells = [f"{n:,}"]
        for name, way in ways.items():
            if (name == "thesis" and n > 1_000) or (name in ("grid", "simulation") and n > 1_000):
                cells += ["", ""]
                continue
            runner = Runner(name, lambda way=way, r=readings: time_call(lambda: way(r)))
            error = float(np.abs(way(readings) - expected).max())
            run_in_turns([runner], most=3 if name != "Tocsin" else 40)
            cells += [f"{runner.seconds * 1e3:,.3g}", f"{error:.0e}"]
        section.add_row(*cells)
    return section


def measure_sums(n: int) -> Section:
    section = Section(
        f"The sum of {n:,} uniform values",
        "way", "milliseconds", "error / peak", "target", "met",
        note="Errors at 21 points around the middle, against exact rational arithmetic.",
    )  # fmt: skip
    log(f"sum of {n:,}")
    readings = Readings.uniform(np.arange(n), np.zeros(n), np.ones(n))
    points = n / 2 + math.sqrt(n / 12) * np.linspace(-3, 3, 21)
    exact = np.array([add_exactly(n, x) for x in points])
    found = uncertain.total(readings).pdf(points)
    runner = Runner("sum", lambda: time_call(lambda: uncertain.total(readings)))
    other = Runner("FFT", lambda: time_call(lambda: convolve_repeatedly(readings)))
    run_in_turns([runner], most=40)
    run_in_turns([other], most=3)
    error = float(np.abs(found - exact).max() / exact.max())
    section.add_row(
        "Tocsin", f"{runner.seconds * 1e3:.3g}", f"{error:.0e}", "at most 2, error below 1e-10",
        bool(runner.seconds < 2e-3 and error < MOST_EXACT),
    )  # fmt: skip
    grid, density = convolve_repeatedly(readings)
    off = float(np.abs(np.interp(points, grid, density) - exact).max() / exact.max())
    section.add_row(
        "repeated FFT convolution", f"{other.seconds * 1e3:.3g}", f"{off:.0e}", "", None
    )
    return section


def measure_range(n: int) -> Section:
    section = Section(f"Which of {n:,} uniform readings are in a range", "way", "milliseconds")
    log("range")
    rng = np.random.default_rng(0)
    low = rng.random(n)
    readings = Readings.uniform(np.arange(n), low, low + 0.1)
    high = readings.high

    def by_hand() -> np.ndarray:
        overlap = np.minimum(high, 0.6) - np.maximum(low, 0.5)
        return np.maximum(overlap, 0) / (high - low)

    found = uncertain.in_range(readings, 0.5, 0.6, at_least=0.8)
    assert (np.sort(found.positions) == np.flatnonzero(by_hand() >= 0.8)).all()
    runners = [
        Runner("in_range", lambda: time_call(lambda: uncertain.in_range(readings, 0.5, 0.6, 0.8))),
        Runner("NumPy", lambda: time_call(lambda: np.flatnonzero(by_hand() >= 0.8))),
    ]
    run_in_turns(runners)
    section.add_row("Tocsin, sorted by probability", f"{runners[0].seconds * 1e3:.3g}")
    section.add_row("NumPy by hand, not sorted", f"{runners[1].seconds * 1e3:.3g}")
    return section


def measure_refresh(n: int) -> Section:
    section = Section(
        f"Which of {n} readings to refresh, for the minimum",
        "policy", "milliseconds", "target", "met",
        note=f"The thesis evaluates the query anew for values of each reading, here {VALUES}.",
    )  # fmt: skip
    log("refresh")
    rng = np.random.default_rng(0)
    low = 0.2 * rng.random(n)
    readings = Readings.uniform(np.arange(n), low, low + 0.5 + 0.5 * rng.random(n))

    def evaluate_anew() -> int:
        means = []
        for i in range(n):
            others = readings.take(np.delete(np.arange(n), i))
            values = readings.low[i] + (readings.high[i] - readings.low[i]) * (
                (np.arange(VALUES) + 0.5) / VALUES
            )
            answers = (uncertain.minimum(others + Readings.points([n], [v])) for v in values)
            means.append(np.mean([answer.entropy for answer in answers]))
        return int(np.argmin(means))

    for name, most in (("minmin", None), ("minexpentropy", 50.0)):
        runner = Runner(
            name,
            lambda name=name: time_call(lambda: uncertain.next_refresh(readings, policy=name)),
        )
        uncertain.next_refresh(readings, policy=name)  # compiles
        run_in_turns([runner], most=40)
        milliseconds = runner.seconds * 1e3
        section.add_row(
            name, f"{milliseconds:.3g}", f"at most {most:g}" if most else "",
            milliseconds <= most if most else None,
        )  # fmt: skip
    _, seconds = time_call(evaluate_anew)
    section.add_row("minexpentropy, as published", f"{seconds * 1e3:,.0f}", "", None)
    return section


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    arguments = parser.parse_args()
    use_one_core()
    sizes = SIZES[arguments.size]
    is_tiny = arguments.size == "tiny"
    sections = [measure_queries(n, is_hard) for is_hard in (False, True) for n in sizes]
    sections.append(measure_peers(sizes))
    sections.append(measure_sums(100 if is_tiny else 1_000))
    sections.append(measure_refresh(20 if is_tiny else 100))
    sections.append(measure_range(10_000 if is_tiny else 1_000_000))
    show("Uncertain values", sections)
    if arguments.out:
        head = [
            "# Benchmark: uncertain values",
            "",
            "Generated by `python -m benchmarks.uncertain --out docs/benchmarks-uncertain.md`. One",
            "core, the best of several repetitions in turns. Readings are made before. An error is",
            "the largest of all probabilities, against the same integral with 32 nodes between",
            "breakpoints (for nearest, and for 10,000 readings that are not uniform, how far the",
            "sum is from 1).",
            "",
            f"{platform.machine()}, Python {platform.python_version()}, "
            f"{package_versions('numpy numba scipy')}.",
        ]
        write(arguments.out, head, sections)


if __name__ == "__main__":
    main()
