"""Distances that are not linear: of truncated normals in 1-D, of disks in 2-D and balls in 3-D.

A curve has twelve parameters. For a normal: its origin and its ends, as pairs of floats (see
`exact`) from the query point on; how many deviations a unit of distance is; `near` (see `normal`)
and the ends in deviations from the origin, which is the mean or the near end; the tail beyond the
high end, and one over the whole mass. For a disk or a ball: the distance of its center from the
query point, and its radius. A place is uniform in its disk or ball.
"""

from __future__ import annotations

import math

from tocsin.jit import step
from tocsin.uncertain.exact import gap
from tocsin.uncertain.normal import DENSITY, fall, mass, near_of, tail

NORMAL_CURVE, DISK, BALL = range(3)
PARAMETERS = 12
_ORIGIN, _LOW, _HIGH, RATE, _NEAR, _BOTTOM, _TOP, _TAIL, _INVERSE = 0, 2, 4, 6, 7, 8, 9, 10, 11
FLAT = 81.0  # a square of deviations: exp(-81 / 2) is below 1e-17, as a share of the peak
# Chosen: up to here a series for a segment's area, which would lose digits to cancellation.
_SMALL_ANGLE = 0.3
_SHORT = 0.12  # the eighth term of a Taylor series is then below 1e-15


@step
def curve_at(curve, parameters, at, y, rest):
    """Return the probability of a distance above the pair y, and the density there."""
    if curve == NORMAL_CURVE:
        return normal_at(parameters, at, y, rest)
    y += rest
    away, radius = parameters[at], parameters[at + 1]
    if y >= away + radius:
        return 0.0, 0.0
    if y <= away - radius:
        return 1.0, 0.0
    if curve == DISK:
        return disk_at(away, radius, y)
    return ball_at(away, radius, y)


@step
def write_normal(parameters, at, mean, mean_rest, low, low_rest, high, high_rest, deviation):
    """Write the parameters of a truncated normal, mirrored if most of it is below its mean."""
    rate = 1 / deviation
    bottom = rate * gap(low, low_rest, mean, mean_rest)
    top = rate * gap(high, high_rest, mean, mean_rest)
    if bottom + top < 0:
        bottom, top = -top, -bottom
        mean, mean_rest = -mean, -mean_rest
        low, low_rest, high, high_rest = -high, -high_rest, -low, -low_rest
    width = rate * gap(high, high_rest, low, low_rest)
    near = near_of(bottom)
    if near > 0:
        bottom, top = 0.0, width
        mean, mean_rest = low, low_rest
    end = tail(near, top)
    parameters[at + _ORIGIN], parameters[at + _ORIGIN + 1] = mean, mean_rest
    parameters[at + _LOW], parameters[at + _LOW + 1] = low, low_rest
    parameters[at + _HIGH], parameters[at + _HIGH + 1] = high, high_rest
    parameters[at + RATE], parameters[at + _NEAR] = rate, near
    parameters[at + _BOTTOM], parameters[at + _TOP] = bottom, top
    parameters[at + _TAIL] = end
    parameters[at + _INVERSE] = 1 / mass(near, bottom, top, width, end)


@step
def from_end(parameters, at, end, y, rest):
    """Return how far the pair y is below an end or the origin, in deviations."""
    return parameters[at + RATE] * gap(parameters[at + end], parameters[at + end + 1], y, rest)


@step
def normal_at(parameters, at, y, rest):
    """Return both for a normal: what is further than y from the query point, on either side."""
    near, above, density = parameters[at + _NEAR], 0.0, 0.0
    room = from_end(parameters, at, _HIGH, y, rest)
    if room > 0:
        if from_end(parameters, at, _LOW, y, rest) > 0:
            return 1.0, 0.0
        x = -from_end(parameters, at, _ORIGIN, y, rest)
        above += mass(near, x, parameters[at + _TOP], room, parameters[at + _TAIL])
        density += fall(near, x)
    room = -from_end(parameters, at, _LOW, -y, -rest)
    if room > 0:
        if from_end(parameters, at, _HIGH, -y, -rest) < 0:
            return 1.0, 0.0
        x = -from_end(parameters, at, _ORIGIN, -y, -rest)
        above += mass(near, parameters[at + _BOTTOM], x, room, tail(near, x))
        density += fall(near, x)
    inverse = parameters[at + _INVERSE]
    return min(above * inverse, 1.0), density * DENSITY * parameters[at + RATE] * inverse


@step
def steepness(parameters, at, y, rest):
    """Return how many deviations a normal is from its mean at the pair y; the larger of its sides.

    Its derivatives grow with that. A side where it is flat does not count.
    """
    near = parameters[at + _NEAR]
    peak = near + max(parameters[at + _BOTTOM], 0.0)
    most = (1 + 1e-6) * math.sqrt(peak * peak + FLAT)
    steep = 0.0
    if from_end(parameters, at, _HIGH, y, rest) > 0:
        z = abs(near - from_end(parameters, at, _ORIGIN, y, rest))
        steep = z if z < most else 0.0
    if from_end(parameters, at, _LOW, -y, -rest) < 0:
        z = abs(near - from_end(parameters, at, _ORIGIN, -y, -rest))
        steep = max(steep, z if z < most else 0.0)
    return steep


@step
def is_short(parameters, at, y, rest, width):
    """Return whether a normal's Taylor series of eight terms holds to 1e-15 in a panel from y."""
    wide = parameters[at + RATE] * width
    return wide * (1 + steepness(parameters, at, y, rest) + wide) < _SHORT


@step
def expand_normal(parameters, at, y, rest, series):
    """Write the Taylor series at y of the probability of a distance above, eight terms.

    It is in deviations.
    """
    near, inverse = parameters[at + _NEAR], parameters[at + _INVERSE]
    series[:] = 0.0
    room = from_end(parameters, at, _HIGH, y, rest)
    if room > 0:
        x = -from_end(parameters, at, _ORIGIN, y, rest)
        if from_end(parameters, at, _LOW, y, rest) > 0:
            series[0] += 1 / inverse
        else:
            add_derivatives(near + x, 1.0, -DENSITY * fall(near, x), series)
            series[0] += mass(near, x, parameters[at + _TOP], room, parameters[at + _TAIL])
    room = -from_end(parameters, at, _LOW, -y, -rest)
    if room > 0:
        x = -from_end(parameters, at, _ORIGIN, -y, -rest)
        if from_end(parameters, at, _HIGH, -y, -rest) < 0:
            series[0] += 1 / inverse
        else:
            add_derivatives(near + x, -1.0, DENSITY * fall(near, x), series)
            series[0] += mass(near, parameters[at + _BOTTOM], x, room, tail(near, x))
    for k in range(8):
        series[k] *= inverse


@step
def add_derivatives(z, sign, density, series):
    """Add the integral of a normal's density from z on, as a series; by Hermite polynomials.

    With a negative sign, z falls with the distance.
    """
    before, hermite = 0.0, 1.0
    factor = density * sign
    for k in range(7):
        series[k + 1] += factor * hermite
        before, hermite = hermite, z * hermite - k * before
        factor *= -sign / (k + 2)


@step
def disk_at(away, radius, y):
    """Return both for a disk that the circle of radius y around the query point meets."""
    area = math.pi * radius * radius
    if y <= radius - away:  # the circle is inside
        return 1 - (y / radius) ** 2, 2 * y / (radius * radius)
    # The root is four times the area of the triangle with sides away, radius and y (Heron).
    product = (y + radius - away) * (y + away - radius) * (away + radius - y) * (away + radius + y)
    root = math.sqrt(max(product, 0.0))
    at_query = math.atan2(root, away * away + (y - radius) * (y + radius))
    at_center = math.atan2(root, away * away + (radius - y) * (radius + y))
    lens = y * y * segment(at_query) + radius * radius * segment(at_center)
    return max(1 - lens / area, 0.0), 2 * y * at_query / area


@step
def ball_at(away, radius, y):
    """Return both for a ball that the sphere of radius y around the query point meets."""
    cube = radius**3
    if y <= radius - away:  # the sphere is inside
        return 1 - y**3 / cube, 3 * y * y / cube
    reach = (radius + y - away) / radius
    rest = away * away + 2 * away * (radius + y) - 3 * (radius - y) * (radius - y)
    density = 0.75 * y * (radius - away + y) * (radius + away - y) / (away * cube)
    return max(1 - reach * reach * rest / (16 * away * radius), 0.0), density


@step
def segment(angle):
    """Return the area of a segment of the unit circle, by half of its angle: a - sin(a) cos(a)."""
    if angle > _SMALL_ANGLE:
        return angle - math.sin(angle) * math.cos(angle)
    square = 4 * angle * angle
    term = 2 * angle**3 / 3
    total = term
    for i in range(1, 9):
        term *= -square / ((2 * i + 2) * (2 * i + 3))
        total += term
    return total


@step
def widest_panel(curve, parameters, at, y, rest):
    """Return how wide a panel from y may be, so that eight nodes integrate the curve to 1e-13.

    Disks and balls are checked by their sum alone.
    """
    if curve != NORMAL_CURVE:
        return math.inf
    return 1.5 / (1 + steepness(parameters, at, y, rest) / 3) / parameters[at + RATE]
