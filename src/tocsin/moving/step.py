"""One update's changes of a monitor's state, in the order in which they happen.

Rules that changed come first, then rows, then timers: each is a kernel over the slots that it
concerns (`transitions.py`). A step makes room for what the next kernel can write at most, and
collects the events, the reports that are outdated and the objects that are forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tocsin.engine.version import Version
from tocsin.jit import freeze
from tocsin.model.keys import Keys
from tocsin.model.matches import Matches
from tocsin.moving.judging import Holding
from tocsin.moving.objects import (
    LAST,
    LONG_AGO,
    RANK,
    ROW,
    STAY,
    WORDS,
    Objects,
    count_stays,
    find_due,
    write_rows,
)
from tocsin.moving.positions import Positions, order_rows
from tocsin.moving.regions.shapes import UNCHANGED
from tocsin.moving.regions.tracked import Cuts, JudgedRows
from tocsin.moving.rule_changes import Changes
from tocsin.moving.transitions import (
    ASK,
    DOUBLED,
    EVENT,
    EVENTS,
    FORGOTTEN,
    LATE,
    NO_RULE,
    OUTDATED,
    POOL_END,
    RANKS,
    REGION,
    REPORTS,
    SLOT,
    SOURCE,
    TIME,
    WHAT,
    WHEN_SINCE,
    WHICH,
    WHO,
    Options,
    Progress,
    Rows,
    find_affected,
    remove_object,
    run_changes,
    run_rows,
    run_timers,
)
from tocsin.moving.widening import Widened

_NO_SLOTS = np.empty(0, np.int32)

if TYPE_CHECKING:
    from tocsin.moving.tracker import Tracker


class Step:
    """One update's changes of the state; it collects the events and what is outdated."""

    def __init__(self, tracker: Tracker, objects: Objects, settings: Options):
        self._tracker, self._objects, self._settings = tracker, objects, settings
        self._numbers = np.zeros(8, np.int64)
        self._numbers[RANKS] = objects.next_rank
        self._computed = _NO_SLOTS  # objects with regions that are new
        self._outdated: list[np.ndarray] = []
        self._forgotten: list[np.ndarray] = []

    @property
    def _options(self) -> Options:
        """What the monitor waits for, and who is quiet now."""
        regions = self._tracker.regions
        if regions is None:
            return self._settings
        return self._settings._replace(quiet=freeze(regions.status, np.uint8))

    def cut_regions(self, cuts: Cuts, version: Version) -> None:
        """Let new fences cut regions."""
        assert self._tracker.regions is not None
        self._tracker.touch(cuts.slots)
        self._tracker.regions.apply(cuts, version)

    def settle_regions(
        self,
        last: tuple[np.ndarray, np.ndarray],
        judged: JudgedRows,
        version: Version,
        widened: Widened | None,
    ) -> None:
        """Give objects regions; `last` are their slots and last rows."""
        tracker = self._tracker
        assert tracker.regions is not None
        margin = None if widened is None else widened.margin
        verdict = judged.verdict
        tracker.counts["reports_saved"] += int((verdict == UNCHANGED).sum())
        tracker.counts["index_visits_saved"] += len(verdict) - len(judged.visits)
        self._computed = tracker.regions.settle(*last, judged, version, self._objects, margin)
        tracker.counts["regions_computed"] += len(self._computed)

    def tell_regions(self, cuts: Cuts | None) -> None:
        """Report regions that were computed, and objects to ask, if events have such a column."""
        tracker, records = self._tracker, self._objects.records.reshape(-1, WORDS)
        if tracker.region_column is None or tracker.regions is None:
            return
        asked = tracker.regions.asked(_NO_SLOTS if cuts is None else cuts.slots)
        for slots, what in ((self._computed, REGION), (asked, ASK)):
            slots = slots[records[slots, LAST] != LONG_AGO]  # and not lost by now
            n = int(self._numbers[EVENTS])
            events = np.zeros((len(slots), EVENT), np.int64)
            events[:, TIME] = events[:, WHEN_SINCE] = records[slots, LAST]
            events[:, WHO], events[:, SLOT] = records[slots, RANK], slots
            events[:, WHICH], events[:, WHAT] = NO_RULE, what
            events[:, SOURCE] = -2 - records[slots, ROW]
            tracker.buffer = np.concatenate([tracker.buffer[: n * EVENT], events.ravel()])
            self._numbers[EVENTS] += len(slots)

    def change_rules(self, changes: Changes, holding: Holding) -> None:
        """Let rules change."""
        objects = self._objects
        affected = np.empty(objects.slots, np.int32)
        if changes.verdicts.any():
            n = find_affected(
                objects.records, objects.pool, objects.slots, changes.verdicts, affected
            )
            affected = affected[:n]
            slots = np.union1d(affected, holding.slots).astype(np.int32)
        else:
            slots = holding.slots
        if not len(slots):
            return
        counts = np.zeros(len(slots), np.int64)
        counts[np.searchsorted(slots, holding.slots)] = np.diff(holding.offsets)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        progress = self._prepare(slots, len(holding.rules))
        run_changes(
            objects.records, objects.pool, objects.block_due, slots, offsets, holding.rules,
            changes.verdicts, changes.new_position, self._options, progress,
        )  # fmt: skip
        objects.pool_end = int(self._numbers[POOL_END])

    def move(
        self,
        positions: Positions,
        matches: Matches,
        widened: Widened,
        keys: Keys,
        judged: JudgedRows | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Let the rows of a batch happen; return slots and their last rows."""
        tracker, objects, times = self._tracker, self._objects, positions.times
        slots = objects.assign(positions.keys, positions.is_valid)
        rows = np.flatnonzero(positions.is_valid).astype(np.int32)
        order = order_rows(positions, slots, rows)
        tracker.late = _grow(tracker.late, objects.slots)
        tracker.doubled = _grow(tracker.doubled, objects.slots)
        if tracker.regions is not None:
            tracker.regions.reserve(objects.slots)
        progress = self._prepare(slots[order], len(matches), len(order))
        batch = Rows(
            freeze(order, np.int32),
            freeze(slots, np.int32),
            freeze(times, np.int64),
            freeze(positions.removed, np.uint8),
            freeze(matches.offsets, np.int64),
            matches.rules if matches.rules.flags.writeable else matches.rules.copy(),
            freeze(np.empty(0) if judged is None else judged.verdict == UNCHANGED, np.uint8),
        )
        run_rows(
            objects.records, objects.pool, objects.block_due, batch, self._options, widened,
            keys, tracker.reports.rows, progress,
        )  # fmt: skip
        numbers = self._numbers
        objects.pool_end = int(numbers[POOL_END])
        objects.next_rank += len(slots)
        tracker.counts["late"] += int(numbers[LATE])
        tracker.counts["doubled"] += int(numbers[DOUBLED])
        last = progress.reports[: numbers[REPORTS]]
        tracker.reports.append(positions.reports.take(pa.array(last)), slots[last])
        return slots[last], last

    def fire(self, clock: int) -> None:
        """Let timers that are due happen."""
        objects = self._objects
        due = np.empty(objects.slots, np.int32)
        due = due[: find_due(objects.records, objects.block_due, objects.slots, clock, due)]
        if len(due):
            progress = self._prepare(due, 0, len(due))
            run_timers(
                objects.records, objects.pool, objects.block_due, due, clock, self._options,
                progress,
            )  # fmt: skip

    def remove(self, key: Any) -> None:
        """Let an object leave, and forget it."""
        slot = self._tracker.find(key)
        if slot >= 0:
            progress = self._prepare(np.array([slot], np.int32), 0, 1)
            remove_object(self._objects.records, self._objects.pool, slot, progress)

    def _prepare(self, slots: np.ndarray, matches: int, rows: int = 0) -> Progress:
        """Return room for what objects at slots, and new matches, can cause at most."""
        objects, tracker, numbers = self._objects, self._tracker, self._numbers
        self._collect()
        tracker.touch(slots)
        stays, most = count_stays(objects.records, slots)
        objects.reserve_stays(3 * (stays + matches) + len(slots))
        numbers[POOL_END] = objects.pool_end
        events = int(numbers[EVENTS]) + 3 * (stays + matches) + 2 * (len(slots) + rows)
        if events * EVENT > len(tracker.buffer):
            larger = np.empty(2 * events * EVENT, np.int64)
            larger[: numbers[EVENTS] * EVENT] = tracker.buffer[: numbers[EVENTS] * EVENT]
            tracker.buffer = larger
        self._progress = Progress(
            tracker.buffer,
            numbers,
            np.empty(rows, np.int32),
            np.empty(rows, np.int32),
            np.empty(rows, np.int64),
            np.empty((most + matches) * STAY, np.int64),
            tracker.late,
            tracker.doubled,
        )
        return self._progress

    def _collect(self) -> None:
        """Keep what a kernel has written before the next one begins."""
        numbers = self._numbers
        if numbers[OUTDATED]:
            self._outdated.append(self._progress.outdated[: numbers[OUTDATED]])
        if numbers[FORGOTTEN]:
            self._forgotten.append(self._progress.forgotten[: numbers[FORGOTTEN]])
        numbers[OUTDATED] = numbers[FORGOTTEN] = 0

    def events(self) -> np.ndarray:
        """Return the events so far, in the order in which they happened to each object."""
        n = int(self._numbers[EVENTS])
        return self._tracker.buffer[: n * EVENT]

    def finish(self) -> None:
        """Forget what is outdated, and pack what has become sparse."""
        reports = self._tracker.reports
        self._collect()
        if self._outdated:
            reports.forget(np.concatenate(self._outdated))
        if self._forgotten:
            self._tracker.forget(np.concatenate(self._forgotten))
        packed = reports.pack()
        if packed is not None:
            slots, rows = packed
            write_rows(self._objects.records, slots, rows)


def _grow(array: np.ndarray, size: int) -> np.ndarray:
    if size <= len(array):
        return array
    return np.concatenate([array, np.zeros(size + size // 2 - len(array), array.dtype)])
