"""The pieces that built indexes hold, the papers' worked examples of them, and covers counted."""

from collections import Counter

import numpy as np
import pytest

from tests.conformance import boxes as shapes
from tests.conformance.boxes import HIGHEST, LOWEST, NULL
from tocsin.index.constructs import decomposition
from tocsin.index.constructs.intervals.index import Intervals
from tocsin.index.constructs.rectangles.index import Rectangles

# ------------------------------------------------------------ what an index holds


def pieces_of_boxes(index):
    """Return how often an index of rectangles holds each piece: (id, x, y, width, height).

    The cells are those of attribute 0 and of attribute 1, whichever axis they lie along. Numbers
    are taken apart as eq. 1 puts them together.
    """
    g = index.layout
    kinds, across = int(g.longest[0]).bit_length(), int(g.cells[0])
    lists = [(i, i) for i in range(len(g.start) - 1)]
    if len(g.hashed):
        lists = [(int(g.hashed[i]), int(g.list_of[i])) for i in np.flatnonzero(g.hashed >= 0)]
    held = Counter()
    for number, place in lists:
        corner, kind = divmod(number, kinds * kinds)
        (y, x), (j, i) = divmod(corner, across), divmod(kind, kinds)
        sides = (x, y, 1 << i, 1 << j) if g.attribute[0] == 0 else (y, x, 1 << j, 1 << i)
        for id_ in g.ids[g.start[place] : g.start[place + 1]].tolist():
            held[id_, *sides] += 1
    assert held.total() == len(g.ids)
    return held


def pieces_of_intervals(index, logarithmic):
    """Return how often an index of intervals holds each piece: (id, level, begin, end)."""
    g = index.layout
    held = Counter()
    for number in range(len(g.piece) - 1):
        level = int(np.searchsorted(g.constructs, number, "right")) - 1
        begin, kind = divmod(number - int(g.constructs[level]), int(g.per_cell[level]))
        end = begin + (1 << kind if logarithmic else kind + 1)
        for id_ in g.piece_id[g.piece[number] : g.piece[number + 1]].tolist():
            held[id_, level, begin, end] += 1
    assert held.total() == len(g.piece_id)
    return held


def value_of(key, is_float):
    """Return the number of a key; open ends are infinite."""
    if key <= LOWEST:
        return -np.inf
    if key == HIGHEST:
        return np.inf
    if not is_float:
        return float(key)
    return float(np.int64(key if key >= 0 else NULL - key).view(np.float64))


def cell_of(value, origin, end, scale, cells):
    """Return the cell of a number; those before and after the domain are -1 and `cells`."""
    if value < origin:
        return -1
    if value > end:
        return cells
    return min(int((value - origin) * scale), cells - 1)


def cut_box(index, work, box, longest, overlapped):
    """Return the pieces that a box should have: those of its inner cells, then of the ring."""
    g = index.layout
    spans = []
    for attribute in (0, 1):
        axis = g.attribute.tolist().index(attribute)
        is_float = bool(g.floats[axis])
        end = value_of(int(g.last[axis]), is_float)
        cells = int(g.cells[axis])
        first, last = (
            1
            + cell_of(value_of(int(bound), is_float), g.origin[axis], end, g.scale[axis], cells - 2)
            for bound in (work.low[attribute, box], work.high[attribute, box])
        )
        # On whole numbers a box covers its end cells, unless they are the rim.
        step = 0 if g.whole[axis] else 1
        inner = first + (1 if first == 0 else step), last - (1 if last == cells - 1 else step)
        spans.append((first, last, *inner))
    # The kernel's rows run along its first axis.
    turned = g.attribute[0] == 1
    (x0, x1, in_x0, in_x1), (y0, y1, in_y0, in_y1) = spans[::-1] if turned else spans
    areas = [(x0, x1, y0, y1)]
    inner = in_x0 <= in_x1 and in_y0 <= in_y1
    if inner:
        areas = [
            (in_x0, in_x1, in_y0, in_y1),
            (x0, x1, y0, in_y0 - 1),
            (x0, x1, in_y1 + 1, y1),
            (x0, in_x0 - 1, in_y0, in_y1),
            (in_x1 + 1, x1, in_y0, in_y1),
        ]
    pieces = []
    for n, (left, right, bottom, top) in enumerate(areas):
        if left > right or bottom > top:
            continue
        id_ = box if inner and n == 0 else ~box
        for x, y, w, h in decomposition.decompose_rectangle(
            left, bottom, right - left + 1, top - bottom + 1, longest, overlapped
        ):
            pieces.append((id_, y, x, h, w) if turned else (id_, x, y, w, h))
    return pieces


def whole_boxes(rng, n=300):
    """The paper's: 1 to 40 by 1 to 20 cells (VCR paper, 3.1)."""
    low = rng.integers(0, 100, (2, n))
    high = low + np.stack([rng.integers(0, 40, n), rng.integers(0, 20, n)])
    return shapes.Boxes(low, high, rng.integers(-5, 150, (2, 200)), [0, 0])


def flat_boxes(rng, n=300):
    """The same, turned: now the other attribute is the more selective one."""
    work = whole_boxes(rng, n)
    return shapes.Boxes(work.low[::-1], work.high[::-1], work.events[::-1], [0, 0])


def float_boxes(rng, n=300):
    low = rng.random((2, n))
    return shapes.floats(low, low + 10 ** rng.uniform(-2, -0.3, (2, n)), rng.random((2, 200)))


def open_boxes(rng, n=300):
    """Boxes some of whose ends are open: they reach into the rim."""
    low = rng.random((2, n))
    high = low + 0.3 * rng.random((2, n))
    low[rng.random((2, n)) < 0.2] = np.nan
    high[rng.random((2, n)) < 0.2] = np.nan
    return shapes.floats(low, high, rng.random((2, 200)) * 1.4 - 0.2)


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("longest", [1, 4, 16])
@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize(
    "shape", [whole_boxes, flat_boxes, float_boxes, open_boxes], ids=lambda s: s.__name__
)
def test_an_index_holds_the_pieces_of_each_box_and_no_others(shape, hashed, longest, overlapped):
    work = shape(np.random.default_rng(7))
    kind = "overlapped" if overlapped else "simple"
    options = {"longest": longest, "decomposition": kind, "hashed": hashed}
    index = Rectangles.build(work.conjunctions, work.floats, **options)
    expected = Counter(
        piece
        for box in range(work.conjunctions.size)
        for piece in cut_box(index, work, box, longest, overlapped)
    )
    assert pieces_of_boxes(index) == expected


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("hashed", [False, True])
def test_boxes_that_are_inserted_are_cut_as_those_that_are_built(hashed, overlapped):
    work = whole_boxes(np.random.default_rng(7))
    kind = "overlapped" if overlapped else "simple"
    options = {"longest": 4, "decomposition": kind, "hashed": hashed}
    at_once = Rectangles.build(work.conjunctions, work.floats, **options)
    # The same boxes once more, on the lattice there is.
    index = Rectangles.build(work.conjunctions, work.floats, **options)
    index.insert(work.conjunctions)
    built, n = pieces_of_boxes(at_once), work.conjunctions.size
    again = Counter({(id_ + n if id_ >= 0 else id_ - n, *at): k for (id_, *at), k in built.items()})
    assert pieces_of_boxes(index) == built + again


def whole_intervals(rng, n=400):
    low = rng.integers(0, 1000, (1, n))
    return shapes.Boxes(low, low + rng.integers(0, 90, n), rng.integers(0, 1100, (1, 200)), [0])


def float_intervals(rng, n=400):
    low = rng.random((1, n))
    return shapes.floats(low, low + 0.1 * rng.random((1, n)), rng.random((1, 200)))


def intervals_of_all_lengths(rng, n=1500):
    side = 10.0 ** rng.uniform(-5, 0, (1, n))
    low = rng.random((1, n)) - side / 2
    return shapes.floats(low, low + side, rng.random((1, 200)))


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("longest", [1, 2, 4, 8])
@pytest.mark.parametrize(
    "shape", [whole_intervals, float_intervals, intervals_of_all_lengths], ids=lambda s: s.__name__
)
def test_an_index_holds_the_pieces_of_each_interval_and_no_others(shape, longest, logarithmic):
    work = shape(np.random.default_rng(7))
    kind = "logarithmic" if logarithmic else "simple"
    index = Intervals.build(work.conjunctions, work.floats, longest=longest, decomposition=kind)
    g, is_float = index.layout, bool(work.floats[0])
    # Each begins in one cell, which tells its level, or lies in one.
    begun = [*g.start_id.tolist(), *g.inside_id.tolist()]
    cells = np.arange(len(g.start) - 1)
    where = [*np.repeat(cells, np.diff(g.start)), *np.repeat(cells, np.diff(g.inside))]
    assert sorted(begun) == list(range(work.conjunctions.size))
    expected, most = Counter(), 0
    for id_, cell in zip(begun, where, strict=True):
        level = int(np.searchsorted(g.cells, cell, "right")) - 1
        count = int(g.cells[level + 1] - g.cells[level])
        end = value_of(int(g.last[level]), is_float)
        first, last = (
            cell_of(value_of(int(key), is_float), g.origin[level], end, g.scale[level], count)
            for key in (work.low[0, id_], work.high[0, id_])
        )
        first, last = max(first, 0), min(last, count - 1)
        assert first == cell - g.cells[level]
        pieces = decomposition.decompose_interval(first + 1, last, longest, logarithmic)
        expected.update((id_, level, a, b) for a, b in pieces)
        most = max(most, len(pieces))
    assert pieces_of_intervals(index, logarithmic) == expected
    assert most > 1, "some interval has several pieces"
    assert shape is not intervals_of_all_lengths or len(g.first) > 1
