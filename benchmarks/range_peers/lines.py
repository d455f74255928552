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
    bytes_a_pair = 32

    def __init__(self, workload: Workload):
        from ncls import NCLS

        low, high = workload.low[0], workload.high[0]
        self.list = NCLS(low, high + 1, np.arange(len(low)))  # it excludes the end

    def native(self, points: Points) -> Any:
        (at,) = points
        return at, at + 1, np.arange(len(at))

    def join(self, taken: Any, large: bool) -> Iterator[Any]:
        yield self.list.all_overlaps_both(*taken)

    def pairs(self, result: Any) -> Iterable[Pairs]:
        yield result


class SuperIntervals(OneAttribute):
    name, package = "superintervals", "superintervals"
    bytes_a_pair = 48
    counts = True
    remark = "ids only, as lists of Python integers; its reused buffer is not accessible"

    def __init__(self, workload: Workload):
        from superintervals import IntervalMap

        low, high = workload.low[0], workload.high[0]
        self.order = np.lexsort((-high, low))  # its own; so its numbers are places in it
        bounds = (a[self.order].astype(np.int32) for a in (low, high))
        self.map = IntervalMap.from_arrays(*bounds)

    def native(self, points: Points) -> np.ndarray:
        return points[0].astype(np.int32)

    def join(self, taken: np.ndarray, large: bool) -> Iterator[Any]:
        yield self.map.search_idxs_batch(taken, taken)

    def pairs(self, result: Any) -> Iterable[Pairs]:
        for events, places in lists_as_pairs(result):
            yield events, self.order[places]

    def count(self, points: np.ndarray) -> Any:
        return self.map.count_batch(points, points)


class SortedNumPy(OneAttribute):
    name, package = "sorted NumPy, a slice a point", "numpy"
    counts = True
    remark = "ids only, an array per point; is told the longest interval"

    def __init__(self, workload: Workload):
        low, high = workload.low[0], workload.high[0]
        order = np.argsort(low, kind="stable")
        self.low, self.high, self.ids = low[order], high[order], order.astype(np.int32)
        self.ends = np.sort(high)
        self.longest = int((high - low).max())

    def native(self, points: Points) -> np.ndarray:
        return points[0]

    def join(self, taken: np.ndarray, large: bool) -> Iterator[Any]:
        ids, high = self.ids, self.high
        begin = np.searchsorted(self.low, taken - self.longest, "left").tolist()
        end = np.searchsorted(self.low, taken, "right").tolist()
        yield [ids[i:j][high[i:j] >= at] for i, j, at in zip(begin, end, taken)]

    def pairs(self, result: Any) -> Iterable[Pairs]:
        return lists_as_pairs(result)

    def count(self, points: np.ndarray) -> Any:
        begun = np.searchsorted(self.low, points, "right")
        return begun - np.searchsorted(self.ends, points, "left")
