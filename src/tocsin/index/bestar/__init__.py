"""The BE*-tree: Boolean expressions in many dimensions, and the best of those that match.

After Sadoghi and Jacobsen, Relevance Matters. Two phases take turns. *Partitioning* picks an
attribute that many conjunctions of a leaf test and moves those below a p-node for it: an event
without the attribute never visits them. *Clustering* then groups them by their intervals on that
attribute, in buckets: a left and a right one that never overlap, and in the bucket above them
what spans both, so an event's key goes down at most one side. Where a bucket cannot be split
further, its leaf is partitioned by the next attribute.

The files: `layout` (the arrays); `records` (how records and runs are allocated); `boxes` (the
intervals and sums of a conjunction, and the boxes around many); `summaries` (the greatest weights
below a node); `ranks` (gain and loss); `splitting` (where a bucket is cut); `insertion`; `dividing`
(what happens to a leaf that overflows); `removal`; `packing` (memory is released); `matching`;
`topk`; `tuning` (what is learnt from events); `validation` (what is checked in a store); and
`index`, the class. `tests/index/bestar_invariants.py` checks what must hold after every change.

An event costs, for each of its attributes that has a p-node, a walk down the buckets that its key
meets, with a cache miss each, and about a nanosecond for every member of their leaves: a member is
evaluated only if the event has the rarest attribute that it requires. Those left are evaluated on
the spot, with cache misses of their own; so candidates are proven. The cost grows with the
attributes that an event has and with how many intervals its keys stab, hardly with the attributes
in the schema. `docs/benchmarks-boolean.md` says how long an insertion takes. Bytes: 144 a bucket,
72 a p-node, 8 to 16 a member and 8 a conjunction; about 100 a rule of 8 predicates. With the option
`summary` of "attributes" it is four to six times as much.

The tree changes at the price of the change alone: an insertion goes down one path, a removal up
one. (The first insertion also copies the conjunctions, which others may share; later ones are
appended to that copy.) The tree is for comparison with the paper, for research, and for adaptive
use in one process; no other index is built on it, and `auto` never chooses it.

Steps here are bare (`jit.bare_step`) wherever they allocate nothing: counting references to the
arrays of the tree at every call took a quarter to a third of the time of a million insertions. The
rows of a leaf that is divided are prefetched, which saves another 5 to 10%.

As published by option, and otherwise by default:

* A node's bound for the k best is computed from two numbers, not from one for each attribute, which
  prunes more, but takes longer; see `topk`. (`summary`)
* The gain of a p-node is the number of conjunctions below it, not of predicates that the members of
  leaves have in common; and a bucket that an event does not meet is no loss. See `ranks`. (`gain`)
* The loss of an attribute that is new is 0, not taken from a histogram. The paper has both, and
  finds 0 the better. (`loss`)
* Siblings are separated by one key, not by the average length of events' ranges. (`separation`)

Unlike the paper:

* Lengths and midpoints are those of keys (`model.line`). For floats these are no distances, but
  they keep the order, and nothing more is needed to be right.
* The exhaustive split is linear after sorting; see `splitting`.
* An attribute that fewer than 5 members of a leaf have makes no p-node. Where no other is left, the
  leaf may grow to twice its size before it is tried again (the paper's UpdateClusterCapacity).
* The bottom-up expansion also applies to partitioned buckets that were never split, as in section
  V-A2 and unlike Algorithm 2: one value that is partitioned stays one value.
* An empty side has no bucket; `insertion.choose_side` says where it would begin.
* The overlapping bucket has no box of its own: its members are in the bucket above the two sides,
  and an event that meets that one reads them, though Algorithm 7 tests their own box first.
* Both sides are merged into their parent at once, when all three together fill half a leaf.
* A member carries the rarest attribute that it requires, so that most cost one comparison.
* Bounds are compared with `>=`: Algorithm 6 drops ties, and loops while the wrong heap is filled.
  The k best are the sorted list of `finish`, not a heap: k is small. Buckets are skipped by their
  bounds, too, not only p-nodes and leaves.
* What an attribute costs is remembered for attributes (`Tree.loss_rate`), so that a p-node which
  was recycled is not made again at once; and ranks are learnt in `tune`, never while matching.
"""
