"""Read files of events into a DataFrame, and write a DataFrame to files.

By default, Spark reads values that it cannot parse as null, drops microseconds, trims strings and
escapes quotes unlike others; the options below change this. Its errors are pages of Java;
`spark_errors` extracts their messages.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Observation, functions
from pyspark.sql import types as st

from tocsin.errors import TocsinError
from tocsin.files.types import check_declared
from tocsin.model.decimals import digits_of
from tocsin.model.schema import RANGE, Kind, Schema, has_range_fields
from tocsin.spark.columns import quote_column

_TYPES: dict[str, st.DataType] = {
    "integer": st.LongType(),
    "number": st.DoubleType(),
    "category": st.StringType(),
    "flag": st.BooleanType(),
    "time": st.TimestampType(),
}

_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

# A date, or a date and a time with or without seconds, fraction and zone. By default, Spark reads
# "90210" as a year and "12:30" as a time of today. `tocsin.files` reads the same format.
_CLOCK = "HH:mm[:ss[.SSSSSSSSS]][XXX][XX][X]"
_TIME = f"yyyy-MM-dd['T'{_CLOCK}][ {_CLOCK}]"

_READ_OPTIONS: dict[str, dict[str, Any]] = {
    "csv": {"header": True, "escape": '"', "mode": "FAILFAST", "timestampFormat": _TIME},
    "json": {"inferTimestamp": True, "mode": "FAILFAST", "timestampFormat": _TIME},
    "parquet": {},
}

_WRITE_OPTIONS: dict[str, dict[str, Any]] = {
    "csv": {
        "escape": '"',
        "ignoreLeadingWhiteSpace": False,
        "ignoreTrailingWhiteSpace": False,
        **_TIMES,
    },
    "json": {"ignoreNullFields": False, **_TIMES},
    "parquet": {},
}

# The default, INT96, has no zone and ends in 2262.
SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


def read_files(
    spark: Any,
    path: str | os.PathLike[str],
    format: str,
    declared: Schema,
    known: Schema | None = None,
) -> Any:
    """Return a file, or all files of a folder, as a DataFrame; `format` is csv, json or parquet.

    Declared columns have the declared kind. In CSV and JSON, other columns have the kind of
    `known`, where it has them, and else the type that Spark infers.
    """
    # Spark expands patterns, but this is a single path.
    escaped = re.sub(r"([\[\]{}*?\\])", r"\\\1", os.path.abspath(path))
    reader = spark.read.format(format).options(**_READ_OPTIONS[format])
    with spark_errors(f"{path} cannot be read"):
        frame = reader.load(escaped)
        has_map = any(isinstance(f.dataType, st.MapType) for f in frame.schema.fields)
        check_declared(frame.columns, has_map, declared)
        types = _types(frame.schema, declared)
        if format == "parquet":
            return frame.select(
                [
                    functions.col(quote_column(f.name))
                    .cast(types.get(f.name, f.dataType))
                    .alias(f.name)
                    for f in frame.schema.fields
                ]
            )
        types = (_types(frame.schema, known) if known else {}) | types
        if format == "csv" and len(types) < len(frame.columns):
            frame = reader.option("inferSchema", True).load(escaped)
        if not types:
            return frame
        fields = [
            st.StructField(f.name, types.get(f.name, f.dataType)) for f in frame.schema.fields
        ]
        return reader.schema(st.StructType(fields)).load(escaped)


def _types(columns: st.StructType, schema: Schema) -> dict[str, st.DataType]:
    """Return the types that a schema gives to columns."""
    return {
        f.name: _apply_declared(f.dataType, _type_of(schema.kind(f.name)))
        for f in columns.fields
        if schema.find(f.name) is not None
    }


def _type_of(kind: Kind) -> st.DataType:
    """Return the type of the columns of a kind."""
    digits = digits_of(kind)
    return _TYPES[kind] if digits is None else st.DecimalType(*digits)


def _apply_declared(type_: st.DataType, declared: st.DataType) -> st.DataType:
    """Return the declared type of a column; in a range, both ends have it."""
    if isinstance(type_, st.StructType) and has_range_fields(type_.names):
        return st.StructType(
            [st.StructField(f.name, declared if f.name in RANGE else f.dataType) for f in type_]
        )
    return declared


def observe_row_count(frame: Any) -> tuple[Any, Observation]:
    """Return the same DataFrame, and an observation of `rows`, the number of rows of its job."""
    rows = Observation()
    return frame.observe(rows, functions.count(functions.lit(1)).alias("rows")), rows


def nested_columns(frame: Any) -> dict[str, str]:
    """Return the names and types of columns that a CSV file cannot hold."""
    atoms = (
        st.NumericType,
        st.StringType,
        st.BooleanType,
        st.DateType,
        st.TimestampType,
        st.TimestampNTZType,
    )
    return {
        f.name: f.dataType.simpleString()
        for f in frame.schema.fields
        if not isinstance(f.dataType, atoms)
    }


def write_files(frame: Any, folder: str | os.PathLike[str], format: str) -> None:
    """Run a DataFrame and write it to a new folder; CSV files have no header."""
    with spark_errors("Spark could not finish"):
        writer = frame.write.format(format).options(**_WRITE_OPTIONS[format])
        writer.save(os.path.abspath(folder))


# ------------------------------------------------------------ errors


@contextlib.contextmanager
def spark_errors(what: str) -> Iterator[None]:
    """Raise Spark's errors as a `TocsinError` that starts with `what`."""
    try:
        yield
    except Exception as error:
        # Compared by name, because Spark Connect may lack py4j, which raises the JVM's errors.
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise TocsinError(f"{what}: {extract_reason(str(error))}") from None


def extract_reason(text: str) -> str:
    """Return the messages in the text of a Spark error: each cause once, the deepest last."""
    ours = re.findall(r"^tocsin\.errors\.\w+: (.*)", text, re.MULTILINE)
    if ours:
        return str(ours[-1])
    worker = re.findall(r"^Traceback .*\n(?:[ \t].*\n)+(.*)", text, re.MULTILINE)
    if worker:
        return f"a Python worker failed with {worker[-1]}"
    causes = re.findall(r"^(?:: |Caused by: )[\w.$]+: (.*)", text, re.MULTILINE)
    messages = causes or text.strip().splitlines()[:1]
    noise = r"^\[[A-Z_.0-9]+\] |\s*SQLSTATE: \w+$"
    return "; ".join(dict.fromkeys(re.sub(noise, "", m).strip(" .") for m in messages))
