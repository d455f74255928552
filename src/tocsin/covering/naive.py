"""Dominance search without an index: widest boxes first (paper, V-C, *naive*).

Points are in the order of their *size*, the sum of all coordinates as numbers. A point that
dominates another has at least its size. So a search goes down from the largest point and stops at
the size of its own. That compares half of all points if it finds nothing, a chunk of 128 at a time
and dimension by dimension with vector instructions, until none of a chunk is left.
"""

from __future__ import annotations

import numpy as np

from tocsin.covering.sorted_rows import (
    CHUNK,
    CHUNKS,
    COMPARED,
    VISITED,
    RowSearch,
    SortedRows,
    grow,
    has_room,
    insert_row,
    make_rows,
    remove_row,
)
from tocsin.jit import Int64Out, Int64s, UInt8Out, UInt64Out, kernel, step
from tocsin.model.encoding import number_key
from tocsin.model.keys import FAR, to_number

_FAR, _NEAR = number_key(FAR), number_key(-FAR)


class Naive(RowSearch):
    """Points that can be inserted and removed, numbered by the caller: their *entries*."""

    def __init__(self, d: int):
        self.d, self._rows = d, make_rows(1, d)
        self._key, self._inside = np.empty(1, np.uint64), np.empty(CHUNK, np.uint8)

    def insert(self, point: np.ndarray, entry: int) -> None:
        """Insert a point that differs from all others."""
        while not insert(self._rows, point, entry, self._key):
            self._rows = grow(self._rows, 1, self.d)

    def remove(self, point: np.ndarray, entry: int) -> None:
        """Remove a point."""
        remove(self._rows, point, entry, self._key)

    def find_dominating(self, point: np.ndarray, but: int, found: np.ndarray) -> int:
        """Write entries whose points dominate a point, up to the room; return how many."""
        return int(find(self._rows, 0, point, point, but, found, self._key, self._inside))

    def find_dominated(self, point: np.ndarray, but: int, found: np.ndarray) -> int:
        """Write entries whose points are dominated by a point, up to the room; return how many."""
        return int(find(self._rows, -1, point, ~point, but, found, self._key, self._inside))


@step
def write_size(point, key):
    """Write the size of a point, as a key of one word. Rounding keeps the order of sums."""
    size = 0.0
    for j in range(point.shape[0]):
        is_low = j % 2 == 0
        own = ~point[j] if is_low else point[j]
        number = to_number(min(max(own, np.int64(_NEAR)), np.int64(_FAR)), 1)
        size += -number if is_low else number
    bits = np.float64(size).view(np.int64)
    # As unsigned words: the negative ones, in reverse, and then the others.
    key[0] = np.uint64(~bits) if bits < 0 else np.uint64(bits) | np.uint64(1) << np.uint64(63)


@kernel
def insert(rows: SortedRows, point: Int64s, entry: int, key: UInt64Out) -> bool:
    """Insert a point, or return False if there is no room; `key` is memory."""
    if not has_room(rows):
        return False
    write_size(point, key)
    insert_row(rows, key, point, entry)
    return True


@kernel
def remove(rows: SortedRows, point: Int64s, entry: int, key: UInt64Out) -> bool:
    """Remove a point; return whether it was there."""
    write_size(point, key)
    return remove_row(rows, key, entry, point.shape[0])


@kernel
def find(
    rows: SortedRows,
    flip: int,
    own: Int64s,
    point: Int64s,
    but: int,
    found: Int64Out,
    key: UInt64Out,
    inside: UInt8Out,
) -> int:
    """Write entries whose points dominate a point, other than `but`, up to the room.

    Return how many there are. With `flip` = -1, `point` is the complement of `own`, and the entries
    are those that it dominates, smallest first.
    """
    n, k, d, chunks = 0, found.shape[0], point.shape[0], rows.head[CHUNKS]
    write_size(own, key)
    for i in range(chunks):
        chunk = np.int64(rows.order[i if flip else chunks - 1 - i])
        count = np.int64(rows.length[chunk])
        if flip:
            if rows.key[chunk * CHUNK] > key[0]:
                break
        elif rows.key[chunk * CHUNK + count - 1] < key[0]:
            break
        rows.head[VISITED] += 1
        rows.head[COMPARED] += count
        inside[:count] = 1
        for j in range(d):
            least, at, any_inside = point[j], (chunk * d + j) * CHUNK, np.uint8(0)
            for row in range(count):
                inside[row] &= rows.point[at + row] ^ flip >= least
                any_inside |= inside[row]
            if not any_inside:
                break
        if not any_inside:
            continue
        for place in range(count):
            at = place if flip else count - 1 - place
            if inside[at] and rows.entry[chunk * CHUNK + at] != but:
                found[n] = rows.entry[chunk * CHUNK + at]
                n += 1
                if n == k:
                    return n
    return n
