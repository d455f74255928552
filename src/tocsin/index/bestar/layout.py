"""What the tree looks like in memory: records and runs in flat arrays, with lists of free ones.

A *bucket* is a record of 16 words, two cache lines: the first is what an event reads, the second
what changes need. In the paper a bucket has a c-directory node (left, overlapping and right
bucket), a c-node and an l-node; since each has exactly one of the others, they are one record
here. Its own leaf holds all its conjunctions while it is a leaf bucket; once it is split, the
overlapping ones. Bucket 0 is the root, which belongs to no p-node.

A *p-node* is a record of 8 words. The members of a leaf and the entries of a p-directory lie in
*runs*, 2**k entries long, of two arrays side by side: what the entry is, and the attribute that
an event must have for it to matter.
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
PARENT = 8  # the bucket above; of a bucket that is free the next free one
NODE = 9  # the p-node whose c-directory it is in; -1 for the root, FREE if free
CUT = 10  # where it was split; NULL: it is a leaf bucket
CAPACITY = 11  # members beyond which it overflows
LEAF_CLASS, DIRECTORY_CLASS = 12, 13  # the lengths of its runs, as powers of two
BOX = 14  # where its inactive dimensions start, -1 if it has none
NEXT = 15  # the next bucket to be looked after, -1 if none, IDLE if it is not in that list

# The words of a p-node.
PNODE = 8
ATTRIBUTE = 0
ROOT = 1  # the top bucket of its c-directory
ABOVE = 2  # the bucket whose directory it is in; -1 if free; of a free p-node see CHAIN
COUNT = 3  # conjunctions below
LEVEL = 4  # how many attributes the path to its buckets tests, its own included
SPACE_LOW, SPACE_HIGH = 5, 6  # what is halved, if the tree is rigid
CHAIN = 7  # of a free p-node the next free one

FREE, IDLE = -2, -2

# The words of `state`.
BUCKETS, PNODES, ENTRIES, BOXES = 0, 1, 2, 3  # how much of the arrays is in use, or was
NEED = 4  # four words: how long the arrays must be to go on
FREE_BUCKET, FREE_PNODE = 8, 9  # the first free record
TODO = 10  # the first bucket to be looked after
LONGEST = 11  # the most members that a leaf has had
MEMBERS = 12  # conjunctions in the tree
PEAK = 13  # the most that there were since the tree was packed
STATE = 14

CLASSES = 32
SMALLEST = 2  # the shortest run has 2**2 entries

# The options.
LEAF_CAPACITY, ALPHA, BETA, EXHAUSTIVE, RIGID = 0, 1, 2, 3, 4
OPTIONS = 5


class Tree(NamedTuple):
    """b buckets, p p-nodes, e entries of runs, n conjunctions, a attributes; all are written to."""

    bucket: Int64Out  # [16 b]
    most: Float64Out  # [2 b] the greatest sums of a conjunction below, -1 if none; see `sums_of`
    pnode: Int64Out  # [8 p]
    loss: Float64Out  # [p] predicate evaluations in vain below, per event
    target: Int32Out  # [e] a conjunction in a leaf, a p-node in a directory
    need: Int32Out  # [e] 1 + the attribute that an event must have, 0 if there is none
    box: Int64Out  # inactive dimensions: low and high of each attribute of the path but the last
    home: Int32Out  # [n] the bucket in whose leaf a conjunction is, -1 if it was removed
    place: Int32Out  # [n] where in that leaf
    plain: UInt8Out  # [n] whether it has nothing but intervals
    popularity: Int64Out  # [a] conjunctions that could be filed under an attribute
    rate: Float64Out  # [a] evaluations in vain per event and conjunction filed under it
    usual: Float64Out  # [a] what rules usually weigh it, 0 if none has tested it
    tolerant: UInt8Out  # [a] whether some predicate on it that scores holds for null
    space: Int64Out  # [2 a] the lowest and the highest bound on each attribute
    free: Int64Out  # [64] the first free run of each length, then the first free box
    state: Int64Out
    options: Float64Out


# ------------------------------------------------------------ what a conjunction is
