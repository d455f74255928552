"""The searches of the tree against brute force, on coordinates full of coincidences."""

from fractions import Fraction
from math import inf, nextafter
from random import Random

import numpy as np
import pytest

from tests.moving.regions import oracle
from tocsin.moving.regions.distance import find_distances
from tocsin.moving.regions.layout import (
    boxes_of_values,
    build_fences,
    join_fences,
    keys_of_values,
    values_of_keys,
)
from tocsin.moving.regions.rectangle import AREA, PERIMETER, STAIRS, find_rectangles
from tocsin.moving.widening import FLOAT

BIGGEST = 1.7976931348623157e308
SCALES = {
    "whole": lambda rng: float(rng.randint(0, 8)),
    "tenths": lambda rng: rng.randint(-20, 20) / 10,
    "floats": lambda rng: rng.uniform(-1, 1) * 10.0 ** rng.randint(-3, 3),
    "largest": lambda rng: rng.choice((-1, 1)) * BIGGEST / rng.choice((1, 1, 2, 3, 1e10, 1e300)),
    "smallest": lambda rng: rng.randint(-6, 6) * 5e-324,
    "mixed": lambda rng: rng.choice((0.0, 5e-324, -1.0, 1e-200, 1e200, -1e200, BIGGEST, -BIGGEST)),
    "neighbours": lambda rng: rng.choice((1.0, nextafter(1.0, 2), nextafter(1.0, 0), 2.0)),
}


def random_fences(rng, scale, count):
    value = SCALES[scale]
    fences = []
    for _ in range(count):
        ends = []
        for _ in range(2):
            low, high = sorted((value(rng), value(rng)))
            if rng.random() < 0.1:  # degenerate
                high = low
            low = -inf if rng.random() < 0.08 else low
            ends += [low, inf if rng.random() < 0.08 else high]
        fences.append(tuple(ends))
    return fences


def fences_of(fences, rng=None):
    """Return fences in one tree, or in several."""
    table = np.array(fences, np.float64).reshape(-1, 4)
    cut = len(table) if rng is None else rng.randint(0, len(table))
    trees = [
        build_fences(boxes_of_values(*part.T), (FLOAT, FLOAT))
        for part in (table[:cut], table[cut:])
    ]
    return join_fences(trees, np.empty(0, np.uint8))


def keys(*values):
    return keys_of_values(np.array(values), FLOAT)


def regions(fences, places, by=AREA, rng=None):
    """Return SafeDist and SafeRect of places, as floats."""
    built = fences_of(fences, rng)
    x, y = keys(*(place[0] for place in places)), keys(*(place[1] for place in places))
    rectangles = find_rectangles(built, x, y, by).bound
    return (
        find_distances(built, x, y).distance.tolist(),
        [tuple(values_of_keys(bound, FLOAT).tolist()) for bound in rectangles],
    )


@pytest.mark.parametrize("scale", SCALES)
def test_regions_are_safe_and_largest(scale):
    for seed in range(60):
        rng = Random(f"{scale} {seed}")
        fences = random_fences(rng, scale, rng.randint(0, 4))
        places = [(SCALES[scale](rng), SCALES[scale](rng)) for _ in range(4)]
        for by in (AREA, PERIMETER):
            distances, rectangles = regions(fences, places, by, rng)
            for (x, y), distance, rectangle in zip(places, distances, rectangles, strict=True):
                check_distance(distance, fences, x, y)
                assert oracle.is_safe(rectangle, fences, x, y), (seed, x, y)
                if scale != "smallest":  # a quarter of these is not exact
                    check_size(rectangle, fences, x, y, ("area", "perimeter")[by])


def check_distance(distance, fences, x, y):
    exact = min((oracle.squared_distance(fence, x, y) for fence in fences), default=inf)
    if exact == inf:
        assert distance == inf
    else:
        assert Fraction(distance) ** 2 <= exact
        # The largest floats are further apart than any float, and of the smallest a diagonal has
        # the length of its longer side.
        share = Fraction(1, 2) if distance < 1e-290 else 1 - Fraction(1, 10**14)
        assert distance >= BIGGEST or Fraction(distance) ** 2 >= exact * share


def check_size(rectangle, fences, x, y, by):
    within = oracle.hull(fences, x, y)
    size = oracle.measure(rectangle, within, by)
    best = oracle.largest(fences, x, y, by)
    whole = 1 if by == "area" else oracle.measure((-inf, inf, -inf, inf), within, by)
    # Sizes are compared as floats.
    assert size >= best - whole * Fraction(1, 10**12)


@pytest.mark.parametrize("scale", ["whole", "floats", "tenths"])
def test_many_fences(scale):
    """Trees of several levels: the rectangle is safe, and no side of it can be moved."""
    for seed in range(12):
        rng = Random(f"many {scale} {seed}")
        value = SCALES[scale]
        fences = []
        for _ in range(rng.choice((50, 300, 900))):
            x, y, w, h = value(rng), value(rng), rng.random(), rng.random()
            fences.append((x, x + w * w, y, y + h * h))
        places = [(value(rng) + rng.random() / 2, value(rng)) for _ in range(20)]
        distances, rectangles = regions(fences, places, rng=rng)
        for (x, y), distance, rectangle in zip(places, distances, rectangles, strict=True):
            check_distance(distance, fences, x, y)
            assert oracle.is_safe(rectangle, fences, x, y)
            for side in range(4):
                end = nextafter(rectangle[side], inf if side % 2 else -inf)
                larger = (*rectangle[:side], end, *rectangle[side + 1 :])
                assert end == rectangle[side] or not oracle.is_safe(larger, fences, x, y)


def test_fences_on_a_diagonal_fill_a_staircase():
    n = 3 * STAIRS
    fences = [(1.0 + i, 1.5 + i, float(n - i), n - i + 0.5) for i in range(n)]
    Random(1).shuffle(fences)
    _, (rectangle,) = regions(fences, [(0.0, 0.0)])
    assert oracle.is_safe(rectangle, fences, 0.0, 0.0)
    _, (rectangle,) = regions(fences[: STAIRS // 2], [(0.0, 0.0)])
    check_size(rectangle, fences[: STAIRS // 2], 0.0, 0.0, "area")


def test_corners_alone_are_unsafe():
    """Thesis, 2.4.2 as printed: no corner of this fence lies on either axis of the object."""
    distances, rectangles = regions([(-10, 10, 1, 2)], [(0, 0)])
    assert distances == [1.0]
    assert rectangles == [(-inf, inf, -inf, nextafter(1.0, 0))]


def test_inside_and_outside_count_alike():
    """Thesis, Fig. 2.2: Y lies in Q1, and its region within all fences that contain it."""
    fences = [(0, 10, 0, 10), (2, 20, 2, 9), (6, 7, 4, 12)]
    distances, rectangles = regions(fences, [(4, 5)])
    assert distances == [2.0]
    assert rectangles == [(2, nextafter(6, 0), 2, 9)]


def test_area_and_perimeter_differ():
    # The object can have a square, or a strip that is longer than both of its sides.
    fences = [(-1, 0, 6, 7), (6, 7, -1, 0), (30, 31, 1, 2), (0.5, 1, 1.5, 2)]
    place = [(0.25, 0.75)]
    sizes = [regions(fences, place, by)[1][0] for by in (AREA, PERIMETER)]
    assert sizes[0] != sizes[1]


def test_within_ten_times_the_distance():
    """Thesis, 2.4.2: only fences in a region ten times SafeDist, which then ends the rectangle."""
    fences = fences_of([(1, 2, -1, 1), (-500, -400, -1, 1)])
    x, y = keys(0.0), keys(0.0)
    distance = find_distances(fences, x, y).distance
    assert distance == [1.0]
    found = find_rectangles(fences, x, y, AREA, 10 * distance)
    near = values_of_keys(found.bound[0], FLOAT).tolist()
    assert near == [-10.0, nextafter(1, 0), -10.0, 10.0]


def test_positions_that_are_not_finite():
    fences = fences_of([(0, 1, 0, 1)])
    x, y = keys(inf, -inf, 5.0), keys(5.0, 5.0, inf)
    assert find_distances(fences, x, y).distance.tolist() == [0, 0, 0]
    bound = find_rectangles(fences, x, y).bound
    assert (bound[:, 0] > bound[:, 1]).all()
