"""RSJ, the R-tree join that chapter 4 of the thesis compares with: two trees, traversed together.

Both trees are packed (sort-tile-recursive). A pair of nodes is visited if their boxes are close
enough; then all pairs of their children are compared. If *restricted*, only those children are
paired that are close to the other node (restricting the search space; Brinkhoff, Kriegel, Seeger:
Efficient processing of spatial joins using R-trees). Points are the entries of leaves.
The trees are flat arrays, and the traversal is a kernel like those of Tocsin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64s, Int64s, bare_step, freeze, kernel
from tocsin.similarity.closeness import L2, Closeness, gap_of
from tocsin.similarity.output import COUNTING, OWN, WRITTEN, Output

FANOUT = 8  # entries; of 8, 16 and 32 the fastest for 100,000 points of four dimensions
_STACK = 1 << 14  # pairs of nodes; at most 64 for each of the levels of both trees


class PointTree(NamedTuple):
    """Points in the order of leaves, and nodes: leaves first, then level by level, root last."""

    point: Float64s  # [n d]
    number: Int64s  # [n] rows of the points
    low: Float64s  # [nodes d]
    high: Float64s  # [nodes d]
    first: Int64s  # [nodes] children: points of a leaf, nodes of others
    stop: Int64s  # [nodes]
    leaves: Int64s  # [1] their number


def tile(points: np.ndarray, capacity: int) -> np.ndarray:
    """Return points in the order of sort-tile-recursive; each `capacity` of them are a node."""
    order = np.arange(len(points))
    parts = [(0, len(points))]
    d = points.shape[1]
    for k in range(d):
        smaller = []
        for start, stop in parts:
            own = order[start:stop]
            order[start:stop] = own[np.argsort(points[own, k], kind="stable")]
            nodes = -(-(stop - start) // capacity)
            slabs = int(np.ceil(nodes ** (1 / (d - k)) - 1e-9))
            # All slabs but the last have a whole number of nodes.
            width = -(-nodes // slabs) * capacity
            smaller += [(s, min(s + width, stop)) for s in range(start, stop, width)]
        parts = smaller
    return order


def build_tree(points: np.ndarray) -> PointTree:
    """Return a packed R-tree of points."""
    order = tile(points, FANOUT)
    rows = points[order]
    lows, highs, firsts, stops = [], [], [], []
    low = high = rows
    done = -1  # nodes before those of the level below; -1: these are points
    while True:
        starts = np.arange(0, len(low), FANOUT)
        ends = np.minimum(starts + FANOUT, len(low))
        boxes = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
        # The order of this level is that of tiles of its own, except for the root.
        above = tile(boxes[0] / 2 + boxes[1] / 2, FANOUT)
        low, high = boxes[0][above], boxes[1][above]
        lows.append(low)
        highs.append(high)
        offset = max(done, 0)
        firsts.append(starts[above] + offset)
        stops.append(ends[above] + offset)
        done = 0 if done < 0 else done + len(lows[-2])
        if len(low) == 1:
            break
    return PointTree(
        freeze(rows.reshape(-1), np.float64),
        freeze(order, np.int64),
        freeze(np.concatenate(lows).reshape(-1), np.float64),
        freeze(np.concatenate(highs).reshape(-1), np.float64),
        freeze(np.concatenate(firsts), np.int64),
        freeze(np.concatenate(stops), np.int64),
        freeze([-(-len(points) // FANOUT)], np.int64),
    )


class RTreeJoin:
    """A join of two trees, behind the interface of Tocsin's joins; for L2 only."""

    def __init__(
        self, a: PointTree, b: PointTree, closeness: Closeness, same: bool, restricted: bool
    ):
        assert closeness.metric == L2
        d = len(a.point) // len(a.number)
        self._arguments = (a, b, d, closeness.bound, same, restricted)
        self.state: np.ndarray = np.zeros(OWN + 1 + 2 * _STACK, np.int64)
        self.state[OWN] = 1
        self.state[OWN + 1 : OWN + 3] = len(a.first) - 1, len(b.first) - 1

    def fill(self, out: Output) -> bool:
        """Write pairs; return whether these were the last ones."""
        return bool(traverse(*self._arguments, out))


@bare_step
def box_gap(low_a, high_a, first_a, low_b, high_b, first_b, d, bound):
    """Return the gap of two boxes, or a part of it that is not below the bound."""
    gap = 0.0
    for k in range(d):
        difference = max(
            low_a[first_a + k] - high_b[first_b + k], low_b[first_b + k] - high_a[first_a + k], 0.0
        )
        gap += difference * difference
        if gap >= bound:
            break
    return gap


@bare_step
def list_near(entry_low, entry_high, first, stop, low, high, node, d, bound, restricted, out):
    """Write the entries, or those that are close to the other node; return their number."""
    n = 0
    for entry in range(first, stop):
        if (
            not restricted
            or box_gap(entry_low, entry_high, entry * d, low, high, node * d, d, bound) < bound
        ):
            out[n] = entry
            n += 1
    return n


@kernel
def traverse(
    a: PointTree, b: PointTree, d: int, bound: float, same: bool, restricted: bool, out: Output
) -> bool:
    """Write the pairs of close points; the state is a stack of pairs of nodes."""
    left, right, state = out
    n, counting = state[WRITTEN], state[COUNTING] != 0
    stack, size = state[OWN + 1 :], state[OWN]
    near_a, near_b = np.empty(FANOUT, np.int64), np.empty(FANOUT, np.int64)
    while size > 0:
        node_a, node_b = stack[2 * size - 2], stack[2 * size - 1]
        leaf_a, leaf_b = node_a < a.leaves[0], node_b < b.leaves[0]
        if leaf_a and leaf_b:
            if not counting and n + FANOUT * FANOUT > left.shape[0]:
                state[WRITTEN], state[OWN] = n, size
                return False
            size -= 1
            points_a = list_near(
                a.point, a.point, a.first[node_a], a.stop[node_a], b.low, b.high, node_b, d, bound,
                restricted, near_a,
            )  # fmt: skip
            points_b = list_near(
                b.point, b.point, b.first[node_b], b.stop[node_b], a.low, a.high, node_a, d, bound,
                restricted, near_b,
            )  # fmt: skip
            for i in range(points_a):
                x = a.number[near_a[i]]
                for j in range(points_b):
                    y = b.number[near_b[j]]
                    if same and y <= x:
                        continue
                    if gap_of(a.point, near_a[i] * d, b.point, near_b[j] * d, d, L2) < bound:
                        if not counting:
                            left[n], right[n] = x, y
                        n += 1
            continue
        size -= 1
        if leaf_a:
            children_a, near_a[0] = 1, node_a
        else:
            children_a = list_near(
                a.low, a.high, a.first[node_a], a.stop[node_a], b.low, b.high, node_b, d, bound,
                restricted, near_a,
            )  # fmt: skip
        if leaf_b:
            children_b, near_b[0] = 1, node_b
        else:
            children_b = list_near(
                b.low, b.high, b.first[node_b], b.stop[node_b], a.low, a.high, node_a, d, bound,
                restricted, near_b,
            )  # fmt: skip
        for i in range(children_a):
            for j in range(children_b):
                at_a, at_b = near_a[i] * d, near_b[j] * d
                if box_gap(a.low, a.high, at_a, b.low, b.high, at_b, d, bound) < bound:
                    stack[2 * size], stack[2 * size + 1] = near_a[i], near_b[j]
                    size += 1
    state[WRITTEN], state[OWN] = n, 0
    return True
