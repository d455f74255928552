"""Matches that threads find in any order, put together in the order of their events.

The size of the result is known only at the end, and copying all of it would take as long as
finding it and twice the memory. So matches get their places as soon as all those before them
have theirs, and are copied there from a buffer that is still in cache. Matches that come early
wait, in an array of their own.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from tocsin.model.matches import Counters, Matches, RuleDirectory

_SAMPLE = 16  # the size of the result is estimated from one of so many events
_MOST_GROWTH = 64  # times that a piece of the result may be larger than what is known; chosen
_ROOM = 1 << 20  # matches, and as many more; chosen: 4 MiB


class _Found(NamedTuple):
    """The matches of successive events."""

    offsets: np.ndarray
    rules: np.ndarray
    scores: np.ndarray | None

    @property
    def events(self) -> int:
        return len(self.offsets) - 1

    def copy(self) -> _Found:
        scores = None if self.scores is None else self.scores.copy()
        return _Found(self.offsets.copy(), self.rules.copy(), scores)


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
    found: _Found


class OrderedMatches:
    """All matches of so many events, with scores or without."""

    def __init__(self, events: int, scored: bool = False):
        self._events = events
        self._scored = scored
        self._offsets = np.zeros(events + 1, np.int64)
        self._chunks: list[_Chunk] = []  # mostly one
        self._waiting: dict[int, _Found] = {}  # by the number of their first event
        self._known = 0  # events whose matches were added
        self._placed = 0  # events whose matches have their place
        self._size = 0  # matches that have their place
        self._counters = Counters(0, 0, 0)
        self._lock = threading.Lock()

    def add(self, event: int, matches: Matches, reused: bool = False) -> None:
        """Add the matches of successive events, the first of them number `event`.

        Arrays that are `reused` may be written to as soon as this returns.
        """
        found = _Found(matches.offsets, matches.rules, matches.scores)
        with self._lock:
            self._known += found.events
            self._counters = Counters(*map(sum, zip(self._counters, matches.counters)))
            must_wait = event != self._placed or not self._is_sampled()
        if must_wait and reused:
            found = found.copy()
        with self._lock:
            self._waiting[event] = found
            places = self._place_waiting()
        for place in places:
            self._write(place)

    def joined(self, directory: RuleDirectory) -> Matches:
        """Return all matches, once those of all events were added."""
        if self._placed != self._events:
            raise AssertionError(f"{self._placed:,} of {self._events:,} events were matched")
        chunk = self._chunks[0] if len(self._chunks) == 1 else self._joined_chunk()
        rules = chunk.rules[: self._size]
        scores = chunk.scores[: self._size] if self._scored else None
        return Matches(self._offsets, rules, directory, scores, counters=self._counters)

    def _is_sampled(self) -> bool:
        return bool(self._chunks) or self._known * _SAMPLE >= self._events

    def _place_waiting(self) -> list[_Place]:
        """Give places to those that wait and have nothing missing before them."""
        places: list[_Place] = []
        while self._is_sampled() and self._placed in self._waiting:
            event, found = self._placed, self._waiting.pop(self._placed)
            self._placed += found.events
            stop = self._size + len(found.rules)
            if not self._chunks or stop > self._chunks[-1].base + len(self._chunks[-1].rules):
                # Memory that is never touched costs nothing, and a second copy much. But the
                # events so far may not be like the others.
                expected = self._counters.matched * self._events // self._known * 9 // 8
                room = min(expected, _MOST_GROWTH * stop + _ROOM)
                self._chunks.append(self._new_chunk(self._size, max(stop, room)))
            places.append(_Place(event, self._size, self._chunks[-1], found))
            self._size = stop
        return places

    def _write(self, place: _Place) -> None:
        event, start, chunk, found = place
        ends = self._offsets[event + 1 : event + 1 + found.events]
        np.add(found.offsets[1:], start, out=ends)
        begin, end = start - chunk.base, start - chunk.base + len(found.rules)
        chunk.rules[begin:end] = found.rules
        if found.scores is not None:
            chunk.scores[begin:end] = found.scores

    def _new_chunk(self, base: int, stop: int) -> _Chunk:
        size = stop - base
        return _Chunk(base, np.empty(size, np.int32), np.empty(size if self._scored else 0))

    def _joined_chunk(self) -> _Chunk:
        joined = self._new_chunk(0, self._size)
        stops = [chunk.base for chunk in self._chunks[1:]] + [self._size]
        for (base, rules, scores), stop in zip(self._chunks, stops, strict=True):
            joined.rules[base:stop] = rules[: stop - base]
            if self._scored:
                joined.scores[base:stop] = scores[: stop - base]
        return joined
