"""Insertion and removal: entries of a batch are spliced into all lists, or cut out of them.

Levels stay as they were built. All lists are moved once, so a batch costs what copying the index
costs.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.constructs.interval_lists import count_at_most, decompose_intervals
from tocsin.index.constructs.intervals.building import bound_conjunctions, number_candidates
from tocsin.index.constructs.intervals.layout import Layout
from tocsin.index.constructs.lattice import Levels, assign_levels, find_cells
from tocsin.index.posting_lists import delete_entries, find_entries, insert_entries, shift_offsets
from tocsin.jit import Int32s, Int64Out, Int64s, kernel
from tocsin.model.conjunctions import Conjunctions


def insert_conjunctions(g: Layout, more: Conjunctions, before: int) -> dict[str, np.ndarray]:
    """Return the fields that change when conjunctions are added, numbered from `before` on."""
    low, high, exact = bound_conjunctions(more, int(g.attribute[0]))
    ids = number_candidates(exact, before)
    levels = Levels(**{name: getattr(g, name) for name in Levels._fields})
    level = assign_levels(levels, low, high)
    first, last = np.empty(more.size, np.int64), np.empty(more.size, np.int64)
    find_cells(levels, level, low, high, first, last)
    several = first < last
    return {
        "proven": g.proven & bool(exact.all()),
        **_insert_sorted(g, "start", several, first, ids, start_key=low),
        **_insert_sorted(g, "end", several, last, ids, end_key=high),
        **_insert_sorted(g, "inside", ~several, first, ids, inside_low=low, inside_high=high),
        **_insert_pieces(g, levels, level, first, last, ids),
    }


def remove_conjunctions(g: Layout, size: int, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Return the fields that change when some of the `size` conjunctions are taken out."""
    changed = {}
    for name, columns in (
        ("start", ["start_id", "start_key"]),
        ("end", ["end_id", "end_key"]),
        ("inside", ["inside_id", "inside_low", "inside_high"]),
        ("piece", ["piece_id"]),
    ):
        places = find_entries(getattr(g, f"{name}_id"), size, numbers)
        changed[name] = shift_offsets(getattr(g, name), places)
        changed |= {column: delete_entries(getattr(g, column), places) for column in columns}
    return changed


def _insert_sorted(
    g: Layout,
    name: str,
    chosen: np.ndarray,
    cell: np.ndarray,
    ids: np.ndarray,
    **columns: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return lists by cell with the `chosen` intervals; they are sorted by the first column."""
    offsets, (sorted_by, *_) = getattr(g, name), columns
    key = columns[sorted_by]
    picked = np.flatnonzero(chosen)
    picked = picked[np.lexsort((key[picked], cell[picked]))]
    places = np.empty(len(picked), np.int64)
    find_places(offsets, getattr(g, sorted_by), cell[picked], key[picked], places)
    columns = {f"{name}_id": ids, **columns}
    changed = {
        column: insert_entries(getattr(g, column), places, entries[picked])
        for column, entries in columns.items()
    }
    counts = np.bincount(cell[picked], minlength=len(offsets) - 1)
    changed[name] = offsets + np.concatenate([[0], np.cumsum(counts)])
    return changed


@kernel
def find_places(offsets: Int32s, keys: Int64s, cell: Int64s, key: Int64s, at: Int64Out) -> None:
    """Write where further keys belong in the lists of their cells, which are ascending."""
    for i in range(cell.shape[0]):
        begin, stop = np.int64(offsets[cell[i]]), np.int64(offsets[cell[i] + 1])
        at[i] = begin + count_at_most(keys, begin, stop, key[i])


def _insert_pieces(
    g: Layout,
    levels: Levels,
    level: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    ids: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the lists of constructs with further intervals, at the end of each list."""
    logarithmic = bool((g.per_cell != g.longest).any()) or int(g.longest.max()) == 1
    counts = np.zeros(len(g.piece) - 1, np.int64)
    decompose_intervals(levels, level, first, last, logarithmic, ids, counts, np.empty(0, np.int32))
    pieces = np.empty(int(counts.sum()), np.int32)
    if len(pieces):
        cursor = np.cumsum(counts) - counts
        decompose_intervals(levels, level, first, last, logarithmic, ids, cursor, pieces)
    return {
        "piece": g.piece + np.concatenate([[0], np.cumsum(counts)]),
        "piece_id": insert_entries(g.piece_id, np.repeat(g.piece[1:], counts), pieces),
    }
