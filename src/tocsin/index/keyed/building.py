"""Building a keyed index, step by step."""

from __future__ import annotations

import numpy as np

from tocsin.index.keyed.blocks import cut_into_blocks, fill_blocks, find_spans, greatest
from tocsin.index.keyed.coding import code_predicates, number_attributes
from tocsin.index.keyed.entries import choose_keys, find_proven, gather_others, make_entries
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

    key, by_selectivity = choose_keys(c.offsets, coded)
    others = gather_others(c.offsets, coded, key, by_selectivity)
    proven = find_proven(c.offsets, coded, key)

    entries, shelves, runs = sort_into_runs(make_entries(c, coded, key), others, coded)
    blocks = cut_into_blocks(runs)
    heads, row_offsets, rows = fill_blocks(entries, others, blocks)
    span_table, spans = find_spans(entries, runs, blocks, coded.codes[runs.attribute])

    # Empty lanes have bound 0 and candidate 0; their keys let no event pass.
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
        pair_start=shelves.pair_start,
        pair_shelf=shelves.pair_shelf,
        run_offsets=runs.offsets,
        key_attribute=runs.attribute,
        span_start=span_table.start,
        span_shift=span_table.shift,
        spans=spans,
        run_bound=greatest(bound, runs.start[:-1]),
        heads=heads,
        row_offsets=row_offsets,
        rows=rows,
        block_bound=greatest(bound, blocks.start),
        entry_bound=entry_bound,
        candidate=candidate,
    )
