"""The truncated normal distribution, exact to rounding, also far out in a tail or in a narrow part.

Everything is computed in deviations from the mean, and by one function: `mass` is the share of a
normal between two values, as a difference of complementary error functions. Three cases would lose
digits. An interval below the mean is mirrored, since differences near 2 cancel. Beyond 38
deviations erfc is 0; from 30 on it is replaced by exp(x^2) erfc(x), and everything is relative to
`near`, the near end of the interval: densities are shares of the one there, and places are offsets.
Otherwise `near` is 0, the mean. In a narrow interval both error functions are nearly equal, so the
density is integrated by a Gauss-Legendre rule instead; widths are given apart from the ends, since
their difference is rounded.
"""

from __future__ import annotations

import math

from tocsin.jit import step

_ROOT_HALF = math.sqrt(0.5)
_ROOT_PI = math.sqrt(math.pi)
DENSITY = math.sqrt(2 / math.pi)  # twice the density of a standard normal at its mean
_FAR = 30.0  # deviations; chosen: erfc still has all its digits
# Width of an interval, in deviations, times how fast the density changes. Four nodes err by 1e-14,
# and error functions beyond lose no more than a digit.
_NARROW = 0.3
_NODES = (0.06943184420297371, 0.33000947820757187, 0.6699905217924281, 0.9305681557970263)
_WEIGHTS = (0.17392742256872692, 0.32607257743127307, 0.32607257743127307, 0.17392742256872692)


@step
def near_of(low):
    """Return where the offsets in an interval begin that is not mostly below the mean."""
    return low if low > _FAR else 0.0


@step
def fall(near, x):
    """Return the density at the offset x, as a share of that at `near`."""
    return math.exp(-x * (near + 0.5 * x))


@step
def tail(near, x):
    """Return twice the share of a normal above the offset x, in units of the density at `near`."""
    z = (near + x) * _ROOT_HALF
    if near == 0:
        return math.erfc(z)
    # The asymptotic series of exp(z^2) erfc(z); at 21 its eighth term is below 1e-16.
    half = 0.5 / (z * z)
    term, total = 1.0, 1.0
    for i in range(1, 9):
        term *= -half * (2 * i - 1)
        total += term
    return fall(near, x) * total / (z * _ROOT_PI)


@step
def mass(near, low, high, width, tail_of_high):
    """Return twice the share of a standard normal between two offsets, in the same units."""
    if width * (1 + max(abs(near + low), abs(near + high))) > _NARROW:
        return tail(near, low) - tail_of_high
    total = 0.0
    for i in range(4):
        total += _WEIGHTS[i] * fall(near, low + width * _NODES[i])
    return total * width * DENSITY


@step
def place(low, high, z, past, left):
    """Return `near`, and the offsets of both ends and of z, mirrored if most is below the mean.

    All are in deviations from the mean; z is `past` above the low end, and `left` below the high
    end.
    """
    if low + high < 0:
        low, high, z, past, left = -high, -low, -z, left, past
    near = near_of(low)
    return (near, 0.0, past + left, past) if near > 0 else (near, low, high, z)


@step
def share_above(low, high, width, z, past, left):
    """Return the probability above z of a standard normal truncated to [low, high].

    The arguments are those of `place`, and the width of the interval.
    """
    near, bottom, top, x = place(low, high, z, past, left)
    end = tail(near, top)
    whole = mass(near, bottom, top, width, end)
    if low + high < 0:
        return min(mass(near, bottom, x, left, tail(near, x)) / whole, 1.0)
    return min(mass(near, x, top, left, end) / whole, 1.0)


@step
def truncated_density(low, high, width, z, past, left):
    """Return the density at z of a standard normal truncated to [low, high]."""
    near, bottom, top, x = place(low, high, z, past, left)
    return DENSITY * fall(near, x) / mass(near, bottom, top, width, tail(near, top))
