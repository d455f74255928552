"""A stream of positions on Spark: `tocsin.spark.monitor` against Spark's own state, in Python.

    python -m benchmarks.moving_spark [--size tiny|full] [--only stream,peer] [--out FILE]

Local mode, two cores. Each micro-batch has a million positions, in two Parquet files, of objects
that walk among 25,000 squares; keys are integers, times are timestamps, rules are in a store, and
state and events are written to disk. The first micro-batches, in which objects appear and workers
start, do not count. The peer is `applyInPandasWithState` with shapely's tree in each worker, at a
size that it manages, and Tocsin at the same size. Events of both are compared with those of
`tocsin.Monitor`. `tiny` only shows that the benchmark runs; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tocsin
import tocsin.spark
from benchmarks.moving_fleet import Fleet
from benchmarks.tables import Section, show, write
from benchmarks.timing import check, log, package_versions

SIZES: dict[str, tuple[tuple[int, ...], int, int, tuple[tuple[int, int], ...]]] = {
    # Numbers of objects; rows of a micro-batch; fences; the peer's objects, and rows.
    "tiny": ((50, 200), 200, 100, ((50, 100),)),
    "full": (
        (10_000, 100_000, 1_000_000),
        1_000_000,
        25_000,
        ((5_000, 5_000), (10_000, 1_000_000)),
    ),
}
BATCHES, WARM = 8, 3  # micro-batches, and those of them that do not count
RATE_TARGET, GROWTH_TARGET = 250_000, 1.5

Way = Callable[["Files", Any], Any]  # from files and a session to a stream of events


class Files:
    """Positions in files, two for each micro-batch, and the rules in a store."""

    def __init__(self, folder: Path, objects: int, fences: int, rows: int):
        self.folder, self.fleet = folder, Fleet(objects, fences, "integer keys")
        self.rules = str(folder / "fences")
        self.fleet.rules().save(self.rules)
        self.batches = [self.make_rows(rows) for _ in range(BATCHES)]
        (folder / "positions").mkdir()
        for number, batch in enumerate(self.batches):
            for half in range(2):
                path = folder / "positions" / f"{number:02d}-{half}.parquet"
                pq.write_table(batch.slice(half * (rows // 2), rows // 2), path)
                os.utime(path, (1_700_000_000 + number,) * 2)  # they are read in this order

    def make_rows(self, rows: int) -> pa.Table:
        """Return the reports of all objects in steps, until there are enough rows."""
        objects = len(self.fleet.keys)
        steps = [self.fleet.move(min(rows, objects)) for _ in range(max(1, rows // objects))]
        table = pa.concat_tables(steps)
        micros = pc.cast(pc.multiply(table["t"], 1e6), pa.int64()).cast(pa.timestamp("us", "UTC"))
        return table.set_column(1, "t", micros).combine_chunks()

    def stream(self, spark: Any) -> Any:
        schema = "object BIGINT, t TIMESTAMP, x DOUBLE, y DOUBLE"
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2)
        return reader.parquet(str(self.folder / "positions"))

    def expected(self) -> pa.Table:
        """Return the events of a monitor in one process."""
        monitor = tocsin.Monitor(self.rules)
        return pa.concat_tables([monitor.update(batch) for batch in self.batches])


def run_stream(name: str, files: Files, events: Any) -> tuple[list[float], pa.Table]:
    """Run a stream to its end; return the seconds of micro-batches that count, and all events."""
    out = files.folder / name
    writer = events.writeStream.format("parquet").option("path", str(out))
    writer = writer.option("checkpointLocation", str(files.folder / f"{name}-checkpoint"))
    query = writer.trigger(processingTime="0 seconds").start()
    query.processAllAvailable()
    progress = [p for p in query.recentProgress if p["numInputRows"]]
    query.stop()
    check("micro-batches", len(progress), BATCHES)
    seconds = [p["durationMs"]["triggerExecution"] / 1e3 for p in progress]
    return seconds[WARM:], pq.read_table(out)


def digest(events: pa.Table) -> list[Any]:
    """Return events in a fixed order."""
    columns = {name: events[name].cast(pa.string()) for name in ("object", "rule", "event")}
    times = events["time"].cast(pa.timestamp("us", "UTC"))
    table = pa.table({**columns, "time": times})
    return [
        column.to_numpy()
        for column in table.sort_by([(n, "ascending") for n in table.column_names])
    ]


# ------------------------------------------------------------ ways


def ask_tocsin(files: Files, spark: Any) -> Any:
    return tocsin.spark.monitor(files.stream(spark), files.rules, state=files.folder / "state")


def ask_pandas(files: Files, spark: Any) -> Any:
    """Return events by a function of each object's rows and the fences that it was in."""
    boxes = files.folder / "boxes.npy"
    np.save(boxes, files.fleet.boxes)
    rows = files.stream(spark).groupBy("object")
    return rows.applyInPandasWithState(
        functools.partial(follow_object, boxes),
        "object BIGINT, rule BIGINT, event STRING, time TIMESTAMP", "inside BINARY",
        "append", "NoTimeout",
    )  # fmt: skip


def follow_object(boxes: Path, key: Any, parts: Iterator[Any], state: Any) -> Iterator[Any]:
    """Yield the events of an object's rows."""
    import pandas
    import shapely

    from benchmarks.moving_spark import load_tree  # the worker's own, which stays

    columns = [{name: part[name].to_numpy() for name in ("t", "x", "y")} for part in parts]
    times, x, y = (np.concatenate([part[name] for part in columns]) for name in ("t", "x", "y"))
    order = np.argsort(times)
    points, fences = load_tree(boxes).query(shapely.points(x[order], y[order]))
    starts = np.searchsorted(points, np.arange(len(order) + 1))
    inside = set(np.frombuffer(state.get[0], np.int64).tolist()) if state.exists else set()
    found = []
    for point, time in enumerate(times[order]):
        now = set(fences[starts[point] : starts[point + 1]].tolist())
        found += [(key[0], fence, "leave", time) for fence in inside - now]
        found += [(key[0], fence, "enter", time) for fence in now - inside]
        inside = now
    state.update((np.array(list(inside), np.int64).tobytes(),))
    if found:
        yield pandas.DataFrame(found, columns=["object", "rule", "event", "time"])


@functools.cache
def load_tree(boxes: Path) -> Any:
    """Return a tree over the fences."""
    import shapely

    return shapely.STRtree(shapely.box(*np.load(boxes)))


# ------------------------------------------------------------ measuring


def measure(
    spark: Any, ways: dict[str, Way], objects: int, rows: int, fences: int
) -> dict[str, float]:
    """Run all ways over the same files; return the median seconds of a micro-batch of each."""
    medians = {}
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder), objects, fences, rows)
        expected = digest(files.expected())
        for name, way in ways.items():
            log(f"{objects:,} objects, {name}")
            seconds, events = run_stream(name, files, way(files, spark))
            for ours, theirs in zip(digest(events), expected, strict=True):
                check(name, np.array_equal(ours, theirs), True)
            medians[name] = float(np.median(seconds))
    return medians


def measure_stream(spark: Any, size: str) -> Section:
    numbers, rows, fences, _ = SIZES[size]
    section = Section(
        f"Micro-batches of {rows:,} positions among {fences:,} squares",
        "objects", "seconds", "positions per second", "target", "met",
        "cost per position, relative to the first", "target ", "met ",
    )  # fmt: skip
    first = None
    for objects in numbers:
        (seconds,) = measure(spark, {"monitor": ask_tocsin}, objects, rows, fences).values()
        first = first or seconds
        growth = seconds / first
        section.add_row(
            f"{objects:,}", f"{seconds:.2f}", f"{rows / seconds:,.0f}",
            f"at least {RATE_TARGET:,}", rows / seconds >= RATE_TARGET,
            f"{growth:.2f} x", f"at most {GROWTH_TARGET:g} x", growth <= GROWTH_TARGET,
        )  # fmt: skip
    return section


def measure_peer(spark: Any, size: str) -> Section:
    _, _, fences, sizes = SIZES[size]
    section = Section(
        "The peer, at sizes that it manages", "positions in a micro-batch, by", "seconds",
        "positions per second", "relative to Tocsin's time",
    )  # fmt: skip
    ways: dict[str, Way] = {"monitor": ask_tocsin, "applyInPandasWithState": ask_pandas}
    for objects, rows in sizes:
        medians = measure(spark, ways, objects, rows, fences)
        for name, seconds in medians.items():
            section.add_row(
                f"{rows:,} of {objects:,} objects, `{name}`", f"{seconds:.2f}",
                f"{rows / seconds:,.0f}", f"{seconds / medians['monitor']:.1f} x",
            )  # fmt: skip
    return section


PARTS = {"stream": measure_stream, "peer": measure_peer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, help="also write the tables as Markdown")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    if unknown := set(only) - set(PARTS):
        parser.error(f"--only knows {', '.join(PARTS)}; got {', '.join(sorted(unknown))}")
    os.environ["PYTHONWARNINGS"] = "ignore"  # of pandas, in PySpark's own code
    spark = tocsin.spark.session(cores=2, config={"spark.driver.memory": "4g"})
    sections = [PARTS[part](spark, arguments.size) for part in only]
    spark.stop()
    show(f"Moving objects on Spark, size {arguments.size}", sections)
    if arguments.out:
        head = [
            "# Benchmark: moving objects on Spark",
            "",
            "Generated by `make bench` (benchmarks/moving_spark.py). A stream of Parquet files in",
            "local mode on two cores; keys are integers, times timestamps, and rules in a store.",
            f"State and events are written to disk. Seconds are the median of {BATCHES - WARM}",
            f"micro-batches, as Spark reports them, after {WARM} that do not count.",
            "All events are compared with those of `tocsin.Monitor`. The peer has Spark's state in",
            "memory, and finds fences by shapely's tree, which each worker builds once.",
            "",
            f"Size {arguments.size}; {platform.machine()}, Python {platform.python_version()},",
            f"{package_versions('pyspark shapely pandas numpy numba pyarrow')}.",
        ]
        write(arguments.out, head, sections)


if __name__ == "__main__":
    main()
