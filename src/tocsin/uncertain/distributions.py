"""Answers that are values: distributions with bounds, densities and qualities (thesis, 5.4, 5.5.3).

A distribution has a continuous part and possibly atoms: values with a probability of their own,
where objects have no uncertainty. Subclasses give the density and the distribution function for
arrays. Quantiles are their inverses, mean and quality are integrals between the breakpoints where
the density is not smooth. These go over offsets from the breakpoints, since there may be only a few
floats between them, and are scaled, since densities may overflow.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tocsin.errors import UncertainError

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES, _WEIGHTS = 0.5 + 0.5 * _NODES, 0.5 * _WEIGHTS
_NOISE = 1e-14  # of a quality
_DEEPEST = 60  # halvings of a panel: a logarithm at its end is then integrated to rounding


class Smooth(NamedTuple):
    """The continuous part of a distribution, scaled: functions of a breakpoint and an offset."""

    breaks: np.ndarray  # where the density is not smooth, ascending, from the lower bound on
    pdf: Callable[[np.ndarray, np.ndarray], np.ndarray]
    cdf: Callable[[np.ndarray, np.ndarray], np.ndarray]
    scale: float


class Distribution(ABC):
    """The distribution of an uncertain value.

    `low` and `high` are its bounds, `atoms` the values that have a probability of their own, with
    these. `quality` is minus the differential entropy in bits, larger is better (Equation 5.13); it
    is infinite if there are atoms.
    """

    def __init__(self, what: str, low: float, high: float):
        self.low, self.high = low, high
        self._what = what

    @abstractmethod
    def _pdf(self, x: np.ndarray) -> np.ndarray:
        """Return the density of the continuous part, low <= x <= high."""

    @abstractmethod
    def _cdf(self, x: np.ndarray) -> np.ndarray:
        """Return the probability of a value up to x, low <= x < high."""

    @abstractmethod
    def _smooth(self) -> Smooth:
        """Return the functions to integrate."""

    @abstractmethod
    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """Return n independent values; the same for the same seed."""

    @property
    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """The values that have a probability of their own, and these."""
        return np.empty(0), np.empty(0)

    def pdf(self, x: Any) -> Any:
        """Return the density at x, a number or an array; atoms are not part of it."""
        return self._at(x, lambda inside: np.maximum(self._pdf(inside), 0.0), 0.0, 0.0)

    def cdf(self, x: Any) -> Any:
        """Return the probability of a value up to x, a number or an array."""
        return self._at(x, lambda inside: self._cdf(inside).clip(0.0, 1.0), 0.0, 1.0)

    def quantile(self, q: Any) -> Any:
        """Return the smallest value up to which the probability is at least q."""
        probabilities = _read_array(q, "q")
        if ((probabilities < 0) | (probabilities > 1)).any():
            raise UncertainError(f"a quantile is of a probability from 0 to 1, got {q!r}")
        low = np.full(probabilities.size, self.low)
        high = np.full(probabilities.size, self.high)
        flat = probabilities.reshape(-1)
        done = flat <= 0
        high[done] = self.low
        while True:
            middle = 0.5 * low + 0.5 * high
            todo = np.flatnonzero((low < middle) & (middle < high))
            if not len(todo):
                break
            is_enough = np.asarray(self.cdf(middle[todo])) >= flat[todo]
            high[todo[is_enough]] = middle[todo[is_enough]]
            low[todo[~is_enough]] = middle[todo[~is_enough]]
        is_enough = np.asarray(self.cdf(low)) >= flat
        found = np.where(is_enough, low, high).reshape(probabilities.shape)
        return float(found) if found.ndim == 0 else found

    @cached_property
    def mean(self) -> float:
        """The expected value."""
        breaks, _, cdf, scale = self._smooth()
        noise = 1e-15 * float(breaks[-1] - breaks[0])
        above = integrate_panels(lambda x, rest: 1 - cdf(x, rest), breaks, noise)
        return float(breaks[0]) / scale + above / scale

    @cached_property
    def quality(self) -> float:
        """Minus the differential entropy, in bits."""
        if len(self.atoms[0]):
            return math.inf

        breaks, pdf, _, scale = self._smooth()

        def information(x: np.ndarray, rest: np.ndarray) -> np.ndarray:
            density = np.maximum(pdf(x, rest), 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(density > 0, density * np.log2(density), 0.0)

        found = integrate_panels(information, breaks, _NOISE) + math.log2(scale)
        return found if abs(found) > _NOISE else 0.0

    def _at(
        self,
        x: Any,
        function: Callable[[np.ndarray], np.ndarray],
        below: float,
        above: float,
    ) -> Any:
        values = _read_array(x, "x")
        flat = values.reshape(-1)
        out = np.where(flat < self.low, below, above)
        # At `high` itself, a distribution function is 1 and a density may be positive.
        inside = (flat >= self.low) & ((flat < self.high) if above else (flat <= self.high))
        if self.low < self.high:
            out[inside] = function(flat[inside])
        elif above == 0:
            out[inside] = 0.0
        found = out.reshape(values.shape)
        return float(found) if found.ndim == 0 else found

    def __repr__(self) -> str:
        if self.low == self.high:
            return f"Distribution of {self._what}: {self.low:.6g}"
        return (
            f"Distribution of {self._what}: in [{self.low:.6g}, {self.high:.6g}], "
            f"mean {self.mean:.6g}, quality {self.quality:.6g}"
        )


def integrate_panels(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray], breaks: np.ndarray, noise: float
) -> float:
    """Return the integral of a function that is smooth between breakpoints.

    It takes breakpoints and offsets from them. A panel is halved until 16 Gauss-Legendre nodes and
    twice 16 agree: to 1e-13 of all, to 1e-12 of the function's size in the panel, as its values are
    rounded, or to `noise`, which does not matter.
    """
    origin, right = breaks[:-1], breaks[1:] - breaks[:-1]
    keep = right > 0
    origin, right = origin[keep], right[keep]
    left = np.zeros(len(right))
    whole, size = _integrate_each(function, origin, left, right)
    least = max(1e-13 * float(size.sum()), noise)
    total = 0.0
    for _ in range(_DEEPEST):
        if not len(left):
            break
        middle = 0.5 * left + 0.5 * right
        both = np.concatenate([origin, origin])
        ends = np.concatenate([left, middle]), np.concatenate([middle, right])
        halves, sizes = _integrate_each(function, both, *ends)
        (first, second), (size_1, size_2) = (np.split(each, 2) for each in (halves, sizes))
        error = np.abs(first + second - whole)
        is_done = (error <= np.maximum(least, 1e-12 * (size_1 + size_2))) | (middle <= left)
        is_done |= (middle >= right) | ~np.isfinite(error)
        total += float((first + second)[is_done].sum())
        rest = ~is_done
        origin = np.concatenate([origin[rest], origin[rest]])
        left = np.concatenate([left[rest], middle[rest]])
        right = np.concatenate([middle[rest], right[rest]])
        whole = np.concatenate([first[rest], second[rest]])
    return total + float(whole.sum() if len(left) else 0.0)


def _integrate_each(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    origin: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the integral of each panel, and that of the absolute values."""
    width = right - left
    offset = (left[:, None] + width[:, None] * _NODES).reshape(-1)
    values = function(np.repeat(origin, len(_NODES)), offset).reshape(-1, len(_NODES))
    return (values @ _WEIGHTS) * width, (np.abs(values) @ _WEIGHTS) * width


def _read_array(x: Any, name: str) -> np.ndarray:
    try:
        values = np.asarray(x, np.float64)
    except (TypeError, ValueError):
        raise UncertainError(f"{name} must be a number or an array of numbers, got {x!r}") from None
    if np.isnan(values).any():
        raise UncertainError(f"{name} must not be NaN")
    return values
