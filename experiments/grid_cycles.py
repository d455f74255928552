"""A grid over many cycles: objects in Z-order, queries that come and go (Figs. 3.13b and 3.14)."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import tocsin
from experiments import drawing
from experiments.grid import SIZES, fixed_grid, query_sides, shipped_grid, uniform
from experiments.measuring import PointSearch, check_equal, search_times, time_rounds
from experiments.verdicts import Check, Finding, at_least, at_most


def z_order(points: np.ndarray) -> np.ndarray:
    """Return the order of points along the Z-curve, with 16 bits per axis."""
    codes = np.zeros(points.shape[1], np.uint32)
    for axis in (0, 1):
        bits = np.clip(points[axis] * 65536, 0, 65535).astype(np.uint32)
        for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
            bits = (bits | (bits << np.uint32(shift))) & np.uint32(mask)
        codes |= bits << np.uint32(axis)
    return np.argsort(codes, kind="stable")


def z_sort(size: str) -> Finding:
    s = SIZES[size]
    objects, queries = s["pairs"][-1]
    rng = np.random.default_rng(4)
    low, high, points = uniform(rng, objects, queries, query_sides(queries, False))
    speed = rng.normal(0, 0.0005, points.shape)
    start = time.perf_counter()
    order = z_order(points)
    sorted_points, sorted_speed = points[:, order], speed[:, order]
    cost = time.perf_counter() - start
    makers: dict[str, Callable[[np.ndarray], PointSearch]] = {
        "Tocsin's grid": lambda points: PointSearch(shipped.index, points, True),
        "the thesis' grid of 1000 x 1000": lambda points: PointSearch(thesis.index, points, True),
    }
    shipped = shipped_grid(low, high, points)
    thesis = fixed_grid(low, high, points, 1000)
    check_equal({"grid": shipped, "thesis": thesis}, s["checked"])
    every = max(s["cycles"] // 5, 1)
    cycles = list(range(0, s["cycles"] + 1, every))
    series: dict[str, dict[str, list[float]]] = {name: {} for name in makers}
    for cycle in cycles:
        for name, make in makers.items():
            structures = {
                "unsorted": make(np.abs(points + cycle * speed)),
                "Z-sorted": make(np.abs(sorted_points + cycle * sorted_speed)),
            }
            for order_name, t in search_times(structures, 2 * s["seconds"]).items():
                series[name].setdefault(order_name, []).append(1000 * t * objects)
    picture, axes = drawing.panels(2, "Objects in Z-order of where they were (thesis, 3.13b)")
    for ax, (name, lines) in zip(axes, series.items()):
        x = ("cycles since the objects were sorted", cycles)
        drawing.lines(ax, name, x, "milliseconds per cycle", lines, powers=False, zero=True)
    checks: list[Check] = []
    for name, lines in series.items():
        both = list(zip(lines["unsorted"], lines["Z-sorted"], strict=True))
        saved = 1e-3 * float(np.mean([a - b for a, b in both]))
        paid_after = cost / saved if saved > 0 else float("inf")
        checks += [
            at_least(f"{name}: ideally sorted objects are faster", both[0][0] / both[0][1], 1.5),
            at_least(
                f"{name}: most of the gain is still there {cycles[-1]} cycles later (share)",
                (both[-1][0] - both[-1][1]) / max(both[0][0] - both[0][1], 1e-9),
                0.5,
                "",
            ),
            at_most(f"{name}: cycles after which sorting has paid for itself", paid_after, 25, ""),
        ]
    return Finding(
        "grid-z-sort",
        "Z-sort",
        "thesis, Fig. 3.13b",
        "Objects in Z-order find their cells in the cache. Evaluation improves by about 50% (the "
        "summary says it doubles). Sorting is rarely needed, because objects move little.",
        f"{objects:,} objects, {queries:,} queries, uniform; sorted once ({1000 * cost:.0f} ms, "
        "NumPy). Then each object moves at its own speed, 0.0005 of the domain per cycle (standard "
        "deviation, each axis). Tocsin's kernels prefetch cells, which hides much of what sorting "
        "would save.",
        checks,
        picture,
    )


# ------------------------------------------------------------ Fig. 3.14


def rule_table(low: np.ndarray, high: np.ndarray, first: int) -> pa.Table:
    return pa.table(
        {
            "id": np.arange(first, first + low.shape[1]),
            "x_low": low[0],
            "x_high": high[0],
            "y_low": low[1],
            "y_high": high[1],
        }
    )


def changes(size: str) -> Finding:
    s = SIZES[size]
    objects, queries = s["pairs"][-1]
    rng = np.random.default_rng(4)
    sides = query_sides(queries, False)
    low, high, points = uniform(rng, objects, queries, sides)
    more, more_high, _ = uniform(rng, 1, queries, sides)
    events = pa.table({"x": points[0], "y": points[1]})
    one_event = events.slice(0, 1)
    base = tocsin.Rules({"x": "number", "y": "number"}, index="grid")
    base.add_many(rule_table(low, high, 0))
    removed = rng.permutation(queries).tolist()

    def cycle(rules: tocsin.Rules) -> int:
        return sum(len(block) for block in rules.match_blocks(events))

    warm_up = base.copy()  # compiles the kernels of a change and a cycle
    warm_up.add_many(rule_table(more[:, :9], more_high[:, :9], queries))
    warm_up.remove_many(removed[:9])
    cycle(warm_up)
    cycle(base)
    before = time_rounds([lambda: cycle(base)], s["seconds"], 3)[0]
    costs: dict[str, list[float]] = {"add": [], "remove": []}
    after: dict[str, list[float]] = {"add": [], "remove": []}
    for share in s["shares"]:
        n = queries * share // 100
        new = rule_table(more[:, :n], more_high[:, :n], queries)

        def add(rules: tocsin.Rules, new: pa.Table = new) -> None:
            rules.add_many(new)

        def remove(rules: tocsin.Rules, n: int = n) -> None:
            # Keep at least one rule.
            rules.remove_many(removed[: min(n, queries - 1)])

        for name, change in (("add", add), ("remove", remove)):
            least = float("inf")
            for _ in range(3 if size == "full" else 1):
                rules = base.copy()
                rules.match(one_event)
                start = time.perf_counter()
                change(rules)
                rules.match(one_event)  # includes deferred work
                least = min(least, time.perf_counter() - start)
            costs[name].append(1e6 * least / n)
            calls = [lambda: cycle(base), lambda r=rules: cycle(r)]
            unchanged, changed = time_rounds(calls, 4 * s["seconds"], 5)
            after[name].append(changed / unchanged)
    picture, axes = drawing.panels(2, "Adding and removing queries (thesis, 3.14)")
    x = (f"queries changed at once, % of {queries:,}", s["shares"])
    drawing.lines(axes[0], "cost of a query", x, "microseconds", costs)
    title = "a cycle after the change (before: 1)"
    drawing.lines(axes[1], title, x, "times the cycle before", after, zero=True)
    whole = 1e-6 * queries * (costs["add"][-1] + costs["remove"][-1]) / 2
    small = 1e-6 * queries * s["shares"][0] / 100 * max(costs["add"][0], costs["remove"][0])
    return Finding(
        "grid-changes",
        "Adding and removing queries",
        "thesis, Fig. 3.14",
        "25,000 queries, 100% of all queries, are added or removed (at random) in 2.4 s, the time "
        "of 1.4 evaluation cycles with 1,000,000 objects (1.7 s).",
        f"Rules are changed as users change them: `Rules.add_many` or `remove_many`, then a match "
        f"of one event, so that no work is deferred. Added rules are in a delta with an index of "
        f"its own until they are an eighth of the base and are merged. A cycle is `match_blocks` "
        f"of {objects:,} events in an Arrow table, {1000 * before:.0f} ms.",
        [
            at_most(
                "changing all queries takes about 1.4 cycles (mean of adding and removing)",
                whole / before,
                2.1,
            ),
            at_most("the smallest change takes a fraction of a cycle", small / before, 0.5),
            at_most(
                "after adding, matching is as fast as before (worst batch, per query)",
                max(
                    a / (1 + share / 100)
                    for a, share in zip(after["add"], s["shares"], strict=True)
                ),
                1.25,
            ),
            at_most(
                "after removing, matching is as fast as before (worst batch)",
                max(after["remove"]),
                1.25,
            ),
        ],
        picture,
    )


FIGURES = {
    "grid-z-sort": z_sort,
    "grid-changes": changes,
}
