"""The regions of objects in memory, and what rows and new fences do to them.

A region is six words of an array by slot, `shape[6 * slot + ...]`::

    rect      low and high x, low and high y (keys), and the last reported x and y
    sphere    the center, and the radius as a float, rounded down
    dist      the last reported x and y, and the distance that is left

A rectangle is closed, and the others are open: their distance is not within them. A rectangle with
low > high, and a distance of 0, is no region.

A row is compared with one region. A fence that arrives is compared with all regions: as many passes
through a tree of the new fences, most often of one node.
"""

from __future__ import annotations

import numpy as np

from tocsin.jit import (
    Float64Out,
    Float64s,
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8Out,
    UInt8s,
    UInt64Out,
    UInt64s,
    bare_step,
    kernel,
)
from tocsin.model.encoding import HIGHEST, NULL, SEAM
from tocsin.model.keys import to_number
from tocsin.moving.objects import LAST, TIMER, WORDS
from tocsin.moving.regions.boxes import SHARED
from tocsin.moving.regions.distance import (
    Exceptions,
    contains,
    distance_outside,
    distance_to_edge,
    is_finite,
    is_in_force,
)
from tocsin.moving.regions.layout import X_HIGH, X_LOW, Y_HIGH, Y_LOW, Fences, line_end, step_down
from tocsin.moving.regions.rectangle import to_measure
from tocsin.moving.widening import INTEGER, are_close

DIST, SPHERE, RECT = range(3)
SHAPE = 6  # words of a region
CENTER_X, CENTER_Y, RADIUS = range(3)
AT_X, AT_Y = 4, 5

# Whether an object may be silent. One that was asked reports; until then it is not known where it
# is, because a fence that is new to it cuts the region that it was silent in.
NO_REGION, SAFE, ASKED = range(3)

# What becomes of a row: it has no effect; it is looked up in the index, outside or inside of the
# region; nothing has changed.
IGNORED, OUTSIDE, INSIDE, UNCHANGED = range(4)


@bare_step
def gap_above(a, b, kind):
    """Return how far the values of two keys are apart, rounded up."""
    high, low = max(a, b), min(a, b)
    if high == low:
        return 0.0
    if kind == INTEGER:
        exact = np.uint64(high - (high <= SEAM)) - np.uint64(low - (low <= SEAM + 1))
        return np.float64(exact) * (1.0 + 2.0**-51)
    return (to_number(high, 1) - to_number(low, 1)) * (1.0 + 2.0**-51)


@bare_step
def distance_above(kinds, x, y, other_x, other_y):
    """Return the distance of two positions, rounded up."""
    dx, dy = gap_above(x, other_x, kinds[0]), gap_above(y, other_y, kinds[1])
    longer, shorter = max(dx, dy), min(dx, dy)
    if shorter == 0.0 or longer == np.inf:
        return longer
    if longer > 1e150 or longer < 1e-140:
        return longer + shorter
    return np.sqrt(longer * longer + shorter * shorter) * (1.0 + 2.0**-50)


@bare_step
def to_float(word):
    """Return the float whose bits a word has."""
    return np.int64(word).view(np.float64)


@bare_step
def is_in_region(shape, base, kind, kinds, x, y):
    """Return whether a position is in a region."""
    if not is_finite(kinds[0], x) or not is_finite(kinds[1], y):
        return False
    if kind == RECT:
        return contains(shape, base, x, y)
    far = distance_above(kinds, shape[base + CENTER_X], shape[base + CENTER_Y], x, y)
    return far < to_float(shape[base + RADIUS])


@kernel
def judge_rows(
    kind: int,
    kinds: UInt8s,
    records: Int64s,
    status: UInt8s,
    shape: Int64s,
    order: Int32s,
    slots: Int32s,
    times: Int64s,
    removed: UInt8s,
    x: Int64s,
    y: Int64s,
    is_same: UInt8s,
    verdict: UInt8Out,
    left: Float64Out,
) -> None:
    """Write what becomes of rows, which are ordered by slot and time, of objects that are known.

    `is_same` says whether the other attributes that matter are those of the last report. From the
    first row on that is looked up, all are. For `dist`, `left` is the distance that is left.
    """
    own = np.empty(SHAPE, np.int64)
    at = 0
    while at < order.shape[0]:
        slot = np.int64(slots[order[at]])
        late_until = max(records[slot * WORDS + LAST], records[slot * WORDS + TIMER])
        has_region, is_silent, before = status[slot] != NO_REGION, status[slot] == SAFE, late_until
        for word in range(SHAPE):
            own[word] = shape[slot * SHAPE + word]
        while at < order.shape[0] and slots[order[at]] == slot:
            row = np.int64(order[at])
            at += 1
            verdict[row] = IGNORED
            if times[row] <= late_until or times[row] == before:
                continue
            before = times[row]
            has_region &= removed.shape[0] == 0 or removed[row] == 0
            is_inside = has_region and is_in_region(own, 0, kind, kinds, x[row], y[row])
            verdict[row] = INSIDE if is_inside else OUTSIDE
            is_silent &= is_inside and is_same[row] != 0
            if is_silent:
                verdict[row] = UNCHANGED
            if kind == DIST:
                if is_inside:
                    far = distance_above(kinds, own[CENTER_X], own[CENTER_Y], x[row], y[row])
                    if far > 0.0:
                        rest = step_down(to_float(own[RADIUS]) - far)
                        own[RADIUS] = np.float64(max(rest, 0.0)).view(np.int64)
                    own[CENTER_X], own[CENTER_Y] = x[row], y[row]
                else:
                    has_region = False  # it has travelled farther, and does not come back
                left[row] = to_float(own[RADIUS])


# ------------------------------------------------------------ new fences


@bare_step
def is_beside(shape, base, kind, kinds, bound, at):
    """Return whether a region and bounds have nothing in common."""
    if kind == RECT:
        return (
            bound[at + X_LOW] > shape[base + X_HIGH]
            or bound[at + X_HIGH] < shape[base + X_LOW]
            or bound[at + Y_LOW] > shape[base + Y_HIGH]
            or bound[at + Y_HIGH] < shape[base + Y_LOW]
        )
    x, y = shape[base + CENTER_X], shape[base + CENTER_Y]
    if contains(bound, at, x, y):
        return False
    return distance_outside(kinds, bound, at, x, y) >= to_float(shape[base + RADIUS])


@bare_step
def is_around(shape, base, kind, kinds, bound, at):
    """Return whether a box contains a region."""
    if kind == RECT:
        return (
            bound[at + X_LOW] <= shape[base + X_LOW]
            and shape[base + X_HIGH] <= bound[at + X_HIGH]
            and bound[at + Y_LOW] <= shape[base + Y_LOW]
            and shape[base + Y_HIGH] <= bound[at + Y_HIGH]
        )
    x, y = shape[base + CENTER_X], shape[base + CENTER_Y]
    if not contains(bound, at, x, y):
        return False
    return distance_to_edge(kinds, bound, at, x, y) >= to_float(shape[base + RADIUS])


@bare_step
def is_decided(shape, base, kind, kinds, fixed, bound, others, restless, box):
    """Return whether a conjunction is true or false wherever in its region an object is."""
    if is_beside(shape, base, kind, kinds, bound, 4 * box):
        return True
    shared = np.uint64(1) << np.uint64(SHARED)
    return (
        restless[box] == 0
        and (others[box] & (~fixed | shared)) == np.uint64(0)
        and is_around(shape, base, kind, kinds, bound, 4 * box)
    )


@kernel
def find_undecided(
    fences: Fences,
    exceptions: Exceptions,
    kind: int,
    slots: Int32s,
    shape: Int64s,
    fixed: UInt64s,
    out_slots: Int32Out,
    out_rules: Int32Out,
) -> int:
    """Write the slots and rules of boxes that a region does not decide; return how many.

    No more are written than there is room for. `exceptions` are those of the objects at slots.
    """
    kinds, node, first, size = fences.kinds, fences.node, fences.first, fences.size
    bound, others, restless = fences.bound, fences.others, fences.restless
    stack = np.empty(first.shape[0] + 1, np.int32)
    found = 0
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        base, own = slot * SHAPE, fixed[slot]
        if exceptions.offsets.shape[0] > 0:
            for box in range(exceptions.offsets[i], exceptions.offsets[i + 1]):
                if not is_decided(
                    shape, base, kind, kinds, own, exceptions.bound, exceptions.others,
                    exceptions.restless, box,
                ):  # fmt: skip
                    if found < out_slots.shape[0]:
                        out_slots[found], out_rules[found] = slot, exceptions.rule[box]
                    found += 1
        top = 0
        for root in range(fences.roots.shape[0]):
            stack[top] = fences.roots[root]
            top += 1
        while top > 0:
            top -= 1
            at = np.int64(stack[top])
            if is_beside(shape, base, kind, kinds, node, 4 * at):
                continue
            begin = np.int64(first[at])
            if begin >= 0:
                for child in range(begin, begin + size[at]):
                    stack[top] = child
                    top += 1
                continue
            for box in range(~begin, ~begin + size[at]):
                if is_in_force(fences, box, exceptions, i) and not is_decided(
                    shape, base, kind, kinds, own, bound, others, restless, box
                ):
                    if found < out_slots.shape[0]:
                        out_slots[found], out_rules[found] = slot, fences.rule[box]
                    found += 1
    return found


@bare_step
def measure_axis(low, high, kind, hull_low, hull_high):
    """Return how long an interval of keys is inside the hull."""
    return to_measure(high, kind, hull_low, hull_high) - to_measure(low, kind, hull_low, hull_high)


@bare_step
def cut_rectangle(shape, base, kinds, hull, bound, at):
    """Keep a rectangle off a box that does not contain the object: the largest that is left."""
    x, y = shape[base + AT_X], shape[base + AT_Y]
    best, side, end = -1.0, -1, np.int64(0)
    for each in range(4):
        if each == X_LOW:
            is_possible, moved = bound[at + X_HIGH] < x, bound[at + X_HIGH] + 1
        elif each == X_HIGH:
            is_possible, moved = bound[at + X_LOW] > x, bound[at + X_LOW] - 1
        elif each == Y_LOW:
            is_possible, moved = bound[at + Y_HIGH] < y, bound[at + Y_HIGH] + 1
        else:
            is_possible, moved = bound[at + Y_LOW] > y, bound[at + Y_LOW] - 1
        if not is_possible:
            continue
        kept = shape[base + each]
        shape[base + each] = moved
        dx = measure_axis(
            shape[base + X_LOW], shape[base + X_HIGH], kinds[0],
            min(hull[X_LOW], x), max(hull[X_HIGH], x),
        )  # fmt: skip
        dy = measure_axis(
            shape[base + Y_LOW], shape[base + Y_HIGH], kinds[1],
            min(hull[Y_LOW], y), max(hull[Y_HIGH], y),
        )  # fmt: skip
        shape[base + each] = kept
        if dx * dy > best:
            best, side, end = dx * dy, each, moved
    shape[base + side] = end


@bare_step
def forget_region(shape, base):
    """Make a region none: it is beside all boxes, and its radius is 0."""
    for word in range(SHAPE):
        shape[base + word] = 0
    shape[base + X_LOW], shape[base + X_HIGH] = HIGHEST, NULL


@kernel
def forget_regions(slots: Int32s, shape: Int64Out) -> None:
    """Make the regions at slots none."""
    for i in range(slots.shape[0]):
        forget_region(shape, np.int64(slots[i]) * SHAPE)


@kernel
def shrink_regions(
    fences: Fences, kind: int, slots: Int32s, hull: Int64s, shape: Int64Out, fixed: UInt64Out
) -> None:
    """Keep regions off the edges of new fences."""
    kinds, node, first, size = fences.kinds, fences.node, fences.first, fences.size
    bound, others, restless = fences.bound, fences.others, fences.restless
    stack = np.empty(first.shape[0] + 1, np.int32)
    for i in range(slots.shape[0]):
        slot = np.int64(slots[i])
        base, top = slot * SHAPE, 0
        for root in range(fences.roots.shape[0]):
            stack[top] = fences.roots[root]
            top += 1
        while top > 0:
            top -= 1
            at = np.int64(stack[top])
            if is_beside(shape, base, kind, kinds, node, 4 * at):
                continue
            begin = np.int64(first[at])
            if begin >= 0:
                for child in range(begin, begin + size[at]):
                    stack[top] = child
                    top += 1
                continue
            for box in range(~begin, ~begin + size[at]):
                if is_beside(shape, base, kind, kinds, bound, 4 * box):
                    continue
                x, y = shape[base + CENTER_X], shape[base + CENTER_Y]
                if kind == RECT:
                    x, y = shape[base + AT_X], shape[base + AT_Y]
                is_inside = contains(bound, 4 * box, x, y)
                if is_inside and restless[box] != 0:
                    forget_region(shape, base)
                    break
                if is_inside:
                    fixed[slot] |= others[box]
                if kind != RECT:
                    near = distance_to_edge(kinds, bound, 4 * box, x, y)
                    near = min(near, to_float(shape[base + RADIUS]))
                    shape[base + RADIUS] = np.float64(near).view(np.int64)
                elif is_inside:
                    for side in range(0, 4, 2):
                        shape[base + side] = max(shape[base + side], bound[4 * box + side])
                        shape[base + side + 1] = min(
                            shape[base + side + 1], bound[4 * box + side + 1]
                        )
                else:
                    cut_rectangle(shape, base, kinds, hull, bound, 4 * box)


# ------------------------------------------------------------ margins


@bare_step
def widen_end(key, kind, margin, is_high):
    """Return the last key whose value is at most a margin beyond that of a key."""
    end = line_end(kind, is_high)
    if key == end:
        return end
    near, far = key, end  # `near` is within the margin, what is beyond `far` is not
    while near != far:
        # The middle, nearer to `far`; without overflow.
        middle = near + np.int64((np.uint64(far) - np.uint64(near) + np.uint64(1)) >> np.uint64(1))
        if not is_high:
            middle = near - np.int64(
                (np.uint64(near) - np.uint64(far) + np.uint64(1)) >> np.uint64(1)
            )
        if are_close(middle, key, kind, margin):
            near = middle
        else:
            far = middle - 1 if is_high else middle + 1
    return near


@kernel
def widen_boxes(
    kinds: UInt8s, margin: Float64s, bound: Int64s, rule: Int32s, out: Int64Out
) -> None:
    """Write boxes as they are when each side is moved by the margin of its rule."""
    for box in range(rule.shape[0]):
        own = margin[rule[box]] if margin.shape[0] > 1 else margin[0]
        for side in range(4):
            kind = kinds[side >> 1]
            out[4 * box + side] = widen_end(bound[4 * box + side], kind, own, side & 1 == 1)
