"""What the kernels of a join fill: pairs, up to a capacity, and where to continue.

A kernel returns True when it has found all pairs. If there may be no room for the next ones, it
writes where it is into the state and returns False, and is called again with new arrays. So one
kernel serves a join, which lets its arrays grow, a stream of blocks, which empties them, and a
count, which has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from tocsin.jit import Int64Out

# Elements of every state; those after them belong to the method.
WRITTEN = 0  # pairs
COUNTING = 1  # whether pairs are counted and not written
OWN = 2

LEAST_ROOM = 1024  # pairs that arrays have room for, at least
_FIRST_ROOM = 1 << 22  # pairs, chosen: memory that is not written to costs nothing


class Output(NamedTuple):
    """Arrays that a kernel writes to."""

    left: Int64Out
    right: Int64Out
    state: Int64Out


class Search(Protocol):
    """A join that is prepared; each runs once."""

    state: np.ndarray

    def fill(self, out: Output) -> bool:
        """Write pairs; return whether these were the last ones."""
        ...


def count_pairs(search: Search) -> int:
    """Return the number of pairs."""
    nothing: np.ndarray = np.empty(0, np.int64)
    search.state[COUNTING] = 1
    search.fill(Output(nothing, nothing, search.state))
    return int(search.state[WRITTEN])


def collect_pairs(search: Search) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs as two arrays."""
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    room, is_done = _FIRST_ROOM, False
    while not is_done:
        left, right = np.empty(room, np.int64), np.empty(room, np.int64)
        search.state[WRITTEN] = 0
        is_done = search.fill(Output(left, right, search.state))
        for array in (left, right):  # gives back the rest, in place
            array.resize(int(search.state[WRITTEN]), refcheck=False)
        parts.append((left, right))
        room *= 2
    if len(parts) == 1:
        return parts[0]
    left, right = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return left, right


def stream_pairs(search: Search, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs in blocks of at most `size`; their memory is reused."""
    left, right = np.empty(size, np.int64), np.empty(size, np.int64)
    is_done = False
    while not is_done:
        search.state[WRITTEN] = 0
        is_done = search.fill(Output(left, right, search.state))
        written = int(search.state[WRITTEN])
        if written:
            yield left[:written], right[:written]
