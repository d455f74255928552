"""The worked sequences of the thesis (4.2.1)."""

import numpy as np
import pytest

from tocsin import similarity
from tocsin.similarity import ego
from tocsin.similarity.closeness import read_closeness
from tocsin.similarity.output import collect_pairs


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


def test_slabs_without_inactive_dimensions():
    """Fig. 4.2(a): two slabs, at least two cells thick in each dimension, two cells apart."""
    a, b = ((0, 0, 0), (1, 7, 7)), ((4, 0, 0), (5, 7, 7))
    assert not ego.are_apart(sequence(*a), 0, 1, sequence(*b), 0, 1, 3)
    assert ego.are_disjoint(*rectangle(*a), *rectangle(*b))


def pairs_of(join):
    return list(zip(*(side.tolist() for side in collect_pairs(join)), strict=True))


def test_each_join_prunes_by_its_own_heuristic():
    """Fig. 4.2(b), as the cells of points that are all close: EGO compares them, EGO* does not."""
    points, closeness = np.zeros((2, 3)), read_closeness(1.0, "l2", False)
    a, b = sequence((0, 1, 3), (0, 2, 2)), sequence((0, 5, 6), (0, 6, 3))
    far = sequence((2, 5, 6), (2, 6, 3))  # two apart in an inactive dimension
    for join, cells, count in (
        (ego.EgoJoin, b, 4), (ego.EgoStarJoin, b, 0), (ego.EgoJoin, far, 0),
        (ego.EgoStarJoin, far, 0),
    ):  # fmt: skip
        search = join(points, points, closeness, False)
        search._sides = [
            (rows, own, order)
            for (rows, _, order), own in zip(search._sides, (a, cells), strict=True)
        ]
        assert len(pairs_of(search)) == count


@pytest.mark.parametrize("join", [ego.EgoJoin, ego.EgoStarJoin])
@pytest.mark.parametrize(("n", "m"), [(5, 40), (37, 9), (70, 61)])
def test_sequences_are_halved_until_both_are_short(join, n, m):
    """Where all points are close, pairs come in the order of the recursion (4.2.1)."""
    rng = np.random.default_rng(0)
    a, b = rng.random((n, 2)), rng.random((m, 2))

    def recurse(rows, columns):
        if max(len(rows), len(columns)) <= ego.SHORT:
            return [(i, j) for i in rows for j in columns]
        halves = []
        for each in (rows, columns):
            middle = len(each) // 2
            is_long = len(each) > ego.SHORT
            halves.append([each[:middle], each[middle:]] if is_long else [each])
        return [pair for left in halves[0] for right in halves[1] for pair in recurse(left, right)]

    search = join(a, b, read_closeness(9.0, "l2", False), False)
    orders = [order.tolist() for _, _, order in search._sides]
    assert pairs_of(search) == recurse(*orders)


def test_ego_star_prunes_whatever_ego_prunes():
    """4.2.1: and never a pair of sequences that have points in neighbouring cells."""
    rng = np.random.default_rng(0)
    pruned = [0, 0]
    for _ in range(2000):
        d = int(rng.integers(1, 4))
        a, b = rng.integers(0, 5, (2, 3, d))
        for cells in (a, b):  # some dimensions are inactive
            inactive = rng.integers(0, d + 1)
            cells[:, :inactive] = cells[0, :inactive]
        a, b = sorted(a.tolist()), sorted(b.tolist())
        is_close = any(np.abs(np.subtract(p, q)).max() < 2 for p in a for q in b)
        by_ego = ego.are_apart(sequence(*a), 0, 2, sequence(*b), 0, 2, d)
        by_star = ego.are_disjoint(*rectangle(a[0], a[2]), *rectangle(b[0], b[2]))
        assert by_star >= by_ego
        assert not (by_star and is_close)
        pruned = [pruned[0] + by_ego, pruned[1] + by_star]
    assert 50 < pruned[0] < pruned[1]


def test_points_are_in_epsilon_grid_order():
    """EGO-sort: lexicographic by cells of a width of epsilon, and a hair."""
    rng = np.random.default_rng(0)
    points, closeness = rng.random((300, 3)), read_closeness(0.21, "l2", False)
    points[0], points[1] = 0, 1  # so that cells begin at 0
    join = ego.EgoStarJoin(points, points, closeness, True)
    _, cells, order = join._sides[0]
    expected = [tuple(int(x / 0.21) for x in points[i].tolist()) for i in order]
    assert [tuple(cell) for cell in cells.reshape(-1, 3).tolist()] == expected == sorted(expected)


def test_memory():
    """4.1 has 32 x 4 + 4 bytes per point of 32 dimensions; float64, int64 and cells take more."""
    points = np.random.default_rng(0).random((500, 32))
    join = ego.EgoStarJoin(points, points, read_closeness(0.5, "l2", False), True)
    assert sum(each.nbytes for each in join._sides[0]) == 500 * (32 * 8 + 8 + 32 * 4)


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
