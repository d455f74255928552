"""A run of many events on several threads, with the same result as on one."""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np

from tocsin.engine.matching import Run
from tocsin.engine.ordered_matches import OrderedMatches
from tocsin.engine.threads import work_in_ranges
from tocsin.index.finish import EventWeights
from tocsin.model.event_ranges import EncodedEvents, EventRange
from tocsin.model.events import Events
from tocsin.model.matches import Matches


class ThreadedRun:
    """The events of a run, matched in ranges by several threads.

    Threads encode the events that they match, if events can be split. Otherwise the caller encodes
    all events first, in the same blocks as on one thread: a range in a block may change the index
    used for the block, and so the order of matches.
    """

    def __init__(self, run: Run, threads: int):
        events = cast(Events, run.events)
        self._run = run
        self._size = len(events)
        self._threads = threads
        self._events: Events | EncodedEvents = events
        if not events.can_split:
            blocks = list(events.blocks())
            for block in blocks:
                for live in run.parts:
                    live.part.index_for(block.keys)  # builds the fallback here, on one thread
            self._events = EncodedEvents(blocks)

    def match(self) -> Matches:
        """Return all matches; see `Run.match`."""
        matches = OrderedMatches(self._size)

        def match_range(first: int, stop: int) -> int:
            pairs = 0
            for block in self._range(first, stop).blocks(pooled=True):
                matches.add(first + block.first, block, reused=True)
                pairs += len(block)
            return pairs

        work_in_ranges(self._size, self._threads, match_range)
        return matches.join(self._run.ids)

    def count(self) -> np.ndarray:
        """Return how many rules each event matches."""
        counts = np.empty(self._size, np.int64)

        def count_range(first: int, stop: int) -> int:
            counts[first:stop] = self._range(first, stop).count()
            return 0

        work_in_ranges(self._size, self._threads, count_range)
        return counts

    def top(self, k: int, weights: EventWeights) -> Matches:
        """Return each event's k best rules, best first."""
        best = OrderedMatches(self._size, scored=True)

        def rank_range(first: int, stop: int) -> int:
            best.add(first, self._range(first, stop).top(k, weights.of_events(first, stop)))
            return 0

        work_in_ranges(self._size, self._threads, rank_range)
        return best.join(self._run.ids)

    def _range(self, first: int, stop: int) -> Run:
        return dataclasses.replace(self._run, events=EventRange(self._events, first, stop))
