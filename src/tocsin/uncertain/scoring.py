"""The answer to a minimum query over uniform values, and how good it is, for the simulation.

`queries.minimum` answers for all densities and is exact to 1e-10. This is for the simulation's
kernel: uniform values and points, to 1e-7, with the sweep of `panels`.
"""

from __future__ import annotations

import math

import numpy as np

from tocsin.jit import Float64Out, Float64s, bare_step, kernel, step
from tocsin.uncertain.panels import (
    BITS,
    EXTRA,
    NODES,
    Rule,
    accumulate,
    cut_lines,
    fill_lines,
    negative_log,
)


@bare_step
def overlapping(low, high, n, order):
    """Find the objects that may be the minimum.

    Writes the positions of those with uncertainty to `order`, by their lower ends. Returns how many
    they are, how many values without uncertainty are at the bound, the lowest end of all intervals,
    and the two smallest upper ends, of which the first is the bound.
    """
    bottom, bound, second = math.inf, math.inf, math.inf
    for i in range(n):
        bottom = min(bottom, low[i])
        if high[i] < bound:
            bound, second = high[i], bound
        else:
            second = min(second, high[i])
    m, points = 0, 0
    for i in range(n):
        if low[i] == high[i]:
            points += low[i] == bound
        elif low[i] < bound:
            order[m] = i
            m += 1
    # Insertion sort: there are few, and argsort would allocate.
    for at in range(1, m):
        i, place = order[at], at
        while place and low[order[place - 1]] > low[i]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i
    return m, points, bottom, bound, second


@step
def score_minimum(low, high, n, rule, p):
    """Write the probability of each of n values to be the minimum.

    Returns the entropy of the answer, that of the minimum itself (minus infinity if it may be a
    value without uncertainty), and the bounds.
    """
    order = np.empty(n, np.int64)
    m, points, bottom, bound, _ = overlapping(low, high, n, order)
    for i in range(n):
        p[i] = 0.0
    rest, entropy, value_entropy = 1.0, 0.0, 0.0
    if m:
        a, b = np.empty(m), np.empty(m)
        for k in range(m):
            a[k], b[k] = low[order[k]], high[order[k]]
        cut, active = np.empty(3 * m + EXTRA + 1), np.empty(3 * m + EXTRA, np.int64)
        panels = cut_lines(a, b, m, bound, True, cut, active)
        columns = active[panels - 1]
        size = panels * columns * NODES
        survival, hazard, product = np.empty(size), np.empty(size), np.empty(panels * NODES)
        begun, own = np.empty(panels * columns), np.empty(columns)
        fill_lines(a, b, panels, columns, cut, active, rule, survival, hazard, product)
        accumulate(panels, columns, cut, active, rule, hazard, product, begun, own)
        for k in range(columns):
            p[order[k]] = min(own[k], 1.0)
            entropy += negative_log(p[order[k]])
        for k in range(m):
            rest *= (b[k] - bound) / (b[k] - a[k])
        for panel in range(panels):
            for j in range(NODES):
                density = 0.0
                for k in range(active[panel]):
                    density += hazard[(panel * columns + k) * NODES + j]
                density *= product[panel * NODES + j]
                width = cut[panel + 1] - cut[panel]
                value_entropy += width * rule.weight[j] * negative_log(density)
    if points and rest > 0:
        value_entropy = -math.inf
        entropy += points * negative_log(rest / points)
        for i in range(n):
            if low[i] == high[i] and low[i] == bound:
                p[i] = rest / points
    return entropy * BITS, value_entropy * BITS, bottom, bound


@kernel
def write_minimum(
    low: Float64s, high: Float64s, rule: Rule, p: Float64Out, measures: Float64Out
) -> None:
    """Write the probabilities, and the four numbers that `score_minimum` returns."""
    entropy, value_entropy, bottom, bound = score_minimum(low, high, low.shape[0], rule, p)
    measures[0], measures[1], measures[2], measures[3] = entropy, value_entropy, bottom, bound
