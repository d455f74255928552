"""Accept: keep exactly those candidates of an index that hold.

Accept evaluates the predicates of candidates that are not proven. It is the only implementation of
predicates; `explain` uses it too.

An event may have a range instead of a value. A predicate then holds if some value in the range
satisfies it (the stabbing subscription of the BE*-tree's paper, III.C). Each row is evaluated by
itself. This is correct, because the rows of a conjunction test different attributes, with one
exception: an interval and a complement (`x >= 5 AND x <> 7`). The ends of such an interval are not
points of the complement. So a range that crosses an end contains a value that satisfies both rows.
A range within the interval either has only points of the complement, or a value for both rows, too.
"""

from __future__ import annotations

import numpy as np

from tocsin.jit import Int32Out, Int64Out, Int64s, UInt8Out, kernel, prefetch, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch, blank, load, unload
from tocsin.model.predicates import INTERVAL, SET

_AHEAD = 8  # candidates whose rows are prefetched; chosen

# Steps take arrays, not tuples of arrays, which makes accept ten times faster: see `load`.


@step
def holds(kind, low, high, points, key):
    """Return whether a key satisfies the predicate of a row: its kind, low and high."""
    if kind == INTERVAL:
        return low <= key <= high
    end = high
    while low < high:  # the first point >= key
        middle = (low + high) >> 1
        if points[middle] < key:
            low = middle + 1
        else:
            high = middle
    is_point = low < end and points[low] == key
    return is_point if kind == SET else not is_point


@kernel
def accept(c: Conjunctions, batch: EventBatch, offsets: Int64Out, candidates: Int32Out) -> int:
    """Compact candidates in place to those that hold; return how many were evaluated."""
    rows, tested, kind = c.offsets, c.attribute, c.kind
    low, high, points = c.low, c.high, c.points
    keys = batch.keys
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    first, values = batch.first, blank(batch.width)
    evaluated = 0
    start = offsets[0]
    kept = start
    for i in range(batch.stop - first):
        stop = offsets[i + 1]
        loaded = False
        for at in range(start, stop):
            candidate = candidates[at]
            if at + _AHEAD < stop:
                ahead = candidates[at + _AHEAD]
                if ahead < 0:
                    begin = rows[~ahead]
                    prefetch(tested, begin)
                    prefetch(low, begin)
                    prefetch(high, begin)
            if candidate < 0:
                candidate = ~candidate
                if not loaded:
                    load(columns, column_attribute, sparse, attribute, key, first + i, values)
                    loaded = True
                evaluated += 1
                true = True
                for row in range(rows[candidate], rows[candidate + 1]):
                    value = values[tested[row]]
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
            unload(sparse, attribute, first + i, values)
        start = stop
        offsets[i + 1] = kept
    return evaluated


# Ranges have separate steps and kernels: a kernel for both takes twice as long for values.


@step
def holds_within(kind, low, high, points, key, key_high):
    """Return whether some key from `key` to `key_high` satisfies a predicate."""
    if kind == INTERVAL:
        return low <= key_high and key <= high
    end = high
    while low < high:  # the first point >= key
        middle = (low + high) >> 1
        if points[middle] < key:
            low = middle + 1
        else:
            high = middle
    if kind == SET:
        return low < end and points[low] <= key_high
    # False if all keys are points. Points ascend, so `key_high` is then as many points after `key`
    # as it is keys.
    apart = np.uint64(key_high - key)
    return apart >= np.uint64(end - low) or points[np.uint64(low) + apart] != key_high


@kernel
def accept_ranges(
    c: Conjunctions, batch: EventBatch, offsets: Int64Out, candidates: Int32Out
) -> int:
    """Do the same as `accept`, for events with ranges."""
    rows, tested, kind = c.offsets, c.attribute, c.kind
    low, high, points = c.low, c.high, c.points
    keys = batch.keys
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key, key_high = keys.attribute, keys.key, keys.key_high
    columns_high = keys.columns_high
    first, values, values_high = batch.first, blank(batch.width), blank(batch.width)
    evaluated = 0
    start = offsets[0]
    kept = start
    for i in range(batch.stop - first):
        stop = offsets[i + 1]
        load(columns, column_attribute, sparse, attribute, key, first + i, values)
        load(columns_high, column_attribute, sparse, attribute, key_high, first + i, values_high)
        for at in range(start, stop):
            proven = candidates[at] >= 0
            candidate = max(candidates[at], ~candidates[at])
            evaluated += not proven
            true = True
            for row in range(rows[candidate], rows[candidate + 1]):
                if proven or not true:
                    break
                value, value_high = values[tested[row]], values_high[tested[row]]
                true = holds_within(kind[row], low[row], high[row], points, value, value_high)
            candidates[kept] = candidate
            kept += np.int64(true)
        unload(sparse, attribute, first + i, values)
        unload(sparse, attribute, first + i, values_high)
        start = stop
        offsets[i + 1] = kept
    return evaluated


@kernel
def evaluate_predicates(
    c: Conjunctions, first: int, stop: int, values: Int64s, values_high: Int64s, out: UInt8Out
) -> None:
    """Write for each row of the conjunctions `first` to `stop` whether an event satisfies it.

    `values` and `values_high` are the event's keys by attribute, and the high ends of its ranges.
    """
    begin = c.offsets[first]
    for row in range(begin, c.offsets[stop]):
        value, value_high = values[c.attribute[row]], values_high[c.attribute[row]]
        true = holds_within(c.kind[row], c.low[row], c.high[row], c.points, value, value_high)
        out[row - begin] = np.uint8(true)
