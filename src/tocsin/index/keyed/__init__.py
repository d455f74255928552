"""Keyed: each conjunction filed under one predicate, for rules that test a few of many attributes.

The BE*-tree (`bestar`) in flat form. Its two ideas are kept: an expression is filed under *one*
of its predicates, so an event looks only at what is filed under the attributes that it has; and
among these only at narrow buckets, not at the whole dimension. What the tree grows node by node is
here a sort: by attribute, by the width of the range in powers of four, by its low end. A bucket is
then a stretch of one array, found by bisection. Nothing points anywhere, and nothing can be
inserted: change lives in the engine.

*Codes.* The bounds of all predicates on an attribute cut its line into pieces; a value's code is
the number of cuts up to it. Whether a predicate holds depends on the code alone, so predicates are
pairs of codes, 16 bits each. An absent value has code 0, as null has. Where an attribute has more
than 65,534 cuts some are left out; a predicate whose own bounds are not cuts is left to accept.

*The key* of a conjunction is the predicate that the fewest events should satisfy: rare attributes
and narrow ranges. How often an attribute is present is guessed from how often rules test it; how
often a value is in a range from the share of the codes that the range has. Of an IN-set of at most
8 values each is a key, with an entry of its own; an event finds one of them. What must be null, or
may be, is no key; a conjunction without a key is filed under no attribute, and looked at by every
event.

*Ranges.* An event's range is two codes, of its low and of its high end; a predicate passes if they
meet. A range may find several values of one set: its candidates are sorted, and written once.

In memory: an entry has its key's two codes, the *second* most telling predicate (attribute and two
codes), the sum of its weights, its id and where its other predicates begin: 26 bytes, in arrays of
their own; then 6 bytes for each other predicate, in the order of the entries, the most telling
first. An event costs a bisection for each value that it has, one for each width under that
attribute, about 1.5 nanoseconds for each entry in the stretch (both predicates are compared
without a branch), and only for those that pass, the rest of their predicates.

*Top-k* (section VI): entries carry the sum of their weights, stretches the greatest of these. An
event goes through its stretches in the order of these bounds, stops when the k-th best so far is
better than any left (the paper's pruning of nodes), and passes over entries whose own bound is
lower (its pruning of leaves), in the same comparison as the two predicates. Bounds are exact if
events have no weights of their own; else they are multiplied with the event's greatest.

When it is slow: wide ranges that all overlap and share their attributes. The stretch is then long,
though what passes the second predicate is less. For boxes over two attributes use `grid`.

The files: `layout` (what lies where), `building` (codes, keys, the sort), `matching`, `topk`, and
`index`, which puts them behind the protocol.
"""
