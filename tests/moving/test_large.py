"""Many objects and fences: who is inside what is the difference of two matches."""

import numpy as np
import pyarrow as pa
import pytest

import tocsin


def squares(rng, count, side):
    x, y = rng.random(count), rng.random(count)
    return pa.table(
        {"id": np.arange(count), "x_low": x, "x_high": x + side, "y_low": y, "y_high": y + side}
    )


def pairs_of(rules, x, y):
    """Return the fences of each object, by plain NumPy."""
    table = {name: np.asarray(rules.column(name)) for name in rules.column_names}
    inside = (table["x_low"][:, None] <= x) & (x <= table["x_high"][:, None])
    inside &= (table["y_low"][:, None] <= y) & (y <= table["y_high"][:, None])
    rule, who = np.nonzero(inside)
    return set(zip(who.tolist(), rule.tolist(), strict=True))


@pytest.mark.parametrize(("count", "side"), [(300, 0.05), (150, 0.7)])
def test_steps_of_many_objects(count, side):
    rng = np.random.default_rng(count)
    table = squares(rng, count, side)
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add_many(table)
    monitor = tocsin.Monitor(rules)
    n = 3000
    x, y = rng.random(n), rng.random(n)
    names = np.array([f"object {i}" for i in range(n)])
    before: set = set()
    for step in range(60):
        who = np.arange(n) if step == 0 else rng.choice(n, n // 3, replace=False)
        x[who] += rng.normal(0, 0.02, len(who))
        y[who] += rng.normal(0, 0.02, len(who))
        batch = {"object": names[who], "t": np.full(len(who), step), "x": x[who], "y": y[who]}
        events = monitor.update(pa.table(batch))
        after = pairs_of(table, x, y)
        kinds = events.column("event").to_pylist()
        who_, which = events.column("object").to_pylist(), events.column("rule").to_pylist()
        reported = {"enter": set(), "leave": set()}
        for kind, key, rule in zip(kinds, who_, which, strict=True):
            reported[kind].add((int(key.split()[1]), rule))
        assert len(events) == len(after ^ before)
        assert reported == {"enter": after - before, "leave": before - after}
        before = after
    for rule in range(0, count, 37):
        assert set(monitor.inside(rule)) == {f"object {who}" for who, r in before if r == rule}
    for who in range(0, n, 501):
        assert monitor.where(f"object {who}") == sorted(r for w, r in before if w == who)


def test_many_rules_that_come_at_once_are_judged_by_all_reports():
    rng = np.random.default_rng(8)
    n = 2000
    x, y = rng.random(n), rng.random(n)
    rules = tocsin.Rules({"x": "number", "y": "number"})
    monitor = tocsin.Monitor(rules)
    assert not len(monitor.update(pa.table({"object": np.arange(n), "t": x, "x": x, "y": y})))
    expected: set = set()
    for count in (3, 500):
        table = squares(rng, count, 0.1)
        ids = np.arange(count) + 1000 * count
        rules.add_many(table.set_column(0, "id", pa.array(ids)))
        events = monitor.advance(2.0)
        found = {(who, rule + 1000 * count) for who, rule in pairs_of(table, x, y)}
        assert set(events.column("reason").to_pylist()) <= {"rule added"}
        got = zip(
            events.column("object").to_pylist(), events.column("rule").to_pylist(), strict=True
        )
        assert set(got) == found
        assert len(events) == len(found)
        expected |= found
    assert sum(len(monitor.where(who)) for who in range(n)) == len(expected)


def test_one_object_with_many_rows_and_many_fences():
    rules = tocsin.Rules({"x": "number"})
    rules.add_many([{"id": i, "x_low": float(i), "x_high": None} for i in range(200)])
    monitor = tocsin.Monitor(rules)
    rng = np.random.default_rng(1)
    times = rng.permutation(5000)
    x = rng.integers(-1, 201, 5000).astype(float)
    events = monitor.update(pa.table({"object": np.zeros(5000, int), "t": times, "x": x}))
    by_time = x[np.argsort(times)]
    steps = np.diff(np.clip(np.floor(by_time) + 1, 0, 200), prepend=0)
    assert len(events) == int(np.abs(steps).sum())
    assert len(monitor.where(0)) == int(np.clip(np.floor(by_time[-1]) + 1, 0, 200))
