"""Types of columns of events: Arrow's that stand for Spark's, and those that are declared.

Events have the same types in this process as on Spark, so that what is written is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import EventError, suggest
from tocsin.model.arrow import is_text
from tocsin.model.schema import RANGE, Schema

TIME = pa.timestamp("us", "UTC")
LOCAL_TIME = pa.timestamp("us")  # Spark's timestamp_ntz: no zone

_OF_KIND = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "category": pa.string(),
    "flag": pa.bool_(),
    "time": TIME,
}

_MISSING = {"NA", "N/A", "NULL", "NONE", "NIL", "-", "?"}  # as people write what they do not know

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


def misfit(name: str, type_: pa.DataType, value: object) -> EventError:
    """Return the error for a value that is not of the kind that a column is declared as."""
    kind = next((kind for kind, own in _OF_KIND.items() if own == type_), type_name(type_))
    missing = isinstance(value, str) and value.strip().upper() in _MISSING
    return EventError(
        f"column {name!r} is declared as {kind}, but has the value {value!r}"
        + ("; leave missing values empty" if missing else "")
    )


def type_name(type_: pa.DataType) -> str:
    """Return what Spark calls a type, as in bigint or array<string>."""
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
    """Tell whether a file can hold values of this type: csv, json or parquet."""
    if format == "parquet" or type_ in _NAMES or t.is_decimal128(type_):
        return True
    if format == "csv":
        return False
    children = [type_.field(i).type for i in range(type_.num_fields)]
    if children:
        return all(can_be_written(child, format) for child in children)
    return bool(t.is_binary(type_))


def depth(type_: pa.DataType) -> int:
    """Return how many levels of lists, maps and structs there are in a type."""
    level, children = 0, [type_]
    while children:
        children = [c.field(i).type for c in children for i in range(c.num_fields)]
        level += 1
    return level - 1


def list_type(item: pa.DataType) -> pa.DataType:
    """Return the type of lists of a type, with Spark's name for their elements."""
    return pa.list_(pa.field("element", item))


def merge_numbers(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type of numbers that holds two others; None if one is no number."""
    if not all(t.is_integer(x) or t.is_floating(x) or t.is_decimal(x) for x in (one, other)):
        return None
    if t.is_floating(one) or t.is_floating(other):
        return pa.float64()
    if t.is_decimal(one) or t.is_decimal(other):
        return pa.decimal128(max(map(_digits, (one, other))), 0)
    return pa.int64()


def _digits(type_: pa.DataType) -> int:
    """Return how many digits Spark gives a decimal that is to hold all values of a type."""
    return int(type_.precision) if t.is_decimal(type_) else 10 if t.is_int32(type_) else 20


def check_unique(names: Iterable[str]) -> None:
    """Raise if two columns have one name; names are case-insensitive."""
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
    """Return the types of declared columns; one that is not there may be in a map."""
    columns = {f.name.lower(): f for f in schema}
    sparse = any(t.is_map(f.type) for f in schema)
    found = {}
    for name in declared:
        field = columns.get(name.lower())
        if field is not None:
            found[field.name] = _as_declared(field.type, _OF_KIND[declared.kind(name)])
        elif not sparse:
            raise EventError(
                f"the schema declares {name!r}, but the events have no such column"
                + (suggest(name, schema.names) or f"; they have {', '.join(schema.names[:8])}")
            )
    return found


def _as_declared(given: pa.DataType, declared: pa.DataType) -> pa.DataType:
    """Return the type that a column has as declared; of a range it is that of both ends."""
    if t.is_struct(given) and {f.name for f in given} == set(RANGE):
        return pa.struct([(f.name, declared) for f in given])
    return declared


# ------------------------------------------------------------ Arrow's other types


def spark_type(type_: pa.DataType, int96: Iterator[bool] | None = None) -> pa.DataType:
    """Return the type that Spark has for an Arrow type; the same if it has none.

    `int96` tells of each leaf, in order, whether a Parquet file has it as an INT96: that is a
    point in time for Spark, and a local time for Arrow.
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
