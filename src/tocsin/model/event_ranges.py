"""Ranges of events: what one thread reads of a batch that several match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tocsin.model.events import Events
from tocsin.model.keys import Keys, slice_keys


class CodedEvents:
    """Events whose keys are all there, in the blocks in which they were read."""

    def __init__(self, blocks: Sequence[Keys]):
        self._blocks = blocks

    def blocks(self, first: int, stop: int) -> Iterator[Keys]:
        """Yield the keys of the events from `first` up to `stop`."""
        before = 0
        for keys in self._blocks:
            begin, end = max(first - before, 0), min(stop - before, keys.size)
            if begin < end:
                yield slice_keys(keys, begin, end)
            before += keys.size


class EventRange:
    """The events from `first` up to `stop` of others, as if there were no more."""

    def __init__(self, events: Events | CodedEvents, first: int, stop: int):
        self._events = events
        self._bounds = first, stop

    def __len__(self) -> int:
        return self._bounds[1] - self._bounds[0]

    def blocks(self) -> Iterator[Keys]:
        """Yield the keys of successive events; every event once."""
        return self._events.blocks(*self._bounds)
