"""The grid query index: the plane in equal cells, further tiers where a cell is crowded.

Kalashnikov, thesis 3.2.3 to 3.2.5 and 3.3.6; how cells lie in memory and how an event is
answered is told in `cells`, which reads first.

The cell's side is the paper's (3.2.4): where a part list has one entry on average, a finer
grid gains nothing. That asks for much memory if queries overlap much (100,000 squares of side
0.01: 4000 x 4000 cells), so a budget is kept (3.2.5): the grid gets coarser until the lists fit
80 bytes a box, and as much again for what crowded cells need below. On today's processors that
is no loss; cells of a half or a third of a box's side, which fit the cache, are the fastest.

Unlike the paper:

* cells have the boxes' shape, so that elongated boxes lie in as few lists as square ones;
* boxes that are much larger than the rest are filed in a coarser grid of their own (a second
  *root*), so that a few of them do not fill every list, nor make the grid coarse for all;
* a crowded cell gets a grid of its own, over the bounds in it, rather than the whole grid
  becoming a directory; and that as deep as it pays, at most four tiers.

With more than two attributes the grid lies over the two that leave the fewest candidates, and
accept tests the rest.

When it is slow: boxes that all overlap each other (every cell is in most of them, and nothing
can be skipped, but then most of them match as well); and conditions that hardly restrict any
two attributes together: use `keyed` for those.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from tocsin.index import unit_costs
from tocsin.index.cells.building import Filed, Filing
from tocsin.index.cells.layout import Nodes
from tocsin.index.costs import Cost, Sample
from tocsin.index.plane import Boxes, boxes_over, chosen_axes, sides
from tocsin.index.protocol import Summary
from tocsin.model.conjunctions import Conjunctions

_BYTES_A_BOX = 80
_LEAST_BYTES = 4 << 20
_ENTRY_BYTES = 12
_VAIN = 1.0
_CROWDED = 48  # a part list may be so long, and four times the average
_LEVELS = 4


def cell_side(m: Any, q: Any) -> Any:
    """Return the paper's side of a cell for m squares of side q in a domain of side 1 (3.2.4).

    >>> round(1 / cell_side(25_000, 0.01))
    1000
    """
    m, q = np.maximum(m, 1.0), np.asarray(q, np.float64)
    with np.errstate(divide="ignore"):
        return np.where(q > 0.5 / np.sqrt(m), 1 / (4 * q * m), 1 / np.sqrt(m) - q)[()]


def resolution(
    m: Any, qx: Any, qy: Any, entries: Any, both: Any = None, vain: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many cells to have across x and y for m boxes of sides qx, qy of the domain.

    At most about `entries` list entries, or cells, come of it (3.2.5). `both` is the mean of the
    sides' product, if that of the means will not do: a few boxes may cover everything. And an event
    tests no fewer than `vain` boxes in vain: finer cells are more than a cache holds.
    """
    both = np.multiply(qx, qy) if both is None else both
    m, qx, qy, entries, both = np.broadcast_arrays(m, qx, qy, np.asarray(entries, float), both)
    side = np.sqrt(qx * qy)
    shape = np.where((qx > 0) & (qy > 0), np.sqrt(np.maximum(qx, 1e-12) / np.maximum(qy, 1e-12)), 1)
    cell = cell_side(m, side)
    # An axis that the boxes cover by half has nothing to tell.
    nx = np.where(qx >= 0.5, 1.0, np.maximum(1 / (cell * shape), 1.0))
    ny = np.where(qy >= 0.5, 1.0, np.maximum(shape / cell, 1.0))
    for _ in range(200):
        made = m * (both * nx * ny + qx * nx + qy * ny + 1)
        over = (made > entries) | (nx * ny > entries)
        over |= m * (qx / ny + qy / nx + 1 / (nx * ny)) < vain
        over &= (nx > 1) | (ny > 1)
        if not over.any():
            break
        nx = np.where(over, np.maximum(nx * 0.85, 1.0), nx)
        ny = np.where(over, np.maximum(ny * 0.85, 1.0), ny)
    return np.maximum(nx + 0.5, 1).astype(np.int64), np.maximum(ny + 0.5, 1).astype(np.int64)


def _budget(boxes: float) -> float:
    """Return how many list entries so many boxes may have."""
    return max(_LEAST_BYTES, _BYTES_A_BOX * boxes) / _ENTRY_BYTES


def levels(
    side_x: np.ndarray, side_y: np.ndarray, times: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many cells each level has across x and y, [l, 2], and the level of each box.

    Sides are shares of the domain. Each box stands for so many `times` like it: the planner asks
    with a sample.
    """
    n = len(side_x)
    level = np.zeros(n, np.int32)
    rest = np.arange(n)
    made: list[tuple[int, int]] = []
    while True:
        qx, qy = side_x[rest], side_y[rest]
        entries = _budget(n * times) * max(len(rest) / max(n, 1), 0.1)
        middle_x, middle_y = (np.median(q) if len(q) else 1.0 for q in (qx, qy))
        nx, ny = (
            int(v) for v in resolution(len(rest) * times, middle_x, middle_y, entries, vain=_VAIN)
        )
        covered = (qx * nx + 1) * (qy * ny + 1)
        large = covered > 64 + 8 * np.median(covered) if len(rest) else np.zeros(0, bool)
        # A few may stay: what they cost is little beside the others.
        if covered[large].sum() < covered.sum() / 4:
            large[:] = False
        if len(made) + 1 == _LEVELS:
            large[:] = False
        if not large.any():
            while (covered.sum() - len(rest)) * times > 2 * entries and nx * ny > 1:
                nx, ny = max(nx * 3 // 4, 1), max(ny * 3 // 4, 1)
                covered = (qx * nx + 1) * (qy * ny + 1)
        level[rest] = len(made)
        made.append((nx, ny))
        rest = rest[large]
        if not len(rest):
            return np.array(made), level


class Grid(Filed):
    """Boxes in the cells of a grid over two attributes."""

    name: ClassVar[str] = "grid"
    version: ClassVar[int] = 1

    priced = True
    summary = Summary(
        holds="boxes over two attributes, in the cells of a grid",
        cost=f"{unit_costs.FIND:g} ns, and {unit_costs.TEST:g} ns a box in the lists of its cell",
        suits="geofences, and other boxes over two attributes; further ones are tested afterwards",
        slow_when="boxes all overlap, or no two attributes restrict the rules much",
    )

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray) -> Self:
        """Choose axes and cell sizes, and file the boxes."""
        axes, is_float = chosen_axes(conjunctions, floats)
        boxes = boxes_over(conjunctions, axes, is_float)
        return cls(conjunctions, GridFiling(boxes).cells(axes))

    @classmethod
    def cost(cls, sample: Sample) -> Cost:
        """Estimate what an event would cost; see `Index.cost`."""
        side_x, side_y = sample.sides
        across, level = levels(side_x, side_y, sample.factor)
        cell = 1 / across[level]
        # An event tests the boxes that meet its cell.
        tested = np.minimum(side_x + cell[:, 0], 1) * np.minimum(side_y + cell[:, 1], 1)
        nanoseconds = (
            unit_costs.FIND * len(across)
            + unit_costs.TEST * sample.total(tested)
            + unit_costs.ACCEPT * sample.total(sample.areas[sample.unproven])
        )
        met = sample.in_words(sample.met)
        return Cost(nanoseconds, f"an event meets {met} on the two attributes of the grid")


class GridFiling(Filing):
    """Levels by size, and tiers where it is crowded."""

    tiers = 4

    def __init__(self, boxes: Boxes):
        super().__init__(boxes)
        self.budget = _budget(boxes.size)

    def roots(self) -> tuple[Nodes, np.ndarray, np.ndarray]:
        """Return the roots and which boxes go to which: the large ones apart from the small."""
        begin_x, end_x, side_x = sides(self.boxes, 0)
        begin_y, end_y, side_y = sides(self.boxes, 1)
        across, level = levels(side_x, side_y)
        begin = np.tile([[begin_x, begin_y]], (len(across), 1))
        end = np.tile([[end_x, end_y]], (len(across), 1))
        boxes = np.arange(self.boxes.size, dtype=np.int32)
        return self.made_nodes(begin, end, across), boxes, level

    def split(
        self,
        nodes: Nodes,
        box: np.ndarray,
        node: np.ndarray,
        codes: np.ndarray,
        full: np.ndarray,
        part: np.ndarray,
    ) -> tuple[Any, Any]:
        """Give a grid of its own to each crowded cell that is worth it."""
        cells = np.flatnonzero(part > max(_CROWDED, 4 * part.sum() / max(len(part), 1)))
        if not len(cells):
            return None, None
        m = part[cells].astype(np.float64)
        begin, end, q, both = self.crowded(nodes, box, node, codes, cells, len(part), m)
        # Eight entries a box, as long as the budget for all tiers lasts.
        left = max(2 * self.budget - self.id_count - int(full.sum()) - int(part.sum()), 0)
        allowed = m * np.clip(left / m.sum(), 1, 8)
        nx, ny = resolution(m, q[:, 0], q[:, 1], allowed, both, _VAIN)
        # Worth it if an event has less than half of the boxes left to test.
        cx, cy = 1 / nx, 1 / ny
        tested = both + q[:, 0] * cy + q[:, 1] * cx + cx * cy
        tested -= np.maximum(q[:, 0] - cx, 0) * np.maximum(q[:, 1] - cy, 0)
        worth = tested < 0.5
        if not worth.any():
            return None, None
        below = np.full(len(part), -1, np.int32)
        below[cells[worth]] = np.arange(int(worth.sum()))
        return below, (begin[worth], end[worth], np.stack([nx, ny], axis=1)[worth])
