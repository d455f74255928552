"""Safe regions: how many rows need the index of rules, and what a region costs (thesis, 2.6.2).

The objects of the thesis: five clusters in a square of 1,000 miles, squares of a hundredth of its
side as fences, steps of 50 seconds in which a tenth of the objects move, at speeds by Zipf's law up
to 250 miles an hour. Each monitor gets all reports, and so has the same events.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import tocsin
from benchmarks.tables import Section, format_time
from benchmarks.timing import check, clock
from experiments.moving_data import SPEEDS, STEP, make_world

SIZES = {  # objects, moving in a step, fences, steps, fences of single regions, regions
    "tiny": (1_000, 100, 20, 3, 100, 100),
    "full": (100_000, 10_000, 1_000, 100, 25_000, 20_000),
}
KINDS = (None, "dist", "sphere", "rect")
VISITS_TARGET = 5.0  # times fewer visits of the index by `rect`, first regions counted
RECT_TARGET = 20.0  # microseconds for a `rect`


def measure_regions(size: str) -> list[Section]:
    """Measure visits of the index with and without regions, and the time of a region."""
    return [_measure_visits(size), _measure_computing(size)]


def _rules_of(boxes: np.ndarray) -> tocsin.Rules:
    rules = tocsin.Rules({"x": "number", "y": "number"})
    columns = dict(zip(("x_low", "y_low", "x_high", "y_high"), boxes.T))
    rules.add_many(pa.table({"id": np.arange(len(boxes))} | columns))
    return rules


def _measure_visits(size: str) -> Section:
    objects, moving, fences, steps, _, _ = SIZES[size]
    section = Section(
        f"Safe regions: {objects:,} objects, {moving:,} of them moving in each of {steps} steps, "
        f"{fences:,} squares",
        "speeds, region", "rows looked up", "times fewer", "regions computed", "mean step",
        "target", "met",
        note="Rows that are looked up in the index of rules, the first report of each object\n"
        "included, for which there is no region yet.",
    )  # fmt: skip
    for speeds in SPEEDS:
        expected, before = [], 0
        for kind in KINDS:
            world = make_world(1, objects, fences, speeds=speeds)
            monitor = tocsin.Monitor(_rules_of(world.boxes), safe_regions=kind)
            events, seconds = [], 0.0
            rows = np.arange(objects)
            for step in range(steps + 1):
                times = np.full(len(rows), step * STEP)
                place = {"x": world.x[rows], "y": world.y[rows]}
                positions = pa.table({"object": rows, "t": times} | place)
                start = clock()
                events.append(monitor.update(positions).num_rows)
                seconds += (clock() - start) * (step > 0)
                rows = world.move(moving)[0]
            counters = monitor.counters
            visits = counters["rows"] - counters.get("index_visits_saved", 0)
            expected, before = expected or events, before or visits
            check(f"{kind}", events, expected)
            factor = before / visits
            target = (f"at least {VISITS_TARGET:g}", factor >= VISITS_TARGET)
            section.add_row(
                f"{speeds}, {kind or 'none'}", f"{visits:,}", f"{factor:.1f}",
                f"{counters.get('regions_computed', 0):,}", format_time(seconds / steps),
                *(target if kind == "rect" and speeds == SPEEDS[0] else ("", None)),
            )  # fmt: skip
    return section


def _measure_computing(size: str) -> Section:
    *_, fences, regions = SIZES[size]
    section = Section(
        f"Computing a safe region among {fences:,} squares",
        "region", "time", "target", "met",
        note=f"The first update with {regions:,} objects, less that of a monitor without regions,\n"
        "by object. The trees of the fences are there.",
    )  # fmt: skip
    world = make_world(1, regions, fences)
    rules, seconds = _rules_of(world.boxes), {}
    ways = {str(kind): {"safe_regions": kind} for kind in KINDS}
    ways |= {"rect within 10 times `dist`": {"safe_regions": "rect", "rect_reach": 10}}
    columns = {"object": np.arange(regions), "t": np.zeros(regions), "x": world.x, "y": world.y}
    positions = pa.table(columns)
    for name, options in ways.items():
        tocsin.Monitor(rules, **options).update(positions.slice(0, 1))
        times = []
        for _ in range(3):
            monitor = tocsin.Monitor(rules, **options)
            start = clock()
            monitor.update(positions)
            times.append(clock() - start)
        seconds[name] = min(times)
    for name in list(ways)[1:]:
        each = (seconds[name] - seconds["None"]) / regions
        target = (f"at most {RECT_TARGET:g} us", each * 1e6 <= RECT_TARGET)
        section.add_row(name, f"{each * 1e6:.1f} us", *(target if name == "rect" else ("", None)))
    return section
