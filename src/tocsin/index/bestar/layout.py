"""What the tree looks like in memory: records and runs in flat arrays, with lists of free ones.

A *bucket* is a record of 16 words, two cache lines: the first is what an event reads, the second
what changes need. In the paper a bucket has a c-directory node (left, overlapping and right
bucket), a c-node and an l-node; since each has exactly one of the others, they are one record
here. Its own leaf holds all its conjunctions while it is a leaf bucket; once it is split, the
overlapping ones. Bucket 0 is the root, which belongs to no p-node.

A *p-node* is a record of 8 words. The members of a leaf and the entries of a p-directory lie in
*runs*, 2**k entries long, of two arrays side by side: what the entry is, and the attribute that
an event must have for it to matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64Out, Int32Out, Int64Out, UInt8Out, step
from tocsin.model.line import HIGHEST, LOWEST, NULL
from tocsin.model.predicates import INTERVAL, SET

# The words of a bucket.
BUCKET = 16
LOW, HIGH = 0, 1  # the interval around all that is below, on the active dimension
LEFT, RIGHT = 2, 3  # buckets, -1 where there is none
LEAF, SIZE = 4, 5  # where the run of its members starts (-1: none), and how many there are
DIRECTORY, NODES = 6, 7  # the same of its p-nodes, ordered by attribute
PARENT = 8  # the bucket above; of a bucket that is free the next free one
NODE = 9  # the p-node whose c-directory it is in; -1 for the root, FREE if free
CUT = 10  # where it was split; NULL: it is a leaf bucket
CAPACITY = 11  # members beyond which it overflows
LEAF_CLASS, DIRECTORY_CLASS = 12, 13  # the lengths of its runs, as powers of two
BOX = 14  # where its inactive dimensions start, -1 if it has none
NEXT = 15  # the next bucket to be looked after, -1 if none, IDLE if it is not in that list

# The words of a p-node.
PNODE = 8
ATTRIBUTE = 0
ROOT = 1  # the top bucket of its c-directory
ABOVE = 2  # the bucket whose directory it is in; -1 if free; of a free p-node see CHAIN
COUNT = 3  # conjunctions below
LEVEL = 4  # how many attributes the path to its buckets tests, its own included
SPACE_LOW, SPACE_HIGH = 5, 6  # what is halved, if the tree is rigid
CHAIN = 7  # of a free p-node the next free one

FREE, IDLE = -2, -2

# The words of `state`.
BUCKETS, PNODES, ENTRIES, BOXES = 0, 1, 2, 3  # how much of the arrays is in use, or was
NEED = 4  # four words: how long the arrays must be to go on
FREE_BUCKET, FREE_PNODE = 8, 9  # the first free record
TODO = 10  # the first bucket to be looked after
LONGEST = 11  # the most members that a leaf has had
MEMBERS = 12  # conjunctions in the tree
PEAK = 13  # the most that there were since the tree was packed
STATE = 14

CLASSES = 32
SMALLEST = 2  # the shortest run has 2**2 entries

# The options.
LEAF_CAPACITY, ALPHA, BETA, EXHAUSTIVE, RIGID = 0, 1, 2, 3, 4


class Tree(NamedTuple):
    """b buckets, p p-nodes, e entries of runs, n conjunctions, a attributes; all are written to."""

    bucket: Int64Out  # [16 b]
    most: Float64Out  # [b] the greatest sum of weights of a conjunction below, -1 if none
    pnode: Int64Out  # [8 p]
    loss: Float64Out  # [p] predicate evaluations in vain below, per event
    target: Int32Out  # [e] a conjunction in a leaf, a p-node in a directory
    need: Int32Out  # [e] 1 + the attribute that an event must have, 0 if there is none
    box: Int64Out  # inactive dimensions: low and high of each attribute of the path but the last
    home: Int32Out  # [n] the bucket in whose leaf a conjunction is, -1 if it was removed
    place: Int32Out  # [n] where in that leaf
    popularity: Int64Out  # [a] conjunctions that could be filed under an attribute
    rate: Float64Out  # [a] evaluations in vain per event and conjunction filed under it
    tolerant: UInt8Out  # [a] whether some predicate on it that scores holds for null
    space: Int64Out  # [2 a] the lowest and the highest bound on each attribute
    free: Int64Out  # [64] the first free run of each length, then the first free box
    state: Int64Out
    options: Float64Out


# ------------------------------------------------------------ taking and giving back


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
        state[NEED + BUCKETS] <= t.most.shape[0]
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
    t.most[b] = -1.0
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
def length(low, high):
    """Return the length of an interval, without overflow; 0 for an empty one."""
    return np.uint64(high) - np.uint64(low) if low < high else np.uint64(0)


# ------------------------------------------------------------ what a conjunction is


@step
def span(kind, low, high, points, row):
    """Return the interval around a predicate (Table I); NULL to NULL if it cannot be a key.

    One that holds for null cannot: the search follows the attributes that an event has.
    """
    begin, end = low[row], high[row]
    none = np.int64(NULL)
    if kind[row] == INTERVAL:
        return (begin, end) if NULL < begin <= end else (none, none)
    if begin == end:
        return none, none
    of_null = points[begin] == NULL
    if kind[row] == SET:
        return (none, none) if of_null else (points[begin], points[end - 1])
    return (np.int64(LOWEST), np.int64(HIGHEST)) if of_null else (none, none)


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
def weight_of(c_attribute, kind, high, weight, begin, stop):
    """Return the sum of a conjunction's weights: its score, were all weights of the event 1."""
    total = 0.0
    for row in range(begin, stop):
        if kind[row] == INTERVAL and high[row] == NULL:
            continue
        if row > begin and c_attribute[row] == c_attribute[row - 1]:
            continue
        total += weight[row] if weight.shape[0] > 0 else 1.0
    return total
