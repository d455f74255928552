"""Random walks reach every case of the semantics, and their conditions mean what Tocsin says."""

from collections import Counter

import pytest

import tocsin
from tests.moving.examples import SqlRules, apply_edits
from tests.moving.naive_monitor import NaiveMonitor, NaiveRules
from tests.moving.trees import holds
from tests.moving.walks import PROFILES, walk, walks


def run(profile: str, seed: int):
    """Return a walk, the events of its steps, and the monitor in the end."""
    scenario = walk(seed, profile)
    rules = NaiveRules(scenario.schema)
    apply_edits(rules, scenario.edits)
    monitor = NaiveMonitor(rules, **scenario.options)
    events = []
    for call, argument in scenario.steps:
        if call == "rules":
            apply_edits(rules, argument)
        else:
            events.append(getattr(monitor, call)(argument))
    return scenario, events, monitor


def test_a_seed_repeats_a_walk():
    assert repr(walk(3, "any options")) == repr(walk(3, "any options"))
    assert repr(walk(3, "any options")) != repr(walk(4, "any options"))


@pytest.mark.parametrize("profile", PROFILES)
def test_events_are_in_order_and_enters_and_leaves_alternate(profile):
    for seed in range(10):
        _, results, monitor = run(profile, seed)
        inside = set()
        for events in results:
            assert [event[3] for event in events] == sorted(event[3] for event in events)
        # Events about rules that change may be earlier than events of the update before.
        for key, rule, event, time, since, _ in (event for events in results for event in events):
            assert since <= time
            if event == "enter":
                assert (key, rule) not in inside
                inside.add((key, rule))
            elif event == "leave":
                inside.remove((key, rule))
            elif event == "dwell":
                assert (key, rule) in inside
        keys = {key for key, _ in inside}
        assert inside == {(key, rule) for key in keys for rule in monitor.where(key)}


def test_walks_reach_every_case():
    reached = Counter()
    for profile, seed in walks(10):
        _, results, monitor = run(profile, seed)
        reached.update(monitor.totals)
        for events in results:
            reached.update((event, reason) for _, _, event, _, _, reason in events)
            times = Counter((key, time) for key, _, _, time, _, _ in events)
            reached["coincidences"] += sum(count > 1 for count in times.values())
    changes = ("rule added", "rule changed")
    for case in (
        *(("enter", reason) for reason in (None, *changes)),
        *(("leave", r) for r in (None, "rule removed", "rule changed", "lost", "object removed")),
        *(("dwell", None), ("lost", None)),
        *("late", "doubled", "rejected", "coincidences"),
    ):
        assert reached[case] > 50, case


@pytest.mark.parametrize("profile", ["any options", "margin in decimals", "ranges"])
def test_conditions_match_as_in_tocsin(profile):
    for seed in range(5):
        scenario = walk(seed, profile)
        steps = [("rules", scenario.edits), *scenario.steps]
        trees = [e[2] for call, edits in steps if call == "rules" for e in edits if len(e) == 4]
        rules = tocsin.Rules(scenario.schema)
        for number, tree in enumerate(trees):
            SqlRules(rules).add(number, tree)
        for call, rows in steps:
            if call == "update":
                expected = [
                    (event, number)
                    for event, row in enumerate(rows)
                    for number, tree in enumerate(trees)
                    if holds(tree, row)
                ]
                complete = [dict.fromkeys(scenario.types) | row for row in rows]
                assert list(rules.match(scenario.table(complete)).sorted()) == expected
