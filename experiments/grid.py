"""Grids and trees over queries: Kalashnikov, Efficient querying of evolving data, section 3.3."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from experiments import drawing
from experiments.measuring import PointSearch, boxes, check_equal, search_times
from experiments.rivals import ShapelyTree, build_packed_tree, build_rstar_tree
from experiments.verdicts import Finding, at_least, at_most
from tocsin.index.cells.codes import Domains
from tocsin.index.cells.grid import Grid, GridBuilder
from tocsin.index.cells.ntree import NTree, NTreeBuilder
from tocsin.index.plane import build_boxes

SIZES = {
    "tiny": dict(
        pairs=[(400, 800), (1000, 300)], few=200, checked=100, seconds=0.0, cycles=3,
        across=[20, 40, 80], shares=[10, 100],
    ),
    "full": dict(
        pairs=[(100_000, 100_000), (1_000_000, 25_000)], few=30_000, checked=2_000, seconds=0.25,
        cycles=25, across=[100, 200, 500, 1000, 2000], shares=[1, 3, 10, 30, 100],
    ),
}  # fmt: skip
_TREES = ("R*-tree", "packed R-tree", "shapely")
_THESIS_GRID = "grid 1000 x 1000"
_INDEXES = (
    "The grid is Tocsin's, with a second tier where needed; beside it is the thesis' grid, one "
    "tier of 1000 x 1000 cells. The trees are Tocsin's, with the leaf size that is fastest here. "
    "R*-tree: the leaves are built by libspatialindex's insertion; a kernel over flat arrays with "
    "reused buffers searches it, and the packed R-tree as well."
)
_RIVALS = (
    f"{_INDEXES} shapely: `STRtree.query` of many points at once, with new pairs. R-trees are "
    "measured with the first 30,000 objects, and the time is scaled to a full cycle."
)

# ------------------------------------------------------------ the thesis' data

Data = tuple[np.ndarray, np.ndarray, np.ndarray]  # low, high, points


def uniform(rng: np.random.Generator, objects: int, queries: int, sides: np.ndarray) -> Data:
    low = rng.random((2, queries))
    return low, low + sides, rng.random((2, objects))


def skewed(rng: np.random.Generator, objects: int, queries: int, sides: np.ndarray) -> Data:
    centres = rng.random((2, 5))
    low = centres[:, rng.integers(0, 5, queries)] + rng.normal(0, 0.1, (2, queries)) - sides / 2
    points = centres[:, rng.integers(0, 5, objects)] + rng.normal(0, 0.05, (2, objects))
    return low, low + sides, points


def hyper_skewed(rng: np.random.Generator, objects: int, queries: int, sides: np.ndarray) -> Data:
    sides = sides.copy()
    low, points = rng.random((2, queries)), rng.random((2, objects))
    # In random order, so that the first ones are from both halves.
    for corners, n in ((low, queries), (points, objects)):
        corners[:, rng.permutation(n) < n // 2] *= 0.001
    sides[:, (low < 0.001).all(axis=0)] *= 0.001
    return low, low + sides, points


_SHAPES = {"uniform": uniform, "skewed": skewed, "hyper-skewed": hyper_skewed}


def query_sides(queries: int, elongated: bool) -> np.ndarray:
    if not elongated:
        return np.full((2, queries), 0.01)
    return np.where(np.arange(queries) % 2, [[0.1], [0.001]], [[0.001], [0.1]])


class FixedGridBuilder(GridBuilder):
    """Builds one tier of n x n cells over the unit square, as in the thesis."""

    tiers = 1

    def __init__(self, boxes, across: int):
        super().__init__(boxes)
        self.across = across

    def choose_roots(self):
        unit_square = Domains(
            begin=np.zeros((1, 2)), end=np.ones((1, 2)), across=np.full((1, 2), self.across)
        )
        return unit_square, np.zeros(self.boxes.size, np.int32)


AXES = np.arange(2, dtype=np.int32)


def fixed_grid(low: np.ndarray, high: np.ndarray, points: np.ndarray, across: int) -> PointSearch:
    c, floats = boxes(low, high, True)
    cells = FixedGridBuilder(build_boxes(c, AXES, floats), across).build(AXES)
    return PointSearch(Grid(c, cells), points, True)


def shipped_grid(low: np.ndarray, high: np.ndarray, points: np.ndarray) -> PointSearch:
    return PointSearch(Grid.build(*boxes(low, high, True)), points, True)


class DeepTreeBuilder(NTreeBuilder):
    """Builds a tree with enough tiers for skewed data."""

    tiers = 24


def tuned_tree(low: np.ndarray, high: np.ndarray, points: np.ndarray, n: int) -> PointSearch:
    """Return the tree with the fastest leaf capacity.

    If boxes overlap, leaves with a small capacity are split in vain. The best capacity depends on
    the data, so a fixed one would be unfair to trees.
    """
    c, floats = boxes(low, high, True)
    flat = build_boxes(c, AXES, floats)
    trees = {}
    for capacity, room in ((8, 1), (32, 4), (128, 4)) if n < 8 else ((64, 1), (128, 4)):
        builder = DeepTreeBuilder(flat, n, capacity)
        builder.bytes_left *= room
        trees[str(capacity)] = PointSearch(NTree(c, builder.build(AXES)), points, True)
    times = search_times(trees, 0.0, dict.fromkeys(trees, 5000))
    return trees[min(times, key=times.__getitem__)]


# ------------------------------------------------------------ Figs. 3.6 to 3.12


@dataclass
class Case:
    """Measurements for objects and queries of one distribution."""

    seconds: dict[str, float]  # per cycle
    nbytes: dict[str, int]
    matches: float  # per object


@functools.cache
def measure_cases(size: str, elongated: bool) -> dict[str, list[Case]]:
    """Measure all distributions, each with all numbers of objects and queries."""
    s = SIZES[size]
    cases: dict[str, list[Case]] = {}
    for shape, make in _SHAPES.items():
        for objects, queries in s["pairs"]:
            rng = np.random.default_rng(4)
            low, high, points = make(rng, objects, queries, query_sides(queries, elongated))
            few = points[:, : s["few"]]
            structures = {
                "grid": shipped_grid(low, high, points),
                "32-tree": tuned_tree(low, high, points, 32),
                "quad-tree": tuned_tree(low, high, points, 2),
                "R*-tree": build_rstar_tree(low, high, few),
                "packed R-tree": build_packed_tree(low, high, few),
                "shapely": ShapelyTree(low, high, few),
            }
            if shape != "hyper-skewed":  # too slow, and not in the thesis
                structures[_THESIS_GRID] = fixed_grid(low, high, points, 1000)
            matches = check_equal(structures, s["checked"])
            times = search_times(structures, s["seconds"])
            cases.setdefault(shape, []).append(
                Case(
                    {name: t * objects for name, t in times.items()},
                    {name: structure.nbytes for name, structure in structures.items()},
                    matches,
                )
            )
    return cases


def draw_cycles(title: str, cases: dict[str, list[Case]], names: tuple[str, ...], size: str):
    picture, axes = drawing.panels(3, title, 4.6)
    groups = [
        f"{drawing.short(o)} objects,\n{drawing.short(q)} queries" for o, q in SIZES[size]["pairs"]
    ]
    for ax, (shape, measured) in zip(axes, cases.items()):
        series = {
            name: [1000 * c.seconds.get(name, np.nan) for c in measured]
            for name in names
            if name in measured[0].seconds
        }
        drawing.marks(ax, shape, groups, "milliseconds per cycle", series)
    return picture


def cycle_seconds(case: Case, name: str) -> float:
    """Return the seconds of a cycle; "grid" is the faster of both grids."""
    if name == "grid":
        return min(case.seconds["grid"], case.seconds.get(_THESIS_GRID, np.inf))
    return case.seconds[name]


def ratios(cases: dict[str, list[Case]], slow: tuple[str, ...], fast: str) -> dict[str, list]:
    """Return the time of the fastest of `slow` over the time of `fast`, in each case."""
    return {
        shape: [
            min(cycle_seconds(case, name) for name in slow) / cycle_seconds(case, fast)
            for case in measured
        ]
        for shape, measured in cases.items()
    }


def _least(ratios: dict[str, list[float]]) -> float:
    return min(min(values) for values in ratios.values())


def squares(size: str) -> Finding:
    cases = measure_cases(size, False)
    names = ("grid", _THESIS_GRID, "quad-tree", *_TREES)
    quad = ratios(cases, ("R*-tree",), "quad-tree")
    last = cases["hyper-skewed"][-1].seconds
    return Finding(
        "grid-squares",
        "Grid, quad-tree and R-trees",
        "thesis, Figs. 3.6-3.7",
        "The grid is the fastest for all three distributions: 1.7 s for 1,000,000 objects and "
        "25,000 hyper-skewed queries, where the quad-tree takes 8.5 s and the R-tree 33.2 s. The "
        "quad-tree beats R-trees on skewed data, but mostly not on uniform and hyper-skewed data.",
        f"Squares of side 0.01 in the unit square. {_RIVALS}",
        [
            at_least(
                "the grid beats every R-tree in every case",
                _least(ratios(cases, _TREES, "grid")),
                1.5,
            ),
            at_least(
                "the grid beats the quad-tree in every case",
                _least(ratios(cases, ("quad-tree",), "grid")),
                1.2,
            ),
            at_least(
                "hyper-skewed, most objects: 10 times as fast as the R*-tree (in the paper 19)",
                last["R*-tree"] / last["grid"],
                10,
            ),
            at_least(
                "hyper-skewed, most objects: faster than the quad-tree (in the paper 4.9 times)",
                last["quad-tree"] / last["grid"],
                2,
            ),
            at_least("skewed: the quad-tree beats the R*-tree", min(quad["skewed"]), 1),
            at_most(
                "uniform and hyper-skewed: the R*-tree mostly beats the quad-tree (median)",
                float(np.median(quad["uniform"] + quad["hyper-skewed"])),
                1,
            ),
        ],
        draw_cycles("Which index for the queries? (thesis, 3.6-3.7)", cases, names, size),
    )


def tree_of_32(size: str) -> Finding:
    cases = measure_cases(size, False)
    names = ("grid", "32-tree", "quad-tree", "R*-tree")
    return Finding(
        "grid-32-tree",
        "The 32-tree",
        "thesis, Figs. 3.8-3.9",
        "A quad-tree is too deep for hyper-skewed data. A tree with 32 x 32 children zooms faster; "
        "its speed is between the R*-tree's and the grid's for all three distributions.",
        f"The same data. {_INDEXES}",
        [
            at_least(
                "the 32-tree is faster than the R*-tree in every case",
                _least(ratios(cases, ("R*-tree",), "32-tree")),
                1,
            ),
            at_least(
                "the grid is faster than the 32-tree in every case",
                _least(ratios(cases, ("32-tree",), "grid")),
                1,
            ),
            at_least(
                "hyper-skewed: the 32-tree is faster than the quad-tree",
                min(ratios(cases, ("quad-tree",), "32-tree")["hyper-skewed"]),
                1,
            ),
        ],
        draw_cycles("A tree that zooms faster (thesis, 3.8-3.9)", cases, names, size),
    )


def memory(size: str) -> Finding:
    cases = measure_cases(size, False)
    names = ("grid", _THESIS_GRID, "32-tree", "quad-tree", "R*-tree")
    relative: dict[str, list[float]] = {name: [] for name in names}
    agree = []
    queries = SIZES[size]["pairs"][-1][1]
    for measured in cases.values():
        case = measured[-1]
        for name in names:
            # The leaves of an R-tree have the bounds of queries; the other indexes need them, too.
            bounds = 0 if name == "R*-tree" else 32 * queries
            nbytes = case.nbytes.get(name, np.nan) + bounds
            relative[name].append(nbytes / case.nbytes["packed R-tree"])
        order = sorted((n for n in names if n in case.seconds), key=case.seconds.__getitem__)
        pairs = [(a, b) for i, a in enumerate(order) for b in order[i + 1 :]]
        agree.append(np.mean([relative[a][-1] >= relative[b][-1] for a, b in pairs]))
    picture, (ax,) = drawing.panels(1, "Memory relative to an R-tree (thesis, 3.10)", 4.6)
    picture.set_figwidth(9)
    title = f"{queries:,} queries; a packed R-tree is 1"
    drawing.marks(ax, title, list(cases), "times the memory of a packed R-tree", relative)
    return Finding(
        "grid-memory",
        "Memory",
        "thesis, Fig. 3.10",
        "Speed costs memory: the faster an index, the more memory it takes. The grid takes the "
        "most, an R-tree the least.",
        f"{queries:,} squares of side 0.01. A packed R-tree takes 36 bytes per box besides its "
        "nodes. 32 of them are the bounds, which are counted for the other indexes as well. `Grid` "
        "has a budget of 80 bytes per box, at least 4 MB.",
        [
            at_least(
                "the thesis' grid takes more memory than any other index (over the next)",
                min(
                    relative[_THESIS_GRID][i] / max(v[i] for n, v in relative.items() if n != g)
                    for g in [_THESIS_GRID]
                    for i in range(2)
                ),
                1,
            ),
            at_least(
                "the 32-tree and the quad-tree take more than the R*-tree",
                min(
                    a / b
                    for name in ("32-tree", "quad-tree")
                    for a, b in zip(relative[name], relative["R*-tree"], strict=True)
                ),
                1,
            ),
            at_least(
                "of two indexes, the faster takes more (share of pairs)",
                float(np.mean(agree)),
                0.75,
                "",
            ),
        ],
        picture,
    )


def elongated(size: str) -> Finding:
    cases, square = measure_cases(size, True), measure_cases(size, False)
    names = ("grid", _THESIS_GRID, "32-tree", "quad-tree", *_TREES)
    others = ("32-tree", "quad-tree", *_TREES)

    def slower(name: str, shape: str) -> list[float]:
        both = zip(cases[shape], square[shape], strict=True)
        return [cycle_seconds(long, name) / cycle_seconds(short, name) for long, short in both]

    gains = ratios(cases, ("R*-tree",), "grid"), ratios(square, ("R*-tree",), "grid")
    greater = [a / b for shape in cases for a, b in zip(gains[0][shape], gains[1][shape])]
    return Finding(
        "grid-elongated",
        "Elongated queries",
        "thesis, Figs. 3.11-3.12",
        "If half of the queries are 0.1 x 0.001 and half 0.001 x 0.1, the grid becomes slightly "
        "slower and the R*-tree substantially slower, so the grid's lead is even greater than for "
        "squares.",
        "The same area as the squares. In the dense corner of hyper-skewed data, sides are a "
        f"thousandth of that. {_RIVALS}",
        [
            at_least(
                "the grid beats every other index in every case",
                _least(ratios(cases, others, "grid")),
                1.2,
            ),
            at_most(
                "the grid is only slightly slower than for squares (uniform and skewed)",
                max(slower("grid", "uniform") + slower("grid", "skewed")),
                1.5,
            ),
            at_least(
                "the R*-tree is substantially slower than for squares (uniform and skewed)",
                min(slower("R*-tree", "uniform") + slower("R*-tree", "skewed")),
                1.5,
            ),
            at_least(
                "the grid's lead over the R*-tree is greater than for squares (median)",
                float(np.median(greater)),
                1,
            ),
        ],
        draw_cycles("Long and thin queries (thesis, 3.11-3.12)", cases, names, size),
    )


# ------------------------------------------------------------ Fig. 3.13


def grid_size(size: str) -> Finding:
    s = SIZES[size]
    objects, queries = s["pairs"][-1]
    rng = np.random.default_rng(4)
    low, high, points = uniform(rng, objects, queries, query_sides(queries, False))
    grids = {str(n): fixed_grid(low, high, points, n) for n in s["across"]}
    grids["chosen"] = shipped_grid(low, high, points)
    check_equal(grids, s["checked"])
    times = {name: 1000 * t * objects for name, t in search_times(grids, s["seconds"]).items()}
    nbytes = {name: grid.nbytes / 1e6 for name, grid in grids.items()}
    picture, axes = drawing.panels(2, "How many cells? (thesis, 3.13a)")
    ours = int(grids["chosen"].index.layout.across[0])
    for ax, title, label, values in (
        (axes[0], f"{objects:,} objects, {queries:,} queries", "milliseconds per cycle", times),
        (axes[1], "memory", "megabytes", nbytes),
    ):
        series = {"n x n cells": [values[str(n)] for n in s["across"]]}
        x = ("cells across the domain, n", s["across"])
        drawing.lines(ax, title, x, label, series, zero=values is times)
        drawing.point(ax, ours, values["chosen"], f"Tocsin's choice: {ours}")
    few, formula, many = (times[str(n)] for n in (s["across"][0], s["across"][-2], s["across"][-1]))
    return Finding(
        "grid-size",
        "The grid's size",
        "thesis, Fig. 3.13a",
        "The formula gives 1000 x 1000 cells. The gain from 100 x 100 cells is substantial; the "
        "further gain at 2000 x 2000 is minor.",
        f"{objects:,} objects, {queries:,} queries of side 0.01, uniform; one tier of n x n cells.",
        [
            at_least("100 to 1000 cells across: a substantial gain", few / formula, 2),
            at_most("1000 to 2000 cells across: a minor gain", formula / many, 1.25),
            at_most(
                "no grid is much faster than the formula's",
                formula / min(times[str(n)] for n in s["across"]),
                1.25,
            ),
        ],
        picture,
    )


FIGURES = {
    "grid-squares": squares,
    "grid-32-tree": tree_of_32,
    "grid-memory": memory,
    "grid-elongated": elongated,
    "grid-size": grid_size,
}
