"""Projection, pruning and bounding: how far each value may be from a query point (thesis, 5.3.2).

The minimum is the value nearest to the lowest end of all intervals, and the maximum the one nearest
to the highest end (5.3.3). So all three queries are about distances: X_i = |value_i - q|. They end
at f, the smallest of the farthest distances. An object whose nearest distance n_i is not below f
has no chance, and what is beyond f does not matter.

The probability that X_i is above y is linear between two distances for a uniform value and for a
histogram, also if q is inside: the two sides are added. So such an object becomes *pieces*, each
linear in y. A normal value, a disk or a ball is *curved*: its probabilities are computed by
functions of y. A normal is cut where its density falls below 1e-17 of its peak: outside it is
flat, and need not be integrated finely.

Distances are scaled by a power of two so that f is between 1/2 and 1: nothing overflows, and
differences of close values stay exact. Memory: 40 bytes per piece.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64Out, Float64s, Int32Out, Int32s, UInt8s, freeze_fields, kernel, step
from tocsin.uncertain.curves import (
    BALL,
    DISK,
    NORMAL_CURVE,
    PARAMETERS,
    curve_at,
    write_normal,
)
from tocsin.uncertain.densities import HISTOGRAM, NORMAL, POINT, UNIFORM, Densities

_FLAT = 81.0  # a square of deviations: exp(-81 / 2) is below 1e-17


class Distances(NamedTuple):
    """Distances of m objects from a query point, below the bound: pieces, and curves."""

    owner: Int32s  # [pieces] the object, ordered by left
    left: Float64s  # [pieces] where it begins
    right: Float64s  # [pieces] and ends
    survival: Float64s  # [pieces] the probability of a greater distance than right
    density: Float64s  # [pieces]
    curve_owner: Int32s  # [curves] the object, ordered by left
    curve_left: Float64s  # [curves]
    curve_right: Float64s  # [curves]
    curve: UInt8s  # [curves] which function
    parameters: Float64s  # [8 * curves] of that function


class Bounded(NamedTuple):
    """What the first three phases leave to evaluate."""

    distances: Distances
    bound: float  # scaled f: nothing beyond matters
    nearest_points: np.ndarray  # objects without uncertainty at that distance
    f: float  # as given
    objects: int


def bound_values(d: Densities, q: float) -> Bounded:
    """Return the distances of uncertain values from q."""
    shrink = 0.25 if max(abs(q), np.abs(d.low).max(), np.abs(d.high).max()) > 1e307 else 1.0
    n = len(d.low)
    near, far = np.empty(n), np.empty(n)
    write_reach(d, q, shrink, near, far)
    f = float(far.min())
    is_point = d.family == POINT
    # An interval that is narrower than distances are rounded is at f, too, as its far end is not
    # below f and its near end not above.
    is_point = is_point | ((near >= f * (1 - 1e-14)) & (far <= f * (1 + 1e-14)) & (near <= f))
    points = np.flatnonzero(is_point & (near <= f) & (far <= f * (1 + 1e-14)))
    kept = np.flatnonzero(~is_point & (near < f)).astype(np.int32)
    scale = _scale_to_one(f) * shrink
    edges = int((d.first[1:] - d.first[:-1])[kept].sum())
    most = 4 * len(kept) + 2 * edges + 1
    owner, curve_owner = np.empty(most, np.int32), np.empty(most, np.int32)
    left, right, survival, density = (np.empty(most) for _ in range(4))
    curve_left, curve_right, parameters = (
        np.empty(most),
        np.empty(most),
        np.empty(PARAMETERS * most),
    )
    cuts = np.empty(2 * int(np.diff(d.first).max(initial=0)) + 8)
    pieces, curves = write_pieces(
        d, kept, q, scale, cuts, owner, left, right, survival, density,
        curve_owner, curve_left, curve_right, parameters,
    )  # fmt: skip
    order, curve_order = np.argsort(left[:pieces]), np.argsort(curve_left[:curves])
    distances = freeze_fields(
        Distances,
        owner=owner[order],
        left=left[order],
        right=right[order],
        survival=survival[order],
        density=density[order],
        curve_owner=curve_owner[curve_order],
        curve_left=curve_left[curve_order],
        curve_right=curve_right[curve_order],
        curve=np.full(curves, NORMAL_CURVE),
        parameters=parameters[: PARAMETERS * curves]
        .reshape(-1, PARAMETERS)[curve_order]
        .reshape(-1),
    )
    return Bounded(distances, f * (scale / shrink), points, f / shrink, n)


def bound_disks(centers: np.ndarray, radii: np.ndarray, q: np.ndarray) -> Bounded:
    """Return the distances of uncertain places, in disks or balls, from q."""
    n, d = centers.shape
    largest = max(np.abs(centers).max(), np.abs(radii).max(), np.abs(q).max())
    shrink = 0.125 if largest > 1e306 else 1.0
    away, radii = _lengths(shrink * centers - shrink * q), shrink * radii
    near, far = np.maximum(away - radii, 0), away + radii
    f = float(far.min())
    points = np.flatnonzero((radii == 0) & (near == f))
    kept = np.flatnonzero((radii > 0) & (near < f))
    scale = _scale_to_one(f)
    away, radii, near, far = (scale * x[kept] for x in (away, radii, near, far))
    # While the circle around q is inside of a disk, the function is another one: two curves.
    inside = np.flatnonzero(radii > away)
    left = np.concatenate([np.where(radii > away, radii - away, near), np.zeros(len(inside))])
    right = np.concatenate([far, (radii - away)[inside]])
    owner = np.concatenate([kept, kept[inside]])
    parameters = np.zeros((len(left), PARAMETERS))
    parameters[:, 0] = np.concatenate([away, away[inside]])
    parameters[:, 1] = np.concatenate([radii, radii[inside]])
    order = np.argsort(left, kind="stable")
    order = order[left[order] < right[order]]
    nothing: np.ndarray = np.empty(0)
    distances = freeze_fields(
        Distances,
        owner=nothing, left=nothing, right=nothing, survival=nothing, density=nothing,
        curve_owner=owner[order],
        curve_left=left[order],
        curve_right=right[order],
        curve=np.full(len(order), DISK if d == 2 else BALL),
        parameters=parameters[order].reshape(-1),
    )  # fmt: skip
    return Bounded(distances, f * scale, points, f / shrink, n)


def _scale_to_one(f: float) -> float:
    """Return the power of two that brings f between 1/2 and 1."""
    return math.ldexp(1.0, -max(math.frexp(f)[1], -1000)) if f > 0 else 1.0


def _lengths(vectors: np.ndarray) -> np.ndarray:
    """Return the lengths of vectors, without overflow or underflow."""
    largest = np.abs(vectors).max(axis=1)
    with np.errstate(invalid="ignore"):
        scaled = vectors / largest[:, None]
    return np.where(largest > 0, largest * np.sqrt((scaled * scaled).sum(axis=1)), 0.0)


@kernel
def write_reach(d: Densities, q: float, shrink: float, near: Float64Out, far: Float64Out) -> None:
    """Write the smallest and the largest distance of each value from q: N_i and F_i (Fig. 5.5)."""
    low, high = d.low, d.high
    for i in range(low.shape[0]):
        below, above = shrink * q - shrink * low[i], shrink * high[i] - shrink * q
        near[i] = max(-below, -above, 0.0)
        far[i] = max(below, above)


@kernel
def write_pieces(
    d: Densities,
    kept: Int32s,
    q: float,
    scale: float,
    cuts: Float64Out,
    owner: Int32Out,
    left: Float64Out,
    right: Float64Out,
    survival: Float64Out,
    density: Float64Out,
    curve_owner: Int32Out,
    curve_left: Float64Out,
    curve_right: Float64Out,
    parameters: Float64Out,
) -> tuple[int, int]:
    """Write the pieces and curves of the objects that are kept; return how many there are."""
    family, low, high = d.family, d.low, d.high
    n, curves = 0, 0
    for at in range(kept.shape[0]):
        i = kept[at]
        below, above = scale * q - scale * low[i], scale * high[i] - scale * q
        if family[i] == UNIFORM:
            width = scale * high[i] - scale * low[i]
            near, far = min(below, above), max(below, above)
            if near > 0:  # q is inside
                owner[n], left[n], right[n] = i, 0.0, near
                survival[n], density[n] = (far - near) / width, 2 / width
                n += 1
            if far > near:
                owner[n], left[n], right[n] = i, abs(near), far
                survival[n], density[n] = 0.0, 1 / width
                n += 1
        elif family[i] == HISTOGRAM:
            begin = n
            for piece in range(fold_edges(d, i, q, scale, cuts) - 1):
                a, b = cuts[piece], cuts[piece + 1]
                owner[n], left[n], right[n] = i, a, b
                density[n] = density_around(d, i, q, scale, 0.5 * (a + b))
                n += 1
            beyond = 0.0  # from the far end, so that it is exact where little is left
            for piece in range(n - 1, begin - 1, -1):
                survival[piece] = beyond
                beyond += density[piece] * (right[piece] - left[piece])
        elif family[i] == NORMAL:
            # On the right of q, or mirrored; on both sides, if q is inside.
            deviation = scale * d.deviation[i]
            to_mean = scale * d.mean[i] - scale * q
            if above <= 0:
                below, above, to_mean = above, below, -to_mean
            start, end, rate = -to_mean / deviation, 0.0, 1 / deviation
            bottom, top = start - below * rate, start + above * rate
            far = max(below, above)
            cuts[0], cuts[1], count = max(-below, 0.0), far, 2
            if 0 < below < far or 0 < above < far:
                cuts[count] = min(below, above)
                count += 1
            peak = max(bottom, -top, 0.0)
            flat = math.sqrt(peak * peak + _FLAT)
            for z in (-flat, flat):
                end = abs((z - start) * deviation)
                if cuts[0] < end < far:
                    cuts[count] = end
                    count += 1
            cuts[:count].sort()
            for piece in range(count - 1):
                a, b = cuts[piece], cuts[piece + 1]
                if b <= a:
                    continue
                write_normal(parameters, PARAMETERS * curves, start, rate, bottom, top)
                s_a, _ = curve_at(NORMAL_CURVE, parameters, PARAMETERS * curves, a)
                s_b, _ = curve_at(NORMAL_CURVE, parameters, PARAMETERS * curves, b)
                if is_flat(start, rate, bottom, top, flat, a, b):
                    owner[n], left[n], right[n] = i, a, b
                    survival[n], density[n] = s_b, (s_a - s_b) / (b - a)
                    n += 1
                else:
                    curve_owner[curves], curve_left[curves], curve_right[curves] = i, a, b
                    curves += 1
    return n, curves


@step
def is_flat(start, rate, bottom, top, flat, a, b):
    """Return whether a normal has nearly nothing at distances between a and b, on both sides of q.

    `flat` is how many deviations from its mean that is so.
    """
    slack = 1e-9 * flat  # a and b are rounded
    right_low, right_high = start + a * rate, start + b * rate
    left_low, left_high = start - b * rate, start - a * rate
    flat -= slack
    right_flat = right_low >= flat or right_high <= -flat or right_low >= top - slack
    left_flat = left_high <= -flat or left_low >= flat or left_high <= bottom + slack
    return right_flat and left_flat


@step
def fold_edges(d, i, q, scale, cuts):
    """Write the distances of a histogram's edges from q, in order; return how many."""
    count = 0
    if d.low[i] < q < d.high[i]:
        cuts[0] = 0.0
        count = 1
    for at in range(d.first[i], d.first[i + 1]):
        cuts[count] = abs(scale * d.edge[at] - scale * q)
        count += 1
    cuts[:count].sort()
    kept = 1
    for at in range(1, count):
        if cuts[at] > cuts[kept - 1]:
            cuts[kept] = cuts[at]
            kept += 1
    return kept


@step
def density_around(d, i, q, scale, y):
    """Return the density of a histogram at the distance y from q, on both sides together."""
    total = 0.0
    for at in range(d.first[i], d.first[i + 1] - 1):
        a, b = scale * d.edge[at] - scale * q, scale * d.edge[at + 1] - scale * q
        weight = (d.below[at + 1] - d.below[at]) / (b - a)
        if a <= y < b:
            total += weight
        if a <= -y < b:
            total += weight
    return total
