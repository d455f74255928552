"""Nearest in the plane and in space: values anywhere in a disk or a ball."""

import math

import numpy as np
import pytest

from tests.uncertain import checks, numeric, precise, sampling
from tests.uncertain.cases import Disk, to_readings
from tocsin import UncertainError, uncertain
from tocsin.uncertain import Readings


def scattered(rng, n, dimensions):
    centers = rng.uniform(-1, 1, (n, dimensions)).tolist()
    return [Disk(tuple(c), r) for c, r in zip(centers, rng.uniform(0.2, 1.5, n).tolist())]


def concentric(rng, n, dimensions):
    return [Disk((0.5,) * dimensions, 0.25 * (k + 1)) for k in range(n)]


def identical(rng, n, dimensions):
    return [Disk((1.0,) * dimensions, 0.75)] * n


def touching(rng, n, dimensions):
    """In a row, each touches the next; q is in the first one."""
    return [Disk((2.0 * k, *[0.0] * (dimensions - 1)), 1.0) for k in range(n)]


def with_points(rng, n, dimensions):
    """Some of radius 0, and some of those at equal distances."""
    rest = [0.0] * (dimensions - 1)
    kinds = [Disk((1.0, *rest), 0.0), Disk((0.0,) * dimensions, 1.5), Disk((-1.0, *rest), 0.0),
             Disk((1.0,) * dimensions, 1.0)]  # fmt: skip
    return [kinds[i] for i in rng.integers(0, len(kinds), n)]


SHAPES = [scattered, concentric, identical, touching, with_points]


def check(disks, q, expected):
    answer = uncertain.nearest(to_readings(disks), q)
    checks.check_answer(answer, expected)
    farthest = min(math.dist(disk.center, q) + disk.radius for disk in disks)
    assert answer.bounds[0] == 0
    assert answer.bounds[1] == pytest.approx(farthest, rel=1e-14)
    checks.check_quality(answer, 2 * farthest)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few(shape, n, dimensions):
    disks = shape(np.random.default_rng(n), n, dimensions)
    for q in ((0.0,) * dimensions, (0.3, -0.4, 0.1)[:dimensions]):
        check(disks, q, precise.nearest(disks, q))


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [5, 8, 12])
def test_against_floats(shape, n, dimensions):
    disks = shape(np.random.default_rng(n), n, dimensions)
    for q in ((0.0,) * dimensions, (0.3, -0.4, 0.1)[:dimensions], (4.0, 3.0, -1.0)[:dimensions]):
        check(disks, q, numeric.nearest(disks, q))


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("away", [0.0, 0.5, 1.0, 1.5, 30.0])
def test_q_inside_and_outside(away, dimensions):
    """q is in the center, inside, on the border and outside of the first disk."""
    rest = [0.0] * (dimensions - 1)
    disks = [Disk((away, *rest), 1.0), Disk((0.0, away, *rest[1:]), 1.25)]
    check(disks, [0.0] * dimensions, precise.nearest(disks, [0.0] * dimensions))


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("scale", [1e-100, 1e-6, 1e6, 1e100])
def test_magnitudes(scale, dimensions):
    rng = np.random.default_rng(7)
    disks = scattered(rng, 4, dimensions)
    q = np.full(dimensions, 0.25)
    scaled = [Disk(tuple(scale * x for x in disk.center), scale * disk.radius) for disk in disks]
    check(scaled, q * scale, numeric.nearest(disks, q))


def test_disks_that_are_hardly_one():
    """Radii of a millionth, beside a large one."""
    disks = [Disk((1.0, 0.0), 1e-6), Disk((0.0, 1.0), 2e-6), Disk((0.2, 0.1), 2.0)]
    check(disks, (0.0, 0.0), precise.nearest(disks, (0.0, 0.0)))


def test_ids_and_forms_of_input():
    answer = uncertain.nearest(Readings.disks(["a", "b"], [[0, 0], [4, 0]], 1), [1, 0])
    assert list(answer) == [("a", 1.0)]
    centers = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    answer = uncertain.nearest(Readings.disks([7, 8], centers, [1.5, 1.5]), np.array([1.0, 0, 0]))
    assert answer.ids.to_pylist() == [7, 8]
    assert answer.probabilities == pytest.approx([0.5, 0.5], abs=1e-12)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("n", [10, 100, 1000])
def test_many_by_chance(n, dimensions):
    rng = np.random.default_rng(n)
    centers = rng.uniform(-5, 5, (n, dimensions)).tolist()
    disks = [Disk(tuple(c), r) for c, r in zip(centers, rng.uniform(0, 4, n).tolist())]
    q = (0.5,) * dimensions
    answer = uncertain.nearest(to_readings(disks), q)
    found = checks.probabilities_by_id(answer)
    probabilities = [found.get(i, 0.0) for i in range(n)]
    wins, samples = sampling.count_wins(disks, n, {q: None})
    assert sampling.chi_square(wins[q], probabilities, samples) > sampling.SIGNIFICANCE
    checks.check_answer(answer, numeric.nearest(disks, q))


@pytest.mark.parametrize(
    ("centers", "radii"),
    [
        ([[0, 0]], 1), ([[0, 0], [1, math.nan]], 1), ([[0, 0], [1, 1]], [1, -1]),
        ([[0, 0], [1, 1]], [1, math.inf]), ([0, 1], 1), ([[0], [1]], 1), ([[0] * 4] * 2, 1),
        ([[0, 0], [1, 1]], [1, 2, 3]), ([["x", 0], [1, 1]], 1),
    ],
)  # fmt: skip
def test_wrong_disks(centers, radii):
    with pytest.raises(UncertainError):
        Readings.disks(["a", "b"], centers, radii)


@pytest.mark.parametrize("q", [0.0, (0, 0, 0), (0,), (0, math.nan), "xy", None])
def test_wrong_q(q):
    with pytest.raises(UncertainError):
        uncertain.nearest(Readings.disks(["a"], [[0, 0]], 1), q)


def test_disks_are_for_nearest_only():
    disks = Readings.disks(["a"], [[0, 0]], 1)
    for query in (uncertain.minimum, uncertain.maximum, uncertain.total, uncertain.lowest):
        with pytest.raises(UncertainError):
            query(disks)
    with pytest.raises(UncertainError):
        uncertain.in_range(disks, 0, 1)
