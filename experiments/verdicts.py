"""Claims of a paper, measurements, and verdicts, which code decides.

A figure has a list of checks. One of them is the *main* check: what the paper's sentences about the
figure mainly say, as a number and a limit that are written here, in code, before anything is
measured. The main check alone decides between "holds" and "does not hold"; the other checks are
listed beside it. If a claim is about data or hardware that is not available, it cannot be tested,
and the finding says why.

A check looks at every point of a sweep: it takes a number for each point, and the worst decides. A
number that was measured in several rounds is given as all of its rounds: the median decides, and
the least and the greatest are shown. So ratios are computed round by round, before they are given
to a check.

Speed-ups are compared with speed-ups. Where a paper gives the share of time saved, it is turned
into one: 90% saved is 10 times as fast. A speed-up is reached if at least half of the paper's gain
is: for 10 times as fast these are 5.5 times (`reaches`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

HOLDS, FAILS, UNTESTED = "holds", "does not hold", "cannot be tested"

Rounds = float | Sequence[float] | np.ndarray  # a number, or what it was in each round


@dataclass(frozen=True)
class Check:
    """A statement of a paper, and whether what we measured agrees with it."""

    says: str
    measured: str
    true: bool
    is_main: bool = False


def at_least(
    says: str, measured: Rounds | Mapping[str, Rounds], limit: float, unit: str = "x"
) -> Check:
    """Check that a number, at every point of a sweep if there are several, is at least a limit."""
    return _compare(says, measured, limit, unit, 1)


def at_most(
    says: str, measured: Rounds | Mapping[str, Rounds], limit: float, unit: str = "x"
) -> Check:
    """Check that a number, at every point of a sweep if there are several, is at most a limit."""
    return _compare(says, measured, limit, unit, -1)


def reaches(says: str, measured: Rounds | Mapping[str, Rounds], paper: float) -> Check:
    """Check that a speed-up has at least half of the gain that the paper's has."""
    says = f"{says} (in the paper {paper:.3g} times)"
    return at_least(says, measured, float(f"{(1 + paper) / 2:.3g}"))


def speed_up(saved: float) -> float:
    """Return how many times as fast something is that saves so many percent of the time."""
    return 100 / (100 - saved)


def main(check: Check) -> Check:
    """Return a check as the main one."""
    return replace(check, is_main=True)


def _compare(
    says: str, measured: Rounds | Mapping[str, Rounds], limit: float, unit: str, sign: int
) -> Check:
    cases = measured if isinstance(measured, Mapping) else {"": measured}
    rounds = {name: np.atleast_1d(np.asarray(values, float)) for name, values in cases.items()}
    worst = min(rounds, key=lambda name: sign * float(np.median(rounds[name])))
    values = rounds[worst]
    middle = float(np.median(values))
    text = f"{number(middle)}{unit}"
    if len(values) > 1:
        text += f" ({number(values.min())} to {number(values.max())})"
    if worst:
        text += f" for {worst}"
        text += f", the worst of {len(rounds)}" if len(rounds) > 1 else ""
    text += f"; required: at {'least' if sign > 0 else 'most'} {limit:g}{unit}"
    if values.min() < limit < values.max():
        text += ", which lies within the spread"
    return Check(says, text, bool(sign * middle >= sign * limit))


def spread(values: Any) -> str:
    """Return the median of several rounds, and the least and the greatest."""
    values = np.asarray(values, float)
    return f"{number(np.median(values))} ({number(values.min())} to {number(values.max())})"


def number(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@dataclass
class Finding:
    """A figure, measured again: one main check and any others, or why it cannot be tested."""

    name: str
    title: str
    source: str
    claim: str
    setting: str
    checks: list[Check]
    picture: Any = field(repr=False, default=None)
    table: list[list[str]] = field(default_factory=list)  # headings first
    differs: str = ""  # what is not as in the paper, in a few words; shown beside the verdict
    untested: str = ""  # why the claim cannot be tested

    def __post_init__(self) -> None:
        mains = sum(check.is_main for check in self.checks)
        if mains != (0 if self.untested else 1):
            raise ValueError(
                f"{self.name}: a figure that can be tested has one main check, and one that cannot "
                f"has none; this one has {mains}"
            )
        self.checks.sort(key=lambda check: not check.is_main)

    @property
    def verdict(self) -> str:
        if self.untested:
            return UNTESTED
        return HOLDS if self.checks[0].true else FAILS

    @property
    def line(self) -> str:
        """The verdict in one line, with what decided it."""
        if self.untested:
            return f"{UNTESTED}: {self.untested}"
        decisive, *others = self.checks
        line = f"{self.verdict}: {decisive.says}: {decisive.measured}"
        if others:
            line += f". Of {len(others)} other checks {sum(c.true for c in others)} pass"
        return line

    def record(self) -> dict[str, Any]:
        """Return the finding as JSON, without the picture."""
        fields = asdict(replace(self, picture=None))
        return {**fields, "verdict": self.verdict, "line": self.line}
