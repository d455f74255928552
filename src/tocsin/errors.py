"""Every error Tocsin raises on purpose.

::

    TocsinError
    ├── SchemaError        an attribute is declared wrongly, twice, or with an unknown kind
    ├── ConditionError     a condition's text is not one we accept; knows the position
    ├── RuleError          an id, weight, payload or row of a table of rules is not usable
    │   └── UnknownRuleError   no rule has this id (also a KeyError)
    ├── EventError         events lack a column that a rule tests, or have it in a wrong type
    └── StoreError         a rule store is missing, damaged, or of a newer format
        └── StoreConflictError   someone else has published in the meantime

A message names the thing (rule, row, attribute), the rule of the language that
is broken, what came instead, and the likely cause. It may quote what came, however long that
is: a message that would be too long to read is cut in its middle.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 2_000  # characters of a message
_AROUND = 60  # characters of a condition's line to show on either side of the trouble


class TocsinError(Exception):
    """Base class of every error that Tocsin raises on purpose."""

    def __str__(self) -> str:
        # KeyError, a second base of UnknownRuleError, would print the repr.
        return shortened(str(self.args[0]), _LONGEST) if self.args else ""

    def at(self, place: str) -> TocsinError:
        """Return the same error, saying first where it happened."""
        self.args = (f"{shortened(place, 200)}: {self}", *self.args[1:])
        return self


class SchemaError(TocsinError):
    """An attribute is declared wrongly, twice, or with an unknown kind."""


class ConditionError(TocsinError):
    """A condition's text is not one we accept.

    `position` is the offset in the text where the trouble starts, if known.
    """

    def __init__(self, message: str, position: int | None = None, length: int = 1):
        super().__init__(message)
        self.position = position
        self.length = length
        self._shows_text = False

    def in_text(self, text: str) -> ConditionError:
        """Return the same error with the text and a caret under the trouble, if not yet there."""
        if self._shows_text:
            return self
        self._shows_text = True
        if self.position is None:
            self.args = (f"{self}\n  in: {shortened(text, 200)}" if text.strip() else str(self),)
            return self
        start = text.rfind("\n", 0, self.position) + 1
        end = text.find("\n", self.position)
        line = text[start : end if end >= 0 else len(text)]
        row = text.count("\n", 0, self.position) + 1
        column = self.position - start + 1
        before, at_once = line[: column - 1], line[column - 1 :]
        if len(before) > _AROUND:
            before = "..." + before[3 - _AROUND :]
        if len(at_once) > 2 * _AROUND:
            at_once = at_once[: 2 * _AROUND - 3] + "..."
        carets = "^" * max(1, min(self.length, len(at_once)))
        marked = f"  {before}{at_once}\n  {' ' * len(before)}{carets}"
        self.args = (f"{self} (line {row}, column {column})\n{marked}",)
        return self


class RuleError(TocsinError):
    """An id, a weight, a payload or a row of a table of rules is not usable."""


class UnknownRuleError(RuleError, KeyError):
    """No rule has this id."""


class EventError(TocsinError):
    """Events lack a column that a rule tests, or have it in a wrong type."""


class StoreError(TocsinError):
    """A rule store is missing, damaged, or of a newer format."""


class StoreConflictError(StoreError):
    """Someone else has published in the meantime."""


def is_unicode(text: str) -> bool:
    """Tell whether a text can be stored: Python's may hold lone surrogates, which no UTF-8 has."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shortened(text: str, most: int) -> str:
    """Return a text of about `most` characters: as it is, or with its middle left out.

    >>> shortened("abcdefghijklmnopqrstuvwxyz", 10)
    'abcde ... 16 characters ... vwxyz'
    """
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... {len(text) - 2 * half:,} characters ... {text[-half:]}"


def near(name: object, known: Iterable[object]) -> str:
    """Return "; did you mean ...?" if a known name is near, otherwise an empty text."""
    close = difflib.get_close_matches(str(name).lower(), [str(k).lower() for k in known], n=1)
    if not close:
        return ""
    original = next(k for k in known if str(k).lower() == close[0])
    return f"; did you mean {original!r}?"
