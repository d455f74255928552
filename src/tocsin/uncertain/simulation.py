"""Simulate a server that refreshes uncertain readings (thesis, 5.7): `simulate`.

The numbers of Table 5.2 and of the text contradict each other, unless three things are assumed:

* A query ends when its updates have arrived, at the latest `active_time` after its arrival. If each
  were active for 5 seconds, 20 queries per second would be 100 at a time, and not `max_queries`.
* Queries in excess of `max_queries` wait, and waiting counts towards the active time. If they were
  rejected, quality would hardly get worse beyond 25 queries per second; without the limit, it would
  break down.
* A requested update takes two messages, request and reply, and a sensor reports on its own 10
  seconds after its last update. Then 25 queries per second with 5 updates each, and 1,000 sensors,
  take 25 x 5 x 2 + 1000 / 10 = 350 messages per second: "the entire network bandwidth".

These are the defaults; other readings are options. With them, quality is best at 25 queries per
second, and answers have 3 to 10 objects, as in the thesis (`experiments/uncertain_choices.py`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.errors import UncertainError
from tocsin.uncertain.choosing import CUSTOM
from tocsin.uncertain.panels import RULE
from tocsin.uncertain.readings import Readings
from tocsin.uncertain.refresh import Policy, QueryState, check_choice, make_policy, policies
from tocsin.uncertain.simulation_result import SimulationResult, collect
from tocsin.uncertain.simulation_state import (
    BINS,
    CHOSEN,
    CLOCKS,
    COUNTS,
    DONE,
    MEASURES,
    NOTHING,
    NOW,
    UNDECIDED,
    Settings,
    State,
)
from tocsin.uncertain.worlds import World, WorldParameters, make_world

_NO_LIMIT = 1 << 62
_UNENDING = 60.0  # seconds to wait for the last queries, if their active time has no limit; chosen


def simulate(
    policy: Any = "minmin",
    *,
    seed: int = 0,
    duration: float = 60.0,
    warm_up: float = 20.0,
    bandwidth: float = 350.0,
    arrival_rate: float = 20.0,
    max_queries: int | None = 10,
    subset: int = 100,
    active_time: float | None = 5.0,
    max_updates: int | None = 5,
    concurrent_updates: int = 1,
    target: float | None = None,
    sensors: int = 1000,
    max_rate: float = 0.1,
    excess: str = "wait",
    active_from: str = "arrival",
    ends: str = "updates",
    messages_per_update: int = 2,
    share_updates: bool = False,
    idle_refresh: bool = False,
    latency: float = 0.0,
    report_after: float | None = 10.0,
    report_width: float | None = None,
    report_edge: float | None = None,
    know_domain: bool = False,
    hot_sensors: float = 0.2,
    hot_choices: float = 0.8,
    walk_step: float = 0.1,
    log: bool = False,
) -> SimulationResult:
    """Return how good the answers to minimum queries are if a policy chooses what to refresh.

    `policy` is a name in `uncertain.policies`, or a policy. Walks and queries depend on the seed
    alone, so they are the same for all policies. A simulated minute takes a tenth of a second; with
    "minexpentropy" and "expected_score" seconds, and more if answers have many objects.

    `duration` is in seconds of arriving queries that are measured, after those of the `warm_up`.

    **Table 5.2:** `bandwidth` in messages per second; queries per second (`arrival_rate`); those
    that are active at a time (`max_queries`); the sensors of each (`subset`); seconds after which a
    query ends (`active_time`); updates that it may request (`max_updates`), and those at a time
    (`concurrent_updates`); the score at which it ends (`target`; the thesis has -0.06). Values of
    the `sensors` are in [0, 1] and change by up to `max_rate` per second; the rate of each is
    uniform from 0 to that. None is no limit.

    **What the thesis leaves open:**

    * `excess`: queries beyond `max_queries` "wait", or "reject" them.
    * `active_from`: the active time counts from the "arrival" of a query, or from its "start".
    * `ends`: when its "updates" have arrived, or only after its "time".
    * `messages_per_update`: 2 for request and reply, or 1.
    * `share_updates`: whether a query that requests an update already under way waits for that one;
      otherwise it sends another request.
    * `idle_refresh`: whether bandwidth that nobody needs is used to refresh all sensors in turn.
    * `latency`: seconds from the transmission of an update until it arrives.
    * `report_after`, `report_width`: a sensor reports on its own so many seconds after its last
      update, or when its interval is that wide.
    * `report_edge`: a sensor reports when its value is closer to an end of its interval than this
      share of half the width. As values change by no more than the rate that the server knows, they
      never leave their intervals, and so this is off.
    * `know_domain`: whether the server cuts intervals off at 0 and at 1.
    * `hot_sensors`, `hot_choices`: this share of the sensors is chosen this share of the time.
    * `walk_step`: seconds after which a sensor takes another rate of change, uniform up to its own.

    With `log`, the result has all updates.

    >>> from tocsin import uncertain
    >>> uncertain.simulate("minmin", duration=10, sensors=200, subset=20).response_time < 0.2
    True
    """
    values = dict(locals())
    # Here, so that Spark does not compile this long kernel for its workers.
    from tocsin.uncertain import event_loop

    chosen, code = _read_policy(policy)
    p = _check(values)
    horizon = warm_up + duration + (active_time or _UNENDING) + latency + 2 * walk_step + 1
    world = make_world(
        WorldParameters(
            seed=p["seed"],
            seconds=float(horizon),
            sensors=sensors,
            max_rate=float(max_rate),
            walk_step=float(walk_step),
            arrival_rate=float(arrival_rate),
            subset=subset,
            hot=float(hot_sensors),
            hot_choices=float(hot_choices),
        )
    )
    settings = Settings(
        sensors=sensors,
        subset=subset,
        walk_step=float(walk_step),
        bandwidth=float(bandwidth),
        messages=messages_per_update,
        latency=float(latency),
        queries=_NO_LIMIT if max_queries is None else max_queries,
        waits=excess == "wait",
        from_arrival=active_from == "arrival",
        active_time=math.inf if active_time is None else float(active_time),
        ends_early=ends == "updates",
        target=math.inf if target is None else float(target),
        updates=_NO_LIMIT if max_updates is None else max_updates,
        concurrent=concurrent_updates,
        shares=bool(share_updates),
        report_after=math.inf if report_after is None else float(report_after),
        report_width=math.inf if report_width is None else float(report_width),
        edge=0.0 if report_edge is None else float(report_edge),
        refreshes=bool(idle_refresh),
        clips=bool(know_domain),
        measure_from=float(warm_up),
        measure_until=float(warm_up + duration),
        policy=code,
    )
    messages = math.ceil(bandwidth * horizon) if log else 0
    state = _start(world, settings, messages)
    while (query := event_loop.run(world, settings, state, RULE)) != DONE:
        _decide(world, settings, state, query, chosen)
    name = policy if isinstance(policy, str) else getattr(policy, "name", None) or repr(policy)
    parameters = {k: v for k, v in values.items() if k not in ("policy", "log")}
    return collect(world, settings, state, name, parameters)


def _read_policy(policy: Any) -> tuple[Policy, int]:
    """Return a policy, and its number in the kernel."""
    chosen = make_policy(policy)
    if type(chosen) not in policies.values():
        return chosen, CUSTOM
    code = int(chosen.code)  # type: ignore[attr-defined]
    if code < 0:
        raise UncertainError(
            f"the policy {chosen.name!r} is for range queries; "  # type: ignore[attr-defined]
            "the simulation runs minimum queries"
        )
    return chosen, code


def _start(w: World, c: Settings, messages: int) -> State:
    """Return the state before the first event.

    Sensors start with updates of different ages, so that those which report on their own do not all
    do so at the same time.
    """
    n, m = c.sensors, len(w.arrival)
    with np.errstate(divide="ignore"):
        oldest = np.minimum(c.report_after, c.report_width / (2 * w.rate))
    oldest = np.where(np.isfinite(oldest), oldest, 0.0)
    room = n + m * c.concurrent + 1
    state = State(
        clock=np.zeros(CLOCKS),
        counter=np.zeros(COUNTS, np.int64),
        value=w.walk[:n].copy(),
        updated=-w.phase * oldest,
        under_way=np.zeros(n, np.int64),
        started=np.full(m, np.nan),
        ended=np.full(m, np.nan),
        requested=np.zeros(m, np.int64),
        received=np.zeros(m, np.int64),
        outstanding=np.full(m * c.concurrent, -1, np.int64),
        active=np.zeros(m, np.int64),
        todo=np.zeros(8 * m + 8, np.int64),
        queue=np.zeros(2 * room, np.int64),
        flight=np.zeros(2 * room, np.int64),
        flight_time=np.zeros(2 * room),
        log=np.zeros(4 * messages),
        answer=np.zeros(m * MEASURES),
        bins=np.zeros(3 * BINS),
        low=np.empty(c.subset),
        high=np.empty(c.subset),
        status=np.empty(c.subset, np.int64),
        p=np.empty(c.subset),
    )
    state.counter[CHOSEN] = UNDECIDED
    return state


def _decide(w: World, c: Settings, s: State, query: int, policy: Policy) -> None:
    """Let a policy choose for a query."""
    members = w.member[query * c.subset : (query + 1) * c.subset]
    half = w.rate[members] * (s.clock[NOW] - s.updated[members])
    low, high = s.value[members] - half, s.value[members] + half
    if c.clips:
        low, high = np.maximum(low, 0), np.minimum(high, 1)
    state = QueryState(Readings.uniform(pa.array(members), low, high))
    outstanding = s.outstanding[query * c.concurrent : (query + 1) * c.concurrent]
    state.under_way = s.under_way[members] > 0
    state.pending = np.isin(members, outstanding)
    position = check_choice(policy(state), c.subset, policy)
    s.counter[CHOSEN] = NOTHING if position is None else members[position]


# ------------------------------------------------------------ checks

_COUNTS = {
    "seed": 0, "max_queries": 1, "subset": 1, "max_updates": 0, "concurrent_updates": 1,
    "sensors": 1, "messages_per_update": 1,
}  # fmt: skip
_POSITIVE = ("duration", "bandwidth", "arrival_rate", "active_time", "walk_step", "report_after",
             "report_width")  # fmt: skip
_NOT_NEGATIVE = ("warm_up", "latency", "max_rate")
_SHARES = ("hot_sensors", "hot_choices", "report_edge")
_OPTIONAL = ("max_queries", "active_time", "max_updates", "target", "report_after", "report_width",
             "report_edge")  # fmt: skip
_WORDS = {
    "excess": ("wait", "reject"),
    "active_from": ("arrival", "start"),
    "ends": ("updates", "time"),
}


def _check(values: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters; raise for the first that is wrong."""
    for name, value in values.items():
        if value is None and name in _OPTIONAL:
            continue
        if name in _COUNTS:
            is_count = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not is_count or value < _COUNTS[name]:
                least = "a whole number of at least"
                raise UncertainError(f"{name} must be {least} {_COUNTS[name]}, got {value!r}")
        elif name in (*_POSITIVE, *_NOT_NEGATIVE, *_SHARES, "target"):
            _check_number(name, value)
        elif name in _WORDS and value not in _WORDS[name]:
            words = " or ".join(map(repr, _WORDS[name]))
            raise UncertainError(f"{name} must be {words}, got {value!r}")
    if values["subset"] > values["sensors"]:
        raise UncertainError(
            f"subset must be at most the number of sensors, {values['sensors']}, got "
            f"{values['subset']}"
        )
    if values["max_rate"] * values["walk_step"] > 1:
        raise UncertainError(
            "max_rate times walk_step must be at most 1, or a value would cross its domain in one "
            f"step; got {values['max_rate']} times {values['walk_step']}"
        )
    if values["active_time"] is None and values["ends"] == "time":
        raise UncertainError("queries would never end: ends is 'time', but active_time is None")
    if values["active_time"] is None and values["max_updates"] is None and values["target"] is None:
        raise UncertainError(
            "queries would never end: active_time, max_updates and target are None"
        )
    return values


def _check_number(name: str, value: Any) -> None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UncertainError(f"{name} must be a number, got {value!r}") from None
    if not math.isfinite(number):
        hint = "; None is no limit" if name in _OPTIONAL else ""
        raise UncertainError(f"{name} must be finite, got {number}{hint}")
    if name in _POSITIVE and number <= 0:
        raise UncertainError(f"{name} must be positive, got {number:g}")
    if name in _NOT_NEGATIVE and number < 0:
        raise UncertainError(f"{name} must not be negative, got {number:g}")
    if name in _SHARES and not 0 <= number <= 1:
        raise UncertainError(f"{name} is a share from 0 to 1, got {number:g}")
    if name == "target" and number > 0:
        raise UncertainError(f"target is a score, which is never above 0; got {number:g}")
