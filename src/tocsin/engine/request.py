"""What to match, and which columns the result has: one description for every way of matching.

The command line, Spark, and whatever reads a file or a message make the same description of plain
values. `engine/result.py` builds the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.errors import RuleError, suggest

HOW = ("all", "top", "count")
OUTPUTS = ("rows", "lists")


@dataclass(frozen=True)
class MatchRequest:
    """How events are matched, and what the result holds; see `tocsin.spark.match`.

    >>> MatchRequest(how="top", k=3, keep=["event"], payload=["team"]).columns_added()
    ['rule', 'score']
    >>> MatchRequest(how="tops")
    Traceback (most recent call last):
    tocsin.errors.RuleError: how must be one of all, top, count; got 'tops'; did you mean 'top'?
    """

    how: str = "all"
    k: int | None = None  # of how="top"
    keep: Sequence[str] | None = None  # columns of the events; None: all
    output: str = "rows"
    weights: str | Mapping[str, float] | None = None  # of all events, or the column with them
    payload: Sequence[str] = ()  # columns of the rules' payload
    rules_version: bool = False

    def __post_init__(self) -> None:
        how, k = self.how, self.k
        if how not in HOW:
            raise RuleError(f"how must be one of {', '.join(HOW)}; got {how!r}{suggest(how, HOW)}")
        if self.output not in OUTPUTS:
            raise RuleError(f"output must be one of {', '.join(OUTPUTS)}; got {self.output!r}")
        if how == "top" and (not isinstance(k, int) or isinstance(k, bool) or k < 1):
            raise RuleError(f"how='top' needs k, an integer, 1 or more; got {k!r}")
        if how != "top" and (k is not None or self.weights is not None):
            raise RuleError(f"k and weights go with how='top'; got how={how!r}")
        if not isinstance(self.weights, str | Mapping | None):
            raise RuleError(
                "weights must be a dict from attribute to weight, or the name of a column of maps; "
                f"got {type(self.weights).__name__}"
            )
        if self.payload and (self.output != "rows" or how == "count"):
            raise RuleError("payload goes with output='rows', a row per match")
        if self.keep is not None:
            object.__setattr__(self, "keep", _read_names("keep", self.keep))
        object.__setattr__(self, "payload", _read_names("payload", self.payload or ()))

    def columns_added(self) -> list[str]:
        """Return the columns that matching adds to the kept ones; the first has the matches."""
        if self.how == "count":
            return ["matches"]
        names = ["rule", "score"] if self.how == "top" else ["rule"]
        return names if self.output == "rows" else [f"{name}s" for name in names]


def _read_names(parameter: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise RuleError(f"{parameter} takes names of columns in a list, as in [{names!r}]")
    names = tuple(names)
    for name in names:
        if not isinstance(name, str):
            raise RuleError(
                f"{parameter} takes names of columns, got {type(name).__name__} {name!r}"
            )
    return names
