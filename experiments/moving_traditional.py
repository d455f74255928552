"""Indexes on objects that move, and queries on them (Table 2.2, the dense city of 2.6.3)."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from experiments import drawing, moving_checks
from experiments.moving_data import (
    CITY_MILES,
    CITY_SPEED,
    READINGS,
    World,
    brute_force,
    make_world,
    packing,
    pages,
)
from experiments.page_tree import PageTree, point_boxes
from experiments.safe_regions import KINDS, SafeRegions
from experiments.verdicts import Finding, judge, main, number, spread

SIZES = {
    "tiny": dict(objects=3_000, moving=[30, 300], queries=[30, 300], seeds=[1, 2, 3], steps=3),
    "full": dict(
        objects=100_000, moving=[1_000, 10_000], queries=[1_000, 10_000], seeds=[1, 2, 3], steps=20
    ),
}  # fmt: skip
CITY_SPREAD = 0.8
CITY = dict(spread=CITY_SPREAD, speed=CITY_SPEED, miles=CITY_MILES)
PAGES = (
    "Pages of 100 entries; the top two levels of an index, 21 pages here, are in memory. R*-trees "
    "are built by insertion. I/Os do not depend on the machine; numbers are medians of draws of "
    "the data."
)


@functools.cache
def _tree(seed: int, objects: int, in_city: bool) -> PageTree:
    """Return the objects' tree, with what it took to build; only for `copy`."""
    world = make_world(seed, objects, 1, **(CITY if in_city else {}))
    return PageTree(point_boxes(world.x, world.y))


@functools.cache
def traditional_ios(
    seed: int, objects: int, moving: int, queries: int, reading: str, in_city: bool = False
) -> dict[str, int]:
    """Return the I/Os of a step of each scheme, and of the updates alone."""
    settings = (CITY_SPREAD, True) if in_city else READINGS[reading]
    world = make_world(seed, objects, queries, settings, **(CITY if in_city else {}))
    tree = _tree(seed, objects, in_city)
    built = tree.copy()
    reconstruct = built.ios
    searched, expected = built.search(world.boxes)
    found = {"Reconstruct": reconstruct + searched, "Reconstruct, updates": reconstruct}
    old = point_boxes(world.x, world.y)
    _check(world, expected)
    rows, _ = world.move(moving)
    new = point_boxes(world.x, world.y)
    counts = []
    for name in ("Insert/Delete", "Modify"):
        changed = tree.copy()
        if name == "Modify":
            updates = changed.modify(rows, old[rows], new[rows])
        else:
            updates = 0
            for row in rows[:, None]:  # one after the other
                updates += changed.delete(row, old[row]) + changed.insert(row, new[row])
        searched, answer = changed.search(world.boxes)
        counts.append(answer)
        found |= {name: updates + searched, f"{name}, updates": updates}
    if not np.array_equal(*counts):
        raise AssertionError("the trees find different objects")
    found["Brute Force"] = brute_force(queries, objects)
    found["packed"] = packing(objects) + searched
    return found


def _check(world: World, expected: np.ndarray) -> None:
    """Raise unless the first queries find as many objects as a scan."""
    for box, count in zip(world.boxes[:20], expected, strict=False):
        x, y = world.x, world.y
        if ((x >= box[0]) & (y >= box[1]) & (x <= box[2]) & (y <= box[3])).sum() != count:
            raise AssertionError("the tree finds other objects than a scan")


# ------------------------------------------------------------ Table 2.2


def traditional(size: str) -> Finding:
    s = SIZES[size]
    schemes = moving_checks.SCHEMES
    ordered, printed, double = ({reading: {} for reading in READINGS} for _ in range(3))
    settings = [(moving, queries) for moving in s["moving"] for queries in s["queries"]]
    table = [["reading; objects that move, queries", *schemes, "packed anew (ours)"]]
    shown: dict[str, list[Any]] = {scheme: [] for scheme in schemes}
    given: dict[str, list[float]] = {scheme: [] for scheme in schemes}
    for (moving, queries), paper in zip(settings, moving_checks.TABLE_2_2.values(), strict=True):
        for reading in READINGS:
            runs = [
                traditional_ios(seed, s["objects"], moving, queries, reading) for seed in s["seeds"]
            ]
            ios = {name: np.array([run[name] for run in runs], float) for name in runs[0]}
            case = f"{moving:,} moving, {queries:,} queries"
            for worse, better in itertools.pairwise(schemes):
                ordered[reading][f"{worse} over {better}, {case}"] = ios[worse] / ios[better]
            for scheme, value in zip(schemes, paper, strict=True):
                printed[reading][f"{scheme}, {case}"] = ios[scheme] / value
                if reading == next(iter(READINGS)):
                    shown[scheme].append(ios[scheme])
                    given[scheme].append(float(value))
            double[reading][case] = ios["Insert/Delete, updates"] / ios["Modify, updates"]
            table.append(
                [f"{reading}; {moving:,}, {queries:,}",
                 *(spread(ios[scheme]) for scheme in schemes), spread(ios["packed"])]
            )  # fmt: skip
        table.append(
            [f"the thesis; {moving:,}, {queries:,}", *(number(value) for value in paper), ""]
        )
    picture, axes = drawing.panels(
        1,
        "Indexes on moving objects (thesis, Table 2.2)",
        height=5.6,
        parameters=f"{s['objects']:,} objects in five clusters; queries with a spread of 0.1. "
        "Hollow: the thesis. Lines are from the least draw to the greatest.",
    )
    groups = [f"{moving:,} moving\n{queries:,} queries" for moving, queries in settings]
    drawing.marks(axes[0], "I/Os of a step", groups, "I/Os", shown, given)
    claims = moving_checks.TRADITIONAL
    checks = [
        judge(claim, points)
        for claim, points in zip(claims, (ordered, printed, double), strict=True)
    ]
    return Finding(
        "moving-traditional",
        "Indexes on moving objects",
        "thesis, Table 2.2",
        "Brute force has the fewest I/Os in all cases, because nothing is to be kept up to date. "
        "Reconstruct (211,817 I/Os) is clearly the poorest. Insert/Delete incurs roughly double "
        "the I/Os of Modify for updates.",
        f"{s['objects']:,} objects, {len(s['seeds'])} draws, one step of 50 s. {PAGES} An "
        "operation reads and writes each page at most once. `Packed anew` sorts the objects "
        "externally with 21 buffers and writes full leaves (sort-tile-recursive), instead of "
        "inserting them one by one; its queries are those of Modify.",
        [main(checks[0]), *checks[1:]],
        picture,
        table,
        differs="how the thesis counts I/Os during an insertion, and whether its queries have a "
        "spread of 0.1 or 1, it does not say: all readings run; speeds have 100 ranks",
    )


# ------------------------------------------------------------ the dense city


def index_ios(s: dict[str, Any], world: World, moving: int) -> dict[str, float]:
    """Return the I/Os of a step with the Q-index and with each region, as the mean of all steps.

    Leaves of the Q-index are on disk. Reports are a file.
    """
    tree = PageTree(world.boxes)
    regions = SafeRegions(world)
    totals = dict.fromkeys(("Q-index", *KINDS), 0.0)
    for _ in range(s["steps"]):
        rows = regions.move(world, moving)
        for name in totals:
            asked = rows
            if name != "Q-index":
                asked = rows[~regions.inside(world, rows, name)]
            ios, _found = tree.search(point_boxes(world.x[asked], world.y[asked]))
            totals[name] += (ios + pages(len(asked))) / s["steps"]
    return totals


def city(size: str) -> Finding:
    s = SIZES[size]
    moving, queries, objects = s["moving"][0], s["queries"][-1], s["objects"]
    wide: dict[str, dict[str, np.ndarray]] = {}
    for reading in READINGS:
        runs = [
            index_ios(s, make_world(seed, objects, queries, READINGS[reading]), moving)
            for seed in s["seeds"]
        ]
        wide[reading] = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    runs = [
        index_ios(s, make_world(seed, objects, queries, (CITY_SPREAD, True), **CITY), moving)
        for seed in s["seeds"]
    ]
    in_city = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    others = [
        traditional_ios(seed, objects, moving, queries, "", in_city=True) for seed in s["seeds"]
    ]
    schemes = [scheme for scheme in moving_checks.SCHEMES if scheme != "Brute Force"]
    better = {
        f"{scheme} over {name}": np.array([run[scheme] for run in others]) / np.maximum(ios, 1)
        for scheme in schemes
        for name, ios in in_city.items()
    }
    poorer = {
        reading: {name: in_city[name] / np.maximum(ios[name], 1) for name in KINDS}
        for reading, ios in wide.items()
    }
    picture, axes = drawing.panels(
        1,
        "I/Os of a step in a dense city (thesis, 2.6.3)",
        height=5.6,
        parameters=f"{objects:,} objects, {moving:,} moving at each step, {queries:,} queries; "
        f"regions computed once, mean of {s['steps']} steps. Leaves of the Q-index are on disk.",
    )
    groups = [*READINGS, "city"]
    shown = {name: [*(ios[name] for ios in wide.values()), in_city[name]] for name in in_city}
    drawing.marks(axes[0], "wide area, by how queries are spread, and city", groups, "I/Os", shown)
    table = [["I/Os of a step", *in_city, *moving_checks.SCHEMES]]
    for name, ios in [*wide.items(), ("city", in_city)]:
        found = [
            traditional_ios(seed, objects, moving, queries, name if name in READINGS else "",
                            in_city=name not in READINGS)
            for seed in s["seeds"]
        ]  # fmt: skip
        table.append(
            [name, *(spread(values) for values in ios.values()),
             *(spread([run[scheme] for run in found]) for scheme in moving_checks.SCHEMES)]
        )  # fmt: skip
    return Finding(
        "moving-city",
        "Q-index in a dense city",
        "thesis, 2.6.3",
        "In a city of 10 miles by 10 miles, where objects leave their regions sooner, the I/Os are "
        "about ten times those of the wide area, but still by an order of magnitude fewer than "
        "those of the traditional approaches.",
        f"{objects:,} objects, {moving:,} moving, {queries:,} queries, {len(s['seeds'])} draws. In "
        f"the city: spread {CITY_SPREAD} of objects and queries, all inside the square, "
        f"{CITY_SPEED:.0f} mph. {PAGES}",
        [
            main(judge(moving_checks.CITY[0], better)),
            judge(moving_checks.CITY[1], poorer),
        ],
        picture,
        table,
        differs="whether the thesis' Q-index is in memory here, over which time it looks, and the "
        "spread of queries in the wide area (all readings run), it does not say",
    )


FIGURES = {"moving-traditional": traditional, "moving-city": city}
