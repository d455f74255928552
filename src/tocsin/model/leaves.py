"""Compiles the leaves of conditions: each test becomes a function from literals to a predicate.

NOT is pushed down at the same time, so a leaf is compiled either plain or negated. For null,
neither is true. Unsupported tests raise a ConditionError with their position in the text.

A test compares an attribute with constants. The attribute is a column or a term. What is not such
a comparison, as `a > b`, is a flag: a term of its own, which is true or false. The literals within
a term are part of the form of a text.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from sqlglot import exp

from tocsin.errors import ConditionError
from tocsin.geometry.shape import Shape
from tocsin.model.attributes import Attributes
from tocsin.model.categories import Categories
from tocsin.model.comparisons import Binder, bind_comparison, clip_to_flags, fold_beyond_bigint
from tocsin.model.constants import (
    Constant,
    Constants,
    Literals,
    UnsupportedConstantError,
    compile_cuts,
    constant_of_term,
    fit_one_decimal,
    mismatch_error,
)
from tocsin.model.decimals import is_decimal
from tocsin.model.encoding import NULL, number_key
from tocsin.model.literal_lists import compile_points
from tocsin.model.nodes import error_at, expand_like, flatten, to_sql
from tocsin.model.normal_form import Branch, Source, Tree
from tocsin.model.operands import (
    Operands,
    has_columns,
    quantifier_error,
    refuse_subqueries,
    unsupported_error,
    unwrap,
)
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
from tocsin.model.shape_leaves import ShapeLeaves
from tocsin.model.terms import Term, read_pattern

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
    bind: Binder
    has_points: bool  # whether the predicate comes from `one_of`


class Compiler:
    """Compiles a parsed text into a tree of AND and OR over numbered leaves."""

    def __init__(self, schema: Attributes, constants: Constants, polygons: Mapping[str, Shape]):
        self.schema = schema
        self.constants = constants
        self.operands = Operands(schema)
        self.leaves: list[Leaf] = []
        self.sources: dict[int, Source] = {}  # by number of the leaf
        self.unions: dict[int, list[int]] = {}  # the leaves that a leaf unites, which come before
        self.shapes = ShapeLeaves(schema, constants, self._add, polygons)

    def normalise(self, node: exp.Expr, negated: bool) -> Tree:
        """Return the tree of a node."""
        node = expand_like(node) or node
        while isinstance(node, exp.Paren | exp.Not):
            negated ^= isinstance(node, exp.Not)
            node = expand_like(node.this) or node.this
        if isinstance(node, exp.And | exp.Or):
            source = Source(node, negated)
            trees = [self.normalise(child, negated) for child in flatten(node)]
            if isinstance(node, exp.And) != negated:
                return Branch("and", trees, source)
            trees = self._unite(trees, source)
            return trees[0] if len(trees) == 1 else Branch("or", trees, source)
        test = self.shapes.compile(node, negated)
        if test is not None:
            return test
        if isinstance(node, exp.Between):
            if node.args.get("symmetric"):
                raise error_at(
                    "Spark does not have BETWEEN SYMMETRIC; write the lower bound first", node
                )
            ends = node.args["low"], node.args["high"]
            if any(map(has_columns, ends)):
                self.operands.check_columns(*map(unwrap, ends))
                number = self._flag(node, negated)
                self.sources[number] = Source(node, negated)
                return number
            attribute = self.operands.operand(node.this)
            low = self._comparison(attribute, ">=", ends[0], negated, node)
            high = self._comparison(attribute, "<=", ends[1], negated, node)
            for number, operator, end in zip((low, high), (exp.LT, exp.GT), ends, strict=True):
                part = operator(this=node.this.copy(), expression=end.copy()) if negated else node
                self.sources[number] = Source(part, False)
            return Branch("or" if negated else "and", [low, high], Source(node, negated))
        number = self._leaf(node, negated)
        self.sources[number] = Source(node, negated)
        return number

    def _unite(self, trees: list[Tree], source: Source) -> list[Tree]:
        """Return the alternatives of an OR, with those that are points of one attribute united."""
        by_attribute: dict[int, list[int]] = {}
        for tree in trees:
            if isinstance(tree, int) and self.leaves[tree].has_points:
                by_attribute.setdefault(self.leaves[tree].attribute, []).append(tree)
        union_of: dict[int, int] = {}
        for attribute, numbers in by_attribute.items():
            if len(numbers) > 1:
                union = self._add(attribute, lambda s, c: None, has_points=True)
                self.sources[union], self.unions[union] = source, numbers
                union_of |= dict.fromkeys(numbers, union)
        united: list[Tree] = []
        for tree in trees:
            common = union_of.get(tree) if isinstance(tree, int) else None
            if common is None:
                united.append(tree)
            elif tree == self.unions[common][0]:
                united.append(common)
        return united

    def _leaf(self, node: exp.Expr, negated: bool) -> int:
        refuse_subqueries(node)
        if isinstance(node, exp.Literal):
            raise unsupported_error(node)
        if isinstance(node, exp.Column) and not node.args.get("table"):
            attribute = self.operands.attribute(node)
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

    def _add(
        self,
        attribute: int,
        bind: Binder,
        has_points: bool = False,
    ) -> int:
        self.leaves.append(Leaf(attribute, bind, has_points))
        return len(self.leaves) - 1

    def _add_flag(self, attribute: int, negated: bool) -> int:
        key = int(not negated)
        return self._add(attribute, lambda s, c: Predicate(INTERVAL, key, key))

    # ------------------------------------------------------------ terms

    def _flag(self, node: exp.Expr, negated: bool) -> int:
        """Return the leaf of a term that is true or false."""
        term = self.operands.read_term(node)
        if term.type.name not in ("boolean", "null"):
            raise error_at(
                f"{to_sql(node)} is of type {term.type}, so it is not a condition by itself; "
                "compare it with a value",
                node,
            )
        if term.is_constant:
            holds = term.value is not None and bool(term.value) != negated
            return self._add(-1, lambda s, c: ALWAYS if holds else None)
        return self._add_flag(self.operands.add_term(term, node), negated)

    def _pattern(self, node: exp.Expr, negated: bool) -> int:
        """Return the leaf of LIKE or ILIKE; a prefix or a suffix is compared with a text."""
        escape = None
        like = node
        if isinstance(node, exp.Escape):
            like, escape = unwrap(node.this), unwrap(node.expression)
        pattern = unwrap(like.expression) if isinstance(like, exp.Like | exp.ILike) else None
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            return self._flag(node, negated)
        if escape is not None and not (isinstance(escape, exp.Literal) and escape.is_string):
            raise error_at(f"ESCAPE takes one character, got {to_sql(escape)}", escape)
        operand = self.operands.read_term(like.this)
        if operand.is_constant:
            return self._flag(node, negated)
        escape_text = None if escape is None else str(escape.this)
        ignores_case = isinstance(like, exp.ILike)

        def read(text: str) -> tuple[str, Term, str | None]:
            return read_pattern(operand, text, escape_text, ignores_case)

        def signature(text: str) -> Hashable:
            try:
                form, term, _ = read(text)
            except ConditionError:
                return text
            return text if form == "flag" else (form, term)

        try:
            form, term, text = read(str(pattern.this))
        except ConditionError as error:
            raise error_at(str(error), pattern) from None
        attribute = self.operands.add_term(term, node)
        negated ^= bool(like.args.get("negate"))
        if form == "flag":
            return self._add_flag(attribute, negated)
        if form == "not_null":
            return self._add(attribute, lambda s, c: None if negated else NOT_NULL)
        slot = self.constants.sign(pattern, signature)

        def bind(s: Literals, categories: Categories) -> Predicate | None:
            compared = text if slot is None else read(s[slot])[2]
            code = categories.add(str(compared))
            return none_of([NULL, code]) if negated else interval(code, code)

        return self._add(attribute, bind, has_points=not negated)

    # ------------------------------------------------------------ comparisons

    def _constant(self, node: exp.Expr) -> Constant:
        """Return the constant for an expression without columns, folded as Spark does."""
        bound = set(self.constants.bound)
        try:
            return self.constants.compile(node)
        except UnsupportedConstantError:
            self.constants.bound = bound  # the literals of a term are fixed
            if node.find(exp.Placeholder, exp.Parameter, exp.HexString):
                raise
        term = self.operands.read_term(node)
        return constant_of_term(term, node, self.schema.zone)

    def _binary(self, node: exp.Expr, negated: bool) -> int:
        left, right = unwrap(node.this), unwrap(node.expression)
        quantifier = _quantifier(right) or _quantifier(left)
        if quantifier is not None:
            return self._quantified(node, *quantifier, negated)
        operator = _OPERATORS[type(node)]
        if has_columns(left) and has_columns(right):
            if isinstance(left, exp.Column) and isinstance(right, exp.Column):
                self.operands.check_columns(left, right)
            return self._flag(node, negated)
        if has_columns(right):
            attribute = self.operands.operand(right)
            return self._comparison(attribute, _MIRRORED[operator], left, negated, node)
        if has_columns(left):
            return self._comparison(self.operands.operand(left), operator, right, negated, node)
        return self._compare_constants(node, left, right, negated)

    def _comparison(
        self, attribute: int, operator: str, value: exp.Expr, negated: bool, node: Any
    ) -> int:
        if negated:
            operator = _NEGATED[operator]
        constant = self._constant(value)
        if constant.type == "null":
            return self._add(attribute, lambda s, c: None)
        cuts = compile_cuts(attribute, constant, self.schema)
        bind = bind_comparison(operator, cuts)
        if operator not in ("=", "<>"):
            self._check_ordered(attribute, operator, node)
            if self.schema.kind(attribute) == "integer" and constant.type != "double":
                bind = fold_beyond_bigint(operator, constant, bind)
            elif self.schema.kind(attribute) == "flag":
                bind = clip_to_flags(bind)
        return self._add(attribute, bind, has_points=operator == "=")

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
        left, right = unwrap(node.this), unwrap(node.expression)
        if has_columns(right):
            left, right = right, left
        if has_columns(left) == has_columns(right):
            self.operands.check_columns(left, right)
            return self._flag(node, negated)
        attribute = self.operands.operand(left)
        negated ^= isinstance(node, exp.NullSafeNEQ)
        constant = self._constant(right)
        if constant.type == "null":
            return self._add(attribute, lambda s, c: NOT_NULL if negated else IS_NULL)
        cuts = compile_cuts(attribute, constant, self.schema)
        if not negated:
            return self._add(attribute, bind_comparison("=", cuts), has_points=True)
        return self._add(attribute, lambda s, c: none_of(range(*cuts(s, c))))

    def _quantified(self, node: exp.Expr, word: str, array: exp.Expr, negated: bool) -> int:
        """Compile Postgres' = ANY(ARRAY[...]), which is IN, and <> ALL(ARRAY[...])."""
        if (_OPERATORS[type(node)], word) not in (("=", "ANY"), ("<>", "ALL")) or not isinstance(
            array, exp.Array
        ):
            raise quantifier_error(node)
        return self._listed(node, array.expressions, negated ^ (word == "ALL"))

    def _in(self, node: exp.In, negated: bool) -> int:
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise error_at(
                f"{to_sql(node)} contains a subquery; a condition tests attributes against "
                "constants. Write the values out, or keep them as rules of their own",
                node,
            )
        return self._listed(node, node.expressions, negated)

    def _listed(self, node: exp.Expr, values: list[exp.Expr], negated: bool) -> int:
        """Compile a test of whether the left side of a node is one of the values."""
        if not values:
            word = "IN" if isinstance(node, exp.In) else "ARRAY"
            raise error_at(f"syntax error: {word} needs at least one value", node)
        self.operands.check_columns(*map(unwrap, values))
        if any(map(has_columns, values)):
            if not isinstance(node, exp.In):
                raise quantifier_error(node)
            return self._flag(node, negated)
        attribute = self.operands.operand(node.this)
        constants = [self._constant(value) for value in values]
        # Spark casts the column and the whole list to one type.
        if any(c.type == "double" for c in constants):
            constants = [_as_double(c) for c in constants]
        if any(c.type == "time" for c in constants):
            constants = [
                self._constant(exp.cast(c.node, exp.DType.TIMESTAMP)) if c.type == "text" else c
                for c in constants
            ]
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
            return self._add(attribute, lambda s, c: one_of(listed(s, c)), has_points=True)

        kind = self.schema.kind(attribute)
        exact = [c for c in constants if c.type in ("integer", "decimal")]
        as_decimals = is_decimal(kind) or (
            kind == "integer" and any(c.type == "decimal" for c in constants)
        )

        def points(s: Literals, categories: Categories) -> list[int]:
            if as_decimals and not fit_one_decimal(kind, exact, s):
                raise error_at(
                    "the values together need more than Spark's 38 digits, so Spark would round "
                    "them; write fewer decimal places",
                    node,
                )
            return [p for cut in cuts for p in range(*cut(s, categories))]

        if negated:
            return self._add(attribute, lambda s, c: none_of([NULL, *points(s, c)]))
        return self._add(attribute, lambda s, c: one_of(points(s, c)), has_points=True)

    def _is(self, node: exp.Is, negated: bool) -> int:
        value = node.expression
        attribute = self.operands.operand(node.this)
        if isinstance(value, exp.Null):
            return self._add(attribute, lambda s, c: NOT_NULL if negated else IS_NULL)
        if isinstance(value, exp.Boolean):
            if self.schema.kind(attribute) != "flag":
                constant = Constant("flag", lambda _: None, value)
                raise mismatch_error(attribute, constant, self.schema)
            key = int(value.this)
            return self._add(
                attribute, lambda s, c: none_of([key]) if negated else Predicate(INTERVAL, key, key)
            )
        raise error_at(
            "syntax error: IS is followed by [NOT] NULL, TRUE or FALSE; use = for a value", node
        )


def _as_double(constant: Constant) -> Constant:
    if constant.type not in ("integer", "decimal"):
        return constant
    return constant._replace(type="double", read=lambda s: float(constant.read(s)))


def _quantifier(node: exp.Expr) -> tuple[str, exp.Expr] | None:
    """Return ANY or ALL and the array that it is about; None for all else, also for a subquery."""
    if isinstance(node, exp.Any | exp.All):
        word, inner = "ANY" if isinstance(node, exp.Any) else "ALL", unwrap(node.this)
    elif isinstance(node, exp.Anonymous) and node.name.upper() == "ALL" and node.expressions:
        word, inner = "ALL", node.expressions[0]  # sqlglot reads ALL(ARRAY[1]) as a function
    else:
        return None
    return None if inner.find(exp.Query) else (word, inner)
