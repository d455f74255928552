"""The thesis' velocity constrained index on pages looks up what may have moved, and no more."""

import numpy as np
import pytest

from experiments.moving_data import ENTRIES, World, make_world
from experiments.moving_velocity import Run, time_until_scan
from experiments.page_tree import Leaves
from experiments.velocity_pages import VelocityPages


def tiny_world(x, v_max, box):
    n = len(x)
    return World(
        np.random.default_rng(1), np.array(x, float), np.full(n, 0.5), np.array(v_max, float),
        np.array([box], float),
    )  # fmt: skip


def test_a_worked_example():
    """Two leaves below one node: x = 0 and 1 with v_max 0.1, x = 5 and 6 with v_max 0.2."""
    world = tiny_world([0, 1, 5, 6], [0.1, 0.05, 0.2, 0.1], (0.4, 0, 2, 1))
    leaves = Leaves(np.arange(4), np.array([0, 2]), np.array([0, 0]))
    index = VelocityPages(world, leaves)
    assert index.cost(world.boxes, 0).before == 1
    assert index.cost(world.boxes, 0).scattered == 0, "x = 1 is certainly inside"
    # The node's v_max is 0.2: the second leaf is read from (5 - 2) / 0.2 = 15 s on.
    assert index.cost(world.boxes, 14).before == 1
    assert index.cost(world.boxes, 16).before == 2
    # The first leaf's v_max is 0.1: both may have crossed an end after 6.1 s, one after 4.1 s.
    assert index.cost(world.boxes, 3.9).total == 1
    assert index.cost(world.boxes, 4.1).total == 2
    assert index.refresh_ios == 2 * 2 + 1


def test_leaves_and_pages_are_those_of_a_plain_count():
    world = make_world(3, 4_000, 20, (1.0, True))
    index = VelocityPages(world)
    elapsed = 200.0
    leaf = np.repeat(np.arange(len(index.start)), np.diff(index.start, append=4_000))
    before, uncertain = 0, np.zeros(4_000, bool)
    for x0, y0, x1, y1 in world.boxes:
        r = index.v_above * elapsed
        b = index.boxes
        is_read = (
            (b[:, 0] - r <= x1) & (b[:, 2] + r >= x0) & (b[:, 1] - r <= y1) & (b[:, 3] + r >= y0)
        )
        before += is_read.sum()
        r = index.v_leaf[leaf] * elapsed
        x, y = index.x, index.y
        may = (x - r <= x1) & (x + r >= x0) & (y - r <= y1) & (y + r >= y0)
        must = (x - r >= x0) & (x + r <= x1) & (y - r >= y0) & (y + r <= y1)
        uncertain |= may & ~must & is_read[leaf]
    cost = index.cost(world.boxes, elapsed)
    assert cost.before == before
    entries = np.flatnonzero(uncertain)
    assert cost.clustered == len({e // ENTRIES for e in entries.tolist()})
    assert cost.scattered == len({e // ENTRIES for e in index.order[entries].tolist()})


def test_positions_stay_within_what_the_index_allows_and_a_refresh_takes_them():
    world = make_world(3, 2_000, 20, (1.0, True))
    index = VelocityPages(world)
    run = Run(world, index, True, 50.0)
    old = index.x.copy()
    run.advance(4, lambda run: False)
    leaf = np.repeat(np.arange(len(index.start)), np.diff(index.start, append=2_000))
    assert (np.abs(world.x[index.order] - old) <= index.v_leaf[leaf] * 200 + 1e-12).all()
    assert run.totals == sorted(run.totals), "nothing but age changes the cost"
    run.refresh()
    assert (index.x == world.x[index.order]).all()
    assert run.refreshed == [4]
    assert run.cost(50) == index.cost(world.boxes, 50).clustered_total


def test_the_time_until_a_scan_is_better():
    assert time_until_scan(lambda t: int(t), 300) == pytest.approx(300, rel=0.01)
    assert time_until_scan(lambda t: 5, 300) == np.inf
