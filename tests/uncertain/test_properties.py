"""What holds for the queries over any set of uncertain values."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.uncertain import checks, numeric, oracle
from tests.uncertain.cases import (
    Histogram,
    Normal,
    Point,
    Uniform,
    ends,
    is_point,
    mirror,
    to_readings,
)
from tocsin import uncertain

# Multiples of 1/8 in a small range: ends often coincide, and sums and differences are exact.
EIGHTHS = st.integers(-40, 40).map(lambda k: k / 8)
QUERIES = ["minimum", "maximum", "nearest"]


@st.composite
def histograms(draw):
    edges = sorted(draw(st.sets(EIGHTHS, min_size=2, max_size=5)))
    weights = [0] * (len(edges) - 1)
    for _ in range(16):
        weights[draw(st.integers(0, len(weights) - 1))] += 1
    return Histogram(tuple(edges), tuple(weight / 16 for weight in weights))


@st.composite
def normals(draw):
    low, high = sorted([draw(EIGHTHS), draw(EIGHTHS)])
    deviation = draw(st.sampled_from([0.01, 0.25, 1.0, 3.0, 100.0]))
    return Normal(draw(EIGHTHS), deviation, low, high)


points = EIGHTHS.map(Point)
uniforms = st.tuples(EIGHTHS, EIGHTHS).map(lambda x: Uniform(min(x), max(x)))
exact_sets = st.lists(st.one_of(uniforms, points, histograms()), min_size=1, max_size=7)
sets = st.lists(st.one_of(uniforms, points, histograms(), normals()), min_size=1, max_size=9)


def ask(query, densities, q=0.0, **options):
    arguments = (q,) if query == "nearest" else ()
    return getattr(uncertain, query)(to_readings(densities), *arguments, **options)


def same(one, other, tolerance=1e-11):
    """Compare two answers, by probabilities of ids."""
    one, other = checks.probabilities_by_id(one), checks.probabilities_by_id(other)
    for i in one.keys() | other.keys():
        assert abs(one.get(i, 0) - other.get(i, 0)) <= tolerance, i


@given(exact_sets, EIGHTHS)
def test_answers_are_exact(densities, q):
    checks.check_minimum(ask("minimum", densities), densities, oracle.minimum(densities))
    checks.check_maximum(ask("maximum", densities), densities, oracle.maximum(densities))
    expected = oracle.nearest(densities, q)
    checks.check_nearest(ask("nearest", densities, q), densities, q, expected)


@given(sets, EIGHTHS)
def test_answers_with_normals(densities, q):
    checks.check_minimum(ask("minimum", densities), densities, numeric.minimum(densities))
    checks.check_maximum(ask("maximum", densities), densities, numeric.maximum(densities))
    expected = numeric.nearest(densities, q)
    checks.check_nearest(ask("nearest", densities, q), densities, q, expected)


@pytest.mark.parametrize("query", QUERIES)
@given(sets, EIGHTHS, st.randoms(use_true_random=False))
def test_the_order_of_readings_does_not_matter(query, densities, q, random):
    arguments = (q,) if query == "nearest" else ()
    readings = to_readings(densities)
    order = list(range(len(densities)))
    random.shuffle(order)
    ask_for = getattr(uncertain, query)
    same(ask_for(readings, *arguments), ask_for(readings.take(order), *arguments))


def moved(density, factor, shift):
    match density:
        case Point(value):
            return Point(value * factor + shift)
        case Uniform(low, high):
            return Uniform(low * factor + shift, high * factor + shift)
        case Normal(mean, deviation, low, high):
            mean, low, high = (x * factor + shift for x in (mean, low, high))
            return Normal(mean, deviation * factor, low, high)
        case Histogram(edges, weights):
            return Histogram(tuple(edge * factor + shift for edge in edges), weights)


@pytest.mark.parametrize("query", QUERIES)
@given(sets, EIGHTHS, st.integers(-30, 30), st.integers(-1000, 1000))
def test_moving_and_scaling(query, densities, q, power, shift):
    """Scales of powers of two and shifts of multiples of them are exact."""
    factor = 2.0**power
    shift *= factor
    before = ask(query, densities, q)
    after = ask(query, [moved(d, factor, shift) for d in densities], q * factor + shift)
    same(before, after)
    assert after.entropy == pytest.approx(before.entropy, abs=1e-9)
    assert after.quality == pytest.approx(before.quality * factor, rel=1e-9, abs=1e-9 * factor)


@given(sets)
def test_the_maximum_is_the_minimum_mirrored(densities):
    same(ask("maximum", densities), ask("minimum", [mirror(d) for d in densities]))


@given(sets, st.integers(0, 100))
def test_the_nearest_to_a_low_value_is_the_minimum(densities, gap):
    q = min(ends(d)[0] for d in densities) - gap / 8
    same(ask("nearest", densities, q), ask("minimum", densities))
    q = max(ends(d)[1] for d in densities) + gap / 8
    same(ask("nearest", densities, q), ask("maximum", densities))


@given(sets, EIGHTHS)
def test_nearest_is_mirrored_with_its_values(densities, q):
    same(ask("nearest", densities, q), ask("nearest", [mirror(d) for d in densities], -q))


@pytest.mark.parametrize("query", QUERIES)
@given(sets, EIGHTHS, st.one_of(st.floats(0.001, 1), st.integers(0, 8)))
@example([Uniform(-0.125, 0.0), Normal(0.125, 0.01, -0.125, 0.125)], 0.0, 1)  # p of 4e-36
def test_at_least(query, densities, q, at_least):
    """The answer is that part of the whole one; also for one of its own probabilities."""
    whole = ask(query, densities, q)
    if isinstance(at_least, int):
        at_least = whole.probabilities[min(at_least, len(whole) - 1)]
    part = ask(query, densities, q, at_least=at_least)
    expected = [(i, p) for i, p in whole if p >= at_least]
    assert [i for i, _ in part] == [i for i, _ in expected]
    assert part.probabilities == pytest.approx([p for _, p in expected], abs=1e-10)


@given(sets, EIGHTHS, EIGHTHS, EIGHTHS)
def test_parts_of_a_range_add_up(densities, a, b, c):
    a, b, c = sorted([a, b, c])
    readings = to_readings(densities)
    left, right, whole = (
        checks.probabilities_by_id(uncertain.in_range(readings, low, high))
        for low, high in ((a, b), (b, c), (a, c))
    )
    for i, density in enumerate(densities):
        both = is_point(density) and ends(density)[0] == b  # a point at b is in both
        assert left.get(i, 0) + right.get(i, 0) - both == pytest.approx(whole.get(i, 0), abs=1e-12)


@given(sets, EIGHTHS, EIGHTHS)
def test_probabilities_are_in_0_to_1(densities, a, b):
    a, b = sorted([a, b])
    for answer in (
        ask("minimum", densities), ask("maximum", densities), ask("nearest", densities, a),
        uncertain.in_range(to_readings(densities), a, b),
    ):  # fmt: skip
        checks.check_form(answer, range(len(densities)))
        if hasattr(answer, "entropy") and answer.entropy is not None:
            assert abs(math.fsum(answer.probabilities) - 1) <= 1e-9


FINITE = st.floats(-1e300, 1e300)


@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=6), FINITE)
def test_any_floats(intervals, q):
    """Of any magnitude: subnormal numbers, 1e300, and intervals of a few floats."""
    densities = [Uniform(min(pair) + 0.0, max(pair) + 0.0) for pair in intervals]
    checks.check_minimum(ask("minimum", densities), densities, oracle.minimum(densities))
    checks.check_maximum(ask("maximum", densities), densities, oracle.maximum(densities))
    low, high = sorted([q, densities[0].high])
    checks.check_in_range(
        uncertain.in_range(to_readings(densities), low, high),
        oracle.in_range(densities, low, high),
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=6))
def test_neighboring_floats(steps):
    """Intervals of up to nine floats."""
    unit = math.ulp(1e9)
    densities = [Uniform(1e9 + a * unit, 1e9 + (a + b) * unit) for a, b in steps]
    checks.check_minimum(ask("minimum", densities), densities, oracle.minimum(densities))
    checks.check_maximum(ask("maximum", densities), densities, oracle.maximum(densities))
    q = 1e9 + 5 * unit
    expected = oracle.nearest(densities, q)
    checks.check_nearest(ask("nearest", densities, q), densities, q, expected)


@given(sets)
def test_inputs_are_not_changed(densities):
    readings = to_readings(densities)
    before = [np.array(array) for array in readings.densities]
    for query in QUERIES:
        getattr(uncertain, query)(readings, *((0.0,) if query == "nearest" else ()))
    for array, copy in zip(readings.densities, before, strict=True):
        assert (array == copy).all()
