"""The tree whose nodes have n x n children: a quad-tree for n = 2, the 32-tree for n = 32.

Kalashnikov, thesis 3.2.3. Inner nodes have full lists, so that a box which covers a node is not
repeated in its children; only leaves have part lists, and a leaf is split when its part list
has grown too long. A node here cuts into cells, see `cells`: a cell is a leaf, or has a node
below.

Unlike the paper a leaf is not split if its boxes would all be in every child (they would be
copied, not parted), nor below the twelfth tier, nor once the lists take 160 bytes a box.

Against `grid`: a tree adapts to any skew without being told, and pays for it with a step for
every tier. With n = 32 there are few, and it comes near.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from tocsin.errors import RuleError
from tocsin.index.cells.building import Filed, Filing
from tocsin.index.cells.layout import BITS, Nodes
from tocsin.index.plane import boxes_over, chosen_axes, sides
from tocsin.index.protocol import Summary
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import NARROW

_BYTES_A_BOX = 160
_LEAST_BYTES = 4 << 20
_ENTRY_BYTES = 12
_HEAD_BYTES = 16


class NTree(Filed):
    """Boxes in the leaves, and full lists in the nodes, of a tree over two attributes."""

    name: ClassVar[str] = "ntree"
    version: ClassVar[int] = 1

    summary = Summary(
        holds="boxes over two attributes, in a tree whose nodes have n x n children",
        cost="a cache miss a tier, and a box in the list of its leaf as with `grid`",
        suits="comparison with `grid`",
        slow_when="as `grid`, and each tier costs a step",
    )

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray, n: int = 32) -> Self:
        """Choose axes, and split leaves until they are short; n children across."""
        if n < 2:
            raise RuleError(f"a node must have 2 or more children across; got n={n!r}")
        axes, is_float = chosen_axes(conjunctions, floats)
        boxes = boxes_over(conjunctions, axes, is_float)
        return cls(conjunctions, TreeFiling(boxes, n).cells(axes))


class TreeFiling(Filing):
    """Splits what is crowded into n x n."""

    tiers = 12

    def __init__(self, boxes: Any, n: int):
        super().__init__(boxes)
        self.n = n
        # A node of 32 x 32 has heads to pay for: 16 KiB, so it must part more.
        self.capacity = 8 if n < 8 else 64
        self.bytes_left = max(_LEAST_BYTES, _BYTES_A_BOX * boxes.size)

    def roots(self) -> tuple[Nodes, np.ndarray, np.ndarray]:
        """Return the one root, over the whole domain."""
        size = self.boxes.size
        spans = [sides(self.boxes, axis) for axis in (0, 1)]
        begin, end = (np.array([[span[i] for span in spans]]) for i in (0, 1))
        across = np.full((1, 2), self.n)
        # Coarser if most boxes cover most of the domain; the tree is then hardly one.
        while across[0, 0] > 1 and _ENTRY_BYTES * self.copies(spans, across) > self.bytes_left:
            across //= 2
        nodes = self.made_nodes(begin, end, across)
        return nodes, np.arange(size, dtype=np.int32), np.zeros(size, np.int32)

    def copies(self, spans: Any, across: np.ndarray) -> float:
        """Return about how many entries the root's lists will have."""
        return float(((spans[0][2] * across[0, 0] + 1) * (spans[1][2] * across[0, 1] + 1)).sum())

    def split(
        self,
        nodes: Nodes,
        box: np.ndarray,
        node: np.ndarray,
        codes: np.ndarray,
        full: np.ndarray,
        part: np.ndarray,
    ) -> tuple[Any, Any]:
        """Give long leaves a node over their own squares, the longest first while bytes last."""
        self.bytes_left -= _ENTRY_BYTES * int(part.sum()) + _HEAD_BYTES * len(part)
        self.bytes_left -= 4 * int(full.sum())
        cells = np.flatnonzero(part > self.capacity)
        if not len(cells):
            return None, None
        m = part[cells]
        begin, end, side, both = self.crowded(nodes, box, node, codes, cells, len(part), m)
        square = self.squares(nodes, cells, np.stack([begin, end]))
        parted = np.any(side < 0.999, axis=1) & np.any(square[1] - square[0] >= NARROW, axis=1)
        # Shares of the bounds' extent; of the square's they are less.
        shrunk = (end - begin) / np.maximum(square[1] - square[0], NARROW)
        side, both = side * np.minimum(shrunk, 1), both * np.minimum(shrunk, 1).prod(axis=1)
        copies = self.n**2 * both + self.n * side.sum(axis=1) + 1
        needed = _ENTRY_BYTES * m * (copies - 1) + _HEAD_BYTES * self.n**2
        longest = np.argsort(-m, kind="stable")
        spent = np.cumsum(np.where(parted, needed, 0)[longest])
        chosen = np.sort(longest[parted[longest] & (spent <= self.bytes_left)])
        if not len(chosen):
            return None, None
        below = np.full(len(part), -1, np.int32)
        below[cells[chosen]] = np.arange(len(chosen))
        return below, (*square[:, chosen], np.full((len(chosen), 2), self.n))

    def squares(self, nodes: Nodes, cells: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """Return begins and ends of cells, [2, n, 2]; where they have none, at the rim, bounds'."""
        owner = np.searchsorted(nodes.base, cells, side="right") - 1
        down = nodes.across.reshape(-1, 2)[owner]
        inside = cells - nodes.base[owner]
        places = np.stack([inside // down[:, 1], inside % down[:, 1]], axis=1)
        origin, scale = (a.reshape(-1, 2)[owner] for a in (nodes.origin, nodes.scale))
        scale = np.where(scale > 0, scale, 1.0)
        begin = np.where(places > 0, origin + (places << BITS) / scale, bounds[0])
        end = np.where(places + 1 < down, origin + ((places + 1) << BITS) / scale, bounds[1])
        return np.stack([begin, np.maximum(begin, end)])
