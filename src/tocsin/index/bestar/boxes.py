"""The intervals and sums of a conjunction, and the boxes around many of them.

A conjunction is passed as the arrays of `Conjunctions` and its rows, `begin` to `stop`. A tuple
would be shorter, but these steps run within branches, where Numba counts references to the arrays
of a tuple at every use: that made kernels several times slower.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.layout import (
    ABOVE,
    ATTRIBUTE,
    BOX,
    BUCKET,
    HIGH,
    LEVEL,
    LOW,
    NODE,
    PNODE,
    RIGID,
    SEPARATION,
    USUAL_SCALE,
)
from tocsin.jit import bare_step
from tocsin.model.encoding import NULL
from tocsin.model.facts import adds_to_score, bounds, has_own_score


@bare_step
def length(low, high):
    """Return the length of an interval, without overflow; 0 for an empty one."""
    return np.uint64(high) - np.uint64(low) if low < high else np.uint64(0)


@bare_step
def key_interval(kind, low, high, points, row):
    """Return the interval around a predicate (Table I); NULL to NULL if it cannot be a key.

    A predicate that holds for null cannot: the search follows the attributes that an event has.
    """
    least, greatest = bounds(kind, low, high, points, row)
    return (least, greatest) if least != NULL else (least, least)


@bare_step
def interval_on(tested, kind, low, high, points, begin, stop, attribute):
    """Return the interval of a conjunction on an attribute, NULL to NULL if it has none."""
    for row in range(begin, stop):
        if tested[row] == attribute:
            least, greatest = key_interval(kind, low, high, points, row)
            if least != NULL:
                return least, greatest
    return np.int64(NULL), np.int64(NULL)


@bare_step
def score_sums(tested, kind, high, weight, own_score, usual_weight, rows, number):
    """Return the sum of a conjunction's weights, and the sum of weights times usual weights.

    They are its score for an event whose weights are all 1, and for one with the usual weights. A
    score of its own counts like the weight of one more attribute, for which every event has 1.
    """
    if has_own_score(own_score, number):
        return own_score[number], own_score[number] * USUAL_SCALE
    begin, stop = rows[number], rows[number + 1]
    by_one = by_usual = 0.0
    for row in range(begin, stop):
        if adds_to_score(tested, kind, high, begin, row):
            each = weight[row] if weight.shape[0] > 0 else 1.0
            by_one += each
            by_usual += each * usual_weight[tested[row]]
    return by_one, by_usual


@bare_step
def distance_apart(t, attribute):
    """Return how many keys siblings must be apart on an attribute (`splitting`)."""
    apart = t.options[SEPARATION] * t.extension[attribute]
    return np.int64(min(apart, 2.0**62)) if t.options[RIGID] == 0 else np.int64(0)


@bare_step
def rarest_required(popularity, tested, kind, low, high, points, begin, stop, path, level):
    """Return 1 + the least popular attribute that a conjunction requires; 0 if it requires none.

    Attributes of the path are left out: an event that comes this way has them.
    """
    rarest = -1
    for row in range(begin, stop):
        a = tested[row]
        if rarest >= 0 and popularity[a] >= popularity[rarest]:
            continue
        if key_interval(kind, low, high, points, row)[0] != NULL:
            on_path = False
            for j in range(level):
                on_path |= path[j] == a
            if not on_path:
                rarest = a
    return rarest + 1


@bare_step
def extend_box(bucket, box, max_sums, b, level, lows, highs, sums):
    """Widen a bucket's box around a conjunction, in all dimensions of its path (Algorithm 3)."""
    at = b * BUCKET
    for j in range(2):
        max_sums[2 * b + j] = max(max_sums[2 * b + j], sums[j])
    if level > 0:
        bucket[at + LOW] = min(bucket[at + LOW], lows[level - 1])
        bucket[at + HIGH] = max(bucket[at + HIGH], highs[level - 1])
    start = bucket[at + BOX]
    for j in range(level - 1):
        box[start + 2 * j] = min(box[start + 2 * j], lows[j])
        box[start + 2 * j + 1] = max(box[start + 2 * j + 1], highs[j])


@bare_step
def write_path(bucket, pnode, b, path):
    """Write the attributes that the path to a bucket tests; return how many: its level."""
    node = bucket[b * BUCKET + NODE]
    level = pnode[node * PNODE + LEVEL] if node >= 0 else 0
    for j in range(level - 1, -1, -1):
        path[j] = pnode[node * PNODE + ATTRIBUTE]
        node = bucket[pnode[node * PNODE + ABOVE] * BUCKET + NODE]
    return level


@bare_step
def write_intervals(tested, kind, low, high, points, begin, stop, path, level, lows, highs):
    """Write the intervals of a conjunction on the attributes of a path."""
    for j in range(level):
        lows[j], highs[j] = interval_on(
            tested, kind, low, high, points, begin, stop, path[j]
        )  # fmt: skip
