"""Records and runs: how they are allocated, resized and released; the list of pending buckets."""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.layout import (
    ATTRIBUTE_SUMMARIES,
    BELOW,
    BELOW_SIZE,
    BOX,
    BOXES,
    BUCKET,
    BUCKETS,
    CAPACITY,
    CLASSES,
    COMMON_PREDICATES,
    CUT,
    DIRECTORY,
    DIRECTORY_CLASS,
    ENTRIES,
    FREE,
    FREE_BUCKET,
    HIGH,
    LEAF,
    LEAF_CAPACITY,
    LEAF_CLASS,
    LEFT,
    LEVEL,
    LOW,
    NEEDED,
    NEXT_PENDING,
    NODE,
    NODES,
    NOT_PENDING,
    OWN,
    OWN_SIZE,
    PARENT,
    PENDING,
    PNODE,
    PNODES,
    RIGHT,
    SIZE,
    SMALLEST_CLASS,
    SUMMARIES,
    SUMMARY,
)
from tocsin.jit import bare_step
from tocsin.model.encoding import HIGHEST, NULL


@bare_step
def size_class(size):
    """Return the least k for which 2**k is at least `size`."""
    k = 0
    while (1 << k) < size:
        k += 1
    return k


@bare_step
def allocate(free, kind, links, state, top, wanted):
    """Return the start of a run of 2**wanted: a free one, part of a longer one, or a new one.

    `kind` is 0 for entries, CLASSES for boxes, 2 * CLASSES for summaries. The first place of a free
    run has the next one.
    """
    for k in range(wanted, CLASSES):
        start = free[kind + k]
        if start >= 0:
            free[kind + k] = links[start]
            while k > wanted:
                k -= 1
                release(free, kind, links, start + (1 << k), k)
            return start
    start = state[top]
    state[top] += 1 << wanted
    return start


@bare_step
def release(free, kind, links, start, k):
    """Put a run of 2**k into the list of free ones."""
    links[start] = free[kind + k]
    free[kind + k] = start


@bare_step
def release_summary(summary, attributes, free, word):
    """Release the run of a summary; afterwards it is empty."""
    if summary[word] >= 0:
        k = max(SMALLEST_CLASS, size_class(summary[word + 1]))
        release(free, 2 * CLASSES, attributes, summary[word], k)
    summary[word], summary[word + 1] = -1, 0


@bare_step
def has_room(t, buckets, pnodes, entries, boxes, summaries):
    """Tell whether the arrays have room for so many more, and write how long they must be.

    Every change checks this first, so that what is begun can be finished. Room for runs is counted
    as if no free run fitted.
    """
    state = t.state
    state[NEEDED + BUCKETS] = state[BUCKETS] + buckets
    state[NEEDED + PNODES] = state[PNODES] + pnodes
    state[NEEDED + ENTRIES] = state[ENTRIES] + entries
    state[NEEDED + BOXES] = state[BOXES] + boxes
    state[NEEDED + SUMMARIES] = state[SUMMARIES] + summaries
    return (
        state[NEEDED + BUCKETS] * BUCKET <= t.bucket.shape[0]
        and state[NEEDED + PNODES] <= t.loss.shape[0]
        and state[NEEDED + ENTRIES] <= t.target.shape[0]
        and state[NEEDED + BOXES] <= t.box.shape[0]
        and state[NEEDED + SUMMARIES] <= t.summary_weight.shape[0]
    )


@bare_step
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
    bucket[at + NEXT_PENDING] = NOT_PENDING
    bucket[at + BOX] = -1
    t.max_sums[2 * b] = t.max_sums[2 * b + 1] = -1.0
    if t.options[ATTRIBUTE_SUMMARIES] != 0:
        t.summary[b * SUMMARY + BELOW] = t.summary[b * SUMMARY + OWN] = -1
        t.summary[b * SUMMARY + BELOW_SIZE] = t.summary[b * SUMMARY + OWN_SIZE] = 0
    if t.options[COMMON_PREDICATES] != 0:
        t.leaf_gain[b] = 0.0
    if node >= 0:
        level = t.pnode[node * PNODE + LEVEL]
        if level > 1:
            box = t.box
            k = size_class(2 * (level - 1))
            start = allocate(t.free, CLASSES, box, state, BOXES, k)
            bucket[at + BOX] = start
            for j in range(level - 1):
                box[start + 2 * j], box[start + 2 * j + 1] = HIGHEST, NULL
    return b


@bare_step
def free_bucket(t, b):
    """Release a bucket and its runs; it has no members, p-nodes or children any more."""
    bucket, state = t.bucket, t.state
    at = b * BUCKET
    if bucket[at + LEAF] >= 0:
        release(t.free, 0, t.target, bucket[at + LEAF], bucket[at + LEAF_CLASS])
    if bucket[at + DIRECTORY] >= 0:
        release(t.free, 0, t.target, bucket[at + DIRECTORY], bucket[at + DIRECTORY_CLASS])
    if bucket[at + BOX] >= 0:
        level = t.pnode[bucket[at + NODE] * PNODE + LEVEL]
        release(t.free, CLASSES, t.box, bucket[at + BOX], size_class(2 * (level - 1)))
    if t.options[ATTRIBUTE_SUMMARIES] != 0:
        release_summary(t.summary, t.summary_attribute, t.free, b * SUMMARY + BELOW)
        release_summary(t.summary, t.summary_attribute, t.free, b * SUMMARY + OWN)
    bucket[at + NODE] = FREE
    bucket[at + PARENT] = state[FREE_BUCKET]
    state[FREE_BUCKET] = b


@bare_step
def is_leaf_full(bucket, at):
    """Tell whether a leaf's run has no room for one more."""
    return bucket[at + LEAF] < 0 or bucket[at + SIZE] == 1 << bucket[at + LEAF_CLASS]


@bare_step
def grow_run(t, at, run, k, size):
    """Make room in a bucket's run for one more than `size` entries.

    `run` and `k` are the words of the bucket that have its start and its length.
    """
    bucket, target, required = t.bucket, t.target, t.required
    start, old = bucket[at + run], bucket[at + k]
    if start >= 0 and size < (1 << old):
        return
    wanted = max(SMALLEST_CLASS, size_class(size + 1))
    fresh = allocate(t.free, 0, target, t.state, ENTRIES, wanted)
    if start >= 0:
        for i in range(size):
            target[fresh + i], required[fresh + i] = target[start + i], required[start + i]
        release(t.free, 0, target, start, old)
    bucket[at + run], bucket[at + k] = fresh, wanted


@bare_step
def shrink_run(t, at, run, k, size):
    """Release the halves of a bucket's run that are not needed, and all of it if it is empty."""
    bucket = t.bucket
    start, old = bucket[at + run], bucket[at + k]
    if start < 0:
        return
    if size == 0:
        release(t.free, 0, t.target, start, old)
        bucket[at + run] = -1
        return
    while old > SMALLEST_CLASS and size <= (1 << old) // 4:
        old -= 1
        release(t.free, 0, t.target, start + (1 << old), old)
    bucket[at + k] = old


@bare_step
def mark_pending(bucket, state, b):
    """Put a bucket into the list of those that may overflow, or may have shrunk."""
    if bucket[b * BUCKET + NEXT_PENDING] == NOT_PENDING:
        bucket[b * BUCKET + NEXT_PENDING] = state[PENDING]
        state[PENDING] = b


@bare_step
def take_pending(bucket, state):
    """Take the first bucket out of that list, and return it."""
    b = state[PENDING]
    state[PENDING] = bucket[b * BUCKET + NEXT_PENDING]
    bucket[b * BUCKET + NEXT_PENDING] = NOT_PENDING
    return b


@bare_step
def add_member(bucket, target, required, home, place, b, number, required_attribute):
    """Append a conjunction to a leaf that has room."""
    at = b * BUCKET
    entry = bucket[at + LEAF] + bucket[at + SIZE]
    target[entry], required[entry] = number, required_attribute
    home[number], place[number] = b, bucket[at + SIZE]
    bucket[at + SIZE] += 1


@bare_step
def compact_leaf(t, at, gone):
    """Close the gaps that members marked as gone have left in a leaf."""
    bucket, target, required, place = t.bucket, t.target, t.required, t.place
    leaf, kept = bucket[at + LEAF], 0
    for i in range(bucket[at + SIZE]):
        if gone[i] == 0:
            target[leaf + kept], required[leaf + kept] = target[leaf + i], required[leaf + i]
            place[target[leaf + kept]] = kept
            kept += 1
    bucket[at + SIZE] = kept
    shrink_run(t, at, LEAF, LEAF_CLASS, kept)


@bare_step
def find_entry(required, start, size, wanted):
    """Return the entry of a directory that requires an attribute, -1 if there is none."""
    low, high = start, start + size
    while low < high:
        middle = (low + high) >> 1
        if required[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < start + size and required[low] == wanted else -1
