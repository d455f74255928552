"""When two points are close: the definition that every method of the join shares.

A pair belongs to the join if its *gap* is below a bound. The gap is a sum over the dimensions, in
their order, in float64 and without fused multiply-add: of squares for `l2`, of absolute differences
for `l1`; for `linf` it is the largest difference. The bound is epsilon, or its square for `l2`.
With `closed`, equality is enough: the bound is then the next larger float.

All operations of a gap are monotonic, rounding included: if every coordinate of a point is at least
as far away as that of another point, so is its gap. So a box whose gap (that of its nearest corner,
or 0 in a dimension where it overlaps) is not below the bound has no point of the join, exactly. No
method needs a margin, unless it computes cells.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tocsin.errors import SimilarityError, suggest
from tocsin.jit import Float64s, bare_step

L2, L1, LINF = 0, 1, 2
METRICS = {"l2": L2, "l1": L1, "linf": LINF}


class Closeness(NamedTuple):
    """What pairs must satisfy."""

    epsilon: float
    metric: int
    bound: float  # gaps of pairs are below it
    # The coordinates of a pair differ by less, in every dimension. A little more than epsilon: the
    # difference, its square and that of epsilon are rounded, by at most 2^-53 each, and squares of
    # differences up to 1e-150 may be 0.
    reach: float


def read_closeness(epsilon: Any, metric: Any, closed: bool) -> Closeness:
    """Check the arguments of a join."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.integer | np.floating):
        raise SimilarityError(f"epsilon must be a number, got {epsilon!r}")
    try:
        epsilon = float(epsilon)
    except (OverflowError, TypeError):  # a huge integer; a timedelta64
        raise SimilarityError(f"epsilon must be a finite number, got {epsilon!r}") from None
    if not math.isfinite(epsilon) or epsilon < 0 or (epsilon == 0 and not closed):
        raise SimilarityError(
            f"epsilon must be a finite number above 0, got {epsilon}"
            + ("; for equal points use closed=True" if epsilon == 0 else "")
        )
    if not isinstance(metric, str) or metric not in METRICS:
        raise SimilarityError(
            f"the metric must be one of {', '.join(METRICS)}; got {metric!r}"
            + suggest(metric, METRICS)
        )
    bound = epsilon * epsilon if metric == "l2" else epsilon
    if math.isinf(bound):
        raise SimilarityError(
            f"the square of epsilon, {epsilon}, is too large for a 64-bit float; scale epsilon and "
            "the points down, or use the metric linf"
        )
    if closed:
        bound = math.nextafter(bound, math.inf)
    return Closeness(epsilon, METRICS[metric], bound, epsilon * (1 + 1e-9) + 1e-150)


@bare_step
def gap_of(a: Float64s, first_a: int, b: Float64s, first_b: int, d: int, metric: int) -> float:
    """Return the gap between two points, given by the index of their first coordinate."""
    gap = 0.0
    if metric == L2:
        for k in range(d):
            difference = a[first_a + k] - b[first_b + k]
            gap += difference * difference
    elif metric == L1:
        for k in range(d):
            gap += abs(a[first_a + k] - b[first_b + k])
    else:
        for k in range(d):
            gap = max(gap, abs(a[first_a + k] - b[first_b + k]))
    return gap
