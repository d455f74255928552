"""The k best (section VI): p-nodes in the order of their bounds, until none left is high enough.

With the paper's summaries (`summaries`), the bound of a node is `upper_score`. By default, a node
has only two numbers: a conjunction that holds scores at most the sum of its weights, times the
greatest weight that the event has for an attribute that can count. It also scores at most the sum
of its weights times the usual ones, times the greatest ratio of an event's weight to the usual one.
The lesser of the two is the bound; that of a bucket is computed from the greatest sums below it
(`Tree.max_sums`). The first is exact where the event's weights are all equal, the second where they
are as the rules' are. A rule's own score counts like the weight of an attribute for which every
event has weight 1, and bounds that of summaries, too. Summaries for each attribute prune more: at
50,000 rules, an event looks at 265 members instead of 429 for the best rule (Zipf), at 303 instead
of 501 (author), and at 35 instead of 52 (title, 40,000 rules). But a leaf has a handful of members
and some 40 attributes, so computing a bound costs more than it saves: finding the best rule takes 3
to 4 times as long. Hence two numbers are the default.

Any monotonic score can be pruned in this way (footnote 3). A score is defined by a function
`combine(total, product)`. Starting from 0, it is applied to each product of rule weight and event
weight, in attribute order. Products of 0 are skipped. The bound of a node is the same function of
the greatest weights below it. It is a bound if `combine` never returns less than `total`, and never
less for a greater total or product: then neither more attributes nor greater weights can lower a
score. The function is compiled by itself and called by its address, so kernels are compiled once
for all scores. Sums are not called but added in place, which keeps them fast. The two numbers above
bound sums alone, so other scores prune only with the paper's summaries, and without them visit all
that the event reaches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tocsin.errors import RuleError
from tocsin.index.bestar.layout import (
    ATTRIBUTE,
    BELOW,
    BUCKET,
    BUCKETS,
    DIRECTORY,
    LEAF,
    LEFT,
    LONGEST_LEAF,
    NODES,
    OWN,
    PNODE,
    PNODES,
    RIGHT,
    ROOT,
    SIZE,
    SUMMARY,
    USUAL_SCALE,
    Tree,
)
from tocsin.index.bestar.matching import (
    AHEAD,
    blank_shifted,
    first_failed,
    list_followed,
    list_present,
    meets_bucket,
    prefetch_rows,
)
from tocsin.index.bestar.summaries import summarises, summary_below, upper_score
from tocsin.index.finish import BestRules, EventWeights, is_removed, keep, score
from tocsin.jit import UInt8s, bare_step, call_pair, compile_pair, kernel, prefetch
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import NULL
from tocsin.model.facts import adds_to_score, has_own_score
from tocsin.model.keys import EventBatch, load, unload

_SLACK = 1e-9  # a sum in another order may be greater by rounding,
_TINY = 1e-300  # also where products underflow
FAILED = -1
_SHARES = (0.001, 0.3, 0.5, 0.9, 1.0)  # of the greatest product: what a score is tested with
_LEAST_WEIGHT = 1e-200  # a smaller weight counts as this where it is divided


def compile_score(combine: Callable[[float, float], float], greatest: float) -> int:
    """Compile the function of a monotonic score, for products up to `greatest`; return its address.

    Raise a RuleError if it cannot be compiled or is found not to be monotonic. Only sample values
    are tested, so some functions that are not monotonic are accepted.
    """
    try:
        address = compile_pair(combine)
    except Exception as error:  # Numba has many
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RuleError(
            "combine must be a Python function of two floats that Numba can compile, such as "
            f"lambda total, product: max(total, product); got {combine!r}: {reason}"
        ) from error
    if greatest == 0:
        return address  # no product counts
    products = [greatest * share for share in _SHARES]
    try:
        totals = sorted({0.0, *products, *(combine(p, greatest) for p in (0.0, *products))})
        table = np.array([[combine(t, p) for p in products] for t in totals], np.float64)
    except Exception as error:
        raise RuleError(
            "combine(total, product) must return a number for all totals and products; it raised "
            f"{type(error).__name__}: {error}"
        ) from error
    slack = _SLACK * np.abs(table)  # as bounds have
    rises = (
        (np.diff(table, axis=0) >= -slack[1:]).all()
        and (np.diff(table, axis=1) >= -slack[:, 1:]).all()
        and (table - np.array(totals)[:, None] >= -slack).all()
    )
    if not rises:
        raise RuleError(
            "combine(total, product) must be monotonic: never less than total, and never "
            f"decreasing in either argument. It is not, for products up to {greatest:g} (the "
            "greatest weight of a rule times the greatest of an event)"
        )
    return address


@bare_step
def upper_bound(max_sums, b, greatest, ratio):
    """Return what no conjunction below a bucket scores more than, rounding included."""
    by_one, by_usual = max_sums[2 * b] * greatest, max_sums[2 * b + 1] * ratio
    if by_one != by_one or by_usual < by_one:  # infinity times 0 says nothing
        by_one = by_usual
    return round_up(by_one)


@bare_step
def round_up(bound):
    """Return a bound that holds for sums in every order, however they are rounded."""
    bound = bound * (1.0 + _SLACK) + _TINY
    return bound if bound == bound else np.inf


@bare_step
def weight_ratio(usual_weight, weight):
    """Return how many times the usual weight an event's is, in full precision."""
    return max(weight, _LEAST_WEIGHT) / usual_weight


@bare_step
def combined_score(attribute, kind, high, weight, own_score, rows, number, weights, combine):
    """Return the score of a conjunction by another function than the sum; see `finish.score`."""
    if has_own_score(own_score, number):
        return own_score[number]
    begin, stop = rows[number], rows[number + 1]
    total = 0.0
    for row in range(begin, stop):
        if adds_to_score(attribute, kind, high, begin, row):
            product = (weight[row] if weight.shape[0] > 0 else 1.0) * weights[attribute[row]]
            if product > 0:
                total = call_pair(combine, total, product)
    return total


@bare_step
def push(bounds, nodes, size, value, node):
    """Put a p-node into the heap; the first has the greatest bound."""
    i = size
    while i > 0 and bounds[(i - 1) >> 1] < value:
        bounds[i], nodes[i] = bounds[(i - 1) >> 1], nodes[(i - 1) >> 1]
        i = (i - 1) >> 1
    bounds[i], nodes[i] = value, node


@bare_step
def pop(bounds, nodes, size):
    """Take the first p-node off a heap of `size`, and return it."""
    first = nodes[0]
    value, node = bounds[size - 1], nodes[size - 1]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and bounds[child + 1] > bounds[child]:
            child += 1
        if bounds[child] <= value:
            break
        bounds[i], nodes[i] = bounds[child], nodes[child]
        i = child
    bounds[i], nodes[i] = value, node
    return first


@kernel
def find_best(
    t: Tree,
    c: Conjunctions,
    batch: EventBatch,
    event_weights: EventWeights,
    removed: UInt8s,
    best: BestRules,
    combine: int,
) -> tuple[int, int]:
    """Merge what holds into each event's list of the k best; see `PruningIndex.best`.

    Algorithm 6, with one heap for all levels, which is what its recursion amounts to. Return how
    many members were in the leaves visited, and how many of these were evaluated. `combine` is the
    address of a function that scores (`jit.compile_pair`), or 0 for the sum. If it returns NaN,
    return FAILED twice; the lists are then worth nothing.
    """
    bucket, pnode, target, required = t.bucket, t.pnode, t.target, t.required
    only_intervals, max_sums = t.only_intervals, t.max_sums
    usual_weight, scored_when_null = t.usual_weight, t.scored_when_null
    rows, tested, kind, low, high, points = (
        c.offsets, c.attribute, c.kind, c.low, c.high, c.points
    )  # fmt: skip
    rule_of, weight_of, own_score = c.rule, c.weight, c.score
    keys, width, first = batch.keys, batch.width, batch.first
    k, unique, sizes, rules, scores = best.k, best.unique, best.sizes, best.rules, best.scores
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    own, own_attribute, own_weight = (
        event_weights.offsets, event_weights.attribute, event_weights.weight
    )  # fmt: skip
    common = event_weights.common
    weights = common.copy()
    shifted = blank_shifted(width)
    shifted_high = blank_shifted(width) if ranged else shifted
    values, values_high = shifted[1:], shifted_high[1:]
    marked, present = np.zeros(width + 1, np.uint8), np.empty(width + 1, np.int64)
    entries = np.empty(width + 1, np.int64)
    stack = np.empty(t.state[BUCKETS] + 2, np.int64)
    maybe = np.empty(t.state[LONGEST_LEAF] + 1, np.int64)  # members of a leaf that may hold
    bounds = np.empty(t.state[PNODES] + 1, np.float64)
    waiting = np.empty(t.state[PNODES] + 1, np.int64)  # a heap of p-nodes, by bounds
    # For summaries: the weights of an event for the attributes that can count for it, else 0, and
    # a list of these attributes.
    summary, summary_attribute, summary_weight = t.summary, t.summary_attribute, t.summary_weight
    summarised = summarises(t)
    own_weights, scoring = np.zeros(width), np.empty(width, np.int64)
    null_greatest, null_ratio = 0.0, 0.0  # of attributes that score where an event is null
    has_own_scores = own_score.shape[0] > 0
    if has_own_scores:  # what a score of its own is multiplied with; see `score_sums`
        null_greatest, null_ratio = 1.0, 1.0 / USUAL_SCALE
    nulls, n_nulls = np.empty(scored_when_null.shape[0], np.int64), 0
    for a in range(scored_when_null.shape[0]):
        if scored_when_null[a] != 0:
            nulls[n_nulls] = a
            n_nulls += 1
            null_greatest = max(null_greatest, common[a])
            null_ratio = max(null_ratio, weight_ratio(usual_weight[a], common[a]))
    any_removed, has_own = removed.shape[0] > 0, own.shape[0] > 0
    visited = evaluated = 0
    for e in range(batch.stop - first):
        event = first + e
        load(columns, column_attribute, sparse, attribute, key, event, values)
        if ranged:
            load(columns_high, column_attribute, sparse, attribute, key_high, event, values_high)
        n_present = list_present(
            column_attribute, sparse, attribute, event, shifted, marked, present
        )  # fmt: skip
        greatest, ratio = null_greatest, null_ratio
        if has_own:
            for i in range(own[e], own[e + 1]):
                a = own_attribute[i]
                weights[a] = own_weight[i]
                if a < scored_when_null.shape[0] and scored_when_null[a] != 0:
                    greatest = max(greatest, weights[a])
                    ratio = max(ratio, weight_ratio(usual_weight[a], weights[a]))
        for i in range(n_present):
            a = present[i] - 1
            if a < usual_weight.shape[0] and usual_weight[a] > 0:  # else no conjunction tests it
                greatest = max(greatest, weights[a])
                ratio = max(ratio, weight_ratio(usual_weight[a], weights[a]))
        n_scoring = 0
        if summarised:
            for i in range(n_present + n_nulls):
                a = present[i] - 1 if i < n_present else nulls[i - n_present]
                if a < usual_weight.shape[0] and own_weights[a] != weights[a]:
                    own_weights[a] = weights[a]
                    scoring[n_scoring] = a
                    n_scoring += 1
        base, size = e * k, sizes[e]
        n_waiting = 0
        active = np.int64(0)
        stack[0] = 0
        height = 1
        while True:
            # The c-directory of one p-node; at first the root.
            while height > 0:
                height -= 1
                b = stack[height]
                at = b * BUCKET
                if active > 0 and not meets_bucket(
                    bucket, at, shifted[active], shifted_high[active]
                ):
                    continue
                # Only what is strictly worse is skipped: the bucket, or only its leaf.
                leaf, members = bucket[at + LEAF], bucket[at + SIZE]
                if size == k:
                    if summarised:
                        highest = round_up(
                            upper_score(
                                summary, summary_attribute, summary_weight,
                                summary_below(summary, b), own_weights, scoring, n_scoring, combine,
                            )
                        )  # fmt: skip
                        if has_own_scores:
                            highest = max(highest, max_sums[2 * b])
                    elif combine == 0:
                        highest = upper_bound(max_sums, b, greatest, ratio)
                    else:
                        highest = np.inf
                    if b > 0 and highest < scores[base + k - 1]:
                        continue
                    if summarised and members > 0 and (b == 0 or summary[b * SUMMARY + BELOW] >= 0):
                        highest = round_up(
                            upper_score(
                                summary, summary_attribute, summary_weight, b * SUMMARY + OWN,
                                own_weights, scoring, n_scoring, combine,
                            )
                        )  # fmt: skip
                        if has_own_scores:
                            highest = max(highest, max_sums[2 * b])
                        if highest < scores[base + k - 1]:
                            members = 0
                visited += members
                n_maybe = 0
                for i in range(leaf, leaf + members):
                    if shifted[required[i]] == NULL:
                        continue
                    if any_removed and is_removed(removed, target[i]):
                        continue
                    prefetch(rows, np.int64(target[i]))
                    maybe[n_maybe] = target[i]
                    n_maybe += 1
                evaluated += n_maybe
                for i in range(n_maybe + AHEAD):
                    if i < n_maybe:
                        prefetch_rows(only_intervals, tested, low, high, maybe[i], rows[maybe[i]])
                    if i < AHEAD:
                        continue
                    number = maybe[i - AHEAD]
                    begin, end = rows[number], rows[number + 1]
                    holds = True  # see `propose`
                    if only_intervals[number] != 0:
                        for row in range(begin, end):
                            a = tested[row]
                            if not (low[row] <= values_high[a] and values[a] <= high[row]):
                                holds = False
                                break
                    else:
                        failed = first_failed(
                            tested, kind, low, high, points, begin, end, values, values_high
                        )  # fmt: skip
                        holds = failed == end
                    if holds:
                        if combine == 0:
                            value = score(
                                tested,
                                kind,
                                high,
                                weight_of,
                                own_score,
                                rows,
                                np.int64(number),
                                weights,
                            )
                        else:
                            value = combined_score(
                                tested, kind, high, weight_of, own_score, rows, np.int64(number),
                                weights, combine,
                            )  # fmt: skip
                            if value != value:
                                return FAILED, FAILED
                        size = keep(rule_of[number], value, unique, k, base, size, rules, scores)
                for side in (LEFT, RIGHT):
                    if bucket[at + side] >= 0:
                        prefetch(bucket, bucket[at + side] * BUCKET)
                        stack[height] = bucket[at + side]
                        height += 1
                start, nodes = bucket[at + DIRECTORY], bucket[at + NODES]
                for i in range(
                    list_followed(required, start, nodes, shifted, present, n_present, entries)
                ):
                    p = np.int64(target[entries[i]])
                    root = pnode[p * PNODE + ROOT]
                    if summarised:
                        highest = round_up(
                            upper_score(
                                summary, summary_attribute, summary_weight,
                                summary_below(summary, root), own_weights, scoring, n_scoring,
                                combine,
                            )
                        )  # fmt: skip
                        if has_own_scores:
                            highest = max(highest, max_sums[2 * root])
                    elif combine == 0:
                        highest = upper_bound(max_sums, root, greatest, ratio)
                    else:
                        highest = np.inf
                    if size < k or highest >= scores[base + k - 1]:
                        prefetch(bucket, root * BUCKET)
                        push(bounds, waiting, n_waiting, highest, p)
                        n_waiting += 1
            if n_waiting == 0 or (size == k and bounds[0] < scores[base + k - 1]):
                break
            p = pop(bounds, waiting, n_waiting)
            n_waiting -= 1
            active = pnode[p * PNODE + ATTRIBUTE] + 1
            stack[0] = pnode[p * PNODE + ROOT]
            height = 1
        sizes[e] = size
        for i in range(n_scoring):
            own_weights[scoring[i]] = 0.0
        if has_own:
            for i in range(own[e], own[e + 1]):
                weights[own_attribute[i]] = common[own_attribute[i]]
        unload(sparse, attribute, event, values)
        unload(sparse, attribute, event, values_high)
    return visited, evaluated
