"""A peer, and what it is asked.

A peer indexes the rules when it is made, and that is not counted. A new batch of points it
*takes* (makes its own objects of them, or an index over them) and *joins*; both are counted.
What it returns is turned into pairs off the clock, to be checked.

All are held to one thread, the process is pinned to one core besides (`timing.alone`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from benchmarks.range_workloads import Workload

Points = list[np.ndarray]
Pairs = tuple[Any, Any]


class Peer:
    """One way to join points with ranges."""

    name: ClassVar[str]
    package: ClassVar[str]
    first_step: ClassVar[str] = ""  # what taking is
    bytes_a_pair: ClassVar[int] = 16  # at the peak, its own buffers included
    streams: ClassVar[bool] = False  # what is large comes in pieces, without asking in batches
    counts: ClassVar[bool] = False  # it counts as well, without making pairs
    by_hand: ClassVar[bool] = False  # nobody ships it: shown, but not the best peer
    remark: str = ""

    def __init__(self, workload: Workload):
        raise NotImplementedError

    @staticmethod
    def refusal(workload: Workload) -> str:
        """Say why this workload is not for it; empty if it is."""
        return "" if len(workload.low) == 2 else "two attributes only"

    def bytes_needed(self, points: Points, pairs: int) -> int:
        """Return what joining these points takes at the peak, roughly."""
        return pairs * self.bytes_a_pair

    def native(self, points: Points) -> Any:
        """Return points as the peer is given them; not counted."""
        return points

    def take(self, points: Any) -> Any:
        return points

    def join(self, taken: Any, large: bool) -> Iterator[Any]:
        """Yield the result, whole; or in pieces if it is large and the peer streams."""
        raise NotImplementedError

    def pairs(self, result: Any) -> Iterable[Pairs]:
        """Yield arrays of events and of rules; off the clock."""
        raise NotImplementedError

    def count(self, points: Any) -> Any:
        """Return the number of matches of each event, or of those that have any."""
        raise NotImplementedError


def arrow_pair(table: Any) -> Pairs:
    return table["event"].to_numpy(), table["rule"].to_numpy()


def lists_as_pairs(lists: list[Any]) -> Iterator[Pairs]:
    """Yield (number of the list, what is in it) for some thousands of lists at a time."""
    for first in range(0, len(lists), 4096):
        some = lists[first : first + 4096]
        numbers = np.arange(first, first + len(some))
        sizes = np.fromiter(map(len, some), np.int64, len(some))
        held = [np.asarray(each, np.int64) for each in some]
        yield np.repeat(numbers, sizes), np.concatenate(held)
