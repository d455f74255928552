"""Match events against the parts of segments in blocks: candidates, accept, finish.

Each part writes candidates to a buffer of its own that is small enough to stay in cache. The
accepted runs of all parts are then merged event by event. Only the final result of `match` is fresh
memory, and it is touched once: the first touch of a page costs more than finding the matches that
are written to it.

A run uses one thread; `engine/threaded_run.py` distributes ranges of events over several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.engine.buffers import ROOM, Buffer, buffer_pool
from tocsin.engine.probabilities.ranges import Uncertainty, uncertainty_of
from tocsin.engine.segment import LivePart, RuleDirectory
from tocsin.index.finish import BestRules, EventWeights
from tocsin.jit import Int32Out, Int32s, Int64Out, Int64s, kernel
from tocsin.model.event_densities import EventDensities
from tocsin.model.event_lines import EventLine
from tocsin.model.event_ranges import EventRange
from tocsin.model.events import Events
from tocsin.model.keys import EventBatch
from tocsin.model.matches import Counters, Matches


@dataclass(frozen=True)
class Run:
    """Events to match against the parts of segments."""

    parts: Sequence[LivePart]
    ids: RuleDirectory
    width: int  # attributes of the schema
    events: Events | EventRange | EventLine
    scale: np.ndarray | None = None  # what the keys of attributes are; None without thresholds

    def blocks(self, pooled: bool = False) -> Iterator[Matches]:
        """Yield matches of successive events; a block's arrays are valid until the next.

        Buffers may be `pooled` only if the caller takes all blocks: a suspended generator would
        never give them back.
        """
        buffers = self._buffers(pooled)
        merged = np.empty(0, np.int32)
        before = Counters(0, 0, 0)
        for first, events in self._rounds(buffers):
            if len(buffers) == 1:
                offsets, rules = buffers[0].offsets[: events + 1], buffers[0].out
            else:
                offsets = _sum_offsets(buffers, events)
                if len(merged) < offsets[-1]:
                    merged = np.empty(int(offsets[-1]), np.int32)
                _merge(buffers, offsets, merged)
                rules = merged
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
        if len(self.events) == 1 and self.parts:
            return self._match_one()
        n = len(self.events)
        offsets = np.zeros(n + 1, np.int64)
        rules = np.empty(0, np.int32)
        size = 0
        buffers = self._buffers()
        for first, events in self._rounds(buffers):
            ends = _sum_offsets(buffers, events)
            ends += size
            new_size = int(ends[-1])
            if new_size > len(rules):
                rules = _enlarge(rules, size, new_size, new_size * n // (first + events))
            _merge(buffers, ends, rules)
            offsets[first : first + events + 1] = ends
            size = new_size
        buffer_pool.give_back(buffers)
        return Matches(offsets, rules[:size], self.ids, counters=_counters(buffers, size))

    def _match_in_place(self, live: LivePart) -> Matches:
        """Return all matches of the only part, written directly to the result.

        Candidates are accepted and folded in the result, block by block. Its size is estimated from
        the first events.
        """
        n, width, part = len(self.events), self.width, live.part
        most = part.conjunctions.size
        offsets = np.empty(n + 1, np.int64)
        offsets[0] = 0
        buffer = Buffer(live, events=n)
        rules, pooled = buffer.out, True
        size = done = 0
        for keys, densities in self.events.blocks():
            uncertainty = self._uncertainty(densities)
            first = 0
            while first < keys.size:
                buffer.out, buffer.offsets = rules, offsets[done:]
                batch = EventBatch(keys, width, first, keys.size)
                stop = part.index_for(keys).candidates(batch, buffer.offsets, rules)
                buffer.to_rules(batch.until(stop), uncertainty)
                done += stop - first
                first = stop
                size = int(offsets[done])
                if done < n and size + most > len(rules):
                    larger = _enlarge(rules, size, size + most, size * n // done + most)
                    if pooled:
                        buffer_pool.give_back([buffer])
                        pooled = False
                    rules = larger
        if pooled:
            rules = rules[:size].copy()  # before giving it back: another match may then write to it
            buffer_pool.give_back([buffer])
        counters = Counters(buffer.candidates, buffer.evaluated, size)
        return Matches(offsets, rules[:size], self.ids, counters=counters)

    def _match_one(self) -> Matches:
        """Return the matches of one event; each part writes them behind those of the part before.

        For one event, a buffer per part would take longer than matching.
        """
        buffer = Buffer(*self.parts, events=1)
        offsets = buffer.offsets = np.zeros(2, np.int64)
        for keys, densities in self.events.blocks():
            batch, uncertainty = EventBatch.whole(keys, self.width), self._uncertainty(densities)
            for live in self.parts:
                buffer.hold(live)
                buffer.part.index_for(keys).candidates(batch, offsets, buffer.out)
                if offsets[1] > offsets[0]:
                    buffer.to_rules(batch, uncertainty)
                    offsets[0] = offsets[1]
        offsets[0] = 0
        rules = buffer.out[: offsets[1]].copy()  # before giving it back, as above
        buffer_pool.give_back([buffer])
        counters = Counters(buffer.candidates, buffer.evaluated, len(rules))
        return Matches(offsets, rules, self.ids, counters=counters)

    def count(self) -> np.ndarray:
        """Return how many rules each event matches."""
        counts = np.zeros(len(self.events), np.int64)
        buffers: dict[int, Buffer] = {}
        width = self.width
        before = 0
        for keys, densities in self.events.blocks():
            uncertainty = self._uncertainty(densities)
            block_counts = counts[before : before + keys.size]
            # A rule is in one part, so the counts of parts add up.
            for number, live in enumerate(self.parts):
                part = live.part
                index = part.index
                plain = part.single and index.proven and not len(live.removed)
                if plain and index.counts and not (keys.has_ranges or live.is_filtered(keys)):
                    index.count(EventBatch.whole(keys, width), block_counts)
                    continue
                if number not in buffers:
                    buffers[number] = Buffer(live, events=len(self.events))
                buffer, first = buffers[number], 0
                while first < keys.size:
                    batch = EventBatch(keys, width, first, keys.size)
                    stop = buffer.propose(batch)
                    buffer.to_rules(batch.until(stop), uncertainty)
                    ends = buffer.offsets[: stop - first + 1]
                    block_counts[first:stop] += ends[1:] - ends[:-1]  # np.diff takes twice as long
                    first = stop
            before += keys.size
        buffer_pool.give_back(list(buffers.values()))
        return counts

    def count_candidates(self) -> list[int]:
        """Return how many candidates the events meet in each part."""
        buffers = self._buffers()
        for _ in self._rounds(buffers):
            pass
        buffer_pool.give_back(buffers)
        return [buffer.candidates for buffer in buffers]

    def top(self, k: int, weights: EventWeights) -> Matches:
        """Return each event's k best rules, best first."""
        n, width = len(self.events), self.width
        at_once = max(1, ROOM // k)  # events processed together
        buffers = self._buffers()
        offsets = np.zeros(n + 1, np.int64)
        rules, scores = [np.empty(0, np.int32)], [np.empty(0)]
        before = 0
        for keys, densities in self.events.blocks():
            uncertainty = self._uncertainty(densities)
            for first in range(0, keys.size, at_once):
                events = min(at_once, keys.size - first)
                batch = EventBatch(keys, width, first, first + events)
                own_weights = weights.of_events(before + first, before + first + events)
                sizes = np.zeros(events, np.int64)
                best = BestRules(
                    k, True, sizes, np.empty(events * k, np.int32), np.empty(events * k)
                )
                for buffer in buffers:
                    buffer.keep_best(batch, uncertainty, own_weights, best)
                filled: Any = slice(int(sizes[0]))  # cheaper than a mask
                if events > 1:
                    filled = (np.arange(k) < sizes[:, None]).reshape(-1)
                rules.append(best.rules[filled])
                scores.append(best.scores[filled])
                offsets[before + first + 1 : before + first + events + 1] = sizes
            before += keys.size
        buffer_pool.give_back(buffers)
        np.cumsum(offsets, out=offsets)
        all_rules, all_scores = (
            arrays[-1] if len(arrays) == 2 else np.concatenate(arrays) for arrays in (rules, scores)
        )
        counters = _counters(buffers, len(all_rules))
        return Matches(offsets, all_rules, self.ids, all_scores, counters=counters)

    def _uncertainty(self, densities: EventDensities | None) -> Uncertainty | None:
        """Return how the uncertain values of a block are distributed; None without thresholds."""
        return None if self.scale is None else uncertainty_of(self.scale, densities)

    def _buffers(self, pooled: bool = True) -> list[Buffer]:
        return [Buffer(part, events=len(self.events), pooled=pooled) for part in self.parts]

    def _rounds(self, buffers: list[Buffer]) -> Iterator[tuple[int, int]]:
        """Yield (first event, number of events) while the buffers hold their matches."""
        before = 0
        for keys, densities in self.events.blocks():
            uncertainty = self._uncertainty(densities)
            first = 0
            while first < keys.size:
                batch = EventBatch(keys, self.width, first, keys.size)
                for buffer in buffers:  # each stops no later than the one before
                    batch = batch.until(buffer.propose(batch))
                for buffer in buffers:
                    buffer.to_rules(batch, uncertainty)
                yield before + first, batch.size
                first = batch.stop
            before += keys.size


def _counters(buffers: Sequence[Buffer], matched: int) -> Counters:
    candidates = sum(buffer.candidates for buffer in buffers)
    return Counters(candidates, sum(buffer.evaluated for buffer in buffers), matched)


def _enlarge(rules: np.ndarray, size: int, wanted: int, expected: int) -> np.ndarray:
    """Return a larger copy of the first `size` rules, with room for `wanted` or more.

    It has room for the `expected` size: untouched memory costs nothing, and a second copy is
    expensive. The room is limited, since the events so far may not be representative.
    """
    room = min(expected * 9 // 8, 64 * wanted + ROOM)
    larger = np.empty(max(wanted, room), np.int32)
    larger[:size] = rules[:size]
    return larger


# ------------------------------------------------------------ several parts


def _sum_offsets(buffers: Sequence[Buffer], events: int) -> np.ndarray:
    """Return the offsets of each event's matches over all buffers."""
    offsets: np.ndarray = np.zeros(events + 1, np.int64)
    for buffer in buffers:
        offsets += buffer.offsets[: events + 1]
    return offsets


def _merge(buffers: Sequence[Buffer], offsets: np.ndarray, out: np.ndarray) -> None:
    """Copy the matches of all buffers to `out`, event by event at `offsets`."""
    cursor = offsets[:-1].copy()
    for buffer in buffers:
        scatter_runs(buffer.offsets[: len(offsets)], buffer.out, cursor, out)


@kernel
def scatter_runs(offsets: Int64s, rules: Int32s, cursor: Int64Out, out: Int32Out) -> None:
    """Copy each event's run of rules to its cursor, and advance the cursor."""
    for i in range(cursor.shape[0]):
        at = np.uint64(cursor[i])
        for j in range(np.uint64(offsets[i]), np.uint64(offsets[i + 1])):
            out[at] = rules[j]
            at += np.uint64(1)
        cursor[i] = at
