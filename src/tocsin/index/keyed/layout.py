"""The arrays of a keyed index; the package's docstring explains shelves, runs, blocks and lanes."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.jit import Float64s, Int32s, Int64s, UInt8s, UInt16s

# The maximum number of cuts of an attribute, and of attributes whose predicates lanes can test:
# both are numbered with 16 bits. One more number is left, above all codes.
CODES = 65_534
ABOVE_ALL = CODES + 1
GATES = 2  # attributes with a common interval for all entries of a bucket; chosen


class Layout(NamedTuple):
    """a attributes, s shelves, r runs (a shelf's entries of one width class), k key sets, b blocks.

    The entries of a key set are sorted by the combination of codes that they are filed under; those
    under one combination are a bucket. The q buckets of all sets are numbered consecutively.
    """

    local: Int32s  # local number of each attribute of the schema, -1 if no rule tests it
    cut_offsets: Int64s  # [a + 1] cuts of an attribute are cut_offsets[i] to cut_offsets[i + 1]
    cuts: Int64s  # keys, ascending within an attribute
    code_start: Int32s  # [a] where the table of an attribute's codes starts; -1: it has none
    code_table: UInt16s  # codes of the keys from one below the first cut (not LOWEST) to the last
    pair_start: Int32s  # [a] where an attribute's shelves start in pair_shelf, -1 if it has none
    pair_shelf: Int32s  # [a for each of these] shelf of the attribute and a second one, -1: none
    run_offsets: Int32s  # [s + 1] runs of a shelf; shelves of one attribute, of none, of two
    key_attribute: Int32s  # [r] the attribute of a run's keys; a if they have none
    span_start: Int32s  # [r] where a run's spans start
    span_shift: UInt8s  # [r] how many codes share a span, as a power of two
    spans: Int32s  # the first block that may have such a code, and the block after the last
    set_attribute: Int32s  # [3 k] the attributes of a key set; a in front if it has fewer
    set_stride: Int64s  # [3 k] of each code in the number of a combination
    table_start: Int32s  # [k + 1] where the table of a key set starts in `table`
    slot_start: Int32s  # [k] where its slots start in slot_combination; -1: a direct table
    slot_shift: UInt8s  # [k] from a hash of 64 bits to a slot
    table: Int32s  # by combination, or by slot: the number of the bucket, -1: none
    slot_combination: Int64s  # by slot, of all hash tables
    bucket_lane: Int32s  # [q + 1] its first lane, counted over all blocks
    gate_attribute: Int32s  # [2 q] attributes that all entries of a bucket test; a: none
    gate: UInt16s  # [4 q] the least and the greatest code that some entry allows, for each of them
    run_bound: Float64s  # [r + k] the greatest bound of the entries of a run, then of a key set
    heads: UInt16s  # [HEAD * b] lows and highs of the keys, and a row of second predicates
    row_offsets: Int32s  # [b + 1] where in rows the other predicates of a block are
    rows: UInt16s
    block_bound: Float64s  # [b] the greatest bound of its entries
    entry_bound: Float64s  # [8 b] sum of its weights: its score if the event's are 1; or infinite
    candidate: Int32s  # [8 b] c, or ~c if predicates are left to accept; 0 in an empty lane
