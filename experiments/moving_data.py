"""Objects that move, their queries, and the page model of the thesis (2.6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

ENTRIES = 100  # of 20 bytes, on a page of 2 KB
BUFFERS = 21  # pages: the top two levels of an index, or 20 pages of queries and one of objects
STEP = 50.0  # seconds
SIDE = 0.01  # of a query
MILES = 1000.0  # the side of the square
CITY_MILES = 10.0
SPEED = 250.0  # miles an hour: the highest v_max of all objects
CITY_SPEED = 50.0

_CLUSTERS = 5
_SPREAD = 0.05  # standard deviation of objects within a cluster
_RANKS = 100  # of speeds; chosen

# How the text can be read: how far the queries of a cluster are spread, and whether those outside
# of the square are drawn again, as objects are.
READINGS = {
    "spread 0.1": (0.1, True),
    "spread 1, inside": (1.0, True),
    "spread 1, anywhere": (1.0, False),
}
SPEEDS = ("Zipf", "by rank", "uniform")


@dataclass
class World:
    """Objects in the order of their file, and queries."""

    rng: np.random.Generator
    x: np.ndarray
    y: np.ndarray
    v_max: np.ndarray  # sides of the square per second
    boxes: np.ndarray  # [queries, 4]: x, y low, then x, y high

    @property
    def objects(self) -> int:
        return len(self.x)

    def move(self, count: int, step: float = STEP) -> tuple[np.ndarray, np.ndarray]:
        """Move some objects, chosen at random; return their rows, and how far each went.

        Speeds are uniform up to v_max, and directions are random. Objects turn round at the sides
        of the square.
        """
        rows = np.arange(self.objects)
        if count < self.objects:
            rows = np.sort(self.rng.choice(self.objects, count, replace=False))
        distance = self.rng.random(count) * self.v_max[rows] * step
        angle = self.rng.random(count) * (2 * np.pi)
        for values, part in ((self.x, np.cos(angle)), (self.y, np.sin(angle))):
            values[rows] = 1 - np.abs(1 - np.abs(values[rows] + distance * part))
        return rows, distance


def make_world(
    seed: int,
    objects: int,
    queries: int,
    reading: tuple[float, bool] = READINGS["spread 0.1"],
    speed: float = SPEED,
    speeds: str = "Zipf",
    spread: float = _SPREAD,
    miles: float = MILES,
) -> World:
    """Return five clusters of objects, one after the other, and queries with the same centres."""
    rng = np.random.default_rng(seed)
    centres = rng.random((2, _CLUSTERS))
    cluster = np.arange(objects) * _CLUSTERS // objects
    x, y = _draw_normal(rng, centres[:, cluster], spread, 0.0, True)
    v_max = draw_speeds(rng, objects, speeds) * speed / miles / 3600
    query_spread, is_inside = reading
    cluster = rng.integers(0, _CLUSTERS, queries)
    middle = _draw_normal(rng, centres[:, cluster], query_spread, SIDE / 2, is_inside)
    boxes = np.concatenate([middle - SIDE / 2, middle + SIDE / 2]).T
    return World(rng, x.copy(), y.copy(), v_max, np.ascontiguousarray(boxes))


def draw_speeds(rng: np.random.Generator, n: int, speeds: str) -> np.ndarray:
    """Return maximum speeds, as shares of the highest one.

    *Zipf*: k / 100 with a probability that is proportional to 1 / k. *By rank*: 1 / k, with k
    uniform from 1 to 100, which is the size of the k-th largest by Zipf's law.
    """
    ranks = np.arange(1, _RANKS + 1)
    if speeds == "uniform":
        return rng.random(n)
    if speeds == "by rank":
        return 1 / rng.choice(ranks, n)
    weights = 1 / ranks
    return rng.choice(ranks, n, p=weights / weights.sum()) / _RANKS


def _draw_normal(
    rng: np.random.Generator, centres: np.ndarray, spread: float, margin: float, is_inside: bool
) -> np.ndarray:
    """Return a point around each centre, drawn again until it is inside the square if it must."""
    points = centres + rng.normal(0, spread, centres.shape)
    while is_inside:
        outside = np.flatnonzero(((points < margin) | (points > 1 - margin)).any(axis=0))
        if not len(outside):
            break
        points[:, outside] = centres[:, outside] + rng.normal(0, spread, (2, len(outside)))
    return points


# ------------------------------------------------------------ pages


def pages(entries: int) -> int:
    """Return how many pages a file of so many entries has."""
    return math.ceil(entries / ENTRIES)


def brute_force(queries: int, objects: int) -> int:
    """Return the I/Os for comparing each query with each object (2.6.1, 2.6.3).

    While 20 buffers hold pages of queries, the file of objects is read once.
    """
    held = BUFFERS - 1
    passes = math.ceil(pages(queries) / held)
    return passes * (min(pages(queries), held) + pages(objects))


def query_index(queries: int, reports: int) -> int:
    """Return the I/Os of a step with all queries in memory: both files are read (2.6.3)."""
    return pages(queries) + pages(reports)


def packing(objects: int) -> int:
    """Return the I/Os of packing all objects into leaves by sort-tile-recursive.

    They are sorted by x, cut into slabs, and each slab is sorted by y; what is written last are the
    leaves.
    """
    leaves = pages(objects)
    slab = math.ceil(leaves / math.ceil(math.sqrt(leaves)))
    return 2 * leaves * (sorting_passes(leaves) + sorting_passes(slab))


def sorting_passes(count: int) -> int:
    """Return how often an external merge sort reads and writes a file of so many pages."""
    runs, passes = math.ceil(count / BUFFERS), 1
    while runs > 1:
        runs, passes = math.ceil(runs / (BUFFERS - 1)), passes + 1
    return passes
