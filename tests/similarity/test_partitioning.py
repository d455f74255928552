"""Parts of a join: every pair is in exactly one, and crowded cells are spread."""

import numpy as np
import pytest

from tests.similarity import oracle
from tests.similarity.test_methods import SHAPES
from tocsin import similarity
from tocsin.similarity.closeness import read_closeness
from tocsin.similarity.partitioning import find_parts, list_parts, make_partition


@pytest.mark.parametrize("target", [1, 3, 8, 40])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_pair_is_in_one_part(shape, target):
    rng = np.random.default_rng(target)
    for d, epsilon in ((1, 0.01), (2, 0.1), (5, 0.3), (2, 1.0)):
        a, b = shape(rng, 300, d), shape(rng, 250, d)
        reach = read_closeness(epsilon, "l2", True).reach
        partition, count = make_partition(a[::3], b[::3], reach, target)
        parts = find_parts(a, rng.integers(0, 2**62, 300), partition)
        rows, parts_of_rows = list_parts(b, reach, partition)
        found = []
        for part in range(count):
            own, other = np.flatnonzero(parts == part), rows[parts_of_rows == part]
            if len(own) and len(other):
                for i, j in similarity.join(a[own], b[other], epsilon, closed=True):
                    found.append((own[i], other[j]))
        assert set(found) == oracle.join(a, b, epsilon, closed=True)
        assert len(found) == len(set(found))
        assert parts.max() < count


def test_parts_have_about_as_many_points():
    rng = np.random.default_rng(0)
    a, b = rng.random((20_000, 3)), rng.random((20_000, 3))
    partition, count = make_partition(a[:2000], b[:2000], 0.01, 32)
    sizes = np.bincount(find_parts(a, np.zeros(20_000, np.int64), partition), minlength=count)
    assert 32 <= count <= 128
    assert sizes.max() < 3 * sizes.mean()


def test_a_crowd_smaller_than_epsilon_is_spread():
    rng = np.random.default_rng(0)
    a = np.vstack([rng.random((1000, 2)), 0.5 + 1e-4 * rng.random((9000, 2))])
    partition, count = make_partition(a, a, 0.01, 10)
    assert partition.parts.max() > 5
    parts = find_parts(a, rng.integers(0, 2**62, len(a)), partition)
    assert np.bincount(parts, minlength=count).max() < 3000
