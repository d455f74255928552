"""Removal (section IV-B): boxes shrink upwards only, and what has become empty or small goes."""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.boxes import extend, path_of, span, spans_of, sums_of
from tocsin.index.bestar.layout import (
    ABOVE,
    ATTRIBUTE,
    BOX,
    BUCKET,
    CAPACITY,
    CHAIN,
    COUNT,
    CUT,
    DIRECTORY,
    DIRECTORY_CLASS,
    FREE_PNODE,
    HIGH,
    LEAF,
    LEAF_CAPACITY,
    LEAF_CLASS,
    LEFT,
    LONGEST,
    LOW,
    MEMBERS,
    NODE,
    NODES,
    PARENT,
    PNODE,
    RIGHT,
    ROOT,
    SIZE,
    TODO,
    Tree,
)
from tocsin.index.bestar.records import (
    add_member,
    class_of,
    enough,
    entry_for,
    free_bucket,
    lengthen,
    look_after,
    next_one,
    shorten,
)
from tocsin.jit import Int32s, kernel, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import HIGHEST, NULL


@kernel
def take_out(t: Tree, c: Conjunctions, numbers: Int32s) -> None:
    """Take conjunctions out of their leaves; `shrink` does the rest."""
    bucket, pnode, target, need = t.bucket, t.pnode, t.target, t.need
    home, place, popularity, state = t.home, t.place, t.popularity, t.state
    rows, attribute, kind, low, high, points = (
        c.offsets,
        c.attribute,
        c.kind,
        c.low,
        c.high,
        c.points,
    )
    for i in range(numbers.shape[0]):
        number = numbers[i]
        b = np.int64(home[number])
        if b < 0:
            continue
        at = b * BUCKET
        bucket[at + SIZE] -= 1
        hole, last = bucket[at + LEAF] + place[number], bucket[at + LEAF] + bucket[at + SIZE]
        target[hole], need[hole] = target[last], need[last]
        place[target[hole]] = place[number]
        home[number] = -1
        state[MEMBERS] -= 1
        for row in range(rows[number], rows[number + 1]):
            if span(kind, low, high, points, row)[0] != NULL:
                popularity[attribute[row]] -= 1
        look_after(bucket, state, b)
        node = bucket[at + NODE]
        while node >= 0:
            pnode[node * PNODE + COUNT] -= 1
            node = bucket[pnode[node * PNODE + ABOVE] * BUCKET + NODE]


@kernel
def shrink(t: Tree, c: Conjunctions) -> bool:
    """Bring the buckets from which something was taken, and those above, up to date.

    Tell whether there was room; if not, call again.
    """
    bucket, state = t.bucket, t.state
    attributes = t.rate.shape[0]
    lows, highs = np.empty(attributes + 1, np.int64), np.empty(attributes + 1, np.int64)
    path, before = np.empty(attributes + 1, np.int64), np.empty(2 * attributes + 4, np.int64)
    capacity = np.int64(t.options[LEAF_CAPACITY])
    while state[TODO] >= 0:
        b = next_one(bucket, state)
        at = b * BUCKET
        if b > 0 and bucket[at + PARENT] < 0:
            free_bucket(t, b)
            continue
        together = mergeable(bucket, at, capacity)
        if together > 0:
            if not enough(t, 0, 0, (2 << class_of(together)) + 8, 0):
                look_after(bucket, state, b)
                return False
            merge(t, at)
        shorten(t, at, LEAF, LEAF_CLASS, bucket[at + SIZE])
        if bucket[at + SIZE] <= capacity:
            bucket[at + CAPACITY] = capacity
        if b > 0 and is_empty(bucket, at):
            drop(t, b)
            continue
        few = bucket[at + CUT] == NULL and bucket[at + NODES] == 0
        few = few and 2 * bucket[at + SIZE] <= capacity
        if (refit(t, c, b, path, lows, highs, before) or few) and b > 0:
            look_after(bucket, state, bucket[at + PARENT])
    return True


@step
def is_empty(bucket, at):
    """Tell whether nothing is in a bucket or below it."""
    below = max(bucket[at + LEFT], bucket[at + RIGHT])
    return below < 0 and bucket[at + SIZE] == 0 and bucket[at + NODES] == 0


@step
def mergeable(bucket, at, capacity):
    """Return how many members a split bucket and its children would have together; 0: not to merge.

    The merge rule: leaf buckets that underflow go into their parent if that is not partitioned.
    Here they underflow if they and their parent are half a leaf or less; merged at a full leaf,
    the next insertion would split them again.
    """
    if bucket[at + CUT] == NULL or bucket[at + NODES] > 0:
        return 0
    together = bucket[at + SIZE]
    for side in (LEFT, RIGHT):
        if bucket[at + side] >= 0:
            child = bucket[at + side] * BUCKET
            if bucket[child + CUT] != NULL or bucket[child + NODES] > 0:
                return 0
            together += bucket[child + SIZE]
    return together if 2 * together <= capacity else 0


@step
def merge(t, at):
    """Make a split bucket a leaf bucket again, with the members of its children."""
    bucket, target, need = t.bucket, t.target, t.need
    b = at // BUCKET
    for side in (LEFT, RIGHT):
        child = bucket[at + side]
        if child < 0:
            continue
        leaf = bucket[child * BUCKET + LEAF]
        for i in range(bucket[child * BUCKET + SIZE]):
            lengthen(t, at, LEAF, LEAF_CLASS, bucket[at + SIZE])
            add_member(
                bucket, target, need, t.home, t.place, b, np.int64(target[leaf + i]), need[leaf + i]
            )
        bucket[at + side] = -1
        bucket[child * BUCKET + SIZE] = 0
        bucket[child * BUCKET + PARENT] = -1  # it may still be in the list: freed when it comes up
        look_after(bucket, t.state, child)
    bucket[at + CUT] = NULL
    t.state[LONGEST] = max(t.state[LONGEST], bucket[at + SIZE])


@step
def drop(t, b):
    """Give back an empty bucket, and its p-node if it was the last of it; the one above is next."""
    bucket, pnode, target, need, state = t.bucket, t.pnode, t.target, t.need, t.state
    node, above = bucket[b * BUCKET + NODE], bucket[b * BUCKET + PARENT]
    at = above * BUCKET
    last = pnode[node * PNODE + ROOT] == b
    free_bucket(t, b)
    if last:
        start, nodes = bucket[at + DIRECTORY], bucket[at + NODES]
        entry = entry_for(need, start, nodes, pnode[node * PNODE + ATTRIBUTE] + 1)
        for i in range(entry, start + nodes - 1):
            target[i], need[i] = target[i + 1], need[i + 1]
        bucket[at + NODES] -= 1
        shorten(t, at, DIRECTORY, DIRECTORY_CLASS, nodes - 1)
        pnode[node * PNODE + ABOVE] = -1
        pnode[node * PNODE + CHAIN] = state[FREE_PNODE]
        state[FREE_PNODE] = node
    elif bucket[at + LEFT] == b:
        bucket[at + LEFT] = -1
    else:
        bucket[at + RIGHT] = -1
    look_after(bucket, state, above)


@step
def refit(t, c, b, path, lows, highs, before):
    """Fit a bucket's box to its own members and the boxes below; tell whether it has changed.

    The inactive dimensions make this possible without looking further down: a box below says how
    far it reaches in every dimension of this one.
    """
    bucket, pnode, box, target = t.bucket, t.pnode, t.box, t.target
    most, usual = t.most, t.usual
    rows, attribute, kind, weights = c.offsets, c.attribute, c.kind, c.weight
    low, high, points = c.low, c.high, c.points
    at = b * BUCKET
    level = path_of(bucket, pnode, b, path)
    start = bucket[at + BOX]
    most_before = most[2 * b], most[2 * b + 1]
    before[0], before[1] = bucket[at + LOW], bucket[at + HIGH]
    bucket[at + LOW], bucket[at + HIGH] = HIGHEST, NULL
    most[2 * b] = most[2 * b + 1] = -1.0
    for j in range(2 * (level - 1)):
        before[2 + j] = box[start + j]
        box[start + j] = NULL if j & 1 else HIGHEST
    leaf = bucket[at + LEAF]
    for i in range(bucket[at + SIZE]):
        begin, stop = rows[target[leaf + i]], rows[target[leaf + i] + 1]
        spans_of(attribute, kind, low, high, points, begin, stop, path, level, lows, highs)
        sums = sums_of(attribute, kind, high, weights, usual, begin, stop)
        extend(bucket, box, most, b, level, lows, highs, sums)
    for side in (LEFT, RIGHT):
        child = bucket[at + side]
        if child >= 0:
            inner = bucket[child * BUCKET + BOX]
            for j in range(2):
                most[2 * b + j] = max(most[2 * b + j], most[2 * child + j])
            bucket[at + LOW] = min(bucket[at + LOW], bucket[child * BUCKET + LOW])
            bucket[at + HIGH] = max(bucket[at + HIGH], bucket[child * BUCKET + HIGH])
            for j in range(level - 1):
                box[start + 2 * j] = min(box[start + 2 * j], box[inner + 2 * j])
                box[start + 2 * j + 1] = max(box[start + 2 * j + 1], box[inner + 2 * j + 1])
    for i in range(bucket[at + DIRECTORY], bucket[at + DIRECTORY] + bucket[at + NODES]):
        child = pnode[target[i] * PNODE + ROOT]
        for j in range(2):
            most[2 * b + j] = max(most[2 * b + j], most[2 * child + j])
        if level > 0:
            inner = bucket[child * BUCKET + BOX]
            last = inner + 2 * (level - 1)
            bucket[at + LOW] = min(bucket[at + LOW], box[last])
            bucket[at + HIGH] = max(bucket[at + HIGH], box[last + 1])
            for j in range(level - 1):
                box[start + 2 * j] = min(box[start + 2 * j], box[inner + 2 * j])
                box[start + 2 * j + 1] = max(box[start + 2 * j + 1], box[inner + 2 * j + 1])
    changed = most[2 * b] != most_before[0] or most[2 * b + 1] != most_before[1]
    if level > 0:
        changed |= before[0] != bucket[at + LOW] or before[1] != bucket[at + HIGH]
    for j in range(2 * (level - 1)):
        changed |= before[2 + j] != box[start + j]
    return changed
