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
from tocsin.jit import Float64Out, Float64s, Int32Out, Int32s, UInt8s, freeze_fields, kernel, step
from tocsin.uncertain.curves import (
    BALL,
    DISK,
    FLAT,
    NORMAL_CURVE,
    PARAMETERS,
    curve_at,
    write_normal,
)
from tocsin.uncertain.densities import HISTOGRAM, NORMAL, POINT, UNIFORM, Densities
from tocsin.uncertain.exact import gap, is_below, subtract

# A scaled distance is at most the first of these, and f at most the second, if it is scaled up.
_MOST, _MOST_F = 2.0**1000, 2.0**900
_LEAST_WIDTH = 2.0**-1020  # scaled; what is narrower counts as a point
_LARGE = 1e30  # times another length


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


class Bounded(NamedTuple):
    """What the first three phases leave to evaluate."""

    distances: Distances
    bound: float  # scaled f: nothing beyond matters
    nearest_points: np.ndarray  # objects without uncertainty at that distance
    f: float  # in the units of the readings
    objects: int


def bound_values(d: Densities, q: float) -> Bounded:
    """Return the distances of uncertain values from q."""
    largest = max(abs(q), *(float(np.abs(x).max()) for x in (d.low, d.high, d.mean, d.deviation)))
    shrink = 0.25 if largest > 1e307 else 1.0
    n = len(d.low)
    reach = np.empty((4, n))
    write_reach(d, q, shrink, *reach)
    near, near_rest, far, far_rest = reach
    f = float(far.min())
    f_rest = float(far_rest[far == f].min())
    # Subnormal widths may vanish if numbers are shrunk.
    is_point = (d.family == POINT) | ((near == far) & (near_rest == far_rest))
    kept = np.flatnonzero(~is_point & ((near < f) | ((near == f) & (near_rest < f_rest))))
    widths = shrink * d.high[kept] - shrink * d.low[kept]
    part = shrink * _narrowest_part(d, kept)
    scale = _choose_scale(f, min(widths.min(initial=f), part))
    is_narrow = widths < _LEAST_WIDTH / scale
    if part < _LEAST_WIDTH / scale:
        raise UncertainError(
            f"a deviation or a bin is {part / shrink:.3g} wide, at a distance of {f / shrink:.3g}; "
            "that is too narrow to compute with, so use a point"
        )
    points = np.flatnonzero(is_point & (near == f) & (near_rest == f_rest))
    if is_narrow.any():
        points, kept = np.union1d(points, kept[is_narrow]), kept[~is_narrow]
    most = 4 * len(kept) + 2 * int((d.first[1:] - d.first[:-1])[kept].sum()) + 1
    owner, space = np.empty((2, most), np.int32), np.empty((10, most))
    left, left_rest, right, right_rest = space[6:]
    pieces = Pieces(owner[0], *space[:6])
    curves = Curves(
        owner[1], left, left_rest, right, right_rest, parameters=np.empty(PARAMETERS * most)
    )
    n_pieces, n_curves = write_pieces(
        d, kept.astype(np.int32), q, shrink, scale, scale * f, pieces, curves
    )
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
    begin, end, curve_begin, curve_end, _ = np.split(number, [n, 2 * n, 2 * n + m, 2 * n + 2 * m])
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
    kept = np.flatnonzero((radii > 0) & (near < f) & (radii < _LARGE * f))
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


def _narrowest_part(d: Densities, kept: np.ndarray) -> float:
    """Return the smallest deviation and bin of values."""
    deviations = d.deviation[kept]
    with np.errstate(over="ignore"):
        bins = np.diff(d.edge)
    narrowest = deviations.min(initial=np.inf, where=deviations > 0)
    return float(min(narrowest, bins.min(initial=np.inf, where=bins > 0)))


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
def write_reach(
    d: Densities,
    q: float,
    shrink: float,
    near: Float64Out,
    near_rest: Float64Out,
    far: Float64Out,
    far_rest: Float64Out,
) -> None:
    """Write the smallest and the largest distance of each value from q (Fig. 5.5)."""
    for i in range(d.low.shape[0]):
        below, below_rest = subtract(shrink * q, shrink * d.low[i])
        above, above_rest = subtract(shrink * d.high[i], shrink * q)
        if is_below(above, above_rest, below, below_rest):
            below, below_rest, above, above_rest = above, above_rest, below, below_rest
        far[i], far_rest[i] = above, above_rest
        near[i], near_rest[i] = 0.0, 0.0
        if below < 0:
            near[i], near_rest[i] = -below, -below_rest


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
            if deviation > _LARGE * width:  # it is uniform, to rounding
                n = write_uniform(pieces, n, i, scale, low, low_rest, high, high_rest)
                continue
            if scale > 1 and max(width, abs(mean)) >= _MOST and deviation > _LARGE * f:
                continue  # nearly nothing of it is near
            n, n_curves = write_parts(
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
        if abs(a) >= _MOST and a == b:
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
def write_parts(
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
