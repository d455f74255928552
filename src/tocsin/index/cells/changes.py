"""In-place changes: entries inserted into the lists of cells, and deleted from them (thesis 3.3.6).

Lists are numbered: cell c has the full list 2 c and the partial list 2 c + 1. In `ids` they lie in
this order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tocsin.index.cells.codes import (
    Placement,
    join_lanes,
    pack_ends,
    place_boxes,
    to_cell,
)
from tocsin.index.cells.layout import (
    BITS,
    CHILD,
    CODES,
    FULL,
    HEAD,
    PARTIAL,
    WORDS,
    Cells,
    Nodes,
)
from tocsin.index.plane import Boxes, to_values
from tocsin.index.posting_lists import check_entries, delete_entries, find_entries, insert_entries
from tocsin.jit import Int32Out, Int32s, Int64Out, Int64s, UInt64Out, kernel

# Cells that an inserted box may cover in a root where there is a coarser one. Chosen: one box then
# takes at most about 3 KB of entries.
_MAX_COVERED = 256


class Entries(NamedTuple):
    """n entries for lists."""

    list_number: Int64Out  # [n]
    id: Int32Out  # [n] c of a conjunction, ~c if its box does not prove it
    word: UInt64Out  # [n] 0 in a full list

    def select(self, which: Any) -> Entries:
        """Return some entries, by a slice or by their numbers."""
        return Entries(
            list_number=self.list_number[which], id=self.id[which], word=self.word[which]
        )


def insert_boxes(g: Cells, boxes: Boxes, number: int) -> dict[str, np.ndarray]:
    """Return the arrays that change when boxes are inserted; the first gets this number."""
    lists, ids, words = _list_entries(g, boxes)
    check_entries(len(g.ids) + len(ids))
    ids = np.where(ids < 0, ids - number, ids + number)
    head, is_partial = HEAD * (lists // 2), lists % 2 == 1
    # An entry goes to the end of its list, where the next list begins.
    next_list = np.where(is_partial, head + HEAD + FULL, head + PARTIAL)
    next_words = head[is_partial] + HEAD + WORDS
    return {
        "proven": g.proven & bool(ids.min(initial=0) >= 0),
        "heads": _shift_heads(g.heads, lists, 1),
        "ids": insert_entries(g.ids, g.heads[next_list], ids),
        "words": insert_entries(g.words, g.heads[next_words], words[is_partial]),
    }


def remove_conjunctions(g: Cells, size: int, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays that change when conjunctions, of `size`, are removed."""
    positions = find_entries(g.ids, size, numbers)
    begins = g.heads.reshape(-1, HEAD)[:, FULL : PARTIAL + 1].reshape(-1)
    lists = np.searchsorted(begins, positions, side="right") - 1
    is_partial = lists % 2 == 1
    first_words = g.heads[HEAD * (lists[is_partial] // 2) + WORDS]
    words = first_words + (positions - begins[lists])[is_partial]
    ids = delete_entries(g.ids, positions)
    return {
        "proven": np.array([ids.min(initial=0) >= 0]),
        "heads": _shift_heads(g.heads, lists, -1),
        "ids": ids,
        "words": delete_entries(g.words, words),
    }


def _list_entries(g: Cells, boxes: Boxes) -> Entries:
    """Return the entries that boxes get, by list."""
    nodes = g.nodes
    box, node = np.arange(boxes.size, dtype=np.int32), _choose_roots(g, boxes)
    tiers = [_allocate(0)]
    while len(box):
        placement = place_boxes(nodes, boxes, box, node)
        across = nodes.across.reshape(-1, 2)[node, :, None]
        spans = np.diff(np.clip(placement.codes.reshape(-1, 2, 2) >> BITS, 0, across - 1))
        covered = int((spans + 1).prod(axis=1).sum())
        entries = _allocate(covered)
        next_box, next_node = np.empty(covered, np.int32), np.empty(covered, np.int32)
        n = write_entries(nodes, boxes, placement, g.heads, entries, next_box, next_node)
        tiers.append(entries.select(slice(n)))
        box, node = next_box[: covered - n], next_node[: covered - n]
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


def _choose_roots(g: Cells, boxes: Boxes) -> np.ndarray:
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
        node[covered <= _MAX_COVERED] = root
    return node


@kernel
def write_entries(
    nodes: Nodes,
    boxes: Boxes,
    placement: Placement,
    heads: Int32s,
    entries: Entries,
    next_box: Int32Out,
    next_node: Int32Out,
) -> int:
    """Write entries one by one, as `building.fill_lists` does list by list; return how many.

    For a few boxes among many cells. Boxes that belong to the child of a cell go to `next_box`.
    """
    gap, across, first_cell, exact = nodes.gap, nodes.across, nodes.first_cell, boxes.exact
    box, node, codes = placement.box, placement.node, placement.codes
    lists, ids, words = entries.list_number, entries.id, entries.word
    written = passed = 0
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
                child = heads[HEAD * cell + CHILD]
                if word != 0 and child >= 0:
                    next_box[passed] = box[i]
                    next_node[passed] = child
                    passed += 1
                    continue
                lists[written] = 2 * cell + np.int64(word != 0)
                ids[written] = id_
                words[written] = word
                written += 1
    return written


def _shift_heads(heads: np.ndarray, lists: np.ndarray, by: int) -> np.ndarray:
    """Return heads after one entry more, or less (`by` is -1), in each of the lists."""
    shifted = np.empty_like(heads)
    shift_heads(heads, lists, by, shifted)
    return shifted


@kernel
def shift_heads(heads: Int32s, lists: Int64s, by: int, out: Int32Out) -> None:
    """Write heads after one entry more, or less (`by` is -1), in each of the lists.

    These ascend, and a list may be there several times.
    """
    moved = moved_words = i = 0
    for cell in range(heads.shape[0] // HEAD):
        head = HEAD * cell
        out[head + FULL] = heads[head + FULL] + moved
        while i < lists.shape[0] and lists[i] == 2 * cell:
            i += 1
            moved += by
        out[head + PARTIAL] = heads[head + PARTIAL] + moved
        out[head + WORDS] = heads[head + WORDS] + moved_words
        while i < lists.shape[0] and lists[i] == 2 * cell + 1:
            i += 1
            moved += by
            moved_words += by
        out[head + CHILD] = heads[head + CHILD]
