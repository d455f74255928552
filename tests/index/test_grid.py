"""The grid and the tree beyond what every index must pass."""

import numpy as np
import pytest

from tests.conformance import boxes as shapes
from tocsin.index.cells.grid import (
    Grid,
    choose_resolution,
    compute_cell_side,
    estimate_lists,
    estimate_published_bytes,
)
from tocsin.index.cells.layout import CHILD, FULL, HEAD, HEAD_BYTES, PARTIAL
from tocsin.index.cells.ntree import NTree


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
    assert layout.heads.nbytes == HEAD_BYTES * (across * down + 1)


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


def test_full_lists_stand_in_inner_nodes():
    index, _ = built(NTree, shapes.all_sizes, fan_out=4)
    heads = index.layout.heads.reshape(-1, HEAD)[:-1]
    inner = heads[heads[:, CHILD] >= 0]
    assert len(inner)
    assert (inner[:, PARTIAL] > inner[:, FULL]).any()
