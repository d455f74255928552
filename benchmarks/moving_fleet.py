"""Objects that walk at random among squares, and calls that take turns."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin
from benchmarks.timing import clock

STEP_LENGTH = 1 / 3  # of a square's side, the standard deviation in each dimension


class Fleet:
    """Objects that walk at random among squares."""

    def __init__(self, objects: int, fences: int, keys: str):
        self.rng = np.random.default_rng(1)
        self.side = fences**-0.5
        low = self.rng.random((2, fences)) * (1 - self.side)
        self.boxes = np.concatenate([low, low + self.side])  # x, y low, then x, y high
        self.position = self.rng.random((2, objects))
        self.keys = pa.array(np.arange(objects))
        if keys == "text keys":
            self.keys = pa.array([f"vehicle-{i}" for i in range(objects)], pa.large_string())
        self.time = 0.0

    def rules(self) -> tocsin.Rules:
        rules = tocsin.Rules({"x": "number", "y": "number"})
        names = ("x_low", "y_low", "x_high", "y_high")
        columns = {"id": np.arange(self.boxes.shape[1])}
        rules.add_many(pa.table(columns | dict(zip(names, self.boxes))))
        return rules

    def positions(self, rows: np.ndarray) -> pa.Table:
        """Return a report of each of these objects."""
        times = np.full(len(rows), self.time)
        columns = {"object": self.keys.take(pa.array(rows)), "t": times}
        return pa.table(columns | dict(zip("xy", self.position[:, rows])))

    def draw_box(self, side: float) -> tuple[float, ...]:
        """Return a square somewhere: x, y low, then x, y high."""
        low = self.rng.random(2) * (1 - side)
        return (*low.tolist(), *(low + side).tolist())

    def everyone(self) -> pa.Table:
        return self.positions(np.arange(len(self.keys)))

    def move(self, count: int) -> pa.Table:
        """Move some objects, and return their reports."""
        rows = self.rng.choice(len(self.keys), count, replace=False)
        self.position[:, rows] += self.rng.normal(0, STEP_LENGTH * self.side, (2, count))
        np.clip(self.position, 0, 1, out=self.position)
        self.time += 1
        return self.positions(rows)


class Turns:
    """Seconds of calls that take turns, by name.

    Garbage is collected between calls, as by `timeit`: a collection costs shapely, whose points are
    objects, more than the search.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        gc.collect()
        gc.disable()
        start = clock()
        result = call()
        self.seconds.setdefault(name, []).append(clock() - start)
        gc.enable()
        return result

    def median(self, name: str) -> float:
        return float(np.median(self.seconds[name]))

    def mean(self, name: str) -> float:
        return float(np.mean(self.seconds[name]))
