"""Keyed conjunctions behind the protocol of indexes; see the package for what they are."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from tocsin.index.array_index import ArrayIndex
from tocsin.index.finish import EventWeights
from tocsin.index.keyed.building import filed
from tocsin.index.keyed.layout import Layout
from tocsin.index.keyed.matching import propose
from tocsin.index.keyed.topk import rank
from tocsin.index.keyed.validation import check_layout
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import Keys


class Keyed(ArrayIndex):
    """Conjunctions filed under their most telling predicate."""

    name: ClassVar[str] = "keyed"
    version: ClassVar[int] = 1

    layout_class = Layout
    supports_ranges = True

    def proves_all(self) -> bool:
        """Tell whether no predicate is left to accept."""
        return bool((self.layout.candidate >= 0).all())

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray) -> Self:
        """Code all predicates, choose keys, sort."""
        return cls(conjunctions, filed(conjunctions, len(floats)))

    def candidates(
        self, keys: Keys, width: int, first: int, stop: int, offsets: np.ndarray, out: np.ndarray
    ) -> int:
        """Propose what the key, the second and the other coded predicates let through."""
        return propose(self.layout, keys, self.conjunctions.size, first, stop, offsets, out)

    def validate(self, attributes: int) -> None:
        """Raise unless shelves, runs and blocks are sound, and no event finds an entry twice."""
        check_layout(self.layout, self.conjunctions.size, attributes)

    def best(
        self,
        keys: Keys,
        width: int,
        first: int,
        events: int,
        before: int,
        removed: np.ndarray,
        single: bool,
        weights: EventWeights,
        k: int,
        sizes: np.ndarray,
        rules: np.ndarray,
        scores: np.ndarray,
    ) -> tuple[int, int]:
        """Merge what holds into the lists of the k best; see `Ranked.best`."""
        seen = np.zeros(2, np.int64)
        rank(
            self.layout, self.conjunctions, removed, single, keys, width, first, events, before,
            weights, k, sizes, rules, scores, seen,
        )  # fmt: skip
        return int(seen[0]), int(seen[1])
