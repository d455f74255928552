"""Why a rule matched an event, or why not: predicate by predicate.

The verdict comes from matching itself and each predicate's from accept: there is no
second implementation that could disagree.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.engine.segment import IndexedPart, Segment
from tocsin.index.accept import evaluate_predicates
from tocsin.index.exhaustive.index import Exhaustive
from tocsin.model.categories import Categories
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import NULL
from tocsin.model.events import Events
from tocsin.model.keys import write_lines
from tocsin.model.matches import Matches
from tocsin.model.predicates import INTERVAL, IS_NULL, NOT_NULL, Predicate
from tocsin.model.schema import Kind, Schema
from tocsin.model.wording import off_by, predicate_text


@dataclass(frozen=True)
class Test:
    """One predicate, put to one event.

    `holds` is True, False, or None: unknown, since the event has no value. `off` says how
    far the value is from what is asked, positive if it is too high (a timedelta for times);
    None where there is no distance. A range is a dict of low and high, and its nearer end counts.
    `rule_weight` and `event_weight` are what counts in `top`: their product is what the test adds
    to the score; None where that was not asked, or there are no weights.
    """

    attribute: str
    text: str
    value: Any
    holds: bool | None
    off: Any
    conjunction: int
    rule_weight: float | None = None
    event_weight: float | None = None

    def __str__(self) -> str:
        mark = {True: "yes", False: "no", None: "unknown"}[self.holds]
        seen = "missing" if self.value is None else _shown(self.value)
        line = f"{mark:<8}{self.text}    {self.attribute} is {seen}"
        if self.off is not None:
            zero = datetime.timedelta(0) if isinstance(self.off, datetime.timedelta) else 0
            if self.off == zero:
                line += ", just outside: the end is open"
            else:
                line += f", {'above' if self.off > zero else 'below'} by {_shown(abs(self.off))}"
        if self.rule_weight is not None and self.event_weight is not None:
            adds = self.rule_weight * self.event_weight
            line += f"; {'adds' if self.holds else 'would add'} {adds:.6g}"
            line += f" = {self.rule_weight:.6g} x {self.event_weight:.6g}"
        return line


@dataclass(frozen=True)
class Explanation:
    """Whether a rule matches an event, and every predicate of it; prints as a small table.

    `score` is what `top` gives the rule for this event, 0 if it does not match.
    """

    rule: Any
    matched: bool
    where: str
    predicates: tuple[Test, ...]  # in the order of the conjunctions
    conjunctions: int
    score: float

    def __str__(self) -> str:
        verdict = "matches" if self.matched else "does not match"
        if self.matched and any(t.rule_weight is not None for t in self.predicates):
            verdict += f" with score {self.score:.6g}"
        lines = [f"rule {self.rule!r} {verdict}: {self.where}"]
        if not self.conjunctions:
            lines.append("  no event can satisfy this condition")
        for number in range(self.conjunctions):
            if self.conjunctions > 1:
                lines.append(f"  {'or' if number else 'either'}")
            tests = [t for t in self.predicates if t.conjunction == number]
            lines += [f"    {t}" for t in tests] or ["    (always true)"]
        return "\n".join(lines)

    __repr__ = __str__


def single_rule_segment(segment: Segment, place: int) -> Segment:
    """Return a segment of one rule alone, to be matched as any other."""
    here = np.arange(len(segment)) == place
    index = Exhaustive.build(segment.conjunctions_of(place))
    return Segment(segment.metadata.select(here), [IndexedPart(index)])


def build_explanation(
    segment: Segment,
    matched: Matches,
    schema: Schema,
    events: Events,
    categories: Categories,
    weights: np.ndarray | None,
) -> Explanation:
    """Return the explanation of the only rule of a segment for the only event of `events`.

    `matched` is what `top` says of it; `weights` are the event's by attribute, if it has any.
    """
    c = segment.conjunctions_of(0)
    keys = events.keys(0, 1)
    held = np.empty(len(c.attribute), np.uint8)
    line, last = np.empty(len(schema), np.int64), np.empty(len(schema), np.int64)
    write_lines(keys, 0, line, last)
    evaluate_predicates(c, 0, c.size, line, last, held)
    # Where nothing matched and nobody asked, weights say nothing; nor where the rule has none.
    weighted = weights is not None or (bool((c.weight != 1).any()) and len(matched) > 0)
    tests = []
    for number in range(c.size):
        for row in range(int(c.offsets[number]), int(c.offsets[number + 1])):
            attribute = int(c.attribute[row])
            kind, name = schema.kind(attribute), schema.name(attribute)
            predicate = predicate_at(c, row)
            ends = int(line[attribute]), int(last[attribute])
            holds: bool | None = bool(held[row])
            if ends[0] == NULL and not holds and predicate != NOT_NULL:
                holds = None
            # As `finish.score` adds up: what must be null adds nothing, nor a second test.
            repeated = row > c.offsets[number] and attribute == c.attribute[row - 1]
            counts = weighted and predicate != IS_NULL and not repeated
            tests.append(
                Test(
                    name,
                    predicate_text(name, kind, predicate, categories),
                    events.value(attribute, 0),
                    holds,
                    None if holds else _off(kind, predicate, ends),
                    number,
                    (float(c.weight[row]) if c.weight.shape[0] else 1.0) if counts else None,
                    (1.0 if weights is None else float(weights[attribute])) if counts else None,
                )
            )
    id_ = segment.metadata.ids[0].as_py()
    where = condition_text(segment, 0, schema, categories)
    score = float(matched.scores[0]) if matched.scores is not None and len(matched) else 0.0
    return Explanation(id_, len(matched) > 0, where, tuple(tests), c.size, score)


def condition_text(segment: Segment, place: int, schema: Schema, categories: Categories) -> str:
    """Return a rule's condition: the text it was given as, or what its conjunctions say."""
    text = segment.metadata.where[place].as_py()
    if text is not None:
        return str(text)
    c = segment.conjunctions_of(place)
    if not c.size:
        return "FALSE"
    parts = []
    for row in range(len(c.attribute)):
        attribute = int(c.attribute[row])
        kind, name = schema.kind(attribute), schema.name(attribute)
        parts.append(predicate_text(name, kind, predicate_at(c, row), categories))
    return " AND ".join(parts) or "TRUE"


def predicate_at(c: Conjunctions, row: int) -> Predicate:
    """Return the predicate in a row."""
    kind, low, high = int(c.kind[row]), int(c.low[row]), int(c.high[row])
    if kind == INTERVAL:
        return Predicate(INTERVAL, low, high)
    return Predicate(kind, points=tuple(c.points[low:high].tolist()))


def _off(kind: Kind, predicate: Predicate, ends: tuple[int, int]) -> Any:
    """Return how far the nearer end of a range lies from what a predicate allows."""
    offs = [off_by(kind, predicate, key) for key in ends]
    return min((off for off in offs if off is not None), key=abs, default=None)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"{_shown(value['low'])} to {_shown(value['high'])}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return repr(value) if isinstance(value, str) else str(value)
