"""Covering among conditions that come and go.

The ends of each attribute in a conjunction make a box, whose search is that of `CoverIndex`. A box
that contains another one is a candidate, and `inclusion` decides: lists of values may leave gaps,
and at most the first `MOST` columns of a schema are dimensions of the box.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tocsin.covering.inclusion import (
    NO_RESIDUALS,
    Domain,
    ResidualNumbers,
    domain_of,
    rule_covers,
    write_points,
)
from tocsin.covering.kd_tree import KdTree
from tocsin.covering.point_index import PointIndex, check_count, check_id
from tocsin.errors import CoverError, TocsinError
from tocsin.jit import freeze, freeze_fields
from tocsin.model.attributes import Attributes
from tocsin.model.categories import Categories
from tocsin.model.condition import ConditionReader
from tocsin.model.conjunctions import ConjunctionBuilder, Conjunctions
from tocsin.model.residuals import Residual
from tocsin.model.schema import Schema

MOST = 16  # columns


class ConditionCover:
    """Conditions, and which of them cover a condition or are covered by it.

    What is called covered is covered. For conditions without OR, all covering is found, except for
    what follows from a function or from the digits of a decimal: `hour(ts) >= 0` covers `ts IS NOT
    NULL`. One with OR is covered if each of its alternatives is covered by an alternative of the
    other one; so some covering is not found.

    >>> cover = ConditionCover({"price": "number", "tier": "category"})
    >>> cover.add("cheap", "price < 10")
    >>> cover.add("cheap gold", "price < 5 AND tier = 'gold'")
    >>> cover.covering("price BETWEEN 1 AND 2 AND tier IN ('gold', 'black')")
    ['cheap']
    >>> cover.covered("price < 7")
    ['cheap gold']
    """

    def __init__(self, schema: Any):
        schema = schema if isinstance(schema, Schema) else Schema(schema)
        self._attributes, self._categories = Attributes(schema), Categories()
        self._numbers: dict[Residual, int] = {}
        self._reader = ConditionReader(self._attributes)
        self.index = ConditionIndex(self._attributes)

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, id: Hashable) -> bool:
        return id in self.index

    def add(self, id: Hashable, where: str) -> None:
        """Add a condition."""
        self.index.add(id, self.read(where))

    def remove(self, id: Hashable) -> None:
        """Remove a condition."""
        self.index.remove(id)

    def covering(self, where: str, k: int = 1) -> list[Any]:
        """Return the ids of up to k conditions that cover this one."""
        return self.index.covering(self.read(where), check_count("k", k))

    def covered(self, where: str) -> list[Any]:
        """Return the ids of all conditions that this one covers."""
        return self.index.covered(self.read(where))

    def read(self, where: str) -> Condition:
        """Return a condition as conjunctions."""
        try:
            conjunctions, _, residuals = self._reader.read(where, self._categories)
        except TocsinError as error:
            raise error.with_place("condition") from None
        builder = ConjunctionBuilder()
        builder.add(0, conjunctions)
        numbers = [[self._number(each) for each in own] for own in residuals]
        return Condition(
            builder.build(), _list_residuals(numbers), domain_of(self._attributes.kinds)
        )

    def _number(self, residual: Residual) -> int:
        return self._numbers.setdefault(residual, len(self._numbers))


def _list_residuals(numbers: list[list[int]]) -> ResidualNumbers:
    """Return the numbers of the residuals of some conjunctions."""
    if not numbers:
        return NO_RESIDUALS
    return freeze_fields(
        ResidualNumbers,
        offsets=np.cumsum([0, *map(len, numbers)]),
        number=[number for own in numbers for number in own],
    )


class Condition(NamedTuple):
    """The conjunctions of a condition, and the domain of the attributes that there were."""

    conjunctions: Conjunctions
    residuals: ResidualNumbers
    domain: Domain

    def covers(self, other: Condition) -> bool:
        """Return whether this condition covers another one, as far as that is found."""
        later = max(self.domain, other.domain, key=lambda each: len(each.low))
        return bool(
            rule_covers(
                self.conjunctions, self.residuals, other.conjunctions, other.residuals, later
            )
        )


class ConditionIndex:
    """Conditions by id, in the order of addition."""

    def __init__(self, attributes: Attributes):
        self._columns = freeze(np.arange(min(MOST, len(attributes))), np.int32)
        self._index = PointIndex(KdTree(2 * max(1, len(self._columns))))
        self._conditions: dict[Any, tuple[int, Condition]] = {}  # with the order of addition
        self._never: dict[Any, None] = {}  # those that no event can satisfy
        self._added = 0

    def __len__(self) -> int:
        return len(self._conditions)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._conditions

    def add(self, id: Hashable, condition: Condition) -> None:
        """Add a condition."""
        check_id(id)
        if id in self._conditions:
            raise CoverError(f"there is already a condition with the id {id!r}; remove it first")
        for number, point in enumerate(self._points(condition)):
            self._index.add((id, number), point)
        if not condition.conjunctions.size:
            self._never[id] = None
        self._conditions[id] = self._added, condition
        self._added += 1

    def remove(self, id: Hashable) -> None:
        """Remove a condition."""
        _, condition = self._known(id)
        for number in range(condition.conjunctions.size):
            self._index.remove((id, number))
        self._never.pop(id, None)
        del self._conditions[id]

    def covering(self, condition: Condition, k: int) -> list[Any]:
        """Return the ids of up to k conditions that cover this one."""
        found = []
        for id in self._candidates(condition):
            if self._conditions[id][1].covers(condition):
                found.append(id)
                if len(found) == k:
                    break
        return found

    def covering_id(self, id: Hashable, k: int) -> list[Any]:
        """Return the ids of up to k others that cover a condition; of equal ones, only older."""
        age, condition = self._known(id)
        found: list[Any] = []
        for other in self._candidates(condition):
            older, candidate = self._conditions[other]
            if other == id or not candidate.covers(condition):
                continue
            if older < age or not condition.covers(candidate):
                found.append(other)
                if len(found) == k:
                    break
        return found

    def covered(self, condition: Condition) -> list[Any]:
        """Return the ids of all conditions that this one covers."""
        candidates: dict[Any, None] = dict(self._never)
        for point in self._points(condition):
            candidates |= dict.fromkeys(id for id, _ in self._index.covered(point))
        return [id for id in candidates if condition.covers(self._conditions[id][1])]

    def _known(self, id: Hashable) -> tuple[int, Condition]:
        check_id(id)
        if id not in self._conditions:
            raise CoverError(f"there is no condition with the id {id!r}")
        return self._conditions[id]

    def _candidates(self, condition: Condition) -> Iterator[Any]:
        """Yield the ids of conditions that may cover this one."""
        if not condition.conjunctions.size:
            yield from list(self._conditions)
            return
        point, seen, k = self._points(condition)[0], set(), 4
        while True:
            found = self._index.covering(point, k)
            for id, _ in found:
                if id not in seen:
                    seen.add(id)
                    yield id
            if len(found) < k:
                return
            k *= 8

    def _points(self, condition: Condition) -> np.ndarray:
        c = condition.conjunctions
        points = np.zeros((c.size, 2 * max(1, len(self._columns))), np.int64)
        numbers = np.arange(c.size)
        write_points(c, numbers, self._columns, condition.domain, points.reshape(-1))
        return points
