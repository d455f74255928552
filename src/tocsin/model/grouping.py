"""Matches by rule: a counting sort of pairs, which come by event."""

from __future__ import annotations

import numpy as np

from tocsin.jit import Int32s, Int64Out, Int64s, kernel


def group_by_rule(offsets: np.ndarray, rules: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the events of pairs, grouped by rule, and where the group of each position ends."""
    counts = np.bincount(rules)
    ends = counts.cumsum()
    events = np.empty(len(rules), np.int64)
    place_events(
        np.ascontiguousarray(offsets, np.int64),
        np.ascontiguousarray(rules, np.int32),
        ends - counts,
        events,
    )
    return events, ends


@kernel
def place_events(offsets: Int64s, rules: Int32s, place: Int64Out, events: Int64Out) -> None:
    """Write each pair's event to the next place of its rule."""
    for event in range(offsets.shape[0] - 1):
        for i in range(offsets[event], offsets[event + 1]):
            events[place[rules[i]]] = event
            place[rules[i]] += 1
