"""Where to split a bucket: its members go to the left, to the right, or stay as overlapping ones.

Left and right never overlap; members that span the boundary between them stay in the bucket itself
(section V-A3). Each way to split writes OVERLAPPING, TO_LEFT or TO_RIGHT for every member, and
returns the cut, or NULL if no cut leaves enough members on both sides.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.bestar.boxes import length
from tocsin.jit import bare_step, step
from tocsin.model.encoding import NULL

OVERLAPPING, TO_LEFT, TO_RIGHT = 0, 1, 2

# Left and right are more than `apart` keys from each other: 0, unless the tree is tuned to events
# with ranges. An event whose range is not longer meets one of them at most (footnote 4).

_INSERTION_SORT = 32  # values; chosen: up to so many are sorted by insertion


@bare_step
def is_apart(high, low, apart):
    """Tell whether what ends at `high` is more than `apart` keys before what begins at `low`."""
    return high < low and length(high, low) > np.uint64(apart)


@step
def sort_order(values):
    """Return the order of values; most leaves have few, for which insertion sort is faster."""
    m = values.shape[0]
    if m > _INSERTION_SORT:
        return np.argsort(values)
    order = np.empty(m, np.int64)
    for i in range(m):
        j = i
        while j > 0 and values[order[j - 1]] > values[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    return order


@step
def split_exhaustively(low, high, least, apart, side):
    """Split where the overlapping bucket is shortest, and of such cuts where least is covered.

    The paper's exhaustive algorithm: for every I the I leftmost go to the left, or the I rightmost
    to the right. Members that end (or begin) together go together, and extremes kept from either
    end make it linear after sorting, where the paper takes n log n for each I. At least `least`
    members go to each side.
    """
    m = low.shape[0]
    by_high, by_low = sort_order(high), sort_order(low)
    # The extremes of the members before a place and of those from it on, in either order.
    low_from, low_before = np.empty(m + 1, np.int64), np.empty(m + 1, np.int64)
    high_from, high_before = np.empty(m + 1, np.int64), np.empty(m + 1, np.int64)
    low_before[0], high_before[0] = low[by_high[0]], high[by_low[0]]
    low_from[m], high_from[m] = low[by_high[m - 1]], high[by_low[m - 1]]
    for i in range(m):
        low_before[i + 1] = min(low_before[i], low[by_high[i]])
        high_before[i + 1] = max(high_before[i], high[by_low[i]])
        j = m - 1 - i
        low_from[j] = min(low_from[j + 1], low[by_high[j]])
        high_from[j] = max(high_from[j + 1], high[by_low[j]])
    found = False
    best, best_overlap, best_coverage = np.int64(NULL), np.uint64(0), 0.0
    for leftmost in range(2):
        left, begun = 0, 0  # members that end up to the cut, and that begin up to it
        for i in range(m):
            if leftmost == 1:
                cut = high[by_high[i]]
            elif is_apart(np.int64(NULL), low[by_low[i]], apart):
                cut = low[by_low[i]] - 1 - apart
            else:
                continue
            while left < m and high[by_high[left]] <= cut:
                left += 1
            while begun < m and not is_apart(cut, low[by_low[begun]], apart):
                begun += 1
            if left < least or m - begun < least:
                continue
            overlap = np.uint64(0)
            start, end = low_before[left], high[by_high[left - 1]]
            next_start, next_end = low[by_low[begun]], high_from[begun]
            if begun > left:
                overlap = length(low_from[left], high_before[begun])
                start, end = min(start, low_from[left]), high_before[begun]
            if end >= next_start:
                coverage = np.float64(length(start, max(end, next_end)))
            else:
                coverage = np.float64(length(start, end)) + np.float64(length(next_start, next_end))
            if not found or overlap < best_overlap or (
                overlap == best_overlap and coverage < best_coverage
            ):  # fmt: skip
                found = True
                best, best_overlap, best_coverage = cut, overlap, coverage
    if found:
        for i in range(m):
            to_right = TO_RIGHT if is_apart(best, low[i], apart) else OVERLAPPING
            side[i] = TO_LEFT if high[i] <= best else to_right
    return best


@step
def split_approximately(low, high, least, apart, side):
    """Split by taking turns: the leftmost to the left, the rightmost to the right.

    The paper's approximate algorithm. A member that meets the other side in its turn overlaps.
    """
    m = low.shape[0]
    by_high, by_low = sort_order(high), sort_order(low)
    side[:m] = OVERLAPPING
    lefts = rights = 0
    left_end, right_start = np.int64(NULL), np.int64(NULL)
    for i in range(m):
        a, b = by_high[i], by_low[m - 1 - i]
        if side[a] == OVERLAPPING and (rights == 0 or is_apart(high[a], right_start, apart)):
            side[a] = TO_LEFT
            left_end = high[a]
            lefts += 1
        if side[b] == OVERLAPPING and (lefts == 0 or is_apart(left_end, low[b], apart)):
            side[b] = TO_RIGHT
            right_start = low[b]
            rights += 1
    return left_end if lefts >= least and rights >= least else np.int64(NULL)


@step
def split_at(low, high, middle, apart, side):
    """Split at a point: space clustering, which does not depend on the data.

    In the paper's formula left and right are swapped.
    """
    half = apart >> 1
    for i in range(low.shape[0]):
        to_right = TO_RIGHT if is_apart(middle, low[i], apart - half) else OVERLAPPING
        side[i] = TO_LEFT if is_apart(high[i], middle, half) else to_right
    return middle


@bare_step
def midpoint(low, high):
    """Return the middle of an interval, rounded down."""
    return low + np.int64(length(low, high) >> np.uint64(1))
