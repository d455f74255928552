"""Types of event columns: Arrow types that correspond to Spark's, and declared types.

Events have the same types in this process as on Spark, so that the output is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import EventError, suggest
from tocsin.model.arrow import is_text
from tocsin.model.columns import is_range
from tocsin.model.decimals import digits_of
from tocsin.model.schema import RANGE, Kind, Schema

TIME = pa.timestamp("us", "UTC")
LOCAL_TIME = pa.timestamp("us")  # without a zone: Spark's timestamp_ntz

_TYPE_OF_KIND = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "category": pa.string(),
    "flag": pa.bool_(),
    "time": TIME,
}

_MISSING = {"NA", "N/A", "NULL", "NONE", "NIL", "-", "?"}  # common spellings of missing values

_NAMES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    TIME: "timestamp",
    LOCAL_TIME: "timestamp_ntz",
}


def misfit_error(name: str, type_: pa.DataType, value: object) -> EventError:
    """Return the error for a value that does not fit the declared kind of its column."""
    kinds = {type_: kind for kind, type_ in _TYPE_OF_KIND.items()}
    is_missing = isinstance(value, str) and value.strip().upper() in _MISSING
    return EventError(
        f"column {name!r} is declared as {kinds.get(type_, type_name(type_))}, but has the value "
        f"{value!r}" + ("; leave missing values empty" if is_missing else "")
    )


def type_name(type_: pa.DataType) -> str:
    """Return Spark's name of a type, such as bigint or array<string>."""
    if type_ in _NAMES:
        return _NAMES[type_]
    if t.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if t.is_list(type_):
        return f"array<{type_name(type_.value_type)}>"
    if t.is_map(type_):
        return f"map<{type_name(type_.key_type)},{type_name(type_.item_type)}>"
    if t.is_struct(type_):
        return f"struct<{','.join(f'{f.name}:{type_name(f.type)}' for f in type_)}>"
    return str(type_)


def can_be_written(type_: pa.DataType, format: str) -> bool:
    """Return whether a file of a format (csv, json or parquet) can hold values of a type."""
    if format == "parquet" or type_ in _NAMES or t.is_decimal128(type_):
        return True
    if format == "csv":
        return False
    children = [type_.field(i).type for i in range(type_.num_fields)]
    if children:
        return all(can_be_written(child, format) for child in children)
    return bool(t.is_binary(type_))


def nesting_depth(type_: pa.DataType) -> int:
    """Return the number of levels of lists, maps and structs in a type."""
    level, children = 0, [type_]
    while children:
        children = [c.field(i).type for c in children for i in range(c.num_fields)]
        level += 1
    return level - 1


def has_decimals(type_: pa.DataType) -> bool:
    """Return whether a type is or contains decimals."""
    children = [type_.field(i).type for i in range(type_.num_fields)]
    return bool(t.is_decimal(type_)) or any(map(has_decimals, children))


def list_type(item: pa.DataType) -> pa.DataType:
    """Return a list type; like Spark, its field is named "element"."""
    return pa.list_(pa.field("element", item))


def merge_numbers(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type that holds two numeric types; None if one is not numeric."""
    if not all(t.is_integer(x) or t.is_floating(x) or t.is_decimal(x) for x in (one, other)):
        return None
    if t.is_floating(one) or t.is_floating(other):
        return pa.float64()
    if t.is_decimal(one) or t.is_decimal(other):
        return pa.decimal128(max(_decimal_digits(one), _decimal_digits(other)), 0)
    return pa.int64()


def _decimal_digits(type_: pa.DataType) -> int:
    """Return the precision of Spark's decimal for all values of a type."""
    return int(type_.precision) if t.is_decimal(type_) else 10 if t.is_int32(type_) else 20


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


# ------------------------------------------------------------ declared kinds


def declared_types(schema: pa.Schema, declared: Schema) -> dict[str, pa.DataType]:
    """Return the types of declared columns; attributes without a column may be in a map."""
    columns = {f.name.lower(): f for f in schema}
    has_map = any(t.is_map(f.type) for f in schema)
    types = {}
    for name in declared:
        field = columns.get(name.lower())
        if field is not None:
            types[field.name] = _apply_declared(field.type, type_of_kind(declared.kind(name)))
        elif not has_map:
            raise EventError(
                f"the schema declares {name!r}, but the events have no such column"
                + (suggest(name, schema.names) or f"; they have {', '.join(schema.names[:8])}")
            )
    return types


def type_of_kind(kind: Kind) -> pa.DataType:
    """Return the type of the columns of a kind."""
    digits = digits_of(kind)
    return _TYPE_OF_KIND[kind] if digits is None else pa.decimal128(*digits)


def _apply_declared(type_: pa.DataType, declared: pa.DataType) -> pa.DataType:
    """Return the declared type of a column; in a range, both ends have it."""
    if is_range(type_):
        return pa.struct([(f.name, declared if f.name in RANGE else f.type) for f in type_])
    return declared


# ------------------------------------------------------------ other Arrow types


def spark_type(type_: pa.DataType, int96: Iterator[bool] | None = None) -> pa.DataType:
    """Return the Arrow type that corresponds to Spark's type; `type_` itself if there is none.

    `int96` yields for each leaf of a Parquet file whether it is an INT96, which is a point in time
    for Spark and a local time for Arrow.
    """
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    if t.is_dictionary(type_) or t.is_run_end_encoded(type_):
        type_ = type_.value_type
    if t.is_struct(type_):
        return pa.struct([(f.name, spark_type(f.type, int96)) for f in type_])
    if t.is_map(type_):
        key = spark_type(type_.key_type, int96)
        return pa.map_(key, spark_type(type_.item_type, int96))
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        return list_type(spark_type(type_.value_type, int96))
    is_int96 = int96 is not None and next(int96)
    if t.is_timestamp(type_):
        return TIME if type_.tz is not None or is_int96 else LOCAL_TIME
    if is_text(type_):
        return pa.string()
    if t.is_large_binary(type_) or t.is_fixed_size_binary(type_) or t.is_binary_view(type_):
        return pa.binary()
    if t.is_decimal(type_) and type_.precision <= 38:
        return pa.decimal128(type_.precision, type_.scale)
    if t.is_null(type_):
        return pa.int32()
    if t.is_duration(type_):
        return pa.int64()
    if t.is_date64(type_):
        return pa.date32()
    unsigned = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
    }
    return unsigned.get(type_, type_)
