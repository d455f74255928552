"""The columns of a DataFrame of events, found by name as Spark finds them.

Names resolve without case. Spark cannot select a column whose name another column has too, or
one that has no name; here that is an error only where such a column is kept or needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from pyspark.sql import types as st

from tocsin.engine.version import Version
from tocsin.errors import EventError, RuleError, suggest
from tocsin.model.schema import ARTICLE, Schema

_TWICE = "is the name of more than one column of the events; rename or drop all but one"


class EventColumns:
    """The columns of a DataFrame of events."""

    def __init__(self, schema: st.StructType):
        self.fields: list[st.StructField] = schema.fields
        self._by_name: dict[str, list[st.StructField]] = {}
        for field in self.fields:
            self._by_name.setdefault(field.name.lower(), []).append(field)

    def schema(self, timezone: str = "UTC") -> Schema:
        """Return the attributes that columns are; those that cannot be selected are refused."""
        single = [found[0] for name, found in self._by_name.items() if name and len(found) == 1]
        schema = Schema(st.StructType(single), timezone)
        schema.refuse({name: _TWICE for name, found in self._by_name.items() if len(found) > 1})
        return schema

    def find(self, name: str) -> st.StructField | None:
        """Return the column of a name, None if there is none; raise if it cannot be selected."""
        found = self._by_name.get(name.lower(), [])
        if len(found) > 1:
            names = " and ".join(repr(f.name) for f in found)
            raise EventError(
                f"the events have {len(found)} columns {name!r}; rename or drop all but one"
                if len({f.name for f in found}) == 1
                else f"the events have the columns {names}, and names are case-insensitive; "
                "rename or drop all but one"
            )
        if found and not name:
            place = self.fields.index(found[0])
            raise EventError(f"column {place} of the events has no name; rename it, as by toDF")
        return found[0] if found else None

    def named(self, name: object, parameter: str) -> st.StructField:
        """Return the column that a parameter names."""
        if not isinstance(name, str):
            raise RuleError(
                f"{parameter} takes names of columns, got {type(name).__name__} {name!r}"
            )
        try:
            found = self.find(name)
        except EventError as error:
            raise error.with_place(parameter) from None
        if found is None:
            known = [f.name for f in self.fields]
            raise EventError(
                f"{parameter}: the events have no column {name!r}{suggest(name, known)}"
            )
        return found

    def kept(self, keep: Iterable[str] | None) -> list[st.StructField]:
        """Return the columns to keep; all if None."""
        if keep is None:
            try:
                return [self.named(f.name, "keep") for f in self.fields]
            except EventError as error:
                raise EventError(
                    f"{error}; or name the columns to keep, as in keep=[...]"
                ) from None
        found: dict[str, st.StructField] = {}
        for name in keep:
            field = self.named(name, "keep")
            if field.name in found:
                raise RuleError(f"keep names the column {field.name!r} twice")
            found[field.name] = field
        return list(found.values())


def needed_columns(
    rules: Version, columns: EventColumns, live: bool, weights: str | None = None
) -> list[str]:
    """Return the columns that rules look at, those of sparse attributes included.

    Rules that are live may come to look at any attribute, and one that the events have no column
    for is null; of other rules that is an error. The column `weights` has weights and no
    attributes.
    """
    given, tested = columns.schema(), dict.fromkeys(rules.tested())
    found, missing = [], []
    for name in rules.schema if live else tested:
        field = columns.find(name)
        if field is None:
            missing.append(name)
            continue
        _check_kind(name, rules.schema, given, field)
        found.append(field.name)
    if not missing and not live:
        return found
    kinds = [rules.schema.kind(name) for name in missing]
    maps = [name for name in _sparse_columns(columns, kinds) if name != weights]
    nowhere = [] if maps else [name for name in missing if name in tested]
    if nowhere:
        known = [f.name for f in columns.fields]
        missing_names = ", ".join(map(repr, nowhere[:8])) + ", ..." * (len(nowhere) > 8)
        message = f"the events have no column {missing_names}, which a rule tests" + (
            suggest(nowhere[0], known) or f"; they have {', '.join(known[:8])}"
        )
        if not live:
            raise EventError(message)
        warnings.warn(f"{message}. In this stream its value is always null", stacklevel=3)
    return [*found, *maps]


def _check_kind(name: str, declared: Schema, given: Schema, field: st.StructField) -> None:
    wanted = declared.kind(name)
    if name.lower() in given.refused:
        raise EventError(f"attribute {name!r} {given.refused[name.lower()]}")
    if given.kind(name) != wanted and (wanted, given.kind(name)) != ("number", "integer"):
        raise EventError(
            f"attribute {name!r} is {ARTICLE[wanted]}, but the events' column is of type "
            f"{field.dataType.simpleString()}; cast the column, or declare the attribute as what "
            "it is"
        )


def _sparse_columns(columns: EventColumns, kinds: Sequence[str]) -> list[str]:
    """Return the columns of map type, which may hold attributes of these kinds."""
    found = []
    for field in columns.fields:
        type_ = field.dataType
        if not isinstance(type_, st.MapType) or not isinstance(type_.keyType, st.StringType):
            continue
        if is_collated(type_):
            if "category" in kinds:
                raise EventError(
                    f"the column {field.name!r} may hold attributes that rules test, but it is of "
                    f"type {type_.simpleString()}, and conditions compare texts byte by byte; "
                    "cast it to map<string, string>, or drop it"
                )
            continue
        columns.find(field.name)
        found.append(field.name)
    return found


def is_collated(type_: st.DataType) -> bool:
    """Tell whether texts, or the values of a map, compare by a collation that is not by bytes."""
    if isinstance(type_, st.MapType):
        type_ = type_.valueType
    return isinstance(type_, st.StringType) and type_.simpleString() != "string"


def check_names(kept: Sequence[str], added: Sequence[str], payload: Sequence[str]) -> None:
    """Raise if the result would have two columns of one name."""
    seen: dict[str, str] = {}
    for names, origin in ((added, "added by matching"), (kept, "kept"), (payload, "payload")):
        for name in names:
            other = seen.setdefault(name.lower(), origin)
            if other != origin:
                raise EventError(
                    f"the result would have two columns {name!r} (names are case-insensitive): "
                    f"one is {other}, one is {origin}; rename it, or leave it out of "
                    f"{'payload' if origin == 'payload' else 'keep'}"
                )
