"""The k best (section VI): runs in the order of their bounds, until none left is high enough."""

from __future__ import annotations

import numpy as np

from tocsin.index.accept import holds_within
from tocsin.index.finish import BestRules, EventWeights, is_removed, keep, score
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
    add_bucket,
    find_buckets,
    find_buckets_of_columns,
    find_buckets_of_ranges,
    find_run_blocks,
    list_runs,
)
from tocsin.jit import UInt8s, bare_step, kernel, prefetch, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch, blank, load, unload

# Blocks that pass before their entries are scored. Chosen: few, because each score that is found
# raises the bound for the following blocks.
_MOST_PASSED = 32
_SLACK = 1.0000001  # larger than rounding errors in sums of weights


@step
def least_sum(score, greatest):
    """Return the sum of weights below which no conjunction reaches a score; -1 if any may.

    `greatest` is the greatest weight of the event. If scores are infinite, any may.
    """
    return score / greatest if greatest > 0.0 and score < np.inf else -1.0


@bare_step
def sift_down(order, size, at, bounds):
    """Move a run down the heap until no run below has a greater bound."""
    moved = order[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and bounds[order[child + 1]] > bounds[order[child]]:
            child += 1
        if bounds[order[child]] <= bounds[moved]:
            break
        order[at] = order[child]
        at = child
    order[at] = moved


@kernel
def find_best(
    g: Layout,
    c: Conjunctions,
    batch: EventBatch,
    event_weights: EventWeights,
    removed: UInt8s,
    best: BestRules,
) -> tuple[int, int]:
    """Merge conjunctions that hold into each event's list of k best; see `PruningIndex.best`.

    Return how many entries passed all codes and the bound, and how many of these were evaluated
    predicate by predicate.
    """
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
    run_bound, block_bound, entry_bound = g.run_bound, g.block_bound, g.entry_bound
    keys, first = batch.keys, batch.first
    k, unique, sizes, rules, scores = best.k, best.unique, best.sizes, best.rules, best.scores
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    has_sparse = sparse.shape[0] > 0
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    predicates, tested, kind, points = c.offsets, c.attribute, c.kind, c.points
    tested_low, tested_high, weight, rule_of = c.low, c.high, c.weight, c.rule
    own_score = c.score
    own, own_attribute, own_weight = (
        event_weights.offsets, event_weights.attribute, event_weights.weight
    )  # fmt: skip
    common = event_weights.common
    attributes, all_runs, sets = pair_start.shape[0], key_attribute.shape[0], slot_start.shape[0]
    column = np.empty(column_attribute.shape[0], np.int64)
    column_local = np.empty(column_attribute.shape[0], np.int32)
    n_columns = find_columns(column_attribute, local, column, column_local)
    column_codes = np.empty(n_columns * CHUNK, np.uint16)
    column_codes_high = np.empty(n_columns * CHUNK if ranged else 0, np.uint16)
    schema_number = np.full(attributes + 1, -1, np.int32)
    for a in range(local.shape[0]):
        if local[a] >= 0:
            schema_number[local[a]] = a
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
    runs, order = np.empty(room, np.int32), np.empty(room, np.int32)
    bounds = np.empty(room, np.float64)
    buckets = np.empty(sets * CHUNK, np.int64)
    begin, end = np.empty(room, np.int32), np.empty(room, np.int32)
    code_low, code_high = np.empty(room, np.uint16), np.empty(room, np.uint16)
    passed, passed_lanes = np.empty(_MOST_PASSED, np.int32), np.empty(_MOST_PASSED, np.uint8)
    weights = common.copy()
    values = blank(batch.width)
    values_high = blank(batch.width) if ranged else values
    any_removed, has_own = removed.shape[0] > 0, own.shape[0] > 0
    offered_once = unique and not ranged  # a range may find several points of one set
    all_ones = not has_own
    for a in range(common.shape[0]):
        all_ones &= common[a] == 1.0
    candidates = evaluated = 0
    for i in range(batch.stop - first):
        event = first + i
        if i % CHUNK == 0:
            coded = min(event + CHUNK, batch.stop)
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
        at = i % CHUNK
        n_present = n_columns
        for j in range(n_columns):
            codes[column_local[j]] = column_codes[j * CHUNK + at]
        if has_sparse:
            n_present = code_sparse_values(
                n_columns, sparse, attribute, key, event, local, cut_offsets, cuts, codes, present,
                last_event, value, low, length,
            )  # fmt: skip
        if has_own:
            for j in range(own[i], own[i + 1]):
                weights[own_attribute[j]] = own_weight[j]
        greatest = 1.0
        if not all_ones:
            greatest = 0.0 if own_score.shape[0] == 0 else 1.0  # own scores are not multiplied
            for j in range(n_present):
                greatest = max(greatest, weights[schema_number[present[j]]])
            greatest *= _SLACK
        if ranged:
            for j in range(n_columns):
                codes_high[column_local[j]] = column_codes_high[j * CHUNK + at]
            if has_sparse:
                code_sparse_values(
                    n_columns, sparse, attribute, key_high, event, local, cut_offsets, cuts,
                    codes_high, present, last_event_high, value, low, length,
                )  # fmt: skip
        present[n_present] = attributes
        n_runs = list_runs(
            n_present, present, codes_high, pair_start, pair_shelf, run_offsets, runs
        )  # fmt: skip
        find_run_blocks(
            n_runs, runs, codes, codes_high, key_attribute, span_start, span_shift, spans, heads,
            1, begin, end, code_low, code_high,
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
            for j in range(sets):
                bucket = buckets[j * CHUNK + at]
                if bucket < 0:
                    continue
                one, two = codes[gate_attribute[2 * bucket]], codes[gate_attribute[2 * bucket + 1]]
                if (
                    gate[4 * bucket] <= one <= gate[4 * bucket + 1]
                    and gate[4 * bucket + 2] <= two <= gate[4 * bucket + 3]
                ):
                    n_runs = add_bucket(
                        n_runs, bucket, all_runs + j, bucket_lane, runs, begin, end, code_low,
                        code_high,
                    )  # fmt: skip
        for p in range(n_runs):
            order[p], bounds[p] = p, run_bound[runs[p]]
        for parent in range(n_runs // 2 - 1, -1, -1):
            sift_down(order, n_runs, parent, bounds)
        base, size = i * k, sizes[i]
        # Anything below is strictly worse than the k-th best so far.
        least = least_sum(scores[base + k - 1], greatest) if size == k else -1.0
        loaded = False
        from_code = to_code = np.uint16(0)
        next_block = end_block = np.int64(0)  # of the current run
        while True:
            # First a few blocks with a lane whose key and second predicate hold, and whose bound
            # is high enough.
            n_passed = np.uint64(0)
            while n_passed < _MOST_PASSED:
                if next_block >= end_block:
                    if n_runs == 0 or bounds[order[0]] < least:
                        break
                    r = order[0]
                    n_runs -= 1
                    order[0] = order[n_runs]
                    sift_down(order, n_runs, 0, bounds)
                    from_code, to_code = code_low[r], code_high[r]
                    next_block, end_block = np.int64(begin[r]), np.int64(end[r])
                upto = min(end_block, next_block + np.int64(_MOST_PASSED - n_passed))
                for block in range(np.uint64(next_block), np.uint64(max(next_block, upto))):
                    head = block * np.uint64(HEAD)
                    lanes = meeting_lanes(heads, head, from_code, to_code)
                    lanes &= satisfied_lanes(
                        heads, head + np.uint64(2 * LANES), codes, codes_high, ranged
                    )
                    passed[n_passed], passed_lanes[n_passed] = np.int32(block), np.uint8(lanes)
                    n_passed += np.uint64((lanes != 0) & (block_bound[block] >= least))
                next_block = upto
            if n_passed == 0:
                break
            # Then their entries, which may raise the bound.
            for p in range(n_passed):
                if p + np.uint64(AHEAD) < n_passed:
                    ahead = passed[p + np.uint64(AHEAD)]
                    prefetch(entry_bound, np.int64(ahead) * LANES)
                    prefetch(candidate, np.int64(ahead) * LANES)
                    for word in range(row_offsets[ahead], row_offsets[ahead + 1], CACHE_LINE):
                        prefetch(rows, np.int64(word))
                here, lanes = np.uint64(passed[p]), np.uint64(passed_lanes[p])
                for lane in range(LANES):
                    enough = entry_bound[here * np.uint64(LANES) + np.uint64(lane)] >= least
                    lanes &= ~(np.uint64(not enough) << np.uint64(lane))
                row, end_row = (
                    np.uint64(row_offsets[here]), np.uint64(row_offsets[here + np.uint64(1)])
                )  # fmt: skip
                while lanes != 0 and row < end_row:
                    lanes &= satisfied_lanes(rows, row, codes, codes_high, ranged)
                    row += np.uint64(ROW)
                while lanes != 0:
                    entry = here * np.uint64(LANES) + lowest_lane(lanes)
                    lanes &= lanes - np.uint64(1)
                    if entry_bound[entry] < least:
                        continue
                    candidates += 1
                    number = candidate[entry]
                    if number < 0:
                        number = ~number
                        if not loaded:
                            load(
                                columns, column_attribute, sparse, attribute, key, event,
                                values,
                            )  # fmt: skip
                            if ranged:
                                load(
                                    columns_high, column_attribute, sparse, attribute,
                                    key_high, event, values_high,
                                )  # fmt: skip
                            loaded = True
                        evaluated += 1
                        true = True
                        for each in range(predicates[number], predicates[number + 1]):
                            if not holds_within(
                                kind[each], tested_low[each], tested_high[each], points,
                                values[tested[each]], values_high[tested[each]],
                            ):  # fmt: skip
                                true = False
                                break
                        if not true:
                            continue
                    if any_removed and is_removed(removed, number):
                        continue
                    relevance = entry_bound[entry]
                    if not (all_ones and relevance < np.inf):
                        relevance = score(
                            tested, kind, tested_high, weight, own_score, predicates,
                            np.int64(number), weights,
                        )  # fmt: skip
                    size = keep(
                        rule_of[number], relevance, offered_once, k, base, size, rules, scores
                    )  # fmt: skip
                    if size == k:
                        least = least_sum(scores[base + k - 1], greatest)
        sizes[i] = size
        if loaded:
            unload(sparse, attribute, event, values)
            unload(sparse, attribute, event, values_high)
        if has_own:
            for j in range(own[i], own[i + 1]):
                weights[own_attribute[j]] = common[own_attribute[j]]
        for p in range(n_columns, n_present):  # columns are overwritten
            codes[present[p]] = codes_high[present[p]] = 0
    return candidates, evaluated
