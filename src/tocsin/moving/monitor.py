"""Monitor: which objects enter, leave, and stay in which fences."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, Self

import pyarrow as pa

from tocsin.engine.rules import Rules
from tocsin.engine.storage import Storage
from tocsin.engine.storage.memory import Memory
from tocsin.engine.store import RuleStore
from tocsin.engine.store_folder import Origin, StoreFolder
from tocsin.engine.version import Version
from tocsin.errors import MonitorError
from tocsin.moving.options import MonitorOptions
from tocsin.moving.regions.region import SafeRegion
from tocsin.moving.saved_monitor import open_tracker, save_tracker
from tocsin.moving.state_files import open_states
from tocsin.moving.tracker import Tracker


class Monitor:
    """Watches objects as they move through fences, and reports what changes.

    Parameters
    ----------
    rules
        The fences: a `Rules`, whose changes are seen at the next update; the path of a rule store,
        of which each update takes the latest version; or a `Version`, which does not change.
        Conditions of any kind are fences: ``speed > 30`` as well as a box.
    key, time
        The columns of positions that say which object it is (texts or integers), and when
        (timestamps or numbers).
    position
        The columns that are coordinates: NaN there is null, and `margin` is a distance in them.
    dwell
        How long an object is inside a fence before a `dwell` is reported, once a stay; or the name
        of a payload column with such durations. A duration is a timedelta, a text such as "90 s",
        or for times that are numbers a number.
    margin
        How far an object that is inside a fence may go beyond it without leaving: a number, or
        the name of a payload column.
    min_stay, min_away
        How long an object must have been inside before it enters, and outside before it leaves.
    lost_after
        How long nothing is heard of an object before it is lost: it leaves all fences, and is
        forgotten.
    delay
        How much later than others the positions of an object may come: the clock that fires
        timers is that much behind the latest time.
    removed
        A column of flags: a row where it is true removes its object.
    keep, payload
        Columns of the positions, and of the rules' payload, that events carry.

    safe_regions
        Computes for each object where it may move without any event, and so need not report:
        "dist", less than a distance in all; "sphere", around its position; or "rect".
    rect_by, rect_reach
        Whether a "rect" has the largest "area" or "perimeter"; and how many times the distance to
        the nearest edge it may reach, which makes it smaller and faster to compute.
    v_max
        The most that an object moves in a second, or for times that are numbers in a unit of time:
        a number, or the name of a column of the positions. It makes new fences over many objects
        faster, and changes no answer.

    docs/monitor.md and docs/safe-regions.md say what each of these means in every case.

    >>> import tocsin
    >>> rules = tocsin.Rules({"x": "number", "y": "number"})
    >>> rules.add("dock", "x BETWEEN 0 AND 10 AND y BETWEEN 0 AND 10")
    >>> monitor = tocsin.Monitor(rules)
    >>> events = monitor.update([
    ...     {"object": "truck-7", "t": 1, "x": 5, "y": 5},
    ...     {"object": "truck-7", "t": 2, "x": 50, "y": 5},
    ... ])
    >>> events.select(["object", "rule", "event", "time"]).to_pylist()[1]
    {'object': 'truck-7', 'rule': 'dock', 'event': 'leave', 'time': 2}
    """

    def __init__(
        self,
        rules: Any,
        key: str = "object",
        time: str = "t",
        position: Sequence[str] = ("x", "y"),
        dwell: Any = None,
        margin: float | str = 0.0,
        min_stay: Any = None,
        min_away: Any = None,
        lost_after: Any = None,
        delay: Any = None,
        removed: str | None = None,
        keep: Sequence[str] = (),
        payload: Sequence[str] = (),
        safe_regions: str | None = None,
        rect_by: str = "area",
        rect_reach: float | None = None,
        v_max: float | str | None = None,
    ):
        options = MonitorOptions(
            key, time, position, dwell, margin, min_stay, min_away, lost_after, delay, removed,
            keep, payload, safe_regions, rect_by, rect_reach, v_max,
        )  # fmt: skip
        self._begin(Tracker(options), rules)

    def _begin(self, tracker: Tracker, rules: Any) -> None:
        self._tracker = tracker
        self._source = RuleSource(rules)
        self._lock = threading.Lock()
        tracker.judged.check_type(self._source.latest()[0])  # raises if there are no rules, too

    # ------------------------------------------------------------ save

    def save(self, path: str | os.PathLike[str] | Storage) -> None:
        """Save the state to a folder, or another storage, in place of one that is there.

        It has the options and all objects, and the ids of the rules, but not the rules themselves.
        """
        with self._lock:
            save_tracker(open_states(path), self._tracker)

    @classmethod
    def open(cls, path: str | os.PathLike[str] | Storage, rules: Any) -> Self:
        """Return the monitor that was saved to a folder; it goes on as if it had never stopped.

        Rules that have changed since are judged at the next update, by their ids and conditions.
        They may come from another store than before.
        """
        monitor = cls.__new__(cls)
        monitor._begin(open_tracker(open_states(path)), rules)
        return monitor

    def __reduce__(self) -> tuple[Any, ...]:
        storage = Memory()
        self.save(storage)
        objects = {entry.name: storage.read(entry.name) for entry in storage.list("")}
        return _unpickle, (type(self), objects, self._source.rules)

    # ------------------------------------------------------------ change

    def update(self, positions: Any) -> pa.Table:
        """Return the events that a batch of positions causes.

        `positions` are a dict, a list of dicts, or any Arrow-compatible table. The events are a
        table of `object`, `rule`, `event` (enter, leave, dwell or lost), `time`, `since`, `reason`
        and `rules_version`, and the columns that are kept, in the order of time.
        """
        with self._lock:
            return self._tracker.update(positions, *self._source.latest())

    def advance(self, now: Any) -> pa.Table:
        """Move the clock to a time, and return the events that are due by then."""
        with self._lock:
            return self._tracker.advance(now, *self._source.latest())

    def remove(self, object: Any) -> pa.Table:
        """Forget an object, and return its leaves."""
        with self._lock:
            return self._tracker.remove(object, *self._source.latest())

    # ------------------------------------------------------------ look

    def inside(self, rule: Any) -> list[Any]:
        """Return the objects that are in a fence, in order of first appearance."""
        with self._lock:
            return self._tracker.inside(rule)

    def where(self, object: Any) -> list[Any]:
        """Return the fences that an object is in, in the order in which they were added."""
        with self._lock:
            return self._tracker.where(object)

    def region(self, object: Any) -> SafeRegion | None:
        """Return where an object may be silent, or None if it must report each position.

        A "sphere" or "rect" has `contains(x, y)`, a "dist" or "sphere" `distance`, a "rect"
        `bounds`, and each `fixed`: the other columns that must not change.
        """
        with self._lock:
            return self._tracker.region(object)

    def to_ask(self) -> list[Any]:
        """Return the objects that must report, because a new fence cuts their region."""
        with self._lock:
            return self._tracker.to_ask()

    @property
    def counters(self) -> dict[str, Any]:
        """Numbers of rows and events so far, and of late and doubled rows by object."""
        with self._lock:
            return self._tracker.counters()

    @property
    def rejected(self) -> pa.Table:
        """The rows of the last update that had no key or no time, with the column `reason`."""
        with self._lock:
            rejected = self._tracker.rejected
        return pa.table({"reason": pa.array([], pa.string())}) if rejected is None else rejected

    @property
    def options(self) -> MonitorOptions:
        """The options that it was made with."""
        return self._tracker.options

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        with self._lock:
            return self._tracker.nbytes

    def __repr__(self) -> str:
        size = len(self)
        return f"Monitor({size:,} object{'s' * (size != 1)}, {self._source!r})"

    def __len__(self) -> int:
        """Return the number of objects."""
        objects = self._tracker.objects
        return 0 if objects is None else objects.size


def _unpickle(kind: type[Monitor], objects: dict[str, bytes], rules: Any) -> Monitor:
    return kind.open(Memory(objects), rules)


class RuleSource:
    """Where a monitor finds its rules."""

    def __init__(self, rules: Any):
        if isinstance(rules, RuleStore):
            rules = rules.path
        self.rules = rules
        self._store: StoreFolder | None = None
        self._opened: tuple[Version, Origin] | None = None
        if isinstance(rules, str | os.PathLike):
            self._store = StoreFolder(rules)
        elif not isinstance(rules, Rules | Version):
            raise MonitorError(
                "rules must be a tocsin.Rules, a Version, or the path of a rule store; got "
                f"{type(rules).__name__}"
            )

    def latest(self) -> tuple[Version, int | None]:
        """Return the rules as they are now, and the number of their version in a store."""
        if self._store is None:
            rules = self.rules
            return (rules.snapshot() if isinstance(rules, Rules) else rules), None
        if self._opened is None:
            self._opened = self._store.open()
        elif self._opened[1].version != self._store.versions.latest():
            self._opened = self._store.open(opened=self._opened[1])
        return self._opened[0], self._opened[1].version

    def __repr__(self) -> str:
        return repr(self.rules)
