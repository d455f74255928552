"""Virtual construct intervals: ranges over one attribute, decomposed into prepared intervals.

Wu, Chen, Yu: Indexing continual range queries for efficient stream processing, section 2. The
package above tells the idea of constructs, and `interval_lists` which lists an interval is in.

A lattice cuts the domain of the most selective attribute into cells. From each cell constructs
start: of every length 1..L (simple, SCI) or of the powers of two (logarithmic, LCI). An event finds
its cell and takes the lists of all constructs that cover it, then of the intervals that begin or
end in its cell those that contain its value.

The paper's own index, on the lattice of whole numbers, is the option `lattice="published"`, and is
one file, `published`. What follows is the default, `lattice="fitted"`. Unlike the paper:

* The ends of an interval need not lie on the lattice: in the cells of its ends it is in sorted
  lists. So no interval is expanded to lattice points, and nothing is left for accept.
* The constructs that cover a cell from one start have consecutive numbers, so they are one run of
  ids: L copies per event instead of |Cov| = 2L - 1 for LCI. Near the lower end of the domain, the
  constructs that would start before the first cell are left out of the runs.
* Intervals of very different lengths lie on levels of their own (`lattice`). Then L = 1 is the best
  choice, and it is what is chosen unless lists would have more than 16 pieces an interval.

In memory: 12 bytes for each end (id and key), 4 bytes for each piece, 20 bytes per cell. An event
costs a cache miss or three a level, a search of two short sorted lists, and then copies: about
100 nanoseconds and 0.1 for each match. It grows with the matches, and with the levels.

When it is slow: conditions that other attributes decide; each candidate is then left to accept.

On the published lattice an event looks at 2L + k lists, most of them short, where here it copies a
few runs, and intervals with ends that are not whole are candidates only. It has its place where
bounds are whole numbers from a range of thousands, rules are many and memory is scarce: then it
needs about half. See the experiments for Figs. 6 and 7.

The files: `layout` (what lies where), `building`, `matching`, `changes` (insertion and removal),
`validation` (what is checked in a store), `published` (all of that as in the paper), and `index`,
which puts both behind the protocol.
"""
