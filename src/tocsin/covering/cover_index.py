"""Which boxes contain a box: search among boxes that come and go (paper, II and IV).

A box contains another one if its lower bounds are not above and its upper bounds not below the
other's. As a point (-l1, r1, -l2, r2, ...) of twice as many dimensions it then *dominates* the
other's point: no coordinate is smaller (IV-A). Coordinates are the engine's keys, and -l is the
complement of the bits of l. So they are exact for all floats, and a dimension without bounds
contains null, which one with a bound does not.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tocsin.covering.kd_tree import OVERFLOW, KdTree
from tocsin.covering.naive import Naive
from tocsin.covering.point_index import PointIndex, Search, check_count
from tocsin.covering.z_curve import ZCurve
from tocsin.errors import CoverError
from tocsin.jit import Float64s, Int64Out, kernel
from tocsin.model.encoding import HIGHEST, LOWEST, NULL
from tocsin.model.keys import to_key

_EXACT = 2.0**53  # all integers up to here are floats
_MISSING, _LARGE = 1, 2


METHODS: dict[str, Any] = {"kd": KdTree, "z": ZCurve, "naive": Naive}


class CoverIndex:
    """Boxes, and which of them contain a box or are inside it.

    Parameters
    ----------
    dimensions
        How many lower and upper bounds a box has.
    method
        "kd", a k-d tree; "z", a Z-curve; or "naive", which compares all boxes, widest first.
    options
        `overflow` and `underflow`, limits of the buckets of a k-d tree; `bits` per dimension of a
        Z-curve.

    A bound can be infinite. None means unbounded: a dimension with neither bound contains
    everything, null and NaN included.

    >>> cover = CoverIndex(2)
    >>> cover.add("wide", [0, 0], [10, 10])
    >>> cover.add("narrow", [2, 3], [4, 5])
    >>> cover.covering([2, 4], [3, 5], k=2)
    ['wide', 'narrow']
    >>> cover.covered([1, 1], [9, 9])
    ['narrow']
    """

    def __init__(self, dimensions: int, method: str = "kd", **options: int):
        dimensions = check_count("dimensions", dimensions)
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
        """Add a box; its bounds are inclusive."""
        self.index.add(id, self.read(low, high))

    def remove(self, id: Hashable) -> None:
        """Remove a box."""
        self.index.remove(id)

    def covering(self, low: Sequence[Any], high: Sequence[Any], k: int = 1) -> list[Any]:
        """Return the ids of up to k boxes that contain this one; of equal boxes, oldest first."""
        return self.index.covering(self.read(low, high), check_count("k", k))

    def covered(self, low: Sequence[Any], high: Sequence[Any]) -> list[Any]:
        """Return the ids of all boxes inside this one."""
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


def box_point(low: Sequence[Any], high: Sequence[Any], dimensions: int) -> np.ndarray:
    """Return the point of a box."""
    ends, point = np.empty(2 * dimensions), np.empty(2 * dimensions, np.int64)
    try:
        if not len(low) == len(high) == dimensions:
            raise CoverError(
                f"a box in this index needs {dimensions} lower and {dimensions} upper bounds; got "
                f"{len(low)} and {len(high)}"
            )
        ends[:dimensions], ends[dimensions:] = low, high
    except (TypeError, ValueError, OverflowError) as error:
        raise CoverError(f"the bounds of a box must be numbers or None: {error}") from None
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
                f"dimension {j} has the bounds {least!r} and {most!r}; the lower bound must not be "
                "above the upper bound, and neither can be NaN"
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
    underflow, overflow = options.get("underflow", 0), options.get("overflow", OVERFLOW)
    if underflow > overflow:
        raise CoverError(f"underflow must not be above overflow; got {underflow} and {overflow}")
    return options
