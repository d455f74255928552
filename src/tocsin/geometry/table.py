"""`ShapeTable`: n shapes as flat arrays, and what kernels derive from them.

What is stored is the first five arrays. `heads`, `classes`, `cells` and `lists` are the rasters
(`rasters.py`), which are built from these. A test of a point reads the shape's head and a
class; for points by an edge also a cell and vertices, seldom a list of them. So it costs two to
four cache lines. A vertex takes 16 bytes, and its share of the rasters three to five times as much;
see `nbytes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tocsin.errors import StoreError
from tocsin.geometry.rasters import CELL, HEAD, LIST, VERTEX, build_rasters
from tocsin.geometry.shape import Kind, Shape
from tocsin.jit import Float64s, Int32s, Int64s, UInt8s, field_types, freeze_fields

STORED = ("kinds", "closed", "rings", "starts", "points")  # the others are derived


class ShapeTable(NamedTuple):
    """n shapes with r rings and v vertices."""

    kinds: UInt8s  # [n] of `Kind`
    closed: UInt8s  # [n] 1 if the edge belongs to the shape
    rings: Int64s  # [n + 1] the rings of shape s are rings[s] to rings[s + 1]
    starts: Int64s  # [r + 1] the vertices of ring r are starts[r] to starts[r + 1]
    points: Float64s  # [2 v] x and y of each vertex; of a disc, see `Kind`
    heads: Float64s  # [HEAD n] see `rasters`
    classes: UInt8s  # [c << CLASS]
    cells: Int32s  # [c]
    lists: Int32s  # [l]

    @property
    def size(self) -> int:
        """The number of shapes."""
        return len(self.kinds)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self)


def build_table(shapes: Sequence[Shape]) -> ShapeTable:
    """Return the table of some shapes, numbered in their order."""
    lengths = [length for shape in shapes for length in shape.lengths]
    return restore(
        kinds=np.array([shape.kind for shape in shapes], np.uint8),
        closed=np.array([shape.closed for shape in shapes], np.uint8),
        rings=np.cumsum([0, *(len(shape.lengths) for shape in shapes)]),
        starts=np.cumsum([0, *lengths]),
        points=np.frombuffer(b"".join(shape.coordinates for shape in shapes)),
    )


def restore(
    kinds: np.ndarray,
    closed: np.ndarray,
    rings: np.ndarray,
    starts: np.ndarray,
    points: np.ndarray,
) -> ShapeTable:
    """Return a table of what is stored; raise StoreError unless kernels may trust it."""
    arrays = dict(zip(STORED, (kinds, closed, rings, starts, points)))
    check_stored(arrays)
    return freeze_fields(ShapeTable, **arrays, **build_rasters(**arrays))


def shape_at(table: ShapeTable, number: int) -> Shape:
    """Return a shape of a table."""
    first, stop = table.rings[number : number + 2].tolist()
    starts = table.starts[first : stop + 1]
    return Shape(
        kind=Kind(table.kinds[number]),
        closed=bool(table.closed[number]),
        lengths=tuple(np.diff(starts).tolist()),
        coordinates=table.points[2 * starts[0] : 2 * starts[-1]].tobytes(),
    )


def take(table: ShapeTable, numbers: np.ndarray) -> ShapeTable:
    """Return a table of the shapes with these numbers, in this order."""
    return build_table([shape_at(table, number) for number in np.asarray(numbers).tolist()])


def concatenate(tables: Sequence[ShapeTable]) -> ShapeTable:
    """Return one table of the shapes of several; rasters are copied."""
    if not tables:
        return build_table([])
    heads = []
    before = np.zeros(3)
    for table in tables:
        own = table.heads.reshape(-1, HEAD).copy()
        own[:, (CELL, LIST, VERTEX)] += before
        before += (len(table.cells), len(table.lists), len(table.points) // 2)
        heads.append(own.ravel())
    columns = {
        name: np.concatenate([getattr(table, name) for table in tables])
        for name in ("kinds", "closed", "points", "classes", "cells", "lists")
    }
    return freeze_fields(
        ShapeTable,
        rings=_join_offsets([table.rings for table in tables]),
        starts=_join_offsets([table.starts for table in tables]),
        heads=np.concatenate(heads),
        **columns,
    )


def _join_offsets(parts: Sequence[np.ndarray]) -> np.ndarray:
    sizes = [np.diff(part) for part in parts]
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]))


# ------------------------------------------------------------ checks


def check_stored(arrays: dict[str, np.ndarray]) -> None:
    """Raise StoreError unless the stored arrays of a table are what kernels rely on.

    Whether rings cross each other is not checked: any rings have an inside by parity.
    """
    dtypes = field_types(ShapeTable)
    for name in STORED:
        array = arrays[name]
        _require(
            array.dtype == dtypes[name] and array.ndim == 1,
            f"array {name!r} must be one-dimensional {dtypes[name]}, got {array.dtype} of shape "
            f"{array.shape}",
        )
    kinds, closed, rings, starts, points = (arrays[name] for name in STORED)
    n = len(kinds)
    _require(len(closed) == n, f"array 'closed' must have {n:,} elements, got {len(closed):,}")
    _require(not n or kinds.max() <= max(Kind), f"'kinds' must be at most {max(Kind)}")
    _require(not n or closed.max() <= 1, "'closed' must be 0 or 1")
    _require(len(starts) > 0, "'starts' must not be empty")
    _check_offsets("rings", rings, n, len(starts) - 1)
    _check_offsets("starts", starts, len(starts) - 1, len(points) // 2)
    _require(len(points) % 2 == 0, "'points' must have two numbers for each vertex")
    _require(bool(np.isfinite(points).all()), "'points' must be finite")
    _require(bool((np.diff(rings) > 0).all()), "a shape must have a ring")
    length = np.diff(starts)
    _require(bool((length >= 2).all()), "a ring must have vertices")
    first, last = starts[:-1], starts[1:] - 1
    pairs = points.reshape(-1, 2)
    kind = np.repeat(kinds, np.diff(rings))
    is_polygon = kind == Kind.POLYGON
    _require(
        bool((pairs[first] == pairs[last])[is_polygon].all()),
        "the last vertex of a ring must be its first",
    )
    _require(
        bool(
            (length[~is_polygon] == 2).all() and (np.diff(rings)[kinds != Kind.POLYGON] == 1).all()
        ),
        "a disc must have a centre and a radius",
    )
    _require(bool((pairs[last[~is_polygon], 0] >= 0).all()), "a radius must not be negative")
    centres = np.abs(pairs[first[kind == Kind.GLOBE_DISC]])
    _require(bool((centres <= (180, 90)).all()), "a centre must have a longitude and a latitude")


def _check_offsets(name: str, offsets: np.ndarray, count: int, end: int) -> None:
    _require(
        len(offsets) == count + 1
        and offsets[0] == 0
        and offsets[-1] == end
        and bool((offsets[1:] >= offsets[:-1]).all()),
        f"{name!r} must be {count + 1:,} numbers that ascend from 0 to {end:,}",
    )


def _require(holds: bool | np.bool_, message: str) -> None:
    if not holds:
        raise StoreError(f"shapes: {message}")
