"""Rules added one at a time since the last segment was built from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.merging import exhaustive_segment
from tocsin.engine.segment import (
    NO_THRESHOLDS,
    LateMetadata,
    LiveSegment,
    RuleMetadata,
    Segment,
    Settings,
    none_removed,
    thresholds,
)
from tocsin.model.condition import NormalForm
from tocsin.model.conjunctions import ConjunctionBuilder, scores, select
from tocsin.model.residuals import Residuals, concatenate_residuals


class NewRule(NamedTuple):
    """One rule to add, already validated."""

    id: Any
    where: str
    conjunctions: NormalForm
    residuals: Residuals | None
    settings: Settings
    payload_schema: pa.Schema  # the columns of all rules, including this one


class PendingRules:
    """Rules added one at a time since the last version."""

    def __init__(self) -> None:
        self.builder = ConjunctionBuilder()
        self.positions: list[int] = []
        self.ids: list[Any] = []
        self.where: list[str] = []
        self.settings: list[Settings] = []
        self.residuals: list[Residuals | None] = []
        self.place_of: dict[Any, int] = {}  # by id, without removed rules
        self._sealed: LiveSegment | None = None

    def append(self, position: int, rule: NewRule) -> None:
        """Append a rule."""
        self._sealed = None
        self.builder.add(position, rule.conjunctions, rule.settings.weights, rule.settings.score)
        self.positions.append(position)
        self.ids.append(rule.id)
        self.where.append(rule.where)
        self.settings.append(rule.settings)
        self.residuals.append(rule.residuals and rule.residuals.of_rule(position))
        self.place_of[rule.id] = len(self.ids) - 1

    def remove(self, place: int) -> tuple[Any, int]:
        """Remove the rule at a place; return what `truncate` takes to restore it."""
        self._sealed = None
        id_ = self.ids[place]
        return id_, self.place_of.pop(id_)

    def sizes(self) -> tuple[int, list[int]]:
        """Return the number of rules and the sizes of the builder; see `truncate`."""
        return len(self.ids), self.builder.sizes()

    def truncate(self, sizes: tuple[int, list[int]], undeleted: list[tuple[Any, int]]) -> None:
        """Drop the rules added since `sizes` were taken, and restore `undeleted` rules."""
        self._sealed = None
        count, builder_sizes = sizes
        for id_ in self.ids[count:]:
            self.place_of.pop(id_, None)
        self.place_of |= dict(undeleted)
        for column in (self.positions, self.ids, self.where, self.settings, self.residuals):
            del column[count:]
        self.builder.truncate(builder_sizes)

    def live_segments(
        self, id_type: pa.DataType | None, payload_schema: pa.Schema
    ) -> tuple[LiveSegment, ...]:
        """Return the rules that were not removed as a segment of recent rules, or nothing."""
        if not self.place_of:
            return ()
        if self._sealed is None:
            segment = self._build(id_type, payload_schema)
            self._sealed = LiveSegment("recent", segment, none_removed(segment))
        return (self._sealed,)

    def _build(self, id_type: pa.DataType | None, payload_schema: pa.Schema) -> Segment:
        conjunctions = self.builder.build()
        places = sorted(self.place_of.values())
        positions = np.array(self.positions, np.int32)
        if len(places) < len(positions):
            # An id that was removed and added again must be there once: see `IdIndex`.
            conjunctions = select(conjunctions, np.isin(conjunctions.rule, positions[places]))
            positions = positions[places]
        required = [self.settings[place].at_least or 0.0 for place in places]
        at_least = thresholds(np.array(required)) if any(required) else NO_THRESHOLDS
        residuals = concatenate_residuals([self.residuals[place] for place in places])

        # What a list holds at a place stays there. Without `self`, which holds the segment: there
        # would be a cycle, for the garbage collector, after every change.
        all_ids, all_where, all_settings = self.ids, self.where, self.settings

        def build() -> RuleMetadata:
            settings = [all_settings[place] for place in places]
            columns = {
                f.name: pa.array([each.payload.get(f.name) for each in settings], f.type)
                for f in payload_schema
            }
            return RuleMetadata(
                positions,
                pa.array(
                    [all_ids[place] for place in places],
                    pa.int64() if t.is_integer(id_type) else pa.large_string(),
                ),
                pa.array([all_where[place] for place in places], pa.large_string()),
                pa.table(columns),
                at_least,
                scores(np.array([each.score for each in settings], np.float64)),
                residuals,
            )

        late = LateMetadata(positions, at_least, residuals, build)
        return exhaustive_segment(late, conjunctions)
