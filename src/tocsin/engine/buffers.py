"""Buffers for candidates: small enough to stay in cache, and kept from one match to the next."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import cast

import numpy as np

from tocsin.engine.segment import LivePart
from tocsin.index.accept import accept, accept_ranges
from tocsin.index.finish import BestRules, EventWeights, fold, keep_best, to_rules
from tocsin.index.protocol import PruningIndex
from tocsin.model.keys import EventBatch

ROOM = 1 << 20  # candidates a buffer holds beyond one event's most: 4 MiB
MOST_KEPT = 1 << 24  # candidates of a buffer that a thread may keep: 64 MiB


class BufferPool(threading.local):
    """Buffers that a thread keeps from one match to the next.

    A fresh one costs more to touch than a single event takes to match. One that is in use is not
    here, so a match within a match (a signal handler's, a finalizer's) takes another.
    """

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []

    def take(self, size: int) -> np.ndarray:
        """Return an array with room for so many candidates."""
        while self._free:
            found = self._free.pop()
            if len(found) >= size:
                return found
        return np.empty(size, np.int32)

    def give_back(self, buffers: Sequence[Buffer]) -> None:
        """Keep the arrays of buffers for the next match; what they hold is lost."""
        # Taken from the end: the same parts then find the same buffers.
        self._free = [b.out for b in reversed(buffers) if b.out.size <= MOST_KEPT]


buffer_pool = BufferPool()


class Buffer:
    """The candidates of one part of a segment, and what finding them cost so far."""

    def __init__(self, live: LivePart, events: int, pooled: bool = True):
        part = live.part
        self.part, self.removed = live
        # One event needs a place per conjunction; a single event gets no more.
        size = part.conjunctions.size + (ROOM if events > 1 else 0)
        self.out = buffer_pool.take(size) if pooled else np.empty(size, np.int32)
        self.offsets = np.empty(0, np.int64)
        self.candidates = 0
        self.evaluated = 0

    def propose(self, batch: EventBatch) -> int:
        """Propose candidates for the events of a batch; return the first event not answered."""
        if len(self.offsets) < batch.size + 1:
            self.offsets = np.empty(batch.size + 1, np.int64)
        self.offsets[0] = 0
        return self.part.index_for(batch.keys).candidates(batch, self.offsets, self.out)

    def accept(self, batch: EventBatch) -> None:
        """Keep the candidates that hold for the events of a batch."""
        part = self.part
        self.candidates += int(self.offsets[batch.size] - self.offsets[0])
        if part.index_for(batch.keys).proven:
            return
        evaluate = accept_ranges if batch.keys.ranged else accept
        self.evaluated += evaluate(part.conjunctions, batch, self.offsets, self.out)

    def to_rules(self, batch: EventBatch) -> None:
        """Turn the candidates into rules: those that hold and were not removed, each once."""
        part, removed = self.part, self.removed
        self.accept(batch)
        offsets = self.offsets[: batch.size + 1]
        if not part.single:
            fold(part.conjunctions, removed, offsets, self.out)
        elif len(removed) or not part.numbered:
            to_rules(part.conjunctions.rule, removed, offsets, self.out)

    def keep_best(self, batch: EventBatch, weights: EventWeights, best: BestRules) -> None:
        """Merge the part's matches into the lists of the k best of a batch's events."""
        part = self.part
        best = best._replace(unique=part.single)
        index = part.index_for(batch.keys)
        if index.prunes:
            seen = cast(PruningIndex, index).best(batch, weights, self.removed, best)
            self.candidates += seen[0]
            self.evaluated += seen[1]
            return
        done = batch.first
        while done < batch.stop:
            stop = self.propose(batch._replace(first=done))
            self.accept(batch._replace(first=done, stop=stop))
            events = done - batch.first, stop - batch.first
            keep_best(
                part.conjunctions,
                self.removed,
                weights.of_events(*events),
                self.offsets[: stop - done + 1],
                self.out,
                best.of_events(*events),
            )
            done = stop
