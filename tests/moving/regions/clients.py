"""Clients that are silent while their region allows it, in plain Python."""

import math
from dataclasses import dataclass, field
from typing import Any

from tests.moving.trees import Row


@dataclass
class Client:
    """An object that knows its region, where it is, and what it last reported."""

    monitor: Any
    key: Any
    position: tuple[str, str] = ("x", "y")
    reported: Row | None = None
    travelled: float = 0.0
    last: tuple[Any, Any] = (None, None)
    must_report: bool = True  # what it has reported was not answered yet
    region: Any = None
    reports: int = field(default=0)

    def is_silent(self, row: Row) -> bool:
        """Move, and return whether this need not be reported."""
        x, y = (row[name] for name in self.position)
        self.travelled += _distance(self.last, (x, y))
        self.last = x, y
        if self.must_report or self.region is None or self.reported is None:
            return False
        if any(not _is_same(row.get(c), self.reported.get(c)) for c in self.region.fixed):
            return False
        if hasattr(self.region, "contains"):
            return self.region.contains(x, y)
        return self.travelled < self.region.distance

    def report(self, row: Row) -> Row:
        """Report, and wait for an answer."""
        self.reported, self.travelled, self.must_report = row, 0.0, True
        self.reports += 1
        return row

    def listen(self) -> None:
        """Hear the region after an update, if something was reported."""
        if self.must_report:
            self.region = self.monitor.region(self.key)
            self.must_report = False


def _distance(a: tuple[Any, Any], b: tuple[Any, Any]) -> float:
    """Return a distance, rounded up; infinite where there is none."""
    if not all(v is not None and math.isfinite(v) for v in (*a, *b)):
        return math.inf
    dx, dy = abs(a[0] - b[0]), abs(a[1] - b[1])
    return math.hypot(dx, dy) * (1 + 1e-15) if dx and dy else max(dx, dy) * (1 + 1e-15)


def _is_same(a: Any, b: Any) -> bool:
    return a == b or (a != a and b != b)
