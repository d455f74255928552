"""The value of one object, and the lowest and highest value of all (thesis, 5.4.1 and 5.4.3).

The density of the lowest value is the sum over objects of f_i(x) times the product of the others'
survivals (Equation 5.7). Objects are ordered by their low ends, so that at x only those that begin
below are looked at. The highest value is the lowest of mirrored readings, mirrored.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tocsin.jit import Float64Out, Float64s, freeze_fields, kernel
from tocsin.uncertain.curves import FLAT
from tocsin.uncertain.densities import NORMAL, POINT, Densities, above_of, pdf_of
from tocsin.uncertain.distributions import Distribution, Smooth
from tocsin.uncertain.queries import check_readings, read_count
from tocsin.uncertain.readings import Readings
from tocsin.uncertain.sampling import draw

_MOST = 2.0**1000  # of scaled values; what is beyond is never the lowest
_LEAST = 1e-290  # of a factor of a product that is also divided by
_NEGLIGIBLE = 1e-20  # of the probability that the lowest value is still higher


def value(readings: Readings, id: Any) -> Distribution:
    """Return the value of one object (VSingleQ).

    >>> from tocsin import uncertain
    >>> uncertain.value(uncertain.Readings.uniform(["s1"], 20, 24), "s1")
    Distribution of s1: in [20, 24], mean 22, quality -2
    """
    check_readings(readings)
    return Lowest(f"{id}", readings.take([readings.position(id)]))


def lowest(readings: Readings) -> Distribution:
    """Return the smallest value (VMinQ); it has an atom where a value without uncertainty is."""
    check_readings(readings)
    return Lowest("the lowest value", readings)


def highest(readings: Readings) -> Distribution:
    """Return the largest value (VMaxQ); it has an atom where a value without uncertainty is."""
    check_readings(readings)
    return Highest(readings)


class Lowest(Distribution):
    """The smallest of several values."""

    def __init__(self, what: str, readings: Readings):
        super().__init__(what, float(readings.low.min()), float(readings.high.min()))
        # Values that begin above the bound have no chance: pruned, as in 5.3.2.
        near = np.flatnonzero(readings.low <= self.high)
        self._densities = readings.take(near[np.argsort(readings.low[near])]).densities
        point = (self._densities.family == POINT) & (self._densities.low == self.high)
        self._atom = (
            float(survival(self._densities, np.array([self.high]), np.zeros(1), at_end=True)[0])
            if point.any()
            else 0.0
        )

    @property
    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """The lowest value without uncertainty and its probability, if it has one."""
        if self._atom <= 0:
            return super().atoms
        return np.array([self.high]), np.array([self._atom])

    def _pdf(self, x: np.ndarray) -> np.ndarray:
        return lowest_pdf(self._densities, x, np.zeros(len(x)))

    def _cdf(self, x: np.ndarray) -> np.ndarray:
        return 1 - survival(self._densities, x, np.zeros(len(x)))

    def _smooth(self) -> Smooth:
        half = 0.5 * self.high - 0.5 * self.low
        exponent = -math.frexp(half)[1] if half > 0 else 0
        scale = math.ldexp(1.0, min(max(exponent, -1000), 1000))
        d = scale_densities(self._densities, scale)
        low, high = scale * self.low, scale * self.high
        breaks = smooth_ends(d)
        breaks = np.concatenate([[low], breaks[(breaks > low) & (breaks < high)], [high]])
        # Beyond the first break where the value is surely lower, nothing is left to integrate.
        left = survival(d, breaks[:-1], np.zeros(len(breaks) - 1))
        end = int(np.searchsorted(-left, -_NEGLIGIBLE))
        return Smooth(
            breaks[: end + 1],
            lambda x, rest: lowest_pdf(d, x, rest),
            lambda x, rest: 1 - survival(d, x, rest),
            scale,
        )

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """Return n independent values; the same for the same seed."""
        return draw(self._densities, read_count(n), seed).min(axis=1)


class Highest(Distribution):
    """The largest of several values: the smallest of the mirrored ones, mirrored."""

    def __init__(self, readings: Readings):
        self._mirrored = Lowest("", Readings(readings.ids, mirror(readings.densities)))
        mirrored = self._mirrored
        super().__init__("the highest value", 0.0 - mirrored.high, 0.0 - mirrored.low)

    @property
    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """The highest value without uncertainty and its probability, if it has one."""
        values, probabilities = self._mirrored.atoms
        return 0.0 - values, probabilities

    def _pdf(self, x: np.ndarray) -> np.ndarray:
        return self._mirrored._pdf(-x)

    def _cdf(self, x: np.ndarray) -> np.ndarray:
        # Up to x is not below -x in the mirror; points at its end count.
        return survival(self._mirrored._densities, -x, np.zeros(len(x)), at_end=True)

    def _smooth(self) -> Smooth:
        breaks, pdf, cdf, scale = self._mirrored._smooth()
        return Smooth(
            0.0 - breaks[::-1],
            lambda x, rest: pdf(-x, -rest),
            lambda x, rest: 1 - cdf(-x, -rest),
            scale,
        )

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """Return n independent values; the same for the same seed."""
        return -self._mirrored.sample(n, seed)


def scale_densities(d: Densities, scale: float) -> Densities:
    """Return the densities of the values times a power of two."""
    with np.errstate(over="ignore"):
        scaled = {name: scale * getattr(d, name) for name in ("low", "high", "mean", "edge")}
        deviation = scale * d.deviation
    return freeze_fields(
        Densities,
        **{name: x.clip(-_MOST, _MOST) for name, x in scaled.items()},
        deviation=deviation.clip(0, _MOST),
        family=d.family,
        first=d.first,
        below=d.below,
    )


def survival(d: Densities, x: np.ndarray, rest: np.ndarray, at_end: bool = False) -> np.ndarray:
    """Return the probability that all values are above pairs; at the end, points there count."""
    out = np.empty(len(x))
    write_survival(d, x, rest, at_end, out)
    return out


def lowest_pdf(d: Densities, x: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Return the density of the lowest value at pairs."""
    out = np.empty(len(x))
    write_lowest_pdf(d, x, rest, out)
    return out


def mirror(d: Densities) -> Densities:
    """Return the densities of the negated values."""
    sizes = np.diff(d.first)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    # Each histogram's edges in reverse, in their place.
    places = d.first[:-1][owner] + d.first[1:][owner] - 1 - np.arange(len(d.edge))
    return freeze_fields(
        Densities,
        family=d.family,
        low=0.0 - d.high,
        high=0.0 - d.low,
        mean=0.0 - d.mean,
        deviation=d.deviation,
        first=d.first,
        edge=0.0 - d.edge[places],
        below=1 - d.below[places],
    )


def smooth_ends(d: Densities) -> np.ndarray:
    """Return, in order, all values where some density is not smooth.

    A normal is smooth, but 16 nodes do not find it in a much wider interval: it is cut where it is
    flat, and around its mean.
    """
    breaks = [d.low, d.high, d.edge]
    normal = d.family == NORMAL
    mean, deviation = d.mean[normal], d.deviation[normal]
    low, high = d.low[normal], d.high[normal]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        to_interval = np.maximum(np.maximum(low - mean, mean - high), 0) / deviation
        # In a tail, the density falls over a part of the deviation.
        reach = np.sqrt(to_interval**2 + FLAT)
        for share in (1.0, 0.5, 0.2):
            distance = (to_interval + share * (reach - to_interval)) * deviation
            breaks += [mean - distance, mean + distance]
    return np.unique(np.concatenate([*breaks, mean]))


@kernel
def write_survival(
    d: Densities, x: Float64s, rest: Float64s, at_end: bool, out: Float64Out
) -> None:
    """Write the probability that all values are above pairs; they are ordered by their low ends."""
    for j in range(x.shape[0]):
        product = 1.0
        for i in range(d.low.shape[0]):
            if d.low[i] - x[j] > rest[j]:
                break
            if at_end and d.family[i] == POINT:
                product *= 1.0 if d.low[i] - x[j] >= rest[j] else 0.0
            else:
                product *= above_of(d, i, x[j], rest[j])
            if product == 0:
                break
        out[j] = product


@kernel
def write_lowest_pdf(d: Densities, x: Float64s, rest: Float64s, out: Float64Out) -> None:
    """Write the density of the lowest value (Equation 5.7)."""
    for j in range(x.shape[0]):
        product, hazard = 1.0, 0.0
        for i in range(d.low.shape[0]):
            if d.low[i] - x[j] > rest[j]:
                break
            if d.family[i] == POINT:
                continue  # only the atom at the end
            s = max(above_of(d, i, x[j], rest[j]), _LEAST)
            product *= s
            hazard += pdf_of(d, i, x[j], rest[j]) / s
        out[j] = hazard * product
