"""Reads keys, numbers, times and boxes."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.errors import MonitorError
from tocsin.model.arrow import decode, is_text, refuse_spark, translate_errors
from tocsin.model.encoding import to_microseconds

_SIDES = ("low", "high")


def read_array(values: Any, name: str) -> pa.Array:
    """Return values as an Arrow array."""
    refuse_spark(values, MonitorError, name, "collect it first if it fits")
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise MonitorError(f"{name} must be a list or an array, got {values!r}")
    with translate_errors(MonitorError, f"{name} cannot be read"):
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return decode(values)
        if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
            return decode(pa.chunked_array(values))
        is_array = isinstance(values, np.ndarray)
        return decode(pa.array(values if is_array else list(values), from_pandas=is_array))


def read_keys(keys: Any) -> pa.Array:
    """Return keys as an array of int64 or large text, without nulls or duplicates."""
    array = read_array(keys, "keys")
    if t.is_null(array.type) and not len(array):
        array = array.cast(pa.int64())
    if array.null_count:
        row = pc.index(array.is_null(), True).as_py()
        raise MonitorError(f"the key in row {row:,} is null; every object needs one")
    if not (t.is_integer(array.type) or is_text(array.type)):
        raise MonitorError(f"keys must be texts or integers, got {array.type}")
    with translate_errors(MonitorError, "keys cannot be read"):
        return array.cast(pa.int64() if t.is_integer(array.type) else pa.large_string())


def read_numbers(values: Any, name: str, n: int) -> np.ndarray:
    """Return n numbers as a new float64 array; nulls are NaN."""
    if not (isinstance(values, np.ndarray) and values.dtype == np.float64 and values.ndim == 1):
        array = read_array(values, name)
        if not (
            t.is_integer(array.type)
            or t.is_floating(array.type)
            or t.is_decimal(array.type)
            or t.is_null(array.type)
        ):
            raise MonitorError(f"{name} must be numbers, got {array.type}")
        with translate_errors(MonitorError, f"{name} cannot be read"):
            values = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if len(values) != n:
        raise MonitorError(
            f"{name} has {len(values):,} values, but there are {n:,} objects; they must be in the "
            "same order"
        )
    return np.array(values, np.float64)


def read_speeds(v_max: Any, keys: pa.Array) -> np.ndarray:
    """Return the v_max of each object; NaN if it is not known."""
    if v_max is None or _is_number(v_max):
        speeds = np.full(len(keys), math.nan if v_max is None else float(v_max))
    else:
        speeds = read_numbers(v_max, "v_max", len(keys))
    bad = np.flatnonzero(speeds < 0)
    if len(bad):
        raise MonitorError(
            f"object {keys[int(bad[0])].as_py()!r}: v_max is {speeds[bad[0]]:g}, but it must not "
            "be negative; leave it null if it is not known"
        )
    # One that is so large is no constraint, and 0 seconds times it is not a number.
    return np.where(speeds < 1e308, speeds, math.nan)


def read_box(low: Any, high: Any) -> tuple[float, float, float, float]:
    """Return the ends of a box: x and y of the lower one, then of the upper one.

    A number that is not a float becomes the next one inside the box, so that no float changes side.
    """
    ends = []
    for side, point in zip(_SIDES, (low, high)):
        try:
            x, y = point
        except (TypeError, ValueError):
            raise MonitorError(f"{side} must be a point [x, y], got {point!r}") from None
        ends += [_read_end(x, side), _read_end(y, side)]
    return ends[0], ends[1], ends[2], ends[3]


def _read_end(value: Any, side: str) -> float:
    if type(value) is float and value == value:
        return value
    is_low = side == "low"
    if value is None:
        return -math.inf if is_low else math.inf
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        end = float(value)
    except OverflowError:
        end = math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        end = math.nan
    if math.isnan(end):
        raise MonitorError(
            f"an end of the box, in {side}, is {value!r}; ends must be numbers. Use None or an "
            "infinity where the box has no end"
        )
    if is_low and end < value:
        return math.nextafter(end, math.inf)
    if not is_low and end > value:
        return math.nextafter(end, -math.inf)
    return end


class Clock:
    """Converts times to seconds: numbers stay as they are, datetimes count from the first one.

    >>> clock = Clock()
    >>> clock.read(datetime.datetime(2024, 1, 1, 12, 0), "at")
    0.0
    >>> clock.read(datetime.datetime(2024, 1, 1, 12, 1), "now")
    60.0
    """

    def __init__(self) -> None:
        self._has_numbers: bool | None = None
        self._origin = 0  # microseconds since 1970 UTC

    def read(self, value: Any, name: str) -> float:
        """Return a time in seconds."""
        if type(value) is float and self._has_numbers and math.isfinite(value):
            return value
        if _is_number(value):
            self._settle(True, name, value)
            with translate_errors(MonitorError, f"{name} must be a time"):
                seconds = float(value)
        elif isinstance(value, datetime.datetime | np.datetime64) and value == value:
            if isinstance(value, np.datetime64):
                microseconds = int(value.astype("datetime64[us]").astype(np.int64))
            else:
                microseconds = to_microseconds(value, datetime.UTC)
            self._settle(False, name, value, microseconds)
            seconds = (microseconds - self._origin) / 1e6
        else:
            seconds = math.nan
        if not math.isfinite(seconds):
            raise MonitorError(f"{name} must be a time, as seconds or a datetime, got {value!r}")
        return seconds

    def read_each(self, values: Any, name: str, n: int) -> np.ndarray:
        """Return n times in seconds, from a time for all of them or one for each."""
        if _is_number(values) or isinstance(values, datetime.datetime | np.datetime64):
            return np.full(n, self.read(values, name))
        array = read_array(values, name)
        if t.is_timestamp(array.type):
            with translate_errors(MonitorError, f"{name} cannot be read"):
                array = array.cast(pa.timestamp("us", array.type.tz), safe=False)
            if len(array) and array.null_count == 0:
                micros = np.asarray(array.cast(pa.int64()))
                self._settle(False, name, array[0].as_py(), int(micros[0]))
                seconds = (micros - self._origin) / 1e6
            else:
                seconds = np.full(len(array), math.nan)
        else:
            seconds = read_numbers(array, name, n)
            if n:
                self._settle(True, name, seconds[0])
        if len(seconds) != n:
            raise MonitorError(f"{name} has {len(seconds):,} times, but there are {n:,} objects")
        bad = np.flatnonzero(~np.isfinite(seconds))
        if len(bad):
            raise MonitorError(
                f"the time in row {bad[0]:,} of {name} is null or not finite; a position has a time"
            )
        return np.asarray(seconds, np.float64)

    def _settle(self, has_numbers: bool, name: str, value: Any, origin: int = 0) -> None:
        """Take the kind of the first time for all; raise if one is of another kind."""
        if self._has_numbers is None:
            self._has_numbers, self._origin = has_numbers, origin
        if self._has_numbers != has_numbers:
            kind = "numbers" if self._has_numbers else "datetimes"
            raise MonitorError(
                f"{name} is {value!r}, but the times of this index are {kind}; they are all "
                "numbers, or all datetimes"
            )


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float | np.integer | np.floating)
    return is_number and not isinstance(value, bool)
