"""The interval skip list (Hanson and Johnson, Selection predicate indexing for active databases
using interval skip lists, 1996): what the paper of virtual construct intervals compares with.

A skip list has a node for each end of an interval, with a random height: half of the nodes have
height 1, a quarter 2, and so on. At each of its levels a node has a forward edge to the next node
of at least that height. An interval is marked

* on every edge that lies within it, unless a higher edge that lies within it spans that edge. So
  the marked edges lead from its low end to its high end, up and down again like a hill, without
  gaps or overlaps;
* on every node that such an edge begins or ends at (`eqMarkers` there, `at_node` here).

A search goes right and down to a value, as in any skip list, and takes the markers of the edges
that span it: one on each level. If it reaches a node that has the value, it takes the markers of
that node instead of those of the levels from there on down.

Two things differ from the publication, neither of them in what a search does or what is stored. A
new node splits edges, and the markers on these have to be moved, some to higher edges. There a
local adjustment does that. Here each of these intervals is taken off its path and is marked again:
where markers belong depends on nodes and heights only, so they are the same. And intervals are
inserted in Python, into sets. `SkipListSearch` lays them out in flat arrays and searches these in a
kernel, like all other structures here; a search that stops at a node also finds no id twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64s, Int32Out, Int32s, Int64Out, Int64s, freeze_fields, kernel

_HEIGHT = 16  # levels; chosen: enough for 2**16 ends


class Node:
    """An end of intervals."""

    def __init__(self, key: float, height: int):
        self.key = key
        self.forward: list[Node | None] = [None] * height
        self.markers: list[set[int]] = [set() for _ in range(height)]  # of each forward edge
        self.at_node: set[int] = set()


class IntervalSkipList:
    """Closed intervals, inserted one after another and numbered from 0."""

    def __init__(self, seed: int = 0):
        self.header = Node(-np.inf, _HEIGHT)
        self.rng = np.random.default_rng(seed)
        self.intervals: list[tuple[Node, Node]] = []

    def insert(self, low: float, high: float) -> None:
        """Add an interval; ends that are new become nodes."""
        self.intervals.append((self._find_or_insert(low), self._find_or_insert(high)))
        self._mark(len(self.intervals) - 1)

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes in their order, first the header."""
        node: Node | None = self.header
        while node is not None:
            yield node
            node = node.forward[0]

    def _find_or_insert(self, key: float) -> Node:
        """Return the node of a key."""
        before = [self.header] * _HEIGHT
        node = self.header
        for level in reversed(range(_HEIGHT)):
            while (after := node.forward[level]) is not None and after.key < key:
                node = after
            before[level] = node
        if (found := node.forward[0]) is not None and found.key == key:
            return found
        new = Node(key, min(int(self.rng.geometric(0.5)), _HEIGHT))
        split = range(len(new.forward))
        moved = set().union(*(before[level].markers[level] for level in split))
        for interval in moved:
            self._unmark(interval)
        for level in split:
            new.forward[level] = before[level].forward[level]
            before[level].forward[level] = new
        for interval in moved:
            self._mark(interval)
        return new

    def _mark(self, interval: int) -> None:
        """Put an interval's markers on its path."""
        for node, level in self._path(interval):
            node.markers[level].add(interval)
            node.at_node.add(interval)
        self.intervals[interval][1].at_node.add(interval)

    def _unmark(self, interval: int) -> None:
        """Take an interval's markers off its path."""
        for node, level in self._path(interval):
            node.markers[level].remove(interval)
            node.at_node.remove(interval)
        self.intervals[interval][1].at_node.remove(interval)

    def _path(self, interval: int) -> Iterator[tuple[Node, int]]:
        """Yield the highest edges from the low end of an interval to the high end.

        First they get higher, until an edge of the next level would lead too far, then lower.
        """
        node, last = self.intervals[interval]
        level = 0
        while node is not last:
            while level + 1 < len(node.forward) and _reaches(node, level + 1, last):
                level += 1
            while not _reaches(node, level, last):
                level -= 1
            yield node, level
            after = node.forward[level]
            assert after is not None
            node = after


def _reaches(node: Node, level: int, last: Node) -> bool:
    """Return whether an edge leads to a node, and not beyond `last`."""
    after = node.forward[level]
    return after is not None and after.key <= last.key


# ------------------------------------------------------------ search


class SkipList(NamedTuple):
    """m nodes in their order, first the header, and e edges, a node's from the lowest up."""

    key: Float64s  # [m]
    edge: Int64s  # [m] its lowest edge
    forward: Int64s  # [e] the node that an edge leads to, -1 if none
    start: Int64s  # [e + 1] where the markers of an edge begin
    ids: Int32s
    node_start: Int64s  # [m + 1] where the markers of a node begin
    node_ids: Int32s


class SkipListSearch:
    """An interval skip list in flat arrays, and the values to search it with."""

    def __init__(self, low: np.ndarray, high: np.ndarray, points: np.ndarray):
        self.size, self.events = len(low), len(points)
        self.values = np.ascontiguousarray(points, np.float64)
        skip_list = IntervalSkipList()
        for ends in zip(low.tolist(), high.tolist(), strict=True):
            skip_list.insert(*ends)
        self.list = flatten(skip_list)
        self.nbytes = sum(array.nbytes for array in self.list)

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        return collect(self.list, self.values, self.size, first, stop, offsets, out)


def flatten(skip_list: IntervalSkipList) -> SkipList:
    """Return an interval skip list as arrays."""
    nodes = list(skip_list.nodes())
    number = {id(node): i for i, node in enumerate(nodes)}
    edges = [(node, level) for node in nodes for level in range(len(node.forward))]
    markers = [sorted(node.markers[level]) for node, level in edges]
    at_node = [sorted(node.at_node) for node in nodes]
    heights = np.array([len(node.forward) for node in nodes])
    return freeze_fields(
        SkipList,
        key=[node.key for node in nodes],
        edge=np.cumsum(heights) - heights,
        forward=[number.get(id(node.forward[level]), -1) for node, level in edges],
        start=np.cumsum([0, *map(len, markers)]),
        ids=np.concatenate([[], *markers]),
        node_start=np.cumsum([0, *map(len, at_node)]),
        node_ids=np.concatenate([[], *at_node]),
    )


@kernel
def collect(
    g: SkipList,
    values: Float64s,
    size: int,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write the intervals that contain each value, while there is room for all."""
    key, edge, forward, start, ids = g.key, g.edge, g.forward, g.start, g.ids
    node_start, node_ids = g.node_start, g.node_ids
    room = out.shape[0] - size
    n = np.uint64(offsets[0])
    event = first
    while event < stop and np.int64(n) <= room:
        value = values[event]
        node = np.int64(0)
        for level in range(_HEIGHT - 1, -1, -1):
            after = forward[edge[node] + level]
            while after >= 0 and key[after] < value:
                node = after
                after = forward[edge[node] + level]
            if after >= 0 and key[after] == value:
                begin = np.uint64(node_start[after])
                length = np.uint64(node_start[after + 1]) - begin
                for j in range(length):
                    out[n + j] = node_ids[begin + j]
                n += length
                break
            begin = np.uint64(start[edge[node] + level])
            length = np.uint64(start[edge[node] + level + 1]) - begin
            for j in range(length):
                out[n + j] = ids[begin + j]
            n += length
        event += 1
        offsets[event - first] = n
    return event
