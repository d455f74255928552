"""A safe region hides no event: clients that are silent in it, against an oracle that hears all."""

import math
import os
from random import Random

import pytest

import tocsin
from tests.moving.examples import SqlRules, apply_edits
from tests.moving.naive_monitor import NaiveMonitor, NaiveRules
from tests.moving.regions.clients import Client
from tests.moving.regions.test_search import SCALES, random_fences
from tests.moving.test_monitor import TableMonitor, as_tuples
from tests.moving.test_saved_monitor import anew
from tests.moving.walks import PROFILES, SCHEMA, walk
from tocsin.engine.storage.memory import Memory

IS_LONG = os.environ.get("TOCSIN_PROFILE") == "long"
WALKS = 60 if IS_LONG else 3
KINDS = {
    "dist": {"safe_regions": "dist"},
    "sphere": {"safe_regions": "sphere"},
    "rect": {"safe_regions": "rect"},
    "rect by perimeter": {"safe_regions": "rect", "rect_by": "perimeter"},
    "rect within reach": {"safe_regions": "rect", "rect_reach": 10},
    "rect and v_max": {"safe_regions": "rect", "v_max": 9.0},
}


# ------------------------------------------------------------ whoever reports all


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("profile", [p for p in PROFILES if p != "merged predicates"])
def test_reports_inside_of_a_region_change_nothing(profile, kind):
    """All rows are reported: late and doubled ones, removals, ranges, with all options."""
    for seed in range(WALKS if IS_LONG else 2):
        scenario = walk(seed, profile)
        options = {k: v for k, v in scenario.options.items() if k != "lost_after"}
        if len(options.get("position", "xy")) != 2:
            options["position"] = ("y", "n")
        naive, rules = NaiveRules(scenario.schema), SqlRules(tocsin.Rules(scenario.schema))
        for edits in (scenario.edits, *(a for call, a in scenario.steps[:5] if call == "rules")):
            apply_edits(naive, edits)
            apply_edits(rules, edits)
        oracle = NaiveMonitor(naive, **options)
        options |= KINDS[kind]
        monitor = TableMonitor(tocsin.Monitor(rules.rules, **options), scenario.table)
        for number, (call, argument) in enumerate(scenario.steps):
            if call == "rules":
                continue
            expected = getattr(oracle, call)(argument)
            assert getattr(monitor, call)(argument) == expected, (seed, number)
            assert (monitor.late, monitor.doubled) == (oracle.late, oracle.doubled)


# ------------------------------------------------------------ whoever is silent


class Fleet:
    """Clients of a monitor, and the oracle that hears all of them."""

    def __init__(self, schema, options, region_options, position=("x", "y"), keys=range(5)):
        self.naive, self.rules = NaiveRules(schema), SqlRules(tocsin.Rules(schema))
        self.oracle = NaiveMonitor(self.naive, position=position, **options)
        options = options | region_options
        self.monitor = tocsin.Monitor(
            self.rules.rules, position=position, lost_after=options.pop("lost_after", 2), **options
        )
        self.clients = {key: Client(self.monitor, key, position) for key in keys}
        self.rows = 0
        # With a margin it matters later on that one was asked, and not judged where it was before.
        self.remembers = "margin" in options
        self.undecided = set()

    def reopen(self, rng):
        """Save the monitor, and go on with what is opened, perhaps with rules of other numbers."""
        if rng.random() < 0.5:
            self.rules.rules = anew(self.naive)
        storage = Memory()
        self.monitor.save(storage)
        self.monitor = tocsin.Monitor.open(storage, self.rules.rules)
        for client in self.clients.values():
            client.monitor = self.monitor

    def change(self, edits):
        apply_edits(self.naive, edits)
        apply_edits(self.rules, edits)

    def step(self, now, batches):
        """Move: let each client report what it must. Compare the events, and who is where."""
        # A row that is not newer than a timer that has fired would be late.
        expected = self.oracle.advance(now - 1)
        events = as_tuples(self.monitor.advance(now - 1))
        asked = set(self.monitor.to_ask())
        for key in asked:
            self.clients[key].must_report = True
        rows = []
        for row in batches:
            client = self.clients[row["object"]]
            if not client.is_silent(row):
                rows.append(client.report(row))
        self.rows += len(batches)
        expected += self.oracle.update(batches)
        events += as_tuples(self.monitor.update(rows)) if rows else []
        end = max([now, *(row["t"] for row in batches)])
        expected += self.oracle.advance(end)
        events += as_tuples(self.monitor.advance(end))
        heard = {row["object"] for row in rows}
        assert not set(self.monitor.to_ask()) - (asked - heard)
        for key in heard:
            self.clients[key].listen()
        self.undecided = asked | self.undecided if self.remembers else asked
        decided = [_without_times(e) for e in events if e[0] not in self.undecided]
        assert sorted(map(repr, decided)) == sorted(
            repr(_without_times(e)) for e in expected if e[0] not in self.undecided
        )
        for key in self.clients.keys() - (self.undecided if self.remembers else set()):
            assert self.monitor.where(key) == self.oracle.where(key), key
        return asked

    @property
    def reports(self):
        return sum(client.reports for client in self.clients.values())


def _without_times(event):
    """Return an event without times if a rule is the cause: they are those of the last report."""
    return event if event[-1] is None else (*event[:3], event[-1])


def rows_of(rng, places, now, others):
    rows = []
    for time in range(rng.choice((1, 1, 1, 3))):
        for key, place in places.items():
            for axis in range(3):
                if rng.random() < 0.4:
                    step = 0.25 if rng.random() < 0.9 else 5
                    place[axis] = min(7, max(-1, place[axis] + step * rng.choice((-1, 1))))
            if rng.random() < 0.03:
                others[key] = {
                    "speed": rng.choice((None, math.nan, 0.0, 1.0, 2.0, 3.0, 3.5)),
                    "vehicle": rng.choice((None, "car", "truck", "Z", "unseen before")),
                }
            x, y = place[:2]
            if rng.random() < 0.02:
                x = rng.choice((None, math.nan, math.inf, -math.inf, -0.0))
            row = {"object": key, "t": now + time, "x": x, "y": y, "n": int(place[2])}
            rows.append(row | others.get(key, {"speed": None, "vehicle": None}))
    return rows


OPTIONS = {
    "plain": {},
    "margin": {"margin": 0.5},
    "timers": {"dwell": 3, "min_stay": 1, "min_away": 2},
    "all": {"dwell": 2, "min_stay": 1, "min_away": 2, "margin": 1.0},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("changes", [False, True], ids=["same rules", "rules that change"])
def test_silent_walks(kind, options, changes):
    saved, is_reopened = 0, options in ("plain", "all")
    if changes and "dwell" in OPTIONS[options]:
        return  # a dwell in a new fence counts from the last report
    for seed in range(WALKS):
        rng = Random(f"{kind} {options} {seed}")
        scenario = walk(seed, "rule changes")
        edits = [argument for call, argument in scenario.steps if call == "rules"]
        position = ("y", "n") if seed % 4 == 3 else ("x", "y")
        fleet = Fleet(SCHEMA, OPTIONS[options], KINDS[kind], position)
        fleet.change(scenario.edits)
        if not changes:
            for each in edits[:3]:
                fleet.change(each)
        places = {key: [rng.randint(0, 24) / 4 for _ in range(3)] for key in fleet.clients}
        others = {}
        now = 0
        for _ in range(40):
            if changes and edits and rng.random() < 0.3:
                fleet.change(edits.pop(0))
            if is_reopened and rng.random() < 0.1:
                fleet.reopen(rng)
            rows = rows_of(rng, places, now, others)
            fleet.step(now, rows)
            now = rows[-1]["t"] + 1
        saved += fleet.rows - fleet.reports
    assert saved > 20 * WALKS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES)
def test_silent_walks_among_coincidences(scale, kind):
    """Touching and degenerate fences, open ends, and the largest and smallest floats."""
    value, saved = SCALES[scale], 0
    for seed in range(WALKS):
        rng = Random(f"{kind} {scale} {seed}")
        fleet = Fleet({"x": "number", "y": "number"}, {}, KINDS[kind])
        ids = iter(range(1000))
        alive, places = [], {key: (value(rng), value(rng)) for key in fleet.clients}
        for now in range(30):
            for fence in random_fences(rng, scale, rng.choice((0, 0, 0, 1, 2))):
                alive.append(next(ids))
                fleet.change([("add", alive[-1], tree_of(fence, rng))])
            if alive and rng.random() < 0.2:
                fleet.change([("remove", alive.pop(rng.randrange(len(alive))))])
            for key, (x, y) in places.items():
                if rng.random() < 0.5:
                    places[key] = rng.choice(((value(rng), y), (x, value(rng)), (nudge(x, rng), y)))
            rows = [{"object": k, "t": now, "x": x, "y": y} for k, (x, y) in places.items()]
            fleet.step(now, rows)
        saved += fleet.rows - fleet.reports
    assert saved > 10 * WALKS


def nudge(value, rng):
    return math.nextafter(value, rng.choice((-math.inf, math.inf)))


def tree_of(fence, rng):
    x0, x1, y0, y1 = fence
    parts = [("cmp", "x", ">=", x0), ("cmp", "x", "<=", x1)]
    parts += [("cmp", "y", rng.choice((">=", ">")), y0), ("cmp", "y", rng.choice(("<=", "<")), y1)]
    parts = [part for part in parts if math.isfinite(part[3])]
    if not parts:
        return ("const", True)
    return rng.choice((("and", parts), ("and", parts), ("not", ("and", parts)), ("or", parts)))
