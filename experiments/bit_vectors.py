"""Logarithmic construct intervals with a bit vector: LCI-BV and LCI-BV(DT).

The paper of virtual construct intervals names these two in its section 2.5 and leaves their
description to its reference [20], which we do not have. This is what the names suggest:

* BV: a bit for each construct tells whether it is *activated*, that is whether its list has an id.
  Only activated constructs have a pointer. Which one is its rank: the number of activated
  constructs before it, counted for each word of 64 bits, and then within the word. An event looks
  at bits, and does not touch the lists of constructs that are not activated.
* Without DT an event computes the numbers of the constructs that cover it, start by start. Those
  of one start are consecutive, so they are a few bits of one word or two.
* DT: the table of differences, which is the same for every value, is a mask here: a bit for each
  number from V_min on. It is laid over the bit vector a word at a time.

Constructs, their numbers and lists are those of the index as published, which also says which
entries are to be left out at a point that two pieces share. Storage is that of bits, ranks,
pointers (8 bytes) and ids (4 bytes), and of the table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.constructs.decomposition import count_too_short
from tocsin.index.constructs.intervals.published import PublishedLayout, begins
from tocsin.jit import Int32Out, Int32s, Int64Out, Int64s, UInt64s, freeze_fields, kernel, step
from tocsin.similarity.lanes import count_bits, lowest_bit

_ONE, _WORD = np.uint64(1), np.uint64(63)


class BitVector(NamedTuple):
    """R P constructs in w words, a of them activated."""

    bits: UInt64s  # [w + 1] the last is empty
    rank: Int32s  # [w + 1] activated constructs before a word
    start: Int64s  # [a + 1] where the list of an activated construct begins
    ids: Int32s  # entries as in `PublishedLayout`
    skip: Int64s  # [L] of the constructs d back, how many do not cover a gap; empty with a table
    mask: UInt64s  # the table: of the numbers from V_min on, which cover a point; or empty


class BitVectorSearch:
    """Activated constructs of LCI, and the whole numbers to search them with."""

    def __init__(self, g: PublishedLayout, size: int, points: np.ndarray, table: bool):
        """`g` is the index as published, over whole numbers, and `size` its number of rules."""
        self.size, self.events = size, len(points)
        self.longest, self.per_point = int(g.longest[0]), int(g.per_point[0])
        constructs = len(g.piece) - 1
        last = constructs // self.per_point - 1
        # The first and the last lattice point stand for all that lies beyond.
        self.points = np.clip(np.asarray(points, np.int64) - int(g.first[0]), 0, last)
        is_active = np.diff(g.piece) > 0
        bits = _pack(np.flatnonzero(is_active), constructs)
        counts = np.bitwise_count(bits)
        mask = _pack(g.on_point, int(g.on_point[-1]) + 1) if table else []
        self.vector = freeze_fields(
            BitVector,
            bits=bits,
            rank=np.cumsum(counts) - counts,
            start=np.append(g.piece[:-1][is_active], len(g.piece_id)),
            ids=g.piece_id,
            skip=[] if table else count_too_short(self.longest, self.per_point != self.longest),
            mask=mask,
        )
        self.nbytes = sum(array.nbytes for array in self.vector)

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        find = find_by_table if len(self.vector.mask) else find_by_numbers
        return find(
            self.vector, self.points, self.longest, self.per_point, self.size, first, stop,
            offsets, out,
        )  # fmt: skip


def _pack(numbers: np.ndarray, size: int) -> np.ndarray:
    """Return words of bits, of which these are set, and one more."""
    is_set = np.zeros((size // 64 + 2) * 64, np.uint8)
    is_set[numbers] = 1
    return np.packbits(is_set, bitorder="little").view(np.uint64)


@step
def read_bits(bits, at):
    """Return the 64 bits from a place on."""
    word, shift = at >> 6, np.uint64(at & 63)
    # Twice, since a shift by 64 is none.
    return (bits[word] >> shift) | ((bits[word + 1] << (_WORD - shift)) << _ONE)


@step
def copy_lists(bits, rank, start, ids, found, at, here, n, out):
    """Write the lists of activated constructs, the bits of `found`, numbered from `at` on.

    Of those from `here` on, which begin at the event, the first pieces alone. Return the number of
    ids.
    """
    while found != 0:
        number = at + lowest_bit(found)
        found &= found - _ONE
        word = number >> 6
        before = bits[word] & ((_ONE << np.uint64(number & 63)) - _ONE)
        place = rank[word] + count_bits(before)
        begin, end = np.uint64(start[place]), np.uint64(start[place + 1])
        if number >= here:
            for i in range(begin, end):
                if begins(ids[i]):
                    out[n] = ids[i] >> 1
                    n += _ONE
        else:
            for i in range(end - begin):
                out[n + i] = ids[begin + i] >> 1
            n += end - begin
    return n


@kernel
def find_by_table(
    g: BitVector,
    points: Int64s,
    longest: int,
    per_point: int,
    size: int,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write the rules of each lattice point: LCI-BV(DT)."""
    bits, rank, start, ids, mask = g.bits, g.rank, g.start, g.ids, g.mask
    room = out.shape[0] - size
    n = np.uint64(offsets[0])
    event = first
    while event < stop and np.int64(n) <= room:
        here = points[event] * per_point
        v_min = here - longest * per_point + per_point - 1
        for word in range(mask.shape[0]):
            wanted, at = mask[word], v_min + 64 * word
            if wanted == 0 or at <= -64:
                continue
            if at < 0:  # constructs that would begin before a_0
                wanted >>= np.uint64(-at)
                at = np.int64(0)
            found = wanted & read_bits(bits, at)
            n = copy_lists(bits, rank, start, ids, found, at, here, n, out)
        event += 1
        offsets[event - first] = n
    return event


@kernel
def find_by_numbers(
    g: BitVector,
    points: Int64s,
    longest: int,
    per_point: int,
    size: int,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write the rules of each lattice point: LCI-BV."""
    bits, rank, start, ids, skip = g.bits, g.rank, g.start, g.ids, g.skip
    room = out.shape[0] - size
    n = np.uint64(offsets[0])
    event = first
    while event < stop and np.int64(n) <= room:
        here = points[event] * per_point
        for back in range(min(longest, points[event]), -1, -1):
            # A construct from before covers the point if it covers the gap before the point.
            short = skip[back - 1] if back > 0 else np.int64(0)
            at = here - back * per_point + short
            wanted = (_ONE << np.uint64(per_point - short)) - _ONE
            found = wanted & read_bits(bits, at)
            n = copy_lists(bits, rank, start, ids, found, at, here, n, out)
        event += 1
        offsets[event - first] = n
    return event
