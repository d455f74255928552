"""The BE*-tree: Boolean expressions in many dimensions, and the best of those that match.

After Sadoghi and Jacobsen, Relevance Matters. Two phases take turns. *Partitioning* picks an
attribute that many conjunctions of a leaf test and moves those below a p-node for it: an event
without the attribute never goes there. *Clustering* then groups them by their intervals on that
attribute, in buckets: a left and a right one that never overlap, and in the bucket above them
what spans both, so an event's key goes down at most one side. Where a bucket cannot be split
further, its leaf is partitioned by the next attribute.

The files: `layout` (what is in memory), `records` (records and runs), `boxes` (what a conjunction
is to the tree), `splitting` (where a bucket is cut), `insertion`, `dividing` (what overflows),
`removal`, `matching`, `topk`, `tuning` (ranks from events), `packing` (memory given back),
`invariants` (what must always be true), `validation` (what of it is looked at in a store), and
`index`, which puts them behind the protocol.

An event costs, for each of its attributes that has a p-node, a walk down the buckets that its key
meets, a cache miss each, and about a nanosecond for every member of their leaves, since a member is
looked at only if the event has the rarest attribute that it needs. Of those left each is evaluated
on the spot, with cache misses of its own; so candidates are proven. It grows with the attributes
that an event has and with how many intervals its keys stab, hardly with the attributes in the
schema. What an insertion takes is in `docs/benchmarks-boolean.md`. Bytes: 144 a bucket, 72 a
p-node, 8 to 16 a member and 8 a conjunction; about 100 a rule of 8 predicates.

Its tree changes at the price of the change alone: an insertion goes down one path, a removal up
one. (The conjunctions themselves are copied once for a batch of insertions.) It is for the record,
for research and for adaptive use in one process; no other index is built on it, and `auto` never
chooses it.

Unlike the paper:

* Lengths and middles are those of keys (`model.encoding`). For floats these are no distances, but
  they keep the order, and nothing more is needed to be right.
* The exhaustive split is linear after sorting; see `splitting`.
* An attribute that fewer than 5 members of a leaf have makes no p-node; where no other is left, the
  leaf may grow, to twice its size before it is tried again (the paper's UpdateClusterCapacity).
* The bottom-up expansion is for partitioned buckets that were never split, too, as section V-A2
  has it and Algorithm 2 has not: one value that is partitioned stays one value.
* A side that is empty costs no bucket; `insertion.side_for` says where it would begin.
* A member carries the rarest attribute that it needs, so that most cost one comparison.
* A node's bound for the k best comes of two numbers, not of one for each attribute; see `topk`.
  With `>=`: Algorithm 6 drops ties, and loops while the wrong heap is filled. The k best are the
  sorted list of `finish`, not a heap: k is small.
* What an attribute was seen to cost is remembered for attributes (`Tree.rate`), so that a p-node
  which was recycled is not made again at once; and ranks are learnt when `tune` is asked, never
  while matching.
"""
