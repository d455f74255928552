"""What cells look like in memory; see the package for why."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.jit import Float64s, Int32s, Int64s, UInt8s, UInt64s

# The top bit of a lane says on which side of a bound an event is; the 15 others hold a distance
# from 0 to 2**BITS. So 14 is the most that fits.
BITS = 14
CODES = 1 << BITS  # codes in a cell, on each axis

# The head of a cell: four numbers. Its full list and its partial list are adjacent in `ids`. Cells
# are stored one after the other; once they change in place they lie anywhere (see `rooms`).
FULL = 0  # where its full list begins in `ids`
PARTIAL = 1  # where its partial list begins, and its full list ends
WORDS = 2  # where the words of its partial list begin in `words`
END = 3  # where its partial list ends; ~node if it has that child instead
HEAD = 4  # numbers in a head

HEAD_BYTES = 4 * HEAD
NODE_BYTES = 104
ID_BYTES = 4
ENTRY_BYTES = ID_BYTES + 8  # in a partial list, with the word


class Nodes(NamedTuple):
    """How n nodes map keys to codes; two axes each, so index 2 * node + axis."""

    low_key: Int64s  # [2 n] the lowest key of the domain
    high_key: Int64s  # [2 n] the highest
    origin: Float64s  # [2 n] code = (value - origin) * scale
    scale: Float64s  # [2 n] 0 where the domain is one cell
    across: Int64s  # [2 n] number of cells
    gap: Int64s  # [2 n] codes from an integer to the next; 0 for floats, or if integers share codes
    first_cell: Int64s  # [n] cell (x, y) is number first_cell + x * across_y + y


class Cells(NamedTuple):
    """n nodes with c cells."""

    attribute: Int32s  # [2] the attributes of the axes, -1 for none
    floats: UInt8s  # [2] whether an axis has the keys of floats
    proven: UInt8s  # [1] whether every box is all that its conjunction says
    roots: Int64s  # [1] the first so many nodes are roots, the others children
    splitting: Int64s  # [3] for insertion into the tree: the options of `ntree`; 0 for the grid
    low_key: Int64s  # from here on as in `Nodes`
    high_key: Int64s
    origin: Float64s
    scale: Float64s
    across: Int64s
    gap: Int64s
    first_cell: Int64s
    heads: Int32s  # [HEAD c]
    ids: Int32s  # c of a conjunction, ~c if its box does not prove it
    words: UInt64s  # the bounds of the boxes in partial lists

    @property
    def nodes(self) -> Nodes:
        """The fields that say how nodes map keys to codes."""
        return Nodes(**{name: getattr(self, name) for name in Nodes._fields})
