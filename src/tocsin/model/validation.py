"""What is checked of stored arrays before a kernel trusts them, in a few words.

Kernels take arrays as they are: an offset beyond the end, a number that no conjunction has or a
node that is its own child makes them read elsewhere, or run for ever. Whoever wrote a store can
write its checksums too, so each layout says what it relies on, in a method `validate`, and these
functions raise a `StoreError` where that does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tocsin.errors import StoreError
from tocsin.jit import field_types


def require(holds: bool | np.bool_, rule: str) -> None:
    """Raise unless something holds; `rule` says what must hold."""
    if not holds:
        raise StoreError(rule)


def typed_arrays(layout: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays of a layout by name; raise if one is missing or of another type."""
    found = {}
    for name, dtype in field_types(layout).items():
        require(name in arrays, f"array {name!r} is missing")
        check_type(name, arrays[name], dtype)
        found[name] = arrays[name]
    return found


def check_type(name: str, array: np.ndarray, dtype: str) -> None:
    """Raise unless an array is of a type and has one dimension."""
    require(
        array.dtype == dtype and array.ndim == 1,
        f"array {name!r} must be a line of {dtype}, got {array.dtype} of shape {array.shape}",
    )


def check_lengths(layout: Any, length: int, *names: str) -> None:
    """Raise unless these arrays of a layout are so long."""
    for name in names:
        found = len(getattr(layout, name))
        require(found == length, f"array {name!r} must have {length:,} elements, got {found:,}")


def check_within(name: str, values: np.ndarray, low: int, stop: int) -> None:
    """Raise unless all values are at least `low` and less than `stop`."""
    if not len(values):
        return
    least, greatest = int(values.min()), int(values.max())
    if least < low or greatest >= stop:
        found = least if least < low else greatest
        raise StoreError(f"{name!r} must be at least {low:,} and less than {stop:,}, got {found:,}")


def check_numbers(name: str, numbers: np.ndarray, size: int, proven: bool = False) -> None:
    """Raise unless all are numbers of `size` conjunctions: c, or ~c where it is not `proven`."""
    check_within(name, numbers, 0 if proven else -size, size)


def check_offsets(name: str, offsets: np.ndarray, count: int, end: int) -> None:
    """Raise unless `count` ranges, one after the other, begin at 0 and end at `end`."""
    require(
        count >= 0
        and len(offsets) == count + 1
        and offsets[0] == 0
        and offsets[-1] == end
        and bool((offsets[1:] >= offsets[:-1]).all()),
        f"{name!r} must be {count + 1:,} numbers that ascend from 0 to {end:,}",
    )
