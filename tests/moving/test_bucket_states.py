"""States of buckets: whatever is repeated, dropped or lost, events are those of the oracle."""

import copy
import hashlib
import os
import threading
import zlib
from random import Random

import pyarrow as pa
import pytest

import tocsin
from tests.moving.examples import SqlRules, apply_edits
from tests.moving.naive_monitor import NaiveMonitor, NaiveRules
from tests.moving.test_monitor import as_tuples
from tests.moving.test_saved_monitor import SCHEMA, CrashError, fences
from tests.moving.walks import walk
from tocsin.engine.storage.folder import Folder
from tocsin.engine.storage.memory import Memory
from tocsin.moving import bucket_states
from tocsin.moving.bucket_states import (
    BucketStates,
    check_token,
    identity_of,
    put_token,
    queries,
)
from tocsin.moving.options import MonitorOptions

WALKS = 60 if os.environ.get("TOCSIN_PROFILE") == "long" else 3
OPTIONS = MonitorOptions()
KEPT = 4  # batches that may run again, in walks


@pytest.fixture(params=["folder", "memory"])
def storage(request, tmp_path):
    return Memory() if request.param == "memory" else Folder(tmp_path / "states")


def forget_memory():
    """Be another process."""
    bucket_states._cache.clear()
    bucket_states._lists.clear()


@pytest.fixture(autouse=True)
def _no_memory():
    forget_memory()


class Query:
    """Runs micro-batches of a walk on buckets."""

    def __init__(self, storage, scenario, query="q", start_from=None, buckets=3):
        self.storage, self.scenario, self.query, self.buckets = storage, scenario, query, buckets
        self.options = MonitorOptions(**scenario.options)
        self.start_from = start_from

    def bucket_of(self, row):
        return zlib.crc32(repr(row["object"]).encode()) % self.buckets

    def calls_of(self, bucket, calls):
        """Return the calls of a bucket; none if it has no rows."""
        own = [
            (call, [row for row in argument if self.bucket_of(row) == bucket])
            if call == "update"
            else (call, argument)
            for call, argument in calls
        ]
        return own if any(call == "update" and rows for call, rows in own) else []

    def states(self):
        states = BucketStates(self.storage, self.query, self.start_from)
        states.settle({"buckets": str(self.buckets)} | self.options.describe())
        return states

    def run(self, batch, calls, version):
        """Run a micro-batch; return the events of each bucket that has rows."""
        own = {bucket: self.calls_of(bucket, calls) for bucket in range(self.buckets)}
        return {b: self.run_bucket(b, batch, own[b], version) for b in own if own[b]}

    def run_bucket(self, bucket, batch, calls, version):
        states = self.states()
        tracker = states.read(bucket, batch, self.options)
        previous = states.previous_identity(tracker)
        events = []
        for call, argument in calls:
            if call == "update":
                argument = self.scenario.table(argument)
            events += as_tuples(getattr(tracker, call)(argument, version, None))
        digest = hashlib.sha256(repr(calls).encode()).hexdigest()
        identity = identity_of(digest, previous, f"{id(version)}", self.options)
        states.write(bucket, batch, tracker, identity)
        return events


def micro_batches(scenario, rng):
    """Yield the edits before a micro-batch, and its calls; removals are not for streams."""
    edits, calls = [], []
    for call, argument in scenario.steps:
        if call == "rules":
            edits += argument
        elif call == "update" or (call == "advance" and calls):
            calls.append((call, argument))
        if calls and rng.random() < 0.7:
            yield edits, calls
            edits, calls = [], []


@pytest.mark.parametrize(
    "profile",
    ["any options", "rule changes", "hysteresis", "removed", "lost_after", "options of rules"],
)
@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_walks(profile, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(bucket_states, "PINS_KEPT", KEPT)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    refused = 0
    for seed in range(WALKS):
        rng = Random(f"{profile} {kind} {seed}")
        monkeypatch.setattr(bucket_states, "_MOST_DELTAS", rng.choice((0, 1, 3, 24)))
        storage = Memory() if kind == "memory" else Folder(tmp_path / f"{seed}")
        scenario = walk(seed, profile)
        naive, rules = NaiveRules(scenario.schema), SqlRules(tocsin.Rules(scenario.schema))
        apply_edits(naive, scenario.edits)
        apply_edits(rules, scenario.edits)
        query = Query(storage, scenario)
        oracles = [NaiveMonitor(naive, **scenario.options) for _ in range(query.buckets)]
        highest, done = 0, []  # oracles before it, calls, version, events
        for edits, calls in micro_batches(scenario, rng):
            apply_edits(naive, edits)
            apply_edits(rules, edits)
            batch, version = len(done), rules.rules.snapshot()
            before = copy.deepcopy(oracles)
            expected = expect(query, oracles, calls)
            done.append((before, calls, version, expected))
            highest = max(highest, batch)
            oldest = max(0, highest - KEPT + 1)  # that may run again
            where = f"seed {seed}, batch {batch}"
            assert query.run(batch, calls, version) == expected, where
            if rng.random() < 0.4:
                forget_memory()
            if rng.random() < 0.3:  # repeated, as after a crash
                for again in range(rng.randint(oldest, batch), batch + 1):
                    assert query.run(again, *done[again][1:3]) == done[again][3], (where, again)
            if rng.random() < 0.3:  # repeated with other rows: refused until dropped
                again = rng.randint(oldest, batch)
                before, calls, then, _ = done[again]
                others = [
                    (call, argument[1:] if call == "update" else argument)
                    for call, argument in calls
                ]
                now = rules.rules.snapshot()
                pairs = [[query.calls_of(b, each) for each in (calls, others)] for b in range(3)]
                if not any(a and b and (a != b or now is not then) for a, b in pairs):
                    continue
                with pytest.raises(tocsin.MonitorError, match=rf"state drop .* q {again}$"):
                    query.run(again, others, now)
                assert BucketStates(storage, "q").drop(again) >= 1
                oracles = copy.deepcopy(before)
                for oracle in oracles:
                    oracle._rules = naive
                done[again:] = [(before, others, now, expect(query, oracles, others))]
                assert query.run(again, others, now) == done[again][3], where
                refused += 1
        assert queries(storage)[0].objects == sum(len(oracle._objects) for oracle in oracles)
        numbers = [len(BucketStates(storage, "q")._batches(b)) for b in range(3)]
        assert max(numbers) <= 2 * (bucket_states._MOST_DELTAS + 2) + KEPT
        # Another query goes on from here.
        forget_memory()
        other = Query(storage, scenario, "other", start_from="q")
        calls = scenario.steps[:1]
        version = rules.rules.snapshot()
        assert other.run(0, calls, version) == expect(query, oracles, calls)
        forget_memory()
        assert other.run(1, calls, version) == expect(query, oracles, calls)
    assert refused


def expect(query, oracles, calls):
    """Return what `Query.run` is to return."""
    own = [query.calls_of(bucket, calls) for bucket in range(query.buckets)]
    return {
        bucket: [
            event for call, argument in own[bucket] for event in getattr(oracle, call)(argument)
        ]
        for bucket, oracle in enumerate(oracles)
        if own[bucket]
    }


# ------------------------------------------------------------ a bucket by hand


def step(states, batch, rows, rules, bucket=0, identity=None):
    """Run a batch of rows (object, x) on a bucket; return its events."""
    tracker = states.read(bucket, batch, OPTIONS)
    table = pa.table(
        {
            "object": [who for who, _ in rows],
            "t": [batch] * len(rows),
            "x": pa.array([x for _, x in rows], pa.float64()),
        }
    )
    events = tracker.update(table, rules.snapshot(), None)
    if identity is None:
        identity = identity_of(repr(rows), states.previous_identity(tracker), "rules", OPTIONS)
    states.write(bucket, batch, tracker, identity)
    return [(e["object"], e["rule"], e["event"]) for e in events.to_pylist()]


def settled(storage, query="q", start_from=None, **settings):
    states = BucketStates(storage, query, start_from)
    states.settle({"buckets": "4"} | settings)
    return states


def enter(who):
    return [(who, "fence 0", "enter")]


def test_deltas_are_small_and_followed_by_a_base(storage):
    rules, states = fences(1), settled(storage)
    step(states, 0, [(f"object {i}", 0.5) for i in range(10_000)], rules)
    sizes, kinds = [], []
    for batch in range(1, 60):
        step(states, batch, [(f"object {batch}", 0.7)], rules)
        name = states._name(0, batch)
        sizes.append(storage.stat(name).size)
        kinds.append(len(states._read_header(0, batch).content["chain"]))
    assert kinds[:24] == list(range(1, 25))
    assert kinds[24] == 0
    assert max(sizes[:24]) < sizes[24] / 4
    forget_memory()
    assert len(states.read(0, 60, OPTIONS).inside("fence 0")) == 10_000


def test_a_quiet_bucket_keeps_its_state(storage):
    rules, states = fences(1), settled(storage)
    step(states, 0, [("quiet", 0.5)], rules, bucket=1)
    step(states, 1, [(f"object {i}", 0.5) for i in range(20)], rules, bucket=2)
    step(states, 2, [("object 3", -1.0)], rules, bucket=2)
    for batch in range(3, 400):
        step(states, batch, [("busy", float(batch % 2))], rules)
    for batch in (400, 401):
        step(states, batch, [("object 4", -1.0)], rules, bucket=2)
    forget_memory()
    assert states._batches(1) == [0]
    assert states._batches(2) == [1, 2, 400, 401]
    assert len(states._batches(0)) <= 100 + 2 * 26
    assert step(states, 402, [("quiet", -0.5)], rules, bucket=1) == [("quiet", "fence 0", "leave")]
    forget_memory()
    for batch in (400, 402):  # of the last 100 batches each may run again
        assert len(states.read(2, batch, OPTIONS).inside("fence 0")) == (19 if batch == 400 else 18)
    assert states._batches(0)[0] > 0
    with pytest.raises(tocsin.MonitorError, match="was deleted, as 100 newer batches are kept"):
        states.read(0, 2, OPTIONS)
    with pytest.raises(tocsin.MonitorError, match=r"no state before batch 3.* nothing is dropped"):
        states.drop(3)
    assert states.read(1, 402, OPTIONS).inside("fence 0") == ["quiet"]
    assert states.drop(402) == 1
    assert states.drop(0) > 100
    assert queries(storage) == []


def test_memory_is_believed_only_if_the_stored_state_is_the_same(storage, monkeypatch):
    rules, states = fences(1), settled(storage)
    step(states, 0, [("a", 0.5)], rules)
    reads = []
    monkeypatch.setattr(
        bucket_states,
        "read_packed",
        lambda *a, f=bucket_states.read_packed: reads.append(a) or f(*a),
    )
    tracker = states.read(0, 1, OPTIONS)
    assert not reads
    # It is the caller's now, who may change it and fail.
    tracker.update([{"object": "b", "t": 5, "x": 3.0}], rules.snapshot(), None)
    assert states.read(0, 1, OPTIONS).inside("fence 0") == ["a"]
    assert len(reads) == 1
    # Another process drops the batch and writes it again, while this one has it in memory.
    step(states, 1, [("b", 0.5)], rules)
    memory = dict(bucket_states._cache)
    states.drop(1)
    step(states, 1, [("c", 0.5)], rules)
    bucket_states._cache.clear()
    bucket_states._cache.update(memory)
    assert states.read(0, 2, OPTIONS).inside("fence 0") == ["a", "c"]


def test_two_writers_of_a_batch(storage):
    rules = fences(1)
    first, second = settled(storage), settled(storage)
    step(first, 0, [("a", 0.5)], rules)
    for batch in range(1, 20):
        barrier, errors, events = threading.Barrier(2), [], []
        names = ("b", "b") if batch % 2 else ("b", "c")
        trackers = [states.read(0, batch, OPTIONS) for states in (first, second)]

        def run(states, tracker, name, barrier=barrier, errors=errors, events=events, batch=batch):
            row = {"object": name, "t": batch, "x": batch % 4 / 2}
            events.append(tracker.update([row], rules.snapshot(), None).to_pylist())
            identity = identity_of(name, states.previous_identity(tracker), "rules", OPTIONS)
            barrier.wait()
            try:
                states.write(0, batch, tracker, identity)
            except tocsin.MonitorError as error:
                errors.append(error)

        threads = [
            threading.Thread(target=run, args=each)
            for each in zip((first, second), trackers, names, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if batch % 2:
            assert not errors
            assert events[0] == events[1]
        else:
            assert len(errors) == 1
            assert "tocsin state drop" in str(errors[0])
        if batch % 3 == 0:
            forget_memory()
        assert first.read(0, batch + 1, OPTIONS).find("a") >= 0


def test_twins_whose_rules_have_other_positions(storage):
    rules, states = fences(3), settled(storage)
    other = tocsin.Rules(SCHEMA)
    other.add("fence -1", "x > -1")
    other.remove("fence -1")
    for rule in rules:
        other.add(rule, rules[rule].where)
    step(states, 0, [("a", 5.0), ("b", 5.0)], rules, identity="0")
    forget_memory()
    step(states, 0, [("a", 5.0), ("b", 5.0)], other, identity="0")
    assert len(step(states, 1, [("b", -5.0)], other, identity="1")) == 3
    forget_memory()
    assert step(states, 2, [("a", 1.5)], other, identity="2") == [("a", "fence 2", "leave")]
    forget_memory()
    assert states.read(0, 3, OPTIONS).where("a") == ["fence 0", "fence 1"]


def test_a_query_starts_from_another(storage):
    rules, older = fences(1), settled(storage, "older")
    for batch in range(3):
        step(older, batch, [(f"object {batch}", 0.5)], rules, bucket=batch)
    with pytest.raises(tocsin.MonitorError, match=r"no states of query 'odler'.* those of older"):
        settled(storage, "new", "odler")
    with pytest.raises(tocsin.MonitorError, match="buckets is 5, but the states of query older"):
        settled(storage, "new", "older", buckets="5")
    new = settled(storage, "new", "older")
    # The older query goes on for a while, which does not count.
    step(older, 3, [("object 0", -1.0)], rules, bucket=0)
    assert step(new, 0, [("object 0", 0.7)], rules, bucket=0) == []
    assert step(new, 7, [("object 0", -1.0)], rules) == [("object 0", "fence 0", "leave")]
    forget_memory()
    # It is recorded, so that it holds for buckets whose first rows come after a restart, too.
    again = settled(storage, "new")
    assert step(again, 8, [("object 1", 0.7)], rules, bucket=1) == []
    assert step(again, 8, [("object 3", 0.7)], rules, bucket=3) == enter("object 3")
    settled(storage, "new", "older")
    with pytest.raises(tocsin.MonitorError, match="start_from is new, but query older has begun"):
        settled(storage, "older", "new")
    older.drop(0)
    assert [info.query for info in queries(storage)] == ["new"]


def test_settings_that_changed(storage):
    settled(storage, dwell="'5 s'")
    settled(storage, dwell="'5 s'")
    with pytest.raises(
        tocsin.MonitorError, match=r"dwell is '6 s', but .* with '5 s'; set it back"
    ):
        settled(storage, dwell="'6 s'")
    with pytest.raises(tocsin.MonitorError, match=r"dwell is not set, but"):
        settled(storage)
    with pytest.raises(tocsin.MonitorError, match="is not the id of a streaming query"):
        BucketStates(storage, "../q")
    states, rules = settled(storage, "q2"), fences(1)
    step(states, 0, [("a", 0.5)], rules)
    forget_memory()
    with pytest.raises(tocsin.MonitorError, match="min_stay is '3000000000 ns', but"):
        states.read(0, 1, MonitorOptions(min_stay="3 s"))


def test_the_token(storage, tmp_path):
    token = put_token(storage)
    assert put_token(storage) == token
    check_token(storage, token)
    with pytest.raises(tocsin.MonitorError, match="there is none; the folder must be on a file"):
        check_token(Folder(tmp_path / "elsewhere"), token)
    put_token(Folder(tmp_path / "elsewhere"))
    with pytest.raises(tocsin.MonitorError, match="another one is there"):
        check_token(Folder(tmp_path / "elsewhere"), token)


def test_a_batch_without_valid_rows_has_a_state(storage):
    rules, states = fences(1), settled(storage)
    assert step(states, 0, [], rules) == []
    forget_memory()
    assert step(states, 1, [("a", 0.5)], rules) == enter("a")
    step(states, 2, [], rules)
    forget_memory()
    assert states.read(0, 3, OPTIONS).inside("fence 0") == ["a"]


def test_an_interrupted_tracker_is_not_written(storage):
    states = settled(storage)
    tracker = states.read(0, 0, OPTIONS)
    tracker.is_broken = True
    with pytest.raises(tocsin.MonitorError, match="interrupted"):
        states.write(0, 0, tracker, "identity")
    assert states._batches(0) == []


def test_unused_lists_of_rules_are_deleted(storage, monkeypatch):
    monkeypatch.setattr(bucket_states, "_MANY_LISTS", 8)
    monkeypatch.setattr(bucket_states, "PINS_KEPT", 5)
    monkeypatch.setattr(bucket_states, "_MOST_DELTAS", 2)
    states, rules = settled(storage), fences(1)
    step(states, 0, [("quiet", 0.5)], rules, bucket=1)
    for batch in range(60):
        if batch == 40:
            assert len(storage.list("queries/q/rules/")) == 41
            monkeypatch.setattr(bucket_states, "UNUSED", -1)
        rules.add(f"rule {batch}", "x > 100")
        step(states, batch, [("a", float(batch % 2))], rules)
    assert len(storage.list("queries/q/rules/")) < 30
    forget_memory()
    for batch in range(56, 61):
        assert states.read(0, batch, OPTIONS).find("a") >= 0
    assert states.read(1, 60, OPTIONS).inside("fence 0") == ["quiet"]


# ------------------------------------------------------------ damage and crashes


def test_every_flipped_or_missing_byte_is_refused():
    storage, rules = Memory(), fences(1)
    states = settled(storage)
    step(states, 0, [("a", 0.5), ("b", 0.5), ("c", 0.5)], rules)
    step(states, 1, [("a", -0.5)], rules)
    forget_memory()
    assert states.read(0, 2, OPTIONS).inside("fence 0") == ["b", "c"]
    rng = Random(8)
    for name in [entry.name for entry in storage.list("queries/")]:
        data = storage.read(name)
        for i in range(len(data)):
            flipped = bytearray(data)
            flipped[i] ^= rng.choice((1, 2, 4, 8, 16, 32, 64, 128, 255))
            for damaged in (bytes(flipped), data[:i]):
                storage.put({name: [damaged]})
                forget_memory()
                with pytest.raises(tocsin.MonitorError, match=r"damaged|upgrade"):
                    settled(storage).read(0, 2, OPTIONS)
        storage.put({name: [data]})
    # A delta on another base than its own.
    other = Memory()
    step(settled(other), 0, [("a", 0.5), ("b", 0.5), ("d", 0.5)], rules)
    storage.put({states._name(0, 0): [other.read(states._name(0, 0))]})
    forget_memory()
    with pytest.raises(tocsin.MonitorError, match="not the one that later states follow"):
        states.read(0, 2, OPTIONS)
    storage.delete([states._name(0, 0)])
    with pytest.raises(tocsin.MonitorError, match="is missing"):
        states.read(0, 2, OPTIONS)


def test_a_crash_at_any_step(storage, monkeypatch):
    """A batch that fails at any access to the storage runs again, with the same events."""
    monkeypatch.setattr(bucket_states, "PINS_KEPT", 2)
    monkeypatch.setattr(bucket_states, "_MOST_DELTAS", 1)
    rules = fences(1)
    for stop in range(1, 100):
        if isinstance(storage, Folder):
            storage = Folder(storage.path.parent / f"{stop}")
        else:
            storage = Memory()
        rng, inside = Random(5), set()
        steps, crashes = iter(range(1, 10_000)), 0

        def crash(original, stop=stop):
            def call(*arguments, **options):
                if next(steps) % 37 == stop:  # noqa: B023
                    raise CrashError
                return original(*arguments, **options)

            return call

        with monkeypatch.context() as patch:
            for module, names in (
                (type(storage), ("list", "stat", "map", "read", "put", "put_if_absent", "delete")),
                (os, ("replace", "link", "fsync")),
            ):
                for name in names:
                    patch.setattr(module, name, crash(getattr(module, name)))
            for batch in range(12):
                who, is_in = f"object {rng.randrange(4)}", rng.random() < 0.5
                expected = (
                    []
                    if (who in inside) == is_in
                    else [(who, "fence 0", "enter" if is_in else "leave")]
                )
                (inside.add if is_in else inside.discard)(who)
                while True:
                    try:
                        row = (who, 0.5 if is_in else -0.5)
                        events = step(settled(storage), batch, [row], rules)
                        break
                    except CrashError:
                        crashes += 1
                        if crashes % 2:
                            forget_memory()
                assert events == expected, (stop, batch)
        assert crashes
        if stop == 37 - 1:
            break
