"""A density as polynomials between breakpoints, and its convolution with another one.

For sums of few values, whose densities have steps and kinks. A panel has the Chebyshev coefficients
of the density and of its integral. The sum with a uniform value of [l, u] is exact from the
distribution function F of the other: (F(x - l) - F(x - u)) / (u - l); a histogram is a sum of
these. A normal is integrated panel by panel, by Gauss-Legendre rules.

Panels are made by halving until the last coefficients are below 1e-14 of the peak. Where steps and
kinks are is known: at sums of the two densities' breakpoints. There panels are cut beforehand, as
nodes would miss what is narrow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64Out, Float64s, freeze_fields, kernel, step
from tocsin.uncertain.normal import truncated_density

_NODES = 16
_K = np.arange(_NODES)
_ANGLES = np.pi * (_K + 0.5) / _NODES
_POINTS = -np.cos(_ANGLES)  # on [-1, 1], ascending
# From values at the points to coefficients.
_TO_COEFFICIENTS = (2.0 / _NODES) * np.cos(np.outer(_K, np.pi - _ANGLES))
_TO_COEFFICIENTS[0] /= 2
_DEEPEST = 40  # halvings
_MOST_CUTS = 4_096  # made beforehand; chosen: sums of twelve values of different widths
_RULE = np.polynomial.legendre.leggauss(_NODES)


class Panels(NamedTuple):
    """A density on adjacent panels."""

    edge: Float64s  # [panels + 1]
    density: Float64s  # [16 * panels] Chebyshev coefficients
    below: Float64s  # [17 * panels] those of the distribution function


def make_panels(
    pdf: Callable[[np.ndarray], np.ndarray], cuts: np.ndarray
) -> tuple[Panels, np.ndarray]:
    """Return a density as panels, cut where it is not smooth, and these cuts.

    Panels are in order, and their distribution function ends with 1.
    """
    cuts = _thin_out(cuts)
    left, right = cuts[:-1], cuts[1:]
    done: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    peak = 0.0
    for depth in range(_DEEPEST + 1):
        x = 0.5 * (left + right)[:, None] + 0.5 * (right - left)[:, None] * _POINTS
        values = np.maximum(pdf(x.reshape(-1)).reshape(x.shape), 0.0)
        peak = max(peak, float(values.max()))
        coefficients = values @ _TO_COEFFICIENTS.T
        rough = np.abs(coefficients[:, -3:]).max(axis=1)
        middle = 0.5 * (left + right)
        is_done = (rough <= 1e-14 * peak) | (middle <= left) | (middle >= right)
        # What is left of a narrow panel adds nothing to a probability.
        is_done |= rough * (right - left) <= 1e-17
        if depth == _DEEPEST:
            is_done[:] = True
        done.append((left[is_done], right[is_done], coefficients[is_done]))
        left, middle, right = left[~is_done], middle[~is_done], right[~is_done]
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        if not len(left):
            break
    left, right, density = (np.concatenate(parts) for parts in zip(*done, strict=True))
    order = np.argsort(left)
    left, right, density = left[order], right[order], density[order]
    below = _integrate(density, right - left)
    total = float(below[-1].sum())  # the value at the right end
    edge = np.append(left, right[-1])
    panels = freeze_fields(
        Panels,
        edge=edge,
        density=(density / total).reshape(-1),
        below=(below / total).reshape(-1),
    )
    return panels, cuts


def _thin_out(cuts: np.ndarray) -> np.ndarray:
    """Return cuts in order, without those that rounding puts beside others."""
    cuts = np.unique(cuts)
    span = cuts[-1] - cuts[0]
    keep = np.append(True, np.diff(cuts) > 4e-16 * span)
    keep[-1] = True
    cuts = cuts[keep]
    if len(cuts) > 1 and cuts[-1] - cuts[-2] <= 4e-16 * span:
        cuts = np.delete(cuts, -2) if len(cuts) > 2 else cuts
    if len(cuts) > _MOST_CUTS:  # by then, it is smooth enough to be halved
        inner = np.linspace(1, len(cuts) - 2, _MOST_CUTS - 2).astype(np.int64)
        cuts = np.concatenate([cuts[:1], cuts[inner], cuts[-1:]])
    return cuts


def _integrate(density: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return the coefficients of the integrals, from the first panel's left end on."""
    panels = len(density)
    padded = np.zeros((panels, _NODES + 2))
    padded[:, :_NODES] = density
    k = np.arange(1, _NODES + 1)
    out = np.zeros((panels, _NODES + 1))
    lower = padded[:, :_NODES].copy()
    lower[:, 0] *= 2
    out[:, 1:] = (lower - padded[:, 2:]) / (2 * k)
    signs = np.where(k % 2 == 0, 1.0, -1.0)
    out[:, 0] = -(out[:, 1:] * signs).sum(axis=1)  # 0 at the left end
    out *= 0.5 * width[:, None]
    gained = out.sum(axis=1)
    out[:, 0] += np.concatenate([[0.0], np.cumsum(gained)[:-1]])
    return out


@step
def chebyshev(coefficients, at, count, t):
    """Return the value of a Chebyshev series at t (Clenshaw)."""
    b1, b2 = 0.0, 0.0
    for k in range(count - 1, 0, -1):
        b1, b2 = coefficients[at + k] + 2 * t * b1 - b2, b1
    return coefficients[at] + t * b1 - b2


@step
def panel_of(edge, x):
    """Return the panel of x, which is within them."""
    low, high = 0, edge.shape[0] - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if edge[middle] <= x:
            low = middle
        else:
            high = middle
    return low


@step
def panels_cdf(edge, below, x):
    """Return the distribution function at x."""
    if x <= edge[0]:
        return 0.0
    if x >= edge[edge.shape[0] - 1]:
        return 1.0
    i = panel_of(edge, x)
    t = 2 * (x - edge[i]) / (edge[i + 1] - edge[i]) - 1
    return chebyshev(below, (_NODES + 1) * i, _NODES + 1, t)


@kernel
def read_panels(p: Panels, x: Float64s, pdf: Float64Out, cdf: Float64Out) -> None:
    """Write the density and the distribution function at x."""
    edge, density, below = p.edge, p.density, p.below
    for j in range(x.shape[0]):
        cdf[j] = panels_cdf(edge, below, x[j])
        pdf[j] = 0.0
        if edge[0] <= x[j] <= edge[edge.shape[0] - 1]:
            i = panel_of(edge, x[j])
            t = 2 * (x[j] - edge[i]) / (edge[i + 1] - edge[i]) - 1
            pdf[j] = max(chebyshev(density, _NODES * i, _NODES, t), 0.0)


@kernel
def add_steps(
    p: Panels, step_edge: Float64s, step_density: Float64s, x: Float64s, out: Float64Out
) -> None:
    """Write the density of the sum with a value whose density is constant between edges."""
    for j in range(x.shape[0]):
        total = 0.0
        before = panels_cdf(p.edge, p.below, x[j] - step_edge[0])
        for i in range(step_density.shape[0]):
            after = panels_cdf(p.edge, p.below, x[j] - step_edge[i + 1])
            total += step_density[i] * (before - after)
            before = after
        out[j] = total


@kernel
def add_normal(
    p: Panels,
    low: float,
    high: float,
    mean: float,
    deviation: float,
    node: Float64s,
    weight: Float64s,
    x: Float64s,
    out: Float64Out,
) -> None:
    """Write the density of the sum with a truncated normal value."""
    bottom, top = (low - mean) / deviation, (high - mean) / deviation
    whole, peak = (high - low) / deviation, max(bottom, -top, 0.0)
    flat = np.sqrt(peak * peak + 81.0)  # beyond, the density is below 1e-17 of its peak
    low, high = max(low, mean - flat * deviation), min(high, mean + flat * deviation)
    widest = deviation / (1 + peak / 3)
    for j in range(x.shape[0]):
        total = 0.0
        begin, end = x[j] - high, x[j] - low
        for i in range(p.edge.shape[0] - 1):
            a, b = max(p.edge[i], begin), min(p.edge[i + 1], end)
            if not a < b:
                continue
            parts = int(np.ceil((b - a) / widest))
            for part in range(parts):
                start, width = a + (b - a) * part / parts, (b - a) / parts
                for k in range(node.shape[0]):
                    y = start + width * node[k]
                    t = 2 * (y - p.edge[i]) / (p.edge[i + 1] - p.edge[i]) - 1
                    z = min(max((x[j] - y - mean) / deviation, bottom), top)
                    own = truncated_density(bottom, top, whole, z, z - bottom, top - z) / deviation
                    total += width * weight[k] * own * chebyshev(p.density, _NODES * i, _NODES, t)
        out[j] = total


RULE = 0.5 + 0.5 * _RULE[0], 0.5 * _RULE[1]
