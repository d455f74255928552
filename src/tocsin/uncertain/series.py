"""The density of a sum as a Fourier series, from characteristic functions (thesis, 5.4.2).

The thesis convolves densities one after the other (Equation 5.4). The characteristic function of a
sum is the product of those of its terms, which are known in closed form. On a window of length 2 L
the density is a Fourier series, whose coefficients are that product at multiples of pi / L. The
window is the support of the sum, or a shorter one around its mean that leaves out less than 1e-18
(Hoeffding). With many terms a few dozen coefficients are enough: the product falls like a normal's.
With few terms it falls slowly: see `sums`.

The characteristic function of a truncated normal is that of the whole normal, less those of the
parts that are cut off: error functions of complex numbers, computed by Weideman's rational
approximation of the Faddeeva function.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64Out, Float64s, freeze_fields, kernel, step
from tocsin.uncertain.densities import HISTOGRAM, NORMAL, UNIFORM, Densities
from tocsin.uncertain.normal import fall, mass, place, tail, truncated_density

_TAIL = math.sqrt((math.log(1e18) + math.log(2)) / 2)  # Hoeffding: 2 exp(-2 t^2) = 1e-18
_RESYNC = 32  # steps of a rotation before sine and cosine are computed again
_TERMS = 48  # of the rational approximation; its error is then below 1e-14


class Series(NamedTuple):
    """A density on a window of length 2 L around its mean, as a Fourier series."""

    mean: Float64s  # [1]
    half: Float64s  # [1] L
    real: Float64s  # [m] coefficients of frequencies pi / L, 2 pi / L, ...
    imaginary: Float64s  # [m]


def faddeeva_coefficients(terms: int) -> np.ndarray:
    """Return the coefficients of Weideman's approximation (SIAM J. Numer. Anal. 31, 1994)."""
    m = 2 * terms
    k = np.arange(-m + 1, m)
    length = math.sqrt(terms / math.sqrt(2))
    t = length * np.tan(k * math.pi / m / 2)
    f = np.concatenate([[0.0], np.exp(-t * t) * (length * length + t * t)])
    a = np.real(np.fft.fft(np.fft.fftshift(f))) / (2 * m)
    return np.concatenate([[length], a[1 : terms + 1][::-1]])


FADDEEVA = faddeeva_coefficients(_TERMS)


def choose_window(d: Densities, means: np.ndarray) -> float:
    """Return half the length of a window that has all but 1e-18 of a sum, around its mean."""
    widths = d.high - d.low
    to_end = max(float((means - d.low).sum()), float((d.high - means).sum()))
    return min(to_end, _TAIL * math.sqrt(float((widths * widths).sum()))) * (1 + 1e-9)


def count_terms(d: Densities, half: float, most: int) -> int:
    """Return how many coefficients a series needs, or 0 if they are more than `most`.

    A density of total variation v has a characteristic function below v / frequency; that of a
    normal within its interval falls faster until its ends, where it is cut off, matter. The rest
    must add up to less than 1e-15 of the peak, which is at least 1 / (2 L).
    """
    m = 8
    while m <= most:
        frequency = math.pi * m / half
        bound = float(np.log(bound_magnitudes(d, frequency)).sum())
        if bound + math.log(m) < math.log(1e-16):
            return m
        m = m * 5 // 4
    return 0


def bound_magnitudes(d: Densities, frequency: float) -> np.ndarray:
    """Return an upper bound of each characteristic function from a frequency on."""
    variation = np.empty(len(d.low))
    write_variations(d, variation)
    bound = np.minimum(variation / frequency, 1.0)
    normal = d.family == NORMAL
    if normal.any():
        low, high, mean = d.low[normal], d.high[normal], d.mean[normal]
        deviation = d.deviation[normal]
        at_ends = np.empty(int(normal.sum()))
        cut = [(low - mean) / deviation, (high - mean) / deviation]
        write_end_densities(cut[0], cut[1], at_ends)
        whole = 2 * np.exp(-0.5 * np.minimum((deviation * frequency) ** 2, 1400.0))
        # Only a normal most of which is inside falls like a whole one.
        inside = (cut[0] < 0) & (cut[1] > 0)
        smooth = whole + 2 * at_ends / (deviation * frequency)
        bound[normal] = np.where(inside, np.minimum(bound[normal], smooth), bound[normal])
    return np.maximum(bound, 1e-300)


def make_series(d: Densities, means: np.ndarray, half: float, terms: int) -> Series:
    """Return the density of the sum as a series with so many coefficients."""
    real, imaginary = np.ones(terms), np.zeros(terms)
    multiply_characteristics(d, means, math.pi / half, FADDEEVA, real, imaginary)
    return freeze_fields(
        Series, mean=[math.fsum(means)], half=[half], real=real, imaginary=imaginary
    )


@kernel
def write_variations(d: Densities, out: Float64Out) -> None:
    """Write the total variation of each density, with the steps at its ends."""
    for i in range(d.low.shape[0]):
        if d.family[i] == HISTOGRAM:
            before, total = 0.0, 0.0
            for at in range(d.first[i], d.first[i + 1] - 1):
                own = (d.below[at + 1] - d.below[at]) / (d.edge[at + 1] - d.edge[at])
                total += abs(own - before)
                before = own
            out[i] = total + before
        elif d.family[i] == NORMAL:
            a = (d.low[i] - d.mean[i]) / d.deviation[i]
            b = (d.high[i] - d.mean[i]) / d.deviation[i]
            width = (d.high[i] - d.low[i]) / d.deviation[i]
            z = min(max(0.0, a), b)
            peak = truncated_density(a, b, width, z, z - a, b - z) / d.deviation[i]
            out[i] = 2 * peak
        else:
            out[i] = 2 / (d.high[i] - d.low[i])


@kernel
def write_end_densities(low: Float64s, high: Float64s, out: Float64Out) -> None:
    """Write the densities of truncated standard normals at both ends together."""
    for i in range(out.shape[0]):
        width = high[i] - low[i]
        out[i] = truncated_density(low[i], high[i], width, low[i], 0.0, width)
        out[i] += truncated_density(low[i], high[i], width, high[i], width, 0.0)


@kernel
def multiply_characteristics(
    d: Densities,
    mean: Float64s,
    step_: float,
    faddeeva: Float64s,
    real: Float64Out,
    imaginary: Float64Out,
) -> None:
    """Multiply coefficients by the characteristic functions of all values, less their means."""
    for i in range(d.low.shape[0]):
        low, high = d.low[i] - mean[i], d.high[i] - mean[i]
        for m in range(real.shape[0]):
            w = step_ * (m + 1)
            if d.family[i] == UNIFORM:
                half = 0.5 * w * (high - low)
                value = complex(math.sin(half) / half, 0.0)
            elif d.family[i] == HISTOGRAM:
                value = complex(0.0, 0.0)
                for at in range(d.first[i], d.first[i + 1] - 1):
                    a, b = d.edge[at] - mean[i], d.edge[at + 1] - mean[i]
                    half, middle = 0.5 * w * (b - a), 0.5 * w * (a + b)
                    share = (d.below[at + 1] - d.below[at]) * math.sin(half) / half
                    value += complex(share * math.cos(middle), share * math.sin(middle))
            else:
                value = normal_characteristic(
                    low, high, d.mean[i] - mean[i], d.deviation[i], w, faddeeva
                )
            product = complex(real[m], imaginary[m]) * value
            real[m], imaginary[m] = product.real, product.imag


@step
def faddeeva_of(z, coefficients):
    """Return w(z) = exp(-z^2) erfc(-i z), for z in the upper half-plane."""
    length = coefficients[0]
    below = complex(length, 0.0) - complex(-z.imag, z.real)
    ratio = (complex(length, 0.0) + complex(-z.imag, z.real)) / below
    total = complex(0.0, 0.0)
    for k in range(1, coefficients.shape[0]):
        total = total * ratio + coefficients[k]
    return 2 * total / (below * below) + complex(1 / math.sqrt(math.pi), 0.0) / below


@step
def normal_characteristic(low, high, mean, deviation, w, coefficients):
    """Return the characteristic function of a truncated normal.

    The tail above z has exp(-z^2 / 2 + i w x) W(z) / 2 of the whole normal's, where W is the
    Faddeeva function of (w deviation + i z) / sqrt(2); below the mean it is mirrored. No term is
    larger than the density at an end, or than that of the whole normal.
    """
    a, b = (low - mean) / deviation, (high - mean) / deviation
    if b <= 0:  # mirrored, so that an interval in a tail is in the upper one
        mirrored = normal_characteristic_above(-high, -low, -mean, deviation, w, coefficients)
        return complex(mirrored.real, -mirrored.imag)
    if a >= 0:
        return normal_characteristic_above(low, high, mean, deviation, w, coefficients)
    s = w * deviation
    share = 0.5 * mass(0.0, a, b, (high - low) / deviation, tail(0.0, b))
    gauss = math.exp(-0.5 * s * s)
    whole = complex(gauss * math.cos(w * mean), gauss * math.sin(w * mean))
    upper = tail_characteristic(b, high, s, w, coefficients)
    lower = tail_characteristic(-a, -low, s, w, coefficients)
    return (whole - upper - complex(lower.real, -lower.imag)) / share


@step
def tail_characteristic(z, x, s, w, coefficients):
    """Return the part of a normal's characteristic function above x, z deviations from its mean."""
    size = 0.5 * math.exp(-0.5 * z * z)
    value = faddeeva_of(complex(s / math.sqrt(2.0), z / math.sqrt(2.0)), coefficients)
    return complex(size * math.cos(w * x), size * math.sin(w * x)) * value


@step
def normal_characteristic_above(low, high, mean, deviation, w, coefficients):
    """Return it for an interval above the mean, relative to the tail above its low end."""
    a, b = (low - mean) / deviation, (high - mean) / deviation
    s = w * deviation
    near = faddeeva_of(complex(s / math.sqrt(2.0), a / math.sqrt(2.0)), coefficients)
    far = faddeeva_of(complex(s / math.sqrt(2.0), b / math.sqrt(2.0)), coefficients)
    width = (high - low) / deviation
    less = fall(a, width)
    first = complex(math.cos(w * low), math.sin(w * low)) * near
    second = complex(less * math.cos(w * high), less * math.sin(w * high)) * far
    origin, bottom, top, _ = place(a, b, a, 0.0, width)
    whole = mass(origin, bottom, top, width, tail(origin, top)) * math.exp(0.5 * bottom * bottom)
    return (first - second) / whole


@kernel
def sum_series(s: Series, x: Float64s, pdf: Float64Out, cdf: Float64Out) -> None:
    """Write the density and the distribution function at x."""
    mean, half = s.mean[0], s.half[0]
    step_ = math.pi / half
    for j in range(x.shape[0]):
        y = x[j] - mean
        if y <= -half or y >= half:
            pdf[j], cdf[j] = 0.0, (0.0 if y < 0 else 1.0)
            continue
        turn = complex(math.cos(step_ * y), -math.sin(step_ * y))
        rotated = complex(1.0, 0.0)
        density, share = 0.5, 0.5 * (y + half)
        for m in range(s.real.shape[0]):
            if m % _RESYNC == 0:
                angle = step_ * (m + 1) * y
                rotated = complex(math.cos(angle), -math.sin(angle))
            w = step_ * (m + 1)
            term = complex(s.real[m], s.imaginary[m]) * rotated
            density += term.real
            # The integral from -L, where the series begins: exp(i w L) is 1 or -1.
            sign = -1.0 if m % 2 == 0 else 1.0
            share += (-term.imag + s.imaginary[m] * sign) / w
            rotated *= turn
        pdf[j], cdf[j] = max(density / half, 0.0), min(max(share / half, 0.0), 1.0)
