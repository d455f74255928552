"""Distributions of the total, the average, the lowest, the highest and of a single value."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tests.uncertain import cases, numeric, oracle, precise, sampling
from tests.uncertain.cases import Histogram, Normal, Point, Uniform, ends, mirror, to_readings
from tocsin import UncertainError, uncertain
from tocsin.uncertain import Readings

SIZES = [1, 2, 3, 4, 6, 9, 12]
ORACLES = {
    "total": oracle.total, "average": oracle.average, "lowest": oracle.Lowest,
    "highest": oracle.Highest,
}  # fmt: skip
# Totals of the others overflow, or have as many knots as choices of an edge of each histogram.
SUMMED = [
    s for s in cases.EXACT if s not in (cases.widest, cases.histograms, cases.histograms_with_gaps)
]
# Histograms of four edges have 4^6 knots, and integers of 10^5 digits take long.
MOST_SUMMED = {cases.mixed: 6, cases.all_magnitudes: 6, cases.tiny: 9, cases.huge: 9}


def places(expected, count=9):
    """Return floats between the ends, some of them close to an end, none at a knot."""
    low, high = float(expected.low), float(expected.high)
    shares = [*np.random.default_rng(0).random(count).tolist(), 1e-4, 1 - 1e-4, 0.5]
    found = sorted({low * (1 - share) + high * share for share in shares})
    knots = {float(x) for x in expected.knots}
    return [x for x in found if low < x < high and x not in knots]


def nearby(function, x, blur):
    """Return the values at x and around it."""
    x, blur = Fraction(x), Fraction(blur)
    return (
        [float(function(x + k * blur / 4)) for k in range(-4, 5)] if blur else [float(function(x))]
    )


def check(found, expected, tolerance=1e-10, blur=0.0):
    """Compare a distribution with the oracle's, at x or anywhere closer to it than `blur`."""
    low, high, mean = float(expected.low), float(expected.high), float(expected.mean)
    scale = max(abs(low), abs(high))
    assert found.low == pytest.approx(low, rel=1e-14, abs=1e-15 * scale)
    assert found.high == pytest.approx(high, rel=1e-14, abs=1e-15 * scale)
    assert found.mean == pytest.approx(mean, abs=tolerance * max(high - low, 1e-5 * scale))
    atoms = [(float(x), float(p)) for x, p in expected.atoms]
    assert np.shape(found.atoms) == (2, len(atoms))
    for i, (x, p) in enumerate(atoms):
        assert found.atoms[0][i] == pytest.approx(x, rel=1e-14)
        assert found.atoms[1][i] == pytest.approx(p, abs=tolerance)
    x = places(expected)
    if x:
        for name, scale in (("pdf", max(float(expected.pdf(y)) for y in x)), ("cdf", 1.0)):
            exact = [sorted(nearby(getattr(expected, name), y, blur)) for y in x]
            below, above = np.array([e[0] for e in exact]), np.array([e[-1] for e in exact])
            values = getattr(found, name)(np.array(x))
            assert (below - values).max() <= tolerance * scale, name
            assert (values - above).max() <= tolerance * scale, name
    if low < high:
        beyond = high + (high - low)
        assert found.cdf(low - (high - low)) == 0
        assert found.cdf(beyond) == 1
        assert found.pdf(beyond) == 0


def check_quantiles(found):
    """The distribution function reaches q at its quantile, or between two neighboring floats."""
    q = np.array([1e-6, 0.01, 0.25, 0.5, 0.7, 0.99, 1 - 1e-6])
    x = found.quantile(q)
    assert (np.diff(x) >= 0).all()
    assert (found.cdf(np.nextafter(x, np.inf)) >= q - 1e-10).all()
    assert (found.cdf(np.nextafter(x, -np.inf)) <= q + 1e-10).all()
    assert [found.quantile(p) for p in q.tolist()] == pytest.approx(x.tolist(), rel=1e-13)
    assert found.low <= found.quantile(0) <= x[0]
    assert x[-1] <= found.quantile(1) <= found.high


# ------------------------------------------------------------ against rational arithmetic


@pytest.mark.parametrize("query", ["total", "average"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("shape", SUMMED)
def test_sums(shape, n, query):
    densities = shape(np.random.default_rng(n), min(n, MOST_SUMMED.get(shape, n)))
    # A sum of neighboring floats is between two floats, as is its lowest value.
    is_rounded = shape in (cases.few_ulps, cases.far_away)
    expected = ORACLES[query](densities)
    blur = math.ulp(float(expected.high)) if is_rounded else 0.0
    check(getattr(uncertain, query)(to_readings(densities)), expected, blur=blur)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("shape", [cases.histograms, cases.histograms_with_gaps])
def test_sums_of_histograms(shape, n):
    densities = shape(np.random.default_rng(n), n)
    check(uncertain.total(to_readings(densities)), oracle.total(densities))


@pytest.mark.parametrize("query", ["lowest", "highest"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("shape", cases.EXACT)
def test_extremes(shape, n, query):
    densities = shape(np.random.default_rng(n), n)
    if shape is cases.widest:  # densities are subnormal
        densities = [Uniform(low / 4, high / 4) for low, high in densities]
    check(getattr(uncertain, query)(to_readings(densities)), ORACLES[query](densities))


@pytest.mark.parametrize("ratio", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("n", [2, 3, 5, 12])
def test_very_different_widths(n, ratio):
    """A sum of wide and narrow values is as smooth as the narrow ones make it, at its corners."""
    densities = [Uniform(0.0, 1.0)] * (n // 2) + [Uniform(1.0, 1 + ratio)] * (n - n // 2)
    found, expected = uncertain.total(to_readings(densities)), oracle.total(densities)
    check(found, expected)
    low, high = float(expected.low), float(expected.high)
    knots = {float(x) for x in expected.knots}
    ramps = [low + ratio * k / 3 for k in range(1, 9)] + [high - ratio * k / 3 for k in range(1, 9)]
    x = [x for x in ramps if x not in knots]
    peak = float(expected.pdf((low + high) / 2))
    pdf = [float(expected.pdf(y)) for y in x]
    # The slope of a ramp is 1 / ratio, so the last digit of x may matter.
    tolerance = 1e-10 + (4 * math.ulp(high) / ratio if ratio < 1e-6 else 0)
    assert abs(found.pdf(np.array(x)) - pdf).max() <= tolerance * peak
    cdf = [float(expected.cdf(y)) for y in x]
    assert abs(found.cdf(np.array(x)) - cdf).max() <= 1e-10


@pytest.mark.parametrize("query", ORACLES)
@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize(
    "shape",
    [cases.overlapping, cases.identical, cases.nested, cases.histograms, cases.tiny, cases.huge,
     cases.far_away, cases.touching_the_end],
)  # fmt: skip
def test_quality(shape, n, query):
    if shape is cases.histograms and n > 2 and query in ("total", "average"):
        n = 3
    densities = shape(np.random.default_rng(n), n)
    found = getattr(uncertain, query)(to_readings(densities))
    assert found.quality == pytest.approx(ORACLES[query](densities).quality(), abs=1e-8, rel=1e-10)


@pytest.mark.parametrize("query", ORACLES)
@pytest.mark.parametrize("shape", [cases.points_only, cases.with_points])
def test_quality_with_atoms(shape, query):
    for n in (1, 3, 6):
        densities = shape(np.random.default_rng(n), n)
        found, expected = (
            getattr(uncertain, query)(to_readings(densities)),
            ORACLES[query](densities),
        )
        if expected.atoms:
            assert found.quality == math.inf
        else:
            assert found.quality == pytest.approx(expected.quality(), abs=1e-8)


# ------------------------------------------------------------ with normal distributions


@pytest.mark.parametrize("query", ["lowest", "highest"])
@pytest.mark.parametrize("n", [1, 2, 4, 9])
@pytest.mark.parametrize("shape", cases.NORMAL)
def test_extremes_of_normals(shape, n, query):
    densities = shape(np.random.default_rng(n), n)
    sign = 1 if query == "lowest" else -1
    mine = densities if sign > 0 else [mirror(density) for density in densities]
    found = getattr(uncertain, query)(to_readings(densities))
    exact = precise.Lowest(mine)
    low, high = sorted([sign * float(exact.low), sign * float(exact.high)])
    assert (found.low, found.high) == (low, high)
    # Places that matter: by the quantiles of the distribution itself.
    x = np.array([y for y in found.quantile([0.001, 0.1, 0.37, 0.6, 0.9, 0.99]) if low < y < high])
    pdf = np.array([float(exact.pdf(sign * y)) for y in x])
    atom = float(exact.atom)
    if len(x):
        assert abs(found.pdf(x) - pdf).max() <= 1e-10 * pdf.max()
        cdf = np.array([float(exact.cdf(sign * y)) for y in x])
        assert abs(found.cdf(x) - (cdf if sign > 0 else 1 - cdf)).max() <= 1e-10
    assert np.sum(found.atoms[1]) == pytest.approx(atom, abs=1e-10)
    mean, quality = numeric.Lowest(mine).mean_and_quality()
    assert found.mean == pytest.approx(sign * mean, abs=1e-10)
    assert found.quality == (math.inf if atom else pytest.approx(quality, abs=1e-8))
    check_quantiles(found)


@pytest.mark.parametrize("shape", cases.NORMAL)
def test_sums_of_two_with_normals(shape):
    densities = shape(np.random.default_rng(7), 2)
    variables = [precise.value(density) for density in densities]
    found = uncertain.total(to_readings(densities))
    x = found.quantile([0.01, 0.3, 0.5, 0.8, 0.999])
    pdf = np.array([float(precise.total_pdf(variables, y)) for y in x])
    assert abs(found.pdf(x) - pdf).max() <= 1e-10 * pdf.max()


def test_sums_of_three_with_normals():
    densities = [Normal(0.0, 1.0, -1.0, 2.0), Uniform(0.0, 1.5), Normal(3.0, 2.0, 0.0, 2.0)]
    variables = [precise.value(density) for density in densities]
    found = uncertain.total(to_readings(densities))
    x = np.array([-0.5, 2.0, 3.1])
    pdf = np.array([float(precise.total_pdf(variables, y)) for y in x])
    assert abs(found.pdf(x) - pdf).max() <= 1e-10 * pdf.max()


@pytest.mark.parametrize(
    ("shape", "n"),
    [(cases.normals, 4), (cases.normals, 8), (cases.flat_normals, 4), (cases.flat_normals, 12),
     (cases.normals_in_a_tail, 9), (cases.normals_in_a_tail, 12), (cases.all_families, 8),
     (cases.all_families, 12)],
)  # fmt: skip
def test_sums_of_normals(shape, n):
    densities = shape(np.random.default_rng(n), n)
    found, expected = uncertain.total(to_readings(densities)), numeric.Total(densities)
    x = found.quantile([0.001, 0.05, 0.4, 0.5, 0.95, 0.9999])
    pdf = expected.pdf(x)
    assert abs(found.pdf(x) - pdf).max() <= 1e-10 * pdf.max()
    assert abs(found.cdf(x) - expected.cdf(x)).max() <= 1e-10
    average = uncertain.average(to_readings(densities))
    assert abs(average.pdf(x / n) / n - pdf).max() <= 1e-10 * pdf.max()
    assert average.quality == pytest.approx(found.quality + math.log2(n), abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_sums_with_a_narrow_normal(n):
    """A needle of a normal is as good as a point at its mean, but for corners of the density."""
    densities = [Uniform(0.0, 1.0)] * n + [Normal(2.0, 1e-7, 1.0, 3.0)]
    found = uncertain.total(to_readings(densities))
    expected = oracle.total([*densities[:-1], Point(2.0)])
    for x in np.linspace(2.05, 1.95 + n, 5) + 0.003:
        assert found.cdf(x) == pytest.approx(float(expected.cdf(x)), abs=1e-10)
        if n > 2:
            assert found.pdf(x) == pytest.approx(float(expected.pdf(x)), abs=1e-10)


# ------------------------------------------------------------ one value


@pytest.mark.parametrize(
    "density",
    [Uniform(1.0, 4.0), Histogram((0.0, 1.0, 2.0, 4.0), (0.25, 0.0, 0.75)), Point(3.0),
     Uniform(2.0, 2.0), Uniform(1e300, 2e300), Uniform(1e9, 1e9 + 1e-6)],
)  # fmt: skip
def test_a_value(density):
    readings = to_readings([Uniform(0.0, 1.0), density, Point(7.0)], ["a", "b", "c"])
    found = uncertain.value(readings, "b")
    check(found, oracle.total([density]))
    check_quantiles(found)
    assert found.quality == pytest.approx(oracle.value_quality(density), abs=1e-12)


@pytest.mark.parametrize(
    "density",
    [Normal(0.0, 1.0, -1.0, 2.0), Normal(0.0, 1.0, 20.0, 21.0), Normal(9.0, 0.5, -11.0, -10.0),
     Normal(2.0, 1e-6, 0.0, 3.0), Normal(1.0, 1e6, 0.0, 1.0)],
)  # fmt: skip
def test_a_normal_value(density):
    found, variable = uncertain.value(to_readings([density]), 0), precise.value(density)
    assert (found.low, found.high) == ends(density)
    x = found.quantile([0.001, 0.2, 0.5, 0.9, 0.999])
    assert found.pdf(x) == pytest.approx([float(variable.pdf(y)) for y in x], rel=1e-10)
    assert found.cdf(x) == pytest.approx([float(variable.cdf(y)) for y in x], abs=1e-12)
    expected = precise.Lowest([density])
    assert found.mean == pytest.approx(float(expected.mean), abs=1e-12)
    assert found.quality == pytest.approx(float(expected.quality()), abs=1e-9)
    check_quantiles(found)


def test_half_a_unit_scores_one():
    """5.5.3: the entropy of U[0, 1/2] is -1."""
    readings = Readings.uniform(["a"], 0, 0.5)
    for found in (uncertain.value(readings, "a"), uncertain.total(readings),
                  uncertain.lowest(readings)):  # fmt: skip
        assert found.quality == pytest.approx(1, abs=1e-12)


def test_uniform_is_the_least_certain():
    """5.5.3: within bounds, the entropy is greatest for uniform values, log2(u - l)."""
    uniform = uncertain.value(Readings.uniform(["a"], 3, 11), "a")
    assert uniform.quality == pytest.approx(-math.log2(8), abs=1e-12)
    halves = uncertain.value(to_readings([Histogram((3.0, 4.0, 11.0), (0.5, 0.5))]), 0)
    assert halves.quality == pytest.approx(-(math.log2(2) + math.log2(14)) / 2, abs=1e-12)
    normal = uncertain.value(to_readings([Normal(7.0, 3.0, 3.0, 11.0)]), 0)
    assert min(halves.quality, normal.quality) > uniform.quality + 0.01


def test_unknown_ids_and_no_readings():
    readings = Readings.uniform(["boiler"], 0, 1)
    with pytest.raises(UncertainError, match="no reading has the id 'boilr'; did you mean"):
        uncertain.value(readings, "boilr")
    empty = Readings.uniform([], [], [])
    for query in ORACLES:
        with pytest.raises(UncertainError):
            getattr(uncertain, query)(empty)


# ------------------------------------------------------------ the form of distributions


DISTRIBUTIONS = [
    [Uniform(0.0, 1.0)], [Uniform(0.0, 1.0), Uniform(0.5, 3.0)], [Point(2.0), Uniform(1.0, 4.0)],
    [Point(2.0), Point(3.0)], [Histogram((0.0, 1.0, 2.0, 3.0), (0.5, 0.0, 0.5)), Point(2.5)],
    [Normal(0.0, 1.0, -1.0, 1.0), Uniform(0.0, 2.0), Histogram((0.0, 2.0), (1.0,))],
    [Uniform(0.0, 1.0)] * 50, [Uniform(0.0, 1.0), Uniform(0.0, 1e-6)],
]  # fmt: skip


@pytest.mark.parametrize("query", ORACLES)
@pytest.mark.parametrize("densities", DISTRIBUTIONS)
def test_forms(densities, query):
    found = getattr(uncertain, query)(to_readings(densities))
    check_quantiles(found)
    middle = (found.low + found.high) / 2
    for function in (found.pdf, found.cdf):
        assert np.ndim(function(middle)) == 0
        assert isinstance(float(function(middle)), float)
        assert np.shape(function([middle, middle])) == (2,)
        assert np.shape(function(np.zeros((2, 3)))) == (2, 3)
        assert np.shape(function(np.zeros(0))) == (0,)
    grid = np.linspace(found.low - 1, found.high + 1, 400)
    assert (found.pdf(grid) >= 0).all()
    assert np.isfinite(found.pdf(grid)).all()
    assert (np.diff(found.cdf(grid)) >= -1e-14).all()  # but for rounding
    assert (found.cdf(grid)[0], found.cdf(grid)[-1]) == (0, 1)
    assert found.pdf(grid)[[0, -1]].tolist() == [0, 0]
    values, probabilities = found.atoms
    for x, p in zip(values, probabilities, strict=True):
        before = float(found.cdf(np.nextafter(x, -np.inf)))
        assert found.cdf(x) - before == pytest.approx(p, abs=1e-9)


@pytest.mark.parametrize("query", ORACLES)
@pytest.mark.parametrize("densities", DISTRIBUTIONS)
def test_samples(densities, query):
    """The same seed gives the same sample, and a sample is of the distribution."""
    found = getattr(uncertain, query)(to_readings(densities))
    sample = found.sample(4000, 1)
    assert sample.shape == (4000,)
    assert sample.tolist() == found.sample(4000, 1).tolist()
    assert ((sample >= found.low) & (sample <= found.high)).all()
    assert found.sample(0, 1).shape == (0,)
    values, probabilities = found.atoms
    for x, p in zip(values, probabilities, strict=True):
        count = (sample == x).sum()
        assert sampling.chi_square([count, 4000 - count], [p, 1 - p], 4000) > sampling.SIGNIFICANCE
    rest = sample[~np.isin(sample, values)]
    if len(rest):
        assert sample.tolist() != found.sample(4000, 2).tolist()
        below = np.array([found.atoms[1][values < x].sum() for x in rest])
        shares = (found.cdf(rest) - below) / (1 - probabilities.sum())
        assert stats.kstest(shares, "uniform").pvalue > sampling.SIGNIFICANCE
    error = 6 * sample.std() / math.sqrt(4000)
    assert abs(sample.mean() - found.mean) <= error + 1e-12


@pytest.mark.parametrize("q", [-0.1, 1.5, math.nan])
def test_wrong_quantiles(q):
    with pytest.raises(UncertainError):
        uncertain.total(Readings.uniform(["a"], 0, 1)).quantile(q)
