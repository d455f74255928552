"""Match a DataFrame of events against rules.

The plan is one `mapInArrow`: no shuffle, no join. Workers receive a path and a version. Each worker
process maps the rules into memory once and keeps them, so later batches need not load them, and all
workers on a machine share the pages (`worker.py`).

A `Rules` object is sent as an archive of its current version. The path of a store is sent
unchanged: the folder must be accessible to the caller and to the workers. A DataFrame of rules is
read, checked and frozen at the call.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import tempfile
import uuid
import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import types as st

from tocsin.engine.archive import write_archive
from tocsin.engine.request import MatchRequest
from tocsin.engine.result import ResultBuilder
from tocsin.engine.rules import Rules
from tocsin.engine.store import RuleStore
from tocsin.engine.store_folder import StoreFolder
from tocsin.engine.version import Version
from tocsin.errors import EventError, RuleError
from tocsin.spark.columns import EventColumns, find_needed_columns, is_collated
from tocsin.spark.kernels import kernels_of
from tocsin.spark.operators import (
    check_frame,
    describe_type,
    is_frame,
    map_batches,
    quote_columns,
)
from tocsin.spark.types import SPARK_TYPES, check_types, from_arrow, to_arrow
from tocsin.spark.worker import RuleSource, match_batches


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
    index: str = "auto",
    options: Mapping[str, Any] | None = None,
    batch_id: tuple[str, int] | None = None,
) -> Any:
    """Return which rules each event satisfies, as a DataFrame, batch or streaming.

    Parameters
    ----------
    events
        A DataFrame. A column of map type (string to value) holds sparse attributes by name. A
        struct of `low` and `high` is a range; it satisfies a predicate if some value in it does.
        For rules with `at_least`, it may have a density, as in `Rules.match`.
    rules
        A `Rules`, a `Version`, the path of a rule store, or a DataFrame of rules in one of the
        four forms of `Rules.add_many`; its times without a zone are in the session's zone. With a
        store, a batch query uses the version that is current at the call, and a stream uses the
        current version in each micro-batch.
    how
        "all" matches, the "top" matches with their scores, or the "count" of matches.
    k
        The number of "top" matches.
    keep
        The columns of the events to keep; all if None.
    output
        "rows" gives a row per match: the kept columns, then `rule` (and `score`). Events without
        matches have no rows. "lists" gives a row per event, with `rules` (and `scores`), which are
        empty if nothing matches. A count is always a row per event, with `matches`.
    weights
        For "top", the weights of the events: a dict for all events, or the name of a column of
        maps from attribute to weight. That column then holds no sparse attributes.
    payload
        Columns of the rules' payload to add to each row; for output="rows".
    rules_version
        Whether to add a column `rules_version`, the version of the store that was used.
    index, options
        Which index holds the rules of a DataFrame, and its options, as in `Rules`. A `Rules` or a
        store already has its index.
    batch_id
        Inside `foreachBatch`, with a store: a name for the stream, and the number of the
        micro-batch. All calls with the same two use the version of the first one.
    """
    request = MatchRequest(how, k, keep, output, weights, payload, rules_version)
    check_frame(events, "events", "Rules.match")
    columns = EventColumns(events.schema)
    kept = columns.select(request.keep)
    if batch_id is not None:
        _check_batch_id(batch_id, events, rules)
    source, version = prepare_rules(rules, events, columns, index, options, batch_id)
    if rules_version and source.archive:
        raise RuleError(
            "rules_version is for the path of a rule store; these rules have no version"
        )
    weight_columns = [columns.get(weights, "weights").name] if isinstance(weights, str) else []
    needed = find_needed_columns(version, columns, source.version is None, *weight_columns)
    selected = dict.fromkeys([*(f.name for f in kept), *needed, *weight_columns])
    fields = [f for f in columns.fields if f.name in selected]
    check_types(fields, "leave it out of keep")
    request = replace(request, keep=[f.name for f in kept])
    arrow = pa.schema([(f.name, to_arrow(f.dataType)) for f in fields])
    result = ResultBuilder.plan(request, version, arrow, SPARK_TYPES)
    schema = st.StructType([*kept, *map(to_spark, result.own_columns)])
    collated = [f.name for f in fields if is_collated(f.dataType)]
    hidden = list({*collated, *weight_columns})
    job = functools.partial(match_batches, source, result, hidden)
    return map_batches(events, quote_columns(selected), job, schema, kernels_of(version, how))


def to_spark(field: pa.Field) -> st.StructField:
    """Return the column of a result for a column of Arrow."""
    try:
        return from_arrow(field)
    except (TypeError, ValueError):
        raise RuleError(
            f"payload column {field.name!r} is of type {field.type}, which Spark does not support; "
            "cast it when the rules are added"
        ) from None


# ------------------------------------------------------------ the rules


def prepare_rules(
    rules: Any,
    events: Any,
    columns: EventColumns,
    index: str,
    options: Mapping[str, Any] | None,
    batch_id: tuple[str, int] | None,
) -> tuple[RuleSource, Version]:
    """Return where workers find the rules, and the current version of the rules."""
    if not is_frame(rules) and (index != "auto" or options):
        raise RuleError(
            "index and options are for a DataFrame of rules; a Rules or a store already has its "
            "index: choose it in tocsin.Rules(schema, index, options)"
        )
    if isinstance(rules, str | os.PathLike):
        folder = StoreFolder(rules)
        pinned = None if batch_id is None else folder.pin(batch_id[0], str(batch_id[1]))
        current, origin = folder.open(pinned)
        is_live = getattr(events, "isStreaming", False)
        return RuleSource(str(folder.path), None if is_live else origin.version, False), current
    if not is_frame(rules) and not isinstance(rules, Rules | Version):
        raise RuleError(
            "rules must be a tocsin.Rules, the path of a rule store, or a Spark DataFrame of "
            f"rules; got {describe_type(rules)}{_rules_advice(rules)}"
        )
    if int(pyspark.__version__.partition(".")[0]) < 4:
        raise RuleError(
            f"PySpark {pyspark.__version__} cannot send rules to its workers, 4.0 and later can; "
            "save the rules to a store (Rules.save) and pass its path to match"
        )
    if is_frame(rules):
        rules = _read_rules(rules, events, columns, index, options)
    version = rules.snapshot() if isinstance(rules, Rules) else rules
    return send_archive(version, events.sparkSession), version


def _check_batch_id(batch_id: Any, events: Any, rules: Any) -> None:
    """Raise unless a micro-batch can be pinned to a version; see `match`."""
    is_pair = isinstance(batch_id, tuple | list) and [*map(type, batch_id)] == [str, int]
    if not is_pair or batch_id[1] < 0:
        raise RuleError(
            "batch_id is a name for the stream and the number of the micro-batch, as in "
            f"('alerts', 7); got {batch_id!r}"
        )
    if getattr(events, "isStreaming", False):
        raise EventError(
            "batch_id is for a DataFrame inside of foreachBatch; the micro-batches of a stream are "
            "pinned by themselves"
        )
    if not isinstance(rules, str | os.PathLike):
        raise RuleError("batch_id needs the path of a rule store, which keeps what is pinned")


def _rules_advice(rules: Any) -> str:
    if isinstance(rules, RuleStore):
        return "; pass its path"
    if hasattr(rules, "__arrow_c_stream__") or hasattr(rules, "columns"):
        return (
            "; add the table to a tocsin.Rules (Rules.add_many), or convert it to a Spark DataFrame"
        )
    return ""


def _read_rules(
    frame: Any, events: Any, columns: EventColumns, index: str, options: Mapping[str, Any] | None
) -> Rules:
    """Read a DataFrame of rules; as in Spark, times without a zone are in the session's zone."""
    advice = "for rules that change, pass the path of a rule store"
    check_frame(frame, "a DataFrame of rules", "Rules.match", RuleError, advice)
    for field in frame.schema.fields:
        if is_collated(field.dataType) and re.search("(^|_)(low|high)$", field.name.lower()):
            raise RuleError(
                f"the bounds {field.name!r} are of type {field.dataType.simpleString()}, and "
                "conditions compare text byte by byte; cast them to string"
            )
    session_zone = events.sparkSession.conf.get("spark.sql.session.timeZone")
    zone = find_zone_name(session_zone)
    rules = Rules(columns.schema(zone or "UTC"), index, options)
    rules.add_many(frame.toArrow())
    types = {name: str(type_) for name, type_ in rules.schema.sources().values()}
    times = [name for name in rules.tested() if "timestamp" in types[name]]
    if zone is None and times:
        raise RuleError(
            f"rules test the time {times[0]!r}, but the session's time zone {session_zone!r} is "
            "not supported; set spark.sql.session.timeZone to a name such as 'UTC' or "
            "'Europe/Berlin'"
        )
    return rules


def find_zone_name(zone: str) -> str | None:
    """Return the name of a time zone of Spark, which may be an offset of whole hours, or None."""
    offset = re.fullmatch(r"(?:UTC|GMT|UT)?([+-])(\d\d?)(?::?00)*", zone)
    if zone == "Z" or (offset and int(offset[2]) == 0):
        return "UTC"
    if offset:  # in names of the form Etc/GMT-2, east is negative
        zone = f"Etc/GMT{'-' if offset[1] == '+' else '+'}{int(offset[2])}"
    try:
        return zoneinfo.ZoneInfo(zone).key
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError):
        return None


def send_archive(version: Version, spark: Any) -> RuleSource:
    """Send a version to the workers, as an archive of a store that has only this version."""
    name = f"tocsin-{uuid.uuid4().hex}"
    archive = _archive_folder() / f"{name}.zip"
    write_archive(version, archive)
    spark.addArtifacts(f"{archive}#{name}", archive=True)
    return RuleSource(name, 1, True)


@functools.cache
def _archive_folder() -> Path:
    """Return a folder for archives; it exists until the process ends, as jobs fetch them later."""
    folder = tempfile.mkdtemp(prefix="tocsin-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
