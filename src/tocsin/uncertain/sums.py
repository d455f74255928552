"""The sum and the average of uncertain values (VSumQ and VAvgQ; thesis, 5.4.2).

A sum of many values is a short Fourier series (`series`). The fewer and the more different the
values, the more coefficients it takes: a single uniform value has steps, which no series reaches.
So the widest values are left out until what remains is a short series, or nothing; then they are
added one by one, as polynomials between breakpoints (`piecewise`). With comparable widths all is a
series from about six values on. Values without uncertainty only shift the sum.

Densities are exact to 1e-13 of the peak. Making a sum of n values costs n times the number of
coefficients, in nanoseconds times ten; each further value as polynomials some milliseconds.
"""

from __future__ import annotations

import math

import numpy as np

from tocsin.errors import UncertainError
from tocsin.jit import Float64Out, freeze, kernel
from tocsin.uncertain.densities import HISTOGRAM, NORMAL, POINT, UNIFORM, Densities, take_densities
from tocsin.uncertain.distributions import Distribution, Smooth
from tocsin.uncertain.extremes import Lowest, lowest_pdf, smooth_ends
from tocsin.uncertain.normal import truncated_density
from tocsin.uncertain.piecewise import (
    RULE,
    Panels,
    add_normal,
    add_steps,
    make_panels,
    read_panels,
)
from tocsin.uncertain.queries import check_readings, read_count
from tocsin.uncertain.readings import Readings
from tocsin.uncertain.sampling import draw
from tocsin.uncertain.series import (
    Series,
    choose_window,
    count_terms,
    make_series,
    sum_series,
)

_MOST_TERMS = 1 << 14  # of a series; chosen: twelve values of different widths take 2 ms
_NEGLIGIBLE = 1e-16  # of the widest value: narrower ones only shift the sum
_SAMPLE_BLOCK = 1 << 22  # values drawn at once


def total(readings: Readings) -> Distribution:
    """Return the sum of all values (VSumQ).

    >>> from tocsin import uncertain
    >>> uncertain.total(uncertain.Readings.uniform(["a", "b"], [0, 0], [1, 1]))
    Distribution of the sum: in [0, 2], mean 1, quality -0.721348
    """
    check_readings(readings)
    return _add_up("the sum", readings, 1)


def average(readings: Readings) -> Distribution:
    """Return the average of all values (VAvgQ)."""
    check_readings(readings)
    return _add_up("the average", readings, len(readings))


def _add_up(what: str, readings: Readings, divisor: int) -> Distribution:
    if len(readings) == 1:
        return Lowest(what, readings)
    widest = float((0.5 * readings.high - 0.5 * readings.low).max())
    try:
        low, high = math.fsum(readings.low) / divisor, math.fsum(readings.high) / divisor
        math.fsum(value_means(readings.densities))
    except OverflowError:
        low = high = math.inf
    if not (math.isfinite(high - low) and math.isfinite(2 * widest)):
        raise UncertainError("the sum of these readings is beyond the largest float")
    return Sum(what, readings, divisor, low, high)


class Sum(Distribution):
    """The sum of values over a divisor."""

    def __init__(self, what: str, readings: Readings, divisor: int, low: float, high: float):
        super().__init__(what, low, high)
        self._readings, self._divisor = readings, divisor
        d = readings.densities
        means = value_means(d)
        self._mean = math.fsum(means) / divisor
        uncertain = np.flatnonzero(d.family != POINT)
        self._series: Series | None = None
        self._panels: Panels | None = None
        if low == high or not len(uncertain):
            self.low = self.high = self._mean = math.fsum(readings.low) / divisor
            return
        # Around its mean, each is as precise as its width allows.
        self._center = math.fsum(means)
        # What rounding leaves: a series takes uniform values to be exactly around their means.
        rests = np.where(d.family == UNIFORM, 0.5 * ((d.low - means) + (d.high - means)), 0.0)
        self._center_rest = math.fsum([*means, *rests, -self._center])
        self._unit = float((d.high - d.low).max())
        uncertain_densities = take_densities(d, uncertain)
        self._build(
            _standardise(uncertain_densities, means[uncertain], rests[uncertain], self._unit)
        )

    def _build(self, d: Densities) -> None:
        """Make a series of the narrower values, and add the others to it."""
        widths = d.high - d.low
        order = np.argsort(widths)
        d = take_densities(d, order[widths[order] > _NEGLIGIBLE])
        n = len(d.low)
        zeros = np.zeros(n)
        for rest in range(n, 0, -1):
            part = take_densities(d, np.arange(rest))
            half = choose_window(part, zeros[:rest])
            terms = count_terms(part, half, _MOST_TERMS)
            if terms:
                self._series = make_series(part, zeros[:rest], half, terms)
                break
        else:
            rest = 0
        if rest == n:
            return
        panels, cuts = self._panels_of_series() if rest else _panels_of_one(d, 0)
        for i in range(max(rest, 1), n):
            panels, cuts = _add_value(panels, cuts, d, i)
        self._series, self._panels = None, panels

    def _panels_of_series(self) -> tuple[Panels, np.ndarray]:
        series = self._series
        assert series is not None
        half = float(series.half[0])

        def pdf(x: np.ndarray) -> np.ndarray:
            density, below = np.empty(len(x)), np.empty(len(x))
            sum_series(series, x, density, below)
            return density

        return make_panels(pdf, np.array([-half, 0.0, half]))

    def _standard(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the density and the distribution function of the standardised sum."""
        pdf, cdf = np.empty(len(y)), np.empty(len(y))
        if self._panels is not None:
            read_panels(self._panels, y, pdf, cdf)
        else:
            sum_series(self._series, y, pdf, cdf)
        return pdf, cdf

    def _standardise(self, x: np.ndarray) -> np.ndarray:
        product, rest = x, 0.0
        if self._divisor > 1:
            product = x * self._divisor
            # Products of the first 26 bits and of the others are exact.
            first = (x.view(np.int64) & ~((1 << 27) - 1)).view(np.float64)
            rest = (first * self._divisor - product) + (x - first) * self._divisor
        return ((product - self._center) + (rest - self._center_rest)) / self._unit

    def _pdf(self, x: np.ndarray) -> np.ndarray:
        return self._standard(self._standardise(x))[0] * (self._divisor / self._unit)

    def _cdf(self, x: np.ndarray) -> np.ndarray:
        return self._standard(self._standardise(x))[1]

    def _smooth(self) -> Smooth:
        if self._panels is not None:
            edge = self._panels.edge
        else:
            assert self._series is not None
            half = float(self._series.half[0])
            edge = np.linspace(-half, half, 33)
        return Smooth(
            edge,
            lambda y, rest: self._standard(y + rest)[0],
            lambda y, rest: self._standard(y + rest)[1],
            self._divisor / self._unit,
        )

    @property
    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """The sum itself, if no value is uncertain."""
        if self.low == self.high:
            return np.array([self.low]), np.array([1.0])
        return super().atoms

    @property
    def mean(self) -> float:  # type: ignore[override]
        """The expected value: the sum of the values' means."""
        return self._mean

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """Return n independent values; the same for the same seed."""
        n, objects = read_count(n), len(self._readings)
        out = np.empty(n)
        block = max(_SAMPLE_BLOCK // objects, 1)
        for number, start in enumerate(range(0, n, block)):
            size = min(block, n - start)
            values = draw(self._readings.densities, size, (seed, number))
            out[start : start + size] = values.sum(axis=1) / self._divisor
        return out


def value_means(d: Densities) -> np.ndarray:
    """Return the mean of each value."""
    out = 0.5 * d.low + 0.5 * d.high
    write_means(d, out)
    return out.clip(d.low, d.high)


def _standardise(d: Densities, means: np.ndarray, rests: np.ndarray, unit: float) -> Densities:
    """Return values less their means, in units of the widest one."""
    owner = np.repeat(np.arange(len(means)), np.diff(d.first))
    fields = {
        "low": ((d.low - means) - rests) / unit,
        "high": ((d.high - means) - rests) / unit,
        "mean": np.where(d.family == NORMAL, (d.mean - means) / unit, 0),
        "edge": (d.edge - means[owner]) / unit,
        "deviation": d.deviation / unit,
    }
    return d._replace(**{name: freeze(array, np.float64) for name, array in fields.items()})


def _panels_of_one(d: Densities, i: int) -> tuple[Panels, np.ndarray]:
    """Return the density of one value as panels."""
    one = take_densities(d, np.array([i]))
    return make_panels(lambda x: lowest_pdf(one, x, np.zeros(len(x))), _cuts_of(one))


def _add_value(panels: Panels, cuts: np.ndarray, d: Densities, i: int) -> tuple[Panels, np.ndarray]:
    """Return the sum of panels and one more value."""
    one = take_densities(d, np.array([i]))
    own_cuts = _cuts_of(one)

    def pdf(x: np.ndarray) -> np.ndarray:
        out = np.empty(len(x))
        if one.family[0] == NORMAL:
            normal = (float(field[0]) for field in (one.low, one.high, one.mean, one.deviation))
            add_normal(panels, *normal, *RULE, x, out)
        elif one.family[0] == HISTOGRAM:
            add_steps(panels, one.edge, np.diff(one.below) / np.diff(one.edge), x, out)
        else:
            add_steps(panels, own_cuts, 1 / np.diff(own_cuts), x, out)
        return out

    return make_panels(pdf, (cuts[:, None] + own_cuts).reshape(-1))


def _cuts_of(one: Densities) -> np.ndarray:
    """Return where the density of a value is not smooth, its ends included."""
    cuts = smooth_ends(one)
    return cuts[(cuts >= one.low[0]) & (cuts <= one.high[0])]


@kernel
def write_means(d: Densities, out: Float64Out) -> None:
    """Write the means of normals and histograms."""
    for i in range(d.low.shape[0]):
        if d.family[i] == NORMAL:
            low = (d.low[i] - d.mean[i]) / d.deviation[i]
            high = (d.high[i] - d.mean[i]) / d.deviation[i]
            width = (d.high[i] - d.low[i]) / d.deviation[i]
            shift = truncated_density(low, high, width, low, 0.0, width)
            shift -= truncated_density(low, high, width, high, width, 0.0)
            out[i] = d.mean[i] + d.deviation[i] * shift
        elif d.family[i] == HISTOGRAM:
            total = 0.0
            for at in range(d.first[i], d.first[i + 1] - 1):
                middle = 0.5 * d.edge[at] + 0.5 * d.edge[at + 1]
                total += middle * (d.below[at + 1] - d.below[at])
            out[i] = total
