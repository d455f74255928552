"""The k best (section VI): p-nodes in the order of what they can promise, until that is too little.

A conjunction that holds scores at most the sum of its weights times the greatest weight that the
event gives to an attribute that can count; so does all below a bucket, by the greatest such sum
(`Tree.most`). It also scores at most the sum of its weights times the usual ones, times the
greatest ratio of an event's weight to the usual one. The less of the two is the bound. Unlike the
paper's summaries, a weight for each attribute in every node, these are two numbers a node; the
one is exact where the event's weights are all alike, the other where they are as the rules' are.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.layout import (
    ATTRIBUTE,
    BUCKET,
    BUCKETS,
    DIRECTORY,
    LEAF,
    LEFT,
    LONGEST,
    NODES,
    PNODE,
    PNODES,
    RIGHT,
    ROOT,
    SIZE,
    Tree,
)
from tocsin.index.bestar.matching import (
    AHEAD,
    ask_for,
    blank_line,
    list_followed,
    list_present,
    meets,
    satisfied,
)
from tocsin.index.finish import BestRules, EventWeights, is_removed, keep, score
from tocsin.jit import Int64Out, UInt8s, kernel, prefetch, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import NULL
from tocsin.model.keys import EventBatch, load, unload

_SLACK = 1e-9  # a sum in another order may be greater by rounding,
_TINY = 1e-300  # also where products underflow
_LEAST = 1e-200  # a smaller weight counts as this where it is divided


@step
def bound(most, b, greatest, ratio):
    """Return what no conjunction below a bucket scores more than, rounding included."""
    plain, by_usual = most[2 * b] * greatest, most[2 * b + 1] * ratio
    if plain != plain or by_usual < plain:  # infinity times 0 says nothing
        plain = by_usual
    product = plain * (1.0 + _SLACK) + _TINY
    return product if product == product else np.inf


@step
def ratio_to(usual, weight):
    """Return how many times the usual weight an event's is, in full precision."""
    return max(weight, _LEAST) / usual


@step
def push(bounds, nodes, size, value, node):
    """Put a p-node into the heap; the first has the greatest bound."""
    i = size
    while i > 0 and bounds[(i - 1) >> 1] < value:
        bounds[i], nodes[i] = bounds[(i - 1) >> 1], nodes[(i - 1) >> 1]
        i = (i - 1) >> 1
    bounds[i], nodes[i] = value, node


@step
def pop(bounds, nodes, size):
    """Take the first p-node off a heap of so many, and return it."""
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
    counters: Int64Out,
) -> None:
    """Merge what holds into each event's list of the k best; see `PruningIndex.best`.

    Algorithm 6, with one heap for all levels, which is what its recursion amounts to.
    """
    bucket, pnode, target, need, plain = t.bucket, t.pnode, t.target, t.need, t.plain
    most, usual, tolerant = t.most, t.usual, t.tolerant
    rows, of, kind, low, high, points = c.offsets, c.attribute, c.kind, c.low, c.high, c.points
    rule_of, weight_of = c.rule, c.weight
    keys, width, first = batch.keys, batch.width, batch.first
    k, unique, sizes, rules, scores = best.k, best.unique, best.sizes, best.rules, best.scores
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    own, key_of = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    given_offsets, given_attribute = event_weights.offsets, event_weights.attribute
    given_weight, common = event_weights.weight, event_weights.common
    weights = common.copy()
    shifted = blank_line(width)
    upper = blank_line(width) if ranged else shifted
    line, last = shifted[1:], upper[1:]
    seen, present = np.zeros(width + 1, np.uint8), np.empty(width + 1, np.int64)
    entries = np.empty(width + 1, np.int64)
    stack = np.empty(t.state[BUCKETS] + 2, np.int64)
    maybe = np.empty(t.state[LONGEST] + 1, np.int64)  # members of a leaf that may hold
    bounds = np.empty(t.state[PNODES] + 1, np.float64)
    nodes_of = np.empty(t.state[PNODES] + 1, np.int64)
    always, always_ratio = 0.0, 0.0  # of attributes that count though an event has them not
    for a in range(tolerant.shape[0]):
        if tolerant[a] != 0:
            always = max(always, common[a])
            always_ratio = max(always_ratio, ratio_to(usual[a], common[a]))
    some_removed, individual = removed.shape[0] > 0, given_offsets.shape[0] > 0
    looked_at = evaluated = 0
    for e in range(batch.stop - first):
        event = first + e
        load(columns, column_attribute, sparse, own, key_of, event, line)
        if ranged:
            load(columns_high, column_attribute, sparse, own, key_high, event, last)
        given = list_present(column_attribute, sparse, own, event, shifted, seen, present)
        greatest, ratio = always, always_ratio
        if individual:
            for i in range(given_offsets[e], given_offsets[e + 1]):
                a = given_attribute[i]
                weights[a] = given_weight[i]
                if a < tolerant.shape[0] and tolerant[a] != 0:
                    greatest = max(greatest, weights[a])
                    ratio = max(ratio, ratio_to(usual[a], weights[a]))
        for i in range(given):
            a = present[i] - 1
            if a < usual.shape[0] and usual[a] > 0:  # else no conjunction tests it
                greatest = max(greatest, weights[a])
                ratio = max(ratio, ratio_to(usual[a], weights[a]))
        base, size = e * k, sizes[e]
        waiting = 0
        needed = np.int64(0)
        stack[0] = 0
        height = 1
        while True:
            # The c-directory of one p-node; at first the root.
            while height > 0:
                height -= 1
                b = stack[height]
                at = b * BUCKET
                if needed > 0 and not meets(bucket, at, shifted[needed], upper[needed]):
                    continue
                # Only what is strictly worse is passed over.
                if size == k and bound(most, b, greatest, ratio) < scores[base + k - 1]:
                    continue
                leaf = bucket[at + LEAF]
                looked_at += bucket[at + SIZE]
                some = 0
                for i in range(leaf, leaf + bucket[at + SIZE]):
                    if shifted[need[i]] == NULL:
                        continue
                    if some_removed and is_removed(removed, target[i]):
                        continue
                    prefetch(rows, np.int64(target[i]))
                    maybe[some] = target[i]
                    some += 1
                evaluated += some
                for i in range(some + AHEAD):
                    if i < some:
                        ask_for(plain, of, low, high, maybe[i], rows[maybe[i]])
                    if i < AHEAD:
                        continue
                    number = maybe[i - AHEAD]
                    begin, end = rows[number], rows[number + 1]
                    fits = True  # see `propose`
                    if plain[number] != 0:
                        for row in range(begin, end):
                            a = of[row]
                            if not (low[row] <= last[a] and line[a] <= high[row]):
                                fits = False
                                break
                    else:
                        fits = satisfied(of, kind, low, high, points, begin, end, line, last) == end
                    if fits:
                        value = score(of, kind, high, weight_of, begin, end, weights)
                        size = keep(rule_of[number], value, unique, k, base, size, rules, scores)
                for side in (LEFT, RIGHT):
                    if bucket[at + side] >= 0:
                        prefetch(bucket, bucket[at + side] * BUCKET)
                        stack[height] = bucket[at + side]
                        height += 1
                start, nodes = bucket[at + DIRECTORY], bucket[at + NODES]
                for i in range(list_followed(need, start, nodes, shifted, present, given, entries)):
                    p = np.int64(target[entries[i]])
                    root = pnode[p * PNODE + ROOT]
                    promise = bound(most, root, greatest, ratio)
                    if size < k or promise >= scores[base + k - 1]:
                        prefetch(bucket, root * BUCKET)
                        push(bounds, nodes_of, waiting, promise, p)
                        waiting += 1
            if waiting == 0 or (size == k and bounds[0] < scores[base + k - 1]):
                break
            p = pop(bounds, nodes_of, waiting)
            waiting -= 1
            needed = pnode[p * PNODE + ATTRIBUTE] + 1
            stack[0] = pnode[p * PNODE + ROOT]
            height = 1
        sizes[e] = size
        if individual:
            for i in range(given_offsets[e], given_offsets[e + 1]):
                weights[given_attribute[i]] = common[given_attribute[i]]
        unload(sparse, own, event, line)
        unload(sparse, own, event, last)
    counters[0] += looked_at
    counters[1] += evaluated
