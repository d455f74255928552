"""A range join on Spark in three ways: as SQL, binned by hand, and with Tocsin.

    python -m examples.range_join [--events 1000000] [--fences 5000]

Events are points and fences are boxes; the join finds the fences that each event is in. Spark has
no range join, so the plain join compares every event with every fence (a broadcast nested loop).
The usual workaround is binning: divide the plane into squares, repeat each fence for every square
that it touches, join on the square, and filter. It needs a bin size, so several are tried. Tocsin
needs none. docs/spark.md shows the output.
"""

from __future__ import annotations

import argparse
import time

import tocsin.spark


def generate_city(spark, events: int, fences: int):
    """Return events (event, x, y) and fences (id, x_low, x_high, y_low, y_high) in [0, 1]^2."""
    side = "0.002 + 0.018 * rand(3)"
    points = spark.range(events, numPartitions=8).selectExpr(
        "id AS event", "rand(1) AS x", "rand(2) AS y"
    )
    corners = spark.range(fences).selectExpr(
        "id", "rand(4) AS x_low", f"{side} AS w", "rand(5) AS y_low", f"{side} AS h"
    )
    boxes = corners.selectExpr("id", "x_low", "x_low + w AS x_high", "y_low", "y_low + h AS y_high")
    return points.localCheckpoint(), boxes.localCheckpoint()


INSIDE = "x BETWEEN x_low AND x_high AND y BETWEEN y_low AND y_high"


def join_on_condition(points, boxes):
    """Join on the condition itself."""
    from pyspark.sql.functions import broadcast, expr

    return points.join(broadcast(boxes), expr(INSIDE)).select("event", "id")


def join_on_bins(points, boxes, bins: int):
    """Join on squares, then filter by the condition."""
    from pyspark.sql.functions import broadcast, expr

    squares = boxes.selectExpr(
        "*", f"explode(sequence(int(x_low * {bins}), int(x_high * {bins}))) AS i"
    ).selectExpr("*", f"explode(sequence(int(y_low * {bins}), int(y_high * {bins}))) AS j")
    binned_points = points.selectExpr("*", f"int(x * {bins}) AS i", f"int(y * {bins}) AS j")
    joined = binned_points.join(broadcast(squares), ["i", "j"])
    return joined.where(expr(INSIDE)).select("event", "id")


def match_with_tocsin(points, boxes):
    """Match the points with the boxes."""
    return tocsin.spark.match(points, boxes, keep=["event"])


def run(make_frame) -> tuple[float, int]:
    """Return the seconds for planning and running, and the number of pairs."""
    start = time.perf_counter()
    pairs = make_frame().count()
    return time.perf_counter() - start, pairs


def main() -> None:
    """Run all ways and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--fences", type=int, default=5_000)
    arguments = parser.parse_args()
    spark = tocsin.spark.session()
    points, boxes = generate_city(spark, arguments.events, arguments.fences)
    few = points.limit(1000)
    ways = {"a join on the condition": lambda p: join_on_condition(p, boxes)}
    for bins in (30, 60, 120):
        name = f"a join on {bins} x {bins} squares"
        ways[name] = lambda p, bins=bins: join_on_bins(p, boxes, bins)
    ways["tocsin.spark.match"] = lambda p: match_with_tocsin(p, boxes)
    print(f"{arguments.events:,} events, {arguments.fences:,} fences")
    counts = set()
    for name, join in ways.items():
        run(lambda join=join: join(few))  # warm up Spark
        seconds, pairs = run(lambda join=join: join(points))
        counts.add(pairs)
        print(f"  {name:<28} {seconds:7.1f} s   {pairs:,} pairs", flush=True)
    assert len(counts) == 1, "all ways must find the same number of pairs"


if __name__ == "__main__":
    main()
