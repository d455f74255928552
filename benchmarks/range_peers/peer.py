"""The interface of a peer.

A peer indexes the rules in its constructor, which is timed separately. It then *loads* a batch of
points (creates its own objects or an index over them) and *joins* it; both are timed. The result is
converted to pairs and checked outside the measured time.

All peers use one thread, and the process is pinned to one core (`timing.use_one_core`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from benchmarks.range_workloads import Workload

Points = list[np.ndarray]
Pairs = tuple[Any, Any]


class Peer:
    """A library that joins points with ranges."""

    name: ClassVar[str]
    package: ClassVar[str]
    first_step: ClassVar[str] = ""  # a name for loading
    bytes_per_pair: ClassVar[int] = 16  # at the peak, including its own buffers
    streams: ClassVar[bool] = False  # whether large results come in pieces
    counts: ClassVar[bool] = False  # whether it can count matches without creating pairs
    by_hand: ClassVar[bool] = False  # not a library: shown, but never the fastest peer
    remark: str = ""

    def __init__(self, workload: Workload):
        raise NotImplementedError

    @staticmethod
    def refusal(workload: Workload) -> str:
        """Return why the peer cannot run this workload; empty if it can."""
        return "" if len(workload.low) == 2 else "two attributes only"

    def bytes_needed(self, points: Points, pairs: int) -> int:
        """Return the approximate peak memory for joining these points."""
        return pairs * self.bytes_per_pair

    def to_native(self, points: Points) -> Any:
        """Return points in the peer's input format; not timed."""
        return points

    def load(self, points: Any) -> Any:
        return points

    def join(self, loaded: Any, is_large: bool) -> Iterator[Any]:
        """Yield the result at once, or in pieces if it is large and the peer streams."""
        raise NotImplementedError

    def pairs(self, result: Any) -> Iterable[Pairs]:
        """Yield arrays of events and of rules; not timed."""
        raise NotImplementedError

    def count(self, points: Any) -> Any:
        """Return the number of matches of each event, possibly without zeros."""
        raise NotImplementedError


def arrow_pair(table: Any) -> Pairs:
    return table["event"].to_numpy(), table["rule"].to_numpy()


def lists_as_pairs(lists: list[Any]) -> Iterator[Pairs]:
    """Yield the numbers of lists and their items, 4,096 lists at a time."""
    for first in range(0, len(lists), 4096):
        block = lists[first : first + 4096]
        numbers = np.arange(first, first + len(block))
        sizes = np.fromiter(map(len, block), np.int64, len(block))
        items = [np.asarray(each, np.int64) for each in block]
        yield np.repeat(numbers, sizes), np.concatenate(items)
