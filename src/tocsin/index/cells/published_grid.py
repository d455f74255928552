"""The grid as published: square cells over the whole domain, in one tier or two.

Kalashnikov, thesis 3.2.3 to 3.2.5. `grid` builds it where its options say so (`tiers`, `cells`).
See the package for how cells lie in memory and how an event is matched.

* The domain is normalised to the unit square and cut into n x n cells. n is fixed by the user, or
  that of the formula for the cell's side (3.2.4), with no regard for memory.
* One tier: every cell has a full and a partial list.
* Two tiers: once a list is longer than a threshold, the grid becomes a *directory*, whose cells
  point to *secondary grids*. Such a cell has one of its own, over its square, of n x n cells again
  (1000 x 1000 kilometres, then metres), or as many as the formula has for the boxes in it.

Unlike the paper:

* the domain is that of the rules' bounds: rules do not say what events there are;
* a directory cell that is not crowded keeps its lists, where the paper lets it point to a secondary
  grid shared with its siblings; and so does a full list, which a finer grid would only repeat;
* the formula is for squares of one size: here its side is the mean of the boxes' sides;
* secondary grids are "a few": at most 2**24 cells in all, the longest lists first, and none for
  boxes that it would copy rather than divide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.index.cells.building import CellBuilder, Split, Tier
from tocsin.index.cells.codes import Domains
from tocsin.index.cells.crowding import MAX_TESTED, estimate_tested, measure_squares
from tocsin.index.plane import Boxes, Sides, measure_sides
from tocsin.index.posting_lists import check_entries

MOST_ACROSS = 10_000  # cells; chosen: their heads alone take 1.6 GB
# Entries of a partial list in the directory of a grid with two tiers. The paper does not say how
# many. Chosen: far more than in all of its experiments but that for which it has two tiers.
THRESHOLD = 1000
_MAX_SECONDARY_CELLS = 1 << 24  # of all secondary grids; chosen: they take 256 MB


class PublishedGridBuilder(CellBuilder):
    """One root of n x n cells over the domain; with two tiers, a secondary grid where crowded."""

    def __init__(self, boxes: Boxes, min_full: int, cells: int | None, tiers: int):
        super().__init__(boxes, min_full)
        self.cells = cells
        self.tiers = tiers

    def choose_roots(self) -> tuple[Domains, np.ndarray]:
        """Return the grid over the whole domain, and that all boxes go there."""
        x, y = measure_sides(self.boxes, 0), measure_sides(self.boxes, 1)
        n = self.cells
        if n is None:
            n = int(choose_across(self.boxes.size, find_mean_side(x, y)))
        check_entries(estimate_entries(x, y, n))
        return whole_domain(x, y, n), np.zeros(self.boxes.size, np.int32)

    def choose_splits(self, tier: Tier) -> Split | None:
        """Give a secondary grid to each cell whose partial list is longer than the threshold."""
        cells = np.flatnonzero(tier.partial > THRESHOLD)
        cells = cells[np.argsort(-tier.partial[cells], kind="stable")]
        if not len(cells):
            return None
        squares = measure_squares(self.boxes, tier, cells)
        m = tier.partial[cells]
        mean_side = np.sqrt(squares.side.prod(axis=1))
        n = choose_across(m, mean_side) if self.cells is None else np.full(len(cells), self.cells)
        tested = estimate_tested(squares.side[:, 0], squares.side[:, 1], squares.area, n, n)
        worth = tested < MAX_TESTED
        worth &= np.cumsum(np.where(worth, n * n, 0)) <= _MAX_SECONDARY_CELLS
        if not worth.any():
            return None
        order = np.flatnonzero(worth)[np.argsort(cells[worth])]
        entries = m * (squares.area * n * n + squares.side.sum(axis=1) * n + 1)
        check_entries(int(entries[order].sum()))
        across = np.stack([n, n], axis=1)[order]
        domains = Domains(begin=squares.begin[order], end=squares.end[order], across=across)
        return Split(cells=cells[order], domains=domains)


def whole_domain(x: Sides, y: Sides, n: int) -> Domains:
    """Return one node of n x n cells over the domain of both axes."""
    return Domains(
        begin=np.array([[x.begin, y.begin]]),
        end=np.array([[x.end, y.end]]),
        across=np.full((1, 2), n),
    )


def find_mean_side(x: Sides, y: Sides) -> float:
    """Return the mean side of squares as large as the boxes, in a domain of side 1."""
    return float(np.sqrt(x.share * y.share).mean()) if len(x.share) else 1.0


def estimate_entries(x: Sides, y: Sides, across: int) -> int:
    """Return about how many entries the lists of so many cells across have."""
    return int(((x.share * across + 1) * (y.share * across + 1)).sum())


def choose_across(m: Any, q: Any) -> Any:
    """Return how many cells across the formula has for m squares of side q, at most 10,000."""
    across = np.round(1 / np.maximum(compute_cell_side(m, q), 1 / MOST_ACROSS))
    return np.maximum(across, 1).astype(np.int64)


def compute_cell_side(m: Any, q: Any) -> Any:
    """Return the paper's side of a cell for m squares of side q in a domain of side 1 (3.2.4).

    >>> round(1 / compute_cell_side(25_000, 0.01))
    1000
    """
    m, q = np.maximum(m, 1.0), np.asarray(q, np.float64)
    with np.errstate(divide="ignore"):
        return np.where(q > 0.5 / np.sqrt(m), 1 / (4 * q * m), 1 / np.sqrt(m) - q)[()]


def estimate_published_bytes(cell_side: float, m: int, lists: float, pointer: int = 4) -> float:
    """Return S_grid, the memory that the paper expects of its grid in a domain of side 1 (3.2.5).

    Each cell has two pointers, to its lists, and each of m boxes has two pointers in each of the
    `lists` it is in on average: to itself and to the next. `estimate_lists` is for squares. What is
    built here takes other bytes: a head of 16 for each cell, and lists without pointers, of 4 bytes
    an id and 8 a word.

    >>> round(estimate_published_bytes(0.001, 25_000, 1000))
    208000000
    """
    return 2 * pointer * (1 / cell_side**2 + m * lists)


def estimate_lists(cell_side: float, q: float) -> float:
    """Return in how many lists a square of side q is on average, full and partial (3.2.5).

    >>> round(estimate_lists(0.001, 0.01))
    121
    """
    return (q + cell_side) ** 2 / cell_side**2
