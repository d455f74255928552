"""Rules that change: base, delta, removals and merge, once for all indexes.

The base is immutable under its index. What was added since lies in two small segments:
the *delta*, under an index too, and the *recent* rules, at most 1,024 of them or an eighth
of the delta, under the exhaustive one, which costs next to nothing to build; so additions
seldom rebuild a large delta. What was removed is flagged, in a copy of the flags if someone may
be reading them. A merge makes one base of all
when what was added has reached an eighth of the base, or half of the base is gone: so a
rule takes part in few merges, and memory returns. This is the combined scheme of the
thesis (2.6.5), for everything.

Rules added one at a time wait in lists until someone looks (`segments`), then join the
recent ones; adding n rules between two looks costs n.

Positions number the rules in the order of addition and are never reused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.ids import IdIndex
from tocsin.engine.plan import built_parts, check_index
from tocsin.engine.segment import Indexed, Roster, Segment, joined_rosters
from tocsin.errors import RuleError, UnknownRuleError, is_unicode, near
from tocsin.index.exhaustive import Exhaustive
from tocsin.model.arrow import is_text, refusing
from tocsin.model.categories import recoded
from tocsin.model.conjunctions import Builder, Conjunctions, joined
from tocsin.model.schema import Schema
from tocsin.model.tables import RuleTable

_SMALL = 1024  # rules that may always be recent, or removed
_SHARE = 8  # one rule may have been added for so many of the base
_MOST_POSITIONS = 2**31 - 1

ROLES = ("base", "delta", "recent")
_BASE, _DELTA, _RECENT = range(3)
_PENDING = -1


class Origin(NamedTuple):
    """The version of a store that rules were opened from or last saved as."""

    store: str  # the store's identity
    folder: Path  # where it was
    version: int
    checksum: str  # of the version file
    codes: list[
        dict[str, Any]
    ]  # files of category values that hold the first of these rules' codes


class _Pending:
    """Rules added one at a time since someone looked."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.positions: list[int] = []
        self.ids: list[Any] = []
        self.where: list[str] = []
        self.weights: list[Mapping[int, float]] = []
        self.payload: list[dict[str, Any]] = []
        self.place_of: dict[Any, int] = {}  # of those that were not removed

    def segment(self, id_type: pa.DataType, payload_schema: pa.Schema) -> Segment:
        columns = {
            f.name: pa.array([p.get(f.name) for p in self.payload], f.type) for f in payload_schema
        }
        roster = Roster(
            np.array(self.positions, np.int32),
            pa.array(self.ids, pa.int64() if t.is_integer(id_type) else pa.large_string()),
            pa.array(self.where, pa.large_string()),
            pa.table(columns),
        )
        made = _looked_at(roster, self.builder.build())
        gone = np.ones(len(self.ids), bool)
        gone[list(self.place_of.values())] = False
        if gone.any():
            made.remove(np.flatnonzero(gone))
        return made


class Collection:
    """The rules there are, in segments."""

    def __init__(self, schema: Schema, index: str):
        self.schema = schema
        self.index = index
        check_index(index)
        self.codes: dict[str, int] = {}
        self.next_position = 0
        self.id_type: pa.DataType | None = None
        self.payload_schema = pa.schema([])
        self._parts: list[Segment | None] = [None, None, None]
        self._pending = _Pending()
        self.origin: Origin | None = None

    def restore(
        self,
        parts: list[Segment | None],
        next_position: int,
        id_type: pa.DataType | None,
        payload_schema: pa.Schema,
    ) -> None:
        """Become what was stored: base, delta and recent rules."""
        self._parts = parts
        self.next_position = next_position
        self.id_type, self.payload_schema = id_type, payload_schema

    def copy(self) -> Collection:
        """Return the same rules, to be changed apart."""
        self._freeze()
        twin = Collection(self.schema, self.index)
        twin.codes = dict(self.codes)
        twin.restore(
            [part.copy() if part else None for part in self._parts],
            self.next_position,
            self.id_type,
            self.payload_schema,
        )
        twin.origin = self.origin
        return twin

    def __len__(self) -> int:
        return sum(p.size for p in self._parts if p) + len(self._pending.place_of)

    # ------------------------------------------------------------ look

    def segments(self) -> list[Segment]:
        """Return the segments that together hold all rules, oldest rules first.

        They never change from now on.
        """
        return [segment for _, segment in self.roles()]

    def roles(self) -> list[tuple[str, Segment]]:
        """Return the same with what each is: base, delta or recent."""
        self._freeze()
        found = [(role, p) for role, p in zip(ROLES, self._parts, strict=True) if p]
        for _, segment in found:
            segment.shared = True
        return found

    def live_positions(self) -> np.ndarray:
        """Return the positions of all rules that were not removed, ascending."""
        live = [s.roster.positions[s.survivors()] for s in self.segments()]
        return np.concatenate(live) if live else np.empty(0, np.int32)

    def find(self, ids: Sequence[Any]) -> list[tuple[int, int] | None]:
        """Return for each id who holds it and at which place, as `remove` wants it, or None."""
        found: list[tuple[int, int] | None] = [None] * len(ids)
        if self.id_type is None:
            return found
        usable = _can_be_integer if t.is_integer(self.id_type) else _can_be_text
        asked = [i for i, id_ in enumerate(ids) if usable(id_)]
        if not asked:
            return found
        for i in asked:
            place = self._pending.place_of.get(ids[i])
            if place is not None:
                found[i] = _PENDING, place
        wanted = None
        for owner, part in enumerate(self._parts):
            if part is None:
                continue
            if wanted is None:
                wanted = pa.array([ids[i] for i in asked], part.roster.ids.type)
            for i, place in zip(asked, part.ids.find_many(wanted).tolist(), strict=True):
                if place >= 0 and part.is_alive(place):
                    found[i] = owner, place
        return found

    def locate(self, id_: Any) -> tuple[Segment, int]:
        """Return the segment that holds a rule and its place there; raise if there is none."""
        self._freeze()
        at = self.find([id_])[0]
        if at is None:
            raise self.unknown(id_)
        return self._part(at[0]), at[1]

    def _part(self, owner: int) -> Segment:
        part = self._parts[owner]
        assert part is not None
        return part

    def weights_and_payload(
        self, at: tuple[int, int]
    ) -> tuple[Mapping[int, float], Mapping[str, Any]]:
        """Return the weights (by attribute) and the payload of a rule that `find` has found."""
        owner, place = at
        if owner != _PENDING:
            return self._part(owner).weights_and_payload(place)
        return self._pending.weights[place], self._pending.payload[place]

    def unknown(self, id_: Any) -> UnknownRuleError:
        """Return the error for an id that no rule has, with a near one if there is any."""
        some: list[Any] = list(self._pending.place_of)[:100]
        for part in self._parts:
            if part is not None:
                alive = np.flatnonzero(part.survivors())[:300]
                some += part.roster.ids.take(pa.array(alive)).to_pylist()
        return UnknownRuleError(f"there is no rule {id_!r}{near(id_, some)}")

    # ------------------------------------------------------------ change

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Forget the category codes that were given inside, if what is inside fails."""
        before = len(self.codes)
        try:
            yield
        except BaseException:
            while len(self.codes) > before:
                self.codes.popitem()
            raise

    def append(
        self,
        id_: Any,
        where: str,
        bound: Any,
        weights: Any,
        payload: Mapping[str, Any] | None,
        instead_of: tuple[int, int] | None = None,
    ) -> None:
        """Add one rule, checked by the caller, instead of another if one is named (see `find`)."""
        if instead_of is not None:
            # No merge in between: it may give codes anew, and `bound` has those of now.
            self._flag([instead_of])
        if self.id_type is None:
            self.id_type = pa.string() if isinstance(id_, str) else pa.int64()
        pending = self._pending
        pending.builder.add(self.next_position, bound, weights)
        pending.place_of[id_] = len(pending.ids)
        pending.positions.append(self.next_position)
        pending.ids.append(id_)
        pending.where.append(where)
        pending.weights.append(weights or {})
        pending.payload.append(dict(payload or {}))
        self.next_position += 1
        self._merge_if_worth()

    def extend(self, read: RuleTable) -> None:
        """Add the rules of a table, or none if an id is taken or a type does not fit."""
        n = len(read.ids)
        self.check_room(n)
        id_type = self._joined_id_type(read.id_type)
        index = IdIndex(read.ids)
        self._refuse_taken(read, index)
        payload_schema = self.joined_payload_schema(read.payload)
        positions = np.arange(self.next_position, self.next_position + n, dtype=np.int32)
        roster = Roster(positions, read.ids, read.where, read.payload)
        self._freeze()
        fresh = _looked_at(roster, read.conjunctions, index)
        base, delta, recent = (len(p.roster.positions) if p else 0 for p in self._parts)
        # A table is most often all there is. If there is to be a merge, nothing needs an index
        # before it.
        merging = base == 0 or delta + recent + n > max(_SMALL, base // _SHARE)
        if merging:
            added = [_one_of([*self._parts[_DELTA:], fresh]), None]
        else:
            added = self._added(fresh)
        # From here on nothing can fail but a merge, which leaves all as it is.
        self._parts[_DELTA:] = added
        self.id_type, self.payload_schema = id_type, payload_schema
        self.next_position += n
        if merging:
            self.merge()
        else:
            self._merge_if_worth()

    def remove(self, found: Sequence[tuple[int, int]]) -> None:
        """Remove rules by owner and place, as `find` gives them; none of them twice."""
        self._flag(found)
        self._merge_if_worth()

    def _flag(self, found: Sequence[tuple[int, int]]) -> None:
        for owner, part in enumerate(self._parts):
            places = [place for who, place in found if who == owner]
            if places and part is not None:
                if part.shared:
                    part = self._parts[owner] = part.copy()
                part.remove(np.array(places))
        for owner, place in found:
            if owner == _PENDING:
                del self._pending.place_of[self._pending.ids[place]]

    def merge(self) -> None:
        """Make one base of all rules, forgetting what was removed."""
        segments = self.segments()
        if segments == [self._parts[_BASE]] and not segments[0].removed_rules:
            return
        if not len(self):
            self._parts, self.codes = [None, None, None], {}
            self._forget_stored_codes()
            self.id_type, self.payload_schema = None, pa.schema([])
            return
        roster, conjunctions = _survivors(segments)
        conjunctions, codes = recoded(conjunctions, self.codes, self.schema)
        if codes is not self.codes:
            self._forget_stored_codes()
        parts = built_parts(self.index, conjunctions, self.schema.floats())
        self._parts, self.codes = [Segment(roster, parts), None, None], codes

    def _forget_stored_codes(self) -> None:
        """Note that what the store has of codes is out of date."""
        if self.origin:
            self.origin = self.origin._replace(codes=[])

    def _merge_if_worth(self) -> None:
        base, delta, recent = (len(p.roster.positions) if p else 0 for p in self._parts)
        added = delta + recent + len(self._pending.ids)
        removed = sum(p.removed_rules for p in self._parts[:_DELTA] if p)
        if added > max(_SMALL, base // _SHARE) or removed > max(_SMALL, base // 2):
            self.merge()

    def _freeze(self) -> None:
        """Move pending rules into a segment."""
        if self._pending.ids:
            fresh = self._pending.segment(self.id_type, self.payload_schema)
            self._parts[_DELTA:] = self._added(fresh)
            self._pending = _Pending()

    def _added(self, fresh: Segment) -> list[Segment | None]:
        """Return what delta and recent become with a further segment."""
        delta, recent = self._parts[_DELTA], self._parts[_RECENT]
        recent = _one_of([recent, fresh])
        few = max(_SMALL, len(delta.roster.positions) // _SHARE if delta else 0)
        if recent is None or len(recent.roster.positions) <= few:
            return [delta, recent]
        # A delta can be an eighth of the base, too much to look at one by one.
        roster, conjunctions = _survivors([s for s in (delta, recent) if s is not None])
        parts = built_parts(self.index, conjunctions, self.schema.floats())
        return [Segment(roster, parts), None]

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
        shared = [column for column in given.schema if column.name in known.names]
        for column in shared:
            before = known.field(column.name)
            what = f"payload column {column.name!r} holds {before.type} so far, got {column.type}"
            with refusing(RuleError, what):
                joined = pa.unify_schemas(
                    [pa.schema([before]), pa.schema([column])], promote_options="permissive"
                )
                if joined.types[0] != column.type:
                    given.column(column.name).cast(joined.types[0])
                if joined.types[0] != before.type:
                    for part in filter(None, self._parts):
                        part.roster.payload_as(joined)
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
            raise RuleError(f"row {b}: id {id_!r} stands in row {a} already")
        taken = [index.find(id_) for id_ in self._pending.place_of]
        for part in self._parts:
            if part is not None:
                places = part.ids.find_many(read.ids)
                hits = np.flatnonzero(places >= 0)
                if len(part.alive):
                    hits = hits[part.alive[places[hits]]]
                taken += hits[:1].tolist()
        taken = [place for place in taken if place >= 0]
        if taken:
            place = min(taken)
            raise RuleError(
                f"row {int(read.rows[place])}: rule {read.ids[place].as_py()!r} exists already; "
                "use replace to change it"
            )


def _can_be_integer(id_: Any) -> bool:
    return type(id_) is int and -(2**63) <= id_ < 2**63


def _can_be_text(id_: Any) -> bool:
    return type(id_) is str and is_unicode(id_)


def _one_of(parts: Sequence[Segment | None]) -> Segment | None:
    """Return one segment, under the exhaustive index, of what was not removed in several."""
    segments = [p for p in parts if p is not None]
    if len(segments) == 1 and not segments[0].removed_rules:
        return segments[0]
    roster, conjunctions = _survivors(segments)
    if not len(roster.positions):
        return None
    return _looked_at(roster, conjunctions)


def _looked_at(roster: Roster, conjunctions: Conjunctions, ids: IdIndex | None = None) -> Segment:
    """Return a segment under the exhaustive index."""
    return Segment(roster, [Indexed(Exhaustive.build(conjunctions))], ids)


def _survivors(segments: Sequence[Segment]) -> tuple[Roster, Conjunctions]:
    """Return what was not removed: one roster, and conjunctions in the same order."""
    rosters = [segment.roster.kept(segment.survivors()) for segment in segments]
    conjunctions = [segment.surviving_conjunctions() for segment in segments]
    return joined_rosters(rosters), joined(conjunctions)
