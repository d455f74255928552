"""Numbers of very different magnitudes in one query."""

import math

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
