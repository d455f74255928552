"""The options of a monitor, and durations as users write them."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import MonitorError

# Nanoseconds of units, by their names in texts such as "90 s".
_UNITS = {
    unit: size
    for names, size in (
        ("ns nanosecond nanoseconds", 1),
        ("us microsecond microseconds", 10**3),
        ("ms millisecond milliseconds", 10**6),
        ("s sec second seconds", 10**9),
        ("m min minute minutes", 60 * 10**9),
        ("h hour hours", 3600 * 10**9),
        ("d day days", 86400 * 10**9),
    )
    for unit in names.split()
}
EVENT_COLUMNS = ("object", "rule", "event", "time", "since", "reason", "rules_version")
# Options that streams which began without them do not have in their settings.
_LATER = ("safe_regions", "rect_by", "rect_reach")
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_TICK = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # nanoseconds of units of timestamps


@dataclass(frozen=True)
class MonitorOptions:
    """What a monitor watches, and what it waits for; see `Monitor`.

    Durations are as given; the type of times says what they may be.
    """

    key: str = "object"
    time: str = "t"
    position: Sequence[str] = ("x", "y")
    dwell: Any = None
    margin: float | str = 0.0
    min_stay: Any = None
    min_away: Any = None
    lost_after: Any = None
    delay: Any = None
    removed: str | None = None
    keep: Sequence[str] = ()
    payload: Sequence[str] = ()
    safe_regions: str | None = None
    rect_by: str = "area"
    rect_reach: float | None = None
    v_max: float | str | None = None

    def __post_init__(self) -> None:
        for name in ("key", "time"):
            _check_name(name, getattr(self, name))
        for name in ("position", "keep", "payload"):
            names = getattr(self, name)
            if isinstance(names, str) or not isinstance(names, Sequence):
                raise MonitorError(f"{name} takes names of columns in a list, got {names!r}")
            for each in names:
                _check_name(name, each)
            object.__setattr__(self, name, tuple(names))
        taken = set(EVENT_COLUMNS)
        for name in ("keep", "payload"):
            for each in getattr(self, name):
                if each.lower() in taken:
                    raise MonitorError(
                        f"{name}: events have a column {each!r} already; leave it out, or rename it"
                    )
                taken.add(each.lower())
        if self.removed is not None:
            _check_name("removed", self.removed)
        if not isinstance(self.margin, str):
            is_number = isinstance(self.margin, int | float | np.number)
            if not is_number or isinstance(self.margin, bool) or not self.margin >= 0:
                raise MonitorError(
                    "margin must be a number, 0 or more, or the name of a payload column; got "
                    f"{self.margin!r}"
                )
            if math.isinf(self.margin):
                raise MonitorError("margin must be finite; with an infinite one no object leaves")
            object.__setattr__(self, "margin", float(self.margin))
        for name in ("dwell", "min_stay", "min_away", "lost_after", "delay"):
            value = getattr(self, name)
            if value is not None and not (name == "dwell" and self.dwell_column):
                check_duration(name, value)
        self._check_v_max()
        self._check_regions()

    def _check_v_max(self) -> None:
        v_max = self.v_max
        if v_max is None or isinstance(v_max, str):
            if v_max is not None:
                _check_name("v_max", v_max)
        elif not isinstance(v_max, int | float | np.number) or isinstance(v_max, bool):
            raise MonitorError(
                f"v_max must be a number, or the name of a column of positions; got {v_max!r}"
            )
        elif not 0 <= v_max < math.inf:
            raise MonitorError(f"v_max must be 0 or more, and finite; got {v_max!r}")
        if v_max is not None and len({name.lower() for name in self.position}) != 2:
            raise MonitorError(
                "v_max is for positions of two columns, as in position=['x', 'y']; got "
                f"{list(self.position)!r}"
            )

    def _check_regions(self) -> None:
        for name, values in (
            ("safe_regions", (None, "dist", "sphere", "rect")),
            ("rect_by", ("area", "perimeter")),
        ):
            value = getattr(self, name)
            if value not in values:
                known = ", ".join(map(repr, values))
                raise MonitorError(f"{name} is one of {known}; got {value!r}")
        reach = self.rect_reach
        if self.safe_regions != "rect" and (self.rect_by != "area" or reach is not None):
            raise MonitorError('rect_by and rect_reach are for safe_regions="rect"')
        is_number = isinstance(reach, int | float | np.number) and not isinstance(reach, bool)
        if reach is not None and not (is_number and reach >= 1 and math.isfinite(reach)):
            raise MonitorError(
                "rect_reach is how many times the distance to the nearest edge a rectangle may "
                f"reach, 1 or more; got {reach!r}"
            )
        names = {name.lower() for name in self.position}
        if self.safe_regions is not None and (len(self.position) != 2 or len(names) != 2):
            raise MonitorError(
                "safe regions are of two position columns, as in position=['x', 'y']; got "
                f"{list(self.position)!r}"
            )

    @property
    def dwell_column(self) -> str | None:
        """The payload column that says how long each rule waits, if `dwell` names one."""
        is_name = isinstance(self.dwell, str) and not _DURATION.fullmatch(self.dwell)
        return self.dwell if is_name else None

    @property
    def margin_column(self) -> str | None:
        """The payload column with each rule's margin, if `margin` names one."""
        return self.margin if isinstance(self.margin, str) else None

    @property
    def has_margin(self) -> bool:
        """Whether some rule may have a margin."""
        return self.margin != 0

    def to_json(self) -> dict[str, Any]:
        """Return the options as values that JSON has."""
        return {f.name: _to_json(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return the options that `to_json` has returned."""
        return cls(**{name: _from_json(value) for name, value in values.items()})

    def describe(self) -> dict[str, str]:
        """Return the options that decide what a state means, as texts that can be compared."""
        return {
            f.name: repr(_plain(getattr(self, f.name)))
            for f in fields(self)
            if f.name not in ("keep", "payload", "v_max")  # which changes no answer
            and not (f.name in _LATER and getattr(self, f.name) == f.default)
        }


def _to_json(value: Any) -> Any:
    if isinstance(value, datetime.timedelta | np.timedelta64):
        return {"nanoseconds": _nanoseconds(value)}
    return value.item() if isinstance(value, np.generic) else value


def _from_json(value: Any) -> Any:
    return f"{value['nanoseconds']} ns" if isinstance(value, dict) else value


def _plain(value: Any) -> Any:
    """Return a duration such that equal ones are described alike."""
    is_text = isinstance(value, str) and _DURATION.fullmatch(value)
    if is_text or isinstance(value, datetime.timedelta | np.timedelta64):
        return f"{_nanoseconds(value)} ns"
    return value.item() if isinstance(value, np.generic) else value


def _check_name(parameter: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise MonitorError(f"{parameter} takes the name of a column, got {name!r}")


# ------------------------------------------------------------ durations


def check_duration(name: str, value: Any) -> None:
    """Raise unless a value is a duration, of 0 or more."""
    is_negative = False
    if isinstance(value, str):
        _nanoseconds(value, name)
    elif isinstance(value, datetime.timedelta | np.timedelta64):
        is_negative = _nanoseconds(value) < 0
    elif isinstance(value, int | float | np.number) and not isinstance(value, bool):
        is_negative = not value >= 0 or math.isinf(value)
    else:
        raise MonitorError(
            f"{name} must be a timedelta, a text such as '90 s', or for times that are numbers a "
            f"number; got {value!r}"
        )
    if is_negative:
        raise MonitorError(f"{name} must be 0 or more, and finite; got {value!r}")


def _nanoseconds(value: Any, name: str = "a duration") -> int:
    if isinstance(value, str):
        found = _DURATION.fullmatch(value)
        size = _UNITS.get(found[2] if found and found[2] in _UNITS else "")
        if found is None or size is None:
            raise MonitorError(
                f"{name} must be a duration such as '90 s', '15 min', '2 h' or '1 d'; got {value!r}"
            )
        whole, _, part = found[1].partition(".")
        return int(whole) * size + int(part or 0) * size // 10 ** len(part)
    if isinstance(value, np.timedelta64):
        return int(value.astype("timedelta64[ns]").astype(np.int64))
    return (value // datetime.timedelta(microseconds=1)) * 1000


def to_ticks(name: str, value: Any, time_type: pa.DataType) -> int:
    """Return a duration as a word: units of timestamps, a whole number, or the bits of a float."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, np.timedelta64)
    if t.is_timestamp(time_type):
        if is_number:
            raise MonitorError(
                f"{name} is {value!r}, but times are of type {time_type}; give a unit, as in "
                f"'{value} s'"
            )
        ticks, rest = divmod(_nanoseconds(value, name), _TICK[time_type.unit])
        if rest:
            raise MonitorError(
                f"{name} is {value!r}, which is no whole number of the units of times, which are "
                f"of type {time_type}; cast them to timestamp[us]"
            )
        return _fit(ticks)
    if not is_number:
        raise MonitorError(
            f"{name} is {value!r}, but times are of type {time_type}; give a number, too"
        )
    if t.is_floating(time_type):
        return int(np.float64(value).view(np.int64))
    if value != int(value):
        raise MonitorError(
            f"{name} is {value!r}, but times are whole numbers of type {time_type}; round it"
        )
    return _fit(int(value))


def _fit(ticks: int) -> int:
    return min(ticks, 2**63 - 1)
