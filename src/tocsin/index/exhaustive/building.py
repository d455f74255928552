"""Building: conjunctions are grouped into blocks, whose bounds are gathered test by test."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tocsin.index.exhaustive.layout import Layout
from tocsin.jit import Int64Out, UInt8Out, freeze, freeze_fields, kernel
from tocsin.model.conjunctions import Conjunctions, expand_ranges
from tocsin.model.facts import EXACT, NOTHING, Facts, facts_of

# Conjunctions with the same attributes that make a block of their own. Chosen: so many that the
# tests of the block cost more than finding out whether an event can meet it.
_LEAST_ALIKE = 64

# So many conjunctions make one block each. Chosen: grouping them takes 80 microseconds and an event
# 2 nanoseconds for each block, and they are sealed again after every change of a rule.
_MOST_SINGLE = 64
_NUMBERS = freeze(np.arange(16 * _MOST_SINGLE), np.int64)
_CANDIDATES = freeze(np.arange(_MOST_SINGLE), np.int32)


def build_layout(c: Conjunctions) -> Layout:
    """Return the layout; two passes over the rows and a sort."""
    if c.size <= _MOST_SINGLE:
        return _build_single_blocks(c)
    facts = facts_of(c)
    signature, lead = np.empty(c.size, np.int64), np.empty(c.size, np.int64)
    exact = np.empty(c.size, np.uint8)
    survey(c, facts, signature, lead, exact)
    order, block, alike = group_alike(c, signature, lead)
    members = [order[first:stop] for first, stop in pairwise(block)]
    tested = [find_tested_rows(c, facts, m, lead, bool(alike[m[0]])) for m in members]

    size = sum(len(rows) for tests in tested for rows in tests)
    low, high = np.empty(size, np.int64), np.empty(size, np.int64)
    attribute, bounds, least, greatest = [], [], [], []
    at = 0
    for rows in (rows for tests in tested for rows in tests):
        own = slice(at, at + len(rows))
        low[own], high[own] = facts.low[rows], facts.high[rows]
        attribute.append(c.attribute[rows[0]])
        bounds.append(at)
        least.append(low[own].min())
        greatest.append(high[own].max())
        at += len(rows)

    candidate = np.empty(c.size, np.int32)
    for first, chosen, tests in zip(block, members, tested):
        # Proven if every row is an interval and every row is tested.
        lengths = c.offsets[chosen + 1] - c.offsets[chosen]
        proven = (exact[chosen] != 0) & (lengths == len(tests))
        candidate[first : first + len(chosen)] = np.where(proven, chosen, ~chosen)
    return freeze_fields(
        Layout,
        block=block,
        tests=np.cumsum([0, *map(len, tested)]),
        attribute=attribute,
        least=least,
        greatest=greatest,
        bounds=bounds,
        low=low,
        high=high,
        candidate=candidate,
    )


def _build_single_blocks(c: Conjunctions) -> Layout:
    """Return a layout with a block for each conjunction, which tests the bounds of all its rows."""
    numbers = _NUMBERS[: c.size + 1]
    rows = len(c.kind)
    candidate, low, high = _CANDIDATES[: c.size], c.low, c.high
    if c.kind.any():
        low, high, worth = facts_of(c)
        inexact = np.zeros(rows + 1, np.int64)
        np.cumsum(worth != EXACT, out=inexact[1:])
        proven = np.diff(inexact[c.offsets]) == 0
        candidate = freeze(np.where(proven, candidate, ~candidate), np.int32)
    return Layout(
        block=numbers,
        tests=c.offsets,
        attribute=c.attribute,
        least=low,
        greatest=high,
        bounds=_NUMBERS[:rows] if rows <= len(_NUMBERS) else freeze(np.arange(rows), np.int64),
        low=low,
        high=high,
        candidate=candidate,
    )


def group_alike(
    c: Conjunctions, signature: np.ndarray, lead: np.ndarray, factor: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return conjunctions block by block, where each block begins, and which are alike in theirs.

    Blocks of conjunctions alike come first, then one block for each leading attribute. Each
    conjunction stands for `factor` like it: the planner passes a sample.
    """
    _, group, sizes = np.unique(signature, return_inverse=True, return_counts=True)
    alike = sizes[group] * factor >= _LEAST_ALIKE
    leading = np.full(c.size, -1)
    leading[lead >= 0] = c.attribute[lead[lead >= 0]]
    block_of = np.where(alike, group, len(sizes) + 1 + leading)
    order = np.argsort(block_of, kind="stable")
    _, first = np.unique(block_of[order], return_index=True)
    return order, np.append(first, c.size), alike


def find_tested_rows(
    c: Conjunctions, facts: Facts, chosen: np.ndarray, lead: np.ndarray, alike: bool
) -> list[np.ndarray]:
    """Return, test by test of a block, the row that each of its conjunctions contributes."""
    if not alike:
        rows = lead[chosen]
        return [rows] if rows[0] >= 0 else []
    rows = expand_ranges(c.offsets[chosen], c.offsets[chosen + 1])
    rows = rows[facts.worth[rows] != NOTHING]
    tests = len(rows) // len(chosen)
    # Signatures are hashes. Should those of different attributes be equal, the block has no tests:
    # all of it is proposed, and accept decides.
    if tests * len(chosen) != len(rows):
        return []
    by_test = list(rows.reshape(len(chosen), tests).T)
    alike = all((c.attribute[r] == c.attribute[r[0]]).all() for r in by_test)
    return by_test if alike else []


@kernel
def survey(c: Conjunctions, f: Facts, signature: Int64Out, lead: Int64Out, exact: UInt8Out) -> None:
    """Write for each conjunction: a number for the attributes it can test by intervals,
    its narrowest such row (-1: none), and whether it has nothing but intervals.
    """
    for i in range(signature.shape[0]):
        mixed = np.uint64(0x9E3779B97F4A7C15)
        narrowest = np.inf
        lead[i] = -1
        exact[i] = 1
        for row in range(c.offsets[i], c.offsets[i + 1]):
            if f.worth[row] != EXACT:
                exact[i] = 0
            if f.worth[row] == NOTHING:
                continue
            mixed = (mixed ^ np.uint64(c.attribute[row] + 1)) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
            width = np.float64(f.high[row]) - np.float64(f.low[row])
            if width < narrowest:
                narrowest = width
                lead[i] = row
        signature[i] = np.int64(mixed)
