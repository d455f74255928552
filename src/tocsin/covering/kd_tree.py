"""Dominance search by an adaptive bucket k-d tree (paper, IV-C; Bentley and Friedman 1979).

All points are in the leaves. A leaf has a bucket: `overflow` rows of one array, by dimension and
not by point, so that all rows are compared with a few vector instructions. A full bucket is split
at the median of a dimension, and what is above goes to the right. A leaf that falls below the
underflow limit is merged with its sibling if that is a leaf, too, and both fit into a bucket. (The
paper merges them only if the result is below the overflow limit.)

The dimension that splits a node is the next one after its parent's in which its points differ. (The
spread of points in each dimension, as in 1979, needs a scale that keys do not have: the keys of 0.1
and 0.2 are as far apart as those of 1,000 and 2,000. With it, a search among uniform boxes of eight
attributes visited three times as many nodes.)

Each node has the largest and the smallest coordinates of its points, its *corners*. A search begins
at the right, where most of what dominates a point is. It skips a node whose largest corner does not
dominate the point, and backtracks until it has found enough. (The paper omits these details.
Corners are tighter than the regions of nodes, since most of a region is empty. The paper takes all
points of a node that is wholly inside the query; here they are compared like others.)

A tree without room is built anew with twice the room, which also puts nodes into the order in which
they are searched. Points that come in order make a tree deep. One that is more than three times as
deep as a balanced one is built anew, and so is one whose buckets have become mostly empty.

Memory: 8 bytes per dimension and row of a bucket, and 16 bytes per dimension and node. To insert or
remove a point costs the depth of the tree and one bucket; a search costs the nodes it visits, and a
bucket for each leaf among them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tocsin.index.sorting import sort
from tocsin.jit import Int32Out, Int64Out, Int64s, UInt8Out, bare_step, kernel, step

OVERFLOW = 16  # points of a bucket, chosen; docs/experiments.md has others

_LEAF = -1
_NONE = -1
_SAMPLE = 64  # points that the median is taken of
# Places in `head`.
_ROOT, _FREE_NODE, _FREE_BUCKET, _BUCKETS, _SIZE, _LEAST = range(6)
# Places in `Walk.place`.
_DEPTH, _BUCKET, _ROW, _COUNT, VISITED, COMPARED = range(6)


class Tree(NamedTuple):
    """A k-d tree over points of d keys, in buckets of b rows. All arrays are written to."""

    head: Int64Out  # [6] the root, the first free node and bucket, counts and the underflow limit
    dimension: Int32Out  # [nodes] that splits the node; -1 for a leaf
    split: Int64Out  # [nodes] what is above goes to the right
    left: Int32Out  # [nodes] the left child; of a leaf, its bucket; of a free node, the next one
    right: Int32Out  # [nodes]
    parent: Int32Out  # [nodes]
    length: Int32Out  # [nodes] points of a leaf
    largest: Int64Out  # [nodes * d] corners
    smallest: Int64Out  # [nodes * d]
    leaf: Int32Out  # [buckets] whose it is; of a free bucket, the next one
    entry: Int32Out  # [buckets * b] of each row
    key: Int64Out  # [buckets * d * b] of a bucket, dimension and row
    row: Int32Out  # [entries] where it is


class Walk(NamedTuple):
    """A search in progress. All arrays are written to."""

    place: Int64Out  # [6] the depth of the stack, the bucket, row and rows, and counters
    inside: UInt8Out  # [b] of the rows of the bucket, which ones are found
    stack: Int64Out  # [nodes] to be visited


class KdTree:
    """Points that can be inserted and removed, numbered by the caller: their *entries*."""

    def __init__(self, d: int, overflow: int = OVERFLOW, underflow: int | None = None):
        self.d, self._overflow = d, overflow
        self._underflow = overflow // 4 if underflow is None else underflow
        self._scratch = np.empty(max(overflow, _SAMPLE), np.int64)
        self._place = np.zeros(6, np.int64)
        self.build(np.empty((0, d), np.int64), np.empty(0, np.int64))

    def build(self, points: np.ndarray, entries: np.ndarray, entry: int = 31) -> None:
        """Replace all points by these, which differ, with room for as many and an entry more."""
        n, room = len(points), 2 * int(entries.max(initial=entry)) + 2
        buckets = 4 + 4 * n // self._overflow
        while True:
            tree = make_tree(self.d, self._overflow, self._underflow, buckets, room)
            if build(tree, points.reshape(-1), entries, np.arange(n), self._scratch):
                break
            buckets *= 2
        self.tree, self._walk = tree, make_walk(tree, self._place)

    def insert(self, point: np.ndarray, entry: int) -> None:
        """Insert a point that differs from all others."""
        while (depth := insert(self.tree, point, entry, self._scratch)) < 0:
            self._rebuild(entry)
        if depth > 16 and depth > 16 + 3 * len(self).bit_length():
            self._rebuild(entry)

    def remove(self, point: np.ndarray, entry: int) -> None:
        """Remove a point."""
        remove(self.tree, entry)
        if self.tree.head[_BUCKETS] > 64 + 8 * len(self) // self._overflow:
            self._rebuild(entry)

    def find_dominating(self, point: np.ndarray, but: int, found: np.ndarray) -> int:
        """Write entries whose points dominate a point, up to the room; return how many."""
        return int(find(self.tree, 0, point, but, found, self._walk))

    def find_dominated(self, point: np.ndarray, but: int, found: np.ndarray) -> int:
        """Write entries whose points are dominated by a point, up to the room; return how many."""
        return int(find(self.tree, -1, ~point, but, found, self._walk))

    def __len__(self) -> int:
        return int(self.tree.head[_SIZE])

    @property
    def visited(self) -> int:
        """The number of nodes that searches have visited."""
        return int(self._place[VISITED])

    @property
    def compared(self) -> int:
        """The number of points that searches have compared."""
        return int(self._place[COMPARED])

    def _rebuild(self, entry: int) -> None:
        """Build the tree anew, with room for an entry."""
        n = len(self)
        points, entries = np.empty((n, self.d), np.int64), np.empty(n, np.int64)
        collect(self.tree, points.reshape(-1), entries)
        self.build(points, entries, entry)


def make_walk(tree: Tree, place: np.ndarray | None = None) -> Walk:
    """Return memory for searches in a tree."""
    return Walk(
        np.zeros(6, np.int64) if place is None else place,
        np.empty(len(tree.entry) // len(tree.leaf), np.uint8),
        np.empty(len(tree.dimension) + 1, np.int64),
    )


def make_tree(d: int, overflow: int, underflow: int, buckets: int, entries: int) -> Tree:
    """Return a tree whose nodes and buckets are all free; it has no root yet."""
    nodes = 2 * buckets + 1
    lengths = {"head": 6, "largest": nodes * d, "smallest": nodes * d, "leaf": buckets}
    lengths |= {"entry": buckets * overflow, "key": buckets * d * overflow, "row": entries}
    longs = ("head", "split", "largest", "smallest", "key")
    arrays: dict[str, Any] = {
        name: np.zeros(lengths.get(name, nodes), np.int64 if name in longs else np.int32)
        for name in Tree._fields
    }
    tree = Tree(**arrays)
    tree.head[_LEAST] = underflow
    for chain in tree.left, tree.leaf:
        chain[:] = np.arange(1, len(chain) + 1)
        chain[-1] = _NONE
    return tree


@step
def take_bucket(tree):
    """Return a bucket that was free."""
    bucket = np.int64(tree.head[_FREE_BUCKET])
    tree.head[_FREE_BUCKET] = tree.leaf[bucket]
    tree.head[_BUCKETS] += 1
    return bucket


@step
def take_leaf(tree, parent, bucket):
    """Return a node that was free, as an empty leaf."""
    node = np.int64(tree.head[_FREE_NODE])
    tree.head[_FREE_NODE] = tree.left[node]
    tree.dimension[node], tree.parent[node], tree.right[node] = _LEAF, parent, _NONE
    tree.left[node], tree.leaf[bucket], tree.length[node] = bucket, node, 0
    return node


@step
def divide(tree, node, dimension, split):
    """Make a leaf an inner node with two empty leaves, and return these."""
    left = take_leaf(tree, node, np.int64(tree.left[node]))
    right = take_leaf(tree, node, take_bucket(tree))
    tree.dimension[node], tree.split[node], tree.length[node] = dimension, split, 0
    tree.left[node], tree.right[node] = left, right
    return left, right


@step
def write_row(tree, leaf, point, first, stride, entry, d, b):
    """Append a point to a leaf: the keys point[first], point[first + stride], ..."""
    bucket, k = np.int64(tree.left[leaf]), np.int64(tree.length[leaf])
    for j in range(d):
        tree.key[(bucket * d + j) * b + k] = point[first + j * stride]
    tree.entry[bucket * b + k], tree.row[entry] = entry, bucket * b + k
    tree.length[leaf] = k + 1


@step
def measure_leaf(tree, leaf, d, b):
    """Compute the corners of a leaf from its points."""
    bucket = np.int64(tree.left[leaf])
    for j in range(d):
        largest, smallest = -(2**63), 2**63 - 1
        for k in range((bucket * d + j) * b, (bucket * d + j) * b + tree.length[leaf]):
            largest, smallest = max(largest, tree.key[k]), min(smallest, tree.key[k])
        tree.largest[leaf * d + j], tree.smallest[leaf * d + j] = largest, smallest


@step
def choose_dimension(tree, node, d):
    """Return the next dimension after the parent's in which the points of a node differ."""
    parent = tree.parent[node]
    j = (np.int64(tree.dimension[parent]) + 1) % d if parent >= 0 else np.int64(0)
    while tree.largest[node * d + j] == tree.smallest[node * d + j]:
        j = (j + 1) % d
    return j


@step
def choose_split(sample, n, largest):
    """Return the median of n keys, or what is just below the largest of all."""
    keys = sample[:n]
    sort(keys)
    return min(keys[(n - 1) // 2], largest - 1)


@step
def split_leaf(tree, leaf, d, b, scratch):
    """Split a full leaf."""
    j = choose_dimension(tree, leaf, d)
    bucket = np.int64(tree.left[leaf])
    n = min(b, _SAMPLE)
    for k in range(n):
        scratch[k] = tree.key[(bucket * d + j) * b + k * b // n]
    split = choose_split(scratch, n, tree.largest[leaf * d + j])
    left, right = divide(tree, leaf, j, split)
    for k in range(b):
        target = right if tree.key[(bucket * d + j) * b + k] > split else left
        at = bucket * d * b + k
        write_row(tree, target, tree.key, at, b, tree.entry[bucket * b + k], d, b)
    measure_leaf(tree, left, d, b)
    measure_leaf(tree, right, d, b)


@kernel
def build(tree: Tree, points: Int64s, entries: Int64s, order: Int64Out, scratch: Int64Out) -> bool:
    """Fill a tree in which all is free; return False if there are not enough buckets.

    `order` has the numbers 0, 1, ... of the points.
    """
    d, b = tree.largest.shape[0] // tree.left.shape[0], tree.entry.shape[0] // tree.leaf.shape[0]
    tree.head[_SIZE] = order.shape[0]
    tree.head[_ROOT] = take_leaf(tree, _NONE, take_bucket(tree))
    stack = np.empty((order.shape[0] + 2, 3), np.int64)  # nodes and their points in `order`
    stack[0, 0], stack[0, 1], stack[0, 2] = tree.head[_ROOT], 0, order.shape[0]
    depth = 1
    while depth > 0:
        depth -= 1
        node, first, stop = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        for j in range(d):
            largest, smallest = -(2**63), 2**63 - 1
            for k in range(first, stop):
                key = points[order[k] * d + j]
                largest, smallest = max(largest, key), min(smallest, key)
            tree.largest[node * d + j], tree.smallest[node * d + j] = largest, smallest
        n = stop - first
        if n <= b:
            for k in range(first, stop):
                write_row(tree, node, points, order[k] * d, 1, entries[order[k]], d, b)
            continue
        if tree.head[_FREE_BUCKET] < 0:
            return False
        j = choose_dimension(tree, node, d)
        sample = min(n, _SAMPLE)
        for k in range(sample):
            scratch[k] = points[order[first + k * n // sample] * d + j]
        split = choose_split(scratch, sample, tree.largest[node * d + j])
        low, high = first, stop - 1
        while low <= high:
            if points[order[low] * d + j] <= split:
                low += 1
            else:
                order[low], order[high] = order[high], order[low]
                high -= 1
        left, right = divide(tree, node, j, split)
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = left, first, low
        stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = right, low, stop
        depth += 2
    return True


@kernel
def insert(tree: Tree, point: Int64s, entry: int, scratch: Int64Out) -> int:
    """Insert a point; return its depth, or -1 if there is no room."""
    d, b = point.shape[0], tree.entry.shape[0] // tree.leaf.shape[0]
    node = tree.head[_FREE_NODE]
    if node < 0 or tree.left[node] < 0 or tree.head[_FREE_BUCKET] < 0:
        return -1
    if entry >= tree.row.shape[0]:
        return -1
    leaf, depth = np.int64(tree.head[_ROOT]), 0
    while tree.dimension[leaf] != _LEAF or tree.length[leaf] == b:
        if tree.dimension[leaf] == _LEAF:
            split_leaf(tree, leaf, d, b, scratch)
        above = point[tree.dimension[leaf]] > tree.split[leaf]
        leaf = np.int64(tree.right[leaf] if above else tree.left[leaf])
        depth += 1
    write_row(tree, leaf, point, 0, 1, entry, d, b)
    tree.head[_SIZE] += 1
    node, changed = leaf, True
    while node >= 0 and changed:
        changed = False
        for j in range(d):
            if point[j] > tree.largest[node * d + j]:
                tree.largest[node * d + j] = point[j]
                changed = True
            if point[j] < tree.smallest[node * d + j]:
                tree.smallest[node * d + j] = point[j]
                changed = True
        node = np.int64(tree.parent[node])
    return depth


@kernel
def remove(tree: Tree, entry: int) -> None:
    """Remove a point."""
    d, b = tree.largest.shape[0] // tree.left.shape[0], tree.entry.shape[0] // tree.leaf.shape[0]
    bucket, k = tree.row[entry] // b, tree.row[entry] % b
    leaf = np.int64(tree.leaf[bucket])
    tree.head[_SIZE] -= 1
    tree.length[leaf] -= 1
    last = tree.length[leaf]
    if k != last:
        for j in range(d):
            at = (bucket * d + j) * b
            tree.key[at + k] = tree.key[at + last]
        moved = tree.entry[bucket * b + last]
        tree.entry[bucket * b + k], tree.row[moved] = moved, bucket * b + k
    if last < tree.head[_LEAST] and tree.parent[leaf] >= 0:
        leaf = merge(tree, leaf, d, b)
    measure_leaf(tree, leaf, d, b)
    node, changed = np.int64(tree.parent[leaf]), True
    while node >= 0 and changed:
        changed, left, right = False, tree.left[node] * d, tree.right[node] * d
        for j in range(d):
            largest = max(tree.largest[left + j], tree.largest[right + j])
            smallest = min(tree.smallest[left + j], tree.smallest[right + j])
            if largest != tree.largest[node * d + j] or smallest != tree.smallest[node * d + j]:
                tree.largest[node * d + j], tree.smallest[node * d + j] = largest, smallest
                changed = True
        node = np.int64(tree.parent[node])


@step
def merge(tree, leaf, d, b):
    """Merge a leaf with its sibling if that is a leaf and both fit; return the leaf it is in."""
    parent = np.int64(tree.parent[leaf])
    left, right = np.int64(tree.left[parent]), np.int64(tree.right[parent])
    sibling = right if left == leaf else left
    if tree.dimension[sibling] != _LEAF or tree.length[leaf] + tree.length[sibling] > b:
        return leaf
    bucket, other = np.int64(tree.left[left]), np.int64(tree.left[right])
    for k in range(tree.length[right]):
        at = other * d * b + k
        write_row(tree, left, tree.key, at, b, tree.entry[other * b + k], d, b)
    tree.length[parent], tree.dimension[parent] = tree.length[left], _LEAF
    tree.left[parent], tree.right[parent], tree.leaf[bucket] = bucket, _NONE, parent
    tree.leaf[other] = tree.head[_FREE_BUCKET]
    tree.head[_FREE_BUCKET] = other
    tree.head[_BUCKETS] -= 1
    tree.left[left], tree.left[right] = right, tree.head[_FREE_NODE]
    tree.head[_FREE_NODE] = left
    return parent


@bare_step
def begin(tree, walk):
    """Begin a search."""
    walk.place[_ROW], walk.place[_COUNT] = 0, 0
    walk.place[_DEPTH], walk.stack[0] = 1, tree.head[_ROOT]


@bare_step
def find_next(tree, flip, point, walk):
    """Return the next entry whose point dominates a point, or -1.

    With `flip` = -1, all bits are inverted, which reverses the order of keys: the given point is
    the complement of one, and the entry's point is dominated by that one.
    """
    d, b = point.shape[0], tree.entry.shape[0] // tree.leaf.shape[0]
    corners = tree.smallest if flip else tree.largest
    place, inside, stack = walk.place, walk.inside, walk.stack
    while True:
        for k in range(place[_ROW], place[_COUNT]):
            if inside[k]:
                place[_ROW] = k + 1
                return np.int64(tree.entry[place[_BUCKET] * b + k])
        place[_ROW], place[_COUNT] = 0, 0
        depth, visited = place[_DEPTH], 0
        while depth > 0 and place[_COUNT] == 0:
            depth -= 1
            node = stack[depth]
            visited += 1
            j = 0
            while j < d and corners[node * d + j] ^ flip >= point[j]:
                j += 1
            if j < d:
                continue
            left, right = np.int64(tree.left[node]), np.int64(tree.right[node])
            dimension, split = np.int64(tree.dimension[node]), tree.split[node]
            if dimension != _LEAF:
                if flip:
                    if ~split > point[dimension]:
                        stack[depth] = right
                        depth += 1
                    stack[depth] = left
                else:
                    if split >= point[dimension]:
                        stack[depth] = left
                        depth += 1
                    stack[depth] = right
                depth += 1
                continue
            count = np.int64(tree.length[node])
            place[COMPARED] += count
            inside[:count] = 1
            found = np.uint8(1)
            for j in range(d):
                least, at = point[j], (left * d + j) * b
                found = np.uint8(0)
                for k in range(count):
                    inside[k] &= tree.key[at + k] ^ flip >= least
                    found |= inside[k]
                if not found:
                    break
            if found:
                place[_BUCKET], place[_COUNT] = left, count
        place[_DEPTH] = depth
        place[VISITED] += visited
        if place[_COUNT] == 0:
            return np.int64(_NONE)


@kernel
def find(tree: Tree, flip: int, point: Int64s, but: int, found: Int64Out, walk: Walk) -> int:
    """Write entries whose points dominate a point, other than `but`, up to the room.

    Return how many there are. See `find_next` for `flip`.
    """
    n, k = 0, found.shape[0]
    begin(tree, walk)
    while n < k:
        entry = find_next(tree, flip, point, walk)
        if entry < 0:
            break
        if entry != but:
            found[n] = entry
            n += 1
    return n


@kernel
def collect(tree: Tree, points: Int64Out, entries: Int64Out) -> None:
    """Write all points and their entries."""
    d, b = tree.largest.shape[0] // tree.left.shape[0], tree.entry.shape[0] // tree.leaf.shape[0]
    n, depth = 0, 1
    stack = np.empty(tree.left.shape[0] + 1, np.int64)
    stack[0] = tree.head[_ROOT]
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if tree.dimension[node] != _LEAF:
            stack[depth], stack[depth + 1] = tree.left[node], tree.right[node]
            depth += 2
            continue
        bucket = np.int64(tree.left[node])
        for k in range(tree.length[node]):
            for j in range(d):
                points[n * d + j] = tree.key[(bucket * d + j) * b + k]
            entries[n] = tree.entry[bucket * b + k]
            n += 1
