"""Two-phase matching: interval lists for each attribute, and a counter for each conjunction.

The classic engine for conjunctions. First the predicates that an event satisfies are found,
attribute by attribute, with virtual construct intervals (see `constructs.interval_lists`); each
takes one from its conjunction's counter. A conjunction whose counter comes to zero has all its
predicates satisfied. Wu, Chen, Yu (Indexing continual range queries, section 2.1) propose such
intervals for two-phase matching, and leave the second phase to Fabret and others.

Unlike the paper, which has this in a sentence:

* The lattices do not lie over values. The bounds of all predicates on an attribute cut its line
  into stretches; a value's *rank* is the number of cuts up to it, and whether a predicate holds
  depends on the rank alone. So where bounds stand close together there are as many cells as
  elsewhere; over values a whole cluster of rules may fall into one cell.
* Constructs are one cell long (L = 1), and an interval's ends are in sorted lists.
* Sets count by the interval around them, and complements not at all: both are left to accept. A
  conjunction without any interval is always a candidate.
* A counter is one word: the event it is for, the number of predicates, and how many are left; so
  none is reset from one event to the next.

In memory: the interval lists once for each predicate, about 50 bytes, and 16 more for the cuts. An
event costs a bisection for each value it has, and a nanosecond or more (a cache miss, if there are
many conjunctions) for every *predicate* it satisfies, however few conjunctions come of it. It needs
no choice of axes and no statistics, so it is the peer that `keyed` is measured against.

When it is slow: where ranges overlap, since most of the work is then for conjunctions that some
other attribute rules out; and one event at a time, since each call first makes the counters, 8
bytes per conjunction.

The files: `layout` (what lies where), `building` (ranks, and lists for each attribute), `matching`
(counters), `validation` (what is checked in a store), and `index`, which puts them behind the
protocol.
"""
