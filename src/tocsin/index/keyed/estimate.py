"""Estimate the cost per event, with the same choice of keys and key sets as when building."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.costs import Sample
from tocsin.index.keyed.coding import code_predicates, number_attributes
from tocsin.index.keyed.entries import choose_keys, find_key_rows, find_proven
from tocsin.index.keyed.key_sets import choose_key_sets, reduce_rows
from tocsin.index.keyed.lanes import LANES

_CLASSES = 2  # approximate number of width classes of an attribute; chosen


class Work(NamedTuple):
    """The work for an event, on average."""

    values: float  # values that it codes
    probes: float  # runs and key sets that it looks up
    blocks: float  # heads and rows of blocks that it tests
    looked: float  # entries under its values in these blocks
    candidates: float
    unproven: float  # candidates that are left to accept


def estimate_work(sample: Sample) -> Work:
    """Estimate the work for an index over the conjunctions that a sample represents."""
    c, factor = sample.conjunctions, sample.factor
    coded = code_predicates(c, number_attributes(c, len(sample.floats)))
    sets = choose_key_sets(c.offsets, coded, factor)
    key, by_selectivity = choose_keys(c.offsets, coded)
    keys = find_key_rows(c.offsets, coded, key, sets)
    proven = find_proven(c.offsets, coded, keys)
    bounds = sample.bound_shares
    points = coded.share if sample.events is None else sample.row_shares

    in_key = np.where(keys.is_key, np.where(keys.multiplied, points, bounds), 1.0)
    visited = factor * reduce_rows(np.multiply, in_key, c.offsets)
    tested = coded.testable & ~keys.is_key
    others = np.where(tested, bounds, 1.0)
    candidates = visited * reduce_rows(np.multiply, others, c.offsets) * sample.correlation

    # The last block that a probe finds is not full.
    in_sets = np.bincount(sets.number + 1, visited, minlength=len(sets.attributes) + 1)
    single = key[(key >= 0) & (sets.number < 0)]
    width = coded.high[single].astype(np.int64) - coded.low[single]
    attributes, _first, _entries = np.unique(
        coded.attribute[single], return_index=True, return_counts=True
    )
    widest = np.zeros(len(coded.presence))
    np.maximum.at(widest, coded.attribute[single], width)
    presence = sample.presence(coded.presence, c, coded.attribute)
    runs = float((presence * np.where(widest > 0, _CLASSES, 1))[attributes].sum())
    probes = len(sets.attributes) + runs + float(((key < 0) & (sets.number < 0)).any())
    blocks = float(in_sets.sum()) / LANES + runs + float(np.minimum(in_sets[1:], 1).sum())
    # Rows are tested only if a lane has passed the head.
    second = _second_shares(c.offsets, by_selectivity, tested, bounds)
    passed = visited * second
    rows = np.maximum(reduce_rows(np.add, tested, c.offsets) - 1, 0)
    blocks += float((passed * rows).sum()) / max(1.0, min(LANES / 2, float(passed.sum()) / 4))
    return Work(
        values=float(presence.sum()),
        probes=probes,
        blocks=blocks,
        looked=float(visited.sum()),
        candidates=float(candidates.sum()),
        unproven=float(candidates[~proven].sum()),
    )


def _second_shares(
    offsets: np.ndarray, by_selectivity: np.ndarray, tested: np.ndarray, bounds: np.ndarray
) -> np.ndarray:
    """Return for each conjunction the share of its second predicate, 1 if it has none."""
    order = by_selectivity[tested[by_selectivity]]
    owner = np.searchsorted(offsets, order, "right") - 1
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    second = np.ones(len(offsets) - 1)
    second[owner[first]] = bounds[order[first]]
    return second
