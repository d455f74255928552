"""Virtual constructs: prepared intervals and rectangles that rules are decomposed into.

Wu, Chen, Yu: Indexing continual range queries for efficient stream processing (VCI, for intervals,
and VCR, for rectangles), and VCR indexing for fast event matching for highly-overlapping range
predicates.

A *lattice* cuts the domain into cells. From each cell *constructs* start: prepared intervals, or
rectangles, whose sides are at most L cells long. Every construct has a number, which is computed
from where it lies and how large it is, and a list of ids. A rule is *decomposed* into constructs,
the largest first, and its id goes into their lists. An event takes the lists of all constructs that
cover its cell. So matches are precomputed, but once for a construct and not once for a cell, and
rules share constructs: lists are short where rules are large, and an event costs the same however
much the rules overlap.

What makes an event cheap is that all covers look alike. The constructs that cover a cell are the
same everywhere, relative to the cell: their number is constant, and so are the differences between
their numbers. A table of differences, made once, takes the place of a search.

With the option `lattice="published"`, both indexes have the papers' lattice of whole numbers, and
constructs are closed. By default, unlike the papers:

* A cell is half open, so an event lies in exactly one. The papers' second case, a point between
  lattice points, is then the only one.
* Lists lie one after the other by the numbers of their constructs, and of those that cover a cell
  many have consecutive numbers. These are one *run* of ids, copied as a whole.
* Bounds need not lie on the lattice; each index has its own way of being exact there.

The files: `decomposition` (numbers, pieces and covers as in the papers), `lattice` (cells over one
attribute), `interval_lists` (the lists of intervals on a lattice), and the indexes `intervals` and
`rectangles`. `lattice` and `interval_lists` are shared with the index `counting`.
"""
