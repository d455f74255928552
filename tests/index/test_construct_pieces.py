"""The pieces that built indexes hold, the papers' worked examples of them, and covers counted."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

import tocsin
from tests.conformance import boxes as shapes
from tests.conformance.boxes import HIGHEST, LOWEST, NULL
from tocsin.index.constructs import decomposition
from tocsin.index.constructs.intervals.index import Intervals
from tocsin.index.constructs.rectangles.index import Rectangles
from tocsin.model.keys import EventBatch

# ------------------------------------------------------------ what an index holds


def pieces_of_boxes(index):
    """Return how often an index of rectangles holds each piece: (id, x, y, width, height).

    Numbers are taken apart as eq. 1 puts them together.
    """
    g = index.layout
    assert g.attribute.tolist() == [0, 1], "x is the attribute that comes first"
    (kinds_x, kinds_y), across = (int(n).bit_length() for n in g.longest), int(g.cells[0])
    lists = [(i, i) for i in np.flatnonzero(np.diff(g.start)).tolist()]
    if len(g.hashed):
        lists = [(int(g.hashed[i]), int(g.list_of[i])) for i in np.flatnonzero(g.hashed >= 0)]
    held = Counter()
    for number, place in lists:
        corner, kind = divmod(number, kinds_x * kinds_y)
        (y, x), (j, i) = divmod(corner, across), divmod(kind, kinds_x)
        for id_ in g.ids[g.start[place] : g.start[place + 1]].tolist():
            held[id_, x, y, 1 << i, 1 << j] += 1
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
    for axis in (0, 1):
        is_float = bool(g.floats[axis])
        end = value_of(int(g.last[axis]), is_float)
        cells = int(g.cells[axis])
        first, last = (
            1
            + cell_of(value_of(int(bound), is_float), g.origin[axis], end, g.scale[axis], cells - 2)
            for bound in (work.low[axis, box], work.high[axis, box])
        )
        # On whole numbers a box covers its end cells, unless they are the rim.
        step = 0 if g.whole[axis] else 1
        inner = first + (1 if first == 0 else step), last - (1 if last == cells - 1 else step)
        spans.append((first, last, *inner))
    (x0, x1, in_x0, in_x1), (y0, y1, in_y0, in_y1) = spans
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
        cut = (left, bottom, right - left + 1, top - bottom + 1, longest, overlapped)
        pieces += [(id_, *piece) for piece in decomposition.decompose_rectangle(*cut)]
    return pieces


def cut_closed_box(index, work, box, longest, overlapped):
    """Return the pieces that a box should have on the lattice of whole numbers.

    Ends that are not whole are moved to the next lines, and those beyond the domain to the rim.
    """
    g = index.layout
    sides, is_exact = [], True
    for axis in (0, 1):
        is_float = bool(g.floats[axis])
        bounds = work.low[axis, box], work.high[axis, box]
        low, high = (value_of(int(bound), is_float) for bound in bounds)
        begin, end = float(g.origin[axis]), float(g.origin[axis] + g.cells[axis] - 2)
        lines = [
            begin - 1 if low < begin else min(np.floor(low), end),
            end + 1 if high > end else max(np.ceil(high), begin),
        ]
        lines[1] += lines[0] == lines[1]
        is_exact &= lines == [low, high]
        sides.append((int(lines[0] - begin) + 1, int(lines[1] - lines[0])))
    (x, width), (y, height) = sides
    pieces = decomposition.decompose_rectangle(x, y, width, height, longest, overlapped)
    return [(box if is_exact else ~box, *piece) for piece in pieces]


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


def boxes_beside_lines(rng, n=300):
    """Floats of which many are whole, some without length, and some far away."""
    low = rng.integers(0, 200, (2, n)) / rng.integers(1, 4, (2, n)) - 40
    high = low + rng.integers(0, 30, (2, n)) / rng.integers(1, 3, (2, n))
    low[0, ::90] -= 1e7
    high[1, 1::90] += 1e7
    return shapes.floats(low, high, np.round(rng.random((2, 200)) * 140 - 50, 1))


def open_boxes(rng, n=300):
    """Boxes some of whose ends are open: they reach into the rim."""
    low = rng.random((2, n))
    high = low + 0.3 * rng.random((2, n))
    low[rng.random((2, n)) < 0.2] = np.nan
    high[rng.random((2, n)) < 0.2] = np.nan
    return shapes.floats(low, high, rng.random((2, 200)) * 1.4 - 0.2)


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("longest", [[1, 1], [4, 4], [16, 8], [2, 16]], ids=str)
@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("lattice", ["fitted", "published"])
@pytest.mark.parametrize(
    "shape",
    [whole_boxes, flat_boxes, float_boxes, boxes_beside_lines, open_boxes],
    ids=lambda s: s.__name__,
)
def test_an_index_holds_the_pieces_of_each_box_and_no_others(
    shape, lattice, hashed, longest, overlapped
):
    work = shape(np.random.default_rng(7))
    kind = "overlapped" if overlapped else "simple"
    options = {"longest": longest, "decomposition": kind, "hashed": hashed, "lattice": lattice}
    index = Rectangles.build(work.conjunctions, work.floats, **options)
    cut = cut_closed_box if lattice == "published" else cut_box
    expected = Counter(
        piece
        for box in range(work.conjunctions.size)
        for piece in cut(index, work, box, tuple(longest), overlapped)
    )
    assert pieces_of_boxes(index) == expected
    shapes.check_equal_to_numpy(index, work)


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("lattice", ["fitted", "published"])
def test_boxes_that_are_inserted_are_cut_as_those_that_are_built(lattice, hashed, overlapped):
    work = whole_boxes(np.random.default_rng(7))
    kind = "overlapped" if overlapped else "simple"
    options = {"longest": [4, 2], "decomposition": kind, "hashed": hashed, "lattice": lattice}
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


# ------------------------------------------------------------ worked examples


def held_cells(index):
    """Return the pieces of an index on whole numbers, where they lie in the plane."""
    g = index.layout
    assert g.whole.all()
    # Cell 0 is the rim, and the first cell of an axis is its origin.
    x, y = (int(origin) - 1 for origin in g.origin)
    held = pieces_of_boxes(index)
    assert set(held.values()) == {1}
    return {(id_, a + x, b + y, w, h) for id_, a, b, w, h in held}


def cells_of(*rectangles):
    """Make boxes of the whole cells in rectangles (x, y, width, height)."""
    x, y, width, height = np.array(rectangles).T
    return shapes.Boxes([x, y], [x + width - 1, y + height - 1], [[0], [0]], [0, 0])


def closed(*rectangles):
    """Make boxes of whole numbers that are closed rectangles (x, y, width, height)."""
    x, y, width, height = np.array(rectangles).T
    return shapes.Boxes([x, y], [x + width, y + height], [[0], [0]], [0, 0])


def build_closed(work, **options):
    """Build the index of the papers."""
    return Rectangles.build(work.conjunctions, work.floats, lattice="published", **options)


def points_in(x, y, width, height):
    """Return the data points of a rectangle, with those on its boundary lines."""
    return set(product(range(x, x + width + 1), range(y, y + height + 1)))


def cut_example(overlapped):
    """Return the pieces of the rectangle (3, 3, 11, 6) that an index with L = 4 holds."""
    kind = "overlapped" if overlapped else "simple"
    index = build_closed(closed((3, 3, 11, 6)), longest=4, decomposition=kind)
    pieces = {(x, y, w, h) for _, x, y, w, h in held_cells(index)}
    assert pieces == set(decomposition.decompose_rectangle(3, 3, 11, 6, (4, 4), overlapped))
    return pieces


def test_the_eight_pieces_overlap_over_five_points():
    """Fig. 3 and 2.2.1 of the VCR paper: two neighbours share a boundary line, and no area."""
    pieces = cut_example(overlapped=False)
    assert len(pieces) == 8
    assert {(3, 3, 4, 4), (7, 3, 4, 4)} <= pieces
    shared = points_in(3, 3, 4, 4) & points_in(7, 3, 4, 4)
    assert shared == {(7, 3), (7, 4), (7, 5), (7, 6), (7, 7)}
    # "The overlapping among them is minimal. It occurs only on the boundary lines."
    for one, other in product(pieces, pieces):
        both = points_in(*one) & points_in(*other)
        assert one == other or len({x for x, _ in both}) <= 1 or len({y for _, y in both}) <= 1


def test_the_six_pieces_overlap_over_ten_points():
    """Fig. 4 and 2.2.2 of the VCR paper: the last piece is shifted back by one."""
    pieces = cut_example(overlapped=True)
    assert pieces == {(x, y, 4, 4) for x in (3, 7, 10) for y in (3, 5)}
    shared = points_in(7, 3, 4, 4) & points_in(10, 3, 4, 4)
    assert shared == {(x, y) for x in (10, 11) for y in (3, 4, 5, 6, 7)}
    assert len(shared) == 10


def test_the_row_of_ten_of_appendix_a():
    """VCR paper, Appendix A: "a total of 10 VCRs with the same height and y cover point (a, b)"."""
    a, longest = 20, 4
    cover = decomposition.cover_point(a, longest, logarithmic=True, on_lattice=True)
    starts = Counter(number // 3 for number in cover)  # k + 1 = 3 constructs from each start
    assert starts == {a - 4: 1, a - 3: 1, a - 2: 2, a - 1: 3, a: 3}
    widths = {
        start: {1 << number % 3 for number in cover if number // 3 == start} for start in starts
    }
    assert widths == {a - 4: {4}, a - 3: {4}, a - 2: {4, 2}, a - 1: {1, 2, 4}, a: {1, 2, 4}}
    assert len(cover) == 10
    # The same row in the tables of an index: those of height 4 that start 4 lines below.
    runs = decomposition.find_cover_runs((longest, longest), 50, closed=True)
    on_both = np.arange(len(runs.run_x)) >= runs.cover[3]
    lowest = on_both & (runs.run_y == 4)
    assert runs.run_x[lowest].tolist() == [0, 1, 2, 3, 4]
    assert runs.run_size[lowest].tolist() == [3, 3, 2, 1, 1]
    assert runs.run_size[on_both].sum() == 10 * 10
    assert decomposition.count_cover((longest, longest), on_x=True, on_y=True) == 10 * 10


FIG_8_QUERIES = {"q1": (3, 3, 5, 6), "q2": (6, 7, 5, 5)}
FIG_8_DATA = {"d1": (9.3, 4.15), "d2": (3.6, 5.2), "d3": (7.5, 9.5)}
FIG_8_ANSWERS = {"d1": set(), "d2": {"q1"}, "d3": {"q2"}}


@pytest.mark.parametrize("kind", ["simple", "overlapped"])
def test_figure_8_in_an_index_as_published(kind):
    """Stream paper, 3.1 to 3.4: a query is found by a piece of it that covers the data point."""
    x, y, width, height = np.array(list(FIG_8_QUERIES.values()), float).T
    data = np.array([*FIG_8_DATA.values(), (8.0, 9.0), (8.0, 7.5), (6.5, 9.0), (11, 12), (3, 9)]).T
    work = shapes.floats([x, y], [x + width, y + height], data)
    index = build_closed(work, longest=4, decomposition=kind)
    assert held_cells(index) == {
        (query, *piece)
        for query, rectangle in enumerate(FIG_8_QUERIES.values())
        for piece in decomposition.decompose_rectangle(*rectangle, (4, 4), kind == "overlapped")
    }
    assert (index.layout.ids >= 0).all(), "bounds on whole numbers are proven"
    found = [set(np.array(["q1", "q2"])[row]) for row in work.truth()]
    assert found[:3] == list(FIG_8_ANSWERS.values())
    assert found[3:] == [{"q1", "q2"}, {"q1", "q2"}, {"q1", "q2"}, {"q2"}, {"q1"}]
    shapes.check_equal_to_numpy(index, work)


@pytest.mark.parametrize("index", [Rectangles, Intervals], ids=lambda i: i.name)
def test_figure_8_in_an_index_of_floats(index):
    x, y, width, height = np.array(list(FIG_8_QUERIES.values()), float).T
    data = np.array(list(FIG_8_DATA.values())).T
    work = shapes.floats([x, y], [x + width, y + height], data)
    assert work.truth().tolist() == [[False, False], [True, False], [False, True]]
    shapes.check_equal_to_numpy(index.build(work.conjunctions, work.floats, longest=4), work)


@pytest.mark.parametrize(
    "index", ["rectangles", "intervals", "grid", "ntree", "counting", "keyed", "bestar", "auto"]
)
def test_figure_8_as_rules(index):
    rules = tocsin.Rules({"x": "number", "y": "number"}, index=index)
    for query, (x, y, width, height) in FIG_8_QUERIES.items():
        rules.add(query, f"x BETWEEN {x} AND {x + width} AND y BETWEEN {y} AND {y + height}")
    rules.merge()
    assert index in (rules.plan().parts[0].index, "auto")
    events = [{"x": x, "y": y} for x, y in FIG_8_DATA.values()]
    assert sorted(rules.match(events)) == [(1, "q1"), (2, "q2")]
    assert rules.count(events).tolist() == [len(found) for found in FIG_8_ANSWERS.values()]
    # Both ends belong to a query: the corner (8, 9) is in both.
    assert sorted(rules.match({"x": 8, "y": 9})) == [(0, "q1"), (0, "q2")]


# ------------------------------------------------------------ covers, counted one by one


def powers(longest):
    """Return the lengths that sides can have."""
    return [length for length in (1, 2, 4, 8, 16) if length <= longest]


def rectangles_near(x, y, longest_x, longest_y):
    """Return all constructs that may cover a point, and more."""
    return list(
        product(
            range(x - longest_x - 2, x + 3),
            range(y - longest_y - 2, y + 3),
            powers(longest_x),
            powers(longest_y),
        )
    )


def is_inside(x, y, rectangle):
    """Tell whether a closed rectangle contains a point."""
    left, bottom, width, height = rectangle
    return left <= x <= left + width and bottom <= y <= bottom + height


POINTS = {"between": (24.5, 31.25), "on x": (24, 31.5), "on y": (24.5, 31), "on": (24, 31)}
COVERS = [  # Lx, Ly, and how many constructs are around each of the points
    (1, 1, [1, 2, 2, 4]),
    (4, 4, [49, 70, 70, 100]),
    (8, 8, [225, 285, 285, 361]),
    (16, 8, [465, 540, 589, 684]),
    (8, 16, [465, 589, 540, 684]),
    (16, 16, [961, 1116, 1116, 1296]),
]


@pytest.mark.parametrize(("longest_x", "longest_y", "expected"), COVERS)
def test_covers_counted_one_by_one(longest_x, longest_y, expected):
    """Theorem 1 for a lattice point, (2Lx - 1)(2Ly - 1) between lines, and mixed products."""
    near = rectangles_near(24, 31, longest_x, longest_y)
    counted = [sum(is_inside(x, y, each) for each in near) for x, y in POINTS.values()]
    assert counted == expected
    runs = decomposition.find_cover_runs((longest_x, longest_y), 99, closed=True)
    sizes = np.cumsum([0, *runs.run_size])[runs.cover]
    assert np.diff(sizes).tolist() == expected
    for case, count in enumerate(expected):
        on_x, on_y = bool(case & 1), bool(case >> 1)
        assert decomposition.count_cover((longest_x, longest_y), on_x, on_y) == count


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("is_float", [False, True])
@pytest.mark.parametrize(("longest_x", "longest_y", "expected"), COVERS)
def test_an_event_finds_all_rectangles_around_it(longest_x, longest_y, expected, is_float, hashed):
    """Every construct is a rule, and a single piece: an event finds those that contain it."""
    near = rectangles_near(24, 31, longest_x, longest_y)
    x, y, width, height = np.array(near).T
    points = np.array(list(POINTS.values())).T
    if is_float:
        work = shapes.floats([x, y], [x + width, y + height], points)
    else:
        work = shapes.Boxes([x, y], [x + width, y + height], [[24], [31]], [0, 0])
        expected = expected[3:]
    index = build_closed(work, longest=[longest_x, longest_y], hashed=hashed)
    assert held_cells(index) == {(rule, *each) for rule, each in enumerate(near)}
    out, offsets = np.zeros(9 * len(near), np.int32), np.zeros(len(expected) + 1, np.int64)
    index.candidates(EventBatch.whole(work.keys, 2), offsets, out)
    assert np.diff(offsets).tolist() == expected, "before accept"
    shapes.check_equal_to_numpy(index, work)


@pytest.mark.parametrize("hashed", [False, True])
def test_an_event_at_the_boundary_finds_the_rectangles_that_are_there(hashed):
    """VCR paper, 2.3.1: of those that would cover a point, the ones that begin in the domain."""
    across, down = 9, 7
    there = list(product(range(across), range(down), powers(4), powers(2)))
    x, y, width, height = np.array(there, float).T
    points = list(product(np.arange(0, across, 0.5), np.arange(0, down, 0.5)))
    work = shapes.floats([x, y], [x + width, y + height], np.array(points).T)
    index = build_closed(work, longest=[4, 2], hashed=hashed)
    assert held_cells(index) == {(rule, *each) for rule, each in enumerate(there)}
    out, offsets = np.zeros(len(there) * len(points), np.int32), np.zeros(len(points) + 1, np.int64)
    assert index.candidates(EventBatch.whole(work.keys, 2), offsets, out) == len(points)
    for event, (x, y) in enumerate(points):
        around = [rule for rule, each in enumerate(there) if is_inside(x, y, each)]
        assert sorted(out[offsets[event] : offsets[event + 1]].tolist()) == around


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize(("longest_x", "longest_y", "expected"), COVERS)
def test_an_event_finds_all_rectangles_around_its_cell(longest_x, longest_y, expected, hashed):
    """The same on a lattice of cells, where an event is between lines."""
    near = rectangles_near(24, 31, longest_x, longest_y)
    work = cells_of(*near)
    work = shapes.Boxes(work.low, work.high, [[24], [31]], [0, 0])
    longest = [longest_x, longest_y]
    index = Rectangles.build(work.conjunctions, work.floats, longest=longest, hashed=hashed)
    assert held_cells(index) == {(rule, *each) for rule, each in enumerate(near)}
    counts = np.zeros(1, np.int64)
    index.count(EventBatch.whole(work.keys, 2), counts)
    assert counts.tolist() == expected[:1]
    shapes.check_equal_to_numpy(index, work)


@pytest.mark.parametrize("longest", [1, 2, 4, 8, 16])
def test_covers_of_intervals_counted_one_by_one(longest):
    """Figs. 4 and 5 of the stream paper: simple and logarithmic constructs around a value."""
    for logarithmic, lengths in ((False, range(1, longest + 1)), (True, powers(longest))):
        ends = [(a, a + length) for a in range(60) for length in lengths]
        on, between = sum(a <= 30 <= b for a, b in ends), sum(a <= 30 < b for a, b in ends)
        cover = decomposition.cover_point
        assert len(cover(30, longest, logarithmic, on_lattice=True)) == on
        assert len(cover(30, longest, logarithmic, on_lattice=False)) == between
        short = decomposition.count_too_short(longest, logarithmic)
        assert sum(len(lengths) - skip for skip in short) == between
