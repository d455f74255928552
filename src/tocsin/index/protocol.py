"""What every index promises.

An index is built over conjunctions, and the engine never changes one. (Some offer `insert(more)`
and `remove(numbers)` besides.) Asked with the keys of events, it *proposes* candidates:
conjunctions that may hold. It may miss none. A candidate is written as its number c where the index
has proven every predicate of it, and as ~c (negative) where it has not. No conjunction is proposed
twice for one event. Negation, OR, removal and ids are no index's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol, Self

import numpy as np

from tocsin.index.finish import EventWeights
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import Keys


class Index(Protocol):
    """Conjunctions laid out so that an event finds its candidates fast."""

    name: ClassVar[str]
    version: ClassVar[int]  # of its arrays: raised when they change, and stored ones are rebuilt
    supports_ranges: ClassVar[bool]  # whether it may be asked with events that have ranges
    conjunctions: Conjunctions
    proven: bool  # no candidate is ever left for accept to evaluate

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray) -> Self:
        """Lay out conjunctions; `floats` tells per attribute whether its keys are floats' bits."""
        ...

    def candidates(
        self, keys: Keys, width: int, first: int, stop: int, offsets: np.ndarray, out: np.ndarray
    ) -> int:
        """Propose candidates for the events from `first` up to `stop`, as far as `out` has room.

        `width` is the number of attributes of the schema, which may have grown.
        Writing starts at `offsets[0]`; the candidates of the i-th event asked lie from
        `offsets[i]` to `offsets[i + 1]`. An event is begun only if as many places are
        left as there are conjunctions. Return the first event not answered.
        """
        ...

    def count(self, keys: Keys, width: int, counts: np.ndarray) -> None:
        """Add to `counts` how many conjunctions hold for each event.

        Asked only if `proven`, and not for events that have ranges.
        """
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of the index's own arrays, besides the conjunctions."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the index's own arrays by name, to be stored."""
        ...

    @classmethod
    def from_arrays(cls, conjunctions: Conjunctions, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index whose `arrays` these are.

        Raise a StoreError if one is missing or of another type. What they hold is not looked at.
        """
        ...

    def validate(self, attributes: int) -> None:
        """Raise a StoreError unless the arrays are as the kernels that match rely on.

        Then no kernel reads or writes outside of an array, or runs for ever, whatever the values:
        offsets and numbers are in range, paths come to an end, and no event has more candidates
        than there are conjunctions. That answers are right is not looked at. The conjunctions are
        valid, and the schema has so many `attributes`.
        """
        ...


class Ranked(Index, Protocol):
    """An index that finds the k best without looking at all that match."""

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
        """Merge what holds into the lists of the k best of `events` events from `first` on.

        The lists are those of `finish.keep_best`: that of the i-th event asked lies at i * k,
        best first, `sizes[i]` long, and may hold rules of other indexes already, whose scores
        prune here too. `before` is the row of `weights` for the first event; `removed` has a
        bit per conjunction, as in `finish`, or is empty; `single` tells that every rule is one
        conjunction. Only what is strictly worse may be passed over: a tie goes to the rule
        added first.
        Return how many candidates were looked at and how many were evaluated.
        """
        ...
