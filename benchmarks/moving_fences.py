"""New fences over many objects, by a velocity constrained index: for `benchmarks.moving`."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa

import tocsin
from benchmarks.moving_fleet import Fleet, Turns
from benchmarks.tables import Section
from benchmarks.timing import check, time_each
from experiments.moving_data import draw_speeds
from tocsin.moving.judging import scan_floats
from tocsin.moving.velocity import VelocityTree

SEARCH_TARGET = 0.1  # milliseconds, right after a refresh
AGES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # sides of a square
RULES = 60  # that are added with and without an index


def describe(seconds: np.ndarray) -> tuple[str, str]:
    """Return the median and the 95th percentile as texts."""
    return f"{np.median(seconds) * 1e3:.3f} ms", f"{np.percentile(seconds, 95) * 1e3:.3f} ms"


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

    for _ in range(objects // 1_000):  # fewer are needed; at size tiny it is not used
        if not count():
            add("with", fleet.draw_box(fleet.side))
            remove("with")
    added = min(RULES, moving // 50)
    for reports in (0, moving // 10, moving):
        if reports:
            batch = fleet.move(reports)
            for _, monitor in monitors.values():
                monitor.update(batch)
        turns, before = Turns(), count()
        for _ in range(added):
            box = fleet.draw_box(fleet.side)
            tables = [turns.run(name, functools.partial(add, name, box)) for name in monitors]
            check("events", tables[0].equals(tables[1]), True)
            for name in monitors:
                remove(name)
        cells = (f"{turns.median(name) * 1e3:.2f} ms" for name in monitors)
        section.add_row(f"{reports:,}", *cells, f"{count() - before} of {added}")
    return section


def measure_index(
    objects: int, moving: int, fences: int, steps: int, repetitions: int
) -> list[Section]:
    fleet = Fleet(objects, fences, "integer keys")
    return [measure_searches(fleet, 4 * repetitions), measure_added_rules(fleet, moving)]
