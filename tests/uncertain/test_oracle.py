"""The oracles agree with each other, with known distributions, and reject wrong answers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from tests.uncertain import cases, numeric, oracle, precise, sampling
from tests.uncertain.cases import Disk, Histogram, Normal, Point, Uniform

HALF = Fraction(1, 2)


def same(found, expected, tolerance=1e-13):
    assert len(found) == len(expected)
    assert max(abs(float(a) - float(b)) for a, b in zip(found, expected)) < tolerance


# ------------------------------------------------------------ exact


def test_probabilities_by_hand():
    assert oracle.minimum([Uniform(0, 1), Uniform(0, 1)]) == [HALF, HALF]
    assert oracle.minimum([Uniform(0, 2), Uniform(1, 3)]) == [Fraction(7, 8), Fraction(1, 8)]
    assert oracle.maximum([Uniform(0, 2), Uniform(1, 3)]) == [Fraction(1, 8), Fraction(7, 8)]
    assert oracle.minimum([Uniform(0, 1), Uniform(1, 2)]) == [1, 0]
    # Below 1 with probability 1/4; above, a point of the two.
    assert oracle.minimum([Point(1), Point(1), Uniform(0, 4), Point(2)]) == [
        Fraction(3, 8), Fraction(3, 8), Fraction(1, 4), 0,
    ]  # fmt: skip
    gap = Histogram((0, 1, 2, 3), (0.5, 0, 0.5))
    assert oracle.minimum([gap, Uniform(1, 2)]) == [HALF, HALF]
    # |x| is uniform in [0, 1] and in [0, 2].
    assert oracle.nearest([Uniform(-1, 1), Uniform(0, 2)], 0) == [Fraction(3, 4), Fraction(1, 4)]
    assert oracle.nearest([Point(1), Point(-1), Point(2)], 0) == [HALF, HALF, 0]
    assert oracle.in_range([Uniform(0, 4), gap, Point(3), Point(1)], 1, 3) == [HALF, HALF, 1, 1]


@pytest.mark.parametrize("shape", cases.EXACT)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_exact_probabilities_add_up_to_one(shape, n):
    densities = shape(np.random.default_rng(n), n)
    for found in (oracle.minimum(densities), oracle.maximum(densities)):
        assert sum(found) == 1
        assert min(found) >= 0
    assert sum(oracle.nearest(densities, cases.ends(densities[-1])[0])) == 1


def test_sums_by_hand():
    triangle = oracle.total([Uniform(0, 1), Uniform(2, 3), Point(10)])
    assert (triangle.low, triangle.high, triangle.mean) == (12, 14, 13)
    assert [triangle.pdf(x) for x in (12.5, 13, 13.75)] == [HALF, 1, Fraction(1, 4)]
    assert [triangle.cdf(x) for x in (11, 12.5, 13, 15)] == [0, Fraction(1, 8), HALF, 1]
    assert oracle.average([Uniform(0, 1), Uniform(2, 3), Point(10)]).pdf(13 / 3) == pytest.approx(3)
    assert oracle.total([Histogram((0, 1, 3), (0.75, 0.25)), Point(2)]).mean == 2.875
    # The differential entropy of the triangle is half a nat.
    assert triangle.quality() == pytest.approx(-0.5 / math.log(2), abs=1e-14)
    assert oracle.total([Uniform(0, 4)]).quality() == pytest.approx(-2, abs=1e-14)
    assert oracle.total([Point(1)]).quality() == math.inf


@pytest.mark.parametrize("n", [3, 8])
def test_sums_of_identical_values_are_irwin_hall(n):
    found = oracle.total([Uniform(0, 1)] * n)
    for x in (0.25, 1.125, n / 2):
        expected = sum(
            (-1) ** k * math.comb(n, k) * Fraction(x - k) ** (n - 1) for k in range(int(x) + 1)
        )
        assert found.pdf(x) == expected / math.factorial(n - 1)


def test_lowest_and_highest_by_hand():
    lowest = oracle.Lowest([Uniform(0, 1)] * 3)
    assert lowest.mean == Fraction(1, 4)
    assert lowest.cdf(0.5) == Fraction(7, 8)
    assert lowest.pdf(0.5) == Fraction(3, 4)
    highest = oracle.Highest([Uniform(0, 1)] * 3)
    assert (highest.mean, highest.cdf(0.5), highest.pdf(0.5)) == (
        Fraction(3, 4), Fraction(1, 8), Fraction(3, 4),
    )  # fmt: skip
    # Minus the entropy of a beta distribution, of 1 and 3.
    expected = -stats.beta(1, 3).entropy() / math.log(2)
    assert lowest.quality() == pytest.approx(expected, abs=1e-12)
    assert highest.quality() == pytest.approx(expected, abs=1e-12)
    cut = oracle.Highest([Uniform(0, 4), Point(1)])
    assert cut.atoms == [(1, Fraction(1, 4))]
    assert [cut.cdf(x) for x in (0.5, 1, 2)] == [0, Fraction(1, 4), HALF]
    assert cut.mean == Fraction(1, 4) + Fraction(3, 4) * Fraction(5, 2)


# ------------------------------------------------------------ 40 digits


@pytest.mark.parametrize("shape", [cases.overlapping, cases.mixed, cases.all_magnitudes])
@pytest.mark.parametrize("n", [2, 5])
def test_quadrature_equals_rational_arithmetic(shape, n):
    densities = shape(np.random.default_rng(n), n)
    same(precise.minimum(densities), oracle.minimum(densities))
    same(precise.maximum(densities), oracle.maximum(densities))
    # Distances to 1.75 of values of 1e-300 would need 300 digits.
    q = 0.0 if shape is cases.all_magnitudes else 1.75
    same(precise.nearest(densities, q), oracle.nearest(densities, q))


@pytest.mark.parametrize(
    "density",
    [Normal(0, 1, -1, 2), Normal(0, 2, 10, 14), Normal(0, 1, -40.5, -40), Normal(3, 1e-6, 0, 4)],
)
def test_truncated_normals_are_those_of_scipy(density):
    mean, deviation, low, high = density
    peer = stats.truncnorm((low - mean) / deviation, (high - mean) / deviation, mean, deviation)
    mine = precise.value(density)
    for q in (0.01, 0.4, 0.9):
        x = peer.ppf(q)
        assert float(mine.cdf(mpf(x))) == pytest.approx(peer.cdf(x), abs=1e-11)
        assert float(mine.pdf(mpf(x))) == pytest.approx(peer.pdf(x), rel=1e-9)
    assert float(mp.quad(mine.pdf, mine.breaks)) == pytest.approx(1, abs=1e-15)


def test_wins_of_normals_equal_those_by_mpmath():
    densities = [Normal(0, 1, -1, 3), Normal(1, 0.5, 0, 2), Uniform(-0.5, 1.5)]
    variables = [precise.value(density) for density in densities]

    def first_wins(x):
        others = [1 - precise.cdf_at(variable, x) for variable in variables[1:]]
        return variables[0].pdf(x) * mp.fprod(others)

    expected = mp.quad(first_wins, [-1, mpf(-0.5), 0, mpf(1.5)])
    assert abs(precise.minimum(densities)[0] - expected) < 1e-18


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("away", [0, 0.5, 1, 1.5, 40])
def test_distances_to_disks(dimensions, away):
    """The density is the derivative of the distribution function, and both begin and end well."""
    q = [0] * dimensions
    variable = precise.distance(Disk((away, *q[1:]), 1.0), q)
    assert float(mp.quad(variable.pdf, variable.breaks)) == pytest.approx(1, abs=1e-12)
    low, high = variable.breaks[0], variable.breaks[-1]
    for share in (0.1, 0.5, 0.8):
        r = low + share * (high - low)
        assert float(mp.diff(variable.cdf, r)) == pytest.approx(float(variable.pdf(r)), abs=1e-12)
        expected = mp.quad(variable.pdf, sorted({*(b for b in variable.breaks if b < r), r}))
        assert float(variable.cdf(r)) == pytest.approx(float(expected), abs=1e-12)


def test_sums_by_convolution_equal_truncated_powers():
    densities = [Uniform(0, 1), Histogram((0, 1, 3), (0.75, 0.25)), Uniform(2, 2.5)]
    variables = [precise.value(density) for density in densities]
    exact = oracle.total(densities)
    for x in (2.3, 3.9, 5.1):
        assert float(precise.total_pdf(variables, x)) == pytest.approx(float(exact.pdf(x)))
    assert float(precise.total_pdf(variables[:2], 1.7)) == pytest.approx(
        float(oracle.total(densities[:2]).pdf(1.7))
    )


# ------------------------------------------------------------ floats


@pytest.mark.parametrize(
    "shape",
    [cases.overlapping, cases.identical, cases.touching_the_end, cases.with_points, cases.mixed,
     cases.histograms_with_gaps, cases.steep],
)  # fmt: skip
def test_floats_equal_rational_arithmetic(shape):
    densities = shape(np.random.default_rng(3), 9)
    same(numeric.minimum(densities), oracle.minimum(densities))
    same(numeric.maximum(densities), oracle.maximum(densities))
    same(numeric.nearest(densities, 2.5), oracle.nearest(densities, 2.5), 1e-12)


@pytest.mark.parametrize("shape", cases.NORMAL)
def test_floats_equal_40_digits(shape):
    densities = shape(np.random.default_rng(4), 3)
    # Nodes at 3 are rounded to 4e-10 of a deviation of 1e-6.
    tolerance = 1e-11 if shape is cases.narrow_normals else 1e-12
    same(numeric.minimum(densities), precise.minimum(densities), tolerance)
    same(numeric.nearest(densities, 0.5), precise.nearest(densities, 0.5), tolerance)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_floats_equal_40_digits_for_disks(dimensions):
    rng = np.random.default_rng(dimensions)
    disks = [
        Disk(tuple(center), radius)
        for center, radius in zip(rng.uniform(-1, 1, (4, dimensions)), (0.3, 0.9, 1.4, 2.0))
    ]
    q = (0.25,) * dimensions
    same(numeric.nearest(disks, q), precise.nearest(disks, q), 1e-12)


@pytest.mark.parametrize("shape", [cases.overlapping, cases.identical, cases.all_families])
def test_floats_have_converged(shape):
    densities = shape(np.random.default_rng(5), 200)
    same(numeric.minimum(densities), numeric.minimum(densities, nodes=24))


def test_sums_of_floats_equal_truncated_powers():
    densities = [Uniform(0, 1), Histogram((0, 1, 3), (0.75, 0.25)), Uniform(2, 2.5), Point(1)] * 2
    exact, found = oracle.total(densities), numeric.Total(densities)
    x = [6.5, 8.0, 11.7]
    same(found.pdf(x), [exact.pdf(y) for y in x], 1e-11)
    same(found.cdf(x), [exact.cdf(y) for y in x], 1e-11)


@pytest.mark.parametrize(
    "density", [Normal(0, 1, -1, 2), Normal(0, 1, 3, 4), Normal(5, 1, -3, 1), Normal(0, 1e5, 0, 1)]
)
def test_characteristic_functions(density):
    variable, (low, high) = precise.value(density), cases.ends(density)
    for t in (0.5, 7.0):
        with mp.workdps(20):
            expected = mp.quad(
                lambda x, t=t: mp.expj(t * (x - (low + high) / 2)) * variable.pdf(x),
                variable.breaks,
            )
        assert abs(numeric.characteristic(density, np.array([t]))[0] - complex(expected)) < 1e-11


# ------------------------------------------------------------ by chance


@pytest.mark.parametrize("shape", [cases.mixed, cases.with_points, *cases.NORMAL])
def test_draws_agree_with_the_other_oracles(shape):
    densities = shape(np.random.default_rng(6), 5)
    wins, samples = sampling.count_wins(densities, 1, {"minimum": lambda x: x}, draws=200_000)
    expected = numeric.minimum(densities)
    assert sampling.chi_square(wins["minimum"], expected, samples) > sampling.SIGNIFICANCE


def test_a_chi_square_test_rejects_what_is_wrong():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(50))
    counts = rng.multinomial(100_000, p)
    assert sampling.chi_square(counts, p, 100_000) > 1e-3
    wrong = p.copy()
    wrong[p.argmax()] *= 0.9
    assert sampling.chi_square(counts, wrong / wrong.sum(), 100_000) < sampling.SIGNIFICANCE
    assert sampling.chi_square([10, 90], [0, 1], 100) == 0
    assert sampling.chi_square([0, 100], [0, 1], 100) == 1
    each = rng.binomial(10_000, p)
    assert sampling.chi_square_of_each(each, p, 10_000) > 1e-3
    assert sampling.chi_square_of_each(each, p * 0.85, 10_000) < sampling.SIGNIFICANCE
    assert sampling.chi_square_of_each([1], [0.0], 100) == 0
