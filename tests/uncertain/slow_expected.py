"""The expected entropy and score after a refresh, computed plainly: for each new value, anew."""

from itertools import pairwise

import numpy as np

_T, _W = np.polynomial.legendre.leggauss(12)
_T, _W = 0.5 + 0.5 * _T, 0.5 * _W


def gauss(ends):
    """Return nodes and weights between the ends."""
    ends = np.asarray(ends)
    width = np.diff(ends)[:, None]
    return (ends[:-1, None] + width * _T).ravel(), (width * _W).ravel()


def minimum_of(low, high):
    """Return the probabilities to be the minimum, of uniform values and points."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    n, bound = len(low), high.min()
    exact = low == high
    p = np.zeros(n)
    ends = np.unique(np.concatenate([low[low < bound], [bound]]))
    others_at_bound = 1.0
    if len(ends) > 1:
        x, weight = gauss(np.concatenate([np.linspace(a, b, 3) for a, b in pairwise(ends)]))
        survival = np.ones((n, len(x)))
        for i in range(n):
            if not exact[i]:
                survival[i] = np.clip((high[i] - x) / (high[i] - low[i]), 0, 1)
        for i in range(n):
            if not exact[i]:
                others = np.prod(np.delete(survival, i, axis=0), axis=0)
                density = (x >= low[i]) / (high[i] - low[i])
                p[i] = (weight * density * others).sum()
    for i in range(n):
        if not exact[i]:
            others_at_bound *= np.clip((high[i] - bound) / (high[i] - low[i]), 0, 1)
    points = exact & (low == bound)
    p[points] = others_at_bound / max(points.sum(), 1)
    return p


def entropy_of(p):
    p = p[p > 0]
    return -(p * np.log2(p)).sum()


def expected_after(low, high, i, levels=30):
    """Return the expected entropy and score after object i has been refreshed."""
    low, high = np.array(low, float), np.array(high, float)
    if low[i] == high[i]:
        return measure(low, high)
    breaks = np.unique(np.concatenate([low, high]))
    breaks = breaks[(breaks > low[i]) & (breaks < high[i])]
    breaks = np.concatenate([[low[i]], breaks, [high[i]]])
    # The entropy behaves like x log x at both ends of each interval.
    half = 0.5 ** np.arange(levels, 0, -1)
    share = np.unique(np.concatenate([[0], half, 1 - half, [1]]))
    ends = np.unique(np.concatenate([a + (b - a) * share for a, b in pairwise(breaks)]))
    v, weight = gauss(ends)
    means = np.zeros(2)
    for value, w in zip(v, weight / (high[i] - low[i])):
        low[i] = high[i] = value
        means += w * np.array(measure(low, high))
    return tuple(means)


def measure(low, high):
    entropy = entropy_of(minimum_of(low, high))
    return entropy, -entropy * (min(high) - min(low))
