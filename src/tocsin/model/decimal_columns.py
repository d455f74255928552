"""Encodes Arrow columns as the keys of decimals, without a Python loop over the values."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.errors import EventError
from tocsin.model.decimals import Digits, decimal_key, double_cuts

_LARGE_FLOAT = 2.0**51  # below, the nearest unscaled integer is off by one at most


def unscaled_integers(array: pa.Array, digits: Digits, name: str) -> np.ndarray:
    """Return the keys of decimals, integers or floats; they are arbitrary where it is null."""
    if t.is_decimal(array.type):
        type_ = pa.decimal128(*digits)
        if array.type.scale != digits.scale or array.type.precision > digits.precision:
            try:
                array = array.cast(type_)
            except pa.ArrowInvalid:
                raise _misfit_error(array, digits, name) from None
        return _low_words(array)
    unit = digits.unit
    if t.is_integer(array.type):
        values = np.asarray(array.cast(pa.int64()).fill_null(0))
        most = (digits.limit - 1) // unit
        if ((values > most) | (values < -most)).any():
            raise _misfit_error(array, digits, name)
        return values * unit
    floats = np.asarray(array.cast(pa.float64()).fill_null(0.0))
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.rint(floats * unit)
        is_exact = (np.abs(scaled) < min(digits.limit, 10**15)) & (scaled / unit == floats)
    if not is_exact.all():
        raise _misfit_error(array, digits, name)
    return scaled.astype(np.int64)


def saturated_integers(array: pa.Array, digits: Digits) -> np.ndarray:
    """Return the keys of decimals of any number of digits; those beyond the kind are its limit.

    The array has the scale of the kind. A key of `limit` or `-limit` is above or below all values
    of the kind, so that comparisons with these are exact.
    """
    try:
        return _low_words(array.cast(pa.decimal128(*digits)))
    except pa.ArrowInvalid:
        return round_bounds(array, digits, is_high=True)


def _low_words(array: pa.Array) -> np.ndarray:
    """Return the unscaled integers of decimals of up to 18 digits."""
    data, first, n = array.buffers()[1], array.offset, len(array)
    if data is None or not n:
        return np.zeros(n, np.int64)
    width = array.type.byte_width
    if width == 4:
        return np.frombuffer(data, np.int32, n, 4 * first).astype(np.int64)
    words = width // 8
    # Contiguous, as kernels expect it.
    return np.ascontiguousarray(np.frombuffer(data, np.int64, n * words, width * first)[::words])


def _misfit_error(array: pa.Array, digits: Digits, name: str) -> EventError:
    """Return the error for the first value that is no such decimal."""
    for value in array.drop_null().to_pylist():
        try:
            decimal_key(value, digits)
        except ValueError as error:
            return EventError(
                f"attribute {name!r} is a decimal({digits.precision},{digits.scale}), but the "
                f"events have the value {value}, {error}"
            )
    raise AssertionError("all values are decimals of this kind")


def round_bounds(array: pa.Array, digits: Digits, is_high: bool) -> np.ndarray:
    """Return the unscaled integers of bounds: low bounds round up, high bounds down.

    They are `limit` or `-limit` if no decimal is as high, or as low. A float is compared as in
    Spark, where the decimal is cast to double. Results are arbitrary where the array is null.
    """
    limit, unit = digits.limit, digits.unit
    if t.is_decimal(array.type):
        if array.type.scale == digits.scale and array.type.precision <= digits.precision:
            return _low_words(array)
        wide = array.cast(pa.decimal256(76, max(array.type.scale, digits.scale)))
        if array.type.scale > digits.scale:
            wide = pc.round(wide, digits.scale, "down" if is_high else "up")
        wide = wide.cast(pa.decimal256(76, digits.scale))
        end = decimal.Decimal(limit).scaleb(-digits.scale)
        low, high = pa.scalar(-end, wide.type), pa.scalar(end, wide.type)
        wide = pc.min_element_wise(pc.max_element_wise(wide, low), high)
        return _low_words(wide.cast(pa.decimal128(38, digits.scale)))
    if t.is_integer(array.type):
        values = np.asarray(array.cast(pa.int64()).fill_null(0))
        most = limit // unit
        return np.clip(values, -most, most) * unit
    floats = np.asarray(array.cast(pa.float64()).fill_null(0.0))
    scaled = np.rint(np.clip(floats * unit, -float(limit), float(limit)))
    rounded = scaled.astype(np.int64)
    outward = -1 if is_high else 1
    as_double = rounded / unit
    rounded[as_double > floats if is_high else as_double < floats] += outward
    as_double = (rounded - outward) / unit
    rounded[as_double <= floats if is_high else as_double >= floats] -= outward
    for i in np.flatnonzero(np.abs(scaled) >= _LARGE_FLOAT):
        least, above = double_cuts(float(floats[i]), digits)
        rounded[i] = max(-limit, min(limit, above - 1 if is_high else least))
    return np.clip(rounded, -limit, limit)
