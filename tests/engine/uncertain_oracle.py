"""An oracle for rules with a threshold: the exact probability of a condition, in plain Python.

It shares no code with the library. Each uncertain value is cut at all literals of the condition
into pieces on which no leaf changes; every combination of pieces is evaluated with one value of
each. Probabilities are fractions, except those of normal distributions.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product

from tests import naive

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Uniform:
    low: object
    high: object

    def given(self):
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True)
class Normal:
    low: float
    high: float
    mean: float
    deviation: float

    def given(self):
        return vars(self).copy()


@dataclass(frozen=True)
class Histogram:
    edges: tuple[float, ...]
    weights: tuple[float, ...]

    def given(self):
        return {"edges": list(self.edges), "weights": list(self.weights)}


UNCERTAIN = (Uniform, Normal, Histogram)


def probability(condition, event):
    """Return the probability that a condition is true for an event with uncertain values."""
    uncertain = {a: v for a, v in event.items() if isinstance(v, UNCERTAIN)}
    literals = {a: set() for a in uncertain}
    collect(condition, literals)
    pieces = [pieces_of(value, literals[a]) for a, value in uncertain.items()]
    total = Fraction(0)
    for combination in product(*pieces):
        point = event | {a: v for a, (v, _) in zip(uncertain, combination, strict=True)}
        if naive.truth(condition, point) is True:
            total += math.prod(p for _, p in combination)
    return float(total)


def collect(node, literals):
    """Add the literals of a condition to those of their attributes."""
    for part in getattr(node, "parts", ()):
        collect(part, literals)
    if hasattr(node, "part"):
        collect(node.part, literals)
    if getattr(node, "attribute", None) in literals:
        found = [getattr(node, name, None) for name in ("literal", "low", "high")]
        literals[node.attribute].update(
            x for x in (*found, *getattr(node, "literals", ())) if x is not None
        )


def pieces_of(value, literals):
    """Return (representative, probability) for pieces on which no comparison changes."""
    if isinstance(value, Uniform) and isinstance(value.low, int):
        values = range(value.low, value.high + 1)
        return [(v, Fraction(1, len(values))) for v in values]
    if isinstance(value, Uniform) and isinstance(value.low, Decimal):
        count = int((value.high - value.low) * 100) + 1
        cent = Decimal("0.01")
        return [(value.low + i * cent, Fraction(1, count)) for i in range(count)]
    low, high = ends(value)
    if low == high:
        return [(from_line(low, value), 1)]
    cuts = sorted({low, high} | {x for x in map(to_line, literals) if low < x < high})
    return [
        (from_line((a + b) / 2, value), cdf(value, b) - cdf(value, a)) for a, b in pairwise(cuts)
    ]


def ends(value):
    if isinstance(value, Histogram):
        return Fraction(value.edges[0]), Fraction(value.edges[-1])
    return to_line(value.low), to_line(value.high)


def to_line(value):
    if isinstance(value, datetime):
        return Fraction((value - EPOCH) // timedelta(microseconds=1))
    return Fraction(value)


def from_line(x, value):
    if isinstance(value, Uniform) and isinstance(value.low, datetime):
        return EPOCH + timedelta(microseconds=int(x))
    return float(x)


def cdf(value, x):
    """Return the probability of a value of at most x, which is within the range."""
    low, high = ends(value)
    match value:
        case Uniform():
            return (x - low) / (high - low)
        case Normal(_, _, mean, deviation):
            below, at, above = (
                math.erf((float(z) - mean) / deviation / math.sqrt(2)) for z in (low, x, high)
            )
            return (at - below) / (above - below)
        case Histogram(edges, weights):
            total = Fraction(0)
            for (a, b), weight in zip(pairwise(edges), weights, strict=True):
                share = (x - Fraction(a)) / (Fraction(b) - Fraction(a))
                total += Fraction(weight) * min(max(share, Fraction(0)), Fraction(1))
            return total
