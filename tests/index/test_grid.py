"""The grid and the tree beyond what every index must pass."""

import numpy as np
import pytest

from tests.conformance import boxes as shapes
from tocsin.errors import RuleError
from tocsin.index.cells import published_grid
from tocsin.index.cells.codes import NO_PARENT, encode_key, place_boxes
from tocsin.index.cells.grid import Grid, choose_resolution
from tocsin.index.cells.layout import BITS, CODES, END, FULL, HEAD, HEAD_BYTES, PARTIAL
from tocsin.index.cells.ntree import NTree
from tocsin.index.cells.published_grid import (
    compute_cell_side,
    estimate_lists,
    estimate_published_bytes,
)
from tocsin.index.plane import build_boxes
from tocsin.model.conjunctions import take
from tocsin.model.encoding import HIGHEST, NULL


def built(index, shape, **options):
    work = shape(np.random.default_rng(5))
    return index.build(work.conjunctions, work.floats, **options), work


def test_the_paper_asks_for_a_thousand_by_a_thousand():
    assert 1 / compute_cell_side(25_000, 0.01) == pytest.approx(1000)
    assert choose_resolution(25_000, 0.01, 0.01, np.inf) == (1000, 1000)


def test_both_cases_of_the_formula_meet_where_they_should():
    m = 10_000
    q = 0.5 / m**0.5
    above, below = compute_cell_side(m, q * 1.000001), compute_cell_side(m, q * 0.999999)
    assert above == pytest.approx(below, rel=1e-4)
    assert compute_cell_side(m, 0.0) == pytest.approx(1 / m**0.5)


def test_each_case_of_the_formula():
    """3.2.4, with 1 / (2 sqrt(m)) = 0.005: above it 1 / (4 q m), below it 1 / sqrt(m) - q."""
    for q, side in ((0.02, 0.00125), (0.006, 1 / 240), (0.004, 0.006), (0.001, 0.009)):
        assert compute_cell_side(10_000, q) == pytest.approx(side)


def test_the_published_grid_takes_8_million_bytes_and_200_thousand_times_its_lists():
    """The example of 3.2.5: 1000 x 1000 cells, 25,000 queries, pointers of 4 bytes."""
    side = compute_cell_side(25_000, 0.01)
    for lists in (0, 1, 100, 1000):
        expected = 8_000_000 + 200_000 * lists
        assert estimate_published_bytes(side, 25_000, lists) == pytest.approx(expected)
    assert estimate_published_bytes(side, 25_000, 1000) == pytest.approx(208_000_000)
    assert estimate_published_bytes(side, 25_000, 1000, pointer=8) == pytest.approx(416_000_000)
    # "It is normally much smaller, around 100."
    assert estimate_lists(side, 0.01) == pytest.approx(121)


@pytest.mark.parametrize(("q", "c"), [(0.01, 0.001), (0.01, 0.01), (0.001, 0.01)])
def test_the_general_formula_agrees_with_that_for_squares(q, c):
    """Both of 3.2.5, the second with N_list = m(q + c)^2; and that from full and partial lists."""
    m = 25_000
    general = estimate_published_bytes(c, m, estimate_lists(c, q))
    assert general == pytest.approx(2 * 4 * (1 + m * (q + c) ** 2) / c**2)
    if q >= c:
        assert m * (q + c) ** 2 == pytest.approx(4 * q * m * c + m * (q - c) ** 2)


def test_squares_are_in_as_many_lists_as_the_formula_says():
    """Of a built grid the lists are those of 3.2.5; its bytes are not."""
    rng = np.random.default_rng(1)
    low = rng.random((2, 2500)) * 0.98
    work = shapes.floats(low, low + 0.02, rng.random((2, 10)))
    layout = Grid.build(work.conjunctions, work.floats).layout
    across, down = layout.across.tolist()  # one node: nothing is crowded
    assert len(layout.ids) / 2500 == pytest.approx(estimate_lists(1 / across, 0.02), rel=0.05)
    assert layout.heads.nbytes == HEAD_BYTES * across * down


def test_a_budget_makes_it_coarser():
    fine = choose_resolution(25_000, 0.01, 0.01, np.inf)
    coarse = choose_resolution(25_000, 0.01, 0.01, 300_000)
    assert coarse[0] < fine[0]
    assert 25_000 * (0.01 * coarse[0] + 1) * (0.01 * coarse[1] + 1) <= 330_000


def test_cells_have_the_shape_of_boxes():
    nx, ny = choose_resolution(10_000, 0.1, 0.001, 100_000)
    assert ny / nx == pytest.approx(100, rel=0.3)


def test_a_crowded_cell_has_a_grid_of_its_own():
    index, work = built(Grid, shapes.half_in_a_corner)
    assert len(index.layout.first_cell) > index.layout.roots[0]
    shapes.check_equal_to_numpy(index, work)


def test_large_boxes_have_a_grid_of_their_own():
    index, work = built(Grid, shapes.all_sizes)
    assert index.layout.roots[0] > 1
    shapes.check_equal_to_numpy(index, work)


def test_on_whole_numbers_nothing_is_left_to_accept():
    index, _ = built(Grid, shapes.integers)
    assert index.proven
    assert (index.layout.gap > 0).all()


@pytest.mark.parametrize("shape", [shapes.whole_numbers, shapes.integers, shapes.large_on_pixels])
@pytest.mark.parametrize("kind", [Grid, NTree])
def test_events_outside_of_the_domain_have_codes_that_no_bound_has(kind, shape):
    """Else each of them, and there may be many, is matched once more by comparing keys."""
    index, work = built(kind, shape)
    g, n = index.layout, work.conjunctions.size
    boxes = build_boxes(work.conjunctions, g.attribute, g.floats)
    numbers, root = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    codes = place_boxes(g.nodes, boxes, numbers, root, np.full(n, NO_PARENT)).codes.reshape(n, 2, 2)
    for axis in range(2):
        below = encode_key.py_func(NULL, g.floats[axis], *axis_of(g, axis))
        above = encode_key.py_func(HIGHEST, g.floats[axis], *axis_of(g, axis))
        assert (below, above) == (0, (g.across[axis] << BITS) - 1)
        assert not np.isin(codes[:, axis], [below, above]).any()


def axis_of(g, axis):
    return [
        getattr(g, f)[axis] for f in ("low_key", "high_key", "origin", "scale", "gap", "across")
    ]


def test_more_than_two_attributes_are_left_to_accept():
    index, _ = built(Grid, shapes.three_attributes)
    assert not index.proven
    assert (index.layout.ids < 0).all()


@pytest.mark.parametrize("n", [2, 4, 32])
@pytest.mark.parametrize("shape", shapes.SHAPES, ids=lambda s: s.__name__)
def test_trees_of_every_width(shape, n):
    index, work = built(NTree, shape, fan_out=n)
    shapes.check_equal_to_numpy(index, work)


def test_a_quad_tree_is_deep_where_it_is_crowded():
    index, _ = built(NTree, shapes.half_in_a_corner, fan_out=2)
    assert (index.layout.across == 2).all()
    assert len(index.layout.first_cell) > 100


@pytest.mark.parametrize("n", [2, 32])
def test_leaves_are_short_where_half_of_the_boxes_lie_in_a_corner(n):
    """Elongated boxes, hyper-skewed (3.3.3): leaves above must not use up the bytes."""
    rng = np.random.default_rng(4)
    low = rng.random((2, 10_000))
    side = np.where(np.arange(10_000) % 2, [[0.1], [0.001]], [[0.001], [0.1]])
    low[:, 5000:] *= 0.001
    side[:, 5000:] *= 0.001
    work = shapes.floats(low, low + side, low[:, 4900:5100] + 1e-7)
    index = NTree.build(work.conjunctions, work.floats, fan_out=n)
    heads = index.layout.heads.reshape(-1, HEAD)
    longest = (heads[:, END] - heads[:, PARTIAL]).max()
    assert longest < 1000, "of 5,000 in the corner"
    shapes.check_equal_to_numpy(index, work)


@pytest.mark.parametrize("capacity", [8, 32, 128])
def test_half_of_the_boxes_in_a_corner_are_divided_whatever_the_capacity(capacity):
    """Hyper-skewed squares (3.3): the leaf over the corner is the only long one of its tier."""
    rng = np.random.default_rng(4)
    low, side = rng.random((2, 10_000)) * 0.99, np.full(10_000, 0.01)
    low[:, 5000:] *= 0.001
    side[5000:] = 1e-5
    work = shapes.floats(low, low + side, low[:, 4900:5100] + 1e-7)
    options = {"fan_out": 2, "leaf_capacity": capacity, "bytes_per_box": 640}
    index = NTree.build(work.conjunctions, work.floats, **options)
    heads = index.layout.heads.reshape(-1, HEAD)
    assert (heads[:, END] - heads[:, PARTIAL]).max() < 500
    shapes.check_equal_to_numpy(index, work)


def test_a_tree_takes_no_more_bytes_than_it_may():
    small, work = built(NTree, shapes.elongated, fan_out=2, bytes_per_box=2000)
    large, _ = built(NTree, shapes.elongated, fan_out=2, bytes_per_box=10_000)
    assert small.nbytes < 2 * 2000 * 4000
    assert small.nbytes < large.nbytes
    shapes.check_equal_to_numpy(large, work)


def test_full_lists_stand_in_inner_nodes():
    index, _ = built(NTree, shapes.all_sizes, fan_out=4)
    heads = index.layout.heads.reshape(-1, HEAD)
    inner = heads[heads[:, END] < 0]
    assert len(inner)
    assert (inner[:, PARTIAL] > inner[:, FULL]).any()


@pytest.mark.parametrize("n", [2, 5, 32])
def test_the_tree_has_the_lists_of_the_thesis(n):
    """3.2.3: a box is in the full list of a node that it covers, and in no list below that node.

    A leaf has at most as many boxes that cover some of it as its capacity is. A full list of a leaf
    that is shorter than 16 is not kept apart: the boxes are in its partial list.
    """
    capacity, rng = 30, np.random.default_rng(7)
    low = rng.random((2, 1500)) * 0.6
    high = low + 0.4 * rng.random((2, 1500)) ** 3
    work = shapes.floats(low, high, rng.random((2, 300)))
    options = {"fan_out": n, "leaf_capacity": capacity, "bytes_per_box": 1_000_000}
    index = NTree.build(work.conjunctions, work.floats, **options)
    layout = index.layout
    low, high = low[layout.attribute], high[layout.attribute]
    heads = layout.heads.reshape(-1, HEAD)
    longest = inner = depth = 0
    # Nodes, their tiers, their squares, and the boxes that cover some of these.
    todo = [(0, 1, np.array([[-np.inf, np.inf]] * 2), np.arange(1500))]
    while todo:
        node, tier, square, boxes = todo.pop()
        depth = max(depth, tier)
        origin, scale = layout.origin[2 * node :][:2], layout.scale[2 * node :][:2]
        edges = origin[:, None] + np.arange(n + 1) * 16384 / scale[:, None]
        edges[:, 0], edges[:, -1] = square.T
        assert (np.diff(edges) > 0).all()
        for x, y in np.ndindex(n, n):
            cell = np.array([edges[0, x : x + 2], edges[1, y : y + 2]])
            own_low, own_high = low[:, boxes], high[:, boxes]
            meets = ((own_low < cell[:, 1:]) & (own_high >= cell[:, :1])).all(axis=0)
            covers = ((own_low <= cell[:, :1]) & (own_high >= cell[:, 1:])).all(axis=0)
            full, partial = boxes[covers], boxes[meets & ~covers]
            begin, middle, _, end = heads[layout.first_cell[node] + x * n + y].tolist()
            if end < 0:
                assert layout.ids[begin:middle].tolist() == full.tolist()
                assert len(partial) > capacity
                inner += len(full)
                todo.append((~end, tier + 1, cell, partial))
                continue
            if len(full) < 16:
                full, partial = full[:0], boxes[meets]
            assert layout.ids[begin:middle].tolist() == full.tolist()
            assert layout.ids[middle:end].tolist() == partial.tolist()
            longest = max(longest, int((meets & ~covers).sum()))
    assert longest <= capacity
    assert inner > 100
    assert depth > (2 if n < 32 else 1)
    shapes.check_equal_to_numpy(index, work)


@pytest.mark.parametrize("inserted", [False, True])
def test_boxes_beyond_a_child_at_the_rim_are_divided(inserted):
    """A child of a cell at the root's rim lies where most bounds are; others are outside of it."""
    rng = np.random.default_rng(0)
    groups = (1_000, 0, 1), (8_000, 1_000, 1_001), (1_000, 0, 100_000)
    low = np.concatenate([rng.uniform(a, b, (2, n)) for n, a, b in groups], axis=1)
    low = low[:, rng.permutation(low.shape[1])]
    points = low[:, rng.integers(0, low.shape[1], 300)] + 0.001
    work = shapes.floats(low, low + 0.002, points)
    every = np.arange(work.conjunctions.size)
    first = every[: 500 if inserted else len(every)]
    index = NTree.build(take(work.conjunctions, first), work.floats)
    for batch in np.array_split(every[len(first) :], 20):
        index.insert(take(work.conjunctions, batch))
    layout = NTree.from_arrays(index.conjunctions, index.arrays()).layout
    index.validate(2)
    heads = layout.heads.reshape(-1, HEAD)
    assert (heads[:, END] - heads[:, PARTIAL]).max() <= (200 if inserted else 100)
    shapes.check_equal_to_numpy(index, work)


# ------------------------------------------------------------ the grid as published


def lists_in_plain_python(low, high, n):
    """Return the full and the partial list of each of n x n cells of the unit square (3.2.3).

    Cells at the rim have no end there, since events may lie outside the rules' bounds.
    """
    full = [[[] for _ in range(n)] for _ in range(n)]
    partial = [[[] for _ in range(n)] for _ in range(n)]
    edges = [-np.inf, *(i / n for i in range(1, n)), np.inf]
    for box in range(low.shape[1]):
        (x0, y0), (x1, y1) = low[:, box], high[:, box]
        for x in range(n):
            for y in range(n):
                if edges[x + 1] <= x0 or edges[x] > x1 or edges[y + 1] <= y0 or edges[y] > y1:
                    continue
                covers_x = x0 <= edges[x] and edges[x + 1] <= x1
                covers_y = y0 <= edges[y] and edges[y + 1] <= y1
                (full if covers_x and covers_y else partial)[x][y].append(box)
    return full, partial


def in_unit_square(rng, queries, side):
    """Squares in the unit square whose bounds reach its corners."""
    low = rng.random((2, queries)) * (1 - side)
    low[:, 0], low[:, 1] = 0, 1 - side
    high = low + side
    high[:, 1] = 1
    return low, high


@pytest.mark.parametrize("full_lists", ["all", "long"])
@pytest.mark.parametrize("n", [1, 10, 37])
def test_the_published_grid_has_the_lists_that_plain_python_has(n, full_lists):
    """Fig. 3.2: n x n cells over the unit square, each with a full and a partial list."""
    low, high = in_unit_square(np.random.default_rng(3), 400, 0.27)
    work = shapes.floats(low, high, np.random.default_rng(4).random((2, 300)))
    index = Grid.build(work.conjunctions, work.floats, tiers="one", cells=n, full_lists=full_lists)
    layout = index.layout
    assert layout.across.tolist() == [n, n]
    axes = layout.attribute  # the more selective one is x
    full, partial = lists_in_plain_python(low[axes], high[axes], n)
    heads = layout.heads.reshape(-1, HEAD)
    for x in range(n):
        for y in range(n):
            head = heads[x * n + y]
            found = layout.ids[head[FULL] : head[PARTIAL]].tolist()
            tested = layout.ids[head[PARTIAL] : head[END]].tolist()
            if full_lists == "long" and len(full[x][y]) < 16:
                assert found == []
                assert tested == sorted(full[x][y] + partial[x][y])
            else:
                assert found == full[x][y]
                assert tested == partial[x][y]
    shapes.check_equal_to_numpy(index, work)


def test_the_formula_chooses_the_cells_and_full_lists_are_as_long_as_it_says():
    """3.2.4 and 3.2.5: no budget; 4 q m / c entries in partial lists, m (q - c)^2 / c^2 in full."""
    m, q = 2500, 0.02
    low, high = in_unit_square(np.random.default_rng(3), m, q)
    work = shapes.floats(low, high, np.random.default_rng(4).random((2, 300)))
    index = Grid.build(work.conjunctions, work.floats, tiers="one", full_lists="all")
    layout, c = index.layout, compute_cell_side(m, q)
    assert layout.across.tolist() == [200, 200]
    assert 1 / c == pytest.approx(200)
    partial = len(layout.words)
    assert partial == pytest.approx(4 * q * m / c, rel=0.02)
    assert len(layout.ids) - partial == pytest.approx(m * (q - c) ** 2 / c**2, rel=0.02)
    assert len(layout.ids) == pytest.approx(m * estimate_lists(c, q), rel=0.02)
    # Not bytes of ours, but the published ones of the lists that were built.
    published = estimate_published_bytes(1 / layout.across[0], m, len(layout.ids) / m)
    assert published == pytest.approx(8 * (1 + m * (q + c) ** 2) / c**2, rel=0.02)
    shapes.check_equal_to_numpy(index, work)


def test_squares_that_are_smaller_than_a_cell_are_in_partial_lists_only():
    """The second case of 3.2.4: m (q + c)^2 / c^2 entries, which is one for each cell."""
    m, q = 4900, 1 / 210
    low, high = in_unit_square(np.random.default_rng(3), m, q)
    work = shapes.floats(low, high, np.random.default_rng(4).random((2, 300)))
    index = Grid.build(work.conjunctions, work.floats, tiers="one", full_lists="all")
    layout, c = index.layout, 1 / 105  # 1 / 70 - q
    assert layout.across.tolist() == [105, 105]
    assert len(layout.ids) == len(layout.words)
    assert len(layout.ids) == pytest.approx(m * (q + c) ** 2 / c**2, rel=0.02)
    assert len(layout.ids) == pytest.approx(105 * 105, rel=0.02)
    shapes.check_equal_to_numpy(index, work)


def test_a_crowded_cell_of_the_directory_has_a_secondary_grid():
    """Fig. 3.3: hyper-skewed data; half of the queries fall within one cell."""
    rng = np.random.default_rng(5)
    low, side = rng.random((2, 6000)) * 0.99, np.full(6000, 0.01)
    low[:, 3000:] *= 0.01
    side[3000:] = 1e-4
    low[:, 0], low[:, 1] = 0, 0.99
    points = rng.random((2, 600))
    points[:, 300:] *= 0.01
    work = shapes.floats(low, low + side, points)
    index = Grid.build(work.conjunctions, work.floats, tiers="two", cells=50)
    layout = index.layout
    assert layout.roots[0] == 1
    assert layout.across.tolist() == [50, 50, 50, 50]
    ends = layout.heads.reshape(-1, HEAD)[:, END]
    assert np.flatnonzero(ends < 0).tolist() == [0]
    # The secondary grid lies over the square of its cell.
    # The first code and the last are for events outside.
    begin = layout.origin[2:] + 1 / layout.scale[2:]
    np.testing.assert_allclose(begin, 0.0, atol=1e-12)
    finer = (50 * CODES - 2) / (CODES - 1)
    np.testing.assert_allclose(layout.scale[2:], finer * layout.scale[:2], rtol=1e-9)
    shapes.check_equal_to_numpy(index, work)
    # Without `cells`, both follow the formula.
    chosen = Grid.build(work.conjunctions, work.floats, tiers="two").layout.across
    q = np.sqrt(side * side / (low + side).max(axis=1).prod()).mean()
    assert chosen[0] == chosen[1] == round(1 / compute_cell_side(6000, q))
    assert len(chosen) == 2 or chosen[2] == chosen[3]


@pytest.mark.parametrize("tiers", ["fitted", "one", "two"])
@pytest.mark.parametrize("shape", shapes.SHAPES, ids=lambda s: s.__name__)
def test_grids_as_published(shape, tiers, monkeypatch):
    monkeypatch.setattr(published_grid, "THRESHOLD", 60)
    monkeypatch.setattr(published_grid, "_MAX_SECONDARY_CELLS", 1 << 19)  # 327 secondary grids
    index, work = built(Grid, shape, tiers=tiers, cells=40, full_lists="all")
    assert index.layout.roots[0] == 1
    shapes.check_equal_to_numpy(index, work)


def test_more_cells_than_lists_can_count_are_refused():
    low, high = in_unit_square(np.random.default_rng(3), 4000, 0.9)
    work = shapes.floats(low, high, [[0.5], [0.5]])
    with pytest.raises(RuleError, match="lists of more than"):
        Grid.build(work.conjunctions, work.floats, tiers="one")
