"""Refresh policies on cases made by hand, and expected entropies against plain computations."""

from itertools import pairwise

import numpy as np
import pytest

from tests.uncertain.slow_expected import expected_after, gauss, measure
from tocsin import UncertainError, uncertain
from tocsin.uncertain import QueryState, Readings, next_refresh, policies

#            0    1    2    3    4    5
LOW = [1.0, 2.0, 0.5, 3.0, 8.0, 2.5]
HIGH = [5.0, 9.0, 4.5, 4.0, 9.0, 2.5]
IDS = ["a", "b", "c", "d", "e", "f"]


def case():
    """The bound is 2.5, the value of f: a, b and c may be the minimum, and f."""
    return Readings.uniform(IDS, LOW, HIGH)


def mirrored():
    return Readings.uniform(IDS, [-x for x in HIGH], [-x for x in LOW])


def test_what_a_policy_sees():
    state = QueryState(case())
    assert state.candidates.tolist() == [0, 1, 2]
    assert state.bound == 2.0  # from the lowest end, 0.5
    np.testing.assert_allclose(state.near, [0.5, 1.5, 0, 2.5, 7.5, 2.0])
    np.testing.assert_allclose(state.far, [4.5, 8.5, 4, 3.5, 8.5, 2.0])
    answer = dict(uncertain.minimum(case()))
    np.testing.assert_allclose(state.probabilities, [answer.get(id, 0) for id in IDS])
    assert not state.under_way.any()
    assert QueryState(case(), pending=["b"]).candidates.tolist() == [0, 2]
    assert repr(state) == "QueryState: minimum of 6, 3 candidates"


@pytest.mark.parametrize(
    ("policy", "expected"), [("minmin", "c"), ("minmin_distinct", "c"), ("maxunc", "b")]
)
def test_thesis_policies_for_minimum_and_maximum(policy, expected):
    assert next_refresh(case(), policy=policy) == expected
    assert next_refresh(mirrored(), "maximum", policy) == expected


def test_ties_go_to_the_first():
    same = Readings.uniform(["x", "y", "z"], [1, 0, 0], [3, 2, 2])
    assert next_refresh(same) == "y"
    assert next_refresh(same, policy="maxunc") == "x"


def test_round_robins_take_turns():
    turn = policies["loc_rr"]()
    assert [next_refresh(case(), policy=turn) for _ in range(5)] == ["a", "b", "c", "a", "b"]
    turn = policies["glb_rr"]()
    assert [next_refresh(case(), policy=turn) for _ in range(7)] == [*IDS, "a"]
    assert next_refresh(case(), policy="loc_rr", pending=["a"]) == "b"
    assert next_refresh(case(), policy="glb_rr", pending=IDS) is None


def test_pending_objects_are_not_chosen():
    assert next_refresh(case(), pending=["c"]) == "a"
    assert next_refresh(case(), pending=["c", "a"]) == "b"
    assert next_refresh(case(), pending=["a", "b", "c"]) is None


def test_distinct_prefers_what_nobody_waits_for():
    state = QueryState(case())
    state.under_way = np.array([False, False, True, False, False, False])
    assert policies["minmin"]()(state) == 2
    assert policies["minmin_distinct"]()(state) == 0
    state.under_way[:] = True
    assert policies["minmin_distinct"]()(state) == 2


@pytest.mark.parametrize("policy", [name for name in policies if name not in ("range", "glb_rr")])
def test_nothing_to_refresh(policy):
    assert next_refresh(Readings.points(["a", "b"], [1, 2]), policy=policy) is None
    alone = Readings.uniform(["a", "b"], [0, 2], [1, 3])  # a is the minimum, whatever its value
    assert next_refresh(alone, policy=policy) == "a"


def test_the_range_policy():
    rooms = Readings.uniform(["in", "half", "most", "out"], [21, 18, 19.5, 30], [22, 22, 21, 31])
    assert next_refresh(rooms, "in_range", low=20, high=25) == "half"
    assert next_refresh(rooms, "in_range", low=20, high=25, pending=["half"]) == "most"
    assert next_refresh(rooms, "in_range", "maxunc", low=20, high=25) == "half"
    assert next_refresh(rooms, "in_range", low=0, high=100) is None
    assert next_refresh(Readings.points([], []), "in_range", low=0, high=1) is None


def test_nearest():
    readings = Readings.uniform(["left", "right", "far"], [0, 6, 20], [4, 12, 30])
    assert next_refresh(readings, "nearest", q=5) == "left"
    assert next_refresh(readings, "nearest", q=5, policy="maxunc") == "right"
    taxis = Readings.disks(["a", "b", "c"], [[0, 0], [5, 0], [90, 0]], radii=[2, 3, 1])
    assert next_refresh(taxis, "nearest", q=(2, 0)) == "a"
    assert next_refresh(taxis, "nearest", q=(2, 0), policy="maxunc") == "b"
    assert next_refresh(taxis, "nearest", q=(2, 0), pending=["a"]) == "b"


def test_expected_policies_differ_where_they_should():
    # A refresh of `wide` decides nearly nothing; of the others, `low` is most of the entropy.
    readings = Readings.uniform(["low", "next", "wide"], [0, 0.5, 0.9], [1.1, 1.3, 99])
    state = QueryState(readings)
    assert state.expected_entropy.argmin() == 0
    assert next_refresh(readings, policy="minexpentropy") == "low"
    assert next_refresh(readings, policy="expected_score") == "low"


@pytest.mark.parametrize("seed", range(12))
def test_expected_entropy_and_score_of_uniform_values(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 8))
    low = random.random(n) * (0.1, 1, 0)[seed % 3]
    high = low + random.random(n) * (1, 0.3)[seed % 2]
    if seed % 4 == 3:
        high[0] = low[0] = low.max()  # a point, perhaps at the bound
    state = QueryState(Readings.uniform(np.arange(n), low, high))
    for i in state.candidates[:3]:
        entropy, score = expected_after(low, high, i, levels=14)
        assert state.expected_entropy[i] == pytest.approx(entropy, abs=1e-6)
        assert state.expected_score[i] == pytest.approx(score, abs=1e-6)
    mirror = QueryState(Readings.uniform(np.arange(n), -high, -low), "maximum")
    np.testing.assert_allclose(mirror.expected_entropy, state.expected_entropy, atol=1e-9)
    np.testing.assert_allclose(mirror.expected_score, state.expected_score, atol=1e-9)


def test_a_refresh_without_influence_leaves_the_answer():
    state = QueryState(Readings.uniform(range(4), [0, 0.5, 0.7, 3], [1, 1.5, 0.7, 4]))
    entropy, score = measure([0, 0.5, 0.7, 3], [1, 1.5, 0.7, 4])
    for i in (2, 3):  # a point, and one beyond the bound
        assert state.expected_entropy[i] == pytest.approx(entropy, abs=1e-9)
        assert state.expected_score[i] == pytest.approx(score, abs=1e-9)
    points = QueryState(Readings.points(range(3), [1, 1, 2]))
    assert points.expected_entropy.tolist() == [1, 1, 1]
    assert points.expected_score.tolist() == [0, 0, 0]


def answers_after(readings, i, values, query, **arguments):
    """Return entropy and quality of the answers if reading i has each of the values."""
    others = readings.take([k for k in range(len(readings)) if k != i])
    ask = getattr(uncertain, query)
    answers = (ask(others + Readings.points(["new"], [v]), **arguments) for v in values)
    return np.array([(a.entropy, a.quality) for a in answers])


@pytest.mark.parametrize("query", ["minimum", "maximum", "nearest"])
def test_expected_entropy_of_all_densities(query):
    readings = (
        Readings.normal(["n", "m"], [1.0, 0.6], [0.4, 0.2], [0.0, 0.1], [3.0, 1.4])
        + Readings.histogram(["h"], [[0.2, 0.5, 0.8, 1.6]], [[0.2, 0.5, 0.3]])
        + Readings.uniform(["u"], [0.3], [1.2])
    )
    arguments = {"q": 0.7} if query == "nearest" else {}
    state = QueryState(readings, query, **arguments)
    # An even refinement towards every end, as in the plain computation.
    ends = [0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.4, 1.6, 3.0]
    half = 0.5 ** np.arange(7, 0, -1)
    share = np.unique(np.concatenate([[0], half, 1 - half, [1]]))
    cuts = np.unique(np.concatenate([a + (b - a) * share for a, b in pairwise(ends)]))
    values, weight = gauss(cuts)
    for i in (0, 2):
        density = uncertain.value(readings, readings.ids[i].as_py()).pdf(values)
        used = density * weight > 1e-9
        answers = answers_after(readings, i, values[used], query, **arguments)
        entropy, score = ((density * weight)[used, None] * answers).sum(axis=0)
        assert state.expected_entropy[i] == pytest.approx(entropy, abs=2e-6)
        assert state.expected_score[i] == pytest.approx(score, abs=2e-6)


def test_expected_entropy_of_disks():
    centers, radii = np.array([[1.0, 0], [0, 1.5], [2, 2]]), np.array([0.9, 1.2, 1.5])
    state = QueryState(Readings.disks(range(3), centers, radii), "nearest", q=(0, 0))
    random = np.random.default_rng(0)
    angle, r = random.random(20_000) * 2 * np.pi, np.sqrt(random.random(20_000)) * radii[0]
    distance = np.hypot(centers[0, 0] + r * np.cos(angle), r * np.sin(angle))
    edges = np.quantile(distance, np.linspace(0, 1, 201))
    total = np.zeros(2)
    for v in 0.5 * (edges[1:] + edges[:-1]):
        moved = Readings.disks(range(3), [[v, 0], [0, 1.5], [2, 2]], [0, 1.2, 1.5])
        answer = uncertain.nearest(moved, (0, 0))
        total += np.array([answer.entropy, answer.quality]) / 200
    assert state.expected_entropy[0] == pytest.approx(total[0], abs=0.01)
    assert state.expected_score[0] == pytest.approx(total[1], abs=0.03)


def test_many_objects():
    random = np.random.default_rng(5)
    low = random.random(3000) * 0.2
    state = QueryState(Readings.uniform(np.arange(3000), low, low + 0.2 + random.random(3000)))
    answer = uncertain.minimum(state.readings)
    assert np.isfinite(state.expected_entropy).all()
    assert (state.expected_entropy <= answer.entropy + 1e-6).all()  # it informs, on average
    assert state.expected_entropy[low.argmax()] == pytest.approx(answer.entropy, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e9, 1e200])
def test_any_unit(scale):
    low, high = np.array([0.0, 0.5, 0.2]), np.array([1.0, 1.5, 3.0])
    plain = QueryState(Readings.uniform(range(3), low, high))
    state = QueryState(Readings.uniform(range(3), scale * low, scale * high))
    np.testing.assert_allclose(state.expected_entropy, plain.expected_entropy, rtol=1e-9)
    np.testing.assert_allclose(state.expected_score / scale, plain.expected_score, rtol=1e-9)


# ------------------------------------------------------------ policies of one's own


def test_a_function_is_a_policy():
    def likeliest(state):
        return int(state.probabilities.argmax())

    likeliest_id = uncertain.minimum(case()).ids[0].as_py()
    assert next_refresh(case(), policy=likeliest) == likeliest_id


def test_a_class_is_a_policy():
    class Last:
        def __call__(self, state):
            return state.candidates[-1]

    assert next_refresh(case(), policy=Last) == "c"
    assert next_refresh(case(), policy=Last()) == "c"


@pytest.mark.parametrize("choice", [6, -1, "c", 1.0, True])
def test_a_policy_returns_a_position(choice):
    with pytest.raises(UncertainError, match="must return None or a position from 0 to 5, got"):
        next_refresh(case(), policy=lambda state: choice)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": "minmim"}, r"no policy is named 'minmim'; did you mean 'minmin'\?$"),
        ({"policy": "q"}, "no policy is named 'q'; there are "),
        ({"policy": 3}, "a policy is a name or a function of a QueryState, got int"),
        ({"query": "minimun"}, "query must be one of 'minimum', .* did you mean 'minimum'"),
        ({"query": "nearest"}, "nearest needs q; q is missing"),
        ({"query": "in_range", "low": 1}, "in_range needs low and high; high is missing"),
        ({"q": 1}, "minimum takes no q"),
        ({"pending": ["g"]}, "no reading has the id 'g'"),
        ({"policy": "range"}, "the policy 'range' is for in_range; for minimum take 'minmin'"),
        (
            {"policy": "minmin", "query": "in_range", "low": 1, "high": 2},
            "the policy 'minmin' is for minimum, maximum, nearest; for in_range take 'range'",
        ),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(UncertainError, match=message):
        next_refresh(case(), **arguments)


def test_wrong_readings():
    with pytest.raises(UncertainError, match="there are no readings"):
        next_refresh(Readings.points([], []))
    growing = Readings.growing(["a"], [1], [0.1], [0])
    with pytest.raises(UncertainError, match=r"got Growing; use \.at\(time\)"):
        next_refresh(growing)
    taxis = Readings.disks(["a"], [[0, 0]], radii=[2])
    with pytest.raises(UncertainError, match="disks are for nearest"):
        next_refresh(taxis)


def test_the_mapping():
    assert list(policies) == [
        "glb_rr", "loc_rr", "minmin", "maxunc", "minexpentropy", "range", "expected_score",
        "minmin_distinct",
    ]  # fmt: skip
    with pytest.raises(TypeError):
        policies["mine"] = None
    assert repr(policies["minmin"]()) == "<policy minmin>"
