"""Evaluation: the probability of each object to be the nearest (thesis, 5.3.2, Equation 5.3).

With S_k(y) the probability that object k is further than y, and P(y) the product of all of them,
p_i is the integral of f_i(y) P(y) / S_i(y), up to the bound. P is computed once for all objects:
the thesis' loop multiplies j - 1 factors for each of j objects, in each of j intervals.

The sweep goes through the intervals between breakpoints, in each of which all densities are smooth.
Only objects that have begun are active there. An interval is integrated panel by panel by
Gauss-Legendre rules of eight nodes. For up to 16 linear pieces that is exact, as the integrand is a
polynomial of degree 15. Beyond that, a panel is so narrow that P falls by at most exp(-4) in it;
if it falls little, four nodes are enough. A panel is checked: all probabilities in it add up to the
decrease of P. If they do not, it is halved. Places within an interval are offsets from its start,
so that they are exact however narrow it is. Disks, whose densities rise like square roots, take
sixteen nodes that crowd at the ends. The sweep ends where P is below 1e-20: what follows adds less
to any probability.

A query costs the number of panels times active objects times 18 nanoseconds, about; with n objects
that overlap much, P falls so fast that only about sqrt(n) of them begin before the end.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tocsin.errors import UncertainError
from tocsin.jit import Float64Out, Float64s, UInt8s, bare_step, freeze, freeze_fields, kernel
from tocsin.uncertain.curves import (
    DISK,
    NORMAL_CURVE,
    PARAMETERS,
    RATE,
    curve_at,
    expand_normal,
    is_short,
    widest_panel,
)
from tocsin.uncertain.distances import Bounded, Distances
from tocsin.uncertain.exact import gap

_NODES, _FEW_NODES = 8, 4
_MOST_EXACT = 2 * _NODES  # linear pieces whose product eight nodes integrate exactly
_MOST_NODES = 2 * _NODES
# How much the logarithm of P may fall in a panel: eight nodes then err by 1e-13, four by 1e-14.
_MOST_DECAY, _FEW_DECAY = 4.0, 0.25
_NEGLIGIBLE = 1e-20  # of P
_TOLERANCE = 1e-13  # of the probability in a panel, absolute
_ROUNDING = 4e-16  # of P, per factor
_SLACK = 1e-9  # of a bound, for rounding
_CELLS = 40  # of a bound; chosen: the narrowest is a millionth of the whole
_LEAST = 1e-290  # of a factor of P that is also divided by


class Rules(NamedTuple):
    """Gauss-Legendre nodes and weights on [0, 1]."""

    node: Float64s  # [8]
    weight: Float64s  # [8]
    few_node: Float64s  # [4]
    few_weight: Float64s  # [4]
    # Nodes that crowd at both ends, where the density of a distance to a disk is a square root:
    # as a function of t, with y = 3 t^2 - 2 t^3, it is smooth.
    end_node: Float64s  # [16]
    end_weight: Float64s  # [16]


def _make_rules() -> Rules:
    t, w = np.polynomial.legendre.leggauss(_NODES)
    r, s = np.polynomial.legendre.leggauss(_FEW_NODES)
    u, v = np.polynomial.legendre.leggauss(2 * _NODES)
    u, v = 0.5 + 0.5 * u, 0.5 * v
    return freeze_fields(
        Rules,
        node=0.5 + 0.5 * t,
        weight=0.5 * w,
        few_node=0.5 + 0.5 * r,
        few_weight=0.5 * s,
        end_node=u * u * (3 - 2 * u),
        end_weight=v * 6 * u * (1 - u),
    )


RULES = _make_rules()


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
        wanted[bound_probabilities(bounded) + _TOLERANCE < at_least * (1 - _SLACK)] = 0
        if not wanted.any():
            return out
    rest = 1.0
    candidates = np.unique(np.concatenate([d.owner, d.curve_owner]))
    if len(candidates) == 1 and not len(points):
        out[candidates] = 1.0
    elif len(candidates):
        rest = integrate(d, freeze(wanted, np.uint8), at_least is None, RULES, out)
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
    rows = np.maximum(survival.reshape(-1, len(cells)), _LEAST)
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


@bare_step
def select_active(begin, end, active, n, following, interval):
    """Drop what ends at an interval from the active ones, and add what begins.

    Return how many they are, and the next one.
    """
    kept = 0
    for k in range(n):
        if end[active[k]] > interval:
            active[kept] = active[k]
            kept += 1
    while following < begin.shape[0] and begin[following] <= interval:
        active[kept] = following
        kept, following = kept + 1, following + 1
    return kept, following


@bare_step
def multiply_curve(
    curve, parameters, at, y, rest, begin, end, node, count, series, product, hazard, first
):  # fmt: skip
    """Multiply products by a curve's survival at the nodes, and write hazards.

    Nodes are offsets from the pair y, as are the ends of the panel.
    """
    if curve == NORMAL_CURVE and is_short(parameters, at, y, rest + begin, end - begin):
        middle = 0.5 * (begin + end)
        expand_normal(parameters, at, y, rest + middle, series)
        rate = parameters[at + RATE]
        for j in range(count):
            t = rate * (node[j] - middle)
            s, f = series[7], 0.0
            for k in range(6, -1, -1):
                f = f * t + s
                s = s * t + series[k]
            s = max(s, _LEAST)
            product[j] *= s
            hazard[first + j] = -f * rate / s
        return
    for j in range(count):
        s, f = curve_at(curve, parameters, at, y, rest + node[j])
        s = max(s, _LEAST)
        product[j] *= s
        hazard[first + j] = f / s


@kernel
def integrate(d: Distances, wanted: UInt8s, checks: bool, rules: Rules, out: Float64Out) -> float:
    """Add the probabilities of objects to `out`; return P at the bound.

    With `checks`, all objects are wanted. Without, the width of panels is trusted if all densities
    in them are linear.
    """
    pieces, curves = d.owner.shape[0], d.curve_owner.shape[0]
    owner, survival, density = d.owner, d.survival, d.density
    curve_owner, curve, parameters = d.curve_owner, d.curve, d.parameters
    active, active_curve = np.empty(pieces, np.int64), np.empty(curves, np.int64)
    reach, share, curve_share = np.empty(pieces), np.empty(pieces), np.empty(curves)
    hazard, series = np.empty(_MOST_NODES * curves), np.empty(8)
    product, node, weight = np.empty(_MOST_NODES), np.empty(_MOST_NODES), np.empty(_MOST_NODES)
    n, n_curves, next_piece, next_curve = 0, 0, 0, 0
    p = 1.0  # P at the start of the panel
    last, decay = math.inf, math.inf  # of the panel before: its width, and how fast P fell
    for interval in range(d.breaks.shape[0] - 1):
        start, start_rest = d.breaks[interval], d.breaks_rest[interval]
        stop, stop_rest = d.breaks[interval + 1], d.breaks_rest[interval + 1]
        n, next_piece = select_active(d.begin, d.end, active, n, next_piece, interval)
        n_curves, next_curve = select_active(
            d.curve_begin, d.curve_end, active_curve, n_curves, next_curve, interval
        )
        for k in range(n):
            reach[k] = gap(d.right[active[k]], d.right_rest[active[k]], start, start_rest)
        has_disks = n_curves > 0 and curve[active_curve[0]] == DISK
        # Distances of disks and balls are not pairs, so they are rounded.
        rounded = start if n_curves > 0 and curve[active_curve[0]] != NORMAL_CURVE else 0.0
        is_exact = n <= _MOST_EXACT and not n_curves
        is_checked = n_curves > 0 or checks
        y, b = 0.0, gap(stop, stop_rest, start, start_rest)  # offsets from the start
        while y < b:
            width, widest = b - y, math.inf
            if not is_exact:
                width = min(width, 2 * last)
                for k in range(n_curves):
                    i = active_curve[k]
                    limit = widest_panel(
                        curve[i], parameters, PARAMETERS * i, start, start_rest + y
                    )
                    widest = min(widest, limit)
                width = min(width, widest)
            # Assumes that P falls as fast as in the panel before; this is checked below.
            is_few = not has_disks and 8 * width < widest and decay * width < _FEW_DECAY
            if not n_curves and n <= 2 * _FEW_NODES:
                is_few = True
            missing_before = math.inf
            while True:
                nodes = _MOST_NODES if has_disks else _FEW_NODES if is_few else _NODES
                end = b if width >= b - y else y + width
                if end <= y:  # the panel is narrower than floats are there
                    end = b
                width = end - y
                for j in range(nodes):
                    if has_disks:
                        t, w = rules.end_node[j], rules.end_weight[j]
                    elif is_few:
                        t, w = rules.few_node[j], rules.few_weight[j]
                    else:
                        t, w = rules.node[j], rules.weight[j]
                    node[j], weight[j], product[j] = y + width * t, width * w, 1.0
                p_end = 1.0
                for k in range(n):
                    s, f, r = survival[active[k]], density[active[k]], reach[k]
                    for j in range(nodes):
                        product[j] *= max(s + f * (r - node[j]), _LEAST)
                    p_end *= max(s + f * (r - end), 0.0)
                for k in range(n_curves):
                    i = active_curve[k]
                    multiply_curve(
                        curve[i], parameters, PARAMETERS * i, start, start_rest, y, end, node,
                        nodes, series, product, hazard, _MOST_NODES * k,
                    )  # fmt: skip
                    # At the stop without rounding, as a value may end there.
                    at, rest = (stop, stop_rest) if end == b else (start, start_rest + end)
                    s, _ = curve_at(curve[i], parameters, PARAMETERS * i, at, rest)
                    p_end *= s
                if not p_end >= 0:  # NaN, from numbers that overflow
                    return math.nan
                fall = math.log(p / p_end) if p_end > 0 else math.inf
                if is_few and fall > 2 * _FEW_DECAY and (n_curves or n > 2 * _FEW_NODES):
                    is_few = False
                    continue
                can_halve = not is_exact and y + 0.5 * width > y and width > 1e-13 * b
                if can_halve and fall > _MOST_DECAY:
                    width *= 0.5
                    continue
                for j in range(nodes):
                    product[j] *= weight[j]
                total = 0.0
                for k in range(n):
                    s, f, r = survival[active[k]], density[active[k]], reach[k]
                    own = 0.0
                    if f > 0 and (is_checked or wanted[owner[active[k]]]):
                        for j in range(nodes):
                            own += product[j] / max(s + f * (r - node[j]), _LEAST)
                        own *= f
                    share[k] = own
                    total += own
                for k in range(n_curves):
                    own = 0.0
                    for j in range(nodes):
                        own += product[j] * hazard[_MOST_NODES * k + j]
                    curve_share[k] = own
                    total += own
                # Products of many factors are rounded, and so are nodes, which matters where a
                # density is steep. Halving does not help against that.
                missing = abs(total - (p - p_end))
                tolerance = _TOLERANCE + 1e-12 * (p - p_end)
                steep = 4 * (rounded + end) * min(fall, 50.0) / width
                tolerance += _ROUNDING * p * (n + n_curves + steep)
                if missing <= tolerance or missing > 0.45 * missing_before:
                    break
                if not can_halve or not is_checked:
                    break
                missing_before = missing
                width *= 0.5
            for k in range(n):
                out[owner[active[k]]] += share[k]
            for k in range(n_curves):
                out[curve_owner[active_curve[k]]] += curve_share[k]
            y, p = end, p_end
            last, decay = width, fall / width
            if p < _NEGLIGIBLE:
                return 0.0
    return p
