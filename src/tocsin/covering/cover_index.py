"""Which boxes contain a box: search among boxes that come and go (paper, II and IV).

A box contains another one if its low ends are not above and its high ends not below the other's. As
a point (-l1, r1, -l2, r2, ...) of twice as many dimensions it then *dominates* the other's point:
no coordinate is smaller (IV-A). Coordinates are the engine's keys, and -l is the complement of the
bits of l. So they are exact for all floats, and a dimension without ends contains null, which one
with an end does not.

Boxes that are equal share a point, and the searches only know points.
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from tocsin.covering.kd_tree import KdTree
from tocsin.covering.naive import Naive
from tocsin.covering.z_curve import ZCurve
from tocsin.errors import CoverError
from tocsin.jit import Float64s, Int64Out, kernel, step
from tocsin.model.encoding import HIGHEST, LOWEST, NULL

_EXACT = 2.0**53  # all integers up to here are floats
_MISSING, _LARGE = 1, 2


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


METHODS: dict[str, Any] = {"kd": KdTree, "z": ZCurve, "naive": Naive}


class CoverIndex:
    """Boxes, and which of them contain a box or are inside of it.

    Parameters
    ----------
    dimensions
        How many low and high ends a box has.
    method
        "kd", a k-d tree; "z", a Z-curve; or "naive", which compares all boxes, widest first.
    options
        `overflow` and `underflow`, limits of the buckets of a k-d tree; `bits` per dimension of a
        Z-curve.

    An end can be infinite. None is no end: a dimension with neither end contains everything, null
    and NaN included.

    >>> cover = CoverIndex(2)
    >>> cover.add("wide", [0, 0], [10, 10])
    >>> cover.add("narrow", [2, 3], [4, 5])
    >>> cover.covering([2, 4], [3, 5], k=2)
    ['wide', 'narrow']
    >>> cover.covered([1, 1], [9, 9])
    ['narrow']
    """

    def __init__(self, dimensions: int, method: str = "kd", **options: int):
        if isinstance(dimensions, bool) or not isinstance(dimensions, int) or dimensions < 1:
            raise CoverError(f"dimensions must be an integer, 1 or more; got {dimensions!r}")
        if method not in METHODS:
            raise CoverError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
        self.dimensions, self.method = dimensions, method
        self._search: Search = METHODS[method](2 * dimensions, **_check(method, options))
        self.index = PointIndex(self._search)

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, id: Hashable) -> bool:
        return id in self.index

    def add(self, id: Hashable, low: Sequence[Any], high: Sequence[Any]) -> None:
        """Add a box; both of its ends belong to it."""
        self.index.add(id, self.read(low, high))

    def remove(self, id: Hashable) -> None:
        """Remove a box."""
        self.index.remove(id)

    def covering(self, low: Sequence[Any], high: Sequence[Any], k: int = 1) -> list[Any]:
        """Return the ids of up to k boxes that contain this one; of equal boxes, oldest first."""
        return self.index.covering(self.read(low, high), check_count("k", k))

    def covered(self, low: Sequence[Any], high: Sequence[Any]) -> list[Any]:
        """Return the ids of all boxes inside of this one."""
        return self.index.covered(self.read(low, high))

    def read(self, low: Sequence[Any], high: Sequence[Any]) -> np.ndarray:
        """Return the point of a box."""
        return box_point(low, high, self.dimensions)

    @property
    def visited(self) -> int:
        """The number of nodes (Z-curve: keys; naive: chunks of 128 boxes) that were visited."""
        return self._search.visited

    @property
    def compared(self) -> int:
        """The number of boxes that were compared."""
        return self._search.compared


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


def box_point(low: Sequence[Any], high: Sequence[Any], dimensions: int) -> np.ndarray:
    """Return the point of a box."""
    ends, point = np.empty(2 * dimensions), np.empty(2 * dimensions, np.int64)
    try:
        if not len(low) == len(high) == dimensions:
            raise CoverError(
                f"a box of this index has {dimensions} low ends and as many high ends; got "
                f"{len(low)} and {len(high)}"
            )
        ends[:dimensions], ends[dimensions:] = low, high
    except (TypeError, ValueError, OverflowError) as error:
        raise CoverError(f"the ends of a box must be numbers or None: {error}") from None
    state = write_point(ends, point)
    if state & _MISSING:
        _fill_missing(point, low, high)
    if state & _LARGE:
        _check_exact(ends, low, high)
    return point


@kernel
def write_point(ends: Float64s, point: Int64Out) -> int:
    """Write the point of a box; return whether an end is missing or large."""
    d, state = ends.shape[0] // 2, 0
    for j in range(d):
        low, high = ends[j], ends[d + j]
        if not low <= high:
            state |= _MISSING
        if abs(low) >= _EXACT or abs(high) >= _EXACT:
            state |= _LARGE
        point[2 * j], point[2 * j + 1] = ~to_key(low), to_key(high)
    return state


@step
def to_key(number):
    """Return the key of a number that is not NaN."""
    bits = np.float64(number + 0.0).view(np.int64)  # -0 becomes 0
    return bits if bits >= 0 else np.int64(NULL) - bits


def check_count(name: str, value: Any) -> int:
    """Return a count; raise unless it is an integer, 1 or more."""
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1 or isinstance(value, bool):
        raise CoverError(f"{name} must be an integer, 1 or more; got {value!r}")
    return count


def _fill_missing(point: np.ndarray, low: Sequence[Any], high: Sequence[Any]) -> None:
    """Write the coordinates of missing ends; raise if an end is NaN, or if they are reversed."""
    for j, (least, most) in enumerate(zip(low, high, strict=True)):
        if least is None and most is None:
            point[2 * j], point[2 * j + 1] = ~NULL, HIGHEST
        elif least is None and most == most:
            point[2 * j] = ~LOWEST
        elif most is None and least == least:
            point[2 * j + 1] = HIGHEST
        elif not (least is not None and most is not None and least <= most):
            raise CoverError(
                f"dimension {j} has the ends {least!r} and {most!r}; the low end must not be above "
                "the high end, and neither can be NaN"
            )


def _check_exact(ends: np.ndarray, low: Sequence[Any], high: Sequence[Any]) -> None:
    for given, end in zip([*low, *high], ends.tolist(), strict=True):
        if isinstance(given, int) and given != end:
            raise CoverError(f"{given} is not a float64; the nearest one is {int(end)}")


_OPTIONS = {"kd": {"overflow": 2, "underflow": 0}, "z": {"bits": 1}, "naive": {}}  # least values


def _check(method: str, options: dict[str, int]) -> dict[str, int]:
    allowed = _OPTIONS[method]
    for name, value in options.items():
        if name not in allowed:
            raise CoverError(
                f"method {method!r} has no option {name!r}; it has {', '.join(allowed) or 'none'}"
            )
        least = allowed[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 4096:
            raise CoverError(f"{name} must be an integer from {least} to 4096; got {value!r}")
    if options.get("bits", 0) > 16:
        raise CoverError(f"bits must be at most 16; got {options['bits']}")
    if options.get("underflow", 0) > options.get("overflow", 32):
        raise CoverError("underflow must not be above overflow")
    return options
