"""Conditions: SQL text to normal form.

sqlglot parses (Spark's dialect). Then NOT moves to the leaves, where two-valued
logic is enough: a leaf that compares null is not true, whether negated or not.
AND distributes over OR, and each leaf becomes a predicate on the key line.

All that depends only on the text without its literals, its *shape*, is done once
per shape: parsing, resolving names, checking types, distributing. A further text
of the same shape is scanned for its literals, and these are bound. 100,000 rules
of 20 shapes parse 20 times.

What is refused, and why, is in the errors below: functions and columns against
columns (an index cannot look through them), order of categories (codes have
none), text against numbers (Spark casts, and surprises), more than 64
conjunctions (the rule is better split).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from tocsin.errors import ConditionError
from tocsin.model.constants import (
    Constant,
    Constants,
    Literals,
    cutter,
    mismatch,
    refuse,
)
from tocsin.model.line import HIGHEST, LOWEST, NULL
from tocsin.model.predicates import (
    IS_NULL,
    NOT_NULL,
    Predicate,
    interval,
    meet,
    none_of,
    one_of,
)
from tocsin.model.schema import ARTICLE, Schema

MOST_CONJUNCTIONS = 64
_SHAPES_KEPT = 10_000

Codes = dict[str, int]
Bound = list[list[tuple[int, Predicate]]]  # conjunctions of (attribute, predicate), by attribute
_ALWAYS = Predicate(0, NULL, HIGHEST)

# Strings, backquoted names, words and numbers, as far as they are plain. A text with
# an escape, a comment or a double quote is parsed on its own.
_SCAN = re.compile(r"'([^']*)'|([A-Za-z_]\w*|`[^`]*`)|(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)")
_NOT_PLAIN = re.compile(r"""\\|"|--|/\*|''""")
_DOUBLED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`", re.DOTALL)

_MIRRORED = {exp.LT: ">", exp.LTE: ">=", exp.GT: "<", exp.GTE: "<=", exp.EQ: "=", exp.NEQ: "<>"}
_OPERATORS = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "=", exp.NEQ: "<>"}
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}


class _Leaf(NamedTuple):
    attribute: int  # -1 for a constant
    bind: Callable[[Literals, Codes], Predicate | None]


class _Shape(NamedTuple):
    """What texts that differ only in their literals have in common."""

    leaves: list[_Leaf]
    conjunctions: list[list[tuple[int, list[int]]]]  # (attribute, leaves that test it)
    attributes: frozenset[int]

    def bind(self, literals: Literals, codes: Codes) -> Bound:
        bound = [leaf.bind(literals, codes) for leaf in self.leaves]
        kept: Bound = []
        for tests in self.conjunctions:
            conjunction: list[tuple[int, Predicate]] = []
            for attribute, numbers in tests:
                if len(numbers) == 1:
                    predicate = bound[numbers[0]]
                    if predicate is None:
                        break
                    if predicate is not _ALWAYS:
                        conjunction.append((attribute, predicate))
                    continue
                several = [bound[n] for n in numbers]
                met = None if None in several else meet(several)  # type: ignore[arg-type]
                if met is None:
                    break
                conjunction.extend((attribute, p) for p in met)
            else:
                kept.append(conjunction)
        return kept


class Conditions:
    """Reads conditions over one schema, remembering the shapes it has seen.

    >>> codes = {}
    >>> conditions = Conditions(Schema({"n": "integer", "tier": "category"}))
    >>> conditions.read("n BETWEEN 3 AND 8 AND tier <> 'gold'", codes)[0]
    [[(0, Predicate(kind=0, low=3, high=8, points=())), \
(1, Predicate(kind=2, low=0, high=0, points=(-9223372036854775808, 1)))]]
    """

    def __init__(self, schema: Schema):
        self.schema = schema
        self._shapes: dict[tuple[str, ...], _Shape] = {}

    def read(self, text: str, codes: Codes) -> tuple[Bound, frozenset[int]]:
        """Return the conjunctions of a condition and the attributes it tests.

        `codes` gives categories their codes, and grows by the values mentioned.
        """
        if not isinstance(text, str):
            raise ConditionError(f"a condition must be a text, got {type(text).__name__} {text!r}")
        if _NOT_PLAIN.search(text):
            return self._read_alone(text, codes)
        shape_key, literals = _scan(text)
        shape = self._shapes.get(shape_key)
        if shape is None:
            shape, shared = self._shape(text, literals)
            if shared:
                if len(self._shapes) >= _SHAPES_KEPT:
                    self._shapes.clear()
                self._shapes[shape_key] = shape
        try:
            return shape.bind(literals, codes), shape.attributes
        except ConditionError:
            # The shape may stem from another text: only this one has the right positions.
            return self._read_alone(text, codes)

    def _read_alone(self, text: str, codes: Codes) -> tuple[Bound, frozenset[int]]:
        try:
            shape, _ = self._shape(text, [])
            return shape.bind([], codes), shape.attributes
        except ConditionError as error:
            raise error if str(error).endswith("^") else error.in_text(text) from None

    def _shape(self, text: str, literals: list[str]) -> tuple[_Shape, bool]:
        """Return a text's shape, and whether other texts may use it."""
        try:
            tree = _parse(text)
            slots = _slots(text) if literals else {}
            compiler = _Compiler(self.schema, Constants(self.schema, slots))
            normal = compiler.normal(tree, False)
            count = _count(normal)
            if count > MOST_CONJUNCTIONS:
                raise ConditionError(
                    f"the condition spells out to {count} conjunctions, and a rule has at most "
                    f"{MOST_CONJUNCTIONS}; use IN for several values of one attribute, or "
                    "split it into several rules"
                )
        except ConditionError as error:
            raise error.in_text(text) from None
        except RecursionError:
            raise ConditionError("the condition is nested too deeply to be read") from None
        conjunctions = []
        for numbers in _distribute(normal):
            by_attribute: dict[int, list[int]] = {}
            for number in numbers:
                by_attribute.setdefault(compiler.leaves[number].attribute, []).append(number)
            conjunctions.append(sorted(by_attribute.items()))
        attributes = frozenset(leaf.attribute for leaf in compiler.leaves) - {-1}
        shape = _Shape(compiler.leaves, conjunctions, attributes)
        return shape, len(compiler.constants.used) == len(literals)


def _scan(text: str) -> tuple[tuple[str, ...], list[str]]:
    """Return what a text's shape is known by, and its literals."""
    key: list[str] = []
    literals: list[str] = []
    end = 0
    for match in _SCAN.finditer(text):
        string, word, number = match.groups()
        if word is not None:
            continue
        key.append(text[end : match.start()])
        end = match.end()
        if string is not None:
            key.append("'")
            literals.append(string)
        else:
            # The spelling decides the type: integer, decimal or double.
            key.append("i" if number.isdigit() else "e" if "e" in number.lower() else "d")
            literals.append(number)
    key.append(text[end:])
    return tuple(key), literals


def _slots(text: str) -> dict[int, int]:
    starts = (m.start() for m in _SCAN.finditer(text) if m.group(2) is None)
    return {start: number for number, start in enumerate(starts)}


def _parse(text: str) -> exp.Expression:
    # Spark 4 reads 'it''s' as it's; the parser would join two texts. Same length, so
    # positions stay.
    plain = _DOUBLED.sub(
        lambda m: (
            "'" + m.group()[1:-1].replace("''", "\\'") + "'" if m.group()[0] == "'" else m.group()
        ),
        text,
    )
    try:
        tree = sqlglot.parse_one(plain, dialect="spark")
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        position = None
        if detail.get("line") and detail.get("col"):
            starts = list(itertools.accumulate((len(r) + 1 for r in text.split("\n")), initial=0))
            shown = detail.get("highlight") or " "
            position = starts[detail["line"] - 1] + detail["col"] - len(shown)
        if not text.strip():
            raise ConditionError("the condition is empty; write TRUE to match all events") from None
        what = re.sub(
            r"Required keyword: '(\w+)' missing for .*",
            "something is missing here",
            str(detail.get("description") or "it cannot be read"),
        )
        what = what.replace("Invalid expression / Unexpected token", "unexpected here")
        raise ConditionError(f"syntax error: {what}", position) from None
    except TokenError:
        position = text.rfind("'") if text.count("'") % 2 else None
        raise ConditionError("syntax error: a quote or comment is not closed", position) from None
    if isinstance(tree, exp.Alias):
        raise refuse("syntax error: unexpected here, AND or OR is missing", tree.args["alias"])
    return tree


class _Compiler:
    """Turns a parse into a tree of ('and' | 'or', children) over numbered leaves."""

    def __init__(self, schema: Schema, constants: Constants):
        self.schema = schema
        self.constants = constants
        self.leaves: list[_Leaf] = []

    def normal(self, node: exp.Expression, negated: bool) -> Any:
        while isinstance(node, exp.Paren | exp.Not):
            negated ^= isinstance(node, exp.Not)
            node = node.this
        if isinstance(node, exp.And | exp.Or):
            children: list[exp.Expression] = []
            stack: list[exp.Expression] = [node]
            while stack:  # a AND b AND c ... leans left: do not recurse down a long chain
                each = stack.pop()
                if type(each) is type(node):
                    stack += [each.expression, each.this]
                else:
                    children.append(each)
            junction = "and" if isinstance(node, exp.And) != negated else "or"
            return junction, [self.normal(child, negated) for child in children]
        if isinstance(node, exp.Between):
            if node.args.get("symmetric"):
                raise refuse("BETWEEN SYMMETRIC is not Spark's; write the lower bound first", node)
            attribute = self._attribute(node.this)
            junction = "or" if negated else "and"
            low = self._comparison(attribute, ">=", node.args["low"], negated, node)
            return junction, [low, self._comparison(attribute, "<=", node.args["high"], negated, node)]
        return self._leaf(node, negated)

    def _leaf(self, node: exp.Expression, negated: bool) -> int:
        if isinstance(node, exp.Column):
            attribute = self._attribute(node)
            if self.schema.kind(attribute) != "flag":
                raise refuse(
                    f"attribute {self.schema.name(attribute)!r} is "
                    f"{ARTICLE[self.schema.kind(attribute)]}, so it is no condition by itself; "
                    "compare it with something",
                    node,
                )
            key = int(not negated)
            return self._add(attribute, lambda s, c: Predicate(0, key, key))
        if isinstance(node, exp.Boolean | exp.Null):
            true = isinstance(node, exp.Boolean) and bool(node.this) != negated
            return self._add(-1, lambda s, c: _ALWAYS if true else None)
        if type(node) in _OPERATORS:
            return self._binary(node, negated)
        if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
            return self._null_safe(node, negated)
        if isinstance(node, exp.In):
            return self._in(node, negated)
        if isinstance(node, exp.Is):
            return self._is(node, negated)
        raise _refused(node)

    def _add(self, attribute: int, bind: Callable[[Literals, Codes], Predicate | None]) -> int:
        self.leaves.append(_Leaf(attribute, bind))
        return len(self.leaves) - 1

    def _attribute(self, node: exp.Expression) -> int:
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Column):
            raise _refused(node)
        if node.args.get("table"):
            raise refuse(
                f"{node.sql('spark')} is a qualified name; write the attribute's name alone, "
                "in backquotes if it has a dot",
                node,
            )
        try:
            return self.schema.index(node.name)
        except ConditionError as error:
            raise refuse(str(error), node) from None

    def _binary(self, node: exp.Expression, negated: bool) -> int:
        left, right = _unwrapped(node.this), _unwrapped(node.expression)
        columns = isinstance(left, exp.Column), isinstance(right, exp.Column)
        if all(columns):
            raise refuse(
                f"{node.sql('spark')} compares two columns; a condition tests attributes against "
                "constants. Compute the difference as a column of the events",
                node,
            )
        if columns[1]:
            attribute = self._attribute(right)
            return self._comparison(attribute, _MIRRORED[type(node)], left, negated, node)
        if columns[0]:
            attribute = self._attribute(left)
            return self._comparison(attribute, _OPERATORS[type(node)], right, negated, node)
        for side in (left, right):
            if side.find(exp.Column):
                raise _refused(side)
        return self._constants_compared(node, left, right, negated)

    def _comparison(
        self, attribute: int, operator: str, value: exp.Expression, negated: bool, node: Any
    ) -> int:
        if isinstance(_unwrapped(value), exp.Column) or value.find(exp.Column, exp.Query):
            raise _refused(_unwrapped(value)) if not isinstance(
                _unwrapped(value), exp.Column
            ) else refuse(
                f"{node.sql('spark')} compares two columns; a condition tests attributes against "
                "constants. Compute the difference as a column of the events",
                node,
            )
        if negated:
            operator = _NEGATED[operator]
        constant = self.constants.compile(value)
        if constant.type == "null":
            return self._add(attribute, lambda s, c: None)
        cuts = cutter(attribute, constant, self.schema)
        if operator not in ("=", "<>"):
            self._ordered(attribute, operator, node)
        return self._add(attribute, _comparing(operator, cuts))

    def _ordered(self, attribute: int, operator: str, node: exp.Expression) -> None:
        if self.schema.kind(attribute) == "category":
            raise refuse(
                f"attribute {self.schema.name(attribute)!r} is a category, and categories have no "
                f"order here ({operator}); use =, <> or IN, or declare what is ordered as a number",
                node,
            )

    def _constants_compared(
        self, node: Any, left: exp.Expression, right: exp.Expression, negated: bool
    ) -> int:
        a, b = self.constants.compile(left), self.constants.compile(right)
        numbers = ("integer", "decimal", "double")
        if "null" not in (a.type, b.type) and not (
            a.type == b.type or (a.type in numbers and b.type in numbers)
        ):
            raise refuse(f"{node.sql('spark')} compares constants of different kinds", node)
        as_doubles = "double" in (a.type, b.type)
        operator = _OPERATORS[type(node)]
        if negated:
            operator = _NEGATED[operator]

        def bind(s: Literals, _: Codes) -> Predicate | None:
            x, y = a.read(s), b.read(s)
            if x is None or y is None:
                return None
            if as_doubles:
                x, y = float(x), float(y)
            holds = {
                "<": x < y,
                "<=": x <= y,
                ">": x > y,
                ">=": x >= y,
                "=": x == y,
                "<>": x != y,
            }[operator]
            return _ALWAYS if holds else None

        return self._add(-1, bind)

    def _null_safe(self, node: exp.Expression, negated: bool) -> int:
        left, right = _unwrapped(node.this), _unwrapped(node.expression)
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            left, right = right, left
        attribute = self._attribute(left)
        if right.find(exp.Column, exp.Query):
            raise _refused(node)
        negated ^= isinstance(node, exp.NullSafeNEQ)
        constant = self.constants.compile(right)
        if constant.type == "null":
            return self._add(attribute, lambda s, c: NOT_NULL if negated else IS_NULL)
        cuts = cutter(attribute, constant, self.schema)
        if not negated:
            return self._add(attribute, _comparing("=", cuts))

        def differs(s: Literals, codes: Codes) -> Predicate | None:
            predicate = none_of(range(*cuts(s, codes)))
            return predicate if predicate.points else _ALWAYS

        return self._add(attribute, differs)

    def _in(self, node: exp.In, negated: bool) -> int:
        attribute = self._attribute(node.this)
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise refuse(
                f"{node.sql('spark')} asks a subquery; a condition tests attributes against "
                "constants. Write the values out, or keep them as rules of their own",
                node,
            )
        values = node.expressions
        if not values:
            raise refuse("syntax error: IN needs at least one value", node)
        for value in values:
            if value.find(exp.Column, exp.Query):
                raise _refused(_unwrapped(value))
        constants = [self.constants.compile(value) for value in values]
        if any(c.type == "double" for c in constants):
            # Spark compares the whole list in one type, also the column.
            constants = [
                c._replace(type="double", read=_as_double(c)) if c.type != "null" else c
                for c in constants
                if c.type in ("integer", "decimal", "double", "null")
                or _raise(mismatch(attribute, c, self.schema))
            ]
        has_null = any(c.type == "null" for c in constants)
        cuts = [cutter(attribute, c, self.schema) for c in constants if c.type != "null"]
        if negated and has_null:
            return self._add(attribute, lambda s, c: None)

        def points(s: Literals, codes: Codes) -> list[int]:
            return [p for cut in cuts for p in range(*cut(s, codes))]

        if negated:
            return self._add(attribute, lambda s, c: none_of([NULL, *points(s, c)]))
        return self._add(attribute, lambda s, c: one_of(points(s, c)))

    def _is(self, node: exp.Is, negated: bool) -> int:
        attribute = self._attribute(node.this)
        value = node.expression
        if isinstance(value, exp.Null):
            return self._add(attribute, lambda s, c: NOT_NULL if negated else IS_NULL)
        if isinstance(value, exp.Boolean):
            if self.schema.kind(attribute) != "flag":
                constant = Constant("flag", lambda _: None, value)
                raise mismatch(attribute, constant, self.schema)
            key = int(value.this)
            return self._add(
                attribute, lambda s, c: none_of([key]) if negated else Predicate(0, key, key)
            )
        raise refuse(
            "syntax error: IS is followed by [NOT] NULL, TRUE or FALSE; use = for a value", node
        )


def _comparing(
    operator: str, cuts: Callable[[Literals, Codes], tuple[int, int]]
) -> Callable[[Literals, Codes], Predicate | None]:
    def less(s: Literals, c: Codes) -> Predicate | None:
        return interval(LOWEST, cuts(s, c)[0] - 1)

    def at_most(s: Literals, c: Codes) -> Predicate | None:
        return interval(LOWEST, cuts(s, c)[1] - 1)

    def greater(s: Literals, c: Codes) -> Predicate | None:
        return interval(cuts(s, c)[1], HIGHEST)

    def at_least(s: Literals, c: Codes) -> Predicate | None:
        return interval(cuts(s, c)[0], HIGHEST)

    def equal(s: Literals, c: Codes) -> Predicate | None:
        least, above = cuts(s, c)
        return interval(least, above - 1)

    def unequal(s: Literals, c: Codes) -> Predicate | None:
        return none_of([NULL, *range(*cuts(s, c))])

    return {
        "<": less,
        "<=": at_most,
        ">": greater,
        ">=": at_least,
        "=": equal,
        "<>": unequal,
    }[operator]


def _as_double(constant: Constant) -> Callable[[Literals], float]:
    return lambda s: float(constant.read(s))


def _raise(error: ConditionError) -> bool:
    raise error


def _unwrapped(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _refused(node: exp.Expression) -> ConditionError:
    shown = node.sql("spark")
    if isinstance(node, exp.Query | exp.Exists | exp.Subquery | exp.All | exp.Any):
        return refuse(
            f"{shown} is a subquery; a condition tests attributes against constants. "
            "Join the events beforehand, or keep the values as rules of their own",
            node,
        )
    if isinstance(node, exp.Like | exp.ILike | exp.RegexpLike | exp.SimilarTo):
        return refuse(
            f"{shown} matches a pattern; categories are tested by =, <> and IN only. "
            "Compute the test as a flag column of the events",
            node,
        )
    if isinstance(node, exp.Literal):
        return refuse(f"{shown} is a constant, not a condition; compare an attribute with it", node)
    if isinstance(node, exp.Cast | exp.TryCast):
        return refuse(
            f"{shown} casts an attribute; declare it in the schema as the kind you need, "
            "or cast the column of the events",
            node,
        )
    if isinstance(node, exp.Func) or isinstance(node, exp.Anonymous):
        return refuse(
            f"{shown} is a function; a condition tests attributes as they are. "
            "Compute it as a column of the events",
            node,
        )
    if isinstance(node, exp.Neg | exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.IntDiv):
        return refuse(
            f"{shown} is arithmetic on an attribute; move it to the constant's side, "
            "or compute it as a column of the events",
            node,
        )
    if isinstance(node, exp.Predicate | exp.Not | exp.And | exp.Or):
        return refuse(
            f"{shown} is a condition inside a comparison; use it by itself, or after NOT", node
        )
    return refuse(
        f"{shown} is not a condition; expected tests such as x > 5, tier IN ('gold') or x IS NULL, "
        "joined by AND, OR and NOT",
        node,
    )


def _count(tree: Any) -> int:
    if isinstance(tree, int):
        return 1
    junction, children = tree
    counts = [_count(child) for child in children]
    if junction == "or":
        return sum(counts)
    product = 1
    for count in counts:
        product *= count
    return product


def _distribute(tree: Any) -> list[list[int]]:
    if isinstance(tree, int):
        return [[tree]]
    junction, children = tree
    parts = [_distribute(child) for child in children]
    if junction == "or":
        return [conjunction for part in parts for conjunction in part]
    return [list(itertools.chain(*choice)) for choice in itertools.product(*parts)]
