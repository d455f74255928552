"""An index asked as the papers ask: events are keys already, and memory is reused."""

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

_ROOM = 1 << 20  # candidates that a block has room for, besides those of one event
_AT_ONCE = 1 << 16  # events whose lists of the best are held together
_NONE_REMOVED = np.empty(0, np.uint8)

Best = tuple[np.ndarray, np.ndarray, np.ndarray]  # sizes, rules and scores


class Asked:
    """An index over rules of one conjunction each, and the events it is asked with."""

    def __init__(self, index: Any, keys: Keys, width: int):
        self.index, self.keys, self.width = index, keys, width
        self.size, self.events = index.conjunctions.size, keys.size
        self.nbytes = index.nbytes
        self.out = np.empty(0, np.int32)
        self.offsets = np.empty(keys.size + 1, np.int64)
        nothing = np.empty(0)
        self.weights = EventWeights(
            freeze(np.ones(width), np.float64),
            freeze(nothing, np.int64),
            freeze(nothing, np.int32),
            freeze(nothing, np.float64),
        )

    def ask(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        """Write the rules that hold, not only candidates; else as `Index.candidates`."""
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
            stop = self.ask(first, events, self.offsets, self.out)
            yield first, self.offsets[: stop - first + 1], self.out
            first = stop

    def match(self, events: int) -> None:
        """Find all that hold, and do nothing with it."""
        for _ in self.blocks(events):
            pass

    def best(self, k: int, events: int) -> Best:
        """Return each event's k best rules as the index finds them."""
        kept = _lists(k, events)
        for first in range(0, events, _AT_ONCE):
            stop = min(first + _AT_ONCE, events)
            batch = EventBatch(self.keys, self.width, first, stop)
            best = BestRules(k, True, *kept).of_events(first, stop)
            self.index.best(batch, self.weights, _NONE_REMOVED, best)
        return kept

    def scan(self, k: int, events: int) -> Best:
        """Return the same by scoring all that hold: nothing is pruned."""
        kept = _lists(k, events)
        for first, offsets, rules in self.blocks(events):
            stop = first + len(offsets) - 1
            best = BestRules(k, True, *kept).of_events(first, stop)
            c = self.index.conjunctions
            keep_best(c, _NONE_REMOVED, self.weights, offsets, rules, best)
        return kept


def grown(c: Conjunctions, floats: np.ndarray, **options: Any) -> Any:
    """Return a BE*-tree into which the conjunctions were inserted one after another."""
    tree = INDEXES["bestar"].build(select(c, np.zeros(c.size, bool)), floats, **options)
    tree.insert(c)
    return tree


def _lists(k: int, events: int) -> Best:
    return np.zeros(events, np.int64), np.zeros(events * k, np.int32), np.zeros(events * k)


def check_same(what: str, one: Best, other: Best) -> None:
    """Raise unless two ways found the same best rules with the same scores, in the same order."""
    for name, a, b in zip(("sizes", "rules", "scores"), one, other, strict=True):
        if not np.array_equal(a, b):
            at = int(np.flatnonzero(a != b)[0])
            raise AssertionError(f"{what}: other {name}, first at {at}: {a[at]} and {b[at]}")
