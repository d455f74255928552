"""Compiles the leaves of conditions: each test becomes a function from literals to a predicate.

NOT is pushed down at the same time, so a leaf is compiled either plain or negated. For null,
neither is true. Unsupported tests raise a ConditionError with their position in the text.

A test compares an attribute with constants. The attribute is a column or a term. What is not such
a comparison, as `a > b`, is a flag: a term of its own, which is true or false. The literals within
a term are part of the shape of a text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlglot import exp

from tocsin.errors import ConditionError
from tocsin.model.attributes import Attributes
from tocsin.model.categories import Categories
from tocsin.model.constants import (
    Constant,
    Constants,
    Literals,
    UnsupportedConstant,
    compile_cuts,
    constant_of_term,
    fit_one_decimal,
    mismatch_error,
)
from tocsin.model.encoding import HIGHEST, LOWEST, NULL, number_key
from tocsin.model.literal_lists import compile_points
from tocsin.model.nodes import error_at, to_sql
from tocsin.model.predicates import (
    ALWAYS,
    INTERVAL,
    IS_NULL,
    NOT_NULL,
    Predicate,
    interval,
    none_of,
    one_of,
)
from tocsin.model.schema import ARTICLE
from tocsin.model.terms import Term, read_pattern, read_term

_OPERATORS: dict[Any, str] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.EQ: "=",
    exp.NEQ: "<>",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}


class Leaf(NamedTuple):
    """A test of an attribute (-1: of none). `bind` turns literals into its predicate."""

    attribute: int
    bind: Callable[[Literals, Categories], Predicate | None]


class Compiler:
    """Compiles a parsed text into a tree of ('and' | 'or', children) over numbered leaves."""

    def __init__(self, schema: Attributes, constants: Constants):
        self.schema = schema
        self.constants = constants
        self.leaves: list[Leaf] = []

    def normalise(self, node: exp.Expr, negated: bool) -> Any:
        """Return the tree of a node, or the number of a leaf."""
        while isinstance(node, exp.Paren | exp.Not):
            negated ^= isinstance(node, exp.Not)
            node = node.this
        if isinstance(node, exp.And | exp.Or):
            children: list[exp.Expr] = []
            stack: list[exp.Expr] = [node]
            while stack:  # a AND b AND c ... is a deep left branch: do not recurse into it
                child = stack.pop()
                if type(child) is type(node):
                    stack += [child.expression, child.this]
                else:
                    children.append(child)
            junction = "and" if isinstance(node, exp.And) != negated else "or"
            return junction, [self.normalise(child, negated) for child in children]
        if isinstance(node, exp.Between):
            if node.args.get("symmetric"):
                raise error_at(
                    "Spark does not have BETWEEN SYMMETRIC; write the lower bound first", node
                )
            low, high = node.args["low"], node.args["high"]
            if not _has_columns(node.this) or _has_columns(low) or _has_columns(high):
                return self._flag(node, negated)
            attribute = self._operand(node.this)
            tests = [
                self._comparison(attribute, operator, value, negated, node)
                for operator, value in ((">=", low), ("<=", high))
            ]
            return "or" if negated else "and", tests
        return self._leaf(node, negated)

    def _leaf(self, node: exp.Expr, negated: bool) -> int:
        if node.find(exp.Query, exp.Subquery, exp.Exists) or isinstance(node, exp.Literal):
            raise _unsupported(node)
        if isinstance(node, exp.Column) and not node.args.get("table"):
            attribute = self._attribute(node)
            if self.schema.kind(attribute) != "flag":
                raise error_at(
                    f"attribute {self.schema.name(attribute)!r} is "
                    f"{ARTICLE[self.schema.kind(attribute)]}, so it is not a condition by itself; "
                    "compare it with a value",
                    node,
                )
            return self._add_flag(attribute, negated)
        if isinstance(node, exp.Boolean | exp.Null):
            is_true = isinstance(node, exp.Boolean) and bool(node.this) != negated
            return self._add(-1, lambda s, c: ALWAYS if is_true else None)
        if type(node) in _OPERATORS:
            return self._binary(node, negated)
        if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
            return self._null_safe(node, negated)
        if isinstance(node, exp.In):
            return self._in(node, negated)
        if isinstance(node, exp.Is):
            return self._is(node, negated)
        if isinstance(node, exp.Like | exp.ILike | exp.Escape):
            return self._pattern(node, negated)
        return self._flag(node, negated)

    def _add(self, attribute: int, bind: Callable[[Literals, Categories], Predicate | None]) -> int:
        self.leaves.append(Leaf(attribute, bind))
        return len(self.leaves) - 1

    def _add_flag(self, attribute: int, negated: bool) -> int:
        key = int(not negated)
        return self._add(attribute, lambda s, c: Predicate(INTERVAL, key, key))

    # ------------------------------------------------------------ columns and terms

    def _attribute(self, node: exp.Expr) -> int:
        """Return the attribute of a column."""
        try:
            return self.schema.index(node.name)
        except ConditionError as error:
            raise error_at(str(error), node) from None

    def _operand(self, node: exp.Expr) -> int:
        """Return the attribute that a node tests: a column, or a term, which is added."""
        node = _unwrap(node)
        if isinstance(node, exp.Column) and not node.args.get("table"):
            return self._attribute(node)
        return self._add_term(self._read_term(node), node)

    def _read_term(self, node: exp.Expr) -> Term:
        if node.find(exp.Query, exp.Subquery, exp.Exists):
            raise _unsupported(node)
        for column in node.find_all(exp.Column):
            root = column.parts[0].name
            if len(column.parts) > 1 and root.lower() not in self.schema.nested:
                raise error_at(
                    f"{to_sql(column)} is a qualified name, and {root!r} is not a struct; write "
                    "the attribute's name alone, in backquotes if it has a dot",
                    column,
                )
        return read_term(node, self.schema.sources(), self.schema.zone)

    def _add_term(self, term: Term, node: exp.Expr) -> int:
        if term.function == "column":  # a cast, for example, may have changed nothing
            attribute = self.schema.find(str(term.value))
            if attribute is not None:
                return attribute
        if term.type.kind is None:
            raise error_at(
                f"{to_sql(node)} is of type {term.type}, which cannot be compared with a value; "
                "cast it, or take a part of it",
                node,
            )
        try:
            return self.schema.add_term(term)
        except ConditionError as error:
            raise error_at(str(error), node) from None

    def _flag(self, node: exp.Expr, negated: bool) -> int:
        """Return the leaf of a term that is true or false."""
        term = self._read_term(node)
        if term.type.name not in ("boolean", "null"):
            raise error_at(
                f"{to_sql(node)} is of type {term.type}, so it is not a condition by itself; "
                "compare it with a value",
                node,
            )
        if term.is_constant:
            holds = term.value is not None and bool(term.value) != negated
            return self._add(-1, lambda s, c: ALWAYS if holds else None)
        return self._add_flag(self._add_term(term, node), negated)

    def _pattern(self, node: exp.Expr, negated: bool) -> int:
        """Return the leaf of LIKE or ILIKE; a prefix or a suffix is compared with a text."""
        escape = None
        like = node
        if isinstance(node, exp.Escape):
            like, escape = _unwrap(node.this), _unwrap(node.expression)
        pattern = _unwrap(like.expression) if isinstance(like, exp.Like | exp.ILike) else None
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            return self._flag(node, negated)
        if escape is not None and not (isinstance(escape, exp.Literal) and escape.is_string):
            raise error_at(f"ESCAPE takes one character, got {to_sql(escape)}", escape)
        operand = self._read_term(like.this)
        if operand.is_constant:
            return self._flag(node, negated)
        try:
            form, term, text = read_pattern(
                operand,
                str(pattern.this),
                None if escape is None else str(escape.this),
                isinstance(like, exp.ILike),
            )
        except ConditionError as error:
            raise error_at(str(error), pattern) from None
        attribute = self._add_term(term, node)
        negated ^= bool(like.args.get("negate"))
        if form == "flag":
            return self._add_flag(attribute, negated)
        if form == "not_null":
            return self._add(attribute, lambda s, c: None if negated else NOT_NULL)

        def bind(s: Literals, categories: Categories) -> Predicate | None:
            code = categories.add(str(text))
            return none_of([NULL, code]) if negated else interval(code, code)

        return self._add(attribute, bind)

    # ------------------------------------------------------------ comparisons

    def _constant(self, node: exp.Expr) -> Constant:
        """Return the constant for an expression without columns, folded as Spark does."""
        bound = set(self.constants.bound)
        try:
            return self.constants.compile(node)
        except UnsupportedConstant as error:
            self.constants.bound = bound  # the literals of a term are fixed
            if node.find(exp.Placeholder, exp.Parameter, exp.Query):
                raise
            try:
                term = self._read_term(node)
            except ConditionError:
                raise error from None
        return constant_of_term(term, node, self.schema.zone)

    def _binary(self, node: exp.Expr, negated: bool) -> int:
        left, right = _unwrap(node.this), _unwrap(node.expression)
        operator = _OPERATORS[type(node)]
        if _has_columns(left) and _has_columns(right):
            if isinstance(left, exp.Column) and isinstance(right, exp.Column):
                self._check_columns(left, right)
            return self._flag(node, negated)
        if _has_columns(right):
            return self._comparison(self._operand(right), _MIRRORED[operator], left, negated, node)
        if _has_columns(left):
            return self._comparison(self._operand(left), operator, right, negated, node)
        return self._compare_constants(node, left, right, negated)

    def _check_columns(self, *columns: exp.Expr) -> None:
        """Raise for a column with an unknown name, which may be a text without quotes."""
        for column in columns:
            if (
                isinstance(column, exp.Column)
                and len(column.parts) == 1
                and column.name.lower() not in self.schema.sources()
                and self.schema.find(column.name) is None
            ):
                raise error_at(
                    f"unknown attribute {column.name!r}; if the text is meant, write "
                    f"'{column.name}' in quotes",
                    column,
                )

    def _comparison(
        self, attribute: int, operator: str, value: exp.Expr, negated: bool, node: Any
    ) -> int:
        if value.find(exp.Query):
            raise _unsupported(_unwrap(value))
        if negated:
            operator = _NEGATED[operator]
        constant = self._constant(value)
        if constant.type == "null":
            return self._add(attribute, lambda s, c: None)
        cuts = compile_cuts(attribute, constant, self.schema)
        bind = _comparison_binder(operator, cuts)
        if operator not in ("=", "<>"):
            self._check_ordered(attribute, operator, node)
            if self.schema.kind(attribute) == "integer" and constant.type != "double":
                bind = _fold_beyond_bigint(operator, constant, bind)
            elif self.schema.kind(attribute) == "flag":
                bind = _clip_to_flags(bind)
        return self._add(attribute, bind)

    def _check_ordered(self, attribute: int, operator: str, node: exp.Expr) -> None:
        if self.schema.kind(attribute) == "category":
            raise error_at(
                f"attribute {self.schema.name(attribute)!r} is a category, and categories have no "
                f"order here ({operator}); use =, <> or IN, or declare what is ordered as a number",
                node,
            )

    def _compare_constants(self, node: Any, left: exp.Expr, right: exp.Expr, negated: bool) -> int:
        a, b = self._constant(left), self._constant(right)
        numbers = ("integer", "decimal", "double")
        if "null" not in (a.type, b.type) and not (
            a.type == b.type or (a.type in numbers and b.type in numbers)
        ):
            raise error_at(f"{to_sql(node)} compares constants of different types", node)
        for side in (left, right):
            if self.constants.in_double_quotes(side):
                raise error_at(
                    f"{to_sql(node)} compares two constants: double quotes are for texts, as in "
                    "Spark; write an attribute's name bare or in backquotes",
                    side,
                )
        as_doubles = "double" in (a.type, b.type)
        operator = _OPERATORS[type(node)]
        if negated:
            operator = _NEGATED[operator]

        def bind(s: Literals, _: Categories) -> Predicate | None:
            x, y = a.read(s), b.read(s)
            if x is None or y is None:
                return None
            if as_doubles:
                x, y = number_key(float(x)), number_key(float(y))
            holds = {
                "<": x < y,
                "<=": x <= y,
                ">": x > y,
                ">=": x >= y,
                "=": x == y,
                "<>": x != y,
            }[operator]
            return ALWAYS if holds else None

        return self._add(-1, bind)

    def _null_safe(self, node: exp.Expr, negated: bool) -> int:
        left, right = _unwrap(node.this), _unwrap(node.expression)
        if _has_columns(right):
            left, right = right, left
        if _has_columns(left) == _has_columns(right):
            self._check_columns(left, right)
            return self._flag(node, negated)
        attribute = self._operand(left)
        negated ^= isinstance(node, exp.NullSafeNEQ)
        constant = self._constant(right)
        if constant.type == "null":
            return self._add(attribute, lambda s, c: NOT_NULL if negated else IS_NULL)
        cuts = compile_cuts(attribute, constant, self.schema)
        if not negated:
            return self._add(attribute, _comparison_binder("=", cuts))
        return self._add(attribute, lambda s, c: none_of(range(*cuts(s, c))))

    def _in(self, node: exp.In, negated: bool) -> int:
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise error_at(
                f"{to_sql(node)} contains a subquery; a condition tests attributes against "
                "constants. Write the values out, or keep them as rules of their own",
                node,
            )
        values = node.expressions
        if not values:
            raise error_at("syntax error: IN needs at least one value", node)
        for value in values:
            self._check_columns(_unwrap(value))
            if value.find(exp.Query):
                raise _unsupported(_unwrap(value))
        if not _has_columns(node.this) or any(map(_has_columns, values)):
            return self._flag(node, negated)
        attribute = self._operand(node.this)
        constants = [self._constant(value) for value in values]
        if any(c.type == "double" for c in constants):
            # Spark casts the column and the whole list to one type.
            constants = [_as_double(c) for c in constants]
        has_null = any(c.type == "null" for c in constants)
        cuts = [compile_cuts(attribute, c, self.schema) for c in constants if c.type != "null"]
        if negated and has_null:
            return self._add(attribute, lambda s, c: None)
        slot = self.constants.find_list(values)
        if slot is not None:
            types = {c.type for c in constants}
            type_ = "decimal" if "decimal" in types else constants[0].type
            listed = compile_points(attribute, slot, type_, self.schema, node)
            if negated:
                return self._add(attribute, lambda s, c: none_of([NULL, *listed(s, c)]))
            return self._add(attribute, lambda s, c: one_of(listed(s, c)))

        exact = [c.read for c in constants if c.type in ("integer", "decimal")]
        as_decimals = self.schema.kind(attribute) == "integer" and any(
            c.type == "decimal" for c in constants
        )

        def points(s: Literals, categories: Categories) -> list[int]:
            if as_decimals and not fit_one_decimal([read(s) for read in exact]):
                raise error_at(
                    "the values together need more than Spark's 38 digits, so Spark would round "
                    "them; write fewer decimal places",
                    node,
                )
            return [p for cut in cuts for p in range(*cut(s, categories))]

        if negated:
            return self._add(attribute, lambda s, c: none_of([NULL, *points(s, c)]))
        return self._add(attribute, lambda s, c: one_of(points(s, c)))

    def _is(self, node: exp.Is, negated: bool) -> int:
        value = node.expression
        if not _has_columns(node.this):
            return self._flag(node, negated)
        attribute = self._operand(node.this)
        if isinstance(value, exp.Null):
            return self._add(attribute, lambda s, c: NOT_NULL if negated else IS_NULL)
        if isinstance(value, exp.Boolean):
            if self.schema.kind(attribute) != "flag":
                constant = Constant("flag", lambda _: None, value)
                raise mismatch_error(attribute, constant, self.schema)
            key = int(value.this)
            return self._add(
                attribute, lambda s, c: none_of([key]) if negated else Predicate(0, key, key)
            )
        raise error_at(
            "syntax error: IS is followed by [NOT] NULL, TRUE or FALSE; use = for a value", node
        )


def _comparison_binder(
    operator: str, cuts: Callable[[Literals, Categories], tuple[int, int]]
) -> Callable[[Literals, Categories], Predicate | None]:
    """Return the function that binds a comparison with a constant, given by its cuts."""

    def less(s: Literals, c: Categories) -> Predicate | None:
        return interval(LOWEST, cuts(s, c)[0] - 1)

    def at_most(s: Literals, c: Categories) -> Predicate | None:
        return interval(LOWEST, cuts(s, c)[1] - 1)

    def greater(s: Literals, c: Categories) -> Predicate | None:
        return interval(cuts(s, c)[1], HIGHEST)

    def at_least(s: Literals, c: Categories) -> Predicate | None:
        return interval(cuts(s, c)[0], HIGHEST)

    def equal(s: Literals, c: Categories) -> Predicate | None:
        least, above = cuts(s, c)
        return interval(least, above - 1)

    def unequal(s: Literals, c: Categories) -> Predicate | None:
        return none_of([NULL, *range(*cuts(s, c))])

    return {
        "<": less,
        "<=": at_most,
        ">": greater,
        ">=": at_least,
        "=": equal,
        "<>": unequal,
    }[operator]


def _fold_beyond_bigint(
    operator: str, constant: Constant, bind: Callable[[Literals, Categories], Predicate | None]
) -> Callable[[Literals, Categories], Predicate | None]:
    """Return `bind`, but fold a comparison with a constant beyond bigint to TRUE or FALSE.

    Spark's analyzer does so: `n < 9223372036854775808` is the literal TRUE, even if n is null.
    """

    def fold(s: Literals, categories: Categories) -> Predicate | None:
        value = constant.read(s)
        if value > HIGHEST:
            return ALWAYS if operator in ("<", "<=") else None
        if value < NULL:
            return ALWAYS if operator in (">", ">=") else None
        return bind(s, categories)

    return fold


def _clip_to_flags(
    bind: Callable[[Literals, Categories], Predicate | None],
) -> Callable[[Literals, Categories], Predicate | None]:
    """Return `bind` with intervals clipped to the two keys of flags: nothing is above TRUE."""

    def clip(s: Literals, categories: Categories) -> Predicate | None:
        predicate = bind(s, categories)
        return predicate and interval(max(predicate.low, 0), min(predicate.high, 1))

    return clip


def _as_double(constant: Constant) -> Constant:
    if constant.type not in ("integer", "decimal"):
        return constant
    return constant._replace(type="double", read=lambda s: float(constant.read(s)))


def _has_columns(node: exp.Expr) -> bool:
    return node.find(exp.Column) is not None


def _unwrap(node: exp.Expr) -> exp.Expr:
    """Return what is inside of parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _unsupported(node: exp.Expr) -> ConditionError:
    """Return the error for an expression that conditions do not support."""
    shown = to_sql(node)
    if isinstance(node, exp.Query | exp.Exists | exp.Subquery | exp.All | exp.Any):
        return error_at(
            f"{shown} is a subquery; a condition tests attributes against constants. "
            "Join the events beforehand, or keep the values as rules of their own",
            node,
        )
    if isinstance(node, exp.Literal):
        advice = "; write an attribute's name bare or in backquotes" if node.is_string else ""
        return error_at(
            f"{shown} is a constant, not a condition; compare an attribute with it{advice}", node
        )
    return error_at(
        f"{shown} is not a condition; expected tests such as x > 5, tier IN ('gold') or x IS NULL, "
        "joined by AND, OR and NOT",
        node,
    )
