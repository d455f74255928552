"""Events through segments: candidates, accept, finish, in blocks whose memory is reused.

Each part of a segment proposes and accepts into a buffer of its own that is small enough to stay
in cache; the accepted runs are then laid together event by event. Only the final result
of `match` is fresh memory, and it is touched once: first touch of a page costs more
than finding what is written to it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tocsin.engine.segment import LivePart, Rosters
from tocsin.errors import EventError, TocsinError
from tocsin.index.accept import accept, accept_ranges
from tocsin.index.finish import BestRules, EventWeights, fold, keep_best, to_rules
from tocsin.index.protocol import PruningIndex
from tocsin.jit import Int32Out, Int32s, Int64Out, Int64s, freeze, kernel
from tocsin.model.arrow import translate_errors
from tocsin.model.events import Events, is_sparse, map_entries
from tocsin.model.keys import EventBatch
from tocsin.model.matches import Counters, Matches
from tocsin.model.schema import Schema
from tocsin.model.weights import check_weight

_ROOM = 1 << 20  # candidates a buffer holds beyond one event's most: 4 MiB
_MOST_KEPT = 1 << 24  # candidates of a buffer that a thread may keep: 64 MiB


class _Kept(threading.local):
    """Buffers that a thread keeps from one match to the next: a fresh one costs more to touch
    than a single event takes to match. One that is in use is not here, so a match within a match
    (a signal handler's, a finalizer's) takes another.
    """

    def __init__(self) -> None:
        self.buffers: list[np.ndarray] = []

    def take(self, size: int) -> np.ndarray:
        while self.buffers:
            found = self.buffers.pop()
            if len(found) >= size:
                return found
        return np.empty(size, np.int32)

    def give_back(self, buffers: Sequence[_Buffer]) -> None:
        # Taken from the end: the same parts then find the same buffers.
        self.buffers = [b.out for b in reversed(buffers) if b.out.size <= _MOST_KEPT]


_kept = _Kept()


class _Buffer:
    """Where the candidates of one part go, and what has been counted."""

    def __init__(self, live: LivePart, events: int, kept: bool = False):
        part = live.part
        self.part, self.removed = live
        # One event needs a place per conjunction; a single event gets no more.
        size = part.conjunctions.size + (_ROOM if events > 1 else 0)
        self.out = _kept.take(size) if kept else np.empty(size, np.int32)
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
        of_values = accept_ranges if batch.keys.has_ranges else accept
        self.evaluated += of_values(part.conjunctions, batch, self.offsets, self.out)

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

    def to_rules(self, batch: EventBatch) -> None:
        """Make rules of the candidates: those that hold and were not removed, each once."""
        part, removed = self.part, self.removed
        self.accept(batch)
        offsets = self.offsets[: batch.size + 1]
        if not part.single:
            fold(part.conjunctions, removed, offsets, self.out)
        elif len(removed) or not part.numbered:
            to_rules(part.conjunctions.rule, removed, offsets, self.out)


@dataclass(frozen=True)
class Run:
    """One run of events through the parts of segments."""

    parts: Sequence[LivePart]
    ids: Rosters
    width: int  # attributes of the schema
    events: Events

    def _buffers(self, kept: bool) -> list[_Buffer]:
        return [_Buffer(part, len(self.events), kept) for part in self.parts]

    def _rounds(self, buffers: list[_Buffer]) -> Iterator[tuple[int, int]]:
        """Yield (first event, number of events) with what they match in the buffers."""
        before = 0
        for keys in self.events.blocks():
            first = 0
            while first < keys.size:
                batch = EventBatch(keys, self.width, first, keys.size)
                for buffer in buffers:  # none goes further than the one before
                    batch = batch._replace(stop=buffer.propose(batch))
                for buffer in buffers:
                    buffer.to_rules(batch)
                yield before + first, batch.size
                first = batch.stop
            before += keys.size

    def blocks(self) -> Iterator[Matches]:
        """Yield matches of successive events; a block's arrays are valid until the next."""
        buffers = self._buffers(False)
        joined = np.empty(0, np.int32)
        matched = 0
        seen = (0, 0)
        for first, events in self._rounds(buffers):
            if len(buffers) == 1:
                offsets, rules = buffers[0].offsets[: events + 1], buffers[0].out
            else:
                offsets = _summed(buffers, events)
                if len(joined) < offsets[-1]:
                    joined = np.empty(int(offsets[-1]), np.int32)
                _lay_together(buffers, offsets, joined)
                rules = joined
            matched = int(offsets[-1])
            now = sum(b.candidates for b in buffers), sum(b.evaluated for b in buffers)
            counters = Counters(now[0] - seen[0], now[1] - seen[1], matched)
            seen = now
            yield Matches(offsets, rules[:matched], self.ids, None, first, counters)

    def match(self) -> Matches:
        """Return all matches in fresh arrays."""
        if len(self.parts) == 1:
            return self._match_in_place(self.parts[0])
        n = len(self.events)
        offsets = np.zeros(n + 1, np.int64)
        rules = np.empty(0, np.int32)
        size = 0
        buffers = self._buffers(True)
        for first, events in self._rounds(buffers):
            some = _summed(buffers, events)
            some += size
            found = int(some[-1])
            if found > len(rules):
                rules = _grown(rules, size, found, found * n // (first + events))
            _lay_together(buffers, some, rules)
            offsets[first : first + events + 1] = some
            size = found
        _kept.give_back(buffers)
        counted = sum(b.candidates for b in buffers), sum(b.evaluated for b in buffers)
        return Matches(offsets, rules[:size], self.ids, counters=Counters(*counted, size))

    def _match_in_place(self, live: LivePart) -> Matches:
        """Return all matches of the only part, written straight to where they stay.

        Candidates are accepted and folded there, block by block. The result is asked for whole
        once a few events have told how much they match.
        """
        n, width, part = len(self.events), self.width, live.part
        most = part.conjunctions.size
        offsets = np.empty(n + 1, np.int64)
        offsets[0] = 0
        buffer = _Buffer(live, n, True)
        rules, kept = buffer.out, True
        size = done = 0
        for keys in self.events.blocks():
            first = 0
            while first < keys.size:
                buffer.out, buffer.offsets = rules, offsets[done:]
                batch = EventBatch(keys, width, first, keys.size)
                stop = part.index_for(keys).candidates(batch, buffer.offsets, rules)
                buffer.to_rules(batch._replace(stop=stop))
                done += stop - first
                first = stop
                size = int(offsets[done])
                if done < n and size + most > len(rules):
                    grown = _grown(rules, size, size + most, size * n // done + most)
                    if kept:
                        _kept.give_back([buffer])
                        kept = False
                    rules = grown
        if kept:
            rules = rules[:size].copy()  # first: once given back, another match may write there
            _kept.give_back([buffer])
        counters = Counters(buffer.candidates, buffer.evaluated, size)
        return Matches(offsets, rules[:size], self.ids, counters=counters)

    def count(self) -> np.ndarray:
        """Return how many rules each event matches."""
        counts = np.zeros(len(self.events), np.int64)
        buffers: dict[int, _Buffer] = {}
        width = self.width
        before = 0
        for keys in self.events.blocks():
            some = counts[before : before + keys.size]
            # A rule is in one part, so their counts add up.
            for number, live in enumerate(self.parts):
                part = live.part
                index = part.index
                plain = part.single and index.proven and not len(live.removed)
                if plain and index.counts and not keys.has_ranges:
                    index.count(EventBatch.whole(keys, width), some)
                    continue
                if number not in buffers:
                    buffers[number] = _Buffer(live, len(self.events), True)
                buffer, first = buffers[number], 0
                while first < keys.size:
                    batch = EventBatch(keys, width, first, keys.size)
                    stop = buffer.propose(batch)
                    buffer.to_rules(batch._replace(stop=stop))
                    some[first:stop] += np.diff(buffer.offsets[: stop - first + 1])
                    first = stop
            before += keys.size
        _kept.give_back(list(buffers.values()))
        return counts

    def top(self, k: int, weights: EventWeights) -> Matches:
        """Return each event's k best rules, best first."""
        n, width = len(self.events), self.width
        at_once = max(1, _ROOM // k)  # events whose lists are held together
        buffers = self._buffers(True)
        offsets = np.zeros(n + 1, np.int64)
        rules, scores = [np.empty(0, np.int32)], [np.empty(0)]
        before = 0
        for keys in self.events.blocks():
            for first in range(0, keys.size, at_once):
                events = min(at_once, keys.size - first)
                batch = EventBatch(keys, width, first, first + events)
                own = weights.of_events(before + first, before + first + events)
                sizes = np.zeros(events, np.int64)
                best = BestRules(
                    k, False, sizes, np.empty(events * k, np.int32), np.empty(events * k)
                )
                for buffer in buffers:
                    buffer.keep_best(batch, own, best)
                filled: Any = slice(int(sizes[0]))  # cheaper than a mask
                if events > 1:
                    filled = (np.arange(k) < sizes[:, None]).reshape(-1)
                rules.append(best.rules[filled])
                scores.append(best.scores[filled])
                offsets[before + first + 1 : before + first + events + 1] = sizes
            before += keys.size
        _kept.give_back(buffers)
        np.cumsum(offsets, out=offsets)
        counted = sum(b.candidates for b in buffers), sum(b.evaluated for b in buffers)
        all_rules = np.concatenate(rules)
        counters = Counters(*counted, len(all_rules))
        return Matches(offsets, all_rules, self.ids, np.concatenate(scores), counters=counters)


def _summed(buffers: Sequence[_Buffer], events: int) -> np.ndarray:
    """Return where the matches of events end, those of all buffers together."""
    offsets: np.ndarray = np.zeros(events + 1, np.int64)
    for buffer in buffers:
        offsets += buffer.offsets[: events + 1]
    return offsets


def _lay_together(buffers: Sequence[_Buffer], offsets: np.ndarray, out: np.ndarray) -> None:
    """Copy the matches of events, buffer by buffer, to where theirs are to be."""
    cursor = offsets[:-1].copy()
    for buffer in buffers:
        lay_in(buffer.offsets[: len(offsets)], buffer.out, cursor, out)


def _grown(rules: np.ndarray, size: int, wanted: int, expected: int) -> np.ndarray:
    """Return a larger array with the first `size` rules, with room for `wanted` at least.

    And for as many as are expected, since what is never touched costs nothing, and a second copy
    much; but not too many more, since the events so far may not be like the others.
    """
    room = min(expected * 9 // 8, 64 * wanted + _ROOM)
    grown = np.empty(max(wanted, room), np.int32)
    grown[:size] = rules[:size]
    return grown


@kernel
def lay_in(offsets: Int64s, found: Int32s, cursor: Int64Out, out: Int32Out) -> None:
    """Copy each event's run of rules to where its cursor stands, and move the cursor."""
    for i in range(cursor.shape[0]):
        at = np.uint64(cursor[i])
        for j in range(np.uint64(offsets[i]), np.uint64(offsets[i + 1])):
            out[at] = found[j]
            at += np.uint64(1)
        cursor[i] = at


def event_weights(given: Any, events: int, schema: Schema) -> EventWeights:
    """Return weights of events: none, a dict for all, or one for each (a list, an Arrow map)."""
    if given is None:
        return _no_weights(len(schema))
    common = np.ones(len(schema))
    offsets: Any = []
    attributes: Any = []
    weights: Any = []
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    try:
        if isinstance(given, Mapping):
            for attribute, weight in _weights_of(given, schema):
                common[attribute] = weight
        elif isinstance(given, pa.MapArray) and is_sparse(given.type):
            offsets, attributes, items = map_entries(given, schema, None)
            with translate_errors(EventError, "maps must be from attribute to number"):
                weights = np.asarray(items.cast(pa.float64()).fill_null(1.0))
            bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
            if len(bad):
                check_weight(schema.name(int(attributes[bad[0]])), float(weights[bad[0]]))
        elif isinstance(given, list | tuple):
            offsets = [0]
            for each in given:
                for attribute, weight in _weights_of(each or {}, schema):
                    attributes.append(attribute)
                    weights.append(weight)
                offsets.append(len(weights))
        else:
            raise EventError(
                "expected a dict from attribute to weight, or one for each event (a list or an "
                f"Arrow array of maps); got {type(given).__name__}"
            )
        if len(offsets) and len(offsets) != events + 1:
            raise EventError(f"there are {events} events, but weights for {len(offsets) - 1}")
    except TocsinError as error:
        raise EventError(f"weights of events: {error}") from None
    return EventWeights(
        freeze(common, np.float64),
        freeze(np.asarray(offsets), np.int64),
        freeze(np.asarray(attributes), np.int32),
        freeze(np.asarray(weights), np.float64),
    )


@functools.lru_cache(maxsize=8)
def _no_weights(attributes: int) -> EventWeights:
    """Return weights that are all 1: one event at a time, making them is a tenth of the work."""
    none = np.empty(0)
    return EventWeights(
        freeze(np.ones(attributes), np.float64), freeze(none, np.int64), freeze(none, np.int32),
        freeze(none, np.float64),
    )  # fmt: skip


def _weights_of(weights: Mapping[str, Any], schema: Schema) -> Iterator[tuple[int, float]]:
    if not isinstance(weights, Mapping):
        raise EventError(f"expected a dict for each event, got {type(weights).__name__}")
    for name, weight in weights.items():
        if weight is not None:
            yield schema.index(str(name)), check_weight(name, weight)
