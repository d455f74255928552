"""What matching relies on in stored cells, and `CellIndex.validate` checks."""

from __future__ import annotations

import numpy as np

from tocsin.index.cells.layout import END, FULL, HEAD, PARTIAL, WORDS, Cells
from tocsin.jit import kernel
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_within,
    require,
)


def check_cells(g: Cells, size: int, attributes: int) -> None:
    """Raise unless nodes have cells, and cells have lists, no longer than `size` conjunctions.

    How keys become codes does not matter: codes are clamped to a node's cells.
    """
    nodes, cells = len(g.first_cell), len(g.heads) // HEAD
    check_lengths(g, 2, "attribute", "floats")
    check_lengths(g, 1, "proven", "roots")
    check_lengths(g, 2 * nodes, "low_key", "high_key", "origin", "scale", "across", "gap")
    check_lengths(g, 3, "splitting")
    check_lengths(g, HEAD * cells, "heads")
    check_within("attribute", g.attribute, -1, attributes)
    check_within("splitting", g.splitting, 0, 2**31)
    check_within("roots", g.roots, 1, nodes + 1)
    check_within("across", g.across, 1, cells + 1)
    across_x, across_y = g.across[0::2], g.across[1::2]
    require(
        bool((across_x <= cells // across_y).all())
        and g.first_cell[0] == 0
        and np.array_equal(np.diff(g.first_cell, append=cells), across_x * across_y),
        f"the nodes must have the {cells:,} cells one after the other",
    )
    heads = g.heads.reshape(-1, HEAD)
    full, partial, words = heads[:, FULL], heads[:, PARTIAL], heads[:, WORDS]
    end = np.where(heads[:, END] < 0, partial, heads[:, END])
    check_within("heads", full, 0, len(g.ids) + 1)
    check_within("heads", words, 0, len(g.words) + 1)
    require(
        bool((full <= partial).all() and (partial <= end).all() and (end <= len(g.ids)).all()),
        f"'heads' must be of lists within the {len(g.ids):,} ids",
    )
    require(
        bool((end - partial <= len(g.words) - words).all()),
        "each entry of a partial list must have a word",
    )
    check_numbers("ids", g.ids, size, proven=bool(g.proven.all()))
    most = find_most_candidates(g)
    require(most >= 0, "a node below a cell must come after the cell's own")
    children = np.sort(~heads[:, END][heads[:, END] < 0])
    require(
        np.array_equal(children, np.arange(g.roots[0], nodes)),
        "every node but a root must be the child of one cell",
    )
    require(
        most <= size, f"an event finds {most:,} candidates, and there are {size:,} conjunctions"
    )


@kernel
def find_most_candidates(g: Cells) -> int:
    """Return how many candidates an event can find at most, in lists that are in range.

    Counted from the last node to the first, so a child must come after its parent; -1 if one does
    not. A box is in one root, and in one list on an event's path there: so cells that were built
    never give more candidates than there are conjunctions.
    """
    across, first_cell, heads, roots = g.across, g.first_cell, g.heads, g.roots[0]
    nodes = first_cell.shape[0]
    most = np.zeros(nodes, np.int64)
    for node in range(nodes - 1, -1, -1):
        last_cell = first_cell[node] + across[2 * node] * across[2 * node + 1]
        for cell in range(first_cell[node], last_cell):
            head = HEAD * cell
            end = np.int64(heads[head + END])
            found = np.int64(heads[head + PARTIAL]) - heads[head + FULL]
            if end >= 0:
                found += end - heads[head + PARTIAL]
            elif node < ~end < nodes:
                found += most[~end]
            else:
                return -1
            most[node] = max(most[node], found)
    return most[:roots].sum()
