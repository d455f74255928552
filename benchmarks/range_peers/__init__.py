"""Libraries that can be used for range matching instead, each with the best settings we know."""

from benchmarks.range_peers.by_hand import ListPerCell
from benchmarks.range_peers.engines import DuckDB, Polars, PolarsStreaming, SedonaDB
from benchmarks.range_peers.intervals import Ncls, SortedNumPy, SuperIntervals
from benchmarks.range_peers.peer import Peer
from benchmarks.range_peers.trees import (
    GeoindexJoin,
    GeoindexJoinTiles,
    GeoindexRange,
    GeoindexSearch,
    Scipy,
    ShapelyBoxes,
    ShapelyPoints,
)

PEERS: tuple[type[Peer], ...] = (
    GeoindexJoin,
    GeoindexJoinTiles,
    GeoindexSearch,
    GeoindexRange,
    ShapelyBoxes,
    ShapelyPoints,
    Scipy,
    DuckDB,
    Polars,
    PolarsStreaming,
    SedonaDB,
    Ncls,
    SuperIntervals,
    SortedNumPy,
    ListPerCell,
)
