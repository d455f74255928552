"""Compiles the leaves of conditions: each test becomes a function from literals to a predicate.

NOT is pushed down at the same time, so a leaf is compiled either plain or negated. For null,
neither is true. Unsupported tests raise a ConditionError with their position in the text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlglot import exp

from tocsin.errors import ConditionError
from tocsin.model.categories import Categories
from tocsin.model.constants import (
    Constant,
    Constants,
    Literals,
    compile_cuts,
    error_at,
    fit_one_decimal,
    mismatch_error,
    to_sql,
)
from tocsin.model.encoding import HIGHEST, LOWEST, NULL, number_key
from tocsin.model.literal_lists import compile_points
from tocsin.model.normal_form import Branch, Source, Tree
from tocsin.model.predicates import (
    ALWAYS,
    IS_NULL,
    NOT_NULL,
    Predicate,
    interval,
    none_of,
    one_of,
)
from tocsin.model.schema import ARTICLE, Schema

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
    has_points: bool  # whether the predicate comes from `one_of`


class Compiler:
    """Compiles a parsed text into a tree of AND and OR over numbered leaves."""

    def __init__(self, schema: Schema, constants: Constants):
        self.schema = schema
        self.constants = constants
        self.leaves: list[Leaf] = []
        self.sources: dict[int, Source] = {}  # by number of the leaf
        self.unions: dict[int, list[int]] = {}  # the leaves that a leaf unites, which come before

    def normalise(self, node: exp.Expr, negated: bool) -> Tree:
        """Return the tree of a node."""
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
            source = Source(node, negated)
            trees = [self.normalise(child, negated) for child in children]
            if isinstance(node, exp.And) != negated:
                return Branch("and", trees, source)
            trees = self._unite(trees, source)
            return trees[0] if len(trees) == 1 else Branch("or", trees, source)
        if isinstance(node, exp.Between):
            if node.args.get("symmetric"):
                raise error_at(
                    "Spark does not have BETWEEN SYMMETRIC; write the lower bound first", node
                )
            attribute = self._attribute(node.this)
            ends = node.args["low"], node.args["high"]
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
            whole = union_of.get(tree) if isinstance(tree, int) else None
            if whole is None:
                united.append(tree)
            elif tree == self.unions[whole][0]:
                united.append(whole)
        return united

    def _leaf(self, node: exp.Expr, negated: bool) -> int:
        if isinstance(node, exp.Column):
            attribute = self._attribute(node)
            if self.schema.kind(attribute) != "flag":
                raise error_at(
                    f"attribute {self.schema.name(attribute)!r} is "
                    f"{ARTICLE[self.schema.kind(attribute)]}, so it is not a condition by itself; "
                    "compare it with a value",
                    node,
                )
            key = int(not negated)
            return self._add(attribute, lambda s, c: Predicate(0, key, key))
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
        raise _unsupported(node)

    def _add(
        self,
        attribute: int,
        bind: Callable[[Literals, Categories], Predicate | None],
        has_points: bool = False,
    ) -> int:
        self.leaves.append(Leaf(attribute, bind, has_points))
        return len(self.leaves) - 1

    def _attribute(self, node: exp.Expr) -> int:
        node = _unwrap(node)
        if not isinstance(node, exp.Column):
            raise _unsupported(node)
        if node.args.get("table"):
            raise error_at(
                f"{to_sql(node)} is a qualified name; write the attribute's name alone, "
                "in backquotes if it has a dot",
                node,
            )
        try:
            return self.schema.index(node.name)
        except ConditionError as error:
            raise error_at(str(error), node) from None

    def _binary(self, node: exp.Expr, negated: bool) -> int:
        left, right = _unwrap(node.this), _unwrap(node.expression)
        quantifier = _quantifier(right) or _quantifier(left)
        if quantifier is not None:
            return self._quantified(node, *quantifier, negated)
        columns = isinstance(left, exp.Column), isinstance(right, exp.Column)
        operator = _OPERATORS[type(node)]
        if all(columns):
            raise self._two_columns_error(node)
        if columns[1]:
            return self._comparison(
                self._attribute(right), _MIRRORED[operator], left, negated, node
            )
        if columns[0]:
            return self._comparison(self._attribute(left), operator, right, negated, node)
        for side in (left, right):
            if side.find(exp.Column):
                raise _unsupported(side)
        return self._compare_constants(node, left, right, negated)

    def _two_columns_error(self, node: exp.Expr, *columns: exp.Expr) -> ConditionError:
        """Return the error for a comparison of columns; an unknown name may be an unquoted text."""
        for column in columns or node.find_all(exp.Column):
            if self.schema.find(column.name) is None:
                return error_at(
                    f"unknown attribute {column.name!r}; if the text is meant, write "
                    f"'{column.name}' in quotes",
                    column,
                )
        return error_at(
            f"{to_sql(node)} compares two columns; a condition tests attributes against "
            "constants. Compute the difference as a column of the events",
            node,
        )

    def _comparison(
        self, attribute: int, operator: str, value: exp.Expr, negated: bool, node: Any
    ) -> int:
        if isinstance(_unwrap(value), exp.Column):
            raise self._two_columns_error(node)
        if value.find(exp.Column, exp.Query):
            raise _unsupported(_unwrap(value))
        if negated:
            operator = _NEGATED[operator]
        constant = self.constants.compile(value)
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
        return self._add(attribute, bind, has_points=operator == "=")

    def _check_ordered(self, attribute: int, operator: str, node: exp.Expr) -> None:
        if self.schema.kind(attribute) == "category":
            raise error_at(
                f"attribute {self.schema.name(attribute)!r} is a category, and categories have no "
                f"order here ({operator}); use =, <> or IN, or declare what is ordered as a number",
                node,
            )

    def _compare_constants(self, node: Any, left: exp.Expr, right: exp.Expr, negated: bool) -> int:
        a, b = self.constants.compile(left), self.constants.compile(right)
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
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            left, right = right, left
        attribute = self._attribute(left)
        if right.find(exp.Column, exp.Query):
            raise _unsupported(node)
        negated ^= isinstance(node, exp.NullSafeNEQ)
        constant = self.constants.compile(right)
        if constant.type == "null":
            return self._add(attribute, lambda s, c: NOT_NULL if negated else IS_NULL)
        cuts = compile_cuts(attribute, constant, self.schema)
        if not negated:
            return self._add(attribute, _comparison_binder("=", cuts), has_points=True)
        return self._add(attribute, lambda s, c: none_of(range(*cuts(s, c))))

    def _quantified(self, node: exp.Expr, word: str, array: exp.Expr, negated: bool) -> int:
        """Compile Postgres' = ANY(ARRAY[...]), which is IN, and <> ALL(ARRAY[...])."""
        if (_OPERATORS[type(node)], word) not in (("=", "ANY"), ("<>", "ALL")) or not isinstance(
            array, exp.Array
        ):
            raise _quantifier_error(node)
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
        attribute = self._attribute(node.this)
        if not values:
            word = "IN" if isinstance(node, exp.In) else "ARRAY"
            raise error_at(f"syntax error: {word} needs at least one value", node)
        for value in values:
            if isinstance(_unwrap(value), exp.Column):
                raise self._two_columns_error(node, _unwrap(value))
            if value.find(exp.Column, exp.Query):
                raise _unsupported(_unwrap(value))
        constants = [self.constants.compile(value) for value in values]
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
            return self._add(attribute, lambda s, c: one_of(listed(s, c)), has_points=True)

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
        return self._add(attribute, lambda s, c: one_of(points(s, c)), has_points=True)

    def _is(self, node: exp.Is, negated: bool) -> int:
        attribute = self._attribute(node.this)
        value = node.expression
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


def _unwrap(node: exp.Expr) -> exp.Expr:
    """Return what is inside of parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _quantifier(node: exp.Expr) -> tuple[str, exp.Expr] | None:
    """Return ANY or ALL and the array that it is about; None for all else, also for a subquery."""
    if isinstance(node, exp.Any | exp.All):
        word, inner = "ANY" if isinstance(node, exp.Any) else "ALL", _unwrap(node.this)
    elif isinstance(node, exp.Anonymous) and node.name.upper() == "ALL" and node.expressions:
        word, inner = "ALL", node.expressions[0]  # sqlglot reads ALL(ARRAY[1]) as a function
    else:
        return None
    return None if inner.find(exp.Query) else (word, inner)


def _quantifier_error(node: exp.Expr) -> ConditionError:
    return error_at(
        f"{to_sql(node)} is not supported; of ANY and ALL, a condition can have "
        "x = ANY(ARRAY[1, 2]), which is x IN (1, 2), and x <> ALL(ARRAY[1, 2]), which is "
        "x NOT IN (1, 2). Write other tests out, joined by OR or AND",
        node,
    )


def _unsupported(node: exp.Expr) -> ConditionError:
    """Return the error for an expression that conditions do not support."""
    shown = to_sql(node)
    if isinstance(node, exp.Any | exp.All) and not node.find(exp.Query):
        return _quantifier_error(node)
    if isinstance(node, exp.Query | exp.Exists | exp.Subquery | exp.All | exp.Any):
        return error_at(
            f"{shown} is a subquery; a condition tests attributes against constants. "
            "Join the events beforehand, or keep the values as rules of their own",
            node,
        )
    if isinstance(node, exp.Like | exp.ILike | exp.RegexpLike | exp.SimilarTo):
        return error_at(
            f"{shown} matches a pattern; categories are tested by =, <> and IN only. "
            "Compute the test as a flag column of the events",
            node,
        )
    if isinstance(node, exp.Literal):
        advice = "; write an attribute's name bare or in backquotes" if node.is_string else ""
        return error_at(
            f"{shown} is a constant, not a condition; compare an attribute with it{advice}", node
        )
    if isinstance(node, exp.Cast | exp.TryCast):
        return error_at(
            f"{shown} casts an attribute; declare it in the schema as the kind you need, "
            "or cast the column of the events",
            node,
        )
    if isinstance(node, exp.Func):
        return error_at(
            f"{shown} is a function; a condition tests attributes as they are. "
            "Compute it as a column of the events",
            node,
        )
    if isinstance(node, exp.Neg | exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.IntDiv):
        return error_at(
            f"{shown} is arithmetic on an attribute; move it to the constant's side, "
            "or compute it as a column of the events",
            node,
        )
    if isinstance(node, exp.Predicate | exp.Not | exp.And | exp.Or):
        return error_at(
            f"{shown} is a condition inside a comparison; use it by itself, or after NOT", node
        )
    return error_at(
        f"{shown} is not a condition; expected tests such as x > 5, tier IN ('gold') or x IS NULL, "
        "joined by AND, OR and NOT",
        node,
    )
