"""Matching: down the p-nodes of the attributes that an event has, and the buckets its keys meet."""

from __future__ import annotations

import numpy as np

from tocsin.index.accept import holds_within
from tocsin.index.bestar.layout import (
    BUCKET,
    BUCKETS,
    DIRECTORY,
    HIGH,
    LEAF,
    LEFT,
    LOW,
    NODES,
    PNODE,
    RIGHT,
    ROOT,
    SIZE,
    Tree,
)
from tocsin.index.bestar.records import find_entry
from tocsin.jit import Int32Out, Int64Out, kernel, prefetch, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import NULL
from tocsin.model.keys import EventBatch, load, unload

AHEAD = 8  # conjunctions whose rows are prefetched; chosen
_LONG = 32  # times as many p-nodes as the event has attributes: then these are looked up; chosen


# Keys by attribute are shifted by one here: attribute a is at a + 1, and at 0 is a key that is not
# NULL. So `shifted[required] != NULL` is true for an event that has the attribute required, and
# where none is required.


@step
def blank_shifted(width):
    """Return the shifted keys of an event that has none; from 1 on they are what `load` fills."""
    shifted = np.empty(width + 1, np.int64)
    shifted[:] = NULL
    shifted[0] = 0
    return shifted


@step
def list_present(column_attribute, offsets, attribute, event, shifted, marked, present):
    """Write 1 + each attribute that an event has, each once; return how many there are.

    `marked` is scratch, as long as `shifted` and all zero.
    """
    n = 0
    for i in range(column_attribute.shape[0]):
        a = column_attribute[i] + 1
        if shifted[a] != NULL and marked[a] == 0:
            marked[a] = 1
            present[n] = a
            n += 1
    if offsets.shape[0] > 0:
        for i in range(offsets[event], offsets[event + 1]):
            a = attribute[i] + 1
            if shifted[a] != NULL and marked[a] == 0:
                marked[a] = 1
                present[n] = a
                n += 1
    for i in range(n):
        marked[present[i]] = 0
    return n


@step
def list_followed(required, start, nodes, shifted, present, n_present, entries):
    """Write the entries of a directory that an event follows; return how many there are.

    Either the directory is read, or, if it is long, the event's attributes are looked up in it.
    """
    n = 0
    if nodes <= _LONG * n_present:
        for entry in range(start, start + nodes):
            entries[n] = entry
            n += shifted[required[entry]] != NULL
        return n
    for i in range(n_present):
        entry = find_entry(required, start, nodes, present[i])
        if entry >= 0:
            entries[n] = entry
            n += 1
    return n


@step
def first_failed(tested, kind, low, high, points, begin, stop, values, values_high):
    """Return the first row of a conjunction, `begin` to `stop`, that an event fails; or `stop`.

    `values_high` has the high ends of an event's ranges; it is `values` if it has no ranges.
    """
    for row in range(begin, stop):
        a = tested[row]
        if not holds_within(
            kind[row], low[row], high[row], points, values[a], values_high[a]
        ):  # fmt: skip
            return row
    return stop


@step
def prefetch_rows(only_intervals, tested, low, high, number, first):
    """Prefetch the first rows of a conjunction; often the others are not needed."""
    prefetch(only_intervals, np.int64(number))
    prefetch(tested, first)
    prefetch(low, first)
    prefetch(high, first)


@step
def meets_bucket(bucket, at, low, high):
    """Tell whether an event's interval meets a bucket's, on the bucket's active dimension."""
    return low <= bucket[at + HIGH] and bucket[at + LOW] <= high


@kernel
def propose(t: Tree, c: Conjunctions, batch: EventBatch, offsets: Int64Out, out: Int32Out) -> int:
    """Write what holds, event by event, while there is room for all conjunctions."""
    keys, width, first, stop = batch.keys, batch.width, batch.first, batch.stop
    bucket, pnode, target, required = t.bucket, t.pnode, t.target, t.required
    only_intervals = t.only_intervals
    rows, tested, kind, low, high, points = (
        c.offsets, c.attribute, c.kind, c.low, c.high, c.points
    )  # fmt: skip
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    shifted = blank_shifted(width)
    shifted_high = blank_shifted(width) if ranged else shifted
    values, values_high = shifted[1:], shifted_high[1:]
    marked, present = np.zeros(width + 1, np.uint8), np.empty(width + 1, np.int64)
    entries = np.empty(width + 1, np.int64)
    # Buckets to visit, and 1 + the attribute of each. Those found first are visited first: so a
    # bucket that is prefetched has time to arrive.
    queue = np.empty(2 * t.state[BUCKETS] + 2, np.int64)
    n = offsets[0]
    room = out.shape[0] - rows.shape[0] + 1
    event = first
    while event < stop and n <= room:
        load(columns, column_attribute, sparse, attribute, key, event, values)
        if ranged:
            load(columns_high, column_attribute, sparse, attribute, key_high, event, values_high)
        n_present = list_present(
            column_attribute, sparse, attribute, event, shifted, marked, present
        )  # fmt: skip
        queue[0], queue[1] = 0, 0
        head, tail = 0, 2
        begin_maybe = end_maybe = n  # conjunctions that may hold
        while head < tail:
            at, active = queue[head] * BUCKET, queue[head + 1]
            head += 2
            if active > 0 and not meets_bucket(bucket, at, shifted[active], shifted_high[active]):
                continue
            leaf = bucket[at + LEAF]
            for i in range(leaf, leaf + bucket[at + SIZE]):
                if shifted[required[i]] != NULL:
                    out[end_maybe] = target[i]
                    prefetch(rows, np.int64(target[i]))
                    end_maybe += 1
            for side in (LEFT, RIGHT):
                child = bucket[at + side]
                if child >= 0:
                    prefetch(bucket, child * BUCKET)
                    queue[tail], queue[tail + 1] = child, active
                    tail += 2
            start, nodes = bucket[at + DIRECTORY], bucket[at + NODES]
            for i in range(
                list_followed(required, start, nodes, shifted, present, n_present, entries)
            ):
                child = pnode[target[entries[i]] * PNODE + ROOT]
                prefetch(bucket, child * BUCKET)
                queue[tail], queue[tail + 1] = child, required[entries[i]]
                tail += 2
        for i in range(begin_maybe, end_maybe + AHEAD):
            if i < end_maybe:
                prefetch_rows(only_intervals, tested, low, high, out[i], rows[out[i]])
            if i - AHEAD >= begin_maybe:
                number = out[i - AHEAD]
                begin, end = rows[number], rows[number + 1]
                # Kinds are not read where all are intervals, and this is no step of its own, not
                # even one that is inlined, in which Numba would count references to arrays: either
                # took as long as the rest.
                holds = True
                if only_intervals[number] != 0:
                    for row in range(begin, end):
                        a = tested[row]
                        if not (low[row] <= values_high[a] and values[a] <= high[row]):
                            holds = False
                            break
                else:
                    failed = first_failed(
                        tested, kind, low, high, points, begin, end, values, values_high
                    )  # fmt: skip
                    holds = failed == end
                if holds:
                    out[n] = number
                    n += 1
        unload(sparse, attribute, event, values)
        unload(sparse, attribute, event, values_high)
        event += 1
        offsets[event - first] = n
    return event
