"""Keyed: each conjunction filed under one predicate, for rules that test a few of many attributes.

The BE*-tree (`bestar`) in flat form. Its two ideas are kept: an expression is filed under *one*
of its predicates, so an event looks only at what is filed under the attributes that it has; and
among these only at narrow buckets, not at the whole dimension. What the tree grows node by node is
here a sort: by attribute, by the width of the range in powers of four, by its low end. A bucket is
then a stretch of one array. Nothing points anywhere, and nothing can be inserted: change lives in
the engine.

*Codes.* The bounds of all predicates on an attribute cut its line into pieces; a value's code is
the number of cuts up to it. Whether a predicate holds depends on the code alone, so predicates are
pairs of codes, 16 bits each. An absent value has code 0, as null has. Where an attribute has more
than 65,534 cuts some are left out; a predicate whose own bounds are not cuts is left to accept.

*The key* of a conjunction is the predicate that the fewest events should satisfy: rare attributes
and narrow ranges. How often an attribute is present is guessed from how often rules test it; how
often a value is in a range from the share of the codes that the range has. Of predicates that are
about as telling the one on the rarest attribute is taken, so that rules over the same attributes
lie together. Of an IN-set of at most 8 values each is a key, with an entry of its own; an event
finds one of them. What must be null, or may be, is no key; a conjunction without a key is filed
under no attribute, and looked at by every event.

*Shelves.* Entries are filed under their key's attribute. Where so many are that a value satisfies
too many keys in vain, those that have the *second* most telling predicate on the same attribute
have a shelf of their own, the shelf of two attributes, where only events come that have both. (The
tree's next level.) It is found in a table of attributes by attributes, which is made for attributes
that have at least as many such entries as there are attributes.

*Ranges.* An event's range is two codes, of its low and of its high end; a predicate passes if they
meet. A range may find several values of one set: its candidates are sorted, and written once.

In memory: entries lie in *blocks* of eight, predicate beside predicate, so that a predicate of all
eight is tested at once and without a branch (`lanes`). The head of a block has the keys and the
second predicates, 80 bytes; the other predicates, the most telling first, lie elsewhere, 48 bytes
for eight, as many as the longest of the eight has. Then there are 12 bytes an entry for its number
and the sum of its weights. Of each run (a shelf's entries of one width) a table tells by code which
of its blocks can have it: at most 4 spans of 8 bytes for a block.

An event costs a bisection for each value that it has, all in step; two reads for each run under its
attributes; about 6 nanoseconds for each block in their stretches; and 5 for each further row of the
blocks where some lane is left. What is read far apart (spans, heads, rows) is asked for in
advance: over ten million rules an event is a few hundred reads of memory that no cache has.

*Top-k* (section VI): entries carry the sum of their weights, blocks and runs the greatest of these.
An event goes through its runs in the order of these bounds (a heap), stops when the k-th best so
far is better than any left (the paper's pruning of nodes), and passes over blocks and entries whose
own bound is lower (its pruning of leaves). Bounds are exact if an event's weights
are all 1; else they are multiplied with the greatest of them.

When it is slow: wide ranges that all overlap and share their attributes; the stretch is then most
of what there is. For boxes over two attributes use `grid`.

The files: `layout` (what lies where), `lanes` (eight at once), `building` (codes, keys, shelves,
the sort), `matching`, `topk`, `validation` (what is looked at in a store), and `index`, which puts
them behind the protocol.
"""
