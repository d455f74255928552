"""Ranges of events: what one thread reads of a batch that several match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tocsin.model.event_densities import EventBlock
from tocsin.model.events import Events


class EncodedEvents:
    """Events whose keys are all there, in the blocks in which they were read."""

    def __init__(self, blocks: Sequence[EventBlock]):
        self._blocks = blocks

    def blocks(self, first: int, stop: int) -> Iterator[EventBlock]:
        """Yield the events from `first` up to `stop`."""
        before = 0
        for block in self._blocks:
            begin, end = max(first - before, 0), min(stop - before, block.keys.size)
            if begin < end:
                yield block.of_events(begin, end)
            before += block.keys.size


class EventRange:
    """The events from `first` up to `stop` of others, as if there were no more."""

    def __init__(self, events: Events | EncodedEvents, first: int, stop: int):
        self._events = events
        self._bounds = first, stop

    def __len__(self) -> int:
        return self._bounds[1] - self._bounds[0]

    def blocks(self) -> Iterator[EventBlock]:
        """Yield successive events; every event once."""
        return self._events.blocks(*self._bounds)
