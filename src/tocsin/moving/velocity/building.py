"""Packs the tree, and refreshes it (thesis, 2.5.1, "Refresh and Rebuild").

A tree is packed by sort-tile-recursive (Leutenegger, Lopez and Edgington 1997), from the root down:
the entries of a node are sorted by x and cut into slabs, slabs are sorted by y and cut into tiles,
one for each child. All children of a node but the last one are full, so that children are found by
arithmetic. The thesis inserts objects one by one into an R*-tree.

A refresh takes the latest positions from the table and computes all boxes, from the leaves up.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tocsin.jit import Int32s, bare_step, freeze, kernel
from tocsin.moving.velocity.layout import (
    CAPACITY,
    FIRST,
    LARGEST,
    LEVELS,
    LISTED,
    PUBLISHED,
    Objects,
    Tree,
)

# An object at its top speed for many steps is a little ahead of v_max * elapsed, by rounding.
SLACK = 1 + 2**-32


def pack(x: np.ndarray, y: np.ndarray, capacity: int) -> np.ndarray:
    """Return an order of points in which those of a node are adjacent, at every level."""
    n = len(x)
    order = np.arange(n)
    sizes = [capacity]
    while sizes[-1] < n:
        sizes.append(sizes[-1] * capacity)
    for parent, size in zip(sizes[:0:-1], sizes[-2::-1]):
        for begin in range(0, n, parent):
            _cut_into_tiles(order[begin : begin + parent], x, y, size)
    return order


def _cut_into_tiles(order: np.ndarray, x: np.ndarray, y: np.ndarray, size: int) -> None:
    """Sort a part of the order so that every `size` points are a tile."""
    tiles = -(-len(order) // size)
    slab = size * math.ceil(tiles / round(math.sqrt(tiles)))
    order[:] = order[np.argsort(x[order])]
    for begin in range(0, len(order), slab):
        part = order[begin : begin + slab]
        part[:] = part[np.argsort(y[part])]


def make_tree(rows: np.ndarray, capacity: int, published: bool) -> Tree:
    """Return a tree with these rows as entries, in this order; `refresh` fills it."""
    counts = [len(rows)]
    while len(counts) == 1 or counts[-1] > 1:
        counts.append(-(-counts[-1] // capacity))
    if not len(rows):
        counts = [0]
    first = np.cumsum([0, *counts[1:]])
    shape = freeze(np.array([capacity, len(counts) - 1, published, *first]), np.int64)
    lengths = dict.fromkeys(Tree._fields, int(first[-1])) | dict.fromkeys("xyv", len(rows))
    arrays: dict[str, Any] = {name: np.empty(n) for name, n in lengths.items()}
    # Objects are outside of the tree until `refresh` finds that they can be in it.
    return Tree(**arrays | {"shape": shape, "row": ~rows.astype(np.int32)})


@bare_step
def append_to_list(objects, row):
    """Put an object into the list, unless it is there."""
    if objects.place[row] < 0:
        place = objects.head[LISTED]
        objects.listed[place], objects.place[row] = row, place
        objects.head[LISTED] = place + 1


@bare_step
def take_from_list(objects, row):
    """Take an object from the list, if it is there."""
    place = objects.place[row]
    if place >= 0:
        last = objects.head[LISTED] - 1
        moved = objects.listed[last]
        objects.listed[place], objects.place[moved] = moved, place
        objects.head[LISTED], objects.place[row] = last, -1


@kernel
def track(objects: Objects, rows: Int32s) -> None:
    """Put objects into the list."""
    for i in range(rows.shape[0]):
        append_to_list(objects, rows[i])


@kernel
def forget(tree: Tree, objects: Objects, rows: Int32s) -> None:
    """Take objects from the list, and mark their entries."""
    for i in range(rows.shape[0]):
        row = rows[i]
        take_from_list(objects, row)
        entry = objects.entry[row]
        if entry >= 0:
            tree.row[entry], objects.entry[row] = ~row, -1


@bare_step
def can_be_indexed(objects, row):
    """Return whether v_max and the position are known."""
    # Comparisons are false for NaN.
    return (
        objects.v_max[row] >= 0
        and abs(objects.x[row]) <= LARGEST
        and abs(objects.y[row]) <= LARGEST
    )


@kernel
def refresh(tree: Tree, objects: Objects) -> None:
    """Copy the latest positions into the tree and compute its boxes.

    Objects of the list that have an entry come back, unless something is not known of them.
    """
    capacity, levels = tree.shape[CAPACITY], tree.shape[LEVELS]
    n = tree.row.shape[0]
    for leaf in range((n + capacity - 1) // capacity):
        low_x = low_y = since = np.inf
        high_x = high_y = -np.inf
        v_max = 0.0
        for entry in range(leaf * capacity, min((leaf + 1) * capacity, n)):
            row = np.int64(tree.row[entry])
            was_live = row >= 0
            if not was_live:
                row = ~row
            if objects.entry[row] != entry:  # removed
                continue
            if not can_be_indexed(objects, row):
                if was_live:
                    tree.row[entry] = ~row
                    append_to_list(objects, row)
                continue
            if not was_live:
                tree.row[entry] = row
                take_from_list(objects, row)
            x, y, v = objects.x[row], objects.y[row], objects.v_max[row] * SLACK
            tree.x[entry], tree.y[entry], tree.v[entry] = x, y, v
            low_x, high_x, low_y, high_y = (
                min(low_x, x),
                max(high_x, x),
                min(low_y, y),
                max(high_y, y),
            )
            v_max, since = max(v_max, v), min(since, objects.seen[row])
        write_node(tree, leaf, low_x, high_x, low_y, high_y, v_max, since)
    for level in range(1, levels):
        first, below = tree.shape[FIRST + level], tree.shape[FIRST + level - 1]
        for node in range(first, tree.shape[FIRST + level + 1]):
            begin = below + (node - first) * capacity
            low_x = low_y = since = np.inf
            high_x = high_y = -np.inf
            v_max = 0.0
            for child in range(begin, min(begin + capacity, first)):
                low_x, high_x = min(low_x, tree.low_x[child]), max(high_x, tree.high_x[child])
                low_y, high_y = min(low_y, tree.low_y[child]), max(high_y, tree.high_y[child])
                v_max, since = max(v_max, tree.v_max[child]), min(since, tree.since[child])
            write_node(tree, node, low_x, high_x, low_y, high_y, v_max, since)
    if tree.shape[PUBLISHED] != 0:
        take_speeds_of_parents(tree)


@bare_step
def write_node(tree, node, low_x, high_x, low_y, high_y, v_max, since):
    """Write what a node covers."""
    tree.low_x[node], tree.high_x[node] = low_x, high_x
    tree.low_y[node], tree.high_y[node] = low_y, high_y
    tree.v_max[node], tree.since[node] = v_max, since


@bare_step
def take_speeds_of_parents(tree):
    """Expand what is in a node by the node's own v_max, as published."""
    capacity, levels = tree.shape[CAPACITY], tree.shape[LEVELS]
    for entry in range(tree.v.shape[0]):
        tree.v[entry] = tree.v_max[entry // capacity]
    for level in range(levels - 1):
        first, above = tree.shape[FIRST + level], tree.shape[FIRST + level + 1]
        for node in range(first, above):
            tree.v_max[node] = tree.v_max[above + (node - first) // capacity]
