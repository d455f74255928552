"""What happens to a leaf that overflows: its bucket is split, or its members are partitioned.

Each step checks for room before it changes anything, so it can be repeated with longer arrays.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.boxes import (
    distance_apart,
    extend_box,
    interval_on,
    key_interval,
    rarest_required,
    score_sums,
    write_intervals,
    write_path,
)
from tocsin.index.bestar.layout import (
    ABOVE,
    ALPHA,
    ATTRIBUTE,
    BUCKET,
    CAPACITY,
    COMMON_PREDICATES,
    COUNT,
    CUT,
    DIRECTORY,
    DIRECTORY_CLASS,
    EXHAUSTIVE,
    FREE_PNODE,
    HIGH,
    HISTOGRAM,
    LEAF,
    LEAF_CAPACITY,
    LEAF_CLASS,
    LEFT,
    LEVEL,
    LOW,
    NEXT_FREE,
    NODE,
    NODES,
    PARENT,
    PENDING,
    PNODE,
    PNODES,
    RIGHT,
    RIGID,
    ROOT,
    SIZE,
    SPACE_HIGH,
    SPACE_LOW,
)
from tocsin.index.bestar.ranks import histogram_loss, update_gain
from tocsin.index.bestar.records import (
    add_member,
    compact_leaf,
    grow_run,
    has_room,
    mark_pending,
    new_bucket,
    size_class,
    take_pending,
)
from tocsin.index.bestar.splitting import (
    TO_LEFT,
    TO_RIGHT,
    midpoint,
    split_approximately,
    split_at,
    split_exhaustively,
)
from tocsin.index.bestar.summaries import (
    divide_summary,
    room_for_summary,
    summarise_leaf,
    summarises,
)
from tocsin.jit import bare_step, prefetch, step
from tocsin.model.encoding import NULL

# Members of a leaf that an attribute must have for a p-node. Measured: with 2, events visit so many
# small p-nodes that matching takes 1.6 times as long (100,000 rules of which an event matches 100);
# so do insertions.
_MIN_MEMBERS = 5
_PREFETCHED = 32  # members of a leaf, at most; chosen


@step
def divide_pending(t, c, path, lows, highs, group_of):
    """Divide pending buckets that overflow, and those made of them; tell whether there was room.

    The forced split rule: a bucket is split before it is partitioned, unless it is one value. The
    root is no bucket of a c-directory, so it is only partitioned. (Algorithm 5.) The last four
    arguments are scratch, as long as there are attributes; `group_of` is all zero.
    """
    bucket, pnode, state = t.bucket, t.pnode, t.state
    rigid = t.options[RIGID] != 0
    while state[PENDING] >= 0:
        b = take_pending(bucket, state)
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
        prefetch_members(t, c, at)
        level = write_path(bucket, pnode, b, path)
        if splits:
            room = split(t, c, b, level, path, lows, highs)
        else:
            room = partition(t, c, b, level, path, lows, highs, group_of)
        if splits or not room:
            mark_pending(bucket, state, b)
        if not room:
            return False
    return True


@bare_step
def prefetch_members(t, c, at):
    """Prefetch the rows of a leaf's members, which are all over the place.

    Measured: without this, a million insertions take 1.05 (uniform) to 1.13 (Zipf) times as long.
    """
    bucket, target, home, place = t.bucket, t.target, t.home, t.place
    rows, tested, kind, low, high = c.offsets, c.attribute, c.kind, c.low, c.high
    leaf = bucket[at + LEAF]
    stop = leaf + min(bucket[at + SIZE], _PREFETCHED)
    for i in range(leaf, stop):
        prefetch(rows, np.int64(target[i]))
        prefetch(home, np.int64(target[i]))
        prefetch(place, np.int64(target[i]))
    for i in range(leaf, stop):
        first = rows[target[i]]
        prefetch(tested, first)
        prefetch(kind, first)
        prefetch(low, first)
        prefetch(high, first)


@bare_step
def space_of(bucket, pnode, b):
    """Return the part of the space that belongs to a bucket of a rigid tree."""
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
    bucket, target, required, options = t.bucket, t.target, t.required, t.options
    at = b * BUCKET
    size = bucket[at + SIZE]
    summaries = 3 * room_for_summary(t) if summarises(t) else 0
    if not has_room(t, 2, 0, 2 * size + 16, 2 << size_class(2 * level), summaries):
        return False
    rows, tested, kind, own_score = c.offsets, c.attribute, c.kind, c.score
    row_low, row_high, points, weights = c.low, c.high, c.points, c.weight
    box, max_sums, usual_weight, home, place = t.box, t.max_sums, t.usual_weight, t.home, t.place
    low, high, side = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.uint8)
    leaf = bucket[at + LEAF]
    for i in range(size):
        begin, stop = rows[target[leaf + i]], rows[target[leaf + i] + 1]
        low[i], high[i] = interval_on(
            tested, kind, row_low, row_high, points, begin, stop, path[level - 1]
        )
    cut, apart = np.int64(NULL), distance_apart(t, path[level - 1])
    if options[RIGID] != 0:
        first, last = space_of(bucket, t.pnode, b)
        cut = split_at(low, high, midpoint(first, last), apart, side)
    else:
        least = max(1, np.int64(np.ceil(options[ALPHA] * size)))
        if options[EXHAUSTIVE] != 0:
            cut = split_exhaustively(low, high, least, apart, side)
        else:
            cut = split_approximately(low, high, least, apart, side)
        if cut == NULL:
            cut = split_at(low, high, midpoint(bucket[at + LOW], bucket[at + HIGH]), apart, side)
    bucket[at + CUT] = cut
    for to in (TO_LEFT, TO_RIGHT):
        count = 0
        for i in range(size):
            count += side[i] == to
        if count == 0:
            continue
        child = new_bucket(t, bucket[at + NODE], b)
        bucket[at + (LEFT if to == TO_LEFT else RIGHT)] = child
        grow_run(t, child * BUCKET, LEAF, LEAF_CLASS, count - 1)
        for i in range(size):
            if side[i] == to:
                number = np.int64(target[leaf + i])
                begin, stop = rows[number], rows[number + 1]
                add_member(bucket, target, required, home, place, child, number, required[leaf + i])
                others = level - 1  # on the active dimension its interval is known already
                write_intervals(
                    tested, kind, row_low, row_high, points, begin, stop, path, others, lows, highs
                )
                lows[level - 1], highs[level - 1] = low[i], high[i]
                sums = score_sums(
                    tested, kind, row_high, weights, own_score, usual_weight, rows, number
                )
                extend_box(bucket, box, max_sums, child, level, lows, highs, sums)
        if summaries > 0:
            summarise_leaf(t, c, child)
        update_gain(t, c, child)
        mark_pending(bucket, t.state, child)
    compact_leaf(t, at, side)
    update_gain(t, c, b)
    if summaries > 0:
        divide_summary(t, c, b)
    return True


@step
def partition(t, c, b, level, path, lows, highs, group_of):
    """Move members to p-nodes while the leaf overflows (Algorithm 4); tell whether there was room.

    Attributes are taken by rank: the members that have it, less the loss that it has been seen to
    cause; with the option `loss` of "histogram", one that has caused none yet has an estimate. An
    attribute that only few members have would not pay for its nodes. Where no other is left, the
    leaf may grow to twice its size before this is tried again.
    """
    bucket, pnode, target, required = t.bucket, t.pnode, t.target, t.required
    loss_rate, popularity, box, max_sums = t.loss_rate, t.popularity, t.box, t.max_sums
    usual_weight, home, place, weights = t.usual_weight, t.home, t.place, c.weight
    tested, kind, low, high, points = c.attribute, c.kind, c.low, c.high, c.points
    rows, own_score = c.offsets, c.score
    at = b * BUCKET
    size, leaf = bucket[at + SIZE], bucket[at + LEAF]
    attributes, starts, members = group_by_attribute(t, c, at, level, path, group_of)
    groups = attributes.shape[0]
    left = starts[1:] - starts[:-1]  # members of each group that are still in the leaf
    at_most = min(groups, size // _MIN_MEMBERS)
    entries = 2 * size + 4 * at_most + 4 * (bucket[at + NODES] + at_most) + 16
    summaries = 0
    if summarises(t):
        # A summary of n takes less than 4 n places while it grows, if none is used again.
        tests = 0
        for i in range(size):
            tests += rows[target[leaf + i] + 1] - rows[target[leaf + i]]
        summaries = room_for_summary(t) + min(
            at_most * room_for_summary(t), 4 * tests + 8 * at_most
        )
    room = has_room(t, at_most, at_most, entries, at_most << size_class(2 * level), summaries)
    gone, estimated = np.zeros(size, np.uint8), np.zeros(groups)
    if t.options[HISTOGRAM] != 0:
        for g in range(groups):
            if loss_rate[attributes[g]] == 0:
                own = members[starts[g] : starts[g + 1]]
                estimated[g] = histogram_loss(t, c, leaf, own, attributes[g])
    capacity = np.int64(t.options[LEAF_CAPACITY])
    while room and size > capacity:
        best, highest = -1, 0.0
        for g in range(groups):
            if left[g] < _MIN_MEMBERS or loss_rate[attributes[g]] >= 1.0:
                continue
            rank = left[g] * (1.0 - loss_rate[attributes[g]]) - estimated[g]
            if best < 0 or rank > highest:
                best, highest = g, rank
        if best < 0:
            break
        moved = left[best]
        node = new_pnode(t, b, attributes[best], level + 1, moved)
        t.loss[node] += estimated[best]
        into = pnode[node * PNODE + ROOT]
        grow_run(t, into * BUCKET, LEAF, LEAF_CLASS, moved - 1)
        path[level] = attributes[best]
        for j in range(starts[best], starts[best + 1]):
            i = members[j]
            if gone[i] != 0:
                continue
            gone[i] = 1
            number = np.int64(target[leaf + i])
            begin, stop = rows[number], rows[number + 1]
            rarest = rarest_required(
                popularity, tested, kind, low, high, points, begin, stop, path, level + 1
            )
            add_member(bucket, target, required, home, place, into, number, rarest)
            write_intervals(
                tested, kind, low, high, points, begin, stop, path, level + 1, lows, highs
            )
            sums = score_sums(tested, kind, high, weights, own_score, usual_weight, rows, number)
            extend_box(bucket, box, max_sums, into, level + 1, lows, highs, sums)
            before = np.int64(-1)
            for row in range(begin, stop):
                a = np.int64(tested[row])
                if a == before or group_of[a] <= 0:
                    continue
                if key_interval(kind, low, high, points, row)[0] != NULL:
                    left[group_of[a] - 1] -= 1
                    before = a
        size -= moved
        if summaries > 0:
            summarise_leaf(t, c, into)
        update_gain(t, c, into)
        mark_pending(bucket, t.state, into)
    for g in range(groups):
        group_of[attributes[g]] = 0
    for j in range(level):
        group_of[path[j]] = 0
    if not room:
        return False
    compact_leaf(t, at, gone)
    update_gain(t, c, b)
    if summaries > 0:
        divide_summary(t, c, b)
    bucket[at + CAPACITY] = capacity if size <= capacity else 2 * size
    return True


@step
def group_by_attribute(t, c, at, level, path, group_of):
    """Return the attributes that could partition a leaf, and which members have each.

    Group g has the members of the leaf numbered members[starts[g]] to members[starts[g + 1]].
    `group_of` is all zero before; afterwards it is 1 + the group of an attribute, and negative for
    those of the path.
    """
    bucket, target = t.bucket, t.target
    rows, tested, kind, low, high, points = (
        c.offsets, c.attribute, c.kind, c.low, c.high, c.points
    )  # fmt: skip
    size, leaf = bucket[at + SIZE], bucket[at + LEAF]
    tests = 0
    for i in range(size):
        tests += rows[target[leaf + i] + 1] - rows[target[leaf + i]]
    attributes, members = np.empty(tests, np.int64), np.empty(tests, np.int64)
    groups = 0
    for j in range(level):
        group_of[path[j]] = -tests - 1  # stays negative while members are counted
    for i in range(size):
        before = np.int64(-1)
        for row in range(rows[target[leaf + i]], rows[target[leaf + i] + 1]):
            a = np.int64(tested[row])
            if a != before and key_interval(kind, low, high, points, row)[0] != NULL:
                group_of[a] += 1
                if group_of[a] == 1:
                    attributes[groups] = a
                    groups += 1
                before = a
    starts = np.zeros(groups + 1, np.int64)
    for g in range(groups):
        starts[g + 1] = starts[g] + group_of[attributes[g]]
        group_of[attributes[g]] = g + 1
    cursor = starts.copy()
    for i in range(size):
        before = np.int64(-1)
        for row in range(rows[target[leaf + i]], rows[target[leaf + i] + 1]):
            a = np.int64(tested[row])
            if a == before or group_of[a] <= 0:
                continue
            if key_interval(kind, low, high, points, row)[0] != NULL:
                members[cursor[group_of[a] - 1]] = i
                cursor[group_of[a] - 1] += 1
                before = a
    return attributes[:groups], starts, members


@bare_step
def new_pnode(t, b, attribute, level, count):
    """Put a p-node with an empty bucket into the directory of a bucket, and return it."""
    bucket, pnode, state, target, required = t.bucket, t.pnode, t.state, t.target, t.required
    p = state[FREE_PNODE]
    if p >= 0:
        state[FREE_PNODE] = pnode[p * PNODE + NEXT_FREE]
    else:
        p = state[PNODES]
        state[PNODES] += 1
    at = p * PNODE
    pnode[at + ATTRIBUTE], pnode[at + ABOVE], pnode[at + LEVEL] = attribute, b, level
    pnode[at + COUNT], pnode[at + NEXT_FREE] = count, -1
    pnode[at + SPACE_LOW], pnode[at + SPACE_HIGH] = (
        t.space[2 * attribute],
        t.space[2 * attribute + 1],
    )
    t.loss[p] = count * t.loss_rate[attribute]
    if t.options[COMMON_PREDICATES] != 0:
        t.gain[p] = 0.0
    pnode[at + ROOT] = new_bucket(t, p, b)
    to = b * BUCKET
    nodes = bucket[to + NODES]
    grow_run(t, to, DIRECTORY, DIRECTORY_CLASS, nodes)
    entry = bucket[to + DIRECTORY] + nodes
    while entry > bucket[to + DIRECTORY] and required[entry - 1] > attribute + 1:
        target[entry], required[entry] = target[entry - 1], required[entry - 1]
        entry -= 1
    target[entry], required[entry] = p, attribute + 1
    bucket[to + NODES] += 1
    return p
