"""What counting looks like in memory: cuts, the levels and lists of all attributes, counters."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.jit import Float64s, Int32s, Int64s

MOST_COUNTED = 0xFFFF  # predicates of a conjunction: what 16 bits of a counter hold


class Layout(NamedTuple):
    """v levels with c cells and p constructs over a attributes, and n conjunctions.

    From `first` to `constructs` these are fields of `Levels`, over ranks, and from `start` to
    `piece_id` those of `IntervalLists`: attribute after attribute, numbered through all of them.
    """

    level: Int64s  # [a + 1] the levels of an attribute are level[i] to level[i + 1]
    cut: Int64s  # [a + 1] its cuts are cut[i] to cut[i + 1]
    cuts: Int64s  # keys, ascending within an attribute
    nullable: Int32s  # [z] attributes that some predicate wants, or allows, to be null
    first: Int64s  # [v]
    last: Int64s  # [v]
    origin: Float64s  # [v]
    scale: Float64s  # [v]
    cells: Int64s  # [v + 1]
    constructs: Int64s  # [v + 1]
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
    needed: Int32s  # [n] predicates that are counted
    candidate: Int32s  # [n] c, or ~c if there is more to it
    always: Int32s  # conjunctions with nothing to count, as they are proposed
