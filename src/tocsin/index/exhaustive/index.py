"""Exhaustive search: every conjunction is looked at, as fast as looking goes.

The baseline every other index is measured against, the right choice for small
sets, and what holds freshly added rules.

In memory: conjunctions are grouped into blocks. Those that test the same attributes
form a block together, if there are at least 64 of them; the others are filed under
the one attribute they test most narrowly. A block keeps the bounds of each of its
tests as two contiguous arrays (low, high), so that 4 conjunctions are compared per
instruction, and the least and greatest of these bounds, so that a block which an
event cannot meet (most often: the attribute is missing) is skipped whole.

An event costs, per block it can meet, about 0.4 nanoseconds a conjunction for up to
two tests. Intervals alone are settled here; sets are tested by the interval around them
and left to accept. Bytes: 16 per test and 4 per conjunction.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np

from tocsin.index import unit_costs
from tocsin.index.array_index import ArrayIndex
from tocsin.index.costs import Cost, Sample, counted
from tocsin.index.protocol import Summary
from tocsin.jit import (
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8Out,
    freeze_fields,
    kernel,
    step,
)
from tocsin.model.conjunctions import Conjunctions, ranges
from tocsin.model.facts import EXACT, NOTHING, Facts, facts_of
from tocsin.model.keys import EventBatch, blank, load, unload
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_offsets,
    check_within,
    require,
)

_WORTH_A_BLOCK = 64
_CHUNK = 128  # conjunctions looked at together; only where one of them hits is each looked at


class Layout(NamedTuple):
    """b blocks over n conjunctions, with t tests."""

    block: Int64s  # [b + 1] the conjunctions of a block are block[i] to block[i + 1]
    tests: Int64s  # [b + 1] its tests are tests[i] to tests[i + 1]
    attribute: Int32s  # [t] what a test looks at
    least: Int64s  # [t] the lowest of its lows
    greatest: Int64s  # [t] the highest of its highs
    bounds: Int64s  # [t] where in low and high its bounds start, one per conjunction of the block
    low: Int64s
    high: Int64s
    candidate: Int32s  # [n] what to propose: c if its tests prove it, ~c otherwise


class Exhaustive(ArrayIndex):
    """Looks at every conjunction, in blocks of contiguous bounds."""

    name: ClassVar[str] = "exhaustive"
    version: ClassVar[int] = 1

    layout_class = Layout
    supports_ranges = True
    counts = True
    priced = True
    summary = Summary(
        holds="bounds, in blocks of conjunctions that test the same attributes",
        cost=f"{unit_costs.LOOK:g} ns a conjunction",
        suits="up to a few hundred rules; as the reference for the other indexes",
        slow_when="there are many rules",
    )

    def proves_all(self) -> bool:
        """Tell whether all conjunctions are intervals."""
        return bool((self.layout.candidate >= 0).all())

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray | None = None) -> Self:
        """Group conjunctions into blocks; two passes and a sort. Keys are compared as they are."""
        n = conjunctions.size
        facts = facts_of(conjunctions)
        signature, lead = np.empty(n, np.int64), np.empty(n, np.int64)
        settled = np.empty(n, np.uint8)
        survey(conjunctions, facts, signature, lead, settled)
        _, group, sizes = np.unique(signature, return_inverse=True, return_counts=True)
        alike = sizes[group] >= _WORTH_A_BLOCK
        # Blocks of conjunctions alike come first, then one block per leading attribute.
        leading = np.full(n, -1)
        leading[lead >= 0] = conjunctions.attribute[lead[lead >= 0]]
        block_of = np.where(alike, group, len(sizes) + 1 + leading)
        order = np.argsort(block_of, kind="stable")
        _, first, counts = np.unique(block_of[order], return_index=True, return_counts=True)
        del group, sizes, block_of

        tests, attribute = [0], []
        members = []
        for start, count in zip(first, counts, strict=True):
            chosen = order[start : start + count]
            rows = _tested_rows(conjunctions, facts, chosen, lead, bool(alike[chosen[0]]))
            members.append((chosen, rows))
            attribute += [int(conjunctions.attribute[r[0]]) for r in rows]
            tests.append(len(attribute))

        low = np.empty(sum(len(c) * len(r) for c, r in members), np.int64)
        high = np.empty_like(low)
        bounds, least, greatest = [], [], []
        candidate = np.empty(n, np.int32)
        at = place = 0
        for chosen, rows in members:
            for r in rows:
                low[at : at + len(r)], high[at : at + len(r)] = facts.low[r], facts.high[r]
                bounds.append(at)
                least.append(low[at : at + len(r)].min())
                greatest.append(high[at : at + len(r)].max())
                at += len(r)
            # Proven if every row is an interval and every row was tested.
            lengths = conjunctions.offsets[chosen + 1] - conjunctions.offsets[chosen]
            proven = (settled[chosen] != 0) & (lengths == len(rows))
            candidate[place : place + len(chosen)] = np.where(proven, chosen, ~chosen)
            place += len(chosen)
        block = np.concatenate([first, [n]])
        layout = freeze_fields(
            Layout,
            block=block,
            tests=tests,
            attribute=attribute,
            least=least,
            greatest=greatest,
            bounds=bounds,
            low=low,
            high=high,
            candidate=candidate,
        )
        return cls(conjunctions, layout)

    @classmethod
    def cost(cls, sample: Sample) -> Cost:
        """Estimate what an event would cost; see `Index.cost`."""
        n = sample.represented
        reason = f"an event looks at {counted(n, 'conjunction')}"
        nanoseconds = unit_costs.LOOK * n
        if nanoseconds > unit_costs.FIND:  # else nothing is cheaper, and boxes are not needed
            nanoseconds += unit_costs.LOOK_TWICE * min(_CHUNK * sample.met, n)
        return Cost(nanoseconds, reason)

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose what the blocks do not rule out; see `Index.candidates`."""
        look = propose_ranges if batch.keys.ranged else propose
        return look(self.layout, batch, offsets, out)

    def count(self, batch: EventBatch, counts: np.ndarray) -> None:
        """Add the number of matches to `counts`; see `Index.count`."""
        tally(self.layout, batch, counts)

    def validate(self, attributes: int) -> None:
        """Raise unless blocks share out the conjunctions, and each test has its bounds."""
        g, n = self.layout, self.conjunctions.size
        blocks, tests = len(g.block) - 1, len(g.attribute)
        check_offsets("block", g.block, blocks, n)
        check_offsets("tests", g.tests, blocks, tests)
        check_lengths(g, tests, "least", "greatest", "bounds")
        check_lengths(g, len(g.low), "high")
        check_lengths(g, n, "candidate")
        check_within("attribute", g.attribute, 0, attributes)
        sizes = np.repeat(np.diff(g.block), np.diff(g.tests))
        require(
            bool(((g.bounds >= 0) & (g.bounds <= len(g.low) - sizes)).all()),
            "a test must have bounds for all conjunctions of its block",
        )
        check_numbers("candidate", g.candidate, n)


def _tested_rows(
    c: Conjunctions, facts: Facts, chosen: np.ndarray, lead: np.ndarray, alike: bool
) -> list[np.ndarray]:
    """Return, test by test of a block, the row that each of its conjunctions contributes."""
    if not alike:
        rows = lead[chosen]
        return [rows] if rows[0] >= 0 else []
    rows = ranges(c.offsets[chosen], c.offsets[chosen + 1])
    rows = rows[facts.worth[rows] != NOTHING]
    tests = len(rows) // len(chosen)
    # Signatures are hashes. Should two differ and be equal, the block has no tests: all of
    # it is proposed, and accept decides.
    if tests * len(chosen) != len(rows):
        return []
    by_test = list(rows.reshape(len(chosen), tests).T)
    alike = all((c.attribute[r] == c.attribute[r[0]]).all() for r in by_test)
    return by_test if alike else []


@kernel
def survey(
    c: Conjunctions, f: Facts, signature: Int64Out, lead: Int64Out, settled: UInt8Out
) -> None:
    """Write for each conjunction: a number for the attributes it can test by intervals,
    its narrowest such row (-1: none), and whether it has nothing but intervals.
    """
    for i in range(signature.shape[0]):
        mixed = np.uint64(0x9E3779B97F4A7C15)
        narrowest = np.inf
        lead[i] = -1
        settled[i] = 1
        for row in range(c.offsets[i], c.offsets[i + 1]):
            if f.worth[row] != EXACT:
                settled[i] = 0
            if f.worth[row] == NOTHING:
                continue
            mixed = (mixed ^ np.uint64(c.attribute[row] + 1)) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
            width = np.float64(f.high[row]) - np.float64(f.low[row])
            if width < narrowest:
                narrowest = width
                lead[i] = row
        signature[i] = np.int64(mixed)


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
def hits(low, high, key, low2, high2, key2):
    """Count the conjunctions of a window for which both tests hold.

    A sum and nothing stored: the compiler keeps it in vector registers. Storing
    verdicts and looking for the ones among them took 2.3 times as long.
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
                out[n : n + ended - begun] = candidate[begun:ended]
                n += ended - begun
                continue
            # A block with one test names it twice: comparing again costs less than it would to
            # write everything below once more.
            test2 = test + (end > test + 1)
            key, key2 = line[attribute[test]], line[attribute[test2]]
            for begin in range(0, ended - begun, _CHUNK):
                size = min(_CHUNK, ended - begun - begin)
                at, at2 = bounds[test] + begin, bounds[test2] + begin
                low, high = lows[at : at + size], highs[at : at + size]
                low2, high2 = lows[at2 : at2 + size], highs[at2 : at2 + size]
                if hits(low, high, key, low2, high2, key2) == 0:
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
            for begin in range(0, stop - start, _CHUNK):
                size = min(_CHUNK, stop - start - begin)
                at, at2 = bounds[test] + begin, bounds[test2] + begin
                low, high = lows[at : at + size], highs[at : at + size]
                low2, high2 = lows[at2 : at2 + size], highs[at2 : at2 + size]
                found = hits(low, high, key, low2, high2, key2)
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
