"""`counting` where its counters are too small; conformance has the rest."""

import numpy as np
import pytest

import tocsin
from tocsin.index.counting import building


def rules_and_events():
    rng = np.random.default_rng(7)
    schema = dict.fromkeys("abcde", "integer")
    rules = {
        i: " AND ".join(
            f"{name} BETWEEN {low} AND {low + 12}"
            for name, low in zip("abcde"[: 1 + i % 5], rng.integers(0, 20, 5).tolist())
        )
        for i in range(300)
    }
    events = [dict(zip("abcde", row)) for row in rng.integers(0, 30, (200, 5)).tolist()]
    return schema, rules, events


@pytest.mark.parametrize("most", [1, 2, 4])
def test_predicates_beyond_the_counter_are_left_to_accept(monkeypatch, most):
    monkeypatch.setattr(building, "MOST_COUNTED", most)
    schema, conditions, events = rules_and_events()
    found = []
    for index in ("counting", "exhaustive"):
        rules = tocsin.Rules(schema, index=index)
        for number, condition in conditions.items():
            rules.add(number, condition)
        rules.merge()
        assert index in str(rules.plan())
        found.append(rules.match(events))
    few, expected = found
    assert sorted(few) == sorted(expected)
    assert len(few) > 100
    assert few.counters.evaluated > 0
