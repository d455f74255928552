"""Which index holds which rules, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from tocsin.engine.segment import Indexed
from tocsin.index.cells.grid import Grid, levels
from tocsin.index.constructs.intervals import Intervals
from tocsin.index.constructs.rectangles import Rectangles, runs_if_whole
from tocsin.index.exhaustive.index import Exhaustive
from tocsin.index.keyed.coding import estimate_work
from tocsin.index.keyed.index import Keyed
from tocsin.index.plane import (
    boxes_over,
    by_what_they_rule_out,
    chosen_axes,
    padded_axes,
    sides,
)
from tocsin.index.registry import INDEXES
from tocsin.model.conjunctions import Conjunctions, kept
from tocsin.model.line import HIGHEST, NULL
from tocsin.model.predicates import INTERVAL

# What an event costs, in nanoseconds: roughly, measured on one core, and only to choose by.
_LOOK = 0.4  # at one conjunction, exhaustively,
_LOOK_TWICE = 2.5  # and at those beside one that matches
_FIND = 40.0  # its cell, in a grid or on a lattice
_TEST = 1.8  # one box that meets its cell
_COPY = 0.15  # one id
_RUN = 5.0  # of constructs
_ACCEPT = 20.0  # one candidate that the index does not settle
_PART = 20.0  # to lay what one part finds beside what the others do

_SAMPLE = 1 << 13  # conjunctions that tell of all
_MOST_PARTS = 8
_MOST_ATTRIBUTES = 16  # whose pairs are tried as axes of a part
_WORTH = 0.9  # a further part has to save a tenth: single events pay a call for each


def built_parts(name: str, conjunctions: Conjunctions, floats: np.ndarray) -> list[Indexed]:
    """Build the index of that name, or those that suit best, and say why in a sentence each."""
    if name != "auto":
        return [Indexed(INDEXES[name].build(conjunctions, floats), "it was asked for")]
    groups, beside = _groups(conjunctions, floats)
    built = []
    for group in groups:
        cost, chosen, why = _cheapest(group, floats)
        why = f"{why}, about {_counted(round(cost), 'nanosecond')}{beside}"
        built.append(Indexed(chosen.build(group, floats), why))
    return built


def _cheapest(c: Conjunctions, floats: np.ndarray, times: float = 1.0) -> tuple[float, Any, str]:
    """Return the least of `_costs`."""
    sample = _sampled(c)
    times *= c.size / max(sample.size, 1)
    return min(_costs(sample, floats, times), key=lambda each: each[0])


def _sampled(c: Conjunctions) -> Conjunctions:
    if c.size <= _SAMPLE:
        return c
    # Neither the first nor every tenth: rules often come in some order.
    return kept(c, np.random.default_rng(0).random(c.size) < _SAMPLE / c.size)


def _costs(
    c: Conjunctions, floats: np.ndarray, times: float = 1.0
) -> Iterator[tuple[float, Any, str]]:
    """Yield what an event would cost under each index that could be chosen, and in what words.

    Each conjunction stands for so many `times` like it.
    """
    n = round(c.size * times)
    words = f"an event looks at {_counted(n, 'conjunction')}"
    if _LOOK * n <= _FIND:
        yield _LOOK * n, Exhaustive, words
        return
    boxes = boxes_over(c, *chosen_axes(c, floats))
    side_x, side_y = sides(boxes, 0)[2], sides(boxes, 1)[2]
    open_ = boxes.settled == 0
    met = times * float((side_x * side_y).sum())
    yield _LOOK * n + _LOOK_TWICE * min(128 * met, n), Exhaustive, words
    words = f"an event meets about {met:,.0f} of {_counted(n, 'conjunction')}"
    left = times * float((side_x * side_y)[open_].sum()) * _ACCEPT
    across, level = levels(side_x, side_y, times)
    cell = 1 / across[level]
    touched = np.minimum(side_x + cell[:, 0], 1) * np.minimum(side_y + cell[:, 1], 1)
    cost = _FIND * len(across) + times * float(touched.sum()) * _TEST + left
    yield cost, Grid, f"{words} on the two attributes of the grid"
    present, looked = estimate_work(c, len(floats))
    words = f"an event has about {present:,.0f} of the attributes tested, and looks at about "
    words += _counted(round(times * looked), "conjunction") + " under these"
    yield _FIND + 2 * _FIND * present + times * looked * _TEST, Keyed, words
    words = f"an event meets about {met:,.0f} of {_counted(n, 'conjunction')}"
    cover = runs_if_whole(boxes)
    if cover is not None:
        cost = _FIND + cover * _RUN + met * _COPY
        yield cost, Rectangles, f"{words}, which overlap much on a lattice of whole numbers"
    alone = (boxes.low[c.size :] == NULL) & (boxes.high[c.size :] == HIGHEST)
    met = times * float(side_x.sum())
    words = f"an event meets about {met:,.0f} of {_counted(n, 'conjunction')}"
    left = times * float(side_x[open_ | ~alone].sum()) * _ACCEPT
    yield 2 * _FIND + met * _COPY + left, Intervals, f"{words} on the one attribute that counts"


# ------------------------------------------------------------ rules of several shapes


def _groups(c: Conjunctions, floats: np.ndarray) -> tuple[list[Conjunctions], str]:
    """Return conjunctions in groups that deserve an index each, and what to say of that.

    Most often it is one group. Rules over different attributes (bands of a price, fences on a
    map) share no good index: where a grid lies over the attributes of some, the others are in all
    of its cells.
    """
    sample = _sampled(c)
    times = c.size / max(sample.size, 1)
    alone = least = _cheapest(sample, floats, times)[0]
    if alone <= 2 * _PART:
        return [c], ""

    def cost_over(axes: Sequence[tuple[int, ...]]) -> float:
        part = _part_of(sample, axes, floats, c.size)
        costs = [_cheapest(kept(sample, part == i), floats, times)[0] for i in np.unique(part)]
        return sum(costs) + _PART * len(costs)

    promising = _promising_axes(sample, floats, times)
    chosen = promising[:1]
    for count in range(2, len(promising) + 1):
        cost = cost_over(promising[:count])
        if cost < _WORTH ** (count - len(chosen)) * least:
            least, chosen = cost, promising[:count]
    for axes in chosen:  # one of the first may have lost its rules to later ones
        others = [each for each in chosen if each != axes]
        if len(others) > 1 and _WORTH * (cost := cost_over(others)) <= least:
            least, chosen = cost, others
    if len(chosen) < 2:
        return [c], ""
    part = _part_of(c, chosen, floats, c.size)
    beside = f"; one index for all rules would take {_counted(round(alone), 'nanosecond')}"
    return [kept(c, part == i) for i in np.unique(part)], beside


def _promising_axes(c: Conjunctions, floats: np.ndarray, times: float) -> list[tuple[int, ...]]:
    """Return attributes, none, one or two each, for parts to lie over; the most telling first.

    Greedy, as for placing facilities: each is what saves most if every conjunction goes where it
    costs least, among those there are so far. None at all comes first, for what is left over.
    """
    attributes = by_what_they_rule_out(c, floats)[:_MOST_ATTRIBUTES]
    choices = [(), *combinations(attributes, 2), *combinations(attributes, 1)]
    costs = times * _costs_over(c, choices, floats, round(times * c.size))
    found: list[tuple[int, ...]] = [()]
    least = costs[0]
    while len(found) < min(_MOST_PARTS, len(choices)):
        totals = np.minimum(costs, least).sum(axis=1)
        best = int(totals.argmin())
        if least.sum() - totals[best] < _PART:
            break
        least = np.minimum(least, costs[best])
        found.append(choices[best])
    return found


def _part_of(
    c: Conjunctions, axes: Sequence[tuple[int, ...]], floats: np.ndarray, n: int
) -> np.ndarray:
    """Return for each conjunction over which of these axes its rule costs least."""
    first = np.flatnonzero(np.diff(c.rule, prepend=-1))
    of_rule = np.add.reduceat(_costs_over(c, axes, floats, n), first, axis=1).argmin(axis=0)
    return np.repeat(of_rule, np.diff(first, append=c.size))


def _costs_over(
    c: Conjunctions, axes: Sequence[tuple[int, ...]], floats: np.ndarray, n: int
) -> np.ndarray:
    """Return what each conjunction costs an event over each of the axes, [axes, conjunctions].

    It is tested where an event meets its cell, of as many as there are conjunctions: a band is met
    by more events in a plane, where it crosses many cells, than on its own line.
    """
    sets = np.cumsum(np.append(0, c.kind != INTERVAL))[c.offsets]
    rows = np.where(np.diff(sets) > 0, 99, np.diff(c.offsets))  # sets are always left to accept
    share, tested = {}, {}
    for a in {a for pair in axes for a in pair}:
        boxes = boxes_over(c, *padded_axes([a], floats))
        share[a] = sides(boxes, 0)[2]
        tested[a] = (boxes.low[: c.size] != NULL) | (boxes.high[: c.size] != HIGHEST)
    costs = np.full((len(axes), c.size), _LOOK + _LOOK_TWICE)
    for at, pair in enumerate(axes):
        if pair:
            met = np.prod([np.minimum(share[a] + n ** (-1 / len(pair)), 1) for a in pair], axis=0)
            settled = rows == sum(tested[a].astype(int) for a in pair)
            costs[at] = met * np.where(settled, _TEST, _TEST + _ACCEPT)
    return costs


@dataclass(frozen=True)
class Part:
    """Rules under one index."""

    role: str  # base, delta or recent
    index: str
    attributes: tuple[str, ...]  # that most of these rules test, if others lie apart
    rules: int
    conjunctions: int
    removed: int
    nbytes: int
    why: str

    def __str__(self) -> str:
        rules = _counted(self.rules, "rule")
        if self.attributes:
            rules += f" on {' and '.join(self.attributes)}"
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
