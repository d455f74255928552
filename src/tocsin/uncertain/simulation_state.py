"""The arrays and numbers of a simulation: what the event loop reads, and what it changes."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.jit import Float64Out, Int64Out

# What a kernel's `counter` holds.
(
    NEXT_QUERY, FIRST_WAITING, FIRST_OPEN, TICK, ACTIVE, TODO, QUEUE_START, QUEUED, FLIGHT_START,
    FLYING, LINK_IS_BUSY, POINTER, CHOSEN, LOGGED, LOWEST, IDLE_POINTER,
) = range(16)  # fmt: skip
COUNTS = 16
REQUEST, CHECK, END = range(3)  # of `todo`: choose an update; has it reached the target; end it
OWN_REPORT, IDLE_REFRESH = -1, -2  # of a message, in place of its query
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
    refreshes: bool  # whether idle bandwidth is used to refresh all sensors in turn
    clips: bool  # whether the server knows that values are within [0, 1]
    measure_from: float  # seconds; earlier arrivals are not measured
    measure_until: float
    policy: int


class State(NamedTuple):
    """What changes during a simulation of n sensors and m queries."""

    clock: Float64Out  # [CLOCKS]
    counter: Int64Out  # [COUNTS]
    value: Float64Out  # [n] of the last update that arrived
    updated: Float64Out  # [n] when it was measured
    under_way: Int64Out  # [n] messages from this sensor that have not arrived
    started: Float64Out  # [m] NaN before
    ended: Float64Out  # [m] NaN before, infinite if it was rejected
    requested: Int64Out  # [m]
    received: Int64Out  # [m]
    outstanding: Int64Out  # [m * concurrent] sensors, or -1
    active: Int64Out  # [m] the queries that are active, in any order
    todo: Int64Out  # [8 * m + 8] what follows from an event: query and action; a stack
    queue: Int64Out  # [2 * room] messages to transmit: sensor and query; a ring
    flight: Int64Out  # [2 * room] messages that have been transmitted; a ring
    flight_time: Float64Out  # [2 * room] when the value was measured, and when it arrives
    log: Float64Out  # [4 * messages, or 0] sensor, query, measured, arrived
    answer: Float64Out  # [m * MEASURES]
    bins: Float64Out  # [3 * BINS] sum of probabilities, number, number that were the minimum
    low: Float64Out  # [subset] memory: intervals of the sensors of a query
    high: Float64Out  # [subset]
    status: Int64Out  # [subset] memory: whether updates are under way
    p: Float64Out  # [subset] memory: probabilities
