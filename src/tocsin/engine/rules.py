"""Rules: the public face of matching in one process.

Change lives here, once for all indexes: an immutable base, a small delta for what was
added since (exhaustive: it costs nothing to build), flags for what was removed, and a
merge when the delta or the removals are worth it. Adding or removing one rule costs
microseconds; a merge costs a build, and comes when the delta has reached an eighth of
the base, so that a rule takes part in few of them.

Positions number the rules in the order of addition and are never reused; a rule that is
replaced comes last.

One thread may change rules while others match: a match sees the rules as they were when
it began, and of removals made meanwhile some or all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.explain import Explanation, condition_text, explained
from tocsin.engine.ids import IdIndex
from tocsin.engine.matching import Run, event_weights
from tocsin.engine.plan import Part, Plan, chosen_index
from tocsin.engine.segment import Names, Roster, Segment, joined_rosters
from tocsin.errors import RuleError, TocsinError, UnknownRuleError, near
from tocsin.index.exhaustive import Exhaustive
from tocsin.model.categories import recoded
from tocsin.model.condition import Conditions
from tocsin.model.conjunctions import Builder, joined, kept
from tocsin.model.events import Events
from tocsin.model.matches import Matches
from tocsin.model.schema import Schema
from tocsin.model.tables import RuleTable, read_rules
from tocsin.model.weights import checked_weights

_SMALL = 1024  # rules that a delta may always hold
_SHARE = 8  # a delta may hold one for so many rules of the base
_MOST_POSITIONS = 2**31 - 1
_NO_PAYLOAD = pa.table({})


@dataclass(frozen=True)
class Rule:
    """One rule, as it was given."""

    id: Any
    where: str
    weights: dict[str, float] = field(default_factory=dict)
    payload: dict[str, Any] = field(default_factory=dict)


class _Pending:
    """Rules added one at a time since the delta was last frozen."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.positions: list[int] = []
        self.ids: list[Any] = []
        self.where: list[str] = []
        self.payload: list[dict[str, Any]] = []
        self.removed: set[int] = set()

    def roster(self, id_type: pa.DataType, payload_schema: pa.Schema) -> Roster:
        columns = {
            f.name: pa.array([p.get(f.name) for p in self.payload], f.type) for f in payload_schema
        }
        payload = pa.table(columns) if columns else _empty_rows(len(self.ids))
        return Roster(
            np.array(self.positions, np.int32),
            pa.array(self.ids, id_type),
            pa.array(self.where, pa.large_string()),
            payload,
        )


class Rules:
    """Standing queries: add conditions, then ask which of them events satisfy.

    Parameters
    ----------
    schema
        A `Schema`, or what one is made from: a dict of names and kinds, an Arrow schema,
        a Spark `StructType`.
    index
        Which index holds the rules; "auto" chooses by what they look like.

    >>> rules = Rules({"x": "number", "tier": "category"})
    >>> rules.add("cheap", "x BETWEEN 3 AND 8")
    >>> rules.add("gold", "tier IN ('gold', 'black') AND x > 5", weights={"tier": 0.6})
    >>> rules.match([{"x": 4}, {"x": 7, "tier": "gold"}])
    Matches: 3 pairs; 2 of 2 events matched
      event 0: 'cheap'
      event 1: 'cheap'
      event 1: 'gold'
    """

    def __init__(self, schema: Any, index: str = "auto"):
        self.schema = schema if isinstance(schema, Schema) else Schema(schema)
        self._index_name = index
        chosen_index(index)
        self._lock = threading.RLock()
        self._conditions = Conditions(self.schema)
        self._codes: dict[str, int] = {}
        self._base: Segment | None = None
        self._delta: Segment | None = None
        self._pending = _Pending()
        self._pending_places: dict[Any, int] = {}  # ids added singly -> position
        self._next = 0
        self._id_type: pa.DataType | None = None
        self._payload_schema = pa.schema([])

    # ------------------------------------------------------------ change

    def add(
        self,
        id: Any,
        where: str,
        weights: Mapping[str, float] | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a rule.

        `id` is a text or an integer that no other rule has; `where` a condition; `weights`
        say how much each attribute counts in `top` (1 where nothing is said); `payload` is
        yours.
        """
        with self._lock:
            id = self._checked_id(id)
            if self._exists(id):
                raise RuleError(f"rule {id!r} exists already; use replace to change it")
            self._add(id, where, weights, payload)
            self._merge_if_worth()

    def replace(
        self,
        id: Any,
        where: str,
        weights: Mapping[str, float] | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        """Give a rule a new condition, weights and payload; it then comes last."""
        with self._lock:
            id = self._checked_id(id)
            if not self._exists(id):
                raise self._unknown(id)
            self._add(id, where, weights, payload, instead=True)
            self._merge_if_worth()

    def add_many(self, table: Any) -> None:
        """Add the rules of a table: all of them, or none if any is wrong.

        The table is anything that speaks Arrow, or a list of dicts, in one of three forms
        (further columns are payload):

        * text: `id`, `where`, optionally `weights` (a map from attribute to weight)
        * boxes: `id`, `x_low`, `x_high`, `y_low`, ...; both ends included, null is
          unbounded, and an attribute with neither end is not tested
        * long: `id`, `attribute`, `low`, `high`, optionally `weight`; a row per predicate,
          all rows of an id are one rule
        """
        with self._lock:
            read = read_rules(table, self._conditions, self._codes, self._next)
            n = len(read.ids)
            if not n:
                return
            self._check_room(n)
            id_type = self._checked_id_type(read.ids.type)
            index = IdIndex(read.ids)
            self._refuse_doubles(read, index)
            payload_schema = self._joined_payload_schema(read.payload.schema)
            # From here on nothing can fail.
            self._freeze()
            positions = np.arange(self._next, self._next + n, dtype=np.int32)
            roster = Roster(positions, read.ids, read.where, read.payload.combine_chunks())
            self._id_type, self._payload_schema = id_type, payload_schema
            self._next += n
            fresh = Segment(roster, Exhaustive.build(read.conjunctions, len(self.schema)))
            if self._base is None and self._delta is None and self._index() is Exhaustive:
                fresh.__dict__["ids"] = index
                self._base = fresh
                return
            self._delta = self._merged([self._delta, fresh], Exhaustive)
            self._merge_if_worth()

    def remove(self, id: Any) -> None:
        """Remove a rule; it never matches again."""
        self.remove_many([id])

    def remove_many(self, ids: Iterable[Any]) -> None:
        """Remove rules by id: all of them, or none if any is unknown."""
        with self._lock:
            by_owner: dict[int, list[int]] = {0: [], 1: [], 2: []}
            asked = list(ids.to_pylist() if hasattr(ids, "to_pylist") else ids)
            seen: set[Any] = set()
            for id_, (owner, place) in zip(asked, self._find_many(asked), strict=True):
                if owner is None:
                    raise self._unknown(id_)
                if id_ in seen:
                    raise RuleError(f"rule {id_!r} is to be removed twice")
                seen.add(id_)
                by_owner[owner].append(place)
            if by_owner[0]:
                self._base.remove(np.array(by_owner[0]))  # type: ignore[union-attr]
            if by_owner[1]:
                self._delta.remove(np.array(by_owner[1]))  # type: ignore[union-attr]
            for id_ in seen if by_owner[2] else ():
                position = self._pending_places.pop(id_, None)
                if position is not None:
                    self._pending.removed.add(position)
            self._merge_if_worth()

    def merge(self) -> None:
        """Build one base of all rules, forgetting what was removed; it also happens by itself."""
        with self._lock:
            self._freeze()
            parts = [s for s in (self._base, self._delta) if s is not None]
            if len(parts) == 1 and not parts[0].removed_rules and parts[0] is self._base:
                return
            merged = self._merged(parts, self._index(), forget=True)
            self._base, self._delta = merged, None

    # ------------------------------------------------------------ look

    def __len__(self) -> int:
        parts = (s.size for s in (self._base, self._delta) if s is not None)
        return sum(parts) + len(self._pending_places)

    def __contains__(self, id: object) -> bool:
        with self._lock:
            return self._exists(id)

    def __iter__(self) -> Iterator[Any]:
        """Yield the ids in the order of addition."""
        with self._lock:
            segments = self._segments()
        for segment in segments:
            rules, _ = segment.survivors()
            yield from segment.roster.ids.filter(pa.array(rules)).to_pylist()

    def __getitem__(self, id: Any) -> Rule:
        with self._lock:
            segment, place = self._located(id)
            c = segment.conjunctions
            weights: dict[str, float] = {}
            first, stop = c.of_rule(int(segment.roster.positions[place]))
            if len(c.weight):
                for row in range(int(c.offsets[first]), int(c.offsets[stop])):
                    if c.weight[row] != 1.0:
                        weights[self.schema.name(int(c.attribute[row]))] = float(c.weight[row])
            row = segment.roster.payload.slice(place, 1).to_pylist()
            payload = {k: v for k, v in (row[0] if row else {}).items() if v is not None}
            where = condition_text(segment, place, self.schema, self._texts())
            return Rule(segment.roster.ids[place].as_py(), where, weights, payload)

    def plan(self) -> Plan:
        """Return which index holds what, and why; it prints as a sentence each."""
        with self._lock:
            self._freeze()
            parts = []
            _, why = chosen_index(self._index_name)
            for role, segment in (("base", self._base), ("delta", self._delta)):
                if segment is not None:
                    parts.append(
                        Part(
                            role,
                            segment.index.name,
                            len(segment.roster.positions),
                            segment.conjunctions.size,
                            segment.removed_rules,
                            segment.nbytes,
                            why if role == "base" else "added since the last merge",
                        )
                    )
            return Plan(tuple(parts))

    @property
    def nbytes(self) -> int:
        """Bytes of conjunctions and indexes, besides ids, texts and payload."""
        with self._lock:
            return sum(s.nbytes for s in self._segments())

    def __repr__(self) -> str:
        return f"Rules({len(self):,} rules over {self.schema!r})"

    # ------------------------------------------------------------ match

    def match(self, events: Any) -> Matches:
        """Return which rules each event satisfies.

        `events` is a dict, a list of dicts, or anything that speaks Arrow (pyarrow, pandas,
        polars, duckdb). A column of map type holds sparse attributes by name.
        """
        return self._run(events).match()

    def match_blocks(self, events: Any) -> Iterator[Matches]:
        """Yield the same matches in blocks of events whose memory is reused.

        The fastest way through many matches. A block's arrays are valid until the next one
        is asked for: copy what you keep.
        """
        return self._run(events).blocks()

    def count(self, events: Any) -> np.ndarray:
        """Return how many rules each event satisfies, int64[n_events]; no pairs are made."""
        return self._run(events).count()

    def top(self, events: Any, k: int = 5, weights: Any = None) -> Matches:
        """Return the k most relevant rules of each event, best first, with their scores.

        A rule scores the sum of rule weight x event weight over the attributes that its
        condition tests, the best of its alternatives; weights that are not given are 1, and
        IS NULL adds nothing. Ties go to the rule added first. `weights` are the events': a
        dict for all of them, or a list with a dict for each.
        """
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise RuleError(f"k must be an integer, 1 or more; got {k!r}")
        run = self._run(events)
        return run.top(int(k), event_weights(weights, len(run.events), self.schema))

    def explain(self, event: Any, id: Any) -> Explanation:
        """Return why a rule matches one event, or why not, predicate by predicate."""
        with self._lock:
            segment, place = self._located(id)
            run = self._run(event)
            if len(run.events) != 1:
                raise RuleError(f"explain takes one event, got {len(run.events)}")
            position = segment.roster.positions[place]
            matched = position in run.match().rules
            return explained(segment, place, matched, self.schema, run.events, self._texts())

    # ------------------------------------------------------------ inside

    def _run(self, events: Any) -> Run:
        with self._lock:
            segments = self._segments()
            codes = self._codes
            names = Names(segments, self._id_type or pa.string())
        used = sorted({int(a) for s in segments for a in s.attributes})
        return Run(segments, names, self.schema, Events.read(events, self.schema, used, codes))

    def _segments(self) -> list[Segment]:
        self._freeze()
        return [s for s in (self._base, self._delta) if s is not None]

    def _index(self) -> Any:
        return chosen_index(self._index_name)[0]

    def _add(
        self, id: Any, where: str, weights: Any, payload: Any, instead: bool = False
    ) -> None:
        try:
            bound, attributes = self._conditions.read(where, self._codes)
            by_attribute = (
                checked_weights(weights, attributes, self.schema) if weights is not None else None
            )
            payload_schema = self._payload_schema
            if payload is not None:
                payload_schema = self._joined_payload_schema(_schema_of(payload))
        except TocsinError as error:
            raise error.at(f"rule {id!r}") from None
        self._check_room(1)
        if instead:
            self.remove(id)
        self._payload_schema = payload_schema
        if self._id_type is None:
            self._id_type = pa.string() if isinstance(id, str) else pa.int64()
        self._pending.builder.add(self._next, bound, by_attribute)
        self._pending.positions.append(self._next)
        self._pending.ids.append(id)
        self._pending.where.append(where)
        self._pending.payload.append(dict(payload or {}))
        self._pending_places[id] = self._next
        self._next += 1

    def _freeze(self) -> None:
        """Move pending rules into the delta."""
        if not self._pending.ids:
            return
        pending, self._pending = self._pending, _Pending()
        assert self._id_type is not None
        roster = pending.roster(_stored_type(self._id_type), self._payload_schema)
        fresh = Segment(roster, Exhaustive.build(pending.builder.build(), len(self.schema)))
        if pending.removed:
            gone = np.searchsorted(roster.positions, sorted(pending.removed))
            fresh.remove(gone)
        self._pending_places = {}
        self._delta = self._merged([self._delta, fresh], Exhaustive)

    def _merged(
        self, parts: list[Segment | None], index: Any, forget: bool = False
    ) -> Segment | None:
        """Return one segment of what was not removed in several."""
        present = [p for p in parts if p is not None]
        if len(present) == 1 and not present[0].removed_rules and not forget:
            return present[0]
        rosters, conjunctions = [], []
        for part in present:
            rules_kept, conjunctions_kept = part.survivors()
            rosters.append(part.roster.kept(rules_kept))
            conjunctions.append(kept(part.conjunctions, conjunctions_kept))
        roster, made = joined_rosters(rosters), joined(conjunctions)
        if not len(roster.positions):
            return None
        if forget:
            made, self._codes = recoded(made, self._codes, self.schema)
        return Segment(roster, index.build(made, len(self.schema)))

    def _merge_if_worth(self) -> None:
        base = len(self._base.roster.positions) if self._base else 0
        delta = len(self._pending.ids) + (
            len(self._delta.roster.positions) if self._delta else 0
        )
        removed = self._base.removed_rules if self._base else 0
        if delta > max(_SMALL, base // _SHARE) or removed > max(_SMALL, base // 2):
            self.merge()

    # ids

    def _checked_id(self, id: Any) -> Any:
        if isinstance(id, np.generic):
            id = id.item()
        if id is None:
            raise RuleError("the id is null; every rule needs an id")
        if isinstance(id, bool) or not isinstance(id, int | str):
            raise RuleError(f"an id must be a text or an integer, got {type(id).__name__} {id!r}")
        if isinstance(id, int) and not -(2**63) <= id < 2**63:
            raise RuleError(f"the id {id} does not fit 64 bits")
        if self._id_type is not None and isinstance(id, int) != t.is_integer(self._id_type):
            raise RuleError(
                f"ids here are {'integers' if t.is_integer(self._id_type) else 'texts'}, "
                f"got {type(id).__name__} {id!r}"
            )
        if self._id_type is not None and t.is_integer(self._id_type):
            self._id_type = pa.int64() if self._id_type != pa.int64() else self._id_type
        return id

    def _checked_id_type(self, given: pa.DataType) -> pa.DataType:
        if self._id_type is None:
            return pa.int64() if t.is_integer(given) else pa.string()
        if t.is_integer(given) != t.is_integer(self._id_type):
            raise RuleError(
                f"ids here are {'integers' if t.is_integer(self._id_type) else 'texts'}, "
                f"got a column of type {given}"
            )
        return self._id_type

    def _refuse_doubles(self, read: RuleTable, index: IdIndex) -> None:
        double = index.double()
        if double is not None:
            a, b = (int(read.rows[i]) for i in double)
            raise RuleError(
                f"row {b}: id {read.ids[double[1]].as_py()!r} stands in row {a} already"
            )
        for segment in (self._base, self._delta):
            if segment is None:
                continue
            places = segment.ids.find_many(read.ids)
            hits = np.flatnonzero(places >= 0)
            if len(hits) and len(segment.alive):
                hits = hits[segment.alive[places[hits]]]
            if len(hits):
                self._fail_double(read, int(hits[0]))
        for id_ in self._pending_places:
            place = index.find(id_)
            if place >= 0:
                self._fail_double(read, place)

    def _fail_double(self, read: RuleTable, place: int) -> None:
        raise RuleError(
            f"row {int(read.rows[place])}: rule {read.ids[place].as_py()!r} exists already; "
            "use replace to change it"
        )

    def _find_many(self, ids: list[Any]) -> list[tuple[int | None, int]]:
        """Return for each id who holds it (0 base, 1 delta, 2 pending, None) and where."""
        found: list[tuple[int | None, int]] = [(None, -1)] * len(ids)
        integers = self._id_type is not None and t.is_integer(self._id_type)
        usable = [
            i
            for i, id_ in enumerate(ids)
            if isinstance(id_, int if integers else str) and not isinstance(id_, bool)
        ]
        for owner, segment in enumerate((self._base, self._delta)):
            if segment is None or not usable:
                continue
            places = segment.ids.find_many(
                pa.array([ids[i] for i in usable], segment.roster.ids.type)
            )
            for i, place in zip(usable, places.tolist(), strict=True):
                if place >= 0 and segment.is_alive(place):
                    found[i] = owner, place
        for i in usable:
            if ids[i] in self._pending_places:
                found[i] = 2, self._pending_places[ids[i]]
        return found

    def _exists(self, id_: Any) -> bool:
        return self._find_many([id_])[0][0] is not None

    def _located(self, id_: Any) -> tuple[Segment, int]:
        """Return the segment of a rule and its place there; raise if there is none."""
        self._freeze()
        owner, place = self._find_many([id_])[0]
        if owner is None:
            raise self._unknown(id_)
        segment = (self._base, self._delta)[owner]
        assert segment is not None
        return segment, place

    def _unknown(self, id_: Any) -> UnknownRuleError:
        some = []
        for segment in self._segments():
            some += segment.roster.ids.slice(0, 1000).to_pylist()
        return UnknownRuleError(f"there is no rule {id_!r}{near(id_, some)}")

    def _check_room(self, n: int) -> None:
        if self._next + n > _MOST_POSITIONS:
            raise RuleError(f"positions are used up: at most {_MOST_POSITIONS:,} rules can be added")

    # payload

    def _joined_payload_schema(self, given: pa.Schema) -> pa.Schema:
        try:
            return pa.unify_schemas([self._payload_schema, given], promote_options="default")
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            for column in given:
                at = self._payload_schema.get_field_index(column.name)
                if at >= 0 and self._payload_schema.field(at).type != column.type:
                    raise RuleError(
                        f"payload column {column.name!r} holds "
                        f"{self._payload_schema.field(at).type} so far, got {column.type}"
                    ) from None
            raise

    def _texts(self) -> dict[int, str]:
        return {code: text for text, code in self._codes.items()}


def _schema_of(payload: Any) -> pa.Schema:
    if not isinstance(payload, Mapping) or not all(isinstance(k, str) for k in payload):
        raise RuleError(f"payload must be a dict with names as keys, got {payload!r}")
    try:
        return pa.schema([(k, pa.array([v]).type) for k, v in payload.items()])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise RuleError(f"payload has a value that Arrow cannot hold: {error}") from None


def _stored_type(id_type: pa.DataType) -> pa.DataType:
    return pa.int64() if t.is_integer(id_type) else pa.large_string()


def _empty_rows(n: int) -> pa.Table:
    return pa.table({"x": pa.nulls(n)}).select([])


