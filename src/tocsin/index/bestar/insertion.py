"""Insertion (section V): down to the smallest bucket, then clustering and partitioning in turn.

Everything here stops where an array is too short, before it changes anything, and goes on when
called again; so a kernel never has to replace an array.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.layout import (
    ABOVE,
    ALPHA,
    ATTRIBUTE,
    BETA,
    BOX,
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
    IDLE,
    LEAF,
    LEAF_CAPACITY,
    LEAF_CLASS,
    LEFT,
    LEVEL,
    LONGEST,
    LOW,
    MEMBERS,
    NEXT,
    NODE,
    NODES,
    PARENT,
    PEAK,
    PNODE,
    PNODES,
    RIGHT,
    RIGID,
    ROOT,
    SIZE,
    SPACE_HIGH,
    SPACE_LOW,
    TODO,
    Tree,
    class_of,
    enough,
    length,
    lengthen,
    look_after,
    new_bucket,
    shorten,
    span,
    span_on,
    weight_of,
)
from tocsin.index.bestar.splitting import (
    OVERLAPPING,
    TO_LEFT,
    TO_RIGHT,
    at_best,
    at_middle,
    from_both_ends,
    middle_of,
)
from tocsin.jit import Int32s, kernel, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.line import NULL
from tocsin.model.predicates import INTERVAL

_WORTH_A_PARTITION = 2  # conjunctions with an attribute in common


@kernel
def note(t: Tree, c: Conjunctions, numbers: Int32s) -> None:
    """Note what conjunctions that are about to be inserted say of each attribute."""
    popularity, tolerant, space = t.popularity, t.tolerant, t.space
    rows, attribute, kind, low, high, points = (
        c.offsets,
        c.attribute,
        c.kind,
        c.low,
        c.high,
        c.points,
    )
    for i in range(numbers.shape[0]):
        for row in range(rows[numbers[i]], rows[numbers[i] + 1]):
            a = attribute[row]
            least, greatest = span(kind, low, high, points, row)
            if least != NULL:
                popularity[a] += 1
                space[2 * a] = min(space[2 * a], least)
                space[2 * a + 1] = max(space[2 * a + 1], greatest)
            elif not (kind[row] == INTERVAL and high[row] == NULL):
                tolerant[a] = 1


@kernel
def heap_up(t: Tree, c: Conjunctions) -> None:
    """Make the root, with all conjunctions in its leaf, which `insert` then divides (BE*-B)."""
    new_bucket(t, -1, -1)
    if c.rule.shape[0] == 0:
        return
    bucket, target, need, home, place, most = t.bucket, t.target, t.need, t.home, t.place, t.most
    rows, attribute, kind, high, weights = c.offsets, c.attribute, c.kind, c.high, c.weight
    lengthen(t, 0, LEAF, LEAF_CLASS, c.rule.shape[0] - 1)
    for number in range(c.rule.shape[0]):
        weight = weight_of(attribute, kind, high, weights, rows[number], rows[number + 1])
        most[0] = max(most[0], weight)
        add_member(bucket, target, need, home, place, 0, number, rarest(t, c, number))
    t.state[LONGEST] = t.state[MEMBERS] = t.state[PEAK] = c.rule.shape[0]
    look_after(t.bucket, t.state, 0)


@kernel
def insert(t: Tree, c: Conjunctions, numbers: Int32s, first: int) -> int:
    """Insert conjunctions one after the other, from the `first` of the numbers on.

    Return how far it got; there may be buckets left to look after.
    """
    attributes = t.rate.shape[0]
    lows, highs = np.empty(attributes + 1, np.int64), np.empty(attributes + 1, np.int64)
    path, counts = np.empty(attributes + 1, np.int64), np.zeros(attributes + 1, np.int64)
    done = first
    while settle(t, c, path, lows, highs, counts) and done < numbers.shape[0]:
        tests = c.offsets[numbers[done] + 1] - c.offsets[numbers[done]]
        entries = 2 << class_of(t.state[LONGEST] + 1)
        if not enough(t, 1, 0, entries + 8, 2 << class_of(2 * tests)):
            break
        put(t, c, np.int64(numbers[done]), lows, highs)
        done += 1
    return done


@step
def rarest(t, c, number):
    """Return 1 + the attribute with which a conjunction is least often a candidate, 0 if none."""
    popularity = t.popularity
    attribute, kind, low, high, points = c.attribute, c.kind, c.low, c.high, c.points
    needed = -1
    for row in range(c.offsets[number], c.offsets[number + 1]):
        if span(kind, low, high, points, row)[0] != NULL and (
            needed < 0 or popularity[attribute[row]] < popularity[needed]
        ):
            needed = attribute[row]
    return needed + 1


@step
def add_member(bucket, target, need, home, place, b, number, needed):
    """Append a conjunction to a leaf that has room."""
    at = b * BUCKET
    entry = bucket[at + LEAF] + bucket[at + SIZE]
    target[entry], need[entry] = number, needed
    home[number], place[number] = b, bucket[at + SIZE]
    bucket[at + SIZE] += 1


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


@step
def extend(bucket, box, most, b, level, lows, highs, weight):
    """Widen a bucket's box around a conjunction, in all dimensions of its path (Algorithm 3)."""
    at = b * BUCKET
    most[b] = max(most[b], weight)
    if level > 0:
        bucket[at + LOW] = min(bucket[at + LOW], lows[level - 1])
        bucket[at + HIGH] = max(bucket[at + HIGH], highs[level - 1])
    start = bucket[at + BOX]
    for j in range(level - 1):
        box[start + 2 * j] = min(box[start + 2 * j], lows[j])
        box[start + 2 * j + 1] = max(box[start + 2 * j + 1], highs[j])


@step
def put(t, c, number, lows, highs):
    """Insert one conjunction (Algorithm 1); its leaf may overflow.

    It goes to the p-node with the highest rank, where one has an attribute of it, and there to a
    bucket; so level by level.
    """
    bucket, pnode, loss, box, most = t.bucket, t.pnode, t.loss, t.box, t.most
    target, need = t.target, t.need
    attribute, kind, low, high, points = c.attribute, c.kind, c.low, c.high, c.points
    begin, stop = c.offsets[number], c.offsets[number + 1]
    weight = weight_of(attribute, kind, high, c.weight, begin, stop)
    b, level = np.int64(0), 0
    extend(bucket, box, most, b, 0, lows, highs, weight)
    while bucket[b * BUCKET + NODES] > 0:
        start, nodes = bucket[b * BUCKET + DIRECTORY], bucket[b * BUCKET + NODES]
        chosen, highest = np.int64(-1), 0.0
        for row in range(begin, stop):
            least, greatest = span(kind, low, high, points, row)
            if least == NULL:
                continue
            entry = entry_for(need, start, nodes, attribute[row] + 1)
            if entry < 0:
                continue
            p = np.int64(target[entry])
            rank = pnode[p * PNODE + COUNT] - loss[p]
            if chosen < 0 or rank > highest:
                chosen, highest = p, rank
                lows[level], highs[level] = least, greatest
        if chosen < 0:
            break
        pnode[chosen * PNODE + COUNT] += 1
        level += 1
        b = home_bucket(t, pnode[chosen * PNODE + ROOT], level, lows, highs, weight)
    at = b * BUCKET
    lengthen(t, at, LEAF, LEAF_CLASS, bucket[at + SIZE])
    add_member(bucket, target, need, t.home, t.place, b, number, rarest(t, c, number))
    state = t.state
    state[LONGEST] = max(state[LONGEST], bucket[at + SIZE])
    state[MEMBERS] += 1
    state[PEAK] = max(state[PEAK], state[MEMBERS])
    leaf_bucket = b > 0 and bucket[at + CUT] == NULL and bucket[at + NODES] == 0
    if leaf_bucket and bucket[at + LOW] < bucket[at + HIGH]:
        # One that was left to grow because it was one value may be split now.
        bucket[at + CAPACITY] = np.int64(t.options[LEAF_CAPACITY])
    if bucket[at + SIZE] > bucket[at + CAPACITY]:
        look_after(bucket, t.state, b)


@step
def home_bucket(t, b, level, lows, highs, weight):
    """Return the bucket of a c-directory for a conjunction, widening those above (Algorithm 2)."""
    bucket, box, most = t.bucket, t.box, t.most
    rigid = t.options[RIGID] != 0
    low, high = lows[level - 1], highs[level - 1]
    while True:
        at = b * BUCKET
        cut = bucket[at + CUT]
        if not rigid and (cut != NULL or bucket[at + NODES] > 0):
            old = length(bucket[at + LOW], bucket[at + HIGH])
            new = length(min(low, bucket[at + LOW]), max(high, bucket[at + HIGH]))
            if np.float64(new) > t.options[BETA] * np.float64(old):
                b = put_above(t, b, level, high > bucket[at + HIGH])
                break
        if cut == NULL:
            break
        side = side_for(bucket, at, low, high, rigid)
        if side == OVERLAPPING:
            break
        extend(bucket, box, most, b, level, lows, highs, weight)
        child = bucket[at + (LEFT if side == TO_LEFT else RIGHT)]
        if child < 0:
            child = new_bucket(t, bucket[at + NODE], b)
            bucket[at + (LEFT if side == TO_LEFT else RIGHT)] = child
        b = child
    extend(bucket, box, most, b, level, lows, highs, weight)
    return b


@step
def side_for(bucket, at, low, high, rigid):
    """Tell on which side of a split bucket an interval belongs.

    Left and right repel each other: what meets both overlaps; what meets one goes there; what
    meets neither goes where it widens less. A side that is empty begins at the cut, or where the
    other ends if that is beyond: the paper does not say where something goes then.
    """
    cut, left, right = bucket[at + CUT], bucket[at + LEFT], bucket[at + RIGHT]
    if rigid:
        to_right = TO_RIGHT if low > cut else OVERLAPPING
        return TO_LEFT if high < cut else to_right
    left_low = left_high = right_low = right_high = cut
    if left >= 0:
        left_low, left_high = bucket[left * BUCKET + LOW], bucket[left * BUCKET + HIGH]
    if right >= 0:
        right_low, right_high = bucket[right * BUCKET + LOW], bucket[right * BUCKET + HIGH]
    if left >= 0:
        meets_left = low <= left_high and high >= left_low
    else:
        meets_left = low < min(cut, right_low)
    if right >= 0:
        meets_right = low <= right_high and high >= right_low
    else:
        meets_right = high > max(cut, left_high)
    if meets_left and meets_right:
        return OVERLAPPING
    if meets_left or meets_right:
        return TO_LEFT if meets_left else TO_RIGHT
    if left < 0 and right < 0:
        return OVERLAPPING
    if left < 0 or right < 0:
        return TO_LEFT if left >= 0 else TO_RIGHT
    to_left = length(min(low, left_low), max(high, left_high))
    to_right = length(min(low, right_low), max(high, right_high))
    return TO_LEFT if to_left < to_right else TO_RIGHT


@step
def put_above(t, b, level, rightward):
    """Put a new bucket above one, and return it: the bottom-up expansion (section V-A2)."""
    bucket, box = t.bucket, t.box
    at = b * BUCKET
    node, above = bucket[at + NODE], bucket[at + PARENT]
    new = new_bucket(t, node, above)
    to = new * BUCKET
    bucket[at + PARENT] = new
    if t.pnode[node * PNODE + ROOT] == b:
        t.pnode[node * PNODE + ROOT] = new
    elif bucket[above * BUCKET + LEFT] == b:
        bucket[above * BUCKET + LEFT] = new
    else:
        bucket[above * BUCKET + RIGHT] = new
    bucket[to + (LEFT if rightward else RIGHT)] = b
    bucket[to + CUT] = bucket[at + HIGH] + 1 if rightward else bucket[at + LOW] - 1
    bucket[to + LOW], bucket[to + HIGH] = bucket[at + LOW], bucket[at + HIGH]
    t.most[new] = t.most[b]
    for j in range(2 * (level - 1)):
        box[bucket[to + BOX] + j] = box[bucket[at + BOX] + j]
    return new


# ------------------------------------------------------------ overflow


@step
def settle(t, c, path, lows, highs, counts):
    """Divide the buckets that overflow, and what comes of them; tell whether there was room.

    The forced split rule: a bucket is split before it is partitioned, unless it is one value. The
    root is no bucket of a c-directory: it is partitioned only. (Algorithm 5.)
    """
    bucket, state = t.bucket, t.state
    while state[TODO] >= 0:
        b = state[TODO]
        at = b * BUCKET
        splits = False
        if bucket[at + SIZE] > bucket[at + CAPACITY]:
            if b > 0 and bucket[at + CUT] == NULL and bucket[at + NODES] == 0:
                splits = bucket[at + LOW] < bucket[at + HIGH]
                if splits and t.options[RIGID] != 0:
                    first, last = space_of(bucket, t.pnode, b)
                    splits = first < last
            level = path_of(bucket, t.pnode, b, path)
            if splits:
                if not split(t, c, b, level, path, lows, highs):
                    return False
            elif not partition(t, c, b, level, path, lows, highs, counts):
                return False
        # Those that were made are in front of it now: it is taken out of the list, not off its top.
        if not splits:
            unlist(bucket, state, b)
    return True


@step
def unlist(bucket, state, b):
    """Take a bucket out of the list of those to be looked after."""
    after = bucket[b * BUCKET + NEXT]
    bucket[b * BUCKET + NEXT] = IDLE
    if state[TODO] == b:
        state[TODO] = after
        return
    each = state[TODO]
    while bucket[each * BUCKET + NEXT] != b:
        each = bucket[each * BUCKET + NEXT]
    bucket[each * BUCKET + NEXT] = after


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
def extend_by(t, c, b, number, level, path, lows, highs):
    """Widen a bucket's box around a conjunction, asking the conjunction for its intervals."""
    attribute, kind, low, high, points = c.attribute, c.kind, c.low, c.high, c.points
    begin, stop = c.offsets[number], c.offsets[number + 1]
    for j in range(level):
        lows[j], highs[j] = span_on(
            attribute, kind, low, high, points, begin, stop, path[j]
        )  # fmt: skip
    weight = weight_of(attribute, kind, high, c.weight, begin, stop)
    extend(t.bucket, t.box, t.most, b, level, lows, highs, weight)


@step
def split(t, c, b, level, path, lows, highs):
    """Split a leaf bucket into left, overlapping and right; tell whether there was room."""
    bucket, target, need, options = t.bucket, t.target, t.need, t.options
    at = b * BUCKET
    m = bucket[at + SIZE]
    if not enough(t, 2, 0, 2 * m + 16, 2 << class_of(2 * level)):
        return False
    attribute, kind, c_low, c_high, points = c.attribute, c.kind, c.low, c.high, c.points
    low, high, side = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.uint8)
    leaf = bucket[at + LEAF]
    for i in range(m):
        begin, stop = c.offsets[target[leaf + i]], c.offsets[target[leaf + i] + 1]
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
                add_member(
                    bucket, target, need, t.home, t.place, child, number, need[leaf + i]
                )  # fmt: skip
                extend_by(t, c, child, number, level, path, lows, highs)
        look_after(bucket, t.state, child)
    keep_those(t, at, side)
    return True


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
def partition(t, c, b, level, path, lows, highs, counts):
    """Move members to p-nodes while the leaf overflows (Algorithm 4); tell whether there was room.

    The attributes come by rank: how many members have it, less what evaluations in vain it has
    been seen to cause. An attribute that only one of them has would not divide them. Where none
    is left, the leaf may grow to twice its size before this is tried again.
    """
    bucket, pnode, target, need, rate = t.bucket, t.pnode, t.target, t.need, t.rate
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
            add_member(bucket, target, need, t.home, t.place, into, number, need[leaf + i])
            extend_by(t, c, into, number, level + 1, path, lows, highs)
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
