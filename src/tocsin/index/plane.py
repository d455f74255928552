"""The plane: the two attributes that an index covers, and conjunctions as boxes over them.

Shared by the indexes over two attributes and by the planner. Everything here is an approximation in
floats that only affects speed; matches are decided by keys, elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tocsin.jit import Int64Out, Int64s, UInt8Out, UInt8s, freeze_fields, kernel
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import HIGHEST, LOWEST, NULL
from tocsin.model.facts import EXACT, NOTHING, Facts, facts_of
from tocsin.model.keys import FAR, FAR_INTEGER, NARROW

EXACT_INTEGERS = 2.0**53  # integers below are exact as floats

# Bounds outside of these quantiles may be outliers, if there are at least `_MIN_BOUNDS`. Chosen: of
# 200 bounds, one at each end.
_QUANTILES = [0.005, 0.995]
_MIN_BOUNDS = 200
# How often bounds are mentioned, on average, if they are all the values there are; chosen. Both
# ends of a point count.
_REPEATED, _POINT_REPEATED = 8, 4


# ------------------------------------------------------------ axes


def choose_axes(c: Conjunctions, floats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two most selective attributes, -1 for none, and whether each has float keys."""
    return pad_axes(rank_by_selectivity(c, floats)[:2], floats)


def pad_axes(attributes: Sequence[int], floats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most two attributes in the form of `choose_axes`."""
    axes = np.array([*attributes, -1, -1][:2], np.int32)
    return axes, np.array([a >= 0 and floats[a] for a in axes], np.uint8)


def rank_by_selectivity(
    c: Conjunctions, floats: np.ndarray, facts: Facts | None = None
) -> list[int]:
    """Return the attributes that have bounds, the most selective first.

    The selectivity of an attribute is the sum, over the intervals that conjunctions have on it, of
    the share of its domain that an interval excludes: the higher, the fewer candidates are left.
    """
    facts = facts or facts_of(c)
    rows = np.flatnonzero(facts.worth != NOTHING)
    rows = rows[np.argsort(c.attribute[rows], kind="stable")]
    attributes, first = np.unique(c.attribute[rows], return_index=True)
    selectivity: list[tuple[float, int]] = []
    for attribute, group in zip(attributes.tolist(), np.split(rows, first[1:])):
        low, high = facts.low[group], facts.high[group]
        share = estimate_shares(low, high, bool(floats[attribute]))
        selectivity.append((float((1 - share).sum()), attribute))
    return [attribute for _, attribute in sorted(selectivity, reverse=True)]


# ------------------------------------------------------------ boxes


class Boxes(NamedTuple):
    """n conjunctions as boxes of keys."""

    low: Int64s  # [2 n] the x axis, then the y axis
    high: Int64s  # [2 n]
    exact: UInt8s  # [n] whether the box is equivalent to the conjunction
    floats: UInt8s  # [2] whether an axis has the keys of floats

    @property
    def size(self) -> int:
        """The number of boxes."""
        return self.exact.shape[0]


def build_boxes(
    c: Conjunctions, axes: np.ndarray, is_float: np.ndarray, facts: Facts | None = None
) -> Boxes:
    """Return all conjunctions as boxes over two attributes; see `choose_axes`."""
    low, high = np.empty(2 * c.size, np.int64), np.empty(2 * c.size, np.int64)
    exact = np.empty(c.size, np.uint8)
    write_boxes(c, facts or facts_of(c), int(axes[0]), int(axes[1]), low, high, exact)
    return freeze_fields(Boxes, low=low, high=high, exact=exact, floats=is_float)


@kernel
def write_boxes(
    c: Conjunctions, f: Facts, x: int, y: int, low: Int64Out, high: Int64Out, exact: UInt8Out
) -> None:
    """Write each conjunction's box over the attributes x and y (-1: none)."""
    offsets, attribute, lows, highs, worth = c.offsets, c.attribute, f.low, f.high, f.worth
    n = exact.shape[0]
    for i in range(n):
        exact[i] = 1
        for axis in range(2):
            low[axis * n + i], high[axis * n + i] = NULL, HIGHEST
        for row in range(offsets[i], offsets[i + 1]):
            axis = 0 if attribute[row] == x else 1 if attribute[row] == y else -1
            if axis < 0 or worth[row] != EXACT:
                exact[i] = 0
            if axis >= 0 and worth[row] != NOTHING:
                low[axis * n + i], high[axis * n + i] = lows[row], highs[row]


# ------------------------------------------------------------ domains


class Sides(NamedTuple):
    """n intervals on one axis, as shares of its domain."""

    begin: float  # of the domain
    end: float
    share: np.ndarray  # [n]


def measure_sides(boxes: Boxes, axis: int) -> Sides:
    """Return the domain of an axis, and each box's side as a share of it."""
    own = slice(axis * boxes.size, (axis + 1) * boxes.size)
    return measure_shares(boxes.low[own], boxes.high[own], bool(boxes.floats[axis]))


def measure_shares(low: np.ndarray, high: np.ndarray, is_float: bool) -> Sides:
    """Return the domain of intervals, and the share of it that each covers."""
    begin, end = find_domain(low, high, is_float)
    return Sides(begin, end, cover_domain(begin, end, low, high, is_float))


def cover_domain(
    begin: float, end: float, low: np.ndarray, high: np.ndarray, is_float: bool
) -> np.ndarray:
    """Return the share of a domain that each interval covers.

    If the domain is a point, the shares are 1: a test that is the same in all rules
    (`active = true`, `z IS NOT NULL`) is not selective.
    """
    if end - begin < NARROW:
        return np.ones(len(low))
    side = np.clip(to_values(high, is_float), begin, end)
    side -= np.clip(to_values(low, is_float), begin, end)
    one = 0.0 if is_float else 1.0  # an interval of integers includes both ends
    share: np.ndarray = (side + one) / (end - begin + one)
    return share


def find_mentioned(low: np.ndarray, high: np.ndarray, is_float: bool) -> np.ndarray | None:
    """Return the integers that intervals mention, ascending, if these are the same few.

    As with categories, whose codes lie scattered, events are then assumed to have these.
    """
    if is_float or not len(low):
        return None
    bounds = find_bounds(low, high)
    mentioned = sort_distinct(bounds)
    is_point = float((low == high).mean()) >= 0.5
    repeated = len(bounds) / max(len(mentioned), 1)
    enough = _POINT_REPEATED if is_point else _REPEATED
    return mentioned if len(mentioned) > 1 and repeated >= enough else None


def find_bounds(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the ends of intervals that are bounded there."""
    return np.concatenate([low[low > LOWEST], high[(high < HIGHEST) & (high > NULL)]])


def cover_mentioned(mentioned: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the share of the integers mentioned that each interval includes, one at least."""
    inside = np.searchsorted(mentioned, high, "right") - np.searchsorted(mentioned, low)
    return np.asarray(np.clip(inside, 1, None) / len(mentioned))


def estimate_shares(low: np.ndarray, high: np.ndarray, is_float: bool) -> np.ndarray:
    """Estimate the share of events in intervals: the share of the domain, or of what they mention.

    The planner has a closer estimate, which takes longer (`costs.AssumedEvents`).
    """
    mentioned = find_mentioned(low, high, is_float)
    if mentioned is not None:
        return cover_mentioned(mentioned, low, high)
    return measure_shares(low, high, is_float).share


def sort_distinct(values: np.ndarray) -> np.ndarray:
    """Return distinct values, ascending; NumPy's `unique` hashes them and takes far longer."""
    values = np.sort(values)
    return values[np.concatenate([np.ones(min(len(values), 1), bool), values[1:] != values[:-1]])]


def find_domain(low: np.ndarray, high: np.ndarray, is_float: bool) -> tuple[float, float]:
    """Return the range of finite bounds, without far outliers; integers for integers."""
    bounds = np.concatenate([to_values(low, is_float), to_values(high, is_float)])
    far = FAR if is_float else FAR_INTEGER
    bounds = np.clip(bounds[np.isfinite(bounds)], -far, far)
    if not len(bounds):
        return 0.0, 0.0
    begin, end = float(bounds.min()), float(bounds.max())
    if len(bounds) > _MIN_BOUNDS:
        low_quantile, high_quantile = np.quantile(np.sort(bounds), _QUANTILES).tolist()
        spread = high_quantile - low_quantile
        if spread >= NARROW:
            begin, end = max(begin, low_quantile - spread), min(end, high_quantile + spread)
    # Quantiles of integers may be fractions, but cells must be able to hold exactly one integer.
    return (begin, end) if is_float else (float(np.floor(begin)), float(np.ceil(end)))


def compute_scale(pieces: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the number of pieces per unit of each domain; 0 if it is too narrow to cut."""
    extent = end - begin
    return np.where(extent < NARROW, 0.0, pieces / np.maximum(extent, NARROW))


# ------------------------------------------------------------ keys and numbers


def to_values(keys: np.ndarray, is_float: bool) -> np.ndarray:
    """Return the numbers of keys; unbounded ends are infinite."""
    if is_float:
        numbers = np.where(keys >= 0, keys, NULL - keys).view(np.float64).copy()
        numbers[np.isnan(numbers)] = np.inf
    else:
        numbers = keys.astype(np.float64)
    numbers[keys <= LOWEST] = -np.inf
    numbers[keys == HIGHEST] = np.inf
    return numbers


def to_keys(numbers: np.ndarray, is_float: bool) -> np.ndarray:
    """Return the keys of finite numbers."""
    if is_float:
        bits = np.asarray(numbers, np.float64).view(np.int64)
        return np.where(bits >= 0, bits, NULL - bits)
    return np.clip(numbers, -FAR_INTEGER, FAR_INTEGER).astype(np.int64)
