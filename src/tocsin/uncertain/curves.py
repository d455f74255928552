"""Distances that are not linear: of truncated normals in 1-D, of disks in 2-D and balls in 3-D.

A curve has four parameters. For a normal: its ends and the query point, in deviations from its
mean, and how many deviations a unit of distance is. For a disk or a ball: the distance of its
center from the query point, and its radius. A place is uniform in its disk or ball.
"""

from __future__ import annotations

import math

from tocsin.jit import step
from tocsin.uncertain.normal import share_above, truncated_density

NORMAL_CURVE, DISK, BALL = range(3)
# Chosen: up to here a series for a segment's area, which would lose digits to cancellation.
_SMALL_ANGLE = 0.3


@step
def survival_at(curve, parameters, at, y):
    """Return the probability of a distance above y."""
    if curve == NORMAL_CURVE:
        return normal_survival(parameters, at, y)
    away, radius = parameters[at], parameters[at + 1]
    if y >= away + radius:
        return 0.0
    if y <= away - radius:
        return 1.0
    inner = radius - away
    if curve == DISK:
        if y <= inner:
            return 1 - (y / radius) ** 2
        return 1 - lens_area(away, radius, y) / (math.pi * radius * radius)
    if y <= inner:
        return 1 - (y / radius) ** 3
    reach = (radius + y - away) / radius
    rest = away * away + 2 * away * (radius + y) - 3 * (radius - y) * (radius - y)
    return 1 - reach * reach * rest / (16 * away * radius)


@step
def density_at(curve, parameters, at, y):
    """Return the density of the distance at y."""
    if curve == NORMAL_CURVE:
        return normal_density(parameters, at, y)
    away, radius = parameters[at], parameters[at + 1]
    if y >= away + radius or y <= away - radius:
        return 0.0
    if curve == DISK:
        if y <= radius - away:
            return 2 * y / (radius * radius)
        root = kite(away, radius, y)
        angle = math.atan2(root, away * away + (y - radius) * (y + radius))
        return 2 * y * angle / (math.pi * radius * radius)
    if y <= radius - away:
        return 3 * y * y / radius**3
    return 0.75 * y * (radius - away + y) * (radius + away - y) / (away * radius**3)


@step
def normal_survival(parameters, at, y):
    """Return the probability of being further than y from q, on either side."""
    low, high, start, rate = (
        parameters[at], parameters[at + 1], parameters[at + 2], parameters[at + 3],
    )  # fmt: skip
    right, left = start + y * rate, start - y * rate
    total = 0.0
    if right < high:
        total += share_above(low, high, max(right, low))
    if left > low:
        total += share_above(-high, -low, max(-left, -high))
    return min(total, 1.0)


@step
def normal_density(parameters, at, y):
    """Return the density of the distance y from q, of both sides."""
    low, high, start, rate = (
        parameters[at], parameters[at + 1], parameters[at + 2], parameters[at + 3],
    )  # fmt: skip
    right, left = start + y * rate, start - y * rate
    total = 0.0
    if low <= right <= high:
        total += truncated_density(low, high, right)
    if low <= left <= high:
        total += truncated_density(low, high, left)
    return total * rate


@step
def widest_panel(curve, parameters, at, y):
    """Return how wide a panel from y may be, so that eight nodes integrate the curve to 1e-13.

    A normal's derivatives grow with the deviations from the mean. Disks and balls are checked by
    their sum alone.
    """
    if curve != NORMAL_CURVE:
        return math.inf
    start, rate = parameters[at + 2], parameters[at + 3]
    right, left = abs(start + y * rate), abs(start - y * rate)
    if parameters[at] >= start:  # nothing is on the left
        left = 0.0
    return 1.5 / (1 + max(right, left) / 3) / rate


@step
def kite(away, radius, y):
    """Return four times the area of the triangle with sides away, radius and y (Heron)."""
    product = (y + radius - away) * (y + away - radius) * (away + radius - y) * (away + radius + y)
    return math.sqrt(max(product, 0.0))


@step
def lens_area(away, radius, y):
    """Return the common area of a disk and a disk of radius y around the query point."""
    root = kite(away, radius, y)
    at_query = math.atan2(root, away * away + (y - radius) * (y + radius))
    at_centre = math.atan2(root, away * away + (radius - y) * (radius + y))
    return y * y * segment(at_query) + radius * radius * segment(at_centre)


@step
def segment(angle):
    """Return the area of a segment of the unit circle, by half of its angle: a - sin(a) cos(a)."""
    if angle > _SMALL_ANGLE:
        return angle - math.sin(angle) * math.cos(angle)
    square = 4 * angle * angle
    term = 4 * angle**3 / 6 * 1.0
    total = term
    for i in range(1, 9):
        term *= -square / ((2 * i + 2) * (2 * i + 3))
        total += term
    return total
