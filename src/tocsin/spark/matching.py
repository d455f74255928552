"""Match a DataFrame of events against rules.

The plan is one `mapInArrow`: no shuffle, no join. What travels to the workers is a path
and a version; each worker process maps the rules once and keeps them, so that its second
batch costs nothing for them and all workers of a machine share one copy of the pages.

A `Rules` object is frozen at the call and travels as an archive. A store's path is taken
as it is: the folder must be reachable from the caller and from the workers. A DataFrame of
rules is read, checked and frozen at the call.

Nothing here asks whether the session is Classic or Connect, and only what both have is used.

In a stream the rules of a store are live. A worker knows its query and its micro-batch;
the first task of a batch writes the version it finds into a log in the store, put-if-absent,
and all others, and every repetition of the batch, read it there. So a batch sees one
version, a repeated batch the same one, and Spark's own sinks stay exactly once.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from tocsin.engine.rules import Rules
from tocsin.engine.store_folder import StoreFolder
from tocsin.errors import EventError, RuleError, StoreError, near
from tocsin.model.arrow import plain
from tocsin.model.schema import ARTICLE, Schema
from tocsin.spark.kernels import compile_kernels

HOWS = ("all", "top", "count")
OUTPUTS = ("rows", "lists")


class _Source(NamedTuple):
    """Where a worker finds the rules."""

    path: str
    version: int | None  # None: live, as the log of the store says
    archive: bool  # whether `path` is the name of an archive that came with the job


def match(
    events: Any,
    rules: Any,
    how: str = "all",
    k: int | None = None,
    keep: Sequence[str] | None = None,
    output: str = "rows",
    weights: str | dict[str, float] | None = None,
    payload: Sequence[str] = (),
    rules_version: bool = False,
) -> Any:
    """Return which rules each event satisfies, as a DataFrame, batch or streaming.

    Parameters
    ----------
    events
        A DataFrame. A column of map type (text to value) holds sparse attributes by name. A
        struct of `low` and `high` is a range, of which some value must satisfy a predicate.
    rules
        A `Rules`, the path of a rule store, or a DataFrame of rules in one of the three forms
        of `Rules.add_many`. Of a store a batch query uses the version that is current at the
        call, a stream in each micro-batch the one that is current then.
    how
        "all" matches, the "top" ones with their scores, or the "count" of matches.
    k
        How many are the "top" ones.
    keep
        Which columns of the events to keep; all if None.
    output
        "rows" gives a row for each match: the kept columns, then `rule` (and `score`); an
        event without a match has none. "lists" gives a row for each event, with `rules`
        (and `scores`), empty where nothing matches. A count is always a row for each event,
        with `matches`.
    weights
        For "top", the events' own: a dict for all of them, or the name of a column of maps
        from attribute to weight.
    payload
        Columns of the rules' payload to add to each row; for output="rows".
    rules_version
        Whether to add a column `rules_version`, the version of the store that was used.
    """
    if how not in HOWS:
        raise RuleError(f"how must be one of {', '.join(HOWS)}; got {how!r}{near(how, HOWS)}")
    if output not in OUTPUTS:
        raise RuleError(f"output must be one of {', '.join(OUTPUTS)}; got {output!r}")
    if how == "top" and (not isinstance(k, int) or isinstance(k, bool) or k < 1):
        raise RuleError(f"how='top' needs k, an integer, 1 or more; got {k!r}")
    if how != "top" and (k is not None or weights is not None):
        raise RuleError(f"k and weights go with how='top'; got how={how!r}")
    if payload and (output != "rows" or how == "count"):
        raise RuleError("payload goes with output='rows', a row for each match")
    if not hasattr(events, "mapInArrow"):
        raise EventError(
            f"events must be a Spark DataFrame, got {type(events).__name__}; for events in this "
            "process use Rules.match"
        )
    for name, given in (("keep", keep), ("payload", payload)):
        if isinstance(given, str):
            raise RuleError(f"{name} takes names of columns in a list, as in [{given!r}]")
    fields = {f.name: f for f in events.schema.fields}
    kept = _known(keep if keep is not None else list(fields), fields, "keep")
    source, opened = _source(rules, events)
    needed = _needed(opened, events.schema, source)
    if isinstance(weights, str):
        _known([weights], fields, "weights")
        needed = [*needed, weights]
    extra = _payload_schema(opened, payload)
    added = _added_columns(opened, how, output)
    added += [st.StructField(f.name, from_arrow_type(f.type)) for f in extra]
    if rules_version:
        if source.archive:
            raise RuleError("rules_version is for the path of a rule store; these have no version")
        added.append(st.StructField("rules_version", st.LongType(), False))
    taken = {f.name for f in added} & set(kept)
    if taken:
        raise EventError(
            f"the kept column {taken.pop()!r} has the name of a column that matching adds; "
            "rename it, or leave it out of keep"
        )
    # A batch without columns would not say how many rows it has.
    columns = list(dict.fromkeys([*kept, *needed])) or list(fields)[:1]
    compile_kernels()
    question = _Question(how, k, columns, len(kept), output, weights, extra, rules_version)
    mapped = functools.partial(_match_batches, source, question)
    schema = st.StructType([*(fields[name] for name in kept), *added])
    # mapInArrow stumbles over names with dots, and binds by position anyway. Texts, since
    # `functions.col` makes a column of Classic or of Connect by the process, not by the frame.
    numbered = [f"{_quoted(name)} AS c{i}" for i, name in enumerate(columns)]
    return events.selectExpr(*numbered).mapInArrow(mapped, schema)


# ------------------------------------------------------------ in the driver


def _source(rules: Any, events: Any) -> tuple[_Source, Rules]:
    if isinstance(rules, str | os.PathLike):
        folder = StoreFolder(rules)
        current = Rules.open(rules)
        live = getattr(events, "isStreaming", False)
        version = None if live else current.version
        return _Source(str(folder.path.absolute()), version, False), current
    if isinstance(rules, Rules):
        return _frozen(rules, events.sparkSession), rules
    if hasattr(rules, "toArrow") and hasattr(rules, "schema"):
        made = Rules(Schema(events.schema))
        made.add_many(rules.toArrow())
        return _frozen(made, events.sparkSession), made
    raise RuleError(
        "rules must be a tocsin.Rules, the path of a rule store, or a DataFrame of rules; got "
        f"{type(rules).__name__}"
    )


def _frozen(rules: Rules, spark: Any) -> _Source:
    """Send rules, as they are now, to the workers as an archive of a store of one version."""
    name = f"tocsin-{uuid.uuid4().hex}"
    archive = _archives() / f"{name}.zip"
    with tempfile.TemporaryDirectory() as folder:
        rules.copy().save(folder)
        # Not compressed: that would take longer than all the rest.
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
            for each in sorted(Path(folder).rglob("*")):
                file.write(each, each.relative_to(folder))
    spark.addArtifacts(f"{archive}#{name}", archive=True)
    return _Source(name, 1, True)


@functools.cache
def _archives() -> Path:
    """Return a folder for archives; executors fetch them when a job runs, so it lasts."""
    folder = tempfile.mkdtemp(prefix="tocsin-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _known(names: Sequence[str], fields: dict[str, Any], what: str) -> list[str]:
    """Return columns by the names that the events give them, found as Spark finds them."""
    found = []
    folded: dict[str, list[str]] = {}
    for name in fields:
        folded.setdefault(name.lower(), []).append(name)
    for name in names:
        candidates = [name] if name in fields else folded.get(str(name).lower(), [])
        if len(candidates) != 1:
            raise EventError(
                f"{what}: the events have no column {name!r}{near(name, fields)}"
                if not candidates
                else f"{what}: {name!r} may be any of {', '.join(candidates)}"
            )
        found.append(candidates[0])
    return found


def _needed(rules: Rules, schema: Any, source: _Source) -> list[str]:
    """Return the events' columns that rules look at, and all columns of sparse attributes.

    Rules that are live may come to look at any attribute.
    """
    tested = rules.tested() if source.version is not None else list(rules.schema)
    used = {name.lower() for name in tested}
    columns = [f.name for f in schema.fields if f.name.lower() in used]
    given = Schema(schema)
    for name in columns:
        wanted = rules.schema.kind(name)
        found = given.kind(name) if name in given else None
        if found != wanted and (wanted, found) != ("number", "integer"):
            type_ = schema[name].dataType.simpleString()
            raise EventError(
                f"attribute {name!r} is {ARTICLE[wanted]}, but the events' column is of type "
                f"{type_}; cast the column, or declare the attribute as what it is"
            )
    sparse = [
        f.name
        for f in schema.fields
        if isinstance(f.dataType, st.MapType) and isinstance(f.dataType.keyType, st.StringType)
    ]
    missing = {name.lower() for name in rules.tested()} - {c.lower() for c in columns}
    if missing and not sparse:
        name = next(n for n in rules.tested() if n.lower() in missing)
        known = [f.name for f in schema.fields]
        raise EventError(
            f"the events have no column {name!r}, which a rule tests"
            + (near(name, known) or f"; they have {', '.join(known[:8])}")
        )
    return [*columns, *sparse]


def _added_columns(rules: Rules, how: str, output: str) -> list[st.StructField]:
    if how == "count":
        return [st.StructField("matches", st.LongType(), False)]
    whole = pa.types.is_integer(rules.id_type) if rules.id_type is not None else False
    rule: st.DataType = st.LongType() if whole else st.StringType()
    if output == "rows":
        columns = [("rule", rule), ("score", st.DoubleType())]
    else:
        columns = [
            ("rules", st.ArrayType(rule, False)),
            ("scores", st.ArrayType(st.DoubleType(), False)),
        ]
    return [st.StructField(n, t, False) for n, t in columns[: 2 if how == "top" else 1]]


def _payload_schema(rules: Rules, names: Sequence[str]) -> pa.Schema:
    known = rules.payload_schema
    for name in names:
        if name not in known.names:
            raise RuleError(f"the rules have no payload column {name!r}{near(name, known.names)}")
    return pa.schema([_as_spark_has_it(known.field(name)) for name in names])


def _as_spark_has_it(field: pa.Field) -> pa.Field:
    """Return a column in the one Arrow type that Spark takes for its own type."""
    return pa.field(field.name, to_arrow_type(from_arrow_type(field.type), timezone="UTC"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# ------------------------------------------------------------ in a worker


class _Question(NamedTuple):
    """What is asked of each batch."""

    how: str
    k: int | None
    columns: list[str]  # the batch's, by position; the first `kept` are kept
    kept: int
    output: str
    weights: str | dict[str, float] | None
    payload: pa.Schema
    rules_version: bool


def _opened(source: _Source) -> Rules:
    """Map the rules, once in the life of a worker process; checked when they were sent."""
    # A store may have been deleted and made anew at the same path: its version is another file.
    made = None
    if not source.archive and source.version is not None:
        made = StoreFolder(source.path).stamp(source.version)
    return _mapped(source, made)


@functools.lru_cache(maxsize=4)
def _mapped(source: _Source, made: tuple[int, int] | None) -> Rules:
    if source.archive:
        return _unpacked(source)
    return Rules.open(source.path, source.version, verify=False)


def _unpacked(source: _Source) -> Rules:
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
                return Rules.open(folder, source.version, verify=False)
            except StoreError as error:
                trouble = error
    raise trouble


def _in_force(source: _Source) -> _Source:
    """Return a source with the version of this micro-batch, if it is live."""
    if source.version is not None:
        return source
    context = TaskContext.get()
    query = context and context.getLocalProperty("sql.streaming.queryId")
    batch = context and context.getLocalProperty("streaming.sql.batchId")
    if not query or not batch:
        raise StoreError("live rules need a streaming query, and this task belongs to none")
    return source._replace(version=StoreFolder(source.path).pin(query, batch))


def _match_batches(
    source: _Source, question: _Question, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Answer each batch."""
    for batch in batches:
        rules = _opened(_in_force(source))
        # Spark binds by position; the names are the events' own.
        named = pa.RecordBatch.from_arrays(batch.columns, question.columns)
        yield _answer(rules, question, named)


def _answer(rules: Rules, question: _Question, events: pa.RecordBatch) -> pa.RecordBatch:
    rows: np.ndarray | None = None
    if question.how == "count":
        added = {"matches": pa.array(rules.count(events))}
    else:
        if question.how == "top":
            weights = question.weights
            own = events.column(weights) if isinstance(weights, str) else weights
            found = rules.top(events, question.k or 1, weights=own)
        else:
            found = rules.match(events)
        ids = found.ids()
        added = {"rule": ids.cast(pa.int64() if pa.types.is_integer(ids.type) else pa.string())}
        if found.scores is not None:
            added["score"] = pa.array(found.scores)
        if question.output == "lists":
            added = {f"{n}s": _lists(found.offsets, values) for n, values in added.items()}
        else:
            rows = found.events
            carried = found.payload(question.payload).combine_chunks()
            added |= {n: plain(carried.column(n)) for n in carried.column_names}
    columns = events.columns[: question.kept]
    if rows is not None:
        places = pa.array(rows)
        columns = [column.take(places) for column in columns]
    if question.rules_version:
        count = events.num_rows if rows is None else len(rows)
        added["rules_version"] = pa.array(np.full(count, rules.version, np.int64))
    names = [*question.columns[: question.kept], *added]
    return pa.RecordBatch.from_arrays([*columns, *added.values()], names)


def _lists(offsets: np.ndarray, values: pa.Array) -> pa.Array:
    element = pa.field("element", values.type, nullable=False)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, pa.list_(element))
