"""What moving objects are searched with in seconds finds what is there."""

import numpy as np
import pytest

from experiments.moving_data import READINGS, make_world
from experiments.moving_in_memory import RebuiltGrid, scan, search_grid
from experiments.moving_seconds import compare_all


def are_inside(world):
    """Return which object is in which query."""
    low, high = world.boxes[:, None, :2], world.boxes[:, None, 2:]
    at = np.stack([world.x, world.y], axis=1)
    return ((at >= low) & (at <= high)).all(axis=2)


def test_brute_force_writes_the_queries_of_each_point():
    world = make_world(2, 300, 400)
    offsets, out = np.zeros(301, np.int64), np.zeros(300 * 400 + 400, np.int32)
    assert compare_all(world.boxes.reshape(-1), world.x, world.y, offsets, out) == 300
    for i, expected in enumerate(are_inside(world).T):
        assert out[offsets[i] : offsets[i + 1]].tolist() == np.flatnonzero(expected).tolist()
    assert compare_all(world.boxes.reshape(-1), world.x, world.y, offsets, out[:399]) == 0


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("across", [1, 7, 64])
def test_a_scan_and_a_grid_find_the_objects_of_each_query(reading, across):
    world = make_world(5, 1_000, 60, READINGS[reading])
    world.x[:3], world.y[:3] = [0, 1, 1], [0, 1, 0]  # the corners of the square
    world.boxes[:3] = [[0, 0, 0, 0], [1, 1, 1, 1], [-1, -1, 2, 2]]
    expected = are_inside(world)
    grid, out = RebuiltGrid(1_000, across), np.empty(1_001, np.int32)
    for _ in range(2):  # in memory that is used again
        assert grid.search_all(world, world.boxes, out) == expected.sum()
    for box, objects in zip(world.boxes, expected, strict=True):
        n = search_grid(world.x, world.y, across, grid.start, grid.ids, box, out)
        assert sorted(out[:n].tolist()) == np.flatnonzero(objects).tolist()
        n = scan(world.x, world.y, box, out)
        assert out[:n].tolist() == np.flatnonzero(objects).tolist()
