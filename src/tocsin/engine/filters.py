"""Filters: the step between accept and finish, for what is no predicate on the line of keys.

Accept keeps the conjunctions whose predicates hold. A filter then drops those of rules that ask for
more: that the condition holds with some probability, or that a point is in a shape. Rules that
need a filter form parts of their own (`segment.separate_filtered`), and so the others keep the
shortcuts of `count` and `top`: an index that counts or prunes knows nothing of filters, so it must
not do so where one applies.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from tocsin.engine.locations import PartTests, keep_located
from tocsin.engine.probabilities.checks import work_message
from tocsin.engine.probabilities.ranges import Uncertainty
from tocsin.engine.probabilities.thresholds import require_probability
from tocsin.engine.probabilities.unions import MAX_WORK
from tocsin.errors import RuleError
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch, Keys
from tocsin.model.residuals import Residuals

_NO_PROBABILITIES = np.empty(0)


class Filter(Protocol):
    """A filter of the conjunctions of a part."""

    package: ClassVar[str]  # where its kernels are

    def applies(self, keys: Keys) -> bool:
        """Return whether it may drop what accept keeps for such events."""
        ...

    def keep(
        self,
        batch: EventBatch,
        uncertainty: Uncertainty | None,
        offsets: np.ndarray,
        accepted: np.ndarray,
    ) -> None:
        """Compact the accepted conjunctions of a batch in place to those that it keeps."""
        ...

    def uncertain_attributes(self, is_live: np.ndarray | None) -> set[int]:
        """Return the attributes whose densities it needs for the live conjunctions, all if None."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of its own arrays."""
        ...


class Thresholds:
    """Keeps the rules that an event with uncertain values is likely enough to satisfy."""

    package: ClassVar[str] = "tocsin.engine.probabilities"

    def __init__(self, conjunctions: Conjunctions, single: bool, at_least: np.ndarray):
        self._conjunctions = conjunctions
        self._single = single  # every rule has one conjunction
        self._at_least = at_least  # of each conjunction's rule; 0 is none

    def applies(self, keys: Keys) -> bool:
        """Return whether some value is uncertain; see `Filter.applies`."""
        return keys.has_ranges

    def keep(
        self,
        batch: EventBatch,
        uncertainty: Uncertainty | None,
        offsets: np.ndarray,
        accepted: np.ndarray,
    ) -> None:
        """Keep what is likely enough; see `Filter.keep`."""
        assert uncertainty is not None
        c = self._conjunctions
        excessive = require_probability(
            c, self._at_least, self._single, batch, uncertainty, MAX_WORK, offsets, accepted,
            _NO_PROBABILITIES,
        )  # fmt: skip
        if excessive >= 0:  # only in a store that someone has changed: see `check_work`
            first, stop = c.rule_span(c.rule[excessive])
            raise RuleError(work_message(stop - first))

    def uncertain_attributes(self, is_live: np.ndarray | None) -> set[int]:
        """Return what rules with a threshold test; see `Filter.uncertain_attributes`."""
        c, has_threshold = self._conjunctions, self._at_least > 0
        if is_live is not None:
            has_threshold &= is_live
        return set(c.attribute[np.repeat(has_threshold, np.diff(c.offsets))].tolist())

    @property
    def nbytes(self) -> int:
        """Bytes of the thresholds."""
        return self._at_least.nbytes


class Shapes:
    """Keeps the conjunctions whose points are in their shapes, or outside of them."""

    package: ClassVar[str] = "tocsin.engine.locations"

    def __init__(self, residuals: Residuals, tests: PartTests):
        self._shapes = residuals.shapes
        self._tests = tests

    def applies(self, keys: Keys) -> bool:
        """Return that it may drop any; see `Filter.applies`."""
        return True

    def keep(
        self,
        batch: EventBatch,
        uncertainty: Uncertainty | None,
        offsets: np.ndarray,
        accepted: np.ndarray,
    ) -> None:
        """Keep what is where it must be; see `Filter.keep`."""
        keep_located(self._tests, self._shapes, batch, offsets, accepted)

    def uncertain_attributes(self, is_live: np.ndarray | None) -> set[int]:
        """Return none: a coordinate with a range is unknown; see `Filter.uncertain_attributes`."""
        return set()

    @property
    def nbytes(self) -> int:
        """Bytes of what is arranged for the part."""
        return sum(each.nbytes for each in self._tests)
