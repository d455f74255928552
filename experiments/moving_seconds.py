"""The Q-index of the thesis and its safe regions in seconds (Table 2.3), and when regions pay."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments import drawing, moving_checks
from experiments.measuring import PointSearch, boxes, time_rounds
from experiments.moving_data import READINGS, World, make_world, pages
from experiments.moving_queries import DIFFERS, shares_inside
from experiments.moving_traditional import SIZES
from experiments.page_tree import PageTree, point_boxes
from experiments.rivals import RTree, descend
from experiments.safe_regions import (
    KINDS,
    REACH,
    SafeRegions,
    leaf_boxes,
    make_fences,
    region_ios,
)
from experiments.verdicts import Claim, Finding, judge, main, number, spread
from tocsin.index.cells.grid import Grid
from tocsin.jit import Float64s, Int32Out, Int64Out, kernel
from tocsin.moving.regions.distance import find_distances
from tocsin.moving.regions.layout import keys_of_values
from tocsin.moving.regions.rectangle import AREA, find_rectangles
from tocsin.moving.widening import FLOAT

_ROOM = 1 << 22  # ids that a step can find


# ------------------------------------------------------------ Table 2.3


@kernel
def compare_all(
    queries: Float64s, x: Float64s, y: Float64s, offsets: Int64Out, out: Int32Out
) -> int:
    """Write the queries of each point; return for how many points there was room."""
    n = 0
    count = queries.shape[0] // 4
    for i in range(x.shape[0]):
        if n + count > out.shape[0]:
            return i
        for q in range(count):
            b = 4 * q
            out[n] = q
            n += (
                (queries[b] <= x[i])
                & (queries[b + 1] <= y[i])
                & (queries[b + 2] >= x[i])
                & (queries[b + 3] >= y[i])
            )
        offsets[i + 1] = n
    return x.shape[0]


def processor(size: str) -> Finding:
    s = SIZES[size]
    objects, queries = s["objects"], s["queries"][-1]
    slower: dict[str, Any] = {}
    factors: dict[str, Any] = {}
    table = [["reading; objects that move", *next(iter(moving_checks.SECONDS.values())),
              "Tocsin's grid"]]  # fmt: skip
    shown: dict[str, list[Any]] = {name: [] for name in table[0][1:-1]}
    groups = []
    for reading in READINGS:
        slower[reading], factors[reading] = {}, {}
        for moving, paper in zip(s["moving"], moving_checks.SECONDS.values(), strict=True):
            times = _step_times(s, objects, moving, queries, reading)
            for name in list(paper)[1:]:
                gain = times["Brute Force"] / times[name]
                slower[reading][f"{name}, {moving:,} moving"] = gain
                factor = gain / (paper["Brute Force"] / paper[name])
                factors[reading][f"{name}, {moving:,} moving"] = factor
            milliseconds = [1000 * times[name] for name in times]
            table.append([f"{reading}; {moving:,}", *(spread(t) for t in milliseconds)])
            groups.append(f"{reading}\n{moving:,} moving")
            for name in shown:
                shown[name].append(1000 * times[name])
    picture, axes = drawing.panels(
        1,
        "Time of a step (thesis, Table 2.3)",
        height=7,
        parameters=f"{objects:,} objects, {queries:,} queries; regions computed {s['steps'] // 2} "
        "steps before. Everything is in memory.",
    )
    drawing.marks(axes[0], "milliseconds of a step", groups, "milliseconds", shown)
    claims = moving_checks.PROCESSOR
    return Finding(
        "moving-q-index-time",
        "Q-index in seconds",
        "thesis, Table 2.3",
        "Although incremental brute force has the fewest I/Os (150), it is slower than the Q-index "
        "and safe regions: 3.6 s against 1.7, 0.9 (SafeSphere) and 0.5 s (SafeRect) with 1,000 "
        "moving objects, 37 s against 3.1, 1.3 and 1.1 s with 10,000.",
        f"{objects:,} objects, {queries:,} queries; milliseconds of a step, compiled, one core, in "
        "memory. The Q-index has the leaves of an R*-tree built by insertion, 100 entries, as in "
        "the thesis. The test whether an object is inside of its region is included; regions were "
        f"computed {s['steps'] // 2} steps before.",
        [main(judge(claims[0], slower)), judge(claims[1], factors)],
        picture,
        table,
        differs="in memory, so that I/Os cost nothing; nodes above leaves are packed; when regions "
        f"were computed it does not say; {DIFFERS}",
    )


def _step_times(
    s: dict[str, Any], objects: int, moving: int, queries: int, reading: str
) -> dict[str, np.ndarray]:
    """Return the seconds of a step of each scheme, in each round."""
    world = make_world(s["seeds"][0], objects, queries, READINGS[reading])
    regions = SafeRegions(world)
    for _ in range(s["steps"] // 2):
        rows = regions.move(world, moving)
    corners = np.ascontiguousarray(world.boxes.T)
    groups, leaves = np.empty(queries, np.int64), PageTree(world.boxes).leaves()
    sizes = np.diff(leaves.start, append=queries)
    groups[leaves.order] = np.repeat(np.arange(len(sizes)), sizes)
    points = np.stack([world.x[rows], world.y[rows]])
    tree = RTree(groups, corners[:2], corners[2:], points, fan_out=100)
    offsets, out = np.zeros(moving + 1, np.int64), np.zeros(_ROOM, np.int32)
    flat = world.boxes.reshape(-1)

    def search(x: np.ndarray, y: np.ndarray) -> int:
        n = len(x)
        if n and descend(tree.tree, x, y, 0, n, offsets, out) < n:
            raise AssertionError("there is no room for what was found")
        return int(offsets[n])

    def search_outside(kind: str) -> Callable[[], int]:
        def run() -> int:
            outside = rows[~regions.inside(world, rows, kind)]
            return search(world.x[outside], world.y[outside])

        return run

    def compare() -> int:
        if compare_all(flat, points[0], points[1], offsets, out) < moving:
            raise AssertionError("there is no room for what was found")
        return int(offsets[moving])

    grid = PointSearch(Grid.build(*boxes(*_corners(world), True)), points, True)
    calls = {
        "Brute Force": compare,
        "Q-index": lambda: search(points[0], points[1]),
        "SafeSphere": search_outside("SafeSphere"),
        "SafeRect": search_outside("SafeRect"),
        "Tocsin's grid": lambda: _search_all(grid, offsets, out),
    }
    found = {name: call() for name, call in calls.items()}  # and compile
    if not found["Brute Force"] == found["Q-index"] == found["Tocsin's grid"]:
        raise AssertionError("schemes find different queries")
    return dict(zip(calls, time_rounds(list(calls.values()), 1.0), strict=True))


# ------------------------------------------------------------ break-even


def break_even(size: str) -> Finding:
    s = SIZES[size]
    seed, (_, moving), (_, queries) = s["seeds"][0], s["moving"], s["queries"]
    steps: dict[str, dict[str, float]] = {}
    shown: dict[str, list[float]] = {kind: [] for kind in KINDS}
    table = [["reading, region", "I/Os to compute it, an object", "% inside, mean of all steps",
              "I/Os saved in a step", "steps until it has paid, I/Os",
              "microseconds to compute it, an object", "microseconds of a lookup",
              "steps until it has paid, in memory"]]  # fmt: skip
    for reading in READINGS:
        steps[reading] = {}
        world = make_world(seed, s["objects"], queries, READINGS[reading])
        tree = PageTree(world.boxes)
        seconds = region_seconds(world)
        costs = region_ios(leaf_boxes(tree, world.boxes), SafeRegions(world))
        shares = shares_inside(s["steps"], seed, s["objects"], moving, queries, reading)
        rows, _ = world.move(moving)
        points = np.stack([world.x[rows], world.y[rows]])
        lookup = _search_seconds(world, points) / moving
        lookups, _ = tree.search(point_boxes(*points))
        for kind in KINDS:
            share = float(shares[kind].mean())
            saved = share * lookups + pages(moving) - pages(round((1 - share) * moving))
            needed = costs[kind].sum() / max(saved, 1e-9)
            in_memory = seconds[kind] * s["objects"] / max(share * moving * lookup, 1e-12)
            steps[reading][kind] = needed
            shown[kind].append(needed)
            cells = (
                costs[kind].mean(), 100 * share, saved, needed, 1e6 * seconds[kind], 1e6 * lookup,
                in_memory,
            )  # fmt: skip
            table.append([f"{reading}, {kind}", *map(number, cells)])
    picture, axes = drawing.panels(
        1,
        "When safe regions have paid (our own question)",
        parameters=f"{s['objects']:,} objects, {moving:,} moving at each step of 50 s, "
        f"{queries:,} queries; I/Os on pages, one draw.",
    )
    drawing.marks(axes[0], "steps until then", [*READINGS], "steps", shown)
    claim = Claim(
        "computing the regions of all objects has paid, in I/Os, within the 20 steps of Fig. 2.5",
        "at most", 20, " steps",
    )  # fmt: skip
    return Finding(
        "moving-break-even",
        "When safe regions have paid",
        "thesis, 2.6.2; our own question",
        "None: computing regions is said to be expensive, but rare.",
        f"{s['objects']:,} objects, {moving:,} moving, {queries:,} queries. Saved are leaves of "
        "the Q-index, which are on disk, and pages of reports. In memory a lookup is one in "
        "Tocsin's grid, and regions are Tocsin's; what a report costs to send is not counted, and "
        "is what regions are for.",
        [main(judge(claim, steps))],
        picture,
        table,
        is_own=True,
    )


def region_seconds(world: World) -> dict[str, float]:
    """Return the seconds it takes to compute each region of an object, as the best of three."""
    found: dict[str, list[float]] = {"SafeDist": [], "SafeRect": []}
    fences = make_fences(world.boxes)
    keys = keys_of_values(world.x, FLOAT), keys_of_values(world.y, FLOAT)
    for _ in range(3):
        start = time.perf_counter()
        distance = find_distances(fences, *keys).distance
        middle = time.perf_counter()
        find_rectangles(fences, *keys, by=AREA, reach=REACH * distance)
        found["SafeDist"].append(middle - start)
        found["SafeRect"].append(time.perf_counter() - start)
    best = {kind: min(values) / world.objects for kind, values in found.items()}
    return {kind: best["SafeRect" if kind == "SafeRect" else "SafeDist"] for kind in KINDS}


def _search_seconds(world: World, points: np.ndarray) -> float:
    """Return the seconds of looking points up in Tocsin's grid of the queries."""
    search = PointSearch(Grid.build(*boxes(*_corners(world), True)), points, True)
    offsets, out = np.zeros(points.shape[1] + 1, np.int64), np.zeros(_ROOM, np.int32)
    return float(np.median(time_rounds([lambda: _search_all(search, offsets, out)], 0.2)[0]))


def _search_all(search: PointSearch, offsets: np.ndarray, out: np.ndarray) -> int:
    offsets[0] = 0
    if search.search(0, search.events, offsets, out) < search.events:
        raise AssertionError("there is no room for what was found")
    return int(offsets[search.events])


def _corners(world: World) -> tuple[np.ndarray, np.ndarray]:
    corners = np.ascontiguousarray(world.boxes.T)
    return corners[:2], corners[2:]


FIGURES = {"moving-q-index-time": processor, "moving-break-even": break_even}
