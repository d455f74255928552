"""Write columns as CSV and JSON lines.

Whole columns are converted to text; a row is the concatenation of its columns' texts.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.model.arrow import is_list, is_text

_QUOTED = '[",\r\n]'  # CSV fields with one of these are quoted
_ESCAPED = r'["\\\x00-\x1f]'
_ESCAPES = {code: f"\\u{code:04X}" for code in range(32)} | {
    ord(char): "\\" + name for char, name in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)
}


def to_csv(columns: Sequence[pa.Array]) -> pa.Buffer:
    """Return rows as lines of CSV; null is an empty field, an empty string is quoted."""
    texts = map(_to_csv_texts, columns)
    return _text_buffer(_concat(pc.binary_join_element_wise(*texts, ","), "\n"))


def to_json_lines(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Buffer:
    """Return rows as JSON objects, one per line, with all fields, also null ones."""
    return _text_buffer(_concat(_to_objects(names, columns), "\n"))


def _text_buffer(lines: pa.Array) -> pa.Buffer:
    """Return the memory of an array of strings: one string after the other."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32, len(lines) + 1, lines.offset * 4)
    return lines.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _concat(*pieces: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, "")


def _translate(texts: pa.Array, translate: Callable[[str], str]) -> pa.Array:
    """Apply a function to each distinct text."""
    encoded = texts.dictionary_encode()
    translated = pa.array(map(translate, encoded.dictionary.to_pylist()), pa.string())
    return translated.take(encoded.indices)


def is_bytes(type_: pa.DataType) -> bool:
    """Return whether a type is binary, in any of Arrow's layouts."""
    return t.is_binary(type_) or t.is_large_binary(type_) or t.is_fixed_size_binary(type_)


def to_texts(array: pa.Array) -> pa.Array:
    """Return atoms as text: 4.0, 1e+20, NaN, 2024-05-01T12:00:00.123456Z; null stays null."""
    type_ = array.type
    if t.is_timestamp(type_):
        array = array.cast(pa.timestamp("us", type_.tz and "UTC"), safe=False)
        return pc.replace_substring(array.cast(pa.string()), " ", "T")
    texts = array.cast(pa.string())
    if t.is_floating(type_):
        whole = pc.match_substring_regex(texts, "^-?[0-9]+$")
        texts = pc.if_else(whole, _concat(texts, ".0"), texts)
        if not pc.all(pc.is_finite(array)).as_py():
            texts = pc.replace_substring(texts, "nan", "NaN")
            texts = pc.replace_substring(texts, "inf", "Infinity")
    return texts


# ------------------------------------------------------------ CSV


def _to_csv_texts(array: pa.Array) -> pa.Array:
    texts = to_texts(array)
    if is_text(array.type):
        quoted = pc.match_substring_regex(texts, f"^$|{_QUOTED}")
        if pc.any(quoted).as_py():
            escaped = _concat('"', pc.replace_substring(texts, '"', '""'), '"')
            texts = pc.if_else(quoted, escaped, texts)
    return texts.fill_null("")


# ------------------------------------------------------------ JSON


def _to_json_texts(array: pa.Array) -> pa.Array:
    type_ = array.type
    if t.is_struct(type_):
        objects = _to_objects([f.name for f in type_], array.flatten())
        texts = pc.if_else(array.is_valid(), objects, pa.scalar(None, pa.string()))
    elif is_list(type_):
        array = array.cast(pa.list_(type_.value_type))
        lengths = pc.list_value_length(array).fill_null(0)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        texts = _join_lists("[", offsets, _to_json_texts(array.flatten()), "]", array.is_valid())
    elif t.is_map(type_):
        array = array.take(pa.array(np.arange(len(array))))  # drops entries outside the slice
        entries = _concat(_quote(to_texts(array.keys)), ":", _to_json_texts(array.items))
        texts = _join_lists("{", np.asarray(array.offsets), entries, "}", array.is_valid())
    elif is_bytes(type_):
        codes = [None if v is None else base64.b64encode(v).decode() for v in array.to_pylist()]
        texts = _concat('"', pa.array(codes, pa.string()), '"')
    elif t.is_floating(type_):
        texts = to_texts(array)
        texts = pc.if_else(pc.is_finite(array), texts, _concat('"', texts, '"'))
    elif t.is_integer(type_) or t.is_decimal(type_) or t.is_boolean(type_) or t.is_null(type_):
        texts = to_texts(array)
    else:
        texts = _quote(to_texts(array))
    return texts.fill_null("null")


def _to_objects(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    pieces: list[pa.Array | str] = []
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        pieces += [f'{"," if i else "{"}"{name.translate(_ESCAPES)}":', _to_json_texts(column)]
    return _concat(*pieces, "}")


def _quote(texts: pa.Array) -> pa.Array:
    escaped = pc.match_substring_regex(texts, _ESCAPED)
    if pc.any(escaped).as_py():
        others = _translate(texts.filter(escaped), lambda text: text.translate(_ESCAPES))
        texts = pc.replace_with_mask(texts, escaped.fill_null(False), others)
    return _concat('"', texts, '"')


def _join_lists(
    opening: str, offsets: np.ndarray, items: pa.Array, closing: str, valid: pa.Array
) -> pa.Array:
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)
    joined = _concat(opening, pc.binary_join(lists, ","), closing)
    return pc.if_else(valid, joined, pa.scalar(None, pa.string()))
