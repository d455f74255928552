"""Mutable rules: base, delta, removals and merges, the same for all indexes.

The base is immutable. Rules added since the last merge are in two small segments. The *delta* has
an index like the base. The *recent* rules, at most 1,024 of them or an eighth of the delta, are
searched exhaustively, so that adding one rule seldom rebuilds a large delta. Removed rules are bits
in a bitmap. A merge builds a new base from all live rules. It happens when the added rules reach an
eighth of the base, or half of the base has been removed. So each rule takes part in few merges, and
memory is released. This is the combined scheme of the thesis (2.6.5), for every index.

A change is visible once `seal` returns a `Version` with it. Until then, rules that are added one at
a time are kept in lists, and bits are set in place. So n changes between two matches cost O(n),
plus one copy of the bitmaps.

Positions number the rules in the order of addition, and are never reused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.ids import IdIndex
from tocsin.engine.planner import build_parts
from tocsin.engine.segment import (
    IndexedPart,
    LiveSegment,
    RuleMetadata,
    Segment,
    concatenate_metadata,
    none_removed,
    remove,
    thresholds,
)
from tocsin.engine.version import Version, can_be_id, find_many, plain_id, unknown_rule_error
from tocsin.errors import RuleError, UnknownRuleError
from tocsin.index.costs import EventSample
from tocsin.index.exhaustive.index import Exhaustive
from tocsin.index.protocol import LearningIndex
from tocsin.index.registry import INDEXES, check_index
from tocsin.jit import freeze
from tocsin.model.arrow import is_text, translate_errors
from tocsin.model.attributes import Attributes
from tocsin.model.categories import Categories, recode
from tocsin.model.condition import NormalForm
from tocsin.model.conjunctions import ConjunctionBuilder, Conjunctions, concatenate
from tocsin.model.events import Events
from tocsin.model.keys import EventBatch
from tocsin.model.tables import RuleTable

_SMALL = 1024  # added or removed rules that never cause a merge
_SHARE = 8  # a merge is due when an eighth of the base has been added
_MOST_POSITIONS = 2**31 - 1

ROLES = ("base", "delta", "recent")
_PENDING = -1
# Attributes that a change replaces as a whole.
_STATE = ("attributes", "categories", "next_position", "id_type", "payload_schema", "_last_version",
          "_segments", "_unshared", "_pending")  # fmt: skip


class NewRule(NamedTuple):
    """One rule to add, already validated."""

    id: Any
    where: str
    conjunctions: NormalForm
    weights: Mapping[int, float]  # by attribute; 1 if absent
    payload: Mapping[str, Any]
    payload_schema: pa.Schema  # the columns of all rules, including this one
    at_least: float  # the probability that the rule requires; 0 if none


class PendingRules:
    """Rules added one at a time since the last version."""

    def __init__(self) -> None:
        self.builder = ConjunctionBuilder()
        self.positions: list[int] = []
        self.ids: list[Any] = []
        self.where: list[str] = []
        self.weights: list[Mapping[int, float]] = []
        self.payload: list[Mapping[str, Any]] = []
        self.at_least: list[float] = []
        self.place_of: dict[Any, int] = {}  # by id, without removed rules

    def sizes(self) -> tuple[int, list[int]]:
        """Return the number of rules and the sizes of the builder; see `truncate`."""
        return len(self.ids), self.builder.sizes()

    def truncate(self, sizes: tuple[int, list[int]], undeleted: list[tuple[Any, int]]) -> None:
        """Drop the rules added since `sizes` were taken, and restore `undeleted` rules."""
        count, builder_sizes = sizes
        for id_ in self.ids[count:]:
            self.place_of.pop(id_, None)
        self.place_of |= dict(undeleted)
        columns = (
            self.positions, self.ids, self.where, self.weights, self.payload, self.at_least,
        )  # fmt: skip
        for column in columns:
            del column[count:]
        self.builder.truncate(builder_sizes)

    def live_segment(self, id_type: pa.DataType, payload_schema: pa.Schema) -> LiveSegment:
        """Return these rules as a segment of recent rules."""
        columns = {
            f.name: pa.array([p.get(f.name) for p in self.payload], f.type) for f in payload_schema
        }
        metadata = RuleMetadata(
            np.array(self.positions, np.int32),
            pa.array(self.ids, pa.int64() if t.is_integer(id_type) else pa.large_string()),
            pa.array(self.where, pa.large_string()),
            pa.table(columns),
            thresholds(np.array(self.at_least)),
        )
        segment = exhaustive_segment(metadata, self.builder.build())
        is_removed = np.ones(len(self.ids), bool)
        is_removed[list(self.place_of.values())] = False
        removed = none_removed(segment)
        if is_removed.any():
            removed = remove(segment, removed, np.flatnonzero(is_removed), in_place=True)
        return LiveSegment("recent", segment, removed)


class Draft:
    """Rules that can be changed, with the version sealed from them."""

    def __init__(self, attributes: Attributes, index: str, options: Mapping[str, Any]):
        check_index(index, options)
        self.attributes = attributes
        self.index = index
        self.options = dict(options)
        self.categories = Categories()
        self.next_position = 0
        self.id_type: pa.DataType | None = None
        self.payload_schema = pa.schema([])
        self._sealed: Version | None = None  # None after a change, until the next `seal`
        self._declared = 0  # columns of the schema when it was sealed
        self._last_version: Version | None = None  # the last version
        self._segments: dict[str, LiveSegment] = {}  # by role
        self._unshared: set[str] = set()  # roles of segments whose bitmaps no version shares
        self._pending = PendingRules()
        self._undeleted: list[tuple[Any, int]] = []  # pending rules removed by the current change
        self.size = 0  # number of live rules, updated when a change is complete

    @classmethod
    def from_version(
        cls, version: Version, attributes: Attributes, categories: Categories
    ) -> Draft:
        """Return a draft that starts from a version; it adds to `attributes` and `categories`."""
        draft = cls(attributes, version.index, version.options)
        draft.categories = categories
        draft.next_position = version.next_position
        draft.id_type, draft.payload_schema = version.id_type, version.payload_schema
        draft._segments = {live.role: live for live in version.segments}
        draft.size = len(version)
        return draft

    def sealed(self) -> Version | None:
        """Return the current rules as a version, or None if that takes a `seal`.

        It does after a change, and also once the schema has grown: whoever shares the schema can
        add to it without a change here.
        """
        version = self._sealed
        return version if self._declared == self.attributes.schema.declared else None

    def seal(self) -> Version:
        """Return the current rules as a version."""
        sealed = self.sealed()
        if sealed is None:
            declared = self.attributes.schema.declared
            self.attributes.update()
            self._freeze()
            sealed = Version(
                self.attributes,
                len(self.attributes),
                self.categories,
                len(self.categories),
                self.index,
                self.options,
                self._live_segments(),
                self.next_position,
                self.id_type,
                self.payload_schema,
            )
            self._unshared = set()
            self._sealed = self._last_version = sealed.inherit(self._last_version)
            self._declared = declared
        return sealed

    def _live_segments(self) -> tuple[LiveSegment, ...]:
        return tuple(self._segments[role] for role in ROLES if role in self._segments)

    # ------------------------------------------------------------ look

    def find(self, ids: Sequence[Any]) -> list[tuple[int, int] | None]:
        """Return the location of each id, as `remove` takes it, or None.

        A location is an owner (a segment's number, or the pending rules) and a place there.
        """
        plain = list(map(plain_id, ids))
        locations = find_many(self._live_segments(), plain, self.id_type)
        if self._pending.place_of:
            for i, id_ in enumerate(plain):
                if can_be_id(id_, self.id_type) and id_ in self._pending.place_of:
                    locations[i] = _PENDING, self._pending.place_of[id_]
        return locations

    def settings(
        self, location: tuple[int, int]
    ) -> tuple[Mapping[int, float], Mapping[str, Any], float]:
        """Return the weights (by attribute), payload and threshold of a rule at a location."""
        owner, place = location
        if owner == _PENDING:
            pending = self._pending
            return pending.weights[place], pending.payload[place], pending.at_least[place]
        segment = self._live_segments()[owner].segment
        return *segment.weights_and_payload(place), segment.threshold(place) or 0.0

    def has_same(self, rule: NewRule, location: tuple[int, int]) -> bool:
        """Return whether the rule at a location has the same text and settings as a new one."""
        owner, place = location
        if owner == _PENDING:
            where = self._pending.where[place]
        else:
            where = self._live_segments()[owner].segment.metadata.where[place].as_py()
        weights, payload, at_least = self.settings(location)
        return (
            rule.where == where
            and rule.at_least == at_least
            and _without(rule.weights, 1.0) == _without(weights, 1.0)
            and _without(rule.payload, None) == _without(payload, None)
        )

    def unknown_rule_error(self, id_: Any) -> UnknownRuleError:
        """Return the error for an id that no rule has."""
        return unknown_rule_error(id_, self._live_segments(), list(self._pending.place_of)[:100])

    # ------------------------------------------------------------ change

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo a change that fails; make one that succeeds visible to the next `seal`.

        Segments and the like are replaced as a whole, so it is enough to remember them. Pending
        rules, attributes and categories grow in place, and are truncated. Bits are set in place
        only as the last step (`append`, `remove`); if a merge follows, which may fail, they are set
        in a copy.
        """
        before = {name: getattr(self, name) for name in _STATE}
        self.attributes.update()
        pending = self._pending.sizes()
        attributes, categories = len(self.attributes), len(self.categories)
        self._undeleted = []
        try:
            yield
        except BaseException:
            for name, value in before.items():
                setattr(self, name, value)
            self._pending.truncate(pending, self._undeleted)
            self.attributes.truncate(attributes)
            self.categories.truncate(categories)
            raise
        self.size = sum(map(len, self._segments.values())) + len(self._pending.place_of)
        self._sealed = None

    def append(self, rule: NewRule, instead_of: tuple[int, int] | None = None) -> None:
        """Add one rule; it replaces the rule at the location `instead_of`, if given."""
        if self.id_type is None or (t.is_integer(self.id_type) and self.id_type != pa.int64()):
            self.id_type = pa.string() if isinstance(rule.id, str) else pa.int64()
        self.payload_schema = rule.payload_schema
        pending = self._pending
        pending.builder.add(self.next_position, rule.conjunctions, rule.weights)
        pending.positions.append(self.next_position)
        pending.ids.append(rule.id)
        pending.where.append(rule.where)
        pending.weights.append(rule.weights)
        pending.payload.append(rule.payload)
        pending.at_least.append(rule.at_least)
        if instead_of is not None and instead_of[0] == _PENDING:
            self._undeleted.append((rule.id, instead_of[1]))
        pending.place_of[rule.id] = len(pending.ids) - 1
        self.next_position += 1
        replaced = [instead_of] if instead_of is not None and instead_of[0] != _PENDING else []
        self._remove(replaced)

    def extend(self, read: RuleTable) -> None:
        """Add the rules of a table, or none if an id is taken or a type does not fit."""
        n = len(read.ids)
        self.check_room(n)
        id_type = self._merge_id_types(read.id_type)
        index = IdIndex(read.ids)
        self._refuse_taken_ids(read, index)
        payload_schema = self.merge_payload_schemas(read.payload)
        positions = np.arange(self.next_position, self.next_position + n, dtype=np.int32)
        at_least = thresholds(read.at_least)
        metadata = RuleMetadata(positions, read.ids, read.where, read.payload, at_least)
        self._freeze()
        fresh = exhaustive_segment(metadata, read.conjunctions, index)
        base, delta, recent = self._sizes()
        # Most often the table holds all rules. Before a merge, nothing needs an index.
        merging = base == 0 or delta + recent + n > max(_SMALL, base // _SHARE)
        added = self._add_recent(LiveSegment("recent", fresh, none_removed(fresh)), merging)
        # From here on only a merge can fail, and it changes nothing then.
        self._replace_added(added)
        self.id_type, self.payload_schema = id_type, payload_schema
        self.next_position += n
        if merging or self._is_merge_due(0):
            self.merge()

    def remove(self, locations: Sequence[tuple[int, int]]) -> None:
        """Remove the rules at distinct locations; see `find`."""
        for owner, place in locations:
            if owner == _PENDING:
                id_ = self._pending.ids[place]
                self._undeleted.append((id_, self._pending.place_of.pop(id_)))
        self._remove([location for location in locations if location[0] != _PENDING])

    def _remove(self, locations: Sequence[tuple[int, int]]) -> None:
        """Remove rules of segments, and merge if that is due; the last step of a change."""
        live = self._live_segments()
        base_removals = sum(live[owner].role == "base" for owner, _ in locations)
        merging = self._is_merge_due(base_removals)
        segments = dict(self._segments)
        for owner, each in enumerate(live):
            places = np.array([place for o, place in locations if o == owner], np.int64)
            if len(places):
                in_place = each.role in self._unshared and not merging
                removed = remove(each.segment, each.removed, places, in_place)
                segments[each.role] = LiveSegment(each.role, each.segment, removed)
                self._unshared = self._unshared | {each.role}
        self._segments = segments
        if merging:
            self.merge()

    def merge(self) -> None:
        """Build one base from all live rules."""
        self._freeze()
        live = self._live_segments()
        if [each.role for each in live] == ["base"] and not live[0].removed.size:
            return
        if not any(map(len, live)):
            self._segments, self._unshared, self.categories = {}, set(), Categories()
            self.attributes, self.id_type = Attributes(self.attributes.schema), None
            self.payload_schema = pa.schema([])
        else:
            metadata, conjunctions = collect_live(live)
            self.attributes, conjunctions = drop_unused_terms(self.attributes, conjunctions)
            conjunctions, categories = recode(conjunctions, self.categories, self.attributes)
            segment = Segment(metadata, self._build_parts(conjunctions))
            base = LiveSegment("base", segment, none_removed(segment))
            self._segments, self._unshared, self.categories = {"base": base}, set(), categories
        self._last_version = None  # releases the segments that only it holds

    def _build_parts(
        self, conjunctions: Conjunctions, events: EventSample | None = None
    ) -> list[IndexedPart]:
        return build_parts(self.index, self.options, conjunctions, self.attributes.floats(), events)

    def tune(self, events: Any) -> None:
        """Merge all rules into one base, and tune its indexes to events.

        For "auto" the indexes are chosen again, by what these events satisfy.
        """
        self.merge()  # first: it may recode categories
        base = self._segments.get("base")
        if base is None:
            return
        rows = {attribute: row for row, attribute in enumerate(base.attributes)}
        advice = "use tocsin.spark.tune, which draws a sample"
        read = Events.read(events, self.attributes, rows, self.categories, on_spark=advice)
        batch = EventBatch.whole(read.keys(0, len(read)), len(self.attributes))
        if self.index == "auto":
            if len(read):
                conjunctions = base.live_conjunctions()
                self._replace_parts(self._build_parts(conjunctions, EventSample(batch.keys)))
            return
        parts = [
            IndexedPart(cast(LearningIndex, part.index).tuned(batch), part.why, part.options)
            if part.index.learns
            else part
            for part in base.segment.parts
        ]
        if not any(part.index.learns for part in parts):
            used = ", ".join(dict.fromkeys(part.index.name for part in parts))
            learning = " or ".join(name for name, each in INDEXES.items() if each.learns)
            raise RuleError(
                f"these rules are held by {used}, which does not learn from events; "
                f"{learning} does: Rules(schema, index={learning!r}); or let 'auto' choose again"
            )
        self._replace_parts(parts)

    def _replace_parts(self, parts: list[IndexedPart]) -> None:
        """Replace the indexes of the base, which has all rules."""
        base = self._segments["base"].segment
        segment = Segment(base.metadata, parts, base.ids)
        self._segments = {"base": LiveSegment("base", segment, none_removed(segment))}
        self._last_version = None

    def _sizes(self) -> list[int]:
        """Return the number of rules in base, delta and recent, including removed ones."""
        return [
            len(self._segments[role].segment) if role in self._segments else 0 for role in ROLES
        ]

    def _is_merge_due(self, removing: int) -> bool:
        """Return whether to merge once `removing` more rules of the base are removed."""
        base, delta, recent = self._sizes()
        added = delta + recent + len(self._pending.ids)
        removed = removing + (self._segments["base"].removed.size if base else 0)
        return added > max(_SMALL, base // _SHARE) or removed > max(_SMALL, base // 2)

    def _freeze(self) -> None:
        """Move pending rules into a segment."""
        if self._pending.ids:
            fresh = self._pending.live_segment(self.id_type, self.payload_schema)
            self._replace_added(self._add_recent(fresh))
            self._pending = PendingRules()

    def _replace_added(self, segments: list[LiveSegment]) -> None:
        """Replace the delta and the recent rules."""
        before = self._segments
        base = {role: live for role, live in before.items() if role == "base"}
        self._segments = base | {live.role: live for live in segments}
        self._unshared = {
            role for role in self._unshared if self._segments.get(role) is before.get(role)
        }

    def _add_recent(self, fresh: LiveSegment, merging: bool = False) -> list[LiveSegment]:
        """Return the delta and the recent rules with `fresh` ones added."""
        delta, recent = self._segments.get("delta"), self._segments.get("recent")
        if merging:
            return _combine_recent([delta, recent, fresh])
        combined = _combine_recent([recent, fresh])
        limit = max(_SMALL, len(delta.segment) // _SHARE if delta else 0)
        if not combined or len(combined[0].segment) <= limit:
            return [delta, *combined] if delta else combined
        # A delta can be an eighth of the base: too large for exhaustive search.
        metadata, conjunctions = collect_live([*([delta] if delta else []), *combined])
        segment = Segment(metadata, self._build_parts(conjunctions))
        return [LiveSegment("delta", segment, none_removed(segment))]

    # ------------------------------------------------------------ checks

    def check_room(self, n: int) -> None:
        """Raise if fewer than n positions are left."""
        if self.next_position + n > _MOST_POSITIONS:
            raise RuleError(f"positions are used up: {_MOST_POSITIONS:,} rules were added in all")

    def merge_payload_schemas(self, given: pa.Table) -> pa.Schema:
        """Return the payload's columns merged with those of a table.

        Raise if types are incompatible, or values do not fit the common type: integers beyond
        2**53 are not exact as doubles.
        """
        known = self.payload_schema
        for column in [column for column in given.schema if column.name in known.names]:
            before = known.field(column.name)
            what = f"payload column {column.name!r} holds {before.type} so far, got {column.type}"
            try:
                merged = pa.unify_schemas(
                    [pa.schema([before]), pa.schema([column])], promote_options="permissive"
                )
            except pa.ArrowException:
                raise RuleError(f"{what}; cast it, or give it another name") from None
            with translate_errors(RuleError, what):
                if merged.types[0] != column.type:
                    given.column(column.name).cast(merged.types[0])
                if merged.types[0] != before.type:
                    for live in self._live_segments():
                        live.segment.metadata.payload_as(merged)
                    values = [payload.get(column.name) for payload in self._pending.payload]
                    pa.array(values, merged.types[0])
        return pa.unify_schemas([known, given.schema], promote_options="permissive")

    def _merge_id_types(self, given: pa.DataType) -> pa.DataType:
        if self.id_type is None or given == self.id_type:
            return given
        if is_text(given) != is_text(self.id_type):
            raise RuleError(f"{self.describe_ids()}, got a column of type {given}")
        return pa.large_string() if is_text(given) else pa.int64()

    def describe_ids(self) -> str:
        """Describe the type of the ids, for error messages."""
        return f"ids here are {'integers' if t.is_integer(self.id_type) else 'texts'}"

    def _refuse_taken_ids(self, read: RuleTable, index: IdIndex) -> None:
        duplicate = index.find_duplicate()
        if duplicate is not None:
            a, b = (int(read.rows[i]) for i in duplicate)
            id_ = read.ids[duplicate[1]].as_py()
            raise RuleError(f"row {b}: duplicate id {id_!r}, already used in row {a}")
        taken = [index.find(id_) for id_ in self._pending.place_of]
        for live in self._live_segments():
            places = live.segment.ids.find_many(read.ids)
            hits = np.flatnonzero(places >= 0)
            if live.removed.size:
                hits = hits[live.alive()[places[hits]]]
            taken += hits[:1].tolist()
        taken = [place for place in taken if place >= 0]
        if taken:
            place = min(taken)
            raise RuleError(
                f"row {int(read.rows[place])}: rule {read.ids[place].as_py()!r} exists already; "
                "use replace to change it"
            )


def _without(values: Mapping[Any, Any], default: Any) -> dict[Any, Any]:
    return {key: value for key, value in values.items() if value != default}


def _combine_recent(segments: Sequence[LiveSegment | None]) -> list[LiveSegment]:
    """Combine live rules of segments into one exhaustive segment; return none if there are none."""
    live = [each for each in segments if each is not None]
    if len(live) == 1 and not live[0].removed.size:
        return [LiveSegment("recent", live[0].segment, live[0].removed)]
    metadata, conjunctions = collect_live(live)
    if not len(metadata.positions):
        return []
    segment = exhaustive_segment(metadata, conjunctions)
    return [LiveSegment("recent", segment, none_removed(segment))]


def exhaustive_segment(
    metadata: RuleMetadata, conjunctions: Conjunctions, ids: IdIndex | None = None
) -> Segment:
    """Return a segment with an exhaustive index."""
    return Segment(metadata, [IndexedPart(Exhaustive.build(conjunctions))], ids)


def collect_live(segments: Sequence[LiveSegment]) -> tuple[RuleMetadata, Conjunctions]:
    """Return the metadata and the conjunctions of live rules, in order."""
    metadata = [live.live_metadata() for live in segments]
    return concatenate_metadata(metadata), concatenate(
        [live.live_conjunctions() for live in segments]
    )


def drop_unused_terms(
    attributes: Attributes, conjunctions: Conjunctions
) -> tuple[Attributes, Conjunctions]:
    """Return attributes without the terms that no conjunction tests, and conjunctions over them."""
    used = np.unique(conjunctions.attribute).tolist()
    if set(attributes.terms) <= set(used):
        return attributes, conjunctions
    kept, numbers = attributes.drop_unused(used)
    return kept, conjunctions._replace(attribute=freeze(numbers[conjunctions.attribute], np.int32))
