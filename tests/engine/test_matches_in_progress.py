"""A match sees the rules as they were when it began, all of them, whatever happens meanwhile."""

import threading

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tocsin.model import events as reading

SCHEMA = {"x": "number", "n": "integer"}
EVENTS = 600  # of which a block has 256 below


class Event(dict):
    """An event that does something when it is read."""

    def __init__(self, action):
        super().__init__(x=1.0, n=1)
        self.action = action

    def items(self):
        self.action()
        return super().items()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", 256)


def replace(rules):
    rules.replace("all", "x > 0")


def remove(rules):
    rules.remove("all")


def remove_many(rules):
    rules.remove_many([i for i in rules if i != "two"])


def replace_and_merge(rules):
    rules.replace("all", "x > 0")
    rules.merge()


CHANGES = [replace, remove, remove_many, replace_and_merge]
QUESTIONS = {
    "match": lambda rules, events: np.diff(rules.match(events).offsets),
    "blocks": lambda rules, events: np.concatenate(
        [np.diff(block.offsets) for block in rules.match_blocks(events)]
    ),
    "count": lambda rules, events: rules.count(events),
    "top": lambda rules, events: np.diff(rules.top(events, k=9).offsets),
}


def made(index, parts):
    """Return rules of which all match: one conjunction each, or one with two."""
    rules = tocsin.Rules(SCHEMA, index=index)
    rules.add("all", "x > 0")
    rules.add("two", "x > 0 OR n > 5")
    rules.add("other", "n = 1")
    if parts != "recent":
        rules.merge()
    if parts == "both":
        rules.add("late", "n >= 0")
    return rules


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("parts", ["recent", "base", "both"])
@pytest.mark.parametrize("index", ["auto", "keyed"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_change_in_the_middle_is_not_seen(question, index, parts, change):
    rules = made(index, parts)
    matching = len(rules)
    events = [{"x": 1.0, "n": 1}] * EVENTS
    events[EVENTS // 2] = Event(lambda: change(rules))
    assert QUESTIONS[question](rules, events).tolist() == [matching] * EVENTS
    after = rules.count([{"x": 1.0, "n": 1}])
    assert after.tolist() == [len(rules)]


def test_a_change_between_two_blocks_is_not_seen():
    rules = made("auto", "base")
    seen = []
    for number, block in enumerate(rules.match_blocks([{"x": 1.0, "n": 1}] * EVENTS)):
        seen += np.diff(block.offsets).tolist()
        if number == 1:
            rules.replace("all", "x > 0")
            rules.remove("other")
    assert seen == [3] * EVENTS
    assert rules.count({"x": 1.0, "n": 1}).tolist() == [2]


def test_a_copy_is_changed_apart_from_matches_of_the_first():
    rules = made("auto", "base")
    twin = rules.copy()
    events = [{"x": 1.0, "n": 1}] * EVENTS
    events[EVENTS // 2] = Event(lambda: twin.remove_many(["all", "two"]))
    assert rules.count(events).tolist() == [3] * EVENTS
    assert twin.count({"x": 1.0, "n": 1}).tolist() == [1]


def test_threads_replace_while_others_match():
    rules = made("auto", "base")
    events = pa.table({"x": np.ones(20_000), "n": np.ones(20_000, np.int64)})
    stop = threading.Event()

    def keep_replacing():
        while not stop.is_set():
            rules.replace("all", "x > 0")

    thread = threading.Thread(target=keep_replacing)
    thread.start()
    try:
        for _ in range(5):
            assert set(rules.count(events).tolist()) == {3}
            assert len(rules.match(events)) == 3 * 20_000
            assert len(rules.top(events, 3)) == 3 * 20_000
    finally:
        stop.set()
        thread.join()
