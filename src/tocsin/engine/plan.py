"""Which index holds which rules, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.errors import RuleError, near
from tocsin.index.bestar.index import BEStar
from tocsin.index.counting import Counting
from tocsin.index.exhaustive import Exhaustive
from tocsin.index.grid import Grid
from tocsin.index.intervals import Intervals
from tocsin.index.ntree import NTree
from tocsin.index.plane import boxes_over, chosen_axes, sides
from tocsin.index.protocol import Index
from tocsin.index.rectangles import Rectangles, runs_if_whole
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.line import HIGHEST, NULL

INDEXES: dict[str, Any] = {
    each.name: each for each in (Exhaustive, Grid, NTree, Intervals, Rectangles, Counting, BEStar)
}


def check_index(name: Any) -> None:
    """Raise if there is no such index."""
    if name != "auto" and (not isinstance(name, str) or name not in INDEXES):
        raise RuleError(
            f"there is no index {name!r}{near(name, INDEXES)} (auto, {', '.join(INDEXES)})"
        )


# What an event costs, in nanoseconds: roughly, measured on one core, and only to choose by.
_LOOK = 0.4  # at one conjunction, exhaustively,
_LOOK_TWICE = 2.5  # and at those beside one that matches
_FIND = 40.0  # its cell, in a grid or on a lattice
_TEST = 2.0  # the boxes in its cell, for each that matches
_COPY = 0.15  # one id
_RUN = 5.0  # of constructs
_ACCEPT = 20.0  # one candidate that the index does not settle


def built_index(name: str, conjunctions: Conjunctions, floats: np.ndarray) -> tuple[Index, str]:
    """Build the index of that name, or the one that suits best, and say why in a sentence."""
    if name != "auto":
        return INDEXES[name].build(conjunctions, floats), "it was asked for"
    cost, chosen, why = min(_costs(conjunctions, floats), key=lambda each: each[0])
    return chosen.build(conjunctions, floats), f"{why}, about {_counted(round(cost), 'nanosecond')}"


def _costs(c: Conjunctions, floats: np.ndarray) -> Iterator[tuple[float, Any, str]]:
    """Yield what an event would cost under each index that could be chosen, and in what words."""
    n = c.size
    words = f"an event looks at {_counted(n, 'conjunction')}"
    if _LOOK * n <= _FIND:
        yield _LOOK * n, Exhaustive, words
        return
    boxes = boxes_over(c, *chosen_axes(c, floats))
    side_x, side_y = sides(boxes, 0)[2], sides(boxes, 1)[2]
    settled = float(boxes.settled.mean())
    met = float((side_x * side_y).sum())
    yield _LOOK * n + _LOOK_TWICE * min(128 * met, n), Exhaustive, words
    words = f"an event meets about {met:,.0f} of {_counted(n, 'conjunction')}"
    left = met * (1 - settled) * _ACCEPT
    yield _FIND + met * _TEST + left, Grid, f"{words} on the two attributes of the grid"
    cover = runs_if_whole(boxes)
    if cover is not None:
        cost = _FIND + cover * _RUN + met * _COPY
        yield cost, Rectangles, f"{words}, which overlap much on a lattice of whole numbers"
    alone = boxes.settled & (boxes.low[n:] == NULL) & (boxes.high[n:] == HIGHEST)
    met = float(side_x.sum())
    words = f"an event meets about {met:,.0f} of {_counted(n, 'conjunction')}"
    left = met * (1 - float(alone.mean())) * _ACCEPT
    yield 2 * _FIND + met * _COPY + left, Intervals, f"{words} on the one attribute that counts"


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
