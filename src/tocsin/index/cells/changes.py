"""In-place changes: boxes inserted into the lists of cells, and removed from them (thesis 3.3.6).

A box is inserted into the cells it covers in one root, the finest in which these are few. To remove
it, the root is found first: an event at the box's low corner finds the box in it.

`ChangingCells` owns its arrays: the first change copies those of the layout, which others may share
(segments do) or which cannot be written to (a memory map). Each further change costs what it
changes; see `rooms`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tocsin.index.cells.building import Passed
from tocsin.index.cells.codes import (
    NO_PARENT,
    encode_end,
    get_lane,
    join_lanes,
    pack_ends,
    to_cell,
)
from tocsin.index.cells.layout import END, FULL, HEAD, PARTIAL, WORDS, Cells
from tocsin.index.cells.matching import find_cell
from tocsin.index.cells.rooms import (
    Rooms,
    append,
    copy_rooms,
    delete_entries,
    delete_everywhere,
    insert_entries,
    reserve,
    tight_rooms,
)
from tocsin.index.plane import Boxes
from tocsin.index.posting_lists import check_entries
from tocsin.jit import Int32Out, Int32s, Int64Out, UInt64Out, freeze, kernel, step

# Cells that an inserted box may cover in a root where there is a coarser one. Chosen: one box then
# takes at most about 3 KB of entries.
_MAX_COVERED = 256

# The share of all conjunctions from which on a removal goes through all lists at once. Chosen: a
# box is in a few lists, and each is searched for it.
_MANY = 1 / 16


class Entries(NamedTuple):
    """n entries for lists."""

    list_number: Int64Out  # [n] as `rooms` numbers lists
    id: Int32Out  # [n] c of a conjunction, ~c if its box does not prove it
    word: UInt64Out  # [n] 0 if the box covers the cell

    def select(self, which: Any) -> Entries:
        """Return some entries, by a slice or by their numbers."""
        return Entries(
            list_number=self.list_number[which], id=self.id[which], word=self.word[which]
        )


class ChangingCells:
    """Cells that change in place, in arrays of their own."""

    def __init__(self, cells: Cells):
        sizes = tight_rooms(cells.heads)
        lengths = tuple(int(size.sum(dtype=np.int64)) for size in sizes)
        check_entries(lengths[0])
        # Half as much again; chosen.
        ids, words = (length + length // 2 for length in lengths)
        self.rooms = copy_rooms(cells.heads, cells.ids, cells.words, sizes, (ids, words))
        self.layout = _with_rooms(cells, self.rooms)

    def insert(self, boxes: Boxes, number: int) -> np.ndarray:
        """Insert boxes; the first gets this number. Return the cells that are to be split."""
        g = self.layout
        root = np.empty(boxes.size, np.int32)
        choose_roots(g, boxes, root)
        entries = list_entries(g, boxes, root)
        ids = np.where(entries.id < 0, entries.id - number, entries.id + number).astype(np.int32)
        rooms = reserve(self.rooms, entries.list_number)
        if rooms is not self.rooms:
            self.rooms = rooms
            self.layout = _with_rooms(g, rooms)
        if g.proven[0] and not boxes.exact.all():
            self.layout = self.layout._replace(proven=freeze(np.zeros(1), np.uint8))
        limit = int(g.splitting[0]) or len(ids) + len(rooms.ids)
        long = np.empty(len(ids), np.int64)
        found = insert_entries(rooms, entries.list_number, ids, entries.word, limit, long)
        return long[:found]

    def remove(self, boxes: Boxes, numbers: np.ndarray) -> None:
        """Remove boxes, which have these numbers; one that is not there is left out."""
        ids = np.where(boxes.exact != 0, numbers, ~numbers).astype(np.int32)
        root = np.empty(boxes.size, np.int32)
        find_roots(self.layout, boxes, ids, root)
        entries = list_entries(self.layout, boxes, root)
        box = np.where(entries.id < 0, ~entries.id, entries.id)
        delete_entries(self.rooms, entries.list_number, ids[box])

    def remove_many(self, gone: np.ndarray) -> None:
        """Remove the conjunctions marked in `gone`, in one pass through all lists."""
        delete_everywhere(self.rooms, gone)

    def graft(self, leaves: np.ndarray, tree: Cells, numbers: np.ndarray) -> None:
        """Put the roots of a tree in place of partial lists; its boxes have these numbers.

        They are all boxes of these lists but those that cover the cell, which join its full list.
        """
        g, rooms = self.layout, self.rooms
        check_entries(int(rooms.used[0]) + len(tree.ids))
        used_ids, used_words = rooms.used.tolist()
        nodes, cells = len(g.first_cell), len(rooms.id_room)
        heads = np.array(tree.heads).reshape(-1, HEAD)
        is_leaf = heads[:, END] >= 0
        id_room, word_room = tight_rooms(tree.heads)
        heads[:, [FULL, PARTIAL]] += used_ids
        heads[:, WORDS] += used_words
        heads[:, END] += np.where(is_leaf, used_ids, -nodes)
        ids = renumber(tree.ids, numbers)
        self.rooms = Rooms(
            heads=np.concatenate([rooms.heads, heads.reshape(-1)]),
            ids=append(rooms.ids, used_ids, ids),
            words=append(rooms.words, used_words, tree.words),
            id_room=np.concatenate([rooms.id_room, id_room]),
            word_room=np.concatenate([rooms.word_room, word_room]),
            used=np.array([used_ids + len(tree.ids), used_words + len(tree.words)]),
        )
        for root, leaf in enumerate(leaves.tolist()):
            self._join_covering(leaf, ~(nodes + root))
        below = tree.nodes._replace(first_cell=tree.first_cell + cells)
        fields = {
            name: freeze(np.concatenate([old, new]), old.dtype)
            for name, old, new in zip(below._fields, g.nodes, below, strict=True)
        }
        self.layout = _with_rooms(g, self.rooms)._replace(**fields)

    def _join_covering(self, cell: int, end: int) -> None:
        """Let the boxes that cover a cell join its full list; `end` stands for its partial list."""
        ids, heads = self.rooms.ids, self.rooms.heads
        _, partial, word, last = heads[HEAD * cell : HEAD * (cell + 1)].tolist()
        covering = ids[partial:last][self.rooms.words[word : word + last - partial] == 0]
        ids[partial : partial + len(covering)] = covering
        heads[HEAD * cell + PARTIAL] = partial + len(covering)
        heads[HEAD * cell + END] = end

    def compact(self) -> Cells:
        """Return a copy without room, to store."""
        sizes = tight_rooms(self.rooms.heads)
        lengths = int(sizes[0].sum(dtype=np.int64)), int(sizes[1].sum(dtype=np.int64))
        rooms = copy_rooms(self.rooms.heads, self.rooms.ids, self.rooms.words, sizes, lengths)
        return _with_rooms(self.layout, rooms)


def are_many(numbers: np.ndarray, size: int) -> bool:
    """Return whether removing conjunctions, of `size`, is faster in one pass."""
    return len(numbers) > _MANY * size


def renumber(ids: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return ids, c or ~c, with the number of c for c."""
    renumbered = numbers[np.where(ids < 0, ~ids, ids)]
    return np.where(ids < 0, ~renumbered, renumbered).astype(np.int32)


def _with_rooms(cells: Cells, rooms: Rooms) -> Cells:
    """Return cells with these lists; what is written to the rooms is then seen in both."""
    return cells._replace(
        heads=freeze(rooms.heads, np.int32),
        ids=freeze(rooms.ids, np.int32),
        words=freeze(rooms.words, np.uint64),
    )


def list_entries(g: Cells, boxes: Boxes, root: np.ndarray) -> Entries:
    """Return the entries of boxes, in their roots and in what is below, by list; -1: no root."""
    box = np.flatnonzero(root >= 0).astype(np.int32)
    passed = Passed(box, root[box], np.full(len(box), NO_PARENT))
    tiers = [_allocate(0)]
    while len(passed.box):
        covered = count_covered(g, boxes, passed)
        entries = _allocate(covered)
        below = Passed.allocate(covered)
        n = write_entries(g, boxes, passed, entries, below)
        tiers.append(entries.select(slice(n)))
        left = slice(covered - n)
        passed = Passed(below.box[left], below.node[left], below.word[left])
    if len(tiers) == 2 and len(root) == 1:
        return tiers[1]  # one box in one tier: its cells ascend
    entries = Entries(
        list_number=np.concatenate([tier.list_number for tier in tiers]),
        id=np.concatenate([tier.id for tier in tiers]),
        word=np.concatenate([tier.word for tier in tiers]),
    )
    return entries.select(np.argsort(entries.list_number, kind="stable"))


def _allocate(n: int) -> Entries:
    return Entries(
        list_number=np.empty(n, np.int64), id=np.empty(n, np.int32), word=np.empty(n, np.uint64)
    )


@step
def box_codes(
    node, i, word, size, low, high, floats, low_key, high_key, origin, scale, gap, across
):
    """Return the codes of a box's ends in a node: low x, high x, low y, high y.

    `word` is that of the box in the cell above the node.
    """
    a, b = 2 * node, 2 * node + 1
    x = floats[0], low_key[a], high_key[a], origin[a], scale[a], gap[a], across[a]
    y = floats[1], low_key[b], high_key[b], origin[b], scale[b], gap[b], across[b]
    return (
        encode_end(low[i], 0, get_lane(word, 0), *x),
        encode_end(high[i], 1, get_lane(word, 1), *x),
        encode_end(low[size + i], 0, get_lane(word, 2), *y),
        encode_end(high[size + i], 1, get_lane(word, 3), *y),
    )


@kernel
def choose_roots(g: Cells, boxes: Boxes, root: Int32Out) -> None:
    """Write for each box the first root, the finest first, in which it covers few cells."""
    low, high, floats, size = boxes.low, boxes.high, boxes.floats, boxes.exact.shape[0]
    low_key, high_key, origin, scale = g.low_key, g.high_key, g.origin, g.scale
    gap, across, roots = g.gap, g.across, g.roots[0]
    for i in range(size):
        root[i] = roots - 1
        for node in range(roots - 2, -1, -1):
            low_x, high_x, low_y, high_y = box_codes(
                node, i, NO_PARENT, size, low, high, floats, low_key, high_key, origin, scale,
                gap, across,
            )  # fmt: skip
            across_x, across_y = across[2 * node], across[2 * node + 1]
            rows = to_cell(high_x, across_x) - to_cell(low_x, across_x) + 1
            columns = to_cell(high_y, across_y) - to_cell(low_y, across_y) + 1
            if rows * columns <= _MAX_COVERED:
                root[i] = node


@kernel
def find_roots(g: Cells, boxes: Boxes, ids: Int32s, root: Int32Out) -> None:
    """Write for each box the root below which it is; -1 if it is nowhere.

    Where an event at its low corner finds it.
    """
    low, size, heads, all_ids = boxes.low, boxes.exact.shape[0], g.heads, g.ids
    float_x, float_y, roots = boxes.floats[0], boxes.floats[1], g.roots[0]
    low_key, high_key, origin, scale, gap = g.low_key, g.high_key, g.origin, g.scale, g.gap
    across, first_cell = g.across, g.first_cell
    for i in range(size):
        root[i] = -1
        for candidate in range(roots):
            node = np.int64(candidate)
            while node >= 0 and root[i] < 0:
                cell, _ = find_cell(
                    node, low[i], low[size + i], float_x, float_y,
                    low_key, high_key, origin, scale, gap, across, first_cell,
                )  # fmt: skip
                end = np.int64(heads[HEAD * cell + END])
                last = end if end >= 0 else np.int64(heads[HEAD * cell + PARTIAL])
                for j in range(heads[HEAD * cell + FULL], last):
                    if all_ids[j] == ids[i]:
                        root[i] = candidate
                node = ~end


@kernel
def count_covered(g: Cells, boxes: Boxes, passed: Passed) -> int:
    """Return how many cells boxes cover in nodes."""
    box, node, word = passed.box, passed.node, passed.word
    low, high, floats, size = boxes.low, boxes.high, boxes.floats, boxes.exact.shape[0]
    low_key, high_key, origin, scale = g.low_key, g.high_key, g.origin, g.scale
    gap, across = g.gap, g.across
    total = 0
    for i in range(box.shape[0]):
        k = np.int64(node[i])
        low_x, high_x, low_y, high_y = box_codes(
            k, box[i], word[i], size, low, high, floats, low_key, high_key, origin, scale, gap,
            across,
        )  # fmt: skip
        across_x, across_y = across[2 * k], across[2 * k + 1]
        rows = to_cell(high_x, across_x) - to_cell(low_x, across_x) + 1
        columns = to_cell(high_y, across_y) - to_cell(low_y, across_y) + 1
        # In a stored node whose scale was changed, an end may come before the beginning.
        total += max(rows, 0) * max(columns, 0)
    return total


@kernel
def write_entries(
    g: Cells,
    boxes: Boxes,
    passed: Passed,
    entries: Entries,
    below: Passed,
) -> int:
    """Write the entries of boxes in nodes one by one; return how many.

    Boxes that belong to the child of a cell go to `below`. Unlike `building.fill_lists`, which
    goes through all cells, this is for a few boxes among many.
    """
    low, high, floats, size = boxes.low, boxes.high, boxes.floats, boxes.exact.shape[0]
    low_key, high_key, origin, scale = g.low_key, g.high_key, g.origin, g.scale
    gap, across, first_cell, heads = g.gap, g.across, g.first_cell, g.heads
    lists, ids, words, exact = entries.list_number, entries.id, entries.word, boxes.exact
    box, node, word_above = passed.box, passed.node, passed.word
    next_box, next_node, next_word = below.box, below.node, below.word
    written = n_below = 0
    for i in range(box.shape[0]):
        k = np.int64(node[i])
        low_x, high_x, low_y, high_y = box_codes(
            k, box[i], word_above[i], size, low, high, floats, low_key, high_key, origin, scale,
            gap, across,
        )  # fmt: skip
        gap_x, gap_y, across_x, across_y = (
            gap[2 * k],
            gap[2 * k + 1],
            across[2 * k],
            across[2 * k + 1],
        )
        id_ = box[i] if exact[box[i]] != 0 else ~box[i]
        for x in range(to_cell(low_x, across_x), to_cell(high_x, across_x) + 1):
            lanes_x = pack_ends(low_x, high_x, x, gap_x, across_x)
            row = first_cell[k] + x * across_y
            for y in range(to_cell(low_y, across_y), to_cell(high_y, across_y) + 1):
                word = join_lanes(lanes_x, pack_ends(low_y, high_y, y, gap_y, across_y))
                cell = row + y
                end = heads[HEAD * cell + END]
                if word != 0 and end < 0:
                    next_box[n_below] = box[i]
                    next_node[n_below] = ~end
                    next_word[n_below] = word
                    n_below += 1
                    continue
                lists[written] = 2 * cell + np.int64(word != 0)
                ids[written] = id_
                words[written] = word
                written += 1
    return written
