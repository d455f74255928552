"""Claims of a paper, measurements, and verdicts, which code decides."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

HOLDS, PARTLY, FAILS = "holds", "partly", "does not hold"


@dataclass(frozen=True)
class Check:
    """A statement of a paper, as a measured number and a limit.

    If a main check fails, the claim does not hold, whatever the others say.
    """

    says: str
    measured: str
    true: bool
    is_main: bool = False


def at_least(says: str, value: float, limit: float, unit: str = "x") -> Check:
    """Check that a number is at least a limit."""
    return Check(
        says, f"{number(value)}{unit} (required: at least {limit:g}{unit})", value >= limit
    )


def at_most(says: str, value: float, limit: float, unit: str = "x") -> Check:
    """Check that a number is at most a limit."""
    return Check(says, f"{number(value)}{unit} (required: at most {limit:g}{unit})", value <= limit)


def near_power(says: str, value: int, expected: int) -> Check:
    """Check that a power of two is the expected one or its neighbour."""
    is_near = expected / 2 <= value <= 2 * expected
    return Check(says, f"{value} (required: {expected}, half or double of it)", is_near)


def main(check: Check) -> Check:
    """Return a check as a main one."""
    return replace(check, is_main=True)


def verdict(checks: list[Check]) -> str:
    """Return the verdict that follows from all checks."""
    if not checks:
        raise ValueError("a figure without checks has no verdict")
    if any(check.is_main and not check.true for check in checks):
        return FAILS
    true = sum(check.true for check in checks)
    return HOLDS if true == len(checks) else PARTLY if true else FAILS


def number(value: float) -> str:
    """Return a number with three digits."""
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
    table: list[list[str]] = field(default_factory=list)  # headings first

    @property
    def verdict(self) -> str:
        return verdict(self.checks)

    @property
    def line(self) -> str:
        """The verdict in one line, with the failed checks."""
        failed = [f"{c.says}: {c.measured}" for c in self.checks if not c.true]
        passed = len(self.checks) - len(failed)
        summary = f"{self.verdict} ({passed} of {len(self.checks)} checks)"
        return f"{summary}; failed: {'; '.join(failed)}" if failed else summary

    def record(self) -> dict[str, Any]:
        """Return the finding as JSON, without the picture."""
        fields = asdict(replace(self, picture=None))
        return {**fields, "verdict": self.verdict, "line": self.line}
