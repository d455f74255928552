"""What entries look like in memory; see the package for why."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.jit import Float64s, Int32s, Int64s, UInt8s, UInt16s

CODES = 65_534  # cuts of an attribute, and attributes whose predicates can be second or later


class Layout(NamedTuple):
    """a attributes, s shelves, r runs (a shelf's entries of one width), b blocks of 8 entries."""

    local: Int32s  # number here of each attribute of the schema, -1 if it is not tested
    cut: Int64s  # [a + 1] cuts of an attribute are cut[i] to cut[i + 1]
    cuts: Int64s
    row: Int32s  # [a] where an attribute's row begins in pair, -1 if it is in no pair
    pair: Int32s  # [rows * a] the shelf of two attributes, the first the row's; -1: none
    run: Int32s  # [s + 1] runs of a shelf: those of one attribute, of none, of two
    under: Int32s  # [r] the attribute of a run's keys; a if they have none
    span: Int32s  # [r] where a run's begin in spans
    shift: UInt8s  # [r] codes that a span stands for, as a power of two
    spans: Int32s  # first block that may have such a code, and the block after the last
    heaviest: Float64s  # [r] the greatest of its bounds
    heads: UInt16s  # [HEAD * b] lows and highs of the keys, and the second predicates: one row
    start: Int32s  # [b + 1] where in rows a block's further predicates are
    rows: UInt16s
    peak: Float64s  # [b] the greatest of its bounds
    most: Float64s  # [8 b] the sum of its weights, its score if the event's are 1; or infinite
    candidate: Int32s  # [8 b] c, or ~c if predicates are left to accept; 0 where there is none
