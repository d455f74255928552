"""Matching: find the blocks under an event's values, and test the predicates in their lanes."""

from __future__ import annotations

import numpy as np

from tocsin.index.keyed.lanes import HEAD, LANES, ROW, lowest_lane, meeting_lanes, satisfied_lanes
from tocsin.index.keyed.layout import Layout
from tocsin.jit import Int32Out, Int64Out, kernel, prefetch, step
from tocsin.model.keys import EventBatch

AHEAD = 8  # blocks that are prefetched; chosen
CACHE_LINE = 32  # 16-bit words: 64 bytes
_MOST_PASSED = 1024  # blocks whose heads are tested before any of their rows is; chosen


@step
def code_event(
    columns, column_attribute, offsets, attribute, key, event, local, cut_offsets, cuts, codes,
    present, last_event, value, low, length,
):  # fmt: skip
    """Write the codes of an event's values; write its attributes and return how many.

    `last_event` has for each attribute the last event that had it; `value`, `low` and `length` are
    scratch. The cuts of all values are bisected in step: one after the other, each step would wait
    for memory. All arguments are arrays: of a named tuple Numba would count references.
    """
    n = 0
    for c in range(column_attribute.shape[0]):
        a = local[column_attribute[c]] if column_attribute[c] < local.shape[0] else np.int32(-1)
        if a >= 0:
            present[n], last_event[a], value[n] = a, event, columns[c, event]
            n += 1
    if offsets.shape[0] > 0:
        for i in range(offsets[event], offsets[event + 1]):
            a = local[attribute[i]] if attribute[i] < local.shape[0] else np.int32(-1)
            if a >= 0 and last_event[a] != event:
                present[n], last_event[a], value[n] = a, event, key[i]
                n += 1
            elif a >= 0:  # given twice: the last value counts
                for j in range(n):
                    if present[j] == a:
                        value[j] = key[i]
    longest = np.int64(0)
    for j in range(n):
        low[j] = cut_offsets[present[j]]
        length[j] = cut_offsets[present[j] + 1] - low[j]
        longest = max(longest, length[j])
    while longest > 0:
        for j in range(n):
            half = (length[j] + 1) >> 1  # 0 at the end, when there is nothing to be read
            low[j] += half * np.int64(cuts[max(low[j] + half - 1, 0)] <= value[j])
            length[j] -= half
        longest -= (longest + 1) >> 1
    for j in range(n):
        codes[present[j]] = np.uint16(low[j] - cut_offsets[present[j]])
    return n


@step
def list_runs(n_present, present, codes_high, pair_start, pair_shelf, run_offsets, runs):
    """Write the runs in which an event may find something; return how many.

    They are those of each attribute alone, those without a key, and those of two attributes. Null
    satisfies no key.
    """
    n = 0
    for i in range(n_present + 1):
        a = present[i]
        if i < n_present and codes_high[a] == 0:
            continue
        for r in range(run_offsets[a], run_offsets[a + 1]):
            runs[n] = r
            n += 1
        if i < n_present and pair_start[a] >= 0:
            for j in range(n_present):
                shelf = pair_shelf[pair_start[a] + present[j]]
                if shelf >= 0:
                    for r in range(run_offsets[shelf], run_offsets[shelf + 1]):
                        runs[n] = r
                        n += 1
    return n


@step
def write_distinct(found, out, begin):
    """Write candidates from `begin` on, in order and each once; return where they end.

    An event finds one point of a small set that is a key, but a range may find several.
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
    local, cut_offsets, cuts = g.local, g.cut_offsets, g.cuts
    pair_start, pair_shelf, run_offsets = g.pair_start, g.pair_shelf, g.run_offsets
    key_attribute, span_start = g.key_attribute, g.span_start
    span_shift, spans = g.span_shift, g.spans
    heads, row_offsets, rows, candidate = g.heads, g.row_offsets, g.rows, g.candidate
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    attributes = pair_start.shape[0]
    codes = np.zeros(attributes + 1, np.uint16)
    codes_high = np.zeros(attributes + 1, np.uint16) if ranged else codes
    present = np.empty(attributes + 1, np.int32)
    last_event = np.full(attributes + 1, -1, np.int64)
    last_event_high = np.full(attributes + 1 if ranged else 0, -1, np.int64)
    value, low, length = (
        np.empty(attributes + 1, np.int64), np.empty(attributes + 1, np.int64),
        np.empty(attributes + 1, np.int64),
    )  # fmt: skip
    runs = np.empty(key_attribute.shape[0], np.int32)
    begin = np.empty(key_attribute.shape[0], np.int32)  # blocks of each run
    end = np.empty(key_attribute.shape[0], np.int32)
    passed, passed_lanes = np.empty(_MOST_PASSED, np.int32), np.empty(_MOST_PASSED, np.uint8)
    found = np.empty(candidate.shape[0], np.int32) if ranged else out
    n = np.uint64(offsets[0])
    event = first
    while event < stop and np.int64(n) + most <= out.shape[0]:
        n_present = code_event(
            columns, column_attribute, sparse, attribute, key, event, local, cut_offsets, cuts,
            codes, present, last_event, value, low, length,
        )  # fmt: skip
        if ranged:
            n = np.uint64(0)
            code_event(
                columns_high, column_attribute, sparse, attribute, key_high, event, local,
                cut_offsets, cuts, codes_high, present, last_event_high, value, low, length,
            )  # fmt: skip
        present[n_present] = attributes
        n_runs = list_runs(
            n_present, present, codes_high, pair_start, pair_shelf, run_offsets, runs
        )  # fmt: skip
        # The spans of all runs are prefetched, then the first blocks that they name.
        for i in range(n_runs):
            r = runs[i]
            code = codes[key_attribute[r]]
            prefetch(spans, span_start[r] + 2 * np.int64(code >> span_shift[r]))
        for i in range(n_runs):
            r = runs[i]
            code, code_high = codes[key_attribute[r]], codes_high[key_attribute[r]]
            begin[i] = spans[span_start[r] + 2 * np.int64(code >> span_shift[r])]
            end[i] = spans[span_start[r] + 2 * np.int64(code_high >> span_shift[r]) + 1]
            upto = min(end[i], begin[i] + AHEAD)
            for word in range(np.int64(begin[i]) * HEAD, np.int64(upto) * HEAD, CACHE_LINE):
                prefetch(heads, word)
        i = 0
        while i < n_runs:
            # First the heads: keys and second predicates, of as many runs as there is room for.
            n_passed = np.uint64(0)
            while i < n_runs and n_passed < _MOST_PASSED:
                code, code_high = codes[key_attribute[runs[i]]], codes_high[key_attribute[runs[i]]]
                upto = min(np.int64(end[i]), begin[i] + np.int64(_MOST_PASSED - n_passed))
                for block in range(np.uint64(begin[i]), np.uint64(max(begin[i], upto))):
                    head = block * np.uint64(HEAD)
                    lanes = meeting_lanes(heads, head, code, code_high)
                    lanes &= satisfied_lanes(
                        heads, head + np.uint64(2 * LANES), codes, codes_high, ranged
                    )
                    prefetch(row_offsets, np.int64(block))
                    passed[n_passed], passed_lanes[n_passed] = np.int32(block), np.uint8(lanes)
                    n_passed += np.uint64(lanes != 0)
                begin[i] = upto
                i += upto >= end[i]
            # Then the other predicates, where a lane is left.
            for p in range(n_passed):
                if p + np.uint64(AHEAD) < n_passed:
                    ahead = passed[p + np.uint64(AHEAD)]
                    prefetch(candidate, np.int64(ahead) * LANES)
                    for word in range(row_offsets[ahead], row_offsets[ahead + 1], CACHE_LINE):
                        prefetch(rows, np.int64(word))
                here, lanes = np.uint64(passed[p]), np.uint64(passed_lanes[p])
                row, end_row = (
                    np.uint64(row_offsets[here]), np.uint64(row_offsets[here + np.uint64(1)])
                )  # fmt: skip
                while lanes != 0 and row < end_row:
                    lanes &= satisfied_lanes(rows, row, codes, codes_high, ranged)
                    row += np.uint64(ROW)
                while lanes != 0:
                    found[n] = candidate[here * np.uint64(LANES) + lowest_lane(lanes)]
                    n += np.uint64(1)
                    lanes &= lanes - np.uint64(1)
        for i in range(n_present):
            codes[present[i]] = codes_high[present[i]] = 0
        if ranged:
            n = np.uint64(write_distinct(found[:n], out, offsets[event - first]))
        event += 1
        offsets[event - first] = n
    return event
