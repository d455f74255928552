"""The blocks in which an event may find something: spans of runs, and buckets of key sets."""

from __future__ import annotations

import numpy as np

from tocsin.index.keyed.buckets import hash_slot
from tocsin.index.keyed.event_codes import CHUNK
from tocsin.index.keyed.lanes import HEAD, LANES
from tocsin.jit import bare_step, prefetch

AHEAD = 8  # blocks that are prefetched; chosen
CACHE_LINE = 32  # 16-bit words: 64 bytes


@bare_step
def list_runs(n_present, present, codes_high, pair_start, pair_shelf, run_offsets, runs):
    """Write the runs in which an event may find something; return how many.

    They are the runs of single attributes, those without a key, and those of two attributes. Null
    satisfies no key.
    """
    n = 0
    for i in range(n_present + 1):
        a = present[i]
        if i < n_present and codes_high[a] == 0:
            continue
        for r in range(run_offsets[a], run_offsets[a + 1]):
            runs[n] = r
            n += 1
        if i < n_present and pair_start[a] >= 0:
            for j in range(n_present):
                shelf = pair_shelf[pair_start[a] + present[j]]
                if shelf >= 0:
                    for r in range(run_offsets[shelf], run_offsets[shelf + 1]):
                        runs[n] = r
                        n += 1
    return n


@bare_step
def find_run_blocks(
    n_runs, runs, codes, codes_high, key_attribute, span_start, span_shift, spans, heads, ahead,
    begin, end, key_low, key_high,
):  # fmt: skip
    """Write the blocks of each run that may have the event's code, and the codes of its range.

    The spans of all runs are prefetched, then the first `ahead` blocks that they name.
    """
    for i in range(n_runs):
        r = runs[i]
        code = codes[key_attribute[r]]
        prefetch(spans, span_start[r] + 2 * np.int64(code >> span_shift[r]))
    for i in range(n_runs):
        r = runs[i]
        code, code_high = codes[key_attribute[r]], codes_high[key_attribute[r]]
        key_low[i], key_high[i] = code, code_high
        begin[i] = spans[span_start[r] + 2 * np.int64(code >> span_shift[r])]
        end[i] = spans[span_start[r] + 2 * np.int64(code_high >> span_shift[r]) + 1]
        upto = min(end[i], begin[i] + ahead)
        for word in range(np.int64(begin[i]) * HEAD, np.int64(upto) * HEAD, CACHE_LINE):
            prefetch(heads, word)


@bare_step
def find_bucket(k, combination, table_start, slot_start, slot_shift, table, slot_combination):
    """Return the bucket of a combination in a key set, -1 if there is none."""
    start = np.int64(table_start[k])
    if slot_start[k] < 0:
        return np.int64(table[start + combination])
    slots, last = np.int64(slot_start[k]), np.int64(table_start[k + 1]) - start - 1
    slot = hash_slot(combination, slot_shift[k])
    while table[start + slot] >= 0 and slot_combination[slots + slot] != combination:
        slot = (slot + 1) & last
    return np.int64(table[start + slot])


@bare_step
def add_bucket(n, bucket, run, bucket_lane, runs, begin, end, key_low, key_high):
    """Write the blocks of a bucket as those of the n-th run; return n + 1."""
    runs[n] = run
    begin[n] = bucket_lane[bucket] // LANES
    end[n] = (bucket_lane[bucket + 1] + (LANES - 1)) // LANES
    key_low[n] = key_high[n] = np.uint16(bucket & 0xFFFF)
    return n + 1


@bare_step
def find_buckets(
    codes, set_attribute, set_stride, table_start, slot_start, slot_shift, table,
    slot_combination, buckets,
):  # fmt: skip
    """Write the bucket of one event in each key set, or -1, at places that are `CHUNK` apart.

    Scattered memory is prefetched for all sets.
    """
    for k in range(slot_start.shape[0]):
        number = np.int64(0)
        for j in range(3 * k, 3 * k + 3):
            number += np.int64(codes[set_attribute[j]]) * set_stride[j]
        buckets[k * CHUNK] = number
        slot = number
        if slot_start[k] >= 0:
            slot = hash_slot(number, slot_shift[k])
            prefetch(slot_combination, np.int64(slot_start[k]) + slot)
        prefetch(table, np.int64(table_start[k]) + slot)
    for k in range(slot_start.shape[0]):
        buckets[k * CHUNK] = find_bucket(
            k, buckets[k * CHUNK], table_start, slot_start, slot_shift, table, slot_combination
        )


@bare_step
def find_buckets_of_columns(
    events, n_columns, column_local, column_codes, set_attribute, set_stride, table_start,
    slot_start, slot_shift, table, slot_combination, bucket_lane, gate_attribute, gate, heads,
    buckets,
):  # fmt: skip
    """Do the same for up to `CHUNK` events that have columns only, set by set.

    The search in a hash table is written out: Numba counts references whenever a step is called.
    """
    for k in range(slot_start.shape[0]):
        first, last = k * CHUNK, k * CHUNK + events
        for i in range(first, last):
            buckets[i] = 0
        for j in range(3 * k, 3 * k + 3):
            for c in range(n_columns):
                if column_local[c] == set_attribute[j]:
                    stride, at = set_stride[j], c * CHUNK - first
                    for i in range(first, last):
                        buckets[i] += np.int64(column_codes[at + i]) * stride
        start, size = np.int64(table_start[k]), np.int64(table_start[k + 1]) - table_start[k]
        if slot_start[k] < 0:
            for i in range(first, last):
                buckets[i] = table[start + buckets[i]]
        else:
            slots, shift = np.int64(slot_start[k]), slot_shift[k]
            for i in range(first, last):
                slot = hash_slot(buckets[i], shift)
                prefetch(table, start + slot)
                prefetch(slot_combination, slots + slot)
            for i in range(first, last):
                slot = hash_slot(buckets[i], shift)
                while table[start + slot] >= 0 and slot_combination[slots + slot] != buckets[i]:
                    slot = (slot + 1) & (size - 1)
                buckets[i] = table[start + slot]
        for i in range(first, last):
            prefetch(bucket_lane, buckets[i])
            prefetch(gate_attribute, 2 * buckets[i])
            prefetch(gate, 4 * buckets[i])
        for i in range(first, last):
            if buckets[i] >= 0:
                word = np.int64(bucket_lane[buckets[i]]) // LANES * HEAD
                prefetch(heads, word)
                prefetch(heads, word + CACHE_LINE)


@bare_step
def find_buckets_of_ranges(
    n, first_set, codes, codes_high, set_attribute, set_stride, table_start, slot_start,
    slot_shift, table, slot_combination, bucket_lane, runs, begin, end, key_low, key_high,
):  # fmt: skip
    """Write the blocks of an event with ranges in all key sets, after n runs; return how many.

    It may have several buckets in a key set. Its combinations are looked up one by one, unless the
    table has fewer.
    """
    for k in range(slot_start.shape[0]):
        x, y, z = set_attribute[3 * k], set_attribute[3 * k + 1], set_attribute[3 * k + 2]
        by_x, by_y = set_stride[3 * k], set_stride[3 * k + 1]
        low_x, low_y, low_z = np.int64(codes[x]), np.int64(codes[y]), np.int64(codes[z])
        high_x, high_y, high_z = (
            np.int64(codes_high[x]), np.int64(codes_high[y]), np.int64(codes_high[z])
        )  # fmt: skip
        start, size = np.int64(table_start[k]), np.int64(table_start[k + 1]) - table_start[k]
        if (high_x - low_x + 1) * (high_y - low_y + 1) * (high_z - low_z + 1) <= size:
            for in_x in range(low_x, high_x + 1):
                for in_y in range(low_y, high_y + 1):
                    for in_z in range(low_z, high_z + 1):
                        bucket = find_bucket(
                            k, in_x * by_x + in_y * by_y + in_z, table_start, slot_start,
                            slot_shift, table, slot_combination,
                        )  # fmt: skip
                        if bucket >= 0:
                            n = add_bucket(
                                n, bucket, first_set + k, bucket_lane, runs, begin, end, key_low,
                                key_high,
                            )  # fmt: skip
            continue
        for slot in range(size):
            bucket = np.int64(table[start + slot])
            if bucket < 0:
                continue
            number = slot if slot_start[k] < 0 else slot_combination[slot_start[k] + slot]
            in_x = number // by_x
            in_y = (number - in_x * by_x) // by_y
            in_z = number - in_x * by_x - in_y * by_y
            if low_x <= in_x <= high_x and low_y <= in_y <= high_y and low_z <= in_z <= high_z:
                n = add_bucket(
                    n, bucket, first_set + k, bucket_lane, runs, begin, end, key_low, key_high
                )
    return n
