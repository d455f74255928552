"""Match a DataFrame of events against rules.

The plan is one `mapInArrow`: no shuffle, no join. What travels to the workers is a path
and a version; each worker process maps the rules once and keeps them, so that its second
batch costs nothing for them and all workers of a machine share one copy of the pages
(`worker.py`).

A `Rules` object travels as an archive of the version that it is at the call. A store's path is
taken as it is: the folder must be reachable from the caller and from the workers. A DataFrame of
rules is read, checked and frozen at the call.

Nothing here asks whether the session is Classic or Connect, and only what both have is used.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import re
import shutil
import tempfile
import uuid
import zipfile
import zoneinfo
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from tocsin.engine.rules import Rules
from tocsin.engine.store import RuleStore
from tocsin.engine.store_folder import StoreFolder
from tocsin.engine.version import Version
from tocsin.errors import EventError, RuleError, suggest
from tocsin.spark.columns import EventColumns, check_names, is_collated, needed_columns
from tocsin.spark.kernels import compile_kernels
from tocsin.spark.worker import MatchOptions, RuleSource, match_batches, self_contained

HOWS = ("all", "top", "count")
OUTPUTS = ("rows", "lists")


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
        A `Rules` or a `Version`, the path of a rule store, or a DataFrame of rules in one of the
        three forms of `Rules.add_many`; times without a zone in it are in the session's zone.
        Of a store, a batch query uses the version that is current at the call, and a stream uses
        in each micro-batch the one that is current then.
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
        from attribute to weight; that column then holds no sparse attributes.
    payload
        Columns of the rules' payload to add to each row; for output="rows".
    rules_version
        Whether to add a column `rules_version`, the version of the store that was used.
    """
    if how not in HOWS:
        raise RuleError(f"how must be one of {', '.join(HOWS)}; got {how!r}{suggest(how, HOWS)}")
    if output not in OUTPUTS:
        raise RuleError(f"output must be one of {', '.join(OUTPUTS)}; got {output!r}")
    if how == "top" and (not isinstance(k, int) or isinstance(k, bool) or k < 1):
        raise RuleError(f"how='top' needs k, an integer, 1 or more; got {k!r}")
    if how != "top" and (k is not None or weights is not None):
        raise RuleError(f"k and weights go with how='top'; got how={how!r}")
    if payload and (output != "rows" or how == "count"):
        raise RuleError("payload goes with output='rows', a row for each match")
    for name, given in (("keep", keep), ("payload", payload)):
        if isinstance(given, str) or not isinstance(given, Iterable | None):
            raise RuleError(f"{name} takes names of columns in a list, as in [{given!r}]")
    _check_frame(events)
    columns = EventColumns(events.schema)
    kept = columns.kept(keep)
    source, opened = _source(rules, events, columns)
    if isinstance(weights, str):
        weights = columns.named(weights, "weights").name
    own_weights = [weights] if isinstance(weights, str) else []
    needed = needed_columns(opened, columns, source.version is None, *own_weights)
    carried = _payload_schema(opened, payload or ())
    added = _added_columns(opened, how, output)
    payload_columns = [
        st.StructField(f.name, from_arrow_type(f.type, prefer_timestamp_ntz=True)) for f in carried
    ]
    versions = [st.StructField("rules_version", st.LongType(), False)] if rules_version else []
    if rules_version and source.archive:
        raise RuleError("rules_version is for the path of a rule store; these have no version")
    names = [f.name for f in kept]
    check_names(names, [f.name for f in [*added, *versions]], carried.names)
    selected = dict.fromkeys([*names, *needed, *own_weights])
    collated = [f.name for f in columns.fields if f.name in selected and is_collated(f.dataType)]
    options = MatchOptions(
        how,
        k,
        # A batch without columns would not say how many rows it has.
        list(selected) or [""],
        len(kept),
        list({*collated, *own_weights}),
        output,
        weights,
        _id_type(opened),
        carried,
        rules_version,
    )
    compile_kernels()
    mapped = self_contained(functools.partial(match_batches, source, options))
    schema = st.StructType([*kept, *added, *payload_columns, *versions])
    # mapInArrow stumbles over names with dots, and binds by position anyway. Texts, since
    # `functions.col` makes a column of Classic or of Connect by the process, not by the frame.
    numbered = [f"{_quoted(name)} AS c{i}" for i, name in enumerate(selected)]
    return events.selectExpr(*(numbered or ["0 AS c0"])).mapInArrow(mapped, schema)


def _check_frame(events: Any) -> None:
    if hasattr(events, "mapInArrow"):
        return
    advice = (
        "spark.createDataFrame makes one of a table; for events in this process use Rules.match"
    )
    if hasattr(events, "to_spark"):  # pandas on Spark
        advice = "its method to_spark gives one"
    raise EventError(f"events must be a Spark DataFrame, got {_kind_of(events)}; {advice}")


def _kind_of(thing: Any) -> str:
    """Return the type of a thing and whose it is: many libraries have a DataFrame."""
    library = type(thing).__module__.partition(".")[0]
    name = type(thing).__name__
    return name if library in ("builtins", "__main__") else f"a {library} {name}"


# ------------------------------------------------------------ the rules


def _source(rules: Any, events: Any, columns: EventColumns) -> tuple[RuleSource, Version]:
    if isinstance(rules, str | os.PathLike):
        folder = StoreFolder(rules)
        current, origin = folder.open()
        live = getattr(events, "isStreaming", False)
        return RuleSource(str(folder.path), None if live else origin.version, False), current
    is_frame = hasattr(rules, "mapInArrow")
    if not is_frame and not isinstance(rules, Rules | Version):
        raise RuleError(
            "rules must be a tocsin.Rules, the path of a rule store, or a Spark DataFrame of "
            f"rules; got {_kind_of(rules)}{_rules_advice(rules)}"
        )
    if int(pyspark.__version__.partition(".")[0]) < 4:
        raise RuleError(
            f"PySpark {pyspark.__version__} cannot send rules to its workers, 4.0 and later can; "
            "save the rules to a store (Rules.save) and give match its path"
        )
    if is_frame:
        rules = _rules_of_frame(rules, events, columns)
    version = rules.snapshot() if isinstance(rules, Rules) else rules
    return _sent(version, events.sparkSession), version


def _rules_advice(rules: Any) -> str:
    if isinstance(rules, RuleStore):
        return "; its path is what match takes"
    if hasattr(rules, "__arrow_c_stream__") or hasattr(rules, "columns"):
        return "; add the table to a tocsin.Rules (Rules.add_many), or make it a Spark DataFrame"
    return ""


def _rules_of_frame(frame: Any, events: Any, columns: EventColumns) -> Rules:
    """Read a DataFrame of rules; times without a zone are in the session's, as Spark has it."""
    if frame.isStreaming:
        raise RuleError(
            "a DataFrame of rules must not be a stream; for rules that change give match the path "
            "of a rule store"
        )
    for field in frame.schema.fields:
        if is_collated(field.dataType) and re.search("(^|_)(low|high)$", field.name.lower()):
            raise RuleError(
                f"the bounds {field.name!r} are of type {field.dataType.simpleString()}, and "
                "conditions compare texts byte by byte; cast them to string"
            )
    session_zone = events.sparkSession.conf.get("spark.sql.session.timeZone")
    zone = _named_zone(session_zone)
    rules = Rules(columns.schema(zone or "UTC"))
    rules.add_many(frame.toArrow())
    times = [name for name in rules.tested() if rules.schema.kind(name) == "time"]
    if zone is None and times:
        raise RuleError(
            f"rules test the time {times[0]!r}, and the session's time zone {session_zone!r} is "
            "not one that can be used here; set spark.sql.session.timeZone to a name such as "
            "'UTC' or 'Europe/Berlin'"
        )
    return rules


def _named_zone(zone: str) -> str | None:
    """Return the name of one of Spark's time zones, which may also be offsets of whole hours."""
    offset = re.fullmatch(r"(?:UTC|GMT|UT)?([+-])(\d\d?)(?::?00)*", zone)
    if zone == "Z" or (offset and int(offset[2]) == 0):
        return "UTC"
    if offset:
        zone = f"Etc/GMT{'-' if offset[1] == '+' else '+'}{int(offset[2])}"  # east is negative
    try:
        return zoneinfo.ZoneInfo(zone).key
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError):
        return None


def _sent(version: Version, spark: Any) -> RuleSource:
    """Send a version to the workers, as an archive of a store that has no other."""
    name = f"tocsin-{uuid.uuid4().hex}"
    archive = _archives() / f"{name}.zip"
    with tempfile.TemporaryDirectory() as folder:
        StoreFolder(folder).publish(version, None)
        # Not compressed: that would take longer than all the rest.
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
            for each in sorted(Path(folder).rglob("*")):
                file.write(each, each.relative_to(folder))
    spark.addArtifacts(f"{archive}#{name}", archive=True)
    return RuleSource(name, 1, True)


@functools.cache
def _archives() -> Path:
    """Return a folder for archives; executors fetch them when a job runs, so it lasts."""
    folder = tempfile.mkdtemp(prefix="tocsin-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


# ------------------------------------------------------------ the result


def _id_type(rules: Version) -> pa.DataType:
    """Return the type of the ids as Spark has it; text while there are none."""
    whole = rules.id_type is not None and pa.types.is_integer(rules.id_type)
    return pa.int64() if whole else pa.string()


def _added_columns(rules: Version, how: str, output: str) -> list[st.StructField]:
    if how == "count":
        return [st.StructField("matches", st.LongType(), False)]
    rule = from_arrow_type(_id_type(rules))
    if output == "rows":
        columns = [("rule", rule), ("score", st.DoubleType())]
    else:
        columns = [
            ("rules", st.ArrayType(rule, False)),
            ("scores", st.ArrayType(st.DoubleType(), False)),
        ]
    return [st.StructField(n, t, False) for n, t in columns[: 2 if how == "top" else 1]]


def _payload_schema(rules: Version, names: Iterable[str]) -> pa.Schema:
    known = rules.payload_schema
    fields: dict[str, pa.Field] = {}
    for name in names:
        if name not in known.names:
            raise RuleError(
                f"the rules have no payload column {name!r}{suggest(name, known.names)}"
            )
        if name.lower() in fields:
            raise RuleError(f"payload names the column {name!r} twice; names are case-insensitive")
        fields[name.lower()] = _as_spark_has_it(known.field(name))
    return pa.schema(list(fields.values()))


def _as_spark_has_it(field: pa.Field) -> pa.Field:
    """Return a column in the one Arrow type that Spark takes for its own type."""
    try:
        type_ = _to_arrow_type(from_arrow_type(field.type, prefer_timestamp_ntz=True))
    except (TypeError, ValueError):
        raise RuleError(
            f"payload column {field.name!r} is of type {field.type}, which Spark does not have; "
            "cast it when the rules are added"
        ) from None
    return pa.field(field.name, type_)


# Spark 4.3 requires an argument that 4.0 does not have.
_to_arrow_type = (
    functools.partial(to_arrow_type, timezone="UTC")
    if "timezone" in inspect.signature(to_arrow_type).parameters
    else to_arrow_type
)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
