"""Sets of uncertain values as plain tuples, which the oracles and the readings are made from."""

import math
from typing import NamedTuple

import numpy as np

from tocsin.uncertain import Readings


class Point(NamedTuple):
    value: float


class Uniform(NamedTuple):
    low: float
    high: float


class Normal(NamedTuple):
    """A normal distribution that is truncated to [low, high]."""

    mean: float
    deviation: float
    low: float
    high: float


class Histogram(NamedTuple):
    edges: tuple[float, ...]
    weights: tuple[float, ...]


class Disk(NamedTuple):
    """Equal densities within a disk of the plane, or within a ball."""

    center: tuple[float, ...]
    radius: float


def ends(density):
    """Return the interval of a value; a histogram's is without bins of no weight at its ends."""
    match density:
        case Point(value):
            return value, value
        case Uniform(low, high):
            return low, high
        case Normal(mean, deviation, low, high):
            return (low, high) if deviation else (mean, mean)
        case Histogram(edges, weights):
            used = [j for j, weight in enumerate(weights) if weight]
            return edges[used[0]], edges[used[-1] + 1]


def is_point(density):
    low, high = ends(density)
    return low == high


def mirror(density):
    """Return the density of the negated value."""
    match density:
        case Point(value):
            return Point(-value)
        case Uniform(low, high):
            return Uniform(-high, -low)
        case Normal(mean, deviation, low, high):
            return Normal(-mean, deviation, -high, -low)
        case Histogram(edges, weights):
            return Histogram(tuple(-edge for edge in reversed(edges)), weights[::-1])


def to_readings(densities, ids=None):
    """Return readings with these densities, in this order; ids are positions by default."""
    ids = list(range(len(densities))) if ids is None else list(ids)
    if densities and isinstance(densities[0], Disk):
        centers, radii = zip(*densities, strict=True)
        return Readings.disks(ids, np.array(centers), np.array(radii))
    readings, order = Readings.points(ids[:0], []), []
    for family, build in (
        (Point, Readings.points),
        (Uniform, Readings.uniform),
        (Normal, Readings.normal),
        (Histogram, Readings.histogram),
    ):
        chosen = [i for i, density in enumerate(densities) if isinstance(density, family)]
        if not chosen:
            continue
        fields = zip(*(densities[i] for i in chosen), strict=True)
        part = build([ids[i] for i in chosen], *map(list, fields))
        readings = readings + part if order else part
        order += chosen
    return readings.take(np.argsort(order)) if order else readings


# ------------------------------------------------------------ sets of n, by their shape


def overlapping(rng, n):
    low = rng.uniform(0, 10, n)
    return [Uniform(a, a + w) for a, w in zip(low.tolist(), rng.uniform(0.1, 8, n).tolist())]


def identical(rng, n):
    return [Uniform(-1.5, 2.25)] * n


def nested(rng, n):
    return [Uniform(float(k), 3.0 * n - 2 * k + 1) for k in range(n)]


def nested_about_a_center(rng, n):
    return [Uniform(5 - 0.25 * (k + 1), 5 + 0.25 * (k + 1)) for k in range(n)]


def touching(rng, n):
    """Each interval ends where the next one begins."""
    return [Uniform(float(k), float(k + 1)) for k in range(n)]


def touching_the_end(rng, n):
    """All but one interval begin where the first one ends, or overlap it in part."""
    return [Uniform(0.0, 2.0)] + [Uniform(2.0 - (k % 3), 5.0) for k in range(n - 1)]


def with_points(rng, n):
    """Intervals of zero width among others: some equal, some where an interval begins or ends."""
    choices = [Point(2.0), Uniform(2.0, 2.0), Point(1.5), Uniform(1.0, 3.0), Uniform(2.0, 4.0),
               Uniform(0.5, 2.0), Histogram((1.0, 1.5, 2.0, 3.0), (0.25, 0.0, 0.75))]  # fmt: skip
    return [choices[i] for i in rng.integers(0, len(choices), n)]


def points_only(rng, n):
    return [Point(float(value)) for value in rng.integers(0, 3, n)]


def histogram(rng, low, high, bins, gaps=False):
    """Return a histogram of a few bins; with gaps, those in the middle have no weight."""
    inner = np.sort(rng.uniform(low, high, bins - 1)).tolist()
    weights = rng.random(bins) + 0.05
    if gaps and bins > 2:
        weights[rng.integers(1, bins - 1)] = 0
    return Histogram((low, *inner, high), tuple((weights / weights.sum()).tolist()))


def histograms(rng, n):
    low = rng.uniform(0, 4, n).tolist()
    return [histogram(rng, a, a + 3, int(rng.integers(1, 6))) for a in low]


def histograms_with_gaps(rng, n):
    low = rng.uniform(0, 2, n).tolist()
    return [histogram(rng, a, a + 3, int(rng.integers(3, 6)), gaps=True) for a in low]


def histograms_on_a_lattice(rng, n):
    """Edges coincide, and all of a value's overlap with others may be a gap."""
    kinds = [
        Histogram((0.0, 1.0, 2.0, 3.0), (0.5, 0.0, 0.5)),
        Histogram((0.0, 1.0, 2.0), (0.0, 1.0)),
        Histogram((1.0, 2.0, 3.0, 4.0), (0.25, 0.25, 0.5)),
        Histogram((-1.0, 0.0, 3.0, 4.0), (0.125, 0.0, 0.875)),
    ]
    return [kinds[i] for i in rng.integers(0, len(kinds), n)]


def mixed(rng, n):
    """Points, uniform values and histograms."""
    kinds = [Uniform(0.0, 4.0), Uniform(1.0, 3.5), Uniform(2.25, 9.0), Point(2.5), Point(3.0),
             histogram(rng, 0.5, 6.0, 4), histogram(rng, 1.5, 3.0, 3, gaps=True)]  # fmt: skip
    return [kinds[i] for i in rng.integers(0, len(kinds), n)]


def huge(rng, n):
    return [Uniform(a * 1e300, (a + w) * 1e300) for a, w in rng.uniform(-1, 1, (n, 2)) ** [[1, 2]]]


def widest(rng, n):
    """The widths of most are beyond the largest float."""
    low, high = rng.uniform(0.1, 1.7, (2, n))
    return [Uniform(-a * 1e308, b * 1e308) for a, b in zip(low.tolist(), high.tolist())]


def tiny(rng, n):
    return [Uniform(a * 1e-300, (a + w) * 1e-300) for a, w in rng.uniform(0, 1, (n, 2))]


def all_magnitudes(rng, n):
    """Widths from 1e-300 to 1e300, about zero."""
    scales = 10.0 ** rng.permutation(np.linspace(-300, 300, max(n, 2)))[:n]
    return [Uniform(-a * s, b * s) for s, (a, b) in zip(scales, rng.uniform(0.1, 1, (n, 2)))]


def few_ulps(rng, n):
    """Intervals of one to six neighboring floats."""
    start = rng.integers(0, 4, n)
    stop = start + rng.integers(1, 7, n)
    unit = math.ulp(1.0)
    return [Uniform(1 + a * unit, 1 + b * unit) for a, b in zip(start.tolist(), stop.tolist())]


def far_away(rng, n):
    """Widths of 1e-6 at 1e9: about eight floats."""
    low = 1e9 + rng.uniform(0, 1e-6, n)
    return [Uniform(a, a + w) for a, w in zip(low.tolist(), rng.uniform(3e-7, 2e-6, n).tolist())]


def steep(rng, n):
    """Widths of 1 and of 1e-6."""
    low = rng.uniform(0, 0.5, n).tolist()
    return [Uniform(a, a + (1e-6 if k % 2 else 1.0)) for k, a in enumerate(low)]


def normals(rng, n):
    """Intervals around the mean, some beside it."""
    found = []
    for mean, deviation, low, width in rng.uniform([0, 0.3, -3, 0.5], [4, 2, 3, 4], (n, 4)):
        found.append(Normal(mean, deviation, mean + low, mean + low + width))
    return found


def normals_in_a_tail(rng, n):
    """Intervals that begin 5 to 40 deviations from the mean, above it or below it."""
    found = []
    for _ in range(n):
        low, deviation = rng.uniform(0, 0.3), rng.uniform(0.5, 2)
        high = low + rng.uniform(0.3, 1)
        away = rng.uniform(5, 40) * deviation
        mean = low - away if rng.random() < 0.5 else high + away
        found.append(Normal(mean, deviation, low, high))
    return found


def narrow_normals(rng, n):
    """Deviations of a millionth of the interval, a few apart."""
    means = 3 + rng.uniform(-2e-6, 2e-6, n)
    return [Normal(mean, 1e-6 * rng.uniform(0.5, 2), 2.5, 3.5) for mean in means.tolist()]


def flat_normals(rng, n):
    """Deviations so large that the values are as good as uniform."""
    low = rng.uniform(0, 1, n).tolist()
    return [Normal(2.0, 10.0 ** (k % 7), a, a + 1) for k, a in enumerate(low)]


def one_sided_normals(rng, n):
    """The mean is an end of the interval, or the interval reaches far beyond it."""
    kinds = [Normal(1.0, 0.5, 1.0, 3.0), Normal(1.0, 0.5, -1.0, 1.0), Normal(1.0, 0.25, -9.0, 1.5),
             Normal(0.5, 0.25, 0.25, 99.0)]  # fmt: skip
    return [kinds[i] for i in rng.integers(0, len(kinds), n)]


def all_families(rng, n):
    """Every family, one after the other, in intervals that overlap."""
    found = []
    for k in range(n):
        low, width = rng.uniform(0, 2), rng.uniform(0.5, 3)
        high = low + width
        found.append([
            Uniform(low, high),
            Normal(rng.uniform(low - 1, high + 1), rng.uniform(0.1, 2), low, high),
            histogram(rng, low, high, 4, gaps=True),
            Point(rng.uniform(1, 3)),
            Normal(low - 8, rng.uniform(0.5, 1), low, high),
        ][k % 5])  # fmt: skip
    return found


# Those that rational arithmetic computes, and those with normal distributions.
EXACT = [
    overlapping, identical, nested, nested_about_a_center, touching, touching_the_end, with_points,
    points_only, histograms, histograms_with_gaps, histograms_on_a_lattice, mixed, huge, tiny,
    all_magnitudes, widest, few_ulps, far_away, steep,
]  # fmt: skip
NORMAL = [
    normals, normals_in_a_tail, narrow_normals, flat_normals, one_sided_normals, all_families,
]  # fmt: skip
