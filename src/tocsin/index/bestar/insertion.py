"""Insertion (section V): down to the smallest bucket that encloses the conjunction.

A kernel cannot replace an array by a longer one. So each stops where an array is too short, before
it changes anything, and continues when it is called again.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.boxes import (
    distance_apart,
    extend_box,
    key_interval,
    length,
    rarest_required,
    score_sums,
)
from tocsin.index.bestar.dividing import divide_pending, space_of
from tocsin.index.bestar.layout import (
    BELOW,
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
    LONGEST_LEAF,
    LOW,
    MEMBERS,
    MOST_MEMBERS,
    NODE,
    NODES,
    PARENT,
    PENDING,
    PNODE,
    RAISED,
    RAISING,
    RIGHT,
    RIGID,
    ROOT,
    SIZE,
    SUMMARY,
    USUAL_SCALE,
    Tree,
)
from tocsin.index.bestar.ranks import rank_of, update_gain
from tocsin.index.bestar.records import (
    add_member,
    find_entry,
    grow_run,
    has_room,
    is_leaf_full,
    mark_pending,
    new_bucket,
    size_class,
)
from tocsin.index.bestar.splitting import OVERLAPPING, TO_LEFT, TO_RIGHT, is_apart, midpoint
from tocsin.index.bestar.summaries import (
    raise_path,
    raise_to_summary,
    room_for_summary,
    summarise_leaf,
    summarises,
    summary_below,
)
from tocsin.jit import Int32s, bare_step, kernel
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import NULL
from tocsin.model.facts import adds_to_score, bounds, has_own_score
from tocsin.model.predicates import INTERVAL


@kernel
def update_statistics(t: Tree, c: Conjunctions, numbers: Int32s) -> None:
    """Update what is known about each attribute for conjunctions that are about to be inserted.

    The usual weight of an attribute is the average over the first conjunctions that test it and
    have no score of their own. It never changes, because sums depend on it. It is multiplied by
    2**30, and at least 1, so that no product is less exact than the weight.
    """
    popularity, scored_when_null, space, usual_weight, only_intervals = (
        t.popularity, t.scored_when_null, t.space, t.usual_weight, t.only_intervals
    )  # fmt: skip
    rows, tested, kind, weights = c.offsets, c.attribute, c.kind, c.weight
    low, high, points, own_score = c.low, c.high, c.points, c.score
    total, count = np.zeros(usual_weight.shape[0]), np.zeros(usual_weight.shape[0])
    for i in range(numbers.shape[0]):
        only_intervals[numbers[i]] = 1
        counts = not has_own_score(own_score, numbers[i])
        for row in range(rows[numbers[i]], rows[numbers[i] + 1]):
            a = tested[row]
            only_intervals[numbers[i]] &= np.uint8(kind[row] == INTERVAL)
            if counts:
                total[a] += weights[row] if weights.shape[0] > 0 else 1.0
                count[a] += 1
            least, greatest = bounds(kind, low, high, points, row)
            if least != NULL:
                popularity[a] += 1
                space[2 * a] = min(space[2 * a], least)
                space[2 * a + 1] = max(space[2 * a + 1], greatest)
            elif counts and adds_to_score(tested, kind, high, rows[numbers[i]], row):
                scored_when_null[a] = 1
    for a in range(usual_weight.shape[0]):
        if usual_weight[a] == 0 and count[a] > 0:
            usual_weight[a] = min(max(total[a] / count[a] * USUAL_SCALE, 1.0), 2.0**60)


@kernel
def build_root(t: Tree, c: Conjunctions) -> None:
    """Make the root with all conjunctions in its leaf, which `insert` then divides (BE*-B)."""
    new_bucket(t, -1, -1)
    if c.rule.shape[0] == 0:
        return
    bucket, target, required, home, place = t.bucket, t.target, t.required, t.home, t.place
    max_sums, popularity, usual_weight = t.max_sums, t.popularity, t.usual_weight
    rows, tested, kind, weights = c.offsets, c.attribute, c.kind, c.weight
    low, high, points, own_score = c.low, c.high, c.points, c.score
    path = np.empty(0, np.int64)
    grow_run(t, 0, LEAF, LEAF_CLASS, c.rule.shape[0] - 1)
    for number in range(c.rule.shape[0]):
        begin, stop = rows[number], rows[number + 1]
        sums = score_sums(tested, kind, high, weights, own_score, usual_weight, rows, number)
        max_sums[0], max_sums[1] = max(max_sums[0], sums[0]), max(max_sums[1], sums[1])
        rarest = rarest_required(popularity, tested, kind, low, high, points, begin, stop, path, 0)
        add_member(bucket, target, required, home, place, 0, number, rarest)
    if summarises(t):
        summarise_leaf(t, c, 0)
    t.state[LONGEST_LEAF] = t.state[MEMBERS] = t.state[MOST_MEMBERS] = c.rule.shape[0]
    mark_pending(t.bucket, t.state, 0)


@kernel
def insert(t: Tree, c: Conjunctions, numbers: Int32s, first: int) -> int:
    """Insert conjunctions one after the other, from the `first` of the numbers on (Algorithm 1).

    Level by level a conjunction goes to the p-node of the highest rank among those for one of its
    attributes, and there to a bucket. Then its leaf may overflow. Return how many of the
    numbers are done; buckets may still be pending.
    """
    bucket, pnode, box, max_sums = t.bucket, t.pnode, t.box, t.max_sums
    target, required, home, place = t.target, t.required, t.home, t.place
    popularity, usual_weight, state = t.popularity, t.usual_weight, t.state
    rows, tested, kind, weights = c.offsets, c.attribute, c.kind, c.weight
    low, high, points, own_score = c.low, c.high, c.points, c.score
    capacity = t.options[LEAF_CAPACITY]
    attributes = t.loss_rate.shape[0]
    lows, highs = np.empty(attributes + 1, np.int64), np.empty(attributes + 1, np.int64)
    path, group_of = np.empty(attributes + 1, np.int64), np.zeros(attributes + 1, np.int64)
    summarised = summarises(t)
    done = first
    while True:
        if state[RAISING] >= 0 and not raise_path(t, c):
            break
        if state[PENDING] >= 0 and not divide_pending(t, c, path, lows, highs, group_of):
            break
        if done == numbers.shape[0]:
            break
        number = np.int64(numbers[done])
        begin, stop = rows[number], rows[number + 1]
        entries = 1 << size_class(state[LONGEST_LEAF] + 1)
        boxes, summaries = 2 << size_class(2 * (stop - begin)), room_for_summary(t)
        if not has_room(t, 1, 0, entries + 8, boxes, summaries if summarised else 0):
            break
        done += 1
        sums = score_sums(tested, kind, high, weights, own_score, usual_weight, rows, number)
        b, level = np.int64(0), 0
        extend_box(bucket, box, max_sums, b, 0, lows, highs, sums)
        while bucket[b * BUCKET + NODES] > 0:
            start, nodes = bucket[b * BUCKET + DIRECTORY], bucket[b * BUCKET + NODES]
            chosen, highest = np.int64(-1), 0.0
            for row in range(begin, stop):
                least, greatest = key_interval(kind, low, high, points, row)
                if least == NULL:
                    continue
                entry = find_entry(required, start, nodes, tested[row] + 1)
                if entry < 0:
                    continue
                p = np.int64(target[entry])
                rank = rank_of(t, p)
                if chosen < 0 or rank > highest:
                    chosen, highest = p, rank
                    path[level], lows[level], highs[level] = tested[row], least, greatest
            if chosen < 0:
                break
            pnode[chosen * PNODE + COUNT] += 1
            level += 1
            b = pnode[chosen * PNODE + ROOT]
            apart = distance_apart(t, path[level - 1])
            b = find_bucket(t, b, level, lows, highs, sums, apart)
        at = b * BUCKET
        if is_leaf_full(bucket, at):
            grow_run(t, at, LEAF, LEAF_CLASS, bucket[at + SIZE])
        rarest = rarest_required(
            popularity, tested, kind, low, high, points, begin, stop, path, level
        )  # fmt: skip
        add_member(bucket, target, required, home, place, b, number, rarest)
        update_gain(t, c, b)
        state[LONGEST_LEAF] = max(state[LONGEST_LEAF], bucket[at + SIZE])
        state[MEMBERS] += 1
        state[MOST_MEMBERS] = max(state[MOST_MEMBERS], state[MEMBERS])
        leaf_bucket = b > 0 and bucket[at + CUT] == NULL and bucket[at + NODES] == 0
        if leaf_bucket and bucket[at + LOW] < bucket[at + HIGH]:
            # It may have been left to grow because it was one value; now it can be split.
            bucket[at + CAPACITY] = np.int64(capacity)
        if bucket[at + SIZE] > bucket[at + CAPACITY]:
            mark_pending(bucket, state, b)
        if summarised:
            state[RAISED], state[RAISING] = number, b
    return done


@bare_step
def find_bucket(t, b, level, lows, highs, sums, apart):
    """Return the bucket at or below `b` for a conjunction, and widen those above (Algorithm 2)."""
    bucket, box, max_sums = t.bucket, t.box, t.max_sums
    beta, rigid = t.options[BETA], t.options[RIGID] != 0
    low, high = lows[level - 1], highs[level - 1]
    while True:
        at = b * BUCKET
        cut = bucket[at + CUT]
        if not rigid and (cut != NULL or bucket[at + NODES] > 0):
            old = length(bucket[at + LOW], bucket[at + HIGH])
            new = length(min(low, bucket[at + LOW]), max(high, bucket[at + HIGH]))
            if np.float64(new) > beta * np.float64(old):
                b = add_parent(t, b, level, high > bucket[at + HIGH])
                break
        if rigid and cut == NULL and bucket[at + NODES] > 0:
            # It was partitioned as one value, and is no longer one: it is halved from now on.
            first, last = space_of(bucket, t.pnode, b)
            if first < last and (low < bucket[at + LOW] or high > bucket[at + HIGH]):
                bucket[at + CUT] = cut = midpoint(first, last)
        if cut == NULL:
            break
        side = choose_side(bucket, at, low, high, rigid, apart)
        if side == OVERLAPPING:
            break
        extend_box(bucket, box, max_sums, b, level, lows, highs, sums)
        child = bucket[at + (LEFT if side == TO_LEFT else RIGHT)]
        if child < 0:
            child = new_bucket(t, bucket[at + NODE], b)
            bucket[at + (LEFT if side == TO_LEFT else RIGHT)] = child
        b = child
    extend_box(bucket, box, max_sums, b, level, lows, highs, sums)
    return b


@bare_step
def choose_side(bucket, at, low, high, rigid, apart):
    """Return the side of a split bucket to which an interval belongs.

    Left and right repel each other: what meets both, or comes too near, overlaps; what meets one
    goes there; what meets neither goes where it widens the bucket less. The paper does not say what
    happens if a side is empty: here it begins at the cut, or where the other side ends if that is
    beyond.
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
        meets_left = not is_apart(left_high, low, apart) and not is_apart(high, left_low, apart)
    else:
        meets_left = low < min(cut, right_low)
    if right >= 0:
        meets_right = not is_apart(right_high, low, apart) and not is_apart(high, right_low, apart)
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


@bare_step
def add_parent(t, b, level, rightward):
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
        t.max_sums[2 * new + j] = t.max_sums[2 * b + j]
    for j in range(2 * (level - 1)):
        box[bucket[to + BOX] + j] = box[bucket[at + BOX] + j]
    if summarises(t):
        raise_to_summary(t, new * SUMMARY + BELOW, summary_below(t.summary, b))
    return new
