"""SafeRect: the largest rectangle around an object that no edge of a fence cuts (thesis, 2.4.2).

The rectangle lies inside all fences around the object and outside of all others. With the object as
the origin, a fence that reaches across one of the two axes bounds one side. Any other lies in one
quadrant, and only its corner that is nearest to the object matters; the corners that no other one
dominates are the quadrant's *staircase*. A top side that passes below some corners and above others
fixes how far left and right the rectangle may reach in the upper quadrants. So do bottom sides in
the lower ones, and all pairs of a top and a bottom are compared: as published, O(n^2) in the stairs
and exact.

Unlike the published algorithm:

* Fences are clipped to each quadrant first. By their corners alone, the fence [-10, 10] x [1, 2]
  would have no corner near the object (0, 0).
* Not one fence around the object is chosen, but all bound the rectangle.
* The search visits nodes by their distance from the object, and skips those that are outside of
  the bounds so far, or dominated by a corner. So it is exact without looking at all fences, and
  `reach` is there for the published variant, which regards and keeps to ten times SafeDist.
* Areas are measured inside the hull of all finite ends, since sides may be open.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64s, Int32Out, Int64Out, Int64s, UInt64Out, bare_step, kernel
from tocsin.model.encoding import HIGHEST
from tocsin.model.keys import to_key, to_number
from tocsin.moving.regions.distance import (
    NO_EXCEPTIONS,
    Exceptions,
    contains,
    distance_outside,
    is_finite,
    is_in_force,
)
from tocsin.moving.regions.layout import X_HIGH, X_LOW, Y_HIGH, Y_LOW, Fences, line_end
from tocsin.moving.regions.queue import pop, push
from tocsin.moving.widening import INTEGER

AREA, PERIMETER = range(2)

# Corners of a staircase, at most. Chosen: of 25,000 fences at random places a staircase has ten.
# Fences on a diagonal may have more; those then bound a side, and the rectangle is smaller.
STAIRS = 256


class Rectangles(NamedTuple):
    """SafeRect of n positions."""

    bound: np.ndarray  # int64 [n, 4] keys; low > high is no region
    others: np.ndarray  # uint64, the other attributes that fences around a position test
    visits: np.ndarray  # int32, nodes of the tree that were visited


_NO_LIMIT = np.empty(0)


def find_rectangles(
    fences: Fences,
    x: np.ndarray,
    y: np.ndarray,
    by: int = AREA,
    reach: np.ndarray = _NO_LIMIT,
    exceptions: Exceptions = NO_EXCEPTIONS,
) -> Rectangles:
    """Return SafeRect of positions, which are keys; `reach` is how far each may go, if limited."""
    n = len(x)
    out = Rectangles(np.empty((n, 4), np.int64), np.empty(n, np.uint64), np.empty(n, np.int32))
    search_rectangles(fences, exceptions, x, y, reach, by, out.bound.ravel(), *out[1:])
    return out


@bare_step
def find_step(stairs, begin, count, u):
    """Return the first corner of a staircase that is further away than `u` in the first axis."""
    first, stop = begin, begin + count
    while first < stop:
        middle = (first + stop) >> 1
        if stairs[2 * middle] <= u:
            first = middle + 1
        else:
            stop = middle
    return first


@bare_step
def is_dominated(stairs, begin, count, u, v):
    """Return whether a corner of a staircase is as near as (u, v) in both axes."""
    at = find_step(stairs, begin, count, u)
    return at > begin and stairs[2 * at - 1] <= v


@bare_step
def insert_corner(stairs, begin, count, u, v):
    """Insert a corner that is not dominated, in place of those that it dominates.

    Return how many there are, -1 if there is no room.
    """
    at = find_step(stairs, begin, count, u)
    if at > begin and stairs[2 * at - 2] == u:
        at -= 1
    last = at
    while last < begin + count and stairs[2 * last + 1] >= v:
        last += 1
    if last == at:
        if count == STAIRS:
            return -1
        for i in range(begin + count, at, -1):
            stairs[2 * i], stairs[2 * i + 1] = stairs[2 * i - 2], stairs[2 * i - 1]
    elif last > at + 1:
        for i in range(last, begin + count):
            to = i - (last - at - 1)
            stairs[2 * to], stairs[2 * to + 1] = stairs[2 * i], stairs[2 * i + 1]
    stairs[2 * at], stairs[2 * at + 1] = u, v
    return count + 1 - (last - at)


@bare_step
def narrow(sides, bound, at, x, y):
    """Keep a rectangle within a box around the object."""
    sides[X_LOW] = max(sides[X_LOW], bound[at + X_LOW])
    sides[X_HIGH] = min(sides[X_HIGH], bound[at + X_HIGH])
    sides[Y_LOW] = max(sides[Y_LOW], bound[at + Y_LOW])
    sides[Y_HIGH] = min(sides[Y_HIGH], bound[at + Y_HIGH])


@bare_step
def is_apart(sides, bound, at):
    """Return whether a rectangle and bounds have nothing in common."""
    return (
        bound[at + X_LOW] > sides[X_HIGH]
        or bound[at + X_HIGH] < sides[X_LOW]
        or bound[at + Y_LOW] > sides[Y_HIGH]
        or bound[at + Y_HIGH] < sides[Y_LOW]
    )


@bare_step
def quadrant_of(bound, at, x, y):
    """Return the quadrant of bounds, 0 to 3; -1 if they reach across an axis.

    Bit 0 is set on the left, where keys are inverted to grow with the distance, and bit 1 below.
    """
    is_left, is_below = bound[at + X_HIGH] < x, bound[at + Y_HIGH] < y
    if (not is_left and bound[at + X_LOW] <= x) or (not is_below and bound[at + Y_LOW] <= y):
        return -1
    return np.int64(is_left) + 2 * np.int64(is_below)


@bare_step
def near_x(bound, at, quadrant):
    """Return the nearest side of bounds in a quadrant."""
    return ~bound[at + X_HIGH] if quadrant & 1 else bound[at + X_LOW]


@bare_step
def near_y(bound, at, quadrant):
    """Return the nearest side of bounds in a quadrant."""
    return ~bound[at + Y_HIGH] if quadrant & 2 else bound[at + Y_LOW]


@bare_step
def exclude(sides, bound, at, x, y, is_by_x):
    """Keep a rectangle off a box that does not contain the object, by a side in x or in y."""
    if is_by_x:
        if bound[at + X_LOW] > x:
            sides[X_HIGH] = min(sides[X_HIGH], bound[at + X_LOW] - 1)
        else:
            sides[X_LOW] = max(sides[X_LOW], bound[at + X_HIGH] + 1)
    elif bound[at + Y_LOW] > y:
        sides[Y_HIGH] = min(sides[Y_HIGH], bound[at + Y_LOW] - 1)
    else:
        sides[Y_LOW] = max(sides[Y_LOW], bound[at + Y_HIGH] + 1)


@bare_step
def regard(sides, stairs, counts, bound, at, x, y):
    """Let a box bound the rectangle, or add its corner to a staircase."""
    if contains(bound, at, x, y):
        narrow(sides, bound, at, x, y)
        return
    if is_apart(sides, bound, at):
        return
    quadrant = quadrant_of(bound, at, x, y)
    if quadrant < 0:
        exclude(sides, bound, at, x, y, not bound[at + X_LOW] <= x <= bound[at + X_HIGH])
        return
    u, v = near_x(bound, at, quadrant), near_y(bound, at, quadrant)
    begin = quadrant * STAIRS
    if not is_dominated(stairs, begin, counts[quadrant], u, v):
        count = insert_corner(stairs, begin, counts[quadrant], u, v)
        if count >= 0:
            counts[quadrant] = count
        else:
            exclude(sides, bound, at, x, y, True)


@bare_step
def to_measure(key, kind, low, high):
    """Return a quarter of a key's value, moved into the hull; differences then stay finite."""
    key = min(max(key, low), high)
    if kind == INTEGER:
        return 0.25 * np.float64(key)
    return 0.25 * to_number(key, 1)


@bare_step
def list_sides(sides, stairs, counts, is_below, levels, lefts, rights):
    """Write all tops (or bottoms) of rectangles, with how far left and right each may reach.

    Keys below are inverted. Return how many there are.
    """
    right_begin = 2 * STAIRS if is_below else 0
    left_begin = right_begin + STAIRS
    limit = ~sides[Y_LOW] if is_below else sides[Y_HIGH]
    # From the lowest corner on, which is the last of a staircase.
    i = right_begin + counts[right_begin // STAIRS] - 1
    j = left_begin + counts[left_begin // STAIRS] - 1
    left, right, n = sides[X_LOW], sides[X_HIGH], 0
    while True:
        next_right = stairs[2 * i + 1] if i >= right_begin else np.int64(HIGHEST)
        next_left = stairs[2 * j + 1] if j >= left_begin else np.int64(HIGHEST)
        nearest = min(next_right, next_left)
        is_last = (i < right_begin and j < left_begin) or nearest > limit
        level = limit if is_last else nearest - 1
        levels[n], lefts[n], rights[n] = ~level if is_below else level, left, right
        n += 1
        if is_last:
            return n
        if i >= right_begin and next_right == nearest:
            right = min(right, stairs[2 * i] - 1)
            i -= 1
        if j >= left_begin and next_left == nearest:
            left = max(left, ~(stairs[2 * j] - 1))
            j -= 1


@bare_step
def measure_sides(keys, n, kind, low, high, out):
    """Write sides as they are measured."""
    for i in range(n):
        out[i] = to_measure(keys[i], kind, low, high)


@kernel
def search_rectangles(
    fences: Fences,
    exceptions: Exceptions,
    x: Int64s,
    y: Int64s,
    reach: Float64s,
    by: int,
    rectangles: Int64Out,
    others: UInt64Out,
    visits: Int32Out,
) -> None:
    """Write SafeRect of each position as four keys; low > high for none.

    `reach` is how far a rectangle may go from each position; it is empty for no limit. Write the
    attributes that fences around it test besides the position, and how many nodes were visited.
    """
    kinds, node, first, size = fences.kinds, fences.node, fences.first, fences.size
    bound, roots, hull = fences.bound, fences.roots, fences.hull
    queue_distance = np.empty(first.shape[0] + 1)
    queue_node = np.empty(first.shape[0] + 1, np.int32)
    stairs, counts = np.empty(8 * STAIRS, np.int64), np.empty(4, np.int64)
    sides = np.empty(4, np.int64)
    tops, bottoms = np.empty(2 * STAIRS + 2, np.int64), np.empty(2 * STAIRS + 2, np.int64)
    lefts, rights = np.empty(2 * STAIRS + 2, np.int64), np.empty(2 * STAIRS + 2, np.int64)
    low_lefts, low_rights = np.empty(2 * STAIRS + 2, np.int64), np.empty(2 * STAIRS + 2, np.int64)
    top, bottom = np.empty(2 * STAIRS + 2), np.empty(2 * STAIRS + 2)
    left, right = np.empty(2 * STAIRS + 2), np.empty(2 * STAIRS + 2)
    low_left, low_right = np.empty(2 * STAIRS + 2), np.empty(2 * STAIRS + 2)
    for i in range(x.shape[0]):
        px, py = x[i], y[i]
        others[i], visits[i] = 0, 0
        for side in range(4):
            rectangles[4 * i + side] = -side  # low > high
        if not is_finite(kinds[0], px) or not is_finite(kinds[1], py):
            continue
        for axis in range(2):
            kind, key = kinds[axis], px if axis == 0 else py
            low, high = line_end(kind, False), line_end(kind, True)
            if reach.shape[0] > 0 and reach[i] < np.inf:
                value = np.float64(key) if kind == INTEGER else to_number(key, 1)
                if kind != INTEGER:
                    low, high = to_key(value - reach[i]), to_key(value + reach[i])
                elif reach[i] < 2.0**62:
                    low = key - min(np.int64(reach[i]), key - low)
                    high = key + min(np.int64(reach[i]), high - key)
            sides[2 * axis], sides[2 * axis + 1] = low, high
        for quadrant in range(4):
            counts[quadrant] = 0
        mask, is_restless, queued = np.uint64(0), False, 0
        if exceptions.offsets.shape[0] > 0:
            for box in range(exceptions.offsets[i], exceptions.offsets[i + 1]):
                if contains(exceptions.bound, 4 * box, px, py):
                    mask |= exceptions.others[box]
                    is_restless |= exceptions.restless[box] != 0
                regard(sides, stairs, counts, exceptions.bound, 4 * box, px, py)
        for root in range(roots.shape[0]):
            far = distance_outside(kinds, node, 4 * np.int64(roots[root]), px, py)
            queued = push(queue_distance, queue_node, queued, far, roots[root])
        while queued > 0 and not is_restless:
            at = np.int64(queue_node[0])
            queued = pop(queue_distance, queue_node, queued)
            if is_apart(sides, node, 4 * at):
                continue
            quadrant = quadrant_of(node, 4 * at, px, py)
            if quadrant >= 0 and is_dominated(
                stairs, quadrant * STAIRS, counts[quadrant],
                near_x(node, 4 * at, quadrant), near_y(node, 4 * at, quadrant),
            ):  # fmt: skip
                continue
            visits[i] += 1
            begin = np.int64(first[at])
            if begin >= 0:
                for child in range(begin, begin + size[at]):
                    if not is_apart(sides, node, 4 * child):
                        far = distance_outside(kinds, node, 4 * child, px, py)
                        queued = push(queue_distance, queue_node, queued, far, child)
                continue
            for box in range(~begin, ~begin + size[at]):
                if not is_in_force(fences, box, exceptions, i):
                    continue
                if contains(bound, 4 * box, px, py):
                    mask |= fences.others[box]
                    is_restless |= fences.restless[box] != 0
                regard(sides, stairs, counts, bound, 4 * box, px, py)
        others[i] = mask
        if is_restless:
            continue
        n = list_sides(sides, stairs, counts, False, tops, lefts, rights)
        m = list_sides(sides, stairs, counts, True, bottoms, low_lefts, low_rights)
        low_x, high_x = min(hull[X_LOW], px), max(hull[X_HIGH], px)
        low_y, high_y = min(hull[Y_LOW], py), max(hull[Y_HIGH], py)
        measure_sides(tops, n, kinds[1], low_y, high_y, top)
        measure_sides(lefts, n, kinds[0], low_x, high_x, left)
        measure_sides(rights, n, kinds[0], low_x, high_x, right)
        measure_sides(bottoms, m, kinds[1], low_y, high_y, bottom)
        measure_sides(low_lefts, m, kinds[0], low_x, high_x, low_left)
        measure_sides(low_rights, m, kinds[0], low_x, high_x, low_right)
        width = to_measure(high_x, kinds[0], low_x, high_x) - to_measure(
            low_x, kinds[0], low_x, high_x
        )
        height = to_measure(high_y, kinds[1], low_y, high_y) - to_measure(
            low_y, kinds[1], low_y, high_y
        )
        best, best_top, best_bottom = -1.0, 0, 0
        for j in range(n):
            for k in range(m):
                dx = min(right[j], low_right[k]) - max(left[j], low_left[k])
                dy = top[j] - bottom[k]
                if by == AREA:
                    # Relative to the hull, without overflow; an axis without ends does not count.
                    size_now = (dx / width if width > 0 else 1.0) * (
                        dy / height if height > 0 else 1.0
                    )
                else:
                    size_now = dx + dy
                if size_now > best:
                    best, best_top, best_bottom = size_now, j, k
        rectangles[4 * i + X_LOW] = max(lefts[best_top], low_lefts[best_bottom])
        rectangles[4 * i + X_HIGH] = min(rights[best_top], low_rights[best_bottom])
        rectangles[4 * i + Y_LOW] = bottoms[best_bottom]
        rectangles[4 * i + Y_HIGH] = tops[best_top]
