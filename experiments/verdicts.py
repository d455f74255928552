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

*Counted points* (`Claim`, `judge`) are a second rule, by which chapter 2 of the thesis is judged.
A claim is written down before the run. Its points are counted: one agrees if the median of its
rounds is within 5% of the limit, or on the right side of it. It is undecided if what it is compared
with lies between its rounds. Reproduced: 90% of the points agree; partly: half of them do.
Inconclusive: it depends on undecided points, or on how something is read that the paper does not
say. The worst point is shown and does not decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

HOLDS, FAILS, UNTESTED = "holds", "does not hold", "cannot be tested here"
REPRODUCED, PARTLY, NOT_REPRODUCED = "reproduced", "partly", "not reproduced"
INCONCLUSIVE = "inconclusive"
OUTCOMES = (REPRODUCED, PARTLY, NOT_REPRODUCED, INCONCLUSIVE)  # of counted points
OWN = "our own question"  # not a claim of a paper, and not counted

_TOLERANCE = 0.05  # of the limit
_MOST, _HALF = 0.9, 0.5  # of the points

Rounds = float | Sequence[float] | np.ndarray  # a number, or what it was in each round


@dataclass(frozen=True)
class Check:
    """A statement of a paper, and whether what we measured agrees with it."""

    says: str
    measured: str
    true: bool
    is_main: bool = False
    outcome: str = ""  # of counted points


@dataclass(frozen=True)
class Claim:
    """What a paper says of some points, and the number that each is compared with."""

    says: str
    needs: str  # "at least", "at most" or "about", which is both
    limit: float
    unit: str = "x"

    @property
    def bounds(self) -> tuple[float, float]:
        """Return between which numbers a point agrees."""
        least, most = self.limit * (1 - _TOLERANCE), self.limit * (1 + _TOLERANCE)
        return (
            -np.inf if self.needs == "at most" else least,
            np.inf if self.needs == "at least" else most,
        )


Points = Mapping[str, Rounds]


def judge(claim: Claim, readings: Points | Mapping[str, Points]) -> Check:
    """Count the points that agree with a claim, and say what follows.

    Where the paper leaves something open, `readings` has the points of each way to read it. If
    these do not have the same outcome, the claim is inconclusive.
    """
    first = next(iter(readings.values()))
    by_reading: Any = readings if isinstance(first, Mapping) else {"": readings}
    counts = {reading: _count(claim, points) for reading, points in by_reading.items()}
    outcomes = {count.outcome for count in counts.values()}
    found = outcomes.pop() if len(outcomes) == 1 else INCONCLUSIVE
    texts = [
        f"{count.agreeing}" + (f" ({reading})" if reading else "")
        for reading, count in counts.items()
    ]
    reading = max(counts, key=lambda reading: counts[reading].miss)
    worst = counts[reading].worst + (f" ({reading})" if reading else "")
    measured = f"{', '.join(texts)}; the worst {worst}"
    if all(len(points) == 1 for points in by_reading.values()) and len(counts) == 1:
        measured = worst
    measured += f"; required: {claim.needs} {number(claim.limit)}{claim.unit}"
    return Check(claim.says, measured, found == REPRODUCED, outcome=found)


class _Count(NamedTuple):
    outcome: str
    agreeing: str  # how many points do, in words
    miss: float  # of the worst point
    worst: str


def _count(claim: Claim, points: Points) -> _Count:
    least, most = claim.bounds
    rounds = {name: np.atleast_1d(np.asarray(values, float)) for name, values in points.items()}
    middles = {name: float(np.median(values)) for name, values in rounds.items()}
    agree = {name for name, middle in middles.items() if least <= middle <= most}
    undecided = {
        name
        for name, values in rounds.items()
        if any(values.min() < bound < values.max() for bound in (least, most))
    }
    outcomes = {
        _outcome(len(each) / len(points)) for each in (agree - undecided, agree | undecided)
    }
    misses = {name: max(least - middle, middle - most) for name, middle in middles.items()}
    name = max(misses, key=lambda name: misses[name])
    text = f"{len(agree)} of {len(points)} agree"
    text += f" with {len(undecided)} undecided" if undecided else ""
    values = rounds[name]
    worst = f"{number(middles[name])}{claim.unit}"
    if len(values) > 1:
        worst += f" ({number(values.min())} to {number(values.max())})"
    worst += f" for {name}" if name else ""
    outcome = outcomes.pop() if len(outcomes) == 1 else INCONCLUSIVE
    return _Count(outcome, text, misses[name], worst)


def _outcome(share: float) -> str:
    return REPRODUCED if share >= _MOST else PARTLY if share >= _HALF else NOT_REPRODUCED


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
    is_own: bool = False  # a question of our own

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
        if self.is_own:
            return OWN
        if self.checks[0].outcome:
            return self.checks[0].outcome
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
