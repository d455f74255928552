"""Densities that are read value by value are those that are read as an array."""

import random

import numpy as np
import pytest

import tocsin
from tocsin.errors import EventError
from tocsin.model.event_densities import (
    ValueDensities,
    density_of_dict,
    join_densities,
    read_usual_density,
    write_density_keys,
)

NUMBERS = [0, 1, -1, 2, 0.0, -0.0, 0.25, 0.75, 0.5, 1e-9, 5e-324, 1e300, 2**53, 2**53 + 1, 10**400,
           float("nan"), float("inf"), -float("inf"), True, None, "1", np.float64(0.5)]  # fmt: skip


def usual_number(rng):
    return rng.choice((rng.random(), rng.randint(-3, 3), rng.uniform(-3, 3), rng.choice(NUMBERS)))


def values(rng):
    """Return a dict that often is a density."""
    if rng.random() < 0.5:
        low, high = (usual_number(rng) for _ in range(2))
        fields = {
            "low": low,
            "high": high,
            "mean": usual_number(rng),
            "deviation": usual_number(rng),
        }
    else:
        bins = rng.randint(0, 4)
        edges = [rng.uniform(-5, 5) for _ in range(bins + 1)]
        edges = sorted(edges) if rng.random() < 0.9 else edges
        weights = [rng.choice((0, 0.0, 1, 0.25, rng.random())) for _ in range(bins)]
        total = sum(weights) or 1
        weights = [w / total for w in weights] if rng.random() < 0.8 else weights
        if rng.random() < 0.2 and weights:
            weights[rng.randrange(bins)] = usual_number(rng)
        if rng.random() < 0.2:
            edges[rng.randrange(bins + 1)] = usual_number(rng)
        fields = {
            "edges": edges,
            "weights": rng.choice((weights, weights, weights, tuple(weights))),
        }
    if rng.random() < 0.1:
        fields.pop(rng.choice(list(fields)))
    if rng.random() < 0.1:
        fields["low"] = usual_number(rng)
    return dict(rng.sample(list(fields.items()), len(fields)))


@pytest.mark.parametrize("seed", range(5))
def test_both_ways_of_reading(seed):
    rng = random.Random(seed)
    usual, ranges = 0, 0
    for _ in range(600):
        value = values(rng)
        found = read_usual_density(value)
        if found is None:
            continue
        usual += 1
        low = np.empty(1, np.int64)
        high, expected = write_density_keys(density_of_dict(value), low, str)
        assert found[:2] == (low[0], high[0]), value
        assert (found[2] is None) == (len(expected.indices) == 0), value
        if found[2] is not None:
            ranges += 1
            for name, ours in zip(ValueDensities._fields, join_densities([found[2]]), strict=True):
                theirs = getattr(expected, name)
                assert ours.tolist() == theirs.tolist(), (name, value)
                assert ours.dtype == theirs.dtype, (name, value)
    assert usual > 80
    assert ranges > 50


def test_usual_ones_need_no_arrays():
    assert read_usual_density({"low": 0, "high": 2.0, "mean": 1, "deviation": 0.5}) is not None
    assert read_usual_density({"edges": [0, 1.0, 2], "weights": [0.5, 0.5]}) is not None


@pytest.mark.parametrize("at_least", [None, 0.4])
@pytest.mark.parametrize("kind", ["number", "time"])
def test_ranges_with_a_wrong_end_are_refused(kind, at_least):
    rules = tocsin.Rules({"x": kind, "y": "number"})
    rules.add(0, "y > 1 OR x IS NOT NULL", at_least=at_least)
    nan = float("nan")
    for value in ({"low": nan, "high": nan}, {"low": 0.0, "high": nan}, {"low": 2.0, "high": 1.0},
                  {"low": None, "high": 1.0}):  # fmt: skip
        for events in ({"y": value}, [{"y": value}]):
            with pytest.raises(EventError, match="event 0: attribute 'y': the range"):
                rules.match(events)
    if at_least:
        for events in (
            {"y": {"low": 0.0, "high": float("inf")}},
            [{"y": {"low": -1e400, "high": 0}}],
        ):
            with pytest.raises(EventError, match="the range is infinite"):
                rules.match(events)
