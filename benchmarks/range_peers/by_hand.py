"""A list per cell: what a user might write by hand for a small domain of whole numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numba
import numpy as np

from benchmarks.range_peers.peer import Pairs, Peer, Points
from benchmarks.range_workloads import Workload
from benchmarks.timing import runs_as_pairs


@numba.njit("void(int64[::1], int64[::1], int64[::1], int64[::1], int64, int64[::1], int32[::1])")
def fill_cells(x_low, x_high, y_low, y_high, across, at, ids):
    """Count ids per cell if `ids` is empty, otherwise write them."""
    for rule in range(x_low.shape[0]):
        for x in range(x_low[rule], x_high[rule] + 1):
            for cell in range(x * across + y_low[rule], x * across + y_high[rule] + 1):
                if ids.shape[0]:
                    ids[at[cell]] = rule
                at[cell] += 1


@numba.njit("void(int64[::1], int64[::1], int32[::1], int64[::1], int32[::1])")
def copy_lists(cells, begin, ids, offsets, out):
    for event in range(cells.shape[0]):
        first = begin[cells[event]]
        at = offsets[event]
        for i in range(offsets[event + 1] - at):
            out[at + i] = ids[first + i]


class ListPerCell(Peer):
    name, package = "a list per cell, by hand in Numba", "numba"
    bytes_per_pair = 4
    counts = by_hand = True

    def __init__(self, workload: Workload):
        high = workload.high
        self.across = int(high[1].max()) + 1
        cells = (int(high[0].max()) + 1) * self.across
        bounds = (workload.low[0], high[0], workload.low[1], high[1])
        counts, none = np.zeros(cells + 1, np.int64), np.empty(0, np.int32)
        fill_cells(*bounds, self.across, counts, none)
        self.begin = np.concatenate([[0], np.cumsum(counts)])
        self.ids = np.empty(int(self.begin[-1]), np.int32)
        fill_cells(*bounds, self.across, self.begin[:-1].copy(), self.ids)
        bytes_each = (self.ids.nbytes + self.begin.nbytes) / workload.rules
        self.remark = f"ids and offsets, like Tocsin; {bytes_each:,.0f} bytes per rule"

    @staticmethod
    def refusal(workload: Workload) -> str:
        is_small = len(workload.low) == 2 and workload.is_integer
        return "" if is_small else "small domains of whole numbers only"

    def _cells(self, points: Points) -> np.ndarray:
        return points[0] * self.across + points[1]

    def join(self, loaded: Points, is_large: bool) -> Iterator[Any]:
        cells = self._cells(loaded)
        offsets = np.zeros(len(cells) + 1, np.int64)
        np.cumsum(self.begin[cells + 1] - self.begin[cells], out=offsets[1:])
        out = np.empty(int(offsets[-1]), np.int32)
        copy_lists(cells, self.begin, self.ids, offsets, out)
        yield offsets, out

    def pairs(self, result: Any) -> Iterable[Pairs]:
        offsets, ids = result
        yield from runs_as_pairs(offsets, ids)

    def count(self, points: Points) -> Any:
        cells = self._cells(points)
        return self.begin[cells + 1] - self.begin[cells]
