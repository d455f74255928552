"""Explain why a rule matches an event or not, predicate by predicate.

The verdict comes from matching itself, and that of each predicate from `accept`. There is no second
implementation that could disagree.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.engine.locations import INSIDE, UNKNOWN, locate
from tocsin.engine.probabilities.ranges import scales_of, uncertainty_of
from tocsin.engine.probabilities.thresholds import predicate_probabilities, probability_of
from tocsin.engine.segment import IndexedPart, Segment
from tocsin.errors import shorten
from tocsin.geometry.shape import Kind as ShapeKind
from tocsin.index.accept import evaluate_predicates
from tocsin.index.exhaustive.index import Exhaustive
from tocsin.model.attributes import Attributes
from tocsin.model.categories import Categories
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import NULL
from tocsin.model.events import Events
from tocsin.model.keys import EventBatch, write_lines
from tocsin.model.matches import Matches
from tocsin.model.predicates import INTERVAL, IS_NULL, NOT_NULL, Predicate
from tocsin.model.residuals import Residual, build_residuals
from tocsin.model.schema import Kind
from tocsin.model.shape_boxes import box_interval
from tocsin.model.shape_texts import residual_text
from tocsin.model.wording import off_by, predicate_text

_LONGEST = 120  # characters of a shape in a line; chosen


@dataclass(frozen=True)
class Test:
    """One predicate, evaluated for one event.

    `holds` is True, False, or None (unknown) if the event has no value. `off` is the distance of
    the value from the nearest one that the predicate allows, positive if the value is too high (a
    timedelta for times); None if there is no distance. A range is a dict of low and high; its
    nearer end counts. The product of `rule_weight` and `event_weight` is what the predicate adds
    to the score in `top`; they are None if there are no weights. If the rule has a threshold,
    `probability` is that of the predicate alone.

    Of a shape, `value` is the point, a tuple, and `off` its distance from the edge: positive if it
    is outside, negative if inside. `unit` is "m" for ST_DistanceSphere, and "" for the unit of the
    coordinates.
    """

    attribute: str
    text: str
    value: Any
    holds: bool | None
    off: Any
    conjunction: int
    rule_weight: float | None = None
    event_weight: float | None = None
    probability: float | None = None
    unit: str | None = None  # None if this is no shape

    def __str__(self) -> str:
        mark = {True: "yes", False: "no", None: "unknown"}[self.holds]
        if self.probability is not None and self.holds:
            mark = {0.0: "no", 1.0: "yes"}.get(self.probability, "perhaps")
        if self.unit is not None:
            return f"{mark:<8}{shorten(self.text, _LONGEST)}    {self._describe_point()}"
        seen = "missing" if self.value is None else _format_value(self.value)
        line = f"{mark:<8}{self.text}    {self.attribute} is {seen}"
        if self.off is not None:
            zero = datetime.timedelta(0) if isinstance(self.off, datetime.timedelta) else 0
            if self.off == zero:
                line += ", just outside: the end is open"
            else:
                line += (
                    f", {'above' if self.off > zero else 'below'} by {_format_value(abs(self.off))}"
                )
        if self.probability is not None and self.holds is not None:
            line += f"; probability {self.probability:.6g}"
        if self.rule_weight is not None and self.event_weight is not None:
            adds = self.rule_weight * self.event_weight
            line += f"; {'adds' if self.holds else 'would add'} {adds:.6g}"
            line += f" = {self.rule_weight:.6g} x {self.event_weight:.6g}"
        return line

    def _describe_point(self) -> str:
        seen = ["missing" if each is None else _format_value(each) for each in self.value]
        line = f"the point is ({', '.join(seen)})"
        if self.off == 0:
            return f"{line}, on the edge"
        if self.off is None:
            return line
        unit = f" {self.unit}" if self.unit else ""
        return f"{line}, {abs(self.off):.6g}{unit} {'outside' if self.off > 0 else 'inside'}"


@dataclass(frozen=True)
class Explanation:
    """Whether a rule matches an event, with all its predicates; prints as a small table.

    `score` is the rule's score in `top` for this event, 0 if it does not match. `own_score` is the
    one that it was given in place of weights, if any. If the rule has a threshold, that is
    `at_least`, and `probability` is the probability of the whole condition.
    """

    rule: Any
    matched: bool
    where: str
    predicates: tuple[Test, ...]  # in the order of the conjunctions
    conjunctions: int
    score: float
    at_least: float | None = None
    probability: float | None = None
    own_score: float | None = None

    def __str__(self) -> str:
        verdict = "matches" if self.matched else "does not match"
        weighted = any(t.rule_weight is not None for t in self.predicates)
        if self.matched and (weighted or self.own_score is not None):
            verdict += f" with score {self.score:.6g}"
        lines = [f"rule {self.rule!r} {verdict}: {self.where}"]
        if self.at_least is not None:
            # All digits if fewer would show the same numbers.
            digits = 17 if f"{self.probability:.6g}" == f"{self.at_least:.6g}" else 6
            lines.append(
                f"  its probability is {self.probability:.{digits}g}, and it requires at least "
                f"{self.at_least:.{digits}g}"
            )
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
    """Return a segment that holds only the rule at a place."""
    keep = np.arange(len(segment)) == place
    index = Exhaustive.build(segment.conjunctions_of(place))
    return Segment(segment.metadata.select(keep), [IndexedPart(index)])


def build_explanation(
    segment: Segment,
    matched: Matches,
    attributes: Attributes,
    events: Events,
    categories: Categories,
    weights: np.ndarray | None,
) -> Explanation:
    """Explain the only rule of a segment for the only event of `events`.

    `matched` is the result of `top`; `weights` are the event's by attribute, if it has any.
    """
    c = segment.conjunctions_of(0)
    keys, densities = events.block(0, 1)
    satisfied = np.empty(len(c.attribute), np.uint8)
    line, last = np.empty(len(attributes), np.int64), np.empty(len(attributes), np.int64)
    write_lines(keys, 0, line, last)
    evaluate_predicates(c, 0, c.size, line, last, satisfied)
    at_least, probability = segment.threshold(0), None
    probabilities: Sequence[float | None] = [None] * len(c.attribute)
    if at_least is not None:
        uncertainty = uncertainty_of(scales_of(attributes), densities)
        out = np.empty(len(c.attribute))
        predicate_probabilities(c, uncertainty, 0, line, last, out)
        probabilities = out.tolist()
        held = [n for n in range(c.size) if satisfied[c.offsets[n] : c.offsets[n + 1]].all()]
        batch = EventBatch.whole(keys, len(attributes))
        probability = probability_of(c, batch, uncertainty, np.array(held, np.int32))
    # Weights are shown if the event has some, or if the rule has some and matches.
    own_score = segment.settings(0).score
    weighted = own_score is None and (
        weights is not None or (bool((c.weight != 1).any()) and len(matched) > 0)
    )
    tests: list[Test] = []
    shown = 0
    latest: list[str] = []
    residuals = _residuals_of(segment, 0)
    for number in range(c.size):
        own: list[Test] = []
        boxes = [] if weighted else _implied(residuals[number], attributes)
        for row in range(int(c.offsets[number]), int(c.offsets[number + 1])):
            attribute = int(c.attribute[row])
            kind, predicate = attributes.kind(attribute), predicate_at(c, row)
            if (attribute, predicate) in boxes:
                continue
            ends = int(line[attribute]), int(last[attribute])
            holds: bool | None = bool(satisfied[row])
            if ends[0] == NULL and not holds and predicate != NOT_NULL:
                holds = None
            # As in `finish.score`: IS NULL adds nothing, nor does a second test of an attribute.
            repeated = row > c.offsets[number] and attribute == c.attribute[row - 1]
            counts = weighted and predicate != IS_NULL and not repeated
            own.append(
                Test(
                    attributes.name(attribute),
                    predicate_text(attributes.sql(attribute), kind, predicate, categories),
                    events.value(attribute, 0),
                    holds,
                    None if holds else _distance(kind, predicate, ends),
                    shown,
                    (float(c.weight[row]) if c.weight.shape[0] else 1.0) if counts else None,
                    (1.0 if weights is None else float(weights[attribute])) if counts else None,
                    probabilities[row],
                )
            )
        own += _locate(residuals[number], shown, line, last, attributes, events)
        # A circle over the date line is two conjunctions, which differ in boxes that are not shown.
        if number == 0 or not residuals[number] or list(map(str, own)) != latest:
            tests += own
            latest, shown = list(map(str, own)), shown + 1
    id_ = segment.metadata.ids[0].as_py()
    where = condition_text(segment, 0, attributes, categories)
    score = float(matched.scores[0]) if matched.scores is not None and len(matched) else 0.0
    is_match = len(matched) > 0
    return Explanation(
        id_, is_match, where, tuple(tests), shown, score, at_least, probability, own_score
    )


def condition_text(
    segment: Segment, place: int, attributes: Attributes, categories: Categories
) -> str:
    """Return a rule's condition: the original text, or one derived from its conjunctions."""
    text = segment.metadata.where[place].as_py()
    if text is not None:
        return str(text)
    c = segment.conjunctions_of(place)
    if not c.size:
        return "FALSE"
    return conjunction_text(c, 0, _residuals_of(segment, place)[0], attributes, categories)


def conjunction_text(
    c: Conjunctions,
    number: int,
    residuals: Sequence[Residual],
    attributes: Attributes,
    categories: Categories,
) -> str:
    """Return a conjunction as SQL; the boxes that follow from its shapes are left out."""
    parts = [residual_text(residual, attributes) for residual in residuals]
    boxes = _implied(residuals, attributes)
    for row in range(int(c.offsets[number]), int(c.offsets[number + 1])):
        attribute = int(c.attribute[row])
        operand, kind = attributes.sql(attribute), attributes.kind(attribute)
        predicate = predicate_at(c, row)
        if (attribute, predicate) not in boxes:
            parts.append(predicate_text(operand, kind, predicate, categories))
    return " AND ".join(parts) or "TRUE"


def _residuals_of(segment: Segment, place: int) -> list[list[Residual]]:
    """Return the residuals of each conjunction of the rule at a place."""
    count, residuals = segment.conjunctions_of(place).size, segment.residuals
    if residuals is None:
        return [[]] * count
    position = int(segment.positions[place])
    return [residuals.of_conjunction(position, number) for number in range(count)]


def _implied(residuals: Sequence[Residual], attributes: Attributes) -> list[tuple[int, Predicate]]:
    """Return the attributes and predicates that follow from residuals."""
    found = []
    for residual in residuals:
        for axis, (attribute, _) in enumerate((residual.x, residual.y)):
            if residual.negated:
                found.append((attribute, NOT_NULL))
                continue
            for box in residual.shape.boxes:
                low, high = box[2 * axis : 2 * axis + 2]
                predicate = box_interval(attributes.kind(attribute), low, high)
                found += [] if predicate is None else [(attribute, predicate)]
    return found


def _locate(
    residuals: Sequence[Residual],
    number: int,
    line: np.ndarray,
    last: np.ndarray,
    attributes: Attributes,
    events: Events,
) -> list[Test]:
    """Return the tests of the shapes of a conjunction."""
    if not residuals:
        return []
    own = build_residuals([(0, [residuals])])
    assert own is not None
    where, distance = np.empty(own.size, np.uint8), np.empty(own.size)
    locate(own.tests, own.shapes, line, last, where, distance)
    tests = []
    for residual, place, off in zip(residuals, where.tolist(), distance.tolist(), strict=True):
        names = [attributes.name(each.attribute) for each in (residual.x, residual.y)]
        value = tuple(events.value(each.attribute, 0) for each in (residual.x, residual.y))
        holds = None if place == UNKNOWN else (place == INSIDE) != residual.negated
        text = residual_text(residual, attributes)
        if holds is not False or not math.isfinite(off):
            signed = None
        else:
            signed = -off if place == INSIDE else off
        unit = "m" if residual.shape.kind == ShapeKind.GLOBE_DISC else ""
        tests.append(Test(", ".join(names), text, value, holds, signed, number, unit=unit))
    return tests


def predicate_at(c: Conjunctions, row: int) -> Predicate:
    """Return the predicate in a row."""
    kind, low, high = int(c.kind[row]), int(c.low[row]), int(c.high[row])
    if kind == INTERVAL:
        return Predicate(INTERVAL, low, high)
    return Predicate(kind, points=tuple(c.points[low:high].tolist()))


def _distance(kind: Kind, predicate: Predicate, ends: tuple[int, int]) -> Any:
    """Return the distance from the nearer end of a range to what a predicate allows."""
    distances = [off_by(kind, predicate, key) for key in ends]
    return min((each for each in distances if each is not None), key=abs, default=None)


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return _format_range(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    return repr(value) if isinstance(value, str) else str(value)


def _format_range(value: dict[str, Any]) -> str:
    edges, ends = value.get("edges"), (value.get("low"), value.get("high"))
    if edges is not None:
        ends = edges[0], edges[-1]
    text = f"{_format_value(ends[0])} to {_format_value(ends[1])}"
    if edges is not None:
        return f"{text} by a histogram"
    if value.get("mean") is not None:
        mean, deviation = _format_value(value["mean"]), _format_value(value["deviation"])
        return f"{text}, normal with mean {mean} and deviation {deviation}"
    return text
