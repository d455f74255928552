"""Buffers for candidates: small enough to stay in cache, and reused by the next match."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import cast

import numpy as np

from tocsin.engine.probabilities.ranges import Uncertainty
from tocsin.engine.segment import LivePart
from tocsin.index.accept import accept, accept_ranges
from tocsin.index.finish import BestRules, EventWeights, fold, keep_best, to_rules
from tocsin.index.protocol import PruningIndex
from tocsin.model.keys import EventBatch

ROOM = 1 << 20  # candidates a buffer holds beyond one event's maximum: 4 MiB
MOST_KEPT = 1 << 24  # candidates of the largest buffer that a thread keeps: 64 MiB


class BufferPool(threading.local):
    """Free buffers of a thread, reused by its next match.

    Touching fresh memory takes longer than matching a single event. Buffers in use are not in the
    pool, so a nested match (in a signal handler or a finalizer) takes another one.
    """

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []

    def take(self, size: int) -> np.ndarray:
        """Return an array with room for `size` candidates."""
        while self._free:
            array = self._free.pop()
            if len(array) >= size:
                return array
        return np.empty(size, np.int32)

    def give_back(self, buffers: Sequence[Buffer]) -> None:
        """Keep the arrays of buffers for the next match, which overwrites them."""
        # `take` pops from the end: the same parts then get the same buffers.
        self._free = [b.out for b in reversed(buffers) if b.out.size <= MOST_KEPT]


buffer_pool = BufferPool()


class Buffer:
    """The candidates of one part of a segment, with counters of the work so far."""

    def __init__(self, *parts: LivePart, events: int, pooled: bool = True):
        self.hold(parts[0])
        # One event needs room for every conjunction; a single event gets no more.
        size = sum(live.part.conjunctions.size for live in parts) + (ROOM if events > 1 else 0)
        self.out = buffer_pool.take(size) if pooled else np.empty(size, np.int32)
        self.offsets = np.empty(0, np.int64)
        self.candidates = 0
        self.evaluated = 0

    def hold(self, live: LivePart) -> None:
        """Take the candidates of a part from now on; there must be room for them."""
        self.live = live
        self.part, self.removed, _ = live

    def propose(self, batch: EventBatch) -> int:
        """Propose candidates for the events of a batch; return the first event not processed."""
        if len(self.offsets) < batch.size + 1:
            self.offsets = np.empty(batch.size + 1, np.int64)
        self.offsets[0] = 0
        return self.part.index_for(batch.keys).candidates(batch, self.offsets, self.out)

    def accept(self, batch: EventBatch, uncertainty: Uncertainty | None) -> None:
        """Keep the candidates that hold for the events of a batch and pass the filters."""
        part = self.part
        self.candidates += int(self.offsets[batch.size] - self.offsets[0])
        if not part.index_for(batch.keys).proven:
            evaluate = accept_ranges if batch.keys.has_ranges else accept
            self.evaluated += evaluate(part.conjunctions, batch, self.offsets, self.out)
        for each in self.live.filters:
            if each.applies(batch.keys):
                each.keep(batch, uncertainty, self.offsets, self.out)

    def to_rules(self, batch: EventBatch, uncertainty: Uncertainty | None) -> None:
        """Replace candidates by the live rules that match, each once."""
        part, removed = self.part, self.removed
        self.accept(batch, uncertainty)
        offsets = self.offsets[: batch.size + 1]
        if not part.single:
            fold(part.conjunctions, removed, offsets, self.out)
        elif len(removed) or not part.numbered:
            to_rules(part.conjunctions.rule, removed, offsets, self.out)

    def keep_best(
        self,
        batch: EventBatch,
        uncertainty: Uncertainty | None,
        weights: EventWeights,
        best: BestRules,
    ) -> None:
        """Merge the part's matches into the k best rules of each event of a batch."""
        part = self.part
        if best.unique != part.single:
            best = best._replace(unique=part.single)
        index = part.index_for(batch.keys)
        if index.prunes and not self.live.is_filtered(batch.keys):
            candidates, evaluated = cast(PruningIndex, index).best(
                batch, weights, self.removed, best
            )
            self.candidates += candidates
            self.evaluated += evaluated
            return
        done = batch.first
        while done < batch.stop:
            rest = batch if done == batch.first else batch._replace(first=done)
            stop = self.propose(rest)
            self.accept(rest.until(stop), uncertainty)
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
