"""Similarity joins on Spark against the joins that a user would write instead.

    python -m benchmarks.similarity_spark [--size tiny|full] [--out FILE]

A million points and a million in four dimensions, about five pairs per point; local mode, two
cores, all warm, taking turns. Every way returns the ids of the pairs, which are written to a sink
that drops them. The exact ways are compared by the number of pairs and the sum of their hashes.
A cross join and MLlib's LSH would take hours: they join fewer points with the same epsilon, and
their time is scaled by the number of comparisons, which is quadratic for both. `tiny` only shows
that the benchmark runs; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import math
import platform
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import tocsin.spark
from benchmarks.tables import Section, show, write
from benchmarks.timing import check, log, package_versions

TARGET = 3  # times as fast as the best exact way without Tocsin
PAIRS_PER_POINT = 5
COORDINATES = ["x0", "x1", "x2", "x3"]
SIZES = {"tiny": 2_000, "full": 1_000_000}
# Points of the quadratic ways, at most: 400 million comparisons take less than a minute.
MOST_QUADRATIC = 20_000
# Cells are wider than epsilon by this share, so that rounding puts no pair two cells apart.
MARGIN = 1e-6


Way = Callable[[Any, Any, float], Any]  # from two frames and epsilon to pairs of ids


class LshSettings(NamedTuple):
    """Settings of MLlib's BucketedRandomProjectionLSH."""

    tables: int
    bucket: float  # the length of a bucket, in epsilons

    def __str__(self) -> str:
        tables = f"{self.tables} table{'s' * (self.tables != 1)}"
        return f"{tables}, buckets of {self.bucket:g} epsilon"


# A bucket holds all points between two parallel planes, and pairs in a bucket of any table are
# compared. So narrow buckets and few tables compare less, wide buckets and many tables find more.
LSH_TRIED = [LshSettings(1, 1), LshSettings(1, 4), LshSettings(3, 1), LshSettings(3, 4)]


def choose_epsilon(n: int) -> float:
    """Return the epsilon of five pairs per point: a ball in 4-D has a volume of pi^2 / 2 eps^4."""
    return (PAIRS_PER_POINT / n / (math.pi**2 / 2)) ** 0.25


# ------------------------------------------------------------ ways to join


def join_with_tocsin(a: Any, b: Any, epsilon: float) -> Any:
    return tocsin.spark.similarity_join(a, b, on=COORDINATES, epsilon=epsilon).select(
        "id_a", "id_b"
    )


def _name_sides(a: Any, b: Any) -> tuple[Any, Any]:
    """Return both sides with names of their own for all columns."""
    return tuple(
        frame.selectExpr(*(f"{name} AS {name}_{side}" for name in ("id", *COORDINATES)))
        for frame, side in ((a, "a"), (b, "b"))
    )


def _is_close(epsilon: float) -> str:
    squares = (f"(({name}_a - {name}_b) * ({name}_a - {name}_b))" for name in COORDINATES)
    return f"{' + '.join(squares)} < {epsilon * epsilon!r}D"


def join_by_cells(dimensions: int) -> Way:
    """Return the join that people write by hand.

    Points of `a` are in one cell of a grid over some dimensions, points of `b` are repeated for
    their own cell and all neighbours, and an equi-join brings them together.
    """

    def run(a: Any, b: Any, epsilon: float) -> Any:
        left, right = _name_sides(a, b)
        width = epsilon * (1 + MARGIN)
        names = COORDINATES[:dimensions]
        cells = [f"CAST(floor({name}_{{0}} / {width!r}D) AS INT)" for name in names]
        left = left.selectExpr(
            "*", *(f"{cell.format('a')} AS cell{i}" for i, cell in enumerate(cells))
        )
        steps = ", ".join(
            "named_struct(" + ", ".join(f"'s{i}', {s}" for i, s in enumerate(step)) + ")"
            for step in product((-1, 0, 1), repeat=dimensions)
        )
        right = right.selectExpr("*", f"explode(array({steps})) AS step").selectExpr(
            *right.columns,
            *(f"{cell.format('b')} + step.s{i} AS cell{i}" for i, cell in enumerate(cells)),
        )
        joined = left.join(right, [f"cell{i}" for i in range(dimensions)])
        return joined.where(_is_close(epsilon)).select("id_a", "id_b")

    return run


def join_crosswise(a: Any, b: Any, epsilon: float) -> Any:
    left, right = _name_sides(a, b)
    return left.crossJoin(right).where(_is_close(epsilon)).select("id_a", "id_b")


def join_with_lsh(settings: LshSettings, a: Any, b: Any) -> Way:
    """Return MLlib's approximate join of two frames; vectors are made before it is timed."""
    from pyspark.ml.feature import BucketedRandomProjectionLSH, VectorAssembler

    assembler = VectorAssembler(inputCols=COORDINATES, outputCol="features")
    left, right = (assembler.transform(frame).select("id", "features").cache() for frame in (a, b))

    def run(a: Any, b: Any, epsilon: float) -> Any:
        model = BucketedRandomProjectionLSH(
            inputCol="features",
            outputCol="hashes",
            bucketLength=settings.bucket * epsilon,
            numHashTables=settings.tables,
            seed=1,
        ).fit(left)
        found = model.approxSimilarityJoin(left, right, epsilon)
        return found.selectExpr("datasetA.id AS id_a", "datasetB.id AS id_b")

    return run


# ------------------------------------------------------------ measuring


def make_points(spark: Any, n: int, seed: int) -> Any:
    points = np.random.default_rng(seed).random((n, len(COORDINATES)))
    columns = {name: points[:, i] for i, name in enumerate(COORDINATES)}
    frame = spark.createDataFrame(pa.table({"id": np.arange(n), **columns})).repartition(8).cache()
    frame.count()
    return frame


def digest(pairs: Any) -> tuple[int, int]:
    """Return the number of pairs and the sum of their hashes."""
    # Halves of hashes: the sum of 64-bit ones would overflow.
    row = pairs.selectExpr("count(*)", "sum(xxhash64(id_a, id_b) >> 24)").first()
    return row[0], row[1] or 0


class Benchmark:
    def __init__(self, n: int, repetitions: int):
        self.n, self.repetitions = n, repetitions
        self.spark = tocsin.spark.session(cores=2, config={"spark.driver.memory": "6g"})
        self.a, self.b = (make_points(self.spark, n, seed) for seed in (0, 1))
        self.epsilon = choose_epsilon(n)
        self.section = Section(
            f"{n:,} x {n:,} points in 4-D, epsilon {self.epsilon:.4g}",
            "way", "seconds", "pairs", "recall", "time / Tocsin's", "target", "met",
        )  # fmt: skip

    def run(self) -> None:
        self.compare_exact()
        log("scaled")
        few = min(self.n, MOST_QUADRATIC)
        a, b = (frame.where(f"id < {few}").repartition(8).cache() for frame in (self.a, self.b))
        expected = digest(join_with_tocsin(a, b, self.epsilon))
        for settings in LSH_TRIED:
            name = f"MLlib's LSH join, {settings}"
            self.add_scaled(name, join_with_lsh(settings, a, b), a, b, few, expected, False)
        self.add_scaled("cross join", join_crosswise, a, b, few, expected, True)

    def compare_exact(self) -> None:
        """Compare the ways that manage all points."""
        by_hand = {f"cells over {k} dimensions": join_by_cells(k) for k in (2, 4)}
        ways = {"Tocsin": join_with_tocsin} | by_hand
        expected = digest(join_with_tocsin(self.a, self.b, self.epsilon))
        best = dict.fromkeys(ways, float("inf"))
        for turn in range(self.repetitions):
            for name, way in ways.items():
                log(name)
                if not turn:
                    check(name, digest(way(self.a, self.b, self.epsilon)), expected)
                best[name] = min(best[name], time_join(way, self.a, self.b, self.epsilon))
        pairs = f"{expected[0]:,}"
        self.seconds = best["Tocsin"]
        self.add_row("`tocsin.spark.similarity_join`", self.seconds, pairs, "100%")
        fastest = min(by_hand, key=best.__getitem__)
        for name in by_hand:
            described = f"by hand: {name}, neighbours exploded, equi-join"
            self.add_row(described, best[name], pairs, "100%", is_target=name == fastest)

    def add_scaled(
        self, name: str, way: Way, a: Any, b: Any, few: int, expected: tuple[int, int], exact: bool
    ) -> None:
        """Time a way with fewer points, and add a row with its time scaled to all points."""
        log(name)
        found = digest(way(a, b, self.epsilon))
        if exact:
            check(name, found, expected)
        seconds = min(time_join(way, a, b, self.epsilon) for _ in range(self.repetitions))
        recall = f"{found[0] / max(expected[0], 1):.0%}"
        described = f"{name}; scaled from {seconds:,.3g} s for {few:,} x {few:,}"
        self.add_row(described, seconds * (self.n / few) ** 2, "", recall)

    def add_row(
        self, name: str, seconds: float, pairs: str, recall: str, is_target: bool = False
    ) -> None:
        ratio = seconds / self.seconds
        target = (f"at least {TARGET} x", ratio >= TARGET) if is_target else ("", None)
        self.section.add_row(name, f"{seconds:,.3g}", pairs, recall, f"{ratio:,.1f} x", *target)


def time_join(way: Way, a: Any, b: Any, epsilon: float) -> float:
    """Return the seconds to plan a join and to write its pairs to a sink that drops them."""
    start = time.perf_counter()
    way(a, b, epsilon).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    parser.add_argument("--points", type=int, help="of each side, instead of those of the size")
    arguments = parser.parse_args()
    repetitions = 1 if arguments.size == "tiny" else 3
    benchmark = Benchmark(arguments.points or SIZES[arguments.size], repetitions)
    benchmark.run()
    benchmark.spark.stop()
    show("Similarity joins on Spark", [benchmark.section])
    if arguments.out:
        head = [
            "# Benchmark: similarity joins on Spark",
            "",
            "Generated by `python -m benchmarks.similarity_spark --out",
            "docs/benchmarks-similarity-spark.md`. Local mode on two cores, the best of several",
            "repetitions. Times cover planning, with the samples of Tocsin, and writing the",
            "ids of all pairs to a sink that drops them. Exact ways find the same pairs. A scaled",
            "time is multiplied by the number of comparisons; recall is that of the fewer points.",
            "",
            f"{platform.machine()}, Python {platform.python_version()}, "
            f"{package_versions('pyspark numpy numba')}.",
        ]
        write(arguments.out, head, [benchmark.section])


if __name__ == "__main__":
    main()
