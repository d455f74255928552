"""The period of refreshes that costs least."""

import math

import pytest

from tocsin.moving.velocity import VelocityIndex, optimal_period
from tocsin.moving.velocity.refreshing import RefreshCosts


def test_no_other_period_costs_less():
    refresh, rate, growth = 0.7, 13.0, 0.002
    best = optimal_period(refresh, rate, growth)

    def cost(period):
        return refresh / period + rate * growth * period / 2

    assert cost(best) < min(cost(best * 0.99), cost(best * 1.01))
    # Queries have then cost as much more than fresh ones as a refresh costs.
    assert rate * growth * best**2 / 2 == pytest.approx(refresh)


def test_the_period_is_measured():
    costs = RefreshCosts()
    assert costs.period == math.inf
    costs.note_refresh(0.5)
    for age in range(1, 101):
        for _ in range(4):
            costs.note_query(age, 1e-3 + 1e-5 * age)
    assert costs.query_rate == pytest.approx(4)
    assert costs.growth == pytest.approx(1e-5)
    assert costs.period == pytest.approx(math.sqrt(2 * 0.5 / (4 * 1e-5)))


def test_measurements_follow_changes():
    costs = RefreshCosts()
    for growth in [1e-5] * 10 + [3e-5] * 10:
        costs.note_refresh(0.5)
        for age in range(1, 101):
            costs.note_query(age, 1e-3 + growth * age)
    assert costs.growth == pytest.approx(3e-5, rel=0.01)
    assert costs.query_rate == pytest.approx(1, rel=0.01)


def test_queries_of_one_age_or_cheaper_ones_show_no_growth():
    costs = RefreshCosts()
    costs.note_refresh(0.5)
    for age, seconds in [(0.1, 0.2), (0.1, 0.1), (0.1, 0.3)]:
        costs.note_query(age, seconds)
    assert (costs.growth, costs.period) == (0, math.inf)
    costs.note_query(10, 0.01)
    assert (costs.growth, costs.period) == (0, math.inf)


def test_an_index_says_when_a_refresh_pays():
    index = VelocityIndex(range(100), range(100), range(100), 1, at=1000)
    assert not index.refresh_pays(1e9)
    index.tree.costs.note_refresh(0.5)
    for age in range(1, 101):
        index.tree.costs.note_query(age, 1e-5 * age)
    period = index.refresh_period
    assert 0 < period < math.inf
    assert not index.refresh_pays(1000 + 0.9 * period)
    assert index.refresh_pays(1000 + 1.1 * period)
    index.refresh(at=1000 + 1.1 * period)
    assert not index.refresh_pays(1000 + 1.1 * period)


def test_an_empty_index_never_needs_a_refresh():
    index = VelocityIndex([], [], [], 1, at=0)
    index.query([0, 0], [1, 1], now=5)
    assert index.refresh_period == math.inf
    assert not index.refresh_pays(100)
