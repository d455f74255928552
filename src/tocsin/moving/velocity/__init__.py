"""The velocity constrained index: which objects are in a box now, by an index nobody updates.

(Kalashnikov, Efficient querying of constantly evolving data, 2.5.) Objects move and report where
they are, which changes one row of a table of positions. The index, an R-tree over the positions at
one time, stays as it is. It knows how fast each object can be. So a query at a later time visits
the nodes whose boxes, expanded by v_max * elapsed, meet the query's box; takes the objects that
cannot have left the box; and looks up the positions of the others.

*In memory.* The tree is packed by sort-tile-recursive, in flat arrays, level by level: node i of a
level has the children i * c, i * c + 1, ... of the level below, where c is its capacity, so there
are no pointers. An object costs 28 bytes in the tree (a position, v_max, its row), 44 in the table
(a position, the time of its report, v_max, where it is in the tree and in the list), and its key; a
node costs 48 bytes. Rows of the table are in the order of the leaves (optimisation 3).

*Why it is exact.* An entry stands for the interval [q - r, q + r] in each dimension, computed with
floats; r is v_max * elapsed, and no smaller for a node that contains the entry, nor later.
Rounding is monotone: if a <= b, then a rounded is at most b rounded. So whatever the intervals of
an entry meet, those of its nodes meet, without rounding outward. Each report is tested against the
same interval. If it is outside, the object moves to the *list*, which every query scans. So the
answer is exact as long as reports are passed on, whatever objects do.

*The list* has objects whose v_max is not known, those that were faster than theirs, those without a
finite position, and those inserted since the tree was packed.

*What a query costs.* One test for each child of the nodes it visits, one for each entry of their
leaves, a row of the table for each object that may have crossed the box's border, and one for each
object of the list. Right after a refresh these are few. The border of uncertainty grows with v_max
and with the time since then, so the cost grows with the square of both, up to a scan of the table,
which takes over when a third of the leaves is uncertain.
`refresh` copies positions into the tree and computes the boxes anew, which costs a pass over all
objects; `rebuild` packs anew, too, which costs several sorts. `refresh_period` says how often a
refresh pays (`refreshing.py`).

*It is slow* when the list is long; when v_max is far above the usual speeds, since nothing but
v_max counts; when the index is old; and for thousands of standing queries over the same objects,
which belong into `Rules`.
"""

from tocsin.moving.velocity.index import VelocityIndex
from tocsin.moving.velocity.refreshing import optimal_period
from tocsin.moving.velocity.tree import Answer, Pages, VelocityTree

__all__ = ["Answer", "Pages", "VelocityIndex", "VelocityTree", "optimal_period"]
