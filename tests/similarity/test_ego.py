"""The worked sequences of the thesis (4.2.1)."""

import numpy as np
import pytest

from tocsin import similarity
from tocsin.similarity import ego


def sequence(*cells):
    return np.array(cells, np.int32).reshape(-1)


def rectangle(first, last):
    cells, d = sequence(first, last), len(first)
    low, high = np.empty(d, np.int64), np.empty(d, np.int64)
    ego.bound_sequence(cells, 0, 1, d, low, high)
    return low, high


def test_ego_recurses_where_ego_star_prunes():
    """Fig. 4.2(b): one inactive dimension, in which the sequences are equal."""
    a, b = sequence((0, 1, 3), (0, 2, 2)), sequence((0, 5, 6), (0, 6, 3))
    assert not ego.are_apart(a, 0, 1, b, 0, 1, 3)
    assert ego.are_disjoint(*rectangle((0, 1, 3), (0, 2, 2)), *rectangle((0, 5, 6), (0, 6, 3)))


def test_a_bounding_rectangle():
    low, high = rectangle((1, 2, 3, 4), (1, 2, 9, 4))
    assert low.tolist() == [1, 2, 3, 0]
    assert high.tolist() == [1, 2, 9, ego.MAX_CELL]


def test_inactive_dimensions_two_apart():
    """(2, 7, 4, 1) to (2, 7, 6, 1) has two inactive dimensions."""
    a = sequence((2, 7, 4, 1), (2, 7, 6, 1))
    assert ego.are_apart(a, 0, 1, sequence((2, 9, 4, 1), (2, 9, 4, 9)), 0, 1, 4)
    assert not ego.are_apart(a, 0, 1, sequence((2, 8, 4, 1), (2, 8, 4, 9)), 0, 1, 4)
    # The third dimension is active in one of them, however far they are apart there.
    assert not ego.are_apart(a, 0, 1, sequence((2, 8, 40, 1), (2, 8, 40, 9)), 0, 1, 4)


@pytest.mark.parametrize("apart", [0, 1, 2])
def test_rectangles_are_expanded_by_one(apart):
    low, high = np.array([3]), np.array([5])
    assert ego.are_disjoint(low, high, high + apart, high + apart) == (apart == 2)
    assert ego.are_disjoint(low, high, low - apart, low - apart) == (apart == 2)


def test_dimensions_that_separate_points_come_first():
    rng = np.random.default_rng(0)
    cells = np.column_stack([rng.integers(0, k, 1000) for k in (1, 50, 5)]).astype(np.int32)
    assert ego.sort_dimensions(cells, cells).tolist() == [1, 2, 0]


@pytest.mark.parametrize("method", ["ego", "ego_star"])
def test_the_order_of_dimensions_does_not_change_pairs(method):
    rng = np.random.default_rng(0)
    a, b = rng.random((400, 4)) * [0.1, 5, 1, 1], rng.random((300, 4)) * [0.1, 5, 1, 1]
    found = similarity.join(a, b, 0.3, method=method).sorted()
    ordered = similarity.join(a, b, 0.3, method=f"{method}_ordered").sorted()
    assert list(found) == list(ordered)
    assert len(found) > 100
