"""Queries about each reading by itself: how likely it is in a range, and its distribution.

A range query is an expression of Spark SQL, without Python: for points, uniform values, growing
ones and histograms. Only DataFrames with normal readings go through workers, since Spark SQL has no
error function; of those, only rows whose interval meets the range.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Unpack

from pyspark.sql import types as st

from tocsin.spark.kernels import UNCERTAIN
from tocsin.spark.operators import map_batches, number_columns
from tocsin.spark.types import arrow_schema
from tocsin.spark.uncertain.evaluation import describe_rows, rate_rows
from tocsin.spark.uncertain.intervals import quote_number, sum_of
from tocsin.spark.uncertain.reading_columns import (
    BARRIER,
    FAMILY,
    HIGH,
    LOW,
    ReadingColumns,
    ReadingOptions,
    check_readings,
    find_columns,
    read_columns,
)
from tocsin.spark.uncertain.results import check_result, distribution_fields, read_quantiles
from tocsin.uncertain.queries import read_range, read_threshold

_PROBABILITY = st.StructField("probability", st.DoubleType(), False)


def in_range(
    readings: Any,
    low: float,
    high: float,
    at_least: float | None = None,
    **options: Unpack[ReadingOptions],
) -> Any:
    """Return the readings that may be within [low, high], both ends included (ERQ, 5.3.1).

    The result has all columns of the readings, and `probability`, which is above 0, or at least
    `at_least`. `readings` may be a stream. See `ReadingOptions` for `options`.
    """
    check_readings(readings, "in_range")
    low, high = read_range(low, high)
    threshold = read_threshold(at_least)
    columns = read_columns(readings.schema, **options)
    check_result(readings.columns, [_PROBABILITY])
    wanted = "probability > 0" if threshold is None else f"probability >= {quote_number(threshold)}"
    given = columns.add_intervals(readings)
    if "deviation" in columns.extra:
        given = given.where(f"{LOW} <= {quote_number(high)} AND {HIGH} >= {quote_number(low)}")
        return _rate_in_workers(given, readings.schema, columns, low, high).where(wanted)
    share = _share_in_range(columns, low, high)
    return given.selectExpr("*", f"{share} AS probability").where(wanted).drop(FAMILY, LOW, HIGH)


def _share_in_range(columns: ReadingColumns, low: float, high: float) -> str:
    """Return the probability to be in a range, as SQL; the same arithmetic as in one process."""
    # Spark would copy the whole expression into the filter of probabilities.
    barrier = f"WHEN {FAMILY} < 0 THEN CAST({BARRIER} AS DOUBLE)"
    bottom, top = quote_number(low), quote_number(high)
    histogram = ""
    if "edges" in columns.extra:
        edges, weights = columns.extra["edges"], columns.extra["weights"]
        histogram = f"WHEN {edges} IS NOT NULL THEN {_share_of_bins(edges, weights, bottom, top)}"
    return (
        f"CASE WHEN {LOW} > {top} OR {HIGH} < {bottom} THEN 0D "
        f"WHEN {bottom} <= {LOW} AND {HIGH} <= {top} THEN 1D "
        f"{histogram} {barrier} "
        f"ELSE (0.5D * least({top}, {HIGH}) - 0.5D * greatest({bottom}, {LOW})) "
        f"/ (0.5D * {HIGH} - 0.5D * {LOW}) END"
    )


def _share_of_bins(edges: str, weights: str, low: str, high: str) -> str:
    """Return the probability of a histogram to be in a range, as SQL."""
    bins = (
        f"transform({weights}, (w, i) -> struct(w, get({edges}, i) AS a, get({edges}, i + 1) AS b))"
    )
    below, with_bin = "s.below / s.total", "(s.below + bin.w) / s.total"

    def up_to(x: str, found: str) -> str:
        share = f"(0.5D * {x} - 0.5D * bin.a) / (0.5D * bin.b - 0.5D * bin.a)"
        inside = f"{below} + {share} * ({with_bin} - {below})"
        cases = f"WHEN {x} >= bin.b THEN {with_bin} WHEN {x} > bin.a THEN {inside}"
        return f"CASE {cases} ELSE {found} END"

    step = (
        f"struct(s.total, s.below + bin.w AS below, {up_to(low, 's.low')} AS low, "
        f"{up_to(high, 's.high')} AS high)"
    )
    start = f"struct({sum_of(weights)} AS total, 0D AS below, 0D AS low, 0D AS high)"
    return f"aggregate({bins}, {start}, (s, bin) -> {step}, s -> greatest(s.high - s.low, 0D))"


def _rate_in_workers(
    given: Any, schema: st.StructType, columns: ReadingColumns, low: float, high: float
) -> Any:
    kept = number_columns(schema.names, "c")
    job = functools.partial(rate_rows, len(kept), low, high)
    result = st.StructType([*schema.fields, _PROBABILITY])
    return map_batches(given, kept | columns.select(), job, result, UNCERTAIN)


def value(
    readings: Any,
    quantiles: Sequence[float] = (),
    *,
    keep: Sequence[str] = (),
    **options: Unpack[ReadingOptions],
) -> Any:
    """Return the distribution of each reading (VSingleQ): a row for each.

    The result has the id, the columns to `keep`, and those of `total`. `readings` may be a stream.
    """
    check_readings(readings, "value")
    schema = readings.schema
    columns = read_columns(schema, **options)
    wanted = read_quantiles(quantiles)
    kept = [schema[columns.id], *find_columns(schema, keep, "keep")]
    described = distribution_fields(wanted)
    result = st.StructType([*kept, *described])
    check_result([f.name for f in kept], described)
    arrow = arrow_schema(result, readings.sparkSession)
    job = functools.partial(describe_rows, len(kept), wanted, arrow)
    selected = number_columns([f.name for f in kept], "c") | columns.select()
    return map_batches(columns.add_intervals(readings), selected, job, result, UNCERTAIN)
