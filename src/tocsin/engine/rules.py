"""Rules: the public face of matching in one process.

One thread may change rules while others match: a match sees the rules as they were when
it began, all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.collection import Collection
from tocsin.engine.explain import Explanation, alone_of, condition_text, explained
from tocsin.engine.matching import Run, event_weights
from tocsin.engine.plan import Part, Plan
from tocsin.engine.segment import Rosters, Segment
from tocsin.engine.store_folder import StoreFolder
from tocsin.errors import EventError, RuleError, TocsinError, is_unicode
from tocsin.model.arrow import refusing
from tocsin.model.condition import Conditions
from tocsin.model.events import Events
from tocsin.model.matches import Matches
from tocsin.model.schema import Schema
from tocsin.model.tables import read_rules
from tocsin.model.weights import checked_weights


@dataclass(frozen=True)
class Rule:
    """One rule; weights that are 1 and payload that is null are left out."""

    id: Any
    where: str
    weights: dict[str, float] = field(default_factory=dict)
    payload: dict[str, Any] = field(default_factory=dict)


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
        self._rules = Collection(self.schema, index)
        self._conditions = Conditions(self.schema)
        self._lock = threading.RLock()
        self._asked: tuple[list[list[int]], dict[int, int]] = [], {}

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
            if self._rules.find([id])[0] is not None:
                raise RuleError(f"rule {id!r} exists already; use replace to change it")
            self._rules.check_room(1)
            checked = self._checked(id, where, weights, payload)
            self._rules.append(id, where, *checked)

    def replace(
        self,
        id: Any,
        where: str,
        weights: Mapping[str, float] | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        """Give a rule a new condition; it then comes last.

        Weights and payload stay as they are unless given, but for weights of attributes that the
        new condition does not test; `{}` removes them.
        """
        with self._lock:
            id = self._checked_id(id)
            found = self._rules.find([id])[0]
            if found is None:
                raise self._rules.unknown(id)
            self._rules.check_room(1)
            bound, checked_weights, payload = self._checked(id, where, weights, payload)
            old_weights, old_payload = self._rules.weights_and_payload(found)
            if weights is None:
                tested = {attribute for conjunction in bound for attribute, _ in conjunction}
                checked_weights = {a: w for a, w in old_weights.items() if a in tested}
            self._rules.append(
                id,
                where,
                bound,
                checked_weights,
                old_payload if payload is None else payload,
                instead_of=found,
            )

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
            rules = self._rules
            with rules.all_or_nothing():
                read = read_rules(table, self._conditions, rules.codes, rules.next_position)
                if len(read.ids):
                    rules.extend(read)

    def remove(self, id: Any) -> None:
        """Remove a rule; it never matches again."""
        self.remove_many([id])

    def remove_many(self, ids: Iterable[Any]) -> None:
        """Remove rules by id: all of them, or none if any is unknown."""
        if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
            raise RuleError(f"remove_many takes several ids, got {ids!r}; use remove for one")
        with self._lock:
            asked = list(map(_plain_id, ids.to_pylist() if hasattr(ids, "to_pylist") else ids))
            found = []
            seen: set[Any] = set()
            for id_, at in zip(asked, self._rules.find(asked), strict=True):
                if at is None:
                    raise self._rules.unknown(id_)
                if id_ in seen:
                    raise RuleError(f"rule {id_!r} is to be removed twice")
                seen.add(id_)
                found.append(at)
            self._rules.remove(found)

    def merge(self) -> None:
        """Build one base of all rules, forgetting what was removed; it also happens by itself."""
        with self._lock:
            self._rules.merge()

    # ------------------------------------------------------------ look

    def __len__(self) -> int:
        return len(self._rules)

    def __contains__(self, id: object) -> bool:
        with self._lock:
            return self._rules.find([_plain_id(id)])[0] is not None

    def __iter__(self) -> Iterator[Any]:
        """Yield the ids in the order of addition."""
        with self._lock:
            segments = self._rules.segments()
        for segment in segments:
            yield from segment.roster.ids.filter(pa.array(segment.survivors())).to_pylist()

    def __getitem__(self, id: Any) -> Rule:
        with self._lock:
            segment, place = self._rules.locate(_plain_id(id))
            weights, payload = segment.weights_and_payload(place)
            where = condition_text(segment, place, self.schema, self._rules.codes)
            named = {self.schema.name(attribute): weight for attribute, weight in weights.items()}
            return Rule(segment.roster.ids[place].as_py(), where, named, payload)

    def plan(self) -> Plan:
        """Return which index holds what, and why; it prints as a sentence each."""
        with self._lock:
            told = []
            for role, segment in self._rules.roles():
                counts = np.array([part.counts() for part in segment.parts])
                # With the first part, what is in none: rules that nothing satisfies, the roster.
                of_all = len(segment.roster.positions), segment.removed_rules, segment.nbytes
                counts[0] += of_all - counts.sum(axis=0)
                for part, (rules, removed, nbytes) in zip(segment.parts, counts.tolist()):
                    common = part.common_attributes() if len(segment.parts) > 1 else []
                    told.append(
                        Part(
                            role,
                            part.index.name,
                            tuple(map(self.schema.name, common)),
                            rules,
                            part.conjunctions.size,
                            removed,
                            nbytes,
                            part.why if role == "base" else "added since the last merge",
                        )
                    )
            return Plan(tuple(told))

    @property
    def id_type(self) -> pa.DataType | None:
        """The Arrow type of the ids, None while there are no rules."""
        return self._rules.id_type

    @property
    def payload_schema(self) -> pa.Schema:
        """The columns of the rules' payload."""
        return self._rules.payload_schema

    def tested(self) -> list[str]:
        """Return the names of the attributes that some rule tests, in the schema's order."""
        with self._lock:
            used = {a for s in self._rules.segments() for a in s.attributes}
        return [self.schema.name(a) for a in sorted(used)]

    def copy(self) -> Rules:
        """Return the same rules, to be changed apart; what is large and immutable is shared."""
        with self._lock:
            twin = type(self)(self.schema, self._rules.index)
            twin._rules = self._rules.copy()
            return twin

    @property
    def nbytes(self) -> int:
        """Bytes of conjunctions and indexes, besides ids, texts and payload."""
        with self._lock:
            return sum(s.nbytes for s in self._rules.segments())

    def __repr__(self) -> str:
        rules = f"{len(self):,} rule{'s' * (len(self) != 1)}"
        return f"Rules({rules} over {self.schema!r})"

    # ------------------------------------------------------------ match

    def match(self, events: Any) -> Matches:
        """Return which rules each event satisfies.

        `events` is a dict, a list of dicts, or anything that speaks Arrow (pyarrow, pandas,
        polars, duckdb). A column of map type holds sparse attributes by name. A struct or dict
        of `low` and `high` is a range: some value in it must satisfy a predicate.
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

    def explain(
        self, event: Any, id: Any, weights: Mapping[str, float] | None = None
    ) -> Explanation:
        """Return why a rule matches one event, or why not, predicate by predicate.

        Where the rule has weights, or the event is given some, as for `top`, also what each
        predicate adds to the score.
        """
        with self._lock:
            alone = alone_of(*self._rules.locate(_plain_id(id)))
            run = self._run(event, [alone])
            if len(run.events) != 1:
                raise RuleError(f"explain takes one event, got {len(run.events)}")
            if weights is not None and not isinstance(weights, Mapping):
                raise EventError(f"weights of the event must be a dict, got {weights!r}")
            of_event = event_weights(weights, 1, self.schema)
            matched = run.top(1, of_event)
            line = None if weights is None else of_event.common
            return explained(alone, matched, self.schema, run.events, self._rules.codes, line)

    # ------------------------------------------------------------ store

    def save(self, path: Any) -> int:
        """Write these rules to a rule store as its next version, and return that version's number.

        A store is a folder; it is made if there is none. Only what changed since the rules were
        opened there, or saved there before, is written. If someone else has published since,
        nothing is written and a `StoreConflictError` says so. Rules that come from elsewhere take
        the place of those that the store has.
        """
        with self._lock:
            return StoreFolder(path).publish(self._rules)

    @classmethod
    def open(cls, path: Any, version: int | None = None, verify: bool = True) -> Rules:
        """Return the rules of a rule store, at its current version or an older one.

        Everything is checked against its checksums, unless `verify` is false. What is returned
        is yours to change; nobody else sees that until it is saved.
        """
        collection = StoreFolder(path).open(version, verify)
        rules = cls(collection.schema, collection.index)
        rules._rules = collection
        return rules

    @property
    def version(self) -> int | None:
        """The version of the store that these rules were opened from or last saved as."""
        return self._rules.origin.version if self._rules.origin else None

    # ------------------------------------------------------------ inside

    def _run(self, events: Any, segments: list[Segment] | None = None) -> Run:
        with self._lock:
            if segments is None:
                segments = self._rules.segments()
            codes = self._rules.codes
            ids = Rosters(segments, self._rules.id_type or pa.string())
            used = self._used_by(segments)
        return Run(segments, ids, self.schema, Events.read(events, self.schema, used, codes))

    def _used_by(self, segments: list[Segment]) -> dict[int, int]:
        """Return the attributes that segments test, each with its number among them.

        Kept from one question to the next: of many attributes it takes longer than an event.
        """
        tested = [s.attributes for s in segments]
        if tested != self._asked[0]:
            used = sorted({a for some in tested for a in some})
            self._asked = tested, {a: row for row, a in enumerate(used)}
        return self._asked[1]

    def _checked(self, id: Any, where: str, weights: Any, payload: Any) -> tuple[Any, Any, Any]:
        """Return conjunctions, weights by attribute and payload of a rule, or raise."""
        try:
            with self._rules.all_or_nothing():
                bound, attributes = self._conditions.read(where, self._rules.codes)
                if weights is not None:
                    weights = checked_weights(weights, attributes, self.schema)
                if payload is not None:
                    given = _payload_table(payload)
                    self._rules.payload_schema = self._rules.joined_payload_schema(given)
        except TocsinError as error:
            raise error.at(f"rule {id!r}") from None
        return bound, weights, payload

    def _checked_id(self, id: Any) -> Any:
        id = _plain_id(id)
        if id is None:
            raise RuleError("the id is null; every rule needs an id")
        if type(id) not in (int, str):
            raise RuleError(f"an id must be a text or an integer, got {type(id).__name__} {id!r}")
        if type(id) is int and not -(2**63) <= id < 2**63:
            raise RuleError(f"the id {id} does not fit 64 bits")
        if type(id) is str and not is_unicode(id):
            raise RuleError(f"the id {id!r} is not valid Unicode")
        known = self._rules.id_type
        if known is not None and (type(id) is int) != t.is_integer(known):
            raise RuleError(f"{self._rules.id_words()}, got {type(id).__name__} {id!r}")
        return id


def _plain_id(id: Any) -> Any:
    """Return an id as Python has it, if NumPy or Arrow had it."""
    if isinstance(id, np.generic):
        return id.item()
    return id.as_py() if isinstance(id, pa.Scalar) else id


def _payload_table(payload: Any) -> pa.Table:
    """Return the payload of one rule as a table of one row."""
    if not isinstance(payload, Mapping) or not all(isinstance(k, str) for k in payload):
        raise RuleError(f"payload must be a dict with names as keys, got {payload!r}")
    with refusing(RuleError, "payload has a value that Arrow cannot hold"):
        return pa.table({name: pa.array([value]) for name, value in payload.items()})
