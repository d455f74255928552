"""Matching: the stretches under an event's values, and of these what passes."""

from __future__ import annotations

import numpy as np

from tocsin.index.keyed.layout import Layout
from tocsin.jit import Int32Out, Int64Out, kernel, prefetch, step
from tocsin.model.keys import Keys

AT_ONCE = 1024  # entries of a stretch that are compared before those that pass are looked at


@step
def cuts_up_to(cuts, begin, end, key):
    """Return how many cuts of an attribute, `begin` to `end`, are not above a key."""
    low, length = np.uint64(begin), np.uint64(end - begin)
    while length > 0:
        half = (length + np.uint64(1)) >> np.uint64(1)
        low += half if cuts[low + half - np.uint64(1)] <= key else np.uint64(0)
        length -= half
    return np.uint16(low - np.uint64(begin))


@step
def first_above(low, begin, end, code):
    """Return the first entry, from `begin` up to `end`, whose key begins above a code."""
    at, length = np.uint64(begin), np.uint64(end - begin)
    while length > 0:
        half = (length + np.uint64(1)) >> np.uint64(1)
        at += half if np.int64(low[at + half - np.uint64(1)]) <= code else np.uint64(0)
        length -= half
    return np.int64(at)


@step
def code_event(
    columns,
    column_attribute,
    offsets,
    attribute,
    key,
    event,
    local,
    cut,
    cuts,
    line,
    present,
    listed,
):
    """Put an event's codes onto the line; write its attributes and return how many.

    `listed` has for each attribute the last event that had it.
    """
    n = 0
    for c in range(column_attribute.shape[0]):
        a = local[column_attribute[c]] if column_attribute[c] < local.shape[0] else np.int32(-1)
        if a >= 0:
            line[a] = cuts_up_to(cuts, cut[a], cut[a + 1], columns[c, event])
            present[n], listed[a] = a, event
            n += 1
    if offsets.shape[0] > 0:
        for i in range(offsets[event], offsets[event + 1]):
            a = local[attribute[i]] if attribute[i] < local.shape[0] else np.int32(-1)
            if a >= 0:
                line[a] = cuts_up_to(cuts, cut[a], cut[a + 1], key[i])
                # Said twice, the last counts.
                if listed[a] != event:
                    present[n], listed[a] = a, event
                    n += 1
    return n


@step
def passing(begin, end, code, line, last, high, second, second_low, second_high, passed):
    """Write the entries, of some, whose key and second predicate hold; return how many.

    That their keys begin early enough is known already.
    """
    n = np.uint64(0)
    for j in range(np.uint64(begin), np.uint64(end)):
        a = second[j]
        passed[n] = np.int32(j)
        n += np.uint64((high[j] >= code) & (second_low[j] <= last[a]) & (line[a] <= second_high[j]))
    return np.int64(n)


@step
def rest_holds(begin, end, rows, line, last):
    """Tell whether an entry's further predicates hold, those from `begin` to `end`."""
    row = np.uint64(begin)
    while row < np.uint64(end):
        a = rows[row]
        if last[a] < rows[row + np.uint64(1)] or line[a] > rows[row + np.uint64(2)]:
            return False
        row += np.uint64(3)
    return True


@step
def without_doubles(found, out, begin):
    """Write candidates from `begin` on, in order and each once; return where they end.

    Of a small set that is a key an event finds one point, but a range may find several.
    """
    kept = begin
    for each in np.sort(found):
        if kept == begin or out[kept - 1] != each:
            out[kept] = each
            kept += 1
    return kept


@kernel
def propose(
    g: Layout, keys: Keys, most: int, first: int, stop: int, offsets: Int64Out, out: Int32Out
) -> int:
    """Write candidates event by event while there is room for `most`."""
    local, cut, cuts, run, begin, width = g.local, g.cut, g.cuts, g.run, g.begin, g.width
    low, high, second, second_low, second_high = (
        g.low, g.high, g.second, g.second_low, g.second_high
    )  # fmt: skip
    candidate, start, rows = g.candidate, g.start, g.rows
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key = keys.attribute, keys.key
    columns_high, key_high = keys.columns_high, keys.key_high
    ranged = columns_high.shape[0] + key_high.shape[0] > 0
    attributes = run.shape[0] - 2
    line = np.zeros(attributes + 1, np.uint16)
    last = np.zeros(attributes + 1, np.uint16) if ranged else line
    present = np.empty(attributes + 1, np.int32)
    listed = np.full(attributes + 1, -1, np.int64)
    listed_last = np.full(attributes + 1 if ranged else 0, -1, np.int64)
    passed = np.empty(AT_ONCE, np.int32)
    into = np.empty(candidate.shape[0], np.int32) if ranged else out
    n = np.uint64(offsets[0])
    event = first
    while event < stop and np.int64(n) + most <= out.shape[0]:
        several = code_event(
            columns, column_attribute, sparse, attribute, key, event, local, cut, cuts, line,
            present, listed,
        )  # fmt: skip
        if ranged:
            n = np.uint64(0)
            code_event(
                columns_high, column_attribute, sparse, attribute, key_high, event, local, cut,
                cuts, last, present, listed_last,
            )  # fmt: skip
        present[several] = attributes
        for i in range(several + 1):
            a = present[i]
            code = np.int64(line[a])
            for r in range(run[a], run[a + 1]):
                end = first_above(low, begin[r], begin[r + 1], np.int64(last[a]))
                at = first_above(low, begin[r], end, code - width[r] - 1)
                while at < end:
                    upto = min(at + AT_ONCE, end)
                    left = passing(
                        at, upto, code, line, last, high, second, second_low, second_high, passed
                    )
                    for p in range(left):
                        if p + 6 < left:
                            prefetch(rows, np.int64(start[passed[p + 6]]))
                        j = np.uint64(passed[p])
                        into[n] = candidate[j]
                        n += np.uint64(
                            rest_holds(start[j], start[j + np.uint64(1)], rows, line, last)
                        )
                    at = upto
        for i in range(several):
            line[present[i]] = last[present[i]] = 0
        if ranged:
            n = np.uint64(without_doubles(into[:n], out, offsets[event - first]))
        event += 1
        offsets[event - first] = n
    return event
