"""Workloads of range matching: rules are boxes or intervals, events are points.

They are seeded, so that all runs and peers have the same data. Both ends of a range are included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

AXES = ("x", "y", "price", "speed", "heading", "age", "tier")
KINDS = {"f": "number", "i": "integer", "U": "category"}
SIZES = {  # numbers of points and rules
    "tiny": {
        "W1": (2_000, 2_000),
        "W2": (4_000, 500),
        "W3": (4_000, 500),
        "W4": (4_000, 500),
        "W5": (500, 1_000),
        "W6": (1_000, 2_000),
        "mixed": (1_000, 5_100),
    },
    "full": {
        "W1": (100_000, 100_000),
        "W2": (1_000_000, 25_000),
        "W3": (1_000_000, 25_000),
        "W4": (1_000_000, 25_000),
        "W5": (100_000, 256_000),
        "W6": (1_000_000, 1_000_000),
        "mixed": (20_000, 255_000),
    },
}


@dataclass(frozen=True)
class Workload:
    """Ranges from `low` to `high` and points, one array per axis."""

    name: str
    description: str
    low: list[np.ndarray | pa.Array]
    high: list[np.ndarray | pa.Array]
    points: list[np.ndarray]
    target: float  # ratio to the fastest peer
    reuse_target: float = 0.0  # ratio of match to match_blocks and to count

    @property
    def rules(self) -> int:
        return len(self.low[0])

    @property
    def events(self) -> int:
        return len(self.points[0])

    @property
    def is_integer(self) -> bool:
        """Whether all coordinates are integers."""
        return self.points[0].dtype.kind == "i"

    @property
    def schema(self) -> dict[str, str]:
        return {axis: KINDS[points.dtype.kind] for axis, points in zip(AXES, self.points)}

    def first(self, n: int) -> list[np.ndarray]:
        return [axis[:n] for axis in self.points]

    def rule_table(self, key: str = "id") -> pa.Table:
        columns = {key: np.arange(self.rules, dtype=np.int32)}
        for axis, low, high in zip(AXES, self.low, self.high):
            columns |= {f"{axis}_low": low, f"{axis}_high": high}
        return pa.table(columns)


def point_table(points: list[np.ndarray], numbered: bool = False) -> pa.Table:
    columns = {"event": np.arange(len(points[0]), dtype=np.int32)} if numbered else {}
    return pa.table(columns | dict(zip(AXES, points)))


def make_squares(corner: np.ndarray, side) -> tuple[list[np.ndarray], list[np.ndarray]]:
    low = [np.ascontiguousarray(axis) for axis in corner]
    return low, [axis + side for axis in low]


def uniform(name: str, points: int, rules: int, seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    side = 0.01
    low, high = make_squares(rng.random((2, rules)) * (1 - side), side)
    description = f"uniform, {points:,} points x {rules:,} squares of side 0.01"
    return Workload(name, description, low, high, list(rng.random((2, points))), 5)


def w1(points: int, rules: int) -> Workload:
    return uniform("W1", points, rules, 1)


def w2(points: int, rules: int) -> Workload:
    return uniform("W2", points, rules, 2)


def w3(points: int, rules: int) -> Workload:
    rng = np.random.default_rng(0)
    centres = 0.2 + 0.6 * rng.random((5, 2))

    def around(n: int, spread: float) -> np.ndarray:
        return (centres[rng.integers(0, 5, n)] + rng.normal(0, spread, (n, 2))).T

    side = 0.01
    low, high = make_squares(around(rules, 0.1) - side / 2, side)
    description = f"five Gaussian clusters, {points:,} points x {rules:,} squares of side 0.01"
    return Workload("W3", description, low, high, [a.copy() for a in around(points, 0.05)], 3)


def w4(points: int, rules: int) -> Workload:
    rng = np.random.default_rng(4)

    def half_in_the_corner(n: int) -> tuple[np.ndarray, np.ndarray]:
        is_in_corner = rng.permutation(n) < n // 2
        return rng.random((2, n)) * np.where(is_in_corner, 0.001, 1.0), is_in_corner

    corners, is_in_corner = half_in_the_corner(rules)
    low, high = make_squares(corners, np.where(is_in_corner, 0.00001, 0.01))
    description = f"half uniform, half in [0, 0.001]^2, {points:,} points x {rules:,} squares"
    return Workload("W4", description, low, high, list(half_in_the_corner(points)[0]), 5)


def w5(points: int, rules: int) -> Workload:
    rng = np.random.default_rng(5)
    domain = (300, 200)

    def skewed(n: int) -> list[np.ndarray]:
        """Return coordinates of which 90% are in the central tenth of the area."""
        is_central = rng.random(n) < 0.9
        axes = []
        for size in domain:
            width = int(size * 0.1**0.5)
            begin = (size - width) // 2
            inside = rng.integers(begin, begin + width, n)
            axes.append(np.where(is_central, inside, rng.integers(0, size, n)))
        return axes

    low = skewed(rules)
    high = [a + rng.integers(0, most, rules) for a, most in zip(low, (40, 20))]
    description = (
        f"300 x 200 whole numbers, {points:,} points x {rules:,} rectangles, 90% in the centre"
    )
    return Workload("W5", description, low, high, skewed(points), 20, 3)


def w6(points: int, rules: int) -> Workload:
    rng = np.random.default_rng(6)
    domain = 1_000_000_000
    low = rng.integers(0, domain, rules)
    high = low + rng.integers(0, domain // 500 + 1, rules)
    description = f"1-D, {points:,} points x {rules:,} intervals of 0 to 0.2% of the domain"
    return Workload("W6", description, [low], [high], [rng.integers(0, domain, points)], 5, 3)


WORKLOADS: dict[str, Callable[[int, int], Workload]] = {
    "W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6,
}  # fmt: skip


def uniform_boxes(n: int, matches: float, events: int) -> Workload:
    """Return squares of such a size that a point is in `matches` of them on average."""
    rng = np.random.default_rng(n)
    side = (matches / n) ** 0.5
    low, high = make_squares(rng.random((2, n)) * (1 - side), side)
    return Workload("growth", f"{n:,} boxes", low, high, list(rng.random((2, events))), 0)


def mixed(points: int, rules: int) -> Workload:
    """Return price bands, geofences, boxes over speed and heading, and ages per tier, shuffled."""
    rng = np.random.default_rng(7)
    shapes = np.array([(2,), (0, 1), (3, 4), (5, 6)], object)  # axes of each
    shape_of_rule = rng.choice(4, rules, p=np.array([100, 100, 50, 5]) / 255)
    side = [np.where(rng.random(rules) < 0.05, 0.1, 0.005)] * 2 + [0.0001, 0.01, 0.01, 0.1]
    tiers = np.array([f"tier {i}" for i in range(5)])
    low, high = [], []
    for axis in range(len(AXES)):
        untested = np.array([axis not in axes for axes in shapes])[shape_of_rule]
        begin = tiers[rng.integers(0, 5, rules)] if axis == 6 else rng.random(rules)
        low.append(pa.array(begin, mask=untested))
        high.append(pa.array(begin if axis == 6 else begin + side[axis], mask=untested))
    coordinates = [*rng.random((6, points)), tiers[rng.integers(0, 5, points)]]
    description = f"bands, fences, boxes and categories, {points:,} points x {rules:,} rules"
    return Workload("mixed", description, low, high, coordinates, 0)
