"""A segment: immutable indexes over rules, with what else is known of them, and removals."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.engine.ids import IdIndex
from tocsin.index.exhaustive import Exhaustive
from tocsin.index.protocol import Index
from tocsin.model.conjunctions import Conjunctions, joined, kept, taken
from tocsin.model.keys import Keys


class Roster(NamedTuple):
    """What is known of n rules besides their conjunctions."""

    positions: np.ndarray  # [n] int32, ascending
    ids: pa.Array  # [n] int64 or large text
    where: pa.Array  # [n] texts, null where the rule was given as a box or in long form
    payload: pa.Table  # [n] rows; an Arrow table without columns has no rows at all

    def kept(self, keep: np.ndarray) -> Roster:
        """Return the rules for which `keep` is true."""
        if keep.all():
            return self
        mask = pa.array(keep)
        return Roster(
            self.positions[keep],
            self.ids.filter(mask),
            self.where.filter(mask),
            self.payload.filter(mask) if self.payload.num_columns else self.payload,
        )

    def payload_as(self, schema: pa.Schema) -> pa.Table:
        """Return the payload with all columns of a schema, null where it had none."""
        n = len(self.positions)
        had = set(self.payload.column_names)
        return pa.table(
            [
                self.payload.column(f.name).cast(f.type) if f.name in had else pa.nulls(n, f.type)
                for f in schema
            ],
            schema=schema,
        )


def joined_rosters(rosters: Sequence[Roster]) -> Roster:
    """Return the rules of all rosters, in order."""
    if len(rosters) == 1:
        return rosters[0]
    schemas = [r.payload.schema for r in rosters]
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    return Roster(
        np.concatenate([r.positions for r in rosters]),
        pa.concat_arrays([r.ids for r in rosters]),
        pa.concat_arrays([r.where for r in rosters]),
        pa.concat_tables([r.payload_as(schema) for r in rosters]).combine_chunks(),
    )


class Indexed:
    """Conjunctions under one index; what was removed is all that changes."""

    def __init__(self, index: Index, why: str = "there was nothing to choose"):
        self.index = index
        self.why = why
        self._exhaustive: Exhaustive | None = None  # made when events have ranges
        self.conjunctions: Conjunctions = index.conjunctions
        rule = self.conjunctions.rule
        # Several conjunctions of one rule stand together.
        self.single = not bool((rule[1:] == rule[:-1]).any())
        self.numbered = self.single and bool((rule == np.arange(len(rule))).all())
        # A flag per conjunction, or empty where none was removed. If each is a rule, also the
        # positions of these, negative where they were removed: so naming a match is one read.
        self.removed = np.empty(0, np.uint8)
        self.rule = rule

    def index_for(self, keys: Keys) -> Index:
        """Return the index to ask: if it does not take the events' ranges, exhaustive search."""
        if self.index.takes_ranges or not keys.ranged:
            return self.index
        if self._exhaustive is None:
            self._exhaustive = Exhaustive.build(self.conjunctions)
        return self._exhaustive

    def copy(self) -> Indexed:
        """Return the same, to be changed apart."""
        twin = copy.copy(self)
        twin.removed = self.removed.copy()
        if len(self.removed) and self.single:
            twin.rule = self.rule.copy()
        return twin

    def remove(self, positions: np.ndarray) -> np.ndarray:
        """Flag the conjunctions of the rules at these positions that are here, if any.

        Return the attributes that they test.
        """
        c = self.conjunctions
        gone: Any
        rows: Any
        if len(positions) == 1:
            first, stop = c.of_rule(int(positions[0]))
            gone, rows = slice(first, stop), slice(c.offsets[first], c.offsets[stop])
            some = first < stop
        else:
            gone = np.isin(c.rule, positions)
            rows = np.repeat(gone, np.diff(c.offsets))
            some = gone.any()
        if some:
            if not len(self.removed):
                self.removed = np.zeros(c.size, np.uint8)
                self.rule = c.rule.copy() if self.single else c.rule
            self.removed[gone] = 1
            if self.single:
                self.rule[gone] = -1
        tested: np.ndarray = c.attribute[rows]
        return tested

    def survivors(self) -> Conjunctions:
        """Return what was not removed."""
        return (
            kept(self.conjunctions, self.removed == 0) if len(self.removed) else self.conjunctions
        )

    def common_attributes(self) -> list[int]:
        """Return the attributes that at least half of the conjunctions test."""
        attributes, tests = np.unique(self.conjunctions.attribute, return_counts=True)
        found: list[int] = attributes[2 * tests >= self.conjunctions.size].tolist()
        return found

    def counts(self) -> tuple[int, int, int]:
        """Return how many rules there are, how many of them were removed, and the bytes."""
        rule = self.conjunctions.rule
        gone = rule[: len(self.removed)][self.removed != 0]
        return len(np.unique(rule)), len(np.unique(gone)), self.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of conjunctions, index and flags."""
        more = self._exhaustive.nbytes if self._exhaustive is not None else 0
        own = self.rule.nbytes if self.rule is not self.conjunctions.rule else 0
        return self.conjunctions.nbytes + self.index.nbytes + self.removed.nbytes + own + more


class Segment:
    """Rules under one index, or under several that each hold whole rules (its *parts*).

    All is immutable but what was removed, and that only until someone looks: whoever changes a
    segment that is `shared` changes a copy instead, so a match sees all rules that there were
    when it began.
    """

    def __init__(self, roster: Roster, parts: Sequence[Indexed], ids: IdIndex | None = None):
        self.roster = roster
        self.parts = tuple(parts)
        self._ids = ids
        # How many rows of rules that were not removed test each attribute.
        self._tests = np.bincount(np.concatenate([p.conjunctions.attribute for p in self.parts]))
        self.attributes: list[int] = np.flatnonzero(self._tests).tolist()
        # A flag per rule, or empty where none was removed.
        self.alive = np.empty(0, bool)
        self.removed_rules = 0
        self.shared = False  # handed out to be read; see `Collection.segments`
        # Where it lies on disk: the store's identity, its name there, its manifest's checksum.
        self.stored: tuple[str, str, str] | None = None

    def conjunctions_of(self, place: int) -> Conjunctions:
        """Return the conjunctions of the rule at a place of the roster."""
        position = int(self.roster.positions[place])
        for part in self.parts:
            first, stop = part.conjunctions.of_rule(position)
            if first < stop:
                break
        return taken(part.conjunctions, np.arange(first, stop))

    def weights_and_payload(self, place: int) -> tuple[dict[int, float], dict[str, Any]]:
        """Return a rule's weights by attribute, where not 1, and its payload, where not null."""
        c = self.conjunctions_of(place)
        weights = dict(zip(c.attribute.tolist(), c.weight.tolist()))
        rows = self.roster.payload.slice(place, 1).to_pylist()
        return (
            {attribute: weight for attribute, weight in weights.items() if weight != 1.0},
            {name: value for row in rows for name, value in row.items() if value is not None},
        )

    @property
    def ids(self) -> IdIndex:
        """Where each id stands in the roster; made when first asked."""
        if self._ids is None:
            self._ids = IdIndex(self.roster.ids)
        return self._ids

    def copy(self) -> Segment:
        """Return a segment over the same arrays, whose rules are removed apart from this one's."""
        twin = copy.copy(self)
        twin.parts = tuple(part.copy() for part in self.parts)
        twin.alive = self.alive.copy()
        twin._tests = self._tests.copy()
        twin.shared = False
        return twin

    def is_alive(self, place: int) -> bool:
        """Tell whether the rule at a place of the roster was not removed."""
        return not len(self.alive) or bool(self.alive[place])

    def remove(self, places: np.ndarray) -> None:
        """Flag the rules at these places of the roster, none of them removed yet.

        Nobody else may be reading the segment.
        """
        if not len(self.alive):
            self.alive = np.ones(len(self.roster.positions), bool)
        self.alive[places] = False
        self.removed_rules += len(places)
        for part in self.parts:
            tested = part.remove(self.roster.positions[places])
            self._tests -= np.bincount(tested, minlength=len(self._tests))
        # Events need not have what only removed rules tested.
        if not self._tests[self.attributes].all():
            self.attributes = np.flatnonzero(self._tests).tolist()

    @property
    def size(self) -> int:
        """How many rules there are that were not removed."""
        return len(self.roster.positions) - self.removed_rules

    def survivors(self) -> np.ndarray:
        """Return for each rule whether it was not removed."""
        return self.alive if len(self.alive) else np.ones(len(self.roster.positions), bool)

    def surviving_conjunctions(self) -> Conjunctions:
        """Return the conjunctions of all rules that were not removed, in the rules' order."""
        together = joined([part.survivors() for part in self.parts])
        if len(self.parts) == 1:
            return together
        return taken(together, np.argsort(together.rule, kind="stable"))

    @property
    def nbytes(self) -> int:
        """Bytes besides ids, texts and payload."""
        own = self.roster.positions.nbytes + self.alive.nbytes
        return own + sum(part.nbytes for part in self.parts)


class Rosters:
    """Knows the ids and the payload of the rules of some segments by position."""

    def __init__(self, segments: Sequence[Segment], id_type: pa.DataType):
        self._rosters = [s.roster for s in segments]
        self._id_type = id_type

    def ids_at(self, positions: np.ndarray) -> pa.Array:
        """Return the ids at positions, in the type in which they were given."""
        if not self._rosters:
            return pa.array([], self._id_type)
        ids = pa.chunked_array([r.ids for r in self._rosters])
        taken = ids.take(pa.array(self._places(positions)))
        if taken.nbytes > 2**31 - 1:
            return taken.combine_chunks()  # more text than a 32-bit type holds
        return taken.cast(self._id_type).combine_chunks()

    def payload_at(self, positions: np.ndarray, schema: pa.Schema) -> pa.Table:
        """Return these columns of the payload at positions, null where a rule has none."""
        parts = [r.payload_as(schema) for r in self._rosters]
        if not parts:
            return schema.empty_table()
        return pa.concat_tables(parts).take(pa.array(self._places(positions)))

    def _places(self, positions: np.ndarray) -> np.ndarray:
        """Return where rules stand if the rosters are laid end to end."""
        places = np.empty(len(positions), np.int64)
        before = 0
        for number, roster in enumerate(self._rosters):
            known = roster.positions
            # Segments hold ascending runs of positions: a rule is in the last that begins no
            # later than it.
            mine: Any = positions >= known[0] if number else slice(None)
            if known[-1] - known[0] == len(known) - 1:
                places[mine] = positions[mine] - known[0] + before
            else:
                places[mine] = np.searchsorted(known, positions[mine]) + before
            before += len(known)
        return places
