"""The k best (section VI): the stretches that can bring most first, until the others cannot."""

from __future__ import annotations

import numpy as np

from tocsin.index.accept import holds_within
from tocsin.index.finish import BestRules, EventWeights, is_removed, keep, score
from tocsin.index.keyed.lanes import HEAD, LANES, ROW, between, lowest, within
from tocsin.index.keyed.layout import Layout
from tocsin.index.keyed.matching import AHEAD, code_event, runs_of
from tocsin.jit import Int64Out, UInt8s, kernel, prefetch, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch, blank, load, unload

FEW = 32  # blocks that pass before they are looked at: what is found raises the bound


@step
def below(score, greatest):
    """Return the sum of weights below which no conjunction comes up to a score; -1 if any may.

    With weights so large that scores are infinite, all may.
    """
    return score / greatest if greatest > 0.0 and score < np.inf else -1.0


@step
def sift(parts, size, at, heaviest):
    """Move the run at a place of the heap down, until none below is heavier."""
    moved = parts[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heaviest[parts[child + 1]] > heaviest[parts[child]]:
            child += 1
        if heaviest[parts[child]] <= heaviest[moved]:
            break
        parts[at] = parts[child]
        at = child
    parts[at] = moved


@kernel
def rank(
    g: Layout,
    c: Conjunctions,
    batch: EventBatch,
    event_weights: EventWeights,
    removed: UInt8s,
    best: BestRules,
    seen: Int64Out,
) -> None:
    """Merge what holds into each event's list of its k best; see `PruningIndex.best`.

    `seen` counts the entries that passed all codes and the bound, and those that were evaluated
    predicate by predicate.
    """
    local, cut, cuts, row, pair, run = g.local, g.cut, g.cuts, g.row, g.pair, g.run
    under, span, shift, spans = g.under, g.span, g.shift, g.spans
    heads, start, rows = g.heads, g.start, g.rows
    heaviest, peak, most, candidate = g.heaviest, g.peak, g.most, g.candidate
    keys, first, schema_width = batch.keys, batch.first, batch.width
    k, unique, sizes, rules, scores = best.k, best.unique, best.sizes, best.rules, best.scores
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    row_of, tested, kind, row_low, row_high = c.offsets, c.attribute, c.kind, c.low, c.high
    points, weight, rule_of = c.points, c.weight, c.rule
    own, own_attribute, own_weight = (
        event_weights.offsets, event_weights.attribute, event_weights.weight
    )  # fmt: skip
    common = event_weights.common
    attributes = row.shape[0]
    schema_of = np.full(attributes + 1, -1, np.int32)
    for a in range(local.shape[0]):
        if local[a] >= 0:
            schema_of[local[a]] = a
    line = np.zeros(attributes + 1, np.uint16)
    last = np.zeros(attributes + 1, np.uint16) if ranged else line
    present = np.empty(attributes + 1, np.int32)
    listed = np.full(attributes + 1, -1, np.int64)
    listed_last = np.full(attributes + 1 if ranged else 0, -1, np.int64)
    wanted, low, length = (
        np.empty(attributes + 1, np.int64), np.empty(attributes + 1, np.int64),
        np.empty(attributes + 1, np.int64),
    )  # fmt: skip
    parts = np.empty(under.shape[0], np.int32)
    passed, alive = np.empty(FEW, np.int32), np.empty(FEW, np.uint8)
    weights = common.copy()
    values = blank(schema_width)
    uppers = blank(schema_width) if ranged else values
    some_removed, has_own = removed.shape[0] > 0, own.shape[0] > 0
    alone = unique and not ranged  # a range may find several points of one set
    plain = not has_own
    for a in range(common.shape[0]):
        plain &= common[a] == 1.0
    for i in range(batch.stop - first):
        event = first + i
        several = code_event(
            columns, column_attribute, sparse, attribute, key, event, local, cut, cuts, line,
            present, listed, wanted, low, length,
        )  # fmt: skip
        if has_own:
            for j in range(own[i], own[i + 1]):
                weights[own_attribute[j]] = own_weight[j]
        greatest = 1.0
        if not plain:
            # Bounds are times the greatest weight, and a little more for sums that round.
            greatest = 0.0
            for j in range(several):
                greatest = max(greatest, weights[schema_of[present[j]]])
            greatest *= 1.0000001
        if ranged:
            code_event(
                columns_high, column_attribute, sparse, attribute, key_high, event, local, cut,
                cuts, last, present, listed_last, wanted, low, length,
            )  # fmt: skip
        present[several] = attributes
        # The runs, those that may have the best first: a heap.
        several_parts = runs_of(several, present, last, row, pair, run, parts)
        for p in range(several_parts):
            r = parts[p]
            prefetch(spans, span[r] + 2 * np.int64(line[under[r]] >> shift[r]))
        for p in range(several_parts):
            r = parts[p]
            at = np.int64(spans[span[r] + 2 * np.int64(line[under[r]] >> shift[r])])
            prefetch(heads, at * HEAD)
            prefetch(heads, at * HEAD + 32)
        for parent in range(several_parts // 2 - 1, -1, -1):
            sift(parts, several_parts, parent, heaviest)
        base, size = i * k, sizes[i]
        # What falls below is strictly worse than the k-th best so far.
        least = below(scores[base + k - 1], greatest) if size == k else -1.0
        loaded = False
        code = code_last = np.uint16(0)
        at = end = np.int64(0)
        while True:
            # A few blocks with a lane whose key and second predicate hold, and whose bound will do
            left = np.uint64(0)
            while left < FEW:
                if at >= end:
                    if several_parts == 0 or heaviest[parts[0]] < least:
                        break
                    r = parts[0]
                    several_parts -= 1
                    parts[0] = parts[several_parts]
                    sift(parts, several_parts, 0, heaviest)
                    code, code_last = line[under[r]], last[under[r]]
                    at = np.int64(spans[span[r] + 2 * np.int64(code >> shift[r])])
                    end = np.int64(spans[span[r] + 2 * np.int64(code_last >> shift[r]) + 1])
                upto = min(end, at + np.int64(FEW - left))
                for block in range(np.uint64(at), np.uint64(max(at, upto))):
                    head = block * np.uint64(HEAD)
                    bits = between(heads, head, code, code_last)
                    bits &= within(heads, head + np.uint64(2 * LANES), line, last, ranged)
                    passed[left], alive[left] = np.int32(block), np.uint8(bits)
                    left += np.uint64((bits != 0) & (peak[block] >= least))
                at = upto
            if left == 0:
                break
            for p in range(left):
                if p + np.uint64(AHEAD) < left:
                    soon = passed[p + np.uint64(AHEAD)]
                    prefetch(most, np.int64(soon) * LANES)
                    prefetch(candidate, np.int64(soon) * LANES)
                    for word in range(start[soon], start[soon + 1], 32):
                        prefetch(rows, np.int64(word))
                here, bits = np.uint64(passed[p]), np.uint64(alive[p])
                for lane in range(LANES):
                    heavy = most[here * np.uint64(LANES) + np.uint64(lane)] >= least
                    bits &= ~(np.uint64(not heavy) << np.uint64(lane))
                at_row, end_row = np.uint64(start[here]), np.uint64(start[here + np.uint64(1)])
                while bits != 0 and at_row < end_row:
                    bits &= within(rows, at_row, line, last, ranged)
                    at_row += np.uint64(ROW)
                while bits != 0:
                    e = here * np.uint64(LANES) + lowest(bits)
                    bits &= bits - np.uint64(1)
                    if most[e] < least:
                        continue
                    seen[0] += 1
                    found = candidate[e]
                    if found < 0:
                        found = ~found
                        if not loaded:
                            load(
                                columns, column_attribute, sparse, attribute, key, event,
                                values,
                            )  # fmt: skip
                            if ranged:
                                load(
                                    columns_high, column_attribute, sparse, attribute,
                                    key_high, event, uppers,
                                )  # fmt: skip
                            loaded = True
                        seen[1] += 1
                        true = True
                        for each in range(row_of[found], row_of[found + 1]):
                            if not holds_within(
                                kind[each], row_low[each], row_high[each], points,
                                values[tested[each]], uppers[tested[each]],
                            ):  # fmt: skip
                                true = False
                                break
                        if not true:
                            continue
                    if some_removed and is_removed(removed, found):
                        continue
                    value = most[e]
                    if not (plain and value < np.inf):
                        value = score(
                            tested, kind, row_high, weight, row_of[found], row_of[found + 1],
                            weights,
                        )  # fmt: skip
                    size = keep(rule_of[found], value, alone, k, base, size, rules, scores)
                    if size == k:
                        least = below(scores[base + k - 1], greatest)
        sizes[i] = size
        if loaded:
            unload(sparse, attribute, event, values)
            unload(sparse, attribute, event, uppers)
        if has_own:
            for j in range(own[i], own[i + 1]):
                weights[own_attribute[j]] = common[own_attribute[j]]
        for p in range(several):
            line[present[p]] = last[present[p]] = 0
