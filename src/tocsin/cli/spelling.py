"""Values as CSV and JSON lines have them, written as Spark writes them.

Everything is done for whole columns; a row is the texts of its columns, joined.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

_QUOTED = '[",\r\n]'  # a text in CSV that has one of these is in quotes
_ESCAPED = r'["\\\x00-\x1f]'
_ESCAPES = {code: f"\\u{code:04X}" for code in range(32)} | {
    ord(char): "\\" + name for char, name in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)
}


def csv_lines(columns: Sequence[pa.Array]) -> pa.Buffer:
    """Return rows as lines of CSV; null is empty, an empty text is in quotes."""
    texts = [_csv_texts(column, is_first=not i) for i, column in enumerate(columns)]
    return _data(_concat(pc.binary_join_element_wise(*texts, ","), "\n"))


def json_lines(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Buffer:
    """Return rows as objects, one a line, with all fields, also those that are null."""
    return _data(_concat(_objects(names, columns), "\n"))


def _data(lines: pa.Array) -> pa.Buffer:
    """Return what texts are in memory: one after the other."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32, len(lines) + 1, lines.offset * 4)
    return lines.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _concat(*pieces: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, "")


def _translated(texts: pa.Array, translate: Callable[[str], str]) -> pa.Array:
    """Return other texts for texts, each distinct one looked at once."""
    encoded = texts.dictionary_encode()
    other = pa.array(map(translate, encoded.dictionary.to_pylist()), pa.string())
    return other.take(encoded.indices)


# ------------------------------------------------------------ numbers and times


def plain_texts(array: pa.Array) -> pa.Array:
    """Return numbers, flags, dates and times as texts; null stays null."""
    if t.is_floating(array.type):
        return _float_texts(array)
    texts = array.cast(pa.string())
    if t.is_timestamp(array.type):
        texts = pc.replace_substring(texts, " ", "T")
    if t.is_timestamp(array.type) or t.is_date(array.type):
        late = pc.match_substring_regex(texts, "^[0-9]{5}")
        if pc.any(late).as_py():
            texts = pc.if_else(late, _concat("+", texts), texts)
    return texts


def _float_texts(array: pa.Array) -> pa.Array:
    """Return the shortest texts of floats, in Java's form: 1.0, 1.0E7, 1.0E-4."""
    texts = array.cast(pa.string())
    size = np.abs(np.asarray(array.fill_null(0)))
    is_plain = pa.array((size == 0) | ((size >= 1e-3) & (size < 1e7)))
    whole = pc.invert(pc.match_substring(texts, "."))
    texts = pc.if_else(pc.and_(is_plain, whole), _concat(texts, ".0"), texts)
    others = texts.filter(pc.invert(is_plain))
    if not len(others):
        return texts
    float_ = array.type.to_pandas_dtype()
    scientific = _translated(others, lambda text: _scientific(text, float_))
    return pc.replace_with_mask(texts, pc.invert(is_plain), scientific)


def _scientific(text: str, float_: type) -> str:
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    if text in names:
        return names[text]
    number = Decimal(text).normalize()
    if len(number.as_tuple().digits) == 1:
        # Java writes two digits at least, the nearest ones.
        number = Decimal(f"{float_(text):.1e}")
    mantissa, exponent = f"{number:.{max(1, len(number.as_tuple().digits) - 1)}E}".split("E")
    return f"{mantissa}E{int(exponent)}"


# ------------------------------------------------------------ CSV


def _csv_texts(array: pa.Array, is_first: bool) -> pa.Array:
    if not t.is_string(array.type):
        return plain_texts(array).fill_null("")
    # Spark's writer takes a # that begins a line for a comment.
    pattern = f"^$|^#|{_QUOTED}" if is_first else f"^$|{_QUOTED}"
    quoted = pc.match_substring_regex(array, pattern)
    if pc.any(quoted).as_py():
        array = pc.if_else(quoted, _concat('"', pc.replace_substring(array, '"', '""'), '"'), array)
    return array.fill_null("")


# ------------------------------------------------------------ JSON


def _json_texts(array: pa.Array) -> pa.Array:
    type_ = array.type
    if t.is_string(type_):
        texts = _quoted(array)
    elif t.is_binary(type_):
        codes = [None if v is None else base64.b64encode(v).decode() for v in array.to_pylist()]
        texts = _concat('"', pa.array(codes, pa.string()), '"')
    elif t.is_date(type_) or t.is_timestamp(type_):
        texts = _concat('"', plain_texts(array), '"')
    elif t.is_floating(type_):
        texts = plain_texts(array)
        texts = pc.if_else(pc.is_finite(array), texts, _concat('"', texts, '"'))
    elif t.is_struct(type_):
        objects = _objects([f.name for f in type_], array.flatten())
        texts = pc.if_else(array.is_valid(), objects, pa.scalar(None, pa.string()))
    elif t.is_list(type_):
        lengths = pc.list_value_length(array).fill_null(0)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        texts = _lists("[", offsets, _json_texts(array.flatten()), "]", array.is_valid())
    elif t.is_map(type_):
        array = array.take(pa.array(np.arange(len(array))))  # no entries that are not its own
        entries = _concat(_keys(array.keys), ":", _json_texts(array.items))
        texts = _lists("{", np.asarray(array.offsets), entries, "}", array.is_valid())
    else:
        texts = plain_texts(array)
    return texts.fill_null("null")


def _objects(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    pieces: list[pa.Array | str] = []
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        pieces += [f'{"," if i else "{"}"{name.translate(_ESCAPES)}":', _json_texts(column)]
    return _concat(*pieces, "}")


def _quoted(texts: pa.Array) -> pa.Array:
    escaped = pc.match_substring_regex(texts, _ESCAPED)
    if pc.any(escaped).as_py():
        others = _translated(texts.filter(escaped), lambda text: text.translate(_ESCAPES))
        texts = pc.replace_with_mask(texts, escaped.fill_null(False), others)
    return _concat('"', texts, '"')


def _lists(
    opening: str, offsets: np.ndarray, items: pa.Array, closing: str, valid: pa.Array
) -> pa.Array:
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)
    joined = _concat(opening, pc.binary_join(lists, ","), closing)
    return pc.if_else(valid, joined, pa.scalar(None, pa.string()))


def _keys(keys: pa.Array) -> pa.Array:
    """Return the names of a map's entries; of dates and times Spark writes the bare number."""
    if t.is_timestamp(keys.type) or t.is_date(keys.type):
        keys = keys.cast(pa.int32() if t.is_date(keys.type) else pa.int64())
    return _quoted(keys if t.is_string(keys.type) else plain_texts(keys))
