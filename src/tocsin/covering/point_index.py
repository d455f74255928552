"""Ids at points, and which of them dominate a point, by any of the searches.

A search only knows points and numbers them: their *entries*. Here are the ids at each, those at the
same point in the order of addition.
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Callable, Hashable
from typing import Any, Protocol

import numpy as np

from tocsin.errors import CoverError


class Search(Protocol):
    """A dominance search: points that can be inserted and removed."""

    @property
    def visited(self) -> int:
        """The number of nodes that searches have visited."""
        ...

    @property
    def compared(self) -> int:
        """The number of points that searches have compared."""
        ...

    def insert(self, point: np.ndarray, entry: int) -> None:
        """Insert a point that differs from all others."""
        ...

    def remove(self, point: np.ndarray, entry: int) -> None:
        """Remove a point."""
        ...

    def find_dominating(self, point: np.ndarray, but: int, found: np.ndarray) -> int:
        """Write entries other than `but` whose points dominate this one; return how many."""
        ...

    def find_dominated(self, point: np.ndarray, but: int, found: np.ndarray) -> int:
        """Write entries other than `but` whose points this one dominates; return how many."""
        ...


class PointIndex:
    """Ids with a point each, several at the same point in the order of addition.

    Threads take turns: searches change memory, and release the interpreter's lock.
    """

    def __init__(self, search: Search):
        self._search = search
        self._entry: dict[bytes, int] = {}  # of each point
        self._ids: list[dict[Any, None]] = []  # of each entry, oldest first
        self._free: list[int] = []
        self._point: dict[Any, np.ndarray] = {}
        self._one, self._found = np.empty(1, np.int64), np.empty(64, np.int64)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._point)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._point

    def add(self, id: Hashable, point: np.ndarray) -> None:
        """Add an id."""
        check_id(id)
        with self._lock:
            if id in self._point:
                raise CoverError(f"there is already a box with the id {id!r}; remove it first")
            key = point.tobytes()
            entry = self._entry.get(key)
            if entry is None:
                entry = self._free.pop() if self._free else len(self._ids)
                self._search.insert(point, entry)
                if entry == len(self._ids):
                    self._ids.append({})
                self._entry[key] = entry
            self._ids[entry][id] = None
            self._point[id] = point

    def remove(self, id: Hashable) -> None:
        """Remove an id."""
        with self._lock:
            point = self._point_of(id)
            key = point.tobytes()
            entry = self._entry[key]
            del self._point[id], self._ids[entry][id]
            if not self._ids[entry]:
                del self._entry[key]
                self._search.remove(point, entry)
                self._free.append(entry)

    def covering(self, point: np.ndarray, k: int) -> list[Any]:
        """Return up to k ids at points that dominate this one."""
        with self._lock:
            return self._find(self._search.find_dominating, point, -1, k)

    def covering_id(self, id: Hashable, k: int) -> list[Any]:
        """Return up to k ids that cover an id: at points that dominate its own, or older ones.

        Of ids at the same point only older ones count. So of any ids one is left that no other one
        covers.
        """
        with self._lock:
            point = self._point_of(id)
            entry = self._entry[point.tobytes()]
            older = list(
                itertools.islice(itertools.takewhile(lambda each: each != id, self._ids[entry]), k)
            )
            if len(older) == k:
                return older
            k -= len(older)
            return older + self._find(self._search.find_dominating, point, entry, k)

    def covered(self, point: np.ndarray) -> list[Any]:
        """Return all ids at points that this one dominates."""
        with self._lock:
            return self._find(self._search.find_dominated, point, -1, max(1, len(self)))

    def _point_of(self, id: Hashable) -> np.ndarray:
        check_id(id)
        if id not in self._point:
            raise CoverError(f"there is no box with the id {id!r}")
        return self._point[id]

    def _find(self, find: Callable[..., int], point: np.ndarray, but: int, k: int) -> list[Any]:
        """Return up to k ids at the entries that a search finds, other than `but`."""
        room = self._one
        if k > 1:
            # There are at most as many entries as have ever been used.
            if len(self._found) < min(k, len(self._ids)):
                self._found = np.empty(2 * len(self._ids), np.int64)
            room = self._found[:k]
        n = find(point, but, room)
        if n == 0:
            return []
        found = [id for entry in room[:n].tolist() for id in self._ids[entry]]
        return found if len(found) <= k else found[:k]


def check_count(name: str, value: Any) -> int:
    """Return a count; raise unless it is an integer, 1 or more."""
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1 or isinstance(value, bool):
        raise CoverError(f"{name} must be an integer, 1 or more; got {value!r}")
    return count


def check_id(id: Any) -> None:
    """Raise unless an id can be a key of a dict."""
    try:
        hash(id)
    except TypeError:
        raise CoverError(
            f"an id must be hashable, such as a text or a number; got {id!r}"
        ) from None
