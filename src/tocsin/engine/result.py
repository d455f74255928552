"""The result of a match as batches of Arrow: kept columns, matches, payload.

The columns and their types are planned once, and each batch has exactly these. The rules may change
in between, and with them the types of ids and payload. Values are cast if none of them changes;
otherwise a `MisfitError` says which column does not fit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.engine.request import MatchRequest
from tocsin.engine.version import Version
from tocsin.errors import EventError, RuleError, StoreError, TocsinError, suggest
from tocsin.model.arrow import decode
from tocsin.model.event_tables import is_sparse
from tocsin.model.matches import Matches

# Rows of a batch at most; chosen: kept columns are copied for each match, and later perhaps
# formatted as text.
_ROWS = 1 << 15


class MisfitError(StoreError):
    """The types of a version do not fit the planned ones."""


class TypeSystem(NamedTuple):
    """The types that a result can have where it goes to: Spark, or files."""

    convert: Callable[[pa.DataType], pa.DataType]  # from the type of a payload column
    name: Callable[[pa.DataType], str]  # types of equal names have equal values


@dataclass(frozen=True)
class ResultBuilder:
    """Matches batches of events, and lays out the result in the planned columns.

    It can be pickled, so that other processes build parts of one result.
    """

    request: MatchRequest
    kept: pa.Schema  # columns of the events
    id_type: pa.DataType  # int64 or string
    payload: pa.Schema
    types: TypeSystem

    @classmethod
    def plan(
        cls, request: MatchRequest, rules: Version, events: pa.Schema, types: TypeSystem
    ) -> ResultBuilder:
        """Plan the columns for these rules and the columns of events; raise if some are missing."""
        names = events.names
        if request.keep is not None:
            names = _find_columns("keep", request.keep, events.names)
        kept = pa.schema([(name, events.field(name).type) for name in names])
        if isinstance(request.weights, str):
            (weights,) = _find_columns("weights", [request.weights], events.names)
            request = replace(request, weights=weights)
        payload = _find_payload(request.payload, rules, types)
        builder = cls(request, kept, id_type(rules), payload, types)
        added = [f.name for f in [*builder._added, *builder._version]]
        check_names([("added by matching", added), ("kept", names), ("payload", payload.names)])
        return builder

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """All columns of the result."""
        return pa.schema([*self.kept, *self.own_columns])

    @property
    def own_columns(self) -> list[pa.Field]:
        """The columns that are not the events': matches, payload, and the version of the rules."""
        return [*self._added, *self.payload, *self._version]

    @functools.cached_property
    def _added(self) -> list[pa.Field]:
        """The columns that matching adds."""
        names, types = self.request.columns_added(), [self.id_type, pa.float64()]
        if self.request.how == "count":
            types = [pa.int64()]
        elif self.request.output == "lists":
            types = [pa.list_(pa.field("element", type_, nullable=False)) for type_ in types]
        return [pa.field(n, type_, nullable=False) for n, type_ in zip(names, types, strict=False)]

    @property
    def _version(self) -> list[pa.Field]:
        field = pa.field("rules_version", pa.int64(), nullable=False)
        return [field] if self.request.rules_version else []

    # ------------------------------------------------------------ batches

    def build(
        self,
        rules: Version,
        events: pa.RecordBatch,
        attributes: pa.RecordBatch | None = None,
        version: int | None = None,
        threads: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the result of a batch of events, in one or more batches.

        `attributes` are the columns that rules may test: by default all but the weights. `version`
        is the number of the rules, for `rules_version`.
        """
        request = self.request
        weights = request.weights
        if attributes is None:
            attributes = events.drop_columns([weights]) if isinstance(weights, str) else events
        kept = [events.column(name) for name in self.kept.names]
        if request.how == "count":
            yield self._batch(kept, [pa.array(rules.count(attributes, threads))], version)
            return
        if request.k is None:
            matches = rules.match(attributes, threads)
        else:
            column = events.column(weights) if isinstance(weights, str) else weights
            matches = rules.top(attributes, request.k, column, threads)
        added = [self._cast_ids(rules, matches)]
        if matches.scores is not None:
            added.append(pa.array(matches.scores))
        if request.output == "lists":
            offsets = pa.array(matches.offsets, pa.int32())
            lists = [
                pa.ListArray.from_arrays(offsets, values, field.type)
                for values, field in zip(added, self._added, strict=True)
            ]
            yield self._batch(kept, lists, version)
            return
        added += self._cast_payload(rules, matches)
        rows = pa.array(matches.events)
        for start in range(0, max(1, len(rows)), _ROWS):
            part = rows.slice(start, _ROWS)
            own = [values.slice(start, _ROWS) for values in added]
            yield self._batch([column.take(part) for column in kept], own, version)

    def _batch(
        self, kept: list[pa.Array], own: list[pa.Array], version: int | None
    ) -> pa.RecordBatch:
        if self.request.rules_version:
            own = [*own, pa.array(np.full(len(own[0]), version, np.int64))]
        # Kept columns have the types of this batch: Spark's may differ from batch to batch.
        fields = [pa.field(n, column.type) for n, column in zip(self.kept.names, kept, strict=True)]
        schema = pa.schema([*fields, *self.own_columns])
        return pa.RecordBatch.from_arrays([*kept, *own], schema=schema)

    # ------------------------------------------------------------ planned types

    def _cast_ids(self, rules: Version, matches: Matches) -> pa.Array:
        """Return the ids in the planned type; integers may become strings."""
        ids = matches.ids()
        # If there are no rules, the type of the ids is unknown.
        if len(rules) and t.is_integer(self.id_type) and not t.is_integer(ids.type):
            raise MisfitError("the rules' ids are strings, but the query was planned for integers")
        return ids.cast(self.id_type)

    def _cast_payload(self, rules: Version, matches: Matches) -> list[pa.Array]:
        """Return the planned payload columns; columns that the rules lack are null."""
        known = rules.payload_schema
        schema = pa.schema([known.field(n) for n in self.payload.names if n in known.names])
        payload = matches.payload(schema)
        return [
            cast_column(decode(payload.column(field.name)), field, self.types)
            if field.name in payload.column_names
            else pa.nulls(len(matches), field.type)
            for field in self.payload
        ]


def cast_column(column: pa.Array, planned: pa.Field, types: TypeSystem) -> pa.Array:
    """Return a payload column in the planned type; raise if a value would change."""
    if column.type == planned.type:
        return column
    actual, expected = types.name(column.type), types.name(planned.type)
    message = (
        f"payload column {planned.name!r} is {actual}, but the query was planned for {expected}"
    )
    is_numeric = _is_numeric(column.type) and _is_numeric(planned.type)
    if actual != expected and not is_numeric and not t.is_null(column.type):
        raise MisfitError(message)
    try:
        # Like Spark, truncate times to microseconds.
        options = pc.CastOptions(planned.type, allow_time_truncate=True)
        cast = column.cast(options=options)
        if is_numeric and not _has_same_numbers(column, cast.cast(column.type)):
            raise pa.ArrowInvalid("some values have no equal of that type")
    except pa.ArrowInvalid as error:
        raise MisfitError(f"{message}, and {error}") from None
    return cast


def _has_same_numbers(a: pa.Array, b: pa.Array) -> bool:
    is_same = pc.or_(pc.equal(a, b), pc.not_equal(a, a))  # NaN is not equal to itself
    return pc.all(is_same).as_py() is not False


def _is_numeric(type_: pa.DataType) -> bool:
    return t.is_integer(type_) or t.is_floating(type_)


# ------------------------------------------------------------ columns


def tested_columns(rules: Version, events: pa.Schema) -> set[str]:
    """Return the columns of events that rules test, and those that may have sparse attributes."""
    tested = {name.lower() for name in rules.tested()}
    return {f.name for f in events if f.name.lower() in tested or is_sparse(f.type)}


def id_type(rules: Version) -> pa.DataType:
    """Return the type of ids in results; a string if there are none."""
    is_integer = rules.id_type is not None and t.is_integer(rules.id_type)
    return pa.int64() if is_integer else pa.string()


def missing_column(parameter: str, name: str, known: Sequence[str]) -> EventError:
    """Return the error for a parameter that names a column that the events lack."""
    return EventError(f"{parameter}: the events have no column {name!r}{suggest(name, known)}")


def _find_columns(parameter: str, names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return columns of the events by the names that they have there; see `MatchRequest`."""
    by_name = {name.lower(): name for name in known}
    found: dict[str, None] = {}
    for name in names:
        column = by_name.get(name.lower())
        if column is None:
            raise missing_column(parameter, name, known)
        if column in found:
            raise RuleError(f"{parameter} names the column {column!r} twice")
        found[column] = None
    return list(found)


def _find_payload(names: Sequence[str], rules: Version, types: TypeSystem) -> pa.Schema:
    known = rules.payload_schema
    fields: dict[str, pa.Field] = {}
    for name in names:
        if name not in known.names:
            raise RuleError(
                f"the rules have no payload column {name!r}{suggest(name, known.names)}"
            )
        if name.lower() in fields:
            raise RuleError(f"payload names the column {name!r} twice; names are case-insensitive")
        fields[name.lower()] = pa.field(name, types.convert(known.field(name).type))
    return pa.schema(list(fields.values()))


def check_names(
    columns: Sequence[tuple[str, Sequence[str]]], error: type[TocsinError] = EventError
) -> None:
    """Raise if two columns of a result have the same name; names are listed with their origin."""
    parameters = {"kept": "keep", "payload": "payload"}
    seen: dict[str, str] = {}
    for origin, names in columns:
        for name in names:
            other = seen.get(name.lower())
            if other is not None:
                origins = f"one is {other}, one is {origin}"
                if other == origin:
                    origins = f"both are {origin}"
                advice = "rename it"
                if origin in parameters:
                    advice += f", or leave it out of {parameters[origin]}"
                raise error(
                    f"the result would have two columns {name!r} (names are case-insensitive): "
                    f"{origins}; {advice}"
                )
            seen[name.lower()] = origin
