"""Accept: of the candidates an index proposed, keep exactly those that hold.

Tests the predicates of candidates that are not proven. The one place that knows what a predicate
means; `explain` asks here too.

An event may have a range in place of a value. A predicate then holds if some value in the range
satisfies it (the stabbing subscription of the BE*-tree's paper, III.C). Each row is judged by
itself. That is enough for the rule to match some event within the ranges: rows are of different
attributes, but for a complement beside an interval (`x >= 5 AND x <> 7`), whose ends are none of
its points; so a range that reaches over an end has one value for both, and a range within the
interval is all points or has one, too.
"""

from __future__ import annotations

import numpy as np

from tocsin.jit import Int32Out, Int64Out, Int64s, UInt8Out, kernel, prefetch, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch, blank, load, unload
from tocsin.model.predicates import INTERVAL, SET

_AHEAD = 8  # candidates whose rows are asked of memory before they are tested

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
def accept(c: Conjunctions, batch: EventBatch, offsets: Int64Out, candidates: Int32Out) -> int:
    """Compact candidates in place to those that hold; return how many were evaluated."""
    rows, of, kind, low, high, points = c.offsets, c.attribute, c.kind, c.low, c.high, c.points
    keys = batch.keys
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    first, line = batch.first, blank(batch.width)
    evaluated = 0
    start = offsets[0]
    kept = start
    for i in range(batch.stop - first):
        stop = offsets[i + 1]
        loaded = False
        for at in range(start, stop):
            candidate = candidates[at]
            if at + _AHEAD < stop:
                soon = candidates[at + _AHEAD]
                if soon < 0:
                    begin = rows[~soon]
                    prefetch(of, begin)
                    prefetch(low, begin)
                    prefetch(high, begin)
            if candidate < 0:
                candidate = ~candidate
                if not loaded:
                    load(columns, column_attribute, sparse, attribute, key, first + i, line)
                    loaded = True
                evaluated += 1
                true = True
                for row in range(rows[candidate], rows[candidate + 1]):
                    value = line[of[row]]
                    if kind[row] == INTERVAL:
                        true = low[row] <= value <= high[row]
                    else:
                        true = holds(kind[row], low[row], high[row], points, value)
                    if not true:
                        break
                if not true:
                    continue
            candidates[kept] = candidate
            kept += 1
        if loaded:
            unload(sparse, attribute, first + i, line)
        start = stop
        offsets[i + 1] = kept
    return evaluated


# Ranges have steps and kernels of their own: one for both took twice as long for values.


@step
def holds_within(kind, low, high, points, key, last):
    """Tell whether some key from `key` to `last` satisfies a predicate."""
    if kind == INTERVAL:
        return low <= last and key <= high
    end = high
    while low < high:  # the first point >= key
        middle = (low + high) >> 1
        if points[middle] < key:
            low = middle + 1
        else:
            high = middle
    if kind == SET:
        return low < end and points[low] <= last
    # Not if all keys are points, which ascend: then `last` is as far on as it is from `key`.
    apart = np.uint64(last - key)
    return apart >= np.uint64(end - low) or points[np.uint64(low) + apart] != last


@kernel
def accept_ranges(
    c: Conjunctions, batch: EventBatch, offsets: Int64Out, candidates: Int32Out
) -> int:
    """Do as `accept` does, for events that have ranges."""
    rows, of, kind, low, high, points = c.offsets, c.attribute, c.kind, c.low, c.high, c.points
    keys = batch.keys
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key, key_high = keys.attribute, keys.key, keys.key_high
    columns_high = keys.columns_high
    first, line, last = batch.first, blank(batch.width), blank(batch.width)
    evaluated = 0
    start = offsets[0]
    kept = start
    for i in range(batch.stop - first):
        stop = offsets[i + 1]
        load(columns, column_attribute, sparse, attribute, key, first + i, line)
        load(columns_high, column_attribute, sparse, attribute, key_high, first + i, last)
        for at in range(start, stop):
            proven = candidates[at] >= 0
            candidate = max(candidates[at], ~candidates[at])
            evaluated += not proven
            true = True
            for row in range(rows[candidate], rows[candidate + 1]):
                if proven or not true:
                    break
                a = of[row]
                true = holds_within(kind[row], low[row], high[row], points, line[a], last[a])
            candidates[kept] = candidate
            kept += np.int64(true)
        unload(sparse, attribute, first + i, line)
        unload(sparse, attribute, first + i, last)
        start = stop
        offsets[i + 1] = kept
    return evaluated


@kernel
def truths(
    c: Conjunctions, first: int, stop: int, line: Int64s, last: Int64s, out: UInt8Out
) -> None:
    """Write for each row of the conjunctions `first` to `stop` whether an event satisfies it.

    `line` and `last` are its keys, and the high ends of its ranges.
    """
    begin = c.offsets[first]
    for row in range(begin, c.offsets[stop]):
        a = c.attribute[row]
        true = holds_within(c.kind[row], c.low[row], c.high[row], c.points, line[a], last[a])
        out[row - begin] = np.uint8(true)
