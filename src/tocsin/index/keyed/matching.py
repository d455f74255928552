"""Matching: test the predicates in the lanes of the blocks under an event's codes."""

from __future__ import annotations

import numpy as np

from tocsin.index.keyed.event_codes import (
    CHUNK,
    code_columns,
    code_sparse_values,
    find_columns,
)
from tocsin.index.keyed.lanes import HEAD, LANES, ROW, lowest_lane, meeting_lanes, satisfied_lanes
from tocsin.index.keyed.layout import Layout
from tocsin.index.keyed.spans import (
    AHEAD,
    CACHE_LINE,
    find_buckets,
    find_buckets_of_columns,
    find_buckets_of_ranges,
    find_run_blocks,
    list_runs,
)
from tocsin.index.sorting import sort
from tocsin.jit import Int32Out, Int64Out, kernel, prefetch, step
from tocsin.model.keys import EventBatch

_MOST_PASSED = 1024  # blocks whose heads are tested before any of their rows; chosen


@step
def write_distinct(found, out, begin):
    """Sort the candidates from `begin` on and drop duplicates; return where they end.

    An event finds one entry of a conjunction, but a range may find several.
    """
    kept = begin
    sort(found)
    for each in found:
        if kept == begin or out[kept - 1] != each:
            out[kept] = each
            kept += 1
    return kept


@kernel
def propose(g: Layout, batch: EventBatch, most: int, offsets: Int64Out, out: Int32Out) -> int:
    """Write candidates event by event while there is room for `most`."""
    keys, first, stop = batch.keys, batch.first, batch.stop
    local, cut_offsets, cuts = g.local, g.cut_offsets, g.cuts
    code_start, code_table = g.code_start, g.code_table
    pair_start, pair_shelf, run_offsets = g.pair_start, g.pair_shelf, g.run_offsets
    key_attribute, span_start = g.key_attribute, g.span_start
    span_shift, spans = g.span_shift, g.spans
    set_attribute, set_stride, table_start = g.set_attribute, g.set_stride, g.table_start
    slot_start, slot_shift, table = g.slot_start, g.slot_shift, g.table
    slot_combination, bucket_lane = g.slot_combination, g.bucket_lane
    gate_attribute, gate = g.gate_attribute, g.gate
    heads, row_offsets, rows, candidate = g.heads, g.row_offsets, g.rows, g.candidate
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    has_sparse = sparse.shape[0] > 0
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    attributes, all_runs, sets = pair_start.shape[0], key_attribute.shape[0], slot_start.shape[0]
    column = np.empty(column_attribute.shape[0], np.int64)
    column_local = np.empty(column_attribute.shape[0], np.int32)
    n_columns = find_columns(column_attribute, local, column, column_local)
    column_codes = np.empty(n_columns * CHUNK, np.uint16)
    column_codes_high = np.empty(n_columns * CHUNK if ranged else 0, np.uint16)
    codes = np.zeros(attributes + 1, np.uint16)
    codes_high = np.zeros(attributes + 1, np.uint16) if ranged else codes
    present = np.empty(attributes + 1, np.int32)
    for j in range(n_columns):
        present[j] = column_local[j]
    last_event = np.full(attributes + 1, -1, np.int64)
    last_event_high = np.full(attributes + 1 if ranged else 0, -1, np.int64)
    value, low, length = (
        np.empty(attributes + 1, np.int64), np.empty(attributes + 1, np.int64),
        np.empty(attributes + 1, np.int64),
    )  # fmt: skip
    # What an event looks at: runs and the blocks in them. A range may be in any bucket.
    room = all_runs + (bucket_lane.shape[0] if ranged else sets)
    runs, buckets = np.empty(room, np.int32), np.empty(sets * CHUNK, np.int64)
    begin, end = np.empty(room, np.int32), np.empty(room, np.int32)
    code_low, code_high = np.empty(room, np.uint16), np.empty(room, np.uint16)
    passed, passed_lanes = np.empty(_MOST_PASSED, np.int32), np.empty(_MOST_PASSED, np.uint8)
    found = np.empty(candidate.shape[0], np.int32) if ranged else out
    n = np.uint64(offsets[0])
    event = coded = chunk = first
    while event < stop and np.int64(n) + most <= out.shape[0]:
        if event == coded:
            chunk, coded = event, min(event + CHUNK, stop)
            code_columns(
                columns, n_columns, column, column_local, event, coded, cut_offsets, cuts,
                code_start, code_table, column_codes,
            )  # fmt: skip
            if ranged:
                code_columns(
                    columns_high, n_columns, column, column_local, event, coded, cut_offsets, cuts,
                    code_start, code_table, column_codes_high,
                )  # fmt: skip
            elif not has_sparse:
                find_buckets_of_columns(
                    coded - event, n_columns, column_local, column_codes, set_attribute,
                    set_stride, table_start, slot_start, slot_shift, table, slot_combination,
                    bucket_lane, gate_attribute, gate, heads, buckets,
                )  # fmt: skip
        # The work for every event is written out here: Numba counts the references to all
        # arguments of a step, which takes 100 nanoseconds for a few steps.
        at = event - chunk
        n_present = n_columns
        for j in range(n_columns):
            codes[column_local[j]] = column_codes[j * CHUNK + at]
        if has_sparse:
            n_present = code_sparse_values(
                n_columns, sparse, attribute, key, event, local, cut_offsets, cuts, codes, present,
                last_event, value, low, length,
            )  # fmt: skip
        if ranged:
            n = np.uint64(0)
            for j in range(n_columns):
                codes_high[column_local[j]] = column_codes_high[j * CHUNK + at]
            if has_sparse:
                code_sparse_values(
                    n_columns, sparse, attribute, key_high, event, local, cut_offsets, cuts,
                    codes_high, present, last_event_high, value, low, length,
                )  # fmt: skip
        n_runs = 0
        if all_runs > 0:
            present[n_present] = attributes
            n_runs = list_runs(
                n_present, present, codes_high, pair_start, pair_shelf, run_offsets, runs
            )
            find_run_blocks(
                n_runs, runs, codes, codes_high, key_attribute, span_start, span_shift, spans,
                heads, AHEAD, begin, end, code_low, code_high,
            )  # fmt: skip
        if ranged:
            n_runs = find_buckets_of_ranges(
                n_runs, all_runs, codes, codes_high, set_attribute, set_stride, table_start,
                slot_start, slot_shift, table, slot_combination, bucket_lane, runs, begin,
                end, code_low, code_high,
            )  # fmt: skip
        else:
            if has_sparse and sets > 0:
                at = 0
                find_buckets(
                    codes, set_attribute, set_stride, table_start, slot_start, slot_shift, table,
                    slot_combination, buckets,
                )  # fmt: skip
            for k in range(sets):
                bucket = buckets[k * CHUNK + at]
                if bucket < 0:
                    continue
                one, two = codes[gate_attribute[2 * bucket]], codes[gate_attribute[2 * bucket + 1]]
                if (
                    gate[4 * bucket] <= one <= gate[4 * bucket + 1]
                    and gate[4 * bucket + 2] <= two <= gate[4 * bucket + 3]
                ):
                    begin[n_runs] = bucket_lane[bucket] // LANES
                    end[n_runs] = (bucket_lane[bucket + 1] + (LANES - 1)) // LANES
                    code_low[n_runs] = code_high[n_runs] = np.uint16(bucket & 0xFFFF)
                    n_runs += 1
        i = 0
        while i < n_runs:
            # First the heads: keys and second predicates, of as many runs as there is room for.
            n_passed = np.uint64(0)
            while i < n_runs and n_passed < _MOST_PASSED:
                from_code, to_code = code_low[i], code_high[i]
                upto = min(np.int64(end[i]), begin[i] + np.int64(_MOST_PASSED - n_passed))
                for block in range(np.uint64(begin[i]), np.uint64(max(begin[i], upto))):
                    head = block * np.uint64(HEAD)
                    lanes = meeting_lanes(heads, head, from_code, to_code)
                    lanes &= satisfied_lanes(
                        heads, head + np.uint64(2 * LANES), codes, codes_high, ranged
                    )
                    prefetch(row_offsets, np.int64(block))
                    passed[n_passed], passed_lanes[n_passed] = np.int32(block), np.uint8(lanes)
                    n_passed += np.uint64(lanes != 0)
                begin[i] = upto
                i += upto >= end[i]
            # Then the other predicates, if a lane is left.
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
        for i in range(n_columns, n_present):  # columns are overwritten
            codes[present[i]] = codes_high[present[i]] = 0
        if ranged:
            n = np.uint64(write_distinct(found[:n], out, offsets[event - first]))
        event += 1
        offsets[event - first] = n
    return event
