"""Densities of uncertain values: points, uniform, truncated normal and histograms, in flat arrays.

All objects of a set are in one layout, whatever their families, so that a kernel goes through them
in one loop. A histogram's bins are uniform; its edges and the probabilities below them are in two
arrays that all histograms share. Memory: 41 bytes per object, and 16 per edge of a histogram.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64Out, Float64s, Int64s, UInt8s, freeze_fields, kernel, step
from tocsin.uncertain.normal import share_above, truncated_density

POINT, UNIFORM, NORMAL, HISTOGRAM = range(4)
FAMILIES = ("point", "uniform", "normal", "histogram")


class Densities(NamedTuple):
    """n densities. Fields that a family does not use are 0."""

    family: UInt8s  # [n]
    low: Float64s  # [n] the values are within [low, high]
    high: Float64s  # [n]
    mean: Float64s  # [n] of the normal before it is truncated
    deviation: Float64s  # [n]
    first: Int64s  # [n + 1] where the edges of an object's histogram begin
    edge: Float64s  # [edges] ascending within a histogram, from its low to its high
    below: Float64s  # [edges] the probability of a value below that edge, from 0 to 1


def take_densities(d: Densities, positions: np.ndarray) -> Densities:
    """Return the densities at these positions, in this order."""
    sizes = np.diff(d.first)[positions]
    first = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(d.first[:-1][positions] - first[:-1], sizes) + np.arange(first[-1])
    return freeze_fields(
        Densities,
        family=d.family[positions],
        low=d.low[positions],
        high=d.high[positions],
        mean=d.mean[positions],
        deviation=d.deviation[positions],
        first=first,
        edge=d.edge[places],
        below=d.below[places],
    )


@step
def bin_of(d, i, x, rest):
    """Return the position of the last edge of a histogram up to the pair x, low <= x < high."""
    begin, end = d.first[i], d.first[i + 1] - 1
    while end - begin > 1:
        middle = (begin + end) >> 1
        if d.edge[middle] - x <= rest:
            begin = middle
        else:
            end = middle
    return begin


@step
def above_of(d, i, x, rest):
    """Return the probability that value i is above the pair x: the sum of a float and a rest."""
    if d.low[i] - x > rest:
        return 1.0
    if d.high[i] - x <= rest:
        return 0.0
    if d.family[i] == UNIFORM:
        return divide_spans(x, rest, d.high[i], d.low[i])
    if d.family[i] == NORMAL:
        return normal_above(d, i, x, rest)
    at = bin_of(d, i, x, rest)
    share = divide_spans(x, rest, d.edge[at + 1], d.edge[at])
    return (1 - d.below[at + 1]) + share * (d.below[at + 1] - d.below[at])


@step
def cdf_of(d, i, x):
    """Return the probability that value i is at most x.

    Not as 1 - `above_of`: a share that is a round number stays one, as thresholds often are.
    """
    if x < d.low[i]:
        return 0.0
    if x >= d.high[i]:
        return 1.0
    if d.family[i] == UNIFORM:
        return divide_lengths(d.low[i], x, d.low[i], d.high[i])
    if d.family[i] == NORMAL:
        return 1 - normal_above(d, i, x, 0.0)
    at = bin_of(d, i, x, 0.0)
    share = divide_lengths(d.edge[at], x, d.edge[at], d.edge[at + 1])
    return d.below[at] + share * (d.below[at + 1] - d.below[at])


@step
def pdf_of(d, i, x, rest):
    """Return the density of value i at the pair x; that of a point is 0 or infinite."""
    if d.low[i] - x > rest or d.high[i] - x < rest:
        return 0.0
    if d.family[i] == POINT:
        return np.inf
    if d.family[i] == UNIFORM:
        return divide_by_length(1.0, d.low[i], d.high[i])
    if d.family[i] == NORMAL:
        low, high, width, z, past, left = standardise_all(d, i, x, rest)
        return truncated_density(low, high, width, z, past, left) / d.deviation[i]
    at = bin_of(d, i, x, rest)
    return divide_by_length(d.below[at + 1] - d.below[at], d.edge[at], d.edge[at + 1])


@step
def normal_above(d, i, x, rest):
    """Return the probability that normal i is above the pair x, which is within its interval."""
    low, high, width, z, past, left = standardise_all(d, i, x, rest)
    return share_above(low, high, width, z, past, left)


@step
def standardise_all(d, i, x, rest):
    """Return the ends of normal i, its width, x, and how far x is from both ends, in deviations."""
    deviation = d.deviation[i]
    z = ((x - d.mean[i]) + rest) / deviation
    past, left = ((x - d.low[i]) + rest) / deviation, ((d.high[i] - x) - rest) / deviation
    width = (d.high[i] - d.low[i]) / deviation
    return standardise(d, i, d.low[i]), standardise(d, i, d.high[i]), width, z, past, left


@step
def standardise(d, i, x):
    """Return how many deviations x is above the mean of normal i."""
    return (x - d.mean[i]) / d.deviation[i]


# A length can overflow, and then its half is taken. Not always: half of the least float is 0.


@step
def divide_spans(x, rest, high, low):
    """Return (high - x) / (high - low) for the pair x."""
    length = high - low
    if length < np.inf:
        return ((high - x) - rest) / length
    return ((0.5 * high - 0.5 * x) - 0.5 * rest) / (0.5 * high - 0.5 * low)


@step
def divide_lengths(a, b, low, high):
    """Return (b - a) / (high - low), for a and b within them."""
    length = high - low
    if length < np.inf:
        return (b - a) / length
    return (0.5 * b - 0.5 * a) / (0.5 * high - 0.5 * low)


@step
def divide_by_length(probability, low, high):
    """Return probability / (high - low)."""
    length = high - low
    if length < np.inf:
        return probability / length
    return 0.5 * probability / (0.5 * high - 0.5 * low)


@kernel
def write_cdf(d: Densities, x: Float64s, out: Float64Out) -> None:
    """Write the probability that each value is at most its x."""
    for i in range(out.shape[0]):
        out[i] = cdf_of(d, i, x[i])


@kernel
def write_probabilities(d: Densities, low: float, high: float, out: Float64Out) -> None:
    """Write the probability of each value to be within [low, high], low <= high."""
    family, bottom, top = d.family, d.low, d.high
    for i in range(out.shape[0]):
        if bottom[i] > high or top[i] < low:
            out[i] = 0.0
        elif low <= bottom[i] and top[i] <= high:
            out[i] = 1.0
        elif family[i] == UNIFORM:
            begin, end = max(low, bottom[i]), min(high, top[i])
            out[i] = divide_lengths(begin, end, bottom[i], top[i])
        elif family[i] == NORMAL:
            within = normal_above(d, i, max(low, bottom[i]), 0.0)
            out[i] = max(within - normal_above(d, i, min(high, top[i]), 0.0), 0.0)
        else:
            out[i] = max(cdf_of(d, i, high) - cdf_of(d, i, low), 0.0)
