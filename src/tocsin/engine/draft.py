"""Rules while they change: base, delta, removals and merges, the same for all indexes.

The base is immutable. Rules added since the last merge are in two small segments. The *delta* has
an index like the base. The *recent* rules, at most 1,024 of them or an eighth of the delta, are
searched exhaustively, so that adding one rule seldom rebuilds a large delta. Removed rules are bits
in a bitmap. A merge builds a new base from all of them. It happens when the added rules reach an
eighth of the base, or half of the base has been removed. So each rule takes part in few merges, and
memory is released. This is the combined scheme of the thesis (2.6.5), for every index.

Nobody sees a change before `seal` makes a `Version` of it. Until then, rules that are added one at
a time wait in lists, and bits are set in place. So n changes between two matches cost n, and one
copy of the bitmaps.

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
)
from tocsin.engine.version import Version, can_be_id, find_many, plain_id, unknown
from tocsin.errors import RuleError, UnknownRuleError
from tocsin.index.exhaustive.index import Exhaustive
from tocsin.index.protocol import LearningIndex
from tocsin.index.registry import INDEXES, check_index
from tocsin.model.arrow import is_text, translate_errors
from tocsin.model.categories import Categories, recode
from tocsin.model.condition import NormalForm
from tocsin.model.conjunctions import ConjunctionBuilder, Conjunctions, concatenate
from tocsin.model.events import Events
from tocsin.model.keys import EventBatch
from tocsin.model.schema import Schema
from tocsin.model.tables import RuleTable

_SMALL = 1024  # rules that may always be recent, or removed
_SHARE = 8  # one rule may have been added for so many of the base
_MOST_POSITIONS = 2**31 - 1

ROLES = ("base", "delta", "recent")
_PENDING = -1
# What is replaced as a whole by a change.
_STATE = ("categories", "next_position", "id_type", "payload_schema", "_before", "_segments",
          "_own", "_pending")  # fmt: skip


class NewRule(NamedTuple):
    """One rule to be added, of which everything was checked."""

    id: Any
    where: str
    conjunctions: NormalForm
    weights: Mapping[int, float]  # by attribute; 1 where there is none
    payload: Mapping[str, Any]
    payload_schema: pa.Schema  # the columns of all rules, with this one's


class PendingRules:
    """Rules added one at a time since the last version."""

    def __init__(self) -> None:
        self.builder = ConjunctionBuilder()
        self.positions: list[int] = []
        self.ids: list[Any] = []
        self.where: list[str] = []
        self.weights: list[Mapping[int, float]] = []
        self.payload: list[Mapping[str, Any]] = []
        self.place_of: dict[Any, int] = {}  # of those that were not removed

    def sizes(self) -> tuple[int, list[int]]:
        """Return how many rules there are, and how much was built of them; see `truncate`."""
        return len(self.ids), self.builder.sizes()

    def truncate(self, sizes: tuple[int, list[int]], undeleted: list[tuple[Any, int]]) -> None:
        """Forget rules that came since it had these sizes, and let those be that were removed."""
        count, built = sizes
        for id_ in self.ids[count:]:
            self.place_of.pop(id_, None)
        self.place_of |= dict(undeleted)
        for each in (self.positions, self.ids, self.where, self.weights, self.payload):
            del each[count:]
        self.builder.truncate(built)

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
        )
        segment = exhaustive_segment(metadata, self.builder.build())
        gone = np.ones(len(self.ids), bool)
        gone[list(self.place_of.values())] = False
        removed = none_removed(segment)
        if gone.any():
            removed = remove(segment, removed, np.flatnonzero(gone), in_place=True)
        return LiveSegment("recent", segment, removed)


class Draft:
    """Rules that can be changed, and the version that they are when nobody changes them."""

    def __init__(self, schema: Schema, index: str, options: Mapping[str, Any]):
        check_index(index, options)
        self.schema = schema
        self.index = index
        self.options = dict(options)
        self.categories = Categories()
        self.next_position = 0
        self.id_type: pa.DataType | None = None
        self.payload_schema = pa.schema([])
        self.sealed: Version | None = None  # None from a change on until someone looks
        self._before: Version | None = None  # the last version
        self._segments: dict[str, LiveSegment] = {}  # by role
        self._own: set[str] = set()  # roles of segments whose bits no version has
        self._pending = PendingRules()
        self._undeleted: list[tuple[Any, int]] = []  # pending rules that a change removes
        self.size = 0  # how many rules there are, changed once a change is complete

    @classmethod
    def of(cls, version: Version, categories: Categories) -> Draft:
        """Return a draft that begins with a version; `categories` are its own, to be added to."""
        draft = cls(version.schema, version.index, version.options)
        draft.categories = categories
        draft.next_position = version.next_position
        draft.id_type, draft.payload_schema = version.id_type, version.payload_schema
        draft._segments = {live.role: live for live in version.segments}
        draft.size = len(version)
        return draft

    def seal(self) -> Version:
        """Return the version that these rules are now."""
        if self.sealed is None:
            self._freeze()
            version = Version(
                self.schema,
                len(self.schema),
                self.categories,
                len(self.categories),
                self.index,
                self.options,
                self._live(),
                self.next_position,
                self.id_type,
                self.payload_schema,
            )
            self._own = set()
            self.sealed = self._before = version.inherit(self._before)
        return self.sealed

    def _live(self) -> tuple[LiveSegment, ...]:
        return tuple(self._segments[role] for role in ROLES if role in self._segments)

    # ------------------------------------------------------------ look

    def find(self, ids: Sequence[Any]) -> list[tuple[int, int] | None]:
        """Return for each id who holds it and at which place, as `remove` wants it, or None."""
        plain = list(map(plain_id, ids))
        found = find_many(self._live(), plain, self.id_type)
        if self._pending.place_of:
            for i, id_ in enumerate(plain):
                if can_be_id(id_, self.id_type) and id_ in self._pending.place_of:
                    found[i] = _PENDING, self._pending.place_of[id_]
        return found

    def weights_and_payload(
        self, at: tuple[int, int]
    ) -> tuple[Mapping[int, float], Mapping[str, Any]]:
        """Return the weights (by attribute) and the payload of a rule that `find` has found."""
        owner, place = at
        if owner == _PENDING:
            return self._pending.weights[place], self._pending.payload[place]
        return self._live()[owner].segment.weights_and_payload(place)

    def unknown(self, id_: Any) -> UnknownRuleError:
        """Return the error for an id that no rule has."""
        return unknown(id_, self._live(), list(self._pending.place_of)[:100])

    # ------------------------------------------------------------ change

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo what was changed inside, if that fails; otherwise let the next look see it.

        Segments and the like are replaced as a whole, so it is enough to remember them; what grows
        in place, pending rules and categories, is cut off again. Bits that are set in place
        come last (`append`, `remove`), or are a copy where a merge, which may fail, is to follow.
        """
        before = {name: getattr(self, name) for name in _STATE}
        pending, categories = self._pending.sizes(), len(self.categories)
        self._undeleted = []
        try:
            yield
        except BaseException:
            for name, value in before.items():
                setattr(self, name, value)
            self._pending.truncate(pending, self._undeleted)
            self.categories.truncate(categories)
            raise
        self.size = sum(map(len, self._segments.values())) + len(self._pending.place_of)
        self.sealed = None

    def append(self, rule: NewRule, instead_of: tuple[int, int] | None = None) -> None:
        """Add one rule, instead of another if one is named (see `find`)."""
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
        if instead_of is not None and instead_of[0] == _PENDING:
            self._undeleted.append((rule.id, instead_of[1]))
        pending.place_of[rule.id] = len(pending.ids) - 1
        self.next_position += 1
        gone = [instead_of] if instead_of is not None and instead_of[0] != _PENDING else []
        self._remove(gone)

    def extend(self, read: RuleTable) -> None:
        """Add the rules of a table, or none if an id is taken or a type does not fit."""
        n = len(read.ids)
        self.check_room(n)
        id_type = self._joined_id_type(read.id_type)
        index = IdIndex(read.ids)
        self._refuse_taken(read, index)
        payload_schema = self.joined_payload_schema(read.payload)
        positions = np.arange(self.next_position, self.next_position + n, dtype=np.int32)
        metadata = RuleMetadata(positions, read.ids, read.where, read.payload)
        self._freeze()
        fresh = exhaustive_segment(metadata, read.conjunctions, index)
        base, delta, recent = self._sizes()
        # A table is most often all there is. If there is to be a merge, nothing needs an index
        # before it.
        merging = base == 0 or delta + recent + n > max(_SMALL, base // _SHARE)
        added = self._with_recent(LiveSegment("recent", fresh, none_removed(fresh)), merging)
        # From here on nothing can fail but a merge, which leaves all as it is.
        self._take(added)
        self.id_type, self.payload_schema = id_type, payload_schema
        self.next_position += n
        if merging or self._is_merge_due(0):
            self.merge()

    def remove(self, found: Sequence[tuple[int, int]]) -> None:
        """Remove rules by owner and place, as `find` gives them; none of them twice."""
        for owner, place in found:
            if owner == _PENDING:
                id_ = self._pending.ids[place]
                self._undeleted.append((id_, self._pending.place_of.pop(id_)))
        self._remove([each for each in found if each[0] != _PENDING])

    def _remove(self, found: Sequence[tuple[int, int]]) -> None:
        """Remove rules of segments, and merge if that is due; the last step of a change."""
        live = self._live()
        of_base = sum(live[owner].role == "base" for owner, _ in found)
        merging = self._is_merge_due(of_base)
        segments = dict(self._segments)
        for owner, each in enumerate(live):
            places = np.array([place for who, place in found if who == owner], np.int64)
            if len(places):
                in_place = each.role in self._own and not merging
                removed = remove(each.segment, each.removed, places, in_place)
                segments[each.role] = LiveSegment(each.role, each.segment, removed)
                self._own = self._own | {each.role}
        self._segments = segments
        if merging:
            self.merge()

    def merge(self) -> None:
        """Make one base of all rules, forgetting what was removed."""
        self._freeze()
        live = self._live()
        if [each.role for each in live] == ["base"] and not live[0].removed.size:
            return
        if not any(map(len, live)):
            self._segments, self._own, self.categories = {}, set(), Categories()
            self.id_type, self.payload_schema = None, pa.schema([])
        else:
            metadata, conjunctions = collect_live(live)
            conjunctions, categories = recode(conjunctions, self.categories, self.schema)
            segment = Segment(metadata, self._build_parts(conjunctions))
            base = LiveSegment("base", segment, none_removed(segment))
            self._segments, self._own, self.categories = {"base": base}, set(), categories
        self._before = None  # with the segments that only it has

    def _build_parts(self, conjunctions: Conjunctions) -> list[IndexedPart]:
        return build_parts(self.index, self.options, conjunctions, self.schema.floats())

    def tune(self, events: Any) -> None:
        """Merge all rules into one base, and let its indexes learn from events."""
        self.merge()  # first: it may give new codes to categories
        base = self._segments.get("base")
        if base is None:
            return
        rows = {attribute: row for row, attribute in enumerate(base.attributes)}
        read = Events.read(events, self.schema, rows, self.categories)
        batch = EventBatch.whole(read.keys(0, len(read)), len(self.schema))
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
                f"{learning} does: Rules(schema, index={learning!r})"
            )
        segment = Segment(base.segment.metadata, parts, base.segment.ids)
        self._segments = {"base": LiveSegment("base", segment, none_removed(segment))}
        self._before = None

    def _sizes(self) -> list[int]:
        """Return how many rules base, delta and recent have, also of those that were removed."""
        return [
            len(self._segments[role].segment) if role in self._segments else 0 for role in ROLES
        ]

    def _is_merge_due(self, removing: int) -> bool:
        """Tell whether to merge, with so many more rules of the base removed."""
        base, delta, recent = self._sizes()
        added = delta + recent + len(self._pending.ids)
        removed = removing + (self._segments["base"].removed.size if base else 0)
        return added > max(_SMALL, base // _SHARE) or removed > max(_SMALL, base // 2)

    def _freeze(self) -> None:
        """Move pending rules into a segment."""
        if self._pending.ids:
            fresh = self._pending.live_segment(self.id_type, self.payload_schema)
            self._take(self._with_recent(fresh))
            self._pending = PendingRules()

    def _take(self, segments: list[LiveSegment]) -> None:
        """Let these be delta and recent rules."""
        before = self._segments
        base = {role: live for role, live in before.items() if role == "base"}
        self._segments = base | {live.role: live for live in segments}
        self._own = {role for role in self._own if self._segments.get(role) is before.get(role)}

    def _with_recent(self, fresh: LiveSegment, merging: bool = False) -> list[LiveSegment]:
        """Return what delta and recent rules become with further ones."""
        delta, recent = self._segments.get("delta"), self._segments.get("recent")
        if merging:
            return _recent_of([delta, recent, fresh])
        together = _recent_of([recent, fresh])
        few = max(_SMALL, len(delta.segment) // _SHARE if delta else 0)
        if not together or len(together[0].segment) <= few:
            return [delta, *together] if delta else together
        # A delta can be an eighth of the base, too much to look at one by one.
        metadata, conjunctions = collect_live([*([delta] if delta else []), *together])
        segment = Segment(metadata, self._build_parts(conjunctions))
        return [LiveSegment("delta", segment, none_removed(segment))]

    # ------------------------------------------------------------ checks

    def check_room(self, n: int) -> None:
        """Raise if n more positions cannot be had."""
        if self.next_position + n > _MOST_POSITIONS:
            raise RuleError(f"positions are used up: {_MOST_POSITIONS:,} rules were added in all")

    def joined_payload_schema(self, given: pa.Table) -> pa.Schema:
        """Return the payload's columns with further ones.

        Raise if types do not go together, or values do not fit the type that has room for both:
        integers beyond 2**53 are no doubles.
        """
        known = self.payload_schema
        for column in [column for column in given.schema if column.name in known.names]:
            before = known.field(column.name)
            what = f"payload column {column.name!r} holds {before.type} so far, got {column.type}"
            with translate_errors(RuleError, what):
                joined = pa.unify_schemas(
                    [pa.schema([before]), pa.schema([column])], promote_options="permissive"
                )
                if joined.types[0] != column.type:
                    given.column(column.name).cast(joined.types[0])
                if joined.types[0] != before.type:
                    for live in self._live():
                        live.segment.metadata.payload_as(joined)
                    held = [payload.get(column.name) for payload in self._pending.payload]
                    pa.array(held, joined.types[0])
        return pa.unify_schemas([known, given.schema], promote_options="permissive")

    def _joined_id_type(self, given: pa.DataType) -> pa.DataType:
        if self.id_type is None or given == self.id_type:
            return given
        if is_text(given) != is_text(self.id_type):
            raise RuleError(f"{self.id_words()}, got a column of type {given}")
        return pa.large_string() if is_text(given) else pa.int64()

    def id_words(self) -> str:
        """Say what ids are here."""
        return f"ids here are {'integers' if t.is_integer(self.id_type) else 'texts'}"

    def _refuse_taken(self, read: RuleTable, index: IdIndex) -> None:
        double = index.double()
        if double is not None:
            a, b = (int(read.rows[i]) for i in double)
            id_ = read.ids[double[1]].as_py()
            raise RuleError(f"row {b}: duplicate id {id_!r}, already used in row {a}")
        taken = [index.find(id_) for id_ in self._pending.place_of]
        for live in self._live():
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


def _recent_of(segments: Sequence[LiveSegment | None]) -> list[LiveSegment]:
    """Return one segment, under the exhaustive index, of the rules of several; none if empty."""
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
    """Return a segment under the exhaustive index."""
    return Segment(metadata, [IndexedPart(Exhaustive.build(conjunctions))], ids)


def collect_live(segments: Sequence[LiveSegment]) -> tuple[RuleMetadata, Conjunctions]:
    """Return the metadata and the conjunctions of the rules that were not removed, in order."""
    metadata = [live.live_metadata() for live in segments]
    return concatenate_metadata(metadata), concatenate(
        [live.live_conjunctions() for live in segments]
    )
