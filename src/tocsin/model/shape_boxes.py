"""The bounding boxes of shapes as intervals of keys."""

from __future__ import annotations

import math

from tocsin.model import encoding
from tocsin.model.decimals import digits_of, double_cuts
from tocsin.model.predicates import Predicate, interval
from tocsin.model.schema import Kind


def box_interval(kind: Kind, low: float, high: float) -> Predicate | None:
    """Return the predicate for values of a kind that, as doubles, are from `low` to `high`."""
    if kind == "number":
        return interval(encoding.number_key(low), encoding.number_key(high))
    digits = digits_of(kind)
    if digits is None:
        least, above = encoding.double_cuts(low)[0], encoding.double_cuts(high)[1]
        return interval(encoding.least_integer_key(least), encoding.least_integer_key(above) - 1)
    # A coordinate is the quotient of two doubles, which may differ from the double that is nearest
    # to the decimal: see `residuals.to_coordinate`.
    for _ in range(2):
        low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    return interval(double_cuts(low, digits)[0], double_cuts(high, digits)[1] - 1)
