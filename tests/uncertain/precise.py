"""Answers for all families with 40 digits, by quadrature between the places of no smoothness.

A variable is a value, or a distance to q in one, two or three dimensions: its distribution
function, its density, and the places where they are not smooth. Far out in a tail of a normal
distribution, and for lenses of two nearly equal circles, differences lose half of the digits.
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from mpmath import mp, mpf

from tests.uncertain.cases import Disk, Histogram, Normal, Uniform, ends, is_point, mirror

mp.dps = 40

_TOLERANCE = mpf(10) ** -15  # of an integral over a piece; tests compare to 1e-10
_NODES = 16


class Variable(NamedTuple):
    breaks: list[mpf]  # from its lowest to its highest value; a single one is a point
    cdf: Callable[[mpf], mpf]
    pdf: Callable[[mpf], mpf]  # anything outside of the breaks


def value(density):
    """Return the variable of a density."""
    low, high = map(mpf, ends(density))
    if low == high:
        return Variable([low], lambda x: mpf(x >= low), lambda x: mpf(0))
    match density:
        case Uniform():
            return Variable(
                [low, high], lambda x: (x - low) / (high - low), lambda x: 1 / (high - low)
            )
        case Normal():
            return _truncated_normal(density)
        case Histogram():
            return _histogram(density)
    raise TypeError(density)


def _truncated_normal(density):
    mean, deviation, low, high = map(mpf, density)
    # Tails on the side of the farther end keep their digits.
    side = 1 if low - mean + high - mean >= 0 else -1
    near, far = sorted([side * (low - mean) / deviation, side * (high - mean) / deviation])
    near_tail = mp.erfc(near / mp.sqrt(2))
    whole = near_tail - mp.erfc(far / mp.sqrt(2))
    peak = mp.sqrt(2 / mp.pi) / (whole * deviation)

    def cdf(x):
        beyond = (near_tail - mp.erfc(side * (x - mean) / deviation / mp.sqrt(2))) / whole
        return beyond if side > 0 else 1 - beyond

    def pdf(x):
        return peak * mp.exp(-(((x - mean) / deviation) ** 2) / 2)

    # Where the density falls by orders of magnitude within the interval, it needs more pieces.
    scale = deviation / max(near, 1)
    start = mean + side * max(near, 0) * deviation
    steps = [k * scale * sign for k in (0, 2, 5, 9, 16) for sign in (1, -1)]
    inner = {start + step for step in steps if low < start + step < high}
    if (high - low) / scale < 4:
        inner = set()
    return Variable(sorted({low, high} | inner), cdf, pdf)


def _histogram(density):
    low, high = ends(density)
    edges, weights = [], []
    for edge, weight in zip(density.edges, [*density.weights, 0.0], strict=True):
        if low <= edge <= high:
            edges.append(mpf(edge))
            weights.append(mpf(weight))
    whole = sum(weights[:-1])

    def bin_of(x):
        return max(j for j in range(len(edges) - 1) if edges[j] <= x or j == 0)

    def pdf(x):
        j = bin_of(x)
        return weights[j] / whole / (edges[j + 1] - edges[j])

    def cdf(x):
        j = bin_of(x)
        return sum(weights[:j]) / whole + (x - edges[j]) * pdf(x)

    return Variable(edges, cdf, pdf)


def distance(density, q):
    """Return the variable of the distance to q."""
    if isinstance(density, Disk):
        return _distance_to_disk(density, q)
    inner, q = value(density), mpf(q)
    low, high = inner.breaks[0], inner.breaks[-1]
    breaks = sorted({abs(x - q) for x in inner.breaks} | ({mpf(0)} if low < q < high else set()))

    def pdf(r):
        return sum(inner.pdf(x) for x in (q - r, q + r) if low <= x <= high)

    def cdf(r):
        return cdf_at(inner, q + r) - cdf_at(inner, q - r)

    return Variable(breaks, cdf, pdf)


def _distance_to_disk(density, q):
    radius = mpf(density.radius)
    away = mp.sqrt(sum((mpf(c) - mpf(x)) ** 2 for c, x in zip(density.center, q, strict=True)))
    if not radius:
        return Variable([away], lambda r: mpf(r >= away), lambda r: mpf(0))
    is_flat = len(density.center) == 2
    breaks = sorted({max(away - radius, mpf(0)), abs(away - radius), away + radius})

    def half_angle(r, other):
        """Return the angle at the center of a circle of radius r, between the centers and an
        intersection with the circle of the other radius."""
        cosine = (away**2 + r**2 - other**2) / (2 * away * r)
        return mp.acos(min(max(cosine, mpf(-1)), mpf(1)))

    def contains(r):
        return away + r <= radius  # the circle about q is within the disk

    def pdf(r):
        if is_flat:
            angle = mp.pi if contains(r) else half_angle(r, radius)
            return 2 * angle * r / (mp.pi * radius**2)
        share = mpf(2) if contains(r) else 1 - mp.cos(half_angle(r, radius))
        return mpf(3) / 2 * r**2 * share / radius**3

    def cdf(r):
        if contains(r):
            return (r / radius) ** len(density.center)
        if is_flat:
            angles = half_angle(r, radius), half_angle(radius, r)
            segments = [
                size**2 * (angle - mp.sin(angle) * mp.cos(angle))
                for size, angle in zip((r, radius), angles, strict=True)
            ]
            return sum(segments) / (mp.pi * radius**2)
        caps = [
            size**3 * (2 - 3 * mp.cos(angle) + mp.cos(angle) ** 3) / 3
            for size, angle in ((r, half_angle(r, radius)), (radius, half_angle(radius, r)))
        ]
        return sum(caps) / (radius**3 * 4 / 3)

    return Variable(breaks, cdf, pdf)


def cdf_at(variable, x):
    """Return the probability of at most x, anywhere."""
    if x < variable.breaks[0]:
        return mpf(0)
    return mpf(1) if x >= variable.breaks[-1] else variable.cdf(x)


# ------------------------------------------------------------ which one


def minimum(densities):
    """Return for each value the probability that it is lowest."""
    return win_probabilities([value(density) for density in densities])


def maximum(densities):
    return minimum([mirror(density) for density in densities])


def nearest(densities, q):
    """Return for each value the probability that it is nearest to q."""
    curved = any(isinstance(density, Disk) for density in densities)
    return win_probabilities([distance(density, q) for density in densities], curved)


def in_range(densities, low, high):
    """Return for each value the probability that it is within [low, high]."""
    low, high = mpf(low), mpf(high)
    found = []
    for density in densities:
        variable = value(density)
        if is_point(density):
            found.append(mpf(low <= variable.breaks[0] <= high))
        else:
            found.append(cdf_at(variable, high) - cdf_at(variable, low))
    return found


def win_probabilities(variables, curved=False):
    """Return for each variable the probability that it is smallest; equal points share."""
    end = min(variable.breaks[-1] for variable in variables)
    wins = [mpf(0)] * len(variables)

    def densities_of_wins(x):
        present = [(i, v) for i, v in enumerate(variables) if len(v.breaks) > 1 and v.breaks[0] < x]
        survivals = [1 - cdf_at(v, x) for _, v in present]
        found = [mpf(0)] * len(variables)
        for j, (i, v) in enumerate(present):
            others = mp.fprod(survivals[:j] + survivals[j + 1 :])
            found[i] = v.pdf(x) * others
        return found

    for a, b in pairwise(breaks_below(variables, end)):
        if survival_of_all(variables, a) < mpf(10) ** -30:
            break
        wins = [w + p for w, p in zip(wins, integrate(densities_of_wins, a, b, curved))]
    tied = [i for i, variable in enumerate(variables) if variable.breaks == [end]]
    for i in tied:
        wins[i] = survival_of_all(variables, end) / len(tied)
    return wins


def survival_of_all(variables, x):
    """Return the probability that all variables but points are above x."""
    return mp.fprod(1 - cdf_at(v, x) for v in variables if len(v.breaks) > 1)


def breaks_below(variables, end):
    return sorted({x for variable in variables for x in variable.breaks if x < end} | {end})


# ------------------------------------------------------------ which value


class Lowest:
    """The distribution of the lowest value."""

    def __init__(self, densities):
        self.variables = [value(density) for density in densities]
        self.low = min(variable.breaks[0] for variable in self.variables)
        self.high = min(variable.breaks[-1] for variable in self.variables)
        self.knots = breaks_below(self.variables, self.high)
        has_point = any(variable.breaks == [self.high] for variable in self.variables)
        self.atom = survival_of_all(self.variables, self.high) if has_point else mpf(0)

    def cdf(self, x):
        return mpf(1) if x >= self.high else 1 - survival_of_all(self.variables, mpf(x))

    def pdf(self, x):
        x = mpf(x)
        present = [v for v in self.variables if v.breaks[0] < x < v.breaks[-1]]
        return mp.fsum(
            v.pdf(x) * survival_of_all([w for w in self.variables if w is not v], x)
            for v in present
        )

    @property
    def mean(self):
        pieces = pairwise(self.knots)
        survival = lambda x: [survival_of_all(self.variables, x)]  # noqa: E731
        return self.low + sum(integrate(survival, a, b)[0] for a, b in pieces)

    def quality(self):
        """Return minus the differential entropy in bits."""
        return quality(self.pdf, self.knots)


def quality(pdf, knots):
    """Return the integral of f log2(f)."""

    def integrand(x):
        f = pdf(x)
        return f * mp.log(f, 2) if f > 0 else mpf(0)

    with mp.workdps(20):
        return mp.quad(integrand, knots)


def total_pdf(variables, x):
    """Return the density of a sum of two or three values at x, by convolution (5.4)."""
    first, *rest = variables
    x = mpf(x)
    if not rest:
        return first.pdf(x) if first.breaks[0] < x < first.breaks[-1] else mpf(0)
    sums = [mpf(0)]
    for variable in rest:
        sums = [s + b for s in sums for b in variable.breaks]
    low, high = max(first.breaks[0], x - max(sums)), min(first.breaks[-1], x - min(sums))
    inner = {y for y in [*first.breaks, *(x - s for s in sums)] if low < y < high}
    whole = mpf(0)
    for a, b in pairwise(sorted({low, high} | inner) if low < high else []):
        for y, weight in nodes(a, b, _NODES):
            whole += weight * first.pdf(y) * total_pdf(rest, x - y)
    return whole


# ------------------------------------------------------------ quadrature


def integrate(function, a, b, curved=False, depth=0):
    """Return the integrals of a function that returns a list.

    A curved integrand has square roots at the ends of a piece, which a substitution makes smooth.
    """
    whole = _apply(function, a, b, curved)
    middle = (a + b) / 2
    if curved:  # halves would have a root at one end only, so compare with more nodes
        better = _apply(function, a, b, curved, 2 * _NODES)
    else:
        left, right = _apply(function, a, middle), _apply(function, middle, b)
        better = [x + y for x, y in zip(left, right, strict=True)]
    error = max(abs(x - y) for x, y in zip(whole, better, strict=True))
    if error <= _TOLERANCE:
        return better
    if depth == 12:
        raise ArithmeticError(f"no convergence between {a} and {b}: {error}")
    parts = (
        integrate(function, a, middle, curved, depth + 1),
        integrate(function, middle, b, curved, depth + 1),
    )
    return [x + y for x, y in zip(*parts, strict=True)]


def _apply(function, a, b, curved=False, count=_NODES):
    columns = [[weight * y for y in function(x)] for x, weight in nodes(a, b, count, curved)]
    return [mp.fsum(column) for column in zip(*columns, strict=True)]


def nodes(a, b, count, curved=False):
    """Return the nodes and weights of Gauss-Legendre quadrature between a and b."""
    width = b - a
    for t, weight in _gauss_legendre(count):
        if curved:
            angle = mp.pi * t / 2
            yield a + width * mp.sin(angle) ** 2, width * weight * mp.pi / 2 * mp.sin(2 * angle)
        else:
            yield a + width * t, width * weight


@cache
def _gauss_legendre(count):
    """Return nodes and weights between 0 and 1: those of NumPy, with more digits by Newton."""
    found = []
    for x in map(mpf, np.polynomial.legendre.leggauss(count)[0].tolist()):
        for _ in range(3):
            before, here = mpf(1), x
            for k in range(2, count + 1):
                before, here = here, ((2 * k - 1) * x * here - (k - 1) * before) / k
            slope = count * (x * here - before) / (x**2 - 1)
            x -= here / slope
        found.append(((1 + x) / 2, 1 / ((1 - x**2) * slope**2)))
    return found
