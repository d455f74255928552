"""Time indexes without the layers around them, as the papers do.

A *structure* is searched block by block into reused memory: Tocsin's indexes and those of
`experiments.rivals`. Libraries return new arrays, and the figures say so. Everything is built in
advance and runs on one core. Structures take turns in several rounds, and times are those of all
rounds: ratios are computed round by round, so that a disturbance hits both sides. Results are
compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tocsin.jit import freeze_fields
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import NULL
from tocsin.model.keys import EventBatch, dense_keys

_ROOM = 1 << 18  # ids per block, besides those of one event; chosen
_ROUNDS = 7  # at most
LEAST_ROUNDS = 3  # chosen: the fewest that have a median and a spread


class Structure(Protocol):
    """Rules, and the events to search them with."""

    size: int  # number of rules, or the most ids of an event
    events: int  # number of events
    nbytes: int

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        """Write the rules that hold for events, like `tocsin.index.protocol.Index.candidates`."""
        ...


class PointSearch:
    """One of Tocsin's indexes, and the events to search it with."""

    def __init__(self, index: Any, points: np.ndarray, is_float: bool):
        self.index = index
        self.size, self.events = index.conjunctions.size, points.shape[1]
        self.width = points.shape[0]
        self.keys = dense_keys(keys(points, is_float), np.arange(self.width))
        self.nbytes = index.nbytes

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        return self.index.candidates(EventBatch(self.keys, self.width, first, stop), offsets, out)


def keys(values: np.ndarray, is_float: bool) -> np.ndarray:
    """Return values as keys of an index."""
    if not is_float:
        return np.asarray(values, np.int64)
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    return np.where(bits >= 0, bits, NULL - bits)


def boxes(low: np.ndarray, high: np.ndarray, is_float: bool) -> tuple[Conjunctions, np.ndarray]:
    """Return boxes [low, high], [attributes, n] each, as the arguments of `Index.build`."""
    width, n = low.shape
    conjunctions = freeze_fields(
        Conjunctions,
        offsets=np.arange(n + 1) * width,
        attribute=np.tile(np.arange(width), n),
        kind=np.zeros(width * n),
        low=keys(low, is_float).T.reshape(-1),
        high=keys(high, is_float).T.reshape(-1),
        points=[],
        weight=[],
        rule=np.arange(n),
    )
    return conjunctions, np.full(width, is_float, np.uint8)


def summarize_matches(structure: Structure, events: int) -> np.ndarray:
    """Return for each of the first events the number and the sum of the rules that hold."""
    out, offsets = _allocate_buffers(structure)
    blocks, first = [], 0
    while first < events:
        offsets[0] = 0
        stop = structure.search(first, events, offsets, out)
        ends = offsets[: stop - first + 1]
        if ends[-1] and out[: ends[-1]].min() < 0:
            raise AssertionError("a candidate is not proven")
        if getattr(structure, "repeats", False):
            remove_repeated(out, ends)
        sums = np.concatenate([[0], np.cumsum(out[: ends[-1]], dtype=np.int64)])[ends]
        blocks.append(np.stack([np.diff(ends), np.diff(sums)]))
        first = stop
    return np.concatenate(blocks, axis=1)


def remove_repeated(out: np.ndarray, ends: np.ndarray) -> None:
    """Leave each id of an event once, in the order of ids."""
    pairs = np.repeat(np.arange(len(ends) - 1), np.diff(ends)) << 32 | out[: ends[-1]]
    pairs = np.unique(pairs)
    out[: len(pairs)] = pairs & 0x7FFFFFFF
    ends[:] = np.searchsorted(pairs, np.arange(len(ends)) << 32)


def check_equal(structures: dict[str, Structure], events: int) -> float:
    """Raise unless all structures find the same rules; return the mean number per event."""
    expected = None
    for name, structure in structures.items():
        summary = summarize_matches(structure, min(events, structure.events))
        if expected is None:
            expected = summary
        if not np.array_equal(summary, expected[:, : summary.shape[1]]):
            raise AssertionError(f"{name} finds other rules than {next(iter(structures))}")
    assert expected is not None
    return float(expected[0].mean())


def search_times(
    structures: dict[str, Structure],
    seconds: float,
    fewer: dict[str, int] | None = None,
    least: int = LEAST_ROUNDS,
) -> dict[str, np.ndarray]:
    """Return the seconds per event of each structure, in each round.

    There are at least `least` rounds, and more until `seconds` per structure have passed. `fewer`
    has the number of events for structures that are slow.
    """
    calls, counts = [], []
    for name, structure in structures.items():
        count = min((fewer or {}).get(name, structure.events), structure.events)
        counts.append(count)
        calls.append(_make_pass(structure, count))
    times = time_rounds(calls, seconds * len(calls), least=least)
    return {name: t / n for name, t, n in zip(structures, times, counts, strict=True)}


def time_rounds(
    calls: list[Callable[[], Any]], seconds: float, rounds: int = _ROUNDS, least: int = LEAST_ROUNDS
) -> np.ndarray:
    """Return the seconds of each call in each round, [calls, rounds]; the calls take turns."""
    times: list[list[float]] = []
    end = time.perf_counter() + seconds
    for done in range(rounds):
        if done >= least and time.perf_counter() > end:
            break
        times.append([])
        for call in calls:
            start = time.perf_counter()
            call()
            times[-1].append(time.perf_counter() - start)
    return np.array(times).T


def _make_pass(structure: Structure, events: int) -> Callable[[], None]:
    """Return a function that searches with the first events."""
    search_all = getattr(structure, "search_all", None)
    if search_all is not None:
        return lambda: search_all(events)
    out, offsets = _allocate_buffers(structure)
    structure.search(0, 1, offsets, out)  # compile

    def run() -> None:
        first = 0
        while first < events:
            offsets[0] = 0
            first = structure.search(first, events, offsets, out)

    return run


def _allocate_buffers(structure: Structure) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(structure.size + _ROOM, np.int32), np.zeros(structure.events + 1, np.int64)
