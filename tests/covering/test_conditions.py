"""Covering among conditions: never wrong, and complete without OR; all events decide."""

import os
import random

import numpy as np
import pytest

import tocsin
from tests.covering.generate import EVENTS, SCHEMA, random_condition
from tocsin.covering import ConditionCover

IS_LONG = os.environ.get("TOCSIN_PROFILE") == "long"
ALL = 1000


def satisfied(conditions):
    """Which events satisfy which conditions."""
    rules = tocsin.Rules(SCHEMA)
    for number, where in enumerate(conditions):
        rules.add(number, where)
    table = np.zeros((EVENTS.num_rows, len(conditions)), bool)
    table[rules.match(EVENTS).pairs()] = True
    return table


@pytest.mark.parametrize("seed", range(200 if IS_LONG else 5))
def test_all_events_decide(seed):
    rng = random.Random(seed)
    conditions = [random_condition(rng) for _ in range(40)]
    holds = satisfied(conditions)
    cover, live = ConditionCover(SCHEMA), set()
    for number, where in enumerate(conditions):
        own = holds[:, number]
        larger = {each for each in live if not (own & ~holds[:, each]).any()}
        smaller = {each for each in live if not (holds[:, each] & ~own).any()}
        for found, exact in ((cover.covering(where, ALL), larger), (cover.covered(where), smaller)):
            assert len(found) == len(set(found))
            assert set(found) <= exact
            missed = exact - set(found)
            assert all(" OR " in where + conditions[each] for each in missed)
        cover.add(number, where)
        live.add(number)
        if rng.random() < 0.3:
            gone = rng.choice(sorted(live))
            cover.remove(gone)
            live.remove(gone)


def test_computed_attributes():
    cover = ConditionCover({"ts": "time", "x": "number"})
    cover.add(1, "hour(ts) >= 8")
    assert cover.covering("hour(ts) BETWEEN 9 AND 17 AND x > 3") == [1]
    assert cover.covering("x > 3") == []


def test_what_is_not_found():
    cover = ConditionCover({"x": "number"})
    cover.add("all but null", "x < 3 OR x >= 3")
    assert cover.covering("x > 0") == []
    assert cover.covering("x > 5") == ["all but null"]
    cover = ConditionCover({"ts": "time", "price": "decimal(4,2)"})
    cover.add("any hour", "hour(ts) >= 0")
    cover.add("any price", "price <= 99.99")
    assert cover.covering("ts IS NOT NULL") == []
    assert cover.covering("price IS NOT NULL") == []


def test_never():
    cover = ConditionCover({"x": "number"})
    assert cover.covering("x > 5 AND x < 3") == []
    cover.add("never", "x > 5 AND x < 3")
    cover.add("some", "x > 5")
    assert cover.covering("x > 9 AND x < 3", k=9) == ["never", "some"]
    assert cover.covered("x < 3") == ["never"]


def test_errors():
    cover = ConditionCover({"x": "number"})
    cover.add(1, "x > 5")
    with pytest.raises(tocsin.CoverError, match="already a condition with the id 1"):
        cover.add(1, "x > 6")
    with pytest.raises(tocsin.CoverError, match="no condition with the id 2"):
        cover.remove(2)
    with pytest.raises(tocsin.ConditionError, match="unknown attribute 'z'"):
        cover.covering("z > 5")
