"""The code that runs in Spark's workers: open the rules once, and match batch after batch.

In a stream, the rules of a store are live. A worker knows its query and its micro-batch. The first
task of a micro-batch writes the current version to a log in the store, unless the log has one
already; all other tasks, and repetitions of the micro-batch, read it from there. So a micro-batch
uses one version, a repeated one uses the same version, and Spark's sinks remain exactly-once.

Live rules may test attributes that the stream has no column for. Their value is null, and each is
reported once. A rule must not stop a stream: removing the rule would not help, because the failed
micro-batch is pinned to the version that has it.

A worker matches on one thread, whatever TOCSIN_THREADS is, because Spark starts as many workers as
it has cores.

The columns of the result have the planned types. A later version of the rules may have other types.
They are cast if no value changes; otherwise an error tells what to do. Spark itself would fail
without naming the cause.
"""

from __future__ import annotations

import functools
import logging
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_type

from tocsin.engine.store_folder import StoreFolder
from tocsin.engine.version import Version
from tocsin.errors import StoreError
from tocsin.model.arrow import decode
from tocsin.model.event_tables import is_sparse
from tocsin.model.matches import Matches


class RuleSource(NamedTuple):
    """Where a worker finds the rules."""

    path: str
    version: int | None  # None: live, the version in the store's log
    archive: bool  # whether `path` is the name of an archive that was sent with the job


class MatchOptions(NamedTuple):
    """The options of `match`, and the planned types of the result."""

    how: str
    k: int | None
    columns: list[str]  # of a batch, by position
    kept: int  # the number of columns to keep; they come first
    hidden: list[str]  # columns that are not attributes
    output: str
    weights: str | dict[str, float] | None
    id_type: pa.DataType  # int64 or string
    payload: pa.Schema  # in Spark's types
    rules_version: bool


def make_self_contained(job: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the same job, with a helpful error for workers that lack Tocsin.

    A module's function is pickled by name, so a worker without the module fails while Spark
    unpickles it, with `No module named 'tocsin'`. A nested function is pickled with its code. It
    cannot use the names of its module, so it imports what it needs.
    """
    pickled, caller = pickle.dumps(job), sys.executable

    def run(batches: Any) -> Any:
        import pickle
        import sys

        try:
            job = pickle.loads(pickled)
        except (ImportError, AttributeError) as error:
            raise ImportError(
                f"Spark's workers run {sys.executable}, which cannot load tocsin: {error}. Before "
                "Spark starts, set PYSPARK_PYTHON to a Python that has the same version of tocsin "
                f"as the caller, which runs {caller} (tocsin.spark.session does so)"
            ) from None
        return job(batches)

    return run


def match_batches(
    source: RuleSource, options: MatchOptions, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the result of each batch."""
    for batch in batches:
        current = _resolve_version(source)
        rules = open_rules(current)
        # Spark binds by position; here columns get their names back.
        events = pa.RecordBatch.from_arrays(batch.columns, options.columns)
        attributes = events.drop_columns(options.hidden)
        if source.version is None:
            attributes = _add_missing_attributes(rules, attributes, source)
        yield _build_result(rules, current, options, events, attributes)


# ------------------------------------------------------------ rules


def open_rules(source: RuleSource) -> Version:
    """Return the rules, which are mapped into memory once per worker process."""
    # The stamp tells apart a store and another one created later at the same path.
    stamp = None
    if not source.archive and source.version is not None:
        stamp = StoreFolder(source.path).versions.stamp(source.version)
    return _map_rules(source, stamp)


@functools.lru_cache(maxsize=4)
def _map_rules(source: RuleSource, stamp: str | None) -> Version:
    if source.archive:
        return _map_archive(source)
    try:
        return StoreFolder(source.path).open(source.version, verify=False)[0]
    except StoreError as error:
        query, batch = _micro_batch()
        if query and batch:
            raise StoreError(f"{error}; {_unpin_advice(source, query, batch)}") from None
        raise


def _map_archive(source: RuleSource) -> Version:
    """Map the rules of an archive that Spark has fetched and unpacked for this task.

    On Classic, the archive is in the root of Spark's files; on Connect, it is in the session's
    folder below the root. On Connect, the root that Spark reports is the session's folder in a
    batch query, but the root of all sessions in a streaming query (seen in Spark 4.3), so both are
    searched. Names of archives are unique, so all folders with the name have the same rules. Only
    the folder of another session may not be completely unpacked yet.
    """
    from pyspark import SparkFiles  # missing in a client without Spark itself

    root = Path(SparkFiles.getRootDirectory())
    last_error = StoreError(f"the rules, sent as archive {source.path}, did not arrive in {root}")
    for folder in [root / source.path, *root.glob(f"*/{source.path}")]:
        if folder.is_dir():
            try:
                return StoreFolder(folder).open(source.version, verify=False)[0]
            except StoreError as error:
                last_error = error
    raise last_error


def _resolve_version(source: RuleSource) -> RuleSource:
    """Return a source with the version of this micro-batch if it is live."""
    if source.version is not None:
        return source
    query, batch = _micro_batch()
    if not query or not batch:
        raise StoreError("live rules need a streaming query, but this task belongs to none")
    _report_name(source.path, query, _query_name(query))
    return source._replace(version=StoreFolder(source.path).pin(query, batch))


def _micro_batch() -> tuple[str | None, str | None]:
    """Return the ids of this task's streaming query and micro-batch."""
    context = TaskContext.get()
    if context is None:
        return None, None
    return (
        context.getLocalProperty("sql.streaming.queryId"),
        context.getLocalProperty("streaming.sql.batchId"),
    )


def _query_name(query: str) -> str:
    """Return the name of this task's streaming query; empty if it has none."""
    # Spark describes the jobs of a stream as its name, "id = <query>" and more, in lines that some
    # versions separate by "<br/>".
    context = TaskContext.get()
    description = (context and context.getLocalProperty("spark.job.description")) or ""
    name, mark, _ = description.partition(f"id = {query}")
    return name.removesuffix("<br/>").strip() if mark else ""


@functools.lru_cache(maxsize=64)
def _report_name(path: str, query: str, name: str) -> None:
    """Record the name of a stream, once per worker process."""
    if name:
        StoreFolder(path).log.report_name(query, name)


# ------------------------------------------------------------ matching


def _add_missing_attributes(
    rules: Version, events: pa.RecordBatch, source: RuleSource
) -> pa.RecordBatch:
    """Return events with null columns for tested attributes that they lack.

    If there are maps of sparse attributes, the attributes may be in these.
    """
    known = {name.lower() for name in events.column_names}
    missing = [name for name in rules.tested() if name.lower() not in known]
    if not missing or any(is_sparse(field.type) for field in events.schema):
        return events
    _report_missing(source.path, _micro_batch()[0], tuple(missing))
    columns = [*events.columns, *(pa.nulls(events.num_rows) for _ in missing)]
    return pa.RecordBatch.from_arrays(columns, [*events.column_names, *missing])


@functools.lru_cache(maxsize=64)
def _report_missing(path: str, query: str | None, missing: tuple[str, ...]) -> None:
    """Log columns that a stream lacks, once per stream for all workers."""
    for name in StoreFolder(path).log.report_missing(query or "none", list(missing)):
        logging.getLogger("tocsin").warning(
            "stream %s has no column %r, which a rule of %s tests: it is always null. If the "
            "events have such a column, restart the query, so that it is planned with it",
            query,
            name,
            path,
        )


def _build_result(
    rules: Version,
    source: RuleSource,
    options: MatchOptions,
    events: pa.RecordBatch,
    attributes: pa.RecordBatch,
) -> pa.RecordBatch:
    rows: np.ndarray | None = None
    if options.how == "count":
        added = {"matches": pa.array(rules.count(attributes, threads=1))}
    else:
        if options.how == "top":
            weights: Any = options.weights
            if isinstance(weights, str):
                weights = events.column(weights)
            matches = rules.top(attributes, options.k or 1, weights=weights, threads=1)
        else:
            matches = rules.match(attributes, threads=1)
        added = {"rule": _cast_ids(rules, matches, source, options.id_type)}
        if matches.scores is not None:
            added["score"] = pa.array(matches.scores)
        if options.output == "lists":
            added = {f"{n}s": _to_lists(matches.offsets, values) for n, values in added.items()}
        else:
            rows = matches.events
            added |= _cast_payload(rules, matches, source, options.payload)
    columns = events.columns[: options.kept]
    if rows is not None:
        positions = pa.array(rows)
        columns = [column.take(positions) for column in columns]
    if options.rules_version:
        count = events.num_rows if rows is None else len(rows)
        added["rules_version"] = pa.array(np.full(count, source.version, np.int64))
    names = [*options.columns[: options.kept], *added]
    return pa.RecordBatch.from_arrays([*columns, *added.values()], names)


def _to_lists(offsets: np.ndarray, values: pa.Array) -> pa.Array:
    element = pa.field("element", values.type, nullable=False)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, pa.list_(element))


# ------------------------------------------------------------ planned types


def _cast_ids(
    rules: Version, matches: Matches, source: RuleSource, planned: pa.DataType
) -> pa.Array:
    """Return the ids in the planned type; integers may become strings."""
    ids = matches.ids()
    # If there are no rules, the type of the ids is unknown.
    if len(rules) and t.is_integer(planned) and not t.is_integer(ids.type):
        message = "the rules' ids are strings, but the query was planned for integers"
        raise _planning_error(source, message)
    return ids.cast(planned)


def _cast_payload(
    rules: Version, matches: Matches, source: RuleSource, planned: pa.Schema
) -> dict[str, pa.Array]:
    """Return the planned payload columns; columns that the rules lack are null."""
    known = rules.payload_schema
    schema = pa.schema([known.field(name) for name in planned.names if name in known.names])
    payload = matches.payload(schema)
    return {
        field.name: _cast(decode(payload.column(field.name)), field, source)
        if field.name in payload.column_names
        else pa.nulls(len(matches), field.type)
        for field in planned
    }


def _cast(column: pa.Array, planned: pa.Field, source: RuleSource) -> pa.Array:
    """Return a column in the planned type; raise if a value would change."""
    actual, expected = _spark_type(column.type), _spark_type(planned.type)
    message = (
        f"payload column {planned.name!r} is {actual}, but the query was planned for {expected}"
    )
    is_numeric = _is_numeric(column.type) and _is_numeric(planned.type)
    if actual != expected and not is_numeric and not t.is_null(column.type):
        raise _planning_error(source, message)
    try:
        # Like Spark, truncate times to microseconds.
        options = pc.CastOptions(planned.type, allow_time_truncate=True)
        cast = column.cast(options=options)
        if is_numeric and not _has_same_numbers(column, cast.cast(column.type)):
            raise pa.ArrowInvalid("some values have no equal of that type")
    except pa.ArrowInvalid as error:
        raise _planning_error(source, f"{message}, and {error}") from None
    return cast


def _has_same_numbers(a: pa.Array, b: pa.Array) -> bool:
    is_same = pc.or_(pc.equal(a, b), pc.not_equal(a, a))  # NaN is not equal to itself
    return pc.all(is_same).as_py() is not False


def _is_numeric(type_: pa.DataType) -> bool:
    return t.is_integer(type_) or t.is_floating(type_)


def _spark_type(type_: pa.DataType) -> str:
    """Return the name of Spark's type for an Arrow type; Arrow's own name if there is none."""
    try:
        return from_arrow_type(type_, prefer_timestamp_ntz=True).simpleString()
    except (TypeError, ValueError):
        return str(type_)


def _planning_error(source: RuleSource, message: str) -> StoreError:
    """Return the error for a version whose types do not fit the planned ones."""
    advice = "restart the query, so that it is planned with the current version"
    query, batch = _micro_batch()
    if query and batch:
        advice += f"; {_unpin_advice(source, query, batch)}"
    return StoreError(f"{source.path}, version {source.version}: {message}; {advice}")


def _unpin_advice(source: RuleSource, query: str, batch: str) -> str:
    return (
        f"if batch {batch} fails again, it is pinned to version {source.version}: "
        f"run `tocsin rules unpin {source.path} {query} {batch}`"
    )
