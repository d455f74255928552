"""What the grid and the n-tree have in common behind the protocol of indexes."""

from __future__ import annotations

import numpy as np

from tocsin.index.appending import AppendedConjunctions
from tocsin.index.array_index import ArrayIndex
from tocsin.index.cells.changes import ChangingCells, are_many
from tocsin.index.cells.layout import Cells
from tocsin.index.cells.matching import propose, tally
from tocsin.index.cells.validation import check_cells
from tocsin.index.plane import build_boxes
from tocsin.model.conjunctions import Conjunctions, take
from tocsin.model.keys import EventBatch, key_column


class CellIndex(ArrayIndex):
    """Conjunctions as boxes in the cells of a plane."""

    layout_class = Cells
    counts = True
    changes_in_place = True

    def __init__(self, conjunctions: Conjunctions, layout: Cells):
        super().__init__(conjunctions, layout)
        self._cells: ChangingCells | None = None  # from the first change on
        self._appended: AppendedConjunctions | None = None  # from the first insertion on

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

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the layout by name: a compact copy if the index has changed."""
        return (self._cells.compact() if self._cells else self.layout)._asdict()

    def validate(self, attributes: int) -> None:
        """Raise unless nodes have cells, and cells have lists, no longer than they may be."""
        check_cells(self.layout, self.conjunctions.size, attributes)

    def insert(self, more: Conjunctions) -> None:
        """Add conjunctions, numbered on, to the cells there are (thesis 3.3.6).

        The cost of each grows with the number of cells that it covers. (The first change copies all
        lists, once.) A tree splits leaves that become too long. A grid gets no further cells: after
        many insertions into empty regions, build it again.
        """
        if more.size == 0:
            return
        boxes = build_boxes(more, self.layout.attribute, self.layout.floats)
        cells = self._changing()
        long = cells.insert(boxes, self.conjunctions.size)
        if self._appended is None:
            self._appended = AppendedConjunctions(self.conjunctions)
        self.conjunctions = self._appended.append(more)
        self.layout = cells.layout
        self.proven = self.proves_all()
        if len(long):
            self.split_leaves(cells, long)

    def split_leaves(self, cells: ChangingCells, long: np.ndarray) -> None:
        """Split cells whose partial list has become too long; a grid leaves them as they are."""

    def remove(self, numbers: np.ndarray) -> None:
        """Take conjunctions out of all lists; their numbers stay theirs.

        One costs about as much as to insert it. Numbers that are removed already are ignored.
        `proven` stays as it is, even if all that is left is proven.
        """
        numbers, size = self.check_removed(numbers), self.conjunctions.size
        if not len(numbers):
            return
        cells = self._changing()
        if are_many(numbers, size):
            gone = np.zeros(size, np.uint8)
            gone[numbers] = 1
            cells.remove_many(gone)
        else:
            removed = take(self.conjunctions, numbers)
            boxes = build_boxes(removed, self.layout.attribute, self.layout.floats)
            cells.remove(boxes, numbers)
        self.layout = cells.layout

    def _changing(self) -> ChangingCells:
        if self._cells is None:
            self._cells = ChangingCells(self.layout)
        return self._cells
