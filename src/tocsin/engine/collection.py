"""Rules that change: base, delta, removals and merge, once for all indexes.

The base is immutable under its index. What was added since is the delta, under the
exhaustive index, which costs next to nothing to build; what was removed is flagged. A
merge makes one base of all when the delta has reached an eighth of the base or half of
the base is gone: so a rule takes part in few merges, and memory returns. This is the
combined scheme of the thesis (2.6.5), for everything.

Rules added one at a time wait in lists until someone looks (`segments`), then join the
delta; adding n rules between two looks costs n, not n deltas.

Positions number the rules in the order of addition and are never reused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.ids import IdIndex
from tocsin.engine.plan import chosen_index
from tocsin.engine.segment import Roster, Segment, joined_rosters
from tocsin.errors import RuleError, UnknownRuleError, near
from tocsin.index.exhaustive import Exhaustive
from tocsin.model.categories import recoded
from tocsin.model.conjunctions import Builder, joined, kept
from tocsin.model.schema import Schema
from tocsin.model.tables import RuleTable

_SMALL = 1024  # rules that a delta may always hold
_SHARE = 8  # a delta may hold one for so many rules of the base
_MOST_POSITIONS = 2**31 - 1

BASE, DELTA, PENDING = 0, 1, 2


class _Pending:
    """Rules added one at a time since someone looked."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.positions: list[int] = []
        self.ids: list[Any] = []
        self.where: list[str] = []
        self.payload: list[Mapping[str, Any]] = []
        self.place_of: dict[Any, int] = {}  # of those that were not removed

    def roster(self, id_type: pa.DataType, payload_schema: pa.Schema) -> Roster:
        columns = {
            f.name: pa.array([p.get(f.name) for p in self.payload], f.type) for f in payload_schema
        }
        return Roster(
            np.array(self.positions, np.int32),
            pa.array(self.ids, id_type),
            pa.array(self.where, pa.large_string()),
            pa.table(columns),
        )


class Collection:
    """The rules there are, in segments."""

    def __init__(self, schema: Schema, index: str):
        self.schema = schema
        self.index = index
        chosen_index(index)
        self.codes: dict[str, int] = {}
        self.next_position = 0
        self.id_type: pa.DataType | None = None
        self.payload_schema = pa.schema([])
        self.base: Segment | None = None
        self.delta: Segment | None = None
        self._pending = _Pending()

    def __len__(self) -> int:
        frozen = sum(s.size for s in (self.base, self.delta) if s is not None)
        return frozen + len(self._pending.place_of)

    # ------------------------------------------------------------ look

    def segments(self) -> list[Segment]:
        """Return the segments that together hold all rules, oldest rules first."""
        self._freeze()
        return [s for s in (self.base, self.delta) if s is not None]

    def find(self, ids: Sequence[Any]) -> list[tuple[int, int] | None]:
        """Return for each id its owner (BASE, DELTA or PENDING) and its place there, or None."""
        found: list[tuple[int, int] | None] = [None] * len(ids)
        if self.id_type is None:
            return found
        wanted: type = int if t.is_integer(self.id_type) else str
        usable = [i for i, id_ in enumerate(ids) if type(id_) is wanted]
        if not usable:
            return found
        for i in usable:
            place = self._pending.place_of.get(ids[i])
            if place is not None:
                found[i] = PENDING, place
        asked = None
        for owner, segment in ((BASE, self.base), (DELTA, self.delta)):
            if segment is None:
                continue
            if asked is None:
                asked = pa.array([ids[i] for i in usable], segment.roster.ids.type)
            for i, place in zip(usable, segment.ids.find_many(asked).tolist(), strict=True):
                if place >= 0 and segment.is_alive(place):
                    found[i] = owner, place
        return found

    def locate(self, id_: Any) -> tuple[Segment, int]:
        """Return the segment that holds a rule and its place there; raise if there is none."""
        segments = self.segments()
        at = self.find([id_])[0]
        if at is None:
            raise self.unknown(id_)
        owner, place = at
        return (segments[0] if owner == BASE else segments[-1]), place

    def unknown(self, id_: Any) -> UnknownRuleError:
        """Return the error for an id that no rule has, with a near one if there is any."""
        some: list[Any] = []
        for segment in self.segments():
            some += segment.roster.ids.slice(0, 1000).to_pylist()
        return UnknownRuleError(f"there is no rule {id_!r}{near(id_, some)}")

    # ------------------------------------------------------------ change

    def append(
        self, id_: Any, where: str, bound: Any, weights: Any, payload: Mapping[str, Any] | None
    ) -> None:
        """Add one rule, checked by the caller."""
        self.check_room(1)
        if self.id_type is None:
            self.id_type = pa.string() if isinstance(id_, str) else pa.int64()
        pending = self._pending
        pending.builder.add(self.next_position, bound, weights)
        pending.place_of[id_] = len(pending.ids)
        pending.positions.append(self.next_position)
        pending.ids.append(id_)
        pending.where.append(where)
        pending.payload.append(payload or {})
        self.next_position += 1
        self._merge_if_worth()

    def extend(self, read: RuleTable) -> None:
        """Add the rules of a table, or none if an id is taken or a type does not fit."""
        n = len(read.ids)
        self.check_room(n)
        id_type = self._joined_id_type(read.ids.type)
        index = IdIndex(read.ids)
        self._refuse_taken(read, index)
        payload_schema = self.joined_payload_schema(read.payload.schema)
        # From here on nothing can fail.
        self._freeze()
        self.id_type, self.payload_schema = id_type, payload_schema
        positions = np.arange(self.next_position, self.next_position + n, dtype=np.int32)
        self.next_position += n
        roster = Roster(positions, read.ids, read.where, read.payload.combine_chunks())
        fresh = Segment(roster, Exhaustive.build(read.conjunctions, len(self.schema)), index)
        self.delta = self._joined([self.delta, fresh])
        self._merge_if_worth()

    def remove(self, found: Sequence[tuple[int, int]]) -> None:
        """Remove rules by owner and place, as `find` gives them; none of them twice."""
        for owner, segment in ((BASE, self.base), (DELTA, self.delta)):
            places = [place for who, place in found if who == owner]
            if places and segment is not None:
                segment.remove(np.array(places))
        for owner, place in found:
            if owner == PENDING:
                del self._pending.place_of[self._pending.ids[place]]
        self._merge_if_worth()

    def merge(self) -> None:
        """Make one base of all rules, forgetting what was removed."""
        segments = self.segments()
        if not segments or (segments == [self.base] and not segments[0].removed_rules):
            return
        roster, conjunctions = _survivors(segments)
        conjunctions, self.codes = recoded(conjunctions, self.codes, self.schema)
        self.base, self.delta = None, None
        if len(roster.positions):
            index, _ = chosen_index(self.index)
            self.base = Segment(roster, index.build(conjunctions, len(self.schema)))

    def _merge_if_worth(self) -> None:
        base = len(self.base.roster.positions) if self.base else 0
        delta = len(self.delta.roster.positions) if self.delta else 0
        removed = self.base.removed_rules if self.base else 0
        if delta + len(self._pending.ids) > max(_SMALL, base // _SHARE) or removed > max(
            _SMALL, base // 2
        ):
            self.merge()

    def _freeze(self) -> None:
        """Move pending rules into the delta."""
        pending, self._pending = self._pending, _Pending()
        if not pending.ids:
            return
        stored = pa.int64() if t.is_integer(self.id_type) else pa.large_string()
        roster = pending.roster(stored, self.payload_schema)
        fresh = Segment(roster, Exhaustive.build(pending.builder.build(), len(self.schema)))
        gone = np.ones(len(pending.ids), bool)
        gone[list(pending.place_of.values())] = False
        if gone.any():
            fresh.remove(np.flatnonzero(gone))
        self.delta = self._joined([self.delta, fresh])

    def _joined(self, parts: Sequence[Segment | None]) -> Segment | None:
        """Return one segment, under the exhaustive index, of what was not removed in several."""
        segments = [p for p in parts if p is not None]
        if len(segments) == 1 and not segments[0].removed_rules:
            return segments[0]
        roster, conjunctions = _survivors(segments)
        if not len(roster.positions):
            return None
        return Segment(roster, Exhaustive.build(conjunctions, len(self.schema)))

    # ------------------------------------------------------------ checks

    def check_room(self, n: int) -> None:
        """Raise if n more positions cannot be had."""
        if self.next_position + n > _MOST_POSITIONS:
            raise RuleError(f"positions are used up: {_MOST_POSITIONS:,} rules were added in all")

    def joined_payload_schema(self, given: pa.Schema) -> pa.Schema:
        """Return the payload's columns with further ones; raise if a type differs."""
        try:
            return pa.unify_schemas([self.payload_schema, given], promote_options="default")
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            differs = next(
                c
                for c in given
                if c.name in self.payload_schema.names
                and self.payload_schema.field(c.name).type != c.type
            )
            known = self.payload_schema.field(differs.name).type
            raise RuleError(
                f"payload column {differs.name!r} holds {known} so far, got {differs.type}"
            ) from None

    def _joined_id_type(self, given: pa.DataType) -> pa.DataType:
        if self.id_type is None:
            return pa.int64() if t.is_integer(given) else pa.string()
        if t.is_integer(given) != t.is_integer(self.id_type):
            raise RuleError(f"{self.id_words()}, got a column of type {given}")
        return self.id_type

    def id_words(self) -> str:
        """Say what ids are here."""
        return f"ids here are {'integers' if t.is_integer(self.id_type) else 'texts'}"

    def _refuse_taken(self, read: RuleTable, index: IdIndex) -> None:
        double = index.double()
        if double is not None:
            a, b = (int(read.rows[i]) for i in double)
            id_ = read.ids[double[1]].as_py()
            raise RuleError(f"row {b}: id {id_!r} stands in row {a} already")
        taken = [index.find(id_) for id_ in self._pending.place_of]
        for segment in (self.base, self.delta):
            if segment is not None:
                places = segment.ids.find_many(read.ids)
                hits = np.flatnonzero(places >= 0)
                if len(segment.alive):
                    hits = hits[segment.alive[places[hits]]]
                taken += hits[:1].tolist()
        taken = [place for place in taken if place >= 0]
        if taken:
            place = min(taken)
            raise RuleError(
                f"row {int(read.rows[place])}: rule {read.ids[place].as_py()!r} exists already; "
                "use replace to change it"
            )


def _survivors(segments: Sequence[Segment]) -> tuple[Roster, Any]:
    """Return what was not removed: one roster, and conjunctions in the same order."""
    rosters, conjunctions = [], []
    for segment in segments:
        rules_kept, conjunctions_kept = segment.survivors()
        rosters.append(segment.roster.kept(rules_kept))
        conjunctions.append(kept(segment.conjunctions, conjunctions_kept))
    return joined_rosters(rosters), joined(conjunctions)
