"""What rectangles look like in memory: a lattice, a cover, and the lists of constructs."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.jit import Float64s, Int32s, Int64s, UInt8s


class Layout(NamedTuple):
    """p possible or activated constructs on a lattice, each with a list.

    From `first` to `published` these are the fields of `Lattice`, and from `cover` to `run_size`
    those of `CoverRuns`.
    """

    attribute: Int32s  # [2] -1: none
    floats: UInt8s  # [2] whether keys are those of floats
    proven: UInt8s  # [1] whether all candidates are
    overlapped: UInt8s  # [1] whether pieces of a box overlap
    first: Int64s  # [2]
    last: Int64s  # [2]
    origin: Float64s  # [2]
    scale: Float64s  # [2]
    cells: Int64s  # [2]
    whole: UInt8s  # [2]
    published: UInt8s  # [1]
    longest: Int64s  # [2] Lx and Ly
    cover: Int64s  # [5]
    run_x: Int64s  # [r]
    run_y: Int64s
    run_first: Int64s
    run_size: Int64s
    hashed: Int64s  # [h] numbers of activated constructs, -1 where free; [0] if direct
    list_of: Int32s  # [h] which list is theirs
    start: Int32s  # [p + 1] where lists begin, by number or by `list_of`
    ids: Int32s  # c of a conjunction, ~c where it is not proven
