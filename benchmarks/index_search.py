"""Search an index as the papers do: events are already keys, and memory is reused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tocsin.index.accept import accept
from tocsin.index.finish import BestRules, EventWeights, keep_best
from tocsin.index.registry import INDEXES
from tocsin.jit import freeze
from tocsin.model.conjunctions import Conjunctions, select
from tocsin.model.keys import EventBatch, Keys

_ROOM = 1 << 20  # candidates per block, besides those of one event; chosen
_EVENTS = 1 << 16  # events per call that finds the k best; chosen
_NONE_REMOVED = np.empty(0, np.uint8)

Best = tuple[np.ndarray, np.ndarray, np.ndarray]  # sizes, rules and scores


class IndexSearch:
    """An index over rules of one conjunction each, and the events to search it with."""

    def __init__(self, index: Any, keys: Keys, width: int):
        self.index, self.keys, self.width = index, keys, width
        self.size, self.events = index.conjunctions.size, keys.size
        self.nbytes = index.nbytes
        self.looked_at = 0  # members of leaves, or candidates, by the last call of `find_best`
        self.out = np.empty(0, np.int32)
        self.offsets = np.empty(keys.size + 1, np.int64)
        empty = np.empty(0)
        self.weights = EventWeights(
            freeze(np.ones(width), np.float64),
            freeze(empty, np.int64),
            freeze(empty, np.int32),
            freeze(empty, np.float64),
        )

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        """Write the rules that hold instead of candidates; otherwise like `Index.candidates`."""
        stop = self.index.candidates(EventBatch(self.keys, self.width, first, stop), offsets, out)
        if not self.index.proven:
            batch = EventBatch(self.keys, self.width, first, stop)
            accept(self.index.conjunctions, batch, offsets, out)
        return stop

    def blocks(self, events: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield the first event, offsets and rules of successive blocks; the arrays are reused."""
        if not len(self.out):
            self.out = np.empty(self.size + _ROOM, np.int32)
        first = 0
        while first < events:
            self.offsets[0] = 0
            stop = self.search(first, events, self.offsets, self.out)
            yield first, self.offsets[: stop - first + 1], self.out
            first = stop

    def match(self, events: int) -> None:
        """Find all rules that hold, and discard them."""
        for _ in self.blocks(events):
            pass

    def find_best(self, k: int, events: int) -> Best:
        """Return each event's k best rules with the index's own pruning."""
        lists = _allocate_lists(k, events)
        self.looked_at = 0
        for first in range(0, events, _EVENTS):
            stop = min(first + _EVENTS, events)
            batch = EventBatch(self.keys, self.width, first, stop)
            best = BestRules(k, True, *lists).of_events(first, stop)
            self.looked_at += self.index.best(batch, self.weights, _NONE_REMOVED, best)[0]
        return lists

    def scan_best(self, k: int, events: int) -> Best:
        """Return each event's k best rules by scoring all that hold, without pruning."""
        lists = _allocate_lists(k, events)
        for first, offsets, rules in self.blocks(events):
            stop = first + len(offsets) - 1
            best = BestRules(k, True, *lists).of_events(first, stop)
            c = self.index.conjunctions
            keep_best(c, _NONE_REMOVED, self.weights, offsets, rules, best)
        return lists


def build_by_insertion(c: Conjunctions, floats: np.ndarray, **options: Any) -> Any:
    """Return a BE*-tree into which the conjunctions were inserted one after another."""
    tree = INDEXES["bestar"].build(select(c, np.zeros(c.size, bool)), floats, **options)
    tree.insert(c)
    return tree


def _allocate_lists(k: int, events: int) -> Best:
    return np.zeros(events, np.int64), np.zeros(events * k, np.int32), np.zeros(events * k)


def check_same(what: str, one: Best, other: Best) -> None:
    """Raise unless two results have the same rules and scores in the same order."""
    for name, a, b in zip(("sizes", "rules", "scores"), one, other, strict=True):
        if not np.array_equal(a, b):
            i = int(np.flatnonzero(a != b)[0])
            raise AssertionError(f"{what}: {name} differ, first at {i}: {a[i]} and {b[i]}")
