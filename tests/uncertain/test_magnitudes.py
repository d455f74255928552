"""Numbers of very different magnitudes in one query."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tests.uncertain import checks, precise
from tests.uncertain.cases import Normal, Uniform
from tocsin import UncertainError, uncertain
from tocsin.uncertain import Readings


def probabilities(answer):
    return checks.probabilities_by_id(answer)


@pytest.mark.parametrize("away", [1e3, 1e6, 1e7])
def test_a_normal_far_from_its_mean_is_exponential(away):
    readings = Readings.normal(["n"], -away, 1, 0, 1) + Readings.uniform(["u"], [0], [1 / away])
    assert probabilities(uncertain.minimum(readings))["n"] == pytest.approx(
        math.exp(-1), rel=2 / away
    )


@pytest.mark.parametrize("scale", [1.0, 2.0**-1000, 2.0**1000, 2.0**1018])
def test_a_mean_that_is_far_away(scale):
    """The mean is beyond the largest float if it is twice as large."""
    a = Readings.normal(["a"], 60 * scale, 10 * scale, scale, 9 * scale)
    b = Readings.uniform(["b"], [-9 * scale], [8 * scale])
    expected = precise.minimum([Normal(60.0, 10.0, 1.0, 9.0), Uniform(-9.0, 8.0)])
    expected = dict(zip("ab", map(float, expected), strict=True))
    assert probabilities(uncertain.minimum(a + b)) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("narrow", [1e-20, 1e-100, 1e-250])
def test_narrow_values_far_from_the_query_point(narrow):
    readings = Readings.normal(["n"], 0, 100 * narrow, 0, narrow)
    readings += Readings.uniform(["u", "v"], [0, 0], [narrow, 2 * narrow])
    # As in an interval of 1, where the oracle can compute it.
    densities = [Normal(0.0, 100.0, 0.0, 1.0), Uniform(0.0, 1.0), Uniform(0.0, 2.0)]
    expected = dict(zip("nuv", map(float, precise.minimum(densities)), strict=True))
    found = probabilities(uncertain.nearest(readings, -1))
    assert found == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("large", [1e10, 1e155, 1e300])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_disk_that_is_much_larger(large, dimensions):
    centers = np.zeros((2, dimensions))
    centers[1, 0] = large
    disks = Readings.disks(["a", "b"], centers, [1, large])
    found = probabilities(uncertain.nearest(disks, np.full(dimensions, 0.1)))
    assert found["a"] == pytest.approx(1, abs=1e-9)


def test_subnormal_widths():
    readings = Readings.uniform(["a", "b", "c"], 0, [5e-324, 1e-323, 1e308])
    assert probabilities(uncertain.minimum(readings)) == {"a": 0.5, "b": 0.5}
    histogram = Readings.histogram(["h"], [[0, 5e-324, 1]], [[0.5, 0.5]])
    found = uncertain.minimum(histogram + Readings.uniform(["u"], [0], [1]))
    assert probabilities(found) == pytest.approx({"h": 0.75, "u": 0.25})


LEAST = 5e-324


@pytest.mark.parametrize("at", [0.0, 3 * LEAST, -LEAST, 1e-310])
@pytest.mark.parametrize("bins", [1, 2, 7])
def test_probabilities_of_subnormal_widths(at, bins):
    """Halves of the least float are 0, so lengths must not be halved."""
    end = at + bins * LEAST
    narrow = Readings.histogram(["h"], [[at, end, 1.0]], [[0.6, 0.4]])
    assert probabilities(uncertain.in_range(narrow, at, end)) == {"h": 0.6}
    assert probabilities(uncertain.in_range(narrow, -1, at + LEAST))["h"] == pytest.approx(
        0.6 / bins
    )
    wide = Readings.histogram(["h"], [[-1.0, at, end, 1.0]], [[0.1, 0.6, 0.3]])
    assert probabilities(uncertain.in_range(wide, at, end))["h"] == pytest.approx(0.6)
    uniform = Readings.uniform(["u"], at, end)
    assert probabilities(uncertain.in_range(uniform, at, at + LEAST))["u"] == 1 / bins
    for query in (uncertain.lowest, uncertain.highest, uncertain.total, uncertain.average):
        assert query(uniform).cdf(at + LEAST) == pytest.approx(1 / bins)
        assert query(narrow).cdf(end) == pytest.approx(0.6)


def test_probabilities_of_the_widest_values():
    uniform = Readings.uniform(["u"], -1.5e308, 1.5e308)
    assert probabilities(uncertain.in_range(uniform, 0, 2e308))["u"] == 0.5
    histogram = Readings.histogram(["h"], [[-1.5e308, 1.5e308, 1.6e308]], [[0.8, 0.2]])
    assert probabilities(uncertain.in_range(histogram, 0, 1.5e308))["h"] == pytest.approx(0.4)
    assert uncertain.lowest(uniform).pdf(0.0) == pytest.approx(1 / 1.5e308 / 2)


@pytest.mark.parametrize("query", [uncertain.total, uncertain.average])
@pytest.mark.parametrize(
    "readings",
    [
        Readings.uniform(["a", "b"], 1e308, 1.5e308),
        Readings.points(["a", "b", "c"], [1.5e308, 1.5e308, -1.5e308]),
        Readings.uniform(["a", "b"], -1.5e308, 1.5e308),
        Readings.uniform(["a", "b"], [-1.5e308, 0], [1.5e308, 1]),
    ],
)
def test_sums_beyond_the_largest_float_are_refused(query, readings):
    with pytest.raises(UncertainError, match="the sum of these readings is beyond the largest"):
        query(readings)


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e9, -3e12])
def test_sums_of_narrow_values_far_away(n, offset):
    """Exactly, by inclusion and exclusion over the corners of a box."""
    rng = np.random.default_rng(n)
    low = offset + rng.random(n)
    high = low + rng.uniform(1e-3, 3e-3, n) * max(1.0, abs(offset) / 1e9)
    readings = Readings.uniform(list(range(n)), low, high)
    lows, widths = (
        list(map(Fraction, low)),
        [Fraction(b) - Fraction(a) for a, b in zip(low, high, strict=True)],
    )

    def exact(x):
        total = Fraction(0)
        for used in itertools.product((0, 1), repeat=n):
            beyond = Fraction(x) - sum(lows) - sum(w for w, u in zip(widths, used) if u)
            if beyond > 0:
                total += (-1) ** sum(used) * beyond**n
        return float(total / (math.factorial(n) * math.prod(widths)))

    for query, divisor in ((uncertain.total, 1), (uncertain.average, n)):
        found = query(readings)
        for x in np.linspace(found.low, found.high, 9)[1:-1].tolist():
            assert found.cdf(x) == pytest.approx(exact(Fraction(x) * divisor), abs=1e-11)


def test_what_is_too_narrow_is_refused():
    readings = Readings.normal(["n"], 0, 1e-313, 0, 1e-306) + Readings.uniform(["u"], [0], [1e-306])
    with pytest.raises(UncertainError, match=r"too narrow to compute with .* use a point instead"):
        uncertain.nearest(readings, 1e300)


@pytest.mark.parametrize("edge", [1e-20, 1e-15, 1e-10, 1e-300])
def test_quality_of_a_narrow_bin(edge):
    """At the low end, at the high end, and about zero."""
    for edges, weights in (
        ([0, edge, 1], [0.99, 0.01]),
        ([-1, -edge, 0], [0.01, 0.99]),
        ([-1, 0, edge, 1], [0.005, 0.99, 0.005]),
    ):
        readings = Readings.histogram(["h"], [edges], [weights])
        expected = math.fsum(
            w * (math.log2(w) - math.log2(b - a))
            for w, a, b in zip(weights, edges, edges[1:], strict=False)
        )
        for found in (uncertain.value(readings, "h"), uncertain.highest(readings)):
            assert found.quality == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("half", [1e-307, 1e-3, 1.7e308])
def test_one_uniform_value(half):
    found = uncertain.value(Readings.uniform(["a"], [-half], [half]), "a")
    assert found.quality == pytest.approx(-1 - math.log2(half), abs=1e-12)
    assert abs(found.mean) <= 1e-13 * half
    assert found.pdf(0.0) == pytest.approx(0.5 / half)


def test_the_lowest_of_the_widest():
    found = uncertain.lowest(Readings.uniform(["a", "b"], -1.7e308, [-0.5e308, 1.7e308]))
    small = uncertain.lowest(Readings.uniform(["a", "b"], -1.7, [-0.5, 1.7]))
    assert found.mean / 1e308 == pytest.approx(small.mean, rel=1e-12)


def test_zero_has_no_sign():
    assert (
        repr(uncertain.highest(Readings.uniform(["a"], [0], [1])))
        .split(":")[1]
        .startswith(" in [0, 1], mean 0.5, quality 0")
    )
    assert repr(uncertain.highest(Readings.points(["a"], [0]))).endswith(": 0")


def test_samples_of_a_narrow_part_of_a_tail():
    found = uncertain.value(Readings.normal(["a"], -1e7, 1, 1e-10, 2e-10), "a").sample(1000)
    assert found.std() == pytest.approx(1e-10 / math.sqrt(12), rel=0.1)


@pytest.mark.parametrize("policy", ["minexpentropy", "expected_score"])
def test_refreshing_narrow_values_far_away(policy):
    wide, narrow = (
        uncertain.QueryState(Readings.uniform(["a", "b"], 0, [w, 2 * w]), "nearest", q=1)
        for w in (1e-3, 1e-20)
    )
    assert wide.expected_entropy.min() > 0.3
    assert narrow.expected_entropy == pytest.approx(wide.expected_entropy, abs=1e-6)
    assert uncertain.policies[policy]()(narrow) == uncertain.policies[policy]()(wide)


def test_refreshing_what_floats_do_not_tell_apart():
    readings = Readings.uniform(["a", "b", "c"], [0, 0, 0.5], [1e-20, 2e-20, 3])
    state = uncertain.QueryState(readings, "nearest", q=1)
    assert state.expected_entropy == pytest.approx(uncertain.nearest(readings, 1).entropy)
