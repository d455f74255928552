"""Lint a DataFrame of rules: each task compares a slice of the rules with all of them.

The rules are sent to the workers once, like those of `match`, and each worker process prepares its
search once. A task follows chains of covering rules to their end by itself, so no task waits for
another one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as st

from tocsin.engine.data_range import Values, unite
from tocsin.engine.lint import Linter, read_values
from tocsin.engine.result import id_type
from tocsin.engine.rules import Rules
from tocsin.engine.version import Version
from tocsin.errors import EventError, RuleError
from tocsin.spark.columns import EventColumns, find_needed_columns
from tocsin.spark.kernels import LINT
from tocsin.spark.matching import find_zone_name, send_archive
from tocsin.spark.operators import check_frame, is_frame, map_batches, quote_columns
from tocsin.spark.types import from_arrow
from tocsin.spark.worker import RuleSource, open_rules

_RULES_PER_TASK = 20_000  # chosen: a task takes a second, and a worker's preparation some seconds
_MOST_TASKS = 200

_VALUES = "attribute int, keys array<bigint>, has_null boolean"


def lint(rules: Any, schema: Any, same: Sequence[str] = (), events: Any = None) -> Any:
    """Return rules that may be wrong, as a DataFrame: `rule`, `finding`, `by`, `detail`.

    Parameters
    ----------
    rules
        A DataFrame of rules, in one of the four forms of `Rules.add_many`.
    schema
        The columns of the events and their kinds: whatever `Schema` takes, or a DataFrame.
    same
        Payload columns in which a rule must be the same to make another one redundant.
    events
        A DataFrame of events, to find predicates that none of them can satisfy.

    The findings are those of `Rules.lint`.
    """
    check_frame(rules, "rules", "Rules.lint", RuleError, "lint needs all of them")
    if events is not None:
        check_frame(events, "events", "Rules.lint", EventError, "lint needs all of them")
    if is_frame(schema):
        zone = find_zone_name(rules.sparkSession.conf.get("spark.sql.session.timeZone"))
        schema = EventColumns(schema.schema).schema(zone or "UTC")
    read = Rules(schema)
    read.add_many(rules.toArrow())
    version = read.snapshot()
    Linter(version, same).lint(0, 0)  # raises if `same` is wrong
    spark = rules.sparkSession
    source = send_archive(version, spark)
    values = None if events is None else _collect_values(events, version, source)
    planned = id_type(version)
    tasks = max(1, min(_MOST_TASKS, -(-len(version) // _RULES_PER_TASK)))
    job = functools.partial(_lint_slices, source, list(same), values, planned, tasks)
    fields = [("rule", planned), ("finding", pa.string()), ("by", planned), ("detail", pa.string())]
    result = [from_arrow(pa.field(name, type_, name == "by")) for name, type_ in fields]
    frame = spark.range(0, tasks, 1, tasks)
    return map_batches(frame, {"number": "id"}, job, st.StructType(result), LINT)


def _lint_slices(
    source: RuleSource,
    same: list[str],
    values: Mapping[int, Values] | None,
    id_type: pa.DataType,
    tasks: int,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the findings of slices of the rules, by their numbers."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            linter = _prepare(source, tuple(same))
            first, stop = (linter.size * n // tasks for n in (number, number + 1))
            found = linter.lint(first, stop, values, threads=1)
            for name in ("rule", "by"):
                place = found.column_names.index(name)
                found = found.set_column(place, name, found.column(name).cast(id_type))
            yield from found.combine_chunks().to_batches()


@functools.lru_cache(maxsize=2)
def _prepare(source: RuleSource, same: tuple[str, ...]) -> Linter:
    return Linter(open_rules(source), same)


# ------------------------------------------------------------ the values of events


def _collect_values(events: Any, version: Version, source: RuleSource) -> dict[int, Values]:
    """Return the values of all attributes that rules test, from all events."""
    needed = find_needed_columns(version, EventColumns(events.schema), live=False)
    job = functools.partial(_find_values, source)
    rows = map_batches(events, quote_columns(needed), job, _VALUES, LINT).toArrow().to_pylist()
    values = {}
    for attribute in version.tested_attributes():
        is_complete = version.attributes.kind(attribute) in ("category", "flag")
        parts = [
            Values(np.array(row["keys"], np.int64), row["has_null"], is_complete)
            for row in rows
            if row["attribute"] == attribute
        ]
        values[attribute] = unite(parts, is_complete)
    return values


def _find_values(source: RuleSource, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the values of each attribute in a batch of events."""
    for events in batches:
        values = read_values(open_rules(source), events)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(list(values), pa.int32()),
                pa.array([each.keys.tolist() for each in values.values()], pa.list_(pa.int64())),
                pa.array([each.has_null for each in values.values()], pa.bool_()),
            ],
            ["attribute", "keys", "has_null"],
        )
