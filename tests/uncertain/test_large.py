"""Sets of 100 to 10,000 values: against chance, and against another way to compute in floats."""

import numpy as np
import pytest

from tests.uncertain import cases, checks, numeric, sampling
from tests.uncertain.cases import Normal, Point, Uniform, to_readings
from tocsin import uncertain

Q = 5.25  # inside of the sets below


def uniform(rng, n):
    """Widths and places so that about a tenth of the values can be lowest."""
    low, width = rng.uniform(0, 10, n), rng.uniform(1, 2, n)
    return [Uniform(a, a + w) for a, w in zip(low.tolist(), width.tolist())]


def overlapping(rng, n):
    """All overlap: every value can win every query."""
    low, high = rng.uniform(0, 5, n), rng.uniform(5.5, 10, n)
    return [Uniform(a, b) for a, b in zip(low.tolist(), high.tolist())]


def identical(rng, n):
    return [Uniform(4.5, 6.0)] * n


def normals(rng, n):
    found = []
    for mean, deviation in rng.uniform([2, 0.3], [8, 1.5], (n, 2)).tolist():
        found.append(Normal(mean, deviation, mean - 3 * deviation, mean + 2.5 * deviation))
    return found


def tails(rng, n):
    """5 to 40 deviations from the mean, on either side."""
    found = []
    for low, deviation, away in rng.uniform([4, 0.5, 5], [5, 1.5, 40], (n, 3)).tolist():
        high, away = low + 1.5, away * deviation
        mean = low - away if rng.random() < 0.5 else high + away
        found.append(Normal(mean, deviation, low, high))
    return found


def histograms(rng, n):
    low = rng.uniform(2, 5, n).tolist()
    return [cases.histogram(rng, a, a + 3, 5, gaps=k % 2 == 0) for k, a in enumerate(low)]


def all_families(rng, n):
    """A mixture, with two points of which one can be lowest and both can be nearest."""
    parts = [make(rng, n // 4) for make in (uniform, normals, histograms)]
    found = [density for part in parts for density in part]
    found += [*overlapping(rng, n - len(found) - 2), Point(2.0), Point(Q + 0.001)]
    return [found[i] for i in rng.permutation(n)]


def close_together(rng, n):
    """All begin where the answer is open; some have half of their probability in a narrow bin."""
    found, ends = [], rng.uniform([4, 0, 1], [4 + 0.5 / np.sqrt(n), 1, 9], (n, 3))
    for k, (low, share, width) in enumerate(ends.tolist()):
        high, inside = low + width, low + share / np.sqrt(n)
        if k % 4 == 0:
            found.append(Uniform(low, high))
        elif k % 4 == 1:
            found.append(Normal(low + share, 0.1 + share, low, high))
        elif k % 4 == 2:
            found.append(cases.Histogram((low, inside, high), (0.25, 0.75)))
        else:
            found.append(cases.Histogram((low, inside, inside + 1e-9, high), (0.25, 0.5, 0.25)))
    return found


SHAPES = [
    uniform, overlapping, identical, normals, tails, histograms, all_families, close_together
]  # fmt: skip
SIZES = [100, 1000, 10_000]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_who_wins_by_chance(shape, n):
    densities = shape(np.random.default_rng(n), n)
    readings = to_readings(densities)
    scores = {
        "minimum": lambda x: x, "maximum": lambda x: -x, "nearest": lambda x: abs(x - Q),
    }  # fmt: skip
    wins, samples = sampling.count_wins(densities, n, scores)
    for query, counts in wins.items():
        arguments = (Q,) if query == "nearest" else ()
        answer = getattr(uncertain, query)(readings, *arguments)
        checks.check_form(answer, range(n))
        found = checks.probabilities_by_id(answer)
        probabilities = np.array([found.get(i, 0.0) for i in range(n)])
        assert abs(probabilities.sum() - 1) <= 1e-9
        assert sampling.chi_square(counts, probabilities, samples) > sampling.SIGNIFICANCE, query


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_who_is_in_a_range_by_chance(shape, n):
    densities = shape(np.random.default_rng(n), n)
    answer = uncertain.in_range(to_readings(densities), 4.75, Q)
    found = checks.probabilities_by_id(answer)
    probabilities = np.array([found.get(i, 0.0) for i in range(n)])
    rng = np.random.default_rng(n + 1)
    samples = max(min(sampling.DRAWS, 10**8) // n, 1)
    counts = np.zeros(n, np.int64)
    for first in range(0, samples, 400):
        values = sampling.draw(densities, rng, min(400, samples - first))
        counts += ((values >= 4.75) & (values <= Q)).sum(0)
    p = sampling.chi_square_of_each(counts, probabilities, samples)
    assert p > sampling.SIGNIFICANCE


@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("shape", SHAPES)
def test_who_wins_in_floats(shape, n):
    densities = shape(np.random.default_rng(n), n)
    readings = to_readings(densities)
    checks.check_minimum(uncertain.minimum(readings), densities, numeric.minimum(densities))
    checks.check_maximum(uncertain.maximum(readings), densities, numeric.maximum(densities))
    expected = numeric.nearest(densities, Q)
    checks.check_nearest(uncertain.nearest(readings, Q), densities, Q, expected)


@pytest.mark.parametrize("n", SIZES)
def test_identical_values_win_equally(n):
    gap = cases.Histogram((0.0, 1.0, 2.0, 5.0), (0.5, 0.0, 0.5))
    near, far = Normal(0.0, 1.0, -1.0, 2.0), Normal(0.0, 1.0, 9.0, 10.0)
    for density in (Uniform(1.0, 3.0), near, far, gap, Point(3.0)):
        readings = to_readings([density] * n)
        for answer in (
            uncertain.minimum(readings), uncertain.maximum(readings),
            uncertain.nearest(readings, 0.5),
        ):  # fmt: skip
            assert len(answer) == n
            assert abs(answer.probabilities - 1 / n).max() < 1e-12
            assert answer.entropy == pytest.approx(np.log2(n), abs=1e-9)


@pytest.mark.parametrize("query", ["minimum", "maximum", "nearest"])
@pytest.mark.parametrize("shape", SHAPES)
def test_at_least(query, shape):
    densities = shape(np.random.default_rng(3), 1000)
    readings = to_readings(densities)
    arguments = (Q,) if query == "nearest" else ()
    ask = getattr(uncertain, query)
    whole = ask(readings, *arguments)
    for at_least in (1e-6, 1e-3, 3e-3, 0.01, 0.1, 0.5):
        part = ask(readings, *arguments, at_least=at_least)
        expected = [(i, p) for i, p in whole if p >= at_least]
        assert [i for i, _ in part] == [i for i, _ in expected], at_least
        assert part.probabilities == pytest.approx([p for _, p in expected], abs=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_order_of_many_readings_does_not_matter(shape):
    rng = np.random.default_rng(2)
    readings = to_readings(shape(rng, 1000))
    order = rng.permutation(1000)
    for query, arguments in (("minimum", ()), ("maximum", ()), ("nearest", (Q,))):
        ask = getattr(uncertain, query)
        one = checks.probabilities_by_id(ask(readings, *arguments))
        other = checks.probabilities_by_id(ask(readings.take(order), *arguments))
        for i in one.keys() | other.keys():
            assert abs(one.get(i, 0) - other.get(i, 0)) < 1e-12
