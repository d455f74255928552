"""Similarity joins in plain Python: the definition, one float operation after the other."""

import math
from itertools import combinations, product


def is_close(x, y, epsilon, metric, closed):
    """Return whether two points belong to a join."""
    differences = [abs(p - q) for p, q in zip(x, y, strict=True)]
    if metric == "l2":
        gap, bound = 0.0, epsilon * epsilon
        for difference in differences:
            gap += difference * difference
    else:
        gap, bound = 0.0, epsilon
        for difference in differences:
            gap = gap + difference if metric == "l1" else max(gap, difference)
    return gap <= bound if closed else gap < bound


def join(a, b, epsilon, metric="l2", closed=False):
    """Return the pairs of two sets."""
    a, b = a.tolist(), b.tolist()
    pairs = product(range(len(a)), range(len(b)))
    return {(i, j) for i, j in pairs if is_close(a[i], b[j], epsilon, metric, closed)}


def self_join(a, epsilon, metric="l2", closed=False):
    """Return the pairs i < j of one set."""
    a = a.tolist()
    pairs = combinations(range(len(a)), 2)
    return {(i, j) for i, j in pairs if is_close(a[i], a[j], epsilon, metric, closed)}


def distance(x, y, metric):
    """Return the distance of two points."""
    differences = [abs(p - q) for p, q in zip(x, y, strict=True)]
    if metric == "l2":
        return math.sqrt(sum(d * d for d in differences))
    return sum(differences) if metric == "l1" else max(differences)
