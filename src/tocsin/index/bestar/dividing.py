"""What happens to a leaf that overflows: its bucket is split, or its members are partitioned.

Each step asks for room before it changes anything, so it can be tried again with longer arrays.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.boxes import extend, path_of, rarest, span, span_on, spans_of, sums_of
from tocsin.index.bestar.layout import (
    ABOVE,
    ALPHA,
    ATTRIBUTE,
    BUCKET,
    CAPACITY,
    CHAIN,
    COUNT,
    CUT,
    DIRECTORY,
    DIRECTORY_CLASS,
    EXHAUSTIVE,
    FREE_PNODE,
    HIGH,
    LEAF,
    LEAF_CAPACITY,
    LEAF_CLASS,
    LEFT,
    LEVEL,
    LOW,
    NODE,
    NODES,
    PARENT,
    PNODE,
    PNODES,
    RIGHT,
    RIGID,
    ROOT,
    SIZE,
    SPACE_HIGH,
    SPACE_LOW,
    TODO,
)
from tocsin.index.bestar.records import (
    add_member,
    class_of,
    enough,
    keep_those,
    lengthen,
    look_after,
    new_bucket,
    next_one,
)
from tocsin.index.bestar.splitting import (
    TO_LEFT,
    TO_RIGHT,
    at_best,
    at_middle,
    from_both_ends,
    middle_of,
)
from tocsin.jit import step
from tocsin.model.encoding import NULL

# Members that an attribute must have for a p-node. With 2, events visit so many small p-nodes that
# they take 1.6 times as long (100,000 rules of which an event matches 100), insertions, too.
_WORTH_A_PARTITION = 5


@step
def settle(t, c, path, lows, highs, counts):
    """Divide the buckets that overflow, and what comes of them; tell whether there was room.

    The forced split rule: a bucket is split before it is partitioned, unless it is one value. The
    root is no bucket of a c-directory: it is partitioned only. (Algorithm 5.)
    """
    bucket, pnode, state = t.bucket, t.pnode, t.state
    rigid = t.options[RIGID] != 0
    while state[TODO] >= 0:
        b = next_one(bucket, state)
        at = b * BUCKET
        if bucket[at + SIZE] <= bucket[at + CAPACITY]:
            continue
        splits = b > 0 and bucket[at + CUT] == NULL and bucket[at + NODES] == 0
        if splits:
            first, last = bucket[at + LOW], bucket[at + HIGH]
            splits = first < last
            if splits and rigid:
                first, last = space_of(bucket, pnode, b)
                splits = first < last
        level = path_of(bucket, pnode, b, path)
        if splits:
            room = split(t, c, b, level, path, lows, highs)
        else:
            room = partition(t, c, b, level, path, lows, highs, counts)
        if splits or not room:
            look_after(bucket, state, b)
        if not room:
            return False
    return True


@step
def space_of(bucket, pnode, b):
    """Return the part of the space that is a bucket's in a rigid tree."""
    node = bucket[b * BUCKET + NODE]
    low, high = pnode[node * PNODE + SPACE_LOW], pnode[node * PNODE + SPACE_HIGH]
    while pnode[node * PNODE + ROOT] != b:
        above = bucket[b * BUCKET + PARENT] * BUCKET
        if bucket[above + LEFT] == b:
            high = min(high, bucket[above + CUT] - 1)
        else:
            low = max(low, bucket[above + CUT] + 1)
        b = bucket[b * BUCKET + PARENT]
    return low, high


@step
def split(t, c, b, level, path, lows, highs):
    """Split a leaf bucket into left, overlapping and right; tell whether there was room."""
    bucket, target, need, options = t.bucket, t.target, t.need, t.options
    at = b * BUCKET
    m = bucket[at + SIZE]
    if not enough(t, 2, 0, 2 * m + 16, 2 << class_of(2 * level)):
        return False
    rows, attribute, kind = c.offsets, c.attribute, c.kind
    c_low, c_high, points, weights = c.low, c.high, c.points, c.weight
    box, most, usual, home, place = t.box, t.most, t.usual, t.home, t.place
    low, high, side = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.uint8)
    leaf = bucket[at + LEAF]
    for i in range(m):
        begin, stop = rows[target[leaf + i]], rows[target[leaf + i] + 1]
        low[i], high[i] = span_on(
            attribute, kind, c_low, c_high, points, begin, stop, path[level - 1]
        )
    cut = np.int64(NULL)
    if options[RIGID] != 0:
        first, last = space_of(bucket, t.pnode, b)
        cut = at_middle(low, high, middle_of(first, last), side)
    else:
        least = max(1, np.int64(np.ceil(options[ALPHA] * m)))
        if options[EXHAUSTIVE] != 0:
            cut = at_best(low, high, least, side)
        else:
            cut = from_both_ends(low, high, least, side)
        if cut == NULL:
            cut = at_middle(low, high, middle_of(bucket[at + LOW], bucket[at + HIGH]), side)
    bucket[at + CUT] = cut
    for to in (TO_LEFT, TO_RIGHT):
        count = 0
        for i in range(m):
            count += side[i] == to
        if count == 0:
            continue
        child = new_bucket(t, bucket[at + NODE], b)
        bucket[at + (LEFT if to == TO_LEFT else RIGHT)] = child
        lengthen(t, child * BUCKET, LEAF, LEAF_CLASS, count - 1)
        for i in range(m):
            if side[i] == to:
                number = np.int64(target[leaf + i])
                begin, stop = rows[number], rows[number + 1]
                add_member(bucket, target, need, home, place, child, number, need[leaf + i])
                # On the active dimension it is known already.
                others = level - 1
                spans_of(
                    attribute, kind, c_low, c_high, points, begin, stop, path, others, lows, highs
                )
                lows[level - 1], highs[level - 1] = low[i], high[i]
                sums = sums_of(attribute, kind, c_high, weights, usual, begin, stop)
                extend(bucket, box, most, child, level, lows, highs, sums)
        look_after(bucket, t.state, child)
    keep_those(t, at, side)
    return True


@step
def partition(t, c, b, level, path, lows, highs, counts):
    """Move members to p-nodes while the leaf overflows (Algorithm 4); tell whether there was room.

    The attributes come by rank: how many members have it, less what evaluations in vain it has
    been seen to cause. An attribute that only few of them have would not pay for its nodes. Where
    no other is left, the leaf may grow to twice its size before this is tried again.
    """
    bucket, pnode, target, need = t.bucket, t.pnode, t.target, t.need
    rate, popularity, box, most = t.rate, t.popularity, t.box, t.most
    usual, home, place, weights = t.usual, t.home, t.place, c.weight
    attribute, kind, low, high, points = c.attribute, c.kind, c.low, c.high, c.points
    rows = c.offsets
    at = b * BUCKET
    m, leaf = bucket[at + SIZE], bucket[at + LEAF]
    # Which members have which attribute: a list for each, made by counting.
    tests = 0
    for i in range(m):
        tests += rows[target[leaf + i] + 1] - rows[target[leaf + i]]
    distinct, having = np.empty(tests, np.int64), np.empty(tests, np.int64)
    different = 0
    for j in range(level):
        counts[path[j]] = -tests - 1  # used already
    for i in range(m):
        before = np.int64(-1)
        for row in range(rows[target[leaf + i]], rows[target[leaf + i] + 1]):
            a = np.int64(attribute[row])
            if a != before and span(kind, low, high, points, row)[0] != NULL:
                counts[a] += 1
                if counts[a] == 1:
                    distinct[different] = a
                    different += 1
                before = a
    starts, left = np.zeros(different + 1, np.int64), np.empty(different, np.int64)
    for d in range(different):
        left[d] = counts[distinct[d]]
        starts[d + 1] = starts[d] + left[d]
        counts[distinct[d]] = d + 1  # from now on the number of an attribute
    cursor = starts.copy()
    for i in range(m):
        before = np.int64(-1)
        for row in range(rows[target[leaf + i]], rows[target[leaf + i] + 1]):
            a = np.int64(attribute[row])
            if a != before and counts[a] > 0 and span(kind, low, high, points, row)[0] != NULL:
                having[cursor[counts[a] - 1]] = i
                cursor[counts[a] - 1] += 1
                before = a
    at_most = min(different, m // _WORTH_A_PARTITION)
    entries = 2 * m + 4 * at_most + 4 * (bucket[at + NODES] + at_most) + 16
    room = enough(t, at_most, at_most, entries, at_most << class_of(2 * level))
    gone = np.zeros(m, np.uint8)
    here = m
    capacity = np.int64(t.options[LEAF_CAPACITY])
    while room and here > capacity:
        best, highest = -1, 0.0
        for d in range(different):
            rank = left[d] * (1.0 - rate[distinct[d]])
            if left[d] >= _WORTH_A_PARTITION and rank > highest:
                best, highest = d, rank
        if best < 0:
            break
        moved = left[best]
        made = new_pnode(t, b, distinct[best], level + 1, moved)
        into = pnode[made * PNODE + ROOT]
        lengthen(t, into * BUCKET, LEAF, LEAF_CLASS, moved - 1)
        path[level] = distinct[best]
        for j in range(starts[best], starts[best + 1]):
            i = having[j]
            if gone[i] != 0:
                continue
            gone[i] = 1
            number = np.int64(target[leaf + i])
            begin, stop = rows[number], rows[number + 1]
            needed = rarest(
                popularity, attribute, kind, low, high, points, begin, stop, path, level + 1
            )
            add_member(bucket, target, need, home, place, into, number, needed)
            spans_of(attribute, kind, low, high, points, begin, stop, path, level + 1, lows, highs)
            sums = sums_of(attribute, kind, high, weights, usual, begin, stop)
            extend(bucket, box, most, into, level + 1, lows, highs, sums)
            before = np.int64(-1)
            for row in range(rows[number], rows[number + 1]):
                a = np.int64(attribute[row])
                if a != before and counts[a] > 0 and span(kind, low, high, points, row)[0] != NULL:
                    left[counts[a] - 1] -= 1
                    before = a
        here -= moved
        look_after(bucket, t.state, into)
    for d in range(different):
        counts[distinct[d]] = 0
    for j in range(level):
        counts[path[j]] = 0
    if not room:
        return False
    keep_those(t, at, gone)
    bucket[at + CAPACITY] = capacity if here <= capacity else 2 * here
    return True


@step
def new_pnode(t, b, attribute, level, count):
    """Put a p-node with an empty bucket into the directory of a bucket, and return it."""
    bucket, pnode, state, target, need = t.bucket, t.pnode, t.state, t.target, t.need
    p = state[FREE_PNODE]
    if p >= 0:
        state[FREE_PNODE] = pnode[p * PNODE + CHAIN]
    else:
        p = state[PNODES]
        state[PNODES] += 1
    at = p * PNODE
    pnode[at + ATTRIBUTE], pnode[at + ABOVE], pnode[at + LEVEL] = attribute, b, level
    pnode[at + COUNT], pnode[at + CHAIN] = count, -1
    pnode[at + SPACE_LOW], pnode[at + SPACE_HIGH] = (
        t.space[2 * attribute],
        t.space[2 * attribute + 1],
    )
    t.loss[p] = count * t.rate[attribute]
    pnode[at + ROOT] = new_bucket(t, p, b)
    to = b * BUCKET
    nodes = bucket[to + NODES]
    lengthen(t, to, DIRECTORY, DIRECTORY_CLASS, nodes)
    entry = bucket[to + DIRECTORY] + nodes
    while entry > bucket[to + DIRECTORY] and need[entry - 1] > attribute + 1:
        target[entry], need[entry] = target[entry - 1], need[entry - 1]
        entry -= 1
    target[entry], need[entry] = p, attribute + 1
    bucket[to + NODES] += 1
    return p
