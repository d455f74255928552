"""Ranks (section V-B): what a p-node gains, less what it loses.

By default the gain of a p-node is the number of conjunctions below it, which have a predicate on
its attribute in common. With the option `gain` of "predicates" it is the sum of the gains of
all leaves below (`gain_of_leaf`), as published.

The loss is the number of predicates evaluated below it that fail: `tuning` counts them per event.
The loss of an attribute without a p-node is taken from the p-nodes that it has or had elsewhere.
Before there was any, it is 0 (the paper's popularity, by default), or `histogram_loss`.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.boxes import interval_on, length
from tocsin.index.bestar.layout import (
    ABOVE,
    BUCKET,
    COMMON_PREDICATES,
    COUNT,
    LEAF,
    NODE,
    PNODE,
    SIZE,
)
from tocsin.jit import bare_step, step

_BINS = 16  # of a histogram; chosen, the paper does not say


@bare_step
def rank_of(t, p):
    """Return the rank of a p-node."""
    if t.options[COMMON_PREDICATES] != 0:
        return t.gain[p] - t.loss[p]
    return t.pnode[p * PNODE + COUNT] - t.loss[p]


@bare_step
def gain_of_leaf(t, c, b):
    """Return the number of predicates that the members of a leaf have in common, over all members.

    They have a predicate in common if all of them test its attribute. The paper's estimate counts
    the conjunctions that have a predicate on one attribute; this does so for each attribute.
    """
    rows, tested, target = c.offsets, c.attribute, t.target
    leaf, size = t.bucket[b * BUCKET + LEAF], t.bucket[b * BUCKET + SIZE]
    if size == 0:
        return 0
    common = 0
    first = target[leaf]
    for row in range(rows[first], rows[first + 1]):
        if row > rows[first] and tested[row] == tested[row - 1]:
            continue
        in_all = 1
        for i in range(leaf + 1, leaf + size):
            found = 0
            for other in range(rows[target[i]], rows[target[i] + 1]):
                found |= tested[other] == tested[row]
            if found == 0:
                in_all = 0
                break
        common += in_all
    return common * size


@bare_step
def update_gain(t, c, b):
    """Update the gain of a leaf that has changed, and of all p-nodes above it."""
    node = t.bucket[b * BUCKET + NODE]
    if t.options[COMMON_PREDICATES] == 0 or node < 0:
        return
    gain = gain_of_leaf(t, c, b)
    more = gain - t.leaf_gain[b]
    t.leaf_gain[b] = gain
    while node >= 0:
        t.gain[node] += more
        node = t.bucket[t.pnode[node * PNODE + ABOVE] * BUCKET + NODE]


@step
def histogram_loss(t, c, leaf, members, attribute):
    """Return the average size of a bucket in a histogram of intervals on an attribute.

    It has 16 buckets of equal width; one that no interval meets is left out, as events are expected
    where conjunctions are. `members` are places in the leaf that starts at `leaf`.
    """
    rows, target, size = c.offsets, t.target, members.shape[0]
    lows, highs = np.empty(size, np.int64), np.empty(size, np.int64)
    start = end = np.int64(0)
    for i in range(size):
        number = target[leaf + members[i]]
        lows[i], highs[i] = interval_on(
            c.attribute, c.kind, c.low, c.high, c.points, rows[number], rows[number + 1], attribute
        )
        start = lows[i] if i == 0 else min(start, lows[i])
        end = highs[i] if i == 0 else max(end, highs[i])
    width = np.float64(length(start, end)) / _BINS
    if width == 0:
        return np.float64(size)
    counts = np.zeros(_BINS, np.int64)
    for i in range(size):
        first = min(_BINS - 1, int(np.float64(length(start, lows[i])) / width))
        last = min(_BINS - 1, int(np.float64(length(start, highs[i])) / width))
        for j in range(first, last + 1):
            counts[j] += 1
    total = met = 0
    for count in counts:
        total += int(count)
        met += int(count > 0)
    return total / max(1, met)
