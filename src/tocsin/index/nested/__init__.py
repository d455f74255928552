"""Nested: match rules that no other rule covers, and descend to those that they cover.

In memory: groups of boxes, the bounds of conjunctions over up to sixteen attributes. The first
group has the boxes that nothing contains, the *roots*; then there is a group for each root, of all
boxes inside it. Bounds are stored by group, then by attribute, so that a group is compared
attribute by attribute. Bytes: 16 per attribute and 4, for each conjunction.

An event looks at all roots, and at the boxes below each root that holds: about a nanosecond for
each attribute that it is compared by. The attribute whose bounds are narrowest comes first, so most
boxes are compared by that one only.

Boxes are put below others largest first, by the ranks of their bounds, so what contains a box is
there before it. A box looks at a bounded number of roots, to bound the time to build; if there are
more, it may become a root although another one contains it. That costs time, but no matches: an
index only proposes. (A forest of any depth in depth-first order was tried, with a jump over what is
below a box that does not hold: the jumps took longer than comparing all boxes below a root.)

When it is slow: few rules are covered, so that an event looks at nearly all of them.

Subscription covering makes the tables of brokers small in this way (Shen, Tirthapura and Aluru);
to match by it is ours.
"""
