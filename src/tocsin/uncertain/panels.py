"""Panels: the line of distances, cut for one sweep that serves all objects.

With S_k(y) the probability that object k is beyond y, and P(y) the product of all of them, the
probability of k to be the nearest grows by f_k P / S_k. If object i is refreshed to a value v, it
is the nearest with probability P_i(v), where P_i = P / S_i is the product of all others, and k with
the integral of f_k P_i / S_k up to v (thesis, 5.6). So a sweep over y for each i gives the new
probabilities for all v, and the mean of their entropies; the thesis evaluates the query anew for
each v.

The line is cut where an object begins, and further so that P falls by little in a panel. Each panel
has five Gauss-Legendre nodes, which serve twice: as values v, and to integrate up to each of them,
by the polynomial through all nodes of the panel. The entropy behaves like x log x where an object
begins, so with few objects panels are narrower there.

This file has the sweep itself, and panels for uniform objects, which the simulation uses;
`expected` has panels for all densities. An object to refresh costs the panels from where it begins,
times the active objects, times 40 nanoseconds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tocsin.jit import Float64s, bare_step, freeze_fields, step

NODES = 5  # per panel
DECAY = 1.0  # of the logarithm of P in a panel; chosen: integrals then err by less than 1e-7
NEGLIGIBLE = 1e-12  # of P without any one of the objects
# If `is_fine`: panels at least, and the first one of an object among m others as a share of these.
# Chosen: the mean entropy then errs by less than 1e-6.
PANELS = 40
FIRST = 0.02  # times m
EXTRA = 256  # panels, at most, that are not due to an object
LEAST = 1e-290  # of what is divided by
BITS = 1 / math.log(2)  # per nat


class Rule(NamedTuple):
    """Gauss-Legendre on [0, 1]."""

    node: Float64s  # [NODES]
    weight: Float64s  # [NODES]
    upto: Float64s  # [NODES * NODES] weights of the integrals up to each node


def _make_rule() -> Rule:
    t, w = np.polynomial.legendre.leggauss(NODES)
    node = 0.5 + 0.5 * t
    upto = np.empty((NODES, NODES))
    for j in range(NODES):
        others = np.delete(node, j)
        basis = np.poly1d(others, r=True) / np.prod(node[j] - others)
        upto[:, j] = np.polyint(basis)(node)
    return freeze_fields(Rule, node=node, weight=0.5 * w, upto=upto.reshape(-1))


RULE = _make_rule()


@bare_step
def cut_lines(low, high, m, bound, is_fine, cut, active):
    """Cut the line into panels for m uniform objects, ordered by `low`; return how many.

    `low` is below `bound`, and `high` is not. Writes the ends of panels, and how many objects have
    begun in each. Objects that begin after the last panel have no probability.
    """
    most = active.shape[0]
    widest = (bound - low[0]) / PANELS
    narrowest = widest * min(FIRST * m, 1.0)
    y, begun, panels = low[0], 0, 0
    cut[0] = y
    while y < bound:
        while begun < m and low[begun] <= y:
            begun += 1
        end = min(low[begun], bound) if begun < m else bound
        # The object with the steepest hazard is left out: one linear factor is no difficulty, and
        # at the bound its hazard is infinite.
        hazard, steepest, product, least = 0.0, 0.0, 1.0, 1.0
        for k in range(begun):
            own = 1 / (high[k] - y)
            hazard += own
            steepest = max(steepest, own)
            survival = min((high[k] - y) / (high[k] - low[k]), 1.0)
            product *= survival
            least = min(least, survival)
        if product < NEGLIGIBLE * least:
            break
        width = end - y
        if panels < most - m - 2:
            if is_fine:
                # From where an object begins, and towards the bound, in growing steps.
                width = min(width, widest, max(y - low[begun - 1], narrowest))
                width = min(width, max(0.5 * (bound - y), narrowest))
            if begun > NODES and (hazard - steepest) * width > DECAY:
                width = DECAY / (hazard - steepest)
        if width < end - y and y + width > y:
            end = y + width
        active[panels] = begun
        panels += 1
        cut[panels] = end
        y = end
    return panels


@bare_step
def fill_lines(low, high, panels, columns, cut, active, rule, survival, hazard, product):
    """Write S_k and f_k / S_k of uniform objects, and P, at the nodes of all panels."""
    for panel in range(panels):
        start, width = cut[panel], cut[panel + 1] - cut[panel]
        at = panel * NODES
        for j in range(NODES):
            product[at + j] = 1.0
        for k in range(active[panel]):
            place = (panel * columns + k) * NODES
            scale, end = 1 / (high[k] - low[k]), high[k]
            for j in range(NODES):
                rest = max(end - (start + width * rule.node[j]), LEAST)
                survival[place + j] = rest * scale
                hazard[place + j] = 1 / rest
                product[at + j] *= rest * scale


@bare_step
def accumulate(panels, columns, cut, active, rule, hazard, product, begun, p):
    """Write the probabilities so far at the start of each panel, and those at the end to `p`."""
    for k in range(columns):
        p[k] = 0.0
    for panel in range(panels):
        width, at = cut[panel + 1] - cut[panel], panel * NODES
        for k in range(columns):
            begun[panel * columns + k] = p[k]
        for k in range(active[panel]):
            place = (panel * columns + k) * NODES
            total = 0.0
            for j in range(NODES):
                total += rule.weight[j] * product[at + j] * hazard[place + j]
            p[k] += width * total


@bare_step
def negative_log(p):
    """Return -p ln p."""
    return -p * math.log(p) if p > 0 else 0.0


@bare_step
def expect(
    i, panels, columns, cut, active, rule, survival, hazard, product, begun, near, far, p, part
):  # fmt: skip
    """Return what is expected of the answer if object i is refreshed to a value within the panels.

    That is the entropy in nats, its product with the width of B, and the probability of a value
    beyond. The new probabilities for such a value are written to `p`; that of i is then 0. `near`
    and `far` are the ends of B without i. `part` is memory.
    """
    first = 0
    while active[first] <= i:
        first += 1
    for k in range(columns):
        p[k] = begun[first * columns + k]
    mean, score, beyond = 0.0, 0.0, 1.0
    for panel in range(first, panels):
        start, width = cut[panel], cut[panel + 1] - cut[panel]
        at, own = panel * NODES, (panel * columns + i) * NODES
        for j in range(NODES):
            others = product[at + j] / survival[own + j]
            part[j] = negative_log(others)
            part[NODES + j] = width * rule.weight[j] * others
            for a in range(NODES):
                part[(2 + a) * NODES + j] = width * rule.upto[a * NODES + j] * others
        for k in range(active[panel]):
            if k == i:
                continue
            place = (panel * columns + k) * NODES
            for a in range(NODES):
                total, row = p[k], (2 + a) * NODES
                for j in range(NODES):
                    total += part[row + j] * hazard[place + j]
                part[a] += negative_log(total)
            for j in range(NODES):
                p[k] += part[NODES + j] * hazard[place + j]
        for a in range(NODES):
            share = width * rule.weight[a] * hazard[own + a] * survival[own + a]
            y = start + width * rule.node[a]
            mean += share * part[a]
            score += share * part[a] * (min(y, far) - min(y, near))
            beyond -= share
    p[i] = 0.0
    return mean, score, max(beyond, 0.0)


@step
def expect_lines(low, high, m, bound, second, points, is_fine, rule, p, entropy, score):
    """Write the expected entropy and score for each of m uniform objects, ordered by `low`.

    All begin below `bound`, the smallest of the upper ends; `second` is the next one, and `points`
    is the number of values without uncertainty at the bound. Writes the probabilities as they are
    without a refresh to `p`. Returns the number of objects that have begun where P is negligible:
    refreshing the others changes nothing.
    """
    cut, active = np.empty(3 * m + EXTRA + 1), np.empty(3 * m + EXTRA, np.int64)
    panels = cut_lines(low, high, m, bound, is_fine, cut, active)
    columns = active[panels - 1]
    size = panels * columns * NODES
    survival, hazard, product = np.empty(size), np.empty(size), np.empty(panels * NODES)
    begun, part = np.empty(panels * columns), np.empty((2 + NODES) * NODES)
    fill_lines(low, high, panels, columns, cut, active, rule, survival, hazard, product)
    accumulate(panels, columns, cut, active, rule, hazard, product, begun, p)
    new = np.empty(columns)
    reached = cut[panels]
    for i in range(columns):
        near = low[1] if i == 0 and m > 1 else low[0]
        far = second if high[i] == bound and not points else bound
        mean, width, beyond = expect(
            i, panels, columns, cut, active, rule, survival, hazard, product, begun, near, far, new,
            part,
        )  # fmt: skip
        rest = 0.0
        for k in range(columns):
            rest += negative_log(new[k])
        if points and reached == bound:
            others = 1.0
            for k in range(columns):
                if k != i:
                    others *= (high[k] - bound) / (high[k] - low[k])
            rest += points * negative_log(others / points)
        # The mean of min(value, far) over the values beyond the panels.
        top = max(min(high[i], far), reached)
        upto = 0.5 * (top - reached) * (top + reached) + far * max(high[i] - top, 0.0)
        entropy[i] = BITS * (mean + beyond * rest)
        score[i] = -BITS * (width + rest * max(upto / (high[i] - low[i]) - beyond * near, 0.0))
    return columns
