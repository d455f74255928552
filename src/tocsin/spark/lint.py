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
from pyspark.sql.pandas.types import from_arrow_type

from tocsin.engine.data_range import Values, unite
from tocsin.engine.lint import Linter, read_values
from tocsin.engine.rules import Rules
from tocsin.engine.version import Version
from tocsin.errors import RuleError
from tocsin.spark.columns import EventColumns, find_needed_columns, quote_column
from tocsin.spark.kernels import compile_kernels
from tocsin.spark.matching import check_is_frame, find_zone_name, id_type, send_archive
from tocsin.spark.worker import RuleSource, make_self_contained, open_rules

_RULES_PER_TASK = 20_000  # chosen: a task takes a second, and a worker's preparation some seconds
_MOST_TASKS = 200

_VALUES = "attribute int, keys array<bigint>, has_null boolean"


def lint(rules: Any, schema: Any, same: Sequence[str] = (), events: Any = None) -> Any:
    """Return rules that may be wrong, as a DataFrame: `rule`, `finding`, `by`, `detail`.

    Parameters
    ----------
    rules
        A DataFrame of rules, in one of the three forms of `Rules.add_many`.
    schema
        The columns of the events and their kinds: whatever `Schema` takes, or a DataFrame.
    same
        Payload columns in which a rule must be the same to make another one redundant.
    events
        A DataFrame of events, to find predicates that none of them can satisfy.

    The findings are those of `Rules.lint`.
    """
    for name, frame in [("rules", rules), *([] if events is None else [("events", events)])]:
        check_is_frame(frame, name, "Rules.lint")
        if frame.isStreaming:
            raise RuleError(f"{name} must not be a stream")
    if hasattr(schema, "mapInArrow"):
        zone = find_zone_name(rules.sparkSession.conf.get("spark.sql.session.timeZone"))
        schema = EventColumns(schema.schema).schema(zone or "UTC")
    read = Rules(schema)
    read.add_many(rules.toArrow())
    version = read.snapshot()
    Linter(version, same).lint(0, 0)  # raises if `same` is wrong
    compile_kernels("lint")
    spark = rules.sparkSession
    source = send_archive(version, spark)
    values = None if events is None else _collect_values(events, version, source)
    planned = id_type(version)
    tasks = max(1, min(_MOST_TASKS, -(-len(version) // _RULES_PER_TASK)))
    job = functools.partial(_lint_slices, source, list(same), values, planned, tasks)
    id_ = from_arrow_type(planned)
    text = st.StringType()
    fields = [("rule", id_, False), ("finding", text, False), ("by", id_, True)]
    result = st.StructType([st.StructField(*f) for f in [*fields, ("detail", text, False)]])
    return spark.range(0, tasks, 1, tasks).mapInArrow(make_self_contained(job), result)


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
            ends = [linter.size * n // tasks for n in (number, number + 1)]
            found = linter.lint(*ends, values, threads=1)
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
    job = functools.partial(_find_values, source, needed or [""])
    numbered = [f"{quote_column(name)} AS c{i}" for i, name in enumerate(needed)]
    frame = events.selectExpr(*(numbered or ["0 AS c0"]))
    rows = frame.mapInArrow(make_self_contained(job), _VALUES).toArrow().to_pylist()
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


def _find_values(
    source: RuleSource, columns: list[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the values of each attribute in a batch of events."""
    for batch in batches:
        events = pa.RecordBatch.from_arrays(batch.columns, columns)
        values = read_values(open_rules(source), events)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(list(values), pa.int32()),
                pa.array([each.keys.tolist() for each in values.values()], pa.list_(pa.int64())),
                pa.array([each.has_null for each in values.values()], pa.bool_()),
            ],
            ["attribute", "keys", "has_null"],
        )
