"""Sorting in kernels: `np.sort` takes Numba a second to compile for every kernel that uses it."""

from __future__ import annotations

import numpy as np

from tocsin.jit import step

_RUN = 16  # elements sorted by insertion


@step
def sort(values):
    """Sort an array of numbers in place, by merging runs; equal ones keep their order."""
    n = values.shape[0]
    for begin in range(0, n, _RUN):
        for i in range(begin + 1, min(begin + _RUN, n)):
            value, j = values[i], i
            while j > begin and values[j - 1] > value:
                values[j] = values[j - 1]
                j -= 1
            values[j] = value
    if n <= _RUN:
        return
    left, width = np.empty(n, values.dtype), _RUN
    while width < n:
        for begin in range(0, n - width, 2 * width):
            middle, end = begin + width, min(begin + 2 * width, n)
            if values[middle - 1] <= values[middle]:
                continue
            for i in range(width):
                left[i] = values[begin + i]
            i, j = 0, middle
            for at in range(begin, end):
                if i < width and (j == end or left[i] <= values[j]):
                    values[at] = left[i]
                    i += 1
                elif j < end:
                    values[at] = values[j]
                    j += 1
        width *= 2
