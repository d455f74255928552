"""Answers for many values, in floats, by NumPy: fixed Gauss-Legendre rules between all knots.

The probability that value i is lowest is the integral of its hazard times the product of all
survivals, whose logarithms are summed. Sums are inverted from their characteristic functions.
Errors are about 1e-13; `test_oracle.py` compares with exact answers.
"""

import math

import numpy as np
from scipy import special

from tests.uncertain.cases import Disk, Histogram, Normal, Uniform, ends, is_point, mirror

_PANELS = 128  # at least, between the lowest and the highest value that can win
_CHUNK = 2_000_000  # numbers of a matrix, chosen to stay in tens of megabytes
_LEAST = 1e-300  # instead of a survival of 0, to divide by


class Values:
    """n values; matrices are [x, n]."""

    def __init__(self, densities):
        self.densities = densities
        self.low, self.high = np.array([ends(d) for d in densities], float).reshape(-1, 2).T
        self.is_point = np.array([is_point(d) for d in densities], bool)
        self.uniform, self.normal, self.histogram = (
            np.array(
                [i for i, d in enumerate(densities) if isinstance(d, f) and not is_point(d)], int
            )
            for f in (Uniform, Normal, Histogram)
        )
        normals = [densities[i] for i in self.normal]
        self.mean, self.deviation = np.array([d[:2] for d in normals], float).reshape(-1, 2).T
        # Deviations from the mean, mirrored so that the farther end is above the mean.
        a = (self.low[self.normal] - self.mean) / self.deviation
        b = (self.high[self.normal] - self.mean) / self.deviation
        self.side = np.where(a + b >= 0, 1.0, -1.0)
        self.near = np.where(self.side > 0, a, -b)
        self.far = np.where(self.side > 0, b, -a)
        self.origin = np.maximum(self.near, 0)
        self.whole = normal_mass(self.near, self.far, self.origin)

    def knots(self):
        """Return where densities are not smooth, or change on another scale than their width."""
        knots = [self.low, self.high]
        knots += [np.array(self.densities[i].edges) for i in self.histogram]
        scale = self.deviation / np.maximum(self.near, 1)
        start = self.mean + self.side * self.origin * self.deviation
        for k in (0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 28, 40):
            for step in (-k * scale, k * scale):
                x = start + step
                inside = (self.low[self.normal] < x) & (x < self.high[self.normal])
                knots.append(x[inside])
        return np.unique(np.concatenate(knots))

    def below(self, x):
        """Return P(value <= x), of points too."""
        return self._shares(x, above=False)

    def above(self, x):
        """Return P(value > x), of points too."""
        return self._shares(x, above=True)

    def _shares(self, x, above):
        x = np.asarray(x, float)[:, None]
        inside = np.clip(x, self.low, self.high)
        width = np.where(self.is_point, 1, self.high - self.low)
        shares = (self.high - inside if above else inside - self.low) / width
        if len(self.normal):
            z = self.side * (inside[:, self.normal] - self.mean) / self.deviation
            z = np.clip(z, self.near, self.far)
            upper = normal_mass(z, self.far, self.origin) / self.whole
            lower = normal_mass(self.near, z, self.origin) / self.whole
            shares[:, self.normal] = np.where((self.side > 0) == above, upper, lower)
        for i in self.histogram:
            edges, weights = np.array(self.densities[i].edges), self.densities[i].weights
            parts = np.cumsum([0.0, *(weights[::-1] if above else weights)])
            parts = (parts[::-1] if above else parts) / parts[-1]
            shares[:, i] = np.interp(inside[:, i], edges, parts)
        at_most = x >= self.low
        return np.where(self.is_point, ~at_most if above else at_most, shares)

    def pdf(self, x):
        """Return the densities; those of points are 0."""
        x = np.asarray(x, float)[:, None]
        width = np.where(self.is_point, np.inf, self.high - self.low)
        found = np.broadcast_to(1 / width, (len(x), len(width))).copy()
        if len(self.normal):
            z = self.side * (x - self.mean) / self.deviation
            z = np.clip(z, self.near, self.far)
            exponent = -(z - self.origin) * (z + self.origin) / 2
            found[:, self.normal] = np.exp(exponent) / (self.whole * self.deviation)
        for i in self.histogram:
            edges, weights = self.densities[i].edges, np.array(self.densities[i].weights)
            heights = weights / weights.sum() / np.diff(edges)
            bins = np.clip(np.searchsorted(edges, x[:, 0], "right") - 1, 0, len(heights) - 1)
            found[:, i] = heights[bins]
        return np.where((x >= self.low) & (x <= self.high), found, 0)


def normal_mass(a, b, origin):
    """Return the integral of exp((origin^2 - y^2) / 2) from a to b.

    The origin is a or below it, and 0 if a is negative.
    """
    a, b, origin = np.broadcast_arrays(a, b, origin)
    width = b - a
    close = np.zeros(a.shape)
    for t, weight in zip(*gauss_legendre(12), strict=True):
        y = a + t * width
        close += weight * width * np.exp(np.minimum(-(y - origin) * (y + origin) / 2, 700))

    def tail(y):
        right = np.maximum(y, 0)
        scaled = np.exp(-(right - origin) * (right + origin) / 2) * special.erfcx(right / 2**0.5)
        return np.where(y >= 0, scaled, special.erfc(y / 2**0.5)) * math.sqrt(math.pi / 2)

    with np.errstate(over="ignore"):
        apart = tail(a) - tail(b)
    return np.where(width * (1 + abs(a) + abs(b)) < 1, close, apart)


class Distances:
    """The distances of n values to q."""

    def __init__(self, densities, q):
        self.values, self.q = Values(densities), q
        low, high = self.values.low, self.values.high
        self.low = np.where((low < q) & (q < high), 0, np.minimum(abs(low - q), abs(high - q)))
        self.high = np.maximum(abs(low - q), abs(high - q))
        self.is_point = self.values.is_point

    def knots(self):
        return np.unique(np.append(abs(self.values.knots() - self.q), 0))

    def above(self, r):
        is_below = r[:, None] < self.low  # exactly 1, whatever q + r is rounded to
        shares = self.values.above(self.q + r) + self.values.below(self.q - r)
        return np.where(is_below, 1, np.minimum(shares, 1))

    def pdf(self, r):
        return self.values.pdf(self.q + r) + self.values.pdf(self.q - r)


class DiskDistances:
    """The distances to q of n points in disks or balls."""

    def __init__(self, densities, q):
        centers = np.array([d.center for d in densities], float)
        self.dimensions = centers.shape[1]
        self.radius = np.array([d.radius for d in densities], float)
        self.away = np.sqrt(((centers - np.array(q, float)) ** 2).sum(1))
        self.low = np.maximum(self.away - self.radius, 0)
        self.high = self.away + self.radius
        self.is_point = self.radius == 0

    def knots(self):
        return np.unique(np.concatenate([self.low, self.high, abs(self.away - self.radius)]))

    def _half_angles(self, r):
        """Return the half angles of the arcs that the other circle cuts off, at q and inside."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = (self.radius - self.away + r) * (self.radius + self.away - r)
            at_q = gap / (4 * self.away * r)
            gap = (r - self.away + self.radius) * (r + self.away - self.radius)
            at_center = gap / (4 * self.away * self.radius)
        return [2 * np.arcsin(np.sqrt(np.clip(np.nan_to_num(x), 0, 1))) for x in (at_q, at_center)]

    def below(self, r):
        r = np.asarray(r, float)[:, None]
        radius = np.where(self.is_point, 1, self.radius)
        at_q, at_center = self._half_angles(r)
        if self.dimensions == 2:
            parts = r**2 * _segment(at_q) + radius**2 * _segment(at_center)
            shares = parts / (math.pi * radius**2)
        else:
            parts = r**3 * _cap(at_q) + radius**3 * _cap(at_center)
            shares = parts / (radius**3 * 4 / 3)
        shares = np.where(self.away + r <= radius, (r / radius) ** self.dimensions, shares)
        shares = np.where(r >= self.high, 1, np.where(r <= self.low, 0, shares))
        return np.where(self.is_point, r >= self.away, shares)

    def above(self, r):
        return 1 - self.below(r)

    def pdf(self, r):
        r = np.asarray(r, float)[:, None]
        radius = np.where(self.is_point, np.inf, self.radius)
        angle = np.where(self.away + r <= radius, math.pi, self._half_angles(r)[0])
        if self.dimensions == 2:
            found = 2 * angle * r / (math.pi * radius**2)
        else:
            found = 1.5 * r**2 * (1 - np.cos(angle)) / radius**3
        return np.where((r >= self.low) & (r <= self.high), found, 0)


def _segment(angle):
    """Return angle - sin(angle) cos(angle): the area that a chord cuts off a unit circle."""
    series = 2 / 3 * angle**3 * (1 - angle**2 / 5 * (1 - 2 / 21 * angle**2))
    return np.where(angle < 1e-2, series, angle - np.sin(angle) * np.cos(angle))


def _cap(angle):
    """Return the volume that a plane cuts off a unit ball, over pi."""
    height = 2 * np.sin(angle / 2) ** 2
    return height**2 * (3 - height) / 3


# ------------------------------------------------------------ which one


def minimum(densities, nodes=16):
    return win_probabilities(Values(densities), nodes)


def maximum(densities, nodes=16):
    return minimum([mirror(density) for density in densities], nodes)


def nearest(densities, q, nodes=16):
    if isinstance(densities[0], Disk):
        return win_probabilities(DiskDistances(densities, q), nodes, curved=True)
    return win_probabilities(Distances(densities, q), nodes)


def win_probabilities(variables, nodes=16, curved=False):
    """Return for each variable the probability that it is smallest; equal points share."""
    wins = np.zeros(len(variables.low))
    start, end = variables.low.min(), variables.high.min()
    for x, weight in grid(variables.knots(), start, end, nodes, curved, len(wins)):
        survival = np.maximum(variables.above(x), _LEAST)
        product = np.exp(np.log(survival).sum(1))
        wins += (weight * product) @ (variables.pdf(x) / survival)
        if product[-1] < 1e-30:
            break
    tied = variables.is_point & (variables.low == end)
    if tied.any():
        others = variables.above(np.array([end]))[0][~variables.is_point]
        wins[tied] = others.prod() / tied.sum()
    return wins


def grid(knots, start, end, nodes, curved=False, columns=1):
    """Yield nodes and weights in chunks, in ascending order."""
    if start == end:
        return
    knots = np.unique(np.concatenate([[start], knots[(start < knots) & (knots < end)], [end]]))
    parts = np.maximum(1, np.ceil(np.diff(knots) / ((end - start) / _PANELS))).astype(int)
    edges = [np.linspace(a, b, k, endpoint=False) for a, b, k in zip(knots, knots[1:], parts)]
    edges = np.append(np.concatenate(edges), end)
    t, share = gauss_legendre(nodes)
    if curved:  # square roots at the ends of a panel become smooth
        share = share * math.pi / 2 * np.sin(math.pi * t)
        t = np.sin(math.pi * t / 2) ** 2
    per_chunk = max(1, _CHUNK // (nodes * columns))
    for first in range(0, len(edges) - 1, per_chunk):
        a, b = edges[first : first + per_chunk + 1][:-1], edges[first + 1 : first + per_chunk + 1]
        width = (b - a)[:, None]
        yield (a[:, None] + width * t).ravel(), (width * share).ravel()


def gauss_legendre(nodes):
    """Return nodes and weights between 0 and 1."""
    x, weight = np.polynomial.legendre.leggauss(nodes)
    return (1 + x) / 2, weight / 2


# ------------------------------------------------------------ which value


class Lowest:
    """The distribution of the lowest value."""

    def __init__(self, densities):
        self.values = Values(densities)
        self.low, self.high = self.values.low.min(), self.values.high.min()

    def cdf(self, x):
        return 1 - np.prod(self.values.above(x), axis=1)

    def pdf(self, x):
        survival = np.maximum(self.values.above(x), _LEAST)
        return np.exp(np.log(survival).sum(1)) * (self.values.pdf(x) / survival).sum(1)

    def integrate(self, function):
        chunks = grid(self.values.knots(), self.low, self.high, 16, False, len(self.values.low))
        return sum(weight @ function(x) for x, weight in chunks)

    @property
    def mean(self):
        return self.low + self.integrate(lambda x: 1 - self.cdf(x))

    def quality(self):
        """Return minus the differential entropy in bits."""
        return self.integrate(lambda x: special.xlogy(self.pdf(x), self.pdf(x))) / math.log(2)


class Total:
    """The distribution of the sum of three or more values, of similar widths."""

    def __init__(self, densities, tolerance=1e-12):
        values = Values(densities)
        self.low, self.high = math.fsum(values.low), math.fsum(values.high)
        span = self.high - self.low
        self.center = (self.low + self.high) / 2
        continuous = [d for d in densities if not is_point(d)]
        # |characteristic function| <= variation of the density / t, so the tail is bounded.
        logs, n = sum(math.log(variation(d)) for d in continuous), len(continuous)
        last = math.exp((logs - math.log(tolerance / span * (n - 1))) / (n - 1))
        panels = math.ceil(last * span / (2 * math.pi))
        t, weight = gauss_legendre(16)
        edges = np.arange(panels)[:, None]
        self.t = ((edges + t) * 2 * math.pi / span).ravel()
        self.weight = np.tile(weight * 2 * math.pi / span, panels)
        self.transform = np.ones(len(self.t), complex)
        for density in continuous:
            self.transform *= characteristic(density, self.t)

    def pdf(self, x):
        return np.array([self.weight @ self._turned(y).real for y in np.asarray(x)]) / math.pi

    def cdf(self, x):
        weight = self.weight / self.t
        return 0.5 - np.array([weight @ self._turned(y).imag for y in np.asarray(x)]) / math.pi

    def _turned(self, x):
        return np.exp(-1j * self.t * (x - self.center)) * self.transform


def variation(density):
    """Return the total variation of a density."""
    values = Values([density])
    x = values.knots()
    inner = np.concatenate([np.nextafter(x, -np.inf), x, np.nextafter(x, np.inf)])
    return float(abs(np.diff(values.pdf(np.sort(inner))[:, 0])).sum())


def characteristic(density, t):
    """Return E exp(i t (X - middle of the interval))."""
    low, high = ends(density)
    middle = (low + high) / 2
    match density:
        case Uniform():
            return np.sinc(t * (high - low) / (2 * math.pi))
        case Histogram(edges, weights):
            found = np.zeros(len(t), complex)
            for a, b, weight in zip(edges, edges[1:], weights):
                shift = np.exp(1j * t * ((a + b) / 2 - middle))
                found += weight * shift * np.sinc(t * (b - a) / (2 * math.pi))
            return found / math.fsum(weights)
    values = Values([density])
    a, b, origin = values.near[0], values.far[0], values.origin[0]
    z = t * density.deviation
    half = (b - a) / 2

    def corner(y, shift, sign):
        """Return the part of the transform that comes from an end of the interval."""
        scale = math.exp(-(y - origin) * (y + origin) / 2)
        return scale * np.exp(1j * shift * z) * special.wofz((sign * z + 1j * sign * y) / 2**0.5)

    if a >= 0:
        found = corner(a, -half, 1) - corner(b, half, 1)
    else:
        whole = 2 * np.exp(-z * z / 2 - 1j * z * (a + b) / 2)
        found = whole - corner(b, half, 1) - corner(a, -half, -1)
    found = found * math.sqrt(math.pi / 2) / values.whole[0]
    return found if values.side[0] > 0 else found.conj()
