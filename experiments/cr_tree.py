"""The CR-tree: an R-tree whose nodes fit cache lines, since they have compressed boxes.

Kim, Cha, Kwon, Optimizing multidimensional index trees for main memory access (SIGMOD 2001), as the
thesis has it (3.2.3): the main idea, and none of the other optimisations. A node has one reference
box, which bounds its entries, and for each entry a *quantised relative minimum bounding rectangle*
(QRMBR): where its bounds lie in the reference box, in 256 steps on each axis. A box takes 4 bytes
instead of 32. It is never smaller than what it stands for, so a point that is outside of it is
outside of the entry. A point that is inside may be outside of the query, whose own bounds decide.

The nodes are those of the packed R-tree. Each begins on a cache line, and its children are next to
each other, so one number leads to all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.rivals import FAN_OUT, RTree, Tree, build_packed_tree
from tocsin.jit import Float64s, Int32Out, Int32s, Int64Out, UInt8s, freeze, kernel

_LINE = 64  # bytes
_HEAD = 40  # bytes of a node before its entries: 4 numbers of 8 bytes, 2 of 4
_STEPS = 256


class Nodes(NamedTuple):
    """n nodes of the same size, and the exact boxes of the queries, in the order of leaves.

    The first three are the same memory. A node is: origin x, scale x, origin y, scale y (floats);
    the first of its children and the number of its entries (32-bit numbers); then four bytes for
    each entry: low x, high x, low y, high y. Children are nodes, or the queries if the number of
    entries is negative.
    """

    floats: Float64s
    numbers: Int32s
    codes: UInt8s
    bounds: Float64s  # [4 m] low x, high x, low y, high y
    ids: Int32s  # [m]


class CRTree:
    """A packed R-tree with quantised boxes."""

    def __init__(
        self, low: np.ndarray, high: np.ndarray, points: np.ndarray, fan_out: int = FAN_OUT
    ) -> None:
        packed = build_packed_tree(low, high, points, fan_out)
        self.size, self.events, self.x, self.y = packed.size, packed.events, packed.x, packed.y
        self.node_bytes = -(-(_HEAD + 4 * fan_out) // _LINE) * _LINE
        self.nodes = quantise(packed, self.node_bytes, fan_out)
        self.nbytes = sum(a.nbytes for a in (self.nodes.codes, self.nodes.bounds, self.nodes.ids))

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        return descend(self.nodes, self.node_bytes, self.x, self.y, first, stop, offsets, out)


def quantise(packed: RTree, node_bytes: int, fan_out: int) -> Nodes:
    """Return the nodes of an R-tree with boxes relative to their own."""
    tree: Tree = packed.tree
    size = packed.size
    bounds = tree.bounds.reshape(-1, 4)
    own, first, stop = bounds[size:], tree.first[size:], tree.stop[size:]
    n = len(own)
    spare = np.zeros((n + 1) * node_bytes, np.uint8)
    begin = -spare.ctypes.data % _LINE
    memory = spare[begin : begin + n * node_bytes]
    floats = memory.view(np.float64).reshape(n, -1)
    numbers = memory.view(np.int32).reshape(n, -1)
    codes = memory.reshape(n, -1)[:, _HEAD : _HEAD + 4 * fan_out].reshape(n, fan_out, 4)
    side = own[:, 1::2] - own[:, 0::2]
    floats[:, 0:4:2] = own[:, 0::2]
    # The last step is that of the upper end itself: rounding must not lead beyond it.
    floats[:, 1:4:2] = np.divide(_STEPS - 1, side, out=np.zeros_like(side), where=side > 0)
    count = stop - first
    is_leaf = first < size
    numbers[:, 8] = np.where(is_leaf, first, first - size)
    numbers[:, 9] = np.where(is_leaf, -count, count)
    for entry in range(fan_out):
        node = np.flatnonzero(entry < count)
        box = bounds[first[node] + entry]
        for axis in (0, 1):
            origin, scale = floats[node, 2 * axis], floats[node, 2 * axis + 1]
            for end in (2 * axis, 2 * axis + 1):
                codes[node, entry, end] = (box[:, end] - origin) * scale
    memory.setflags(write=False)
    return Nodes(
        floats=memory.view(np.float64),
        numbers=memory.view(np.int32),
        codes=memory,
        bounds=freeze(tree.bounds[: 4 * size], np.float64),
        ids=tree.ids,
    )


@kernel
def descend(
    g: Nodes,
    node_bytes: int,
    xs: Float64s,
    ys: Float64s,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write the boxes that contain each point, while there is room for all boxes.

    A point is quantised in the same way as the bounds, so their order is kept. Indexes are
    unsigned, so that Numba does not look for negative ones, and candidates of a leaf are collected
    before their bounds are read: together 1.5 times as fast.
    """
    floats, numbers, codes, bounds, ids = g.floats, g.numbers, g.codes, g.bounds, g.ids
    room = out.shape[0] - ids.shape[0]
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    stack = np.empty(1 << 16, np.uint32)
    root = codes.shape[0] // node_bytes - 1
    n = np.uint64(offsets[0])
    event = first
    while event < stop and np.int64(n) <= room:
        x, y = xs[event], ys[event]
        stack[0] = root
        depth = one
        while depth > np.uint64(0):
            depth -= one
            node = np.uint64(stack[depth]) * np.uint64(node_bytes)
            f = node // np.uint64(8)
            # Beyond the reference box these are less than 0 or more than 255, or next to it 0 or
            # 255, which counts as inside: the children are then visited needlessly.
            x_code = np.int64((x - floats[f]) * floats[f + one])
            y_code = np.int64((y - floats[f + two]) * floats[f + three])
            head = node // four + np.uint64(8)
            child = np.uint64(numbers[head])
            count = np.int64(numbers[head + one])
            found = np.uint64(0)
            for i in range(np.uint64(abs(count))):
                c = node + np.uint64(_HEAD) + four * i
                hit = (np.int64(codes[c]) <= x_code) & (x_code <= np.int64(codes[c + one]))
                hit &= np.int64(codes[c + two]) <= y_code
                hit &= y_code <= np.int64(codes[c + three])
                stack[depth + found] = child + i
                found += np.uint64(hit)
            if count > 0:
                depth += found
                continue
            for j in range(found):
                i = np.uint64(stack[depth + j])
                b = four * i
                hit = (bounds[b] <= x) & (x <= bounds[b + one])
                hit &= (bounds[b + two] <= y) & (y <= bounds[b + three])
                out[n] = ids[i]
                n += np.uint64(hit)
        event += 1
        offsets[event - first] = n
    return event
