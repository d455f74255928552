"""What entries look like in memory; see the package for why."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.jit import Float64s, Int32s, Int64s, UInt16s

CODES = 65_534  # cuts of an attribute, and attributes whose predicates can be second or later


class Layout(NamedTuple):
    """a attributes, r runs (an attribute's entries of one width), e entries."""

    local: Int32s  # number here of each attribute of the schema, -1 if it is not tested
    cut: Int64s  # [a + 1] cuts of an attribute are cut[i] to cut[i + 1]
    cuts: Int64s
    run: Int32s  # [a + 2] runs of an attribute; the last is of those without a key
    begin: Int32s  # [r + 1] entries of a run
    width: Int32s  # [r] codes from the low to the high end of its widest range
    heaviest: Float64s  # [r] the greatest of its bounds
    low: UInt16s  # [e] the key
    high: UInt16s
    second: UInt16s  # [e] attribute of the second predicate
    second_low: UInt16s
    second_high: UInt16s
    most: Float64s  # [e] the sum of its weights: its score for an event whose weights are 1
    candidate: Int32s  # [e] c, or ~c if predicates are left to accept
    start: Int32s  # [e + 1] where in rows its further predicates are
    rows: UInt16s  # attribute, low, high of each
