"""Where texts have a part, and the parts into which they are split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.terms.arrays import from_values, map_where, null_where, validity
from tocsin.model.terms.coercion import Resolved, TermBuilder, TermError, Written
from tocsin.model.terms.functions.function import Function, need, need_int, need_literal
from tocsin.model.terms.regex import translate_regex
from tocsin.model.terms.tree import Term
from tocsin.model.terms.types import BOOLEAN, INT, STRING


def _resolve_instr(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    text = need(arguments[0], STRING, "instr or locate")
    part = need_literal(arguments[1], STRING, "the part to look for")
    starts = [need_int(a, "the position where locate starts") for a in arguments[2:]]
    if any(start.value is None for start in starts):
        raise TermError("the position where locate starts is NULL; write a number")
    return (text, part, *starts), INT


def _instr(call: Any, text: pa.Array, part: pa.Scalar, position: pa.Scalar | None = None) -> Any:
    first = 0 if position is None else position.as_py() - 1
    sought = part.as_py()
    if first < 0 or not sought:
        constant = pa.scalar(int(first >= 0), pa.int32())
        return pc.if_else(pc.is_valid(text), constant, pa.scalar(None, pa.int32()))
    tail = pc.utf8_slice_codeunits(text, first) if first else text
    at = pc.find_substring(tail, sought).cast(pa.int32(), safe=False)  # in bytes
    found = pc.if_else(pc.less(at, 0), pa.scalar(0, pa.int32()), pc.add(at, first + 1))
    is_ascii = pc.fill_null(pc.string_is_ascii(text), True).to_numpy(zero_copy_only=False)
    return map_where(text, np.flatnonzero(~is_ascii), lambda t: t.find(sought, first) + 1, found)


def _need_pattern(term: Term, function: str) -> Term:
    """Return a pattern that splits texts alike in RE2 and Java."""
    pattern = need_literal(term, STRING, f"the pattern of {function}")
    if pattern.value is None:
        return pattern
    regex = translate_regex(pattern.value)
    if regex.has_anchor:
        raise TermError(f"the pattern {pattern.value!r} of {function} must not contain ^ or $")
    if regex.is_far:  # each of many matches may need a look at all of the text
        raise TermError(
            f"the pattern {pattern.value!r} of {function} has * or + together with | or ( ), which "
            "may take long; write one of them, as in [,;]+ or a|b"
        )
    if pc.match_substring_regex(pa.array([""]), regex.pattern)[0].as_py():
        raise TermError(f"the pattern {pattern.value!r} of {function} must not match empty text")
    return pattern


def _split(text: pa.Array, pattern: pa.Scalar) -> pa.Array:
    return pc.split_pattern_regex(text, translate_regex(pattern.as_py()).pattern)


def _resolve_split(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    text = need(arguments[0], STRING, "split")
    pattern = _need_pattern(arguments[1], "split")
    return (text, pattern, need_int(arguments[2], "the number of a part")), STRING


def _take(lists: pa.Array, index: int) -> pa.Array:
    """Return the values at an index of lists, from the end if it is negative; null if absent."""
    sizes = np.diff(np.asarray(lists.offsets))
    is_absent = (index >= sizes) if index >= 0 else (-index > sizes)
    ends = np.asarray(lists.offsets)
    places = (ends[:-1] if index >= 0 else ends[1:]) + (0 if is_absent.all() else index)
    places = from_values(np.where(is_absent, 0, places).astype(np.int64), pa.int64())
    return lists.values.take(null_where(places, is_absent))


def _split_at(call: Any, text: pa.Array, pattern: pa.Scalar, index: pa.Scalar) -> pa.Array:
    # Spark counts from the end in element_at only; see the reader.
    return _take(_split(text, pattern), index.as_py())


def _resolve_split_part(
    build: TermBuilder, arguments: Sequence[Term], written: Written
) -> Resolved:
    text = need(arguments[0], STRING, "split_part")
    delimiter = need_literal(arguments[1], STRING, "the delimiter of split_part")
    number = need_int(arguments[2], "the number of the part")
    if number.value == 0:
        raise TermError("split_part counts from 1, or from the end with negative numbers; got 0")
    return (text, delimiter, number), STRING


def _split_part(call: Any, text: pa.Array, delimiter: pa.Scalar, number: pa.Scalar) -> pa.Array:
    n = number.as_py()
    if delimiter.as_py():
        lists = pc.split_pattern(text, delimiter.as_py())
        part = _take(lists, n - 1 if n > 0 else n)
    else:
        part = text if n in (1, -1) else pc.utf8_slice_codeunits(text, 0, 0)
    absent = pc.if_else(pc.is_valid(text), pa.scalar("", text.type), pa.scalar(None, text.type))
    return pc.coalesce(part, absent)


def _resolve_contains(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    text = need(arguments[0], STRING, "array_contains(split(...))")
    pattern = _need_pattern(arguments[1], "split")
    value = need_literal(arguments[2], STRING, "the value that array_contains looks for")
    return (text, pattern, value), BOOLEAN


def _contains(call: Any, text: pa.Array, pattern: pa.Scalar, value: pa.Scalar) -> pa.Array:
    lists = _split(text, pattern)
    is_equal = np.asarray(pc.equal(lists.values, value).cast(pa.uint8()))
    before = np.concatenate([[0], np.cumsum(is_equal, dtype=np.int64)])
    counts = np.diff(before[np.asarray(lists.offsets)])
    return from_values(counts, pa.int64(), validity(text)).cast(pa.bool_())


PARTS: list[Function] = [
    Function(
        "instr",
        "instr(text, part), locate(part, text[, from])",
        "int",
        "the position of the first occurrence, from 1, in code points; 0 if there is none",
        2,
        3,
        _resolve_instr,
        _instr,
        aliases=("locate", "position"),
    ),
    Function(
        "split",
        "split(text, pattern)[n]",
        "string",
        "from 0; null beyond the last; the pattern as for RLIKE, without ^ and $; also "
        "element_at(split(text, pattern), n), from 1 or from the end",
        3,
        3,
        _resolve_split,
        _split_at,
    ),
    Function(
        "split_part",
        "split_part(text, delimiter, n)",
        "string",
        "from 1, or from the end; empty beyond the last",
        3,
        3,
        _resolve_split_part,
        _split_part,
    ),
    Function(
        "array_contains",
        "array_contains(split(text, pattern), part)",
        "boolean",
        "the only array is what split returns",
        3,
        3,
        _resolve_contains,
        _contains,
    ),
]
