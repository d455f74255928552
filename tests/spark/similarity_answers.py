"""A similarity join on Spark, and the same in one process."""

from unittest import mock

import numpy as np
import pyarrow as pa

import tocsin.spark
from tocsin import similarity

ON = ["x", "y", "z"]
EPSILON = 0.12


def tables():
    """Return two tables with the same coordinates in different order, and other columns."""
    rng = np.random.default_rng(0)
    crowd = 0.5 + 0.01 * rng.random((150, 3))  # smaller than epsilon
    a, b = np.vstack([rng.random((700, 3)), crowd]), np.vstack([rng.random((600, 3)), crowd])
    left = {"id": np.arange(len(a)), **{name: a[:, i] for i, name in enumerate(ON)}}
    names = [None if i % 7 == 0 else f"b{i}" for i in range(len(b))]
    right = {"z": b[:, 2], "y": b[:, 1], "X": b[:, 0], "name": names, "id": np.arange(len(b))}
    return pa.table(left), pa.table(right)


def join_in_one_process():
    """Return (id in a, id in b, distance) of all pairs."""
    a, b = tables()
    b = b.rename_columns([name.lower() for name in b.column_names])
    found = similarity.join(a.select(ON), b.select(ON), EPSILON)
    return sorted(zip(*(x.tolist() for x in (*found.pairs(), found.distances)), strict=True))


def join_on_spark(session, partitions):
    """Return the same of a join on Spark."""
    a, b = (session.createDataFrame(table).repartition(partitions) for table in tables())
    with mock.patch.object(tocsin.spark.similarity, "_ROWS_PER_PART", 100):  # so there are many
        joined = tocsin.spark.similarity_join(a, b, on=ON, epsilon=EPSILON)
    rows = joined.select("id_a", "id_b", "distance").collect()
    return sorted(map(tuple, rows))
