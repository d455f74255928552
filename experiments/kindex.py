"""The k-index (Whang et al., Indexing Boolean Expressions, 2009), as described in the paper of the
BE*-tree: static, flat, for discrete values.

Ranges are enumerated: a conjunction is in the posting list of every (attribute, value) that one of
its predicates accepts. Lists are ordered by conjunction, and divided into parts by the number of
predicates of a conjunction. An event uses the lists of its values, one part after another. A
conjunction of K predicates holds if it is in K of the lists. So the lists are ordered by their
current conjunctions. If the first and the K-th list have the same one, it holds. Otherwise the
first K - 1 lists skip to the conjunction of the K-th, because no earlier one can be in K lists.

For the k best, every list has the greatest weight of its entries. A part is skipped if the sum of
the K greatest weights is less than the worst of the k best so far, and so is a conjunction with the
weights of its K lists. There is no finer bound.

We made it as fast as we could: one lookup in a hash table gives the lists of a value in all parts,
all lists are in one array, skipping gallops, and only lists that have moved are sorted again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.index_search import Best
from tocsin.index.finish import keep, score
from tocsin.jit import (
    Float64Out,
    Float64s,
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8s,
    freeze,
    freeze_fields,
    kernel,
    step,
)
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import Keys
from tocsin.model.predicates import INTERVAL

_DONE = 2**31 - 1  # the current conjunction of a list that has ended
_MULTIPLIER = 0x9E3779B97F4A7C15
_SLOTS = 1 << 16  # of the hash table at first; chosen


class Lists(NamedTuple):
    """d pairs of attribute and value in a hash table of 2^b slots, e entries, p parts."""

    slot_key: Int64s  # [2^b] the pair, -1 if the slot is free
    slot_pair: Int32s  # [2^b] its number
    start: Int64s  # [d p + 1] the first entry of a pair's list in a part
    entry: Int32s  # [e] conjunctions, ascending within a list
    bound: Float64s  # [d p] the greatest weight in a list


class KIndex:
    """Posting lists, and the events to search them with."""

    def __init__(self, c: Conjunctions, keys: Keys, width: int):
        """`c` has only intervals, with values below 2^32."""
        if (c.kind != INTERVAL).any():
            raise ValueError("only intervals can be enumerated here")
        self.conjunctions, self.keys = c, keys
        self.size, self.events = c.size, keys.size
        self.weights = freeze(np.ones(width), np.float64)
        sizes = np.diff(c.offsets)
        self.least, self.parts = int(sizes.min()), int(sizes.max() - sizes.min() + 1)
        pair_of = np.empty(int((c.high - c.low + 1).sum()), np.int32)  # of each accepted value
        known, slots = -1, _SLOTS
        while known < 0:  # the number of pairs is not known before; all rounds cost two at most
            slot_key, slot_pair = np.full(slots, -1, np.int64), np.zeros(slots, np.int32)
            known = number_pairs(c, slot_key, slot_pair, pair_of)
            slots *= 2
        counts, bound = np.zeros(known * self.parts + 1, np.int64), np.zeros(known * self.parts)
        pair_of = freeze(pair_of, np.int32)
        size_lists(c, pair_of, self.parts, self.least, counts, bound)
        start = np.cumsum(counts)
        entry = np.empty(start[-1], np.int32)
        fill_lists(c, pair_of, self.parts, self.least, start[:-1].copy(), entry)
        self.lists = freeze_fields(
            Lists, slot_key=slot_key, slot_pair=slot_pair, start=start, entry=entry, bound=bound
        )
        self.nbytes = sum(array.nbytes for array in self.lists)

    def search(self, first: int, stop: int, offsets: np.ndarray, out: np.ndarray) -> int:
        """Write the rules that hold, like `Index.candidates`."""
        return find_all(
            self.lists, self.keys, self.size, self.parts, self.least, first, stop, offsets, out
        )

    def find_best(self, k: int, events: int) -> Best:
        """Return each event's k best rules; the events have no weights."""
        c = self.conjunctions
        lists = np.zeros(events, np.int64), np.zeros(events * k, np.int32), np.zeros(events * k)
        find_best(
            self.lists, c.offsets, c.attribute, c.kind, c.high, c.weight, c.score, c.rule,
            self.weights, self.keys, self.parts, self.least, events, k, *lists,
        )  # fmt: skip
        return lists


@step
def find_slot(slot_key, key):
    """Return the slot of a pair, or the free slot where it belongs."""
    mask = np.uint64(slot_key.shape[0] - 1)
    at = ((np.uint64(key) * np.uint64(_MULTIPLIER)) >> np.uint64(24)) & mask
    while slot_key[at] != -1 and slot_key[at] != key:
        at = (at + np.uint64(1)) & mask
    return at


@kernel
def number_pairs(
    c: Conjunctions, slot_key: Int64Out, slot_pair: Int32Out, pair_of: Int32Out
) -> int:
    """Number all pairs in the hash table; return how many there are, -1 if it is too small.

    `pair_of` gets the pairs of all values that a predicate accepts, predicate by predicate.
    """
    known, n = 0, 0
    for row in range(c.attribute.shape[0]):
        for value in range(c.low[row], c.high[row] + 1):
            key = (np.int64(c.attribute[row]) << 32) + value
            at = find_slot(slot_key, key)
            if slot_key[at] == -1:
                if 2 * known == slot_key.shape[0]:
                    return -1
                slot_key[at], slot_pair[at] = key, np.int32(known)
                known += 1
            pair_of[n] = slot_pair[at]
            n += 1
    return known


@kernel
def size_lists(
    c: Conjunctions, pair_of: Int32s, parts: int, least: int, counts: Int64Out, bound: Float64Out
) -> None:
    """Count the entries of each list, one place further on, and find its greatest weight."""
    n = 0
    for i in range(c.offsets.shape[0] - 1):
        part = c.offsets[i + 1] - c.offsets[i] - least
        for row in range(c.offsets[i], c.offsets[i + 1]):
            weight = c.weight[row] if c.weight.shape[0] else 1.0
            for _ in range(c.low[row], c.high[row] + 1):
                number = np.int64(pair_of[n]) * parts + part
                counts[number + 1] += 1
                bound[number] = max(bound[number], weight)
                n += 1


@kernel
def fill_lists(
    c: Conjunctions, pair_of: Int32s, parts: int, least: int, place: Int64Out, entry: Int32Out
) -> None:
    """Write each conjunction into its lists; `place` has the next entry of each."""
    n = 0
    for i in range(c.offsets.shape[0] - 1):
        part = c.offsets[i + 1] - c.offsets[i] - least
        for row in range(c.offsets[i], c.offsets[i + 1]):
            for _ in range(c.low[row], c.high[row] + 1):
                number = np.int64(pair_of[n]) * parts + part
                entry[place[number]] = np.int32(i)
                place[number] += 1
                n += 1


@step
def look_up_pairs(slot_key, slot_pair, attributes, values, begin, after, pairs):
    """Write the numbers of an event's pairs that have lists, and return how many there are."""
    pair_count = 0
    for i in range(begin, after):
        at = find_slot(slot_key, (np.int64(attributes[i]) << 32) + values[i])
        if slot_key[at] != -1:
            pairs[pair_count] = slot_pair[at]
            pair_count += 1
    return pair_count


@step
def open_lists(start, entry, bound, pairs, pair_count, parts, part, at, end, current, limit):
    """Write the begin, end, first conjunction and bound of each list of a part."""
    opened = 0
    for i in range(pair_count):
        number = np.int64(pairs[i]) * parts + part
        if start[number] < start[number + 1]:
            at[opened], end[opened] = start[number], start[number + 1]
            current[opened] = entry[start[number]]
            limit[opened] = bound[number]
            opened += 1
    return opened


@step
def sort_lists(moved, opened, at, end, current, limit):
    """Sort lists by their current conjunctions; only the first `moved` may be out of order."""
    for i in range(moved - 1, -1, -1):
        this, place, ending, most = current[i], at[i], end[i], limit[i]
        j = i + 1
        while j < opened and current[j] < this:
            current[j - 1], at[j - 1], end[j - 1], limit[j - 1] = (
                current[j],
                at[j],
                end[j],
                limit[j],
            )
            j += 1
        current[j - 1], limit[j - 1] = this, most
        at[j - 1], end[j - 1] = place, ending


@step
def skip(entry, at, end, target):
    """Return the first position of a list with `target` or more, by galloping; or its end."""
    jump = np.int64(1)
    low = at
    while at + jump < end and entry[at + jump] < target:
        low = at + jump
        jump *= 2
    high = min(at + jump, end)
    low += 1  # the entry here is less
    while low < high:
        middle = (low + high) >> 1
        if entry[middle] < target:
            low = middle + 1
        else:
            high = middle
    return low


@step
def skip_first(entry, needed, target, opened, at, end, current, limit):
    """Advance the first lists to `target` or beyond, and sort all lists."""
    for i in range(needed):
        if current[i] < target:
            at[i] = skip(entry, at[i], end[i], target)
            current[i] = entry[at[i]] if at[i] < end[i] else np.int32(_DONE)
    sort_lists(needed, opened, at, end, current, limit)


@kernel
def find_all(
    lists: Lists,
    keys: Keys,
    size: int,
    parts: int,
    least: int,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write the rules that hold, event by event, while there is room for all conjunctions."""
    slot_key, slot_pair, start = lists.slot_key, lists.slot_pair, lists.start
    entry, bound = lists.entry, lists.bound
    sparse, attributes, values = keys.offsets, keys.attribute, keys.key
    most = np.int64(0)
    for event in range(first, stop):
        most = max(most, sparse[event + 1] - sparse[event])
    pairs, current = np.empty(most, np.int32), np.empty(most, np.int32)
    at, end, limit = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
    room = out.shape[0] - size
    n = offsets[0]
    event = first
    while event < stop and n <= room:
        pair_count = look_up_pairs(
            slot_key, slot_pair, attributes, values, sparse[event], sparse[event + 1], pairs
        )
        for part in range(min(parts, pair_count - least + 1) - 1, -1, -1):
            needed = least + part
            opened = open_lists(
                start, entry, bound, pairs, pair_count, parts, part, at, end, current, limit
            )
            if opened < needed:
                continue
            sort_lists(opened, opened, at, end, current, limit)
            while current[needed - 1] != _DONE:
                target = current[needed - 1]
                if current[0] == target:
                    out[n] = target
                    n += 1
                    target += np.int32(1)
                skip_first(entry, needed, target, opened, at, end, current, limit)
        event += 1
        offsets[event - first] = n
    return event


@kernel
def find_best(
    lists: Lists,
    rows: Int64s,
    attribute_of: Int32s,
    kind: UInt8s,
    high: Int64s,
    weight: Float64s,
    own_score: Float64s,
    rule_of: Int32s,
    weights: Float64s,
    keys: Keys,
    parts: int,
    least: int,
    events: int,
    k: int,
    sizes: Int64Out,
    rules: Int32Out,
    scores: Float64Out,
) -> None:
    """Write each event's k best rules, in lists like those of `finish.keep_best`."""
    slot_key, slot_pair, start = lists.slot_key, lists.slot_pair, lists.start
    entry, bound = lists.entry, lists.bound
    sparse, attributes, values = keys.offsets, keys.attribute, keys.key
    most = np.int64(0)
    for event in range(events):
        most = max(most, sparse[event + 1] - sparse[event])
    pairs, current = np.empty(most, np.int32), np.empty(most, np.int32)
    at, end, limit = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
    for event in range(events):
        base, held = event * k, np.int64(0)
        pair_count = look_up_pairs(
            slot_key, slot_pair, attributes, values, sparse[event], sparse[event + 1], pairs
        )
        for part in range(min(parts, pair_count - least + 1) - 1, -1, -1):
            needed = least + part
            opened = open_lists(
                start, entry, bound, pairs, pair_count, parts, part, at, end, current, limit
            )
            if opened < needed:
                continue
            # The order of summation affects rounding, so the bound has some tolerance.
            greatest = np.sort(limit[:opened])[opened - needed :].sum() * (1 + 1e-12)
            if held == k and greatest < scores[base + k - 1]:
                continue
            sort_lists(opened, opened, at, end, current, limit)
            while current[needed - 1] != _DONE:
                target = current[needed - 1]
                if current[0] == target:
                    together = 0.0
                    for i in range(needed):
                        together += limit[i]
                    if held < k or together * (1 + 1e-12) >= scores[base + k - 1]:
                        value = score(
                            attribute_of, kind, high, weight, own_score, rows, np.int64(target),
                            weights,
                        )  # fmt: skip
                        held = keep(rule_of[target], value, True, k, base, held, rules, scores)
                    target += np.int32(1)
                skip_first(entry, needed, target, opened, at, end, current, limit)
        sizes[event] = held
