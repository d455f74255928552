"""What is checked of stored intervals, so that kernels can rely on it."""

from __future__ import annotations

import numpy as np

from tocsin.index.constructs.interval_lists import check_lists
from tocsin.index.constructs.intervals.layout import Layout
from tocsin.index.constructs.lattice import MOST_LEVELS
from tocsin.model.validation import check_lengths, check_within, require


def check_layout(g: Layout, n: int, attributes: int) -> None:
    """Raise unless cells and constructs have lists, no longer than they may be.

    How keys become cells does not matter, nor how they are ordered in a cell: cells are clamped
    to a level's, and what is found in a list is a stretch of it.
    """
    levels = len(g.first)
    require(1 <= levels <= MOST_LEVELS, f"there must be 1 to {MOST_LEVELS} levels, got {levels:,}")
    check_lengths(g, 1, "attribute", "floats", "proven")
    check_lengths(g, levels, "longest", "per_cell")
    check_within("attribute", g.attribute, -1, attributes)
    check_lists(g, n, proven=bool(g.proven[0]))
    check_within("per_cell", g.per_cell, 1, len(g.piece))
    constructs, cells = np.diff(g.constructs), np.diff(g.cells)
    require(
        not (constructs % g.per_cell).any() and np.array_equal(constructs // g.per_cell, cells),
        "as many constructs must start in each cell of a level",
    )
    most = len(g.skip) // levels
    check_lengths(g, levels * most, "skip")
    check_within("longest", g.longest, 1, most + 1)
    candidates = 0
    for v in range(levels):
        skip = g.skip[v * most : v * most + int(g.longest[v])]
        check_within("skip", skip, 0, int(g.per_cell[v]) + 1)
        require(bool((skip[1:] >= skip[:-1]).all()), "'skip' must ascend within a level")
        candidates += _count_most_candidates(g, v, skip)
    # An interval is on one level, and in one of the lists that an event takes there.
    require(
        candidates <= n,
        f"an event finds {candidates:,} candidates, and there are {n:,} conjunctions",
    )


def _count_most_candidates(g: Layout, v: int, skip: np.ndarray) -> int:
    """Return how many candidates an event finds at most on a level."""
    offsets = slice(int(g.cells[v]), int(g.cells[v + 1]) + 1)
    found = count_covering(g.piece[g.constructs[v] : g.constructs[v + 1] + 1], g.per_cell[v], skip)
    found += np.diff(g.start[offsets]) + np.diff(g.end[offsets]) + np.diff(g.inside[offsets])
    return int(found.max())


def count_covering(piece: np.ndarray, per_cell: int, skip: np.ndarray) -> np.ndarray:
    """Return how many entries the constructs that cover each cell of a level have.

    Of the `per_cell` constructs that start d cells back they are those from `skip[d]` on. Sums over
    neighbouring cells are differences of running sums, so this takes as long as reading `piece`
    does, however long the constructs are.
    """
    cells = np.arange((len(piece) - 1) // per_cell)

    def sum_back(offset: int, first: int, stop: int) -> np.ndarray:
        """Return for each cell the sum of `piece` at an offset, `first` to `stop` cells back."""
        sums = np.concatenate([[0], np.cumsum(piece[offset::per_cell][: len(cells)])])
        return sums[np.maximum(cells + 1 - first, 0)] - sums[np.maximum(cells + 1 - stop, 0)]

    found = sum_back(per_cell, 0, len(skip))
    begins = np.flatnonzero(np.diff(skip, prepend=-1))
    for first, stop in zip(begins, np.append(begins[1:], len(skip))):
        found -= sum_back(int(skip[first]), int(first), int(stop))
    return found
