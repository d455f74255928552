"""Crowded cells: where the boxes of a long partial list lie, and how large they are.

A child is worth having where these boxes are small beside the domain that it would cut. All of
this is about choosing well; what is right does not depend on it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tocsin.index.cells.building import Tier
from tocsin.index.cells.codes import Placement, max_code, min_code, to_cell
from tocsin.index.cells.layout import BITS, Nodes
from tocsin.index.plane import Boxes
from tocsin.jit import Float64Out, Int32s, UInt8s, freeze, kernel, step
from tocsin.model.encoding import HIGHEST, LOWEST
from tocsin.model.keys import FAR, FAR_INTEGER, NARROW, to_number

_EXTENT, _DEVIATION, _SIDES = 0, 1, 2  # what `measure_bounds` measures

# Mean deviations from the mean within which bounds are cut into cells. Chosen: in a normal
# distribution 1 bound in 700 is further away.
_NEAR = 4.0
_WHOLE = 0.999  # a mean side that is as good as all of the cell; chosen


# A child is worth having if an event then tests less than this share of the boxes; chosen.
MAX_TESTED = 0.5


class Crowds(NamedTuple):
    """The partial lists of n cells; of bounds within the cell, and those at infinity left out."""

    begin: np.ndarray  # [n, 2] where most bounds lie
    end: np.ndarray  # [n, 2]
    side: np.ndarray  # [n, 2] the boxes' mean side, as a share of that
    area: np.ndarray  # [n] the mean product of both sides


def measure_crowds(boxes: Boxes, tier: Tier, cells: np.ndarray) -> Crowds:
    """Return where the boxes in the partial lists of some cells lie, and how large they are."""
    n = len(cells)
    crowd = np.full(len(tier.partial), -1, np.int32)
    crowd[cells] = np.arange(n)
    has_ends = freeze(tier.has_ends.reshape(-1), np.uint8)
    crowded = tier.nodes, has_ends, boxes, tier.placement, crowd
    begin: np.ndarray = np.full(2 * n, np.inf)
    end: np.ndarray = np.full(2 * n, -np.inf)
    sums, counts = np.zeros(2 * n), np.zeros(2 * n)
    measure_bounds(*crowded, _EXTENT, begin, end, sums, counts)
    begin[counts == 0] = end[counts == 0] = 0.0
    # Where most of them are: a few large boxes must not make the cells coarse for the others.
    mean = np.clip(sums / np.maximum(counts, 1), begin, end)  # whatever the sum's rounding
    deviations = np.zeros(2 * n)
    measure_bounds(*crowded, _DEVIATION, mean, end, deviations, counts)
    near = _NEAR * deviations / np.maximum(counts, 1)
    trimmed = near >= NARROW
    begin[trimmed] = np.maximum(begin, mean - near)[trimmed]
    end[trimmed] = np.minimum(end, mean + near)[trimmed]
    sides, areas = np.zeros(2 * n), np.zeros(n)
    measure_bounds(*crowded, _SIDES, begin, end, sides, areas)
    size = tier.partial[cells]
    return Crowds(
        begin=begin.reshape(-1, 2),
        end=end.reshape(-1, 2),
        side=sides.reshape(-1, 2) / size[:, None],
        area=areas / size,
    )


class Squares(NamedTuple):
    """The squares of n cells, and the boxes in their partial lists."""

    begin: np.ndarray  # [n, 2] of the cell; where it has no end, at a root's rim, of the bounds
    end: np.ndarray  # [n, 2]
    extent: np.ndarray  # [n] the share of the square where most bounds lie
    side: np.ndarray  # [n, 2] the boxes' mean side, as a share of the square's
    area: np.ndarray  # [n] the mean product of both sides
    divides: np.ndarray  # [n] whether cutting it divides the boxes, and does not only copy them


def measure_squares(boxes: Boxes, tier: Tier, cells: np.ndarray) -> Squares:
    """Return the squares of some cells, and how large the boxes in their partial lists are."""
    crowds = measure_crowds(boxes, tier, cells)
    begin, end = find_squares(tier, cells, crowds.begin, crowds.end)
    # Sides are shares of the extent of the bounds; of the square they are less.
    shrunk = np.minimum((crowds.end - crowds.begin) / np.maximum(end - begin, NARROW), 1)
    return Squares(
        begin=begin,
        end=end,
        extent=shrunk.prod(axis=1),
        side=crowds.side * shrunk,
        area=crowds.area * shrunk.prod(axis=1),
        divides=np.any(crowds.side < _WHOLE, axis=1) & np.any(end - begin >= NARROW, axis=1),
    )


def find_squares(
    tier: Tier, cells: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return where cells begin and end, [n, 2] each; where they are unbounded, as given."""
    nodes = tier.nodes
    node = np.searchsorted(nodes.first_cell, cells, side="right") - 1
    across, origin, scale = (
        field.reshape(-1, 2)[node] for field in (nodes.across, nodes.origin, nodes.scale)
    )
    inside = cells - nodes.first_cell[node]
    cell = np.stack([inside // across[:, 1], inside % across[:, 1]], axis=1)
    ends = tier.has_ends[node] & np.repeat(scale > 0, 2, axis=1)
    scale = np.where(scale > 0, scale, 1.0)
    begin = np.where((cell > 0) | ends[:, 0::2], origin + (cell << BITS) / scale, begin)
    end = np.where((cell + 1 < across) | ends[:, 1::2], origin + ((cell + 1) << BITS) / scale, end)
    return begin, np.maximum(begin, end)


def estimate_tested(qx: Any, qy: Any, area: Any, nx: Any, ny: Any) -> Any:
    """Return the share of boxes of sides qx, qy in the partial list of one of nx x ny cells.

    `area` is the mean product of the sides. All are shares of the domain.
    """
    cx, cy = 1 / nx, 1 / ny
    met = area + qx * cy + qy * cx + cx * cy
    return met - np.maximum(qx - cx, 0) * np.maximum(qy - cy, 0)


@step
def clip_end(key, is_float, cell, end, has_end, origin, scale, across):
    """Return an end of a box as a number, clipped to the cell; infinite where neither has an end.

    The low end is 0, the high end 1. A cell at the rim of its node ends there if the node does.
    """
    value = to_number(key, is_float) if LOWEST < key < HIGHEST else -np.inf if end == 0 else np.inf
    if value != value:
        value = np.inf
    if np.abs(value) < np.inf:
        far = FAR if is_float != 0 else FAR_INTEGER
        value = min(max(value, -far), far)
    at_rim = has_end != 0 and scale > 0
    if end == 0 and (cell > 0 or at_rim):
        return max(value, origin + (cell << BITS) / scale)
    if end == 1 and (cell + 1 < across or at_rim):
        return min(value, origin + ((cell + 1) << BITS) / scale)
    return value


@kernel
def measure_bounds(
    nodes: Nodes,
    has_ends: UInt8s,
    boxes: Boxes,
    placement: Placement,
    crowd: Int32s,
    measure: int,
    low: Float64Out,
    high: Float64Out,
    sums: Float64Out,
    more: Float64Out,
) -> None:
    """Measure the bounds in the partial list of each crowded cell, on each axis.

    `crowd` is a number per cell, -1 if it is not crowded. Bounds at infinity do not count. With
    _EXTENT, write the least and the greatest bound to `low` and `high`, their sum and, to `more`,
    their number; with _DEVIATION, the sum of distances from the mean in `low`; with _SIDES, the
    sum of the boxes' sides and, to `more`, of the sides' products, as shares of the domain from
    `low` to `high`: of it all where it is too narrow to cut.
    """
    gap, across, first_cell = nodes.gap, nodes.across, nodes.first_cell
    origin, scale = nodes.origin, nodes.scale
    lows, highs, floats, size = boxes.low, boxes.high, boxes.floats, boxes.exact.shape[0]
    box, node, codes = placement.box, placement.node, placement.codes
    for i in range(box.shape[0]):
        a = 2 * np.int64(node[i])
        low_x, high_x, low_y, high_y = codes[4 * i : 4 * i + 4]
        for x in range(to_cell(low_x, across[a]), to_cell(high_x, across[a]) + 1):
            covers_x = low_x < min_code(x, gap[a]) and high_x > max_code(x, gap[a], across[a])
            for y in range(to_cell(low_y, across[a + 1]), to_cell(high_y, across[a + 1]) + 1):
                own = crowd[first_cell[node[i]] + x * across[a + 1] + y]
                if own < 0 or (
                    covers_x
                    and low_y < min_code(y, gap[a + 1])
                    and high_y > max_code(y, gap[a + 1], across[a + 1])
                ):
                    continue
                area = 1.0
                for axis in range(2):
                    key, slot, k = axis * size + box[i], 2 * own + axis, a + axis
                    cell = x if axis == 0 else y
                    begin = clip_end(
                        lows[key], floats[axis], cell, 0, has_ends[2 * k], origin[k], scale[k],
                        across[k],
                    )  # fmt: skip
                    end = clip_end(
                        highs[key], floats[axis], cell, 1, has_ends[2 * k + 1], origin[k], scale[k],
                        across[k],
                    )  # fmt: skip
                    if measure == _SIDES:
                        extent, share = high[slot] - low[slot], 1.0
                        if extent >= NARROW:
                            width = max(min(end, high[slot]) - max(begin, low[slot]), 0.0)
                            share = width / extent
                        sums[slot] += share
                        area *= share
                        if axis == 1:
                            more[own] += area
                        continue
                    for bound in (begin, end):
                        if np.abs(bound) == np.inf:
                            continue
                        if measure == _DEVIATION:
                            sums[slot] += np.abs(bound - low[slot])
                            continue
                        low[slot] = min(low[slot], bound)
                        high[slot] = max(high[slot], bound)
                        sums[slot] += bound
                        more[slot] += 1.0
