"""Answers over a stream: the last reading of each sensor is kept, and asked in each micro-batch.

The state is a folder with the last readings after each micro-batch, as Parquet. That of batch b is
made of that of batch b - 1 and the readings of batch b, so a batch that Spark repeats after a crash
makes the same state again. Of readings of a sensor, the one with the highest time counts, whenever
it arrives; of equal times the one that is greater in the order of the columns. So the state does
not depend on the order in which readings arrive.

States go to a few folders in turn, which Spark overwrites. Nothing has to be deleted, so the state
can be wherever Spark can write. Every row has the number of its batch, and a first row has nothing
else: a state that is not that of the batch before is an error.
"""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import types as st

from tocsin.errors import UncertainError
from tocsin.spark.operators import quote_column
from tocsin.spark.uncertain.intervals import INFINITY, quote_text
from tocsin.spark.uncertain.reading_columns import (
    check_readings,
    find_column,
    find_columns,
)
from tocsin.spark.uncertain.results import check_result

# Chosen: Spark repeats only the last batch, and a user may set a checkpoint back by a few.
_STATES_KEPT = 4


class LastReadings(NamedTuple):
    """Where and how the last readings are kept."""

    path: str
    key: list[str]  # the columns that identify a sensor
    time: st.StructField
    schema: st.StructType  # of the readings

    def folder(self, batch: int) -> str:
        """Return the folder of the state after a batch."""
        return f"{self.path}/state-{batch % _STATES_KEPT}"


def watch(
    stream: Any,
    answer: Callable[[Any, Any, int], Any],
    state: Any,
    *,
    id: str = "id",
    time: str = "time",
    by: Sequence[str] = (),
) -> Any:
    """Return a writer that calls `answer` in each micro-batch with the last reading of each sensor.

    The writer is Spark's own: set a checkpoint and a trigger, and start it.
    `answer(readings, at, batch)` gets a DataFrame, the latest time in it (a number, or a `datetime`
    in UTC) and the number of the micro-batch. Like the function of `foreachBatch`, it is called
    again for a batch that Spark repeats, with the same readings.

    Parameters
    ----------
    stream
        A streaming DataFrame of readings with a column of times, a row for each report.
    answer
        What to do with the last readings: usually a query, whose result it writes.
    state
        A folder that Spark can write to, for this stream alone. A new checkpoint starts it anew.
    id, time
        The columns of ids and times.
    by
        Columns that identify a sensor together with its id, if ids are not unique by themselves.
    """
    check_readings(stream, "minimum")
    if not stream.isStreaming:
        raise UncertainError("watch needs a stream; ask a DataFrame directly, as in minimum(...)")
    if not callable(answer):
        raise UncertainError(
            f"answer must be a function of the readings, their time and the batch, got {answer!r}"
        )
    schema = stream.schema
    check_result(schema.names)
    key = [*find_columns(schema, by, "by"), find_column(schema, id, "id")]
    kept = LastReadings(_read_path(state), [f.name for f in key], _find_time(schema, time), schema)
    return stream.writeStream.foreachBatch(functools.partial(_answer_batch, kept, answer))


def _read_path(state: object) -> str:
    """Return the path of a folder as text; it may be one that only Spark can open."""
    if not isinstance(state, str | os.PathLike) or not os.fspath(state):
        raise UncertainError(f"state must be the path of a folder, got {state!r}")
    return str(os.fspath(state)).rstrip("/")


def _find_time(schema: st.StructType, name: str) -> st.StructField:
    field = find_column(schema, name, "time")
    if not isinstance(field.dataType, st.NumericType | st.TimestampType | st.TimestampNTZType):
        raise UncertainError(
            f"column {field.name!r} is of type {field.dataType.simpleString()}, but times are "
            "numbers or timestamps; cast it"
        )
    return field


def _answer_batch(
    kept: LastReadings, answer: Callable[[Any, Any, int], Any], readings: Any, batch: int
) -> None:
    """Update the state, and call the user's function."""
    spark = readings.sparkSession
    _update(spark, kept, readings, batch)
    last = _read_state(spark, kept, batch).selectExpr("reading.*")
    at = _latest_time(kept.time, last)
    if at is not None:
        answer(last, at, batch)


def _update(spark: Any, kept: LastReadings, readings: Any, batch: int) -> None:
    """Write the state after a batch."""
    merged = readings.selectExpr("struct(*) AS reading")
    if batch > 0:
        merged = merged.unionAll(_read_state(spark, kept, batch - 1))
    key = ", ".join(f"reading.{quote_column(name)}" for name in kept.key)
    order = ", ".join(f"{sql} DESC" for sql in [_checked_time(kept), *_orderable(kept.schema)])
    ranked = f"row_number() OVER (PARTITION BY {key} ORDER BY {order}) AS rank"
    last = merged.selectExpr("reading", ranked).where("rank = 1")
    number = f"CAST({batch} AS BIGINT) AS batch"
    first = spark.range(1).selectExpr(number, "NULL AS reading")
    state = last.selectExpr(number, "reading").unionAll(first)
    state.write.mode("overwrite").parquet(kept.folder(batch))


def _checked_time(kept: LastReadings) -> str:
    """Return the time of a reading; an error if it has none, or no id."""
    time, id_ = (f"reading.{quote_column(name)}" for name in (kept.time.name, kept.key[-1]))
    is_known = f"{time} IS NOT NULL"
    if isinstance(kept.time.dataType, st.FractionalType):
        is_known = f"abs({time}) < {INFINITY}"
    message = (
        f"concat('UncertainError: reading \\'', CAST({id_} AS STRING), '\\': the time is ', "
        f"coalesce(CAST({time} AS STRING), 'null'), ', but it must be known')"
    )
    no_id = "'UncertainError: the id of a reading is null; every reading needs an id'"
    problem = f"raise_error(coalesce({message}, {no_id}))"
    return f"CASE WHEN {id_} IS NOT NULL AND {is_known} THEN {time} ELSE {problem} END"


def _orderable(schema: st.StructType) -> list[str]:
    """Return the columns that readings can be ordered by."""
    return [f"reading.{quote_column(f.name)}" for f in schema.fields if _has_order(f.dataType)]


def _has_order(type_: st.DataType) -> bool:
    if isinstance(type_, st.ArrayType):
        return _has_order(type_.elementType)
    return isinstance(
        type_, st.NumericType | st.StringType | st.BinaryType | st.BooleanType | st.DatetimeType
    )


def _read_state(spark: Any, kept: LastReadings, batch: int) -> Any:
    """Return the state after a batch; raise if it is another one."""
    schema = st.StructType(
        [st.StructField("batch", st.LongType()), st.StructField("reading", kept.schema)]
    )
    advice = (
        f"the folder {kept.path} and the checkpoint do not belong together. Give each stream a "
        "folder of its own; to begin anew, delete the checkpoint"
    )
    try:
        state = spark.read.schema(schema).parquet(kept.folder(batch))
        state.columns  # noqa: B018 - on Connect, this is when Spark looks for the folder
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        raise UncertainError(f"the state after batch {batch} is missing: {advice}") from None
    instead = quote_text(f" in place of {batch}: {advice}")
    message = f"concat('UncertainError: a state is of batch ', batch, {instead})"
    is_own = f"CASE WHEN batch = {batch} THEN reading IS NOT NULL ELSE raise_error({message}) END"
    return state.where(is_own).select("reading")


def _latest_time(time: st.StructField, last: Any) -> Any:
    """Return the latest time of all readings; None if there are none."""
    latest = f"max({quote_column(time.name)})"
    if isinstance(time.dataType, st.NumericType):
        return last.selectExpr(latest).first()[0]
    micros = last.selectExpr(f"unix_micros(CAST({latest} AS TIMESTAMP))").first()[0]
    if micros is None:
        return None
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return epoch + datetime.timedelta(microseconds=micros)
