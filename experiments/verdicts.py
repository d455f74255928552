"""What a paper claims, what was measured, and whether it holds: decided by code."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

HOLDS, PARTLY, FAILS = "holds", "partly", "does not hold"


@dataclass(frozen=True)
class Check:
    """One thing that a paper says, as a number and the limit that it must keep."""

    says: str
    measured: str
    true: bool


def at_least(says: str, value: float, limit: float, unit: str = "x") -> Check:
    """Return whether a number reaches a limit."""
    return Check(
        says, f"{number(value)}{unit} (required: at least {limit:g}{unit})", value >= limit
    )


def at_most(says: str, value: float, limit: float, unit: str = "x") -> Check:
    """Return whether a number stays within a limit."""
    return Check(says, f"{number(value)}{unit} (required: at most {limit:g}{unit})", value <= limit)


def near_power(says: str, value: int, expected: int) -> Check:
    """Return whether a power of two is the expected one, or next to it."""
    near = expected / 2 <= value <= 2 * expected
    return Check(says, f"{value} (required: {expected}, half or double of it)", near)


def verdict(checks: list[Check]) -> str:
    """Return what all checks together say."""
    if not checks:
        raise ValueError("a figure without checks has no verdict")
    true = sum(check.true for check in checks)
    return HOLDS if true == len(checks) else PARTLY if true else FAILS


def number(value: float) -> str:
    """Return a number in three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@dataclass
class Finding:
    """A figure, measured again."""

    name: str
    title: str
    source: str
    claim: str
    setting: str
    checks: list[Check]
    picture: Any = field(repr=False, default=None)

    @property
    def verdict(self) -> str:
        return verdict(self.checks)

    @property
    def line(self) -> str:
        """The verdict in one line, with what is against it."""
        against = [f"{c.says}: {c.measured}" for c in self.checks if not c.true]
        kept = len(self.checks) - len(against)
        counted = f"{self.verdict} ({kept} of {len(self.checks)} checks)"
        return f"{counted}; failed: {'; '.join(against)}" if against else counted

    def record(self) -> dict[str, Any]:
        """Return what the page needs, as JSON has it."""
        made = asdict(
            Finding(self.name, self.title, self.source, self.claim, self.setting, self.checks)
        )
        return {**made, "verdict": self.verdict, "line": self.line}
