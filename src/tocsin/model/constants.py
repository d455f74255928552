"""Compiles the constants of conditions: their Spark types, and the keys they compare with.

A constant is compiled once per form of text, into a function of the text's literals. Rules that
differ only in their literals share the work. The type depends on the spelling alone, as in Spark:
`5` is an integer, `5.0` a decimal, `5e0` and `5D` a double.

Comparing a value v with a constant c takes two keys, the *cuts* of c. `least` is the key for which
v >= c exactly if key(v) >= least, and `above` is the same for v > c. All six comparisons follow
from the cuts, for all types and with Spark's coercions: a bigint is compared with a decimal
exactly, and with a double as doubles.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from tocsin.errors import ConditionError, shorten
from tocsin.model import encoding
from tocsin.model.attributes import is_wide
from tocsin.model.categories import Categories
from tocsin.model.decimals import Digits, digits_of, double_cuts, exact_cuts, is_decimal
from tocsin.model.local_times import DAY, local_offset
from tocsin.model.nodes import error_at, position, to_sql
from tocsin.model.scanning import Slot
from tocsin.model.schema import ARTICLE, Kind, Schema
from tocsin.model.terms.tree import Term
from tocsin.model.time_texts import read_date, read_timestamp

Literals = Sequence[str]
Value = Any  # int, Decimal, float, str, bool, None; a time is an int of microseconds
Cuts = tuple[int, int]  # least, above
Signature = Callable[[str], Hashable]  # what a form depends on, of a literal

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_EXACT = decimal.Context(prec=120)  # digits: a product of two decimals of 38 digits is exact
_TYPE_NAMES = {
    "integer": "the integer",
    "decimal": "the number",
    "double": "the number",
    "text": "the text",
    "flag": "the flag",
    "time": "the time",
    "date": "the date",
}
_INTEGER_RANGES = {
    exp.DType.TINYINT: 2**7,
    exp.DType.SMALLINT: 2**15,
    exp.DType.INT: 2**31,
    exp.DType.BIGINT: 2**63,
}
_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.DATE)


class Constant(NamedTuple):
    """A constant of a form: its type, how to read it from the literals, and its node."""

    type: str  # integer, decimal, double, text, flag, time, date, null
    read: Callable[[Literals], Value]
    node: exp.Expr
    operands: tuple[Constant, ...] = ()  # of arithmetic and of a minus sign


class UnsupportedConstantError(ConditionError):
    """A constant that only the evaluator of terms can compute."""


def _unsupported_constant(message: str, node: exp.Expr) -> UnsupportedConstantError:
    error = error_at(message, node)
    return UnsupportedConstantError(message, error.position, error.length)


class Constants:
    """Compiles the constant expressions of one text, and records which literals they bind.

    A literal whose number is not in `bound` is *fixed*: only texts with the same value there have
    the same form.
    """

    def __init__(self, schema: Schema, text: str, slots: Mapping[int, Slot]):
        self._schema = schema
        self._text = text
        self._slots = slots  # by offset in the text
        self.bound: set[int] = set()
        self.signatures: dict[int, Signature] = {}  # of literals that are fixed in part only

    def compile(self, node: exp.Expr) -> Constant:
        """Return the constant for an expression without columns."""
        if isinstance(node, exp.Paren):
            return self.compile(node.this)
        if isinstance(node, exp.Literal):
            return self._literal(node)
        if isinstance(node, exp.Boolean):
            flag = bool(node.this)
            return Constant("flag", lambda _: flag, node)
        if isinstance(node, exp.Null):
            return Constant("null", lambda _: None, node)
        if isinstance(node, exp.RawString):
            raw = str(node.this)
            return Constant("text", lambda _: raw, node)
        if isinstance(node, exp.Neg):
            return self._negation(node)
        if isinstance(node, exp.Add | exp.Sub | exp.Mul):
            return self._arithmetic(node)
        if isinstance(node, exp.Cast | exp.TryCast):
            return self._cast(node)
        raise _unsupported_constant(_describe_unsupported(node), node)

    def _literal(self, node: exp.Literal) -> Constant:
        text = str(node.this)
        found = self._find_slot(node)
        slot = found.number if found is not None and not found.size else None
        if slot is not None:
            self.bound.add(slot)
        if node.is_string:
            if self.in_double_quotes(node) and text in self._schema:
                raise error_at(
                    f'"{text}" in double quotes is a text, as in Spark, but there is also an '
                    f"attribute {text}; write {text} or `{text}` for the attribute, '{text}' for "
                    "the text",
                    node,
                )
            return Constant("text", (lambda _: text) if slot is None else lambda s: s[slot], node)
        if not _NUMBER.fullmatch(text):
            raise error_at(f"{text} is not a number", node)
        type_, read = _number_reader(text)
        if slot is None:
            return Constant(type_, lambda _: read(text), node)
        return Constant(type_, lambda s: read(s[slot]), node)

    def _find_slot(self, node: exp.Expr) -> Slot | None:
        """Return the slot of a literal, or of one with a minus sign."""
        literal = node.this if isinstance(node, exp.Neg) else node
        if not isinstance(literal, exp.Literal):
            return None
        slot = self._slots.get(literal.meta.get("start", -1))
        text = str(literal.this) if literal is node else f"-{literal.this}"
        return slot if slot is not None and slot.text == text else None

    def read_text(self, node: exp.Literal) -> Callable[[Literals], str]:
        """Return how to read a text; the only argument of a function is a list of one text."""
        slot, text = self._find_slot(node), str(node.this)
        if slot is None or slot.size > 1:
            return lambda _: text
        number = slot.number
        self.bound.add(number)
        return (lambda s: s[number][1:-1]) if slot.size else (lambda s: s[number])

    def find_list(self, nodes: Sequence[exp.Expr]) -> int | None:
        """Return the number of the literal that is the list of these nodes, None if none is."""
        slots = [self._find_slot(node) for node in nodes]
        numbers = {slot.number for slot in slots if slot is not None and slot.size == len(nodes)}
        if None in slots or len(numbers) != 1:
            return None
        self.bound |= numbers
        return numbers.pop()

    def sign(self, node: exp.Expr, signature: Signature) -> int | None:
        """Fix only what a signature returns of a literal; return its number, None if unshared."""
        slot = self._find_slot(node)
        if slot is None or slot.size:
            return None
        self.signatures[slot.number] = signature
        return slot.number

    def in_double_quotes(self, node: exp.Expr) -> bool:
        """Return whether a constant is in double quotes, which other databases use for names."""
        start = position(node)
        return start is not None and self._text[start : start + 1] == '"'

    def _negation(self, node: exp.Neg) -> Constant:
        inner = self.compile(node.this)
        if inner.type == "null":
            return inner
        if inner.type not in ("integer", "decimal", "double"):
            raise error_at(f"a minus sign precedes {_describe(inner)}, which is not a number", node)
        if inner.type == "decimal":
            # Unary minus rounds to 28 digits.
            return Constant("decimal", lambda s: inner.read(s).copy_negate(), node, (inner,))
        if inner.type == "double":
            return Constant("double", lambda s: -inner.read(s), node, (inner,))

        def integer(s: Literals) -> int:
            value: int = inner.read(s)
            if value in (-(2**31), -(2**63)):
                raise _overflow_error(-value, value == -(2**31), node)
            return -value

        return Constant("integer", integer, node, (inner,))

    def _arithmetic(self, node: exp.Binary) -> Constant:
        left, right = self.compile(node.this), self.compile(node.expression)
        for side in (left, right):
            if side.type not in ("integer", "decimal", "double"):
                raise error_at(
                    f"arithmetic with {_describe(side)} is not supported; write the result", node
                )
        operation: Callable[[Any, Any], Any]
        if isinstance(node, exp.Add):
            operation, exact = (lambda a, b: a + b), _EXACT.add
        elif isinstance(node, exp.Sub):
            operation, exact = (lambda a, b: a - b), _EXACT.subtract
        else:
            operation, exact = (lambda a, b: a * b), _EXACT.multiply
        types = {left.type, right.type}
        if types == {"integer"}:

            def integers(s: Literals) -> int:
                a, b = left.read(s), right.read(s)
                value: int = operation(a, b)
                is_int = all(-(2**31) <= each < 2**31 for each in (a, b))
                limit = 2**31 if is_int else 2**63
                if not -limit <= value < limit:
                    raise _overflow_error(value, is_int, node)
                return value

            return Constant("integer", integers, node, (left, right))
        if "double" in types:
            return Constant(
                "double", lambda s: operation(float(left.read(s)), float(right.read(s))), node
            )

        def decimals(s: Literals) -> decimal.Decimal:
            value = exact(left.read(s), right.read(s))
            if len(value.as_tuple().digits) > 38:
                raise error_at("the result has more than Spark's 38 digits; write it instead", node)
            return value

        return Constant("decimal", decimals, node, (left, right))

    def _cast(self, node: exp.Cast | exp.TryCast) -> Constant:
        inner = self.compile(node.this)
        to, read, zone = node.to.this, inner.read, self._schema.zone
        if inner.type == "null":
            return inner

        def cast_error(value: Value) -> ConditionError:
            return error_at(f"{value!r} cannot be cast to {to_sql(node.to)}", node)

        if to in (exp.DType.DOUBLE, exp.DType.FLOAT) and inner.type not in ("time", "date"):

            def double(s: Literals) -> float:
                literal = read(s)
                try:
                    # float() also accepts 1_0.
                    value = float("" if isinstance(literal, str) and "_" in literal else literal)
                    return struct.unpack("<f", struct.pack("<f", value))[0] if is_float else value
                except (ValueError, OverflowError):
                    raise cast_error(literal) from None

            is_float = to == exp.DType.FLOAT
            return Constant("double", double, node)
        if to in _INTEGER_RANGES and inner.type == "integer":
            limit = _INTEGER_RANGES[to]

            def integer(s: Literals) -> int:
                value = read(s)
                if not -limit <= value < limit:
                    raise cast_error(value)
                return int(value)

            return Constant("integer", integer, node)
        if to == exp.DType.DECIMAL and inner.type in ("text", "integer", "decimal"):

            def exact_decimal(s: Literals) -> decimal.Decimal:
                try:
                    value = decimal.Decimal(read(s))
                    digits, scale = _precision(node.to)
                    rounded = value.quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT)
                except (decimal.InvalidOperation, ValueError):
                    raise cast_error(read(s)) from None
                if value != rounded or value.copy_abs() >= decimal.Decimal(10) ** (digits - scale):
                    raise cast_error(value)
                return value

            return Constant("decimal", exact_decimal, node)
        if to in _TIMES and inner.type == "text":

            def time(s: Literals) -> int:
                value = _read_time(read(s), zone, is_date)
                if value is None:
                    raise cast_error(read(s))
                return value

            is_date = to == exp.DType.DATE
            return Constant("date" if is_date else "time", time, node)
        raise _unsupported_constant(
            f"{to_sql(node)} is not supported; write the value itself", node
        )


def _read_time(text: str, zone: datetime.tzinfo, is_date: bool) -> int | None:
    """Return the microseconds since 1970 UTC of a timestamp or of the start of a date, or None.

    Spark compares a date with a timestamp as timestamps, so a date beyond these is None, too.
    """
    if not is_date:
        return read_timestamp(text, zone)
    days = read_date(text)
    if days is None:
        return None
    value = _start_of_day(days, zone)
    return value if encoding.NULL <= value <= encoding.HIGHEST else None


def _start_of_day(days: int, zone: datetime.tzinfo) -> int:
    """Return when a day since 1970 starts in a zone."""
    local = days * DAY
    return local - local_offset(local, zone)


_TERM_TYPES = {
    "int": "integer",
    "bigint": "integer",
    "double": "double",
    "string": "text",
    "boolean": "flag",
    "timestamp": "time",
    "date": "date",
    "null": "null",
}


def constant_of_term(term: Term, node: exp.Expr, zone: datetime.tzinfo) -> Constant:
    """Return the constant for a folded term; its literals are part of the form."""
    value = term.value
    type_ = "null" if value is None else _TERM_TYPES.get(term.type.name, "decimal")
    if term.type.name == "date" and value is not None:
        value = _start_of_day(value, zone)
    return Constant(type_, lambda _: value, node)


def compile_cuts(
    attribute: int, constant: Constant, schema: Schema
) -> Callable[[Literals, Categories], Cuts]:
    """Return a function from literals and categories to the cuts of a constant.

    Raises a ConditionError if Spark cannot compare the two, or only with a surprising cast.
    """
    kind, type_, read, node = schema.kind(attribute), *constant[:3]
    digits = digits_of(kind)
    term = schema.terms.get(attribute)
    if digits is not None and term is not None and is_wide(term):
        return _saturated_cuts(term, digits, constant)
    if digits is not None and type_ == "double":
        return lambda s, _: double_cuts(read(s), digits)
    if digits is not None and type_ in ("integer", "decimal"):

        def decimal_of_exact(s: Literals, _: Categories) -> Cuts:
            if not fit_one_decimal(kind, [constant], s):
                raise error_at(
                    f"{read(s)} and a {kind} together need more than Spark's 38 digits, so Spark "
                    "would round them; write fewer digits",
                    node,
                )
            return exact_cuts(read(s), digits)

        return decimal_of_exact
    if kind == "number" and type_ in ("integer", "decimal", "double"):

        def number(s: Literals, _: Categories) -> Cuts:
            key = encoding.number_key(float(read(s)))
            return key, key + 1

        return number
    if kind == "integer" and type_ == "integer":

        def integer(s: Literals, _: Categories) -> Cuts:
            value = read(s)
            return encoding.least_integer_key(value), encoding.least_integer_key(value + 1)

        return integer
    if kind == "integer" and type_ == "decimal":

        def integer_of_decimal(s: Literals, _: Categories) -> Cuts:
            value = read(s)
            if not fit_one_decimal(kind, [constant], s):
                raise error_at(
                    f"{value} has more than 18 decimal places, which Spark rounds in a comparison "
                    "with an integer; write fewer",
                    node,
                )
            least, above = math.ceil(value), math.floor(value) + 1
            return encoding.least_integer_key(least), encoding.least_integer_key(above)

        return integer_of_decimal
    if kind == "integer" and type_ == "double":

        def integer_of_double(s: Literals, _: Categories) -> Cuts:
            least, above = encoding.double_cuts(read(s))
            return encoding.least_integer_key(least), encoding.least_integer_key(above)

        return integer_of_double
    if kind == "category" and type_ == "text":

        def category(s: Literals, categories: Categories) -> Cuts:
            code = categories.add(read(s))
            return code, code + 1

        return category
    if kind == "flag" and type_ == "flag":
        return lambda s, _: (int(read(s)), int(read(s)) + 1)
    if kind == "time" and type_ in ("time", "date"):

        def time(s: Literals, _: Categories) -> Cuts:
            value = read(s)
            return encoding.least_integer_key(value), encoding.least_integer_key(value + 1)

        return time
    if kind == "time" and type_ == "text":
        zone = schema.zone
        is_date = term is not None and term.type.name == "date"  # the text is cast to a date

        def time_of_text(s: Literals, _: Categories) -> Cuts:
            value = _read_time(read(s), zone, is_date)
            if value is None:
                raise error_at(
                    f"attribute {schema.name(attribute)!r} is a time, but {read(s)!r} is not one; "
                    "expected ISO 8601 such as '2024-05-01 12:30:00', a zone only after seconds",
                    node,
                )
            return encoding.least_integer_key(value), encoding.least_integer_key(value + 1)

        return time_of_text
    raise mismatch_error(attribute, constant, schema)


def _saturated_cuts(
    term: Term, digits: Digits, constant: Constant
) -> Callable[[Literals, Categories], Cuts]:
    """Return the cuts for a term whose values saturate; the constant must be within their range."""
    if constant.type not in ("integer", "decimal", "double"):
        raise error_at(
            f"{term.sql} is a {term.type}, but it is compared with {_describe(constant)}",
            constant.node,
        )

    def cuts(s: Literals, _: Categories) -> Cuts:
        value = constant.read(s)
        if not abs(value) < digits.limit // digits.unit:
            raise error_at(
                f"{value} is too large for a comparison with {term.sql}, a {term.type}: only 18 "
                f"digits are compared, {digits.scale} of them after the point; cast the term to "
                "double",
                constant.node,
            )
        if constant.type == "double":
            return double_cuts(value, digits)
        return exact_cuts(value, digits)

    return cuts


def mismatch_error(attribute: int, constant: Constant, schema: Schema) -> ConditionError:
    """Return the error for an attribute that is compared with a constant of another type."""
    kind, name = schema.kind(attribute), schema.name(attribute)
    advice = {
        "text": _other_attribute(schema, name, "category"),
        "integer": _other_attribute(schema, name, "number", "integer"),
        "decimal": _other_attribute(schema, name, "number", "integer"),
        "double": _other_attribute(schema, name, "number", "integer"),
        "flag": _other_attribute(schema, name, "flag"),
        "time": _other_attribute(schema, name, "time"),
        "date": _other_attribute(schema, name, "time"),
    }[constant.type]
    if constant.type == "text" and (kind in ("integer", "number") or is_decimal(kind)):
        text = str(constant.node.this).strip()
        if not advice or _NUMBER.fullmatch(text.removeprefix("-")):
            advice = "; leave out the quotes if a number is meant"
    if not advice and kind == "category":
        advice = "; put the value in quotes if a text is meant"
    return error_at(
        f"attribute {name!r} is {ARTICLE[kind]}, but it is compared with {_describe(constant)}"
        + advice,
        constant.node,
    )


def fit_one_decimal(kind: Kind, constants: Sequence[Constant], s: Literals) -> bool:
    """Return whether values of a kind and exact constants fit into one decimal of 38 digits."""
    digits = digits_of(kind) or (20, 0)  # Spark casts a bigint to decimal(20, 0)
    # Of a bigint nothing is lost, so the value of the constant counts, and not its type.
    size_of = _exact_size if is_decimal(kind) else _value_size
    sizes = [(digits[0] - digits[1], digits[1]), *(size_of(each, s) for each in constants)]
    return max(before for before, _ in sizes) + max(after for _, after in sizes) <= 38


def _value_size(constant: Constant, s: Literals) -> tuple[int, int]:
    """Return how many digits the value of an exact constant has before and after the point."""
    value = constant.read(s)
    places = -int(value.as_tuple().exponent) if isinstance(value, decimal.Decimal) else 0
    return len(str(abs(int(value)))), places


def _exact_size(constant: Constant, s: Literals) -> tuple[int, int]:
    """Return how many digits Spark's type of an exact constant has before and after the point."""
    node = constant.node
    if isinstance(node, exp.Cast | exp.TryCast) and constant.type == "decimal":
        digits, places = _precision(node.to)
        return digits - places, places
    if constant.type == "integer":  # in a list, an int has ten digits, and a bigint has twenty
        before, _ = _value_size(constant, s)
        return max(before, 10 if before < 10 else 20), 0
    sizes = [_exact_size(each, s) for each in constant.operands]
    if len(sizes) == 1:
        return sizes[0]
    if len(sizes) == 2:
        (before, after), (other_before, other_after) = sizes
        if isinstance(node, exp.Mul):
            return before + other_before + 1, after + other_after
        return max(before, other_before) + 1, max(after, other_after)
    return _value_size(constant, s)


def _other_attribute(schema: Schema, name: str, *kinds: Kind) -> str:
    """Return a hint at an attribute of these kinds whose name extends this name by a word.

    `temp_label` extends `temp` by a word; `name` does not extend `n`.
    """
    for other in schema:
        rest = other[len(name) :]
        if (
            schema.kind(other) in kinds
            and other.lower().startswith(name.lower())
            and rest
            and (rest[0].isupper() or not rest[0].isalpha())
        ):
            return f"; did you mean {other!r}?"
    return ""


def _number_reader(text: str) -> tuple[str, Callable[[str], Value]]:
    """Return the type of a numeric literal, and the function that reads such literals."""
    if text.isdigit():
        return "integer", _read_integer
    if "e" in text or "E" in text:
        return "double", _read_double
    return "decimal", _read_decimal


def _read_integer(text: str) -> int:
    if len(text) > 38:
        raise ConditionError(f"the number {text} has more than Spark's 38 digits")
    return int(text)


def _read_decimal(text: str) -> decimal.Decimal:
    value = decimal.Decimal(text)
    if len(text) <= 38:
        return value
    _, digits, places = value.as_tuple()
    if max(len(digits), -int(places)) > 38:
        raise ConditionError(f"the number {text} has more than Spark's 38 digits")
    return value


def _read_double(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ConditionError(f"the number {text} does not fit a double")
    return value


def _overflow_error(value: int, is_int: bool, node: exp.Expr) -> ConditionError:
    return error_at(
        f"the result {value} overflows Spark's {'int' if is_int else 'bigint'}; write the result "
        "instead",
        node,
    )


def _precision(type_: exp.DataType) -> tuple[int, int]:
    """Return the precision and scale of a decimal type, by default 10 and 0."""
    sizes = [int(p.this.this) for p in type_.expressions]
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (sizes[0], 0) if sizes else (10, 0)


def _describe(constant: Constant) -> str:
    node = constant.node
    shown = repr(shorten(str(node.this), 100)) if constant.type == "text" else to_sql(node)
    return f"{_TYPE_NAMES.get(constant.type, 'the value')} {shown}"


def _describe_unsupported(node: exp.Expr) -> str:
    shown = to_sql(node)
    if isinstance(node, exp.Binary | exp.Neg):
        return (
            f"the arithmetic {shown} is not supported (only +, - and * of numbers are); "
            "write the result instead"
        )
    if isinstance(node, exp.Concat):
        return f"adjacent texts {shown} are not concatenated; write one text"
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return f"the placeholder {shown} has no value; write the value into the text"
    if isinstance(node, exp.HexString):
        return f"{shown} is a binary value, which no attribute can have"
    return (
        f"{shown} is a function or an expression; conditions test attributes against constants. "
        "Compute it as a column of the events, or write its value"
    )
