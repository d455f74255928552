"""Keyed: each conjunction is filed under one predicate, or under a combination of a few points.

The BE*-tree (`bestar`) in flat form. It keeps the tree's two ideas. An expression is stored under
*one* of its predicates, so an event looks only at what is stored under the attributes that it has;
and there only at narrow buckets, not at the whole dimension. Where the tree grows node by node,
entries are sorted here: by attribute, by the width of the range in powers of four, and by its low
end. A bucket is then a slice of one array. There are no pointers and no insertions: the engine
handles changes.

*Codes.* The bounds of all predicates on an attribute cut its key line into pieces; the code of a
value is the number of cuts up to it. Whether a predicate holds depends on the code alone, so a
predicate is a pair of codes, 16 bits each. An absent value has code 0, like null. If an attribute
has more than 65,534 cuts, some are left out; a predicate whose own bounds are not cuts is then
evaluated by accept.

*The key* of a conjunction is its most selective predicate, the one that the fewest events should
satisfy: a rare attribute, a narrow range. How often events have an attribute is estimated from how
often rules test it; how often a value is in a range, from the share of the codes in the range.
Among predicates of similar selectivity, the one on the rarest attribute is chosen, so that rules
over the same attributes are stored together. If the key is an IN-set of at most 8 values, each
value is a key with its own *entry*, and an event finds one of them. A predicate that null satisfies
cannot be a key. A conjunction without a key is stored under no attribute, and every event looks at
it.

*Shelves.* The entries under one attribute are a shelf. If a shelf is so crowded that events satisfy
many keys without matching, entries with the same *second* attribute, that of the next most
selective predicate, get a shelf of two attributes, and only events that have both look there. (This
is the next level of the tree.) Shelves of two attributes are found in a table of attribute pairs.
An attribute has a row in it only if it has at least as many such entries as there are attributes.

*Key sets.* Rules that people write are mostly equality and short lists over columns with few
values. A predicate that few codes satisfy is a *point predicate*: `=`, IN, IS NULL, a flag, or a
narrow range, but never NOT IN. A conjunction may be filed under a *key set*, one to three
attributes on which it has point predicates, instead of under one predicate: with an entry for each
combination of their codes, at most 96, and fewer if there are many rules. An event has one
combination in each set. Its number, the codes as digits of mixed radix, is looked up in a table (of
all combinations while these are few, otherwise a hash table), which gives a *bucket* of entries.
There are at most 16 sets, chosen greedily by how much they save (`key_sets`), so an event needs
only a few probes even if rules have thousands of signatures. The entries of a bucket are sorted by
their second predicate. Up to two attributes that all of them test are the bucket's *gates*: if an
event's value is outside the interval around these tests, the event skips the bucket.

*Ranges.* The range of an event is two codes, those of its low and its high end; a predicate passes
if the two ranges overlap. In a key set, all combinations in the ranges are looked up, or all
combinations in the table if these are fewer. A range may find several entries of a conjunction, so
its candidates are sorted and duplicates are dropped.

In memory: entries are in *blocks* of eight, predicate next to predicate, so that one predicate of
all eight is tested at once and without a branch (`lanes`). The head of a block has the keys and the
second predicates, 80 bytes. The other predicates, the most selective first, are in rows elsewhere:
48 bytes for eight, and as many rows as the longest of the eight needs. Each entry takes another 12
bytes for its number and the sum of its weights. The entries of one shelf and width class are a
*run*. A table maps a code to the *span* of blocks in the run that may contain it: at most 4 spans
of 8 bytes per block. Buckets are stored one after the other, without gaps. A lane of a bucket has
16 bits of the bucket's number as its key, which distinguishes it from its neighbours.

Columns of events are coded for 256 events at once: by a table if the values that rules mention are
close together, as with categories, and otherwise by bisection. Sparse values cost a bisection each;
the bisections of one event advance in step. Then an event costs two reads for each run under its
attributes and for each key set; about 6 nanoseconds for each block in their spans; and 5 for each
further row of the blocks in which a lane is left. Scattered reads (spans, tables, heads, rows) are
prefetched: with ten million rules, an event reads memory that is in no cache a few hundred times.

*Top-k* (section VI): entries carry the sum of their weights as a bound, blocks and runs the
greatest of these. An event takes its runs in the order of their bounds (a heap), stops when the
k-th best so far is better than any bound left (the paper's pruning of nodes), and skips blocks and
entries whose own bound is lower (its pruning of leaves). Bounds are exact if all weights of an
event are 1; otherwise they are multiplied by the greatest of its weights.

When it is slow: with wide ranges that all overlap and test the same attributes; a span then
contains most of the blocks. For boxes over two attributes, use `grid`.

The files: `layout` (the arrays); `lanes` (eight at once); `building`, which calls `coding` (cuts
and codes), `key_sets`, `entries` (keys), `shelves` (shelves and runs), `buckets` (of key sets) and
`blocks` (lanes and spans) in this order; `event_codes`, `spans` (where an event looks), `matching`
and `topk`; `estimate` (of costs); `validation` (what is checked in a store); `index`, the class.
"""
