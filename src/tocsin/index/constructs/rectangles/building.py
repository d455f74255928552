"""Building: boxes are decomposed into constructs, and their ids go into the lists of these."""

from __future__ import annotations

import numpy as np

from tocsin.index.constructs.decomposition import Sides, find_cover_runs
from tocsin.index.constructs.rectangles.hashing import hash_constructs
from tocsin.index.constructs.rectangles.lattice import count_constructs, count_kinds, fit_lattice
from tocsin.index.constructs.rectangles.layout import Layout
from tocsin.index.plane import Boxes, build_boxes, pad_axes, rank_by_selectivity
from tocsin.index.posting_lists import check_entries
from tocsin.jit import Int32Out, Int32s, Int64Out, Int64s, UInt8s, freeze_fields, kernel, step
from tocsin.model.conjunctions import Conjunctions

# Bytes of direct offsets beyond which constructs are hashed: so many an entry, and at least so many
# in all. Chosen: a hash table is slower, and takes seven times as much for a construct or more.
_ENTRY_BYTES, _LEAST_BYTES = 16, 64 << 20


def build_layout(
    conjunctions: Conjunctions,
    floats: np.ndarray,
    longest: Sides | None,
    overlapped: bool,
    hashed: bool | None,
    published: bool,
) -> Layout:
    """Return the layout over the two most selective attributes; x is the first in the schema."""
    chosen = sorted(rank_by_selectivity(conjunctions, floats)[:2])
    axes, is_float = pad_axes(chosen, floats)
    boxes = build_boxes(conjunctions, axes, is_float)
    lattice, spans, longest = fit_lattice(boxes, longest, published)
    across = int(lattice.cells[0])
    numbers, ids = decompose(boxes, spans, longest, overlapped, across)
    lists = count_constructs(longest, lattice.cells)  # one for each possible construct
    if hashed is None:
        hashed = 4 * lists > max(_ENTRY_BYTES * len(ids), _LEAST_BYTES)
    table, list_of = np.empty(0, np.int64), np.empty(0, np.int32)
    if hashed:
        table, list_of, numbers, lists = hash_constructs(numbers)
    start, listed = list_by_number(numbers, ids, lists)
    return freeze_fields(
        Layout,
        attribute=axes,
        floats=is_float,
        proven=[bool((ids >= 0).all())],
        overlapped=[overlapped],
        **lattice._asdict(),
        longest=longest,
        **find_cover_runs(longest, across, published)._asdict(),
        hashed=table,
        list_of=list_of,
        start=start,
        ids=listed,
    )


def decompose(
    boxes: Boxes, spans: np.ndarray, longest: Sides, overlapped: bool, across: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return entries: the number of a construct, and the id of a box that it is a piece of."""
    entries = np.zeros(1, np.int64)
    numbers, ids = np.empty(0, np.int64), np.empty(0, np.int32)
    cells = spans.reshape(-1)
    decompose_boxes(cells, boxes.exact, *longest, overlapped, across, entries, numbers, ids)
    total = int(entries[0])
    check_entries(total)
    numbers, ids = np.empty(total, np.int64), np.empty(total, np.int32)
    entries[0] = 0
    decompose_boxes(cells, boxes.exact, *longest, overlapped, across, entries, numbers, ids)
    return numbers, ids


@step
def find_next_piece(begin, end, longest, largest, overlapped):
    """Return where the next piece of a side begins, its length, and its kind: `decompose_side`."""
    size = largest
    if not overlapped:
        size = longest
        while size > end - begin:
            size >>= 1
    kind = np.int64(0)
    while np.int64(1) << kind < size:
        kind += 1
    return (min(begin, end - size) if overlapped else begin), size, kind


@kernel
def decompose_boxes(
    spans: Int64s,
    exact: UInt8s,
    longest_x: int,
    longest_y: int,
    overlapped: bool,
    across: int,
    entries: Int64Out,
    numbers: Int64Out,
    ids: Int32Out,
) -> None:
    """Count the pieces of boxes, or write number and id of each if there are places.

    The cells that a box covers whole are decomposed as `decompose_rectangle` does; of the ring
    around them the rows below and above, then the columns at the sides, unproven.
    """
    kinds_x, kinds = count_kinds(longest_x), count_kinds(longest_x) * count_kinds(longest_y)
    n = entries[0]
    fill = numbers.shape[0] > 0
    for i in range(exact.shape[0]):
        x0, x1, in_x0, in_x1, y0, y1, in_y0, in_y1 = spans[8 * i : 8 * i + 8]  # see `find_spans`
        inner = in_x0 <= in_x1 and in_y0 <= in_y1
        for area in range(5):
            proven = False
            if not inner:
                if area > 0:
                    break
                ax, zx, ay, zy = x0, x1, y0, y1
            elif area == 0:
                ax, zx, ay, zy = in_x0, in_x1, in_y0, in_y1
                proven = exact[i] != 0
            elif area == 1:
                ax, zx, ay, zy = x0, x1, y0, in_y0 - 1
            elif area == 2:
                ax, zx, ay, zy = x0, x1, in_y1 + 1, y1
            elif area == 3:
                ax, zx, ay, zy = x0, in_x0 - 1, in_y0, in_y1
            else:
                ax, zx, ay, zy = in_x1 + 1, x1, in_y0, in_y1
            if ax > zx or ay > zy:
                continue
            id_ = np.int32(i if proven else ~i)
            end_x, end_y = zx + 1, zy + 1
            wide, high = longest_x, longest_y
            while wide > end_x - ax:
                wide >>= 1
            while high > end_y - ay:
                high >>= 1
            y = ay
            while y < end_y:
                from_y, size_y, j = find_next_piece(y, end_y, longest_y, high, overlapped)
                x = ax
                while x < end_x:
                    from_x, size_x, k = find_next_piece(x, end_x, longest_x, wide, overlapped)
                    if fill:
                        numbers[n] = kinds * (from_x + from_y * across) + j * kinds_x + k
                        ids[n] = id_
                    n += 1
                    x += size_x
                y += size_y
    entries[0] = n


def list_by_number(
    numbers: np.ndarray, ids: np.ndarray, lists: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return where each of so many lists starts, and the ids in them."""
    start = np.zeros(lists + 1, np.int64)
    np.cumsum(np.bincount(numbers, minlength=lists), out=start[1:])
    listed = np.empty(len(ids), np.int32)
    distribute(numbers, ids, start[:-1].copy(), listed)
    return start, listed


@kernel
def distribute(numbers: Int64s, ids: Int32s, start: Int64Out, listed: Int32Out) -> None:
    """Put ids into their lists; `start` is where each list's next goes."""
    for i in range(numbers.shape[0]):
        listed[start[numbers[i]]] = ids[i]
        start[numbers[i]] += 1
