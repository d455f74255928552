"""The schema: the attributes of events and their kinds."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tocsin.errors import ConditionError, SchemaError, suggest
from tocsin.model.decimals import decimal_kind, digits_of, is_decimal

Kind = str  # one of KINDS, or a decimal such as decimal(12,2)
KINDS: tuple[Kind, ...] = ("integer", "number", "category", "flag", "time")


class _Articles(dict[Kind, str]):
    def __missing__(self, kind: Kind) -> str:
        return f"a {kind}"


ARTICLE = _Articles(integer="an integer")  # kinds with their article, for messages

RANGE = ("low", "high")  # the fields of a range

# Names of the kinds in other systems, for suggestions.
_OTHER_NAMES: dict[str, str] = (
    dict.fromkeys(["float", "float32", "float64", "double", "real", "decimal", "numeric"], "number")
    | dict.fromkeys(["int", "int32", "int64", "long", "bigint", "short", "byte"], "integer")
    | dict.fromkeys(["str", "string", "text", "varchar", "char", "enum", "keyword"], "category")
    | dict.fromkeys(["bool", "boolean"], "flag")
    | dict.fromkeys(["datetime", "timestamp", "date"], "time")
)

# By DataType.typeName(), so that pyspark is not imported.
_SPARK_KINDS: dict[str, Kind] = {
    "byte": "integer",
    "short": "integer",
    "integer": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "string": "category",
    "varchar": "category",
    "char": "category",
    "boolean": "flag",
    "timestamp": "time",
    "timestamp_ntz": "time",
    "date": "time",
}


class Schema:
    """The attributes of events, in order, each of one kind.

    Parameters
    ----------
    attributes
        A mapping from names to kinds (`integer`, `number`, `category`, `flag`,
        `time`, or a decimal such as `decimal(12,2)`), an Arrow schema, or a Spark
        `StructType`. Columns of an Arrow or Spark schema that have no kind (nested,
        binary, decimals of more than 18 digits) are left out. A condition that
        mentions one raises an error with the reason. A struct of `low` and `high` is
        a range of their kind.
    timezone
        The time zone of texts and times without one: a name such as `Europe/Berlin`.
        The default is UTC. (Spark uses the time zone of the session.)

    Names are case-insensitive, as in Spark. `add` appends an attribute; existing rules do not
    change.

    >>> schema = Schema({"x": "number", "tier": "category"})
    >>> schema
    Schema(x: number, tier: category)
    >>> schema.index("X"), schema.kind("tier")
    (0, 'category')
    """

    def __init__(self, attributes: Any, timezone: str = "UTC"):
        self._names: list[str] = []
        self._kinds: list[Kind] = []
        self._index: dict[str, int] = {}
        self.refused: dict[str, str] = {}
        try:
            self.zone = zoneinfo.ZoneInfo(timezone)
        except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError, TypeError) as error:
            raise SchemaError(
                f"timezone {timezone!r} is unknown on this machine; "
                "expected a name such as 'UTC' or 'Europe/Berlin'"
            ) from error
        self.timezone = timezone
        if isinstance(attributes, Mapping):
            for name, kind in attributes.items():
                self.add(name, kind)
        elif hasattr(attributes, "fields") and hasattr(attributes, "fieldNames"):
            for field in attributes.fields:
                self._add_column(field.name, *_spark_kind(field.dataType))
        elif hasattr(attributes, "__arrow_c_schema__"):
            import pyarrow as pa

            from tocsin.model.arrow import translate_errors

            with translate_errors(SchemaError, "this is not an Arrow schema of columns"):
                columns = pa.schema(attributes)
            for field in columns:
                self._add_column(field.name, *_arrow_kind(field.type))
        else:
            raise SchemaError(
                "a schema must be a dict of names and kinds, an Arrow schema or a Spark "
                "StructType; "
                f"got {type(attributes).__name__}"
            )

    def add(self, name: str, kind: Kind) -> None:
        """Append an attribute."""
        if not isinstance(name, str) or not name:
            raise SchemaError(f"an attribute's name must be a text, got {name!r}")
        if isinstance(kind, str) and (digits := digits_of(kind)):
            try:
                kind = decimal_kind(*digits)
            except ValueError as error:
                raise SchemaError(f"attribute {name!r}: the kind {kind!r} {error}") from None
        elif not isinstance(kind, str) or kind not in KINDS:
            meant = _OTHER_NAMES.get(str(getattr(kind, "__name__", kind)).lower())
            raise SchemaError(
                f"attribute {name!r}: the kind must be one of {', '.join(KINDS)} or a decimal such "
                f"as decimal(12,2); got {kind!r}"
                + (f"; did you mean {meant!r}?" if meant else suggest(kind, KINDS))
            )
        folded = name.lower()
        if folded in self._index:
            other = self._names[self._index[folded]]
            how = "twice" if other == name else f"beside {other!r}, and names are case-insensitive"
            raise SchemaError(f"attribute {name!r} is declared {how}")
        self._index[folded] = len(self._names)
        self._names.append(name)
        self._kinds.append(kind)

    def _add_column(self, name: str, kind: Kind | None, reason: str) -> None:
        if kind is not None:
            self.add(name, kind)
        else:
            self.refuse({name.lower(): reason})

    def refuse(self, reasons: Mapping[str, str]) -> None:
        """Record columns that conditions cannot test, with the reasons."""
        self.refused.update(reasons)

    def index(self, name: str) -> int:
        """Return the number of an attribute; raise a ConditionError if there is no such name."""
        attribute = self._index.get(name.lower())
        if attribute is not None:
            return attribute
        if name.lower() in self.refused:
            raise ConditionError(f"attribute {name!r} {self.refused[name.lower()]}")
        known = ", ".join(self._names[:8]) + (", ..." if len(self._names) > 8 else "")
        raise ConditionError(
            f"unknown attribute {name!r}{suggest(name, self._names) or f'; the schema has {known}'}"
        )

    def find(self, name: str) -> int | None:
        """Return the number of an attribute, or None if there is no such name."""
        return self._index.get(name.lower())

    def kind(self, attribute: str | int) -> Kind:
        """Return the kind of an attribute, given by name or number."""
        return self._kinds[self.index(attribute) if isinstance(attribute, str) else attribute]

    @property
    def kinds(self) -> Sequence[Kind]:
        """The kinds of all attributes, in order."""
        return self._kinds

    def floats(self) -> np.ndarray:
        """Return for each attribute whether its keys encode floats."""
        return np.array([kind == "number" for kind in self._kinds], np.uint8)

    def name(self, attribute: int) -> str:
        """Return the name of an attribute, as declared."""
        return self._names[attribute]

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._index

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return (self._names, self._kinds, self.timezone) == (
            other._names,
            other._kinds,
            other.timezone,
        )

    __hash__ = None  # type: ignore[assignment]  # it can grow

    def __repr__(self) -> str:
        shown = [f"{n}: {k}" for n, k in zip(self._names, self._kinds, strict=True)]
        if len(shown) > 12:
            shown[10:-1] = [f"... {len(shown) - 11} more"]
        if self.timezone != "UTC":
            shown.append(f"timezone={self.timezone!r}")
        return f"Schema({', '.join(shown)})"


def can_be_range(kind: Kind | None) -> bool:
    """Return whether events can have ranges in place of values of a kind."""
    return kind in ("integer", "number", "time") or (kind is not None and is_decimal(kind))


def _range_kind(ends: Mapping[str, Kind | None]) -> Kind | None:
    """Return the kind of a struct with these fields, or None if it is not a range."""
    kinds = set(ends.values())
    if set(ends) != set(RANGE) or not all(map(can_be_range, kinds)):
        return None
    return "number" if kinds == {"integer", "number"} else kinds.pop() if len(kinds) == 1 else None


def _arrow_kind(type_: Any) -> tuple[Kind | None, str]:
    import pyarrow.types as t

    from tocsin.model.arrow import is_text

    if t.is_dictionary(type_) or t.is_run_end_encoded(type_):
        type_ = type_.value_type
    if t.is_integer(type_):
        return "integer", ""
    if t.is_floating(type_):
        return "number", ""
    if is_text(type_):
        return "category", ""
    if t.is_boolean(type_):
        return "flag", ""
    if t.is_timestamp(type_) or t.is_date(type_):
        return "time", ""
    if t.is_struct(type_):
        kind = _range_kind({f.name: _arrow_kind(f.type)[0] for f in type_})
        if kind is not None:
            return kind, ""
    if t.is_decimal(type_):
        return _decimal_kind(type_)
    return None, f"is a column of type {type_}, which no condition can test"


def _decimal_kind(type_: Any) -> tuple[Kind | None, str]:
    """Return the kind of an Arrow or Spark type of decimals."""
    try:
        return decimal_kind(type_.precision, type_.scale), ""
    except ValueError as error:
        return None, f"is a decimal column that {error}; cast it to fewer digits, or to double"


def _spark_kind(type_: Any) -> tuple[Kind | None, str]:
    name = type_.typeName()
    if name.startswith("decimal"):
        return _decimal_kind(type_)
    if name == "string" and type_.simpleString() != "string":
        return None, (
            f"is a column of type {type_.simpleString()}, and conditions compare texts byte by "
            "byte; cast it to string"
        )
    if name in _SPARK_KINDS:
        return _SPARK_KINDS[name], ""
    if name == "struct":
        kind = _range_kind({f.name: _spark_kind(f.dataType)[0] for f in type_.fields})
        if kind is not None:
            return kind, ""
    return None, f"is a column of type {name}, which no condition can test"
