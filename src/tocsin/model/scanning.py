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

_COMMA = r"[ \t\r\n]*,[ \t\r\n]*"
_END = r"(?=[ \t\r\n]*[)\]])"
_BEGIN = r"(?:(?<=[(\[].)|(?<=[(\[] .))"  # the last character is the first in brackets
_NUMBER = r"-?[0-9]+(?:\.[0-9]*)?"
_TEXT = r"'[^']*'"

# Lists of numbers, lists of texts, texts, backquoted names, and numbers that are no part of a word.
# Digits are 0 to 9: SQL has no other Unicode digits. Each alternative begins with a character of
# its own, so that the regex engine can skip it quickly; an empty group at its end tells which one
# it is.
_SCAN = re.compile(
    rf"[-0-9]{_BEGIN}[0-9]*(?<!-)(?:\.[0-9]*)?(?:{_COMMA}{_NUMBER})*{_END}()"
    rf"|'{_BEGIN}[^']*'(?:{_COMMA}{_TEXT})*{_END}()"
    rf"|{_TEXT}()"
    r"|`[^`]*`"
    r"|[0-9](?<!\w.)[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?()"
    r"|\.[0-9]+()"
)
_NUMBERS, _TEXTS, _ONE_TEXT = 1, 2, 3  # groups
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
        literal, group = match[0], match.lastindex
        if group is None:
            return literal
        if group == _ONE_TEXT:
            literals.append(literal[1:-1])
            return "\0s"
        literals.append(literal)
        if group == _NUMBERS:
            return "\0D" if "." in literal else "\0I"
        if group == _TEXTS:
            return "\0S"
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
            elements = list(_ELEMENT.finditer(text, *match.span()))
            for each in elements:
                if each[2] is None:
                    slots[each.start()] = Slot(number, each[1], len(elements))
                else:
                    slots[each.start(2)] = Slot(number, each[0], len(elements))
        else:
            literal = match[0][1:-1] if group == _ONE_TEXT else match[0]
            slots[match.start()] = Slot(number, literal, 0)
        number += 1
    return slots


def split_texts(literal: str) -> list[str]:
    """Return the elements of a list of texts, without quotes."""
    return _QUOTED.findall(literal)
