"""Estimate the cost of an event under an index, from a sample of the conjunctions.

An index that `auto` may choose declares `priced` and estimates its own cost (`Index.cost`) as a sum
of unit costs (`unit_costs`), each times a number derived from the sample. Data that several indexes
derive from a sample is computed once, on first use. Estimates only affect the choice of an index,
never the matches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.plane import (
    Boxes,
    build_boxes,
    cover_domain,
    cover_mentioned,
    find_bounds,
    find_domain,
    find_mentioned,
    pad_axes,
    rank_by_selectivity,
    to_values,
)
from tocsin.model.cached import cached_property
from tocsin.model.conjunctions import Conjunctions, expand_ranges, select
from tocsin.model.encoding import HIGHEST, LOWEST, NULL
from tocsin.model.facts import EXACT, NOTHING, Facts, facts_of
from tocsin.model.keys import Keys, key_column
from tocsin.model.predicates import SET

# Approximate number of conjunctions in a sample. Chosen: a property of one in a hundred is then
# estimated within a quarter.
_SIZE = 1 << 13
# Events, or middles of boxes, whose boxes are counted; chosen.
_POINTS = 256
# Bounds of an attribute from which on they tell where events are; chosen.
_FEW_BOUNDS = 16


class Cost(NamedTuple):
    """The estimated cost of an event."""

    nanoseconds: float
    reason: str  # what an event meets or visits, as a clause: "an event ..."
    candidates: float  # that an event is proposed


class Shares(NamedTuple):
    """The intervals of n conjunctions on one attribute."""

    share: np.ndarray  # [n] of the attribute's domain
    tested: np.ndarray  # [n] whether there is an interval


class EventSample:
    """Events from which shares are measured, instead of estimated from the rules."""

    def __init__(self, keys: Keys):
        self.size = keys.size
        self._keys = keys
        self._sorted: dict[int, np.ndarray] = {}

    def shares(self, attribute: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the share of the events whose key is in each interval."""
        if attribute not in self._sorted:
            self._sorted[attribute] = np.sort(key_column(self._keys, attribute))
        keys = self._sorted[attribute]
        within = np.searchsorted(keys, high, "right") - np.searchsorted(keys, low, "left")
        share: np.ndarray = within / max(len(keys), 1)
        return share

    def met(self, boxes: Boxes, axes: list[int]) -> float:
        """Return how many boxes over two attributes an event is in, on average."""
        return _count_met(boxes, *(self._few(axis) for axis in axes))

    def on_bounds(self, attribute: int, bounds: np.ndarray) -> float:
        """Return the share of events whose key is one of these."""
        return float(np.isin(self._few(attribute), bounds).mean())

    def _few(self, attribute: int) -> np.ndarray:
        return key_column(self._keys, attribute)[:: max(-(-self.size // _POINTS), 1)]


class AssumedEvents:
    """Events as rules suggest them, for shares where none are measured.

    Half of the values of an attribute are assumed to be spread evenly over the domain, and half to
    be where the rules have their bounds: people write rules about places where much happens.
    """

    def __init__(self, c: Conjunctions, floats: np.ndarray, facts: Facts):
        self._c, self._floats, self._facts = c, floats, facts
        self._known: dict[int, tuple[np.ndarray | None, tuple[float, float], np.ndarray]] = {}

    def _distribution(
        self, attribute: int
    ) -> tuple[np.ndarray | None, tuple[float, float], np.ndarray]:
        """Return the values mentioned, if events have only these; the domain; sorted bounds."""
        if attribute not in self._known:
            facts, is_float = self._facts, bool(self._floats[attribute])
            rows = (self._c.attribute == attribute) & (facts.worth != NOTHING)
            low, high = facts.low[rows], facts.high[rows]
            self._known[attribute] = (
                find_mentioned(low, high, is_float),
                find_domain(low, high, is_float),
                np.sort(find_bounds(low, high)),
            )
        return self._known[attribute]

    def even_shares(self, attribute: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the share of the events that are spread evenly."""
        mentioned, (begin, end), _ = self._distribution(attribute)
        if mentioned is not None:
            return cover_mentioned(mentioned, low, high)
        return cover_domain(begin, end, low, high, bool(self._floats[attribute]))

    def shares(self, attribute: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the assumed share of events whose key is in each interval."""
        even, bounds = self.even_shares(attribute, low, high), self._distribution(attribute)[2]
        if len(bounds) < _FEW_BOUNDS:
            return even
        # An interval's own bounds do not count: it would always find itself.
        own = (low > LOWEST).astype(np.int64) + ((high < HIGHEST) & (high > NULL))
        inside = np.searchsorted(bounds, high, "right") - np.searchsorted(bounds, low)
        near: np.ndarray = np.maximum(inside - own, 0) / (len(bounds) - own)
        return (even + near) / 2

    def met(self, boxes: Boxes, axes: list[int]) -> float:
        """Return how many boxes over two attributes an event is in, on average."""
        n = boxes.size
        low, high = boxes.low.reshape(2, n), boxes.high.reshape(2, n)
        even = np.prod([self.even_shares(a, low[i], high[i]) for i, a in enumerate(axes)], axis=0)
        # The others are in the middle of boxes, but each box does not count for its own.
        begins, ends = low > LOWEST, high < HIGHEST
        middle = np.where(begins & ends, low // 2 + high // 2, np.where(begins, low, high))
        bounded = np.flatnonzero((begins | ends).all(axis=0))
        if len(bounded) < _FEW_BOUNDS:
            return float(even.sum())
        few = bounded[:: -(-len(bounded) // _POINTS)]
        near = max(_count_met(boxes, middle[0, few], middle[1, few]) - 1, 0.0)
        return float(even.sum() + near) / 2

    def on_bounds(self, attribute: int, bounds: np.ndarray) -> float:
        """Return the assumed share of events whose float is a bound: that of whole numbers.

        Where bounds are whole numbers, so are most values: minutes, miles, degrees.
        """
        values = to_values(bounds, True)
        return float((values == np.floor(values)).mean())


def _count_met(boxes: Boxes, x: np.ndarray, y: np.ndarray) -> float:
    """Return how many boxes a point is in, on average."""
    n = boxes.size
    (low_x, low_y), (high_x, high_y) = boxes.low.reshape(2, n), boxes.high.reshape(2, n)
    met = sum(
        int(((low_x <= a) & (a <= high_x) & (low_y <= b) & (b <= high_y)).sum())
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
    )
    return met / max(len(x), 1)


class Sample:
    """Sampled conjunctions; each represents `factor` similar ones."""

    def __init__(
        self,
        conjunctions: Conjunctions,
        floats: np.ndarray,
        factor: float = 1.0,
        events: EventSample | None = None,
        assumed: AssumedEvents | None = None,
    ):
        self.conjunctions = conjunctions
        self.floats = floats  # per attribute: whether its keys are floats' bits
        self.factor = factor
        self.events = events  # None: shares are those of `assumed` events
        self.assumed = assumed or AssumedEvents(conjunctions, floats, self.facts)
        self._shares: dict[int, Shares] = {}

    @classmethod
    def draw(
        cls,
        c: Conjunctions,
        floats: np.ndarray,
        events: EventSample | None = None,
        assumed: AssumedEvents | None = None,
    ) -> Sample:
        """Draw a sample; few conjunctions are all included."""
        if c.size <= _SIZE:
            return cls(c, floats, 1.0, events, assumed)
        # Random, since rules are often sorted.
        drawn = select(c, np.random.default_rng(0).random(c.size) < _SIZE / c.size)
        return cls(drawn, floats, c.size / max(drawn.size, 1), events, assumed)

    def filter(self, keep: np.ndarray) -> Sample:
        """Return the sample with only the conjunctions for which `keep` is true."""
        subset = select(self.conjunctions, keep)
        return Sample(subset, self.floats, self.factor, self.events, self.assumed)

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
        n = self.conjunctions.size
        x, y = pad_axes(self.attributes[:2], self.floats)[0].tolist()
        return (
            self._estimate(x, self.boxes.low[:n], self.boxes.high[:n]),
            self._estimate(y, self.boxes.low[n:], self.boxes.high[n:]),
        )

    @cached_property
    def correlation(self) -> float:
        """The boxes that an event meets, over those that it would if its axes were independent."""
        axes = self.attributes[:2]
        if len(axes) < 2:
            return 1.0
        independent = self.total(self.sides[0] * self.sides[1])
        met = self.factor * (self.events or self.assumed).met(self.boxes, axes)
        return (met + 1) / (independent + 1)  # of few boxes it cannot be said

    @cached_property
    def tied(self) -> float:
        """The share of events whose float on an axis is a bound there."""
        untied, n = 1.0, self.conjunctions.size
        for axis, attribute in enumerate(self.attributes[:2]):
            own = slice(axis * n, (axis + 1) * n)
            bounds = find_bounds(self.boxes.low[own], self.boxes.high[own])
            if self.floats[attribute] and len(bounds):
                untied *= 1 - (self.events or self.assumed).on_bounds(attribute, bounds)
        return 1 - untied

    @cached_property
    def areas(self) -> np.ndarray:
        """The share of events that meet each box."""
        return self.sides[0] * self.sides[1] * self.correlation

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
            share = self._estimate(attribute, boxes.low[:n], boxes.high[:n])
            self._shares[attribute] = Shares(share, tested)
        return self._shares[attribute]

    def _estimate(self, attribute: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the share of events in each of the intervals on an attribute, -1 for none."""
        if attribute < 0:
            return np.ones(len(low))
        return (self.events or self.assumed).shares(attribute, low, high)

    @cached_property
    def bound_shares(self) -> np.ndarray:
        """The share of events within the bounds of each row; 1 if it has none."""
        c, facts = self.conjunctions, self.facts
        share = np.ones(len(c.attribute))
        rows = np.flatnonzero(facts.worth != NOTHING)
        rows = rows[np.argsort(c.attribute[rows], kind="stable")]
        attributes, first = np.unique(c.attribute[rows], return_index=True)
        for attribute, group in zip(attributes.tolist(), np.split(rows, first[1:])):
            share[group] = self._estimate(attribute, facts.low[group], facts.high[group])
        return share

    def hull_share(self, rows: np.ndarray) -> float:
        """Return the share of events between the lowest and the highest bound of some rows.

        These are all of one attribute.
        """
        facts, attribute = self.facts, int(self.conjunctions.attribute[rows[0]])
        low, high = facts.low[rows].min(), facts.high[rows].max()
        return float(self._estimate(attribute, np.array([low]), np.array([high]))[0])

    @cached_property
    def row_shares(self) -> np.ndarray:
        """The share of the sample's events that satisfy each row."""
        assert self.events is not None
        c, share = self.conjunctions, self.bound_shares.copy()
        rows = np.flatnonzero(c.kind == SET)
        sizes = c.high[rows] - c.low[rows]
        points, owner = c.points[expand_ranges(c.low[rows], c.high[rows])], np.repeat(rows, sizes)
        attribute = c.attribute[owner]
        of_point = np.zeros(len(points))
        for each in np.unique(attribute).tolist():
            own = attribute == each
            of_point[own] = self.events.shares(each, points[own], points[own])
        share[rows] = np.bincount(owner, of_point, minlength=len(share))[rows]
        return share

    @cached_property
    def candidates(self) -> np.ndarray:
        """The share of events within all bounds of each conjunction."""
        offsets = self.conjunctions.offsets
        product = np.multiply.reduceat(np.append(self.bound_shares, 1.0), offsets[:-1])
        product[np.diff(offsets) == 0] = 1.0
        return product

    @cached_property
    def inexact(self) -> np.ndarray:
        """Whether each conjunction has a predicate that is not equivalent to its bounds."""
        offsets = self.conjunctions.offsets
        return np.diff(np.cumsum(np.append(0, self.facts.worth != EXACT))[offsets]) > 0

    def presence(self, estimated: np.ndarray, c: Conjunctions, local: np.ndarray) -> np.ndarray:
        """Return the share of events that have each attribute, by local number.

        Without events it is as `estimated`.
        """
        if self.events is None:
            return estimated
        measured = estimated.copy()
        _, first = np.unique(local, return_index=True)
        for row in first.tolist():
            low, high = np.array([NULL + 1]), np.array([HIGHEST])
            measured[local[row]] = self.events.shares(int(c.attribute[row]), low, high)[0]
        return measured

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
