"""The k best (section VI): the stretches that can bring most first, until the others cannot."""

from __future__ import annotations

import numpy as np

from tocsin.index.accept import holds_within
from tocsin.index.finish import EventWeights, keep, score
from tocsin.index.keyed.layout import Layout
from tocsin.index.keyed.matching import AT_ONCE, code_event, first_above, rest_holds
from tocsin.jit import Float64Out, Int32Out, Int64Out, UInt8s, kernel, prefetch, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import Keys, blank, load, unload


@step
def passing_bound(
    begin, end, code, line, last, high, second, second_low, second_high, most, least, passed
):
    """Like `passing`, and whose bound is not below `least`."""
    n = np.uint64(0)
    for j in range(np.uint64(begin), np.uint64(end)):
        a = second[j]
        passed[n] = np.int32(j)
        n += np.uint64(
            (high[j] >= code)
            & (second_low[j] <= last[a])
            & (line[a] <= second_high[j])
            & (most[j] >= least)
        )
    return np.int64(n)


@step
def below(score, greatest):
    """Return the sum of weights below which no conjunction comes up to a score; -1 if any may.

    With weights so large that scores are infinite, all may.
    """
    return score / greatest if greatest > 0.0 and score < np.inf else -1.0


@kernel
def rank(
    g: Layout,
    c: Conjunctions,
    removed: UInt8s,
    single: bool,
    keys: Keys,
    schema_width: int,
    first: int,
    events: int,
    before: int,
    event_weights: EventWeights,
    k: int,
    sizes: Int64Out,
    rules: Int32Out,
    scores: Float64Out,
    seen: Int64Out,
) -> None:
    """Merge what holds into each event's list of its k best; see `Ranked.best`.

    `seen` counts the entries that passed key, second predicate and bound, and those that
    were evaluated predicate by predicate.
    """
    local, cut, cuts, run, begin, width = g.local, g.cut, g.cuts, g.run, g.begin, g.width
    low, high, second, second_low, second_high = (
        g.low, g.high, g.second, g.second_low, g.second_high
    )  # fmt: skip
    candidate, start, rows, most, heaviest = g.candidate, g.start, g.rows, g.most, g.heaviest
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
    attributes = run.shape[0] - 2
    schema_of = np.full(attributes + 1, -1, np.int32)
    for a in range(local.shape[0]):
        if local[a] >= 0:
            schema_of[local[a]] = a
    line = np.zeros(attributes + 1, np.uint16)
    last = np.zeros(attributes + 1, np.uint16) if ranged else line
    present = np.empty(attributes + 1, np.int32)
    listed = np.full(attributes + 1, -1, np.int64)
    listed_last = np.full(attributes + 1 if ranged else 0, -1, np.int64)
    passed = np.empty(AT_ONCE, np.int32)
    weights = common.copy()
    values = blank(schema_width)
    uppers = blank(schema_width) if ranged else values
    parts = np.empty(64, np.int64)
    some_removed, has_own = removed.shape[0] > 0, own.shape[0] > 0
    alone = single and not ranged  # a range may find several points of one set
    plain = not has_own
    for a in range(common.shape[0]):
        plain &= common[a] == 1.0
    for i in range(events):
        event = first + i
        several = code_event(
            columns, column_attribute, sparse, attribute, key, event, local, cut, cuts, line,
            present, listed,
        )  # fmt: skip
        if has_own:
            for j in range(own[before + i], own[before + i + 1]):
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
                cuts, last, present, listed_last,
            )  # fmt: skip
        present[several] = attributes
        # The stretches, those that may have the best first.
        several_parts = 0
        for p in range(several + 1):
            a = present[p]
            for r in range(run[a], run[a + 1]):
                if several_parts == parts.shape[0]:
                    more = np.empty(2 * several_parts, np.int64)
                    more[:several_parts] = parts
                    parts = more
                at = several_parts
                while at > 0 and heaviest[np.int32(parts[at - 1])] < heaviest[r]:
                    parts[at] = parts[at - 1]
                    at -= 1
                parts[at] = (np.int64(a) << 32) | np.int64(r)
                several_parts += 1
        base, size = i * k, sizes[i]
        loaded = False
        for p in range(several_parts):
            part_of, of_part = parts[p] >> 32, np.int64(np.int32(parts[p]))
            code = np.int64(line[part_of])
            # What falls below is strictly worse than the k-th best so far.
            least = below(scores[base + k - 1], greatest) if size == k else -1.0
            if heaviest[of_part] < least:
                break
            end = first_above(low, begin[of_part], begin[of_part + 1], np.int64(last[part_of]))
            at = first_above(low, begin[of_part], end, code - width[of_part] - 1)
            while at < end:
                upto = min(at + AT_ONCE, end)
                left = passing_bound(
                    at, upto, code, line, last, high, second, second_low, second_high, most, least,
                    passed,
                )  # fmt: skip
                seen[0] += left
                for q in range(left):
                    if q + 6 < left:
                        soon = candidate[passed[q + 6]]
                        prefetch(rows, np.int64(start[passed[q + 6]]))
                        prefetch(rule_of, np.int64(soon if soon >= 0 else ~soon))
                    e = np.uint64(passed[q])
                    if most[e] < least:
                        continue
                    if not rest_holds(start[e], start[e + np.uint64(1)], rows, line, last):
                        continue
                    found = candidate[e]
                    if found < 0:
                        found = ~found
                        if not loaded:
                            load(columns, column_attribute, sparse, attribute, key, event, values)
                            if ranged:
                                load(
                                    columns_high, column_attribute, sparse, attribute, key_high,
                                    event, uppers,
                                )  # fmt: skip
                            loaded = True
                        seen[1] += 1
                        true = True
                        for row in range(row_of[found], row_of[found + 1]):
                            if not holds_within(
                                kind[row], row_low[row], row_high[row], points,
                                values[tested[row]], uppers[tested[row]],
                            ):  # fmt: skip
                                true = False
                                break
                        if not true:
                            continue
                    if some_removed and removed[found] != 0:
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
                at = upto
        sizes[i] = size
        if loaded:
            unload(sparse, attribute, event, values)
            unload(sparse, attribute, event, uppers)
        if has_own:
            for j in range(own[before + i], own[before + i + 1]):
                weights[own_attribute[j]] = common[own_attribute[j]]
        for p in range(several):
            line[present[p]] = last[present[p]] = 0
