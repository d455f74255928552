"""Estimate the cost of an event under an index, from a sample of the conjunctions.

An index that `auto` may choose declares `priced` and estimates its own cost (`Index.cost`) as a sum
of unit costs (`unit_costs`), each times a number derived from the sample. Data that several indexes
derive from a sample is computed once, on first use. Estimates only affect the choice of an index,
never the matches.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from tocsin.index.plane import Boxes, build_boxes, measure_sides, pad_axes, rank_by_selectivity
from tocsin.model.conjunctions import Conjunctions, select
from tocsin.model.encoding import HIGHEST, NULL
from tocsin.model.facts import Facts, facts_of

# Approximate number of conjunctions in a sample. Chosen: a property of one in a hundred is then
# estimated within a quarter.
_SIZE = 1 << 13


class Cost(NamedTuple):
    """The estimated cost of an event."""

    nanoseconds: float
    reason: str  # what an event meets or visits, as a clause: "an event ..."


class Shares(NamedTuple):
    """The intervals of n conjunctions on one attribute."""

    share: np.ndarray  # [n] of the attribute's domain
    tested: np.ndarray  # [n] whether there is an interval


class Sample:
    """Sampled conjunctions; each represents `factor` similar ones."""

    def __init__(self, conjunctions: Conjunctions, floats: np.ndarray, factor: float = 1.0):
        self.conjunctions = conjunctions
        self.floats = floats  # per attribute: whether its keys are floats' bits
        self.factor = factor
        self._shares: dict[int, Shares] = {}

    @classmethod
    def draw(cls, c: Conjunctions, floats: np.ndarray) -> Sample:
        """Draw a sample; few conjunctions are all included."""
        if c.size <= _SIZE:
            return cls(c, floats)
        # Random, since rules are often sorted.
        drawn = select(c, np.random.default_rng(0).random(c.size) < _SIZE / c.size)
        return cls(drawn, floats, c.size / max(drawn.size, 1))

    def filter(self, keep: np.ndarray) -> Sample:
        """Return the sample with only the conjunctions for which `keep` is true."""
        return Sample(select(self.conjunctions, keep), self.floats, self.factor)

    @property
    def represented(self) -> int:
        """The number of conjunctions that the sample represents."""
        return round(self.conjunctions.size * self.factor)

    def total(self, values: np.ndarray) -> float:
        """Return the estimated sum over all conjunctions from values of sampled ones."""
        return self.factor * float(values.sum())

    def in_words(self, n: float) -> str:
        """Describe an estimated number of conjunctions in relation to all."""
        return about(n, f"of {counted(self.represented, 'conjunction')}")

    @cached_property
    def facts(self) -> Facts:
        """The bounds of all predicates."""
        return facts_of(self.conjunctions)

    @cached_property
    def attributes(self) -> list[int]:
        """The attributes, the most selective first."""
        return rank_by_selectivity(self.conjunctions, self.floats, self.facts)

    @cached_property
    def boxes(self) -> Boxes:
        """The conjunctions as boxes over the first two `attributes`, which indexes choose too."""
        return self._boxes_over(self.attributes[:2])

    @cached_property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """The sides of each box along x and y, as shares of the domain."""
        return measure_sides(self.boxes, 0).share, measure_sides(self.boxes, 1).share

    @cached_property
    def areas(self) -> np.ndarray:
        """The share of the plane that each box covers: the share of events that meet it."""
        return self.sides[0] * self.sides[1]

    @cached_property
    def unproven(self) -> np.ndarray:
        """Whether each conjunction has predicates beyond its box."""
        return self.boxes.exact == 0

    @cached_property
    def met(self) -> float:
        """The number of boxes that an event meets."""
        return self.total(self.areas)

    def shares(self, attribute: int) -> Shares:
        """Return the shares of one attribute's domain; cached."""
        if attribute not in self._shares:
            boxes, n = self._boxes_over([attribute]), self.conjunctions.size
            tested = (boxes.low[:n] != NULL) | (boxes.high[:n] != HIGHEST)
            self._shares[attribute] = Shares(measure_sides(boxes, 0).share, tested)
        return self._shares[attribute]

    def _boxes_over(self, attributes: list[int]) -> Boxes:
        axes, is_float = pad_axes(attributes, self.floats)
        return build_boxes(self.conjunctions, axes, is_float, self.facts)


# ------------------------------------------------------------ wording


def counted(n: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "rule"), counted(2000, "rule")
    ('1 rule', '2,000 rules')
    """
    return f"{n:,} {noun}{'s' * (n != 1)}"


def about(n: float, things: str) -> str:
    """Return an estimated number with its noun.

    >>> about(0.2, "of 3 rules"), about(1234.5, "rules")
    ('fewer than 1 of 3 rules', 'about 1,234 rules')
    """
    return f"fewer than 1 {things}" if n < 0.5 else f"about {n:,.0f} {things}"
