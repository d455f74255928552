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
from tocsin.index.bestar.records import entry_for
from tocsin.jit import Int32Out, Int64Out, kernel, prefetch, step
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import NULL
from tocsin.model.keys import EventBatch, load, unload

AHEAD = 8  # conjunctions whose rows are asked for before they are evaluated
_LONG = 32  # times as many p-nodes as the event has attributes: then these are looked up


@step
def blank_line(width):
    """Return a scratch line that is one longer: attribute a at a + 1, and a key for 'none needed'.

    The line that `load` takes is the part from 1 on.
    """
    shifted = np.empty(width + 1, np.int64)
    shifted[:] = NULL
    shifted[0] = 0
    return shifted


@step
def list_present(column_attribute, offsets, attribute, event, shifted, seen, present):
    """Write 1 + each attribute that an event has, each once; return how many there are."""
    n = 0
    for i in range(column_attribute.shape[0]):
        needed = column_attribute[i] + 1
        if shifted[needed] != NULL and seen[needed] == 0:
            seen[needed] = 1
            present[n] = needed
            n += 1
    if offsets.shape[0] > 0:
        for i in range(offsets[event], offsets[event + 1]):
            needed = attribute[i] + 1
            if shifted[needed] != NULL and seen[needed] == 0:
                seen[needed] = 1
                present[n] = needed
                n += 1
    for i in range(n):
        seen[present[i]] = 0
    return n


@step
def list_followed(need, start, nodes, shifted, present, given, entries):
    """Write the entries of a directory that an event follows; return how many there are.

    Either the directory is read, or, if it is long, the event's attributes are looked up in it.
    """
    n = 0
    if nodes <= _LONG * given:
        for entry in range(start, start + nodes):
            entries[n] = entry
            n += shifted[need[entry]] != NULL
        return n
    for i in range(given):
        entry = entry_for(need, start, nodes, present[i])
        if entry >= 0:
            entries[n] = entry
            n += 1
    return n


@step
def satisfied(attribute, kind, low, high, points, begin, stop, line, last):
    """Return the row of a conjunction, begin to stop, that an event fails first; `stop` if none.

    `last` has the high ends of an event's ranges, and is `line` where it has values alone.
    """
    for row in range(begin, stop):
        a = attribute[row]
        if not holds_within(kind[row], low[row], high[row], points, line[a], last[a]):
            return row
    return stop


@step
def ask_for(plain, attribute, low, high, number, first):
    """Ask memory for the first rows of a conjunction; often the others are not needed."""
    prefetch(plain, np.int64(number))
    prefetch(attribute, first)
    prefetch(low, first)
    prefetch(high, first)


@kernel
def propose(t: Tree, c: Conjunctions, batch: EventBatch, offsets: Int64Out, out: Int32Out) -> int:
    """Write what holds, event by event, while there is room for all conjunctions."""
    keys, width, first, stop = batch.keys, batch.width, batch.first, batch.stop
    bucket, pnode, target, need, plain = t.bucket, t.pnode, t.target, t.need, t.plain
    rows, of, kind, low, high, points = c.offsets, c.attribute, c.kind, c.low, c.high, c.points
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    own, key_of = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    shifted = blank_line(width)
    upper = blank_line(width) if ranged else shifted
    line, last = shifted[1:], upper[1:]
    seen, present = np.zeros(width + 1, np.uint8), np.empty(width + 1, np.int64)
    entries = np.empty(width + 1, np.int64)
    # Buckets to visit, and 1 + the attribute of each. Those found first are visited first: so
    # there is time for each to arrive from memory after it was asked for.
    queue = np.empty(2 * t.state[BUCKETS] + 2, np.int64)
    n = offsets[0]
    room = out.shape[0] - rows.shape[0] + 1
    event = first
    while event < stop and n <= room:
        load(columns, column_attribute, sparse, own, key_of, event, line)
        if ranged:
            load(columns_high, column_attribute, sparse, own, key_high, event, last)
        given = list_present(column_attribute, sparse, own, event, shifted, seen, present)
        queue[0], queue[1] = 0, 0
        head, tail = 0, 2
        begun = end = n  # of what may hold
        while head < tail:
            at, needed = queue[head] * BUCKET, queue[head + 1]
            head += 2
            if needed > 0 and not meets(bucket, at, shifted[needed], upper[needed]):
                continue
            leaf = bucket[at + LEAF]
            for i in range(leaf, leaf + bucket[at + SIZE]):
                if shifted[need[i]] != NULL:
                    out[end] = target[i]
                    prefetch(rows, np.int64(target[i]))
                    end += 1
            for side in (LEFT, RIGHT):
                child = bucket[at + side]
                if child >= 0:
                    prefetch(bucket, child * BUCKET)
                    queue[tail], queue[tail + 1] = child, needed
                    tail += 2
            start, nodes = bucket[at + DIRECTORY], bucket[at + NODES]
            for i in range(list_followed(need, start, nodes, shifted, present, given, entries)):
                child = pnode[target[entries[i]] * PNODE + ROOT]
                prefetch(bucket, child * BUCKET)
                queue[tail], queue[tail + 1] = child, need[entries[i]]
                tail += 2
        for i in range(begun, end + AHEAD):
            if i < end:
                ask_for(plain, of, low, high, out[i], rows[out[i]])
            if i - AHEAD >= begun:
                number = out[i - AHEAD]
                begin, after = rows[number], rows[number + 1]
                # Kinds are not read where all are intervals, and this is no step of its own, not
                # even one that is inlined, in which Numba would count references to arrays: either
                # took as long as the rest.
                fits = True
                if plain[number] != 0:
                    for row in range(begin, after):
                        a = of[row]
                        if not (low[row] <= last[a] and line[a] <= high[row]):
                            fits = False
                            break
                else:
                    fits = satisfied(of, kind, low, high, points, begin, after, line, last) == after
                if fits:
                    out[n] = number
                    n += 1
        unload(sparse, own, event, line)
        unload(sparse, own, event, last)
        event += 1
        offsets[event - first] = n
    return event


@step
def meets(bucket, at, low, high):
    """Tell whether an event's interval meets a bucket's, on the bucket's active dimension."""
    return low <= bucket[at + HIGH] and bucket[at + LOW] <= high


@kernel
def watch(t: Tree, c: Conjunctions, batch: EventBatch, discarded: Int64Out) -> None:
    """Add for each bucket how many predicates events evaluate in vain in its own leaf.

    A conjunction that an event does not match costs the predicates up to the one it fails; that
    the event has not the attribute it needs is one, too.
    """
    keys, width = batch.keys, batch.width
    bucket, pnode, target, need = t.bucket, t.pnode, t.target, t.need
    rows, of, kind, low, high, points = c.offsets, c.attribute, c.kind, c.low, c.high, c.points
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    own, key_of = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    shifted = blank_line(width)
    upper = blank_line(width) if ranged else shifted
    line, last = shifted[1:], upper[1:]
    seen, present = np.zeros(width + 1, np.uint8), np.empty(width + 1, np.int64)
    entries = np.empty(width + 1, np.int64)
    stack = np.empty(2 * t.state[BUCKETS] + 2, np.int64)
    for event in range(batch.first, batch.stop):
        load(columns, column_attribute, sparse, own, key_of, event, line)
        if ranged:
            load(columns_high, column_attribute, sparse, own, key_high, event, last)
        given = list_present(column_attribute, sparse, own, event, shifted, seen, present)
        stack[0], stack[1] = 0, 0
        height = 2
        while height > 0:
            height -= 2
            at, needed = stack[height] * BUCKET, stack[height + 1]
            if needed > 0 and not meets(bucket, at, shifted[needed], upper[needed]):
                continue
            in_vain = 0
            leaf = bucket[at + LEAF]
            for i in range(leaf, leaf + bucket[at + SIZE]):
                if shifted[need[i]] == NULL:
                    in_vain += 1
                    continue
                begin, end = rows[target[i]], rows[target[i] + 1]
                failed = satisfied(of, kind, low, high, points, begin, end, line, last)
                if failed < end:
                    in_vain += failed - begin + 1
            discarded[stack[height]] += in_vain
            for side in (LEFT, RIGHT):
                if bucket[at + side] >= 0:
                    stack[height], stack[height + 1] = bucket[at + side], needed
                    height += 2
            start, nodes = bucket[at + DIRECTORY], bucket[at + NODES]
            for i in range(list_followed(need, start, nodes, shifted, present, given, entries)):
                child = pnode[target[entries[i]] * PNODE + ROOT]
                stack[height], stack[height + 1] = child, need[entries[i]]
                height += 2
        unload(sparse, own, event, line)
        unload(sparse, own, event, last)
