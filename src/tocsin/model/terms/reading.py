"""Reads terms from parsed SQL: names, types, casts and constants as Spark has them."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from tocsin.errors import ConditionError, shorten, suggest
from tocsin.model.nodes import error_at, expand_like, flatten, to_sql
from tocsin.model.terms.building import Builder
from tocsin.model.terms.calls import CALLS, EXTRACTED, HARMLESS, unsupported
from tocsin.model.terms.coercion import TermError, describe
from tocsin.model.terms.functions.table import ALIASES, FUNCTIONS
from tocsin.model.terms.patterns import ANY, parse_like
from tocsin.model.terms.tree import (
    Term,
    column,
    is_null,
    literal,
    natural_decimal,
    natural_integer,
)
from tocsin.model.terms.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    MAX_DIGITS,
    NULL,
    STRING,
    TIMESTAMP,
    Type,
    decimal_type,
)

# The names of bit operators, and the strongest first, as Spark has them.
_BITS: dict[type, tuple[str, int]] = {
    exp.BitwiseLeftShift: ("<<", 4),
    exp.BitwiseRightShift: (">>", 4),
    exp.BitwiseAnd: ("&", 3),
    exp.BitwiseXor: ("^", 2),
    exp.BitwiseOr: ("|", 1),
}
_PRECEDENCE = dict(_BITS.values())

Sources = Mapping[str, tuple[str, Type]]

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_CAST_TYPES = {
    exp.DType.INT: INT,
    exp.DType.BIGINT: BIGINT,
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.TEXT: STRING,
    exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPTZ: TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: TIMESTAMP,
    exp.DType.DATE: DATE,
}


def read_term(node: exp.Expr, sources: Sources, zone: datetime.tzinfo) -> Term:
    """Return the term of a parsed expression.

    `sources` maps column names in lower case to their declared names and types. `zone` is the time
    zone of texts that are times. Raises a ConditionError, with the position, for anything unknown
    or unsupported.
    """
    try:
        return _Reader(sources, zone).read(node)
    except RecursionError:
        raise ConditionError("the expression is nested too deeply") from None


def read_pattern(
    this: Term, pattern: str, escape: str | None = None, ilike: bool = False
) -> tuple[str, Term, str | None]:
    """Return what `this LIKE pattern` tests.

    It is `("equal", term, text)` for a text, a prefix or a suffix, `("not_null", term, None)` for
    %, and `("flag", term, None)` for other patterns. Raises a ConditionError without a position if
    the pattern is not valid or `this` is not a text.

    >>> read_pattern(column("name", STRING), "ABC%", None, False)
    ('equal', Term(left(name, 3): string), 'ABC')
    """
    build = Builder(datetime.UTC)
    try:
        if this.type != STRING:
            raise TermError(f"LIKE needs a text, but {describe(this)}; cast it to string")
        if ilike:
            this = build.make("lower", [this])
            pattern = pattern.lower()
        parts = parse_like(pattern, escape)
        if not parts:
            return "equal", this, ""
        match parts:
            case (str() as whole,):
                return "equal", this, whole
            case (str() as prefix, ("%",)):
                return "equal", build.make("left", [this, literal(len(prefix), INT)]), prefix
            case (("%",), str() as suffix):
                return "equal", build.make("right", [this, literal(len(suffix), INT)]), suffix
        if parts == (ANY,):
            return "not_null", this, None
        extra = [] if escape is None else [literal(escape, STRING)]
        return "flag", build.make("like", [this, literal(pattern, STRING), *extra]), None
    except TermError as error:
        raise ConditionError(str(error)) from None


class _Reader:
    def __init__(self, sources: Sources, zone: datetime.tzinfo):
        self._sources = sources
        self._build = Builder(zone)

    def read(self, node: exp.Expr) -> Term:
        """Return the term of a node."""
        while isinstance(node, exp.Paren):
            node = node.this
        try:
            special = _SPECIAL.get(type(node))
            if special is not None:
                return special(self, node)
            call = CALLS.get(type(node))
            if call is not None:
                return self._call(node, *call)
        except TermError as error:
            raise error_at(str(error), node) from None
        raise unsupported(node)

    def _call(self, node: exp.Expr, name: str, parts: tuple[str, ...]) -> Term:
        for part, value in node.args.items():
            if part not in parts and part not in HARMLESS and value not in (None, False, []):
                raise TermError(f"{name} is not supported with {part.upper()}: {to_sql(node)}")
        nodes: list[exp.Expr] = []
        for part in parts:
            value = node.args.get(part)
            if isinstance(value, list):
                nodes += value
            elif value is not None:
                nodes.append(value)
        return self._make(name, nodes)

    def _make(self, name: str, nodes: Sequence[exp.Expr]) -> Term:
        # sqlglot puts a cast to a date around arguments, where Spark casts by itself.
        nodes = [
            n.this if isinstance(n, exp.TsOrDsToDate) and not n.args.get("safe") else n
            for n in nodes
        ]
        if any(n is None for n in nodes):  # sqlglot puts the cast around an absent argument, too
            raise TermError(f"an argument of {name} is missing")
        return self._build.make(name, [self.read(n) for n in nodes], [_written(n) for n in nodes])

    def _column(self, node: Any) -> Term:
        parts = node.parts
        if any(not isinstance(part, exp.Identifier) for part in parts):
            raise unsupported(node)
        name = parts[0].name
        found = self._sources.get(name.lower())
        if found is None:
            declared = [each for each, _ in self._sources.values()]
            known = ", ".join(declared[:8]) + (", ..." if len(declared) > 8 else "")
            hint = suggest(name, declared) or f"; the schema has {known}"
            raise error_at(f"unknown attribute {name!r}{hint}", parts[0])
        term = column(*found)
        for part in parts[1:]:
            term = self._build.field(term, part.name)
        return term

    def _dot(self, node: Any) -> Term:
        if not isinstance(node.expression, exp.Identifier):
            raise unsupported(node)
        return self._build.field(self.read(node.this), node.expression.name)

    def _bracket(self, node: Any) -> Term:
        if isinstance(node.this, exp.RegexpSplit) and len(node.expressions) == 1:
            return self._part(node)
        term = self.read(node.this)
        key = self.read(node.expressions[0]) if len(node.expressions) == 1 else None
        if key is None or key.function != "literal" or key.type != STRING:
            raise TermError(f"{to_sql(node)} needs a text between the brackets: the key of a map")
        return self._build.item(term, key.value)

    def _part(self, node: Any) -> Term:
        """Return a part of a text: split(...)[n] or element_at(split(...), n)."""
        number = self.read(node.expressions[0])
        if number.type != INT or number.value is None:
            raise TermError(f"{to_sql(node)} needs a constant number of the part")
        first = int(node.args.get("offset") or 0)
        if (number.value == 0) if first else (number.value < 0):
            raise TermError(
                f"{to_sql(node)} is never a part: split(text, pattern)[n] counts from 0, "
                "element_at(split(text, pattern), n) from 1, or from the end with negative n"
            )
        index = number.value - first if number.value > 0 else number.value
        return self._build.make("split", [*self._split_arguments(node.this), literal(index, INT)])

    def _split_arguments(self, node: exp.Expr) -> list[Term]:
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.RegexpSplit) or node.args.get("limit") is not None:
            raise TermError(
                f"{to_sql(node)} is not split(text, pattern), the only array that there is; make "
                "an array a text beforehand, by array_join; for the key of a map, write "
                "tags['key'] IS NOT NULL"
            )
        return [self.read(node.this), self.read(node.expression)]

    def _split(self, node: Any) -> Term:
        raise TermError(
            f"{to_sql(node)} is an array; test a part, as in split(text, ',')[0] = 'a', or "
            "array_contains(split(text, ','), 'a')"
        )

    def _array_contains(self, node: Any) -> Term:
        arguments = [*self._split_arguments(node.this), self.read(node.expression)]
        return self._build.make("array_contains", arguments)

    def _bits(self, node: Any) -> Term:
        """Read a chain of bit operators: the parser reads all of them from left to right."""
        if "start" in node.meta:  # a function such as shiftleft
            return self._make(_BITS[type(node)][0], [node.this, node.expression])
        operands: list[exp.Expr] = [node.expression]
        operators: list[type] = [type(node)]
        while type(node.this) in _BITS and "start" not in node.this.meta:
            node = node.this
            operands.insert(0, node.expression)
            operators.insert(0, type(node))
        operands.insert(0, node.this)
        terms, waiting = [self.read(operands[0])], list[str]()

        def reduce(least: int) -> None:
            while waiting and _PRECEDENCE[waiting[-1]] >= least:
                right = terms.pop()
                terms.append(self._build.make(waiting.pop(), [terms.pop(), right]))

        for operator, operand in zip(operators, operands[1:], strict=True):
            name, precedence = _BITS[operator]
            reduce(precedence)
            waiting.append(name)
            terms.append(self.read(operand))
        reduce(0)
        return terms[0]

    def _literal(self, node: Any) -> Term:
        return literal(str(node.this), STRING) if node.is_string else _number(str(node.this))

    def _negation(self, node: Any) -> Term:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return _number("-" + str(node.this.this))
        return self._make("negative", [node.this])

    def _cast(self, node: Any) -> Term:
        term, target = self.read(node.this), _cast_type(node.to)
        cast = self._build.cast(term, target)
        is_literal = isinstance(node.this, exp.Literal) and not isinstance(node, exp.TryCast)
        if is_null(cast) and is_literal:
            raise TermError(f"{term.value!r} is not a {target}")
        return cast

    def _junction(self, node: exp.Expr) -> Term:
        return self._make("and" if isinstance(node, exp.And) else "or", flatten(node))

    def _pipe(self, node: exp.Expr) -> Term:
        texts = flatten(node)
        if type(node.this) in _BITS or any(isinstance(t, exp.Add | exp.Sub) for t in texts[1:]):
            raise TermError(
                f"{to_sql(node)}: for Spark, || comes with + and -, from left to right, and before "
                "bit operators; write parentheses"
            )
        return self._make("concat", texts)

    def _between(self, node: Any) -> Term:
        if node.args.get("symmetric"):
            raise TermError("Spark does not have BETWEEN SYMMETRIC; write the lower bound first")
        low = self._make(">=", [node.this, node.args["low"]])
        return self._build.make("and", [low, self._make("<=", [node.this, node.args["high"]])])

    def _in(self, node: Any) -> Term:
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise TermError(f"{to_sql(node)} contains a subquery; write the values out")
        return self._make("in", [node.this, *node.expressions])

    def _is(self, node: Any) -> Term:
        term = self.read(node.this)
        if isinstance(node.expression, exp.Null):
            return self._build.make("isnull", [term])
        if isinstance(node.expression, exp.Boolean):
            return self._build.make("<=>", [term, self.read(node.expression)])
        raise TermError("syntax error: IS is followed by [NOT] NULL, TRUE or FALSE")

    def _unequal(self, node: Any) -> Term:
        return self._build.make("not", [self._make("<=>", [node.this, node.expression])])

    def _like(self, node: Any, escape: exp.Expr | None = None) -> Term:
        expanded = expand_like(node)
        if expanded is not None and escape is None:
            return self.read(expanded)
        if isinstance(node.expression, exp.Any | exp.All):
            raise TermError(f"{to_sql(node)} is not supported; join several LIKE by OR or AND")
        nodes = [node.expression] if escape is None else [node.expression, escape]
        patterns = [self.read(n) for n in nodes]
        this = self.read(node.this)
        if isinstance(node, exp.ILike):
            this, patterns[0] = (self._build.make("lower", [t]) for t in (this, patterns[0]))
        term = self._build.make("like", [this, *patterns])
        return self._build.make("not", [term]) if node.args.get("negate") else term

    def _escape(self, node: Any) -> Term:
        if not isinstance(node.this, exp.Like | exp.ILike):
            raise unsupported(node)
        return self._like(node.this, node.expression)

    def _rlike(self, node: Any) -> Term:
        if node.args.get("flag") is not None:
            raise TermError("write the flags of a regular expression inside it: '(?i)...'")
        term = self._make("rlike", [node.this, node.expression])
        return self._build.make("not", [term]) if node.args.get("negate") else term

    def _case(self, node: Any) -> Term:
        subject = node.args.get("this")
        arguments: list[Term] = []
        for branch in node.args["ifs"]:
            condition = branch.this
            if subject is None:
                arguments.append(self.read(condition))
            else:
                arguments.append(self._make("=", [subject, condition]))
            arguments.append(self.read(branch.args["true"]))
        if node.args.get("default") is not None:
            arguments.append(self.read(node.args["default"]))
        return self._build.make("case", arguments)

    def _if(self, node: Any) -> Term:
        if node.args.get("false") is None:
            raise TermError("if needs three arguments: if(condition, then, otherwise)")
        parts = (node.this, node.args["true"], node.args["false"])
        return self._build.make("case", [self.read(part) for part in parts])

    def _nullif(self, node: Any) -> Term:
        is_equal = self._make("=", [node.this, node.expression])
        value = self.read(node.this)
        return self._build.make("case", [is_equal, literal(None, value.type), value])

    def _nvl2(self, node: Any) -> Term:
        missing = self._build.make("isnull", [self.read(node.this)])
        values = [self.read(node.args[part]) for part in ("true", "false") if node.args.get(part)]
        return self._build.make("case", [self._build.make("not", [missing]), *values])

    def _trim(self, node: Any) -> Term:
        position = str(node.args.get("position") or "BOTH").upper()
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim")
        nodes = [node.this]
        if node.args.get("expression") is not None:
            nodes.append(node.expression)
        return self._make(name, nodes)

    def _to_date(self, node: Any) -> Term:
        if node.args.get("format") is not None:
            raise TermError(
                "to_date with a format is not supported; text in ISO 8601 needs no format"
            )
        return self._build.cast(self.read(node.this), DATE)

    def _date_add(self, node: Any) -> Term:
        if str(node.args.get("unit") or "DAY").upper() != "DAY":
            raise TermError(f"{to_sql(node)} is not supported; only days can be added")
        days = node.expression
        # The parser's form of date_sub(date, days); who writes days * -1 gets the same.
        if isinstance(days, exp.Mul) and days.expression == exp.Neg(this=exp.Literal.number(1)):
            return self._make("date_sub", [node.this, days.this])
        return self._make("date_add", [node.this, days])

    def _truncate(self, node: Any) -> Term:
        unit = literal(node.args["unit"].name, STRING)
        return self._build.make("date_trunc", [unit, self.read(node.this)])

    def _trunc(self, node: Any) -> Term:
        raise TermError("trunc is not supported; use to_date(date_trunc('month', time))")

    def _extract(self, node: Any) -> Term:
        return self._part_of(str(node.this.name), node.expression)

    def _part_of(self, part: str, time: exp.Expr) -> Term:
        name = EXTRACTED.get(part.upper())
        if name is None:
            raise TermError(f"{part} cannot be extracted, only {', '.join(EXTRACTED)}")
        return self._make(name, [time])

    def _unix(self, node: Any) -> Term:
        return self._make("unix_timestamp", [node.this])

    def _named(self, node: Any) -> Term:
        """Return a function that the parser does not know."""
        name, nodes = str(node.this).lower(), node.expressions
        if name in ("isnotnull", "isnull") and len(nodes) == 1:
            missing = self._make("isnull", nodes)
            return missing if name == "isnull" else self._build.make("not", [missing])
        if name == "try_to_date" and len(nodes) == 1:
            return self._build.cast(self.read(nodes[0]), DATE)
        if name == "date_part" and len(nodes) == 2 and isinstance(nodes[0], exp.Literal):
            return self._part_of(str(nodes[0].this), nodes[1])
        function = ALIASES.get(name, name)
        is_name = name.replace("_", "").isalpha() and name not in ("cast", "case")
        if function in FUNCTIONS and is_name:
            return self._make(function, nodes)
        raise unsupported(node)

    def _raw(self, node: Any) -> Term:
        return literal(str(node.this), STRING)

    def _boolean(self, node: Any) -> Term:
        return literal(bool(node.this), BOOLEAN)

    def _null(self, node: Any) -> Term:
        return literal(None, NULL)


_SPECIAL: dict[type, Callable[[_Reader, Any], Term]] = {
    exp.Column: _Reader._column,
    exp.Dot: _Reader._dot,
    exp.Bracket: _Reader._bracket,
    exp.Literal: _Reader._literal,
    exp.RawString: _Reader._raw,
    exp.Boolean: _Reader._boolean,
    exp.Null: _Reader._null,
    exp.Neg: _Reader._negation,
    exp.Cast: _Reader._cast,
    exp.TryCast: _Reader._cast,
    exp.And: _Reader._junction,
    exp.Or: _Reader._junction,
    exp.DPipe: _Reader._pipe,
    exp.BitwiseAnd: _Reader._bits,
    exp.BitwiseOr: _Reader._bits,
    exp.BitwiseXor: _Reader._bits,
    exp.BitwiseLeftShift: _Reader._bits,
    exp.BitwiseRightShift: _Reader._bits,
    exp.RegexpSplit: _Reader._split,
    exp.ArrayContains: _Reader._array_contains,
    exp.Between: _Reader._between,
    exp.In: _Reader._in,
    exp.Is: _Reader._is,
    exp.NullSafeNEQ: _Reader._unequal,
    exp.Like: _Reader._like,
    exp.ILike: _Reader._like,
    exp.Escape: _Reader._escape,
    exp.RegexpLike: _Reader._rlike,
    exp.Case: _Reader._case,
    exp.If: _Reader._if,
    exp.Nullif: _Reader._nullif,
    exp.Nvl2: _Reader._nvl2,
    exp.Trim: _Reader._trim,
    exp.TsOrDsToDate: _Reader._to_date,
    exp.TsOrDsAdd: _Reader._date_add,
    exp.TimestampTrunc: _Reader._truncate,
    exp.DateTrunc: _Reader._trunc,
    exp.Extract: _Reader._extract,
    exp.StrToUnix: _Reader._unix,
    exp.Anonymous: _Reader._named,
}


def _written(node: exp.Expr) -> bool | None:
    """Return whether a node is a literal for Spark's analyzer, or None if that is not known."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        return isinstance(node.this, exp.Literal)
    if (
        isinstance(node, exp.Cast)
        and isinstance(node.this, exp.Literal)
        and node.to.is_type("bigint")
    ):
        return None if not node.this.is_string else False
    return isinstance(node, exp.Literal)


def _number(text: str) -> Term:
    """Return the literal of a number: an int, a bigint, a decimal or a double by its spelling."""
    if not _NUMBER.fullmatch(text.removeprefix("-")):
        raise TermError(f"{text} is not a number")
    if "e" in text.lower():
        number = float(text)
        if math.isinf(number):
            raise TermError(f"the number {text} does not fit a double")
        return literal(number, DOUBLE)
    value = decimal.Decimal(text)
    digits, scale = natural_decimal(value)
    if digits > MAX_DIGITS:
        raise TermError(f"the number {shorten(text, 60)} has more than Spark's 38 digits")
    if text.removeprefix("-").isdigit():
        integer = natural_integer(int(text))
        if integer is not None:
            return literal(int(text), integer)
    # Decimal keeps -0.0; Spark does not.
    return literal(value if value else abs(value), decimal_type(digits, scale))


def _cast_type(node: exp.DataType) -> Type:
    name = node.this
    if name == exp.DType.DECIMAL:
        sizes = [int(p.this.this) for p in node.expressions]
        try:
            return decimal_type(*(sizes if len(sizes) == 2 else [*sizes, 0] if sizes else (10, 0)))
        except ValueError as error:
            raise TermError(str(error)) from None
    type_ = _CAST_TYPES.get(name)
    if type_ is None or node.expressions:
        raise TermError(
            f"a cast to {to_sql(node)} is not supported; cast to int, bigint, double, "
            "decimal(p, s), string, boolean, timestamp or date"
        )
    return type_
