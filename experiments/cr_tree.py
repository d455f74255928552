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

from experiments.rivals import RTree, Tree, build_packed_tree
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
        self, low: np.ndarray, high: np.ndarray, points: np.ndarray, fan_out: int = 5
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

    A point is quantised in the same way as the bounds, so their order is kept.
    """
    floats, numbers, codes, bounds, ids = g.floats, g.numbers, g.codes, g.bounds, g.ids
    room = out.shape[0] - ids.shape[0]
    stack = np.empty(1 << 16, np.int64)
    root = codes.shape[0] // node_bytes - 1
    n = offsets[0]
    event = first
    while event < stop and n <= room:
        x, y = xs[event], ys[event]
        stack[0], depth = root, 1
        while depth > 0:
            depth -= 1
            node = stack[depth] * node_bytes
            f = node // 8
            # Beyond the reference box these are less than 0 or more than 255.
            code_x = np.int64(np.floor((x - floats[f]) * floats[f + 1]))
            code_y = np.int64(np.floor((y - floats[f + 2]) * floats[f + 3]))
            child = np.int64(numbers[node // 4 + 8])
            count = np.int64(numbers[node // 4 + 9])
            c = node + _HEAD
            if count < 0:
                for i in range(child, child - count):
                    hit = (codes[c] <= code_x) & (code_x <= codes[c + 1])
                    if hit & (codes[c + 2] <= code_y) & (code_y <= codes[c + 3]):
                        b = 4 * i
                        exact = (bounds[b] <= x) & (x <= bounds[b + 1])
                        exact &= (bounds[b + 2] <= y) & (y <= bounds[b + 3])
                        out[n] = ids[i]
                        n += np.int64(exact)
                    c += 4
            else:
                for i in range(child, child + count):
                    hit = (codes[c] <= code_x) & (code_x <= codes[c + 1])
                    hit &= (codes[c + 2] <= code_y) & (code_y <= codes[c + 3])
                    stack[depth] = i
                    depth += np.int64(hit)
                    c += 4
        event += 1
        offsets[event - first] = n
    return event
