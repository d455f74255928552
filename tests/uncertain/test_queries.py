"""Range, minimum, maximum and nearest: sets of up to 12 values against the oracles."""

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from tests.uncertain import cases, checks, numeric, oracle, precise
from tests.uncertain.cases import Histogram, Normal, Point, Uniform, ends, mirror, to_readings
from tocsin import UncertainError, uncertain
from tocsin.uncertain import Readings
from tocsin.uncertain.distances import bound_values

SIZES = [1, 2, 3, 5, 8, 12]


def places_of_interest(densities):
    """Return values of q: inside, at an end, between the ends of two values, and outside."""
    low, high = min(ends(d)[0] for d in densities), max(ends(d)[1] for d in densities)
    first = ends(densities[0])
    return sorted({low, 0.5 * low + 0.5 * high, first[1], 0.75 * first[0] + 0.25 * first[1], high})


def ranges_of_interest(densities):
    places = places_of_interest(densities)
    return [(a, b) for a in places for b in places if a <= b]


# ------------------------------------------------------------ against rational arithmetic


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("shape", cases.EXACT)
def test_minimum_and_maximum_are_exact(shape, n):
    densities = shape(np.random.default_rng(n), n)
    readings = to_readings(densities)
    checks.check_minimum(uncertain.minimum(readings), densities, oracle.minimum(densities))
    checks.check_maximum(uncertain.maximum(readings), densities, oracle.maximum(densities))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("shape", cases.EXACT)
def test_nearest_is_exact(shape, n):
    densities = shape(np.random.default_rng(100 + n), n)
    readings = to_readings(densities)
    for q in places_of_interest(densities):
        answer = uncertain.nearest(readings, q)
        checks.check_nearest(answer, densities, q, oracle.nearest(densities, q))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("shape", cases.EXACT)
def test_ranges_are_exact(shape, n):
    densities = shape(np.random.default_rng(200 + n), n)
    readings = to_readings(densities)
    for low, high in ranges_of_interest(densities):
        answer = uncertain.in_range(readings, low, high)
        checks.check_in_range(answer, oracle.in_range(densities, low, high))


@pytest.mark.parametrize("seed", range(40))
def test_random_mixtures_are_exact(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 13))
    shapes = [s for s in cases.EXACT if s not in (cases.huge, cases.widest, cases.all_magnitudes)]
    densities = [shapes[rng.integers(len(shapes))](rng, 3)[-1] for _ in range(n)]
    readings = to_readings(densities)
    checks.check_minimum(uncertain.minimum(readings), densities, oracle.minimum(densities))
    checks.check_maximum(uncertain.maximum(readings), densities, oracle.maximum(densities))
    q = float(rng.uniform(0, 5))
    checks.check_nearest(uncertain.nearest(readings, q), densities, q, oracle.nearest(densities, q))


# ------------------------------------------------------------ against 40 digits


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", cases.NORMAL)
def test_normals(shape, n):
    densities = shape(np.random.default_rng(n), n)
    readings = to_readings(densities)
    checks.check_minimum(uncertain.minimum(readings), densities, precise.minimum(densities))
    checks.check_maximum(uncertain.maximum(readings), densities, precise.maximum(densities))
    for q in places_of_interest(densities)[1:4:2]:
        answer = uncertain.nearest(readings, q)
        checks.check_nearest(answer, densities, q, precise.nearest(densities, q))
    for low, high in ranges_of_interest(densities):
        answer = uncertain.in_range(readings, low, high)
        checks.check_in_range(answer, precise.in_range(densities, low, high))


def test_twelve_of_all_families():
    densities = cases.all_families(np.random.default_rng(12), 12)
    readings = to_readings(densities)
    checks.check_minimum(uncertain.minimum(readings), densities, precise.minimum(densities))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("shape", cases.NORMAL)
def test_normals_against_floats(shape, n):
    for seed in (1, 2):
        densities = shape(np.random.default_rng(1000 * seed + n), n)
        readings = to_readings(densities)
        checks.check_minimum(uncertain.minimum(readings), densities, numeric.minimum(densities))
        checks.check_maximum(uncertain.maximum(readings), densities, numeric.maximum(densities))
        for q in places_of_interest(densities)[seed::2]:
            answer = uncertain.nearest(readings, q)
            checks.check_nearest(answer, densities, q, numeric.nearest(densities, q))


@pytest.mark.parametrize("away", [5, 12, 17, 25, 37, 40])
@pytest.mark.parametrize("side", [1, -1])
def test_one_tail(away, side):
    """A value far out in its tail is close to the near end, by a deviation over the distance."""
    tail = Normal(0.0, 1.0, float(away), float(away + 1))
    densities = [tail, Uniform(float(away), away + 3 / away), Point(away + 1 / away)]
    if side < 0:
        densities = [mirror(density) for density in densities]
    readings = to_readings(densities)
    checks.check_minimum(uncertain.minimum(readings), densities, precise.minimum(densities))
    checks.check_maximum(uncertain.maximum(readings), densities, precise.maximum(densities))
    low, high = side * away, side * (away + 0.7 / away)
    answer = uncertain.in_range(readings, min(low, high), max(low, high))
    expected = precise.in_range(densities, min(low, high), max(low, high))
    checks.check_in_range(answer, expected)


@pytest.mark.parametrize("ratio", [1e-3, 1e-6, 3e-8])
@pytest.mark.parametrize("mean", [0.0, 0.3, 1.0])
def test_a_needle_in_a_wide_interval(ratio, mean):
    """All of the density is in a millionth of the interval, also at an end of it."""
    densities = [Normal(mean, ratio, 0.0, 1.0), Uniform(mean - 2 * ratio, mean + 3 * ratio)]
    densities += [Uniform(-1.0, 2.0), Normal(mean + ratio, ratio, -0.5, 1.5)]
    readings = to_readings(densities)
    checks.check_minimum(uncertain.minimum(readings), densities, precise.minimum(densities))
    checks.check_maximum(uncertain.maximum(readings), densities, precise.maximum(densities))
    for q in (mean, mean + 1.5 * ratio, 0.5):
        answer = uncertain.nearest(readings, q)
        checks.check_nearest(answer, densities, q, precise.nearest(densities, q))


# ------------------------------------------------------------ hard cases, one by one


def test_points_share_equally():
    readings = Readings.points(list("abcd"), [2, 1, 1, 1])
    answer = uncertain.minimum(readings)
    checks.check_answer(answer, [0, 1 / 3, 1 / 3, 1 / 3], "abcd")
    assert answer.ids.to_pylist() == ["b", "c", "d"]
    assert tuple(answer.bounds) == (1, 1)
    assert answer.entropy == pytest.approx(math.log2(3))
    assert answer.quality == 0
    assert uncertain.maximum(readings).ids.to_pylist() == ["a"]
    assert uncertain.nearest(readings, 1.5).ids.to_pylist() == list("abcd")


@pytest.mark.parametrize("n", [1, 2, 12])
def test_points_at_the_ends_of_intervals(n):
    """A point at the low end wins for certain; at the high end it has no chance."""
    intervals = [Uniform(1, 2)] * n
    for point, p in ((1.0, 1.0), (2.0, 0.0), (1.5, 0.5**n)):
        densities = [Point(point), *intervals]
        answer = uncertain.minimum(to_readings(densities))
        checks.check_answer(answer, [p] + [(1 - p) / n] * n)


def test_touching_intervals_are_left_out():
    """Unlike Fig. 5.6 of the thesis, which reports them with a probability of 0."""
    readings = Readings.uniform(["a", "b", "c"], [0, 1, 1], [1, 2, 1])
    assert list(uncertain.minimum(readings)) == [("a", 1.0)]
    assert uncertain.minimum(readings).quality == 0
    assert list(uncertain.maximum(readings)) == [("b", 1.0)]
    assert list(uncertain.nearest(readings, 1)) == [("c", 1.0)]
    assert list(uncertain.in_range(readings, 1, 1)) == [("c", 1.0)]
    left = bound_values(readings.densities, 0.0)  # pruned, and not only without a probability
    assert (left.f, set(left.distances.owner.tolist())) == (1, {0})
    assert left.nearest_points.tolist() == [2]


def test_overlap_with_a_gap_only_is_left_out():
    gap = Histogram((0.0, 1.0, 2.0, 3.0), (0.5, 0.0, 0.5))
    inside = Histogram((1.0, 1.5, 5.0, 6.0), (0.0, 0.0, 1.0))
    readings = to_readings([Uniform(1.0, 2.0), gap, inside])
    assert uncertain.in_range(readings, 1.25, 1.75).ids.to_pylist() == [0]
    wins = uncertain.minimum(to_readings([Uniform(1.0, 1.75), gap]))
    checks.check_answer(wins, [0.5, 0.5])
    far = Histogram((0.0, 1.0, 2.0, 3.0), (0.0, 0.0, 1.0))
    assert list(uncertain.minimum(to_readings([far, Uniform(0.0, 2.0)]))) == [(1, 1.0)]


def test_wins_that_are_all_but_impossible():
    """The second wins with probability 1e-9 / 2, the third with 2^-60 or so."""
    densities = [Uniform(0.0, 1.0), Uniform(1 - 1e-9, 2.0), Uniform(1 - 2.0**-30, 2.0)]
    answer = uncertain.minimum(to_readings(densities))
    checks.check_answer(answer, oracle.minimum(densities))


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e9, 1e300])
def test_magnitudes(scale):
    densities = [Uniform(0.0, 3 * scale), Uniform(1 * scale, 2 * scale), Point(1.5 * scale)]
    densities.append(Normal(2 * scale, scale, 0.5 * scale, 4 * scale))
    densities.append(Histogram((0.0, scale, 2 * scale), (0.25, 0.75)))
    readings = to_readings(densities)
    checks.check_minimum(uncertain.minimum(readings), densities, precise.minimum(densities))
    q = 1.75 * scale
    expected = precise.nearest(densities, q)
    checks.check_nearest(uncertain.nearest(readings, q), densities, q, expected)


def test_far_away_normals():
    """At 1e9, deviations of 1e-6 are eight floats wide."""
    rng = np.random.default_rng(0)
    low = (1e9 + rng.uniform(0, 1e-6, 4)).tolist()
    densities = [Normal(a + 4e-7, 1e-6, a, a + 2e-6) for a in low]
    readings = to_readings(densities)
    checks.check_minimum(uncertain.minimum(readings), densities, precise.minimum(densities))
    checks.check_maximum(uncertain.maximum(readings), densities, precise.maximum(densities))


def test_neighboring_floats():
    unit = math.ulp(1.0)
    densities = [Uniform(1.0, 1 + unit), Uniform(1.0, 1 + 2 * unit), Point(1 + unit)]
    densities.append(Normal(1.0, unit, 1.0, 1 + 3 * unit))
    readings = to_readings(densities)
    checks.check_minimum(uncertain.minimum(readings), densities, precise.minimum(densities))
    checks.check_maximum(uncertain.maximum(readings), densities, precise.maximum(densities))
    q = 1 + unit
    expected = precise.nearest(densities, q)
    checks.check_nearest(uncertain.nearest(readings, q), densities, q, expected)


@pytest.mark.parametrize("q", [0.1, -3.7, 1e9 + 1, 1e9 - 1e-3])
def test_q_far_from_narrow_intervals(q):
    """Distances to q are rounded to the width of an interval, but not the differences of values."""
    densities = cases.far_away(np.random.default_rng(1), 5)
    answer = uncertain.nearest(to_readings(densities), q)
    checks.check_answer(answer, oracle.nearest(densities, q))


# ------------------------------------------------------------ the form of answers


def test_an_answer():
    readings = Readings.uniform(["x", "y", "z"], [0, 1, 7], [2, 3, 9])
    answer = uncertain.minimum(readings)
    assert answer.ids.type == pa.string()
    assert answer.ids.to_pylist() == ["x", "y"]
    assert answer.probabilities == pytest.approx([7 / 8, 1 / 8], abs=1e-12)
    table = answer.to_arrow()
    assert table.column_names == ["id", "probability"]
    assert table["id"].to_pylist() == ["x", "y"]
    assert table["probability"].to_pylist() == answer.probabilities.tolist()
    assert len(answer) == 2
    assert "x" in repr(answer)
    assert "0.875" in repr(answer) or "87.5" in repr(answer)


def test_ties_come_by_position():
    readings = Readings.uniform(list("dacb"), [1, 0, 0, 0], [2, 5, 5, 5])
    answer = uncertain.in_range(readings, 0, 2.5)
    assert list(answer) == [("d", 1.0), ("a", 0.5), ("c", 0.5), ("b", 0.5)]


@pytest.mark.parametrize("query", [uncertain.minimum, uncertain.maximum, uncertain.nearest])
def test_at_least(query):
    densities = cases.all_families(np.random.default_rng(5), 11)
    readings = to_readings(densities)
    arguments = (1.9,) if query is uncertain.nearest else ()
    whole = query(readings, *arguments)
    for at_least in (1e-9, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.9, 1.0):
        answer = query(readings, *arguments, at_least=at_least)
        expected = [(i, p) for i, p in whole if p >= at_least]
        assert [i for i, _ in answer] == [i for i, _ in expected], at_least
        assert answer.probabilities == pytest.approx([p for _, p in expected], abs=1e-10)
        assert answer.quality is None
        assert answer.entropy is None


def test_at_least_of_ranges():
    readings = Readings.uniform(list("abcd"), [0, 1, 2, 5], [4, 3, 6, 8])
    assert list(uncertain.in_range(readings, 1, 3)) == [("b", 1.0), ("a", 0.5), ("c", 0.25)]
    found = uncertain.in_range(readings, 1, 3, at_least=0.5)
    assert list(found) == [("b", 1.0), ("a", 0.5)]


def test_no_readings():
    empty = Readings.uniform([], [], [])
    answer = uncertain.in_range(empty, 0, 1)
    assert len(answer) == 0
    assert answer.quality == 1
    assert answer.to_arrow().num_rows == 0
    for query in (uncertain.minimum, uncertain.maximum):
        with pytest.raises(UncertainError):
            query(empty)
    with pytest.raises(UncertainError):
        uncertain.nearest(empty, 0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, "x", None])
def test_bad_arguments(bad):
    readings = Readings.uniform(["a"], 0, 1)
    with pytest.raises(UncertainError):
        uncertain.nearest(readings, bad)
    if bad is not None:
        with pytest.raises(UncertainError):
            uncertain.minimum(readings, at_least=bad)
    if bad != math.inf:
        with pytest.raises(UncertainError):
            uncertain.in_range(readings, bad, 1)
        with pytest.raises(UncertainError):
            uncertain.in_range(readings, 0, bad)


def test_bad_ranges_and_thresholds():
    readings = Readings.uniform(["a"], 0, 1)
    with pytest.raises(UncertainError):
        uncertain.in_range(readings, 1, 0)
    for query in (uncertain.minimum, uncertain.maximum):
        for at_least in (-0.1, 1.1):
            with pytest.raises(UncertainError):
                query(readings, at_least=at_least)
    with pytest.raises(UncertainError):
        uncertain.nearest(readings, (0, 1))


# ------------------------------------------------------------ the worked examples of the thesis


def test_entropies_of_the_thesis():
    """5.5.2: {.6, .4} and {.6, .3, .1}; histograms with bins that do not overlap give these."""
    first = Histogram((0.0, 1.0, 4.0, 5.0), (0.6, 0.0, 0.4))
    two = uncertain.minimum(to_readings([first, Uniform(1.0, 2.0)]))
    checks.check_answer(two, [0.6, 0.4])
    assert round(two.entropy, 3) == 0.971
    second = Histogram((1.0, 2.0, 3.0, 4.0), (0.75, 0.0, 0.25))
    three = uncertain.minimum(to_readings([first, second, Uniform(2.0, 3.0)]))
    checks.check_answer(three, [0.6, 0.3, 0.1])
    assert round(three.entropy, 3) == 1.295


def test_half_as_wide_intervals_score_half():
    """Fig. 5.9: (a) and (c), (b) and (d); (b) has a lower entropy than (a)."""
    entropies = []
    for low, high in (([0.0, 0.0], [4.0, 4.0]), ([2.0, 0.0], [6.0, 4.0])):
        whole = uncertain.minimum(Readings.uniform(["1", "2"], low, high))
        halves = uncertain.minimum(
            Readings.uniform(["1", "2"], np.array(low) / 2, np.array(high) / 2)
        )
        assert whole.quality < 0
        assert halves.entropy == pytest.approx(whole.entropy, abs=1e-12)
        assert halves.quality == pytest.approx(whole.quality / 2, abs=1e-12)
        entropies.append(whole.entropy)
    # In (b), T_1 wins only if it is below 4 and T_2 is above it: with probability 1/8.
    b = (math.log2(8) + 7 * math.log2(8 / 7)) / 8
    assert entropies == pytest.approx([1, b], abs=1e-12)
    equal = uncertain.minimum(Readings.uniform(["1", "2"], 0.0, 4.0))
    assert equal.quality == pytest.approx(-4, abs=1e-12)


def rounded(answer):
    return {id: round(p, 1) for id, p in answer}


def test_four_sensors():
    """The example of Fig. 5.2, with intervals that give its probabilities."""
    readings = Readings.uniform(["s1", "s2", "s3", "s4"], [1, 6, 8, 40], [19, 26, 38, 44])
    answer = uncertain.in_range(readings, 0, 20)
    assert list(answer) == [("s1", 1.0), ("s2", pytest.approx(0.7)), ("s3", pytest.approx(0.4))]
    assert answer.quality == pytest.approx((1 + 0.4 + 0.2) / 3, abs=1e-12)
    assert rounded(uncertain.minimum(readings)) == {"s1": 0.7, "s2": 0.2, "s3": 0.1}
    assert list(uncertain.maximum(readings)) == [("s4", 1.0)]
    assert rounded(uncertain.nearest(readings, 19.5)) == {"s1": 0.2, "s2": 0.5, "s3": 0.3}
    one = uncertain.value(readings, "s4")
    assert (one.low, one.high, one.pdf(41)) == (40, 44, pytest.approx(1 / 4))
    bounds = {
        uncertain.total: (55, 127),
        uncertain.average: (55 / 4, 127 / 4),
        uncertain.lowest: (1, 19),
        uncertain.highest: (40, 44),
    }
    for query, expected in bounds.items():
        found = query(readings)
        assert (found.low, found.high) == pytest.approx(expected)


def test_the_phases_of_a_nearest_query():
    """Figs. 5.4 and 5.8: five objects, of which T_5 is pruned; Figs. 5.5 to 5.7 as printed."""
    low, high, q = [9.0, 4.0, 12.0, 5.5, 15.0], [14.0, 9.5, 17.0, 7.5, 16.0], 10.0
    objects = []
    for i, (left, right) in enumerate(zip(low, high, strict=True)):
        near = 0.0 if left <= q <= right else min(abs(q - left), abs(q - right))
        objects.append((near, max(abs(q - left), abs(q - right)), i))
    f = min(far for _, far, _ in objects)
    kept = sorted(each for each in objects if each[0] <= f)
    assert f == 4
    assert [i for _, _, i in kept] == [0, 1, 2, 3]

    def share(each, x):  # Fig. 5.7, F_i(x)
        near, far, i = each
        if x < near:
            return 0.0
        if x > far:
            return 1.0
        return (min(high[i], q + x) - max(low[i], q - x)) / (high[i] - low[i])

    starts = [*(near for near, _, _ in kept), f]
    expected = {}
    for i, own in enumerate(kept):  # Fig. 5.6, with a sum for the integral
        expected[i] = 0.0
        for j in range(i, len(kept)):
            for a, b in pairwise(np.linspace(starts[j], starts[j + 1], 2001).tolist()):
                product = share(own, b) - share(own, a)
                for k in range(j + 1):
                    if k != i:
                        product *= 1 - share(kept[k], (a + b) / 2)
                expected[i] += product
    answer = uncertain.nearest(Readings.uniform(range(5), low, high), q)
    assert dict(answer) == pytest.approx(expected, abs=1e-6)
    assert answer.bounds == (0.0, f)


def test_quality_of_ranges():
    readings = Readings.uniform(["a", "b"], [0, 5], [2, 6])
    assert uncertain.in_range(readings, 0, 1).quality == 0  # even odds
    assert uncertain.in_range(readings, 0, 2).quality == 1
    assert uncertain.in_range(readings, 3, 4).quality == 1  # nothing can be in the range
    assert uncertain.in_range(readings, 0.5, 9).quality == pytest.approx(0.75, abs=1e-12)
