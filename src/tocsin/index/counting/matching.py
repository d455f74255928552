"""Matching: every satisfied predicate takes one from its conjunction's counter.

A counter is a word of 64 bits: the event it is for (32), the predicates that its conjunction needs
(16), and how many of them are left (16). A counter that is for another event counts as full.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.constructs.interval_lists import count_at_most, count_less
from tocsin.index.constructs.lattice import find_cell
from tocsin.index.counting.layout import Layout
from tocsin.jit import Int32Out, Int64Out, kernel, prefetch, step
from tocsin.model.keys import EventBatch
from tocsin.model.line import NULL

# Conjunctions of a list whose counters are prefetched before they are counted. Chosen: enough to
# hide a cache miss.
_AHEAD = 16


@step
def take_one(left, c, event, out, n):
    """Count one satisfied predicate of a conjunction; write the conjunction if it was the last."""
    word = left[c]
    needed = word & 0xFFFF0000
    word = word if word >> 32 == event else event << 32 | needed | needed >> 16
    word -= 1
    left[c] = word
    out[n] = c
    return n + np.int64(word & 0xFFFF == 0)


@step
def take_all(ids, begin, stop, left, event, out, n):
    """Count a satisfied predicate of each conjunction in a stretch of a list."""
    for j in range(begin, stop):
        if j + _AHEAD < stop:
            prefetch(left, np.int64(ids[j + _AHEAD]))
        n = take_one(left, ids[j], event, out, n)
    return n


@kernel
def propose(g: Layout, batch: EventBatch, offsets: Int64Out, out: Int32Out) -> int:
    """Write candidates event by event while there is room for all conjunctions."""
    keys, first, stop = batch.keys, batch.first, batch.stop
    # Fields are read once: Numba counts references to a tuple's arrays at each use in a branch.
    level, cut, cuts, nullable = g.level, g.cut, g.cuts, g.nullable
    least, last, origin, scale = g.first, g.last, g.origin, g.scale
    cells, constructs, piece, piece_id = g.cells, g.constructs, g.piece, g.piece_id
    start, start_id, start_key = g.start, g.start_id, g.start_key
    end, end_id, end_key = g.end, g.end_id, g.end_key
    inside, inside_id, inside_low, inside_high = g.inside, g.inside_id, g.inside_low, g.inside_high
    needed, candidate, always = g.needed, g.candidate, g.always
    columns, column_attribute = keys.columns, keys.column_attribute
    sparse, attributes, values = keys.offsets, keys.attribute, keys.key
    left = np.empty(needed.shape[0], np.int64)
    for c in range(needed.shape[0]):
        left[c] = np.int64(-1) << 32 | np.int64(needed[c]) << 16
    tested = cut.shape[0] - 1
    given = np.zeros(tested, np.uint8)  # attributes that the event has
    n = offsets[0]
    room = out.shape[0] - needed.shape[0]
    event = first
    while event < stop and n <= room:
        before = n
        dense = column_attribute.shape[0]
        begin, after = np.int64(0), np.int64(0)
        if sparse.shape[0] > 0:
            begin, after = sparse[event], sparse[event + 1]
        total = dense + (after - begin) + nullable.shape[0]
        for i in range(total):
            # Of several values for an attribute the last counts: from the last to the first.
            if i < after - begin:
                attribute, key = attributes[after - 1 - i], values[after - 1 - i]
            elif i < dense + after - begin:
                attribute = column_attribute[i - (after - begin)]
                key = columns[i - (after - begin), event]
            else:
                attribute, key = nullable[i - dense - (after - begin)], np.int64(NULL)
            # Attributes that were added to the schema after the index was built have no levels.
            if attribute >= tested or given[attribute] != 0:
                continue
            given[attribute] = 1
            rank = count_at_most(cuts, cut[attribute], cut[attribute + 1], key)
            for v in range(level[attribute], level[attribute + 1]):
                cell = find_cell(
                    rank, False, least[v], last[v], origin[v], scale[v], cells[v + 1] - cells[v]
                )
                at = cells[v] + cell
                number = constructs[v] + cell
                tag = event - first
                n = take_all(piece_id, piece[number], piece[number + 1], left, tag, out, n)
                from_, until = np.int64(start[at]), np.int64(start[at + 1])
                until = from_ + count_at_most(start_key, from_, until, rank)
                n = take_all(start_id, from_, until, left, tag, out, n)
                from_, until = np.int64(end[at]), np.int64(end[at + 1])
                from_ += count_less(end_key, from_, until, rank)
                n = take_all(end_id, from_, until, left, tag, out, n)
                for j in range(inside[at], inside[at + 1]):
                    if inside_low[j] <= rank <= inside_high[j]:
                        n = take_one(left, inside_id[j], tag, out, n)
        for i in range(before, n):
            out[i] = candidate[out[i]]
        for i in range(always.shape[0]):
            out[n + i] = always[i]
        n += always.shape[0]
        for i in range(dense):
            if column_attribute[i] < tested:
                given[column_attribute[i]] = 0
        for i in range(begin, after):
            if attributes[i] < tested:
                given[attributes[i]] = 0
        for i in range(nullable.shape[0]):
            given[nullable[i]] = 0
        event += 1
        offsets[event - first] = n
    return event
