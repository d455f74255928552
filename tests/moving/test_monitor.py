"""The monitor gives the events of the oracle, in the same order, for examples and random walks."""

import os

import pytest

import tocsin
from tests.moving.examples import EXAMPLES, Example, SqlRules, apply_edits, play
from tests.moving.naive_monitor import NaiveMonitor, NaiveRules
from tests.moving.walks import PROFILES, walk

WALKS = 300 if os.environ.get("TOCSIN_PROFILE") == "long" else 12


class TableMonitor:
    """A monitor that is used as the oracle is."""

    def __init__(self, monitor, to_table=lambda rows: rows):
        self.monitor = monitor
        self.to_table = to_table

    def update(self, rows):
        return as_tuples(self.monitor.update(self.to_table(rows)))

    def advance(self, now):
        return as_tuples(self.monitor.advance(now))

    def remove(self, key):
        return as_tuples(self.monitor.remove(key))

    def inside(self, rule):
        return self.monitor.inside(rule)

    def where(self, key):
        return self.monitor.where(key)

    @property
    def late(self):
        return self.monitor.counters["late_by_object"]

    @property
    def doubled(self):
        return self.monitor.counters["doubled_by_object"]

    @property
    def rejected(self):
        return self.monitor.rejected.to_pylist()


def as_tuples(table):
    names = ["object", "rule", "event", "time", "since", "reason"]
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_examples(example: Example):
    rules = SqlRules(tocsin.Rules(example.schema))
    apply_edits(rules, example.edits())
    monitor = TableMonitor(tocsin.Monitor(rules.rules, **example.options))
    assert play(example, monitor, rules) == []


@pytest.mark.parametrize("profile", [p for p in PROFILES if p not in ("merged predicates",)])
def test_walks(profile):
    for seed in range(WALKS):
        scenario = walk(seed, profile)
        naive = NaiveRules(scenario.schema)
        rules = SqlRules(tocsin.Rules(scenario.schema))
        apply_edits(naive, scenario.edits)
        apply_edits(rules, scenario.edits)
        oracle = NaiveMonitor(naive, **scenario.options)
        monitor = TableMonitor(tocsin.Monitor(rules.rules, **scenario.options), scenario.table)
        for number, (call, argument) in enumerate(scenario.steps):
            where = f"seed {seed}, step {number}: {call}"
            if call == "rules":
                apply_edits(naive, argument)
                apply_edits(rules, argument)
                continue
            expected = getattr(oracle, call)(argument)
            assert getattr(monitor, call)(argument) == expected, where
            assert monitor.late == oracle.late, where
            assert monitor.doubled == oracle.doubled, where
        for rule in ("r", "s", 0, 1):
            assert monitor.inside(rule) == oracle.inside(rule)
