"""Points in the order of keys, which come and go: chunks of rows, each sorted, in a sorted list.

This is what the naive search and the Z-curve have in common. (The paper keeps the order in an AVL
tree. Chunks do the same with rows that are adjacent in memory, as in sortedcontainers, which a
kernel cannot use.) A key has w words, the most significant first. Points are stored by dimension
within a chunk. To insert or remove a row moves half of a chunk, on average, and the list of chunks
if one is split or becomes empty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tocsin.jit import Int32Out, Int64Out, UInt64Out, step

CHUNK = 128  # rows
# Places in `head`.
CHUNKS, _FREE, VISITED, COMPARED = range(4)


class SortedRows(NamedTuple):
    """Rows of a key of w words, a point of d keys and an entry. All arrays are written to."""

    head: Int64Out  # [4] the number of chunks in use, the first free chunk, and counters
    order: Int32Out  # [chunks] those in use, by their keys
    length: Int32Out  # [chunks] rows; of a free chunk, the next one
    key: UInt64Out  # [chunks * 128 * w] of a row and word
    point: Int64Out  # [chunks * d * 128] of a chunk, dimension and row
    entry: Int64Out  # [chunks * 128]


def make_rows(w: int, d: int, chunks: int = 2) -> SortedRows:
    """Return no rows."""
    rows = SortedRows(
        np.zeros(4, np.int64), np.zeros(chunks, np.int32), np.zeros(chunks, np.int32),
        np.zeros(chunks * CHUNK * w, np.uint64), np.zeros(chunks * CHUNK * d, np.int64),
        np.zeros(chunks * CHUNK, np.int64),
    )  # fmt: skip
    rows.length[:] = np.arange(1, chunks + 1)
    rows.length[-1] = -1
    return rows


def grow(rows: SortedRows, w: int, d: int) -> SortedRows:
    """Return a copy with twice the room."""
    chunks = len(rows.length)
    larger = make_rows(w, d, 2 * chunks)
    old: Any
    new: Any
    for old, new in zip(rows, larger, strict=True):
        new[: len(old)] = old
    larger.length[-1] = rows.head[_FREE]
    larger.head[_FREE] = chunks
    return larger


class RowSearch:
    """A search over sorted rows; its counters are among the rows."""

    _rows: SortedRows

    @property
    def visited(self) -> int:
        """The number of keys, or chunks of keys, that searches have visited."""
        return int(self._rows.head[VISITED])

    @property
    def compared(self) -> int:
        """The number of points that searches have compared."""
        return int(self._rows.head[COMPARED])


@step
def has_room(rows):
    """Return whether a row can be inserted."""
    return rows.head[_FREE] >= 0


@step
def compare(rows, row, key):
    """Return whether a row's key is below (-1), equal to (0) or above (1) a key."""
    w = key.shape[0]
    for j in range(w):
        own = rows.key[row * w + j]
        if own != key[j]:
            return -1 if own < key[j] else 1
    return 0


@step
def find_chunk(rows, key, is_after):
    """Return the place in the order of the last chunk whose first key is below a key, or 0.

    With `is_after`, an equal one counts, too.
    """
    low, high = 0, rows.head[CHUNKS]
    while high - low > 1:
        middle = (low + high) // 2
        if compare(rows, rows.order[middle] * CHUNK, key) < is_after:
            low = middle
        else:
            high = middle
    return low


@step
def find_in_chunk(rows, chunk, key, is_after):
    """Return how many rows of a chunk are below a key; with `is_after`, or equal to it."""
    low, high = np.int64(0), np.int64(rows.length[chunk])
    while low < high:
        middle = (low + high) // 2
        if compare(rows, chunk * CHUNK + middle, key) < is_after:
            low = middle + 1
        else:
            high = middle
    return low


@step
def copy_rows(rows, source, first, target, to, n, w, d):
    """Copy n rows of a chunk from `first` to a chunk from `to`; they may overlap."""
    for i in range(n):
        k = i if to < first else n - 1 - i
        for j in range(w):
            rows.key[(target * CHUNK + to + k) * w + j] = rows.key[
                (source * CHUNK + first + k) * w + j
            ]
        rows.entry[target * CHUNK + to + k] = rows.entry[source * CHUNK + first + k]
    for j in range(d):
        at, into = (source * d + j) * CHUNK + first, (target * d + j) * CHUNK + to
        for i in range(n):
            k = i if to < first else n - 1 - i
            rows.point[into + k] = rows.point[at + k]


@step
def take_chunk(rows, place):
    """Put a free chunk at a place in the order; return it."""
    chunk = np.int64(rows.head[_FREE])
    rows.head[_FREE] = rows.length[chunk]
    n = rows.head[CHUNKS]
    for k in range(n, place, -1):
        rows.order[k] = rows.order[k - 1]
    rows.order[place], rows.length[chunk] = chunk, 0
    rows.head[CHUNKS] = n + 1
    return chunk


@step
def insert_row(rows, key, point, entry):
    """Insert a row, after those with an equal key. There must be room."""
    w, d = key.shape[0], point.shape[0]
    if rows.head[CHUNKS] == 0:
        take_chunk(rows, 0)
    place = find_chunk(rows, key, 1)
    chunk = np.int64(rows.order[place])
    if rows.length[chunk] == CHUNK:
        half = CHUNK // 2
        other = take_chunk(rows, place + 1)
        copy_rows(rows, chunk, half, other, 0, CHUNK - half, w, d)
        rows.length[chunk], rows.length[other] = half, CHUNK - half
        if compare(rows, other * CHUNK, key) <= 0:
            chunk = other
    at = find_in_chunk(rows, chunk, key, 1)
    copy_rows(rows, chunk, at, chunk, at + 1, rows.length[chunk] - at, w, d)
    rows.length[chunk] += 1
    row = chunk * CHUNK + at
    for j in range(w):
        rows.key[row * w + j] = key[j]
    for j in range(d):
        rows.point[(chunk * d + j) * CHUNK + at] = point[j]
    rows.entry[row] = entry


@step
def remove_row(rows, key, entry, d):
    """Remove the row of an entry, whose key this is; return whether it was there."""
    w = key.shape[0]
    place = find_chunk(rows, key, 0)
    at = find_in_chunk(rows, rows.order[place], key, 0)
    while place < rows.head[CHUNKS]:
        chunk = np.int64(rows.order[place])
        if at == rows.length[chunk]:
            place, at = place + 1, 0
            continue
        row = chunk * CHUNK + at
        if compare(rows, row, key) != 0:
            return False
        if rows.entry[row] == entry:
            copy_rows(rows, chunk, at + 1, chunk, at, rows.length[chunk] - at - 1, w, d)
            rows.length[chunk] -= 1
            if rows.length[chunk] == 0:
                n = rows.head[CHUNKS] - 1
                for k in range(place, n):
                    rows.order[k] = rows.order[k + 1]
                rows.head[CHUNKS] = n
                rows.length[chunk] = rows.head[_FREE]
                rows.head[_FREE] = chunk
            return True
        at += 1
    return False
