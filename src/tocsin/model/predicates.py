"""Predicates on the key line, and their meeting within a conjunction.

A predicate is an interval of keys with both ends in it, a set of points, or the
complement of a set; nothing else survives normalisation. On one attribute a
conjunction keeps at most one interval or set, and beside an interval at most one
complement (`x > 5 AND x <> 7`).

While a condition is bound, a predicate is a plain tuple (kind, low, high, points),
and `None` stands for one that nothing satisfies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tocsin.model.line import HIGHEST, LOWEST, NULL

INTERVAL, SET, NOT_SET = 0, 1, 2


class Predicate(NamedTuple):
    """One test of a key: `points` are sorted; `low` and `high` are an interval's ends."""

    kind: int
    low: int = 0
    high: int = 0
    points: tuple[int, ...] = ()


IS_NULL = Predicate(INTERVAL, NULL, NULL)
NOT_NULL = Predicate(INTERVAL, LOWEST, HIGHEST)
ALWAYS = Predicate(INTERVAL, NULL, HIGHEST)  # still a test of its attribute: it scores


def interval(low: int, high: int) -> Predicate | None:
    """Return the predicate for low <= key <= high."""
    return Predicate(INTERVAL, low, high) if low <= high else None


def one_of(points: Iterable[int]) -> Predicate | None:
    """Return the predicate for a key among points; consecutive points are an interval."""
    distinct = tuple(sorted(set(points)))
    if not distinct:
        return None
    if distinct[-1] - distinct[0] == len(distinct) - 1:
        return Predicate(INTERVAL, distinct[0], distinct[-1])
    return Predicate(SET, points=distinct)


def none_of(points: Iterable[int]) -> Predicate:
    """Return the predicate for a key that is none of the points."""
    distinct = tuple(sorted(set(points)))
    if distinct in ((), (NULL,)):
        return NOT_NULL if distinct else ALWAYS
    return Predicate(NOT_SET, points=distinct)


def meet(predicates: list[Predicate]) -> list[Predicate] | None:
    """Return the fewest predicates that hold exactly when all of these hold.

    None if nothing satisfies them all. All are about one attribute.
    """
    low, high = NULL, HIGHEST
    allowed: set[int] | None = None
    forbidden: set[int] = set()
    for kind, p_low, p_high, points in predicates:
        if kind == INTERVAL:
            low, high = max(low, p_low), min(high, p_high)
        elif kind == SET:
            allowed = set(points) if allowed is None else allowed & set(points)
        else:
            forbidden |= set(points)
    if allowed is not None:
        left = one_of(p for p in allowed if low <= p <= high and p not in forbidden)
        return None if left is None else [left]
    while low in forbidden:
        low += 1
    while high in forbidden:
        high -= 1
    if low > high:
        return None
    inner = {p for p in forbidden if low < p < high}
    if inner and high == HIGHEST and low in (NULL, LOWEST):
        return [none_of(inner | {NULL} if low == LOWEST else inner)]
    met = [Predicate(INTERVAL, low, high)]
    if inner:
        met.append(none_of(inner))
    return met
