"""The Q-index of the thesis and its safe regions (2.6.2, 2.6.3, Fig. 2.5, Table 2.3)."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments import drawing, moving_checks
from experiments.measuring import PointSearch, boxes, time_rounds
from experiments.moving_data import (
    READINGS,
    SPEED,
    SPEEDS,
    STEP,
    World,
    make_world,
    pages,
    query_index,
)
from experiments.moving_traditional import PAGES, SIZES, traditional_ios
from experiments.page_tree import PageTree, point_boxes
from experiments.rivals import RTree, descend
from experiments.safe_regions import KINDS, SafeRegions, leaf_boxes, region_ios
from experiments.verdicts import Finding, judge, main, number, spread
from tocsin.index.cells.grid import Grid
from tocsin.jit import Float64s, Int32Out, Int64Out, kernel

_AT = 2  # steps after which the text has numbers: 100 s
_OURS = 1 << 22  # ids that a step can find
_REGIONS = (
    "Regions are computed once, by Tocsin's kernels, SafeRect as published: the largest area "
    "within ten times SafeDist."
)
_DIFFERS = (
    "the spread of queries, 0.1 or 1, is not given here, nor what queries are if they lie outside "
    "of the square: three readings; speeds have 100 ranks"
)


@functools.cache
def shares_inside(
    steps: int,
    seed: int,
    objects: int,
    moving: int,
    queries: int,
    reading: str,
    speed: float = SPEED,
    speeds: str = "Zipf",
) -> dict[str, np.ndarray]:
    """Return for each step the share of the moved objects that are inside of their region."""
    world = make_world(seed, objects, queries, READINGS[reading], speed, speeds)
    regions = SafeRegions(world)
    shares: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(steps):
        rows = regions.move(world, moving)
        for kind in KINDS:
            shares[kind].append(float(regions.inside(world, rows, kind).mean()))
    return {kind: np.array(values) for kind, values in shares.items()}


def _shares(s: dict[str, Any], reading: str, **more: Any) -> dict[str, np.ndarray]:
    """Return the shares of all draws, [steps, draws]."""
    settings = dict(moving=s["moving"][-1], queries=s["queries"][0]) | more
    runs = [
        shares_inside(s["steps"], seed, s["objects"], reading=reading, **settings)
        for seed in s["seeds"]
    ]
    return {kind: np.stack([run[kind] for run in runs], axis=1) for kind in KINDS}


def _seconds(s: dict[str, Any]) -> list[float]:
    return [STEP * (i + 1) for i in range(s["steps"])]


def _describe(s: dict[str, Any], queries: int) -> str:
    return (
        f"{s['objects']:,} objects in five clusters, {s['moving'][-1]:,} moving at each step of "
        f"50 s; {queries:,} queries; {len(s['seeds'])} draws"
    )


# ------------------------------------------------------------ 2.6.2


def safe_regions(size: str) -> Finding:
    s = SIZES[size]
    few, many = s["queries"]
    picture, axes = drawing.panels(
        3,
        "Safe regions over time (thesis, 2.6.2)",
        parameters=f"{_describe(s, few)}. {_REGIONS} Bands: from the least draw to the greatest.",
    )
    inside, best, sphere, costs = ({} for _ in range(4))
    table = [["reading, speeds", *(f"{kind}, % inside after 100 s" for kind in KINDS)]]
    for axis, reading in zip(axes, READINGS, strict=True):
        shares = _shares(s, reading)
        inside[reading] = {
            kind: shares[kind][_AT - 1] / share for kind, share in moving_checks.INSIDE.items()
        }
        best[reading] = _over_time(s, shares["SafeRect"], shares["SafeSphere"])
        sphere[reading] = _over_time(s, shares["SafeSphere"], shares["SafeDist"])
        shown = {kind: list(100 * shares[kind]) for kind in KINDS}
        drawing.lines(
            axis, reading, ("seconds", _seconds(s)), "% of the moved objects inside", shown,
            powers=False, zero=True,
        )  # fmt: skip
        drawing.paper(axis, [100], [95], "SafeRect")
        drawing.paper(axis, [100], [83], "SafeDist")
        for speeds in SPEEDS:
            others = _shares(s, reading, speeds=speeds)
            table.append(
                [f"{reading}, {speeds}", *(spread(100 * others[k][_AT - 1]) for k in KINDS)]
            )
    text = []
    for reading in READINGS:
        found = [_region_costs(s, seed, reading) for seed in s["seeds"]]
        costs[reading] = {
            kind: np.array([each[kind] for each in found]) / paper
            for kind, paper in moving_checks.COST.items()
        }
        text.append(f"{reading}: {_pay_off(s, reading)}")
    claims = moving_checks.SAFE_REGIONS
    checks = [
        judge(claim, points)
        for claim, points in zip(claims, (inside, best, sphere, costs), strict=True)
    ]
    return Finding(
        "moving-safe-regions",
        "Safe regions over time",
        "thesis, 2.6.2",
        "After 100 s 95% of the moved objects are still inside their SafeRect and need not report, "
        "83% inside their SafeDist. SafeRect is the most effective, and SafeSphere never worse "
        "than SafeDist. With 10,000 queries, computing a region takes 13 I/Os per object for "
        "SafeDist and SafeSphere, and 52 for SafeRect.",
        f"{_describe(s, few)}. {_REGIONS} I/Os are leaves of the R*-tree of {many:,} queries that "
        "a best-first search reads: those not farther than the nearest edge, and for SafeRect "
        "those within ten times that distance. Break-even is our own question: the steps after "
        f"which regions have saved what computing them for all objects took. {'; '.join(text)}.",
        [main(checks[0]), *checks[1:]],
        picture,
        table,
        differs=_DIFFERS,
    )


def _over_time(s: dict[str, Any], a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    ratios = a / np.maximum(b, 1e-9)
    return {f"{t:.0f} s": ratio for t, ratio in zip(_seconds(s), ratios, strict=True)}


def _region_costs(s: dict[str, Any], seed: int, reading: str) -> dict[str, float]:
    """Return the mean I/Os of computing a region, with the most queries."""
    world = make_world(seed, s["objects"], s["queries"][-1], READINGS[reading])
    tree = PageTree(world.boxes)
    ios = region_ios(leaf_boxes(tree, world.boxes), SafeRegions(world))
    return {kind: float(values.mean()) for kind, values in ios.items()}


def _pay_off(s: dict[str, Any], reading: str) -> str:
    """Return after how many steps regions have paid, in I/Os and in seconds."""
    seed, moving, queries = s["seeds"][0], s["moving"][-1], s["queries"][-1]
    world = make_world(seed, s["objects"], queries, READINGS[reading])
    tree = PageTree(world.boxes)
    start = time.perf_counter()
    regions = SafeRegions(world)
    seconds = time.perf_counter() - start
    costs = region_ios(leaf_boxes(tree, world.boxes), regions)
    shares = shares_inside(s["steps"], seed, s["objects"], moving, queries, reading)
    points = np.stack([world.x, world.y])[:, :moving]
    lookup = _search_seconds(world, points)
    lookups, _ = tree.search(point_boxes(*points))
    parts = []
    for kind in KINDS:
        share = shares[kind].mean()
        saved = share * lookups + pages(moving) - pages(int((1 - share) * moving))
        steps = costs[kind].sum() / max(saved, 1e-9)
        parts.append(f"{kind} {number(costs[kind].mean())} I/Os, break-even after {steps:,.0f}")
    share = shares["SafeRect"].mean()
    in_memory = seconds / max(share * lookup, 1e-12)
    return (
        f"{', '.join(parts)} steps; in memory, both distances and rectangles of all objects take "
        f"{number(1e6 * seconds / s['objects'])} microseconds an object, which pays after "
        f"{in_memory:,.0f} steps of lookups"
    )


def _search_seconds(world: World, points: np.ndarray) -> float:
    """Return the seconds of looking points up in Tocsin's grid of the queries."""
    search = PointSearch(Grid.build(*boxes(*_corners(world), True)), points, True)
    offsets, out = np.zeros(points.shape[1] + 1, np.int64), np.zeros(_OURS, np.int32)
    return float(np.median(time_rounds([lambda: _search_all(search, offsets, out)], 0.2)[0]))


def _search_all(search: PointSearch, offsets: np.ndarray, out: np.ndarray) -> int:
    offsets[0] = 0
    if search.search(0, search.events, offsets, out) < search.events:
        raise AssertionError("there is no room for what was found")
    return int(offsets[search.events])


def _corners(world: World) -> tuple[np.ndarray, np.ndarray]:
    corners = np.ascontiguousarray(world.boxes.T)
    return corners[:2], corners[2:]


# ------------------------------------------------------------ Fig. 2.5


def query_index_ios(size: str) -> Finding:
    s = SIZES[size]
    objects, (few, _), (less, moving) = s["objects"], s["queries"], s["moving"]
    whole = query_index(few, moving)
    gains, orders = {}, {}
    picture, axes = drawing.panels(
        3,
        "Q-index and safe regions (thesis, 2.5)",
        parameters=f"{_describe(s, few)}. {_REGIONS} The Q-index is in memory.",
    )
    table = [["reading", "Q-index", *(f"{kind}, mean I/Os" for kind in KINDS)]]
    for axis, reading in zip(axes, READINGS, strict=True):
        shares = _shares(s, reading)
        ios = {
            kind: np.vectorize(lambda share: query_index(few, round((1 - share) * moving)))(
                shares[kind]
            ).astype(float)
            for kind in KINDS
        }
        gains[reading] = {
            f"{t:.0f} s": whole / values
            for t, values in zip(_seconds(s), ios["SafeRect"], strict=True)
        }
        found = [traditional_ios(seed, objects, moving, few, reading) for seed in s["seeds"]]
        orders[reading] = {
            scheme: np.array([run[scheme] for run in found]) / whole
            for scheme in moving_checks.SCHEMES
        }
        shown = {"Q-index": [whole] * s["steps"]} | {kind: list(ios[kind]) for kind in KINDS}
        drawing.lines(
            axis, reading, ("seconds", _seconds(s)), "I/Os of a step", shown, powers=False,
            zero=True,
        )  # fmt: skip
        drawing.paper(axis, [100], [moving_checks.SAFE_RECT_IOS], "SafeRect")
        table.append([reading, number(whole), *(spread(ios[k].mean(axis=0)) for k in KINDS)])
    printed = {
        f"{m:,} moving": query_index(few, m) / paper
        for m, paper in zip((moving, less), moving_checks.QUERY_INDEX_IOS.values(), strict=True)
    }
    claims = moving_checks.QUERY_INDEX
    checks = [
        judge(claim, points) for claim, points in zip(claims, (gains, printed, orders), strict=True)
    ]
    return Finding(
        "moving-q-index",
        "Q-index and safe regions",
        "thesis, Fig. 2.5",
        "With 1,000 queries in memory and 10,000 moving objects, the Q-index needs 110 I/Os at "
        "each step, and only about 20 with SafeRect, for as long as 1,000 seconds. Traditional "
        "approaches need more than ten times as many as the Q-index.",
        f"{_describe(s, few)}. A step reads the pages of the queries and those of the reports. "
        f"{_REGIONS} {PAGES}",
        [main(checks[0]), *checks[1:]],
        picture,
        table,
        differs=_DIFFERS,
    )


# ------------------------------------------------------------ impact of velocity


def velocity(size: str) -> Finding:
    s = SIZES[size]
    few = s["queries"][0]
    speeds = [50.0, 125.0, 250.0, 500.0]
    ratios, table = {}, [["reading, mph", *(f"{kind}, % inside, mean" for kind in KINDS)]]
    picture, axes = drawing.panels(
        3,
        "Safe regions at 250 and 500 miles an hour (thesis, 2.6.3)",
        parameters=f"{_describe(s, few)}. {_REGIONS}",
    )
    for axis, reading in zip(axes, READINGS, strict=True):
        found = {speed: _shares(s, reading, speed=speed) for speed in speeds}
        ratios[reading] = {
            f"{kind}, {t:.0f} s": found[500.0][kind][i] / np.maximum(found[SPEED][kind][i], 1e-9)
            for kind in KINDS
            for i, t in enumerate(_seconds(s))
        }
        shown = {kind: list(100 * found[SPEED][kind]) for kind in KINDS}
        shown |= {f"{kind}, 500 mph": list(100 * found[500.0][kind]) for kind in KINDS}
        drawing.lines(
            axis, reading, ("seconds", _seconds(s)), "% of the moved objects inside", shown,
            powers=False, zero=True,
        )  # fmt: skip
        table += [
            [f"{reading}, {speed:.0f}",
             *(spread(100 * found[speed][kind].mean(axis=0)) for kind in KINDS)]
            for speed in speeds
        ]  # fmt: skip
    claims = moving_checks.FASTER
    return Finding(
        "moving-safe-speed",
        "Safe regions, maximum speed",
        "thesis, 2.6.3",
        "With a V_max of 500 mph results are very similar to those with 250 mph, except that the "
        "optimisations are a little less effective.",
        f"{_describe(s, few)}. {_REGIONS}",
        [main(judge(claims[0], ratios)), judge(claims[1], ratios)],
        picture,
        table,
        differs=_DIFFERS,
    )


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
        f"were computed it does not say; {_DIFFERS}",
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
    offsets, out = np.zeros(moving + 1, np.int64), np.zeros(_OURS, np.int32)
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


FIGURES = {
    "moving-safe-regions": safe_regions,
    "moving-q-index": query_index_ios,
    "moving-safe-speed": velocity,
    "moving-q-index-time": processor,
}
