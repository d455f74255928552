"""Which index holds which rules: the cheapest one for all, or one each for rules of several shapes.

Every index that declares `priced` estimates what an event would cost under it (`index.costs`). The
planner adds up and compares; it knows no index by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from tocsin.engine.segment import IndexedPart
from tocsin.index import unit_costs
from tocsin.index.costs import Cost, Sample, counted
from tocsin.index.protocol import Index
from tocsin.index.registry import INDEXES
from tocsin.model.conjunctions import Conjunctions, select
from tocsin.model.facts import EXACT

_MOST_PARTS = 8  # chosen: each costs a call for a single event
# Attributes whose pairs are tried as axes of a part; chosen: 136 choices take long enough.
_MOST_ATTRIBUTES = 16
_WORTH = 0.9  # a further part has to save a tenth; chosen: single events pay a call for each

Axes = tuple[int, ...]  # attributes that a part lies over: none, one or two


@dataclass(frozen=True)
class Choice:
    """An index for some conjunctions, and its estimated cost."""

    index: type[Index]
    cost: Cost

    def build(
        self, conjunctions: Conjunctions, floats: np.ndarray, remark: str = ""
    ) -> IndexedPart:
        """Build the index, and say why it was chosen."""
        why = f"{self.cost.reason}, {_nanoseconds(self.cost.nanoseconds)}{remark}"
        return IndexedPart(self.index.build(conjunctions, floats), why)


def build_parts(
    name: str, options: Mapping[str, Any], conjunctions: Conjunctions, floats: np.ndarray
) -> list[IndexedPart]:
    """Build the index of that name, or with "auto" those that suit best; each part says why."""
    if name != "auto":
        index = INDEXES[name].build(conjunctions, floats, **options)
        return [IndexedPart(index, "it was asked for", options)]
    sample = Sample.draw(conjunctions, floats)
    single = cheapest(sample)
    axes = _split(sample, single.cost.nanoseconds)
    if len(axes) < 2:
        return [single.build(conjunctions, floats)]
    remark = f"; one index for all rules would take {_nanoseconds(single.cost.nanoseconds)}"
    part = _part_of(Sample(conjunctions, floats), axes)
    groups = [select(conjunctions, part == i) for i in np.unique(part)]
    return [cheapest(Sample.draw(g, floats)).build(g, floats, remark) for g in groups]


def cheapest(sample: Sample) -> Choice:
    """Return the index under which an event costs least; of equals the first in the registry."""
    choices: list[Choice] = []
    for index in INDEXES.values():
        cost = index.cost(sample) if index.priced else None
        if cost is not None:
            choices.append(Choice(index, cost))
            if cost.nanoseconds <= unit_costs.FIND:
                break  # the others have to find an event's place first
    return min(choices, key=lambda choice: choice.cost.nanoseconds)


def _nanoseconds(cost: float) -> str:
    return f"about {counted(round(cost), 'nanosecond')}" if cost >= 1 else "under a nanosecond"


# ------------------------------------------------------------ rules of several shapes


def _split(sample: Sample, single: float) -> list[Axes]:
    """Return the axes of the parts that rules are worth splitting into; one if they are not.

    Most often they are not. Rules over different attributes (bands of a price, fences on a map)
    share no good index: where a grid lies over the attributes of some, the others are in all of its
    cells. `single` is what one index for all rules would cost.
    """
    if single <= 2 * unit_costs.PART:
        return [()]

    def cost_over(axes: Sequence[Axes]) -> float:
        part = _part_of(sample, axes)
        costs = [cheapest(sample.kept(part == i)).cost.nanoseconds for i in np.unique(part)]
        return sum(costs) + unit_costs.PART * len(costs)

    promising = _promising_axes(sample)
    least, chosen = single, promising[:1]
    for count in range(2, len(promising) + 1):
        cost = cost_over(promising[:count])
        if cost < _WORTH ** (count - len(chosen)) * least:
            least, chosen = cost, promising[:count]
    for axes in chosen:  # one of the first may have lost its rules to later ones
        others = [each for each in chosen if each != axes]
        if len(others) > 1 and _WORTH * (cost := cost_over(others)) <= least:
            least, chosen = cost, others
    return chosen


def _promising_axes(sample: Sample) -> list[Axes]:
    """Return axes for parts to lie over, the most selective first.

    Greedy, as for placing facilities: each is what saves most if every conjunction goes where it
    costs least, among those there are so far. No axes at all come first, for what is left over.
    """
    attributes = sample.attributes[:_MOST_ATTRIBUTES]
    choices: list[Axes] = [(), *combinations(attributes, 2), *combinations(attributes, 1)]
    costs = sample.factor * _costs_over(sample, choices)
    found: list[Axes] = [()]
    least = costs[0]
    while len(found) < min(_MOST_PARTS, len(choices)):
        totals = np.minimum(costs, least).sum(axis=1)
        best = int(totals.argmin())
        if least.sum() - totals[best] < unit_costs.PART:
            break
        least = np.minimum(least, costs[best])
        found.append(choices[best])
    return found


def _part_of(sample: Sample, axes: Sequence[Axes]) -> np.ndarray:
    """Return for each conjunction over which of these axes its rule costs least."""
    c = sample.conjunctions
    first = np.flatnonzero(np.diff(c.rule, prepend=-1))
    of_rule = np.add.reduceat(_costs_over(sample, axes), first, axis=1).argmin(axis=0)
    return np.repeat(of_rule, np.diff(first, append=c.size))


def _costs_over(sample: Sample, axes: Sequence[Axes]) -> np.ndarray:
    """Return what each conjunction costs an event over each of the axes, [axes, conjunctions].

    It is tested where an event meets its cell, of as many as there are conjunctions: a band is met
    by more events in a plane, where it crosses many cells, than on its own line.
    """
    c, n = sample.conjunctions, sample.represented
    rows = np.diff(c.offsets)
    inexact = np.cumsum(np.append(0, sample.facts.worth != EXACT))[c.offsets]
    intervals_only = np.diff(inexact) == 0  # sets are always left to accept
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
