"""What an event would cost under an index, estimated from a sample of the conjunctions.

An index that `auto` may choose declares `priced` and estimates its own cost (`Index.cost`): so many
times each unit cost (`unit_costs`), as the sample tells. What several indexes derive from a sample
is computed once, when the first of them asks for it. Estimates are for choosing only: whatever is
chosen, matches are the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from tocsin.index.plane import Boxes, build_boxes, measure_sides, pad_axes, rank_by_selectivity
from tocsin.model.conjunctions import Conjunctions, select
from tocsin.model.encoding import HIGHEST, NULL
from tocsin.model.facts import Facts, facts_of

# Conjunctions in a sample, about. Chosen: what one in a hundred has in common is then estimated
# within a quarter.
_SIZE = 1 << 13


class Cost(NamedTuple):
    """What an event costs, estimated."""

    nanoseconds: float
    reason: str  # what an event meets or looks at, as a clause: "an event ..."


class Shares(NamedTuple):
    """The intervals of n conjunctions on one attribute."""

    share: np.ndarray  # [n] of the attribute's domain
    tested: np.ndarray  # [n] whether there is an interval at all


class Sample:
    """Conjunctions, each of which stands for `factor` conjunctions like it."""

    def __init__(self, conjunctions: Conjunctions, floats: np.ndarray, factor: float = 1.0):
        self.conjunctions = conjunctions
        self.floats = floats  # per attribute: whether its keys are floats' bits
        self.factor = factor
        self._shares: dict[int, Shares] = {}

    @classmethod
    def draw(cls, c: Conjunctions, floats: np.ndarray) -> Sample:
        """Draw a sample; of few conjunctions it has them all."""
        if c.size <= _SIZE:
            return cls(c, floats)
        # Neither the first nor every tenth: rules often come in some order.
        drawn = select(c, np.random.default_rng(0).random(c.size) < _SIZE / c.size)
        return cls(drawn, floats, c.size / max(drawn.size, 1))

    def kept(self, keep: np.ndarray) -> Sample:
        """Return the sample without those conjunctions for which `keep` is false."""
        return Sample(select(self.conjunctions, keep), self.floats, self.factor)

    @property
    def represented(self) -> int:
        """How many conjunctions the sample stands for."""
        return round(self.conjunctions.size * self.factor)

    def total(self, values: np.ndarray) -> float:
        """Add up values of sampled conjunctions, over all that they stand for."""
        return self.factor * float(values.sum())

    def in_words(self, n: float) -> str:
        """Say how many of all conjunctions an estimate is."""
        return about(n, f"of {counted(self.represented, 'conjunction')}")

    @cached_property
    def facts(self) -> Facts:
        """The bounds of all predicates."""
        return facts_of(self.conjunctions)

    @cached_property
    def attributes(self) -> list[int]:
        """The attributes, first those whose intervals leave the fewest candidates."""
        return rank_by_selectivity(self.conjunctions, self.floats, self.facts)

    @cached_property
    def boxes(self) -> Boxes:
        """The conjunctions as boxes over the first two `attributes`, as indexes choose them."""
        return self._boxes_over(self.attributes[:2])

    @cached_property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """The sides of each box along x and y, as shares of the domain."""
        return measure_sides(self.boxes, 0).share, measure_sides(self.boxes, 1).share

    @cached_property
    def areas(self) -> np.ndarray:
        """The share of the plane that each box covers, and so of the events that meet it."""
        return self.sides[0] * self.sides[1]

    @cached_property
    def unproven(self) -> np.ndarray:
        """Whether a conjunction says more than its box does."""
        return self.boxes.exact == 0

    @cached_property
    def met(self) -> float:
        """How many boxes an event meets."""
        return self.total(self.areas)

    def shares(self, attribute: int) -> Shares:
        """Return the shares of one attribute's domain, each computed once."""
        if attribute not in self._shares:
            boxes, n = self._boxes_over([attribute]), self.conjunctions.size
            tested = (boxes.low[:n] != NULL) | (boxes.high[:n] != HIGHEST)
            self._shares[attribute] = Shares(measure_sides(boxes, 0).share, tested)
        return self._shares[attribute]

    def _boxes_over(self, attributes: list[int]) -> Boxes:
        axes, is_float = pad_axes(attributes, self.floats)
        return build_boxes(self.conjunctions, axes, is_float, self.facts)


# ------------------------------------------------------------ in words


def counted(n: int, noun: str) -> str:
    """Return a number of things in words.

    >>> counted(1, "rule"), counted(2000, "rule")
    ('1 rule', '2,000 rules')
    """
    return f"{n:,} {noun}{'s' * (n != 1)}"


def about(n: float, of: str) -> str:
    """Return an estimated number of things in words.

    >>> about(0.2, "of 3 rules"), about(1234.5, "rules")
    ('fewer than 1 of 3 rules', 'about 1,234 rules')
    """
    return f"fewer than 1 {of}" if n < 0.5 else f"about {n:,.0f} {of}"
