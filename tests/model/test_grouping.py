"""Matches by rule, with few and with many rules for the number of pairs."""

import numpy as np
import pyarrow as pa
import pytest

from tocsin.model.matches import Matches


class Numbers:
    def ids_at(self, positions):
        return pa.array(np.asarray(positions).tolist())


@pytest.mark.parametrize("rules", [1, 5, 400, 10**6])
@pytest.mark.parametrize("first", [0, 1000])
def test_events_by_rule(rules, first):
    rng = np.random.default_rng(2)
    sizes = rng.integers(0, 6, 80)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    matched = rng.integers(0, rules, int(offsets[-1])).astype(np.int32)
    expected = {}
    for event, size in enumerate(sizes):
        for rule in matched[offsets[event] :][:size].tolist():
            expected.setdefault(rule, []).append(first + event)
    found = Matches(offsets, matched, Numbers(), first=first).by_rule()
    assert {rule: events.tolist() for rule, events in found.items()} == expected
    assert list(found) == sorted(expected)


def test_nothing_by_rule():
    assert Matches(np.zeros(4, np.int64), np.zeros(0, np.int32), Numbers()).by_rule() == {}
