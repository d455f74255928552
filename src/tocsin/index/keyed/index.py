"""Keyed conjunctions behind the protocol of indexes; see the package for what they are."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tocsin.index import unit_costs
from tocsin.index.array_index import ArrayIndex
from tocsin.index.costs import Cost, Sample, about
from tocsin.index.finish import BestRules, EventWeights
from tocsin.index.keyed.building import expected, filed
from tocsin.index.keyed.layout import Layout
from tocsin.index.keyed.matching import propose
from tocsin.index.keyed.topk import rank
from tocsin.index.keyed.validation import check_layout
from tocsin.index.protocol import Summary
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch


class Keyed(ArrayIndex):
    """Conjunctions filed under their most telling predicate."""

    name: ClassVar[str] = "keyed"
    version: ClassVar[int] = 1

    layout_class = Layout
    supports_ranges = True
    prunes = True
    priced = True
    summary = Summary(
        holds="each conjunction under its most selective predicate, in blocks of eight",
        cost="60 ns a value that it has, and 6 ns for eight conjunctions under these",
        suits="rules that test a few of many attributes; the k best of them; events with ranges",
        slow_when="ranges on the same attributes are wide and overlap",
    )

    def proves_all(self) -> bool:
        """Tell whether no predicate is left to accept."""
        return bool((self.layout.candidate >= 0).all())

    @classmethod
    def build_layout(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Layout:
        """Code all predicates, choose keys, sort."""
        return filed(conjunctions, len(floats))

    @classmethod
    def cost(cls, sample: Sample) -> Cost:
        """Estimate what an event would cost; see `Index.cost`."""
        present, looked = expected(sample.conjunctions, len(sample.floats))
        looked *= sample.factor
        find, test = unit_costs.FIND, unit_costs.TEST
        has = about(present, "of the attributes tested")
        reason = f"an event has {has}, and looks at {sample.in_words(looked)} under its values"
        return Cost(find + 2 * find * present + test * looked, reason)

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose what the key, the second and the other coded predicates let through."""
        return propose(self.layout, batch, self.conjunctions.size, offsets, out)

    def validate(self, attributes: int) -> None:
        """Raise unless shelves, runs and blocks are sound, and no event finds an entry twice."""
        check_layout(self.layout, self.conjunctions.size, attributes)

    def best(
        self, batch: EventBatch, weights: EventWeights, removed: np.ndarray, best: BestRules
    ) -> tuple[int, int]:
        """Merge what holds into the lists of the k best; see `PruningIndex.best`."""
        seen = np.zeros(2, np.int64)
        rank(self.layout, self.conjunctions, batch, weights, removed, best, seen)
        return int(seen[0]), int(seen[1])
