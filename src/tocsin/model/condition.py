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
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from tocsin.errors import ConditionError, is_unicode, shortened
from tocsin.model.categories import Categories
from tocsin.model.constants import Constants, Literals, refuse
from tocsin.model.leaves import Compiler, Leaf
from tocsin.model.predicates import Predicate, meet
from tocsin.model.schema import Schema

MOST_CONJUNCTIONS = 64
_SHAPES_KEPT = 10_000
_UNCOUNTED = 1_000_000  # conjunctions; n times (a OR b) would be 2**n

Bound = list[list[tuple[int, Predicate]]]  # conjunctions of (attribute, predicate), by attribute

# Strings, backquoted names, words and numbers, as far as they are plain. A text with
# an escape, a comment or a double quote is parsed on its own.
# Digits are 0 to 9: Unicode has others, which are no numbers in SQL.
_SCAN = re.compile(
    r"'([^']*)'|([^\W\d]\w*|`[^`]*`)|([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)"
)
_NOT_PLAIN = re.compile(r"""\\|"|--|/\*|''""")
_QUOTED = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL
)
_DOUBLED = re.compile(r"\\.|''", re.DOTALL)


class _Shape(NamedTuple):
    """What texts that differ only in their literals have in common."""

    leaves: list[Leaf]
    conjunctions: list[list[tuple[int, list[int]]]]  # (attribute, leaves that test it)
    attributes: frozenset[int]

    def bind(self, literals: Literals, categories: Categories) -> Bound:
        bound = [leaf.bind(literals, categories) for leaf in self.leaves]
        kept: Bound = []
        for tests in self.conjunctions:
            conjunction: list[tuple[int, Predicate]] = []
            for attribute, numbers in tests:
                if len(numbers) == 1:
                    predicate = bound[numbers[0]]
                    if predicate is None:
                        break
                    if attribute >= 0:
                        conjunction.append((attribute, predicate))
                    continue
                several = [bound[n] for n in numbers]
                met = None if None in several else meet(several)  # type: ignore[arg-type]
                if met is None:
                    break
                if attribute >= 0:
                    conjunction.extend((attribute, p) for p in met)
            else:
                kept.append(conjunction)
        return kept


class Conditions:
    """Reads conditions over one schema, remembering the shapes it has seen.

    >>> categories = Categories()
    >>> conditions = Conditions(Schema({"n": "integer", "tier": "category"}))
    >>> conditions.read("n BETWEEN 3 AND 8 AND tier <> 'gold'", categories)[0]
    [[(0, Predicate(kind=0, low=3, high=8, points=())), \
(1, Predicate(kind=2, low=0, high=0, points=(-9223372036854775808, 1)))]]
    """

    def __init__(self, schema: Schema):
        self.schema = schema
        self._shapes: dict[tuple[str, ...], _Shape] = {}

    def read(self, text: str, categories: Categories) -> tuple[Bound, frozenset[int]]:
        """Return the conjunctions of a condition and the attributes it tests.

        `categories` grows by the values that it mentions.
        """
        if not isinstance(text, str):
            raise ConditionError(f"a condition must be a text, got {type(text).__name__} {text!r}")
        if not is_unicode(text):
            shown = shortened(repr(text), 200)
            raise ConditionError(f"the condition {shown} is not valid Unicode")
        if _NOT_PLAIN.search(text):
            return self._read_alone(text, categories)
        shape_key, literals = _scan(text)
        shape = self._shapes.get(shape_key)
        if shape is None:
            shape, shared = self._shape(text, literals)
            if shared:
                if len(self._shapes) >= _SHAPES_KEPT:
                    self._shapes.clear()
                self._shapes[shape_key] = shape
        try:
            return shape.bind(literals, categories), shape.attributes
        except ConditionError:
            # The shape may stem from another text: only this one has the right positions.
            return self._read_alone(text, categories)

    def _read_alone(self, text: str, categories: Categories) -> tuple[Bound, frozenset[int]]:
        try:
            shape, _ = self._shape(text, [])
            return shape.bind([], categories), shape.attributes
        except ConditionError as error:
            raise error.in_text(text) from None

    def _shape(self, text: str, literals: list[str]) -> tuple[_Shape, bool]:
        """Return a text's shape, and whether other texts may use it."""
        try:
            tree = _parse(text)
            slots = _slots(text) if literals else {}
            compiler = Compiler(self.schema, Constants(self.schema, text, slots))
            normal = compiler.normal(tree, False)
            count = _count(normal)
            if count > MOST_CONJUNCTIONS:
                spelled = f"{count:,}" if count < _UNCOUNTED else f"over {_UNCOUNTED:,}"
                raise ConditionError(
                    f"the condition expands to {spelled} conjunctions, but a rule can have at most "
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


def _escaped(match: re.Match[str]) -> str:
    return "\\'" if match.group() == "''" else match.group()


def _parse(text: str) -> Any:
    # Spark 4 reads 'it''s' as it's; the parser would join two texts. Same length, so
    # positions stay.
    plain = _QUOTED.sub(
        lambda m: (
            "'" + _DOUBLED.sub(_escaped, m.group()[1:-1]) + "'"
            if m.group()[0] == "'"
            else m.group()
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


def _count(tree: Any) -> int:
    if isinstance(tree, int):
        return 1
    junction, children = tree
    counts = [_count(child) for child in children]
    if junction == "or":
        return min(sum(counts), _UNCOUNTED)
    product = 1
    for count in counts:
        product = min(product * count, _UNCOUNTED)
    return product


def _distribute(tree: Any) -> list[list[int]]:
    if isinstance(tree, int):
        return [[tree]]
    junction, children = tree
    parts = [_distribute(child) for child in children]
    if junction == "or":
        return [conjunction for part in parts for conjunction in part]
    return [list(itertools.chain(*choice)) for choice in itertools.product(*parts)]
