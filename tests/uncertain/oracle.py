"""Exact answers for points, uniform values and histograms, in rational arithmetic.

A float is a rational number, so no answer here is rounded, except for entropies. A value or a
distance is given by the corners of its distribution function, [(x, P(value <= x)), ...], which is
linear between them; a point has one corner, (x, 1).
"""

import math
from bisect import bisect_right
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

from mpmath import mp, mpf

from tests.uncertain.cases import Histogram, Point, Uniform, ends, is_point, mirror

# ------------------------------------------------------------ one value


def corners(density):
    """Return the distribution function of a value."""
    if is_point(density):
        return [(Fraction(ends(density)[0]), Fraction(1))]
    match density:
        case Uniform(low, high):
            return [(Fraction(low), Fraction(0)), (Fraction(high), Fraction(1))]
        case Histogram(edges, weights):
            weights = [Fraction(weight) for weight in weights]
            total = sum(weights)
            below = accumulate((weight / total for weight in weights), initial=Fraction(0))
            low, high = ends(density)
            return [
                (Fraction(edge), share)
                for edge, share in zip(edges, below, strict=True)
                if low <= edge <= high
            ]
    raise TypeError(density)


def distance_corners(density, q):
    """Return the distribution function of a value's distance to q."""
    value, q = corners(density), Fraction(q)
    distances = {abs(x - q) for x, _ in value}
    if len(value) == 1:
        return [(distances.pop(), Fraction(1))]
    if value[0][0] < q < value[-1][0]:
        distances.add(Fraction(0))
    return [(r, cdf(value, q + r) - cdf(value, q - r)) for r in sorted(distances)]


def cdf(variable, x):
    """Return the probability of at most x."""
    if x < variable[0][0]:
        return Fraction(0)
    if x >= variable[-1][0]:
        return Fraction(1)
    j = bisect_right(variable, x, key=lambda corner: corner[0]) - 1
    (a, below_a), (b, below_b) = variable[j], variable[j + 1]
    return below_a + (below_b - below_a) * (x - a) / (b - a)


def in_range(densities, low, high):
    """Return for each value the probability that it is within [low, high]."""
    low, high = Fraction(low), Fraction(high)
    found = []
    for density in densities:
        variable = corners(density)
        if len(variable) == 1:
            found.append(Fraction(low <= variable[0][0] <= high))
        else:
            found.append(cdf(variable, high) - cdf(variable, low))
    return found


# ------------------------------------------------------------ which one


def minimum(densities):
    """Return for each value the probability that it is lowest."""
    return win_probabilities([corners(density) for density in densities])


def maximum(densities):
    return minimum([mirror(density) for density in densities])


def nearest(densities, q):
    """Return for each value the probability that it is nearest to q."""
    return win_probabilities([distance_corners(density, q) for density in densities])


def win_probabilities(variables):
    """Return for each variable the probability that it is smallest; equal points share."""
    end = min(variable[-1][0] for variable in variables)
    wins = [Fraction(0)] * len(variables)
    for _, _, factors in survival_pieces(variables):
        # The product of all but one factor is that of those before it and those after it.
        before = list(accumulate(factors.values(), multiply, initial=([1], 1)))
        after = list(accumulate(reversed(factors.values()), multiply, initial=([1], 1)))[::-1]
        for j, (i, ((_, slope), denominator)) in enumerate(factors.items()):
            others, scale = multiply(before[j], after[j + 1])
            integral = sum(Fraction(c, power + 1) for power, c in enumerate(others))
            wins[i] -= Fraction(slope, denominator) * integral / scale
    tied = [i for i, variable in enumerate(variables) if variable == [(end, 1)]]
    for i in tied:
        wins[i] = survival_of_all(variables, end) / len(tied)
    return wins


def survival_of_all(variables, x):
    """Return the probability that all variables but points are above x."""
    return math.prod(1 - cdf(variable, x) for variable in variables if len(variable) > 1)


def survival_pieces(variables):
    """Return (a, b, factors) between corners, up to where one variable is certainly smaller.

    A factor is the probability of a variable to be above a + t (b - a), a polynomial of t; those
    that are 1 throughout are left out. Polynomials are integers over a common denominator.
    """
    end = min(variable[-1][0] for variable in variables)
    xs = sorted({x for variable in variables for x, _ in variable if x < end} | {end})
    pieces = []
    for a, b in pairwise(xs):
        factors = {}
        for i, variable in enumerate(variables):
            if len(variable) > 1 and variable[0][0] < b:
                start, stop = 1 - cdf(variable, a), 1 - cdf(variable, b)
                scale = math.lcm(start.denominator, stop.denominator)
                factors[i] = [int(start * scale), int((stop - start) * scale)], scale
        pieces.append((a, b, factors))
    return pieces


def multiply(one, other):
    """Return the product of two polynomials over denominators."""
    product = [0] * (len(one[0]) + len(other[0]) - 1)
    for i, c in enumerate(one[0]):
        for j, d in enumerate(other[0]):
            product[i + j] += c * d
    return product, one[1] * other[1]


def entropy(probabilities):
    """Return the entropy in bits."""
    return math.fsum(-float(p) * math.log2(p) for p in probabilities if float(p))


# ------------------------------------------------------------ which value


class Lowest:
    """The distribution of the lowest value: polynomials between corners, and perhaps an atom."""

    def __init__(self, densities):
        variables = [corners(density) for density in densities]
        self.low = min(variable[0][0] for variable in variables)
        self.high = min(variable[-1][0] for variable in variables)
        self.pieces = []  # (a, b, the probability to be above a + t (b - a))
        for a, b, factors in survival_pieces(variables):
            coefficients, scale = [1], 1
            for factor in factors.values():
                coefficients, scale = multiply((coefficients, scale), factor)
            self.pieces.append((a, b, [Fraction(c, scale) for c in coefficients]))
        has_point = any(variable == [(self.high, 1)] for variable in variables)
        self.atom = survival_of_all(variables, self.high) if has_point else Fraction(0)

    @property
    def knots(self):
        return [a for a, _, _ in self.pieces] + [self.high]

    @property
    def atoms(self):
        return [(self.high, self.atom)] if self.atom else []

    @cached_property
    def mean(self):
        above = sum((b - a) * integrate(survival) for a, b, survival in self.pieces)
        return self.low + above

    def cdf(self, x):
        x = Fraction(x)
        if x < self.low:
            return Fraction(0)
        if x >= self.high:
            return Fraction(1)
        a, b, survival = self._piece(x)
        return 1 - evaluate(survival, (x - a) / (b - a))

    def pdf(self, x):
        """Return the density of the continuous part, between corners."""
        x = Fraction(x)
        if not self.low < x < self.high:
            return Fraction(0)
        a, b, survival = self._piece(x)
        return -evaluate(differentiate(survival), (x - a) / (b - a)) / (b - a)

    def quality(self):
        """Return minus the differential entropy in bits."""
        if self.atom:
            return math.inf
        return quality_of_pieces(
            (b - a, [-c / (b - a) for c in differentiate(survival)])
            for a, b, survival in self.pieces
        )

    def _piece(self, x):
        return self.pieces[bisect_right(self.knots, x) - 1]


class Highest:
    """The distribution of the highest value: the lowest of the mirrored ones, mirrored."""

    def __init__(self, densities):
        self.mirrored = Lowest([mirror(density) for density in densities])
        self.low, self.high = -self.mirrored.high, -self.mirrored.low
        self.atom, self.mean = self.mirrored.atom, -self.mirrored.mean
        self.knots = [-x for x in reversed(self.mirrored.knots)]
        self.atoms = [(-x, p) for x, p in self.mirrored.atoms]

    def cdf(self, x):
        x = Fraction(x)
        return 1 - self.mirrored.cdf(-x) + (self.atom if x == self.low else 0)

    def pdf(self, x):
        return self.mirrored.pdf(-Fraction(x))

    def quality(self):
        return self.mirrored.quality()


class Total:
    """The distribution of the sum, as truncated powers.

    The density of a value is a sum of steps, and n steps at k_1, ..., k_n convolve to
    (x - k_1 - ... - k_n)^(n-1) / (n-1)! above the sum of their places. So the density of the sum is
    one such power for each choice of a step of every value.
    """

    def __init__(self, densities, scale=1):
        self.scale = Fraction(scale)  # of the sum, for averages
        variables = [corners(density) for density in densities]
        self.shift = sum(v[0][0] for v in variables if len(v) == 1)
        variables = [variable for variable in variables if len(variable) > 1]
        self.n = len(variables)
        self.low = self.scale * (self.shift + sum(v[0][0] for v in variables))
        self.high = self.scale * (self.shift + sum(v[-1][0] for v in variables))
        means = [sum((g - f) * (a + b) / 2 for (a, f), (b, g) in pairwise(v)) for v in variables]
        self.mean = self.scale * (self.shift + sum(means))
        steps = {Fraction(0): Fraction(1)}
        for variable in variables:
            slopes = [(g - f) / (b - a) for (a, f), (b, g) in pairwise(variable)]
            jumps = [b - a for a, b in pairwise([0, *slopes, 0])]
            convolved = {}
            for place, height in steps.items():
                for (x, _), jump in zip(variable, jumps, strict=True):
                    if jump:
                        convolved[place + x] = convolved.get(place + x, 0) + height * jump
            steps = convolved
        # Integers: places over one denominator, heights over another.
        self.unit = math.lcm(*(place.denominator for place in steps))
        self.height_unit = math.lcm(*(height.denominator for height in steps.values()))
        self.steps = sorted(
            (int(place * self.unit), int(height * self.height_unit))
            for place, height in steps.items()
            if height
        )

    @property
    def knots(self):
        return [self.scale * (self.shift + Fraction(place, self.unit)) for place, _ in self.steps]

    @property
    def atoms(self):
        return [] if self.n else [(self.low, Fraction(1))]

    def _powers(self, x, power):
        """Return the sum of truncated powers at x, which is without scale and shift."""
        numerator, denominator = x.numerator * self.unit, x.denominator
        total = 0
        for place, height in self.steps:
            base = numerator - place * denominator
            if base <= 0:
                break
            total += height * base**power
        scale = (denominator * self.unit) ** power * math.factorial(power) * self.height_unit
        return Fraction(total, scale)

    def cdf(self, x):
        x = Fraction(x)
        if self.n and self.low < x < self.high:
            return self._powers(x / self.scale - self.shift, self.n)
        return Fraction(x >= self.high)

    def pdf(self, x):
        """Return the density, between corners."""
        x = Fraction(x)
        if self.n and self.low < x < self.high:
            return self._powers(x / self.scale - self.shift, self.n - 1) / self.scale
        return Fraction(0)

    def quality(self):
        """Return minus the differential entropy in bits."""
        if not self.n:
            return math.inf
        pieces = []
        places = [Fraction(place, self.unit) for place, _ in self.steps]
        for a, b in pairwise(places):
            width = b - a
            # Just above a: a step there counts with power 0 only, as `_powers` leaves it out.
            taylor = [self._powers(a, self.n - 1 - j) for j in range(self.n - 1)]
            here = sum(height for place, height in self.steps if Fraction(place, self.unit) <= a)
            taylor.append(Fraction(here, self.height_unit))
            pieces.append((width, [c * width**j / math.factorial(j) for j, c in enumerate(taylor)]))
        return quality_of_pieces(pieces) - math.log2(self.scale)


def total(densities):
    return Total(densities)


def average(densities):
    return Total(densities, Fraction(1, len(densities)))


def value_quality(density):
    """Return the quality of one value's distribution."""
    if isinstance(density, Point) or is_point(density):
        return math.inf
    shares = [(g - f, b - a) for (a, f), (b, g) in pairwise(corners(density)) if g > f]
    return math.fsum(float(p) * math.log2(p / width) for p, width in shares)


# ------------------------------------------------------------ polynomials of t, from 0 to 1


def evaluate(coefficients, t):
    value = 0
    for c in reversed(coefficients):
        value = value * t + c
    return value


def differentiate(coefficients):
    return [power * c for power, c in enumerate(coefficients)][1:]


def integrate(coefficients):
    return sum(c / (power + 1) for power, c in enumerate(coefficients))


def quality_of_pieces(pieces):
    """Return the integral of f log2(f) over pieces of a width, with f a polynomial of t."""
    with mp.workdps(20):
        return float(sum(_quality_of_piece(width, coefficients) for width, coefficients in pieces))


def _quality_of_piece(width, coefficients):
    # A density may be 1e300: its scale is kept apart.
    top = max((abs(c) for c in coefficients), default=0)
    if not top:
        return mpf(0)
    scaled = [to_mpf(c / top) for c in coefficients]
    log_top = mp.log(to_mpf(top), 2)

    def integrand(t):
        f = evaluate(scaled, t)
        return f * (mp.log(f, 2) + log_top) if f > 0 else mpf(0)

    return to_mpf(width * top) * mp.quad(integrand, [0, 1])


def to_mpf(x):
    x = Fraction(x)
    return mpf(x.numerator) / x.denominator
