"""Intervals over one attribute: ncls, superintervals, sorted NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.range_peers.peer import (
    Pairs,
    Peer,
    Points,
    lists_as_pairs,
)
from benchmarks.range_workloads import Workload


class OneAttribute(Peer):
    @staticmethod
    def refusal(workload: Workload) -> str:
        return "" if len(workload.low) == 1 else "one attribute only"


class Ncls(OneAttribute):
    name, package = "ncls", "ncls"
    bytes_per_pair = 32

    def __init__(self, workload: Workload):
        from ncls import NCLS

        low, high = workload.low[0], workload.high[0]
        self.list = NCLS(low, high + 1, np.arange(len(low)))  # its intervals are half-open

    def to_native(self, points: Points) -> Any:
        (x,) = points
        return x, x + 1, np.arange(len(x))

    def join(self, loaded: Any, is_large: bool) -> Iterator[Any]:
        yield self.list.all_overlaps_both(*loaded)

    def pairs(self, result: Any) -> Iterable[Pairs]:
        yield result


class SuperIntervals(OneAttribute):
    name, package = "superintervals", "superintervals"
    bytes_per_pair = 48
    counts = True
    remark = "ids only, as lists of Python integers; its reused buffer is not accessible"

    def __init__(self, workload: Workload):
        from superintervals import IntervalMap

        low, high = workload.low[0], workload.high[0]
        self.order = np.lexsort((-high, low))  # the order of its results
        bounds = (a[self.order].astype(np.int32) for a in (low, high))
        self.map = IntervalMap.from_arrays(*bounds)

    def to_native(self, points: Points) -> np.ndarray:
        return points[0].astype(np.int32)

    def join(self, loaded: np.ndarray, is_large: bool) -> Iterator[Any]:
        yield self.map.search_idxs_batch(loaded, loaded)

    def pairs(self, result: Any) -> Iterable[Pairs]:
        for events, positions in lists_as_pairs(result):
            yield events, self.order[positions]

    def count(self, points: np.ndarray) -> Any:
        return self.map.count_batch(points, points)


class SortedNumPy(OneAttribute):
    name, package = "sorted NumPy, one slice per point", "numpy"
    counts = True
    remark = "ids only, an array per point; knows the longest interval in advance"

    def __init__(self, workload: Workload):
        low, high = workload.low[0], workload.high[0]
        order = np.argsort(low, kind="stable")
        self.low, self.high, self.ids = low[order], high[order], order.astype(np.int32)
        self.ends = np.sort(high)
        self.longest = int((high - low).max())

    def to_native(self, points: Points) -> np.ndarray:
        return points[0]

    def join(self, loaded: np.ndarray, is_large: bool) -> Iterator[Any]:
        ids, high = self.ids, self.high
        begin = np.searchsorted(self.low, loaded - self.longest, "left").tolist()
        end = np.searchsorted(self.low, loaded, "right").tolist()
        yield [ids[i:j][high[i:j] >= x] for i, j, x in zip(begin, end, loaded)]

    def pairs(self, result: Any) -> Iterable[Pairs]:
        return lists_as_pairs(result)

    def count(self, points: np.ndarray) -> Any:
        begun = np.searchsorted(self.low, points, "right")
        return begun - np.searchsorted(self.ends, points, "left")
