"""The types of Spark and of Arrow, in both directions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema, to_arrow_type

from tocsin.engine.result import TypeSystem
from tocsin.errors import EventError

# Spark 4.3 requires an argument that 4.0 does not have.
to_arrow: Any = (
    functools.partial(to_arrow_type, timezone="UTC")
    if "timezone" in inspect.signature(to_arrow_type).parameters
    else to_arrow_type
)


def check_types(fields: Iterable[st.StructField], advice: str) -> None:
    """Raise if Spark cannot send a column to its workers, such as one of `INTERVAL MONTH`."""
    for field in fields:
        try:
            to_arrow(field.dataType)
        except PySparkTypeError:
            raise EventError(
                f"column {field.name!r} is of type {field.dataType.simpleString()}, which Spark "
                f"cannot pass to Python; {advice}, or cast it to string"
            ) from None


def arrow_schema(schema: st.StructType, session: Any) -> pa.Schema:
    """Return what Spark requires of the tables that workers return."""
    check_types(schema.fields, "leave it out")
    is_large = session.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
    options: dict[str, Any] = {"prefers_large_types": is_large}
    if "timezone" in inspect.signature(to_arrow_schema).parameters:  # older ones always take UTC
        options["timezone"] = "UTC"
    return to_arrow_schema(schema, **options)


def from_arrow(field: pa.Field) -> st.StructField:
    """Return Spark's column for a column of Arrow; a TypeError or ValueError if there is none."""
    type_ = from_arrow_type(field.type, prefer_timestamp_ntz=True)
    to_arrow(type_)  # raises for decimals of more than 38 digits
    if isinstance(type_, st.ArrayType):  # PySpark 4.0 says that every array may contain nulls
        type_ = st.ArrayType(type_.elementType, field.type.value_field.nullable)
    return st.StructField(field.name, type_, field.nullable)


def _convert(type_: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark uses for its own type; the same if it has none."""
    try:
        return to_arrow(from_arrow_type(type_, prefer_timestamp_ntz=True))
    except (TypeError, ValueError):
        return type_


def _name(type_: pa.DataType) -> str:
    """Return the name of Spark's type for an Arrow type; Arrow's own name if there is none."""
    try:
        return from_arrow_type(type_, prefer_timestamp_ntz=True).simpleString()
    except (TypeError, ValueError):
        return str(type_)


SPARK_TYPES = TypeSystem(_convert, _name)
