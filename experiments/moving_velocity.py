"""The velocity constrained index of the thesis on pages (Figs. 2.6 to 2.10, 2.6.4)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments import drawing, moving_checks
from experiments.moving_data import (
    CITY_MILES,
    CITY_SPEED,
    READINGS,
    SPEED,
    STEP,
    World,
    brute_force,
    make_world,
    pages,
)
from experiments.page_tree import Leaves, PageTree, point_boxes
from experiments.velocity_pages import VelocityPages
from experiments.verdicts import Check, Claim, Finding, judge, main, number, spread
from tocsin.moving.velocity import VelocityIndex, optimal_period

_SIZES = {
    "tiny": dict(objects=3_000, queries=20, seeds=[1, 2, 3], seconds=400),
    "full": dict(objects=100_000, queries=100, seeds=[1, 2, 3, 4, 5], seconds=1_000),
}
WIDE = ("spread 1, inside", "spread 1, anywhere")  # the default of 2.6.4, as it can be read
_DENSE = "spread 0.1"
_CITY_SPREAD = 0.8
_LATEST = 20_000.0  # seconds within which a scan has become better

_HOW = (
    "Published: an R*-tree built by insertion, 100 entries a page, v_max of a node for all that is "
    "in it, top two levels in memory; each query reads leaves on its own, positions are looked up "
    "for all queries together. I/Os do not depend on the machine; numbers are medians of draws of "
    "the data."
)
_DIFFERS = (
    "speeds, with 100 ranks, and what queries with a spread of 1 are if they lie outside of the "
    "square (two readings) are our choice"
)


@functools.cache
def object_leaves(seed: int, objects: int, in_city: bool = False) -> Leaves:
    """Return the leaves of the objects' R*-tree."""
    world = make_world(seed, objects, 1, **_place(in_city))
    return PageTree(point_boxes(world.x, world.y)).leaves()


def _place(in_city: bool) -> dict[str, Any]:
    return dict(spread=_CITY_SPREAD, miles=CITY_MILES) if in_city else {}


def make_index(
    s: dict[str, Any],
    seed: int,
    reading: str,
    speed: float = SPEED,
    queries: int | None = None,
    in_city: bool = False,
) -> tuple[World, VelocityPages]:
    """Return objects and queries, and the published index of the objects."""
    objects = s["objects"]
    settings = READINGS[reading]
    if in_city:
        settings = (_CITY_SPREAD, True)
    world = make_world(seed, objects, queries or s["queries"], settings, speed, **_place(in_city))
    return world, VelocityPages(world, object_leaves(seed, objects, in_city))


def _describe(s: dict[str, Any]) -> str:
    return (
        f"{s['objects']:,} objects in five clusters, all moving; {s['queries']} queries of side "
        f"0.01; V_max {SPEED:.0f} mph; {len(s['seeds'])} draws"
    )


def time_until_scan(cost: Callable[[float], int], scan: int) -> float:
    """Return after how many seconds an index needs as many I/Os as a scan of all objects."""
    low, high = 0.0, _LATEST
    if cost(high) < scan:
        return math.inf
    while high - low > 1e-3 * high and high > 0.01:
        middle = (low + high) / 2
        if cost(middle) < scan:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def scan_times(world: World, index: VelocityPages) -> tuple[float, float]:
    """Return the times until a scan is better, without and with clustering."""
    scan = pages(world.objects)
    return (
        time_until_scan(lambda t: index.cost(world.boxes, t).total, scan),
        time_until_scan(lambda t: index.cost(world.boxes, t).clustered_total, scan),
    )


# ------------------------------------------------------------ Fig. 2.6


def velocity(size: str) -> Finding:
    s = _SIZES[size]
    times = [50, 100, 150, 200, 300, 400, 500]
    claims = moving_checks.VELOCITY
    readings: list[dict[str, Any]] = [{} for _ in claims]
    picture, axes = drawing.panels(
        2,
        "Velocity constrained index without and with clustering (thesis, 2.6)",
        parameters=f"{_describe(s)}. Tocsin: packed, clustered, each box expanded by its own "
        "v_max. Bands are from the least draw to the greatest.",
    )
    table = [["reading, seconds", "pre-processing", "no clustering", "clustering",
              "packed, published (Tocsin)", "packed (Tocsin)"]]  # fmt: skip
    for axis, reading in zip(axes, WIDE, strict=True):
        names = ("pre-processing", "no clustering", "clustering", "packed, published", "packed")
        series: dict[str, Any] = {name: [[] for _ in times] for name in names}
        until: list[tuple[float, float]] = []
        single = []
        for seed in s["seeds"]:
            world, index = make_index(s, seed, reading)
            until.append(scan_times(world, index))
            packed = [_pack(world, is_published) for is_published in (True, False)]
            for i, t in enumerate(times):
                cost = index.cost(world.boxes, t)
                numbers = (cost.before, cost.total, cost.clustered_total)
                numbers += tuple(_packed_ios(each, world, t) for each in packed)
                for name, value in zip(names, numbers, strict=True):
                    series[name][i].append(value)
            each = [index.cost(box[None], t) for box in world.boxes for t in (50, 100, 150)]
            single.append([np.mean([c.scattered for c in each]), np.mean([c.total for c in each])])
        found = {name: np.array(rows, float) for name, rows in series.items()}
        apart, together = np.array(until).T
        saved = found["no clustering"] - found["clustering"]
        post, post_clustered = (
            found[name] - found["pre-processing"] for name in ("no clustering", "clustering")
        )
        early = [i for i, t in enumerate(times) if t <= 150]
        printed = {
            "the first step": found["no clustering"][0] / moving_checks.LEAST,
            "150 s": found["no clustering"][times.index(150)] / moving_checks.MOST,
        }
        for name, values in zip(moving_checks.SINGLE, np.array(single).T, strict=True):
            printed[f"one query, {name}"] = values / moving_checks.SINGLE[name]
        points: list[dict[str, Any]] = [
            {"": together / apart},
            {"": apart},
            {"": together},
            {f"{times[i]} s": saved[i] for i in early},
            {f"{times[i]} s": post[i] / np.maximum(post_clustered[i], 1) for i in early},
            printed,
        ]
        for by_reading, each in zip(readings, points, strict=True):
            by_reading[reading] = each
        shown = {
            "no clustering": found["no clustering"],
            "clustering": found["clustering"],
            "pre-processing": found["pre-processing"],
            "packed (Tocsin)": found["packed"],
        }
        x = ("seconds since the index was built", times)
        drawing.lines(axis, reading, x, "I/Os of a step", shown, powers=False, zero=True)
        drawing.limit(axis, pages(s["objects"]), "sequential scan")
        table += [
            [f"{reading}, {t}", *(spread(found[name][i]) for name in names)]
            for i, t in enumerate(times)
        ]
    checks = _judge_all(claims, readings)
    return Finding(
        "moving-vci",
        "Velocity constrained index, clustering",
        "thesis, Fig. 2.6",
        "With 100 queries VCI needs between 280 and 880 I/Os, and approaches a sequential scan "
        "after about 150 s. Clustering saves about 400 I/Os at each step, which extends this to "
        "over 400 s. For one query, post-processing and total are 6 and 17 I/Os.",
        f"{_describe(s)}. {_HOW} What the thesis says of the range is compared with the first step "
        "(50 s) and with 150 s.",
        checks,
        picture,
        table,
        differs=_DIFFERS,
    )


def _pack(world: World, is_published: bool) -> VelocityIndex:
    """Return Tocsin's index, with clustering."""
    rows = np.arange(world.objects)
    return VelocityIndex(rows, world.x, world.y, world.v_max, 0, published=is_published)


def _packed_ios(index: VelocityIndex, world: World, elapsed: float) -> int:
    read = index.pages(world.boxes[:, :2], world.boxes[:, 2:], elapsed)
    return read.visited[0] + read.table_pages


def _judge_all(claims: list[Claim], readings: list[dict[str, Any]]) -> list[Check]:
    checks = [judge(claim, points) for claim, points in zip(claims, readings, strict=True)]
    return [main(checks[0]), *checks[1:]]


# ------------------------------------------------------------ Fig. 2.7


class Run:
    """Steps in which all objects move, with refreshes."""

    def __init__(self, world: World, index: VelocityPages, is_clustered: bool, step: float):
        self.world, self.index, self.is_clustered, self.step = world, index, is_clustered, step
        self.age = 0.0
        self.totals: list[int] = []
        self.refreshed: list[int] = []  # after this many steps

    def cost(self, age: float) -> int:
        cost = self.index.cost(self.world.boxes, age)
        return cost.clustered_total if self.is_clustered else cost.total

    def advance(self, steps: int, is_due: Callable[[Run], bool]) -> None:
        for _ in range(steps):
            self.world.move(self.world.objects, self.step)
            self.age += self.step
            self.totals.append(self.cost(self.age))
            if is_due(self):
                self.refresh()

    def refresh(self) -> None:
        self.index.refresh(self.world)
        self.age = 0.0
        self.refreshed.append(len(self.totals))

    def exceeds_scan(self) -> bool:
        """Return whether the next step would need more I/Os than a scan."""
        return self.cost(self.age + self.step) > pages(self.world.objects)


def refresh(size: str) -> Finding:
    s = _SIZES[size]
    steps = int(s["seconds"] / STEP)
    picture, axes = drawing.panels(
        2,
        "Velocity constrained index with refreshes (thesis, 2.7)",
        parameters=f"{_describe(s)}. A refresh follows the last step before the one that would "
        f"need more I/Os than a scan. The first draw is shown.",
    )
    table = [["reading", "saved by a refresh, no clustering", "clustering", "refreshes in "
              f"{s['seconds']:,} s, no clustering", "clustering"]]  # fmt: skip
    drops: dict[str, Any] = {}
    shares: dict[str, Any] = {}
    for axis, reading in zip(axes, WIDE, strict=True):
        saved: dict[str, list[float]] = {"no clustering": [], "clustering": []}
        counts: dict[str, list[int]] = {"no clustering": [], "clustering": []}
        shown: dict[str, list[float]] = {}
        below: dict[str, list[float]] = {}
        for seed in s["seeds"]:
            for name in saved:
                run = Run(*make_index(s, seed, reading), name == "clustering", STEP)
                run.advance(steps, Run.exceeds_scan)
                shown.setdefault(name, [float(total) for total in run.totals])
                own = [
                    run.totals[i - 1] - run.totals[i] for i in run.refreshed if i < len(run.totals)
                ]
                saved[name].append(float(np.median(own)) if own else math.nan)
                counts[name].append(len(run.refreshed))
                below.setdefault(name, []).append(max(run.totals) / pages(s["objects"]))
        drops[reading] = {name: _known(values) for name, values in saved.items()}
        shares[reading] = below
        x = ("seconds", [STEP * (i + 1) for i in range(steps)])
        drawing.lines(axis, reading, x, "I/Os of a step", shown, powers=False, zero=True)
        drawing.limit(axis, pages(s["objects"]), "sequential scan")
        table.append(
            [reading, *(spread(_known(v)) for v in saved.values()),
             *(spread(v) for v in counts.values())]
        )  # fmt: skip
    return Finding(
        "moving-vci-refresh",
        "Velocity constrained index, refresh",
        "thesis, Fig. 2.7",
        "The refreshes keep the cost below that of a sequential scan. Each reduces it by almost "
        "600 I/Os.",
        f"{_describe(s)}. {_HOW} For each draw, the median of its refreshes.",
        _judge_all(moving_checks.REFRESH, [drops, shares]),
        picture,
        table,
        differs=f"{_DIFFERS}; when exactly the thesis refreshes, and whether with clustering",
    )


def _known(values: list[float]) -> list[float]:
    """Return the numbers without NaN; no refresh saves nothing."""
    return [value for value in values if not math.isnan(value)] or [0.0]


# ------------------------------------------------------------ Fig. 2.8, V_max, the city


def dense_queries(size: str) -> Finding:
    s = _SIZES[size]
    until = {
        reading: np.array([scan_times(*make_index(s, seed, reading)) for seed in s["seeds"]]).T
        for reading in (_DENSE, *WIDE)
    }
    names = ("no clustering", "clustering")
    points = {
        reading: {name: until[reading][i] / until[_DENSE][i] for i, name in enumerate(names)}
        for reading in WIDE
    }
    picture, axes = drawing.panels(
        2,
        "Velocity constrained index, queries with a spread of 0.1 (thesis, 2.8)",
        parameters=f"{_describe(s)}.",
    )
    times = [10, 25, 50, 75, 100, 150]
    for axis, reading in zip(axes, (_DENSE, WIDE[0]), strict=True):
        series: dict[str, Any] = {name: [[] for _ in times] for name in names}
        for seed in s["seeds"]:
            world, index = make_index(s, seed, reading)
            for i, t in enumerate(times):
                cost = index.cost(world.boxes, t)
                series["no clustering"][i].append(cost.total)
                series["clustering"][i].append(cost.clustered_total)
        x = ("seconds since the index was built", times)
        drawing.lines(axis, reading, x, "I/Os of a step", series, powers=False, zero=True)
        drawing.limit(axis, pages(s["objects"]), "sequential scan")
    table = [["reading", "seconds until a scan is better, no clustering", "clustering"]]
    table += [[reading, *(spread(values) for values in each)] for reading, each in until.items()]
    return Finding(
        "moving-vci-dense",
        "Velocity constrained index, denser queries",
        "thesis, Fig. 2.8",
        "With a spread of queries of 0.1, a tenth of that of the other tests, the cost degrades "
        "to that of a sequential scan much faster.",
        f"{_describe(s)}. {_HOW}",
        _judge_all(moving_checks.DENSE_QUERIES, [points]),
        picture,
        table,
        differs=_DIFFERS,
    )


def v_max(size: str) -> Finding:
    s = _SIZES[size]
    speeds = [50.0, 125.0, 250.0, 500.0]
    names = ("no clustering", "clustering")
    until: dict[str, np.ndarray] = {}
    for reading in WIDE:
        found = [
            [scan_times(*make_index(s, seed, reading, speed)) for seed in s["seeds"]]
            for speed in speeds
        ]
        until[reading] = np.array(found)  # [speeds, seeds, 2]
    at = speeds.index(SPEED)
    stretch = {
        reading: {
            f"{speed:.0f} mph, {name}": times[i, :, k] * speed / SPEED / times[at, :, k]
            for i, speed in enumerate(speeds)
            if i != at
            for k, name in enumerate(names)
        }
        for reading, times in until.items()
    }
    city = np.array(
        [
            scan_times(*make_index(s, seed, WIDE[0], CITY_SPEED, min(10, s["queries"]), True))
            for seed in s["seeds"]
        ]
    ).T
    in_city = {name: {"": city[k]} for k, name in enumerate(names)}
    picture, axes = drawing.panels(
        2,
        "Time until a sequential scan is better, by V_max (thesis, 2.6.4)",
        parameters=f"{_describe(s)}.",
    )
    for axis, reading in zip(axes, WIDE, strict=True):
        series = {name: list(until[reading][:, :, k]) for k, name in enumerate(names)}
        drawing.lines(axis, reading, ("V_max, mph", speeds), "seconds", series)
    table = [["reading, mph", "seconds until a scan is better, no clustering", "clustering"]]
    table += [
        [f"{reading}, {speed:.0f}", *(spread(until[reading][i, :, k]) for k in range(2))]
        for reading in WIDE
        for i, speed in enumerate(speeds)
    ]
    table.append(["city, 10 queries, 50", *(spread(values) for values in city)])
    return Finding(
        "moving-vci-speed",
        "Velocity constrained index, maximum speed",
        "thesis, 2.6.4",
        "A lower V_max stretches the time scale linearly. In a city of 10 miles by 10 miles, with "
        "10 queries, a sequential scan is better after 45 s.",
        f"{_describe(s)}; V_max 50 to 500 mph. In the city: {CITY_SPEED:.0f} mph, spread "
        f"{_CITY_SPREAD} of objects and queries, all inside the square. {_HOW}",
        _judge_all(moving_checks.V_MAX, [stretch, in_city]),
        picture,
        table,
        differs=_DIFFERS,
    )


# ------------------------------------------------------------ Figs. 2.9 and 2.10

_SHORT_STEP = 25.0


def refreshed(size: str) -> Finding:
    s = _SIZES[size]
    steps = int(s["seconds"] / _SHORT_STEP)
    brute = brute_force(s["queries"], s["objects"])
    points: dict[str, Any] = {}
    picture, axes = drawing.panels(
        4,
        "Refreshes included: cumulative I/Os and I/Os per step (thesis, 2.9 and 2.10)",
        parameters=f"{_describe(s)}; steps of 25 s. Clustered. The first draw is shown; per step "
        "is the mean of all steps so far.",
    )
    table = [["reading", "brute force per step", "VCI, refreshed before a scan would be better",
              "VCI, best period", "best period, s", "period by the formula, s",
              "I/Os of a refresh"]]  # fmt: skip
    for row, reading in enumerate(WIDE):
        means: dict[str, list[float]] = {"before a scan": [], "best period": []}
        periods: list[tuple[float, float]] = []
        shown: dict[str, list[float]] = {}
        refresh_ios = []
        for seed in s["seeds"]:
            world, index = make_index(s, seed, reading)
            refresh_ios.append(index.refresh_ios)
            ages = [_SHORT_STEP * (i + 1) for i in range(steps)]
            fresh = [index.cost(world.boxes, age).clustered_total for age in ages]
            # The cost of a period by the index as it was built; then the best one is run.
            rates = [(index.refresh_ios + sum(fresh[: k + 1])) / (k + 1) for k in range(len(fresh))]
            best = int(np.argmin(rates)) + 1
            growth = float(np.polyfit(ages[:best], fresh[:best], 1)[0]) if best > 1 else 0.0
            period = optimal_period(index.refresh_ios, 1 / _SHORT_STEP, growth)
            periods.append((best * _SHORT_STEP, period))
            due = {
                "before a scan": Run.exceeds_scan,
                "best period": lambda run, best=best: run.age >= best * _SHORT_STEP,
            }
            for name, is_due in due.items():
                run = Run(*make_index(s, seed, reading), True, _SHORT_STEP)
                run.advance(steps, is_due)
                costs = np.array(run.totals, float)
                costs[np.array(run.refreshed, int) - 1] += run.index.refresh_ios
                means[name].append(float(costs.mean()))
                shown.setdefault(f"VCI, {name}", np.cumsum(costs).tolist())
        points[reading] = {name: brute / np.maximum(values, 1) for name, values in means.items()}
        shown["brute force"] = [float(brute * (i + 1)) for i in range(steps)]
        x = ("seconds", [_SHORT_STEP * (i + 1) for i in range(steps)])
        drawing.lines(axes[2 * row], reading, x, "I/Os so far", shown, powers=False, zero=True)
        average = {name: list(np.array(v) / np.arange(1, steps + 1)) for name, v in shown.items()}
        drawing.lines(
            axes[2 * row + 1], reading, x, "I/Os per step", average, powers=False, zero=True
        )
        best_periods, formula = np.array(periods).T
        table.append(
            [reading, number(brute), *(spread(v) for v in means.values()), spread(best_periods),
             spread(formula), spread(refresh_ios)]
        )  # fmt: skip
    return Finding(
        "moving-vci-refreshed",
        "Velocity constrained index, the cost of refreshes",
        "thesis, Figs. 2.9-2.10",
        "Even with steps of 25 s, VCI with refreshes, their cost included, needs significantly "
        "fewer I/Os than brute force.",
        f"{_describe(s)}; steps of 25 s for {s['seconds']:,} s. A refresh reads and writes each "
        f"leaf, and reads the clustered file. {_HOW} The best period is that with the fewest I/Os "
        "per step by the index as it was built.",
        _judge_all(moving_checks.REFRESHED, [points]),
        picture,
        table,
        differs=f"{_DIFFERS}; the number of queries, the period and clustering, which the thesis "
        "does not give",
    )


FIGURES = {
    "moving-vci": velocity,
    "moving-vci-refresh": refresh,
    "moving-vci-dense": dense_queries,
    "moving-vci-speed": v_max,
    "moving-vci-refreshed": refreshed,
}
