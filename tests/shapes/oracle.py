"""What conditions about shapes mean, by fractions; and random conditions and events."""

import math
from fractions import Fraction

import numpy as np

from tests.geometry.oracle import is_in_rings
from tocsin.geometry.shape import polygon_from_wkt

NAN, INF = math.nan, math.inf
SCHEMA = {
    "x": "number", "y": "number", "n": "integer", "m": "integer", "d": "decimal(6,2)",
    "speed": "number", "tier": "category",
}  # fmt: skip

# Rings with vertices on whole numbers, so that events meet vertices and edges.
POLYGONS = [
    "POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))",
    "POLYGON((0 0, 4 0, 0 4, 0 0))",
    "POLYGON((0 0, 6 0, 6 6, 0 6, 0 0), (1 1, 1 3, 3 3, 3 1, 1 1))",
    "POLYGON((-3 -1, 2 5, 5 -2, 1 1, -3 -1))",
    "MULTIPOLYGON(((0 0, 2 0, 0 2, 0 0)), ((3 3, 5 3, 5 5, 3 5, 3 3), (4 4, 4.5 4, 4 4.5, 4 4)))",
]
POINTS = [("x", "y"), ("n", "m"), ("x", "d"), ("y", "n")]


class Shape:
    """A test of a point: `holds` is True, False or None for an event."""

    def __init__(self, sql, x, y, is_inside):
        self.sql, self.x, self.y, self.is_inside = sql, x, y, is_inside

    def holds(self, event):
        x, y = event.get(self.x), event.get(self.y)
        if x is None or y is None:
            return None
        x, y = float(x), float(y)
        return math.isfinite(x) and math.isfinite(y) and self.is_inside(x, y)


def polygon(rng):
    wkt, (x, y) = POLYGONS[rng.integers(len(POLYGONS))], POINTS[rng.integers(len(POINTS))]
    name = ["ST_Covers", "ST_Contains", "ST_CoveredBy", "ST_Within"][rng.integers(4)]
    shape = polygon_from_wkt(wkt, name in ("ST_Covers", "ST_CoveredBy"))
    arguments = [f"ST_GeomFromText('{wkt}')", f"ST_Point({x}, {y})"]
    if name in ("ST_CoveredBy", "ST_Within"):
        arguments.reverse()
    sql = f"{name}({', '.join(arguments)})"
    return Shape(sql, x, y, lambda a, b: is_in_rings(shape, a, b))


def disc(rng):
    x, y = POINTS[rng.integers(len(POINTS))]
    cx, cy, radius = rng.integers(-1, 5), rng.integers(-1, 5), [0, 1, 2.5, 5][rng.integers(4)]

    def is_inside(a, b):
        square = (Fraction(a) - int(cx)) ** 2 + (Fraction(b) - int(cy)) ** 2
        return square <= Fraction(radius) ** 2

    sql = f"ST_DWithin(ST_Point({x}, {y}), ST_Point({cx}, {cy}), {radius})"
    return Shape(sql, x, y, is_inside)


class Plain:
    """A test without a shape."""

    def __init__(self, sql, column, test):
        self.sql, self.column, self.test = sql, column, test

    def holds(self, event):
        value = event.get(self.column)
        return None if value is None else bool(self.test(value))


def plain(rng):
    return [
        Plain("speed > 30", "speed", lambda v: v > 30 or math.isnan(v)),
        Plain("x BETWEEN 1 AND 3", "x", lambda v: 1 <= v <= 3),
        Plain("tier = 'gold'", "tier", lambda v: v == "gold"),
        Plain("n <> 2", "n", lambda v: v != 2),
    ][rng.integers(4)]


class Junction:
    """AND or OR of two, or NOT of one."""

    def __init__(self, word, *parts):
        self.word, self.parts = word, parts
        texts = [f"({part.sql})" for part in parts]
        self.sql = f"NOT {texts[0]}" if word == "NOT" else f" {word} ".join(texts)

    def holds(self, event):
        found = [part.holds(event) for part in self.parts]
        if self.word == "NOT":
            return None if found[0] is None else not found[0]
        decisive = self.word == "OR"
        if decisive in found:
            return decisive
        return None if None in found else not decisive


def condition(rng, depth=2):
    if depth and rng.random() < 0.7:
        word = ["AND", "OR", "NOT"][rng.integers(3)]
        parts = [condition(rng, depth - 1) for _ in range(1 if word == "NOT" else 2)]
        return Junction(word, *parts)
    kind = rng.random()
    return polygon(rng) if kind < 0.5 else disc(rng) if kind < 0.7 else plain(rng)


def event(rng):
    def number():
        kind = rng.random()
        if kind < 0.08:
            return [NAN, INF, -INF, -0.0, 1e308, 5e-324][rng.integers(6)]
        if kind < 0.5:
            return float(rng.integers(-3, 7))
        return float(rng.uniform(-3, 7))

    made = {
        "x": number(), "y": number(), "n": int(rng.integers(-3, 7)), "m": int(rng.integers(-3, 7)),
        "d": float(np.round(rng.uniform(-3, 7), 2)), "speed": float(rng.integers(20, 40)),
        "tier": ["gold", "blue"][rng.integers(2)],
    }  # fmt: skip
    return {k: v for k, v in made.items() if rng.random() > 0.08}
