"""Answers by chance: values are drawn, and a chi-square test compares who wins how often."""

import math
import os

import numpy as np
from scipy import special, stats

from tests.uncertain.cases import Disk, Histogram, Normal, ends, is_point

# A true answer fails one of a million tests; seeds are fixed, so it passes always or never.
SIGNIFICANCE = 1e-6
# Drawn numbers, of all values together.
DRAWS = 10**9 if os.environ.get("TOCSIN_PROFILE") == "long" else 10**6
_CHUNK = 4_000_000  # numbers drawn at a time
_LEAST_EXPECTED = 10  # in a cell of a chi-square test


def draw(densities, rng, samples):
    """Return values, [samples, n]."""
    n = len(densities)
    low, high = np.array([ends(d) for d in densities], float).reshape(-1, 2).T
    values = rng.random((samples, n))
    values *= high - low
    values += low
    normals = [i for i, d in enumerate(densities) if isinstance(d, Normal) and not is_point(d)]
    if normals:
        values[:, normals] = _draw_normals([densities[i] for i in normals], rng, samples)
    for i, density in enumerate(densities):
        if isinstance(density, Histogram):
            weights = np.array(density.weights)
            below = np.append(0, np.cumsum(weights / weights.sum()))
            values[:, i] = np.interp(rng.random(samples), below, density.edges)
    return values


def _draw_normals(normals, rng, samples):
    """Return values of truncated normals, by the inverse of their distribution functions."""
    mean, deviation, low, high = np.array(normals, float).T
    a, b = (low - mean) / deviation, (high - mean) / deviation
    side = np.where(a + b >= 0, 1.0, -1.0)
    near, far = np.where(side > 0, a, -b), np.where(side > 0, b, -a)
    # The tail beyond a drawn value, as a logarithm: far out, the tail itself is below 1e-308.
    end = np.exp(special.log_ndtr(-far) - special.log_ndtr(-near))
    shares = rng.random((samples, len(normals)))
    z = -special.ndtri_exp(special.log_ndtr(-near) + np.log(end + shares * (1 - end)))
    return np.clip(mean + deviation * side * z, low, high)


def draw_distances(disks, q, rng, samples):
    """Return the distances to q of points in disks or balls, [samples, n]."""
    centers = np.array([d.center for d in disks], float)
    radii = np.array([d.radius for d in disks], float)
    n, dimensions = centers.shape
    direction = rng.standard_normal((samples, n, dimensions))
    direction /= np.linalg.norm(direction, axis=2, keepdims=True)
    away = radii * rng.random((samples, n)) ** (1 / dimensions)
    points = centers + direction * away[:, :, None]
    return np.linalg.norm(points - np.array(q, float), axis=2)


def count_wins(densities, seed, queries, draws=DRAWS):
    """Return how often each value has won, for each query, and the number of samples.

    A query is a function from values, [samples, n], to numbers of which the lowest wins.
    """
    rng = np.random.default_rng(seed)
    n = len(densities)
    samples = max(draws // n, 1)
    wins = {query: np.zeros(n, np.int64) for query in queries}
    for first in range(0, samples, max(_CHUNK // n, 1)):
        size = min(max(_CHUNK // n, 1), samples - first)
        if isinstance(densities[0], Disk):
            (q,) = queries
            scores = {q: draw_distances(densities, q, rng, size)}
        else:
            values = draw(densities, rng, size)
            scores = {query: score(values) for query, score in queries.items()}
        for query, score in scores.items():
            wins[query] += _count_lowest(score, rng)
    return wins, samples


def _count_lowest(scores, rng):
    """Return how often each column is lowest; one of several that are equal is chosen."""
    samples, n = scores.shape
    lowest = scores.argmin(1)
    is_lowest = scores == scores[np.arange(samples), lowest][:, None]
    for row in np.flatnonzero(is_lowest.sum(1) > 1):
        lowest[row] = rng.choice(np.flatnonzero(is_lowest[row]))
    return np.bincount(lowest, minlength=n)


def chi_square(counts, probabilities, samples):
    """Return how likely counts like these, or less likely ones, are with these probabilities.

    Cells of a small expectation are one cell.
    """
    counts, expected = np.asarray(counts, float), np.asarray(probabilities, float) * samples
    if (counts[expected == 0] > 0).any():
        return 0.0
    small = expected < _LEAST_EXPECTED
    if 0 < expected[small].sum() < _LEAST_EXPECTED and not small.all():
        small[np.where(small, math.inf, expected).argmin()] = True
    cells = np.append(counts[~small], counts[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    cells, expected = cells[expected > 0], expected[expected > 0]
    if len(cells) == 1:
        return float(abs(cells[0] - expected[0]) <= 1e-6 * samples)
    statistic = ((cells - expected) ** 2 / expected).sum()
    return float(stats.chi2.sf(statistic, len(cells) - 1))


def chi_square_of_each(counts, probabilities, samples):
    """Return the same for events that are independent: each happens or not."""
    counts, p = np.asarray(counts, float), np.asarray(probabilities, float)
    certain = (p == 0) | (p == 1)
    if (counts[certain] != samples * p[certain]).any():
        return 0.0
    variance = samples * p * (1 - p)
    used = variance >= _LEAST_EXPECTED
    rest = ~used & ~certain
    statistic = ((counts - samples * p)[used] ** 2 / variance[used]).sum()
    freedom = int(used.sum())
    if variance[rest].sum() >= _LEAST_EXPECTED:
        statistic += (counts - samples * p)[rest].sum() ** 2 / variance[rest].sum()
        freedom += 1
    return float(stats.chi2.sf(statistic, freedom)) if freedom else 1.0
