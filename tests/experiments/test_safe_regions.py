"""Safe regions in the experiments are safe, and their I/Os are those of leaves."""

import numpy as np
import pytest

from experiments.moving_data import CITY_MILES, READINGS, make_world
from experiments.page_tree import PageTree
from experiments.safe_regions import (
    KINDS,
    SafeRegions,
    count_leaves,
    count_leaves_of_square,
    leaf_boxes,
    region_ios,
)


def answers(world):
    """Return which object is in which query."""
    low, high = world.boxes[:, :2, None], world.boxes[:, 2:, None]
    at = np.stack([world.x, world.y])
    return ((at >= low) & (at <= high)).all(axis=1)


@pytest.mark.parametrize("reading", READINGS)
def test_nothing_changes_for_objects_inside_of_their_region(reading):
    world = make_world(4, 500, 300, READINGS[reading], speed=50, miles=CITY_MILES, speeds="uniform")
    regions, before = SafeRegions(world), answers(world)
    hidden = dict.fromkeys(KINDS, 0)
    for _ in range(6):
        rows = regions.move(world, 200)
        now = answers(world)
        for kind in KINDS:
            inside = rows[regions.inside(world, rows, kind)]
            assert (now[:, inside] == before[:, inside]).all()
            hidden[kind] += len(inside)
    assert 0 < hidden["SafeDist"] <= hidden["SafeSphere"] < 1_200
    assert 0 < hidden["SafeRect"] < 1_200


def test_regions_that_new_queries_cut_are_safe():
    world = make_world(4, 400, 200, speed=50, miles=CITY_MILES, speeds="uniform")
    all_boxes = world.boxes
    world.boxes = all_boxes[:100]
    regions = SafeRegions(world)
    regions.move(world, 100)
    kept = regions.rectangle.copy()
    inside = regions.inside(world, np.arange(400), "SafeRect")
    ios = regions.cut(world, all_boxes[100:])
    assert 4 + 1 < ios <= 2 * 4 + 1, "pages of regions, read and written, and one of queries"
    assert (regions.rectangle != kept).any(axis=1).mean() > 0.1
    assert (regions.inside(world, np.arange(400), "SafeRect") == inside).all()
    world.boxes = all_boxes
    before = answers(world)
    for _ in range(6):
        rows = regions.move(world, 150)
        silent = rows[regions.inside(world, rows, "SafeRect") & inside[rows]]
        assert len(silent)
        assert (answers(world)[:, silent] == before[:, silent]).all()


def test_ios_of_a_region_are_leaves_within_reach():
    leaves = np.array([[0, 0, 1, 1], [2, 0, 3, 1], [1.5, 1.5, 4, 4]], float)
    x, y = np.array([0.5, 0.5, 1.0]), np.array([0.5, 0.5, 1.0])
    reach = np.array([0.5, 1.5, 0.6])
    assert count_leaves(leaves, x, y, reach).tolist() == [1, 3, 1]
    assert count_leaves_of_square(leaves, x, y, reach).tolist() == [1, 3, 2]


def test_regions_of_many_queries_take_more_ios_for_rectangles():
    world = make_world(4, 300, 4_000)
    leaves = leaf_boxes(PageTree(world.boxes), world.boxes)
    ios = region_ios(leaves, SafeRegions(world))
    assert (ios["SafeDist"] <= ios["SafeRect"]).all()
    assert ios["SafeRect"].max() <= len(leaves)
    assert ios["SafeDist"].min() >= 1
