"""What a simulation happens in: random walks of sensors, and queries that arrive (thesis, 5.7.1).

A world depends on its seed and its own parameters alone, never on what a server decides, so that
every policy meets the same one. Streams of random numbers are separate: more sensors do not change
the arrivals, and another rate of arrivals changes neither walks nor subsets. A longer world begins
as the shorter one does.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64s, Int64s, bare_step, freeze_fields

_RATES, _STARTS, _STEPS, _ARRIVALS, _SUBSETS, _PHASES = range(6)


class World(NamedTuple):
    """n sensors over some ticks, and m queries."""

    rate: Float64s  # [n] the most by which a value changes per second
    walk: Float64s  # [(ticks + 1) * n] values at each tick, linear in between
    phase: Float64s  # [n] in [0, 1): how old the last update is at first, relative to the oldest
    arrival: Float64s  # [m] seconds, ascending
    member: Int64s  # [m * subset] the sensors of each query, ascending within a query


@dataclass(frozen=True)
class WorldParameters:
    """What a world is made from; `simulation.simulate` has the defaults."""

    seed: int
    seconds: float
    sensors: int
    max_rate: float
    walk_step: float
    arrival_rate: float
    subset: int
    hot: float
    hot_choices: float


@functools.lru_cache(maxsize=2)
def make_world(parameters: WorldParameters) -> World:
    """Return the world of these parameters."""
    p = parameters
    rate = p.max_rate * _stream(p, _RATES).random(p.sensors)
    ticks = math.ceil(p.seconds / p.walk_step) + 1
    walk = _stream(p, _STEPS).uniform(-1, 1, (ticks + 1, p.sensors)) * rate * p.walk_step
    walk[0] = _stream(p, _STARTS).random(p.sensors)
    np.cumsum(walk, axis=0, out=walk)
    # Reflected at 0 and at 1: the walk on the line, folded.
    np.subtract(1, np.abs(np.abs(walk, out=walk) % 2 - 1), out=walk)
    arrival = _arrivals(p)
    member = _subsets(p, len(arrival))
    return freeze_fields(
        World,
        rate=rate,
        walk=walk.reshape(-1),
        phase=_stream(p, _PHASES).random(p.sensors),
        arrival=arrival,
        member=member,
    )


def _stream(p: WorldParameters, purpose: int) -> np.random.Generator:
    return np.random.default_rng([p.seed, purpose])


def _arrivals(p: WorldParameters) -> np.ndarray:
    """Return the times of a Poisson process."""
    random, expected = _stream(p, _ARRIVALS), p.arrival_rate * p.seconds
    times = np.empty(0)
    while not len(times) or times[-1] < p.seconds:
        gaps = random.exponential(size=int(expected) + 64) / p.arrival_rate
        times = np.concatenate([times, (times[-1] if len(times) else 0.0) + np.cumsum(gaps)])
    return times[times < p.seconds]


def _subsets(p: WorldParameters, queries: int) -> np.ndarray:
    """Return the sensors of each query; a few of all, the hot ones, are chosen most often."""
    random = _stream(p, _SUBSETS)
    hot = round(p.hot * p.sensors)
    cold = p.sensors - hot
    members = np.empty((queries, p.subset), np.int64)
    for row in members:
        chosen = int(random.binomial(p.subset, p.hot_choices))
        chosen = max(min(chosen, hot), p.subset - cold)
        row[:chosen] = random.choice(hot, chosen, replace=False, shuffle=False)
        row[chosen:] = hot + random.choice(cold, p.subset - chosen, replace=False, shuffle=False)
    members.sort(axis=1)
    return members.reshape(-1)


@bare_step
def value_at(walk, sensors, walk_step, sensor, time):
    """Return the true value of a sensor."""
    tick = int(time / walk_step)
    share = time / walk_step - tick
    before, after = walk[tick * sensors + sensor], walk[(tick + 1) * sensors + sensor]
    return before + share * (after - before)
