"""A segment: rules under one or several indexes, with their metadata. It is immutable.

Removals are stored separately, in `RemovedRules`, so that many versions can share a segment. They
are bitmaps: one bit per rule and one per conjunction. A change copies a bitmap that a version may
be reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.engine.filters import Filter, Shapes, Thresholds
from tocsin.engine.ids import IdIndex
from tocsin.engine.locations import arrange
from tocsin.index.exhaustive.index import Exhaustive
from tocsin.index.protocol import Index
from tocsin.jit import freeze
from tocsin.model.arrow import to_python
from tocsin.model.cached import cached_property
from tocsin.model.conjunctions import (
    NO_SCORES,
    Conjunctions,
    concatenate,
    concatenate_scores,
    expand_ranges,
    scores,
    select,
    take,
)
from tocsin.model.keys import Keys
from tocsin.model.residuals import Residuals, concatenate_residuals

NO_THRESHOLDS = freeze(np.empty(0), np.float64)


class Settings(NamedTuple):
    """What a rule has besides its id and condition, validated; equal if two rules have the same."""

    weights: Mapping[int, float] = {}  # by attribute, other than 1
    score: float | None = None  # the rule's own, in place of weights
    payload: Mapping[str, Any] = {}  # without nulls
    at_least: float | None = None  # the probability that the rule requires


NO_SETTINGS = Settings()


class RuleMetadata(NamedTuple):
    """Positions, ids, texts, payload, thresholds and scores of n rules."""

    positions: np.ndarray  # [n] int32, ascending
    ids: pa.Array  # [n] int64 or large text
    where: pa.Array  # [n] texts, null for rules given as boxes or in long form
    payload: pa.Table  # [n] rows; 0 rows if there are no columns
    at_least: np.ndarray = NO_THRESHOLDS  # [n] float64, 0 is none; [0] if no rule has a threshold
    score: np.ndarray = NO_SCORES  # [n] float64, NaN is none; [0] if no rule has a score of its own
    residuals: Residuals | None = None  # None if no rule tests a shape

    def select(self, keep: np.ndarray) -> RuleMetadata:
        """Return the rules for which `keep` is true."""
        if keep.all():
            return self
        mask = pa.array(keep)
        return RuleMetadata(
            self.positions[keep],
            self.ids.filter(mask),
            self.where.filter(mask),
            self.payload.filter(mask) if self.payload.num_columns else self.payload,
            thresholds(self.at_least[keep]) if len(self.at_least) else self.at_least,
            scores(self.score[keep]) if len(self.score) else self.score,
            self.residuals and self.residuals.of_rules(self.positions[keep]),
        )

    def payload_as(self, schema: pa.Schema) -> pa.Table:
        """Return the payload with all columns of a schema; missing columns are null."""
        n = len(self.positions)
        present = set(self.payload.column_names)
        return pa.table(
            [
                self.payload.column(f.name).cast(f.type)
                if f.name in present
                else pa.nulls(n, f.type)
                for f in schema
            ],
            schema=schema,
        )


class LateMetadata(NamedTuple):
    """What a match needs of the metadata of n rules, and a function that builds all of it."""

    positions: np.ndarray  # as in `RuleMetadata`
    at_least: np.ndarray
    residuals: Residuals | None
    build: Callable[[], RuleMetadata]


def thresholds(at_least: np.ndarray) -> np.ndarray:
    """Return thresholds, or an empty array if there is none among them."""
    return freeze(at_least, np.float64) if at_least.any() else NO_THRESHOLDS


def concatenate_metadata(metadata: Sequence[RuleMetadata]) -> RuleMetadata:
    """Return the metadata of several segments as one, in order."""
    if len(metadata) == 1:
        return metadata[0]
    schemas = [each.payload.schema for each in metadata]
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    return RuleMetadata(
        np.concatenate([each.positions for each in metadata]),
        pa.concat_arrays([each.ids for each in metadata]),
        pa.concat_arrays([each.where for each in metadata]),
        pa.concat_tables([each.payload_as(schema) for each in metadata]).combine_chunks(),
        _concatenate_thresholds(metadata),
        concatenate_scores([(each.score, len(each.positions)) for each in metadata]),
        concatenate_residuals([each.residuals for each in metadata]),
    )


def _concatenate_thresholds(metadata: Sequence[RuleMetadata]) -> np.ndarray:
    if not any(len(each.at_least) for each in metadata):
        return NO_THRESHOLDS
    return thresholds(
        np.concatenate(
            [
                each.at_least if len(each.at_least) else np.zeros(len(each.positions))
                for each in metadata
            ]
        )
    )


class IndexedPart:
    """Conjunctions under one index: a part of a segment."""

    def __init__(
        self,
        index: Index,
        why: str = "there was nothing to choose",
        options: Mapping[str, Any] | None = None,
    ):
        self.index = index
        self.why = why
        self.options = dict(options or {})  # of the index, if set explicitly
        self.conjunctions: Conjunctions = index.conjunctions
        rule = self.conjunctions.rule
        # The conjunctions of a rule are adjacent.
        self.single = not bool((rule[1:] == rule[:-1]).any())
        # Then they ascend from 0 on.
        self.numbered = self.single and (not len(rule) or int(rule[-1]) == len(rule) - 1)

    @cached_property
    def _fallback(self) -> Exhaustive:
        return Exhaustive.build(self.conjunctions)

    def index_for(self, keys: Keys) -> Index:
        """Return the index, or an exhaustive one for events with ranges it does not support."""
        return self.index if self.index.supports_ranges or not keys.has_ranges else self._fallback

    def prepare_for_ranges(self) -> None:
        """Build what events with ranges need."""
        _ = self.index.supports_ranges or self._fallback

    def numbers_of(self, positions: np.ndarray) -> np.ndarray:
        """Return the numbers of the conjunctions of the rules at these positions."""
        c = self.conjunctions
        if self.numbered:
            return positions[positions < c.size]
        if len(positions) == 1:
            return np.arange(*c.rule_span(int(positions[0])))
        first, stop = (np.searchsorted(c.rule, positions, side) for side in ("left", "right"))
        return expand_ranges(first, stop)

    def common_attributes(self) -> list[int]:
        """Return the attributes that at least half of the conjunctions test."""
        attributes, tests = np.unique(self.conjunctions.attribute, return_counts=True)
        common: list[int] = attributes[2 * tests >= self.conjunctions.size].tolist()
        return common

    @property
    def nbytes(self) -> int:
        """Bytes of conjunctions and indexes."""
        fallback = self.__dict__.get("_fallback")
        fallback_bytes = fallback.nbytes if fallback is not None else 0
        return self.conjunctions.nbytes + self.index.nbytes + fallback_bytes


class Segment:
    """Rules in one or several *parts*, each with its index; a rule is in one part."""

    def __init__(
        self,
        metadata: RuleMetadata | LateMetadata,
        parts: Sequence[IndexedPart],
        ids: IdIndex | None = None,
    ):
        self._metadata = metadata
        self.positions = metadata.positions
        self.parts = tuple(parts)
        self.filters = tuple(_filters_of(metadata, part) for part in self.parts)
        self._ids = ids
        # Number of rows that test each attribute.
        counts = [part.conjunctions.count_tests() for part in self.parts]
        self.tests = counts[0] if len(counts) == 1 else _add_up(counts)
        self.attributes: list[int] = np.flatnonzero(self.tests).tolist()

    @cached_property
    def metadata(self) -> RuleMetadata:
        """Positions, ids, texts, payload and thresholds of the rules."""
        metadata = self._metadata
        return metadata.build() if isinstance(metadata, LateMetadata) else metadata

    def conjunctions_of(self, place: int) -> Conjunctions:
        """Return the conjunctions of the rule at a place of the segment."""
        position = int(self.positions[place])
        for part in self.parts:
            first, stop = part.conjunctions.rule_span(position)
            if first < stop:
                break
        return take(part.conjunctions, np.arange(first, stop))

    @property
    def has_thresholds(self) -> bool:
        """Whether some rule has a threshold, perhaps a removed one."""
        return len(self._metadata.at_least) > 0

    @property
    def has_scores(self) -> bool:
        """Whether some rule has a score of its own, perhaps a removed one."""
        return len(self.metadata.score) > 0

    @property
    def residuals(self) -> Residuals | None:
        """The residuals of the rules, perhaps of removed ones; None if no rule tests a shape."""
        return self._metadata.residuals

    def threshold(self, place: int) -> float | None:
        """Return the probability that the rule at a place requires, or None."""
        at_least = self._metadata.at_least
        return float(at_least[place]) or None if len(at_least) else None

    def settings(self, place: int) -> Settings:
        """Return what the rule at a place has besides its id and condition."""
        weights: dict[int, float] = {}
        if any(len(part.conjunctions.weight) for part in self.parts):
            c = self.conjunctions_of(place)
            weights = dict(zip(c.attribute.tolist(), c.weight.tolist()))
        table, score = self.metadata.payload, self.metadata.score
        payload = {name: to_python(table.column(name)[place]) for name in table.column_names}
        has_score = len(score) > 0 and not np.isnan(score[place])
        return Settings(
            {attribute: weight for attribute, weight in weights.items() if weight != 1.0},
            float(score[place]) if has_score else None,
            {name: value for name, value in payload.items() if value is not None},
            self.threshold(place),
        )

    @property
    def ids(self) -> IdIndex:
        """The index from ids to places; built on first use."""
        if self._ids is None:
            self._ids = IdIndex(self.metadata.ids)
        return self._ids

    def prepare(self, before: Iterable[Segment]) -> None:
        """Build what first uses would build: the index of ids, and what segments `before` have."""
        _ = self.ids
        if any("_fallback" in vars(part) for segment in before for part in segment.parts):
            for part in self.parts:
                part.prepare_for_ranges()

    def __len__(self) -> int:
        """Return the number of rules, including removed ones."""
        return len(self.positions)

    @property
    def nbytes(self) -> int:
        """Bytes, without ids, texts and payload."""
        arrays = [self.positions, self._metadata.at_least, self.metadata.score]
        filters = sum(each.nbytes for own in self.filters for each in own)
        filters += 0 if self.residuals is None else self.residuals.nbytes
        return filters + sum(a.nbytes for a in arrays) + sum(part.nbytes for part in self.parts)


def _add_up(counts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sums of arrays that differ in length."""
    sums = np.zeros(max(map(len, counts), default=0), np.int64)
    for each in counts:
        sums[: len(each)] += each
    return sums


def separate_filtered(
    metadata: RuleMetadata | LateMetadata, conjunctions: Conjunctions
) -> list[Conjunctions]:
    """Return the conjunctions of rules that need no filter, and those that need each filter.

    Conjunctions are in one or several groups; if there are none, in the first.
    """
    group = np.zeros(conjunctions.size, np.int8)
    at_least = _threshold_of_each(metadata, conjunctions)
    if len(at_least):
        group[at_least > 0] = 1
    if metadata.residuals is not None:
        group[np.isin(conjunctions.rule, metadata.residuals.rule)] = 2
    numbers = np.unique(group)
    if len(numbers) <= 1:
        return [conjunctions]
    return [select(conjunctions, group == number) for number in numbers]


def _threshold_of_each(
    metadata: RuleMetadata | LateMetadata, conjunctions: Conjunctions
) -> np.ndarray:
    """Return the threshold of each conjunction's rule, or an empty array if no rule has one."""
    if not len(metadata.at_least):
        return NO_THRESHOLDS
    return metadata.at_least[np.searchsorted(metadata.positions, conjunctions.rule)]


def _filters_of(metadata: RuleMetadata | LateMetadata, part: IndexedPart) -> tuple[Filter, ...]:
    """Return the filters of a part, in the order in which they run."""
    at_least = thresholds(_threshold_of_each(metadata, part.conjunctions))
    filters: list[Filter] = []
    if len(at_least):
        filters.append(Thresholds(part.conjunctions, part.single, at_least))
    if metadata.residuals is not None:
        tests = arrange(metadata.residuals, part.conjunctions)
        if len(tests.code):
            filters.append(Shapes(metadata.residuals, tests))
    return tuple(filters)


class RemovedRules(NamedTuple):
    """The removed rules of a segment, as bitmaps; the lowest bit of a byte comes first."""

    rules: np.ndarray  # uint8, a bit per rule; empty if none is removed
    parts: tuple[np.ndarray, ...]  # uint8, per part a bit per conjunction; empty likewise
    tests: np.ndarray  # int64, rows of removed conjunctions that test each attribute
    size: int  # number of removed rules

    @property
    def nbytes(self) -> int:
        """Bytes of the bitmaps."""
        return self.rules.nbytes + sum(bits.nbytes for bits in self.parts)


_NO_BITS = freeze(np.empty(0), np.uint8)
_NO_TESTS = freeze(np.empty(0), np.int64)


def none_removed(segment: Segment) -> RemovedRules:
    """Return the removals of a segment without removed rules."""
    return RemovedRules(_NO_BITS, (_NO_BITS,) * len(segment.parts), _NO_TESTS, 0)


def remove(
    segment: Segment, removed: RemovedRules, places: np.ndarray, in_place: bool
) -> RemovedRules:
    """Return removals that include the rules at `places`.

    Bits are set `in_place` if no version can be reading them, otherwise in a copy.
    """
    if not removed.size:
        bits = [np.zeros((n + 7) // 8, np.uint8) for n in _sizes(segment)]
    elif in_place:
        bits = [removed.rules, *removed.parts]
    else:
        bits = [each.copy() for each in (removed.rules, *removed.parts)]
    positions = segment.positions[places]
    numbers = [places, *(part.numbers_of(positions) for part in segment.parts)]
    tests = removed.tests if removed.size else np.zeros(len(segment.tests), np.int64)
    for part, part_numbers in zip(segment.parts, numbers[1:], strict=True):
        c = part.conjunctions
        rows: Any = slice(0, 0)
        if len(part_numbers) == 1:
            rows = slice(int(c.offsets[part_numbers[0]]), int(c.offsets[part_numbers[0] + 1]))
        elif len(part_numbers):
            rows = expand_ranges(c.offsets[part_numbers], c.offsets[part_numbers + 1])
        tests = tests + np.bincount(c.attribute[rows], minlength=len(tests))
    result = RemovedRules(bits[0], tuple(bits[1:]), tests, removed.size + len(places))
    # Last, so that a failure before this changes nothing.
    for bitmap, bit_numbers in zip(bits, numbers, strict=True):
        _set_bits(bitmap, bit_numbers)
    return result


def _sizes(segment: Segment) -> list[int]:
    return [len(segment), *(part.conjunctions.size for part in segment.parts)]


def _set_bits(bits: np.ndarray, numbers: np.ndarray) -> None:
    if len(numbers) == 1:
        bits[numbers[0] >> 3] |= 1 << (int(numbers[0]) & 7)
    else:
        np.bitwise_or.at(bits, numbers >> 3, (1 << (numbers & 7)).astype(np.uint8))


def _are_set(bits: np.ndarray, count: int) -> np.ndarray:
    return np.unpackbits(bits, count=count, bitorder="little").view(bool)


class LivePart(NamedTuple):
    """A part of a segment, with the removals and the filters of its conjunctions."""

    part: IndexedPart
    removed: np.ndarray  # a bitmap; empty if none is removed
    filters: tuple[Filter, ...]

    def is_filtered(self, keys: Keys) -> bool:
        """Return whether a filter may drop what accept keeps; an index must then only propose."""
        return any(each.applies(keys) for each in self.filters)


@dataclass(frozen=True, eq=False)
class LiveSegment:
    """A segment in a version, without the removed rules."""

    role: str  # base, delta or recent
    segment: Segment
    removed: RemovedRules

    def __len__(self) -> int:
        return len(self.segment) - self.removed.size

    @property
    def parts(self) -> list[LivePart]:
        """The segment's parts, each with its removals and filters."""
        segment = self.segment
        return list(map(LivePart, segment.parts, self.removed.parts, segment.filters))

    @cached_property
    def attributes(self) -> list[int]:
        """The attributes that live rules test."""
        segment, removed = self.segment, self.removed
        if not removed.size or (segment.tests > removed.tests)[segment.attributes].all():
            return segment.attributes
        return np.flatnonzero(segment.tests > removed.tests).tolist()

    def uncertain_attributes(self) -> set[int]:
        """Return the attributes that live rules with a threshold test."""
        attributes: set[int] = set()
        for part, removed, filters in self.parts:
            is_live = ~_are_set(removed, part.conjunctions.size) if len(removed) else None
            for each in filters:
                attributes |= each.uncertain_attributes(is_live)
        return attributes

    def is_alive(self, place: int) -> bool:
        """Return whether the rule at a place of the segment is live."""
        bits = self.removed.rules
        return not self.removed.size or not (bits[place >> 3] >> (place & 7)) & 1

    def alive(self) -> np.ndarray:
        """Return for each rule whether it is live."""
        if not self.removed.size:
            return np.ones(len(self.segment), bool)
        return ~_are_set(self.removed.rules, len(self.segment))

    def positions(self) -> np.ndarray:
        """Return the positions of live rules."""
        positions: np.ndarray = self.segment.positions
        return positions[self.alive()] if self.removed.size else positions

    def live_metadata(self) -> RuleMetadata:
        """Return the metadata of live rules."""
        return self.segment.metadata.select(self.alive())

    def live_conjunctions(self) -> Conjunctions:
        """Return the conjunctions of live rules, in the rules' order."""
        combined = concatenate(
            [
                select(part.conjunctions, ~_are_set(removed, part.conjunctions.size))
                if len(removed)
                else part.conjunctions
                for part, removed, _ in self.parts
            ]
        )
        if len(self.segment.parts) == 1:
            return combined
        return take(combined, np.argsort(combined.rule, kind="stable"))

    def counts(self) -> list[tuple[int, int, int]]:
        """Return for each part its number of rules, of removed rules, and of bytes.

        Unsatisfiable rules are in no part; they count towards the first.
        """
        counts = []
        for part, removed, _ in self.parts:
            rule = part.conjunctions.rule
            removed_rules = rule[_are_set(removed, len(rule))] if len(removed) else rule[:0]
            bytes_ = part.nbytes + removed.nbytes
            counts.append((len(np.unique(rule)), len(np.unique(removed_rules)), bytes_))
        totals = len(self.segment), self.removed.size, self.nbytes
        rest = [total - sum(each) for total, each in zip(totals, zip(*counts))]
        first = tuple(own + more for own, more in zip(counts[0], rest))
        return [(first[0], first[1], first[2]), *counts[1:]]

    @property
    def nbytes(self) -> int:
        """Bytes, without ids, texts and payload."""
        return self.segment.nbytes + self.removed.nbytes


class RuleDirectory:
    """Looks up ids and payload of the rules of segments by position."""

    def __init__(self, segments: Sequence[Segment], id_type: pa.DataType):
        self._segments = segments
        self._id_type = id_type

    def ids_at(self, positions: np.ndarray) -> pa.Array:
        """Return the ids at positions, in the type that the user gave them in."""
        if not self._segments:
            return pa.array([], self._id_type)
        places = self._places(positions)
        if len(self._segments) > 1:
            ids = pa.chunked_array([segment.metadata.ids for segment in self._segments])
            taken = ids.take(pa.array(places)).combine_chunks()
        else:  # arrays are much cheaper for the matches of one event, and NumPy's even more
            ids = self._segments[0].metadata.ids
            is_text = pa.types.is_large_string(ids.type)
            taken = ids.take(pa.array(places)) if is_text else pa.array(np.asarray(ids)[places])
        if taken.type == self._id_type or taken.nbytes > 2**31 - 1:
            return taken  # also if it is more text than 32-bit offsets can address
        return taken.cast(self._id_type)

    def payload_at(self, positions: np.ndarray, schema: pa.Schema) -> pa.Table:
        """Return the payload at positions with the columns of a schema; missing values are null."""
        parts = [segment.metadata.payload_as(schema) for segment in self._segments]
        if not parts:
            return schema.empty_table()
        return pa.concat_tables(parts).take(pa.array(self._places(positions)))

    def _places(self, positions: np.ndarray) -> np.ndarray:
        """Return the places of rules in the concatenated metadata of all segments."""
        places = np.empty(len(positions), np.int64)
        before = 0
        for number, segment in enumerate(self._segments):
            known = segment.positions
            # Segments hold ascending runs of positions: a rule is in the last one that begins at
            # or before it.
            rows: Any = positions >= known[0] if number else slice(None)
            if known[-1] - known[0] == len(known) - 1:
                places[rows] = positions[rows] - known[0] + before
            else:
                places[rows] = np.searchsorted(known, positions[rows]) + before
            before += len(known)
        return places
