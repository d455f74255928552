"""Building cells tier by tier: what `grid` and `ntree` have in common.

Each chooses the roots, and which cells get a child. A tier counts the boxes of each cell, asks
which cells to split, and writes its lists; boxes in the partial list of a cell that is split go to
the next tier.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from tocsin.index.cells.codes import (
    NO_PARENT,
    Domains,
    Placement,
    find_child_ends,
    fit_nodes,
    join_lanes,
    pack_ends,
    place_boxes,
    to_cell,
)
from tocsin.index.cells.layout import END, FULL, HEAD, PARTIAL, WORDS, Cells, Nodes
from tocsin.index.plane import Boxes
from tocsin.index.posting_lists import check_entries
from tocsin.jit import Int32Out, Int32s, Int64Out, UInt64Out, freeze_fields, kernel

# Boxes: a shorter full list joins the partial list. Chosen: a loop of its own, with a branch that
# is mispredicted, takes about as long as so many tests.
JOINED = 16

# Bytes that an index may take however few boxes it has. Chosen: what the cache of a core holds.
MIN_BYTES = 4 << 20


class Tier(NamedTuple):
    """The n nodes of one tier, with c cells, and the boxes in them."""

    nodes: Nodes  # cells are numbered within the tier
    # [n, 4] Whether no event is beyond a node's low x, high x, low y and high y.
    has_ends: np.ndarray
    placement: Placement
    full: np.ndarray  # [c] how many boxes cover a cell
    partial: np.ndarray  # [c] how many cover some of it


class Split(NamedTuple):
    """Which n cells of a tier get a child, and over what."""

    cells: np.ndarray  # [n] ascending
    domains: Domains


class Lists(NamedTuple):
    """The lists of a tier while they are written: entries, and where a cell's next one goes."""

    ids: Int32Out
    words: UInt64Out
    next_full: Int64Out  # [c] -1 if the cell has no full list
    next_partial: Int64Out  # [c]
    next_word: Int64Out  # [c]


class Passed(NamedTuple):
    """Boxes to place in nodes: one row per box and node."""

    box: Int32Out
    node: Int32Out
    word: UInt64Out  # of the box in the cell above the node, or NO_PARENT

    @classmethod
    def allocate(cls, n: int) -> Passed:
        """Return room for n boxes."""
        return cls(np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.uint64))


class CellBuilder(ABC):
    """Builds cells of boxes, tier by tier."""

    tiers: int  # at most
    children_are_cells = False  # whether the domain of a child is that of its cell
    splitting = (0, 0, 0)  # as in `Cells`

    def __init__(self, boxes: Boxes, min_full: int = JOINED):
        self.boxes = boxes
        self.min_full = min_full  # boxes of a full list; shorter ones join the partial list
        self.nodes: list[Nodes] = []
        self.heads: list[np.ndarray] = []
        self.ids: list[np.ndarray] = []
        self.words: list[np.ndarray] = []
        self.node_count = self.cell_count = self.id_count = self.word_count = 0

    @abstractmethod
    def choose_roots(self) -> tuple[Domains, np.ndarray]:
        """Return the domains of the roots, and which root each box goes to."""

    @abstractmethod
    def choose_splits(self, tier: Tier) -> Split | None:
        """Return which cells get a child; None if no cell does."""

    def build(self, axes: np.ndarray) -> Cells:
        """Return the finished layout over the attributes `axes`."""
        domains, node = self.choose_roots()
        roots = len(domains.begin)
        has_ends, words = self.describe_above(roots)
        boxes = Passed(np.arange(self.boxes.size, dtype=np.int32), node, words)
        for tier in range(self.tiers):
            split, boxes = self._add_tier(domains, has_ends, boxes, tier + 1 < self.tiers)
            if split is None:
                break
            domains = split.domains
            nodes = self.nodes[-1]
            has_ends = find_child_ends(nodes, has_ends, split.cells + nodes.first_cell[0])
            has_ends &= self.children_are_cells
        fields = {f: np.concatenate([getattr(n, f) for n in self.nodes]) for f in Nodes._fields}
        return freeze_fields(
            Cells,
            attribute=axes,
            floats=self.boxes.floats,
            proven=[bool(self.boxes.exact.all())],
            roots=[roots],
            splitting=self.splitting,
            **fields,
            heads=np.concatenate(self.heads),
            ids=np.concatenate(self.ids),
            words=np.concatenate(self.words),
        )

    def describe_above(self, roots: int) -> tuple[np.ndarray, np.ndarray]:
        """Return where roots have ends, as in `Tier`, and the words that boxes have above them.

        Nothing is above: events may be anywhere, and all ends of boxes matter.
        """
        return np.zeros((roots, 4), bool), np.full(self.boxes.size, NO_PARENT)

    def _add_tier(
        self, domains: Domains, has_ends: np.ndarray, boxes: Passed, may_split: bool
    ) -> tuple[Split | None, Passed]:
        """Add nodes with boxes; return what is split, and which boxes go to which child."""
        nodes = fit_nodes(self.boxes.floats, domains)
        placement = place_boxes(nodes, self.boxes, *boxes)
        cells = int(nodes.across.reshape(-1, 2).prod(axis=1).sum())
        full, partial = np.zeros(cells, np.int32), np.zeros(cells, np.int32)
        count_entries(nodes, placement, full, partial)
        tier = Tier(nodes, has_ends, placement, full, partial)
        split = self.choose_splits(tier) if may_split else None
        child = np.full(cells, -1, np.int32)
        if split is not None:
            child[split.cells] = np.arange(len(split.cells))
        has_child = child >= 0
        passed = int(partial[has_child].sum())
        joined = (full < self.min_full) & ~has_child  # the full list joins the partial one
        partial = np.where(has_child, 0, np.where(joined, partial + full, partial))
        full = np.where(joined, 0, full)

        sizes = full.astype(np.int64) + partial
        begin = np.cumsum(sizes) - sizes
        first_word = np.cumsum(partial, dtype=np.int64) - partial
        total, word_total = int(sizes.sum()), int(partial.sum())
        check_entries(self.id_count + total)
        lists = Lists(
            ids=np.empty(total, np.int32),
            words=np.empty(word_total, np.uint64),
            next_full=np.where(joined, -1, begin),
            next_partial=begin + full,
            next_word=first_word.copy(),
        )
        below = Passed.allocate(passed)
        fill_lists(nodes, self.boxes, placement, child, lists, below)

        first_child = self.node_count + len(nodes.first_cell)
        heads = np.empty((cells, HEAD), np.int32)
        heads[:, FULL] = begin + self.id_count
        heads[:, PARTIAL] = begin + full + self.id_count
        heads[:, WORDS] = first_word + self.word_count
        heads[:, END] = np.where(has_child, ~(child + first_child), begin + sizes + self.id_count)
        self.nodes.append(nodes._replace(first_cell=nodes.first_cell + self.cell_count))
        self.heads.append(heads.reshape(-1))
        self.ids.append(lists.ids)
        self.words.append(lists.words)
        self.node_count = first_child
        self.cell_count += cells
        self.id_count += total
        self.word_count += word_total
        return split, below


@kernel
def count_entries(nodes: Nodes, placement: Placement, full: Int32Out, partial: Int32Out) -> None:
    """Add to each cell's counts the boxes of its full and of its partial list."""
    gap, across, first_cell = nodes.gap, nodes.across, nodes.first_cell
    node, codes = placement.node, placement.codes
    for i in range(node.shape[0]):
        a = 2 * np.int64(node[i])
        gap_x, gap_y, across_x, across_y = gap[a], gap[a + 1], across[a], across[a + 1]
        low_x, high_x, low_y, high_y = codes[4 * i : 4 * i + 4]
        for x in range(to_cell(low_x, across_x), to_cell(high_x, across_x) + 1):
            lanes_x = pack_ends(low_x, high_x, x, gap_x, across_x)
            row = first_cell[node[i]] + x * across_y
            for y in range(to_cell(low_y, across_y), to_cell(high_y, across_y) + 1):
                if lanes_x | pack_ends(low_y, high_y, y, gap_y, across_y) == 0:
                    full[row + y] += 1
                else:
                    partial[row + y] += 1


@kernel
def fill_lists(
    nodes: Nodes,
    boxes: Boxes,
    placement: Placement,
    child: Int32s,
    lists: Lists,
    below: Passed,
) -> None:
    """Write the lists; boxes for a partial list in whose place there is a child go to `below`.

    Where a cell has no full list, boxes that cover it go to its partial list, with a word that any
    event passes.
    """
    gap, across, first_cell, exact = nodes.gap, nodes.across, nodes.first_cell, boxes.exact
    box, node, codes = placement.box, placement.node, placement.codes
    ids, words, next_word = lists.ids, lists.words, lists.next_word
    next_full, next_partial = lists.next_full, lists.next_partial
    next_box, next_node, next_word_above = below.box, below.node, below.word
    passed = 0
    for i in range(box.shape[0]):
        a = 2 * np.int64(node[i])
        gap_x, gap_y, across_x, across_y = gap[a], gap[a + 1], across[a], across[a + 1]
        low_x, high_x, low_y, high_y = codes[4 * i : 4 * i + 4]
        id_ = box[i] if exact[box[i]] != 0 else ~box[i]
        for x in range(to_cell(low_x, across_x), to_cell(high_x, across_x) + 1):
            lanes_x = pack_ends(low_x, high_x, x, gap_x, across_x)
            row = first_cell[node[i]] + x * across_y
            for y in range(to_cell(low_y, across_y), to_cell(high_y, across_y) + 1):
                word = join_lanes(lanes_x, pack_ends(low_y, high_y, y, gap_y, across_y))
                cell = row + y
                if word == 0 and next_full[cell] >= 0:
                    ids[next_full[cell]] = id_
                    next_full[cell] += 1
                elif word != 0 and child[cell] >= 0:
                    next_box[passed] = box[i]
                    next_node[passed] = child[cell]
                    next_word_above[passed] = word
                    passed += 1
                else:
                    ids[next_partial[cell]] = id_
                    next_partial[cell] += 1
                    words[next_word[cell]] = word
                    next_word[cell] += 1
