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

from experiments.array_constructs import Places, find_places, find_runs
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


class HashedConstructs:
    """The lists of an index over whole numbers, behind the paper's hash table."""

    repeats = True  # ids may be reported several times

    def __init__(self, index: Rectangles, points: np.ndarray, places: int):
        """`index` is the published one, hashed, over boxes on its lattice; `points` are whole."""
        g = index.layout
        if not (g.published[0] and len(g.hashed) and g.proven[0]):
            raise ValueError(
                "the index must be built with lattice='published' and hashed=True, over boxes with "
                "whole bounds"
            )
        self.events = points.shape[1]
        used = np.flatnonzero(g.hashed >= 0)
        number = np.empty(len(used), np.int64)
        number[g.list_of[used]] = g.hashed[used]
        head, after = np.full(places, -1, np.int32), np.empty(len(used), np.int32)
        chain(number, head, after)
        self.chains = freeze_fields(
            Chains, head=head, after=after, number=number, start=g.start, ids=g.ids
        )
        runs = find_runs(g)
        within = np.arange(runs.size.sum()) - np.repeat(np.cumsum(runs.size) - runs.size, runs.size)
        self.cover = freeze_fields(
            Cover,
            distance=np.repeat(runs.first, runs.size) + within,
            back_x=np.repeat(runs.back_x, runs.size),
            back_y=np.repeat(runs.back_y, runs.size),
        )
        self.points = find_places(g, points)
        counts = np.zeros(self.events + 1, np.int64)
        collect(
            self.chains, self.cover, self.points, 0, 0, self.events, counts, np.empty(0, np.int32)
        )
        self.size = int(np.diff(counts).max(initial=0))  # the most ids of an event

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
    most: int,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write the ids of all activated constructs around each event, at most `most` each.

    If `out` is empty, they are only counted.
    """
    head, after, numbers, start, ids = g.head, g.after, g.number, g.start, g.ids
    distance, back_x, back_y = c.distance, c.back_x, c.back_y
    xs, ys, pivots = p.x, p.y, p.pivot
    only_counts = out.shape[0] == 0
    room = 2**62 if only_counts else out.shape[0] - most
    n = np.uint64(offsets[0])
    event = first
    while event < stop and np.int64(n) <= room:
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
            begin = np.uint64(start[at])
            length = np.uint64(start[at + 1]) - begin
            if not only_counts:
                for j in range(length):
                    out[n + j] = ids[begin + j]
            n += length
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
