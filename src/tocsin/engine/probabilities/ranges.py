"""The probability of predicates on one uncertain attribute."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Int32s, Int64s, UInt8s, bare_step, freeze, freeze_fields
from tocsin.model.attributes import Attributes
from tocsin.model.encoding import number_key
from tocsin.model.event_densities import EventDensities
from tocsin.model.keys import to_number
from tocsin.model.predicates import INTERVAL, SET
from tocsin.uncertain.densities import HISTOGRAM, NORMAL, UNIFORM, Densities, cdf_of

DISCRETE, FLOATS, TIMES = range(3)  # what the keys of an attribute are
_ONE = number_key(1.0)


class Uncertainty(NamedTuple):
    """How the uncertain values of a block of n events are distributed."""

    scale: UInt8s  # [attributes] DISCRETE, FLOATS or TIMES
    offsets: Int64s  # [n + 1] the densities of event e are offsets[e] to offsets[e + 1]; or [0]
    attribute: Int32s  # [v]
    density: Densities  # [v]


def scales_of(attributes: Attributes) -> np.ndarray:
    """Return what the keys of each attribute are."""
    scales = {"number": FLOATS, "time": TIMES}
    return freeze(np.array([scales.get(kind, DISCRETE) for kind in attributes.kinds]), np.uint8)


_NO_DENSITIES = freeze_fields(
    Densities, family=[], low=[], high=[], mean=[], deviation=[], first=[0], edge=[], below=[]
)
_NO_OFFSETS, _NO_ATTRIBUTES = freeze(np.empty(0), np.int64), freeze(np.empty(0), np.int32)


def uncertainty_of(scale: np.ndarray, densities: EventDensities | None) -> Uncertainty:
    """Return the uncertainty of a block of events."""
    if densities is None:
        return Uncertainty(scale, _NO_OFFSETS, _NO_ATTRIBUTES, _NO_DENSITIES)
    d = densities
    family = np.where(d.deviation > 0, NORMAL, UNIFORM)
    family[np.diff(d.first) > 0] = HISTOGRAM
    return Uncertainty(
        scale,
        d.offsets,
        d.attribute,
        Densities(
            freeze(family, np.uint8), d.low, d.high, d.mean, d.deviation, d.first, d.edge, d.below
        ),
    )


# ------------------------------------------------------------ one attribute

# An event has the keys `first` to `last` of an attribute, first < last. Parts of this range are
# measured on a line of coordinates, from that where `first` begins to that where `last` ends. A
# uniform range is its own line; other densities have that of their distribution function. `at` is
# the density of the range, or -1 if it is uniform.


@bare_step
def outer_keys(scale, first, last, begin, end):
    """Return the keys that the keys from `begin` to `end` extend to, if they are continuous."""
    if scale == DISCRETE:
        return begin, end
    return begin if begin == first else begin - 1, end if end == last else end + 1


@bare_step
def uniform_place(scale, first, last, key):
    """Return the coordinate of a key in a uniform range: half a number, so as not to overflow.

    In a range about 0 it is a multiple instead: half of the least float is 0.
    """
    if scale == DISCRETE:
        return np.float64(np.uint64(key - first))
    if scale == FLOATS and first > -_ONE and last < _ONE:
        return 2.0**60 * to_number(key, True)
    return 0.5 * to_number(key, scale == FLOATS)


@bare_step
def uniform_share(scale, first, last, begin, end):
    """Return the share that the keys from `begin` to `end` have of a uniform range."""
    low, high = outer_keys(scale, first, last, begin, end)
    length = uniform_place(scale, first, last, high) - uniform_place(scale, first, last, low)
    whole = uniform_place(scale, first, last, last) - uniform_place(scale, first, last, first)
    if scale == DISCRETE:
        return (length + 1.0) / (whole + 1.0)
    return length / whole if begin < end else 0.0


@bare_step
def place_on_line(scale, d, at, first, last, begin, end):
    """Return the coordinates where the keys from `begin` to `end` begin and end."""
    low, high = outer_keys(scale, first, last, begin, end)
    if at >= 0:
        return cdf_of(d, at, to_number(low, True)), cdf_of(d, at, to_number(high, True))
    beyond = 1.0 if scale == DISCRETE else 0.0
    return uniform_place(scale, first, last, low), uniform_place(scale, first, last, high) + beyond


@bare_step
def first_point(points, begin, end, key, after):
    """Return the first of the points `begin` to `end` that is >= key, or > key if `after`."""
    while begin < end:
        middle = (begin + end) >> 1
        if points[middle] < key or (after and points[middle] == key):
            begin = middle + 1
        else:
            end = middle
    return begin


@bare_step
def count_points(points, begin, end, low, high):
    """Return how many of the points `begin` to `end`, which ascend, are within [low, high]."""
    return first_point(points, begin, end, high, True) - first_point(points, begin, end, low, False)


@bare_step
def measure(kind, low, high, points, row, stop, scale, d, at, first, last):
    """Return the probability of the predicates in rows `row` to `stop`, all on one attribute.

    They are one predicate, or an interval and a complement.
    """
    begin, end = first, last
    if kind[row] == INTERVAL:
        begin, end = max(begin, low[row]), min(end, high[row])
        if begin > end:
            return 0.0
    if at >= 0:
        if kind[row] == SET or begin == end:
            return 0.0
        lower, upper = place_on_line(scale, d, at, first, last, begin, end)
        return min(max(upper - lower, 0.0), 1.0)
    if kind[row] == SET:
        share = 0.0
    else:
        share = uniform_share(scale, first, last, begin, end)
    if scale == DISCRETE and kind[stop - 1] != INTERVAL:
        count = count_points(points, low[stop - 1], high[stop - 1], begin, end)
        whole = np.float64(np.uint64(last - first)) + 1.0
        if kind[row] == SET:
            return count / whole
        return (np.float64(np.uint64(end - begin)) + 1.0 - count) / whole
    return share
