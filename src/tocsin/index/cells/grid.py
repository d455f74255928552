"""The grid query index: the plane in equal cells, further tiers where a cell is crowded.

Kalashnikov, thesis 3.2.3 to 3.2.5 and 3.3.6. See the package for how cells lie in memory and how an
event is matched.

The cell's side is the paper's (3.2.4): where a partial list has one entry on average, a finer
grid gains nothing. That asks for much memory if queries overlap much (100,000 squares of side
0.01: 4000 x 4000 cells), so there is a budget (3.2.5): the grid gets coarser until the lists fit
80 bytes per box, and as much again for what crowded cells need below. On today's processors that
is no loss; cells of a half or a third of a box's side, which fit the cache, are the fastest.

Unlike the paper:

* cells have the boxes' shape, so that elongated boxes lie in as few lists as square ones;
* boxes that are much larger than the rest have a coarser grid of their own (a second *root*), so
  that a few of them do not fill every list, nor make the grid coarse for all;
* a crowded cell gets a grid of its own, over the bounds in it, rather than the whole grid
  becoming a directory; and that as deep as it pays, at most four tiers.

By options it is as in the paper: `tiers` "one" or "two" (`published_grid`), `full_lists` "all", and
`cells`, the number of cells across the domain. With `cells` and tiers "fitted", the one root is the
paper's and what is below it ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tocsin.index import unit_costs
from tocsin.index.cells.building import JOINED, MIN_BYTES, CellBuilder, Split, Tier
from tocsin.index.cells.codes import Domains
from tocsin.index.cells.crowding import MAX_TESTED, estimate_tested, measure_crowds
from tocsin.index.cells.index import CellIndex
from tocsin.index.cells.layout import ENTRY_BYTES, Cells
from tocsin.index.cells.published_grid import (
    MOST_ACROSS,
    PublishedGridBuilder,
    compute_cell_side,
    estimate_entries,
    whole_domain,
)
from tocsin.index.costs import Cost, Sample
from tocsin.index.options import Option, choice, integer
from tocsin.index.plane import Boxes, build_boxes, choose_axes, measure_sides
from tocsin.index.posting_lists import check_entries
from tocsin.index.protocol import Summary
from tocsin.model.conjunctions import Conjunctions

_BYTES_PER_BOX = 80  # of lists in the roots; chosen: six entries per box
# Boxes that an event tests in vain, at least. Measured with benchmarks/range_matching.py: fewer
# cells, which stay in cache, make W4 14% faster than cells as fine as the budget allows.
_VAIN = 1.0
_CROWDED = 48  # boxes in a partial list, if that is four times the average; chosen
_LEVELS = 4  # roots at most; chosen: every event looks into each
_COARSER = 0.85  # the factor by which the cells across shrink, a step; chosen


class Grid(CellIndex):
    """Boxes in the cells of a grid over two attributes."""

    name: ClassVar[str] = "grid"
    version: ClassVar[int] = 5
    priced = True
    summary = Summary(
        holds="boxes over two attributes, in the cells of a grid",
        cost=f"{unit_costs.FIND:g} ns, and {unit_costs.TEST:g} ns per box in the lists of its cell",
        suits="geofences, and other boxes over two attributes; further ones are tested afterwards",
        slow_when="boxes all overlap, or no two attributes restrict the rules much",
    )
    options: ClassVar[Mapping[str, Option]] = {
        "tiers": choice(
            "how crowded cells are divided: to fit the rules, or in tiers as in the paper",
            "fitted",
            "one",
            "two",
        ),
        "cells": integer("number of cells along each axis", None, 1, MOST_ACROSS),
        "full_lists": choice(
            "which full lists are kept separate from partial lists", "long", "all"
        ),
    }

    @classmethod
    def build_layout(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Cells:
        """Choose axes and cell sizes, and put the boxes into cells."""
        axes, is_float = choose_axes(conjunctions, floats)
        boxes = build_boxes(conjunctions, axes, is_float)
        tiers, cells = options["tiers"], options["cells"]
        min_full = JOINED if options["full_lists"] == "long" else 0
        if tiers == "fitted":
            return GridBuilder(boxes, min_full, cells).build(axes)
        return PublishedGridBuilder(boxes, min_full, cells, 1 if tiers == "one" else 2).build(axes)

    @classmethod
    def cost(cls, sample: Sample) -> Cost:
        """Estimate what an event would cost; see `Index.cost`."""
        side_x, side_y = sample.sides
        across, level = choose_levels(side_x, side_y, sample.factor)
        cell = 1 / across[level]
        # An event tests the boxes that meet its cell.
        tested = np.minimum(side_x + cell[:, 0], 1) * np.minimum(side_y + cell[:, 1], 1)
        look = unit_costs.FIND * len(across)
        look += unit_costs.TEST * sample.total(tested) * max(sample.correlation, 1.0)
        nanoseconds = (
            look * (1 + sample.tied)  # an event with the code of a bound looks twice
            + unit_costs.ACCEPT * sample.total(sample.areas[sample.unproven])
        )
        met = sample.in_words(sample.met)
        axes = "two attributes" if len(sample.attributes) > 1 else "attribute"
        reason = f"an event meets {met} on the {axes} of the grid"
        return Cost(nanoseconds, reason, sample.met)


class GridBuilder(CellBuilder):
    """A root for each level of size, and children for crowded cells."""

    tiers = 4

    def __init__(self, boxes: Boxes, min_full: int = JOINED, cells: int | None = None):
        super().__init__(boxes, min_full)
        self.cells = cells
        self.budget = _budget_entries(boxes.size)

    def choose_roots(self) -> tuple[Domains, np.ndarray]:
        """Return a root over the whole domain for each level, and each box's level."""
        x, y = measure_sides(self.boxes, 0), measure_sides(self.boxes, 1)
        if self.cells is not None:
            check_entries(estimate_entries(x, y, self.cells))
            return whole_domain(x, y, self.cells), np.zeros(self.boxes.size, np.int32)
        across, level = choose_levels(x.share, y.share)
        begin = np.tile([[x.begin, y.begin]], (len(across), 1))
        end = np.tile([[x.end, y.end]], (len(across), 1))
        return Domains(begin=begin, end=end, across=across), level

    def choose_splits(self, tier: Tier) -> Split | None:
        """Give a grid of its own to each crowded cell that is worth it."""
        full, partial = tier.full, tier.partial
        cells = np.flatnonzero(partial > max(_CROWDED, 4 * partial.sum() / max(len(partial), 1)))
        if not len(cells):
            return None
        m = partial[cells].astype(np.float64)
        crowds = measure_crowds(self.boxes, tier, cells)
        qx, qy, area = crowds.side[:, 0], crowds.side[:, 1], crowds.area
        # Eight entries per box, as long as the budget for all tiers lasts.
        left = max(2 * self.budget - self.id_count - int(full.sum()) - int(partial.sum()), 0)
        allowed = m * np.clip(left / m.sum(), 1, 8)
        nx, ny = choose_resolution(m, qx, qy, allowed, area, _VAIN)
        worth = estimate_tested(qx, qy, area, nx, ny) < MAX_TESTED
        if not worth.any():
            return None
        domains = Domains(
            begin=crowds.begin[worth],
            end=crowds.end[worth],
            across=np.stack([nx, ny], axis=1)[worth],
        )
        return Split(cells=cells[worth], domains=domains)


def _budget_entries(boxes: float) -> float:
    """Return how many list entries so many boxes may have in the roots."""
    return max(MIN_BYTES, _BYTES_PER_BOX * boxes) / ENTRY_BYTES


def choose_levels(
    side_x: np.ndarray, side_y: np.ndarray, times: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many cells each level has across x and y, [l, 2], and the level of each box.

    Sides are shares of the domain. Each box stands for so many `times` like it: the planner passes
    a sample.
    """
    n = len(side_x)
    level = np.zeros(n, np.int32)
    rest = np.arange(n)
    across: list[tuple[int, int]] = []
    while True:
        qx, qy = side_x[rest], side_y[rest]
        entries = _budget_entries(n * times) * max(len(rest) / max(n, 1), 0.1)
        middle_x, middle_y = (np.median(q) if len(q) else 1.0 for q in (qx, qy))
        resolution = choose_resolution(len(rest) * times, middle_x, middle_y, entries, vain=_VAIN)
        nx, ny = (int(v) for v in resolution)
        covered = (qx * nx + 1) * (qy * ny + 1)
        large = covered > 64 + 8 * np.median(covered) if len(rest) else np.zeros(0, bool)
        # A few may stay: what they cost is little beside the others.
        if covered[large].sum() < covered.sum() / 4:
            large[:] = False
        if len(across) + 1 == _LEVELS:
            large[:] = False
        if not large.any():
            while (covered.sum() - len(rest)) * times > 2 * entries and nx * ny > 1:
                nx, ny = max(nx * 3 // 4, 1), max(ny * 3 // 4, 1)
                covered = (qx * nx + 1) * (qy * ny + 1)
        level[rest] = len(across)
        across.append((nx, ny))
        rest = rest[large]
        if not len(rest):
            return np.array(across), level


def choose_resolution(
    m: Any, qx: Any, qy: Any, entries: Any, area: Any = None, vain: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many cells to have across x and y for m boxes of sides qx, qy of the domain.

    At most about `entries` list entries, or cells, come of it (3.2.5). `area` is the mean product
    of the sides, if the product of the means will not do: a few boxes may cover everything. And an
    event tests no fewer than `vain` boxes in vain: finer cells are more than a cache holds.
    """
    area = np.multiply(qx, qy) if area is None else area
    m, qx, qy, entries, area = np.broadcast_arrays(m, qx, qy, np.asarray(entries, float), area)
    side = np.sqrt(qx * qy)
    shape = np.where((qx > 0) & (qy > 0), np.sqrt(np.maximum(qx, 1e-12) / np.maximum(qy, 1e-12)), 1)
    cell = compute_cell_side(m, side)
    # An axis of which the boxes cover half is not selective.
    nx = np.where(qx >= 0.5, 1.0, np.maximum(1 / (cell * shape), 1.0))
    ny = np.where(qy >= 0.5, 1.0, np.maximum(shape / cell, 1.0))
    for _ in range(200):  # enough from 10**14 cells across down to one
        expected = m * (area * nx * ny + qx * nx + qy * ny + 1)
        over = (expected > entries) | (nx * ny > entries)
        over |= m * (qx / ny + qy / nx + 1 / (nx * ny)) < vain
        over &= (nx > 1) | (ny > 1)
        if not over.any():
            break
        nx = np.where(over, np.maximum(nx * _COARSER, 1.0), nx)
        ny = np.where(over, np.maximum(ny * _COARSER, 1.0), ny)
    return np.maximum(nx + 0.5, 1).astype(np.int64), np.maximum(ny + 0.5, 1).astype(np.int64)
