"""Records and runs: taken, given back, made longer, and what is in them."""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.layout import (
    BOX,
    BOXES,
    BUCKET,
    BUCKETS,
    CAPACITY,
    CLASSES,
    CUT,
    DIRECTORY,
    DIRECTORY_CLASS,
    ENTRIES,
    FREE,
    FREE_BUCKET,
    HIGH,
    IDLE,
    LEAF,
    LEAF_CAPACITY,
    LEAF_CLASS,
    LEFT,
    LEVEL,
    LOW,
    NEED,
    NEXT,
    NODE,
    NODES,
    PARENT,
    PNODE,
    PNODES,
    RIGHT,
    SIZE,
    SMALLEST,
    TODO,
)
from tocsin.jit import step
from tocsin.model.encoding import HIGHEST, NULL


@step
def class_of(size):
    """Return the least k for which 2**k is at least `size`."""
    k = 0
    while (1 << k) < size:
        k += 1
    return k


@step
def take(free, kind, links, state, top, wanted):
    """Return where a run of 2**wanted begins: a free one, half of a longer one, or a new one.

    `kind` is 0 for entries, CLASSES for boxes; a free run's first place names the next.
    """
    for k in range(wanted, CLASSES):
        start = free[kind + k]
        if start >= 0:
            free[kind + k] = links[start]
            while k > wanted:
                k -= 1
                give(free, kind, links, start + (1 << k), k)
            return start
    start = state[top]
    state[top] += 1 << wanted
    return start


@step
def give(free, kind, links, start, k):
    """Put a run of 2**k into the list of free ones."""
    links[start] = free[kind + k]
    free[kind + k] = start


@step
def enough(t, buckets, pnodes, entries, boxes):
    """Tell whether the arrays have room for so many more; if not, note how long they must be.

    Asked before anything is changed: what is begun can be finished. Runs are asked for as if no
    free one fitted.
    """
    state = t.state
    state[NEED + BUCKETS] = state[BUCKETS] + buckets
    state[NEED + PNODES] = state[PNODES] + pnodes
    state[NEED + ENTRIES] = state[ENTRIES] + entries
    state[NEED + BOXES] = state[BOXES] + boxes
    return (
        state[NEED + BUCKETS] * BUCKET <= t.bucket.shape[0]
        and state[NEED + PNODES] <= t.loss.shape[0]
        and state[NEED + ENTRIES] <= t.target.shape[0]
        and state[NEED + BOXES] <= t.box.shape[0]
    )


@step
def new_bucket(t, node, above):
    """Return an empty leaf bucket in the c-directory of a p-node, below another bucket."""
    bucket, state = t.bucket, t.state
    b = state[FREE_BUCKET]
    if b >= 0:
        state[FREE_BUCKET] = bucket[b * BUCKET + PARENT]
    else:
        b = state[BUCKETS]
        state[BUCKETS] += 1
    at = b * BUCKET
    bucket[at + LOW], bucket[at + HIGH] = HIGHEST, NULL
    bucket[at + LEFT] = bucket[at + RIGHT] = -1
    bucket[at + LEAF] = bucket[at + DIRECTORY] = -1
    bucket[at + SIZE] = bucket[at + NODES] = 0
    bucket[at + PARENT], bucket[at + NODE] = above, node
    bucket[at + CUT] = NULL
    bucket[at + CAPACITY] = np.int64(t.options[LEAF_CAPACITY])
    bucket[at + LEAF_CLASS] = bucket[at + DIRECTORY_CLASS] = 0
    bucket[at + NEXT] = IDLE
    bucket[at + BOX] = -1
    t.most[2 * b] = t.most[2 * b + 1] = -1.0
    if node >= 0:
        level = t.pnode[node * PNODE + LEVEL]
        if level > 1:
            box = t.box
            k = class_of(2 * (level - 1))
            start = take(t.free, CLASSES, box, state, BOXES, k)
            bucket[at + BOX] = start
            for j in range(level - 1):
                box[start + 2 * j], box[start + 2 * j + 1] = HIGHEST, NULL
    return b


@step
def free_bucket(t, b):
    """Give back a bucket and its runs; it has no members, p-nodes or children any more."""
    bucket, state = t.bucket, t.state
    at = b * BUCKET
    if bucket[at + LEAF] >= 0:
        give(t.free, 0, t.target, bucket[at + LEAF], bucket[at + LEAF_CLASS])
    if bucket[at + DIRECTORY] >= 0:
        give(t.free, 0, t.target, bucket[at + DIRECTORY], bucket[at + DIRECTORY_CLASS])
    if bucket[at + BOX] >= 0:
        level = t.pnode[bucket[at + NODE] * PNODE + LEVEL]
        give(t.free, CLASSES, t.box, bucket[at + BOX], class_of(2 * (level - 1)))
    bucket[at + NODE] = FREE
    bucket[at + PARENT] = state[FREE_BUCKET]
    state[FREE_BUCKET] = b


@step
def is_full(bucket, at):
    """Tell whether a leaf's run has no room for one more."""
    return bucket[at + LEAF] < 0 or bucket[at + SIZE] == 1 << bucket[at + LEAF_CLASS]


@step
def lengthen(t, at, run, k, size):
    """Make a bucket's run hold one more than `size` entries; `run` and `k` are the words of it."""
    bucket, target, need = t.bucket, t.target, t.need
    start, old = bucket[at + run], bucket[at + k]
    if start >= 0 and size < (1 << old):
        return
    wanted = max(SMALLEST, class_of(size + 1))
    fresh = take(t.free, 0, target, t.state, ENTRIES, wanted)
    if start >= 0:
        for i in range(size):
            target[fresh + i], need[fresh + i] = target[start + i], need[start + i]
        give(t.free, 0, target, start, old)
    bucket[at + run], bucket[at + k] = fresh, wanted


@step
def shorten(t, at, run, k, size):
    """Give back the halves of a bucket's run that are not needed, and all of it if it is empty."""
    bucket = t.bucket
    start, old = bucket[at + run], bucket[at + k]
    if start < 0:
        return
    if size == 0:
        give(t.free, 0, t.target, start, old)
        bucket[at + run] = -1
        return
    while old > SMALLEST and size <= (1 << old) // 4:
        old -= 1
        give(t.free, 0, t.target, start + (1 << old), old)
    bucket[at + k] = old


@step
def look_after(bucket, state, b):
    """Put a bucket into the list of those that may overflow, or may have shrunk."""
    if bucket[b * BUCKET + NEXT] == IDLE:
        bucket[b * BUCKET + NEXT] = state[TODO]
        state[TODO] = b


@step
def next_one(bucket, state):
    """Take the first bucket out of that list, and return it."""
    b = state[TODO]
    state[TODO] = bucket[b * BUCKET + NEXT]
    bucket[b * BUCKET + NEXT] = IDLE
    return b


@step
def add_member(bucket, target, need, home, place, b, number, needed):
    """Append a conjunction to a leaf that has room."""
    at = b * BUCKET
    entry = bucket[at + LEAF] + bucket[at + SIZE]
    target[entry], need[entry] = number, needed
    home[number], place[number] = b, bucket[at + SIZE]
    bucket[at + SIZE] += 1


@step
def keep_those(t, at, gone):
    """Close the gaps in a leaf that those marked have left."""
    bucket, target, need, place = t.bucket, t.target, t.need, t.place
    leaf, kept = bucket[at + LEAF], 0
    for i in range(bucket[at + SIZE]):
        if gone[i] == 0:
            target[leaf + kept], need[leaf + kept] = target[leaf + i], need[leaf + i]
            place[target[leaf + kept]] = kept
            kept += 1
    bucket[at + SIZE] = kept
    shorten(t, at, LEAF, LEAF_CLASS, kept)


@step
def entry_for(need, start, size, wanted):
    """Return where in a directory the entry that needs an attribute is, -1 if it has none."""
    low, high = start, start + size
    while low < high:
        middle = (low + high) >> 1
        if need[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < start + size and need[low] == wanted else -1
