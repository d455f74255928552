"""What every index promises.

An index is built over conjunctions, and the engine never changes one. Given the keys of events, it
*proposes* candidates: conjunctions that may hold. It may miss none. A candidate is written as its
number c where the index has proven every predicate of it, and as ~c (negative) where it has not. No
conjunction is proposed twice for one event. Negation, OR, removal and ids are no index's business.

What an index can do besides is declared by its class: `supports_ranges`, `counts`, `prunes`
(then it is a `PruningIndex`), `learns` (a `LearningIndex`), `changes_in_place` (a `ChangingIndex`)
and `priced`. What can be varied about it is declared in `options`; what documents say of it is its
`summary`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from tocsin.index.costs import Cost, Sample
from tocsin.index.finish import BestRules, EventWeights
from tocsin.index.options import Option
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch


class Summary(NamedTuple):
    """An index in the tables of documents, a clause each; see `scripts/index_tables.py`."""

    holds: str
    cost: str  # of an event, about
    suits: str  # which rules
    slow_when: str


class Index(Protocol):
    """Conjunctions laid out so that an event finds its candidates fast."""

    name: ClassVar[str]
    version: ClassVar[int]  # of its arrays: raised when they change, and stored ones are rebuilt
    supports_ranges: ClassVar[bool]  # events may have ranges in place of values
    counts: ClassVar[bool]  # `count` is faster than proposing candidates
    prunes: ClassVar[bool]  # finds the k best without looking at all that match
    changes_in_place: ClassVar[bool]  # has `insert` and `remove`
    learns: ClassVar[bool]  # has `tuned`
    priced: ClassVar[bool]  # has `cost`, so that `auto` may choose it
    options: ClassVar[Mapping[str, Option]]  # what can be varied
    summary: ClassVar[Summary]
    conjunctions: Conjunctions
    proven: bool  # no candidate is ever left for accept to evaluate

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Self:
        """Lay out conjunctions; `floats` tells per attribute whether its keys are floats' bits.

        Raise a RuleError for an option that the class does not declare, or a value not allowed.
        """
        ...

    @classmethod
    def cost(cls, sample: Sample) -> Cost | None:
        """Estimate what an event would cost with the sampled conjunctions; None if not suitable.

        Only for an index that declares `priced`.
        """
        ...

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose candidates for the events of a batch, as far as `out` has room.

        Writing starts at `offsets[0]`; the candidates of the i-th event of the batch lie from
        `offsets[i]` to `offsets[i + 1]`. An event is begun only if as many places are
        left as there are conjunctions. Return the first event not answered.
        """
        ...

    def count(self, batch: EventBatch, counts: np.ndarray) -> None:
        """Add to `counts[i]` how many conjunctions hold for the i-th event of a batch.

        Only for an index that declares `counts` and is `proven`, and events without ranges.
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


class PruningIndex(Index, Protocol):
    """An index that finds the k best without looking at all that match."""

    def best(
        self, batch: EventBatch, weights: EventWeights, removed: np.ndarray, best: BestRules
    ) -> tuple[int, int]:
        """Merge what holds into the lists of the k best.

        The lists may hold rules of other indexes already, whose scores prune here too. `weights`
        are those of the batch's events; `removed` has a bit per conjunction, as in `finish`, or is
        empty. Only what is strictly worse may be passed over: a tie goes to the rule added first.
        Return how many candidates were looked at and how many were evaluated.
        """
        ...


class LearningIndex(Index, Protocol):
    """An index that can be laid out anew by what events look like."""

    def tuned(self, batch: EventBatch) -> Self:
        """Return an index over the same conjunctions that has learnt from events."""
        ...


class ChangingIndex(Index, Protocol):
    """An index that conjunctions can be added to and taken out of.

    The engine does not use it: it has one way of changing for all indexes.
    """

    def insert(self, more: Conjunctions) -> None:
        """Add conjunctions, numbered on from those there are."""
        ...

    def remove(self, numbers: np.ndarray) -> None:
        """Take conjunctions out; their numbers stay theirs."""
        ...
