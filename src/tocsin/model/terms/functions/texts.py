"""Functions of texts. Lengths and positions count code points, as in Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.terms import patterns
from tocsin.model.terms.arrays import Value, map_where, start_at_zero
from tocsin.model.terms.coercion import Resolved, TermBuilder, Written
from tocsin.model.terms.functions.function import MANY, Function, need, need_int, need_literal
from tocsin.model.terms.regex import match_regex, translate_regex
from tocsin.model.terms.tree import Term, literal
from tocsin.model.terms.types import BOOLEAN, DOUBLE, INT, STRING, Type

# Spark's optimizer drops the inner of two: lower(upper('straße')) is 'straße' for a column.
_CASES = ("lower", "upper")

# Of what concat and replace return, chosen: far from what a rule compares with constants, and a
# block of 65,536 events has at most 256 MB of such texts.
MAX_GROWN = 4096  # bytes; a longer result is null beyond MAX_GROWTH times its inputs
MAX_GROWTH = 16


def _is_ascii(array: pa.Array) -> bool:
    """Return whether all bytes of texts are ASCII."""
    data = array.buffers()[2]
    if data is None or not len(array):
        return True
    offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
    part = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    words = part[: len(part) // 8 * 8]
    if words.ctypes.data % 8 == 0:
        return not (
            np.bitwise_or.reduce(words.view(np.uint64)) & np.uint64(0x8080808080808080)
            or (part[len(words) :] >= 128).any()
        )
    return not (part >= 128).any()


def _change_case(kernel: Any, function: Callable[[str], str], text: pa.Array) -> pa.Array:
    """Change the case of texts: with Arrow where they are ASCII, otherwise as Python and Java do.

    Arrow maps one code point to one; ß, İ and the final sigma need more.
    """
    text = start_at_zero(text)
    changed = kernel(text)
    if _is_ascii(text):
        return changed
    is_ascii = pc.fill_null(pc.string_is_ascii(text), True)
    rows = np.flatnonzero(~is_ascii.to_numpy(zero_copy_only=False))
    return map_where(text, rows, function, changed)


def lower_text(text: str) -> str:
    """Return a text in lower case, as Spark does."""
    return text.lower()


def upper_text(text: str) -> str:
    """Return a text in upper case, as Spark does."""
    return text.upper()


def _resolve_text(name: str, type_: Type) -> Any:
    def resolve(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
        text = need(arguments[0], STRING, name)
        while name in _CASES and text.function in _CASES:
            text = text.arguments[0]
        return (text,), type_

    return resolve


def _resolve_trim(name: str) -> Any:
    def resolve(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
        text = need(arguments[0], STRING, name)
        if len(arguments) == 1:
            return (text,), STRING
        return (text, need_literal(arguments[1], STRING, f"the second argument of {name}")), STRING

    return resolve


def _trim(kernel: Any) -> Any:
    def compute(call: Any, text: pa.Array, characters: pa.Scalar | None = None) -> pa.Array:
        removed = " " if characters is None else characters.as_py()
        return kernel(text, characters=removed) if removed else text

    return compute


def _length(call: Any, text: pa.Array) -> pa.Array:
    return pc.utf8_length(text).cast(pa.int32(), safe=False)


def _resolve_left(name: str) -> Any:
    def resolve(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
        count = need_int(arguments[1], f"the length of {name}")
        return (need(arguments[0], STRING, name), count), STRING

    return resolve


def _left(call: Any, text: pa.Array, count: pa.Scalar) -> pa.Array:
    return pc.utf8_slice_codeunits(text, 0, max(count.as_py(), 0))


def _right(call: Any, text: pa.Array, count: pa.Scalar) -> pa.Array:
    length = count.as_py()
    return pc.utf8_slice_codeunits(text, -length if length > 0 else 0, None if length > 0 else 0)


def _resolve_substring(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    text = need(arguments[0], STRING, "substring")
    numbers = [need_int(a, "the position or length of substring") for a in arguments[1:]]
    return (text, *numbers), STRING


def _substring(
    call: Any, text: pa.Array, position: pa.Scalar, count: pa.Scalar | None = None
) -> pa.Array:
    start = position.as_py()
    length = 2**31 - 1 if count is None else count.as_py()
    if length <= 0:
        return pc.utf8_slice_codeunits(text, 0, 0)
    if start >= 0:
        start = max(start - 1, 0)
        return pc.utf8_slice_codeunits(text, start, start + length)
    # A start before the text counts, too: substring('ab', -5, 4) is 'a'.
    stop = start + length
    return pc.utf8_slice_codeunits(text, start, stop if stop < 0 else None)


def _resolve_concat(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    for term in arguments:
        if term.type == DOUBLE or term.type.is_nested:
            need(term, STRING, "concat")
    return tuple(build.cast(a, STRING) for a in arguments), STRING


def _concat(call: Any, *texts: Value) -> pa.Array:
    bytes_ = sum(_byte_lengths(text) for text in texts)
    kept = _within_limit(call, bytes_)
    if kept is not None:
        first = next(i for i, text in enumerate(texts) if isinstance(text, pa.Array))
        short = pc.if_else(kept, texts[first], pa.scalar(None, pa.large_string()))
        texts = (*texts[:first], short, *texts[first + 1 :])
    return pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))


def _byte_lengths(text: Value) -> Any:
    if isinstance(text, pa.Scalar):
        return len(text.as_buffer()) if text.is_valid else 0
    return pc.fill_null(pc.binary_length(text), 0).to_numpy()


def _within_limit(call: Any, bytes_: np.ndarray) -> pa.Array | None:
    """Return where texts of given sizes are short enough, or None if all are.

    A short rule can make a text of gigabytes: replace(replace(...)) multiplies its length.
    """
    if not len(bytes_) or bytes_.max() <= MAX_GROWN:
        return None
    kept = bytes_ <= np.maximum(MAX_GROWN, MAX_GROWTH * call.text_bytes())
    return None if kept.all() else pa.array(kept)


def _resolve_replace(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    text = need(arguments[0], STRING, "replace")
    if len(arguments) == 2:
        arguments = [*arguments, literal("", STRING)]
    others = [
        need_literal(a, STRING, "the search text or replacement of replace") for a in arguments[1:]
    ]
    return (text, *others), STRING


def _replace(call: Any, text: pa.Array, search: pa.Scalar, put: pa.Scalar) -> pa.Array:
    old, new = search.as_py(), put.as_py()
    if not old:
        return text
    growth = len(new.encode()) - len(old.encode())
    if growth > 0:
        bytes_ = _byte_lengths(text)
        if len(bytes_) and bytes_.max() * (1 + growth) > MAX_GROWN:
            found = pc.fill_null(pc.count_substring(text, old), 0).to_numpy()
            kept = _within_limit(call, bytes_ + growth * found)
            if kept is not None:
                text = pc.if_else(kept, text, pa.scalar(None, text.type))
    return pc.replace_substring(text, old, new)


def _resolve_part(name: str) -> Any:
    def resolve(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
        text = need(arguments[0], STRING, name)
        return (text, need_literal(arguments[1], STRING, f"the second argument of {name}")), BOOLEAN

    return resolve


def _part(kernel: Any) -> Any:
    def compute(call: Any, text: pa.Array, pattern: pa.Scalar) -> pa.Array:
        return kernel(text, pattern.as_py())

    return compute


def _resolve_like(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    text = need(arguments[0], STRING, "LIKE")
    pattern, *escape = (need_literal(a, STRING, "the pattern of LIKE") for a in arguments[1:])
    if pattern.value is not None and all(e.value is not None for e in escape):
        patterns.parse_like(pattern.value, escape[0].value if escape else None)
    if escape and escape[0].value == "\\":
        escape = []
    return (text, pattern, *escape), BOOLEAN


def _like(
    call: Any, text: pa.Array, pattern: pa.Scalar, escape: pa.Scalar | None = None
) -> pa.Array:
    parts = patterns.parse_like(pattern.as_py(), None if escape is None else escape.as_py())
    return patterns.match_like(text, parts)


def _resolve_rlike(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    text = need(arguments[0], STRING, "RLIKE")
    pattern = need_literal(arguments[1], STRING, "the pattern of RLIKE")
    if pattern.value is not None:
        translate_regex(pattern.value)
    return (text, pattern), BOOLEAN


def _rlike(call: Any, text: pa.Array, pattern: pa.Scalar) -> pa.Array:
    return match_regex(text, translate_regex(pattern.as_py()))


def _simple(name: str, note: str, compute: Any, type_: Type, aliases: tuple[str, ...]) -> Function:
    return Function(
        name,
        f"{name}(text)",
        str(type_),
        note,
        1,
        1,
        _resolve_text(name, type_),
        compute,
        aliases=aliases,
    )


TEXTS: list[Function] = [
    _simple(
        "lower",
        "lower('İ') has two code points",
        lambda call, text: _change_case(pc.ascii_lower, lower_text, text),
        STRING,
        ("lcase",),
    ),
    _simple(
        "upper",
        "upper('straße') is 'STRASSE'",
        lambda call, text: _change_case(pc.ascii_upper, upper_text, text),
        STRING,
        ("ucase",),
    ),
    _simple("length", "in code points", _length, INT, ("len", "char_length", "character_length")),
    *(
        Function(
            name,
            f"{name}(text[, characters])",
            "string",
            "removes spaces only, by default",
            1,
            2,
            _resolve_trim(name),
            _trim(kernel),
            aliases=aliases,
        )
        for name, kernel, aliases in (
            ("trim", pc.utf8_trim, ("btrim",)),
            ("ltrim", pc.utf8_ltrim, ()),
            ("rtrim", pc.utf8_rtrim, ()),
        )
    ),
    Function("left", "left(text, n)", "string", "", 2, 2, _resolve_left("left"), _left),
    Function("right", "right(text, n)", "string", "", 2, 2, _resolve_left("right"), _right),
    Function(
        "substring",
        "substring(text, position[, length])",
        "string",
        "positions start at 1; negative ones count from the end; 0 is the same as 1",
        2,
        3,
        _resolve_substring,
        _substring,
        aliases=("substr",),
    ),
    Function(
        "concat",
        "concat(a, b, ...), a || b",
        "string",
        "null if any argument is null",
        1,
        MANY,
        _resolve_concat,
        _concat,
    ),
    Function(
        "replace", "replace(text, search[, put])", "string", "", 2, 3, _resolve_replace, _replace
    ),
    *(
        Function(
            name, f"{name}(text, part)", "boolean", "", 2, 2, _resolve_part(name), _part(kernel)
        )
        for name, kernel in (
            ("startswith", pc.starts_with),
            ("endswith", pc.ends_with),
            ("contains", pc.match_substring),
        )
    ),
    Function(
        "like",
        "text [I]LIKE pattern [ESCAPE c]",
        "boolean",
        "% and _ also match line breaks; ILIKE compares lower(text)",
        2,
        3,
        _resolve_like,
        _like,
    ),
    Function(
        "rlike",
        "text RLIKE pattern",
        "boolean",
        "finds a match anywhere; only syntax that RE2 and Java read alike; also REGEXP",
        2,
        2,
        _resolve_rlike,
        _rlike,
        aliases=("regexp", "regexp_like"),
    ),
]
