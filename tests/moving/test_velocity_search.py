"""A monitor with a velocity constrained index gives the same events as one without."""

import os

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.moving.examples import SqlRules, apply_edits
from tests.moving.walks import PROFILES, walk
from tocsin.moving import velocity_search

LONG = os.environ.get("TOCSIN_PROFILE") == "long"
# Of the profiles of walks: the one with most changes of rules.
SEEDS = dict.fromkeys(PROFILES, 40) if LONG else {"rule changes": 30, "large batches": 3}
COUNTERS = ("rules_by_velocity_index", "rules_by_scan", "rules_by_match")


@pytest.fixture
def prices(monkeypatch):
    """A function that sets what things are estimated to cost."""

    def set_prices(**nanoseconds):
        for name, price in nanoseconds.items():
            monkeypatch.setattr(velocity_search, name, price)

    return set_prices


ALWAYS = {"SCAN": 1e12}  # a scan costs so much that the index is used as soon as it can be
OFTEN = {"SCAN": 1e12, "REFRESH": 0, "BUILD": 1e-9, "TAKE_IN": 1e-9}
SELDOM = {"SCAN": 1e4, "SEARCH": 0, "TAKE_IN": 1e6, "BUILD": 1e3, "REFRESH": 1e5}


def both(rules, v_max, **options):
    return tocsin.Monitor(rules, **options), tocsin.Monitor(rules, v_max=v_max, **options)


def counts(monitor):
    return [monitor.counters[name] for name in COUNTERS]


# ------------------------------------------------------------ the same events


@pytest.mark.parametrize("costs", [ALWAYS, OFTEN, SELDOM], ids=["always", "often", "seldom"])
def test_walks(prices, costs):
    prices(**costs)
    total = np.zeros(3, int)
    for profile, seeds in SEEDS.items():
        for seed in range(seeds):
            scenario = walk(seed, profile)
            if len(scenario.options.get("position", "xy")) != 2:
                continue
            rules = tocsin.Rules(scenario.schema)
            apply_edits(SqlRules(rules), scenario.edits)
            plain, indexed = both(rules, (0.5, 3.0, "n")[seed % 3], **scenario.options)
            for call, argument in scenario.steps:
                if call == "rules":
                    apply_edits(SqlRules(rules), argument)
                    continue
                if call == "update":
                    argument = scenario.table(argument)
                    if seed % 3 == 2 and "n" not in argument.column_names:
                        argument = argument.append_column("n", [pa.nulls(len(argument))])
                events = getattr(indexed, call)(argument)
                assert events.equals(getattr(plain, call)(argument)), (profile, seed)
            total += counts(indexed)
    assert total[0] > 50


class Fleet:
    """Objects of which most keep to their v_max; some come, are removed, or are nowhere."""

    def __init__(self, n, seed):
        self.rng, self.n, self.time = np.random.default_rng(seed), n, 0
        self.x, self.y = self.rng.random((2, n)) * 100
        self.v_max = self.rng.choice([0.1, 0.5, 2.0], n)

    def rows(self, count):
        self.time += 1
        rows = np.sort(self.rng.choice(self.n, count, replace=False))
        is_fast = self.rng.random(count) < 0.02
        for values in (self.x, self.y):
            distance = self.v_max[rows] * self.rng.uniform(-0.7, 0.7, count)
            values[rows] += np.where(is_fast, self.rng.normal(0, 50, count), distance)
        x = self.x[rows].copy()
        odd = self.rng.random(count)
        x[odd < 0.01], x[odd > 0.99] = np.nan, np.inf
        known = self.rng.random(count) < 0.95
        return pa.table({
            "object": rows, "t": np.full(count, self.time), "x": x, "y": self.y[rows],
            "v": pa.array(self.v_max[rows], mask=~known), "gone": self.rng.random(count) < 0.05,
        })  # fmt: skip

    def condition(self):
        (a, b), side = self.rng.random(2) * 90, self.rng.choice([1.0, 5.0, 20.0])
        box = f"x BETWEEN {a} AND {a + side} AND y >= {b} AND y < {b + side}"
        return self.rng.choice([
            box, box, f"{box} OR x > 99.5", f"x > {a} AND x <= {a + 0.3}", f"y = {self.y[0]}",
            f"NOT (x < {a} OR x > {a + 1})", f"{box} AND x + y > {a + b}", "x > 1e308",
        ])  # fmt: skip


@pytest.mark.parametrize("costs", [ALWAYS, OFTEN, SELDOM], ids=["always", "often", "seldom"])
@pytest.mark.parametrize("v_max", [2.0, "v"])
def test_a_fleet(prices, costs, v_max):
    """With all that happens to reports: the log is packed in between, too."""
    prices(**costs)
    fleet = Fleet(30_000, 7)
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add("first", "x < 50")
    plain, indexed = both(rules, v_max, removed="gone")
    found = 0
    for step in range(30):
        if step % 3 != 1:
            batch = fleet.rows(25_000 if step < 9 else 1_000)
            assert indexed.update(batch).equals(plain.update(batch))
        for i in range(int(fleet.rng.integers(1, 4))):
            rules.add(f"{step} {i}", str(fleet.condition()))
        if step > 3:
            rules.replace("first", str(fleet.condition()))
        events = indexed.advance(fleet.time)
        assert events.equals(plain.advance(fleet.time))
        found += len(events)
    assert found > 10_000
    by_index, by_scan, by_match = counts(indexed)
    assert by_index > 40
    assert by_scan < 40
    assert by_match == 0


# ------------------------------------------------------------ what is done


def fences():
    rules = tocsin.Rules({"x": "number", "y": "number", "m": "integer"})
    rules.add(-1, "x < 0")
    return rules


def points(n, **columns):
    rng = np.random.default_rng(1)
    place = {"x": rng.random(n), "y": rng.random(n)} | columns
    return pa.table({"object": np.arange(n), "t": np.zeros(n)} | place)


def test_the_index_is_built_when_scans_have_cost_as_much(prices):
    prices(SCAN=1, SEARCH=0, TEST=0, LOOK_UP=0, BUILD=3, TAKE_IN=4, REFRESH=1e9)
    rules = fences()
    monitor = tocsin.Monitor(rules, v_max=1.0)
    monitor.update(points(100))
    ways = []
    for i in range(9):
        rules.add(i, "x > 0.5")
        assert monitor.nbytes > 0
        assert len(monitor.advance(0)) > 20
        ways.append(counts(monitor))
    # Three scans cost what the index costs; then it is searched.
    assert ways[2] == [0, 3, 0]
    assert ways[3] == [1, 3, 0]
    assert ways[8] == [6, 3, 0]


def test_reports_are_taken_in_when_scans_of_them_have_cost_as_much(prices):
    prices(SCAN=1, SEARCH=0, TEST=0, LOOK_UP=0, BUILD=0.5, TAKE_IN=4, REFRESH=1e9)
    rules = fences()
    monitor = tocsin.Monitor(rules, v_max=1.0)
    monitor.update(points(100))
    rules.add(101, "x > 0.5")
    monitor.advance(0)
    rules.add(102, "x > 0.5")
    monitor.advance(0)
    log = monitor._tracker.reports
    assert log.taken == 100
    batch = points(10)
    monitor.update(batch.set_column(1, "t", [np.ones(10)]))
    taken = []
    for i in range(6):
        rules.add(i, "x > 0.5")
        assert len(monitor.advance(1)) > 20
        taken.append(log.taken)
    assert taken == [100, 100, 100, 100, 110, 110]


def test_few_objects_are_scanned():
    rules = fences()
    monitor = tocsin.Monitor(rules, v_max=1.0)
    monitor.update(points(1_000))
    for i in range(10):
        rules.add(i, "x > 0.5")
        monitor.advance(0)
    assert counts(monitor) == [0, 10, 0]
    assert not set(COUNTERS) & set(tocsin.Monitor(rules).counters)


def test_many_rules_are_matched(prices):
    prices(**ALWAYS)
    rules = fences()
    monitor = tocsin.Monitor(rules, v_max=1.0)
    monitor.update(points(1_000))
    rules.add_many([{"id": i, "where": f"x > 0.{i}"} for i in range(100)])
    monitor.advance(0)
    assert counts(monitor) == [0, 0, 100]


@pytest.mark.parametrize("where", ["m > 3", "x + y > 1", "x IS NULL", "x > 0.9 OR m = 1"])
def test_conditions_without_a_range_of_a_position_are_scanned(prices, where):
    prices(**ALWAYS)
    rules = fences()
    plain, monitor = both(rules, 1.0)
    for each in (plain, monitor):
        each.update(points(100, m=np.arange(100)))
        rules.snapshot()
    for i in range(3):
        rules.add(i, where)
        assert monitor.advance(0).equals(plain.advance(0))
    assert counts(monitor) == [0, 3, 0]


def test_positions_that_are_no_plain_numbers_end_the_index(prices):
    prices(**ALWAYS)
    rules = fences()
    plain, monitor = both(rules, 1.0)
    for time, x in enumerate((0.6, {"low": 0.4, "high": 0.6}, 0.7)):
        for each in (plain, monitor):
            each.update([{"object": f"o{time}", "t": time, "x": x, "y": 0.5}])
        for i in range(3):
            rules.add(3 * time + i, "x > 0.5")
            events = monitor.advance(time)
            assert len(events) == time + 1
            assert events.equals(plain.advance(time))
    assert counts(monitor) == [3, 6, 0]


def test_an_object_without_a_coordinate(prices):
    prices(**OFTEN)
    rules = fences()
    plain, monitor = both(rules, 1.0)
    for each in (plain, monitor):
        each.update([{"object": i, "t": 0, "x": 6.0, "y": [None, 1.0][i]} for i in range(2)])
    for i, where in enumerate(("x > 5", "x BETWEEN 5 AND 7", "x > 5 AND y < 2", "x > 5 AND y > 0")):
        rules.add(i, where)
        events = monitor.advance(0)
        assert len(events) == (2, 2, 1, 1)[i]
        assert events.equals(plain.advance(0))
    assert counts(monitor) == [3, 1, 0]


def test_another_object_in_the_place_of_one_that_was_removed(prices):
    """Its first report may be earlier than the last one of the other."""
    prices(**OFTEN)
    rules = fences()
    monitor = tocsin.Monitor(rules, v_max=1.0)
    for i, (name, x) in enumerate((("a", 1.0), ("b", 6.0), ("c", 9.0))):
        if i:
            monitor.remove("abc"[i - 1])
        monitor.update([{"object": name, "t": 100 - i, "x": x, "y": 0.0}])
        for j in range(3):
            rules.add(3 * i + j, f"x BETWEEN {x - 0.5} AND {x + 0.5}")
            assert monitor.advance(0)["object"].to_pylist() == [name]
    assert counts(monitor) == [8, 1, 0]


@pytest.mark.parametrize("type_", [pa.int64(), pa.float32(), pa.uint8()])
def test_positions_of_other_types(prices, type_):
    prices(**OFTEN)
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add(-1, "x < 0")
    plain, monitor = both(rules, 0.0)
    values = pa.array([0, 3, 7, None, 100], pa.int16()).cast(type_)
    for each in (plain, monitor):
        each.update(points(5, x=values))
    for i, where in enumerate(("x >= 3", "x <= 7", "x > 3", "x < 100", "x BETWEEN 3 AND 7")):
        rules.add(i, where)
        events = monitor.advance(0)
        assert events.equals(plain.advance(0))
        assert len(events)


def test_whole_numbers_that_no_float_can_tell_apart(prices):
    prices(**OFTEN)
    rules = tocsin.Rules({"x": "integer", "y": "integer"})
    rules.add(-1, "x < 0")
    plain, monitor = both(rules, 0.0)
    values = [2**53 + i for i in range(5)]
    for each in (plain, monitor):
        each.update(points(5, x=values, y=values))
    for i in range(5):
        rules.add(i, f"x > {2**53 + i - 1} AND y <= {2**53 + i}")
        events = monitor.advance(0)
        assert events["object"].to_pylist() == [i]
        assert events.equals(plain.advance(0))
    assert counts(monitor)[0] == 4


def test_a_saved_monitor_builds_its_index_again(prices, tmp_path):
    prices(**ALWAYS)
    rules = fences()
    monitor = tocsin.Monitor(rules, v_max="speed")
    monitor.update(points(50, speed=np.ones(50)))
    for i in range(3):
        rules.add(i, "x > 0.5")
        expected = len(monitor.advance(0))
    assert counts(monitor) == [2, 1, 0]
    monitor.save(tmp_path)
    again = tocsin.Monitor.open(tmp_path, rules)
    for i in range(3):
        rules.add(3 + i, "x > 0.5")
        assert len(again.advance(0)) == expected
    assert counts(again) == [2, 1, 0]


@pytest.mark.parametrize(
    ("v_max", "message"),
    [
        (-1, "v_max must be 0 or more, and finite; got -1"),
        (float("nan"), "v_max must be 0 or more, and finite; got nan"),
        (float("inf"), "v_max must be 0 or more, and finite; got inf"),
        (True, "v_max must be a number, or the name of a column of positions; got True"),
        ("", "v_max takes the name of a column, got ''"),
    ],
)
def test_what_v_max_can_be(v_max, message):
    with pytest.raises(tocsin.MonitorError) as error:
        tocsin.Monitor(fences(), v_max=v_max)
    assert str(error.value) == message


def test_v_max_needs_two_columns_and_its_own():
    with pytest.raises(tocsin.MonitorError, match=r"positions of two columns.*got \['x'\]"):
        tocsin.Monitor(fences(), v_max=1, position=["x"])
    monitor = tocsin.Monitor(fences(), v_max="sped")
    with pytest.raises(tocsin.MonitorError, match="v_max: the positions have no column 'sped'"):
        monitor.update([{"object": 1, "t": 1, "x": 1, "speed": 2}])
