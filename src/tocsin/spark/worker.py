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

A later version of the rules may not fit the planned types of the result. An error then tells what
to do; Spark itself would fail without naming the cause.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from tocsin.engine.result import MisfitError, ResultBuilder
from tocsin.engine.store_folder import StoreFolder
from tocsin.engine.version import Version
from tocsin.errors import StoreError
from tocsin.model.event_tables import is_sparse


class RuleSource(NamedTuple):
    """Where a worker finds the rules."""

    path: str
    version: int | None  # None: live, the version in the store's log
    archive: bool  # whether `path` is the name of an archive that was sent with the job


def match_batches(
    source: RuleSource,
    result: ResultBuilder,
    hidden: list[str],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the result of each batch; the `hidden` columns are not attributes."""
    for events in batches:
        current = resolve_version(source)
        rules = open_rules(current)
        attributes = events.drop_columns(hidden)
        if source.version is None:
            attributes = _add_missing_attributes(rules, attributes, source)
        try:
            yield from result.build(rules, events, attributes, current.version, threads=1)
        except MisfitError as error:
            raise planning_error(current, str(error)) from None


# ------------------------------------------------------------ rules


@functools.lru_cache(maxsize=16)
def open_store(path: str) -> StoreFolder:
    """Return a store, with its connections and what is known of its versions."""
    return StoreFolder(path)


def open_rules(source: RuleSource) -> Version:
    """Return the rules, which are mapped into memory once per worker process."""
    # The stamp tells apart a store and another one created later at the same path.
    stamp = None
    if not source.archive and source.version is not None:
        stamp = open_store(source.path).versions.stamp(source.version)
    return _map_rules(source, stamp)


@functools.lru_cache(maxsize=4)
def _map_rules(source: RuleSource, stamp: str | None) -> Version:
    if source.archive:
        return _map_archive(source)
    try:
        return open_store(source.path).open(source.version, verify=False)[0]
    except StoreError as error:
        query, batch = micro_batch()
        if query and batch:
            raise StoreError(f"{error}; {unpin_advice(source, query, batch)}") from None
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


def resolve_version(source: RuleSource) -> RuleSource:
    """Return a source with the version of this micro-batch if it is live."""
    if source.version is not None:
        return source
    query, batch = micro_batch()
    if not query or not batch:
        raise StoreError("live rules need a streaming query, but this task belongs to none")
    _report_name(source.path, query, _query_name(query))
    return source._replace(version=open_store(source.path).pin(query, batch))


def micro_batch() -> tuple[str | None, str | None]:
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
        open_store(path).log.report_name(query, name)


# ------------------------------------------------------------ matching


def _add_missing_attributes(
    rules: Version, events: pa.RecordBatch, source: RuleSource
) -> pa.RecordBatch:
    """Return events with null columns for tested attributes that they lack.

    If there are maps of sparse attributes, the attributes may be in these.
    """
    missing = report_missing(rules, events.schema, source)
    if not missing:
        return events
    columns = [*events.columns, *(pa.nulls(events.num_rows) for _ in missing)]
    return pa.RecordBatch.from_arrays(columns, [*events.column_names, *missing])


def report_missing(rules: Version, events: pa.Schema, source: RuleSource) -> list[str]:
    """Return the tested attributes that events have neither columns nor maps for; log them."""
    known = {name.lower() for name in events.names}
    missing = [name for name in rules.tested() if name.lower() not in known]
    if not missing or any(is_sparse(field.type) for field in events):
        return []
    _report_missing(source.path, micro_batch()[0], tuple(missing))
    return missing


@functools.lru_cache(maxsize=64)
def _report_missing(path: str, query: str | None, missing: tuple[str, ...]) -> None:
    """Log columns that a stream lacks, once per stream for all workers."""
    for name in open_store(path).log.report_missing(query or "none", list(missing)):
        logging.getLogger("tocsin").warning(
            "stream %s has no column %r, which a rule of %s tests: it is always null. If the "
            "events have such a column, restart the query, so that it is planned with it",
            query,
            name,
            path,
        )


def planning_error(source: RuleSource, message: str) -> StoreError:
    """Return the error for a version whose types do not fit the planned ones."""
    advice = "restart the query, so that it is planned with the current version"
    query, batch = micro_batch()
    if query and batch:
        advice += f"; {unpin_advice(source, query, batch)}"
    return StoreError(f"{source.path}, version {source.version}: {message}; {advice}")


def unpin_advice(source: RuleSource, query: str, batch: str) -> str:
    """Return what to do if the version of a micro-batch is what makes it fail."""
    return (
        f"if batch {batch} fails again, it is pinned to version {source.version}: "
        f"run `tocsin rules unpin {source.path} {query} {batch}`"
    )
