"""Engines that join tables: DuckDB, Polars, SedonaDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.range_peers.peer import (
    Pairs,
    Peer,
    Points,
    arrow_pair,
)
from benchmarks.range_workloads import Workload, point_table


class DuckDB(Peer):
    name, package = "DuckDB", "duckdb"
    streams = counts = True

    def __init__(self, workload: Workload):
        import duckdb

        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1; SET memory_limit = '10GB'")
        self.connection.register("rule_table", workload.rule_table("rule"))
        self.connection.execute("CREATE TABLE rules AS SELECT * FROM rule_table")
        tests = [f"{a} BETWEEN {a}_low AND {a}_high" for a in workload.schema]
        self.source = f"points JOIN rules ON {' AND '.join(tests)}"

    @staticmethod
    def refusal(workload: Workload) -> str:
        return ""

    def to_native(self, points: Points) -> pa.Table:
        return point_table(points, numbered=True)

    def join(self, loaded: pa.Table, is_large: bool) -> Iterator[Any]:
        self.connection.register("points", loaded)
        pairs = self.connection.sql(f"SELECT event, rule FROM {self.source}")
        if is_large:
            yield from pairs.to_arrow_reader(1 << 20)
        else:
            yield pairs.to_arrow_table()

    def pairs(self, result: Any) -> Iterable[Pairs]:
        yield arrow_pair(result)

    def count(self, points: pa.Table) -> Any:
        self.connection.register("points", points)
        query = f"SELECT event, count(*) AS n FROM {self.source} GROUP BY event"
        return self.connection.execute(query).fetchnumpy()["n"]


class Polars(Peer):
    name, package = "Polars join_where", "polars"
    engine: ClassVar[str] = "in-memory"
    bytes_per_pair = 40

    def __init__(self, workload: Workload):
        import polars

        self.polars = polars
        self.ends = [(np.sort(a), np.sort(b)) for a, b in zip(workload.low, workload.high)]
        self.rules = polars.from_arrow(workload.rule_table("rule")).lazy()
        column = polars.col
        self.tests = [
            test
            for a in workload.schema
            for test in (column(a) >= column(f"{a}_low"), column(a) <= column(f"{a}_high"))
        ]

    @staticmethod
    def refusal(workload: Workload) -> str:
        return ""

    def bytes_needed(self, points: Points, pairs: int) -> int:
        """Its inequality join is over one attribute; it holds all pairs of that attribute."""
        candidates = [
            int((np.searchsorted(low, x, "right") - np.searchsorted(high, x, "left")).sum())
            for (low, high), x in zip(self.ends, points)
        ]
        return max(candidates) * self.bytes_per_pair

    def to_native(self, points: Points) -> Any:
        return self.polars.from_arrow(point_table(points, numbered=True))

    def join(self, loaded: Any, is_large: bool) -> Iterator[Any]:
        pairs = loaded.lazy().join_where(self.rules, *self.tests).select("event", "rule")
        yield pairs.collect(engine=self.engine)

    def pairs(self, result: Any) -> Iterable[Pairs]:
        yield result["event"].to_numpy(), result["rule"].to_numpy()


class PolarsStreaming(Polars):
    name = "Polars join_where, streaming engine"
    engine = "streaming"


class SedonaDB(Peer):
    name, package = "SedonaDB ST_Intersects", "sedonadb"
    streams = True
    remark = "creates points and builds its index over the rules in each query"

    def __init__(self, workload: Workload):
        import sedonadb

        self.context = sedonadb.connect()
        for setting in (
            "datafusion.execution.target_partitions = 1",
            "sedona.spatial_join.repartition_probe_side = false",
            "sedona.spatial_join.concurrent_build_side_collection = false",
        ):
            self.context.sql(f"SET {setting}").execute()
        self.context.create_data_frame(workload.rule_table("rule")).to_view("rule_table")
        bounds = ", ".join(f"CAST({b} AS DOUBLE)" for b in ("x_low", "y_low", "x_high", "y_high"))
        query = f"SELECT rule, ST_MakeEnvelope({bounds}) AS box FROM rule_table"
        self.context.sql(query).to_memtable().to_view("rules")

    def to_native(self, points: Points) -> pa.Table:
        return point_table([axis.astype(np.float64, copy=False) for axis in points], numbered=True)

    def join(self, loaded: pa.Table, is_large: bool) -> Iterator[Any]:
        self.context.create_data_frame(loaded).to_view("points", overwrite=True)
        pairs = self.context.sql(
            "SELECT event, rule FROM (SELECT event, ST_Point(x, y) AS point FROM points) "
            "JOIN rules ON ST_Intersects(box, point)"
        )
        reader = pa.RecordBatchReader.from_stream(pairs)
        if is_large:
            yield from reader
        else:
            yield reader.read_all()

    def pairs(self, result: Any) -> Iterable[Pairs]:
        yield arrow_pair(result)
