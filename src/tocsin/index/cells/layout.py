"""Cells: boxes filed under the cells of a plane, what `grid` and `ntree` have in common.

Two attributes span a plane; a conjunction is a box in it, unbounded where it does not test
one of them. A *node* cuts its domain into cells. A cell has a *full* list, of the boxes that
cover it whole, and a *part* list, of those that cover some of it, and of the first kind too if
they are few: one loop less is faster than so many tests. In place of a part list it may
have a node of its own, which holds just these boxes (thesis 3.2.3). An event computes its
cell, takes the full list as it is, tests the part list, and is done: no two cells of a node
share an event, so no box is found twice.

How the domain is cut does not matter for being right. A node maps keys to *codes* by one
monotone function (`code`), the same for events and for bounds, clamped at the domain's ends;
a cell is 2**14 codes. Where a bound's code and an event's differ, their order is known; where
they are equal, it is not, and their keys are compared, which is rare. So
floats are compared without rounding error, and values outside the domain, infinities, NaN and
null need no case of their own. On an axis of integers codes are given so that a bound falls
between two of them: there nothing is left open.

In memory: a head of 16 bytes a cell; 4 bytes a box in each list; and in part lists a *word* of
8 bytes that holds the four bounds, each in a lane of 16 bits, as far as they matter within the
cell. An event makes the like word once, and one subtraction then compares all four: a lane
keeps its top bit exactly if the event is on the right side of that bound.

An event costs a cache miss for the head, one for the ids, one for the words, all asked for in
advance (`prefetch`: 1.5 to 2.5 times faster with it), then about a nanosecond a box.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.plane import Boxes
from tocsin.jit import (
    Float64Out,
    Float64s,
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8s,
    UInt64Out,
    UInt64s,
    kernel,
    prefetch,
    step,
)
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import FAR, FAR_INTEGER, NARROW, number
from tocsin.model.line import HIGHEST, LOWEST, NULL

EXTENT, SPREAD, SIDES = 0, 1, 2  # what `crowds` tells

BITS = 14
CODES = 1 << BITS  # of a cell, on each axis
_AHEAD = 64  # events whose cells are computed, and asked for, together
_TOPS = np.uint64(0x8000_8000_8000_8000)
_ONES = np.uint64(0x0001_0001_0001_0001)
_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
_16, _32, _48 = np.uint64(16), np.uint64(32), np.uint64(48)


class Nodes(NamedTuple):
    """How n nodes map keys to codes; two axes each, so index 2 * node + axis."""

    first: Int64s  # [2 n] the lowest key of the domain
    last: Int64s  # [2 n] the highest
    origin: Float64s  # [2 n] code = (value - origin) * scale
    scale: Float64s  # [2 n]
    across: Int64s  # [2 n] number of cells
    gap: Int64s  # [2 n] codes from one integer to the next, 0 on an axis that has no such
    base: Int64s  # [n] number of the first cell


class Cells(NamedTuple):
    """n nodes with c cells."""

    attribute: Int32s  # [2] what the axes are, -1 if an axis is nothing
    floats: UInt8s  # [2]
    settled: UInt8s  # [1] whether all boxes are
    roots: Int64s  # [1] the first so many nodes are for all events, the others below a cell
    first: Int64s
    last: Int64s
    origin: Float64s
    scale: Float64s
    across: Int64s
    gap: Int64s
    base: Int64s
    heads: Int32s  # [4 (c + 1)] where full list, part list and words begin; the node below, or -1
    ids: Int32s  # c of a conjunction, ~c if its box is not settled
    words: UInt64s  # the bounds of those in part lists


# ------------------------------------------------------------ from keys to codes


@step
def code(key, is_float, first, last, origin, scale, gap, across):
    """Return the code of an event's key on an axis of a node."""
    if key < first:
        return np.int64(0)
    top = (across << BITS) - 1
    if key > last:
        return top
    found = np.int64((number(key, is_float) - origin) * scale) + np.int64(gap > 0)
    return min(max(found, np.int64(0)), top)


@step
def least_code(cell, gap):
    """Return the lowest code that an event in a cell can have."""
    return (cell << BITS) + np.int64(gap > 0 and cell > 0)


@step
def greatest_code(cell, gap, across):
    """Return the highest code that an event in a cell can have."""
    end = (cell + 1) << BITS
    return end - gap + 1 if gap > 0 and cell + 1 < across else end - 1


@step
def event_word(x, y):
    """Return the word of an event with these codes: how far it is from each side of its cell."""
    x, y = np.uint64(x & (CODES - 1)), np.uint64(y & (CODES - 1))
    most, one = np.uint64(CODES), np.uint64(1)
    return (x + one) | ((most - x) << _16) | ((y + one) << _32) | ((most - y) << _48) | _TOPS


@step
def lane(distance, covers):
    """Return a bound as a lane: 0 if no event in the cell is on its wrong side."""
    return np.uint64(0 if covers else distance)


@step
def cell_in(node, key_x, key_y, float_x, float_y, least, last, origin, scale, gap, across, base):
    """Return the cell of a node in which an event is, and the event's word there."""
    a, b = 2 * node, 2 * node + 1
    x = code(key_x, float_x, least[a], last[a], origin[a], scale[a], gap[a], across[a])
    y = code(key_y, float_y, least[b], last[b], origin[b], scale[b], gap[b], across[b])
    return base[node] + (x >> BITS) * across[b] + (y >> BITS), event_word(x, y)


# ------------------------------------------------------------ ask


# Kernels here take the fields of a layout into variables of their own before they loop: a field
# that is asked for within branches costs two atomic counts each time (5 times slower in all).


@kernel
def propose(
    g: Cells,
    c: Conjunctions,
    keys_x: Int64s,
    keys_y: Int64s,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write candidates event by event while there is room for all conjunctions."""
    float_x, float_y, roots = g.floats[0], g.floats[1], g.roots[0]
    least, last, origin, scale, gap = g.first, g.last, g.origin, g.scale, g.gap
    across, base, heads, ids, words = g.across, g.base, g.heads, g.ids, g.words
    rows, attribute, low, high, axis_x = c.offsets, c.attribute, c.low, c.high, g.attribute[0]
    top, mine = np.empty(_AHEAD * roots, np.int64), np.empty(_AHEAD * roots, np.uint64)
    tiers = base.shape[0] > roots
    cells = np.empty(_AHEAD * roots, np.int64) if tiers else top
    # Unsigned, here and below: an index that may be negative costs a comparison each time.
    n = np.uint64(offsets[0])
    room = out.shape[0] - c.rule.shape[0]
    event = first
    while event < stop and np.int64(n) <= room:
        several = min(_AHEAD, stop - event)
        for i in range(several):
            key_x, key_y = keys_x[event + i], keys_y[event + i]
            for root in range(roots):
                slot = i * roots + root
                top[slot], mine[slot] = cell_in(
                    np.int64(root), key_x, key_y, float_x, float_y,
                    least, last, origin, scale, gap, across, base,
                )  # fmt: skip
                prefetch(heads, 4 * top[slot])
        for i in range(several if tiers else 0):
            for root in range(roots):
                slot = i * roots + root
                cells[slot] = top[slot]
                below = np.int64(heads[_FOUR * np.uint64(top[slot]) + _THREE])
                if below >= 0:
                    cells[slot], mine[slot] = cell_in(
                        below, keys_x[event + i], keys_y[event + i], float_x, float_y,
                        least, last, origin, scale, gap, across, base,
                    )  # fmt: skip
                    prefetch(heads, 4 * cells[slot])
                    head = _FOUR * np.uint64(top[slot])
                    if heads[head] == heads[head + _ONE]:  # no full list: it need not be seen again
                        top[slot] = cells[slot]
        tied = False
        for i in range(several):
            if np.int64(n) > room:
                break
            start, unsure = n, np.uint64(0)
            for root in range(roots):
                slot = i * roots + root
                if slot + 4 < several * roots:
                    soon = _FOUR * np.uint64(cells[slot + 4])
                    prefetch(ids, np.int64(heads[soon + _ONE]))
                    prefetch(words, np.int64(heads[soon + _TWO]))
                cell, own = top[slot], mine[slot]
                while True:
                    head = _FOUR * np.uint64(cell)
                    begin, parts = np.uint64(heads[head]), np.uint64(heads[head + _ONE])
                    if parts > begin:
                        for j in range(parts - begin):
                            out[n + j] = ids[begin + j]
                        n += parts - begin
                    below = np.int64(heads[head + _THREE])
                    if below < 0:
                        break
                    if cell == top[slot] and cell != cells[slot]:
                        cell = cells[slot]
                    else:
                        cell, own = cell_in(
                            below, keys_x[event], keys_y[event], float_x, float_y,
                            least, last, origin, scale, gap, across, base,
                        )  # fmt: skip
                word, size = np.uint64(heads[head + _TWO]), np.uint64(heads[head + _FOUR]) - parts
                for j in range(size):
                    apart = own - words[word + j]
                    # Always written, counted if it hits: cheaper than a branch.
                    out[n] = ids[parts + j]
                    n += np.uint64(apart & _TOPS == _TOPS)
                    unsure |= apart ^ (apart - _ONES)
            if unsure & _TOPS != 0:
                n, tied = start, True
                break
            event += 1
            offsets[event - first] = n
        if tied:
            # Some codes are equal: rare, and done apart, since the loop above is a quarter slower
            # with it inside. The event once more, and the keys decide.
            key_x, key_y = keys_x[event], keys_y[event]
            for root in range(roots):
                node = np.int64(root)
                while node >= 0:
                    cell, own = cell_in(
                        node, key_x, key_y, float_x, float_y,
                        least, last, origin, scale, gap, across, base,
                    )  # fmt: skip
                    full, tested = heads[4 * cell], heads[4 * cell + 1]
                    for j in range(full, tested):
                        out[n] = ids[j]
                        n += np.uint64(1)
                    node = np.int64(heads[4 * cell + 3])
                shift = heads[4 * cell + 2] - tested
                for j in range(tested, heads[4 * cell + 4]):
                    apart = own - words[j + shift]
                    found, hit = ids[j], apart & _TOPS == _TOPS
                    if hit and found >= 0 and (apart - _ONES) & _TOPS != _TOPS:
                        for row in range(rows[found], rows[found + 1]):
                            key = key_x if attribute[row] == axis_x else key_y
                            hit &= low[row] <= key <= high[row]
                    out[n] = found
                    n += np.uint64(hit)
            event += 1
            offsets[event - first] = n
    return event


@kernel
def tally(
    g: Cells, c: Conjunctions, keys_x: Int64s, keys_y: Int64s, first: int, counts: Int64Out
) -> None:
    """Add to each event's count the conjunctions that hold; asked only if all are settled."""
    float_x, float_y, roots = g.floats[0], g.floats[1], g.roots[0]
    least, last, origin, scale, gap = g.first, g.last, g.origin, g.scale, g.gap
    across, base, heads, ids, words = g.across, g.base, g.heads, g.ids, g.words
    rows, attribute, low, high, axis_x = c.offsets, c.attribute, c.low, c.high, g.attribute[0]
    cells, mine = np.empty(_AHEAD * roots, np.int64), np.empty(_AHEAD * roots, np.uint64)
    for begin in range(0, counts.shape[0], _AHEAD):
        several = min(_AHEAD, counts.shape[0] - begin)
        for i in range(several):
            for root in range(roots):
                slot = i * roots + root
                cells[slot], mine[slot] = cell_in(
                    np.int64(root), keys_x[first + begin + i], keys_y[first + begin + i], float_x,
                    float_y, least, last, origin, scale, gap, across, base,
                )  # fmt: skip
                prefetch(heads, 4 * cells[slot])
        for i in range(several):
            key_x, key_y = keys_x[first + begin + i], keys_y[first + begin + i]
            total = np.int64(0)
            for root in range(roots):
                slot = i * roots + root
                if slot + 4 < several * roots:
                    prefetch(words, np.int64(heads[4 * cells[slot + 4] + 2]))
                cell, own = cells[slot], mine[slot]
                while True:
                    head = 4 * cell
                    parts = np.uint64(heads[head + 1])
                    total += np.int64(parts) - heads[head]
                    below = np.int64(heads[head + 3])
                    if below < 0:
                        break
                    cell, own = cell_in(
                        below, key_x, key_y, float_x, float_y,
                        least, last, origin, scale, gap, across, base,
                    )  # fmt: skip
                word, size = np.uint64(heads[head + 2]), np.uint64(heads[head + 4]) - parts
                hits = sure = np.int64(0)
                for j in range(size):
                    apart = own - words[word + j]
                    hits += np.int64(apart & _TOPS == _TOPS)
                    sure += np.int64((apart - _ONES) & _TOPS == _TOPS)
                total += sure
                if hits != sure:
                    for j in range(size):
                        apart = own - words[word + j]
                        if apart & _TOPS == _TOPS and (apart - _ONES) & _TOPS != _TOPS:
                            hit = True
                            found = ids[parts + j]
                            for row in range(rows[found], rows[found + 1]):
                                key = key_x if attribute[row] == axis_x else key_y
                                hit &= low[row] <= key <= high[row]
                            total += hit
            counts[begin + i] += total


@kernel
def most_candidates(g: Cells) -> int:
    """Return how many candidates an event can find at most, in lists that are in range.

    Counted from the last node to the first, so nodes below must come after; -1 if one does not.
    Boxes are in one root each, and in one list each of those on an event's path there: so of a
    grid that was built there are never more than conjunctions.
    """
    across, base, heads, roots = g.across, g.base, g.heads, g.roots[0]
    nodes = base.shape[0]
    most = np.zeros(nodes, np.int64)
    for node in range(nodes - 1, -1, -1):
        for cell in range(base[node], base[node] + across[2 * node] * across[2 * node + 1]):
            below = np.int64(heads[4 * cell + 3])
            found = np.int64(heads[4 * cell + 1]) - heads[4 * cell]
            if below < 0:
                found += np.int64(heads[4 * cell + 4]) - heads[4 * cell + 1]
            elif node < below < nodes:
                found += most[below]
            else:
                return -1
            most[node] = max(most[node], found)
    return most[:roots].sum()


# ------------------------------------------------------------ build


@kernel
def encode(n: Nodes, b: Boxes, box: Int32s, node: Int32s, codes: Int64Out) -> None:
    """Write the codes of boxes' ends in their nodes: low x, high x, low y, high y of each.

    Events below a low end have a lesser code, events above it no lesser one; where integers
    have codes of their own, the end's is between. The end of the line has a code beyond all.
    """
    low, high, floats = b.low, b.high, b.floats
    first, last, origin, scale, gap, across = n.first, n.last, n.origin, n.scale, n.gap, n.across
    size = b.exact.shape[0]
    for i in range(box.shape[0]):
        for axis in range(2):
            a = 2 * np.int64(node[i]) + axis
            for end in range(2):
                key = (low if end == 0 else high)[axis * size + box[i]]
                found = code(
                    key, floats[axis], first[a], last[a], origin[a], scale[a], gap[a], across[a]
                )
                if gap[a] > 0 and first[a] <= key <= last[a]:
                    found += 2 * end - 1
                if end == 0 and key == NULL:
                    found = -1
                if end == 1 and key == HIGHEST:
                    found = across[a] << BITS
                codes[4 * i + 2 * axis + end] = found


@step
def lanes(low, high, cell, gap, across):
    """Return the bounds of one axis as two lanes, as far as they matter within a cell.

    0 if the box covers the cell on this axis.
    """
    over_low = low < least_code(cell, gap)
    over_high = high > greatest_code(cell, gap, across)
    distance = ((cell + 1) << BITS) - high
    return lane(low - (cell << BITS) + 1, over_low) | (lane(distance, over_high) << _16)


@step
def cell_of(code, across):
    """Return the cell of an end's code."""
    return min(max(code, 0) >> BITS, across - 1)


@kernel
def count_entries(n: Nodes, node: Int32s, codes: Int64s, full: Int32Out, part: Int32Out) -> None:
    """Add to each cell's counts the boxes of its full and of its part list."""
    gap, across, base = n.gap, n.across, n.base
    for i in range(node.shape[0]):
        a = 2 * np.int64(node[i])
        gap_x, gap_y, across_x, across_y = gap[a], gap[a + 1], across[a], across[a + 1]
        low_x, high_x, low_y, high_y = codes[4 * i : 4 * i + 4]
        for x in range(cell_of(low_x, across_x), cell_of(high_x, across_x) + 1):
            lanes_x = lanes(low_x, high_x, x, gap_x, across_x)
            row = base[node[i]] + x * across_y
            for y in range(cell_of(low_y, across_y), cell_of(high_y, across_y) + 1):
                if lanes_x | lanes(low_y, high_y, y, gap_y, across_y) == 0:
                    full[row + y] += 1
                else:
                    part[row + y] += 1


@kernel
def fill_lists(
    n: Nodes,
    b: Boxes,
    box: Int32s,
    node: Int32s,
    codes: Int64s,
    below: Int32s,
    full: Int64Out,
    part: Int64Out,
    word: Int64Out,
    ids: Int32Out,
    words: UInt64Out,
    next_box: Int32Out,
    next_node: Int32Out,
) -> None:
    """Write the lists; `full`, `part` and `word` are where each cell's next entry goes.

    Where `full` is -1, boxes that cover the cell go to its part list, with a word that any event
    passes. Boxes that would be in the part list of a cell with a node below go to `next_box`.
    """
    gap, across, base, settled = n.gap, n.across, n.base, b.exact
    passed = 0
    for i in range(box.shape[0]):
        a = 2 * np.int64(node[i])
        gap_x, gap_y, across_x, across_y = gap[a], gap[a + 1], across[a], across[a + 1]
        low_x, high_x, low_y, high_y = codes[4 * i : 4 * i + 4]
        id_ = box[i] if settled[box[i]] != 0 else ~box[i]
        for x in range(cell_of(low_x, across_x), cell_of(high_x, across_x) + 1):
            lanes_x = lanes(low_x, high_x, x, gap_x, across_x)
            row = base[node[i]] + x * across_y
            for y in range(cell_of(low_y, across_y), cell_of(high_y, across_y) + 1):
                bounds = lanes_x | (lanes(low_y, high_y, y, gap_y, across_y) << _32)
                cell = row + y
                if bounds == 0 and full[cell] >= 0:
                    ids[full[cell]] = id_
                    full[cell] += 1
                elif bounds != 0 and below[cell] >= 0:
                    next_box[passed] = box[i]
                    next_node[passed] = below[cell]
                    passed += 1
                else:
                    ids[part[cell]] = id_
                    part[cell] += 1
                    words[word[cell]] = bounds
                    word[cell] += 1


@step
def bound_within(key, is_float, side, end, origin, scale, across):
    """Return an end of a box as a number, drawn in to a cell's own end; infinite if it has none."""
    found = number(key, is_float) if LOWEST < key < HIGHEST else -np.inf if end == 0 else np.inf
    if found != found:
        found = np.inf
    if np.abs(found) < np.inf:
        far = FAR if is_float != 0 else FAR_INTEGER
        found = min(max(found, -far), far)
    if end == 0 and side > 0:
        return max(found, origin + (side << BITS) / scale)
    if end == 1 and side + 1 < across:
        return min(found, origin + ((side + 1) << BITS) / scale)
    return found


@kernel
def crowds(
    n: Nodes,
    b: Boxes,
    box: Int32s,
    node: Int32s,
    codes: Int64s,
    crowd: Int32s,
    what: int,
    low: Float64Out,
    high: Float64Out,
    sums: Float64Out,
    more: Float64Out,
) -> None:
    """For each crowded cell look at the bounds in its part list; those at infinity do not count.

    `crowd` is a number per cell, -1 if it is not crowded. Of each axis of a cell tell `what` is
    asked: with EXTENT the least and the greatest bound, `low` and `high`, their sum and, in `more`,
    their number; with SPREAD, from the mean in `low`, the sum of distances; with SIDES, within a
    domain from `low` to `high`, the sum of the boxes' sides and, in `more`, of the sides' products,
    in shares of the domain: of it all where it is too narrow to cut.
    """
    gap, across, base, origin, scale = n.gap, n.across, n.base, n.origin, n.scale
    lows, highs, floats, size = b.low, b.high, b.floats, b.exact.shape[0]
    for i in range(box.shape[0]):
        a = 2 * np.int64(node[i])
        low_x, high_x, low_y, high_y = codes[4 * i : 4 * i + 4]
        for x in range(cell_of(low_x, across[a]), cell_of(high_x, across[a]) + 1):
            whole = low_x < least_code(x, gap[a]) and high_x > greatest_code(x, gap[a], across[a])
            for y in range(cell_of(low_y, across[a + 1]), cell_of(high_y, across[a + 1]) + 1):
                number = crowd[base[node[i]] + x * across[a + 1] + y]
                if number < 0 or (
                    whole
                    and low_y < least_code(y, gap[a + 1])
                    and high_y > greatest_code(y, gap[a + 1], across[a + 1])
                ):
                    continue
                area = 1.0
                for axis in range(2):
                    place, slot, k = axis * size + box[i], 2 * number + axis, a + axis
                    side = x if axis == 0 else y
                    begin = bound_within(
                        lows[place], floats[axis], side, 0, origin[k], scale[k], across[k]
                    )
                    end = bound_within(
                        highs[place], floats[axis], side, 1, origin[k], scale[k], across[k]
                    )
                    if what == SIDES:
                        extent, share = high[slot] - low[slot], 1.0
                        if extent >= NARROW:
                            width = max(min(end, high[slot]) - max(begin, low[slot]), 0.0)
                            share = width / extent
                        sums[slot] += share
                        area *= share
                        if axis == 1:
                            more[number] += area
                        continue
                    for bound in (begin, end):
                        if np.abs(bound) == np.inf:
                            continue
                        if what == SPREAD:
                            sums[slot] += np.abs(bound - low[slot])
                            continue
                        low[slot] = min(low[slot], bound)
                        high[slot] = max(high[slot], bound)
                        sums[slot] += bound
                        more[slot] += 1.0
