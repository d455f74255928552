"""The tree whose nodes have n x n children: a quad-tree for n = 2, the 32-tree for n = 32.

Kalashnikov, thesis 3.2.3. Inner nodes have full lists, so that a box which covers a node is not
repeated in its children; only leaves have partial lists, and a leaf is split when its partial list
has grown too long. A node here is one of the package: it cuts its domain into n x n cells, and a
cell is a leaf, or has a child.

Unlike the paper a leaf is not split if its boxes would all be in every child (they would be
copied, not divided), nor below the 32nd tier, nor once lists and heads take 160 bytes per box
(option `bytes_per_box`; the paper has no such limit, but elongated boxes that overlap can be split
almost without end). The bytes go first to the leaves that save the most tests per byte, if events
are where boxes are. A leaf whose boxes lie in a small part of it reserves their share for the tiers
below, where they are divided. Otherwise the many leaves that are barely too long use up the budget
in the upper tiers, and one that holds half of the boxes, in a corner of hyper-skewed data, is never
split (70 times slower).

Cells at the edge of the root are unbounded, because events may lie outside the domain. So a bounded
box never covers them, and their children span the bounds of the boxes inside.

Short full lists of leaves join their partial lists (see the package).

Insertion splits a leaf as well: when it exceeds its capacity, and if not then, whenever its length
has doubled again. The split must leave an event less than half of the boxes to test, and the tree
may take up to twice the bytes above.

Against `grid`: a tree adapts to any skew by itself, and pays for it with a step for
every tier. With n = 32 there are few, and it comes near.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tocsin.index.cells.building import MIN_BYTES, CellBuilder, Split, Tier
from tocsin.index.cells.changes import ChangingCells
from tocsin.index.cells.codes import (
    NO_PARENT,
    Domains,
    find_child_ends,
    find_rims,
    place_boxes,
)
from tocsin.index.cells.crowding import MAX_TESTED, Squares, estimate_tested, measure_squares
from tocsin.index.cells.index import CellIndex
from tocsin.index.cells.layout import (
    END,
    ENTRY_BYTES,
    HEAD,
    HEAD_BYTES,
    ID_BYTES,
    NODE_BYTES,
    PARTIAL,
    WORDS,
    Cells,
    Nodes,
)
from tocsin.index.cells.published_grid import estimate_entries, whole_domain
from tocsin.index.options import Option, integer
from tocsin.index.plane import Boxes, build_boxes, choose_axes, measure_sides
from tocsin.index.protocol import Summary
from tocsin.jit import freeze_fields
from tocsin.model.conjunctions import Conjunctions, expand_ranges, take
from tocsin.model.validation import require

_GROWTH = 2  # times the bytes that insertion may take, as lists then have room to grow; chosen
_BYTES_PER_BOX = 160  # chosen: what the grid may take for all of its tiers


_OPTIONS: Mapping[str, Option] = {
    "fan_out": integer("children across a node", 32, 2, 1024),
    "leaf_capacity": integer("boxes of a partial list before it is split", None, 1, 2**31 - 1),
    "bytes_per_box": integer("memory budget for lists and cells", _BYTES_PER_BOX, 12, 1_000_000),
}


class NTree(CellIndex):
    """Boxes in the leaves, and full lists in the nodes, of a tree over two attributes."""

    name: ClassVar[str] = "ntree"
    version: ClassVar[int] = 5
    summary = Summary(
        holds="boxes over two attributes, in a tree whose nodes have n x n children",
        cost="a cache miss per tier, and as much per box in its leaf as `grid`",
        suits="comparison with `grid`",
        slow_when="as `grid`, and each tier costs a step",
    )
    options: ClassVar[Mapping[str, Option]] = _OPTIONS

    @classmethod
    def build_layout(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Cells:
        """Choose axes, and split leaves until they are short."""
        axes, is_float = choose_axes(conjunctions, floats)
        boxes = build_boxes(conjunctions, axes, is_float)
        return NTreeBuilder(
            boxes, options["fan_out"], options["leaf_capacity"], options["bytes_per_box"]
        ).build(axes)

    def validate(self, attributes: int) -> None:
        """Raise unless the cells are valid, and the options by which insertion splits leaves."""
        super().validate(attributes)
        stored = zip(("leaf_capacity", "fan_out", "bytes_per_box"), self.layout.splitting.tolist())
        for name, value in stored:
            require(
                _OPTIONS[name].is_allowed(value),
                f"'splitting' must be options of the index, but {name} is {value:,}",
            )

    def split_leaves(self, cells: ChangingCells, long: np.ndarray) -> None:
        """Split leaves that have become too long, all of them at once, if that divides their boxes.

        One takes about a millisecond, and a copy of all heads.
        """
        g, rooms = cells.layout, cells.rooms
        capacity, n, bytes_per_box = g.splitting.tolist()
        heads = rooms.heads.reshape(-1, HEAD)[long]
        partial, word, end = heads[:, PARTIAL], heads[:, WORDS], heads[:, END]
        entry, entry_word = expand_ranges(partial, end), expand_ranges(word, word + end - partial)
        words = rooms.words[entry_word]
        inside = words != 0  # the others cover the cell
        words = words[inside]
        leaf = np.repeat(np.arange(len(long)), end - partial)[inside]
        ids = rooms.ids[entry[inside]]
        numbers = np.where(ids < 0, ~ids, ids)
        boxes = build_boxes(take(self.conjunctions, numbers), g.attribute, g.floats)
        ends = find_ends(g)
        m, squares = measure_leaves(g.nodes, ends, boxes, long, leaf, numbers, words)
        needed, tested = estimate_split(m, squares, n)
        allowed = _GROWTH * max(MIN_BYTES, bytes_per_box * self.conjunctions.size)
        allowed -= g.heads.nbytes + int(rooms.used @ [ID_BYTES, ENTRY_BYTES - ID_BYTES])
        worth = (m > capacity) & squares.divides & (tested < MAX_TESTED)
        worth &= np.cumsum(np.where(worth, needed, 0)) <= allowed
        if not worth.any():
            return
        kept = worth[leaf]
        below = LeafBuilder(
            build_boxes(take(self.conjunctions, numbers[kept]), g.attribute, g.floats),
            Domains(squares.begin[worth], squares.end[worth], np.full((int(worth.sum()), 2), n)),
            find_child_ends(g.nodes, ends, long[worth]),
            (np.cumsum(worth) - 1)[leaf[kept]],
            words[kept],
            capacity,
        )
        cells.graft(long[worth], below.build(g.attribute), numbers[kept])
        self.layout = cells.layout


class NTreeBuilder(CellBuilder):
    """One root, and n x n cells for every long leaf."""

    tiers = 32
    children_are_cells = True

    def __init__(
        self, boxes: Boxes, n: int, capacity: int | None, bytes_per_box: int = _BYTES_PER_BOX
    ):
        super().__init__(boxes)
        self.n = n
        # Boxes in a leaf; chosen. A node of 32 x 32 has 16 KiB of heads, so it must divide more.
        self.capacity = capacity or (8 if n < 8 else 64)
        self.splitting = (self.capacity, n, bytes_per_box)
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
        squares = measure_squares(self.boxes, tier, cells)
        needed, tested = estimate_split(m, squares, n)
        divides = squares.divides
        saved = m * m * np.maximum(1 - tested, 0)  # tests, by as many events as there are boxes
        # Leaves that reserve bytes come first, so that what they reserve does not stop them.
        dense = divides & (squares.extent < 1 / n)
        best = np.lexsort((-saved / needed, ~dense))
        spent = np.cumsum(np.where(divides, needed, 0)[best])
        kept = self.bytes_left * m[dense].sum() / partial.sum()
        allowed = np.where(dense, self.bytes_left, self.bytes_left - kept)
        chosen = np.sort(best[divides[best] & (spent <= allowed[best])])
        if not len(chosen):
            return None
        self.bytes_left += ENTRY_BYTES * int(m[chosen].sum())  # counted again below
        across = np.full((len(chosen), 2), n)
        domains = Domains(squares.begin[chosen], squares.end[chosen], across)
        return Split(cells=cells[chosen], domains=domains)


class LeafBuilder(NTreeBuilder):
    """The trees below leaves that are split when boxes are inserted: each is a root."""

    def __init__(
        self,
        boxes: Boxes,
        leaves: Domains,
        has_ends: np.ndarray,
        leaf: np.ndarray,
        words: np.ndarray,
        capacity: int,
    ):
        super().__init__(boxes, int(leaves.across[0, 0]), capacity)
        self.leaves, self.has_ends, self.leaf = leaves, has_ends, leaf.astype(np.int32)
        self.words_in_leaves = words
        self.bytes_left += HEAD_BYTES * int(leaves.across.prod(axis=1).sum())

    def choose_roots(self) -> tuple[Domains, np.ndarray]:
        """Return the squares of the leaves, and which leaf each box is of."""
        return self.leaves, self.leaf

    def describe_above(self, roots: int) -> tuple[np.ndarray, np.ndarray]:
        """Return where leaves have ends, and the words of boxes in them."""
        return self.has_ends, self.words_in_leaves


def find_ends(g: Cells) -> np.ndarray:
    """Return where all nodes have ends, as in `Tier`: children come after their parents."""
    has_ends = np.zeros((len(g.first_cell), 4), bool)
    end = g.heads.reshape(-1, HEAD)[:, END]
    cells = np.flatnonzero(end < 0)
    child = ~end[cells]
    while len(cells):  # once for each tier
        found = find_child_ends(g.nodes, has_ends, cells)
        changed = (found != has_ends[child]).any(axis=1)
        if not changed.any():
            break
        has_ends[child] = found
    return has_ends


def measure_leaves(
    nodes: Nodes,
    has_ends: np.ndarray,
    boxes: Boxes,
    cells: np.ndarray,
    leaf: np.ndarray,
    numbers: np.ndarray,
    words: np.ndarray,
) -> tuple[np.ndarray, Squares]:
    """Return how many boxes the partial lists of ascending cells have, and how they lie.

    `leaf` is which of the cells each box is in, with its word there, and `numbers` which boxes are
    the same.
    """
    node = np.searchsorted(nodes.first_cell, cells, side="right") - 1
    own, place = np.unique(node, return_inverse=True)
    axes = (2 * own[:, None] + np.arange(2)).reshape(-1)
    fields = {name: getattr(nodes, name)[axes] for name in Nodes._fields if name != "first_cell"}
    sizes = fields["across"].reshape(-1, 2).prod(axis=1)
    first_cell = np.cumsum(sizes) - sizes
    # A box goes into a node once, however many of its cells it is in.
    box_node = place[leaf].astype(np.int64)
    _, once, group = np.unique((box_node << 32) + numbers, return_index=True, return_inverse=True)
    own_nodes = freeze_fields(Nodes, **fields, first_cell=first_cell)
    own_cells = first_cell[place] + cells - nodes.first_cell[node]
    # A box whose end is outside of a leaf at the node's rim has that end outside of the node.
    above = np.full(len(once), NO_PARENT)
    np.bitwise_and.at(above, group, mask_outside(words, find_rims(own_nodes, own_cells)[leaf]))
    placement = place_boxes(
        own_nodes, boxes, once.astype(np.int32), box_node[once].astype(np.int32), above
    )
    partial = np.zeros(int(sizes.sum()), np.int32)
    partial[own_cells] = np.bincount(leaf, minlength=len(cells))
    tier = Tier(own_nodes, has_ends[own], placement, partial * 0, partial)
    return partial[own_cells], measure_squares(boxes, tier, own_cells)


def mask_outside(words: np.ndarray, rims: np.ndarray) -> np.ndarray:
    """Return words whose lanes are 0 where an end is outside of a cell at a rim, and else 1."""
    lanes = (words[:, None] >> (16 * np.arange(4, dtype=np.uint64))) & np.uint64(0xFFFF)
    matter = ~(rims & (lanes == 0))
    return (matter.astype(np.uint64) << (16 * np.arange(4, dtype=np.uint64))).sum(
        axis=1, dtype=np.uint64
    )


def estimate_split(m: np.ndarray, squares: Squares, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what splitting leaves of m boxes takes, in bytes, and which share is then tested."""
    side, area = squares.side, squares.area
    copies = n**2 * area + n * side.sum(axis=1) + 1
    needed = ENTRY_BYTES * m * (copies - 1) + HEAD_BYTES * n**2 + NODE_BYTES
    return needed, estimate_tested(side[:, 0], side[:, 1], area, n, n)
