"""Every method finds the pairs of the definition, each once, in all forms of the result."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.similarity import oracle
from tocsin import similarity
from tocsin.similarity.cells import Box, make_grid

METHODS = list(similarity.METHODS)
DIMENSIONS = [1, 2, 3, 4, 5, 9, 16, 33, 64]


def uniform(rng, n, d):
    return rng.random((n, d))


def lattice(rng, n, d):
    """Many points at the same distances, and some twice."""
    return rng.integers(0, 4, (n, d)).astype(float)


def clustered(rng, n, d):
    return rng.random((3, d))[rng.integers(0, 3, n)] + rng.normal(0, 0.05, (n, d))


def duplicated(rng, n, d):
    return np.repeat(rng.random((1, d)), n, axis=0)


def collinear(rng, n, d):
    return rng.random((n, 1)) * np.arange(1, d + 1)


def far_away(rng, n, d):
    """Differences are few units in the last place."""
    return 1e9 + rng.integers(0, 50, (n, d)) * 2.0**-20


SHAPES = [uniform, lattice, clustered, duplicated, collinear, far_away]


def all_forms(a, b, epsilon, method, metric, closed):
    """Return the pairs of a join as each of its forms has them."""
    arguments = a, b, epsilon, method, metric, closed
    found = similarity.join(*arguments)
    blocks = similarity.join_blocks(*arguments, block_size=1024)
    streamed = [pair for block in blocks for pair in block]
    assert similarity.count(*arguments) == len(found)
    return list(found), streamed


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_pairs_are_those_of_the_definition(d, shape):
    rng = np.random.default_rng(d)
    for metric in similarity.METRICS:
        n, m = rng.integers(1, 70, 2)
        a, b = shape(rng, n, d), shape(rng, m, d)
        spread = max(float(np.ptp(np.vstack([a, b]))), 1e-3)
        for epsilon in (1e-9, 0.02 * spread, 0.3 * spread, np.sqrt(2), 1.0, 2.5 * d * spread):
            for closed in (False, True):
                expected = sorted(oracle.join(a, b, epsilon, metric, closed))
                own = sorted(oracle.self_join(a, epsilon, metric, closed))
                for method in METHODS:
                    case = method, metric, epsilon, closed
                    for pairs in all_forms(a, b, epsilon, method, metric, closed):
                        assert sorted(pairs) == expected, case
                    assert (
                        sorted(similarity.self_join(a, epsilon, method, metric, closed)) == own
                    ), case


@pytest.mark.parametrize("method", METHODS)
def test_many_points(method):
    """More than one block, node and sequence, and more pairs than fit a block of the result."""
    rng = np.random.default_rng(1)
    for n, d, epsilon in ((2700, 2, 0.02), (2700, 6, 0.3), (540, 6, 2.5)):
        a, b = np.split(clustered(rng, n, d), [4 * n // 9])
        expected = sorted(similarity.join(a, b, epsilon, "exhaustive"))
        assert len(expected) > 2000
        for pairs in all_forms(a, b, epsilon, method, "l2", False):
            assert sorted(pairs) == expected
        own = sorted(similarity.self_join(a, epsilon, "exhaustive"))
        assert sorted(similarity.self_join(a, epsilon, method)) == own


@pytest.mark.parametrize("method", METHODS)
def test_points_exactly_at_epsilon(method):
    a, b = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [4.0, 3.0], [5.0, 0.0], [4.99, 0.0]])
    assert list(similarity.join(a, b, 5, method)) == [(0, 3)]
    assert sorted(similarity.join(a, b, 5, method, closed=True)) == [(0, i) for i in range(4)]


@pytest.mark.parametrize("method", METHODS)
def test_cells_are_wider_than_epsilon(method):
    """floor(10 x) puts these two cells apart, although they differ by less than 0.1 in float64."""
    a, b = np.array([[0.7999999999999999]]), np.array([[0.8999999999999999]])
    far = np.array([[0.0]])
    assert b[0, 0] - a[0, 0] <= 0.1
    found = similarity.join(np.vstack([far, a]), b, 0.1, method, closed=True)
    assert list(found) == [(1, 0)]


COORDINATES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.1, 1e-200, -1e-200, 5e-324, 1e150, -1e150, 1.7e308, -1.7e308, 1e308]
) | st.floats(allow_nan=False, allow_infinity=False)
EPSILONS = st.sampled_from([5e-324, 1e-200, 1e-100, 0.1, 1.0, 1e153, 1e155, 1.7e308]) | st.floats(
    min_value=5e-324, allow_nan=False, allow_infinity=False
)


@given(st.data())
def test_all_of_float64(data):
    d = data.draw(st.integers(1, 5))
    point = st.lists(COORDINATES, min_size=d, max_size=d)
    a, b = (np.array(data.draw(st.lists(point, min_size=1, max_size=8))) for _ in range(2))
    epsilon, closed = data.draw(EPSILONS), data.draw(st.booleans())
    for metric in similarity.METRICS:
        if metric == "l2" and np.isinf(epsilon * epsilon):
            continue  # an error
        with np.errstate(all="ignore"):
            expected = sorted(oracle.join(a, b, epsilon, metric, closed))
        for method in METHODS:
            found = sorted(similarity.join(a, b, epsilon, method, metric, closed))
            assert found == expected, (method, metric)


def test_the_last_cell_is_a_cell_of_the_grid():
    """Rounding may put the last point past the number of cells, which no kernel checks."""
    rng = np.random.default_rng(0)
    for d in range(1, 5):
        for _ in range(300):
            half_span = rng.random(d) * 10.0 ** rng.integers(-9, 9, d)
            # Close to a whole number of cells.
            reach = 2 * half_span[0] / (1 + 1e-5) / rng.integers(1, 1 << rng.integers(1, 40))
            grid, cells = make_grid(Box(np.zeros(d), half_span), reach)
            last = np.floor(half_span[grid.dimension] * grid.inverse).astype(int) + 1
            assert ((last + 1) * grid.stride).sum() < cells < 2**31


@pytest.mark.parametrize("metric", similarity.METRICS)
def test_distances(metric):
    rng = np.random.default_rng(3)
    a, b = rng.random((60, 3)), rng.random((60, 3))
    found = similarity.join(a, b, 0.4, metric=metric)
    expected = [oracle.distance(a[i], b[j], metric) for i, j in found]
    assert found.distances.tolist() == expected
    assert len(expected) > 10
    assert max(expected) < 0.4


def test_results_print_sort_and_become_tables():
    a = np.array([[0.0, 0.0], [1.0, 1.0], [0.1, 0.0]])
    found = similarity.self_join(a, 0.5)
    assert repr(found) == "SimilarPairs: 1 pair\n  0 and 2: distance 0.1"
    assert found.to_arrow().to_pylist() == [{"a": 0, "b": 2, "distance": 0.1}]
    left, right = found.pairs()
    assert left.dtype == right.dtype == np.int64
    rng = np.random.default_rng(0)
    a = rng.random((100, 2))
    found = similarity.join(a, a, 0.2)
    assert list(found.sorted()) == sorted(found)
    assert repr(found).endswith("...")


def test_the_same_input_gives_the_same_order():
    a = np.random.default_rng(0).random((500, 3))
    for method in METHODS:
        first = list(similarity.self_join(a, 0.2, method))
        assert len(first) > 1000
        assert first == list(similarity.self_join(a, 0.2, method))
