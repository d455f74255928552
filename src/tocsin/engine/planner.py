"""Choose the index of rules: the cheapest for all, or one for each group of similar rules.

Every index that declares `priced` estimates its own cost per event (`index.costs`). The planner
adds up and compares the estimates; it knows no index by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from tocsin.engine.segment import IndexedPart
from tocsin.index import unit_costs
from tocsin.index.costs import Cost, EventSample, Sample, counted
from tocsin.index.protocol import Index
from tocsin.index.registry import INDEXES
from tocsin.model.conjunctions import Conjunctions, select
from tocsin.model.facts import EXACT

_MOST_PARTS = 8  # chosen: each adds a call for a single event
# Attributes whose pairs are tried as axes of a part; chosen: 136 choices are slow enough.
_MOST_ATTRIBUTES = 16
_WORTH = 0.9  # a further part must save a tenth; chosen: single events pay a call for each

Axes = tuple[int, ...]  # the attributes that a part indexes: none, one or two


@dataclass(frozen=True)
class Choice:
    """An index for some conjunctions, and its estimated cost."""

    index: type[Index]
    cost: Cost

    def build(
        self, conjunctions: Conjunctions, floats: np.ndarray, remark: str = ""
    ) -> IndexedPart:
        """Build the index, with the reason for the choice."""
        why = f"{self.cost.reason}, {_format_cost(self.cost.nanoseconds)}{remark}"
        return IndexedPart(self.index.build(conjunctions, floats), why)


def build_parts(
    name: str,
    options: Mapping[str, Any],
    conjunctions: Conjunctions,
    floats: np.ndarray,
    events: EventSample | None = None,
) -> list[IndexedPart]:
    """Build the named index, or the cheapest ones for "auto"; each part has its reason.

    With `events`, costs are estimated from what these satisfy, otherwise from the rules alone.
    """
    if name != "auto":
        index = INDEXES[name].build(conjunctions, floats, **options)
        return [IndexedPart(index, "it was asked for", options)]
    sample = Sample.draw(conjunctions, floats, events)
    single = cheapest(sample)
    axes = _split(sample, single.cost.nanoseconds)
    measured = f" for {counted(events.size, 'sample event')}" if events is not None else ""
    if len(axes) < 2:
        return [single.build(conjunctions, floats, measured)]
    remark = (
        f"{measured}; one index for all rules would take {_format_cost(single.cost.nanoseconds)}"
    )
    part = _assign_parts(Sample(conjunctions, floats, 1.0, events, sample.assumed), axes)
    groups = [select(conjunctions, part == i) for i in np.unique(part)]
    return [
        cheapest(Sample.draw(g, floats, events, sample.assumed)).build(g, floats, remark)
        for g in groups
    ]


def cheapest(sample: Sample) -> Choice:
    """Return the index with the lowest cost per event; ties go to the first in the registry."""
    choices: list[Choice] = []
    for index in INDEXES.values():
        cost = index.cost(sample) if index.priced else None
        if cost is not None:
            choices.append(Choice(index, cost))
            if cost.nanoseconds <= unit_costs.FIND:
                break  # the others are no cheaper: they have to find an event's place first
    return min(choices, key=lambda choice: choice.cost.nanoseconds)


def _format_cost(cost: float) -> str:
    return f"about {counted(round(cost), 'nanosecond')}" if cost >= 1 else "under a nanosecond"


# ------------------------------------------------------------ rules of several shapes


def _split(sample: Sample, single: float) -> list[Axes]:
    """Return the axes of the parts to split rules into; one if a split does not pay.

    Most often it does not pay. It does if rules test different attributes (price bands, map
    fences): a grid over the attributes of some rules has the others in all of its cells. `single`
    is the cost of one index for all rules.
    """
    if single <= 2 * unit_costs.PART:
        return [()]

    def cost_of(axes: Sequence[Axes]) -> float:
        part = _assign_parts(sample, axes)
        costs = [cheapest(sample.filter(part == i)).cost.nanoseconds for i in np.unique(part)]
        return sum(costs) + unit_costs.PART * len(costs)

    promising = _promising_axes(sample)
    least, chosen = single, promising[:1]
    for count in range(2, len(promising) + 1):
        cost = cost_of(promising[:count])
        if cost < _WORTH ** (count - len(chosen)) * least:
            least, chosen = cost, promising[:count]
    for axes in chosen:  # later axes may have taken over the rules of earlier ones
        others = [each for each in chosen if each != axes]
        if len(others) > 1 and _WORTH * (cost := cost_of(others)) <= least:
            least, chosen = cost, others
    return chosen


def _promising_axes(sample: Sample) -> list[Axes]:
    """Return candidate axes of parts, the most selective first.

    Greedy facility location: each step adds the axes that save most if every conjunction goes to
    its cheapest axes so far. The first entry has no axes, for conjunctions that fit none.
    """
    attributes = sample.attributes[:_MOST_ATTRIBUTES]
    choices: list[Axes] = [(), *combinations(attributes, 2), *combinations(attributes, 1)]
    costs = sample.factor * _estimate_costs(sample, choices)
    promising: list[Axes] = [()]
    least = costs[0]
    while len(promising) < min(_MOST_PARTS, len(choices)):
        totals = np.minimum(costs, least).sum(axis=1)
        best = int(totals.argmin())
        if least.sum() - totals[best] < unit_costs.PART:
            break
        least = np.minimum(least, costs[best])
        promising.append(choices[best])
    return promising


def _assign_parts(sample: Sample, axes: Sequence[Axes]) -> np.ndarray:
    """Return for each conjunction the number of the axes where its rule costs least."""
    c = sample.conjunctions
    first = np.flatnonzero(np.diff(c.rule, prepend=-1))
    rule_parts = np.add.reduceat(_estimate_costs(sample, axes), first, axis=1).argmin(axis=0)
    return np.repeat(rule_parts, np.diff(first, append=c.size))


def _estimate_costs(sample: Sample, axes: Sequence[Axes]) -> np.ndarray:
    """Estimate the cost of each conjunction per event over each of the axes, [axes, conjunctions].

    A conjunction is tested if an event is in one of its cells. There are as many cells as
    conjunctions, so a band is tested for more events in a plane, where it crosses many cells, than
    on a line.
    """
    c, n = sample.conjunctions, sample.represented
    rows = np.diff(c.offsets)
    inexact = np.cumsum(np.append(0, sample.facts.worth != EXACT))[c.offsets]
    intervals_only = np.diff(inexact) == 0  # sets are always evaluated by accept
    costs = np.full((len(axes), c.size), unit_costs.LOOK + unit_costs.LOOK_TWICE)
    for at, attributes in enumerate(axes):
        if attributes:
            on_axes = [sample.shares(a) for a in attributes]
            cell = n ** (-1 / len(attributes))  # its side
            met = np.prod([np.minimum(each.share + cell, 1) for each in on_axes], axis=0)
            proven = intervals_only & (rows == sum(each.tested.astype(int) for each in on_axes))
            test = np.where(proven, unit_costs.TEST, unit_costs.TEST + unit_costs.ACCEPT)
            costs[at] = met * test
    return costs
