"""The codes of events: of columns for many events at once, of sparse values event by event."""

from __future__ import annotations

import numpy as np

from tocsin.index.keyed.coding import count_cuts
from tocsin.jit import bare_step
from tocsin.model.encoding import LOWEST, NULL

CHUNK = 256  # events whose columns are coded at once; chosen: the codes stay in cache


@bare_step
def find_columns(column_attribute, local, column, column_local):
    """Write the columns that some rule tests, and their local numbers; return how many."""
    n = 0
    for c in range(column_attribute.shape[0]):
        a = local[column_attribute[c]] if column_attribute[c] < local.shape[0] else np.int32(-1)
        if a >= 0:
            column[n], column_local[n] = c, a
            n += 1
    return n


@bare_step
def code_columns(
    columns, n_columns, column, column_local, first, stop, cut_offsets, cuts, code_start,
    code_table, out,
):  # fmt: skip
    """Write the codes of events `first` to `stop`, column by column, `CHUNK` codes for each."""
    for j in range(n_columns):
        a, c, at = column_local[j], column[j], j * CHUNK - first
        begin, end = cut_offsets[a], cut_offsets[a + 1]
        if begin == end:
            for event in range(first, stop):
                out[at + event] = 0
        elif code_start[a] >= 0:
            low = cuts[begin + np.int64(cuts[begin] == LOWEST)] - 1
            high, table = cuts[end - 1], np.int64(code_start[a])
            for event in range(first, stop):
                key = columns[c, event]
                code = code_table[table + (min(max(key, low), high) - low)]
                out[at + event] = code if key != NULL else np.uint16(0)
        else:
            # Without branches: a bisection takes the same steps for all keys.
            for event in range(first, stop):
                key = columns[c, event]
                place, length = begin, end - begin
                while length > 0:
                    half = (length + 1) >> 1
                    place += half * np.int64(cuts[place + half - 1] <= key)
                    length -= half
                out[at + event] = np.uint16(place - begin)


@bare_step
def code_sparse_values(
    n_columns, offsets, attribute, key, event, local, cut_offsets, cuts, codes, present,
    last_event, value, low, length,
):  # fmt: skip
    """Write the codes of an event's sparse values, and its attributes; return how many these are.

    The attributes of its columns are the first `n_columns`; their codes are already written.
    `last_event` has for each attribute the last event that had it; `value`, `low` and `length` are
    scratch. All values are bisected in step, because one after the other, each step would wait for
    memory. All arguments are arrays, because Numba would count the references of a named tuple.
    """
    n = n_columns
    for j in range(n_columns):
        last_event[present[j]] = event
    for i in range(offsets[event], offsets[event + 1]):
        a = local[attribute[i]] if attribute[i] < local.shape[0] else np.int32(-1)
        if a >= 0 and last_event[a] != event:
            present[n], last_event[a], value[n] = a, event, key[i]
            n += 1
        elif a >= 0:  # given twice: the last value counts
            in_column = True
            for j in range(n_columns, n):
                if present[j] == a:
                    value[j], in_column = key[i], False
            if in_column:
                codes[a] = count_cuts(cuts, cut_offsets[a], cut_offsets[a + 1], key[i])
    longest = np.int64(0)
    for j in range(n_columns, n):
        low[j] = cut_offsets[present[j]]
        length[j] = cut_offsets[present[j] + 1] - low[j]
        longest = max(longest, length[j])
    while longest > 0:
        for j in range(n_columns, n):
            half = (length[j] + 1) >> 1  # 0 at the end, when there is nothing left to read
            low[j] += half * np.int64(cuts[max(low[j] + half - 1, 0)] <= value[j])
            length[j] -= half
        longest -= (longest + 1) >> 1
    for j in range(n_columns, n):
        codes[present[j]] = np.uint16(low[j] - cut_offsets[present[j]])
    return n
