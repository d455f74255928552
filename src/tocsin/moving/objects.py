"""The objects of a monitor in memory: which fences each is in, and since when.

An object has a *slot*, a number that indexes a record of eight words (one cache line)::

    records[8 * slot + ...]   time of the last row, time of the last timer event, the earliest due
                              timer, the last row in the log of reports, where its stays are, how
                              many there are and have room, its rank (the order of appearance)

Its *stays* are in one pool for all objects, three words each, in the order of the rules: the rule's
position and flags, since when it is inside, and since when it is outside if that is not confirmed
yet. A list of stays that outgrows its room moves to the end of the pool; the pool is packed when
more than half of it is unused.

Keys are found in an open-addressed table of two words: a text or number as one word (as in
`model/text_codes.py`, where equal words of long texts lead to a comparison of their bytes), and the
slot. An update touches, for each row, a line of the table, one record, and the stays if there are
some: about 100 bytes an object in all, 24 more for each fence that it is in.

Timers are found without a queue: of every 1,024 slots the earliest due time is kept, which may be
too early but never too late, so an update looks at one word per 1,024 objects.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.errors import MonitorError
from tocsin.jit import (
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8Out,
    UInt8s,
    UInt64s,
    kernel,
    load_word,
    prefetch,
)
from tocsin.model.arrow import values_of
from tocsin.model.text_codes import HASHED, mix, text_spans, write_words

NEVER = 2**63 - 1  # a due time that does not come
LONG_AGO = -(2**63)  # before all times
NONE = -(2**63)  # no time: the object is not outside

# The words of a record.
WORDS = 8
LAST, TIMER, DUE, ROW, START, COUNT, ROOM, RANK = range(WORDS)

# The words of a stay, and the flags above the rule's position in the first one.
STAY = 3
RULE, SINCE, AWAY = range(STAY)
CONFIRMED = 1 << 32  # it has entered
DWELLED = 1 << 33  # its dwell was reported
AT_ONCE = 1 << 34  # it entered because a rule changed, and did not wait for `min_stay`
POSITION = (1 << 32) - 1

BLOCK = 1024  # slots that share a due time
_FIRST_SLOTS = 1024
_PACK = 1 << 16  # words of the pool that are never packed; chosen
_AHEAD = 16  # rows whose lines of the table are prefetched; chosen


class KeyTable(NamedTuple):
    """A table of s entries, where s is a power of two, and the texts of keys by slot."""

    entry: Int64Out  # [2 s] the key as a word, and its slot + 1; 0 is empty, -1 was removed
    place: Int64Out  # [2 n] by slot where the bytes of its key begin and end; or twice its number
    text: UInt8Out  # bytes of keys


@kernel
def find_slots(
    table: KeyTable,
    words: UInt64s,
    begin: Int64s,
    end: Int64s,
    data: UInt8s,
    valid: UInt8s,
    free: Int32s,
    next_slot: int,
    room: Int64Out,
    slots: Int32Out,
) -> int:
    """Write the slots of keys; new keys take free slots, and then `next_slot` and those after it.

    Without free slots and with `next_slot` = -1, new keys get -1. `room` is where texts of new keys
    go, and the number of free slots taken. Return the next slot.
    """
    entry, place, text = table.entry, table.place, table.text
    mask = (entry.shape[0] >> 1) - 1
    n = words.shape[0]
    for i in range(n):
        # The entry, then what it refers to, then what that refers to.
        if i + _AHEAD < n:
            prefetch(entry, 2 * (np.int64(mix(words[i + _AHEAD]) >> np.uint64(32)) & mask))
            if data.shape[0] > 0:
                at = 2 * (np.int64(mix(words[i + _AHEAD // 2]) >> np.uint64(32)) & mask)
                if entry[at + 1] > 0:
                    prefetch(place, 2 * (entry[at + 1] - 1))
                at = 2 * (np.int64(mix(words[i + _AHEAD // 4]) >> np.uint64(32)) & mask)
                if entry[at + 1] > 0:
                    prefetch(text, place[2 * (entry[at + 1] - 1)])
        slots[i] = -1
        if valid[i] == 0:
            continue
        sought = np.int64(words[i])
        at = 2 * (np.int64(mix(words[i]) >> np.uint64(32)) & mask)
        reuse = np.int64(-1)
        while entry[at + 1] != 0:
            if entry[at + 1] < 0:
                if reuse < 0:
                    reuse = at
            elif entry[at] == sought:
                slot = entry[at + 1] - 1
                if words[i] < HASHED or data.shape[0] == 0:
                    slots[i] = slot
                    break
                ours, stop = place[2 * slot], place[2 * slot + 1]
                theirs, last = begin[i], end[i] - 8
                if stop - ours == end[i] - theirs:
                    while theirs < last and load_word(text, ours) == load_word(data, theirs):
                        ours += 8
                        theirs += 8
                    if theirs >= last and load_word(text, stop - 8) == load_word(data, last):
                        slots[i] = slot
                        break
            at = (at + 2) & (2 * mask + 1)
        if slots[i] >= 0 or next_slot < 0:
            continue
        slot = next_slot
        if room[1] < free.shape[0]:
            slot = np.int64(free[room[1]])
            room[1] += 1
        else:
            next_slot += 1
        slots[i] = slot
        at = reuse if reuse >= 0 else at
        entry[at] = sought
        entry[at + 1] = slot + 1
        if data.shape[0] == 0:  # a number, which is its own place
            place[2 * slot], place[2 * slot + 1] = begin[i], end[i]
            continue
        place[2 * slot] = room[0]
        for j in range(begin[i], end[i]):
            text[room[0]] = data[j]
            room[0] += 1
        place[2 * slot + 1] = room[0]
    return next_slot


@kernel
def forget_keys(table: KeyTable, words: UInt64s, slots: Int32s) -> None:
    """Remove keys, given as words and slots, from the table."""
    entry = table.entry
    mask = (entry.shape[0] >> 1) - 1
    for i in range(slots.shape[0]):
        at = 2 * (np.int64(mix(words[i]) >> np.uint64(32)) & mask)
        while entry[at + 1] != 0 and entry[at + 1] != slots[i] + 1:
            at = (at + 2) & (2 * mask + 1)
        if entry[at + 1] != 0:
            entry[at + 1] = -1


@kernel
def fill_table(words: UInt64s, slots: Int32s, entry: Int64Out) -> None:
    """Insert keys, given as words and slots, into an empty table."""
    mask = (entry.shape[0] >> 1) - 1
    for i in range(words.shape[0]):
        at = 2 * (np.int64(mix(words[i]) >> np.uint64(32)) & mask)
        while entry[at + 1] != 0:
            at = (at + 2) & (2 * mask + 1)
        entry[at] = np.int64(words[i])
        entry[at + 1] = slots[i] + 1


@kernel
def measure_texts(place: Int64s, slots: Int32s, offsets: Int64Out) -> None:
    """Write where the keys of slots begin if they are one after the other."""
    size = np.int64(0)
    for i in range(slots.shape[0]):
        offsets[i] = size
        size += place[2 * np.int64(slots[i]) + 1] - place[2 * np.int64(slots[i])]
    offsets[slots.shape[0]] = size


@kernel
def copy_texts(place: Int64s, slots: Int32s, source: UInt8s, out: UInt8Out) -> None:
    """Copy the keys of slots, one after the other."""
    size, n = 0, slots.shape[0]
    for i in range(n):
        if i + _AHEAD < n:
            prefetch(source, place[2 * np.int64(slots[i + _AHEAD])])
        for j in range(place[2 * np.int64(slots[i])], place[2 * np.int64(slots[i]) + 1]):
            out[size] = source[j]
            size += 1


@kernel
def pack_stays(records: Int64Out, slots: int, pool: Int64s, out: Int64Out) -> int:
    """Copy the stays of all slots, in their order, with room for one more each where some are.

    Return how many words are in use.
    """
    size = 0
    for slot in range(slots):
        base = slot * WORDS
        count = records[base + COUNT]
        start = records[base + START]
        for i in range(count * STAY):
            out[size + i] = pool[start + i]
        records[base + START] = size
        records[base + ROOM] = count + (count > 0)
        size += records[base + ROOM] * STAY
    return size


@kernel
def sort_slots(
    slots: Int32s, rows: Int32s, highest: int, order: Int32Out, scratch: Int32Out
) -> None:
    """Write `rows`, which are in the order of time, sorted by slot, as a stable sort.

    By 11 bits at a time: as fast as a count of slots for few of them, and without their memory.
    """
    n = rows.shape[0]
    counts = np.zeros(2049, np.int64)
    for i in range(n):
        order[i] = rows[i]
    shift = 0
    while highest >> shift > 0:
        for i in range(2049):
            counts[i] = 0
        for i in range(n):
            counts[((slots[order[i]] >> shift) & 2047) + 1] += 1
        for i in range(2048):
            counts[i + 1] += counts[i]
        for i in range(n):
            digit = (slots[order[i]] >> shift) & 2047
            scratch[counts[digit]] = order[i]
            counts[digit] += 1
        for i in range(n):
            order[i] = scratch[i]
        shift += 11


@kernel
def write_rows(records: Int64Out, slots: Int32s, rows: Int64s) -> None:
    """Write where in the log of reports those of slots are."""
    n = slots.shape[0]
    for i in range(n):
        if i + _AHEAD < n:
            prefetch(records, np.int64(slots[i + _AHEAD]) * WORDS)
        records[np.int64(slots[i]) * WORDS + ROW] = rows[i]


@kernel
def count_stays(records: Int64s, slots: Int32s) -> tuple[int, int]:
    """Return how many stays the objects at slots have, each once if equal ones are adjacent.

    Return the most that one of them has, too.
    """
    total, most = 0, 0
    for i in range(slots.shape[0]):
        if i == 0 or slots[i] != slots[i - 1]:
            count = records[slots[i] * WORDS + COUNT]
            total += count
            most = max(most, count)
    return total, most


@kernel
def find_due(records: Int64s, block_due: Int64Out, slots: int, clock: int, out: Int32Out) -> int:
    """Write the slots whose earliest timer is due at the clock; return how many."""
    found = 0
    for block in range((slots + BLOCK - 1) // BLOCK):
        if block_due[block] <= clock and block_due[block] != NEVER:
            earliest = np.int64(NEVER)
            for slot in range(block * BLOCK, min(slots, (block + 1) * BLOCK)):
                due = records[slot * WORDS + DUE]
                if records[slot * WORDS + RANK] >= 0:
                    if due <= clock and due != NEVER:
                        out[found] = slot
                        found += 1
                    earliest = min(earliest, due)
            block_due[block] = earliest
    return found


@kernel
def find_stays(records: Int64s, pool: Int64s, slots: int, rule: int, out: Int32Out) -> int:
    """Write the slots of the objects that are in a rule; return how many."""
    found = 0
    for slot in range(slots):
        start = records[slot * WORDS + START]
        for i in range(records[slot * WORDS + COUNT]):
            word = pool[start + i * STAY + RULE]
            if (word & POSITION) == rule and (word & CONFIRMED) != 0:
                out[found] = slot
                found += 1
    return found


_NO_SLOTS = np.empty(0, np.int32)
_NO_BYTES = np.empty(0, np.uint8)


class Objects:
    """The objects of a monitor; arrays grow as objects come."""

    def __init__(self, has_texts: bool):
        self.has_texts = has_texts  # keys are texts, or else integers
        self.slots = 0  # in use or free
        self.size = 0  # objects
        self.next_rank = 0
        self.free = _NO_SLOTS  # slots of forgotten objects
        self.records = np.zeros(0, np.int64)
        self.pool = np.empty(0, np.int64)
        self.pool_end = self._pool_packed = 0  # words in use, now and when it was packed
        self.block_due = np.empty(0, np.int64)
        self._entry = np.zeros(0, np.int64)
        self._used = 0  # entries of the table, those of removed keys included
        self._place = np.empty(0, np.int64)
        self._text, self._text_end = np.empty(0, np.uint8), 0

    @property
    def word_type(self) -> pa.DataType:
        """The type in which keys are read."""
        return pa.large_string() if self.has_texts else pa.int64()

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        entries = self._entry.nbytes + self.slots * (WORDS + 2) * 8
        return entries + self.pool_end * 8 + self._text_end

    # ------------------------------------------------------------ keys

    def words_of(self, keys: pa.Array) -> tuple[np.ndarray, ...]:
        """Return keys as words, and where their bytes are; arbitrary where a key is null."""
        if not self.has_texts:
            values = np.ascontiguousarray(values_of(keys.cast(pa.int64())))
            return values.view(np.uint64), values, values, _NO_BYTES
        begin, end, data = text_spans(keys)
        words = np.empty(len(keys), np.uint64)
        write_words(begin, end, data, words)
        return words, begin, end, data

    def find(self, keys: pa.Array) -> np.ndarray:
        """Return the slots of keys, -1 of those that are not known."""
        slots = np.full(len(keys), -1, np.int32)
        if self._used:
            words, begin, end, data = self.words_of(keys)
            valid = np.asarray(keys.is_valid()).astype(np.uint8)
            room = np.zeros(2, np.int64)
            find_slots(self._table(), words, begin, end, data, valid, _NO_SLOTS, -1, room, slots)
        return slots

    def assign(self, keys: pa.Array, valid: np.ndarray) -> np.ndarray:
        """Return the slots of keys, new ones for new keys; -1 where a row is not valid."""
        words, begin, end, data = self.words_of(keys)
        n = len(words)
        self._reserve_keys(n, int((end - begin).sum()))
        room = np.array([self._text_end, 0])
        slots = np.empty(n, np.int32)
        before = self.slots
        self.slots = find_slots(
            self._table(), words, begin, end, data, valid, self.free, before, room, slots
        )
        self._text_end, taken = int(room[0]), int(room[1])
        added = np.concatenate([self.free[:taken], np.arange(before, self.slots, dtype=np.int32)])
        self.free = self.free[taken:]
        self._used += len(added)
        self.size += len(added)
        records = self.records.reshape(-1, WORDS)
        # The room for stays of those who had a slot before remains.
        records[added] = (LONG_AGO, LONG_AGO, NEVER, -1, 0, 0, 0, -1)
        return slots

    def keys(self, slots: np.ndarray) -> pa.Array:
        """Return the keys of slots, as int64 or large text."""
        if not self.has_texts:
            return pa.array(self._place[::2][slots], pa.int64())
        offsets = np.empty(len(slots) + 1, np.int64)
        measure_texts(self._place, slots, offsets)
        out = np.empty(max(1, int(offsets[-1])), np.uint8)
        copy_texts(self._place, slots, self._text, out)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out)]
        return pa.Array.from_buffers(pa.large_string(), len(slots), buffers)

    def forget(self, slots: np.ndarray) -> None:
        """Forget the objects at slots; others may take these from the next update on."""
        if not len(slots):
            return
        forget_keys(self._table(), self.words_of(self.keys(slots))[0], slots)
        records = self.records.reshape(-1, WORDS)
        records[slots, DUE], records[slots, COUNT], records[slots, RANK] = NEVER, 0, -1
        self.free = np.concatenate([self.free, slots])
        self.size -= len(slots)

    def live(self) -> np.ndarray:
        """Return the slots of all objects, in order of first appearance."""
        ranks = self.records.reshape(-1, WORDS)[: self.slots, RANK]
        slots = np.flatnonzero(ranks >= 0)
        return slots[np.argsort(ranks[slots], kind="stable")].astype(np.int32)

    def _table(self) -> KeyTable:
        return KeyTable(self._entry, self._place, self._text)

    def fill(self, keys: pa.Array, records: np.ndarray, stays: np.ndarray) -> None:
        """Take the objects of a state, in order of first appearance; there must be none so far.

        `records` is [n, 8], without places in memory, and `stays` is [all, 3].
        """
        n = len(keys)
        slots = self.assign(keys, np.ones(n, np.uint8))
        if self.size != n or (slots != np.arange(n)).any():
            raise MonitorError("a key is there twice")
        counts = records[:, COUNT]
        records[:, START] = (np.cumsum(counts) - counts) * STAY
        records[:, ROOM] = counts
        self.records[: n * WORDS] = records.reshape(-1)
        self.next_rank = int(records[-1, RANK]) + 1 if n else 0
        self.reserve_stays(len(stays))
        self.pool_end = self._pool_packed = stays.size
        self.pool[: stays.size] = stays.reshape(-1)
        firsts = np.arange(0, n, BLOCK)
        if n:
            self.block_due[: len(firsts)] = np.minimum.reduceat(records[:, DUE], firsts)

    # ------------------------------------------------------------ room

    def _reserve_keys(self, rows: int, text_bytes: int) -> None:
        """Make room for as many new objects, whose keys have so many bytes."""
        slots, text = self.slots + rows, self._text_end + text_bytes
        if slots * WORDS > len(self.records):
            size = max(_FIRST_SLOTS, slots + slots // 2)
            self.records = _enlarge(self.records, size * WORDS)
            self._place = _enlarge(self._place, 2 * size)
            blocks = _enlarge(self.block_due, size // BLOCK + 1)
            blocks[len(self.block_due) :] = NEVER
            self.block_due = blocks
        if text > len(self._text):
            self._text = _enlarge(self._text, text + text // 2)
        # At most three quarters full, even if all rows are of new objects; most often half.
        if 8 * (self._used + rows) > 3 * len(self._entry):
            self._rebuild_table(self.size + rows)

    def _rebuild_table(self, size: int) -> None:
        """Build the table anew for so many objects, without removed keys and their texts."""
        slots = self.live()
        keys = self.keys(slots)
        words, begin, end, data = self.words_of(keys)
        self._entry = np.zeros(2 << (2 * size).bit_length(), np.int64)
        fill_table(words, slots, self._entry)
        self._used = len(slots)
        if self.has_texts:
            self._place[2 * slots], self._place[2 * slots + 1] = begin, end
            room = max(len(self._text), len(data))
            self._text = np.concatenate([data, np.zeros(room - len(data), np.uint8)])
            self._text_end = int(end[-1]) if len(end) else 0

    def reserve_stays(self, stays: int) -> None:
        """Make room for as many stays at the end of the pool; pack it if half of it is unused."""
        if self.pool_end > 2 * self._pool_packed + _PACK:
            packed = np.empty(self.pool_end + self.slots * STAY + stays * STAY, np.int64)
            self.pool_end = pack_stays(self.records, self.slots, self.pool, packed)
            self._pool_packed, self.pool = self.pool_end, packed
        wanted = self.pool_end + stays * STAY
        if wanted > len(self.pool):
            # Memory that is not touched costs nothing.
            self.pool = _enlarge(self.pool, 2 * wanted, self.pool_end)


def _enlarge(array: np.ndarray, size: int, used: int | None = None) -> np.ndarray:
    """Return a larger copy that begins at a cache line."""
    raw = np.empty(size + 64 // array.itemsize, array.dtype)
    first = -raw.ctypes.data % 64 // array.itemsize
    larger = raw[first : first + size]
    used = len(array) if used is None else used
    larger[:used] = array[:used]
    return larger
