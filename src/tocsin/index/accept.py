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

# Steps take arrays, not tuples of them: see `load`. It made accept ten times faster.


@step
def holds(kind, low, high, points, key):
    """Tell whether a key satisfies a predicate: the kind, low and high of its row."""
    if kind == INTERVAL:
        return low <= key <= high
    end = high
    while low < high:  # the first point >= key
        middle = (low + high) >> 1
        if points[middle] < key:
            low = middle + 1
        else:
            high = middle
    found = low < end and points[low] == key
    return found if kind == SET else not found


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
    rows, of, kind, low, high, points = c.offsets, c.attribute, c.kind, c.low, c.high, c.points
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    line = blank(width)
    some_removed = removed.shape[0] > 0
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
                    load(columns, column_attribute, sparse, attribute, key, first + i, line)
                    loaded = True
                evaluated += 1
                true = True
                for row in range(rows[candidate], rows[candidate + 1]):
                    if not holds(kind[row], low[row], high[row], points, line[of[row]]):
                        true = False
                        break
                if not true:
                    continue
            if some_removed and removed[candidate] != 0:
                continue
            candidates[kept] = candidate
            kept += 1
        if loaded:
            unload(sparse, attribute, first + i, line)
        start = stop
        offsets[i + 1] = kept
    return evaluated


@kernel
def truths(c: Conjunctions, first: int, stop: int, keys: Keys, width: int, out: UInt8Out) -> None:
    """Write for each row of the conjunctions `first` to `stop` whether event 0 satisfies it."""
    line = blank(width)
    load(keys.columns, keys.column_attribute, keys.offsets, keys.attribute, keys.key, 0, line)
    begin = c.offsets[first]
    for row in range(begin, c.offsets[stop]):
        key = line[c.attribute[row]]
        out[row - begin] = np.uint8(holds(c.kind[row], c.low[row], c.high[row], c.points, key))
