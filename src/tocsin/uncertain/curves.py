"""Distances that are not linear: of truncated normals in 1-D, of disks in 2-D and balls in 3-D.

A curve has eight parameters. For a normal, in deviations from its mean: the query point, how many a
unit of distance is, the ends; then the base of its masses, the tails beyond both ends, and one over
its whole mass. For a disk or a ball: the distance of its center from the query point, and its
radius. A place is uniform in its disk or ball.
"""

from __future__ import annotations

import math

from tocsin.jit import step
from tocsin.uncertain.normal import DENSITY, base_of, mass, tail

NORMAL_CURVE, DISK, BALL = range(3)
PARAMETERS = 8
# Chosen: up to here a series for a segment's area, which would lose digits to cancellation.
_SMALL_ANGLE = 0.3
_SHORT = 0.12  # the eighth term of a Taylor series is then below 1e-15


@step
def curve_at(curve, parameters, at, y):
    """Return the probability of a distance above y, and the density there."""
    if curve == NORMAL_CURVE:
        return normal_at(parameters, at, y)
    away, radius = parameters[at], parameters[at + 1]
    if y >= away + radius:
        return 0.0, 0.0
    if y <= away - radius:
        return 1.0, 0.0
    if curve == DISK:
        return disk_at(away, radius, y)
    return ball_at(away, radius, y)


@step
def write_normal(parameters, at, start, rate, bottom, top):
    """Write the parameters of a truncated normal, mirrored if most of it is below its mean."""
    if bottom + top < 0:
        start, bottom, top = -start, -top, -bottom
    base = base_of(bottom, top)
    end = tail(top, base)
    parameters[at], parameters[at + 1] = start, rate
    parameters[at + 2], parameters[at + 3] = bottom, top
    parameters[at + 4], parameters[at + 5] = base, end
    parameters[at + 6] = tail(bottom, base)
    parameters[at + 7] = 1 / mass(bottom, top, end, base)


@step
def normal_at(parameters, at, y):
    """Return both for a normal: what is further than y from the query point, on either side."""
    start, rate = parameters[at], parameters[at + 1]
    bottom, top = parameters[at + 2], parameters[at + 3]
    base = parameters[at + 4]
    right, left = start + y * rate, start - y * rate
    above, density = 0.0, 0.0
    if right < top:
        above += mass(max(right, bottom), top, parameters[at + 5], base)
        if right >= bottom:
            density += math.exp(0.5 * (base - right * right))
    if left > bottom:
        left = min(left, top)
        above += mass(bottom, left, tail(left, base), base)
        if start - y * rate <= top:
            density += math.exp(0.5 * (base - left * left))
    inverse = parameters[at + 7]
    return min(above * inverse, 1.0), density * DENSITY * rate * inverse


@step
def is_short(parameters, at, y, width):
    """Return whether a normal's Taylor series of eight terms holds to 1e-15 in a panel from y."""
    start, rate = parameters[at], parameters[at + 1]
    steep = 1 + abs(start) + (y + width) * rate
    return rate * width * steep < _SHORT


@step
def expand_normal(parameters, at, y, series):
    """Write the Taylor series at y of the probability of a distance above, eight terms."""
    start, rate = parameters[at], parameters[at + 1]
    bottom, top, base = parameters[at + 2], parameters[at + 3], parameters[at + 4]
    inverse = parameters[at + 7]
    series[:] = 0.0
    z = start + y * rate
    if z < top:
        above = mass(max(z, bottom), top, parameters[at + 5], base)
        if z >= bottom:
            add_derivatives(z, rate, -DENSITY * math.exp(0.5 * (base - z * z)), series)
        series[0] += above
    z = start - y * rate
    if z > bottom:
        below = mass(bottom, min(z, top), tail(min(z, top), base), base)
        if z <= top:
            add_derivatives(z, -rate, DENSITY * math.exp(0.5 * (base - z * z)), series)
        series[0] += below
    for k in range(8):
        series[k] *= inverse


@step
def add_derivatives(z, rate, density, series):
    """Add the integral of a normal's density from z on, as a series; by Hermite polynomials."""
    before, hermite = 0.0, 1.0
    factor = density * rate
    for k in range(7):
        series[k + 1] += factor * hermite
        before, hermite = hermite, z * hermite - k * before
        factor *= -rate / (k + 2)


@step
def disk_at(away, radius, y):
    """Return both for a disk that the circle of radius y around the query point meets."""
    area = math.pi * radius * radius
    if y <= radius - away:  # the circle is inside
        return 1 - (y / radius) ** 2, 2 * y / (radius * radius)
    # Four times the area of the triangle with sides away, radius and y (Heron).
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
def widest_panel(curve, parameters, at, y):
    """Return how wide a panel from y may be, so that eight nodes integrate the curve to 1e-13.

    A normal's derivatives grow with the deviations from the mean. Disks and balls are checked by
    their sum alone.
    """
    if curve != NORMAL_CURVE:
        return math.inf
    start, rate = parameters[at], parameters[at + 1]
    right, left = start + y * rate, start - y * rate
    steep = 0.0
    if right < parameters[at + 3]:
        steep = abs(right)
    if left > parameters[at + 2]:
        steep = max(steep, abs(left))
    return 1.5 / (1 + steep / 3) / rate
