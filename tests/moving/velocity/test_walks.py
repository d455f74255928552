"""At all times, and whatever happens, a query returns what brute force returns."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.moving.velocity.oracle import Fleet, check
from tocsin.moving.velocity import VelocityIndex

OPTIONS = [
    {"capacity": 2},
    {"capacity": 4, "clustered": False},
    {"capacity": 3, "published": True},
    {"capacity": 100},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_objects_that_keep_their_v_max(options):
    rng = np.random.default_rng(7)
    n = 300
    x, y = rng.random((2, n))
    v_max = 0.01 / rng.integers(1, 20, n)
    v_max[::10] = 0
    now, fleet = 0.0, Fleet()
    for key in range(n):
        fleet.insert(key, x[key], y[key], now)
    index = VelocityIndex(np.arange(n), x, y, v_max, now, **options)
    listed = 0
    for step in range(60):
        now += rng.random() * 3
        moving = np.flatnonzero(rng.random(n) < 0.3)
        elapsed = np.array([now - fleet.seen[key][2] for key in moving])
        angle, distance = rng.random(len(moving)) * math.tau, v_max[moving] * elapsed
        distance *= rng.choice([0, 0.5, 1], len(moving))
        x[moving] += distance * np.cos(angle)
        y[moving] += distance * np.sin(angle)
        for key in moving:
            fleet.report(key, x[key], y[key], now)
        index.update(moving, x[moving], y[moving], now)
        if step % 15 == 14:
            index.refresh(x, y, now)
            for key in range(n):
                fleet.report(key, x[key], y[key], now)
        elif step % 15 == 7:
            index.refresh()
        elif step == 30:
            index.rebuild()
            listed = 0
        elif step == 20:
            more = [*range(n, n + 20)]
            x, y = np.append(x, rng.random(20)), np.append(y, rng.random(20))
            v_max = np.append(v_max, np.full(20, 0.001))
            index.insert(more, x[n:], y[n:], v_max[n:], now)
            for key in more:
                fleet.insert(key, x[key], y[key], now)
            n, listed = n + 20, 20
        for _ in range(10):
            low = rng.random(2) * 1.2 - 0.1
            high = low + rng.choice([0, 0.05, 0.3, 1]) * rng.random(2)
            answer = check(index, fleet, low.tolist(), high.tolist(), now + rng.random())
            assert answer.scanned == listed
    assert index.counters["too_fast"] == index.counters["strayed"] == 0
    assert index.counters["checked"] > 0
    assert index.counters["certain"] > 0


# ------------------------------------------------------------ nasty values

HUGE = 1.7976931348623157e308
TINY = 5e-324
COORDINATES = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 1 + 2**-52, HUGE, -HUGE, TINY, -TINY, 1e300, 2.0**53]),
    st.sampled_from([math.inf, -math.inf, math.nan]),
    st.integers(-8, 8).map(lambda k: k / 4),
    st.floats(width=64),
)
ENDS = st.one_of(
    COORDINATES.filter(lambda x: not math.isnan(x)), st.none(), st.integers(-(2**60), 2**60)
)
SPEEDS = st.one_of(
    st.sampled_from([0.0, 1.0, 0.25, HUGE, 1e307, TINY, math.inf, math.nan, 1e-300]),
    st.floats(0, 4),
)
TIMES = st.one_of(
    st.integers(0, 12).map(float), st.sampled_from([-HUGE, HUGE, 1e300, TINY, 0.1, -3.0])
)
POINTS = st.tuples(COORDINATES, COORDINATES)


@given(
    st.lists(st.tuples(POINTS, SPEEDS, TIMES), max_size=12),
    st.lists(st.tuples(st.integers(0, 11), POINTS, TIMES), max_size=12),
    st.tuples(ENDS, ENDS),
    st.tuples(ENDS, ENDS),
    st.lists(TIMES, min_size=3, max_size=3),
    st.sampled_from(OPTIONS),
)
def test_any_numbers(objects, reports, low, high, times, options):
    fleet = Fleet()
    for key, ((x, y), _, at) in enumerate(objects):
        fleet.insert(key, x, y, at)
    index = VelocityIndex(
        range(len(objects)),
        [o[0][0] for o in objects],
        [o[0][1] for o in objects],
        [o[1] for o in objects],
        [o[2] for o in objects],
        **options,
    )
    check(index, fleet, low, high, times[0])
    for key, (x, y), at in reports:
        if key < len(objects):
            fleet.report(key, x, y, at)
            index.update(key, x, y, at)
            check(index, fleet, low, high, times[1])
    index.refresh()
    check(index, fleet, low, high, times[2])
    index.rebuild()
    check(index, fleet, low, high, times[0])
    # A box around each of them, which is where rounding would show.
    for x, y, _ in list(fleet.seen.values()):
        if not (math.isnan(x) or math.isnan(y)):
            check(index, fleet, (x, y), (x, y), times[1])


class Changes(RuleBasedStateMachine):
    """Objects come, report, go and break their v_max, in any order."""

    @initialize(options=st.sampled_from(OPTIONS), n=st.integers(0, 10))
    def start(self, options, n):
        self.fleet, self.now, self.next = Fleet(), 0.0, n
        for key in range(n):
            self.fleet.insert(key, key / 2, 1.0, 0.0)
        self.index = VelocityIndex(range(n), np.arange(n) / 2, np.ones(n), 1.0, 0.0, **options)

    @rule(points=st.lists(POINTS, max_size=5), v_max=SPEEDS)
    def insert(self, points, v_max):
        keys = [*range(self.next, self.next + len(points))]
        self.index.insert(keys, [x for x, _ in points], [y for _, y in points], v_max, self.now)
        for key, (x, y) in zip(keys, points, strict=True):
            self.fleet.insert(key, x, y, self.now)
        self.next += len(points)

    @precondition(lambda self: self.fleet.seen)
    @rule(data=st.data())
    def remove(self, data):
        keys = data.draw(st.lists(st.sampled_from([*self.fleet.seen]), unique=True))
        self.index.remove(keys)
        for key in keys:
            self.fleet.remove(key)

    @precondition(lambda self: self.next > len(self.fleet.seen))
    @rule(data=st.data(), point=POINTS, v_max=SPEEDS)
    def insert_again(self, data, point, v_max):
        key = data.draw(st.sampled_from(sorted({*range(self.next)} - {*self.fleet.seen})))
        self.index.insert(key, *point, v_max, self.now)
        self.fleet.insert(key, *point, self.now)

    @precondition(lambda self: self.fleet.seen)
    @rule(data=st.data(), back=st.sampled_from([0.0, 0.0, 0.0, 1.0]))
    def report(self, data, back):
        reports = st.tuples(st.sampled_from([*self.fleet.seen]), COORDINATES, COORDINATES)
        batch = data.draw(st.lists(reports, max_size=6))
        self.index.update(*([r[i] for r in batch] for i in range(3)), self.now - back)
        for key, x, y in batch:
            self.fleet.report(key, x, y, self.now - back)

    @precondition(lambda self: self.fleet.seen)
    @rule(part=st.sampled_from([0, 0.3, 1]))
    def drift(self, part):
        """Everything moves by what a v_max of 1 allows."""
        self.now += 0.5
        keys = list(self.fleet.seen)
        for key in keys:
            x, y, at = self.fleet.seen[key]
            self.fleet.report(key, x + part * (self.now - at), y, self.now)
        x = [self.fleet.seen[key][0] for key in keys]
        y = [self.fleet.seen[key][1] for key in keys]
        self.index.update(keys, x, y, self.now)

    @rule(with_positions=st.booleans(), at=st.booleans())
    def refresh(self, with_positions, at):
        self.now += 1
        if with_positions:
            keys = self.index.keys
            for key in keys:
                x, y, _ = self.fleet.seen[key]
                self.fleet.report(key, y, x, self.now)
            seen = [self.fleet.seen[key] for key in keys]
            self.index.refresh([s[0] for s in seen], [s[1] for s in seen], self.now)
        else:
            if at:
                for key, (x, y, _) in list(self.fleet.seen.items()):
                    self.fleet.report(key, x, y, self.now)
            self.index.refresh(at=self.now if at else None)

    @rule(v_max=st.one_of(st.none(), SPEEDS))
    def rebuild(self, v_max):
        self.index.rebuild(v_max=v_max)

    @invariant()
    def equals_brute_force(self):
        if not hasattr(self, "index"):
            return
        assert self.index.keys == list(self.fleet.seen)
        for low, high in [
            ((0, 0), (2, 2)),
            ((None, None), (None, None)),
            ((1, 1), (1, 1)),
            ((-math.inf, 1), (3.25, math.inf)),
        ]:
            check(self.index, self.fleet, low, high, self.now + 0.5)


TestChanges = Changes.TestCase
