"""Queries over groups of readings: which is the lowest, the highest or nearest, and the sum.

Spark prunes first (thesis, 5.3.2), without Python: an aggregate finds the bound of each group, such
as the lowest of all high ends, and a join drops the readings that begin beyond it, usually most of
them. What is left of a group goes to one worker and must fit into its memory. Sums need all
readings of a group.

The readings are read twice, for the bounds and for the answers. If they are expensive to compute,
or would be others the second time, cache them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

from pyspark.sql import types as st

from tocsin import uncertain
from tocsin.spark.kernels import UNCERTAIN
from tocsin.spark.operators import in_workers, number_columns, quote_column, select
from tocsin.spark.types import arrow_schema
from tocsin.spark.uncertain.evaluation import answer_group, describe_group
from tocsin.spark.uncertain.intervals import quote_number
from tocsin.spark.uncertain.reading_columns import (
    ReadingOptions,
    check_readings,
    find_columns,
    read_columns,
)
from tocsin.spark.uncertain.results import (
    answer_fields,
    check_result,
    distribution_fields,
    read_quantiles,
)
from tocsin.uncertain.queries import read_threshold
from tocsin.uncertain.readings import read_number


class Pruning(NamedTuple):
    """Which readings of a group may matter."""

    aggregate: str  # of `end` over the group: the bound
    end: str  # SQL
    keeps: str  # SQL


_LOWEST = Pruning("min", "high", "low <= bound")
_HIGHEST = Pruning("max", "low", "high >= bound")


def minimum(
    readings: Any,
    at_least: float | None = None,
    *,
    by: Sequence[str] = (),
    keep: Sequence[str] = (),
    **options: Unpack[ReadingOptions],
) -> Any:
    """Return which readings of each group may be the smallest (EMinQ, 5.3.3).

    Rows with the same values in the columns `by` are a group, and so are rows with null there;
    without `by`, all rows are. The result has the columns `by`, the id, the columns to `keep`,
    `probability`, and the `quality` of the group's answer, which is null with `at_least`. See
    `ReadingOptions` for `options`.
    """
    query = functools.partial(uncertain.minimum, at_least=read_threshold(at_least))
    return _answer(readings, query, _LOWEST, by, keep, options)


def maximum(
    readings: Any,
    at_least: float | None = None,
    *,
    by: Sequence[str] = (),
    keep: Sequence[str] = (),
    **options: Unpack[ReadingOptions],
) -> Any:
    """Return which readings of each group may be the largest (EMaxQ, 5.3.3); see `minimum`."""
    query = functools.partial(uncertain.maximum, at_least=read_threshold(at_least))
    return _answer(readings, query, _HIGHEST, by, keep, options)


def nearest(
    readings: Any,
    q: float,
    at_least: float | None = None,
    *,
    by: Sequence[str] = (),
    keep: Sequence[str] = (),
    **options: Unpack[ReadingOptions],
) -> Any:
    """Return which readings of each group may be nearest to q (ENNQ, 5.3.2); see `minimum`."""
    number = read_number(q, "q")
    query = functools.partial(uncertain.nearest, q=number, at_least=read_threshold(at_least))
    sql = quote_number(number)
    far = f"greatest(abs(low - {sql}), abs(high - {sql}))"
    near = f"greatest(low - {sql}, {sql} - high, 0D)"
    return _answer(readings, query, Pruning("min", far, f"{near} <= bound"), by, keep, options)


def total(
    readings: Any,
    quantiles: Sequence[float] = (),
    *,
    by: Sequence[str] = (),
    **options: Unpack[ReadingOptions],
) -> Any:
    """Return the sum of the values of each group (VSumQ): a row for each.

    The result has the columns `by`, and of the distribution `low`, `high`, `mean`, `quality` and
    `atoms`, the values that have a probability of their own. With `quantiles`, such as
    `[0.05, 0.5, 0.95]`, these values are in an array of the same order. See `ReadingOptions` for
    `options`.
    """
    return _describe(readings, uncertain.total, None, by, quantiles, options)


def average(
    readings: Any,
    quantiles: Sequence[float] = (),
    *,
    by: Sequence[str] = (),
    **options: Unpack[ReadingOptions],
) -> Any:
    """Return the average of the values of each group (VAvgQ); see `total`."""
    return _describe(readings, uncertain.average, None, by, quantiles, options)


def lowest(
    readings: Any,
    quantiles: Sequence[float] = (),
    *,
    by: Sequence[str] = (),
    **options: Unpack[ReadingOptions],
) -> Any:
    """Return the smallest value of each group (VMinQ); see `total`."""
    return _describe(readings, uncertain.lowest, _LOWEST, by, quantiles, options)


def highest(
    readings: Any,
    quantiles: Sequence[float] = (),
    *,
    by: Sequence[str] = (),
    **options: Unpack[ReadingOptions],
) -> Any:
    """Return the largest value of each group (VMaxQ); see `total`."""
    return _describe(readings, uncertain.highest, _HIGHEST, by, quantiles, options)


def _answer(
    readings: Any,
    query: functools.partial[Any],
    pruning: Pruning,
    by: Sequence[str],
    keep: Sequence[str],
    options: ReadingOptions,
) -> Any:
    """Return the objects that may be the answer, by group."""
    grouped = _group(readings, query.func.__name__, by, options)
    kept = [*grouped.fields, grouped.id, *find_columns(readings.schema, keep, "keep")]
    result = st.StructType([*kept, *answer_fields()])
    check_result([f.name for f in kept], answer_fields())
    others = number_columns([f.name for f in kept[len(by) + 1 :]], "k")
    arrow = arrow_schema(result, readings.sparkSession)
    job = functools.partial(answer_group, query, arrow)
    return _apply(grouped, others, pruning, job, result)


def _describe(
    readings: Any,
    query: Any,
    pruning: Pruning | None,
    by: Sequence[str],
    quantiles: Sequence[float],
    options: ReadingOptions,
) -> Any:
    """Return the columns that describe a distribution, by group."""
    wanted = read_quantiles(quantiles)
    grouped = _group(readings, query.__name__, by, options)
    described = distribution_fields(wanted)
    result = st.StructType([*grouped.fields, *described])
    check_result([f.name for f in grouped.fields], described)
    arrow = arrow_schema(result, readings.sparkSession)
    job = functools.partial(describe_group, query, len(by), wanted, arrow)
    return _apply(grouped, {}, pruning, job, result)


class _Grouped(NamedTuple):
    """Readings, and the columns that say their group."""

    readings: Any  # with intervals
    fields: list[st.StructField]
    id: st.StructField
    columns: dict[str, str]  # SQL for the intervals and densities


def _group(readings: Any, query: str, by: Sequence[str], options: ReadingOptions) -> _Grouped:
    advice = (
        f"{query} needs all readings of a group: tocsin.spark.uncertain.watch keeps the last "
        "readings of a stream"
    )
    check_readings(readings, query, advice)
    columns = read_columns(readings.schema, **options)
    fields = find_columns(readings.schema, by, "by")
    given = columns.add_intervals(readings)
    return _Grouped(given, fields, readings.schema[columns.id], columns.select())


def _apply(
    grouped: _Grouped,
    others: dict[str, str],
    pruning: Pruning | None,
    job: functools.partial[Any],
    result: st.StructType,
) -> Any:
    """Return the job's results of all groups."""
    groups = number_columns([f.name for f in grouped.fields], "g")
    own = {"id": quote_column(grouped.id.name), **others, **grouped.columns}
    given = select(grouped.readings, groups | own)
    if pruning is not None:
        given = _prune(given, list(groups), pruning)
    return given.groupBy(*groups).applyInArrow(in_workers(job, UNCERTAIN), result)


def _prune(given: Any, keys: list[str], pruning: Pruning) -> Any:
    """Return the readings that may matter."""
    ends = given.selectExpr(*keys, f"{pruning.end} AS bound")
    own = [f"b{i}" for i in range(len(keys))]
    bounds = ends.groupBy(*keys).agg({"bound": pruning.aggregate}).toDF(*own, "bound")
    if not keys:
        joined = given.crossJoin(bounds)
    else:
        is_same = [given[key].eqNullSafe(bounds[name]) for key, name in zip(keys, own)]
        joined = given.join(bounds, functools.reduce(lambda a, b: a & b, is_same))
    return joined.where(pruning.keeps).select(*given.columns)
