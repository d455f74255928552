"""Posting lists, one after the other in one array: entries inserted and deleted.

What lies between two changes is copied as one run. So a batch costs what copying the arrays
costs, about 5 GB a second, and some nanoseconds for each entry that is changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.errors import RuleError
from tocsin.jit import Int32s, Int64Out, Int64s, UInt8Out, UInt8s, kernel, step

MAX_ENTRIES = 2**31 - 1  # what offsets of 32 bits can count


def check_entries(count: int) -> None:
    """Raise if lists have more entries than their offsets can count."""
    if count > MAX_ENTRIES:
        raise RuleError(
            f"lists of more than {MAX_ENTRIES:,} entries; the rules are too many, or overlap too "
            "much, for one index: split them over several Rules"
        )


# Own kernels: `np.insert` and `np.delete`, which go through a mask as long as the array, take up to
# four times as long. Measured with lists of 3 million entries: 10 more take 0.5 ms here and 1.9 ms
# there, a million more 15 ms and 22 ms.


def insert_entries(array: np.ndarray, positions: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Return an array with entries inserted before these positions, which ascend."""
    return _copy_changed(array, positions, entries, len(array) + len(entries))


def delete_entries(array: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return an array without the entries at these positions, which ascend."""
    return _copy_changed(array, positions, array[:0], len(array) - len(positions))


def _copy_changed(
    array: np.ndarray, positions: np.ndarray, entries: np.ndarray, size: int
) -> np.ndarray:
    changed: np.ndarray[Any, Any] = np.empty(size, array.dtype)
    entries = np.ascontiguousarray(entries, array.dtype)
    # As bytes: one kernel for ids, keys and words.
    old, new, out = (a.view(np.uint8) for a in (array, entries, changed))
    copy_changed(array.itemsize, np.asarray(positions, np.int64), old, new, out)
    return changed


@kernel
def copy_changed(width: int, positions: Int64s, old: UInt8s, new: UInt8s, out: UInt8Out) -> None:
    """Copy entries of `width` bytes; at each position insert the next of `new`, or delete one."""
    deleted = 0 if new.shape[0] > 0 else width
    done = at = np.int64(0)
    for i in range(positions.shape[0]):
        at = copy_run(old, done, positions[i] * width, out, at)
        done = positions[i] * width + deleted
        if deleted == 0:
            at = copy_run(new, i * width, (i + 1) * width, out, at)
    copy_run(old, done, np.int64(old.shape[0]), out, at)


@step
def copy_run(source, begin, end, out, at):
    """Copy from `begin` to `end`; return where the copy ends."""
    size = np.uint64(max(end - begin, 0))
    from_, to = np.uint64(begin), np.uint64(at)
    for i in range(size):
        out[to + i] = source[from_ + i]
    return at + np.int64(size)


def find_entries(ids: np.ndarray, size: int, numbers: np.ndarray) -> np.ndarray:
    """Return the positions at which lists have these conjunctions, of `size`, as c or as ~c."""
    wanted = np.zeros(size, np.uint8)
    wanted[numbers] = 1
    positions = np.empty(len(ids), np.int64)  # what is not written to costs nothing
    return positions[: find_wanted(ids, wanted, positions)]


@kernel
def find_wanted(ids: Int32s, wanted: UInt8s, positions: Int64Out) -> int:
    """Write the positions of ids, c or ~c, whose conjunction is wanted; return how many."""
    n = 0
    for i in range(ids.shape[0]):
        if wanted[np.uint64(max(ids[i], ~ids[i]))] != 0:
            positions[n] = i
            n += 1
    return n


def shift_offsets(offsets: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return ascending offsets after the entries at these positions are deleted."""
    shifted = np.array(offsets, np.int64)
    subtract_deleted(positions, shifted)
    return shifted


@kernel
def subtract_deleted(positions: Int64s, offsets: Int64Out) -> None:
    """Subtract from each of the ascending offsets the number of positions before it."""
    before = 0
    for i in range(offsets.shape[0]):
        while before < positions.shape[0] and positions[before] < offsets[i]:
            before += 1
        offsets[i] -= before
