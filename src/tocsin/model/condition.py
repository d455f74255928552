"""Reads conditions: SQL text to disjunctive normal form, an OR of conjunctions of predicates.

sqlglot parses the text in Spark's dialect. NOT is pushed down to the leaves, where two-valued
logic is enough: a comparison with null is not true, negated or not. AND is distributed over OR,
and each leaf becomes a predicate on keys.

Parsing, resolving names, checking types and distributing depend only on the *shape* of a text.
They are done once per shape. Another text of the same shape is only scanned for its literals, which
are then bound. 100,000 rules of 20 shapes parse 20 times. Texts have the same shape if they have
the same skeleton (`scanning.py`) and equal *fixed* literals: those that the shape does not bind,
such as the 10 in CAST('1.5' AS DECIMAL(10, 2)).

These raise an error: functions that are not in the list of `terms`, the order of categories (their
codes are not ordered), comparisons of text with numbers (Spark casts, with surprising results), and more than 64 conjunctions (better split into several rules).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from tocsin.errors import ConditionError, is_unicode, shorten
from tocsin.model.attributes import Attributes
from tocsin.model.categories import Categories
from tocsin.model.constants import Constants, Literals
from tocsin.model.leaves import Compiler, Leaf
from tocsin.model.nodes import error_at
from tocsin.model.predicates import Predicate, intersect
from tocsin.model.scanning import Slot, is_plain, locate, scan
from tocsin.model.schema import Schema

MAX_CONJUNCTIONS = 64
_MAX_SHAPES = 10_000  # cached, chosen: more than people write by hand
_MAX_COUNT = 1_000_000  # conjunctions to count; (a OR b) n times has 2**n

# Conjunctions of (attribute, predicate), ordered by attribute.
NormalForm = list[list[tuple[int, Predicate]]]

_QUOTED = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL
)
_DOUBLED = re.compile(r"\\.|''", re.DOTALL)


class _Shape(NamedTuple):
    """What texts that differ only in their literals share."""

    leaves: list[Leaf]
    conjunctions: list[list[tuple[int, list[int]]]]  # (attribute, numbers of its leaves)
    attributes: frozenset[int]

    def bind(self, literals: Literals, categories: Categories) -> NormalForm:
        """Return the conjunctions of the text with these literals, without unsatisfiable ones."""
        predicates = [leaf.bind(literals, categories) for leaf in self.leaves]
        satisfiable: NormalForm = []
        for tests in self.conjunctions:
            conjunction: list[tuple[int, Predicate]] = []
            for attribute, numbers in tests:
                if len(numbers) == 1:
                    predicate = predicates[numbers[0]]
                    if predicate is None:
                        break
                    if attribute >= 0:
                        conjunction.append((attribute, predicate))
                    continue
                several = [predicates[n] for n in numbers]
                common = None if None in several else intersect(several)  # type: ignore[arg-type]
                if common is None:
                    break
                if attribute >= 0:
                    conjunction.extend((attribute, p) for p in common)
            else:
                satisfiable.append(conjunction)
        return satisfiable


class _Shapes:
    """The shapes of one skeleton, by the values of the fixed literals."""

    def __init__(self) -> None:
        self._fixed: list[int] = []
        self._by_values: dict[tuple[str, ...], _Shape] = {}

    def find(self, literals: Literals) -> _Shape | None:
        """Return the shape of the text with these literals, or None if it is not known."""
        return self._by_values.get(tuple([literals[n] for n in self._fixed]))

    def add(self, literals: Literals, fixed: set[int], shape: _Shape) -> None:
        """Add the shape of the text with these literals; `fixed` are numbers of literals."""
        if not fixed.issubset(self._fixed):
            self._fixed = sorted(fixed.union(self._fixed))
            self._by_values.clear()
        self._by_values[tuple([literals[n] for n in self._fixed])] = shape


class ConditionReader:
    """Reads conditions over one schema, and caches their shapes.

    >>> categories = Categories()
    >>> reader = ConditionReader(Schema({"n": "integer", "tier": "category"}))
    >>> reader.read("n BETWEEN 3 AND 8 AND tier <> 'gold'", categories)[0]
    [[(0, Predicate(kind=0, low=3, high=8, points=())), \
(1, Predicate(kind=2, low=0, high=0, points=(-9223372036854775808, 1)))]]
    """

    def __init__(self, schema: Schema):
        self.attributes = schema if isinstance(schema, Attributes) else Attributes(schema)
        self._truncations = self.attributes.truncations
        self._shapes: dict[str, _Shapes] = {}  # by skeleton
        self._shape_count = 0

    def read(self, text: str, categories: Categories) -> tuple[NormalForm, frozenset[int]]:
        """Return the conjunctions of a condition and the attributes that it tests.

        Adds the category values in the text to `categories`.
        """
        if not isinstance(text, str):
            raise ConditionError(f"a condition must be a text, got {type(text).__name__} {text!r}")
        if not is_unicode(text):
            shown = shorten(repr(text), 200)
            raise ConditionError(f"the condition {shown} is not valid Unicode")
        if not is_plain(text):
            return self._read_unshared(text, categories)
        if self._truncations != self.attributes.truncations:
            # A change was undone, and the numbers of its terms are used again.
            self._shapes.clear()
            self._shape_count, self._truncations = 0, self.attributes.truncations
        skeleton, literals = scan(text)
        shapes = self._shapes.get(skeleton)
        shape = None if shapes is None else shapes.find(literals)
        if shape is None:
            shape = self._add_shape(text, skeleton, literals)
        try:
            return shape.bind(literals, categories), shape.attributes
        except ConditionError:
            # The shape may be that of another text, with other positions.
            return self._read_unshared(text, categories)

    def _add_shape(self, text: str, skeleton: str, literals: list[str]) -> _Shape:
        shape, bound = self._compile(text, locate(text))
        if self._shape_count >= _MAX_SHAPES:
            self._shapes.clear()
            self._shape_count = 0
        self._shape_count += 1
        shapes = self._shapes.setdefault(skeleton, _Shapes())
        shapes.add(literals, set(range(len(literals))) - bound, shape)
        return shape

    def _read_unshared(
        self, text: str, categories: Categories
    ) -> tuple[NormalForm, frozenset[int]]:
        try:
            shape, _ = self._compile(text, {})
            return shape.bind([], categories), shape.attributes
        except ConditionError as error:
            raise error.with_text(text) from None

    def _compile(self, text: str, slots: Mapping[int, Slot]) -> tuple[_Shape, set[int]]:
        """Return the shape of a text, and the numbers of the literals that it binds."""
        try:
            tree = _parse(text)
            compiler = Compiler(self.attributes, Constants(self.attributes, text, slots))
            normal = compiler.normalise(tree, False)
            count = _count(normal)
            if count > MAX_CONJUNCTIONS:
                shown = f"{count:,}" if count < _MAX_COUNT else f"over {_MAX_COUNT:,}"
                raise ConditionError(
                    f"the condition expands to {shown} conjunctions, but a rule can have at most "
                    f"{MAX_CONJUNCTIONS}; use IN for several values of one attribute, or "
                    "split it into several rules"
                )
        except ConditionError as error:
            raise error.with_text(text) from None
        except RecursionError:
            raise ConditionError("the condition is nested too deeply") from None
        conjunctions = []
        for numbers in _distribute(normal):
            by_attribute: dict[int, list[int]] = {}
            for number in numbers:
                by_attribute.setdefault(compiler.leaves[number].attribute, []).append(number)
            conjunctions.append(sorted(by_attribute.items()))
        attributes = frozenset(leaf.attribute for leaf in compiler.leaves) - {-1}
        shape = _Shape(compiler.leaves, conjunctions, attributes)
        return shape, compiler.constants.bound


def _escape(match: re.Match[str]) -> str:
    return "\\'" if match.group() == "''" else match.group()


def _parse(text: str) -> Any:
    # Spark 4 reads 'it''s' as it's, sqlglot as two texts. A backslash in place of the first quote
    # keeps all positions.
    escaped = _QUOTED.sub(
        lambda m: (
            "'" + _DOUBLED.sub(_escape, m.group()[1:-1]) + "'" if m.group()[0] == "'" else m.group()
        ),
        text,
    )
    try:
        tree = sqlglot.parse_one(escaped, dialect="spark")
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        position = None
        if detail.get("line") and detail.get("col"):
            starts = list(itertools.accumulate((len(r) + 1 for r in text.split("\n")), initial=0))
            token = detail.get("highlight") or " "
            position = starts[detail["line"] - 1] + detail["col"] - len(token)
        if not text.strip():
            raise ConditionError("the condition is empty; write TRUE to match all events") from None
        problem = re.sub(
            r"Required keyword: '(\w+)' missing for .*",
            "something is missing here",
            str(detail.get("description") or "it cannot be parsed"),
        )
        problem = problem.replace("Invalid expression / Unexpected token", "unexpected here")
        raise ConditionError(f"syntax error: {problem}", position) from None
    except TokenError:
        position = text.rfind("'") if text.count("'") % 2 else None
        raise ConditionError("syntax error: a quote or comment is not closed", position) from None
    if isinstance(tree, exp.Alias):
        raise error_at("syntax error: unexpected here, AND or OR is missing", tree.args["alias"])
    return tree


def _count(tree: Any) -> int:
    """Return how many conjunctions a tree has, or `_MAX_COUNT` if there are more."""
    if isinstance(tree, int):
        return 1
    junction, children = tree
    counts = [_count(child) for child in children]
    if junction == "or":
        return min(sum(counts), _MAX_COUNT)
    product = 1
    for count in counts:
        product = min(product * count, _MAX_COUNT)
    return product


def _distribute(tree: Any) -> list[list[int]]:
    """Return the conjunctions of a tree, each a list of leaf numbers."""
    if isinstance(tree, int):
        return [[tree]]
    junction, children = tree
    branches = [_distribute(child) for child in children]
    if junction == "or":
        return [conjunction for branch in branches for conjunction in branch]
    return [list(itertools.chain(*choice)) for choice in itertools.product(*branches)]
