"""Local times: instants to local times and back, by the rules of a time zone.

Times are microseconds since 1970: instants in UTC, local times as the clocks of the zone show them.
Arrow's own conversion uses only the transitions that time zone files list. These end in 2037, or
long before in the slim format, and Arrow ignores the rule for later years. So each day is looked up
once in Python, with the transition on it if there is one.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.model.arrow import values_of

DAY = 86_400_000_000  # microseconds
CYCLE = 146_097  # days in 400 years, after which the calendar repeats, with its weeks
_MAX_SPAN = 1 << 18  # days in a table: 700 years
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NAIVE_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
# Days since 1970. One day less than Python supports at both ends, for the offsets of zones.
_FIRST_DAY = (datetime.date(1, 1, 2) - datetime.date(1970, 1, 1)).days
_LAST_DAY = (datetime.date(9999, 12, 30) - datetime.date(1970, 1, 1)).days


def is_utc(zone: datetime.tzinfo) -> bool:
    """Return whether local times of a zone are UTC."""
    return getattr(zone, "key", None) in ("UTC", "Etc/UTC") or zone is datetime.UTC


def microseconds(array: pa.Array, zone: datetime.tzinfo) -> np.ndarray:
    """Return the instants of dates or timestamps; they are arbitrary where the array is null.

    Dates and timestamps without a zone are local times in `zone`.
    """
    if t.is_date(array.type):
        array = array.cast(pa.timestamp("us"))
    # The values are in UTC if there is a zone, so the zone may be unknown on this machine.
    has_zone, unit = array.type.tz is not None, array.type.unit
    if unit == "ns":
        micros = values_of(array) // 1000  # Spark truncates to microseconds, too
    elif unit == "us":
        micros = values_of(array)
    else:
        # The cast rejects times that overflow. It would also reject an unknown zone.
        without_zone = pa.Array.from_buffers(
            pa.timestamp(unit), len(array), array.buffers(), array.null_count, array.offset
        )
        micros = values_of(without_zone.cast(pa.timestamp("us")))
    return micros if has_zone else to_instants(micros, zone)


def to_instants(local: np.ndarray, zone: datetime.tzinfo) -> np.ndarray:
    """Return the instants of local times."""
    return local if is_utc(zone) else local - local_offsets(local, zone)


def offsets_at(utc: np.ndarray, zone: datetime.tzinfo) -> np.ndarray:
    """Return the offsets of a zone from UTC at instants."""
    return _look_up(utc, zone, _utc_day)


def local_offsets(local: np.ndarray, zone: datetime.tzinfo) -> np.ndarray:
    """Return the offsets of a zone from UTC at local times; see `local_offset`."""
    return _look_up(local, zone, _local_day)


def offset_at(utc: int, zone: datetime.tzinfo) -> int:
    """Return the offset of a zone from UTC at an instant."""
    moment = _EPOCH + _in_pythons_years(utc)
    return (moment.astimezone(zone).utcoffset() or datetime.timedelta(0)) // _MICROSECOND


def local_offset(local: int, zone: datetime.tzinfo) -> int:
    """Return the offset of a zone from UTC at a local time.

    In a gap this is the offset before it, in an overlap the earlier offset, as in Java.
    """
    moment = (_NAIVE_EPOCH + _in_pythons_years(local)).replace(tzinfo=zone)
    return (moment.utcoffset() or datetime.timedelta(0)) // _MICROSECOND


def _in_pythons_years(time: int) -> datetime.timedelta:
    """Return the time since 1970 of a moment with the same offset in the years 1 to 9999.

    Earlier times have the offset of year 1. Later times have the offset a multiple of 400 years
    before, where the calendar and thus the rules of summer time are the same.
    """
    days, rest = divmod(time, DAY)
    if days > _LAST_DAY:
        days -= -((_LAST_DAY - days) // CYCLE) * CYCLE
    return datetime.timedelta(max(days, _FIRST_DAY), microseconds=rest)


Day = tuple[int, int, int]  # offset before a moment of the day, that moment, offset from then on


def _look_up(
    times: np.ndarray, zone: datetime.tzinfo, day_of: Callable[[datetime.tzinfo, int], Day]
) -> np.ndarray:
    if is_utc(zone) or not len(times):
        return np.zeros(len(times), np.int64)
    days = times // DAY
    first, last = int(days.min()), int(days.max())
    if last - first < _MAX_SPAN:
        numbers = days - first
        is_present = np.zeros(last - first + 1, bool)
        is_present[numbers] = True
        present = np.flatnonzero(is_present)
        rows = np.zeros((last - first + 1, 3), np.int64)
        rows[present] = [day_of(zone, first + day) for day in present.tolist()]
    else:
        distinct, numbers = np.unique(days, return_inverse=True)
        rows = np.array([day_of(zone, day) for day in distinct.tolist()], np.int64)
    before, moment, after = rows.T
    if (before == after).all():
        return before[numbers]
    return np.where(times < moment[numbers], before[numbers], after[numbers])


@functools.lru_cache(maxsize=1 << 17)
def _utc_day(zone: datetime.tzinfo, day: int) -> Day:
    return _find_change(day, lambda moment: offset_at(moment, zone))


@functools.lru_cache(maxsize=1 << 17)
def _local_day(zone: datetime.tzinfo, day: int) -> Day:
    return _find_change(day, lambda moment: local_offset(moment, zone))


def _find_change(day: int, offset: Callable[[int], int]) -> Day:
    """Return the offsets of a day and when they change; at most one change is found."""
    # Only a part of the first and the last day fits into 64 bits.
    low, high = max(day * DAY, -(2**63)), min(day * DAY + DAY, 2**63) - 1
    before, after = offset(low), offset(high)
    if before == after:
        return before, low, after
    while high - low > 1:
        middle = (low + high) // 2
        if offset(middle) == before:
            low = middle
        else:
            high = middle
    return before, high, after
