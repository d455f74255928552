"""Matching: the constructs that cover an event's cell, then what begins or ends in that cell."""

from __future__ import annotations

import numpy as np

from tocsin.index.constructs.interval_lists import count_at_most, count_less
from tocsin.index.constructs.intervals.layout import Layout
from tocsin.index.constructs.lattice import find_cell
from tocsin.jit import Int32Out, Int64Out, Int64s, kernel, prefetch

# Events whose cells are computed and prefetched before the first of them is answered. Chosen: with
# four cache lines each these are 16 KiB a level.
_AHEAD = 64


@kernel
def propose(
    g: Layout, keys: Int64s, size: int, first: int, stop: int, offsets: Int64Out, out: Int32Out
) -> int:
    """Write candidates event by event while there is room for all `size` conjunctions."""
    # Fields are read once: Numba counts references to a tuple's arrays at each use in a branch.
    is_float, levels, most = g.floats[0], g.first.shape[0], g.skip.shape[0] // g.first.shape[0]
    least, last, origin, scale = g.first, g.last, g.origin, g.scale
    cells, constructs, longest, per_cell = g.cells, g.constructs, g.longest, g.per_cell
    skip = g.skip
    start, start_id, start_key = g.start, g.start_id, g.start_key
    end, end_id, end_key = g.end, g.end_id, g.end_key
    inside, inside_id, inside_low, inside_high = g.inside, g.inside_id, g.inside_low, g.inside_high
    piece, piece_id = g.piece, g.piece_id
    found = np.empty(_AHEAD * levels, np.int64)
    n = np.uint64(offsets[0])
    room = out.shape[0] - size
    event = first
    while event < stop and np.int64(n) <= room:
        several = min(_AHEAD, stop - event)
        for i in range(several):
            for v in range(levels):
                cell = find_cell(
                    keys[event + i], is_float, least[v], last[v], origin[v], scale[v],
                    cells[v + 1] - cells[v],
                )  # fmt: skip
                found[i * levels + v] = cell
                prefetch(start, cells[v] + cell)
                prefetch(end, cells[v] + cell)
                prefetch(inside, cells[v] + cell)
                prefetch(piece, constructs[v] + cell * per_cell[v])
        for i in range(several):
            if np.int64(n) > room:
                break
            if i + 2 < several:
                soon = cells[0] + found[(i + 2) * levels]
                prefetch(start_key, np.int64(start[soon]))
                prefetch(end_key, np.int64(end[soon]))
            key = keys[event]
            for v in range(levels):
                cell = found[i * levels + v]
                from_here = per_cell[v]
                construct = constructs[v] + cell * from_here
                for d in range(min(longest[v], cell + 1)):
                    begin = np.uint64(piece[construct + skip[v * most + d]])
                    length = np.uint64(piece[construct + from_here]) - begin
                    for j in range(length):
                        out[n + j] = piece_id[begin + j]
                    n += length
                    construct -= from_here
                at = cells[v] + cell
                begin = np.uint64(start[at])
                length = np.uint64(
                    count_at_most(start_key, np.int64(start[at]), np.int64(start[at + 1]), key)
                )
                for j in range(length):
                    out[n + j] = start_id[begin + j]
                n += length
                past = count_less(end_key, np.int64(end[at]), np.int64(end[at + 1]), key)
                begin = np.uint64(end[at] + past)
                length = np.uint64(end[at + 1]) - begin
                for j in range(length):
                    out[n + j] = end_id[begin + j]
                n += length
                for j in range(np.uint64(inside[at]), np.uint64(inside[at + 1])):
                    out[n] = inside_id[j]
                    n += np.uint64((inside_low[j] <= key) & (key <= inside_high[j]))
            event += 1
            offsets[event - first] = n
    return event


@kernel
def tally(g: Layout, keys: Int64s, first: int, counts: Int64Out) -> None:
    """Add to each event's count the intervals that contain its value, where all are proven."""
    is_float, levels, most = g.floats[0], g.first.shape[0], g.skip.shape[0] // g.first.shape[0]
    least, last, origin, scale = g.first, g.last, g.origin, g.scale
    cells, constructs, longest, per_cell = g.cells, g.constructs, g.longest, g.per_cell
    skip = g.skip
    start, start_key, end, end_key = g.start, g.start_key, g.end, g.end_key
    inside, inside_low, inside_high, piece = g.inside, g.inside_low, g.inside_high, g.piece
    for i in range(counts.shape[0]):
        key = keys[first + i]
        total = np.int64(0)
        for v in range(levels):
            cell = find_cell(
                key, is_float, least[v], last[v], origin[v], scale[v], cells[v + 1] - cells[v]
            )
            construct = constructs[v] + cell * per_cell[v]
            for d in range(min(longest[v], cell + 1)):
                total += piece[construct + per_cell[v]] - piece[construct + skip[v * most + d]]
                construct -= per_cell[v]
            at = cells[v] + cell
            total += count_at_most(start_key, np.int64(start[at]), np.int64(start[at + 1]), key)
            past = count_less(end_key, np.int64(end[at]), np.int64(end[at + 1]), key)
            total += end[at + 1] - end[at] - past
            for j in range(inside[at], inside[at + 1]):
                total += np.int64((inside_low[j] <= key) & (key <= inside_high[j]))
        counts[i] += total
