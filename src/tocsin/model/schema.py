"""The schema: the attributes of events and their kinds."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tocsin.errors import ConditionError, SchemaError, shorten, suggest
from tocsin.model.decimals import decimal_kind, digits_of, is_decimal
from tocsin.model.terms.tree import Term
from tocsin.model.terms.types import Type, map_type, nested_type, source_type, struct_type

Kind = str  # one of KINDS, or a decimal such as decimal(12,2)
KINDS: tuple[Kind, ...] = ("integer", "number", "category", "flag", "time")


class _Articles(dict[Kind, str]):
    def __missing__(self, kind: Kind) -> str:
        return f"a {kind}"


ARTICLE = _Articles(integer="an integer")  # kinds with their article, for messages

RANGE = ("low", "high")  # the fields of a range
NORMAL = ("mean", "deviation")  # further fields of a range: how its values are distributed
HISTOGRAM = ("edges", "weights")  # the same as lists, also without a range

# The kinds by the names of other systems; a schema shows our own.
_OTHER_NAMES: dict[str, str] = (
    dict.fromkeys(["float", "float32", "float64", "double", "real"], "number")
    | dict.fromkeys(["int", "int8", "int16", "int32", "int64", "tinyint", "smallint"], "integer")
    | dict.fromkeys(["byte", "short", "long", "bigint"], "integer")
    | dict.fromkeys(["str", "string", "large_string", "text", "varchar", "char"], "category")
    | dict.fromkeys(["enum", "keyword"], "category")
    | dict.fromkeys(["bool", "boolean"], "flag")
    | dict.fromkeys(["datetime", "date", "timestamp", "timestamp_ntz", "timestamptz"], "time")
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
        A mapping from names to kinds (`integer`, `number`, `category`, `flag`, `time`, a
        decimal such as `decimal(12,2)`, or what other systems call them, such as `string` and
        `double`), an Arrow schema, or a Spark `StructType`. A struct is written
        `struct<lat: number, lon: number>`, a map `map<string, number>`; conditions test their
        parts. Columns of an Arrow or Spark schema that have no kind (binary, decimals of more
        than 18 digits) are left out. A condition that mentions one raises an error with the
        reason. A struct of `low` and `high` is a range of their kind; one
        that also has `mean` and `deviation`, or `edges` and `weights`, is a number.
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
        self.nested: dict[str, tuple[str, Type]] = {}  # structs and maps, for terms over them
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
                self._add_column(field.name, field.dataType, *_spark_kind(field.dataType))
        elif hasattr(attributes, "__arrow_c_schema__"):
            import pyarrow as pa

            from tocsin.model.arrow import translate_errors

            with translate_errors(SchemaError, "this is not an Arrow schema of columns"):
                columns = pa.schema(attributes)
            for field in columns:
                self._add_column(field.name, field.type, *_arrow_kind(field.type))
        else:
            raise SchemaError(
                "a schema must be a dict of names and kinds, an Arrow schema or a Spark "
                "StructType; "
                f"got {type(attributes).__name__}"
            )

    def add(self, name: str, kind: str) -> None:
        """Append an attribute."""
        if not isinstance(name, str) or not name:
            raise SchemaError(f"an attribute's name must be a text, got {name!r}")
        own_kind, nested = _find_kind(kind, name), None
        if own_kind is None and isinstance(kind, str):
            nested = parse_nested(kind)
        if own_kind is None and nested is None:
            meant = _OTHER_NAMES.get(str(getattr(kind, "__name__", kind)).lower().partition("(")[0])
            raise SchemaError(
                f"attribute {name!r}: the kind must be one of {', '.join(KINDS)} or a decimal such "
                f"as decimal(12,2); got {kind!r}"
                + (f"; did you mean {meant!r}?" if meant else suggest(kind, KINDS))
            )
        folded = name.lower()
        self._check_new(name)
        if own_kind is None:
            assert nested is not None
            self.nested[folded] = name, nested
            return
        self._index[folded] = len(self._names)
        self._names.append(name)
        self._kinds.append(own_kind)

    def _check_new(self, name: str) -> None:
        folded = name.lower()
        if folded in self._index or folded in self.nested:
            number = self._index.get(folded)
            other = self.nested[folded][0] if number is None else self._names[number]
            how = "twice" if other == name else f"beside {other!r}, and names are case-insensitive"
            raise SchemaError(f"attribute {name!r} is declared {how}")

    def _add_column(self, name: str, type_: Any, kind: Kind | None, reason: str) -> None:
        nested = nested_type(type_) if kind is None else None
        if kind is not None:
            self.add(name, kind)
        elif nested is not None:
            self._check_new(name)
            self.nested[name.lower()] = name, nested
        else:
            self.refuse({name.lower(): reason})

    @property
    def declared(self) -> int:
        """How many columns were declared, those that conditions cannot test included."""
        return len(self._names) + len(self.nested) + len(self.refused)

    @property
    def terms(self) -> Mapping[int, Term]:
        """The terms by number; a schema has none, the attributes of rules may have some."""
        return {}

    def sources(self) -> Mapping[str, tuple[str, Type]]:
        """Return what terms can be computed from: by lower-case name, its name and its type."""
        columns = {
            folded: (self._names[number], source_type(self._kinds[number]))
            for folded, number in self._index.items()
        }
        return columns | self.nested

    def nested_names(self) -> list[str]:
        """Return the names of structs and maps, as declared."""
        return [name for name, _ in self.nested.values()]

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
        if name.lower() in self.nested:
            type_ = self.nested[name.lower()][1]
            part = f"{name}.{type_.fields[0][0]}" if type_.fields else f"{name}['key']"
            raise ConditionError(f"{name!r} is a {type_}; test a part of it, as in {part}")
        columns = [self._names[number] for number in self._index.values()]
        known = ", ".join(columns[:8]) + (", ..." if len(columns) > 8 else "")
        raise ConditionError(
            f"unknown attribute {name!r}{suggest(name, columns) or f'; the schema has {known}'}"
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
        return (self._names, self._kinds, self.nested, self.timezone) == (
            other._names,
            other._kinds,
            other.nested,
            other.timezone,
        )

    __hash__ = None  # type: ignore[assignment]  # it can grow

    def __repr__(self) -> str:
        shown = [f"{n}: {k}" for n, k in zip(self._names, self._kinds, strict=True)]
        shown += [f"{name}: {type_}" for name, type_ in self.nested.values()]
        if len(shown) > 12:
            shown[10:-1] = [f"... {len(shown) - 11} more"]
        if self.timezone != "UTC":
            shown.append(f"timezone={self.timezone!r}")
        return f"Schema({', '.join(shown)})"


def _find_kind(text: object, name: str) -> Kind | None:
    """Return the kind of an attribute, written in our words or those of another system."""
    if not isinstance(text, str):
        return None
    digits = digits_of(text)
    if digits:
        try:
            return decimal_kind(*digits)
        except ValueError as error:
            raise SchemaError(f"attribute {name!r}: the kind {text!r} {error}") from None
    folded = _without_length(text.lower())
    return folded if folded in KINDS else _OTHER_NAMES.get(folded)


def _without_length(kind: str) -> str:
    return re.sub(r"\(\d+\)$", "", kind)  # varchar(20)


def can_be_range(kind: Kind | None) -> bool:
    """Return whether events can have ranges in place of values of a kind."""
    return kind in ("integer", "number", "time") or (kind is not None and is_decimal(kind))


def has_range_fields(names: Iterable[str]) -> bool:
    """Return whether a struct with these fields is a range, perhaps with a density.

    It has low and high, also with mean and deviation, or edges and weights, or all of these.
    """
    left, has = set(names), {}
    for pair in (RANGE, NORMAL, HISTOGRAM):
        has[pair] = left.issuperset(pair)
        left -= set(pair) if has[pair] else set()
    return not left and (has[RANGE] or (has[HISTOGRAM] and not has[NORMAL]))


def _range_kind(fields: Mapping[str, Kind | None], lists: set[str]) -> Kind | None:
    """Return the kind of a struct with these fields, or None if it is not a range.

    `lists` are the names of those fields that are lists, whose kind is that of their items.
    """
    kinds = set(fields.values())
    if not has_range_fields(fields) or not all(map(can_be_range, kinds)):
        return None
    if lists != set(HISTOGRAM).intersection(fields):
        return None
    if set(fields) != set(RANGE):
        return "number" if kinds <= {"integer", "number"} else None
    return "number" if kinds == {"integer", "number"} else kinds.pop() if len(kinds) == 1 else None


def _arrow_kind(type_: Any) -> tuple[Kind | None, str]:
    import pyarrow.types as t

    from tocsin.model.arrow import is_list, is_text

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
        lists = {f.name for f in type_ if is_list(f.type)}
        items = {f.name: f.type.value_type if f.name in lists else f.type for f in type_}
        kind = _range_kind({name: _arrow_kind(item)[0] for name, item in items.items()}, lists)
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
        lists = {f.name for f in type_.fields if hasattr(f.dataType, "elementType")}
        items = {f.name: getattr(f.dataType, "elementType", f.dataType) for f in type_.fields}
        kind = _range_kind({name: _spark_kind(item)[0] for name, item in items.items()}, lists)
        if kind is not None:
            return kind, ""
    return None, f"is a column of type {name}, which no condition can test"


# ------------------------------------------------------------ structs and maps as text

_TOKEN = re.compile(r"\s*([<>:,()]|[^<>:,()\s]+)\s*")


def parse_nested(text: str) -> Type | None:
    """Return the type of a struct or a map written as text, or None if it is neither.

    >>> parse_nested("struct<lat: number, tags: map<string, category>>")
    struct<lat: double, tags: map<string, string>>
    """
    if not re.match(r"\s*(struct|map)\s*<", text, re.IGNORECASE):
        return None
    tokens = _TOKEN.findall(text)
    try:
        type_ = _parse_type(tokens, text)
    except RecursionError:
        raise SchemaError(f"the type {shorten(text, 100)!r} is nested too deeply") from None
    if tokens:
        raise _type_error(text)
    return type_


def _parse_type(tokens: list[str], text: str) -> Type:
    """Remove the tokens of one type from the front, and return it."""
    name = _take(tokens, text).lower()
    if name == "map":
        _take(tokens, text, "<")
        if _take(tokens, text).lower() not in ("string", "category"):
            raise SchemaError(f"the type {text!r}: the keys of a map must be strings")
        _take(tokens, text, ",")
        item = _parse_type(tokens, text)
        _take(tokens, text, ">")
        return map_type(item)
    if name == "struct":
        fields: list[tuple[str, Type]] = []
        separator = _take(tokens, text, "<")
        while separator != ">":
            field = _take(tokens, text)
            _take(tokens, text, ":")
            fields.append((field, _parse_type(tokens, text)))
            separator = _take(tokens, text)
            if separator not in (",", ">"):
                raise _type_error(text)
        if len({field.lower() for field, _ in fields}) < len(fields):
            raise SchemaError(f"the type {text!r} has two fields of the same name")
        return struct_type(tuple(fields))
    if tokens[:1] == ["("]:
        while name[-1] != ")":
            name += _take(tokens, text)
    try:
        return source_type(_OTHER_NAMES.get(_without_length(name), name))
    except ValueError:
        raise SchemaError(f"the type {text!r}: {name!r} is not a kind") from None


def _take(tokens: list[str], text: str, expected: str = "") -> str:
    if not tokens or (expected and tokens[0] != expected):
        raise _type_error(text)
    return tokens.pop(0)


def _type_error(text: str) -> SchemaError:
    return SchemaError(
        f"the type {text!r} cannot be read; expected, for example, struct<lat: number, lon: number>"
        " or map<string, number>"
    )
