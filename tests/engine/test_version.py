"""A version is what rules were at one moment: it never changes, whatever becomes of the rules."""

import gc
import signal
import sys
import threading
import weakref

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tocsin.engine.store_folder import StoreFolder

SCHEMA = {"x": "number", "n": "integer", "c": "category"}


def made(n=3_000):
    rules = tocsin.Rules(SCHEMA)
    ids = np.arange(n)
    rules.add_many(pa.table({"id": ids, "n_low": ids % 100, "n_high": ids % 100 + 3}))
    rules.add(n, "c IN ('k', 'm') OR n = 7", weights={"c": 2.0}, payload={"team": "red"})
    return rules


EVENTS = [{"n": n, "x": 0.5 * n, "c": "k" if n % 3 else "z"} for n in range(0, 110, 7)]


def seen(version):
    """All that can be asked of a version, to be compared."""
    last = list(version)[-1]
    return (
        list(version.match(EVENTS).sorted()),
        version.count(EVENTS).tolist(),
        list(version.top(EVENTS, 3)),
        len(version),
        list(version)[-5:],
        version[last],
        str(version.explain(EVENTS[1], last)),
        str(version.plan()),
        version.tested(),
        version.payload_schema,
    )


def test_one_event_matches_as_in_a_batch():
    """In the same order and with the same work, over several segments."""
    rules = made()
    for number in range(200):
        low = number % 90
        where = f"n BETWEEN {low} AND {low + 20}"
        rules.add(5_000 + number, where + (" OR c = 'k'" if number % 3 else " AND c <> 'm'"))
        rules.snapshot()
    rules.remove(5_003)
    rules.add(9_000, "x > 10", at_least=0.5)
    version = rules.snapshot()
    assert len(version.segments) > 2
    ranges = [event | {"x": {"low": event["x"], "high": event["x"] + 9}} for event in EVENTS]
    for events in (EVENTS, ranges):
        alone = [version.match(event) for event in events]
        batch = version.match(events)
        assert [one.rules.tolist() for one in alone] == [
            batch.rules[first:stop].tolist()
            for first, stop in zip(batch.offsets, batch.offsets[1:])
        ]
        assert [len(one) for one in alone] == [one.offsets[1] for one in alone]
        work = np.sum([one.counters for one in alone], 0)
        assert work.tolist() == list(batch.counters)
    assert version.match(EVENTS[:1]).rules.tolist() == version.match(EVENTS[0]).rules.tolist()


def test_a_version_answers_as_the_rules_did():
    rules = made()
    version = rules.snapshot()
    assert seen(version) == seen(rules)
    assert version is rules.snapshot(), "nothing has changed"
    assert repr(version) == "Version(3,001 rules over Schema(x: number, n: integer, c: category))"
    assert 3_000 in version
    assert "a" not in version
    with pytest.raises(tocsin.UnknownRuleError, match="there is no rule 5000"):
        version[5000]


def test_an_old_version_stays_as_it_is_while_ten_thousand_changes_happen():
    rules = made()
    held = [(rules.snapshot(), seen(rules.snapshot()))]
    rng = np.random.default_rng(3)
    live = list(range(3_000))
    for change in range(10_000):
        kind = change % 5
        if kind == 0:
            rules.add(10_000 + change, f"n = {change % 90} AND c = 'w{change % 700}'")
            live.append(10_000 + change)
        elif kind in (1, 2) and len(live) > 500:
            rules.remove(live.pop(int(rng.integers(len(live)))))
        elif kind == 3:
            rules.replace(live[int(rng.integers(len(live)))], f"n >= {change % 100}")
        else:
            rules.schema.add(f"a{change}", "number") if change % 1000 == 4 else None
        if change % 2_500 == 17:
            rules.merge()
        if change % 1_999 == 0:
            held.append((rules.snapshot(), seen(rules.snapshot())))
    assert len(rules) == len(live) + 1
    assert len({len(version) for version, _ in held}) > 3
    for version, before in held:
        assert seen(version) == before


def test_a_version_knows_how_many_categories_there_were(tmp_path):
    rules = tocsin.Rules(SCHEMA)
    rules.add("a", "c IN ('k', 'm')")
    version = rules.snapshot()
    rules.add("b", "c IN ('m', 'z')")
    assert version.categories is rules.snapshot().categories, "no copy is made"
    assert (version.category_count, rules.snapshot().category_count) == (2, 3)
    first = StoreFolder(tmp_path / "store").publish(version, None)
    (opened, _) = StoreFolder(tmp_path / "store").open()
    assert (list(opened.categories), opened.category_count) == (["k", "m"], 2)
    StoreFolder(tmp_path / "store").publish(rules.snapshot(), first)
    (opened, origin) = StoreFolder(tmp_path / "store").open()
    assert list(opened.categories) == ["k", "m", "z"]
    assert [entry["count"] for entry in origin.category_files] == [2, 1], "only new ones"
    for number, found in ((1, ["a"]), (2, ["a", "b"])):
        again = tocsin.open(tmp_path / "store", version=number)
        assert again.match({"c": "m"}).ids().to_pylist() == found


def test_a_copy_has_categories_of_its_own():
    rules = tocsin.Rules(SCHEMA)
    rules.add("a", "c = 'k'")
    copied = rules.copy()
    rules.add("b", "c = 'm'")
    copied.add("b", "c = 'z'")
    for each, expected in ((rules, [1, 1, 0]), (copied, [1, 0, 1])):
        assert each.count([{"c": c} for c in "kmz"]).tolist() == expected
    assert list(copied._draft.categories) == ["k", "z"]


def test_memory_is_released_when_the_last_holder_goes():
    rules = made()
    version = rules.snapshot()
    base = weakref.ref(version.segments[0].segment)
    for number in range(10):
        rules.replace(number, "n > 3")
    rules.merge()
    gc.collect()
    assert base() is not None, "the version holds it"
    matches = version.match(EVENTS)
    del version
    gc.collect()
    assert len(matches.ids()) == len(matches), "matches know their rules, not the index"
    del matches
    gc.collect()
    assert base() is None


def test_memory_is_released_by_a_merge_after_saving(tmp_path):
    rules = made()
    rules.save(tmp_path / "store")
    base = weakref.ref(rules.snapshot().segments[0].segment)
    rules.remove(1)
    rules.merge()
    gc.collect()
    assert base() is None, "what is remembered of the store does not hold it"


def test_changes_share_what_they_do_not_change():
    rules = made()
    first = rules.snapshot()
    rules.remove(5)
    rules.add("a" if first.id_type == pa.string() else -1, "x > 5")
    second = rules.snapshot()
    assert second.segments[0].segment is first.segments[0].segment
    assert second.segments[0].removed is not first.segments[0].removed
    assert first.segments[0].removed.size == 0
    rules.remove(6)
    rules.remove(7)
    third = rules.snapshot()
    assert second.segments[0].removed.size == 1
    assert third.segments[0].removed.size == 3


def test_the_fallback_for_ranges_is_made_once_for_all_versions():
    rules = made()
    event = pa.table({"n": [{"low": 3, "high": 5}], "c": ["k"]})
    before = rules.match(event)
    base = rules.snapshot().segments[0].segment
    fallback = base.parts[0]._fallback
    rules.remove(2_950)
    rules.add(-1, "n = 4")
    assert len(rules.match(event)) == len(before) + 1
    assert rules.snapshot().segments[0].segment.parts[0]._fallback is fallback


def test_readers_do_not_wait_for_a_writer():
    """A match takes no lock, while nothing has changed since the last version."""
    rules = made()
    expected = rules.count(EVENTS).tolist()
    done = threading.Event()
    found = []

    def read():
        found.append(rules.count(EVENTS).tolist())
        done.set()

    with rules._lock:
        thread = threading.Thread(target=read)
        thread.start()
        assert done.wait(60), "it waits for the lock"
    thread.join()
    assert found == [expected]


def test_a_signal_in_the_middle_of_a_match():
    rules = made(20_000)
    events = pa.table({"n": np.arange(60_000) % 120, "c": ["k"] * 60_000})
    expected = rules.count(events)
    inner = []

    def handler(number, frame):
        inner.append(rules.match(EVENTS).offsets.tolist())

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.003)
    try:
        for _ in range(15):
            assert np.array_equal(np.diff(rules.match(events).offsets), expected)
            assert np.array_equal(rules.count(events), expected)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert inner
    assert all(offsets == inner[0] for offsets in inner)


def test_a_signal_in_the_middle_of_a_change(monkeypatch):
    """What interrupts a change neither sees half of it nor changes the rules as well."""
    rules = made()
    before = rules.snapshot()
    refused = []

    def interrupt():
        for call in (
            lambda: rules.add(-5, "x > 5"),
            lambda: rules.remove(3),
            lambda: rules.replace(4, "x > 1"),
            lambda: rules.merge(),
        ):
            with pytest.raises(tocsin.RuleError, match="in the middle of a change"):
                call()
        refused.append(rules.snapshot() is before)
        refused.append(len(before.match(EVENTS)))

    real = type(rules._draft)._remove

    def interrupted(self, *found):
        real(self, *found)
        interrupt()

    monkeypatch.setattr(type(rules._draft), "_remove", interrupted)
    rules.replace(0, "n = 1000")
    assert refused == [True, len(before.match(EVENTS))]
    monkeypatch.undo()
    assert rules[0].where == "n = 1000"
    assert len(rules) == len(before)
    rules.remove(0)


@pytest.fixture
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("frequent_switches")
def test_threads_explain_while_others_mention_new_values():
    rules = tocsin.Rules(SCHEMA)
    rules.add_many(pa.table({"id": range(20_000), "where": [f"c = 'v{i}'" for i in range(20_000)]}))
    rules.add_many(pa.table({"id": [-1], "n_low": [3]}))
    version = rules.snapshot()
    started, stop = threading.Event(), threading.Event()
    failures = []

    def explain():
        try:
            while not stop.is_set():
                version.explain({"n": 3}, -1)
                version[-1]
                started.set()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=explain)
    thread.start()
    started.wait()
    for i in range(300):
        rules.add(100_000 + i, f"c = 'w{i}'")
    stop.set()
    thread.join()
    assert failures == []
