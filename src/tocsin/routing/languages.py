"""What routers need to know of subscriptions and events.

A router only adds and removes subscriptions, looks for those that cover one, and matches events.
`Boxes` are the paper's subscriptions: ranges of numbers. `Conditions` are the conditions of
`tocsin.Rules`. Both keep subscriptions and events in a form that JSON has, too.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tocsin.covering.conditions import ConditionCover
from tocsin.covering.cover_index import CoverIndex
from tocsin.covering.relation_graph import Cover
from tocsin.engine.rules import Rules
from tocsin.errors import EventError
from tocsin.model.json_values import parse_value
from tocsin.model.schema import Schema


class Table(Protocol):
    """Subscriptions, and which of them an event matches."""

    def add(self, id: str, *subscription: Any) -> None:
        """Add a subscription; raise if it is not valid."""

    def remove(self, id: str) -> None:
        """Remove a subscription."""

    def match(self, event: Any) -> list[str]:
        """Return the ids of the subscriptions that an event matches."""


class Language(Protocol):
    """A kind of subscription and its events; routers with equal names can be linked."""

    name: str

    def cover(self) -> Cover:
        """Return an empty index of subscriptions for a `RelationGraph`."""

    def table(self) -> Table:
        """Return an empty table of subscriptions."""

    def check(self, event: Any) -> None:
        """Raise unless any table can match the event."""


class Boxes:
    """Subscriptions are boxes, lower and upper bounds; an event is a sequence of numbers.

    A bound that is None is unbounded, as in `CoverIndex`.
    """

    def __init__(self, dimensions: int):
        CoverIndex(dimensions)  # raises if it is not a number of dimensions
        self.dimensions, self.name = dimensions, f"boxes of {dimensions} dimensions"

    def cover(self) -> CoverIndex:
        """Return an empty index of boxes."""
        return CoverIndex(self.dimensions)

    def table(self) -> BoxTable:
        """Return an empty table of boxes."""
        return BoxTable()

    def check(self, event: Any) -> None:
        """Raise unless an event is a number, or None, for each dimension."""
        if not isinstance(event, Sequence) or len(event) != self.dimensions:
            raise EventError(f"an event must be a list of {self.dimensions} numbers; got {event!r}")
        for each in event:
            if each is not None and not isinstance(each, numbers.Real):
                raise EventError(f"the values of an event must be numbers or None; got {each!r}")


class BoxTable:
    """Boxes in a dict, all compared with each event: for simulations."""

    def __init__(self) -> None:
        self._boxes: dict[str, list[tuple[Any, Any]]] = {}

    def add(self, id: str, low: Sequence[Any], high: Sequence[Any]) -> None:
        """Add a box."""
        self._boxes[id] = list(zip(low, high, strict=True))

    def remove(self, id: str) -> None:
        """Remove a box."""
        del self._boxes[id]

    def match(self, event: Sequence[Any]) -> list[str]:
        """Return the ids of all boxes around an event."""
        return [id for id, box in self._boxes.items() if all(map(_is_between, box, event))]


def _is_between(ends: tuple[Any, Any], value: Any) -> bool:
    low, high = ends
    if low is None and high is None:
        return True
    if value is None:
        return False
    if value != value:  # NaN is above all numbers, as in Spark
        return high is None
    return (low is None or low <= value) and (high is None or value <= high)


class Conditions:
    """Subscriptions are conditions over a schema; an event is a dict of values by attribute.

    Times and decimals of an event may be texts, as they are in JSON.
    """

    def __init__(self, schema: Any):
        self.schema = schema if isinstance(schema, Schema) else Schema(schema)
        kinds = ", ".join(f"{name} {self.schema.kind(name)}" for name in sorted(self.schema))
        self.name = f"conditions over {kinds}; times in {self.schema.timezone}"
        self._all = ConditionTable(self.schema)  # conditions that test all attributes
        for name in self.schema:
            quoted = name.replace("`", "``")
            self._all.add(name, f"`{quoted}` IS NOT NULL")

    def cover(self) -> ConditionCover:
        """Return an empty index of conditions."""
        return ConditionCover(self.schema)

    def table(self) -> ConditionTable:
        """Return an empty table of conditions."""
        return ConditionTable(self.schema)

    def check(self, event: Any) -> None:
        """Raise if a value of an event does not have the kind of its attribute."""
        self._all.match(event)


class ConditionTable:
    """Conditions, held by `Rules`."""

    def __init__(self, schema: Schema):
        self._rules = Rules(schema)

    def add(self, id: str, where: str) -> None:
        """Add a condition."""
        self._rules.add(id, where)

    def remove(self, id: str) -> None:
        """Remove a condition."""
        self._rules.remove(id)

    def match(self, event: Any) -> list[str]:
        """Return the ids of all conditions that an event satisfies."""
        if not isinstance(event, Mapping):
            raise EventError(f'an event must be a dict, such as {{"x": 3}}; got {event!r}')
        schema = self._rules.schema
        parsed = {name: parse_value(name, value, schema) for name, value in event.items()}
        ids: list[str] = self._rules.match(parsed).ids().to_pylist()
        return ids
