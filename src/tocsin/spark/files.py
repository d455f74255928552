"""Files of events to a DataFrame and a DataFrame to files, with Spark's quirks kept here.

Spark by default turns what it cannot parse into nulls, drops microseconds, trims texts and
escapes quotes in a way of its own; the options below say otherwise. What it raises is a page
of Java; `telling` keeps the sentences of it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Observation, functions
from pyspark.sql import types as st

from tocsin.errors import EventError, TocsinError, suggest
from tocsin.model.schema import RANGE, Schema

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

# A date, or a date and a time with or without seconds, fraction and zone. By itself Spark takes
# "90210" for a year and "12:30" for a time of today. `tocsin.cli.events` reads the same.
_CLOCK = "HH:mm[:ss[.SSSSSSSSS]][XXX][XX][X]"
_TIME = f"yyyy-MM-dd['T'{_CLOCK}][ {_CLOCK}]"

_READING: dict[str, dict[str, Any]] = {
    "csv": {"header": True, "escape": '"', "mode": "FAILFAST", "timestampFormat": _TIME},
    "json": {"inferTimestamp": True, "mode": "FAILFAST", "timestampFormat": _TIME},
    "parquet": {},
}

_WRITING: dict[str, dict[str, Any]] = {
    "csv": {
        "escape": '"',
        "ignoreLeadingWhiteSpace": False,
        "ignoreTrailingWhiteSpace": False,
        **_TIMES,
    },
    "json": {"ignoreNullFields": False, **_TIMES},
    "parquet": {},
}

# Spark's other way of writing times, INT96, has no zone and ends in 2262.
SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


def read_files(spark: Any, path: str | os.PathLike[str], format: str, declared: Schema) -> Any:
    """Return a file, or all files of a folder, as a DataFrame; `format` is csv, json or parquet.

    Columns that are declared have the declared kind; of the others Spark finds the types.
    """
    # Spark reads patterns; this is one path.
    plain = re.sub(r"([\[\]{}*?\\])", r"\\\1", os.path.abspath(path))
    reader = spark.read.format(format).options(**_READING[format])
    with telling(f"{path} cannot be read"):
        frame = reader.load(plain)
        kinds = _kinds(frame.schema, declared)
        if format == "parquet":
            return frame.select(
                [
                    functions.col(_quoted(f.name)).cast(kinds.get(f.name, f.dataType)).alias(f.name)
                    for f in frame.schema.fields
                ]
            )
        if format == "csv" and len(kinds) < len(frame.columns):
            frame = reader.option("inferSchema", True).load(plain)
        if not kinds:
            return frame
        fields = [
            st.StructField(f.name, kinds.get(f.name, f.dataType)) for f in frame.schema.fields
        ]
        return reader.schema(st.StructType(fields)).load(plain)


def _kinds(schema: st.StructType, declared: Schema) -> dict[str, st.DataType]:
    """Return the types of declared columns; one that is not there may be in a map."""
    columns = {f.name.lower(): f.name for f in schema.fields}
    sparse = any(isinstance(f.dataType, st.MapType) for f in schema.fields)
    for name in declared:
        if name.lower() not in columns and not sparse:
            raise EventError(
                f"the schema declares {name!r}, but the events have no such column"
                + (suggest(name, schema.names) or f"; they have {', '.join(schema.names[:8])}")
            )
    found = {}
    for name in declared:
        if name.lower() in columns:
            column = columns[name.lower()]
            found[column] = _type_of(schema[column].dataType, _TYPES[declared.kind(name)])
    return found


def _type_of(given: st.DataType, declared: st.DataType) -> st.DataType:
    """Return the type that a column has as declared; of a range it is that of both ends."""
    if isinstance(given, st.StructType) and set(given.names) == set(RANGE):
        return st.StructType([st.StructField(name, declared) for name in given.names])
    return declared


def counted(frame: Any) -> tuple[Any, Observation]:
    """Return the same DataFrame, and what will know its number of rows once a job has run."""
    rows = Observation()
    return frame.observe(rows, functions.count(functions.lit(1)).alias("rows")), rows


def nested(frame: Any) -> dict[str, str]:
    """Return the columns, and their types, that no CSV file can hold."""
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
    """Run a DataFrame and write it as the files of a new folder; CSV files have no header."""
    with telling("Spark could not finish"):
        writer = frame.write.format(format).options(**_WRITING[format])
        writer.save(os.path.abspath(folder))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# ------------------------------------------------------------ errors


@contextlib.contextmanager
def telling(what: str) -> Iterator[None]:
    """Turn what Spark raises into an error of ours that starts with `what`."""
    try:
        yield
    except Exception as error:
        # What the JVM raises comes from py4j, which Spark Connect does not have: no import.
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise TocsinError(f"{what}: {reason(str(error))}") from None


def reason(text: str) -> str:
    """Return the sentences of an error of Spark's: each cause once, the deepest last."""
    ours = re.findall(r"^tocsin\.errors\.\w+: (.*)", text, re.MULTILINE)
    if ours:
        return str(ours[-1])
    worker = re.findall(r"^Traceback .*\n(?:[ \t].*\n)+(.*)", text, re.MULTILINE)
    if worker:
        return f"a Python worker failed with {worker[-1]}"
    causes = re.findall(r"^(?:: |Caused by: )[\w.$]+: (.*)", text, re.MULTILINE)
    found = causes or text.strip().splitlines()[:1]
    plain = [re.sub(r"^\[[A-Z_.0-9]+\] |\s*SQLSTATE: \w+$", "", c).strip(" .") for c in found]
    return "; ".join(dict.fromkeys(plain))
