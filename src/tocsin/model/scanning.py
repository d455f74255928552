"""Scans the texts of conditions for literals.

A text without its literals is its *skeleton*. A list of plain literals of one type is one literal,
whatever its length: `a IN (1, 5)` and `a IN (-7)` have the same skeleton. The skeleton tells the
type of each literal, which its spelling determines: integer, decimal, double or text. A list of
integers and decimals is a list of decimals. Other mixed lists, and lists with NULL, doubles or
expressions, are no literals; the literals in them are.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SPACE = r"[ \t\r\n]*"
_NUMBER = r"-?[0-9]+(?:\.[0-9]*)?"
_TEXT = r"'[^']*'"


def _list_of(element: str) -> str:
    return rf"(?<=[(\[]){_SPACE}({element}(?:{_SPACE},{_SPACE}{element})*)(?={_SPACE}[)\]])"


# Lists of numbers, lists of texts, texts, backquoted names, and numbers that are no part of a word.
# Digits are 0 to 9: SQL has no other Unicode digits.
_SCAN = re.compile(
    rf"{_list_of(_NUMBER)}|{_list_of(_TEXT)}|'([^']*)'|`[^`]*`"
    r"|((?<!\w)[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)"
)
_NUMBERS, _TEXTS, _ONE_TEXT, _ONE_NUMBER = 1, 2, 3, 4  # groups
_ELEMENT = re.compile(r"'([^']*)'|-?([0-9.]+)")
_QUOTED = re.compile(r"'([^']*)'")


class Slot(NamedTuple):
    """Where a literal of a text belongs."""

    number: int  # among the literals that `scan` returns
    text: str  # the literal without quotes; in a list of numbers, with its sign
    size: int  # of the list that it is an element of; 0 if it is none


def is_plain(text: str) -> bool:
    """Return whether `scan` can read a text: it has no escape, comment or double quote."""
    return not (
        "\\" in text
        or '"' in text
        or "--" in text
        or "/*" in text
        or "''" in text
        or "\0" in text  # marks literals in skeletons
    )


def scan(text: str) -> tuple[str, list[str]]:
    r"""Return the skeleton and the literals of a plain text.

    >>> scan("n IN (1, -5) AND tier = 'gold' AND x > 3.5")
    ('n IN (\x00I) AND tier = \x00s AND x > \x00d', ['1, -5', 'gold', '3.5'])
    """
    literals: list[str] = []

    def replace(match: re.Match[str]) -> str:
        group = match.lastindex
        if group is None:
            return match[0]
        literal = match[group]
        literals.append(literal)
        if group == _NUMBERS:
            return "\0D" if "." in literal else "\0I"
        if group == _TEXTS:
            return "\0S"
        if group == _ONE_TEXT:
            return "\0s"
        if literal.isdigit():
            return "\0i"
        return "\0e" if "e" in literal or "E" in literal else "\0d"

    return _SCAN.sub(replace, text), literals


def locate(text: str) -> dict[int, Slot]:
    """Return the slots of a text's literals by their offsets, with the elements of lists.

    The offset of a negative number is that of its first digit, as in the parsed text.
    """
    slots: dict[int, Slot] = {}
    number = 0
    for match in _SCAN.finditer(text):
        group = match.lastindex
        if group is None:
            continue
        if group in (_NUMBERS, _TEXTS):
            elements = list(_ELEMENT.finditer(text, *match.span(group)))
            for each in elements:
                if each[2] is None:
                    slots[each.start()] = Slot(number, each[1], len(elements))
                else:
                    slots[each.start(2)] = Slot(number, each[0], len(elements))
        else:
            slots[match.start()] = Slot(number, match[group], 0)
        number += 1
    return slots


def split_texts(literal: str) -> list[str]:
    """Return the elements of a list of texts, without quotes."""
    return _QUOTED.findall(literal)
