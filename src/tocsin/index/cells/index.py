"""What the grid and the n-tree have in common behind the protocol of indexes."""

from __future__ import annotations

import numpy as np

from tocsin.index.array_index import ArrayIndex
from tocsin.index.cells.changes import insert_boxes, remove_conjunctions
from tocsin.index.cells.layout import Cells
from tocsin.index.cells.matching import propose, tally
from tocsin.index.cells.validation import check_cells
from tocsin.index.plane import build_boxes
from tocsin.model.conjunctions import Conjunctions, joined
from tocsin.model.keys import EventBatch, key_column


class CellIndex(ArrayIndex):
    """Conjunctions as boxes in the cells of a plane."""

    layout_class = Cells
    counts = True
    changes_in_place = True

    def proves_all(self) -> bool:
        """Tell whether the boxes are all that the conjunctions say."""
        return bool(self.layout.proven.all())

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose the full list of an event's cell and what its partial list lets through."""
        x, y = [key_column(batch.keys, a) for a in self.layout.attribute.tolist()]
        c, (_, _, first, stop) = self.conjunctions, batch
        return propose(self.layout, c, x, y, first, stop, offsets, out)

    def count(self, batch: EventBatch, counts: np.ndarray) -> None:
        """Add the number of matches to `counts`; see `Index.count`."""
        x, y = [key_column(batch.keys, a) for a in self.layout.attribute.tolist()]
        tally(self.layout, self.conjunctions, x, y, batch.first, counts)

    def validate(self, attributes: int) -> None:
        """Raise unless nodes have cells, and cells have lists, no longer than they may be."""
        check_cells(self.layout, self.conjunctions.size, attributes)

    def insert(self, more: Conjunctions) -> None:
        """Add conjunctions, numbered on, to the cells there are (thesis 3.3.6).

        All lists are moved once, so a batch costs what copying the index costs, and each of its
        conjunctions no more than its entries. Cells are not split: after many insertions into what
        was empty, build again.
        """
        boxes = build_boxes(more, self.layout.attribute, self.layout.floats)
        changed = insert_boxes(self.layout, boxes, self.conjunctions.size)
        self.become(joined([self.conjunctions, more]), changed)

    def remove(self, numbers: np.ndarray) -> None:
        """Take conjunctions out of all lists; their numbers stay theirs."""
        changed = remove_conjunctions(self.layout, self.conjunctions.size, numbers)
        self.become(self.conjunctions, changed)
