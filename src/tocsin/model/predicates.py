"""Predicates on keys, and their intersection within a conjunction.

A predicate is a closed interval of keys, a set of points, or the complement of a set. Conditions
are normalised to these three kinds. A conjunction has at most one predicate per attribute, except
for an interval and a complement (`x > 5 AND x <> 7`).

`None` stands for a predicate that no key satisfies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tocsin.model.encoding import HIGHEST, LOWEST, NULL

INTERVAL, SET, NOT_SET = 0, 1, 2


class Predicate(NamedTuple):
    """A test of a key."""

    kind: int  # INTERVAL, SET or NOT_SET
    low: int = 0  # of an interval
    high: int = 0
    points: tuple[int, ...] = ()  # of a set or complement, sorted


IS_NULL = Predicate(INTERVAL, NULL, NULL)
NOT_NULL = Predicate(INTERVAL, LOWEST, HIGHEST)
ALWAYS = Predicate(INTERVAL, NULL, HIGHEST)  # still counts towards the score


def interval(low: int, high: int) -> Predicate | None:
    """Return the predicate for low <= key <= high."""
    return Predicate(INTERVAL, low, high) if low <= high else None


def one_of(points: Iterable[int]) -> Predicate | None:
    """Return the predicate for a key among the points; consecutive points are an interval."""
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


def unite_points(predicates: Iterable[Predicate | None]) -> Predicate | None:
    """Return the predicate that holds exactly if one of these does; all come from `one_of`."""
    points: list[int] = []
    for predicate in predicates:
        if predicate is not None:
            kind, low, high, listed = predicate
            points.extend(range(low, high + 1) if kind == INTERVAL else listed)
    return one_of(points)


def intersect(predicates: list[Predicate]) -> list[Predicate] | None:
    """Return the fewest predicates that hold exactly if all of these hold.

    All predicates are on one attribute. Returns None if no key satisfies all of them.
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
        common = one_of(p for p in allowed if low <= p <= high and p not in forbidden)
        return None if common is None else [common]
    while low in forbidden:
        low += 1
    while high in forbidden:
        high -= 1
    if low > high:
        return None
    inner = {p for p in forbidden if low < p < high}
    if inner and high == HIGHEST and low in (NULL, LOWEST):
        return [none_of(inner | {NULL} if low == LOWEST else inner)]
    fewest = [Predicate(INTERVAL, low, high)]
    if inner:
        fewest.append(none_of(inner))
    return fewest
