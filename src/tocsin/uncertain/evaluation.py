"""Evaluation: the probability of each object to be the nearest (thesis, 5.3.2, Equation 5.3).

With S_k(y) the probability that object k is further than y, and P(y) the product of all of them,
p_i is the integral of f_i(y) P(y) / S_i(y), up to the bound. P is computed once for all objects:
the thesis' loop multiplies j - 1 factors for each of j objects, in each of j intervals.

The sweep goes through the intervals between breakpoints, in each of which all densities are smooth.
Only objects that have begun are active there. An interval is integrated panel by panel by
Gauss-Legendre rules of eight nodes. For up to 16 linear pieces that is exact, as the integrand is a
polynomial of degree 15. Beyond that, a panel is so narrow that P falls by at most exp(-4) in it;
if it falls little, four nodes are enough. A panel is checked: all probabilities in it add up to the
decrease of P. If they do not, it is halved.
The sweep ends where P is below 1e-20: what follows adds less to any probability.

An event costs the number of panels times active objects times 18 nanoseconds, about; with n objects
that overlap much, P falls so fast that only about sqrt(n) of them begin before the end.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64Out, Float64s, UInt8s, bare_step, freeze, freeze_fields, kernel
from tocsin.uncertain.curves import (
    DISK,
    NORMAL_CURVE,
    PARAMETERS,
    curve_at,
    expand_normal,
    is_short,
    widest_panel,
)
from tocsin.uncertain.distances import Bounded, Distances

_NODES, _FEW_NODES = 8, 4
_MOST_EXACT = 2 * _NODES  # linear pieces whose product eight nodes integrate exactly
_MOST_NODES = 2 * _NODES
# How much the logarithm of P may fall in a panel: eight nodes then err by 1e-13, four by 1e-14.
_MOST_DECAY, _FEW_DECAY = 4.0, 0.25
_NEGLIGIBLE = 1e-20  # of P
_AT_BOUND = 1e-12  # of P at the bound, where a survival that is 0 may be rounded to a little more
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
        wanted[bound_probabilities(bounded) < at_least * (1 - _SLACK)] = 0
    ends = np.concatenate([d.left, d.right, d.curve_left, d.curve_right, [0.0, bounded.bound]])
    breaks = np.unique(ends[ends <= bounded.bound])
    rest = 1.0
    candidates = np.unique(np.concatenate([d.owner, d.curve_owner]))
    if len(candidates) == 1 and not len(points):
        out[candidates] = 1.0
    elif len(candidates):
        rest = integrate(d, breaks, freeze(wanted, np.uint8), at_least is None, RULES, out)
    if len(points) and rest > _AT_BOUND:
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
    m = cells.shape[0]
    for i in range(d.owner.shape[0]):
        for j in range(m):
            if cells[j] >= d.left[i]:
                y = min(cells[j], d.right[i])
                s = d.survival[i] + d.density[i] * (d.right[i] - y)
                at = np.int64(d.owner[i]) * m + j
                out[at] = min(out[at], s)
    for i in range(d.curve_owner.shape[0]):
        for j in range(m):
            if cells[j] >= d.curve_left[i]:
                y = min(cells[j], d.curve_right[i])
                at = np.int64(d.curve_owner[i]) * m + j
                s, _ = curve_at(d.curve[i], d.parameters, PARAMETERS * i, y)
                out[at] = min(out[at], s)


@bare_step
def linear_survival(survival, density, right, y):
    """Return the probability of a greater distance than y, from that at the end of the piece."""
    return max(survival + density * (right - y), _LEAST)


@bare_step
def select_active(left, right, active, n, following, y):
    """Drop what ends at y from the active ones, and add what begins; return how many, and next."""
    kept = 0
    for k in range(n):
        if right[active[k]] > y:
            active[kept] = active[k]
            kept += 1
    while following < left.shape[0] and left[following] <= y:
        active[kept] = following
        kept, following = kept + 1, following + 1
    return kept, following


@bare_step
def multiply_curve(curve, parameters, at, y, end, node, count, series, product, hazard, first):
    """Multiply products by a curve's survival at the nodes; write hazards; return it at the end."""
    if curve == NORMAL_CURVE and is_short(parameters, at, y, end - y):
        middle = 0.5 * (y + end)
        expand_normal(parameters, at, middle, series)
        for j in range(count):
            t = node[j] - middle
            s, f = series[7], 0.0
            for k in range(6, -1, -1):
                f = f * t + s
                s = s * t + series[k]
            s = max(s, _LEAST)
            product[j] *= s
            hazard[first + j] = -f / s
        t = end - middle
        s = series[7]
        for k in range(6, -1, -1):
            s = s * t + series[k]
        return max(s, 0.0)
    for j in range(count):
        s, f = curve_at(curve, parameters, at, node[j])
        s = max(s, _LEAST)
        product[j] *= s
        hazard[first + j] = f / s
    s, f = curve_at(curve, parameters, at, end)
    return s


@kernel
def integrate(
    d: Distances, breaks: Float64s, wanted: UInt8s, checks: bool, rules: Rules, out: Float64Out
) -> float:
    """Add the probabilities of objects to `out`; return P at the bound.

    With `checks`, all objects are wanted. Without, the width of panels is trusted, but for disks.
    """
    pieces, curves = d.owner.shape[0], d.curve_owner.shape[0]
    owner, left, right, survival, density = d.owner, d.left, d.right, d.survival, d.density
    curve_owner, curve_left, curve_right = d.curve_owner, d.curve_left, d.curve_right
    curve, parameters = d.curve, d.parameters
    active, active_curve = np.empty(pieces, np.int64), np.empty(curves, np.int64)
    share, curve_share = np.empty(pieces), np.empty(curves)
    hazard, series = np.empty(_MOST_NODES * curves), np.empty(8)
    product, node, weight = np.empty(_MOST_NODES), np.empty(_MOST_NODES), np.empty(_MOST_NODES)
    n, n_curves, next_piece, next_curve = 0, 0, 0, 0
    p = 1.0  # P at the start of the panel
    last, decay = 1.0, math.inf  # of the panel before: its width, and how fast P fell
    for interval in range(breaks.shape[0] - 1):
        y, b = breaks[interval], breaks[interval + 1]
        n, next_piece = select_active(left, right, active, n, next_piece, y)
        n_curves, next_curve = select_active(
            curve_left, curve_right, active_curve, n_curves, next_curve, y
        )
        has_disks = n_curves > 0 and curve[active_curve[0]] == DISK
        is_exact = n <= _MOST_EXACT and not n_curves
        is_checked = has_disks or checks
        while y < b:
            width, widest = b - y, math.inf
            if not is_exact:
                width = min(width, 2 * last)
                for k in range(n_curves):
                    i = active_curve[k]
                    limit = widest_panel(curve[i], parameters, PARAMETERS * i, y)
                    widest = min(widest, limit)
                width = min(width, widest)
            # As P falls like in the panel before, if it does not fall faster.
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
                    i = active[k]
                    s, f, r = survival[i], density[i], right[i]
                    for j in range(nodes):
                        product[j] *= linear_survival(s, f, r, node[j])
                    p_end *= max(s + f * (r - end), 0.0)
                for k in range(n_curves):
                    i = active_curve[k]
                    p_end *= multiply_curve(
                        curve[i], parameters, PARAMETERS * i, y, end, node, nodes, series,
                        product, hazard, _MOST_NODES * k,
                    )  # fmt: skip
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
                    i = active[k]
                    s, f, r = survival[i], density[i], right[i]
                    own = 0.0
                    if f > 0 and (is_checked or wanted[owner[i]]):
                        for j in range(nodes):
                            own += product[j] / linear_survival(s, f, r, node[j])
                        own *= f
                    share[k] = own
                    total += own
                for k in range(n_curves):
                    own = 0.0
                    if is_checked or wanted[curve_owner[active_curve[k]]]:
                        for j in range(nodes):
                            own += product[j] * hazard[_MOST_NODES * k + j]
                    curve_share[k] = own
                    total += own
                # Products of many factors are rounded, and so are distances, which matters where a
                # density is steep. Halving does not help against that.
                missing = abs(total - (p - p_end))
                tolerance = _TOLERANCE + 1e-12 * (p - p_end)
                tolerance += _ROUNDING * p * (n + n_curves + 4 * end * min(fall, 50.0) / width)
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
