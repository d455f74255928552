"""Terms as trees: what identifies a term, and its canonical SQL."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

from sqlglot.dialects.spark import Spark

from tocsin.model.encoding import to_datetime
from tocsin.model.terms.types import BIGINT, INT, Type

INFIX = frozenset(
    (
        "+",
        "-",
        "*",
        "/",
        "%",
        "div",
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "<=>",
        "&",
        "|",
        "^",
        "<<",
        ">>",
    )
)
_TRIMS = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}
_EPOCH = datetime.date(1970, 1, 1)


class Term:
    """A typed expression over columns.

    Parameters
    ----------
    function
        `column`, `literal`, `field`, `item`, `cast`, an operator such as `+`, or the name of a
        function of the list.
    arguments
        The terms that the function is applied to, already cast to the types that it takes.
    value
        The name of a column or field as declared, or the value of a literal: int, float, Decimal,
        str, bool, None, a timestamp as microseconds since 1970 UTC, a date as days since 1970.
    type
        The type of the result.

    Two terms are equal if their trees are. Terms never change.
    """

    __slots__ = (
        "_hash",
        "_key",
        "_sql",
        "arguments",
        "columns",
        "depth",
        "function",
        "type",
        "value",
    )

    function: str
    arguments: tuple[Term, ...]
    value: Any
    type: Type
    depth: int  # of the tree
    _hash: int
    _key: tuple[Any, ...]
    _sql: str | None
    columns: tuple[str, ...]  # the distinct names of source columns, in the order of their use

    def __init__(self, function: str, arguments: tuple[Term, ...], value: Any, type: Type):
        put = object.__setattr__
        put(self, "function", function)
        put(self, "arguments", arguments)
        put(self, "value", value)
        put(self, "type", type)
        names = [value] if function == "column" else [n for a in arguments for n in a.columns]
        put(self, "columns", tuple(dict.fromkeys(names)))
        put(self, "depth", 1 + max((a.depth for a in arguments), default=0))
        # As text, because 0.0 equals -0.0, and NaN does not equal itself.
        key = (function, repr(value) if isinstance(value, float) else value, type)
        put(self, "_key", key)
        put(self, "_hash", hash((key, arguments)))
        put(self, "_sql", None)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a term does not change")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return Term, (self.function, self.arguments, self.value, self.type)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Term):
            return NotImplemented
        return (
            self._hash == other._hash
            and self._key == other._key
            and self.arguments == other.arguments
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Term({self.sql}: {self.type})"

    @property
    def is_constant(self) -> bool:
        """Whether the term has no columns."""
        return not self.columns

    @property
    def sql(self) -> str:
        """The term as canonical SQL: reading it gives an equal term."""
        text = self._sql
        if text is None:
            text = _write(self)
            object.__setattr__(self, "_sql", text)
        return text


def column(name: str, type_: Type) -> Term:
    """Return the term of a source column."""
    return Term("column", (), name, type_)


def literal(value: Any, type_: Type) -> Term:
    """Return the term of a constant."""
    return Term("literal", (), value, type_)


def is_null(term: Term) -> bool:
    """Return whether a term is the literal null."""
    return term.function == "literal" and term.value is None


def quote_name(name: str) -> str:
    """Return a name as SQL, in backquotes if they are needed."""
    if not name.isidentifier() or not name.isascii() or name.upper() in Spark.Tokenizer.KEYWORDS:
        return "`" + name.replace("`", "``") + "`"
    return name


def quote_text(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def has_literal(value: Any, type_: Type) -> bool:
    """Return whether a value can be written as SQL: times beyond the years 1 to 9999 cannot."""
    if value is None:
        return True
    if type_.name == "timestamp":
        return to_datetime(value) is not None
    if type_.name == "date":
        return -719_162 <= value <= 2_932_896
    return not type_.is_nested


def _write(term: Term) -> str:
    function, arguments = term.function, term.arguments
    if function == "column":
        return quote_name(term.value)
    if function == "literal":
        return _write_literal(term.value, term.type)
    if function == "field":
        return f"{arguments[0].sql}.{quote_name(term.value)}"
    texts = [a.sql for a in arguments]
    if function == "item":
        return f"{texts[0]}[{texts[1]}]"
    if function == "cast":
        return f"CAST({texts[0]} AS {str(term.type).upper()})"
    if function in INFIX:
        return f"({texts[0]} {function} {texts[1]})"
    if function in ("and", "or"):
        return "(" + f" {function.upper()} ".join(texts) + ")"
    if function == "not":
        return f"(NOT {texts[0]})"
    if function == "negative":
        return f"(-({texts[0]}))"
    if function == "~":
        return f"(~{texts[0]})"
    if function == "instr" and len(texts) > 2:
        return f"locate({texts[1]}, {texts[0]}, {texts[2]})"
    if function == "split":
        split = f"split({texts[0]}, {texts[1]})"
        number = arguments[2].value
        return f"{split}[{number}]" if number >= 0 else f"element_at({split}, {number})"
    if function == "array_contains":
        return f"array_contains(split({texts[0]}, {texts[1]}), {texts[2]})"
    if function == "isnull":
        return f"({texts[0]} IS NULL)"
    if function == "in":
        return f"({texts[0]} IN ({', '.join(texts[1:])}))"
    if function == "rlike":
        return f"({texts[0]} RLIKE {texts[1]})"
    if function == "like":
        escape = f" ESCAPE {texts[2]}" if len(texts) > 2 else ""
        return f"({texts[0]} LIKE {texts[1]}{escape})"
    if function in _TRIMS and len(texts) > 1:
        return f"trim({_TRIMS[function]} {texts[1]} FROM {texts[0]})"
    if function == "case":
        pairs = zip(texts[::2], texts[1::2], strict=False)
        branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
        return f"CASE {branches} ELSE {texts[-1]} END"
    return f"{function}({', '.join(texts)})"


def _write_literal(value: Any, type_: Type) -> str:
    name = type_.name
    if value is None:
        return "NULL" if name == "null" else f"CAST(NULL AS {str(type_).upper()})"
    if name == "boolean":
        return "TRUE" if value else "FALSE"
    if name == "string":
        return quote_text(value)
    if name == "timestamp":
        moment = to_datetime(value)
        assert moment is not None
        return f"TIMESTAMP '{moment.replace(tzinfo=None).isoformat(sep=' ')}Z'"
    if name == "date":
        return f"DATE '{(_EPOCH + datetime.timedelta(value)).isoformat()}'"
    if name == "double":
        if math.isnan(value):
            return "CAST('NaN' AS DOUBLE)"
        if math.isinf(value):
            return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
        text = repr(value)
        return text if "e" in text else f"{text}e0"
    if name == "decimal":
        text = f"{value:f}"
        if natural_decimal(value) == (type_.digits, type_.scale) and "." in text:
            return text
        return f"CAST({text} AS {str(type_).upper()})"
    return str(value) if type_ == natural_integer(value) else f"{value}L"


def natural_integer(value: int) -> Type | None:
    """Return the type of an integer literal in Spark, or None if it is a decimal."""
    if -(2**31) <= value < 2**31:
        return INT
    return BIGINT if -(2**63) <= value < 2**63 else None


def natural_decimal(value: decimal.Decimal | int) -> tuple[int, int]:
    """Return the digits and the scale of a decimal literal in Spark.

    >>> natural_decimal(decimal.Decimal("3.60")), natural_decimal(decimal.Decimal("0.05"))
    ((3, 2), (2, 2))
    """
    _, digits, exponent = decimal.Decimal(value).as_tuple()
    scale = max(0, -int(exponent))
    return max(len(digits) + max(0, int(exponent)), scale), scale
