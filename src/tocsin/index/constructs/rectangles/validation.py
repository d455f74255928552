"""What is checked of stored rectangles, so that kernels can rely on it."""

from __future__ import annotations

import numpy as np

from tocsin.index.constructs.decomposition import find_cover_runs
from tocsin.index.constructs.rectangles.lattice import (
    MOST_ACROSS,
    count_constructs,
    count_kinds,
)
from tocsin.index.constructs.rectangles.layout import Layout
from tocsin.jit import kernel
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_offsets,
    check_within,
    require,
)


def check_layout(g: Layout, n: int, attributes: int) -> None:
    """Raise unless constructs have lists, and no cell is in more boxes than there are.

    How keys become cells does not matter: cells are clamped to the lattice.
    """
    check_lengths(g, 2, "attribute", "floats", "first", "last", "origin", "scale", "cells", "whole")
    check_lengths(g, 2, "longest")
    check_lengths(g, 1, "proven", "overlapped", "published")
    check_within("attribute", g.attribute, -1, attributes)
    check_within("cells", g.cells, 2 if g.published[0] else 3, MOST_ACROSS + 3)
    _check_runs(g)
    check_offsets("start", g.start, len(g.start) - 1, len(g.ids))
    check_numbers("ids", g.ids, n, proven=bool(g.proven[0]))
    _check_constructs(g)
    if not (g.overlapped[0] or g.published[0]):  # else what is found twice is written once
        most = count_most_candidates(g)
        require(most <= n, f"an event finds {most:,} candidates, and there are {n:,} conjunctions")


def _check_runs(g: Layout) -> None:
    """Raise unless the covers are those of constructs as long as the layout says."""
    check_lengths(g, len(g.run_x), "run_y", "run_first", "run_size")
    x, y = g.longest.tolist()
    message = f"the runs of a cover must be those of constructs up to {x:,} by {y:,} cells"
    # A cover has a run for each of Lx * Ly cells at least: else they are not worth a look.
    require(
        all(1 <= side <= len(g.run_x) and side & (side - 1) == 0 for side in (x, y))
        and x * y <= len(g.run_x),
        message,
    )
    expected = find_cover_runs((x, y), int(g.cells[0]), bool(g.published[0]))
    for name, runs in expected._asdict().items():
        require(np.array_equal(getattr(g, name), runs), message)


def _check_constructs(g: Layout) -> None:
    """Raise unless each construct that is possible, or is in the hash table, has a list."""
    possible = count_constructs(g.longest, g.cells)
    check_lengths(g, len(g.hashed), "list_of")
    if not len(g.hashed):
        check_lengths(g, possible + 1, "start")
        return
    used = g.hashed >= 0
    require(
        len(g.hashed) & (len(g.hashed) - 1) == 0 and not used.all(),
        "the hash table must have a power of two for its size, and a place that is free",
    )
    check_within("hashed", g.hashed, np.iinfo(np.int64).min, possible)
    check_within("list_of", g.list_of[used], 0, len(g.start) - 1)


@kernel
def count_most_candidates(g: Layout) -> int:
    """Return how many candidates an event can find at most, in lists that are in range.

    Each construct adds its list to the cells from its first corner on, and takes it away beyond its
    sides; the sums of that, along both axes, are what each cell finds. A box is decomposed into
    pieces that do not overlap: so of what was built there are never more than conjunctions.
    """
    across, down = g.cells[0], g.cells[1]
    hashed, list_of, start = g.hashed, g.list_of, g.start
    direct = hashed.shape[0] == 0
    kinds_x, kinds = (
        count_kinds(g.longest[0]),
        count_kinds(g.longest[0]) * count_kinds(g.longest[1]),
    )
    found = np.zeros((down + 1, across + 1), np.int64)
    for place in range(start.shape[0] - 1 if direct else hashed.shape[0]):
        number = np.int64(place) if direct else hashed[place]
        if number < 0:
            continue
        at = np.int64(place) if direct else np.int64(list_of[place])
        size = np.int64(start[at + 1]) - start[at]
        if size > 0:
            cell, kind = number // kinds, number % kinds
            x, y = cell % across, cell // across
            right = min(x + (np.int64(1) << kind % kinds_x), across)
            top = min(y + (np.int64(1) << kind // kinds_x), down)
            found[y, x] += size
            found[y, right] -= size
            found[top, x] -= size
            found[top, right] += size
    most = np.int64(0)
    for y in range(down):
        along = np.int64(0)
        for x in range(across):
            along += found[y, x]
            found[y, x] = along + (found[y - 1, x] if y > 0 else 0)
            most = max(most, found[y, x])
    return int(most)
