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

from tocsin.jit import bare_step, kernel, step
from tocsin.uncertain.choosing import (
    CUSTOM,
    FREE,
    GLB_RR,
    LOC_RR,
    PENDING,
    SHARED,
    choose,
)
from tocsin.uncertain.panels import Rule
from tocsin.uncertain.scoring import score_minimum
from tocsin.uncertain.simulation_state import (
    ACTIVE,
    BINS,
    BUSY,
    CARDINALITY,
    CHECK,
    CHOSEN,
    DONE,
    END,
    ENTROPY,
    FIRST_OPEN,
    FIRST_WAITING,
    FLIGHT_START,
    FLYING,
    IDLE_POINTER,
    IDLE_REFRESH,
    INTERVAL,
    IS_RIGHT,
    LEAST,
    LINK_DONE,
    LINK_IS_BUSY,
    LOG_SCORE,
    LOGGED,
    LOWEST,
    MEASURES,
    NEXT_QUERY,
    NOTHING,
    NOW,
    OWN_REPORT,
    POINTER,
    QUEUE_START,
    QUEUED,
    REACHED,
    REQUEST,
    SCORE,
    TICK,
    TODO,
    UNDECIDED,
    VALUE_SCORE,
    WIDTH,
    Settings,
    State,
)
from tocsin.uncertain.worlds import World, value_at


@kernel
def run(w: World, c: Settings, s: State, rule: Rule) -> int:
    """Run until all queries have ended, or until a policy has to choose for the query returned."""
    count = s.counter
    while True:
        # What follows from the last event. Answers are measured in one place, and policies choose
        # in one: their code is long, and would be compiled for each place.
        while count[TODO]:
            q, action = s.todo[2 * count[TODO] - 2], s.todo[2 * count[TODO] - 1]
            is_open = math.isnan(s.ended[q])
            if action != REQUEST:
                count[TODO] -= 1
                if is_open and (measure(w, c, s, rule, q) >= c.target or action == END):
                    close(w, c, s, q)
                    start_waiting(w, c, s)
            elif not is_open or not may_request(c, s, q):
                count[TODO] -= 1
            elif c.policy == CUSTOM and count[CHOSEN] == UNDECIDED:
                return q
            else:
                if c.policy == CUSTOM:
                    sensor = count[CHOSEN]
                    count[CHOSEN] = UNDECIDED
                else:
                    sensor = choose_for(w, c, s, rule, q)
                if sensor >= 0:
                    request(c, s, q, sensor)
                else:
                    count[TODO] -= 1
                    if not count_outstanding(c, s, q):
                        s.requested[q] = c.updates  # it has all that it can get
                        if c.ends_early:
                            plan(s, q, END)
        now = next_time(w, c, s)
        if now == math.inf:
            return DONE
        s.clock[NOW] = now
        if count[LINK_IS_BUSY] and s.clock[LINK_DONE] <= now:
            transmit(c, s)
        elif count[FLYING] and s.flight_time[2 * count[FLIGHT_START] + 1] <= now:
            arrive(w, c, s)
        elif count[NEXT_QUERY] < len(w.arrival) and w.arrival[count[NEXT_QUERY]] <= now:
            admit(w, c, s)
        elif deadline(w, c, s) <= now:
            plan(s, count[FIRST_OPEN], END)
        else:
            report(w, c, s)


@bare_step
def plan(s, q, action):
    """Put something on the list of what to do now; the last comes first."""
    at = s.counter[TODO]
    s.todo[2 * at], s.todo[2 * at + 1] = q, action
    s.counter[TODO] += 1


@bare_step
def next_time(w, c, s):
    """Return the time of the next event; infinite, if all queries to measure have ended."""
    count = s.counter
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


@bare_step
def deadline(w, c, s):
    """Return when the first open query has to end: as queries start in order, none is earlier."""
    q = s.counter[FIRST_OPEN]
    if q >= s.counter[NEXT_QUERY]:
        return math.inf
    if c.from_arrival:
        return w.arrival[q] + c.active_time
    return math.inf if math.isnan(s.started[q]) else s.started[q] + c.active_time


# ------------------------------------------------------------ queries


@bare_step
def admit(w, c, s):
    """Let the next query in."""
    count = s.counter
    if not c.waits and count[ACTIVE] >= c.queries:
        s.ended[count[NEXT_QUERY]] = math.inf
    count[NEXT_QUERY] += 1
    start_waiting(w, c, s)


@bare_step
def start_waiting(w, c, s):
    """Start queries that wait, in the order of their arrival, as long as there is room."""
    count = s.counter
    while count[ACTIVE] < c.queries and count[FIRST_WAITING] < count[NEXT_QUERY]:
        q = count[FIRST_WAITING]
        count[FIRST_WAITING] += 1
        if not math.isnan(s.ended[q]):  # rejected, or its time was over before it could start
            continue
        s.started[q] = s.clock[NOW]
        s.active[count[ACTIVE]] = q
        count[ACTIVE] += 1
        plan(s, q, REQUEST)
        if c.ends_early and not c.updates:
            plan(s, q, END)
        elif c.target <= 0:
            plan(s, q, CHECK)


@bare_step
def close(w, c, s, q):
    """End a query that was measured, and note how its probabilities compare with the truth."""
    s.ended[q] = s.clock[NOW]
    for i in range(s.counter[ACTIVE]):
        if s.active[i] == q:
            s.counter[ACTIVE] -= 1
            s.active[i] = s.active[s.counter[ACTIVE]]
            break
    if not c.measure_from <= w.arrival[q] < c.measure_until:
        return
    for i in range(c.subset):
        if s.p[i] > 0:
            at = 3 * min(int(s.p[i] * BINS), BINS - 1)
            s.bins[at] += s.p[i]
            s.bins[at + 1] += 1
            s.bins[at + 2] += i == s.counter[LOWEST]


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
    s.counter[LOWEST] = lowest
    return score


@bare_step
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


@bare_step
def count_outstanding(c, s, q):
    """Return how many updates a query waits for."""
    total = 0
    for slot in range(q * c.concurrent, (q + 1) * c.concurrent):
        total += s.outstanding[slot] >= 0
    return total


@bare_step
def may_request(c, s, q):
    """Return whether a query may request another update."""
    is_active = not math.isnan(s.started[q]) and math.isnan(s.ended[q])
    return is_active and s.requested[q] < c.updates and count_outstanding(c, s, q) < c.concurrent


@step
def choose_for(w, c, s, rule, q):
    """Return the sensor that the policy refreshes for a query, or NOTHING."""
    count = s.counter
    if c.policy == GLB_RR:
        count[POINTER] = (count[POINTER] + 1) % c.sensors
        return count[POINTER]
    look(w, c, s, q)
    for i in range(c.subset):
        sensor = w.member[q * c.subset + i]
        s.status[i] = SHARED if s.under_way[sensor] else FREE
        for slot in range(q * c.concurrent, (q + 1) * c.concurrent):
            if s.outstanding[slot] == sensor:
                s.status[i] = PENDING
    after = 0
    while after < c.subset and w.member[q * c.subset + after] <= count[POINTER]:
        after += 1
    i = choose(c.policy, s.low, s.high, s.status, c.subset, after, rule)
    if i < 0:
        return NOTHING
    if c.policy == LOC_RR:
        count[POINTER] = w.member[q * c.subset + i]
    return w.member[q * c.subset + i]


@bare_step
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


@bare_step
def send(c, s, sensor, q):
    """Put a message into the queue."""
    count, room = s.counter, s.queue.shape[0] // 2
    at = (count[QUEUE_START] + count[QUEUED]) % room
    s.queue[2 * at], s.queue[2 * at + 1] = sensor, q
    count[QUEUED] += 1
    s.under_way[sensor] += 1
    if not count[LINK_IS_BUSY]:
        start_transmission(c, s)


@bare_step
def start_transmission(c, s):
    """Transmit the first message of the queue."""
    count, clock = s.counter, s.clock
    q = s.queue[2 * count[QUEUE_START] + 1]
    messages = 1 if q == OWN_REPORT else c.messages
    count[LINK_IS_BUSY] = 1
    begin, done = clock[NOW], clock[NOW] + messages / c.bandwidth
    clock[LINK_DONE] = done
    clock[BUSY] += max(min(done, c.measure_until) - max(begin, c.measure_from), 0.0)


@bare_step
def refresh_next(c, s):
    """Request an update from the next of all sensors that has none under way."""
    for _ in range(c.sensors):
        sensor = s.counter[IDLE_POINTER]
        s.counter[IDLE_POINTER] = (sensor + 1) % c.sensors
        if not s.under_way[sensor]:
            send(c, s, sensor, IDLE_REFRESH)
            return


@bare_step
def transmit(c, s):
    """Finish a transmission: the update is on its way, and the next message follows."""
    count, clock = s.counter, s.clock
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
    elif c.refreshes:
        refresh_next(c, s)


@bare_step
def arrive(w, c, s):
    """Take an update, and tell the queries that wait for it."""
    count, at = s.counter, s.counter[FLIGHT_START]
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
    for i in range(count[ACTIVE]):
        q = s.active[i]
        if c.shares or q == owner:
            for slot in range(q * c.concurrent, (q + 1) * c.concurrent):
                if s.outstanding[slot] == sensor:
                    s.outstanding[slot] = -1
                    s.received[q] += 1
                    plan(s, q, REQUEST)
        if c.ends_early and s.requested[q] >= c.updates and not count_outstanding(c, s, q):
            plan(s, q, END)
        elif c.target <= 0 and has_member(w, c, q, sensor):
            plan(s, q, CHECK)


@bare_step
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


@bare_step
def report(w, c, s):
    """Let sensors report on their own, at a tick."""
    count, now = s.counter, s.clock[NOW]
    count[TICK] += 1
    if c.refreshes and not count[LINK_IS_BUSY]:
        refresh_next(c, s)
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
            send(c, s, sensor, OWN_REPORT)
