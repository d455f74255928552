"""The sweep: one pass over distances gives all objects' probabilities (thesis, Equation 5.3).

With S_k(y) the probability that object k is further than y, and P(y) the product of all of them,
p_i is the integral of f_i(y) P(y) / S_i(y), up to the bound. P is computed once for all objects:
the thesis' loop multiplies j - 1 factors for each of j objects, in each of j intervals.

The intervals between breakpoints, in each of which all densities are smooth, are integrated panel
by panel. There are two kinds of panels. A *short* one is an interval, or a part of it. It takes
Gauss-Legendre rules of four or eight nodes. For up to 16 linear pieces eight are exact, as the
integrand is a polynomial of degree 15. Disks, whose densities rise like square roots, take sixteen
nodes that crowd at the ends.

A *long* panel consists of many intervals. Most objects are active throughout it, and only a few
begin or end inside. The product of the former and their hazards f_i / S_i are smooth: they are
computed at sixteen nodes, and interpolated in between by a polynomial. The others are integrated
interval by interval. This gives each of the sixteen nodes a weight, and the share of an object that
is active throughout is the weighted sum of its hazards.

A panel is so narrow that the logarithm of P falls by at most 4 in it. All probabilities in it must
add up to the decrease of P; if they do not, it is halved. Places in a short panel, and in the
intervals of a long one, are offsets from the start of the interval, so that they are exact however
narrow it is. The sweep ends where P is below 1e-20: what follows adds less to any probability.

Of n objects that overlap much, about sqrt(n) begin before the end. Those that all begin close
together take about sqrt(n) long panels with sqrt(n) beginning in each, so that a query costs about
n sqrt(n) times 50 nanoseconds, and for normals 10 times that.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64Out, Float64s, UInt8s, bare_step, freeze_fields, kernel, step
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
from tocsin.uncertain.distances import Distances
from tocsin.uncertain.exact import gap

_FEW, _SOME, _MANY = 4, 8, 16  # nodes
_FIRST_FEW, _FIRST_SOME, _FIRST_MANY, _FIRST_CROWDED = 0, 4, 12, 28  # in `Quadrature`
_MOST_EXACT = 2 * _SOME  # linear pieces whose product eight nodes integrate exactly
# How much the logarithm of P may fall: eight nodes then err by 1e-13, four by 1e-14. In a long
# panel the polynomial of degree 15 errs by 1e-14.
_MOST_FALL, _FEW_FALL, _LONG_FALL = 4.0, 0.25, 3.0
# What a long panel aims at, assuming that P falls faster again by the same factor as last time.
_LONG_AIM = 2.8
_FEWEST = 24  # pieces and curves that make a long panel worthwhile
_LEAST_INTERVALS = 4
_NEGLIGIBLE = 1e-20  # of P
TOLERANCE = 1e-13  # of the probability in a panel, absolute
_ROUNDING = 4e-16  # of P, per factor
LEAST = 1e-290  # of a factor of P that is also divided by
# The same for a linear piece, of which two are multiplied. At a node of a panel, a survival is at
# least a hundredth of P before the panel.
_LEAST_LINE = 1e-100


class Quadrature(NamedTuple):
    """Gauss-Legendre nodes and weights on [0, 1], for 4, 8 and 16 nodes.

    Then 16 nodes that crowd at both ends, where the density of a distance to a disk is a square
    root: as a function of t, with y = 3 t^2 - 2 t^3, it is smooth.
    """

    node: Float64s  # [44]
    weight: Float64s  # [44]
    inverse: Float64s  # [16] one over the product of the differences from all other nodes


def _make_quadrature() -> Quadrature:
    nodes, weights = [], []
    for count in (_FEW, _SOME, _MANY):
        t, w = np.polynomial.legendre.leggauss(count)
        nodes.append(0.5 + 0.5 * t)
        weights.append(0.5 * w)
    t, w = nodes[-1], weights[-1]
    differences = t[:, None] - t + np.eye(_MANY)
    nodes.append(t * t * (3 - 2 * t))
    weights.append(w * 6 * t * (1 - t))
    return freeze_fields(
        Quadrature,
        node=np.concatenate(nodes),
        weight=np.concatenate(weights),
        inverse=1 / differences.prod(axis=1),
    )


QUADRATURE = _make_quadrature()


class Panel(NamedTuple):
    """Memory for the nodes of a panel, and for the pieces and curves that are integrated there.

    Places are offsets from a breakpoint. At y, the survival of a piece is s + f (r - y).
    """

    node: np.ndarray  # [16]
    weight: np.ndarray  # [16]
    product: np.ndarray  # [16] of survivals; then times the weight
    piece: np.ndarray  # [pieces]
    survival: np.ndarray  # [pieces] s
    density: np.ndarray  # [pieces] f
    reach: np.ndarray  # [pieces] r
    asked: np.ndarray  # [pieces] f, or 0 if the share is not asked for
    share: np.ndarray  # [pieces]
    curve: np.ndarray  # [curves]
    hazard: np.ndarray  # [16 * curves]
    curve_share: np.ndarray  # [curves]


class Partial(NamedTuple):
    """Memory for the pieces and curves that begin or end inside of a long panel."""

    piece: np.ndarray  # [pieces]
    curve: np.ndarray  # [curves]
    share: np.ndarray  # [pieces] of each piece of the distances
    curve_share: np.ndarray  # [curves] of each curve of the distances
    basis: np.ndarray  # [8 * 16] Lagrange polynomials at the nodes of an interval
    weight: np.ndarray  # [16] of the panel's nodes


@step
def make_panel(pieces, curves):
    """Return memory for a panel."""
    return Panel(
        np.empty(_MANY), np.empty(_MANY), np.empty(_MANY), np.empty(pieces, np.int64),
        np.empty(pieces), np.empty(pieces), np.empty(pieces), np.empty(pieces), np.empty(pieces),
        np.empty(curves, np.int64), np.empty(_MANY * curves), np.empty(curves),
    )  # fmt: skip


@step
def count_changes(d):
    """Return how many pieces and curves begin or end at each break."""
    changes = np.zeros(d.breaks.shape[0] + 1, np.int64)
    for i in range(d.owner.shape[0]):
        changes[d.begin[i]] += 1
        changes[d.end[i]] += 1
    for i in range(d.curve_owner.shape[0]):
        changes[d.curve_begin[i]] += 1
        changes[d.curve_end[i]] += 1
    return changes


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
        if end[following] > interval:
            active[kept] = following
            kept += 1
        following += 1
    return kept, following


@bare_step
def find_partial(begin, end, active, n, following, stop, partial):
    """Write which active ones end before a break, and which begin before it; return how many."""
    count = 0
    for k in range(n):
        if end[active[k]] < stop:
            partial[count] = active[k]
            count += 1
    while following < begin.shape[0] and begin[following] < stop:
        partial[count] = following
        count, following = count + 1, following + 1
    return count


@bare_step
def find_stop(d, changes, interval, y, widest, most_changes):
    """Return the break where a long panel ends that is at most so wide and has so many changes."""
    stop, total = interval + 1, 0
    start, start_rest = d.breaks[interval], d.breaks_rest[interval]
    while stop < d.breaks.shape[0] - 1:
        total += changes[stop]
        end = gap(d.breaks[stop + 1], d.breaks_rest[stop + 1], start, start_rest)
        if total > most_changes or end - y > widest:
            break
        stop += 1
    return stop if stop - interval >= _LEAST_INTERVALS else interval + 1


@bare_step
def place_nodes(quadrature, first, count, begin, end, panel):
    """Place the nodes of a rule between two offsets."""
    width = end - begin
    for j in range(count):
        panel.node[j] = begin + width * quadrature.node[first + j]
        panel.weight[j] = width * quadrature.weight[first + j]
        panel.product[j] = 1.0


@bare_step
def add_piece(d, i, start, start_rest, is_asked, panel, n):
    """Add a piece to the n of a panel that begins at the pair `start`."""
    panel.piece[n] = i
    panel.survival[n], panel.density[n] = d.survival[i], d.density[i]
    panel.reach[n] = gap(d.right[i], d.right_rest[i], start, start_rest)
    panel.asked[n] = d.density[i] if is_asked else 0.0


@bare_step
def multiply_pieces(panel, n, end, count):
    """Multiply products by the survivals of n pieces; return the product at the end."""
    node, product = panel.node, panel.product
    for j in range(0, count, 4):  # four nodes at a time, in registers
        y0, y1, y2, y3 = node[j], node[j + 1], node[j + 2], node[j + 3]
        p0, p1, p2, p3 = product[j], product[j + 1], product[j + 2], product[j + 3]
        for k in range(n):
            s, f, r = panel.survival[k], panel.density[k], panel.reach[k]
            p0 *= max(s + f * (r - y0), _LEAST_LINE)
            p1 *= max(s + f * (r - y1), _LEAST_LINE)
            p2 *= max(s + f * (r - y2), _LEAST_LINE)
            p3 *= max(s + f * (r - y3), _LEAST_LINE)
        product[j], product[j + 1], product[j + 2], product[j + 3] = p0, p1, p2, p3
    at_end = 1.0
    for k in range(n):
        at_end *= max(panel.survival[k] + panel.density[k] * (panel.reach[k] - end), 0.0)
    return at_end


@bare_step
def multiply_curve(d, i, start, start_rest, begin, end, count, panel, m, series):
    """Multiply products by a curve's survivals, and add it to the m curves of a panel.

    If its Taylor series holds in the panel, or from the first to the last of four nodes, it is used
    instead.
    """
    panel.curve[m] = i
    at, first = PARAMETERS * i, _MANY * m
    node, product, hazard = panel.node, panel.product, panel.hazard
    is_normal, together = d.curve[i] == NORMAL_CURVE, count
    if is_normal and not is_short(d.parameters, at, start, start_rest + begin, end - begin):
        together = _FEW
    for j in range(0, count, together):
        left, right = begin, end
        if together < count:
            left, right = node[j], node[j + together - 1]
        if is_normal and is_short(d.parameters, at, start, start_rest + left, right - left):
            middle = 0.5 * (left + right)
            expand_normal(d.parameters, at, start, start_rest + middle, series)
            rate = d.parameters[at + RATE]
            for k in range(j, j + together):
                t = rate * (node[k] - middle)
                s, f = series[7], 0.0
                for e in range(6, -1, -1):
                    f = f * t + s
                    s = s * t + series[e]
                s = max(s, LEAST)
                product[k] *= s
                hazard[first + k] = -f * rate / s
        else:
            for k in range(j, j + together):
                s, f = curve_at(d.curve[i], d.parameters, at, start, start_rest + node[k])
                s = max(s, LEAST)
                product[k] *= s
                hazard[first + k] = f / s


@bare_step
def share_out(panel, n, m, count):
    """Write the shares of n pieces and m curves, products times hazards; return their sum."""
    node, product, total = panel.node, panel.product, 0.0
    for k in range(n):
        own = 0.0
        if panel.asked[k] > 0:
            s, f, r = panel.survival[k], panel.density[k], panel.reach[k]
            for j in range(0, count, 2):  # two at a time, since divisions are slow
                a = max(s + f * (r - node[j]), _LEAST_LINE)
                b = max(s + f * (r - node[j + 1]), _LEAST_LINE)
                own += (product[j] * b + product[j + 1] * a) / (a * b)
            own *= f
        panel.share[k] = own
        total += own
    for k in range(m):
        own = 0.0
        for j in range(count):
            own += product[j] * panel.hazard[_MANY * k + j]
        panel.curve_share[k] = own
        total += own
    return total


@bare_step
def write_basis(quadrature, t, basis, at):
    """Write the sixteen Lagrange polynomials at t, from `at` on."""
    left, right = 1.0, 1.0
    for j in range(_MANY):
        basis[at + j] = left * quadrature.inverse[j]
        left *= t - quadrature.node[_FIRST_MANY + j]
    for j in range(_MANY - 1, -1, -1):
        basis[at + j] *= right
        right *= t - quadrature.node[_FIRST_MANY + j]


@bare_step
def integrate_inside(d, interval, stop, y, width, quadrature, outer, inner, partial, n, m, series):
    """Integrate the n pieces and m curves that begin or end inside of a long panel.

    Its products become the weights of its nodes. Return the sum of the shares of these pieces and
    curves, and the product of their survivals at the end.
    """
    start, start_rest = d.breaks[interval], d.breaks_rest[interval]
    stop_at, stop_rest = d.breaks[stop], d.breaks_rest[stop]
    basis, weight, total, at_end = partial.basis, partial.weight, 0.0, 1.0
    for k in range(n):
        partial.share[partial.piece[k]] = 0.0
    for k in range(m):
        partial.curve_share[partial.curve[k]] = 0.0
    weight[:] = 0.0
    for at in range(interval, stop):
        here, here_rest = d.breaks[at], d.breaks_rest[at]
        begin = y if at == interval else 0.0
        end = gap(d.breaks[at + 1], d.breaks_rest[at + 1], here, here_rest)
        before = gap(here, here_rest, start, start_rest) - y
        count, first = _SOME, _FIRST_SOME
        if 8 * (end - begin) < width:
            count, first = _FEW, _FIRST_FEW
        place_nodes(quadrature, first, count, begin, end, inner)
        for j in range(count):
            write_basis(quadrature, (before + inner.node[j]) / width, basis, _MANY * j)
            inner.product[j] = 0.0
            for k in range(_MANY):
                inner.product[j] += outer.product[k] * basis[_MANY * j + k]
        pieces, curves = 0, 0
        for k in range(n):
            i = partial.piece[k]
            if d.begin[i] <= at < d.end[i]:
                add_piece(d, i, here, here_rest, True, inner, pieces)
                pieces += 1
        at_end = multiply_pieces(inner, pieces, end, count)
        for k in range(m):
            i = partial.curve[k]
            if d.curve_begin[i] <= at < d.curve_end[i]:
                multiply_curve(d, i, here, here_rest, begin, end, count, inner, curves, series)
                curves += 1
        for j in range(count):
            inner.product[j] *= inner.weight[j]
            for k in range(_MANY):
                weight[k] += inner.product[j] * basis[_MANY * j + k]
        total += share_out(inner, pieces, curves, count)
        for k in range(pieces):
            partial.share[inner.piece[k]] += inner.share[k]
        for k in range(curves):
            partial.curve_share[inner.curve[k]] += inner.curve_share[k]
    for k in range(curves):
        at_end *= survival_at(d, inner.curve[k], stop_at, stop_rest)
    for k in range(_MANY):
        outer.product[k] = weight[k]
    return total, at_end


@bare_step
def survival_at(d, i, y, rest):
    """Return the survival of a curve at the pair y."""
    s, _ = curve_at(d.curve[i], d.parameters, PARAMETERS * i, y, rest)
    return s


@kernel
def integrate(
    d: Distances, wanted: UInt8s, checks: bool, quadrature: Quadrature, out: Float64Out
) -> float:
    """Add the probabilities of objects to `out`; return P at the bound.

    With `checks`, all objects are wanted. Without, the width of short panels is trusted if all
    densities in them are linear.
    """
    pieces, curves, intervals = d.owner.shape[0], d.curve_owner.shape[0], d.breaks.shape[0] - 1
    active, active_curve = np.empty(pieces, np.int64), np.empty(curves, np.int64)
    outer, inner = make_panel(pieces, curves), make_panel(pieces, curves)
    partial = Partial(
        np.empty(pieces, np.int64), np.empty(curves, np.int64), np.empty(pieces), np.empty(curves),
        np.empty(_SOME * _MANY), np.empty(_MANY),
    )  # fmt: skip
    series, changes = np.empty(8), count_changes(d)
    n, m, next_piece, next_curve = 0, 0, 0, 0  # active pieces and curves
    interval, y, p = 0, 0.0, 1.0  # P at y, an offset from the start of the interval
    # Of the panel before: its width, how fast P fell, and how much faster than before that.
    last, decay, growth = math.inf, math.inf, 1.0
    while interval < intervals:
        start, start_rest = d.breaks[interval], d.breaks_rest[interval]
        if y == 0.0:
            n, next_piece = select_active(d.begin, d.end, active, n, next_piece, interval)
            m, next_curve = select_active(
                d.curve_begin, d.curve_end, active_curve, m, next_curve, interval
            )
        kind = d.curve[active_curve[0]] if m else NORMAL_CURVE
        # Distances of disks and balls are not pairs, so they are rounded.
        rounded = start if kind != NORMAL_CURVE else 0.0
        is_exact = n <= _MOST_EXACT and not m
        stop = interval + 1
        b = gap(d.breaks[stop], d.breaks_rest[stop], start, start_rest)
        width, widest = b - y, math.inf
        if not is_exact:
            for k in range(m):
                at = PARAMETERS * active_curve[k]
                limit = widest_panel(kind, d.parameters, at, start, start_rest + y)
                widest = min(widest, limit)
            width = min(width, 2 * last, widest)
        if n + m >= _FEWEST and kind == NORMAL_CURVE and width == b - y:
            limit = min(2 * last, widest, _LONG_AIM / (decay * growth))
            stop = find_stop(d, changes, interval, y, limit, 2 * math.sqrt(n + m))
        # Assumes that P falls as fast as in the panel before; this is checked below.
        is_few = kind != DISK and 8 * width < widest and decay * width < _FEW_FALL
        if not m and n <= 2 * _FEW:
            is_few = True
        missing_before = math.inf
        while True:
            is_long = stop > interval + 1
            count, first = _SOME, _FIRST_SOME
            if is_long:
                count, first = _MANY, _FIRST_MANY
                end = gap(d.breaks[stop], d.breaks_rest[stop], start, start_rest)
            else:
                if kind == DISK:
                    count, first = _MANY, _FIRST_CROWDED
                elif is_few:
                    count, first = _FEW, _FIRST_FEW
                end = b if width >= b - y else y + width
                if end <= y:  # the panel is narrower than floats are there
                    end = b
            width = end - y
            is_checked = is_long or m > 0 or checks
            place_nodes(quadrature, first, count, y, end, outer)
            inside = find_partial(d.begin, d.end, active, n, next_piece, stop, partial.piece)
            inside_curves = find_partial(
                d.curve_begin, d.curve_end, active_curve, m, next_curve, stop, partial.curve
            )
            through, through_curves = 0, 0
            for k in range(n):
                i = active[k]
                if d.end[i] >= stop:
                    is_asked = is_checked or wanted[d.owner[i]] > 0
                    add_piece(d, i, start, start_rest, is_asked, outer, through)
                    through += 1
            p_end = multiply_pieces(outer, through, end, count)
            # At a breakpoint without rounding, as a value may end there.
            at_end, end_rest = start, start_rest + end
            if is_long or end == b:
                at_end, end_rest = d.breaks[stop], d.breaks_rest[stop]
            for k in range(m):
                i = active_curve[k]
                if d.curve_end[i] >= stop:
                    multiply_curve(
                        d, i, start, start_rest, y, end, count, outer, through_curves, series
                    )
                    through_curves += 1
                    p_end *= survival_at(d, i, at_end, end_rest)
            total = 0.0
            if is_long:
                total, p_inside = integrate_inside(
                    d, interval, stop, y, width, quadrature, outer, inner, partial, inside,
                    inside_curves, series,
                )  # fmt: skip
                p_end *= p_inside
            else:
                for j in range(count):
                    outer.product[j] *= outer.weight[j]
            if not p_end >= 0:  # NaN, from numbers that overflow
                return math.nan
            fall = math.log(p / p_end) if p_end > 0 else math.inf
            if is_few and not is_long and fall > 2 * _FEW_FALL and (m or n > 2 * _FEW):
                is_few = False
                continue
            can_halve = is_long or (not is_exact and y + 0.5 * width > y and width > 1e-13 * b)
            if not can_halve or fall <= (_LONG_FALL if is_long else _MOST_FALL):
                total += share_out(outer, through, through_curves, count)
                # Products of many factors are rounded, and so are nodes, which matters where a
                # density is steep. Halving does not help against that.
                missing = abs(total - (p - p_end))
                tolerance = TOLERANCE + 1e-12 * (p - p_end)
                steep = 4 * (rounded + end) * min(fall, 50.0) / width
                tolerance += _ROUNDING * p * (n + m + steep)
                if missing <= tolerance or not can_halve or not is_checked:
                    break
                if not is_long and missing > 0.45 * missing_before:
                    break
                if not is_long:
                    missing_before = missing
            if is_long:
                stop = interval + (stop - interval) // 2
                if stop - interval < _LEAST_INTERVALS:
                    stop = interval + 1
                width = b - y
            else:
                width *= 0.5
        for k in range(through):
            out[d.owner[outer.piece[k]]] += outer.share[k]
        for k in range(through_curves):
            out[d.curve_owner[outer.curve[k]]] += outer.curve_share[k]
        for k in range(inside):
            out[d.owner[partial.piece[k]]] += partial.share[partial.piece[k]]
        for k in range(inside_curves):
            out[d.curve_owner[partial.curve[k]]] += partial.curve_share[partial.curve[k]]
        growth = max(fall / width / decay, 1.0) if decay > 0 else 1.0
        p, last, decay = p_end, width, fall / width
        if p < _NEGLIGIBLE:
            return 0.0
        if is_long or end == b:
            interval, y = stop, 0.0
        else:
            y = end
    return p
