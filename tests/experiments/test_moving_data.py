"""Workload and page model are those of the thesis, 2.6."""

import numpy as np
import pytest

from experiments.moving_data import (
    CITY_MILES,
    CITY_SPEED,
    READINGS,
    SIDE,
    SPEEDS,
    brute_force,
    draw_speeds,
    make_world,
    packing,
    pages,
    query_index,
    sorting_passes,
)


@pytest.mark.parametrize(("queries", "expected"), [(1_000, 1_010), (10_000, 5_100)])
def test_brute_force_is_that_of_table_2_2(queries, expected):
    assert brute_force(queries, 100_000) == expected


def test_worked_examples_of_the_text():
    assert brute_force(10_000, 1_000) == 150, "incremental, 10 pages of objects (2.6.3)"
    assert brute_force(1, 100_000) == 1_001
    assert brute_force(2_001, 100_000) == 2 * (20 + 1_000)
    assert query_index(1_000, 10_000) == 110
    assert query_index(1_000, 1_000) == 20
    assert [pages(n) for n in (0, 1, 100, 101)] == [0, 1, 1, 2]


def test_a_file_is_sorted_in_runs_of_21_pages_and_merges_of_20():
    assert [sorting_passes(n) for n in (1, 21, 22, 420, 421, 8_400, 8_401)] == [1, 1, 2, 2, 3, 3, 4]
    # 1,000 pages: 48 runs, 3 runs, 1; slabs of 32 pages in two passes.
    assert packing(100_000) == 2 * 1_000 * (3 + 2)


def test_objects_are_five_clusters_one_after_the_other():
    world = make_world(3, 10_000, 50)
    spreads = [
        np.std(values[i : i + 2_000])
        for values in (world.x, world.y)
        for i in range(0, 10_000, 2_000)
    ]
    assert max(spreads) < 0.055, "standard deviation 0.05, less where the square ends"
    assert ((world.x >= 0) & (world.x <= 1) & (world.y >= 0) & (world.y <= 1)).all()
    assert np.std(world.x) > 0.1, "centres differ"


@pytest.mark.parametrize("reading", READINGS)
def test_queries_are_squares_around_the_same_centres(reading):
    spread, is_inside = READINGS[reading]
    world = make_world(3, 100, 20_000, READINGS[reading])
    low, high = world.boxes[:, :2], world.boxes[:, 2:]
    assert high - low == pytest.approx(SIDE)
    assert ((low >= 0) & (high <= 1)).all() == is_inside
    if not is_inside:
        centres = np.random.default_rng(3).random((2, 5))
        expected = np.sqrt(spread**2 + centres.var(axis=1))
        assert (low + SIDE / 2).std(axis=0) == pytest.approx(expected, rel=0.03)


def test_speeds():
    rng = np.random.default_rng(1)
    drawn = {name: draw_speeds(rng, 200_000, name) for name in SPEEDS}
    assert {round(float(v.max()), 2) for v in drawn.values()} == {1.0}
    ranks = np.rint(drawn["Zipf"] * 100).astype(int)
    shares = np.bincount(ranks) / len(ranks)
    assert shares[1] / shares[2] == pytest.approx(2, rel=0.05)
    assert shares[10] / shares[50] == pytest.approx(5, rel=0.2)
    assert (drawn["by rank"] == 1).mean() == pytest.approx(0.01, rel=0.15)
    # 0.00007 of the square in a second, for 250 miles an hour.
    assert make_world(1, 10_000, 1).v_max.max() == pytest.approx(7e-5, rel=0.01)
    city = make_world(1, 10_000, 1, speed=CITY_SPEED, miles=CITY_MILES)
    assert city.v_max.max() * 3600 == pytest.approx(5), "squares of 10 miles in an hour"


def test_moves_stay_below_v_max_and_inside_the_square():
    world = make_world(2, 5_000, 1, speeds="uniform", speed=CITY_SPEED, miles=CITY_MILES)
    moved = np.zeros(5_000, bool)
    for _ in range(20):
        x, y = world.x.copy(), world.y.copy()
        rows, distance = world.move(500)
        assert len(np.unique(rows)) == 500
        assert (distance <= 50 * world.v_max[rows]).all()
        assert (
            np.hypot(world.x[rows] - x[rows], world.y[rows] - y[rows]) <= distance + 1e-12
        ).all()
        others = np.setdiff1d(np.arange(5_000), rows)
        assert (world.x[others] == x[others]).all()
        assert 0 <= min(world.x.min(), world.y.min()) <= max(world.x.max(), world.y.max()) <= 1
        moved[rows] = True
    assert moved.mean() > 0.8
    assert len(world.move(5_000)[0]) == 5_000
