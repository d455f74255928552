"""Virtual construct rectangles in an array of pointers, searched as the paper does (VCR, 2.3.2).

The lists of all constructs around an event are reported as they are: where pieces of a predicate
overlap or share an edge, its id is reported several times (2.2.2). Tocsin's index removes duplicate
ids even with `lattice="published"`, which takes longer than copying them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.constructs.rectangles.index import Rectangles
from tocsin.index.constructs.rectangles.layout import Layout
from tocsin.jit import Int32Out, Int32s, Int64Out, Int64s, freeze_fields, kernel


class Lists(NamedTuple):
    """The lists of ids of all constructs, one after the other."""

    start: Int32s  # [constructs + 1]
    ids: Int32s


class Runs(NamedTuple):
    """The constructs that cover a lattice point, as d runs of consecutive numbers."""

    first: Int64s  # [d] distance of the first number from that of the pivot
    size: Int64s  # [d]
    back_x: Int64s  # [d] lines back from the point to where these constructs start
    back_y: Int64s  # [d]


class Places(NamedTuple):
    """e events as lattice points, and the numbers of their pivots."""

    x: Int64s  # [e]
    y: Int64s  # [e]
    pivot: Int64s  # [e]


class ArrayConstructs:
    """The lists of an index over whole numbers, and events to search them with."""

    repeats = True  # ids may be reported several times

    def __init__(self, index: Rectangles, points: np.ndarray):
        """`index` is the published one, not hashed, over boxes on its lattice."""
        g = index.layout
        if len(g.hashed) or not (g.published[0] and g.proven[0]):
            raise ValueError(
                "the index must be built with lattice='published' and hashed=False, over boxes "
                "with whole bounds"
            )
        self.lists = Lists(g.start, g.ids)
        self.nbytes = sum(array.nbytes for array in self.lists)
        self.runs, self.places = find_runs(g), find_places(g, points)
        self.events = points.shape[1]
        counts = np.zeros(self.events + 1, np.int64)
        report(self.lists, self.runs, self.places, 0, 0, self.events, counts, np.empty(0, np.int32))
        self.size = int(np.diff(counts).max(initial=0))  # the most ids of an event

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        return report(self.lists, self.runs, self.places, self.size, first, stop, offsets, out)


def find_runs(g: Layout) -> Runs:
    """Return the cover of a point that is on a lattice line of both axes."""
    own = slice(g.cover[3], g.cover[4])
    return freeze_fields(
        Runs,
        first=g.run_first[own],
        size=g.run_size[own],
        back_x=g.run_x[own],
        back_y=g.run_y[own],
    )


def find_places(g: Layout, points: np.ndarray) -> Places:
    """Return where events are on the lattice of an index."""
    lines = points.astype(np.int64) - g.origin.astype(np.int64)[:, None] + 1
    # No box reaches beyond the domain: an event there has nothing around it.
    outside = ((lines < 1) | (lines >= g.cells[:, None])).any(axis=0)
    x, y = np.where(outside, -1, lines)
    longest_x, longest_y = g.longest.tolist()
    kinds = longest_x.bit_length() * longest_y.bit_length()
    pivot = kinds * (x - longest_x + (y - longest_y) * int(g.cells[0]))
    return freeze_fields(Places, x=x, y=y, pivot=pivot)


@kernel
def report(
    g: Lists,
    c: Runs,
    p: Places,
    most: int,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write the ids in the lists of all constructs around each event, at most `most` each.

    If `out` is empty, they are only counted.
    """
    start, ids, xs, ys, pivots = g.start, g.ids, p.x, p.y, p.pivot
    run_first, run_size, back_x, back_y = c.first, c.size, c.back_x, c.back_y
    only_counts = out.shape[0] == 0
    room = 2**62 if only_counts else out.shape[0] - most
    n = np.uint64(offsets[0])
    event = first
    while event < stop and np.int64(n) <= room:
        x, y, pivot = xs[event], ys[event], pivots[event]
        for r in range(run_first.shape[0]):
            if back_x[r] > x or back_y[r] > y:
                continue
            number = pivot + run_first[r]
            begin = np.uint64(start[number])
            length = np.uint64(start[number + run_size[r]]) - begin
            if not only_counts:
                for j in range(length):
                    out[n + j] = ids[begin + j]
            n += length
        event += 1
        offsets[event - first] = n
    return event
