"""Codes texts in Arrow's memory: a hash table of the category values that rules mention.

A text of up to seven bytes is one word, its bytes and its length, and equal words are equal texts.
So most categories are found with one comparison. The word of a longer text is a hash, with the
highest bit set. Equal words then lead to a comparison of the bytes.

The table is open-addressed, and only grows. Values are inserted in place, while other threads look
texts up without a lock. That is safe, because a match needs only the values that its rules mention.
These are in the table before it starts, and they never move. Of a value that is being inserted it
may find all, a part or nothing: its code is above those of its rules, so it satisfies the same
predicates as `OTHER`. A full table is replaced, and those who read the old one keep it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.jit import (
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8Out,
    UInt8s,
    UInt64Out,
    UInt64s,
    freeze,
    kernel,
    load_word,
    step,
)

_SHORT = 7  # bytes of a text that fit into a word, beside its length
_INLINE = 12  # bytes of a text that fit into an Arrow view
_MAX_BUFFERS = 16  # of views that are read one after the other, chosen
_MIN_SLOTS = 64
_FEW = 4096  # values of a table that stays in a core's cache, chosen
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio
_MIXER = np.uint64(0xD6E8FEB86659FD93)
HASHED = np.uint64(1 << 63)
_HALF = np.uint64(32)
_EMPTY = np.uint64(0)


class Slots(NamedTuple):
    """A table of n values in s slots, where s is a power of two. There is room for m values."""

    word: UInt64s  # [s] 0 if the slot is empty
    code: Int32s  # [s] 1 to n
    start: Int64s  # [m + 1] the bytes of the value with code c: start[c - 1] to start[c]
    text: UInt8s  # [b] the bytes of the values that are longer than a word


@step
def mix(word):
    """Return a word all of whose bits depend on all bits of another."""
    word = word * _MULTIPLIER
    return (word ^ (word >> _HALF)) * _MIXER


# The loops below are flat, although they repeat each other's steps a little: Numba counts
# references to the arrays of every step that branches, which takes ten times as long as a lookup.


@kernel
def write_words(begin: Int64s, end: Int64s, data: UInt8s, out: UInt64Out) -> None:
    """Write the words of texts: the bytes and length of short ones, the hashes of others."""
    size = data.shape[0]
    for i in range(out.shape[0]):
        first, length = begin[i], end[i] - begin[i]
        if length <= _SHORT:
            if first + 8 <= size:
                word = load_word(data, first)
                word &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
            else:  # do not read beyond the end
                word = np.uint64(0)
                for j in range(length):
                    word |= np.uint64(data[first + j]) << np.uint64(8 * j)
            out[i] = word | np.uint64(length + 1) << np.uint64(56)
        else:
            state, last = np.uint64(length), end[i] - 8
            while first < last:
                state = mix(state ^ load_word(data, first))
                state ^= state >> _HALF
                first += 8
            state = mix(state ^ load_word(data, last))
            out[i] = (state ^ (state >> _HALF)) | HASHED


@kernel
def write_codes(
    slots: Slots, words: UInt64s, begin: Int64s, end: Int64s, data: UInt8s, out: Int64Out
) -> None:
    """Write the codes of texts, given with their words."""
    word, code, start, text = slots.word, slots.code, slots.start, slots.text
    mask = word.shape[0] - 1
    for i in range(out.shape[0]):
        sought = words[i]
        slot = np.int64(mix(sought) >> _HALF) & mask
        while True:
            # One branch and not two: whether rules mention a text is hard to predict.
            while (word[slot] != sought) & (word[slot] != _EMPTY):
                slot = (slot + 1) & mask
            if (sought < HASHED) | (word[slot] == _EMPTY):
                break
            c = code[slot]  # 0 as long as another thread inserts it
            if c > 0 and start[c] - start[c - 1] == end[i] - begin[i]:
                ours, theirs, last = start[c - 1], begin[i], end[i] - 8
                while theirs < last and load_word(text, ours) == load_word(data, theirs):
                    ours += 8
                    theirs += 8
                if theirs >= last and load_word(text, start[c] - 8) == load_word(data, last):
                    break
            slot = (slot + 1) & mask
        out[i] = code[slot]  # OTHER if the slot is empty


@kernel
def append_texts(
    begin: Int64s, end: Int64s, data: UInt8s, first: int, start: Int64Out, text: UInt8Out
) -> None:
    """Append the bytes of values that are longer than a word; their codes are `first` and on."""
    at = start[first - 1]
    for i in range(begin.shape[0]):
        if end[i] - begin[i] > _SHORT:
            for j in range(begin[i], end[i]):
                text[at] = data[j]
                at += 1
        start[first + i] = at


@kernel
def fill_slots(words: UInt64s, codes: Int32s, word: UInt64Out, code: Int32Out) -> None:
    """Insert values that are not in the table, given as words and codes; skip empty words."""
    mask = word.shape[0] - 1
    for i in range(words.shape[0]):
        if words[i] != _EMPTY:
            slot = np.int64(mix(words[i]) >> _HALF) & mask
            while word[slot] != _EMPTY:
                slot = (slot + 1) & mask
            code[slot] = codes[i]
            word[slot] = words[i]


class TextCodes:
    """The codes of the first `size` values; 1 for the first value, `OTHER` for all other texts.

    `extend` returns an object with more values, which may share memory with this one.
    """

    __slots__ = ("_arrays", "_slots", "size")

    def __init__(self, size: int, arrays: tuple[np.ndarray, ...]):
        self.size = size
        self._arrays = arrays
        self._slots = Slots(*(freeze(array, array.dtype) for array in arrays))

    @classmethod
    def empty(cls) -> TextCodes:
        """Return a table without values."""
        dtypes = np.uint64, np.int32, np.int64, np.uint8
        sizes = _MIN_SLOTS, _MIN_SLOTS, 1, 0
        return cls(0, tuple(np.zeros(n, dtype) for n, dtype in zip(sizes, dtypes, strict=True)))

    def extend(self, texts: pa.Array) -> TextCodes:
        """Return a table with further values: new and distinct, as large_string without nulls."""
        word, code, start, text = self._arrays
        size = self.size + len(texts)
        begin, end, data = text_spans(texts)
        lengths = end - begin
        used = int(start[self.size]) + int(lengths[lengths > _SHORT].sum())
        if size >= len(start):
            start = _enlarge(start, max(size + 1, 2 * len(start)))
        if used > len(text):
            text = _enlarge(text, max(used, 2 * len(text)))
        # At most a quarter full, so that the first step mostly decides; large tables at most 5/8,
        # where a text that is not there costs four steps.
        needed = size * 4 if size < _FEW else size * 8 // 5
        if needed > len(word):
            slots = 1 << needed.bit_length()
            old_word, old_code = word, code
            word, code = np.zeros(slots, np.uint64), np.zeros(slots, np.int32)
            fill_slots(old_word, old_code, word, code)
        words = np.empty(len(texts), np.uint64)
        write_words(begin, end, data, words)
        append_texts(begin, end, data, self.size + 1, start, text)
        fill_slots(words, np.arange(self.size + 1, size + 1, dtype=np.int32), word, code)
        return TextCodes(size, (word, code, start, text))

    def write(self, array: pa.Array, out: np.ndarray) -> None:
        """Write the codes of a plain array of texts; they are arbitrary where it is null.

        Raises an ArrowInvalid if a text is not UTF-8.
        """
        if not len(array):
            return
        if t.is_string_view(array.type):
            if len(array.buffers()) <= _MAX_BUFFERS:
                self._write_views(array, out)
                return
            array = array.cast(pa.large_string())
        begin, end, data = text_spans(array)
        _check_encoding(array, data[begin[0] : end[-1]])
        self._write(begin, end, data, out)

    def _write_views(self, array: pa.Array, out: np.ndarray) -> None:
        """Write the codes of views: length, then a text of 12 bytes, or where it is.

        For a longer text these are its first four bytes, the number of its buffer, and an offset.
        """
        buffers = array.buffers()
        views = np.frombuffer(buffers[1], np.int32, 4 * len(array), 16 * array.offset)
        lengths, _, numbers, offsets = views.reshape(-1, 4).T
        is_long = lengths.view(np.uint32) > _INLINE  # a null may have any length
        begin, inline = np.arange(4, 16 * len(array), 16), views.view(np.uint8)
        has_long = bool(is_long.any())
        _check_encoding(array, inline.reshape(-1, 16)[~is_long] if has_long else inline)
        self._write(begin, begin + np.where(is_long, 0, lengths), inline, out)
        if not has_long:
            return
        if array.null_count:
            is_long &= np.asarray(array.is_valid())
        # Kernels rely on this, and Arrow checks it only in validate(full=True).
        used = numbers[is_long]
        if len(used) and (used.min() < 0 or used.max() >= len(buffers) - 2):
            raise pa.ArrowInvalid("the buffers of texts are not valid")
        numbers = np.where(is_long, numbers, -1)
        for number in range(int(numbers.max()) + 1):
            rows = np.flatnonzero(numbers == number)
            if not len(rows):
                continue
            begin = offsets[rows].astype(np.int64)
            end, data = begin + lengths[rows], np.frombuffer(buffers[2 + number], np.uint8)
            if begin.min() < 0 or end.max() > len(data) or (begin > end).any():
                raise pa.ArrowInvalid("the offsets of texts are not valid")
            _check_encoding(array, data[begin.min() : end.max()])
            codes = np.empty(len(rows), np.int64)
            self._write(begin, end, data, codes)
            out[rows] = codes

    def _write(self, begin: np.ndarray, end: np.ndarray, data: np.ndarray, out: np.ndarray) -> None:
        words = np.empty(len(begin), np.uint64)
        write_words(begin, end, data, words)
        write_codes(self._slots, words, begin, end, data, out)


def text_spans(array: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where texts begin and end, and the bytes, of a string or large_string array."""
    if not len(array):
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8)
    dtype = np.dtype(np.int64 if t.is_large_string(array.type) else np.int32)
    _, buffer, data = array.buffers()
    offsets = np.frombuffer(buffer, dtype, len(array) + 1, array.offset * dtype.itemsize)
    offsets = offsets.astype(np.int64, copy=False)
    has_bytes = data is not None and data.size > 0
    texts = np.frombuffer(data, np.uint8) if has_bytes else np.empty(0, np.uint8)
    begin, end = offsets[:-1], offsets[1:]
    # Kernels rely on this, and Arrow checks it only in validate(full=True).
    if begin[0] < 0 or end[-1] > len(texts) or (begin > end).any():
        raise pa.ArrowInvalid("the offsets of texts are not valid")
    return begin, end, texts


def _check_encoding(array: pa.Array, data: np.ndarray) -> None:
    """Raise if a text in these bytes is not UTF-8. Most are ASCII, which is quick to see."""
    if len(data) and data.max() >= 0x80:
        array.validate(full=True)


def _enlarge(array: np.ndarray, size: int) -> np.ndarray:
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger
