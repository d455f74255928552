"""From rules to boxes: what conjunctions allow for the two position columns.

The boxes of a segment never change, so its tree is built once and kept as long as the segment. The
forest of a version joins the trees of its segments, and says which rules are removed.

An attribute that is not a position is a bit of a mask, by its number in the schema; the last bit is
shared by all attributes from there on. A term over a position column, or over the time, makes a box
restless: nothing is known of it but where it ends. So does a shape within its bounding box.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tocsin.engine.segment import Segment
from tocsin.engine.version import Version
from tocsin.jit import freeze, freeze_fields
from tocsin.model.attributes import Attributes
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.predicates import INTERVAL, NOT_SET
from tocsin.model.residuals import Residuals
from tocsin.model.shape_boxes import box_interval
from tocsin.moving.regions.layout import Boxes, Fences, build_fences, join_fences, line_of

SHARED = 63  # the bit of all attributes from this number on
_MOST = 4096  # boxes of a conjunction; chosen: one with more, by sets, is a restless box

# What an attribute is.
_X, _Y, _OTHER, _RESTLESS, _CONSTANT = range(5)


class Columns(NamedTuple):
    """The columns that decide what an attribute is, in lower case, and what positions are."""

    x: str
    y: str
    time: str
    key: str  # always the same for an object
    kinds: tuple[int, int]  # INTEGER or FLOAT, of x and y


_trees: weakref.WeakKeyDictionary[Segment, dict[Columns, Fences]] = weakref.WeakKeyDictionary()


def fences_of(version: Version, columns: Columns) -> Fences:
    """Return the forest of a version."""
    trees = [_tree_of(live.segment, version.attributes, columns) for live in version.segments]
    if not trees:
        return build_fences(_no_boxes(), columns.kinds)
    alive = np.empty(0, np.uint8)
    if any(live.removed.size for live in version.segments):
        alive = np.zeros(version.next_position, np.uint8)
        alive[version.positions()] = 1
    return join_fences(trees, alive)


def select_fences(version: Version, columns: Columns, is_wanted: np.ndarray) -> Fences:
    """Return one tree over the boxes of some rules; `is_wanted` is by position."""
    boxes = [_no_boxes()]
    for live in version.segments:
        if is_wanted[live.segment.positions].any():
            tree = _tree_of(live.segment, version.attributes, columns)
            rows = np.flatnonzero(is_wanted[tree.rule])
            bound = tree.bound.reshape(-1, 4)[rows].ravel()
            boxes.append(Boxes(bound, tree.rule[rows], tree.others[rows], tree.restless[rows]))
    return build_fences(_concatenate(boxes), columns.kinds)


def _concatenate(boxes: Sequence[Boxes]) -> Boxes:
    joined = {name: np.concatenate([getattr(b, name) for b in boxes]) for name in Boxes._fields}
    return freeze_fields(Boxes, **joined)


def _tree_of(segment: Segment, attributes: Attributes, columns: Columns) -> Fences:
    trees = _trees.setdefault(segment, {})
    if columns not in trees:
        roles = np.full(len(attributes), _OTHER, np.uint8)
        for a in segment.attributes:
            roles[a] = _role_of(a, attributes, columns)
        parts = [_no_boxes()]
        for part in segment.parts:
            located = locate(segment.residuals, part.conjunctions, roles, attributes)
            parts.append(boxes_of(part.conjunctions, roles, columns.kinds, located))
        trees[columns] = build_fences(_concatenate(parts), columns.kinds)
    return trees[columns]


def _role_of(attribute: int, attributes: Attributes, columns: Columns) -> int:
    used = {name.lower() for name in attributes.columns_of([attribute])}
    if attribute not in attributes.terms and used & {columns.x, columns.y}:
        return _X if columns.x in used else _Y
    if used & {columns.x, columns.y, columns.time}:
        return _RESTLESS
    return _CONSTANT if used <= {columns.key} else _OTHER


def _no_boxes() -> Boxes:
    return freeze_fields(Boxes, bound=[], rule=[], others=[], restless=[])


class Located(NamedTuple):
    """What tests of shapes decide of conjunctions."""

    is_restless: np.ndarray  # bool [n] in the whole box
    others: np.ndarray  # uint64 [n]
    inner: list[tuple[int, list[int]]]  # in this box of a conjunction


def locate(
    residuals: Residuals | None, c: Conjunctions, roles: np.ndarray, attributes: Attributes
) -> Located:
    """Return what tests of shapes decide: everything within the bounding box of a shape."""
    located = Located(np.zeros(c.size, bool), np.zeros(c.size, np.uint64), [])
    if residuals is None:
        return located
    rows, offsets = residuals.rows_of(c)
    owners = np.repeat(np.arange(c.size), np.diff(offsets))
    for owner, row in zip(owners.tolist(), rows.tolist(), strict=True):
        test = residuals.at(row)
        own = [int(roles[axis.attribute]) for axis in (test.x, test.y)]
        if set(own) <= {_OTHER, _CONSTANT}:
            for axis, role in zip((test.x, test.y), own, strict=True):
                bit = np.uint64(1) << np.uint64(min(axis.attribute, SHARED))
                located.others[owner] |= bit * np.uint64(role == _OTHER)
        elif not test.negated or set(own) != {_X, _Y}:
            located.is_restless[owner] = True
        else:  # outside of a shape: this is certain outside of its bounding boxes
            for box in test.shape.boxes:
                sides: list[list[int]] = [[], []]
                for number, (axis, role) in enumerate(zip((test.x, test.y), own, strict=True)):
                    ends = box[2 * number : 2 * number + 2]
                    found = box_interval(attributes.kind(axis.attribute), *ends)
                    sides[role] = [1, 0] if found is None else [found.low, found.high]
                located.inner.append((owner, sides[0] + sides[1]))
    return located


def boxes_of(c: Conjunctions, roles: np.ndarray, kinds: Sequence[int], located: Located) -> Boxes:
    """Return the boxes of conjunctions; `roles` says what each attribute is."""
    lines = [line_of(kind) for kind in kinds]
    bound = np.tile(np.array(lines).ravel(), (c.size, 1))
    owner, role = np.repeat(np.arange(c.size), np.diff(c.offsets)), roles[c.attribute]
    for axis, (low, high) in enumerate(lines):
        rows = np.flatnonzero((role == axis) & (c.kind == INTERVAL))
        bound[owner[rows], 2 * axis] = np.maximum(c.low[rows], low)
        bound[owner[rows], 2 * axis + 1] = np.minimum(c.high[rows], high)
    others, restless = located.others.copy(), located.is_restless.astype(np.uint8)
    rows = np.flatnonzero(role == _OTHER)
    bits = np.uint64(1) << np.minimum(c.attribute[rows], SHARED).astype(np.uint64)
    np.bitwise_or.at(others, owner[rows], bits)
    restless[owner[role == _RESTLESS]] = 1
    sets = np.flatnonzero((role <= _Y) & (c.kind != INTERVAL))
    number = np.arange(c.size)
    if len(sets):
        with_sets = np.unique(owner[sets])
        pieces = [_split(c, int(i), roles, bound[i]) for i in with_sets]
        for i, own in zip(with_sets, pieces, strict=True):
            restless[i] |= own is None
        rest = np.setdiff1d(number, [i for i, p in zip(with_sets, pieces) if p is not None])
        found = [(i, p) for i, p in zip(with_sets, pieces) if p is not None]
        number = np.concatenate([rest, *(np.full(len(p), i) for i, p in found)])
        bound = np.concatenate([bound[rest], *(p for _, p in found)])
    restless = restless[number]
    for i, box in located.inner:
        own = bound[number == i]
        low, high = np.maximum(own[:, ::2], box[::2]), np.minimum(own[:, 1::2], box[1::2])
        inner = np.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]], axis=1)
        bound = np.concatenate([bound, inner])
        number = np.concatenate([number, np.full(len(inner), i)])
        restless = np.concatenate([restless, np.ones(len(inner), np.uint8)])
    keep = (bound[:, 0] <= bound[:, 1]) & (bound[:, 2] <= bound[:, 3])
    number = number[keep]
    return Boxes(
        freeze(bound[keep].ravel(), np.int64),
        freeze(c.rule[number], np.int32),
        freeze(others[number], np.uint64),
        freeze(restless[keep], np.uint8),
    )


def _split(c: Conjunctions, number: int, roles: np.ndarray, bound: np.ndarray) -> np.ndarray | None:
    """Return the boxes of a conjunction with sets; None if there are too many."""
    ends = bound.tolist()
    sides = [[(ends[0], ends[1])], [(ends[2], ends[3])]]
    for row in range(int(c.offsets[number]), int(c.offsets[number + 1])):
        axis = int(roles[c.attribute[row]])
        if axis > _Y or c.kind[row] == INTERVAL:
            continue
        low, high = sides[axis][0]
        points = [p for p in c.points[c.low[row] : c.high[row]].tolist() if low <= p <= high]
        if c.kind[row] == NOT_SET:
            starts, ends = [low, *(p + 1 for p in points)], [*(p - 1 for p in points), high]
            sides[axis] = [(a, b) for a, b in zip(starts, ends, strict=True) if a <= b]
        else:
            sides[axis] = [(p, p) for p in points]
    if len(sides[0]) * len(sides[1]) > _MOST:
        return None
    boxes = [(*own_x, *own_y) for own_x in sides[0] for own_y in sides[1]]
    return np.array(boxes, np.int64).reshape(-1, 4)
