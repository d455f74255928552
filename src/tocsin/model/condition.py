"""Reads conditions: SQL text to disjunctive normal form, an OR of conjunctions of predicates.

sqlglot parses the text in Spark's dialect. NOT is pushed down to the leaves, where two-valued
logic is enough: a comparison with null is not true, negated or not. AND is distributed over OR,
and each leaf becomes a predicate on keys.

Parsing, resolving names, checking types and distributing depend only on the *form* of a text.
They are done once per form. Another text of the same form is only scanned for its literals, which
are then bound. 100,000 rules of 20 forms parse 20 times. Texts have the same form if they have
the same skeleton (`scanning.py`) and equal *fixed* literals: those that the form does not bind,
such as the 10 in CAST('1.5' AS DECIMAL(10, 2)) and the 3.6 in x * 3.6 > 5. Of the pattern in
LIKE 'ABC%' only the length is fixed, so that prefixes share forms, too.

These raise an error: functions that are not in the list of `terms`, the order of categories (their
codes are not ordered), comparisons of text with numbers (Spark casts, with surprising results), and
more than `MAX_CONJUNCTIONS` conjunctions (each costs as much as a rule, and ANDs of ORs can have
millions).
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, TokenError

from tocsin.errors import ConditionError, ShapeError, is_unicode, shorten
from tocsin.geometry.shape import Shape, read_wkt
from tocsin.model.attributes import Attributes
from tocsin.model.categories import Categories
from tocsin.model.constants import Constants, Literals, Signature
from tocsin.model.leaves import Compiler, Leaf
from tocsin.model.nodes import PARSER_ERRORS, error_at, to_sql
from tocsin.model.normal_form import (
    MAX_COUNT,
    Tree,
    count,
    distribute,
    find_impossible,
    group_by_attribute,
)
from tocsin.model.predicates import Predicate, intersect, unite_points
from tocsin.model.residuals import Residual
from tocsin.model.scanning import Slot, is_plain, locate, scan
from tocsin.model.schema import Schema
from tocsin.model.shape_leaves import ResidualLeaf

# Of one rule. Each costs as much as a rule of one conjunction: an OR of n ranges was measured to
# take 110 n bytes, and to match like n rules. But no form saves the first parse, which holds up
# all other changes: a third of a second for 1,024 ranges, over a second for 4,096.
MAX_CONJUNCTIONS = 1_024
_MAX_CACHED = 10_000  # conjunctions of cached forms, chosen: more than people write by hand

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)

# Conjunctions of (attribute, predicate), ordered by attribute.
NormalForm = list[list[tuple[int, Predicate]]]


class ReadCondition(NamedTuple):
    """A condition as an OR of conjunctions."""

    conjunctions: NormalForm
    attributes: frozenset[int]  # that it tests
    residuals: list[list[Residual]]  # of each conjunction; empty if none has any


_QUOTED = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL
)
_POLYGON = re.compile(r"ST_GeomFromText\s*\(\s*'([^']*)'", re.IGNORECASE)
_DOUBLED = re.compile(r"\\.|''", re.DOTALL)


class _Form(NamedTuple):
    """What texts that differ only in their literals share."""

    leaves: list[Leaf]
    unions: dict[int, list[int]]  # leaves that unite other leaves, in an order to compute them
    tree: Tree
    conjunctions: list[list[tuple[int, list[int]]]]  # (attribute, numbers of its leaves)
    only: list[tuple[int, int]]  # the only conjunction, if there is one test of each attribute
    attributes: frozenset[int]
    residuals: dict[int, ResidualLeaf]  # by number of their leaf

    def bind(self, literals: Literals, categories: Categories) -> list[Predicate | None]:
        """Return the predicates of all leaves, for the text with these literals."""
        predicates = [leaf.bind(literals, categories) for leaf in self.leaves]
        for union, numbers in self.unions.items():
            predicates[union] = unite_points([predicates[n] for n in numbers])
        return predicates

    def combine(self, predicates: list[Predicate | None]) -> tuple[NormalForm, list[int]]:
        """Return the conjunctions of these predicates that are satisfiable, and their numbers."""
        if self.only and None not in predicates:
            return [[(attribute, predicates[n]) for attribute, n in self.only]], [0]  # type: ignore[misc]
        satisfiable: NormalForm = []
        kept = []
        for number, tests in enumerate(self.conjunctions):
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
                kept.append(number)
        return satisfiable, kept

    def bind_residuals(self, literals: Literals, kept: list[int]) -> list[list[Residual]]:
        """Return the residuals of the conjunctions with these numbers; [] if none has any."""
        if not self.residuals:
            return []
        bound = {n: leaf.residual(literals) for n, leaf in self.residuals.items()}
        leaves = [[n for _, own in self.conjunctions[i] for n in own if n in bound] for i in kept]
        return [list(dict.fromkeys(bound[n] for n in own)) for own in leaves]

    def find_impossible(self, predicates: list[Predicate | None]) -> list[Tree]:
        """Return the parts of the text that never hold."""
        return find_impossible(
            self.tree, predicates, lambda n: self.leaves[n].attribute, self.unions
        )


class _Forms:
    """The forms of one skeleton, by the values of the fixed literals."""

    def __init__(self) -> None:
        self._fixed: list[int] = []
        self._signatures: dict[int, Signature] = {}
        self._by_values: dict[tuple[Hashable, ...], _Form] = {}

    def find(self, literals: Literals) -> _Form | None:
        """Return the form of the text with these literals, or None if it is not known."""
        return self._by_values.get(self._values(literals))

    def add(self, literals: Literals, constants: Constants, form: _Form) -> None:
        """Add the form of the text with these literals, which `constants` were compiled from."""
        fixed = set(range(len(literals))) - constants.bound
        if (
            not fixed.issubset(self._fixed)
            or not constants.signatures.keys() <= self._signatures.keys()
        ):
            self._fixed = sorted(fixed.union(self._fixed))
            self._signatures |= constants.signatures
            self._by_values.clear()
        self._by_values[self._values(literals)] = form

    def _values(self, literals: Literals) -> tuple[Hashable, ...]:
        if not self._fixed:
            return ()
        if not self._signatures:
            return tuple([literals[n] for n in self._fixed])
        return tuple([self._signatures.get(n, str)(literals[n]) for n in self._fixed])


class ConditionReader:
    """Reads conditions over one schema, and caches their forms.

    >>> categories = Categories()
    >>> reader = ConditionReader(Schema({"n": "integer", "tier": "category"}))
    >>> reader.read("n BETWEEN 3 AND 8 AND tier <> 'gold'", categories)[0]
    [[(0, Predicate(kind=0, low=3, high=8, points=())), \
(1, Predicate(kind=2, low=0, high=0, points=(-9223372036854775808, 1)))]]
    """

    def __init__(self, schema: Schema, point: tuple[str, str] | None = None):
        self.point = point  # what the shapes in a table of rules are about
        self.attributes = schema if isinstance(schema, Attributes) else Attributes(schema)
        self._truncations = self.attributes.truncations
        self._forms: dict[str, _Forms] = {}  # by skeleton
        self._cached = 0  # conjunctions of these forms
        self._polygons: dict[str, Shape] = {}  # by their texts, with the edge; see `reading_ahead`
        self.has_impossible_part = False  # in the text that was read last: some part never holds

    def read(self, text: str, categories: Categories) -> ReadCondition:
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
            self._forms.clear()
            self._cached, self._truncations = 0, self.attributes.truncations
        skeleton, literals = scan(text)
        forms = self._forms.get(skeleton)
        form = None if forms is None else forms.find(literals)
        if form is None:
            form = self._add_form(text, skeleton, literals)
        try:
            return self._bind(form, literals, categories)
        except ConditionError:
            # The form may be that of another text, with other positions.
            return self._read_unshared(text, categories)

    @contextlib.contextmanager
    def reading_ahead(self, texts: Sequence[str | None]) -> Iterator[None]:
        """Read the polygons of all texts at once, which takes a tenth of the time of one by one."""
        found = {
            each for text in texts if text and "ST_" in text for each in _POLYGON.findall(text)
        }
        with contextlib.suppress(ShapeError):  # one by one, the first bad one is found
            if found:
                self._polygons.update(zip(found, read_wkt(list(found)), strict=True))
        try:
            yield
        finally:
            self._polygons.clear()

    def describe_impossible(self, text: str, categories: Categories) -> list[ConditionError]:
        """Return a message for each part of a valid condition that never holds; it is not raised.

        This is slow; `has_impossible_part` tells after `read` whether there are such parts.
        """
        form, compiler = self._compile(text, {})
        found = []
        predicates = form.bind([], categories)
        for part in form.find_impossible(predicates):
            node, negated = compiler.sources[part] if isinstance(part, int) else part.source
            message = f"{'NOT ' * negated}{to_sql(node)} never holds"
            if not form.combine(predicates)[0]:
                message = f"no event can satisfy this condition: {message}"
            if node.find(exp.Null) and not isinstance(node, exp.Connector | exp.Is):
                message += "; to test for null, use IS NULL"
            found.append(error_at(message, node).with_text(text))
        return found

    def _bind(self, form: _Form, literals: Literals, categories: Categories) -> ReadCondition:
        predicates = form.bind(literals, categories)
        normal_form, kept = form.combine(predicates)
        self.has_impossible_part = (
            len(normal_form) < len(form.conjunctions) or (bool(form.unions) and None in predicates)
        ) and bool(form.find_impossible(predicates))
        return ReadCondition(normal_form, form.attributes, form.bind_residuals(literals, kept))

    def _add_form(self, text: str, skeleton: str, literals: list[str]) -> _Form:
        form, compiler = self._compile(text, locate(text))
        self._cached += len(form.conjunctions)
        if self._cached > _MAX_CACHED:
            self._forms.clear()
            self._cached = len(form.conjunctions)
        forms = self._forms.setdefault(skeleton, _Forms())
        forms.add(literals, compiler.constants, form)
        return form

    def _read_unshared(self, text: str, categories: Categories) -> ReadCondition:
        try:
            form, _ = self._compile(text, {})
            return self._bind(form, [], categories)
        except ConditionError as error:
            raise error.with_text(text) from None

    def _compile(self, text: str, slots: Mapping[int, Slot]) -> tuple[_Form, Compiler]:
        """Return the form of a text, and the compiler that has compiled it."""
        try:
            parsed = _parse(text)
            constants = Constants(self.attributes, text, slots)
            compiler = Compiler(self.attributes, constants, self._polygons)
            tree = compiler.normalise(parsed, False)
            size = count(tree)
            if size > MAX_CONJUNCTIONS:
                shown = f"{size:,}" if size < MAX_COUNT else f"over {MAX_COUNT:,}"
                raise ConditionError(
                    f"the condition expands to {shown} conjunctions, but a rule can have at most "
                    f"{MAX_CONJUNCTIONS:,}, since each costs as much as a rule of its own; use IN "
                    "for several values of one attribute, or split it into several rules"
                )
        except ConditionError as error:
            raise error.with_text(text) from None
        except RecursionError:
            raise ConditionError("the condition is nested too deeply") from None
        leaves = compiler.leaves
        conjunctions = [
            group_by_attribute(numbers, lambda n: leaves[n].attribute)
            for numbers in distribute(tree)
        ]
        attributes = frozenset(leaf.attribute for leaf in leaves) - {-1}
        only = [(attribute, numbers[0]) for attribute, numbers in conjunctions[0]]
        if len(conjunctions) > 1 or len(only) < len(leaves) or -1 in dict(only):
            only = []
        residuals = compiler.shapes.residuals
        form = _Form(leaves, compiler.unions, tree, conjunctions, only, attributes, residuals)
        return form, compiler


def _escape(match: re.Match[str]) -> str:
    return "\\'" if match.group() == "''" else match.group()


def _cut_semicolon(text: str) -> str:
    """Return a text without a semicolon at its end; raise if something follows it."""
    plain = _QUOTED.sub(lambda m: " " * len(m.group()), text)
    end = plain.find(";")
    if end >= 0 and plain[end + 1 :].strip():
        raise ConditionError("syntax error: a condition ends at a semicolon; leave it out", end)
    return text[:end] if end >= 0 else text


def _check_commas(tokens: Sequence[Any]) -> None:
    """Raise if a bracket is not closed, or nothing is beside a comma; sqlglot often allows that."""
    opened, before = [], None
    for token in tokens:
        type_ = token.token_type
        if type_ in _OPENING:
            opened.append(token.start)
        elif type_ in _CLOSING and opened:
            opened.pop()
        if (type_ == TokenType.COMMA and (before == TokenType.COMMA or before in _OPENING)) or (
            before == TokenType.COMMA and type_ in _CLOSING
        ):
            raise ConditionError("syntax error: something is missing here", token.start)
        before = type_
    if opened:
        raise ConditionError("syntax error: this bracket is not closed", opened[-1])


def _check_keywords(tokens: Sequence[Any], tree: exp.Expr) -> None:
    """Raise if a BETWEEN has no AND, or a WHEN no THEN; sqlglot allows that."""
    found = Counter(token.token_type for token in tokens)
    if found[TokenType.WHEN] != found[TokenType.THEN]:
        raise ConditionError("syntax error: a WHEN has no THEN")
    # `x BETWEEN 3 8 AND y > 5` has one AND for two nodes.
    if found[TokenType.BETWEEN] and found[TokenType.AND] != sum(
        isinstance(node, exp.And | exp.Between) for node in tree.walk()
    ):
        raise ConditionError("syntax error: a BETWEEN has no AND")


def _parse(text: str) -> Any:
    # Spark 4 reads 'it''s' as it's, sqlglot as two texts. A backslash in place of the first quote
    # keeps all positions.
    escaped = _QUOTED.sub(
        lambda m: (
            "'" + _DOUBLED.sub(_escape, m.group()[1:-1]) + "'" if m.group()[0] == "'" else m.group()
        ),
        text,
    )
    if ";" in text:
        escaped = _cut_semicolon(escaped)
    try:
        tokens = sqlglot.tokenize(escaped, dialect="spark")
        _check_commas(tokens)
        tree = sqlglot.parse_one(escaped, dialect="spark")
        _check_keywords(tokens, tree)
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
        if "<Token" in problem:
            problem = "it cannot be parsed"
        if ">>>" in _QUOTED.sub("", text):
            problem += "; write shiftrightunsigned(a, n) for a >>> n"
        raise ConditionError(f"syntax error: {problem}", position) from None
    except TokenError:
        position = text.rfind("'") if text.count("'") % 2 else None
        raise ConditionError("syntax error: a quote or comment is not closed", position) from None
    except PARSER_ERRORS:
        raise ConditionError("syntax error: a function has arguments it cannot have") from None
    tree.meta["text"] = text  # for names as they are written
    if isinstance(tree, exp.Alias):
        raise error_at("syntax error: unexpected here, AND or OR is missing", tree.args["alias"])
    return tree
