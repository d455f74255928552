"""Virtual construct rectangles: boxes over two attributes, decomposed into prepared rectangles.

Wu, Chen, Yu: VCR indexing for fast event matching for highly-overlapping range predicates, and
section 3 of their paper on stream processing, for points between lattice points. The package above
tells the idea of constructs.

A lattice of Rx x Ry cells lies over the domain. From each cell constructs start, rectangles whose
sides are powers of two up to L. Each has a number (eq. 1, a horizontal scan) and a list of ids. A
box is decomposed into constructs; an event takes the lists of all constructs that cover its cell,
by a table of differences from the number of the cell's own smallest construct (2.3.2).

For boxes that overlap much, on a lattice that fits them: prices in cents, hours, pixels. There the
alternative is a list for each cell, and this takes a tenth of its memory.

Unlike the paper:

* An event lies between lattice lines, with (2L - 1)**2 constructs around it (`count_cover` gives
  the other cases). On whole numbers a cell is one number, and a box covers its end cells entirely.
* Where ends lie within cells, the cells strictly inside are decomposed as in the paper; the ring
  around them is decomposed apart, and its pieces leave the candidate to accept.
* Outside the lattice there is a rim of one more cell on each side, for events and ends out there.
* Of the constructs that start in one cell with one height those wide enough have consecutive
  numbers, so they are one run of ids, and L (2L - 1) runs make up the cover, or fewer.
* The table of all constructs is an array of offsets (*direct*), or, where that would be much
  larger than the lists, a hash table of the activated ones (2.2.3).
* A budget is kept, 26 entries per box: where no L up to 16 does it, the lattice gets coarser.

In memory: 4 bytes per entry, and 4 bytes per construct that could be, or 28 to 52 for each that is
activated. An event costs about 40 nanoseconds, 5 for each run and 0.1 for each match. It grows with
the matches, and with L.

When it is slow: boxes whose ends lie anywhere, which all pass through the ring; use `grid`.

The files: `layout` (what lies where), `lattice` (cells, and which L fits), `building`
(decomposition and lists), `hashing`, `matching`, `changes` (insertion and removal), `validation`
(what is checked in a store), and `index`, which puts them behind the protocol.
"""
