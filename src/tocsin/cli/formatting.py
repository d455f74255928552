"""Write columns as CSV and JSON lines, in the same format as Spark.

Whole columns are converted to text; a row is the concatenation of its columns' texts.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

_QUOTED = '[",\r\n]'  # CSV fields with one of these are quoted
_ESCAPED = r'["\\\x00-\x1f]'
_ESCAPES = {code: f"\\u{code:04X}" for code in range(32)} | {
    ord(char): "\\" + name for char, name in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)
}


def to_csv(columns: Sequence[pa.Array]) -> pa.Buffer:
    """Return rows as lines of CSV; null is an empty field, an empty string is quoted."""
    texts = [_to_csv_texts(column, is_first=not i) for i, column in enumerate(columns)]
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


# ------------------------------------------------------------ numbers and times


def to_texts(array: pa.Array) -> pa.Array:
    """Return numbers, flags, dates and times as text; null stays null."""
    if t.is_floating(array.type):
        return _floats_to_texts(array)
    texts = array.cast(pa.string())
    if t.is_timestamp(array.type):
        texts = pc.replace_substring(texts, " ", "T")
    if t.is_timestamp(array.type) or t.is_date(array.type):
        late = pc.match_substring_regex(texts, "^[0-9]{5}")
        if pc.any(late).as_py():
            texts = pc.if_else(late, _concat("+", texts), texts)
    return texts


def _floats_to_texts(array: pa.Array) -> pa.Array:
    """Return the shortest text of each float, in Java's format: 1.0, 1.0E7, 1.0E-4."""
    texts = array.cast(pa.string())
    size = np.abs(np.asarray(array.fill_null(0)))
    is_plain = pa.array((size == 0) | ((size >= 1e-3) & (size < 1e7)))
    has_no_point = pc.invert(pc.match_substring(texts, "."))
    texts = pc.if_else(pc.and_(is_plain, has_no_point), _concat(texts, ".0"), texts)
    others = texts.filter(pc.invert(is_plain))
    if not len(others):
        return texts
    float_ = array.type.to_pandas_dtype()
    scientific = _translate(others, lambda text: _to_scientific(text, float_))
    return pc.replace_with_mask(texts, pc.invert(is_plain), scientific)


def _to_scientific(text: str, float_: type) -> str:
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    if text in names:
        return names[text]
    number = Decimal(text).normalize()
    if len(number.as_tuple().digits) == 1:
        # Java writes at least two digits, the nearest ones.
        number = Decimal(f"{float_(text):.1e}")
    mantissa, exponent = f"{number:.{max(1, len(number.as_tuple().digits) - 1)}E}".split("E")
    return f"{mantissa}E{int(exponent)}"


# ------------------------------------------------------------ CSV


def _to_csv_texts(array: pa.Array, is_first: bool) -> pa.Array:
    if not t.is_string(array.type):
        return to_texts(array).fill_null("")
    # Spark quotes a # at the beginning of a line, where it would start a comment.
    pattern = f"^$|^#|{_QUOTED}" if is_first else f"^$|{_QUOTED}"
    quoted = pc.match_substring_regex(array, pattern)
    if pc.any(quoted).as_py():
        array = pc.if_else(quoted, _concat('"', pc.replace_substring(array, '"', '""'), '"'), array)
    return array.fill_null("")


# ------------------------------------------------------------ JSON


def _to_json_texts(array: pa.Array) -> pa.Array:
    type_ = array.type
    if t.is_string(type_):
        texts = _quote(array)
    elif t.is_binary(type_):
        codes = [None if v is None else base64.b64encode(v).decode() for v in array.to_pylist()]
        texts = _concat('"', pa.array(codes, pa.string()), '"')
    elif t.is_date(type_) or t.is_timestamp(type_):
        texts = _concat('"', to_texts(array), '"')
    elif t.is_floating(type_):
        texts = to_texts(array)
        texts = pc.if_else(pc.is_finite(array), texts, _concat('"', texts, '"'))
    elif t.is_struct(type_):
        objects = _to_objects([f.name for f in type_], array.flatten())
        texts = pc.if_else(array.is_valid(), objects, pa.scalar(None, pa.string()))
    elif t.is_list(type_):
        lengths = pc.list_value_length(array).fill_null(0)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        texts = _join_lists("[", offsets, _to_json_texts(array.flatten()), "]", array.is_valid())
    elif t.is_map(type_):
        array = array.take(pa.array(np.arange(len(array))))  # drops entries outside the slice
        entries = _concat(_to_key_texts(array.keys), ":", _to_json_texts(array.items))
        texts = _join_lists("{", np.asarray(array.offsets), entries, "}", array.is_valid())
    else:
        texts = to_texts(array)
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


def _to_key_texts(keys: pa.Array) -> pa.Array:
    """Return the keys of a map as text; like Spark, dates and times become numbers."""
    if t.is_timestamp(keys.type) or t.is_date(keys.type):
        keys = keys.cast(pa.int32() if t.is_date(keys.type) else pa.int64())
    return _quote(keys if t.is_string(keys.type) else to_texts(keys))
