"""Conditions as trees of tuples, with their meaning in plain Python and their text in SQL.

This module shares no code with the library. A tree is one of:

    ("and", [tree, ...])  ("or", [tree, ...])  ("not", tree)  ("const", True | False | None)
    ("cmp", term, "<=", literal)  ("between", term, low, high)  ("in", term, [literal, ...])
    ("null", term)

A term is the name of a column, or ("+", name, name), a sum of two number columns. A row is a dict;
a value that is known as a range is a dict of `low` and `high`.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

Tree = tuple
Row = dict[str, Any]

_OPERATORS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}


def truth(tree: Tree, row: Row) -> bool | None:
    """Return the three-valued truth of a condition; None is unknown."""
    match tree:
        case ("const", constant):
            return constant
        case ("not", part):
            inner = truth(part, row)
            return None if inner is None else not inner
        case ("and", parts):
            truths = [truth(part, row) for part in parts]
            return False if False in truths else None if None in truths else True
        case ("or", parts):
            truths = [truth(part, row) for part in parts]
            return True if True in truths else None if None in truths else False
        case ("null", term):
            return _value(term, row) is None
        case ("between", term, low, high):
            return truth(("and", [("cmp", term, ">=", low), ("cmp", term, "<=", high)]), row)
        case ("in", term, literals):
            return truth(("or", [("cmp", term, "=", literal) for literal in literals]), row)
        case ("cmp", term, operator, literal):
            value = _value(term, row)
            if value is None or literal is None:
                return None
            return _OPERATORS[operator](_comparable(value), _comparable(_like(literal, value)))
    raise TypeError(f"not a condition: {tree!r}")


def holds(tree: Tree, row: Row) -> bool:
    """Return whether a condition is true.

    If the row has ranges, all predicates on a range of some conjunction must be true for the same
    value in it.
    """
    if not any(isinstance(value, dict) for value in row.values()):
        return truth(tree, row) is True
    return any(_conjunction_holds(leaves, row) for leaves in conjunctions(normal_form(tree)))


def _conjunction_holds(leaves: list[Tree], row: Row) -> bool:
    for column in {predicate(leaf)[1] for leaf in leaves}:
        own = [leaf for leaf in leaves if predicate(leaf)[1] == column]
        values = [row.get(column)]
        if isinstance(values[0], dict):
            low, high = values[0]["low"], values[0]["high"]
            kind = "number" if isinstance(low, float) else "integer"
            nearby = [value for leaf in own for value in neighbours(predicate(leaf), kind)]
            values = [low, high, *(value for value in nearby if low <= value <= high)]
        if not any(all(truth(leaf, row | {column: v}) is True for leaf in own) for v in values):
            return False
    return True


def _value(term: Any, row: Row) -> Any:
    if isinstance(term, str):
        return row.get(term)
    _, left, right = term
    if row.get(left) is None or row.get(right) is None:
        return None
    return row[left] + row[right]


def _like(literal: Any, value: Any) -> Any:
    """Return a literal as it is compared with a value: as a double with a double."""
    return float(literal) if isinstance(value, float) else literal


def _comparable(value: Any) -> Any:
    """Return a number so that NaN equals NaN and is greater than all others."""
    if isinstance(value, int | float):
        return (True, 0) if math.isnan(value) else (False, value)
    return value


def normal_form(tree: Tree, negated: bool = False) -> Tree:
    """Return a condition in which NOT stands only before predicates, and no group has one part."""
    match tree:
        case ("not", part):
            return normal_form(part, not negated)
        case ("and" | "or" as word, parts):
            if len(parts) == 1:
                return normal_form(parts[0], negated)
            if negated:
                word = "or" if word == "and" else "and"
            return (word, [normal_form(part, negated) for part in parts])
    return ("not", tree) if negated else tree


def conjunctions(tree: Tree) -> list[list[Tree]]:
    """Return a normal form as an OR of ANDs of predicates."""
    match tree:
        case ("or", parts):
            return [conjunction for part in parts for conjunction in conjunctions(part)]
        case ("and", parts):
            choices = product(*(conjunctions(part) for part in parts))
            return [[leaf for branch in choice for leaf in branch] for choice in choices]
    return [[tree]]


def predicate(leaf: Tree) -> Tree:
    """Return a leaf of a normal form without its NOT."""
    return leaf[1] if leaf[0] == "not" else leaf


@dataclass
class Neighbourhood:
    """Evaluates conditions with each predicate on a position column widened (M7)."""

    position: tuple[str, ...]
    schema: dict[str, str]
    margin: Fraction

    def holds(self, tree: Tree, row: Row) -> bool:
        for leaves in conjunctions(normal_form(tree)):
            widened = [leaf for leaf in leaves if self._is_widened(predicate(leaf), row)]
            others = [leaf for leaf in leaves if leaf not in widened]
            if all(self._holds(leaf, row) for leaf in widened) and _conjunction_holds(others, row):
                return True
        return False

    def _is_widened(self, leaf: Tree, row: Row) -> bool:
        if leaf[0] in ("const", "null") or leaf[1] not in self.position:
            return False
        return not isinstance(row[leaf[1]], dict)  # a range is tested as it is

    def _holds(self, leaf: Tree, row: Row) -> bool:
        """Return whether a value near that of the row satisfies a predicate."""
        column = predicate(leaf)[1]
        if row[column] is None:
            return False
        values = [row[column], *neighbours(predicate(leaf), self.schema[column])]
        return any(
            truth(leaf, row | {column: value}) is True and self.is_near(value, row[column])
            for value in values
        )

    def is_near(self, a: Any, b: Any) -> bool:
        if a == b:
            return True
        if math.isinf(a) or math.isinf(b):
            return False
        return abs(Fraction(a) - Fraction(b)) <= self.margin


def neighbours(leaf: Tree, kind: str) -> list[int] | list[float]:
    """Return the values of a kind at which a predicate on numbers changes."""
    if leaf[0] == "null":
        return []
    literals = leaf[2] if leaf[0] == "in" else leaf[2:]
    values: list[Any] = []
    for literal in literals:
        if not isinstance(literal, int | float):
            continue
        if kind == "integer":
            values += [math.floor(literal) + step for step in (-1, 0, 1, 2)]
        else:
            number = float(literal)
            values += [
                math.nextafter(number, -math.inf),
                number,
                math.nextafter(number, math.inf),
            ]
    return values


# --- text ---------------------------------------------------------------------------------------


def sql(tree: Tree) -> str:
    """Return a condition as SQL."""
    match tree:
        case ("const", constant):
            return _literal(constant)
        case ("not", part):
            return f"NOT ({sql(part)})"
        case ("and" | "or" as word, parts):
            return f" {word.upper()} ".join(f"({sql(part)})" for part in parts)
        case ("null", term):
            return f"{_term(term)} IS NULL"
        case ("between", term, low, high):
            return f"{_term(term)} BETWEEN {_literal(low)} AND {_literal(high)}"
        case ("in", term, literals):
            return f"{_term(term)} IN ({', '.join(map(_literal, literals))})"
        case ("cmp", term, operator, literal):
            return f"{_term(term)} {operator} {_literal(literal)}"
    raise TypeError(f"not a condition: {tree!r}")


def _term(term: Any) -> str:
    return term if isinstance(term, str) else f"{term[1]} + {term[2]}"


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    return f"'{value}'" if isinstance(value, str) else repr(value)
