"""Keyed: conjunctions under one predicate each, or under a few points, as most rules have them.

The BE*-tree (`bestar`) in flat form. It keeps the tree's two ideas. An expression is stored under
*one* of its predicates, so an event looks only at what is stored under the attributes that it has;
and there only at narrow buckets, not at the whole dimension. What the tree grows node by node is
a sort here: by attribute, by the width of the range in powers of four, by its low end. A bucket is
then a stretch of one array. There are no pointers and no insertions: the engine handles changes.

*Codes.* The bounds of all predicates on an attribute cut its key line into pieces; the code of a
value is the number of cuts up to it. Whether a predicate holds depends on the code alone, so a
predicate is a pair of codes, 16 bits each. An absent value has code 0, as null has. Where an
attribute has more than 65,534 cuts some are left out; a predicate whose own bounds are not cuts is
left to accept.

*The key* of a conjunction is its most selective predicate, the one that the fewest events should
satisfy: a rare attribute, a narrow range. How often events have an attribute is estimated from how
often rules test it; how often a value is in a range, from the share of the codes in it. Of
predicates that are about as selective, the one on the rarest attribute is chosen, so that rules
over the same attributes lie together. Of an IN-set of at most 8 values each is a key, with an
*entry* of its own; an event finds one of them. A predicate that null satisfies is no key. A
conjunction without a key is stored under no attribute, and every event looks at it.

*Shelves.* Entries are on the shelf of their key's attribute. Where a shelf is so crowded that a
value satisfies too many keys in vain, entries with the same *second* attribute, that of the next
most selective predicate, have a shelf of two attributes; only events that have both look there.
(The tree's next level.) It is found in a table of attributes by attributes, which has a part only
for attributes with at least as many such entries as there are attributes.

*Key sets.* Rules of people are mostly equality and short lists over columns with few values. A
predicate that few codes satisfy is a *point predicate*: `=`, IN, IS NULL, a flag, also a narrow
range; never NOT IN. A conjunction may be filed under a *key set*, one to three attributes on which
it has point predicates, instead of under one predicate: with an entry for each combination of their
codes, at most 96, and fewer if there are many rules. An event has one combination in each set. Its
number, the codes as digits of mixed radix, is looked up in a table (of all combinations while these
are few, otherwise a hash table), which gives a *bucket* of entries. There are at most 16 sets,
chosen greedily by what they save (`key_sets`), so rules of thousands of signatures cost an event a
few probes. The entries of a bucket are sorted by their second predicate. Up to two attributes that
all of them test are the bucket's *gates*: an event outside of the interval that the entries span
there looks no further.

*Ranges.* The range of an event is two codes, of its low and of its high end; a predicate passes if
the two ranges meet. In a key set, all combinations in the ranges are looked up, or, if the table
has fewer, all of these. A range may find several entries of a conjunction, so its candidates are
sorted, and each is written once.

In memory: entries lie in *blocks* of eight, predicate beside predicate, so that one predicate of
all eight is tested at once and without a branch (`lanes`). The head of a block has the keys and the
second predicates, 80 bytes. The other predicates, the most selective first, lie in rows elsewhere:
48 bytes for eight, and as many rows as the longest of the eight needs. Besides there are 12 bytes
an entry for its number and the sum of its weights. The entries of a shelf and width class are a
*run*; a table gives by code the *span* of blocks in the run that may have it: at most 4 spans of 8
bytes for a block. Buckets lie one after the other, without gaps. A lane of theirs has 16 bits of
the bucket's number as its key, which tells it from its neighbours.

Columns of events are coded for 256 events at once: by a table where the values that rules mention
lie close together, such as categories, and otherwise by a bisection. Sparse values cost a bisection
each, all of an event in step. Then an event costs two reads for each run under its attributes and
for each key set; about 6 nanoseconds for each block in their spans; and 5 for each further row of
the blocks in which a lane is left. What is read far apart (spans, tables, heads, rows) is
prefetched: over ten million rules an event reads memory a few hundred times where no cache has it.

*Top-k* (section VI): entries carry the sum of their weights as a bound, blocks and runs the
greatest of these. An event takes its runs in the order of their bounds (a heap), stops when the
k-th best so far is better than any bound left (the paper's pruning of nodes), and skips blocks and
entries whose own bound is lower (its pruning of leaves). Bounds are exact if an event's weights are
all 1; otherwise they are multiplied by the greatest of them.

When it is slow: wide ranges that all overlap and share their attributes; a span then has most of
the blocks. For boxes over two attributes use `grid`.

The files: `layout` (the arrays); `lanes` (eight at once); `building`, which calls `coding` (cuts
and codes), `key_sets`, `entries` (keys), `shelves` (shelves and runs), `buckets` (of key sets) and
`blocks` (lanes and spans) in this order; `event_codes`, `spans` (where an event looks), `matching`
and `topk`; `estimate` (of costs); `validation` (what is checked in a store); `index`, the class.
"""
