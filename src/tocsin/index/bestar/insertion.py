"""Insertion (section V): down to the smallest bucket that encloses the conjunction.

Everything here stops where an array is too short, before it changes anything, and goes on when
called again; so a kernel never has to replace an array.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.boxes import extend, length, rarest, span, sums_of
from tocsin.index.bestar.dividing import settle, space_of
from tocsin.index.bestar.layout import (
    BETA,
    BOX,
    BUCKET,
    CAPACITY,
    COUNT,
    CUT,
    DIRECTORY,
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
    PEAK,
    PNODE,
    RIGHT,
    RIGID,
    ROOT,
    SIZE,
    Tree,
)
from tocsin.index.bestar.records import (
    add_member,
    class_of,
    enough,
    entry_for,
    is_full,
    lengthen,
    look_after,
    new_bucket,
)
from tocsin.index.bestar.splitting import OVERLAPPING, TO_LEFT, TO_RIGHT, middle_of
from tocsin.jit import Int32s, kernel, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import NULL
from tocsin.model.facts import bounds
from tocsin.model.predicates import INTERVAL


@kernel
def note(t: Tree, c: Conjunctions, numbers: Int32s) -> None:
    """Note what conjunctions that are about to be inserted say of each attribute.

    What is usual is what the first of them have on average, for good: sums depend on it. It is
    times 2**30, and at least 1, so that no product is less exact than the weight.
    """
    popularity, tolerant, space, usual, plain = (
        t.popularity, t.tolerant, t.space, t.usual, t.plain
    )  # fmt: skip
    rows, attribute, kind, weights = c.offsets, c.attribute, c.kind, c.weight
    low, high, points = c.low, c.high, c.points
    total, count = np.zeros(usual.shape[0]), np.zeros(usual.shape[0])
    for i in range(numbers.shape[0]):
        plain[numbers[i]] = 1
        for row in range(rows[numbers[i]], rows[numbers[i] + 1]):
            a = attribute[row]
            plain[numbers[i]] &= np.uint8(kind[row] == INTERVAL)
            total[a] += weights[row] if weights.shape[0] > 0 else 1.0
            count[a] += 1
            least, greatest = bounds(kind, low, high, points, row)
            if least != NULL:
                popularity[a] += 1
                space[2 * a] = min(space[2 * a], least)
                space[2 * a + 1] = max(space[2 * a + 1], greatest)
            elif greatest != NULL:
                tolerant[a] = 1
    for a in range(usual.shape[0]):
        if usual[a] == 0 and count[a] > 0:
            usual[a] = min(max(total[a] / count[a] * 2.0**30, 1.0), 2.0**60)


@kernel
def heap_up(t: Tree, c: Conjunctions) -> None:
    """Make the root, with all conjunctions in its leaf, which `insert` then divides (BE*-B)."""
    new_bucket(t, -1, -1)
    if c.rule.shape[0] == 0:
        return
    bucket, target, need, home, place, most = t.bucket, t.target, t.need, t.home, t.place, t.most
    rows, attribute, kind, weights = c.offsets, c.attribute, c.kind, c.weight
    low, high, points, popularity, usual = c.low, c.high, c.points, t.popularity, t.usual
    path = np.empty(0, np.int64)
    lengthen(t, 0, LEAF, LEAF_CLASS, c.rule.shape[0] - 1)
    for number in range(c.rule.shape[0]):
        begin, stop = rows[number], rows[number + 1]
        sums = sums_of(attribute, kind, high, weights, usual, begin, stop)
        most[0], most[1] = max(most[0], sums[0]), max(most[1], sums[1])
        needed = rarest(popularity, attribute, kind, low, high, points, begin, stop, path, 0)
        add_member(bucket, target, need, home, place, 0, number, needed)
    t.state[LONGEST] = t.state[MEMBERS] = t.state[PEAK] = c.rule.shape[0]
    look_after(t.bucket, t.state, 0)


@kernel
def insert(t: Tree, c: Conjunctions, numbers: Int32s, first: int) -> int:
    """Insert conjunctions one after the other, from the `first` of the numbers on (Algorithm 1).

    A conjunction goes to the p-node with the highest rank, of those that have an attribute of it,
    and there to a bucket; so level by level. Then its leaf may overflow. Return how far it got;
    there may be buckets left to look after.
    """
    bucket, pnode, loss, box, most = t.bucket, t.pnode, t.loss, t.box, t.most
    target, need, home, place = t.target, t.need, t.home, t.place
    popularity, usual, state = t.popularity, t.usual, t.state
    rows, attribute, kind, weights = c.offsets, c.attribute, c.kind, c.weight
    low, high, points = c.low, c.high, c.points
    capacity, beta, rigid = t.options[LEAF_CAPACITY], t.options[BETA], t.options[RIGID] != 0
    attributes = t.rate.shape[0]
    lows, highs = np.empty(attributes + 1, np.int64), np.empty(attributes + 1, np.int64)
    path, counts = np.empty(attributes + 1, np.int64), np.zeros(attributes + 1, np.int64)
    done = first
    while settle(t, c, path, lows, highs, counts) and done < numbers.shape[0]:
        number = np.int64(numbers[done])
        begin, stop = rows[number], rows[number + 1]
        entries = 1 << class_of(state[LONGEST] + 1)
        if not enough(t, 1, 0, entries + 8, 2 << class_of(2 * (stop - begin))):
            break
        done += 1
        sums = sums_of(attribute, kind, high, weights, usual, begin, stop)
        b, level = np.int64(0), 0
        extend(bucket, box, most, b, 0, lows, highs, sums)
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
                    path[level], lows[level], highs[level] = attribute[row], least, greatest
            if chosen < 0:
                break
            pnode[chosen * PNODE + COUNT] += 1
            level += 1
            b = pnode[chosen * PNODE + ROOT]
            b = home_bucket(t, bucket, box, most, b, level, lows, highs, sums, beta, rigid)
        at = b * BUCKET
        if is_full(bucket, at):
            lengthen(t, at, LEAF, LEAF_CLASS, bucket[at + SIZE])
        needed = rarest(
            popularity, attribute, kind, low, high, points, begin, stop, path, level
        )  # fmt: skip
        add_member(bucket, target, need, home, place, b, number, needed)
        state[LONGEST] = max(state[LONGEST], bucket[at + SIZE])
        state[MEMBERS] += 1
        state[PEAK] = max(state[PEAK], state[MEMBERS])
        leaf_bucket = b > 0 and bucket[at + CUT] == NULL and bucket[at + NODES] == 0
        if leaf_bucket and bucket[at + LOW] < bucket[at + HIGH]:
            # One that was left to grow because it was one value may be split now.
            bucket[at + CAPACITY] = np.int64(capacity)
        if bucket[at + SIZE] > bucket[at + CAPACITY]:
            look_after(bucket, state, b)
    return done


@step
def home_bucket(t, bucket, box, most, b, level, lows, highs, sums, beta, rigid):
    """Return the bucket of a c-directory for a conjunction, widening those above (Algorithm 2)."""
    low, high = lows[level - 1], highs[level - 1]
    while True:
        at = b * BUCKET
        cut = bucket[at + CUT]
        if not rigid and (cut != NULL or bucket[at + NODES] > 0):
            old = length(bucket[at + LOW], bucket[at + HIGH])
            new = length(min(low, bucket[at + LOW]), max(high, bucket[at + HIGH]))
            if np.float64(new) > beta * np.float64(old):
                b = put_above(t, b, level, high > bucket[at + HIGH])
                break
        if rigid and cut == NULL and bucket[at + NODES] > 0:
            # It was partitioned as one value, and will be more: what comes is halved from now on.
            first, last = space_of(bucket, t.pnode, b)
            if first < last and (low < bucket[at + LOW] or high > bucket[at + HIGH]):
                bucket[at + CUT] = cut = middle_of(first, last)
        if cut == NULL:
            break
        side = side_for(bucket, at, low, high, rigid)
        if side == OVERLAPPING:
            break
        extend(bucket, box, most, b, level, lows, highs, sums)
        child = bucket[at + (LEFT if side == TO_LEFT else RIGHT)]
        if child < 0:
            child = new_bucket(t, bucket[at + NODE], b)
            bucket[at + (LEFT if side == TO_LEFT else RIGHT)] = child
        b = child
    extend(bucket, box, most, b, level, lows, highs, sums)
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
    for j in range(2):
        t.most[2 * new + j] = t.most[2 * b + j]
    for j in range(2 * (level - 1)):
        box[bucket[to + BOX] + j] = box[bucket[at + BOX] + j]
    return new


# ------------------------------------------------------------ overflow
