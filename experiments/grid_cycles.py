"""The thesis' grid: its size, objects in Z-order, queries that come and go (Figs. 3.13, 3.14)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from experiments import drawing
from experiments.answer_sets import cycle_times
from experiments.grid import (
    CYCLE,
    OUR_GRID,
    SIZES,
    SLIGHTLY,
    SUBSTANTIALLY,
    THESIS_GRID,
    our_grid,
    thesis_grid,
)
from experiments.grid_data import Data, query_sides, skewed, uniform
from experiments.measuring import LEAST_ROUNDS, PointSearch, Structure, boxes, summarize_matches
from experiments.verdicts import Finding, at_least, at_most, main, reaches, spread
from tocsin.index.cells.grid import Grid
from tocsin.index.cells.published_grid import (
    compute_cell_side,
    estimate_lists,
    estimate_published_bytes,
)
from tocsin.model.conjunctions import Conjunctions

_SPEED = 0.0005  # of the domain, per cycle and axis: the standard deviation; chosen
_Z_SORT = 1.715 / 0.763  # seconds of the thesis, unsorted and Z-sorted (3.2.6)
_SORTING = 6.0  # sorted cycles that sorting takes in the thesis (3.2.6)
_CHANGING = 2.408 / 1.715  # cycles that changing all queries takes there (3.3.6, 3.2.6)
_ONE_CHANGE = 96.0  # microseconds for each of the 25,000 queries (3.3.6)


# ------------------------------------------------------------ Fig. 3.13a


def grid_size(size: str) -> Finding:
    s = SIZES[size]
    objects, queries = s["pairs"][-1]
    rng = np.random.default_rng(4)
    low, high, points = uniform(rng, objects, queries, query_sides(queries, False))
    formula = s["cells"]
    structures: dict[str, Structure] = {
        str(n): thesis_grid(low, high, points, n) for n in s["across"]
    }
    structures[OUR_GRID] = own = our_grid(low, high, points)
    times = {name: t.whole for name, t in cycle_times(structures, s["seconds"]).items()}
    picture, axes = drawing.panels(
        2,
        "How many cells? (thesis, 3.13a)",
        parameters=f"{objects:,} objects, {queries:,} squares of side 0.01, uniform; one tier of "
        "n x n cells with all full lists. Dotted: S_grid of 3.2.5. A cycle includes the queries' "
        "answer sets.",
    )
    ours = int(own.index.layout.across[0])
    x = ("cells across the domain, n", s["across"])
    measured = {"n x n cells": [1000 * times[str(n)] for n in s["across"]]}
    drawing.lines(axes[0], "time", x, "milliseconds per cycle", measured, zero=True)
    drawing.point(axes[0], ours, float(np.median(1000 * times[OUR_GRID])), f"Tocsin's: {ours}")
    taken = {"n x n cells": [structures[str(n)].nbytes / 1e6 for n in s["across"]]}
    drawing.lines(axes[1], "memory", x, "megabytes", taken)
    drawing.point(axes[1], ours, own.nbytes / 1e6, f"Tocsin's: {ours}")
    sizes = [
        estimate_published_bytes(1 / n, queries, estimate_lists(1 / n, 0.01)) for n in s["across"]
    ]
    drawing.paper(axes[1], s["across"], [b / 1e6 for b in sizes], "S_grid")
    few, many = str(s["across"][0]), str(s["across"][-1])
    return Finding(
        "grid-size",
        "The grid's size",
        "thesis, Fig. 3.13a",
        "The formula gives 1000 x 1000 cells. The gain from 100 x 100 cells is substantial; the "
        "further gain at 2000 x 2000 is minor, which validates the formula.",
        f"{objects:,} objects, {queries:,} queries of side 0.01, uniform, for which the formula of "
        f"3.2.4 gives {1 / compute_cell_side(queries, 0.01):.0f} cells across; one tier of n x n "
        f"cells. {CYCLE}",
        [
            main(
                at_most(
                    "no other number of cells is much faster than the formula's",
                    {
                        f"{n} x {n}": times[str(formula)] / times[str(n)]
                        for n in s["across"]
                        if n != formula
                    },
                    SLIGHTLY,
                )
            ),
            at_least(
                "100 to 1000 cells across: a substantial gain",
                times[few] / times[str(formula)],
                SUBSTANTIALLY,
            ),
            at_most(
                "1000 to 2000 cells across: a minor gain",
                times[str(formula)] / times[many],
                SLIGHTLY,
            ),
        ],
        picture,
        differs="grid spans the queries rather than the unit square; objects stay where they are; "
        "200 and 500 cells across added",
    )


# ------------------------------------------------------------ Fig. 3.13b


def z_order(points: np.ndarray) -> np.ndarray:
    """Return the order of points along the Z-curve, with 16 bits per axis."""
    codes = np.zeros(points.shape[1], np.uint32)
    for axis in (0, 1):
        bits = np.clip(points[axis] * 65536, 0, 65535).astype(np.uint32)
        for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
            bits = (bits | (bits << np.uint32(shift))) & np.uint32(mask)
        codes |= bits << np.uint32(axis)
    return np.argsort(codes)


def move(points: np.ndarray, speed: np.ndarray, cycles: int) -> np.ndarray:
    """Return where points are after so many cycles; they turn round at the sides of the square."""
    return 1 - np.abs(1 - np.abs(points + cycles * speed))


@dataclass
class Sorted:
    """Cycles with unsorted and with Z-sorted objects, in milliseconds, for all rounds."""

    unsorted: list[np.ndarray] = field(default_factory=list)
    z_sorted: list[np.ndarray] = field(default_factory=list)

    @property
    def gains(self) -> list[np.ndarray]:
        """How many times as fast a cycle is with sorted objects."""
        return [a / b for a, b in zip(self.unsorted, self.z_sorted, strict=True)]

    def measure(self, grid: PointSearch, places: list[np.ndarray], seconds: float) -> None:
        """Measure a cycle with objects in both orders."""
        structures = {str(i): PointSearch(grid.index, p, True) for i, p in enumerate(places)}
        # Objects have other numbers in another order.
        times = cycle_times(structures, seconds, numbered_alike=False)
        self.unsorted.append(1000 * times["0"].whole)
        self.z_sorted.append(1000 * times["1"].whole)


def z_sort(size: str) -> Finding:
    s = SIZES[size]
    objects, queries = s["pairs"][-1]
    cycles = list(range(0, s["cycles"] + 1, max(s["cycles"] // 5, 1)))
    found: dict[str, Sorted] = {}
    ours: dict[str, Sorted] = {}
    costs: dict[str, list[float]] = {}
    for shape, make in (("skewed", skewed), ("uniform", uniform)):
        rng = np.random.default_rng(4)
        low, high, points = make(rng, objects, queries, query_sides(queries, False))
        speed = rng.normal(0, _SPEED, points.shape)
        for _ in range(LEAST_ROUNDS):
            start = time.perf_counter()
            order = z_order(points)
            sorted_points = points[:, order]
            costs.setdefault(shape, []).append(1000 * (time.perf_counter() - start))
        sorted_speed = speed[:, order]
        grid = thesis_grid(low, high, points, s["cells"])
        found[shape], ours[shape] = Sorted(), Sorted()
        ours[shape].measure(our_grid(low, high, points), [points, sorted_points], s["seconds"])
        for n in cycles:
            places = [move(points, speed, n), move(sorted_points, sorted_speed, n)]
            found[shape].measure(grid, places, s["seconds"])
    own = found["skewed"]
    picture, axes = drawing.panels(
        2,
        "Objects in Z-order of where they were (thesis, 3.13b)",
        parameters=f"{objects:,} objects, {queries:,} squares of side 0.01; thesis' grid, "
        f"{s['cells']} x {s['cells']} cells. Objects are sorted once, and then move by {_SPEED} of "
        "the domain per cycle and axis (standard deviation). A cycle includes the answer sets.",
    )
    x = ("cycles since the objects were sorted", cycles)
    lines = {"unsorted": own.unsorted, "Z-sorted": own.z_sorted}
    drawing.lines(axes[0], "skewed", x, "milliseconds per cycle", lines, powers=False, zero=True)
    gains = {shape: each.gains for shape, each in found.items()}
    drawing.lines(axes[1], "gain", x, "unsorted over Z-sorted", gains, powers=False, zero=True)
    drawing.paper(axes[1], [0], [_Z_SORT], "skewed, 1.715 s over 0.763 s")
    axes[1].set_ylim(0, max(axes[1].get_ylim()[1], 1.2 * _Z_SORT))
    sorting = np.median(costs["skewed"]) / own.z_sorted[0]
    saved = np.mean([np.median(a - b) for a, b in zip(own.unsorted, own.z_sorted, strict=True)])
    return Finding(
        "grid-z-sort",
        "Z-sort",
        "thesis, Fig. 3.13b",
        "Objects in Z-order find their cells in the cache. With 1,000,000 skewed objects and "
        "25,000 queries a cycle takes 0.763 s instead of 1.715 s (3.2.6). The figure's text has "
        "roughly 50% less, and no distribution. Sorting takes 4.6 s, 6 sorted cycles, and is "
        "rarely needed if objects stay near where they were.",
        f"{objects:,} objects, {queries:,} queries of side 0.01. Sorted once, by NumPy: skewed "
        f"objects in {spread(costs['skewed'])} ms. Then each object moves at its own speed. "
        f"{CYCLE}",
        [
            main(reaches("skewed: ideally sorted objects are faster", own.gains[0], _Z_SORT)),
            reaches("uniform: so they are", found["uniform"].gains[0], 2),
            reaches("skewed, Tocsin's grid: so they are", ours["skewed"].gains[0], _Z_SORT),
            reaches("uniform, Tocsin's grid: so they are", ours["uniform"].gains[0], 2),
            at_most(
                "skewed: sorting costs a handful of sorted cycles (in the paper 6)",
                sorting,
                _SORTING,
                "",
            ),
            at_least(
                f"skewed: sorting pays within {cycles[-1]} cycles (saved in these, over its cost)",
                saved * cycles[-1] / np.array(costs["skewed"]),
                1,
            ),
            at_least(
                f"skewed: objects sorted {cycles[-1]} cycles ago are still faster",
                own.gains[-1],
                1,
            ),
        ],
        picture,
        differs="kernels prefetch cells, which hides some of what sorting would save; grid spans "
        "the queries rather than the unit square; speeds are ours",
    )


# ------------------------------------------------------------ Fig. 3.14


class Changes:
    """Queries to add to an index, and to remove from it: which of both, by chance."""

    def __init__(self, rng: np.random.Generator, present: int, new: Data, steps: int):
        self.is_new = rng.random(steps) < 0.5
        self.removed = rng.permutation(present)[: int((~self.is_new).sum())]
        self.low, self.high = (bounds[:, : int(self.is_new.sum())] for bounds in new[:2])
        self.added: Conjunctions = boxes(self.low, self.high, True)[0]
        one = [boxes(self.low[:, [i]], self.high[:, [i]], True)[0] for i in range(len(self.low[0]))]
        self.one_by_one = iter(one), iter(self.removed[:, None])

    def apply_batch(self, index: Grid) -> None:
        """Add all at once, and remove all at once."""
        index.insert(self.added)
        index.remove(self.removed)

    def apply_one_by_one(self, index: Grid) -> None:
        """Add or remove one query after another."""
        added, removed = self.one_by_one
        for is_new in self.is_new.tolist():
            if is_new:
                index.insert(next(added))
            else:
                index.remove(next(removed))


def change_once(index: Grid, new: Data) -> float:
    """Add a query and remove it; return the seconds.

    The first change of an index copies it into lists with room to grow, which the thesis' lists
    have from the beginning.
    """
    start = time.perf_counter()
    index.insert(boxes(new[0][:, :1], new[1][:, :1], True)[0])
    index.remove(np.array([index.conjunctions.size - 1]))
    return time.perf_counter() - start


def check_changed(index: Grid, data: Data, changes: Changes, events: int) -> None:
    """Raise unless a changed index finds as many queries per object as a new one."""
    low, high, points = data
    kept = np.setdiff1d(np.arange(low.shape[1]), changes.removed)
    low = np.concatenate([low[:, kept], changes.low], axis=1)
    high = np.concatenate([high[:, kept], changes.high], axis=1)
    new = summarize_matches(our_grid(low, high, points[:, :events]), events)[0]
    changed = summarize_matches(PointSearch(index, points[:, :events], True), events)[0]
    if not np.array_equal(changed, new):
        raise AssertionError("the changed index finds other queries than a new one")


def changes(size: str) -> Finding:
    s = SIZES[size]
    objects, queries = s["pairs"][-1]
    rng = np.random.default_rng(4)
    sides = query_sides(queries, False)
    data = low, high, points = skewed(rng, objects, queries, sides)
    new = skewed(np.random.default_rng(4), 1, queries, sides)  # the same clusters
    grids: dict[str, Callable[[np.ndarray], PointSearch]] = {
        THESIS_GRID: lambda points: thesis_grid(low, high, points, s["cells"]),
        OUR_GRID: lambda points: our_grid(low, high, points),
    }
    unchanged = cycle_times({n: make(points) for n, make in grids.items()}, s["seconds"])
    before = {name: times.whole for name, times in unchanged.items()}
    ways = {"a batch": Changes.apply_batch, "one by one": Changes.apply_one_by_one}
    micros: dict[str, list[np.ndarray]] = {}  # per query
    after: dict[str, np.ndarray] = {}
    first: dict[str, list[float]] = {}  # milliseconds
    for apply, n in zip((*ways.values(), Changes.apply_batch), (9, 9, queries)):  # compile
        apply(Changes(rng, queries, new, n), our_grid(low, high, points[:, :1]).index)
    for name, make in grids.items():
        for way, apply in ways.items():
            label = way if name == THESIS_GRID else f"{way} (Tocsin)"
            for share in s["shares"]:
                n = queries * share // 100
                if way == "one by one":
                    n = min(n, s["steps"])
                times = []
                for _ in range(LEAST_ROUNDS):
                    index = make(points[:, :1]).index
                    first.setdefault(name, []).append(1000 * change_once(index, new))
                    change = Changes(rng, queries, new, n)
                    start = time.perf_counter()
                    apply(change, index)
                    times.append(1e6 * (time.perf_counter() - start) / n)
                    check_changed(index, data, change, min(objects, 1000))
                micros.setdefault(label, []).append(np.array(times))
            changed = cycle_times({label: PointSearch(index, points, True)}, s["seconds"])
            after[label] = changed[label].whole / np.median(before[name])
    whole = {name: 1e-6 * queries * micros[name][-1] for name in ("a batch", "a batch (Tocsin)")}
    picture, axes = drawing.panels(
        2,
        "Adding and removing queries (thesis, 3.14)",
        parameters=f"{queries:,} skewed squares of side 0.01; each change adds or removes one, "
        f"with equal chance. Thesis' grid: {s['cells']} x {s['cells']} cells. One by one: at most "
        f"{s['steps']:,} changes. Cycles: {objects:,} objects, with the answer sets.",
    )
    x = (f"queries changed, % of {queries:,}", s["shares"])
    drawing.lines(axes[0], "cost of a change", x, "microseconds per query", micros)
    drawing.limit(axes[0], _ONE_CHANGE, f"paper, 100%: {_ONE_CHANGE:.0f} microseconds")
    in_cycles = {
        label: [
            1e-6 * queries * share / 100 * values / np.median(before[name])
            for share, values in zip(s["shares"], micros[label], strict=True)
        ]
        for label, name in (("a batch", THESIS_GRID), ("a batch (Tocsin)", OUR_GRID))
    }
    drawing.lines(axes[1], "cost of a batch", x, "evaluation cycles", in_cycles)
    drawing.limit(axes[1], _CHANGING, f"paper, 100%: {_CHANGING:.1f} cycles")
    return Finding(
        "grid-changes",
        "Adding and removing queries",
        "thesis, Fig. 3.14",
        "As many changes as there are queries, 25,000, each of which adds or removes a query with "
        "equal chance, take 2.408 s: 96 microseconds each. That is 1.4 of the evaluation cycles "
        "that 3.2.6 has for 1,000,000 skewed objects.",
        "`Grid.insert` and `Grid.remove` change the index in place: in one call each for a batch, "
        f"or in a call for each query. One by one, {s['steps']:,} changes at most are measured. "
        "The first change copies the index into lists with room to grow, once, and is not counted: "
        f"{spread(first[THESIS_GRID])} ms for the thesis' grid, {spread(first[OUR_GRID])} ms for "
        "Tocsin's. "
        f"Queries and objects are skewed. {CYCLE} One takes {spread(1000 * before[THESIS_GRID])} "
        f"ms with the thesis' grid, and {spread(1000 * before[OUR_GRID])} ms with Tocsin's.",
        [
            main(
                at_most(
                    "changing as many queries as there are takes no more cycles than in the thesis",
                    whole["a batch"] / np.median(before[THESIS_GRID]),
                    float(f"{_CHANGING:.3g}"),
                )
            ),
            at_most(
                "so it is for Tocsin's grid",
                whole["a batch (Tocsin)"] / np.median(before[OUR_GRID]),
                float(f"{_CHANGING:.3g}"),
            ),
            at_most(
                "one by one, a change takes no longer than in the thesis",
                micros["one by one"][-1],
                _ONE_CHANGE,
                " microseconds",
            ),
            at_most(
                "so it is for Tocsin's grid, one by one",
                micros["one by one (Tocsin)"][-1],
                _ONE_CHANGE,
                " microseconds",
            ),
        ],
        picture,
        [
            ["changes", *(f"{share}%, microseconds each" for share in s["shares"]), "a cycle then"],
            *(
                [label, *(spread(v) for v in values), f"{spread(after[label])} times"]
                for label, values in micros.items()
            ),
        ],
        "all are added in one call and removed in another, where the thesis takes one query after "
        "the other; it gives no distribution, and seconds rather than cycles; calls from Python; "
        "grid spans the queries rather than the unit square",
    )


FIGURES = {
    "grid-size": grid_size,
    "grid-z-sort": z_sort,
    "grid-changes": changes,
}
