"""What is checked of stored counting indexes, so that kernels can rely on it."""

from __future__ import annotations

import numpy as np

from tocsin.index.constructs.interval_lists import check_lists
from tocsin.index.counting.layout import MOST_COUNTED, Layout
from tocsin.jit import Int32Out, kernel, step
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_offsets,
    check_within,
    require,
)


def check_layout(g: Layout, n: int) -> None:
    """Raise unless no event can count more predicates of a conjunction than it needs.

    A counter that went below zero would come to zero again, and its conjunction be found once
    more. A conjunction is at most once in a cell, so it is counted at most once a level; and it
    needs as many as there are levels that have it.
    """
    tested = len(g.cut) - 1
    check_lengths(g, tested + 1, "level")
    check_offsets("level", g.level, tested, len(g.first))
    check_offsets("cut", g.cut, tested, len(g.cuts))
    check_within("nullable", g.nullable, 0, tested)
    check_lists(g, n, proven=True)
    require(np.array_equal(g.cells, g.constructs), "constructs must be one cell long")
    check_lengths(g, n, "needed", "candidate")
    check_within("needed", g.needed, 0, MOST_COUNTED + 1)
    check_numbers("candidate", g.candidate, n)
    require(
        np.array_equal(g.always, g.candidate[g.needed == 0]),
        "'always' must be the conjunctions that need nothing",
    )
    levels = np.zeros(n, np.int32)
    require(
        count_levels(g, levels) and np.array_equal(levels, g.needed),
        "each conjunction must be on as many levels as it needs, once in a cell",
    )


@kernel
def count_levels(g: Layout, levels: Int32Out) -> bool:
    """Count the levels that each conjunction is on; tell whether it is once in each cell."""
    cells, piece, piece_id, start, start_id = g.cells, g.piece, g.piece_id, g.start, g.start_id
    end, end_id, inside, inside_id = g.end, g.end_id, g.inside, g.inside_id
    last = np.full(levels.shape[0], -1, np.int64)  # the cell in which each was seen last
    for v in range(cells.shape[0] - 1):
        for cell in range(cells[v], cells[v + 1]):
            once = see_all(piece_id, piece[cell], piece[cell + 1], cell, cells[v], last, levels)
            once &= see_all(start_id, start[cell], start[cell + 1], cell, cells[v], last, levels)
            once &= see_all(end_id, end[cell], end[cell + 1], cell, cells[v], last, levels)
            once &= see_all(inside_id, inside[cell], inside[cell + 1], cell, cells[v], last, levels)
            if not once:
                return False
    return True


@step
def see_all(ids, begin, stop, cell, first, last, levels):
    """Note the conjunctions in a list of a cell, on the level that begins at cell `first`.

    Tell whether none of them has been seen in the cell before.
    """
    for j in range(begin, stop):
        c = ids[j]
        if last[c] == cell:
            return False
        levels[c] += last[c] < first
        last[c] = cell
    return True
