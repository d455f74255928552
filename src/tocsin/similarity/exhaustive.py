"""Exhaustive join: every point with every other.

It is the definition that the other methods are tested against.
"""

from __future__ import annotations

import numpy as np

from tocsin.jit import Float64s, kernel
from tocsin.similarity.closeness import Closeness, gap_of
from tocsin.similarity.output import COUNTING, OWN, WRITTEN, Output


class ExhaustiveJoin:
    """Compares all pairs."""

    def __init__(self, a: np.ndarray, b: np.ndarray, closeness: Closeness, same: bool):
        self._arguments = (a.reshape(-1), b.reshape(-1), a.shape[1], closeness, same)
        self.state: np.ndarray = np.zeros(OWN + 2, np.int64)

    def fill(self, out: Output) -> bool:
        """Write pairs; return whether these were the last ones."""
        a, b, d, closeness, same = self._arguments
        return bool(compare_all(a, b, d, closeness.bound, closeness.metric, same, out))


@kernel
def compare_all(
    a: Float64s, b: Float64s, d: int, bound: float, metric: int, same: bool, out: Output
) -> bool:
    """Write the pairs of close points; of the same set, each once, i < j."""
    left, right, state = out
    n, counting = state[WRITTEN], state[COUNTING] != 0
    first, start = state[OWN], state[OWN + 1]
    size_a, size_b = a.shape[0] // d, b.shape[0] // d
    for i in range(first, size_a):
        if same and start <= i:
            start = i + 1
        for j in range(start, size_b):
            if gap_of(a, i * d, b, j * d, d, metric) < bound:
                if not counting:
                    if n == left.shape[0]:
                        state[WRITTEN], state[OWN], state[OWN + 1] = n, i, j
                        return False
                    left[n], right[n] = i, j
                n += 1
        start = 0
    state[WRITTEN], state[OWN] = n, size_a
    return True
