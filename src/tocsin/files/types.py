"""Types of event columns: those that a schema gives them, and values that do not fit."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.errors import EventError, shorten, suggest
from tocsin.model.arrow import is_text
from tocsin.model.columns import is_range
from tocsin.model.decimals import digits_of
from tocsin.model.schema import RANGE, Kind, Schema

TIME = pa.timestamp("us", "UTC")
EXACT = pa.decimal256(76, 38)  # holds all digits of a decimal, before it is rounded

_TYPE_OF_KIND = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "category": pa.string(),
    "flag": pa.bool_(),
    "time": TIME,
}
_NAMES = {type_: kind for kind, type_ in _TYPE_OF_KIND.items()} | {pa.date32(): "date"}

_MISSING = {"NA", "N/A", "NULL", "NONE", "NIL", "-", "?"}  # common spellings of missing values
_MAX_SHOWN = 60  # characters of a value in a message


def check_unique(names: Iterable[str]) -> None:
    """Raise if two columns have the same name; names are case-insensitive."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise EventError(
                f"the events have the columns {seen[name.lower()]!r} and {name!r}, and names are "
                "case-insensitive; rename one of them"
            )
        seen[name.lower()] = name


# ------------------------------------------------------------ given types


def given_types(columns: pa.Schema, declared: Schema, known: Schema) -> dict[str, pa.DataType]:
    """Return the types of the columns that are declared, and else of those that are known."""
    types = {}
    for field in columns:
        schema = declared if declared.find(field.name) is not None else known
        if schema.find(field.name) is not None:
            types[field.name] = _apply_kind(field.type, schema.kind(field.name))
    return types


def type_of_kind(kind: Kind) -> pa.DataType:
    """Return the type of the columns of a kind."""
    digits = digits_of(kind)
    return _TYPE_OF_KIND[kind] if digits is None else pa.decimal128(*digits)


def _apply_kind(type_: pa.DataType, kind: Kind) -> pa.DataType:
    """Return the type of a column of a kind; in a range, both ends have it."""
    given = type_of_kind(kind)
    if is_range(type_):
        return pa.struct([(f.name, given if f.name in RANGE else f.type) for f in type_])
    return given


def check_declared(columns: Sequence[str], has_map: bool, declared: Schema) -> None:
    """Raise if there is no column of a declared name; a map may have the attribute."""
    names = {name.lower() for name in columns}
    for name in declared if not has_map else ():
        if name.lower() not in names:
            raise EventError(
                f"the schema declares {name!r}, but the events have no such column"
                + (suggest(name, columns) or f"; they have {', '.join(columns[:8])}")
            )


# ------------------------------------------------------------ values of a type


def convert_column(
    column: pa.Array, name: str, type_: pa.DataType, rows_before: int, is_given: bool
) -> pa.Array:
    """Return a column in a type; raise if a value does not fit, with its row in the file."""
    try:
        return convert(column, type_)
    except pa.ArrowNotImplementedError:
        raise EventError(
            f"column {name!r} is of type {column.type} and cannot be read as {type_name(type_)}"
        ) from None
    except pa.ArrowInvalid:
        row = bisect.bisect_left(
            range(len(column)), True, key=lambda i: not fits(column.slice(0, i + 1), type_)
        )
        error = misfit_error(name, type_, repr(column[row].as_py()), is_given)
        raise error.with_place(f"row {rows_before + row + 1}") from None


def fits(array: pa.Array, type_: pa.DataType) -> bool:
    """Return whether all values can be read as a type."""
    try:
        convert(array, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def convert(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return values in a type; raise Arrow's error if one does not fit.

    Digits of a decimal that do not fit are rounded half up. Integers that become times are seconds
    since 1970.
    """
    if array.type == type_:
        return array
    if t.is_struct(type_) and t.is_struct(array.type) and _names(type_) == _names(array.type):
        children = zip(array.flatten(), type_, strict=True)
        values = [convert(child, field.type) for child, field in children]
        return pa.StructArray.from_arrays(values, fields=list(type_), mask=array.is_null())
    if is_text(array.type):
        array = pc.ascii_trim_whitespace(array)
    if t.is_decimal(type_):
        exact = array if array.type == EXACT else array.cast(pa.string()).cast(EXACT)
        return pc.round(exact, type_.scale, "half_towards_infinity").cast(type_)
    if t.is_timestamp(type_):
        if is_text(array.type):
            return _parse_times(array)
        if t.is_integer(array.type):
            return pc.multiply_checked(array.cast(pa.int64()), 10**6).cast(type_)
        return array.cast(type_, safe=False)
    if t.is_floating(type_):
        # Arrow's own cast of decimals does not round correctly.
        texts = array.cast(pa.string()) if t.is_decimal(array.type) else array
        return texts.cast(type_, safe=False)
    return array.cast(type_)


def _names(type_: pa.StructType) -> list[str]:
    return [field.name for field in type_]


def _parse_times(texts: pa.Array) -> pa.Array:
    """Return texts as times; those without a zone are UTC, and nanoseconds are cut off."""
    if pc.any(pc.match_substring_regex(texts, r"\.[0-9]{7}")).as_py():
        texts = pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]+", r"\1")
    has_zone = pc.match_substring_regex(texts, r":.*[Z+-]")
    if not pc.any(has_zone).as_py():
        return texts.cast(pa.timestamp("us")).cast(TIME)
    null = pa.scalar(None, texts.type)
    in_utc = pc.if_else(has_zone, null, texts).cast(pa.timestamp("us")).cast(TIME)
    return pc.coalesce(pc.if_else(has_zone, texts, null).cast(TIME), in_utc)


# ------------------------------------------------------------ messages


def type_name(type_: pa.DataType) -> str:
    """Return the kind of a type for messages, or Arrow's name if it has none."""
    if t.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _NAMES.get(type_, str(type_))


def misfit_error(name: str, type_: pa.DataType, value: str, is_given: bool) -> EventError:
    """Return the error for a value, as it is shown, that is not of its column's type."""
    text = value.strip("'")
    hints = ["leave missing values empty"] if text.strip('" ').upper() in _MISSING else []
    if is_given and not hints and t.is_timestamp(type_):
        hints.append("a time is written as 2024-05-01 12:30:00")
    if not is_given:
        hints.append(f"give --schema {name}={_wider_kind(type_, text)}")
    return EventError(
        f"column {name!r} is {'declared' if is_given else 'read'} as {type_name(type_)}"
        f"{'' if is_given else ', like its first values'}, but has the value "
        f"{shorten(value, _MAX_SHOWN)}" + "".join(f"; {hint}" for hint in hints)
    )


def _wider_kind(type_: pa.DataType, text: str) -> Kind:
    """Return the kind of a column with values of a type and a text that is not one."""
    if t.is_integer(type_) and fits(pa.array([text]), pa.float64()):
        return "number"
    if t.is_date(type_) and fits(pa.array([text]), TIME):
        return "time"
    return "category"
