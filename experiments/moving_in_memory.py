"""Is a velocity constrained index worth it in memory? A question of our own, so that it can lose.

Its rivals know nothing of speeds: a scan of all positions for each query, and a grid that is built
anew from the positions of the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import drawing
from experiments.measuring import time_rounds
from experiments.moving_data import READINGS, SPEED, STEP, World, make_world
from experiments.verdicts import Claim, Finding, judge, main, spread
from tocsin.jit import Float64s, Int32Out, Int64Out, kernel
from tocsin.moving.velocity import VelocityIndex

_SIZES = {
    "tiny": dict(objects=3_000, queries=[1, 20], across=[16, 32], ages=[50, 400]),
    "full": dict(
        objects=100_000, queries=[1, 10, 100, 1_000], across=[64, 128, 256, 512],
        ages=[50, 150, 400, 1_000],
    ),
}  # fmt: skip
_NAMES = ("velocity (Tocsin)", "scan", "grid, rebuilt")
_WORTH_IT = Claim(
    "the velocity index is at least as fast as a scan and as a grid built anew (each over it)",
    "at least",
    1,
)


@kernel
def scan(x: Float64s, y: Float64s, box: Float64s, out: Int32Out) -> int:
    """Write the points in a box: x, y low, then x, y high."""
    x0, y0, x1, y1 = box[0], box[1], box[2], box[3]
    n = 0
    for i in range(x.shape[0]):
        out[n] = i
        n += (x[i] >= x0) & (x[i] <= x1) & (y[i] >= y0) & (y[i] <= y1)
    return n


@kernel
def build_grid(
    x: Float64s, y: Float64s, across: int, start: Int64Out, ids: Int32Out, cell: Int32Out
) -> None:
    """Sort points of the unit square into across x across cells, by counting."""
    for c in range(start.shape[0]):
        start[c] = 0
    for i in range(x.shape[0]):
        column = min(np.int64(x[i] * across), across - 1)
        row = min(np.int64(y[i] * across), across - 1)
        cell[i] = row * across + column
        start[cell[i] + 1] += 1
    for c in range(1, start.shape[0]):
        start[c] += start[c - 1]
    for i in range(x.shape[0] - 1, -1, -1):
        c = cell[i] + 1
        start[c] -= 1
        ids[start[c]] = i
    for c in range(start.shape[0] - 1):
        start[c] = start[c + 1]
    start[start.shape[0] - 1] = x.shape[0]


@kernel
def search_grid(
    x: Float64s, y: Float64s, across: int, start: Int64Out, ids: Int32Out, box: Float64s,
    out: Int32Out,
) -> int:  # fmt: skip
    """Write the points in a box; the cells of a row are one run."""
    x0, y0, x1, y1 = box[0], box[1], box[2], box[3]
    left = min(max(np.int64(np.floor(x0 * across)), 0), across - 1)
    right = min(max(np.int64(np.floor(x1 * across)), 0), across - 1)
    bottom = min(max(np.int64(np.floor(y0 * across)), 0), across - 1)
    top = min(max(np.int64(np.floor(y1 * across)), 0), across - 1)
    n = 0
    for row in range(bottom, top + 1):
        for k in range(start[row * across + left], start[row * across + right + 1]):
            i = np.int64(ids[k])
            out[n] = i
            n += (x[i] >= x0) & (x[i] <= x1) & (y[i] >= y0) & (y[i] <= y1)
    return n


class RebuiltGrid:
    """A grid that is built anew, in memory that is used again."""

    def __init__(self, objects: int, across: int):
        self.across = across
        self.start = np.zeros(across * across + 1, np.int64)
        self.ids, self.cell = np.empty((2, objects), np.int32)

    def search_all(self, world: World, boxes: np.ndarray, out: np.ndarray) -> int:
        """Build the grid, and return how many objects are in all boxes together."""
        build_grid(world.x, world.y, self.across, self.start, self.ids, self.cell)
        return sum(
            search_grid(world.x, world.y, self.across, self.start, self.ids, box, out)
            for box in boxes
        )


def in_memory(size: str) -> Finding:
    s = _SIZES[size]
    objects, ages = s["objects"], s["ages"]
    world = make_world(1, objects, s["queries"][-1], READINGS["spread 1, inside"], SPEED)
    index = VelocityIndex(np.arange(objects), world.x, world.y, world.v_max, 0)
    rows = index.rows_of(index.keys)
    out = np.empty(objects + 1, np.int32)
    grids = [RebuiltGrid(objects, across) for across in s["across"]]
    found: dict[tuple[int, int], dict[str, np.ndarray]] = {}
    now = 0.0
    for age in ages:
        while now < age:
            world.move(objects)
            now += STEP
        index.update_rows(rows, world.x, world.y, now)
        for count in s["queries"]:
            found[count, age] = _times(world, index, world.boxes[:count], now, grids, out)
    picture, axes = drawing.panels(
        len(s["queries"]),
        "A velocity index in memory (our own question)",
        parameters=f"{objects:,} objects in five clusters, all moving; queries of side 0.01 "
        f"anywhere in the square; V_max {SPEED:.0f} mph, one tree, never refreshed. The grid has "
        f"the best of {', '.join(map(str, s['across']))} cells across.",
    )
    table = [["queries, age of the tree", *(f"milliseconds of a step, {n}" for n in _NAMES)]]
    points = {}
    for axis, count in zip(axes, s["queries"], strict=True):
        shown: dict[str, Any] = {
            name: [1000 * found[count, age][name] for age in ages] for name in _NAMES
        }
        title = f"{count:,} quer{'y' if count == 1 else 'ies'}"
        x = ("seconds since the tree was built", ages)
        drawing.lines(axis, title, x, "milliseconds of a step", shown, powers=False)
        for i, age in enumerate(ages):
            times = found[count, age]
            table.append([f"{title}, {age} s", *(spread(shown[name][i]) for name in _NAMES)])
            for name in _NAMES[1:]:
                points[f"{name}, {title}, {age} s"] = times[name] / times[_NAMES[0]]
    return Finding(
        "moving-in-memory",
        "A velocity index in memory",
        "thesis, 2.5; our own question",
        "None: the thesis counts I/Os. Ours is whether an index that nobody updates is worth it "
        "when positions are in memory.",
        f"{objects:,} objects, all moving at each step of 50 s; milliseconds of a step, one core, "
        "compiled. The velocity index is Tocsin's as it is by default. Storing positions, which "
        "all three do, is not counted; building the grid is.",
        [main(judge(_WORTH_IT, points))],
        picture,
        table,
        is_own=True,
    )


def _times(
    world: World,
    index: VelocityIndex,
    boxes: np.ndarray,
    now: float,
    grids: list[RebuiltGrid],
    out: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the seconds of a step of each structure, in each round."""
    calls = [
        lambda: sum(len(index.tree.search(tuple(box), now).rows) for box in boxes),
        lambda: sum(scan(world.x, world.y, box, out) for box in boxes),
        *(lambda grid=grid: grid.search_all(world, boxes, out) for grid in grids),
    ]
    if len({call() for call in calls}) != 1:
        raise AssertionError("structures find different objects")
    times = time_rounds(calls, 0.3)
    best = times[2 + int(np.argmin(np.median(times[2:], axis=1)))]
    return dict(zip(_NAMES, (times[0], times[1], best), strict=True))


FIGURES = {"moving-in-memory": in_memory}
