"""Matching: an event's cells, their full lists, and what their partial lists let through.

Kernels here take the fields of a layout into variables of their own before they loop: a field that
is read within branches costs two atomic reference counts each time (5 times slower in all).
"""

from __future__ import annotations

import numpy as np

from tocsin.index.cells.codes import LOW_BITS, TOP_BITS, encode_key, pack_event
from tocsin.index.cells.layout import BITS, END, FULL, HEAD, PARTIAL, WORDS, Cells
from tocsin.jit import Int32Out, Int64Out, Int64s, bare_step, kernel, prefetch, step
from tocsin.model.conjunctions import Conjunctions

# Events whose cells are computed and prefetched together. Chosen: by the time the last is computed
# the first head has arrived, and cells and words of all stay in the fastest cache.
_TOGETHER = 64
# How many slots ahead lists are prefetched. Chosen: about as many partial lists as are tested
# during one cache miss.
_AHEAD = 4

# Unsigned, to be added to unsigned numbers: an index that may be negative costs a comparison each
# time.
_PARTIAL, _WORDS, _END = np.uint64(PARTIAL), np.uint64(WORDS), np.uint64(END)
_HEAD = np.uint64(HEAD)


@step
def find_cell(
    node, key_x, key_y, float_x, float_y,
    low_key, high_key, origin, scale, gap, across, first_cell,
):  # fmt: skip
    """Return the cell of a node in which an event is, and the event's word there."""
    a, b = 2 * node, 2 * node + 1
    x = encode_key(key_x, float_x, low_key[a], high_key[a], origin[a], scale[a], gap[a], across[a])
    y = encode_key(key_y, float_y, low_key[b], high_key[b], origin[b], scale[b], gap[b], across[b])
    return first_cell[node] + (x >> BITS) * across[b] + (y >> BITS), pack_event(x, y)


@bare_step
def compare_keys(g, c, keys_x, keys_y, first, begin, stop, offsets, out):
    """Propose once more for events with codes equal to those of bounds: there the keys decide.

    These are the events from `begin` up to `stop` that end at ~n instead of n. What is left of
    their candidates moves up in `out`, and so do the candidates of events after them.

    This is not written inside of `propose`, whose loop is 3% slower with it on squares.
    """
    float_x, float_y, roots = g.floats[0], g.floats[1], g.roots[0]
    low_key, high_key, origin, scale, gap = g.low_key, g.high_key, g.origin, g.scale, g.gap
    across, first_cell, heads, ids, words = g.across, g.first_cell, g.heads, g.ids, g.words
    rows, attribute, low, high, axis_x = c.offsets, c.attribute, c.low, c.high, g.attribute[0]
    n = end_before = offsets[begin - first]
    for event in range(begin, stop):
        start, end_before = end_before, offsets[event + 1 - first]
        if end_before >= 0:
            for j in range(start, end_before):
                out[n] = out[j]
                n += 1
            offsets[event + 1 - first] = n
            continue
        end_before = ~end_before
        key_x, key_y = keys_x[event], keys_y[event]
        for root in range(roots):
            node = np.int64(root)
            while node >= 0:
                cell, event_word = find_cell(
                    node, key_x, key_y, float_x, float_y,
                    low_key, high_key, origin, scale, gap, across, first_cell,
                )  # fmt: skip
                full, tested = heads[HEAD * cell + FULL], heads[HEAD * cell + PARTIAL]
                for j in range(full, tested):
                    out[n] = ids[j]
                    n += 1
                end = np.int64(heads[HEAD * cell + END])
                node = ~end
            partial, word = np.uint64(tested), np.uint64(heads[HEAD * cell + WORDS])
            for j in range(np.uint64(end) - partial):
                difference = event_word - words[word + j]
                if difference & TOP_BITS != TOP_BITS:
                    continue
                id_, hit = ids[partial + j], True
                if id_ >= 0 and (difference - LOW_BITS) & TOP_BITS != TOP_BITS:
                    for row in range(rows[id_], rows[id_ + 1]):
                        key = key_x if attribute[row] == axis_x else key_y
                        hit &= low[row] <= key <= high[row]
                # Not written without a hit: the next event's candidates may begin there.
                if hit:
                    out[n] = id_
                    n += 1
        offsets[event + 1 - first] = n
    return n


@kernel
def propose(
    g: Cells,
    c: Conjunctions,
    keys_x: Int64s,
    keys_y: Int64s,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write candidates event by event while there is room for all conjunctions.

    A *slot* is an event in one root. `top` is its cell in the root; `cells` its cell in the child
    of that, or the same again if there is none; `event_words` its word in the latter.
    """
    float_x, float_y, roots = g.floats[0], g.floats[1], g.roots[0]
    low_key, high_key, origin, scale, gap = g.low_key, g.high_key, g.origin, g.scale, g.gap
    across, first_cell, heads, ids, words = g.across, g.first_cell, g.heads, g.ids, g.words
    top = np.empty(_TOGETHER * roots, np.int64)
    event_words = np.empty(_TOGETHER * roots, np.uint64)
    has_children = first_cell.shape[0] > roots
    cells = np.empty(_TOGETHER * roots, np.int64) if has_children else top
    n = np.uint64(offsets[0])
    room = out.shape[0] - c.rule.shape[0]
    event = first
    while event < stop and np.int64(n) <= room:
        together = min(_TOGETHER, stop - event)
        for i in range(together):
            key_x, key_y = keys_x[event + i], keys_y[event + i]
            for root in range(roots):
                slot = i * roots + root
                top[slot], event_words[slot] = find_cell(
                    np.int64(root), key_x, key_y, float_x, float_y,
                    low_key, high_key, origin, scale, gap, across, first_cell,
                )  # fmt: skip
                prefetch(heads, HEAD * top[slot])
        for i in range(together if has_children else 0):
            for root in range(roots):
                slot = i * roots + root
                cells[slot] = top[slot]
                end = np.int64(heads[_HEAD * np.uint64(top[slot]) + _END])
                if end < 0:
                    cells[slot], event_words[slot] = find_cell(
                        ~end, keys_x[event + i], keys_y[event + i], float_x, float_y,
                        low_key, high_key, origin, scale, gap, across, first_cell,
                    )  # fmt: skip
                    prefetch(heads, HEAD * cells[slot])
                    head = _HEAD * np.uint64(top[slot])
                    if heads[head] == heads[head + _PARTIAL]:  # no full list: skip this cell below
                        top[slot] = cells[slot]
        tied, begin = False, event
        for i in range(together):
            if np.int64(n) > room:
                break
            ties = np.uint64(0)
            for root in range(roots):
                slot = i * roots + root
                if slot + _AHEAD < together * roots:
                    ahead = _HEAD * np.uint64(cells[slot + _AHEAD])
                    prefetch(ids, np.int64(heads[ahead + _PARTIAL]))
                    prefetch(words, np.int64(heads[ahead + _WORDS]))
                cell, event_word = top[slot], event_words[slot]
                while True:
                    head = _HEAD * np.uint64(cell)
                    full, partial = np.uint64(heads[head]), np.uint64(heads[head + _PARTIAL])
                    if partial > full:
                        for j in range(partial - full):
                            out[n + j] = ids[full + j]
                        n += partial - full
                    end = np.int64(heads[head + _END])
                    if end >= 0:
                        break
                    if cell == top[slot] and cell != cells[slot]:
                        cell = cells[slot]
                    else:
                        cell, event_word = find_cell(
                            ~end, keys_x[event], keys_y[event], float_x, float_y,
                            low_key, high_key, origin, scale, gap, across, first_cell,
                        )  # fmt: skip
                word = np.uint64(heads[head + _WORDS])
                size = np.uint64(end) - partial
                for j in range(size):
                    difference = event_word - words[word + j]
                    # Always written, counted if it hits: cheaper than a branch.
                    out[n] = ids[partial + j]
                    n += np.uint64(difference & TOP_BITS == TOP_BITS)
                    ties |= difference ^ (difference - LOW_BITS)
            event += 1
            offsets[event - first] = n
            # Seldom for random floats, but for most events where values are whole numbers, as
            # bounds are. Leaving the loop here made such data up to 4 times slower.
            if ties & TOP_BITS != 0:
                offsets[event - first] = ~np.int64(n)
                tied = True
        if tied:
            n = np.uint64(compare_keys(g, c, keys_x, keys_y, first, begin, event, offsets, out))
    return event


@kernel
def tally(
    g: Cells, c: Conjunctions, keys_x: Int64s, keys_y: Int64s, first: int, counts: Int64Out
) -> None:
    """Add to each event's count the conjunctions that hold; only if all boxes prove theirs."""
    float_x, float_y, roots = g.floats[0], g.floats[1], g.roots[0]
    low_key, high_key, origin, scale, gap = g.low_key, g.high_key, g.origin, g.scale, g.gap
    across, first_cell, heads, ids, words = g.across, g.first_cell, g.heads, g.ids, g.words
    rows, attribute, low, high, axis_x = c.offsets, c.attribute, c.low, c.high, g.attribute[0]
    cells = np.empty(_TOGETHER * roots, np.int64)
    event_words = np.empty(_TOGETHER * roots, np.uint64)
    for begin in range(0, counts.shape[0], _TOGETHER):
        together = min(_TOGETHER, counts.shape[0] - begin)
        for i in range(together):
            for root in range(roots):
                slot = i * roots + root
                cells[slot], event_words[slot] = find_cell(
                    np.int64(root), keys_x[first + begin + i], keys_y[first + begin + i], float_x,
                    float_y, low_key, high_key, origin, scale, gap, across, first_cell,
                )  # fmt: skip
                prefetch(heads, HEAD * cells[slot])
        for i in range(together):
            key_x, key_y = keys_x[first + begin + i], keys_y[first + begin + i]
            total = np.int64(0)
            for root in range(roots):
                slot = i * roots + root
                if slot + _AHEAD < together * roots:
                    prefetch(words, np.int64(heads[HEAD * cells[slot + _AHEAD] + WORDS]))
                cell, event_word = cells[slot], event_words[slot]
                while True:
                    head = HEAD * cell
                    partial = np.uint64(heads[head + PARTIAL])
                    total += np.int64(partial) - heads[head + FULL]
                    end = np.int64(heads[head + END])
                    if end >= 0:
                        break
                    cell, event_word = find_cell(
                        ~end, key_x, key_y, float_x, float_y,
                        low_key, high_key, origin, scale, gap, across, first_cell,
                    )  # fmt: skip
                word = np.uint64(heads[head + WORDS])
                size = np.uint64(end) - partial
                hits = sure = np.int64(0)
                for j in range(size):
                    difference = event_word - words[word + j]
                    hits += np.int64(difference & TOP_BITS == TOP_BITS)
                    sure += np.int64((difference - LOW_BITS) & TOP_BITS == TOP_BITS)
                total += sure
                if hits != sure:
                    for j in range(size):
                        difference = event_word - words[word + j]
                        hit = difference & TOP_BITS == TOP_BITS
                        if hit and (difference - LOW_BITS) & TOP_BITS != TOP_BITS:
                            id_ = ids[partial + j]
                            for row in range(rows[id_], rows[id_ + 1]):
                                key = key_x if attribute[row] == axis_x else key_y
                                hit &= low[row] <= key <= high[row]
                            total += hit
            counts[begin + i] += total
