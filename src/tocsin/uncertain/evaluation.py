"""Evaluation: the probability of each object to be the nearest (thesis, 5.3.2, Equation 5.3).

The integral itself is in `sweep`. With a least probability that is asked for, upper bounds show
which objects do not reach it.
"""

from __future__ import annotations

import math

import numpy as np

from tocsin.errors import UncertainError
from tocsin.jit import Float64Out, Float64s, freeze, kernel
from tocsin.uncertain.curves import PARAMETERS, curve_at
from tocsin.uncertain.distances import Bounded, Distances
from tocsin.uncertain.exact import gap
from tocsin.uncertain.sweep import LEAST, QUADRATURE, TOLERANCE, integrate

_SLACK = 1e-9  # of a bound, for rounding
_CELLS = 40  # of a bound; chosen: the narrowest is a millionth of the whole


def evaluate(bounded: Bounded, at_least: float | None) -> np.ndarray:
    """Return the probability of each object to be the nearest.

    With `at_least`, probabilities that a bound shows to be smaller may be 0 instead.
    """
    d = bounded.distances
    out = np.zeros(bounded.objects)
    points = bounded.nearest_points
    wanted = np.ones(bounded.objects, np.uint8)
    if at_least is not None:
        # A probability that is no more than the error of the integral is not decided by a bound.
        wanted[bound_probabilities(bounded) + TOLERANCE < at_least * (1 - _SLACK)] = 0
        if not wanted.any():
            return out
    rest = 1.0
    candidates = np.concatenate([d.owner, d.curve_owner])
    if not len(points) and (candidates == candidates[0]).all():
        out[candidates[0]] = 1.0
    elif len(candidates):
        rest = integrate(d, freeze(wanted, np.uint8), at_least is None, QUADRATURE, out)
    if math.isnan(rest) or np.isnan(out).any():
        raise UncertainError("the magnitudes of these values differ too much to compute with")
    if len(points) and rest > 0:
        out[points] = rest / len(points)
    return np.minimum(out, 1.0, out=out)


def bound_probabilities(bounded: Bounded) -> np.ndarray:
    """Return an upper bound of each object's probability, without integrating.

    In a cell of distances the object is nearest at most as often as all others are beyond the start
    of the cell. Cells are narrower near q, since P falls fastest there with many objects.
    """
    cells = bounded.bound * np.exp2(-0.5 * np.arange(_CELLS, -1, -1))
    cells[0] = 0.0
    survival = np.ones(bounded.objects * len(cells))
    write_survival(bounded.distances, cells, survival)
    rows = np.maximum(survival.reshape(-1, len(cells)), LEAST)
    own = rows[:, :-1] - rows[:, 1:]
    with np.errstate(under="ignore"):
        others = np.exp(np.log(rows[:, :-1]).sum(axis=0) - np.log(rows[:, :-1]))
    upper = (own * others).sum(axis=1)
    upper[bounded.nearest_points] = 1.0
    return upper


@kernel
def write_survival(d: Distances, cells: Float64s, out: Float64Out) -> None:
    """Write the probability of each object to be beyond each of the cells' ends."""
    m, bound = cells.shape[0], d.breaks.shape[0] - 1
    for i in range(d.owner.shape[0]):
        left = d.breaks[d.begin[i]] if d.begin[i] <= bound else math.inf
        for j in range(m):
            if cells[j] >= left:
                # The last cell ends at the bound, without rounding.
                rest = d.breaks_rest[bound] if j == m - 1 else 0.0
                reach = max(gap(d.right[i], d.right_rest[i], cells[j], rest), 0.0)
                s = d.survival[i] + d.density[i] * reach
                at = np.int64(d.owner[i]) * m + j
                out[at] = min(out[at], s)
    for i in range(d.curve_owner.shape[0]):
        left = d.breaks[d.curve_begin[i]] if d.curve_begin[i] <= bound else math.inf
        for j in range(m):
            if cells[j] >= left:
                rest = d.breaks_rest[bound] if j == m - 1 else 0.0
                at = np.int64(d.curve_owner[i]) * m + j
                s, _ = curve_at(d.curve[i], d.parameters, PARAMETERS * i, cells[j], rest)
                out[at] = min(out[at], s)
