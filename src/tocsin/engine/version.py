"""A version: an immutable snapshot of the rules.

A version can be matched, explained, stored, and shared between threads. It shares segments,
attributes and categories with the versions before and after it. Attributes and categories only
grow; a version records how many of them there were (`attribute_count`, `category_count`).

Data derived from one segment is cached on the segment, so that adding a rule does not rebuild it.
Data derived from all segments is cached on the version, on first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.engine.event_weights import read_event_weights
from tocsin.engine.explain import (
    Explanation,
    build_explanation,
    condition_text,
    single_rule_segment,
)
from tocsin.engine.lint import lint
from tocsin.engine.matching import Run
from tocsin.engine.merging import combine_recent
from tocsin.engine.probabilities.ranges import scales_of
from tocsin.engine.report import Plan, report
from tocsin.engine.segment import LivePart, LiveSegment, RuleDirectory, Segment, none_removed
from tocsin.engine.threaded_run import ThreadedRun
from tocsin.engine.threads import threads_for
from tocsin.errors import (
    EventError,
    EventWarning,
    RuleError,
    UnknownRuleError,
    is_unicode,
    suggest,
    warn,
)
from tocsin.model.attributes import Attributes
from tocsin.model.cached import cached_property
from tocsin.model.categories import Categories
from tocsin.model.event_lines import EventLine, LineReader
from tocsin.model.events import Events
from tocsin.model.matches import Matches
from tocsin.model.schema import Schema


@dataclass(frozen=True)
class Rule:
    """One rule; weights of 1 and null payload are omitted.

    `at_least` is the probability that the rule requires; None if an event only has to satisfy it
    with some of its values. `score` is the rule's own, None if it scores by weights. A payload time
    that Python cannot represent, such as one after the year 9999, is an integer.
    """

    id: Any
    where: str
    weights: dict[str, float] = field(default_factory=dict)
    payload: dict[str, Any] = field(default_factory=dict)
    at_least: float | None = None
    score: float | None = None


@dataclass(frozen=True, eq=False)
class Version:
    """An immutable snapshot of rules, as returned by `Rules.snapshot`.

    >>> import tocsin
    >>> rules = tocsin.Rules({"x": "number"})
    >>> rules.add("high", "x > 5")
    >>> before = rules.snapshot()
    >>> rules.remove("high")
    >>> len(before.match({"x": 7})), len(rules.match({"x": 7}))
    (1, 0)
    """

    attributes: Attributes  # columns of the schema, and terms over them
    attribute_count: int  # number of attributes at that time
    categories: Categories
    category_count: int  # number of categories at that time
    index: str  # the index that the user chose, or auto
    options: Mapping[str, Any]  # of that index
    segments: tuple[LiveSegment, ...]  # oldest rules first
    next_position: int
    id_type: pa.DataType | None  # None while there are no rules
    payload_schema: pa.Schema
    point: tuple[str, str] | None = None  # what the shapes in a table of rules are about

    # ------------------------------------------------------------ look

    @property
    def schema(self) -> Schema:
        """The columns of events and their kinds."""
        return self.attributes.schema

    def __len__(self) -> int:
        return sum(map(len, self.segments))

    def __iter__(self) -> Iterator[Any]:
        """Yield the ids in the order of addition."""
        for live in self.segments:
            yield from live.live_metadata().ids.to_pylist()

    def __contains__(self, id: object) -> bool:
        return self.find(id) is not None

    def __getitem__(self, id: Any) -> Rule:
        segment, place = self.locate(id)
        weights, score, payload, at_least = segment.settings(place)
        where = condition_text(segment, place, self.attributes, self.categories)
        by_name = {self.attributes.name(attribute): weight for attribute, weight in weights.items()}
        id_ = segment.metadata.ids[place].as_py()
        return Rule(id_, where, dict(by_name), dict(payload), at_least, score)

    def find(self, id: Any) -> tuple[int, int] | None:
        """Return the number of the segment that holds a rule and its place there, or None."""
        return find_many(self.segments, [id], self.id_type)[0]

    def locate(self, id: Any) -> tuple[Segment, int]:
        """Return the segment that holds a rule and its place there; raise if there is none."""
        location = self.find(id)
        if location is None:
            raise unknown_rule_error(id, self.segments)
        number, place = location
        return self.segments[number].segment, place

    def positions(self) -> np.ndarray:
        """Return the positions of all rules, ascending."""
        positions = [live.positions() for live in self.segments]
        return np.concatenate(positions) if positions else np.empty(0, np.int32)

    def tested(self) -> list[str]:
        """Return the names of the columns that some rule tests, by itself or within a term."""
        return self.attributes.columns_of(self._rows)

    def tested_attributes(self) -> list[int]:
        """Return the numbers of the attributes that some rule tests."""
        return list(self._rows)

    def plan(self, events: Any = None) -> Plan:
        """Return which index holds which rules, and why; see `Rules.plan`."""
        if events is None:
            return report(self.segments, self.attributes)
        run = self._run(events)
        return report(self.segments, self.attributes, run.count_candidates(), len(run.events))

    def lint(
        self, events: Any = None, same: Sequence[str] = (), threads: int | None = None
    ) -> pa.Table:
        """Return rules that are redundant, or never or always hold; see `Rules.lint`."""
        return lint(self, events, same, threads)

    @property
    def nbytes(self) -> int:
        """Bytes of conjunctions and indexes, without ids, texts and payload."""
        return sum(live.nbytes for live in self.segments)

    def __repr__(self) -> str:
        rules = f"{len(self):,} rule{'s' * (len(self) != 1)}"
        return f"Version({rules} over {self.schema!r})"

    # ------------------------------------------------------------ match

    def match(self, events: Any, threads: int | None = None) -> Matches:
        """Return which rules each event satisfies; see `Rules.match`."""
        line = self._read_line(events, threads)
        if line is None:
            return self._choose_run(self._run(events), threads).match()
        matches = self._run_line(line).match()
        self._lines.give_back(line)
        return matches

    def match_blocks(self, events: Any) -> Iterator[Matches]:
        """Yield the same matches in blocks that share memory; see `Rules.match_blocks`."""
        return self._run(events).blocks()

    def count(self, events: Any, threads: int | None = None) -> np.ndarray:
        """Return how many rules each event satisfies; see `Rules.count`."""
        line = self._read_line(events, threads)
        if line is None:
            return self._choose_run(self._run(events), threads).count()
        counts = self._run_line(line).count()
        self._lines.give_back(line)
        return counts

    def top(
        self, events: Any, k: int = 5, weights: Any = None, threads: int | None = None
    ) -> Matches:
        """Return the k most relevant rules of each event; see `Rules.top`."""
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise RuleError(f"k must be an integer, 1 or more; got {k!r}")
        line = self._read_line(events, threads)
        run = self._run(events) if line is None else self._run_line(line)
        k = max(1, min(int(k), len(self)))
        event_weights = read_event_weights(weights, len(run.events), self.attributes)
        if line is None:
            return self._choose_run(run, threads).top(k, event_weights)
        matches = run.top(k, event_weights)
        self._lines.give_back(line)
        return matches

    def explain(
        self, event: Any, id: Any, weights: Mapping[str, float] | None = None
    ) -> Explanation:
        """Return why a rule matches one event, or why not; see `Rules.explain`."""
        alone = single_rule_segment(*self.locate(id))
        live = LiveSegment("base", alone, none_removed(alone))
        rows = {attribute: row for row, attribute in enumerate(alone.attributes)}
        uncertain = live.uncertain_attributes if alone.has_thresholds else None
        read = Events.read(event, self.attributes, rows, self.categories, uncertain)
        if len(read) != 1:
            raise RuleError(f"explain takes one event, got {len(read)}")
        if weights is not None and not isinstance(weights, Mapping):
            raise EventError(f"weights of the event must be a dict, got {weights!r}")
        event_weights = read_event_weights(weights, 1, self.attributes)
        scale = scales_of(self.attributes) if alone.has_thresholds else None
        ids = RuleDirectory([alone], self.id_type)
        run = Run(live.parts, ids, len(self.attributes), read, scale)
        matched = run.top(1, event_weights)
        line = None if weights is None else event_weights.common
        return build_explanation(alone, matched, self.attributes, read, self.categories, line)

    def _run(self, events: Any) -> Run:
        uncertain = None if self._scale is None else self._uncertain_attributes
        read = Events.read(events, self.attributes, self._rows, self.categories, uncertain)
        if self._coordinates:
            _report_ranges(read.count_ranges(self._coordinates))
        return Run(self._parts, self.directory, self.attribute_count, read, self._scale)

    def _read_line(self, events: Any, threads: int | None) -> EventLine | None:
        """Return the keys of a single event, or None if `Events` has to read the events."""
        if threads is not None:
            return None
        if type(events) is dict:
            plain = self._scale is None and not self._coordinates
            return self._lines.read(events, with_ranges=plain)
        if type(events) is pa.Table and events.num_rows == 1:
            return self._lines.read_row(events)
        return None

    def _run_line(self, line: EventLine) -> Run:
        return Run(self._parts, self.directory, self.attribute_count, line)

    @cached_property
    def _lines(self) -> LineReader:
        return LineReader(self.attributes, self._rows, self.categories)

    def _choose_run(self, run: Run, threads: int | None) -> Run | ThreadedRun:
        """Return the run itself, or a threaded one if it has many events."""
        count = threads_for(len(run.events), threads)
        return run if count == 1 else ThreadedRun(run, count)

    @cached_property
    def _rows(self) -> dict[int, int]:
        """The row of each attribute that some rule tests."""
        used = sorted({a for live in self.segments for a in live.attributes})
        return {attribute: row for row, attribute in enumerate(used)}

    @cached_property
    def _scale(self) -> np.ndarray | None:
        """What the keys of each attribute are; None if no rule has a threshold."""
        if any(live.segment.has_thresholds for live in self.segments):
            return scales_of(self.attributes)
        return None

    @cached_property
    def _coordinates(self) -> list[int]:
        """The attributes that are coordinates of points in shapes."""
        found: set[int] = set()
        for live in self.segments:
            if live.segment.residuals is not None:
                tests = live.segment.residuals.tests
                found |= {*np.unique(tests.x).tolist(), *np.unique(tests.y).tolist()}
        return sorted(found)

    def _uncertain_attributes(self) -> set[int]:
        """Return the attributes that rules with a threshold test."""
        return set().union(*(live.uncertain_attributes() for live in self.segments))

    @cached_property
    def _parts(self) -> list[LivePart]:
        return [part for live in self.segments for part in live.parts]

    @cached_property
    def directory(self) -> RuleDirectory:
        """The ids and the payload of rules, by position."""
        return RuleDirectory([live.segment for live in self.segments], self.id_type or pa.string())

    def settled(self) -> Version:
        """Return the same rules with all recent ones in one segment, as stores have them."""
        recent = [live for live in self.segments if live.role == "recent"]
        if len(recent) <= 1:
            return self
        others = self.segments[: -len(recent)]
        return replace(self, segments=(*others, *combine_recent(recent)))

    def __reduce__(self) -> tuple[Any, ...]:
        from tocsin.engine import archive

        return archive.from_bytes, (archive.to_bytes(self),)

    def inherit(self, before: Version | None) -> Version:
        """Reuse cached data of the version before, where it is the same; return self.

        For a single event, a union over thousands of attributes would take longer than matching.
        """
        if before is not None and "_rows" in before.__dict__:
            tested = [live.attributes for live in self.segments]
            if tested == [live.attributes for live in before.segments]:
                self.__dict__["_rows"] = before.__dict__["_rows"]
                same = self.attributes is before.attributes and self.categories is before.categories
                if same and "_lines" in before.__dict__:
                    self.__dict__["_lines"] = before.__dict__["_lines"]
        if before is not None and "directory" in before.__dict__ and self.id_type == before.id_type:
            segments = [live.segment for live in self.segments]
            if segments == [live.segment for live in before.segments]:
                self.__dict__["directory"] = before.__dict__["directory"]
        return self


def _report_ranges(count: int) -> None:
    """Warn of events whose points are ranges."""
    if count:
        warn(
            f"{count:,} event{'s have' if count > 1 else ' has'} a range in place of a coordinate: "
            "whether the point is in a shape is unknown, so rules hold for it only by alternatives "
            "without shapes",
            EventWarning,
        )


# ------------------------------------------------------------ ids


def plain_id(id: Any) -> Any:
    """Return an id as a Python value, also if it is a NumPy or Arrow scalar."""
    if isinstance(id, np.generic):
        return id.item()
    return id.as_py() if isinstance(id, pa.Scalar) else id


def can_be_id(id: Any, id_type: pa.DataType) -> bool:
    """Return whether a value can be an id of this type."""
    if t.is_integer(id_type):
        return type(id) is int and -(2**63) <= id < 2**63
    return type(id) is str and is_unicode(id)


def find_many(
    segments: tuple[LiveSegment, ...], ids: list[Any], id_type: pa.DataType | None
) -> list[tuple[int, int] | None]:
    """Return for each id the number of the segment that holds its rule and the place, or None."""
    locations: list[tuple[int, int] | None] = [None] * len(ids)
    if id_type is None:
        return locations
    plain = [plain_id(id) for id in ids]
    usable = [i for i, id in enumerate(plain) if can_be_id(id, id_type)]
    if not usable or not segments:
        return locations
    wanted_ids = None
    if len(usable) > 1:
        wanted_ids = pa.array([plain[i] for i in usable], segments[0].segment.metadata.ids.type)
    for number, live in enumerate(segments):
        index = live.segment.ids
        places = (
            [index.find(plain[usable[0]])] if wanted_ids is None else index.find_many(wanted_ids)
        )
        for i, place in zip(usable, places, strict=True):
            if place >= 0 and live.is_alive(place):
                locations[i] = number, int(place)
    return locations


def unknown_rule_error(
    id: Any, segments: tuple[LiveSegment, ...], pending_ids: Sequence[Any] = ()
) -> UnknownRuleError:
    """Return the error for an unknown id, with a similar id if there is one."""
    known = list(pending_ids)
    for live in segments:
        alive = np.flatnonzero(live.alive())[:300]
        known += live.segment.metadata.ids.take(pa.array(alive)).to_pylist()
    return UnknownRuleError(f"there is no rule {id!r}{suggest(id, known)}")
