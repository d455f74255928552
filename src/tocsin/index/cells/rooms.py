"""Lists of cells with room to grow, so that a change copies only what it changes (thesis 3.3.6).

The paper's lists are dynamic arrays, one for each cell. Here they are parts of two arrays, as in an
index that never changes: `ids` and `words` of the layout. The lists of a cell, the full one and the
partial one, have a *room* in `ids`, and the words of the partial list one in `words`. A room is as
large as its list, or larger, and its size is known only here: matching does not read it.

* An entry is written behind the last one of its list; entries of a full list move those of the
  partial list up. A deletion moves what is behind it down. So entries keep their order.
* A list that outgrows its room moves to the end of the array, into one of twice the size that it
  has then. Its old room is unused until the next copy.
* When an array is full, all lists are copied to one of twice the size they need. A room that is
  larger than its list is kept up to twice its size.

So the cost of an entry is about the length of its list, on average: a scan when it is deleted, and
a share of moves and copies when it is inserted. The arrays are at most about eight times as long as
all lists at their fullest: rooms are up to twice as long as lists, unused ones add up to no more,
and arrays have twice the length that is needed. What is stored is compact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.appending import copy_with_room
from tocsin.index.cells.layout import END, FULL, HEAD, PARTIAL, WORDS
from tocsin.index.posting_lists import MAX_ENTRIES, check_entries
from tocsin.jit import Int32Out, Int32s, Int64Out, Int64s, UInt8s, UInt64Out, UInt64s, kernel, step

_IDS, _WORDS = 0, 1  # of two numbers, for `ids` and for `words`


class Rooms(NamedTuple):
    """The lists of c cells, in arrays that nothing else shares."""

    heads: Int32Out  # [HEAD c] as in `Cells`
    ids: Int32Out  # longer than used
    words: UInt64Out
    id_room: Int32Out  # [c] how many ids there is room for
    word_room: Int32Out  # [c]
    used: Int64Out  # [2] of `ids` and of `words`


def copy_rooms(
    heads: np.ndarray,
    ids: np.ndarray,
    words: np.ndarray,
    rooms: tuple[np.ndarray, np.ndarray],
    lengths: tuple[int, int],
) -> Rooms:
    """Return a copy of lists in rooms of these sizes, in arrays of these lengths."""
    copied = Rooms(
        heads=np.array(heads),
        ids=np.zeros(lengths[_IDS], np.int32),
        words=np.zeros(lengths[_WORDS], np.uint64),
        id_room=rooms[_IDS],
        word_room=rooms[_WORDS],
        used=np.zeros(2, np.int64),
    )
    copy_lists(ids, words, copied)
    return copied


def tight_rooms(heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of rooms without room to grow."""
    by_cell = heads.reshape(-1, HEAD)
    end = np.maximum(by_cell[:, END], by_cell[:, PARTIAL])
    return end - by_cell[:, FULL], end - by_cell[:, PARTIAL]


def reserve(rooms: Rooms, lists: np.ndarray) -> Rooms:
    """Return rooms with enough room for one more entry in each of the lists, numbered as below.

    Raise if lists get longer than offsets can count; nothing is changed then.
    """
    needed = np.zeros(2, np.int64)
    measure_need(rooms.heads, rooms.id_room, rooms.word_room, lists, needed)
    total = rooms.used + needed
    # An array may be longer than heads can count.
    if total[_IDS] <= min(len(rooms.ids), MAX_ENTRIES) and total[_WORDS] <= len(rooms.words):
        return rooms
    # A room keeps what it has beyond its list, up to as much again.
    sizes = tight_rooms(rooms.heads)
    kept = tuple(
        size + np.minimum(room - size, size)
        for room, size in zip((rooms.id_room, rooms.word_room), sizes, strict=True)
    )
    needed[:] = 0
    measure_need(rooms.heads, *kept, lists, needed)
    lengths = [int(room.sum(dtype=np.int64)) + int(n) for room, n in zip(kept, needed)]
    check_entries(max(lengths))
    ids, words = (min(2 * length, MAX_ENTRIES) for length in lengths)
    return copy_rooms(rooms.heads, rooms.ids, rooms.words, (kept[0], kept[1]), (ids, words))


def append(array: np.ndarray, used: int, values: np.ndarray) -> np.ndarray:
    """Return an array with values after what is used of it: longer than it, if needed."""
    needed = used + len(values)
    if needed > len(array):
        array = copy_with_room(array[:used], needed)
        array[needed:] = 0  # `validate` reads it, too
    array[used:needed] = values
    return array


# Lists are numbered: cell c has the full list 2 c and the partial list 2 c + 1.


@kernel
def copy_lists(ids: Int32s, words: UInt64s, rooms: Rooms) -> None:
    """Copy lists to rooms one after the other; heads are those of the old lists, and changed."""
    heads, new_ids, new_words, used = rooms.heads, rooms.ids, rooms.words, rooms.used
    for cell in range(heads.shape[0] // HEAD):
        head = HEAD * cell
        full, partial = heads[head + FULL], heads[head + PARTIAL]
        end, word = max(heads[head + END], partial), heads[head + WORDS]
        at, word_at = used[_IDS], used[_WORDS]
        for i in range(end - full):
            new_ids[at + i] = ids[full + i]
        for i in range(end - partial):
            new_words[word_at + i] = words[word + i]
        move_ids(heads, head, at - full)
        heads[head + WORDS] = word_at
        used[_IDS] += rooms.id_room[cell]
        used[_WORDS] += rooms.word_room[cell]


@step
def move_ids(heads, head, by):
    """Change a head whose ids have been moved."""
    heads[head + FULL] += by
    heads[head + PARTIAL] += by
    if heads[head + END] >= 0:
        heads[head + END] += by


@step
def count_run(lists, begin):
    """Return where the lists of a cell end in ascending ones, and how many of them are partial."""
    end, partial = begin, 0
    while end < lists.shape[0] and lists[end] >> 1 == lists[begin] >> 1:
        partial += lists[end] & 1
        end += 1
    return end, partial


@kernel
def measure_need(
    heads: Int32s, id_room: Int32s, word_room: Int32s, lists: Int64s, needed: Int64Out
) -> None:
    """Add up what `insert_entries` takes from the ends of the arrays."""
    i = 0
    while i < lists.shape[0]:
        cell = lists[i] >> 1
        end, words = count_run(lists, i)
        head = HEAD * cell
        begin, partial = np.int64(heads[head + FULL]), np.int64(heads[head + PARTIAL])
        last = max(np.int64(heads[head + END]), partial)
        size, word_size = last - begin + end - i, last - partial + words
        if size > id_room[cell]:
            needed[_IDS] += 2 * size
        if word_size > word_room[cell]:
            needed[_WORDS] += 2 * word_size
        i = end


@kernel
def insert_entries(
    rooms: Rooms, lists: Int64s, new_ids: Int32s, new_words: UInt64s, limit: int, long: Int64Out
) -> int:
    """Insert entries into lists, which ascend; there must be room (`reserve`).

    Write to `long` which cells have a partial list that is now longer than `limit`, or than 2, 4,
    8 ... times that, and was not before; return how many.
    """
    heads, ids, words, used = rooms.heads, rooms.ids, rooms.words, rooms.used
    id_room, word_room = rooms.id_room, rooms.word_room
    i = found = 0
    while i < lists.shape[0]:
        cell = lists[i] >> 1
        stop, partial_count = count_run(lists, i)
        full_count = stop - i - partial_count
        head = HEAD * cell
        begin, partial = np.int64(heads[head + FULL]), np.int64(heads[head + PARTIAL])
        end, word = max(np.int64(heads[head + END]), partial), np.int64(heads[head + WORDS])
        size, word_size = end - begin + stop - i, end - partial
        if size > id_room[cell]:
            at = used[_IDS]
            for j in range(end - begin):
                ids[at + j] = ids[begin + j]
            move_ids(heads, head, at - begin)
            partial, end = partial + at - begin, end + at - begin
            id_room[cell] = 2 * size
            used[_IDS] += 2 * size
        if word_size + partial_count > word_room[cell]:
            at, room = used[_WORDS], 2 * (word_size + partial_count)
            for j in range(word_size):
                words[at + j] = words[word + j]
            heads[head + WORDS] = word = at
            word_room[cell] = room
            used[_WORDS] += room
        if full_count > 0:
            for j in range(end - 1, partial - 1, -1):
                ids[j + full_count] = ids[j]
            for j in range(full_count):
                ids[partial + j] = new_ids[i + j]
            partial, end = partial + full_count, end + full_count
            heads[head + PARTIAL] = partial
        for j in range(partial_count):
            ids[end + j] = new_ids[i + full_count + j]
            words[word + word_size + j] = new_words[i + full_count + j]
        if heads[head + END] >= 0:
            heads[head + END] = end + partial_count
        passed = limit
        while passed < word_size:
            passed *= 2
        if word_size + partial_count > passed:
            long[found] = cell
            found += 1
        i = stop
    return found


@kernel
def delete_entries(rooms: Rooms, lists: Int64s, gone: Int32s) -> None:
    """Delete an entry from the full or the partial list of each cell whose list is named.

    Boxes that cover a cell may be in its partial list, so both are searched.
    """
    heads, ids, words = rooms.heads, rooms.ids, rooms.words
    for i in range(lists.shape[0]):
        head = HEAD * (lists[i] >> 1)
        begin, partial = np.int64(heads[head + FULL]), np.int64(heads[head + PARTIAL])
        end = max(np.int64(heads[head + END]), partial)
        at = begin
        while at < end and ids[at] != gone[i]:
            at += 1
        if at == end:
            continue
        for j in range(at, end - 1):
            ids[j] = ids[j + 1]
        if at < partial:
            heads[head + PARTIAL] -= 1
        else:
            word = heads[head + WORDS] - partial
            for j in range(at, end - 1):
                words[word + j] = words[word + j + 1]
        if heads[head + END] >= 0:
            heads[head + END] -= 1


@kernel
def delete_everywhere(rooms: Rooms, gone: UInt8s) -> None:
    """Delete the entries, c or ~c, of all conjunctions that are marked in `gone`."""
    heads, ids, words = rooms.heads, rooms.ids, rooms.words
    for cell in range(heads.shape[0] // HEAD):
        head = HEAD * cell
        begin, partial = np.int64(heads[head + FULL]), np.int64(heads[head + PARTIAL])
        end = max(np.int64(heads[head + END]), partial)
        kept, kept_full, word = begin, begin, np.int64(heads[head + WORDS])
        kept_word = word
        for j in range(begin, end):
            if gone[max(ids[j], ~ids[j])] != 0:
                continue
            ids[kept] = ids[j]
            kept += 1
            if j < partial:
                kept_full = kept
            else:
                words[kept_word] = words[word + j - partial]
                kept_word += 1
        heads[head + PARTIAL] = kept_full
        if heads[head + END] >= 0:
            heads[head + END] = kept
