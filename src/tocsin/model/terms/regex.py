r"""Translates regular expressions from Java's syntax, which Spark uses, to RE2's, which Arrow uses.

What both have is translated so that it means what it means in Java: `.` does not match any of
Java's line terminators, `$` matches before a final one, `\s` includes the vertical tab, and `(?i)`
ignores the case of ASCII letters only. What RE2 lacks is refused: lookaround, backreferences,
possessive quantifiers, atomic groups, intersections of classes. So is what depends on the version
of Java or of Unicode: `\b`, `\p{...}`, and the flags m, u, x, d, U.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.terms.coercion import TermError

_NOT_TERMINATOR = r"[^\n\r\x{85}\x{2028}\x{2029}]"
_LAST_TERMINATOR = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])\z"
_SETS = {
    "d": r"0-9",
    "w": r"a-zA-Z_0-9",
    "s": r"\t\n\x{b}\f\r ",
    "h": r"\t \x{a0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}",
    "v": r"\n\x{b}\f\r\x{85}\x{2028}\x{2029}",
    "D": r"\x{0}-/:-\x{10ffff}",
    "W": r"\x{0}-/:-@\[-^`\{-\x{10ffff}",
    "S": r"\x{0}-\x{8}\x{e}-\x{1f}!-\x{10ffff}",
}
_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
_REPEAT = re.compile(r"\{([0-9]+)(,?)([0-9]*)\}")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})")
_GROUP = re.compile(r"\?(?:([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])|<([a-zA-Z][a-zA-Z0-9]*)>)")
_ANCHORS = ("$", r"\A", r"\z")
_MAX_REPEAT = 1000  # RE2's
_MAX_DEPTH = 50

# A node is RE2's text, "$", or a group: alternatives, each a list of nodes, and the quantifier.
_Node = str | tuple[list[list["_Node"]], str]


class Regex(NamedTuple):
    """A pattern of RE2, and whether the text without a last line terminator may match as well."""

    pattern: str
    skips_terminator: bool
    has_anchor: bool
    is_far: bool  # whether a short match may need a look at all of a text
    size: int  # characters, sets and anchors, as often as they are repeated


@functools.lru_cache(maxsize=4096)
def translate_regex(pattern: str) -> Regex:
    r"""Return a pattern of Java as a pattern of RE2; raise a TermError if there is none.

    >>> translate_regex("^a.c$").pattern
    '\\Aa[^\\n\\r\\x{85}\\x{2028}\\x{2029}]c\\z'
    """
    parser = _Parser(pattern)
    alternatives = parser.alternatives(0)
    if parser.at < len(pattern):
        raise parser.refuse("the parenthesis ) has no partner")
    translated = _write(alternatives, True, parser)
    if parser.has_dollar and parser.has_end:
        raise parser.refuse("$ and \\z do not go together")
    try:
        pc.match_substring_regex(pa.array([""]), translated)  # of no texts, Arrow checks nothing
    except pa.ArrowInvalid as error:
        raise parser.refuse(str(error)) from None
    is_far = parser.is_unbounded and (parser.has_group or len(alternatives) > 1)
    return Regex(translated, parser.has_dollar, _has_anchor(alternatives), is_far, parser.size)


def match_regex(text: pa.Array, regex: Regex) -> pa.Array:
    """Return whether a regular expression is found in texts."""
    found = pc.match_substring_regex(text, regex.pattern)
    if not regex.skips_terminator:
        return found
    # RE2 cannot look ahead from $ to a line terminator that is the last: it is cut off instead.
    has_terminator = pc.match_substring_regex(text, _LAST_TERMINATOR)
    if not pc.any(has_terminator).as_py():
        return found
    cut = pc.replace_substring_regex(text, _LAST_TERMINATOR, "")
    return pc.or_(found, pc.match_substring_regex(cut, regex.pattern))


def _write(alternatives: list[list[_Node]], is_tail: bool, parser: _Parser) -> str:
    branches = []
    for sequence in alternatives:
        texts = []
        for i, node in enumerate(sequence):
            is_last = is_tail and i == len(sequence) - 1
            if node == "$":
                if not is_last:
                    raise parser.refuse("$ is supported at the end only")
                parser.has_dollar = True
                texts.append(r"\z")
            elif isinstance(node, str):
                texts.append(node)
            else:
                inner, quantifier = node
                texts.append(f"(?:{_write(inner, is_last and not quantifier, parser)}){quantifier}")
        branches.append("".join(texts))
    return "|".join(branches)


def _has_anchor(alternatives: list[list[_Node]]) -> bool:
    return any(
        node in _ANCHORS if isinstance(node, str) else _has_anchor(node[0])
        for sequence in alternatives
        for node in sequence
    )


class _Parser:
    """Parses a pattern of Java; `at` is the position of the next character."""

    def __init__(self, pattern: str):
        self._pattern = pattern
        self.at = 0
        self._ignores_case = False
        self._dot_matches_all = False
        self._names: set[str] = set()
        self.has_dollar = False
        self.has_end = False
        self.size = 0
        self.has_group = False
        self.is_unbounded = False
        self._times = 1  # that the node read last is repeated

    def refuse(self, problem: str) -> TermError:
        return TermError(f"the regular expression {self._pattern!r} is not supported: {problem}")

    def alternatives(self, depth: int) -> list[list[_Node]]:
        if depth > _MAX_DEPTH:
            raise self.refuse("its groups are nested too deeply")
        found: list[list[_Node]] = [[]]
        while self.at < len(self._pattern) and self._pattern[self.at] != ")":
            if self._pattern[self.at] == "|":
                self.at += 1
                found.append([])
                continue
            before = self.size
            node = self._atom(depth)
            self.size += 1
            if node is not None:
                found[-1].append(self._quantified(node))
                self.size = before + (self.size - before) * self._times
                self._times = 1
        return found

    def _peek(self, offset: int = 0) -> str:
        return self._pattern[self.at + offset : self.at + offset + 1]

    def _atom(self, depth: int) -> _Node | None:
        char = self._peek()
        self.at += 1
        if char == "(":
            return self._group(depth)
        if char == "[":
            return self._class()
        if char == "\\":
            return self._escape()
        if char == ".":
            return "(?s:.)" if self._dot_matches_all else _NOT_TERMINATOR
        if char == "^":
            return r"\A"
        if char == "$":
            return "$"
        if char in "*+?{":
            raise self.refuse(f"nothing precedes {char}; write \\{char} for the character itself")
        return self._literal(ord(char))

    def _group(self, depth: int) -> _Node | None:
        before = self._ignores_case, self._dot_matches_all
        if self._peek() == "?":
            match = _GROUP.match(self._pattern, self.at)
            if match is None:
                raise self.refuse(
                    "RE2 has no lookahead, lookbehind, atomic or other special groups (?"
                )
            self.at = match.end()
            if match[4] is not None:
                if match[4] in self._names:
                    raise self.refuse(f"two groups have the name {match[4]}")
                self._names.add(match[4])
            for flags, value in ((match[1] or "", True), (match[2] or "", False)):
                for flag in flags:
                    if flag == "i":
                        self._ignores_case = value
                    elif flag == "s":
                        self._dot_matches_all = value
                    else:
                        raise self.refuse(f"the flag {flag} is not supported, only i and s are")
            if match[3] == ")":
                return None  # until the end of the enclosing group
        self.has_group = True
        inner = self.alternatives(depth + 1)
        if self._peek() != ")":
            raise self.refuse("a parenthesis ( is not closed")
        self.at += 1
        self._ignores_case, self._dot_matches_all = before
        return inner, ""

    def _quantified(self, node: _Node) -> _Node:
        char = self._peek()
        if not char or char not in "*+?{":
            return node
        if char == "{":
            match = _REPEAT.match(self._pattern, self.at)
            if match is None:
                raise self.refuse("{ does not start a repetition; write \\{ for the character")
            quantifier = match[0]
            numbers = [int(n) for n in (match[1], match[3]) if n]
            if max(numbers) > _MAX_REPEAT or numbers != sorted(numbers):
                raise self.refuse(f"{quantifier} repeats more than {_MAX_REPEAT} times, or never")
            if match[3] and not match[2]:
                raise self.refuse(f"{quantifier} is not a repetition")
            quantifier = f"{{{match[1]}{match[2]}{match[3]}}}"
            self._times = max(1, *numbers)
            self.is_unbounded |= bool(match[2]) and not match[3]
            self.at = match.end()
        else:
            quantifier = char
            self.is_unbounded |= char != "?"
            self.at += 1
        if isinstance(node, str) and node in _ANCHORS:
            raise self.refuse("a repetition follows ^ or $")
        if self._peek() == "?":
            self.at += 1
            quantifier += "?"
        elif self._peek() == "+":
            raise self.refuse("RE2 has no possessive quantifiers")
        if self._peek() and self._peek() in "*+?{":
            raise self.refuse("one repetition follows another; use parentheses")
        if isinstance(node, str):
            return f"(?:{node}){quantifier}"
        if _has_anchor(node[0]):
            # Java does not find all ways to repeat it.
            raise self.refuse("a group with ^ or $ is repeated")
        return node[0], quantifier

    def _escape(self) -> _Node:
        char = self._peek()
        if char == "Q":
            end = self._pattern.find("\\E", self.at)
            end = len(self._pattern) if end < 0 else end
            quoted = self._pattern[self.at + 1 : end]
            self.size += len(quoted)
            self.at = end + 2 if end < len(self._pattern) else end
            if self._peek() and self._peek() in "*+?{":
                raise self.refuse("a repetition follows \\E; use parentheses")
            return "".join(self._literal(ord(c)) for c in quoted)
        if char in _SETS:
            self.at += 1
            return f"[{_SETS[char]}]"
        if char and char in "Az":
            self.at += 1
            self.has_end |= char == "z"
            return "\\" + char
        if char == "Z":
            self.at += 1
            return "$"
        return self._literal(self._escaped_character())

    def _escaped_character(self) -> int:
        char = self._peek()
        if not char:
            raise self.refuse("it ends in a backslash")
        if char in _CONTROLS:
            self.at += 1
            return _CONTROLS[char]
        match = _HEX.match(self._pattern, self.at)
        if match is not None:
            self.at = match.end()
            code = int(match[1] or match[2] or match[3], 16)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise self.refuse(f"\\{match[0]} is not a character")
            return code
        if char.isascii() and char.isalnum():
            reason = {
                "b": "\\b depends on the version of Java; name the characters around the word",
                "B": "\\B depends on the version of Java",
                "p": "\\p depends on the version of Unicode; name the characters",
                "P": "\\P depends on the version of Unicode; name the characters",
            }.get(char, f"RE2 has no \\{char}")
            if char.isdigit():
                reason = "RE2 has no backreferences, and octal numbers are refused"
            raise self.refuse(reason)
        if not char.isascii():
            raise self.refuse(f"a backslash precedes {char}")
        self.at += 1
        return ord(char)

    def _literal(self, code: int) -> str:
        char = chr(code)
        if self._ignores_case and char.isascii() and char.isalpha():
            return f"[{char.lower()}{char.upper()}]"
        return _quote(code)

    def _class(self) -> str:
        is_negated = self._peek() == "^"
        self.at += is_negated
        members: list[str] = []
        if self._peek() == "]":
            raise self.refuse("a class [ ] is empty; write \\] for the character")
        while self._peek() != "]":
            if not self._peek():
                raise self.refuse("a class [ is not closed")
            members.append(self._member())
        self.at += 1
        return f"[{'^' if is_negated else ''}{''.join(members)}]"

    def _member(self) -> str:
        char = self._peek()
        if char == "[":
            raise self.refuse("a class inside a class; write \\[ for the character")
        if char == "&" and self._peek(1) == "&":
            raise self.refuse("RE2 has no intersections of classes (&&)")
        if char == "\\" and self._peek(1) in _SETS:
            self.at += 2
            if self._peek() == "-" and self._peek(1) != "]":
                raise self.refuse("a range cannot start with a set of characters")
            return _SETS[self._pattern[self.at - 1]]
        first = self._class_character()
        if self._peek() != "-" or self._peek(1) in ("]", ""):
            return self._range(first, first)
        self.at += 1
        if self._peek() == "[" or (self._peek() == "\\" and self._peek(1) in _SETS):
            raise self.refuse("a range cannot end with a set of characters")
        last = self._class_character()
        if last < first:
            raise self.refuse(f"the range {chr(first)}-{chr(last)} is empty")
        return self._range(first, last)

    def _class_character(self) -> int:
        char = self._peek()
        self.at += 1
        return self._escaped_character() if char == "\\" else ord(char)

    def _range(self, first: int, last: int) -> str:
        text = _quote(first) if first == last else f"{_quote(first)}-{_quote(last)}"
        if self._ignores_case:
            for low, high, shift in ((65, 90, 32), (97, 122, -32)):
                start, stop = max(first, low), min(last, high)
                if start <= stop:
                    text += f"{chr(start + shift)}-{chr(stop + shift)}"
        return text


def _quote(code: int) -> str:
    """Return a character as RE2 reads it, in a class or outside."""
    char = chr(code)
    if char.isascii() and char.isalnum():
        return char
    return char if char in "_ " else f"\\x{{{code:x}}}"
