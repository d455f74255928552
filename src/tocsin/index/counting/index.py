"""Counting behind the protocol of indexes; see the package for what it is."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tocsin.index.array_index import ArrayIndex
from tocsin.index.counting.building import build_layout
from tocsin.index.counting.layout import Layout
from tocsin.index.counting.matching import propose
from tocsin.index.counting.validation import check_layout
from tocsin.index.protocol import Summary
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch


class Counting(ArrayIndex):
    """Interval lists for each attribute, and counters."""

    name: ClassVar[str] = "counting"
    version: ClassVar[int] = 2

    layout_class = Layout
    summary = Summary(
        holds="every predicate under its attribute, and a counter for each conjunction",
        cost="a nanosecond or more per predicate that it satisfies",
        suits="comparison with `keyed`: two-phase matching",
        slow_when="ranges overlap; one event at a time",
    )

    def proves_all(self) -> bool:
        """Tell whether all conjunctions are intervals."""
        return bool((self.layout.candidate >= 0).all())

    @classmethod
    def build_layout(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Layout:
        """Index every predicate under its attribute."""
        return build_layout(conjunctions, len(floats))

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose the conjunctions whose counters come to zero; see `Index.candidates`."""
        return propose(self.layout, batch, offsets, out)

    def validate(self, attributes: int) -> None:
        """Raise unless no event can count more predicates of a conjunction than it needs."""
        check_layout(self.layout, self.conjunctions.size)
