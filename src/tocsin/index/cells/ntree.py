"""The tree whose nodes have n x n children: a quad-tree for n = 2, the 32-tree for n = 32.

Kalashnikov, thesis 3.2.3. Inner nodes have full lists, so that a box which covers a node is not
repeated in its children; only leaves have partial lists, and a leaf is split when its partial list
has grown too long. A node here is one of the package: it cuts its domain into n x n cells, and a
cell is a leaf, or has a child.

Unlike the paper a leaf is not split if its boxes would all be in every child (they would be
copied, not divided), nor below the 32nd tier, nor once lists and heads take 160 bytes per box
(option `bytes_per_box`; the paper has no such limit, but elongated boxes that overlap have no end
of it). The bytes go first to the leaves that save the most tests per byte, if events are where
boxes are. A leaf whose boxes lie in a small part of it keeps their share for the tiers below, where
they are divided. Otherwise leaves that are hardly too long, of which there are many, use all of it
in the upper tiers, and one that holds half of the boxes, in a corner of hyper-skewed data, is never
split (70 times slower).

Against `grid`: a tree adapts to any skew by itself, and pays for it with a step for
every tier. With n = 32 there are few, and it comes near.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tocsin.index.cells.building import MIN_BYTES, CellBuilder, Split, Tier
from tocsin.index.cells.codes import Domains
from tocsin.index.cells.crowding import measure_squares
from tocsin.index.cells.index import CellIndex
from tocsin.index.cells.layout import ENTRY_BYTES, HEAD_BYTES, ID_BYTES, NODE_BYTES, Cells
from tocsin.index.cells.published_grid import estimate_entries, estimate_tested, whole_domain
from tocsin.index.options import Option, integer
from tocsin.index.plane import Boxes, build_boxes, choose_axes, measure_sides
from tocsin.index.protocol import Summary
from tocsin.model.conjunctions import Conjunctions

_BYTES_PER_BOX = 160  # chosen: what the grid may take for all of its tiers


class NTree(CellIndex):
    """Boxes in the leaves, and full lists in the nodes, of a tree over two attributes."""

    name: ClassVar[str] = "ntree"
    version: ClassVar[int] = 3
    summary = Summary(
        holds="boxes over two attributes, in a tree whose nodes have n x n children",
        cost="a cache miss per tier, and as much per box in its leaf as `grid`",
        suits="comparison with `grid`",
        slow_when="as `grid`, and each tier costs a step",
    )
    options: ClassVar[Mapping[str, Option]] = {
        "fan_out": integer("children across a node", 32, 2, 1024),
        "leaf_capacity": integer("boxes of a partial list before it is split", None, 1, 2**31 - 1),
        "bytes_per_box": integer("bytes of lists and heads", _BYTES_PER_BOX, 12, 1_000_000),
    }

    @classmethod
    def build_layout(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Cells:
        """Choose axes, and split leaves until they are short."""
        axes, is_float = choose_axes(conjunctions, floats)
        boxes = build_boxes(conjunctions, axes, is_float)
        return NTreeBuilder(
            boxes, options["fan_out"], options["leaf_capacity"], options["bytes_per_box"]
        ).build(axes)


class NTreeBuilder(CellBuilder):
    """One root, and n x n cells for every long leaf."""

    tiers = 32

    def __init__(
        self, boxes: Boxes, n: int, capacity: int | None, bytes_per_box: int = _BYTES_PER_BOX
    ):
        super().__init__(boxes)
        self.n = n
        # Boxes in a leaf; chosen. A node of 32 x 32 has 16 KiB of heads, so it must divide more.
        self.capacity = capacity or (8 if n < 8 else 64)
        self.splitting = (self.capacity, n)
        self.bytes_left = max(MIN_BYTES, bytes_per_box * boxes.size)

    def choose_roots(self) -> tuple[Domains, np.ndarray]:
        """Return the one root, over the whole domain."""
        x, y = measure_sides(self.boxes, 0), measure_sides(self.boxes, 1)
        n = self.n
        # Coarser if most boxes cover most of the domain; the tree is then hardly one.
        while n > 1 and ENTRY_BYTES * estimate_entries(x, y, n) > self.bytes_left:
            n //= 2
        return whole_domain(x, y, n), np.zeros(self.boxes.size, np.int32)

    def choose_splits(self, tier: Tier) -> Split | None:
        """Give long leaves a node over their own squares, the most useful first."""
        full, partial = tier.full, tier.partial
        self.bytes_left -= ENTRY_BYTES * int(partial.sum()) + HEAD_BYTES * len(partial)
        self.bytes_left -= NODE_BYTES * len(tier.nodes.first_cell)
        self.bytes_left -= ID_BYTES * int(full.sum())
        cells = np.flatnonzero(partial > self.capacity)
        if not len(cells):
            return None
        n, m = self.n, partial[cells].astype(np.float64)
        begin, end, extent, side, area, divides = measure_squares(self.boxes, tier, cells)
        copies = n**2 * area + n * side.sum(axis=1) + 1
        needed = ENTRY_BYTES * m * (copies - 1) + HEAD_BYTES * n**2 + NODE_BYTES
        tested = estimate_tested(side[:, 0], side[:, 1], area, n, n)
        saved = m * m * np.maximum(1 - tested, 0)  # tests, by as many events as there are boxes
        best = np.argsort(-saved / needed, kind="stable")
        spent = np.cumsum(np.where(divides, needed, 0)[best])
        kept = self.bytes_left * m[divides & (extent < 1 / n)].sum() / partial.sum()
        chosen = np.sort(best[divides[best] & (spent <= self.bytes_left - kept)])
        if not len(chosen):
            return None
        self.bytes_left += ENTRY_BYTES * int(m[chosen].sum())  # counted again below
        across = np.full((len(chosen), 2), n)
        domains = Domains(begin=begin[chosen], end=end[chosen], across=across)
        return Split(cells=cells[chosen], domains=domains)
