"""EGO-join and EGO*-join (thesis, 4.2.1): recursive joins of sequences in epsilon grid order.

A grid of cells a little wider than epsilon lies over all dimensions, never materialised. Points are
sorted by their cells, lexicographically. Two sequences are joined by halving them and joining the
halves, until both are short; sequences that cannot have close points are pruned, by what their
first and last cells tell (Fig. 4.1):

* `ego`: in the leading dimensions where both sequences have one cell only (their *inactive*
  dimensions), these cells are two or more apart.
* `ego_star`: the bounding rectangles of the sequences are two or more apart (Fig. 4.3 and 4.4).
  They also use the *active* dimension, the first one where cells differ.

Departures: a self-join joins each pair of sequences once. Cells are a hair wider than epsilon (see
`cells`). Sequences of up to eight points are short; the thesis gives no number. It says that an
order of the dimensions is chosen, not which: they are taken as they come. `ego_ordered` and
`ego_star_ordered` sort them by how well they separate points, the idea of Super-EGO. It affects
only the cells, not the gaps.

In memory: 4 d bytes per point for the cells, besides its coordinates in epsilon grid order. The
base case compares points one by one, as published: past two dimensions `blocks` is much faster, for
it compares 32 points at once and prunes by boxes that are as tight as can be.
"""

from __future__ import annotations

import numpy as np

from tocsin.jit import Float64s, Int32s, Int64s, kernel, step
from tocsin.similarity.blocks import gather_rows
from tocsin.similarity.cells import box_around, count_cells
from tocsin.similarity.closeness import Closeness, gap_of
from tocsin.similarity.output import COUNTING, OWN, WRITTEN, Output

SHORT = 8  # points of sequences that are joined one by one; chosen, in 2 to 32 dimensions
_STACK = 1024  # pairs of sequences; four for each of the at most 2 * 63 halvings
MAX_CELL = 1 << 30  # in a dimension


class EgoJoin:
    """Joins two sequences recursively; EGO* if `star`, otherwise EGO."""

    star = False
    is_ordered = False

    def __init__(self, a: np.ndarray, b: np.ndarray, closeness: Closeness, same: bool):
        self._d, self._closeness, self._same = a.shape[1], closeness, same
        half_low, half_span = box_around(a, b)
        half_width, _ = count_cells(half_span, closeness.reach, float(MAX_CELL))
        sides = [a] if same else [a, b]
        cells = [((0.5 * p - half_low) / half_width).astype(np.int32) for p in sides]
        if self.is_ordered:
            dimensions = sort_dimensions(cells[0], cells[-1])
            cells = [np.ascontiguousarray(each[:, dimensions]) for each in cells]
        self._sides = []
        for points, own in zip(sides, cells, strict=True):
            order = np.lexsort(own.T[::-1])
            rows = np.empty(points.size)
            gather_rows(points.reshape(-1), self._d, order, rows)
            self._sides.append((rows, own[order].reshape(-1), order))
        self.state: np.ndarray = np.zeros(OWN + 1 + 4 * _STACK, np.int64)
        self.state[OWN] = 1
        self.state[OWN + 1 : OWN + 5] = 0, len(a), 0, len(b)

    def fill(self, out: Output) -> bool:
        """Write pairs; return whether these were the last ones."""
        bound, metric = self._closeness.bound, self._closeness.metric
        return bool(
            join_sequences(
                *self._sides[0],
                *self._sides[-1],
                self._d,
                bound,
                metric,
                self.star,
                self._same,
                out,
            )
        )


class EgoStarJoin(EgoJoin):
    """EGO*-join."""

    star = True


class OrderedEgoJoin(EgoJoin):
    """EGO-join, first over the dimensions that separate points best."""

    is_ordered = True


class OrderedEgoStarJoin(EgoStarJoin):
    """EGO*-join, the same way."""

    is_ordered = True


def sort_dimensions(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the dimensions, first those in which fewest pairs are in neighbouring cells."""
    shares = []
    for k in range(a.shape[1]):
        values, counts = np.unique(a[:, k], return_counts=True)
        own = np.sort(b[:, k]).astype(np.int64)
        neighbours = np.searchsorted(own, values + 1, "right") - np.searchsorted(own, values - 1)
        shares.append(float((counts * neighbours).sum()))
    return np.argsort(shares, kind="stable")


@kernel
def join_sequences(
    a: Float64s,
    cells_a: Int32s,
    numbers_a: Int64s,
    b: Float64s,
    cells_b: Int32s,
    numbers_b: Int64s,
    d: int,
    bound: float,
    metric: int,
    star: bool,
    same: bool,
    out: Output,
) -> bool:
    """Write the pairs of close points. The state is a stack of pairs of sequences, first and stop.

    Point by point, a pair of short sequences takes the room of all its pairs beforehand.
    """
    left, right, state = out
    n, counting = state[WRITTEN], state[COUNTING] != 0
    stack, size = state[OWN + 1 :], state[OWN]
    low_a, high_a = np.empty(d, np.int64), np.empty(d, np.int64)
    low_b, high_b = np.empty(d, np.int64), np.empty(d, np.int64)
    while size > 0:
        first_a, stop_a, first_b, stop_b = (
            stack[4 * size - 4], stack[4 * size - 3], stack[4 * size - 2], stack[4 * size - 1],
        )  # fmt: skip
        last_a, last_b = stop_a - 1, stop_b - 1
        if star:
            bound_sequence(cells_a, first_a, last_a, d, low_a, high_a)
            bound_sequence(cells_b, first_b, last_b, d, low_b, high_b)
            is_pruned = are_disjoint(low_a, high_a, low_b, high_b)
        else:
            is_pruned = are_apart(cells_a, first_a, last_a, cells_b, first_b, last_b, d)
        if is_pruned:
            size -= 1
            continue
        long_a, long_b = stop_a - first_a > SHORT, stop_b - first_b > SHORT
        if not long_a and not long_b:
            if not counting and n + SHORT * SHORT > left.shape[0]:
                state[WRITTEN], state[OWN] = n, size
                return False
            size -= 1
            is_own = same and first_a == first_b
            for i in range(first_a, stop_a):
                for j in range(i + 1 if is_own else first_b, stop_b):
                    if gap_of(a, i * d, b, j * d, d, metric) < bound:
                        if not counting:
                            x, y = numbers_a[i], numbers_b[j]
                            left[n] = min(x, y) if same else x
                            right[n] = max(x, y) if same else y
                        n += 1
            continue
        size -= 1
        middle_a, middle_b = (first_a + stop_a) // 2, (first_b + stop_b) // 2
        if not long_a:
            size = push(stack, size, first_a, stop_a, middle_b, stop_b)
            size = push(stack, size, first_a, stop_a, first_b, middle_b)
        elif not long_b:
            size = push(stack, size, middle_a, stop_a, first_b, stop_b)
            size = push(stack, size, first_a, middle_a, first_b, stop_b)
        else:
            size = push(stack, size, middle_a, stop_a, middle_b, stop_b)
            if not (same and first_a == first_b):
                size = push(stack, size, middle_a, stop_a, first_b, middle_b)
            size = push(stack, size, first_a, middle_a, middle_b, stop_b)
            size = push(stack, size, first_a, middle_a, first_b, middle_b)
    state[WRITTEN], state[OWN] = n, 0
    return True


@step
def push(stack, size, first_a, stop_a, first_b, stop_b):
    """Push a pair of sequences; return the size of the stack."""
    stack[4 * size], stack[4 * size + 1] = first_a, stop_a
    stack[4 * size + 2], stack[4 * size + 3] = first_b, stop_b
    return size + 1


@step
def are_apart(cells_a, first_a, last_a, cells_b, first_b, last_b, d):
    """EGO-heuristic: whether sequences are two cells apart in a dimension inactive in both.

    Sequences are given by the rows of their first and last cells.
    """
    for k in range(d):
        own, other = cells_a[first_a * d + k], cells_b[first_b * d + k]
        if own != cells_a[last_a * d + k] or other != cells_b[last_b * d + k]:
            return False
        if abs(own - other) > 1:
            return True
    return False


@step
def bound_sequence(cells, first, last, d, low, high):
    """Write the bounding rectangle of a sequence (Fig. 4.3), given the rows of its ends."""
    for i in range(d):
        low[i], high[i] = cells[first * d + i], cells[last * d + i]
        if low[i] != high[i]:
            low[i + 1 :] = 0
            high[i + 1 :] = MAX_CELL
            break


@step
def are_disjoint(low_a, high_a, low_b, high_b):
    """EGO*-heuristic: whether a rectangle, expanded by one, and another are disjoint (Fig. 4.4)."""
    overlaps = True
    for k in range(low_a.shape[0]):
        overlaps &= low_a[k] - 1 <= high_b[k] and low_b[k] <= high_a[k] + 1
    return not overlaps
