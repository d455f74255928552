"""Virtual constructs: the papers' numbers, cuts and covers, and indexes with every option."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests.conformance import boxes as shapes
from tocsin.errors import RuleError
from tocsin.index import posting_lists
from tocsin.index.constructs import decomposition
from tocsin.index.constructs.interval_lists import decompose_intervals
from tocsin.index.constructs.intervals.index import Intervals
from tocsin.index.constructs.lattice import Level, build_levels
from tocsin.index.constructs.rectangles.building import decompose_boxes
from tocsin.index.constructs.rectangles.index import Rectangles

LENGTHS = [1, 2, 4, 8, 16]


# ------------------------------------------------------------ one dimension


@pytest.mark.parametrize("longest", LENGTHS)
def test_numbers_of_intervals_are_consecutive(longest):
    simple = [
        decomposition.number_simple(a, a + length, longest)
        for a in range(5)
        for length in range(1, longest + 1)
    ]
    assert simple == list(range(5 * longest))
    logarithmic = [
        decomposition.number_logarithmic(a, a + (1 << i), longest)
        for a in range(5)
        for i in range(longest.bit_length())
    ]
    assert logarithmic == list(range(5 * longest.bit_length()))


def test_a_remnant_of_seven_is_four_two_and_one():
    assert [b - a for a, b in decomposition.decompose_interval(0, 23, 16, True)] == [16, 4, 2, 1]


@given(x=st.integers(0, 50), length=st.integers(0, 90), k=st.integers(0, 5), log=st.booleans())
def test_pieces_of_an_interval_are_constructs_and_leave_no_gap(x, length, k, log):
    longest = 1 << k
    pieces = decomposition.decompose_interval(x, x + length, longest, log)
    assert [a for a, _ in pieces] == [x, *(b for _, b in pieces)][: len(pieces)]
    assert not pieces or pieces[-1][1] == x + length
    for a, b in pieces:
        assert 1 <= b - a <= longest
        assert not log or (b - a) & (b - a - 1) == 0
    assert sum(b - a == longest for a, b in pieces) == length // longest
    if not log:
        assert len(pieces) == -(-length // longest)


@given(x=st.integers(1, 50), length=st.integers(0, 90), k=st.integers(0, 5), log=st.booleans())
def test_the_kernel_decomposes_an_interval_as_the_paper_does(x, length, k, log):
    longest = 1 << k
    number = decomposition.number_logarithmic if log else decomposition.number_simple
    pieces = decomposition.decompose_interval(x, x + length, longest, log)
    levels = build_levels([Level(0.0, 1.0, 150, longest)], is_float=True, logarithmic=log)
    level, ids = np.zeros(1, np.int32), np.array([7], np.int32)
    # What lies between the cells of the interval's ends is decomposed.
    first, last = np.array([x - 1]), np.array([x + length])
    counts = np.zeros(levels.constructs[-1], np.int64)
    decompose_intervals(levels, level, first, last, log, ids, counts, np.empty(0, np.int32))
    assert np.flatnonzero(counts).tolist() == sorted(number(a, b, longest) for a, b in pieces)
    assert counts.max() <= 1
    written = np.zeros(len(pieces), np.int32)
    decompose_intervals(levels, level, first, last, log, ids, np.cumsum(counts) - counts, written)
    assert written.tolist() == [7] * len(pieces)


@pytest.mark.parametrize("longest", LENGTHS)
@pytest.mark.parametrize("log", [False, True])
def test_covers_have_the_papers_size_minimum_and_gaps(longest, log):
    k = longest.bit_length() - 1
    each = k + 1 if log else longest
    between = 2 * longest - 1 if log else longest * (longest + 1) // 2
    on = 2 * longest + k if log else between + longest
    for j in range(longest, longest + 7):
        cover = decomposition.cover_point(j, longest, log, on_lattice=True)
        assert len(cover) == on
        least = (j - longest) * each + (k if log else longest - 1)
        assert cover[0] == least, "V_min of section 2.4"
        assert len(decomposition.cover_point(j, longest, log, on_lattice=False)) == between
        gaps = np.diff(cover).tolist()
        first = decomposition.cover_point(longest, longest, log, on_lattice=True)
        assert gaps == np.diff(first).tolist(), "identical differences"


@pytest.mark.parametrize("longest", LENGTHS)
@pytest.mark.parametrize("log", [False, True])
def test_runs_are_the_cover_between_lattice_points(longest, log):
    each = longest.bit_length() if log else longest
    skip = decomposition.count_too_short(longest, log)
    for j in range(longest + 4):
        numbers = [
            number
            for d in range(min(longest, j + 1))
            for number in range((j - d) * each + skip[d], (j - d + 1) * each)
        ]
        assert sorted(numbers) == decomposition.cover_point(j, longest, log, on_lattice=False)


@pytest.mark.parametrize("longest", [None, 1, 4, 16])
@pytest.mark.parametrize("decomposition", ["simple", "logarithmic"])
@pytest.mark.parametrize(
    "shape",
    [shapes.one_attribute, shapes.all_sizes, shapes.half_planes, shapes.integers, shapes.outliers],
    ids=lambda s: s.__name__,
)
def test_intervals_with_every_option(shape, longest, decomposition):
    work = shape(np.random.default_rng(3))
    options = {"longest": longest, "decomposition": decomposition}
    index = Intervals.build(work.conjunctions, work.floats, **options)
    shapes.check_equal_to_numpy(index, work)


def test_intervals_of_all_lengths_lie_on_several_levels():
    rng = np.random.default_rng(2)
    side = 10.0 ** rng.uniform(-5, 0, (1, 4000))
    low = rng.random((1, 4000)) - side / 2
    work = shapes.floats(low, low + side, rng.random((1, 500)))
    index = Intervals.build(work.conjunctions, work.floats)
    assert len(index.layout.first) > 1
    assert index.proven
    shapes.check_equal_to_numpy(index, work)


# ------------------------------------------------------------ two dimensions


SIDES = [(1, 1), (4, 4), (8, 2), (2, 8), (16, 8)]


@pytest.mark.parametrize("longest", SIDES)
def test_numbers_of_rectangles_are_consecutive(longest):
    """Fig. 1: by rows of corners, from each corner by height and then by width."""
    widths, heights = ([1 << i for i in range(side.bit_length())] for side in longest)
    numbers = [
        decomposition.number_rectangle(x, y, width, height, longest, 7)
        for y in range(3)
        for x in range(7)
        for height in heights
        for width in widths
    ]
    assert numbers == list(range(len(widths) * len(heights) * 7 * 3))


def test_the_papers_box_is_eight_pieces_or_six():
    simple = decomposition.decompose_rectangle(3, 3, 11, 6, (4, 4), overlapped=False)
    assert len(simple) == 8
    assert {(w, h) for _, _, w, h in simple} == {(4, 4), (4, 2), (2, 4), (2, 2), (1, 4), (1, 2)}
    overlapped = decomposition.decompose_rectangle(3, 3, 11, 6, (4, 4), overlapped=True)
    assert len(overlapped) == 6
    assert {(w, h) for _, _, w, h in overlapped} == {(4, 4)}
    assert {x for x, _, _, _ in overlapped} == {3, 7, 10}


@pytest.mark.parametrize(("height", "heights"), [(5, [4, 1]), (10, [8, 2]), (23, [8, 8, 4, 2, 1])])
def test_a_strip_is_as_high_as_a_construct_may_be(height, heights):
    """VCR paper, 2.2.1, with L = 8: what is 5 high begins with a strip of 4, and 10 with one of 8.

    So does a strip from the left.
    """
    for side in (0, 1):
        box = [3, 3]
        box[side] = height
        pieces = decomposition.decompose_rectangle(6, 6, *box, (8, 8), overlapped=False)
        strips = {piece[side]: piece[2 + side] for piece in pieces}
        begins = [6 + sum(heights[:i]) for i in range(len(heights))]
        assert strips == dict(zip(begins, heights, strict=True))


sizes = st.integers(1, 40)
longest_sides = st.sampled_from([1 << k for k in range(5)])


@given(width=sizes, height=sizes, x=longest_sides, y=longest_sides, over=st.booleans())
def test_pieces_of_a_box_cover_it_and_nothing_else(width, height, x, y, over):
    times = np.zeros((60, 60), int)
    for a, b, w, h in decomposition.decompose_rectangle(9, 7, width, height, (x, y), over):
        assert w <= x
        assert h <= y
        times[a : a + w, b : b + h] += 1
    inside = np.zeros_like(times, bool)
    inside[9 : 9 + width, 7 : 7 + height] = True
    assert (times[~inside] == 0).all()
    assert (times[inside] >= 1).all()
    assert over or (times[inside] == 1).all()


@given(width=sizes, height=sizes, x=longest_sides, y=longest_sides, over=st.booleans())
def test_the_kernel_decomposes_a_box_as_the_paper_does(width, height, x, y, over):
    across = 60
    pieces = decomposition.decompose_rectangle(9, 7, width, height, (x, y), over)
    along, up = (9, 8 + width), (7, 6 + height)  # first and last cell, all of them covered whole
    spans = np.array([*along, *along, *up, *up])
    numbers, ids = np.empty(0, np.int64), np.empty(0, np.int32)
    entries, exact = np.zeros(1, np.int64), np.ones(1, np.uint8)
    decompose_boxes(spans, exact, x, y, over, across, entries, numbers, ids)
    assert entries.tolist() == [len(pieces)], "before there is room for just so many"
    numbers, ids = np.empty(len(pieces), np.int64), np.empty(len(pieces), np.int32)
    entries[0] = 0
    decompose_boxes(spans, exact, x, y, over, across, entries, numbers, ids)
    assert numbers.tolist() == [
        decomposition.number_rectangle(*piece, (x, y), across) for piece in pieces
    ]
    assert entries.tolist() == [len(pieces)]
    assert ids.tolist() == [0] * len(pieces)


def constructs_of(longest, across, down):
    """Return all constructs (x, y, width, height), in the order of eq. 1."""
    widths, heights = ([1 << i for i in range(side.bit_length())] for side in longest)
    return [
        (x, y, width, height)
        for y in range(down)
        for x in range(across)
        for height in heights
        for width in widths
    ]


def is_around(x, y, construct):
    """Tell whether a closed construct contains a point."""
    left, bottom, width, height = construct
    return left <= x <= left + width and bottom <= y <= bottom + height


CASES = [(0.5, 0.5), (0, 0.25), (0.75, 0), (0, 0)]  # beyond lattice lines: the cases of covers


@pytest.mark.parametrize("longest", SIDES)
def test_covers_have_constant_size_and_identical_gaps(longest):
    """Theorems 1 and 2, from the rectangles themselves: those that contain a point, by place."""
    constructs = constructs_of(longest, 40, 26)
    for case, (dx, dy) in enumerate(CASES):
        covers = [
            [i for i, each in enumerate(constructs) if is_around(x + dx, y + dy, each)]
            for x, y in ((16, 8), (20, 9), (21, 15))
        ]
        assert len(covers[0]) == decomposition.count_cover(longest, case & 1, case >> 1)
        for cover in covers:
            assert np.diff(cover).tolist() == np.diff(covers[0]).tolist()


@pytest.mark.parametrize("longest", SIDES)
def test_runs_are_the_covers_of_a_point(longest):
    """2.3.2: numbers by their distances from the pivot, also where the boundary cuts them off."""
    across = 40
    constructs = constructs_of(longest, across, 26)
    each = len(constructs) // (across * 26)
    runs = decomposition.find_cover_runs(longest, across, closed=True)
    for case, (dx, dy) in enumerate(CASES):
        own = slice(runs.cover[case], runs.cover[case + 1])
        # The papers' pivots: (a - L), and between lines (floor + 1 - L).
        back_x = longest[0] - (1 if dx else 0)
        back_y = longest[1] - (1 if dy else 0)
        for x, y in ((20, 9), (0, 0), (1, 12), (19, 2)):
            pivot = each * (x - back_x + across * (y - back_y))
            numbers = [
                pivot + number
                for a, b, begin, count in zip(*(r[own] for r in runs[1:]), strict=True)
                if a <= x and b <= y
                for number in range(begin, begin + count)
            ]
            expected = [i for i, c in enumerate(constructs) if is_around(x + dx, y + dy, c)]
            assert sorted(numbers) == expected
    assert (runs.run_first >= 0).all(), "the pivot is before all of them"
    between = decomposition.find_cover_runs(longest, across, closed=False)
    assert between.cover.tolist() == [0, *[len(between.run_x)] * 4]
    for run, first in zip(runs[1:], between[1:], strict=True):
        assert run[: len(first)].tolist() == first.tolist()
    x, y = longest
    assert len(between.run_x) == 2 * x * y - x - y + 1


@pytest.mark.parametrize("lattice", ["fitted", "published"])
@pytest.mark.parametrize("decomposition", ["simple", "overlapped"])
@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("longest", [None, 1, [4, 4], [8, 2]], ids=str)
@pytest.mark.parametrize(
    "shape",
    [shapes.integers, shapes.squares, shapes.with_nulls, shapes.half_planes, shapes.elongated],
    ids=lambda s: s.__name__,
)
def test_rectangles_with_every_option(shape, longest, hashed, decomposition, lattice):
    work = shape(np.random.default_rng(3))
    index = Rectangles.build(
        work.conjunctions,
        work.floats,
        longest=longest,
        decomposition=decomposition,
        hashed=hashed,
        lattice=lattice,
    )
    assert bool(len(index.layout.hashed)) == hashed
    if longest is not None:
        sides = [longest, longest] if isinstance(longest, int) else longest
        assert index.layout.longest.tolist() == sides
    shapes.check_equal_to_numpy(index, work)


@pytest.mark.parametrize("decomposition", ["simple", "overlapped"])
def test_a_hash_table_is_never_more_than_half_full(decomposition):
    """It grows with the constructs that insertion activates."""
    rng = np.random.default_rng(3)
    low = rng.integers(0, 900, (2, 700))
    work = shapes.Boxes(low, low + rng.integers(1, 40, (2, 700)), [[0], [0]], [0, 0])
    options = {"longest": 8, "decomposition": decomposition, "hashed": True}
    index = Rectangles.build(work.conjunctions, work.floats, **options)
    sizes = [len(index.layout.hashed)]
    for seed in range(1, 5):
        low = np.random.default_rng(seed).integers(0, 900, (2, 700 * seed))
        more = shapes.Boxes(low, low + 13, [[0], [0]], [0, 0])
        index.insert(more.conjunctions)
        activated = len(np.unique(index.layout.hashed[index.layout.hashed >= 0]))
        assert activated == len(index.layout.start) - 1
        assert 2 * activated <= len(index.layout.hashed) <= 4 * activated
        sizes.append(len(index.layout.hashed))
    assert sizes[-1] >= 4 * sizes[0]


def test_sides_are_chosen_each_for_its_axis():
    """Boxes that are long along one attribute have constructs that are long there."""
    rng = np.random.default_rng(3)
    low = rng.integers(0, 500, (2, 9000))
    for long, side in ((0, [400, 3]), (1, [3, 400])):
        high = low + rng.integers(0, np.array([side]).T, (2, 9000))
        work = shapes.Boxes(low, high, rng.integers(0, 600, (2, 200)), [0, 0])
        index = Rectangles.build(work.conjunctions, work.floats)
        chosen = index.layout.longest.tolist()
        assert chosen[long] > chosen[1 - long] == 1
        shapes.check_equal_to_numpy(index, work)


def test_boxes_on_whole_numbers_need_no_accept():
    work = shapes.integers(np.random.default_rng(3))
    assert Rectangles.build(work.conjunctions, work.floats).proven


@pytest.mark.parametrize("longest", [0, -4, 3, 12, 2**13, True, 4.0])
def test_lengths_are_powers_of_two(longest):
    work = shapes.squares(np.random.default_rng(3))
    for index in (Intervals, Rectangles):
        with pytest.raises(RuleError, match="power of two"):
            index.build(work.conjunctions, work.floats, longest=longest)
    for pair in ([longest, 4], [4, longest], [4, 4, 4], [4], [], (4, 4)):
        with pytest.raises(RuleError, match=r"a pair of them such as \[16, 8\]"):
            Rectangles.build(work.conjunctions, work.floats, longest=pair)


def answers(conditions, schema, events, index):
    rules = tocsin.Rules(schema, index=index)
    rules.add_many(pa.table({"id": list(conditions), "where": list(conditions.values())}))
    rules.merge()
    assert rules.plan().parts[0].index == index
    assert rules.count(events).sum() == len(rules.match(events))
    return sorted(rules.match(events))


def test_a_lattice_of_whole_numbers_begins_on_one():
    """Most ends lie within quantiles, which lie between whole numbers."""
    schema = {"x": "integer", "y": "integer"}
    band = "y BETWEEN 0 AND 3 AND x BETWEEN"
    conditions = {f"{i}": f"{band} {1000 + i} AND {1010 + i}" for i in range(500)}
    conditions |= {"a": f"{band} 498 AND 520", "b": f"{band} 499 AND 550"}
    events = [{"x": x, "y": 1} for x in (*range(490, 560), *range(1000, 1020))]
    ends = {i: where.split() for i, where in conditions.items()}
    mirrored = {i: f"{band} -{words[-1]} AND -{words[-3]}" for i, words in ends.items()}
    for chosen, sign in ((conditions, 1), (mirrored, -1)):
        asked = [e | {"x": sign * e["x"]} for e in events]
        found = answers(chosen, schema, asked, "rectangles")
        assert found == answers(chosen, schema, asked, "exhaustive")
        assert len(found) > 100


def test_integers_that_no_float_tells_apart():
    schema = {"n": "integer", "m": "integer"}
    far = 2**60
    conditions = {
        "r1": f"n BETWEEN {far + 1} AND {far + 5} AND m BETWEEN 0 AND 3",
        "r2": f"n BETWEEN {far + 300} AND {far + 600} AND m BETWEEN 0 AND 3",
    }
    events = [{"n": far + d, "m": 1} for d in (0, 1, 5, 6, 100, 299, 300, 600, 601)]
    found = answers(conditions, schema, events, "rectangles")
    assert found == answers(conditions, schema, events, "exhaustive")
    assert len(found) == 4


def test_more_entries_than_offsets_can_count(monkeypatch):
    monkeypatch.setattr(posting_lists, "MAX_ENTRIES", 50)
    rules = tocsin.Rules({"x": "integer", "y": "integer"}, index="rectangles")
    bands = [f"x BETWEEN {i} AND {i + 20} AND y BETWEEN {i} AND {i + 9}" for i in range(99)]
    with pytest.raises(tocsin.TocsinError, match="split them over several Rules"):
        rules.add_many(pa.table({"id": range(99), "where": bands}))
