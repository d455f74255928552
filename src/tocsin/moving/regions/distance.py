"""SafeDist: how far an object may go before some fence may matter (thesis, 2.4.1 and 2.4.2).

The distance to the nearest edge of a fence, be the object inside or outside. As published, a search
of the tree for the nearest one, by branch and bound after Roussopoulos, Kelley and Vincent (1995),
in which a fence around the object is as far away as its nearest side. Unlike the published search,
which descends depth first, this one visits nodes by their distance.

A distance is a lower bound: of each side it is the difference of two values, rounded down, and so
is the diagonal. An edge is where the closed interval of keys ends. A radius of 0 is no region.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import (
    Float64Out,
    Int32Out,
    Int32s,
    Int64s,
    UInt8s,
    UInt64Out,
    UInt64s,
    bare_step,
    freeze_fields,
    kernel,
)
from tocsin.moving.regions.layout import (
    X_HIGH,
    X_LOW,
    Y_HIGH,
    Y_LOW,
    Fences,
    gap,
    hypotenuse,
    line_end,
)
from tocsin.moving.regions.queue import pop, push


class Exceptions(NamedTuple):
    """Boxes of single objects, in place of those of some rules: fences with a margin."""

    offsets: Int64s  # [n + 1] the boxes of object i are offsets[i] to offsets[i + 1]; or [0]
    bound: Int64s  # [4 boxes]
    others: UInt64s
    restless: UInt8s
    rule: Int32s
    skipped: Int64s  # [n + 1] likewise the rules
    rules: Int32s  # ascending for each object


NO_EXCEPTIONS = freeze_fields(
    Exceptions, **dict.fromkeys(Exceptions._fields, np.empty(0, np.int64))
)


class Distances(NamedTuple):
    """SafeDist of n positions."""

    distance: np.ndarray  # float64; 0 is no region
    others: np.ndarray  # uint64, the other attributes that fences around a position test
    visits: np.ndarray  # int32, nodes of the tree that were visited


def find_distances(
    fences: Fences, x: np.ndarray, y: np.ndarray, exceptions: Exceptions = NO_EXCEPTIONS
) -> Distances:
    """Return SafeDist of positions, which are keys."""
    n = len(x)
    out = Distances(np.empty(n), np.empty(n, np.uint64), np.empty(n, np.int32))
    search_distances(fences, exceptions, x, y, *out)
    return out


@bare_step
def is_in_force(fences, box, exceptions, i):
    """Return whether the rule of a box is neither removed nor skipped for object i."""
    rule = fences.rule[box]
    if fences.alive.shape[0] > 0 and fences.alive[rule] == 0:
        return False
    if exceptions.skipped.shape[0] > 0:
        first, stop = exceptions.skipped[i], exceptions.skipped[i + 1]
        while first < stop:
            middle = (first + stop) >> 1
            if exceptions.rules[middle] < rule:
                first = middle + 1
            else:
                stop = middle
        return not (first < exceptions.skipped[i + 1] and exceptions.rules[first] == rule)
    return True


@bare_step
def contains(bound, at, x, y):
    """Return whether the bounds at an index contain a position."""
    return (
        bound[at + X_LOW] <= x <= bound[at + X_HIGH]
        and bound[at + Y_LOW] <= y <= bound[at + Y_HIGH]
    )


@bare_step
def is_finite(kind, key):
    """Return whether a key is that of a finite value, and not of null or NaN."""
    return line_end(kind, False) < key < line_end(kind, True)


@bare_step
def distance_outside(kinds, bound, at, x, y):
    """Return the distance of a position to a box, 0 inside."""
    dx = dy = 0.0
    if x < bound[at + X_LOW]:
        dx = gap(bound[at + X_LOW], x, kinds[0])
    elif x > bound[at + X_HIGH]:
        dx = gap(x, bound[at + X_HIGH], kinds[0])
    if y < bound[at + Y_LOW]:
        dy = gap(bound[at + Y_LOW], y, kinds[1])
    elif y > bound[at + Y_HIGH]:
        dy = gap(y, bound[at + Y_HIGH], kinds[1])
    return hypotenuse(dx, dy)


@bare_step
def distance_to_edge(kinds, bound, at, x, y):
    """Return the distance of a position to the nearest side of a box."""
    if not contains(bound, at, x, y):
        return distance_outside(kinds, bound, at, x, y)
    return min(
        min(gap(x, bound[at + X_LOW], kinds[0]), gap(bound[at + X_HIGH], x, kinds[0])),
        min(gap(y, bound[at + Y_LOW], kinds[1]), gap(bound[at + Y_HIGH], y, kinds[1])),
    )


@kernel
def search_distances(
    fences: Fences,
    exceptions: Exceptions,
    x: Int64s,
    y: Int64s,
    distances: Float64Out,
    others: UInt64Out,
    visits: Int32Out,
) -> None:
    """Write SafeDist of each position, 0 for none.

    Write the attributes that fences around it test besides the position, and how many nodes were
    visited.
    """
    kinds, node, first, size = fences.kinds, fences.node, fences.first, fences.size
    bound, roots = fences.bound, fences.roots
    queue_distance = np.empty(first.shape[0] + 1)
    queue_node = np.empty(first.shape[0] + 1, np.int32)
    for i in range(x.shape[0]):
        px, py = x[i], y[i]
        distances[i], others[i], visits[i] = 0.0, 0, 0
        if not is_finite(kinds[0], px) or not is_finite(kinds[1], py):
            continue
        nearest, mask, queued = np.inf, np.uint64(0), 0
        if exceptions.offsets.shape[0] > 0:
            for box in range(exceptions.offsets[i], exceptions.offsets[i + 1]):
                if contains(exceptions.bound, 4 * box, px, py):
                    mask |= exceptions.others[box]
                    if exceptions.restless[box] != 0:
                        nearest = 0.0
                own = distance_to_edge(kinds, exceptions.bound, 4 * box, px, py)
                nearest = min(nearest, own)
        for root in range(roots.shape[0]):
            far = distance_outside(kinds, node, 4 * np.int64(roots[root]), px, py)
            queued = push(queue_distance, queue_node, queued, far, roots[root])
        while queued > 0 and queue_distance[0] < nearest:
            at = np.int64(queue_node[0])
            queued = pop(queue_distance, queue_node, queued)
            visits[i] += 1
            begin = np.int64(first[at])
            if begin >= 0:
                for child in range(begin, begin + size[at]):
                    far = distance_outside(kinds, node, 4 * child, px, py)
                    if far < nearest:
                        queued = push(queue_distance, queue_node, queued, far, child)
                continue
            for box in range(~begin, ~begin + size[at]):
                if not is_in_force(fences, box, exceptions, i):
                    continue
                if contains(bound, 4 * box, px, py):
                    mask |= fences.others[box]
                    if fences.restless[box] != 0:
                        nearest = 0.0
                nearest = min(nearest, distance_to_edge(kinds, bound, 4 * box, px, py))
        distances[i], others[i] = nearest, mask
