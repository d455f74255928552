"""Trees over points or boxes: geoindex-rs, shapely, scipy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.range_peers.peer import (
    Pairs,
    Peer,
    Points,
    lists_as_pairs,
)
from benchmarks.range_workloads import Workload


class GeoindexJoin(Peer):
    name, package = "geoindex-rs tree_join", "geoindex_rs"
    first_step = "the index over the points"
    bytes_per_pair = 24
    method = "hilbert"

    def __init__(self, workload: Workload):
        from geoindex_rs import rtree

        self.rtree = rtree
        # Half the bytes if all coordinates are exact as float32.
        self.type = "float32" if workload.is_integer else "float64"
        self.boxes = self._tree(*map(self._floats, (*workload.low, *workload.high)))

    def _floats(self, axis: np.ndarray) -> np.ndarray:
        return axis.astype(self.type, copy=False)

    def _tree(self, *bounds: np.ndarray) -> Any:
        builder = self.rtree.RTreeBuilder(len(bounds[0]), coord_type=self.type)
        builder.add(*bounds)
        return builder.finish(self.method)

    def to_native(self, points: Points) -> Points:
        return [self._floats(axis) for axis in points]

    def load(self, points: Points) -> Any:
        return self._tree(*points, *points)

    def join(self, loaded: Any, is_large: bool) -> Iterator[Any]:
        yield self.rtree.tree_join(loaded, self.boxes)

    def pairs(self, result: Any) -> Iterable[Pairs]:
        yield np.asarray(result["left"]), np.asarray(result["right"])


class GeoindexJoinTiles(GeoindexJoin):
    name = "geoindex-rs tree_join, sort-tile"
    method = "str"


class GeoindexSearch(GeoindexJoin):
    name = "geoindex-rs search, a call per point"
    first_step = ""
    bytes_per_pair = 6
    remark = "ids only, an array per point"

    def to_native(self, points: Points) -> Any:
        return [axis.tolist() for axis in points]

    def load(self, points: Any) -> Any:
        return points

    def join(self, loaded: Any, is_large: bool) -> Iterator[Any]:
        search, boxes = self.rtree.search, self.boxes
        yield [search(boxes, x, y, x, y) for x, y in zip(*loaded)]

    def pairs(self, result: Any) -> Iterable[Pairs]:
        return lists_as_pairs([np.asarray(ids) for ids in result])


class GeoindexRange(Peer):
    name, package = "geoindex-rs KDTree over the points, one call per box", "geoindex_rs"
    first_step = "the index over the points"
    bytes_per_pair = 6
    remark = "ids only, an array per box, by rule instead of by event"

    def __init__(self, workload: Workload):
        from geoindex_rs import kdtree

        self.kdtree = kdtree
        self.type = "float32" if workload.is_integer else "float64"
        self.boxes = [axis.tolist() for axis in (*workload.low, *workload.high)]

    def to_native(self, points: Points) -> Points:
        return [axis.astype(self.type, copy=False) for axis in points]

    def load(self, points: Points) -> Any:
        builder = self.kdtree.KDTreeBuilder(len(points[0]), coord_type=self.type)
        builder.add(*points)
        return builder.finish()

    def join(self, loaded: Any, is_large: bool) -> Iterator[Any]:
        search = self.kdtree.range
        yield [search(loaded, *box) for box in zip(*self.boxes)]

    def pairs(self, result: Any) -> Iterable[Pairs]:
        for rules, events in lists_as_pairs([np.asarray(ids) for ids in result]):
            yield events, rules


class ShapelyBoxes(Peer):
    name, package = "shapely STRtree over the boxes", "shapely"
    first_step = "creating the points"
    bytes_per_pair = 48  # two growing vectors, then the array

    def __init__(self, workload: Workload):
        import shapely

        self.shapely = shapely
        self.boxes = shapely.box(*workload.low, *workload.high)
        self.tree = shapely.STRtree(self.boxes)
        self.tree.query(shapely.Point(0, 0))  # the first query builds the tree

    def load(self, points: Points) -> Any:
        return self.shapely.points(*points)

    def join(self, loaded: Any, is_large: bool) -> Iterator[Any]:
        yield self.tree.query(loaded)  # compares bounds, which is exact for points and boxes

    def pairs(self, result: Any) -> Iterable[Pairs]:
        yield result[0], result[1]


class ShapelyPoints(ShapelyBoxes):
    name = "shapely STRtree over the points"
    first_step = "creating the points and their tree"

    def __init__(self, workload: Workload):
        import shapely

        self.shapely = shapely
        self.boxes = shapely.box(*workload.low, *workload.high)

    def load(self, points: Points) -> Any:
        tree = self.shapely.STRtree(self.shapely.points(*points))
        tree.query(self.shapely.Point(-1e9, -1e9))
        return tree

    def join(self, loaded: Any, is_large: bool) -> Iterator[Any]:
        yield loaded.query(self.boxes)

    def pairs(self, result: Any) -> Iterable[Pairs]:
        yield result[1], result[0]


class Scipy(Peer):
    name, package = "scipy cKDTree", "scipy.spatial"
    first_step = "the index over the points"
    bytes_per_pair = 48
    counts = True
    remark = "maximum norm, a join per size of square"

    def __init__(self, workload: Workload):
        from scipy.spatial import cKDTree

        self.tree = cKDTree
        low, high = np.array(workload.low), np.array(workload.high)
        sides = np.round(high - low, 12)[0]
        self.groups = []
        for side in np.unique(sides):
            ids = np.flatnonzero(sides == side)
            self.groups.append((ids, side / 2, cKDTree(((low + high) / 2).T[ids])))

    @staticmethod
    def refusal(workload: Workload) -> str:
        if len(workload.low) != 2:
            return "two attributes only"
        sides = {tuple(np.unique(np.round(h - w, 12))) for w, h in zip(workload.low, workload.high)}
        has_few_sizes = len(sides) == 1 and len(next(iter(sides))) <= 2
        return (
            ""
            if has_few_sizes
            else "left out: it searches by distance, and these rectangles have many sizes"
        )

    def to_native(self, points: Points) -> np.ndarray:
        return np.ascontiguousarray(np.array(points).T)

    def load(self, points: np.ndarray) -> Any:
        return self.tree(points)

    def join(self, loaded: Any, is_large: bool) -> Iterator[Any]:
        yield [
            loaded.sparse_distance_matrix(squares, radius, p=np.inf, output_type="ndarray")
            for _, radius, squares in self.groups
        ]

    def pairs(self, result: Any) -> Iterable[Pairs]:
        for (ids, _, _), pairs in zip(self.groups, result):
            yield pairs["i"], ids[pairs["j"]]

    def count(self, points: np.ndarray) -> Any:
        return sum(
            squares.query_ball_point(points, radius, p=np.inf, return_length=True)
            for _, radius, squares in self.groups
        )
