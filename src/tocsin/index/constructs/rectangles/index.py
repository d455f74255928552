"""Virtual construct rectangles behind the protocol of indexes; the package tells what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tocsin.index import unit_costs
from tocsin.index.array_index import ArrayIndex
from tocsin.index.constructs.rectangles.building import build_layout
from tocsin.index.constructs.rectangles.changes import insert_conjunctions, remove_conjunctions
from tocsin.index.constructs.rectangles.lattice import count_runs_if_whole
from tocsin.index.constructs.rectangles.layout import Layout
from tocsin.index.constructs.rectangles.matching import propose, tally
from tocsin.index.constructs.rectangles.validation import check_layout
from tocsin.index.costs import Cost, Sample
from tocsin.index.options import Option, choice, flag, powers_of_two
from tocsin.index.protocol import Summary
from tocsin.model.conjunctions import Conjunctions, concatenate
from tocsin.model.keys import EventBatch, key_column


class Rectangles(ArrayIndex):
    """Boxes over two attributes in the lists of virtual constructs."""

    name: ClassVar[str] = "rectangles"
    version: ClassVar[int] = 3

    # `longest` and `hashed` are chosen by memory if they are not set.
    options: ClassVar[Mapping[str, Option]] = {
        "longest": powers_of_two(
            "cells along the longest side of a construct: L for both axes, or [Lx, Ly], where x is "
            "the attribute that comes first in the schema",
            256,
        ),
        "decomposition": choice(
            "whether the pieces of a box are disjoint, or of one size and may overlap (2.2.2)",
            "simple",
            "overlapped",
        ),
        "lattice": choice(
            "whether cells fit the boxes, or lie between whole numbers as in the paper",
            "fitted",
            "published",
        ),
        "hashed": flag("whether only activated constructs have lists (2.2.3)", None),
    }
    layout_class = Layout
    counts = True
    changes_in_place = True
    priced = True
    summary = Summary(
        holds="boxes over two attributes, cut into constructs: prepared pieces of a lattice",
        cost=f"{unit_costs.FIND:g} ns, {unit_costs.RUN:g} ns per run of constructs, and "
        f"{unit_costs.COPY:g} ns per match",
        suits="boxes that overlap heavily, with whole bounds such as cents, hours or pixels",
        slow_when="bounds are arbitrary floats: use `grid`",
    )

    def proves_all(self) -> bool:
        """Tell whether boxes cover whole cells, and none is found twice."""
        g = self.layout
        return bool(g.proven.all()) and not g.overlapped.any() and not g.published.any()

    @classmethod
    def build_layout(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Layout:
        """Index boxes over the two most selective attributes."""
        longest = options["longest"]
        sides = (longest, longest) if isinstance(longest, int) else longest and tuple(longest)
        return build_layout(
            conjunctions,
            floats,
            sides,
            overlapped=options["decomposition"] == "overlapped",
            hashed=options["hashed"],
            published=options["lattice"] == "published",
        )

    @classmethod
    def cost(cls, sample: Sample) -> Cost | None:
        """Estimate what an event would cost; None unless a lattice of whole numbers fits."""
        cover = count_runs_if_whole(sample.boxes)
        if cover is None:
            return None
        nanoseconds = (
            unit_costs.FIND
            + unit_costs.RUN * cover
            + unit_costs.COPY * sample.met
            + unit_costs.ACCEPT * sample.total(sample.areas[sample.unproven])
        )
        met = sample.in_words(sample.met)
        reason = f"an event meets {met}, whose bounds are whole numbers"
        return Cost(nanoseconds, reason, sample.met)

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose the lists of the constructs around an event; see `Index.candidates`."""
        x, y = (key_column(batch.keys, int(a)) for a in self.layout.attribute)
        size = self.conjunctions.size
        return propose(self.layout, x, y, size, batch.first, batch.stop, offsets, out)

    def count(self, batch: EventBatch, counts: np.ndarray) -> None:
        """Add the number of matches to `counts`; see `Index.count`."""
        x, y = (key_column(batch.keys, int(a)) for a in self.layout.attribute)
        tally(self.layout, x, y, batch.first, counts)

    def validate(self, attributes: int) -> None:
        """Raise unless constructs have lists, and no cell is in more boxes than there are."""
        check_layout(self.layout, self.conjunctions.size, attributes)

    def insert(self, more: Conjunctions) -> None:
        """Decompose further conjunctions on the lattice there is, numbered on.

        Boxes beyond the lattice lie in its rim; after many of those, build again.
        """
        changed = insert_conjunctions(self.layout, more, self.conjunctions.size)
        self.become(concatenate([self.conjunctions, more]), changed)

    def remove(self, numbers: np.ndarray) -> None:
        """Take conjunctions out of all lists; their numbers stay theirs."""
        size = self.conjunctions.size
        changed = remove_conjunctions(self.layout, size, self.check_removed(numbers))
        self.become(self.conjunctions, changed)
