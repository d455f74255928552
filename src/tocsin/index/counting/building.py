"""Building: bounds become ranks, and each attribute gets the interval lists of its predicates."""

from __future__ import annotations

import numpy as np

from tocsin.index.constructs.interval_lists import IntervalLists, build_lists
from tocsin.index.constructs.lattice import build_levels, choose_levels
from tocsin.index.counting.layout import MOST_COUNTED, Layout
from tocsin.jit import freeze_fields
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.facts import EXACT, NOTHING, facts_of
from tocsin.model.line import HIGHEST, NULL

_LEVEL_FIELDS = ("first", "last", "origin", "scale", "cells", "constructs")
# Fields that are offsets: those of an attribute go on where those of the one before have ended.
_OFFSETS = ("cells", "constructs", "start", "end", "inside", "piece")


def build_layout(c: Conjunctions, attributes: int) -> Layout:
    """Return the layout for conjunctions over a schema of so many attributes."""
    facts = facts_of(c)
    owner = np.repeat(np.arange(c.size), np.diff(c.offsets))
    place = np.arange(len(owner)) - c.offsets[owner]  # of a row in its conjunction
    counted = np.flatnonzero((facts.worth != NOTHING) & (place < MOST_COUNTED))
    counted = counted[np.argsort(c.attribute[counted], kind="stable")]
    low, high = facts.low[counted], facts.high[counted]
    groups = np.searchsorted(c.attribute[counted], np.arange(attributes + 1))
    level, cut = np.zeros(attributes + 1, np.int64), np.zeros(attributes + 1, np.int64)
    cuts, built = [np.empty(0, np.int64)], []
    for attribute in range(attributes):
        rows = slice(groups[attribute], groups[attribute + 1])
        if rows.start == rows.stop:
            continue
        own_cuts = find_cuts(low[rows], high[rows])
        low_rank, high_rank = (np.searchsorted(own_cuts, b[rows], "right") for b in (low, high))
        ids = owner[counted[rows]].astype(np.int32)
        built.append(_build_attribute(low_rank, high_rank, ids))
        level[attribute + 1], cut[attribute + 1] = len(built[-1]["first"]), len(own_cuts)
        cuts.append(own_cuts)
    exact = np.ones(c.size, bool)
    exact[owner[(facts.worth != EXACT) | (place >= MOST_COUNTED)]] = False
    needed = np.bincount(owner[counted], minlength=c.size)
    candidate = np.where(exact, np.arange(c.size), ~np.arange(c.size))
    return freeze_fields(
        Layout,
        level=np.cumsum(level),
        cut=np.cumsum(cut),
        cuts=np.concatenate(cuts),
        nullable=np.unique(c.attribute[counted[low == NULL]]),
        **{
            name: _concatenate([arrays[name] for arrays in built], name in _OFFSETS)
            for name in (*_LEVEL_FIELDS, *IntervalLists._fields)
        },
        needed=needed,
        candidate=candidate,
        always=candidate[needed == 0],
    )


def find_cuts(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the keys, ascending, where some interval begins or has just ended."""
    return np.unique(np.concatenate([low[low > NULL], high[high < HIGHEST] + 1]))


def _build_attribute(low: np.ndarray, high: np.ndarray, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Return the levels and lists of one attribute's intervals of ranks, by name."""
    chosen, level = choose_levels(low, high, is_float=False, longest=1)
    levels = build_levels(chosen, is_float=False, logarithmic=True)
    lists = build_lists(levels, level, low, high, ids, logarithmic=True)
    return {name: getattr(levels, name) for name in _LEVEL_FIELDS} | lists._asdict()


def _concatenate(arrays: list[np.ndarray], are_offsets: bool) -> np.ndarray:
    """Return the arrays of all attributes one after the other."""
    if not are_offsets:
        return np.concatenate(arrays) if arrays else np.empty(0)
    joined, before = [np.zeros(1, np.int64)], 0
    for offsets in arrays:
        joined.append(np.asarray(offsets[1:], np.int64) + before)
        before = int(joined[-1][-1])
    return np.concatenate(joined)
