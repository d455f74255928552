"""Lists that lie one after the other in one array: entries put into them, entries taken out.

What lies between two changes is copied as one run. So a batch costs what copying the arrays
costs, about 5 GB a second, and some nanoseconds for each entry that is changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.errors import RuleError
from tocsin.jit import Int32s, Int64Out, Int64s, UInt8Out, UInt8s, kernel, step

_MOST = 2**31 - 1  # entries that offsets of 32 bits can count


def check_entries(count: int) -> None:
    """Raise if lists have more entries than their offsets can count."""
    if count > _MOST:
        raise RuleError(
            f"lists of more than {_MOST:,} entries; the rules are too many, or overlap too much, "
            "for one index: split them over several Rules"
        )


def put_in(array: np.ndarray, places: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Return an array with entries before the places named, which ascend."""
    return _spliced(array, places, entries, len(array) + len(entries))


def left_out(array: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return an array without the entries at the places named, which ascend."""
    return _spliced(array, places, array[:0], len(array) - len(places))


def _spliced(array: np.ndarray, places: np.ndarray, entries: np.ndarray, size: int) -> np.ndarray:
    made: np.ndarray[Any, Any] = np.empty(size, array.dtype)
    entries = np.ascontiguousarray(entries, array.dtype)
    # As bytes: one kernel for ids, keys and words.
    parts = (a.view(np.uint8) for a in (array, entries, made))
    splice(array.itemsize, np.asarray(places, np.int64), *parts)
    return made


def places_of(ids: np.ndarray, size: int, numbers: np.ndarray) -> np.ndarray:
    """Return where lists have these conjunctions, of `size`, as c or as ~c."""
    gone = np.zeros(size, np.uint8)
    gone[numbers] = 1
    places = np.empty(len(ids), np.int64)  # what is not written to costs nothing
    return places[: find(ids, gone, places)]


def less_left_out(offsets: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return ascending offsets as they are without the entries at the places named."""
    made = np.array(offsets, np.int64)
    lessen(places, made)
    return made


@kernel
def find(ids: Int32s, gone: UInt8s, places: Int64Out) -> int:
    """Write the places of ids, c or ~c, whose conjunction is gone; return how many."""
    n = 0
    for i in range(ids.shape[0]):
        if gone[np.uint64(max(ids[i], ~ids[i]))] != 0:
            places[n] = i
            n += 1
    return n


@kernel
def lessen(places: Int64s, offsets: Int64Out) -> None:
    """Take from each of the ascending offsets the number of places before it."""
    before = 0
    for i in range(offsets.shape[0]):
        while before < places.shape[0] and places[before] < offsets[i]:
            before += 1
        offsets[i] -= before


@step
def copied(source, begin, end, out, at):
    """Copy from `begin` to `end`; return where the copy ends."""
    size = np.uint64(max(end - begin, 0))
    from_, to = np.uint64(begin), np.uint64(at)
    for i in range(size):
        out[to + i] = source[from_ + i]
    return at + np.int64(size)


@kernel
def splice(width: int, places: Int64s, old: UInt8s, new: UInt8s, out: UInt8Out) -> None:
    """Copy entries of `width` bytes; at each place put the next of `new`, or leave one out."""
    left_out = 0 if new.shape[0] > 0 else width
    done = at = np.int64(0)
    for i in range(places.shape[0]):
        at = copied(old, done, places[i] * width, out, at)
        done = places[i] * width + left_out
        if left_out == 0:
            at = copied(new, i * width, (i + 1) * width, out, at)
    copied(old, done, np.int64(old.shape[0]), out, at)
