"""The protocols of indexes.

An index is built over conjunctions, and the engine never changes it. Given the keys of events, it
*proposes* candidates: conjunctions that may hold. It must not miss any that hold. A candidate is
written as its number c if the index has proven all of its predicates, and as ~c (negative) if not.
No conjunction is proposed twice for one event. Indexes do not deal with negation, OR, removals and
ids.

An index class declares its further capabilities: `supports_ranges`, `counts`, `prunes` (then it is
a `PruningIndex`), `learns` (a `LearningIndex`), `changes_in_place` (a `ChangingIndex`) and
`priced`. It declares its parameters in `options`, and its description for documents in `summary`.
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
    """The description of an index in the tables of documents; see `scripts/index_tables.py`."""

    holds: str
    cost: str  # of an event, approximately
    suits: str  # which rules
    slow_when: str


class Index(Protocol):
    """Conjunctions laid out so that an event finds its candidates fast."""

    name: ClassVar[str]
    version: ClassVar[int]  # of its arrays: raised when they change; stored ones are then rebuilt
    supports_ranges: ClassVar[bool]  # events may have ranges instead of values
    counts: ClassVar[bool]  # `count` is faster than proposing candidates
    prunes: ClassVar[bool]  # finds the k best rules without visiting all matches
    changes_in_place: ClassVar[bool]  # has `insert` and `remove`
    learns: ClassVar[bool]  # has `tuned`
    priced: ClassVar[bool]  # has `cost`, so that `auto` may choose it
    options: ClassVar[Mapping[str, Option]]  # the parameters of `build`
    summary: ClassVar[Summary]
    conjunctions: Conjunctions
    proven: bool  # all candidates are proven: accept has nothing to evaluate

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Self:
        """Build an index; `floats` is whether each attribute's keys are the bits of floats.

        Raise a RuleError for an undeclared option or a value that is not allowed.
        """
        ...

    @classmethod
    def cost(cls, sample: Sample) -> Cost | None:
        """Estimate the cost of an event for the sampled conjunctions; None if unsuitable.

        Only for an index that declares `priced`.
        """
        ...

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose candidates for the events of a batch, as far as `out` has room.

        Writing starts at `offsets[0]`; the candidates of the i-th event of the batch are in
        `out[offsets[i]:offsets[i + 1]]`. An event is processed only if `out` has room for all
        conjunctions. Return the first event not processed.
        """
        ...

    def count(self, batch: EventBatch, counts: np.ndarray) -> None:
        """Add the number of conjunctions that hold for the i-th event of a batch to `counts[i]`.

        Only for an index that declares `counts` and is `proven`, and events without ranges.
        """
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of the index's own arrays, without the conjunctions."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the index's own arrays by name, to store."""
        ...

    @classmethod
    def from_arrays(cls, conjunctions: Conjunctions, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index from its stored `arrays`.

        Raise a StoreError if one is missing or of another type. Values are not checked.
        """
        ...

    def validate(self, attributes: int) -> None:
        """Raise a StoreError unless the arrays are safe for the kernels that match.

        Safe means that no kernel reads or writes out of bounds, or runs for ever: offsets and
        numbers are in range, paths end, and no event has more candidates than there are
        conjunctions. Whether matches are correct is not checked. The conjunctions are already
        validated. `attributes` is the number of attributes of the schema.
        """
        ...


class PruningIndex(Index, Protocol):
    """An index that finds the k best rules without visiting all matches."""

    def best(
        self, batch: EventBatch, weights: EventWeights, removed: np.ndarray, best: BestRules
    ) -> tuple[int, int]:
        """Merge the conjunctions that hold into the lists of the k best.

        The lists may already hold rules of other indexes, whose scores prune here too. `weights`
        are those of the batch's events; `removed` has a bit per conjunction, as in `finish`, or is
        empty. Only strictly worse scores may be pruned: a tie goes to the rule added first. Return
        the numbers of candidates visited and evaluated.
        """
        ...


class LearningIndex(Index, Protocol):
    """An index that can be rebuilt to suit sample events."""

    def tuned(self, batch: EventBatch) -> Self:
        """Return an index over the same conjunctions, tuned to events."""
        ...


class ChangingIndex(Index, Protocol):
    """An index that supports adding and removing conjunctions in place.

    The engine does not use it: it handles changes in the same way for all indexes.
    """

    def insert(self, more: Conjunctions) -> None:
        """Add conjunctions; their numbers follow the existing ones."""
        ...

    def remove(self, numbers: np.ndarray) -> None:
        """Remove conjunctions; their numbers are not reused."""
        ...
