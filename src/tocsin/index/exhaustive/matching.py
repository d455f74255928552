"""Matching: block by block, first whether an event can meet it, then which bounds hold."""

from __future__ import annotations

import numpy as np

from tocsin.index.exhaustive.layout import Layout
from tocsin.jit import Int32Out, Int64Out, kernel, step
from tocsin.model.keys import EventBatch, blank, load, unload

# Conjunctions that are counted together; each is looked at only where one of them hits. Chosen: the
# bounds of two tests are 4 KiB.
CHUNK = 128

# Steps take arrays, not tuples of them: see `load`.


@step
def can_meet(attribute, least, greatest, first, stop, line):
    """Tell whether an event may satisfy each of a block's tests, `first` to `stop`, somewhere."""
    for test in range(first, stop):
        key = line[attribute[test]]
        if key < least[test] or key > greatest[test]:
            return False
    return True


@step
def count_hits(low, high, key, low2, high2, key2):
    """Count the conjunctions of a chunk for which both tests hold.

    A sum and nothing stored: the compiler keeps it in vector registers. Storing verdicts and
    looking for the ones among them took 2.3 times as long.
    """
    total = np.int64(0)
    for i in range(low.shape[0]):
        total += np.int64(
            (low[i] <= key) & (key <= high[i]) & (low2[i] <= key2) & (key2 <= high2[i])
        )
    return total


@step
def rest_holds(attribute, bounds, low, high, first, stop, i, line):
    """Tell whether the i-th conjunction of a block passes the tests `first` to `stop`."""
    for test in range(first, stop):
        key = line[attribute[test]]
        if not low[bounds[test] + i] <= key <= high[bounds[test] + i]:
            return False
    return True


@kernel
def propose(b: Layout, batch: EventBatch, offsets: Int64Out, out: Int32Out) -> int:
    """Write candidates event by event while there is room for all conjunctions."""
    keys, first, stop = batch.keys, batch.first, batch.stop
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    own, key_of = keys.attribute, keys.key
    blocks, tests_of, attribute, bounds = b.block, b.tests, b.attribute, b.bounds
    least, greatest, lows, highs, candidate = b.least, b.greatest, b.low, b.high, b.candidate
    line = blank(batch.width)
    n = offsets[0]
    room = out.shape[0] - candidate.shape[0]
    event = first
    while event < stop and n <= room:
        load(columns, column_attribute, sparse, own, key_of, event, line)
        for block in range(blocks.shape[0] - 1):
            test, end = tests_of[block], tests_of[block + 1]
            if not can_meet(attribute, least, greatest, test, end, line):
                continue
            begun, ended = blocks[block], blocks[block + 1]
            if test == end:
                for i in range(begun, ended):
                    out[n] = candidate[i]
                    n += 1
                continue
            # A block with one test names it twice: comparing again costs less than it would to
            # write everything below once more.
            test2 = test + (end > test + 1)
            key, key2 = line[attribute[test]], line[attribute[test2]]
            for begin in range(0, ended - begun, CHUNK):
                size = min(CHUNK, ended - begun - begin)
                at, at2 = bounds[test] + begin, bounds[test2] + begin
                low, high = lows[at : at + size], highs[at : at + size]
                low2, high2 = lows[at2 : at2 + size], highs[at2 : at2 + size]
                if count_hits(low, high, key, low2, high2, key2) == 0:
                    continue
                for i in range(size):
                    hit = (
                        (low[i] <= key) & (key <= high[i]) & (low2[i] <= key2) & (key2 <= high2[i])
                    )
                    if end > test + 2 and hit:
                        hit = rest_holds(
                            attribute, bounds, lows, highs, test + 2, end, begin + i, line
                        )
                    # Always written, counted if it hits: cheaper than a branch. There is
                    # room, since each conjunction is written at most once past the hits.
                    out[n] = candidate[begun + begin + i]
                    n += np.int64(hit)
        unload(sparse, own, event, line)
        event += 1
        offsets[event - first] = n
    return event


@kernel
def propose_ranges(b: Layout, batch: EventBatch, offsets: Int64Out, out: Int32Out) -> int:
    """Do as `propose` does, for events that have ranges: test after test of a block."""
    keys, first, stop = batch.keys, batch.first, batch.stop
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    own, key_of, columns_high, high_of = keys.attribute, keys.key, keys.columns_high, keys.key_high
    blocks, tests_of, attribute, bounds = b.block, b.tests, b.attribute, b.bounds
    least, greatest, lows, highs, candidate = b.least, b.greatest, b.low, b.high, b.candidate
    line, last = blank(batch.width), blank(batch.width)
    hits = np.empty(candidate.shape[0], np.uint8)  # of a block
    n = offsets[0]
    room = out.shape[0] - candidate.shape[0]
    event = first
    while event < stop and n <= room:
        load(columns, column_attribute, sparse, own, key_of, event, line)
        load(columns_high, column_attribute, sparse, own, high_of, event, last)
        for block in range(blocks.shape[0] - 1):
            begun, ended = blocks[block], blocks[block + 1]
            can_meet = True
            for test in range(tests_of[block], tests_of[block + 1]):
                a = attribute[test]
                can_meet &= least[test] <= last[a] and line[a] <= greatest[test]
            if not can_meet:
                continue
            for i in range(ended - begun):
                hits[i] = 1
            for test in range(tests_of[block], tests_of[block + 1]):
                at, key, end = np.uint64(bounds[test]), line[attribute[test]], last[attribute[test]]
                for i in range(np.uint64(ended - begun)):
                    hits[i] &= np.uint8((lows[at + i] <= end) & (key <= highs[at + i]))
            for i in range(ended - begun):
                out[n] = candidate[begun + i]
                n += np.int64(hits[i])
        unload(sparse, own, event, line)
        unload(sparse, own, event, last)
        event += 1
        offsets[event - first] = n
    return event


@kernel
def tally(b: Layout, batch: EventBatch, counts: Int64Out) -> None:
    """Add to each event's count the conjunctions whose tests hold."""
    keys, first = batch.keys, batch.first
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    own, key_of = keys.attribute, keys.key
    blocks, tests_of, attribute, bounds = b.block, b.tests, b.attribute, b.bounds
    least, greatest, lows, highs = b.least, b.greatest, b.low, b.high
    line = blank(batch.width)
    for event in range(first, batch.stop):
        load(columns, column_attribute, sparse, own, key_of, event, line)
        total = 0
        for block in range(blocks.shape[0] - 1):
            test, end = tests_of[block], tests_of[block + 1]
            if not can_meet(attribute, least, greatest, test, end, line):
                continue
            start, stop = blocks[block], blocks[block + 1]
            if test == end:
                total += stop - start
                continue
            test2 = test + (end > test + 1)
            key, key2 = line[attribute[test]], line[attribute[test2]]
            for begin in range(0, stop - start, CHUNK):
                size = min(CHUNK, stop - start - begin)
                at, at2 = bounds[test] + begin, bounds[test2] + begin
                low, high = lows[at : at + size], highs[at : at + size]
                low2, high2 = lows[at2 : at2 + size], highs[at2 : at2 + size]
                found = count_hits(low, high, key, low2, high2, key2)
                if end > test + 2 and found > 0:
                    found = 0
                    for i in range(size):
                        hit = (low[i] <= key) & (key <= high[i])
                        hit &= (low2[i] <= key2) & (key2 <= high2[i])
                        if hit and rest_holds(
                            attribute, bounds, lows, highs, test + 2, end, begin + i, line
                        ):
                            found += 1
                total += found
        unload(sparse, own, event, line)
        counts[event - first] += total
