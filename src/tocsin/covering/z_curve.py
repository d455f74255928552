"""Dominance search along a Z-curve (paper, IV-D; Morton 1966).

Each dimension is cut into 2^bits cells of about as many points, and the bits of a point's cells are
interleaved, the most significant first: the Morton key. Points are kept in the order of their keys.
All points of a cell of any size are then adjacent: the cell's key is a prefix of theirs. The paper
writes such a prefix with a leading 1, so that "00" (100) and "0000" (10000) differ.

What dominates a point is in the cells from its own one up to the last, in each dimension. The
search goes down from the last key, where the largest cells are that are inside of the query. A
point whose cells are all high enough is compared exactly. From any other one the search jumps to
the largest key below that is inside (Tropf and Herzog 1981, LITMAX), by binary search. So it never
enumerates the 2^d cells of a level, of which there are 65,536 in 16 dimensions.

For a query that extends to the last cell in each dimension, the jump is simple. Go through the bits
of the key z from the top, and stop where z has a 0 and the query's corner a 1, in a dimension in
which z has not been above the corner before. Of the places before where z has a 1 and the corner a
0, or where z is above the corner already, take the last: the target is z up to there, then a 0, and
ones.

Cells are those of the points when the order was last built, which is after each doubling. Only
speed depends on them.
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
    SortedRows,
    find_chunk,
    find_in_chunk,
    insert_row,
    remove_row,
)
from tocsin.jit import Int64Out, Int64s, UInt64Out, kernel, step


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


def words_of(d: int, bits: int) -> int:
    """Return how many words a key has."""
    return (d * bits + 63) // 64


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
    rows: SortedRows, ends: Int64s, bits: int, point: Int64s, box: int, key: UInt64Out
) -> None:
    """Insert a point. There must be room; `key` is memory."""
    write_key(ends, bits, point, key)
    insert_row(rows, key, point, box)


@kernel
def remove(
    rows: SortedRows, ends: Int64s, bits: int, point: Int64s, box: int, key: UInt64Out
) -> bool:
    """Remove a point; return whether it was there."""
    write_key(ends, bits, point, key)
    return remove_row(rows, key, box, point.shape[0])


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
    for place in range(places):
        j = place % d
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
    return 0


@kernel
def find_dominating(
    rows: SortedRows,
    ends: Int64s,
    bits: int,
    point: Int64s,
    but: int,
    found: Int64Out,
    memory: UInt64Out,
    is_above: Int64Out,
) -> int:
    """Write boxes whose points dominate a point, up to the room in `found`; return how many.

    If `but` is a box at this point, neither it nor newer ones at the same point are found. `memory`
    has room for two keys.
    """
    d, k, n = point.shape[0], found.shape[0], 0
    w = memory.shape[0] // 2
    corner, key = memory[:w], memory[w:]
    write_key(ends, bits, point, corner)
    place = rows.head[CHUNKS] - 1
    at = np.int64(rows.count[rows.order[place]]) - 1 if place >= 0 else np.int64(-1)
    while place >= 0 and n < k:
        row = rows.order[place] * CHUNK + at
        for j in range(w):
            key[j] = rows.key[row * w + j]
        rows.head[VISITED] += 1
        jump = jump_below(key, corner, d, d * bits, is_above)
        if jump < 0:
            break
        if jump > 0:
            place = find_chunk(rows, key, 1)
            at = find_in_chunk(rows, rows.order[place], key, 1) - 1
            if at < 0:
                break
            continue
        rows.head[COMPARED] += 1
        j, is_equal = 0, True
        while j < d and rows.point[row * d + j] >= point[j]:
            is_equal = is_equal and rows.point[row * d + j] == point[j]
            j += 1
        if j == d:
            found[n] = rows.box[row]
            n += 1
        at -= 1
        if at < 0:
            place -= 1
            at = np.int64(rows.count[rows.order[place]]) - 1 if place >= 0 else np.int64(-1)
    return n
