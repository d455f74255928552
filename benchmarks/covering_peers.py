"""What a user would write instead of a covering index, and the paper's sequential scan.

Peers are what `RelationGraph` calls a cover: they read boxes as points (-low, high), and find the
ids whose points dominate one. They take boxes with both ends in [0, 1], no two of them equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tocsin.jit import Int64Out, Int64s, kernel


class NumpyCover:
    """One array of points, compared column by column.

    In order of arrival, and what is removed is replaced by the last one. (Widest first would stop
    early, but to insert in the middle of 30,000 points takes longer than to compare 60,000.) Blocks
    grow, so that a search which finds something soon is short; the first four columns are compared
    in full, the others only for rows that are left. All measured to be the fastest.
    """

    FIRST, GROWTH, FULL = 1024, 4, 4  # rows of the first block, factor, columns

    def __init__(self, d: int):
        self.index = self
        self._points = np.empty((2 * d, 1024))
        self._ids: list[Any] = []
        self._row: dict[Any, int] = {}

    def read(self, low: Sequence[float], high: Sequence[float]) -> np.ndarray:
        return np.concatenate([np.negative(low), high])

    def add(self, id: Any, point: np.ndarray) -> None:
        n = len(self._ids)
        if n == self._points.shape[1]:
            self._points = np.concatenate([self._points, np.empty_like(self._points)], axis=1)
        self._points[:, n] = point
        self._row[id] = n
        self._ids.append(id)

    def remove(self, id: Any) -> None:
        row, last = self._row.pop(id), self._ids.pop()
        if last != id:
            self._points[:, row] = self._points[:, len(self._ids)]
            self._ids[row], self._row[last] = last, row

    def covering(self, point: np.ndarray, k: int) -> list[Any]:
        found: list[Any] = []
        values, first, step, n = point.tolist(), 0, self.FIRST, len(self._ids)
        while first < n and len(found) < k:
            block = self._points[:, first : min(first + step, n)]
            inside = block[0] >= values[0]
            for column, least in zip(block[1 : self.FULL], values[1 : self.FULL]):
                inside &= column >= least
            rows = np.flatnonzero(inside)
            for column, least in zip(block[self.FULL :], values[self.FULL :]):
                if not len(rows):
                    break
                rows = rows[column[rows] >= least]
            found += [self._ids[first + row] for row in rows[:k].tolist()]
            first, step = first + step, step * self.GROWTH
        return found[:k]

    def covering_id(self, id: Any, k: int) -> list[Any]:
        point = self._points[:, self._row[id]]
        return [each for each in self.covering(point, k + 1) if each != id][:k]


class RTreeCover:
    """The R*-tree of the package rtree (libspatialindex), over points of 2 d dimensions.

    A search returns all that is in the range from the point up: the library cannot stop at the
    first. (It can also hold boxes of d dimensions and return those that contain the middle of one,
    or intersect it. That takes three times as long: most of them do not contain the box.) Nodes of
    16, or of 100 from 16 dimensions on, are the fastest of those tried: 8, 16 and 100, with the
    R*-tree's and the linear split.
    """

    def __init__(self, d: int):
        from rtree import index

        self.index = self
        settings = index.Property()
        settings.dimension, settings.variant = 2 * d, index.RT_Star
        capacity = 16 if 2 * d < 16 else 100
        settings.leaf_capacity = settings.index_capacity = capacity
        settings.near_minimum_overlap_factor = capacity // 2
        self._tree = index.Index(properties=settings)
        self._top = [0.0] * d + [1.0] * d
        self._points: dict[Any, list[float]] = {}

    def read(self, low: Sequence[float], high: Sequence[float]) -> list[float]:
        return [*(-end for end in low), *high]

    def add(self, id: Any, point: list[float]) -> None:
        self._points[id] = point
        self._tree.insert(id, point + point)

    def remove(self, id: Any) -> None:
        point = self._points.pop(id)
        self._tree.delete(id, point + point)

    def covering(self, point: list[float], k: int) -> list[Any]:
        return list(self._tree.intersection(point + self._top))[:k]

    def covering_id(self, id: Any, k: int) -> list[Any]:
        found = self.covering(self._points[id], len(self._points))
        return [each for each in found if each != id][:k]


# ------------------------------------------------------------ the paper's naive


class Scan:
    """A sequential scan in order of arrival: the paper's naive method, as we read it.

    Points are compared one by one, and a comparison ends at the first coordinate that is too small.
    What is removed is replaced by the last one.
    """

    def __init__(self, d: int):
        self.d, self._size = d, 0
        self._points, self._entries = np.empty(1024 * d, np.int64), np.empty(1024, np.int64)
        self._row: dict[int, int] = {}
        self.visited, self.compared = 0, 0

    def insert(self, point: np.ndarray, entry: int) -> None:
        d, n = self.d, self._size
        if n == len(self._entries):
            self._points = np.concatenate([self._points, np.empty_like(self._points)])
            self._entries = np.concatenate([self._entries, np.empty_like(self._entries)])
        self._points[n * d : n * d + d], self._entries[n] = point, entry
        self._row[entry], self._size = n, n + 1

    def remove(self, point: np.ndarray, entry: int) -> None:
        d, row, last = self.d, self._row.pop(entry), self._size - 1
        self._size = last
        if row != last:
            moved = int(self._entries[last])
            self._points[row * d : row * d + d] = self._points[last * d : last * d + d]
            self._entries[row], self._row[moved] = moved, row

    def find_dominating(self, point: np.ndarray, but: int, found: np.ndarray) -> int:
        return int(scan(self._points, self._entries, self._size, point, but, found))

    def find_dominated(self, point: np.ndarray, but: int, found: np.ndarray) -> int:
        raise NotImplementedError


@kernel
def scan(
    points: Int64s, entries: Int64s, size: int, point: Int64s, but: int, found: Int64Out
) -> int:
    """Write entries whose points dominate a point, other than `but`, up to the room."""
    d, n, k = point.shape[0], 0, found.shape[0]
    for row in range(size):
        j = 0
        while j < d and points[row * d + j] >= point[j]:
            j += 1
        if j == d and entries[row] != but:
            found[n] = entries[row]
            n += 1
            if n == k:
                break
    return n
