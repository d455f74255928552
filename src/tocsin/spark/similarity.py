"""Similarity joins of DataFrames: each part of space is joined by one worker.

A bounded sample comes to the driver, which divides space into parts (`similarity.partitioning`). A
row of `a` goes to one part, a row of `b` to each part within epsilon of it, and Spark brings the
rows of a part together. A worker joins them as one process would.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as st

from tocsin.errors import SimilarityError, suggest
from tocsin.jit import freeze_fields
from tocsin.similarity import join
from tocsin.similarity.closeness import Closeness, read_closeness
from tocsin.similarity.partitioning import Partition, find_parts, list_parts, make_partition
from tocsin.similarity.points import read_points
from tocsin.spark.kernels import SIMILARITY
from tocsin.spark.operators import (
    check_frame,
    draw_sample,
    in_workers,
    map_batches,
    number_columns,
    quote_column,
)
from tocsin.spark.types import arrow_schema, check_types

_SAMPLE = 10_000  # points of each side, chosen: parts are then within a tenth of each other
_ROWS_PER_PART = 20_000  # chosen: a part takes some milliseconds, however few rows it has
_USUAL_TASKS = 200  # where Spark chooses the number itself
_PARTS_PER_TASK = 4  # chosen: so that tasks of a crowded part do not come last


def similarity_join(
    a: Any,
    b: Any,
    on: Sequence[str],
    epsilon: float,
    metric: str = "l2",
    closed: bool = False,
) -> Any:
    """Return all pairs of a row of `a` and a row of `b` that are closer than epsilon.

    `on` are the coordinates, numeric columns of both. The result has all columns of `a` with the
    suffix `_a`, those of `b` with `_b`, and `distance`.
    """
    closeness = read_closeness(epsilon, metric, closed)
    names_a, names_b = _check_columns(a, b, on)
    schema = _result_schema(a.schema, b.schema)
    rows = a.count(), b.count()
    if not all(rows):
        return a.sparkSession.createDataFrame([], schema)
    partition, _ = make_partition(
        read_points(draw_sample(a, names_a, _SAMPLE), "a").coordinates,
        read_points(draw_sample(b, names_b, _SAMPLE), "b").coordinates,
        closeness.reach,
        _count_parts(sum(rows), a.sparkSession),
    )
    arrow = arrow_schema(schema, a.sparkSession)
    places_a, places_b = (
        [f.columns.index(n) for n in own] for f, own in ((a, names_a), (b, names_b))
    )
    job = functools.partial(_join_part, places_a, places_b, closeness, metric, closed, arrow)
    left = _assign_parts(a, partition, places_a, closeness.reach, is_left=True)
    right = _assign_parts(b, partition, places_b, closeness.reach, is_left=False)
    both = left.groupBy("part").cogroup(right.groupBy("part"))
    return both.applyInArrow(in_workers(job, SIMILARITY, inputs=2), schema)


def _count_parts(rows: int, session: Any) -> int:
    """Return how many parts there should be: each costs a call, so few rows have few."""
    tasks = session.conf.get("spark.sql.shuffle.partitions")
    most = _PARTS_PER_TASK * (int(tasks) if tasks.isdigit() else _USUAL_TASKS)
    return min(-(-rows // _ROWS_PER_PART), most)


def _assign_parts(
    frame: Any, partition: Partition, places: list[int], reach: float, is_left: bool
) -> Any:
    """Return the columns of a frame, numbered, and the part of each row."""
    job = functools.partial(_assign, partition, places, reach, is_left)
    hashed = ", ".join(quote_column(f.name) for f in frame.schema.fields if _can_hash(f.dataType))
    columns = number_columns(frame.columns, "c")
    columns["hash"] = f"xxhash64({hashed}) & 9223372036854775807"
    fields = [st.StructField(f"c{i}", f.dataType) for i, f in enumerate(frame.schema.fields)]
    part = st.StructField("part", st.IntegerType())
    return map_batches(frame, columns, job, st.StructType([*fields, part]), SIMILARITY)


def _check_columns(a: Any, b: Any, on: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of the coordinates in both frames."""
    if isinstance(on, str) or not on:
        raise SimilarityError(f"on takes the names of the coordinates in a list, got {on!r}")
    found: list[list[str]] = []
    for frame, name in ((a, "a"), (b, "b")):
        advice = "a join needs all rows of both sides: join micro-batches with foreachBatch"
        check_frame(frame, name, "tocsin.similarity.join", SimilarityError, advice)
        own = []
        for column in on:
            fields = [f for f in frame.schema.fields if f.name.lower() == str(column).lower()]
            if len(fields) != 1:
                problem = "has no column" if not fields else "has several columns"
                hint = "" if fields else suggest(column, frame.columns)
                raise SimilarityError(f"{name} {problem} {column!r}{hint}")
            type_ = fields[0].dataType
            if not isinstance(type_, st.IntegralType | st.FloatType | st.DoubleType):
                raise SimilarityError(
                    f"{name}, column {column!r} is of type {type_.simpleString()}, but coordinates "
                    "are integers or floats; cast it first"
                )
            own.append(fields[0].name)
        check_types(frame.schema.fields, "drop it")
        found.append(own)
    return found[0], found[1]


def _result_schema(a: st.StructType, b: st.StructType) -> st.StructType:
    fields = [
        st.StructField(f.name + suffix, f.dataType)
        for schema, suffix in ((a, "_a"), (b, "_b"))
        for f in schema.fields
    ]
    return st.StructType([*fields, st.StructField("distance", st.DoubleType())])


def _can_hash(type_: st.DataType) -> bool:
    """Return whether Spark can hash a type; it cannot hash variants and maps."""
    return isinstance(
        type_, st.NumericType | st.StringType | st.BinaryType | st.BooleanType | st.DatetimeType
    )


def _assign(
    partition: Partition,
    places: list[int],
    reach: float,
    is_left: bool,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch with their part; rows of `b` may be in several."""
    # Arrays can be written to after they are unpickled, but kernels are compiled for frozen ones.
    partition = freeze_fields(Partition, **partition._asdict())
    for batch in batches:
        if not batch.num_rows:
            continue
        points = read_points(batch.select(places), "a" if is_left else "b").coordinates
        rows = batch.select(range(batch.num_columns - 1))
        if is_left:
            hashes = np.asarray(batch.column(batch.num_columns - 1))
            parts = find_parts(points, hashes, partition)
        else:
            numbers, parts = list_parts(points, reach, partition)
            rows = rows.take(pa.array(numbers))
        yield pa.RecordBatch.from_arrays(
            [*rows.columns, pa.array(parts)], [*rows.schema.names, "part"]
        )


def _join_part(
    places_a: list[int],
    places_b: list[int],
    closeness: Closeness,
    metric: str,
    closed: bool,
    schema: pa.Schema,
    a: pa.Table,
    b: pa.Table,
) -> pa.Table:
    """Return the pairs of one part."""
    if not a.num_rows or not b.num_rows:
        return schema.empty_table()
    names = [f"x{i}" for i in range(len(places_a))]
    points_a = a.select(places_a).rename_columns(names)
    points_b = b.select(places_b).rename_columns(names)
    found = join(points_a, points_b, closeness.epsilon, metric=metric, closed=closed)
    left, right = (pa.array(numbers) for numbers in found.pairs())
    columns = [
        column.take(numbers)
        for table, numbers in ((a, left), (b, right))
        for column in table.columns[:-1]  # without the part
    ]
    return pa.Table.from_arrays([*columns, pa.array(found.distances)], schema=schema)
