"""Merging: one segment from the live rules of several, at once or on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from tocsin.engine.ids import IdIndex
from tocsin.engine.segment import (
    IndexedPart,
    LateMetadata,
    LiveSegment,
    RuleMetadata,
    Segment,
    concatenate_metadata,
    none_removed,
    remove,
    separate_filtered,
)
from tocsin.index.exhaustive.index import Exhaustive
from tocsin.jit import freeze
from tocsin.model.attributes import Attributes
from tocsin.model.conjunctions import Conjunctions, concatenate

# Changes in the last quarter of a merge's patience each wait this many seconds for it, so that the
# one that needs the result does not wait for all that is left. Chosen: a merge of a tenth of a
# second, which would stop one change for as long, takes 100 of the 256 changes or more there are.
_MOMENT = 0.001


class BackgroundMerge:
    """Builds a segment from several on a thread of its own, while these stay in use.

    The segments are immutable, and so is what is removed from them now. Rules that are removed
    meanwhile are removed from the new segment once it replaces them.
    """

    def __init__(
        self,
        role: str,
        first: int,
        inputs: Sequence[LiveSegment],
        changes: int,
        patience: int,
        build: Callable[[Sequence[LiveSegment]], Segment | None],
    ):
        self.role = role  # of the new segment
        self.first, self.stop = first, first + len(inputs)  # which of the draft's segments
        self.patience = patience  # the number of changes after which the new segment is used
        self.until = changes + patience
        self.error: BaseException | None = None
        self._inputs = inputs
        self._build = build
        self._segment: Segment | None = None
        self._is_complete = False
        # Not a daemon: the interpreter must not end while compiled code is running.
        self._thread = threading.Thread(target=self._run, name="tocsin-merge")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._segment = self._build(self._inputs)
        except BaseException as error:  # reported by the change that waits
            self.error = error
        self._is_complete = True

    def give_way(self, changes: int) -> None:
        """Wait for a moment if the segment will be used soon and is not complete."""
        if changes >= self.until - self.patience // 4:
            self._thread.join(_MOMENT)

    def wait(self) -> Segment | None:
        """Return what was built once it is complete; None also if that failed with an `error`."""
        self._thread.join()
        if not self._is_complete:  # in a forked process, which has no such thread
            self._run()
        return self._segment

    def live(self, segment: Segment, now: Sequence[LiveSegment]) -> LiveSegment:
        """Return the new segment without the rules removed since; `now` is what it replaces."""
        removed = [
            after.segment.positions[before.alive() & ~after.alive()]
            for before, after in zip(self._inputs, now, strict=True)
            if after.removed.size > before.removed.size
        ]
        removals = none_removed(segment)
        if removed:
            places = np.searchsorted(segment.positions, np.concatenate(removed))
            removals = remove(segment, removals, places, in_place=True)
        return LiveSegment(self.role, segment, removals)


def combine_recent(live: Sequence[LiveSegment]) -> list[LiveSegment]:
    """Combine live rules of segments into one exhaustive segment; return none if there are none."""
    if len(live) == 1 and not live[0].removed.size:
        return [LiveSegment("recent", live[0].segment, live[0].removed)]
    metadata, conjunctions = collect_live(live)
    if not len(metadata.positions):
        return []
    segment = exhaustive_segment(metadata, conjunctions)
    return [LiveSegment("recent", segment, none_removed(segment))]


def exhaustive_segment(
    metadata: RuleMetadata | LateMetadata, conjunctions: Conjunctions, ids: IdIndex | None = None
) -> Segment:
    """Return a segment with exhaustive indexes."""
    groups = separate_filtered(metadata, conjunctions)
    return Segment(metadata, [IndexedPart(Exhaustive.build(group)) for group in groups], ids)


def collect_live(segments: Sequence[LiveSegment]) -> tuple[RuleMetadata, Conjunctions]:
    """Return the metadata and the conjunctions of live rules, in order."""
    metadata = [live.live_metadata() for live in segments]
    return concatenate_metadata(metadata), concatenate(
        [live.live_conjunctions() for live in segments]
    )


def drop_unused_terms(
    attributes: Attributes, metadata: RuleMetadata, conjunctions: Conjunctions
) -> tuple[Attributes, RuleMetadata, Conjunctions]:
    """Return attributes without the terms that no conjunction tests, and the rules over them."""
    used = np.flatnonzero(conjunctions.count_tests()).tolist()
    if set(attributes.terms) <= set(used):
        return attributes, metadata, conjunctions
    kept, numbers = attributes.drop_unused(used)
    if metadata.residuals is not None:
        metadata = metadata._replace(residuals=metadata.residuals.renumber(numbers))
    renumbered = freeze(numbers[conjunctions.attribute], np.int32)
    return kept, metadata, conjunctions._replace(attribute=renumbered)
