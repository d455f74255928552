"""Virtual construct rectangles: boxes over two attributes, decomposed into prepared rectangles.

Wu, Chen, Yu: VCR indexing for fast event matching for highly-overlapping range predicates, and
section 3 of their paper on stream processing, for points between lattice points. The package above
explains constructs.

A lattice of Rx x Ry cells lies over the domain. From each cell constructs start, rectangles whose
sides are powers of two up to Lx and Ly. Each has a number (eq. 1, a horizontal scan) and a list of
ids. A box is decomposed into constructs; an event takes the lists of all constructs that cover it,
by a table of distances from the number of a pivot (2.3.2).

With the option `lattice="published"` the index is the paper's. Lattice points are whole numbers, of
integers and of floats, and constructs are closed rectangles with corners on them. A box [a, a + w]
x [b, b + h] is decomposed with the sides w and h. An event on a lattice point is covered by (2Lx +
kx)(2Ly + ky) constructs (Theorem 1), one between lines by (2Lx - 1)(2Ly - 1), and one on a line of
one axis by the mixed product: there is a table for each of the four cases. An id that several
pieces return is written once; the paper reports it several times. Bounds that are not whole numbers
are moved outwards, and so is one end of a side without length; accept then checks the box. On each
axis the lattice has at most 2,048 whole numbers, and fewer if the lists would not fit and L is not
given: events and boxes outside are in a rim, where accept checks them. As below, lists lie in runs,
and the direct table has offsets where the paper has pointers to linked lists.

For boxes that overlap much, on a lattice that fits them: prices in cents, hours, pixels. There the
alternative is a list for each cell, and this takes a tenth of its memory.

The default, `lattice="fitted"`, is unlike the paper:

* An event lies between lattice lines, with (2Lx - 1)(2Ly - 1) constructs around it. On whole
  numbers a cell is one number, and a box covers its end cells entirely. Pieces have no lines in
  common, so that simple decomposition finds an id once.
* Where ends lie within cells, the cells strictly inside are decomposed as in the paper; the ring
  around them is decomposed apart, and its pieces leave the candidate to accept.
* Outside the lattice there is a rim of one more cell on each side, for events and ends out there.
* Of the constructs that start in one cell with one height those wide enough have consecutive
  numbers, so they are one run of ids, and about 2 Lx Ly runs make up the cover.
* The table of all constructs is an array of offsets (*direct*), or, where that would be much
  larger than the lists, a hash table of the activated ones (2.2.3).
* Lx and Ly are chosen, each for its axis, with the fewest runs that keep a budget of 26 entries per
  box: where none up to 16 does it, the lattice gets coarser.

In memory: 4 bytes per entry, and 4 bytes per construct that could be, or 28 to 52 for each that is
activated. An event costs about 40 nanoseconds, 5 for each run and 0.1 for each match. It grows with
the matches, and with L.

When it is slow: boxes whose ends lie anywhere, which all pass through the ring; use `grid`.

The files: `layout` (what lies where), `lattice` (cells, and which L fits), `building`
(decomposition and lists), `hashing`, `matching`, `changes` (insertion and removal), `validation`
(what is checked in a store), and `index`, which puts them behind the protocol.
"""
