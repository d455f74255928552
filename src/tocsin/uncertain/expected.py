"""What the answer is expected to be after one object has been refreshed (thesis, 5.6).

A refresh shrinks the interval of an object to one value, which has the object's density. `panels`
says how the new probabilities are computed for all values at once; here are its panels for all
densities, and for distances from a query point. They are single floats here, from the first break
on. If values are so narrow that these do not tell them apart, a refresh is taken to change nothing.
The means err by less than 1e-6, for disks by less than 1e-4, since the density of a distance has a
kink there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.jit import (
    Float64Out,
    Float64s,
    Int64Out,
    Int64s,
    bare_step,
    freeze_fields,
    kernel,
    step,
)
from tocsin.uncertain.answers import entropy
from tocsin.uncertain.curves import PARAMETERS, curve_at, widest_panel
from tocsin.uncertain.distances import Bounded, Distances
from tocsin.uncertain.evaluation import evaluate
from tocsin.uncertain.panels import (
    BITS,
    DECAY,
    EXTRA,
    FIRST,
    LEAST,
    NEGLIGIBLE,
    NODES,
    PANELS,
    RULE,
    Rule,
    accumulate,
    expect,
    negative_log,
)
from tocsin.uncertain.sweep import select_active

_UNRESOLVED = 1e-3  # of the probabilities of all objects, away from 1
_PARTS = 64  # of a curve's tail, to integrate it


def expect_refresh(
    bounded: Bounded, near: np.ndarray, far: np.ndarray, is_nearest: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the entropy and the score that are expected after each object's refresh.

    `near` and `far` are the smallest and largest distances of all objects. For objects without
    influence on the answer, these are the entropy and the score of the answer as it is.
    """
    n, d = bounded.objects, bounded.distances
    points = len(bounded.nearest_points)
    scale = bounded.bound / bounded.f if bounded.f else 1.0
    owners = np.concatenate([d.owner, d.curve_owner])
    if not len(owners):  # nothing but points
        return np.full(n, np.log2(points)), np.zeros(n)
    origin, rest = float(d.breaks[0]), float(d.breaks_rest[0])
    breaks = (d.breaks - origin) + (d.breaks_rest - rest)
    right = (d.right - origin) + (d.right_rest - rest)
    bound = float(breaks[-1])
    first = np.full(n, len(breaks), np.int32)  # break of each object
    np.minimum.at(first, owners, np.concatenate([d.begin, d.curve_begin]))
    begin = np.append(breaks, np.inf)[first]
    order = np.argsort(first, kind="stable")[: len(np.unique(owners))].astype(np.int64)
    column = np.zeros(n, np.int64)
    column[order] = np.arange(len(order))
    line = freeze_fields(Line, breaks=breaks, right=right, origin=[origin, rest])
    room = 2 * len(breaks) + len(order) + PANELS + EXTRA
    cut, active = np.empty(room + 1), np.empty(room, np.int64)
    panels = cut_distances(d, line, begin[order], cut, active)
    columns = int(active[panels - 1]) if panels else 0
    least, second = np.sort(far)[:2] if n > 1 else (far[0], np.inf)
    lowest, next_lowest = np.sort(near)[:2] if n > 1 else (near[0], near[0])
    without_far = np.where(far == least, second, least)[order]
    without_near = np.where(near == lowest, next_lowest, lowest)[order]
    if is_nearest:
        without_near = np.zeros(len(order))
    out = np.empty((3, len(order)))
    now = -1.0
    if panels:
        now = write_expected(
            d, line, column, cut[: panels + 1], active[:panels], bound, points,
            scale * without_near - origin, np.minimum(scale * without_far, 1e300) - origin, RULE,
            out[0], out[1],
        )  # fmt: skip
    is_resolved = now >= 0
    if not is_resolved:
        now = entropy(evaluate(bounded, None))
    width = least if is_nearest else least - lowest
    means, scores = np.full(n, now), np.full(n, -now * width)
    if is_resolved:
        means[order[:columns]] = out[0, :columns]
        scores[order[:columns]] = out[1, :columns] / scale
    return means, scores * (2 if is_nearest else 1)


class Line(NamedTuple):
    """Distances from the first break on."""

    breaks: Float64s  # [breaks]
    right: Float64s  # [pieces]
    origin: Float64s  # [2] the first break, a pair


@bare_step
def curve_on(d, line, i, y):
    """Return the probability of curve i beyond y, and the density there."""
    origin, rest = line.origin[0], line.origin[1]
    return curve_at(d.curve[i], d.parameters, PARAMETERS * i, origin, rest + y)


@kernel
def cut_distances(d: Distances, line: Line, begin: Float64s, cut: Float64Out, out: Int64Out) -> int:
    """Cut the line into panels; write their ends, and how many objects have begun in each."""
    breaks, right = line.breaks, line.right
    pieces, curves = np.empty(len(d.begin), np.int64), np.empty(len(d.curve_begin), np.int64)
    n, n_curves, next_piece, next_curve, begun, panels = 0, 0, 0, 0, 0, 0
    m, bound = begin.shape[0], breaks[breaks.shape[0] - 1]
    widest = (bound - begin[0]) / PANELS
    narrowest = widest * min(FIRST * m, 1.0)
    cut[0] = breaks[0]
    for interval in range(breaks.shape[0] - 1):
        y, b = breaks[interval], breaks[interval + 1]
        n, next_piece = select_active(d.begin, d.end, pieces, n, next_piece, interval)
        n_curves, next_curve = select_active(
            d.curve_begin, d.curve_end, curves, n_curves, next_curve, interval
        )
        while begun < m and begin[begun] <= y:
            begun += 1
        start = y
        while y < b:
            width = b - y
            can_cut = panels < out.shape[0] - breaks.shape[0]
            if can_cut:
                width = min(width, widest, max(y - start, narrowest))
                width = min(width, max(0.5 * (bound - y), narrowest))
            hazard, steepest, product, least = 0.0, 0.0, 1.0, 1.0
            for k in range(n + n_curves):
                if k < n:
                    i = pieces[k]
                    survival = d.survival[i] + d.density[i] * (right[i] - y)
                    density = d.density[i]
                else:
                    i = curves[k - n]
                    survival, density = curve_on(d, line, i, y)
                    _, later = curve_on(d, line, i, y + width)
                    density = max(density, later)
                    if can_cut:
                        at = PARAMETERS * i
                        origin, rest = line.origin[0], line.origin[1] + y
                        widest_here = widest_panel(d.curve[i], d.parameters, at, origin, rest)
                        width = min(width, widest_here)
                survival = max(survival, LEAST)
                hazard += density / survival
                steepest = max(steepest, density / survival)
                product *= survival
                least = min(least, survival)
            if product < NEGLIGIBLE * least:
                return panels
            if can_cut and begun > NODES and (hazard - steepest) * width > DECAY:
                width = DECAY / (hazard - steepest)
            end = y + width if width < b - y and y + width > y else b
            out[panels] = begun
            panels += 1
            cut[panels] = end
            y = end
    return panels


@step
def fill_distances(d, line, column, columns, cut, active, rule, survival, hazard, product):
    """Write S_k and f_k / S_k of all objects, and P, at the nodes of all panels."""
    breaks, right = line.breaks, line.right
    pieces, curves = np.empty(len(d.begin), np.int64), np.empty(len(d.curve_begin), np.int64)
    n, n_curves, next_piece, next_curve, interval = 0, 0, 0, 0, -1
    for panel in range(active.shape[0]):
        start, width = cut[panel], cut[panel + 1] - cut[panel]
        while interval < breaks.shape[0] - 1 and start >= breaks[interval + 1]:
            interval += 1
            n, next_piece = select_active(d.begin, d.end, pieces, n, next_piece, interval)
            n_curves, next_curve = select_active(
                d.curve_begin, d.curve_end, curves, n_curves, next_curve, interval
            )
        for j in range(NODES):
            product[panel * NODES + j] = 1.0
        for k in range(n + n_curves):
            i = pieces[k] if k < n else curves[k - n]
            owner = d.owner[i] if k < n else d.curve_owner[i]
            place = (panel * columns + column[owner]) * NODES
            for j in range(NODES):
                y = start + width * rule.node[j]
                if k < n:
                    s, f = d.survival[i] + d.density[i] * (right[i] - y), d.density[i]
                else:
                    s, f = curve_on(d, line, i, y)
                s = max(s, LEAST)
                survival[place + j] = s
                hazard[place + j] = f / s
                product[panel * NODES + j] *= s


@bare_step
def write_tails(d, line, column, columns, start, bound, rule, at_bound, area):
    """Write each object's probability beyond the bound, and its integral from `start` to there."""
    for i in range(d.owner.shape[0]):
        if d.begin[i] >= line.breaks.shape[0]:
            break
        k, left = column[d.owner[i]], line.breaks[d.begin[i]]
        a, b = max(left, start), min(line.right[i], bound)
        if k >= columns or a > b or line.right[i] < start:
            continue
        s_a = d.survival[i] + d.density[i] * (line.right[i] - a)
        s_b = d.survival[i] + d.density[i] * (line.right[i] - b)
        area[k] += 0.5 * (s_a + s_b) * (b - a)
        if line.right[i] >= bound and left < bound:
            at_bound[k] = max(s_b, 0.0)
    for i in range(d.curve_owner.shape[0]):
        if d.curve_begin[i] >= line.breaks.shape[0]:
            break
        k, left = column[d.curve_owner[i]], line.breaks[d.curve_begin[i]]
        right = line.breaks[min(d.curve_end[i], line.breaks.shape[0] - 1)]
        a, b = max(left, start), min(right, bound)
        if k >= columns or a > b or right < start:
            continue
        for part in range(_PARTS):
            width = (b - a) / _PARTS
            for j in range(NODES):
                y = a + width * (part + rule.node[j])
                s, _ = curve_on(d, line, i, y)
                area[k] += width * rule.weight[j] * s
        if right >= bound and left < bound:
            at_bound[k], _ = curve_on(d, line, i, bound)


@kernel
def write_expected(
    d: Distances,
    line: Line,
    column: Int64s,
    cut: Float64s,
    active: Int64s,
    bound: float,
    points: int,
    near: Float64s,
    far: Float64s,
    rule: Rule,
    entropy: Float64Out,
    score: Float64Out,
) -> float:
    """Write the expected entropy and score of the objects that have begun; return the entropy now.

    It is negative, and nothing is written, if floats do not tell the objects apart.
    `near` and `far` are the ends of B without each object. `points` objects without uncertainty are
    at the bound.
    """
    panels = active.shape[0]
    columns = active[panels - 1]
    size = panels * columns * NODES
    survival, hazard, product = np.ones(size), np.zeros(size), np.empty(panels * NODES)
    begun, p, part = np.empty(panels * columns), np.empty(columns), np.empty((2 + NODES) * NODES)
    at_bound, area = np.zeros(columns), np.zeros(columns)
    fill_distances(d, line, column, columns, cut, active, rule, survival, hazard, product)
    accumulate(panels, columns, cut, active, rule, hazard, product, begun, p)
    reached = cut[panels]
    write_tails(d, line, column, columns, reached, bound, rule, at_bound, area)
    now, rest, total = 0.0, 1.0, 0.0
    for k in range(columns):
        now += negative_log(p[k])
        rest *= at_bound[k]
        total += p[k]
    if abs(total + (rest if points and reached == bound else 0.0) - 1) > _UNRESOLVED:
        return -1.0
    if points and reached == bound:
        now += points * negative_log(rest / points)
    for i in range(columns):
        mean, width, beyond = expect(
            i, panels, columns, cut, active, rule, survival, hazard, product, begun,
            near[i], far[i], p, part,
        )  # fmt: skip
        after, others = 0.0, 1.0
        for k in range(columns):
            after += negative_log(p[k])
            others *= at_bound[k] if k != i else 1.0
        if points and reached == bound:
            after += points * negative_log(others / points)
        # The mean of min(value, far) over the values beyond the panels.
        upto = beyond * reached + area[i] + (far[i] - bound) * at_bound[i]
        entropy[i] = BITS * (mean + beyond * after)
        score[i] = -BITS * (width + after * max(upto - beyond * near[i], 0.0))
    return BITS * now
