"""Matching on Spark, compared with an identity `mapInArrow` of the same input and output shape.

    python -m benchmarks.spark_matching [--size tiny|full] [--out docs/benchmarks-spark.md]

10 million events, 1,000 rules, about one match per event, one column kept; local mode, two cores,
both warm, taking turns. The identity passes its input through Python and adds a column, so the
difference is the matching. Also: publishing one changed rule to a store of a million.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import tocsin
import tocsin.spark
from benchmarks.spine import Report

SIZES = {"tiny": (20_000, 100, 2_000), "full": (10_000_000, 1_000, 1_000_000)}


def identity(batches):
    """Yield the kept column and a column of the type of ids."""
    for batch in batches:
        rules = pa.array(np.zeros(batch.num_rows, np.int64))
        yield pa.RecordBatch.from_arrays([batch.column(0), rules], ["event", "rule"])


def time_write(frame) -> float:
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def check(frame, rules, low, side) -> None:
    """Compare the matches of a few events with those of NumPy."""
    table = frame.toArrow()
    x, y = table["x"].to_numpy()[:, None], table["y"].to_numpy()[:, None]
    inside = (low[0] <= x) & (x <= low[0] + side) & (low[1] <= y) & (y <= low[1] + side)
    events, inside_rules = np.nonzero(inside)
    event_ids = table["event"].to_numpy()[events]
    expected = set(zip(event_ids.tolist(), inside_rules.tolist(), strict=True))
    ours = tocsin.spark.match(frame, rules, keep=["event"]).toArrow()
    pairs = zip(ours["event"].to_pylist(), ours["rule"].to_pylist(), strict=True)
    assert expected
    assert set(pairs) == expected


def measure_matching(report: Report, events: int, rules_count: int, repetitions: int) -> None:
    spark = tocsin.spark.session(cores=2)
    rng = np.random.default_rng(3)
    side = (1 / rules_count) ** 0.5  # squares that cover the domain once: one match per event
    low = rng.random((2, rules_count)) * (1 - side)
    rules = tocsin.Rules({"x": "number", "y": "number"})
    rules.add_many(
        pa.table(
            {"id": np.arange(rules_count), "x_low": low[0], "x_high": low[0] + side,
             "y_low": low[1], "y_high": low[1] + side}
        )
    )  # fmt: skip
    frame = spark.range(events, numPartitions=8).selectExpr(
        "id AS event", "rand(1) AS x", "rand(2) AS y"
    )
    frame = frame.cache()
    frame.count()
    peer = frame.mapInArrow(identity, "event BIGINT, rule BIGINT")
    ours = tocsin.spark.match(frame, rules, keep=["event"])
    check(frame.where("event < 1000"), rules, low, side)
    rate = ours.count() / events
    best = [float("inf")] * 2
    for _ in range(repetitions):
        for i, plan in enumerate((ours, peer)):
            best[i] = min(best[i], time_write(plan))
    task = f"{events:,} events x {rules_count:,} rules, {rate:.2f} matches per event"
    report.add_comparison(task, best[0], best[1], "identity")
    report.add_share("  speed relative to the identity", best[1] / best[0], 0.8)
    spark.stop()


def measure_publishing(report: Report, rules_count: int) -> None:
    rules = tocsin.Rules({"x": "number", "y": "number"})
    low = np.random.default_rng(5).random((2, rules_count))
    ids = [f"rule-{i}" for i in range(rules_count)]
    rules.add_many(pa.table({"id": ids, "x_low": low[0], "y_low": low[1]}))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        rules.save(path)
        store = tocsin.RuleStore(path)
        store.replace("rule-0", "x > 0.5")
        seconds = []
        for i in range(1, 10):
            start = time.perf_counter()
            store.replace(f"rule-{i}", "x > 0.5 AND y < 0.5")
            seconds.append(time.perf_counter() - start)
    task = f"publish one changed rule of {rules_count:,} (median)"
    report.add_target(task, float(np.median(seconds)), 0.05, "s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, help="also write the table as Markdown")
    arguments = parser.parse_args()
    events, rules_count, stored = SIZES[arguments.size]
    report = Report("Spark and rule stores", "benchmarks/spark_matching.py", arguments.size)
    measure_matching(report, events, rules_count, 1 if arguments.size == "tiny" else 3)
    measure_publishing(report, stored)
    report.show()
    if arguments.out:
        report.write(arguments.out)


if __name__ == "__main__":
    main()
