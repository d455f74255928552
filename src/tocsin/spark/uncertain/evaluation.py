"""The code that runs in Spark's workers: readings from Arrow, and the queries of one process.

A table has columns to keep, then `low` and `high`, and `mean`, `deviation`, `edges` and `weights`
as far as readings have these. Its rows were checked by Spark (`intervals`). Rows of a group are
ordered by id, because Spark's order differs from run to run, and with it the last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin import uncertain
from tocsin.uncertain import Answer, Distribution, Readings


def make_readings(table: pa.Table | pa.RecordBatch, ids: Any) -> Readings:
    """Return the readings of a table, in its order."""
    low, high = (table.column(name).to_numpy() for name in ("low", "high"))
    names = table.schema.names
    if "deviation" not in names and "edges" not in names:
        return Readings.uniform(ids, low, high)
    family = np.zeros(table.num_rows, np.int8)
    if "deviation" in names:
        deviation = pc.fill_null(table.column("deviation"), 0).to_numpy()
        # An interval of one value, and a deviation of 0, are points.
        family[(deviation > 0) & (low < high)] = 1
    if "edges" in names:
        family[pc.is_valid(table.column("edges")).to_numpy(zero_copy_only=False)] = 2
    parts, places = [], []
    for number in range(3):
        rows = np.flatnonzero(family == number)
        if not len(rows):
            continue
        own, own_ids = table.take(pa.array(rows)), ids.take(pa.array(rows))
        if number == 0:
            part = Readings.uniform(own_ids, low[rows], high[rows])
        elif number == 1:
            part = Readings.normal(
                own_ids, own.column("mean"), own.column("deviation"), low[rows], high[rows]
            )
        else:
            lists = (own.column(name).to_pylist() for name in ("edges", "weights"))
            part = Readings.histogram(own_ids, *lists)
        parts.append(part)
        places.append(rows)
    if not parts:
        return Readings.uniform(ids, low, high)
    readings = parts[0]
    for part in parts[1:]:
        readings += part
    return readings.take(np.argsort(np.concatenate(places)))


def rate_rows(
    kept: int, low: float, high: float, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the columns to keep, and the probability of a value in [low, high]."""
    for batch in batches:
        readings = make_readings(batch, pa.array(np.arange(batch.num_rows)))
        answer = uncertain.in_range(readings, low, high)
        probability = np.zeros(batch.num_rows)
        probability[answer.positions] = answer.probabilities
        names = [*batch.schema.names[:kept], "probability"]
        columns = [*batch.columns[:kept], pa.array(probability)]
        yield pa.RecordBatch.from_arrays(columns, names)


def describe_rows(
    kept: int, quantiles: list[float], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the columns to keep, and those that describe the distribution of each value."""
    for batch in batches:
        readings = make_readings(batch, pa.array(np.arange(batch.num_rows)))
        rows = [_describe(uncertain.value(readings, i), quantiles) for i in range(batch.num_rows)]
        columns = [pa.array([row[name] for row in rows], schema.field(name).type)
                   for name in schema.names[kept:]]  # fmt: skip
        yield pa.RecordBatch.from_arrays([*batch.columns[:kept], *columns], schema=schema)


def answer_group(
    query: Callable[[Readings], Answer], schema: pa.Schema, table: pa.Table
) -> pa.Table:
    """Return the objects of a group that may be the answer, likeliest first.

    `schema` has the columns to keep first, one of which is the id.
    """
    table = table.sort_by("id")
    answer = query(make_readings(table, table.column("id").combine_chunks()))
    kept = table.columns[: len(schema.names) - 2]
    rows = pa.array(answer.positions)
    quality = pa.array([answer.quality] * len(answer), pa.float64())
    columns = [*(column.take(rows) for column in kept), pa.array(answer.probabilities), quality]
    return pa.Table.from_arrays(columns, schema=schema)


def describe_group(
    query: Callable[[Readings], Distribution],
    groups: int,
    quantiles: list[float],
    schema: pa.Schema,
    table: pa.Table,
) -> pa.Table:
    """Return the group's columns, and those that describe a distribution, in one row."""
    table = table.sort_by("id")
    found = query(make_readings(table, table.column("id").combine_chunks()))
    described = _describe(found, quantiles)
    columns = [column.slice(0, 1) for column in table.columns[:groups]]
    columns += [pa.array([described[f.name]], f.type) for f in list(schema)[groups:]]
    return pa.Table.from_arrays(columns, schema=schema)


def _describe(found: Distribution, quantiles: list[float]) -> dict[str, Any]:
    values, probabilities = found.atoms
    atoms = zip(values.tolist(), probabilities.tolist(), strict=True)
    return {
        "low": found.low,
        "high": found.high,
        "mean": found.mean,
        "quality": found.quality,
        "quantiles": found.quantile(quantiles).tolist() if quantiles else [],
        "atoms": [{"value": value, "probability": p} for value, p in atoms],
    }
