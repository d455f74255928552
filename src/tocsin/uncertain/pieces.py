"""What uncertain values become as distances from a query point: linear pieces, and curves.

The probability of a greater distance than y is linear between two distances for a uniform value and
for a histogram, also if q is inside: the two sides are added. So such a value becomes *pieces*,
each linear in y. A normal value is a *curve*: its probabilities are computed by functions of y. It
is cut where its density falls below 1e-17 of its peak: outside it is flat, and need not be
integrated finely.

A distance is a pair of floats (see `exact`), scaled.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64Out, Int32Out, Int32s, kernel, step
from tocsin.uncertain.curves import FLAT, NORMAL_CURVE, PARAMETERS, curve_at, write_normal
from tocsin.uncertain.densities import HISTOGRAM, NORMAL, UNIFORM, Densities
from tocsin.uncertain.exact import gap, is_below, subtract

_MOST = 2.0**1000  # of a distance, if it is scaled up
LARGE = 1e30  # times another length, which is then nothing beside it


class Pieces(NamedTuple):
    """What the objects become, in their order."""

    owner: Int32Out
    left: Float64Out
    left_rest: Float64Out
    right: Float64Out
    right_rest: Float64Out
    survival: Float64Out
    density: Float64Out


class Curves(NamedTuple):
    """What is not linear: the same, with the parameters of a function."""

    owner: Int32Out
    left: Float64Out
    left_rest: Float64Out
    right: Float64Out
    right_rest: Float64Out
    parameters: Float64Out


@kernel
def write_pieces(
    d: Densities,
    kept: Int32s,
    q: float,
    shrink: float,
    scale: float,
    f: float,
    pieces: Pieces,
    curves: Curves,
) -> tuple[int, int]:
    """Write the pieces and curves of the objects that are kept; return how many there are."""
    n, n_curves = 0, 0
    cuts, cuts_rest = np.empty(5), np.empty(5)
    for at in range(kept.shape[0]):
        i = kept[at]
        low, low_rest = distance(d.low[i], q, shrink, scale)
        high, high_rest = distance(d.high[i], q, shrink, scale)
        family = d.family[i]
        if family == UNIFORM:
            n = write_uniform(pieces, n, i, scale, low, low_rest, high, high_rest)
        elif family == HISTOGRAM:
            n = write_histogram(d, pieces, n, i, q, shrink, scale)
        elif family == NORMAL:
            mean, mean_rest = distance(d.mean[i], q, shrink, scale)
            deviation = scale * (shrink * d.deviation[i])
            width = gap(high, high_rest, low, low_rest)
            if deviation > LARGE * width:  # it is uniform, to rounding
                n = write_uniform(pieces, n, i, scale, low, low_rest, high, high_rest)
                continue
            if scale > 1 and max(width, abs(mean)) >= _MOST and deviation > LARGE * f:
                continue  # nearly nothing of it is near
            n, n_curves = write_truncated_normal(
                pieces, curves, n, n_curves, i, mean, mean_rest, low, low_rest, high, high_rest,
                deviation, cuts, cuts_rest,
            )  # fmt: skip
    return n, n_curves


@step
def distance(x, q, shrink, scale):
    """Return how far x is above q, as a pair, scaled."""
    difference, rest = subtract(shrink * x, shrink * q)
    if scale <= 1 or abs(difference) * scale < _MOST:
        return difference * scale, rest * scale
    return math.copysign(_MOST, difference), 0.0


@step
def write_piece(p, n, owner, left, left_rest, right, right_rest, survival, density):
    """Write a piece."""
    p.owner[n], p.survival[n], p.density[n] = owner, survival, density
    p.left[n], p.left_rest[n] = left, left_rest
    p.right[n], p.right_rest[n] = right, right_rest


@step
def write_uniform(p, n, i, scale, low, low_rest, high, high_rest):
    """Write the pieces of a uniform value: with q inside, distances below both ends count twice."""
    width = gap(high, high_rest, low, low_rest)
    near, near_rest, far, far_rest = -low, -low_rest, high, high_rest
    if is_below(far, far_rest, near, near_rest):
        near, near_rest, far, far_rest = far, far_rest, near, near_rest
    beyond = gap(far, far_rest, near, near_rest)
    if scale > 1 and far >= _MOST:  # so wide that it is nearly never near
        return n
    if near > 0:
        write_piece(p, n, i, 0.0, 0.0, near, near_rest, beyond / width, 2 / width)
        n += 1
        if is_below(near, near_rest, far, far_rest):
            write_piece(p, n, i, near, near_rest, far, far_rest, 0.0, 1 / width)
            n += 1
    else:
        write_piece(p, n, i, 0.0 - near, 0.0 - near_rest, far, far_rest, 0.0, 1 / width)
        n += 1
    return n


@step
def write_histogram(d, p, n, i, q, shrink, scale):
    """Write the pieces of a histogram: between its edges, those below q mirrored.

    Bins on both sides are gone through from q outwards.
    """
    first, last = d.first[i], d.first[i + 1] - 1
    above = first  # the next edge above q
    while above <= last and d.edge[above] <= q:
        above += 1
    below = above - 1  # the last edge that is not
    begin, begun = n, d.low[i] < q < d.high[i]
    y, y_rest, beyond = 0.0, 0.0, 0.0
    for at in range(first, last):  # bins so far away that both edges are clipped
        a, _ = distance(d.edge[at], q, shrink, scale)
        b, _ = distance(d.edge[at + 1], q, shrink, scale)
        if scale > 1 and abs(a) >= _MOST and a == b:
            beyond += d.below[at + 1] - d.below[at]
    while above <= last or below >= first:
        right, right_rest, right_density = math.inf, 0.0, 0.0
        if above <= last:
            right, right_rest = distance(d.edge[above], q, shrink, scale)
            if above > first:
                a, a_rest = distance(d.edge[above - 1], q, shrink, scale)
                width = gap(right, right_rest, a, a_rest)
                if width > 0:
                    right_density = (d.below[above] - d.below[above - 1]) / width
        left, left_rest, left_density = math.inf, 0.0, 0.0
        if below >= first:
            left, left_rest = distance(d.edge[below], q, shrink, scale)
            left, left_rest = 0.0 - left, 0.0 - left_rest
            if below < last:
                a, a_rest = distance(d.edge[below + 1], q, shrink, scale)
                width = gap(left, left_rest, -a, -a_rest)
                if width > 0:
                    left_density = (d.below[below + 1] - d.below[below]) / width
        end, end_rest = right, right_rest
        is_left = is_below(left, left_rest, right, right_rest)
        if is_left:
            end, end_rest = left, left_rest
        if begun and is_below(y, y_rest, end, end_rest):
            density = right_density + left_density
            write_piece(p, n, i, y, y_rest, end, end_rest, 0.0, density)
            n += 1
        begun = True
        y, y_rest = end, end_rest
        if is_left:
            below -= 1
        else:
            above += 1
    # From the far end, so that it is exact where little is left.
    for piece in range(n - 1, begin - 1, -1):
        p.survival[piece] = beyond
        width = gap(p.right[piece], p.right_rest[piece], p.left[piece], p.left_rest[piece])
        beyond += p.density[piece] * width
    return n


@step
def write_truncated_normal(
    p, c, n, n_curves, i, mean, mean_rest, low, low_rest, high, high_rest, deviation, cuts,
    cuts_rest,
):  # fmt: skip
    """Write a normal, on one side of q or on both: curves, and pieces where it is flat."""
    if high <= 0:  # mirrored
        mean, mean_rest = -mean, -mean_rest
        low, low_rest, high, high_rest = -high, -high_rest, -low, -low_rest
    peak = max(gap(low, low_rest, mean, mean_rest), gap(mean, mean_rest, high, high_rest), 0.0)
    flat = math.sqrt(peak / deviation * (peak / deviation) + FLAT)
    far, far_rest = high, high_rest
    if low < 0 and is_below(high, high_rest, -low, -low_rest):
        far, far_rest = -low, -low_rest
    cuts[0], cuts_rest[0] = max(low, 0.0), low_rest if low > 0 else 0.0
    count = 1
    for end in range(4):
        if end < 2:
            y, y_rest = (low, low_rest) if end == 0 else (high, high_rest)
        else:
            away = flat * deviation if end == 2 else -flat * deviation
            y, y_rest = subtract(mean, away)
            y, y_rest = subtract(y, 0.0 - (y_rest + mean_rest))
        if y < 0:
            y, y_rest = -y, -y_rest
        if is_below(far, far_rest, y, y_rest):
            continue
        place = count
        while place > 0 and is_below(y, y_rest, cuts[place - 1], cuts_rest[place - 1]):
            cuts[place], cuts_rest[place] = cuts[place - 1], cuts_rest[place - 1]
            place -= 1
        if place == 0:  # nearer than the value begins
            for at in range(count):
                cuts[at], cuts_rest[at] = cuts[at + 1], cuts_rest[at + 1]
            continue
        cuts[place], cuts_rest[place] = y, y_rest
        count += 1
    for part in range(count - 1):
        a, a_rest, b, b_rest = cuts[part], cuts_rest[part], cuts[part + 1], cuts_rest[part + 1]
        if not is_below(a, a_rest, b, b_rest):
            continue
        at = PARAMETERS * n_curves
        write_normal(c.parameters, at, mean, mean_rest, low, low_rest, high, high_rest, deviation)
        # All of it is, or nothing, as it is cut there.
        half = 0.5 * gap(b, b_rest, a, a_rest)
        if is_flat(
            mean, mean_rest, low, low_rest, high, high_rest, flat * deviation, a, a_rest + half
        ):
            s_a, _ = curve_at(NORMAL_CURVE, c.parameters, at, a, a_rest)
            s_b, _ = curve_at(NORMAL_CURVE, c.parameters, at, b, b_rest)
            density = (s_a - s_b) / gap(b, b_rest, a, a_rest)
            write_piece(p, n, i, a, a_rest, b, b_rest, s_b, density)
            n += 1
        else:
            c.owner[n_curves] = i
            c.left[n_curves], c.left_rest[n_curves] = a, a_rest
            c.right[n_curves], c.right_rest[n_curves] = b, b_rest
            n_curves += 1
    return n, n_curves


@step
def is_flat(mean, mean_rest, low, low_rest, high, high_rest, flat, y, y_rest):
    """Return whether a normal has nearly nothing at the distance y, on both sides of q.

    `flat` is how far from its mean that is so.
    """
    is_right = is_below(y, y_rest, high, high_rest)
    is_left = is_below(y, y_rest, -low, -low_rest)
    right, left = gap(y, y_rest, mean, mean_rest), gap(y, y_rest, -mean, -mean_rest)
    return (not is_right or abs(right) >= flat) and (not is_left or abs(left) >= flat)
