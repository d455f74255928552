"""Trees of AND and OR over numbered leaves: their normal form, and the parts that never hold.

NOT is in the leaves. An OR of equalities and lists on one attribute is a single leaf, a *union*.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from tocsin.model.predicates import Predicate, intersect

MAX_COUNT = 1_000_000  # conjunctions to count; (a OR b) n times has 2**n

Predicates = Sequence[Predicate | None]  # by number of the leaf; None: no key satisfies it


class Source(NamedTuple):
    """The part of a parsed text that a leaf or a branch comes from."""

    node: exp.Expr
    is_negated: bool


class Branch(NamedTuple):
    """An AND or OR of leaves (their numbers) and branches."""

    junction: str  # "and" or "or"
    children: list[Any]  # int or Branch
    source: Source
    is_leaf: bool = False  # whether it is one test in the text, so that its parts are none


Tree = int | Branch


def count(tree: Tree) -> int:
    """Return how many conjunctions a tree has, or `MAX_COUNT` if there are more."""
    if isinstance(tree, int):
        return 1
    counts = [count(child) for child in tree.children]
    if tree.junction == "or":
        return min(sum(counts), MAX_COUNT)
    product = 1
    for each in counts:
        product = min(product * each, MAX_COUNT)
    return product


def distribute(tree: Tree) -> list[list[int]]:
    """Return the conjunctions of a tree, each a list of leaf numbers."""
    if isinstance(tree, int):
        return [[tree]]
    branches = [distribute(child) for child in tree.children]
    if tree.junction == "or":
        return [conjunction for branch in branches for conjunction in branch]
    return [list(itertools.chain(*choice)) for choice in itertools.product(*branches)]


def group_by_attribute(
    numbers: Sequence[int], attribute_of: Callable[[int], int]
) -> list[tuple[int, list[int]]]:
    """Return the leaves of a conjunction by attribute, in the order of attributes."""
    groups: dict[int, list[int]] = {}
    for number in numbers:
        groups.setdefault(attribute_of(number), []).append(number)
    return sorted(groups.items())


def find_impossible(
    tree: Tree,
    predicates: Predicates,
    attribute_of: Callable[[int], int],
    unions: Mapping[int, Sequence[int]],
) -> list[Tree]:
    """Return the parts that never hold: the smallest that explain it, among alternatives of an OR.

    A combination that only distribution makes is no such part: in `(x > 5 OR y > 5) AND (x < 3 OR
    y < 3)`, nobody has written `x > 5 AND x < 3`.
    """

    def can_hold(part: Tree) -> bool:
        return any(map(holds_together, distribute(part)))

    def holds_together(numbers: list[int]) -> bool:
        for _, group in group_by_attribute(numbers, attribute_of):
            tests = [predicates[n] for n in group]
            if None in tests or intersect(tests) is None:  # type: ignore[arg-type]
                return False
        return True

    def find(part: Tree) -> list[Tree]:
        if isinstance(part, int):
            if predicates[part] is None:
                return [part]
            return [n for n in unions.get(part, ()) if predicates[n] is None]
        if part.is_leaf:
            return [] if can_hold(part) else [part]
        if can_hold(part):
            return [each for child in part.children for each in find(child)]
        if part.junction == "and":
            for child in part.children:
                if not can_hold(child):
                    return find(child)
        return [part]

    return find(tree)
