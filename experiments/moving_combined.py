"""Queries that come while objects move: the thesis' combined scheme (Fig. 2.11, 2.6.5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import drawing, moving_checks
from experiments.moving_data import READINGS, STEP, World, brute_force, make_world, pages
from experiments.moving_traditional import PAGES, traditional_ios
from experiments.moving_velocity import object_leaves
from experiments.page_tree import PageTree, point_boxes
from experiments.safe_regions import SafeRegions, leaf_boxes, region_ios
from experiments.velocity_pages import VelocityPages
from experiments.verdicts import Finding, judge, main, spread

_SIZES = {
    "tiny": dict(objects=3_000, moving=30, queries=300, seeds=[1, 2, 3], steps=38),
    "full": dict(objects=100_000, moving=1_000, queries=10_000, seeds=[1, 2, 3], steps=80),
}
_EVERY = 18.0  # seconds until the next query
_GROUP = 100  # queries that are ingested in a single step
_REFRESHES = 3  # between two ingestions
_WAYS = ("modify", "recompute")


class Combined:
    """Both indexes, step by step."""

    def __init__(self, s: dict[str, Any], seed: int, reading: str, way: str):
        new = int(s["steps"] * STEP / _EVERY)
        self.s, self.way = s, way
        self.world: World = make_world(seed, s["objects"], s["queries"] + new, READINGS[reading])
        self.queries = self.world.boxes
        self.ingested = s["queries"]
        self.tree = PageTree(self.queries[: self.ingested], room=new)
        self.velocity = VelocityPages(self.world, object_leaves(seed, s["objects"]))
        self.age = 0.0
        self.regions = self._compute()

    def _compute(self) -> SafeRegions:
        self.world.boxes = self.queries[: self.ingested]
        return SafeRegions(self.world)

    def run(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the I/Os of each step, those of its refresh, and the first step that ingests."""
        costs, refreshes, first = [], [], -1
        period = _GROUP * _EVERY / (_REFRESHES + 1)
        for i in range(self.s["steps"]):
            arrived = self.s["queries"] + int((i + 1) * STEP / _EVERY)
            cost, refresh = self._step(arrived), 0
            if arrived - self.ingested >= _GROUP:
                cost += self._ingest()
                first = i if first < 0 else first
            elif self.age >= period:
                self.velocity.refresh(self.world)
                self.age = 0.0
                refresh = self.velocity.refresh_ios
            costs.append(cost)
            refreshes.append(refresh)
        return np.array(costs, float), np.array(refreshes, float), first

    def _step(self, arrived: int) -> int:
        """Move objects; look reports up in the Q-index, and new queries in the other one."""
        rows = self.regions.move(self.world, self.s["moving"])
        self.age += STEP
        reports = rows[~self.regions.inside(self.world, rows, "SafeRect")]
        ios, _ = self.tree.search(point_boxes(self.world.x[reports], self.world.y[reports]))
        late = self.velocity.cost(self.queries[self.ingested : arrived], self.age)
        return ios + pages(len(reports)) + late.clustered_total

    def _ingest(self) -> int:
        """Move a group of queries to the Q-index, and correct the regions; return the I/Os."""
        ids = np.arange(self.ingested, self.ingested + _GROUP)
        self.ingested += _GROUP
        ios = self.tree.insert(ids, self.queries[ids])
        if self.way == "modify":
            return ios + self.regions.cut(self.world, self.queries[ids])
        self.regions = self._compute()
        leaves = leaf_boxes(self.tree, self.queries)
        each = region_ios(leaves, self.regions)["SafeRect"]
        return ios + int(each.sum()) + pages(self.world.objects)


def combined(size: str) -> Finding:
    s = _SIZES[size]
    objects, moving, queries = s["objects"], s["moving"], s["queries"]
    brute = brute_force(queries, objects)
    gains: dict[str, Any] = {}
    before: dict[str, Any] = {}
    table = [["reading", "mean I/Os of a step, modify", "recompute", "greatest before ingestion",
              "with refreshes",
              "step of ingestion, modify", "recompute", *moving_checks.SCHEMES]]  # fmt: skip
    picture, axes = drawing.panels(
        3,
        "Q-index and VCI together (thesis, 2.11)",
        parameters=f"{objects:,} objects, {moving:,} moving at each step of 50 s; {queries:,} "
        f"queries, one more every {_EVERY:.0f} s, {_GROUP} of them ingested at once. Medians of "
        f"{len(s['seeds'])} draws, without what refreshes cost.",
    )
    for axis, reading in zip(axes, READINGS, strict=True):
        runs = {
            way: [Combined(s, seed, reading, way).run() for seed in s["seeds"]] for way in _WAYS
        }
        first = runs["modify"][0][2]
        costs = {way: np.stack([run[0] for run in each]) for way, each in runs.items()}
        counted = {way: costs[way] + [run[1] for run in each] for way, each in runs.items()}
        means = {way: each.mean(axis=1) for way, each in counted.items()}
        others = [traditional_ios(seed, objects, moving, queries, reading) for seed in s["seeds"]]
        each_scheme = {
            scheme: np.array([run[scheme] for run in others], float)
            for scheme in moving_checks.SCHEMES
        }
        gains[reading] = {
            name: values / np.maximum(means["modify"], 1)
            for name, values in (each_scheme | {"recompute": means["recompute"]}).items()
        }
        greatest = [each["modify"][:, :first].max(axis=1) for each in (costs, counted)]
        before[f"{reading}, without refreshes"] = {"": greatest[0] / brute}
        before[f"{reading}, with refreshes"] = {"": greatest[1] / brute}
        middles = {way: np.median(costs[way], axis=0) for way in reversed(_WAYS)}
        shown = {way: list(np.maximum(middle, 1)) for way, middle in middles.items()}
        x = ("seconds", [STEP * (i + 1) for i in range(s["steps"])])
        drawing.lines(axis, reading, x, "I/Os of a step", shown, powers=False)
        drawing.limit(axis, brute, "brute force")
        table.append(
            [reading, *(spread(means[way]) for way in _WAYS), *map(spread, greatest),
             *(spread(costs[way][:, first]) for way in _WAYS),
             *(spread(values) for values in each_scheme.values())]
        )  # fmt: skip
    claims = moving_checks.COMBINED
    return Finding(
        "moving-combined",
        "Q-index and VCI together",
        "thesis, Fig. 2.11",
        "New queries are processed by VCI until 100 of them are ingested into the Q-index at once. "
        "The combined cost remains very small until then. Recomputing all safe regions at "
        "ingestion is very expensive, modifying them is not. Overall the scheme is much better "
        "than the traditional approaches.",
        f"{objects:,} objects, {moving:,} moving, {s['steps']} steps, {len(s['seeds'])} draws. "
        f"Q-index with SafeRect, clustered VCI with {_REFRESHES} refreshes between ingestions, "
        "which means include (only the captions of Figs. 2.9 and 2.10 say that they are counted, "
        "so the second check looks at both). Modify reads the file of regions, compares them with "
        "the new queries, and writes what changes; recompute searches the Q-index for each object. "
        "Positions are taken as known, though objects inside of their region do not report them. "
        f"{PAGES}",
        [main(judge(claims[0], gains)), judge(claims[1], before)],
        picture,
        table,
        differs="what a modification reads and writes, when refreshes come, and the spread of "
        "queries (three readings) it does not say; VCI needs positions that silent objects do not "
        "report; speeds have 100 ranks",
    )


FIGURES = {"moving-combined": combined}
