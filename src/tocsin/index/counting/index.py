"""Two-phase matching: an interval index for each attribute, and a counter for each conjunction.

The classic engine for conjunctions (Wu, Chen, Yu, section 2.1, after Fabret and others). First
the predicates that an event satisfies are found, attribute by attribute, with virtual construct
intervals (`intervals`, which reads first); each takes one from its conjunction's counter. A
conjunction whose counter comes to zero has all its predicates satisfied.

Unlike the paper, which has this in a sentence:

* The lattices do not lie over values. The bounds of all predicates on an attribute cut its line
  into pieces; a value's *rank* is the number of cuts up to it, and whether a predicate holds
  depends on the rank alone. So where bounds stand close together there are as many cells as
  elsewhere; over values a whole cluster of rules may fall into one cell.
* Constructs are one cell long (L = 1), and an interval's ends are in sorted lists: see `intervals`.
* Sets count by the interval around them, and complements not at all: both are left to accept. A
  conjunction without any interval is always a candidate.
* A counter is one word: the event it is for, the number of predicates, and how many are left; so
  none is reset from one event to the next.

In memory: the lists of `intervals` once for each predicate, about 50 bytes, and 16 more for the
cuts. An event costs a bisection for each value it has, and a nanosecond or more (a cache miss, if
there are many conjunctions) for every *predicate* it satisfies, however few conjunctions come of
it. It needs no choice of axes and no statistics, so it is the peer that `keyed` is measured
against.

When it is slow: where ranges overlap, since most of the work is then for conjunctions that some
other attribute rules out; and one event at a time, since each call first makes the counters, 8
bytes a conjunction.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np

from tocsin.index.array_index import ArrayIndex
from tocsin.index.constructs.intervals import Layout as IntervalLayout
from tocsin.index.constructs.intervals import (
    at_most,
    cell_of,
    check_lists,
    filed,
    less_than,
    levels_of,
)
from tocsin.index.protocol import Summary
from tocsin.jit import (
    Float64s,
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    freeze_fields,
    kernel,
    prefetch,
    step,
)
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.facts import EXACT, NOTHING, facts_of
from tocsin.model.keys import EventBatch
from tocsin.model.line import HIGHEST, NULL
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_offsets,
    check_within,
    require,
)

_MOST = 0xFFFF  # predicates of a conjunction that are counted
_AHEAD = 16  # conjunctions whose counters are asked of memory before they are counted


class Layout(NamedTuple):
    """v lattices with c cells and p constructs over a attributes; see `intervals.Layout`."""

    lattice: Int64s  # [a + 1] the lattices of an attribute
    cut: Int64s  # [a + 1] cuts of an attribute are cut[i] to cut[i + 1]
    cuts: Int64s
    of_null: Int32s  # [z] attributes that some predicate wants, or allows, to be null
    first: Int64s  # [v]
    last: Int64s
    origin: Float64s
    scale: Float64s
    cells: Int64s  # [v + 1]
    constructs: Int64s  # [v + 1]
    start: Int32s  # [c + 1]
    start_id: Int32s
    start_key: Int64s
    end: Int32s  # [c + 1]
    end_id: Int32s
    end_key: Int64s
    inside: Int32s  # [c + 1]
    inside_id: Int32s
    inside_low: Int64s
    inside_high: Int64s
    piece: Int64s  # [p + 1]
    piece_id: Int32s
    needed: Int32s  # [n] predicates that are counted
    candidate: Int32s  # [n] c, or ~c if there is more to it
    always: Int32s  # conjunctions with nothing to count, as they are proposed


class Counting(ArrayIndex):
    """An interval index per attribute, and counters."""

    name: ClassVar[str] = "counting"
    version: ClassVar[int] = 1

    layout_class = Layout
    summary = Summary(
        holds="every predicate under its attribute, and a counter for each conjunction",
        cost="a nanosecond or more a predicate that it satisfies",
        suits="comparison with `keyed`: two-phase matching",
        slow_when="ranges overlap; one event at a time",
    )

    def proves_all(self) -> bool:
        """Tell whether all conjunctions are intervals."""
        return bool((self.layout.candidate >= 0).all())

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray) -> Self:
        """File every predicate under its attribute."""
        c = conjunctions
        owner = np.repeat(np.arange(c.size), np.diff(c.offsets))
        place = np.arange(len(owner)) - c.offsets[owner]
        facts = facts_of(c)
        counted = np.flatnonzero((facts.worth != NOTHING) & (place < _MOST))
        low, high = facts.low[counted], facts.high[counted]
        attributes = c.attribute[counted]
        order = np.argsort(attributes, kind="stable")
        groups = np.searchsorted(attributes[order], np.arange(len(floats) + 1))
        parts, lattices = [], np.zeros(len(floats) + 1, np.int64)
        cut, cuts = np.zeros(len(floats) + 1, np.int64), [np.empty(0, np.int64)]
        for attribute in range(len(floats)):
            mine = order[groups[attribute] : groups[attribute + 1]]
            if len(mine):
                low_rank, high_rank, own = _ranked(low[mine], high[mine])
                levels, level = levels_of(low_rank, high_rank, False, 1)
                ids = owner[counted[mine]].astype(np.int32)
                parts.append(filed(levels, level, low_rank, high_rank, ids, False, True))
                lattices[attribute + 1], cut[attribute + 1] = len(levels), len(own)
                cuts.append(own)
        settled = np.ones(c.size, bool)
        settled[owner[(facts.worth != EXACT) | (place >= _MOST)]] = False
        needed = np.bincount(owner[counted], minlength=c.size)
        candidate = np.where(settled, np.arange(c.size), ~np.arange(c.size))
        of_null = np.unique(attributes[low == NULL])
        layout = freeze_fields(
            Layout,
            lattice=np.cumsum(lattices),
            cut=np.cumsum(cut),
            cuts=np.concatenate(cuts),
            of_null=of_null,
            **_joined(parts),
            needed=needed,
            candidate=candidate,
            always=candidate[needed == 0],
        )
        return cls(conjunctions, layout)

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose the conjunctions whose counters come to zero; see `Index.candidates`."""
        return propose(self.layout, batch, offsets, out)

    def validate(self, attributes: int) -> None:
        """Raise unless no event can count more predicates of a conjunction than it needs.

        A counter that went below zero would come to zero again, and its conjunction be found once
        more. A conjunction is at most once in a cell, so it is counted at most once a lattice; and
        it needs as many as there are lattices that have it.
        """
        g, n = self.layout, self.conjunctions.size
        tested = len(g.cut) - 1
        check_lengths(g, tested + 1, "lattice")
        check_offsets("lattice", g.lattice, tested, len(g.first))
        check_offsets("cut", g.cut, tested, len(g.cuts))
        check_within("of_null", g.of_null, 0, tested)
        check_lists(g, n, proven=True)
        require(np.array_equal(g.cells, g.constructs), "constructs must be one cell long")
        check_lengths(g, n, "needed", "candidate")
        check_within("needed", g.needed, 0, _MOST + 1)
        check_numbers("candidate", g.candidate, n)
        require(
            np.array_equal(g.always, g.candidate[g.needed == 0]),
            "'always' must be the conjunctions that need nothing",
        )
        lattices = np.zeros(n, np.int32)
        require(
            count_lattices(g, lattices) and np.array_equal(lattices, g.needed),
            "each conjunction must be in as many lattices as it needs, once in a cell",
        )


def _ranked(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return intervals in ranks, and the cuts: where some interval begins, or has just ended."""
    cuts = np.unique(np.concatenate([low[low > NULL], high[high < HIGHEST] + 1]))
    return np.searchsorted(cuts, low, "right"), np.searchsorted(cuts, high, "right"), cuts


# Fields that are offsets, which go on where those of the attribute before have ended.
_OFFSETS = ("cells", "constructs", "start", "end", "inside", "piece")
_OF_LATTICES = [name for name in Layout._fields if name in IntervalLayout._fields]


def _joined(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Put the lattices of all attributes one after the other."""
    return {
        name: _concatenated([part[name] for part in parts], name in _OFFSETS)
        for name in _OF_LATTICES
    }


def _concatenated(arrays: list[np.ndarray], are_offsets: bool) -> np.ndarray:
    if not are_offsets:
        return np.concatenate(arrays) if arrays else np.empty(0)
    joined, before = [np.zeros(1, np.int64)], 0
    for offsets in arrays:
        joined.append(np.asarray(offsets[1:], np.int64) + before)
        before = int(joined[-1][-1])
    return np.concatenate(joined)


@kernel
def count_lattices(g: Layout, lattices: Int32Out) -> bool:
    """Count the lattices that each conjunction is in; tell whether it is once in each cell."""
    cells, piece, piece_id, start, start_id = g.cells, g.piece, g.piece_id, g.start, g.start_id
    end, end_id, inside, inside_id = g.end, g.end_id, g.inside, g.inside_id
    last = np.full(lattices.shape[0], -1, np.int64)  # the cell in which each was seen last
    for v in range(cells.shape[0] - 1):
        for cell in range(cells[v], cells[v + 1]):
            once = see_all(piece_id, piece[cell], piece[cell + 1], cell, cells[v], last, lattices)
            once &= see_all(start_id, start[cell], start[cell + 1], cell, cells[v], last, lattices)
            once &= see_all(end_id, end[cell], end[cell + 1], cell, cells[v], last, lattices)
            once &= see_all(
                inside_id, inside[cell], inside[cell + 1], cell, cells[v], last, lattices
            )
            if not once:
                return False
    return True


@step
def see_all(ids, begin, stop, cell, first, last, lattices):
    """Note the conjunctions in a list of a cell of the lattice that begins at cell `first`."""
    for j in range(begin, stop):
        c = ids[j]
        if last[c] == cell:
            return False
        lattices[c] += last[c] < first
        last[c] = cell
    return True


@step
def take_one(left, c, event, out, n):
    """Count one satisfied predicate of a conjunction; write the conjunction if it was the last."""
    word = left[c]
    needed = word & 0xFFFF0000
    word = word if word >> 32 == event else event << 32 | needed | needed >> 16
    word -= 1
    left[c] = word
    out[n] = c
    return n + np.int64(word & 0xFFFF == 0)


@step
def take_all(ids, begin, stop, left, event, out, n):
    """Count a satisfied predicate of each conjunction in a stretch of a list."""
    for j in range(begin, stop):
        if j + _AHEAD < stop:
            prefetch(left, np.int64(ids[j + _AHEAD]))
        n = take_one(left, ids[j], event, out, n)
    return n


@kernel
def propose(g: Layout, batch: EventBatch, offsets: Int64Out, out: Int32Out) -> int:
    """Write candidates event by event while there is room for all conjunctions."""
    keys, first, stop = batch.keys, batch.first, batch.stop
    # Fields into variables first: see the remark in `cells`.
    lattice, cut, cuts, of_null = g.lattice, g.cut, g.cuts, g.of_null
    least, last, origin, scale = g.first, g.last, g.origin, g.scale
    cells, constructs, piece, piece_id = g.cells, g.constructs, g.piece, g.piece_id
    start, start_id, start_key = g.start, g.start_id, g.start_key
    end, end_id, end_key = g.end, g.end_id, g.end_key
    inside, inside_id, inside_low, inside_high = g.inside, g.inside_id, g.inside_low, g.inside_high
    needed, candidate, always = g.needed, g.candidate, g.always
    columns, column_attribute = keys.columns, keys.column_attribute
    sparse, attributes, values = keys.offsets, keys.attribute, keys.key
    left = np.empty(needed.shape[0], np.int64)
    for c in range(needed.shape[0]):
        left[c] = np.int64(-1) << 32 | np.int64(needed[c]) << 16
    tested = cut.shape[0] - 1
    given = np.zeros(tested, np.uint8)  # attributes that the event has
    n = offsets[0]
    room = out.shape[0] - needed.shape[0]
    event = first
    while event < stop and n <= room:
        before = n
        dense = column_attribute.shape[0]
        begin, after = np.int64(0), np.int64(0)
        if sparse.shape[0] > 0:
            begin, after = sparse[event], sparse[event + 1]
        total = dense + (after - begin) + of_null.shape[0]
        for i in range(total):
            # Of several values for an attribute the last counts: from the last to the first.
            if i < after - begin:
                attribute, key = attributes[after - 1 - i], values[after - 1 - i]
            elif i < dense + after - begin:
                attribute = column_attribute[i - (after - begin)]
                key = columns[i - (after - begin), event]
            else:
                attribute, key = of_null[i - dense - (after - begin)], np.int64(NULL)
            # Attributes that came later than the rules are beyond the lattices.
            if attribute >= tested or given[attribute] != 0:
                continue
            given[attribute] = 1
            rank = at_most(cuts, cut[attribute], cut[attribute + 1], key)
            for v in range(lattice[attribute], lattice[attribute + 1]):
                cell = cell_of(
                    rank, False, least[v], last[v], origin[v], scale[v], cells[v + 1] - cells[v]
                )
                at = cells[v] + cell
                number = constructs[v] + cell
                tag = event - first
                n = take_all(piece_id, piece[number], piece[number + 1], left, tag, out, n)
                from_, until = np.int64(start[at]), np.int64(start[at + 1])
                until = from_ + at_most(start_key, from_, until, rank)
                n = take_all(start_id, from_, until, left, tag, out, n)
                from_, until = np.int64(end[at]), np.int64(end[at + 1])
                from_ += less_than(end_key, from_, until, rank)
                n = take_all(end_id, from_, until, left, tag, out, n)
                for j in range(inside[at], inside[at + 1]):
                    if inside_low[j] <= rank <= inside_high[j]:
                        n = take_one(left, inside_id[j], tag, out, n)
        for i in range(before, n):
            out[i] = candidate[out[i]]
        for i in range(always.shape[0]):
            out[n + i] = always[i]
        n += always.shape[0]
        for i in range(dense):
            if column_attribute[i] < tested:
                given[column_attribute[i]] = 0
        for i in range(begin, after):
            if attributes[i] < tested:
                given[attributes[i]] = 0
        for i in range(of_null.shape[0]):
            given[of_null[i]] = 0
        event += 1
        offsets[event - first] = n
    return event
