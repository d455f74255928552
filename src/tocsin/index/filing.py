"""Filing boxes into cells, tier by tier: what the builds of `grid` and `ntree` have in common.

The one says where the roots lie and which cells get a node below by `roots` and `split`, and so
does the other; all else is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from tocsin.errors import RuleError
from tocsin.index.cells import (
    BITS,
    CODES,
    Boxes,
    Cells,
    Nodes,
    count_entries,
    crowds,
    encode,
    fill_lists,
    propose,
    tally,
)
from tocsin.index.laid import Laid
from tocsin.index.plane import boxes_over, keys_of, values
from tocsin.jit import frozen, laid
from tocsin.model.conjunctions import Conjunctions, joined
from tocsin.model.keys import Keys, key_column

_FAR = 2.0**62
_FEW = 256  # cells that an inserted box may cover in a fine grid, where there is a coarser one
_FEW_FULL = 16  # boxes that cover a cell are tested along with the others if they are fewer
_MOST = 2**31 - 1  # entries that offsets of 32 bits can count
_EXACT = 2.0**53  # integers below are exact as floats


class Filed(Laid):
    """An index whose conjunctions are filed in cells."""

    layout_class = Cells

    def proves_all(self) -> bool:
        """Tell whether the boxes are all that the conjunctions say."""
        return bool(self.layout.settled[0])

    def candidates(
        self, keys: Keys, width: int, first: int, stop: int, offsets: np.ndarray, out: np.ndarray
    ) -> int:
        """Propose the full list of an event's cell and what its part list lets through."""
        x, y = [key_column(keys, a) for a in self.layout.attribute.tolist()]
        return propose(self.layout, self.conjunctions, x, y, first, stop, offsets, out)

    def count(self, keys: Keys, width: int, counts: np.ndarray) -> None:
        """Add the number of matches to `counts`; see `Index.count`."""
        x, y = [key_column(keys, a) for a in self.layout.attribute.tolist()]
        tally(self.layout, self.conjunctions, x, y, counts)

    def insert(self, more: Conjunctions) -> None:
        """File further conjunctions into the cells there are (thesis 3.3.6).

        They are numbered on. All lists are moved once, so a batch costs what copying the index
        costs, and each of its conjunctions no more than its entries. Cells are not split anew:
        after many insertions where it was empty, build again.
        """
        before = self.conjunctions.size
        g = self.layout
        boxes = boxes_over(more, g.attribute, g.floats)
        nodes = Nodes(*(getattr(g, name) for name in Nodes._fields))
        heads = g.heads.reshape(-1, 4)[:-1]
        ends = np.append(heads[1:, 0], g.heads[-4])
        below = frozen(heads[:, 3], np.int32)
        box, node = np.arange(boxes.size, dtype=np.int32), _roots_for(g, boxes)
        ids, words = [], []
        all_full, all_part = np.zeros(len(heads), np.int64), np.zeros(len(heads), np.int64)
        while len(box):
            codes = np.empty(4 * len(box), np.int64)
            encode(nodes, boxes, box, node, codes)
            full, part = np.zeros(len(heads), np.int32), np.zeros(len(heads), np.int32)
            count_entries(nodes, node, codes, full, part)
            moved = int(part[below >= 0].sum())
            part = np.where(below >= 0, 0, part)
            sizes = full.astype(np.int64) + part
            starts, word_starts = np.cumsum(sizes) - sizes, np.cumsum(part) - part
            found, made = np.empty(int(sizes.sum()), np.int32), np.empty(int(part.sum()), np.uint64)
            next_box, next_node = np.empty(moved, np.int32), np.empty(moved, np.int32)
            fill_lists(
                nodes, boxes, box, node, codes, below,
                starts.copy(), starts + full, word_starts.astype(np.int64), found, made,
                next_box, next_node,
            )  # fmt: skip
            # Where an entry goes: the end of its cell's full list, or of its part list.
            woven = np.stack([full, part], axis=1).reshape(-1)
            ids.append((np.repeat(np.stack([heads[:, 1], ends], axis=1).reshape(-1), woven), found))
            word_ends = heads[:, 2] + (ends - heads[:, 1])
            words.append((np.repeat(word_ends, part), made))
            all_full += full
            all_part += part
            box, node = next_box, next_node
        both = all_full + all_part
        made_heads = heads.astype(np.int64)
        made_heads[:, 0] += np.cumsum(both) - both
        made_heads[:, 1] += np.cumsum(both) - all_part
        made_heads[:, 2] += np.cumsum(all_part) - all_part
        all_ids = _inserted(g.ids, [(at, np.where(v < 0, v - before, v + before)) for at, v in ids])
        all_words = _inserted(g.words, words)
        self._changed(joined([self.conjunctions, more]), made_heads, all_ids, all_words)

    def remove(self, numbers: np.ndarray) -> None:
        """Take conjunctions out of all lists; their numbers stay theirs."""
        g = self.layout
        stays = self.staying(g.ids, numbers)
        heads = g.heads.reshape(-1, 4)[:-1].astype(np.int64)
        ends = np.append(heads[1:, 0], g.heads[-4])
        left = np.concatenate([[0], np.cumsum(stays)])
        lengths = np.stack([heads[:, 1] - heads[:, 0], ends - heads[:, 1]], axis=1).reshape(-1)
        worded = np.repeat(np.tile([False, True], len(heads)), lengths)
        heads[:, 0], heads[:, 1] = left[heads[:, 0]], left[heads[:, 1]]
        sizes = left[ends] - heads[:, 1]
        heads[:, 2] = np.cumsum(sizes) - sizes
        self._changed(self.conjunctions, heads, g.ids[stays], g.words[stays[worded]])

    def _changed(
        self, conjunctions: Conjunctions, heads: np.ndarray, ids: np.ndarray, words: np.ndarray
    ) -> None:
        ends = np.array([len(ids), len(ids), len(words), -1])
        heads = np.concatenate([heads.reshape(-1), ends])
        settled = np.array([bool((ids >= 0).all())])
        self.become(conjunctions, {"settled": settled, "heads": heads, "ids": ids, "words": words})


def _roots_for(g: Cells, boxes: Boxes) -> np.ndarray:
    """Return for each box the first root, the finest first, in which it covers few cells."""
    node = np.full(boxes.size, int(g.roots[0]) - 1, np.int32)
    for root in range(int(g.roots[0]) - 2, -1, -1):
        covered = np.ones(boxes.size)
        for axis in (0, 1):
            low, high = (
                values(keys[axis * boxes.size : (axis + 1) * boxes.size], bool(boxes.floats[axis]))
                for keys in (boxes.low, boxes.high)
            )
            at = 2 * root + axis
            end = g.origin[at] + g.across[at] * CODES / max(g.scale[at], 1e-300)
            side = np.clip(high, g.origin[at], end) - np.clip(low, g.origin[at], end)
            covered *= side * g.scale[at] / CODES + 1
        node[covered <= _FEW] = root
    return node


def _inserted(array: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return an array with values put in before the places named; of one place in their order."""
    at = np.concatenate([p[0] for p in parts]) if parts else np.empty(0, np.int64)
    new = np.concatenate([p[1] for p in parts]) if parts else array[:0]
    order = np.argsort(at, kind="stable")
    return np.insert(array, at[order], new[order])


class Filing(ABC):
    """Files boxes into nodes, tier by tier."""

    tiers: ClassVar[int]

    def __init__(self, boxes: Boxes):
        self.boxes = boxes
        self.nodes: list[Nodes] = []
        self.heads: list[np.ndarray] = []
        self.ids: list[np.ndarray] = []
        self.words: list[np.ndarray] = []
        self.node_count = self.cell_count = self.id_count = self.word_count = 0

    @abstractmethod
    def roots(self) -> tuple[Nodes, np.ndarray, np.ndarray]:
        """Return the roots, the boxes, and which root each goes to."""

    @abstractmethod
    def split(
        self,
        nodes: Nodes,
        box: np.ndarray,
        node: np.ndarray,
        codes: np.ndarray,
        full: np.ndarray,
        part: np.ndarray,
    ) -> tuple[Any, Any]:
        """Return per cell the number of the node below or -1, and what these nodes are.

        The latter are their domains' begins and ends and the cells across, [n, 2] each. Both
        are None if no cell is split.
        """

    def crowded(
        self,
        nodes: Nodes,
        box: np.ndarray,
        node: np.ndarray,
        codes: np.ndarray,
        cells: np.ndarray,
        total: int,
        size: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return of these cells, of `total`, the bounds' begins and ends, the boxes' mean sides in
        shares of that, [n, 2] each, and the mean product of the two; `size` is boxes of each.
        """
        number = np.full(total, -1, np.int32)
        number[cells] = np.arange(len(cells))
        begin: np.ndarray = np.full(2 * len(cells), np.inf)
        end: np.ndarray = np.full(2 * len(cells), -np.inf)
        none = np.empty(0)
        crowds(nodes, self.boxes, box, node, codes, number, begin, end, none, none)
        begin[~np.isfinite(begin)] = 0.0
        end = np.maximum(end, begin)
        widths, areas = np.zeros(2 * len(cells)), np.zeros(len(cells))
        crowds(nodes, self.boxes, box, node, codes, number, begin, end, widths, areas)
        begin, end = begin.reshape(-1, 2), end.reshape(-1, 2)
        extent = end - begin
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            side = np.where(extent > 0, widths.reshape(-1, 2) / size[:, None] / extent, 1.0)
            both = areas / size / extent.prod(axis=1)
        both = np.where(np.isfinite(both), both, side.min(axis=1))
        return begin, end, side, both

    def cells(self, axes: np.ndarray) -> Cells:
        """Return the finished layout."""
        nodes, box, node = self.roots()
        roots = len(nodes.base)
        for tier in range(self.tiers):
            nodes, box, node = self.file(nodes, box, node, tier + 1 < self.tiers)
            if not len(box):
                break
        ends = np.array([self.id_count, self.id_count, self.word_count, -1])
        whole = bool(self.boxes.settled.all())
        fields = (np.concatenate([getattr(n, f) for n in self.nodes]) for f in Nodes._fields)
        return laid(
            Cells,
            [
                axes, self.boxes.floats, np.array([whole]), np.array([roots]), *fields,
                np.concatenate([*self.heads, ends]), np.concatenate(self.ids),
                np.concatenate(self.words),
            ]
        )  # fmt: skip

    def made_nodes(self, begin: np.ndarray, end: np.ndarray, across: np.ndarray) -> Nodes:
        """Return nodes over domains, [n, 2] each, with about so many cells across."""
        axes = [
            _axis(bool(self.boxes.floats[axis]), begin[:, axis], end[:, axis], across[:, axis])
            for axis in (0, 1)
        ]
        woven = [np.stack(pair, axis=1).reshape(-1) for pair in zip(*axes, strict=True)]
        cells = woven[4].reshape(-1, 2).prod(axis=1)
        base = self.cell_count + np.cumsum(cells) - cells
        types = (np.int64, np.int64, np.float64, np.float64, np.int64, np.int64, np.int64)
        return Nodes(*(frozen(a, t) for a, t in zip([*woven, base], types, strict=True)))

    def file(
        self, nodes: Nodes, box: np.ndarray, node: np.ndarray, may_split: bool
    ) -> tuple[Nodes, np.ndarray, np.ndarray]:
        """File boxes under nodes of one tier; return the nodes below and the boxes for them."""
        # Numbers of nodes and cells are global; within this tier they start at 0.
        local = nodes._replace(base=frozen(nodes.base - self.cell_count, np.int64))
        cells = int(nodes.across.reshape(-1, 2).prod(axis=1).sum())
        full, part = np.zeros(cells, np.int32), np.zeros(cells, np.int32)
        codes = np.empty(4 * len(box), np.int64)
        encode(local, self.boxes, box, node, codes)
        count_entries(local, node, codes, full, part)
        below = further = None
        if may_split:
            below, further = self.split(local, box, node, codes, full, part)
        if below is None:
            below = np.full(cells, -1, np.int32)
        moved = np.where(below >= 0, part, 0)
        tested = (full < _FEW_FULL) & (below < 0)  # along with the others
        part += np.where(tested, full, 0)
        full[tested] = 0
        stay = part - moved
        sizes = full.astype(np.int64) + stay
        starts = np.cumsum(sizes) - sizes
        word_starts = np.cumsum(stay, dtype=np.int64) - stay
        total, word_total = int(sizes.sum()), int(stay.sum())
        if self.id_count + total > _MOST:
            raise RuleError(
                f"lists of more than {_MOST:,} entries; the rules are too many, or overlap too "
                "much, for one index: split them over several Rules"
            )
        ids, words = np.empty(total, np.int32), np.empty(word_total, np.uint64)
        next_box, next_node = (
            np.empty(int(moved.sum()), np.int32),
            np.empty(int(moved.sum()), np.int32),
        )
        cursors = np.where(tested, -1, starts), starts + full, word_starts.copy()
        fill_lists(
            local, self.boxes, box, node, codes, below, *cursors, ids, words, next_box, next_node
        )
        first_below = self.node_count + len(nodes.base)
        heads = np.empty((cells, 4), np.int32)
        heads[:, 0] = starts + self.id_count
        heads[:, 1] = starts + full + self.id_count
        heads[:, 2] = word_starts + self.word_count
        heads[:, 3] = np.where(below >= 0, below + first_below, -1)
        self.nodes.append(nodes)
        self.heads.append(heads.reshape(-1))
        self.ids.append(ids)
        self.words.append(words)
        self.node_count = first_below
        self.cell_count += cells
        self.id_count += total
        self.word_count += word_total
        if further is None:
            return nodes, next_box, next_node
        return self.made_nodes(*further), next_box, next_node


def _axis(
    is_float: bool, begin: np.ndarray, end: np.ndarray, across: np.ndarray
) -> tuple[Any, ...]:
    """Return first, last, origin, scale, across and gap of one axis of several nodes."""
    if not is_float:
        # Within what `keys_of` can say, so that keys and origin agree.
        begin, end = np.clip(np.floor(begin), -_FAR, _FAR), np.clip(np.ceil(end), -_FAR, _FAR)
    first, last = keys_of(begin, is_float), keys_of(end, is_float)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scale = across * float(CODES) / (end - begin)
    scale[~np.isfinite(scale)] = 0.0
    gap = np.zeros(len(begin), np.int64)
    if not is_float:
        # Whole numbers: a power of two of them to a cell, each with codes of its own, bounds
        # in between; as long as they are exact and a cell has codes enough.
        bits = np.ceil(np.log2(np.maximum((end - begin + 1) / across, 1))).astype(np.int64)
        exact = (bits <= BITS - 2) & (np.abs(begin) < _EXACT) & (np.abs(end) < _EXACT)
        bits = np.where(exact, bits, 0)
        gap = np.where(exact, CODES >> bits, 0)
        scale = np.where(exact, gap, scale)
        whole = np.where(exact, end - begin, 0).astype(np.int64)
        across = np.where(exact, (whole >> bits) + 1, across)
    return first, last, begin, scale, across, gap
