"""Measure the BE*-tree and the structures that its paper compares it with, along settings.

SCAN evaluates every rule; Tocsin's exhaustive index, which skips whole blocks, is measured, too.
The k-index is `experiments.kindex`. The BE-tree is the BE*-tree with rigid cuts.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.boolean_workloads import Setting, World
from benchmarks.index_search import IndexSearch, build_by_insertion, check_same
from experiments import drawing
from experiments.kindex import KIndex
from experiments.measuring import Structure, check_equal, search_times, time_rounds
from experiments.verdicts import Check, at_least
from tocsin.index.registry import INDEXES
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch

SCAN, KINDEX, BE, BULK, STAR, KEYED, EXHAUSTIVE = (
    "SCAN", "k-index", "BE-tree", "BE*-tree, bulk", "BE*-tree", "keyed (Tocsin)",
    "exhaustive (Tocsin)",
)  # fmt: skip
_PAIRS = 200_000  # matches per measurement, approximately: limits the number of events; chosen


class Scan:
    """The paper's SCAN: evaluates each rule until one of its predicates fails."""

    proven = False
    nbytes = 0

    def __init__(self, conjunctions: Conjunctions):
        self.conjunctions = conjunctions
        self.all = ~np.arange(conjunctions.size, dtype=np.int32)

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose all rules; see `Index.candidates`."""
        n, begin = len(self.all), int(offsets[0])
        events = min(batch.size, (len(out) - begin) // n)
        out[begin : begin + events * n] = np.tile(self.all, events)
        offsets[1 : events + 1] = begin + n * np.arange(1, events + 1)
        return batch.first + events


def build_structures(world: World, c: Conjunctions, events: int) -> dict[str, Any]:
    """Return all structures over the same rules, with the same events."""
    keys, width = world.events(events), len(world.floats)
    indexes = {
        SCAN: Scan(c),
        EXHAUSTIVE: INDEXES["exhaustive"].build(c, world.floats),
        BE: build_by_insertion(c, world.floats, rigid=True),
        BULK: INDEXES["bestar"].build(c, world.floats),
        STAR: build_by_insertion(c, world.floats),
        KEYED: INDEXES["keyed"].build(c, world.floats),
    }
    searches = {name: IndexSearch(index, keys, width) for name, index in indexes.items()}
    return {SCAN: searches.pop(SCAN), KINDEX: KIndex(c, keys, width), **searches}


def match_times(structures: dict[str, Structure], s: dict[str, Any]) -> dict[str, float]:
    """Return the microseconds per event for all matches, after comparing the results."""
    check_equal(structures, s["checked"])
    times = search_times(structures, s["seconds"], {SCAN: s["few"]}, least=3)
    return {name: 1e6 * t for name, t in times.items()}


def top_times(structures: dict[str, Any], s: dict[str, Any]) -> dict[str, float]:
    """Return the microseconds per event for the k best, after comparing the results."""
    measured = {
        f"{name}, top-{k}": (structures[name], k)
        for name, k in ((KINDEX, 1), (STAR, 1), (STAR, 5), (KEYED, 1), (KEYED, 5))
        if name in structures
    }
    for name, (structure, k) in measured.items():
        checked = min(s["checked"], structure.events)
        expected = structures[EXHAUSTIVE].scan_best(k, checked)
        check_same(name, structure.find_best(k, checked), expected)
    events = structures[SCAN].events
    calls = [partial(structure.find_best, k, events) for structure, k in measured.values()]
    times = time_rounds(calls, s["seconds"] * len(calls), least=3)
    return {name: 1e6 * t / events for name, t in zip(measured, times, strict=True)}


Series = dict[str, list[float]]


def sweep(
    settings: list[Setting], s: dict[str, Any], counts: list[int] | None = None, top: bool = False
) -> Series:
    """Return the times of all structures along settings; with `top`, also for the k best."""
    series: Series = {}
    for i, setting in enumerate(settings):
        world = World(setting)
        n = counts[i] if counts else s["rules"]
        events = max(s["few"], min(s["events"], round(_PAIRS / (n * setting.match))))
        structures = build_structures(world, world.rules(n, weighted=top), events)
        times = match_times(structures, s) | (top_times(structures, s) if top else {})
        for name, t in times.items():
            series.setdefault(name, []).append(t)
    return series


def saved(series: Series, ours: str, theirs: str) -> list[float]:
    """Return the percentages of time that one structure saves over another, point by point."""
    return [100 * (1 - a / b) for a, b in zip(series[ours], series[theirs], strict=True)]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def reached(says: str, ours: float, paper: float) -> Check:
    """Check that at least half of the paper's percentage is reached."""
    return at_least(f"{says} (in the paper {paper:g}%)", ours, paper / 2, "%")


def describe_own_indexes(series: Series) -> str:
    """Return sentences about Tocsin's own indexes, which the paper does not have."""
    text = ""
    for name in (KEYED, EXHAUSTIVE):
        if name in series:
            ratio = mean([a / b for a, b in zip(series[STAR], series[name], strict=True)])
            text += f" Zipf: {name} is {ratio:.2g} times as fast as the BE*-tree."
    return text


def check_averages(series: dict[str, Series]) -> tuple[list[tuple[str, float, float]], list[Check]]:
    """Return the claims about the whole evaluation (VII-C, workload distribution), and checks."""
    rows = []
    for rival, papers in ((KINDEX, (60, 90)), (BE, (35, 65))):
        for case, paper in zip(series, papers, strict=True):
            ours = mean(saved(series[case], STAR, rival))
            rows.append((f"{case}: over the {rival}", float(paper), ours))
    checks = [
        reached(f"{name}, the BE*-tree saves on average", ours, paper) for name, paper, ours in rows
    ]
    return rows, checks


def draw_series(
    title: str,
    x: tuple[str, list[float]],
    series: dict[str, Series],
    rows: list[tuple[str, float, float]],
    ticks: list[str] | None = None,
) -> Any:
    picture, axes = drawing.panels(len(series) + 1, title)
    for ax, (case, lines) in zip(axes, series.items()):
        drawing.lines(ax, case, x, "microseconds per event", lines, ticks=ticks)
    drawing.pairs(axes[-1], "time saved, %: the paper's figure and ours", rows)
    return picture
