"""New fences over many objects, and objects that need not report: tables of `benchmarks.moving`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin
from benchmarks.moving_fleet import Fleet, Turns
from benchmarks.tables import Section, format_time
from benchmarks.timing import check, clock, log, time_each
from experiments.moving_data import READINGS, SPEEDS, STEP, World, draw_speeds, make_world
from tocsin.moving.judging import scan_floats
from tocsin.moving.velocity import VelocityTree

SEARCH_TARGET = 0.1  # milliseconds, right after a refresh
AGES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # sides of a square
RULES = 60  # that are added with and without an index
VISITS_TARGET, RECT_TARGET = 5, 20.0  # times fewer; microseconds
TARGET_WORLD = "Zipf, spread 0.1"  # by which the target is judged; others are told
REGION_SIZES = {"tiny": (500, 20, 50, 3), "full": (100_000, 1_000, 10_000, 100)}
RECTANGLES = {"tiny": (500, 100, 1), "full": (100_000, 25_000, 3)}  # objects, fences, repetitions


def describe(seconds: np.ndarray) -> tuple[str, str]:
    """Return the median and the 95th percentile as texts."""
    return f"{np.median(seconds) * 1e3:.3f} ms", f"{np.percentile(seconds, 95) * 1e3:.3f} ms"


# ------------------------------------------------------------ the velocity constrained index


def measure_searches(fleet: Fleet, searches: int) -> Section:
    """Measure searches of the velocity index, by its age, against a scan."""
    objects, fences = len(fleet.keys), fleet.boxes.shape[1]
    section = Section(
        f"One square of {fences:,} over {objects:,} objects: a search of the velocity index",
        "the fastest object can have gone, since the refresh", "median", "95th percentile",
        "leaves visited", "positions looked up", "target", "met",
        note="Top speeds are Zipf's (k / 100 of the highest, as in the thesis' 2.6), and all\n"
        "objects report at each of these times. The scan is that of a monitor without `v_max`.",
    )  # fmt: skip
    x, y = fleet.position.copy()
    top = draw_speeds(fleet.rng, objects, "Zipf")
    rows = np.arange(objects, dtype=np.int32)
    tree = VelocityTree(x, y, np.zeros(objects))
    tree.track(rows, top)
    tree.rebuild()
    scans, before = [], 0.0
    for sides in AGES:
        now = sides * fleet.side
        way = fleet.rng.random(objects) * top * (now - before)
        angle = fleet.rng.random(objects) * 2 * np.pi
        tree.report(rows, x + way * np.cos(angle), y + way * np.sin(angle), np.full(objects, now))
        before = now
        boxes = [fleet.draw_box(fleet.side) for _ in range(searches)]
        answers = [tree.search(box, now) for box in boxes]
        for box, answer in zip(boxes, answers, strict=True):
            check("search", np.sort(answer.rows).tolist(), scan(x, y, box).tolist())
        seconds = time_each(lambda box, now=now: tree.search(box, now), boxes)
        scans.append(time_each(lambda box: scan(x, y, box), boxes[:20]))
        median = float(np.median(seconds)) * 1e3
        target = (f"at most {SEARCH_TARGET:g} ms", median <= SEARCH_TARGET)
        section.add_row(
            f"{sides:g} sides of a square", *describe(seconds),
            f"{np.mean([answer.visited[0] for answer in answers]):,.1f}",
            f"{np.mean([answer.checked + answer.scanned for answer in answers]):,.0f}",
            *(("", None) if sides else target),
        )  # fmt: skip
    section.add_row("a scan of all positions", *describe(np.concatenate(scans)), "", "", "", None)
    check("listed", tree.listed, 0)
    return section


def scan(x: np.ndarray, y: np.ndarray, box: tuple[float, ...]) -> np.ndarray:
    """Return the rows in a box, as a monitor finds them."""
    rows = np.empty(len(x), np.int64)
    rows = rows[: scan_floats(x, box[0], box[2], np.ones(len(x), np.uint8), rows)]
    values = y[rows]
    return rows[~(values < box[1]) & ~(values > box[3])]


def measure_added_rules(fleet: Fleet, moving: int) -> Section:
    """Measure the time until a rule that is added has its events, with and without `v_max`."""
    objects, fences = len(fleet.keys), fleet.boxes.shape[1]
    section = Section(
        f"A square is added over {objects:,} objects, with and without `v_max`",
        "reports that the index has not taken in", "without", "with `v_max`", "by the index",
        note="Medians, from the call of `add` until the events are there. Before, the index was\n"
        "built, which happens when scans for rules have cost as much as that.",
    )  # fmt: skip
    monitors, everyone = {}, fleet.everyone()
    for name, v_max in (("without", None), ("with", fleet.side)):
        rules = fleet.rules()
        monitors[name] = rules, tocsin.Monitor(rules, v_max=v_max)
        monitors[name][1].update(everyone)

    def add(name: str, box: tuple[float, ...]) -> pa.Table:
        rules, monitor = monitors[name]
        rules.add(fences, "x BETWEEN {0} AND {2} AND y BETWEEN {1} AND {3}".format(*box))
        return monitor.advance(fleet.time)

    def remove(name: str) -> None:
        rules, monitor = monitors[name]
        rules.remove(fences)
        monitor.advance(fleet.time)

    def count() -> int:
        return monitors["with"][1].counters["rules_by_velocity_index"]

    for _ in range(1_000):  # fewer are needed, and none helps at size tiny
        if not count():
            add("with", fleet.draw_box(fleet.side))
            remove("with")
    for reports in (0, moving // 10, moving):
        if reports:
            batch = fleet.move(reports)
            for _, monitor in monitors.values():
                monitor.update(batch)
        turns, before = Turns(), count()
        for _ in range(RULES):
            box = fleet.draw_box(fleet.side)
            tables = [turns.run(name, functools.partial(add, name, box)) for name in monitors]
            check("events", tables[0].equals(tables[1]), True)
            for name in monitors:
                remove(name)
        cells = (f"{turns.median(name) * 1e3:.2f} ms" for name in monitors)
        section.add_row(f"{reports:,}", *cells, f"{count() - before} of {RULES}")
    return section


def measure_index(
    objects: int, moving: int, fences: int, steps: int, repetitions: int
) -> list[Section]:
    fleet = Fleet(objects, fences, "integer keys")
    return [measure_searches(fleet, 4 * repetitions), measure_added_rules(fleet, moving)]


# ------------------------------------------------------------ safe regions


def measure_regions(size: str) -> list[Section]:
    """Measure how many rows are looked up with rectangles, and what a rectangle takes."""
    objects, queries, moving, steps = REGION_SIZES[size]
    section = Section(
        f"{objects:,} objects in five clusters, {queries:,} fences, {moving:,} move in a step",
        f"top speeds, fences, {steps} steps", "rows", "rows looked up", "fewer", "target", "met",
        "fewer, if rectangles are visits, too", "update, without", "update, with",
        note=f"The parameters of the thesis' 2.6, steps of {STEP:g} s. Without regions a row is\n"
        "looked up in the index. With them those that leave their rectangle are, and all first\n"
        "ones; for each a rectangle is computed, which is one more search. Events of both are\n"
        "compared. Here all objects report, and updates take longer with regions: what they save\n"
        "are the reports of rows that are not looked up. Updates are means.",
    )  # fmt: skip
    worlds = [("Zipf", reading) for reading in READINGS]
    for speeds, reading in [*worlds, *((speeds, "spread 0.1") for speeds in SPEEDS[1:])]:
        log(f"{speeds}, {reading}")
        world = make_world(1, objects, queries, READINGS[reading], speeds=speeds)
        add_world(section, world, f"{speeds}, {reading}", moving, steps)
    return [section, measure_rectangles(size)]


def add_world(section: Section, world: World, name: str, moving: int, steps: int) -> None:
    ways = {}
    for way in (None, "rect"):
        rules = tocsin.Rules({"x": "number", "y": "number"})
        names = ("x_low", "y_low", "x_high", "y_high")
        boxes = dict(zip(names, world.boxes.T.copy()))
        rules.add_many(pa.table({"id": np.arange(len(world.boxes))} | boxes))
        ways[way] = tocsin.Monitor(rules, safe_regions=way)
    seconds: dict[str | None, list[float]] = {way: [] for way in ways}
    for step in range(steps + 1):
        rows = np.arange(world.objects) if step == 0 else world.move(moving)[0]
        batch = pa.table({"object": rows, "t": np.full(len(rows), step * STEP),
                          "x": world.x[rows], "y": world.y[rows]})  # fmt: skip
        events = []
        for way, monitor in ways.items():
            start = clock()
            events.append(monitor.update(batch))
            seconds[way].append(clock() - start)
        check("events", events[0].equals(events[1]), True)
    counters = ways["rect"].counters
    looked_up = counters["rows"] - counters["index_visits_saved"]
    fewer = counters["rows"] / looked_up
    section.add_row(
        name, f"{counters['rows']:,}", f"{looked_up:,}", f"{fewer:.1f} x",
        *((f"at least {VISITS_TARGET} x", fewer >= VISITS_TARGET)
          if name == TARGET_WORLD else ("", None)),
        f"{counters['rows'] / (looked_up + counters['regions_computed']):.1f} x",
        *(format_time(float(np.mean(each[1:]))) for each in seconds.values()),
    )  # fmt: skip


def measure_rectangles(size: str) -> Section:
    """Measure what a rectangle takes: first updates with regions, less those without."""
    objects, fences, repetitions = RECTANGLES[size]
    section = Section(
        f"The rectangle of an object among {fences:,} squares",
        "largest by", "each", "target", "met",
        note=f"The first update of {objects:,} objects with regions, less one without: medians of\n"
        f"{repetitions}, by the number of objects.",
    )  # fmt: skip
    fleet, turns = Fleet(objects, fences, "integer keys"), Turns()
    rules, everyone = fleet.rules(), fleet.everyone()
    ways: dict[str, dict[str, Any]] = {
        "without": {},
        "area": {"safe_regions": "rect"},
        "perimeter": {"safe_regions": "rect", "rect_by": "perimeter"},
        "area, up to ten times the distance to the nearest edge": {
            "safe_regions": "rect",
            "rect_reach": 10.0,
        },
    }
    for _ in range(repetitions):
        for name, options in ways.items():
            monitor = tocsin.Monitor(rules, **options)
            turns.run(name, functools.partial(monitor.update, everyone))
    for name in list(ways)[1:]:
        each = (turns.median(name) - turns.median("without")) / objects * 1e6
        target = (f"at most {RECT_TARGET:g} microseconds", each <= RECT_TARGET)
        is_target = name == "area"
        section.add_row(
            name, f"{each:.1f} microseconds", *(target if is_target else ("", None))
        )  # fmt: skip
    return section
