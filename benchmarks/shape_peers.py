"""What a user would take instead of Tocsin for points in polygons, each with its best settings.

DuckDB's spatial extension comes as a package for one version of DuckDB, so the peers run in an
environment of their own (`make bench` makes it)::

    python -m benchmarks.shape_peers FOLDER NAME

reads `texts.json` and `points.npy` in FOLDER, answers with one peer on one core and prints a line
of JSON. All get points in the form that they like best before the clock starts; what they build
over shapes is timed on its own, and a query is timed until there are pairs of numbers in memory.
This module imports neither Tocsin nor Numba.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

Pairs = tuple[np.ndarray, np.ndarray]  # numbers of points, and of shapes

SECONDS = 6.0  # to repeat a query in


def digest(pairs: Pairs) -> list[int]:
    """Return the number of pairs and the sum of their hashes, in any order."""
    mixed = pairs[0].astype(np.uint64) << np.uint64(32) | pairs[1].astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> np.uint64(shift)) * np.uint64(factor)
    return [len(mixed), int((mixed ^ mixed >> np.uint64(31)).sum(dtype=np.uint64))]


class Peer:
    """Reads shapes and builds an index over them, then finds the shapes of each point."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    remark: ClassVar[str] = ""

    def __init__(self, points: np.ndarray):
        """Bring points into the form that the peer likes best."""
        import shapely

        self.points = shapely.points(points)

    def build(self, texts: list[str]) -> None:
        raise NotImplementedError

    def query(self) -> Any:
        raise NotImplementedError

    def pairs(self, result: Any) -> Pairs:
        return result


class TreeOfShapes(Peer):
    name, packages = "shapely, tree of shapes", ("shapely",)
    remark = "STRtree of shapes, then `intersects_xy` on prepared shapes, pair by pair"

    def __init__(self, points: np.ndarray):
        super().__init__(points)
        self.x, self.y = points.T.copy()

    def build(self, texts: list[str]) -> None:
        import shapely

        self.shapes = shapely.from_wkt(texts)
        shapely.prepare(self.shapes)
        self.tree = shapely.STRtree(self.shapes)

    def query(self) -> Pairs:
        import shapely

        point, shape = self.tree.query(self.points)
        by_shape = np.argsort(shape, kind="stable")  # half the time of the order of points
        point, shape = point[by_shape], shape[by_shape]
        holds = shapely.intersects_xy(self.shapes[shape], self.x[point], self.y[point])
        return point[holds], shape[holds]


class TreeQuery(TreeOfShapes):
    name, packages = "shapely, one query", ("shapely",)
    remark = "`STRtree(shapes).query(points, predicate='intersects')`: what its documents show"

    def query(self) -> Pairs:
        point, shape = self.tree.query(self.points, predicate="intersects")
        return point, shape


class TreeOfPoints(Peer):
    name, packages = "shapely, tree of points", ("shapely",)
    remark = "STRtree of points, in the query; shapes are prepared"

    def build(self, texts: list[str]) -> None:
        import shapely

        self.shapes = shapely.from_wkt(texts)
        shapely.prepare(self.shapes)

    def query(self) -> Pairs:
        import shapely

        tree = shapely.STRtree(self.points)
        shape, point = tree.query(self.shapes, predicate="covers")
        return point, shape


class GeoPandas(Peer):
    name, packages = "geopandas sjoin", ("geopandas",)

    def __init__(self, points: np.ndarray):
        import geopandas

        super().__init__(points)
        self.frame = geopandas.GeoDataFrame(geometry=self.points)

    def build(self, texts: list[str]) -> None:
        import geopandas

        self.shapes = geopandas.GeoDataFrame(geometry=geopandas.GeoSeries.from_wkt(texts))
        _ = self.shapes.sindex

    def query(self) -> Any:
        return self.frame.sjoin(self.shapes, predicate="intersects")

    def pairs(self, result: Any) -> Pairs:
        return result.index.to_numpy(), result["index_right"].to_numpy()


class GeoPandasWithin(GeoPandas):
    name = "geopandas sjoin, within"
    remark = "prepares the shapes, but a point on an edge is not in"

    def query(self) -> Any:
        return self.frame.sjoin(self.shapes, predicate="within")


class SedonaDB(Peer):
    name, packages = "SedonaDB", ("sedonadb", "geoarrow-pyarrow")
    remark = "builds its index over the shapes in each query"

    def __init__(self, points: np.ndarray):
        import pyarrow as pa
        import sedonadb

        self.context = sedonadb.connect()
        for setting in (
            "datafusion.execution.target_partitions = 1",
            "sedona.spatial_join.repartition_probe_side = false",
            "sedona.spatial_join.concurrent_build_side_collection = false",
        ):
            self.context.sql(f"SET {setting}").execute()
        x, y = points.T.copy()
        table = pa.table({"point": np.arange(len(points)), "x": x, "y": y})
        self.context.create_data_frame(table).to_view("raw_points")
        query = "SELECT point, ST_Point(x, y) AS place FROM raw_points"
        self.context.sql(query).to_memtable().to_view("points")

    def build(self, texts: list[str]) -> None:
        import pyarrow as pa

        table = pa.table({"shape": np.arange(len(texts)), "text": texts})
        self.context.create_data_frame(table).to_view("texts", overwrite=True)
        query = "SELECT shape, ST_GeomFromText(text) AS polygon FROM texts"
        self.context.sql(query).to_memtable().to_view("shapes", overwrite=True)

    def query(self) -> Any:
        import pyarrow as pa

        pairs = self.context.sql(
            "SELECT point, shape FROM points JOIN shapes ON ST_Intersects(polygon, place)"
        )
        return pa.RecordBatchReader.from_stream(pairs).read_all()

    def pairs(self, result: Any) -> Pairs:
        return result["point"].to_numpy(), result["shape"].to_numpy()


class DuckDB(Peer):
    name, packages = "DuckDB spatial", ("duckdb-extension-spatial", "pandas")
    remark = "its join by an R-tree over the shapes, built in each query"

    def __init__(self, points: np.ndarray):
        import duckdb
        import duckdb_extension_spatial
        import pandas as pd

        folder = Path(duckdb_extension_spatial.__file__).parent
        (extension,) = folder.rglob("spatial.duckdb_extension")
        config = {"threads": 1, "allow_unsigned_extensions": "true"}
        self.connection = duckdb.connect(config=config)
        self.connection.execute(f"LOAD '{extension}'")
        frame = pd.DataFrame(
            {"point": np.arange(len(points)), "x": points[:, 0], "y": points[:, 1]}
        )
        self.connection.register("raw_points", frame)
        self.connection.execute(
            "CREATE TABLE points AS SELECT point, ST_Point(x, y) AS place FROM raw_points"
        )

    def build(self, texts: list[str]) -> None:
        import pandas as pd

        self.connection.register("texts", pd.DataFrame({"shape": range(len(texts)), "text": texts}))
        self.connection.execute(
            "CREATE OR REPLACE TABLE shapes AS "
            "SELECT shape, ST_GeomFromText(text) AS polygon FROM texts"
        )

    def query(self) -> Any:
        return self.connection.execute(
            "SELECT point, shape FROM points JOIN shapes ON ST_Intersects(polygon, place)"
        ).fetchnumpy()

    def pairs(self, result: Any) -> Pairs:
        return result["point"], result["shape"]


class Tg(Peer):
    name, packages = "tg (togo)", ("togo", "shapely")
    remark = "candidates by shapely's STRtree; then a call from Python for each pair"

    def __init__(self, points: np.ndarray):
        import togo

        super().__init__(points)
        self.native = [togo.Point(x, y).as_geometry() for x, y in points.tolist()]

    def build(self, texts: list[str]) -> None:
        import shapely
        import togo

        self.shapes = [togo.Geometry(text, fmt="wkt") for text in texts]
        self.tree = shapely.STRtree(shapely.from_wkt(texts))

    def query(self) -> Pairs:
        point, shape = self.tree.query(self.points)
        points, shapes = self.native, self.shapes
        holds = np.array(
            [shapes[s].intersects(points[p]) for p, s in zip(point.tolist(), shape.tolist())], bool
        )
        return point[holds], shape[holds]


PEERS: dict[str, type[Peer]] = {
    peer.__name__: peer
    for peer in (
        TreeOfShapes, TreeQuery, TreeOfPoints, GeoPandas, GeoPandasWithin, SedonaDB, DuckDB, Tg,
    )
}  # fmt: skip


def versions(names: str) -> str:
    """Return the versions of installed packages."""
    return ", ".join(f"{name} {version_of(name)}" for name in names.split() if version_of(name))


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def missing_package(peer: type[Peer]) -> str | None:
    return next((package for package in peer.packages if not version_of(package)), None)


def best(call: Callable[[], Any], seconds: float) -> tuple[float, Any]:
    """Return the least seconds of one to five calls, and the last result."""
    least, begin = float("inf"), time.perf_counter()
    for _ in range(5):
        start = time.perf_counter()
        result = call()
        least = min(least, time.perf_counter() - start)
        if time.perf_counter() - begin > seconds:
            break
    return least, result


def main() -> None:
    for pool in ("POLARS_MAX", "RAYON_NUM", "OMP_NUM", "OPENBLAS_NUM", "TOKIO_WORKER"):
        os.environ[f"{pool}_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    folder, name = Path(sys.argv[1]), sys.argv[2]
    kind = PEERS[name]
    if package := missing_package(kind):
        print(json.dumps({"missing": package}))
        return
    texts = json.loads((folder / "texts.json").read_text())
    peer = kind(np.load(folder / "points.npy"))
    build, _ = best(lambda: peer.build(texts), SECONDS / 4)
    query, result = best(peer.query, SECONDS)
    pairs = digest(peer.pairs(result))
    print(json.dumps({"build": build, "query": query, "pairs": pairs}))


if __name__ == "__main__":
    main()
