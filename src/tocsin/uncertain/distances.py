"""Projection, pruning and bounding: how far each value may be from a query point (thesis, 5.3.2).

The minimum is the value nearest to the lowest end of all intervals, and the maximum the one nearest
to the highest end (5.3.3). So all three queries are about distances: X_i = |value_i - q|. They end
at f, the smallest of the farthest distances. An object whose nearest distance n_i is not below f
has no chance, and what is beyond f does not matter.

The probability that X_i is above y is linear in y, piece by piece, or a curve: see `pieces`. Disks
and balls are curves.

The distance of a value is a pair of floats, without rounding (see `exact`): a value may be a
billion times narrower than its distance. Those of disks and balls are rounded. Where pieces begin
and end are *breaks*, numbered in order. Distances are scaled by a power of two so that f does not
overflow, and the narrowest value does not underflow. Memory: 44 bytes per piece, 16 per break.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tocsin.errors import UncertainError
from tocsin.jit import (
    Float64Out,
    Float64s,
    Int32Out,
    Int32s,
    Int64Out,
    UInt8s,
    bare_step,
    freeze_fields,
    kernel,
)
from tocsin.uncertain.curves import BALL, DISK, NORMAL_CURVE, PARAMETERS
from tocsin.uncertain.densities import POINT, Densities
from tocsin.uncertain.exact import is_below, subtract
from tocsin.uncertain.pieces import LARGE, Curves, Pieces, write_pieces

_MOST_F = 2.0**900  # if f is scaled up; leaves room for larger distances
_LEAST_WIDTH = 2.0**-1020  # scaled; what is narrower counts as a point


class Distances(NamedTuple):
    """Distances of m objects from a query point, below the bound: pieces, and curves."""

    breaks: Float64s  # [breaks] ascending, up to the bound
    breaks_rest: Float64s  # [breaks]
    owner: Int32s  # [pieces] the object, ordered by begin
    begin: Int32s  # [pieces] the break where it begins
    end: Int32s  # [pieces] and ends; the number of breaks if that is beyond the bound
    right: Float64s  # [pieces] where it ends
    right_rest: Float64s  # [pieces]
    survival: Float64s  # [pieces] the probability of a greater distance than right
    density: Float64s  # [pieces]
    curve_owner: Int32s  # [curves] the object, ordered by begin
    curve_begin: Int32s  # [curves]
    curve_end: Int32s  # [curves]
    curve: UInt8s  # [curves] which function
    parameters: Float64s  # [12 * curves] of that function


class Bounded(NamedTuple):
    """What the first three phases leave to evaluate."""

    distances: Distances
    bound: float  # scaled f: nothing beyond matters
    nearest_points: np.ndarray  # objects without uncertainty at that distance
    f: float  # in the units of the readings
    objects: int


def bound_values(d: Densities, q: float) -> Bounded:
    """Return the distances of uncertain values from q."""
    shrink = 0.25 if max(abs(q), find_largest(d)) > 1e307 else 1.0
    n = len(d.low)
    kept, points = np.empty(n, np.int32), np.empty(n, np.int64)
    f, f_rest, n_kept, n_points, width, part = select_values(d, q, shrink, kept, points)
    kept, points = kept[:n_kept], points[:n_points]
    scale = _choose_scale(f, min(width, part, f))
    if part < _LEAST_WIDTH / scale:
        raise UncertainError(
            f"a deviation or a bin of {part / shrink:.3g} is too narrow to compute with at a "
            f"distance of {f / shrink:.3g}; use a point instead"
        )
    if width < _LEAST_WIDTH / scale:
        is_narrow = shrink * d.high[kept] - shrink * d.low[kept] < _LEAST_WIDTH / scale
        points, kept = np.union1d(points, kept[is_narrow]), kept[~is_narrow]
    most = 4 * len(kept) + 2 * int((d.first[1:] - d.first[:-1])[kept].sum()) + 1
    owner, space = np.empty((2, most), np.int32), np.empty((10, most))
    left, left_rest, right, right_rest = space[6:]
    pieces = Pieces(owner[0], *space[:6])
    curves = Curves(
        owner[1], left, left_rest, right, right_rest, parameters=np.empty(PARAMETERS * most)
    )
    n_pieces, n_curves = write_pieces(d, kept, q, shrink, scale, scale * f, pieces, curves)
    kinds = np.full(n_curves, NORMAL_CURVE, np.uint8)
    distances = _number_breaks(pieces, n_pieces, curves, kinds, scale * f, scale * f_rest)
    return Bounded(distances, scale * f, points, f / shrink, n)


def _number_breaks(
    pieces: Pieces, n: int, curves: Curves, kinds: np.ndarray, f: float, f_rest: float
) -> Distances:
    """Return n pieces and the curves, ordered by where they begin, with the numbers of breaks."""
    m = len(kinds)
    p, c = pieces, curves
    ends = np.concatenate([p.left[:n], p.right[:n], c.left[:m], c.right[:m], [f]])
    rests = np.concatenate(
        [p.left_rest[:n], p.right_rest[:n], c.left_rest[:m], c.right_rest[:m], [f_rest]]
    )
    number = np.empty(len(ends), np.int32)
    breaks, breaks_rest = np.empty(len(ends)), np.empty(len(ends))
    count = number_pairs(ends, rests, number, breaks, breaks_rest)
    begin, end = number[:n], number[n : 2 * n]
    curve_begin, curve_end = number[2 * n : 2 * n + m], number[2 * n + m : 2 * n + 2 * m]
    order, curve_order = np.argsort(begin), np.argsort(curve_begin)
    return freeze_fields(
        Distances,
        breaks=breaks[:count],
        breaks_rest=breaks_rest[:count],
        owner=pieces.owner[order],
        begin=begin[order],
        end=end[order],
        right=pieces.right[order],
        right_rest=pieces.right_rest[order],
        survival=pieces.survival[order],
        density=pieces.density[order],
        curve_owner=curves.owner[curve_order],
        curve_begin=curve_begin[curve_order],
        curve_end=curve_end[curve_order],
        curve=kinds[curve_order],
        parameters=curves.parameters.reshape(-1, PARAMETERS)[curve_order].reshape(-1),
    )


def bound_disks(centers: np.ndarray, radii: np.ndarray, q: np.ndarray) -> Bounded:
    """Return the distances of uncertain places, in disks or balls, from q."""
    n, d = centers.shape
    largest = max(np.abs(centers).max(), np.abs(radii).max(), np.abs(q).max())
    shrink = 0.125 if largest > 1e306 else 1.0
    away, radii = lengths(shrink * centers - shrink * q), shrink * radii
    near, far = np.maximum(away - radii, 0), away + radii
    f = float(far.min())
    points = np.flatnonzero((radii == 0) & (near == f))
    # A disk that is much larger than f is nearly never near.
    kept = np.flatnonzero((radii > 0) & (near < f) & (radii < LARGE * f))
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
    chosen = np.flatnonzero(left < right)
    none, rest = np.empty(0), np.zeros(len(chosen))
    distances = _number_breaks(
        Pieces(none.astype(np.int32), none, none, none, none, none, none),
        0,
        Curves(
            owner[chosen].astype(np.int32), left[chosen], rest, right[chosen], rest,
            parameters[chosen].reshape(-1),
        ),
        np.full(len(chosen), DISK if d == 2 else BALL, np.uint8),
        scale * f,
        0.0,
    )  # fmt: skip
    return Bounded(distances, f * scale, points, f / shrink, n)


def _choose_scale(f: float, narrowest: float) -> float:
    """Return the power of two that brings f and the narrowest value as far from 1 as each other."""
    if f == 0:
        return 1.0
    of_f, of_narrowest = math.frexp(f)[1], math.frexp(narrowest)[1]
    # Not further up than leaves room above f.
    least = 0 if f >= _MOST_F else of_f - 900
    exponent = max((of_f + of_narrowest) // 2, least)
    return math.ldexp(1.0, min(max(-exponent, -1000), 1000))


def _scale_to_one(f: float) -> float:
    """Return the power of two that brings f between 1/2 and 1."""
    return math.ldexp(1.0, -max(math.frexp(f)[1], -1000)) if f > 0 else 1.0


def lengths(vectors: np.ndarray) -> np.ndarray:
    """Return the lengths of vectors, without overflow or underflow."""
    largest = np.abs(vectors).max(axis=1)
    with np.errstate(invalid="ignore"):
        scaled = vectors / largest[:, None]
    return np.where(largest > 0, largest * np.sqrt((scaled * scaled).sum(axis=1)), 0.0)


@kernel
def number_pairs(
    ends: Float64s,
    rests: Float64s,
    number: Int32Out,
    breaks: Float64Out,
    breaks_rest: Float64Out,
) -> int:
    """Write the different pairs up to the last given one, the bound, in order; return how many.

    Pairs are numbered by their place there; those beyond the bound have its number plus one.
    """
    n = ends.shape[0]
    f, f_rest = ends[n - 1], rests[n - 1]
    kept, count = np.empty(n, np.int64), 0
    for i in range(n):
        if not is_below(f, f_rest, ends[i], rests[i]):
            kept[count] = i
            count += 1
    kept = kept[:count]
    # By both parts: sorting by the first one keeps the order of equal ones.
    kept = kept[np.argsort(rests[kept], kind="mergesort")]
    kept = kept[np.argsort(ends[kept], kind="mergesort")]
    breaks_count = 0
    number[:] = -1
    for at in range(count):
        i = kept[at]
        last = breaks_count - 1
        if last < 0 or is_below(breaks[last], breaks_rest[last], ends[i], rests[i]):
            breaks[breaks_count], breaks_rest[breaks_count] = ends[i], rests[i]
            breaks_count += 1
        number[i] = breaks_count - 1
    for i in range(n):
        if number[i] < 0:
            number[i] = breaks_count
    return breaks_count


@kernel
def find_largest(d: Densities) -> float:
    """Return the largest magnitude of all numbers."""
    largest = 0.0
    for i in range(d.low.shape[0]):
        largest = max(largest, abs(d.low[i]), abs(d.high[i]), abs(d.mean[i]), d.deviation[i])
    return largest


@bare_step
def reach_of(d, i, q, shrink):
    """Return the smallest and the largest distance of a value from q, as pairs (Fig. 5.5)."""
    below, below_rest = subtract(shrink * q, shrink * d.low[i])
    above, above_rest = subtract(shrink * d.high[i], shrink * q)
    if is_below(above, above_rest, below, below_rest):
        below, below_rest, above, above_rest = above, above_rest, below, below_rest
    if below < 0:
        return -below, -below_rest, above, above_rest
    return 0.0, 0.0, above, above_rest


@kernel
def select_values(
    d: Densities, q: float, shrink: float, kept: Int32Out, points: Int64Out
) -> tuple[float, float, int, int, float, float]:
    """Prune: write which values may be nearer than the bound, and which points are at it.

    Return the bound as a pair, how many these are, and the smallest width of those kept, and of
    their deviations and bins.
    """
    n, f, f_rest = d.low.shape[0], math.inf, 0.0
    for i in range(n):
        _, _, far, far_rest = reach_of(d, i, q, shrink)
        if is_below(far, far_rest, f, f_rest):
            f, f_rest = far, far_rest
    n_kept, n_points, width, part = 0, 0, math.inf, math.inf
    for i in range(n):
        near, near_rest, far, far_rest = reach_of(d, i, q, shrink)
        # Subnormal widths may vanish if numbers are shrunk.
        if d.family[i] == POINT or (near == far and near_rest == far_rest):
            if near == f and near_rest == f_rest:
                points[n_points] = i
                n_points += 1
        elif is_below(near, near_rest, f, f_rest):
            kept[n_kept] = i
            n_kept += 1
            width = min(width, shrink * d.high[i] - shrink * d.low[i])
            if d.deviation[i] > 0:
                part = min(part, shrink * d.deviation[i])
            for e in range(d.first[i], d.first[i + 1] - 1):
                if d.edge[e + 1] > d.edge[e]:
                    part = min(part, shrink * (d.edge[e + 1] - d.edge[e]))
    return f, f_rest, n_kept, n_points, width, part


@kernel
def write_reach(
    d: Densities,
    q: float,
    shrink: float,
    near: Float64Out,
    near_rest: Float64Out,
    far: Float64Out,
    far_rest: Float64Out,
) -> None:
    """Write the smallest and the largest distance of each value from q."""
    for i in range(d.low.shape[0]):
        near[i], near_rest[i], far[i], far_rest[i] = reach_of(d, i, q, shrink)
