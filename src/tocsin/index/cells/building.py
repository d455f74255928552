"""Filing boxes into cells, tier by tier: what the builds of `grid` and `ntree` have in common.

Each says where its roots lie (`roots`) and which cells get a node below (`split`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from tocsin.index.array_index import ArrayIndex
from tocsin.index.cells.layout import (
    BITS,
    CODES,
    EXTENT,
    SIDES,
    SPREAD,
    Cells,
    Nodes,
    cell_of,
    count_entries,
    crowds,
    encode,
    fill_lists,
    lanes,
    most_candidates,
    propose,
    tally,
)
from tocsin.index.plane import EXACT_INTEGERS, Boxes, build_boxes, compute_scale, to_keys, to_values
from tocsin.index.posting_lists import check_entries, delete_entries, find_entries, insert_entries
from tocsin.jit import Int32Out, Int32s, Int64Out, Int64s, UInt64Out, freeze_fields, frozen, kernel
from tocsin.model.conjunctions import Conjunctions, joined
from tocsin.model.keys import FAR_INTEGER, NARROW, EventBatch, key_column
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_offsets,
    check_within,
    require,
)

_FEW = 256  # cells that an inserted box may cover in a fine grid, where there is a coarser one
_FEW_FULL = 16  # boxes that cover a cell are tested along with the others if they are fewer
_NEAR = 4.0  # mean deviations from the mean within which bounds are cut into cells


class Filed(ArrayIndex):
    """An index whose conjunctions are filed in cells."""

    layout_class = Cells
    counts = True
    changes_in_place = True

    def proves_all(self) -> bool:
        """Tell whether the boxes are all that the conjunctions say."""
        return bool(self.layout.settled.all())

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose the full list of an event's cell and what its part list lets through."""
        x, y = [key_column(batch.keys, a) for a in self.layout.attribute.tolist()]
        c, (_, _, first, stop) = self.conjunctions, batch
        return propose(self.layout, c, x, y, first, stop, offsets, out)

    def count(self, batch: EventBatch, counts: np.ndarray) -> None:
        """Add the number of matches to `counts`; see `Index.count`."""
        x, y = [key_column(batch.keys, a) for a in self.layout.attribute.tolist()]
        tally(self.layout, self.conjunctions, x, y, batch.first, counts)

    def validate(self, attributes: int) -> None:
        """Raise unless nodes have cells, and cells have lists, no longer than they may be.

        How keys become codes does not matter: codes are clamped to a node's cells.
        """
        g, n = self.layout, self.conjunctions.size
        nodes, cells = len(g.base), len(g.heads) // 4 - 1
        check_lengths(g, 2, "attribute", "floats")
        check_lengths(g, 1, "settled", "roots")
        check_lengths(g, 2 * nodes, "first", "last", "origin", "scale", "across", "gap")
        check_lengths(g, 4 * (cells + 1), "heads")
        check_within("attribute", g.attribute, -1, attributes)
        check_within("roots", g.roots, 1, nodes + 1)
        check_within("across", g.across, 1, cells + 1)
        across_x, across_y = g.across[0::2], g.across[1::2]
        require(
            bool((across_x <= cells // across_y).all())
            and g.base[0] == 0
            and np.array_equal(np.diff(g.base, append=cells), across_x * across_y),
            f"the nodes must have the {cells:,} cells one after the other",
        )
        heads = g.heads.reshape(-1, 4)
        check_offsets("heads", heads[:, :2].reshape(-1), 2 * cells + 1, len(g.ids))
        check_offsets("heads", heads[:, 2], cells, len(g.words))
        require(
            np.array_equal(np.diff(heads[:, 2]), heads[1:, 0] - heads[:-1, 1]),
            "each entry of a part list must have a word",
        )
        check_numbers("ids", g.ids, n, proven=self.proven)
        most = most_candidates(g)
        require(most >= 0, "a node below a cell must come after the cell's own")
        require(most <= n, f"an event finds {most:,} candidates, and there are {n:,} conjunctions")

    def insert(self, more: Conjunctions) -> None:
        """File further conjunctions into the cells there are (thesis 3.3.6).

        They are numbered on. All lists are moved once, so a batch costs what copying the index
        costs, and each of its conjunctions no more than its entries. Cells are not split anew:
        after many insertions where it was empty, build again.
        """
        g, before = self.layout, self.conjunctions.size
        lists, ids, words = _entries(g, build_boxes(more, g.attribute, g.floats))
        check_entries(len(g.ids) + len(ids))
        ids = np.where(ids < 0, ids - before, ids + before)
        # What a cell gets goes to the end of its full list, or of its part list.
        part = lists % 2 == 1
        changed = {
            "settled": g.settled & bool(ids.min(initial=0) >= 0),
            "heads": _shifted(g.heads, lists, 1),
            "ids": insert_entries(g.ids, g.heads[2 * lists + 1 + part], ids),
            "words": insert_entries(g.words, g.heads[2 * lists[part] + 4], words[part]),
        }
        self.become(joined([self.conjunctions, more]), changed)

    def remove(self, numbers: np.ndarray) -> None:
        """Take conjunctions out of all lists; their numbers stay theirs."""
        g = self.layout
        places = find_entries(g.ids, self.conjunctions.size, numbers)
        begins = g.heads.reshape(-1, 4)[:, :2].reshape(-1)
        lists = np.searchsorted(begins, places, side="right") - 1
        part = lists % 2 == 1
        words = g.heads[2 * lists[part]] + (places - begins[lists])[part]
        ids = delete_entries(g.ids, places)
        changed = {
            "settled": np.array([ids.min(initial=0) >= 0]),
            "heads": _shifted(g.heads, lists, -1),
            "ids": ids,
            "words": delete_entries(g.words, words),
        }
        self.become(self.conjunctions, changed)


def _entries(g: Cells, boxes: Boxes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the entries that boxes would have, by list: the list's number, the id and the word.

    Cell c has the full list 2 c and the part list 2 c + 1.
    """
    nodes = Nodes(*(getattr(g, name) for name in Nodes._fields))
    box, node = np.arange(boxes.size, dtype=np.int32), _roots_for(g, boxes)
    made = [(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.uint64))]
    while len(box):
        codes = np.empty(4 * len(box), np.int64)
        encode(nodes, boxes, box, node, codes)
        across = nodes.across.reshape(-1, 2)[node, :, None]
        spans = np.diff(np.clip(codes.reshape(-1, 2, 2) >> BITS, 0, across - 1))
        room = int((spans + 1).prod(axis=1).sum())
        lists, ids, words = (np.empty(room, a.dtype) for a in made[0])
        next_box, next_node = np.empty(room, np.int32), np.empty(room, np.int32)
        n = spread(nodes, boxes, g.heads, box, node, codes, lists, ids, words, next_box, next_node)
        made.append((lists[:n], ids[:n], words[:n]))
        box, node = next_box[: room - n], next_node[: room - n]
    lists, ids, words = (np.concatenate(parts) for parts in zip(*made, strict=True))
    order = np.argsort(lists, kind="stable")
    return lists[order], ids[order], words[order]


def _shifted(heads: np.ndarray, lists: np.ndarray, by: int) -> np.ndarray:
    made = np.empty_like(heads)
    shift_heads(heads, lists, by, made)
    return made


def _roots_for(g: Cells, boxes: Boxes) -> np.ndarray:
    """Return for each box the first root, the finest first, in which it covers few cells."""
    node = np.full(boxes.size, int(g.roots[0]) - 1, np.int32)
    for root in range(int(g.roots[0]) - 2, -1, -1):
        covered = np.ones(boxes.size)
        for axis in (0, 1):
            low, high = (
                to_values(
                    keys[axis * boxes.size : (axis + 1) * boxes.size], bool(boxes.floats[axis])
                )
                for keys in (boxes.low, boxes.high)
            )
            at = 2 * root + axis
            if g.scale[at] == 0:
                continue  # one cell
            end = g.origin[at] + g.across[at] * CODES / g.scale[at]
            side = np.clip(high, g.origin[at], end) - np.clip(low, g.origin[at], end)
            covered *= side * g.scale[at] / CODES + 1
        node[covered <= _FEW] = root
    return node


@kernel
def spread(
    n: Nodes,
    b: Boxes,
    heads: Int32s,
    box: Int32s,
    node: Int32s,
    codes: Int64s,
    lists: Int64Out,
    ids: Int32Out,
    words: UInt64Out,
    next_box: Int32Out,
    next_node: Int32Out,
) -> int:
    """Write entries one by one, as `fill_lists` does list by list; return how many.

    For a few boxes among many cells. A cell has the full list 2 c and the part list 2 c + 1.
    """
    gap, across, base, settled = n.gap, n.across, n.base, b.exact
    made = passed = 0
    for i in range(box.shape[0]):
        a = 2 * np.int64(node[i])
        gap_x, gap_y, across_x, across_y = gap[a], gap[a + 1], across[a], across[a + 1]
        low_x, high_x, low_y, high_y = codes[4 * i : 4 * i + 4]
        id_ = box[i] if settled[box[i]] != 0 else ~box[i]
        for x in range(cell_of(low_x, across_x), cell_of(high_x, across_x) + 1):
            lanes_x = lanes(low_x, high_x, x, gap_x, across_x)
            row = base[node[i]] + x * across_y
            for y in range(cell_of(low_y, across_y), cell_of(high_y, across_y) + 1):
                bounds = lanes_x | (lanes(low_y, high_y, y, gap_y, across_y) << np.uint64(32))
                cell = row + y
                if bounds != 0 and heads[4 * cell + 3] >= 0:
                    next_box[passed] = box[i]
                    next_node[passed] = heads[4 * cell + 3]
                    passed += 1
                    continue
                lists[made] = 2 * cell + np.int64(bounds != 0)
                ids[made] = id_
                words[made] = bounds
                made += 1
    return made


@kernel
def shift_heads(heads: Int32s, lists: Int64s, by: int, out: Int32Out) -> None:
    """Write heads as they are with one entry more, or less (`by` is -1), in each of the lists.

    These are numbered as in `spread`, and ascend.
    """
    moved = parts = i = 0
    for cell in range(heads.shape[0] // 4):
        out[4 * cell] = heads[4 * cell] + moved
        while i < lists.shape[0] and lists[i] == 2 * cell:
            i += 1
            moved += by
        out[4 * cell + 1] = heads[4 * cell + 1] + moved
        out[4 * cell + 2] = heads[4 * cell + 2] + parts
        while i < lists.shape[0] and lists[i] == 2 * cell + 1:
            i += 1
            moved += by
            parts += by
        out[4 * cell + 3] = heads[4 * cell + 3]


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
        asked = nodes, self.boxes, box, node, codes, number
        sums, counts = np.zeros(2 * len(cells)), np.zeros(2 * len(cells))
        crowds(*asked, EXTENT, begin, end, sums, counts)
        begin[counts == 0] = end[counts == 0] = 0.0
        # Where most of them are: a few large boxes must not make the cells coarse for the others.
        mean = np.clip(sums / np.maximum(counts, 1), begin, end)  # whatever the sum's rounding
        spread = np.zeros(2 * len(cells))
        crowds(*asked, SPREAD, mean, end, spread, counts)
        near = _NEAR * spread / np.maximum(counts, 1)
        trimmed = near >= NARROW
        begin[trimmed] = np.maximum(begin, mean - near)[trimmed]
        end[trimmed] = np.minimum(end, mean + near)[trimmed]
        shares, areas = np.zeros(2 * len(cells)), np.zeros(len(cells))
        crowds(*asked, SIDES, begin, end, shares, areas)
        begin, end = begin.reshape(-1, 2), end.reshape(-1, 2)
        return begin, end, shares.reshape(-1, 2) / size[:, None], areas / size

    def cells(self, axes: np.ndarray) -> Cells:
        """Return the finished layout."""
        nodes, box, node = self.roots()
        roots = len(nodes.base)
        for tier in range(self.tiers):
            nodes, box, node = self.file(nodes, box, node, tier + 1 < self.tiers)
            if not len(box):
                break
        ends = np.array([self.id_count, self.id_count, self.word_count, -1])
        whole = bool(self.boxes.exact.all())
        of_nodes = {f: np.concatenate([getattr(n, f) for n in self.nodes]) for f in Nodes._fields}
        return freeze_fields(
            Cells,
            attribute=axes,
            floats=self.boxes.floats,
            settled=[whole],
            roots=[roots],
            **of_nodes,
            heads=np.concatenate([*self.heads, ends]),
            ids=np.concatenate(self.ids),
            words=np.concatenate(self.words),
        )

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
        check_entries(self.id_count + total)
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
        # Within what `to_keys` can say, so that keys and origin agree.
        begin, end = (
            np.clip(whole, -FAR_INTEGER, FAR_INTEGER) for whole in (np.floor(begin), np.ceil(end))
        )
    first, last = to_keys(begin, is_float), to_keys(end, is_float)
    scale = compute_scale(across * float(CODES), begin, end)
    across = np.where(scale > 0, across, 1)
    gap = np.zeros(len(begin), np.int64)
    if not is_float:
        # Whole numbers: a power of two of them to a cell, each with codes of its own, bounds
        # in between; as long as they are exact and a cell has codes enough.
        bits = np.ceil(np.log2(np.maximum((end - begin + 1) / across, 1))).astype(np.int64)
        exact = (
            (bits <= BITS - 2) & (np.abs(begin) < EXACT_INTEGERS) & (np.abs(end) < EXACT_INTEGERS)
        )
        bits = np.where(exact, bits, 0)
        gap = np.where(exact, CODES >> bits, 0)
        scale = np.where(exact, gap, scale)
        whole = np.where(exact, end - begin, 0).astype(np.int64)
        across = np.where(exact, (whole >> bits) + 1, across)
    return first, last, begin, scale, across, gap
