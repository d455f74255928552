"""The arrays of the velocity constrained index: the tree, the table of positions, and a trace."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.jit import Float64Out, Int32Out, Int64Out, Int64s, UInt8Out

# Places in `Tree.shape`; the first nodes of the levels follow, from the leaves up, and their end.
CAPACITY, LEVELS, PUBLISHED, FIRST = range(4)
# Places in `Objects.head`.
LISTED, TOO_FAST, STRAYED, LATE = range(4)
# Places in the counts of a search; the nodes visited follow, by level, from the leaves up.
CHECKED, CERTAIN, SCANNED, VISITED = range(4)

LARGEST = 1.7976931348623157e308  # of the floats


class Tree(NamedTuple):
    """A packed R-tree over n entries, with nodes in levels: leaves first, the root last.

    Node i of a level has the children c * i to c * i + c of the level below, those of a leaf are
    entries. All arrays but `shape` are written to by a refresh.
    """

    shape: Int64s  # [FIRST + levels + 1]
    x: Float64Out  # [n] positions when they were indexed
    y: Float64Out  # [n]
    v: Float64Out  # [n] v_max of the object, or that of its leaf (PUBLISHED)
    row: Int32Out  # [n] in the table; ~row for objects that are in the list, or removed
    low_x: Float64Out  # [nodes] boxes of these positions
    low_y: Float64Out  # [nodes]
    high_x: Float64Out  # [nodes]
    high_y: Float64Out  # [nodes]
    v_max: Float64Out  # [nodes] the largest one below, or below the parent (PUBLISHED)
    since: Float64Out  # [nodes] the earliest time of the positions below


class Objects(NamedTuple):
    """The table: what is known of the object in each row. All arrays are written to."""

    x: Float64Out  # [rows] current positions; NaN if not known
    y: Float64Out  # [rows]
    seen: Float64Out  # [rows] the time of the last report
    v_max: Float64Out  # [rows] NaN if not known
    entry: Int32Out  # [rows] the object's own in the tree, even while it is in the list; -1 if none
    place: Int32Out  # [rows] in the list; -1 if it is not there
    listed: Int32Out  # [rows] the rows that are in the list, as many as `head` says
    head: Int64Out  # [4] the length of the list, and counters


class Trace(NamedTuple):
    """What a search touches; arrays of no length if nobody asks."""

    node: UInt8Out  # [nodes] 1 if it was visited
    object: UInt8Out  # [rows] 1 if its position was looked up
    page: UInt8Out  # [pages] 1 if a position in it was looked up
