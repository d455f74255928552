"""Accept: of the candidates an index proposed, keep exactly those that hold.

Tests the predicates of candidates that are not proven, and drops conjunctions of
removed rules. The one place that knows what a predicate means; `explain` asks here
too.
"""

from __future__ import annotations

import numpy as np

from tocsin.jit import Int32Out, Int64Out, UInt8Out, UInt8s, kernel, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import Keys, blank, load, unload
from tocsin.model.predicates import INTERVAL, SET


@step
def holds(c, row, key):
    """Tell whether a key satisfies the predicate in a row."""
    low, high = c.low[row], c.high[row]
    kind = c.kind[row]
    if kind == INTERVAL:
        return low <= key <= high
    while low < high:  # the first point >= key
        middle = (low + high) >> 1
        if c.points[middle] < key:
            low = middle + 1
        else:
            high = middle
    found = low < c.high[row] and c.points[low] == key
    return found if kind == SET else not found


@step
def all_hold(c, conjunction, line):
    """Tell whether an event, loaded onto a line, satisfies every predicate of a conjunction."""
    for row in range(c.offsets[conjunction], c.offsets[conjunction + 1]):
        if not holds(c, row, line[c.attribute[row]]):
            return False
    return True


@kernel
def accept(
    c: Conjunctions,
    removed: UInt8s,
    keys: Keys,
    width: int,
    first: int,
    events: int,
    offsets: Int64Out,
    candidates: Int32Out,
) -> int:
    """Compact candidates in place to those that hold; return how many were evaluated.

    `removed` has a flag per conjunction, or none at all.
    """
    line = blank(width)
    evaluated = 0
    start = offsets[0]
    kept = start
    for i in range(events):
        stop = offsets[i + 1]
        loaded = False
        for at in range(start, stop):
            candidate = candidates[at]
            if candidate < 0:
                candidate = ~candidate
                if not loaded:
                    load(keys, first + i, line)
                    loaded = True
                evaluated += 1
                if not all_hold(c, candidate, line):
                    continue
            if removed.shape[0] > 0 and removed[candidate] != 0:
                continue
            candidates[kept] = candidate
            kept += 1
        if loaded:
            unload(keys, first + i, line)
        start = stop
        offsets[i + 1] = kept
    return evaluated


@kernel
def truths(c: Conjunctions, first: int, stop: int, keys: Keys, width: int, out: UInt8Out) -> None:
    """Write for each row of the conjunctions `first` to `stop` whether event 0 satisfies it."""
    line = blank(width)
    load(keys, 0, line)
    begin = c.offsets[first]
    for row in range(begin, c.offsets[stop]):
        out[row - begin] = np.uint8(holds(c, row, line[c.attribute[row]]))
