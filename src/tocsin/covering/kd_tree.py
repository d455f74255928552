"""Dominance search by an adaptive bucket k-d tree (paper, IV-C; Bentley and Friedman 1979).

Points are rows of keys; see `dominance` for how boxes become points. Equal points are stored once,
with a chain of their boxes, the oldest first. So any bucket that overflows can be split.

All points are in the leaves. A leaf has a bucket: `capacity` rows of one array, the overflow limit.
A bucket that is full is split at the median of the dimension in which its points are spread most;
what is above the median goes to the right. A leaf that falls below the underflow limit is merged
with its sibling if that is a leaf, too, and both fit into a bucket.

Each node has the largest and the smallest coordinates of its points. A search begins at the right:
what dominates a point is most likely there. It skips a node whose largest corner does not dominate
the point, and backtracks until it has found enough. (The paper omits these details; it tests
whether regions overlap. Corners are tighter, since many regions are mostly empty.)

Memory: 8 bytes per dimension and row of a bucket, and 16 bytes per dimension and node. To insert or
remove a point costs the depth of the tree and one bucket; a search costs the nodes it visits, and a
bucket for each leaf among them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Int32Out, Int64Out, Int64s, kernel, step

OVERFLOW, UNDERFLOW = 32, 12  # chosen; see benchmarks
_LEAF = -1
_NONE = -1
# Places in `head`.
ROOT, FREE_NODE, FREE_BUCKET, FREE_ENTRY, CAPACITY, LEAST, VISITED, COMPARED = range(8)


class Tree(NamedTuple):
    """A k-d tree over points of d keys. All arrays are written to."""

    head: Int64Out  # [8] the root, the first free node, bucket and entry, limits, and counters
    dimension: Int32Out  # [nodes] that splits the node; -1 for a leaf
    split: Int64Out  # [nodes] what is above goes to the right
    left: Int32Out  # [nodes] the left child; of a leaf, its bucket; of a free node, the next one
    right: Int32Out  # [nodes]
    parent: Int32Out  # [nodes]
    count: Int32Out  # [nodes] points of a leaf
    largest: Int64Out  # [nodes * d] corners
    smallest: Int64Out  # [nodes * d]
    leaf: Int32Out  # [buckets] whose it is; of a free bucket, the next one
    entry: Int32Out  # [buckets * capacity] of each row
    key: Int64Out  # [buckets * capacity * d] of each row
    row: Int32Out  # [entries] where it is; of a free entry, the next one
    oldest: Int32Out  # [entries] the first box of the chain
    newest: Int32Out  # [entries]
    entry_of: Int32Out  # [boxes]
    older: Int32Out  # [boxes] in the chain
    newer: Int32Out  # [boxes]


def make_tree(d: int, overflow: int = OVERFLOW, underflow: int = UNDERFLOW) -> Tree:
    """Return an empty tree."""
    tree = _allocate(d, overflow, nodes=3, entries=overflow, boxes=overflow)
    tree.head[CAPACITY], tree.head[LEAST] = overflow, underflow
    _link(tree, 1, 1, 0)
    tree.head[ROOT] = 0
    tree.dimension[0], tree.left[0], tree.right[0], tree.parent[0] = _LEAF, 0, _NONE, _NONE
    tree.count[0], tree.leaf[0] = 0, 0
    tree.largest[:d], tree.smallest[:d] = -(2**63), 2**63 - 1
    return tree


def has_room(tree: Tree, box: int) -> bool:
    """Return whether a box can be inserted."""
    head = tree.head
    free = tree.left[head[FREE_NODE]] if head[FREE_NODE] >= 0 else _NONE
    return bool(
        head[FREE_NODE] >= 0
        and free >= 0
        and head[FREE_BUCKET] >= 0
        and head[FREE_ENTRY] >= 0
        and box < len(tree.older)
    )


def grow(tree: Tree, d: int) -> Tree:
    """Return a copy of a tree with twice the room."""
    nodes, entries, boxes = len(tree.dimension), len(tree.row), len(tree.older)
    buckets, capacity = len(tree.leaf), int(tree.head[CAPACITY])
    larger = _allocate(d, capacity, 2 * nodes + 1, 2 * entries, 2 * boxes)
    for old, new in zip(tree, larger, strict=True):
        new[: len(old)] = old
    _link(larger, nodes, buckets, entries)
    return larger


def _allocate(d: int, capacity: int, nodes: int, entries: int, boxes: int) -> Tree:
    buckets = (nodes + 1) // 2 + 1
    ints = {name: np.int32 for name in Tree._fields}
    ints |= dict.fromkeys(("head", "split", "largest", "smallest", "key"), np.int64)
    sizes = {"head": 8, "largest": nodes * d, "smallest": nodes * d, "leaf": buckets}
    sizes |= {"entry": buckets * capacity, "key": buckets * capacity * d}
    sizes |= dict.fromkeys(("row", "oldest", "newest"), entries)
    sizes |= dict.fromkeys(("entry_of", "older", "newer"), boxes)
    return Tree(**{name: np.zeros(sizes.get(name, nodes), ints[name]) for name in Tree._fields})


def _link(tree: Tree, node: int, bucket: int, entry: int) -> None:
    """Make nodes, buckets and entries from these numbers on free."""
    for place, first, chain in (
        (FREE_NODE, node, tree.left), (FREE_BUCKET, bucket, tree.leaf), (FREE_ENTRY, entry, tree.row)
    ):  # fmt: skip
        before = tree.head[place] if first > (place != FREE_ENTRY) else _NONE
        chain[first:] = np.arange(first + 1, len(chain) + 1)
        chain[-1] = before
        tree.head[place] = first


@step
def find_leaf(tree, point):
    """Return the leaf where a point is, or would be."""
    node = np.int64(tree.head[ROOT])
    while tree.dimension[node] != _LEAF:
        above = point[tree.dimension[node]] > tree.split[node]
        node = np.int64(tree.right[node] if above else tree.left[node])
    return node


@step
def find_row(tree, leaf, point, d):
    """Return the row of a point in a leaf, or -1."""
    first = tree.left[leaf] * tree.head[CAPACITY]
    for row in range(first, first + tree.count[leaf]):
        j = 0
        while j < d and tree.key[row * d + j] == point[j]:
            j += 1
        if j == d:
            return row
    return np.int64(_NONE)


@step
def copy_row(tree, source, target, d):
    """Copy a row of a bucket to another one."""
    for j in range(d):
        tree.key[target * d + j] = tree.key[source * d + j]
    tree.entry[target] = tree.entry[source]
    tree.row[tree.entry[target]] = target


@step
def measure_leaf(tree, leaf, d):
    """Compute the corners of a leaf from its points."""
    at = leaf * d
    for j in range(d):
        tree.largest[at + j], tree.smallest[at + j] = -(2**63), 2**63 - 1
    first = tree.left[leaf] * tree.head[CAPACITY]
    for row in range(first, first + tree.count[leaf]):
        for j in range(d):
            key = tree.key[row * d + j]
            tree.largest[at + j] = max(tree.largest[at + j], key)
            tree.smallest[at + j] = min(tree.smallest[at + j], key)


@step
def take_node(tree, parent):
    """Return a node that was free."""
    node = np.int64(tree.head[FREE_NODE])
    tree.head[FREE_NODE] = tree.left[node]
    tree.parent[node], tree.dimension[node] = parent, _LEAF
    return node


@step
def split_leaf(tree, leaf, d, scratch):
    """Split a full leaf at the median of the dimension in which its points are spread most."""
    capacity, at = tree.head[CAPACITY], leaf * d
    widest, spread = 0, -1.0
    for j in range(d):
        wide = np.float64(tree.largest[at + j]) - np.float64(tree.smallest[at + j])
        if wide > spread:
            widest, spread = j, wide
    # Keys that differ may be equal as floats.
    while tree.largest[at + widest] == tree.smallest[at + widest]:
        widest = (widest + 1) % d
    bucket, n = np.int64(tree.left[leaf]), np.int64(tree.count[leaf])
    for k in range(n):
        scratch[k] = tree.key[(bucket * capacity + k) * d + widest]
    scratch[:n].sort()
    split = scratch[(n - 1) // 2]
    if split == scratch[n - 1]:  # nothing is above
        k = n - 1
        while scratch[k] == split:
            k -= 1
        split = scratch[k]
    left, right = take_node(tree, leaf), take_node(tree, leaf)
    other = np.int64(tree.head[FREE_BUCKET])
    tree.head[FREE_BUCKET] = tree.leaf[other]
    tree.left[left], tree.left[right] = bucket, other
    tree.leaf[bucket], tree.leaf[other] = left, right
    kept, moved = 0, 0
    for k in range(n):
        row = bucket * capacity + k
        if tree.key[row * d + widest] > split:
            copy_row(tree, row, other * capacity + moved, d)
            moved += 1
        else:
            copy_row(tree, row, bucket * capacity + kept, d)
            kept += 1
    tree.count[left], tree.count[right] = kept, moved
    measure_leaf(tree, left, d)
    measure_leaf(tree, right, d)
    tree.dimension[leaf], tree.split[leaf] = widest, split
    tree.left[leaf], tree.right[leaf], tree.count[leaf] = left, right, 0


@kernel
def insert(tree: Tree, point: Int64s, box: int, scratch: Int64Out) -> None:
    """Insert a box at its point. There must be room; `scratch` has the capacity of a bucket."""
    d = point.shape[0]
    leaf = find_leaf(tree, point)
    row = find_row(tree, leaf, point, d)
    tree.newer[box] = _NONE
    if row >= 0:
        entry = tree.entry[row]
        tree.entry_of[box], tree.older[box] = entry, tree.newest[entry]
        tree.newer[tree.newest[entry]] = box
        tree.newest[entry] = box
        return
    if tree.count[leaf] == tree.head[CAPACITY]:
        split_leaf(tree, leaf, d, scratch)
        leaf = find_leaf(tree, point)
    row = tree.left[leaf] * tree.head[CAPACITY] + tree.count[leaf]
    tree.count[leaf] += 1
    for j in range(d):
        tree.key[row * d + j] = point[j]
    entry = np.int64(tree.head[FREE_ENTRY])
    tree.head[FREE_ENTRY] = tree.row[entry]
    tree.entry[row], tree.row[entry] = entry, row
    tree.oldest[entry], tree.newest[entry] = box, box
    tree.entry_of[box], tree.older[box] = entry, _NONE
    node = leaf
    while node >= 0:
        changed = False
        for j in range(d):
            if point[j] > tree.largest[node * d + j]:
                tree.largest[node * d + j] = point[j]
                changed = True
            if point[j] < tree.smallest[node * d + j]:
                tree.smallest[node * d + j] = point[j]
                changed = True
        if not changed:
            break
        node = np.int64(tree.parent[node])


@kernel
def remove(tree: Tree, box: int, d: int) -> None:
    """Remove a box."""
    entry, older, newer = tree.entry_of[box], tree.older[box], tree.newer[box]
    if older >= 0:
        tree.newer[older] = newer
    else:
        tree.oldest[entry] = newer
    if newer >= 0:
        tree.older[newer] = older
    else:
        tree.newest[entry] = older
    if tree.oldest[entry] >= 0:
        return
    capacity = tree.head[CAPACITY]
    row = np.int64(tree.row[entry])
    leaf = np.int64(tree.leaf[row // capacity])
    tree.row[entry] = tree.head[FREE_ENTRY]
    tree.head[FREE_ENTRY] = entry
    tree.count[leaf] -= 1
    last = tree.left[leaf] * capacity + tree.count[leaf]
    if row != last:
        copy_row(tree, last, row, d)
    measure_leaf(tree, leaf, d)
    if tree.count[leaf] < tree.head[LEAST] and tree.parent[leaf] >= 0:
        leaf = merge(tree, leaf, d)
    node = np.int64(tree.parent[leaf])
    while node >= 0:
        changed, a, b = False, tree.left[node] * d, tree.right[node] * d
        for j in range(d):
            largest = max(tree.largest[a + j], tree.largest[b + j])
            smallest = min(tree.smallest[a + j], tree.smallest[b + j])
            if largest != tree.largest[node * d + j] or smallest != tree.smallest[node * d + j]:
                tree.largest[node * d + j], tree.smallest[node * d + j] = largest, smallest
                changed = True
        if not changed:
            break
        node = np.int64(tree.parent[node])


@step
def merge(tree, leaf, d):
    """Merge a leaf with its sibling if that is a leaf and both fit; return the leaf it is in."""
    parent, capacity = np.int64(tree.parent[leaf]), tree.head[CAPACITY]
    left, right = np.int64(tree.left[parent]), np.int64(tree.right[parent])
    sibling = right if left == leaf else left
    if tree.dimension[sibling] != _LEAF or tree.count[leaf] + tree.count[sibling] > capacity:
        return leaf
    bucket, other = np.int64(tree.left[left]), np.int64(tree.left[right])
    n = tree.count[left]
    for k in range(tree.count[right]):
        copy_row(tree, other * capacity + k, bucket * capacity + n + k, d)
    tree.count[parent], tree.dimension[parent] = n + tree.count[right], _LEAF
    tree.left[parent], tree.right[parent], tree.leaf[bucket] = bucket, _NONE, parent
    tree.leaf[other] = tree.head[FREE_BUCKET]
    tree.head[FREE_BUCKET] = other
    for node in (left, right):
        tree.left[node] = tree.head[FREE_NODE]
        tree.head[FREE_NODE] = node
    measure_leaf(tree, parent, d)
    return parent


@kernel
def find_dominating(tree: Tree, point: Int64s, but: int, found: Int64Out, stack: Int64Out) -> int:
    """Write boxes whose points dominate a point, up to the room in `found`; return how many.

    If `but` is a box at this point, neither it nor newer ones at the same point are found.
    """
    d, k, n = point.shape[0], found.shape[0], 0
    own = tree.entry_of[but] if but >= 0 else _NONE
    depth, stack[0] = 1, tree.head[ROOT]
    while depth > 0 and n < k:
        depth -= 1
        node = stack[depth]
        tree.head[VISITED] += 1
        j = 0
        while j < d and tree.largest[node * d + j] >= point[j]:
            j += 1
        if j < d:
            continue
        if tree.dimension[node] != _LEAF:
            stack[depth], stack[depth + 1] = tree.left[node], tree.right[node]
            depth += 2
            continue
        first = tree.left[node] * tree.head[CAPACITY]
        for row in range(first, first + tree.count[node]):
            tree.head[COMPARED] += 1
            j = 0
            while j < d and tree.key[row * d + j] >= point[j]:
                j += 1
            if j < d:
                continue
            box = tree.oldest[tree.entry[row]]
            while box >= 0 and n < k and not (box == but and tree.entry[row] == own):
                found[n] = box
                n, box = n + 1, tree.newer[box]
            if n == k:
                break
    return n


@kernel
def find_dominated(tree: Tree, point: Int64s, found: Int64Out, stack: Int64Out) -> int:
    """Write boxes whose points a point dominates; return how many, even if there is no room."""
    d, k, n = point.shape[0], found.shape[0], 0
    depth, stack[0] = 1, tree.head[ROOT]
    while depth > 0:
        depth -= 1
        node = stack[depth]
        tree.head[VISITED] += 1
        j = 0
        while j < d and tree.smallest[node * d + j] <= point[j]:
            j += 1
        if j < d:
            continue
        if tree.dimension[node] != _LEAF:
            stack[depth], stack[depth + 1] = tree.right[node], tree.left[node]
            depth += 2
            continue
        first = tree.left[node] * tree.head[CAPACITY]
        for row in range(first, first + tree.count[node]):
            tree.head[COMPARED] += 1
            j = 0
            while j < d and tree.key[row * d + j] <= point[j]:
                j += 1
            if j < d:
                continue
            box = tree.oldest[tree.entry[row]]
            while box >= 0:
                if n < k:
                    found[n] = box
                n, box = n + 1, tree.newer[box]
    return n
