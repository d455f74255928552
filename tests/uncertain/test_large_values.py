"""Totals, averages and extremes of 100 and 1,000 values."""

import math
import os
from fractions import Fraction

import numpy as np
import pytest

from tests.uncertain import numeric, sampling
from tests.uncertain.cases import Uniform, mirror, to_readings
from tests.uncertain.test_large import SHAPES, all_families, histograms, normals, tails, uniform
from tocsin import uncertain

# In floats, 1,000 values take a minute.
SIZES = [100, 1000] if os.environ.get("TOCSIN_PROFILE") == "long" else [100, 300]
CELLS = 40  # of the chi-square tests, of equal probabilities


def irwin_hall(n, x, power):
    """Return the density (power n - 1) or the distribution function (n) of n unit intervals."""
    terms = ((-1) ** k * math.comb(n, k) * (x - k) ** power for k in range(math.floor(x) + 1))
    return float(sum(terms) / math.factorial(power))


@pytest.mark.parametrize("n", [30, 100, 1000])
def test_totals_of_identical_values(n):
    """Rational arithmetic: the sum of n uniform values has an alternating series."""
    found = uncertain.total(to_readings([Uniform(0.0, 1.0)] * n))
    deviation = math.sqrt(n / 12)
    places = [n / 2 + k * deviation for k in (-6, -3.1, -1, 0, 0.3, 2, 4.5)]
    x = [Fraction(round(place * 64), 64) for place in places]
    peak = irwin_hall(n, Fraction(n, 2), n - 1)
    for place in x:
        pdf, cdf = irwin_hall(n, place, n - 1), irwin_hall(n, place, n)
        assert found.pdf(float(place)) == pytest.approx(pdf, abs=1e-10 * peak)
        assert found.cdf(float(place)) == pytest.approx(cdf, abs=1e-10)
    assert found.mean == pytest.approx(n / 2, rel=1e-12)
    # Close to that of a normal distribution; the next term is of the kurtosis, -1.2 / n.
    normal = -math.log2(deviation * math.sqrt(2 * math.pi * math.e))
    correction = (1.2 / n) ** 2 / 48 / math.log(2)
    assert found.quality == pytest.approx(normal + correction, abs=3 / n**3)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("shape", [uniform, normals, tails, histograms, all_families])
def test_totals_in_floats(shape, n):
    densities = shape(np.random.default_rng(n), n)
    found, expected = uncertain.total(to_readings(densities)), numeric.Total(densities)
    x = found.quantile([1e-6, 0.01, 0.3, 0.5, 0.9, 0.999])
    pdf = expected.pdf(x)
    assert abs(found.pdf(x) - pdf).max() <= 1e-10 * pdf.max()
    assert abs(found.cdf(x) - expected.cdf(x)).max() <= 1e-10
    average = uncertain.average(to_readings(densities))
    assert abs(average.pdf(x / n) / n - pdf).max() <= 1e-10 * pdf.max()
    assert average.mean == pytest.approx(found.mean / n, rel=1e-12)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_extremes_in_floats(shape, n):
    densities = shape(np.random.default_rng(n), n)
    readings = to_readings(densities)
    lowest, highest = uncertain.lowest(readings), uncertain.highest(readings)
    mirrored = [mirror(density) for density in densities]
    for found, own, sign in ((lowest, densities, 1), (highest, mirrored, -1)):
        expected = numeric.Lowest(own)
        x = found.quantile([1e-6, 0.01, 0.2, 0.5, 0.8, 0.9999])
        x = x[~np.isin(x, found.atoms[0])]
        pdf, cdf = expected.pdf(sign * x), expected.cdf(sign * x)
        peak = pdf.max()
        assert abs(found.pdf(x) - pdf).max() <= 1e-10 * peak
        assert abs(found.cdf(x) - (cdf if sign > 0 else 1 - cdf)).max() <= 1e-10
        mean, quality = expected.mean_and_quality()
        assert found.mean == pytest.approx(sign * mean, abs=1e-10)
        if not len(found.atoms[0]):
            assert found.quality == pytest.approx(quality, abs=1e-8)


@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_by_chance(shape, n):
    """Cells between quantiles are equally likely, but for an atom, which is a cell of its own."""
    densities = shape(np.random.default_rng(n), n)
    readings = to_readings(densities)
    samples = max(sampling.DRAWS // n, 1)
    rng = np.random.default_rng(n)
    drawn = {"total": [], "lowest": [], "highest": []}
    for first in range(0, samples, 1000):
        values = sampling.draw(densities, rng, min(1000, samples - first))
        drawn["total"].append(values.sum(1))
        drawn["lowest"].append(values.min(1))
        drawn["highest"].append(values.max(1))
    for query, parts in drawn.items():
        found, sample = getattr(uncertain, query)(readings), np.concatenate(parts)
        edges = np.unique(found.quantile(np.linspace(0, 1, CELLS + 1)[1:-1]))
        cells = np.bincount(np.searchsorted(edges, sample), minlength=len(edges) + 1)
        shares = np.diff(np.concatenate([[0], found.cdf(edges), [1]]))
        assert sampling.chi_square(cells, shares, samples) > sampling.SIGNIFICANCE, query
        mean, error = sample.mean(), sample.std() / math.sqrt(samples)
        assert abs(found.mean - mean) <= 6 * error
