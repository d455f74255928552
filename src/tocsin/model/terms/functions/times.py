"""Functions of times, in the local time of the schema's time zone."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.arrow import values_of
from tocsin.model.local_times import CYCLE, DAY, is_utc, offsets_at, to_instants
from tocsin.model.terms.arrays import Value, from_values, null_where, plain, validity
from tocsin.model.terms.coercion import Resolved, TermBuilder, TermError, Written, describe
from tocsin.model.terms.functions.function import (
    Function,
    need_date,
    need_literal,
    need_timestamp,
)
from tocsin.model.terms.tree import Term, literal
from tocsin.model.terms.types import BIGINT, DATE, INT, NULL, STRING, TIMESTAMP, arrow_type
from tocsin.model.terms.zones import near_years

_TIMESTAMP = arrow_type(TIMESTAMP)
_NAIVE = pa.timestamp("us")
_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    "QUARTER": "quarter",
    **dict.fromkeys(("MONTH", "MM", "MON"), "month"),
    "WEEK": "week",
    **dict.fromkeys(("DAY", "DD"), "day"),
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
    "MILLISECOND": "millisecond",
    "MICROSECOND": "microsecond",
}
_LAST_DAY = 106_751_991  # since 1970, with a midnight that fits into 64 bits


def local_days(call: Any, instants: pa.Array) -> pa.Array:
    """Return the local dates of timestamps."""
    near, cycles = call.local(instants)
    days = values_of(near) // DAY
    if cycles is not None:
        days = days + cycles.astype(np.int64) * CYCLE
    return from_values(days.astype(np.int32), pa.date32(), validity(instants))


def start_of_days(dates: pa.Array, zone: datetime.tzinfo) -> pa.Array:
    """Return when days start, as timestamps; null beyond the first and the last timestamp."""
    days = values_of(dates).astype(np.int64)
    is_far = np.abs(days) > _LAST_DAY
    local = np.where(is_far, 0, days) * DAY
    instants = to_instants(local, zone)
    starts = from_values(instants, _TIMESTAMP, validity(dates))
    return null_where(starts, is_far | (np.abs(local - instants / 1) > 2.0**62))


def _resolve_day(name: str) -> Any:
    """Return how a function of a day is resolved: a timestamp stays one, to share local times."""

    def resolve(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
        (time,) = arguments
        if time.type == TIMESTAMP:
            return (time,), INT
        return (need_date(build, time, name),), INT

    return resolve


def _resolve_clock(name: str) -> Any:
    def resolve(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
        return (need_timestamp(build, arguments[0], name),), INT

    return resolve


def _part(kernel: Any) -> Any:
    def compute(call: Any, times: pa.Array) -> pa.Array:
        if call.term.arguments[0].type == TIMESTAMP:
            near, cycles = call.local(times)
        else:
            near, cycles = near_years(times)
        part = kernel(near).cast(pa.int32(), safe=False)
        if cycles is None or kernel is not pc.year:
            return part
        return from_values(values_of(part) + 400 * cycles, pa.int32(), validity(part))

    return compute


def _day_of_week(times: pa.Array) -> pa.Array:
    return pc.day_of_week(times, count_from_zero=False, week_start=7)


def _weekday(times: pa.Array) -> pa.Array:
    return pc.day_of_week(times, count_from_zero=True, week_start=1)


def _resolve_truncate(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    unit = need_literal(arguments[0], STRING, "the unit of date_trunc")
    time = need_timestamp(build, arguments[1], "date_trunc")
    name = _UNITS.get(str(unit.value).upper())
    if name is None:
        raise TermError(f"date_trunc has no unit {unit.value!r}; it has {', '.join(_UNITS)}")
    return (literal(name, STRING), time), TIMESTAMP


def _truncate(call: Any, unit: pa.Scalar | pa.Array, times: Value) -> pa.Array:
    name = call.term.arguments[0].value
    if isinstance(times, pa.Scalar):
        times = pa.repeat(times, 1)
    is_fixed = is_utc(call.zone) or name in ("microsecond", "millisecond", "second")
    near, cycles = near_years(times.view(_NAIVE)) if is_fixed else call.local(times)
    floor = pc.floor_temporal(near, unit=name)
    if is_fixed and cycles is None:
        return floor.view(_TIMESTAMP)
    utc = values_of(times)
    result = utc - (values_of(near) - values_of(floor))
    if not is_fixed:
        # As in Java, the offset stays if it is valid at the new local time.
        offsets = offsets_at(utc, call.zone)
        has_moved = offsets_at(result, call.zone) != offsets
        if has_moved.any():
            local = result[has_moved] + offsets[has_moved]
            result[has_moved] = to_instants(local, call.zone)
    # Null where the start precedes the first timestamp; out of a gap, it may follow the time.
    has_wrapped = (utc < -(2**62)) & (result > 0)
    return null_where(from_values(result, _TIMESTAMP, validity(times)), has_wrapped)


def _resolve_datediff(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    return tuple(need_date(build, a, "datediff") for a in arguments), INT


def _datediff(call: Any, end: Value, start: Value) -> pa.Array:
    a, b = (np.asarray(plain(v), np.int32) for v in (end, start))
    with np.errstate(over="ignore"):
        return from_values(np.atleast_1d(a - b), pa.int32(), validity(end, start))


def _resolve_date_add(name: str) -> Any:
    def resolve(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
        date = need_date(build, arguments[0], name)
        days = arguments[1]
        if days.type not in (INT, NULL):
            raise TermError(f"{name} needs an int, but {describe(days)}; cast it to int")
        return (date, build.cast(days, INT)), DATE

    return resolve


def _date_add(operation: Any, call: Any, dates: Value, days: Value) -> pa.Array:
    # Like Spark's, dates beyond 32 bits wrap around.
    a, b = (np.asarray(plain(v), np.int32) for v in (dates, days))
    with np.errstate(over="ignore"):
        return from_values(np.atleast_1d(operation(a, b)), pa.date32(), validity(dates, days))


def _resolve_unix(name: str) -> Any:
    def resolve(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
        (time,) = arguments
        if not time.type.is_time and time.type != NULL:
            raise TermError(f"{name} needs a time, but {describe(time)}")
        return (build.cast(time, TIMESTAMP),), BIGINT

    return resolve


def _unix(step: int, call: Any, times: pa.Array) -> pa.Array:
    return from_values(values_of(times) // step, pa.int64(), validity(times))


def _unix_timestamp(call: Any, times: pa.Array) -> pa.Array:
    # Unlike unix_seconds, Spark cuts off towards zero.
    micros = values_of(times)
    seconds = micros // 1_000_000
    seconds += (micros < 0) & (seconds * 1_000_000 != micros)
    return from_values(seconds, pa.int64(), validity(times))


def _day_function(name: str, note: str, kernel: Any, aliases: tuple[str, ...] = ()) -> Function:
    return Function(
        name, f"{name}(time)", "int", note, 1, 1, _resolve_day(name), _part(kernel), aliases=aliases
    )


TIMES: list[Function] = [
    _day_function("year", "", pc.year),
    _day_function("quarter", "", pc.quarter),
    _day_function("month", "", pc.month),
    _day_function("day", "of the month", pc.day, ("dayofmonth",)),
    _day_function("dayofweek", "Sunday is 1", _day_of_week),
    _day_function("weekday", "Monday is 0", _weekday),
    _day_function("dayofyear", "", pc.day_of_year),
    _day_function("weekofyear", "as in ISO 8601", pc.iso_week),
    *(
        Function(name, f"{name}(time)", "int", "", 1, 1, _resolve_clock(name), _part(kernel))
        for name, kernel in (("hour", pc.hour), ("minute", pc.minute), ("second", pc.second))
    ),
    Function(
        "date_trunc",
        "date_trunc(unit, time)",
        "timestamp",
        "the unit is a constant: year, quarter, month, week, day, hour, minute, second, "
        "millisecond or microsecond",
        2,
        2,
        _resolve_truncate,
        _truncate,
    ),
    Function(
        "datediff",
        "datediff(end, start)",
        "int",
        "in days",
        2,
        2,
        _resolve_datediff,
        _datediff,
        aliases=("date_diff",),
    ),
    *(
        Function(
            name,
            f"{name}(date, days)",
            "date",
            "",
            2,
            2,
            _resolve_date_add(name),
            functools.partial(_date_add, operation),
        )
        for name, operation in (("date_add", np.add), ("date_sub", np.subtract))
    ),
    Function(
        "unix_timestamp",
        "unix_timestamp(time)",
        "bigint",
        "seconds since 1970 UTC, rounded towards 1970; unix_seconds rounds down",
        1,
        1,
        _resolve_unix("unix_timestamp"),
        _unix_timestamp,
    ),
    *(
        Function(
            name,
            f"{name}(time)",
            "bigint",
            "since 1970 UTC",
            1,
            1,
            _resolve_unix(name),
            functools.partial(_unix, step),
        )
        for name, step in (
            ("unix_seconds", 1_000_000),
            ("unix_millis", 1_000),
            ("unix_micros", 1),
        )
    ),
]
