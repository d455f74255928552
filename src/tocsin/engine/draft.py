"""Mutable rules: base, delta, removals and merges, the same for all indexes.

The base is immutable. Rules added since the last merge are in smaller segments. The *delta* has an
index like the base. *Recent* rules, about 1,024 of them or an eighth of the delta, are searched
exhaustively. They are in several segments, each less than an eighth of the one before, so that
adding one rule seldom rebuilds a large one; the last rules are *pending* in lists, and are laid out
anew for each version. Removed rules are bits in a bitmap. A merge builds a new base from all live
rules. It is due when the added rules reach an eighth of the base, or half of the base has been
removed. So each rule takes part in few merges, and memory is released. This is the combined scheme
of the thesis (2.6.5), for every index.

A merge of many rules runs on a thread of its own, while rules change and match as before. Its
result is used after a number of further changes, which depends on the number of rules alone: so
the same changes give the same segments, and the same order of matches, however long the thread
takes. A change waits for the thread if it comes sooner. Until then no other merge begins.

A change is visible once `seal` returns a `Version` with it. Bits are set in place until then. So n
changes between two matches cost O(n), plus one copy of the bitmaps.

Positions number the rules in the order of addition, and are never reused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.explain import condition_text
from tocsin.engine.ids import IdIndex
from tocsin.engine.merging import (
    BackgroundMerge,
    collect_live,
    combine_recent,
    drop_unused_terms,
    exhaustive_segment,
)
from tocsin.engine.pending import NewRule, PendingRules
from tocsin.engine.planner import build_parts
from tocsin.engine.segment import (
    NO_THRESHOLDS,
    IndexedPart,
    LiveSegment,
    RuleMetadata,
    Segment,
    Settings,
    none_removed,
    remove,
    separate_filtered,
    thresholds,
)
from tocsin.engine.version import Version, can_be_id, find_many, plain_id, unknown_rule_error
from tocsin.errors import RuleError, UnknownRuleError, warn
from tocsin.index.costs import EventSample
from tocsin.index.protocol import LearningIndex
from tocsin.index.registry import INDEXES, check_index
from tocsin.model.arrow import is_text, translate_errors
from tocsin.model.attributes import MAX_TERMS, Attributes
from tocsin.model.categories import Categories, recode
from tocsin.model.conjunctions import NO_SCORES, Conjunctions, scores
from tocsin.model.events import Events
from tocsin.model.keys import EventBatch
from tocsin.model.tables import RuleTable

_SMALL = 1024  # added or removed rules that never cause a merge
_SHARE = 8  # a merge is due when an eighth of the base has been added
_MOST_PENDING = 64  # rules that are laid out anew for each version; chosen, as in `exhaustive`
# Rules that are merged at once. Chosen: it takes a few milliseconds.
_AT_ONCE = 1024
# The result of a merge on a thread is used after a sixteenth as many changes as it has rules, or
# after 1,024. Chosen: a change takes 50 microseconds or more, and a merge about one for each rule.
_PATIENCE = 16
_MOST_UNUSED_TERMS = MAX_TERMS // 4  # chosen; more of them make a merge renumber the others
_MOST_POSITIONS = 2**31 - 1

ROLES = ("base", "delta", "recent")
_PENDING = -1
# Attributes that a change replaces as a whole.
_STATE = ("attributes", "categories", "next_position", "id_type", "payload_schema", "_last_version",
          "_segments", "_unshared", "_pending", "_changes", "_merge")  # fmt: skip


class Draft:
    """Rules that can be changed, with the version sealed from them."""

    def __init__(
        self,
        attributes: Attributes,
        index: str,
        options: Mapping[str, Any],
        point: tuple[str, str] | None = None,
    ):
        check_index(index, options)
        self.attributes = attributes
        self.point = point  # what the shapes in a table of rules are about
        self.index = index
        self.options = dict(options)
        self.categories = Categories()
        self.next_position = 0
        self.id_type: pa.DataType | None = None
        self.payload_schema = pa.schema([])
        self._sealed: Version | None = None  # None after a change, until the next `seal`
        self._declared = 0  # columns of the schema when it was sealed
        self._last_version: Version | None = None  # the last version
        # Oldest rules first: at most one base, at most one delta, recent rules.
        self._segments: tuple[LiveSegment, ...] = ()
        self._unshared: set[Segment] = set()  # those whose bitmaps nothing shares
        self._pending = PendingRules()
        self._changes = 0  # rules added and removed so far
        self._merge: BackgroundMerge | None = None  # the one under way
        self._failure: BaseException | None = None  # of the last one, until it is reported
        self._next_merge = 0  # the number of changes before which none begins, after a failure
        self._undeleted: list[tuple[Any, int]] = []  # pending rules removed by the current change
        self.size = 0  # number of live rules, updated when a change is complete

    @classmethod
    def from_version(
        cls, version: Version, attributes: Attributes, categories: Categories
    ) -> Draft:
        """Return a draft that starts from a version; it adds to `attributes` and `categories`."""
        draft = cls(attributes, version.index, version.options, version.point)
        draft.categories = categories
        draft.next_position = version.next_position
        draft.id_type, draft.payload_schema = version.id_type, version.payload_schema
        draft._segments = version.segments
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
            if len(self._pending.ids) > _MOST_PENDING:
                self._freeze()
            pending = self._pending.live_segments(self.id_type, self.payload_schema)
            sealed = Version(
                self.attributes,
                len(self.attributes),
                self.categories,
                len(self.categories),
                self.index,
                self.options,
                (*self._segments, *pending),
                self.next_position,
                self.id_type,
                self.payload_schema,
                self.point,
            )
            self._unshared = set()
            self._sealed = self._last_version = sealed.inherit(self._last_version)
            self._declared = declared
        return sealed

    def settle(self) -> None:
        """Finish a merge that is under way, and combine recent rules, as a store has them."""
        recent = sum(live.role == "recent" for live in self._segments)
        if self._merge is None and not self._pending.ids and recent <= 1:
            return
        with self.all_or_nothing():
            if self._merge is not None:
                self._finish_merge()
            self._freeze()
            self._combine_recent(everything=True)

    # ------------------------------------------------------------ look

    def find(self, ids: Sequence[Any]) -> list[tuple[int, int] | None]:
        """Return the location of each id, as `remove` takes it, or None.

        A location is an owner (a segment's number, or the pending rules) and a place there.
        """
        plain = list(map(plain_id, ids))
        locations = find_many(self._segments, plain, self.id_type)
        if self._pending.place_of:
            for i, id_ in enumerate(plain):
                if can_be_id(id_, self.id_type) and id_ in self._pending.place_of:
                    locations[i] = _PENDING, self._pending.place_of[id_]
        return locations

    def settings(self, location: tuple[int, int]) -> Settings:
        """Return what the rule at a location has besides its id and condition."""
        owner, place = location
        if owner == _PENDING:
            return self._pending.settings[place]
        return self._segments[owner].segment.settings(place)

    def condition(self, location: tuple[int, int]) -> str:
        """Return the condition of the rule at a location."""
        owner, place = location
        if owner == _PENDING:
            return self._pending.where[place]
        segment = self._segments[owner].segment
        return condition_text(segment, place, self.attributes, self.categories)

    def has_same(self, rule: NewRule, location: tuple[int, int]) -> bool:
        """Return whether the rule at a location has the same text and settings as a new one."""
        owner, place = location
        if owner == _PENDING:
            where = self._pending.where[place]
        else:
            where = self._segments[owner].segment.metadata.where[place].as_py()
        return rule.where == where and rule.settings == self.settings(location)

    def unknown_rule_error(self, id_: Any) -> UnknownRuleError:
        """Return the error for an id that no rule has."""
        return unknown_rule_error(id_, self._segments, list(self._pending.place_of)[:100])

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
        self.size = sum(map(len, self._segments)) + len(self._pending.place_of)
        self._sealed = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            warn(
                f"merging rules in the background failed ({type(failure).__name__}: {failure}); "
                "nothing is lost, and it is tried again after further changes",
                RuntimeWarning,
            )

    def append(self, rule: NewRule, instead_of: tuple[int, int] | None = None) -> None:
        """Add one rule; it replaces the rule at the location `instead_of`, if given."""
        if self.id_type is None or (t.is_integer(self.id_type) and self.id_type != pa.int64()):
            self.id_type = pa.string() if isinstance(rule.id, str) else pa.int64()
        self.payload_schema = rule.payload_schema
        if instead_of is not None and instead_of[0] == _PENDING:
            self._undeleted.append((rule.id, instead_of[1]))
        self._pending.append(self.next_position, rule)
        self.next_position += 1
        replaced = [instead_of] if instead_of is not None and instead_of[0] != _PENDING else []
        self._remove(replaced, 1 + len(replaced))

    def extend(self, read: RuleTable) -> None:
        """Add the rules of a table, or none if an id is taken or a type does not fit."""
        n = len(read.ids)
        self.check_room(n)
        id_type = self._merge_id_types(read.id_type)
        index = IdIndex(read.ids)
        self._refuse_taken_ids(read, index)
        payload_schema = self.merge_payload_schemas(read.payload)
        positions = np.arange(self.next_position, self.next_position + n, dtype=np.int32)
        metadata = RuleMetadata(
            positions,
            read.ids,
            read.where,
            read.payload,
            NO_THRESHOLDS if read.at_least is None else thresholds(np.nan_to_num(read.at_least)),
            NO_SCORES if read.score is None else scores(read.score),
            read.residuals,
        )
        self._freeze()
        fresh = exhaustive_segment(metadata, read.conjunctions, index)
        self._segments = (*self._segments, LiveSegment("recent", fresh, none_removed(fresh)))
        self.id_type, self.payload_schema = id_type, payload_schema
        self.next_position += n
        # Most often the table holds all rules. Before a merge, nothing needs an index.
        if any(live.role == "base" for live in self._segments):
            self._merge_if_due(n)
            self._combine_recent()
        else:
            self.merge()

    def remove(self, locations: Sequence[tuple[int, int]]) -> None:
        """Remove the rules at distinct locations; see `find`."""
        for owner, place in locations:
            if owner == _PENDING:
                self._undeleted.append(self._pending.remove(place))
        in_segments = [location for location in locations if location[0] != _PENDING]
        self._remove(in_segments, len(locations))

    def _remove(self, locations: Sequence[tuple[int, int]], changed: int) -> None:
        """Remove rules of segments, and merge if that is due; the last step of a change.

        Bits are set in a copy if a step follows that may fail.
        """
        removed_from_base = sum(self._segments[owner].role == "base" for owner, _ in locations)
        may_fail = self._will_merge(changed, removed_from_base)
        segments = list(self._segments)
        for owner in sorted({owner for owner, _ in locations}):
            each = segments[owner]
            places = np.array([place for o, place in locations if o == owner], np.int64)
            in_place = each.segment in self._unshared and not may_fail
            removed = remove(each.segment, each.removed, places, in_place)
            segments[owner] = LiveSegment(each.role, each.segment, removed)
            self._unshared = self._unshared | {each.segment}
        self._segments = tuple(segments)
        self._merge_if_due(changed)

    def merge(self) -> None:
        """Build one base from all live rules."""
        self._merge = None
        self._freeze()
        live = self._segments
        if [each.role for each in live] == ["base"] and not live[0].removed.size:
            return
        self._unshared = set()
        if not any(map(len, live)):
            self._segments, self.categories = (), Categories()
            self.attributes, self.id_type = Attributes(self.attributes.schema), None
            self.payload_schema = pa.schema([])
        else:
            metadata, conjunctions = collect_live(live)
            self.attributes, metadata, conjunctions = drop_unused_terms(
                self.attributes, metadata, conjunctions
            )
            conjunctions, categories = recode(conjunctions, self.categories, self.attributes)
            floats = self.attributes.floats()
            segment = Segment(metadata, self._build_parts(metadata, conjunctions, floats))
            base = LiveSegment("base", segment, none_removed(segment))
            self._segments, self.categories = (base,), categories
        self._last_version = None  # releases the segments that only it holds

    def _build_parts(
        self,
        metadata: RuleMetadata,
        conjunctions: Conjunctions,
        floats: np.ndarray,
        events: EventSample | None = None,
    ) -> list[IndexedPart]:
        parts: list[IndexedPart] = []
        for group in separate_filtered(metadata, conjunctions):
            parts += build_parts(self.index, self.options, group, floats, events)
        return parts

    def tune(self, events: Any) -> None:
        """Merge all rules into one base, and tune its indexes to events.

        For "auto" the indexes are chosen again, by what these events satisfy.
        """
        self.merge()  # first: it may recode categories
        if not self._segments:
            return
        base = self._segments[0]
        rows = {attribute: row for row, attribute in enumerate(base.attributes)}
        advice = "use tocsin.spark.tune, which draws a sample"
        read = Events.read(events, self.attributes, rows, self.categories, on_spark=advice)
        batch = EventBatch.whole(read.keys(0, len(read)), len(self.attributes))
        if self.index == "auto":
            if len(read):
                conjunctions = base.live_conjunctions()
                metadata, floats = base.segment.metadata, self.attributes.floats()
                sample = EventSample(batch.keys)
                self._replace_parts(self._build_parts(metadata, conjunctions, floats, sample))
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
        base = self._segments[0].segment
        segment = Segment(base.metadata, parts, base.ids)
        self._segments = (LiveSegment("base", segment, none_removed(segment)),)
        self._last_version = None

    # ------------------------------------------------------------ merge

    def _sizes(self) -> tuple[int, int, int]:
        """Return the number of rules in base, delta and recent, including removed ones."""
        sizes = dict.fromkeys(ROLES, 0)
        for live in self._segments:
            sizes[live.role] += len(live.segment)
        return sizes["base"], sizes["delta"], sizes["recent"] + len(self._pending.ids)

    def _due(self, removed_from_base: int = 0) -> str:
        """Return the role of the segment that is to be built anew, or an empty text."""
        base, delta, recent = self._sizes()
        removed = removed_from_base + (self._segments[0].removed.size if base else 0)
        if delta + recent > max(_SMALL, base // _SHARE) or removed > max(_SMALL, base // 2):
            return "base"
        return "delta" if recent > max(_SMALL, delta // _SHARE) else ""

    def _will_merge(self, changed: int, removed_from_base: int) -> bool:
        """Return whether `_merge_if_due` will build a segment, or begin or finish a merge."""
        changes = self._changes + changed
        if len(self._pending.ids) >= _SMALL:
            return True
        if self._merge is not None:
            return changes >= self._merge.until
        return changes >= self._next_merge and bool(self._due(removed_from_base))

    def _merge_if_due(self, changed: int) -> None:
        """Begin or finish a merge, if one is due after a change of `changed` rules."""
        self._changes += changed
        if self._merge is not None:
            self._merge.give_way(self._changes)
            if self._changes >= self._merge.until:
                self._finish_merge()
        role = ""
        if self._merge is None and self._changes >= self._next_merge:
            role = self._due()
        if role:
            self._begin_merge(role, changed)
        elif len(self._pending.ids) >= _SMALL:
            self._freeze()

    def _begin_merge(self, role: str, changed: int) -> None:
        """Merge at once, if there are few rules or `changed` are many of them, or begin to."""
        self._freeze()
        first = sum(live.role == "base" for live in self._segments) if role == "delta" else 0
        inputs = self._segments[first:]
        rules = sum(map(len, inputs))
        patience = max(_SMALL, rules // _PATIENCE)
        if rules > _AT_ONCE and changed <= patience:
            self._unshared = set()
            with contextlib.suppress(RuntimeError):  # the system allows no more threads
                build = self._builder(role)
                self._merge = BackgroundMerge(role, first, inputs, self._changes, patience, build)
                return
        if role == "base":
            self.merge()
        else:
            segment = self._builder(role)(inputs)
            delta = [] if segment is None else [LiveSegment(role, segment, none_removed(segment))]
            self._segments = (*self._segments[:first], *delta)

    def _builder(self, role: str) -> Callable[[Sequence[LiveSegment]], Segment | None]:
        """Return a function that merges segments, for any thread.

        It returns None if there are no rules, or if they must be renumbered: if `merge` would drop
        many terms, or give categories new codes.
        """
        attributes, categories, floats = self.attributes, self.categories, self.attributes.floats()
        terms = set(attributes.terms)

        def build(inputs: Sequence[LiveSegment]) -> Segment | None:
            metadata, conjunctions = collect_live(inputs)
            if not len(metadata.positions):
                return None
            if role == "base":
                unused = terms.difference(np.flatnonzero(conjunctions.count_tests()))
                if len(unused) > _MOST_UNUSED_TERMS:
                    return None
                if recode(conjunctions, categories, attributes)[1] is not categories:
                    return None
            segment = Segment(metadata, self._build_parts(metadata, conjunctions, floats))
            segment.prepare(live.segment for live in inputs)
            return segment

        return build

    def _finish_merge(self) -> None:
        """Replace segments with the one that a thread has built from them."""
        merge, self._merge = self._merge, None
        assert merge is not None
        segment = merge.wait()
        if merge.error is not None:
            self._failure, self._next_merge = merge.error, self._changes + merge.patience
        elif segment is None and merge.role == "base":
            self.merge()
        else:
            replaced = self._segments[merge.first : merge.stop]
            live = [] if segment is None else [merge.live(segment, replaced)]
            self._segments = (*self._segments[: merge.first], *live, *self._segments[merge.stop :])
            self._unshared, self._last_version = set(), None

    def _freeze(self) -> None:
        """Move pending rules into a segment."""
        if self._pending.ids:
            fresh = self._pending.live_segments(self.id_type, self.payload_schema)
            self._segments, self._pending = (*self._segments, *fresh), PendingRules()
            self._combine_recent()

    def _combine_recent(self, everything: bool = False) -> None:
        """Combine the last segments of recent rules, until each is small beside the one before."""
        segments = self._segments
        indexed = sum(live.role != "recent" for live in segments)
        first = indexed if self._merge is None else self._merge.stop
        start, size = len(segments), 0
        while start > first:
            before = len(segments[start - 1].segment)
            if size and not everything and size + before > _SMALL and before > _SHARE * size:
                break
            start, size = start - 1, size + before
        if len(segments) - start > 1:
            self._segments = (*segments[:start], *combine_recent(segments[start:]))

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
                    for live in self._segments:
                        live.segment.metadata.payload_as(merged)
                    values = [each.payload.get(column.name) for each in self._pending.settings]
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
        for live in self._segments:
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
