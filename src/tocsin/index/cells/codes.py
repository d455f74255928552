"""From keys to codes, from codes to cells and words; see the package for what these are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.cells.layout import BITS, CODES, Nodes
from tocsin.index.plane import EXACT_INTEGERS, Boxes, compute_scale, to_keys
from tocsin.jit import Int32s, Int64Out, Int64s, UInt64s, freeze_fields, kernel, step
from tocsin.model.encoding import HIGHEST, NULL
from tocsin.model.keys import FAR_INTEGER, to_number

TOP_BITS = np.uint64(0x8000_8000_8000_8000)  # of the four lanes
LOW_BITS = np.uint64(0x0001_0001_0001_0001)
NO_PARENT = LOW_BITS  # the word of a box above a root: all of its ends matter
_16, _32, _48 = np.uint64(16), np.uint64(32), np.uint64(48)


# ------------------------------------------------------------ events


@step
def encode_key(key, is_float, low_key, high_key, origin, scale, gap, across):
    """Return the code of an event's key on an axis of a node.

    The lowest code and the highest are for keys outside of the domain. There may be many such
    events, and hardly any bound has a code in common with them.
    """
    if key < low_key:
        return np.int64(0)
    top = (across << BITS) - 1
    if key > high_key:
        return top
    code = np.int64((to_number(key, is_float) - origin) * scale) + np.int64(gap > 0)
    return min(max(code, np.int64(1)), top - 1)


@step
def pack_event(x, y):
    """Return the word of an event with these codes: how far it is from each side of its cell."""
    x, y = np.uint64(x & (CODES - 1)), np.uint64(y & (CODES - 1))
    most, one = np.uint64(CODES), np.uint64(1)
    return (x + one) | ((most - x) << _16) | ((y + one) << _32) | ((most - y) << _48) | TOP_BITS


# ------------------------------------------------------------ boxes


class Placement(NamedTuple):
    """p times a box in a node; a box may be in several nodes."""

    box: Int32s  # [p]
    node: Int32s  # [p]
    codes: Int64s  # [4 p] of its ends in that node: low x, high x, low y, high y


def place_boxes(
    nodes: Nodes, boxes: Boxes, box: np.ndarray, node: np.ndarray, word: np.ndarray
) -> Placement:
    """Return boxes in nodes, with the codes that their ends have there.

    `word` is that of a box in the cell whose child the node is, or NO_PARENT.
    """
    codes = np.empty(4 * len(box), np.int64)
    encode_ends(nodes, boxes, box, node, word, codes)
    return freeze_fields(Placement, box=box, node=node, codes=codes)


@kernel
def encode_ends(
    nodes: Nodes, boxes: Boxes, box: Int32s, node: Int32s, word: UInt64s, codes: Int64Out
) -> None:
    """Write the codes of boxes' ends in their nodes, as `Placement` has them.

    Events below a low end have a code no higher than the end's, events from the end on a code no
    lower; the other way round for a high end. Where integers have codes of their own, the end's is
    between those of two integers. An unbounded end has a code beyond all others. So does an end
    outside the parent cell, because every event that reaches the child satisfies it.
    """
    low, high, floats = boxes.low, boxes.high, boxes.floats
    low_key, high_key, origin = nodes.low_key, nodes.high_key, nodes.origin
    scale, gap, across = nodes.scale, nodes.gap, nodes.across
    size = boxes.exact.shape[0]
    for i in range(box.shape[0]):
        for axis in range(2):
            a = 2 * np.int64(node[i]) + axis
            for end in range(2):
                key = (low if end == 0 else high)[axis * size + box[i]]
                codes[4 * i + 2 * axis + end] = encode_end(
                    key, end, get_lane(word[i], 2 * axis + end), floats[axis], low_key[a],
                    high_key[a], origin[a], scale[a], gap[a], across[a],
                )  # fmt: skip


@step
def get_lane(word, lane):
    """Return a lane of a word: 0 of low x, 1 of high x, 2 of low y, 3 of high y."""
    return (word >> (_16 * np.uint64(lane))) & np.uint64(0xFFFF)


@step
def encode_end(key, end, parent_lane, is_float, low_key, high_key, origin, scale, gap, across):
    """Return the code of a low end (0) or a high end (1) on an axis of a node.

    `parent_lane` is the end's lane in the cell above the node: 0 if the end is outside of it.
    """
    if end == 0 and (key == NULL or parent_lane == 0):
        return np.int64(-1)
    if end == 1 and (key == HIGHEST or parent_lane == 0):
        return across << BITS
    code = encode_key(key, is_float, low_key, high_key, origin, scale, gap, across)
    if gap > 0 and low_key <= key <= high_key:
        code += 2 * end - 1
    return code


@step
def to_cell(code, across):
    """Return the cell of an end's code, on one axis."""
    return min(max(code, 0) >> BITS, across - 1)


@step
def min_code(cell, gap):
    """Return the lowest code that an event in a cell can have."""
    return (cell << BITS) + np.int64(gap > 0 and cell > 0)


@step
def max_code(cell, gap, across):
    """Return the highest code that an event in a cell can have."""
    end = (cell + 1) << BITS
    return end - gap + 1 if gap > 0 and cell + 1 < across else end - 1


@step
def pack_ends(low, high, cell, gap, across):
    """Return the ends of a box on one axis as two lanes, as far as they matter within a cell.

    A lane is 0 if no event in the cell is on the wrong side of that end; so both are if the box
    covers the cell on this axis.
    """
    covers_low = low < min_code(cell, gap)
    covers_high = high > max_code(cell, gap, across)
    low_lane = np.uint64(0 if covers_low else low - (cell << BITS) + 1)
    high_lane = np.uint64(0 if covers_high else ((cell + 1) << BITS) - high)
    return low_lane | (high_lane << _16)


@step
def join_lanes(lanes_x, lanes_y):
    """Return the word of a box from the lanes of both axes; 0 if it covers the cell."""
    return lanes_x | (lanes_y << _32)


# ------------------------------------------------------------ nodes


def find_rims(nodes: Nodes, cells: np.ndarray) -> np.ndarray:
    """Return whether cells are at the rim of their nodes, [n, 4]: low x, high x, low y, high y."""
    node = np.searchsorted(nodes.first_cell, cells, side="right") - 1
    across = nodes.across.reshape(-1, 2)[node]
    inside = cells - nodes.first_cell[node]
    x, y = inside // across[:, 1], inside % across[:, 1]
    return np.stack([x == 0, x + 1 == across[:, 0], y == 0, y + 1 == across[:, 1]], axis=1)


def find_child_ends(nodes: Nodes, has_ends: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return where children of cells have ends, [n, 4]: where the cells do, inside of their nodes.

    At the rim, a cell has an end if its node has; `has_ends` says so of all nodes.
    """
    node = np.searchsorted(nodes.first_cell, cells, side="right") - 1
    return ~find_rims(nodes, cells) | has_ends[node]


class Domains(NamedTuple):
    """What n nodes cover, and into about how many cells they cut it; [n, 2], a column an axis."""

    begin: np.ndarray
    end: np.ndarray
    across: np.ndarray


def fit_nodes(floats: np.ndarray, domains: Domains) -> Nodes:
    """Return nodes over domains; their cells are numbered from 0."""
    begin, end, across = domains.begin, domains.end, domains.across
    x, y = (
        fit_axis(bool(floats[axis]), begin[:, axis], end[:, axis], across[:, axis])
        for axis in (0, 1)
    )
    fields = {name: np.stack([x[name], y[name]], axis=1).reshape(-1) for name in x}
    cells = fields["across"].reshape(-1, 2).prod(axis=1)
    return freeze_fields(Nodes, **fields, first_cell=np.cumsum(cells) - cells)


def fit_axis(
    is_float: bool, begin: np.ndarray, end: np.ndarray, across: np.ndarray
) -> dict[str, np.ndarray]:
    """Return what `Nodes` say of one axis, by name, for domains that are cut into about so many."""
    if not is_float:
        # Within what `to_keys` can represent, so that keys and origin agree.
        begin, end = (
            np.clip(whole, -FAR_INTEGER, FAR_INTEGER) for whole in (np.floor(begin), np.ceil(end))
        )
    low_key, high_key = to_keys(begin, is_float), to_keys(end, is_float)
    scale = compute_scale(across * float(CODES) - 2, begin, end)
    across = np.where(scale > 0, across, 1)
    origin = begin - 1 / np.where(scale > 0, scale, 1.0)
    gap = np.zeros(len(begin), np.int64)
    if not is_float:
        # A power of two of integers to a cell, each with codes of its own and bounds in between,
        # where they are exact as floats and a cell has codes enough.
        bits = np.ceil(np.log2(np.maximum((end - begin + 1) / across, 1))).astype(np.int64)
        spaced = (
            (bits <= BITS - 2) & (np.abs(begin) < EXACT_INTEGERS) & (np.abs(end) < EXACT_INTEGERS)
        )
        bits = np.where(spaced, bits, 0)
        gap = np.where(spaced, CODES >> bits, 0)
        scale = np.where(spaced, gap, scale)
        extent = np.where(spaced, end - begin, 0).astype(np.int64)
        across = np.where(spaced, ((extent + 1) >> bits) + 1, across)
        origin = np.where(spaced, begin - 1, origin)
    return {
        "low_key": low_key,
        "high_key": high_key,
        "origin": origin,
        "scale": scale,
        "across": across,
        "gap": gap,
    }
