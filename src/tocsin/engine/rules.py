"""Rules: the public API of matching in one process.

Rules hold a draft and the last version sealed from it. One thread may change them while others
match: a match sees all rules as they were when it began. It waits for a change in progress only if
an earlier change has not been sealed yet.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.draft import Draft
from tocsin.engine.explain import Explanation
from tocsin.engine.pending import NewRule
from tocsin.engine.probabilities.checks import check_work
from tocsin.engine.report import Plan
from tocsin.engine.rule_table import find_steps, to_table
from tocsin.engine.segment import NO_SETTINGS, Settings
from tocsin.engine.store_folder import Origin, StoreFolder
from tocsin.engine.version import Rule, Version, plain_id
from tocsin.errors import RuleError, TocsinError, is_unicode, warn
from tocsin.model.arrow import translate_errors
from tocsin.model.attributes import Attributes
from tocsin.model.condition import ConditionReader
from tocsin.model.conjunctions import ConjunctionBuilder, take
from tocsin.model.matches import Matches
from tocsin.model.residuals import build_residuals
from tocsin.model.rule_checks import describe_impossible
from tocsin.model.rule_numbers import WEIGHTS_OR_SCORE, check_rule_number
from tocsin.model.schema import Schema
from tocsin.model.shape_tables import check_point
from tocsin.model.tables import RuleTable, read_rules
from tocsin.model.weights import check_weights

_MOST_SHOWN = 5  # ids in a warning
AT_LEAST_OR_SHAPES = (
    "a rule with at_least cannot test shapes: the probability that an uncertain point is in a "
    "polygon is not computed; leave at_least out, or test x and y with bounds"
)

# How many events tuning needs; the command line and Spark draw a sample if there are more. Chosen:
# a share of one in a thousand is then known to within a quarter of its value.
TUNING_EVENTS = 20_000


class Rules:
    """Standing queries: add conditions, then ask which of them events satisfy.

    Parameters
    ----------
    schema
        A `Schema`, or anything that `Schema` accepts: a dict of names and kinds, an Arrow
        schema, a Spark `StructType`.
    index
        The index that holds the rules; "auto" chooses the one that suits them best.
    options
        Options of that index, by name: ``index="ntree", options={"fan_out": 8}``.
    point
        The two attributes, or terms, that tables of shapes are about: ``point=("lon", "lat")``.
        By default lon and lat, longitude and latitude, or x and y, whichever the schema has.

    >>> rules = Rules({"x": "number", "tier": "category"})
    >>> rules.add("cheap", "x BETWEEN 3 AND 8")
    >>> rules.add("gold", "tier IN ('gold', 'black') AND x > 5", weights={"tier": 0.6})
    >>> rules.match([{"x": 4}, {"x": 7, "tier": "gold"}])
    Matches: 3 pairs; 2 of 2 events matched
      event 0: 'cheap'
      event 1: 'cheap'
      event 1: 'gold'
    """

    def __init__(
        self,
        schema: Any,
        index: str = "auto",
        options: Mapping[str, Any] | None = None,
        point: tuple[str, str] | None = None,
    ):
        schema = schema if isinstance(schema, Schema) else Schema(schema)
        attributes = Attributes(schema)
        checked = None if point is None else check_point(point, attributes)
        self._begin(Draft(attributes, index, {} if options is None else options, checked), None)

    def _begin(self, draft: Draft, origin: Origin | None) -> None:
        self.schema = draft.attributes.schema
        self._draft = draft
        self._origin = origin  # the store version that these rules come from
        self._conditions = ConditionReader(draft.attributes, draft.point)
        self._lock = threading.Lock()
        self._owner = 0  # the thread that took the lock last

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Lock the draft for a change; raise if this thread is already changing it."""
        own = threading.get_ident()
        if self._lock.locked() and self._owner == own:
            raise RuleError(
                "these rules are in the middle of a change by the same thread: a signal handler or "
                "a finalizer that interrupts it can match only what snapshot() returned before"
            )
        with self._lock:
            self._owner = own
            yield

    # ------------------------------------------------------------ change

    def add(
        self,
        id: Any,
        where: str,
        weights: Mapping[str, float] | None = None,
        payload: Mapping[str, Any] | None = None,
        at_least: float | None = None,
        score: float | None = None,
    ) -> None:
        """Add a rule.

        `id` is a text or an integer that no other rule has. `where` is a condition. `weights`
        are how much each attribute counts in `top` (1 by default). `score`, in place of weights,
        is the rule's score for every event that it matches, such as a bid: a finite number, 0 or
        more. `payload` is any data of yours, by name. `at_least` is for events with uncertain
        values: the probability with which an event must satisfy the condition, more than 0 and at
        most 1. Without it, some of an event's possible values must satisfy it.

        A condition that no event can satisfy, or an OR with such a part, is a `ConditionWarning`.
        """
        with self._changing(), self._draft.all_or_nothing():
            id = self._check_id(id)
            if self._draft.find([id])[0] is not None:
                raise RuleError(f"rule {id!r} exists already; use replace to change it")
            self._draft.check_room(1)
            given = {"weights": weights, "score": score, "payload": payload, "at_least": at_least}
            self._draft.append(self._new_rule(id, where, given))

    def replace(
        self,
        id: Any,
        where: str | None = None,
        weights: Mapping[str, float] | None = None,
        payload: Mapping[str, Any] | None = None,
        at_least: float | None = None,
        score: float | None = None,
    ) -> None:
        """Change a rule; it moves to the end of the order if anything changes.

        What is not given is kept. `{}` removes weights and payload, and 0 removes `at_least`.
        A score replaces weights, and weights, even `{}`, replace a score. Weights of attributes
        that the new condition does not test are dropped.
        """
        with self._changing(), self._draft.all_or_nothing():
            id = self._check_id(id)
            location = self._draft.find([id])[0]
            if location is None:
                raise self._draft.unknown_rule_error(id)
            self._draft.check_room(1)
            if where is None:
                where = self._draft.condition(location)
            before = self._draft.settings(location)
            if at_least == 0 and not isinstance(at_least, bool):
                before, at_least = before._replace(at_least=None), None
            given = {"weights": weights, "score": score, "payload": payload, "at_least": at_least}
            rule = self._new_rule(id, where, given, before)
            if not self._draft.has_same(rule, location):
                self._draft.append(rule, instead_of=location)

    def add_many(self, table: Any) -> None:
        """Add the rules of a table: all of them, or none if any is wrong.

        The table is any Arrow-compatible table, or a list of dicts, in one of four forms
        (further columns are payload):

        * text: `id`, `where`, optionally `weights` (a map from attribute to weight)
        * boxes: `id`, `x_low`, `x_high`, `y_low`, ...; both ends are included, null is
          unbounded, and an attribute with neither end is not tested
        * long: `id`, `attribute`, `low`, `high`, optionally `weight`; one row per predicate,
          all rows of an id form one rule
        * shapes: `id`, `shape`; a polygon, with its edge, that the `point` of the rules must be
          in, as well-known text, well-known bytes or GeoJSON; or a geopandas frame

        All forms may have the columns `at_least` and `score`, see `add`; null is none.

        All rules that no event can satisfy, or that have such a part, are one `ConditionWarning`.
        """
        with self._changing(), self._draft.all_or_nothing():
            read = self._extend(table)
            if len(read.impossible):
                warn(self._describe_impossible(read))

    def _extend(self, table: Any) -> RuleTable:
        draft = self._draft
        read = read_rules(table, self._reader(), draft.categories, draft.next_position)
        if read.at_least is not None:
            self._check_work(read, read.at_least)
        if len(read.ids):
            draft.extend(read)
        return read

    def sync(self, table: Any) -> None:
        """Make these rules those of a table, as `add_many` reads it.

        Rules that the table does not have are removed, those that differ are replaced, and those
        that are equal stay as they are. Nothing changes if a rule of the table is wrong.
        """
        with self._changing(), self._draft.all_or_nothing():
            version = self._draft.seal()
            wanted = Rules(version.schema, point=version.point)
            wanted.add_many(table)
            steps = find_steps(to_table(version), wanted.to_arrow())
            self._remove(steps.removed.to_pylist())
            self._extend(steps.added)

    def remove(self, id: Any) -> None:
        """Remove a rule; it never matches again."""
        self.remove_many([id])

    def remove_many(self, ids: Iterable[Any]) -> None:
        """Remove rules by id: all of them, or none if any is unknown."""
        if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
            raise RuleError(f"remove_many takes several ids, got {ids!r}; use remove for one")
        wanted_ids = list(map(plain_id, ids.to_pylist() if hasattr(ids, "to_pylist") else ids))
        with self._changing(), self._draft.all_or_nothing():
            self._remove(wanted_ids)

    def _remove(self, ids: list[Any]) -> None:
        locations = []
        seen: set[Any] = set()
        for id_, location in zip(ids, self._draft.find(ids), strict=True):
            if location is None:
                raise self._draft.unknown_rule_error(id_)
            if id_ in seen:
                raise RuleError(f"rule {id_!r} is to be removed twice")
            seen.add(id_)
            locations.append(location)
        self._draft.remove(locations)

    def merge(self) -> None:
        """Build one base from all rules and drop removed ones.

        This also happens automatically, on a thread of its own if there are many rules.
        """
        with self._changing(), self._draft.all_or_nothing():
            self._draft.merge()

    def tune(self, events: Any) -> None:
        """Tune the index to events like those expected; a few thousand are enough.

        With index `auto` indexes are chosen again, by what these events satisfy instead of
        estimates from the rules alone. Tuning is a change like any other. It merges the rules, and
        lasts until the next merge. Raise if the index was chosen by name and does not learn from
        events; `bestar` does.
        """
        with self._changing(), self._draft.all_or_nothing():
            self._draft.tune(events)

    # ------------------------------------------------------------ look

    def snapshot(self) -> Version:
        """Return these rules as they are now, immutable: to match, or to share between threads.

        It is cheap: only rules added since the last snapshot are prepared for matching.
        """
        version = self._draft.sealed()
        if version is None:
            with self._changing():
                version = self._draft.seal()
        return version

    def to_arrow(self) -> pa.Table:
        """Return these rules as a table that `add_many` and `sync` read.

        Its columns are `id`, `where`, `weights`, `score` and `at_least` if some rule has these, and
        the payload. Conditions of rules that were added as boxes are written as texts.
        """
        return to_table(self.snapshot())

    def __len__(self) -> int:
        return self._draft.size

    def __contains__(self, id: object) -> bool:
        with self._changing():
            return self._draft.find([id])[0] is not None

    def __iter__(self) -> Iterator[Any]:
        """Yield the ids in the order of addition."""
        return iter(self.snapshot())

    def __getitem__(self, id: Any) -> Rule:
        return self.snapshot()[id]

    def plan(self, events: Any = None) -> Plan:
        """Return which index holds which rules, and why; it prints one sentence per part.

        With `events`, it also shows how many candidates they met beside how many were expected. If
        these differ much, `tune` may choose a better index.
        """
        return self.snapshot().plan(events)

    def lint(
        self, events: Any = None, same: Sequence[str] = (), threads: int | None = None
    ) -> pa.Table:
        """Return an Arrow table of rules that may be wrong: `rule`, `finding`, `by`, `detail`.

        A finding is one of:

        * duplicate: the rule `by` holds for the same events, and was added before
        * covered: the rule `by` holds for all events that satisfy this one
        * never: no event can satisfy the rule
        * always: all events satisfy it
        * out of range: none of `events` has a value that a predicate asks for

        `by` is a rule that is neither a duplicate nor covered. So all rules of the first three
        findings can be removed at once, and each event that satisfied one still satisfies another.

        `same` are payload columns: only a rule with the same values there can make another one
        redundant. A rule with `at_least` can cover one that requires as much or more. What is
        called covered is covered. For rules without OR all of it is found; see docs/covering.md.
        """
        return self.snapshot().lint(events, same, threads)

    @property
    def id_type(self) -> pa.DataType | None:
        """The Arrow type of the ids; None if there have been no rules since the last merge."""
        return self._draft.id_type

    @property
    def payload_schema(self) -> pa.Schema:
        """The columns of the rules' payload."""
        return self._draft.payload_schema

    def tested(self) -> list[str]:
        """Return the names of the columns that some rule tests, by itself or within a term."""
        return self.snapshot().tested()

    def copy(self) -> Rules:
        """Return an independent copy of these rules; it shares large immutable data."""
        with self._changing():
            version, origin = self._draft.seal(), self._origin
        attributes = version.attributes.copy(version.attribute_count)
        categories = version.categories.copy(version.category_count)
        if origin is not None and origin.categories is version.categories:
            origin = replace(origin, categories=categories)
        return self._from_draft(Draft.from_version(version, attributes, categories), origin)

    @classmethod
    def _from_draft(cls, draft: Draft, origin: Origin | None) -> Rules:
        rules = cls.__new__(cls)
        rules._begin(draft, origin)
        return rules

    def __reduce__(self) -> tuple[Any, ...]:
        with self._changing():
            version, origin = self._draft.seal(), self._origin
        return Rules._restore, (version, origin and origin.describe_for(version))

    @classmethod
    def _restore(cls, version: Version, origin: tuple[Any, ...] | None) -> Rules:
        draft = Draft.from_version(version, version.attributes, version.categories)
        return cls._from_draft(draft, Origin.of(version, *origin) if origin else None)

    @property
    def nbytes(self) -> int:
        """Bytes of conjunctions and indexes, without ids, texts and payload."""
        return self.snapshot().nbytes

    def __repr__(self) -> str:
        rules = f"{len(self):,} rule{'s' * (len(self) != 1)}"
        return f"Rules({rules} over {self.schema!r})"

    # ------------------------------------------------------------ match

    def match(self, events: Any, threads: int | None = None) -> Matches:
        """Return which rules each event satisfies.

        `events` is a dict, a list of dicts, or any Arrow-compatible table (pyarrow, pandas,
        polars, duckdb). A column of map type holds sparse attributes by name. A struct or dict
        of `low` and `high` is a range: some value in it must satisfy a predicate. If the rule has
        `at_least`, the values of the range must satisfy the rule with that probability; they are
        uniform, normal with `mean` and `deviation`, or have a histogram of `edges` and `weights`.

        Large batches are matched by several `threads`, with the same result. The default is the
        environment variable `TOCSIN_THREADS`, or else the number of cores. A batch of fewer than
        32,768 events uses one thread; if `threads` is given, one of fewer than 2,048.
        """
        return self.snapshot().match(events, threads)

    def match_blocks(self, events: Any) -> Iterator[Matches]:
        """Yield the same matches in blocks of events; blocks share memory.

        For more matches than fit in memory. A block's arrays are valid until the next block: copy
        what you keep. Uses one thread.
        """
        return self.snapshot().match_blocks(events)

    def count(self, events: Any, threads: int | None = None) -> np.ndarray:
        """Return how many rules each event satisfies, int64[n_events]; builds no pairs.

        `threads` is as for `match`.
        """
        return self.snapshot().count(events, threads)

    def top(
        self, events: Any, k: int = 5, weights: Any = None, threads: int | None = None
    ) -> Matches:
        """Return the k most relevant rules of each event, best first, with their scores.

        A rule's score is the sum of rule weight x event weight over the attributes that its
        condition tests; of alternatives (OR) the best counts. Weights are 1 by default, and
        IS NULL adds nothing. A rule with a score of its own has that score. Ties go to the rule
        added first. `weights` are those of the events: a dict for all of them, or a list with a
        dict for each. `threads` is as for `match`.
        """
        return self.snapshot().top(events, k, weights, threads)

    def explain(
        self, event: Any, id: Any, weights: Mapping[str, float] | None = None
    ) -> Explanation:
        """Return why a rule matches one event, or why not, predicate by predicate.

        If the rule or the event has weights (as for `top`), it also shows what each predicate
        adds to the score.
        """
        return self.snapshot().explain(event, id, weights)

    # ------------------------------------------------------------ store

    def save(self, path: Any, author: str | None = None, message: str | None = None) -> int:
        """Write these rules to a rule store as its next version, and return that version's number.

        A store is a folder; it is created if it does not exist. Only changes since the rules were
        opened from this store, or last saved to it, are written; if there are none, nothing is
        published. If another writer has published since, nothing is published and a
        `StoreConflictError` is raised. Rules from elsewhere replace those in the store. `author`
        and `message` are shown by `RuleStore.versions` and `RuleStore.diff`.
        """
        with self._changing():
            self._draft.settle()
            version, origin = self._draft.seal(), self._origin
            self._origin = StoreFolder(path).publish(version, origin, author, message)
            return self._origin.version

    @classmethod
    def open(cls, path: Any, version: int | None = None, verify: bool = True) -> Rules:
        """Return the rules of a rule store, at its current version or an older one.

        Checksums, and everything that compiled code relies on, are verified unless `verify` is
        false. Changes to the returned rules are private until they are saved.
        """
        opened, origin = StoreFolder(path).open(version, verify)
        return cls._from_draft(
            Draft.from_version(opened, opened.attributes, opened.categories), origin
        )

    @property
    def version(self) -> int | None:
        """The version of the store that these rules were opened from or last saved as."""
        return self._origin.version if self._origin else None

    # ------------------------------------------------------------ inside

    def _reader(self) -> ConditionReader:
        """Return the reader of conditions; a merge that drops terms makes another necessary."""
        if self._conditions.attributes is not self._draft.attributes:
            self._conditions = ConditionReader(self._draft.attributes, self._draft.point)
        return self._conditions

    def _new_rule(
        self, id: Any, where: str, given: Mapping[str, Any], before: Settings = NO_SETTINGS
    ) -> NewRule:
        """Return a rule to append; raise if any part of it is invalid.

        Its settings are those that are given and not None, and else those `before`.
        """
        payload_schema = self._draft.payload_schema
        settings = {name: value for name, value in given.items() if value is not None}
        try:
            conjunctions, attributes, residuals = self._reader().read(where, self._draft.categories)
            if "weights" in settings and "score" in settings:
                raise RuleError(WEIGHTS_OR_SCORE)
            if "weights" in settings:
                weights = check_weights(settings["weights"], attributes, self._draft.attributes)
                settings |= {"weights": weights, "score": None}
            if "score" in settings and settings["score"] is not None:
                score = check_rule_number("score", settings["score"])
                settings |= {"weights": {}, "score": score}
            if "payload" in settings:
                payload = _payload_table(settings["payload"])
                payload_schema = self._draft.merge_payload_schemas(payload)
                settings["payload"] = _payload_row(payload, payload_schema)
            if "at_least" in settings:
                settings["at_least"] = check_rule_number("at_least", settings["at_least"])
            checked = before._replace(**settings)
            if checked.at_least is not None:
                if residuals:
                    raise RuleError(AT_LEAST_OR_SHAPES)
                builder = ConjunctionBuilder()
                builder.add(0, conjunctions)
                check_work(builder.build(), self._draft.attributes)
        except TocsinError as error:
            raise error.with_place(f"rule {id!r}") from None
        if self._conditions.has_impossible_part:
            parts = self._conditions.describe_impossible(where, self._draft.categories)
            warn(f"rule {id!r}: {parts[0]}")
        tested = {attribute for conjunction in conjunctions for attribute, _ in conjunction}
        weights = {a: w for a, w in checked.weights.items() if a in tested and w != 1.0}
        located = build_residuals([(0, residuals)])
        kept = checked._replace(weights=weights)
        return NewRule(id, where, conjunctions, located, kept, payload_schema)

    def _check_work(self, read: RuleTable, at_least: np.ndarray) -> None:
        """Raise if the probability of a rule in a table has no meaning, or takes too much work."""
        c = read.conjunctions
        if read.residuals is not None:
            places = np.unique(read.residuals.rule - self._draft.next_position)
            for place in places[~np.isnan(at_least[places])][:1].tolist():
                error = RuleError(AT_LEAST_OR_SHAPES)
                raise error.with_place(f"row {read.rows[place]} (rule {read.ids[place].as_py()!r})")
        firsts, counts = np.unique(c.rule, return_index=True, return_counts=True)[1:]
        for first, count in zip(firsts[counts > 1], counts[counts > 1], strict=True):
            place = int(c.rule[first]) - self._draft.next_position
            if not np.isnan(at_least[place]):
                try:
                    check_work(take(c, np.arange(first, first + count)), self._draft.attributes)
                except RuleError as error:
                    id_ = read.ids[place].as_py()
                    raise error.with_place(f"row {read.rows[place]} (rule {id_!r})") from None

    def _describe_impossible(self, read: RuleTable) -> str:
        """Describe the rules of a table that never hold, or have a part that never does."""
        places, count = read.impossible.tolist(), len(read.impossible)
        ids = [read.ids[place].as_py() for place in places[:_MOST_SHOWN]]
        parts = describe_impossible(read, places[0], self._conditions, self._draft.categories)
        message = f"rule {ids[0]!r}: {parts[0]}"
        if count == 1:
            return message
        shown = ", ".join(map(repr, ids)) + (", ..." if count > len(ids) else "")
        return (
            f"{count:,} of {len(read.ids):,} rules never hold, or have a part that never holds: "
            f"{shown}\n{message}"
        )

    def _check_id(self, id: Any) -> Any:
        id = plain_id(id)
        if id is None:
            raise RuleError("the id is null; every rule needs an id")
        if type(id) not in (int, str):
            raise RuleError(f"an id must be a text or an integer, got {type(id).__name__} {id!r}")
        if type(id) is int and not -(2**63) <= id < 2**63:
            raise RuleError(f"the id {id} does not fit 64 bits")
        if type(id) is str and not is_unicode(id):
            raise RuleError(f"the id {id!r} is not valid Unicode")
        known = self._draft.id_type
        if known is not None and (type(id) is int) != t.is_integer(known):
            raise RuleError(f"{self._draft.describe_ids()}, got {type(id).__name__} {id!r}")
        return id


def _payload_row(given: pa.Table, schema: pa.Schema) -> dict[str, Any]:
    """Return the only row of a table, in the types of all rules' payload.

    The values are copies: the caller may change theirs before they are stored.
    """
    with translate_errors(RuleError, "payload has a value that cannot be stored"):
        columns = {n: given.column(n).cast(schema.field(n).type) for n in given.column_names}
        rows: list[dict[str, Any]] = pa.table(columns).to_pylist()
        for name, value in rows[0].items() if rows else ():
            pa.array([value], schema.field(name).type)
    return {n: v for n, v in rows[0].items() if v is not None} if rows else {}


def _payload_table(payload: Any) -> pa.Table:
    """Return the payload of one rule as a table of one row."""
    if not isinstance(payload, Mapping) or not all(isinstance(k, str) for k in payload):
        raise RuleError(f"payload must be a dict with names as keys, got {payload!r}")
    with translate_errors(RuleError, "payload has a value that Arrow cannot hold"):
        return pa.table({name: pa.array([value]) for name, value in payload.items()})
