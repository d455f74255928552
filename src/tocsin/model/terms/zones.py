"""Local times: instants to local times and back, by the rules of a time zone.

Arrow's own conversion uses only the transitions that time zone files list. These end in 2037 or
long before, and Arrow ignores the rule for later years. So each day is looked up once in Python,
with the transition on it if there is one.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tocsin.model import encoding
from tocsin.model.terms.arrays import from_values, replace_values, validity, values_of

DAY = 86_400_000_000  # microseconds
_NAIVE = pa.timestamp("us")
_MAX_SPAN = 1 << 18  # days in a table: 700 years
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# One day less than Python supports at both ends, for the offsets of zones.
_FIRST_DAY = (datetime.date(1, 1, 2) - datetime.date(1970, 1, 1)).days
_LAST_DAY = (datetime.date(9999, 12, 30) - datetime.date(1970, 1, 1)).days
CYCLE = 146_097  # days in 400 years, after which the calendar repeats
_FAR_DAYS = 10_000_000  # from 1970: 27,000 years; Arrow's calendar has 32,767


def is_utc(zone: datetime.tzinfo) -> bool:
    """Return whether local times of a zone are UTC."""
    return getattr(zone, "key", None) in ("UTC", "Etc/UTC") or zone is datetime.UTC


def to_local(instants: pa.Array, zone: datetime.tzinfo) -> pa.Array:
    """Return timestamps as local times, of Arrow's type without a zone."""
    if is_utc(zone):
        return instants.view(_NAIVE)
    utc = values_of(instants)
    return replace_values(instants, utc + offsets_at(utc, zone), _NAIVE)


def near_years(times: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
    """Return times in years that Arrow's calendar has, and the cycles of 400 years in between.

    The calendar repeats after a cycle, with its weeks. There are no cycles for usual times.
    """
    values = values_of(times)
    day = DAY if values.dtype == np.int64 else 1
    if not len(values) or (values.min() >= -_FAR_DAYS * day and values.max() <= _FAR_DAYS * day):
        return times, None
    cycles = values // (CYCLE * day)
    near = values - cycles * (CYCLE * day)
    return from_values(near, times.type, validity(times)), cycles.astype(np.int32)


def offsets_at(utc: np.ndarray, zone: datetime.tzinfo) -> np.ndarray:
    """Return the offsets of a zone at instants; all are microseconds."""
    return _look_up(utc, zone, _utc_day)


def local_offsets(local: np.ndarray, zone: datetime.tzinfo) -> np.ndarray:
    """Return the offsets of a zone at local times.

    In a gap this is the offset before it, in an overlap the earlier offset, as in Java.
    """
    return _look_up(local, zone, _local_day)


def to_instants(local: np.ndarray, zone: datetime.tzinfo) -> np.ndarray:
    """Return the instants of local times."""
    return local if is_utc(zone) else local - local_offsets(local, zone)


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
    return _find_change(day, lambda moment: encoding.utc_offset(moment, zone))


def _find_change(day: int, offset: Callable[[int], int]) -> Day:
    """Return the offsets of a day and when they change; at most one change is found."""
    low, high = max(day * DAY, -(2**63)), min(day * DAY + DAY, 2**63) - 1  # as times are int64
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


def offset_at(utc: int, zone: datetime.tzinfo) -> int:
    """Return the offset of a zone at an instant, in microseconds; see `encoding.utc_offset`."""
    days, rest = divmod(utc, DAY)
    if days > _LAST_DAY:
        days -= -((_LAST_DAY - days) // CYCLE) * CYCLE
    moment = _EPOCH + datetime.timedelta(max(days, _FIRST_DAY), microseconds=rest)
    offset = moment.astimezone(zone).utcoffset() or datetime.timedelta(0)
    return offset // datetime.timedelta(microseconds=1)
