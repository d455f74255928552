"""The patterns of LIKE."""

from __future__ import annotations

import functools

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.terms.coercion import TermError

ANY = ("%",)  # any text, in a parsed pattern
ONE = ("_",)  # any code point

Part = str | tuple[str]


@functools.lru_cache(maxsize=4096)
def parse_like(pattern: str, escape: str | None = None) -> tuple[Part, ...]:
    r"""Return the parts of a LIKE pattern: texts that are not empty, `ANY` and `ONE`.

    >>> parse_like("50\\%_%")
    ('50%', ('_',), ('%',))
    """
    escape = "\\" if escape is None else escape
    if len(escape) != 1:
        raise TermError(f"ESCAPE needs one character, got {escape!r}")
    parts: list[Part] = []
    characters = iter(pattern)
    for char in characters:
        part: Part = char
        if char == escape:
            follower = next(characters, None)
            if follower is None or follower not in ("%", "_", escape):
                where = "ends the pattern" if follower is None else f"precedes {follower!r}"
                raise TermError(
                    f"the escape character {escape} {where} {pattern!r}; it can precede only %, _ "
                    "and itself"
                )
            part = follower
        elif char == "%":
            part = ANY
        elif char == "_":
            part = ONE
        if parts and part == ANY and parts[-1] == ANY:
            continue
        if parts and isinstance(part, str) and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    return tuple(parts)


def match_like(text: pa.Array, parts: tuple[Part, ...]) -> pa.Array:
    """Return whether texts match a parsed pattern."""
    if not parts:
        return pc.equal(text, pa.scalar("", text.type))
    match parts:
        case (str() as whole,):
            return pc.equal(text, pa.scalar(whole, text.type))
        case (str() as prefix, ("%",)):
            return pc.starts_with(text, prefix)
        case (("%",), str() as suffix):
            return pc.ends_with(text, suffix)
        case (("%",), str() as part, ("%",)):
            return pc.match_substring(text, part)
    return pc.match_substring_regex(text, _to_regex(parts))


@functools.lru_cache(maxsize=4096)
def _to_regex(parts: tuple[Part, ...]) -> str:
    texts = {ANY: "(?s:.*)", ONE: "(?s:.)"}
    return (
        r"\A"
        + "".join(
            "".join(c if c.isalnum() and c.isascii() else f"\\x{{{ord(c):x}}}" for c in part)
            if isinstance(part, str)
            else texts[part]
            for part in parts
        )
        + r"\z"
    )
