"""The key line: every value of every kind as one int64, in the order Spark gives it.

::

    NULL < LOWEST ............ values ............ [number: +infinity < NAN] <= HIGHEST

So an open end is plus or minus one, `IS NULL` is an interval, and NaN, which
Spark puts above everything, needs no special case.

* number: the bits of the float64, for negatives minus those of the magnitude; so -0 is
  0, and neighbouring floats have neighbouring keys. Every NaN is one NaN.
* integer, time (microseconds since 1970 UTC): the value itself, except that null
  takes the lowest key, and 2**64 integers and a null do not fit 2**64 keys. The
  integers up to `SEAM` are therefore one higher, and `SEAM` and `SEAM + 1` share a
  key. A condition whose bound falls between those two is refused, so no answer is
  ever wrong; the seam lies at a number drawn at random, not at -2**63, where a
  condition may well have a bound.
* flag: 0 and 1.
* category: a code, given to each value that a rule mentions; all others share `OTHER`.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
import zoneinfo
from collections.abc import Callable

from tocsin.errors import ConditionError

NULL = -(2**63)
LOWEST = NULL + 1
HIGHEST = 2**63 - 1
NAN = 0x7FF8 << 48
OTHER = 0
SEAM = -5_819_204_377_310_644_129

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_NAIVE_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = 86_400_000_000  # microseconds
# Days since 1970, a day off the ends of what Python has, since zones look to both sides.
_FIRST_DAY = (datetime.date(1, 1, 2) - datetime.date(1970, 1, 1)).days
_LAST_DAY = (datetime.date(9999, 12, 30) - datetime.date(1970, 1, 1)).days
_CYCLE = 146_097  # days of 400 years
_pack = struct.Struct("<d").pack
_unpack = struct.Struct("<q").unpack


def number_key(value: float) -> int:
    """Return the key of a float.

    >>> number_key(-1.5) < number_key(-0.0) == number_key(0.0) < number_key(math.inf) < NAN
    True
    """
    if value != value:
        return NAN
    bits: int = _unpack(_pack(value))[0]
    return bits if bits >= 0 else NULL - bits


def number_value(key: int) -> float:
    """Return the float of a key; keys between NaN and the end are NaN."""
    bits = key if key >= 0 else NULL - key
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value


def integer_key(value: int) -> int:
    """Return the key of an integer that fits 64 bits."""
    return value + (value <= SEAM)


def integer_value(key: int) -> int:
    """Return the integer of a key."""
    return key - (key <= SEAM + 1)


def integer_from(value: int) -> int:
    """Return the least key of the integers that are at least `value`.

    It is `HIGHEST + 1` where there are none.
    """
    if value == SEAM + 1:
        raise ConditionError(
            f"a bound between the integers {SEAM} and {SEAM + 1} cannot be kept: of all "
            "64-bit integers these two share a key"
        )
    return integer_key(max(value, NULL)) if value <= HIGHEST else HIGHEST + 1


def double_from(bound: float) -> tuple[int, int]:
    """Return the least integers that, cast to double, are >= and > a double.

    Spark compares a bigint with a double as doubles, so beyond 2**53 several
    integers are equal to one double.
    """
    if math.isnan(bound) or bound == math.inf:
        return HIGHEST + 1, HIGHEST + 1
    if bound == -math.inf:
        return NULL, NULL
    if abs(bound) < 2**53:
        return math.ceil(bound), math.floor(bound) + 1

    def least(holds: Callable[[float], bool]) -> int:
        low, high = NULL, HIGHEST + 1
        while low < high:
            middle = (low + high) // 2
            if holds(float(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    return least(lambda v: v >= bound), least(lambda v: v > bound)


def time_key(value: datetime.date, zone: datetime.tzinfo) -> int:
    """Return microseconds since 1970 UTC of a date or datetime; without a zone it is in `zone`."""
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        # fold=0: in a gap or an overlap Python takes the earlier offset, as Java does.
        value = value.replace(tzinfo=zone)
    return (value - _EPOCH) // _MICROSECOND


def offset_at(local: int, zone: datetime.tzinfo) -> int:
    """Return by how many microseconds a zone is ahead of UTC at a local time.

    `local` is in microseconds since 1970. Python knows the years 1 to 9999: what lies before is as
    in its first, and what lies after as a multiple of 400 years earlier, when the calendar and so
    the rules of summer time are the same.
    """
    days, rest = divmod(local, _DAY)
    if days > _LAST_DAY:
        days -= -((_LAST_DAY - days) // _CYCLE) * _CYCLE
    moment = _NAIVE_EPOCH + datetime.timedelta(max(days, _FIRST_DAY), microseconds=rest)
    offset = moment.replace(tzinfo=zone).utcoffset()
    return (offset or datetime.timedelta(0)) // _MICROSECOND


def time_value(key: int) -> datetime.datetime | None:
    """Return the UTC datetime of a key, or None where Python has none that far."""
    try:
        return _EPOCH + key * _MICROSECOND
    except OverflowError:
        return None


_TIME = re.compile(
    r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?"
    r"\s*([A-Za-z][\w/+:-]*|[+-]\d{1,2}(?::?\d{2})?)?)?)?)?\s*",
    re.ASCII,
)
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)


def parse_time(text: str, zone: datetime.tzinfo, whole_days: bool = False) -> int:
    """Return the key of a time written as Spark casts it: ISO 8601, parts optional from the right.

    With `whole_days` what follows the day does not count, as when Spark casts to a date.

    >>> parse_time("1970-01-01T00:00:01+00:00", zoneinfo.ZoneInfo("UTC"))
    1000000
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, where = match.groups()
    if whole_days:
        hour = minute = second = fraction = None
    elif where:
        zone = _zone(where)
    moment = datetime.datetime(
        int(year),
        int(month or 1),
        int(day or 1),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        int((fraction or "").ljust(6, "0")[:6]),
        tzinfo=zone,
    )
    return (moment - _EPOCH) // _MICROSECOND


def _zone(text: str) -> datetime.tzinfo:
    offset = _OFFSET.fullmatch(text)
    if offset is None:
        if text.upper() in ("Z", "UTC", "GMT"):
            return datetime.UTC
        try:
            return zoneinfo.ZoneInfo(text)
        except (zoneinfo.ZoneInfoNotFoundError, OSError) as problem:
            raise ValueError(text) from problem
    sign, hours, minutes = offset.groups()
    delta = datetime.timedelta(hours=int(hours), minutes=int(minutes or 0))
    return datetime.timezone(-delta if sign == "-" else delta)
