"""Merges on a thread: every answer is that of plain Python, and the same however long they take."""

import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import tocsin
from tocsin.engine import draft, merging
from tocsin.engine.planner import build_parts

SCHEMA = {"n": "integer", "c": "category"}
NUMBERS = range(0, 100, 7)
EVENTS = [{"n": n, "c": f"c{n % 5}"} for n in NUMBERS]


@pytest.fixture
def small(monkeypatch):
    """Merges of sixteen rules or more are on a thread."""
    monkeypatch.setattr(draft, "_SMALL", 16)
    monkeypatch.setattr(draft, "_AT_ONCE", 16)


@pytest.fixture
def gate(monkeypatch):
    """An event that merges on threads wait for before they end."""
    gate = threading.Event()

    def build(*arguments):
        if threading.current_thread().name == "tocsin-merge":
            gate.wait()
        return build_parts(*arguments)

    monkeypatch.setattr(draft, "build_parts", build)
    yield gate
    gate.set()


def condition(number):
    low, code = number * 37 % 90, number % 5
    return f"n BETWEEN {low} AND {low + 10}" + (f" AND c = 'c{code}'" if number % 3 else "")


def holds(where, event):
    low, high, *code = re.findall(r"\d+", where)
    return int(low) <= event["n"] <= int(high) and (not code or event["c"] == f"c{code[0]}")


def expected(conditions):
    return [(i, id_) for i, e in enumerate(EVENTS) for id_, w in conditions.items() if holds(w, e)]


def changes(count, seed=1):
    """Yield (change, id, condition), and the conditions by id, in the order of addition."""
    rng, live = np.random.default_rng(seed), {}
    for number in range(count):
        kind = ("add", "add", "replace", "add", "remove")[number % 5]
        id_ = number if kind == "add" else int(rng.choice(list(live)))
        where = condition(number)
        if live.get(id_) != where:  # otherwise it is not changed, and keeps its place
            live.pop(id_, None)
        if kind == "remove":
            live.pop(id_, None)
        else:
            live[id_] = where
        yield kind, id_, where, live


def change(rules, kind, id_, where):
    rules.remove(id_) if kind == "remove" else getattr(rules, kind)(id_, where)


def started():
    """Return rules whose merge is under way, and their conditions."""
    rules, live = tocsin.Rules(SCHEMA), {}
    while rules._draft._merge is None:
        live[len(live)] = condition(len(live))
        rules.add(len(live) - 1, live[len(live) - 1])
    return rules, live


def add_until_merged(rules, live):
    merge = rules._draft._merge
    while rules._draft._merge is merge:
        add_one(rules, live)


def add_one(rules, live):
    id_ = 1000 + len(live)
    live[id_] = condition(len(live))
    rules.add(id_, live[id_])


def test_every_answer_is_that_of_plain_python(small):
    rules, merges = tocsin.Rules(SCHEMA), set()
    for kind, id_, where, live in changes(900):
        change(rules, kind, id_, where)
        assert list(rules.match(EVENTS).sorted()) == expected(live)
        assert list(rules) == list(live)
        merges.add(rules._draft._merge and rules._draft._merge.until)
    assert len(merges) > 5


def test_the_order_of_matches_does_not_depend_on_the_thread(small, gate):
    def run():
        rules, orders = tocsin.Rules(SCHEMA), []
        for number, (kind, id_, where, _) in enumerate(changes(400)):
            merge = rules._draft._merge
            if merge and rules._draft._changes + 2 >= merge.until:
                gate.set()
            change(rules, kind, id_, where)
            if number % 5 == 0:
                orders.append(list(rules.match(EVENTS)))
            if slow:
                gate.clear()
        return orders, str(rules.plan())

    slow = False
    gate.set()
    fast = run()
    slow = True
    gate.clear()
    assert run() == fast


def test_many_threads_match_while_one_changes(small):
    rules, errors, stop = tocsin.Rules(SCHEMA), [], threading.Event()

    def match():
        while not stop.is_set():
            version = rules.snapshot()
            live = {id_: version[id_].where for id_ in version}
            if list(version.match(EVENTS).sorted()) != expected(live):
                errors.append(live)

    threads = [threading.Thread(target=match) for _ in range(3)]
    for thread in threads:
        thread.start()
    for kind, id_, where, live in changes(500, seed=2):
        change(rules, kind, id_, where)
        assert list(rules.match(EVENTS).sorted()) == expected(live)
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors


def test_what_changes_meanwhile_is_carried_over(small, gate):
    rules, live = started()
    before = rules.snapshot()
    for id_ in (0, 3, 5):
        rules.remove(id_)
        del live[id_]
    del live[7]
    live[7] = "n BETWEEN 1 AND 99"
    rules.replace(7, live[7])
    assert list(rules.match(EVENTS).sorted()) == expected(live)
    gate.set()
    add_until_merged(rules, live)
    assert list(rules.match(EVENTS).sorted()) == expected(live)
    assert list(rules) == list(live)
    assert 3 in before
    assert 3 not in rules


@pytest.mark.parametrize("other", ["save", "copy", "merge", "tune", "add_many"])
def test_other_calls_during_a_merge(small, gate, other, tmp_path):
    rules, live = started()
    if other in ("save", "add_many"):
        gate.set()
    if other == "save":
        rules.save(tmp_path / "store")
        again = tocsin.open(tmp_path / "store")
        assert again.plan().parts[0].role == "base"
        assert list(again.match(EVENTS).sorted()) == expected(live)
    elif other == "copy":
        copy = rules.copy()
        copy.remove(1)
        assert 1 in rules
        assert list(copy) == [id_ for id_ in live if id_ != 1]
    elif other == "add_many":
        more = {500 + i: condition(i) for i in range(300)}
        rules.add_many([{"id": i, "where": w} for i, w in more.items()])
        live |= more
    else:
        getattr(rules, other)(*([EVENTS] if other == "tune" else []))
        assert rules._draft._merge is None
    gate.set()
    assert list(rules.match(EVENTS).sorted()) == expected(live)


def test_a_version_with_several_recent_segments_is_stored(small, gate, tmp_path):
    from tocsin.engine.store_folder import StoreFolder

    rules, live = started()
    for id_ in range(2000, 2010):
        live[id_] = condition(id_)
        rules.add(id_, live[id_])
    version = rules.snapshot()
    assert sum(each.role == "recent" for each in version.segments) > 1
    StoreFolder(tmp_path / "store").publish(version, None)
    assert list(tocsin.open(tmp_path / "store").match(EVENTS).sorted()) == expected(live)


def test_a_merge_that_fails_is_reported_and_repeated(small, monkeypatch):
    def build(*arguments):
        raise MemoryError("not enough")

    monkeypatch.setattr(draft, "build_parts", build)
    rules, live = started()
    with pytest.warns(RuntimeWarning, match="background failed .MemoryError: not enough"):
        add_until_merged(rules, live)
    assert list(rules.match(EVENTS).sorted()) == expected(live)
    monkeypatch.undo()
    monkeypatch.setattr(draft, "_SMALL", 16)
    for number in range(200):
        live[3000 + number] = condition(number)
        rules.add(3000 + number, condition(number))
    assert rules.plan().parts[0].role == "base"
    assert list(rules.match(EVENTS).sorted()) == expected(live)


def test_a_change_that_fails_takes_back_a_merge(small, gate):
    rules, live = started()
    merge, changed = rules._draft._merge, rules._draft._changes
    table = [{"id": 5000 + i, "where": "n > 1" if i < 99 else "n >"} for i in range(100)]
    with pytest.raises(tocsin.TocsinError):
        rules.add_many(table)
    assert (rules._draft._merge, rules._draft._changes) == (merge, changed)
    gate.set()
    add_until_merged(rules, live)
    assert list(rules.match(EVENTS).sorted()) == expected(live)


def test_a_merge_that_gives_codes_anew(small):
    """Values that no rule mentions any more are forgotten, also by merges on threads."""
    rules = tocsin.Rules(SCHEMA)
    rules.add_many([{"id": -1 - i, "where": condition(i)} for i in range(64)])
    for number in range(4000):
        rules.add(number, f"c = 'value {number}'")
        if number >= 40:
            rules.remove(number - 40)
    assert len(rules._draft.categories) < 2500
    assert list(rules.match({"c": "value 3999"})) == [(0, 3999)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_merges_itself(small, gate):
    rules, live = started()
    child = os.fork()
    if not child:
        try:
            gate.set()
            add_until_merged(rules, live)
            same = list(rules.match(EVENTS).sorted()) == expected(live)
            os._exit(0 if same else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


EXIT = """
import pickle
import tocsin
rules = tocsin.Rules({"n": "integer"})
while rules._draft._merge is None:
    rules.add(len(rules), f"n >= {len(rules)}")
    assert len(rules) < 10_000
copy = pickle.loads(pickle.dumps(rules))
for each in (rules, copy):
    assert len(each.match({"n": 500})) == 501
print(len(copy) == len(rules))
"""


def test_pickling_and_the_end_of_the_process_during_a_merge():
    run = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "True\n", "")


def test_changes_wait_in_moments_for_a_merge_that_is_used_soon(small, gate, monkeypatch):
    """So that none waits for all of it; the first three quarters do not wait."""
    monkeypatch.setattr(merging, "_MOMENT", 60.0)
    rules, live = started()
    merge = rules._draft._merge
    while rules._draft._changes < merge.until - merge.patience // 4 - 1:
        add_one(rules, live)
    assert merge._thread.is_alive()
    gate.set()
    add_one(rules, live)
    assert not merge._thread.is_alive()
    assert rules._draft._merge is merge
    assert list(rules.match(EVENTS).sorted()) == expected(live)
