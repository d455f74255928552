"""Dominance search along a Z-curve (paper, IV-D; Morton 1966).

Each dimension is cut into 2^bits cells of about as many points, and the bits of a point's cells are
interleaved, the most significant first: the Morton key. Points are kept in the order of their keys.
All points of a cell of any size are then adjacent: the cell's key is a prefix of theirs. The paper
writes such a prefix with a leading 1, so that "00" (100) and "0000" (10000) differ; see `cell_key`.
Keys here are all of one resolution and need none. (The paper bisects a cube, so that cells of a
resolution have the same size. That needs a scale, which keys of floats do not have.)

What dominates a point is in the cells from its own one up to the last, in each dimension. The
search goes down from the last key, where the largest cells are that are inside the query. A
point whose cells are all high enough is compared exactly. From any other one the search jumps to
the largest key below that is inside (Tropf and Herzog 1981, LITMAX), by binary search. So it never
enumerates the 2^d cells of a level, of which there are 65,536 in 16 dimensions. (The paper looks at
large cells first, with heuristics that it omits.)

For a query that extends to the last cell in each dimension, the jump is simple. Go through the bits
of the key z from the top, and stop where z has a 0 and the query's corner a 1, in a dimension in
which z has not been above the corner before. Of the places before where z has a 1 and the corner a
0, or where z is above the corner already, take the last: the target is z up to there, then a 0, and
ones.

Cells are those of the points when the order was last built, which is after each doubling. Only
speed depends on them. A key has d * bits bits, in words of 64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tocsin.covering.sorted_rows import (
    CHUNK,
    CHUNKS,
    COMPARED,
    VISITED,
    RowSearch,
    SortedRows,
    find_chunk,
    find_in_chunk,
    grow,
    has_room,
    insert_row,
    make_rows,
    remove_row,
)
from tocsin.jit import Int64Out, Int64s, UInt64Out, kernel, step

BITS = 4  # of a cell in each dimension, chosen; docs/experiments.md has others
_FIRST = 256  # points before cells are chosen


class ZCurve(RowSearch):
    """Points that can be inserted and removed, numbered by the caller: their *entries*."""

    def __init__(self, d: int, bits: int = BITS):
        self.d, self.bits, self._size, self._chosen = d, bits, 0, 0
        self._words = (d * bits + 63) // 64
        self._key, self._memory = np.empty(self._words, np.uint64), np.empty(d, np.int64)
        self._corner = np.empty(self._words, np.uint64)
        self._rows = make_rows(self._words, d)
        self._ends = np.zeros(d * (2**bits - 1), np.int64)

    def insert(self, point: np.ndarray, entry: int) -> None:
        """Insert a point that differs from all others."""
        while not insert(self._rows, self._ends, self.bits, point, entry, self._key):
            self._rows = grow(self._rows, self._words, self.d)
        self._size += 1
        if self._size >= max(_FIRST, 2 * self._chosen):
            self._choose_cells()

    def remove(self, point: np.ndarray, entry: int) -> None:
        """Remove a point."""
        remove(self._rows, self._ends, self.bits, point, entry, self._key)
        self._size -= 1

    def find_dominating(self, point: np.ndarray, but: int, found: np.ndarray) -> int:
        """Write entries whose points dominate a point, up to the room; return how many."""
        return self._find(0, point, point, but, found)

    def find_dominated(self, point: np.ndarray, but: int, found: np.ndarray) -> int:
        """Write entries whose points are dominated by a point, up to the room; return how many."""
        return self._find(-1, point, ~point, but, found)

    def _find(
        self, flip: int, own: np.ndarray, point: np.ndarray, but: int, found: np.ndarray
    ) -> int:
        return int(
            find(
                self._rows,
                self._ends,
                self.bits,
                flip,
                own,
                point,
                but,
                found,
                self._key,
                self._corner,
                self._memory,
            )
        )

    def _choose_cells(self) -> None:
        """Choose cells by the points there are, and order these anew."""
        points, entries = np.empty((self._size, self.d), np.int64), np.empty(self._size, np.int64)
        collect(self._rows, points.reshape(-1), entries)
        self._ends, self._chosen = choose_cells(points, self.bits), self._size
        old, self._rows = self._rows, make_rows(self._words, self.d, len(self._rows.length))
        self._rows.head[[VISITED, COMPARED]] = old.head[[VISITED, COMPARED]]
        self._size = 0
        for point, entry in zip(points, entries.tolist(), strict=True):
            self.insert(point, entry)


def cell_key(cell: Sequence[int], bits: int) -> int:
    """Return the key of a cell at a resolution of 2^bits in each dimension, with a leading 1.

    >>> [bin(cell_key(cell, bits))[2:] for cell, bits in (((3, 5), 3), ((0, 0), 1), ((0, 0), 2))]
    ['1011011', '100', '10000']
    """
    key = 1
    for bit in range(bits - 1, -1, -1):
        for coordinate in cell:
            key = key << 1 | coordinate >> bit & 1
    return key


def choose_cells(points: np.ndarray, bits: int) -> np.ndarray:
    """Return where cells end, 2^bits - 1 ascending keys for each dimension of points [n, d]."""
    shares = np.arange(1, 2**bits) / 2**bits
    at = (shares * len(points)).astype(np.int64)
    ends: Any = np.sort(points, axis=0)[at].T
    return np.ascontiguousarray(ends).reshape(-1)


@step
def write_key(ends, bits, point, key):
    """Write the Morton key of a point."""
    d, cells = point.shape[0], (1 << bits) - 1
    key[:] = np.uint64(0)
    for j in range(d):
        low, high = 0, cells
        while low < high:  # the number of ends that are not above
            middle = (low + high) // 2
            if ends[j * cells + middle] <= point[j]:
                low = middle + 1
            else:
                high = middle
        for bit in range(bits):
            place = (bits - 1 - bit) * d + j
            value = np.uint64(low >> bit & 1)
            key[place >> 6] |= value << np.uint64(63 - (place & 63))


@kernel
def insert(
    rows: SortedRows, ends: Int64s, bits: int, point: Int64s, entry: int, key: UInt64Out
) -> bool:
    """Insert a point, or return False if there is no room; `key` is memory."""
    if not has_room(rows):
        return False
    write_key(ends, bits, point, key)
    insert_row(rows, key, point, entry)
    return True


@kernel
def remove(
    rows: SortedRows, ends: Int64s, bits: int, point: Int64s, entry: int, key: UInt64Out
) -> bool:
    """Remove a point; return whether it was there."""
    write_key(ends, bits, point, key)
    return remove_row(rows, key, entry, point.shape[0])


@kernel
def collect(rows: SortedRows, points: Int64Out, entries: Int64Out) -> None:
    """Write all points and their entries."""
    d, n = rows.point.shape[0] // rows.entry.shape[0], 0
    for place in range(rows.head[CHUNKS]):
        chunk = np.int64(rows.order[place])
        for row in range(rows.length[chunk]):
            for j in range(d):
                points[n * d + j] = rows.point[(chunk * d + j) * CHUNK + row]
            entries[n] = rows.entry[chunk * CHUNK + row]
            n += 1


@step
def bit_of(words, place):
    """Return a bit of a key; the most significant has place 0."""
    return words[place >> 6] >> np.uint64(63 - (place & 63)) & np.uint64(1)


@step
def jump_below(key, corner, d, places, is_above):
    """Replace a key by the largest one below that is inside; return 1.

    If it is inside itself, return 0; if nothing below is, return -1.
    """
    last = -1
    is_above[:] = 0
    j = 0
    for place in range(places):
        mine, least = bit_of(key, place), bit_of(corner, place)
        if is_above[j]:
            least = np.uint64(0)
        if mine > least:
            last = place
            is_above[j] = 1
        elif mine < least:
            if last < 0:
                return -1
            for word in range(key.shape[0]):
                first = 64 * word
                if first > last:
                    key[word] = ~np.uint64(0)
                elif first + 63 >= last:
                    ones = ~np.uint64(0) >> np.uint64(last - first)
                    key[word] = (key[word] | ones) & ~(
                        np.uint64(1) << np.uint64(63 - (last - first))
                    )
            return 1
        j = j + 1 if j + 1 < d else 0
    return 0


@kernel
def find(
    rows: SortedRows,
    ends: Int64s,
    bits: int,
    flip: int,
    own: Int64s,
    point: Int64s,
    but: int,
    found: Int64Out,
    key: UInt64Out,
    corner: UInt64Out,
    is_above: Int64Out,
) -> int:
    """Write entries whose points dominate a point, other than `but`, up to the room.

    Return how many there are. With `flip` = -1, `point` is the complement of `own`, and the entries
    are those that it dominates. The keys are then complements, too, and the search goes up. `key`,
    `corner` and `is_above` are memory.
    """
    d, k, n, w = point.shape[0], found.shape[0], 0, key.shape[0]
    flip_key = np.uint64(flip)
    write_key(ends, bits, own, corner)
    corner ^= flip_key
    chunks = rows.head[CHUNKS]
    place = np.int64(0) if flip else chunks - 1
    at = np.int64(rows.length[rows.order[place]]) - 1 if chunks > 0 and not flip else np.int64(0)
    while 0 <= place < chunks and n < k:
        chunk = np.int64(rows.order[place])
        row = chunk * CHUNK + at
        for j in range(w):
            key[j] = rows.key[row * w + j] ^ flip_key
        rows.head[VISITED] += 1
        jump = jump_below(key, corner, d, d * bits, is_above)
        if jump < 0:
            break
        if jump > 0:
            key ^= flip_key
            place = find_chunk(rows, key, 0 if flip else 1)
            chunk = np.int64(rows.order[place])
            at = find_in_chunk(rows, chunk, key, 0 if flip else 1)
            if not flip:
                at -= 1
        else:
            rows.head[COMPARED] += 1
            j = 0
            while j < d and rows.point[(chunk * d + j) * CHUNK + at] ^ flip >= point[j]:
                j += 1
            if j == d and rows.entry[row] != but:
                found[n] = rows.entry[row]
                n += 1
            at += 1 if flip else -1
        if at < 0:
            place -= 1
            if place >= 0:
                at = np.int64(rows.length[rows.order[place]]) - 1
        elif at >= rows.length[chunk]:
            place, at = place + 1, np.int64(0)
    return n
