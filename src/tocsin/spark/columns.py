"""The columns of a DataFrame of events; names are resolved as in Spark.

Names are case-insensitive. Spark cannot select a column that has no name or shares its name with
another column. Here this is an error only if the column is kept or needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

from tocsin.engine.result import missing_column
from tocsin.engine.version import Version
from tocsin.errors import EventError, RuleError, suggest
from tocsin.model.decimals import is_decimal
from tocsin.model.schema import ARTICLE, Schema
from tocsin.model.terms import as_source
from tocsin.spark.types import check_types, to_arrow

_AMBIGUOUS = "is the name of more than one column of the events; rename or drop all but one"


class EventColumns:
    """The columns of a DataFrame of events."""

    def __init__(self, schema: st.StructType):
        self.fields: list[st.StructField] = schema.fields
        self._by_name: dict[str, list[st.StructField]] = {}
        for field in self.fields:
            self._by_name.setdefault(field.name.lower(), []).append(field)

    def schema(self, timezone: str = "UTC") -> Schema:
        """Return the columns as attributes; columns that cannot be selected are refused."""
        groups = self._by_name.items()
        unique = [fields[0] for name, fields in groups if name and len(fields) == 1]
        schema = Schema(st.StructType(unique), timezone)
        schema.refuse({name: _AMBIGUOUS for name, fields in groups if len(fields) > 1})
        return schema

    def find(self, name: str) -> st.StructField | None:
        """Return the column with a name or None; raise if it cannot be selected."""
        fields = self._by_name.get(name.lower(), [])
        if len(fields) > 1:
            names = " and ".join(repr(f.name) for f in fields)
            raise EventError(
                f"the events have {len(fields)} columns {name!r}; rename or drop all but one"
                if len({f.name for f in fields}) == 1
                else f"the events have the columns {names}, and names are case-insensitive; "
                "rename or drop all but one"
            )
        if fields and not name:
            position = self.fields.index(fields[0])
            raise EventError(f"column {position} of the events has no name; rename it with toDF")
        return fields[0] if fields else None

    def get(self, name: str, parameter: str) -> st.StructField:
        """Return the column that a parameter names; raise if there is none."""
        try:
            field = self.find(name)
        except EventError as error:
            raise error.with_place(parameter) from None
        if field is None:
            raise missing_column(parameter, name, [f.name for f in self.fields])
        return field

    def select(self, keep: Iterable[str] | None) -> list[st.StructField]:
        """Return the columns to keep; all if None."""
        if keep is None:
            try:
                return [self.get(f.name, "keep") for f in self.fields]
            except EventError as error:
                raise EventError(
                    f"{error}; or name the columns to keep, as in keep=[...]"
                ) from None
        kept: dict[str, st.StructField] = {}
        for name in keep:
            field = self.get(name, "keep")
            if field.name in kept:
                raise RuleError(f"keep names the column {field.name!r} twice")
            kept[field.name] = field
        return list(kept.values())


def find_needed_columns(
    rules: Version, columns: EventColumns, live: bool, weights: str | None = None
) -> list[str]:
    """Return the columns that rules need, including maps of sparse attributes.

    Live rules may need any attribute later; attributes without a column are null. For other rules
    a missing column is an error. The column `weights` has weights and no attributes.
    """
    event_schema, tested = columns.schema(), dict.fromkeys(rules.tested())
    needed, missing = [], []
    all_sources = [name for name, _ in rules.schema.sources().values()]
    for name in all_sources if live else tested:
        field = columns.find(name)
        if field is None:
            missing.append(name)
            continue
        _check_kind(name, rules.schema, event_schema, field)
        needed.append(field.name)
    if not missing and not live:
        return needed
    kinds = [rules.schema.kind(name) for name in missing if name in rules.schema]
    maps = [name for name in _find_sparse_columns(columns, kinds) if name != weights]
    absent = [name for name in missing if name in tested]
    if maps:
        for name in absent:
            _check_entries(name, rules.schema, [columns.get(each, "events") for each in maps])
        absent = []
    if absent:
        known = [f.name for f in columns.fields]
        absent_names = ", ".join(map(repr, absent[:8])) + ", ..." * (len(absent) > 8)
        message = f"the events have no column {absent_names}, which a rule tests" + (
            suggest(absent[0], known) or f"; they have {', '.join(known[:8])}."
        )
        if not live:
            raise EventError(message.removesuffix("."))
        warnings.warn(f"{message} Its value is always null", stacklevel=3)
    return [*needed, *maps]


def _check_entries(name: str, declared: Schema, maps: Sequence[st.StructField]) -> None:
    """Raise unless the values of one of the maps can be those of an attribute."""
    errors = []
    for column in maps:
        type_: Any = column.dataType
        values = st.StructField(name, type_.valueType)
        if isinstance(values.dataType, st.NullType):
            return
        try:
            _check_kind(name, declared, Schema(st.StructType([values])), values)
        except EventError as error:
            errors.append(error.with_place(f"map column {column.name!r}"))
        else:
            return
    raise errors[0]


def _check_kind(name: str, declared: Schema, events: Schema, field: st.StructField) -> None:
    if name.lower() in declared.nested:
        if name.lower() not in events.nested:
            raise EventError(
                f"{name!r} is of type {declared.nested[name.lower()][1]}, but the events' column "
                f"is of type {field.dataType.simpleString()}"
            )
        check_types([field], "drop it")
        try:
            none = pa.nulls(0, to_arrow(field.dataType))
            as_source(none, declared.nested[name.lower()][1], declared.zone)
        except EventError as error:
            raise error.with_place(f"attribute {name!r}") from None
        return
    kind = declared.kind(name)
    if name.lower() in events.nested:
        raise EventError(
            f"attribute {name!r} is {ARTICLE[kind]}, but the events' column is of type "
            f"{field.dataType.simpleString()}"
        )
    if is_decimal(kind) and isinstance(field.dataType, st.NumericType):
        return  # also with more than 18 digits: whether the values fit is seen later
    if name.lower() in events.refused:
        raise EventError(f"attribute {name!r} {events.refused[name.lower()]}")
    found = events.kind(name)
    are_decimals = is_decimal(kind) and (is_decimal(found) or found in ("integer", "number"))
    if found != kind and (kind, found) != ("number", "integer") and not are_decimals:
        raise EventError(
            f"attribute {name!r} is {ARTICLE[kind]}, but the events' column is of type "
            f"{field.dataType.simpleString()}; cast the column, or declare the attribute with the "
            "column's kind"
        )


def _find_sparse_columns(columns: EventColumns, kinds: Sequence[str]) -> list[str]:
    """Return the columns of map type, which may contain attributes of these kinds."""
    names = []
    for field in columns.fields:
        type_ = field.dataType
        if not isinstance(type_, st.MapType) or not isinstance(type_.keyType, st.StringType):
            continue
        if is_collated(type_):
            if "category" in kinds:
                raise EventError(
                    f"the column {field.name!r} may hold attributes that rules test, but it is of "
                    f"type {type_.simpleString()}, and conditions compare text byte by byte; "
                    "cast it to map<string, string>, or drop it"
                )
            continue
        columns.find(field.name)  # raises if it cannot be selected
        check_types([field], "drop it")
        names.append(field.name)
    return names


def is_collated(type_: st.DataType) -> bool:
    """Return whether strings, or strings in a map, have a collation other than byte order."""
    if isinstance(type_, st.MapType):
        type_ = type_.valueType
    return isinstance(type_, st.StringType) and type_.simpleString() != "string"
