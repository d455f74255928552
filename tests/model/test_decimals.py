"""Decimals on the key line, against plain arithmetic with fractions."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tocsin
from tocsin.errors import EventError
from tocsin.model.categories import Categories
from tocsin.model.columns import CategoryEncoder, write_keys
from tocsin.model.decimal_columns import round_bounds
from tocsin.model.decimals import (
    Digits,
    decimal_key,
    decimal_kind,
    digits_of,
    double_cuts,
    exact_cuts,
)
from tocsin.model.encoding import HIGHEST, LOWEST, NULL

DIGITS = st.integers(1, 18).flatmap(lambda p: st.integers(0, p).map(lambda s: Digits(p, s)))
EXACT = st.decimals(
    allow_nan=False, allow_infinity=False, places=5, min_value=-(10**20), max_value=10**20
)


def values_near(centre, digits):
    """Return the unscaled integers of the kind around a number, and its lowest and highest."""
    limit = 10**digits.precision
    around = [math.floor(centre * 10**digits.scale) + step for step in range(-3, 4)]
    return sorted({max(1 - limit, min(limit - 1, i)) for i in [*around, 1 - limit, limit - 1]})


@given(EXACT | st.integers(-(10**20), 10**20), DIGITS)
@example(Decimal("9.999"), Digits(12, 2))
@example(Decimal("9.99"), Digits(12, 2))
@example(Decimal("-9.999"), Digits(12, 2))
@example(1000, Digits(3, 0))
@example(-1000, Digits(3, 0))
@example(Decimal("999.5"), Digits(3, 0))
def test_cuts_of_exact_constants(value, digits):
    least, above = exact_cuts(value, digits)
    for i in values_near(Fraction(value), digits):
        assert (i >= least) == (Fraction(i, 10**digits.scale) >= Fraction(value))
        assert (i >= above) == (Fraction(i, 10**digits.scale) > Fraction(value))


@given(st.floats(allow_nan=False), DIGITS)
@example(9.99, Digits(12, 2))
@example(123456789012.345678, Digits(18, 6))
@example(1e17, Digits(18, 0))
@example(math.inf, Digits(5, 2))
@example(-math.inf, Digits(5, 2))
@example(999.99, Digits(5, 2))
@example(-999.99, Digits(5, 2))
def test_cuts_of_doubles(bound, digits):
    least, above = double_cuts(bound, digits)
    limit = 10**digits.precision
    near = values_near(Fraction(bound), digits) if math.isfinite(bound) else [1 - limit, limit - 1]
    near += [i for cut in (least, above) for i in (cut - 1, cut) if -limit < i < limit]
    for i in near:
        as_double = float(Decimal(i).scaleb(-digits.scale))
        assert (i >= least) == (as_double >= bound)
        assert (i >= above) == (as_double > bound)


def test_nothing_is_above_nan():
    assert double_cuts(math.nan, Digits(5, 2)) == (HIGHEST + 1, HIGHEST + 1)
    assert exact_cuts(10**30, Digits(5, 2)) == (HIGHEST + 1, HIGHEST + 1)
    assert exact_cuts(-(10**30), Digits(5, 2)) == (LOWEST, LOWEST)


def test_kinds():
    assert digits_of("DECIMAL ( 12 , 2 )") == (12, 2)
    assert digits_of("decimal(5)") == (5, 0)
    assert digits_of("decimal") is None
    assert (
        tocsin.Schema({"p": "Decimal(12, 2)"}).kind("p") == "decimal(12,2)" == decimal_kind(12, 2)
    )
    for kind, words in {
        "decimal(19,2)": "has 19 digits, but decimals can have at most 18",
        "decimal(2,3)": "0 to all of them after the point",
        "decimal(0,0)": "must have 1 to 18 digits",
    }.items():
        with pytest.raises(tocsin.SchemaError, match=words):
            tocsin.Schema({"p": kind})
    with pytest.raises(tocsin.SchemaError, match="or a decimal such as decimal"):
        tocsin.Schema({"p": "decimall(12,2)"})


# ------------------------------------------------------------ values and columns


@given(st.integers(-(10**18) + 1, 10**18 - 1), DIGITS)
def test_keys_of_values(unscaled, digits):
    unscaled %= digits.limit
    value = Decimal(unscaled).scaleb(-digits.scale)
    assert decimal_key(value, digits) == unscaled
    assert decimal_key(-value, digits) == -unscaled
    if value == int(value):
        assert decimal_key(int(value), digits) == unscaled
    if unscaled < 10**15:
        assert decimal_key(float(value), digits) == unscaled


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (9.999, "more than 2 digits after the point"),
        (Decimal("9.999"), "more than 2 digits after the point"),
        (Decimal("0.0000000001"), "more than 2 digits"),
        (10_000, "too many digits"),
        (Decimal("9999.995"), "more than 2 digits"),
        (1e300, "too many digits"),
        (Decimal("1e999999"), "too many digits"),
        (math.nan, "not a finite number"),
        (Decimal("NaN"), "not a finite number"),
        (Decimal("-Infinity"), "not a finite number"),
    ],
)
def test_what_is_no_value(value, words):
    with pytest.raises(ValueError, match=words):
        decimal_key(value, Digits(6, 2))


def test_a_float_determines_fifteen_digits():
    assert decimal_key(9999999999999.99, Digits(18, 2)) == 999999999999999
    with pytest.raises(ValueError, match="only 15 digits; give a Decimal"):
        decimal_key(99999999999999.99, Digits(18, 2))


def keys(array, kind):
    out = np.empty(len(array), np.int64)
    write_keys(array, kind, tocsin.Schema({"p": kind}), CategoryEncoder(Categories()), out, "p")
    return out.tolist()


@pytest.mark.parametrize(
    "type_",
    [
        pa.decimal128(12, 2),
        pa.decimal128(5, 2),
        pa.decimal128(30, 10),
        pa.decimal256(40, 4),
        pa.decimal64(12, 2),
        pa.decimal64(12, 4),
        pa.decimal32(7, 2),
        pa.decimal128(7, 3),
    ],
)
def test_columns_of_decimals(type_):
    values = [None, Decimal("9.99"), Decimal("-123.40"), None, Decimal(0)]
    array = pa.array(values).cast(type_)
    expected = [NULL, 999, -12340, NULL, 0]
    assert keys(array, "decimal(12,2)") == expected
    assert keys(array.slice(1, 3), "decimal(12,2)") == expected[1:4]
    assert keys(array.slice(5), "decimal(12,2)") == []
    if type_.byte_width > 8:  # Arrow cannot encode others
        assert keys(array.dictionary_encode(), "decimal(12,2)") == expected


def test_columns_of_other_numbers():
    expected = [100, NULL, -300]
    for type_ in (pa.int8(), pa.int64(), pa.float32(), pa.float64()):
        assert keys(pa.array([1, None, -3], type_), "decimal(12,2)") == expected
    assert keys(pa.array([1, 3], pa.uint64()), "decimal(3,0)") == [1, 3]
    assert keys(pa.array([9.99, 0.1, None]), "decimal(12,2)") == [999, 10, NULL]
    assert keys(pa.nulls(2), "decimal(12,2)") == [NULL, NULL]


@given(st.lists(st.integers(-(10**15) + 1, 10**15 - 1) | st.none()))
def test_columns_of_floats(unscaled):
    floats = [None if i is None else i / 100 for i in unscaled]
    expected = [NULL if i is None else i for i in unscaled]
    assert keys(pa.array(floats, pa.float64()), "decimal(15,2)") == expected


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([9.99, None, 9.999]), "value 9.999, which has more than 2 digits"),
        (pa.array([1e10]), "value 10000000000.0, which has too many digits"),
        (pa.array([math.nan], from_pandas=False), "value nan, which is not a finite number"),
        (pa.array([1, 10_000]), "value 10000, which has too many digits"),
        (pa.array([Decimal("1.005")]), "value 1.005, which has more than 2 digits"),
        (pa.array([Decimal("12345.00")]), "value 12345.00, which has too many digits"),
        (pa.array(["9.99"]), "is a decimal.6,2., but .* type string; cast or parse"),
        (pa.array([True]), "is a decimal.6,2., but .* type bool"),
    ],
)
def test_columns_that_do_not_fit(column, words):
    with pytest.raises(EventError, match=words):
        keys(column, "decimal(6,2)")


# ------------------------------------------------------------ bounds


def check_bounds(array, digits, as_decimal):
    for is_high in (False, True):
        found = round_bounds(array, digits, is_high).tolist()
        for value, bound in zip(array.to_pylist(), found, strict=True):
            assert -digits.limit <= bound <= digits.limit
            for i in values_near(Fraction(value), digits):
                passes = as_decimal(i) <= value if is_high else as_decimal(i) >= value
                assert (i <= bound if is_high else i >= bound) == passes, (value, i)


@given(st.lists(EXACT, min_size=1), DIGITS, st.sampled_from([(38, 5), (38, 12), (60, 5)]))
def test_bounds_that_are_decimals(values, digits, type_):
    type_ = pa.decimal128(*type_) if type_[0] <= 38 else pa.decimal256(*type_)
    check_bounds(pa.array(values, type_), digits, lambda i: Fraction(i, 10**digits.scale))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), DIGITS)
def test_bounds_that_are_integers(values, digits):
    check_bounds(pa.array(values, pa.int64()), digits, lambda i: Fraction(i, 10**digits.scale))


@given(
    st.lists(st.floats(-1e19, 1e19) | st.integers(-999, 999).map(lambda i: i / 100), min_size=1),
    DIGITS,
)
@example([9.99, 0.1, 1e17, 123456789012.345678], Digits(18, 6))
def test_bounds_that_are_floats(values, digits):
    check_bounds(pa.array(values), digits, lambda i: i / 10**digits.scale)
