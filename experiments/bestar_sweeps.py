"""Measure the BE*-tree and the structures that its paper compares it with, along settings.

SCAN evaluates every rule. The k-index is `experiments.kindex`. The BE-tree is the BE*-tree with
rigid cuts. BE*-tree, bulk, is the paper's BE*-B: all rules are known in advance. For the k best,
the BE*-tree has the paper's summaries, and two sums are Tocsin's own; trees that only find all
matches have the sums, since these search neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.boolean_workloads import Setting, World
from benchmarks.index_search import IndexSearch, build_by_insertion, check_same
from experiments import drawing
from experiments.kindex import KIndex
from experiments.measuring import check_equal, search_times, time_rounds
from experiments.verdicts import Check, at_least, at_most, reaches, speed_up
from tocsin.index.registry import INDEXES
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch

SCAN, KINDEX, BE, BULK, STAR, SUMS, KEYED = (
    "SCAN", "k-index", "BE-tree", "BE*-tree, bulk", "BE*-tree", "two sums (Tocsin)",
    "keyed (Tocsin)",
)  # fmt: skip
RIVALS = (SCAN, KINDEX, BE)
MATCHED = (SCAN, KINDEX, BE, BULK, STAR, KEYED)
RANKED = ((KINDEX, 1), (STAR, 1), (STAR, 5))  # and k, as the paper measures

_RULES = 100_000_000  # rules times events of a measurement, approximately; chosen
_PAIRS = 2_000_000  # and matches; chosen
ROUNDS = 5  # chosen: a median, with a spread, for a few seconds per point
BEGEN = "matches are planted by profiles of our own, since BEGen is not available"
ZIPF = "the exponent of Zipf, which the paper does not give, is 1"
TREE = "the BE*-tree departs from the paper where PAPERS.md says so"
ALL_OURS = (
    f"{BEGEN}; {ZIPF}; {TREE}; the k-index and the BE-tree are our own, after what this paper says "
    "of them"
)
AVERAGES = "averages are over this figure, in the paper over Figs. 6 to 9"

Series = dict[str, list[np.ndarray]]  # microseconds per event, for each point those of all rounds


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


def leaf_capacity(match: float) -> int:
    """Return the maximum leaf capacity that the paper uses (Table II a)."""
    return 5 if match < 0.01 else 20 if match < 0.1 else 160


def builders(capacity: int, summary: str) -> dict[str, Callable[..., Any]]:
    """Return how each index is built; the BE*-tree with a kind of summary."""
    return {
        SCAN: lambda c, floats: Scan(c),
        BE: partial(build_by_insertion, leaf_capacity=capacity, rigid=True),
        BULK: partial(INDEXES["bestar"].build, leaf_capacity=capacity),
        STAR: partial(build_by_insertion, leaf_capacity=capacity, summary=summary),
        SUMS: partial(build_by_insertion, leaf_capacity=capacity, summary="sums"),
        KEYED: INDEXES["keyed"].build,
    }


def build_structures(
    names: tuple[str, ...], world: World, c: Conjunctions, events: int, summary: str = "sums"
) -> dict[str, Any]:
    """Return structures over the same rules, with the same events."""
    keys, width = world.events(events), len(world.floats)
    ways = builders(leaf_capacity(world.setting.match), summary)
    return {
        name: KIndex(c, keys, width)
        if name == KINDEX
        else IndexSearch(ways[name](c, world.floats), keys, width)
        for name in names
    }


def match_times(structures: dict[str, Any], s: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the microseconds per event for all matches, after comparing the results."""
    check_equal(structures, s["few"])
    times = search_times(structures, 0.0, {SCAN: s["few"]}, ROUNDS)
    return {name: 1e6 * t for name, t in times.items()}


def top_times(
    structures: dict[str, Any], ranked: tuple[tuple[str, int], ...], s: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Return the microseconds per event for the k best, after comparing the results."""
    measured = {f"{name}, top-{k}": (structures[name], k) for name, k in ranked}
    expected = {k: structures[SCAN].scan_best(k, s["few"]) for k in (1, 5)}
    for name, (structure, k) in measured.items():
        check_same(name, structure.find_best(k, s["few"]), expected[k])
    events = structures[SCAN].events
    calls = [partial(structure.find_best, k, events) for structure, k in measured.values()]
    times = time_rounds(calls, 0.0, least=ROUNDS)
    return {name: 1e6 * t / events for name, t in zip(measured, times, strict=True)}


def count_events(n: int, match: float, s: dict[str, Any]) -> int:
    """Return how many events are measured: fewer where there are more rules or matches."""
    return max(s["few"], min(s["events"], round(_RULES / n), round(_PAIRS / (n * match))))


def sweep(
    points: list[tuple[Setting, int]], s: dict[str, Any], names: tuple[str, ...] = MATCHED
) -> Series:
    """Return the times for all matches along settings with numbers of rules."""
    series: Series = {}
    for setting, n in points:
        world = World(setting)
        events = count_events(n, setting.match, s)
        structures = build_structures(names, world, world.rules(n), events)
        for name, t in match_times(structures, s).items():
            series.setdefault(name, []).append(t)
    return series


# ------------------------------------------------------------ statistics, round by round


def compare(series: Series, slow: str, fast: str) -> list[np.ndarray]:
    """Return how many times as fast one structure is as another, point by point."""
    return [a / b for a, b in zip(series[slow], series[fast], strict=True)]


def compare_rivals(series: Series) -> list[np.ndarray]:
    """Return how many times as fast the BE*-tree is as the fastest of its rivals."""
    return [
        min((series[name][i] for name in RIVALS), key=np.median) / times
        for i, times in enumerate(series[STAR])
    ]


def average(speed_ups: list[np.ndarray]) -> np.ndarray:
    """Return the speed-up that saves as much time as these do on average."""
    return speed_up(100 * np.mean([1 - 1 / ratio for ratio in speed_ups], axis=0))


def greatest(points: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the point with the greatest median: what a paper gives as "up to"."""
    name = max(points, key=lambda each: float(np.median(points[each])))
    return {name: points[name]}


def name_points(
    cases: dict[str, list[np.ndarray]], labels: Mapping[str, list[str]] | list[str]
) -> dict[str, np.ndarray]:
    """Return the numbers at all points of all cases, with the names of the points."""
    return {
        f"{case}, {label}": rounds
        for case, points in cases.items()
        for label, rounds in zip(labels if isinstance(labels, list) else labels[case], points)
    }


# ------------------------------------------------------------ checks

Row = tuple[str, float, float]  # a claim, the paper's number and ours


def gains(speed_ups: Mapping[str, tuple[np.ndarray, float]]) -> dict[str, np.ndarray]:
    """Return which share of the paper's gain each speed-up has, of ours and the paper's."""
    return {name: (ours - 1) / (paper - 1) for name, (ours, paper) in speed_ups.items()}


def averages(series: dict[str, Series]) -> dict[str, tuple[np.ndarray, float]]:
    """Return our average speed-ups, and the paper's (VII-C, workload distribution)."""
    return {
        f"{case} over the {rival}": (average(compare(series[case], rival, STAR)), speed_up(saved))
        for rival, percents in ((KINDEX, (60, 90)), (BE, (35, 65)))
        for case, saved in zip(series, percents, strict=True)
    }


def check_each(speed_ups: Mapping[str, tuple[np.ndarray, float]], says: str) -> list[Check]:
    """Check each speed-up against the paper's."""
    return [reaches(f"{name}: {says}", *both) for name, both in speed_ups.items()]


def check_gains(speed_ups: Mapping[str, tuple[np.ndarray, float]], says: str) -> Check:
    """Check that at least half of the paper's gain is reached by all speed-ups."""
    says = f"{says} (ours as a share of the paper's gain)"
    return at_least(says, gains(speed_ups), 0.5, "")


def check_dominant(series: dict[str, Series], labels: list[str]) -> Check:
    """Check that the BE*-tree is the fastest of the paper's structures everywhere."""
    ratios = {case: [1 / r for r in compare_rivals(lines)] for case, lines in series.items()}
    return at_most(
        "the BE*-tree is always the fastest (its time over that of the next best)",
        name_points(ratios, labels),
        1,
    )


def to_rows(speed_ups: Mapping[str, tuple[np.ndarray, float]]) -> list[Row]:
    """Return speed-ups as rows of a picture."""
    return [(name, paper, float(np.median(ours))) for name, (ours, paper) in speed_ups.items()]


def describe_keyed(series: Series) -> str:
    """Return a sentence about Tocsin's own index, which the paper does not have."""
    ratio = float(np.median(average(compare(series, STAR, KEYED))))
    return f"With Zipf, {KEYED} is {ratio:.2g} times as fast as the BE*-tree on average."


def draw_series(
    title: str,
    x: tuple[str, list[float]],
    series: dict[str, Series],
    rows: list[Row],
    parameters: str,
    ticks: list[str] | None = None,
) -> Any:
    """Draw a panel per case, and one with the paper's speed-ups and ours."""
    picture, axes = drawing.panels(len(series) + 1, title, parameters=parameters)
    for ax, (case, lines) in zip(axes, series.items()):
        drawing.lines(ax, case, x, "microseconds per event", lines, ticks=ticks)
    axes[-1].set_subplotspec(axes[-1].get_gridspec()[-1, :])  # both columns
    drawing.pairs(axes[-1], "times as fast: the paper's numbers and ours", rows)
    return picture
