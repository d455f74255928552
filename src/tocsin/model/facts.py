"""Facts about conjunctions that indexes are built from: bounds, and what can be scored.

The one place that says which interval lies around a predicate, whether that interval is all that
the predicate says, whether null satisfies it, and which rows of a conjunction count towards its
score. So an index that is built over intervals need not know of sets and complements: it lays out
the bounds, and leaves to accept what they do not prove.

Facts are computed while an index is built, and are not stored. Where all predicates are intervals,
their bounds are not copied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64Out, Int64Out, Int64s, UInt8Out, UInt8s, frozen, kernel, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.line import HIGHEST, LOWEST, NULL
from tocsin.model.predicates import INTERVAL, SET

# What the bounds of a row are worth to an index.
NOTHING = 0  # the predicate rules out single keys: leave it to accept
AROUND = 1  # no key outside the bounds satisfies it, but not all inside do
EXACT = 2  # the bounds are the predicate


class Facts(NamedTuple):
    """The bounds of r rows."""

    low: Int64s  # [r] the least key that satisfies the row's predicate: NULL if null does
    high: Int64s  # [r] the greatest
    worth: UInt8s  # [r] NOTHING, AROUND or EXACT


@step
def bounds(kind, low, high, points, row):
    """Return the least and the greatest key that satisfy the predicate in a row."""
    begin, end = low[row], high[row]
    if kind[row] == INTERVAL:
        return begin, end
    if kind[row] == SET:
        return points[begin], points[end - 1]
    # A complement: that null is not among the points is all that its bounds say.
    least = np.int64(LOWEST) if points[begin] == NULL else np.int64(NULL)
    return least, np.int64(HIGHEST)


@step
def adds_to_score(attribute, kind, high, begin, row):
    """Tell whether a row counts towards the score of its conjunction, whose rows start at `begin`.

    A predicate that must be null adds nothing, and an interval and a complement on one attribute
    count once.
    """
    if kind[row] == INTERVAL and high[row] == NULL:
        return False
    return row == begin or attribute[row] != attribute[row - 1]


def facts_of(c: Conjunctions) -> Facts:
    """Return the bounds of all rows."""
    if not c.kind.any():  # intervals only
        return Facts(c.low, c.high, frozen(np.full(len(c.kind), EXACT), np.uint8))
    rows = len(c.kind)
    low, high, worth = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.uint8)
    write_facts(c, low, high, worth)
    return Facts(frozen(low, np.int64), frozen(high, np.int64), frozen(worth, np.uint8))


@kernel
def write_facts(c: Conjunctions, low: Int64Out, high: Int64Out, worth: UInt8Out) -> None:
    """Write the facts about each row."""
    kind, lows, highs, points = c.kind, c.low, c.high, c.points
    for row in range(kind.shape[0]):
        low[row], high[row] = bounds(kind, lows, highs, points, row)
        worth[row] = EXACT if kind[row] == INTERVAL else AROUND if kind[row] == SET else NOTHING


def weight_sums(c: Conjunctions) -> np.ndarray:
    """Return the sum of each conjunction's weights: its score where an event's weights are all 1.

    Infinite where a row that counts is satisfied by null: it counts for any event, whatever the
    weights of the attributes that the event has.
    """
    sums = np.empty(c.size)
    add_weights(c, sums)
    return sums


@kernel
def add_weights(c: Conjunctions, sums: Float64Out) -> None:
    """Write `weight_sums`; added up in the order of rows, as scores are."""
    offsets, attribute, kind, low, high = c.offsets, c.attribute, c.kind, c.low, c.high
    points, weight = c.points, c.weight
    for i in range(sums.shape[0]):
        total = 0.0
        for row in range(offsets[i], offsets[i + 1]):
            if adds_to_score(attribute, kind, high, offsets[i], row):
                total += weight[row] if weight.shape[0] > 0 else 1.0
                if bounds(kind, low, high, points, row)[0] == NULL:
                    total = np.inf
        sums[i] = total
