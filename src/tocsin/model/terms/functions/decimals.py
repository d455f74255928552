"""Decimals: scaled integers in NumPy, of 64 bits if they fit and otherwise Python's.

Results are rounded half up to the scale of their type, and null beyond its digits.
"""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.terms.arrays import Value, from_values, validity
from tocsin.model.terms.coercion import bounded
from tocsin.model.terms.tree import Term
from tocsin.model.terms.types import MAX_DIGITS, Type, arrow_type

_CONTEXT = decimal.Context(prec=80)
_SMALL = 18  # digits that fit an int64
_NEGATED = 34  # digits that Spark keeps when it negates a decimal
_SPARK_DIGITS = 39  # significant digits to which Spark rounds a product first
_FAR_FROM_39 = 24  # decimal places; rounding to 39 places first does not matter
_SPARK_SCALE = 39  # decimal places to which Spark rounds a quotient first


def result_type(operator: str, a: Type, b: Type) -> Type:
    """Return the type of a result, by Spark's rules."""
    scale = max(a.scale, b.scale)
    whole_a, whole_b = a.digits - a.scale, b.digits - b.scale
    if operator in ("+", "-"):
        return bounded(max(whole_a, whole_b) + scale + 1, scale)
    if operator == "*":
        return bounded(a.digits + b.digits + 1, a.scale + b.scale)
    if operator == "/":
        scale = max(6, a.scale + b.digits + 1)
        return bounded(whole_a + b.scale + scale, scale)
    return bounded(min(whole_a, whole_b) + scale, scale)


def unscaled(value: Value, is_small: bool) -> Any:
    """Return the scaled integers of decimals: int64, or Python's; of a scalar one integer."""
    if isinstance(value, pa.Scalar):
        integer = int(value.as_py().scaleb(value.type.scale, _CONTEXT)) if value.is_valid else 0
        return integer if is_small else np.array([integer], object)
    data = value.buffers()[1]
    if data is None or not len(value):
        return np.zeros(len(value), np.int64 if is_small else object)
    words = np.frombuffer(data, np.int64, 2 * len(value), 16 * value.offset).reshape(-1, 2)
    if is_small:
        return words[:, 0]
    integers = words[:, 1].astype(object) * 2**64 + words[:, 0].view(np.uint64).astype(object)
    if value.null_count:
        integers[np.asarray(pc.is_null(value).to_numpy(zero_copy_only=False))] = 0
    return integers


def from_unscaled(integers: np.ndarray, type_: Type, valid: pa.Array | None) -> pa.Array:
    """Return decimals of scaled integers that fit the type."""
    words = np.empty((len(integers), 2), np.int64)
    if integers.dtype == object:
        words[:, 0] = (integers & (2**64 - 1)).astype(np.uint64).view(np.int64)
        words[:, 1] = (integers >> 64).astype(np.int64)
    else:
        words[:, 0] = integers
        words[:, 1] = integers >> 63
    return from_values(words.reshape(-1), arrow_type(type_), valid, len(integers))


def fit(integers: np.ndarray, type_: Type, valid: pa.Array | None, is_bad: Any = None) -> pa.Array:
    """Return decimals of scaled integers, null where they have too many digits or are bad."""
    if integers.dtype != object and type_.digits > _SMALL:
        beyond = np.zeros(len(integers), bool)
    else:
        beyond = (abs(integers) >= 10**type_.digits).astype(bool)
    if is_bad is not None:
        beyond |= is_bad
    if beyond.any():
        integers = np.where(beyond, 0, integers)
        fits = pa.array(~beyond)
        valid = fits if valid is None else pc.and_(valid, fits)
    return from_unscaled(integers, type_, valid)


def divide_half_up(a: Any, b: Any) -> Any:
    """Return quotients of integers, rounded half away from zero; b is positive or an array."""
    magnitude, divisor = abs(a), abs(b)
    quotient = magnitude // divisor
    quotient = quotient + (2 * (magnitude - quotient * divisor) >= divisor)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def rescale(integers: np.ndarray, source: int, target: int) -> np.ndarray:
    """Return scaled integers in another scale, rounded half up."""
    if target >= source:
        return integers * 10 ** (target - source) if target > source else integers
    return divide_half_up(integers, 10 ** (source - target))


def arithmetic(operator: str, term: Term, left: Value, right: Value) -> pa.Array:
    """Return a + b, a - b, a * b, a / b, a % b or pmod(a, b) of decimals."""
    a, b = (argument.type for argument in term.arguments)
    type_ = term.type
    valid = validity(left, right)
    if operator == "/":
        return _divide(a, b, type_, left, right, valid)
    scale = a.scale + b.scale if operator == "*" else max(a.scale, b.scale)
    if operator == "*":
        digits = a.digits + b.digits
    else:
        digits = max(a.digits - a.scale, b.digits - b.scale) + scale + 1
    if digits > _SMALL and type_.digits < 38 and operator in _ARROW:
        return _ARROW[operator](left, right)
    is_small = digits <= _SMALL
    x, y = unscaled(left, is_small), unscaled(right, is_small)
    if operator == "*":
        product = x * y
        if not is_small and digits > _SPARK_DIGITS:
            product = _round_digits(product)
        return fit(rescale(product, scale, type_.scale), type_, valid)
    x, y = x * 10 ** (scale - a.scale), y * 10 ** (scale - b.scale)
    if operator in ("+", "-"):
        total = x + y if operator == "+" else x - y
        return fit(rescale(total, scale, type_.scale), type_, valid)
    is_bad = y == 0
    divisor = np.where(is_bad, 1, y)
    rest = _remainder(x, divisor)
    if not is_small:
        is_bad = is_bad | (abs(x) // abs(divisor) >= 10**_SPARK_DIGITS)
    if operator == "pmod":
        rest = np.where(rest < 0, _remainder(rest + divisor, divisor), rest)
    return fit(rescale(rest, scale, type_.scale), type_, valid, is_bad)


_ARROW: dict[str, Any] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def _remainder(x: Any, y: Any) -> Any:
    """Return remainders with the sign of x."""
    rest = abs(x) % abs(y)
    return np.where(x < 0, -rest, rest)


def _round_digits(products: np.ndarray) -> np.ndarray:
    """Round integers of too many digits half up to the digits that Spark keeps in between."""
    limit = 10**_SPARK_DIGITS

    def one(product: int) -> int:
        if abs(product) < limit:
            return product
        unit = 10 ** (len(str(abs(product))) - _SPARK_DIGITS)
        rounded = (abs(product) + unit // 2) // unit * unit
        return -rounded if product < 0 else rounded

    return np.array([*map(one, products.tolist()), None], object)[:-1]


def _divide(
    a: Type, b: Type, type_: Type, left: Value, right: Value, valid: pa.Array | None
) -> pa.Array:
    shift = type_.scale - a.scale + b.scale
    is_small = a.digits + max(shift, 0) < _SMALL and b.digits < _SMALL and shift >= 0
    if not is_small:
        quotient = _divide_by_arrow(a, b, type_, left, right)
        if quotient is not None:
            return quotient
    x, y = unscaled(left, is_small), unscaled(right, is_small)
    is_bad = y == 0
    divisor = np.where(is_bad, 1, y)
    if is_small:
        return fit(divide_half_up(x * 10**shift, divisor), type_, valid, is_bad)
    numerator = np.asarray(x, object) * 10 ** (_SPARK_SCALE - a.scale + b.scale)
    quotient = divide_half_up(numerator, divisor.astype(object))
    return fit(rescale(quotient, _SPARK_SCALE, type_.scale), type_, valid, is_bad)


def _divide_by_arrow(a: Type, b: Type, type_: Type, left: Value, right: Value) -> pa.Array | None:
    """Return quotients, or None if Arrow's 128 bits are not enough.

    Arrow cuts off decimal places. With one place more than the result, it can then be rounded.
    """
    shift = type_.scale - a.scale - (b.digits - b.scale)
    has_room = type_.digits < MAX_DIGITS and a.digits + shift <= MAX_DIGITS
    if not has_room or shift < 0 or type_.scale > _FAR_FROM_39:
        return None
    one = pa.scalar(decimal.Decimal(1).scaleb(-b.scale), arrow_type(b))
    is_zero = pc.equal(right, pa.scalar(decimal.Decimal(0), arrow_type(b)))
    try:
        numerator = left.cast(pa.decimal128(a.digits + shift, a.scale + shift))
        quotient = pc.divide(numerator, pc.if_else(is_zero, one, right))
        rounded = pc.round(quotient, ndigits=type_.scale, round_mode="half_towards_infinity")
        result = rounded.cast(arrow_type(type_))
    except pa.ArrowInvalid:
        return None
    return pc.if_else(is_zero, pa.scalar(None, result.type), result)


def negate(value: pa.Array) -> pa.Array:
    """Return decimals with the other sign."""
    return _negate_where(value, None) if value.type.precision > _NEGATED else pc.negate(value)


def absolute(value: pa.Array) -> pa.Array:
    """Return the magnitudes of decimals."""
    if value.type.precision <= _NEGATED:
        return pc.abs(value)
    return _negate_where(value, unscaled(value, False) < 0)


def _negate_where(value: pa.Array, where: np.ndarray | None) -> pa.Array:
    """Negate long decimals as Spark does, which keeps 34 digits of them, rounded half to even."""
    limit = 10**_NEGATED

    def one(number: int) -> int:
        if abs(number) < limit:
            return -number
        unit = 10 ** (len(str(abs(number))) - _NEGATED)
        quotient, rest = divmod(abs(number), unit)
        quotient += 2 * rest > unit or (2 * rest == unit and quotient % 2)
        return -quotient * unit if number > 0 else quotient * unit

    integers = unscaled(value, False)
    negated = np.array([*map(one, integers.tolist()), None], object)[:-1]
    type_ = Type("decimal", value.type.precision, value.type.scale)
    result = negated if where is None else np.where(where, negated, integers)
    return fit(result, type_, validity(value))


def to_scale(value: pa.Array, type_: Type, how: str) -> pa.Array:
    """Return decimals in another type: rounded half up, or to the floor or ceiling."""
    source = value.type
    grown = source.precision + max(0, type_.scale - source.scale)
    if type_.scale >= source.scale and type_.digits >= grown:
        return value.cast(arrow_type(type_))  # Arrow scales up exactly
    is_small = grown <= _SMALL
    integers = unscaled(value, is_small)
    if how == "half_up":
        integers = rescale(integers, source.scale, type_.scale)
    else:
        unit = 10 ** (source.scale - type_.scale)
        integers = integers // unit if how == "floor" else -(-integers // unit)
    return fit(integers, type_, validity(value))


def round_to(value: pa.Array, places: int, type_: Type) -> pa.Array:
    """Return decimals rounded half up to places, which may be negative."""
    if places >= 0:
        return to_scale(value, type_, "half_up")
    unit = value.type.scale - places
    integers = unscaled(value, value.type.precision <= _SMALL and unit <= _SMALL)
    if unit > 2 * _SMALL + 4:
        return fit(np.zeros(len(value), np.int64), type_, validity(value))
    return fit(divide_half_up(integers, 10**unit) * 10**-places, type_, validity(value))
