"""Simulate a server that refreshes uncertain readings (thesis, 5.7): `simulate`.

Table 5.2 and the text contradict each other; the options say what is meant. The defaults are the
reading under which all numbers of the thesis fit together:

* A query ends when its updates have arrived, at the latest `active_time` after its arrival. If each
  were active for 5 seconds, 20 queries per second would be 100 at a time, not `queries` = 10.
* Queries in excess of `queries` wait, and waiting counts towards the active time. If they were
  rejected, more arrivals would change nothing.
* A requested update takes two messages, request and reply, and a sensor that was not asked for 10
  seconds reports on its own. Then 25 queries per second with 5 updates each, and 1,000 sensors, take
  25 x 5 x 2 + 1000 / 10 = 350 messages per second: "the entire network bandwidth".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tocsin.uncertain import event_loop
from tocsin.uncertain.choosing import CUSTOM, MINMIN
from tocsin.uncertain.event_loop import Settings, State
from tocsin.uncertain.expected import RULE
from tocsin.uncertain.worlds import WorldParameters, make_world

_NO_LIMIT = 1 << 62


def simulate(
    policy: Any = MINMIN,
    *,
    seed: int = 0,
    duration: float = 60.0,
    warm_up: float = 20.0,
    sensors: int = 1000,
    max_rate: float = 0.1,
    walk_step: float = 0.1,
    arrival_rate: float = 20.0,
    subset: int = 100,
    hot: float = 0.2,
    hot_queries: float = 0.8,
    queries: int | None = 10,
    excess: str = "wait",
    active_time: float = 5.0,
    active_from: str = "arrival",
    ends: str = "updates",
    target: float | None = None,
    bandwidth: float = 350.0,
    messages_per_update: int = 2,
    latency: float = 0.0,
    updates: int | None = 5,
    concurrent: int = 1,
    share_updates: bool = False,
    report_after: float | None = 10.0,
    report_width: float | None = None,
    report_edge: float | None = None,
    clip: bool = False,
    log: bool = False,
):
    """Draft."""
    end = warm_up + duration
    world = make_world(
        WorldParameters(
            seed, end + active_time + 2 * walk_step + 5, sensors, max_rate, walk_step, arrival_rate, subset, hot,
            hot_queries,
        )
    )
    n, m = sensors, len(world.arrival)
    settings = Settings(
        sensors=n,
        subset=subset,
        walk_step=float(walk_step),
        bandwidth=float(bandwidth),
        messages=messages_per_update,
        latency=float(latency),
        queries=_NO_LIMIT if queries is None else queries,
        waits=excess == "wait",
        from_arrival=active_from == "arrival",
        active_time=float(active_time),
        ends_early=ends == "updates",
        target=math.inf if target is None else float(target),
        updates=_NO_LIMIT if updates is None else updates,
        concurrent=concurrent,
        shares=share_updates,
        report_after=math.inf if report_after is None else float(report_after),
        report_width=math.inf if report_width is None else float(report_width),
        edge=0.0 if report_edge is None else float(report_edge),
        clips=clip,
        measure_from=float(warm_up),
        measure_until=float(end),
        policy=policy,
    )
    with np.errstate(divide="ignore"):
        oldest = np.minimum(10.0 if report_after is None else report_after, np.inf if report_width is None else report_width / (2 * world.rate))
    room = n + m * concurrent + 1
    messages = math.ceil(bandwidth * (end + active_time + 1)) if log else 0
    state = State(
        clock=np.zeros(event_loop.CLOCKS),
        count=np.zeros(event_loop.COUNTS, np.int64),
        value=world.walk[:n].copy(),
        updated=-world.phase * oldest,
        under_way=np.zeros(n, np.int64),
        started=np.full(m, np.nan),
        ended=np.full(m, np.nan),
        requested=np.zeros(m, np.int64),
        received=np.zeros(m, np.int64),
        outstanding=np.full(m * concurrent, -1, np.int64),
        active=np.zeros(m, np.int64),
        todo=np.zeros(2 * m + 1, np.int64),
        queue=np.zeros(2 * room, np.int64),
        flight=np.zeros(2 * room, np.int64),
        flight_time=np.zeros(2 * room),
        log=np.zeros(4 * messages),
        answer=np.zeros(m * event_loop.MEASURES),
        bins=np.zeros(3 * event_loop.BINS),
        low=np.empty(subset),
        high=np.empty(subset),
        free=np.empty(subset, np.int64),
        p=np.empty(subset),
    )
    state.count[event_loop.CHOSEN] = event_loop.UNDECIDED
    event_loop.run(world, settings, state, RULE)
    return world, settings, state
