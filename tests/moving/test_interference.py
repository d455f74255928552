"""Threads that change rules, and signals in the middle of an update."""

import signal
import threading
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.moving.test_large import pairs_of, squares


def test_rules_change_while_positions_come():
    rng = np.random.default_rng(3)
    rules = tocsin.Rules({"x": "number", "y": "number"})
    table = squares(rng, 400, 0.1)
    rules.add_many(table.slice(0, 200))
    monitor = tocsin.Monitor(rules)
    rows = table.to_pylist()

    def condition(row):
        return " AND ".join(
            f"{a} BETWEEN {row[a + '_low']!r} AND {row[a + '_high']!r}" for a in "xy"
        )

    def change():
        for row in rows[200:]:
            rules.add(row["id"], condition(row))
            rules.remove(row["id"] - 200)
        for row in rows[200:300]:
            rules.replace(row["id"], condition(rows[row["id"] - 200]))

    thread = threading.Thread(target=change)
    thread.start()
    n, inside = 500, set()
    x, y = rng.random(n), rng.random(n)
    step = 0
    while thread.is_alive() or step < 5:
        x, y = x + rng.normal(0, 0.01, n), y + rng.normal(0, 0.01, n)
        events = monitor.update(
            pa.table({"object": np.arange(n), "t": np.full(n, step), "x": x, "y": y})
        )
        for event in events.to_pylist():
            pair = event["object"], event["rule"]
            assert (pair in inside) == (event["event"] == "leave")
            (inside.add if event["event"] == "enter" else inside.remove)(pair)
        step += 1
    thread.join()
    monitor.advance(step)
    places = np.concatenate([np.arange(100), np.arange(300, 400)])
    expected = {(who, int(row) if row >= 300 else int(row) + 200)
                for who, at in pairs_of(table.take(pa.array(places)), x, y)
                for row in [places[at]]}  # fmt: skip
    assert {(who, rule) for who in range(n) for rule in monitor.where(who)} == expected


class InterruptedUpdateError(Exception):
    pass


def test_an_update_that_is_interrupted_happens_or_not_or_says_so():
    def interrupt(number, frame):
        raise InterruptedUpdateError

    rng = np.random.default_rng(4)
    table = squares(rng, 50, 0.2)
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add_many(table)
    before = signal.signal(signal.SIGALRM, interrupt)
    outcomes = Counter()
    try:
        for attempt in range(300):
            monitor = tocsin.Monitor(rules)
            x, y = rng.random((2, 200))
            batch = pa.table({"object": np.arange(200), "t": np.zeros(200), "x": x, "y": y})
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 * (attempt % 75 + 1))
                events = monitor.update(batch)
                signal.setitimer(signal.ITIMER_REAL, 0)
                outcome = "not interrupted"
            except InterruptedUpdateError:
                if monitor._tracker.is_broken:
                    outcome = "broken"
                    with pytest.raises(tocsin.MonitorError, match="interrupted"):
                        monitor.update(batch)
                elif monitor.counters["rows"]:
                    outcome = "happened"
                else:
                    outcome = "did not happen"
                    events = monitor.update(batch)
            outcomes[outcome] += 1
            expected = pairs_of(table, x, y)
            if outcome in ("not interrupted", "did not happen"):
                assert len(events) == len(expected)
            if outcome != "broken":
                assert sum(len(monitor.where(who)) for who in range(200)) == len(expected)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert outcomes["not interrupted"] < 300
