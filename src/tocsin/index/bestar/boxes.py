"""What a conjunction is to the tree, and the boxes around many of them."""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.layout import ABOVE, ATTRIBUTE, BOX, BUCKET, HIGH, LEVEL, LOW, NODE, PNODE
from tocsin.jit import step
from tocsin.model.encoding import NULL
from tocsin.model.facts import adds_to_score, bounds


@step
def length(low, high):
    """Return the length of an interval, without overflow; 0 for an empty one."""
    return np.uint64(high) - np.uint64(low) if low < high else np.uint64(0)


@step
def span(kind, low, high, points, row):
    """Return the interval around a predicate (Table I); NULL to NULL if it cannot be a key.

    One that holds for null cannot: the search follows the attributes that an event has.
    """
    least, greatest = bounds(kind, low, high, points, row)
    return (least, greatest) if least != NULL else (least, least)


@step
def span_on(c_attribute, kind, low, high, points, begin, stop, attribute):
    """Return the interval of a conjunction, rows begin to stop, on an attribute; NULL if none."""
    for row in range(begin, stop):
        if c_attribute[row] == attribute:
            least, greatest = span(kind, low, high, points, row)
            if least != NULL:
                return least, greatest
    return np.int64(NULL), np.int64(NULL)


@step
def sums_of(c_attribute, kind, high, weight, usual, begin, stop):
    """Return the sum of a conjunction's weights, and that of the weights times what is usual.

    They are its score for an event whose weights are all 1, and for one that has the usual ones.
    """
    plain = by_usual = 0.0
    for row in range(begin, stop):
        if adds_to_score(c_attribute, kind, high, begin, row):
            each = weight[row] if weight.shape[0] > 0 else 1.0
            plain += each
            by_usual += each * usual[c_attribute[row]]
    return plain, by_usual


@step
def rarest(popularity, c_attribute, kind, low, high, points, begin, stop, path, level):
    """Return 1 + the attribute that a conjunction needs and fewest others do; 0 if it needs none.

    One of the path would say nothing: an event that comes this way has it.
    """
    needed = -1
    for row in range(begin, stop):
        a = c_attribute[row]
        if needed >= 0 and popularity[a] >= popularity[needed]:
            continue
        if span(kind, low, high, points, row)[0] != NULL:
            used = False
            for j in range(level):
                used |= path[j] == a
            if not used:
                needed = a
    return needed + 1


@step
def extend(bucket, box, most, b, level, lows, highs, sums):
    """Widen a bucket's box around a conjunction, in all dimensions of its path (Algorithm 3)."""
    at = b * BUCKET
    for j in range(2):
        most[2 * b + j] = max(most[2 * b + j], sums[j])
    if level > 0:
        bucket[at + LOW] = min(bucket[at + LOW], lows[level - 1])
        bucket[at + HIGH] = max(bucket[at + HIGH], highs[level - 1])
    start = bucket[at + BOX]
    for j in range(level - 1):
        box[start + 2 * j] = min(box[start + 2 * j], lows[j])
        box[start + 2 * j + 1] = max(box[start + 2 * j + 1], highs[j])


@step
def path_of(bucket, pnode, b, path):
    """Write the attributes that the path to a bucket tests; return how many: its level."""
    node = bucket[b * BUCKET + NODE]
    level = pnode[node * PNODE + LEVEL] if node >= 0 else 0
    for j in range(level - 1, -1, -1):
        path[j] = pnode[node * PNODE + ATTRIBUTE]
        node = bucket[pnode[node * PNODE + ABOVE] * BUCKET + NODE]
    return level


@step
def spans_of(c_attribute, kind, low, high, points, begin, stop, path, level, lows, highs):
    """Write the intervals of a conjunction, rows begin to stop, on the attributes of a path."""
    for j in range(level):
        lows[j], highs[j] = span_on(
            c_attribute, kind, low, high, points, begin, stop, path[j]
        )  # fmt: skip
