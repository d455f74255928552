"""Building a keyed index, step by step."""

from __future__ import annotations

import numpy as np

from tocsin.index.keyed.blocks import cut_into_blocks, fill_blocks, find_spans, greatest
from tocsin.index.keyed.buckets import Buckets, find_gates, make_buckets
from tocsin.index.keyed.coding import code_predicates, number_attributes, tabulate_codes
from tocsin.index.keyed.entries import (
    Entries,
    choose_keys,
    find_key_rows,
    find_proven,
    gather_others,
    make_entries,
)
from tocsin.index.keyed.key_sets import choose_key_sets
from tocsin.index.keyed.lanes import LANES
from tocsin.index.keyed.layout import Layout
from tocsin.index.keyed.shelves import sort_into_runs
from tocsin.jit import freeze_fields
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.facts import weight_sums


def build_layout(c: Conjunctions, width: int) -> Layout:
    """Return the layout of conjunctions over a schema of `width` attributes."""
    local = number_attributes(c, width)
    coded = code_predicates(c, local)
    code_start, code_table = tabulate_codes(coded)

    sets = choose_key_sets(c.offsets, coded)
    key, by_selectivity = choose_keys(c.offsets, coded)
    key_rows = find_key_rows(c.offsets, coded, key, sets)
    others = gather_others(c.offsets, coded, key_rows, by_selectivity)
    proven = find_proven(c.offsets, coded, key_rows)

    single = make_entries(c, coded, key, sets.number < 0)
    single, shelves, runs = sort_into_runs(single, others, coded)
    buckets, tables = make_buckets(c, coded, sets, others)
    entries = _append_buckets(single, buckets, len(coded.presence))
    starts = np.append(runs.start, runs.start[-1] + buckets.set_start[1:])  # of runs, then of sets
    if len(sets.attributes):
        starts = np.append(starts, len(entries.conjunction))
    blocks = cut_into_blocks(starts)
    heads, row_offsets, rows = fill_blocks(entries, others, blocks)
    span_table, spans = find_spans(entries, blocks, coded.codes[runs.attribute])

    # Empty lanes have bound 0 and candidate 0; no event satisfies their keys.
    bound = weight_sums(c)[entries.conjunction]
    entry_bound = np.zeros(LANES * len(blocks.start))
    entry_bound[blocks.lane] = bound
    candidate = np.zeros(LANES * len(blocks.start), np.int32)
    number = entries.conjunction
    candidate[blocks.lane] = np.where(proven[number], number, ~number)
    return freeze_fields(
        Layout,
        local=local,
        cut_offsets=coded.cut_offsets,
        cuts=coded.cuts,
        code_start=code_start,
        code_table=code_table,
        pair_start=shelves.pair_start,
        pair_shelf=shelves.pair_shelf,
        run_offsets=runs.offsets,
        key_attribute=runs.attribute,
        span_start=span_table.start,
        span_shift=span_table.shift,
        spans=spans,
        **tables._asdict(),
        bucket_lane=np.append(
            blocks.lane[runs.start[-1] + buckets.first], LANES * len(blocks.start)
        ),
        **find_gates(buckets, others, len(coded.presence))._asdict(),
        run_bound=greatest(bound, starts[:-1]),
        heads=heads,
        row_offsets=row_offsets,
        rows=rows,
        block_bound=greatest(bound, blocks.start),
        entry_bound=entry_bound,
        candidate=candidate,
    )


def _append_buckets(single: Entries, buckets: Buckets, no_attribute: int) -> Entries:
    """Return the entries under single keys, then those of key sets.

    The key of the latter is the low 16 bits of their bucket's number: the buckets in one block have
    consecutive numbers, so this is unique there.
    """
    key = buckets.bucket & 0xFFFF
    return freeze_fields(
        Entries,
        conjunction=np.append(single.conjunction, buckets.conjunction),
        attribute=np.append(single.attribute, np.full(len(key), no_attribute)),
        low=np.append(single.low, key),
        high=np.append(single.high, key),
    )
