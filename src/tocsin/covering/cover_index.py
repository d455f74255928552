"""Which boxes contain a box: search among boxes that come and go (paper, II and IV).

A box contains another one if its low ends are not above and its high ends not below the other's. As
a point (-l1, r1, -l2, r2, ...) of twice as many dimensions it then *dominates* the other's point:
no coordinate is smaller (IV-A). Coordinates are the keys of numbers, so they are exact for all
floats, and -l is the complement of the bits.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tocsin.covering import kd_tree
from tocsin.errors import CoverError
from tocsin.model.encoding import NULL

METHODS = ("kd",)


class CoverIndex:
    """Boxes, and which of them contain a box or are inside of it.

    >>> import tocsin
    >>> cover = tocsin.covering.CoverIndex(2)
    >>> cover.add("wide", [0, 0], [10, 10])
    >>> cover.add("narrow", [2, 3], [4, 5])
    >>> cover.covering([2, 4], [3, 5], k=2)
    ['wide', 'narrow']
    >>> cover.covered([1, 1], [9, 9])
    ['narrow']
    """

    def __init__(self, dimensions: int, method: str = "kd"):
        if isinstance(dimensions, bool) or not isinstance(dimensions, int) or dimensions < 1:
            raise CoverError(f"dimensions must be a count, at least 1; got {dimensions!r}")
        if method not in METHODS:
            raise CoverError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
        self.dimensions, self.method = dimensions, method
        self._tree = kd_tree.make_tree(2 * dimensions)
        self._number: dict[Hashable, int] = {}
        self._ids: list[Any] = []
        self._free: list[int] = []
        self._scratch = np.empty(kd_tree.OVERFLOW, np.int64)
        self._stack = np.empty(len(self._tree.dimension) + 2, np.int64)

    def __len__(self) -> int:
        return len(self._number)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._number

    def add(self, id: Hashable, low: Sequence[float], high: Sequence[float]) -> None:
        """Add a box, both of whose ends belong to it; they may be infinite."""
        if id in self._number:
            raise CoverError(f"there is already a box with the id {id!r}; remove it first")
        point = self._point(low, high)
        box = self._free.pop() if self._free else len(self._ids)
        while not kd_tree.has_room(self._tree, box):
            self._tree = kd_tree.grow(self._tree, 2 * self.dimensions)
            self._stack = np.empty(len(self._tree.dimension) + 2, np.int64)
        if box == len(self._ids):
            self._ids.append(id)
        else:
            self._ids[box] = id
        self._number[id] = box
        kd_tree.insert(self._tree, point, box, self._scratch)

    def remove(self, id: Hashable) -> None:
        """Remove a box."""
        if id not in self._number:
            raise CoverError(f"there is no box with the id {id!r}")
        box = self._number.pop(id)
        kd_tree.remove(self._tree, box, 2 * self.dimensions)
        self._ids[box] = None
        self._free.append(box)

    def covering(self, low: Sequence[float], high: Sequence[float], k: int = 1) -> list[Any]:
        """Return the ids of up to k boxes that contain this one."""
        found = np.empty(k, np.int64)
        n = kd_tree.find_dominating(self._tree, self._point(low, high), -1, found, self._stack)
        return [self._ids[box] for box in found[:n]]

    def covered(self, low: Sequence[float], high: Sequence[float]) -> list[Any]:
        """Return the ids of all boxes inside of this one."""
        point, found = self._point(low, high), np.empty(16, np.int64)
        while (n := kd_tree.find_dominated(self._tree, point, found, self._stack)) > len(found):
            found = np.empty(n, np.int64)
        return [self._ids[box] for box in found[:n]]

    @property
    def visited(self) -> int:
        """The number of nodes that searches have visited."""
        return int(self._tree.head[kd_tree.VISITED])

    @property
    def compared(self) -> int:
        """The number of points that searches have compared."""
        return int(self._tree.head[kd_tree.COMPARED])

    def _point(self, low: Sequence[float], high: Sequence[float]) -> np.ndarray:
        ends = np.array([low, high], np.float64)
        if ends.shape != (2, self.dimensions):
            raise CoverError(f"a box needs {self.dimensions} low and as many high ends")
        if not (ends[0] <= ends[1]).all():
            raise CoverError("a box is reversed or has NaN as an end")
        ends += 0.0  # -0 becomes 0
        bits = ends.view(np.int64)
        keys = np.where(bits >= 0, bits, NULL - bits)
        point = np.empty(2 * self.dimensions, np.int64)
        point[0::2], point[1::2] = ~keys[0], keys[1]
        point.setflags(write=False)
        return point
