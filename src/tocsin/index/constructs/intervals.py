"""Virtual construct intervals: ranges over one attribute, cut into prepared pieces.

Wu, Chen, Yu: Indexing continual range queries for efficient stream processing, section 2.

A lattice cuts the attribute's domain into R cells. From each cell *constructs* start, prepared
intervals of up to L cells: of every length 1..L (simple, SCI) or of the powers of two (logarithmic,
LCI). Each has a number and a list of ids. A rule's interval is cut into constructs, and its id
is put into their lists; an event finds its cell and takes the lists of all constructs that cover
it. Which these are is the same everywhere, relative to the cell: a table of differences of
numbers, made once (2.4).

Unlike the paper:

* The ends of an interval need not lie on the lattice. The cells strictly between those of its
  ends are cut into constructs; in the cells of its ends it is in a list of *starts*, sorted by
  the low end, or of *ends*, sorted by the high end, so that those an event meets stand together
  at the front of the one and at the back of the other. So nothing is expanded, and nothing is
  left for accept. An interval within one cell is tested.
* A cell is half open, so an event lies in exactly one, on a lattice point or between: the paper's
  second case, |Cov| = 2L - 1 for LCI, is the only one (`interval_cover` gives both). At the rim
  below L the constructs that would start before the first cell are left out of the run.
* Lists lie one after the other by number, and the constructs that cover a cell from one start
  have consecutive numbers. So they are one run of ids: L copies an event instead of 2L - 1.
* Intervals of very different lengths lie on lattices of their own (*levels*), each about eight
  cells to an interval. Then L = 1 is the best choice, and it is what is chosen unless lists
  would take more than 16 entries an interval.

In memory: 12 bytes for each end (id and key), 4 bytes for each piece, 20 bytes a cell. An event
costs a cache miss or three a level, a search of two short sorted lists, and then copies: about
100 nanoseconds and 0.1 for each match.

When it is slow: conditions that other attributes decide; each candidate is then left to accept.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tocsin.index import unit_costs
from tocsin.index.array_index import ArrayIndex
from tocsin.index.constructs.decomposition import check_length, too_short
from tocsin.index.costs import Cost, Sample
from tocsin.index.plane import chosen_axes, domain, keys_of, scale_of, values
from tocsin.index.posting_lists import left_out, less_left_out, places_of, put_in
from tocsin.index.protocol import Summary
from tocsin.jit import (
    Float64s,
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8Out,
    UInt8s,
    freeze_fields,
    kernel,
    prefetch,
    step,
)
from tocsin.model.conjunctions import Conjunctions, joined
from tocsin.model.facts import EXACT, NOTHING, Facts, facts_of
from tocsin.model.keys import NARROW, EventBatch, key_column, number
from tocsin.model.line import HIGHEST, NULL
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_offsets,
    check_within,
    require,
)

_CELLS = 8  # that the middle one of a level's intervals covers
_LONG = 64  # cells, and an interval belongs to a coarser level
_LEVELS = 6
_PIECES = 16  # entries in constructs' lists an interval, at most, on average
_AHEAD = 64


class Layout(NamedTuple):
    """v levels with c cells and p constructs in all, over n conjunctions."""

    attribute: Int32s  # [1] -1: none
    floats: UInt8s  # [1]
    settled: UInt8s  # [1]
    first: Int64s  # [v] the lowest key of the domain
    last: Int64s  # [v]
    origin: Float64s  # [v] cell = (value - origin) * scale
    scale: Float64s  # [v]
    cells: Int64s  # [v + 1] number of a level's first cell
    constructs: Int64s  # [v + 1] number of its first construct
    longest: Int64s  # [v] L
    each: Int64s  # [v] constructs that start in a cell: L, or log2(L) + 1
    skip: Int64s  # [v, most L] of the constructs d cells back, those that are too short to cover
    start: Int32s  # [c + 1] where a cell's starts begin
    start_id: Int32s
    start_key: Int64s  # ascending within a cell
    end: Int32s  # [c + 1]
    end_id: Int32s
    end_key: Int64s  # ascending within a cell
    inside: Int32s  # [c + 1]
    inside_id: Int32s
    inside_low: Int64s
    inside_high: Int64s
    piece: Int64s  # [p + 1] where a construct's list begins
    piece_id: Int32s


class Intervals(ArrayIndex):
    """Intervals of one attribute in the lists of virtual constructs."""

    name: ClassVar[str] = "intervals"
    version: ClassVar[int] = 1

    layout_class = Layout
    counts = True
    changes_in_place = True
    priced = True
    summary = Summary(
        holds="ranges over one attribute, cut into constructs: prepared pieces",
        cost=f"{2 * unit_costs.FIND:g} ns, and {unit_costs.COPY:g} ns a match",
        suits="price bands, time windows and other ranges over one attribute",
        slow_when="other attributes decide: each range that an event meets is then tested",
    )

    def proves_all(self) -> bool:
        """Tell whether the intervals are all that the conjunctions say."""
        return bool(self.layout.settled.all())

    @classmethod
    def build(
        cls,
        conjunctions: Conjunctions,
        floats: np.ndarray,
        longest: int | None = None,
        logarithmic: bool = True,
    ) -> Self:
        """File the intervals of the most selective attribute; `longest` is L, a power of two."""
        check_length(longest)
        (attribute, _), (is_float, _) = chosen_axes(conjunctions, floats)
        n = conjunctions.size
        low, high = np.empty(n, np.int64), np.empty(n, np.int64)
        settled = np.empty(n, np.uint8)
        facts = facts_of(conjunctions)
        intervals_of(conjunctions, facts, int(attribute), low, high, settled)
        levels, level = levels_of(low, high, bool(is_float), longest)
        ids = np.where(settled != 0, np.arange(n), ~np.arange(n)).astype(np.int32)
        fields = filed(levels, level, low, high, ids, bool(is_float), logarithmic)
        proven = [bool(settled.all())]
        layout = freeze_fields(
            Layout, attribute=[attribute], floats=[is_float], settled=proven, **fields
        )
        return cls(conjunctions, layout)

    @classmethod
    def cost(cls, sample: Sample) -> Cost:
        """Estimate what an event would cost; see `Index.cost`."""
        share, boxes, n = sample.sides[0], sample.boxes, sample.conjunctions.size
        alone = (boxes.low[n:] == NULL) & (boxes.high[n:] == HIGHEST)
        met = sample.total(share)
        nanoseconds = (
            2 * unit_costs.FIND
            + unit_costs.COPY * met
            + unit_costs.ACCEPT * sample.total(share[sample.unproven | ~alone])
        )
        meets = sample.in_words(met)
        return Cost(nanoseconds, f"an event meets {meets} on their most selective attribute")

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose the intervals around an event's value; see `Index.candidates`."""
        column = key_column(batch.keys, int(self.layout.attribute[0]))
        size = self.conjunctions.size
        return propose(self.layout, column, size, batch.first, batch.stop, offsets, out)

    def count(self, batch: EventBatch, counts: np.ndarray) -> None:
        """Add the number of matches to `counts`; see `Index.count`."""
        column = key_column(batch.keys, int(self.layout.attribute[0]))
        tally(self.layout, column, batch.first, counts)

    def validate(self, attributes: int) -> None:
        """Raise unless cells and constructs have lists, no longer than they may be.

        How keys become cells does not matter, nor how they are ordered in a cell: cells are clamped
        to a level's, and what is found in a list is a part of it.
        """
        g, n = self.layout, self.conjunctions.size
        levels = len(g.first)
        require(1 <= levels <= _LEVELS, f"there must be 1 to {_LEVELS} levels, got {levels:,}")
        check_lengths(g, 1, "attribute", "floats", "settled")
        check_lengths(g, levels, "longest", "each")
        check_within("attribute", g.attribute, -1, attributes)
        check_lists(g, n, proven=self.proven)
        check_within("each", g.each, 1, len(g.piece))
        constructs, cells = np.diff(g.constructs), np.diff(g.cells)
        require(
            not (constructs % g.each).any() and np.array_equal(constructs // g.each, cells),
            "as many constructs must start in each cell of a level",
        )
        most = len(g.skip) // levels
        check_lengths(g, levels * most, "skip")
        check_within("longest", g.longest, 1, most + 1)
        total = 0
        for v in range(levels):
            skip = g.skip[v * most : v * most + int(g.longest[v])]
            check_within("skip", skip, 0, int(g.each[v]) + 1)
            require(bool((skip[1:] >= skip[:-1]).all()), "'skip' must ascend within a level")
            mine = slice(int(g.cells[v]), int(g.cells[v + 1]) + 1)
            found = _covering(g.piece[g.constructs[v] : g.constructs[v + 1] + 1], g.each[v], skip)
            found += np.diff(g.start[mine]) + np.diff(g.end[mine]) + np.diff(g.inside[mine])
            total += int(found.max())
        # An interval is on one level, and in one of the lists that an event takes there.
        require(
            total <= n, f"an event finds {total:,} candidates, and there are {n:,} conjunctions"
        )

    def insert(self, more: Conjunctions) -> None:
        """Put further conjunctions onto the lattices there are, numbered on.

        All lists are moved once, so a batch costs what copying the index costs. After many
        insertions outside the domain, or of quite other lengths, build again.
        """
        g, before, n = self.layout, self.conjunctions.size, more.size
        low, high = np.empty(n, np.int64), np.empty(n, np.int64)
        settled = np.empty(n, np.uint8)
        intervals_of(more, facts_of(more), int(g.attribute[0]), low, high, settled)
        ids = before + np.arange(n)
        ids = np.where(settled != 0, ids, ~ids).astype(np.int32)
        lattice = Lattice(*(getattr(g, name) for name in Lattice._fields))
        level = self._levels_for(low, high)
        first, last = np.empty(n, np.int64), np.empty(n, np.int64)
        place(lattice, level, low, high, first, last)
        made: dict[str, np.ndarray] = {}
        for name, chosen, cell, key in (
            ("start", first < last, first, low),
            ("end", first < last, last, high),
            ("inside", first == last, first, low),
        ):
            offsets = getattr(g, name)
            old = getattr(g, "inside_low" if name == "inside" else f"{name}_key")
            picked = np.flatnonzero(chosen)
            picked = picked[np.lexsort((key[picked], cell[picked]))]
            at = np.empty(len(picked), np.int64)
            find_places(offsets, old, cell[picked], key[picked], at)
            made[f"{name}_id"] = put_in(getattr(g, f"{name}_id"), at, ids[picked])
            if name == "inside":
                made["inside_low"] = put_in(g.inside_low, at, low[picked])
                made["inside_high"] = put_in(g.inside_high, at, high[picked])
            else:
                made[f"{name}_key"] = put_in(old, at, key[picked])
            counts = np.bincount(cell[picked], minlength=len(offsets) - 1)
            made[name] = offsets + np.concatenate([[0], np.cumsum(counts)])
        logarithmic = bool((g.each != g.longest).any()) or int(g.longest.max()) == 1
        counts = np.zeros(len(g.piece) - 1, np.int64)
        cut(lattice, level, first, last, logarithmic, ids, counts, np.empty(0, np.int32))
        pieces = np.empty(int(counts.sum()), np.int32)
        if len(pieces):
            cursor = np.cumsum(counts) - counts
            cut(lattice, level, first, last, logarithmic, ids, cursor, pieces)
        made["piece_id"] = put_in(g.piece_id, np.repeat(g.piece[1:], counts), pieces)
        made["piece"] = g.piece + np.concatenate([[0], np.cumsum(counts)])
        made["settled"] = g.settled & bool(settled.all())
        self.become(joined([self.conjunctions, more]), made)

    def remove(self, numbers: np.ndarray) -> None:
        """Take conjunctions out of all lists; their numbers stay theirs."""
        g = self.layout
        made: dict[str, np.ndarray] = {}
        for name, beside in (
            ("start", ["start_key"]),
            ("end", ["end_key"]),
            ("inside", ["inside_low", "inside_high"]),
            ("piece", []),
        ):
            places = places_of(getattr(g, f"{name}_id"), self.conjunctions.size, numbers)
            made[name] = less_left_out(getattr(g, name), places)
            for field in (f"{name}_id", *beside):
                made[field] = left_out(getattr(g, field), places)
        self.become(self.conjunctions, made)

    def _levels_for(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return for each interval the finest lattice on which it is not long."""
        g, is_float = self.layout, bool(self.layout.floats[0])
        level = np.full(len(low), len(g.first) - 1, np.int32)
        for v in range(len(g.first) - 2, -1, -1):
            cells = g.cells[v + 1] - g.cells[v]
            end = g.origin[v] + (cells / g.scale[v] if g.scale[v] > 0 else 0.0)
            side = np.clip(values(high, is_float), g.origin[v], end)
            side -= np.clip(values(low, is_float), g.origin[v], end)
            level[side * g.scale[v] <= _LONG] = v
        return level


# ------------------------------------------------------------ what is stored


def check_lists(g: Any, n: int, proven: bool) -> None:
    """Raise unless the levels of a layout have cells and constructs, and these lists of numbers.

    Also for the layout of `counting`, whose fields have the same names.
    """
    levels = len(g.first)
    check_lengths(g, levels, "last", "origin", "scale")
    cells = len(g.start) - 1
    check_offsets("cells", g.cells, levels, cells)
    require(bool((g.cells[1:] > g.cells[:-1]).all()), "each level must have a cell")
    check_offsets("constructs", g.constructs, levels, len(g.piece) - 1)
    check_lengths(g, len(g.start_id), "start_key")
    check_lengths(g, len(g.end_id), "end_key")
    check_lengths(g, len(g.inside_id), "inside_low", "inside_high")
    for name, count in (
        ("start", cells), ("end", cells), ("inside", cells), ("piece", len(g.piece) - 1)
    ):  # fmt: skip
        ids = getattr(g, f"{name}_id")
        check_offsets(name, getattr(g, name), count, len(ids))
        check_numbers(f"{name}_id", ids, n, proven)


def _covering(piece: np.ndarray, each: int, skip: np.ndarray) -> np.ndarray:
    """Return how many entries the constructs around each cell of a level have.

    Of the `each` constructs that start d cells back they are those from `skip[d]` on. Sums over
    neighbouring cells are differences of running sums, so this takes as long as reading `piece`
    does, however long the constructs are.
    """
    cells = np.arange((len(piece) - 1) // each)

    def summed(offset: int, first: int, stop: int) -> np.ndarray:
        """Return for each cell the sum of `piece` at an offset, `first` to `stop` cells back."""
        sums = np.concatenate([[0], np.cumsum(piece[offset::each][: len(cells)])])
        return sums[np.maximum(cells + 1 - first, 0)] - sums[np.maximum(cells + 1 - stop, 0)]

    found = summed(each, 0, len(skip))
    begins = np.flatnonzero(np.diff(skip, prepend=-1))
    for first, stop in zip(begins, np.append(begins[1:], len(skip))):
        found -= summed(int(skip[first]), int(first), int(stop))
    return found


# ------------------------------------------------------------ ask


@step
def cell_of(key, is_float, first, last, origin, scale, cells):
    """Return the cell of a key: monotone, and clamped at the domain's ends."""
    if key < first:
        return np.int64(0)
    if key > last:
        return cells - 1
    found = np.int64((number(key, is_float) - origin) * scale)
    return min(max(found, np.int64(0)), cells - 1)


@step
def at_most(sorted_keys, begin, stop, key):
    """Return how many of the ascending keys from `begin` to `stop` are at most `key`."""
    low, size = begin, stop - begin
    while size > 0:
        half = (size + 1) >> 1
        # Without a branch: which way it goes is a coin's toss.
        low += half * np.int64(sorted_keys[low + half - 1] <= key)
        size -= half
    return low - begin


@step
def less_than(sorted_keys, begin, stop, key):
    """Return how many of the ascending keys from `begin` to `stop` are less than `key`."""
    low, size = begin, stop - begin
    while size > 0:
        half = (size + 1) >> 1
        low += half * np.int64(sorted_keys[low + half - 1] < key)
        size -= half
    return low - begin


@kernel
def propose(
    g: Layout, keys: Int64s, size: int, first: int, stop: int, offsets: Int64Out, out: Int32Out
) -> int:
    """Write candidates event by event while there is room for all `size` conjunctions."""
    # Fields into variables first: see the remark in `cells`.
    is_float, levels, most = g.floats[0], g.first.shape[0], g.skip.shape[0] // g.first.shape[0]
    least, last, origin, scale = g.first, g.last, g.origin, g.scale
    cells, constructs, longest, each, skip = g.cells, g.constructs, g.longest, g.each, g.skip
    start, start_id, start_key = g.start, g.start_id, g.start_key
    end, end_id, end_key = g.end, g.end_id, g.end_key
    inside, inside_id, inside_low, inside_high = g.inside, g.inside_id, g.inside_low, g.inside_high
    piece, piece_id = g.piece, g.piece_id
    found = np.empty(_AHEAD * levels, np.int64)
    n = np.uint64(offsets[0])
    room = out.shape[0] - size
    event = first
    while event < stop and np.int64(n) <= room:
        several = min(_AHEAD, stop - event)
        for i in range(several):
            for v in range(levels):
                cell = cell_of(
                    keys[event + i], is_float, least[v], last[v], origin[v], scale[v],
                    cells[v + 1] - cells[v],
                )  # fmt: skip
                found[i * levels + v] = cell
                prefetch(start, cells[v] + cell)
                prefetch(end, cells[v] + cell)
                prefetch(inside, cells[v] + cell)
                prefetch(piece, constructs[v] + cell * each[v])
        for i in range(several):
            if np.int64(n) > room:
                break
            if i + 2 < several:
                soon = cells[0] + found[(i + 2) * levels]
                prefetch(start_key, np.int64(start[soon]))
                prefetch(end_key, np.int64(end[soon]))
            key = keys[event]
            for v in range(levels):
                cell = found[i * levels + v]
                from_here = each[v]
                construct = constructs[v] + cell * from_here
                for d in range(min(longest[v], cell + 1)):
                    begin = np.uint64(piece[construct + skip[v * most + d]])
                    length = np.uint64(piece[construct + from_here]) - begin
                    for j in range(length):
                        out[n + j] = piece_id[begin + j]
                    n += length
                    construct -= from_here
                at = cells[v] + cell
                begin = np.uint64(start[at])
                length = np.uint64(
                    at_most(start_key, np.int64(start[at]), np.int64(start[at + 1]), key)
                )
                for j in range(length):
                    out[n + j] = start_id[begin + j]
                n += length
                past = less_than(end_key, np.int64(end[at]), np.int64(end[at + 1]), key)
                begin = np.uint64(end[at] + past)
                length = np.uint64(end[at + 1]) - begin
                for j in range(length):
                    out[n + j] = end_id[begin + j]
                n += length
                for j in range(np.uint64(inside[at]), np.uint64(inside[at + 1])):
                    out[n] = inside_id[j]
                    n += np.uint64((inside_low[j] <= key) & (key <= inside_high[j]))
            event += 1
            offsets[event - first] = n
    return event


@kernel
def tally(g: Layout, keys: Int64s, first: int, counts: Int64Out) -> None:
    """Add to each event's count the intervals around its value; asked only if all are settled."""
    is_float, levels, most = g.floats[0], g.first.shape[0], g.skip.shape[0] // g.first.shape[0]
    least, last, origin, scale = g.first, g.last, g.origin, g.scale
    cells, constructs, longest, each, skip = g.cells, g.constructs, g.longest, g.each, g.skip
    start, start_key, end, end_key = g.start, g.start_key, g.end, g.end_key
    inside, inside_low, inside_high, piece = g.inside, g.inside_low, g.inside_high, g.piece
    for i in range(counts.shape[0]):
        key = keys[first + i]
        total = np.int64(0)
        for v in range(levels):
            cell = cell_of(
                key, is_float, least[v], last[v], origin[v], scale[v], cells[v + 1] - cells[v]
            )
            construct = constructs[v] + cell * each[v]
            for d in range(min(longest[v], cell + 1)):
                total += piece[construct + each[v]] - piece[construct + skip[v * most + d]]
                construct -= each[v]
            at = cells[v] + cell
            total += at_most(start_key, np.int64(start[at]), np.int64(start[at + 1]), key)
            past = less_than(end_key, np.int64(end[at]), np.int64(end[at + 1]), key)
            total += end[at + 1] - end[at] - past
            for j in range(inside[at], inside[at + 1]):
                total += np.int64((inside_low[j] <= key) & (key <= inside_high[j]))
        counts[i] += total


# ------------------------------------------------------------ build


@kernel
def intervals_of(
    c: Conjunctions, f: Facts, attribute: int, low: Int64Out, high: Int64Out, settled: UInt8Out
) -> None:
    """Write each conjunction's interval on an attribute (-1: none), or the whole line."""
    offsets, attributes, lows, highs, worth = c.offsets, c.attribute, f.low, f.high, f.worth
    for i in range(settled.shape[0]):
        low[i], high[i], settled[i] = NULL, HIGHEST, 1
        for row in range(offsets[i], offsets[i + 1]):
            if attributes[row] != attribute or worth[row] != EXACT:
                settled[i] = 0
            if attributes[row] == attribute and worth[row] != NOTHING:
                low[i], high[i] = lows[row], highs[row]


class Level(NamedTuple):
    """A lattice over a domain."""

    begin: float
    end: float
    cells: int
    longest: int


def levels_of(
    low: np.ndarray, high: np.ndarray, is_float: bool, longest: int | None
) -> tuple[list[Level], np.ndarray]:
    """Return lattices for intervals of different lengths, and which one each interval is on."""
    n = len(low)
    begin, end = domain(low, high, is_float)
    side = np.ones(n)
    if end - begin >= NARROW:
        side = np.clip(values(high, is_float), begin, end)
        side = (side - np.clip(values(low, is_float), begin, end)) / (end - begin)
    level = np.zeros(n, np.int32)
    rest = np.arange(n)
    levels: list[Level] = []
    while True:
        mine = side[rest]
        middle = max(float(np.median(mine)) if len(rest) else 1.0, 1e-12)
        cells = int(min(max(_CELLS / middle, 1), 2 * len(rest) + 1)) if middle < 0.5 else 1
        long = mine * cells > _LONG
        # A few may stay: what they cost is little beside the others.
        if (mine * cells)[long].sum() < len(rest) or len(levels) + 1 == _LEVELS:
            long[:] = False
        pieces = float((mine[~long] * cells).mean()) if len(rest) else 0.0
        chosen = longest or 1 << max(int(np.ceil(np.log2(max(pieces / _PIECES, 1)))), 0)
        level[rest] = len(levels)
        levels.append(Level(begin, end, cells, chosen))
        rest = rest[long]
        if not len(rest):
            return levels, level


def filed(
    levels: list[Level],
    level: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    ids: np.ndarray,
    is_float: bool,
    logarithmic: bool,
) -> dict[str, np.ndarray]:
    """Return the fields of a layout from `first` on; `ids` is what to propose for each."""
    begin, end = np.array([v.begin for v in levels]), np.array([v.end for v in levels])
    count = np.array([v.cells for v in levels])
    longest = np.array([v.longest for v in levels])
    each = np.array([v.longest.bit_length() if logarithmic else v.longest for v in levels])
    skip = np.zeros((len(levels), max(v.longest for v in levels)), np.int64)
    for row, v in zip(skip, levels):
        row[: v.longest] = too_short(v.longest, logarithmic)
    scale = scale_of(count, begin, end)
    lattice = freeze_fields(
        Lattice,
        floats=[is_float],
        first=keys_of(begin, is_float),
        last=keys_of(end, is_float),
        origin=begin,
        scale=scale,
        cells=np.concatenate([[0], np.cumsum(count)]),
        constructs=np.concatenate([[0], np.cumsum(count * each)]),
        longest=longest,
        each=each,
    )
    n = len(low)
    first, last = np.empty(n, np.int64), np.empty(n, np.int64)
    place(lattice, level, low, high, first, last)
    lists = []
    for chosen, cell, order in (
        (first < last, first, np.argsort(low, kind="stable")),
        (first < last, last, np.argsort(high, kind="stable")),
        (first == last, first, np.argsort(low, kind="stable")),
    ):
        # By cell, and within a cell by key: a stable sort of what is sorted by key.
        picked = order[chosen[order]]
        picked = picked[np.argsort(cell[picked], kind="stable")]
        ends = np.searchsorted(cell[picked], np.arange(lattice.cells[-1] + 1))
        lists.append((ends, picked))
    (start, by_low), (end_at, by_high), (inside, within) = lists
    piece = np.zeros(int(lattice.constructs[-1]) + 1, np.int64)
    cut(lattice, level, first, last, logarithmic, ids, piece, np.empty(0, np.int32))
    piece = np.cumsum(piece) - piece
    piece_id = np.empty(int(piece[-1]), np.int32)
    cut(lattice, level, first, last, logarithmic, ids, piece[:-1].copy(), piece_id)
    return {
        **{name: getattr(lattice, name) for name in Lattice._fields if name != "floats"},
        "skip": skip.reshape(-1),
        "start": start,
        "start_id": ids[by_low],
        "start_key": low[by_low],
        "end": end_at,
        "end_id": ids[by_high],
        "end_key": high[by_high],
        "inside": inside,
        "inside_id": ids[within],
        "inside_low": low[within],
        "inside_high": high[within],
        "piece": piece,
        "piece_id": piece_id,
    }


class Lattice(NamedTuple):
    """The levels while they are filled."""

    floats: UInt8s
    first: Int64s
    last: Int64s
    origin: Float64s
    scale: Float64s
    cells: Int64s
    constructs: Int64s
    longest: Int64s
    each: Int64s


@kernel
def place(
    g: Lattice, level: Int32s, low: Int64s, high: Int64s, first: Int64Out, last: Int64Out
) -> None:
    """Write the cells of intervals' ends."""
    is_float, least, greatest, origin, scale = g.floats[0], g.first, g.last, g.origin, g.scale
    cells = g.cells
    for i in range(level.shape[0]):
        v = level[i]
        count = cells[v + 1] - cells[v]
        first[i] = cells[v] + cell_of(
            low[i], is_float, least[v], greatest[v], origin[v], scale[v], count
        )
        last[i] = cells[v] + cell_of(
            high[i], is_float, least[v], greatest[v], origin[v], scale[v], count
        )


@kernel
def find_places(offsets: Int32s, keys: Int64s, cell: Int64s, key: Int64s, at: Int64Out) -> None:
    """Write where further keys belong in the lists of their cells, which are ascending."""
    for i in range(cell.shape[0]):
        begin, stop = np.int64(offsets[cell[i]]), np.int64(offsets[cell[i] + 1])
        at[i] = begin + at_most(keys, begin, stop, key[i])


@kernel
def cut(
    g: Lattice,
    level: Int32s,
    first: Int64s,
    last: Int64s,
    logarithmic: bool,
    ids: Int32s,
    piece: Int64Out,
    piece_id: Int32Out,
) -> None:
    """Cut what lies between the ends' cells into constructs, as `interval_pieces` does.

    Count each construct's entries in `piece`, or, if `piece_id` has places, write them where
    `piece` says, and move it on.
    """
    cells, constructs, longest, each = g.cells, g.constructs, g.longest, g.each
    fill = piece_id.shape[0] > 0
    for i in range(level.shape[0]):
        v = level[i]
        a, b = first[i] + 1 - cells[v], last[i] - cells[v]
        while a < b:
            length = min(longest[v], b - a)
            kind = length - 1
            if logarithmic:
                kind = np.int64(0)
                while 2 << kind <= length:
                    kind += 1
                length = np.int64(1) << kind
            construct = constructs[v] + a * each[v] + kind
            if fill:
                piece_id[piece[construct]] = ids[i]
            piece[construct] += 1
            a += length
