"""What intervals look like in memory: levels, and lists over their cells and constructs."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.jit import Float64s, Int32s, Int64s, UInt8s


class Layout(NamedTuple):
    """v levels with c cells and p constructs in all, over n conjunctions.

    From `floats` to `per_cell` these are the fields of `Levels`, and from `start` on those of
    `IntervalLists`. An id is c of a conjunction, or ~c where it is not proven.
    """

    attribute: Int32s  # [1] -1: none
    proven: UInt8s  # [1] whether all candidates are
    floats: UInt8s  # [1]
    first: Int64s  # [v]
    last: Int64s  # [v]
    origin: Float64s  # [v]
    scale: Float64s  # [v]
    cells: Int64s  # [v + 1]
    constructs: Int64s  # [v + 1]
    longest: Int64s  # [v] L
    per_cell: Int64s  # [v]
    skip: Int64s  # [v, greatest L] of the constructs d cells back, how many are too short to cover
    start: Int32s  # [c + 1]
    start_id: Int32s
    start_key: Int64s
    end: Int32s  # [c + 1]
    end_id: Int32s
    end_key: Int64s
    inside: Int32s  # [c + 1]
    inside_id: Int32s
    inside_low: Int64s
    inside_high: Int64s
    piece: Int64s  # [p + 1]
    piece_id: Int32s
