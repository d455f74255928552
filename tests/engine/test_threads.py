"""Several threads find what one finds, in the same order, whatever happens meanwhile."""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests import generate
from tests.naive import sql
from tocsin.engine import threads, version
from tocsin.engine.ordered_matches import OrderedMatches
from tocsin.engine.segment import IndexedPart
from tocsin.index.exhaustive.index import Exhaustive
from tocsin.index.registry import INDEXES
from tocsin.model import events as reading
from tocsin.model.matches import Counters, Matches

MANY = 1_000
WIDE = 90  # columns: enough to be compressed if they are mostly null


@pytest.fixture
def small_ranges(monkeypatch):
    """Batches of any size are given to threads, in ranges of any size, across blocks of 256."""
    rng = random.Random(1)
    monkeypatch.setattr(threads, "LEAST_EVENTS", 2)
    monkeypatch.setattr(threads, "LEAST_IF_ASKED", 2)
    monkeypatch.setattr(threads, "_FIRST_RANGE", 1)
    monkeypatch.setattr(threads._Batch, "_range_size", lambda self: rng.randint(1, 60))
    monkeypatch.setattr(reading, "BLOCK", 256)


def assert_same(found, expected):
    assert np.array_equal(found.offsets, expected.offsets)
    assert np.array_equal(found.rules, expected.rules)
    assert found.offsets.dtype == expected.offsets.dtype
    assert found.rules.dtype == expected.rules.dtype
    assert found.counters == expected.counters
    assert (found.scores is None) == (expected.scores is None)
    if found.scores is not None:
        assert np.array_equal(found.scores, expected.scores)
    assert found.to_arrow().equals(expected.to_arrow())


def assert_alike(rules, events, weights=None):
    """Compare threads with one thread, for every question; return how many pairs there are."""
    expected = rules.match(events, threads=1)
    assert_same(rules.match(events, threads=3), expected)
    counts = rules.count(events, threads=3)
    assert counts.dtype == np.int64
    assert np.array_equal(counts, np.diff(expected.offsets))
    assert np.array_equal(counts, rules.count(events, threads=1))
    for k in (1, 4):
        best = rules.top(events, k, weights, threads=1)
        assert_same(rules.top(events, k, weights, threads=3), best)
    return len(expected)


# ------------------------------------------------------------ the same result


def changed_rules(index):
    """Return rules over all kinds in a base, a delta and recent ones, some of them removed."""
    rng = random.Random(index)
    rules = tocsin.Rules(generate.SCHEMA, index=index)

    def add(first, stop):
        for i in range(first, stop):
            where = sql(generate.condition(rng, 2))
            weights = {name: rng.choice((0.1, 0.5, 2)) for name in generate.SCHEMA if name in where}
            rules.add(i, where, weights if i % 2 else None)

    add(0, 60)
    rules.merge()
    add(60, 90)
    rules.remove_many(range(0, 80, 7))
    rules.snapshot()
    add(90, 95)
    return rules


def weights_of_each(rng, events):
    names = sorted(generate.SCHEMA)
    return [{rng.choice(names): rng.choice((0, 0.5, 3))} if rng.random() < 0.7 else None
            for _ in range(events)]  # fmt: skip


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("index", ["auto", *INDEXES])
def test_all_kinds_of_events_and_rules(index):
    rng = random.Random(3)
    rules = changed_rules(index)
    dicts = [generate.event(rng) for _ in range(MANY)]
    table = generate.arrow_table(dicts)
    assert assert_alike(rules, table) > MANY
    assert assert_alike(rules, dicts, {"price": 2.0, "tier": 0.1}) > MANY
    own = weights_of_each(rng, MANY)
    assert_alike(rules, table, own)
    chunks = pa.concat_tables([table.slice(0, 333), table.slice(333, 5), table.slice(338)])
    maps = pa.array([list((each or {}).items()) for each in own], pa.map_(pa.string(), "float64"))
    assert_alike(rules, chunks.append_column("other", [range(MANY)]), maps)
    encoded = table
    for name in ("tier", "city"):
        column = table.column(name).dictionary_encode()
        encoded = encoded.set_column(encoded.column_names.index(name), name, column)
    assert assert_alike(rules, encoded) > MANY


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("index", ["auto", "exhaustive", "keyed", "bestar", "counting"])
def test_sparse_events(index):
    """Maps, and wide tables that are mostly null; for a while some columns are all null."""
    rng = random.Random(4)
    names = [f"a{i}" for i in range(WIDE)]
    rules = tocsin.Rules(dict.fromkeys(names, "integer"), index=index)
    for i in range(200):
        tests = [f"{name} BETWEEN {(low := rng.randrange(8))} AND {low + 3}"
                 for name in rng.sample(names, rng.randint(1, 2))]  # fmt: skip
        if i % 10 == 0:
            tests.append(f"{rng.choice(names)} IS NULL")
        where = (" OR " if i % 3 == 0 else " AND ").join(tests)
        rules.add(i, where, {name: 0.5 for name in names[::2] if f"{name} " in where})
    rules.merge()
    rules.remove(5)
    events = []
    for number in range(MANY):
        known = names[number // 20 :][:WIDE] if number < MANY // 2 else names
        several = min(len(known), rng.randint(0, 12))
        events.append({name: rng.randrange(10) for name in rng.sample(known, several)})
    maps = pa.array([list(event.items()) for event in events], pa.map_(pa.string(), pa.int64()))
    table = pa.table({name: [event.get(name) for event in events] for name in names})
    weights = {"a1": 5.0, "a7": 0.0}
    assert assert_alike(rules, pa.table({"m": maps}), weights) > MANY
    assert assert_alike(rules, table.cast(pa.schema({n: pa.int64() for n in names})), weights)
    mixed = pa.table({"m": maps, "a3": pa.array([None] * 400 + [1] * (MANY - 400), pa.int64())})
    assert_alike(rules, mixed, weights)


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("columns", [10, WIDE])
def test_what_is_pruned_does_not_depend_on_ranges(columns):
    """The weights of attributes that are null, or not mentioned, change what `keyed` looks at."""
    rng = np.random.default_rng(12)
    names = [f"a{i}" for i in range(columns)]
    rules = tocsin.Rules(dict.fromkeys(names, "integer"), index="keyed")
    several = 9_000
    low = rng.integers(0, 8, several)
    pairs = np.stack([np.arange(several) // 3, rng.integers(0, columns, several)])
    _, first = np.unique(pairs, axis=1, return_index=True)
    long = {"id": pairs[0], "attribute": np.array(names)[pairs[1]], "low": low, "high": low + 4}
    rules.add_many(pa.table(long | {"weight": rng.random(several)}).take(np.sort(first)))
    table = {}
    for i, name in enumerate(names):
        null = rng.random(MANY) < (0.1 if columns == 10 else 0.78)
        null[100 * i : 100 * i + 400] = True
        table[name] = pa.array(rng.integers(0, 10, MANY), mask=null)
    for weights in (None, {"a0": 50.0}, {"a3": 50.0, "a4": 0.0}):
        assert assert_alike(rules, pa.table(table), weights) > MANY


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("index", ["auto", "grid", "counting", "keyed"])
def test_events_with_ranges_in_some_blocks(index):
    """These have the order of exhaustive search, the others that of the index."""
    rng = random.Random(5)
    rules = tocsin.Rules({"x": "number", "n": "integer"}, index=index)
    for i in range(300):
        x, n = rng.random(), rng.randrange(50)
        rules.add(i, f"x BETWEEN {x} AND {x + 0.3} AND n BETWEEN {n} AND {n + 9}")
    rules.merge()
    dicts = [{"x": rng.random(), "n": rng.randrange(60)} for _ in range(MANY)]
    for number in (300, 310, 900):  # of four blocks two have ranges
        dicts[number]["x"] = {"low": 0.1, "high": 0.6}
    assert assert_alike(rules, dicts) > MANY
    ends = [each["x"] if isinstance(each["x"], dict) else {"low": each["x"], "high": each["x"]}
            for each in dicts]  # fmt: skip
    table = pa.table({"x": ends, "n": [each["n"] for each in dicts]})
    assert assert_alike(rules, table) > MANY
    entries = [[("x", end)] for end in ends]
    ranges = pa.struct({"low": pa.float64(), "high": pa.float64()})
    maps = pa.array(entries, pa.map_(pa.string(), ranges))
    assert assert_alike(rules, pa.table({"m": maps, "n": table.column("n")})) > MANY


@pytest.mark.usefixtures("small_ranges")
def test_no_events_no_rules_no_matches():
    rules = tocsin.Rules({"x": "number"})
    table = pa.table({"x": np.arange(100.0)})
    assert assert_alike(rules, table) == 0
    rules.add("never", "x < 0")
    assert assert_alike(rules, table) == 0
    assert assert_alike(rules, table.slice(0, 0)) == 0
    rules.add("late", "x > 90")
    assert assert_alike(rules, table) == 9
    rules.remove_many(list(rules))
    assert assert_alike(rules, table) == 0


def test_sizes_as_they_are():
    """Nothing is patched: events that match much, next to nothing, and much at the end."""
    rng = np.random.default_rng(6)
    rules = tocsin.Rules({"x": "number", "y": "number"})
    low = rng.random((2, 3_000))
    boxes = {"x_low": low[0], "x_high": low[0] + 0.1, "y_low": low[1], "y_high": low[1] + 0.1}
    rules.add_many(pa.table({"id": np.arange(3_000)} | boxes))
    points = rng.random((2, 150_000))
    points[0, 20_000:100_000] += 5.0
    assert assert_alike(rules, pa.table({"x": points[0], "y": points[1]})) > 1_000_000


def test_matches_are_joined_in_the_order_of_their_events():
    rng = np.random.default_rng(7)
    for scored in (False, True):
        for density in (
            np.zeros(500),
            np.ones(500) * 3,
            np.arange(500) / 100,
            np.arange(500) > 450,
        ):
            sizes = rng.poisson(density)
            offsets = np.concatenate([[0], np.cumsum(sizes)])
            rules = rng.integers(0, 1000, offsets[-1]).astype(np.int32)
            scores = rng.random(len(rules))
            cuts = np.unique([0, *rng.integers(0, 500, 40), 500])
            ordered = OrderedMatches(500, scored)
            for i in rng.permutation(len(cuts) - 1):
                a, z = offsets[cuts[i]], offsets[cuts[i + 1]]
                reused = (
                    offsets[cuts[i] : cuts[i + 1] + 1] - a,
                    rules[a:z].copy(),
                    scores[a:z].copy(),
                )
                counters = Counters(2, 1, int(z - a))
                one = Matches(*reused[:2], None, reused[2] if scored else None, counters=counters)
                ordered.add(int(cuts[i]), one, reused=True)
                for array in reused:
                    array[:] = -1
            found = ordered.join(None)
            assert found.offsets.tolist() == offsets.tolist()
            assert found.rules.tolist() == rules.tolist()
            assert found.scores is None if not scored else found.scores.tolist() == scores.tolist()
            assert found.counters == (2 * len(cuts) - 2, len(cuts) - 1, len(rules))
    with pytest.raises(AssertionError, match="0 of 7 events"):
        OrderedMatches(7).join(None)


# ------------------------------------------------------------ how many threads


@pytest.fixture
def used(monkeypatch):
    """The numbers of threads that were used; none for a batch that stays on one."""
    seen = []

    class Recorder(version.ThreadedRun):
        def __init__(self, run, several):
            seen.append(several)
            super().__init__(run, several)

    monkeypatch.setattr(version, "ThreadedRun", Recorder)
    monkeypatch.delenv("TOCSIN_THREADS", raising=False)
    return seen


@pytest.fixture
def above():
    rules = tocsin.Rules({"x": "number"})
    rules.add("above", "x > 0.5")
    return rules


LARGE = pa.table({"x": np.random.default_rng(8).random(threads.LEAST_EVENTS)})
SMALL = LARGE.slice(1)


def test_all_cores_by_default(used, above, monkeypatch):
    cores = threads.available_cores()
    assert cores == len(os.sched_getaffinity(0))
    monkeypatch.setattr(threads, "available_cores", lambda: 5)
    assert len(above.match(LARGE)) == int(above.count(LARGE).sum()) == len(above.top(LARGE))
    assert used == [5, 5, 5]
    above.snapshot().match(LARGE)
    above.match(LARGE, threads=np.int32(2))
    above.match(LARGE, threads=1)
    assert used == [5, 5, 5, 5, 2]


def test_small_batches_and_blocks_stay_on_one_thread(used, above):
    asked = LARGE.slice(0, threads.LEAST_IF_ASKED)
    above.match(asked.slice(1), threads=4)
    above.count(SMALL)
    above.top({"x": 1.0}, threads=4)
    list(above.match_blocks(LARGE))
    assert used == []
    above.match(asked, threads=4)
    assert used == [4]


def test_the_environment_variable(used, above, monkeypatch):
    for given in ("3", " 3 ", "1", ""):
        monkeypatch.setenv("TOCSIN_THREADS", given)
        monkeypatch.setattr(threads, "available_cores", lambda: 7)
        above.match(LARGE)
    assert used == [3, 3, 7]
    monkeypatch.setenv("TOCSIN_THREADS", "1")
    above.match(LARGE, threads=2)
    assert used == [3, 3, 7, 2]
    for wrong in ("0", "-1", "two", "2.0", "²", "\u0661"):
        monkeypatch.setenv("TOCSIN_THREADS", wrong)
        with pytest.raises(tocsin.TocsinError) as caught:
            above.count(LARGE)
        assert str(caught.value) == (
            f"the environment variable TOCSIN_THREADS must be an integer, 1 or more; got {wrong!r}"
        )
        above.match(LARGE, threads=1)
        above.match(SMALL)


@pytest.mark.parametrize("wrong", [0, -1, "2", True, 2.0, np.bool_(True), [2]])
def test_wrong_numbers_are_refused_whatever_the_events(above, wrong):
    for events in (LARGE, {"x": 1.0}):
        for ask in (above.match, above.count, above.top, above.snapshot().match):
            with pytest.raises(tocsin.TocsinError) as caught:
                ask(events, threads=wrong)
            assert str(caught.value) == (
                f"threads must be an integer, 1 or more, or None for all cores; got {wrong!r}"
            )


# ------------------------------------------------------------ how large ranges are


def cost_of_ranges(monkeypatch, events, cost, several=2):
    """Return the seconds of all ranges, and their sizes, if a range takes `cost(first, stop)`.

    One thread works, and divides the events as if there were several.
    """
    now, sizes = [0.0], []

    def work(first, stop):
        sizes.append(stop - first)
        now[0] += cost(first, stop)
        return 0

    monkeypatch.setattr(threads.time, "thread_time", lambda: now[0])
    monkeypatch.setattr(threads._Batch, "_call_helpers", lambda self: None)
    threads.work_in_ranges(events, several, work)
    assert sum(sizes) == events
    return now[0], sizes


@pytest.mark.parametrize("fixed", [1e-6, 6e-5, 5e-4, 2.5e-2, 0.2])
@pytest.mark.parametrize("each", [1e-9, 3e-8, 1e-6, 4e-5])
@pytest.mark.parametrize("events", [threads.LEAST_EVENTS, 40_000, 1_000_000])
def test_the_fixed_cost_of_ranges_stays_small(monkeypatch, fixed, each, events):
    """As with a thousand terms, where a range costs 25 milliseconds before its first event."""
    total, sizes = cost_of_ranges(monkeypatch, events, lambda a, z: fixed + each * (z - a))
    # The first ranges are small, whatever they cost: nothing is known before they end.
    assert total - 6 * fixed <= 1.25 * (each * events + fixed)
    if fixed < 1e-3 and each * events > 0.2:
        assert max(sizes[2:]) * each <= 0.1  # Ctrl-C, and skew
        assert sizes[-1] * each <= 0.02


@pytest.mark.parametrize("seed", range(5))
def test_noise_and_compilation_do_not_make_ranges_tiny(monkeypatch, seed):
    noise = np.random.default_rng(seed)

    def cost(first, stop):
        seconds = (5e-4 + 3.5e-7 * (stop - first)) * noise.uniform(0.6, 1.7)
        return seconds + 4 * (first == 0)

    total, sizes = cost_of_ranges(monkeypatch, 400_000, cost)
    assert len(sizes) < 100
    assert total - 4 < 1.7 * 1.25 * 0.14


def test_ranges_follow_the_cost_of_events(monkeypatch):
    """A hundred times dearer in the middle: no range there takes much longer than a twentieth."""

    def cost(first, stop):
        dear = max(0, min(stop, 700_000) - max(first, 300_000))
        return 6e-5 + 1e-7 * (stop - first) + 1e-5 * dear

    _, sizes = cost_of_ranges(monkeypatch, 1_000_000, cost)
    stops = np.cumsum(sizes)
    seconds = [cost(stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]
    assert sorted(seconds)[-3] < 0.2
    assert len(sizes) < 300


# ------------------------------------------------------------ what happens meanwhile


def boxes(n=2_000, seed=9):
    """Return rules in one exhaustive index."""
    rng = np.random.default_rng(seed)
    rules = tocsin.Rules({"x": "number"}, index="exhaustive")
    low = rng.random(n)
    rules.add_many(pa.table({"id": np.arange(n), "x_low": low, "x_high": low + 0.01}))
    return rules


def points(n, seed=10):
    return pa.table({"x": np.random.default_rng(seed).random(n)})


@pytest.fixture
def when_asked(monkeypatch):
    """Do something whenever the exhaustive index is asked; `action(self, batch)`."""
    plain = Exhaustive.candidates

    def patch(action):
        def candidates(self, batch, offsets, out):
            action(self, batch)
            return plain(self, batch, offsets, out)

        monkeypatch.setattr(Exhaustive, "candidates", candidates)

    yield patch
    monkeypatch.setattr(Exhaustive, "candidates", plain)


def is_helper():
    return threading.current_thread().name == "tocsin-helper"


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.usefixtures("small_ranges")
def test_threads_match_at_once(when_asked):
    rules, events = boxes(), points(500)
    expected = rules.match(events, threads=1)
    barrier, met = threading.Barrier(3, timeout=20), set()

    def meet(index, batch):
        if threading.get_ident() not in met:
            met.add(threading.get_ident())
            barrier.wait()

    when_asked(meet)
    assert_same(rules.match(events, threads=3), expected)
    assert len(met) == 3


@pytest.mark.usefixtures("small_ranges")
def test_an_error_in_a_thread_is_raised_in_the_caller(when_asked):
    rules, events = boxes(), points(500)
    expected = rules.match(events, threads=1)

    met, failed = [], []

    def fail_once(index, batch):
        if is_helper():
            failed.append(1)
            raise ZeroDivisionError("in a helper")
        wait_for(lambda: failed)
        met.append(1)

    when_asked(fail_once)
    for ask in (rules.match, rules.top):
        met.clear()
        failed.clear()
        with pytest.raises(ZeroDivisionError, match="in a helper"):
            ask(events, threads=2)
        assert len(met) < 5  # no further range began
    when_asked(lambda index, batch: None)
    assert_same(rules.match(events, threads=2), expected)


@pytest.mark.usefixtures("small_ranges")
def test_the_first_of_several_errors_is_raised():
    rules = tocsin.Rules({"n": "integer"})
    rules.add("r", "n > 5")
    numbers = np.arange(MANY, dtype=np.uint64)
    for first in (0, 50, 600, 999):
        broken = numbers.copy()
        broken[first:] += np.uint64(2**63)
        events = pa.table({"n": broken})
        for _ in range(5):
            with pytest.raises(tocsin.EventError, match=str(2**63 + first)):
                rules.match(events, threads=4)


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises an exception, also where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("small_ranges", "ctrl_c")
def test_keyboard_interrupt(when_asked):
    rules, events = boxes(), points(20_000)
    expected = rules.match(events, threads=1)
    asked, begun, ended = [], [], []

    def interrupt(index, batch):
        asked.append(1)
        if not is_helper():  # which may get no processor for a while
            time.sleep(0.001 if len(begun) >= 3 else 0.02)
        else:
            begun.append(1)
            if len(begun) == 3:
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            ended.append(1)

    when_asked(interrupt)
    for _ in range(3):
        for each in (asked, begun, ended):
            each.clear()
        with pytest.raises(KeyboardInterrupt):
            rules.match(events, threads=2)
        assert len(begun) == len(ended) >= 3  # the helper has ended what it began
        assert len(asked) < 100  # of more than 300 ranges
    when_asked(lambda index, batch: None)
    assert_same(rules.match(events, threads=3), expected)


@pytest.mark.usefixtures("small_ranges")
def test_a_match_within_a_helper_stays_there(when_asked, used):
    rules, events = boxes(), points(500)
    expected = rules.match(events, threads=1)
    inner, found = boxes(50, 11), []

    def match_within(index, batch):
        if len(index.conjunctions.rule) > 50 and is_helper():
            found.append(len(inner.match(events, threads=2)))

    pairs = len(inner.match(events, threads=1))
    when_asked(match_within)
    for _ in range(20):
        assert_same(rules.match(events, threads=2), expected)
    assert set(found) == {pairs}
    assert set(used) == {2}
    assert len(used) == 20  # none of the inner ones


@pytest.mark.usefixtures("small_ranges")
def test_callers_on_several_threads():
    rules, events = boxes(), points(2_000)
    expected = rules.match(events, threads=1)
    results = []

    def ask():
        results.extend(rules.match(events, threads=2) for _ in range(10))

    callers = [threading.Thread(target=ask) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(results) == 30
    for found in results:
        assert_same(found, expected)


@pytest.mark.usefixtures("small_ranges")
def test_exhaustive_search_for_ranges_is_built_once(monkeypatch):
    """Before helpers start: here one of them is the first to match."""
    call_helpers, builds = threads._Batch._call_helpers, []

    def call_and_wait(self):
        call_helpers(self)
        wait_for(lambda: self._next)

    monkeypatch.setattr(threads._Batch, "_call_helpers", call_and_wait)
    plain = Exhaustive.build.__func__

    def build(cls, *arguments):
        builds.append(threading.current_thread())
        return plain(cls, *arguments)

    monkeypatch.setattr(Exhaustive, "build", classmethod(build))
    rules = tocsin.Rules({"x": "number", "y": "number"}, index="grid")
    for i in range(20):
        rules.add(i, f"x BETWEEN {i} AND {i + 5} AND y BETWEEN {i} AND {i + 5}")
    rules.merge()
    events = [{"x": {"low": i % 9, "high": i % 9 + 1}, "y": i % 7} for i in range(MANY)]
    rules.match(events[:1])
    made = len(builds)
    part = rules.snapshot().segments[0].segment.parts[0]
    assert isinstance(part, IndexedPart)
    del part.__dict__["_fallback"]
    rules.match(events, threads=4)
    assert builds[made:] == [threading.main_thread()]


@pytest.mark.usefixtures("small_ranges")
def test_helpers_keep_nothing():
    rules = boxes()
    found = rules.match(points(500), threads=3)
    kept = weakref.ref(found.offsets)
    del found
    gc.collect()
    wait_for(lambda: kept() is None)


def helpers():
    return [each for each in threading.enumerate() if each.name == "tocsin-helper"]


def in_child(rules, events, answers):
    before = len(helpers())
    answers.put((len(rules.match(events, threads=3)), before, len(helpers())))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.usefixtures("small_ranges")
def test_after_a_fork():
    rules, events = boxes(), points(500)
    expected = len(rules.match(events, threads=3))
    assert len(helpers()) >= 2
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=in_child, args=(rules, events, answers))
    child.start()
    try:
        assert answers.get(timeout=60) == (expected, 0, 2)
        child.join(60)
        assert child.exitcode == 0
    finally:
        child.kill()
    assert len(rules.match(events, threads=3)) == expected


# ------------------------------------------------------------ processes that might hang

SCRIPT = """
import signal, sys, threading, time
import numpy as np, pyarrow as pa, tocsin
from tests.engine.test_threads import boxes, points
from tocsin.engine import threads
threads.LEAST_IF_ASKED = 2
threads._FIRST_RANGE = 1
threads._Batch._range_size = lambda self: 64
rules, events = boxes(), points(2_000)
expected = rules.match(events, threads=1)

def ask():
    found = rules.match(events, threads=3)
    assert np.array_equal(found.rules, expected.rules)
    assert np.array_equal(found.offsets, expected.offsets)
"""


def output_of(script):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", SCRIPT + script]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    assert not run.stderr
    return run.stdout


def test_signal_handlers_match_while_threads_work():
    """Also before there are any helpers, and while these are started."""
    output = output_of("""
handled = []
def handle(number, frame):
    ask()
    handled.append(number)
signal.signal(signal.SIGALRM, handle)
for again in range(100):
    threads._helpers = threads._Helpers()
    signal.setitimer(signal.ITIMER_REAL, 0.0001 * (1 + again % 20))
    ask()
    while len(handled) <= again:
        ask()
print(len(handled))
""")
    assert output == "100\n"


def test_keyboard_interrupt_anywhere():
    """Wherever it strikes, it is raised, and the next match is right."""
    output = output_of("""
struck = 0
signal.signal(signal.SIGALRM, signal.default_int_handler)
for again in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.00003 * (again + 1))
        for _ in range(10_000):
            ask()
    except KeyboardInterrupt:
        struck += 1
    if again % 10 == 0:
        ask()
print(struck)
""")
    assert output == "300\n"


def test_the_interpreter_exits():
    assert output_of("ask()") == ""
    begun = time.monotonic()
    output_of("""
def forever():
    while True:
        ask()
for _ in range(2):
    threading.Thread(target=forever, daemon=True).start()
time.sleep(0.2)
""")
    assert time.monotonic() - begun < 50


def test_a_thread_that_outlives_the_main_thread_matches():
    output = output_of("""
def ask_late():
    threading.main_thread().join()
    time.sleep(0.1)
    ask()
    print("done")
threading.Thread(target=ask_late).start()
""")
    assert output == "done\n"


def test_without_any_further_thread():
    """Where the system allows none, the caller does everything."""
    output = output_of("""
def start(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = start
for _ in range(3):
    ask()
print(threads._helpers.size, threads._helpers._tasks.empty())
""")
    assert output == "0 True\n"
