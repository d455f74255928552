"""Matching: the lists of all constructs that cover an event, run by run from a pivot (2.3.2)."""

from __future__ import annotations

import numpy as np

from tocsin.index.constructs.rectangles.hashing import look_up
from tocsin.index.constructs.rectangles.lattice import count_kinds, find_cell_or_rim, find_place
from tocsin.index.constructs.rectangles.layout import Layout
from tocsin.jit import Int32Out, Int64Out, Int64s, kernel, prefetch

# Events whose cells are computed and prefetched before the first of them is answered. Chosen:
# enough to hide a cache miss.
_AHEAD = 32


@kernel
def propose(
    g: Layout,
    keys_x: Int64s,
    keys_y: Int64s,
    size: int,
    first: int,
    stop: int,
    offsets: Int64Out,
    out: Int32Out,
) -> int:
    """Write candidates event by event while there is room for all `size` conjunctions."""
    # Fields are read once: Numba counts references to a tuple's arrays at each use in a branch.
    float_x, float_y, published = g.floats[0], g.floats[1], g.published[0]
    first_x, first_y, last_x, last_y = g.first[0], g.first[1], g.last[0], g.last[1]
    origin_x, origin_y, scale_x, scale_y = g.origin[0], g.origin[1], g.scale[0], g.scale[1]
    across, down, longest_x, longest_y = g.cells[0], g.cells[1], g.longest[0], g.longest[1]
    cover, run_x, run_y, run_first, run_size = g.cover, g.run_x, g.run_y, g.run_first, g.run_size
    hashed, list_of, start, ids = g.hashed, g.list_of, g.start, g.ids
    direct = hashed.shape[0] == 0
    kinds = count_kinds(longest_x) * count_kinds(longest_y)
    # A box may be found by several pieces if they overlap or are closed, but is to be written once.
    # Marks are bytes, cleared after each event: marking a box with the number of the event takes
    # half as long again for 256,000 boxes, since the marks then leave the cache.
    doubles = g.overlapped[0] != 0 or published != 0
    seen = np.zeros(size if doubles else 0, np.uint8)
    xs, ys, cases = (
        np.empty(_AHEAD, np.int64),
        np.empty(_AHEAD, np.int64),
        np.empty(_AHEAD, np.int64),
    )
    n = np.uint64(offsets[0])
    room = out.shape[0] - size
    event = first
    while event < stop and np.int64(n) <= room:
        several = min(_AHEAD, stop - event)
        for i in range(several):
            xs[i], on_x = find_place(
                keys_x[event + i], float_x, first_x, last_x, origin_x, scale_x, across, published
            )
            ys[i], on_y = find_place(
                keys_y[event + i], float_y, first_y, last_y, origin_y, scale_y, down, published
            )
            cases[i] = on_x + 2 * on_y
            if direct:
                prefetch(start, kinds * (xs[i] + ys[i] * across))
        for i in range(several):
            if np.int64(n) > room:
                break
            x, y, case = xs[i], ys[i], cases[i]
            pivot_x, pivot_y = x + 1 - longest_x - (case & 1), y + 1 - longest_y - (case >> 1)
            pivot = kinds * (pivot_x + pivot_y * across)
            rim = pivot_x < 0 or pivot_y < 0
            for r in range(cover[case], cover[case + 1]):
                if rim and (run_x[r] > x or run_y[r] > y):
                    continue
                number = pivot + run_first[r]
                if direct:
                    begin = np.uint64(start[number])
                    length = np.uint64(start[number + run_size[r]]) - begin
                    if not doubles:
                        for j in range(length):
                            out[n + j] = ids[begin + j]
                        n += length
                        continue
                    for j in range(length):
                        found = ids[begin + j]
                        c = np.uint64(max(found, ~found))
                        if seen[c] == 0:
                            seen[c] = 1
                            out[n] = found
                            n += np.uint64(1)
                    continue
                for construct in range(number, number + run_size[r]):
                    at = look_up(hashed, list_of, construct)
                    if at < 0:
                        continue
                    for j in range(start[at], start[at + 1]):
                        found = ids[j]
                        if doubles:
                            c = np.uint64(max(found, ~found))
                            if seen[c] != 0:
                                continue
                            seen[c] = 1
                        out[n] = found
                        n += np.uint64(1)
            if doubles:
                for j in range(np.uint64(offsets[event - first]), n):
                    seen[np.uint64(max(out[j], ~out[j]))] = 0
            event += 1
            offsets[event - first] = n
    return event


@kernel
def tally(g: Layout, keys_x: Int64s, keys_y: Int64s, first: int, counts: Int64Out) -> None:
    """Add to each event's count the boxes that contain it, where all are proven, and found once.

    So the lattice is not the published one, and events lie between its lines.
    """
    float_x, float_y = g.floats[0], g.floats[1]
    first_x, first_y, last_x, last_y = g.first[0], g.first[1], g.last[0], g.last[1]
    origin_x, origin_y, scale_x, scale_y = g.origin[0], g.origin[1], g.scale[0], g.scale[1]
    across, down, longest_x, longest_y = g.cells[0], g.cells[1], g.longest[0], g.longest[1]
    run_x, run_y, run_first, run_size = g.run_x, g.run_y, g.run_first, g.run_size
    hashed, list_of, start = g.hashed, g.list_of, g.start
    kinds = count_kinds(longest_x) * count_kinds(longest_y)
    runs = g.cover[1]
    for i in range(counts.shape[0]):
        x = find_cell_or_rim(keys_x[first + i], float_x, first_x, last_x, origin_x, scale_x, across)
        y = find_cell_or_rim(keys_y[first + i], float_y, first_y, last_y, origin_y, scale_y, down)
        pivot = kinds * (x + 1 - longest_x + (y + 1 - longest_y) * across)
        total = np.int64(0)
        for r in range(runs):
            if run_x[r] > x or run_y[r] > y:
                continue
            number = pivot + run_first[r]
            if hashed.shape[0] == 0:
                total += np.int64(start[number + run_size[r]]) - start[number]
                continue
            for construct in range(number, number + run_size[r]):
                at = look_up(hashed, list_of, construct)
                if at >= 0:
                    total += np.int64(start[at + 1]) - start[at]
        counts[i] += total
