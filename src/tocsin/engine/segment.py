"""A segment: an immutable index over rules, with what else is known of them, and removals."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.engine.ids import IdIndex
from tocsin.index.exhaustive import Exhaustive
from tocsin.index.protocol import Index
from tocsin.model.conjunctions import Conjunctions
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


class Segment:
    """Rules under one index. All is immutable but the flags of removed conjunctions."""

    def __init__(self, roster: Roster, index: Index, ids: IdIndex | None = None):
        self.roster = roster
        self.index = index
        self._ids = ids
        self._exhaustive: Exhaustive | None = None  # made when events have ranges
        c = index.conjunctions
        # Several conjunctions of one rule stand together.
        self.single = not bool((c.rule[1:] == c.rule[:-1]).any())
        self.numbered = self.single and bool((c.rule == np.arange(c.size)).all())
        self.attributes = np.unique(c.attribute).tolist()
        # A flag per conjunction and one per rule, or empty where no rule was removed.
        self.removed = np.empty(0, np.uint8)
        self.alive = np.empty(0, bool)
        self.removed_rules = 0
        # Where it lies on disk: the store's path, its name there, its manifest's checksum.
        self.stored: tuple[str, str, str] | None = None

    @property
    def conjunctions(self) -> Conjunctions:
        """The conjunctions of all rules, removed or not."""
        return self.index.conjunctions

    @property
    def ids(self) -> IdIndex:
        """Where each id stands in the roster; made when first asked."""
        if self._ids is None:
            self._ids = IdIndex(self.roster.ids)
        return self._ids

    def index_for(self, keys: Keys) -> Index:
        """Return the index to ask: if it does not take the events' ranges, exhaustive search."""
        if self.index.takes_ranges or not keys.ranged:
            return self.index
        if self._exhaustive is None:
            self._exhaustive = Exhaustive.build(self.conjunctions)
        return self._exhaustive

    def copy(self) -> Segment:
        """Return a segment over the same arrays, whose rules are removed apart from this one's."""
        twin = copy.copy(self)
        twin.removed, twin.alive = self.removed.copy(), self.alive.copy()
        return twin

    def is_alive(self, place: int) -> bool:
        """Tell whether the rule at a place of the roster was not removed."""
        return not len(self.alive) or bool(self.alive[place])

    def remove(self, places: np.ndarray) -> None:
        """Flag the rules at these places of the roster, none of them removed yet."""
        if not len(self.alive):
            self.alive = np.ones(len(self.roster.positions), bool)
        self.alive[places] = False
        self.removed_rules += len(places)
        if not len(self.removed):
            self.removed = np.zeros(self.conjunctions.size, np.uint8)
        positions = self.roster.positions[places]
        if len(positions) == 1:
            first, last = self.conjunctions.of_rule(int(positions[0]))
            self.removed[first:last] = 1
        else:
            self.removed[np.isin(self.conjunctions.rule, positions)] = 1

    @property
    def size(self) -> int:
        """How many rules there are that were not removed."""
        return len(self.roster.positions) - self.removed_rules

    def survivors(self) -> tuple[np.ndarray, np.ndarray]:
        """Return for each rule and for each conjunction whether it was not removed."""
        rules = self.alive if len(self.alive) else np.ones(len(self.roster.positions), bool)
        if len(self.removed):
            return rules, self.removed == 0
        return rules, np.ones(self.conjunctions.size, bool)

    @property
    def nbytes(self) -> int:
        """Bytes besides ids, texts and payload."""
        own = self.roster.positions.nbytes + self.removed.nbytes + self.alive.nbytes
        if self._exhaustive is not None:
            own += self._exhaustive.nbytes
        return self.conjunctions.nbytes + self.index.nbytes + own


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
