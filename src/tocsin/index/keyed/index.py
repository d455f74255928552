"""The class behind the protocol of indexes; see the package for what a keyed index is."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tocsin.index import unit_costs
from tocsin.index.array_index import ArrayIndex
from tocsin.index.costs import Cost, Sample, about
from tocsin.index.finish import BestRules, EventWeights
from tocsin.index.keyed.building import build_layout
from tocsin.index.keyed.estimate import estimate_work
from tocsin.index.keyed.layout import Layout
from tocsin.index.keyed.matching import propose
from tocsin.index.keyed.topk import find_best
from tocsin.index.keyed.validation import check_layout
from tocsin.index.protocol import Summary
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch


class Keyed(ArrayIndex):
    """Conjunctions under their most selective predicate, or under a few point predicates."""

    name: ClassVar[str] = "keyed"
    version: ClassVar[int] = 4

    layout_class = Layout
    supports_ranges = True
    prunes = True
    priced = True
    summary = Summary(
        holds="each conjunction under its most selective predicate, or under the combinations of "
        "up to three point predicates, in blocks of eight",
        cost=f"{unit_costs.CODE:g} ns per column (60 ns per sparse value), {unit_costs.PROBE:g} ns "
        f"per key set, and {unit_costs.BLOCK:g} ns per eight conjunctions under its values",
        suits="equality, short lists and a range or two; rules that test a few of many attributes; "
        "the k best of them; events with ranges",
        slow_when="ranges on the same attributes are wide and overlap",
    )

    def proves_all(self) -> bool:
        """Return whether no predicate is left to accept."""
        return bool((self.layout.candidate >= 0).all())

    @classmethod
    def build_layout(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Layout:
        """Code all predicates, choose keys, and sort the entries into blocks."""
        return build_layout(conjunctions, len(floats))

    @classmethod
    def cost(cls, sample: Sample) -> Cost:
        """Estimate what an event would cost; see `Index.cost`."""
        work = estimate_work(sample)
        looked = sample.in_words(work.looked)
        has = about(work.values, "of the attributes tested")
        reason = f"an event has {has}, and looks at {looked} under its values"
        nanoseconds = (
            unit_costs.FIND
            + unit_costs.CODE * work.values
            + unit_costs.PROBE * work.probes
            + unit_costs.BLOCK * work.blocks
            + unit_costs.TEST * work.candidates
            + unit_costs.ACCEPT * work.unproven
        )
        return Cost(nanoseconds, reason, work.candidates)

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose conjunctions whose coded predicates all hold; see `Index.candidates`."""
        return propose(self.layout, batch, self.conjunctions.size, offsets, out)

    def validate(self, attributes: int) -> None:
        """Raise unless shelves, runs and blocks are sound, and no event finds an entry twice."""
        check_layout(self.layout, self.conjunctions.size, attributes)

    def best(
        self, batch: EventBatch, weights: EventWeights, removed: np.ndarray, best: BestRules
    ) -> tuple[int, int]:
        """Merge conjunctions that hold into the lists of the k best; see `PruningIndex.best`."""
        return find_best(self.layout, self.conjunctions, batch, weights, removed, best)
