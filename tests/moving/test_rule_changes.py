"""Fingerprints: the same for conditions that mean the same, whatever other rules there are."""

import itertools

import tocsin
from tests.moving.examples import SqlRules, apply_edits
from tests.moving.naive_monitor import NaiveRules
from tests.moving.test_saved_monitor import anew
from tests.moving.walks import walk
from tocsin.moving.rule_changes import JudgedRules

SCHEMA = {"x": "number", "tier": "category", "kind": "category"}


def fingerprints(rules):
    listed = JudgedRules(rules.snapshot()).to_list()
    return dict(zip(listed.ids.to_pylist(), listed.fingerprints.tolist(), strict=True))


def test_lists_of_categories():
    """Codes that follow each other are an interval, and a complement may cut it."""
    conditions = [
        "tier = 'a'",
        "tier = 'b'",
        "kind = 'a'",
        "tier <> 'a'",
        "tier IN ('a', 'b')",
        "tier IN ('b', 'c')",
        "tier IN ('a', 'b', 'c')",
        "tier IN ('a', 'c')",
        "tier NOT IN ('a', 'b')",
        "tier NOT IN ('a', 'b', 'c')",
        "tier IN ('a', 'b', 'c', 'd') AND tier NOT IN ('b', 'e')",
        "tier IN ('a', 'b', 'c', 'd') AND tier NOT IN ('b', 'c')",
        "tier IS NULL",
        "tier IS NOT NULL",
        "tier <=> 'a'",
        "NOT tier <=> 'a'",
        "tier = 'a' OR tier = 'c' OR x > 1",
        "tier IN ('a', 'b') AND kind IN ('a', 'b')",
        "tier = 'a' AND kind IN ('a', 'b')",
    ]
    # Some mean the same, and the first of each meaning stands for all.
    same = {"tier <=> 'a'": "tier = 'a'"}
    found = []
    for order in itertools.permutations(("'a'", "'b'", "'c'", "'d'", "'e'")):
        rules = tocsin.Rules(SCHEMA)
        rules.add("first", f"tier = {order[0]} OR kind = {order[1]} OR tier IN ({order[2]}, 'f')")
        rules.add("then", f"tier = {order[3]} OR kind = 'g' OR tier = {order[4]}")
        for condition in conditions:
            rules.add(condition, condition)
        of = fingerprints(rules)
        found.append({condition: of[condition] for condition in conditions})
    assert all(each == found[0] for each in found)
    assert len(set(found[0].values())) == len(conditions) - len(same)
    for one, other in same.items():
        assert found[0][one] == found[0][other]


def test_rules_of_walks():
    for seed in range(8):
        scenario = walk(seed, "rule changes")
        naive, rules = NaiveRules(scenario.schema), SqlRules(tocsin.Rules(scenario.schema))
        steps = [("rules", scenario.edits), *scenario.steps]
        for edits in (argument for call, argument in steps if call == "rules"):
            apply_edits(naive, edits)
            apply_edits(rules, edits)
            assert fingerprints(rules.rules) == fingerprints(anew(naive))
