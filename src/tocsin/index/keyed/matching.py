"""Matching: the stretches under an event's values, and of these what passes."""

from __future__ import annotations

import numpy as np

from tocsin.index.keyed.lanes import HEAD, LANES, ROW, between, lowest, within
from tocsin.index.keyed.layout import Layout
from tocsin.jit import Int32Out, Int64Out, kernel, prefetch, step
from tocsin.model.keys import EventBatch

AT_ONCE = 1024  # blocks that pass before their other predicates are looked at
AHEAD = 8  # blocks that are asked for in advance


@step
def code_event(
    columns, column_attribute, offsets, attribute, key, event, local, cut, cuts, line, present,
    listed, wanted, low, length,
):  # fmt: skip
    """Put an event's codes onto the line; write its attributes and return how many.

    `listed` has for each attribute the last event that had it; what is after it is room. The cuts
    of all values are bisected in step: one after the other, each step would wait for memory.
    """
    n = 0
    for c in range(column_attribute.shape[0]):
        a = local[column_attribute[c]] if column_attribute[c] < local.shape[0] else np.int32(-1)
        if a >= 0:
            present[n], listed[a], wanted[n] = a, event, columns[c, event]
            n += 1
    if offsets.shape[0] > 0:
        for i in range(offsets[event], offsets[event + 1]):
            a = local[attribute[i]] if attribute[i] < local.shape[0] else np.int32(-1)
            if a >= 0 and listed[a] != event:
                present[n], listed[a], wanted[n] = a, event, key[i]
                n += 1
            elif a >= 0:  # said twice, the last counts
                for j in range(n):
                    if present[j] == a:
                        wanted[j] = key[i]
    longest = np.int64(0)
    for j in range(n):
        low[j] = cut[present[j]]
        length[j] = cut[present[j] + 1] - low[j]
        longest = max(longest, length[j])
    while longest > 0:
        for j in range(n):
            half = (length[j] + 1) >> 1  # 0 at the end, when there is nothing to be read
            low[j] += half * np.int64(cuts[max(low[j] + half - 1, 0)] <= wanted[j])
            length[j] -= half
        longest -= (longest + 1) >> 1
    for j in range(n):
        line[present[j]] = np.uint16(low[j] - cut[present[j]])
    return n


@step
def runs_of(several, present, last, row, pair, run, found):
    """Write the runs that an event may find something in; return how many.

    Those of each attribute alone, those without a key, and those of two attributes. What is null
    satisfies no key.
    """
    n = 0
    for i in range(several + 1):
        a = present[i]
        if i < several and last[a] == 0:
            continue
        for r in range(run[a], run[a + 1]):
            found[n] = r
            n += 1
        if i < several and row[a] >= 0:
            for j in range(several):
                shelf = pair[row[a] + present[j]]
                if shelf >= 0:
                    for r in range(run[shelf], run[shelf + 1]):
                        found[n] = r
                        n += 1
    return n


@step
def without_doubles(found, out, begin):
    """Write candidates from `begin` on, in order and each once; return where they end.

    Of a small set that is a key an event finds one point, but a range may find several.
    """
    kept = begin
    for each in np.sort(found):
        if kept == begin or out[kept - 1] != each:
            out[kept] = each
            kept += 1
    return kept


@kernel
def propose(g: Layout, batch: EventBatch, most: int, offsets: Int64Out, out: Int32Out) -> int:
    """Write candidates event by event while there is room for `most`."""
    keys, first, stop = batch.keys, batch.first, batch.stop
    local, cut, cuts, row, pair, run = g.local, g.cut, g.cuts, g.row, g.pair, g.run
    under, span, shift, spans = g.under, g.span, g.shift, g.spans
    heads, start, rows, candidate = g.heads, g.start, g.rows, g.candidate
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    attributes = row.shape[0]
    line = np.zeros(attributes + 1, np.uint16)
    last = np.zeros(attributes + 1, np.uint16) if ranged else line
    present = np.empty(attributes + 1, np.int32)
    listed = np.full(attributes + 1, -1, np.int64)
    listed_last = np.full(attributes + 1 if ranged else 0, -1, np.int64)
    wanted, low, length = (
        np.empty(attributes + 1, np.int64), np.empty(attributes + 1, np.int64),
        np.empty(attributes + 1, np.int64),
    )  # fmt: skip
    found = np.empty(under.shape[0], np.int32)
    begin, end = np.empty(under.shape[0], np.int32), np.empty(under.shape[0], np.int32)
    passed, alive = np.empty(AT_ONCE, np.int32), np.empty(AT_ONCE, np.uint8)
    into = np.empty(candidate.shape[0], np.int32) if ranged else out
    n = np.uint64(offsets[0])
    event = first
    while event < stop and np.int64(n) + most <= out.shape[0]:
        several = code_event(
            columns, column_attribute, sparse, attribute, key, event, local, cut, cuts, line,
            present, listed, wanted, low, length,
        )  # fmt: skip
        if ranged:
            n = np.uint64(0)
            code_event(
                columns_high, column_attribute, sparse, attribute, key_high, event, local, cut,
                cuts, last, present, listed_last, wanted, low, length,
            )  # fmt: skip
        present[several] = attributes
        runs = runs_of(several, present, last, row, pair, run, found)
        # Where their stretches are: asked for in advance, as is where these begin.
        for i in range(runs):
            r = found[i]
            prefetch(spans, span[r] + 2 * np.int64(line[under[r]] >> shift[r]))
        for i in range(runs):
            r = found[i]
            begin[i] = spans[span[r] + 2 * np.int64(line[under[r]] >> shift[r])]
            end[i] = spans[span[r] + 2 * np.int64(last[under[r]] >> shift[r]) + 1]
            upto = min(end[i], begin[i] + AHEAD)
            for word in range(np.int64(begin[i]) * HEAD, np.int64(upto) * HEAD, 32):
                prefetch(heads, word)
        i = 0
        while i < runs:
            # Blocks with a lane whose key and second predicate hold, of as many runs as there is
            # room for ...
            left = np.uint64(0)
            while i < runs and left < AT_ONCE:
                code, code_last = line[under[found[i]]], last[under[found[i]]]
                upto = min(np.int64(end[i]), begin[i] + np.int64(AT_ONCE - left))
                for block in range(np.uint64(begin[i]), np.uint64(max(begin[i], upto))):
                    head = block * np.uint64(HEAD)
                    bits = between(heads, head, code, code_last)
                    bits &= within(heads, head + np.uint64(2 * LANES), line, last, ranged)
                    prefetch(start, np.int64(block))
                    passed[left], alive[left] = np.int32(block), np.uint8(bits)
                    left += np.uint64(bits != 0)
                begin[i] = upto
                i += upto >= end[i]
            # ... and of these the other predicates.
            for p in range(left):
                if p + np.uint64(AHEAD) < left:
                    soon = passed[p + np.uint64(AHEAD)]
                    prefetch(candidate, np.int64(soon) * LANES)
                    for word in range(start[soon], start[soon + 1], 32):
                        prefetch(rows, np.int64(word))
                here, bits = np.uint64(passed[p]), np.uint64(alive[p])
                at_row, end_row = np.uint64(start[here]), np.uint64(start[here + np.uint64(1)])
                while bits != 0 and at_row < end_row:
                    bits &= within(rows, at_row, line, last, ranged)
                    at_row += np.uint64(ROW)
                while bits != 0:
                    into[n] = candidate[here * np.uint64(LANES) + lowest(bits)]
                    n += np.uint64(1)
                    bits &= bits - np.uint64(1)
        for i in range(several):
            line[present[i]] = last[present[i]] = 0
        if ranged:
            n = np.uint64(without_doubles(into[:n], out, offsets[event - first]))
        event += 1
        offsets[event - first] = n
    return event
