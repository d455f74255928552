"""Virtual construct intervals as published: numbers, pieces and covers against plain Python.

Nothing here uses the numbers of `decomposition`: constructs are listed one by one, as in Figs. 2
and 3 of the stream paper, and a number is a place in that list.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests.conformance import boxes as shapes
from tocsin.index.constructs.intervals import published
from tocsin.index.constructs.intervals.index import Intervals
from tocsin.model.keys import EventBatch

KINDS = ["logarithmic", "simple"]
LENGTHS = [1, 2, 4, 8, 16]


def lengths_of(kind, longest):
    """Return the lengths that constructs have (2.2)."""
    return [n for n in range(1, longest + 1) if kind == "simple" or n in (1, 2, 4, 8, 16, 32, 64)]


def list_constructs(kind, longest, first, points):
    """Return the constructs in the order of their numbers: by begin, then by length."""
    lengths = lengths_of(kind, longest)
    return [(a, a + n) for a in range(first, first + points) for n in lengths]


def cut(x, y, kind, longest):
    """Return the pieces of [x, y] (2.3): from the left, each time the longest that fits."""
    pieces = []
    while x < y:
        length = max(n for n in lengths_of(kind, longest) if x + n <= y)
        pieces.append((x, x + length))
        x += length
    return pieces


def held_pieces(index, kind):
    """Return the pieces of each conjunction that an index holds, and whether it proves them."""
    g = index.layout
    longest = int(g.longest[0])
    points = (len(g.piece) - 1) // len(lengths_of(kind, longest))
    constructs = list_constructs(kind, longest, int(g.first[0]), points)
    assert len(constructs) == len(g.piece) - 1
    held = {}
    for number, construct in enumerate(constructs):
        for entry in g.piece_id[g.piece[number] : g.piece[number + 1]].tolist():
            held.setdefault(entry >> 1, []).append(construct)
    return {id_: sorted(pieces) for id_, pieces in held.items()}


def whole(rng, is_float, n=300):
    """Intervals with whole ends, and events on lattice points and, as floats, between."""
    low = rng.integers(-40, 100, (1, n))
    high = low + rng.integers(1, 60, n)
    if not is_float:
        return shapes.Boxes(low, high, rng.integers(-60, 190, (1, 400)), [0])
    return shapes.floats(low, high, rng.integers(-120, 380, (1, 400)) / 2)


def found_by(index, work):
    """Return the candidates of each event."""
    n = work.events.shape[1]
    out, offsets = np.empty(work.conjunctions.size * n, np.int32), np.zeros(n + 1, np.int64)
    assert index.candidates(EventBatch.whole(work.keys, len(work.floats)), offsets, out) == n
    return [out[offsets[i] : offsets[i + 1]].tolist() for i in range(n)]


@pytest.mark.parametrize("is_float", [False, True])
@pytest.mark.parametrize("longest", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_index_holds_the_pieces_of_each_interval_and_no_others(kind, longest, is_float):
    rng = np.random.default_rng(5)
    work = whole(rng, is_float)
    low, high = (
        whole_values(work.low[0], is_float),
        whole_values(work.high[0], is_float),
    )
    index = Intervals.build(
        work.conjunctions, work.floats, lattice="published", decomposition=kind, longest=longest
    )
    assert held_pieces(index, kind) == {
        i: cut(int(x), int(y), kind, longest)
        for i, (x, y) in enumerate(zip(low, high, strict=True))
    }
    assert index.proven, "ends are whole"
    shapes.check_equal_to_numpy(index, work)
    # The lattice is that of the bounds, and a point more at each end.
    g = index.layout
    assert g.first[0] == low.min() - 1
    assert len(g.piece) - 1 == (high.max() - low.min() + 3) * len(lengths_of(kind, longest))


def whole_values(keys, is_float):
    """Return whole numbers of keys."""
    if not is_float:
        return keys
    bits = np.where(keys >= 0, keys, shapes.NULL - keys)
    return bits.view(np.float64).astype(np.int64)


@pytest.mark.parametrize("longest", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_event_looks_at_the_constructs_that_cover_it(kind, longest):
    """Figs. 4 and 5: every construct is a rule, and an event finds as many as cover its value."""
    constructs = list_constructs(kind, longest, 0, 60)
    low, high = np.array(constructs, float).T
    values = [30.0, 30.5, 31.0, 45.25]
    work = shapes.floats([low], [high], [values])
    index = Intervals.build(
        work.conjunctions, work.floats, lattice="published", decomposition=kind, longest=longest
    )
    assert held_pieces(index, kind) == {i: [each] for i, each in enumerate(constructs)}
    k = longest.bit_length() - 1
    on = 2 * longest + k if kind == "logarithmic" else longest * (longest + 1) // 2 + longest
    between = 2 * longest - 1 if kind == "logarithmic" else longest * (longest + 1) // 2
    for value, found in zip(values, found_by(index, work), strict=True):
        covering = [i for i, (a, b) in enumerate(constructs) if a <= value <= b]
        assert sorted(found) == covering
        assert len(found) == (on if value == int(value) else between), "the paper's formula"
    assert len(index.layout.on_point) == on, "constructs that are looked at"
    assert len(index.layout.between) == between


@pytest.mark.parametrize("longest", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_the_differences_of_numbers_from_v_min(kind, longest):
    points = 3 * longest + 10
    constructs = list_constructs(kind, longest, 0, points)
    work = shapes.Boxes([[0]], [[points]], [[0]], [0])
    index = Intervals.build(
        work.conjunctions, work.floats, lattice="published", decomposition=kind, longest=longest
    )
    per_point, k = len(lengths_of(kind, longest)), longest.bit_length() - 1
    for j in range(longest, points - longest):
        on = [number for number, (a, b) in enumerate(constructs) if a <= j <= b]
        between = [number for number, (a, b) in enumerate(constructs) if a < j + 0.5 < b]
        # V_min of 2.4, as printed for SCI and for LCI.
        printed = (j - longest) * (k + 1) + k
        if kind == "simple":
            printed = (j - longest) * longest + longest - 1
        assert on[0] == printed
        assert [number - on[0] for number in on] == index.layout.on_point.tolist()
        assert [number - between[0] for number in between] == index.layout.between.tolist()
        assert between[0] == printed + per_point


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_that_share_an_end_find_their_interval_once(kind):
    work = shapes.floats([[0.0]], [[23.0]], [np.arange(-4, 56) / 2])
    index = Intervals.build(
        work.conjunctions, work.floats, lattice="published", decomposition=kind, longest=4
    )
    assert len(held_pieces(index, kind)[0]) > 5
    expected = [[0] if 0 <= value <= 23 else [] for value in np.arange(-4, 56) / 2]
    assert found_by(index, work) == expected
    counts = np.zeros(60, np.int64)
    index.count(EventBatch.whole(work.keys, 1), counts)
    assert counts.tolist() == [len(found) for found in expected]


def test_a_piece_that_is_left_out_needs_no_room():
    work = shapes.Boxes([[0]], [[8]], [[4]], [0])
    index = Intervals.build(work.conjunctions, work.floats, lattice="published", longest=4)
    out, offsets = np.array([7, 7], np.int32), np.zeros(2, np.int64)
    assert index.candidates(EventBatch.whole(work.keys, 1), offsets, out[:1]) == 1
    assert out.tolist() == [0, 7], "nothing is written beyond"


def test_ends_that_are_not_whole_are_expanded_and_left_to_accept():
    low = [2.5, 3.0, 4.0, 3.0, -1.5, np.nan]
    high = [4.25, 5.0, 4.0, 3.5, -1.25, 3.0]
    values = [1.9, 2.0, 2.4, 2.5, 3.25, 3.5, 4.0, 4.1, 4.25, 5.0, 5.5, -1.5, -1.3, -1.0, -99.0]
    work = shapes.floats([low], [high], [values])
    index = Intervals.build(work.conjunctions, work.floats, lattice="published", longest=2)
    # The lattice is -3 to 6, and -3 stands for all that is below -2.
    assert held_pieces(index, "logarithmic") == {
        ~0: [(2, 4), (4, 5)],
        1: [(3, 5)],
        ~2: [(4, 5)],
        ~3: [(3, 4)],
        ~4: [(-2, -1)],
        ~5: [(-3, -1), (-1, 1), (1, 3)],
    }
    assert not index.proven
    shapes.check_equal_to_numpy(index, work)


@given(
    bounds=st.lists(
        st.tuples(
            st.integers(-30, 30) | st.floats(-9, 9) | st.sampled_from([np.nan, -np.inf, 1e300]),
            st.integers(0, 40) | st.floats(0, 9) | st.sampled_from([np.nan, np.inf]),
        ),
        min_size=1,
        max_size=9,
    ),
    kind=st.sampled_from(KINDS),
    longest=st.sampled_from([None, 1, 2, 8]),
)
def test_any_bounds(bounds, kind, longest):
    low = np.array([a for a, _ in bounds], float)
    high = np.array([a + b if a == a else b for a, b in bounds], float)
    values = np.concatenate([np.arange(-80, 160) / 2, [np.inf, -np.inf, np.nan, 1e300, -1e300]])
    work = shapes.floats([low], [high], [values])
    index = Intervals.build(
        work.conjunctions, work.floats, lattice="published", decomposition=kind, longest=longest
    )
    index.validate(1)
    truth = work.truth()
    for candidates, expected in zip(found_by(index, work), truth, strict=True):
        numbers = [c if c >= 0 else ~c for c in candidates]
        assert len(numbers) == len(set(numbers)), "found twice"
        assert set(np.flatnonzero(expected).tolist()) <= set(numbers), "missed"
        assert all(expected[c] for c in candidates if c >= 0), "proven, but false"


@pytest.mark.parametrize("shape", shapes.SHAPES, ids=lambda s: s.__name__)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("longest", [None, 4])
def test_boxes_of_every_shape(shape, kind, longest):
    work = shape(np.random.default_rng(11))
    index = Intervals.build(
        work.conjunctions, work.floats, lattice="published", decomposition=kind, longest=longest
    )
    index.validate(len(work.floats))
    shapes.check_equal_to_numpy(index, work)


@pytest.mark.parametrize(
    ("width", "kind", "longest"),
    [(20, "logarithmic", 8), (40, "logarithmic", 16), (10**5, "logarithmic", 4096),
     (40, "simple", 16), (10**4, "simple", 64), (1, "simple", 1)],
)  # fmt: skip
def test_the_longest_construct_suits_the_mean_length(width, kind, longest):
    """Fig. 12 finds L = 8 best for sides of 1 to 20, and 16 for sides of 1 to 40."""
    low = np.arange(100)[None] * 3
    high = low + np.linspace(1, width, 100).astype(int)
    work = shapes.Boxes(low, high, low, [0])
    index = Intervals.build(work.conjunctions, work.floats, lattice="published", decomposition=kind)
    assert index.layout.longest.tolist() == [longest]


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_too_far_apart_for_a_lattice_lie_beyond_it(kind):
    low = np.concatenate([5_000 + 3 * np.arange(400), [-(10**12), 10**15]])[None]
    high = low + 30
    events = np.concatenate([low[0] + 30, low[0] - 1, [0, 10**14]])[None]
    work = shapes.Boxes(low, high, events, [0])
    index = Intervals.build(work.conjunctions, work.floats, lattice="published", decomposition=kind)
    assert len(index.layout.piece) - 1 <= published.MOST_CONSTRUCTS
    held = held_pieces(index, kind)
    assert set(range(400)) <= set(held), "most are proven"
    assert {~400, ~401} <= set(held)
    shapes.check_equal_to_numpy(index, work)


def test_more_conjunctions_than_entries_can_number(monkeypatch):
    monkeypatch.setattr(published, "_MOST_NUMBERS", 5)
    rules = tocsin.Rules({"x": "integer"}, "intervals", {"lattice": "published"})
    with pytest.raises(tocsin.RuleError, match="at most 5 conjunctions, got 9"):
        rules.add_many([{"id": i, "where": f"x BETWEEN {i} AND {i + 2}"} for i in range(9)])
