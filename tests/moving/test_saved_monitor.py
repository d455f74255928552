"""A monitor that was saved and opened goes on as any other, and damaged bytes are refused."""

import copy
import datetime
import os
import pickle
import time
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.moving.examples import SqlRules, apply_edits
from tests.moving.naive_monitor import NaiveMonitor, NaiveRules
from tests.moving.test_monitor import TableMonitor
from tests.moving.trees import sql
from tests.moving.walks import PROFILES, walk
from tocsin.engine.storage.folder import Folder
from tocsin.engine.storage.memory import Memory
from tocsin.moving.options import to_ticks

WALKS = 100 if os.environ.get("TOCSIN_PROFILE") == "long" else 3
SCHEMA = {"x": "number", "y": "number"}
SECONDS = pa.timestamp("s")


def anew(naive: NaiveRules) -> tocsin.Rules:
    """Return the same rules, added to new ones, whose positions and categories are others."""
    rules = tocsin.Rules(naive.schema)
    for id in naive.by_id:  # so that there is a position that is not used
        rules.add(-1 if isinstance(id, int) else "first", "vehicle = 'new'")
        rules.remove(next(iter(rules)))
        break
    for id, rule in naive.by_id.items():
        rules.add(id, sql(rule.tree), payload=rule.payload)
    return rules


def without_places(events):
    """Return events without the places of removed rules among others.

    Other rules than before have places of their own, which tell nothing of removed ones.
    """
    removed = [event for event in events if event[-1] == "rule removed"]
    return removed, [event for event in events if event[-1] != "rule removed"]


@pytest.mark.parametrize("profile", [p for p in PROFILES if p != "merged predicates"])
def test_walks_that_are_saved_and_opened(profile, tmp_path):
    for seed in range(WALKS):
        rng = Random(f"{profile} {seed}")
        scenario = walk(seed, profile)
        naive, rules = NaiveRules(scenario.schema), SqlRules(tocsin.Rules(scenario.schema))
        apply_edits(naive, scenario.edits)
        apply_edits(rules, scenario.edits)
        oracle = NaiveMonitor(naive, **scenario.options)
        monitor = TableMonitor(tocsin.Monitor(rules.rules, **scenario.options), scenario.table)
        is_new = False
        folder, memory = tmp_path / f"{seed}", Memory()
        for number, (call, argument) in enumerate(scenario.steps):
            where = f"seed {seed}, step {number}: {call}"
            is_saved = rng.random() < 0.3
            place = rng.choice((folder, memory))
            if is_saved:
                monitor.monitor.save(place)
            if call == "rules":
                apply_edits(naive, argument)
                apply_edits(rules, argument)
            if is_saved:
                if rng.random() < 0.4:
                    rules.rules, is_new = anew(naive), True
                monitor.monitor = tocsin.Monitor.open(place, rules.rules)
                monitor.monitor.inside("r")
            elif rng.random() < 0.1:
                monitor.monitor = pickle.loads(pickle.dumps(monitor.monitor))
                rules.rules = monitor.monitor._source.rules
            if call == "rules":
                continue
            expected, events = getattr(oracle, call)(argument), getattr(monitor, call)(argument)
            if is_new and call != "remove":
                is_new = False
                expected, events = without_places(expected), without_places(events)
            assert events == expected, where
            assert monitor.late == oracle.late, where
            assert monitor.doubled == oracle.doubled, where
            assert {k: monitor.monitor.counters[k] for k in oracle.totals} == oracle.totals
        for rule in naive.by_id:
            assert monitor.inside(rule) == oracle.inside(rule)
        for key in {row["object"] for c, rows in scenario.steps if c == "update" for row in rows}:
            if key is not None:
                assert monitor.where(key) == oracle.where(key)


def fences(count=3):
    rules = tocsin.Rules(SCHEMA)
    for i in range(count):
        rules.add(f"fence {i}", f"x > {i}", payload={"team": f"team {i}"})
    return rules


def moving(rules, **options):
    """Return a monitor with a few objects that are inside, outside, forgotten and unconfirmed."""
    monitor = tocsin.Monitor(rules, dwell=5, min_stay=1, min_away=1, **options)
    rows = [("a", 0, 1.5), ("b", 0, 9.0), ("c", 1, -1.0), ("b", 2, 0.5), ("d", 2, 9.0)]
    monitor.update([{"object": who, "t": t, "x": x, "y": 0.0} for who, t, x in rows])
    monitor.update([{"object": "e", "t": 3, "x": None}, {"object": None, "t": 3, "x": 1.0}])
    monitor.remove("d")
    return monitor


def what_follows(monitor):
    events = [monitor.update([{"object": "a", "t": 4, "x": 0.0}]), monitor.advance(20)]
    return [each.to_pylist() for each in events], monitor.counters, monitor.where("b")


def test_all_options_are_saved():
    options = {
        "key": "who",
        "time": "at",
        "position": ["x", "y"],
        "dwell": datetime.timedelta(days=-1, seconds=90000),
        "margin": np.float64(0.1),
        "min_stay": "1.5 s",
        "min_away": np.timedelta64(3, "m"),
        "lost_after": None,
        "delay": "1 h",
        "removed": "gone",
        "keep": ("note",),
        "payload": ["team"],
        "safe_regions": "rect",
        "rect_by": "perimeter",
        "rect_reach": np.float64(10),
    }
    monitor = tocsin.Monitor(fences(), **options)
    storage = Memory()
    monitor.save(storage)
    opened = tocsin.Monitor.open(storage, fences())
    before, after = monitor._tracker.options, opened._tracker.options
    assert after.describe() == before.describe()
    assert (after.keep, after.payload) == (before.keep, before.payload)
    time_type = pa.timestamp("us")
    for name in ("dwell", "min_stay", "min_away", "delay"):
        assert to_ticks(name, getattr(after, name), time_type) == to_ticks(
            name, getattr(before, name), time_type
        )


def test_columns_that_are_kept_and_payload_go_on():
    rules = fences()
    monitor = tocsin.Monitor(rules, keep=["note"], payload=["team"], dwell=3)
    monitor.update([{"object": "a", "t": 0, "x": 1.5, "note": 7}])
    storage = Memory()
    monitor.save(storage)
    rules.replace("fence 0", "x > 0.5", payload={"team": "new team"})
    rules.remove("fence 1")
    opened = tocsin.Monitor.open(storage, rules)
    assert opened.advance(9).equals(monitor.advance(9))
    # Before an update has seen the changed rules, what is known of them is their ids.
    opened = tocsin.Monitor.open(storage, rules)
    events = opened.remove("a").select(["rule", "reason", "note", "team"]).to_pylist()
    assert events == [
        {"rule": "fence 0", "reason": "object removed", "note": 7, "team": "new team"},
        {"rule": "fence 1", "reason": "object removed", "note": 7, "team": None},
    ]
    assert not len(opened.advance(9))


def test_reports_of_many_schemas_and_types():
    rules = tocsin.Rules({"x": "number", "vehicle": "category", "at": "time"})
    rules.add("r", "x > 1 AND vehicle = 'truck'")
    monitor, opened = tocsin.Monitor(rules), None
    vehicle = pa.array(["truck", "car"]).dictionary_encode()
    batches = [
        {"x": pa.array([2.0, 0.5]), "vehicle": vehicle},
        {"x": pa.array([2, 5], pa.int16())},
        {"x": pa.array([None, 9.5], pa.float32()), "vehicle": pa.array(["truck"] * 2)},
        {"vehicle": pa.array(["truck", None], pa.large_string())},
        {"at": pa.array([1, None], pa.timestamp("ms", "UTC")), "x": pa.array([3.0, 4.0])},
        {},
        {"x": pa.array([{"low": 1.5, "high": 3.0}, None])},
    ]
    keys = [f"object {i}" for i in range(2 * len(batches))]
    storage = Memory()
    for i, batch in enumerate(batches):
        rows = pa.table({"object": keys[2 * i : 2 * i + 2], "t": [i, i]} | batch)
        expected = monitor.update(rows)
        assert opened is None or opened.update(rows).equals(expected)
        monitor.save(storage)
        opened = tocsin.Monitor.open(storage, rules)
    rules.add("null", "vehicle IS NULL OR x > 2")
    rules.add("time", "at IS NOT NULL")
    assert opened.advance(99).equals(monitor.advance(99))
    assert [opened.where(key) for key in keys] == [monitor.where(key) for key in keys]


@pytest.mark.parametrize(
    ("keys", "times"),
    [
        (pa.array([2**63 - 1, -(2**63), 0, 1]), pa.array([1, 2, 3, 4], pa.int32())),
        (pa.array([5, 6, 7, 8], pa.uint8()), pa.array([-1.5, 1e300, 0.0, 5e-324])),
        (pa.array(["", "\0", "é" * 30, "a"]), pa.array([1, 2, 3, 4], pa.timestamp("ns", "UTC"))),
        (pa.array(["a", "b", "c", "d"], pa.large_string()), pa.array([0, 1, 2, 3], SECONDS)),
    ],
)  # fmt: skip
def test_keys_and_times_of_all_types(keys, times):
    rules = fences()
    monitor = tocsin.Monitor(rules)
    rows = pa.table({"object": keys, "t": times, "x": [0.5, 1.5, 2.5, -1.0]})
    monitor.update(rows)
    opened = pickle.loads(pickle.dumps(monitor))
    later = rows.set_column(2, "x", pa.array([5.0, 5.0, -5.0, 5.0])).set_column(
        1, "t", pa.array([times[3].as_py()] * 4, times.type)
    )
    events = monitor.update(later)
    assert len(events)
    assert opened.update(later).equals(events)
    assert opened.inside("fence 0") == monitor.inside("fence 0")


def test_keys_that_do_not_fit_the_type_of_earlier_ones_are_refused():
    monitor = tocsin.Monitor(fences())
    monitor.update(pa.table({"object": pa.array([1], pa.int8()), "t": [1], "x": [0.5]}))
    for keys in (pa.array([300]), pa.array([2**62])):
        with pytest.raises(tocsin.MonitorError, match=r"keys in 'object'.* int8"):
            copy.deepcopy(monitor).update(pa.table({"object": keys, "t": [2], "x": [0.5]}))
    events = monitor.update(pa.table({"object": [2], "t": [2], "x": [0.5]}))
    assert events.column("object").to_pylist() == [2]


def test_a_monitor_without_objects_is_saved_too():
    rules = fences()
    monitor = tocsin.Monitor(rules, dwell=1)
    assert copy.deepcopy(monitor).inside("fence 0") == []
    monitor.advance(5.0)
    monitor.update([{"object": None, "t": 3.0, "x": 5.0}])
    opened = copy.deepcopy(monitor)
    assert opened.counters == monitor.counters
    assert opened.inside("fence 0") == opened.where("a") == []
    with pytest.raises(tocsin.MonitorError, match="double"):
        opened.update([{"object": "a", "t": datetime.datetime(2024, 5, 1), "x": 1.5}])
    row = {"object": "a", "t": 5.0, "x": 1.5}
    assert opened.update([row]).equals(monitor.update([row]))


def test_saving_again_replaces_what_was_saved(tmp_path):
    rules = fences()
    monitor = moving(rules)
    for i in range(3):
        rules.add(f"another {i}", "x > 7")
        monitor.advance(3)
        monitor.save(tmp_path)
    expected = what_follows(copy.deepcopy(monitor))
    assert what_follows(tocsin.Monitor.open(str(tmp_path), rules)) == expected
    assert len(list((tmp_path / "rules").iterdir())) == 3  # perhaps another save needs them
    for path in (tmp_path / "rules").iterdir():
        os.utime(path, (time.time() - 9999,) * 2)
    monitor.save(tmp_path)
    assert len(list((tmp_path / "rules").iterdir())) == 1
    assert what_follows(tocsin.Monitor.open(tmp_path, rules)) == expected


def test_ids_of_another_type_and_other_rules_are_told():
    storage, rules = Memory(), tocsin.Rules(SCHEMA)
    moving(fences()).save(storage)
    rules.add(5, "x > 1")
    with pytest.raises(tocsin.MonitorError, match=r"integers.*were texts, such as 'fence 0'"):
        tocsin.Monitor.open(storage, rules)
    rules.remove(5)
    events = tocsin.Monitor.open(storage, tocsin.Rules(SCHEMA)).advance(3)
    assert set(events.column("reason").to_pylist()) == {"rule removed"}


@pytest.mark.parametrize("path", [5, "", "hdfs://host/state", b"state"])
def test_paths_that_are_none(path):
    for call in (moving(fences()).save, lambda path: tocsin.Monitor.open(path, fences())):
        with pytest.raises(tocsin.MonitorError, match="a saved monitor"):
            call(path)


def test_what_cannot_be_written_or_read(tmp_path):
    with pytest.raises(tocsin.MonitorError, match="no monitor was saved to"):
        tocsin.Monitor.open(tmp_path, fences())
    (tmp_path / "file").write_text("")
    with pytest.raises(tocsin.MonitorError, match="cannot save the monitor to"):
        moving(fences()).save(tmp_path / "file")
    with pytest.raises(tocsin.MonitorError):
        tocsin.Monitor.open(tmp_path / "file", fences())


# ------------------------------------------------------------ damage


def small_state():
    rules, storage = fences(), Memory()
    moving(rules).save(storage)
    return rules, storage


def test_every_flipped_or_missing_byte_is_refused():
    rules, storage = small_state()
    names = [entry.name for entry in storage.list("")]
    assert [name.split("/")[0] for name in names] == ["rules", "state"]
    rng = Random(5)
    for name in names:
        data = storage.read(name)
        for i in range(len(data)):
            flipped = bytearray(data)
            flipped[i] ^= rng.choice((1, 2, 4, 8, 16, 32, 64, 128, 255))
            for damaged in (bytes(flipped), data[:i], data[:i] + data[i + 1 :]):
                storage.put({name: [damaged]})
                with pytest.raises(tocsin.MonitorError, match=r"damaged|upgrade"):
                    tocsin.Monitor.open(storage, rules)
        storage.put({name: [data + b"\0"]})
        with pytest.raises(tocsin.MonitorError, match="damaged"):
            tocsin.Monitor.open(storage, rules)
        storage.delete([name])
        with pytest.raises(tocsin.MonitorError, match=r"is missing|no monitor was saved"):
            tocsin.Monitor.open(storage, rules)
        storage.put({name: [data]})
    tocsin.Monitor.open(storage, rules)


def test_a_newer_format_is_refused():
    rules, storage = small_state()
    data = storage.read("state")
    storage.put({"state": [data.replace(b"tocsin-state 1 ", b"tocsin-state 2 ", 1)]})
    with pytest.raises(tocsin.MonitorError, match=r"of format 2.*upgrade"):
        tocsin.Monitor.open(storage, rules)


class CrashError(BaseException):
    pass


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_a_crash_leaves_the_state_before_or_the_one_after(kind, tmp_path, monkeypatch):
    rules = fences()
    before = moving(rules)
    after = copy.deepcopy(before)
    expected = [what_follows(copy.deepcopy(before))]
    what_follows(after)
    after._source.rules.add("more", "x > 0.1")
    after.advance(21)
    expected.append(what_follows(copy.deepcopy(after)))
    outcomes = []
    for stop in range(1, 40):
        storage = Folder(tmp_path / f"{stop}") if kind == "folder" else Memory()
        before.save(storage)
        steps = iter(range(1, 100))

        def crash(original, steps=steps, stop=stop):
            def call(*arguments, **options):
                if next(steps) == stop:
                    raise CrashError
                return original(*arguments, **options)

            return call

        with monkeypatch.context() as patch:
            for module, names in (
                (type(storage), ("list", "stat", "put", "put_if_absent", "delete")),
                (os, ("replace", "fsync")),
            ):
                for name in names:
                    patch.setattr(module, name, crash(getattr(module, name)))
            try:
                after.save(storage)
                is_done = True
            except CrashError:
                is_done = False
        found = tocsin.Monitor.open(storage, after._source.rules if is_done else rules)
        follows = what_follows(found) if not is_done else None
        if is_done:
            assert what_follows(tocsin.Monitor.open(storage, after._source.rules)) == expected[1]
            break
        if follows == expected[0]:
            outcomes.append("before")
        else:
            again = tocsin.Monitor.open(storage, after._source.rules)
            assert what_follows(again) == expected[1]
            outcomes.append("after")
    assert is_done
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {"before", "after"}
