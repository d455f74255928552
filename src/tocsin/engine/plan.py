"""Which index holds which rules, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.errors import RuleError, near
from tocsin.index.exhaustive import Exhaustive
from tocsin.index.grid import Grid
from tocsin.index.intervals import Intervals
from tocsin.index.ntree import NTree
from tocsin.index.plane import boxes_over, chosen_axes, met_share
from tocsin.index.protocol import Index
from tocsin.index.rectangles import Rectangles
from tocsin.model.conjunctions import Conjunctions

INDEXES: dict[str, Any] = {
    each.name: each for each in (Exhaustive, Grid, NTree, Intervals, Rectangles)
}


# What an event costs, in nanoseconds: roughly, and only to choose by (measured on one core).
_LOOK = 0.4  # at one conjunction, exhaustively
_CELL = 40.0  # to find its cell
_TEST = 1.2  # of one box in its cell
_ACCEPT = 10.0  # of one candidate that the box does not settle


def check_index(name: Any) -> None:
    """Raise if there is no such index."""
    if name != "auto" and (not isinstance(name, str) or name not in INDEXES):
        raise RuleError(
            f"there is no index {name!r}{near(name, INDEXES)} (auto, {', '.join(INDEXES)})"
        )


def built_index(name: str, conjunctions: Conjunctions, floats: np.ndarray) -> tuple[Index, str]:
    """Build the index of that name, or the one that suits best, and say why in a sentence."""
    if name != "auto":
        return INDEXES[name].build(conjunctions, floats), "it was asked for"
    n = conjunctions.size
    look = _LOOK * n
    if look <= _CELL:
        return Exhaustive.build(conjunctions), f"looking at {_counted(n, 'conjunction')} is fastest"
    x, y = chosen_axes(conjunctions, floats)
    share, settled = met_share(boxes_over(conjunctions, x, y, floats))
    walk = _CELL + n * share * (_TEST + _ACCEPT * (1 - settled))
    if walk < look:
        return Grid.build(conjunctions, floats), (
            f"on its two best attributes an event meets about {share:.2%} of the conjunctions, "
            f"so a grid needs about {walk / look:.1%} of the time that looking at all takes"
        )
    return Exhaustive.build(conjunctions), (
        f"on its two best attributes an event still meets {share:.0%} of the conjunctions"
    )


@dataclass(frozen=True)
class Part:
    """Rules under one index."""

    role: str  # base, delta or recent
    index: str
    rules: int
    conjunctions: int
    removed: int
    nbytes: int
    why: str

    def __str__(self) -> str:
        rules = _counted(self.rules, "rule")
        if self.removed:
            rules += f", {self.removed:,} of them removed"
        return (
            f"{self.role}: {self.index} holds {rules} "
            f"({_counted(self.conjunctions, 'conjunction')}) in {self.nbytes:,} bytes: {self.why}"
        )


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


@dataclass(frozen=True)
class Plan:
    """Which index holds what, and why; prints as a sentence each."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts)) or "no rules yet"

    __repr__ = __str__
