"""Virtual construct rectangles: boxes over two attributes, cut into prepared pieces.

Wu, Chen, Yu: VCR indexing for fast event matching for highly-overlapping range predicates, and
section 3 of their paper on stream processing, for points between lattice points.

A lattice of Rx x Ry cells lies over the domain. From each cell *constructs* start, prepared
rectangles whose sides are powers of two up to L. Each has a number (eq. 1, a horizontal scan)
and a list of ids. A rule's box is cut into constructs, and its id is put into their lists; an
event takes the lists of all constructs that cover its cell. Which these are is the same
everywhere, relative to the number of the cell's own smallest construct: a table of differences,
made once (2.3.2).

For boxes that overlap much, on a lattice that fits them: prices in cents, hours, pixels. There a
list per cell is the honest rival, and this takes a tenth of its memory.

Unlike the paper:

* A cell is half open, so an event lies in exactly one: the stream paper's case of a point between
  lattice lines, with (2L - 1)**2 constructs around it, is the only one (`cover_size` gives the
  others). On whole numbers a cell is one number, and a box covers its end cells entirely.
* Where ends lie within cells, the cells strictly inside are cut as above; the ring around them is
  cut apart, and its pieces leave the candidate to accept.
* Outside the lattice there is a rim of one more cell on each side, for events and ends out there.
* Lists lie one after the other by number, and of the constructs that start in one cell with one
  height those wide enough have consecutive numbers: so they are one run of ids, and L (2L - 1)
  runs an event make up the cover, or fewer.
* The table of all constructs is an array of offsets (*direct*), or, where that would be much
  larger than the lists, a hash table of the activated ones (2.2.3).
* A budget is kept, 26 entries a box: where no L up to 16 does it, the lattice gets coarser.

In memory: 4 bytes an entry, and 4 bytes a construct that could be, or 16 for each that is. An
event costs about 5 nanoseconds a run and 0.1 for each match.

When it is slow: boxes whose ends lie anywhere, which all pass through the ring; use `grid`.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np

from tocsin.index import unit_costs
from tocsin.index.array_index import ArrayIndex
from tocsin.index.constructs.decomposition import check_length, runs
from tocsin.index.constructs.intervals import cell_of
from tocsin.index.costs import Cost, Sample
from tocsin.index.plane import (
    EXACT_INTEGERS,
    Boxes,
    boxes_over,
    chosen_axes,
    keys_of,
    scale_of,
    sides,
)
from tocsin.index.posting_lists import check_entries, left_out, less_left_out, places_of, put_in
from tocsin.index.protocol import Summary
from tocsin.jit import (
    Float64s,
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8s,
    freeze_fields,
    kernel,
    prefetch,
    step,
)
from tocsin.model.conjunctions import Conjunctions, joined
from tocsin.model.keys import EventBatch, key_column
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_offsets,
    check_within,
    require,
)

_ENTRIES = 26  # in lists, a box, if L can be chosen so
_LEAST_ENTRIES = 1 << 20
_MOST_CELLS = 1 << 22
_MOST_ACROSS = int(_MOST_CELLS**0.5)  # of one axis, besides its rim
_LENGTHS = (1, 2, 4, 8, 16)
_AHEAD = 32


class Layout(NamedTuple):
    """A lattice of x by y cells, p possible or activated constructs."""

    attribute: Int32s  # [2] -1: none
    floats: UInt8s  # [2]
    settled: UInt8s  # [1] whether all candidates are proven
    overlapped: UInt8s  # [1] whether pieces of a box overlap
    first: Int64s  # [2] the lowest key of the domain
    last: Int64s  # [2]
    origin: Float64s  # [2] cell = 1 + (value - origin) * scale
    scale: Float64s  # [2]
    cells: Int64s  # [2] with the rim
    whole: UInt8s  # [2] whether a cell is one whole number
    longest: Int64s  # [1] L
    run_x: Int64s  # [r] the runs that make up a cover: so many cells back
    run_y: Int64s
    run_first: Int64s  # their first number, less that of the event's cell
    run_size: Int64s
    hashed: Int64s  # [h] numbers of activated constructs, -1 where free; [0] if direct
    list_of: Int32s  # [h] which list is theirs
    start: Int32s  # [p + 1] where lists begin, by number or by `list_of`
    ids: Int32s  # c of a conjunction, ~c where it is not proven


class Rectangles(ArrayIndex):
    """Boxes over two attributes in the lists of virtual constructs."""

    name: ClassVar[str] = "rectangles"
    version: ClassVar[int] = 1

    layout_class = Layout
    counts = True
    changes_in_place = True
    priced = True
    summary = Summary(
        holds="boxes over two attributes, cut into constructs: prepared pieces of a lattice",
        cost=f"{unit_costs.FIND:g} ns, {unit_costs.RUN:g} ns a run of constructs, and "
        f"{unit_costs.COPY:g} ns a match",
        suits="boxes that overlap heavily, with whole bounds such as cents, hours or pixels",
        slow_when="bounds lie anywhere: use `grid`",
    )

    def proves_all(self) -> bool:
        """Tell whether boxes cover whole cells, and none is found twice."""
        return bool(self.layout.settled.all()) and not self.layout.overlapped.any()

    @classmethod
    def build(
        cls,
        conjunctions: Conjunctions,
        floats: np.ndarray,
        longest: int | None = None,
        overlapped: bool = False,
        hashed: bool | None = None,
    ) -> Self:
        """File boxes; `longest` is L, `overlapped` and `hashed` as in the paper."""
        check_length(longest)
        axes, is_float = chosen_axes(conjunctions, floats)
        boxes = boxes_over(conjunctions, axes, is_float)
        lattice, spans, length = _fitted(boxes, longest)
        return cls(conjunctions, _filed(lattice, boxes, spans, axes, length, overlapped, hashed))

    @classmethod
    def cost(cls, sample: Sample) -> Cost | None:
        """Estimate what an event would cost; None unless a lattice of whole numbers fits."""
        cover = runs_if_whole(sample.boxes)
        if cover is None:
            return None
        nanoseconds = unit_costs.FIND + unit_costs.RUN * cover + unit_costs.COPY * sample.met
        met = sample.in_words(sample.met)
        return Cost(nanoseconds, f"an event meets {met}, whose bounds are whole numbers")

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose the lists of the constructs around an event; see `Index.candidates`."""
        x, y = (key_column(batch.keys, int(a)) for a in self.layout.attribute)
        size, (_, _, first, stop) = self.conjunctions.size, batch
        return propose(self.layout, x, y, size, first, stop, offsets, out)

    def count(self, batch: EventBatch, counts: np.ndarray) -> None:
        """Add the number of matches to `counts`; see `Index.count`."""
        x, y = (key_column(batch.keys, int(a)) for a in self.layout.attribute)
        tally(self.layout, x, y, batch.first, counts)

    def validate(self, attributes: int) -> None:
        """Raise unless constructs have lists, and no cell is in more boxes than there are.

        How keys become cells does not matter: cells are clamped to the lattice.
        """
        g, n = self.layout, self.conjunctions.size
        check_lengths(
            g, 2, "attribute", "floats", "first", "last", "origin", "scale", "cells", "whole"
        )  # fmt: skip
        check_lengths(g, 1, "settled", "overlapped", "longest")
        check_within("attribute", g.attribute, -1, attributes)
        check_within("cells", g.cells, 3, _MOST_ACROSS + 3)
        across, down = g.cells.tolist()
        longest = int(g.longest[0])
        check_lengths(g, len(g.run_x), "run_y", "run_first", "run_size")
        require(
            # A cover has a run for each of L * L cells at least: else L is not worth a look.
            1 <= longest * longest <= len(g.run_x)
            and longest & (longest - 1) == 0
            and np.array_equal([g.run_x, g.run_y, g.run_first, g.run_size], runs(longest, across)),
            f"the runs of a cover must be those of constructs up to {longest:,} cells long",
        )
        kinds = longest.bit_length()
        possible = kinds * kinds * across * down
        lists = len(g.start) - 1
        check_offsets("start", g.start, lists, len(g.ids))
        check_numbers("ids", g.ids, n, proven=bool(g.settled[0]))
        check_lengths(g, len(g.hashed), "list_of")
        if len(g.hashed):
            used = g.hashed >= 0
            require(
                len(g.hashed) & (len(g.hashed) - 1) == 0 and not used.all(),
                "the hash table must have a power of two for its size, and a place that is free",
            )
            check_within("hashed", g.hashed, np.iinfo(np.int64).min, possible)
            check_within("list_of", g.list_of[used], 0, lists)
        else:
            check_lengths(g, possible + 1, "start")
        if not g.overlapped[0]:  # else what is found twice is written once
            most = most_candidates(g)
            require(
                most <= n, f"an event finds {most:,} candidates, and there are {n:,} conjunctions"
            )

    def insert(self, more: Conjunctions) -> None:
        """Cut further conjunctions into constructs of the lattice there is, numbered on.

        All lists are moved once, so a batch costs what copying the index costs. Boxes beyond the
        lattice lie in its rim; after many of those, build again.
        """
        g, before = self.layout, self.conjunctions.size
        boxes = boxes_over(more, g.attribute, g.floats)
        lattice = Lattice(g.first, g.last, g.origin, g.scale, g.cells, g.whole)
        spans = np.empty(8 * boxes.size, np.int64)
        place(lattice, boxes, spans)
        numbers, ids = _cut(boxes, spans, int(g.longest[0]), bool(g.overlapped[0]), int(g.cells[0]))
        check_entries(len(g.ids) + len(ids))
        ids = np.where(ids < 0, ids - before, ids + before).astype(np.int32)
        if len(g.hashed):
            # Old lists back to the numbers of their constructs; then all anew.
            known = np.empty(len(g.start) - 1, np.int64)
            used = g.hashed >= 0
            known[g.list_of[used]] = g.hashed[used]
            numbers = np.concatenate([np.repeat(known, np.diff(g.start)), numbers])
            ids = np.concatenate([g.ids, ids])
            table, list_of, numbers, lists = _hash_of(numbers)
            start, listed = _listed(numbers, ids, lists)
        else:
            order = np.argsort(numbers, kind="stable")
            counts = np.bincount(numbers, minlength=len(g.start) - 1)
            listed = put_in(g.ids, g.start[1:][numbers[order]], ids[order])
            start = g.start + np.concatenate([[0], np.cumsum(counts)])
            table, list_of = g.hashed, g.list_of
        made = {"hashed": table, "list_of": list_of, "start": start, "ids": listed}
        made["settled"] = np.array([listed.min(initial=0) >= 0])
        self.become(joined([self.conjunctions, more]), made)

    def remove(self, numbers: np.ndarray) -> None:
        """Take conjunctions out of all lists; their numbers stay theirs."""
        g = self.layout
        places = places_of(g.ids, self.conjunctions.size, numbers)
        ids = left_out(g.ids, places)
        settled = np.array([ids.min(initial=0) >= 0])
        start = less_left_out(g.start, places)
        self.become(self.conjunctions, {"start": start, "ids": ids, "settled": settled})


# ------------------------------------------------------------ what is stored


@kernel
def most_candidates(g: Layout) -> int:
    """Return how many candidates an event can find at most, in lists that are in range.

    Each construct adds its list to the cells from its first corner on, and takes it away beyond its
    sides; the sums of that, along both axes, are what each cell finds. A box is cut into pieces
    that do not overlap: so of what was built there are never more than conjunctions.
    """
    across, down, longest = g.cells[0], g.cells[1], g.longest[0]
    hashed, list_of, start = g.hashed, g.list_of, g.start
    direct = hashed.shape[0] == 0
    kinds = np.int64(0)
    while longest >> kinds > 0:
        kinds += 1
    found = np.zeros((down + 1, across + 1), np.int64)
    for place in range(start.shape[0] - 1 if direct else hashed.shape[0]):
        number = np.int64(place) if direct else hashed[place]
        if number < 0:
            continue
        at = np.int64(place) if direct else np.int64(list_of[place])
        size = np.int64(start[at + 1]) - start[at]
        if size > 0:
            cell, kind = number // (kinds * kinds), number % (kinds * kinds)
            x, y = cell % across, cell // across
            right = min(x + (np.int64(1) << kind % kinds), across)
            top = min(y + (np.int64(1) << kind // kinds), down)
            found[y, x] += size
            found[y, right] -= size
            found[top, x] -= size
            found[top, right] += size
    most = np.int64(0)
    for y in range(down):
        along = np.int64(0)
        for x in range(across):
            along += found[y, x]
            found[y, x] = along + (found[y - 1, x] if y > 0 else 0)
            most = max(most, found[y, x])
    return int(most)


# ------------------------------------------------------------ ask


@step
def cell_in(key, is_float, first, last, origin, scale, cells):
    """Return the cell of a key: 0 below the domain, the last one above it, in between as usual."""
    if key < first:
        return np.int64(0)
    if key > last:
        return cells - 1
    return 1 + cell_of(key, is_float, first, last, origin, scale, cells - 2)


@step
def mixed(number):
    """Return a number stirred, for hashing."""
    stirred = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    return stirred ^ (stirred >> np.uint64(32))


@step
def looked_up(hashed, list_of, number):
    """Return which list an activated construct has, or -1."""
    mask = np.uint64(hashed.shape[0] - 1)
    at = mixed(number) & mask
    while hashed[at] != number:
        if hashed[at] < 0:
            return np.int64(-1)
        at = (at + np.uint64(1)) & mask
    return np.int64(list_of[at])


@kernel
def propose(
    g: Layout,
    keys_x: Int64s,
    keys_y: Int64s,
    size: int,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write candidates event by event while there is room for all `size` conjunctions."""
    # Fields into variables first: see the remark in `cells`.
    float_x, float_y, overlapped = g.floats[0], g.floats[1], g.overlapped[0] != 0
    first_x, first_y, last_x, last_y = g.first[0], g.first[1], g.last[0], g.last[1]
    origin_x, origin_y, scale_x, scale_y = g.origin[0], g.origin[1], g.scale[0], g.scale[1]
    across, down, longest = g.cells[0], g.cells[1], g.longest[0]
    run_x, run_y, run_first, run_size = g.run_x, g.run_y, g.run_first, g.run_size
    hashed, list_of, start, ids = g.hashed, g.list_of, g.start, g.ids
    direct = hashed.shape[0] == 0
    kinds = np.int64(0)
    while longest >> kinds > 0:
        kinds += 1
    # A box may be found by several pieces if they overlap, but is to be written once. Before its
    # doubles are dropped an event may have as many candidates as there are pieces in its cover.
    seen = np.full(size if overlapped else 0, -1, np.int64)
    xs, ys = np.empty(_AHEAD, np.int64), np.empty(_AHEAD, np.int64)
    n = np.uint64(offsets[0])
    room = out.shape[0] - size
    event = first
    while event < stop and np.int64(n) <= room:
        several = min(_AHEAD, stop - event)
        for i in range(several):
            xs[i] = cell_in(keys_x[event + i], float_x, first_x, last_x, origin_x, scale_x, across)
            ys[i] = cell_in(keys_y[event + i], float_y, first_y, last_y, origin_y, scale_y, down)
            if direct:
                prefetch(start, kinds * kinds * (xs[i] + ys[i] * across))
        for i in range(several):
            if np.int64(n) > room:
                break
            x, y = xs[i], ys[i]
            pivot = kinds * kinds * (x + y * across)
            rim = x + 1 < longest or y + 1 < longest
            for r in range(run_first.shape[0]):
                if rim and (run_x[r] > x or run_y[r] > y):
                    continue
                number = pivot + run_first[r]
                if direct:
                    begin = np.uint64(start[number])
                    length = np.uint64(start[number + run_size[r]]) - begin
                    if not overlapped:
                        for j in range(length):
                            out[n + j] = ids[begin + j]
                        n += length
                        continue
                    for j in range(length):
                        found = ids[begin + j]
                        c = max(found, ~found)
                        if seen[c] != event:
                            seen[c] = event
                            out[n] = found
                            n += np.uint64(1)
                    continue
                for each in range(number, number + run_size[r]):
                    at = looked_up(hashed, list_of, each)
                    if at < 0:
                        continue
                    for j in range(start[at], start[at + 1]):
                        found = ids[j]
                        if overlapped:
                            c = max(found, ~found)
                            if seen[c] == event:
                                continue
                            seen[c] = event
                        out[n] = found
                        n += np.uint64(1)
            event += 1
            offsets[event - first] = n
    return event


@kernel
def tally(g: Layout, keys_x: Int64s, keys_y: Int64s, first: int, counts: Int64Out) -> None:
    """Add to each event's count the boxes around it; asked only if all is proven."""
    float_x, float_y = g.floats[0], g.floats[1]
    first_x, first_y, last_x, last_y = g.first[0], g.first[1], g.last[0], g.last[1]
    origin_x, origin_y, scale_x, scale_y = g.origin[0], g.origin[1], g.scale[0], g.scale[1]
    across, down, longest = g.cells[0], g.cells[1], g.longest[0]
    run_x, run_y, run_first, run_size = g.run_x, g.run_y, g.run_first, g.run_size
    hashed, list_of, start = g.hashed, g.list_of, g.start
    kinds = np.int64(0)
    while longest >> kinds > 0:
        kinds += 1
    for i in range(counts.shape[0]):
        x = cell_in(keys_x[first + i], float_x, first_x, last_x, origin_x, scale_x, across)
        y = cell_in(keys_y[first + i], float_y, first_y, last_y, origin_y, scale_y, down)
        pivot = kinds * kinds * (x + y * across)
        total = np.int64(0)
        for r in range(run_first.shape[0]):
            if run_x[r] > x or run_y[r] > y:
                continue
            number = pivot + run_first[r]
            if hashed.shape[0] == 0:
                total += np.int64(start[number + run_size[r]]) - start[number]
                continue
            for each in range(number, number + run_size[r]):
                at = looked_up(hashed, list_of, each)
                if at >= 0:
                    total += np.int64(start[at + 1]) - start[at]
        counts[i] += total


# ------------------------------------------------------------ build


class Lattice(NamedTuple):
    """How two axes are cut."""

    first: Int64s  # [2]
    last: Int64s  # [2]
    origin: Float64s  # [2]
    scale: Float64s  # [2]
    cells: Int64s  # [2] with the rim
    whole: UInt8s  # [2] whether a cell is one whole number


def runs_if_whole(boxes: Boxes) -> int | None:
    """Return how many runs a cover would have on a lattice of whole numbers; None if none fits."""
    lattice = _lattice(boxes, _MOST_ACROSS)
    if boxes.floats.any() or not lattice.whole.all() or not boxes.settled.all():
        return None
    spans = np.empty(8 * boxes.size, np.int64)
    place(lattice, boxes, spans)
    length = _best_length(spans, boxes.size, lattice)
    if length is None or (spans.reshape(-1, 2, 4)[:, :, 0] == 0).any():
        return None  # open ends are in the rim, where nothing is proven
    return runs(length, 1).shape[1]


def _fitted(boxes: Boxes, longest: int | None) -> tuple[Lattice, np.ndarray, int]:
    """Return a lattice, coarser until the lists fit, the boxes' cells on it, and L."""
    most = _MOST_ACROSS
    spans = np.empty(8 * boxes.size, np.int64)
    while True:
        lattice = _lattice(boxes, most)
        place(lattice, boxes, spans)
        length = longest or _best_length(spans, boxes.size, lattice)
        if length is not None:
            return lattice, spans, length
        if most == 1:
            return lattice, spans, 1
        most = max(min(most, int(lattice.cells.max()) - 2) // 2, 1)


def _lattice(boxes: Boxes, most: int) -> Lattice:
    """Return a lattice: of whole numbers if they are at most `most`, else a few cells to a box."""
    spans = [sides(boxes, axis) for axis in (0, 1)]
    begin = np.array([s[0] for s in spans])
    end = np.array([s[1] for s in spans])
    whole = np.zeros(2, np.uint8)
    cells, scale = np.ones(2, np.int64), np.zeros(2)
    for axis in (0, 1):
        extent = end[axis] - begin[axis]
        exact = max(abs(begin[axis]), abs(end[axis])) < EXACT_INTEGERS
        if not boxes.floats[axis] and extent < most and exact:
            whole[axis], cells[axis], scale[axis] = 1, int(extent) + 1, 1.0
            continue
        middle = float(np.median(spans[axis][2])) if boxes.size else 1.0
        wanted = min(8 / max(middle, 1e-6), 2 * boxes.size**0.5 + 1, most) if middle < 0.5 else 1
        cells[axis] = max(int(wanted), 1)
        scale[axis] = scale_of(cells[axis], begin[axis], end[axis])
    keys = [[keys_of(e[i : i + 1], bool(boxes.floats[i]))[0] for i in (0, 1)] for e in (begin, end)]
    return freeze_fields(
        Lattice,
        first=keys[0],
        last=keys[1],
        origin=begin,
        scale=scale,
        cells=cells + 2,
        whole=whole,
    )


@kernel
def place(g: Lattice, b: Boxes, spans: Int64Out) -> None:
    """Write of each box and axis the first and last cell it meets, and of those it covers whole.

    The latter are empty (the last before the first) if there are none.
    """
    low, high, floats, size = b.low, b.high, b.floats, b.settled.shape[0]
    first, last, origin, scale, cells = g.first, g.last, g.origin, g.scale, g.cells
    whole = g.whole
    for i in range(size):
        for axis in range(2):
            at, place = axis * size + i, 8 * i + 4 * axis
            f, s, e, o = floats[axis], scale[axis], cells[axis], origin[axis]
            a = cell_in(low[at], f, first[axis], last[axis], o, s, e)
            z = cell_in(high[at], f, first[axis], last[axis], o, s, e)
            spans[place], spans[place + 1] = a, z
            end_cells = np.int64(0 if whole[axis] != 0 else 1)
            spans[place + 2] = a + (1 if a == 0 else end_cells)
            spans[place + 3] = z - (1 if z == e - 1 else end_cells)


def _best_length(spans: np.ndarray, boxes: int, lattice: Lattice) -> int | None:
    """Return the least L whose lists and offsets fit; a larger one has more runs to look at."""
    cells = int(lattice.cells.prod())
    budget = max(_LEAST_ENTRIES, _ENTRIES * boxes)
    per_axis = spans.reshape(-1, 2, 4)
    side = per_axis[:, :, 1] - per_axis[:, :, 0] + 1
    for longest in _LENGTHS:
        entries = np.ones(len(side))
        for axis in (0, 1):
            remnant = side[:, axis] % longest
            digits = sum((remnant >> bit) & 1 for bit in range(longest.bit_length()))
            entries *= side[:, axis] // longest + digits
        if entries.sum() <= budget and cells * longest.bit_length() ** 2 <= 16 * budget:
            return longest
    return None


def _filed(
    lattice: Lattice,
    boxes: Boxes,
    spans: np.ndarray,
    axes: np.ndarray,
    longest: int,
    overlapped: bool,
    hashed: bool | None,
) -> Layout:
    across = int(lattice.cells[0])
    kinds = longest.bit_length()
    possible = kinds * kinds * int(lattice.cells.prod())
    numbers, ids = _cut(boxes, spans, longest, overlapped, across)
    if hashed is None:
        hashed = 4 * possible > max(16 * len(ids), 64 << 20)
    table, list_of = np.empty(0, np.int64), np.empty(0, np.int32)
    if hashed:
        table, list_of, numbers, possible = _hash_of(numbers)
    start, listed = _listed(numbers, ids, possible)
    run_x, run_y, run_first, run_size = runs(longest, across)
    return freeze_fields(
        Layout,
        attribute=axes,
        floats=boxes.floats,
        settled=[bool((ids >= 0).all())],
        overlapped=[overlapped],
        **lattice._asdict(),
        longest=[longest],
        run_x=run_x,
        run_y=run_y,
        run_first=run_first,
        run_size=run_size,
        hashed=table,
        list_of=list_of,
        start=start,
        ids=listed,
    )


def _cut(
    boxes: Boxes, spans: np.ndarray, longest: int, overlapped: bool, across: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the constructs' numbers, and the ids, that boxes are cut into."""
    entries = np.zeros(1, np.int64)
    numbers, ids = np.empty(0, np.int64), np.empty(0, np.int32)
    cut(spans, boxes.settled, longest, overlapped, across, entries, numbers, ids)
    total = int(entries[0])
    check_entries(total)
    numbers, ids = np.empty(total, np.int64), np.empty(total, np.int32)
    entries[0] = 0
    cut(spans, boxes.settled, longest, overlapped, across, entries, numbers, ids)
    return numbers, ids


def _hash_of(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return a hash table of the constructs that occur, the list of each and of each entry."""
    activated, lists = np.unique(numbers, return_inverse=True)
    table = np.full(1 << max(int(2 * len(activated)).bit_length(), 1), -1, np.int64)
    list_of = np.zeros(len(table), np.int32)
    fill_hash(activated, table, list_of)
    return table, list_of, lists, len(activated)


def _listed(numbers: np.ndarray, ids: np.ndarray, lists: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where each of so many lists starts, and the ids in them."""
    start = np.zeros(lists + 1, np.int64)
    np.cumsum(np.bincount(numbers, minlength=lists), out=start[1:])
    listed = np.empty(len(ids), np.int32)
    distribute(numbers, ids, start[:-1].copy(), listed)
    return start, listed


@step
def next_piece(begin, end, longest, largest, overlapped):
    """Return where the next piece of a side begins, how long it is, and its kind: `side_pieces`."""
    size = largest
    if not overlapped:
        size = longest
        while size > end - begin:
            size >>= 1
    kind = np.int64(0)
    while np.int64(1) << kind < size:
        kind += 1
    return (min(begin, end - size) if overlapped else begin), size, kind


@kernel
def cut(
    spans: Int64s,
    settled: UInt8s,
    longest: int,
    overlapped: bool,
    across: int,
    entries: Int64Out,
    numbers: Int64Out,
    ids: Int32Out,
) -> None:
    """Cut boxes into constructs; count them, or write number and id of each if there are places.

    The cells that a box covers whole are cut as `rectangle_pieces` does; of the ring around them
    the rows below and above, then the columns at the sides, unproven.
    """
    kinds = np.int64(0)
    while longest >> kinds > 0:
        kinds += 1
    n = entries[0]
    fill = numbers.shape[0] > 0
    for i in range(settled.shape[0]):
        x0, x1, in_x0, in_x1, y0, y1, in_y0, in_y1 = spans[8 * i : 8 * i + 8]
        inner = in_x0 <= in_x1 and in_y0 <= in_y1
        for part in range(5):
            proven = False
            if not inner:
                if part > 0:
                    break
                ax, zx, ay, zy = x0, x1, y0, y1
            elif part == 0:
                ax, zx, ay, zy = in_x0, in_x1, in_y0, in_y1
                proven = settled[i] != 0
            elif part == 1:
                ax, zx, ay, zy = x0, x1, y0, in_y0 - 1
            elif part == 2:
                ax, zx, ay, zy = x0, x1, in_y1 + 1, y1
            elif part == 3:
                ax, zx, ay, zy = x0, in_x0 - 1, in_y0, in_y1
            else:
                ax, zx, ay, zy = in_x1 + 1, x1, in_y0, in_y1
            if ax > zx or ay > zy:
                continue
            id_ = np.int32(i if proven else ~i)
            end_x, end_y = zx + 1, zy + 1
            wide, high = longest, longest
            while wide > end_x - ax:
                wide >>= 1
            while high > end_y - ay:
                high >>= 1
            y = ay
            while y < end_y:
                from_y, size_y, j = next_piece(y, end_y, longest, high, overlapped)
                x = ax
                while x < end_x:
                    from_x, size_x, k = next_piece(x, end_x, longest, wide, overlapped)
                    if fill:
                        numbers[n] = kinds * kinds * (from_x + from_y * across) + j * kinds + k
                        ids[n] = id_
                    n += 1
                    x += size_x
                y += size_y
    entries[0] = n


@kernel
def distribute(numbers: Int64s, ids: Int32s, start: Int64Out, listed: Int32Out) -> None:
    """Put ids into their lists; `start` is where each list's next goes."""
    for i in range(numbers.shape[0]):
        listed[start[numbers[i]]] = ids[i]
        start[numbers[i]] += 1


@kernel
def fill_hash(activated: Int64s, table: Int64Out, list_of: Int32Out) -> None:
    """Put the numbers of activated constructs into a hash table, open addressed."""
    mask = np.uint64(table.shape[0] - 1)
    for i in range(activated.shape[0]):
        at = mixed(activated[i]) & mask
        while table[at] >= 0:
            at = (at + np.uint64(1)) & mask
        table[at] = activated[i]
        list_of[at] = i
