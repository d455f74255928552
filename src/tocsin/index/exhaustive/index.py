"""Exhaustive search behind the protocol of indexes; see the package for what it is."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from tocsin.index import unit_costs
from tocsin.index.array_index import ArrayIndex
from tocsin.index.costs import Cost, Sample, counted
from tocsin.index.exhaustive.building import build_layout
from tocsin.index.exhaustive.estimate import estimate_work
from tocsin.index.exhaustive.layout import Layout
from tocsin.index.exhaustive.matching import propose, propose_ranges, tally
from tocsin.index.protocol import Summary
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_offsets,
    check_within,
    require,
)

_ANY_FLOATS = np.empty(0, np.uint8)


class Exhaustive(ArrayIndex):
    """Looks at every conjunction, in blocks of contiguous bounds."""

    name: ClassVar[str] = "exhaustive"
    version: ClassVar[int] = 1

    layout_class = Layout
    supports_ranges = True
    counts = True
    priced = True
    summary = Summary(
        holds="bounds, in blocks of conjunctions that test the same attributes",
        cost=f"{unit_costs.LOOK:g} ns per conjunction",
        suits="up to a few hundred rules; as the reference for the other indexes",
        slow_when="there are many rules",
    )

    def proves_all(self) -> bool:
        """Tell whether all conjunctions are intervals."""
        return bool((self.layout.candidate >= 0).all())

    @classmethod
    def build(
        cls, conjunctions: Conjunctions, floats: np.ndarray = _ANY_FLOATS, **options: Any
    ) -> Self:
        """Lay out conjunctions. Keys are compared as they are: `floats` may be left out."""
        return super().build(conjunctions, floats, **options)

    @classmethod
    def build_layout(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Layout:
        """Group conjunctions into blocks."""
        return build_layout(conjunctions)

    @classmethod
    def cost(cls, sample: Sample) -> Cost:
        """Estimate what an event would cost; see `Index.cost`."""
        n = sample.represented
        work = estimate_work(sample)
        looks = counted(n, "conjunction") if work.looked > 0.9 * n else sample.in_words(work.looked)
        nanoseconds = (
            unit_costs.BLOCK * work.blocks
            + unit_costs.LOOK * work.looked
            + unit_costs.LOOK_TWICE * work.again
            + unit_costs.ACCEPT * work.unproven
        )
        return Cost(nanoseconds, f"an event looks at {looks}", work.candidates)

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose what the blocks do not rule out; see `Index.candidates`."""
        search = propose_ranges if batch.keys.has_ranges else propose
        return search(self.layout, batch, offsets, out)

    def count(self, batch: EventBatch, counts: np.ndarray) -> None:
        """Add the number of matches to `counts`; see `Index.count`."""
        tally(self.layout, batch, counts)

    def validate(self, attributes: int) -> None:
        """Raise unless blocks share out the conjunctions, and each test has its bounds."""
        g, n = self.layout, self.conjunctions.size
        blocks, tests = len(g.block) - 1, len(g.attribute)
        check_offsets("block", g.block, blocks, n)
        check_offsets("tests", g.tests, blocks, tests)
        check_lengths(g, tests, "least", "greatest", "bounds")
        check_lengths(g, len(g.low), "high")
        check_lengths(g, n, "candidate")
        check_within("attribute", g.attribute, 0, attributes)
        sizes = np.repeat(np.diff(g.block), np.diff(g.tests))
        require(
            bool(((g.bounds >= 0) & (g.bounds <= len(g.low) - sizes)).all()),
            "a test must have bounds for all conjunctions of its block",
        )
        check_numbers("candidate", g.candidate, n)
