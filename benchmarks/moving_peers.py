"""What people write today to know who enters and leaves: a tree, and a difference by hand.

All find the fences of the new positions by shapely's STRtree over the boxes, in one bulk query: the
tree compares bounds, which is exact for points and boxes. They differ in what they compare these
pairs with, and by which means. Each keeps what it needs for the next step. They do less than a
monitor: an object has one position in a step, none is late, and fences stay as they are. For text
keys they first look up the number of each object in a pandas index of all of them, which is faster
than any of them is with texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

# Objects, fences, and whether it is an enter.
Difference = tuple[np.ndarray, np.ndarray, np.ndarray]


class TreeAndDifference:
    """Finds pairs of objects and fences, and leaves the difference to others."""

    name = ""

    def __init__(self, boxes: np.ndarray, keys: pa.Array, x: np.ndarray, y: np.ndarray):
        import shapely

        self.shapely = shapely
        self.fences = boxes.shape[1]
        self.tree = shapely.STRtree(shapely.box(*boxes))
        self.numbers: Callable[[Any], np.ndarray] = lambda keys: keys
        if pa.types.is_large_string(keys.type):
            import pandas

            self.numbers = pandas.Index(keys.to_numpy(zero_copy_only=False)).get_indexer
        self.begin(np.arange(len(keys)), x, y)

    def find(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return pairs of a point and a fence."""
        points, fences = self.tree.query(self.shapely.points(x, y))
        return points, fences

    def begin(self, objects: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        """Take the first positions of all objects."""
        raise NotImplementedError

    def move(self, objects: np.ndarray, x: np.ndarray, y: np.ndarray) -> Difference:
        """Take the new positions of some objects, given by number."""
        raise NotImplementedError

    def step(self, keys: np.ndarray, x: np.ndarray, y: np.ndarray) -> Difference:
        return self.move(self.numbers(keys), x, y)


class PandasPairs(TreeAndDifference):
    """An outer merge with the last pairs."""

    name = "shapely, pandas: merge with the last pairs"

    def begin(self, objects: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        import pandas

        self.pandas = pandas
        points, fences = self.find(x, y)
        self.last = pandas.DataFrame({"object": objects[points], "fence": fences})

    def move(self, objects: np.ndarray, x: np.ndarray, y: np.ndarray) -> Difference:
        points, fences = self.find(x, y)
        now = self.pandas.DataFrame({"object": objects[points], "fence": fences})
        has_moved = self.last["object"].isin(objects)
        both = self.last[has_moved].merge(now, how="outer", indicator=True)
        self.last = self.pandas.concat([self.last[~has_moved], now], ignore_index=True)
        events = both[both["_merge"] != "both"]
        is_enter = (events["_merge"] == "right_only").to_numpy()
        return events["object"].to_numpy(), events["fence"].to_numpy(), is_enter


class DuckPairs(TreeAndDifference):
    """Anti-joins with a table of the last pairs, which is written anew: updates take longer."""

    name = "shapely, DuckDB: anti-joins with the last pairs"

    def begin(self, objects: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        import duckdb

        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        self.register(objects, x, y)
        self.connection.execute("CREATE TABLE last AS SELECT * FROM now")

    def register(self, objects: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        points, fences = self.find(x, y)
        self.connection.register("moved", pa.table({"object": objects}))
        self.connection.register("now", pa.table({"object": objects[points], "fence": fences}))

    def move(self, objects: np.ndarray, x: np.ndarray, y: np.ndarray) -> Difference:
        self.register(objects, x, y)
        events = self.connection.execute(
            """
            WITH before AS (SELECT * FROM last SEMI JOIN moved USING (object))
            SELECT *, true AS enters FROM now ANTI JOIN before USING (object, fence)
            UNION ALL
            SELECT *, false FROM before ANTI JOIN now USING (object, fence)
            """
        ).fetchnumpy()
        self.connection.execute(
            """
            CREATE OR REPLACE TABLE last AS
            SELECT * FROM last ANTI JOIN moved USING (object) UNION ALL SELECT * FROM now
            """
        )
        return events["object"], events["fence"], events["enters"]


class NumpyPositions(TreeAndDifference):
    """A difference of sorted pairs; those of the last positions are looked up in the tree again."""

    name = "shapely, NumPy: pairs of the last positions, looked up again"

    def begin(self, objects: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x.copy(), y.copy()

    def pairs(self, objects: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        points, fences = self.find(x, y)
        return objects[points] * self.fences + fences

    def move(self, objects: np.ndarray, x: np.ndarray, y: np.ndarray) -> Difference:
        before = self.pairs(objects, self.x[objects], self.y[objects])
        now = self.pairs(objects, x, y)
        self.x[objects], self.y[objects] = x, y
        return self.difference(before, now)

    def difference(self, before: np.ndarray, now: np.ndarray) -> Difference:
        left = np.setdiff1d(before, now, assume_unique=True)
        entered = np.setdiff1d(now, before, assume_unique=True)
        pairs = np.concatenate([left, entered])
        return pairs // self.fences, pairs % self.fences, np.arange(len(pairs)) >= len(left)


class NumpyPairs(NumpyPositions):
    """A difference with the last pairs, found by a mask of the objects that moved."""

    name = "shapely, NumPy: the last pairs, by a mask"

    def begin(self, objects: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        self.last = self.pairs(objects, x, y)
        self.owner = self.last // self.fences
        self.has_moved = np.zeros(len(objects), bool)

    def move(self, objects: np.ndarray, x: np.ndarray, y: np.ndarray) -> Difference:
        now = self.pairs(objects, x, y)
        self.has_moved[objects] = True
        is_old = self.has_moved[self.owner]
        self.has_moved[objects] = False
        before = self.last[is_old]
        self.last = np.concatenate([self.last[~is_old], now])
        self.owner = np.concatenate([self.owner[~is_old], now // self.fences])
        return self.difference(before, now)


PEERS = (PandasPairs, DuckPairs, NumpyPositions, NumpyPairs)
