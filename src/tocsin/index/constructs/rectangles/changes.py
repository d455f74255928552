"""Insertion and removal (2.4): entries of a batch are spliced into all lists, or cut out of them.

The lattice stays as it was built. All lists are moved once, so a batch costs what copying the index
costs. Unlike the paper, removal does not decompose what it removes: it reads all ids.
"""

from __future__ import annotations

import numpy as np

from tocsin.index.constructs.rectangles.building import decompose, list_by_number
from tocsin.index.constructs.rectangles.hashing import hash_constructs
from tocsin.index.constructs.rectangles.lattice import Lattice, count_constructs, find_spans
from tocsin.index.constructs.rectangles.layout import Layout
from tocsin.index.plane import build_boxes
from tocsin.index.posting_lists import (
    check_entries,
    delete_entries,
    find_entries,
    insert_entries,
    shift_offsets,
)
from tocsin.model.conjunctions import Conjunctions


def insert_conjunctions(g: Layout, more: Conjunctions, before: int) -> dict[str, np.ndarray]:
    """Return the fields that change when conjunctions are added, numbered from `before` on."""
    boxes = build_boxes(more, g.attribute, g.floats)
    lattice = Lattice(**{name: getattr(g, name) for name in Lattice._fields})
    spans = find_spans(lattice, boxes)
    x, y = g.longest.tolist()
    numbers, ids = decompose(boxes, spans, (x, y), bool(g.overlapped[0]), int(g.cells[0]))
    check_entries(len(g.ids) + len(ids))
    ids = np.where(ids < 0, ids - before, ids + before).astype(np.int32)
    changed = _insert_hashed(g, numbers, ids) if len(g.hashed) else _insert_direct(g, numbers, ids)
    return {**changed, "proven": _are_proven(changed["ids"])}


def remove_conjunctions(g: Layout, size: int, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Return the fields that change when some of the `size` conjunctions are taken out."""
    places = find_entries(g.ids, size, numbers)
    ids = delete_entries(g.ids, places)
    return {"start": shift_offsets(g.start, places), "ids": ids, "proven": _are_proven(ids)}


def _are_proven(ids: np.ndarray) -> np.ndarray:
    return np.array([ids.min(initial=0) >= 0])


def _insert_direct(g: Layout, numbers: np.ndarray, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Return lists with further entries, at the end of each list."""
    order = np.argsort(numbers, kind="stable")
    counts = np.bincount(numbers, minlength=len(g.start) - 1)
    return {
        "start": g.start + np.concatenate([[0], np.cumsum(counts)]),
        "ids": insert_entries(g.ids, g.start[1:][numbers[order]], ids[order]),
    }


def _insert_hashed(g: Layout, numbers: np.ndarray, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Return a table and lists of all entries, old and new; the old ones get their numbers back."""
    # In a store that was tampered with, no construct may lead to a list: its number is beyond all.
    known = np.full(len(g.start) - 1, count_constructs(g.longest, g.cells))
    used = g.hashed >= 0
    known[g.list_of[used]] = g.hashed[used]
    numbers = np.concatenate([np.repeat(known, np.diff(g.start)), numbers])
    hashed, list_of, numbers, lists = hash_constructs(numbers)
    start, listed = list_by_number(numbers, np.concatenate([g.ids, ids]), lists)
    return {"hashed": hashed, "list_of": list_of, "start": start, "ids": listed}
