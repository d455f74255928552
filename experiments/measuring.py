"""Timing at the level of the index, as the papers do, and what is asked with what.

A *structure* answers events block by block into memory that is reused: Tocsin's indexes and the
rivals of `experiments.rivals` alike. A library gives fresh arrays, because it cannot do otherwise;
figures say so. Everything is built beforehand, runs on one core, and is the best of several
rounds, in which structures take turns. What they find is compared.
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

_ROOM = 1 << 18  # ids that a block has room for, besides those of one event
_ROUNDS = 7


class Structure(Protocol):
    """Rules that can be asked which of them hold."""

    size: int  # rules
    events: int
    nbytes: int

    def ask(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        """Write the rules that hold for events, as `tocsin.index.protocol.Index.candidates`."""
        ...


class Indexed:
    """One of Tocsin's indexes, and the events it is asked with."""

    def __init__(self, index: Any, points: np.ndarray, is_float: bool):
        self.index = index
        self.size, self.events = index.conjunctions.size, points.shape[1]
        self.width = points.shape[0]
        self.keys = dense_keys(keys(points, is_float), np.arange(self.width))
        self.nbytes = index.nbytes

    def ask(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        return self.index.candidates(EventBatch(self.keys, self.width, first, stop), offsets, out)


def keys(values: np.ndarray, is_float: bool) -> np.ndarray:
    """Return values as keys, where an index expects them."""
    if not is_float:
        return np.asarray(values, np.int64)
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    return np.where(bits >= 0, bits, NULL - bits)


def boxes(low: np.ndarray, high: np.ndarray, is_float: bool) -> tuple[Conjunctions, np.ndarray]:
    """Return boxes [low, high], [attributes, n] each, as what an index is built from."""
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


def answers(structure: Structure, events: int) -> np.ndarray:
    """Return how many rules hold for each of the first events, and the sum of their numbers."""
    out, offsets = _buffers(structure)
    found, first = [], 0
    while first < events:
        offsets[0] = 0
        stop = structure.ask(first, events, offsets, out)
        ends = offsets[: stop - first + 1]
        if ends[-1] and out[: ends[-1]].min() < 0:
            raise AssertionError("a candidate was left unproven")
        sums = np.concatenate([[0], np.cumsum(out[: ends[-1]], dtype=np.int64)])[ends]
        found.append(np.stack([np.diff(ends), np.diff(sums)]))
        first = stop
    return np.concatenate(found, axis=1)


def check_equal(structures: dict[str, Structure], events: int) -> float:
    """Raise unless all find the same rules; return how many an event meets on average."""
    expected = None
    for name, structure in structures.items():
        found = answers(structure, min(events, structure.events))
        if expected is None:
            expected = found
        if not np.array_equal(found, expected[:, : found.shape[1]]):
            raise AssertionError(f"{name} finds other rules than {next(iter(structures))}")
    assert expected is not None
    return float(expected[0].mean())


def search_times(
    structures: dict[str, Structure],
    seconds: float,
    fewer: dict[str, int] | None = None,
    least: int = 1,
) -> dict[str, float]:
    """Return the seconds that an event takes in each structure.

    Rounds are made until `seconds` for each structure are used up, at least `least`; `fewer` says
    who is asked with the first so many events only, because it is slow.
    """
    calls, counts = [], []
    for name, structure in structures.items():
        count = min((fewer or {}).get(name, structure.events), structure.events)
        counts.append(count)
        calls.append(_pass(structure, count))
    spent = best(calls, seconds * len(calls), least=least)
    return {name: s / n for name, s, n in zip(structures, spent, counts, strict=True)}


def best(
    calls: list[Callable[[], Any]], seconds: float, rounds: int = _ROUNDS, least: int = 1
) -> list[float]:
    """Return the least seconds of each call, the calls taken in turn."""
    took = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    for done in range(rounds):
        if done >= least and time.perf_counter() > end:
            break
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            took[i] = min(took[i], time.perf_counter() - start)
    return took


def _pass(structure: Structure, events: int) -> Callable[[], None]:
    whole = getattr(structure, "ask_whole", None)
    if whole is not None:
        return lambda: whole(events)
    out, offsets = _buffers(structure)
    structure.ask(0, 1, offsets, out)  # compile

    def run() -> None:
        first = 0
        while first < events:
            offsets[0] = 0
            first = structure.ask(first, events, offsets, out)

    return run


def _buffers(structure: Structure) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(structure.size + _ROOM, np.int32), np.zeros(structure.events + 1, np.int64)
