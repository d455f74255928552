"""The velocity constrained index on pages, as the thesis has it (2.5): an R*-tree by insertion.

Its structure never changes, so that what a query reads follows from the boxes of the leaves. Nodes
above them are in memory. A node has one v_max, by which everything in it is expanded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.moving_data import ENTRIES, World, pages
from experiments.page_tree import Leaves, PageTree, point_boxes
from tocsin.jit import Float64s, Int64s, UInt8Out, kernel


class Cost(NamedTuple):
    """I/Os of the queries of a step."""

    before: int  # leaves that queries read, each query on its own
    scattered: int  # pages of the file of positions, in the order in which objects were created
    clustered: int  # pages of that file in the order of the leaves

    @property
    def total(self) -> int:
        return self.before + self.scattered

    @property
    def clustered_total(self) -> int:
        return self.before + self.clustered


class VelocityPages:
    """Objects in the leaves of an R*-tree, and the positions that were indexed."""

    def __init__(self, world: World, leaves: Leaves | None = None):
        leaves = leaves or PageTree(point_boxes(world.x, world.y)).leaves()
        self.order, self.start = leaves.order, leaves.start
        self.stop = np.append(leaves.start[1:], len(leaves.order))
        self.v_leaf = np.maximum.reduceat(world.v_max[self.order], self.start)
        above = np.zeros(leaves.parent.max() + 1)
        np.maximum.at(above, leaves.parent, self.v_leaf)
        self.v_above = above[leaves.parent]
        self.refresh(world)

    def refresh(self, world: World) -> None:
        """Index the current positions; the structure stays."""
        self.x, self.y = world.x[self.order], world.y[self.order]
        ends = [np.minimum, np.minimum, np.maximum, np.maximum]
        parts = zip(ends, (self.x, self.y, self.x, self.y), strict=True)
        self.boxes = np.stack([end.reduceat(v, self.start) for end, v in parts], axis=1)

    @property
    def refresh_ios(self) -> int:
        """Each leaf is read and written, and the clustered file is read once."""
        return 2 * len(self.start) + pages(len(self.order))

    def cost(self, queries: np.ndarray, elapsed: float) -> Cost:
        """Return the I/Os of queries so many seconds after positions were indexed.

        Positions are looked up for all queries together (optimisations 1 and 2), and not for
        objects that cannot have left a query.
        """
        marked = np.zeros(len(self.order), np.uint8)
        before = mark_uncertain(
            self.boxes.reshape(-1), self.v_above * elapsed, self.v_leaf * elapsed, self.start,
            self.stop, self.x, self.y, np.ascontiguousarray(queries).reshape(-1), marked,
        )  # fmt: skip
        entries = np.flatnonzero(marked)
        return Cost(before, _count_pages(self.order[entries]), _count_pages(entries))


def _count_pages(rows: np.ndarray) -> int:
    return len(np.unique(rows // ENTRIES))


@kernel
def mark_uncertain(
    leaf: Float64s,
    reach_above: Float64s,
    reach: Float64s,
    start: Int64s,
    stop: Int64s,
    x: Float64s,
    y: Float64s,
    queries: Float64s,
    marked: UInt8Out,
) -> int:
    """Mark the entries whose position some query needs; return how many leaves are read."""
    count = 0
    for q in range(0, queries.shape[0], 4):
        x0, y0, x1, y1 = queries[q], queries[q + 1], queries[q + 2], queries[q + 3]
        for i in range(start.shape[0]):
            r = reach_above[i]
            is_near = (leaf[4 * i] - r <= x1) & (leaf[4 * i + 2] + r >= x0)
            is_near &= (leaf[4 * i + 1] - r <= y1) & (leaf[4 * i + 3] + r >= y0)
            if not is_near:
                continue
            count += 1
            r = reach[i]
            for e in range(start[i], stop[i]):
                px, py = x[e], y[e]
                may_be = (px - r <= x1) & (px + r >= x0) & (py - r <= y1) & (py + r >= y0)
                must_be = (px - r >= x0) & (px + r <= x1) & (py - r >= y0) & (py + r <= y1)
                marked[e] |= np.uint8(may_be & (not must_be))
    return count
