"""Removal (section IV-B): boxes shrink along one path up; empty and small buckets go."""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.boxes import (
    extend_box,
    key_interval,
    score_sums,
    write_intervals,
    write_path,
)
from tocsin.index.bestar.layout import (
    ABOVE,
    ATTRIBUTE,
    BOX,
    BUCKET,
    CAPACITY,
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
    LONGEST_LEAF,
    LOW,
    MEMBERS,
    NEXT_FREE,
    NODE,
    NODES,
    PARENT,
    PENDING,
    PNODE,
    RIGHT,
    ROOT,
    SIZE,
    Tree,
)
from tocsin.index.bestar.ranks import update_gain
from tocsin.index.bestar.records import (
    add_member,
    find_entry,
    free_bucket,
    grow_run,
    has_room,
    mark_pending,
    shrink_run,
    size_class,
    take_pending,
)
from tocsin.index.bestar.summaries import refit_summaries, room_for_summary, summarises
from tocsin.jit import Int32s, bare_step, kernel
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import HIGHEST, NULL


@kernel
def remove_members(t: Tree, c: Conjunctions, numbers: Int32s) -> None:
    """Remove conjunctions from their leaves; `shrink_pending` does the rest."""
    bucket, pnode, target, required = t.bucket, t.pnode, t.target, t.required
    home, place, popularity, state = t.home, t.place, t.popularity, t.state
    rows, tested, kind, low, high, points = (
        c.offsets, c.attribute, c.kind, c.low, c.high, c.points
    )  # fmt: skip
    for i in range(numbers.shape[0]):
        number = numbers[i]
        b = np.int64(home[number])
        if b < 0:
            continue
        at = b * BUCKET
        bucket[at + SIZE] -= 1
        hole, last = bucket[at + LEAF] + place[number], bucket[at + LEAF] + bucket[at + SIZE]
        target[hole], required[hole] = target[last], required[last]
        place[target[hole]] = place[number]
        home[number] = -1
        state[MEMBERS] -= 1
        for row in range(rows[number], rows[number + 1]):
            if key_interval(kind, low, high, points, row)[0] != NULL:
                popularity[tested[row]] -= 1
        mark_pending(bucket, state, b)
        node = bucket[at + NODE]
        while node >= 0:
            pnode[node * PNODE + COUNT] -= 1
            node = bucket[pnode[node * PNODE + ABOVE] * BUCKET + NODE]


@kernel
def shrink_pending(t: Tree, c: Conjunctions) -> bool:
    """Merge, drop or refit the buckets from which members were removed, and those above.

    Tell whether there was room; if not, it is to be called again.
    """
    bucket, state = t.bucket, t.state
    attributes = t.loss_rate.shape[0]
    lows, highs = np.empty(attributes + 1, np.int64), np.empty(attributes + 1, np.int64)
    path, before = np.empty(attributes + 1, np.int64), np.empty(2 * attributes + 4, np.int64)
    capacity, summarised = np.int64(t.options[LEAF_CAPACITY]), summarises(t)
    while state[PENDING] >= 0:
        b = take_pending(bucket, state)
        at = b * BUCKET
        if b > 0 and bucket[at + PARENT] < 0:
            free_bucket(t, b)
            continue
        together = merged_size(bucket, at, capacity)
        entries = (2 << size_class(together)) + 8 if together > 0 else 0
        if not has_room(t, 0, 0, entries, 0, 2 * room_for_summary(t) if summarised else 0):
            mark_pending(bucket, state, b)
            return False
        if together > 0:
            merge(t, c, at)
        update_gain(t, c, b)
        shrink_run(t, at, LEAF, LEAF_CLASS, bucket[at + SIZE])
        if bucket[at + SIZE] <= capacity:
            bucket[at + CAPACITY] = capacity
        if b > 0 and is_empty(bucket, at):
            drop_bucket(t, b)
            continue
        underflows = bucket[at + CUT] == NULL and bucket[at + NODES] == 0
        underflows = underflows and 2 * bucket[at + SIZE] <= capacity
        if (refit_box(t, c, b, path, lows, highs, before) or underflows) and b > 0:
            mark_pending(bucket, state, bucket[at + PARENT])
    return True


@bare_step
def is_empty(bucket, at):
    """Tell whether nothing is in a bucket or below it."""
    below = max(bucket[at + LEFT], bucket[at + RIGHT])
    return below < 0 and bucket[at + SIZE] == 0 and bucket[at + NODES] == 0


@bare_step
def merged_size(bucket, at, capacity):
    """Return how many members a split bucket has if it is merged with its children; 0: do not.

    The merge rule: leaf buckets that underflow go into their parent if that is not partitioned.
    Here they underflow if they and their parent together fill half a leaf or less; if they filled a
    leaf, the next insertion would split them again.
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


@bare_step
def merge(t, c, at):
    """Make a split bucket a leaf bucket again, with the members of its children."""
    bucket, target, required, home, place = t.bucket, t.target, t.required, t.home, t.place
    b = at // BUCKET
    for side in (LEFT, RIGHT):
        child = bucket[at + side]
        if child < 0:
            continue
        leaf = bucket[child * BUCKET + LEAF]
        for i in range(bucket[child * BUCKET + SIZE]):
            grow_run(t, at, LEAF, LEAF_CLASS, bucket[at + SIZE])
            number = np.int64(target[leaf + i])
            add_member(bucket, target, required, home, place, b, number, required[leaf + i])
        bucket[at + side] = -1
        bucket[child * BUCKET + SIZE] = 0
        update_gain(t, c, child)
        bucket[child * BUCKET + PARENT] = -1  # it may be pending already: it is freed in its turn
        mark_pending(bucket, t.state, child)
    bucket[at + CUT] = NULL
    t.state[LONGEST_LEAF] = max(t.state[LONGEST_LEAF], bucket[at + SIZE])


@bare_step
def drop_bucket(t, b):
    """Free an empty bucket, and its p-node if it has no other; the bucket above is then pending."""
    bucket, pnode, target, required, state = t.bucket, t.pnode, t.target, t.required, t.state
    node, above = bucket[b * BUCKET + NODE], bucket[b * BUCKET + PARENT]
    at = above * BUCKET
    last = pnode[node * PNODE + ROOT] == b
    free_bucket(t, b)
    if last:
        start, nodes = bucket[at + DIRECTORY], bucket[at + NODES]
        entry = find_entry(required, start, nodes, pnode[node * PNODE + ATTRIBUTE] + 1)
        for i in range(entry, start + nodes - 1):
            target[i], required[i] = target[i + 1], required[i + 1]
        bucket[at + NODES] -= 1
        shrink_run(t, at, DIRECTORY, DIRECTORY_CLASS, nodes - 1)
        pnode[node * PNODE + ABOVE] = -1
        pnode[node * PNODE + NEXT_FREE] = state[FREE_PNODE]
        state[FREE_PNODE] = node
    elif bucket[at + LEFT] == b:
        bucket[at + LEFT] = -1
    else:
        bucket[at + RIGHT] = -1
    mark_pending(bucket, state, above)


@bare_step
def refit_box(t, c, b, path, lows, highs, before):
    """Fit a bucket's box to its own members and the boxes below; tell whether it has changed.

    The inactive dimensions make this possible without going further down: a box below has its
    extent in every dimension of this one.
    """
    bucket, pnode, box, target = t.bucket, t.pnode, t.box, t.target
    max_sums, usual_weight = t.max_sums, t.usual_weight
    rows, tested, kind, weights = c.offsets, c.attribute, c.kind, c.weight
    low, high, points = c.low, c.high, c.points
    at = b * BUCKET
    level = write_path(bucket, pnode, b, path)
    start = bucket[at + BOX]
    sums_before = max_sums[2 * b], max_sums[2 * b + 1]
    before[0], before[1] = bucket[at + LOW], bucket[at + HIGH]
    bucket[at + LOW], bucket[at + HIGH] = HIGHEST, NULL
    max_sums[2 * b] = max_sums[2 * b + 1] = -1.0
    for j in range(2 * (level - 1)):
        before[2 + j] = box[start + j]
        box[start + j] = NULL if j & 1 else HIGHEST
    leaf = bucket[at + LEAF]
    for i in range(bucket[at + SIZE]):
        begin, stop = rows[target[leaf + i]], rows[target[leaf + i] + 1]
        write_intervals(tested, kind, low, high, points, begin, stop, path, level, lows, highs)
        sums = score_sums(
            tested, kind, high, weights, c.score, usual_weight, rows, np.int64(target[leaf + i])
        )
        extend_box(bucket, box, max_sums, b, level, lows, highs, sums)
    for side in (LEFT, RIGHT):
        child = bucket[at + side]
        if child >= 0:
            child_low, child_high = bucket[child * BUCKET + LOW], bucket[child * BUCKET + HIGH]
            extend_by_child(bucket, box, max_sums, b, child, level, child_low, child_high)
    for i in range(bucket[at + DIRECTORY], bucket[at + DIRECTORY] + bucket[at + NODES]):
        child = pnode[target[i] * PNODE + ROOT]
        child_low = child_high = np.int64(NULL)
        if level > 0:  # the active dimension here is the last inactive one there
            last = bucket[child * BUCKET + BOX] + 2 * (level - 1)
            child_low, child_high = box[last], box[last + 1]
        extend_by_child(bucket, box, max_sums, b, child, level, child_low, child_high)
    changed = max_sums[2 * b] != sums_before[0] or max_sums[2 * b + 1] != sums_before[1]
    if level > 0:
        changed |= before[0] != bucket[at + LOW] or before[1] != bucket[at + HIGH]
    for j in range(2 * (level - 1)):
        changed |= before[2 + j] != box[start + j]
    if summarises(t):
        changed |= refit_summaries(t, c, b)
    return changed


@bare_step
def extend_by_child(bucket, box, max_sums, b, child, level, low, high):
    """Widen a bucket's box around that of one below, from low to high on the active dimension."""
    at = b * BUCKET
    start, inner = bucket[at + BOX], bucket[child * BUCKET + BOX]
    for j in range(2):
        max_sums[2 * b + j] = max(max_sums[2 * b + j], max_sums[2 * child + j])
    if level > 0:
        bucket[at + LOW] = min(bucket[at + LOW], low)
        bucket[at + HIGH] = max(bucket[at + HIGH], high)
    for j in range(level - 1):
        box[start + 2 * j] = min(box[start + 2 * j], box[inner + 2 * j])
        box[start + 2 * j + 1] = max(box[start + 2 * j + 1], box[inner + 2 * j + 1])
