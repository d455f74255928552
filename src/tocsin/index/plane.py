"""The plane: which two attributes an index lies over, and conjunctions as boxes there.

Shared by the indexes over two attributes, and by the planner. Everything here is about choosing
well, in floats and roughly; what is right is decided elsewhere, by keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tocsin.jit import Int64Out, Int64s, UInt8Out, UInt8s, freeze_fields, kernel
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.facts import EXACT, NOTHING, Facts, facts_of
from tocsin.model.keys import FAR, FAR_INTEGER, NARROW
from tocsin.model.line import HIGHEST, LOWEST, NULL

EXACT_INTEGERS = 2.0**53  # integers below are exact as floats


class Boxes(NamedTuple):
    """n conjunctions as boxes of keys."""

    low: Int64s  # [2 n] the x axis, then the y axis
    high: Int64s  # [2 n]
    settled: UInt8s  # [n] whether the box is all that the conjunction says
    floats: UInt8s  # [2] whether an axis has the keys of floats

    @property
    def size(self) -> int:
        """How many boxes there are."""
        return self.settled.shape[0]


def chosen_axes(c: Conjunctions, floats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two attributes whose intervals leave the fewest candidates, -1 for none, and
    whether each has the keys of floats.
    """
    return padded_axes(by_what_they_rule_out(c, floats)[:2], floats)


def padded_axes(attributes: Sequence[int], floats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most two attributes as `chosen_axes` does."""
    axes = np.array([*attributes, -1, -1][:2], np.int32)
    return axes, np.array([a >= 0 and floats[a] for a in axes], np.uint8)


def by_what_they_rule_out(
    c: Conjunctions, floats: np.ndarray, facts: Facts | None = None
) -> list[int]:
    """Return the attributes, first those whose intervals leave the fewest candidates.

    An interval counts by the share of the attribute's domain that it rules out. `facts` are those
    of the conjunctions, if they are known already.
    """
    facts = facts or facts_of(c)
    rows = np.flatnonzero(facts.worth != NOTHING)
    rows = rows[np.argsort(c.attribute[rows], kind="stable")]
    attributes, first = np.unique(c.attribute[rows], return_index=True)
    ruled_out: list[tuple[float, int]] = []
    for attribute, mine in zip(attributes.tolist(), np.split(rows, first[1:])):
        share = shares(facts.low[mine], facts.high[mine], bool(floats[attribute]))[2]
        ruled_out.append((float((1 - share).sum()), attribute))
    return [attribute for _, attribute in sorted(ruled_out, reverse=True)]


def boxes_over(
    c: Conjunctions, axes: np.ndarray, is_float: np.ndarray, facts: Facts | None = None
) -> Boxes:
    """Return all conjunctions as boxes over two attributes, as `chosen_axes` gives them."""
    low, high = np.empty(2 * c.size, np.int64), np.empty(2 * c.size, np.int64)
    settled = np.empty(c.size, np.uint8)
    bound_boxes(c, facts or facts_of(c), int(axes[0]), int(axes[1]), low, high, settled)
    return freeze_fields(Boxes, low=low, high=high, settled=settled, floats=is_float)


@kernel
def bound_boxes(
    c: Conjunctions, f: Facts, x: int, y: int, low: Int64Out, high: Int64Out, settled: UInt8Out
) -> None:
    """Write each conjunction's box over the attributes x and y (-1: none)."""
    offsets, attribute, lows, highs, worth = c.offsets, c.attribute, f.low, f.high, f.worth
    n = settled.shape[0]
    for i in range(n):
        settled[i] = 1
        for axis in range(2):
            low[axis * n + i], high[axis * n + i] = NULL, HIGHEST
        for row in range(offsets[i], offsets[i + 1]):
            axis = 0 if attribute[row] == x else 1 if attribute[row] == y else -1
            if axis < 0 or worth[row] != EXACT:
                settled[i] = 0
            if axis >= 0 and worth[row] != NOTHING:
                low[axis * n + i], high[axis * n + i] = lows[row], highs[row]


def sides(boxes: Boxes, axis: int) -> tuple[float, float, np.ndarray]:
    """Return the domain of an axis, and each box's side as a share of it."""
    mine = slice(axis * boxes.size, (axis + 1) * boxes.size)
    return shares(boxes.low[mine], boxes.high[mine], bool(boxes.floats[axis]))


def shares(low: np.ndarray, high: np.ndarray, is_float: bool) -> tuple[float, float, np.ndarray]:
    """Return the domain of intervals, and of each the share of it; all of it where it is a point.

    So a test that all rules have alike (`active = true`, `z IS NOT NULL`) rules out nothing.
    """
    begin, end = domain(low, high, is_float)
    if end - begin < NARROW:
        return begin, end, np.ones(len(low))
    side = np.clip(values(high, is_float), begin, end)
    side -= np.clip(values(low, is_float), begin, end)
    one = 0.0 if is_float else 1.0  # of whole numbers an interval has one more than ends are apart
    return begin, end, (side + one) / (end - begin + one)


def values(keys: np.ndarray, is_float: bool) -> np.ndarray:
    """Return what keys stand for as floats, infinite where an end is open."""
    if is_float:
        found = np.where(keys >= 0, keys, NULL - keys).view(np.float64).copy()
        found[np.isnan(found)] = np.inf
    else:
        found = keys.astype(np.float64)
    found[keys <= LOWEST] = -np.inf
    found[keys == HIGHEST] = np.inf
    return found


def scale_of(pieces: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return how many pieces there are to a unit of each domain; 0 if it is too narrow to cut."""
    extent = end - begin
    return np.where(extent < NARROW, 0.0, pieces / np.maximum(extent, NARROW))


def keys_of(numbers: np.ndarray, is_float: bool) -> np.ndarray:
    """Return the keys of finite numbers."""
    if is_float:
        bits = np.asarray(numbers, np.float64).view(np.int64)
        return np.where(bits >= 0, bits, NULL - bits)
    return np.clip(numbers, -FAR_INTEGER, FAR_INTEGER).astype(np.int64)


def domain(low: np.ndarray, high: np.ndarray, is_float: bool) -> tuple[float, float]:
    """Return where nearly all finite ends lie, whole numbers for integers; far outliers are left
    outside.
    """
    ends = np.concatenate([values(low, is_float), values(high, is_float)])
    far = FAR if is_float else FAR_INTEGER
    ends = np.clip(ends[np.isfinite(ends)], -far, far)
    if not len(ends):
        return 0.0, 0.0
    begin, end = float(ends.min()), float(ends.max())
    if len(ends) > 200:
        near, far = np.quantile(ends, [0.005, 0.995]).tolist()
        spread = far - near
        if spread >= NARROW:
            begin, end = max(begin, near - spread), min(end, far + spread)
    # Quantiles of whole numbers lie between them, and a cell that is to be one number may not.
    return (begin, end) if is_float else (float(np.floor(begin)), float(np.ceil(end)))
