"""A million rules over flights, like `real_workloads.alert` with a day and an hour.

They are drawn in NumPy and written as conjunctions, without conditions to parse.
"""

from __future__ import annotations

import numpy as np

from benchmarks.real_workloads import load_events
from tocsin.jit import freeze_fields
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import HIGHEST, NULL
from tocsin.model.keys import Keys, dense_keys
from tocsin.model.predicates import INTERVAL, SET

COLUMNS = ("carrier", "origin", "dest", "month", "day", "hour", "dep_delay")
_MOST_VALUES = 3  # of carriers, and of destinations, in a rule


def draw_watches(count: int, events: int) -> tuple[Conjunctions, Keys, int]:
    """Return rules, the keys of flights, and the number of attributes; the last one has floats."""
    rng = np.random.default_rng(0)
    columns = _key_columns()
    rows = {name: columns[name] for name in COLUMNS}
    flights = len(rows["origin"])

    def draw(name: str) -> np.ndarray:
        return rows[name][rng.integers(0, flights, count)]

    tests: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # what `_to_conjunctions` takes
    for name in COLUMNS[:-1]:
        if name in ("carrier", "dest"):
            values = np.stack([draw(name) for _ in range(_MOST_VALUES)], 1)
            sizes = rng.integers(1, _MOST_VALUES + 1, count)
            tests.append(_distinct(values, sizes))
        elif name == "month":
            low = rng.integers(1, 12, count)
            tests.append((low, low + 1, np.full(count, INTERVAL)))
        else:
            value = draw(name)
            tests.append((value, value, np.full(count, INTERVAL)))
    delay = rng.integers(-5, 61, count).astype(np.float64).view(np.int64)
    delay = np.where(delay >= 0, delay, NULL - delay)
    tests.append((delay, np.full(count, HIGHEST), np.full(count, INTERVAL)))
    drawn = rng.integers(0, flights, events)
    keys = dense_keys(np.stack([rows[name][drawn] for name in COLUMNS]), np.arange(len(COLUMNS)))
    return _to_conjunctions(tests, count), keys, len(COLUMNS)


def _key_columns() -> dict[str, np.ndarray]:
    events = load_events("flights")
    keys = {}
    first = 1
    for name in COLUMNS:
        column = events.column(name).combine_chunks()
        if name in ("carrier", "origin", "dest"):
            encoded = column.dictionary_encode()
            keys[name] = first + encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            first += len(encoded.dictionary)  # all attributes share one dictionary
        elif name == "dep_delay":
            bits = column.fill_null(0.0).to_numpy(zero_copy_only=False).view(np.int64)
            keys[name] = np.where(bits >= 0, bits, NULL - bits)
            keys[name][column.is_null().to_numpy(zero_copy_only=False)] = NULL
        else:
            keys[name] = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return keys


def _distinct(values: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sets of the first `sizes` values: the values sorted, and which of them are new."""
    values = values.copy()
    for i in range(1, values.shape[1]):
        values[sizes <= i, i] = values[sizes <= i, 0]
    values.sort(axis=1)
    is_new = np.diff(values, axis=1, prepend=values[:, :1] - 1) != 0
    return values, is_new, np.full(len(values), SET)


def _to_conjunctions(
    tests: list[tuple[np.ndarray, np.ndarray, np.ndarray]], count: int
) -> Conjunctions:
    width = len(tests)
    low, high = np.zeros((count, width), np.int64), np.zeros((count, width), np.int64)
    kind: np.ndarray = np.zeros((count, width), np.int64)
    sets, is_new = [], []
    for i, (a, b, kinds) in enumerate(tests):
        if kinds[0] == INTERVAL:
            low[:, i], high[:, i] = a, b
            continue
        sizes = b.sum(axis=1)
        # A single point, or adjacent points, are stored as an interval.
        first, last = a[:, 0], a[:, -1]
        interval = last - first == sizes - 1
        low[:, i], high[:, i] = first, np.where(interval, last, sizes)
        kind[:, i] = np.where(interval, INTERVAL, SET)
        sets.append(a)
        is_new.append(b & ~interval[:, None])
    is_set = kind == SET
    sizes = np.where(is_set, high, 0)
    ends = np.cumsum(sizes.reshape(-1)).reshape(sizes.shape)
    high[is_set] = ends[is_set]
    low[is_set] = (ends - sizes)[is_set]
    values, new = np.concatenate(sets, axis=1), np.concatenate(is_new, axis=1)
    return freeze_fields(
        Conjunctions,
        offsets=np.arange(0, count * width + 1, width),
        attribute=np.tile(np.arange(width), count),
        kind=kind.reshape(-1),
        low=low.reshape(-1),
        high=high.reshape(-1),
        points=values.reshape(-1)[new.reshape(-1)],
        weight=[],
        rule=np.arange(count),
    )
