"""Read files of events into a DataFrame, and write a DataFrame to files.

By default, Spark reads values that it cannot parse as null, drops microseconds, trims strings and
escapes quotes unlike others; the options below change this. Its errors are pages of Java;
`spark_errors` extracts their messages.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import Observation, functions
from pyspark.sql import types as st

from tocsin.errors import EventError, TocsinError, suggest
from tocsin.model.decimals import digits_of
from tocsin.model.schema import RANGE, Kind, Schema, has_range_fields
from tocsin.spark.operators import quote_column

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
# "90210" as a year and "12:30" as a time of today. `tocsin.cli.events` reads the same format.
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

    Declared columns have the declared kind; Spark infers the types of the others. In CSV, columns
    without values have the kinds of `known`, where it has them.
    """
    # Spark expands patterns, but this is a single path.
    escaped = re.sub(r"([\[\]{}*?\\])", r"\\\1", os.path.abspath(path))
    reader = spark.read.format(format).options(**_READ_OPTIONS[format])
    with spark_errors(f"{path} cannot be read"):
        frame = reader.load(escaped)
        types = _declared_types(frame.schema, declared)
        if format == "parquet":
            return frame.select(
                [
                    functions.col(quote_column(f.name))
                    .cast(types.get(f.name, f.dataType))
                    .alias(f.name)
                    for f in frame.schema.fields
                ]
            )
        if format == "csv" and len(types) < len(frame.columns):
            frame = reader.option("inferSchema", True).load(escaped)
            types |= _types_without_values(frame, known, types) if known else {}
        if not types:
            return frame
        fields = [
            st.StructField(f.name, types.get(f.name, f.dataType)) for f in frame.schema.fields
        ]
        return reader.schema(st.StructType(fields)).load(escaped)


def _declared_types(schema: st.StructType, declared: Schema) -> dict[str, st.DataType]:
    """Return the types of declared columns; attributes without a column may be in a map."""
    columns = {f.name.lower(): f.name for f in schema.fields}
    has_map = any(isinstance(f.dataType, st.MapType) for f in schema.fields)
    for name in declared:
        if name.lower() not in columns and not has_map:
            raise EventError(
                f"the schema declares {name!r}, but the events have no such column"
                + (suggest(name, schema.names) or f"; they have {', '.join(schema.names[:8])}")
            )
    types = {}
    for name in declared:
        if name.lower() in columns:
            column = columns[name.lower()]
            types[column] = _apply_declared(schema[column].dataType, _type_of(declared.kind(name)))
    return types


def _types_without_values(
    frame: Any, known: Schema, declared: Mapping[str, st.DataType]
) -> dict[str, st.DataType]:
    """Return the types that a schema gives to columns that Spark takes for text, but are empty."""
    types = {
        f.name: _type_of(known.kind(f.name))
        for f in frame.schema.fields
        if f.name not in declared
        and isinstance(f.dataType, st.StringType)
        and known.find(f.name) is not None
        and known.kind(f.name) != "category"
    }
    if not types:
        return {}
    counts = [functions.count(functions.col(quote_column(name))) for name in types]
    row = frame.select(counts).first()
    return {name: type_ for (name, type_), n in zip(types.items(), row, strict=True) if not n}


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
