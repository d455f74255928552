"""Casts between types; a value that cannot be cast is null."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.arrow import values_of
from tocsin.model.local_times import CYCLE, DAY, offset_at
from tocsin.model.terms.arrays import (
    from_values,
    map_distinct,
    map_where,
    null_where,
    validity,
)
from tocsin.model.terms.functions import decimals
from tocsin.model.terms.functions.times import local_days, start_of_days
from tocsin.model.terms.types import BIGINT, BOOLEAN, MAX_DIGITS, STRING, Type, arrow_type
from tocsin.model.time_texts import BLANK, read_date, read_timestamp

_LIMITS = {"int": 2**31, "bigint": 2**63}
_BIGINT_DIGITS = 19
_DOUBLE_DIGITS = 15  # every decimal with up to so many digits is the text of a double
_SECOND = 1_000_000  # microseconds
# Possessive, so that they need linear time.
_INTEGER = re.compile(r"([+-]?)(?=[0-9])0*+([0-9]*+)")
_DECIMAL = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?")  # any digits, as in Java
_DOUBLE = re.compile(_DECIMAL.pattern + r"[dDfF]?", re.ASCII)
_SPECIAL = re.compile(r"[+-]?(?i:inf|infinity)|(?i:nan)|[+-]NaN")
_HEXADECIMAL = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[dDfF]?"
)
_SPACES = "".join(map(chr, range(33)))  # what Java trims; Spark trims DEL, too, around integers
_TRUE = frozenset(("t", "true", "y", "yes", "1"))
_FALSE = frozenset(("f", "false", "n", "no", "0"))
_EXACT = decimal.Context(prec=2 * MAX_DIGITS + 4)  # digits of a quantized decimal


def cast_advice(source: Type, target: Type) -> str | None:
    """Return None if a cast is supported, otherwise what to do instead."""
    if source.is_nested:
        return "use one of its fields or values"
    if target.is_nested or target.name == "null":
        return "cast to a plain type"
    if target == STRING:
        if source.name == "double":
            return "the text of a double depends on the version of Java; cast it to a decimal first"
        return None
    if source in (STRING, target):
        return None
    if source.is_number and (target.is_number or target == BOOLEAN):
        return None
    if source == BOOLEAN:
        return None if target.is_number else "use CASE"
    if source.is_time and target.is_time:
        return None
    if source.name == "timestamp" and (target.is_integral or target.name == "double"):
        return None
    if source.is_integral and target.name == "timestamp":
        return None
    if source.name == "date":
        return "use datediff or unix_timestamp"
    return "use unix_timestamp, CASE or another type"


def compute_cast(call: Any, value: pa.Array) -> pa.Array:
    """Return values cast to the type of the call's term."""
    source, target = call.term.arguments[0].type, call.term.type
    if source == STRING:
        return _from_text(value, target, call.zone)
    if target == STRING:
        return _to_text(call, value, source)
    if source.name == "decimal":
        return _from_decimal(value, source, target)
    if target.name == "decimal":
        return _to_decimal(value, source, target)
    if source.is_time or target.is_time:
        return _cast_time(call, value, source, target)
    if target == BOOLEAN:
        return pc.not_equal(value, pa.scalar(0, value.type))
    if target.name == "double":
        return (
            value.cast(pa.uint8()).cast(pa.float64())
            if source == BOOLEAN
            else value.cast(pa.float64(), safe=False)
        )
    if source == BOOLEAN or (target == BIGINT and source.name == "int"):
        return value.cast(arrow_type(target))
    if source.name == "double":
        return _truncate_doubles(value, target)
    numbers = values_of(value)
    is_bad = (numbers < -(2**31)) | (numbers >= 2**31)
    return null_where(from_values(numbers.astype(np.int32), pa.int32(), validity(value)), is_bad)


def _truncate_doubles(value: pa.Array, target: Type) -> pa.Array:
    """Return doubles without their decimal places; null beyond the integers, and for NaN."""
    whole = pc.trunc(value)
    try:
        return whole.cast(arrow_type(target))
    except pa.ArrowInvalid:
        pass
    numbers, limit = values_of(value), _LIMITS[target.name]
    # As doubles, so 2**63 itself counts as the largest bigint.
    highest = float(limit - 1)
    with np.errstate(invalid="ignore"):
        fits = (np.floor(numbers) <= highest) & (np.ceil(numbers) >= -limit)
        clipped = np.where(fits & (numbers < limit), numbers, 0)
    integers = clipped.astype(np.int64)
    integers[fits & (numbers >= limit)] = limit - 1
    result = from_values(
        integers.astype(arrow_type(target).to_pandas_dtype()), arrow_type(target), validity(value)
    )
    return null_where(result, ~fits)


def _from_decimal(value: pa.Array, source: Type, target: Type) -> pa.Array:
    if target.name == "decimal":
        return decimals.to_scale(value, target, "half_up")
    if target == BOOLEAN:
        return pc.not_equal(value, pa.scalar(decimal.Decimal(0), value.type))
    is_small = source.digits <= 18
    integers = decimals.unscaled(value, is_small)
    if target.name == "double":
        # Both exact: the quotient is correctly rounded.
        with np.errstate(all="ignore"):
            numbers = integers.astype(np.float64) / 10.0**source.scale
        fast = from_values(numbers, pa.float64(), validity(value))
        if source.digits <= 15 and source.scale <= 22:
            return fast
        doubtful = (abs(integers) >= 2**53).astype(bool) | (source.scale > 22)
        return map_where(value, np.flatnonzero(doubtful), float, fast)
    whole = abs(integers) // 10**source.scale
    whole = np.where(integers < 0, -whole, whole)
    limit = _LIMITS[target.name]
    is_bad = ((whole < -limit) | (whole >= limit)).astype(bool)
    type_ = arrow_type(target)
    whole = np.where(is_bad, 0, whole).astype(type_.to_pandas_dtype())
    return null_where(from_values(whole, type_, validity(value)), is_bad)


def _to_decimal(value: pa.Array, source: Type, target: Type) -> pa.Array:
    if source.name == "double" and target.digits <= _DOUBLE_DIGITS:
        return _round_to_decimal(value, target)
    if source.name == "double":
        # By the shortest text, as Java 19 and later write it; earlier ones may add a 17th digit.
        return map_distinct(
            value, lambda number: to_decimal(repr(number), target), arrow_type(target)
        )
    if source == BOOLEAN:
        value = value.cast(pa.int8()).cast(pa.int64())
    integers = values_of(value).astype(np.int64, copy=False)
    valid = validity(value)
    whole = target.digits - target.scale
    is_bad = None
    if whole < _BIGINT_DIGITS:
        limit = 10**whole
        is_bad = (integers <= -limit) | (integers >= limit)
        integers = np.where(is_bad, 0, integers)
    if target.digits < _BIGINT_DIGITS:
        return decimals.fit(integers * 10**target.scale, target, valid, is_bad)
    # Arrow scales up exactly, in 128 bits.
    exact = decimals.from_unscaled(integers, Type("decimal", _BIGINT_DIGITS, 0), valid)
    result = exact.cast(arrow_type(target))
    return result if is_bad is None else null_where(result, is_bad)


def _round_to_decimal(value: pa.Array, target: Type) -> pa.Array:
    """Return doubles as short decimals; see `numbers._round_doubles`."""
    numbers = values_of(value)
    with np.errstate(all="ignore"):
        scaled = np.abs(numbers * 10.0**target.scale)
        whole = np.floor(scaled)
        part = scaled - whole
        is_bad = ~(scaled < 10.0**target.digits)
        rounded = np.where(is_bad, 0, whole + (part >= 0.5))
        is_doubtful = ~(np.abs(part - 0.5) > scaled * 2.0**-51 + 1e-300) & ~is_bad
    integers = np.copysign(rounded, numbers).astype(np.int64)
    fast = decimals.fit(integers, target, validity(value), is_bad)
    return map_where(
        value,
        np.flatnonzero(is_doubtful),
        lambda number: to_decimal(repr(number), target),
        fast,
    )


def to_decimal(text: str, target: Type) -> decimal.Decimal | None:
    """Return a number's text as a decimal of a type, rounded half up, or None if none fits."""
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:  # its exponent is too large
        return None
    # Java has 32 bits for the number of decimal places.
    if not number.is_finite() or abs(number.as_tuple().exponent) >= 2**31:  # type: ignore[arg-type]
        return None
    if number and number.adjusted() > MAX_DIGITS:
        return None
    if not number or number.adjusted() < -2 * MAX_DIGITS:
        number = decimal.Decimal(0)
    unit = decimal.Decimal(1).scaleb(-target.scale)
    rounded = number.quantize(unit, decimal.ROUND_HALF_UP, _EXACT)
    fits = not rounded or rounded.adjusted() < target.digits - target.scale
    return rounded if fits else None


def _cast_time(call: Any, value: pa.Array, source: Type, target: Type) -> pa.Array:
    if source.name == "date":
        return start_of_days(value, call.zone)
    if source.name != "timestamp":
        seconds = values_of(value).astype(np.int64)
        most = (2**63 - 1) // _SECOND
        micros = np.clip(seconds, -most - 1, most) * _SECOND
        micros[seconds > most] = 2**63 - 1
        micros[seconds < -most] = -(2**63)
        return from_values(micros, arrow_type(target), validity(value))
    if target.name == "date":
        return local_days(call, value)
    micros = values_of(value)
    if target.name == "double":
        return from_values(micros / float(_SECOND), pa.float64(), validity(value))
    seconds = micros // _SECOND
    if target == BIGINT:
        return from_values(seconds, pa.int64(), validity(value))
    is_bad = (seconds < -(2**31)) | (seconds >= 2**31)
    return null_where(from_values(seconds.astype(np.int32), pa.int32(), validity(value)), is_bad)


def _to_text(call: Any, value: pa.Array, source: Type) -> pa.Array:
    text = pa.large_string()
    if source.name == "decimal" and source.scale > 6:
        # Arrow writes small ones with an exponent.
        return map_distinct(value, lambda number: f"{number:f}", text)
    if source.name == "timestamp":
        near, cycles = call.local(value)
        if cycles is None:
            return map_distinct(near.view(pa.int64()), _write_time, text)
        zone = call.zone  # Python's integers do not overflow
        return map_distinct(
            value.view(pa.int64()), lambda utc: _write_time(utc + offset_at(utc, zone)), text
        )
    if source.name == "date":
        return map_distinct(value.cast(pa.int32()), lambda d: _write_time(d * DAY)[:-9], text)
    return value.cast(text)


def _write_time(local: int) -> str:
    days, micros = divmod(local, DAY)
    cycles, day = divmod(days + 719_162, CYCLE)
    date = datetime.date.fromordinal(day + 1)
    year = date.year + 400 * cycles
    seconds, fraction = divmod(micros, _SECOND)
    part = f".{fraction:06d}".rstrip("0") if fraction else ""
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return (
        f"{sign}{abs(year):04d}-{date.month:02d}-{date.day:02d} "
        f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{part}"
    )


def _from_text(value: pa.Array, target: Type, zone: datetime.tzinfo) -> pa.Array:
    type_ = arrow_type(target)
    name = target.name
    if name == "boolean":
        return map_distinct(value, _read_flag, type_)
    if name in _LIMITS:
        limit = _LIMITS[name]
        return map_distinct(value, lambda text: _read_integer(text, limit), type_)
    if name == "double":
        return map_distinct(value, _read_double, type_)
    if name == "decimal":
        return map_distinct(value, lambda text: _read_decimal(text, target), type_)
    if name == "date":
        return map_distinct(value, read_date, pa.int32()).view(type_)
    return map_distinct(value, lambda text: read_timestamp(text, zone), pa.int64()).view(type_)


def _read_flag(text: str) -> bool | None:
    word = text.strip(BLANK).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _read_integer(text: str, limit: int) -> int | None:
    text = text.strip(BLANK)
    match = _INTEGER.fullmatch(text)
    if (
        match is None or len(match[2]) > _BIGINT_DIGITS
    ):  # Python refuses to read thousands of digits
        return None
    number = int(match[1] + (match[2] or "0"))
    return number if -limit <= number < limit else None


def _read_double(text: str) -> float | None:
    text = text.strip(_SPACES)
    if _DOUBLE.fullmatch(text):
        return float(text.rstrip("dDfF"))
    if _SPECIAL.fullmatch(text):
        return abs(float(text)) if text[-1] in "nN" else float(text)
    match = _HEXADECIMAL.fullmatch(text)
    if match is None:
        return None
    try:
        return float.fromhex(match[1])
    except OverflowError:
        return -math.inf if text[0] == "-" else math.inf


def _read_decimal(text: str, target: Type) -> decimal.Decimal | None:
    text = text.strip(_SPACES)
    return to_decimal(text, target) if _DECIMAL.fullmatch(text) else None
