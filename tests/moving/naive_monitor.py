"""An oracle for moving objects in plain Python: slow, and meant to be read from top to bottom.

This module shares no code with the library. Letters and numbers in comments are the lines of
`docs/monitor.md`. Conditions are trees, see `tests/moving/trees.py`.
"""

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, NamedTuple

from tests.moving.trees import Neighbourhood, Row, Tree, holds, normal_form, sql


class NaiveRule(NamedTuple):
    tree: Tree
    payload: Row
    place: int  # in the order of addition


class NaiveRules:
    """Rules by id, changed by the same calls as `tocsin.Rules`, with trees in place of texts."""

    def __init__(self, schema: dict[str, str]):
        self.schema = schema
        self.by_id: dict[Any, NaiveRule] = {}
        self._next_place = 0

    def add(self, id: Any, tree: Tree, payload: Row | None = None) -> None:
        assert id not in self.by_id
        self.by_id[id] = NaiveRule(tree, payload or {}, self._next_place)
        self._next_place += 1

    def replace(self, id: Any, tree: Tree | None = None, payload: Row | None = None) -> None:
        """Change a rule, which moves to the end; do nothing if text and payload stay the same."""
        old = self.by_id[id]
        tree = old.tree if tree is None else tree
        payload = old.payload if payload is None else payload
        if (sql(tree), payload) != (sql(old.tree), old.payload):
            self.remove(id)
            self.add(id, tree, payload)

    def remove(self, id: Any) -> None:
        del self.by_id[id]


@dataclass
class Stay:
    """What is known of an object and a rule, from the first position inside."""

    since: Any
    entered: Any = None  # the time of the enter event; None while the enter is pending
    away: Any = None  # the first position outside, while the leave is pending
    has_dwelt: bool = False


@dataclass
class MovingObject:
    key: Any
    appearance: tuple[int, int]  # number of the batch, and of the first row in it
    time: Any = None  # of the last row
    row: Row = field(default_factory=dict)
    last_timer: Any = None  # the time of the last event that a timer fired
    late: int = 0
    doubled: int = 0
    stays: dict[Any, Stay] = field(default_factory=dict)


class Event(NamedTuple):
    object: MovingObject
    place: float  # of the rule, as it was then
    row: tuple[Any, ...]  # object, rule, event, time, since, reason


class NaiveMonitor:
    def __init__(
        self,
        rules: NaiveRules,
        key: str = "object",
        time: str = "t",
        position: tuple[str, ...] = ("x", "y"),
        dwell: Any = None,
        margin: Any = 0.0,
        min_stay: Any = None,
        min_away: Any = None,
        lost_after: Any = None,
        delay: Any = None,
        removed: str | None = None,
        keep: tuple[str, ...] = (),
    ):
        self._rules, self._key, self._time, self._position = rules, key, time, position
        self._dwell = dwell  # a duration or the name of a payload column, as is `margin`
        self._margin = margin
        self._min_stay, self._min_away = _duration(min_stay), _duration(min_away)
        self._lost_after, self._delay = _duration(lost_after), _duration(delay)
        self._removed, self._keep = removed, keep
        self._seen: dict[Any, NaiveRule] = {}  # the rules at the last update
        self._objects: dict[Any, MovingObject] = {}
        self._batch = 0
        self._largest_time: Any = None
        self._clock: Any = None
        self._events: list[Event] = []
        self.rejected: list[Row] = []
        self.totals = dict.fromkeys(("rows", "late", "doubled", "rejected", "events"), 0)

    # ------------------------------------------------------------ calls

    def update(self, rows: list[Row]) -> list[tuple[Any, ...]]:
        self._read_rules()
        self._batch += 1
        self.rejected = []
        rows_by_key: dict[Any, list[tuple[Any, int, Row]]] = {}
        for number, row in enumerate(rows):
            key, time = row.get(self._key), row.get(self._time)
            if key is None or not _is_moment(time):  # I3
                self.rejected.append(row)
                continue
            rows_by_key.setdefault(key, []).append((time, number, row))
            if self._largest_time is None or time > self._largest_time:
                self._largest_time = time
        self.totals["rows"] += len(rows)
        self.totals["rejected"] += len(self.rejected)
        columns = list(dict.fromkeys(name for row in rows for name in row))
        for key, own_rows in rows_by_key.items():
            self._move(key, own_rows, columns)
        if self._largest_time is not None:  # S2
            self._advance_clock(
                self._largest_time if self._delay is None else self._largest_time - self._delay
            )
        return self._result()

    def advance(self, now: Any) -> list[tuple[Any, ...]]:
        self._read_rules()
        self._advance_clock(now)
        return self._result()

    def remove(self, key: Any) -> list[tuple[Any, ...]]:
        if key in self._objects:  # R1
            self._forget(self._objects[key], self._objects[key].time, "object removed")
        return self._result()

    def inside(self, rule: Any) -> list[Any]:
        objects = sorted(self._objects.values(), key=lambda object: object.appearance)
        return [o.key for o in objects if rule in o.stays and o.stays[rule].entered is not None]

    def where(self, key: Any) -> list[Any]:
        stays = self._objects[key].stays if key in self._objects else {}
        ids = [id for id, stay in stays.items() if stay.entered is not None]
        return sorted(ids, key=lambda id: self._seen[id].place)

    @property
    def late(self) -> dict[Any, int]:
        return {key: object.late for key, object in self._objects.items() if object.late}

    @property
    def doubled(self) -> dict[Any, int]:
        return {key: object.doubled for key, object in self._objects.items() if object.doubled}

    # ------------------------------------------------------------ rows

    def _move(self, key: Any, rows: list[tuple[Any, int, Row]], columns: list[str]) -> None:
        """Take the rows of one object in a batch."""
        known = self._objects.get(key)
        if known is not None:
            late_until = (
                known.time if known.last_timer is None else max(known.time, known.last_timer)
            )
        for time in sorted({time for time, _, _ in rows}):
            numbers = [number for t, number, _ in rows if t == time]
            if known is not None and time <= late_until:  # I6
                known.late += len(numbers)
                self.totals["late"] += len(numbers)
                continue
            if key in self._objects:
                self._fire_timers(self._objects[key], time)  # S3 a
            twins = [self._read(row) for t, _, row in rows if t == time]
            row = min(twins, key=lambda twin: [_sort_key(twin.get(c)) for c in columns])  # I5
            self.totals["doubled"] += len(twins) - 1
            is_removal = self._removed is not None and row.get(self._removed) is True
            if is_removal and key not in self._objects:  # R2
                continue
            object = self._objects.get(key)
            if object is None:
                object = MovingObject(key, (self._batch, min(numbers)))
                self._objects[key] = object
            object.appearance = min(object.appearance, (self._batch, min(numbers)))
            object.doubled += len(twins) - 1
            if is_removal:
                self._forget(object, time, "object removed")
            else:
                object.time, object.row = time, row
                self._judge(object)

    def _read(self, row: Row) -> Row:
        """Return the columns of a row that are kept, with the types of the schema."""
        kept: Row = {name: row.get(name) for name in self._keep}
        if self._removed is not None:
            kept[self._removed] = row.get(self._removed)
        for name, kind in self._rules.schema.items():
            value = row.get(name)  # I4
            if isinstance(value, dict):
                value = {end: float(v) if kind == "number" else v for end, v in value.items()}
            elif kind == "number" and value is not None:
                value = float(value)
                if math.isnan(value) and name in self._position:
                    value = None
            kept[name] = value
        return kept

    def _judge(self, object: MovingObject) -> None:
        """Compare an object's new row with all rules."""
        time = object.time
        for id, rule in self._seen.items():
            stay = object.stays.get(id)
            inside = self._is_inside(object, rule, stay)
            if stay is None:
                if inside:  # M2
                    object.stays[id] = Stay(since=time)
                    if not self._min_stay:
                        self._enter(object, id, time)
            elif stay.entered is None:
                if not inside:
                    del object.stays[id]
            elif inside:  # M3
                stay.away = None
            elif stay.away is None:
                stay.away = time
                if not self._min_away:
                    self._leave(object, id, time)

    def _is_inside(self, object: MovingObject, rule: NaiveRule, stay: Stay | None) -> bool:
        """Return the side of an object (M1)."""
        if holds(rule.tree, object.row):
            return True
        if stay is None or stay.entered is None:
            return False
        margin = rule.payload.get(self._margin) if isinstance(self._margin, str) else self._margin
        near = Neighbourhood(self._position, self._rules.schema, Fraction(margin or 0))
        return near.holds(rule.tree, object.row)

    # ------------------------------------------------------------ events

    def _add_event(
        self, object: MovingObject, id: Any, event: str, time: Any, since: Any, reason: Any = None
    ) -> None:
        place = math.inf if id is None else self._seen[id].place
        self._events.append(Event(object, place, (object.key, id, event, time, since, reason)))

    def _enter(self, object: MovingObject, id: Any, time: Any, reason: Any = None) -> None:
        stay = object.stays[id]
        stay.entered = time
        self._add_event(object, id, "enter", time, stay.since, reason)
        if self._dwell_due(id, stay) == time:  # M5
            self._dwell_now(object, id, time)

    def _leave(self, object: MovingObject, id: Any, time: Any, reason: Any = None) -> None:
        stay = object.stays.pop(id)
        since = time if stay.away is None else stay.away
        self._add_event(object, id, "leave", time, since, reason)

    def _dwell_now(self, object: MovingObject, id: Any, time: Any) -> None:
        stay = object.stays[id]
        stay.has_dwelt = True
        self._add_event(object, id, "dwell", time, stay.since)

    def _dwell_due(self, id: Any, stay: Stay) -> Any:
        """Return when a stay's dwell is due; None is never (M5, M8)."""
        dwell = self._dwell
        if isinstance(dwell, str) and not dwell[0].isdigit():
            dwell = self._seen[id].payload.get(dwell)
        dwell = _duration(dwell)
        if dwell is None or stay.has_dwelt or stay.entered is None:
            return None
        return max(stay.since + dwell, stay.entered)

    def _forget(self, object: MovingObject, time: Any, reason: str) -> None:
        """Let an object leave all rules that it is in, and forget it."""
        for id, stay in list(object.stays.items()):
            if stay.entered is not None:
                self._leave(object, id, time, reason)
        del self._objects[object.key]

    def _result(self) -> list[tuple[Any, ...]]:
        """Return the events of a call in order (O1)."""
        events, self._events = self._events, []
        self.totals["events"] += len(events)
        events.sort(key=lambda event: (event.row[3], event.object.appearance, event.place))
        return [event.row for event in events]

    # ------------------------------------------------------------ timers

    def _advance_clock(self, now: Any) -> None:
        self._clock = now if self._clock is None else max(self._clock, now)
        for object in list(self._objects.values()):
            self._fire_timers(object, self._clock)  # S3 b

    def _fire_timers(self, object: MovingObject, now: Any) -> None:
        """Fire what is due at `now` or before, in order; an object is lost only before `now`."""
        while timers := [t for t in self._timers(object) if t[0] <= now]:
            time, action, id = min(timers, key=lambda timer: timer[:2])
            if action == _LOST:
                if time < now:  # M6
                    self._forget(object, time, "lost")
                    self._add_event(object, None, "lost", time, object.time)
                return
            if action == _ENTER:
                self._enter(object, id, time)
            elif action == _DWELL:
                self._dwell_now(object, id, time)
            else:
                self._leave(object, id, time)
            if object.last_timer is None or time > object.last_timer:
                object.last_timer = time

    def _timers(self, object: MovingObject) -> list[tuple[Any, int, Any]]:
        """Return what an object waits for as (due time, action, rule)."""
        timers: list[tuple[Any, int, Any]] = []
        for id, stay in object.stays.items():
            if stay.entered is None:
                timers.append((stay.since + self._min_stay, _ENTER, id))
            elif stay.away is not None:
                timers.append((stay.away + self._min_away, _LEAVE, id))
            due = self._dwell_due(id, stay)
            if due is not None:
                timers.append((due, _DWELL, id))
        if self._lost_after is not None:
            timers.append((object.time + self._lost_after, _LOST, None))
        return timers

    # ------------------------------------------------------------ rules

    def _read_rules(self) -> None:
        """Compare the rules with those of the last update, and judge the changed ones (C1)."""
        before, after = self._seen, dict(self._rules.by_id)
        self._seen = before | after  # events of removed rules have their old place
        for object in self._objects.values():
            for id in self._seen:
                if id not in after:
                    self._drop_rule(object, id)
                elif id not in before:
                    self._begin_stay(object, id, "rule added")
                elif normal_form(before[id].tree) != normal_form(after[id].tree):
                    self._change_rule(object, id)
        self._seen = after

    def _begin_stay(self, object: MovingObject, id: Any, reason: str) -> None:
        if holds(self._seen[id].tree, object.row):  # C3
            object.stays[id] = Stay(since=object.time)
            self._enter(object, id, object.time, reason)

    def _drop_rule(self, object: MovingObject, id: Any) -> None:
        stay = object.stays.get(id)
        if stay is not None and stay.entered is not None:  # C2
            self._leave(object, id, object.time, "rule removed")
        object.stays.pop(id, None)

    def _change_rule(self, object: MovingObject, id: Any) -> None:
        stay = object.stays.get(id)
        if stay is None:  # C4
            self._begin_stay(object, id, "rule changed")
        elif self._is_inside(object, self._seen[id], stay):
            stay.away = None
        elif stay.entered is None:
            del object.stays[id]
        else:
            self._leave(object, id, object.time, "rule changed")


_ENTER, _DWELL, _LEAVE, _LOST = range(4)  # the order of timers that are due at the same time


def _is_moment(time: Any) -> bool:
    return time is not None and (not isinstance(time, float) or math.isfinite(time))


_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}  # seconds


def _duration(value: Any) -> Any:
    """Return a duration that can be added to a time."""
    if isinstance(value, str):
        number, unit = value.split()
        return timedelta(seconds=int(number) * _UNITS[unit])
    return value


def _sort_key(value: Any) -> tuple[Any, ...]:
    """Return a key that sorts null first, NaN last and texts by their UTF-8 bytes (I5)."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, [_sort_key(part) for part in value.values()])
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, datetime):
        return (1, value)
    return (1, math.isnan(value), 0 if math.isnan(value) else value)
