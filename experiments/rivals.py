"""The structures that the papers compare with, behind the same interface.

* `RTree`: an R-tree in flat arrays. Its leaves are packed (sort-tile-recursive), or are those of an
  R*-tree that libspatialindex built by insertion; the levels above are packed. A kernel like
  Tocsin's searches it, so that the overhead of a library does not affect the comparison. Its
  variant with compressed boxes is in `experiments.cr_tree`.
* `ShapelyTree`: the packed R-tree of GEOS, queried with many points at once: the fastest R-tree
  library for Python.
* `DirectList`: all ids of each value (Dlist).
* `NestedList`: the interval index of a library, queried with many points at once.

`interval_skip_list` and `bit_vectors` have further ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64s, Int32Out, Int32s, Int64Out, Int64s, freeze, kernel

# Entries of a node. Of 5, 8, 16 and 32, the middle ones are the fastest here, for R*-trees, packed
# R-trees and CR-trees alike. The thesis found 5 to be (3.2.3).
FAN_OUT = 16

# ------------------------------------------------------------ R-trees


class Tree(NamedTuple):
    """n boxes, followed by the nodes above them, level by level, with the root last."""

    bounds: Float64s  # [4 m] low x, high x, low y, high y
    first: Int64s  # [m] the children of a node
    stop: Int64s  # [m]
    ids: Int32s  # [n]


class RTree:
    """An R-tree in flat arrays."""

    def __init__(
        self,
        groups: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        points: np.ndarray,
        fan_out: int = FAN_OUT,
    ):
        """`groups` are the leaves of the boxes; the nodes above have `fan_out` entries."""
        self.size, self.events = low.shape[1], points.shape[1]
        self.x, self.y = (np.ascontiguousarray(p, np.float64) for p in points)
        order = np.argsort(groups, kind="stable")
        bounds = np.stack([low[0], high[0], low[1], high[1]], axis=1).astype(np.float64)[order]
        level, starts = bounds, np.flatnonzero(np.diff(groups[order], prepend=-1))
        levels, done = [bounds], 0
        firsts, stops = [np.zeros(self.size, np.int64)], [np.zeros(self.size, np.int64)]
        while True:
            stop = np.append(starts[1:], len(level))
            nodes = np.empty((len(starts), 4))
            nodes[:, 0::2] = np.minimum.reduceat(level[:, 0::2], starts)
            nodes[:, 1::2] = np.maximum.reduceat(level[:, 1::2], starts)
            order_above = tiles(nodes[:, 0::2].T, nodes[:, 1::2].T, fan_out)
            above = np.argsort(order_above, kind="stable")
            levels.append(nodes[above])
            firsts.append(starts[above] + done)
            stops.append(stop[above] + done)
            done += len(level)
            if len(nodes) == 1:
                break
            level = nodes[above]
            starts = np.flatnonzero(np.diff(order_above[above], prepend=-1))
        self.tree = Tree(
            freeze(np.concatenate(levels).reshape(-1), np.float64),
            freeze(np.concatenate(firsts), np.int64),
            freeze(np.concatenate(stops), np.int64),
            freeze(order, np.int32),
        )
        # Boxes have unused ranges of children, for simplicity; they are not counted.
        self.nbytes = self.tree.bounds.nbytes + self.tree.ids.nbytes
        self.nbytes += 16 * (len(self.tree.first) - self.size)

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        return descend(self.tree, self.x, self.y, first, stop, offsets, out)


def tiles(low: np.ndarray, high: np.ndarray, fan_out: int = FAN_OUT) -> np.ndarray:
    """Return the node that each box is packed into, by sort-tile-recursive."""
    n = low.shape[1]
    nodes = -(-n // fan_out)
    slices = int(np.ceil(np.sqrt(nodes)))
    x, y = (low + high) / 2
    in_slice = np.empty(n, np.int64)
    in_slice[np.argsort(x, kind="stable")] = np.arange(n) // (slices * fan_out)
    order = np.lexsort((y, in_slice))
    number = np.empty(n, np.int64)
    # All slices but the last have a whole number of nodes.
    number[order] = np.arange(n) // fan_out
    return number


def build_packed_tree(
    low: np.ndarray, high: np.ndarray, points: np.ndarray, fan_out: int = FAN_OUT
) -> RTree:
    """Return a packed R-tree."""
    return RTree(tiles(low, high, fan_out), low, high, points, fan_out)


def build_rstar_tree(
    low: np.ndarray, high: np.ndarray, points: np.ndarray, fan_out: int = FAN_OUT
) -> RTree:
    """Return a tree with the leaves of an R*-tree built by insertion (libspatialindex)."""
    from rtree import index

    settings = index.Property()
    settings.variant = index.RT_Star
    settings.leaf_capacity = settings.index_capacity = fan_out
    settings.near_minimum_overlap_factor = fan_out // 2
    tree = index.Index(properties=settings)
    rows = np.concatenate([low, high]).T.tolist()
    for number, box in enumerate(rows):
        tree.insert(number, box)
    groups = np.empty(low.shape[1], np.int64)
    for number, (_, members, _) in enumerate(tree.leaves()):
        groups[members] = number
    return RTree(groups, low, high, points, fan_out)


@kernel
def descend(
    g: Tree,
    xs: Float64s,
    ys: Float64s,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write the boxes that contain each point, while there is room for all boxes.

    Indexes are unsigned, so that Numba does not look for negative ones.
    """
    bounds, firsts, stops, ids = g.bounds, g.first, g.stop, g.ids
    room = out.shape[0] - ids.shape[0]
    size = np.uint64(ids.shape[0])
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    stack = np.empty(1 << 16, np.uint64)
    n = np.uint64(offsets[0])
    event = first
    while event < stop and np.int64(n) <= room:
        x, y = xs[event], ys[event]
        stack[0] = firsts.shape[0] - 1
        depth = one
        while depth > np.uint64(0):
            depth -= one
            node = stack[depth]
            begin, end = np.uint64(firsts[node]), np.uint64(stops[node])
            if begin < size:
                for i in range(begin, end):
                    b = four * i
                    hit = (bounds[b] <= x) & (x <= bounds[b + one])
                    hit &= (bounds[b + two] <= y) & (y <= bounds[b + three])
                    out[n] = ids[i]
                    n += np.uint64(hit)
            else:
                for i in range(begin, end):
                    b = four * i
                    hit = (bounds[b] <= x) & (x <= bounds[b + one])
                    hit &= (bounds[b + two] <= y) & (y <= bounds[b + three])
                    stack[depth] = i
                    depth += np.uint64(hit)
        event += 1
        offsets[event - first] = n
    return event


class ShapelyTree:
    """The packed R-tree of GEOS; it returns new pairs."""

    nbytes = 0  # unknown

    def __init__(self, low: np.ndarray, high: np.ndarray, points: np.ndarray):
        import shapely

        self.size, self.events = low.shape[1], points.shape[1]
        self.tree = shapely.STRtree(shapely.box(low[0], low[1], high[0], high[1]))
        self.points = shapely.points(points[0], points[1])

    def search_all(self, events: int) -> np.ndarray:
        return self.tree.query(self.points[:events])

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        stop = min(stop, first + max((len(out) - self.size) // self.size, 1))
        events, rules = self.tree.query(self.points[first:stop])
        out[: len(rules)] = rules
        offsets[1 : stop - first + 1] = np.cumsum(np.bincount(events, minlength=stop - first))
        return stop


# ------------------------------------------------------------ intervals


class DirectList:
    """The ids of each of the values 0..R - 1: Dlist."""

    def __init__(self, low: np.ndarray, high: np.ndarray, points: np.ndarray):
        self.size, self.events = len(low), len(points)
        self.values = np.ascontiguousarray(points, np.int64)
        low, high = np.asarray(low, np.int64), np.asarray(high, np.int64)
        values = int(max(high.max(), points.max())) + 1
        begun, ended = (np.bincount(ends, minlength=values) for ends in (low, high))
        lengths = np.cumsum(begun) - np.cumsum(ended) + ended
        self.start = np.concatenate([[0], np.cumsum(lengths)])
        self.ids = np.empty(self.start[-1], np.int32)
        list_directly(low, high, self.start[:-1].copy(), self.ids)
        self.nbytes = self.start.nbytes + self.ids.nbytes

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        return copy_direct(self.start, self.ids, self.values, self.size, first, stop, offsets, out)


@kernel
def list_directly(low: Int64s, high: Int64s, cursor: Int64Out, ids: Int32Out) -> None:
    """Put each interval into the lists of all its values."""
    for i in range(low.shape[0]):
        for value in range(low[i], high[i] + 1):
            ids[cursor[value]] = i
            cursor[value] += 1


@kernel
def copy_direct(
    start: Int64s,
    ids: Int32s,
    values: Int64s,
    size: int,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write the list of each value."""
    room = out.shape[0] - size
    n = np.uint64(offsets[0])
    event = first
    while event < stop and np.int64(n) <= room:
        begin = np.uint64(start[values[event]])
        length = np.uint64(start[values[event] + 1]) - begin
        for j in range(length):
            out[n + j] = ids[begin + j]
        n += length
        event += 1
        offsets[event - first] = n
    return event


class NestedList:
    """The nested containment list of the library ncls; it returns new pairs."""

    nbytes = 0  # unknown

    def __init__(self, low: np.ndarray, high: np.ndarray, points: np.ndarray):
        from ncls import NCLS

        self.size, self.events = len(low), len(points)
        self.points = np.ascontiguousarray(points, np.int64)
        ends = np.asarray(high, np.int64) + 1  # its intervals are half-open
        self.list = NCLS(np.ascontiguousarray(low, np.int64), ends, np.arange(len(low)))

    def search_all(self, events: int) -> tuple[np.ndarray, np.ndarray]:
        points = self.points[:events]
        return self.list.all_overlaps_both(points, points + 1, np.arange(events))

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        stop = min(stop, first + max((len(out) - self.size) // self.size, 1))
        points = self.points[first:stop]
        numbers = np.arange(stop - first)
        events, rules = self.list.all_overlaps_both(points, points + 1, numbers)
        out[: len(rules)] = rules
        offsets[1 : stop - first + 1] = np.cumsum(np.bincount(events, minlength=stop - first))
        return stop
