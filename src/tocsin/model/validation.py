"""Checks of stored arrays, before kernels use them.

Kernels do not check arrays. An offset beyond the end, an unknown conjunction or a node that is its
own child makes them read other memory or loop for ever. Checksums do not help, because the author
of a store writes its checksums, too. So each layout has a method `validate` that checks what its
kernels rely on. The functions below raise a `StoreError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tocsin.errors import StoreError
from tocsin.jit import field_types


def require(holds: bool | np.bool_, message: str) -> None:
    """Raise unless `holds` is true; the message says what must hold."""
    if not holds:
        raise StoreError(message)


def typed_arrays(layout: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays of a layout by name; raise if one is missing or has another dtype."""
    fields = field_types(layout)
    for name, dtype in fields.items():
        require(name in arrays, f"array {name!r} is missing")
        check_dtype(name, arrays[name], dtype)
    return {name: arrays[name] for name in fields}


def check_dtype(name: str, array: np.ndarray, dtype: str) -> None:
    """Raise unless an array has this dtype and one dimension."""
    require(
        array.dtype == dtype and array.ndim == 1,
        f"array {name!r} must be one-dimensional {dtype}, got {array.dtype} of shape {array.shape}",
    )


def check_lengths(layout: Any, length: int, *names: str) -> None:
    """Raise unless these arrays of a layout have this length."""
    for name in names:
        size = len(getattr(layout, name))
        require(size == length, f"array {name!r} must have {length:,} elements, got {size:,}")


def check_within(name: str, values: np.ndarray, low: int, stop: int) -> None:
    """Raise unless all values are at least `low` and less than `stop`."""
    if not len(values):
        return
    least, greatest = int(values.min()), int(values.max())
    if least < low or greatest >= stop:
        bad = least if least < low else greatest
        raise StoreError(f"{name!r} must be at least {low:,} and less than {stop:,}, got {bad:,}")


def check_numbers(name: str, numbers: np.ndarray, size: int, proven: bool = False) -> None:
    """Raise unless all numbers are conjunctions below `size`: c, or also ~c if not `proven`."""
    check_within(name, numbers, 0 if proven else -size, size)


def check_offsets(name: str, offsets: np.ndarray, count: int, end: int) -> None:
    """Raise unless the offsets are those of `count` consecutive ranges from 0 to `end`."""
    require(
        count >= 0
        and len(offsets) == count + 1
        and offsets[0] == 0
        and offsets[-1] == end
        and bool((offsets[1:] >= offsets[:-1]).all()),
        f"{name!r} must be {count + 1:,} numbers that ascend from 0 to {end:,}",
    )
