"""The refresh policies as the simulation's kernel runs them: uniform values, minimum queries.

`refresh` has the same policies for all densities and queries; tests compare them.
"""

from __future__ import annotations

import numpy as np

from tocsin.jit import step
from tocsin.uncertain.panels import expect_lines
from tocsin.uncertain.scoring import overlapping

(
    CUSTOM, GLB_RR, LOC_RR, MINMIN, MINMIN_DISTINCT, MAXUNC, MINEXPENTROPY, EXPECTED_SCORE,
) = range(8)  # fmt: skip
PENDING, SHARED, FREE = range(3)  # an update is under way for this query; for another one; for none


@step
def choose(policy, low, high, status, n, after, rule):
    """Return the position of the object to refresh, or -1 if none would change the answer.

    Candidates are not pending, have some uncertainty and may be the minimum. Ties go to the first.
    `after` is where Loc_RR continues.
    """
    order, rank = np.empty(n, np.int64), np.empty(n)
    m, points, _, bound, second = overlapping(low, high, n, order)
    if policy in (MINEXPENTROPY, EXPECTED_SCORE) and m:
        m = rank_expected(policy, low, high, order, m, points, bound, second, rule, rank)
    best, top = -1, PENDING
    for k in range(m):
        i = order[k]
        if policy == LOC_RR:
            rank[i] = i - after if i >= after else i - after + n
        elif policy == MAXUNC:
            rank[i] = low[i] - high[i]
        elif policy in (MINMIN, MINMIN_DISTINCT):
            rank[i] = low[i]
        level = status[i] if policy == MINMIN_DISTINCT else min(status[i], SHARED)
        if level < top or level == PENDING:
            continue
        if level > top or rank[i] < rank[best] or (rank[i] == rank[best] and i < best):
            best, top = i, level
    return best


@step
def rank_expected(policy, low, high, order, m, points, bound, second, rule, rank):
    """Write the expected entropies or scores; return how many objects have influence."""
    a, b, p = np.empty(m), np.empty(m), np.empty(m)
    entropy, score = np.empty(m), np.empty(m)
    for k in range(m):
        a[k], b[k] = low[order[k]], high[order[k]]
    begun = expect_lines(a, b, m, bound, second, points, False, rule, p, entropy, score)
    for k in range(begun):
        rank[order[k]] = entropy[k] if policy == MINEXPENTROPY else -score[k]
    return begun
