"""Infer the type of a column of text, and parse its values.

The types are those that Spark infers for a column of CSV, value after value: int, bigint,
decimal without a fraction, double, date, timestamp, boolean, and string for everything else. A time
is 2024-05-01, 2024-05-01T12:30 or 2024-05-01 12:30:15.123456+02:00, and always has a date. Spark is
given the same format (`tocsin.spark.files`), because by default it reads "90210" and "12:30" as
times.
"""

from __future__ import annotations

import decimal
import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.cli.events.types import TIME, merge_numbers

_INTEGER = r"^[+-]?[0-9]+$"
# The syntax of Java's Double.parseDouble, and Inf and -Inf.
_NUMBER = (
    r"^(Inf|-Inf|[ \t]*[+-]?(NaN|Infinity|"
    r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?)[ \t]*)$"
)
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_ZONE = r"([Zz]|[+-](0[0-9]|1[0-7])(:?[0-5][0-9])?|[+-]18(:?00)?)"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?"
_TIME = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([Tt ]{_CLOCK}{_ZONE}?)?$"
_FLAG = r"^(?i:true|false)$"
_EXACT_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?$"  # Java's BigDecimal

_DECIMAL = pa.decimal128(38, 0)  # represents decimals of any precision
_ORDER = [pa.int32(), pa.int64(), _DECIMAL, pa.float64(), pa.date32(), TIME, pa.bool_()]


def infer(texts: pa.Array, known: pa.DataType) -> pa.DataType:
    """Return the type of a column; `known` is the type of earlier values, initially null."""
    texts = texts.drop_null()
    while not fits(texts, known):
        first, count = 0, len(texts)  # the first misfit is in [first, first + count)
        while count > 1:
            half = count // 2
            if fits(texts.slice(first, half), known):
                first, count = first + half, count - half
            else:
                count = half
        texts = texts.slice(first)
        known = _widen(known, texts.slice(0, 1))
    return known


def _widen(known: pa.DataType, text: pa.Array) -> pa.DataType:
    """Return the type of a column after a text that does not fit the type so far."""
    current = _DECIMAL if t.is_decimal(known) else known
    start = _ORDER.index(current) if current in _ORDER else 0
    new = next((type_ for type_ in _ORDER[start:] if fits(text, type_)), pa.string())
    if new == _DECIMAL:
        new = pa.decimal128(_count_decimal_digits(text[0].as_py()), 0)
    if t.is_null(known):
        return new
    return merge_numbers(known, new) or pa.string()


def fits(texts: pa.Array, type_: pa.DataType) -> bool:
    """Return whether all texts can be parsed as a type; none may be null."""
    if t.is_string(type_) or not len(texts):
        return True
    if t.is_null(type_):
        return False
    if t.is_decimal(type_):
        plain = pc.match_substring_regex(texts, rf"^[+-]?0*[0-9]{{1,{type_.precision}}}\.?$")
        others = texts.filter(pc.invert(plain)).unique().to_pylist()
        return all(0 < _count_decimal_digits(text) <= type_.precision for text in others)
    if t.is_boolean(type_):
        return _all_match(texts, _FLAG)
    if t.is_floating(type_):
        return _all_match(texts, _NUMBER)
    pattern = _TIME if t.is_timestamp(type_) else _DATE if t.is_date(type_) else _INTEGER
    if not _all_match(texts, pattern):
        return False
    try:  # fails for the 30th of February, and for integers that are too large
        parse(texts, type_)
    except pa.ArrowInvalid:
        return False
    return True


def parse(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return texts as values of a type, which they must fit."""
    if t.is_boolean(type_):
        return pc.equal(pc.ascii_lower(texts), "true")
    if t.is_timestamp(type_):
        return _parse_times(texts)
    try:
        return texts.cast(type_)
    except pa.ArrowInvalid:
        if t.is_integer(type_):
            return pc.replace_substring_regex(texts, r"^\+", "").cast(type_)
        if t.is_floating(type_):
            trimmed = pc.ascii_trim_whitespace(texts)
            return pc.replace_substring_regex(trimmed, r"([0-9.])[dDfF]$", r"\1").cast(type_)
        raise


def parse_decimals(texts: pa.Array, type_: pa.Decimal128Type) -> pa.Array:
    """Return texts as declared decimals, rounded half up as Spark does; raise if one is too large.

    Unlike `parse`, which is for decimals that were inferred from the texts.
    """
    if not len(texts.drop_null()) or _all_match(texts.drop_null(), _EXACT_NUMBER):
        try:
            return texts.cast(type_)
        except pa.ArrowInvalid:
            pass  # perhaps there are digits to round
    limit = decimal.Decimal(10) ** (type_.precision - type_.scale)
    unit = decimal.Decimal(1).scaleb(-type_.scale)
    values: list[decimal.Decimal | None] = []
    for text in texts.to_pylist():
        if text is None:
            values.append(None)
            continue
        if not re.fullmatch(_EXACT_NUMBER[1:-1], text):
            raise ValueError(text)
        value = decimal.Decimal(text)
        if value and value.adjusted() > type_.precision:
            raise ValueError(text)
        rounded = value.quantize(unit, decimal.ROUND_HALF_UP, decimal.Context(prec=200))
        if abs(rounded) >= limit:
            raise ValueError(text)
        values.append(rounded)
    return pa.array(values, type_)


def _parse_times(texts: pa.Array) -> pa.Array:
    texts = pc.ascii_upper(texts)
    if pc.any(pc.match_substring_regex(texts, r"\.[0-9]{7}")).as_py():
        texts = pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]+", r"\1")
    has_zone = pc.match_substring_regex(texts, r":.*[Z+-]")
    if not pc.any(has_zone).as_py():
        return texts.cast(pa.timestamp("us")).cast(TIME)
    null = pa.scalar(None, pa.string())
    in_utc = pc.if_else(has_zone, null, texts).cast(pa.timestamp("us")).cast(TIME)
    return pc.coalesce(pc.if_else(has_zone, texts, null).cast(TIME), in_utc)


def _all_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _count_decimal_digits(text: str) -> int:
    """Return the number of digits of an integer such as 15 or 1.5e1; 0 for everything else."""
    if not text.isascii() or "_" in text or text != text.strip():
        return 0
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return 0
    digits = value.as_tuple()
    if digits.exponent != 0 or len(digits.digits) > 38:
        return 0
    return len(digits.digits)
