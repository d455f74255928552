"""An R*-tree on pages, built by insertion, that counts its I/Os (thesis, 2.6).

Beckmann, Kriegel, Schneider and Seeger: The R*-tree (1990): subtrees are chosen by overlap above
leaves and by area elsewhere, 30% of the entries of an overflowing node are inserted again, once for
each level and insertion, and nodes are split along the axis with the least margin. Nodes have 40 to
100 entries.

The root and the level below are in memory, but leaves are not once there are more than 21 pages. An
operation reads and writes each other page at most once: it has buffers for what it does, and keeps
nothing for the next one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.moving_data import BUFFERS, ENTRIES
from tocsin.jit import Float64Out, Float64s, Int64Out, Int64s, bare_step, kernel, step

_LEAST = ENTRIES * 2 // 5
_AGAIN = ENTRIES * 3 // 10  # entries that are inserted again
_ROOM = ENTRIES + 1
_PENDING = 64 * ENTRIES
# Places in `Pages.head`.
_ROOT, _USED, _OPERATION, _READ, _WRITTEN, _WAITING = range(6)


class Pages(NamedTuple):
    """Nodes of 101 entries, the last of which is for an overflow."""

    box: Float64Out  # [nodes, 101, 4] x, y low, then x, y high
    child: Int64Out  # [nodes, 101] a node, or an object
    count: Int64Out  # [nodes]
    level: Int64Out  # [nodes] leaves are 0
    parent: Int64Out  # [nodes] -1 for the root
    read: Int64Out  # [nodes] the last operation that read it
    written: Int64Out  # [nodes]
    again: Int64Out  # [levels] the last operation that inserted entries of this level again
    head: Int64Out  # [6]
    waiting: Float64Out  # [pending, 4] entries to insert
    waiting_child: Int64Out  # [pending]
    waiting_level: Int64Out  # [pending]


class Leaves(NamedTuple):
    """What a tree has in its leaves, in the order of a depth-first traversal."""

    order: np.ndarray  # objects
    start: np.ndarray  # [leaves] where those of each leaf begin
    parent: np.ndarray  # [leaves] the node above, numbered from 0 on


class PageTree:
    """Boxes in an R*-tree, by number, and the I/Os so far."""

    def __init__(self, boxes: np.ndarray, room: int = 0):
        """Insert boxes[n, 4], one after the other; there is room for so many more."""
        nodes = 4 * (len(boxes) + room) // ENTRIES + 16
        lengths = {"box": 4 * nodes * _ROOM, "child": nodes * _ROOM, "again": 32, "head": 6}
        lengths |= {"waiting": 4 * _PENDING, "waiting_child": _PENDING, "waiting_level": _PENDING}
        arrays = {
            name: np.zeros(lengths.get(name, nodes), float if name in ("box", "waiting") else int)
            for name in Pages._fields
        }
        self.pages = Pages(**arrays)
        self.pages.head[_USED] = 1
        self.pages.parent[0] = -1
        self.insert(np.arange(len(boxes)), boxes)

    def copy(self) -> PageTree:
        """Return a tree that can be changed without changing this one."""
        other = PageTree.__new__(PageTree)
        other.pages = Pages(*(array.copy() for array in self.pages))
        return other

    @property
    def ios(self) -> int:
        return int(self.pages.head[_READ] + self.pages.head[_WRITTEN])

    def insert(self, ids: np.ndarray, boxes: np.ndarray) -> int:
        """Insert entries, and return the I/Os."""
        before = self.ios
        insert_all(self.pages, _ids(ids), _flat(boxes))
        return self.ios - before

    def delete(self, ids: np.ndarray, boxes: np.ndarray) -> int:
        """Delete entries with these boxes, and return the I/Os."""
        before = self.ios
        _check_found(delete_all(self.pages, _ids(ids), _flat(boxes)))
        return self.ios - before

    def modify(self, ids: np.ndarray, old: np.ndarray, new: np.ndarray) -> int:
        """Change the boxes of entries where they are, and return the I/Os."""
        before = self.ios
        _check_found(modify_all(self.pages, _ids(ids), _flat(old), _flat(new)))
        return self.ios - before

    def search(self, boxes: np.ndarray) -> tuple[int, np.ndarray]:
        """Return the I/Os of these queries, and how many entries each of them meets."""
        before, found = self.ios, np.zeros(len(boxes), np.int64)
        search_all(self.pages, _flat(boxes), found)
        return self.ios - before, found

    def leaves(self) -> Leaves:
        """Return the leaves as arrays."""
        pages, order, starts, parents = self.pages, [], [0], []
        child = pages.child.reshape(-1, _ROOM)
        nodes = [int(pages.head[_ROOT])]
        while nodes:
            node = nodes.pop()
            children = child[node, : pages.count[node]]
            if pages.level[node] == 0:
                order.append(children)
                starts.append(starts[-1] + len(children))
                parents.append(int(pages.parent[node]))
            else:
                nodes += children[::-1].tolist()
        parent = np.unique(parents, return_inverse=True)[1]
        return Leaves(np.concatenate(order), np.array(starts[:-1]), parent)

    @property
    def levels(self) -> int:
        return int(self.pages.level[self.pages.head[_ROOT]]) + 1

    @property
    def nodes_by_level(self) -> list[int]:
        """How many nodes there are: leaves first, the root last."""
        pages = self.pages
        used = pages.level[: pages.head[_USED]][pages.count[: pages.head[_USED]] > 0]
        return np.bincount(used).tolist()


def point_boxes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return points as boxes."""
    return np.stack([x, y, x, y], axis=1)


def _ids(ids: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(ids, np.int64)


def _flat(boxes: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(boxes, np.float64).reshape(-1)


def _check_found(missing: int) -> None:
    if missing:
        raise AssertionError(f"{missing} entries were not found")


# ------------------------------------------------------------ I/Os


@bare_step
def is_on_disk(p, node):
    is_leaf = (p.level[node] == 0) & (p.head[_USED] > BUFFERS)
    return is_leaf | (p.level[node] < p.level[p.head[_ROOT]] - 1)


@bare_step
def note_read(p, node):
    """Count a read, unless the page is in memory or was read by this operation."""
    if is_on_disk(p, node) and p.read[node] != p.head[_OPERATION]:
        p.read[node] = p.head[_OPERATION]
        p.head[_READ] += 1


@bare_step
def note_write(p, node):
    """Count a write, unless the page is in memory or will be written by this operation anyway."""
    if is_on_disk(p, node) and p.written[node] != p.head[_OPERATION]:
        p.written[node] = p.head[_OPERATION]
        p.head[_WRITTEN] += 1


# ------------------------------------------------------------ boxes


@bare_step
def grown(box, a, other, b):
    """Return by how much the area of a box grows if it is to cover another one, and its area."""
    width, height = box[a + 2] - box[a], box[a + 3] - box[a + 1]
    new_width = max(box[a + 2], other[b + 2]) - min(box[a], other[b])
    new_height = max(box[a + 3], other[b + 3]) - min(box[a + 1], other[b + 1])
    return new_width * new_height - width * height, width * height


@bare_step
def shared(x0, y0, x1, y1, box, b):
    """Return the area that two boxes share."""
    width = min(x1, box[b + 2]) - max(x0, box[b])
    height = min(y1, box[b + 3]) - max(y0, box[b + 1])
    return max(width, 0.0) * max(height, 0.0)


@bare_step
def meets(box, a, other, b):
    return (
        (box[a] <= other[b + 2])
        & (box[a + 2] >= other[b])
        & (box[a + 1] <= other[b + 3])
        & (box[a + 3] >= other[b + 1])
    )


@bare_step
def covers(box, a, other, b):
    return (
        (box[a] <= other[b])
        & (box[a + 2] >= other[b + 2])
        & (box[a + 1] <= other[b + 1])
        & (box[a + 3] >= other[b + 3])
    )


@bare_step
def entry_of(p, node):
    """Return which entry of its parent a node is."""
    parent = p.parent[node]
    for i in range(p.count[parent]):
        if p.child[parent * _ROOM + i] == node:
            return i
    return -1


@bare_step
def tighten(p, node):
    """Write the box of a node into its parent, and so on up to the root."""
    while p.parent[node] >= 0:
        parent = p.parent[node]
        x0 = y0 = np.inf
        x1 = y1 = -np.inf
        for i in range(p.count[node]):
            e = 4 * (node * _ROOM + i)
            x0, y0 = min(x0, p.box[e]), min(y0, p.box[e + 1])
            x1, y1 = max(x1, p.box[e + 2]), max(y1, p.box[e + 3])
        e = 4 * (parent * _ROOM + entry_of(p, node))
        if p.box[e] == x0 and p.box[e + 1] == y0 and p.box[e + 2] == x1 and p.box[e + 3] == y1:
            return
        p.box[e], p.box[e + 1], p.box[e + 2], p.box[e + 3] = x0, y0, x1, y1
        note_write(p, parent)
        node = parent


@bare_step
def put(p, node, box, b, child):
    """Append an entry to a node."""
    e = node * _ROOM + p.count[node]
    for k in range(4):
        p.box[4 * e + k] = box[b + k]
    p.child[e] = child
    if p.level[node] > 0:
        p.parent[child] = node
    p.count[node] += 1
    note_write(p, node)


@bare_step
def take(p, node, i):
    """Remove an entry from a node; the last one takes its place."""
    e, last = node * _ROOM + i, node * _ROOM + p.count[node] - 1
    for k in range(4):
        p.box[4 * e + k] = p.box[4 * last + k]
    p.child[e] = p.child[last]
    p.count[node] -= 1
    note_write(p, node)


@bare_step
def wait(p, box, b, child, level):
    """Add an entry to those that are to be inserted at a level."""
    w = p.head[_WAITING]
    for k in range(4):
        p.waiting[4 * w + k] = box[b + k]
    p.waiting_child[w], p.waiting_level[w] = child, level
    p.head[_WAITING] = w + 1


# ------------------------------------------------------------ insertion


@bare_step
def choose(p, node, box, b):
    """Return the child of a node that an entry goes to."""
    n, best, first = p.count[node], 0, 4 * node * _ROOM
    least_overlap = least_growth = least_area = np.inf
    by_overlap = p.level[node] == 1
    for i in range(n):
        e = first + 4 * i
        growth, area = grown(p.box, e, box, b)
        overlap = 0.0
        # A box that covers the entry neither grows nor overlaps more.
        if by_overlap and not covers(p.box, e, box, b):
            x0, y0 = min(p.box[e], box[b]), min(p.box[e + 1], box[b + 1])
            x1, y1 = max(p.box[e + 2], box[b + 2]), max(p.box[e + 3], box[b + 3])
            for j in range(n):
                o = first + 4 * j
                if j != i:
                    overlap += shared(x0, y0, x1, y1, p.box, o) - shared(
                        p.box[e], p.box[e + 1], p.box[e + 2], p.box[e + 3], p.box, o
                    )
                if overlap > least_overlap:
                    break
        if (overlap, growth, area) < (least_overlap, least_growth, least_area):
            best, least_overlap, least_growth, least_area = i, overlap, growth, area
    return p.child[node * _ROOM + best]


@step
def sort_by(keys, order, n):
    """Sort the numbers 0 to n by their keys."""
    for i in range(n):
        order[i] = i
    for i in range(1, n):
        moved, j = order[i], i
        while j > 0 and keys[order[j - 1]] > keys[moved]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = moved


@step
def insert_again(p, node):
    """Take the entries that are farthest from a node's centre, to insert them again."""
    first, n = node * _ROOM, p.count[node]
    keys, order = np.empty(_ROOM), np.empty(_ROOM, np.int64)
    x0 = y0 = np.inf
    x1 = y1 = -np.inf
    for i in range(n):
        e = 4 * (first + i)
        x0, y0 = min(x0, p.box[e]), min(y0, p.box[e + 1])
        x1, y1 = max(x1, p.box[e + 2]), max(y1, p.box[e + 3])
    for i in range(n):
        e = 4 * (first + i)
        keys[i] = (p.box[e] + p.box[e + 2] - x0 - x1) ** 2
        keys[i] += (p.box[e + 1] + p.box[e + 3] - y0 - y1) ** 2
    sort_by(keys, order, n)
    # The last that waits is the first to be inserted, and should be the closest.
    for i in range(n - 1, n - 1 - _AGAIN, -1):
        e = first + order[i]
        wait(p, p.box, 4 * e, p.child[e], p.level[node])
        p.child[e] = -1
    kept = 0
    for i in range(n):
        if p.child[first + i] >= 0:
            for k in range(4):
                p.box[4 * (first + kept) + k] = p.box[4 * (first + i) + k]
            p.child[first + kept] = p.child[first + i]
            kept += 1
    p.count[node] = kept
    note_write(p, node)
    tighten(p, node)


@step
def best_cut(p, node, order, n, low, high, margins):
    """Return the best cut of sorted entries: its overlap, its area, and where it is.

    `low` and `high` are room for the boxes of all beginnings and all ends.
    """
    first = node * _ROOM
    for direction in range(2):
        x0 = y0 = np.inf
        x1 = y1 = -np.inf
        for i in range(n):
            e = 4 * (first + (order[i] if direction == 0 else order[n - 1 - i]))
            x0, y0 = min(x0, p.box[e]), min(y0, p.box[e + 1])
            x1, y1 = max(x1, p.box[e + 2]), max(y1, p.box[e + 3])
            at = 4 * i if direction == 0 else 4 * (n - 1 - i)
            sums = low if direction == 0 else high
            sums[at], sums[at + 1], sums[at + 2], sums[at + 3] = x0, y0, x1, y1
    overlap = area = np.inf
    cut, total = 0, 0.0
    for k in range(_LEAST, n - _LEAST + 1):
        a, b = 4 * (k - 1), 4 * k
        wide, tall = low[a + 2] - low[a], low[a + 3] - low[a + 1]
        wide2, tall2 = high[b + 2] - high[b], high[b + 3] - high[b + 1]
        total += wide + tall + wide2 + tall2
        both = shared(low[a], low[a + 1], low[a + 2], low[a + 3], high, b)
        areas = wide * tall + wide2 * tall2
        if (both, areas) < (overlap, area):
            overlap, area, cut = both, areas, k
    margins[0] = total
    return overlap, area, cut


@step
def split(p, node):
    """Split a node, and return the new one, which has no parent yet."""
    first, n = node * _ROOM, p.count[node]
    keys, low, high = np.empty(_ROOM), np.empty(4 * _ROOM), np.empty(4 * _ROOM)
    order, best = np.empty(_ROOM, np.int64), np.empty(_ROOM, np.int64)
    margins = np.empty(1)
    least_margin, cut = np.inf, 0
    for axis in range(2):
        margin = 0.0
        overlap = area = np.inf
        own = np.empty(_ROOM, np.int64)
        own_cut = 0
        for end in range(2):
            for i in range(n):
                keys[i] = p.box[4 * (first + i) + axis + 2 * end]
            sort_by(keys, order, n)
            both, areas, k = best_cut(p, node, order, n, low, high, margins)
            margin += margins[0]
            if (both, areas) < (overlap, area):
                overlap, area, own_cut = both, areas, k
                for i in range(n):
                    own[i] = order[i]
        if margin < least_margin:
            least_margin, cut = margin, own_cut
            for i in range(n):
                best[i] = own[i]
    new = p.head[_USED]
    p.head[_USED] = new + 1
    p.level[new], p.count[new] = p.level[node], 0
    p.read[new] = p.head[_OPERATION]  # a new page is not read
    is_moved = np.zeros(_ROOM, np.uint8)
    for i in range(cut, n):
        e = first + best[i]
        put(p, new, p.box, 4 * e, p.child[e])
        is_moved[best[i]] = 1
    for i in range(n - 1, -1, -1):
        if is_moved[i] != 0:
            take(p, node, i)
    return new


@step
def insert_waiting(p):
    """Insert all entries that wait."""
    while p.head[_WAITING] > 0:
        w = p.head[_WAITING] - 1
        p.head[_WAITING] = w
        level = p.waiting_level[w]
        node = p.head[_ROOT]
        while p.level[node] > level:
            node = choose(p, node, p.waiting, 4 * w)
            note_read(p, node)
        put(p, node, p.waiting, 4 * w, p.waiting_child[w])
        tighten(p, node)
        while p.count[node] > ENTRIES:
            level = p.level[node]
            if p.parent[node] >= 0 and p.again[level] != p.head[_OPERATION]:
                p.again[level] = p.head[_OPERATION]
                insert_again(p, node)
                break
            new = split(p, node)
            if p.parent[node] < 0:
                root = p.head[_USED]
                p.head[_USED], p.head[_ROOT] = root + 1, root
                p.level[root], p.count[root], p.parent[root] = level + 1, 0, -1
                put(p, root, p.box, 4 * node * _ROOM, node)
                put(p, root, p.box, 4 * new * _ROOM, new)
            else:
                put(p, p.parent[node], p.box, 4 * new * _ROOM, new)
            tighten(p, new)
            tighten(p, node)
            node = p.parent[node]


@kernel
def insert_all(p: Pages, ids: Int64s, boxes: Float64s) -> None:
    """Insert entries, each in an operation of its own."""
    for i in range(ids.shape[0]):
        p.head[_OPERATION] += 1
        wait(p, boxes, 4 * i, ids[i], 0)
        insert_waiting(p)


# ------------------------------------------------------------ deletion, changes, search


@step
def find(p, box, b, child):
    """Return the entry with this box and child, as node * 101 + place, or -1."""
    stack = np.empty(8 * _ROOM, np.int64)
    stack[0], depth = p.head[_ROOT], 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        note_read(p, node)
        first = node * _ROOM
        for i in range(p.count[node]):
            e = first + i
            if p.level[node] > 0:
                if covers(p.box, 4 * e, box, b):
                    stack[depth] = p.child[e]
                    depth += 1
            elif p.child[e] == child:
                return e
    return -1


@step
def delete_entry(p, node, i):
    """Delete an entry; insert those of nodes that become too small again."""
    take(p, node, i)
    while p.parent[node] >= 0 and p.count[node] < _LEAST:
        parent = p.parent[node]
        for j in range(p.count[node]):
            e = node * _ROOM + j
            wait(p, p.box, 4 * e, p.child[e], p.level[node])
        take(p, parent, entry_of(p, node))
        p.count[node] = 0
        node = parent
    tighten(p, node)
    insert_waiting(p)
    root = p.head[_ROOT]
    if p.level[root] > 0 and p.count[root] == 1:
        p.head[_ROOT] = p.child[root * _ROOM]
        p.parent[p.head[_ROOT]] = -1
        p.count[root] = 0


@kernel
def delete_all(p: Pages, ids: Int64s, boxes: Float64s) -> int:
    """Delete entries, each in an operation of its own; return how many are missing."""
    missing = 0
    for i in range(ids.shape[0]):
        p.head[_OPERATION] += 1
        e = find(p, boxes, 4 * i, ids[i])
        if e < 0:
            missing += 1
        else:
            delete_entry(p, e // _ROOM, e % _ROOM)
    return missing


@kernel
def modify_all(p: Pages, ids: Int64s, old: Float64s, new: Float64s) -> int:
    """Change boxes, each in an operation of its own; return how many are missing."""
    missing = 0
    for i in range(ids.shape[0]):
        p.head[_OPERATION] += 1
        e = find(p, old, 4 * i, ids[i])
        if e < 0:
            missing += 1
            continue
        for k in range(4):
            p.box[4 * e + k] = new[4 * i + k]
        note_write(p, e // _ROOM)
        tighten(p, e // _ROOM)
    return missing


@kernel
def search_all(p: Pages, boxes: Float64s, found: Int64Out) -> None:
    """Count the entries that each query meets."""
    stack = np.empty(8 * _ROOM, np.int64)
    for query in range(found.shape[0]):
        p.head[_OPERATION] += 1
        stack[0], depth = p.head[_ROOT], 1
        while depth > 0:
            depth -= 1
            node = stack[depth]
            note_read(p, node)
            first = node * _ROOM
            for e in range(first, first + p.count[node]):
                if meets(p.box, 4 * e, boxes, 4 * query):
                    if p.level[node] > 0:
                        stack[depth] = p.child[e]
                        depth += 1
                    else:
                        found[query] += 1
