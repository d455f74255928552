"""The Q-index of the thesis and its safe regions (2.6.2, 2.6.3, Fig. 2.5, Table 2.3)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from experiments import drawing, moving_checks
from experiments.moving_data import (
    READINGS,
    SPEED,
    SPEEDS,
    STEP,
    make_world,
    query_index,
)
from experiments.moving_traditional import PAGES, SIZES, traditional_ios
from experiments.page_tree import PageTree
from experiments.safe_regions import (
    KINDS,
    SafeRegions,
    leaf_boxes,
    region_ios,
)
from experiments.verdicts import Finding, judge, main, number, spread

_AT = 2  # steps after which the text has numbers: 100 s
_REGIONS = (
    "Regions are computed once, by Tocsin's kernels, SafeRect as published: the largest area "
    "within ten times SafeDist."
)
DIFFERS = (
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
        shown = {kind: _percent_outside(shares[kind]) for kind in KINDS}
        x = ("seconds", _seconds(s))
        drawing.lines(axis, reading, x, "% of the moved objects outside", shown, powers=False)
        for kind, share in moving_checks.INSIDE.items():
            drawing.paper(axis, [STEP * _AT], [100 * (1 - share)], kind)
        for speeds in SPEEDS:
            others = _shares(s, reading, speeds=speeds)
            table.append(
                [f"{reading}, {speeds}", *(spread(100 * others[k][_AT - 1]) for k in KINDS)]
            )
    for reading in READINGS:
        found = [_region_costs(s, seed, reading) for seed in s["seeds"]]
        costs[reading] = {
            kind: np.array([each[kind] for each in found]) / paper
            for kind, paper in moving_checks.COST.items()
        }
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
        "those within ten times that distance. No search can read fewer.",
        [main(checks[0]), *checks[1:]],
        picture,
        table,
        differs=f"{DIFFERS}; how the thesis searches (depth first) and counts, which reads more",
    )


def _percent_outside(shares: np.ndarray) -> list[np.ndarray]:
    return list(np.maximum(100 * (1 - shares), 0.01))  # a logarithmic axis has no zero


def _over_time(s: dict[str, Any], a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    ratios = a / np.maximum(b, 1e-9)
    return {f"{t:.0f} s": ratio for t, ratio in zip(_seconds(s), ratios, strict=True)}


def _region_costs(s: dict[str, Any], seed: int, reading: str) -> dict[str, float]:
    """Return the mean I/Os of computing a region, with the most queries."""
    world = make_world(seed, s["objects"], s["queries"][-1], READINGS[reading])
    tree = PageTree(world.boxes)
    ios = region_ios(leaf_boxes(tree, world.boxes), SafeRegions(world))
    return {kind: float(values.mean()) for kind, values in ios.items()}


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
        differs=DIFFERS,
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
        shown = {kind: _percent_outside(found[SPEED][kind]) for kind in KINDS}
        shown |= {f"{kind}, 500 mph": _percent_outside(found[500.0][kind]) for kind in KINDS}
        x = ("seconds", _seconds(s))
        drawing.lines(axis, reading, x, "% of the moved objects outside", shown, powers=False)
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
        differs=DIFFERS,
    )


FIGURES = {
    "moving-safe-regions": safe_regions,
    "moving-q-index": query_index_ios,
    "moving-safe-speed": velocity,
}
