"""Virtual construct intervals behind the protocol of indexes; the package tells what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from tocsin.index import unit_costs
from tocsin.index.array_index import ArrayIndex
from tocsin.index.constructs.intervals.building import build_layout
from tocsin.index.constructs.intervals.changes import insert_conjunctions, remove_conjunctions
from tocsin.index.constructs.intervals.layout import Layout
from tocsin.index.constructs.intervals.matching import propose, tally
from tocsin.index.constructs.intervals.published import (
    PublishedLayout,
    build_published,
    check_published,
    insert_published,
    propose_published,
    remove_published,
    tally_published,
)
from tocsin.index.constructs.intervals.validation import check_layout
from tocsin.index.costs import Cost, Sample
from tocsin.index.options import Option, check_options, choice, power_of_two
from tocsin.index.protocol import Summary
from tocsin.model.conjunctions import Conjunctions, concatenate
from tocsin.model.encoding import HIGHEST, NULL
from tocsin.model.keys import EventBatch, key_column


class Intervals(ArrayIndex):
    """Intervals of one attribute in the lists of virtual constructs."""

    name: ClassVar[str] = "intervals"
    version: ClassVar[int] = 3

    options: ClassVar[Mapping[str, Option]] = {
        "lattice": choice(
            "whether cells fit the rules, or lie between whole numbers as in the paper",
            "fitted",
            "published",
        ),
        "longest": power_of_two("cells of the longest construct, L", 4096),
        "decomposition": choice(
            "lengths of constructs: powers of two or all", "logarithmic", "simple"
        ),
    }
    layout_class: ClassVar[type[Any]] = Layout
    counts = True
    changes_in_place = True
    priced = True
    summary = Summary(
        holds="ranges over one attribute, cut into constructs: prepared pieces",
        cost=f"{2 * unit_costs.FIND:g} ns, and {unit_costs.COPY:g} ns per match",
        suits="price bands, time windows and other ranges over one attribute",
        slow_when="other attributes decide: every range around an event's value is then tested",
    )

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Self:
        """Build an index on the lattice that `options` name; see `Index.build`."""
        chosen = check_options(cls.name, cls.options, options)
        index: Any = PublishedIntervals if chosen["lattice"] == "published" else Intervals
        return index(conjunctions, index.build_layout(conjunctions, floats, **chosen))

    @classmethod
    def from_arrays(cls, conjunctions: Conjunctions, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index from its stored arrays, on the lattice that they are for."""
        if "on_point" in arrays and cls is Intervals:
            published: Any = PublishedIntervals
            return published.from_arrays(conjunctions, arrays)
        return super().from_arrays(conjunctions, arrays)

    def proves_all(self) -> bool:
        """Tell whether the intervals are all that the conjunctions say."""
        return bool(self.layout.proven.all())

    @classmethod
    def build_layout(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Any:
        """Index the intervals of the most selective attribute."""
        logarithmic = options["decomposition"] == "logarithmic"
        return build_layout(conjunctions, floats, options["longest"], logarithmic)

    @classmethod
    def cost(cls, sample: Sample) -> Cost:
        """Estimate what an event would cost; see `Index.cost`."""
        share, boxes, n = sample.sides[0], sample.boxes, sample.conjunctions.size
        alone = (boxes.low[n:] == NULL) & (boxes.high[n:] == HIGHEST)
        met = sample.total(share)
        nanoseconds = (
            2 * unit_costs.FIND
            + unit_costs.COPY * met
            + unit_costs.ACCEPT * sample.total(share[sample.unproven | ~alone])
        )
        meets = sample.in_words(met)
        return Cost(nanoseconds, f"an event meets {meets} on their most selective attribute", met)

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose the intervals that contain an event's value; see `Index.candidates`."""
        column = key_column(batch.keys, int(self.layout.attribute[0]))
        size = self.conjunctions.size
        return propose(self.layout, column, size, batch.first, batch.stop, offsets, out)

    def count(self, batch: EventBatch, counts: np.ndarray) -> None:
        """Add the number of matches to `counts`; see `Index.count`."""
        column = key_column(batch.keys, int(self.layout.attribute[0]))
        tally(self.layout, column, batch.first, counts)

    def validate(self, attributes: int) -> None:
        """Raise unless cells and constructs have lists, no longer than they may be."""
        check_layout(self.layout, self.conjunctions.size, attributes)

    def insert(self, more: Conjunctions) -> None:
        """Put further conjunctions onto the levels there are, numbered on.

        After many insertions outside the domain, or of quite other lengths, build again.
        """
        changed = insert_conjunctions(self.layout, more, self.conjunctions.size)
        self.become(concatenate([self.conjunctions, more]), changed)

    def remove(self, numbers: np.ndarray) -> None:
        """Take conjunctions out of all lists; their numbers stay theirs."""
        size = self.conjunctions.size
        changed = remove_conjunctions(self.layout, size, self.check_removed(numbers))
        self.become(self.conjunctions, changed)


class PublishedIntervals(Intervals):
    """The same on the lattice of whole numbers; see `published`."""

    layout_class = PublishedLayout

    @classmethod
    def build_layout(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Any:
        """Index the intervals of the most selective attribute, expanded to whole numbers."""
        logarithmic = options["decomposition"] == "logarithmic"
        return build_published(conjunctions, floats, options["longest"], logarithmic)

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose the intervals that contain an event's value; see `Index.candidates`."""
        column = key_column(batch.keys, int(self.layout.attribute[0]))
        size = self.conjunctions.size
        return propose_published(self.layout, column, size, batch.first, batch.stop, offsets, out)

    def count(self, batch: EventBatch, counts: np.ndarray) -> None:
        """Add the number of matches to `counts`; see `Index.count`."""
        column = key_column(batch.keys, int(self.layout.attribute[0]))
        tally_published(self.layout, column, batch.first, counts)

    def validate(self, attributes: int) -> None:
        """Raise unless constructs have lists, no longer than they may be."""
        check_published(self.layout, self.conjunctions.size, attributes)

    def insert(self, more: Conjunctions) -> None:
        """Put further conjunctions onto the lattice there is, numbered on."""
        changed = insert_published(self.layout, more, self.conjunctions.size)
        self.become(concatenate([self.conjunctions, more]), changed)

    def remove(self, numbers: np.ndarray) -> None:
        """Take conjunctions out of all lists; their numbers stay theirs."""
        size = self.conjunctions.size
        changed = remove_published(self.layout, size, self.check_removed(numbers))
        self.become(self.conjunctions, changed)
