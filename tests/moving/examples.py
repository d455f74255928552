"""Worked examples, at least one per line of `docs/monitor.md`.

A step is a call and what it returns or reports:

    ("update", rows, events)  ("advance", now, events)  ("remove", object, events)
    ("inside", rule, objects)  ("where", object, rules)
    ("late", {object: count})  ("doubled", {object: count})  ("rejected", count)
    ("rules", edits)

An edit is ("add" or "replace", id, tree, payload) or ("remove", id), and an event is (object, rule,
event, time, since, reason). `play` runs the steps with any monitor.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.moving.trees import Tree, sql

SCHEMA = {"x": "number", "y": "number", "n": "integer", "speed": "number", "vehicle": "category"}


@dataclass(frozen=True)
class Example:
    line: str
    title: str
    rules: dict[Any, Any]  # by id: a tree, or a tree and a payload
    options: dict[str, Any]
    steps: list[tuple[Any, ...]]
    schema: dict[str, str] = field(default_factory=lambda: SCHEMA)

    def __str__(self) -> str:
        return f"{self.line}: {self.title}"

    def edits(self) -> list[tuple[Any, ...]]:
        """Return the edits that add the rules."""
        return [
            ("add", id, *rule) if isinstance(rule[0], tuple) else ("add", id, rule, None)
            for id, rule in self.rules.items()
        ]


class SqlRules:
    """Changes rules of Tocsin by the calls of `NaiveRules`."""

    def __init__(self, rules: Any):
        self.rules = rules

    def add(self, id: Any, tree: Tree, payload: dict[str, Any] | None = None) -> None:
        self.rules.add(id, sql(tree), payload=payload)

    def replace(
        self, id: Any, tree: Tree | None = None, payload: dict[str, Any] | None = None
    ) -> None:
        self.rules.replace(id, None if tree is None else sql(tree), payload=payload)

    def remove(self, id: Any) -> None:
        self.rules.remove(id)


def apply_edits(rules: Any, edits: Iterable[tuple[Any, ...]]) -> None:
    """Change `NaiveRules` or `SqlRules`."""
    for action, *arguments in edits:
        getattr(rules, action)(*arguments)


def play(example: Example, monitor: Any, rules: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Run an example; return each step and what came instead of what it expects, if that differs.

    `monitor` has the interface of `NaiveMonitor`, and `rules` is its `NaiveRules` or `SqlRules`.
    """
    differences = []
    for step in example.steps:
        match step:
            case ("rules", edits):
                apply_edits(rules, edits)
                continue
            case ("update" | "advance" | "remove" | "inside" | "where" as call, argument, expected):
                result = getattr(monitor, call)(argument)
            case ("late" | "doubled" as name, expected):
                result = getattr(monitor, name)
            case ("rejected", expected):
                result = len(monitor.rejected)
            case _:
                raise ValueError(f"not a step: {step!r}")
        if result != expected:
            differences.append((step, result))
    return differences


def at(t: Any, x: Any, object: Any = "a", **others: Any) -> dict[str, Any]:
    """Return a row."""
    return {"object": object, "t": t, "x": x, **others}


def enter(t: Any, rule: Any = "r", object: Any = "a", since: Any = None, reason: Any = None):
    return object, rule, "enter", t, t if since is None else since, reason


def leave(t: Any, rule: Any = "r", object: Any = "a", since: Any = None, reason: Any = None):
    return object, rule, "leave", t, t if since is None else since, reason


def dwell(t: Any, rule: Any = "r", object: Any = "a", since: Any = 0):
    return object, rule, "dwell", t, since, None


def lost(t: Any, since: Any, object: Any = "a"):
    return object, None, "lost", t, since, None


def between(low: float, high: float, column: str = "x") -> Tree:
    return ("between", column, low, high)


BOX = between(0, 10)
LARGER = between(0, 20)
ELSEWHERE = between(20, 30)
REMOVED = "object removed"
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NAN, INF = math.nan, math.inf


def later(**duration: float) -> datetime:
    return NOON + timedelta(**duration)


INPUT = [
    Example(
        "I1",
        "times and durations are integers",
        {"r": BOX},
        {"dwell": 5},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("advance", 10, [dwell(5)]),
        ],
    ),
    Example(
        "I1",
        "times and durations are floats",
        {"r": BOX},
        {"dwell": 1.5},
        [
            ("update", [at(0.5, 5.0)], [enter(0.5)]),
            ("advance", 9.0, [dwell(2.0, since=0.5)]),
        ],
    ),
    Example(
        "I1",
        "a duration is a text if times are timestamps",
        {"r": BOX},
        {"dwell": "90 s"},
        [
            ("update", [at(NOON, 5.0)], [enter(NOON)]),
            ("advance", later(minutes=2), [dwell(later(seconds=90), since=NOON)]),
        ],
    ),
    Example(
        "I1",
        "a duration is a timedelta, or a text with another unit",
        {"r": BOX},
        {"min_stay": timedelta(minutes=1), "dwell": "15 min", "lost_after": "2 h", "delay": "1 d"},
        [
            ("update", [at(NOON, 5.0)], []),
            (
                "advance",
                later(hours=3),
                [
                    enter(later(minutes=1), since=NOON),
                    dwell(later(minutes=15), since=NOON),
                    leave(later(hours=2), reason="lost"),
                    lost(later(hours=2), since=NOON),
                ],
            ),
        ],
    ),
    Example(
        "I2",
        "keys are integers",
        {"r": BOX},
        {},
        [
            (
                "update",
                [at(0, 5.0, object=7), at(0, 5.0, object=-3)],
                [enter(0, object=7), enter(0, object=-3)],
            ),
            ("inside", "r", [7, -3]),
            ("where", -3, ["r"]),
            ("where", 8, []),
        ],
    ),
    Example(
        "I2",
        "ids of rules are integers, and keys are texts",
        {5: BOX, 2: BOX},
        {},
        [
            ("update", [at(0, 5.0)], [enter(0, rule=5), enter(0, rule=2)]),
            ("inside", 2, ["a"]),
            ("inside", 3, []),
            ("where", "a", [5, 2]),
            ("where", "b", []),
        ],
    ),
    Example(
        "I3",
        "a row without a key or a finite time is rejected and has no other effect",
        {"r": BOX},
        {"dwell": 2.0},
        [
            (
                "update",
                [
                    at(0.0, 5.0, object=None),
                    at(None, 5.0),
                    at(NAN, 5.0),
                    at(INF, 5.0),
                    at(-INF, 5.0),
                    at(1.0, 5.0),
                ],
                [enter(1.0)],
            ),
            ("rejected", 5),
            ("late", {}),
            ("doubled", {}),
            ("update", [at(2.0, 5.0)], []),
            ("rejected", 0),
            ("update", [at(3.0, 5.0)], [dwell(3.0, since=1.0)]),
        ],
    ),
    Example(
        "I3",
        "a rejected row does not move the clock",
        {"r": BOX},
        {"dwell": 2},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(9, 5.0, object=None)], []),
            ("rejected", 1),
            ("update", [at(2, 50.0, object="b")], [dwell(2)]),
        ],
    ),
    Example(
        "I4",
        "a column that the rows lack is null, and nothing is carried over",
        {"r": BOX, "unknown": ("null", "x")},
        {},
        [
            ("update", [at(0, 5.0, y=1.0)], [enter(0)]),
            ("update", [{"object": "a", "t": 1, "y": 1.0}], [leave(1), enter(1, "unknown")]),
        ],
    ),
    Example(
        "I4",
        "NaN in a position column is null",
        {
            "high": ("cmp", "x", ">", 3),
            "low": ("not", ("cmp", "x", ">", 3)),
            "unknown": ("null", "x"),
        },
        {},
        [("update", [at(0, NAN)], [enter(0, "unknown")])],
    ),
    Example(
        "I4",
        "NaN in another column is the greatest number",
        {"fast": ("cmp", "speed", ">", 3), "unknown": ("null", "speed")},
        {},
        [("update", [at(0, 5.0, speed=NAN)], [enter(0, "fast")])],
    ),
    Example(
        "I5",
        "of rows of equal time the least counts",
        {"r": BOX},
        {},
        [
            ("update", [at(0, 12.0), at(0, 5.0), at(0, 13.0)], [enter(0)]),
            ("doubled", {"a": 2}),
            ("late", {}),
        ],
    ),
    Example(
        "I5",
        "columns are compared in the order of the input",
        {"r": BOX},
        {},
        [
            (
                "update",
                [
                    {"object": "a", "t": 0, "y": 2.0, "x": 5.0},
                    {"object": "a", "t": 0, "y": 1.0, "x": 50.0},
                ],
                [],
            ),
            (
                "update",
                [
                    {"object": "a", "t": 1, "x": 5.0, "y": 2.0},
                    {"object": "a", "t": 1, "x": 50.0, "y": 1.0},
                ],
                [enter(1)],
            ),
        ],
    ),
    Example(
        "I5",
        "null is the least",
        {"r": BOX},
        {},
        [("update", [at(0, 5.0), at(0, None)], []), ("doubled", {"a": 1})],
    ),
    Example(
        "I5",
        "NaN is the highest, but null in a position column",
        {"fast": ("cmp", "speed", ">", 100), "unknown": ("null", "x")},
        {},
        [
            ("update", [at(0, 5.0, speed=NAN), at(0, 5.0, speed=6.0)], []),
            ("update", [at(1, NAN), at(1, 5.0)], [enter(1, "unknown")]),
        ],
    ),
    Example(
        "I5",
        "texts are compared by their UTF-8 bytes",
        {"large": ("cmp", "vehicle", "=", "Z"), "last": ("cmp", "vehicle", "=", "\ufffd")},
        {},
        [
            ("update", [at(0, 5.0, vehicle="a"), at(0, 5.0, vehicle="Z")], [enter(0, "large")]),
            (
                "update",
                [at(1, 5.0, vehicle="\U0001f69a"), at(1, 5.0, vehicle="\ufffd")],
                [leave(1, "large"), enter(1, "last")],
            ),
        ],
    ),
    Example(
        "I5",
        "columns that are not kept are not compared",
        {"r": BOX},
        {},
        [
            (
                "update",
                [
                    {"object": "a", "t": 0, "note": 1, "x": 50.0},
                    {"object": "a", "t": 0, "note": 2, "x": 5.0},
                ],
                [enter(0)],
            ),
        ],
    ),
    Example(
        "I5",
        "columns that are kept for the result are compared",
        {"r": BOX},
        {"keep": ("note",)},
        [
            (
                "update",
                [
                    {"object": "a", "t": 0, "note": 1, "x": 50.0},
                    {"object": "a", "t": 0, "note": 2, "x": 5.0},
                ],
                [],
            ),
        ],
    ),
    Example(
        "I5",
        "the flag of removed objects is compared",
        {"r": BOX},
        {"removed": "gone"},
        [
            (
                "update",
                [
                    {"object": "a", "t": 0, "gone": True, "x": 1.0},
                    {"object": "a", "t": 0, "gone": False, "x": 5.0},
                ],
                [enter(0)],
            ),
            ("doubled", {"a": 1}),
        ],
    ),
    Example(
        "I6",
        "a row that is not newer than the last one is late",
        {"r": BOX},
        {},
        [
            ("update", [at(5, 5.0)], [enter(5)]),
            ("update", [at(5, 50.0), at(4, 50.0), at(6, 6.0)], []),
            ("late", {"a": 2}),
            ("where", "a", ["r"]),
        ],
    ),
    Example(
        "I6",
        "late rows of equal time are late, not doubled",
        {"r": BOX},
        {},
        [
            ("update", [at(5, 5.0)], [enter(5)]),
            ("update", [at(5, 50.0), at(5, 60.0)], []),
            ("late", {"a": 2}),
            ("doubled", {}),
        ],
    ),
    Example(
        "I6",
        "a row that is not newer than the last timer event is late",
        {"r": BOX},
        {"dwell": 3},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("advance", 5, [dwell(3)]),
            ("update", [at(2, 50.0)], []),
            ("update", [at(3, 50.0)], []),
            ("late", {"a": 2}),
            ("update", [at(4, 50.0)], [leave(4)]),
            ("late", {"a": 2}),
        ],
    ),
    Example(
        "I6",
        "timers of the same update make no row late",
        {"r": BOX},
        {"dwell": 3},
        [
            ("update", [at(0, 5.0), at(0, 5.0, "b")], [enter(0), enter(0, object="b")]),
            (
                "update",
                [at(9, 50.0, "c"), at(2, 50.0), at(4, 50.0, "b"), at(1, 6.0, "b")],
                [leave(2), dwell(3, object="b"), leave(4, object="b")],
            ),
            ("late", {}),
        ],
    ),
    Example(
        "I6",
        "a timer event of an earlier update makes rows late: an enter and a leave",
        {"r": BOX},
        {"min_stay": 3, "min_away": 3},
        [
            ("update", [at(0, 5.0)], []),
            ("update", [at(3, 50.0, "b")], [enter(3, since=0)]),
            ("update", [at(3, 50.0)], []),
            ("late", {"a": 1}),
            ("update", [at(4, 50.0)], []),
            ("advance", 9, [leave(7, since=4)]),
            ("update", [at(5, 5.0), at(7, 5.0)], []),
            ("late", {"a": 3}),
        ],
    ),
    Example(
        "I6",
        "late and doubled rows are counted by object",
        {"r": BOX},
        {},
        [
            ("update", [at(1, 5.0), at(1, 5.0), at(1, 50.0, "b")], [enter(1)]),
            ("update", [at(1, 5.0, "b"), at(0, 5.0, "b"), at(1, 5.0)], []),
            ("late", {"a": 1, "b": 2}),
            ("doubled", {"a": 1}),
        ],
    ),
]

STATE = [
    Example(
        "S1",
        "all rows of a batch count, in order of time",
        {"r": BOX},
        {},
        [
            ("update", [at(3, 50.0), at(1, 5.0), at(2, 6.0)], [enter(1), leave(3)]),
            ("update", [at(6, 50.0), at(5, 5.0)], [enter(5), leave(6)]),
        ],
    ),
    Example(
        "S1",
        "between reports an object is where it last was",
        {"r": BOX},
        {},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(100, 50.0, "b")], []),
            ("advance", 1000, []),
            ("update", [], []),
            ("inside", "r", ["a"]),
        ],
    ),
    Example(
        "S2",
        "the clock is the largest time seen minus the delay",
        {"r": BOX},
        {"dwell": 2, "delay": 3},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(4, 50.0, "b")], []),
            ("update", [at(5, 50.0, "b")], [dwell(2)]),
        ],
    ),
    Example(
        "S2",
        "the clock is what `advance` says if that is later",
        {"r": BOX},
        {"dwell": 2, "delay": 3},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("advance", 1, []),
            ("advance", 2, [dwell(2)]),
        ],
    ),
    Example(
        "S2",
        "the clock never goes back",
        {"r": BOX},
        {"dwell": 5},
        [
            ("update", [at(0, 50.0, "b")], []),
            ("advance", 10, []),
            ("advance", 3, []),
            ("update", [at(1, 5.0)], [enter(1), dwell(6, since=1)]),
        ],
    ),
    Example(
        "S2",
        "the time of a doubled row moves the clock, that of a smaller one does not",
        {"r": BOX},
        {"dwell": 5},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(4, 50.0, "b"), at(4, 50.0, "b"), at(1, 50.0, "c")], []),
            ("update", [at(5, 50.0, "b"), at(5, 50.0, "b"), at(2, 50.0, "c")], [dwell(5)]),
        ],
    ),
    Example(
        "S3",
        "timers fire before a row of their time",
        {"r": BOX},
        {"dwell": 3},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(3, 50.0)], [dwell(3), leave(3)]),
        ],
    ),
    Example(
        "S3",
        "timers fire before a row of the object, however late the clock is",
        {"r": BOX},
        {"dwell": 3, "delay": 100},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(9, 5.0)], [dwell(3)]),
        ],
    ),
    Example(
        "S3",
        "timers fire at the end of an update",
        {"r": BOX},
        {"dwell": 3},
        [("update", [at(0, 5.0), at(3, 50.0, "b")], [enter(0), dwell(3)])],
    ),
    Example(
        "S3",
        "an object is not lost at its due time, but after it",
        {"r": BOX},
        {"lost_after": 3},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("advance", 3, []),
            ("update", [at(3, 5.0)], []),
            ("advance", 6, []),
            ("advance", 7, [leave(6, reason="lost"), lost(6, since=3)]),
        ],
    ),
    Example(
        "S3",
        "an object is lost before its own next row",
        {"r": BOX},
        {"lost_after": 3, "delay": 100},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(4, 5.0)], [leave(3, reason="lost"), lost(3, since=0), enter(4)]),
        ],
    ),
]

MEMBERSHIP = [
    Example(
        "M1",
        "an object enters the plain rule and leaves the widened one",
        {"r": BOX},
        {"margin": 2},
        [
            ("update", [at(0, 11.0)], []),
            ("update", [at(1, 10.0)], [enter(1)]),
            ("update", [at(2, 12.0)], []),
            ("update", [at(3, 12.5)], [leave(3)]),
            ("update", [at(4, 12.0)], []),
        ],
    ),
    Example(
        "M2",
        "an enter is confirmed after min_stay",
        {"r": BOX},
        {"min_stay": 3},
        [
            ("update", [at(0, 5.0)], []),
            ("where", "a", []),
            ("inside", "r", []),
            ("update", [at(1, 6.0)], []),
            ("advance", 2, []),
            ("advance", 3, [enter(3, since=0)]),
            ("where", "a", ["r"]),
        ],
    ),
    Example(
        "M2",
        "an enter that ends before it is confirmed gives nothing",
        {"r": BOX},
        {"min_stay": 3},
        [
            ("update", [at(0, 5.0)], []),
            ("update", [at(2, 50.0)], []),
            ("update", [at(3, 5.0)], []),
            ("advance", 5, []),
            ("advance", 6, [enter(6, since=3)]),
        ],
    ),
    Example(
        "M2",
        "a pending enter has no margin",
        {"r": BOX},
        {"min_stay": 3, "margin": 2},
        [
            ("update", [at(0, 5.0), at(1, 11.0)], []),
            ("advance", 9, []),
        ],
    ),
    Example(
        "M2",
        "an enter that is due is confirmed before a row of that time",
        {"r": BOX},
        {"min_stay": 3},
        [("update", [at(0, 5.0), at(3, 50.0)], [enter(3, since=0), leave(3)])],
    ),
    Example(
        "M2",
        "min_stay of 0 confirms at once",
        {"r": BOX},
        {"min_stay": 0, "delay": 100},
        [("update", [at(0, 5.0)], [enter(0)])],
    ),
    Example(
        "M3",
        "a leave is confirmed after min_away",
        {"r": BOX},
        {"min_away": 3},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(1, 50.0)], []),
            ("update", [at(2, 60.0)], []),
            ("advance", 3, []),
            ("advance", 4, [leave(4, since=1)]),
            ("update", [at(5, 60.0)], []),
        ],
    ),
    Example(
        "M3",
        "an object that is back before that has not left",
        {"r": BOX},
        {"min_away": 3},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(1, 50.0)], []),
            ("update", [at(3, 5.0)], []),
            ("update", [at(4, 50.0)], []),
            ("advance", 6, []),
            ("advance", 7, [leave(7, since=4)]),
        ],
    ),
    Example(
        "M3",
        "a leave that is due is confirmed before a row of that time, which enters",
        {"r": BOX},
        {"min_away": 3},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(1, 50.0), at(4, 5.0)], [leave(4, since=1), enter(4)]),
        ],
    ),
    Example(
        "M3",
        "the widened rule drops a pending leave",
        {"r": BOX},
        {"min_away": 3, "margin": 2},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(1, 50.0), at(2, 11.0)], []),
            ("advance", 9, []),
            ("where", "a", ["r"]),
        ],
    ),
    Example(
        "M3",
        "min_away of 0 confirms at once",
        {"r": BOX},
        {"min_away": 0, "delay": 100},
        [("update", [at(0, 5.0), at(1, 50.0)], [enter(0), leave(1)])],
    ),
    Example(
        "M4",
        "an object is in a rule while its leave is pending",
        {"r": BOX},
        {"min_away": 3, "dwell": 2},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(1, 50.0)], []),
            ("where", "a", ["r"]),
            ("inside", "r", ["a"]),
            ("advance", 4, [dwell(2), leave(4, since=1)]),
            ("where", "a", []),
            ("inside", "r", []),
        ],
    ),
    Example(
        "M5",
        "dwell counts from the first position inside",
        {"r": BOX},
        {"dwell": 4, "min_stay": 2},
        [
            ("update", [at(0, 5.0)], []),
            ("advance", 9, [enter(2, since=0), dwell(4)]),
        ],
    ),
    Example(
        "M5",
        "dwell never precedes its enter",
        {"r": BOX},
        {"dwell": 1, "min_stay": 2},
        [
            ("update", [at(0, 5.0)], []),
            ("update", [at(1, 6.0)], []),
            ("advance", 2, [enter(2, since=0), dwell(2)]),
        ],
    ),
    Example(
        "M5",
        "dwell of 0 comes with the enter, whatever the delay",
        {"r": BOX},
        {"dwell": 0, "delay": 100},
        [("update", [at(0, 5.0)], [enter(0), dwell(0)])],
    ),
    Example(
        "M5",
        "dwell comes once a stay",
        {"r": BOX},
        {"dwell": 2},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(9, 5.0)], [dwell(2)]),
            ("advance", 20, []),
            ("update", [at(21, 50.0), at(22, 5.0)], [leave(21), enter(22)]),
            ("advance", 30, [dwell(24, since=22)]),
        ],
    ),
    Example(
        "M5",
        "dwell does not come after the leave",
        {"r": BOX},
        {"dwell": 5},
        [
            ("update", [at(0, 5.0), at(3, 50.0)], [enter(0), leave(3)]),
            ("advance", 9, []),
        ],
    ),
    Example(
        "M5",
        "dwell comes before a leave of the same time",
        {"r": BOX},
        {"dwell": 4, "min_away": 3},
        [
            ("update", [at(0, 5.0), at(1, 50.0)], [enter(0)]),
            ("advance", 4, [dwell(4), leave(4, since=1)]),
        ],
    ),
    Example(
        "M6",
        "a lost object leaves, is lost and is forgotten",
        {"r": BOX, "s": between(0, 100)},
        {"lost_after": 5, "min_away": 9},
        [
            ("update", [at(0, 5.0)], [enter(0), enter(0, "s")]),
            ("update", [at(1, 50.0), at(2, 60.0)], []),
            (
                "advance",
                8,
                [
                    leave(7, since=1, reason="lost"),
                    leave(7, "s", reason="lost"),
                    lost(7, since=2),
                ],
            ),
            ("where", "a", []),
            ("inside", "s", []),
            ("update", [at(3, 5.0)], [enter(3), enter(3, "s")]),
            ("late", {}),
        ],
    ),
    Example(
        "M6",
        "pending enters of a lost object vanish",
        {"r": BOX},
        {"lost_after": 5, "min_stay": 9},
        [
            ("update", [at(0, 5.0)], []),
            ("advance", 20, [lost(5, since=0)]),
        ],
    ),
    Example(
        "M6",
        "timers that are due when an object is lost fire before",
        {"r": BOX, "s": between(0, 100)},
        {"lost_after": 5, "dwell": 5, "min_away": 4},
        [
            ("update", [at(0, 5.0)], [enter(0), enter(0, "s")]),
            ("advance", 5, [dwell(5), dwell(5, "s")]),
            ("advance", 6, [leave(5, reason="lost"), leave(5, "s", reason="lost"), lost(5, 0)]),
        ],
    ),
    Example(
        "M6",
        "a leave that is due when an object is lost is no leave of a lost one",
        {"r": BOX},
        {"lost_after": 5, "min_away": 5},
        [
            ("update", [at(0, 5.0), at(1, 50.0)], [enter(0)]),
            ("advance", 9, [leave(6, since=1), lost(6, since=1)]),
        ],
    ),
    Example(
        "M6",
        "an object that is in no rule is lost, too",
        {"r": BOX},
        {"lost_after": 5},
        [
            ("update", [at(0, 50.0)], []),
            ("advance", 6, [lost(5, since=0)]),
            ("advance", 99, []),
        ],
    ),
    Example(
        "M6",
        "lost_after of 0",
        {"r": BOX},
        {"lost_after": 0},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(1, 5.0)], [leave(0, reason="lost"), lost(0, since=0), enter(1)]),
        ],
    ),
    Example(
        "M7",
        "an end that is included",
        {"r": ("cmp", "x", ">=", 3)},
        {"margin": 2},
        [
            ("update", [at(0, 4.0)], [enter(0)]),
            ("update", [at(1, 1.0)], []),
            ("update", [at(2, math.nextafter(1.0, 0.0))], [leave(2)]),
        ],
    ),
    Example(
        "M7",
        "an open end: some float greater than 3 must be near enough",
        {"r": ("cmp", "x", ">", 3)},
        {"margin": 2},
        [
            ("update", [at(0, 4.0)], [enter(0)]),
            ("update", [at(1, 1 + 2.0**-51)], []),  # 2 below the float after 3
            ("update", [at(2, 1 + 2.0**-52)], [leave(2)]),
        ],
    ),
    Example(
        "M7",
        "distances are exact",
        {"r": ("cmp", "x", "<=", 0.1)},
        {"margin": 0.2},
        [
            ("update", [at(0, 0.0)], [enter(0)]),
            ("update", [at(1, 0.3)], []),
            ("update", [at(2, 0.1 + 0.2)], [leave(2)]),  # rounded up
        ],
    ),
    Example(
        "M7",
        "a margin of 0 and no margin are the same",
        {"r": ("not", ("cmp", "x", "=", 3))},
        {"margin": 0},
        [
            ("update", [at(0, 4.0)], [enter(0)]),
            ("update", [at(1, 3.0)], [leave(1)]),
        ],
    ),
    Example(
        "M7",
        "points become intervals",
        {"r": ("in", "x", [3, 7])},
        {"margin": 1},
        [
            ("update", [at(0, 3.0)], [enter(0)]),
            ("update", [at(1, 4.0), at(2, 6.0), at(3, 2.0)], []),
            ("update", [at(4, 5.0)], [leave(4)]),
        ],
    ),
    Example(
        "M7",
        "the complement of a point becomes everything",
        {"r": ("not", ("cmp", "x", "=", 3)), "s": ("not", ("in", "x", [3, 4]))},
        {"margin": 0.5},
        [
            ("update", [at(0, 5.0)], [enter(0), enter(0, "s")]),
            ("update", [at(1, 3.0), at(2, 4.0)], []),
        ],
    ),
    Example(
        "M7",
        "half-planes from NOT grow",
        {"outside": ("not", BOX)},
        {"margin": 2},
        [
            ("update", [at(0, 12.0)], [enter(0, "outside")]),
            ("update", [at(1, 8.5), at(2, 1.5)], []),
            ("update", [at(3, 8.0)], [leave(3, "outside")]),
            ("update", [at(4, 9.0)], []),
        ],
    ),
    Example(
        "M7",
        "NOT over OR is an AND of widened predicates",
        {"r": ("not", ("or", [("cmp", "x", "<", 0), ("not", ("cmp", "x", "<=", 10))]))},
        {"margin": 2},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(1, 12.0), at(2, -2.0)], []),
            ("update", [at(3, 12.5)], [leave(3)]),
        ],
    ),
    Example(
        "M7",
        "each predicate by itself: a box has corners, not a distance",
        {"r": ("and", [BOX, between(0, 10, "y")])},
        {"margin": 2},
        [
            ("update", [at(0, 5.0, y=5.0)], [enter(0)]),
            ("update", [at(1, 12.0, y=12.0)], []),
            ("update", [at(2, 5.0, y=12.5)], [leave(2)]),
        ],
    ),
    Example(
        "M7",
        "IS NULL stays, and null satisfies nothing else",
        {
            "known": ("not", ("null", "x")),
            "unknown": ("null", "x"),
            "not 3": ("not", ("cmp", "x", "=", 3)),
        },
        {"margin": 100},
        [
            ("update", [at(0, 5.0)], [enter(0, "known"), enter(0, "not 3")]),
            (
                "update",
                [at(1, None)],
                [leave(1, "known"), enter(1, "unknown"), leave(1, "not 3")],
            ),
            (
                "update",
                [at(2, 5.0)],
                [enter(2, "known"), leave(2, "unknown"), enter(2, "not 3")],
            ),
        ],
    ),
    Example(
        "M7",
        "integers",
        {"r": ("cmp", "n", ">", 3)},
        {"margin": 1, "position": ("n",)},
        [
            ("update", [at(0, None, n=4)], [enter(0)]),
            ("update", [at(1, None, n=3)], []),
            ("update", [at(2, None, n=2)], [leave(2)]),
        ],
    ),
    Example(
        "M7",
        "no integer is half away from another",
        {"r": ("cmp", "n", ">", 3), "s": ("cmp", "n", "<=", 3.5)},
        {"margin": 0.5, "position": ("n",)},
        [
            ("update", [at(0, None, n=4)], [enter(0)]),
            ("update", [at(1, None, n=3)], [leave(1), enter(1, "s")]),
            ("update", [at(2, None, n=4)], [enter(2), leave(2, "s")]),
        ],
    ),
    Example(
        "M7",
        "other predicates stay as they are",
        {"r": ("and", [BOX, ("cmp", "speed", "<=", 5), ("cmp", "vehicle", "=", "truck")])},
        {"margin": 2},
        [
            ("update", [at(0, 5.0, speed=5.0, vehicle="truck")], [enter(0)]),
            ("update", [at(1, 11.0, speed=5.0, vehicle="truck")], []),
            ("update", [at(2, 5.0, speed=6.0, vehicle="truck")], [leave(2)]),
        ],
    ),
    Example(
        "M7",
        "columns that are not the position are not widened",
        {"r": ("and", [BOX, between(0, 10, "y")])},
        {"margin": 2, "position": ("x",)},
        [
            ("update", [at(0, 5.0, y=5.0)], [enter(0)]),
            ("update", [at(1, 11.0, y=5.0)], []),
            ("update", [at(2, 11.0, y=11.0)], [leave(2)]),
        ],
    ),
    Example(
        "M7",
        "terms over position columns stay as they are",
        {"r": ("cmp", ("+", "x", "y"), "<=", 10)},
        {"margin": 2},
        [
            ("update", [at(0, 5.0, y=5.0)], [enter(0)]),
            ("update", [at(1, 5.5, y=5.0)], [leave(1)]),
        ],
    ),
    Example(
        "M7",
        "a row with a range in a position column is judged without margin",
        {"r": ("and", [BOX, ("cmp", "speed", "<=", 5)])},
        {"margin": 2},
        [
            ("update", [at(0, {"low": 9.0, "high": 12.0}, speed=1.0)], [enter(0)]),
            ("update", [at(1, {"low": 10.5, "high": 12.0}, speed=1.0)], [leave(1)]),
            ("update", [at(2, 5.0, speed={"low": 4.0, "high": 6.0})], [enter(2)]),
            ("update", [at(3, 11.0, speed={"low": 4.0, "high": 6.0})], []),
        ],
    ),
    Example(
        "M7",
        "the margin of a rule",
        {"wide": (BOX, {"m": 2.0}), "narrow": (BOX, None)},
        {"margin": "m"},
        [
            ("update", [at(0, 10.0)], [enter(0, "wide"), enter(0, "narrow")]),
            ("update", [at(1, 12.0)], [leave(1, "narrow")]),
            ("update", [at(2, 13.0)], [leave(2, "wide")]),
        ],
    ),
    Example(
        "M8",
        "the dwell of a rule",
        {"soon": (BOX, {"d": 2}), "never": (BOX, None), "later": (BOX, {"d": 4})},
        {"dwell": "d"},
        [
            ("update", [at(0, 5.0)], [enter(0, "soon"), enter(0, "never"), enter(0, "later")]),
            ("advance", 9, [dwell(2, "soon"), dwell(4, "later")]),
        ],
    ),
    Example(
        "M8",
        "the dwell of a rule as a text",
        {"soon": (BOX, {"d": "90 s"}), "never": (BOX, None)},
        {"dwell": "d"},
        [
            ("update", [at(NOON, 5.0)], [enter(NOON, "soon"), enter(NOON, "never")]),
            ("advance", later(hours=9), [dwell(later(seconds=90), "soon", since=NOON)]),
        ],
    ),
]

REMOVAL = [
    Example(
        "R1",
        "a removed object leaves at the time of its last row",
        {"r": BOX, "s": between(0, 100)},
        {"min_away": 9},
        [
            ("update", [at(0, 5.0)], [enter(0), enter(0, "s")]),
            ("update", [at(1, 50.0), at(2, 60.0)], []),
            ("advance", 5, []),
            (
                "remove",
                "a",
                [leave(2, since=1, reason=REMOVED), leave(2, "s", reason=REMOVED)],
            ),
            ("where", "a", []),
            ("inside", "s", []),
            ("remove", "a", []),
        ],
    ),
    Example(
        "R1",
        "an unknown object and a pending enter give nothing",
        {"r": BOX},
        {"min_stay": 5},
        [
            ("update", [at(0, 5.0)], []),
            ("remove", "b", []),
            ("remove", "a", []),
            ("advance", 9, []),
        ],
    ),
    Example(
        "R1",
        "a removed object is forgotten: an earlier row is not late",
        {"r": BOX},
        {},
        [
            ("update", [at(5, 50.0), at(5, 50.0)], []),
            ("update", [at(4, 50.0)], []),
            ("late", {"a": 1}),
            ("doubled", {"a": 1}),
            ("remove", "a", []),
            ("late", {}),
            ("doubled", {}),
            ("update", [at(3, 5.0)], [enter(3)]),
            ("late", {}),
        ],
    ),
    Example(
        "R2",
        "a row of a removed object, and one after it",
        {"r": BOX},
        {"removed": "gone"},
        [
            ("update", [at(0, 5.0, gone=None)], [enter(0)]),
            ("update", [at(1, 5.0)], []),
            (
                "update",
                [at(4, 5.0, gone=False), at(3, 5.0, gone=True)],
                [leave(3, reason=REMOVED), enter(4)],
            ),
            ("where", "a", ["r"]),
            ("update", [at(5, 5.0, gone=True)], [leave(5, reason=REMOVED)]),
            ("where", "a", []),
        ],
    ),
    Example(
        "R2",
        "the position of a removal is not judged",
        {"r": BOX, "far": between(50, 60)},
        {"removed": "gone", "min_away": 9},
        [
            ("update", [at(0, 5.0, gone=False)], [enter(0)]),
            ("update", [at(1, 70.0, gone=False)], []),
            ("update", [at(2, 55.0, gone=True)], [leave(2, since=1, reason=REMOVED)]),
            ("update", [at(2, 5.0, gone=False)], [enter(2)]),
            ("late", {}),
        ],
    ),
    Example(
        "R2",
        "timers fire before a removal",
        {"r": BOX},
        {"removed": "gone", "dwell": 3, "lost_after": 5},
        [
            ("update", [at(0, 5.0, gone=False)], [enter(0)]),
            ("update", [at(3, 5.0, gone=True)], [dwell(3), leave(3, reason=REMOVED)]),
            ("update", [at(4, 5.0, gone=False)], [enter(4)]),
            (
                "update",
                [at(10, 5.0, gone=True)],
                [dwell(7, since=4), leave(9, reason="lost"), lost(9, since=4)],
            ),
        ],
    ),
    Example(
        "R2",
        "a removal of an unknown object is a row that does nothing but move the clock",
        {"r": BOX},
        {"removed": "gone", "dwell": 3},
        [
            ("update", [at(0, 5.0, gone=False)], [enter(0)]),
            ("update", [at(3, 5.0, "b", gone=True)], [dwell(3)]),
            ("where", "b", []),
            ("update", [at(1, 5.0, "b", gone=False)], [enter(1, object="b")]),
            ("late", {}),
        ],
    ),
    Example(
        "R2",
        "a late removal does nothing",
        {"r": BOX},
        {"removed": "gone"},
        [
            ("update", [at(5, 5.0, gone=False)], [enter(5)]),
            ("update", [at(5, 5.0, gone=True)], []),
            ("late", {"a": 1}),
            ("where", "a", ["r"]),
        ],
    ),
]

CHANGES = [
    Example(
        "C1",
        "payload is no change: a pending leave goes on, and the rule is last now",
        {"r": BOX, "s": BOX},
        {"min_away": 5},
        [
            ("update", [at(0, 5.0)], [enter(0), enter(0, "s")]),
            ("update", [at(1, 50.0)], []),
            ("rules", [("replace", "r", BOX, {"team": "blue"})]),
            ("update", [], []),
            ("where", "a", ["s", "r"]),
            ("advance", 6, [leave(6, "s", since=1), leave(6, since=1)]),
        ],
    ),
    Example(
        "C1",
        "a rule that is removed and added again is the same rule",
        {"r": BOX},
        {"min_stay": 5},
        [
            ("update", [at(0, 5.0)], []),
            ("rules", [("remove", "r"), ("add", "r", BOX, None)]),
            ("update", [], []),
            ("advance", 5, [enter(5, since=0)]),
            ("rules", [("remove", "r"), ("add", "r", BOX, {"team": "blue"})]),
            ("update", [], []),
            ("where", "a", ["r"]),
        ],
    ),
    Example(
        "C1",
        "a rule that is removed and added again with another condition is a changed rule",
        {"r": BOX},
        {},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("rules", [("remove", "r"), ("add", "r", LARGER, None)]),
            ("update", [], []),
            ("rules", [("remove", "r"), ("add", "r", ELSEWHERE, None)]),
            ("update", [], [leave(0, reason="rule changed")]),
        ],
    ),
    Example(
        "C1",
        "a condition that is written differently but means the same is no change",
        {"r": BOX},
        {"min_stay": 5},
        [
            ("update", [at(0, 5.0)], []),
            (
                "rules",
                [("replace", "r", ("and", [("cmp", "x", "<=", 10), ("cmp", "x", ">=", 0)]), None)],
            ),
            ("update", [], []),
            ("advance", 5, [enter(5, since=0)]),
        ],
    ),
    Example(
        "C1",
        "to remove an object is no update: rules are as they were",
        {"r": BOX},
        {},
        [
            ("update", [at(0, 5.0), at(0, 6.0, "b")], [enter(0), enter(0, object="b")]),
            ("rules", [("remove", "r")]),
            ("remove", "a", [leave(0, reason=REMOVED)]),
            ("inside", "r", ["b"]),
            ("advance", 0, [leave(0, object="b", reason="rule removed")]),
        ],
    ),
    Example(
        "C1",
        "a rule that comes and goes between two updates was never there",
        {"r": BOX},
        {},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("rules", [("add", "s", BOX, None), ("replace", "r", ELSEWHERE, None)]),
            ("rules", [("remove", "s"), ("replace", "r", BOX, None)]),
            ("update", [], []),
            ("where", "a", ["r"]),
        ],
    ),
    Example(
        "C1",
        "rules are judged before the rows of the update",
        {"r": BOX},
        {},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("rules", [("remove", "r"), ("add", "s", BOX, None)]),
            ("where", "a", ["r"]),
            (
                "update",
                [at(1, 50.0), at(1, 5.0, "b")],
                [
                    leave(0, reason="rule removed"),
                    enter(0, "s", reason="rule added"),
                    leave(1, "s"),
                    enter(1, "s", "b"),
                ],
            ),
        ],
    ),
    Example(
        "C2",
        "objects leave a rule that is removed",
        {"r": BOX},
        {"min_away": 5},
        [
            ("update", [at(0, 5.0), at(0, 5.0, "b")], [enter(0), enter(0, object="b")]),
            ("update", [at(1, 50.0), at(2, 60.0), at(1, 6.0, "b")], []),
            ("rules", [("remove", "r")]),
            (
                "advance",
                2,
                [
                    leave(1, object="b", reason="rule removed"),
                    leave(2, since=1, reason="rule removed"),
                ],
            ),
            ("where", "a", []),
            ("inside", "r", []),
            ("advance", 9, []),
        ],
    ),
    Example(
        "C2",
        "pending enters of a rule that is removed vanish",
        {"r": BOX},
        {"min_stay": 5},
        [
            ("update", [at(0, 5.0)], []),
            ("rules", [("remove", "r")]),
            ("advance", 9, []),
            ("rules", [("add", "r", BOX, None)]),
            ("advance", 9, [enter(0, reason="rule added")]),
        ],
    ),
    Example(
        "C3",
        "objects enter a rule that is added, without min_stay",
        {},
        {"min_stay": 5},
        [
            ("update", [at(0, 50.0), at(2, 5.0), at(1, 50.0, "b")], []),
            ("rules", [("add", "r", BOX, None)]),
            ("update", [], [enter(2, reason="rule added")]),
            ("inside", "r", ["a"]),
        ],
    ),
    Example(
        "C4",
        "a stay goes on if the object is still inside",
        {"r": BOX},
        {"dwell": 5},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("rules", [("replace", "r", LARGER, None)]),
            ("update", [], []),
            ("advance", 5, [dwell(5)]),
        ],
    ),
    Example(
        "C4",
        "a stay goes on if the object is still inside with the margin",
        {"r": BOX},
        {"margin": 2, "min_away": 5},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("rules", [("replace", "r", between(7, 9), None)]),
            ("update", [], []),
            ("update", [at(1, 50.0)], []),
            ("rules", [("replace", "r", between(0, 48), None)]),
            ("advance", 9, []),
            ("where", "a", ["r"]),
        ],
    ),
    Example(
        "C4",
        "a pending leave is dropped if the object is inside again",
        {"r": BOX},
        {"min_away": 5},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("update", [at(1, 15.0)], []),
            ("rules", [("replace", "r", LARGER, None)]),
            ("advance", 9, []),
            ("update", [at(10, 50.0)], []),
            ("advance", 15, [leave(15, since=10)]),
        ],
    ),
    Example(
        "C4",
        "an object that is no more inside leaves at once",
        {"r": BOX},
        {"min_away": 5},
        [
            ("update", [at(0, 5.0)], [enter(0)]),
            ("rules", [("replace", "r", ELSEWHERE, None)]),
            ("update", [], [leave(0, reason="rule changed")]),
            ("where", "a", []),
        ],
    ),
    Example(
        "C4",
        "a pending enter is kept if the object matches, else it vanishes",
        {"r": BOX},
        {"min_stay": 5, "margin": 2},
        [
            ("update", [at(0, 5.0)], []),
            ("rules", [("replace", "r", LARGER, None)]),
            ("update", [], []),
            ("advance", 5, [enter(5, since=0)]),
            ("update", [at(6, 50.0), at(7, 6.0)], [leave(6)]),
            ("rules", [("replace", "r", between(7, 9), None)]),
            ("update", [], []),
            ("advance", 99, []),
        ],
    ),
    Example(
        "C4",
        "an object that was not in the rule enters at once",
        {"r": BOX},
        {"min_stay": 5},
        [
            ("update", [at(0, 15.0)], []),
            ("rules", [("replace", "r", LARGER, None)]),
            ("update", [], [enter(0, reason="rule changed")]),
        ],
    ),
    Example(
        "C5",
        "the time is that of the object's last row, whatever the clock is",
        {"r": BOX},
        {"min_away": 50},
        [
            ("update", [at(0, 5.0), at(3, 5.0, "b")], [enter(0), enter(3, object="b")]),
            ("update", [at(1, 50.0), at(2, 60.0)], []),
            ("advance", 9, []),
            ("rules", [("replace", "r", ELSEWHERE, None), ("add", "s", between(0, 99), None)]),
            (
                "advance",
                9,
                [
                    leave(2, since=1, reason="rule changed"),
                    enter(2, "s", reason="rule added"),
                    leave(3, object="b", reason="rule changed"),
                    enter(3, "s", "b", reason="rule added"),
                ],
            ),
        ],
    ),
    Example(
        "C6",
        "dwell of such an enter counts from its time",
        {},
        {"dwell": 4, "min_stay": 9},
        [
            ("update", [at(1, 5.0), at(2, 50.0, "b")], []),
            ("rules", [("add", "r", BOX, None)]),
            ("update", [], [enter(1, reason="rule added")]),
            ("advance", 4, []),
            ("advance", 5, [dwell(5, since=1)]),
        ],
    ),
    Example(
        "C6",
        "dwell of such an enter may be due already",
        {},
        {"dwell": 4},
        [
            ("update", [at(1, 5.0), at(9, 50.0, "b")], []),
            ("rules", [("add", "r", BOX, None)]),
            ("update", [], [enter(1, reason="rule added"), dwell(5, since=1)]),
            ("update", [at(4, 50.0)], []),
            ("late", {"a": 1}),
        ],
    ),
]

ORDER = [
    Example(
        "O1",
        "by time, then by first appearance, then by addition",
        {"r": BOX, "s": BOX},
        {},
        [
            (
                "update",
                [at(1, 5.0, "b"), at(1, 5.0), at(0, 5.0, "c")],
                [
                    enter(0, object="c"),
                    enter(0, "s", "c"),
                    enter(1, object="b"),
                    enter(1, "s", "b"),
                    enter(1),
                    enter(1, "s"),
                ],
            ),
            ("inside", "r", ["b", "a", "c"]),
            (
                "update",
                [at(2, 50.0, "c"), at(2, 50.0), at(2, 50.0, "b")],
                [
                    leave(2, object="b"),
                    leave(2, "s", "b"),
                    leave(2),
                    leave(2, "s"),
                    leave(2, object="c"),
                    leave(2, "s", "c"),
                ],
            ),
        ],
    ),
    Example(
        "O1",
        "the first row counts, even if a rejected one is before it or its time is greater",
        {"r": BOX},
        {},
        [
            (
                "update",
                [at(None, 5.0), at(2, 5.0, "b"), at(1, 5.0), at(1, 5.0, "b")],
                [enter(1, object="b"), enter(1)],
            ),
        ],
    ),
    Example(
        "O1",
        "an object that comes back appears anew",
        {"r": BOX},
        {},
        [
            ("update", [at(0, 50.0), at(0, 50.0, "b")], []),
            ("remove", "a", []),
            ("update", [at(1, 5.0), at(1, 5.0, "b")], [enter(1, object="b"), enter(1)]),
            ("inside", "r", ["b", "a"]),
        ],
    ),
    Example(
        "O1",
        "an object that comes back in the batch in which it is forgotten appears anew",
        {"r": BOX},
        {"lost_after": 5},
        [
            ("update", [at(0, 5.0), at(4, 5.0, "b")], [enter(0), enter(4, object="b")]),
            (
                "update",
                [at(8, 50.0), at(8, 50.0, "b"), at(9, 5.0), at(9, 5.0, "b")],
                [
                    leave(5, reason="lost"),
                    lost(5, since=0),
                    leave(8, object="b"),
                    enter(9, object="b"),
                    enter(9),
                ],
            ),
        ],
    ),
    Example(
        "O1",
        "a changed rule is at its new place",
        {"r": BOX, "s": BOX},
        {},
        [
            ("update", [at(0, 5.0)], [enter(0), enter(0, "s")]),
            ("rules", [("replace", "r", LARGER, None)]),
            ("update", [at(1, 50.0)], [leave(1, "s"), leave(1)]),
        ],
    ),
    Example(
        "O1",
        "a removed rule is at its old place, before newer ones",
        {"r": BOX, "s": BOX, "u": BOX},
        {},
        [
            ("update", [at(0, 5.0)], [enter(0), enter(0, "s"), enter(0, "u")]),
            (
                "rules",
                [
                    ("add", "v", BOX, None),
                    ("remove", "s"),
                    ("replace", "r", ELSEWHERE, None),
                ],
            ),
            (
                "update",
                [],
                [
                    leave(0, "s", reason="rule removed"),
                    enter(0, "v", reason="rule added"),
                    leave(0, reason="rule changed"),
                ],
            ),
        ],
    ),
    Example(
        "O1",
        "lost is last",
        {"r": BOX, "s": BOX},
        {"lost_after": 3, "min_away": 2},
        [
            (
                "update",
                [at(0, 5.0), at(0, 5.0, "b")],
                [
                    enter(0),
                    enter(0, "s"),
                    enter(0, object="b"),
                    enter(0, "s", "b"),
                ],
            ),
            (
                "advance",
                9,
                [
                    leave(3, reason="lost"),
                    leave(3, "s", reason="lost"),
                    lost(3, since=0),
                    leave(3, object="b", reason="lost"),
                    leave(3, "s", "b", reason="lost"),
                    lost(3, since=0, object="b"),
                ],
            ),
        ],
    ),
    Example(
        "O1",
        "events of one rule at one time are as they happen",
        {"r": BOX},
        {"min_away": 3, "dwell": 4, "min_stay": 1},
        [
            ("update", [at(0, 5.0)], []),
            ("update", [at(1, 50.0)], [enter(1, since=0)]),
            ("update", [at(4, 5.0)], [dwell(4), leave(4, since=1)]),
            ("advance", 8, [enter(5, since=4), dwell(8, since=4)]),
        ],
    ),
]

EXAMPLES = [*INPUT, *STATE, *MEMBERSHIP, *REMOVAL, *CHANGES, *ORDER]
