"""The truncated normal distribution, exact to rounding, also far out in a tail or in a narrow part.

Everything is computed in deviations from the mean, and by one function: `mass` is the share of a
normal between two values, as a difference of complementary error functions. Three cases would lose
digits. An interval below the mean is mirrored, since differences near 2 cancel. Beyond 38
deviations erfc is 0; from 30 on it is replaced by exp(x^2) erfc(x), and everything is relative to
the near end of the interval. In a narrow interval both error functions are nearly equal, so the
density is integrated by a Gauss-Legendre rule instead.
"""

from __future__ import annotations

import math

from tocsin.jit import step

_ROOT_HALF = math.sqrt(0.5)
_ROOT_PI = math.sqrt(math.pi)
DENSITY = math.sqrt(2 / math.pi)  # twice the density of a standard normal at its mean
_FAR = 30.0  # deviations; chosen: erfc still has all its digits
# Of an interval, in deviations times how fast the density changes. Four nodes then err by 1e-14,
# and error functions beyond lose no more than a digit.
_NARROW = 0.3
_NODES = (0.06943184420297371, 0.33000947820757187, 0.6699905217924281, 0.9305681557970263)
_WEIGHTS = (0.17392742256872692, 0.32607257743127307, 0.32607257743127307, 0.17392742256872692)


@step
def base_of(low, high):
    """Return what `mass` and `density` of an interval take as the base: 0 unless it is far out."""
    near = max(low, -high)
    return near * near if near > _FAR else 0.0


@step
def tail(z, base):
    """Return twice the share of a standard normal above z, in units of exp(-base / 2)."""
    x = z * _ROOT_HALF
    if base == 0:
        return math.erfc(x)
    # The asymptotic series of exp(x^2) erfc(x); at 21 its eighth term is below 1e-16.
    half = 0.5 / (x * x)
    term, total = 1.0, 1.0
    for i in range(1, 9):
        term *= -half * (2 * i - 1)
        total += term
    return math.exp(0.5 * (base - z * z)) * total / (x * _ROOT_PI)


@step
def mass(low, high, tail_of_high, base):
    """Return twice the share of a standard normal in [low, high], in units of exp(-base / 2)."""
    width = high - low
    if width * (1 + max(abs(low), abs(high))) > _NARROW:
        return tail(low, base) - tail_of_high
    total = 0.0
    for i in range(4):
        z = low + width * _NODES[i]
        total += _WEIGHTS[i] * math.exp(0.5 * (base - z * z))
    return total * width * DENSITY


@step
def share_above(low, high, z):
    """Return the probability above z of a standard normal truncated to [low, high].

    `z` is within the interval.
    """
    base = base_of(low, high)
    if low + high < 0:  # mirrored
        whole = mass(-high, -low, tail(-low, base), base)
        return min(mass(-high, -z, tail(-z, base), base) / whole, 1.0)
    end = tail(high, base)
    return min(mass(z, high, end, base) / mass(low, high, end, base), 1.0)


@step
def truncated_density(low, high, z):
    """Return the density at z of a standard normal truncated to [low, high]."""
    base = base_of(low, high)
    if low + high < 0:
        low, high = -high, -low
    whole = mass(low, high, tail(high, base), base)
    return DENSITY * math.exp(0.5 * (base - z * z)) / whole
