"""The arrays of a tree: records and runs, with lists of free ones.

A *bucket* is a record of 16 words, two cache lines: an event reads the first, changes need the
second. In the paper a bucket has a c-directory node (left, overlapping and right bucket), a c-node
and an l-node; since each has exactly one of the others, they are one record here. Its own leaf
holds all its conjunctions while it is a leaf bucket; once it is split, the overlapping ones, which
have no box of their own. Bucket 0 is the root, which belongs to no p-node.

A *p-node* is a record of 8 words. The members of a leaf and the entries of a p-directory lie in
*runs* of 2**k entries, in two arrays side by side: what the entry is, and the attribute that an
event must have for it to matter.

A bucket is *pending* while it is in the list of those that may overflow, or may have shrunk.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.jit import Float64Out, Int32Out, Int64Out, UInt8Out

# The words of a bucket.
BUCKET = 16
LOW, HIGH = 0, 1  # the interval around all that is below, on the active dimension
LEFT, RIGHT = 2, 3  # buckets, -1 where there is none
LEAF, SIZE = 4, 5  # where the run of its members starts (-1: none), and how many there are
DIRECTORY, NODES = 6, 7  # the same of its p-nodes, ordered by attribute
PARENT = 8  # the bucket above; of a free bucket the next free one
NODE = 9  # the p-node whose c-directory it is in; -1 for the root, FREE if free
CUT = 10  # where it was split; NULL if it is a leaf bucket
CAPACITY = 11  # members beyond which it overflows
LEAF_CLASS, DIRECTORY_CLASS = 12, 13  # the lengths of its runs, as powers of two
BOX = 14  # where its inactive dimensions start, -1 if it has none
NEXT_PENDING = 15  # the next pending bucket, -1 if none, NOT_PENDING if it is not in that list

# The words of a p-node.
PNODE = 8
ATTRIBUTE = 0
ROOT = 1  # the top bucket of its c-directory
ABOVE = 2  # the bucket whose directory it is in; -1 if it is free
COUNT = 3  # conjunctions below
LEVEL = 4  # how many attributes the path to its buckets tests, its own included
SPACE_LOW, SPACE_HIGH = 5, 6  # the interval that is halved, if the tree is rigid
NEXT_FREE = 7  # of a free p-node the next free one

FREE, NOT_PENDING = -2, -2

# The words of a bucket's summaries (see `summaries`): the start (-1 if it is empty) and the size.
SUMMARY = 4
BELOW, BELOW_SIZE = 0, 1  # of all that is below; empty if there is nothing but the leaf
OWN, OWN_SIZE = 2, 3  # of its own leaf

# The words of `state`.
BUCKETS, PNODES, ENTRIES, BOXES, SUMMARIES = 0, 1, 2, 3, 4  # how much of arrays is in use, or was
NEEDED = 5  # five words: how long the arrays must be to go on
FREE_BUCKET, FREE_PNODE = 10, 11  # the first free record
PENDING = 12  # the first pending bucket
LONGEST_LEAF = 13  # the most members that a leaf has had
MEMBERS = 14  # conjunctions in the tree
MOST_MEMBERS = 15  # the most that there were since the tree was packed
RAISED, RAISING = 16, 17  # a conjunction inserted, and the bucket whose summary it raises next
STATE = 18

USUAL_SCALE = 2.0**30  # what usual weights are multiplied by; see `update_statistics`

CLASSES = 32  # lengths of runs: 2**0 to 2**31
SMALLEST_CLASS = 2  # the shortest run of entries has 2**2, a quarter of a cache line; chosen

# The options.
LEAF_CAPACITY, ALPHA, BETA, EXHAUSTIVE, RIGID, ATTRIBUTE_SUMMARIES = 0, 1, 2, 3, 4, 5
COMMON_PREDICATES, HISTOGRAM, SEPARATION = 6, 7, 8
OPTIONS = 9


class Tree(NamedTuple):
    """b buckets, p p-nodes, e entries of runs, n conjunctions, a attributes; all are written to."""

    bucket: Int64Out  # [16 b]
    max_sums: Float64Out  # [2 b] the greatest `score_sums` of a conjunction below, -1 if none
    pnode: Int64Out  # [8 p]
    loss: Float64Out  # [p] predicates evaluated in vain below, per event
    leaf_gain: Float64Out  # [b] the gain of its leaf (see `ranks`); [0] if conjunctions are counted
    gain: Float64Out  # [p] the sum of all below; likewise
    target: Int32Out  # [e] a conjunction in a leaf, a p-node in a directory
    required: Int32Out  # [e] 1 + the attribute that an event must have, 0 if there is none
    box: Int64Out  # inactive dimensions: low and high of each attribute of the path but the last
    home: Int32Out  # [n] the bucket in whose leaf a conjunction is, -1 if it was removed
    place: Int32Out  # [n] where in that leaf
    only_intervals: UInt8Out  # [n] whether it has no other predicates
    popularity: Int64Out  # [a] conjunctions that could be below a p-node for the attribute
    loss_rate: Float64Out  # [a] loss of all its p-nodes, per conjunction below them
    extension: Float64Out  # [a] the average length of events' ranges, as keys; see `tuning`
    usual_weight: Float64Out  # [a] see `update_statistics`; 0 if no rule has tested it
    scored_when_null: UInt8Out  # [a] whether some predicate on it that scores holds for null
    space: Int64Out  # [2 a] the lowest and the highest bound on each attribute
    summary: Int64Out  # [4 b], or [0] if `summary` is not "attributes"; likewise the next two
    summary_attribute: Int32Out  # the runs of all summaries
    summary_weight: Float64Out
    free: Int64Out  # [96] the first free run of each length; then boxes; then summaries
    state: Int64Out
    options: Float64Out
