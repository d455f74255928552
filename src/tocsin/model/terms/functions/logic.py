"""Comparisons, AND, OR and NOT, null tests, and choices between values."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.model.arrow import values_of
from tocsin.model.terms.arrays import Value
from tocsin.model.terms.coercion import (
    Resolved,
    TermBuilder,
    TermError,
    Written,
    as_decimal,
    cast_times,
    describe,
    unify,
)
from tocsin.model.terms.functions.function import MANY, Function, need
from tocsin.model.terms.tree import Term, literal
from tocsin.model.terms.types import BOOLEAN, DOUBLE, NULL

_FALSE = pa.scalar(False)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _resolve_comparison(
    operator: str, build: TermBuilder, arguments: Sequence[Term], written: Written
) -> Resolved:
    left, right = cast_times(build, arguments)
    flags = tuple(written) or (False, False)
    if operator in _MIRRORED:
        decided = _beyond_bigint(operator, left, right, flags[1])
        if decided is None:
            decided = _beyond_bigint(_MIRRORED[operator], right, left, flags[0])
        if decided is not None:
            return literal(decided, BOOLEAN)
    if "decimal" in (left.type.name, right.type.name) and DOUBLE not in (left.type, right.type):
        # The number of digits of a literal does not matter in a comparison.
        left = as_decimal(build, left, bool(flags[0]), operator)
        right = as_decimal(build, right, bool(flags[1]), operator)
    return _typed(unify(build, (left, right), f"the comparison {operator}")), BOOLEAN


def _typed(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Return terms; if all of them are NULL, they become flags."""
    return tuple(literal(None, BOOLEAN) if t.type == NULL else t for t in terms)


def _beyond_bigint(operator: str, left: Term, right: Term, is_written: bool | None) -> bool | None:
    """Return the result of comparing an integer with a literal beyond bigint, even for null.

    Spark's analyzer decides it without looking at the integer.
    """
    if (
        not left.type.is_integral
        or not is_written
        or right.type.name != "decimal"
        or right.value is None
    ):
        return None
    if right.value > 2**63 - 1:
        return operator in ("<", "<=")
    return operator in (">", ">=") if right.value < -(2**63) else None


def compare(operator: str, left: Value, right: Value) -> pa.Array:
    """Return a comparison of values of one type; NaN equals NaN and is above all numbers."""
    if not t.is_floating(left.type):
        return _KERNELS[operator](left, right)
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return compare(operator, pa.repeat(left, 1), right)[0]
    scalar = next((v for v in (left, right) if isinstance(v, pa.Scalar)), None)
    if scalar is None:
        return _compare_doubles(operator, left, right)
    if operator == "=" and scalar.as_py() == scalar.as_py():
        return pc.equal(left, right)
    if scalar is left:
        if operator in _MIRRORED:
            return compare(_MIRRORED[operator], right, left)
        left, right = right, left
    bound = right.as_py()
    if bound is not None and bound != bound:
        is_nan = pc.is_nan(left)
        if operator in ("=", ">="):
            return is_nan
        if operator in ("<>", "<"):
            return pc.invert(is_nan)
        return _constant(left, operator == "<=")
    # The negation of "at most c", which includes NaN.
    if operator == ">":
        return pc.invert(pc.less_equal(left, right))
    return pc.invert(pc.less(left, right)) if operator == ">=" else _KERNELS[operator](left, right)


def _constant(array: pa.Array, value: bool) -> pa.Array:
    """Return a flag that is null where an array is."""
    return pc.if_else(pc.is_valid(array), value, pa.scalar(None, pa.bool_()))


def _compare_doubles(operator: str, left: pa.Array, right: pa.Array) -> pa.Array:
    if operator in (">", ">="):
        return _compare_doubles(_MIRRORED[operator], right, left)
    result = _KERNELS[operator](left, right)
    if not (_may_have_nan(left) or _may_have_nan(right)):
        return result
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    both = pc.and_(left_nan, right_nan)
    if operator == "=":
        return pc.or_(result, both)
    if operator == "<>":
        return pc.and_(result, pc.invert(both))
    if operator == "<":
        return pc.or_(result, pc.and_(right_nan, pc.invert(left_nan)))
    return pc.or_(result, right_nan)


def _may_have_nan(array: pa.Array) -> bool:
    """Return whether a double may be NaN; the largest is NaN then, and finding it is cheap."""
    return bool(len(array) and np.isnan(values_of(array).max()))


_KERNELS: dict[str, Any] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _null_safe(call: Any, left: Value, right: Value) -> pa.Array:
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(pc.fill_null(compare("=", left, right), False), both_null)


def _resolve_flags(name: str, arguments: Sequence[Term]) -> Resolved:
    return tuple(need(a, BOOLEAN, name) for a in arguments), BOOLEAN


def _and(call: Any, *flags: Value) -> pa.Array:
    return functools.reduce(pc.and_kleene, flags)


def _or(call: Any, *flags: Value) -> pa.Array:
    return functools.reduce(pc.or_kleene, flags)


def _resolve_in(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    return _typed(unify(build, arguments, "IN")), BOOLEAN


def _in(call: Any, value: Value, *choices: Value) -> pa.Array:
    constants = [c for c in choices if isinstance(c, pa.Scalar)]
    others = [c for c in choices if not isinstance(c, pa.Scalar)]
    known = [c for c in constants if c.is_valid]
    has_null = len(known) < len(constants)
    found: Any = None
    if known and len(known) > 2 and not t.is_floating(value.type) and isinstance(value, pa.Array):
        members = pa.concat_arrays([pa.repeat(c, 1) for c in known])
        found = pc.is_in(value, value_set=members)
        if value.null_count:
            found = pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))
    else:
        others = [*known, *others]
    for other in others:
        each = compare("=", value, other)
        found = each if found is None else pc.or_kleene(found, each)
    if found is None:
        return pa.nulls(len(value) if isinstance(value, pa.Array) else 1, pa.bool_())
    return pc.or_kleene(found, pa.scalar(None, pa.bool_())) if has_null else found


def _resolve_isnull(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    return tuple(arguments), BOOLEAN


def _resolve_isnan(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    (number,) = arguments
    if not number.type.is_number and number.type != NULL:
        raise TermError(f"isnan needs a number, but {describe(number)}")
    return (build.cast(number, DOUBLE),), BOOLEAN


def _isnan(call: Any, number: Value) -> pa.Array:
    return pc.fill_null(pc.is_nan(number), False)


def _resolve_case(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    if len(arguments) % 2 == 0:
        arguments = [*arguments, literal(None, NULL)]
    conditions = [need(a, BOOLEAN, "WHEN") for a in arguments[:-1:2]]
    values = unify(build, [*arguments[1::2], arguments[-1]], "CASE")
    mixed: list[Term] = []
    for condition, value in zip(conditions, values[:-1], strict=True):
        mixed += [condition, value]
    return (*mixed, values[-1]), values[-1].type


def _case(call: Any, *arguments: Value) -> pa.Array:
    conditions, values, otherwise = arguments[:-1:2], arguments[1::2], arguments[-1]
    if len(conditions) == 1:
        flag = conditions[0]
        if isinstance(flag, pa.Scalar) or flag.null_count:
            flag = pc.fill_null(flag, False)
        return pc.if_else(flag, values[0], otherwise)
    length = next(len(a) for a in arguments if isinstance(a, pa.Array))
    flags = [pa.repeat(c, length) if isinstance(c, pa.Scalar) else c for c in conditions]
    names = [str(i) for i in range(len(flags))]
    return pc.case_when(pa.StructArray.from_arrays(flags, names), *values, otherwise)


def _resolve_common(name: str, build: TermBuilder, arguments: Sequence[Term]) -> Resolved:
    terms = unify(build, arguments, name)
    return terms, terms[0].type


def _coalesce(call: Any, *values: Value) -> pa.Array:
    return pc.coalesce(*values)


def _extreme(operator: str, call: Any, *values: Value) -> pa.Array:
    best = values[0]
    for value in values[1:]:
        is_better = pc.fill_null(compare(operator, value, best), False)
        replaced = pc.or_(is_better, pc.and_(pc.is_null(best), pc.is_valid(value)))
        best = pc.if_else(replaced, value, best)
    return best


def _comparison(operator: str, note: str = "") -> Function:
    return Function(
        operator,
        f"a {operator} b",
        "boolean",
        note,
        2,
        2,
        functools.partial(_resolve_comparison, operator),
        lambda call, a, b: compare(operator, a, b),
    )


LOGIC: list[Function] = [
    _comparison("=", "NaN equals NaN"),
    _comparison("<>"),
    _comparison("<", "NaN is the greatest number; text is compared by its UTF-8 bytes"),
    _comparison("<="),
    _comparison(">"),
    _comparison(">="),
    Function(
        "<=>",
        "a <=> b",
        "boolean",
        "null equals null; also IS NOT DISTINCT FROM",
        2,
        2,
        functools.partial(_resolve_comparison, "<=>"),
        _null_safe,
        False,
    ),
    Function(
        "and",
        "a AND b",
        "boolean",
        "three-valued; also BETWEEN",
        2,
        MANY,
        lambda build, a, w: _resolve_flags("AND", a),
        _and,
        False,
    ),
    Function(
        "or",
        "a OR b",
        "boolean",
        "three-valued",
        2,
        MANY,
        lambda build, a, w: _resolve_flags("OR", a),
        _or,
        False,
    ),
    Function(
        "not",
        "NOT a",
        "boolean",
        "",
        1,
        1,
        lambda build, a, w: _resolve_flags("NOT", a),
        lambda call, a: pc.invert(a),
    ),
    Function(
        "in",
        "a IN (b, c, ...)",
        "boolean",
        "null if no value equals a, but one is null",
        2,
        MANY,
        _resolve_in,
        _in,
        False,
    ),
    Function(
        "isnull",
        "a IS NULL, isnull(a)",
        "boolean",
        "also IS NOT NULL, isnotnull(a)",
        1,
        1,
        _resolve_isnull,
        lambda call, a: pc.is_null(a),
        False,
    ),
    Function("isnan", "isnan(x)", "boolean", "false for null", 1, 1, _resolve_isnan, _isnan, False),
    Function(
        "case",
        "CASE [a] WHEN b THEN c ... [ELSE d] END",
        "the values' type",
        "also if(a, b, c), nullif(a, b), nvl2(a, b, c)",
        2,
        MANY,
        _resolve_case,
        _case,
        False,
    ),
    Function(
        "coalesce",
        "coalesce(a, b, ...)",
        "the values' type",
        "also nvl, ifnull",
        1,
        MANY,
        lambda build, a, w: _resolve_common("coalesce", build, a),
        _coalesce,
        False,
    ),
    Function(
        "greatest",
        "greatest(a, b, ...)",
        "the values' type",
        "skips null",
        2,
        MANY,
        lambda build, a, w: _resolve_common("greatest", build, a),
        functools.partial(_extreme, ">"),
        False,
    ),
    Function(
        "least",
        "least(a, b, ...)",
        "the values' type",
        "skips null",
        2,
        MANY,
        lambda build, a, w: _resolve_common("least", build, a),
        functools.partial(_extreme, "<"),
        False,
    ),
]
