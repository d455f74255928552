"""The errors that Tocsin raises.

::

    TocsinError
    ├── SchemaError        an attribute is declared twice, without a valid name or kind
    ├── ConditionError     a condition is not valid or not supported; has the position
    ├── ShapeError         a polygon or disc is not valid, or cannot be read
    ├── RuleError          an id, weight, payload or row of a table of rules is not valid
    │   └── UnknownRuleError   no rule has this id (also a KeyError)
    ├── EventError         events lack a column that a rule tests, or its type is wrong
    ├── SimilarityError    points or arguments of a similarity join are not valid
    ├── UncertainError     uncertain readings, or a query over them, are not valid
    ├── CoverError         a box or subscription is not valid or unknown
    ├── MonitorError       positions, durations or the state of a monitor are not valid
    ├── RoutingError       routers are not a tree, or cannot reach each other
    └── StoreError         a rule store is missing, damaged, or has a newer format
        └── StoreConflictError   another writer has published in the meantime

There are three warnings. `ConditionWarning`: a condition, or a part of it, never holds.
`EventWarning`: rules cannot be tested with values that events have. `SimilarityWarning`: an epsilon
gives implausibly many or few pairs.

A message names the thing (rule, row, attribute), the requirement, what came instead, and the
likely cause. It may quote the input. A message that is too long loses its middle.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable

_MAX_MESSAGE = 2_000  # characters, chosen: about a screen
_CONTEXT = 60  # characters of a condition to show before the error; twice as many after it


class TocsinError(Exception):
    """Base class of all errors that Tocsin raises."""

    def __str__(self) -> str:
        # UnknownRuleError is also a KeyError, whose __str__ returns the repr.
        return shorten(str(self.args[0]), _MAX_MESSAGE) if self.args else ""

    def with_place(self, place: str) -> TocsinError:
        """Return this error with a prefix that says where it happened."""
        self.args = (f"{shorten(place, 200)}: {self}", *self.args[1:])
        return self


class SchemaError(TocsinError):
    """An attribute is declared twice, or without a valid name or kind."""


class ConditionError(TocsinError):
    """A condition is not valid or not supported.

    `position` is the offset in the text where the error starts, if known.
    """

    def __init__(self, message: str, position: int | None = None, length: int = 1):
        super().__init__(message)
        self.position = position
        self.length = length
        self._shows_text = False

    def with_text(self, text: str) -> ConditionError:
        """Return this error with the text and carets under the error, added once."""
        if self._shows_text:
            return self
        self._shows_text = True
        if self.position is None:
            self.args = (f"{self}\n  in: {shorten(text, 200)}" if text.strip() else str(self),)
            return self
        start = text.rfind("\n", 0, self.position) + 1
        end = text.find("\n", self.position)
        line = text[start : end if end >= 0 else len(text)]
        row = text.count("\n", 0, self.position) + 1
        column = self.position - start + 1
        before, rest = line[: column - 1], line[column - 1 :]
        if len(before) > _CONTEXT:
            before = "..." + before[3 - _CONTEXT :]
        if len(rest) > 2 * _CONTEXT:
            rest = rest[: 2 * _CONTEXT - 3] + "..."
        carets = "^" * max(1, min(self.length, len(rest)))
        marked = f"  {before}{rest}\n  {' ' * len(before)}{carets}"
        self.args = (f"{self} (line {row}, column {column})\n{marked}",)
        return self


class ShapeError(TocsinError):
    """A polygon or disc is not valid or cannot be read.

    `row` is its position among those that were read together.
    """

    def __init__(self, message: str, row: int = 0):
        super().__init__(message)
        self.row = row


class RuleError(TocsinError):
    """An id, a weight, a payload or a row of a table of rules is not valid."""


class UnknownRuleError(RuleError, KeyError):
    """No rule has this id."""


class EventError(TocsinError):
    """Events lack a column that a rule tests, or its type is wrong."""


class SimilarityError(TocsinError):
    """Points or arguments of a similarity join are not valid."""


class UncertainError(TocsinError):
    """Uncertain readings, or a query over them, are not valid."""


class CoverError(TocsinError):
    """A box or subscription is not valid, or there is none with an id."""


class MonitorError(TocsinError):
    """Positions, durations or the state of a monitor are not valid."""


class RoutingError(TocsinError):
    """Routers are not a tree or cannot reach each other, or a subscription is not known."""


class StoreError(TocsinError):
    """A rule store is missing, damaged, or has a newer format."""


class StoreConflictError(StoreError):
    """Another writer has published in the meantime."""


class ConditionWarning(UserWarning):
    """A condition, or an alternative of an OR, never holds, whatever the event."""


class EventWarning(UserWarning):
    """Events have values that some rules cannot be tested with."""


class SimilarityWarning(UserWarning):
    """An epsilon gives implausibly many or few pairs."""


def warn(message: str, category: type[Warning] = ConditionWarning) -> None:
    """Issue a warning at the first caller outside of Tocsin."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "tocsin":
        level, frame = level + 1, frame.f_back
    warnings.warn(shorten(message, _MAX_MESSAGE), category, stacklevel=level)


def is_unicode(text: str) -> bool:
    """Return whether a string can be encoded as UTF-8; one with lone surrogates cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shorten(text: str, limit: int) -> str:
    """Return the text, without its middle if it is longer than `limit` characters.

    >>> shorten("abcdefghijklmnopqrstuvwxyz", 10)
    'abcde ... 16 characters ... vwxyz'
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} ... {len(text) - 2 * half:,} characters ... {text[-half:]}"


def suggest(name: object, known: Iterable[object]) -> str:
    """Return "; did you mean ...?" if a known name is similar, otherwise an empty string."""
    similar = difflib.get_close_matches(str(name).lower(), [str(k).lower() for k in known], n=1)
    if not similar:
        return ""
    original = next(k for k in known if str(k).lower() == similar[0])
    return f"; did you mean {original!r}?"
