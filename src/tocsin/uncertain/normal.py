"""The truncated normal distribution, exact to rounding also far out in a tail.

Everything is computed in deviations from the mean. An interval whose nearer end is more than a few
deviations away has so little of the whole normal that differences of its distribution function
cancel, and beyond 38 deviations they are zero. So probabilities there are ratios of the scaled
complementary error function, erfcx(x) = exp(x^2) erfc(x), which does not underflow. An interval
below the mean is mirrored.
"""

from __future__ import annotations

import math

from tocsin.jit import step

_ROOT_2 = math.sqrt(2)
_ROOT_PI = math.sqrt(math.pi)
_DENSITY_AT_MEAN = 1 / math.sqrt(2 * math.pi)
# Chosen: below, erfc loses nothing that matters; above, exp(x^2) would lose digits.
_ASYMPTOTIC = 12.0


@step
def erfcx(x):
    """Return exp(x^2) erfc(x) for x >= 0."""
    if x < _ASYMPTOTIC:
        return math.exp(x * x) * math.erfc(x)
    # The asymptotic series; at 12 its tenth term is below 1e-16.
    half = 0.5 / (x * x)
    term, total = 1.0, 1.0
    for i in range(1, 12):
        term *= -half * (2 * i - 1)
        total += term
    return total / (x * _ROOT_PI)


@step
def tail_ratio(near, far):
    """Return the share of a normal's tail beyond `near` that is beyond `far`, 0 <= near <= far."""
    if far == math.inf:
        return 0.0
    exponent = 0.5 * (near - far) * (near + far)
    return math.exp(exponent) * erfcx(far / _ROOT_2) / erfcx(near / _ROOT_2)


@step
def share_above(low, high, z):
    """Return the probability above z of a standard normal truncated to [low, high].

    `z` is within the interval.
    """
    if low >= 0:
        end = tail_ratio(low, high)
        return (tail_ratio(low, z) - end) / (1 - end)
    if high <= 0:
        end = tail_ratio(-high, -low)
        return (1 - tail_ratio(-high, -z)) / (1 - end)
    below = math.erfc(-low / _ROOT_2)  # twice the tail below, as all of these
    above = math.erfc(high / _ROOT_2)
    whole = 2 - below - above
    if z >= 0:
        return (math.erfc(z / _ROOT_2) - above) / whole
    return 1 - (math.erfc(-z / _ROOT_2) - below) / whole


@step
def truncated_density(low, high, z):
    """Return the density at z of a standard normal truncated to [low, high]."""
    if low >= 0 or high <= 0:
        near, far = (low, high) if low >= 0 else (-high, -low)
        distance = abs(z)
        # The density of the tail beyond `near` is that of the normal over the tail's share of it.
        in_tail = math.exp(0.5 * (near - distance) * (near + distance)) * 2 * _DENSITY_AT_MEAN
        return in_tail / erfcx(near / _ROOT_2) / (1 - tail_ratio(near, far))
    whole = 1 - 0.5 * (math.erfc(-low / _ROOT_2) + math.erfc(high / _ROOT_2))
    return _DENSITY_AT_MEAN * math.exp(-0.5 * z * z) / whole
