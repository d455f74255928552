"""Building: the interval of each conjunction, the levels that suit them, and their lists."""

from __future__ import annotations

import numpy as np

from tocsin.index.constructs.decomposition import count_too_short
from tocsin.index.constructs.interval_lists import build_lists
from tocsin.index.constructs.intervals.layout import Layout
from tocsin.index.constructs.lattice import Level, build_levels, choose_levels
from tocsin.index.plane import choose_axes
from tocsin.jit import Int64Out, UInt8Out, freeze_fields, kernel
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.facts import EXACT, NOTHING, Facts, facts_of
from tocsin.model.line import HIGHEST, NULL


def build_layout(
    conjunctions: Conjunctions, floats: np.ndarray, longest: int | None, logarithmic: bool
) -> Layout:
    """Return the layout over the most selective attribute."""
    (attribute, _), (is_float, _) = choose_axes(conjunctions, floats)
    low, high, exact = bound_conjunctions(conjunctions, int(attribute))
    chosen, level = choose_levels(low, high, bool(is_float), longest)
    levels = build_levels(chosen, bool(is_float), logarithmic)
    ids = number_candidates(exact, 0)
    return freeze_fields(
        Layout,
        attribute=[attribute],
        proven=[bool(exact.all())],
        **levels._asdict(),
        skip=_tabulate_differences(chosen, logarithmic),
        **build_lists(levels, level, low, high, ids, logarithmic)._asdict(),
    )


def bound_conjunctions(
    c: Conjunctions, attribute: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the interval of each conjunction on an attribute, and whether it is all it says."""
    low, high = np.empty(c.size, np.int64), np.empty(c.size, np.int64)
    exact = np.empty(c.size, np.uint8)
    write_bounds(c, facts_of(c), attribute, low, high, exact)
    return low, high, exact


def number_candidates(exact: np.ndarray, first: int) -> np.ndarray:
    """Return what to propose for conjunctions numbered from `first`: c, or ~c if not proven."""
    numbers = first + np.arange(len(exact))
    return np.where(exact != 0, numbers, ~numbers).astype(np.int32)


def _tabulate_differences(levels: list[Level], logarithmic: bool) -> np.ndarray:
    """Return `count_too_short` for each level, all rows as long as the greatest L."""
    skip = np.zeros((len(levels), max(v.longest for v in levels)), np.int64)
    for row, v in zip(skip, levels):
        row[: v.longest] = count_too_short(v.longest, logarithmic)
    return skip.reshape(-1)


@kernel
def write_bounds(
    c: Conjunctions, f: Facts, attribute: int, low: Int64Out, high: Int64Out, exact: UInt8Out
) -> None:
    """Write each conjunction's interval on an attribute (-1: none), or the whole line."""
    offsets, attributes, lows, highs, worth = c.offsets, c.attribute, f.low, f.high, f.worth
    for i in range(exact.shape[0]):
        low[i], high[i], exact[i] = NULL, HIGHEST, 1
        for row in range(offsets[i], offsets[i + 1]):
            if attributes[row] != attribute or worth[row] != EXACT:
                exact[i] = 0
            if attributes[row] == attribute and worth[row] != NOTHING:
                low[i], high[i] = lows[row], highs[row]
