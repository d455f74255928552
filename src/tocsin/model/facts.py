"""Facts about conjunctions that indexes are built from: the bounds of predicates, and scores.

This is the only module that decides which interval encloses a predicate, whether the interval is
equivalent to the predicate, whether null satisfies it, and which rows of a conjunction count
towards its score. An index over intervals needs no code for sets and complements: it stores the
bounds, and accept tests what they do not prove.

Facts are computed while an index is built and are not stored. If all predicates are intervals,
their bounds are not copied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64Out, Int64Out, Int64s, UInt8Out, UInt8s, freeze, kernel, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import HIGHEST, LOWEST, NULL
from tocsin.model.predicates import INTERVAL, SET

# How much the bounds of a row tell an index.
NOTHING = 0  # the predicate excludes single keys: leave it to accept
AROUND = 1  # no key outside of the bounds satisfies the predicate, but not all keys inside do
EXACT = 2  # the bounds are equivalent to the predicate


class Facts(NamedTuple):
    """The bounds of r rows."""

    low: Int64s  # [r] the least key that satisfies the predicate; NULL if null satisfies it
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
    # The bounds of a complement tell only whether null satisfies it.
    least = np.int64(LOWEST) if points[begin] == NULL else np.int64(NULL)
    return least, np.int64(HIGHEST)


@step
def adds_to_score(attribute, kind, high, begin, row):
    """Return whether a row counts towards the score of its conjunction, which starts at `begin`.

    IS NULL does not count. An interval and a complement on one attribute count once.
    """
    if kind[row] == INTERVAL and high[row] == NULL:
        return False
    return row == begin or attribute[row] != attribute[row - 1]


@step
def has_own_score(own_score, conjunction):
    """Return whether the rule of a conjunction has a score of its own in place of weights."""
    return own_score.shape[0] > 0 and own_score[conjunction] == own_score[conjunction]


def facts_of(c: Conjunctions) -> Facts:
    """Return the bounds of all rows."""
    if not c.kind.any():  # intervals only
        return Facts(c.low, c.high, freeze(np.full(len(c.kind), EXACT), np.uint8))
    rows = len(c.kind)
    low, high, worth = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.uint8)
    write_facts(c, low, high, worth)
    return Facts(freeze(low, np.int64), freeze(high, np.int64), freeze(worth, np.uint8))


@kernel
def write_facts(c: Conjunctions, low: Int64Out, high: Int64Out, worth: UInt8Out) -> None:
    """Write the facts of each row."""
    kind, lows, highs, points = c.kind, c.low, c.high, c.points
    for row in range(kind.shape[0]):
        low[row], high[row] = bounds(kind, lows, highs, points, row)
        worth[row] = EXACT if kind[row] == INTERVAL else AROUND if kind[row] == SET else NOTHING


def weight_sums(c: Conjunctions) -> np.ndarray:
    """Return the sum of the weights of each conjunction: its score if all event weights are 1.

    It is the rule's own score if the rule has one, whatever the event's weights are. The sum is
    infinite if null satisfies a row that counts. Such a row counts for every event, so the weights
    of the event's own attributes do not bound the score.
    """
    sums = np.empty(c.size)
    add_weights(c, sums)
    return sums


@kernel
def add_weights(c: Conjunctions, sums: Float64Out) -> None:
    """Write the result of `weight_sums`, added in the order of rows, like scores."""
    offsets, attribute, kind, low, high = c.offsets, c.attribute, c.kind, c.low, c.high
    points, weight, own_score = c.points, c.weight, c.score
    for i in range(sums.shape[0]):
        if has_own_score(own_score, i):
            sums[i] = own_score[i]
            continue
        total = 0.0
        for row in range(offsets[i], offsets[i + 1]):
            if adds_to_score(attribute, kind, high, offsets[i], row):
                total += weight[row] if weight.shape[0] > 0 else 1.0
                if bounds(kind, low, high, points, row)[0] == NULL:
                    total = np.inf
        sums[i] = total
