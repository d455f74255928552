"""Blocks of eight entries, side by side in lanes, and spans that find blocks by code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.keyed.entries import Entries, OtherPredicates
from tocsin.index.keyed.lanes import HEAD, LANES, ROW
from tocsin.index.keyed.layout import ABOVE_ALL
from tocsin.index.posting_lists import check_entries
from tocsin.jit import Int32Out, Int64s, UInt8s, UInt16Out, freeze_fields, kernel

_SPANS = 4  # at most, per block of a run: 32 bytes besides the 80 of a head; chosen


class Blocks(NamedTuple):
    """b blocks of entries in r runs; a block has entries of one run. A key set is a run here."""

    lane: np.ndarray  # [e] the lane of each entry, counted over all blocks
    start: np.ndarray  # [b] the first entry of each block
    block_offsets: np.ndarray  # [r + 1] blocks of a run


class SpanTable(NamedTuple):
    """Where the spans of each run are; see `Layout`."""

    start: Int64s  # [r]
    shift: UInt8s  # [r]
    size: Int64s  # [r] how many spans there are


def cut_into_blocks(starts: np.ndarray) -> Blocks:
    """Return the lane of each entry; `starts` are the first entries of runs, and the end of all."""
    sizes = np.diff(starts)
    block_offsets = np.concatenate([[0], np.cumsum(-(-sizes // LANES))])
    moved = LANES * block_offsets[:-1] - starts[:-1]
    lane = np.arange(starts[-1]) + np.repeat(moved, sizes)
    start = np.flatnonzero(np.diff(lane // LANES, prepend=-1))
    return Blocks(lane=lane, start=start, block_offsets=block_offsets)


def greatest(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the greatest value of each slice of entries, given where slices start."""
    return np.maximum.reduceat(values, starts) if len(starts) else values[:0]


def fill_blocks(
    entries: Entries, others: OtherPredicates, blocks: Blocks
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the heads of blocks, where their rows start, and the rows.

    A block has as many rows as its longest entry needs. The lanes of shorter entries are filled up
    with predicates that every event satisfies. A lane without an entry has a key that no event
    satisfies.
    """
    in_rows = np.maximum(np.diff(others.offsets) - 1, 0)  # key and second are in the head
    longest = greatest(in_rows[entries.conjunction], blocks.start)
    row_offsets = np.concatenate([[0], ROW * np.cumsum(longest)])
    check_entries(int(max(row_offsets[-1], HEAD * len(blocks.start))))
    heads: np.ndarray = np.zeros((len(blocks.start), HEAD // LANES, LANES), np.uint16)
    heads[:, 0] = heads[:, -1] = ABOVE_ALL
    rows: np.ndarray = np.zeros((int(row_offsets[-1]) // ROW, ROW // LANES, LANES), np.uint16)
    rows[:, -1] = ABOVE_ALL
    write_lanes(entries, others, blocks.lane, row_offsets, heads.reshape(-1), rows.reshape(-1))
    return heads.reshape(-1), row_offsets, rows.reshape(-1)


@kernel
def write_lanes(
    entries: Entries,
    others: OtherPredicates,
    lane: Int64s,
    row_offsets: Int64s,
    heads: UInt16Out,
    rows: UInt16Out,
) -> None:
    """Write each entry's key and other predicates into its lane."""
    conjunction, low, high = entries.conjunction, entries.low, entries.high
    offsets, attribute = others.offsets, others.attribute
    other_low, other_high = others.low, others.high
    for i in range(conjunction.shape[0]):
        block, at = lane[i] // LANES, lane[i] % LANES
        heads[block * HEAD + at], heads[block * HEAD + LANES + at] = low[i], high[i]
        begin = offsets[conjunction[i]]
        for other in range(begin, offsets[conjunction[i] + 1]):
            if other == begin:
                place, into = block * HEAD + 2 * LANES + at, heads
            else:
                place, into = row_offsets[block] + (other - begin - 1) * ROW + at, rows
            into[place] = attribute[other]
            into[place + LANES], into[place + 2 * LANES] = other_low[other], other_high[other]


def find_spans(entries: Entries, blocks: Blocks, codes: np.ndarray) -> tuple[SpanTable, np.ndarray]:
    """Return where the spans of each run are, and the spans; `codes` is how many each run has.

    Only runs have spans; key sets, which follow them in `blocks`, have tables instead. A span is
    for one code, or for as many as are needed to have at most four spans per block.
    """
    most = _SPANS * np.diff(blocks.block_offsets[: len(codes) + 1])
    shift = np.zeros(len(codes), np.int64)
    for _ in range(16):
        shift += (codes - 1 >> shift) + 1 > most
    size = (codes - 1 >> shift) + 1
    table = freeze_fields(SpanTable, start=2 * (np.cumsum(size) - size), shift=shift, size=size)
    spans = np.empty(2 * int(size.sum()), np.int32)
    lowest, highest = -greatest(-entries.low, blocks.start), greatest(entries.high, blocks.start)
    write_spans(table, blocks.block_offsets, lowest, highest, spans)
    return table, spans


@kernel
def write_spans(
    table: SpanTable, block_offsets: Int64s, lowest: Int64s, highest: Int64s, spans: Int32Out
) -> None:
    """Write which blocks may contain each code of a run, from the extremes of the blocks."""
    start, shifts, size = table.start, table.shift, table.size
    for r in range(start.shape[0]):
        begin, end = block_offsets[r], block_offsets[r + 1]
        shift = np.int64(shifts[r])
        block = begin
        for i in range(size[r]):
            while block < end and highest[block] < i << shift:
                block += 1
            spans[start[r] + 2 * i] = block
        block = end
        for i in range(size[r] - 1, -1, -1):
            while block > begin and lowest[block - 1] >= (i + 1) << shift:
                block -= 1
            spans[start[r] + 2 * i + 1] = block
