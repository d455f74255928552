"""A cycle of the thesis (Fig. 3.1): objects are looked up, and every query gets its answer set.

The index gives the queries of an object, x.S_Q. A cycle ends with the objects of each query, q.S_X.
A set is a dynamic array, as the thesis' lists are: it begins with room for four objects, its room
doubles when it is full, and it keeps its room from one cycle to the next.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from experiments.measuring import Structure, time_rounds
from tocsin.jit import Int32Out, Int32s, Int64Out, Int64s, kernel

_FIRST_ROOM = 4  # objects of a set before it grows; chosen
_BEGIN, _NEXT, _LIMIT = 0, 1, 2  # what a set has: where it begins, where the next goes, its end
_ROOM = 1 << 18  # ids per block of objects, besides those of one object; chosen


class AnswerSets:
    """For each query the objects in it, in memory that is used again in each cycle."""

    def __init__(self, queries: int, matches: int):
        """`matches` are those of a cycle, at most.

        What a set of n objects takes, with the arrays that it outgrew, is less than 4 n beyond its
        first room.
        """
        self.objects = np.zeros(_FIRST_ROOM * queries + 4 * matches, np.int32)
        begin = _FIRST_ROOM * np.arange(queries)
        sets = np.stack([begin, begin, begin + _FIRST_ROOM], axis=1)
        self.sets = sets.reshape(-1).astype(np.int32)
        self.used = np.array([_FIRST_ROOM * queries])

    def clear(self) -> None:
        """Make all sets empty; they keep their room."""
        self.sets[_NEXT::3] = self.sets[_BEGIN::3]

    def add(self, first: int, offsets: np.ndarray, ids: np.ndarray) -> None:
        """Add objects, numbered from `first`, to the sets of the queries that hold for them."""
        add_objects(first, offsets, ids, self.sets, self.objects, self.used)

    def counts(self) -> np.ndarray:
        """Return the number of objects of each query."""
        return self.sets[_NEXT::3] - self.sets[_BEGIN::3]

    def summarise(self) -> np.ndarray:
        """Return for each query the number and the sum of its objects."""
        counts = self.counts().astype(np.int64)
        begin = self.sets[_BEGIN::3].astype(np.int64)
        offsets = np.cumsum(counts) - counts
        at = np.arange(counts.sum()) + np.repeat(begin - offsets, counts)
        sums = np.concatenate([[0], np.cumsum(self.objects[at], dtype=np.int64)])
        return np.stack([counts, sums[offsets + counts] - sums[offsets]])


@kernel
def add_objects(
    first: int, offsets: Int64s, ids: Int32s, sets: Int32Out, objects: Int32Out, used: Int64Out
) -> None:
    """Append objects to sets; those of a set without room move to where there is twice as much."""
    for object_ in range(offsets.shape[0] - 1):
        for i in range(offsets[object_], offsets[object_ + 1]):
            own = 3 * np.int64(ids[i])
            at = np.int64(sets[own + _NEXT])
            if at == sets[own + _LIMIT]:
                begin = np.int64(sets[own + _BEGIN])
                length, moved = at - begin, used[0]
                for j in range(length):
                    objects[moved + j] = objects[begin + j]
                used[0] += 2 * length
                sets[own + _BEGIN], sets[own + _LIMIT] = moved, moved + 2 * length
                at = moved + length
            objects[at] = first + object_
            sets[own + _NEXT] = at + 1


class Cycle:
    """One cycle with all objects of a structure, in reused memory."""

    def __init__(self, structure: Structure, answers: AnswerSets):
        self.structure, self.answers = structure, answers
        self.out = np.zeros(structure.size + _ROOM, np.int32)
        self.offsets = np.zeros(structure.events + 1, np.int64)
        self.adding: list[float] = []  # seconds of each run in which sets were filled

    def run(self) -> None:
        """Look up all objects, and fill the answer sets."""
        first, seconds = 0, 0.0
        start = time.perf_counter()
        self.answers.clear()
        seconds += time.perf_counter() - start
        while first < self.structure.events:
            self.offsets[0] = 0
            stop = self.structure.search(first, self.structure.events, self.offsets, self.out)
            start = time.perf_counter()
            self.answers.add(first, self.offsets[: stop - first + 1], self.out)
            seconds += time.perf_counter() - start
            first = stop
        self.adding.append(seconds)


class CycleTimes(NamedTuple):
    """Seconds of a cycle in each round."""

    whole: np.ndarray  # with the answer sets
    search: np.ndarray  # without


def cycle_times(
    structures: dict[str, Structure], seconds: float, numbered_alike: bool = True
) -> dict[str, CycleTimes]:
    """Return the times of each structure; raise unless all of them find the same.

    The structures take turns, in at least three rounds, and in more until `seconds` per structure
    have passed. If objects are not numbered alike, only the sizes of answer sets are compared.
    """
    any_ = next(iter(structures.values()))
    answers = AnswerSets(any_.size, count_matches(any_))
    cycles = {name: Cycle(structure, answers) for name, structure in structures.items()}
    expected = None
    for name, cycle in cycles.items():
        cycle.run()  # also compiles
        found = answers.summarise() if numbered_alike else answers.counts()
        if expected is None:
            expected = found
        if not np.array_equal(found, expected):
            raise AssertionError(f"{name} finds other objects than {next(iter(cycles))}")
    times = time_rounds([cycle.run for cycle in cycles.values()], seconds * len(cycles))
    result = {}
    for (name, cycle), whole in zip(cycles.items(), times, strict=True):
        result[name] = CycleTimes(whole, whole - np.array(cycle.adding[1:]))
    return result


def count_matches(structure: Structure) -> int:
    """Return how many pairs of an object and a query a structure finds."""
    cycle = Cycle(structure, AnswerSets(0, 0))
    matches = first = 0
    while first < structure.events:
        cycle.offsets[0] = 0
        stop = structure.search(first, structure.events, cycle.offsets, cycle.out)
        matches += int(cycle.offsets[stop - first])
        first = stop
    return matches
