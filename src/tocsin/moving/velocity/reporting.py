"""Takes reports of positions into the table, and finds objects that the tree no longer covers.

A report is compared with the one before. An object that moved further than its v_max allows is
counted, and has no v_max from then on. Rounding is in its favour here, because answers rely on
another comparison only: that of the report with the interval for which the object's entry stands,
in the floats that a search computes. An object outside of it moves to the list, too, until the next
refresh. It need not have been too fast: the position in the tree may be older than was claimed.
"""

from __future__ import annotations

import math

from tocsin.jit import Float64s, Int32s, bare_step, kernel
from tocsin.moving.velocity.building import SLACK, append_to_list
from tocsin.moving.velocity.layout import CAPACITY, LARGEST, LATE, STRAYED, TOO_FAST, Objects, Tree
from tocsin.moving.velocity.searching import reach

_ROUNDING = 2.0**-50  # four units in the last place of a coordinate


@kernel
def report(
    tree: Tree, objects: Objects, rows: Int32s, x: Float64s, y: Float64s, at: Float64s
) -> None:
    """Write the positions at some times into these rows, unless a later one is known."""
    for i in range(rows.shape[0]):
        row, now = rows[i], at[i]
        if now < objects.seen[row]:
            objects.head[LATE] += 1
            continue
        if objects.v_max[row] >= 0 and is_too_fast(objects, row, x[i], y[i], now):
            objects.head[TOO_FAST] += 1
            objects.v_max[row] = math.nan
        objects.x[row], objects.y[row], objects.seen[row] = x[i], y[i], now
        entry = objects.entry[row]
        if entry < 0 or tree.row[entry] < 0:
            continue
        has_strayed = not is_covered(tree, entry, x[i], y[i], now)
        if has_strayed or math.isnan(objects.v_max[row]):
            objects.head[STRAYED] += has_strayed
            tree.row[entry] = ~row
            append_to_list(objects, row)


@bare_step
def is_too_fast(objects, row, x, y, now):
    """Return whether an object moved further than v_max allows since its last report."""
    old_x, old_y = objects.x[row], objects.y[row]
    size = max(max(abs(x), abs(old_x)), max(abs(y), abs(old_y)))
    if not size <= LARGEST:  # a position is not known
        return False
    allowed = reach(objects.v_max[row] * SLACK, objects.seen[row], now)
    return math.hypot(x - old_x, y - old_y) > allowed + size * _ROUNDING


@bare_step
def is_covered(tree, entry, x, y, now):
    """Return whether a search at any time from now on would find an entry with this position."""
    r = reach(tree.v[entry], tree.since[entry // tree.shape[CAPACITY]], now)
    return (
        x >= tree.x[entry] - r
        and x <= tree.x[entry] + r
        and y >= tree.y[entry] - r
        and y <= tree.y[entry] + r
    )
