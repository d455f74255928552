"""Monitors of rules with shapes: who is in what, margins, and rules that change."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.geometry.oracle import is_in_rings, rings_of
from tests.shapes.oracle import POLYGONS
from tocsin.geometry.shape import polygon_from_wkt

SCHEMA = {"x": "number", "y": "number", "speed": "number"}


def covers(wkt):
    return f"ST_Covers(ST_GeomFromText('{wkt}'), ST_Point(x, y))"


def is_near(shape, x, y, margin):
    """Return whether a point is up to a margin away from the edge, by fractions."""
    x, y, margin = Fraction(x), Fraction(y), Fraction(margin)
    for ring in rings_of(shape):
        for (ax, ay), (bx, by) in itertools.pairwise(ring):
            ax, ay, bx, by = map(Fraction, (ax, ay, bx, by))
            dx, dy = bx - ax, by - ay
            along = (x - ax) * dx + (y - ay) * dy
            part = min(max(along / (dx * dx + dy * dy), 0), 1)
            if (x - ax - part * dx) ** 2 + (y - ay - part * dy) ** 2 <= margin**2:
                return True
    return False


@pytest.mark.parametrize("margin", [None, 0, 0.5, 1.25])
@pytest.mark.parametrize("negated", [False, True])
def test_walks(margin, negated):
    """An object enters a shape, and leaves it when it is farther away than the margin."""
    rng = np.random.default_rng(round(4 * (margin or 9)) + negated)
    rules = tocsin.Rules(SCHEMA)
    shapes = [polygon_from_wkt(wkt) for wkt in POLYGONS]
    for number, wkt in enumerate(POLYGONS):
        rules.add(number, f"NOT {covers(wkt)}" if negated else covers(wkt))
    options = {} if margin is None else {"margin": margin, "position": ("x", "y")}
    monitor = tocsin.Monitor(rules, key="object", time="t", **options)
    places = rng.integers(-8, 16, (8, 2)) / 2
    inside = set()
    for t in range(60):
        places = places + rng.integers(-2, 3, places.shape) / 4
        batch = pa.table({"object": range(8), "t": [t] * 8, "x": places[:, 0], "y": places[:, 1]})
        events = {(e["object"], e["rule"], e["event"]) for e in monitor.update(batch).to_pylist()}
        now = set()
        for o, (x, y) in enumerate(places.tolist()):
            for r, shape in enumerate(shapes):
                holds = is_in_rings(shape, x, y) != negated
                stays = bool(margin) and (o, r) in inside and is_near(shape, x, y, margin)
                if holds or stays:
                    now.add((o, r))
        expected = {(o, r, "enter") for o, r in now - inside}
        assert events == expected | {(o, r, "leave") for o, r in inside - now}
        inside = now


def test_a_margin_on_the_globe_is_in_metres():
    rules = tocsin.Rules({"lon": "number", "lat": "number"})
    rules.add("c", "ST_DistanceSphere(ST_Point(lon, lat), ST_Point(2.35, 48.86)) <= 500")
    monitor = tocsin.Monitor(rules, key="object", time="t", position=("lon", "lat"), margin=50)
    found = []
    for t, metres in enumerate((400, 540, 560, 540, 490)):
        lat = 48.86 + math.degrees(metres / 6_371_008.8)
        row = pa.table({"object": ["o"], "t": [t], "lon": [2.35], "lat": [lat]})
        found.append([e["event"] for e in monitor.update(row).to_pylist()])
    assert found == [["enter"], [], ["leave"], [], ["enter"]]


def test_rules_that_change():
    """A polygon that is written differently has not changed, and one with another vertex has."""
    rules = tocsin.Rules(SCHEMA)
    square = "POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))"
    rules.add("a", covers(square))
    rules.add("b", f"{covers(square)} OR speed > 9")
    monitor = tocsin.Monitor(rules, key="object", time="t")

    def update(t, x, y):
        row = pa.table({"object": ["o"], "t": [t], "x": [x], "y": [y], "speed": [1.0]})
        return [(e["rule"], e["event"]) for e in monitor.update(row).to_pylist()]

    assert sorted(update(0, 3.0, 3.0)) == [("a", "enter"), ("b", "enter")]
    rules.replace("a", covers("POLYGON((4 4, 0 4, 0 0, 4 0, 4 4))"))
    rules.replace("b", f"speed > 9 OR {covers(square)}")
    assert update(1, 3.0, 3.0) == []
    rules.merge()
    assert update(2, 3.0, 3.0) == []
    rules.replace("a", covers("POLYGON((0 0, 4 0, 0 4, 0 0))"))
    other = pa.table({"object": ["p"], "t": [3], "x": [-9.0], "y": [9.0], "speed": [1.0]})
    left = monitor.update(other).to_pylist()  # by the change, without a position
    assert [(e["object"], e["rule"], e["event"]) for e in left] == [("o", "a", "leave")]
    rules.replace("b", f"{covers(square).replace('ST_Covers', 'ST_Contains')} OR speed > 9")
    assert update(4, 3.0, 3.0) == []
    rules.replace("a", covers("POLYGON((0 0, 40 0, 40 40, 0 4, 0 0))"))
    assert update(5, 3.0, 3.0) == [("a", "enter")]


def test_a_saved_monitor(tmp_path):
    rules = tocsin.Rules(SCHEMA)
    rules.add("a", covers(POLYGONS[3]))
    monitor = tocsin.Monitor(rules, key="object", time="t")
    monitor.update(pa.table({"object": ["o"], "t": [0], "x": [1.5], "y": [1.5]}))
    monitor.save(tmp_path / "state")
    again = tocsin.Rules(SCHEMA)
    again.add("z", "x > 100")
    again.add("a", covers(POLYGONS[3]))
    opened = tocsin.Monitor.open(tmp_path / "state", again)
    row = pa.table({"object": ["o"], "t": [1], "x": [1.5], "y": [1.5]})
    assert opened.update(row).num_rows == 0
    assert opened.inside("a") == ["o"]
