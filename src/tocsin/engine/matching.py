"""Events through the parts of segments: candidates, accept, finish, in blocks.

Each part proposes and accepts into a buffer of its own that is small enough to stay in cache; the
accepted runs of all parts are then joined event by event. Only the final result of `match` is
fresh memory, and it is touched once: first touch of a page costs more than finding what is
written to it.

All of this is on one thread; `engine/threaded_run.py` gives ranges of events to several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.engine.buffers import ROOM, Buffer, buffer_pool
from tocsin.engine.segment import LivePart, RuleDirectory
from tocsin.index.finish import BestRules, EventWeights
from tocsin.jit import Int32Out, Int32s, Int64Out, Int64s, kernel
from tocsin.model.event_ranges import EventRange
from tocsin.model.events import Events
from tocsin.model.keys import EventBatch
from tocsin.model.matches import Counters, Matches


@dataclass(frozen=True)
class Run:
    """One run of events through the parts of segments."""

    parts: Sequence[LivePart]
    ids: RuleDirectory
    width: int  # attributes of the schema
    events: Events | EventRange

    def blocks(self, pooled: bool = False) -> Iterator[Matches]:
        """Yield matches of successive events; a block's arrays are valid until the next.

        Buffers are `pooled` only for a caller who takes all blocks at once: a generator may be
        suspended for good.
        """
        buffers = self._buffers(pooled)
        joined = np.empty(0, np.int32)
        before = Counters(0, 0, 0)
        for first, events in self._rounds(buffers):
            if len(buffers) == 1:
                offsets, rules = buffers[0].offsets[: events + 1], buffers[0].out
            else:
                offsets = _sum_offsets(buffers, events)
                if len(joined) < offsets[-1]:
                    joined = np.empty(int(offsets[-1]), np.int32)
                _join(buffers, offsets, joined)
                rules = joined
            matched = int(offsets[-1])
            now = _counters(buffers, matched)
            spent = now.candidates - before.candidates, now.evaluated - before.evaluated
            before = now
            counters = Counters(*spent, matched)
            yield Matches(offsets, rules[:matched], self.ids, None, first, counters)
        if pooled:
            buffer_pool.give_back(buffers)

    def match(self) -> Matches:
        """Return all matches in fresh arrays."""
        if len(self.parts) == 1:
            return self._match_in_place(self.parts[0])
        n = len(self.events)
        offsets = np.zeros(n + 1, np.int64)
        rules = np.empty(0, np.int32)
        size = 0
        buffers = self._buffers()
        for first, events in self._rounds(buffers):
            ends = _sum_offsets(buffers, events)
            ends += size
            found = int(ends[-1])
            if found > len(rules):
                rules = _enlarged(rules, size, found, found * n // (first + events))
            _join(buffers, ends, rules)
            offsets[first : first + events + 1] = ends
            size = found
        buffer_pool.give_back(buffers)
        return Matches(offsets, rules[:size], self.ids, counters=_counters(buffers, size))

    def _match_in_place(self, live: LivePart) -> Matches:
        """Return all matches of the only part, written straight to where they stay.

        Candidates are accepted and folded there, block by block. The whole result is allocated
        once the first events have shown how much they match.
        """
        n, width, part = len(self.events), self.width, live.part
        most = part.conjunctions.size
        offsets = np.empty(n + 1, np.int64)
        offsets[0] = 0
        buffer = Buffer(live, n)
        rules, pooled = buffer.out, True
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
                    enlarged = _enlarged(rules, size, size + most, size * n // done + most)
                    if pooled:
                        buffer_pool.give_back([buffer])
                        pooled = False
                    rules = enlarged
        if pooled:
            rules = rules[:size].copy()  # first: once given back, another match may write there
            buffer_pool.give_back([buffer])
        counters = Counters(buffer.candidates, buffer.evaluated, size)
        return Matches(offsets, rules[:size], self.ids, counters=counters)

    def count(self) -> np.ndarray:
        """Return how many rules each event matches."""
        counts = np.zeros(len(self.events), np.int64)
        buffers: dict[int, Buffer] = {}
        width = self.width
        before = 0
        for keys in self.events.blocks():
            of_block = counts[before : before + keys.size]
            # A rule is in one part, so their counts add up.
            for number, live in enumerate(self.parts):
                part = live.part
                index = part.index
                plain = part.single and index.proven and not len(live.removed)
                if plain and index.counts and not keys.has_ranges:
                    index.count(EventBatch.whole(keys, width), of_block)
                    continue
                if number not in buffers:
                    buffers[number] = Buffer(live, len(self.events))
                buffer, first = buffers[number], 0
                while first < keys.size:
                    batch = EventBatch(keys, width, first, keys.size)
                    stop = buffer.propose(batch)
                    buffer.to_rules(batch._replace(stop=stop))
                    of_block[first:stop] += np.diff(buffer.offsets[: stop - first + 1])
                    first = stop
            before += keys.size
        buffer_pool.give_back(list(buffers.values()))
        return counts

    def top(self, k: int, weights: EventWeights) -> Matches:
        """Return each event's k best rules, best first."""
        n, width = len(self.events), self.width
        at_once = max(1, ROOM // k)  # events whose lists are held together
        buffers = self._buffers()
        offsets = np.zeros(n + 1, np.int64)
        rules, scores = [np.empty(0, np.int32)], [np.empty(0)]
        before = 0
        for keys in self.events.blocks():
            for first in range(0, keys.size, at_once):
                events = min(at_once, keys.size - first)
                batch = EventBatch(keys, width, first, first + events)
                own_weights = weights.of_events(before + first, before + first + events)
                sizes = np.zeros(events, np.int64)
                best = BestRules(
                    k, False, sizes, np.empty(events * k, np.int32), np.empty(events * k)
                )
                for buffer in buffers:
                    buffer.keep_best(batch, own_weights, best)
                filled: Any = slice(int(sizes[0]))  # cheaper than a mask
                if events > 1:
                    filled = (np.arange(k) < sizes[:, None]).reshape(-1)
                rules.append(best.rules[filled])
                scores.append(best.scores[filled])
                offsets[before + first + 1 : before + first + events + 1] = sizes
            before += keys.size
        buffer_pool.give_back(buffers)
        np.cumsum(offsets, out=offsets)
        all_rules = np.concatenate(rules)
        counters = _counters(buffers, len(all_rules))
        return Matches(offsets, all_rules, self.ids, np.concatenate(scores), counters=counters)

    def _buffers(self, pooled: bool = True) -> list[Buffer]:
        return [Buffer(part, len(self.events), pooled) for part in self.parts]

    def _rounds(self, buffers: list[Buffer]) -> Iterator[tuple[int, int]]:
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


def _counters(buffers: Sequence[Buffer], matched: int) -> Counters:
    candidates = sum(buffer.candidates for buffer in buffers)
    return Counters(candidates, sum(buffer.evaluated for buffer in buffers), matched)


def _enlarged(rules: np.ndarray, size: int, wanted: int, expected: int) -> np.ndarray:
    """Return a larger array with the first `size` rules, with room for `wanted` at least.

    And for as many as are expected, since what is never touched costs nothing, and a second copy
    much; but not too many more, since the events so far may not be like the others.
    """
    room = min(expected * 9 // 8, 64 * wanted + ROOM)
    enlarged = np.empty(max(wanted, room), np.int32)
    enlarged[:size] = rules[:size]
    return enlarged


# ------------------------------------------------------------ several parts


def _sum_offsets(buffers: Sequence[Buffer], events: int) -> np.ndarray:
    """Return where the matches of events end, those of all buffers together."""
    offsets: np.ndarray = np.zeros(events + 1, np.int64)
    for buffer in buffers:
        offsets += buffer.offsets[: events + 1]
    return offsets


def _join(buffers: Sequence[Buffer], offsets: np.ndarray, out: np.ndarray) -> None:
    """Copy the matches of all buffers to `out`, event by event as `offsets` say."""
    cursor = offsets[:-1].copy()
    for buffer in buffers:
        scatter_runs(buffer.offsets[: len(offsets)], buffer.out, cursor, out)


@kernel
def scatter_runs(offsets: Int64s, rules: Int32s, cursor: Int64Out, out: Int32Out) -> None:
    """Copy each event's run of rules to where its cursor stands, and move the cursor."""
    for i in range(cursor.shape[0]):
        at = np.uint64(cursor[i])
        for j in range(np.uint64(offsets[i]), np.uint64(offsets[i + 1])):
            out[at] = rules[j]
            at += np.uint64(1)
        cursor[i] = at
