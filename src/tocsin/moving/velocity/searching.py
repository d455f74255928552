"""Searches the tree with a box, at a time after its positions were taken (thesis, 2.5).

The thesis expands the query by the v_max of a node and compares it with the boxes in the node. Here
each box is expanded by its own v_max, which is at most that of its node; `published=True` in
`VelocityTree` does as published. A node that cannot have lost an object to the outside of the query
is taken whole: the thesis says so only for single objects. And if too many leaves are left, the
table is scanned instead, row by row, so that a query on an old index costs little more than a scan.
"""

from __future__ import annotations

import numpy as np

from tocsin.jit import Float64s, Int32Out, Int64Out, bare_step, kernel
from tocsin.moving.velocity.layout import (
    CAPACITY,
    CERTAIN,
    CHECKED,
    FIRST,
    LARGEST,
    LEVELS,
    LISTED,
    PUBLISHED,
    SCANNED,
    VISITED,
    Objects,
    Trace,
    Tree,
)

# If more than one leaf in so many is uncertain, scan: measured with a million objects, clustered, a
# scan takes as long as a third of the leaves.
_SCAN_SHARE = 3


@bare_step
def reach(v_max, since, now):
    """Return how far from its position an object can be: larger, if v_max or elapsed time is."""
    return v_max * min(now - since, LARGEST)  # 0 * inf would be NaN


@kernel
def search(
    tree: Tree,
    objects: Objects,
    box: Float64s,
    now: float,
    out: Int32Out,
    counts: Int64Out,
    trace: Trace,
) -> int:
    """Write the rows of the objects in a box, and return how many there are.

    `box` is the low x and y, then the high x and y; `now` is not before any report. `out` has room
    for one row more than there are.
    """
    low_x, low_y, high_x, high_y = box[0], box[1], box[2], box[3]
    capacity, levels = tree.shape[CAPACITY], tree.shape[LEVELS]
    is_traced = trace.node.shape[0] > 0
    # A node ~i is inside the box, with all that is in it.
    leaves = (tree.x.shape[0] + capacity - 1) // capacity
    visited, found = np.empty(leaves + 1, np.int64), np.empty(leaves + 1, np.int64)
    count = 0
    if levels > 0:
        count = select(tree, box, now, tree.shape[FIRST + levels] - 1, levels, visited, count)
    for level in range(levels - 1, 0, -1):
        counts[VISITED + level] += count
        first, below = tree.shape[FIRST + level], tree.shape[FIRST + level - 1]
        children = 0
        for i in range(count):
            node = visited[i]
            is_inside = node < 0
            if is_inside:
                node = ~node
            if is_traced:
                trace.node[node] = 1
            begin = below + (node - first) * capacity
            end = min(begin + capacity, first)
            if is_inside:
                for child in range(begin, end):
                    found[children] = ~child
                    children += 1
            else:
                for child in range(begin, end):
                    children = select(tree, box, now, child, level, found, children)
        visited, found, count = found, visited, children
    if levels > 0:
        counts[VISITED] += count
    counts[SCANNED] += objects.head[LISTED]

    n = checked = certain = uncertain = 0
    for i in range(count):
        uncertain += visited[i] >= 0
    if uncertain > max(leaves // _SCAN_SHARE, 8) and tree.shape[PUBLISHED] == 0 and not is_traced:
        counts[CHECKED] += count_tracked(objects) - objects.head[LISTED]
        return scan(objects, box, out)
    may_be_inside = np.empty(capacity + 1, np.int64)
    for i in range(count):
        leaf = visited[i]
        is_inside = leaf < 0
        if is_inside:
            leaf = ~leaf
        if is_traced:
            trace.node[leaf] = 1
        begin, end = leaf * capacity, min((leaf + 1) * capacity, tree.row.shape[0])
        before = n
        if is_inside:
            for entry in range(begin, end):
                out[n] = tree.row[entry]
                n += tree.row[entry] >= 0
            certain += n - before
            continue
        candidates = 0
        elapsed = min(now - tree.since[leaf], LARGEST)
        for entry in range(begin, end):
            r = tree.v[entry] * elapsed
            x, y = tree.x[entry], tree.y[entry]
            may_be_inside[candidates] = entry
            candidates += (
                (x - r <= high_x)
                & (x + r >= low_x)
                & (y - r <= high_y)
                & (y + r >= low_y)
                & (tree.row[entry] >= 0)
            )
        for j in range(candidates):
            entry = may_be_inside[j]
            row = np.int64(tree.row[entry])
            r = tree.v[entry] * elapsed
            x, y = tree.x[entry], tree.y[entry]
            out[n] = row
            if x - r >= low_x and x + r <= high_x and y - r >= low_y and y + r <= high_y:
                n += 1
                certain += 1
                continue
            checked += 1
            if is_traced:
                mark_look_up(trace, row, capacity)
            x, y = objects.x[row], objects.y[row]
            n += (x >= low_x) & (x <= high_x) & (y >= low_y) & (y <= high_y)
    for i in range(objects.head[LISTED]):
        row = np.int64(objects.listed[i])
        if is_traced:
            mark_look_up(trace, row, capacity)
        x, y = objects.x[row], objects.y[row]
        out[n] = row
        n += (x >= low_x) & (x <= high_x) & (y >= low_y) & (y <= high_y)
    counts[CHECKED] += checked
    counts[CERTAIN] += certain
    return n


@bare_step
def select(tree, box, now, node, level, nodes, count):
    """Append a node if objects below it may be in the box, and return how many there are then.

    It is appended as ~node if all of them must be in the box.
    """
    r = reach(tree.v_max[node], tree.since[node], now)
    # For a node without objects the elapsed time is -inf, and r is NaN: it is skipped.
    left, right = tree.low_x[node] - r, tree.high_x[node] + r
    bottom, top = tree.low_y[node] - r, tree.high_y[node] + r
    is_inside = (left >= box[0]) & (right <= box[2]) & (bottom >= box[1]) & (top <= box[3])
    nodes[count] = node ^ -np.int64(is_inside)
    return count + ((left <= box[2]) & (right >= box[0]) & (bottom <= box[3]) & (top >= box[1]))


@bare_step
def count_tracked(objects):
    """Return how many objects are in the tree or in the list."""
    tracked = 0
    for row in range(objects.x.shape[0]):
        tracked += (objects.entry[row] >= 0) | (objects.place[row] >= 0)
    return tracked


@bare_step
def scan(objects, box, out):
    """Compare all positions in the table with a box."""
    low_x, low_y, high_x, high_y = box[0], box[1], box[2], box[3]
    n = 0
    for row in range(objects.x.shape[0]):
        x, y = objects.x[row], objects.y[row]
        out[n] = row
        n += (
            ((objects.entry[row] >= 0) | (objects.place[row] >= 0))
            & (x >= low_x)
            & (x <= high_x)
            & (y >= low_y)
            & (y <= high_y)
        )
    return n


@bare_step
def mark_look_up(trace, row, capacity):
    """Note that a position was looked up; a page of the table has as many as a node has entries."""
    trace.object[row] = 1
    trace.page[row // capacity] = 1
