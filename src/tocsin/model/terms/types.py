"""The types of terms: Spark's, as far as terms have them, and their Arrow layouts.

A source column has the type of its kind: an integer is a bigint, a number a double. So a Spark
`int` column behaves as a bigint; only literals and functions such as `length` give an int.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any

import pyarrow as pa
import pyarrow.types as t

from tocsin.model.arrow import is_text

MAX_DIGITS = 38  # of Spark's and Arrow's decimals
KEY_DIGITS = 18  # of decimals that have a kind: as scaled integers they fit an int64

_DECIMAL = re.compile(r"decimal\(([0-9]{1,2}),([0-9]{1,2})\)")


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Type:
    """A Spark type.

    >>> decimal_type(10, 2), decimal_type(10, 2).kind, BIGINT.kind
    (decimal(10,2), 'decimal(10,2)', 'integer')
    """

    name: str  # int, bigint, double, decimal, string, boolean, timestamp, date, null, struct, map
    digits: int = 0  # of a decimal
    scale: int = 0  # of a decimal: how many of the digits are decimal places
    fields: tuple[tuple[str, Type], ...] = ()  # of a struct
    item: Type | None = None  # of a map from texts: the type of its values

    @property
    def kind(self) -> str | None:
        """The kind of attribute that has such values, or None."""
        if self.name == "decimal":
            return str(self) if self.digits <= KEY_DIGITS else None
        return _KIND_OF_NAME.get(self.name)

    @property
    def is_nested(self) -> bool:
        """Whether this is a struct or a map."""
        return self.name in ("struct", "map")

    @property
    def is_integral(self) -> bool:
        """Whether this is int or bigint."""
        return self.name in ("int", "bigint")

    @property
    def is_number(self) -> bool:
        """Whether this is int, bigint, double or a decimal."""
        return self.name in ("int", "bigint", "double", "decimal")

    @property
    def is_time(self) -> bool:
        """Whether this is a timestamp or a date."""
        return self.name in ("timestamp", "date")

    def __repr__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.digits},{self.scale})"
        if self.name == "struct":
            return f"struct<{', '.join(f'{name}: {type_}' for name, type_ in self.fields)}>"
        if self.name == "map":
            return f"map<string, {self.item}>"
        return self.name

    __str__ = __repr__


INT = Type("int")
BIGINT = Type("bigint")
DOUBLE = Type("double")
STRING = Type("string")
BOOLEAN = Type("boolean")
TIMESTAMP = Type("timestamp")
DATE = Type("date")
NULL = Type("null")

_KIND_OF_NAME = {
    "int": "integer",
    "bigint": "integer",
    "double": "number",
    "string": "category",
    "boolean": "flag",
    "timestamp": "time",
    "date": "time",
}
_SOURCE_TYPES = {
    "integer": BIGINT,
    "number": DOUBLE,
    "category": STRING,
    "flag": BOOLEAN,
    "time": TIMESTAMP,
}
_SIMPLE = {type_.name: type_ for type_ in (INT, DATE, NULL, *_SOURCE_TYPES.values())}
# Large: offsets of 64 bits cannot overflow when texts are joined.
_ARROW_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.large_string(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "null": pa.null(),
}
_SPARK_TYPES = {
    "byte": BIGINT,
    "short": BIGINT,
    "integer": BIGINT,
    "long": BIGINT,
    "float": DOUBLE,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP,
    "date": TIMESTAMP,
}


def decimal_type(digits: int, scale: int) -> Type:
    """Return the type of decimals with so many digits, of which `scale` are decimal places."""
    if not 1 <= digits <= MAX_DIGITS or not 0 <= scale <= digits:
        raise ValueError(f"decimal({digits},{scale}) is not a type: it can have 1 to 38 digits")
    return Type("decimal", digits, scale)


def struct_type(fields: tuple[tuple[str, Type], ...]) -> Type:
    """Return the type of structs with these fields."""
    return Type("struct", fields=fields)


def map_type(item: Type) -> Type:
    """Return the type of maps from texts to values of a type."""
    return Type("map", item=item)


def source_type(kind: str) -> Type:
    """Return the type of a source column of a kind, such as `integer` or `decimal(10,2)`."""
    simple = _SOURCE_TYPES.get(kind)
    return simple if simple is not None else parse_type(kind)


def parse_type(text: str) -> Type:
    """Return the type with this name: `bigint`, `decimal(10,2)`; nested types have no name."""
    if text in _SIMPLE:
        return _SIMPLE[text]
    match = _DECIMAL.fullmatch(text.replace(" ", ""))
    if match is None:
        raise ValueError(f"{text!r} is not a type of terms")
    return decimal_type(int(match[1]), int(match[2]))


@functools.lru_cache(maxsize=1024)
def arrow_type(type_: Type) -> pa.DataType:
    """Return the Arrow type in which values of a type are computed."""
    if type_.name == "decimal":
        return pa.decimal128(type_.digits, type_.scale)
    if type_.name == "struct":
        return pa.struct([(name, arrow_type(each)) for name, each in type_.fields])
    if type_.name == "map":
        assert type_.item is not None
        return pa.map_(pa.large_string(), arrow_type(type_.item))
    return _ARROW_TYPES[type_.name]


def nested_type(type_: Any) -> Type | None:
    """Return the type of an Arrow or Spark struct or map, or None if it is not a usable one.

    Fields without a usable type are left out: binary values, arrays, maps whose keys are not
    texts, decimals of 256 bits, texts with a collation.
    """
    found = _from_arrow(type_) if isinstance(type_, pa.DataType) else _from_spark(type_)
    return found if found is not None and found.is_nested else None


def _from_arrow(type_: pa.DataType) -> Type | None:
    if t.is_dictionary(type_) or t.is_run_end_encoded(type_):
        type_ = type_.value_type
    if t.is_struct(type_):
        return _struct([(field.name, _from_arrow(field.type)) for field in type_])
    if t.is_map(type_):
        item = _from_arrow(type_.item_type)
        return map_type(item) if item is not None and is_text(type_.key_type) else None
    for holds, simple in (
        (t.is_integer, BIGINT),
        (t.is_floating, DOUBLE),
        (is_text, STRING),
        (t.is_boolean, BOOLEAN),
        (t.is_timestamp, TIMESTAMP),
        (t.is_date, TIMESTAMP),
    ):
        if holds(type_):
            return simple
    if t.is_decimal(type_) and type_.precision <= MAX_DIGITS and type_.scale >= 0:
        return _decimal(type_.precision, type_.scale)
    return None


def _from_spark(type_: Any) -> Type | None:
    name = type_.typeName()
    if name == "struct":
        return _struct([(field.name, _from_spark(field.dataType)) for field in type_.fields])
    if name == "map":
        key, item = _from_spark(type_.keyType), _from_spark(type_.valueType)
        return map_type(item) if item is not None and key == STRING else None
    if name.startswith("decimal"):
        return _decimal(type_.precision, type_.scale)
    if name in ("string", "varchar", "char"):
        return STRING if name != "string" or type_.simpleString() == "string" else None
    return _SPARK_TYPES.get(name)


def _decimal(digits: int, scale: int) -> Type | None:
    return decimal_type(digits, scale) if 0 <= scale <= digits else None


def _struct(fields: list[tuple[str, Type | None]]) -> Type | None:
    """Return a struct of the fields that have a type and a name that no other field has."""
    folded = [name.lower() for name, _ in fields]
    usable = tuple(
        (name, type_)
        for name, type_ in fields
        if type_ is not None and folded.count(name.lower()) == 1
    )
    return struct_type(usable) if usable else None


def type_to_json(type_: Type) -> Any:
    """Return a type as plain values that JSON has."""
    if type_.name == "struct":
        return {"struct": [[name, type_to_json(each)] for name, each in type_.fields]}
    if type_.name == "map":
        assert type_.item is not None
        return {"map": type_to_json(type_.item)}
    return str(type_)


def type_from_json(obj: Any) -> Type:
    """Return the type that `type_to_json` wrote; raise a ValueError for anything else."""
    if isinstance(obj, str):
        return parse_type(obj)
    if isinstance(obj, dict) and len(obj) == 1:
        if "map" in obj:
            return map_type(type_from_json(obj["map"]))
        fields = obj.get("struct")
        if isinstance(fields, list) and fields:
            pairs = []
            for pair in fields:
                if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
                    raise ValueError(f"{pair!r} is not a field of a struct")
                pairs.append((pair[0], type_from_json(pair[1])))
            if len({name.lower() for name, _ in pairs}) < len(pairs):
                raise ValueError("two fields of a struct have the same name")
            return struct_type(tuple(pairs))
    raise ValueError(f"{obj!r} is not a type of terms")
