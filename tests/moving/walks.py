"""Random walks of objects among rules that change, full of coincidences.

Times, coordinates and literals come from small grids, and durations and margins are small multiples
of their steps. So rows, timers and the clock often meet at one time, and coordinates are often
exactly on an edge or exactly a margin away from it. A seed repeats a walk.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import pyarrow as pa

from tests.moving.trees import (
    Neighbourhood,
    Row,
    Tree,
    conjunctions,
    neighbours,
    normal_form,
    predicate,
    truth,
)

SCHEMA = {"x": "number", "y": "number", "n": "integer", "speed": "number", "vehicle": "category"}
TREES = 12  # different conditions in a walk
CALLS = ("update", "advance", "remove", "rules")


@dataclass(frozen=True)
class Profile:
    """What walks are like. An option of the monitor is used always, half of the time, or never."""

    always: tuple[str, ...] = ()
    sometimes: tuple[str, ...] = ()
    time: str | None = None  # integer, number or time; None is any of them
    integer_keys: bool | None = None
    decimals: bool = False  # coordinates are multiples of 0.1, whose differences are not exact
    objects: int = 5
    steps: int = 40
    batches: tuple[int, ...] = (0, 1, 1, 2, 3, 5, 8, 12)  # rows
    calls: tuple[int, ...] = (12, 3, 1, 3)  # weights of CALLS
    # Predicates on one column joined by AND can be widened one by one, or after they are merged.
    # `x > 5 AND x < 3` with a margin of 2 differs. Off, walks have only conditions without it.
    merged_predicates: bool = False
    ranges: bool = False  # positions are sometimes ranges
    # A rule's dwell may change during a stay. Off, a rule id has the same dwell all the time.
    dwell_changes: bool = False


DURATIONS = ("dwell", "min_stay", "min_away", "lost_after", "delay")
OPTIONS = (*DURATIONS, "margin", "removed", "keep", "rule_dwell", "rule_margin")

PROFILES = {
    "no options": Profile(),
    "dwell": Profile(always=("dwell",)),
    "min_stay": Profile(always=("min_stay",)),
    "min_away": Profile(always=("min_away",)),
    "lost_after": Profile(always=("lost_after",)),
    "delay": Profile(always=("delay", "dwell"), sometimes=("lost_after",)),
    "margin": Profile(always=("margin",)),
    "margin in decimals": Profile(always=("margin",), decimals=True, steps=80),
    "removed": Profile(always=("removed",), sometimes=("keep", "lost_after")),
    "hysteresis": Profile(always=("dwell", "min_stay", "min_away", "margin"), steps=80),
    "hysteresis and rule changes": Profile(
        always=("min_stay", "min_away"), sometimes=("dwell", "margin"), steps=80, calls=(6, 1, 0, 6)
    ),
    "options of rules": Profile(always=("rule_dwell", "rule_margin"), sometimes=DURATIONS[1:]),
    "rule changes": Profile(sometimes=OPTIONS, calls=(6, 2, 1, 12)),
    "few objects": Profile(sometimes=OPTIONS, objects=2, steps=60),
    "timestamps": Profile(sometimes=OPTIONS, time="time"),
    "floats": Profile(sometimes=OPTIONS, time="number"),
    "any options": Profile(sometimes=OPTIONS),
    "large batches": Profile(
        sometimes=OPTIONS, objects=150, steps=8, batches=(0, 50, 400, 1500), calls=(6, 1, 1, 2)
    ),
    "ranges": Profile(always=("margin",), sometimes=OPTIONS, ranges=True),
    # What the semantics leave open, see Profile.
    "merged predicates": Profile(always=("margin",), merged_predicates=True),
    "changes of dwell": Profile(
        always=("rule_dwell",), sometimes=OPTIONS, calls=(6, 2, 1, 12), dwell_changes=True
    ),
}


@dataclass
class Walk:
    """A scenario. Steps are those of `tests/moving/examples.py`, without what they return."""

    options: dict[str, Any]
    edits: list[tuple[Any, ...]]  # which add the first rules
    steps: list[tuple[str, Any]]
    types: dict[str, pa.DataType]  # of the columns of rows
    schema: dict[str, str] = field(default_factory=lambda: SCHEMA)

    def table(self, rows: list[Row]) -> pa.Table:
        """Return rows as a table: with the columns of the rows, or all if there are none."""
        names = list(rows[0]) if rows else list(self.types)
        values = {name: [row[name] for row in rows] for name in names}
        return pa.table(
            {name: pa.array(values[name], self.type_of(name, values[name])) for name in names}
        )

    def type_of(self, name: str, values: list[Any]) -> pa.DataType:
        type_ = self.types[name]
        if any(isinstance(value, dict) for value in values):
            return pa.struct({"low": type_, "high": type_})
        return type_


def walk(seed: int, profile: str) -> Walk:
    return _Walker(Random(f"{profile} {seed}"), PROFILES[profile]).walk()


def walks(count: int) -> Iterator[tuple[str, int]]:
    """Yield a profile and a seed for each of some walks of each profile."""
    return product(PROFILES, range(count))


_NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
_TIME_TYPES = {
    "integer": [pa.int64(), pa.int32()],
    "number": [pa.float64()],
    "time": [
        *(pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")),
        *(pa.timestamp("us"), pa.timestamp("s")),
    ],
}
_VEHICLES = ("car", "truck", "Z", "é", "", "\ufffd", "\U0001f69a")


class _Walker:
    def __init__(self, rng: Random, profile: Profile):
        self.rng, self.profile = rng, profile
        self.time_kind = profile.time or rng.choice(("integer", "number", "time"))
        self.used = {*profile.always, *(o for o in profile.sometimes if rng.random() < 0.5)}
        integer_keys = profile.integer_keys
        if integer_keys is None:
            integer_keys = rng.random() < 0.3
        numbers = rng.sample(range(-9, 10**6), profile.objects)
        self.keys: list[Any] = numbers if integer_keys else [f"object {n}" for n in numbers]
        self.ids: list[Any] = list(range(6)) if rng.random() < 0.2 else list("rstuvw")
        self.texts_as_durations = rng.random() < 0.5
        self.step = 0.1 if profile.decimals else 0.5  # of coordinates
        self.position = rng.choice((("x", "y"), ("x", "y"), ("x",), ("n",), ("y", "n")))
        self.trees: list[Tree] = []
        self.rules: dict[Any, tuple[Tree, Row]] = {}
        self.dwells: dict[Any, Any] = {}
        self.now = 0  # in ticks
        self.places = {key: [rng.randint(0, 12) for _ in "xyn"] for key in self.keys}
        time_type = rng.choice(_TIME_TYPES[self.time_kind])
        has_zone = self.time_kind == "time" and time_type.tz
        self.noon = _NOON if has_zone else _NOON.replace(tzinfo=None)
        self.types = {
            "object": pa.int64() if integer_keys else pa.string(),
            "t": time_type,
            "x": pa.float64(),
            "y": pa.float64(),
            "n": pa.int64(),
            "speed": pa.float64(),
            "vehicle": pa.string(),
            "gone": pa.bool_(),
            "note": pa.int64(),
        }

    def walk(self) -> Walk:
        options = self.options()
        self.collect_trees()
        edits = [edit for _ in range(self.rng.choice((0, 2, 3, 4))) for edit in self.edit()]
        if {"rule_dwell", "rule_margin"} & self.used:
            # The columns of payload are always there: this rule is not removed.
            edits.append(("add", 99 if 0 in self.ids else "z", ("const", False), self.anchor()))
        steps = [("update", self.rows())]
        while len(steps) < self.profile.steps:
            steps.append(self.next_step())
        return Walk(options, edits, steps, self.types)

    # ------------------------------------------------------------ options

    def options(self) -> dict[str, Any]:
        used, options = self.used, {}
        for name in DURATIONS:
            if name in used:
                ticks = self.rng.choice((0, 1, 2, 2, 3, 3, 4))
                options[name] = self.duration(2 * ticks if name == "lost_after" else ticks)
        if "margin" in used:
            options["margin"] = self.rng.choice((0, 1, 1, 2, 4)) * self.step
        if "rule_dwell" in used:
            options["dwell"] = "own dwell"
        if "rule_margin" in used:
            options["margin"] = "own margin"
        if "removed" in used:
            options["removed"] = "gone"
        if "keep" in used:
            options["keep"] = ("note",)
        if self.position != ("x", "y"):
            options["position"] = self.position
        return options

    def duration(self, ticks: int) -> Any:
        if self.time_kind == "integer":
            return ticks
        if self.time_kind == "number":
            return ticks / 2
        return f"{ticks} s" if self.texts_as_durations else timedelta(seconds=ticks)

    def moment(self, tick: int) -> Any:
        if self.time_kind == "integer":
            return tick
        return tick / 2 if self.time_kind == "number" else self.noon + timedelta(seconds=tick)

    def payload(self, id: Any) -> Row:
        """Return a rule's payload; what it lacks is null."""
        rng, payload = self.rng, {}
        if rng.random() < 0.5:
            payload["team"] = rng.choice(("red", "blue"))
        if "rule_margin" in self.used and rng.random() < 0.7:
            payload["own margin"] = rng.choice((0.0, 1.0, 2.0, 4.0)) * self.step
        if "rule_dwell" in self.used:
            dwell = self.duration(rng.randint(0, 4)) if rng.random() < 0.7 else None
            if not self.profile.dwell_changes:
                dwell = self.dwells.setdefault(id, dwell)
            if dwell is not None:
                payload["own dwell"] = dwell
        return payload

    def anchor(self) -> Row:
        columns = {
            "rule_dwell": ("own dwell", self.duration(1)),
            "rule_margin": ("own margin", 1.0),
        }
        return dict(columns[option] for option in sorted(columns) if option in self.used)

    # ------------------------------------------------------------ steps

    def next_step(self) -> tuple[str, Any]:
        rng = self.rng
        self.now += rng.choice((0, 0, 1, 1, 2)) if rng.random() < 0.95 else 12
        match rng.choices(CALLS, self.profile.calls)[0]:
            case "update":
                return "update", self.rows()
            case "advance":
                return "advance", self.moment(self.now + rng.randint(-3, 4))
            case "remove":
                return "remove", rng.choice(self.keys)
        return "rules", [edit for _ in range(rng.choice((1, 1, 2, 3))) for edit in self.edit()]

    def rows(self) -> list[Row]:
        rng = self.rng
        columns = [c for c in self.types if c not in SCHEMA or rng.random() < 0.94]
        if rng.random() < 0.3:
            rng.shuffle(columns)
        active = rng.sample(self.keys, rng.randint(1, len(self.keys)))
        rows = []
        ranges = [c for c in ("x", "y", "n") if self.profile.ranges and rng.random() < 0.4]
        for _ in range(rng.choice(self.profile.batches)):
            row = self.row(active)
            for name in ranges:
                low = row[name]
                if low is not None:
                    is_finite = math.isfinite(low)
                    row[name] = {"low": low, "high": low + rng.randint(1, 4)} if is_finite else None
            rows.append({name: row[name] for name in columns})
        return rows

    def row(self, active: list[Any]) -> Row:
        rng = self.rng
        key = rng.choice(active)
        place = self.places[key]
        for axis in range(3):
            jump = rng.random() < 0.15
            place[axis] = rng.randint(-2, 14) if jump else place[axis] + rng.randint(-2, 2)
            place[axis] = max(-2, min(14, place[axis]))
        row = {
            "object": key if rng.random() < 0.98 else None,
            "t": self.moment(self.now + rng.randint(-3, 4)) if rng.random() < 0.98 else None,
            "x": self.coordinate(place[0]),
            "y": self.coordinate(place[1]),
            "n": place[2] // 2 if rng.random() < 0.95 else None,
            "speed": rng.choice((None, math.nan, 0.0, 1.0, 2.0, 3.0, 3.5)),
            "vehicle": rng.choice((None, *_VEHICLES)),
            "gone": rng.choices((None, False, True), (1, 8, 1))[0],
            "note": rng.choice((None, 0, 1, 2)),
        }
        if self.time_kind == "number" and rng.random() < 0.02:
            row["t"] = rng.choice((math.nan, math.inf, -math.inf))
        return row

    def coordinate(self, place: int) -> float | None:
        rng = self.rng
        value = place * self.step
        if rng.random() < 0.9:
            return value
        return rng.choice(
            (
                *(None, None, math.nan, math.nan, math.inf, -math.inf, -0.0),
                *(math.nextafter(value, math.inf), math.nextafter(value, -math.inf)),
            )
        )

    # ------------------------------------------------------------ rules

    def edit(self) -> list[tuple[Any, ...]]:
        """Return one change, of one or two edits."""
        rng, rules = self.rng, self.rules
        free = [id for id in self.ids if id not in rules]
        if not rules or (free and rng.random() < 0.35):
            return [self.add(rng.choice(free), rng.choice(self.trees))]
        id = rng.choice(list(rules))
        tree, payload = rules[id]
        match rng.choice(("tree", "tree", "payload", "remove", "again", "anew", "back", "respell")):
            case "tree":
                return [self.replace(id, rng.choice(self.trees), payload)]
            case "payload":
                return [self.replace(id, tree, self.payload(id))]
            case "remove":
                return [self.remove(id)]
            case "again":
                return [self.remove(id), self.add(id, tree)]
            case "anew":
                return [self.remove(id), self.add(id, rng.choice(self.trees))]
            case "back":
                other = rng.choice(self.trees)
                return [self.replace(id, other, payload), self.replace(id, tree, payload)]
        return [self.replace(id, ("and", [tree]), payload)]

    def add(self, id: Any, tree: Tree) -> tuple[Any, ...]:
        self.rules[id] = tree, self.payload(id)
        return "add", id, *self.rules[id]

    def replace(self, id: Any, tree: Tree, payload: Row) -> tuple[Any, ...]:
        self.rules[id] = tree, payload
        return "replace", id, tree, payload

    def remove(self, id: Any) -> tuple[Any, ...]:
        del self.rules[id]
        return "remove", id

    # ------------------------------------------------------------ conditions

    def collect_trees(self) -> None:
        """Collect the conditions of a walk; no two are equivalent.

        So it is beyond doubt whether a rule's condition has changed.
        """
        samples = [self.row(self.keys) for _ in range(150)]
        signatures = set()
        while len(self.trees) < TREES:
            tree = self.tree(self.rng.choice((0, 1, 1, 2)))
            signature = tuple(truth(tree, row) is True for row in samples)
            if signature in signatures:
                continue
            if self.profile.merged_predicates or not merging_matters(tree, self.step):
                signatures.add(signature)
                self.trees.append(tree)

    def tree(self, depth: int) -> Tree:
        rng = self.rng
        if depth == 0:
            return self.leaf()
        shape = rng.choice(("box", "and", "and", "or", "not"))
        if shape == "box":
            return ("and", [self.interval("x"), self.interval("y")])
        if shape == "not":
            return ("not", self.tree(depth - 1))
        return (shape, [self.tree(depth - 1) for _ in range(rng.choice((2, 2, 3)))])

    def leaf(self) -> Tree:
        rng = self.rng
        column = rng.choice(("x", "y", "n", "speed", "vehicle", "sum"))
        if rng.random() < 0.5:
            column = rng.choice(self.position)
        if column == "sum" and self.profile.ranges:
            column = "x"
        if column == "vehicle":
            literals = rng.sample((*_VEHICLES, "unseen"), 2)
            return rng.choice(
                (
                    ("cmp", column, rng.choice(("=", "<>")), literals[0]),
                    ("in", column, literals),
                    ("null", column),
                )
            )
        term = ("+", "x", "y") if column == "sum" else column
        operator = rng.choice(("<", "<=", "=", "<>", ">=", ">"))
        return rng.choice(
            (
                ("cmp", term, operator, self.literal(column)),
                ("cmp", term, operator, self.literal(column)),
                self.interval(term),
                self.interval(term),
                ("in", term, [self.literal(column) for _ in range(rng.randint(1, 3))]),
                ("in", term, [self.literal(column), None]),
                ("null", column if column != "sum" else "x"),
            )
        )

    def interval(self, term: Any) -> Tree:
        return ("between", term, *sorted((self.literal(term), self.literal(term))))

    def literal(self, column: Any) -> int | float:
        """Return a point of the grid of coordinates, or a small integer."""
        if column in ("x", "y"):
            number = self.rng.randint(0, 12) * self.step
            return int(number) if number.is_integer() and self.rng.random() < 0.5 else number
        return self.rng.choice((0, 1, 2, 3, 4, 5, 2.5))


# ------------------------------------------------------------ ambiguous conditions


def merging_matters(tree: Tree, step: float) -> bool:
    """Return whether predicates that are widened one by one differ from merged ones.

    Only some margins and points of the grid are tried.
    """
    for leaves in conjunctions(normal_form(tree)):
        for column in ("x", "y", "n"):
            own = [leaf for leaf in leaves if predicate(leaf)[1] == column]
            integer = SCHEMA[column] == "integer"
            values = range(-6, 12) if integer else [k * step for k in range(-12, 30)]
            for margin in (step, 2 * step, 4 * step) if len(own) > 1 else ():
                near = Neighbourhood((column,), SCHEMA, Fraction(margin))
                if any(_differs(own, column, value, near) for value in values):
                    return True
    return False


def _differs(leaves: list[Tree], column: str, value: float, near: Neighbourhood) -> bool:
    one_by_one = all(near.holds(leaf, {column: value}) for leaf in leaves)
    values = [value]
    for leaf in leaves:
        values += neighbours(predicate(leaf), SCHEMA[column])
    merged = any(
        near.is_near(w, value) and all(truth(leaf, {column: w}) is True for leaf in leaves)
        for w in values
    )
    return one_by_one != merged
