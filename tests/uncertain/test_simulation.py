"""The simulation: what holds whatever the policy, and that seeds and options do what they say."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from tests.uncertain.slow_expected import entropy_of, expected_after, minimum_of
from tocsin import UncertainError, uncertain
from tocsin.uncertain import policies, simulate
from tocsin.uncertain.panels import RULE
from tocsin.uncertain.scoring import write_minimum
from tocsin.uncertain.worlds import WorldParameters, make_world

SMALL = {"duration": 8.0, "warm_up": 4.0, "sensors": 120, "subset": 20, "bandwidth": 300.0}
BUILTIN = [name for name in policies if name != "range"]


WORLD = WorldParameters(
    seed=3, seconds=20.0, sensors=200, max_rate=0.1, walk_step=0.1, arrival_rate=30.0, subset=50,
    hot=0.2, hot_choices=0.8,
)  # fmt: skip


def world_of(**changes):
    return make_world(replace(WORLD, **changes))


# ------------------------------------------------------------ worlds


def test_walks_stay_in_the_domain_and_within_their_rates():
    world = world_of(max_rate=1.0)
    walk = world.walk.reshape(-1, 200)
    assert walk.min() >= 0
    assert walk.max() <= 1
    assert (np.abs(np.diff(walk, axis=0)) <= world.rate * 0.1 + 1e-12).all()
    assert walk[0].min() < 0.05 < 0.95 < walk[0].max()
    assert walk[-1].std() > 0.2  # the reflected walk stays spread over the domain
    assert 0.4 < world.rate.mean() < 0.6


def test_defaults_are_those_of_the_thesis():
    """Table 5.2, and 1,000 sensors of which 20% are chosen 80% of the time (5.7.1)."""
    expected = {
        "max_rate": 0.1,
        "max_queries": 10,
        "arrival_rate": 20,
        "subset": 100,
        "active_time": 5,
        "bandwidth": 350,
        "max_updates": 5,
        "concurrent_updates": 1,
        "sensors": 1000,
        "hot_sensors": 0.2,
        "hot_choices": 0.8,
    }
    parameters = inspect.signature(simulate).parameters
    assert {name: parameters[name].default for name in expected} == expected


def test_arrivals_are_poisson():
    arrival = world_of(seconds=2000.0, sensors=2, subset=1).arrival
    gaps = np.diff(arrival)
    assert (gaps > 0).all()
    n = len(arrival)
    assert abs(n - 60_000) < 4 * np.sqrt(60_000)
    assert abs(gaps.std() / gaps.mean() - 1) < 0.02  # exponential
    counts = np.bincount(arrival.astype(int))
    assert abs(counts.var() / counts.mean() - 1) < 0.15


def test_subsets_are_80_20():
    world = world_of(sensors=1000, subset=100, seconds=10.0)
    members = world.member.reshape(-1, 100)
    assert (np.diff(members, axis=1) > 0).all()  # ascending and different
    assert members.min() >= 0
    assert members.max() < 1000
    assert abs((members < 200).mean() - 0.8) < 0.01
    times = np.bincount(members.ravel(), minlength=1000)
    assert times.min() > 0


@pytest.mark.parametrize(("hot", "subset"), [(0.0, 20), (1.0, 20), (0.1, 200), (0.2, 100)])
def test_subsets_of_any_size(hot, subset):
    members = world_of(hot=hot, subset=subset).member.reshape(-1, subset)
    assert (np.diff(members, axis=1) > 0).all()
    assert members.max() < 200


def test_streams_are_separate():
    world, longer = world_of(), world_of(seconds=40.0)
    queries = len(world.arrival)
    assert np.array_equal(longer.walk[: len(world.walk)], world.walk)
    assert np.array_equal(longer.arrival[:queries], world.arrival)
    assert np.array_equal(longer.member[: len(world.member)], world.member)
    faster = world_of(arrival_rate=60.0)
    np.testing.assert_allclose(faster.arrival[:queries], world.arrival / 2)
    assert np.array_equal(faster.walk, world.walk)
    assert not np.array_equal(world_of(seed=4).rate, world.rate)


# ------------------------------------------------------------ invariants


def run_with_log(policy, **options):
    result = simulate(policy, **(SMALL | {"log": True} | options))
    return result, result.log.to_pandas()


@pytest.mark.parametrize("policy", BUILTIN)
def test_invariants(policy):
    result, log = run_with_log(policy)
    values = result.queries.to_pandas()
    assert len(values) > 100
    assert values.arrival.between(4, 4 + 8).all()  # after the warm-up
    assert result.unfinished == result.rejected == 0
    assert values.response_time.between(0, 5 + 1e-9).all()
    assert (values.updates <= 5).all()
    assert (values.score <= 0).all()
    np.testing.assert_allclose(values.score, -values.entropy * values.width, atol=1e-12)
    assert (values.log_score <= 0).all()
    assert values.cardinality.between(1, 20).all()
    assert (values.entropy <= np.log2(values.cardinality) + 1e-9).all()
    assert 0 < result.bandwidth_used <= 1
    assert result.calibration["count"].to_numpy().sum() == values.cardinality.sum()
    # The network never transmits faster than its bandwidth: requests are two messages.
    messages = np.where(log["query"].isna(), 1, 2)
    assert (np.diff(log.arrived) >= messages[1:] / 300 - 1e-9).all()
    requests = log["query"].dropna().value_counts()
    assert requests.max() <= 5


@pytest.mark.parametrize("options", [{}, {"max_rate": 1.0, "walk_step": 0.5}, {"latency": 0.3}])
def test_values_are_within_their_intervals(options):
    result, log = run_with_log("minmin", **options)
    p = result.parameters
    world = world_like(p)
    walk = world.walk.reshape(-1, p["sensors"])
    for sensor in range(0, p["sensors"], 7):
        times = np.arange(len(walk)) * p["walk_step"]
        updates = log[log.sensor == sensor]
        value, since = walk[0, sensor], 0.0
        for measured, until in zip(updates.measured, [*updates.arrived[1:], times[-1]]):
            value, since = np.interp(measured, times, walk[:, sensor]), measured
            inside = times[(times >= measured) & (times <= until)]
            moved = np.abs(np.interp(inside, times, walk[:, sensor]) - value)
            assert (moved <= world.rate[sensor] * (inside - since) + 1e-9).all()


def world_like(p):
    seconds = p["warm_up"] + p["duration"] + p["active_time"] + p["latency"] + 2 * p["walk_step"]
    return make_world(
        WorldParameters(
            p["seed"], seconds + 1, p["sensors"], p["max_rate"], p["walk_step"],
            p["arrival_rate"], p["subset"], p["hot_sensors"], p["hot_choices"],
        )
    )  # fmt: skip


def test_every_policy_meets_the_same_queries():
    arrivals = [simulate(name, **SMALL).queries["arrival"] for name in BUILTIN]
    assert all(each.equals(arrivals[0]) for each in arrivals)


def test_seeds_reproduce():
    a, b = (simulate("loc_rr", seed=7, **SMALL) for _ in range(2))
    assert a.queries.equals(b.queries)
    assert a.to_dict() == b.to_dict()
    assert not simulate("loc_rr", seed=8, **SMALL).queries.equals(a.queries)


def concurrency(queries, start="arrival"):
    """Return the largest number of queries at a time."""
    begin = queries[start]
    events = sorted(
        [(t, 1) for t in begin] + [(t, -1) for t in queries.arrival + queries.response_time]
    )
    return max(np.cumsum([change for _, change in events]))


def test_no_more_queries_than_allowed():
    # Rejected queries never wait, so that the rest are active from their arrival.
    options = {"excess": "reject", "arrival_rate": 40.0, "max_queries": 3, "bandwidth": 200.0}
    result, _ = run_with_log("minmin", **options)
    assert result.rejected > 0.2
    assert concurrency(result.queries.to_pandas()) == 3
    total = len(result) / (1 - result.rejected)
    assert total == pytest.approx(8 * 40, rel=0.2)


def test_queries_wait_for_others():
    overload = {"arrival_rate": 60.0, "max_queries": 3}
    result, log = run_with_log("minmin", **overload)
    assert result.rejected == 0
    assert concurrency(result.queries.to_pandas()) > 3
    assert result.response_time > 1
    assert result.updates < 5
    # If waiting does not count towards the active time, all have time for their updates.
    from_start = simulate("minmin", **SMALL, **overload, active_from="start")
    assert set(from_start.queries["updates"].to_pylist()) == {5}
    assert from_start.queries["response_time"].to_numpy().max() > 5
    # At most three queries have an update under way.
    times = log[~log["query"].isna()]
    for t in np.linspace(5, 11, 50):
        waiting = times[(times.measured <= t) & (times.arrived > t)]
        assert waiting["query"].nunique() <= 3


def test_a_query_ends_when_its_updates_have_arrived_or_after_its_time():
    early = simulate("minmin", **SMALL)
    assert early.response_time < 1
    late = simulate("minmin", **SMALL, ends="time", max_queries=None)
    np.testing.assert_allclose(late.queries["response_time"].to_numpy(), 5.0)
    nothing = simulate("minmin", **SMALL, max_updates=0)
    assert nothing.updates == nothing.response_time == 0
    assert nothing.score < early.score


def test_a_target_ends_queries():
    options = SMALL | {"target": -0.05, "max_updates": None}
    result = simulate("minmin", **options)
    values = result.queries.to_pandas()
    assert (values.score[values.reached] >= -0.05).all()
    assert (values.score[~values.reached] < -0.05).all()
    assert 0.5 < result.reached <= 1
    # Those that did not reach it ran out of time.
    np.testing.assert_allclose(values.response_time[~values.reached], 5.0)
    assert simulate("minmin", **options | {"target": -10.0}).response_time == 0
    unending = simulate("minmin", **options | {"active_time": None})
    assert unending.reached + unending.unfinished == pytest.approx(1)


def test_sensors_report_on_their_own():
    quiet = {"max_updates": 0}
    _, log = run_with_log("minmin", **quiet, report_after=None)
    assert log.empty
    _, log = run_with_log("minmin", **quiet, report_after=2.0)
    assert log["query"].isna().all()
    gaps = log[log.sensor == 3].measured.diff().dropna()
    assert gaps.between(2.0, 2.3).all()
    _, log = run_with_log("minmin", **quiet, report_after=None, report_width=0.1)
    rate = world_of(sensors=120, seed=0).rate
    counts = log.sensor.value_counts().reindex(range(120), fill_value=0)
    assert np.corrcoef(rate, counts)[0, 1] > 0.95  # wide intervals come from high rates
    _, log = run_with_log("minmin", **quiet, report_after=None, report_edge=0.3)
    assert len(log) > 0


def test_idle_bandwidth():
    options = {"max_updates": 0, "idle_refresh": True}
    result, log = run_with_log("minmin", **options)
    assert result.bandwidth_used > 0.99
    assert log.sensor.value_counts().std() < 0.7  # all in turn
    assert result.score > simulate("minmin", **SMALL, max_updates=0).score


def test_shared_updates():
    options = SMALL | {"arrival_rate": 40.0}
    plain, shared = (simulate("minmin", **options, share_updates=x) for x in (False, True))
    assert shared.bandwidth_used < plain.bandwidth_used or shared.updates > plain.updates


def test_concurrent_updates_are_of_different_sensors():
    pending = []

    def lowest(state):
        pending.append(state.pending.sum())
        assert not state.pending[state.candidates].any()
        assert state.under_way[state.pending].all()
        return policies["minmin"]()(state)

    simulate(lowest, **SMALL, concurrent_updates=3)
    assert set(pending) == {0, 1, 2}


def test_a_known_domain_cuts_intervals():
    plain, cut = (simulate("minmin", **SMALL, know_domain=x) for x in (False, True))
    assert cut.width < plain.width
    assert cut.queries["width"].to_numpy().max() <= 1


def test_one_message_per_update():
    two, one = (simulate("minmin", **SMALL, messages_per_update=x) for x in (2, 1))
    assert one.response_time < two.response_time


# ------------------------------------------------------------ policies


# Round robins take turns by sensor in the kernel, and a state has positions.
@pytest.mark.parametrize("policy", [name for name in BUILTIN if not name.endswith("_rr")])
@pytest.mark.parametrize("know_domain", [False, True])
def test_the_kernel_chooses_as_the_policies_do(policy, know_domain):
    options = SMALL | {"duration": 2.0, "know_domain": know_domain, "concurrent_updates": 2}
    in_python = policies[policy]()
    a = simulate(policy, **options)
    b = simulate(lambda state: in_python(state), **options)
    assert a.queries.equals(b.queries)


def test_the_kernel_takes_turns_by_sensor():
    class Turn:
        last = 0

        def __call__(self, state):
            ids = state.readings.ids.to_numpy()[state.candidates]
            if not len(ids):
                return None
            later = np.flatnonzero(ids > self.last)
            at = later[0] if len(later) else 0
            self.last = ids[at]
            return state.candidates[at]

    options = SMALL | {"duration": 2.0}
    assert simulate("loc_rr", **options).queries.equals(simulate(Turn, **options).queries)


def test_the_kernel_refreshes_all_sensors_in_turn():
    """Glb_RR (5.6): one by one, whatever the query, so that each has its fair chance."""
    _, log = run_with_log("glb_rr")
    sensors = log[~log["query"].isna()].sensor.to_numpy()
    assert len(sensors) > 2 * 120
    assert (np.diff(sensors) % 120 == 1).all()


def test_a_policy_of_ones_own():
    seen = []

    def widest(state):
        seen.append((state.pending.sum(), (state.under_way >= state.pending).all()))
        assert isinstance(state, uncertain.QueryState)
        return state.candidates[state.width[state.candidates].argmax()]

    options = SMALL | {"duration": 3.0}
    result = simulate(widest, **options)
    assert result.queries.equals(simulate("maxunc", **options).queries)
    assert all(pending == 0 and consistent for pending, consistent in seen)
    assert "widest" in result.policy


def test_a_policy_that_chooses_nothing():
    result = simulate(lambda state: None, **SMALL)
    assert result.updates == result.response_time == 0


def test_a_policy_that_is_wrong():
    with pytest.raises(UncertainError, match="a position from 0 to 19, got 20"):
        simulate(lambda state: 20, **SMALL)


def test_classes_and_instances_of_policies_run_in_the_kernel():
    a = simulate("minmin", **SMALL)
    assert simulate(policies["minmin"], **SMALL).queries.equals(a.queries)
    b = simulate(policies["minmin"](), **SMALL)
    assert b.queries.equals(a.queries)
    assert b.policy == "minmin"


# ------------------------------------------------------------ answers


@pytest.mark.parametrize("seed", range(8))
def test_answers_in_the_kernel(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 40))
    low = random.random(n) * (1, 0.01)[seed % 2]
    high = low + random.random(n)
    if seed == 5:
        low[:] = 0.0
    if seed == 6:
        high[0] = low[0]
    p, measures = np.empty(n), np.empty(4)
    write_minimum(low, high, RULE, p, measures)
    expected = minimum_of(low, high)
    np.testing.assert_allclose(p, expected, atol=1e-9)
    assert measures[0] == pytest.approx(entropy_of(expected), abs=1e-8)
    readings = uncertain.Readings.uniform(np.arange(n), low, high)
    answer = uncertain.minimum(readings)
    assert -measures[0] * (measures[3] - measures[2]) == pytest.approx(answer.quality, abs=1e-8)
    assert -measures[1] == pytest.approx(uncertain.lowest(readings).quality, abs=1e-5)


def test_the_true_minimum_is_the_likeliest_if_intervals_are_narrow():
    result = simulate("minmin_distinct", **SMALL | {"bandwidth": 3000.0, "max_updates": 20})
    assert result.likeliest_right > 0.95
    assert result.log_score > -0.3
    assert result.cardinality < 4


def test_slow_expectations_are_those_of_the_kernel():
    # The policy that goes by plainly computed entropies makes the choices of the kernel.
    def plain(state):
        low, high = state.readings.low, state.readings.high
        of = {i: expected_after(low, high, i, levels=3)[0] for i in state.candidates}
        return min(of, key=of.get) if of else None

    options = SMALL | {"duration": 0.4, "sensors": 20, "subset": 5, "arrival_rate": 10.0}
    a, b = simulate("minexpentropy", **options), simulate(plain, **options)
    assert a.queries.equals(b.queries)


# ------------------------------------------------------------ results and arguments


def test_results_print_and_convert():
    result = simulate("minmin", **SMALL)
    text = repr(result)
    assert text.startswith(
        f"Simulation of minmin: {len(result)} queries in 8 s, bandwidth 300, seed 0"
    )
    assert "likeliest_right" in text
    assert "reached" not in text
    assert result.to_arrow().num_rows == len(result)
    assert set(result.to_dict()) > {"score", "value_score", "entropy", "width", "log_score"}
    assert result.log is None
    bins = result.calibration.to_pandas()
    assert len(bins) == 10
    filled = bins[bins["count"] > 0]
    assert filled.probability.between(filled["from"], filled["to"]).all()
    assert 0 <= result.calibration_error <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": "minmim"}, "did you mean 'minmin'"),
        ({"policy": "range"}, "'range' is for range queries; the simulation runs minimum queries"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"sensors": True}, "sensors must be a whole number"),
        ({"max_queries": 0}, "max_queries must be a whole number of at least 1, got 0"),
        ({"duration": 0}, "duration must be positive, got 0"),
        ({"bandwidth": None}, "bandwidth must be a number, got None"),
        ({"bandwidth": float("nan")}, "bandwidth must be finite, got nan"),
        ({"active_time": float("inf")}, "active_time must be finite, got inf; None is no limit"),
        ({"latency": -1}, "latency must not be negative, got -1"),
        ({"hot_sensors": 2}, "hot_sensors is a share from 0 to 1, got 2"),
        ({"target": 1}, "target is a score, which is never above 0; got 1"),
        ({"excess": "drop"}, "excess must be 'wait' or 'reject', got 'drop'"),
        ({"ends": "soon"}, "ends must be 'updates' or 'time'"),
        ({"active_from": 3}, "active_from must be 'arrival' or 'start'"),
        ({"subset": 500, "sensors": 100}, "subset must be at most the number of sensors, 100"),
        ({"max_rate": 30}, "max_rate times walk_step must be at most 1"),
        ({"active_time": None, "ends": "time"}, "queries would never end"),
        ({"active_time": None, "max_updates": None}, "queries would never end"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(UncertainError, match=message):
        simulate(**arguments)
