"""Arithmetic and rounding of int, bigint and double; decimals are in `decimals`.

Overflow and division by zero give null. Arrow's checked kernels report whether any value overflows;
only then are the overflowing rows located.
"""

from __future__ import annotations

import decimal
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.arrow import values_of
from tocsin.model.terms.arrays import (
    Value,
    from_values,
    map_where,
    null_where,
    plain,
    validity,
)
from tocsin.model.terms.coercion import (
    Resolved,
    TermBuilder,
    TermError,
    Written,
    bounded,
    describe,
    promote,
)
from tocsin.model.terms.functions import decimals
from tocsin.model.terms.functions.function import Function, need_int, need_number
from tocsin.model.terms.tree import Term, literal
from tocsin.model.terms.types import BIGINT, DOUBLE, INT, MAX_DIGITS, Type, arrow_type, decimal_type

_LIMITS = {"int": 2**31, "bigint": 2**63}
_TEN = decimal.Decimal(10)
_EXACT = decimal.Context(prec=800)  # digits: more than any double has
_MAX_PLACES = 400  # the shortest text of a double has at most 340 places, and 309 digits before


def _resolve_arithmetic(
    operator: str, build: TermBuilder, arguments: Sequence[Term], written: Written
) -> Resolved:
    left, right = promote(build, arguments[0], arguments[1], written, operator)
    if left.type.name == "decimal":
        return (left, right), decimals.result_type(operator, left.type, right.type)
    if operator == "/" and left.type != DOUBLE:
        return (build.cast(left, DOUBLE), build.cast(right, DOUBLE)), DOUBLE
    return (left, right), left.type


def _resolve_div(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    left, right = promote(build, arguments[0], arguments[1], written, "div")
    if not left.type.is_integral:
        side = next(a for a in arguments if not a.type.is_integral)
        raise TermError(f"div needs integers, but {describe(side)}; use floor(a / b)")
    return (build.cast(left, BIGINT), build.cast(right, BIGINT)), BIGINT


def _resolve_same(name: str, build: TermBuilder, arguments: Sequence[Term]) -> Resolved:
    term = need_number(arguments[0], name)
    return (term,), term.type


_CHECKED: dict[str, Any] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_UNCHECKED: dict[str, Any] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def _arithmetic(operator: str, call: Any, left: Value, right: Value) -> pa.Array:
    type_ = call.term.type
    if type_ == DOUBLE:
        return _UNCHECKED[operator](left, right)
    if type_.name == "decimal":
        return decimals.arithmetic(operator, call.term, left, right)
    try:
        return _CHECKED[operator](left, right)
    except pa.ArrowInvalid:
        return null_where(_UNCHECKED[operator](left, right), _overflows(operator, left, right))


def _overflows(operator: str, left: Value, right: Value) -> np.ndarray:
    """Return where integers overflow; arbitrary where one is null."""
    dtype = np.int32 if left.type == pa.int32() else np.int64
    a: Any = np.asarray(plain(left), dtype)
    b: Any = np.asarray(plain(right), dtype)
    if dtype is np.int32:
        wide = {"+": np.add, "-": np.subtract, "*": np.multiply}[operator](
            a.astype(np.int64), b.astype(np.int64)
        )
        return (wide < -(2**31)) | (wide >= 2**31)
    with np.errstate(over="ignore"):
        if operator == "+":
            result = a + b
            return ((a ^ result) & (b ^ result)) < 0
        if operator == "-":
            result = a - b
            return ((a ^ b) & (a ^ result)) < 0
    a, b = np.broadcast_arrays(a, b)
    is_bad = np.abs(a.astype(np.float64) * b.astype(np.float64)) > 2.0**62
    rows = np.flatnonzero(is_bad)
    exact = a[rows].astype(object) * b[rows].astype(object)
    is_bad[rows] = [not -(2**63) <= product < 2**63 for product in exact]
    return is_bad


def _divide(call: Any, left: Value, right: Value) -> pa.Array:
    if call.term.type.name == "decimal":
        return decimals.arithmetic("/", call.term, left, right)
    return _null_if_zero(pc.divide(left, right), right)


def _null_if_zero(quotient: pa.Array, divisor: Value) -> pa.Array:
    if isinstance(divisor, pa.Scalar):
        return quotient if divisor.as_py() != 0 else pa.nulls(len(quotient), quotient.type)
    is_zero = pc.equal(divisor, pa.scalar(0, divisor.type))
    return null_where(quotient, is_zero) if pc.any(is_zero).as_py() else quotient


def _div(call: Any, left: Value, right: Value) -> pa.Array:
    valid = validity(left, right)
    a, b = np.broadcast_arrays(plain(left), plain(right))
    is_bad = (b == 0) | ((b == -1) & (a == -(2**63)))
    divisor = np.where(is_bad, 1, b)
    quotient = a // divisor
    quotient += (quotient < 0) & (quotient * divisor != a)
    return null_where(from_values(quotient, pa.int64(), valid), is_bad)


def _modulo(is_positive: bool, call: Any, left: Value, right: Value) -> pa.Array:
    type_ = call.term.type
    if type_.name == "decimal":
        return decimals.arithmetic("pmod" if is_positive else "%", call.term, left, right)
    valid = validity(left, right)
    dtype = arrow_type(type_).to_pandas_dtype()
    a, b = np.asarray(plain(left), dtype), np.asarray(plain(right), dtype)
    is_zero = b == 0
    divisor = np.where(is_zero | (b == -1), 1, b) if type_.is_integral else b
    with np.errstate(all="ignore"):
        rest = np.fmod(a, divisor)
        if is_positive:
            rest = np.where(rest < 0, np.fmod(rest + divisor, divisor), rest)
    result = from_values(rest, arrow_type(type_), valid)
    if isinstance(right, pa.Scalar):
        return result if right.as_py() != 0 else pa.nulls(len(result), result.type)
    return null_where(result, np.broadcast_to(is_zero, len(result)))


def _negative(call: Any, value: Value) -> pa.Array:
    type_ = call.term.type
    if type_.name == "decimal":
        return decimals.negate(value)
    try:
        return pc.negate_checked(value)
    except pa.ArrowInvalid:
        return null_where(pc.negate(value), values_of(value) == -_LIMITS[type_.name])


def _abs(call: Any, value: Value) -> pa.Array:
    type_ = call.term.type
    if type_.name == "decimal":
        return decimals.absolute(value)
    try:
        return pc.abs_checked(value)
    except pa.ArrowInvalid:
        return null_where(pc.abs(value), values_of(value) == -_LIMITS[type_.name])


def _resolve_floor(name: str, build: TermBuilder, arguments: Sequence[Term]) -> Resolved:
    term = need_number(arguments[0], name)
    if term.type == INT:
        term = build.cast(term, BIGINT)
    if term.type.name != "decimal":
        return (term,), BIGINT
    digits, scale = term.type.digits, term.type.scale
    return (term,), term.type if scale == 0 else decimal_type(
        min(digits - scale + 1, MAX_DIGITS), 0
    )


def _floor(round_down: bool, call: Any, value: Value) -> pa.Array:
    source = call.term.arguments[0].type
    if source == BIGINT:
        return value
    if source.name == "decimal":
        return decimals.to_scale(value, call.term.type, "floor" if round_down else "ceil")
    whole = (pc.floor if round_down else pc.ceil)(value)
    try:
        return whole.cast(pa.int64())
    except pa.ArrowInvalid:
        numbers = values_of(whole)
        is_bad = (numbers >= 2.0**63) | (numbers < -(2.0**63))
        integers = np.where(is_bad | np.isnan(numbers), 0, numbers).astype(np.int64)
        return null_where(from_values(integers, pa.int64(), validity(value)), is_bad)


def _resolve_round(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    number = need_number(arguments[0], "round")
    places = literal(0, INT) if len(arguments) == 1 else arguments[1]
    places = need_int(places, "the number of places of round")
    return (number, places), _rounded_type(number.type, places.value)


def _rounded_type(type_: Type, places: int | None) -> Type:
    if type_.name != "decimal" or places is None:
        return type_
    whole = type_.digits - type_.scale + 1
    if places < 0:
        return bounded(min(max(whole, 1 - places), MAX_DIGITS), 0)
    scale = min(type_.scale, places)
    return decimal_type(min(whole + scale, MAX_DIGITS), scale)


def _round(call: Any, value: Value, digits: pa.Scalar) -> pa.Array:
    source = call.term.arguments[0].type
    places = min(max(digits.as_py(), -_MAX_PLACES), _MAX_PLACES)  # more change nothing
    if source.name == "decimal":
        return decimals.round_to(value, places, call.term.type)
    if source == DOUBLE:
        return _round_doubles(value, places)
    if places >= 0:
        return value
    unit = 10**-places
    limit = _LIMITS[source.name]

    def exact(number: int) -> int | None:
        rounded = (abs(number) + unit // 2) // unit * unit * (-1 if number < 0 else 1)
        return rounded if -limit <= rounded < limit else None

    numbers = values_of(value)
    if unit > 10**9:
        return map_where(value, np.arange(len(numbers)), exact, value)
    wide = numbers.astype(np.int64)
    rest = np.fmod(wide, unit)
    rounded = wide - rest + np.where(2 * np.abs(rest) >= unit, np.sign(rest) * unit, 0)
    fast = from_values(rounded.astype(numbers.dtype), value.type, validity(value))
    is_near_end = np.abs(wide.astype(np.float64)) >= (limit - 2.0 * unit) * 0.999
    return map_where(value, np.flatnonzero(is_near_end), exact, fast)


def _round_doubles(value: pa.Array, places: int) -> pa.Array:
    """Round half up on the shortest decimal text of each double, as Spark does.

    Scaling by a power of ten is exact enough except near a half and beyond 2**52: there the text
    decides.
    """
    numbers = values_of(value)

    def exact(number: float) -> float:
        if number != number or number in (float("inf"), float("-inf")):
            return number
        unit = _TEN.scaleb(-places, _EXACT) / 10
        try:
            return float(
                decimal.Decimal(repr(number)).quantize(unit, decimal.ROUND_HALF_UP, _EXACT)
            )
        except decimal.InvalidOperation:
            return number

    if not -22 <= places <= 22:
        return map_where(value, np.arange(len(numbers)), exact, value)
    power = 10.0 ** abs(places)
    with np.errstate(all="ignore"):
        scaled = np.abs(numbers * power if places >= 0 else numbers / power)
        whole = np.floor(scaled)
        part = scaled - whole
        rounded = whole + (part >= 0.5)
        result = np.copysign(rounded / power if places >= 0 else rounded * power, numbers)
        # The scaled number is off by at most one unit in its last place, 2**-52 of it.
        is_doubtful = ~(np.abs(part - 0.5) > scaled * 2.0**-51 + 1e-300) | ~(scaled < 2.0**51)
    # BigDecimal has no -0.0.
    result += 0.0
    if value.null_count:
        is_doubtful &= np.asarray(pc.is_valid(value).to_numpy(zero_copy_only=False))
    fast = from_values(result, value.type, validity(value))
    return map_where(value, np.flatnonzero(is_doubtful), exact, fast)


def _operator(name: str, result: str, note: str, compute: Any, aliases: Sequence[str]) -> Function:
    return Function(
        name,
        f"a {name} b" if name != "pmod" else "pmod(a, b)",
        result,
        note,
        2,
        2,
        functools.partial(_resolve_arithmetic, name),
        compute,
        aliases=tuple(aliases),
    )


def _resolve_sqrt(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    return (build.cast(need_number(arguments[0], "sqrt"), DOUBLE),), DOUBLE


NUMBERS: list[Function] = [
    _operator("+", "the wider type", "", functools.partial(_arithmetic, "+"), ["try_add"]),
    _operator("-", "the wider type", "", functools.partial(_arithmetic, "-"), ["try_subtract"]),
    _operator("*", "the wider type", "", functools.partial(_arithmetic, "*"), ["try_multiply"]),
    _operator(
        "/",
        "double, or decimal",
        "a double for two integers: 7 / 2 is 3.5",
        _divide,
        ["try_divide"],
    ),
    _operator(
        "%",
        "the wider type",
        "has the sign of a: -7 % 3 is -1",
        functools.partial(_modulo, False),
        ["mod", "try_mod"],
    ),
    _operator(
        "pmod", "the wider type", "not negative for b > 0", functools.partial(_modulo, True), []
    ),
    Function(
        "div", "a div b", "bigint", "for integers; rounds towards zero", 2, 2, _resolve_div, _div
    ),
    Function(
        "negative",
        "-a",
        "type of a",
        "",
        1,
        1,
        lambda build, a, w: _resolve_same("-", build, a),
        _negative,
    ),
    Function(
        "abs",
        "abs(a)",
        "type of a",
        "",
        1,
        1,
        lambda build, a, w: _resolve_same("abs", build, a),
        _abs,
    ),
    Function(
        "round",
        "round(a[, places])",
        "type of a",
        "half away from zero; a double by its shortest text: round(2.675e0, 2) is 2.68",
        1,
        2,
        _resolve_round,
        _round,
    ),
    Function(
        "sqrt",
        "sqrt(a)",
        "double",
        "NaN below 0",
        1,
        1,
        _resolve_sqrt,
        lambda call, value: pc.sqrt(value),
    ),
    Function(
        "floor",
        "floor(a)",
        "bigint, or decimal",
        "0 for NaN",
        1,
        1,
        lambda build, a, w: _resolve_floor("floor", build, a),
        functools.partial(_floor, True),
    ),
    Function(
        "ceil",
        "ceil(a)",
        "bigint, or decimal",
        "0 for NaN",
        1,
        1,
        lambda build, a, w: _resolve_floor("ceil", build, a),
        functools.partial(_floor, False),
        aliases=("ceiling",),
    ),
]
