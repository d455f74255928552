"""The result of `plan()`: which index holds which rules, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.engine.segment import IndexedPart, LiveSegment
from tocsin.index.costs import Sample, counted
from tocsin.model.attributes import Attributes


@dataclass(frozen=True)
class Part:
    """Rules under one index."""

    role: str  # base, delta or recent
    index: str
    attributes: tuple[str, ...]  # that most of these rules test, if there are several parts
    rules: int
    conjunctions: int
    removed: int
    nbytes: int
    why: str
    options: Mapping[str, Any]  # of the index, if set explicitly
    expected: float | None = None  # candidates per event, estimated from the rules
    met: float | None = None  # candidates per event, of events that the plan was given

    def __str__(self) -> str:
        rules = counted(self.rules, "rule")
        if self.attributes:
            rules += f" on {' and '.join(self.attributes)}"
        if self.removed:
            rules += f", {self.removed:,} of them removed"
        index = self.index
        if self.options:
            options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
            index += f" ({options})"
        return (
            f"{self.role}: {index} holds {rules} "
            f"({counted(self.conjunctions, 'conjunction')}) in {self.nbytes:,} bytes: {self.why}"
            + self._met_in_words()
        )

    def _met_in_words(self) -> str:
        """Return what events met beside what was expected, if there were events."""
        if self.met is None:
            return ""
        expected = "" if self.expected is None else f", {self.expected:,.1f} were expected"
        return f"; an event met {self.met:,.1f} candidates{expected}"


@dataclass(frozen=True)
class Plan:
    """Which index holds which rules, and why; prints one sentence per part."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts)) or "no rules yet"

    __repr__ = __str__


def report(
    segments: Sequence[LiveSegment],
    attributes: Attributes,
    candidates: Sequence[int] = (),
    events: int = 0,
) -> Plan:
    """Return the plan of a version's segments.

    If `events` were matched, `candidates` is how many they met in each part.
    """
    parts: list[Part] = []
    for live in segments:
        has_several = len(live.parts) > 1
        for (part, _, _), counts in zip(live.parts, live.counts(), strict=True):
            rules, removed, nbytes = counts
            common = part.common_attributes() if has_several else []
            expected = met = None
            if events:
                expected = _expected_candidates(part, attributes)
                met = candidates[len(parts)] / events
            parts.append(
                Part(
                    live.role,
                    part.index.name,
                    tuple(map(attributes.name, common)),
                    rules,
                    part.conjunctions.size,
                    removed,
                    nbytes,
                    _reason(live.role, part.why),
                    part.options,
                    expected,
                    met,
                )
            )
    return Plan(tuple(parts))


def _expected_candidates(part: IndexedPart, attributes: Attributes) -> float | None:
    """Return how many candidates an event should meet, as far as the rules alone tell."""
    if not part.index.priced:
        return None
    cost = type(part.index).cost(Sample.draw(part.conjunctions, attributes.floats()))
    return cost.candidates if cost is not None else None


def _reason(role: str, why: str) -> str:
    """Return why rules are under their index; `why` is the reason given when it was built."""
    if role == "recent":
        return "recent rules are searched exhaustively until the next merge"
    return f"added since the last merge; {why}" if role == "delta" else why
