"""The discrete event simulation of a server with little bandwidth (thesis, 5.7.1), as one kernel.

Events are arrivals of queries, messages that have been transmitted, updates that arrive, deadlines,
and ticks, at which sensors may report on their own. Between events, time jumps. All state is in
arrays, so the kernel can return to Python where a policy written in Python has to choose, and
continue afterwards.

The network transmits one message after the other, first come, first served. A requested update
takes one message or two (request and reply), an own report one. A value is measured when its reply
is transmitted. A message that has been sent is transmitted even if its query has ended.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tocsin.jit import Float64Out, Int64Out, kernel, step
from tocsin.uncertain.choosing import CUSTOM, GLB_RR, LOC_RR, choose
from tocsin.uncertain.expected import Rule
from tocsin.uncertain.scoring import score_minimum
from tocsin.uncertain.worlds import World, value_at

# What a kernel's `count` holds.
(
    NEXT_QUERY, FIRST_WAITING, FIRST_OPEN, TICK, ACTIVE, TODO, QUEUE_START, QUEUED, FLIGHT_START,
    FLYING, LINK_IS_BUSY, POINTER, CHOSEN, LOGGED, LOWEST,
) = range(15)  # fmt: skip
COUNTS = 15
# What its `clock` holds.
NOW, LINK_DONE, BUSY = range(3)
CLOCKS = 3
UNDECIDED, NOTHING = -2, -1  # of CHOSEN
DONE = -1  # returned by the kernel; otherwise the query that a policy has to choose for

# Measured for each query, in a row of `answer`.
(
    SCORE, VALUE_SCORE, ENTROPY, WIDTH, INTERVAL, CARDINALITY, IS_RIGHT, LOG_SCORE, REACHED,
) = range(9)  # fmt: skip
MEASURES = 9
BINS = 10  # of probabilities, for calibration
LEAST = 2.0**-50  # probability that a log score counts


class Settings(NamedTuple):
    """The parameters of a simulation, as the kernel needs them. No limit is a large number."""

    sensors: int
    subset: int  # sensors of a query
    walk_step: float  # seconds between ticks
    bandwidth: float  # messages per second
    messages: int  # that a requested update takes
    latency: float  # seconds from the end of a transmission until the update arrives
    queries: int  # that are active at a time, at most
    waits: bool  # whether queries in excess wait; otherwise they are rejected
    from_arrival: bool  # whether the active time includes the time that a query has waited
    active_time: float  # seconds
    ends_early: bool  # whether a query ends when its updates have arrived
    target: float  # score at which a query ends; above 0 for none
    updates: int  # that a query may request
    concurrent: int  # of these, at a time
    shares: bool  # whether queries share an update that is under way
    report_after: float  # seconds since the last update, after which a sensor reports
    report_width: float  # width of the interval, beyond which it reports
    edge: float  # share of half an interval; closer to its end, a sensor reports; 0 for never
    clips: bool  # whether the server knows that values are within [0, 1]
    measure_from: float  # seconds; earlier arrivals are not measured
    measure_until: float
    policy: int


class State(NamedTuple):
    """What changes during a simulation of n sensors and m queries."""

    clock: Float64Out  # [CLOCKS]
    count: Int64Out  # [COUNTS]
    value: Float64Out  # [n] of the last update that arrived
    updated: Float64Out  # [n] when it was measured
    under_way: Int64Out  # [n] messages from this sensor that have not arrived
    started: Float64Out  # [m] NaN before
    ended: Float64Out  # [m] NaN before, infinite if it was rejected
    requested: Int64Out  # [m]
    received: Int64Out  # [m]
    outstanding: Int64Out  # [m * concurrent] sensors, or -1
    active: Int64Out  # [m] the queries that are active, in any order
    todo: Int64Out  # [2 * m] queries that may request
    queue: Int64Out  # [2 * room] messages to transmit: sensor, and query or -1; a ring
    flight: Int64Out  # [2 * room] messages that have been transmitted; a ring
    flight_time: Float64Out  # [2 * room] when the value was measured, and when it arrives
    log: Float64Out  # [4 * messages, or 0] sensor, query, measured, arrived
    answer: Float64Out  # [m * MEASURES]
    bins: Float64Out  # [3 * BINS] sum of probabilities, number, number that were the minimum
    low: Float64Out  # [subset] memory: intervals of the sensors of a query
    high: Float64Out  # [subset]
    free: Int64Out  # [subset] memory: whether a sensor may be requested
    p: Float64Out  # [subset] memory: probabilities


@kernel
def run(w: World, c: Settings, s: State, rule: Rule) -> int:
    """Run until all queries have ended, or until a policy has to choose for the query returned."""
    count, clock = s.count, s.clock
    while True:
        while count[TODO]:
            q = s.todo[count[TODO] - 1]
            if not may_request(c, s, q):
                count[TODO] -= 1
                continue
            if c.policy == CUSTOM and count[CHOSEN] == UNDECIDED:
                return q
            if c.policy == CUSTOM:
                sensor = count[CHOSEN]
                count[CHOSEN] = UNDECIDED
            else:
                sensor = choose_for(w, c, s, rule, q)
            if sensor == NOTHING:
                count[TODO] -= 1
                s.requested[q] = c.updates  # it has all that it can get
                if c.ends_early and not count_outstanding(c, s, q):
                    end(w, c, s, rule, q)
            else:
                request(c, s, q, sensor)
        now = next_time(w, c, s)
        if now == math.inf:
            return DONE
        clock[NOW] = now
        if count[LINK_IS_BUSY] and clock[LINK_DONE] <= now:
            transmit(c, s)
        elif count[FLYING] and s.flight_time[2 * count[FLIGHT_START] + 1] <= now:
            arrive(w, c, s, rule)
        elif count[NEXT_QUERY] < w.arrival.shape[0] and (w.arrival[count[NEXT_QUERY]] <= now):
            count[NEXT_QUERY] += 1
            if not c.waits and count[ACTIVE] >= c.queries:
                count[FIRST_WAITING] += 1
                s.ended[count[NEXT_QUERY] - 1] = math.inf
            start_waiting(w, c, s, rule)
        elif deadline(w, c, s) <= now:
            end(w, c, s, rule, count[FIRST_OPEN])
        else:
            report(w, c, s)


@step
def next_time(w, c, s):
    """Return the time of the next event; infinite, if all queries to measure have ended."""
    count = s.count
    queries = w.arrival.shape[0]
    while count[FIRST_OPEN] < queries and not math.isnan(s.ended[count[FIRST_OPEN]]):
        count[FIRST_OPEN] += 1
    if count[FIRST_OPEN] == queries or w.arrival[count[FIRST_OPEN]] >= c.measure_until:
        return math.inf
    now = (count[TICK] + 1) * c.walk_step
    if count[LINK_IS_BUSY]:
        now = min(now, s.clock[LINK_DONE])
    if count[FLYING]:
        now = min(now, s.flight_time[2 * count[FLIGHT_START] + 1])
    if count[NEXT_QUERY] < queries:
        now = min(now, w.arrival[count[NEXT_QUERY]])
    now = min(now, deadline(w, c, s))
    ticks = w.walk.shape[0] // c.sensors - 1
    return now if now < ticks * c.walk_step else math.inf


@step
def deadline(w, c, s):
    """Return when the first open query has to end: as queries start in order, none is earlier."""
    q = s.count[FIRST_OPEN]
    if q >= s.count[NEXT_QUERY]:
        return math.inf
    if c.from_arrival:
        return w.arrival[q] + c.active_time
    return math.inf if math.isnan(s.started[q]) else s.started[q] + c.active_time


# ------------------------------------------------------------ queries


@step
def start_waiting(w, c, s, rule):
    """Start queries that wait, in the order of their arrival, as long as there is room."""
    count = s.count
    while count[ACTIVE] < c.queries and count[FIRST_WAITING] < count[NEXT_QUERY]:
        q = count[FIRST_WAITING]
        count[FIRST_WAITING] += 1
        if not math.isnan(s.ended[q]):  # its time was over before it could start
            continue
        s.started[q] = s.clock[NOW]
        if c.target <= 0 and measure(w, c, s, rule, q) >= c.target:
            close(w, c, s, q)
            continue
        s.active[count[ACTIVE]] = q
        count[ACTIVE] += 1
        s.todo[count[TODO]] = q
        count[TODO] += 1


@step
def end(w, c, s, rule, q):
    """End a query: measure its answer, and start another one."""
    measure(w, c, s, rule, q)
    close(w, c, s, q)
    for i in range(s.count[ACTIVE]):
        if s.active[i] == q:
            s.count[ACTIVE] -= 1
            s.active[i] = s.active[s.count[ACTIVE]]
            break
    start_waiting(w, c, s, rule)


@step
def close(w, c, s, q):
    """Note that a query has ended, and how its probabilities compare with the truth."""
    s.ended[q] = s.clock[NOW]
    if not c.measure_from <= w.arrival[q] < c.measure_until:
        return
    for i in range(c.subset):
        if s.p[i] > 0:
            at = 3 * min(int(s.p[i] * BINS), BINS - 1)
            s.bins[at] += s.p[i]
            s.bins[at + 1] += 1
            s.bins[at + 2] += i == s.count[LOWEST]


@step
def measure(w, c, s, rule, q):
    """Write how good the answer to a query is now, and return its score."""
    look(w, c, s, q)
    n, p = c.subset, s.p
    entropy, value_entropy, bottom, bound = score_minimum(s.low, s.high, n, rule, p)
    score = -entropy * (bound - bottom)
    at = q * MEASURES
    s.answer[at + SCORE] = score
    s.answer[at + VALUE_SCORE] = -value_entropy
    s.answer[at + ENTROPY] = entropy
    s.answer[at + WIDTH] = bound - bottom
    s.answer[at + REACHED] = score >= c.target
    members, widths, likeliest, lowest, least = 0, 0.0, 0, 0, math.inf
    for i in range(n):
        if p[i] > 0:
            members += 1
            widths += s.high[i] - s.low[i]
        if p[i] > p[likeliest]:
            likeliest = i
        value = value_at(w.walk, c.sensors, c.walk_step, w.member[q * n + i], s.clock[NOW])
        if value < least:
            lowest, least = i, value
    s.answer[at + CARDINALITY] = members
    s.answer[at + INTERVAL] = widths / members
    s.answer[at + IS_RIGHT] = likeliest == lowest
    s.answer[at + LOG_SCORE] = math.log2(max(p[lowest], LEAST))
    s.count[LOWEST] = lowest
    return score


@step
def look(w, c, s, q):
    """Write the intervals of the sensors of a query, as the server knows them now."""
    low, high, now = s.low, s.high, s.clock[NOW]
    for i in range(c.subset):
        sensor = w.member[q * c.subset + i]
        half = w.rate[sensor] * (now - s.updated[sensor])
        low[i], high[i] = s.value[sensor] - half, s.value[sensor] + half
        if c.clips:
            low[i], high[i] = max(low[i], 0.0), min(high[i], 1.0)


# ------------------------------------------------------------ requests


@step
def count_outstanding(c, s, q):
    """Return how many updates a query waits for."""
    total = 0
    for slot in range(q * c.concurrent, (q + 1) * c.concurrent):
        total += s.outstanding[slot] >= 0
    return total


@step
def may_request(c, s, q):
    """Return whether a query may request another update."""
    is_active = not math.isnan(s.started[q]) and math.isnan(s.ended[q])
    return is_active and s.requested[q] < c.updates and count_outstanding(c, s, q) < c.concurrent


@step
def choose_for(w, c, s, rule, q):
    """Return the sensor that the policy refreshes for a query, or NOTHING."""
    count = s.count
    if c.policy == GLB_RR:
        count[POINTER] = (count[POINTER] + 1) % c.sensors
        return count[POINTER]
    look(w, c, s, q)
    for i in range(c.subset):
        s.free[i] = 1
        for slot in range(q * c.concurrent, (q + 1) * c.concurrent):
            if s.outstanding[slot] == w.member[q * c.subset + i]:
                s.free[i] = 0
    after = 0
    while after < c.subset and w.member[q * c.subset + after] <= count[POINTER]:
        after += 1
    i = choose(c.policy, s.low, s.high, s.free, c.subset, after, rule)
    if i < 0:
        return NOTHING
    if c.policy == LOC_RR:
        count[POINTER] = w.member[q * c.subset + i]
    return w.member[q * c.subset + i]


@step
def request(c, s, q, sensor):
    """Request an update from a sensor."""
    s.requested[q] += 1
    for slot in range(q * c.concurrent, (q + 1) * c.concurrent):
        if s.outstanding[slot] < 0:
            s.outstanding[slot] = sensor
            break
    if not (c.shares and s.under_way[sensor]):
        send(c, s, sensor, q)


# ------------------------------------------------------------ the network


@step
def send(c, s, sensor, q):
    """Put a message into the queue; q is -1 for a sensor's own report."""
    count, room = s.count, s.queue.shape[0] // 2
    at = (count[QUEUE_START] + count[QUEUED]) % room
    s.queue[2 * at], s.queue[2 * at + 1] = sensor, q
    count[QUEUED] += 1
    s.under_way[sensor] += 1
    if not count[LINK_IS_BUSY]:
        start_transmission(c, s)


@step
def start_transmission(c, s):
    """Transmit the first message of the queue."""
    count, clock = s.count, s.clock
    q = s.queue[2 * count[QUEUE_START] + 1]
    messages = 1 if q < 0 else c.messages
    count[LINK_IS_BUSY] = 1
    begin, done = clock[NOW], clock[NOW] + messages / c.bandwidth
    clock[LINK_DONE] = done
    clock[BUSY] += max(min(done, c.measure_until) - max(begin, c.measure_from), 0.0)


@step
def transmit(c, s):
    """Finish a transmission: the update is on its way, and the next message follows."""
    count, clock = s.count, s.clock
    room = s.queue.shape[0] // 2
    sensor, q = s.queue[2 * count[QUEUE_START]], s.queue[2 * count[QUEUE_START] + 1]
    count[QUEUE_START] = (count[QUEUE_START] + 1) % room
    count[QUEUED] -= 1
    at = (count[FLIGHT_START] + count[FLYING]) % room
    s.flight[2 * at], s.flight[2 * at + 1] = sensor, q
    s.flight_time[2 * at] = clock[NOW] - 1 / c.bandwidth
    s.flight_time[2 * at + 1] = clock[NOW] + c.latency
    count[FLYING] += 1
    count[LINK_IS_BUSY] = 0
    if count[QUEUED]:
        start_transmission(c, s)


@step
def arrive(w, c, s, rule):
    """Take an update, and tell the queries that wait for it."""
    count, at = s.count, s.count[FLIGHT_START]
    sensor, owner = s.flight[2 * at], s.flight[2 * at + 1]
    measured = s.flight_time[2 * at]
    count[FLIGHT_START] = (at + 1) % (s.flight.shape[0] // 2)
    count[FLYING] -= 1
    s.under_way[sensor] -= 1
    if measured > s.updated[sensor]:
        s.value[sensor] = value_at(w.walk, c.sensors, c.walk_step, sensor, measured)
        s.updated[sensor] = measured
    if 4 * count[LOGGED] < s.log.shape[0]:
        row = 4 * count[LOGGED]
        s.log[row], s.log[row + 1] = sensor, owner
        s.log[row + 2], s.log[row + 3] = measured, s.clock[NOW]
    count[LOGGED] += 1
    for i in range(count[ACTIVE] - 1, -1, -1):  # backwards: one that ends is replaced by the last
        q = s.active[i]
        if c.shares or q == owner:
            for slot in range(q * c.concurrent, (q + 1) * c.concurrent):
                if s.outstanding[slot] == sensor:
                    s.outstanding[slot] = -1
                    s.received[q] += 1
                    s.todo[count[TODO]] = q
                    count[TODO] += 1
        is_over = c.ends_early and s.requested[q] >= c.updates and not count_outstanding(c, s, q)
        if not is_over and c.target <= 0 and has_member(w, c, q, sensor):
            is_over = measure(w, c, s, rule, q) >= c.target
        if is_over:
            end(w, c, s, rule, q)


@step
def has_member(w, c, q, sensor):
    """Return whether a query is about a sensor."""
    begin, end = q * c.subset, (q + 1) * c.subset
    while begin < end:
        middle = (begin + end) >> 1
        if w.member[middle] < sensor:
            begin = middle + 1
        else:
            end = middle
    return begin < (q + 1) * c.subset and w.member[begin] == sensor


@step
def report(w, c, s):
    """Let sensors report on their own, at a tick."""
    count, now = s.count, s.clock[NOW]
    count[TICK] += 1
    if c.report_after == math.inf and c.report_width == math.inf and not c.edge:
        return
    for sensor in range(c.sensors):
        if s.under_way[sensor]:
            continue
        elapsed = now - s.updated[sensor]
        half = w.rate[sensor] * elapsed
        is_due = elapsed >= c.report_after or 2 * half >= c.report_width
        if not is_due and c.edge and elapsed >= c.walk_step:
            moved = abs(w.walk[count[TICK] * c.sensors + sensor] - s.value[sensor])
            is_due = moved > (1 - c.edge) * half
        if is_due:
            send(c, s, sensor, -1)
