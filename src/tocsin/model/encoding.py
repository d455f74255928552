"""The order-preserving encoding: every value of every kind becomes an int64, its *key*.

Keys are in the order that Spark gives the values::

    NULL < LOWEST ............ values ............ [number: +infinity < NAN] <= HIGHEST

So an exclusive bound is an inclusive bound plus or minus one, `IS NULL` is an interval, and NaN,
which Spark orders above everything, needs no special case.

* number: the bits of the float64; for a negative number, minus the bits of its magnitude. So -0
  equals 0, and adjacent floats have adjacent keys. All NaNs have one key.
* integer, time (microseconds since 1970 UTC): the value itself. But null has the lowest key, and
  2**64 integers and a null do not fit into 2**64 keys. So the integers up to `SEAM` are one
  higher, and `SEAM` and `SEAM + 1` share a key. A condition with a bound between these two raises
  an error, so matches are never wrong. The seam is a random number and not -2**63, because
  conditions do have bounds at -2**63.
* flag: 0 and 1.
* category: the code of a value that a rule mentions; all other values share `OTHER`.
"""

from __future__ import annotations

import datetime
import math
import struct
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
    """Return the float of a key; all keys from `NAN` on are NaN."""
    bits = key if key >= 0 else NULL - key
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value


def integer_key(value: int) -> int:
    """Return the key of a 64-bit integer."""
    return value + (value <= SEAM)


def integer_value(key: int) -> int:
    """Return the integer of a key."""
    return key - (key <= SEAM + 1)


def least_integer_key(value: int) -> int:
    """Return the least key of a 64-bit integer >= `value`, or `HIGHEST + 1` if there is none."""
    if value == SEAM + 1:
        raise ConditionError(
            f"a bound cannot be between the integers {SEAM} and {SEAM + 1}: these two share a key, "
            "unlike all other 64-bit integers"
        )
    return integer_key(max(value, NULL)) if value <= HIGHEST else HIGHEST + 1


def double_cuts(bound: float) -> tuple[int, int]:
    """Return the least integers that, cast to double, are >= and > `bound`.

    Spark compares a bigint with a double as doubles. Beyond 2**53 several integers are equal to
    one double.
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


def to_microseconds(value: datetime.date, zone: datetime.tzinfo) -> int:
    """Return the microseconds since 1970 UTC of a date or datetime, by default in `zone`."""
    if hasattr(value, "to_pydatetime"):  # of pandas, whose arithmetic overflows in 1677 and 2262
        value = value.to_pydatetime(warn=False)
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        # With fold=0 Python uses the earlier offset in gaps and overlaps, as Java does.
        value = value.replace(tzinfo=zone)
    return (value - _EPOCH) // _MICROSECOND


def to_datetime(microseconds: int) -> datetime.datetime | None:
    """Return the UTC datetime of microseconds since 1970, or None beyond the years 1 to 9999."""
    try:
        return _EPOCH + microseconds * _MICROSECOND
    except OverflowError:
        return None
