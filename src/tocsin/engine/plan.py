"""Which index holds which rules, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tocsin.errors import RuleError, near
from tocsin.index.exhaustive import Exhaustive

INDEXES: dict[str, Any] = {Exhaustive.name: Exhaustive}


def chosen_index(name: Any) -> tuple[Any, str]:
    """Return the class of an index asked for by name, and the reason in a sentence."""
    if name == "auto":
        # The only one so far; the sentence is what `plan` prints.
        return Exhaustive, "it is the only index there is so far"
    if not isinstance(name, str) or name not in INDEXES:
        raise RuleError(
            f"there is no index {name!r}{near(name, INDEXES)} (auto, {', '.join(INDEXES)})"
        )
    return INDEXES[name], "it was asked for"


@dataclass(frozen=True)
class Part:
    """Rules under one index."""

    role: str  # base, delta or recent
    index: str
    rules: int
    conjunctions: int
    removed: int
    nbytes: int
    why: str

    def __str__(self) -> str:
        rules = _counted(self.rules, "rule")
        if self.removed:
            rules += f", {self.removed:,} of them removed"
        return (
            f"{self.role}: {self.index} holds {rules} "
            f"({_counted(self.conjunctions, 'conjunction')}) in {self.nbytes:,} bytes: {self.why}"
        )


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


@dataclass(frozen=True)
class Plan:
    """Which index holds what, and why; prints as a sentence each."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts)) or "no rules yet"

    __repr__ = __str__
