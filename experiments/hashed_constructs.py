"""Virtual construct rectangles in the hash table of the paper (VCR, 2.2.3).

The number of an activated construct is randomised and divided by the size of the table, a prime:
the remainder is its place. Constructs with the same place are chained, the newest first. The size
is fixed beforehand, so the more constructs are activated the longer chains get. Tocsin's own table
(`tocsin.index.constructs.rectangles.hashing`) grows with them, and has no chains.

An event enumerates its cover with the distances from its pivot (2.3.2) and looks each construct up.
The paper does not say how numbers are randomised, nor where those go whose place is taken. Here two
multiplications randomise them, and chains take them.
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

import numpy as np

from tocsin.index.constructs.rectangles.index import Rectangles
from tocsin.jit import Int32Out, Int32s, Int64Out, Int64s, freeze_fields, kernel, step


class Chains(NamedTuple):
    """m places and a activated constructs, each with a list of ids."""

    head: Int32s  # [m] the first construct of a chain, -1 if there is none
    after: Int32s  # [a] the next one, -1 at the end
    number: Int64s  # [a]
    start: Int32s  # [a + 1] of the list of a construct
    ids: Int32s


class Cover(NamedTuple):
    """The d constructs that cover a lattice point."""

    distance: Int64s  # [d] of their numbers from that of the pivot
    back_x: Int64s  # [d] lines back from the point to where they start
    back_y: Int64s  # [d]


class Places(NamedTuple):
    """e events as lattice points, and the numbers of their pivots."""

    x: Int64s  # [e]
    y: Int64s  # [e]
    pivot: Int64s  # [e]


class HashedConstructs:
    """The lists of an index over whole numbers, behind the paper's hash table."""

    def __init__(self, index: Rectangles, points: np.ndarray, places: int):
        """`index` is the published one, hashed, over boxes on its lattice; `points` are whole."""
        g = index.layout
        if not (g.published[0] and len(g.hashed) and g.proven[0]):
            raise ValueError(
                "the index must be built with lattice='published' and hashed=True, over boxes with "
                "whole bounds"
            )
        self.size, self.events = index.conjunctions.size, points.shape[1]
        used = np.flatnonzero(g.hashed >= 0)
        number = np.empty(len(used), np.int64)
        number[g.list_of[used]] = g.hashed[used]
        head, after = np.full(places, -1, np.int32), np.empty(len(used), np.int32)
        chain(number, head, after)
        self.chains = freeze_fields(
            Chains, head=head, after=after, number=number, start=g.start, ids=g.ids
        )
        own = slice(g.cover[3], g.cover[4])  # a lattice point is on a line of both axes
        sizes = g.run_size[own]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        self.cover = freeze_fields(
            Cover,
            distance=np.repeat(g.run_first[own], sizes) + within,
            back_x=np.repeat(g.run_x[own], sizes),
            back_y=np.repeat(g.run_y[own], sizes),
        )
        lines = points.astype(np.int64) - g.origin.astype(np.int64)[:, None] + 1
        # No box reaches beyond the domain: an event there has nothing around it.
        outside = ((lines < 1) | (lines >= g.cells[:, None])).any(axis=0)
        x, y = np.where(outside, -1, lines)
        longest_x, longest_y = g.longest.tolist()
        kinds = longest_x.bit_length() * longest_y.bit_length()
        pivot = kinds * (x - longest_x + (y - longest_y) * int(g.cells[0]))
        self.points = freeze_fields(Places, x=x, y=y, pivot=pivot)

    @property
    def nbytes(self) -> int:
        """Bytes of the hash table, with its constructs, and of the lists of ids."""
        return sum(array.nbytes for array in self.chains)

    @property
    def activated(self) -> int:
        """The number of activated constructs."""
        return len(self.chains.number)

    @property
    def load(self) -> float:
        """The load factor: activated constructs to a place."""
        return self.activated / len(self.chains.head)

    @property
    def collisions(self) -> int:
        """The number of constructs whose place was taken when they came."""
        return self.activated - int((self.chains.head >= 0).sum())

    def count_probes(self, events: int) -> float:
        """Return how many constructs a search compares, as the mean of the first events."""
        return follow_chains(self.chains, self.cover, self.points, events) / events

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        return collect(self.chains, self.cover, self.points, self.size, first, stop, offsets, out)


def next_prime(n: int) -> int:
    """Return the least prime that is at least n, and 2 at least."""
    n = max(n, 2)
    while any(n % divisor == 0 for divisor in range(2, isqrt(n) + 1)):
        n += 1
    return n


@step
def find_chain(number, places):
    """Return the place of a construct: its number, randomised, modulo the size of the table."""
    mixed = np.uint64(number) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((mixed ^ (mixed >> np.uint64(31))) % np.uint64(places))


@kernel
def chain(number: Int64s, head: Int32Out, after: Int32Out) -> None:
    """Put constructs into the table, each at the head of its chain."""
    for i in range(number.shape[0]):
        place = find_chain(number[i], head.shape[0])
        after[i] = head[place]
        head[place] = i


@kernel
def collect(
    g: Chains,
    c: Cover,
    p: Places,
    size: int,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write the ids of all activated constructs around each event, each once."""
    head, after, numbers, start, ids = g.head, g.after, g.number, g.start, g.ids
    distance, back_x, back_y = c.distance, c.back_x, c.back_y
    xs, ys, pivots = p.x, p.y, p.pivot
    room = out.shape[0] - size
    seen = np.full(size, -1, np.int64)
    n = offsets[0]
    event = first
    while event < stop and n <= room:
        x, y, pivot = xs[event], ys[event], pivots[event]
        for d in range(distance.shape[0]):
            if back_x[d] > x or back_y[d] > y:
                continue
            number = pivot + distance[d]
            at = np.int64(head[find_chain(number, head.shape[0])])
            while at >= 0 and numbers[at] != number:
                at = np.int64(after[at])
            if at < 0:
                continue
            for j in range(start[at], start[at + 1]):
                if seen[ids[j]] != event:
                    seen[ids[j]] = event
                    out[n] = ids[j]
                    n += 1
        event += 1
        offsets[event - first] = n
    return event


@kernel
def follow_chains(g: Chains, c: Cover, p: Places, events: int) -> int:
    """Return how many constructs the searches of the first events compare."""
    head, after, numbers = g.head, g.after, g.number
    probes = 0
    for event in range(events):
        for d in range(c.distance.shape[0]):
            if c.back_x[d] > p.x[event] or c.back_y[d] > p.y[event]:
                continue
            number = p.pivot[event] + c.distance[d]
            at = np.int64(head[find_chain(number, head.shape[0])])
            while at >= 0:
                probes += 1
                if numbers[at] == number:
                    break
                at = np.int64(after[at])
    return probes
