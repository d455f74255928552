"""Fences in memory: boxes on the key line, and a packed tree over them.

A *box* is what a conjunction allows for the two position columns: a closed interval of keys in
each, clipped to the keys that positions have. Open and closed ends need no case of their own, since
adjacent values have adjacent keys. A conjunction with a set on a position column is several boxes.
Boxes are in the order of a packed R-tree, five words a box with its rule, and nodes lie behind each
other, so a search touches the nodes whose bounds it cannot exclude, and the boxes in them.

Each segment of the rules has a tree of its own, which is built once, in n log n. The trees of all
segments are one forest with several roots. Removed rules stay in it and are skipped: `alive` says
which are in force.

Searches start at the position and take what is nearest first (`queue.py`), until nothing nearer
than the nearest edge is left, or nothing that a rectangle could still reach. The nodes that they
visit grow with the logarithm of the fences, and with how many of them overlap at the position: a
fence around the object is always visited, since its other predicates matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tocsin.jit import Int32s, Int64s, UInt8s, UInt64s, bare_step, freeze, freeze_fields
from tocsin.model.encoding import HIGHEST, LOWEST, NULL, number_key
from tocsin.model.keys import to_number
from tocsin.moving.velocity.building import pack
from tocsin.moving.widening import FLOAT, INTEGER

X_LOW, X_HIGH, Y_LOW, Y_HIGH = range(4)  # of a box, and of a rectangle
CAPACITY = 8  # boxes in a leaf, and children of a node; 16 took a fifth longer

_LEAST, _GREATEST = number_key(-np.inf), number_key(np.inf)


class Boxes(NamedTuple):
    """What n boxes are, in any order."""

    bound: Int64s  # [4 n] keys; ends that are open are those of the line (`line_end`)
    rule: Int32s  # [n] position of the rule
    others: UInt64s  # [n] a bit for each other attribute that the conjunction tests
    restless: UInt8s  # [n] whether time or a term over the position decides within the box


class Fences(NamedTuple):
    """The boxes of all rules and the forest over them; see above."""

    kinds: UInt8s  # [2] INTEGER or FLOAT, of x and y
    hull: Int64s  # [4] of the finite ends of all boxes; low > high if there are none
    bound: Int64s  # these four are those of `Boxes`, in the order of the leaves
    rule: Int32s
    others: UInt64s
    restless: UInt8s
    alive: UInt8s  # [positions] by rule; or [0] if all rules are in force
    node: Int64s  # [4 nodes] the bounds of what is below
    first: Int32s  # [nodes] the first child; ~ the first box, for leaves
    size: Int32s  # [nodes] children or boxes
    roots: Int32s


@bare_step
def line_end(kind, is_high):
    """Return the lowest or highest key of a line, which is where open sides end."""
    if kind == INTEGER:
        return np.int64(HIGHEST) if is_high else np.int64(LOWEST)
    return np.int64(_GREATEST) if is_high else np.int64(_LEAST)


def line_of(kind: int) -> tuple[int, int]:
    """Return the lowest and highest key of a line."""
    return (LOWEST, HIGHEST) if kind == INTEGER else (_LEAST, _GREATEST)


@bare_step
def gap(high, low, kind):
    """Return the difference of the values of two keys, rounded down; infinite at open ends."""
    if low <= line_end(kind, False) or high >= line_end(kind, True):
        return np.inf
    if kind == INTEGER:
        exact = np.uint64(high) - np.uint64(low)  # keys at the seam are one too near
        distance = np.float64(exact)
        if distance >= 2.0**64 or np.uint64(distance) > exact:
            distance = step_down(distance)
        return distance
    a, b = to_number(high, 1), to_number(low, 1)
    distance = a - b
    if distance == np.inf:
        return to_number(np.int64(_GREATEST - 1), 1)
    rounded = distance - a
    error = (a - (distance - rounded)) - (b + rounded)  # of the rounded difference: two-sum
    return step_down(distance) if error < 0.0 else distance


@bare_step
def step_down(value):
    """Return the next lower float of a positive one."""
    return np.int64(np.float64(value).view(np.int64) - 1).view(np.float64)


@bare_step
def hypotenuse(dx, dy):
    """Return the length of a diagonal, rounded down; below 1e-290 that of the longer side."""
    longer, shorter = max(dx, dy), min(dx, dy)
    if shorter == 0.0 or longer < 1e-290 or longer == np.inf:
        return longer
    scale = 1.0
    if longer > 1e150:
        scale = 2.0**-600
    elif longer < 1e-140:
        scale = 2.0**600
    a, b = longer * scale, shorter * scale
    # Two squares, their sum and the root are at most two units in the last place too large.
    length = np.sqrt(a * a + b * b) * (1.0 - 2.0**-51) / scale
    return max(longer, min(length, 1.7976931348623157e308))


# ------------------------------------------------------------ build


def build_fences(boxes: Boxes, kinds: Sequence[int]) -> Fences:
    """Return fences with one tree over boxes."""
    n = len(boxes.rule)
    bound = boxes.bound.reshape(-1, 4)
    hull = _hull_of(bound, kinds)
    x, y = (_centers(bound, axis, kind, hull) for axis, kind in enumerate(kinds))
    order = pack(x, y, CAPACITY) if n else np.empty(0, np.int64)
    bound = bound[order]
    nodes, firsts = [np.empty((0, 4), np.int64)], [np.empty(0, np.int64)]
    sizes: list[np.ndarray] = []
    below, start = bound, 0
    while n and (not sizes or len(below) > 1):
        first = np.arange(0, len(below), CAPACITY)
        sizes.append(np.diff(first, append=len(below)))
        firsts.append(first + start if len(sizes) > 1 else ~first)
        start += len(below) if len(sizes) > 1 else 0
        below = np.stack(
            [
                (np.maximum if side % 2 else np.minimum).reduceat(below[:, side], first)
                for side in range(4)
            ],
            axis=1,
        )
        nodes.append(below)
    node = np.concatenate(nodes)
    return freeze_fields(
        Fences,
        kinds=kinds,
        hull=hull,
        bound=bound.ravel(),
        rule=boxes.rule[order],
        others=boxes.others[order],
        restless=boxes.restless[order],
        alive=[],
        node=node.ravel(),
        first=np.concatenate(firsts),
        size=np.concatenate(sizes) if n else [],
        roots=[len(node) - 1] if n else [],
    )


def join_fences(trees: Sequence[Fences], alive: np.ndarray) -> Fences:
    """Return several trees as one forest; `alive` says by position which rules are in force."""
    boxes = np.cumsum([0, *(len(tree.rule) for tree in trees)])
    nodes = np.cumsum([0, *(len(tree.first) for tree in trees)])
    first = [
        np.where(tree.first < 0, tree.first - box, tree.first + node)
        for tree, box, node in zip(trees, boxes, nodes)
    ]
    hulls = np.stack([tree.hull for tree in trees])
    lows, highs = hulls.min(axis=0), hulls.max(axis=0)
    joined = {
        name: np.concatenate([getattr(tree, name) for tree in trees])
        for name in ("bound", "rule", "others", "restless", "node", "size")
    }
    return freeze_fields(
        Fences,
        kinds=trees[0].kinds,
        hull=[lows[X_LOW], highs[X_HIGH], lows[Y_LOW], highs[Y_HIGH]],
        alive=alive,
        first=np.concatenate(first),
        roots=np.concatenate([tree.roots + by for tree, by in zip(trees, nodes)]),
        **joined,
    )


def _hull_of(bound: np.ndarray, kinds: Sequence[int]) -> np.ndarray:
    hull = []
    for axis, kind in enumerate(kinds):
        ends = bound[:, 2 * axis : 2 * axis + 2].ravel()
        low, high = line_of(kind)
        ends = ends[(ends > low) & (ends < high)]
        hull += [ends.min(initial=HIGHEST), ends.max(initial=NULL)]
    return np.array(hull)


def _centers(bound: np.ndarray, axis: int, kind: int, hull: np.ndarray) -> np.ndarray:
    """Return the middles of boxes as floats, those with open sides within the hull."""
    low, high = hull[2 * axis], hull[2 * axis + 1]
    if low > high:
        return np.zeros(len(bound))
    ends = np.clip(bound[:, 2 * axis : 2 * axis + 2], low, high)
    return (values_of_keys(ends, kind) / 2).sum(axis=1)


def values_of_keys(keys: np.ndarray, kind: int) -> np.ndarray:
    """Return the values of keys as floats."""
    if kind == INTEGER:
        return keys.astype(np.float64)
    return np.where(keys >= 0, keys, NULL - keys).view(np.float64)


def keys_of_values(values: np.ndarray, kind: int) -> np.ndarray:
    """Return the keys of finite or infinite values; integers are below 2**62."""
    if kind == INTEGER:
        return np.asarray(values, np.int64)
    bits = (np.asarray(values, np.float64) + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, NULL - bits)


def boxes_of_values(
    low_x: np.ndarray, high_x: np.ndarray, low_y: np.ndarray, high_y: np.ndarray
) -> Boxes:
    """Return boxes of floats, each a rule of its own; infinite ends are open."""
    bound = np.stack([keys_of_values(v, FLOAT) for v in (low_x, high_x, low_y, high_y)], axis=1)
    n = len(bound)
    return Boxes(
        freeze(bound.ravel(), np.int64),
        freeze(np.arange(n), np.int32),
        freeze(np.zeros(n), np.uint64),
        freeze(np.zeros(n), np.uint8),
    )
