"""What runs in Spark's workers: open the rules once, match batch after batch.

In a stream the rules of a store are live. A worker knows its query and its micro-batch;
the first task of a batch writes the version it finds into a log in the store, put-if-absent,
and all others, and every repetition of the batch, read it there. So a batch sees one
version, a repeated batch the same one, and Spark's own sinks stay exactly once.

Rules that are live may test attributes that the stream has no column for. These are null there, and
reported once: a rule must not stop a stream, and removing it would not help, since the batch that
failed is pinned to the version that has it.

A worker matches on one thread, whatever TOCSIN_THREADS says: Spark runs as many workers as it was
given cores.

The result's columns have the types that were planned. A later version may have others: they are
cast where nothing is lost, and otherwise an error says what to do; Spark itself would fail without
naming the cause.
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
from tocsin.model.events import is_sparse
from tocsin.model.matches import Matches


class RuleSource(NamedTuple):
    """Where a worker finds the rules."""

    path: str
    version: int | None  # None: live, as the log of the store says
    archive: bool  # whether `path` is the name of an archive that came with the job


class MatchOptions(NamedTuple):
    """What is asked of each batch, and what its result was planned to be."""

    how: str
    k: int | None
    columns: list[str]  # the batch's, by position; the first `kept` are kept
    kept: int
    hidden: list[str]  # of the columns those that are no attributes
    output: str
    weights: str | dict[str, float] | None
    id_type: pa.DataType  # int64 or text
    payload: pa.Schema  # in the types that Spark takes
    rules_version: bool


def self_contained(job: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the same job for workers that may lack Tocsin: there it says what to do.

    A function of a module travels by its name, so a worker without the module fails while Spark
    unpacks the function, with `No module named 'tocsin'`. A function that was made inside another
    one travels with its code; its module's names are not there, so it imports what it uses.
    """
    carried, caller = pickle.dumps(job), sys.executable

    def run(batches: Any) -> Any:
        import pickle
        import sys

        try:
            job = pickle.loads(carried)
        except (ImportError, AttributeError) as error:
            raise ImportError(
                f"Spark's workers run {sys.executable}, which cannot load tocsin: {error}. Before "
                "Spark starts, set PYSPARK_PYTHON to a Python that has the same version of tocsin "
                f"as the caller, which runs {caller} (tocsin.spark.session does that)"
            ) from None
        return job(batches)

    return run


def match_batches(
    source: RuleSource, options: MatchOptions, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the result of each batch."""
    for batch in batches:
        current = _in_force(source)
        rules = _opened(current)
        # Spark binds by position; the names are the events' own.
        events = pa.RecordBatch.from_arrays(batch.columns, options.columns)
        attributes = events.drop_columns(options.hidden)
        if source.version is None:
            attributes = _with_all_attributes(rules, attributes, source)
        yield _result(rules, current, options, events, attributes)


# ------------------------------------------------------------ which rules


def _opened(source: RuleSource) -> Version:
    """Map the rules, once in the life of a worker process; checked when they were sent."""
    # A store may have been deleted and made anew at the same path: its version is another file.
    made = None
    if not source.archive and source.version is not None:
        made = StoreFolder(source.path).stamp(source.version)
    return _mapped(source, made)


@functools.lru_cache(maxsize=4)
def _mapped(source: RuleSource, made: tuple[int, int] | None) -> Version:
    if source.archive:
        return _unpacked(source)
    try:
        return StoreFolder(source.path).open(source.version, verify=False)[0]
    except StoreError as error:
        query, batch = _micro_batch()
        if query and batch:
            raise StoreError(f"{error}; {_unpin_advice(source, query, batch)}") from None
        raise


def _unpacked(source: RuleSource) -> Version:
    """Map the rules of an archive that Spark has fetched and unpacked for this task.

    On Classic it lies in the root of Spark's files, on Connect in the folder of the session
    below that. There a worker of a batch query is told the session's folder as its root, but
    one of a streaming query the root of all (seen in Spark 4.3), so it has to look around. A
    name is given once, so whichever folder has it has the same rules; only another session's
    may still be in the middle of unpacking.
    """
    from pyspark import SparkFiles  # which a client without Spark itself does not have

    root = Path(SparkFiles.getRootDirectory())
    trouble = StoreError(f"the rules, sent as archive {source.path}, did not arrive in {root}")
    for folder in [root / source.path, *root.glob(f"*/{source.path}")]:
        if folder.is_dir():
            try:
                return StoreFolder(folder).open(source.version, verify=False)[0]
            except StoreError as error:
                trouble = error
    raise trouble


def _in_force(source: RuleSource) -> RuleSource:
    """Return a source with the version of this micro-batch, if it is live."""
    if source.version is not None:
        return source
    query, batch = _micro_batch()
    if not query or not batch:
        raise StoreError("live rules need a streaming query, and this task belongs to none")
    return source._replace(version=StoreFolder(source.path).pin(query, batch))


def _micro_batch() -> tuple[str | None, str | None]:
    """Return the streaming query and the micro-batch that this task belongs to."""
    context = TaskContext.get()
    if context is None:
        return None, None
    return (
        context.getLocalProperty("sql.streaming.queryId"),
        context.getLocalProperty("streaming.sql.batchId"),
    )


# ------------------------------------------------------------ match


def _with_all_attributes(
    rules: Version, events: pa.RecordBatch, source: RuleSource
) -> pa.RecordBatch:
    """Return events that have a column for each attribute that is tested, null where they had none.

    Where there are maps of sparse attributes, they may be in these, and are null otherwise.
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
    """Log what a stream lacks: once in its life, whatever worker comes first."""
    for name in StoreFolder(path).log.report_missing(query or "none", list(missing)):
        logging.getLogger("tocsin").warning(
            "stream %s has no column %r, which a rule of %s tests: it is null there. If the events "
            "have such a column, restart the query, so that it is planned with it",
            query,
            name,
            path,
        )


def _result(
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
            weights = options.weights
            own = events.column(weights) if isinstance(weights, str) else weights
            found = rules.top(attributes, options.k or 1, weights=own, threads=1)
        else:
            found = rules.match(attributes, threads=1)
        added = {"rule": _ids(rules, found, source, options.id_type)}
        if found.scores is not None:
            added["score"] = pa.array(found.scores)
        if options.output == "lists":
            added = {f"{n}s": _lists(found.offsets, values) for n, values in added.items()}
        else:
            rows = found.events
            added |= _payload(rules, found, source, options.payload)
    columns = events.columns[: options.kept]
    if rows is not None:
        places = pa.array(rows)
        columns = [column.take(places) for column in columns]
    if options.rules_version:
        count = events.num_rows if rows is None else len(rows)
        added["rules_version"] = pa.array(np.full(count, source.version, np.int64))
    names = [*options.columns[: options.kept], *added]
    return pa.RecordBatch.from_arrays([*columns, *added.values()], names)


def _lists(offsets: np.ndarray, values: pa.Array) -> pa.Array:
    element = pa.field("element", values.type, nullable=False)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, pa.list_(element))


# ------------------------------------------------------------ as planned


def _ids(rules: Version, found: Matches, source: RuleSource, planned: pa.DataType) -> pa.Array:
    """Return the ids; integers become texts where texts were planned."""
    ids = found.ids()
    # Without rules the type of the ids is unknown.
    if len(rules) and t.is_integer(planned) and not t.is_integer(ids.type):
        raise _unplanned(source, "the rules' ids are texts, but the query was planned for integers")
    return ids.cast(planned)


def _payload(
    rules: Version, found: Matches, source: RuleSource, planned: pa.Schema
) -> dict[str, pa.Array]:
    """Return the planned columns of the payload, null where the rules have no such column."""
    known = rules.payload_schema
    carried = found.payload(pa.schema([known.field(n) for n in planned.names if n in known.names]))
    return {
        field.name: _cast(decode(carried.column(field.name)), field, source)
        if field.name in carried.column_names
        else pa.nulls(len(found), field.type)
        for field in planned
    }


def _cast(column: pa.Array, planned: pa.Field, source: RuleSource) -> pa.Array:
    """Return a column in the planned type; raise if its values change thereby."""
    given, wanted = _spark_type(column.type), _spark_type(planned.type)
    what = f"payload column {planned.name!r} is {given}, but the query was planned for {wanted}"
    numeric = _is_numeric(column.type) and _is_numeric(planned.type)
    if given != wanted and not numeric and not t.is_null(column.type):
        raise _unplanned(source, what)
    try:
        # What is not a whole microsecond is dropped, as Spark does.
        options = pc.CastOptions(planned.type, allow_time_truncate=True)
        cast = column.cast(options=options)
        if numeric and not _same_numbers(column, cast.cast(column.type)):
            raise pa.ArrowInvalid("some values have no equal of that type")
    except pa.ArrowInvalid as error:
        raise _unplanned(source, f"{what}, and {error}") from None
    return cast


def _same_numbers(a: pa.Array, b: pa.Array) -> bool:
    same = pc.or_(pc.equal(a, b), pc.not_equal(a, a))  # NaN is not itself
    return pc.all(same).as_py() is not False


def _is_numeric(type_: pa.DataType) -> bool:
    return t.is_integer(type_) or t.is_floating(type_)


def _spark_type(type_: pa.DataType) -> str:
    """Return the name of Spark's type for a type of Arrow's, which is its own if Spark has none."""
    try:
        return from_arrow_type(type_, prefer_timestamp_ntz=True).simpleString()
    except (TypeError, ValueError):
        return str(type_)


def _unplanned(source: RuleSource, what: str) -> StoreError:
    """Return the error for a version whose columns do not fit those that were planned."""
    advice = "restart the query, so that it is planned with the current version"
    query, batch = _micro_batch()
    if query and batch:
        advice += f"; {_unpin_advice(source, query, batch)}"
    return StoreError(f"{source.path}, version {source.version}: {what}; {advice}")


def _unpin_advice(source: RuleSource, query: str, batch: str) -> str:
    return (
        f"if batch {batch} fails again, it is pinned to version {source.version}: "
        f"run `tocsin rules unpin {source.path} {query} {batch}`"
    )
