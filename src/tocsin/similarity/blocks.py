"""Join over blocks: the method for many dimensions.

The points of `b` are sorted into blocks of 32 by a k-d tree, whose nodes are split at the median of
their widest dimension. Blocks have bounding boxes, 32 consecutive blocks are the children of a
node, which has a bounding box, and so on. All 32 children of a node, and all 32 points of a block,
are compared with a point of `a` at once (`lanes`).

In many dimensions most boxes touch each other: a box is half as wide as the domain in about ten
dimensions, and as wide in the others. Boxes of `a` and `b` prune nothing there; a point and a box
do, since the point is somewhere inside of its own. Nine dimensions, 100,000 uniform points and an
epsilon of 0.3, three pairs per point: a point is compared with 2.7% of the blocks.

In memory: 8 d bytes per point, and 16 d / 31 for the boxes. A point of `a` costs a comparison for
each node whose box is close to it. The points of `a` are in the order of a k-d tree as well, so
that blocks are in the cache when the next point needs them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64Out, Float64s, Int64Out, Int64s, freeze_fields, kernel
from tocsin.similarity.closeness import Closeness
from tocsin.similarity.lanes import FAN, close_boxes, close_in_block, lowest_bit
from tocsin.similarity.output import COUNTING, OWN, WRITTEN, Output

_SAMPLE = 256  # points by which the widest dimension is found; chosen
_LEVELS = 12  # at most: 32^12 points


class Tree(NamedTuple):
    """n points in blocks, and l levels of nodes above them, the lowest first."""

    number: Int64s  # [n] in the order given
    point: Float64s  # [blocks, d, FAN]
    level: Int64s  # [l + 1] the first node of each level
    low: Float64s  # [nodes, d, FAN] the boxes of a node's children
    high: Float64s


class BlockJoin:
    """Looks up each point of `a` in a tree of blocks of `b`."""

    def __init__(self, a: np.ndarray, b: np.ndarray, closeness: Closeness, same: bool):
        self._d, self._closeness, self._same = a.shape[1], closeness, same
        order = sort_into_blocks(b)
        self._tree = build_tree(b, order)
        if not same:
            order = sort_into_blocks(a)
        self._order = order
        self._rows = np.empty(a.size)
        gather_rows(a.reshape(-1), self._d, order, self._rows)
        self.state: np.ndarray = np.zeros(OWN + 2 + 2 * _LEVELS, np.int64)
        self.state[OWN + 1] = -1

    def fill(self, out: Output) -> bool:
        """Write pairs; return whether these were the last ones."""
        return bool(
            join_blocks(
                self._rows, self._order, self._tree, self._d,
                self._closeness.bound, self._closeness.metric, self._same, out,
            )
        )  # fmt: skip


def sort_into_blocks(points: np.ndarray) -> np.ndarray:
    """Return the order in which 32 points at a time are a block."""
    order = np.arange(len(points))
    split_by_median(points.reshape(-1), points.shape[1], order)
    return order


def build_tree(points: np.ndarray, order: np.ndarray) -> Tree:
    """Return the tree of points in their order."""
    n, d = points.shape
    sizes = [-(-n // FAN)]  # blocks, then nodes of each level
    while sizes[-1] > 1 or len(sizes) < 2:
        sizes.append(-(-sizes[-1] // FAN))
    level = np.append(0, np.cumsum(sizes[1:]))
    block = np.full(sizes[0] * d * FAN, np.inf)
    low, high = np.full(level[-1] * d * FAN, np.inf), np.full(level[-1] * d * FAN, np.inf)
    fill_blocks(points.reshape(-1), d, order, block, low, high)
    for upper in range(1, len(sizes) - 1):
        fill_boxes(int(level[upper - 1]), int(level[upper]), sizes[upper], d, low, high)
    return freeze_fields(Tree, number=order, point=block, level=level, low=low, high=high)


@kernel
def split_by_median(points: Float64s, d: int, order: Int64Out) -> None:
    """Sort points so that every 32 of them, and every 32^l, are compact."""
    stack = np.empty(2 * 64 * FAN, np.int64)
    stack[0], stack[1] = 0, order.shape[0]
    top = 1
    while top > 0:
        top -= 1
        start, stop = stack[2 * top], stack[2 * top + 1]
        blocks = (stop - start + FAN - 1) // FAN
        if blocks < 2:
            continue
        # Halves are whole subtrees: a power of 32 blocks, or a multiple of it.
        unit = 1
        while unit * FAN < blocks:
            unit *= FAN
        units = (blocks + unit - 1) // unit
        middle = start + (units + 1) // 2 * unit * FAN
        widest, width = 0, -1.0
        for k in range(d):
            least = greatest = points[order[start] * d + k]
            for i in range(start, stop, max((stop - start) // _SAMPLE, 1)):
                value = points[order[i] * d + k]
                least, greatest = min(least, value), max(greatest, value)
            if 0.5 * greatest - 0.5 * least > width:
                widest, width = k, 0.5 * greatest - 0.5 * least
        # Quickselect: what belongs before the middle is at most what belongs after it.
        low, high = start, stop - 1
        while low < high:
            pivot = points[order[(low + high) // 2] * d + widest]
            i, j = low, high
            while i <= j:
                while points[order[i] * d + widest] < pivot:
                    i += 1
                while points[order[j] * d + widest] > pivot:
                    j -= 1
                if i <= j:
                    order[i], order[j] = order[j], order[i]
                    i += 1
                    j -= 1
            if middle <= j:
                high = j
            elif middle >= i:
                low = i
            else:
                break
        stack[2 * top], stack[2 * top + 1] = start, middle
        stack[2 * top + 2], stack[2 * top + 3] = middle, stop
        top += 2


@kernel
def gather_rows(points: Float64s, d: int, order: Int64s, out: Float64Out) -> None:
    """Write points in an order."""
    for i in range(order.shape[0]):
        for k in range(d):
            out[i * d + k] = points[order[i] * d + k]


@kernel
def fill_blocks(
    points: Float64s, d: int, order: Int64s, block: Float64Out, low: Float64Out, high: Float64Out
) -> None:
    """Write the points of blocks and their boxes, the children of the lowest level."""
    for first in range(0, order.shape[0], FAN):
        number = first // FAN
        for k in range(d):
            at = (number * d + k) * FAN
            least, greatest = np.inf, -np.inf
            for i in range(first, min(first + FAN, order.shape[0])):
                value = points[order[i] * d + k]
                block[at + i - first] = value
                least, greatest = min(least, value), max(greatest, value)
            child = (number // FAN * d + k) * FAN + number % FAN
            low[child], high[child] = least, greatest


@kernel
def fill_boxes(
    lower: int, upper: int, count: int, d: int, low: Float64Out, high: Float64Out
) -> None:
    """Write the boxes of `count` nodes, from number `lower` on, into nodes from `upper` on."""
    for number in range(count):
        for k in range(d):
            at = ((lower + number) * d + k) * FAN
            least, greatest = np.inf, -np.inf
            for i in range(FAN):
                if low[at + i] < np.inf:  # a child
                    least = min(least, low[at + i])
                    greatest = max(greatest, high[at + i])
            child = ((upper + number // FAN) * d + k) * FAN + number % FAN
            low[child], high[child] = least, greatest


@kernel
def join_blocks(
    rows: Float64s,
    order: Int64s,
    tree: Tree,
    d: int,
    bound: float,
    metric: int,
    same: bool,
    out: Output,
) -> bool:
    """Write the pairs of close points. The state has the children that are left on each level."""
    left, right, state = out
    n, counting = state[WRITTEN], state[COUNTING] != 0
    capacity = left.shape[0]
    top = tree.level.shape[0] - 2
    node, children = state[OWN + 2 : OWN + 2 + _LEVELS], state[OWN + 2 + _LEVELS :]
    level = state[OWN + 1]
    for i in range(state[OWN], order.shape[0]):
        if level < 0:
            level, node[top] = top, 0
            at = tree.level[top] * d * FAN
            bits = close_boxes(rows, i * d, tree.low, tree.high, at, d, bound, metric)
            children[top] = np.int64(bits)
        while level <= top:
            bits = np.uint64(children[level])
            if same:  # only points after i: earlier children have none
                earlier = (i >> (5 * (level + 1))) - node[level] * FAN
                if earlier > 0:
                    bits = bits >> np.uint64(earlier) << np.uint64(earlier)
            if bits == 0:
                level += 1
                continue
            if level == 0 and not counting and n + FAN > capacity:
                state[WRITTEN], state[OWN], state[OWN + 1] = n, i, level
                return False
            child = node[level] * FAN + lowest_bit(bits)
            children[level] = np.int64(bits & (bits - np.uint64(1)))
            if level > 0:
                level -= 1
                node[level] = child
                at = (tree.level[level] + child) * d * FAN
                bits = close_boxes(rows, i * d, tree.low, tree.high, at, d, bound, metric)
                children[level] = np.int64(bits)
                continue
            bits = close_in_block(rows, i * d, tree.point, child * d * FAN, d, bound, metric)
            if same and i + 1 > child * FAN:
                earlier = i + 1 - child * FAN
                bits = bits >> np.uint64(earlier) << np.uint64(earlier)
            while bits != 0:
                if not counting:
                    x, y = order[i], tree.number[child * FAN + lowest_bit(bits)]
                    left[n] = min(x, y) if same else x
                    right[n] = max(x, y) if same else y
                n += 1
                bits &= bits - np.uint64(1)
        level = -1
    state[WRITTEN], state[OWN] = n, order.shape[0]
    return True
