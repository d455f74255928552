"""Exhaustive search: every conjunction is looked at, as fast as looking goes.

The baseline every other index is measured against, the right choice for small sets, and what holds
freshly added rules.

In memory: conjunctions are grouped into blocks. Those that test the same attributes form a block
together, if there are at least 64 of them; the others are grouped by the one attribute they test
most narrowly. A block keeps the bounds of each of its tests as two contiguous arrays (low, high),
so that 4 conjunctions are compared per instruction, and the least and greatest of these bounds, so
that a block which an event cannot meet (most often: the attribute is missing) is skipped whole.
Bytes: 16 per test and 4 per conjunction.

An event costs, per block it can meet, about 0.4 nanoseconds per conjunction for up to two tests.
Intervals alone are proven here; sets are tested by the interval around them and left to accept. It
grows with all rules.

When it is slow: many rules, and conjunctions of many kinds, which are tested on one attribute only
and then left to accept.

The files: `layout` (what lies where), `building` (blocks), `matching`, and `index`, which puts them
behind the protocol.
"""
