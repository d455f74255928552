"""Combine matches that threads find in any order, in the order of their events.

The size of the result is known only at the end. Copying all of it would take as long as finding it,
and twice the memory. So a block of matches gets its place as soon as all blocks before it have
theirs, and is copied there from a buffer that is still in cache. Blocks that come early wait in
arrays of their own.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from tocsin.model.matches import Counters, Matches, RuleDirectory

_SAMPLE = 16  # the size of the result is estimated from one sixteenth of the events
# A chunk of the result has room for so many times the matches known, and _ROOM more; chosen.
_MOST_GROWTH, _ROOM = 64, 1 << 20


class _Block(NamedTuple):
    """The matches of successive events."""

    offsets: np.ndarray
    rules: np.ndarray
    scores: np.ndarray | None

    @property
    def events(self) -> int:
        return len(self.offsets) - 1

    def copy(self) -> _Block:
        scores = None if self.scores is None else self.scores.copy()
        return _Block(self.offsets.copy(), self.rules.copy(), scores)


class _Chunk(NamedTuple):
    """A piece of the result; its first match is number `base`."""

    base: int
    rules: np.ndarray
    scores: np.ndarray


class _Place(NamedTuple):
    """Where matches are to be written."""

    event: int  # number of the first of their events
    start: int  # number of the first match
    chunk: _Chunk
    block: _Block


class OrderedMatches:
    """All matches of a number of events, with or without scores."""

    def __init__(self, events: int, scored: bool = False):
        self._events = events
        self._scored = scored
        self._offsets = np.zeros(events + 1, np.int64)
        self._chunks: list[_Chunk] = []  # mostly one
        self._waiting: dict[int, _Block] = {}  # by number of the first event
        self._known = 0  # events whose matches have been added
        self._placed = 0  # events whose matches have a place
        self._size = 0  # matches that have a place
        self._counters = Counters(0, 0, 0)
        self._lock = threading.Lock()

    def add(self, event: int, matches: Matches, reused: bool = False) -> None:
        """Add the matches of successive events, the first of them number `event`.

        `reused` arrays may be overwritten as soon as this returns.
        """
        block = _Block(matches.offsets, matches.rules, matches.scores)
        with self._lock:
            self._known += block.events
            self._counters = Counters(*map(sum, zip(self._counters, matches.counters)))
            must_wait = event != self._placed or not self._is_sampled()
        if must_wait and reused:
            block = block.copy()
        with self._lock:
            self._waiting[event] = block
            places = self._place_waiting()
        for place in places:
            self._write(place)

    def join(self, directory: RuleDirectory) -> Matches:
        """Return all matches, once those of all events have been added."""
        if self._placed != self._events:
            raise AssertionError(f"{self._placed:,} of {self._events:,} events were matched")
        chunk = self._chunks[0] if len(self._chunks) == 1 else self._join_chunks()
        rules = chunk.rules[: self._size]
        scores = chunk.scores[: self._size] if self._scored else None
        return Matches(self._offsets, rules, directory, scores, counters=self._counters)

    def _is_sampled(self) -> bool:
        return bool(self._chunks) or self._known * _SAMPLE >= self._events

    def _place_waiting(self) -> list[_Place]:
        """Assign places to waiting blocks that directly follow those already placed."""
        places: list[_Place] = []
        while self._is_sampled() and self._placed in self._waiting:
            event, block = self._placed, self._waiting.pop(self._placed)
            self._placed += block.events
            stop = self._size + len(block.rules)
            if not self._chunks or stop > self._chunks[-1].base + len(self._chunks[-1].rules):
                # Untouched memory costs nothing, and a second copy is expensive. But the events so
                # far may not be like the others.
                expected = self._counters.matched * self._events // self._known * 9 // 8
                room = min(expected, _MOST_GROWTH * stop + _ROOM)
                self._chunks.append(self._new_chunk(self._size, max(stop, room)))
            places.append(_Place(event, self._size, self._chunks[-1], block))
            self._size = stop
        return places

    def _write(self, place: _Place) -> None:
        event, start, chunk, block = place
        ends = self._offsets[event + 1 : event + 1 + block.events]
        np.add(block.offsets[1:], start, out=ends)
        begin, end = start - chunk.base, start - chunk.base + len(block.rules)
        chunk.rules[begin:end] = block.rules
        if block.scores is not None:
            chunk.scores[begin:end] = block.scores

    def _new_chunk(self, base: int, stop: int) -> _Chunk:
        size = stop - base
        return _Chunk(base, np.empty(size, np.int32), np.empty(size if self._scored else 0))

    def _join_chunks(self) -> _Chunk:
        whole = self._new_chunk(0, self._size)
        stops = [chunk.base for chunk in self._chunks[1:]] + [self._size]
        for (base, rules, scores), stop in zip(self._chunks, stops, strict=True):
            whole.rules[base:stop] = rules[: stop - base]
            if self._scored:
                whole.scores[base:stop] = scores[: stop - base]
        return whole
