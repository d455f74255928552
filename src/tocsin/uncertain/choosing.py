"""The refresh policies as the simulation's kernel runs them: uniform values, minimum queries.

`refresh` has the same policies for all densities and queries; tests compare them.
"""

from __future__ import annotations

import math

import numpy as np

from tocsin.jit import step
from tocsin.uncertain.expected import expect_lines
from tocsin.uncertain.scoring import overlapping

CUSTOM, GLB_RR, LOC_RR, MINMIN, MAXUNC, MINEXPENTROPY, EXPECTED_SCORE, TRIAL = range(8)


@step
def choose(policy, low, high, free, n, after, rule):
    """Return the position of the object to refresh, or -1 if none would change the answer.

    Candidates are free, have some uncertainty and may be the minimum. Ties go to the first.
    `after` is where Loc_RR continues.
    """
    order = np.empty(n, np.int64)
    m, points, _, bound, second = overlapping(low, high, n, order)
    best, least = -1, math.inf
    if policy == LOC_RR:
        for k in range(m):
            i = order[k]
            rank = i - after if i >= after else i - after + n
            if free[i] and rank < least:
                best, least = i, rank
        return best
    if policy in (MINMIN, MAXUNC):
        for k in range(m):
            i = order[k]
            rank = low[i] if policy == MINMIN else low[i] - high[i]
            if free[i] and (rank < least or (rank == least and i < best)):
                best, least = i, rank
        return best
    if not m:
        return -1
    a, b, p = np.empty(m), np.empty(m), np.empty(m)
    entropy, score = np.empty(m), np.empty(m)
    for k in range(m):
        a[k], b[k] = low[order[k]], high[order[k]]
    begun = expect_lines(a, b, m, bound, second, points, False, rule, p, entropy, score)
    for k in range(begun):
        i = order[k]
        rank = entropy[k] if policy == MINEXPENTROPY else -score[k]
        if free[i] and (rank < least or (rank == least and i < best)):
            best, least = i, rank
    return best
