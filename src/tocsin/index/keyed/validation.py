"""Checks of stored arrays for `Keyed.validate`: everything that matching relies on."""

from __future__ import annotations

import numpy as np

from tocsin.index.keyed.coding import first_cuts, key_distances
from tocsin.index.keyed.key_sets import SET_SIZE
from tocsin.index.keyed.lanes import HEAD, LANES, ROW
from tocsin.index.keyed.layout import CODES, GATES, Layout
from tocsin.model.encoding import NULL
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_offsets,
    check_within,
    require,
)


def check_layout(g: Layout, size: int, width: int) -> None:
    """Raise unless the layout is sound, of `size` conjunctions over a schema of `width` attributes.

    An event visits each shelf once, so each run once, and the blocks of a run once, since runs
    share no block; likewise at most one bucket of a key set. In a block it finds each entry at most
    once. So only a conjunction with several entries may be found twice: these must exclude each
    other.
    """
    attributes, runs, blocks = len(g.pair_start), len(g.key_attribute), len(g.block_bound)
    shelves, sets = len(g.run_offsets) - 1, len(g.slot_start)
    require(len(g.local) <= width, f"'local' must be of at most {width:,} attributes")
    tested = np.sort(g.local[g.local >= 0])
    require(
        np.array_equal(tested, np.arange(attributes)) and g.local.min(initial=-1) >= -1,
        "each attribute must have a number of its own in 'local', or -1",
    )
    check_offsets("cut_offsets", g.cut_offsets, attributes, len(g.cuts))
    check_within("cut_offsets", np.diff(g.cut_offsets), 0, CODES + 1)
    _check_code_tables(g)
    _check_shelves(g, attributes, shelves)
    check_offsets("run_offsets", g.run_offsets, shelves, runs)
    check_lengths(g, runs, "span_start", "span_shift")
    check_lengths(g, runs + sets, "run_bound")
    check_within("key_attribute", g.key_attribute, 0, attributes + 1)
    check_within("span_shift", g.span_shift, 0, 17)
    check_lengths(g, HEAD * blocks, "heads")
    check_offsets("row_offsets", g.row_offsets, blocks, len(g.rows))
    require(not (g.row_offsets % ROW).any(), f"'row_offsets' must be multiples of {ROW}")
    check_lengths(g, LANES * blocks, "entry_bound", "candidate")
    check_numbers("candidate", g.candidate, size)
    heads = g.heads.reshape(-1, HEAD // LANES, LANES)
    rows = g.rows.reshape(-1, ROW // LANES, LANES)
    check_within("heads", heads[:, 2].reshape(-1), 0, attributes + 1)
    check_within("rows", rows[:, 0].reshape(-1), 0, attributes + 1)
    ends = _check_spans(g, blocks)
    in_runs = int(ends[-1]) if len(ends) else 0  # blocks; those of key sets follow
    set_lanes = _check_sets(g, attributes, in_runs, blocks)
    run = np.searchsorted(ends, np.arange(blocks), "right")
    block_attribute = np.append(g.key_attribute, attributes)[run]
    # The entries of a key set are as if they were under an attribute of its own, and their keys
    # the numbers of buckets.
    owner = np.repeat(block_attribute, LANES).astype(np.int64)
    low, high = (heads[:, i].reshape(-1).astype(np.int64) for i in (0, 1))
    filled = (low <= CODES) | (low <= high)  # a lane without an entry has a key above all codes
    first_lane = LANES * in_runs
    lanes = np.arange(first_lane, LANES * blocks)
    bucket = np.searchsorted(g.bucket_lane, lanes, "right") - 1
    filled_bucket = np.where(filled[lanes], bucket & 0xFFFF, low[lanes])
    require(
        np.array_equal(low[lanes], filled_bucket)
        and bool((low[lanes] == high[lanes])[filled[lanes]].all()),
        "the key of an entry in a key set must be the number of its bucket",
    )
    owner[lanes] = attributes + 1 + np.searchsorted(set_lanes, lanes, "right")
    low[lanes] = high[lanes] = bucket
    _check_entries(g, np.flatnonzero(filled), low, high, owner, size)


def _check_code_tables(g: Layout) -> None:
    """Raise unless tables have the code of each key from one below the first cut to the last."""
    attributes = len(g.pair_start)
    check_lengths(g, attributes, "code_start")
    check_within("code_start", g.code_start, -1, len(g.code_table) + 1)
    with_table = np.flatnonzero(g.code_start >= 0)
    begin, end = first_cuts(g.cut_offsets, g.cuts)[with_table], g.cut_offsets[with_table + 1]
    require(bool((begin < end).all()), "an attribute without cuts must have no table of codes")
    first, last = g.cuts[begin], g.cuts[np.maximum(end, 1) - 1]
    distance = key_distances(first, last)
    left = len(g.code_table) - g.code_start[with_table].astype(np.int64)
    require(
        bool((g.cuts > NULL).all())
        and bool((first <= last).all())
        and bool((distance <= len(g.code_table)).all())
        and bool((distance.astype(np.int64) + 2 <= left).all()),
        "a table must have a code for each key from one below the first cut to the last",
    )
    for a, size in zip(with_table.tolist(), (distance.astype(np.int64) + 2).tolist()):
        own = g.code_table[g.code_start[a] : g.code_start[a] + size]
        check_within("code_table", own, 0, int(g.cut_offsets[a + 1] - g.cut_offsets[a]) + 1)


def _check_sets(g: Layout, attributes: int, in_runs: int, blocks: int) -> np.ndarray:
    """Raise unless tables name buckets, each once; return the first lane of each set but the first.

    A table must have a place for each combination of codes, and a hash table an empty slot, where
    the search for a combination that it lacks ends.
    """
    sets, buckets = len(g.slot_start), len(g.bucket_lane) - 1
    check_lengths(g, SET_SIZE * sets, "set_attribute", "set_stride")
    check_lengths(g, sets, "slot_shift")
    check_within("set_attribute", g.set_attribute, 0, attributes + 1)
    check_offsets("table_start", g.table_start, sets, len(g.table))
    check_within("table", g.table, -1, buckets)
    check_lengths(g, GATES * buckets, "gate_attribute")
    check_lengths(g, 2 * GATES * buckets, "gate")
    check_within("gate_attribute", g.gate_attribute, 0, attributes + 1)
    lanes = g.bucket_lane
    require(
        buckets >= 0
        and lanes[0] == LANES * (in_runs if buckets else blocks)
        and lanes[-1] == LANES * blocks
        and bool((lanes[1:] >= lanes[:-1]).all()),
        "'bucket_lane' must ascend over the lanes of all key sets",
    )
    codes = np.append(np.diff(g.cut_offsets) + 1, 1)
    attribute = g.set_attribute.reshape(-1, SET_SIZE)
    stride = g.set_stride.reshape(-1, SET_SIZE)
    first_lanes = []
    used = slots = 0
    for k in range(sets):
        own_codes = codes[attribute[k]]
        strides = [int(own_codes[1] * own_codes[2]), int(own_codes[2]), 1]
        require(
            stride[k].tolist() == strides and len(set(attribute[k]) - {attributes}) > 0,
            "strides of a key set must be products of the numbers of codes",
        )
        own = g.table[g.table_start[k] : g.table_start[k + 1]]
        named = np.sort(own[own >= 0])
        require(
            np.array_equal(named, np.arange(used, used + len(named))),
            "each bucket must be in one place of one table, set by set",
        )
        require(used < buckets and lanes[used] % LANES == 0, "a key set must start with a block")
        first_lanes.append(int(lanes[used]))
        used += len(named)
        if g.slot_start[k] < 0:
            possible = strides[0] * int(own_codes[0])
            require(
                g.slot_start[k] == -1 and len(own) == possible,
                "a direct table must have a place for each combination",
            )
        else:
            require(
                g.slot_start[k] == slots
                and 1 <= 64 - int(g.slot_shift[k]) <= 31
                and len(own) == 1 << (64 - int(g.slot_shift[k]))
                and len(named) < len(own),
                "a hash table must have a power of two slots, and one of them empty",
            )
            slots += len(own)
    require(used == buckets, "each bucket must be in one place of one table, set by set")
    check_lengths(g, slots, "slot_combination")
    return np.array(first_lanes[1:], np.int64)


def _check_shelves(g: Layout, attributes: int, shelves: int) -> None:
    """Raise unless each shelf is of one attribute, of none, or of two, and of nothing else."""
    require(shelves > attributes, "there must be a shelf for each attribute, and one for none")
    starts = g.pair_start[g.pair_start >= 0]
    require(
        np.array_equal(np.sort(starts), np.arange(len(starts)) * attributes)
        and g.pair_start.min(initial=-1) >= -1
        and len(g.pair_shelf) == len(starts) * attributes,
        "each attribute must have a part of its own in 'pair_shelf', or -1",
    )
    used = np.sort(g.pair_shelf[g.pair_shelf >= 0])
    check_within("pair_shelf", used, attributes + 1, shelves)
    require(
        bool((used[1:] > used[:-1]).all()) and g.pair_shelf.min(initial=-1) >= -1,
        "each two attributes must have a shelf of their own, or -1",
    )


def _check_spans(g: Layout, blocks: int) -> np.ndarray:
    """Raise unless spans name blocks, each run others; return the block after each run's last."""
    cuts = np.append(np.diff(g.cut_offsets), 0)[g.key_attribute]
    starts = 2 * np.concatenate([[0], np.cumsum((cuts >> g.span_shift) + 1)])
    require(
        np.array_equal(g.span_start, starts[:-1]) and starts[-1] == len(g.spans),
        "a run must have a span for each code that an event can have",
    )
    check_within("spans", g.spans, 0, blocks + 1)
    if not len(g.key_attribute):
        return np.empty(0, np.int32)
    first, last = (f.reduceat(g.spans, starts[:-1]) for f in (np.minimum, np.maximum))
    require(bool((first[1:] >= last[:-1]).all()), "runs must have their blocks one after the other")
    return last


def _check_entries(
    g: Layout, lane: np.ndarray, low: np.ndarray, high: np.ndarray, owner: np.ndarray, size: int
) -> None:
    """Raise unless an event finds at most one entry of a conjunction.

    `lane` are those with an entry; `low`, `high` and `owner` (attribute or key set) are by lane.
    Several entries are under one attribute or key set, with keys that do not overlap.
    """
    candidate = g.candidate[lane].astype(np.int64)
    number = np.maximum(candidate, ~candidate)
    several = np.bincount(number, minlength=size)[number] > 1
    if not several.any():
        return
    lane, number = lane[several], number[several]
    begin, end = low[lane], high[lane]
    order = np.lexsort((begin, number))
    lane, number, begin, end = (each[order] for each in (lane, number, begin, end))
    value, owner = g.candidate[lane], owner[lane]
    same_conjunction = number[1:] == number[:-1]
    apart = (value[1:] == value[:-1]) & (owner[1:] == owner[:-1])
    apart &= (begin[1:] > end[:-1]) & (begin[:-1] <= end[:-1])
    require(
        bool((apart | ~same_conjunction).all()),
        "the entries of a conjunction must be points of one attribute or key set, none of them "
        "twice",
    )
