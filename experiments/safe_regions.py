"""Safe regions of objects that move (thesis, 2.4), and what it takes to compute them on pages."""

from __future__ import annotations

import numpy as np

from experiments.moving_data import World, pages
from experiments.page_tree import Leaves, PageTree
from tocsin.moving.regions.distance import find_distances
from tocsin.moving.regions.layout import (
    Fences,
    boxes_of_values,
    build_fences,
    keys_of_values,
    values_of_keys,
)
from tocsin.moving.regions.rectangle import AREA, find_rectangles
from tocsin.moving.widening import FLOAT

REACH = 10.0  # times SafeDist: what SafeRect considers (2.4.2)
KINDS = ("SafeDist", "SafeSphere", "SafeRect")

_BLOCK = 1 << 14


def make_fences(boxes: np.ndarray) -> Fences:
    """Return queries as fences with closed ends."""
    low_x, low_y, high_x, high_y = boxes.T
    return build_fences(boxes_of_values(low_x, high_x, low_y, high_y), (FLOAT, FLOAT))


class SafeRegions:
    """The regions of all objects, as they were computed once."""

    def __init__(self, world: World):
        fences = make_fences(world.boxes)
        self.x, self.y = world.x.copy(), world.y.copy()
        keys = keys_of_values(self.x, FLOAT), keys_of_values(self.y, FLOAT)
        self.distance = find_distances(fences, *keys).distance
        found = find_rectangles(fences, *keys, by=AREA, reach=REACH * self.distance)
        self.rectangle = values_of_keys(found.bound, FLOAT)  # x low, x high, y low, y high
        self.travelled = np.zeros(len(self.x))

    def move(self, world: World, count: int) -> np.ndarray:
        """Move objects, and return the rows of those that have moved."""
        rows, distance = world.move(count)
        self.travelled[rows] += distance
        return rows

    def inside(self, world: World, rows: np.ndarray, kind: str) -> np.ndarray:
        """Return which of these objects are inside of their region."""
        x, y = world.x[rows], world.y[rows]
        if kind == "SafeDist":
            return self.travelled[rows] < self.distance[rows]
        if kind == "SafeSphere":
            return np.hypot(x - self.x[rows], y - self.y[rows]) < self.distance[rows]
        x0, x1, y0, y1 = self.rectangle[rows].T
        return (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)

    def cut(self, world: World, queries: np.ndarray) -> int:
        """Shrink rectangles that new queries cut (Modify, 2.6.5); return the I/Os.

        The regions are a file, which is read once while the queries are in memory. Its pages are
        written where a region has changed. Of the parts that are left of a rectangle, the largest
        is kept. Objects outside of their rectangle have none.
        """
        x, y, r = world.x, world.y, self.rectangle
        is_inside = self.inside(world, np.arange(len(x)), "SafeRect")
        changed = np.zeros(len(x), bool)
        for x0, y0, x1, y1 in queries:
            is_cut = (
                is_inside & (r[:, 0] <= x1) & (r[:, 1] >= x0) & (r[:, 2] <= y1) & (r[:, 3] >= y0)
            )
            rows = np.flatnonzero(is_cut)
            r[rows] = cut_rectangles(r[rows], x[rows], y[rows], (x0, y0, x1, y1))
            changed[rows] = True
        return pages(len(x)) + len(np.unique(np.flatnonzero(changed) // 100)) + pages(len(queries))


def cut_rectangles(
    r: np.ndarray, x: np.ndarray, y: np.ndarray, box: tuple[float, float, float, float]
) -> np.ndarray:
    """Return the largest rectangles with these points in which all points are alike for a box.

    `r` has x low, x high, y low, y high, and each of its rows meets the box: x, y low, then high.
    """
    x0, y0, x1, y1 = box
    is_within = (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
    out = np.empty_like(r)
    best = np.full(len(r), -np.inf)
    parts = [  # where the point must be, which side moves, and to where
        (x < x0, 1, np.nextafter(x0, -np.inf)),
        (x > x1, 0, np.nextafter(x1, np.inf)),
        (y < y0, 3, np.nextafter(y0, -np.inf)),
        (y > y1, 2, np.nextafter(y1, np.inf)),
    ]
    for is_possible, side, end in parts:
        part = r.copy()
        part[:, side] = (
            np.maximum(part[:, side], end) if side % 2 == 0 else np.minimum(part[:, side], end)
        )
        area = np.where(is_possible, _area(part), -np.inf)
        is_better = area > best
        out[is_better], best[is_better] = part[is_better], area[is_better]
    inner = np.stack(
        [
            np.maximum(r[:, 0], x0), np.minimum(r[:, 1], x1),
            np.maximum(r[:, 2], y0), np.minimum(r[:, 3], y1),
        ],
        axis=1,
    )  # fmt: skip
    out[is_within] = inner[is_within]
    return out


def _area(r: np.ndarray) -> np.ndarray:
    # Sides without an end are cut at twice the square, so that areas can be compared.
    r = np.clip(r, -2, 2)
    return (r[:, 1] - r[:, 0]) * (r[:, 3] - r[:, 2])


# ------------------------------------------------------------ I/Os


def leaf_boxes(tree: PageTree, boxes: np.ndarray) -> np.ndarray:
    """Return the boxes of a tree's leaves: x, y low, then x, y high."""
    leaves: Leaves = tree.leaves()
    own = boxes[leaves.order]
    low = np.minimum.reduceat(own[:, :2], leaves.start, axis=0)
    return np.concatenate([low, np.maximum.reduceat(own[:, 2:], leaves.start, axis=0)], axis=1)


def count_leaves(leaves: np.ndarray, x: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Return for each point how many leaves are within a distance of it."""
    return _count_near(leaves, x, y, reach, np.hypot)


def count_leaves_of_square(
    leaves: np.ndarray, x: np.ndarray, y: np.ndarray, reach: np.ndarray
) -> np.ndarray:
    """Return for each point how many leaves the square meets that goes so far to all sides."""
    return _count_near(leaves, x, y, reach, np.maximum)


def _count_near(leaves, x, y, reach, combine) -> np.ndarray:
    found = np.empty(len(x), np.int64)
    for begin in range(0, len(x), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        gap = []
        for values, low, high in ((x, leaves[:, 0], leaves[:, 2]), (y, leaves[:, 1], leaves[:, 3])):
            v = values[part, None]
            gap.append(np.maximum(np.maximum(low - v, v - high), 0))
        found[part] = (combine(*gap) <= reach[part, None]).sum(axis=1)
    return found


def region_ios(leaves: np.ndarray, regions: SafeRegions) -> dict[str, np.ndarray]:
    """Return the I/Os of computing the region of each object, by a best-first search.

    It reads the leaves that are not farther away than the nearest edge, and those within ten times
    that distance for SafeRect. The object's own queries are found on the way.
    """
    x, y, d = regions.x, regions.y, regions.distance
    near = count_leaves(leaves, x, y, d)
    wide = count_leaves_of_square(leaves, x, y, REACH * d)
    return {"SafeDist": near, "SafeSphere": near, "SafeRect": wide}
