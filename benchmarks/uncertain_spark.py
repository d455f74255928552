"""Range queries over uncertain readings on Spark, against an identity `mapInArrow` and others.

    python -m benchmarks.uncertain_spark [--size tiny|full] [--only uniform,groups] [--out FILE]

10 million readings; local mode, two cores, cached, all warm, taking turns. A third of the readings
may be in the range. Every way gives the columns of these and their probability, which are written
to a sink that drops them. The identity passes all columns of all readings through Python and adds a
constant: what any way with Python costs at least. All ways are compared by the number of rows and
the sum of their probabilities. `tiny` only shows that the benchmark runs.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin.spark
from benchmarks.tables import Section, show, write
from benchmarks.timing import check, log, package_versions
from tocsin.spark import uncertain

TARGET = 1.5  # times the seconds of the identity, at most
SIZES = {"tiny": 20_000, "full": 10_000_000}
LOW, HIGH = 20.0, 25.0
AT = 100.0
GROUPS = 1_000

Way = Callable[[Any], Any]  # from readings to rows with a probability

# Values from 0 to 40 and intervals of up to 12 around them.
FRAMES = {
    "uniform": ("middle - 6 * width AS low", "middle + 6 * width AS high"),
    "growing": ("middle AS value", "0.06 * width AS rate", f"{AT} - 100 * share AS time"),
    "histogram": (
        "transform(sequence(0, 4), i -> middle + (3 * i - 6) * (width + 0.01)) AS edges",
        "array(0.1D, 0.4D, 0.3D, 0.2D) AS weights",
    ),
    "normal": (
        "middle - 6 * width AS low",
        "middle + 6 * width AS high",
        "middle AS mean",
        "0.1 + 3 * width AS deviation",
    ),
}


def make_frame(spark: Any, family: str, n: int) -> Any:
    numbers = spark.range(n, numPartitions=8).selectExpr(
        "id", f"id % {GROUPS} AS floor", "40 * rand(1) AS middle", "rand(2) AS width",
        "rand(3) AS share",
    )  # fmt: skip
    frame = numbers.selectExpr("id", "floor", *FRAMES[family]).cache()
    frame.count()
    return frame


# ------------------------------------------------------------ ways


def ask_tocsin(frame: Any) -> Any:
    at = AT if "rate" in frame.columns else None
    return uncertain.in_range(frame, LOW, HIGH, at=at)


def pass_through(frame: Any) -> Any:
    """Return all rows with a constant, through Python."""

    def add_constant(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ones = pa.array(np.ones(batch.num_rows))
            columns, names = [*batch.columns, ones], [*batch.schema.names, "probability"]
            yield pa.RecordBatch.from_arrays(columns, names)

    fields = ", ".join(f"{name} {type_}" for name, type_ in frame.dtypes)
    return frame.mapInArrow(add_constant, f"{fields}, probability DOUBLE")


def write_sql(frame: Any) -> Any:
    """Return what people write for uniform readings, without any checks."""
    share = f"(least(high, {HIGH}D) - greatest(low, {LOW}D)) / (high - low)"
    return frame.selectExpr("*", f"greatest({share}, 0D) AS probability").where("probability > 0")


def write_pandas_udf(frame: Any) -> Any:
    """Return the same by a pandas UDF."""
    from pyspark.sql.functions import pandas_udf

    @pandas_udf("double")
    def share(low, high):
        inside = np.minimum(high, HIGH) - np.maximum(low, LOW)
        return np.maximum(inside, 0) / (high - low)

    return frame.select("*", share("low", "high").alias("probability")).where("probability > 0")


# ------------------------------------------------------------ measuring


def digest(rows: Any) -> tuple[int, float]:
    row = rows.selectExpr("count(*)", "round(sum(probability), 3)").first()
    return row[0], row[1]


def time_write(rows: Any) -> float:
    start = time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def measure_ranges(spark: Any, n: int, repetitions: int, only: list[str]) -> Section:
    """Compare range queries of all families with an identity over the same columns."""
    section = Section(
        f"Which of {n:,} readings are in a range",
        "readings, way", "seconds", "rows", "time / identity's", "target", "met",
    )  # fmt: skip
    for family in FRAMES:
        if family not in only:
            continue
        log(family)
        frame = make_frame(spark, family, n)
        ways: dict[str, Way] = {"`in_range`": ask_tocsin, "identity `mapInArrow`": pass_through}
        expected = digest(ask_tocsin(frame))
        if family == "uniform":
            by_hand: dict[str, Way] = {
                "SQL by hand, unchecked": write_sql,
                "pandas UDF": write_pandas_udf,
            }
            for name, way in by_hand.items():
                check(name, digest(way(frame)), expected)
            ways |= by_hand
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(repetitions):
            for name, way in ways.items():
                best[name] = min(best[name], time_write(way(frame)))
        frame.unpersist()
        for name, seconds in best.items():
            ratio = seconds / best["identity `mapInArrow`"]
            # Normals go through Python.
            is_target = name == "`in_range`" and family != "normal"
            target = (f"at most {TARGET} x", ratio <= TARGET) if is_target else ("", None)
            rows = f"{n if name.startswith('identity') else expected[0]:,}"
            section.add_row(f"{family}, {name}", f"{seconds:.3g}", rows, f"{ratio:.2f} x", *target)
    return section


def measure_groups(spark: Any, n: int, repetitions: int) -> Section:
    """Time queries by group; there is no peer."""
    section = Section(f"{n:,} uniform readings in {GROUPS:,} groups", "query", "seconds", "rows")
    frame = make_frame(spark, "uniform", n)
    queries: dict[str, Way] = {
        "`minimum`": lambda f: uncertain.minimum(f, by=["floor"]),
        "`nearest`": lambda f: uncertain.nearest(f, 21.0, by=["floor"]),
        "`minimum`, one group": uncertain.minimum,
        "`total`": lambda f: uncertain.total(f, by=["floor"]),
    }
    for name, query in queries.items():
        log(name)
        rows = query(frame).count()
        seconds = min(time_write(query(frame)) for _ in range(repetitions))
        section.add_row(name, f"{seconds:.3g}", f"{rows:,}")
    frame.unpersist()
    return section


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parts = ",".join([*FRAMES, "groups"])
    parser.add_argument("--only", default=parts, help=f"some of {parts}")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    if unknown := set(only) - set(parts.split(",")):
        parser.error(f"--only knows {parts}; got {', '.join(sorted(unknown))}")
    n, repetitions = SIZES[arguments.size], 1 if arguments.size == "tiny" else 4
    spark = tocsin.spark.session(cores=2, config={"spark.driver.memory": "6g"})
    sections = [measure_ranges(spark, n, repetitions, only)]
    if "groups" in only:
        sections.append(measure_groups(spark, n, repetitions))
    spark.stop()
    show("Uncertain values on Spark", sections)
    if arguments.out:
        head = [
            "# Benchmark: uncertain values on Spark",
            "",
            "Generated by `python -m benchmarks.uncertain_spark --out",
            "docs/benchmarks-uncertain-spark.md`. Local mode on two cores, the best of several",
            "repetitions in turns, readings cached. Results are written to a sink that drops them.",
            "",
            f"{platform.machine()}, Python {platform.python_version()}, "
            f"{package_versions('pyspark numpy numba')}.",
        ]
        write(arguments.out, head, sections)


if __name__ == "__main__":
    main()
