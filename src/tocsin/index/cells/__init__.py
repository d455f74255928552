"""Boxes in the cells of a plane: the grid and the n-tree.

Two attributes span a plane; a conjunction is a box in it, unbounded where it does not test one of
them. A *node* cuts its domain into cells. A cell has a *full* list, of the boxes that cover it
whole, and a *partial* list, of the boxes that cover some of it. A cell may have a *child* in place
of its partial list: a node of its own that holds just these boxes (thesis 3.2.3). Nodes without a
parent are *roots*. An event computes its cell in each root, takes the full list as it is, tests the
partial list or goes on in the child, and is done. Each box belongs to one root, and no two cells of
a node share an event, so no box is found twice.

`grid` and `ntree` differ only in where they put nodes. The grid has a root for each order of size
and cuts it finely; crowded cells get further tiers. The tree has one root and splits every long
partial list into n x n cells. The docstring of each says what it takes from the paper (Kalashnikov,
Efficient querying of constantly evolving data) and where it departs.

*Codes.* How a domain is cut does not matter for being right. A node maps keys to codes by one
monotone function, the same for events and for bounds, clamped at the domain's ends; a cell is 2**14
codes wide. Where the codes of a bound and of an event differ, so do their keys, in the same order;
where they are equal, the keys are compared, for all events that were computed together at once. So
floats are compared without rounding error, and values outside the domain, infinities, NaN and null
need no case of their own. Equal codes are rare where values are random, and the rule where whole
numbers are in columns of floats: such events take about twice as long. The first code and the last
of a node are for events outside of its domain. On an axis of integers, codes are spaced so that a
bound falls between two of them: there no comparison of keys is left.

*Words.* In a partial list each box has a word of 8 bytes that holds its four bounds, each in a lane
of 16 bits, as far as they matter within the cell. An event computes the matching word once; one
subtraction then compares all four bounds. A lane keeps its top bit exactly if the event is on the
right side of that bound. A lane of 0 says that no event in the cell is on the wrong side: the bound
is outside of the cell. Boxes keep these lanes when they go on to a child, where such a bound has a
code beyond all others, so that a box is in the full list of each cell that it covers.

In memory: a head of 16 bytes per cell; 4 bytes per box in each list; and 8 bytes for its word in a
partial list.

Lists are compact when built and when stored. From the first change in place on they have room to
grow, and the cost of a change grows with the number of cells that its box covers (`rooms`).

An event costs a cache miss for the head, one for the ids and one for the words, all of them
prefetched (1.5 to 2.5 times faster than without), then about a nanosecond a box in the partial
list. It grows with the boxes that meet the event's cell, and with the tiers above that cell.

Unlike the paper:

* boxes that cover a cell join its partial list if they are few: one loop less is faster than so
  many tests (the grid's option `full_lists` keeps them apart);
* with more than two attributes the plane lies over the two that leave the fewest candidates, and
  accept tests the rest.

When it is slow: boxes that all overlap each other (every cell is in most of them, and nothing can
be skipped, but then most of them match as well); and conditions that hardly restrict any two
attributes together: use `keyed` for those.

The files: `layout` (what lies in memory), `codes` (from keys to codes, cells and words),
`matching`, `building` (tier by tier), `crowding` (where the boxes of a crowded cell lie), `grid`
and `ntree` (where nodes go; the public classes), `published_grid` (the paper's own grid, by options
of `grid`), `index` (what the two have in common behind the protocol), `changes` (insert and remove
in place), `rooms` (lists that grow), and `validation` (what is checked of a stored index).
"""
